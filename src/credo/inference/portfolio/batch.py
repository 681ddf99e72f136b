"""Many problems of one structure in one call: tables per instance.

An algorithm with `run_tables` treats all instances in one kernel (the junction tree where its forecast is
small, whatever the temperatures; bp for sums; renn); any other one is asked one by one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ...core import check
from ...core.errors import (
    ConvergenceWarning,
    ModelError,
    QueryError,
    UnsupportedError,
    ZeroProbabilityError,
)
from ...core.factor_graph import Model
from ...core.progress import Progress
from ...core.result import Status
from ...optimise.run import call
from ..exact.junction_tree import JunctionTreePropagation
from ..problem.base import Algorithm, Budget, ContradictoryRowError, Problem, algorithms
from ..problem.instances import Instances, ManyTables, TableBatch, gather
from ..problem.reading import refusal
from ..problem.running import run_algorithm
from .question import Question

__all__ = ["BatchQuestion", "TableBatch", "infer_batch", "tables_only", "warn_about"]


def infer_batch(
    model: Model,
    log_tables: Any,
    method: str | Algorithm | None = None,
    *,
    factors: Iterable[int] | None = None,
    maximise: Literal["all"] | Iterable[str] = (),
    temperatures: Mapping[str, float] | None = None,
    order: Iterable[str] | None = None,
    weights: Any = None,
    each: bool = True,
    max_iter: int = 1000,
    tol: float = 1e-8,
    seed: int | None = None,
) -> TableBatch:
    """Values and their derivatives of many problems that differ in the tables of some factors only.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`: its structure, and the tables of the factors that do not vary.
    log_tables
        (instances, entries) logarithms of the tables that vary, one factor after another, each in C order.
    method
        Name or algorithm; None is exact where that is small, otherwise what `infer` would choose.
    factors
        Positions of the factors whose tables are given; None: all.
    maximise, temperatures, order
        As in `infer`, for all instances.
    weights
        (instances,) of the summed derivatives; None: ones.
    each
        Whether to keep the derivatives of every instance, not their sum alone.
    max_iter, tol, seed
        As in `infer`.

    Returns
    -------
    TableBatch
        `values` (instances,), `factor_marginals` (instances, entries): the derivatives by `log_tables`,
        `summed`: those by all tables, summed over instances, `states` of maximised variables.

    Examples
    --------
    Two chains with one transition table and unary tables of their own:

    >>> import credo, numpy as np
    >>> chain = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[2, 1], [1, 2]], "a": [1, 1], "b": [1, 1]})
    >>> own = np.log([[1, 3, 1, 1], [1, 1, 4, 1]])
    >>> found = credo.infer_batch(chain, own, factors=[1, 2])
    >>> np.exp(found.values).round(6)
    array([12., 15.])
    >>> found.factor_marginals.round(4)
    array([[0.25  , 0.75  , 0.4167, 0.5833],
           [0.6   , 0.4   , 0.8   , 0.2   ]])
    >>> found.summed[0].round(4)
    array([[0.7   , 0.15  ],
           [0.5167, 0.6333]])
    """
    check.generator(seed)  # refused even where nothing is drawn
    question = BatchQuestion.of(model, maximise, temperatures, order, factors=factors)
    budget = Budget(max_iter, tol)
    return question.ask(log_tables, method, weights=weights, each=each, budget=budget, seed=seed)


@dataclass(frozen=True)
class BatchQuestion:
    """A question that is asked of tables more than once: it is checked, and the answer planned, once."""

    problem: Problem  # that of the graph
    factors: np.ndarray  # those whose tables are given

    @classmethod
    def of(
        cls,
        model: Model,
        maximise: Literal["all"] | Iterable[str] = (),
        temperatures: Mapping[str, float] | None = None,
        order: Iterable[str] | None = None,
        *,
        factors: Iterable[int] | None = None,
    ) -> BatchQuestion:
        """The question of a call like `infer_batch`."""
        question = Question.of(model, None)
        problem = tables_only("infer_batch", question.problem(maximise, temperatures, order))
        count = problem.graph.n_factors
        chosen = np.arange(count) if factors is None else np.array([*factors], dtype=np.int64)
        if len(np.unique(chosen)) < len(chosen) or ((chosen < 0) | (chosen >= count)).any():
            raise QueryError(
                f"factors: expected different positions in [0, {count}), got {chosen.tolist()!r:.80}"
            )
        return cls(problem, chosen)

    def ask(
        self,
        log_tables: Any,
        method: str | Algorithm | None = None,
        *,
        weights: Any = None,
        each: bool = True,
        summed: bool = True,
        budget: Budget | None = None,
        seed: int | None = None,
    ) -> TableBatch:
        """The answers for these tables; see `infer_batch`."""
        instances = _instances(self, log_tables, weights, each=each, summed=summed)
        budget = budget or Budget()
        algorithm = _choose(method, instances)
        reason = refusal(algorithm, self.problem)
        if reason is not None:
            raise UnsupportedError(f"{algorithm.name} cannot treat this problem: {reason}")
        try:
            with call():
                if isinstance(algorithm, ManyTables) and algorithm.takes_tables(instances):
                    found = algorithm.run_tables(instances, budget)
                    warn_about(algorithm.name, found.status, "instances")
                    return found
                return _one_by_one(instances, algorithm, budget, check.generator(seed))
        except ContradictoryRowError as error:
            raise ZeroProbabilityError(
                f"instance {error.row}: its tables give every configuration weight zero"
            ) from None


def tables_only(what: str, problem: Problem) -> Problem:
    """Refuse factors that are no tables."""
    if not problem.graph.is_tables:
        raise UnsupportedError(
            f"{what}: expected a model whose factors are tables over variables with states; "
            "ask about models with other factors one by one, by infer"
        )
    return problem


def _instances(
    question: BatchQuestion, log_tables: Any, weights: Any, *, each: bool, summed: bool
) -> Instances:
    """The checked arguments of a batch."""
    graph, chosen = question.problem.graph, question.factors
    try:
        tables = np.ascontiguousarray(log_tables, dtype=np.float64)
    except (TypeError, ValueError):
        raise QueryError(f"log_tables: expected an array of numbers, got {log_tables!r:.80}") from None
    entries = int(graph.table_size[chosen].sum())
    if tables.ndim != 2 or tables.shape[1] != entries:
        raise QueryError(
            f"log_tables: expected an array of shape (instances, {entries}), one row per instance with "
            f"the tables of {len(chosen)} factors, got shape {tables.shape}"
        )
    if np.isnan(tables).any() or (tables == np.inf).any():
        row = int(np.argwhere(np.isnan(tables) | (tables == np.inf))[0, 0])
        raise ModelError(f"log_tables: expected finite numbers or -inf, got others in instance {row}")
    shares = np.ones(len(tables)) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (len(tables),) or not np.isfinite(shares).all():
        raise QueryError(f"weights: expected {len(tables)} finite numbers, got shape {shares.shape}")
    shares = np.ascontiguousarray(shares)
    return Instances(question.problem, chosen, tables, shares, each=each, summed=summed)


def _choose(method: str | Algorithm | None, instances: Instances) -> Any:
    """The algorithm asked for; without one the junction tree if its kernel takes all instances."""
    from .choose import choose

    if method is not None:
        return algorithms.resolve(method)
    exact = JunctionTreePropagation()
    return exact if exact.takes_tables(instances) else choose(instances.problem, many=True)[0]


def _one_by_one(
    instances: Instances, algorithm: Algorithm, budget: Budget, rng: np.random.Generator
) -> TableBatch:
    found = []
    with Progress(algorithm.name, len(instances)) as bar:
        for k in range(len(instances)):
            problem = replace(instances.problem, graph=instances.graph_of(k))
            try:
                found.append(run_algorithm(algorithm, problem, budget, rng, strict=False))
            except ZeroProbabilityError:
                raise ContradictoryRowError(k) from None
            bar.update(k + 1)
    return gather(instances, found)


def warn_about(name: str, status: tuple[Status, ...], what: str) -> None:
    """One warning for all that did not converge."""
    failed = sum(not s.is_success for s in status)
    if failed:
        sentence = f"{name}: {failed} of {len(status)} {what}: {Status.OUT_OF_ITERATIONS.advice}"
        warnings.warn(sentence, ConvergenceWarning, stacklevel=4)
