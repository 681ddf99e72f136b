"""Particles, the messages made of them, and what the particle methods share.

    m_{t->s}(x) = sum_k w_k psi_ts(x_t^(k), x),
    w_k ~ phi_t(x_t^(k)) / (K W_t(x_t^(k)))  prod_{u != s} m_{u->t}(x_t^(k))                 (3.4)

W_t is the density that the K particles of variable t were drawn from; they serve all messages that t sends.
Weights are kept as logs and sum to one. A discrete variable has one particle per state, which is not drawn:
W = 1/K there, so that sums over its states are exact.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...core.errors import UnsupportedError, ZeroProbabilityError
from ...core.records import record
from ...core.result import Estimate, Marginals, Result, Status
from ..base import Budget, IterativeAlgorithm, Problem
from ..gaussian_system import refuse_improper
from ..gradients import needs
from .pairs import Pairs, log_sum, why_not_pairs
from .tables import moments

__all__ = [
    "Cloud",
    "ParticleMethod",
    "ParticleState",
    "Step",
    "judged",
    "messages_at",
    "settled",
    "without_variables",
]

_DRIFT = 3.0  # of averages over iterations, in their standard errors


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
        pairs: Pairs,
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


def _lost(pairs: Pairs, i: int) -> str:
    name = pairs.graph.variables.names[i]
    if not pairs.is_real[i]:
        return f"every state of '{name}' has weight zero under this model; check values and factors"
    return (
        f"no particle of '{name}' has positive weight: the factors contradict each other, or leave so little "
        "room that more particles are needed"
    )


@record("particle step")
@dataclass(frozen=True)
class Step:
    """What was believed after one iteration, in few numbers."""

    mean: np.ndarray  # (real variables,)
    sd: np.ndarray  # (real variables,)
    effective: np.ndarray  # (real variables,) number of equally weighted particles worth as much
    shares: np.ndarray  # (discrete variables, k) probabilities of states
    note: float  # what the method counts

    @classmethod
    def of(cls, pairs: Pairs, cloud: Cloud, note: float) -> Step:
        """Summarise the particles."""
        share = np.exp(cloud.log_mass - log_sum(cloud.log_mass)[:, None])
        real = pairs.is_real
        mean, variance = moments(cloud.particles[real], cloud.log_mass[real])
        effective = 1 / (share[real] ** 2).sum(axis=1)
        return cls(mean, np.sqrt(variance), effective, share[~real], note)

    def change(self, before: Step) -> float:
        """Largest move of a mean, in standard deviations, or of a probability."""
        sd = np.maximum(np.maximum(self.sd, before.sd), 1e-300)
        moved = (np.abs(self.mean - before.mean) / sd).max(initial=0.0)
        return float(max(moved, np.abs(self.shares - before.shares).max(initial=0.0)))


def settled(steps: tuple[Step, ...]) -> bool:
    """Whether the means of the last quarter of all iterations are those of the quarter before.

    Differences are measured in the standard errors that independent particles would give them, and their
    root mean square over all variables is compared.
    """
    width = max(2, len(steps) // 4)
    if len(steps) < 2 * width + 1:
        return False
    late, early = steps[-width:], steps[-2 * width : -width]
    gap = sum(s.mean for s in late) - sum(s.mean for s in early)
    error = np.sqrt(sum(s.sd**2 / s.effective for s in (*late, *early)))
    score = np.asarray(gap) / np.maximum(error, 1e-300)
    return bool(np.sqrt(np.mean(score**2)) < _DRIFT) if len(score) else False


def judged(status: Status, steps: tuple[Step, ...]) -> tuple[Status, tuple[str, ...]]:
    """A run that was long enough has converged if its means only move as random draws do."""
    if status is Status.OUT_OF_ITERATIONS and settled(steps[1:]):
        return Status.CONVERGED, ("converged up to the noise of the draws: late means are those of before",)
    return status, ()


@record("particle-bp", rebuilt=("pairs",))
@dataclass(frozen=True)
class ParticleState:
    """Particles and messages after some iterations."""

    pairs: Pairs  # the model
    cloud: Cloud  # the particles and the weights of the messages
    seed: int  # of all draws
    steps: tuple[Step, ...]  # one per iteration, the start included
    sites: Any = field(default=None)  # what a method keeps besides

    def rng(self) -> np.random.Generator:
        """The generator of the next iteration."""
        return np.random.default_rng([self.seed, len(self.steps)])


class ParticleMethod(IterativeAlgorithm[ParticleState]):
    """An algorithm whose messages are sums over particles of the sender."""

    warm_starts: ClassVar[bool] = True
    _counts: ClassVar[str]  # what `Step.note` counts
    particles: int
    iterations: int
    spread: float

    def why_not(self, problem: Problem) -> str | None:
        """Sums over pairwise models of real and discrete variables."""
        return why_not_pairs(problem.graph)

    def _width(self, pairs: Pairs) -> int:
        """Particles per variable: at least one per state."""
        states = int(pairs.sizes.max(initial=1))
        return max(self.particles, states) if pairs.is_real.any() else states

    @abc.abstractmethod
    def _first(self, pairs: Pairs, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Any]:
        """First particles (n, k), the logs of 1 / (k W), and what is kept besides."""

    def start(self, problem: Problem, rng: np.random.Generator) -> ParticleState:
        """Particles where the factors of single variables are, and messages that know only these."""
        needs(self.name, "jax", "equinox")
        from .edges import unary_values

        refuse_improper(problem.graph)
        pairs = Pairs(problem.graph)
        if problem.warm is not None:
            return _resumed(problem.warm, pairs, self._width(pairs))
        seed = int(rng.integers(2**63))
        particles, log_base, sites = self._first(pairs, np.random.default_rng([seed, 0]))
        log_unary = unary_values(pairs, particles)
        cloud = Cloud.of(pairs, particles, log_base, log_unary, log_unary[pairs.sender])
        return ParticleState(pairs, cloud, seed, (Step.of(pairs, cloud, 0.0),), sites)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Run from the first state; a model without variables needs none."""
        return without_variables(self.name, problem) or super().run(problem, budget, rng)

    def resume(self, problem: Problem, state: ParticleState, budget: Budget) -> Result:
        """Iterate as often as the options say, or less if the budget does."""
        if state.pairs.is_real.any():
            budget = replace(budget, max_iter=min(budget.max_iter, self.iterations))
        return super().resume(problem, state, budget)

    def _moved(
        self, state: ParticleState, cloud: Cloud, note: float, sites: Any = None
    ) -> tuple[ParticleState, float]:
        """The state after one iteration, and its change."""
        step = Step.of(state.pairs, cloud, note)
        new = replace(state, cloud=cloud, steps=(*state.steps, step), sites=sites)
        return new, step.change(state.steps[-1])

    def read(self, problem: Problem, state: ParticleState, status: Status) -> Result:
        """Densities, probabilities and the Bethe value of the beliefs."""
        from .readout import bethe_value, marginals_of, tabulate

        pairs, cloud = state.pairs, state.cloud
        table = tabulate(pairs, partial(messages_at, pairs, cloud), cloud.particles)
        status, notes = judged(status, state.steps)
        return Result(
            self.name,
            status,
            log_z=Estimate(bethe_value(pairs, table), "estimate"),
            marginals=marginals_of(pairs, table, _incoming(pairs, cloud)),
            trace={self._counts: np.array([s.note for s in state.steps[1:]])},
            notes=notes,
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


def messages_at(pairs: Pairs, cloud: Cloud, points: np.ndarray) -> np.ndarray:
    """Log messages (2E, p) at points (n, p) of their receivers."""
    from .edges import send

    return send(pairs, cloud.particles[pairs.sender], cloud.log_weights, points[pairs.receiver])


def _incoming(pairs: Pairs, cloud: Cloud) -> list[tuple[Any, ...]]:
    from .readout import ParticleMessage

    found: list[list[Any]] = [[] for _ in range(pairs.n)]
    for kind in pairs.classes:
        for e in range(kind.start, kind.stop):
            row = zip(kind.members, kind.rows[e - kind.start], strict=True)
            factors = [(pairs.graph.factors[int(g.factors[r])], swapped) for (g, swapped), r in row]
            for d in (e, e + pairs.n_edges):
                # The receiver of message e is the second variable of an edge that is not swapped.
                turned = tuple((f, swapped == (d == e)) for f, swapped in factors)
                sender = cloud.particles[pairs.sender[d]]
                found[pairs.receiver[d]].append(ParticleMessage(turned, sender, cloud.log_weights[d]))
    return [tuple(messages) for messages in found]


def _resumed(warm: Any, pairs: Pairs, width: int) -> ParticleState:
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
