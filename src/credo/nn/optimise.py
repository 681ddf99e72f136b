"""Adam on many problems of one shape at once.

    minimise_p  loss(p, data, shared) -> (value, metrics, watched)

`parameters` and `data` have a leading axis, one entry per problem; `shared` is the same for all. The loss
is written for one problem and mapped over the axis. Steps run in compiled chunks, which are driven (see
`optimise/driver.py`).

A problem has converged when the metric "residual" of its loss, which vanishes at the answer, falls below
`tol`. It stops short of that when `change(watched_now - watched_before, shared)` falls below `stop` after the
first ten steps. Its parameters then stay as they are while others go on; when at least half have stopped, the
others go on alone, in a batch whose size is a power of two, so that few programs are compiled; what fills it
up are problems that are done. One program serves any number of steps, any rate and any tolerance: those are
arguments, not constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..core.records import record
from ..core.result import Status
from ..core.stopwatch import Stopwatch
from ..optimise.driver import UNKNOWN, Outcome, Step, drive
from ..optimise.pace import Pace
from ..optimise.run import Budget, Run
from .adam import AdamMoments, direction
from .compiled import Compiled
from .layout import Layout
from .loop import repeat

__all__ = ["Carry", "CompiledAdam", "Minimised", "minimise"]

_WORTH = 2**18  # numbers of rows that are done beyond which a smaller program is worth compiling
_WARM_UP = 10  # steps a problem takes before a small one counts

Loss = Callable[[Any, Any, Any], tuple[jax.Array, dict[str, jax.Array], jax.Array]]
Change = Callable[[jax.Array, Any], jax.Array]


@record("adam")
class Carry(NamedTuple):
    """Where the steps have come to."""

    parameters: tuple[Any, ...]  # rows, see Layout
    moments: tuple[Any, Any]  # of Adam, in the same rows
    watched: Any  # (problems, entries) at the step before
    active: Any  # (problems,)
    steps: Any  # (problems,) done so far
    residual: Any  # (problems,) at the last of them; inf if the loss has none


@dataclass(frozen=True)
class Minimised:
    """What a run found; arrays have a leading axis, one entry per problem."""

    parameters: Any  # after the last step of each problem
    watched: np.ndarray  # what the loss showed at the last step
    history: dict[str, np.ndarray]  # metric -> (steps, problems); "change" among them
    steps: np.ndarray  # taken by each problem
    stopped: np.ndarray  # whether it converged, or the change fell below `stop`
    residuals: np.ndarray  # at the last step of each problem; inf if the loss has none
    cut: Status | None  # what ended it early: a signal, the clock, or nothing
    carry: Carry  # to continue from
    seconds: float = 0.0  # of the steps
    compile_seconds: float = 0.0  # of compiling, not in `seconds`


def minimise(
    loss: Loss,
    change: Change,
    parameters: Any,
    data: Any,
    shared: Any,
    *,
    steps: int,
    rate: float,
    stop: float = 0.0,
    tol: float = 0.0,
    chunk: int = 25,
    seconds: float | None = None,
    carry: Carry | None = None,
    name: str = "adam",
) -> Minimised:
    """Take Adam steps until every problem has stopped or the budget is used up.

    Parameters
    ----------
    loss
        Function of one problem: the value to minimise, numbers for the history, an array to watch. A
        function of a module, not one made on the spot: programs are filed under it.
    change
        How much the watched array changed, from its difference.
    parameters, data
        Trees of arrays with a leading axis.
    shared
        A tree of arrays that all problems share.
    steps, rate
        Most steps and the rate of Adam.
    stop
        The change at which a problem stops.
    tol
        The residual at which it has converged.
    chunk
        Most steps of one call.
    seconds
        Wall time of the steps, compiling apart.
    carry
        `Fit.carry` of an earlier call with the same arguments, to go on with the moments of Adam.
    name
        What the run is called in progress bars.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from credo.nn.optimise import minimise
    >>> def bowl(x, data, shared):
    ...     return jnp.sum((x - data) ** 2), {}, x
    >>> def moved(difference, shared):
    ...     return jnp.abs(difference).max()
    >>> fit = minimise(bowl, moved, np.zeros((2, 1), np.float32), np.array([[1.0], [2.0]], np.float32), (),
    ...                steps=500, rate=0.05, stop=1e-6)
    >>> np.asarray(fit.parameters).round(2).ravel().tolist()
    [1.0, 2.0]
    """
    adam = CompiledAdam(loss, change, parameters, stop=stop, tol=tol, chunk=chunk)
    first = adam.first(data, shared) if carry is None else adam.again(carry)
    adam.prepare(first, data, shared)
    watch, budget = Stopwatch(), Budget(steps, adam.tol_of(first), seconds)
    fit: Minimised = drive(_RateSteps(name, adam, rate), (data, shared), budget, state=first)
    return replace(fit, seconds=watch.seconds, compile_seconds=adam.compile_seconds)


class CompiledAdam:
    """Compiled steps of Adam; what they are to reach is somebody else's business.

    Parameters
    ----------
    loss, change, parameters, stop, tol, chunk
        See `minimise`.
    """

    def __init__(
        self, loss: Loss, change: Change, parameters: Any, *, stop: float, tol: float = 0.0, chunk: int = 25
    ) -> None:
        self._loss, self._parameters, self._stop, self._tol = loss, parameters, stop, tol
        self._program, self._layout, self._chunk = _program(loss, change), Layout.of(parameters), chunk
        self._pace, self._compiled = Pace(chunk), self._program.seconds

    def first(self, data: Any, shared: Any) -> Carry:
        """Before any step."""
        return _first(self._loss, self._layout, self._parameters, data, shared)

    def again(self, carry: Carry) -> Carry:
        """The same, all problems active that have not converged."""
        return carry._replace(active=~self.has_converged(carry))

    def has_converged(self, carry: Carry) -> np.ndarray:
        """(problems,) whether the residual fell below `tol`."""
        return np.asarray(carry.residual) < _scalar(carry, self._tol)

    def tol_of(self, carry: Carry) -> float:
        """The residual at which a problem has converged, as the program compares it."""
        return float(_scalar(carry, self._tol))

    def residuals(self, carry: Carry, history: Mapping[str, np.ndarray]) -> np.ndarray:
        """The largest one of each step; the last is below `tol` only if all problems have converged.

        One that runs away does not end the others.
        """
        worst = history.get("residual", history["change"]).max(axis=1).astype(np.float64)
        worst = np.nan_to_num(worst, nan=UNKNOWN, posinf=UNKNOWN)
        if self.has_converged(carry).all():
            worst[-1:] = np.max(carry.residual)
        else:
            worst[-1:] = np.maximum(worst[-1:], self.tol_of(carry))
        return worst

    @property
    def compile_seconds(self) -> float:
        """Spent on compiling since this was made."""
        return self._program.seconds - self._compiled

    def prepare(self, carry: Carry, data: Any, shared: Any) -> None:
        """Compile if need be."""
        self._program.ready(*self._arguments(carry, data, shared, 0.0, 1), **self._static)

    def advance(
        self, carry: Carry, data: Any, shared: Any, rate: float, run: Run, most: int, live: Any = None
    ) -> tuple[Carry, dict[str, np.ndarray]]:
        """Some steps, as many as go in a short time; metrics (steps, problems).

        `live` says which problems may still be needed; those that are active if it is None.
        """
        is_live = np.asarray(carry.active if live is None else live)
        rows = _live_rows(is_live, sum(part.shape[1] for part in carry.parameters))
        if rows is None:
            return self._call(carry, data, shared, rate, run, most)
        part, own = _take_rows((carry, data), rows)
        new, told = self._call(part, own, shared, rate, run, most, int(np.max(carry.steps)))
        wide = {name: np.zeros((len(values), len(is_live)), values.dtype) for name, values in told.items()}
        for name, values in told.items():
            wide[name][:, rows] = values
        return _put_rows(carry, rows, new), wide

    def _call(
        self, carry: Carry, data: Any, shared: Any, rate: float, run: Run, most: int, done: int = 0
    ) -> tuple[Carry, dict[str, np.ndarray]]:
        began = run.elapsed
        arguments = self._arguments(carry, data, shared, rate, min(self._pace.count, most), done)
        new, history, taken = self._program(*arguments, **self._static)
        taken = int(taken)  # waits for the chunk
        self._pace.took(run.elapsed - began)
        return new, {name: np.asarray(values)[:taken] for name, values in history.items()}

    def read(self, carry: Carry, trace: Mapping[str, Sequence[np.ndarray]], cut: Status | None) -> Minimised:
        """What a carry holds."""
        return Minimised(
            parameters=self._layout.read(tuple(map(np.asarray, carry.parameters))),
            watched=np.asarray(carry.watched),
            history={name: np.stack(rows) for name, rows in trace.items()},
            steps=np.asarray(carry.steps),
            stopped=~np.asarray(carry.active),
            residuals=np.asarray(carry.residual),
            cut=cut,
            carry=carry,
        )

    @property
    def _static(self) -> dict[str, Any]:
        return {"layout": self._layout, "chunk": self._chunk}

    def _arguments(
        self, carry: Carry, data: Any, shared: Any, rate: float, limit: int, done: int = 0
    ) -> tuple[Any, ...]:
        limits = (_scalar(carry, rate), _scalar(carry, self._stop), _scalar(carry, self._tol))
        return (carry, data, shared, *limits, np.int32(_WARM_UP), np.int32(limit), np.int32(done))


class _RateSteps:
    """Steps of one rate as the driver sees them: the residual is the largest one."""

    def __init__(self, name: str, adam: CompiledAdam, rate: float) -> None:
        self.name, self._adam, self._rate = name, adam, rate

    def advance(self, problem: tuple[Any, Any], state: Carry, run: Run) -> Step:
        new, history = self._adam.advance(state, *problem, self._rate, run, run.count)
        is_stuck = not np.asarray(new.active).any() and not self._adam.has_converged(new).all()
        return Step(new, self._adam.residuals(new, history), history, Status.STALLED if is_stuck else None)

    def read(self, problem: tuple[Any, Any], outcome: Outcome) -> Minimised:
        return self._adam.read(outcome.state, outcome.trace, outcome.status if outcome.was_stopped else None)


_PROGRAMS: dict[tuple[Any, Any], Compiled] = {}


def _program(loss: Loss, change: Change) -> Compiled:
    if (loss, change) not in _PROGRAMS:

        def chunk_of(*arguments: Any, layout: Layout, chunk: int) -> Any:
            return _advance(loss, change, layout, chunk, *arguments)

        _PROGRAMS[loss, change] = Compiled(chunk_of)
    return _PROGRAMS[loss, change]


def _scalar(carry: Carry, value: float) -> np.ndarray:
    return np.asarray(value, np.dtype(carry.watched.dtype))


def _first(loss: Loss, layout: Layout, parameters: Any, data: Any, shared: Any) -> Carry:
    shape: Any = jax.ShapeDtypeStruct
    one = jax.tree.map(lambda x: shape(x.shape[1:], x.dtype), (parameters, data))
    watched = jax.eval_shape(loss, *one, shared)[2]
    rows = layout.rows(parameters, np.concatenate)
    count, zeros = len(rows[0]), tuple(map(np.zeros_like, rows))
    return Carry(
        rows,
        (zeros, zeros),
        np.zeros((count, *watched.shape), watched.dtype),
        np.ones(count, bool),
        np.zeros(count, np.int32),
        np.full(count, np.inf, watched.dtype),
    )


def _advance(
    loss: Loss, change: Change, layout: Layout, chunk: int, carry: Carry, data: Any, shared: Any,
    rate: Any, stop: Any, tol: Any, warm_up: Any, limit: Any, done: Any,
) -> Any:  # fmt: skip
    """At most `limit` steps of all problems; the new carry, the history and the steps taken."""

    def valued(p: Any, d: Any) -> Any:
        value, metrics, watched = loss(p, d, shared)
        return value, ({"objective": value, **metrics}, watched)

    slope = jax.vmap(jax.value_and_grad(valued, has_aux=True))
    changes: Any = jax.vmap(lambda difference: change(difference, shared))

    def step(k: Any, carry: Carry) -> tuple[Carry, Any]:
        (_, (metrics, watched)), tree = slope(layout.read(carry.parameters), data)
        gradient = layout.rows(tree, jnp.concatenate)
        # Problems start together, so one count serves all, those that were left out included.
        count = jnp.maximum(carry.steps.max(), done)
        way, state = direction(gradient, AdamMoments(count, *carry.moments))
        moved = changes(watched - carry.watched)
        residual = metrics.get("residual", jnp.full_like(carry.residual, jnp.inf))
        is_small = (moved < stop) & (carry.steps >= warm_up)
        still = carry.active & ~is_small & ~(residual < tol)
        seen = jnp.where(carry.active[:, None], watched, carry.watched)
        pairs = zip(carry.parameters, way, strict=True)
        new = Carry(
            tuple(p - rate * jnp.where(still[:, None], d, 0) for p, d in pairs),
            (state.mean, state.square),
            seen,
            still,
            carry.steps + carry.active,
            jnp.where(carry.active, residual, carry.residual),
        )
        return new, {**metrics, "change": moved}

    return repeat(step, carry, chunk, limit, lambda carry: carry.active.any())


def _live_rows(is_live: np.ndarray, numbers: int) -> np.ndarray | None:
    """The rows to go on with once at least half of them are done; None for all.

    Parameters
    ----------
    is_live
        (rows,) which are not done.
    numbers
        How many each of them has.
    """
    count, live = len(is_live), int(is_live.sum())
    size = 1 << (max(1, live) - 1).bit_length()
    if 2 * live > count or (count - size) * numbers < _WORTH:
        return None
    return np.sort(np.argsort(~is_live, kind="stable")[:size])


def _take_rows(tree: Any, rows: np.ndarray) -> Any:
    """These rows of all arrays."""
    return jax.tree.map(lambda x: np.asarray(x)[rows], tree)


def _put_rows(whole: Any, rows: np.ndarray, part: Any) -> Any:
    """The arrays of `whole` with these rows replaced."""

    def put(old: Any, new: Any) -> np.ndarray:
        found = np.array(old)
        found[rows] = new
        return found

    return jax.tree.map(put, whole, part)
