"""Hidden rows drawn from the tables of an instance, without looking at its scores: how data are made up."""

from __future__ import annotations

import numpy as np

from ...core.errors import UnsupportedError
from ...core.instance import Instance
from .product_chains import product_chain

__all__ = ["walk"]


def walk(instance: Instance, rng: np.random.Generator) -> np.ndarray:
    """A state for every row, (rows,); of segments, the last is cut at the end of its sequence."""
    if instance.structure == "segments":
        return _segments(instance, rng)
    if instance.structure == "factorial":
        instance = product_chain(instance)
    uniforms = rng.random(len(instance.scores))
    if instance.structure == "independent":
        edges = np.cumsum(instance.tables["weights"])
        return np.searchsorted(edges, uniforms * edges[-1], side="right")
    first = np.cumsum(instance.tables["start"])
    edges = np.cumsum(instance.tables["transition"], axis=1)
    states = np.empty(len(uniforms), np.int64)
    begins = np.zeros(len(uniforms), bool)
    begins[instance.first_rows] = True
    row = first
    for t, begin in enumerate(begins.tolist()):
        row = first if begin else row
        states[t] = np.searchsorted(row, uniforms[t] * row[-1], side="right")
        row = edges[states[t]]
    return states


def _segments(instance: Instance, rng: np.random.Generator) -> np.ndarray:
    if not instance.cut:
        raise UnsupportedError(
            "segments: rows can be drawn where the last segment may be cut, and here it must end with the "
            "data; make the model with cut=True"
        )
    tables, states = instance.tables, np.empty(len(instance.scores), np.int64)
    durations = tables["durations"]
    for first, last in zip(instance.begin, instance.begin[1:], strict=False):
        t, row = first, tables["start"]
        while t < last:
            k = int(rng.choice(instance.states, p=row))
            lasting = 1 + int(rng.choice(durations.shape[1], p=durations[k]))
            states[t : min(t + lasting, last)] = k
            t, row = t + lasting, tables["transition"][k]
    return states
