"""Trees of what families hold: dicts and tuples of arrays or of sums, None where there is nothing.

Expected counts, sums, responsibilities and free numbers of a family over families have the shape of the
composition. These few functions serve them without JAX, which closed forms never load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["Tree", "add_trees", "map_tree", "scale_tree", "settled", "tree_leaves"]

Tree = Any  # nested dicts and tuples; a leaf is an array or an object that adds up


def map_tree(function: Callable[..., Any], first: Tree, *others: Tree) -> Tree:
    """`function` of the leaves at each place; None where the first tree has None.

    >>> from credo.families.trees import map_tree
    >>> map_tree(lambda a, b: a + b, {"x": (1, None)}, {"x": (2, 5)})
    {'x': (3, None)}
    """
    if first is None:
        return None
    if isinstance(first, dict):
        return {k: map_tree(function, value, *(tree[k] for tree in others)) for k, value in first.items()}
    if type(first) is tuple:
        return tuple(map_tree(function, *each) for each in zip(first, *others, strict=True))
    return function(first, *others)


def tree_leaves(tree: Tree) -> Iterator[Any]:
    """All leaves, in the order of their places, dicts by name as in JAX; None is no leaf."""
    if isinstance(tree, dict):
        for name in sorted(tree):
            yield from tree_leaves(tree[name])
    elif type(tree) is tuple:
        for value in tree:
            yield from tree_leaves(value)
    elif tree is not None:
        yield tree


def add_trees(one: Tree, two: Tree) -> Tree:
    """The sum at every place."""
    return map_tree(lambda a, b: a + b, one, two)


def scale_tree(tree: Tree, step: float) -> Tree:
    """Every leaf times a number."""
    return map_tree(lambda leaf: leaf.scaled(step) if hasattr(leaf, "scaled") else step * leaf, tree)


def settled(found: Any, before: np.ndarray, now: np.ndarray, made: Any) -> np.ndarray:
    """Parameters of free numbers: those that are what they were `before` keep their value `now`.

    Free numbers may come back in single precision.
    """
    wide = np.asarray(found, np.float64)
    same = wide == np.asarray(before, np.asarray(found).dtype)
    return np.where(same, now, made(wide))
