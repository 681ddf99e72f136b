"""Blanks: the structure of a Bayesian network whose states and tables are still to come from data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..core.display import Listing, Shown
from ..core.domain import Domain, Real, domain_of
from ..core.errors import ModelError
from ..core.records import register
from ..core.variable import Variables
from .conditional_tables import random_rows, scopes_from_names, table_sizes, topological_order
from .regression import Regression

if TYPE_CHECKING:
    from ..core.factor_graph import FactorGraph
    from .bayes_net import BayesNet

__all__ = ["BlankNet", "real_parent_error"]


@register("BlankNet")
class BlankNet(Shown):
    """Names and edges; `credo.fit` or `initialise` makes a `BayesNet` of it. See `BayesNet.from_edges`."""

    def __init__(
        self,
        edges: Iterable[tuple[str, str]] = (),
        states: Mapping[str, Any] | None = None,
        nodes: Iterable[str] = (),
    ) -> None:
        if isinstance(nodes, str) or not isinstance(nodes, Iterable):
            raise ModelError(f"nodes: expected a list of names, got {nodes!r:.80}")
        if not isinstance(edges, Iterable):
            raise ModelError(f"edges: expected pairs (parent, child), got {edges!r:.80}")
        pairs = [_pair(edge) for edge in edges]
        given = {str(name): _domain(name, domain) for name, domain in (states or {}).items()}
        names = dict.fromkeys([*map(str, nodes), *(name for pair in pairs for name in pair), *given])
        parents: dict[str, list[str]] = {name: [] for name in names}
        for parent, child in pairs:
            if parent in parents[child]:
                raise ModelError(f"edges: ({parent}, {child}) is named twice")
            parents[child].append(parent)
        self._parents = {child: tuple(some) for child, some in parents.items()}
        self._given = given
        alike = Variables.of(dict.fromkeys(names, 1))
        topological_order(alike, *scopes_from_names(alike, self._parents))  # refuses a cycle

    def to_parts(self) -> dict[str, Any]:
        """What files keep."""
        return {"edges": self.edges, "states": dict(self._given), "nodes": self.nodes}

    @classmethod
    def from_parts(cls, edges: Any, states: Any, nodes: Any) -> BlankNet:
        """The blank of what a file kept."""
        if not isinstance(edges, list) or not isinstance(states, dict) or not isinstance(nodes, tuple):
            raise ModelError("blank: expected edges, states and nodes, got something else")
        return cls(edges, states, nodes)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the variables."""
        return tuple(self._parents)

    @property
    def parents(self) -> Mapping[str, tuple[str, ...]]:
        """Child name -> parent names, in the order of the edges."""
        return dict(self._parents)

    @property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """Parent name -> names of its children."""
        return {a: tuple(b for b, some in self._parents.items() if a in some) for a in self._parents}

    @property
    def edges(self) -> list[tuple[str, str]]:
        """All pairs (parent, child), children in the order of the nodes."""
        return [(a, b) for b, some in self._parents.items() for a in some]

    @property
    def domains(self) -> Mapping[str, Domain]:
        """Name -> domain, of the variables that were given one."""
        return dict(self._given)

    def with_nodes(self, names: Iterable[str]) -> BlankNet:
        """The same blank with more variables, those that it does not have yet."""
        return BlankNet(self.edges, self._given, (*self.nodes, *names))

    def initialise(self, domains: Mapping[str, Any], hidden: Iterable[str], rng: Any) -> BayesNet:
        """A network with first parameters, from which learning starts.

        Parameters
        ----------
        domains
            Name -> states or `Real()` as the data have them; what the blank was given goes first.
        hidden
            Names of variables that no row observes: they and their children get random tables, because
            states that are alike at the start stay alike for ever.
        rng
            The generator, or a seed.

        Examples
        --------
        >>> import credo
        >>> blank = credo.BayesNet.from_edges([("coin", "head")], states={"coin": 2})
        >>> net = blank.initialise({"head": ["no", "yes"]}, ["coin"], 0)
        >>> net.states["head"], net.tables["head"].shape
        (('no', 'yes'), (2, 2))
        """
        from .bayes_net import BayesNet

        found = {**{name: domains[name] for name in self.nodes if name in domains}, **self._given}
        lacking = [name for name in self.nodes if name not in found]
        if lacking:
            raise ModelError(
                f"blank: no column of the data and no states for '{lacking[0]}'"
                f"{f' and {len(lacking) - 1} more' if len(lacking) > 1 else ''}; if it is hidden, say how "
                f"many states it has: from_edges(..., states={{'{lacking[0]}': 2}})"
            )
        variables = Variables.of({name: found[name] for name in self.nodes})
        self._refuse_real_parents(variables)
        start, scope = scopes_from_names(variables, self._parents)
        sizes = table_sizes(variables, start, scope)
        rows = np.repeat(variables.sizes, sizes // np.maximum(variables.sizes, 1))
        random = self._around(hidden)
        is_random = np.array([name in random for name in self.nodes], dtype=bool)
        tables = np.where(np.repeat(is_random, sizes), random_rows(rows, rng), np.repeat(1.0 / rows, rows))
        real = [v.name for v in variables if not v.is_discrete]
        return BayesNet.from_flat(
            variables, start, scope, tables, {name: self._first(name, variables) for name in real}
        )

    def _around(self, hidden: Iterable[str]) -> set[str]:
        """Hidden variables and their children."""
        some = set(hidden)
        return some | {child for child, parents in self._parents.items() if some & set(parents)}

    def _first(self, name: str, variables: Variables) -> Regression:
        """Mean 0, variance 1, whatever the parents: a learner with data knows better."""
        parents = [variables[variables.position(p)] for p in self._parents[name]]
        sizes = tuple(v.size for v in parents if v.is_discrete)
        return Regression(np.zeros(sizes), np.ones(sizes), np.zeros((*sizes, len(parents) - len(sizes))))

    def _refuse_real_parents(self, variables: Variables) -> None:
        for parent, child in self.edges:
            one, other = (variables[variables.position(name)] for name in (parent, child))
            if not one.is_discrete and other.is_discrete:
                raise real_parent_error(parent, child)

    def _refuse(self, what: str) -> NoReturn:
        raise ModelError(
            f"{what}: this network is a blank, it has structure but no tables; fit it first: "
            "credo.fit(blank, data).model"
        )

    def to_factor_graph(self) -> FactorGraph:
        """Refused: there are no tables."""
        self._refuse("to_factor_graph")

    def sample(self, count: int, seed: int | None = None) -> NoReturn:
        """Refused: there are no tables."""
        self._refuse("sample")

    def cpt(self, name: str) -> NoReturn:
        """Refused: there are no tables."""
        self._refuse("cpt")

    def log_prob(self, assignment: Mapping[str, Any]) -> NoReturn:
        """Refused: there are no tables."""
        self._refuse("log_prob")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlankNet) and self._parents == other._parents and self._given == other._given

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        edges = self.edges
        told = (
            f": {', '.join(f'{a} -> {b}' for a, b in edges)}"
            if 0 < len(edges) and len(self.nodes) <= 12
            else ""
        )
        return f"BlankNet({len(self.nodes)} variables, {len(edges)} edges{told}; no tables yet: fit it first)"

    def _shown(self) -> Iterable[str | Listing]:
        return [repr(self)]


def _pair(edge: Any) -> tuple[str, str]:
    if isinstance(edge, str) or not isinstance(edge, Iterable):
        raise ModelError(f"edges: expected pairs (parent, child), got {edge!r:.80}")
    pair = tuple(edge)
    if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        raise ModelError(f"edges: expected pairs (parent, child), got {edge!r:.80}")
    return pair


def _domain(name: Any, given: Any) -> Domain:
    try:
        domain = domain_of(given)
    except ModelError as error:
        raise ModelError(f"states of '{name}': {error}") from None
    if not domain.size and domain != Real():
        raise ModelError(f"states of '{name}': expected a count, labels or Real(), got {domain!r}")
    return domain


def real_parent_error(parent: str, child: str) -> ModelError:
    """Why a discrete node cannot have a real parent, and the ways out."""
    return ModelError(
        f"edge {parent} -> {child}: '{parent}' is real and '{child}' has states, which no table can say; "
        f"turn the edge round ({child} -> {parent}), or cut '{parent}' into intervals"
    )
