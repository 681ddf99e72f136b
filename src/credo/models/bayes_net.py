"""Bayesian networks: one table per variable given its parents.

    p(x) = prod_i p(x_i | x_pa(i))

Table i has one axis per parent, in the order the parents are named, and the child's own axis
last; every row (one joint state of the parents) sums to 1. All tables lie in one flat array in
the order of the variables, so a network of 10^5 variables is a few arrays.

A real node has a linear regression per joint state of its discrete parents in the place of a table
(`regression.py`); a discrete node has discrete parents only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import check
from ..core.errors import QueryError
from ..core.numbers import float_array
from ..core.records import register
from ..core.samples import Samples
from ..core.variable import Variables
from .conditional_tables import (
    ROW_TOLERANCE,
    check_length,
    children_once,
    flat_from_names,
    random_rows,
    scopes_from_names,
    table_sizes,
    take_slices,
)
from .directed_arrays import DirectedArrays, refuse_real_parents

if TYPE_CHECKING:
    from .blank_net import BlankNet
    from .regression import Regression
    from .table_posterior import TablePosterior

__all__ = ["ROW_TOLERANCE", "BayesNet"]


@register("BayesNet")
class BayesNet(DirectedArrays):
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
        refuse_real_parents(variables, scope_start, scope)
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
        refuse_real_parents(variables, scope_start, scope)
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
        from ..core.graph_parts import check_arrays

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

    def discrete_part(self) -> BayesNet:
        """The network of the nodes with states, which have no real parents."""
        if not self._regressions:
            return self
        kept = np.flatnonzero(self._variables.sizes)
        place = np.cumsum(self._variables.sizes > 0) - 1
        scope, start = take_slices(self._scope, self._scope_start, kept)
        return BayesNet.from_flat(self._variables.select(kept), start, place[scope], self._flat_tables)

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
        from .directed_draws import draw_samples

        check.whole("count", count, 0)
        return draw_samples(self, int(count), check.generator(seed))

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
            total += logs[self.rows_at(i, states), states[:, i]]
        return total
