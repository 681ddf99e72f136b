"""Independent sets: things that may change at the same time because they meet nowhere.

Blocks of a bound that share no term can be lowered at the same time, and in any order, with the same
result. A greedy colouring of who meets whom splits all blocks into such sets; a grid's variables
need two.
"""

from __future__ import annotations

import numpy as np

from ..kernels.colouring import greedy_colours

__all__ = ["independent_sets"]


def independent_sets(item: np.ndarray, place: np.ndarray, n_items: int) -> list[np.ndarray]:
    """Split items into sets of which no two members meet, greedily in the order of the items.

    Parameters
    ----------
    item, place
        Pairs: this item is at that place. Items meet if they have a place in common.
    n_items
        Number of items; those without a place meet nobody.

    Examples
    --------
    Four variables around a ring of four factors:

    >>> import numpy as np
    >>> from credo.structures import independent_sets
    >>> ring = independent_sets(np.array([0, 1, 1, 2, 2, 3, 3, 0]), np.array([0, 0, 1, 1, 2, 2, 3, 3]), 4)
    >>> [members.tolist() for members in ring]
    [[0, 2], [1, 3]]
    """
    item, place = np.asarray(item, dtype=np.int64), np.asarray(place, dtype=np.int64)
    places = int(place.max(initial=-1)) + 1
    by_item, by_place = np.lexsort((place, item)), np.lexsort((item, place))
    place_start = np.append(0, np.cumsum(np.bincount(item, minlength=n_items))).astype(np.int64)
    item_start = np.append(0, np.cumsum(np.bincount(place, minlength=places))).astype(np.int64)
    colour = np.empty(n_items, dtype=np.int64)
    count = greedy_colours(place_start, place[by_item], item_start, item[by_place], colour)
    return [np.flatnonzero(colour == k) for k in range(count)]
