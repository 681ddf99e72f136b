r"""Slice sampling of many independent numbers at once, compiled.

A level is drawn below the density at the current point. An interval of random place and given width around
it steps out at both ends until it leaves the slice, where the density exceeds the level; points drawn from
it are taken if they lie in the slice, and cut the interval if not.

Source: Neal (2003).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...nn.hashed_random import exponential, fold, uniform

__all__ = ["slice_moves"]

_STEPS_OUT = 32  # widths by which an interval is extended at most
_ROUNDS = 200  # of a search before the value stays


class _Slice(NamedTuple):
    """Where the search in a slice stands; arrays are (length, chains), those of both ends (..., 2)."""

    round: Any  # how many rounds there were
    level: Any  # log height of the slice
    ends: Any  # of the interval
    steps: Any  # by how many widths each end may still move out
    phase: Any  # 0: find the level, 1: step out, 2: shrink, 3: done
    found: Any  # the move
    bad: Any  # whatever `weigh` passes on


def slice_moves(
    weigh: Callable[[Any, Any], tuple[Any, Any]], width: jax.Array, key: jax.Array, shape: Any, bad: Any
) -> tuple[Any, Any]:
    """Moves drawn uniformly from a slice of exp(weigh) below its height at zero.

    Parameters
    ----------
    weigh
        Log weights of moves (length, chains, 2); passes `bad` on.
    width
        (length,) of the first interval.
    key
        Of the random numbers.
    shape
        (length, chains)
    bad
        Given to `weigh` and returned.

    Notes
    -----
    Two candidates are weighed in every round, whatever the phase of a variable: zero twice, both ends, or a
    point of the interval and one of what is left of it should the first lie outside of the slice.
    """
    drop, place, share = (f(fold(key, k), shape) for k, f in enumerate((exponential, uniform, uniform)))
    width = jnp.broadcast_to(width[:, None], shape)
    left = jnp.floor(_STEPS_OUT * share)
    outwards = jnp.array([-1.0, 1.0])

    def is_searching(now: _Slice) -> jax.Array:
        return (now.phase < 3).any() & (now.round < _ROUNDS)

    def look(now: _Slice) -> _Slice:
        u = uniform(fold(key, 3 + now.round), (*shape, 2))
        first = now.ends[..., 0] + u[..., 0] * (now.ends[..., 1] - now.ends[..., 0])
        rest = _shrunk(now.ends, first)
        second = rest[..., 0] + u[..., 1] * (rest[..., 1] - rest[..., 0])
        phase = now.phase[..., None]
        points = jnp.where(
            phase == 2, jnp.stack([first, second], axis=-1), jnp.where(phase == 1, now.ends, 0.0)
        )
        weights, bad = weigh(points, now.bad)
        level = jnp.where(now.phase == 0, weights[..., 0] - drop, now.level)
        is_inside = weights >= level[..., None]
        goes = is_inside & (now.steps > 0) & (phase == 1)
        ends = now.ends + jnp.where(goes, outwards * width[..., None], 0.0)
        is_hit = is_inside & (phase == 2)
        found = jnp.where(is_hit[..., 0], first, jnp.where(is_hit[..., 1], second, now.found))
        misses = (now.phase == 2) & ~is_hit.any(axis=-1)
        ends = jnp.where(misses[..., None], _shrunk(rest, second), ends)
        goes_on = jnp.where(
            now.phase == 1, ~goes.any(axis=-1), jnp.where(now.phase == 2, ~misses, now.phase < 3)
        )
        return _Slice(now.round + 1, level, ends, now.steps - goes, now.phase + goes_on, found, bad)

    low = -width * place
    start = _Slice(
        jnp.int64(0),
        jnp.zeros(shape),
        jnp.stack([low, low + width], axis=-1),
        jnp.stack([left, _STEPS_OUT - 1 - left], axis=-1),
        jnp.zeros(shape, jnp.int64),
        jnp.zeros(shape),
        bad,
    )
    end = jax.lax.while_loop(is_searching, look, start)
    return end.found, end.bad


def _shrunk(ends: Any, point: Any) -> jax.Array:
    """The part of an interval on the side of zero."""
    low, high = ends[..., 0], ends[..., 1]
    return jnp.stack([jnp.where(point < 0, point, low), jnp.where(point < 0, high, point)], axis=-1)
