r"""A graph in free coordinates: values that are no states and no numbers of the line become such numbers.

    f(x) -> f(x(u)),        and one more factor |dx / du|^t per variable, t its temperature,

which is part of the first factor of x alone where there is one (an approximation per factor is then one of
both together), so a powered sum over u is the powered sum over x,

    ( int f(x)^{1/t} dx )^t = ( int ( f(x(u)) |dx/du|^t )^{1/t} du )^t,

and where x is maximised (t = 0) there is no Jacobian. A method that reads functions of real numbers reads in
this way every domain of the table of bijections; it never sees one. A vector is split into its coordinates,
which Gaussian blocks index anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .bijections import Bijection, bijection_of
from .density import Composed, stacked
from .domain import Discrete, FreeCoordinate, Real, Simplex
from .factor_graph import FactorGraph
from .groups import Densities, Group
from .variable import Variables
from .wiring import starts_of

__all__ = ["FreeGraph", "Volume", "is_plain"]

_LINE = Real()


def is_plain(domain: Any) -> bool:
    """Whether a domain stays as it is: states, numbers of the line, and simplices."""
    return isinstance(domain, (Discrete, Simplex)) or domain == _LINE


@dataclass(frozen=True)
class Volume:
    """The factor |dx / du|^t of one variable, its coordinates one by one, times a factor of its value."""

    own: Bijection  # from its coordinates to its values
    function: Callable[..., Any] | None = None  # log of the factor of the value; None: there is none

    def __call__(self, *arguments: Any) -> Any:
        """The log of the factor and of the volume at coordinates; parameters and the power t follow."""
        *rest, power = arguments
        u, parameters = rest[: self.own.free], rest[self.own.free :]
        volume = self.log_volume(u, power)
        if self.function is None:
            return volume
        return self.function(self.own.inverse(stacked(u)), *parameters) + volume

    def log_volume(self, u: list[Any], power: Any) -> Any:
        """The logarithm of the volume alone."""
        return power * self.own.log_jacobian(stacked(u))


@dataclass(frozen=True, eq=False)
class FreeGraph:
    """A graph in free coordinates, and the way back."""

    graph: FactorGraph
    variables: Variables  # of the original
    maps: tuple[Bijection | None, ...]  # per original variable; None: it stayed as it is
    start: np.ndarray  # (n + 1,) position of the first coordinate of each

    @classmethod
    def of(cls, graph: FactorGraph, temperatures: np.ndarray) -> FreeGraph | None:
        """The graph in free coordinates; None if it is plain already."""
        variables = graph.variables
        if all(is_plain(domain) for domain in variables.continuous):
            return None
        maps = tuple(None if is_plain(d) else bijection_of(d) for d in variables.domains)
        start = starts_of([1 if m is None else m.free for m in maps])
        power = np.array(
            [0.0 if m is None or m.keeps_volume else t for m, t in zip(maps, temperatures, strict=True)]
        )
        groups = [_free(group, maps, start, power) for group in graph.others]
        volumes = _volumes(graph, maps, start, power)
        made = graph.moved(_coordinates(variables, maps), start[:-1], [*groups, *volumes])
        return cls(made, variables, maps, start)

    @property
    def counts(self) -> np.ndarray:
        """Coordinates per variable."""
        return np.diff(self.start)

    @property
    def vectors(self) -> dict[str, np.ndarray]:
        """Name of a variable that is several numbers -> positions of its coordinates."""
        shaped = (i for i, m in enumerate(self.maps) if m is not None and self.variables.domains[i].shape)
        return {self.variables.names[i]: np.arange(self.start[i], self.start[i + 1]) for i in shaped}

    def names(self, i: int) -> tuple[str, ...]:
        """Names of the coordinates of a variable."""
        return tuple(self.graph.variables.names[self.start[i] : self.start[i + 1]])

    def values(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Values by name, of coordinates by name; of those variables that are there."""
        found = {}
        for i, own in enumerate(self.maps):
            names = self.names(i)
            if names[0] in columns:
                mapped = (
                    columns[names[0]]
                    if own is None
                    else own.inverse(np.stack([columns[k] for k in names], -1))
                )
                scalar = own is not None and np.ndim(mapped) == 0
                found[self.variables.names[i]] = float(mapped) if scalar else mapped
        return found


def _coordinates(variables: Variables, maps: tuple[Bijection | None, ...]) -> Variables:
    """A number keeps its name; coordinates of vectors are x[0], x[1], ..."""
    names: list[str] = []
    domains: list[Any] = []
    for i, own in enumerate(maps):
        name, domain = variables.names[i], variables.domains[i]
        if own is None:
            names.append(name)
            domains.append(domain)
        else:
            names += [f"{name}[{k}]" for k in range(own.free)] if domain.shape else [name]
            domains += [FreeCoordinate(1, *ends) if np.isfinite(ends).all() else _LINE for ends in own.reach]
    return Variables(names, domains)


def _free(group: Group, maps: tuple[Bijection | None, ...], start: np.ndarray, power: np.ndarray) -> Group:
    """A group over coordinates; the domains of a scope agree column by column.

    Factors of one variable take what is left in `power` of its volume with them.
    """
    own = tuple(maps[int(i)] for i in group.scopes[0])
    columns = [start[group.scopes[:, [k]]] + np.arange(1 if m is None else m.free) for k, m in enumerate(own)]
    scopes = np.concatenate([np.empty((len(group), 0), np.int64), *columns], axis=1)
    if not isinstance(group, Densities) or all(m is None for m in own):
        return replace(group, scopes=scopes)
    if len(own) > 1 or own[0] is None or not power[group.scopes[:, 0]].any():
        return replace(group, scopes=scopes, function=Composed(group.function, own))
    first = np.unique(group.scopes[:, 0], return_index=True)[1]
    taken = np.zeros(len(group))
    taken[first] = power[group.scopes[first, 0]]
    power[group.scopes[:, 0]] = 0.0
    whole = Volume(own[0], group.function)
    return replace(group, scopes=scopes, function=whole, parameters=(*group.parameters, taken))


def _volumes(
    graph: FactorGraph, maps: tuple[Bijection | None, ...], start: np.ndarray, power: np.ndarray
) -> Iterator[Densities]:
    """The factors |dx / du|^t that are left, numbered after all others."""
    last = 1 + max((int(part.max(initial=-1)) for part in graph.all_numbers), default=-1)
    left = [m for m, t in zip(maps, power, strict=True) if m is not None and t]
    for own in dict.fromkeys(left):
        rows = np.flatnonzero([m == own and t != 0 for m, t in zip(maps, power, strict=True)])
        scopes = start[rows][:, None] + np.arange(own.free)
        yield Densities(last + np.arange(len(rows)), scopes, Volume(own), (power[rows],))
        last += len(rows)
