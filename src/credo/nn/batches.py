"""Which rows a mini-batch has: a function of seed, epoch and position, so that any can be met again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..core import check
from ..core.errors import DataError

__all__ = ["Batch", "Batches", "CompiledRows"]


class Batch(NamedTuple):
    """Rows of one step, all of one number so that one program serves; weights tell the real ones."""

    rows: Any  # a tree of arrays, one entry per row
    weights: Any  # (size,) one per row; zero where the last batch of an epoch is filled up


class CompiledRows(NamedTuple):
    """All rows, where the compiled steps read them."""

    tree: Any
    length: int  # how many

    @classmethod
    def of(cls, tree: Any) -> CompiledRows:
        """Rows of a tree of arrays with one leading axis."""
        leaves = jax.tree.leaves(tree)
        lengths = {len(leaf) for leaf in leaves}
        if len(lengths) != 1 or lengths == {0}:
            raise DataError(
                f"data: expected arrays with the same number of rows, at least one, got {sorted(lengths)}"
            )
        return cls(jax.tree.map(jnp.asarray, tree), lengths.pop())


@dataclass(frozen=True)
class Batches:
    """Every row once in an epoch, in an order of its own; the last batch may be smaller.

    Examples
    --------
    >>> from credo.nn.batches import Batches
    >>> batches = Batches(size=2, seed=1)
    >>> batches.count(5)
    3
    >>> numbers, weights = batches.rows(5, epoch=0, position=1, many=2)
    >>> numbers.shape, weights.tolist()
    ((2, 2), [[1.0, 1.0], [1.0, 0.0]])
    """

    size: int  # rows of a batch
    seed: int = 0
    shuffle: bool = True  # otherwise rows come as they lie

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("size", self.size, 1)
        check.whole("seed", self.seed, 0, 2**32)

    def count(self, rows: int) -> int:
        """Batches of an epoch."""
        return -(-rows // self.size)

    def rows(self, rows: int, epoch: int, position: int, many: int) -> tuple[np.ndarray, np.ndarray]:
        """(many, size) each: numbers of rows of some batches in a row, and weights."""
        order = _order(self.seed, epoch, rows) if self.shuffle else np.arange(rows, dtype=np.int32)
        inside = order[position * self.size : (position + many) * self.size]
        numbers, weights = np.zeros(many * self.size, np.int32), np.zeros(many * self.size, np.float32)
        numbers[: len(inside)], weights[: len(inside)] = inside, 1.0
        return numbers.reshape(many, self.size), weights.reshape(many, self.size)


@lru_cache(maxsize=1)
def _order(seed: int, epoch: int, rows: int) -> np.ndarray:
    """All rows in the order of an epoch."""
    return np.random.default_rng([seed, epoch]).permutation(rows).astype(np.int32)
