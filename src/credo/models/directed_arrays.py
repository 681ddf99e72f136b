"""The arrays of a directed model, and what they say by name.

    p(x) = prod_i p(x_i | x_pa(i))

Slice i of the scopes is (parents..., child) of variable i, and its table, C order with the child's own axis
last, begins at the sum of the sizes before it. A real node has a linear regression per joint state of its
discrete parents in the place of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..core.domain import Real
from ..core.errors import ModelError
from ..core.factor import Factor, TableFactor
from ..core.factor_graph import FactorGraph
from ..core.joint import Joint
from ..core.naming import Lookup, NamedModel
from ..core.variable import Variables
from .conditional_tables import (
    check_length,
    check_repeats,
    check_rows,
    edge_arrays,
    table_sizes,
    topological_order,
)

if TYPE_CHECKING:
    from .regression import Regression, RegressionTable

__all__ = ["DirectedArrays", "refuse_real_parents"]


class DirectedArrays(NamedModel):
    """One table, or regression, per variable given its parents; immutable."""

    def _build(
        self,
        variables: Variables,
        scope_start: np.ndarray,
        scope: np.ndarray,
        flat: np.ndarray,
        regressions: Mapping[str, Regression],
    ) -> None:
        """Check and store arrays that are in variable order."""
        self._variables, self._scope_start, self._scope = variables, scope_start, scope
        children = scope[scope_start[1:] - 1]
        sizes = table_sizes(variables, scope_start, scope)
        check_length(int(sizes.sum()), flat)
        self._table_start = np.concatenate([[0], np.cumsum(sizes)])
        check_repeats(variables, scope_start, scope)
        check_rows(variables, self._table_start, sizes // np.maximum(variables.sizes[children], 1), flat)
        self._order = topological_order(variables, scope_start, scope)
        self._regressions = self._checked(regressions)
        with np.errstate(divide="ignore"):
            logs = np.log(flat)
        if variables.is_discrete:
            self._graph = FactorGraph.from_flat(variables, scope_start, scope, logs)
        else:
            self._graph = FactorGraph(variables, [self._factor(i, logs) for i in range(len(variables))])
        flat.flags.writeable = False
        self._flat_tables = flat

    def _checked(self, regressions: Mapping[str, Regression]) -> dict[int, Regression]:
        """Position -> regression of every real variable."""
        names, found = self._variables.names, {}
        for name in regressions:
            if self._variables[self._variables.position(name)].is_discrete:
                raise ModelError(f"'{name}' has states: expected a table of it, got a Regression")
        for i in np.flatnonzero(self._variables.sizes == 0).tolist():
            if names[i] not in regressions:
                raise ModelError(f"'{names[i]}' is real: expected a Regression of it, got none")
            reals, given = self.parents_at(i)
            sizes = tuple(self._variables.sizes[given].tolist())
            from .regression import Regression

            found[i] = Regression.of(f"regression of '{names[i]}'", regressions[names[i]], sizes, len(reals))
        return found

    def parents_at(self, i: int) -> tuple[list[int], list[int]]:
        """Positions of the real and of the discrete parents."""
        parents = self.scope_at(i)[:-1].tolist()
        sizes = self._variables.sizes
        return [j for j in parents if not sizes[j]], [j for j in parents if sizes[j]]

    def scope_at(self, i: int) -> np.ndarray:
        """Positions (parents..., child) of a variable."""
        return self._scope[self._scope_start[i] : self._scope_start[i + 1]]

    def _factor(self, i: int, logs: np.ndarray) -> Factor:
        """p(variable i | parents) of a network with real nodes."""
        variables = self._variables
        if i in self._regressions:
            reals, given = ([variables[j] for j in some] for some in self.parents_at(i))
            return self._regressions[i].factor(variables[i], reals, given)
        scope = [variables[int(j)] for j in self.scope_at(i)]
        table = logs[self._table_start[i] : self._table_start[i + 1]].reshape([v.size for v in scope])
        return TableFactor.from_log(scope, table)

    def refuse_real(self, what: str) -> None:
        """Raise an error that begins with `what` if some node is real."""
        if self._regressions:
            name = self._variables.names[next(iter(self._regressions))]
            raise ModelError(f"{what}: expected a network of tables, but '{name}' is real")

    @property
    def variables(self) -> Variables:
        """The ordered set of variables."""
        return self._variables

    @property
    def flat_tables(self) -> np.ndarray:
        """All probabilities, table after table in variable order; starts as in the factor graph."""
        return self._flat_tables

    @property
    def scope_start(self) -> np.ndarray:
        """Where the slice (parents..., child) of each variable begins in `scope`, and its length last."""
        return self._scope_start

    @property
    def scope(self) -> np.ndarray:
        """Positions (parents..., child) of every variable, one slice after another."""
        return self._scope

    @property
    def order(self) -> np.ndarray:
        """Variable positions in a topological order: parents before children."""
        return self._order

    @property
    def parents(self) -> Mapping[str, tuple[str, ...]]:
        """Child name -> parent names, in axis order."""
        names, scope_of = self._variables.names, self.scope_at
        return Lookup(self._variables, lambda i: tuple(names[int(j)] for j in scope_of(i)[:-1]))

    @property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """Parent name -> names of its children, in variable order."""
        start, child = self._child_lists
        names = self._variables.names
        return Lookup(self._variables, lambda i: tuple(names[int(j)] for j in child[start[i] : start[i + 1]]))

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        """Name -> probabilities of shape (parent sizes..., child size), read-only; of nodes with states."""
        if not self._regressions:
            return Lookup(self._variables, self.table_at)
        held = np.flatnonzero(self._variables.sizes)
        return Lookup(self._variables.select(held), lambda i: self.table_at(int(held[i])))

    @property
    def regressions(self) -> Mapping[str, Regression]:
        """Name -> bias, variance and weights, of real nodes."""
        held = np.array(list(self._regressions), dtype=np.int64)
        if not len(held):
            return {}
        return Lookup(self._variables.select(held), lambda i: self._regressions[int(held[i])])

    def cpt(self, name: str) -> Joint | RegressionTable:
        """The conditional probability table p(name | parents), with the names of its states.

        Of a real node it is the table of its coefficients, a row per joint state of the discrete parents.

        Examples
        --------
        >>> import credo
        >>> credo.datasets.sprinkler().cpt("rain")
        p(rain | cloudy)
        cloudy  rain=no  rain=yes
        no          0.8       0.2
        yes         0.2       0.8
        """
        i = self._variables.position(name)
        if i in self._regressions:
            reals, given = (tuple(self._variables[j] for j in some) for some in self.parents_at(i))
            from .regression import RegressionTable

            return RegressionTable(self._variables[i], reals, given, self._regressions[i])
        *parents, child = (self._variables[int(j)] for j in self.scope_at(i))
        return Joint((child, *parents), np.moveaxis(self.table_at(i), -1, 0), given=len(parents))

    @property
    def edges(self) -> list[tuple[str, str]]:
        """All pairs (parent, child), children in variable order."""
        names = self._variables.names
        return [(names[int(j)], names[i]) for i in range(len(names)) for j in self.scope_at(i)[:-1]]

    @cached_property
    def _child_lists(self) -> tuple[np.ndarray, np.ndarray]:
        parent, child = edge_arrays(self._scope_start, self._scope)
        around = np.argsort(parent, kind="stable")
        counts = np.bincount(parent, minlength=len(self._variables))
        return np.concatenate([[0], np.cumsum(counts)]), child[around]

    def table_at(self, i: int) -> np.ndarray:
        """Probabilities of the variable at a position, which has states."""
        shape = self._variables.sizes[self.scope_at(i)]
        return self._flat_tables[self._table_start[i] : self._table_start[i + 1]].reshape(shape)

    def rows_at(self, i: int, states: np.ndarray) -> np.ndarray:
        """Row number of table i for each row of joint states (rows, n)."""
        row = np.zeros(len(states), dtype=np.int64)
        for j in self.scope_at(i)[:-1]:
            row = row * self._variables.sizes[j] + states[:, j]
        return row

    def to_factor_graph(self) -> FactorGraph:
        """One factor p(child | parents) per variable, in variable order; the same object every time."""
        return self._graph

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DirectedArrays)
            and self._variables == other._variables
            and np.array_equal(self._scope_start, other._scope_start)
            and np.array_equal(self._scope, other._scope)
            and np.array_equal(self._flat_tables, other._flat_tables)
            and self._regressions == other._regressions
        )

    __hash__ = None  # type: ignore[assignment]

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        names = self._variables.names
        return {
            "parents": lambda i: ", ".join(self.parents[names[i]]),
            "table entries": lambda i: str(self._entries(i)),
        }

    def _entries(self, i: int) -> int:
        """Numbers in the table, or in the table of coefficients, of a variable."""
        if i in self._regressions:
            regression = self._regressions[i]
            return int(regression.weights.size + 2 * regression.bias.size)
        return int(self._table_start[i + 1] - self._table_start[i])

    def __repr__(self) -> str:
        name, n, count = type(self).__name__, len(self._variables), len(self._scope) - len(self._variables)
        if n > 12 or not count:
            entries = len(self._flat_tables) + sum(map(self._entries, self._regressions))
            return f"{name}({n} variables, {count} edges, {entries} table entries)"
        return f"{name}({n} variables, {count} edges: {', '.join(f'{a} -> {b}' for a, b in self.edges)})"


def refuse_real_parents(variables: Variables, scope_start: np.ndarray, scope: np.ndarray) -> None:
    """Nodes are discrete or real, and a discrete node has discrete parents."""
    if variables.is_discrete:
        return
    for v in variables:
        if not (v.is_discrete or v.domain == Real()):
            raise ModelError(
                f"'{v.name}': expected states or Real() in a BayesNet, got {v.domain!r}; use a HybridNet"
            )
    parent, child = edge_arrays(scope_start, scope)
    bad = np.flatnonzero((variables.sizes[parent] == 0) & (variables.sizes[child] > 0))
    if len(bad):
        from .blank_net import real_parent_error

        raise real_parent_error(variables.names[parent[bad[0]]], variables.names[child[bad[0]]])
