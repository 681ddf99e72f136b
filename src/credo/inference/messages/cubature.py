r"""Adaptive integrals in one and two dimensions, many at once.

Each integrand is given by its logarithm around a standard proposal: its mass is somewhere within a few units
of zero, at whatever scale, with kinks, jumps or several modes. Cells are integrated by products of Kronrod's
15 points, which hold Gauss's 7; where the two differ along an axis, the cell is halved across it. A jump
(the edge of a support) is enclosed by ever smaller cells, so that it costs some forty halvings in one
dimension; in two dimensions a jump along a line is resolved as far as the number of cells allows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...optimise.run import check

__all__ = ["Integrals", "integrate"]

_EDGES = {1: (0.0, 2.0, 5.0, 12.0), 2: (0.0, 3.0, 9.0)}  # between the first cells, on either side of zero
_FARTHER = {1: (40.0, 200.0, 2000.0), 2: (40.0,)}  # edges that are tried where mass reaches the last one
_TAIL = 1e-12  # share of the second moments in the outermost cells that is none
_ERROR = {1: 1e-11, 2: 1e-9}  # of a cell, relative to the whole, below which it is not halved
_MOST_CELLS = 300  # of one integral
_ROUNDS = 60  # of halving; doubles have no more digits
_AT_ONCE = 1 << 20  # points evaluated together

# Kronrod's 15 points on [0, 1] and their weights; every second one, with the weights of Gauss.
_NODES = np.array([0.991455371120812639206, 0.949107912342758524526, 0.864864423359769072790,
                   0.741531185599394439864, 0.586087235467691130294, 0.405845151377397166907,
                   0.207784955007898467601, 0.0])  # fmt: skip
_KRONROD = np.array([0.022935322010529224964, 0.063092092629978553291, 0.104790010322250183840,
                     0.140653259715525918745, 0.169004726639267902827, 0.190350578064785409913,
                     0.204432940075298892414, 0.209482141084727828013])  # fmt: skip
_GAUSS = np.array([0.129484966168869693271, 0.279705391489276667901, 0.381830050505118944950,
                   0.417959183673469387755])  # fmt: skip


class Integrals(NamedTuple):
    """Log integrals and moments; zeros where there is no mass."""

    logs: np.ndarray  # (count,)
    mean: np.ndarray  # (count, d)
    covariance: np.ndarray  # (count, d, d)
    tail: np.ndarray  # (count,) share of the second moments in the outermost cells


class _Cells(NamedTuple):
    """Cells of all integrals, and what is known of each."""

    owner: np.ndarray  # (cells,) the integral
    low: np.ndarray  # (cells, d)
    high: np.ndarray  # (cells, d)
    top: np.ndarray  # (cells,) log of the unit of the sums
    sums: np.ndarray  # (cells, 1 + d + d^2) zeroth, first and second moments
    error: np.ndarray  # (cells, d) of the sum weighted by 1 + |z|^2, along each axis

    @property
    def weight(self) -> np.ndarray:
        """The sum weighted by 1 + |z|^2, which bounds those of all moments."""
        d = self.low.shape[1]
        return np.asarray(self.sums[:, 0] + self.sums[:, 1 + d :: d + 1].sum(axis=1))

    def at(self, keep: np.ndarray) -> _Cells:
        """Some of them."""
        return _Cells(*(part[keep] for part in self))


LogIntegrand = Callable[[np.ndarray, np.ndarray], np.ndarray]


def integrate(log_integrand: LogIntegrand, count: int, dimension: int) -> Integrals:
    """Integrals and moments of `count` functions of one or two numbers.

    `log_integrand(owner, z)` gives logarithms (cells, points) at z (cells, points, dimension), where cell k
    belongs to the integral `owner[k]`; owners rise.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.inference.messages.cubature import integrate
    >>> def exponential(owner, z):
    ...     return np.where(z[..., 0] >= 0, -z[..., 0], -np.inf)
    >>> found = integrate(exponential, 1, 1)
    >>> [float(part.item()).__round__(9) for part in found[:3]]
    [0.0, 1.0, 1.0]
    """
    done: list[_Cells] = []
    owners, tail = np.arange(count), np.zeros(count)
    for level in range(1 + len(_FARTHER[dimension])):
        low, high = _ring(dimension, level)
        owner = np.repeat(owners, len(low))
        many = (len(owners), 1)
        done = _refine(log_integrand, done, owner, np.tile(low, many), np.tile(high, many), count)
        tail = _outer_share(done, count, float(high.max()))
        owners = np.flatnonzero(tail > _TAIL)
        if not len(owners):
            break
    return _collect(done, count, dimension)._replace(tail=tail)


def _refine(
    log_integrand: LogIntegrand,
    done: list[_Cells],
    owner: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    count: int,
) -> list[_Cells]:
    """Add cells, halved until the error of each is small."""
    active = _measure(log_integrand, owner, low, high)
    for _ in range(_ROUNDS):
        check()
        rough = _is_rough(done, active, count)
        done = [_join([*done, active.at(~rough)])]
        if not rough.any():
            return done
        active = _halve(log_integrand, active.at(rough))
    return [*done, active]


@lru_cache(maxsize=8)
def _ring(dimension: int, level: int) -> tuple[np.ndarray, np.ndarray]:
    """The first cells, or those that one more edge adds around them."""
    positive = np.array(_EDGES[dimension] + _FARTHER[dimension][:level])
    edges = np.concatenate([-positive[:0:-1], positive])
    low, high = (
        np.stack([g.ravel() for g in np.meshgrid(*[part] * dimension, indexing="ij")], axis=1)
        for part in (edges[:-1], edges[1:])
    )
    if not level:
        return low, high
    new = ((low == -positive[-1]) | (high == positive[-1])).any(axis=1)
    return low[new], high[new]


def _outer_share(done: list[_Cells], count: int, end: float) -> np.ndarray:
    """The share of the second moments in cells that touch the last edge."""
    cells = _join(done)
    top, total = _totals(cells, count)
    outer = ((cells.low <= -end) | (cells.high >= end)).any(axis=1)
    mass = np.exp(cells.top - top[cells.owner]) * cells.weight * outer
    return np.asarray(np.bincount(cells.owner, mass, minlength=count) / np.where(total > 0, total, 1.0))


@lru_cache(maxsize=2)
def _rule(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in [-1, 1]^d, and weights: Kronrod's, then with Gauss's along each axis in turn."""
    nodes = np.concatenate([-_NODES, _NODES[-2::-1]])
    kronrod = np.concatenate([_KRONROD, _KRONROD[-2::-1]])
    gauss = np.zeros(15)
    gauss[1::2] = np.concatenate([_GAUSS, _GAUSS[-2::-1]])
    points = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * dimension, indexing="ij")], axis=1)
    weights = []
    for rough in range(-1, dimension):
        parts = [gauss if axis == rough else kronrod for axis in range(dimension)]
        grids = np.meshgrid(*parts, indexing="ij")
        weights.append(np.prod([g.ravel() for g in grids], axis=0))
    return points, np.stack(weights)


