"""Particles, the messages made of them, and what the particle methods share.

    m_{t->s}(x) = sum_k w_k psi_ts(x_t^(k), x),
    w_k ~ phi_t(x_t^(k)) / (K W_t(x_t^(k)))  prod_{u != s} m_{u->t}(x_t^(k))                 (3.4)

W_t is the density that the K particles of variable t were drawn from; they serve all messages that t sends.
Weights are kept as logs and sum to one. A discrete variable has one particle per state, which is not drawn:
W = 1/K there, so that sums over its states are exact.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...core.errors import UnsupportedError, ZeroProbabilityError
from ...core.records import record
from ...core.result import Estimate, Marginals, Result, Status
from ...families.natural import log_sum
from ...optimise.driver import UNKNOWN
from ..problem.base import Budget, IterativeAlgorithm, Problem
from ..problem.gaussian_system import refuse_improper
from ..problem.gradients import needs
from .pace import FIRST, DrawPace, distance
from .pairs import ParticlePairs, why_not_pairs
from .steps import ParticleStep, moves
from .tables import moments

__all__ = [
    "Cloud",
    "ParticleMethod",
    "ParticleState",
    "believe",
    "messages_at",
    "without_variables",
]


_NOISE = "the answer has the noise of its particles, which the residual does not see: more of them lessen it"


@record("particles")
@dataclass(frozen=True)
class Cloud:
    """Particles of all variables, and the weights that make messages of them."""

    particles: np.ndarray  # (n, k) values, or states
    log_base: np.ndarray  # (n, k) logs of 1 / (k W)
    log_mass: np.ndarray  # (n, k) the belief at the particles over W; not normalised
    log_weights: np.ndarray  # (2E, k) of every message, at the particles of its sender

    @classmethod
    def of(
        cls,
        pairs: ParticlePairs,
        particles: np.ndarray,
        log_base: np.ndarray,
        beliefs: np.ndarray,
        cavities: np.ndarray,
    ) -> Cloud:
        """Weights from what the senders know without their receivers."""
        raw = log_base[pairs.sender] + cavities
        norm = log_sum(raw)
        mass = log_base + beliefs
        lost = np.flatnonzero(np.isneginf(mass).all(axis=1))
        lost = np.concatenate([lost, pairs.sender[np.isneginf(norm)]])
        if len(lost):
            raise ZeroProbabilityError(_lost(pairs, int(lost[0])))
        return cls(particles, log_base, mass, raw - norm[:, None])


def _lost(pairs: ParticlePairs, i: int) -> str:
    name = pairs.graph.variables.names[i]
    if not pairs.is_real[i]:
        return f"every state of '{name}' has weight zero under this model; check values and factors"
    return (
        f"no particle of '{name}' has positive weight: the factors contradict each other, or leave so little "
        "room that more particles are needed"
    )


def summary(pairs: ParticlePairs, cloud: Cloud, note: float) -> ParticleStep:
    """Moments and probabilities of the particles."""
    share = np.exp(cloud.log_mass - log_sum(cloud.log_mass)[:, None])
    real = pairs.is_real
    mean, variance = moments(cloud.particles[real], cloud.log_mass[real])
    effective = 1 / (share[real] ** 2).sum(axis=1)
    return ParticleStep(mean, np.sqrt(variance), effective, share[~real], note)


@record("particle-bp", rebuilt=("pairs",))
@dataclass(frozen=True)
class ParticleState:
    """Particles and messages after some iterations."""

    pairs: ParticlePairs  # the model
    cloud: Cloud  # the particles and the weights of the messages
    seed: int  # of all draws
    steps: tuple[ParticleStep, ...]  # one per iteration, the start included
    sites: Any = None  # what a method keeps besides
    pace: DrawPace = FIRST  # whether particles are drawn or kept

    def rng(self) -> np.random.Generator:
        """The generator of the next iteration."""
        return np.random.default_rng([self.seed, len(self.steps)])


class ParticleMethod(IterativeAlgorithm[ParticleState]):
    """An algorithm whose messages are sums over particles of the sender."""

    warm_starts: ClassVar[bool] = True
    _counts: ClassVar[str]  # what `Step.note` counts
    particles: int
    redraws: int | None
    spread: float

    def why_not(self, problem: Problem) -> str | None:
        """Sums over pairwise models of real and discrete variables."""
        return why_not_pairs(problem.graph)

    def _width(self, pairs: ParticlePairs) -> int:
        """Particles per variable: at least one per state."""
        states = int(pairs.sizes.max(initial=1))
        return max(self.particles, states) if pairs.is_real.any() else states

    @abc.abstractmethod
    def _first(self, pairs: ParticlePairs, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Any]:
        """First particles (n, k), the logs of 1 / (k W), and what is kept besides."""

    def start(self, problem: Problem, rng: np.random.Generator) -> ParticleState:
        """Particles where the factors of single variables are, and messages that know only these."""
        needs(self.name, "jax", "equinox")
        from .edges import unary_values

        refuse_improper(problem.graph)
        pairs = ParticlePairs(problem.graph)
        if problem.warm is not None:
            return _resume(problem.warm, pairs, self._width(pairs))
        seed = int(rng.integers(2**63))
        particles, log_base, sites = self._first(pairs, np.random.default_rng([seed, 0]))
        log_unary = unary_values(pairs, particles)
        cloud = Cloud.of(pairs, particles, log_base, log_unary, log_unary[pairs.sender])
        return ParticleState(pairs, cloud, seed, (summary(pairs, cloud, 0.0),), sites)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Run from the first state; a model without variables needs none."""
        return without_variables(self.name, problem) or super().run(problem, budget, rng)

    @abc.abstractmethod
    def _draw_points(self, state: ParticleState) -> tuple[Cloud, float, Any]:
        """New particles and the messages at them, what the step counts, and what is kept besides."""

    def step(self, problem: Problem, state: ParticleState) -> tuple[ParticleState, float]:
        """New messages, at new particles or at those that have found their places."""
        pairs, old = state.pairs, state.cloud
        drew = bool(pairs.is_real.any()) and state.pace.draws(state.steps, self.redraws)
        if drew:
            cloud, note, sites = self._draw_points(state)
        else:
            beliefs, cavities, _ = believe(pairs, old, old.particles)
            cloud = Cloud.of(pairs, old.particles, old.log_base, beliefs, cavities)
            note, sites = 0.0, state.sites
        steps = (*state.steps, summary(pairs, cloud, note))
        new = replace(state, cloud=cloud, steps=steps, sites=sites, pace=state.pace.after(steps, drew))
        return new, UNKNOWN if drew else distance(cloud.log_weights, old.log_weights)

    def read(self, problem: Problem, state: ParticleState, status: Status) -> Result:
        """Densities, probabilities and the Bethe value of the beliefs."""
        from .readout import bethe_value, incoming, marginals_of, tabulate

        pairs, cloud = state.pairs, state.cloud
        received = incoming(pairs, cloud.particles[pairs.sender], cloud.log_weights)
        table = tabulate(pairs, partial(messages_at, pairs, cloud), cloud.particles)
        return Result(
            self.name,
            status,
            log_z=Estimate(bethe_value(pairs, table), "estimate"),
            marginals=marginals_of(pairs, table, received),
            trace={self._counts: np.array([s.note for s in state.steps[1:]]), "moved": moves(state.steps)},
            notes=(_NOISE,) if pairs.is_real.any() else (),
        )


