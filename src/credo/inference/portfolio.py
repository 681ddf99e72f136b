r"""An answer within a given time, by whatever suits the width of the model.

Narrow models are answered exactly. Otherwise maximisations go to the bracket of `bracket.py`, whose
lower side carries the best assignment found and whose upper side says how good it can be at most.
log Z and marginals of wide models are estimates: generalised belief propagation where its regions
are small, else belief propagation, with damping where it does not settle. An estimate of log Z
is moved into the bracket if it lies outside.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import TooLargeError, UnsupportedError, ZeroProbabilityError
from ..core.factor_graph import Model
from ..core.result import Estimate, Result, Status, unrestrict
from .base import Budget, Problem, algorithms, pose
from .bracket import Bracket, tighten

__all__ = ["Answer", "solve"]

_ESTIMATORS = ("gbp", "bp", "bp(damping=0.5)", "mean-field")  # the first that settles is taken
_FOR_BOUNDS = 0.4  # share of the time that goes to bounds where an estimate is asked for


@dataclass(frozen=True)
class Answer:
    """The best answer found, and what is proven about it."""

    result: Result  # assignment, or marginals and log Z
    bounds: Bracket | None  # on log Z or the maximum; None where only marginals were asked for

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is proven, for people."""
        if self.bounds is None:
            return (f"marginals by {self.result.algorithm}; nothing is proven about them",)
        found = self.bounds
        said = [
            f"lower bound {found.lower.value:.10g} by {found.lower_by}",
            f"upper bound {found.upper.value:.10g} by {found.upper_by}",
        ]
        if found.is_exact:
            what = (
                "the answer is exact"
                if self.result.assignment is None
                else "the assignment is proven optimal"
            )
            return (*said, what)
        return (*said, f"gap {found.gap:.6g}: {found.status.value}")


def solve(
    model: Model,
    evidence: Mapping[str, Any] | None = None,
    maximise: Literal["all"] | Iterable[str] = (),
    *,
    marginals: bool = False,
    seconds: float = 60.0,
    memory_gb: float | None = None,
    seed: int | None = 0,
) -> Answer:
    """Answer within about `seconds` of wall time.

    Parameters
    ----------
    model, evidence, maximise
        The question, as in `credo.infer`.
    marginals
        Whether marginals are asked for, not log Z alone.
    seconds, memory_gb
        What may be used.
    seed
        Seed of the methods that draw random numbers.

    Examples
    --------
    >>> import credo
    >>> from credo.inference.portfolio import solve
    >>> solve(credo.datasets.sprinkler(), maximise="all").sentences[-1]
    'the assignment is proven optimal'
    """
    check.at_least("seconds", seconds, 0)
    question, problem = pose(model, evidence, maximise)
    clock = time.perf_counter()
    share = 1.0 if len(problem.maximised) else _FOR_BOUNDS
    found = tighten(problem, gap=0.0, seconds=share * seconds, memory_gb=memory_gb, seed=seed)
    if len(problem.maximised):
        result = _of_bracket(problem, found)
    elif found.is_exact and found.upper_by == "junction-tree" and marginals:
        result = algorithms.resolve("junction-tree").run(problem, Budget(), np.random.default_rng(seed))
    elif found.is_exact and not marginals:
        result = Result(found.upper_by, Status.EXACT, log_z=found.upper)
    else:
        left = max(0.0, seconds - (time.perf_counter() - clock))
        result = _clipped(_estimate(problem, left, seed), found)
    exact = result.log_z is not None and result.log_z.kind == "exact"
    bounds = None if marginals and not exact else found
    return Answer(unrestrict(result, question.restriction, question.original), bounds)


def _of_bracket(problem: Problem, found: Bracket) -> Result:
    if found.assignment is None:
        raise UnsupportedError("no assignment of positive weight was found in the time given; raise seconds")
    value = found.upper if np.isfinite(found.upper.value) else found.lower
    return Result(
        found.lower_by,
        found.status,
        log_z=value,
        assignment=found.assignment,
        score=found.lower,
        notes=found.notes,
    )


def _estimate(problem: Problem, seconds: float, seed: int | None) -> Result:
    """Marginals and log Z by the first estimator that settles, else by the one that changed least."""
    ends = time.perf_counter() + seconds
    runs: list[tuple[float, Result]] = []
    for k, spec in enumerate(_ESTIMATORS):
        left = max(0.0, ends - time.perf_counter())
        budget = Budget(max_iter=10**6, tol=1e-7, seconds=left / (len(_ESTIMATORS) - k))
        try:
            result = algorithms.resolve(spec).run(problem, budget, np.random.default_rng(seed))
        except (TooLargeError, UnsupportedError):
            continue
        except ZeroProbabilityError:
            if spec == _ESTIMATORS[-1] and not runs:
                raise
            continue
        result = replace(result, algorithm=spec)
        if result.status.is_success:
            return result
        change = result.trace.get("change", np.empty(0))
        runs.append((float(change[-1]) if len(change) else np.inf, result))
    return min(runs, key=lambda run: run[0])[1]


def _clipped(result: Result, found: Bracket) -> Result:
    """The result with its log Z inside the bracket."""
    if result.log_z is None:
        return result
    value = float(np.clip(result.log_z.value, found.lower.value, found.upper.value))
    return replace(result, log_z=Estimate(value, result.log_z.kind))
