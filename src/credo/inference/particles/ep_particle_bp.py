r"""Expectation particle belief propagation: particles from Gaussian proposals that follow the messages.

    q_u        ~ eta_ou prod_w eta_wu                       the proposal of variable u      (3.5)
    q_u^{\w}   ~ q_u / eta_wu                               the cavity                      (3.6)
    eta_wu     = argmin_eta KL( m_wu q_u^{\w} || eta q_u^{\w} ),  eta Gaussian              (3.7)
    m_{w->u}(x) = sum_k w_k psi_wu(x_w^(k), x),   w_k ~ b_w(x_w^(k)) / ( q_w(x_w^(k)) m_{u->w}(x_w^(k)) )

eta_ou is the projection of the unary factors of u in the same way. The minimiser has the moments of the
product of message and cavity, which are sums over points spread over three and nine standard deviations of
q_u. An update is skipped where these moments are not those of a density that ends within the points; so are
updates that together would leave q_u without a positive variance, or far from the products it was made from,
and q_u is then the Gaussian with the moments of the belief. The trace counts what was skipped.

Proposals only place the particles, so a poor one costs precision and not correctness; but what lies beyond
their reach is never found, and weights there are large, so particles are drawn from q_u made `widen` times as
wide. Everything else is as in `particle-bp`.

`components=M` is the fast variant: while particles are drawn, each message is evaluated with M of its K
terms, drawn by their weights. Such an iteration costs 2 K (K + points) evaluations of each pair factor, or
2 M (K + points); one that keeps the particles costs 2 K^2, with all terms.

Source: Lienart, Teh and Doucet (2015); Guo (2020) for the Bethe value of the beliefs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core import check
from ...core.records import record
from ..problem.base import register
from .cloud import Cloud, ParticleMethod, ParticleState
from .pairs import ParticlePairs
from .tables import log_widths, moments, stratify

__all__ = ["EPParticleBP", "Sites"]

_REACH = (3.0, 9.0)  # of the points, in standard deviations of a proposal
_ENDS = 4.0  # nats that a tilted density must fall towards both ends
_FAR = 3.0  # between the means of a proposal and of a tilted density, in standard deviations of the wider one
_WIDE = 20.0  # ratio of their variances
_PLACES = 64  # points of the table that first proposals are taken from


@record("particle sites")
class Sites(NamedTuple):
    """Gaussian factors exp(h x - J x^2 / 2) of the proposals; zero at discrete variables."""

    unary_precision: np.ndarray  # (n,) J of eta_o
    unary_shift: np.ndarray  # (n,) h of eta_o
    precision: np.ndarray  # (2E,) J of the site of each message
    shift: np.ndarray  # (2E,) h of the site of each message

    def proposals(self, pairs: ParticlePairs) -> tuple[np.ndarray, np.ndarray]:
        """Precisions and shifts of q, (n,)."""
        return (
            self.unary_precision + pairs.collect(self.precision),
            self.unary_shift + pairs.collect(self.shift),
        )


@register
@dataclass(frozen=True, kw_only=True)
class EPParticleBP(ParticleMethod):
    """Particle belief propagation with proposals by expectation propagation.

    Examples
    --------
    >>> import credo
    >>> from credo import potentials
    >>> edges = {("a", "b"): potentials.laplace}
    >>> model = credo.HybridNet.pairwise({"a": potentials.gaussian, "b": potentials.gaussian}, edges)
    >>> found = credo.infer(model, "ep-particle-bp(particles=50)", seed=0)
    >>> bool(abs(found.marginals["a"].mean) < 0.05)
    True
    """

    name: ClassVar[str] = "ep-particle-bp"
    _counts: ClassVar[str] = "skipped"
    particles: int = 100  # per real variable; at least as many as a discrete one has states
    redraws: int | None = None  # iterations that draw particles anew; None: until these move as noise does
    components: int | None = None  # terms of a message that are evaluated; None: all
    points: int = 30  # of the sums that project messages
    widen: float = 1.5  # how much wider than q the particles are drawn; 1 in the source
    spread: float = 1.0  # of first particles, where no factor tells where a variable lies

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("particles", self.particles, 2)
        if self.redraws is not None:
            check.whole("redraws", self.redraws, 0)
        if self.components is not None:
            check.whole("components", self.components, 1)
        check.whole("points", self.points, 8)
        check.at_least("widen", self.widen, 1)
        check.at_least("spread", self.spread, 0)

    def _first(self, pairs: ParticlePairs, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Any]:
        from .start import locate, state_points

        width, real = self._width(pairs), pairs.is_real
        precision, shift = np.zeros(pairs.n), np.zeros(pairs.n)
        if real.any():
            points, values, _ = locate(pairs, max(_PLACES, int(pairs.sizes.max())), self.spread)
            mean, variance = moments(points[real], values[real] + log_widths(points[real]))
            precision[real], shift[real] = 1 / variance, mean / variance
        none = np.zeros(len(pairs.sender))
        sites = Sites(precision, shift, none, none)
        return *_place(pairs, sites, *state_points(pairs, width), self.widen, rng), sites

    def _draw_points(self, state: ParticleState) -> tuple[Cloud, float, Any]:
        from .edges import send, unary_values

        pairs, cloud, rng = state.pairs, state.cloud, state.rng()
        senders, log_weights = cloud.particles[pairs.sender], cloud.log_weights
        if self.components is not None and self.components < log_weights.shape[1]:
            senders, log_weights = _thin(pairs, senders, log_weights, self.components, rng)
        at = _quadrature(pairs, state.sites, self.points)
        messages = send(pairs, senders, log_weights, at[pairs.receiver])
        sites, skipped = project(pairs, state.sites, at, unary_values(pairs, at), messages)
        particles, log_base = _place(pairs, sites, cloud.particles, cloud.log_base, self.widen, rng)
        messages = send(pairs, senders, log_weights, particles[pairs.receiver])
        beliefs, cavities = pairs.beliefs(unary_values(pairs, particles), messages)
        return Cloud.of(pairs, particles, log_base, beliefs, cavities), float(skipped), sites


def _place(
    pairs: ParticlePairs,
    sites: Sites,
    particles: np.ndarray,
    log_base: np.ndarray,
    widen: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """New particles of real variables from their proposals, and the logs of 1 / (k q)."""
    from scipy.special import ndtri

    real, width = pairs.is_real, particles.shape[1]
    precision, shift = (a[real][:, None] for a in sites.proposals(pairs))
    normal = ndtri(np.clip(stratify(len(precision), width, rng), 1e-15, 1 - 1e-15))
    particles, log_base = particles.copy(), log_base.copy()
    sd = widen / np.sqrt(precision)
    particles[real] = shift / precision + sd * normal
    log_base[real] = -np.log(width) + 0.5 * (normal**2 + np.log(2 * np.pi)) + np.log(sd)
    return particles, log_base


def _thin(
    pairs: ParticlePairs, senders: np.ndarray, log_weights: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Some terms of every message, drawn by their weights; all terms where the sender is discrete."""
    reached = np.cumsum(np.exp(log_weights), axis=1)
    reached /= reached[:, -1:]
    row = np.arange(len(reached))[:, None]
    uniforms = stratify(len(reached), count, rng)
    index = np.searchsorted((reached + row).ravel(), (uniforms + row).ravel(), side="right")
    index = np.clip(index.reshape(uniforms.shape) - row * reached.shape[1], 0, reached.shape[1] - 1)
    chosen = np.full(uniforms.shape, -np.log(count))
    whole = (pairs.sizes > 0) & (pairs.sizes <= count)
    exact = whole[pairs.sender]
    index[exact], chosen[exact] = np.arange(count), log_weights[exact, :count]
    return np.take_along_axis(senders, index, 1), chosen


