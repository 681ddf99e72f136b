"""Bayesian networks: one table per variable given its parents.

    p(x) = prod_i p(x_i | x_pa(i))

Table i has one axis per parent, in the order the parents are named, and the child's own axis
last; every row (one joint state of the parents) sums to 1. All tables lie in one flat array in
the order of the variables, so a network of 10^5 variables is a few arrays.

A real node has a linear regression per joint state of its discrete parents in the place of a table
(`regression.py`); a discrete node has discrete parents only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import check
from ..core.domain import Real
from ..core.errors import ModelError, QueryError
from ..core.factor import Factor, TableFactor
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

if TYPE_CHECKING:
    from .blank_net import BlankNet
    from .regression import Regression, RegressionTable
    from .table_posterior import TablePosterior

__all__ = ["ROW_TOLERANCE", "BayesNet"]


@register("BayesNet")
class BayesNet(NamedModel):
    """A directed model; immutable.

    Parameters
    ----------
    variables
        Variables, or a mapping name -> states (a count or labels) or `Real()`.
    parents
        Child name -> list of parent names; a variable that is not listed has none.
    tables
        Child name -> probabilities of shape (parent sizes..., child size), each row summing
        to 1; a flat list in C order is accepted too. A real child has a `Regression` here.

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
        _refuse_real_parents(variables, scope_start, scope)
        flat, regressions = flat_from_names(variables, scope_start, scope, tables or {})
        self._build(variables, scope_start, scope, flat, regressions)

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[str, str]] = (),
        states: Mapping[str, Any] | None = None,
        nodes: Iterable[str] = (),
    ) -> BlankNet:
        """A blank: structure without states and tables, which `credo.fit` takes from data.

        Parameters
        ----------
        edges
            Pairs (parent, child).
        states
            Name -> states (a count or labels) or `Real()`, of variables whose domain the data shall not
            decide, such as hidden ones.
        nodes
            Names of variables without edges; they come first.

        Examples
        --------
        >>> import credo
        >>> blank = credo.BayesNet.from_edges([("rain", "wet"), ("sprinkler", "wet")])
        >>> blank
        BlankNet(3 variables, 2 edges: rain -> wet, sprinkler -> wet; no tables yet: fit it first)
        >>> blank.parents["wet"]
        ('rain', 'sprinkler')
        """
        from .blank_net import BlankNet

        return BlankNet(edges, states, nodes)

    @classmethod
    def from_flat(
        cls,
        variables: Variables,
        scope_start: np.ndarray,
        scope: np.ndarray,
        tables: np.ndarray,
        regressions: Mapping[str, Regression] | None = None,
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
        regressions
            Name -> parameters of every real variable.
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
        _refuse_real_parents(variables, scope_start, scope)
        made._build(variables, scope_start, scope, flat, regressions or {})
        return made

    def to_parts(self) -> dict[str, Any]:
        """What files keep: the flat arrays, and the regressions of real nodes."""
        return {
            "variables": self._variables,
            "scope_start": self.scope_start,
            "scope": self.scope,
            "tables": self._flat_tables,
            "regressions": dict(self.regressions),
        }

    @classmethod
    def from_parts(
        cls, variables: Any, scope_start: Any, scope: Any, tables: Any, regressions: Any
    ) -> BayesNet:
        """The network of what a file kept."""
        check_arrays(variables, scope_start, scope)
        return cls.from_flat(variables, scope_start, scope, tables, regressions)

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

        self.refuse_real("to_networkx")
        return write_digraph(self.variables, self.parents, self.tables)

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
            reals, given = self._parents_of(i)
            sizes = tuple(self._variables.sizes[given].tolist())
            from .regression import Regression

            found[i] = Regression.of(f"regression of '{names[i]}'", regressions[names[i]], sizes, len(reals))
        return found

    def _parents_of(self, i: int) -> tuple[list[int], list[int]]:
        """Positions of the real and of the discrete parents."""
        parents = self._scope_of(i)[:-1].tolist()
        sizes = self._variables.sizes
        return [j for j in parents if not sizes[j]], [j for j in parents if sizes[j]]

    def _scope_of(self, i: int) -> np.ndarray:
        return self._scope[self._scope_start[i] : self._scope_start[i + 1]]

    def _factor(self, i: int, logs: np.ndarray) -> Factor:
        """p(variable i | parents) of a network with real nodes."""
        variables = self._variables
        if i in self._regressions:
            reals, given = ([variables[j] for j in some] for some in self._parents_of(i))
            return self._regressions[i].factor(variables[i], reals, given)
        scope = [variables[int(j)] for j in self._scope_of(i)]
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
        names, scope_of = self._variables.names, self._scope_of
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
            return Lookup(self._variables, self._table)
        held = np.flatnonzero(self._variables.sizes)
        return Lookup(self._variables.select(held), lambda i: self._table(int(held[i])))

    @property
    def regressions(self) -> Mapping[str, Regression]:
        """Name -> bias, variance and weights, of real nodes."""
        held = np.array(list(self._regressions), dtype=np.int64)
        if not len(held):
            return {}
        return Lookup(self._variables.select(held), lambda i: self._regressions[int(held[i])])

    def discrete_part(self) -> BayesNet:
        """The network of the nodes with states, which have no real parents."""
        if not self._regressions:
            return self
        kept = np.flatnonzero(self._variables.sizes)
        place = np.cumsum(self._variables.sizes > 0) - 1
        scope, start = take_slices(self._scope, self._scope_start, kept)
        return BayesNet.from_flat(self._variables.select(kept), start, place[scope], self._flat_tables)

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
            reals, given = (tuple(self._variables[j] for j in some) for some in self._parents_of(i))
            from .regression import RegressionTable

            return RegressionTable(self._variables[i], reals, given, self._regressions[i])
        *parents, child = (self._variables[int(j)] for j in self._scope_of(i))
        return Joint((child, *parents), np.moveaxis(self._table(i), -1, 0), given=len(parents))

    @property
    def edges(self) -> list[tuple[str, str]]:
        """All pairs (parent, child), children in variable order."""
        names = self._variables.names
        return [(names[int(j)], names[i]) for i in range(len(names)) for j in self._scope_of(i)[:-1]]

    @cached_property
    def _child_lists(self) -> tuple[np.ndarray, np.ndarray]:
        parent, child = edge_arrays(self._scope_start, self._scope)
        around = np.argsort(parent, kind="stable")
        counts = np.bincount(parent, minlength=len(self._variables))
        return np.concatenate([[0], np.cumsum(counts)]), child[around]

    def _table(self, i: int) -> np.ndarray:
        shape = self._variables.sizes[self._scope_of(i)]
        return self._flat_tables[self._table_start[i] : self._table_start[i + 1]].reshape(shape)

    def _rows(self, i: int, states: np.ndarray) -> np.ndarray:
        """Row number of table i for each row of joint states (rows, n)."""
        row = np.zeros(len(states), dtype=np.int64)
        for j in self._scope_of(i)[:-1]:
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
        values: dict[int, np.ndarray] = {}
        for i in self._order.tolist():
            if i in self._regressions:
                values[i] = self._draw_real(i, states, values, rng)
                states[:, i] = -1
                continue
            table = self._table(i).reshape(-1, int(self._variables.sizes[i]))
            upto = np.cumsum(table, axis=1)
            # The last positive state ends at exactly 1 and draws lie below 1: a state of
            # probability zero is never drawn, whatever the rounding of the row.
            upto = (upto / upto[:, -1:]).T
            row, draw = self._rows(i, states), rng.random(int(count))
            for k in range(len(upto) - 1):
                states[:, i] += draw >= upto[k][row]
        names = self._variables.names
        return Samples(self._variables, states, {names[i]: values[i] for i in sorted(values)})

    def _draw_real(
        self, i: int, states: np.ndarray, values: Mapping[int, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Values of a real node, its parents drawn before."""
        mean, variance = self._moments(i, states, values)
        return np.asarray(mean + np.sqrt(variance) * rng.standard_normal(len(states)))

    def _moments(
        self, i: int, states: np.ndarray, values: Mapping[int, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of a real node in each row."""
        reals, given = self._parents_of(i)
        at, regression = tuple(states[:, j] for j in given), self._regressions[i]
        x = np.stack([values[j] for j in reals], axis=1) if reals else np.empty((len(states), 0))
        return regression.means(at, x), np.broadcast_to(regression.variance[at], len(states))

    def log_prob(self, assignment: Mapping[str, Any]) -> float:
        """Log-probability of one joint state, given as name -> state for every variable."""
        return self._graph.log_score(assignment)

    def posterior(self, prior: Any = None) -> TablePosterior:
        """The distribution over the tables before any data: what variational Bayes learns.

        Parameters
        ----------
        prior
            `"uniform(count=1)"` (the default), `"bdeu(size=10)"`, `"towards(size=1)"`, or a mapping child
            name -> concentrations. Entries that are zero in the network are impossible.

        Examples
        --------
        >>> import credo
        >>> net = credo.datasets.sprinkler()
        >>> float(net.posterior("bdeu(size=8)").concentration("rain").sum())
        8.0
        """
        from .table_posterior import TablePosterior

        return TablePosterior.of(self, prior)

    def log_probs(self, states: Samples | np.ndarray) -> np.ndarray:
        """Log-probability of each row of state indices (rows, n), in variable order.

        Rows of a network with real nodes are given as `Samples`; of real nodes it is the log density.
        """
        if self._regressions:
            if not isinstance(states, Samples):
                raise QueryError(
                    f"log_probs: expected Samples, because some nodes are real, got {states!r:.80}"
                )
            names = self._variables.names
            return self._graph.log_scores({name: states.column(name) for name in names})
        from .state_rows import state_rows

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
        n, count = len(self._variables), len(self._scope) - len(self._variables)
        if n > 12 or not count:
            entries = len(self._flat_tables) + sum(map(self._entries, self._regressions))
            return f"BayesNet({n} variables, {count} edges, {entries} table entries)"
        return f"BayesNet({n} variables, {count} edges: {', '.join(f'{a} -> {b}' for a, b in self.edges)})"


def _refuse_real_parents(variables: Variables, scope_start: np.ndarray, scope: np.ndarray) -> None:
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
