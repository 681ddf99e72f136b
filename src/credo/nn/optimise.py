"""Adam on many problems of one shape at once.

    minimise_p  loss(p, data, shared) -> (value, metrics, watched)

`parameters` and `data` have a leading axis, one entry per problem; `shared` is the same for all. The loss
is written for one problem and mapped over the axis. Steps run in compiled chunks, which are driven (see
`optimise/driver.py`).

A problem stops when `change(watched_now - watched_before, shared)` falls below `stop` after the
first ten steps. Its parameters then stay as they are while others go on. One program serves any number of
steps, any rate and any tolerance: those are arguments, not constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..core.result import Status
from ..core.stopwatch import Stopwatch
from ..optimise.driver import UNKNOWN, Outcome, Step, drive
from ..optimise.pace import Pace
from ..optimise.run import Budget, Run
from .compiled import Compiled
from .layout import Layout

__all__ = ["Adam", "Carry", "Fit", "minimise"]

_WARM_UP = 10  # steps a problem takes in any case

Loss = Callable[[Any, Any, Any], tuple[jax.Array, dict[str, jax.Array], jax.Array]]
Change = Callable[[jax.Array, Any], jax.Array]


class Carry(NamedTuple):
    """Where the steps have come to."""

    parameters: tuple[Any, ...]  # rows, see Layout
    moments: tuple[Any, Any]  # of Adam, in the same rows
    watched: Any  # (problems, entries) at the step before
    active: Any  # (problems,)
    steps: Any  # (problems,) done so far


@dataclass(frozen=True)
class Fit:
    """What a run found; arrays have a leading axis, one entry per problem."""

    parameters: Any  # after the last step of each problem
    watched: np.ndarray  # what the loss showed at the last step
    history: dict[str, np.ndarray]  # metric -> (steps, problems); "change" among them
    steps: np.ndarray  # taken by each problem
    stopped: np.ndarray  # whether the change fell below `stop`
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
    chunk: int = 25,
    seconds: float | None = None,
    carry: Carry | None = None,
    name: str = "adam",
) -> Fit:
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
    adam = Adam(loss, change, parameters, stop=stop, chunk=chunk)
    first = adam.first(data, shared) if carry is None else adam.again(carry)
    compiling = adam.prepare(first, data, shared)
    watch, budget = Stopwatch(), Budget(steps, adam.stop_of(first), seconds)
    fit: Fit = drive(_Steps(name, adam, rate), (data, shared), budget, state=first)
    return replace(fit, seconds=watch.seconds, compile_seconds=compiling)


class Adam:
    """Compiled steps of Adam; what they are to reach is somebody else's business.

    Parameters
    ----------
    loss, change, parameters, stop, chunk
        See `minimise`.
    """

    def __init__(self, loss: Loss, change: Change, parameters: Any, *, stop: float, chunk: int = 25) -> None:
        self._loss, self._parameters, self._stop = loss, parameters, stop
        self._program, self._layout, self._chunk = _program(loss, change), Layout.of(parameters), chunk
        self._pace = Pace(chunk)

    def first(self, data: Any, shared: Any) -> Carry:
        """Before any step."""
        return _first(self._loss, self._layout, self._parameters, data, shared)

    def again(self, carry: Carry) -> Carry:
        """The same, all problems active."""
        return carry._replace(active=np.ones(len(carry.active), bool))

    def stop_of(self, carry: Carry) -> float:
        """The change at which a problem stops, as the program compares it."""
        return float(_scalar(carry, self._stop))

    def prepare(self, carry: Carry, data: Any, shared: Any) -> float:
        """Compile if need be; the seconds that took."""
        before = self._program.seconds
        self._program.ready(*self._arguments(carry, data, shared, 0.0, 1), **self._static)
        return self._program.seconds - before

    def advance(
        self, carry: Carry, data: Any, shared: Any, rate: float, run: Run, most: int
    ) -> tuple[Carry, dict[str, np.ndarray]]:
        """Some steps, as many as go in a short time; metrics (steps, problems)."""
        began = run.elapsed
        arguments = self._arguments(carry, data, shared, rate, min(self._pace.count, most))
        new, history, taken = self._program(*arguments, **self._static)
        taken = int(taken)  # waits for the chunk
        self._pace.took(run.elapsed - began)
        return new, {name: np.asarray(values)[:taken] for name, values in history.items()}

    def read(self, carry: Carry, trace: Mapping[str, Sequence[np.ndarray]], cut: Status | None) -> Fit:
        """What a carry holds."""
        return Fit(
            parameters=self._layout.read(tuple(map(np.asarray, carry.parameters))),
            watched=np.asarray(carry.watched),
            history={name: np.stack(rows) for name, rows in trace.items()},
            steps=np.asarray(carry.steps),
            stopped=~np.asarray(carry.active),
            cut=cut,
            carry=carry,
        )

    @property
    def _static(self) -> dict[str, Any]:
        return {"layout": self._layout, "chunk": self._chunk}

    def _arguments(self, carry: Carry, data: Any, shared: Any, rate: float, limit: int) -> tuple[Any, ...]:
        numbers = (_scalar(carry, rate), _scalar(carry, self._stop), np.int32(_WARM_UP), np.int32(limit))
        return (carry, data, shared, *numbers)


class _Steps:
    """Steps of one rate as the driver sees them: the residual is the largest change."""

    def __init__(self, name: str, adam: Adam, rate: float) -> None:
        self.name, self._adam, self._rate = name, adam, rate

    def advance(self, problem: tuple[Any, Any], state: Carry, run: Run) -> Step:
        new, history = self._adam.advance(state, *problem, self._rate, run, run.count)
        largest = history["change"].max(axis=1).astype(np.float64)
        # One problem that runs away does not end the others.
        residuals = np.nan_to_num(largest, nan=UNKNOWN, posinf=UNKNOWN)
        if np.asarray(new.active).any():  # no problem stops during the warm-up
            residuals[-1] = max(residuals[-1], self._adam.stop_of(new))
        return Step(new, residuals, history)

    def read(self, problem: tuple[Any, Any], outcome: Outcome) -> Fit:
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
    )


def _advance(
    loss: Loss, change: Change, layout: Layout, chunk: int, carry: Carry, data: Any, shared: Any,
    rate: Any, stop: Any, warm_up: Any, limit: Any,
) -> Any:  # fmt: skip
    """At most `limit` steps of all problems; the new carry, the history and the steps taken."""
    adam = optax.scale_by_adam()

    def valued(p: Any, d: Any) -> Any:
        value, metrics, watched = loss(p, d, shared)
        return value, ({"objective": value, **metrics}, watched)

    slope = jax.vmap(jax.value_and_grad(valued, has_aux=True))
    changes: Any = jax.vmap(lambda difference: change(difference, shared))

    def step(k: Any, carry: Carry, history: Any) -> tuple[Carry, Any]:
        (_, (metrics, watched)), tree = slope(layout.read(carry.parameters), data)
        gradient = layout.rows(tree, jnp.concatenate)
        count = carry.steps.max()  # problems start together, so one count serves all
        state = optax.ScaleByAdamState(count, *carry.moments)
        direction, state = adam.update(gradient, state)
        moved = changes(watched - carry.watched)
        still = carry.active & ~((moved < stop) & (carry.steps >= warm_up))
        seen = jnp.where(carry.active[:, None], watched, carry.watched)
        pairs = zip(carry.parameters, direction, strict=True)
        new = Carry(
            tuple(p - rate * jnp.where(still[:, None], d, 0) for p, d in pairs),
            (state.mu, state.nu),
            seen,
            still,
            carry.steps + carry.active,
        )
        row = {**metrics, "change": moved}
        return new, {name: values.at[k].set(row[name]) for name, values in history.items()}

    shapes = jax.eval_shape(slope, layout.read(carry.parameters), data)[0][1][0]
    kind = carry.watched.dtype
    history = {name: jnp.zeros((chunk, *s.shape), s.dtype) for name, s in shapes.items()}
    history["change"] = jnp.zeros((chunk, len(carry.active)), kind)

    def go_on(state: Any) -> Any:
        return (state[0] < limit) & state[1].active.any()

    def body(state: Any) -> Any:
        k, inner, rows = state
        return (k + 1, *step(k, inner, rows))

    taken, carry, history = jax.lax.while_loop(go_on, body, (jnp.int32(0), carry, history))
    return carry, history, taken
