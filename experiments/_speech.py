"""What experiments on speech share: stretches of features, folded phones, where chains start, scores.

Features are the source's: 13 mel cepstra without energy, alone or with first and second differences (then
each utterance is normalised), scaled to [0, 1] by the training data. A stretch has the windows whose middle
lies in it, at least the one next to its own middle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from _sets import Recording

import credo
from credo.data import speech
from credo.evaluate import score_classes
from credo.families import DiagonalGaussian, Mixture

__all__ = [
    "Stretches",
    "fold_phones",
    "left_to_right",
    "numbers_of_states",
    "scaled",
    "scores",
    "stretches",
]

WINDOW, STEP = 0.025, 0.010  # seconds
FOLDED = {
    "ao": "aa", "ax": "ah", "ax-h": "ah", "axr": "er", "hv": "hh", "ix": "ih", "el": "l", "em": "m",
    "en": "n", "nx": "n", "eng": "ng", "zh": "sh", "ux": "uw",
    **dict.fromkeys(["pcl", "tcl", "kcl", "bcl", "dcl", "gcl", "h#", "pau", "epi"], "sil"),
}  # fmt: skip


class Stretches(NamedTuple):
    """Sequences of features with labels."""

    x: list[np.ndarray]  # (windows, features) each
    y: np.ndarray

    def of(self, labels: Any) -> Stretches:
        """Those with these labels."""
        kept = np.flatnonzero(np.isin(self.y, list(labels)))
        return Stretches([self.x[k] for k in kept], self.y[kept])


def stretches(
    recordings: Sequence[Recording], features: int, change: Callable[[Recording], np.ndarray] | None = None
) -> Stretches:
    """Features of all labelled stretches; `change` may put noise on the samples first."""
    x, y = [], []
    for recording in recordings:
        samples = recording.samples if change is None else change(recording)
        rows = speech.mel_cepstra(samples, recording.rate, window=WINDOW, step=STEP)
        if features == 39:
            rows = speech.normalise_rows(speech.with_differences(rows))
        middle = (WINDOW / 2 + STEP * np.arange(len(rows))) * recording.rate
        for first, end, label in recording.labels:
            inside = (middle >= first) & (middle < end)
            if not inside.any():
                inside[np.abs(middle - (first + end) / 2).argmin()] = True
            x.append(rows[inside])
            y.append(label)
    return Stretches(x, np.array(y))


def fold_phones(found: Stretches) -> Stretches:
    """The 61 phones of TIMIT as 39; the glottal stop is left out."""
    kept = np.flatnonzero(found.y != "q")
    labels = np.array([FOLDED.get(label, label) for label in found.y[kept].tolist()])
    return Stretches([found.x[k] for k in kept], labels)


def scaled(train: Stretches, *others: Stretches) -> tuple[Stretches, ...]:
    """All features in units of the range of the training data."""
    rows = np.concatenate(train.x)
    low, high = rows.min(axis=0), rows.max(axis=0)
    wide = np.where(high > low, high - low, 1.0)
    return tuple(Stretches([(x - low) / wide for x in part.x], part.y) for part in (train, *others))


def numbers_of_states(train: Stretches) -> dict[str, int]:
    """Half the mean length of the stretches of a label, from 3 to 5."""
    lengths = np.array([len(x) for x in train.x])
    return {
        label: int(np.clip(lengths[train.y == label].mean() // 2, 3, 5))
        for label in np.unique(train.y).tolist()
    }


def left_to_right(sequences: Sequence[np.ndarray], states: int, components: int, seed: int) -> credo.HMM:
    """A chain that begins in its first state and never goes back; each state starts on its share of time."""
    rng = np.random.default_rng(seed)
    transition = np.triu(np.abs(rng.standard_normal((states, states))) + 0.1)
    whole = np.concatenate(sequences)
    spread = np.maximum(whole.var(axis=0), 1e-4)
    means, variances = [], []
    for state in range(states):
        own = np.concatenate([x[_share(len(x), states) == state] for x in sequences])
        own = own if len(own) else whole
        chosen = own[rng.permutation(len(own))[np.arange(components) % len(own)]]
        means.append(chosen if components > 1 else own.mean(axis=0, keepdims=True))
        variances.append(np.tile(np.maximum(own.var(axis=0), 0.1 * spread), (components, 1)))
    members = DiagonalGaussian(np.concatenate(means), np.concatenate(variances))
    emission = members if components == 1 else Mixture(np.full((states, components), 1 / components), members)
    start = np.eye(states)[0]
    return credo.HMM(start, transition / transition.sum(axis=1, keepdims=True), emission)


def _share(length: int, states: int) -> np.ndarray:
    """The state of each window where all last equally long."""
    return np.arange(length) * states // length


def scores(truth: Any, found: Any) -> dict[str, float]:
    """In per cent, as the source prints them; precision and F1 weighted by the rows of classes."""
    told = score_classes(truth, found)
    return {
        "accuracy": 100 * told.accuracy,
        "precision": 100 * told.weighted_precision,
        "F1": 100 * told.weighted_f1,
        "macro F1": 100 * told.macro_f1,
    }
