"""One stable sort for all kernels: Numba's own are compiled anew into every kernel that uses them."""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["sort_by"]

_RUN = 16  # items that are sorted by insertion before runs are merged


@jit
def sort_by(keys, items):
    """Sort `items` in place by rising keys[item]; equal ones keep their order."""
    count = len(items)
    for first in range(0, count, _RUN):
        for k in range(first + 1, min(first + _RUN, count)):
            item = items[k]
            j = k
            while j > first and keys[items[j - 1]] > keys[item]:
                items[j] = items[j - 1]
                j -= 1
            items[j] = item
    if count <= _RUN:
        return
    # A run is merged from a copy of its first half: what is written never overtakes what is to be read.
    half = np.empty(count, np.int64)
    width = _RUN
    while width < count:
        for first in range(0, count - width, 2 * width):
            middle, last = first + width, min(first + 2 * width, count)
            for k in range(width):
                half[k] = items[first + k]
            left, right, at = 0, middle, first
            while left < width:
                if right < last and keys[items[right]] < keys[half[left]]:
                    items[at] = items[right]
                    right += 1
                else:
                    items[at] = half[left]
                    left += 1
                at += 1
        width *= 2
