"""Running an algorithm on a problem: its refusals, its clock, its warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import check
from ...core.errors import ConvergenceError, ConvergenceWarning, OptionError, UnsupportedError
from ...core.registry import describe, or_else
from ...core.result import FactorMarginals, Result
from ...core.stopwatch import Stopwatch
from .base import Algorithm, Budget, Problem, algorithms
from .reading import Posed, pose_for

__all__ = ["chosen", "generator_of", "opened", "run_algorithm"]


def chosen(
    method: str | Algorithm | None, problem: Problem, choose: Callable[[Problem], tuple[Algorithm, str]]
) -> tuple[Any, tuple[str, ...]]:
    """The algorithm asked for, or the one a rule chooses with the sentence that says so."""
    if method is not None:
        return algorithms.resolve(method), ()
    algorithm, note = choose(problem)
    return algorithm, (note,)


def opened(path: Any, every: float, warm: Any) -> Any:
    """The checkpoint of a call."""
    from ...optimise.checkpoint import Checkpoint

    if warm is not None:
        raise OptionError("checkpoint: it keeps where a run began too; leave out warm_start")
    return Checkpoint(path, every)


def generator_of(seed: Any, keep: Any, algorithm: Any, problem: Any, original: Any) -> np.random.Generator:
    """The generator of a run; the checkpoint, if there is one, is told what the run is about."""
    if keep is None:
        return check.generator(seed)
    from ...core.fingerprint import fingerprint

    if not getattr(algorithm, "checkpoints", False):
        from .alternatives import alternatives

        able = alternatives(problem, lambda known: known.checkpoints)
        raise UnsupportedError(
            f"{getattr(algorithm, 'name', algorithm)} keeps no checkpoints; leave out checkpoint"
            + (f", or use {or_else(able)}" if able else "")
        )
    rng: np.random.Generator = keep.generator(seed)
    question = {k: v for k, v in vars(problem).items() if k in _QUESTION}
    keep.identify(
        {
            "method": describe(algorithm),
            "model": fingerprint(original),
            "evidence": fingerprint(problem.graph),
            "question": fingerprint(question),
        }
    )
    return rng


_QUESTION = ("temperatures", "levels", "query", "samples")  # fields of problems


def run_algorithm(
    algorithm: Any,
    problem: Problem,
    budget: Budget,
    rng: np.random.Generator,
    notes: tuple[str, ...] = (),
    *,
    strict: bool,
    watch: Callable[[Posed], None] | None = None,
) -> Result:
    """The answer of a run; a run that did not end well warns, or raises if `strict`.

    `watch` is told how the problem was posed before the run begins.
    """
    if not isinstance(algorithm, Algorithm):
        raise OptionError(f"method: expected a name or an Algorithm, got {algorithm!r}")
    posed = pose_for(algorithm, problem)
    reason = posed if isinstance(posed, str) else algorithm.why_not(posed.problem)
    if isinstance(posed, str) or reason is not None:
        from .alternatives import way_out

        told = "" if reason and "; " in reason else f"; {way_out(problem, algorithm.name)}"
        raise UnsupportedError(f"{algorithm.name} cannot treat this problem: {reason}{told}")
    if problem.warm is not None and not algorithm.warm_starts:
        raise UnsupportedError(f"{algorithm.name} cannot start from an earlier result; leave out warm_start")
    if watch is not None:
        watch(posed)
    clock = Stopwatch()
    result = posed.complete(_with_slopes(posed.problem, algorithm.run(posed.problem, budget, rng)))
    seconds, compiling = clock.seconds, clock.compile_seconds
    if not result.status.is_success:
        sentence = f"{algorithm.name}: {result.advice}"
        if strict:
            raise ConvergenceError(sentence)
        warnings.warn(sentence, ConvergenceWarning, stacklevel=5)
    return result.but(
        algorithm=describe(algorithm),
        seconds=seconds,
        compile_seconds=compiling,
        notes=(*notes, *result.notes),
    )


def _with_slopes(problem: Problem, result: Result) -> Result:
    """The derivative of a maximum: the indicator of the states that attain it, as far as was found."""
    if not problem.is_max or result.assignment is None or result.factor_marginals is not None:
        return result
    states = result.assignment.indices
    if not problem.graph.is_tables or (states < 0).any():
        return result
    return result.but(factor_marginals=FactorMarginals.indicator(problem.graph, states))
