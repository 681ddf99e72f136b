"""Greedy colouring of things that meet in places."""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["greedy_colours"]


@jit
def greedy_colours(place_start, place, item_start, item, colour):
    """Give every item the lowest colour that no earlier item it meets has; how many colours there are.

    The places of item i are place[place_start[i] : place_start[i + 1]], the items of place p are
    item[item_start[p] : item_start[p + 1]], ascending. Two items meet if they share a place.
    """
    count = len(place_start) - 1
    taken = np.full(count + 1, -1, np.int64)  # the last item that found a colour taken
    most = 0
    for i in range(count):
        for e in range(place_start[i], place_start[i + 1]):
            p = place[e]
            for f in range(item_start[p], item_start[p + 1]):
                j = item[f]
                if j >= i:
                    break
                taken[colour[j]] = i
        found = 0
        while taken[found] == i:
            found += 1
        colour[i] = found
        most = max(most, found + 1)
    return most
