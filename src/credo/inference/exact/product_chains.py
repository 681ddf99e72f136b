r"""Exact answers about several chains that speak through one row of data: one chain over their joint states.

    start(s^1, ..., s^M) = prod_m start_m(s^m),   transition likewise,   counts of a chain: sums over others

A joint state is numbered in C order: the state of the last chain changes fastest. O(rows states^2) with the
product of all states; `structured-mean-field` goes on where that is too much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...core.instance import Instance
from . import chains
from .chains import Answer

__all__ = ["product_chain", "smooth_product"]


def product_chain(instance: Instance) -> Instance:
    """The chain over the joint states of several chains."""
    start, step = np.ones(1), np.ones((1, 1))
    for m in range(len(instance.shape)):
        start = np.kron(start, instance.tables[f"start{m}"])
        step = np.kron(step, instance.tables[f"transition{m}"])
    return replace(instance, structure="chains", tables={"start": start, "transition": step}, shape=())


def smooth_product(instance: Instance, again: Callable[[slice], np.ndarray] | None = None) -> Answer:
    """Log Z, marginals of the joint states, and the counts of every chain; see `chains.smooth`."""
    found = chains.smooth(product_chain(instance), again)
    shape, axes = instance.shape, range(len(instance.shape))
    start = found.counts["start"].reshape(shape)
    pairs = found.counts["transition"].reshape(*shape, *shape)
    counts = {}
    for m in axes:
        others = tuple(a for a in axes if a != m)
        counts[f"start{m}"] = start.sum(axis=others)
        counts[f"transition{m}"] = pairs.sum(axis=(*others, *(a + len(shape) for a in others)))
    return Answer(found.log_z, found.marginals, counts)