def without_variables(name: str, problem: Problem) -> Result | None:
    """The answer where nothing is left to infer; None otherwise."""
    constant = problem.constant
    if len(problem.graph.variables):
        return None
    return Result(
        name,
        Status.EXACT,
        log_z=Estimate(constant, "exact"),
        marginals=Marginals(problem.graph.variables, np.zeros(0)),
    )


def messages_at(pairs: ParticlePairs, cloud: Cloud, points: np.ndarray) -> np.ndarray:
    """Log messages (2E, p) at points (n, p) of their receivers."""
    from .edges import send

    return send(pairs, cloud.particles[pairs.sender], cloud.log_weights, points[pairs.receiver])


def believe(
    pairs: ParticlePairs, cloud: Cloud, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Beliefs, cavities and messages at points (n, p)."""
    from .edges import unary_values

    messages = messages_at(pairs, cloud, points)
    return *pairs.beliefs(unary_values(pairs, points), messages), messages


def _resume(warm: Any, pairs: ParticlePairs, width: int) -> ParticleState:
    same = (
        isinstance(warm, ParticleState)
        and warm.cloud.particles.shape == (pairs.n, width)
        and np.array_equal(warm.pairs.ends, pairs.ends)
        and np.array_equal(warm.pairs.sizes, pairs.sizes)
    )
    if not same:
        raise UnsupportedError(
            "warm_start: expected a result of the same method, with as many particles, on a model with the "
            "same variables, edges and observed variables"
        )
    return replace(warm, pairs=pairs)
