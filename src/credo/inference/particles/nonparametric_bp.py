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

psi(x, .) f_j is tabulated where the receiver's belief is, and as far around as that does not end. As M
grows the beliefs become those of belief propagation, at the rate of a kernel density: slower than those of
`particle-bp`. log Z is the Bethe value of the beliefs, an estimate. A run stops, and converges, as that of
`particle-bp` does.

An iteration costs, per message, M (points of the table) evaluations of its pair factor and M^2 (neighbours)
(sweeps) of a Gaussian.

Sources: Sudderth, Ihler, Freeman and Willsky (2003) for sampling=message; Ihler, Fisher, Moses and Willsky
(2005) for sampling=belief.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ...core import check
from ...core.errors import ZeroProbabilityError
from ...core.records import record
from ...core.result import Estimate, Result, Status
from ...families.densities import MixtureDensity
from ..base import Budget, IterativeAlgorithm, Problem, register
from ..gradients import needs
from ..starting_places import starting_places
from .cloud import Step, judged, without_variables
from .pairs import Pairs, log_sum, why_not_pairs
from .tables import at_equal_masses, log_widths, moments, refine

if TYPE_CHECKING:
    from .mixtures import Bank

__all__ = ["MixtureState", "NonparametricBP"]

_POINTS = 128  # of the tables
_PLACES = 64  # points of the tables that first draws are made from
_STRANGE = 3.0  # how much wider than its neighbour's the place of an unknown variable is taken to be
_LEAST = 1e-4  # bandwidth, as a share of the receiver's table


@record("nonparametric-bp", rebuilt=("pairs", "unary"))
@dataclass(frozen=True)
class MixtureState:
    """Messages after some iterations."""

    pairs: Pairs  # the model
    unary: Bank  # mixtures of the shares f of the unary factors, (n, m)
    messages: Bank  # (2E, m) each with the receiver's share f in it
    senders: np.ndarray  # (2E, m) draws that the messages came from
    log_weights: np.ndarray  # (2E, m) of these
    points: np.ndarray  # (n, p) where beliefs are tabulated
    seed: int  # of all draws
    steps: tuple[Step, ...]  # one per iteration, the start included


