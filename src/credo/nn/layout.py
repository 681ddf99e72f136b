"""Trees of parameters as a few rows of numbers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax

__all__ = ["Layout"]

_LARGE = 2**15  # numbers of a leaf that is a row of its own


class Layout(NamedTuple):
    """How the parameters of one problem lie in a few rows of numbers.

    All small leaves are one row, because a step on one array compiles faster than one on many; each large
    leaf is a row of its own, because joining and cutting it would be copies of most of what there is.
    """

    tree: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, parameters: Any) -> Layout:
        """How these lie, which have a leading axis over problems."""
        leaves, tree = jax.tree.flatten(parameters)
        return cls(tree, tuple(tuple(leaf.shape[1:]) for leaf in leaves))

    def rows(self, parameters: Any, join: Any) -> tuple[Any, ...]:
        """(problems, numbers) each: the small leaves, then every large one."""
        flat = [leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(parameters)]
        small = [leaf for leaf in flat if leaf.shape[1] <= _LARGE]
        joined = [join(small, axis=1)] if small else []
        return (*joined, *(leaf for leaf in flat if leaf.shape[1] > _LARGE))

    def read(self, rows: tuple[Any, ...]) -> Any:
        """The parameters, with the leading axis."""
        sizes = [math.prod(shape) for shape in self.shapes]
        own = iter(rows[1:] if min(sizes) <= _LARGE else rows)
        leaves, first = [], 0
        for shape, size in zip(self.shapes, sizes, strict=True):
            if size > _LARGE:
                part = next(own)
            else:
                part, first = rows[0][:, first : first + size], first + size
            leaves.append(part.reshape(len(part), *shape))
        return jax.tree.unflatten(self.tree, leaves)
