"""Questions to an `Instance`, whatever its structure: each goes to the file that knows it.

Several chains are one chain over their joint states; filtering, draws and forecasts of segments go over the
chain of remaining steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.instance import Instance
from . import chains
from .chains import Answer
from .product_chains import product_chain, smooth_product
from .segments import best_of_segments, remaining_steps, smooth_segmented

__all__ = [
    "ENTRIES",
    "best_states",
    "draw_states",
    "filter_rows",
    "forecast_states",
    "smooth_rows",
    "unit_log_z",
]

ENTRIES = 1 << 23  # numbers per table of one block of sequences; bounds the memory


def smooth_rows(instance: Instance, again: Callable[[slice], np.ndarray] | None = None) -> Answer:
    """Log Z per unit, marginals of every row, counts by table; see `chains.smooth` for `again`."""
    if instance.structure == "segments":
        return smooth_segmented(instance)
    if instance.structure == "factorial":
        return smooth_product(instance, again)
    return chains.smooth(instance, again)


def unit_log_z(instance: Instance) -> np.ndarray:
    """Log Z of every sequence, -inf where it is impossible."""
    if instance.structure == "segments":
        from ...kernels.semi_markov import smooth_segments

        tables = instance.tables
        parts = (tables["start"], tables["transition"], tables["durations"])
        return smooth_segments(*parts, instance.scores, instance.begin, cut=instance.cut).log_z
    return chains.log_z(_walk(instance))


def filter_rows(instance: Instance) -> np.ndarray:
    """Probabilities of every state given the rows up to it."""
    found = chains.filtered(_walk(instance))
    return _without_remaining(instance, found) if instance.structure == "segments" else found


def best_states(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """The most probable states (rows,) and their log weight per sequence."""
    if instance.structure == "segments":
        return best_of_segments(instance)
    return chains.best(_walk(instance))


def draw_states(instance: Instance, count: int, rng: np.random.Generator) -> np.ndarray:
    """Joint draws of the hidden states given the data, (count, rows)."""
    drawn = chains.draw(_walk(instance), rng.random((count, len(instance.scores))))
    return drawn // instance.tables["durations"].shape[1] if instance.structure == "segments" else drawn


def forecast_states(instance: Instance, steps: int) -> np.ndarray:
    """Probabilities of the states 1, ..., `steps` rows after the end of each unit, (units, steps, states).

    A unit without rows begins with the forecast.
    """
    walked = _walk(instance)
    now = chains.filtered(walked)
    out = np.empty((instance.units, steps, walked.states))
    for unit, (first, last) in enumerate(zip(instance.begin, instance.begin[1:], strict=False)):
        belief = now[last - 1] if last > first else None
        for k in range(steps):
            belief = _move(walked, belief)
            out[unit, k] = belief
    if instance.structure != "segments":
        return out
    flat = _without_remaining(instance, out.reshape(-1, walked.states))
    return flat.reshape(instance.units, steps, instance.states)


def _walk(instance: Instance) -> Instance:
    """The instance as one chain, or as independent rows."""
    if instance.structure == "segments":
        return remaining_steps(instance)
    return product_chain(instance) if instance.structure == "factorial" else instance


def _move(instance: Instance, belief: np.ndarray | None) -> np.ndarray:
    tables = instance.tables
    if instance.structure == "independent":
        found = tables["weights"]
    else:
        found = tables["start"] if belief is None else belief @ tables["transition"]
    return np.asarray(found / found.sum())


def _without_remaining(instance: Instance, rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows.reshape(len(rows), instance.states, -1).sum(axis=2))
