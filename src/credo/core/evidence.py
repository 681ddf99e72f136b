"""What was observed, checked in one place.

Hard evidence fixes a variable to a state (by label or index) or to a value; soft evidence is a vector of
likelihoods p(observation | state); `None` and NaN mean missing. Conditioning keeps every
variable and every factor at its position: an observed variable, whatever its domain, keeps one state, so
arrays of the conditioned graph line up with those of the original one and answers are mapped back by
scattering (`Restriction`). Factors that are no tables lose their observed variables, and those that have
states only after that become tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .domain import Simplex
from .errors import EvidenceError, QueryError
from .factor_graph import FactorGraph
from .groups import TableBlock
from .numbers import float_array, is_missing
from .variable import Variable, Variables
from .wiring import starts_of

__all__ = ["Evidence", "Restriction", "condition", "is_vector", "likelihood"]


@dataclass(frozen=True)
class Evidence:
    """Checked evidence on an ordered set of variables."""

    states: np.ndarray  # (n,) observed state of each variable, -1 where none
    likelihoods: tuple[tuple[int, np.ndarray], ...] = ()  # (variable position, likelihood vector)
    values: Mapping[int, Any] = field(default_factory=dict)  # position -> value of a continuous variable

    @classmethod
    def of(cls, variables: Variables, evidence: Any) -> Evidence:
        """Check a mapping name -> state, index, value, likelihood vector, or None for missing.

        A pair of arrays (positions, values) is the same in bulk.
        """
        if isinstance(evidence, Evidence):
            return evidence
        if isinstance(evidence, tuple) and len(evidence) == 2:
            return cls._of_arrays(variables, *evidence)
        states = np.full(len(variables), -1, dtype=np.int64)
        likelihoods = []
        values: dict[int, Any] = {}
        if evidence is not None and not hasattr(evidence, "items"):
            raise EvidenceError(f"evidence: expected a mapping name -> state, got {evidence!r:.80}")
        for name, value in () if evidence is None else evidence.items():
            try:
                i = variables.position(name)
            except QueryError as error:
                raise EvidenceError(f"evidence: {error}") from None
            if is_missing(value):
                continue
            if variables.sizes[i] == 0:
                values[i] = variables[i].value(value)
            elif is_vector(value):
                likelihoods.append((i, likelihood(variables[i], value)))
            else:
                states[i] = variables[i].index(value)
        return cls(states, tuple(likelihoods), values)

    @classmethod
    def _of_arrays(cls, variables: Variables, positions: Any, values: Any) -> Evidence:
        positions, values = np.asarray(positions), float_array("evidence", values, error=EvidenceError)
        if positions.ndim != 1 or positions.dtype.kind not in "iu" or positions.shape != values.shape:
            raise EvidenceError(
                "evidence: expected arrays (positions, values) of one length, positions whole numbers, got "
                f"{positions.dtype} {positions.shape} and {values.shape}"
            )
        n = len(variables)
        if len(positions) and not (0 <= positions.min() and positions.max() < n):
            raise EvidenceError(f"evidence: expected positions in [0, {n})")
        once, first = np.unique(positions, return_index=True)
        if len(once) < len(positions):
            twice = int(np.delete(positions, first)[0])
            raise EvidenceError(f"evidence: variable '{variables.names[twice]}' is observed twice")
        positions, values = positions[~np.isnan(values)], values[~np.isnan(values)]  # the others are missing
        sizes = variables.sizes[positions]
        discrete = sizes > 0
        wrong = discrete & ((values != np.floor(values)) | (values < 0) | (values >= sizes))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            i = int(positions[at])
            raise EvidenceError(
                f"evidence: variable '{variables.names[i]}' has {sizes[at]} states, got {values[at]:g}"
            )
        states = np.full(n, -1, dtype=np.int64)
        states[positions[discrete]] = values[discrete].astype(np.int64)
        pairs = zip(positions[~discrete].tolist(), values[~discrete].tolist(), strict=True)
        return cls(states, (), {i: variables[i].value(value) for i, value in pairs})

    @property
    def is_empty(self) -> bool:
        """Whether nothing was observed."""
        return not self.likelihoods and not self.values and not (self.states >= 0).any()

    @cached_property
    def flags(self) -> np.ndarray:
        """Which variables were observed."""
        found = self.states >= 0
        found[list(self.values)] = True
        return found

    @cached_property
    def numbers(self) -> np.ndarray:
        """Observed numbers by position, NaN where there is none."""
        found = np.full(len(self.states), np.nan)
        for i, value in self.values.items():
            if np.ndim(value) == 0:
                found[i] = value
        return found

    def coordinates(self, scopes: np.ndarray, variables: Variables) -> np.ndarray:
        """Numbers (rows, k) of real variables whose domains agree by column; NaN where none was observed."""
        widths = [variables.domains[int(i)].width for i in scopes[0]]
        if all(width == 1 for width in widths):
            return self.numbers[scopes]
        none = [np.full(width, np.nan) for width in widths]
        rows = [
            np.concatenate([np.ravel(self.values.get(int(i), none[k])) for k, i in enumerate(scope)])
            for scope in scopes
        ]
        return np.array(rows)

    def column(self, at: np.ndarray, variables: Variables) -> np.ndarray:
        """Observed values at positions whose variables have one domain."""
        if variables.sizes[at[0]]:
            return self.states[at]
        return np.array([self.values[int(i)] for i in at])

    def value(self, i: int) -> Any:
        """State index or value observed at a position; None where nothing was."""
        return int(self.states[i]) if self.states[i] >= 0 else self.values.get(i)


def is_vector(value: Any) -> bool:
    """Whether a value is a vector of likelihoods."""
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def likelihood(variable: Variable, value: Any) -> np.ndarray:
    """A checked vector of likelihoods, one per state."""
    what = f"soft evidence on '{variable.name}'"
    vector = float_array(what, value, error=EvidenceError, expected=f"{variable.size} numbers")
    if vector.shape != (variable.size,):
        raise EvidenceError(f"{what}: expected {variable.size} likelihoods, got shape {vector.shape}")
    if not (vector >= 0).all() or np.isinf(vector).any():
        raise EvidenceError(f"{what}: likelihoods must be finite and non-negative, got {vector}")
    if not vector.any():
        raise EvidenceError(f"{what}: at least one likelihood must be positive, got all zero")
    return vector


def condition(graph: FactorGraph, evidence: Evidence) -> tuple[FactorGraph, Restriction]:
    """The conditioned graph, and the restriction that maps answers back to the original one.

    A simplex with one coordinate has one value only, so its variable counts as observed.
    """
    if evidence.likelihoods:
        graph = _with_likelihoods(graph, evidence)
    if not graph.variables.is_discrete:
        domains = enumerate(graph.variables.domains)
        known = {i: np.ones(1) for i, d in domains if isinstance(d, Simplex) and d.width == 1}
        evidence = replace(evidence, values=known | dict(evidence.values)) if known else evidence
    restriction = Restriction.to_states(graph.variables, evidence.states, evidence.values)
    conditioned = restriction.apply(graph)
    if not graph.others or restriction.is_trivial:
        return conditioned, restriction
    parts = [part for group in graph.others for part in group.condition(evidence, graph.variables)]
    return conditioned.with_parts(conditioned.variables, parts), restriction


@dataclass(frozen=True)
class Restriction:
    """Some states of some variables, values of others, and the way back from answers about the rest alone."""

    variables: Variables  # the unrestricted variables
    keep: np.ndarray  # one flag per flat state; at least one per variable that has states
    values: Mapping[int, Any] = field(default_factory=dict)  # position -> value; it counts as one state

    @classmethod
    def to_states(
        cls, variables: Variables, states: np.ndarray, values: Mapping[int, Any] | None = None
    ) -> Restriction:
        """Keep one state where `states[i] >= 0`, all states elsewhere."""
        owner = np.repeat(np.arange(len(variables)), variables.sizes)
        keep = (states < 0)[owner]
        seen = np.flatnonzero(states >= 0)
        keep[variables.state_start[seen] + states[seen]] = True
        return cls(variables, keep, values or {})

    @cached_property
    def is_trivial(self) -> bool:
        """Whether every state is kept, and no value given."""
        return bool(self.keep.all()) and not self.values

    @cached_property
    def _kept(self) -> tuple[np.ndarray, np.ndarray]:
        """The kept states by variable, as the kernels want them."""
        from ..kernels.tables import kept_states

        return kept_states(self.variables.state_start, self.keep)

    @cached_property
    def _sizes(self) -> np.ndarray:
        """States per variable that are left."""
        start, total = self.variables.state_start, np.append(0, np.cumsum(self.keep))
        sizes = total[start[1:]] - total[start[:-1]]
        sizes[list(self.values)] = 1
        return sizes.astype(np.int64)

    @property
    def observed(self) -> np.ndarray:
        """Flags of the variables of which one state or value is left, and there were more."""
        return (self._sizes == 1) & (self.variables.sizes != 1)

    def apply(self, graph: FactorGraph) -> FactorGraph:
        """The graph on the kept states; variables and tables keep their positions."""
        from ..kernels.tables import gather_tables

        if self.is_trivial:
            return graph
        tables, table_start = gather_tables(
            graph.log_tables,
            graph.table_start,
            graph.scope_start,
            graph.scope,
            self.variables.state_start,
            *self._kept,
        )
        return graph.with_states(self.variables.restrict(self.keep, self._sizes), tables, table_start)

    def expand_states(self, values: np.ndarray) -> np.ndarray:
        """Flat values per kept state, with zeros at the states that were removed."""
        if self.is_trivial:
            return values
        full = np.zeros(len(self.keep))
        full[self.keep] = values[np.repeat(self.variables.sizes > 0, self._sizes)] if self.values else values
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
        flat = np.append(np.flatnonzero(self.keep), 0)  # one more for variables without states at the end
        first = np.searchsorted(flat[:-1], start[:-1])
        found = flat[first + np.maximum(indices, 0)] - start[:-1]
        return np.where((indices < 0) | (self.variables.sizes == 0), -1, found)

    def expand_axes(self, table: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """A table whose axes are the kept states of these variables, over all their states."""
        start = self.variables.state_start
        kept = [np.flatnonzero(self.keep[start[i] : start[i + 1]]) for i in positions]
        full = np.zeros([self.variables.sizes[i] for i in positions])
        full[np.ix_(*kept)] = table
        return full


def _with_likelihoods(graph: FactorGraph, evidence: Evidence) -> FactorGraph:
    """The graph with a table per likelihood vector, numbered after the existing factors."""
    with np.errstate(divide="ignore"):
        logs = [np.log(vector) for _, vector in evidence.likelihoods]
    last = 1 + max((int(part.max(initial=-1)) for part in graph.all_numbers), default=-1)
    pairs = zip(evidence.likelihoods, logs, strict=True)
    blocks = [
        TableBlock(np.array([last + k]), np.array([[i]]), log[None]) for k, ((i, _), log) in enumerate(pairs)
    ]
    return graph.with_parts(graph.variables, [*graph.others, *blocks])
