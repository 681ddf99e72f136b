"""Alpha belief propagation: local projections in the alpha-divergence instead of the KL divergence.

For a pairwise model with factors phi_ts and messages m_ts(x_s) from t to s, a = alpha_ts,

    m_ts^new(x_s) ~ m_ts(x_s)^(1-a) sum_{x_t} phi_ts(x_t,x_s)^a m_st(x_t)^(1-a) phi_t(x_t)
                                               prod_{w at t, w != s} m_wt(x_t)               (3.15)
    q_s(x_s)      ~ phi_s(x_s) prod_{w at s} m_ws(x_s)                                       (3.8)

that is the iteration of `kernels/messages.py` with power alpha and step alpha. Written with
factor messages it makes sense for factors of any arity, and that is what runs here:

    M_{a->i} <- M_{a->i}^(1-alpha) sum_{x_a without x_i} psi_a^alpha prod_{j in a, j != i} B_j M_{a->j}^-alpha

alpha = 1 is BP. The factor on one variable has its own rule phit^new ~ phi^b phit^(1-b) (3.16), whose
limit is phit = phi: by default it starts there and stays; `singleton_alpha` = b starts it uniform.

`prior` multiplies one more unary factor per variable in, such as the answer of another estimator;
evidence counted twice on purpose. Answers and log Z are then those of the model with it.

log Z is the reweighted Bethe value with entropy weights 1 / alpha at the beliefs
b_a ~ psi_a^alpha prod_j B_j M_{a->j}^(-alpha): an estimate, no bound. A fixed point is one of fractional BP
with the same exponents; away from alpha = 1 it is not exact, not even on trees.

Whether it converges can often be told beforehand, see `certificates`; the theorem is about
flooding, its weakest form (spectral radius) covers every schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...core import check
from ...core.errors import EvidenceError, OptionError, QueryError
from ...core.evidence import Evidence, condition
from ...core.numbers import float_array
from ...core.result import Estimate, FactorMarginals, Result, Status
from ..problem.base import IterativeAlgorithm, Problem, register
from . import engine
from .engine import MessageState, Schedule, Weighted
from .exponents import Exponent, check_exponent, per_factor, single_factors, single_messages, zeros_reason

__all__ = ["AlphaBP"]


@register
@dataclass(frozen=True, kw_only=True)
class AlphaBP(IterativeAlgorithm[MessageState]):
    """Alpha belief propagation; alpha = 1 is BP, smaller values are calmer on loops."""

    name: ClassVar[str] = "alpha-bp"
    slopes: ClassVar[bool] = True
    alpha: Exponent = 0.5  # a number, one per factor, or factor -> number; in (0, 2]
    schedule: Schedule = "auto"  # order of the updates, as in bp
    singleton_alpha: float | None = None  # alpha of factors on one variable; None: they enter as they are
    prior: Mapping[str, Any] | None = None  # name -> weights per state, multiplied in
    random_start: bool = False  # random first messages instead of uniform ones

    def __post_init__(self) -> None:
        """Check the options."""
        # Above 2 a message enters its successor with a factor below -1 and grows without limit.
        object.__setattr__(self, "alpha", check_exponent("alpha", self.alpha, 2.0))
        check.one_of("schedule", self.schedule, engine.SCHEDULES)
        if self.singleton_alpha is not None:
            check_exponent("singleton_alpha", self.singleton_alpha, 2.0)
        if self.prior is not None and not isinstance(self.prior, Mapping):
            raise OptionError(f"prior: expected a mapping name -> weights, got {self.prior!r:.80}")

    def why_not(self, problem: Problem) -> str | None:
        """Sums only; zeros only where no message is divided by."""
        posed = self._pose(problem)
        return zeros_reason(posed.graph, self.weights(posed).power)

    def weights(self, problem: Problem) -> Weighted:
        """Power and step alpha; factors on one variable follow (3.16)."""
        graph = problem.graph
        alpha = per_factor("alpha", self.alpha, graph)
        single = single_factors(graph)
        step = np.where(single, 1.0 if self.singleton_alpha is None else self.singleton_alpha, alpha)
        return Weighted(np.where(single, 1.0, alpha), step)

    def _pose(self, problem: Problem) -> Problem:
        """The problem with the prior's factors after the model's own."""
        if not self.prior:
            return problem
        variables = problem.graph.variables
        try:
            # An observed variable has one state left: a weight on it changes no belief.
            free = [n for n in self.prior if variables[variables.position(n)].size > 1]
            weights = {n: np.atleast_1d(float_array(n, self.prior[n], error=EvidenceError)) for n in free}
            checked = Evidence.of(variables, weights)
        except (EvidenceError, QueryError, TypeError, ValueError) as error:
            raise OptionError(f"prior: {error}") from None
        graph, _ = condition(problem.graph, checked)
        return replace(problem, graph=graph)

    def start(self, problem: Problem, rng: np.random.Generator) -> MessageState:
        """Uniform (or random) messages; those of factors on one variable are the factors."""
        posed = self._pose(problem)
        weights = self.weights(posed)
        state = engine.start(posed, weights, rng, random=self.random_start)
        if self.singleton_alpha is None and not weights.is_plain:
            messages = single_messages(posed, engine.log_messages(state))
            state = engine.start(posed, weights, rng, messages=messages)
        return state

    def step(self, problem: Problem, state: MessageState) -> tuple[MessageState, float]:
        """One sweep."""
        state, changes = self.advance(problem, state, 1, 0.0)
        return state, float(changes[-1])

    def advance(
        self, problem: Problem, state: MessageState, count: int, tol: float
    ) -> tuple[MessageState, np.ndarray]:
        """Several sweeps inside the kernel."""
        posed = state.form.problem
        return engine.advance(posed, state, self.weights(posed), self.schedule, count, tol)

    def messages(self, problem: Problem, state: MessageState) -> dict[tuple[int, str], np.ndarray]:
        """Log messages by edge; factors of the prior come after the model's own."""
        return engine.messages_by_edge(state.form.problem, state)

    def read(self, problem: Problem, state: MessageState, status: Status) -> Result:
        """Beliefs and the reweighted Bethe log Z."""
        posed = state.form.problem
        found = engine.read(posed, state, self.weights(posed))
        own = int(problem.graph.table_size.sum())
        return Result(
            self.name,
            status,
            log_z=Estimate(found.log_z, "estimate"),
            marginals=found.marginals,
            factor_marginals=FactorMarginals(problem.graph, found.factor_marginals.flat[:own]),
        )
