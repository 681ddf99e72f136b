"""Gaussian mixtures as messages: draws from their products, and their bandwidths.

A bank holds mixtures (rows, m); a product takes some rows of it, named by `slots` (products, s) with -1 for
none. With labels l_1..l_s fixed, the product of the components is a Gaussian of precision sum 1/v_l; given
the labels of all other factors, component l of one factor is chosen with probability

    p(l) ~ w_l N(mu_l; mean of the others, v_l + variance of the others)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.records import record
from ...families.natural import log_sum
from .edges import log_mixtures
from .tables import shuffle, stratify

__all__ = ["Bank", "bandwidths", "drawn_in", "gibbs_products", "importance_products", "resample"]

_BLOCK = 1 << 20  # numbers held at once
_CANDIDATES = 4  # per draw of importance sampling
_FLAT = 1e-12  # precision of the product of nothing, relative to a component


@record("mixtures")
class Bank(NamedTuple):
    """Mixtures, one per row."""

    means: np.ndarray  # (rows, m)
    log_weights: np.ndarray  # (rows, m) of sum one
    sds: np.ndarray  # (rows,)

    def joined(self, other: Bank) -> Bank:
        """The rows of both."""
        return Bank(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def taken(self, rows: np.ndarray) -> Bank:
        """Some rows."""
        return Bank(*(a[rows] for a in self))

    def log_values(self, points: np.ndarray) -> np.ndarray:
        """Logs of the mixtures at points (rows, p)."""
        return log_mixtures(
            self.means, self.log_weights, np.broadcast_to(self.sds[:, None], self.means.shape), points
        )


def gibbs_products(
    bank: Bank, slots: np.ndarray, count: int, sweeps: int, rng: np.random.Generator
) -> np.ndarray:
    """Draws (products, count) from products of mixtures, by resampling labels in turn."""
    size = max(1, _BLOCK // (count * bank.means.shape[1]))
    parts = [slots[k : k + size] for k in range(0, len(slots), size)]
    return np.concatenate(
        [_gibbs(bank, part, count, sweeps, rng) for part in parts] or [np.zeros((0, count))]
    )


def _gibbs(bank: Bank, slots: np.ndarray, count: int, sweeps: int, rng: np.random.Generator) -> np.ndarray:
    rows, width = slots.shape
    there = slots >= 0
    variances = np.where(there, bank.sds[slots] ** 2, 1.0)
    precisions = np.where(there, 1 / variances, 0.0)
    labels = [_labels(bank.log_weights[slots[:, s]][:, None, :], count, rng) for s in range(width)]
    chosen = np.stack([np.take_along_axis(bank.means[slots[:, s]], labels[s], 1) for s in range(width)])
    for _ in range(sweeps if (there.sum(axis=1) > 1).any() else 0):
        for s in range(width):
            others = [t for t in range(width) if t != s]
            precision = precisions[:, others].sum(axis=1)
            precision = np.maximum(precision, _FLAT / variances[:, s])[:, None]
            mean = sum(precisions[:, t, None] * chosen[t] for t in others) / precision
            spread = (variances[:, s, None] + 1 / precision)[:, :, None]
            means = bank.means[slots[:, s]]
            gap = means[:, None, :] - mean[:, :, None]
            label = _labels(bank.log_weights[slots[:, s]][:, None, :] - 0.5 * gap**2 / spread, count, rng)
            chosen[s] = np.take_along_axis(means, label, 1)
    precision = precisions.sum(axis=1)[:, None]
    mean = np.einsum("rs,src->rc", precisions, chosen) / precision
    return mean + _normals(rows, count, rng) / np.sqrt(precision)


def _labels(logits: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """One label per chain: logits (rows, chains or 1, m) -> (rows, count)."""
    weight = np.exp(logits - logits.max(axis=2, keepdims=True))
    reached = np.cumsum(weight, axis=2)
    uniforms = shuffle(len(logits), count, rng) * reached[:, :, -1]
    return np.minimum((reached < uniforms[:, :, None]).sum(axis=2), logits.shape[2] - 1)


def _normals(rows: int, count: int, rng: np.random.Generator) -> np.ndarray:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(shuffle(rows, count, rng), 1e-15, 1 - 1e-15)))


def importance_products(bank: Bank, slots: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (products, count): candidates from all factors equally, resampled by product over mean."""
    rows, width = slots.shape
    there = slots >= 0
    wanted = _CANDIDATES * count
    pick = np.minimum((rng.random((rows, wanted)) * there.sum(axis=1)[:, None]).astype(np.int64), width - 1)
    order = np.argsort(~there, axis=1, kind="stable")  # slots in use first
    source = np.take_along_axis(np.take_along_axis(slots, order, 1), pick, 1)
    label = np.empty_like(source)
    for s in range(width):
        own = source == slots[:, s : s + 1]
        drawn = _labels(bank.log_weights[slots[:, s]][:, None, :], wanted, rng)
        label[own] = drawn[own]
    x = bank.means[source, label] + bank.sds[source] * _normals(rows, wanted, rng)
    logs = [np.where(there[:, s, None], bank.taken(slots[:, s]).log_values(x), np.nan) for s in range(width)]
    stacked = np.stack(logs)
    mean = log_sum(np.where(np.isnan(stacked), -np.inf, stacked), axis=0)
    return resample(x, np.nansum(stacked, axis=0) - mean, count, rng)


def resample(x: np.ndarray, log_weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` values per row, drawn by their weights."""
    weight = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    reached = np.cumsum(weight, axis=1)
    row = np.arange(len(x))[:, None]
    uniforms = stratify(len(x), count, rng) + row
    index = np.searchsorted((reached / reached[:, -1:] + row).ravel(), uniforms.ravel(), side="right")
    index = np.clip(index.reshape(uniforms.shape) - row * x.shape[1], 0, x.shape[1] - 1)
    return np.take_along_axis(x, index, 1)


def bandwidths(draws: np.ndarray, log_weights: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Silverman's 0.9 min(sd, quartiles / 1.349) (effective number)^(-1/5) for weighted draws (rows, m)."""
    weight = np.exp(log_weights)
    mean = (weight * draws).sum(axis=1, keepdims=True)
    sd = np.sqrt((weight * (draws - mean) ** 2).sum(axis=1))
    order = np.argsort(draws, axis=1)
    ranked = np.take_along_axis(draws, order, 1)
    reached = np.cumsum(np.take_along_axis(weight, order, 1), axis=1)
    last = draws.shape[1] - 1
    quarters = [
        np.take_along_axis(ranked, np.minimum((reached < q).sum(axis=1), last)[:, None], 1)[:, 0]
        for q in (0.25, 0.75)
    ]
    between = (quarters[1] - quarters[0]) / 1.349
    spread = np.where(between > 0, np.minimum(sd, between), sd)
    return np.maximum(0.9 * spread * (weight**2).sum(axis=1) ** 0.2, least)


def drawn_in(draws: np.ndarray, log_weights: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """Means of kernels of these widths: draws moved together so that the mixture keeps their variance."""
    weight = np.exp(log_weights)
    mean = (weight * draws).sum(axis=1, keepdims=True)
    variance = (weight * (draws - mean) ** 2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.sqrt(np.clip(1 - sds**2 / variance, 0.0, 1.0))
    return mean + np.where(variance > 0, share, 0.0)[:, None] * (draws - mean)