def _quadrature(pairs: ParticlePairs, sites: Sites, count: int) -> np.ndarray:
    """Points (n, count) around the proposals, dense near their means and sparse far away."""
    precision, shift = sites.proposals(pairs)
    precision = np.where(pairs.is_real, precision, 1.0)
    near = np.linspace(-_REACH[0], _REACH[0], count - count // 2)
    far = np.linspace(-_REACH[1], _REACH[1], count // 2)
    offsets = np.sort(np.concatenate([near, far]))
    points = (shift / precision)[:, None] + offsets / np.sqrt(precision)[:, None]
    return np.where(pairs.is_real[:, None], points, 0.0)


def project(
    pairs: ParticlePairs, sites: Sites, points: np.ndarray, log_unary: np.ndarray, messages: np.ndarray
) -> tuple[Sites, int]:
    """New sites from unary factors (n, p) and messages (2E, p) at the points, and how many were skipped.

    All sites change at once. Where the product of the new ones is not near the tilted densities, the proposal
    gets the moments of the belief.
    """
    rows = np.concatenate([np.arange(pairs.n), pairs.receiver])
    old = np.stack([np.concatenate(pair) for pair in zip(sites[:2], sites[2:], strict=True)])
    total = np.stack(sites.proposals(pairs))
    cavity = total[:, rows] - old
    at = points[rows]
    tilted = (
        np.concatenate([log_unary, messages]) + cavity[1][:, None] * at - 0.5 * cavity[0][:, None] * at**2
    )
    mean, variance, good = _moments(at, tilted)
    asked = pairs.is_real[rows]
    good &= asked
    with np.errstate(divide="ignore", invalid="ignore"):
        new = np.stack([1 / variance, mean / variance]) - cavity
    stray = _astray(pairs, _sites(pairs, np.where(good, new, old)), rows, mean, variance, good)
    good &= ~stray[rows]
    found = np.where(good, new, old)
    mean, variance, there = _moments(points, pairs.beliefs(log_unary, messages)[0])
    again = stray & there
    found[:, again[rows]] = 0.0
    found[:, : pairs.n][:, again] = np.stack([1 / variance, mean / variance])[:, again]
    return _sites(pairs, found), int((asked & ~good).sum())


def _sites(pairs: ParticlePairs, both: np.ndarray) -> Sites:
    return Sites(both[0, : pairs.n], both[1, : pairs.n], both[0, pairs.n :], both[1, pairs.n :])


def _moments(at: np.ndarray, tilted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances of tilted densities, and which of them end within the points."""
    top = tilted.max(axis=1)
    ends = np.maximum(tilted[:, 0], tilted[:, -1])
    mean, variance = moments(at, tilted + log_widths(at))
    with np.errstate(invalid="ignore"):
        good = np.isfinite(top) & (ends < top - _ENDS) & (variance > 0)
    return mean, np.where(good, variance, 1.0), good


def _astray(
    pairs: ParticlePairs,
    sites: Sites,
    rows: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    good: np.ndarray,
) -> np.ndarray:
    """Variables whose proposal is no density, or far from one of the tilted densities in place or width."""
    precision, shift = sites.proposals(pairs)
    proper = precision > 0
    own = np.where(proper, 1 / np.where(proper, precision, 1.0), 1.0)[rows]
    centre = np.where(proper, shift / np.where(proper, precision, 1.0), 0.0)[rows]
    far = (mean - centre) ** 2 > _FAR**2 * np.maximum(own, variance)
    far |= (own > _WIDE * variance) | (own * _WIDE < variance)
    away = ~proper & pairs.is_real
    np.logical_or.at(away, rows[good], far[good])
    return away
