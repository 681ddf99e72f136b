"""What the experiments on Boltzmann machines share: binary images, corruptions, errors, likelihoods.

MNIST: the first 50,000 images to learn from, the last 10,000 of its training part to choose by, its test
part. *threshold* images are on where a pixel is above 127; *drawn* ones are drawn once with the probability
grey / 255 (seed 0), and likelihoods of the two are not comparable. Caltech-101 silhouettes come in three
parts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from _common import OUT
from _sets import DATA, images, needs

import credo
from credo.core.errors import ConvergenceWarning

__all__ = [
    "MODELS",
    "Errors",
    "Silhouettes",
    "ais",
    "corrupted",
    "errors",
    "patient",
    "silhouettes",
]

MODELS = OUT / "models"
_SIDE = 28


class Silhouettes(NamedTuple):
    """Binary images, one per row, in three parts, with labels."""

    x: np.ndarray
    held: np.ndarray  # to choose by
    test: np.ndarray
    y: np.ndarray
    held_y: np.ndarray
    test_y: np.ndarray

    def first(self, count: int, held: int = 2000, test: int = 10_000) -> Silhouettes:
        """The first of each part."""
        x, y = self.x[:count], self.y[:count]
        return Silhouettes(x, self.held[:held], self.test[:test], y, self.held_y[:held], self.test_y[:test])


@cache
def silhouettes(name: str) -> Silhouettes:
    """`mnist threshold`, `mnist drawn`, `mnist grey` (probabilities) or `caltech`."""
    if name == "caltech":
        needs("caltech101_silhouettes")
        file = np.load(DATA / "caltech101_silhouettes" / "caltech101_silhouettes_28_split1.npz")
        parts = ("train", "val", "test")
        x = [np.unpackbits(file[f"{part}_x"], axis=1).astype(np.float32) for part in parts]
        return Silhouettes(*x, *(file[f"{part}_y"].astype(int) for part in parts))
    found, kind = images("mnist"), name.split()[1]
    rng = np.random.default_rng(0)

    def binary(grey: np.ndarray, *, is_test: bool) -> np.ndarray:
        flat = grey.reshape(len(grey), -1)
        if kind == "threshold":
            return (flat > 127).astype(np.float32)
        if kind == "grey" and not is_test:
            return flat.astype(np.float32) / 255
        return (rng.random(flat.shape, dtype=np.float32) < flat / np.float32(255)).astype(np.float32)

    x, test = binary(found.x, is_test=False), binary(found.test_x, is_test=True)
    y, test_y = found.y.astype(int), found.test_y.astype(int)
    return Silhouettes(x[:50_000], x[50_000:], test, y[:50_000], y[50_000:], test_y)


def corrupted(v: np.ndarray, task: str, rng: np.random.Generator) -> np.ndarray:
    """Images with noise, `flip 10` per cent, or a patch somewhere, `patch 8 to 0` or `patch 12 to 1`."""
    kind, size, *more = task.split()
    x = v.copy()
    if kind == "flip":
        flips = rng.random(v.shape, dtype=np.float32) < int(size) / 100
        x[flips] = 1 - x[flips]
        return x
    side, value = int(size), float(more[-1])
    square = x.reshape(-1, _SIDE, _SIDE)
    for image, (row, column) in zip(square, rng.integers(0, _SIDE - side + 1, (len(v), 2)), strict=True):
        image[row : row + side, column : column + side] = value
    return x


class Errors(NamedTuple):
    """Per cent of wrong pixels."""

    all: float
    changed: float  # of those that the corruption changed; NaN where it changed none


def errors(found: np.ndarray, v: np.ndarray, x: np.ndarray) -> Errors:
    """Restored images beside the originals v and what was given, x."""
    wrong, changed = (found > 0.5) != (v > 0.5), (x > 0.5) != (v > 0.5)
    return Errors(
        100 * float(wrong.mean()), 100 * float(wrong[changed].mean()) if changed.any() else float("nan")
    )


@contextmanager
def patient() -> Iterator[None]:
    """Runs that end with their epochs are meant to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def ais(model: Any, temperatures: int, direction: str = "forward", chains: int = 100) -> Any:
    """An estimate of log Z with its standard error."""
    spec = (
        f"ais(temperatures={temperatures}, chains={chains}, schedule=late, direction={direction}, error=1e9)"
    )
    return credo.infer(model, spec, seed=0).log_z
