"""Between flat index arrays and arrays a device likes.

Ragged rows become rectangles: padded to the longest (`pad_rows`), or in buckets of similar length
(`row_buckets`). A sparse matrix that is applied in every step is stored as lists of what each row
gathers (`LinearMap`), and as those of its transpose: its derivative is then a gather too, and no
scatter is needed, which on a CPU costs ten times as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import compile_clock  # noqa: F401

__all__ = ["LinearMap", "pad_rows", "precision", "row_buckets"]

_DENSE = 2**18  # entries of a matrix that is stored in full


@contextmanager
def precision(double: bool) -> Iterator[Any]:
    """Floats of 64 or 32 bits inside the block, and nothing changed outside; gives the float type.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from credo.nn.arrays import precision
    >>> with precision(double=True) as kind:
    ...     print(jnp.ones(2, kind).dtype)
    float64
    """
    with jax.enable_x64(double):
        yield jnp.float64 if double else jnp.float32


def pad_rows(flat: np.ndarray, start: np.ndarray, fill: float = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows flat[start[r]:start[r+1]] as one rectangle, and the mask of what is not padding.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.nn.arrays import pad_rows
    >>> pad_rows(np.array([1, 2, 3]), np.array([0, 1, 3]))[0].tolist()
    [[1, 0], [2, 3]]
    """
    lengths = np.diff(start)
    columns = np.arange(int(lengths.max(initial=0)))
    mask = columns < lengths[:, None]
    found = np.full(mask.shape, fill, dtype=flat.dtype)
    found[mask] = flat[int(start[0]) : int(start[-1])] if len(start) else flat[:0]
    return found, mask


def row_buckets(lengths: np.ndarray) -> list[np.ndarray]:
    """Rows grouped so that the longest of a bucket is less than twice as long as the shortest.

    Rows of length zero are in no bucket.
    """
    lengths = np.asarray(lengths)
    scale = np.where(lengths > 0, np.ceil(np.log2(np.maximum(lengths, 1))), -1).astype(np.int64)
    return [np.flatnonzero(scale == k) for k in np.unique(scale[scale >= 0])]


class _Lists(eqx.Module):
    """What each row gathers, in buckets; `order` puts the bucketed rows back into place."""

    columns: tuple[Any, ...]  # per bucket (rows, longest) positions
    weights: tuple[Any, ...]  # per bucket (rows, longest); zero at padding
    order: Any  # (rows,) position of each row among the bucketed ones; the last stands for empty rows

    def __call__(self, x: jax.Array) -> jax.Array:
        pairs = zip(self.columns, self.weights, strict=True)
        parts = [(_take(x, at) * w).sum(axis=-1) for at, w in pairs]
        return _take(jnp.concatenate([*parts, jnp.zeros(1, x.dtype)]), self.order)


def _take(x: jax.Array, at: Any) -> jax.Array:
    return x.at[at].get(mode="promise_in_bounds")


class LinearMap(eqx.Module):
    """A constant sparse matrix applied to vectors, with gathers in both directions; a small one is dense.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from credo.nn.arrays import LinearMap
    >>> sums = LinearMap.of(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([1.0, 1.0, 5.0]), (2, 2))
    >>> sums(jnp.array([1.0, 2.0])).tolist()
    [3.0, 10.0]
    """

    forward: _Lists | None  # what each row gathers
    backward: _Lists | None  # what each column gathers
    dense: Any  # (columns, rows), or None

    @classmethod
    def of(
        cls, row: np.ndarray, column: np.ndarray, weight: np.ndarray, shape: tuple[int, int], kind: Any = None
    ) -> LinearMap:
        """The matrix with these entries, none of them named twice."""
        kind = kind or np.float32
        if shape[0] * shape[1] <= _DENSE:  # one product compiles faster than many gathers
            dense = np.zeros(shape[::-1], kind)
            dense[column, row] = weight
            return cls(None, None, dense)
        forward = _lists(row, column, weight, shape[0], kind)
        return cls(forward, _lists(column, row, weight, shape[1], kind), None)

    def __call__(self, x: jax.Array) -> jax.Array:
        """The product with a vector."""
        if self.dense is not None:
            return x @ self.dense
        return _apply(self.forward, self.backward, x)


def _lists(row: np.ndarray, column: np.ndarray, weight: np.ndarray, count: int, kind: Any) -> _Lists:
    by_row = np.argsort(row, kind="stable")
    row, column, weight = row[by_row], column[by_row], weight[by_row]
    lengths = np.bincount(row, minlength=count)
    first = np.concatenate([[0], np.cumsum(lengths)])
    order, done = np.full(count, -1, dtype=np.int32), 0
    columns, weights = [], []
    for rows in row_buckets(lengths):
        at = first[rows][:, None] + np.arange(int(lengths[rows].max()))
        mask = np.arange(at.shape[1]) < lengths[rows][:, None]
        at = np.where(mask, at, 0)
        columns.append(np.where(mask, column[at], 0).astype(np.int32))
        weights.append(np.where(mask, weight[at], 0.0).astype(kind))
        order[rows] = done + np.arange(len(rows))
        done += len(rows)
    order[order < 0] = done
    return _Lists(tuple(columns), tuple(weights), order)


@jax.custom_vjp
def _apply(forward: _Lists, backward: _Lists, x: jax.Array) -> jax.Array:
    return forward(x)


def _apply_forward(forward: _Lists, backward: _Lists, x: jax.Array) -> tuple[jax.Array, _Lists]:
    return forward(x), backward


def _apply_backward(backward: _Lists, y: jax.Array) -> tuple[None, None, jax.Array]:
    return None, None, backward(y)


_apply.defvjp(_apply_forward, _apply_backward)
