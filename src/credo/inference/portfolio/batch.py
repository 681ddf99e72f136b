"""Many problems of one structure in one call: tables per instance, or rows of evidence on one graph.

`infer_batch` is given tables per instance. `infer_many` is given rows of evidence, which are tables, too: the
likelihoods of a row are those of one more factor at every variable, whose marginals are the variables'. An
algorithm with `run_tables` treats all instances in one kernel (the junction tree, whatever the temperatures,
where its forecast is small; bp for sums; renn); any other one is asked one by one.
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
    EvidenceError,
    ModelError,
    QueryError,
    UnsupportedError,
    ZeroProbabilityError,
)
from ...core.evidence import Evidence
from ...core.factor_graph import FactorGraph, Model
from ...core.progress import Progress
from ...core.result import Marginals, Status
from ...core.variable import Variables
from ...optimise.run import call
from ..exact.junction_tree import JunctionTreePropagation
from ..problem.base import Algorithm, Budget, ContradictoryRowError, Problem, algorithms
from ..problem.instances import Instances, ManyTables, TableBatch, gather
from ..problem.reading import refusal
from ..problem.running import run_algorithm
from .question import Question, graph_of, infer

__all__ = ["EvidenceBatch", "TableBatch", "infer_batch", "infer_many"]


@dataclass(frozen=True, repr=False)
class EvidenceBatch:
    """Answers to many rows of evidence."""

    variables: Variables  # of the model
    flat: np.ndarray  # (rows, flat states) marginals
    log_z: np.ndarray  # (rows,) log Z of the conditioned model, exact or estimated
    status: tuple[Status, ...]  # why each row stopped

    def __len__(self) -> int:
        return len(self.flat)

    def __getitem__(self, row: Any) -> Any:
        """The marginals of one row, or the answers to a slice of rows."""
        if isinstance(row, slice):
            return EvidenceBatch(self.variables, self.flat[row], self.log_z[row], self.status[row])
        return Marginals(self.variables, self.flat[row].copy())

    def marginal(self, name: str) -> np.ndarray:
        """Probabilities (rows, states) of one variable."""
        i = self.variables.position(name)
        start = self.variables.state_start
        return self.flat[:, start[i] : start[i + 1]]

    def __repr__(self) -> str:
        done = sum(status.is_success for status in self.status)
        return f"EvidenceBatch({len(self)} rows, {len(self.variables)} variables, {done} rows converged)"


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
    rng = check.generator(seed)  # refused even where nothing is drawn
    question = Question.of(model, None)
    problem = _of_tables("infer_batch", question.problem(maximise, temperatures, order))
    instances = _instances(problem, factors, log_tables, weights, each=each)
    budget = Budget(max_iter, tol)
    algorithm = _chosen(method, instances)
    reason = refusal(algorithm, problem)
    if reason is not None:
        raise UnsupportedError(f"{algorithm.name} cannot treat this problem: {reason}")
    try:
        with call():
            if isinstance(algorithm, ManyTables) and algorithm.takes_tables(instances):
                found = algorithm.run_tables(instances, budget)
                _warn_about(algorithm.name, found.status, "instances")
                return found
            return _one_by_one(instances, algorithm, budget, rng)
    except ContradictoryRowError as error:
        raise ZeroProbabilityError(
            f"instance {error.row}: its tables give every configuration weight zero"
        ) from None


def _of_tables(what: str, problem: Problem) -> Problem:
    if not problem.graph.is_tables:
        raise UnsupportedError(
            f"{what}: expected a model whose factors are tables over variables with states; "
            "ask about models with other factors one by one, by infer"
        )
    return problem


def _instances(problem: Problem, factors: Any, log_tables: Any, weights: Any, *, each: bool) -> Instances:
    """The checked arguments of a batch."""
    graph = problem.graph
    chosen = np.arange(graph.n_factors) if factors is None else np.array([*factors], dtype=np.int64)
    if len(np.unique(chosen)) < len(chosen) or ((chosen < 0) | (chosen >= graph.n_factors)).any():
        raise QueryError(
            f"factors: expected different positions in [0, {graph.n_factors}), got {chosen.tolist()!r:.80}"
        )
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
    return Instances(problem, chosen, tables, np.ascontiguousarray(shares), each=each)


def _chosen(method: str | Algorithm | None, instances: Instances) -> Any:
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


def infer_many(
    model: Model,
    evidence: Any,
    method: str | Algorithm | None = None,
    *,
    max_iter: int = 1000,
    tol: float = 1e-8,
    seed: int | None = None,
) -> EvidenceBatch:
    """Marginals of all variables for each row of evidence; equal rows are answered once.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`.
    evidence
        Mappings name -> state, or a data frame with one column per observed variable (missing
        cells are unobserved).
    method
        Name or algorithm; None is exact where that is small without evidence, otherwise what `infer` would
        choose for the first row: `"bp"` for all rows in one kernel, or exact inference row by row.
    max_iter, tol, seed
        As in `infer`.

    Examples
    --------
    >>> import credo
    >>> rows = [{"wet": "yes"}, {"wet": "no"}, {}]
    >>> credo.infer_many(credo.datasets.sprinkler(), rows).marginal("rain")[:, 1].round(4)
    array([0.7079, 0.1187, 0.5   ])
    """
    check.generator(seed)  # refused even where nothing is drawn
    graph = graph_of(model)
    _of_tables("infer_many", Problem.about(graph))
    clamps = _clamps(graph, _rows(evidence))
    distinct, back = np.unique(clamps, axis=0, return_inverse=True)
    back = back.ravel()
    try:
        with call():
            flat, log_z, status = _answers(graph, distinct, method, Budget(max_iter, tol), seed)
    except ContradictoryRowError as error:
        raise ContradictoryRowError(int(np.flatnonzero(back == error.row)[0])) from None
    return EvidenceBatch(graph.variables, flat[back], log_z[back], tuple(status[int(i)] for i in back))


_Rows = tuple[np.ndarray, np.ndarray, tuple[Status, ...]]  # flat marginals, log Z and status of each


def _answers(
    graph: FactorGraph, rows: np.ndarray, method: str | Algorithm | None, budget: Budget, seed: int | None
) -> _Rows:
    """Answers to distinct rows, in one kernel where the algorithm has one."""
    algorithm = None if method is None else algorithms.resolve(method)
    if not len(rows):
        return rows, np.empty(0), ()
    n = len(graph.variables)
    slots = np.arange(graph.n_factors, graph.n_factors + n)
    instances = Instances(Problem.about(_with_slots(graph)), slots, rows, np.ones(len(rows)), summed=False)
    if algorithm is None:
        algorithm = _by_default(graph, instances)
    if not (isinstance(algorithm, ManyTables) and algorithm.takes_tables(instances)):
        return _row_by_row(graph, rows, algorithm, budget, seed)
    found = algorithm.run_tables(instances, budget)
    _warn_about(algorithm.name, found.status, "distinct rows")
    assert found.factor_marginals is not None  # they were asked for
    return found.factor_marginals, found.values, found.status


def _by_default(graph: FactorGraph, instances: Instances) -> Algorithm | None:
    """Exact for all rows, or bp for all, or None: exact row by row, where evidence makes that possible."""
    from .choose import choose

    exact = JunctionTreePropagation()
    if exact.takes_tables(instances):
        return exact
    first = Question.of(graph, _evidence_of(graph, instances.log_tables[0])).problem((), None, None)
    algorithm = choose(first)[0]
    return None if isinstance(algorithm, JunctionTreePropagation) else algorithm


def _with_slots(graph: FactorGraph) -> FactorGraph:
    """The graph with one more unary factor per variable, its tables after all others; shares its plans."""
    n, states = len(graph.variables), int(graph.variables.state_start[-1])
    made = FactorGraph.from_flat(
        graph.variables,
        np.concatenate([graph.scope_start, graph.scope_start[-1] + 1 + np.arange(n)]),
        np.concatenate([graph.scope, np.arange(n)]),
        np.concatenate([graph.log_tables, np.zeros(states)]),
        table_start=np.concatenate(
            [graph.table_start, len(graph.log_tables) + graph.variables.state_start[:-1]]
        ),
    )
    made.memo = graph.memo
    return made


def _warn_about(name: str, status: tuple[Status, ...], what: str) -> None:
    """One warning for all that did not converge."""
    failed = sum(not s.is_success for s in status)
    if failed:
        sentence = f"{name}: {failed} of {len(status)} {what}: {Status.OUT_OF_ITERATIONS.advice}"
        warnings.warn(sentence, ConvergenceWarning, stacklevel=4)


def _rows(evidence: Any) -> list[Mapping[str, Any]]:
    if hasattr(evidence, "to_dict") and hasattr(evidence, "columns"):
        return list(evidence.to_dict("records"))
    if isinstance(evidence, Mapping) or not isinstance(evidence, Iterable):
        raise QueryError(
            "infer_many: expected a list of evidence mappings or a data frame; for one row use infer"
        )
    return list(evidence)


def _clamps(graph: FactorGraph, rows: list[Mapping[str, Any]]) -> np.ndarray:
    """Log likelihood per row and flat state: 0 where nothing is said, -inf at excluded states."""
    start = graph.variables.state_start
    clamps = np.zeros((len(rows), int(start[-1])))
    for r, row in enumerate(rows):
        try:
            checked = Evidence.of(graph.variables, row)
        except EvidenceError as error:
            raise EvidenceError(f"row {r}: {error}") from None
        for i in np.flatnonzero(checked.states >= 0).tolist():
            clamps[r, start[i] : start[i + 1]] = -np.inf
            clamps[r, start[i] + checked.states[i]] = 0.0
        for i, likelihood in checked.likelihoods:
            with np.errstate(divide="ignore"):
                clamps[r, start[i] : start[i + 1]] += np.log(likelihood)
    return clamps


def _row_by_row(
    graph: FactorGraph, clamps: np.ndarray, algorithm: Algorithm | None, budget: Budget, seed: int | None
) -> _Rows:
    flat, log_z, status = np.empty_like(clamps), np.empty(len(clamps)), []
    with Progress("infer_many" if algorithm is None else algorithm.name, len(clamps)) as bar:
        for r, clamp in enumerate(clamps):
            try:
                found = infer(
                    graph,
                    algorithm,
                    evidence=_evidence_of(graph, clamp),
                    max_iter=budget.max_iter,
                    tol=budget.tol,
                    seed=seed,
                )
            except ZeroProbabilityError:
                raise ContradictoryRowError(r) from None
            if found.marginals is None or found.log_z is None:
                raise UnsupportedError(f"{found.algorithm} computes no marginals; use bp or junction-tree")
            flat[r], log_z[r] = found.marginals.flat, found.log_z.value
            status.append(found.status)
            bar.update(r + 1)
    return flat, log_z, tuple(status)


def _evidence_of(graph: FactorGraph, clamp: np.ndarray) -> dict[str, Any]:
    """The evidence a row of log likelihoods stands for."""
    start = graph.variables.state_start
    said: dict[str, Any] = {}
    for i in np.unique(np.searchsorted(start, np.flatnonzero(clamp != 0), side="right") - 1):
        part = clamp[start[i] : start[i + 1]]
        possible = np.flatnonzero(part > -np.inf)
        hard = len(possible) == 1 and part[possible[0]] == 0
        said[graph.variables.names[int(i)]] = int(possible[0]) if hard else np.exp(part)
    return said
