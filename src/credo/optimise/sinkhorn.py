r"""Sinkhorn's iteration: rows and columns of a positive matrix scaled in turn until both sums are right.

    P = diag(u) K diag(v),   K_ij = exp((f_i + g_j - M_ij) / eps)
    u = a / (K v),   w = K' u,   v = b / w;        error = sum_j |v_j w_j - b_j| before the new v

Rows are exact after the first assignment, so the error is that of the columns alone. K v and K' u are made in
one pass over blocks of rows that stay in the cache: the memory is read once per iteration.

Small eps makes K underflow. The potentials f and g hold what u and v would have to be too large for: where
log u or log v leaves a range that K's entries can bear, they are added to f and g, and K is made anew. A row
or column that underflows as a whole gets its potential from a log-sum-exp. What K lacks weighs less than
rounding, so no number overflows and no NaN arises, in single precision too.

Large clouds: K is not kept. Each iteration makes it a block at a time from potentials that hold all scaling,
with the largest exponent of every row taken out.

Decreasing eps (`schedule`) begins where the iteration is quick; only the last one counts for convergence.

At small eps the error falls slowly. With rows kept exact the sums c of the columns are a function of g alone,

    dc / dg = (diag(c) - P' diag(1/a) P) / eps,

a matrix of m x m numbers, and Newton steps on c(g) = b end the run in a few turns. One costs about as much as
m iterations; where more are to come, as the last ones tell, one is tried. It counts if it halves the error,
and then the next turn is one too.

Sources: Cuturi 2013; Schmitzer 2019 for potentials that absorb the scaling; Brauer et al. 2017 for Newton
steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..core.ground_cost import GroundCost
from ..core.records import record
from .driver import UNKNOWN, Outcome, Step
from .run import Run
from .run import check as look

__all__ = ["Scaling", "ScalingProblem", "ScalingState"]

_BEARABLE = {"double": 100.0, "single": 15.0}  # log scaling that does not bring back what underflowed
_MOST = {"double": 1e250, "single": 1e30}  # scaling of a row that has not underflowed
_LEAST = 1e-290  # of a column; b over less would be infinite
_COARSE = 0.01  # marginal error at which a larger eps has done its work
_TURNS = 100  # iterations of a larger eps at most
_NEWTON = 2000  # columns that a Newton step is tried with
_ROUND = 50  # iterations before the first try; twice as many before each further one
_LENGTHS = (1.0, 0.5, 0.25, 0.125)  # of a Newton step


class ScalingProblem(NamedTuple):
    """What is scaled; all weights are positive."""

    costs: GroundCost  # M
    a: np.ndarray  # (n,) sums of rows
    b: np.ndarray  # (m,) sums of columns


@record("scaling")
class ScalingState(NamedTuple):
    """Where the iteration has come to: rows of diag(u) K diag(v) are exact, columns have the sums v w."""

    f: np.ndarray  # (n,) potentials that K contains
    g: np.ndarray  # (m,)
    u: np.ndarray  # (n,)
    v: np.ndarray  # (m,)
    w: np.ndarray | None = None  # (m,) K' u; None before the first pass
    phase: int = 0  # the number of the present eps
    turns: int = 0  # iterations with it
    error: float = np.inf  # of the columns
    past: float = np.inf  # the error a round of iterations before
    is_newton: bool = False  # whether the last turn was a Newton step that helped


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Iterations for the driver.

    Parameters
    ----------
    epsilons
        The decreasing values of eps; the last one is the one asked for.
    stored
        Whether K is kept as a whole.
    precision
        Of K where it is stored.
    """

    epsilons: Sequence[float]
    stored: bool = True
    precision: str = "double"
    name: str = "sinkhorn"  # in progress bars
    _kept: dict[Any, Any] = field(
        default_factory=dict, repr=False, compare=False
    )  # K and what it is made from

    def start(self, problem: ScalingProblem, run: Run) -> Step:
        """Potentials under which every row and every column has an entry of one, and none a larger one."""
        costs = problem.costs
        f, g = np.empty(len(problem.a)), np.full(len(problem.b), np.inf)
        for rows in costs.blocks():
            part = costs.block(rows)
            f[rows] = part.min(axis=1)
            np.minimum(g, (part - f[rows, None]).min(axis=0), out=g)
        return Step(ScalingState(f, g, np.ones_like(f), np.ones_like(g)))

    def advance(self, problem: ScalingProblem, state: ScalingState, run: Run) -> Step:
        """One iteration, or a Newton step."""
        eps, is_last = self.epsilons[state.phase], state.phase == len(self.epsilons) - 1
        new = self._newton_turn(problem, state, eps) if is_last and self._is_slow(state, run) else None
        if new is None:
            v = state.v if state.w is None else problem.b / state.w
            turn = self._stored_turn if self.stored else self._chunked_turn
            new = turn(problem, state._replace(v=v, is_newton=False), eps)
        past = new.error if state.turns % _ROUND == 0 else state.past
        new = new._replace(turns=state.turns + 1, past=past)
        if is_last:
            return Step(new, [new.error], {"marginal_error": [new.error]})
        if new.error < _COARSE or new.turns >= _TURNS:
            f, g = self.potentials(new)
            new = ScalingState(f, g, np.ones_like(f), np.ones_like(g), phase=new.phase + 1)
        return Step(new, [UNKNOWN], {"marginal_error": [new.error]})

    def _is_slow(self, state: ScalingState, run: Run) -> bool:
        """Whether a Newton step is likely to save time."""
        if state.is_newton:
            return True
        rounds, rest = divmod(state.turns, _ROUND)
        if not self.stored or len(state.g) > _NEWTON or rest or rounds.bit_count() != 1:
            return False
        if not 0 < run.budget.tol < state.error < state.past < np.inf:
            return bool(state.error >= state.past)
        left = np.log(state.error / run.budget.tol) / np.log(state.past / state.error) * _ROUND
        return bool(left > len(state.g))

    def read(self, problem: ScalingProblem, outcome: Outcome) -> Outcome:
        """What the driver knows."""
        return outcome

    def potentials(self, state: ScalingState) -> tuple[np.ndarray, np.ndarray]:
        """The potentials alpha and beta of the plan."""
        eps = self.epsilons[state.phase]
        return state.f + eps * np.log(state.u), state.g + eps * np.log(state.v)

    def _stored_turn(self, problem: ScalingProblem, state: ScalingState, eps: float) -> ScalingState:
        most = _BEARABLE[self.precision]
        f, g, v = state.f, state.g, state.v
        if not _is_bearable(v, most):
            g, v = g + eps * np.log(v), np.ones_like(v)
        u, w = self._pass(problem, f, g, v, eps)
        is_lost = ~(u < _MOST[self.precision])
        if is_lost.any():
            g, v = g + eps * np.log(v), np.ones_like(v)
            f = np.where(is_lost, _row_potentials(problem, g, eps, is_lost), f)
            u, w = self._pass(problem, f, g, v, eps)
        if not _is_bearable(u, most):
            f, u = f + eps * np.log(u), np.ones_like(u)
        return self._completed(problem, state._replace(f=f, g=g, u=u, v=v, w=w), eps)

    def _pass(
        self, problem: ScalingProblem, f: np.ndarray, g: np.ndarray, v: np.ndarray, eps: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Assign u = a / (K v) and w = K' u, a block of rows at a time; infinite where a row is zero."""
        kernel = self._kernel(problem, f, g, eps)
        v = v.astype(kernel.dtype)
        u, w = np.empty(len(f)), np.zeros(len(g))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            for rows in problem.costs.blocks(1 << 17):
                part = kernel[rows]
                u[rows] = problem.a[rows] / (part @ v)
                w += u[rows].astype(kernel.dtype) @ part
        return u, w

    def _kernel(self, problem: ScalingProblem, f: np.ndarray, g: np.ndarray, eps: float) -> np.ndarray:
        """K, made anew where the potentials have changed."""
        key = id(f), id(g), eps
        if self._kept.get("key") != key:
            made = self._kept.get("kernel")
            kind = np.float64 if self.precision == "double" else np.float32
            made = np.empty(problem.costs.shape, kind) if made is None else made
            for rows in problem.costs.blocks():
                look()
                exponents = (f[rows, None] + g - problem.costs.block(rows)) / eps
                np.exp(exponents.astype(kind, copy=False), out=made[rows])
            # The arrays are kept with it, so that no other array can have their identity.
            self._kept.update(key=key, kernel=made, made_from=(f, g))
        kernel: np.ndarray = self._kept["kernel"]
        return kernel

    def _newton_turn(self, problem: ScalingProblem, state: ScalingState, eps: float) -> ScalingState | None:
        """The state after a Newton step on the columns; None if no length of it halves the error."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        assert state.w is not None
        _, beta = self.potentials(state)
        kernel = self._kernel(problem, state.f, state.g, eps)
        plan = (state.u[:, None] * kernel * state.v).astype(np.float64, copy=False)
        sums = state.v * state.w
        bend = -(plan.T / problem.a) @ plan
        bend[np.diag_indices_from(bend)] += sums
        bend += 1.0 / len(sums) ** 2  # a constant added to all of g changes nothing: it is kept out
        try:
            way = eps * cho_solve(cho_factor(bend), problem.b - sums)
        except LinAlgError:
            return None
        for length in _LENGTHS:
            look()
            new = self._chunked_turn(
                problem, state._replace(g=beta + length * way, v=np.ones_like(beta)), eps
            )
            if new.error < 0.5 * state.error:
                return new._replace(is_newton=True)
        return None

    def _chunked_turn(self, problem: ScalingProblem, state: ScalingState, eps: float) -> ScalingState:
        g, w = state.g + eps * np.log(state.v), np.zeros(len(problem.b))
        f = np.empty(len(problem.a))
        for rows in problem.costs.blocks():
            look()
            part = (g - problem.costs.block(rows)) / eps
            top = part.max(axis=1)
            part -= top[:, None]
            np.exp(part, out=part)
            total = part.sum(axis=1)
            f[rows] = eps * (np.log(problem.a[rows]) - np.log(total) - top)
            w += (problem.a[rows] / total) @ part
        ones = np.ones(len(f)), np.ones(len(g))
        return self._completed(problem, state._replace(f=f, g=g, u=ones[0], v=ones[1], w=w), eps)

    def _completed(self, problem: ScalingProblem, state: ScalingState, eps: float) -> ScalingState:
        """With the error; and columns that have underflowed get the potential they need."""
        assert state.w is not None
        sums: np.ndarray = state.w
        state = state._replace(error=float(np.abs(state.v * sums - problem.b).sum()))
        is_lost = ~np.greater(sums, _LEAST)
        if not is_lost.any():
            return state
        f = state.f + eps * np.log(state.u)
        flipped = ScalingProblem(problem.costs.flipped, problem.b, problem.a)
        g = np.where(is_lost, _row_potentials(flipped, f, eps, is_lost), state.g)
        w = np.where(is_lost, problem.b, sums)
        v = np.where(is_lost, 1.0, state.v)
        return state._replace(g=g, v=v, w=w)


def _row_potentials(problem: ScalingProblem, g: np.ndarray, eps: float, chosen: np.ndarray) -> np.ndarray:
    """f_i = eps (log a_i - log sum_j exp((g_j - M_ij) / eps)) of the chosen rows; zero elsewhere."""
    out = np.zeros(len(problem.a))
    numbers = np.flatnonzero(chosen)
    for some in np.array_split(numbers, max(1, len(numbers) * len(g) >> 22)):
        part = (g - problem.costs.block(some)) / eps
        top = part.max(axis=1)
        out[some] = eps * (np.log(problem.a[some]) - top - np.log(np.exp(part - top[:, None]).sum(axis=1)))
    return out


def _is_bearable(scaling: np.ndarray, most: float) -> bool:
    return bool(np.abs(np.log(scaling)).max() <= most) if (scaling > 0).all() else False
