"""Many rows of evidence on one graph in one call.

Equal rows are answered once. An algorithm with a `run_many` of its own treats all rows inside a
kernel (bp); any other one is asked row by row, and exact plans are reused between rows that observe
the same variables.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from ..core import check
from ..core.errors import (
    ConvergenceWarning,
    EvidenceError,
    QueryError,
    UnsupportedError,
    ZeroProbabilityError,
)
from ..core.evidence import Evidence
from ..core.factor_graph import FactorGraph, Model
from ..core.progress import Progress
from ..core.result import Marginals, Status
from ..core.variable import Variables
from ..optimise.run import call
from .base import Algorithm, Budget, ContradictoryRowError, algorithms
from .question import graph_of, infer

__all__ = ["Batch", "ManyRows", "infer_many"]


@dataclass(frozen=True, repr=False)
class Batch:
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
            return Batch(self.variables, self.flat[row], self.log_z[row], self.status[row])
        return Marginals(self.variables, self.flat[row].copy())

    def marginal(self, name: str) -> np.ndarray:
        """Probabilities (rows, states) of one variable."""
        i = self.variables.position(name)
        start = self.variables.state_start
        return self.flat[:, start[i] : start[i + 1]]

    def __repr__(self) -> str:
        done = sum(status.is_success for status in self.status)
        return f"Batch({len(self)} rows, {len(self.variables)} variables, {done} rows converged)"


@runtime_checkable
class ManyRows(Protocol):
    """An algorithm that answers many rows of log likelihoods (rows, flat states) in one go."""

    name: ClassVar[str]

    @property
    def takes_rows(self) -> bool:
        """Whether it can with the options it has."""
        ...

    def run_many(
        self, graph: FactorGraph, clamps: np.ndarray, budget: Budget
    ) -> tuple[np.ndarray, np.ndarray, tuple[Status, ...]]:
        """Marginals (rows, flat states), log Z and status of each row."""
        ...


def infer_many(
    model: Model,
    evidence: Any,
    method: str | Algorithm | None = "bp",
    *,
    max_iter: int = 1000,
    tol: float = 1e-8,
    seed: int | None = None,
) -> Batch:
    """Marginals of all variables for each row of evidence.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`.
    evidence
        Mappings name -> state, or a data frame with one column per observed variable (missing
        cells are unobserved).
    method
        Name or algorithm; `"bp"` treats all rows in one kernel, `"junction-tree"` is exact, None takes what
        `infer` would choose.
    max_iter, tol, seed
        As in `infer`.

    Examples
    --------
    >>> import credo
    >>> rows = [{"wet": "yes"}, {"wet": "no"}, {}]
    >>> credo.infer_many(credo.datasets.sprinkler(), rows, "junction-tree").marginal("rain")[:, 1].round(4)
    array([0.7079, 0.1187, 0.5   ])
    """
    check.generator(seed)  # refused even where nothing is drawn
    graph = graph_of(model)
    clamps = _clamps(graph, _rows(evidence))
    distinct, back = np.unique(clamps, axis=0, return_inverse=True)
    algorithm = None if method is None else algorithms.resolve(method)
    budget = Budget(max_iter, tol)
    back = back.ravel()
    try:
        with call():
            flat, log_z, status = _answers(graph, distinct, algorithm, budget, seed)
    except ContradictoryRowError as error:
        raise ContradictoryRowError(int(np.flatnonzero(back == error.row)[0])) from None
    return Batch(graph.variables, flat[back], log_z[back], tuple(status[int(i)] for i in back))


def _answers(
    graph: FactorGraph, rows: np.ndarray, algorithm: Algorithm | None, budget: Budget, seed: int | None
) -> tuple[np.ndarray, np.ndarray, tuple[Status, ...]]:
    """Flat marginals, log Z and status of distinct rows, in one kernel where the algorithm has one."""
    if not (isinstance(algorithm, ManyRows) and algorithm.takes_rows):
        return _row_by_row(graph, rows, algorithm, budget, seed)
    found = algorithm.run_many(graph, rows, budget)
    _warn_about(algorithm.name, found[2])
    return found


def _warn_about(name: str, status: tuple[Status, ...]) -> None:
    """One warning for all rows that did not converge."""
    failed = sum(not s.is_success for s in status)
    if failed:
        sentence = f"{name}: {failed} of {len(status)} distinct rows: {Status.OUT_OF_ITERATIONS.advice}"
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
) -> tuple[np.ndarray, np.ndarray, tuple[Status, ...]]:
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
