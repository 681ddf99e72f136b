r"""Mixtures of trees: one of several tree-shaped networks is chosen, then everything is drawn from it.

    p(x) = sum_m lambda_m T_m(x),        T_m(x) = prod_i p_m(x_i | x_{parent of i in tree m})

Each tree has its own structure and tables. As a factor graph the choice is a variable of its own, and a table
p(x_i | x_j) that some trees have becomes a factor over the choice, x_j and x_i that is 1 for the other trees.

Source: Meila and Jordan 2000.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import ModelError
from ..core.factor import TableFactor
from ..core.factor_graph import FactorGraph
from ..core.naming import NamedModel
from ..core.numbers import float_array
from ..core.records import register
from ..core.samples import Samples
from ..core.variable import Variable, Variables
from .bayes_net import BayesNet
from .state_rows import state_rows

__all__ = ["MixtureOfTrees"]

_TREES = 12  # trees of which notebooks show the parents


@register("MixtureOfTrees")
class MixtureOfTrees(NamedModel):
    """A mixture of tree-shaped Bayesian networks over the same variables; immutable.

    Parameters
    ----------
    weights
        Probability of each tree.
    trees
        One `BayesNet` per component, every variable with one parent at most.
    choice
        Name of the variable of the factor graph that says which tree was chosen.

    Examples
    --------
    >>> from credo import BayesNet
    >>> from credo.models.mixture_of_trees import MixtureOfTrees
    >>> alike = BayesNet({"a": 2, "b": 2}, {"b": ["a"]}, {"a": [0.5, 0.5], "b": [[0.9, 0.1], [0.1, 0.9]]})
    >>> loose = BayesNet({"a": 2, "b": 2}, {}, {"a": [0.5, 0.5], "b": [0.5, 0.5]})
    >>> mixture = MixtureOfTrees([0.5, 0.5], [alike, loose])
    >>> round(float(mixture.log_prob({"a": 0, "b": 0})), 4)  # log (0.45 + 0.25) / 2
    -1.0498
    >>> mixture.responsibilities([[0, 0]]).round(3)
    array([[0.643, 0.357]])
    """

    def __init__(self, weights: Any, trees: Sequence[BayesNet], choice: str = "component") -> None:
        self.trees = tuple(trees)
        given = float_array("weights", weights, copy=True)
        if not self.trees or given.shape != (len(self.trees),):
            raise ModelError(
                f"weights: expected one number per tree ({len(self.trees)}), got shape {given.shape}"
            )
        if not (given >= 0).all() or abs(given.sum() - 1) > 1e-8:
            raise ModelError(f"weights: expected probabilities that sum to 1, got {given}")
        for m, tree in enumerate(self.trees):
            if tree.variables != self.trees[0].variables:
                raise ModelError(f"tree {m}: expected the variables of tree 0 in the same order, got others")
            for name, parents in tree.parents.items():
                if len(parents) > 1:
                    raise ModelError(f"tree {m}: '{name}' has the parents {list(parents)}, a tree allows one")
        if choice in self.trees[0].variables.names:
            raise ModelError(f"choice: '{choice}' is a variable of the trees; give another name")
        given /= given.sum()
        given.flags.writeable = False
        self.weights, self.choice = given, choice

    def to_parts(self) -> dict[str, Any]:
        """What files keep."""
        return {"weights": self.weights, "trees": self.trees, "choice": self.choice}

    @classmethod
    def from_parts(cls, weights: Any, trees: Any, choice: Any) -> MixtureOfTrees:
        """The mixture of what a file kept, its weights to the last bit: they have been divided already."""
        made = cls(weights, trees, choice)
        made.weights = weights
        weights.flags.writeable = False
        return made

    @property
    def variables(self) -> Variables:
        """The variables of the trees."""
        return self.trees[0].variables

    @property
    def n_parameters(self) -> int:
        """Free numbers: weights and tables; zeros are not free."""
        tables = [table for tree in self.trees for table in tree.tables.values()]
        free = sum(np.count_nonzero(table) - table[..., 0].size for table in tables)
        return len(self.trees) - 1 + int(free)

    @property
    def n_components(self) -> int:
        """How many trees."""
        return len(self.trees)

    def edges(self, component: int) -> list[tuple[str, str]]:
        """Pairs (parent, child) of one tree."""
        return self.trees[component].edges

    def _log_terms(self, states: Samples | np.ndarray, known: np.ndarray | None) -> np.ndarray:
        rows = state_rows(
            "log_probs", self.variables, np.asarray(states) if isinstance(states, list) else states
        )
        with np.errstate(divide="ignore"):
            found = np.array(
                [np.log(w) + t.log_probs(rows) for w, t in zip(self.weights, self.trees, strict=True)]
            )
        if known is not None:
            found[(np.arange(len(found))[:, None] != known) & (known >= 0)] = -np.inf
        return found

    def log_prob(self, assignment: Mapping[str, Any]) -> float:
        """Log probability of one joint state, name -> state."""
        row = [v.index(assignment[v.name]) for v in self.variables]
        return float(self.log_probs(np.array([row]))[0])

    def log_probs(self, states: Samples | np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
        """Log probability of each row of state indices (rows, n), and of its component where it is known.

        `known` is (rows,), -1 where it is not.
        """
        return np.asarray(np.logaddexp.reduce(self._log_terms(states, known), axis=0))

    def responsibilities(self, states: Samples | np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
        """Probability of each tree given each row, (rows, components); the weights for an impossible row."""
        terms = self._log_terms(states, known)
        top = terms.max(axis=0)
        possible = top > -np.inf
        share = np.exp(terms - np.where(possible, top, 0.0))
        total = share.sum(axis=0)
        found = np.where(possible, share / np.where(possible, total, 1.0), self.weights[:, None])
        return np.asarray(found.T)

    def sample(self, count: int, seed: int | None = None) -> Samples:
        """Joint samples of the trees' variables."""
        check.whole("count", count, 0)
        rng = check.generator(seed)
        which = rng.choice(len(self.trees), size=count, p=self.weights)
        rows = np.empty((count, len(self.variables)), dtype=np.int64)
        for m, tree in enumerate(self.trees):
            mine = which == m
            rows[mine] = tree.sample(int(mine.sum()), seed=int(rng.integers(2**31))).indices
        return Samples(self.variables, rows)

    @cached_property
    def _graph(self) -> FactorGraph:
        choice = Variable(self.choice, len(self.trees))
        held = {v.name: v for v in self.variables}
        tables: dict[tuple[str, ...], np.ndarray] = {}
        for m, tree in enumerate(self.trees):
            for name, parents in tree.parents.items():
                scope = (*parents, name)
                shape = (len(self.trees), *(held[n].size for n in scope))
                tables.setdefault(scope, np.ones(shape))[m] = tree.tables[name]
        factors = [TableFactor([choice], self.weights)]
        factors += [TableFactor([choice, *(held[n] for n in scope)], t) for scope, t in tables.items()]
        return FactorGraph([choice, *self.variables], factors)

    def to_factor_graph(self) -> FactorGraph:
        """The trees' variables and the choice among the trees."""
        return self._graph

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        names, few = self.variables.names, self.trees[:_TREES]
        parents = [tree.parents for tree in few]
        more = ", ..." if len(few) < len(self.trees) else ""
        return {"parent in each tree": lambda i: ", ".join((*p[names[i]], "-")[0] for p in parents) + more}

    def __repr__(self) -> str:
        return f"MixtureOfTrees({len(self.trees)} trees, {len(self.variables)} variables)"
