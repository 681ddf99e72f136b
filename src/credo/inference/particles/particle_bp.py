r"""Particle belief propagation: every variable has particles, and messages are sums over them.

    m_{t->s}(x) = sum_k w_k psi_ts(x_t^(k), x),
    w_k ~ phi_t(x_t^(k)) / W_t(x_t^(k))  prod_{u != s} m_{u->t}(x_t^(k))

In every iteration the particles are drawn anew from a proposal W_t, and all messages are computed from the
old ones. Messages need no integral of their own, so potentials may be anything whose product with the rest is
integrable. Proposals:

    table      the current belief, tabulated at points that follow the old particles: its density is known
    belief     the current belief by a random walk (Metropolis) from the old particles, as in the source; W_t
               is the belief itself, up to a constant that cancels
    gaussian   a normal density with the moments of the last belief

Draws from a table or a normal density are stratified. As K grows this becomes belief propagation: exact on
trees; on loopy graphs neither the fixed point nor its Bethe value is a bound. Particles are drawn until
beliefs move only as draws do, and then kept until the messages at them come to rest (`pace`): a run that has
converged is at a fixed point for its particles, whose noise remains. `redraws` says instead how many
iterations draw; in the source all do. Models of discrete variables have nothing to draw: there this is belief
propagation with a flooding schedule.

An iteration evaluates each pair factor 2 K^2 times per draw: once for `gaussian`, twice for `table`, and
`steps` + 1 times for `belief`; and once where particles are kept.

Source: Ihler and McAllester (2009); Guo (2020) for the Bethe value of the beliefs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ...core import check
from ..problem.base import register
from .cloud import Cloud, ParticleMethod, ParticleState, believe
from .pairs import ParticlePairs
from .tables import draw, stratify

__all__ = ["ParticleBP"]

_PLACES = 64  # points of the table that first particles are drawn from


@register
@dataclass(frozen=True, kw_only=True)
class ParticleBP(ParticleMethod):
    """Belief propagation with particles drawn from the beliefs.

    Examples
    --------
    >>> import credo
    >>> model = credo.GaussianNet([[2.0, -1.0], [-1.0, 2.0]], [3.0, 0.0])
    >>> found = credo.infer(model, "particle-bp(particles=200)", seed=0)
    >>> bool(abs(found.marginals["x0"].mean - 2.0) < 0.05)
    True
    """

    name: ClassVar[str] = "particle-bp"
    _counts: ClassVar[str] = "accepted"
    particles: int = 100  # per real variable; at least as many as a discrete one has states
    redraws: int | None = None  # iterations that draw particles anew; None: until these move as noise does
    proposal: Literal["table", "belief", "gaussian"] = "table"  # what particles are drawn from
    steps: int = 20  # of the random walk, for proposal=belief
    stride: float = 1.0  # its length, in standard deviations of the particles of a variable
    spread: float = 1.0  # of first particles, where no factor tells where a variable lies

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("particles", self.particles, 2)
        if self.redraws is not None:
            check.whole("redraws", self.redraws, 0)
        check.one_of("proposal", self.proposal, ["table", "belief", "gaussian"])
        check.whole("steps", self.steps, 1)
        check.at_least("stride", self.stride, 0)
        check.at_least("spread", self.spread, 0)

    def _first(self, pairs: ParticlePairs, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Any]:
        from .start import locate, state_points

        width = self._width(pairs)
        particles, log_base = state_points(pairs, width)
        real = pairs.is_real
        if real.any():
            points, values, _ = locate(pairs, max(_PLACES, int(pairs.sizes.max())), self.spread)
            drawn, log_w = draw(points[real], values[real], stratify(int(real.sum()), width, rng))
            particles[real], log_base[real] = drawn, -np.log(width) - log_w
        return particles, log_base, None

    def _draw_points(self, state: ParticleState) -> tuple[Cloud, float, Any]:
        from . import proposals

        pairs, cloud, rng = state.pairs, state.cloud, state.rng()
        if self.proposal == "belief":
            return *proposals.walk(pairs, cloud, self.steps, self.stride, rng), None
        particles, log_base = cloud.particles.copy(), cloud.log_base.copy()
        real = pairs.is_real
        uniforms = stratify(int(real.sum()), particles.shape[1], rng)
        propose = proposals.from_table if self.proposal == "table" else proposals.from_normal
        particles[real], log_w = propose(pairs, cloud, uniforms)
        log_base[real] = -np.log(particles.shape[1]) - log_w
        beliefs, cavities, _ = believe(pairs, cloud, particles)
        return Cloud.of(pairs, particles, log_base, beliefs, cavities), 1.0, None
