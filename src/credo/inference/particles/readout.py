"""Beliefs made of messages that can be evaluated anywhere: densities, probabilities and their Bethe value.

    b_i(x)     ~ phi_i(x) prod_k m_{k->i}(x)                        (3.2)
    b_ij(x, y) ~ psi_ij(x, y) g_ij(x) g_ji(y),     g_ij = phi_i prod_{k != j} m_{k->i}

    F = sum_i E_{b_i}[ log phi_i - log b_i ] + sum_ij E_{b_ij}[ log psi_ij - log b_ij / (b_i b_j) ]
    L = sum_i (1 - d_i) log Z_i + sum_ij log Z_ij,     Z the norms of beliefs, d_i the number of neighbours

At a fixed point of belief propagation both are the Bethe value. Beliefs of particles need not agree with each
other. F is then the recipe by which published values were computed: its error is of the order of the errors
of the messages. L is stationary in the messages at a fixed point, so that its error is of second order.
Expectations are sums over points in panels that follow the beliefs, by the rule of Gauss and Legendre.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.belief import Density
from ...core.factor import Factor
from ...core.result import Marginals
from ...families.densities import GridDensity
from ...families.natural import log_sum
from ..problem.gaussian_system import no_integral
from .edges import edge_sums, unary_values
from .pairs import ParticlePairs
from .start import state_points
from .tables import improper, panels, refine

__all__ = [
    "BeliefTable",
    "MessageDensity",
    "ParticleMessage",
    "bethe_value",
    "incoming",
    "marginals_of",
    "stationary_value",
    "tabulate",
]

_PANELS = 16  # per variable
_ORDER = 8  # points per panel
_ROUNDS = 3  # of moving the panels to where the beliefs are
_MORE_ROUNDS = 12  # until a belief that does not end is given up

Messages = Callable[[np.ndarray], np.ndarray]  # points (n, p) -> log messages (2E, p) at their receivers


@dataclass(frozen=True)
class BeliefTable:
    """Beliefs of all variables at points of their own."""

    points: np.ndarray  # (n, p) rising values, or states
    log_measure: np.ndarray  # (n, p) logs of the weights of the points in an integral, or sum
    log_unary: np.ndarray  # (n, p) of the unary factors
    log_beliefs: np.ndarray  # (n, p) not normalised
    log_cavities: np.ndarray  # (2E, p) g of the sender of each message, at the sender's points

    @property
    def log_norms(self) -> np.ndarray:
        """Logs of the integrals of the beliefs, (n,)."""
        return log_sum(self.log_beliefs + self.log_measure)


def tabulate(pairs: ParticlePairs, messages: Messages, first: np.ndarray) -> BeliefTable:
    """Evaluate beliefs at points that follow them.

    Parameters
    ----------
    pairs
        The model.
    messages
        Log messages as a function of points (n, p) of their receivers.
    first
        (n, k) points that cover the beliefs of real variables roughly.
    """
    real, width = pairs.is_real, _PANELS * _ORDER
    count = int(pairs.sizes.max(initial=1))
    if not real.any():
        points, measure = state_points(pairs, count)
        log_unary = unary_values(pairs, points) + measure
        return BeliefTable(points, measure, log_unary, *pairs.beliefs(log_unary, messages(points)))
    points, log_states = state_points(pairs, max(width, count))
    measure = np.where(real[:, None], -np.inf, log_states)
    edges = _covering(first[real], _PANELS + 1)
    for turn in range(_MORE_ROUNDS):
        own, measure[real, :width] = panels(edges, _ORDER)
        points[real, :width], points[real, width:] = own, own[:, -1:]
        log_unary = unary_values(pairs, points) + log_states
        beliefs, cavities = pairs.beliefs(log_unary, messages(points))
        endless = improper(beliefs[:, :width]) & real
        if turn >= _ROUNDS - 1 and not endless.any():
            return BeliefTable(points, measure, log_unary, beliefs, cavities)
        edges = refine(own, beliefs[real, :width], widen=True, count=_PANELS + 1)
    name = pairs.graph.variables.names[int(np.flatnonzero(endless)[0])]
    raise no_integral(f"the belief about '{name}' does not fall off")


def _covering(particles: np.ndarray, count: int) -> np.ndarray:
    """Half of the points among the particles, half over them and beyond."""
    low, high = particles.min(axis=1), particles.max(axis=1)
    margin = 0.5 * (high - low) + 1e-6 * np.maximum(1.0, np.abs(high))
    order = np.sort(particles, axis=1)
    chosen = np.linspace(0, particles.shape[1] - 1, count // 2).round().astype(np.int64)
    even = np.linspace(low - margin, high + margin, count - count // 2, axis=1)
    return np.sort(np.concatenate([even, order[:, chosen]], axis=1), axis=1)


def bethe_value(pairs: ParticlePairs, table: BeliefTable) -> float:
    """The negative Bethe free energy F of beliefs; points where a node's belief is zero count nowhere."""
    norms = table.log_norms
    log_node = table.log_beliefs - norms[:, None]
    mass = np.exp(log_node + table.log_measure)
    total = pairs.constant + _expect(mass, table.log_unary - _finite(log_node))
    ends, count = pairs.ends, pairs.n_edges
    there = np.where(np.isneginf(log_node), -np.inf, table.log_measure)
    one, other = table.log_cavities[:count], table.log_cavities[count:]
    log_total, first, second = edge_sums(
        pairs, table.points, one + there[ends[:, 0]], other + there[ends[:, 1]]
    )
    for share, cavity, end in ((first, one, ends[:, 0]), (second, other, ends[:, 1])):
        total -= _expect(share, _finite(cavity) - _finite(log_node[end]))
    return float(total + log_total.sum())


