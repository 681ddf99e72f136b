"""Functions of one variable held by their values at rising points: many at once, one per row.

    density between points k and k+1:   (f_k + f_{k+1}) / 2, constant: what is drawn from is known exactly
    integral of a function g:           sum_k w_k g_k,  w_k of the trapezoidal rule on any points,
                                        or of Gauss and Legendre's on the points of panels

Points, or the edges of panels, follow the function: half of them at equal masses, half at equal distances
over where it is not negligible.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "at_equal_masses",
    "draw",
    "improper",
    "log_widths",
    "moments",
    "refine",
    "shuffle",
    "stratify",
]

NEGLIGIBLE = 30.0  # nats below the maximum
_BELOW_ONE = 1 - 1e-9  # a quantile beyond the last mass would have no density
_FLAT = 12.0  # an end less than this below the maximum is not the end of the function


def log_widths(points: np.ndarray) -> np.ndarray:
    """Logs of the weights of the trapezoidal rule; -inf where points coincide."""
    gaps = np.diff(points, axis=1)
    widths = 0.5 * (np.pad(gaps, ((0, 0), (1, 0))) + np.pad(gaps, ((0, 0), (0, 1))))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(widths))


def moments(points: np.ndarray, log_mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of weighted points; weights are given by their logs up to a constant."""
    weight = _shares(log_mass)
    mean = (weight * points).sum(axis=1)
    return mean, (weight * (points - mean[:, None]) ** 2).sum(axis=1)


def _shares(log_mass: np.ndarray) -> np.ndarray:
    top = log_mass.max(axis=1, keepdims=True)
    weight = np.exp(log_mass - np.where(np.isneginf(top), 0.0, top))
    return np.asarray(weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300))


def stratify(rows: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rising numbers in [0, 1), one in each of `count` equal intervals, per row."""
    return np.asarray((np.arange(count) + rng.random((rows, count))) / count)


def shuffle(rows: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """The same in random order: to be combined with other stratified numbers."""
    return rng.permuted(stratify(rows, count, rng), axis=1)


def _cells(points: np.ndarray, log_values: np.ndarray) -> np.ndarray:
    """Shares of the mass between neighbouring points; equal where a row is zero everywhere."""
    top = log_values.max(axis=1, keepdims=True)
    values = np.exp(log_values - np.where(np.isneginf(top), 0.0, top))
    mass = 0.5 * (values[:, 1:] + values[:, :-1]) * np.diff(points, axis=1)
    total = mass.sum(axis=1, keepdims=True)
    return np.where(total > 0, mass / np.where(total > 0, total, 1.0), 1 / mass.shape[1])


def draw(points: np.ndarray, log_values: np.ndarray, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values with the density of each row, and the logs of that density there.

    `uniforms`, (rows, count), are numbers in [0, 1) whose quantiles are taken.
    """
    share = _cells(points, log_values)
    uniforms = np.minimum(uniforms, _BELOW_ONE)
    reached = np.cumsum(share, axis=1)
    reached /= reached[:, -1:]
    row = np.arange(len(points))[:, None]
    flat = np.searchsorted((reached + row).ravel(), (uniforms + row).ravel(), side="right")
    cell = np.minimum(flat.reshape(uniforms.shape) - row * share.shape[1], share.shape[1] - 1)
    cell = np.maximum(cell, 0)
    before = np.take_along_axis(np.pad(reached, ((0, 0), (1, 0)))[:, :-1], cell, 1)
    own = np.take_along_axis(share, cell, 1)
    low, high = np.take_along_axis(points, cell, 1), np.take_along_axis(points, cell + 1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        within = np.clip(np.where(own > 0, (uniforms - before) / own, 0.5), 0.0, 1.0)
        return low + within * (high - low), np.log(own) - np.log(high - low)


def at_equal_masses(points: np.ndarray, log_values: np.ndarray, count: int) -> np.ndarray:
    """Quantiles of each row at the middle of `count` equal masses."""
    middle = np.broadcast_to((np.arange(count) + 0.5) / count, (len(points), count))
    return draw(points, log_values, middle)[0]


def panels(edges: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Points between rising edges (rows, m + 1), `order` in each panel, and the logs of their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half = 0.5 * np.diff(edges, axis=1)[:, :, None]
    points = 0.5 * (edges[:, 1:] + edges[:, :-1])[:, :, None] + half * nodes
    with np.errstate(divide="ignore"):
        log_weights = np.log(half * weights)
    shape = (len(edges), order * (edges.shape[1] - 1))
    return points.reshape(shape), log_weights.reshape(shape)


def refine(
    points: np.ndarray, log_values: np.ndarray, *, widen: bool, count: int | None = None
) -> np.ndarray:
    """New points per row (as many, or `count`), closer to where the function is.

    With `widen`, they reach further on a side where the function does not end.
    """
    size = points.shape[1]
    count = size if count is None else count
    top = log_values.max(axis=1, keepdims=True)
    rows = np.arange(len(points))
    seen = log_values >= top - NEGLIGIBLE
    first, last = seen.argmax(axis=1), size - 1 - seen[:, ::-1].argmax(axis=1)
    low, high = points[rows, np.maximum(first - 1, 0)], points[rows, np.minimum(last + 1, size - 1)]
    if widen:
        span = high - low
        low, high = np.where(first == 0, low - span, low), np.where(last == size - 1, high + span, high)
    # A wall, where the function falls to zero at once, is between the outermost two points on its side.
    within = np.linspace(points[rows, first], points[rows, last], count - count // 2 - 2, axis=1)
    dense = at_equal_masses(points, log_values, count // 2)
    return np.sort(np.concatenate([low[:, None], within, high[:, None], dense], axis=1), axis=1)


def improper(log_values: np.ndarray) -> np.ndarray:
    """Which rows do not fall off towards both ends."""
    top = log_values.max(axis=1)
    return np.asarray(np.isneginf(top) | (np.maximum(log_values[:, 0], log_values[:, -1]) > top - _FLAT))
