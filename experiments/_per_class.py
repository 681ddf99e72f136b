"""One density per class, learned for some epochs at a time, the epoch chosen by rows that are held out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from credo.core.errors import ConvergenceWarning
from credo.estimators import MaximumLikelihoodClassifier

__all__ = ["Trained", "held_out", "learn_parts", "train"]


class Trained(NamedTuple):
    """A classifier where it did best on rows held out, and how it came there."""

    classifier: MaximumLikelihoodClassifier
    epoch: int
    curves: dict[str, list[float]]  # accuracy after each part of the epochs


def held_out(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    """A mask of about this share of the rows, of each class alike."""
    rng, mask = np.random.default_rng(seed), np.zeros(len(y), bool)
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        mask[rng.permutation(own)[: max(1, round(share * len(own)))]] = True
    return mask


def train(
    classifier: MaximumLikelihoodClassifier, x: Any, y: np.ndarray, parts: Sequence[int], seed: int,
    watched: dict[str, tuple[Any, np.ndarray]], *, mask: np.ndarray | None = None, patience: int = 100,
) -> Trained:  # fmt: skip
    """Learn part by part of the epochs, and keep the part after which the held-out rows are told apart best.

    Parameters
    ----------
    classifier
        With `warm_start`; its options get `max_iter`.
    x, y
        To learn from; sequences are a list.
    parts
        Epochs of each part.
    watched
        Name -> rows and labels whose accuracy is recorded too.
    mask
        Rows that are held out; a tenth by default.
    patience
        Parts without a better accuracy of these after which there are no more.
    """
    mask = held_out(y, 0.1, seed) if mask is None else mask
    learned, seen = _taken(x, ~mask), _taken(x, mask)
    best, accuracy, epoch, done, since = None, -1.0, 0, 0, 0
    curves: dict[str, list[float]] = {name: [] for name in ("held out", *watched)}
    for many in parts:
        learn_parts(classifier, learned, y[~mask], [many])
        done += many
        curves["held out"].append(classifier.score(seen, y[mask]))
        for name, (rows, labels) in watched.items():
            curves[name].append(classifier.score(rows, labels))
        if curves["held out"][-1] > accuracy:
            accuracy, epoch, best, since = curves["held out"][-1], done, classifier.fits_, 0
        else:
            since += 1
        if since >= patience:
            break
    classifier.fits_ = best
    return Trained(classifier, epoch, curves)


def learn_parts(
    classifier: MaximumLikelihoodClassifier, x: Any, y: np.ndarray, parts: Sequence[int]
) -> MaximumLikelihoodClassifier:
    """Go on for so many iterations, part by part; steps of every part begin afresh."""
    for many in parts:
        classifier.options = {**(classifier.options or {}), "max_iter": many}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            classifier.fit(x, y)
    return classifier


def _taken(x: Any, mask: np.ndarray) -> Any:
    return [x[k] for k in np.flatnonzero(mask)] if isinstance(x, list) else x[mask]
