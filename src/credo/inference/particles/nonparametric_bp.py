r"""Nonparametric belief propagation: messages are mixtures of Gaussians, made anew from draws.

    m_{i->j}(x) = sum_m w_m N(x; mu_m, h^2)                                                  (3.3)

    sampling=message   x_m from f_i prod_{k != j} m_{k->i}
                       w_m ~ zeta(x_m)
    sampling=belief    x_m from prod_k m_{k->i}, once for all neighbours j
                       w_m ~ zeta(x_m) f_i(x_m) / m_{j->i}(x_m)
    then               mu_m from psi_ij(x_m, .) f_j,       zeta(x) = integral of psi_ij(x, y) f_j(y) dy

f_i = phi_i^(1/d_i) is the share of the unary factors of i that goes to each of its d_i edges: a message
must be a density, and psi alone often has no finite integral. h follows Silverman's rule for the effective
number of draws, and the mu_m are drawn in towards their mean so that the mixture has the variance of the
draws. A product of d mixtures of M components has M^d; draws from it are found by resampling
which component of each mixture is taken (`gibbs`) or by weighting draws from the mixtures themselves
(`importance`). f_i enters a product as one more mixture, and what that misses as a weight.

psi(x, .) f_j is tabulated where the receiver's belief is, and as far around as that does not end. As in
`particle-bp`, draws are made until beliefs move only as draws do, and then kept (`pace`): x_m, mu_m and h
stay, and the weights follow the messages,

    w_m ~ (w_m / prod_{k != j} m_{k->i}(x_m) when x_m was drawn) prod_{k != j} m_{k->i}(x_m),

until these come to rest: a run that has converged is at a fixed point for its draws, and what these missed,
or the kernels smoothed, is still missing.

Mixtures say where draws are made and weigh them; beliefs are products of the messages before smoothing,

    m_{i->j}(x) = sum_m w_m psi_ij(x_m, x)      with the weights w_m before zeta,

so that a kernel wider than a mode does not blur them. log Z is the Bethe value in its stationary form
(`readout`), an estimate. As M grows all becomes belief propagation, at the rate of a kernel density: slower
than `particle-bp`. With sampling=belief a mode that all draws left is not found again.

An iteration costs, per message, M (points of the table) evaluations of its pair factor and M^2 (neighbours)
(sweeps) of a Gaussian.

Sources: Sudderth, Ihler, Freeman and Willsky (2003) for sampling=message; Ihler, Fisher, Moses and Willsky
(2005) for sampling=belief.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from ...core import check
from ...core.errors import ZeroProbabilityError
from ...core.records import record
from ...core.result import Estimate, Result, Status
from ...families.natural import log_sum
from ...optimise.driver import UNKNOWN
from ..problem.base import Budget, IterativeAlgorithm, Problem, register
from ..problem.gradients import needs
from ..problem.starting_places import starting_places
from .cloud import without_variables
from .pace import FIRST, DrawPace, distance
from .pairs import ParticlePairs, why_not_pairs
from .steps import ParticleStep, moves
from .tables import at_equal_masses, log_widths, moments, refine

if TYPE_CHECKING:
    from .mixtures import Bank

__all__ = ["KernelMixtureState", "NonparametricBP"]

_POINTS = 128  # of the tables
_PLACES = 64  # points of the tables that first draws are made from
_STRANGE = 3.0  # how much wider than its neighbour's the place of an unknown variable is taken to be
_LEAST = 1e-4  # bandwidth, as a share of the receiver's table
_SMOOTHED = (
    "the answer has the noise of its draws and the bias of their kernels, which the residual does not see: "
    "more components lessen both"
)


@record("nonparametric-bp", rebuilt=("pairs", "unary"))
@dataclass(frozen=True)
class KernelMixtureState:
    """Messages after some iterations."""

    pairs: ParticlePairs  # the model
    unary: Bank  # mixtures of the shares f of the unary factors, (n, m)
    messages: Bank  # (2E, m) each with the receiver's share f in it
    senders: np.ndarray  # (2E, m) draws that the messages came from
    log_weights: np.ndarray  # (2E, m) of these
    log_base: np.ndarray  # (2E, m) the same without the messages that the sender has received
    log_mass: np.ndarray  # (2E, m) log zeta at the draws
    points: np.ndarray  # (n, p) where beliefs are tabulated
    seed: int  # of all draws
    steps: tuple[ParticleStep, ...]  # one per iteration, the start included
    pace: DrawPace = FIRST  # whether draws are made or kept


@register
@dataclass(frozen=True, kw_only=True)
class NonparametricBP(IterativeAlgorithm[KernelMixtureState]):
    """Belief propagation with Gaussian mixtures as messages.

    Examples
    --------
    >>> import credo
    >>> model = credo.GaussianNet([[2.0, -1.0], [-1.0, 2.0]], [3.0, 0.0])
    >>> found = credo.infer(model, "nonparametric-bp(sampling=belief)", seed=0)
    >>> bool(abs(found.marginals["x0"].mean - 2.0) < 0.2)
    True
    """

    name: ClassVar[str] = "nonparametric-bp"
    components: int = 100  # of every message
    redraws: int | None = None  # iterations that draw anew; None: until beliefs move as noise does
    sampling: Literal["message", "belief"] = "message"  # what draws are made from
    product: Literal["gibbs", "importance"] = "gibbs"  # how
    sweeps: int = 5  # over the mixtures of a product, for product=gibbs
    bandwidth: float = 1.0  # as a multiple of Silverman's
    spread: float = 1.0  # of first draws, where no factor tells where a variable lies

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("components", self.components, 2)
        if self.redraws is not None:
            check.whole("redraws", self.redraws, 0)
        check.one_of("sampling", self.sampling, ["message", "belief"])
        check.one_of("product", self.product, ["gibbs", "importance"])
        check.whole("sweeps", self.sweeps, 1)
        check.at_least("bandwidth", self.bandwidth, 0)
        check.at_least("spread", self.spread, 0)

    def why_not(self, problem: Problem) -> str | None:
        """Sums over pairwise models of real variables."""
        return why_not_pairs(problem.graph)

    def start(self, problem: Problem, rng: np.random.Generator) -> KernelMixtureState:
        """Unary factors as mixtures, and messages that say nothing else."""
        needs(self.name, "jax", "equinox")
        from .mixtures import Bank, bandwidths
        from .start import locate

        starting_places(problem.graph)  # refuses a model that has no integral
        pairs, count = ParticlePairs(problem.graph), self.components
        points, values, known = locate(pairs, _PLACES, self.spread)
        means = at_equal_masses(points, values * _share(pairs), count)
        centre = means.mean(axis=1, keepdims=True)
        means = np.where(known[:, None], means, centre + _STRANGE * (means - centre))
        even = np.full((pairs.n, count), -np.log(count))
        points = refine(points, values, widen=False, count=_POINTS)
        width = points[:, -1] - points[:, 0]
        unary = Bank(means, even, bandwidths(means, even, _LEAST * width))
        flat = unary.taken(pairs.receiver)  # all that is known is the receiver's share
        senders = unary.means[pairs.sender]
        seed = int(rng.integers(2**63))
        even = flat.log_weights
        state = KernelMixtureState(
            pairs, unary, flat, senders, even, even, np.zeros(even.shape), points, seed, ()
        )
        return _believing(state, widen=True)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Run from the first state; a model without variables needs none."""
        return without_variables(self.name, problem) or super().run(problem, budget, rng)

    def step(self, problem: Problem, state: KernelMixtureState) -> tuple[KernelMixtureState, float]:
        """New mixtures, from new draws or from those that have found their places."""
        drew = state.pace.draws(state.steps, self.redraws)
        new = self._redraw(state) if drew else _reweight(state)
        new = _believing(new, widen=drew)
        new = replace(new, pace=state.pace.after(new.steps, drew))
        return new, UNKNOWN if drew else distance(new.log_weights, state.log_weights)

    def _redraw(self, state: KernelMixtureState) -> KernelMixtureState:
        """Draw at the senders, send the draws through the pair factors, and smooth what arrives."""
        from .edges import conditional_draws, unary_values
        from .mixtures import Bank, bandwidths, drawn_in

        pairs, rng = state.pairs, np.random.default_rng([state.seed, len(state.steps)])
        senders, log_weights = self._draws(state, rng)
        there = state.points[pairs.receiver]
        log_receiver = (unary_values(pairs, state.points) * _share(pairs))[pairs.receiver]
        means, log_mass = conditional_draws(pairs, senders, there, log_receiver, rng)
        total = _normalise(pairs, log_weights + log_mass)
        least = _LEAST * (there[:, -1] - there[:, 0])
        sds = np.maximum(self.bandwidth * bandwidths(means, total, least), least)
        return replace(
            state,
            messages=Bank(drawn_in(means, total, sds), total, sds),
            senders=senders,
            log_weights=_normalise(pairs, log_weights),
            log_base=log_weights - _heard(pairs, state.messages, senders),
            log_mass=log_mass,
        )

    def _draws(self, state: KernelMixtureState, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draws (2E, m) of the senders of all messages, and the logs of their weights before psi."""
        from .edges import unary_values
        from .mixtures import gibbs_products, importance_products

        pairs, count = state.pairs, self.components
        bank = state.unary.joined(state.messages)
        slots = _slots(pairs)
        if self.sampling == "message":
            slots = slots[pairs.sender]
            slots = np.where(slots == (pairs.n + pairs.reverse)[:, None], -1, slots)
        else:
            slots[pairs.degrees > 0, 0] = -1
        if self.product == "gibbs":
            draws = gibbs_products(bank, slots, count, self.sweeps, rng)
        else:
            draws = importance_products(bank, slots, count, rng)
        if self.sampling == "message":
            log_weights = _by_message(pairs, draws) - state.unary.taken(pairs.sender).log_values(draws)
            return draws, log_weights
        log_share = (unary_values(pairs, draws) * _share(pairs))[pairs.sender]
        draws = draws[pairs.sender]
        return draws, log_share - state.messages.taken(pairs.reverse).log_values(draws)

    def read(self, problem: Problem, state: KernelMixtureState, status: Status) -> Result:
        """Densities and the Bethe value of the beliefs."""
        from .edges import send
        from .readout import incoming, marginals_of, stationary_value, tabulate

        pairs, senders, log_weights = state.pairs, state.senders, state.log_weights

        def messages(points: np.ndarray) -> np.ndarray:
            return send(pairs, senders, log_weights, points[pairs.receiver])

        table = tabulate(pairs, messages, state.points)
        return Result(
            self.name,
            status,
            log_z=Estimate(stationary_value(pairs, table), "estimate"),
            marginals=marginals_of(pairs, table, incoming(pairs, senders, log_weights)),
            trace={"moved": moves(state.steps)},
            notes=(_SMOOTHED,) if pairs.n_edges else (),
        )


def _believing(state: KernelMixtureState, *, widen: bool) -> KernelMixtureState:
    """The state with its beliefs summarised; with `widen`, tabulated where they are now."""
    from .edges import send, unary_values

    pairs, points = state.pairs, state.points
    exact = send(pairs, state.senders, state.log_weights, points[pairs.receiver])
    beliefs, _ = pairs.beliefs(unary_values(pairs, points), exact)
    if np.isneginf(beliefs).all(axis=1).any():
        raise ZeroProbabilityError(_lost(pairs, int(np.isneginf(beliefs).all(axis=1).argmax())))
    mean, variance = moments(points, beliefs + log_widths(points))
    worth = np.full(pairs.n, float(state.messages.means.shape[1]))
    np.minimum.at(worth, pairs.receiver, 1 / np.exp(2 * state.messages.log_weights).sum(axis=1))
    step = ParticleStep(mean, np.sqrt(variance), worth, np.zeros((0, 0)), 0.0)
    if widen:
        points = refine(points, beliefs, widen=True)
    return replace(state, points=points, steps=(*state.steps, step))


def _reweight(state: KernelMixtureState) -> KernelMixtureState:
    """The draws as they are, with the weights that the messages give them now."""
    pairs = state.pairs
    log_weights = state.log_base + _heard(pairs, state.messages, state.senders)
    total = _normalise(pairs, log_weights + state.log_mass)
    messages = state.messages._replace(log_weights=total)
    return replace(state, messages=messages, log_weights=_normalise(pairs, log_weights))


def _heard(pairs: ParticlePairs, messages: Bank, draws: np.ndarray) -> np.ndarray:
    """Log product of what the sender of every message has received from others, at its draws (2E, m)."""
    slots = _slots(pairs)[pairs.sender, 1:] - pairs.n
    slots = np.where(slots == pairs.reverse[:, None], -1, slots)
    total = np.zeros(draws.shape)
    for slot in slots.T:
        rows = np.flatnonzero(slot >= 0)
        total[rows] += messages.taken(slot[rows]).log_values(draws[rows])
    return total


def _normalise(pairs: ParticlePairs, log_weights: np.ndarray) -> np.ndarray:
    """Log weights (2E, m) of sum one."""
    norm = log_sum(log_weights)
    if np.isneginf(norm).any():
        raise ZeroProbabilityError(_lost(pairs, int(pairs.sender[np.isneginf(norm).argmax()])))
    return np.asarray(log_weights - norm[:, None])


def _share(pairs: ParticlePairs) -> np.ndarray:
    """The power of f = phi^(1/d), (n, 1)."""
    return 1 / np.maximum(pairs.degrees, 1)[:, None]


def _slots(pairs: ParticlePairs) -> np.ndarray:
    """Rows of the bank (unary mixtures, then messages) that meet at each variable, (n, 1 + neighbours)."""
    slots = np.full((pairs.n, 1 + int(pairs.degrees.max(initial=0))), -1, dtype=np.int64)
    slots[:, 0] = np.arange(pairs.n)
    filled = np.ones(pairs.n, dtype=np.int64)
    for d, j in enumerate(pairs.receiver.tolist()):
        slots[j, filled[j]] = pairs.n + d
        filled[j] += 1
    return slots


def _by_message(pairs: ParticlePairs, draws: np.ndarray) -> np.ndarray:
    """Shares of the senders' unary factors at draws (2E, m) that differ from message to message."""
    from .edges import unary_values

    found = np.zeros(draws.shape)
    rank = np.zeros(len(draws), dtype=np.int64)  # which of its sender's messages each is
    seen = np.zeros(pairs.n, dtype=np.int64)
    for d, i in enumerate(pairs.sender.tolist()):
        rank[d] = seen[i]
        seen[i] += 1
    for turn in range(int(seen.max(initial=0))):
        rows = np.flatnonzero(rank == turn)
        points = np.zeros((pairs.n, draws.shape[1]))
        points[pairs.sender[rows]] = draws[rows]
        found[rows] = (unary_values(pairs, points) * _share(pairs))[pairs.sender[rows]]
    return found


def _lost(pairs: ParticlePairs, i: int) -> str:
    return (
        f"no draw of '{pairs.graph.variables.names[i]}' has positive weight: the factors contradict each "
        "other, or leave so little room that more components are needed"
    )
