"""Variables and tables in four flat arrays, with what follows from them.

    scope_start[a] : scope_start[a+1]   the slice of `scope` with table a's variable positions
    table_start[a]                      where log table a begins in `log_tables` (C order)

so a million tables are one array, readers and bulk constructors fill it without a Python object per
factor, and many tables may share their entries (equal `table_start`).
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Self

import numpy as np

from .errors import ModelError, QueryError
from .factor import look_up
from .groups import FactorBatch, domains_of
from .naming import NamedModel
from .variable import Variables
from .wiring import Memo, ShapeGroup, Wiring, products_of, starts_of

__all__ = ["FlatTables"]


class FlatTables(NamedModel):
    """The tables of a factor graph; immutable."""

    variables: Variables
    scope_start: np.ndarray
    scope: np.ndarray
    table_start: np.ndarray
    log_tables: np.ndarray
    memo: Memo  # what algorithms compiled for this structure

    @classmethod
    def _unchecked(
        cls, variables: Variables, scope_start: np.ndarray, scope: np.ndarray, log_tables: np.ndarray
    ) -> Self:
        graph = cls.__new__(cls)
        graph.variables = variables
        graph.scope_start = np.ascontiguousarray(scope_start, dtype=np.int64)
        graph.scope = np.ascontiguousarray(scope, dtype=np.int64)
        graph.log_tables = np.ascontiguousarray(log_tables, dtype=np.float64)
        graph.memo = Memo()
        return graph

    def _freeze(self) -> None:
        for array in (self.scope_start, self.scope, self.table_start, self.log_tables):
            array.flags.writeable = False

    def _check_repeats(self) -> None:
        arity = np.diff(self.scope_start)
        for k in np.unique(arity[arity > 1]).tolist():
            rows = np.flatnonzero(arity == k)
            scopes = np.sort(self.scope[self.scope_start[rows][:, None] + np.arange(k)], axis=1)
            twice = np.argwhere(scopes[:, 1:] == scopes[:, :-1])
            if len(twice):
                a, at = twice[0]
                name = self.variables.names[int(scopes[a, at])]
                raise ModelError(f"factor {rows[a]}: variable '{name}' appears twice in the scope")

    @property
    def n_tables(self) -> int:
        """Number of factors that are tables."""
        return len(self.scope_start) - 1

    @cached_property
    def table_size(self) -> np.ndarray:
        """Number of entries of each factor's table."""
        sizes = products_of(self.scope_start, self.variables.sizes[self.scope].astype(np.float64))
        if sizes.max(initial=0.0) > 2.0**62:  # floats tell, where whole numbers would wrap around
            raise ModelError(f"factor {int(sizes.argmax())}: its table would have more than 2^62 entries")
        if sizes.max(initial=0.0) < 2.0**53:
            return sizes.astype(np.int64)
        return products_of(self.scope_start, self.variables.sizes[self.scope])

    @cached_property
    def structure_key(self) -> bytes:
        """A short name of the state counts and scopes, under which plans are filed in `memo`."""
        made = hashlib.blake2b(digest_size=16)
        for array in (self.variables.sizes, self.scope_start, self.scope):
            made.update(np.ascontiguousarray(array).data)
        return made.digest()

    @cached_property
    def wiring(self) -> Wiring:
        """Index arrays for kernels, compiled once."""
        return Wiring.of(self)

    @cached_property
    def shape_groups(self) -> tuple[ShapeGroup, ...]:
        """The factors grouped by table shape."""
        arity = np.diff(self.scope_start)
        found = []
        for k in np.unique(arity):
            of_arity = np.flatnonzero(arity == k)
            scopes = self.scope[self.scope_start[of_arity][:, None] + np.arange(k)]
            sizes = self.variables.sizes[scopes]
            if k == 0 or (sizes == sizes[0]).all():
                shapes, which = sizes[:1], np.zeros(len(sizes), dtype=np.int64)
            else:
                shapes, which = np.unique(sizes, axis=0, return_inverse=True)
            for g, shape in enumerate(shapes):
                rows = np.flatnonzero(which.ravel() == g)
                found.append(
                    ShapeGroup(
                        tuple(map(int, shape)),
                        of_arity[rows],
                        scopes[rows],
                        self.table_start[of_arity[rows]],
                    )
                )
        return tuple(found)

    def scope_of(self, a: int) -> np.ndarray:
        """Variable positions of table `a`, in axis order."""
        return self.scope[self.scope_start[a] : self.scope_start[a + 1]]

    def log_table(self, a: int) -> np.ndarray:
        """Log table `a`, a read-only view."""
        start = self.table_start[a]
        shape = self.variables.sizes[self.scope_of(a)]
        return self.log_tables[start : start + self.table_size[a]].reshape(shape)

    def select(self, factors: np.ndarray) -> Self:
        """The same with only these tables (positions), in this order; nothing is copied."""
        arity = np.diff(self.scope_start)[factors]
        start = starts_of(arity)
        edges = np.arange(start[-1]) + np.repeat(self.scope_start[factors] - start[:-1], arity)
        made = self._unchecked(self.variables, start, self.scope[edges], self.log_tables)
        made.table_start = self.table_start[factors]
        made.memo = self.memo  # plans are filed under the scopes, so they may be shared
        made._freeze()
        return made

    def table_scores(self, states: np.ndarray) -> np.ndarray:
        """Sum of all log tables for each row of state indices (rows, n)."""
        n = len(self.variables)
        if states.ndim != 2 or states.shape[1] != n or (states.dtype.kind not in "iu" and states.size):
            raise QueryError(
                f"log_scores: expected integers of shape (rows, {n}), got {states.dtype} {states.shape}"
            )
        if ((states < 0) | (states >= self.variables.sizes)).any():
            row, i = np.argwhere((states < 0) | (states >= self.variables.sizes))[0]
            raise QueryError(
                f"log_scores: row {row} has state {states[row, i]} of '{self.variables.names[i]}', "
                f"expected 0 to {self.variables.sizes[i] - 1}"
            )
        wiring = self.wiring
        total = np.zeros(len(states))
        if self.n_tables == 0:
            return total
        has_scope = np.flatnonzero(np.diff(self.scope_start))
        for row, x in enumerate(np.asarray(states, dtype=np.int64)):
            entry = self.table_start.copy()
            if len(has_scope):
                steps = wiring.edge_stride * x[self.scope]
                entry[has_scope] += np.add.reduceat(steps, self.scope_start[has_scope])
            total[row] = self.log_tables[entry].sum()
        return total

    def batch_of(self, group: ShapeGroup, places: np.ndarray) -> FactorBatch:
        """The tables of one shape, at these positions in a graph, as one call of a function."""
        size = int(np.prod(group.shape, dtype=np.int64))
        logs = self.log_tables[group.table_start[:, None] + np.arange(size)].reshape(-1, *group.shape)
        domains = domains_of(self.variables, group.scopes[0])
        return FactorBatch(look_up, domains, places[group.factors], group.scopes, (logs,))

    def has_equal_tables(self, other: FlatTables) -> bool:
        """Whether variables, scopes and entries are the same."""
        return (
            self.variables == other.variables
            and np.array_equal(self.scope_start, other.scope_start)
            and np.array_equal(self.scope, other.scope)
            and all(np.array_equal(self.log_table(a), other.log_table(a)) for a in range(self.n_tables))
        )