def stationary_value(pairs: ParticlePairs, table: BeliefTable) -> float:
    """L: the Bethe value in terms of messages, whose errors it feels in second order only."""
    ends, count = pairs.ends, pairs.n_edges
    there = np.where(np.isneginf(table.log_beliefs), -np.inf, table.log_measure)
    one, other = table.log_cavities[:count], table.log_cavities[count:]
    log_total, _, _ = edge_sums(pairs, table.points, one + there[ends[:, 0]], other + there[ends[:, 1]])
    return float(pairs.constant + (1 - pairs.degrees) @ table.log_norms + log_total.sum())


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(values), 0.0, values)


def _expect(mass: np.ndarray, values: np.ndarray) -> float:
    return float(np.where(mass > 0, mass * np.where(mass > 0, values, 0.0), 0.0).sum())


@dataclass(frozen=True)
class ParticleMessage:
    """The message log sum_k weight_k psi(particle_k, x), for single variables and any x."""

    factors: tuple[tuple[Factor, bool], ...]  # of the edge; whether the receiver is their first variable
    particles: np.ndarray  # (k,) of the sender
    log_weights: np.ndarray  # (k,)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """The log message at points."""
        total: Any = self.log_weights[:, None]
        for factor, receiver_first in self.factors:
            sender = factor.scope[1 if receiver_first else 0]
            kind = np.int64 if sender.is_discrete else np.float64  # states are indices
            columns = (x[None, :], self.particles[:, None].astype(kind))
            total = total + factor.log_values(*(columns if receiver_first else columns[::-1]))
        return log_sum(total, axis=0)


def incoming(
    pairs: ParticlePairs, particles: np.ndarray, log_weights: np.ndarray
) -> list[tuple[ParticleMessage, ...]]:
    """The messages that every variable receives, from particles and weights (2E, k) of their senders."""
    found: list[list[ParticleMessage]] = [[] for _ in range(pairs.n)]
    for kind in pairs.classes:
        for e in range(kind.start, kind.stop):
            row = zip(kind.members, kind.rows[e - kind.start], strict=True)
            factors = [(pairs.graph.factors[int(g.factors[r])], swapped) for (g, swapped), r in row]
            for d in (e, e + pairs.n_edges):
                # The receiver of message e is the second variable of an edge that is not swapped.
                turned = tuple((f, swapped == (d == e)) for f, swapped in factors)
                found[pairs.receiver[d]].append(ParticleMessage(turned, particles[d], log_weights[d]))
    return [tuple(messages) for messages in found]


@dataclass(frozen=True, repr=False)
class MessageDensity(Density):
    """A belief phi(x) prod_k m_k(x) / Z: evaluated anywhere, with the moments of its table."""

    points: np.ndarray  # (p,) rising
    values: np.ndarray  # (p,) densities there
    masses: np.ndarray  # (p,) weights of the points in expectations; they sum to one
    unary: tuple[Factor, ...]  # the factors of this variable alone
    messages: tuple[Any, ...]  # each with `log_density`
    log_norm: float  # log Z

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.masses @ self.points)

    @property
    def variance(self) -> float:
        """The variance."""
        return float(self.masses @ (self.points - self.mean) ** 2)

    @property
    def mode(self) -> float:
        """The point of the table with the highest density."""
        return float(self.points[np.argmax(self.values)])

    def log_density(self, x: Any) -> np.ndarray:
        """Log density at points, from the messages themselves."""
        x = np.asarray(x, dtype=np.float64)
        flat = np.atleast_1d(x).ravel()
        total = np.full(flat.shape, -self.log_norm)
        for factor in self.unary:
            total = total + factor.log_values(flat)
        for message in self.messages:
            total = total + message.log_density(flat)
        return np.asarray(total.reshape(x.shape))

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws from the table."""
        return GridDensity(self.points, self.values).sample(count, rng)

    def curve_points(self, count: int) -> np.ndarray:
        """Those around the mean, and the points of the table."""
        return np.concatenate([super().curve_points(count), self.points])

    def __repr__(self) -> str:
        return f"MessageDensity({len(self.messages)} messages, {self.mean:.4g} +- {self.sd:.4g})"


def marginals_of(pairs: ParticlePairs, table: BeliefTable, incoming: Sequence[tuple[Any, ...]]) -> Marginals:
    """Probabilities of discrete and densities of real variables.

    `incoming` holds per variable its messages, each with `log_density`.
    """
    variables = pairs.graph.variables
    norms = table.log_norms
    own: list[list[Factor]] = [[] for _ in range(pairs.n)]
    for group in pairs.unary:
        for a, i in zip(group.factors.tolist(), group.scopes[:, 0].tolist(), strict=True):
            own[i].append(pairs.graph.factors[a])
    flat = np.zeros(int(variables.state_start[-1]))
    densities: dict[str, Density] = {}
    for i, name in enumerate(variables.names):
        if pairs.is_real[i]:
            there = slice(0, _PANELS * _ORDER)
            values = np.exp(table.log_beliefs[i, there] - norms[i])
            masses = values * np.exp(table.log_measure[i, there])
            densities[name] = MessageDensity(
                table.points[i, there], values, masses, tuple(own[i]), tuple(incoming[i]), float(norms[i])
            )
        else:
            part = slice(*variables.state_start[i : i + 2])
            flat[part] = np.exp(table.log_beliefs[i, : pairs.sizes[i]] - norms[i])
    return Marginals(variables, flat, densities)
