r"""Importance sampling: joint states from an easier distribution q, weighed by what the model thinks of them.

    w(x) = prod_a f_a(x_a) / q(x),      Z = E_q w,      p(x_i = s) = E_q( w [x_i = s] ) / E_q w

q draws one variable after another (see `sequential_draws`). `guide=likelihood` is likelihood weighting: nodes
of a Bayesian network are drawn given their parents, and observed ones give the weight; what is directed is
seen from the tables, which sum to one. `guide=bp` lets belief propagation say first what the evidence and all
factors further on think of a state; on trees all weights are then equal, and one draw would do.

log Z is an estimate with a standard error, marginals are weighted frequencies. A run has converged when the
standard errors of log Z and of all marginals are below `error` and the draws are worth `effective`
independent ones; a q that misses where most of the weight lies shows in neither. Samples are taken in
proportion to their weights, with repetitions.

Cost of a draw: each table is looked up once per variable in its scope. Source: Fung and Chang (1990);
Shachter and Peot (1990); Yuan and Druzdzel (2003) for guides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from ...core import check
from ...core.errors import UnsupportedError
from ...core.result import Result
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.run import Run
from ..messages.bp import BP
from ..messages.engine import log_messages
from ..problem.base import Algorithm, Budget, Problem, register
from .sequential_draws import (
    VariableDraw,
    along_factors,
    along_parents,
    draw_states,
    messages_to_factors,
    turns_of,
)
from .weighing import Weighed, row_scores_of

__all__ = ["Importance"]

_SWEEPS = 30  # of the belief propagation that guides, at most
_SETTLED = 1e-4  # change of its messages that counts as none


@register
@dataclass(frozen=True, kw_only=True)
class Importance(Algorithm):
    """Weighted draws, one variable after another, guided by belief propagation or by parents alone."""

    name: ClassVar[str] = "importance"
    promises: ClassVar[frozenset[str]] = frozenset({"consistent"})
    checkpoints: ClassVar[bool] = True
    slopes: ClassVar[bool] = True
    guide: Literal["bp", "likelihood"] = "bp"  # what is known of later variables when one is drawn
    batch: int = 1000  # draws of one step
    error: float = 0.01  # standard error of log Z and marginals that is small enough; tol may raise it
    effective: float = 100.0  # independent draws that all together must be worth

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("guide", self.guide, ["bp", "likelihood"])
        check.whole("batch", self.batch, 2)
        check.at_least("error", self.error, 0)
        check.at_least("effective", self.effective, 0)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Draw until log Z is known well enough, or the budget is used up."""
        budget = replace(budget, tol=max(self.error, budget.tol))
        return drive(_WeighedBatches(self), problem, budget, rng)  # type: ignore[no-any-return]


class _WeighedBatches:
    """Batches of draws as the driver sees them."""

    def __init__(self, options: Importance) -> None:
        self.name, self._options = options.name, options
        self._turns: list[VariableDraw] | None = None

    def start(self, problem: Problem, run: Run) -> Step:
        return Step(Weighed.none(problem.graph, problem.samples))

    def advance(self, problem: Problem, state: Weighed, run: Run) -> Step:
        if self._turns is None:
            self._turns = self._plan(problem, run.rng)
        graph, options = problem.graph, self._options
        rows, logs = draw_states(graph, self._turns, options.batch, run.rng)
        new = state.add(graph, rows, row_scores_of(graph, rows) - logs, run.rng)
        is_enough = new.ess >= options.effective and new.is_possible
        trace = {"log_z": [new.log_z.value if new.is_possible else -np.inf], "ess": [new.ess]}
        worst = max(new.error, float(new.errors(graph).max(initial=0.0))) if is_enough else UNKNOWN
        return Step(new, [worst], trace)

    def _plan(self, problem: Problem, rng: np.random.Generator) -> list[VariableDraw]:
        graph = problem.graph
        if self._options.guide == "likelihood":
            order, own = along_parents(graph)
            return turns_of(graph, order, None, own)
        guide = BP(schedule="sequential")
        found = guide.run(replace(problem, samples=0, warm=None), Budget(_SWEEPS, _SETTLED), rng)
        messages = messages_to_factors(graph, log_messages(found.state))
        return turns_of(graph, along_factors(graph), messages, {})

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        state: Weighed = outcome.state
        if not state.drawn:
            return Result(self.name, outcome.ended)
        if not state.is_possible:
            raise UnsupportedError(
                f"{self.name} cannot treat this problem: none of {state.drawn} draws has positive weight; "
                "give evidence that leaves more room, or use an exact method"
            )
        graph = problem.graph
        told = f"{state.drawn} draws are worth {state.ess:.0f} independent ones"
        return Result(
            self.name,
            outcome.ended,
            log_z=state.log_z,
            marginals=state.marginals(graph),
            factor_marginals=state.factor_marginals(graph),
            samples=state.samples(graph) if problem.samples else None,
            trace={name: np.array(numbers) for name, numbers in outcome.trace.items()},
            diagnostics=state.diagnostics(graph, problem.observed),
            hint=self._hint(state, outcome),
            notes=(told,),
        )

    def _hint(self, state: Weighed, outcome: Outcome) -> str:
        if outcome.ended.is_success:
            return f"the standard errors fell below {max(self._options.error, 0):.3g}"
        options = self._options
        if outcome.was_stopped:
            return ""
        what = (
            f"the standard error of log Z is {state.error:.2g}, {options.error:.2g} is wanted there and of "
        )
        what += "marginals (error)"
        if state.ess < options.effective:
            what = f"the draws are worth {state.ess:.0f} independent ones, {options.effective:.4g} are wanted"
        return f"{what}: raise max_iter, or use another method"
