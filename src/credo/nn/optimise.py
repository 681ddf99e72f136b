"""Adam on many problems of one shape at once.

    minimise_p  loss(p, data, shared) -> (value, metrics, watched)

`parameters` and `data` have a leading axis, one entry per problem; `shared` is the same for all. The loss
is written for one problem and mapped over the axis. Steps run in compiled chunks; between two chunks the
caller is told how far the work is, the clock is looked at, and Ctrl-C ends the run with what was found.

A problem stops when `change(watched_now - watched_before, shared)` falls below `stop` after the
first ten steps. Its parameters then stay as they are while others go on. One program serves any number of
steps, any rate and any tolerance: those are arguments, not constants.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .compiled import Compiled

__all__ = ["Fit", "minimise"]

_WARM_UP = 10  # steps a problem takes in any case
_LARGE = 2**15  # numbers of a leaf that is a row of its own

Loss = Callable[[Any, Any, Any], tuple[jax.Array, dict[str, jax.Array], jax.Array]]
Change = Callable[[jax.Array, Any], jax.Array]


class _Layout(NamedTuple):
    """How the parameters of one problem lie in a few rows of numbers.

    All small leaves are one row, because a step on one array compiles faster than one on many; each large
    leaf is a row of its own, because joining and cutting it would be copies of most of what there is.
    """

    tree: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, parameters: Any) -> _Layout:
        leaves, tree = jax.tree.flatten(parameters)
        return cls(tree, tuple(tuple(leaf.shape[1:]) for leaf in leaves))

    def rows(self, parameters: Any, join: Any) -> tuple[Any, ...]:
        """(problems, numbers) each: the small leaves, then every large one."""
        flat = [leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(parameters)]
        small = [leaf for leaf in flat if leaf.shape[1] <= _LARGE]
        joined = [join(small, axis=1)] if small else []
        return (*joined, *(leaf for leaf in flat if leaf.shape[1] > _LARGE))

    def read(self, rows: tuple[Any, ...]) -> Any:
        """The parameters, with the leading axis."""
        sizes = [math.prod(shape) for shape in self.shapes]
        own = iter(rows[1:] if min(sizes) <= _LARGE else rows)
        leaves, first = [], 0
        for shape, size in zip(self.shapes, sizes, strict=True):
            if size > _LARGE:
                part = next(own)
            else:
                part, first = rows[0][:, first : first + size], first + size
            leaves.append(part.reshape(len(part), *shape))
        return jax.tree.unflatten(self.tree, leaves)


class _Carry(NamedTuple):
    parameters: tuple[Any, ...]  # rows, see _Layout
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
    interrupted: bool  # by Ctrl-C
    out_of_time: bool  # whether `seconds` ended it
    seconds: float  # of the steps
    compile_seconds: float  # of compiling, not in `seconds`
    carry: Any  # to continue from


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
    report: Callable[[int, dict[str, np.ndarray]], None] | None = None,
    carry: Any = None,
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
        Most steps between two reports.
    seconds
        Wall time of the steps, compiling apart.
    report
        Called after each chunk with the steps done and the last metrics.
    carry
        `Fit.carry` of an earlier call with the same arguments, to go on with the moments of Adam.

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
    program, layout = _program(loss, change), _Layout.of(parameters)
    before, clock = program.seconds, time.perf_counter()
    if carry is None:
        carry = _first(loss, layout, parameters, data, shared)
    else:
        carry = carry._replace(active=np.ones(len(carry.active), bool))
    parts: list[dict[str, np.ndarray]] = []
    done, interrupted, late = 0, False, False
    try:
        while done < steps:
            limit = min(chunk, steps - done)
            numbers = (_scalar(carry, rate), _scalar(carry, stop), np.int32(_WARM_UP), np.int32(limit))
            new, history, taken = program(carry, data, shared, *numbers, layout=layout, chunk=chunk)
            taken = int(taken)  # waits for the chunk; a Ctrl-C meanwhile is raised here
            parts.append({name: np.asarray(values)[:taken] for name, values in history.items()})
            carry, done = new, done + taken
            if report is not None:
                report(done, {name: values[-1] for name, values in parts[-1].items()})
            if not bool(np.asarray(carry.active).any()):
                break
            spent = time.perf_counter() - clock - (program.seconds - before)
            if seconds is not None and spent > seconds:
                late = True
                break
    except KeyboardInterrupt:
        interrupted = True
    compiling = program.seconds - before
    names = parts[0] if parts else {}
    return Fit(
        parameters=layout.read(tuple(map(np.asarray, carry.parameters))),
        watched=np.asarray(carry.watched),
        history={name: np.concatenate([part[name] for part in parts]) for name in names},
        steps=np.asarray(carry.steps),
        stopped=~np.asarray(carry.active),
        interrupted=interrupted,
        out_of_time=late,
        seconds=time.perf_counter() - clock - compiling,
        compile_seconds=compiling,
        carry=carry,
    )


_PROGRAMS: dict[tuple[Any, Any], Compiled] = {}


def _program(loss: Loss, change: Change) -> Compiled:
    if (loss, change) not in _PROGRAMS:

        def chunk_of(*arguments: Any, layout: _Layout, chunk: int) -> Any:
            return _advance(loss, change, layout, chunk, *arguments)

        _PROGRAMS[loss, change] = Compiled(chunk_of)
    return _PROGRAMS[loss, change]


def _scalar(carry: _Carry, value: float) -> np.ndarray:
    return np.asarray(value, np.dtype(carry.watched.dtype))


def _first(loss: Loss, layout: _Layout, parameters: Any, data: Any, shared: Any) -> _Carry:
    shape: Any = jax.ShapeDtypeStruct
    one = jax.tree.map(lambda x: shape(x.shape[1:], x.dtype), (parameters, data))
    watched = jax.eval_shape(loss, *one, shared)[2]
    rows = layout.rows(parameters, np.concatenate)
    count, zeros = len(rows[0]), tuple(map(np.zeros_like, rows))
    return _Carry(
        rows,
        (zeros, zeros),
        np.zeros((count, *watched.shape), watched.dtype),
        np.ones(count, bool),
        np.zeros(count, np.int32),
    )


def _advance(
    loss: Loss, change: Change, layout: _Layout, chunk: int, carry: _Carry, data: Any, shared: Any,
    rate: Any, stop: Any, warm_up: Any, limit: Any,
) -> Any:  # fmt: skip
    """At most `limit` steps of all problems; the new carry, the history and the steps taken."""
    adam = optax.scale_by_adam()

    def valued(p: Any, d: Any) -> Any:
        value, metrics, watched = loss(p, d, shared)
        return value, ({"objective": value, **metrics}, watched)

    slope = jax.vmap(jax.value_and_grad(valued, has_aux=True))
    changes: Any = jax.vmap(lambda difference: change(difference, shared))

    def step(k: Any, carry: _Carry, history: Any) -> tuple[_Carry, Any]:
        (_, (metrics, watched)), tree = slope(layout.read(carry.parameters), data)
        gradient = layout.rows(tree, jnp.concatenate)
        count = carry.steps.max()  # problems start together, so one count serves all
        state = optax.ScaleByAdamState(count, *carry.moments)
        direction, state = adam.update(gradient, state)
        moved = changes(watched - carry.watched)
        still = carry.active & ~((moved < stop) & (carry.steps >= warm_up))
        seen = jnp.where(carry.active[:, None], watched, carry.watched)
        pairs = zip(carry.parameters, direction, strict=True)
        new = _Carry(
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
