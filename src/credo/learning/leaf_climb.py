"""Gradient steps that see all rows, by the program of mini-batches: one batch has them all."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..families.base import Family
from ..families.family_forms import FamilyForm
from ..families.trees import Tree, map_tree
from ..nn.adam import AdamMoments, Rates
from ..nn.arrays import precision
from ..nn.chunks import step_program
from .climb_step import ClimbStep, climb_carry, climb_rows, is_double
from .leaf_steps import LeafState

__all__ = ["climb"]

_BLOCK = 1024  # rows are filled up to a multiple of this
_ROOM = 64  # steps of one call of the program at most


def climb(
    family: Family, x: np.ndarray, q: Tree, steps: int, rate: float, state: LeafState | None
) -> tuple[LeafState, np.ndarray]:
    """What Adam remembers after so many steps, and the objective before each.

    Parameters
    ----------
    family, q
        See `leaf_steps.climb_leaves`.
    x
        Rows as the family gives them.
    steps, rate
        How many, and of which size.
    state
        To go on from.
    """
    program, values = step_program((ClimbStep(FamilyForm(family)),)), [np.zeros(0)]
    with precision(is_double(family)):
        carry = climb_carry(family, Rates(rate))
        if state is not None:
            moments = AdamMoments(state.steps, state.mean, state.square)
            carry["model"] = carry["model"]._replace(parameters=state.parameters, moments=moments)
        rows = map_tree(_filled, climb_rows(family, x, q))
        size = len(x) + -len(x) % _BLOCK
        numbers = np.broadcast_to(np.arange(size, dtype=np.int32), (_ROOM, size))
        weights = np.broadcast_to((np.arange(size) < len(x)).astype(np.float32), (_ROOM, size))
        whose, place = np.zeros(_ROOM, np.int32), np.zeros(3, np.uint32)
        while steps:
            many = min(steps, _ROOM)
            carry, found, _ = program.compiled(
                carry, rows, numbers, weights, whose, place, np.int32(many), room=_ROOM
            )
            values.append(np.asarray(found["objective"], np.float64)[:many])
            steps -= many
        group = jax.tree.map(np.asarray, carry["model"])
    kept = LeafState(group.parameters, group.moments.mean, group.moments.square, group.moments.steps)
    return kept, np.concatenate(values)


def _filled(a: Any) -> Any:
    """Zeros appended up to whole blocks."""
    more = -len(a) % _BLOCK
    return np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)])
