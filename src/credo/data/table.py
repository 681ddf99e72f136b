"""Tables of observations: what every learner reads.

A row observes some variables and misses others. Equal rows are stored once with a count, because
likelihoods, gradients and expected counts depend on the distinct rows alone; a missing value is -1.

    data = StateTable.of(model.variables, frame)        # pandas, NumPy, columns, rows, CSV, Parquet
    data.states, data.counts                              # distinct rows (d, n), their counts (d,)

It is a view of what `data.read` gives with the model's variables as schema; columns that are left out are
hidden variables. Rows that observe nothing say nothing about the model and are left out. Soft evidence is
kept as one more distinct value per cell: the number of its weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import DataError, QueryError
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from .coding import relabelled
from .column import MISSING
from .dataset import Dataset, random_batches, unit_weights
from .read import read
from .soft import SoftCells

__all__ = ["MISSING", "StateTable", "distinct_rows"]

_ENTRIES = 1 << 21  # table entries looked up at once when counting; bounds the memory


@dataclass(frozen=True, repr=False)
class StateTable:
    """Distinct rows of states with counts; make it with `StateTable.of`.

    Examples
    --------
    >>> import credo
    >>> from credo.data.table import StateTable
    >>> model = credo.datasets.sprinkler()
    >>> rows = [{"rain": "yes", "wet": "yes"}, {"rain": "yes", "wet": "yes"}, {"rain": None, "wet": "no"}]
    >>> data = StateTable.of(model.variables, rows)
    >>> data
    StateTable(3 rows, 2 distinct, 2 of 4 variables observed, some values missing)
    >>> data.counts
    array([2., 1.])
    """

    variables: Variables  # of the model, one per column
    states: np.ndarray  # (distinct, n) state indices, -1 where missing
    counts: np.ndarray  # (distinct,) total weight of each distinct row
    row_of: np.ndarray  # (rows,) distinct row of each row, in the order of the data
    row_weights: np.ndarray  # (rows,) weight of each row, 1 unless given
    numbers: np.ndarray | None = None  # (rows,) position in the user's table, where some rows were left out
    soft: SoftCells | None = None  # evidence that is uncertain
    notes: tuple[str, ...] = ()  # sentences about what was left out

    @classmethod
    def of(cls, variables: Any, data: Any, *, weights: Any = None, soft: bool = False) -> StateTable:
        """Read a table of observations in any of the forms of the module's description.

        Parameters
        ----------
        variables
            The variables of the model.
        data
            The table.
        weights
            How often each row counts; 1 by default. Rows of weight 0 are left out.
        soft
            Whether the caller reads soft evidence, which is refused otherwise.
        """
        variables = Variables.of(variables)
        if isinstance(data, StateTable):
            if weights is not None:
                raise DataError("weights: these observations have their weights already; leave them out")
            if data.variables is not variables and data.variables != variables:
                raise DataError("data: these observations were made for other variables; make them anew")
            return data._checked(soft)
        if isinstance(data, Dataset) and weights is not None:
            raise DataError("weights: these data have their weights already; leave them out")
        found = (
            read(data, schema=variables) if weights is None else read(data, schema=variables, weights=weights)
        )
        return cls.of_dataset(found, variables)._checked(soft)

    def _checked(self, soft: bool) -> StateTable:
        if self.soft is None or soft:
            return self
        raise DataError(
            f"data: '{self.variables.names[self.soft.of[0]]}' has soft evidence, which only em, vb and "
            "log_likelihood of models with tables read; give states, or None where they are not known"
        )

    @classmethod
    def from_states(cls, variables: Any, states: Any, *, weights: Any = None) -> StateTable:
        """Make observations of state indices (rows, n), where -1 is always a missing value."""
        variables = Variables.of(variables)
        found = np.ma.filled(states, MISSING)
        n = len(variables)
        if found.ndim != 2 or found.shape[1] != n or found.dtype.kind not in "iu":
            raise DataError(
                f"data: expected integers of shape (rows, {n}), got {found.dtype} of shape {found.shape}"
            )
        bad = np.argwhere((found < MISSING) | (found >= variables.sizes))
        if len(bad):
            row, i = bad[0]
            raise DataError(
                f"data: row {row} has state {found[row, i]} of '{variables.names[i]}', "
                f"expected 0 to {variables.sizes[i] - 1}, or -1 for missing"
            )
        return cls._made(variables, found, weights)

    @classmethod
    def of_dataset(cls, data: Dataset, variables: Variables) -> StateTable:
        """The distinct rows of columns of states; variables without a column are hidden."""
        states = np.full((data.n_rows, len(variables)), MISSING, dtype=np.int64)
        soft: dict[int, np.ndarray] = {}
        for column in data.columns:
            try:
                i = variables.position(column.name)
            except QueryError as error:
                raise DataError(
                    f"data: the column {column.name!r} is no variable of the model: {error}"
                ) from None
            if not variables[i].is_discrete:
                raise DataError(
                    f"data: expected columns of variables with states, and '{column.name}' is real; leave it "
                    "out, or learn a network with real nodes (BayesNet.from_edges)"
                )
            states[:, i] = relabelled(column, variables[i].domain).values
            if column.soft is not None:
                soft[i] = column.soft
        weights = None if (data.weights == 1).all() else data.row_weights
        return cls._made(variables, states, weights, SoftCells.of_rows(soft, data.n_rows), data.notes)

    @classmethod
    def _made(
        cls,
        variables: Variables,
        states: np.ndarray,
        weights: Any,
        soft: SoftCells | None = None,
        notes: tuple[str, ...] = (),
    ) -> StateTable:
        if not len(states):
            raise DataError("data: expected at least one row, got none")
        row_weights = unit_weights(weights, len(states))
        empty = (states == MISSING).all(axis=1)
        if soft is not None:
            empty &= (soft.cells == 0).all(axis=1)
        if empty.any():
            notes = (*notes, f"{int(empty.sum())} rows that observe no variable were left out")
        kept, numbers = ~empty & (row_weights > 0), None
        if not kept.any():
            raise DataError("data: expected a row that observes a variable of the model, got none")
        if not kept.all():
            numbers = np.flatnonzero(kept)
            states, row_weights = states[numbers], row_weights[numbers]
            soft = None if soft is None else soft.take(numbers)
        if soft is None:
            first, row_of = distinct_rows(states, variables.sizes)
            distinct = np.ascontiguousarray(states[first], dtype=np.int64)
        else:
            largest = np.concatenate([variables.sizes, [len(w) for w in soft.weights]])
            first, row_of = distinct_rows(np.hstack([states, soft.cells]), largest)
            distinct = np.ascontiguousarray(states[first], dtype=np.int64)
            soft = replace(soft, cells=soft.cells[first])
        counts = np.bincount(row_of, row_weights, minlength=len(distinct))
        return cls(variables, distinct, counts, row_of, row_weights, numbers, soft, notes)

    def with_soft_children(self, graph: FactorGraph) -> tuple[FactorGraph, StateTable, np.ndarray]:
        """The graph with children that make soft evidence certain, the table, and the log tables added."""
        if self.soft is None:
            return graph, self, np.empty(0)
        wider, added = self.soft.beside(graph)
        states = np.hstack([self.states, self.soft.cells])
        return wider, replace(self, variables=wider.variables, states=states, soft=None), added

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def total(self) -> float:
        """Sum of the weights of all rows: the number of rows, if no weights were given."""
        return float(self.counts.sum())

    @cached_property
    def observed(self) -> np.ndarray:
        """Which values are there, (distinct, n)."""
        return self.states != MISSING

    @cached_property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return self.soft is None and bool(self.observed.all())

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """Names of the variables that no row observes."""
        seen = np.asarray(self.observed.any(axis=0))
        if self.soft is not None:
            seen[list(self.soft.of)] = True
        return tuple(self.variables.names[int(i)] for i in np.flatnonzero(~seen))

    @cached_property
    def complete_rows(self) -> np.ndarray:
        """Positions of the distinct rows without a missing value."""
        return np.flatnonzero(self.observed.all(axis=1))

    @cached_property
    def incomplete_rows(self) -> np.ndarray:
        """Positions of the distinct rows with a missing value."""
        return np.flatnonzero(~self.observed.all(axis=1))

    def patterns(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs (observed (n,), distinct rows): the rows that observe the same variables.

        Exact plans depend on which variables are observed, not on their states, so learners treat
        the rows of one pattern one after another.
        """
        masks, which = np.unique(self.observed, axis=0, return_inverse=True)
        which = which.ravel()
        return [(mask, np.flatnonzero(which == p)) for p, mask in enumerate(masks)]

    def take(self, rows: np.ndarray) -> StateTable:
        """The observations of some rows of the data (positions, repeats allowed)."""
        kept, row_of = np.unique(self.row_of[rows], return_inverse=True)
        weights = self.row_weights[rows]
        counts = np.bincount(row_of.ravel(), weights, minlength=len(kept))
        numbers = np.asarray(rows) if self.numbers is None else self.numbers[rows]
        soft = None if self.soft is None else self.soft.take(kept)
        return StateTable(
            self.variables, self.states[kept], counts, row_of.ravel(), weights, numbers, soft, self.notes
        )

    def number(self, distinct: int) -> int:
        """Number, in the user's table, of the first row that is this distinct one."""
        row = int(np.flatnonzero(self.row_of == distinct)[0])
        return row if self.numbers is None else int(self.numbers[row])

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[StateTable, StateTable]:
        """Two parts at random, the second with about this fraction of the rows; both have one at least."""
        if not 0 < fraction < 1 or len(self) < 2:
            raise DataError(
                f"split: expected a fraction between 0 and 1 of at least two rows, "
                f"got {fraction} of {len(self)}"
            )
        order = rng.permutation(len(self))
        size = min(max(round(fraction * len(self)), 1), len(self) - 1)
        return self.take(np.sort(order[size:])), self.take(np.sort(order[:size]))

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[StateTable]:
        """The rows in random order, `size` at a time; everything at once for None."""
        return random_batches(self, size, rng)

    def table_counts(self, graph: FactorGraph) -> np.ndarray:
        """Weighted counts of every table entry, in factor order without gaps.

        A row counts for a factor if it observes the factor's whole scope.
        """
        start = np.concatenate([[0], np.cumsum(graph.table_size)]).astype(np.int64)
        found = np.zeros(int(start[-1]))
        at_once = max(_ENTRIES // max(len(self.states), 1), 1)  # factors treated together
        for group in graph.shape_groups:
            for first in range(0, len(group.factors), at_once):
                scopes = group.scopes[first : first + at_once]
                entry = np.zeros((len(self.states), len(scopes)), dtype=np.int64)
                seen = np.ones(entry.shape, dtype=bool)
                for k, size in enumerate(group.shape):
                    column = self.states[:, scopes[:, k]]
                    entry = entry * size + column
                    seen &= column != MISSING
                entry += start[group.factors[first : first + at_once]]
                weight = np.broadcast_to(self.counts[:, None], entry.shape)
                found += np.bincount(entry[seen], weight[seen], minlength=len(found))
        return found

    def evidence(self, row: int) -> dict[str, int]:
        """What a distinct row observes, as name -> state index."""
        names = self.variables.names
        return {names[int(i)]: int(self.states[row, i]) for i in np.flatnonzero(self.observed[row])}

    def __repr__(self) -> str:
        n = len(self.variables)
        return (
            f"StateTable({len(self)} rows, {len(self.states)} distinct, {n - len(self.hidden)} of {n} "
            f"variables observed, {'complete' if self.is_complete else 'some values missing'})"
        )


def distinct_rows(states: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First places of the distinct rows (rows, n) of states, and which of them each row is."""
    # Rows of small integers are sorted as one block of bytes each, which is many times faster.
    narrow = np.int8 if sizes.max(initial=0) < 127 else np.int64
    packed = np.ascontiguousarray(states, dtype=narrow)
    keys = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    _, first, row_of = np.unique(keys, return_index=True, return_inverse=True)
    return first, row_of.ravel()
