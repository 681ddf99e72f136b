"""Which coordinates rows observe (not NaN): rows with the same ones are treated together."""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["group_rows"]

_BITS = 63  # coordinates that a whole number has room for


@jit
def _codes(x, out):
    """A whole number for the coordinates of every row that are there, the first one its highest bit."""
    for n in range(len(x)):
        code = 0
        for i in range(x.shape[1]):
            code = 2 * code + (0 if np.isnan(x[n, i]) else 1)
        out[n] = code


def group_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The patterns, the rows one pattern after the other, and where each begins.

    A pattern is True where a coordinate is there, (patterns, d).

    Examples
    --------
    >>> import numpy as np
    >>> from credo.kernels.row_patterns import group_rows
    >>> seen, order, start = group_rows(np.array([[1.0, 2.0], [np.nan, 2.0], [1.0, 3.0]]))
    >>> seen.tolist(), order.tolist(), start.tolist()
    ([[False, True], [True, True]], [1, 0, 2], [0, 1, 3])
    """
    d = x.shape[1]
    if d > _BITS:
        codes = np.unique(~np.isnan(x), axis=0, return_inverse=True)[1].reshape(-1)
    else:
        codes = np.empty(len(x), dtype=np.int64)
        _codes(np.ascontiguousarray(x), codes)
        # Short numbers sort fastest.
        codes = codes.astype(next(kind for kind in ("u1", "u2", "u4", "u8") if d <= 8 * int(kind[1])))
    order = np.argsort(codes, kind="stable")
    found = codes[order]
    start = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]])) if len(x) else order
    return ~np.isnan(x[order[start]]), order, np.append(start, len(x))
