r"""An answer within a given time, by whatever suits the width of the model.

Narrow models are answered exactly. Otherwise maximisations go to the bracket of `bracket.py`, whose
lower side carries the best assignment found and whose upper side says how good it can be at most.
log Z and marginals of wide models are estimates: generalised belief propagation where its regions
are small, else belief propagation, with damping where it does not settle. Part of the time then goes
to bounds on log Z, and an estimate outside them is moved to the nearer one.
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
from .base import Budget, Problem, algorithms
from .bracket import Bracket, tighten
from .exact.tree import machine_gigabytes
from .question import pose
from .race import fitting

__all__ = ["Answer", "solve"]

_ESTIMATORS = ("gbp", "bp", "bp(damping=0.5)", "mean-field")  # the first that settles is taken
_QUICK = ("bp", "mean-field")  # without any time
_FOR_BOUNDS = 0.4  # share of the time that goes to bounds where an estimate is asked for
_DOWNWARDS = 3.0  # what all marginals cost, as a multiple of log Z alone
_TOL = 1e-7  # change of a message at which an estimator has settled


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
    if memory_gb is not None:
        check.at_least("memory_gb", memory_gb, 0)
    question, problem = pose(model, evidence, maximise)
    work = _Work(problem, time.perf_counter() + seconds, memory_gb, seed)
    result: Result
    bounds: Bracket | None
    if len(problem.maximised):
        result, bounds = work.maximum()
    elif marginals:
        result, bounds = work.marginals()
    else:
        result, bounds = work.log_z()
    return Answer(unrestrict(result, question.restriction, question.original), bounds)


@dataclass(frozen=True)
class _Work:
    """A question and what may be used to answer it."""

    problem: Problem
    ends: float  # on the clock
    memory_gb: float | None
    seed: int | None

    @property
    def left(self) -> float:
        return max(0.0, self.ends - time.perf_counter())

    def maximum(self) -> tuple[Result, Bracket]:
        """The states behind the lower side of the bracket."""
        found = self._tightened(1.0)
        if found.assignment is None or found.lower.value == -np.inf:
            raise UnsupportedError(
                "no assignment of positive weight was found in the time given; raise seconds"
            )
        result = Result(found.lower_by, found.status, assignment=found.assignment, score=found.lower)
        return replace(result, log_z=found.upper), found

    def marginals(self) -> tuple[Result, Bracket | None]:
        """Exact ones if that fits, else estimates."""
        memory = machine_gigabytes() / 2 if self.memory_gb is None else self.memory_gb
        if fitting(self.problem, self.left / _DOWNWARDS, memory) is None:
            return self._estimated(self.left), None
        result = algorithms.resolve("junction-tree").run(self.problem, Budget(), self._rng)
        assert result.log_z is not None  # exact methods always have one
        sides = (result.log_z, result.log_z, Status.EXACT, None)
        return result, Bracket(*sides, lower_by=result.algorithm, upper_by=result.algorithm)

    def log_z(self) -> tuple[Result, Bracket]:
        """The value if the bracket closes, else an estimate inside it."""
        found = self._tightened(_FOR_BOUNDS)
        if found.is_exact:
            return Result(found.upper_by, Status.EXACT, log_z=found.upper), found
        # Whoever interrupted the bounds does not want to wait for long.
        left = 0.0 if found.status is Status.INTERRUPTED else self.left
        return _clipped(self._estimated(left), found), found

    @property
    def _rng(self) -> np.random.Generator:
        return check.generator(self.seed)

    def _tightened(self, share: float) -> Bracket:
        return tighten(
            self.problem, gap=0.0, seconds=share * self.left, memory_gb=self.memory_gb, seed=self.seed
        )

    def _estimated(self, seconds: float) -> Result:
        """Marginals and log Z by the first estimator that settles, else by the one that changed least."""
        ends = time.perf_counter() + seconds
        runs: list[tuple[float, Result]] = []
        specs = _ESTIMATORS if seconds > 0 else _QUICK
        for k, spec in enumerate(specs):
            left = max(0.0, ends - time.perf_counter())
            if runs and left == 0:
                break
            budget = Budget(max_iter=10**6, tol=_TOL, seconds=left / (len(specs) - k))
            try:
                result = algorithms.resolve(spec).run(self.problem, budget, self._rng)
            except (TooLargeError, UnsupportedError):
                continue
            except ZeroProbabilityError:
                if spec == specs[-1] and not runs:
                    raise
                continue
            result = replace(result, algorithm=spec)
            if result.status.is_success or result.status is Status.INTERRUPTED:
                return result
            change = result.trace.get("change", np.empty(0))
            runs.append((float(np.nan_to_num(change[-1], nan=np.inf)) if len(change) else np.inf, result))
        return min(runs, key=lambda run: run[0])[1]


def _clipped(result: Result, found: Bracket) -> Result:
    """The result with its log Z inside the bracket."""
    if result.log_z is None:
        return result
    value = float(np.clip(result.log_z.value, found.lower.value, found.upper.value))
    return replace(result, log_z=Estimate(value, result.log_z.kind))
