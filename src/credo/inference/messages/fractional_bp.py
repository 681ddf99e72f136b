"""Fractional belief propagation, which on discrete models is power expectation propagation.

Each factor is approximated by a product of one site per variable. Site a is refined by matching the
marginals of the tilted distribution q (psi_a / site_a)^alpha, alpha the power of the factor:

    M_{a->i}^new = ( sum_{x_a without x_i} psi_a^alpha prod_{j in a, j != i} B_j M_{a->j}^(-alpha) )^(1/alpha)
    b_i ~ B_i = prod_{a at i} M_{a->i},      b_a ~ psi_a^alpha prod_{j in a} B_j M_{a->j}^(-alpha)

Fixed points are the stationary points of the Bethe free energy with entropy weights rho_a = 1 / alpha_a,

    sum_a <theta_a>_{b_a} + sum_a rho_a H(b_a) + sum_i (1 - sum_{a at i} rho_a) H(b_i),

whose value is the estimate of log Z. Identities: power 1 is BP, and expectation propagation with
factorised sites; power 1 / rho with the appearance probabilities of spanning trees is
tree-reweighted BP; power alpha with damping 1 - alpha is alpha-BP. Damping mixes logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core import check
from ...core.result import Estimate, Result, Status
from ..problem.base import IterativeAlgorithm, Problem, register
from . import engine
from .engine import MessageState, Schedule, Weighted
from .exponents import Exponent, check_exponent, per_factor, single_factors, zeros_reason

__all__ = ["FractionalBP"]


@register
@dataclass(frozen=True, kw_only=True)
class FractionalBP(IterativeAlgorithm[MessageState]):
    """Fractional BP (power EP on discrete models); power 1 is BP, 1 / rho is tree-reweighted BP."""

    name: ClassVar[str] = "fractional-bp"
    slopes: ClassVar[bool] = True
    power: Exponent = 0.5  # a number, one per factor, or factor -> number
    damping: float = 0.5  # weight of the old message
    schedule: Schedule = "auto"  # order of the updates, as in bp
    random_start: bool = False  # random first messages instead of uniform ones

    def __post_init__(self) -> None:
        """Check the options."""
        object.__setattr__(self, "power", check_exponent("power", self.power))
        check.in_range("damping", self.damping, 0, 1)
        check.one_of("schedule", self.schedule, engine.SCHEDULES)

    def why_not(self, problem: Problem) -> str | None:
        """Sums only; zeros only where no message is divided by."""
        return zeros_reason(problem.graph, self.weights(problem).power)

    def weights(self, problem: Problem) -> Weighted:
        """Power and step per factor; a factor on one variable has power 1, which changes nothing."""
        graph = problem.graph
        power = np.where(single_factors(graph), 1.0, per_factor("power", self.power, graph))
        return Weighted(power, np.full(graph.n_factors, 1.0 - self.damping))

    def start(self, problem: Problem, rng: np.random.Generator) -> MessageState:
        """Uniform (or random) messages."""
        return engine.start(problem, self.weights(problem), rng, random=self.random_start)

    def step(self, problem: Problem, state: MessageState) -> tuple[MessageState, float]:
        """One sweep."""
        state, changes = self.advance(problem, state, 1, 0.0)
        return state, float(changes[-1])

    def advance(
        self, problem: Problem, state: MessageState, count: int, tol: float
    ) -> tuple[MessageState, np.ndarray]:
        """Several sweeps inside the kernel."""
        return engine.advance(problem, state, self.weights(problem), self.schedule, count, tol)

    def messages(self, problem: Problem, state: MessageState) -> dict[tuple[int, str], np.ndarray]:
        """Log messages by edge."""
        return engine.messages_by_edge(problem, state)

    def read(self, problem: Problem, state: MessageState, status: Status) -> Result:
        """Beliefs and the reweighted Bethe log Z."""
        found = engine.read(problem, state, self.weights(problem))
        return Result(
            self.name,
            status,
            log_z=Estimate(found.log_z, "estimate"),
            marginals=found.marginals,
            factor_marginals=found.factor_marginals,
        )
