"""Many models in one call.

Models of one structure (the same state counts and scopes) go through one compiled program where the
algorithm can do that (`run_models`: renn and its relatives); with any other algorithm they are asked one
by one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, overload, runtime_checkable

import numpy as np

from ...core import check
from ...core.errors import ConvergenceWarning, QueryError, UnsupportedError
from ...core.factor_graph import Model
from ...core.registry import describe
from ...core.result import Result, Status, unrestrict
from ...core.stopwatch import Stopwatch
from ...optimise.run import call
from ..problem.base import Algorithm, Budget, Problem, algorithms
from ..problem.reading import refusal
from .question import Question, infer

__all__ = ["ManyModels", "ModelBatch", "infer_models"]


@runtime_checkable
class ManyModels(Protocol):
    """An algorithm that answers many problems of one structure in one go."""

    name: ClassVar[str]

    def run_models(
        self, problems: Sequence[Problem], budget: Budget, rng: np.random.Generator
    ) -> tuple[list[Result], float]:
        """The results, and the seconds spent compiling."""
        ...


@dataclass(frozen=True, repr=False)
class ModelBatch(Sequence[Result]):
    """Results of many models, in their order."""

    results: tuple[Result, ...]  # one per model
    seconds: float  # wall time of the call without compiling
    compile_seconds: float  # spent compiling, once per structure

    @property
    def log_z(self) -> np.ndarray:
        """(models,) log Z, exact or estimated."""
        return np.array([np.nan if r.log_z is None else r.log_z.value for r in self.results])

    @property
    def status(self) -> tuple[Status, ...]:
        """Why each run stopped."""
        return tuple(r.status for r in self.results)

    @property
    def marginals(self) -> np.ndarray:
        """(models, flat states) marginals; the models must have equally many states."""
        return self._stack("marginals")

    @property
    def factor_marginals(self) -> np.ndarray:
        """(models, flat entries) factor marginals; the models must have tables of equal sizes."""
        return self._stack("factor_marginals")

    def _stack(self, what: str) -> np.ndarray:
        found = [getattr(r, what) for r in self.results]
        if any(f is None for f in found):
            raise QueryError(f"a run computed no {what.replace('_', ' ')}; ask another method")
        if len({len(f.flat) for f in found}) > 1:
            raise QueryError(f"{what.replace('_', ' ')}: the models differ in size; read them one by one")
        return np.array([f.flat for f in found])

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, k: int) -> Result: ...
    @overload
    def __getitem__(self, k: slice) -> tuple[Result, ...]: ...
    def __getitem__(self, k: int | slice) -> Result | tuple[Result, ...]:
        return self.results[k]

    def __repr__(self) -> str:
        done = sum(r.converged for r in self.results)
        return (
            f"ModelBatch({len(self)} models, {done} converged, {self.seconds:.3g} s "
            f"and {self.compile_seconds:.3g} s of compiling)"
        )


def infer_models(
    models: Iterable[Model],
    method: str | Algorithm,
    *,
    evidence: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
    max_iter: int = 1000,
    tol: float = 1e-8,
    seconds: float | None = None,
    seed: int | None = None,
    warm_start: Result | Sequence[Result] | None = None,
) -> ModelBatch:
    """Marginals and log Z of many models, those of one structure together.

    Parameters
    ----------
    models
        Anything with `to_factor_graph()`.
    method
        Name or algorithm.
    evidence
        One for all models, or one per model.
    max_iter, tol, seconds, seed
        As in `infer`, for each model.
    warm_start
        The result of an earlier run to start all models from, or one per model.

    Examples
    --------
    >>> import credo
    >>> grids = [credo.datasets.ising_grid(3, seed=s) for s in range(4)]
    >>> credo.infer_models(grids, "junction-tree").log_z.round(2)
    array([ 8.76,  8.21, 11.31, 14.46])
    """
    if not isinstance(models, Iterable) or hasattr(models, "to_factor_graph"):
        raise QueryError("infer_models: expected a list of models; for one model use infer")
    given = list(models)
    algorithm = algorithms.resolve(method)
    said = _each("evidence", evidence, Mapping, len(given))
    warm = _each("warm_start", warm_start, Result, len(given))
    watch = Stopwatch()
    if not isinstance(algorithm, ManyModels):
        limits = {"max_iter": max_iter, "tol": tol, "seconds": seconds, "seed": seed}
        one_by_one = tuple(
            infer(model, algorithm, evidence=e, warm_start=w, **limits)  # type: ignore[arg-type]
            for model, e, w in zip(given, said, warm, strict=True)
        )
        return ModelBatch(one_by_one, watch.seconds, watch.compile_seconds)
    questions = [Question.of(model, e) for model, e in zip(given, said, strict=True)]
    problems = [_pose(algorithm, question, w) for question, w in zip(questions, warm, strict=True)]
    with call():
        found, compiling = _by_structure(algorithm, problems, Budget(max_iter, tol, seconds), seed)
    results = tuple(unrestrict(r, q.restriction, q.original) for r, q in zip(found, questions, strict=True))
    _warn_about(algorithm.name, results)
    spent = watch.seconds + watch.compile_seconds
    return ModelBatch(results, spent - compiling, compiling)


def _each(what: str, given: Any, single: type, count: int) -> list[Any]:
    """One per model: the same for all, or as listed."""
    if given is None or isinstance(given, single):
        return [given] * count
    listed = list(given) if isinstance(given, Iterable) else None
    if listed is None or len(listed) != count:
        size = "no list" if listed is None else str(len(listed))
        raise QueryError(f"{what}: expected one for all models or one for each of the {count}, got {size}")
    return listed


def _pose(algorithm: Any, question: Question, warm: Result | None) -> Problem:
    problem = question.problem((), None, None)
    reason = refusal(algorithm, problem)
    if reason is not None:
        raise UnsupportedError(f"{algorithm.name} cannot treat this problem: {reason}")
    if warm is None:
        return problem
    if not isinstance(warm, Result) or warm.state is None or not algorithm.warm_starts:
        raise QueryError(
            "warm_start: expected results that keep a state, of a method that can start from one"
        )
    return replace(problem, warm=warm.state)


def _by_structure(
    algorithm: Any, problems: Sequence[Problem], budget: Budget, seed: int | None
) -> tuple[list[Result], float]:
    groups: dict[Any, list[int]] = {}
    for k, problem in enumerate(problems):
        groups.setdefault((problem.graph.structure_key, tuple(problem.graph.variables.names)), []).append(k)
    found: dict[int, Result] = {}
    compiling = 0.0
    for members in groups.values():
        clock = time.perf_counter()
        answers, extra = algorithm.run_models([problems[k] for k in members], budget, check.generator(seed))
        share = (time.perf_counter() - clock - extra) / len(members)
        compiling += extra
        for k, answer in zip(members, answers, strict=True):
            found[k] = replace(
                answer, algorithm=describe(algorithm), seconds=share, compile_seconds=extra / len(members)
            )
    return [found[k] for k in range(len(problems))], compiling


def _warn_about(name: str, results: Sequence[Result]) -> None:
    """One warning for all models that did not converge."""
    failed = [r for r in results if not r.status.is_success]
    if failed:
        sentence = f"{name}: {len(failed)} of {len(results)} models: {failed[0].advice}"
        warnings.warn(sentence, ConvergenceWarning, stacklevel=3)
