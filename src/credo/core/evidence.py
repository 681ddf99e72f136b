"""What was observed, checked in one place.

Hard evidence fixes a variable to a state (by label or index); soft evidence is a vector of
likelihoods p(observation | state); `None` and NaN mean missing. Conditioning keeps every
variable and every factor at its position: an observed variable keeps one state, so arrays of
the conditioned graph line up with those of the original one and answers are mapped back by
scattering (`Restriction`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .errors import EvidenceError, QueryError
from .factor_graph import FactorGraph
from .variable import Variable, Variables
from .wiring import starts_of

__all__ = ["Evidence", "Restriction", "condition", "is_missing", "is_vector", "likelihood"]


@dataclass(frozen=True)
class Evidence:
    """Checked evidence on an ordered set of variables."""

    states: np.ndarray  # (n,) observed state of each variable, -1 where none
    likelihoods: tuple[tuple[int, np.ndarray], ...] = ()  # (variable position, likelihood vector)

    @classmethod
    def of(cls, variables: Variables, evidence: Evidence | Mapping[str, Any] | None) -> Evidence:
        """Check a mapping name -> state, index, likelihood vector, or None for missing."""
        if isinstance(evidence, Evidence):
            return evidence
        states = np.full(len(variables), -1, dtype=np.int64)
        likelihoods = []
        if evidence is not None and not hasattr(evidence, "items"):
            raise EvidenceError(f"evidence: expected a mapping name -> state, got {evidence!r:.80}")
        for name, value in () if evidence is None else evidence.items():
            try:
                i = variables.position(name)
            except QueryError as error:
                raise EvidenceError(f"evidence: {error}") from None
            if is_missing(value):
                continue
            if is_vector(value):
                likelihoods.append((i, likelihood(variables[i], value)))
            else:
                states[i] = variables[i].index(value)
        return cls(states, tuple(likelihoods))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was observed."""
        return not self.likelihoods and not (self.states >= 0).any()


def is_missing(value: Any) -> bool:
    """Whether a value means that nothing was observed."""
    return (
        value is None
        or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))
        or type(value).__name__ in ("NAType", "NaTType")  # of pandas, without importing it
    )


def is_vector(value: Any) -> bool:
    """Whether a value is a vector of likelihoods."""
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def likelihood(variable: Variable, value: Any) -> np.ndarray:
    """A checked vector of likelihoods, one per state."""
    what = f"soft evidence on '{variable.name}'"
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise EvidenceError(f"{what}: expected {variable.size} numbers, got {value!r:.80}") from None
    if vector.shape != (variable.size,):
        raise EvidenceError(f"{what}: expected {variable.size} likelihoods, got shape {vector.shape}")
    if not (vector >= 0).all() or np.isinf(vector).any():
        raise EvidenceError(f"{what}: likelihoods must be finite and non-negative, got {vector}")
    if not vector.any():
        raise EvidenceError(f"{what}: at least one likelihood must be positive, got all zero")
    return vector


def condition(graph: FactorGraph, evidence: Evidence) -> tuple[FactorGraph, Restriction]:
    """The conditioned graph, and the restriction that maps answers back to the original one."""
    if evidence.likelihoods:
        graph = _with_likelihoods(graph, evidence)
    restriction = Restriction.to_states(graph.variables, evidence.states)
    return restriction.apply(graph), restriction


@dataclass(frozen=True)
class Restriction:
    """Some states of some variables, and the way back from answers about them alone."""

    variables: Variables  # the unrestricted variables
    keep: np.ndarray  # one flag per flat state; at least one per variable

    @classmethod
    def to_states(cls, variables: Variables, states: np.ndarray) -> Restriction:
        """Keep one state where `states[i] >= 0`, all states elsewhere."""
        owner = np.repeat(np.arange(len(variables)), variables.sizes)
        keep = (states < 0)[owner]
        seen = np.flatnonzero(states >= 0)
        keep[variables.state_start[seen] + states[seen]] = True
        return cls(variables, keep)

    @cached_property
    def is_trivial(self) -> bool:
        """Whether every state is kept."""
        return bool(self.keep.all())

    @cached_property
    def _kept(self) -> tuple[np.ndarray, np.ndarray]:
        """The kept states by variable, as the kernels want them."""
        from ..kernels.tables import kept_states

        return kept_states(self.variables.state_start, self.keep)

    def apply(self, graph: FactorGraph) -> FactorGraph:
        """The graph on the kept states; variables and factors keep their positions."""
        from ..kernels.tables import gather_tables

        if self.is_trivial:
            return graph
        start = self.variables.state_start
        sizes = np.add.reduceat(self.keep, start[:-1]).astype(np.int64)
        tables, table_start = gather_tables(
            graph.log_tables, graph.table_start, graph.scope_start, graph.scope, start, *self._kept
        )
        return graph.with_states(self.variables.restrict(self.keep, sizes), tables, table_start)

    def expand_states(self, values: np.ndarray) -> np.ndarray:
        """Flat values per kept state, with zeros at the states that were removed."""
        if self.is_trivial:
            return values
        full = np.zeros(len(self.keep))
        full[self.keep] = values
        return full

    def expand_tables(self, values: np.ndarray, graph: FactorGraph) -> np.ndarray:
        """Flat tables of the restricted graph spread over those of `graph`, zeros elsewhere."""
        from ..kernels.tables import scatter_tables

        sizes = graph.table_size
        if self.is_trivial:
            return values[: int(sizes.sum())]
        start = starts_of(sizes)
        return scatter_tables(
            values, start, graph.scope_start, graph.scope, self.variables.state_start, *self._kept
        )

    def expand_indices(self, indices: np.ndarray) -> np.ndarray:
        """State indices (..., n) among the kept states, as indices among all; -1 stays."""
        if self.is_trivial:
            return indices
        start = self.variables.state_start
        flat = np.flatnonzero(self.keep)
        first = np.searchsorted(flat, start[:-1])
        found = flat[first + np.maximum(indices, 0)] - start[:-1]
        return np.where(indices < 0, -1, found)

    def expand_axes(self, table: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """A table whose axes are the kept states of these variables, over all their states."""
        start = self.variables.state_start
        kept = [np.flatnonzero(self.keep[start[i] : start[i + 1]]) for i in positions]
        full = np.zeros([self.variables.sizes[i] for i in positions])
        full[np.ix_(*kept)] = table
        return full


def _with_likelihoods(graph: FactorGraph, evidence: Evidence) -> FactorGraph:
    positions = np.array([i for i, _ in evidence.likelihoods], dtype=np.int64)
    with np.errstate(divide="ignore"):
        logs = [np.log(vector) for _, vector in evidence.likelihoods]
    ends = graph.scope_start[-1] + 1 + np.arange(len(positions))
    starts = len(graph.log_tables) + starts_of([len(v) for v in logs])[:-1]
    extended = FactorGraph.from_flat(
        graph.variables,
        np.concatenate([graph.scope_start, ends]),
        np.concatenate([graph.scope, positions]),
        np.concatenate([graph.log_tables, *logs]),
        table_start=np.concatenate([graph.table_start, starts]),
    )
    extended.memo = graph.memo
    return extended