def _measure(log_integrand: LogIntegrand, owner: np.ndarray, low: np.ndarray, high: np.ndarray) -> _Cells:
    size = max(1, _AT_ONCE // len(_rule(low.shape[1])[0]))
    parts = [
        _measure_some(log_integrand, owner[k : k + size], low[k : k + size], high[k : k + size])
        for k in range(0, len(owner), size)
    ]
    return _join(parts)


def _measure_some(
    log_integrand: LogIntegrand, owner: np.ndarray, low: np.ndarray, high: np.ndarray
) -> _Cells:
    d = low.shape[1]
    points, weights = _rule(d)
    half = 0.5 * (high - low)
    z = (0.5 * (low + high))[:, None, :] + half[:, None, :] * points
    logs = log_integrand(owner, z)
    top = logs.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    mass = np.exp(logs - top[:, None]) * half.prod(axis=1)[:, None]
    square = (z[..., :, None] * z[..., None, :]).reshape(*z.shape[:2], d * d)
    sums = np.einsum(
        "cp,cpk->ck", mass * weights[0], np.concatenate([np.ones_like(z[..., :1]), z, square], 2)
    )
    by_rule = (mass * (1 + (z**2).sum(axis=2))) @ weights.T
    return _Cells(owner, low, high, top, sums, np.abs(by_rule[:, 1:] - by_rule[:, :1]))


def _is_rough(done: list[_Cells], active: _Cells, count: int) -> np.ndarray:
    """Which of the active cells are to be halved."""
    cells = _join([*done, active])
    top, total = _totals(cells, count)
    owner = active.owner
    unit = np.exp(active.top - top[owner]) / np.where(total > 0, total, 1.0)[owner]
    share = active.error.max(axis=1) * unit
    # Kronrod's rule is far better than its difference from Gauss's, the more so the smaller that is.
    rough = np.minimum(share, (200 * share) ** 1.5) > _ERROR[active.low.shape[1]]
    # A cell no wider than rounding cannot be halved.
    wide = (active.high - active.low).max(axis=1) > 1e-13 * np.maximum(np.abs(active.low), 1).max(axis=1)
    few = np.bincount(cells.owner, minlength=count) < _MOST_CELLS
    return np.asarray(rough & wide & few[owner])


def _totals(cells: _Cells, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Per integral the log of a common unit, and the sum weighted by 1 + |z|^2 in it."""
    weight = cells.weight
    top = np.full(count, -np.inf)
    with np.errstate(divide="ignore"):
        np.maximum.at(top, cells.owner, cells.top + np.log(weight))
    top = np.where(np.isfinite(top), top, 0.0)
    return top, np.bincount(cells.owner, np.exp(cells.top - top[cells.owner]) * weight, minlength=count)


def _halve(log_integrand: LogIntegrand, cells: _Cells) -> _Cells:
    """Both halves of each cell, across the axis along which the rules differ most."""
    axis = cells.error.argmax(axis=1)[:, None]
    middle = np.take_along_axis(0.5 * (cells.low + cells.high), axis, 1)
    low, high = cells.low.copy(), cells.high.copy()
    np.put_along_axis(low, axis, middle, 1)
    np.put_along_axis(high, axis, middle, 1)
    owner = np.repeat(cells.owner, 2)
    lows, highs = np.stack([cells.low, low], 1), np.stack([high, cells.high], 1)
    d = low.shape[1]
    return _measure(log_integrand, owner, lows.reshape(-1, d), highs.reshape(-1, d))


def _join(parts: list[_Cells]) -> _Cells:
    return parts[0] if len(parts) == 1 else _Cells(*(np.concatenate(p) for p in zip(*parts, strict=True)))


def _collect(done: list[_Cells], count: int, d: int) -> Integrals:
    cells = _join(done)
    top, _ = _totals(cells, count)
    unit = np.exp(cells.top - top[cells.owner])
    sums = np.zeros((count, 1 + d + d * d))
    np.add.at(sums, cells.owner, unit[:, None] * cells.sums)
    total = np.where(sums[:, 0] > 0, sums[:, 0], 1.0)
    with np.errstate(divide="ignore"):
        logs = np.log(sums[:, 0]) + top
    mean = sums[:, 1 : 1 + d] / total[:, None]
    second = (sums[:, 1 + d :] / total[:, None]).reshape(count, d, d)
    return Integrals(logs, mean, second - mean[:, :, None] * mean[:, None, :], np.zeros(count))
