"""Many rows of evidence about one graph of tables.

Rows of evidence are tables, too: the likelihoods of a row are those of one more factor at every variable,
whose marginals are the variables'. An algorithm with `run_tables` treats distinct rows in one kernel; any
other one is asked row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ...core import check
from ...core.errors import EvidenceError, QueryError, UnsupportedError, ZeroProbabilityError
from ...core.evidence import Evidence
from ...core.factor_graph import FactorGraph, Model
from ...core.progress import Progress
from ...core.result import Marginals, Result, Status
from ...core.variable import Variables
from ...data.dataset import Dataset
from ...data.table import distinct_rows
from ...optimise.run import call
from ..exact.junction_tree import JunctionTreePropagation
from ..problem.base import Algorithm, Budget, ContradictoryRowError, algorithms
from ..problem.instances import Instances, ManyTables
from .batch import tables_only, warn_about
from .question import Question, graph_of, infer

__all__ = ["EvidenceBatch", "Impossible", "clamps_of_data", "infer_many"]

Impossible = Literal["refuse", "missing"]


@dataclass(frozen=True, repr=False)
class EvidenceBatch:
    """Answers to many rows of evidence."""

    variables: Variables  # of the model
    flat: np.ndarray  # (rows, flat states) marginals; none where something was maximised
    log_z: np.ndarray  # (rows,) log Z of the conditioned model, exact or estimated; of maxima their value
    status: tuple[Status, ...]  # why each row stopped
    states: np.ndarray | None = None  # (rows, n) of maximised variables, -1 for others

    def __len__(self) -> int:
        return len(self.log_z)

    def __getitem__(self, row: Any) -> Any:
        """The marginals of one row, or the answers to a slice of rows."""
        if isinstance(row, slice):
            states = None if self.states is None else self.states[row]
            return EvidenceBatch(self.variables, self.flat[row], self.log_z[row], self.status[row], states)
        self._check_sums()
        return Marginals(self.variables, self.flat[row].copy())

    def marginal(self, name: str) -> np.ndarray:
        """Probabilities (rows, states) of one variable."""
        self._check_sums()
        i = self.variables.position(name)
        start = self.variables.state_start
        return self.flat[:, start[i] : start[i + 1]]

    def _check_sums(self) -> None:
        if self.states is not None:
            raise QueryError("marginals: expected answers to sums, got maxima; their states are in `states`")

    def __repr__(self) -> str:
        done = sum(status.is_success for status in self.status)
        return f"EvidenceBatch({len(self)} rows, {len(self.variables)} variables, {done} rows converged)"


def infer_many(
    model: Model,
    evidence: Any,
    method: str | Algorithm | None = None,
    *,
    maximise: Literal["all"] | Iterable[str] = (),
    impossible: Impossible = "refuse",
    max_iter: int = 1000,
    tol: float = 1e-8,
    seed: int | None = None,
) -> EvidenceBatch:
    """Marginals of all variables, or best states, for each row of evidence; equal rows are answered once.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`.
    evidence
        Mappings name -> state, a data frame with one column per observed variable (missing
        cells are unobserved), or a `Dataset`.
    method
        Name or algorithm; None is exact where that is small without evidence, otherwise what `infer` would
        choose for the first row: `"bp"` for all rows in one kernel, or exact inference row by row.
    maximise
        As in `infer`; the answers are then in `states`.
    impossible
        What becomes of rows that the model excludes: `"refuse"` names the first of them; `"missing"` gives
        them marginals of zero, states of -1 and a log Z of -inf.
    max_iter, tol, seed
        As in `infer`.

    Examples
    --------
    >>> import credo
    >>> rows = [{"wet": "yes"}, {"wet": "no"}, {}]
    >>> credo.infer_many(credo.datasets.sprinkler(), rows).marginal("rain")[:, 1].round(4)
    array([0.7079, 0.1187, 0.5   ])
    >>> credo.infer_many(credo.datasets.sprinkler(), rows, maximise="all").states
    array([[1, 0, 1, 1],
           [0, 0, 0, 0],
           [1, 0, 1, 1]])
    """
    check.generator(seed)  # refused even where nothing is drawn
    check.one_of("impossible", impossible, ["refuse", "missing"])
    graph = graph_of(model)
    tables_only("infer_many", Question.of(graph, None).problem(maximise, None, None))
    clamps, back = _clamps(graph, evidence)
    asked = _Asked(graph, method, maximise, Budget(max_iter, tol), seed)
    try:
        with call():
            found = asked.answers(clamps, impossible == "refuse")
    except ContradictoryRowError as error:
        raise ContradictoryRowError(np.flatnonzero(np.isin(back, error.rows))) from None
    states = None if found.states is None else found.states[back]
    status = tuple(found.status[int(i)] for i in back)
    return EvidenceBatch(graph.variables, found.flat[back], found.log_z[back], status, states)


@dataclass(frozen=True)
class _Asked:
    """The question that is asked about all rows."""

    graph: FactorGraph
    method: str | Algorithm | None
    maximise: Any
    budget: Budget
    seed: int | None

    def answers(self, rows: np.ndarray, is_strict: bool) -> EvidenceBatch:
        """Answers to distinct rows, in one kernel where the algorithm has one."""
        algorithm = None if self.method is None else algorithms.resolve(self.method)
        if not len(rows):
            return self._empty(0)
        instances = self._instances(rows)
        if algorithm is None:
            algorithm = self._by_default(instances)
        if not (isinstance(algorithm, ManyTables) and algorithm.takes_tables(instances)):
            return self._row_by_row(rows, algorithm, is_strict)
        try:
            return self._in_one(algorithm, instances)
        except ContradictoryRowError as error:
            if is_strict:
                raise
            return self._without(rows, error.rows)

    def _in_one(self, algorithm: Any, instances: Instances) -> EvidenceBatch:
        found = algorithm.run_tables(instances, self.budget)
        warn_about(algorithm.name, found.status, "distinct rows")
        assert found.factor_marginals is not None  # they were asked for
        flat, states = found.factor_marginals, found.states
        if states is not None:
            states = np.where(instances.problem.temperatures == 0, states, -1)
        return EvidenceBatch(self.graph.variables, flat, found.values, found.status, states)

    def _without(self, rows: np.ndarray, impossible: np.ndarray) -> EvidenceBatch:
        """Answers to the others, and nothing for these."""
        rest = np.delete(np.arange(len(rows)), impossible)
        found, out = self.answers(rows[rest], False), self._empty(len(rows))
        status = np.array(out.status, dtype=object)
        out.flat[rest], out.log_z[rest], status[rest] = found.flat, found.log_z, found.status
        if out.states is not None:
            out.states[rest] = found.states
        return replace(out, status=tuple(status))

    def _empty(self, count: int) -> EvidenceBatch:
        variables = self.graph.variables
        flat, log_z = np.zeros((count, int(variables.state_start[-1]))), np.full(count, -np.inf)
        states = np.full((count, len(variables)), -1) if self._maximises else None
        return EvidenceBatch(variables, flat, log_z, (Status.EXACT,) * count, states)

    @property
    def _maximises(self) -> bool:
        return self.maximise == "all" or bool(tuple(self.maximise))

    def _instances(self, rows: np.ndarray) -> Instances:
        graph = self.graph
        slots = np.arange(graph.n_factors, graph.n_factors + len(graph.variables))
        problem = Question.of(_with_slots(graph), None).problem(self.maximise, None, None)
        return Instances(problem, slots, rows, np.ones(len(rows)), summed=False)

    def _by_default(self, instances: Instances) -> Algorithm | None:
        """Exact for all rows, or bp for all, or None: exact row by row, where evidence allows that."""
        from .choose import choose

        exact = JunctionTreePropagation()
        if exact.takes_tables(instances):
            return exact
        said = _evidence_of(self.graph, instances.log_tables[0])
        first = Question.of(self.graph, said).problem(self.maximise, None, None)
        algorithm = choose(first)[0]
        return None if isinstance(algorithm, JunctionTreePropagation) else algorithm

    def _row_by_row(self, rows: np.ndarray, algorithm: Algorithm | None, is_strict: bool) -> EvidenceBatch:
        out = self._empty(len(rows))
        status = list(out.status)
        with Progress("infer_many" if algorithm is None else algorithm.name, len(rows)) as bar:
            for r, row in enumerate(rows):
                try:
                    found = infer(
                        self.graph,
                        algorithm,
                        evidence=_evidence_of(self.graph, row),
                        maximise=self.maximise,
                        max_iter=self.budget.max_iter,
                        tol=self.budget.tol,
                        seed=self.seed,
                    )
                except ZeroProbabilityError:
                    if is_strict:
                        raise ContradictoryRowError(r) from None
                    continue
                status[r] = found.status
                self._note(out, r, found)
                bar.update(r + 1)
        return replace(out, status=tuple(status))

    def _note(self, out: EvidenceBatch, r: int, found: Result) -> None:
        if found.log_z is None or (found.assignment if self._maximises else found.marginals) is None:
            what = "best states" if self._maximises else "marginals"
            raise UnsupportedError(f"{found.algorithm} computes no {what}; use bp or junction-tree")
        out.log_z[r] = found.log_z.value
        if out.states is not None and found.assignment is not None:
            out.states[r] = found.assignment.indices
        elif found.marginals is not None:
            out.flat[r] = found.marginals.flat


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


def _clamps(graph: FactorGraph, evidence: Any) -> tuple[np.ndarray, np.ndarray]:
    """Log likelihood per distinct row and flat state (0 where nothing is said), and which one each row is."""
    if isinstance(evidence, Dataset):
        return _clamps_of_data(graph, evidence)
    clamps = _clamps_of_rows(graph, _rows(evidence))
    distinct, back = np.unique(clamps, axis=0, return_inverse=True)
    return distinct, back.ravel()


def _clamps_of_data(graph: FactorGraph, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    if any(column.soft is not None for column in data.columns):
        clamps = clamps_of_data(graph, data)
        return clamps, np.arange(len(clamps))
    none = np.zeros(data.n_rows, dtype=np.int64)
    codes = np.stack([none, *(c.values for c in data.columns)], axis=1)
    first, back = distinct_rows(codes, graph.variables.sizes)
    return clamps_of_data(graph, data.take(first)), back


def clamps_of_data(graph: FactorGraph, data: Dataset) -> np.ndarray:
    """Log likelihood per row and flat state of columns of states: 0 where nothing is said."""
    variables, start = graph.variables, graph.variables.state_start
    clamps = np.zeros((data.n_rows, int(start[-1])))
    for column, i in zip(data.columns, variables.positions(data.names).tolist(), strict=True):
        if column.domain != variables[i].domain:
            raise EvidenceError(
                f"evidence: column '{column.name}' has the domain {column.domain!r:.60}, the model "
                f"{variables[i].domain!r:.60}; read the data with the model's variables as schema"
            )
        part, seen = clamps[:, start[i] : start[i + 1]], np.flatnonzero(column.values >= 0)
        part[seen] = -np.inf
        part[seen, column.values[seen]] = 0.0
        if column.soft is not None:
            with np.errstate(divide="ignore"):
                part += np.log(column.soft)
    return clamps


def _rows(evidence: Any) -> list[Mapping[str, Any]]:
    if hasattr(evidence, "to_dict") and hasattr(evidence, "columns"):
        return list(evidence.to_dict("records"))
    if isinstance(evidence, Mapping) or not isinstance(evidence, Iterable):
        raise QueryError(
            "infer_many: expected a list of evidence mappings or a data frame; for one row use infer"
        )
    return list(evidence)


def _clamps_of_rows(graph: FactorGraph, rows: list[Mapping[str, Any]]) -> np.ndarray:
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
