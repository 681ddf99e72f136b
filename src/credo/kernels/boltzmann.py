r"""Arithmetic of two layers that are joined by a matrix: softplus, and sums over the states of a layer.

    softplus(a) = log(1 + e^a),      log sum_s exp( s'f + g(s'R) ),   s in {0, 1}^k

The second goes through all 2^k states s of the one layer, with those of the other summed by hand in g.

States are drawn by a byte u each: on where 256 p - u >= 1, off where that is <= 0. Where it is a share
between, at one unit in 256, the unit is on with that share, for which a number of full length is drawn.
Together that is p, with a quarter of the random bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = [
    "binary_entropy",
    "binary_rows",
    "draw_units",
    "log_sum_exp",
    "log_sum_over_layer",
    "sigmoid",
    "softplus",
    "softplus_sums",
]

_LOW = 8  # units of the layer whose states are one block
_FACTORS = {4: 100, 8: 1000}  # numbers up to 2 whose product is a float of so many bytes


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x), for any finite or infinite x."""
    with np.errstate(over="ignore"):  # one over infinity is right
        found = np.asarray(1.0 + np.exp(-x))
    return np.divide(1.0, found, out=found)  # type: ignore[no-any-return]


def draw_units(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Units that are on with these probabilities, as numbers of the same type."""
    above = np.ravel(p) * 256
    above -= np.frombuffer(rng.bytes(p.size), np.uint8)
    on = above >= 1
    ties = np.flatnonzero((above > 0) ^ on)
    on[ties] = rng.random(len(ties), dtype=p.dtype) < above[ties]  # type: ignore[arg-type]
    return on.astype(p.dtype).reshape(p.shape)


def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + e^x), without overflow."""
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def softplus_sums(x: np.ndarray) -> np.ndarray:
    """The sum of softplus over the last axis; a logarithm per thousand numbers."""
    found: np.ndarray = np.maximum(x, 0.0).sum(axis=-1)
    factors = 1.0 + np.exp(-np.abs(x))
    step = _FACTORS[factors.dtype.itemsize]
    for first in range(0, x.shape[-1], step):
        found = found + np.log(factors[..., first : first + step].prod(axis=-1))
    return found


def binary_entropy(p: np.ndarray) -> np.ndarray:
    """Entropies of units that are on with these probabilities; zero where that is certain."""
    least = np.finfo(p.dtype).tiny
    on, off = np.maximum(p, least), np.maximum(1 - p, least)
    return np.asarray(-p * np.log(on) - (1 - p) * np.log(off))


def log_sum_exp(logs: np.ndarray) -> float:
    """Log sum exp of all entries; -inf where there is none."""
    top = logs.max(initial=-np.inf)
    return float(top + np.log(np.exp(logs - top).sum())) if np.isfinite(top) else float(top)


def binary_rows(count: int) -> np.ndarray:
    """All states of so many binary units, (2^count, count), the last unit changing fastest."""
    return ((np.arange(1 << count)[:, None] >> np.arange(count)[::-1]) & 1).astype(np.float64)


def log_sum_over_layer(
    fields: np.ndarray,
    weights: np.ndarray,
    joined: Callable[[np.ndarray], np.ndarray],
    look: Callable[[], None],
) -> float:
    """The log of the sum of exp(s'f) exp(joined(s'R)) over all binary s.

    Parameters
    ----------
    fields, weights
        f, (units,), and R, (units, others).
    joined
        Rows of inputs s'R -> the log weight of the other layer given each, summed or integrated.
    look
        Called between blocks, for signals.
    """
    high = max(0, len(fields) - _LOW)
    inner = binary_rows(len(fields) - high)
    near, own = inner @ weights[high:], inner @ fields[high:]
    parts = np.empty(1 << high)
    for outer in range(len(parts)):
        look()
        head = ((outer >> np.arange(high)[::-1]) & 1).astype(bool)
        parts[outer] = log_sum_exp(
            own + fields[:high][head].sum() + joined(near + weights[:high][head].sum(axis=0))
        )
    return log_sum_exp(parts)
