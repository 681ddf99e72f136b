r"""Exact answers about segments: chains whose states last for an explicit number of steps.

Smoothing and best paths are O(rows states D + rows states^2). Filtering, draws and forecasts go over the
chain of pairs (state, remaining steps), which has the same distribution where the last segment may be cut by
the end of the data:

    start(k, r) = start(k) p_k(r),   (k, r) -> (k, r - 1),   (k, 1) -> (j, r) with transition(k, j) p_j(r)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...core.errors import UnsupportedError, ZeroProbabilityError
from ...core.instance import Instance
from ...kernels.semi_markov import best_segments, smooth_segments
from .chains import Answer

__all__ = ["best_of_segments", "remaining_steps", "smooth_segmented"]


def smooth_segmented(instance: Instance) -> Answer:
    """Log Z, marginals of the state of every row, expected first states, moves and durations."""
    found = smooth_segments(
        *_tables(instance), instance.scores, instance.begin, cut=instance.cut, weight=instance.weights
    )
    _refuse(instance, found.log_z)
    counts = {"start": found.firsts, "transition": found.pairs, "durations": found.lasting}
    return Answer(found.log_z, found.marginals, counts)


def best_of_segments(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """The states of the most probable segments (rows,), and their log weight per sequence."""
    path, value = best_segments(*_tables(instance), instance.scores, instance.begin, cut=instance.cut)
    _refuse(instance, value)
    return path, value


def remaining_steps(instance: Instance) -> Instance:
    """The chain over (state, remaining steps), state first."""
    if not instance.cut:
        raise UnsupportedError(
            "segments: filtering, drawing and forecasting go beyond the data, and here the last segment must "
            "end with them; make the model with cut=True"
        )
    start, transition, durations = _tables(instance)
    states, longest = durations.shape
    step = np.zeros((states, longest, states, longest))
    step[:, 0] = transition[:, :, None] * durations
    for r in range(1, longest):
        step[np.arange(states), r, np.arange(states), r - 1] = 1.0
    size = states * longest
    tables = {"start": (start[:, None] * durations).ravel(), "transition": step.reshape(size, size)}
    return replace(
        instance,
        structure="chains",
        scores=np.repeat(instance.scores, longest, axis=1),
        tables=tables,
        shape=(),
    )


def _tables(instance: Instance) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    tables = instance.tables
    return tables["start"], tables["transition"], tables["durations"]


def _refuse(instance: Instance, values: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ZeroProbabilityError(
            f"sequence {instance.first + bad[0]}: no segments with positive probability explain it; allow "
            "other durations or transitions, give the emissions positive probabilities, or mask steps"
        )
