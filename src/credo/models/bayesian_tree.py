r"""Discrete data on a tree whose pair probabilities are random: everything but the data is integrated out.

    P(x, theta) = prod_d prod_{(i,j) in E} Dir(theta_ij | alpha) theta_ij(x_i^d, x_j^d)

theta_ij is a point on the simplex of all joint states of two neighbours, so a factor joins three variables,
two of them discrete. As printed in the source every datum d has a theta of its own; `shared=True` gives all
data one theta per edge. Summed over the data the weights do not add up to 1, because each edge is weighed by
itself.

For complete data the evidence has a closed form. With alpha_0 the sum of alpha and N_ij the counts of joint
states,

    own theta      prod_d prod_ij alpha(x_i^d, x_j^d) / alpha_0
    shared theta   prod_ij B(alpha + N_ij) / B(alpha)                        (Dirichlet-multinomial)

Source: Guo 2020, section 7.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..core import check
from ..core.density import DensityFactor
from ..core.domain import Simplex
from ..core.errors import ModelError, QueryError
from ..core.factor_graph import FactorGraph
from ..core.naming import NamedModel
from ..core.numbers import float_array
from ..core.records import register
from ..core.variable import Variable, Variables
from ..families.dirichlet_rows import DirichletRows
from ..structures.graph import component_labels
from .potentials import _log_categorical, dirichlet

__all__ = ["BayesianTree"]


@register("BayesianTree")
class BayesianTree(NamedModel):
    """Data on a tree with Dirichlet pair probabilities; immutable.

    Parameters
    ----------
    variables
        Discrete variables of one datum, or a mapping name -> states.
    edges
        Pairs of names; those of a Chow-Liu tree, say, from the learner `"chow-liu"`.
    rows
        How many data there are.
    concentration
        Prior alpha of every joint state of two neighbours: a number for all, or a mapping edge -> table.
    shared
        Whether all data have one theta per edge, or each its own.

    Examples
    --------
    >>> from credo.models.bayesian_tree import BayesianTree
    >>> model = BayesianTree({"a": 2, "b": 2}, [("a", "b")], rows=3, shared=True)
    >>> model
    BayesianTree(2 variables, 1 edges, 3 rows, shared theta)
    >>> round(model.log_evidence([[0, 0], [0, 0], [1, 1]]), 6)  # 2! 1! 3! / 6!
    -4.094345
    """

    def __init__(
        self,
        variables: Any,
        edges: Iterable[Sequence[str]],
        rows: int = 1,
        *,
        concentration: float | Mapping[tuple[str, str], Any] = 1.0,
        shared: bool = False,
    ) -> None:
        self.variables = Variables.of(variables)
        self.edges = tuple((str(a), str(b)) for a, b in edges)
        check.whole("rows", rows, 1)
        self.rows, self.shared = int(rows), bool(shared)
        for v in self.variables:
            if not v.is_discrete:
                raise ModelError(f"variable '{v.name}': expected a discrete one, it is {v.domain!r}")
        for a, b in self.edges:
            if a == b:
                raise ModelError(f"edge ('{a}', '{b}'): expected two different variables")
            for name in (a, b):
                self.variables.position(name)
        if len({frozenset(e) for e in self.edges}) < len(self.edges):
            raise ModelError(f"edges: expected different pairs, got {list(self.edges)}")
        ends = np.array([self.variables.positions(e) for e in self.edges], np.int64).reshape(-1, 2)
        trees = len(set(component_labels(len(self.variables), ends[:, 0], ends[:, 1]).tolist()))
        if len(self.edges) > len(self.variables) - trees:
            raise ModelError(
                f"edges: expected a tree or several, got edges that close a cycle: {list(self.edges)}"
            )
        self.concentrations = tuple(self._prior(edge, concentration) for edge in self.edges)

    def to_parts(self) -> dict[str, Any]:
        """What files keep."""
        return {
            "variables": self.variables, "edges": self.edges, "rows": self.rows, "shared": self.shared,
            "concentrations": self.concentrations,
        }  # fmt: skip

    @classmethod
    def from_parts(
        cls, variables: Any, edges: Any, rows: Any, shared: Any, concentrations: Any
    ) -> BayesianTree:
        """The model of what a file kept."""
        size = {v.name: v.size for v in variables}
        tables = {
            (a, b): alpha.reshape(size[a], size[b])
            for (a, b), alpha in zip(edges, concentrations, strict=True)
        }
        return cls(variables, edges, rows, concentration=tables, shared=shared)

    def _prior(self, edge: tuple[str, str], given: Any) -> np.ndarray:
        """Concentrations of one edge, (joint states,)."""
        if isinstance(given, Mapping):
            if edge not in given:
                raise ModelError(f"concentration: expected a table for the edge {edge}, there is none")
            given = given[edge]
        sizes = [int(self.variables.sizes[self.variables.position(name)]) for name in edge]
        table = float_array(f"concentration: edge {edge}", given)
        if table.shape not in ((), tuple(sizes)) or not (table > 0).all():
            raise ModelError(f"concentration: edge {edge}: expected positive numbers of shape {tuple(sizes)}")
        return np.broadcast_to(table, sizes).ravel()

    def datum(self, name: str, row: int) -> str:
        """Name of a variable of one datum in the graph."""
        return f"{name}[{row}]"

    def theta(self, edge: int, row: int = 0) -> str:
        """Name of the pair probabilities of an edge (for one datum) in the graph."""
        a, b = self.edges[edge]
        return f"{a}-{b}" if self.shared else f"{a}-{b}[{row}]"

    @cached_property
    def _graph(self) -> FactorGraph:
        held = {v.name: v for v in self.variables}
        data = {
            (name, d): Variable(self.datum(name, d), v.domain)
            for d in range(self.rows)
            for name, v in held.items()
        }
        chances: dict[str, Variable] = {}
        factors: list[DensityFactor] = []
        for d in range(self.rows):
            for e, (a, b) in enumerate(self.edges):
                name = self.theta(e, d)
                if name not in chances:
                    chances[name] = Variable(name, Simplex(held[a].size * held[b].size))
                    factors.append(dirichlet(chances[name], self.concentrations[e]))
                scope = (data[a, d], data[b, d], chances[name])
                factors.append(DensityFactor(scope, _log_joint_state, held[b].size))
        return FactorGraph([*data.values(), *chances.values()], factors)

    def to_factor_graph(self) -> FactorGraph:
        """All data and all pair probabilities."""
        return self._graph

    def _states(self, data: Any) -> np.ndarray:
        states = np.asarray(data)
        expected = (self.rows, len(self.variables))
        if states.shape != expected or states.dtype.kind not in "iu":
            raise QueryError(
                f"data: expected state indices of shape {expected}, got {states.dtype} {states.shape}"
            )
        bad = np.argwhere((states < -1) | (states >= self.variables.sizes))
        if len(bad):
            d, i = bad[0]
            raise QueryError(
                f"data: row {d} has state {states[d, i]} of '{self.variables.names[i]}', "
                f"expected 0 to {self.variables.sizes[i] - 1}, or -1 for missing"
            )
        return states

    def evidence(self, data: Any) -> dict[str, int]:
        """State indices (rows, variables), -1 for missing, as evidence for `credo.infer`."""
        states = self._states(data)
        return {
            self.datum(name, d): int(states[d, i])
            for d in range(self.rows)
            for i, name in enumerate(self.variables.names)
            if states[d, i] >= 0
        }

    def log_evidence(self, data: Any) -> float:
        """Log of the evidence of complete data, theta integrated out in closed form."""
        states = self._states(data)
        if (states < 0).any():
            raise QueryError("log_evidence: expected complete data; some values are missing")
        total = 0.0
        for (a, b), alpha in zip(self.edges, self.concentrations, strict=True):
            i, j = self.variables.position(a), self.variables.position(b)
            joint = states[:, i] * self.variables.sizes[j] + states[:, j]
            prior = DirichletRows(alpha, [len(alpha)])
            if self.shared:
                total += float(
                    prior.log_evidence(np.bincount(joint, minlength=len(alpha)).astype(np.float64))[0]
                )
            else:
                total += float(np.log(prior.mean()[joint]).sum())
        return total

    def __repr__(self) -> str:
        kind = "shared theta" if self.shared else "own theta"
        counts = f"{len(self.variables)} variables, {len(self.edges)} edges, {self.rows} rows"
        return f"BayesianTree({counts}, {kind})"


@register("log joint state")
def _log_joint_state(x: Any, y: Any, theta: Any, size: Any) -> Any:
    """Log of the probability of the joint state (x, y), the second with `size` states."""
    return _log_categorical(x * size + y, theta)
