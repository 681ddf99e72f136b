r"""Declared parameters of the factors of a graph, and the free numbers that learning moves.

    value = x(u),      x the bijection of the parameter's domain, for each of its numbers

Factors that were given a `Parameter` of one name share its value. They are kept in groups of stacked arrays,
and a new value is written there: the structure of the graph, and plans that were made for it, stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.bijections import bijection_of
from ..core.density import DensityFactor
from ..core.domain import Continuous
from ..core.errors import ModelError
from ..core.factor import Factor
from ..core.factor_graph import FactorGraph
from ..core.groups import Densities
from ..core.parameter import Parameter
from ..core.records import register

__all__ = ["Declared", "DeclaredWeights", "checked_places", "declared_in", "with_values"]


@register("declared parameter")
@dataclass(frozen=True, eq=False)
class Declared:
    """A parameter by the places where it stands."""

    name: str  # of the parameter
    domain: Continuous  # of each of its numbers
    sites: np.ndarray  # (places, 2) number of the factor, and which of its parameters

    def value(self, graph: FactorGraph) -> np.ndarray:
        """What it is in a graph."""
        number, place = (int(k) for k in self.sites[0])
        factor: Any = graph.factors[number]
        return np.asarray(factor.parameters[place], dtype=np.float64)


def declared_in(factors: Iterable[Factor]) -> tuple[Declared, ...]:
    """The parameters that factors were given, in the order of their first place."""
    first: dict[str, Parameter] = {}
    sites: dict[str, list[tuple[int, int]]] = {}
    for number, factor in enumerate(factors):
        for place, given in factor.declared.items() if isinstance(factor, DensityFactor) else ():
            known = first.setdefault(given.name, given)
            if given.domain != known.domain or not np.array_equal(given.value, known.value):
                raise ModelError(
                    f"parameter '{given.name}': expected one value and domain wherever it stands, got "
                    f"{known} and {given}; give them different names, or the same object"
                )
            sites.setdefault(given.name, []).append((number, place))
    return tuple(Declared(name, p.domain, np.array(sites[name])) for name, p in first.items())


def checked_places(graph: FactorGraph, declared: Any) -> tuple[Declared, ...]:
    """What a file says of a graph, if its places are there."""
    found = tuple(declared)
    for one in found:
        sites = np.asarray(getattr(one, "sites", ()))
        if not isinstance(one, Declared) or sites.ndim != 2 or sites.shape[1:] != (2,) or not len(sites):
            raise ModelError(f"declared: expected parameters with their places, got {type(one).__name__}")
        for number, place in sites.tolist():
            inside = 0 <= number < graph.n_factors and isinstance(graph.factors[number], DensityFactor)
            if not inside or not 0 <= place < len(graph.factors[number].parameters):  # type: ignore[attr-defined]
                raise ModelError(f"declared: '{one.name}' stands at a place that there is not")
    return found


def with_values(
    graph: FactorGraph, declared: Iterable[Declared], values: Mapping[str, np.ndarray]
) -> FactorGraph:
    """The graph with other values of some parameters."""
    changes = [(d.sites, values[d.name]) for d in declared if d.name in values]
    groups = [_changed(group, changes) if isinstance(group, Densities) else group for group in graph.others]
    return graph.with_parts(graph.variables, groups)


def _changed(group: Densities, changes: Iterable[tuple[np.ndarray, np.ndarray]]) -> Densities:
    parameters = list(group.parameters)
    for sites, value in changes:
        for place in np.unique(sites[:, 1]).tolist():
            rows = np.flatnonzero(np.isin(group.numbers, sites[sites[:, 1] == place, 0]))
            if len(rows):
                parameters[place] = parameters[place].copy()
                parameters[place][rows] = value
    return replace(group, parameters=tuple(parameters))


@dataclass(frozen=True)
class DeclaredWeights:
    """All declared parameters as one vector of free numbers: a model of scores that are graphs."""

    graph: FactorGraph  # whose numbers they are
    declared: tuple[Declared, ...]
    make: Callable[[Mapping[str, np.ndarray]], Any]  # values by name -> a model of the same kind

    @property
    def start(self) -> np.ndarray:
        """Free numbers of the values given."""
        return np.concatenate(
            [bijection_of(d.domain).forward(d.value(self.graph).ravel()).ravel() for d in self.declared]
        )

    def values(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Values by name."""
        found, first = {}, 0
        for d in self.declared:
            shape = d.value(self.graph).shape
            last = first + int(np.prod(shape))
            found[d.name] = np.reshape(bijection_of(d.domain).inverse(theta[first:last, None]), shape)
            first = last
        return found

    def scores(self, theta: np.ndarray, batch: Any = None) -> FactorGraph:
        """The graph with these values."""
        return with_values(self.graph, self.declared, self.values(theta))

    def model(self, theta: np.ndarray) -> Any:
        """The model with these values."""
        return self.make(self.values(theta))
