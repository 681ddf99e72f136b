"""The sites of expectation propagation: one member of an exponential family per factor and variable.

    q_i  =  base_i  x  prod_a site_{a,i},     a Gaussian, a categorical, or a Dirichlet, in natural parameters

Factors of one variable that are in the family already, and the diagonals of Gaussian factors, are exact: they
are the base. With block sites q is one Gaussian over all real variables: Gaussian factors are exact as a
whole, and a site is a Gaussian over all real variables of its factor. All sites of one kind lie in one flat
array; a `SiteGroup` knows where those of its factors are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...core.density import quadratic
from ...core.domain import Discrete, Domain, FreeCoordinate, Real
from ...core.errors import OptionError, UnsupportedError
from ...core.factor import look_up
from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch
from ...core.records import record
from ...core.wiring import starts_of
from ..problem.located import places_of
from ..problem.starting_places import starting_places
from .ep_points import PointsTilt
from .ep_tilted import GaussianTilt, Proposal, TableTilt, Tilt
from .gaussian_couplings import merge_pairs
from .moments import group_log_values, is_positive_definite

__all__ = ["SiteGroup", "SiteLayout", "SiteParameters"]

_MOST_POINTS = 1 << 20  # of one factor
_MOST_REALS = 5000  # whose joint Gaussian is kept


@record("ep sites")
class SiteParameters(NamedTuple):
    """Natural parameters, of variables or of sites; discrete and simplex ones one after another."""

    precision: np.ndarray  # (reals,) of variables, one matrix after another of sites
    shift: np.ndarray  # (reals,)
    logs: np.ndarray  # (states,) log weights; -inf is a zero
    natural: np.ndarray  # (coordinates,) concentrations - 1

    def copy(self) -> SiteParameters:
        """The same numbers in arrays of their own."""
        return SiteParameters(*(part.copy() for part in self))


@dataclass(frozen=True, eq=False)
class SiteGroup:
    """Factors whose sites are updated together; places index `SiteParameters` of variables and of sites."""

    scopes: np.ndarray  # (count, arity) variables
    real: tuple[np.ndarray, np.ndarray]  # places (count, reals) of variables, of shifts of sites
    square: np.ndarray  # places (count, reals, reals) of precisions of sites
    discrete: tuple[tuple[np.ndarray, np.ndarray], ...]  # per axis, places (count, states)
    simplex: tuple[np.ndarray, np.ndarray]  # places (count, width); width 0 without one
    tilt: Tilt  # how tilted distributions are found
    power: np.ndarray  # (count,) of power EP

    def __len__(self) -> int:
        return len(self.scopes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """States of the discrete axes."""
        return tuple(places.shape[1] for places, _ in self.discrete)


@dataclass(frozen=True, eq=False)
class SiteLayout:
    """Where everything is, and what is exact."""

    kinds: np.ndarray  # (n,) r, d or s per variable
    start: np.ndarray  # (n,) first place of each variable among those of its kind
    width: np.ndarray  # (n,) places of each variable
    groups: tuple[SiteGroup, ...]  # of the factors that are approximated
    base: SiteParameters  # of the variables
    first: SiteParameters  # the first sites
    sd: np.ndarray  # (reals,) standard deviations of the first beliefs
    constant: float  # log of factors without variables, and of constants taken out
    coupling: np.ndarray | None = None  # (reals, reals) of exact factors, zeros on the diagonal; block sites

    @cached_property
    def owners(self) -> SiteParameters:
        """The place of its variable for every place of a site; -1 for precisions between two variables."""
        found = SiteParameters(*(np.zeros(len(part), dtype=np.int64) for part in self.first))
        found.precision[:] = -1
        for group in self.groups:
            found.precision[np.einsum("aii->ai", group.square)] = group.real[0]
            found.shift[group.real[1]] = group.real[0]
            found.natural[group.simplex[1]] = group.simplex[0]
            for places, sites in group.discrete:
                found.logs[sites] = places
        return found

    @classmethod
    def of(
        cls,
        graph: FactorGraph,
        *,
        nodes: int,
        points: int,
        spread: float,
        power: float | Mapping[int, float] = 1.0,
        is_block: bool = False,
    ) -> SiteLayout:
        """Read a graph; variables that no exact factor confines begin this much wider than their profiles.

        `power` is that of all factors, or of some by their numbers in the graph.
        """
        return _SiteBuilder(graph, nodes, points, power, is_block).build(spread)

    def proposals(self) -> tuple[Proposal, ...]:
        """Proposals that were not used yet, per group; closed forms need none."""
        found = []
        for group in self.groups:
            is_summed = isinstance(group.tilt, PointsTilt)
            states = int(np.prod(group.sizes)) if is_summed else 0
            reals, width = group.real[0].shape[1], group.simplex[0].shape[1]
            found.append(Proposal.unknown(len(group) if is_summed else 0, states, reals, width))
        return tuple(found)


class _SiteBuilder:
    """Goes through the groups of a graph once."""

    def __init__(
        self, graph: FactorGraph, nodes: int, points: int, power: float | Mapping[int, float], is_block: bool
    ) -> None:
        self._graph, self._nodes, self._points = graph, nodes, points
        self._power = _powers(graph, power)
        domains = [v.domain for v in graph.variables]
        self._kinds = np.array([_kind(d) for d in domains], dtype="U1")
        self._width = np.array([d.size if isinstance(d, Discrete) else d.numbers for d in domains], np.int64)
        self._start = np.zeros(len(domains), dtype=np.int64)
        for kind in "rds":
            mine = self._kinds == kind
            self._start[mine] = starts_of(self._width[mine])[:-1]
        self._base = SiteParameters(*(np.zeros(self._total(kind)) for kind in "rrds"))
        self._used = {"r": 0, "d": 0, "s": 0, "rr": 0}  # places of sites given away
        self._constant = 0.0
        reals = self._total("r")
        if is_block and reals > _MOST_REALS:
            raise UnsupportedError(
                f"ep: block sites need the joint covariance of all real variables, {_MOST_REALS} at most, "
                f"got {reals}; give sites=diagonal"
            )
        self._coupling = np.zeros((reals, reals)) if is_block else None

    def _total(self, kind: str) -> int:
        return int(self._width[self._kinds == kind].sum())

    def build(self, spread: float) -> SiteLayout:
        found = []
        for group in self._graph.batches:
            made = self._group(group)
            if made is not None and len(made):
                found.append(made)
        sites = SiteParameters(*(np.zeros(self._used[kind]) for kind in ("rr", "r", "d", "s")))
        sd = self._confine(found, sites, spread)
        return SiteLayout(
            self._kinds,
            self._start,
            self._width,
            tuple(found),
            self._base,
            sites,
            sd,
            self._constant,
            self._coupling,
        )

    def _group(self, group: FactorBatch) -> SiteGroup | None:
        """Add what is exact to the base; the sites of the rest."""
        graph, scopes = self._graph, group.scopes
        if not group.domains:
            self._constant += float(sum(float(graph.factors[int(a)].log_values()) for a in group.factors))
            return None
        if all(isinstance(d, Discrete) for d in group.domains):
            tables = self._tables(group)
            if len(group.domains) > 1:
                return self._sites(group, scopes, TableTilt(tables))
            np.add.at(self._base.logs, self._places(scopes[:, 0]), tables)
            return None
        if group.function is quadratic:
            J, h, g = group.parameters
            places = self._start[scopes]
            np.add.at(self._base.precision, places, np.einsum("aii->ai", J))
            np.add.at(self._base.shift, places, h)
            self._constant += float(g.sum())
            if len(group.domains) == 1:
                return None
            scopes, couplings = merge_pairs(scopes, J)
            if self._coupling is None:
                return self._sites(group, scopes, GaussianTilt(couplings))
            places = self._start[scopes]
            np.add.at(self._coupling, (places[:, :, None], places[:, None, :]), couplings)
            return None
        return self._sites(group, scopes, self._points_of(group))

    def _tables(self, group: FactorBatch) -> np.ndarray:
        """Log tables (count, states) of factors on discrete variables."""
        if group.function is look_up:
            return group.parameters[0].reshape(len(group.scopes), -1)
        states = np.indices([d.size for d in group.domains]).reshape(len(group.domains), -1)
        columns = [np.broadcast_to(index, (len(group.scopes), len(index))) for index in states]
        return group_log_values(self._graph, group, np.arange(len(group.scopes)), columns)

    def _points_of(self, group: FactorBatch) -> PointsTilt:
        kinds = "".join(_kind(d) for d in group.domains)
        where = f"ep: factor over {list(self._graph.factors[int(group.factors[0])].names)}"
        if kinds.count("s") > 1:
            raise UnsupportedError(f"{where}: expected one simplex variable at most, got {kinds.count('s')}")
        sizes = [d.size for d in group.domains if isinstance(d, Discrete)]
        count = float(np.prod(sizes, dtype=float)) * float(self._nodes) ** kinds.count("r")
        count *= self._points if "s" in kinds else 1
        if count > _MOST_POINTS:
            raise UnsupportedError(
                f"{where}: its tilted distribution needs {count:.2g} points, more than {_MOST_POINTS}; "
                "give fewer nodes, or split the factor"
            )
        states = np.indices(sizes).reshape(len(sizes), -1).T if sizes else np.zeros((1, 0), dtype=np.int64)
        return PointsTilt(self._graph, group, kinds, states, self._nodes, self._points)

    def _sites(self, group: FactorBatch, scopes: np.ndarray, tilt: Tilt) -> SiteGroup:
        by_kind: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"r": [], "d": [], "s": []}
        for axis, domain in enumerate(group.domains):
            kind = _kind(domain)
            places = self._places(scopes[:, axis])
            sites = self._used[kind] + np.arange(places.size).reshape(places.shape)
            self._used[kind] += places.size
            by_kind[kind].append((places, sites))
        none = np.zeros((len(scopes), 0), dtype=np.int64)
        real = [np.concatenate([none, *(pair[k] for pair in by_kind["r"])], axis=1) for k in range(2)]
        simplex = by_kind["s"][0] if by_kind["s"] else (none, none)
        count, k = real[0].shape
        square = self._used["rr"] + np.arange(count * k * k).reshape(count, k, k)
        self._used["rr"] += square.size
        is_exact = isinstance(tilt, GaussianTilt)
        power = np.ones(count) if is_exact else self._power[group.factors]
        return SiteGroup(scopes, (real[0], real[1]), square, tuple(by_kind["d"]), simplex, tilt, power)

    def _places(self, variables: np.ndarray) -> np.ndarray:
        """Places (count, width) of variables of one kind and width."""
        width = int(self._width[variables[0]]) if len(variables) else 1
        return self._start[variables][:, None] + np.arange(width)

    def _confine(self, groups: list[SiteGroup], sites: SiteParameters, spread: float) -> np.ndarray:
        """First sites for real variables that nothing exact confines, around the places of their profiles.

        Returns the standard deviations of the first beliefs.
        """
        precision, shift = self._base.precision.copy(), self._base.shift.copy()
        touched = np.zeros(len(precision), dtype=np.int64)
        for group in groups:
            np.add.at(touched, group.real[0], 1)
        open_ = precision <= 0
        if self._coupling is not None and not is_positive_definite(self._coupling + np.diag(precision)):
            open_ |= touched > 0  # none is, alone, but they are together
        if open_.any():
            real = np.flatnonzero(self._kinds == "r")
            # What free coordinates describe ends somewhere: an integral over them says nothing about values.
            limited = any(isinstance(v.domain, FreeCoordinate) for v in self._graph.variables)
            found = starting_places(self._graph) if limited else places_of(self._graph)
            wide = (spread * found.scale[real[open_]]) ** -2.0
            precision[open_] = np.maximum(precision[open_], 0.0) + wide
            shift[open_] = shift[open_] * (precision[open_] > wide) + wide * found.centre[real[open_]]
            each = np.maximum(touched, 1)
            lacking, pull = (precision - self._base.precision) / each, (shift - self._base.shift) / each
            for group in groups:
                variables, places = group.real
                sites.precision[np.einsum("aii->ai", group.square)] = lacking[variables]
                sites.shift[places] = pull[variables]
        if self._coupling is not None and not is_positive_definite(self._coupling + np.diag(precision)):
            raise UnsupportedError(
                "ep: block sites begin with the Gaussian factors, whose joint precision is not positive "
                "definite here; give sites=diagonal"
            )
        return np.asarray(1 / np.sqrt(precision))


def _kind(domain: Domain) -> str:
    return "d" if isinstance(domain, Discrete) else "r" if isinstance(domain, Real) else "s"


def _powers(graph: FactorGraph, power: float | Mapping[int, float]) -> np.ndarray:
    """The power of every factor."""
    if not isinstance(power, Mapping):
        return np.full(graph.n_factors, float(power))
    found = np.ones(graph.n_factors)
    for a, value in power.items():
        if not 0 <= a < graph.n_factors:
            raise OptionError(f"power: expected numbers of factors below {graph.n_factors}, got {a}")
        if graph.factors[a].function is quadratic:
            names = list(graph.factors[a].names)
            raise OptionError(
                f"power: factor {a} over {names} is Gaussian, which is exact and has no power; leave it out"
            )
        found[a] = value
    return found
