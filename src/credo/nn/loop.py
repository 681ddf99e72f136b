"""Steps in a compiled loop, with a row of numbers kept of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["repeat"]

Row = dict[str, jax.Array]


def repeat(
    step: Callable[[Any, Any], tuple[Any, Row]],
    carry: Any,
    room: int,
    limit: Any,
    goes_on: Callable[[Any], Any] | None = None,
) -> tuple[Any, Row, Any]:
    """At most `limit` steps; the new carry, the rows of numbers and how many steps there were.

    One program serves any number of steps up to `room`, which is the length of the arrays that are returned.

    Parameters
    ----------
    step
        (number of the step in this call, carry) -> carry, row.
    carry
        Where to begin.
    room, limit
        Rows there is room for, a constant of the program; and the steps of this call.
    goes_on
        Asked of the carry before each step.

    Examples
    --------
    >>> from credo.nn.loop import repeat
    >>> carry, rows, taken = repeat(lambda k, x: (2 * x, {"seen": x}), 1.0, 5, 3)
    >>> float(carry), rows["seen"].tolist(), int(taken)
    (8.0, [1.0, 2.0, 4.0, 0.0, 0.0], 3)
    """
    shapes = jax.eval_shape(step, jnp.int32(0), carry)[1]
    rows = {name: jnp.zeros((room, *s.shape), s.dtype) for name, s in shapes.items()}

    def is_under_way(state: Any) -> Any:
        under = state[0] < limit
        return under if goes_on is None else under & goes_on(state[1])

    def body(state: Any) -> Any:
        k, inner, rows = state
        inner, row = step(k, inner)
        return k + 1, inner, {name: values.at[k].set(row[name]) for name, values in rows.items()}

    taken, carry, rows = jax.lax.while_loop(is_under_way, body, (jnp.int32(0), carry, rows))
    return carry, rows, taken
