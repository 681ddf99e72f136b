"""Running an algorithm on a problem: its refusals, its clock, its warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import ConvergenceError, ConvergenceWarning, OptionError, UnsupportedError
from ..core.registry import describe
from ..core.result import Result
from ..core.stopwatch import Stopwatch
from .base import Algorithm, Budget, algorithms

__all__ = ["chosen", "generator_of", "opened", "run_algorithm"]


def chosen(
    method: str | Algorithm | None, problem: Any, choose: Callable[[Any], tuple[Algorithm, str]]
) -> tuple[Any, tuple[str, ...]]:
    """The algorithm asked for, or the one a rule chooses with the sentence that says so."""
    if method is not None:
        return algorithms.resolve(method), ()
    algorithm, note = choose(problem)
    return algorithm, (note,)


def opened(path: Any, every: float, warm: Any) -> Any:
    """The checkpoint of a call."""
    from ..optimise.checkpoint import Checkpoint

    if warm is not None:
        raise OptionError("checkpoint: it keeps where a run began too; leave out warm_start")
    return Checkpoint(path, every)


def generator_of(seed: Any, keep: Any, algorithm: Any, problem: Any, original: Any) -> np.random.Generator:
    """The generator of a run; the checkpoint, if there is one, is told what the run is about."""
    if keep is None:
        return check.generator(seed)
    from ..core.fingerprint import fingerprint

    if not getattr(algorithm, "checkpoints", False):
        able = [name for name, known in algorithms.entries().items() if known.checkpoints]
        raise UnsupportedError(
            f"{getattr(algorithm, 'name', algorithm)} keeps no checkpoints; leave out checkpoint, or use one "
            f"of {able}"
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


_QUESTION = ("temperatures", "levels", "query", "samples", "maximise", "asked")  # fields of problems


def run_algorithm(
    algorithm: Any,
    problem: Any,
    budget: Budget,
    rng: np.random.Generator,
    notes: tuple[str, ...] = (),
    *,
    strict: bool,
) -> Result:
    """The answer of a run; a run that did not end well warns, or raises if `strict`."""
    if not isinstance(algorithm, Algorithm):
        raise OptionError(f"method: expected a name or an Algorithm, got {algorithm!r}")
    reason = algorithm.why_not(problem)
    if reason is not None:
        raise UnsupportedError(f"{algorithm.name} cannot treat this problem: {reason}")
    if problem.warm is not None and not algorithm.warm_starts:
        raise UnsupportedError(f"{algorithm.name} cannot start from an earlier result; leave out warm_start")
    watch = Stopwatch()
    result = algorithm.run(problem, budget, rng)
    seconds, compiling = watch.seconds, watch.compile_seconds
    if not result.status.is_success:
        sentence = f"{algorithm.name}: {result.advice}"
        if strict:
            raise ConvergenceError(sentence)
        warnings.warn(sentence, ConvergenceWarning, stacklevel=5)
    return replace(
        result,
        algorithm=describe(algorithm),
        seconds=seconds,
        compile_seconds=compiling,
        notes=(*notes, *result.notes),
    )
