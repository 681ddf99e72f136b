"""Functions of rows, compiled for a few sizes of blocks: another number of rows compiles nothing new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from .compiled import Compiled

__all__ = ["RowProgram", "blocks"]

_SIZES = (32, 128, 512, 2048)  # rows of a block
_NUMBERS = 1 << 22  # of the rows of a block, for all members together, at most


class RowProgram:
    """`function(tree, rows) -> tree of arrays`, rows on the first axis of all.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.nn.row_programs import RowProgram
    >>> double = RowProgram(lambda tree, x: x * tree)
    >>> double(np.float32(2.0), np.ones((700, 2), np.float32)).shape
    (700, 2)
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._compiled = Compiled(function)

    def __call__(self, tree: Any, x: Any, *, members: int = 1) -> Any:
        """The answers of all rows as NumPy arrays; `members` is how often a row is used at once."""
        first = jax.tree.leaves(x)[0]
        width = max(1, members * int(np.prod(first.shape[1:])))
        tree, parts = jax.tree.map(jax.numpy.asarray, tree), []
        for begin, end, size in blocks(len(first), max(_SIZES[0], _NUMBERS // width)):
            part = jax.tree.map(lambda rows, b=begin, e=end, s=size: _filled(rows[b:e], s), x)
            found = self._compiled(tree, part)
            parts.append(jax.tree.map(lambda a, n=end - begin: np.asarray(a)[:n], found))
        return parts[0] if len(parts) == 1 else jax.tree.map(lambda *a: np.concatenate(a), *parts)


def blocks(rows: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Where blocks begin and end, and the size to which each is filled up; one at least.

    >>> from credo.nn.row_programs import blocks
    >>> list(blocks(600, 1000))
    [(0, 512, 512), (512, 600, 128)]
    """
    sizes = [size for size in _SIZES if size <= most]
    begin = 0
    while True:
        left = rows - begin
        size = next((size for size in sizes if 2 * size > left), sizes[-1])
        yield begin, min(begin + size, rows), size
        begin += size
        if begin >= rows:
            return


def _filled(rows: Any, size: int) -> Any:
    """Zeros appended."""
    more = size - len(rows)
    return np.concatenate([rows, np.zeros((more, *rows.shape[1:]), rows.dtype)]) if more else rows
