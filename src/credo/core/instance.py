r"""A model of hidden rows together with data: what inference answers and learning counts.

A *template* (hidden Markov or semi-Markov model, factorial chains, conditional random field) is a graph only
together with data.
`template.instantiate(data)` makes an `Instance` of arrays alone: a log score for every row and hidden state,
weights that all rows share, by the name of the parameter they come from, and where each sequence begins:

    p(s, x) = prod_units  structure(s; tables)  prod_t exp( scores[t, s_t] )

The structures are

    independent   weights(s_t) for every row by itself
    chains        start(s_1) prod transition(s_{t-1}, s_t)
    segments      start, transition and durations of segments; the last may be cut by the end of the data
    factorial     several chains, start0, transition0, start1, ...; a score for every joint state of a row
    steps         exp( pairs[t, s_{t-1}, s_t] ): chains whose every step has log scores of its own
    graph         exp( pairs[e, s_i, s_j] ) for the pairs of rows (i, j) = edges[e]

Tables hold weights, not logarithms, and need not sum to one: variational Bayes puts exp E[log] there. A
factor graph is made only where a general method is asked for: a chain of a million steps is two arrays here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from .domain import Discrete
from .errors import ModelError
from .factor_graph import FactorGraph
from .rows import Rows

__all__ = ["Instance", "Structure", "Template"]

Structure = Literal["independent", "chains", "segments", "factorial", "steps", "graph"]
_NAMES = {
    "independent": ("weights",),
    "chains": ("start", "transition"),
    "segments": ("start", "transition", "durations"),
    "steps": (),
    "graph": (),
}


@runtime_checkable
class Template(Protocol):
    """A model that is a graph only together with data."""

    def instantiate(self, x: Any, **reading: Any) -> Any:
        """The hidden rows of these data, which `reading` says how to read."""
        ...


@dataclass(frozen=True)
class Instance:
    """Hidden rows with data: scores, shared tables, sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.core.instance import Instance
    >>> tables = {"start": np.array([0.5, 0.5]), "transition": np.array([[0.9, 0.1], [0.1, 0.9]])}
    >>> Instance("chains", np.zeros((5, 2)), np.array([0, 2, 5]), tables)
    Instance(chains, 2 sequences, 5 rows, 2 states)
    """

    structure: Structure  # independent rows, chains, segments, or several chains
    scores: np.ndarray  # (rows, states) log score of every row under every hidden state
    begin: np.ndarray  # (units + 1,) sequence i owns the rows begin[i]:begin[i+1]
    tables: Mapping[str, np.ndarray]  # weights by parameter name, shared by all rows
    shape: tuple[int, ...] = ()  # states of each of several chains, which a state of a row stands for
    cut: bool = True  # whether the last segment may go on beyond the end of the data
    first: int = 0  # number of the first sequence, if these are a part of more
    name: str = "state"  # of the hidden variable
    weights: np.ndarray | None = None  # (units,) how often each counts in sums over them; None is once
    pairs: np.ndarray | None = None  # (rows or edges, states, states) log scores of the step into each row
    edges: np.ndarray | None = None  # (edges, 2) rows of one unit each, in the order of the units
    domain: Discrete | None = None  # labels of the states; without, they are numbers

    def __post_init__(self) -> None:
        chains = range(len(self.shape))
        several = tuple(f"{name}{m}" for m in chains for name in _NAMES["chains"])
        wanted = several if self.structure == "factorial" else _NAMES.get(self.structure)
        if wanted is None or set(self.tables) != set(wanted):
            raise ModelError(
                f"instance: expected one of the structures {_NAMES} with its tables, or factorial with those "
                f"of every chain, got {self.structure!r} with {sorted(self.tables)}"
            )
        if self.scores.ndim != 2 or len(self.begin) < 1 or self.begin[-1] != len(self.scores):
            raise ModelError(
                f"instance: expected scores (rows, states) and begin[-1] equal to the number of rows, "
                f"got shape {self.scores.shape} and {self.begin[-1:]}"
            )
        sizes = dict.fromkeys(wanted, self.states)
        if self.structure == "factorial":
            if prod(self.shape) != self.states:
                raise ModelError(f"instance: expected {prod(self.shape)} joint states, got {self.states}")
            sizes = {f"{name}{m}": self.shape[m] for m in chains for name in _NAMES["chains"]}
        self._check_pairs()
        for name, table in self.tables.items():
            if table.shape[0] != sizes[name]:
                raise ModelError(f"{name}: expected {sizes[name]} states, got shape {table.shape}")

    def _check_pairs(self) -> None:
        count = {"steps": len(self.scores), "graph": -1 if self.edges is None else len(self.edges)}
        wanted = (count[self.structure], self.states, self.states) if self.structure in count else None
        got = None if self.pairs is None else self.pairs.shape
        if got != wanted:
            raise ModelError(f"instance: expected log scores of pairs of shape {wanted}, got {got}")

    @property
    def states(self) -> int:
        """How many hidden states a row has."""
        return int(self.scores.shape[1])

    @property
    def units(self) -> int:
        """How many sequences there are."""
        return len(self.begin) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Rows of every sequence, (units,)."""
        return np.diff(self.begin)

    @property
    def first_rows(self) -> np.ndarray:
        """The first row of every sequence that has one."""
        return self.begin[:-1][self.lengths > 0]

    def clamped(self, states: np.ndarray) -> Instance:
        """The same with only these states possible, (rows,); -1 leaves all of them."""
        scores = self.scores.copy()
        known = np.flatnonzero(states >= 0)
        scores[known] = -np.inf
        scores[known, states[known]] = self.scores[known, states[known]]
        return replace(self, scores=scores)

    def weighed(self, weights: np.ndarray) -> Instance:
        """The same sequences, each counted so often."""
        return replace(self, weights=None if (weights == 1).all() else weights)

    def total(self, values: np.ndarray) -> float:
        """The sum of one number per sequence, each counted with its weight."""
        if self.weights is None:
            return float(values.sum())
        counted = self.weights > 0  # what counts for nothing may be impossible
        return float(self.weights[counted] @ values[counted])

    def weigh_rows(self, rows: np.ndarray) -> np.ndarray:
        """What belongs to the rows, times the weights of their sequences."""
        if self.weights is None:
            return rows
        found: np.ndarray = rows * np.repeat(self.weights, self.lengths)[:, None]
        return found

    def place(self, row: int) -> str:
        """Words for a row: which sequence, which step."""
        if self.structure == "independent":
            return f"row {self.first + row}"
        unit = int(np.searchsorted(self.begin, row, side="right")) - 1
        return f"sequence {self.first + unit}, step {row - self.begin[unit]}"

    @property
    def cuts(self) -> np.ndarray:
        """Where answers are cut, as `begin`: at the sequences; nowhere, if the rows are independent."""
        return self.begin if self.structure != "independent" else self.begin[[0, -1]]

    def named(self, rows: np.ndarray) -> Rows:
        """Probabilities (rows, states) or states (rows,) by the names of the hidden chains."""
        return Rows.of(rows, self.cuts, self.shape, self.name)

    def named_tables(self, flat: np.ndarray) -> Rows:
        """Probabilities of the states of all rows, one after another."""
        return self.named(flat.reshape(-1, self.states))

    def named_parts(self, parts: list[np.ndarray]) -> Rows:
        """One array with a row per step for every hidden chain, by their names."""
        return Rows.of_parts(parts, self.cuts, self.name, is_chain=not self.shape)

    def named_draws(self, paths: np.ndarray) -> Rows:
        """Draws of states (count, rows) by the names of the hidden chains, (count, steps) per sequence."""
        parts = list(np.unravel_index(paths, self.shape)) if self.shape else [paths]
        return Rows.of_parts(parts, self.cuts, self.name, is_chain=not self.shape, axis=1)

    def to_factor_graph(self) -> FactorGraph:
        """One variable per row, in order: s0, s1, ..., or s0_0, s0_1, ... of several sequences.

        Of several chains one variable per chain and row, chain by chain: s0_0, s0_1, ..., s1_0, ... Rows
        whose states have labels are y0, y1, ... instead.
        """
        from .instance_graph import graph_of

        return graph_of(self)

    def unit(self, number: int) -> Instance:
        """One of the sequences, or graphs, by itself."""
        first, last = (int(row) for row in self.begin[number : number + 2])
        begin, rows = np.array([0, last - first]), self.scores[first:last]
        pairs, edges, weights = self.pairs, self.edges, self.weights
        if edges is not None and pairs is not None:
            own = slice(*np.searchsorted(edges[:, 0], [first, last]))  # units are in order, if not the ends
            pairs, edges = pairs[own], edges[own] - first
        elif pairs is not None:
            pairs = pairs[first:last]
        counted = None if weights is None else weights[number : number + 1]
        here = self.first + number
        return replace(self, scores=rows, begin=begin, first=here, weights=counted, pairs=pairs, edges=edges)

    def __repr__(self) -> str:
        size = f"{len(self.scores)} rows, {self.states} states"
        if self.structure != "independent":
            size = f"{self.units} sequences, {size}"
        return f"Instance({self.structure}, {size})"
