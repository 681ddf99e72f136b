r"""A model of hidden rows together with data: what inference answers and learning counts.

A *template* (hidden Markov model, semi-Markov model, factorial chains) is a graph only together with data.
`template.instantiate(data)` makes an `Instance` of arrays alone: a log score for every row and hidden state,
weights that all rows share, by the name of the parameter they come from, and where each sequence begins:

    p(s, x) = prod_units  structure(s; tables)  prod_t exp( scores[t, s_t] )

The structures are

    independent   weights(s_t) for every row by itself
    chains        start(s_1) prod transition(s_{t-1}, s_t)
    segments      start, transition and durations of segments; the last may be cut by the end of the data

Tables hold weights, not logarithms, and need not sum to one: variational Bayes puts exp E[log] there. A
factor graph is made only where a general method is asked for: a chain of a million steps is two arrays here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from .display import Listing, Shown
from .errors import ModelError, UnsupportedError
from .factor_graph import FactorGraph
from .variable import Variables

__all__ = ["Instance", "Rows", "Structure", "Template"]

Structure = Literal["independent", "chains", "segments"]
_NAMES = {
    "independent": ("weights",),
    "chains": ("start", "transition"),
    "segments": ("start", "transition", "durations"),
}


@runtime_checkable
class Template(Protocol):
    """A model that is a graph only together with data."""

    def instantiate(self, x: Any, **reading: Any) -> Instance:
        """The hidden rows of these sequences, read as by `data.read_sequences`."""
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

    structure: Structure  # independent rows, chains or segments
    scores: np.ndarray  # (rows, states) log score of every row under every hidden state
    begin: np.ndarray  # (units + 1,) sequence i owns the rows begin[i]:begin[i+1]
    tables: Mapping[str, np.ndarray]  # weights by parameter name, shared by all rows
    shape: tuple[int, ...] = ()  # states of each hidden chain, if a state stands for those of several
    cut: bool = True  # whether the last segment may go on beyond the end of the data
    first: int = 0  # number of the first sequence, if these are a part of more
    name: str = "state"  # of the hidden variable
    weights: np.ndarray | None = None  # (units,) how often each counts in sums over them; None is once

    def __post_init__(self) -> None:
        wanted = _NAMES.get(self.structure)
        if wanted is None or set(self.tables) != set(wanted):
            raise ModelError(
                f"instance: expected one of the structures {_NAMES} with its tables, "
                f"got {self.structure!r} with {sorted(self.tables)}"
            )
        if self.scores.ndim != 2 or len(self.begin) < 1 or self.begin[-1] != len(self.scores):
            raise ModelError(
                f"instance: expected scores (rows, states) and begin[-1] equal to the number of rows, "
                f"got shape {self.scores.shape} and {self.begin[-1:]}"
            )
        for name, table in self.tables.items():
            if table.shape[0] != self.states:
                raise ModelError(f"{name}: expected {self.states} states, got shape {table.shape}")

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

    def weighed(self, weights: np.ndarray) -> Instance:
        """The same sequences, each counted so often."""
        return replace(self, weights=None if (weights == 1).all() else weights)

    def total(self, values: np.ndarray) -> float:
        """The sum of one number per sequence, each counted with its weight."""
        return float(values.sum() if self.weights is None else self.weights @ values)

    def weigh_rows(self, rows: np.ndarray) -> np.ndarray:
        """What belongs to the rows, times the weights of their sequences."""
        if self.weights is None:
            return rows
        found: np.ndarray = rows * np.repeat(self.weights, self.lengths)[:, None]
        return found

    def place(self, row: int) -> str:
        """Words for a row: which sequence, which step."""
        unit = int(np.searchsorted(self.begin, row, side="right")) - 1
        return f"sequence {self.first + unit}, step {row - self.begin[unit]}"

    def by_unit(self, rows: np.ndarray) -> Any:
        """What belongs to the rows: as it is for one sequence, a list for several."""
        return rows if self.units == 1 else np.split(rows, self.begin[1:-1])

    def named(self, rows: np.ndarray) -> Rows:
        """Probabilities (rows, states) or states (rows,) by the names of the hidden chains."""
        if not self.shape:
            return Rows({self.name: self.by_unit(rows)})
        chains = range(len(self.shape))
        if rows.ndim == 1:
            parts = np.unravel_index(rows, self.shape)
            return Rows({f"{self.name}{m}": self.by_unit(parts[m]) for m in chains})
        joint = rows.reshape(-1, *self.shape)
        sums = [joint.sum(axis=tuple(a + 1 for a in chains if a != m)) for m in chains]
        return Rows({f"{self.name}{m}": self.by_unit(part) for m, part in enumerate(sums)})

    def named_draws(self, paths: np.ndarray) -> Rows:
        """Draws of states (count, rows) by the names of the hidden chains, (count, steps) per sequence."""
        parts = np.unravel_index(paths, self.shape) if self.shape else (paths,)
        names = [f"{self.name}{m}" for m in range(len(self.shape))] or [self.name]
        cut = [p if self.units == 1 else np.split(p, self.begin[1:-1], axis=1) for p in parts]
        return Rows(dict(zip(names, cut, strict=True)))

    def to_factor_graph(self) -> FactorGraph:
        """One variable per row, in order: s0, s1, ..., or s0_0, s0_1, ... of several sequences."""
        if self.structure == "segments":
            raise UnsupportedError(
                "segments: a general method needs one variable per row, and durations are no table over "
                "neighbours; instantiate model.to_hmm() instead, or name no method"
            )
        scores, rows = self.scores.copy(), len(self.scores)
        with np.errstate(divide="ignore"):
            logs = {name: np.log(table) for name, table in self.tables.items()}
        pairs, steps = np.empty(0, np.int64), np.empty(0)
        if self.structure == "independent":
            scores += logs["weights"]
        else:
            scores[self.first_rows] += logs["start"]
            later = np.setdiff1d(np.arange(rows), self.first_rows)
            pairs = np.stack([later - 1, later], axis=1).ravel()
            steps = np.tile(logs["transition"].ravel(), len(later))
        sizes = np.concatenate([np.full(rows, 1), np.full(len(pairs) // 2, 2)])
        return FactorGraph.from_flat(
            Variables.of(dict.fromkeys(self._row_names(), self.states)),
            np.concatenate([[0], np.cumsum(sizes)]),
            np.concatenate([np.arange(rows), pairs]),
            np.concatenate([scores.ravel(), steps]),
        )

    def _row_names(self) -> list[str]:
        if self.units == 1:
            return [f"s{t}" for t in range(len(self.scores))]
        return [f"s{unit}_{t}" for unit, size in enumerate(self.lengths) for t in range(size)]

    def __repr__(self) -> str:
        size = f"{self.units} sequences, {len(self.scores)} rows, {self.states} states"
        return f"Instance({self.structure}, {size})"


class Rows(Shown, Mapping[str, Any]):
    """Name of a hidden variable -> an array with one row per step; a list of those for several sequences."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self._parts = dict(parts)

    def __getitem__(self, name: str) -> Any:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def _shown(self) -> Iterable[str | Listing]:
        for name, part in self._parts.items():
            shapes = [p.shape for p in part] if isinstance(part, list) else part.shape
            yield f"{name}: {f'{len(shapes)} sequences' if isinstance(part, list) else f'array {shapes}'}"
