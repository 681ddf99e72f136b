"""Belief propagation on Gaussian models, in canonical form.

    m_{a->i}(x_i) = exp( shift x_i - precision x_i^2 / 2 )
    precision_{a->i} = -K_io M^-1 K_oi,     shift_{a->i} = -K_io M^-1 H_o,     M = K_oo + diag(P_o)

K_a couples the variables of factor a (its diagonal and its shifts belong to the variables), o are those
other than i, and P, H add up what all other factors say about them. Factors on the same variables are
merged first.

Exact on trees, two passes: means, variances and log Z. On graphs with loops the means are exact wherever it
converges; variances and log Z are those of the Bethe approximation,

    log Z ~ g + sum_a log int f_a prod_i m_{i->a} + sum_i (1 - d_i) log int b_i.

Convergence is certain for walk-summable models of pairs (`walk_sums.py`); the notes say whether the model is
one. If an integral of a message does not exist, the run ends as diverged, and the notes name the message.
A sweep costs one division per message of a pair, and arity^4 / 3 multiplications per factor otherwise.

Schedules: `flooding` (all messages from the old ones), `sequential` (factor by factor, forwards and
backwards in turn), `tree` (leaves to roots of a spanning forest and back), `auto` (tree on forests, else
sequential). Damping mixes precisions and shifts.

Source: Weiss and Freeman (2001).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.errors import QueryError
from ...core.records import record
from ...core.result import Assignment, Kind, Marginals, Result, Status
from ..problem.base import IterativeAlgorithm, Problem, register
from ..problem.gaussian_system import GaussianSystem, claim, gaussian_densities, no_integral, rounding
from .gaussian_couplings import Couplings
from .walk_sums import WalkSums, walk_sums

__all__ = ["GaussianBP", "GaussianMessages"]

_CHUNK = 1 << 22  # messages passed between two looks at the clock


@record("gaussian-bp", rebuilt=("couplings", "walks"))
class GaussianMessages(NamedTuple):
    """Messages in canonical form, one pair of numbers per edge of `couplings`."""

    couplings: Couplings  # what couples the variables
    precision: np.ndarray  # (edges,)
    shift: np.ndarray  # (edges,)
    turn: int  # sweeps done, for schedules with several orders
    walks: WalkSums | None  # what is known about convergence; None on forests
    failed: int = -1  # the edge whose message does not exist


@register
@dataclass(frozen=True, kw_only=True)
class GaussianBP(IterativeAlgorithm[GaussianMessages]):
    """Gaussian belief propagation: exact on trees, exact means where it converges.

    Examples
    --------
    >>> import credo
    >>> net = credo.GaussianNet([[2.0, -1.0], [-1.0, 2.0]], [3.0, 0.0])
    >>> credo.infer(net, "gaussian-bp").marginals["x1"].mean.__round__(6)
    1.0
    """

    name: ClassVar[str] = "gaussian-bp"
    promises: ClassVar[frozenset[str]] = frozenset({"exact on trees"})
    warm_starts: ClassVar[bool] = True
    schedule: Literal["auto", "flooding", "sequential", "tree"] = "auto"  # the order of the messages
    damping: float = 0.0  # weight of the old message

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("schedule", self.schedule, ["auto", "flooding", "sequential", "tree"])
        check.in_range("damping", self.damping, 0, 1)

    def start(self, problem: Problem, rng: np.random.Generator) -> GaussianMessages:
        """Messages that say nothing, or those of an earlier run."""
        system = GaussianSystem.of(problem)
        couplings = Couplings.of(problem.graph, system)
        walks = None if couplings.is_forest else walk_sums(system.precision)
        if walks is not None and walks.direction is not None:
            raise no_integral(f"it does not fall off along {system.describe(walks.direction)}")
        edges = len(couplings.scope)
        if problem.warm is None:
            return GaussianMessages(couplings, np.zeros(edges), np.zeros(edges), 0, walks)
        warm = problem.warm
        if not isinstance(warm, GaussianMessages) or not np.array_equal(
            warm.couplings.scope, couplings.scope
        ):
            raise QueryError("warm_start: expected the result of gaussian-bp on the same structure")
        return GaussianMessages(couplings, warm.precision, warm.shift, 0, walks)

    def step(self, problem: Problem, state: GaussianMessages) -> tuple[GaussianMessages, float]:
        """One sweep."""
        state, changes = self.advance(problem, state, 1, 0.0)
        return state, float(changes[-1])

    def advance(
        self, problem: Problem, state: GaussianMessages, count: int, tol: float
    ) -> tuple[GaussianMessages, np.ndarray]:
        """Several sweeps inside the kernel."""
        from ...kernels.gaussian_messages import gaussian_sweeps

        c = state.couplings
        count = max(2, min(count, _CHUNK // (1 + len(c.scope)))) if count > 1 else 1
        orders, at_once = c.orders(self.schedule, state.turn)
        precision, shift, changes = state.precision.copy(), state.shift.copy(), np.zeros(count)
        done, failed = gaussian_sweeps(
            orders,
            at_once,
            1.0 - self.damping,
            count,
            tol,
            c.scope_start,
            c.scope,
            c.matrix_start,
            c.matrix,
            c.precision,
            c.shift,
            precision,
            shift,
            changes,
        )
        state = state._replace(precision=precision, shift=shift, turn=state.turn + done, failed=failed)
        return state, changes[:done]

    def read(self, problem: Problem, state: GaussianMessages, status: Status) -> Result:
        """Means, variances and the Bethe log Z, or the means as the most probable values."""
        c, variables = state.couplings, problem.graph.variables
        notes = () if state.walks is None else (f"the model is {state.walks}",)
        precision, shift = c.totals(state.precision, state.shift)
        trouble = self._trouble(problem, state, precision, status)
        if trouble is not None:
            if c.is_forest:
                raise no_integral(trouble)
            return Result(self.name, Status.DIVERGED, notes=(trouble, *notes))
        mean = shift / precision
        if problem.is_max:
            best = {name: float(mean[i]) for i, name in enumerate(variables.names)}
            value, doubt = c.constant + c.log_value(mean), rounding(problem.graph, np.abs(mean))
            score, told = claim(value, "exact", doubt)
            return Result(
                self.name,
                status,
                log_z=claim(value, "lower", doubt)[0],
                assignment=Assignment(variables, np.full(len(mean), -1), best),
                score=score,
                notes=(*notes, *told),
            )
        log_z = c.bethe(state.precision, state.shift)
        found = Result(
            self.name,
            status,
            marginals=Marginals(
                variables, np.empty(0), gaussian_densities(variables.names, mean, 1 / precision)
            ),
            notes=notes,
        )
        if log_z is None:
            sentence = "the belief of a factor has no integral, so there is no log Z; use gaussian"
            return replace(found, notes=(*notes, sentence))
        kind: Kind = "exact" if c.is_forest and status is Status.CONVERGED else "estimate"
        given, told = claim(log_z, kind, rounding(problem.graph, np.abs(mean)))
        return replace(found, log_z=given, notes=(*notes, *told))

    def _trouble(
        self, problem: Problem, state: GaussianMessages, precision: np.ndarray, status: Status
    ) -> str | None:
        """What does not exist, in words."""
        c, names = state.couplings, problem.graph.variables.names
        if state.failed >= 0:
            a = int(np.searchsorted(c.scope_start, state.failed, side="right")) - 1
            scope = [names[int(i)] for i in c.scope[c.scope_start[a] : c.scope_start[a + 1]]]
            target = names[int(c.scope[state.failed])]
            return (
                f"the message of the factors over {scope} to '{target}' has no integral: the precisions of "
                "the others are not positive"
            )
        if (precision <= 0).any():
            i = int(np.argmin(precision))
            return f"the precision of '{names[i]}' came out as {precision[i]:.4g}, which is not positive"
        if status is Status.DIVERGED or not (np.isfinite(state.shift).all() and np.isfinite(precision).all()):
            return "the messages grow without bound"
        return None
