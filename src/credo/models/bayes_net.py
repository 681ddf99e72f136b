"""Bayesian networks: one table per variable given its parents.

    p(x) = prod_i p(x_i | x_pa(i))

Table i has one axis per parent, in the order the parents are named, and the child's own axis
last; every row (one joint state of the parents) sums to 1. All tables lie in one flat array in
the order of the variables, so a network of 10^5 variables is a few arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ..core import check
from ..core.factor_graph import FactorGraph
from ..core.graph_parts import check_arrays
from ..core.joint import Joint
from ..core.naming import Lookup, NamedModel
from ..core.numbers import float_array
from ..core.records import register
from ..core.samples import Samples
from ..core.variable import Variables
from .conditional_tables import (
    ROW_TOLERANCE,
    check_length,
    check_repeats,
    check_rows,
    children_once,
    edge_arrays,
    flat_from_names,
    random_rows,
    scopes_from_names,
    table_sizes,
    take_slices,
    topological_order,
)
from .state_rows import state_rows

__all__ = ["ROW_TOLERANCE", "BayesNet"]


@register("BayesNet")
class BayesNet(NamedModel):
    """A directed model; immutable.

    Parameters
    ----------
    variables
        Variables, or a mapping name -> states (a count or labels).
    parents
        Child name -> list of parent names; a variable that is not listed has none.
    tables
        Child name -> probabilities of shape (parent sizes..., child size), each row summing
        to 1; a flat list in C order is accepted too.

    Examples
    --------
    >>> from credo import BayesNet
    >>> model = BayesNet(
    ...     {"rain": ["no", "yes"], "wet": ["no", "yes"]},
    ...     parents={"wet": ["rain"]},
    ...     tables={"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.05, 0.95]]},
    ... )
    >>> model
    BayesNet(2 variables, 1 edges: rain -> wet)
    >>> round(model.log_prob({"rain": "yes", "wet": "yes"}), 6)
    -1.660731
    """

    def __init__(
        self,
        variables: Any,
        parents: Mapping[str, Any] | None = None,
        tables: Mapping[str, Any] | None = None,
    ) -> None:
        variables = Variables.of(variables)
        scope_start, scope = scopes_from_names(variables, parents or {})
        self._build(
            variables, scope_start, scope, flat_from_names(variables, scope_start, scope, tables or {})
        )

    @classmethod
    def from_flat(
        cls, variables: Variables, scope_start: np.ndarray, scope: np.ndarray, tables: np.ndarray
    ) -> BayesNet:
        """Make a network from flat arrays, without Python work per table.

        Parameters
        ----------
        variables
            The ordered set of variables.
        scope_start, scope
            CSR arrays of variable positions; slice a is (parents..., child) and every variable
            is the child of one slice. The slices may come in any order.
        tables
            Probabilities of all tables one after another in the order of the slices, C order.
        """
        made = cls.__new__(cls)
        # Copies: the graph makes its arrays read-only, and these belong to the caller.
        scope_start = np.array(scope_start, dtype=np.int64)
        scope = np.array(scope, dtype=np.int64)
        flat = float_array("tables", tables, copy=True)
        children = children_once(variables, scope_start, scope)
        if not np.array_equal(children, np.arange(len(children))):
            order = np.argsort(children)
            table_start = np.concatenate([[0], np.cumsum(table_sizes(variables, scope_start, scope))])
            check_length(int(table_start[-1]), flat)
            flat, _ = take_slices(flat, table_start, order)
            scope, scope_start = take_slices(scope, scope_start, order)
        made._build(variables, scope_start, scope, flat)
        return made

    def to_parts(self) -> dict[str, Any]:
        """What files keep: the flat arrays."""
        start, scope = self._graph.scope_start, self._graph.scope
        return {
            "variables": self._variables,
            "scope_start": start,
            "scope": scope,
            "tables": self._flat_tables,
        }

    @classmethod
    def from_parts(cls, variables: Any, scope_start: Any, scope: Any, tables: Any) -> BayesNet:
        """The network of what a file kept."""
        check_arrays(variables, scope_start, scope)
        return cls.from_flat(variables, scope_start, scope, tables)

    @classmethod
    def random(
        cls,
        states: Mapping[str, Any],
        parents: Mapping[str, Any] | None = None,
        seed: int | None = None,
        concentration: float = 1.0,
    ) -> BayesNet:
        """Draw every row from a symmetric Dirichlet distribution.

        Parameters
        ----------
        states
            Variables, or a mapping name -> states (a count or labels).
        parents
            Child name -> list of parent names.
        seed
            The same seed gives the same tables.
        concentration
            Dirichlet parameter of every state: 1 is uniform over the simplex, small values
            give nearly deterministic rows, large ones nearly uniform rows.

        Examples
        --------
        >>> from credo import BayesNet
        >>> BayesNet.random({"H": 3, "A": 2}, {"A": ["H"]}, seed=0).tables["A"].shape
        (3, 2)
        """
        variables = Variables.of(states)
        scope_start, scope = scopes_from_names(variables, parents or {})
        sizes = table_sizes(variables, scope_start, scope)
        tables = random_rows(np.repeat(variables.sizes, sizes // variables.sizes), seed, concentration)
        return cls.from_flat(variables, scope_start, scope, tables)

    @classmethod
    def from_pandas(
        cls,
        tables: Mapping[str, Any],
        *,
        states: Mapping[str, Any] | None = None,
        probability: str = "probability",
    ) -> BayesNet:
        """Make a network from data frames in long form, one per child.

        Parameters
        ----------
        tables
            Child name -> frame with one column per parent (in axis order), a column of the
            child's name, and the probability column. A combination without a row has
            probability 0.
        states
            Name -> state labels, in order; by default the categories of a categorical column,
            else the labels in order of first appearance in the child's own frame.
        probability
            Name of the probability column.

        Examples
        --------
        >>> import pandas as pd
        >>> from credo import BayesNet
        >>> rain = pd.DataFrame({"rain": ["no", "yes"], "probability": [0.8, 0.2]})
        >>> wet = pd.DataFrame({
        ...     "rain": ["no", "no", "yes", "yes"],
        ...     "wet": ["no", "yes", "no", "yes"],
        ...     "probability": [0.9, 0.1, 0.05, 0.95],
        ... })
        >>> BayesNet.from_pandas({"rain": rain, "wet": wet}).tables["wet"]
        array([[0.9 , 0.1 ],
               [0.05, 0.95]])
        """
        from .interchange import bayes_net_parts

        return cls(*bayes_net_parts(tables, states or {}, probability))

    @classmethod
    def from_networkx(cls, graph: Any) -> BayesNet:
        """Make a network from a `networkx.DiGraph` whose nodes carry `states` and `table`.

        The axes of a table follow the node attribute `parents` if there is one, otherwise the
        order in which the edges into the node were added.
        """
        from .interchange import read_digraph

        return cls(*read_digraph(graph))

    def to_networkx(self) -> Any:
        """Make a `networkx.DiGraph` with the node attributes `states`, `parents` and `table`."""
        from .interchange import write_digraph

        return write_digraph(self.variables, self.parents, self.tables)

    def _build(
        self, variables: Variables, scope_start: np.ndarray, scope: np.ndarray, flat: np.ndarray
    ) -> None:
        """Check and store arrays that are in variable order."""
        self._variables = variables
        children = scope[scope_start[1:] - 1]
        sizes = table_sizes(variables, scope_start, scope)
        check_length(int(sizes.sum()), flat)
        table_start = np.concatenate([[0], np.cumsum(sizes)])
        check_repeats(variables, scope_start, scope)
        check_rows(variables, table_start, sizes // variables.sizes[children], flat)
        self._order = topological_order(variables, scope_start, scope)
        with np.errstate(divide="ignore"):
            self._graph = FactorGraph.from_flat(variables, scope_start, scope, np.log(flat))
        flat.flags.writeable = False
        self._flat_tables = flat

    @property
    def variables(self) -> Variables:
        """The ordered set of variables."""
        return self._variables

    @property
    def flat_tables(self) -> np.ndarray:
        """All probabilities, table after table in variable order; starts as in the factor graph."""
        return self._flat_tables

    @property
    def order(self) -> np.ndarray:
        """Variable positions in a topological order: parents before children."""
        return self._order

    @property
    def parents(self) -> Mapping[str, tuple[str, ...]]:
        """Child name -> parent names, in axis order."""
        names, scope_of = self._variables.names, self._graph.scope_of
        return Lookup(self._variables, lambda i: tuple(names[int(j)] for j in scope_of(i)[:-1]))

    @property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """Parent name -> names of its children, in variable order."""
        start, child = self._child_lists
        names = self._variables.names
        return Lookup(self._variables, lambda i: tuple(names[int(j)] for j in child[start[i] : start[i + 1]]))

    @property
    def tables(self) -> Mapping[str, np.ndarray]:
        """Child name -> probabilities of shape (parent sizes..., child size), read-only."""
        return Lookup(self._variables, self._table)

    def cpt(self, name: str) -> Joint:
        """The conditional probability table p(name | parents), with the names of its states.

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
        *parents, child = (self._variables[int(j)] for j in self._graph.scope_of(i))
        return Joint((child, *parents), np.moveaxis(self._table(i), -1, 0), given=len(parents))

    @property
    def edges(self) -> list[tuple[str, str]]:
        """All pairs (parent, child), children in variable order."""
        names, graph = self._variables.names, self._graph
        return [
            (names[int(j)], names[i]) for i in range(len(self._variables)) for j in graph.scope_of(i)[:-1]
        ]

    @cached_property
    def _child_lists(self) -> tuple[np.ndarray, np.ndarray]:
        parent, child = edge_arrays(self._graph.scope_start, self._graph.scope)
        around = np.argsort(parent, kind="stable")
        counts = np.bincount(parent, minlength=len(self._variables))
        return np.concatenate([[0], np.cumsum(counts)]), child[around]

    def _table(self, i: int) -> np.ndarray:
        start, size = self._graph.table_start[i], self._graph.table_size[i]
        shape = self._variables.sizes[self._graph.scope_of(i)]
        return self._flat_tables[start : start + size].reshape(shape)

    def _rows(self, i: int, states: np.ndarray) -> np.ndarray:
        """Row number of table i for each row of joint states (rows, n)."""
        row = np.zeros(len(states), dtype=np.int64)
        for j in self._graph.scope_of(i)[:-1]:
            row = row * self._variables.sizes[j] + states[:, j]
        return row

    def to_factor_graph(self) -> FactorGraph:
        """One factor p(child | parents) per variable, in variable order; the same object every time."""
        return self._graph

    def sample(self, count: int, seed: int | None = None) -> Samples:
        """Draw joint samples by ancestral sampling, each variable for all rows at once.

        Examples
        --------
        >>> import credo
        >>> samples = credo.datasets.sprinkler().sample(1000, seed=0)
        >>> samples.indices.shape
        (1000, 4)
        >>> samples[0]["wet"]
        'yes'
        """
        check.whole("count", count, 0)
        rng = check.generator(seed)
        # Stored by variable: each step writes one contiguous column.
        states = np.zeros((len(self._variables), int(count)), dtype=np.int64).T
        for i in self._order:
            table = self._table(i).reshape(-1, int(self._variables.sizes[i]))
            upto = np.cumsum(table, axis=1)
            # The last positive state ends at exactly 1 and draws lie below 1: a state of
            # probability zero is never drawn, whatever the rounding of the row.
            upto = (upto / upto[:, -1:]).T
            row, draw = self._rows(i, states), rng.random(int(count))
            for k in range(len(upto) - 1):
                states[:, i] += draw >= upto[k][row]
        return Samples(self._variables, states)

    def log_prob(self, assignment: Mapping[str, Any]) -> float:
        """Log-probability of one joint state, given as name -> state for every variable."""
        return self._graph.log_score(assignment)

    def log_probs(self, states: Samples | np.ndarray) -> np.ndarray:
        """Log-probability of each row of state indices (rows, n), in variable order."""
        states = state_rows("log_probs", self._variables, states)
        total = np.zeros(len(states))
        for i in range(len(self._variables)):
            logs = self._graph.log_table(i).reshape(-1, int(self._variables.sizes[i]))
            total += logs[self._rows(i, states), states[:, i]]
        return total

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BayesNet)
            and self._variables == other._variables
            and np.array_equal(self._graph.scope_start, other._graph.scope_start)
            and np.array_equal(self._graph.scope, other._graph.scope)
            and np.array_equal(self._flat_tables, other._flat_tables)
        )

    __hash__ = None  # type: ignore[assignment]

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        names, size = self._variables.names, self._graph.table_size
        return {
            "parents": lambda i: ", ".join(self.parents[names[i]]),
            "table entries": lambda i: str(size[i]),
        }

    def __repr__(self) -> str:
        n, count = len(self._variables), len(self._graph.scope) - len(self._variables)
        if n > 12 or not count:
            return f"BayesNet({n} variables, {count} edges, {len(self._flat_tables)} table entries)"
        return f"BayesNet({n} variables, {count} edges: {', '.join(f'{a} -> {b}' for a, b in self.edges)})"
