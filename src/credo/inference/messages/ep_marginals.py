r"""Marginals of expectation propagation, as densities.

A real variable has its Gaussian belief, a vector the joint Gaussian of its coordinates. A number that is
described by a free coordinate u is another matter: q_i(u) has the moments of u, and those of the value x(u)
are none of what was matched (the mean of exp u under the Gaussian of an exponential variable is 1.28, not 1).
Its marginal is what the tilted distributions t_a make of q,

    p_i(u) ~ q_i(u) prod_a ( t_{a,i}(u) / q_i(u) )^(1 / power_a),

over the factors a of i: the product of the factors themselves where all of them are about i alone. It lies on
points that are dense within a few deviations and reach tens of them.

Source: the factorised marginals of Cseke and Heskes (2011).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...core.belief import Density
from ...core.domain import FreeCoordinate
from ...core.result import Marginals
from ...core.variable import Variables
from ...families.densities import DirichletMixtureDensity, GridDensity, MixtureDensity
from ...families.mapped import VectorMixtureDensity
from ...families.natural import log_sum, normalised
from ...optimise.run import check
from .ep_along import TiltedLine
from .ep_beliefs import SiteBeliefs
from .ep_points import PointsTilt
from .ep_sites import SiteGroup, SiteParameters
from .ep_tilted import Proposal
from .ep_updates import combined

if TYPE_CHECKING:
    from .ep import EPState

__all__ = ["marginals_of"]

_POINTS = 401  # of a density
_CORE, _REACH = 4.0, 60.0  # standard deviations: where points begin to lie farther apart, and where they end
_NEGLIGIBLE = 40.0  # nats below the top, beyond which nothing is followed
_ONE = np.ones(1)


def marginals_of(
    variables: Variables, state: EPState, beliefs: SiteBeliefs, vectors: Mapping[str, np.ndarray]
) -> Marginals:
    """Marginals of all variables, and of the vectors whose coordinates some of them are."""
    layout, logs = state.layout, beliefs.logs
    flat = np.zeros(len(logs))
    mean, variance = beliefs.moments
    densities: dict[str, Density] = {}
    for i, name in enumerate(variables.names):
        first, last = layout.start[i], layout.start[i] + layout.width[i]
        if layout.kinds[i] == "d":
            flat[first:last] = normalised(logs[first:last])[0]
        elif isinstance(variables.domains[i], FreeCoordinate):
            densities[name] = _corrected(variables, state, beliefs, i)
        elif layout.kinds[i] == "r":
            densities[name] = MixtureDensity(_ONE, mean[first:last], np.sqrt(variance[first:last]))
        else:
            densities[name] = DirichletMixtureDensity(_ONE, 1 + beliefs.natural[None, first:last])
    for name, at in vectors.items():
        places = layout.start[at]
        densities[name] = VectorMixtureDensity(_ONE, mean[None, places], beliefs.covariance(places)[None])
    return Marginals(variables, flat, densities)


def _corrected(variables: Variables, state: EPState, beliefs: SiteBeliefs, i: int) -> Density:
    """The density of one free coordinate; its belief where a tilted distribution is not known yet."""
    layout, domain = state.layout, variables.domains[i]
    assert isinstance(domain, FreeCoordinate)
    place = int(layout.start[i])
    mean, sd = float(beliefs.moments[0][place]), float(np.sqrt(beliefs.moments[1][place]))
    z = _CORE * np.sinh(np.linspace(-1.0, 1.0, _POINTS) * np.arcsinh(_REACH / _CORE))
    u = np.unique(np.clip(mean + sd * z, domain.low, domain.high))
    belief = -0.5 * ((u - mean) / sd) ** 2
    height = belief.copy()
    for group, proposal in zip(layout.groups, state.proposals, strict=True):
        for a, axis in np.argwhere(group.real[0] == place):
            tilted = _tilted(group, a, axis, u, state.sites, beliefs, proposal)
            height += (tilted - belief) / group.power[a]
    if np.isnan(height).any() or not height.max() > -np.inf:
        return MixtureDensity(_ONE, np.array([mean]), np.array([sd]))
    return GridDensity.of(u, _from_top(height))


def _tilted(
    group: SiteGroup,
    a: int,
    axis: int,
    u: np.ndarray,
    sites: SiteParameters,
    beliefs: SiteBeliefs,
    proposal: Proposal,
) -> np.ndarray:
    """Log of the tilted distribution of one factor along a real variable, up to a constant."""
    check()
    assert isinstance(group.tilt, PointsTilt)  # what is Gaussian is about numbers of the line
    rows = np.array([a])
    cavity = beliefs.cavity(group, rows, sites)
    logs = TiltedLine(group.tilt, a, axis, u, cavity, group.power[a], proposal).log_weights()
    others = beliefs.discrete_cavities(group, rows, sites)
    states, _ = combined(np.zeros((1, len(logs))), group.sizes, others)
    return log_sum(logs + states[0][:, None], axis=0)


def _from_top(height: np.ndarray) -> np.ndarray:
    """Nothing beyond where it is negligible first: far out, points of the others may have missed the mass."""
    top, low = int(height.argmax()), height < height.max() - _NEGLIGIBLE
    kept = np.zeros(len(height), dtype=bool)
    kept[np.flatnonzero(np.append(True, low[:top]))[-1] :] = True
    kept[top + 1 + np.append(low[top + 1 :], True).argmax() :] = False
    return np.where(kept, height, -np.inf)