@register
@dataclass(frozen=True, kw_only=True)
class NonparametricBP(IterativeAlgorithm[MixtureState]):
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
    iterations: int = 20  # max_iter may lower it
    sampling: Literal["message", "belief"] = "message"  # what draws are made from
    product: Literal["gibbs", "importance"] = "gibbs"  # how
    sweeps: int = 5  # over the mixtures of a product, for product=gibbs
    bandwidth: float = 1.0  # as a multiple of Silverman's
    spread: float = 1.0  # of first draws, where no factor tells where a variable lies

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("components", self.components, 2)
        check.whole("iterations", self.iterations, 1)
        check.one_of("sampling", self.sampling, ["message", "belief"])
        check.one_of("product", self.product, ["gibbs", "importance"])
        check.whole("sweeps", self.sweeps, 1)
        check.at_least("bandwidth", self.bandwidth, 0)
        check.at_least("spread", self.spread, 0)

    def why_not(self, problem: Problem) -> str | None:
        """Sums over pairwise models of real variables."""
        return why_not_pairs(problem.graph)

    def start(self, problem: Problem, rng: np.random.Generator) -> MixtureState:
        """Unary factors as mixtures, and messages that say nothing within the tables."""
        needs(self.name, "jax", "equinox")
        from .mixtures import Bank, bandwidths
        from .start import locate

        starting_places(problem.graph)  # refuses a model that has no integral
        pairs, count = Pairs(problem.graph), self.components
        points, values, known = locate(pairs, _PLACES, self.spread)
        means = at_equal_masses(points, values * _share(pairs), count)
        centre = means.mean(axis=1, keepdims=True)
        means = np.where(known[:, None], means, centre + _STRANGE * (means - centre))
        even = np.full((pairs.n, count), -np.log(count))
        points = refine(points, values, widen=False, count=_POINTS)
        width = points[:, -1] - points[:, 0]
        unary = Bank(means, even, bandwidths(means, even, _LEAST * width))
        flat = unary.taken(pairs.receiver)
        flat = Bank(flat.means, flat.log_weights, width[pairs.receiver])
        senders = unary.means[pairs.sender]
        seed = int(rng.integers(2**63))
        state = MixtureState(pairs, unary, flat, senders, flat.log_weights, points, seed, ())
        return self._believing(state)

    def _believing(self, state: MixtureState) -> MixtureState:
        """The state with its beliefs tabulated anew and summarised."""
        from .edges import send, unary_values

        pairs, points = state.pairs, state.points
        exact = send(pairs, state.senders, state.log_weights, points[pairs.receiver])
        beliefs, _ = pairs.beliefs(unary_values(pairs, points), exact)
        if np.isneginf(beliefs).all(axis=1).any():
            raise ZeroProbabilityError(_lost(pairs, int(np.isneginf(beliefs).all(axis=1).argmax())))
        mean, variance = moments(points, beliefs + log_widths(points))
        worth = np.full(pairs.n, float(self.components))
        step = Step(mean, np.sqrt(variance), worth, np.zeros((0, 0)), 0.0)
        return replace(state, points=refine(points, beliefs, widen=True), steps=(*state.steps, step))

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Run from the first state; a model without variables needs none."""
        return without_variables(self.name, problem) or super().run(problem, budget, rng)

    def resume(self, problem: Problem, state: MixtureState, budget: Budget) -> Result:
        """Iterate as often as the options say, or less if the budget does."""
        budget = replace(budget, max_iter=min(budget.max_iter, self.iterations))
        return super().resume(problem, state, budget)

    def step(self, problem: Problem, state: MixtureState) -> tuple[MixtureState, float]:
        """Draw at the senders, send the draws through the pair factors, and smooth what arrives."""
        from .edges import conditional_draws, unary_values
        from .mixtures import Bank, bandwidths, drawn_in

        pairs, rng = state.pairs, np.random.default_rng([state.seed, len(state.steps)])
        senders, log_weights = self._draws(state, rng)
        there = state.points[pairs.receiver]
        log_receiver = (unary_values(pairs, state.points) * _share(pairs))[pairs.receiver]
        means, log_mass = conditional_draws(pairs, senders, there, log_receiver, rng)
        total = log_weights + log_mass
        norm = log_sum(total)[:, None]
        if np.isneginf(norm).any():
            raise ZeroProbabilityError(_lost(pairs, int(pairs.sender[np.isneginf(norm[:, 0]).argmax()])))
        least = _LEAST * (there[:, -1] - there[:, 0])
        sds = np.maximum(self.bandwidth * bandwidths(means, total - norm, least), least)
        messages = Bank(drawn_in(means, total - norm, sds), total - norm, sds)
        log_weights = log_weights - log_sum(log_weights)[:, None]
        new = replace(state, messages=messages, senders=senders, log_weights=log_weights)
        new = self._believing(new)
        return new, new.steps[-1].change(new.steps[-2])

    def _draws(self, state: MixtureState, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
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

    def read(self, problem: Problem, state: MixtureState, status: Status) -> Result:
        """Densities and the Bethe value of the beliefs."""
        from .readout import bethe_value, marginals_of, tabulate

        pairs, messages = state.pairs, state.messages
        table = tabulate(pairs, partial(_bare, pairs, messages), state.points)
        incoming: list[list[Any]] = [[] for _ in range(pairs.n)]
        for d, j in enumerate(pairs.receiver.tolist()):
            sds = np.full(self.components, messages.sds[d])
            incoming[j].append(MixtureDensity(np.exp(messages.log_weights[d]), messages.means[d], sds))
        status, notes = judged(status, state.steps)
        return Result(
            self.name,
            status,
            log_z=Estimate(bethe_value(pairs, table), "estimate"),
            marginals=marginals_of(pairs, table, [tuple(own) for own in incoming]),
            notes=notes,
        )


def _share(pairs: Pairs) -> np.ndarray:
    """The power of f = phi^(1/d), (n, 1)."""
    return 1 / np.maximum(pairs.degrees, 1)[:, None]


def _bare(pairs: Pairs, messages: Bank, points: np.ndarray) -> np.ndarray:
    """Log messages at points (n, p) of their receivers, without the receivers' shares."""
    from .edges import unary_values

    log_share = (unary_values(pairs, points) * _share(pairs))[pairs.receiver]
    values = messages.log_values(points[pairs.receiver])
    return np.where(
        np.isneginf(log_share), -np.inf, values - np.where(np.isneginf(log_share), 0.0, log_share)
    )


def _slots(pairs: Pairs) -> np.ndarray:
    """Rows of the bank (unary mixtures, then messages) that meet at each variable, (n, 1 + neighbours)."""
    slots = np.full((pairs.n, 1 + int(pairs.degrees.max(initial=0))), -1, dtype=np.int64)
    slots[:, 0] = np.arange(pairs.n)
    filled = np.ones(pairs.n, dtype=np.int64)
    for d, j in enumerate(pairs.receiver.tolist()):
        slots[j, filled[j]] = pairs.n + d
        filled[j] += 1
    return slots


def _by_message(pairs: Pairs, draws: np.ndarray) -> np.ndarray:
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


def _lost(pairs: Pairs, i: int) -> str:
    return (
        f"no draw of '{pairs.graph.variables.names[i]}' has positive weight: the factors contradict each "
        "other, or leave so little room that more components are needed"
    )
