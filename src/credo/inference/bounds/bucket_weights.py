"""Weights of mini-buckets: exponentiated steps that keep every bucket's sum."""

from __future__ import annotations

import numpy as np

from ...kernels.mini_bucket_tables import COLD
from .bucket_passes import BucketPasses

__all__ = ["reweigh"]


def reweigh(
    passes: BucketPasses, weight: np.ndarray, entropy: np.ndarray, rate: float, floor: float, *, lower: bool
) -> np.ndarray:
    """Move weight to the mini-buckets whose variable is most certain given the others.

    The bound's slope in w_r is the conditional entropy H_r >= 0. For an upper bound,

        w_r <- w_r exp( -rate w_r (H_r - Hbar) ),     Hbar = sum_q w_q H_q / t,

    normalised to the temperature t, each keeping at least `floor` of it.
    For a lower bound the negative weights move, w_r <- w_r exp( rate |w_r| (H_1 - H_r) ), and the positive
    one makes up the sum. Nearly zero temperatures stay as they are.
    """
    buckets = passes.buckets
    count = np.diff(buckets.bucket_start)
    filled = np.flatnonzero(count)
    if not len(filled):
        return weight
    start, size = buckets.bucket_start[filled], count[filled]
    group = np.repeat(np.arange(len(filled)), size)
    heat = passes.temperatures[buckets.variable]
    if lower:
        moved = _negative(weight, entropy, rate, start, group)
        return np.where((heat < COLD) | (size[group] == 1), weight, moved)
    mean = np.add.reduceat(weight * entropy, start)[group] / np.maximum(heat, COLD)
    power = np.where(heat < COLD, 0.0, -rate * weight * (entropy - mean))
    grown = weight * np.exp(np.clip(power, -_LARGEST, _LARGEST))
    total = np.add.reduceat(grown, start)[group]
    share = grown / np.where(total > 0, total, 1.0)
    least = np.minimum(floor, 1.0 / size)[group]
    # What exceeds the floor is scaled to the rest, so weights that keep above it stay as they are.
    above = np.maximum(share - least, 0.0)
    rest = np.add.reduceat(above, start)[group]
    share = least + above * (1.0 - least * size[group]) / np.where(rest > 0, rest, 1.0)
    return np.where((heat < COLD) | (size[group] == 1), weight, heat * share)


_LARGEST = 2.0  # most that a weight's logarithm moves in one step
_RANGE = (1e-3, 1e3)  # of negative weights, as shares of the temperature


def _negative(
    weight: np.ndarray, entropy: np.ndarray, rate: float, start: np.ndarray, group: np.ndarray
) -> np.ndarray:
    first = weight > 0
    heat = np.add.reduceat(weight, start)[group]
    positive = np.add.reduceat(np.where(first, entropy, 0.0), start)[group]
    gain = rate * np.abs(weight) * (positive - entropy)
    moved = weight * np.exp(np.clip(gain, -_LARGEST, _LARGEST))
    moved = -np.clip(-moved, _RANGE[0] * heat, _RANGE[1] * heat)
    moved = np.where(first, 0.0, moved)
    return np.where(first, heat - np.add.reduceat(moved, start)[group], moved)
