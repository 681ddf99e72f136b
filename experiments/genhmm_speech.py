"""Speech by chains that emit mixtures of flows, beside mixtures of Gaussians (Tables 7.2 to 7.7).

One model per word or phone, left to right, with as many states for both families; the one under which a
stretch is most probable names it. Two sets stand in for the 6,300 sentences of TIMIT:

    FSDD           1,200 spoken digits of 6 speakers, freely licensed; each speaker in turn is left out
    TIMIT sample   160 of the real sentences, of 16 speakers: 4 speakers in turn are left out, and sentences
                   sa1, sa2; 61 phones as 39 (or 61, without those of fewer than 8 training stretches)

Published numbers are those of all of TIMIT and stand beside the sample only; with some 60 stretches per phone
the order of the methods may be another one. Noise is put on the test sentences.

GMM-HMM   diagonal Gaussians, Baum-Welch, at most 60 passes
GenHMM    4 affine couplings of three layers of 24 (the source: 8), each flow starting as the Gaussian of its
          state and component in a GMM-HMM; generalised EM by mini-batches, at most 30 passes; the accuracy on
          training speakers that are held out, a fifth of them, says how many, and then all of them are
          learned from for so long

Rows of one fold compare the two on the same test speakers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from _chains import with_flows
from _orders import OrderedTable, not_below
from _per_class import learn_parts
from _per_class import train as train_parts
from _sets import Recording, fsdd, noises, timit
from _speech import Stretches, fold_phones, left_to_right, numbers_of_states, scaled, scores, stretches
from _tables import Cell, Measured, Published
from scipy.signal import resample_poly

from credo.core.errors import ConvergenceWarning
from credo.data.speech import mix_noise
from credo.estimators import MaximumLikelihoodClassifier

PASSES = 60
BIJECTION = "actnorm + coupling(layers=4, width=24, depth=2)"
LEARNER = "gradient-em(batch=512, refresh=5, rate=0.002)"
PARTS = 6  # of five passes each
FLOOR = 1e-4  # of variances; features lie in [0, 1]
FOLDS = {"FSDD": 6, "TIMIT sample": 4}
LEAST = 8  # training stretches of a phone
NOISES = ("white", "pink", "babble", "car")

# Accuracy, precision and F1 for K = 1, 3, 5, of GMM-HMM and of GenHMM.
SAID = {
    "7.2": ((62.3, 68.0, 68.7), (67.9, 72.6, 73.0), (63.7, 69.1, 69.7),
            (76.7, 77.7, 77.7), (76.9, 78.1, 78.0), (76.1, 77.1, 77.0)),
    "7.3": ((53.6, 59.6, 61.9), (59.1, 63.9, 65.7), (54.7, 60.5, 62.7),
            (69.5, 70.6, 70.7), (69.2, 70.5, 71.0), (68.6, 69.6, 69.6)),
    "7.4": ((48.5, 51.2, 52.4), (56.2, 58.3, 59.5), (50.3, 53.0, 54.2),
            (61.1, 62.1, 62.1), (61.1, 61.9, 62.1), (59.7, 60.7, 60.2)),
    "7.5": ((37.1, 40.6, 42.2), (44.6, 47.4, 48.8), (38.8, 42.1, 43.7),
            (50.3, 50.8, 52.3), (49.3, 50.9, 52.1), (47.8, 48.3, 49.3)),
}  # fmt: skip
NOISY = {
    ("7.6", "white", 15): (36.6, 59.2, 39.9, 52.4, 60.0, 52.5),
    ("7.6", "white", 20): (44.2, 64.2, 47.7, 62.0, 65.9, 62.0),
    ("7.6", "white", 25): (50.8, 68.4, 53.9, 69.7, 71.7, 69.3),
    ("7.6", "white", 30): (57.1, 70.6, 59.9, 74.3, 74.8, 73.5),
    ("7.7", "pink", 20): (48.8, 66.1, 52.3, 65.1, 67.8, 64.6),
    ("7.7", "babble", 20): (57.7, 67.0, 59.7, 70.0, 70.4, 69.0),
    ("7.7", "car", 20): (66.6, 71.9, 67.8, 75.7, 75.9, 75.3),
}
METHODS, METRICS = ("GMM-HMM", "GenHMM"), ("accuracy", "precision", "F1")
SHAPE = {"7.2": (39, 39), "7.3": (39, 61), "7.4": (13, 39), "7.5": (13, 61)}  # features, phones


def _published(numbers: Sequence[float]) -> dict[tuple[str, str], Published]:
    places = [(method, metric) for method in METHODS for metric in METRICS]
    return {place: Published(number) for place, number in zip(places, numbers, strict=True)}


def _cells() -> list[Cell]:
    found = []
    for k in (1, 3, 5):
        # Models learned for the first row are those of the noisy ones too.
        found.append(Cell({"data": "FSDD", "features": 39, "K": k, "folds": 6}))
        for noise in ("white", "babble"):
            about = {"data": "FSDD", "noise": noise, "SNR": 20}
            found.append(Cell({**about, "features": 39, "K": k, "folds": 6}))
    found += [_timit("7.2", k, 1) for k in (1, 3, 5)]
    for table in ("7.3", "7.4", "7.5"):
        found += [_timit(table, k, 1) for k in (1, 3, 5)]
    for (table, noise, snr), numbers in NOISY.items():
        settings = {"data": "TIMIT sample", "table": f"Table {table}", "noise": noise, "SNR": snr}
        settings |= {"features": 39, "phones": 39, "K": 3, "folds": 1}
        found.append(Cell(settings, _published(numbers)))
    found += [Cell({"data": "FSDD", "features": 13, "K": k, "folds": 6}) for k in (1, 3, 5)]
    return found + [_timit("7.2", k, 4) for k in (1, 3, 5)]


def _timit(table: str, k: int, folds: int) -> Cell:
    """A column of one of the source's tables."""
    features, phones = SHAPE[table]
    settings = {"data": "TIMIT sample", "table": f"Table {table}", "features": features, "phones": phones}
    said = _published([row[(1, 3, 5).index(k)] for row in SAID[table]])
    return Cell({**settings, "K": k, "folds": folds}, said)


@lru_cache(maxsize=2)
def split(data: str, features: int, phones: int, fold: int, small: bool) -> tuple[Stretches, ...]:
    """Training and test stretches of a fold, and the training speaker of each."""
    recordings = _recordings(data, small)
    speakers = sorted({r.speaker for r in recordings})
    out = speakers[fold :: FOLDS[data]]
    train = [r for r in recordings if r.speaker not in out]
    test = [r for r in recordings if r.speaker in out]
    return (*scaled(_labelled(data, phones, train, features), _labelled(data, phones, test, features)),)


def _recordings(data: str, small: bool) -> list[Recording]:
    found = fsdd() if data == "FSDD" else [r for r in timit() if r.name not in ("sa1", "sa2")]
    return (
        [r for r in found if r.name[-1] in "01" and r.name[0] in "012"] if small and data == "FSDD" else found
    )


def _labelled(
    data: str, phones: int, recordings: Sequence[Recording], features: int, change: Any = None
) -> Stretches:
    found = stretches(recordings, features, change)
    return fold_phones(found) if data != "FSDD" and phones == 39 else found


@lru_cache(maxsize=12)
def gaussian_chains(data: str, features: int, phones: int, fold: int, components: int, small: bool) -> Any:
    """The classifier of Gaussian mixtures."""
    train, _ = split(data, features, phones, fold, small)
    train = _frequent(train)
    states = numbers_of_states(train)

    def start(label: Any, sequences: Any) -> Any:
        return left_to_right(sequences, states[label], components, seed=fold)

    made = MaximumLikelihoodClassifier(
        start, learner=f"em(floor={FLOOR})", options={"max_iter": 5 if small else PASSES}, random_state=fold
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return made.fit(train.x, train.y)


def _frequent(train: Stretches) -> Stretches:
    labels, counts = np.unique(train.y, return_counts=True)
    return train.of(labels[counts >= LEAST])


@lru_cache(maxsize=6)
def flow_chains(data: str, features: int, phones: int, fold: int, components: int, small: bool) -> Any:
    """The classifier of mixtures of flows."""
    train, _ = split(data, features, phones, fold, small)
    speakers = _speakers(data, features, phones, fold, small)
    kept = np.isin(train.y, _frequent(train).y)
    x, y, speakers = [train.x[k] for k in np.flatnonzero(kept)], train.y[kept], speakers[kept]
    gaussian = gaussian_chains(data, features, phones, fold, components, small).models_

    def begun() -> MaximumLikelihoodClassifier:
        def start(label: Any, sequences: Any) -> Any:
            return with_flows(gaussian[label], sequences, BIJECTION, fold)

        return MaximumLikelihoodClassifier(start, learner=LEARNER, warm_start=True, random_state=fold)

    names = np.unique(speakers)
    held = np.isin(speakers, names[::5])  # one of five of FSDD, three of twelve of TIMIT
    parts = (1,) if small else (1,) * PARTS
    found = train_parts(begun(), x, y, parts, fold, {}, mask=held, patience=2)
    return learn_parts(begun(), x, y, parts[: found.epoch])


def _speakers(data: str, features: int, phones: int, fold: int, small: bool) -> np.ndarray:
    """The speaker of every training stretch."""
    recordings = _recordings(data, small)
    names = sorted({r.speaker for r in recordings})
    found = []
    for r in recordings:
        if r.speaker not in names[fold :: FOLDS[data]]:
            found += [r.speaker for *_, label in r.labels if data == "FSDD" or phones == 61 or label != "q"]
    return np.array(found)


def measure_flows(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """The scores of mixtures of flows in every fold."""
    return [_measured(cell, fold, "GenHMM", flow_chains) for fold in seeds]


def measure_gaussian(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """The scores of Gaussian mixtures in every fold."""
    return [_measured(cell, fold, "GMM-HMM", gaussian_chains) for fold in seeds]


def _measured(cell: Cell, fold: int, method: str, learned: Any) -> Measured:
    about = cell.settings
    if fold >= about["folds"]:
        return {}
    data, features, phones, small = about["data"], about["features"], about.get("phones", 10), "size" in about
    classifier = learned(data, features, phones, fold, about["K"], small)
    test = _noisy(about, fold) if "noise" in about else split(data, features, phones, fold, small)[1]
    test = test.of(classifier.classes_.tolist())
    return {method: scores(test.y, classifier.predict(test.x))}


def _noisy(about: Any, fold: int) -> Stretches:
    """The test stretches of a fold with noise on their sentences."""
    recordings = _recordings(about["data"], False)
    speakers = sorted({r.speaker for r in recordings})
    out = speakers[fold :: FOLDS[about["data"]]]
    rng = np.random.default_rng(fold)

    def change(recording: Recording) -> np.ndarray:
        return mix_noise(recording.samples, noise_at(about["noise"], recording.rate), about["SNR"], rng)

    shape = about["data"], about.get("phones", 10)
    train = _labelled(*shape, [r for r in recordings if r.speaker not in out], about["features"])
    test = _labelled(*shape, [r for r in recordings if r.speaker in out], about["features"], change)
    return scaled(train, test)[1]


@lru_cache(maxsize=2)
def noise_at(name: str, rate: int) -> np.ndarray:
    """Noise with so many samples a second, a divisor of its own 16,000."""
    return resample_poly(noises()[name], 1, 16000 // rate)


TABLE = OrderedTable(
    "genhmm-speech",
    __doc__.splitlines()[0],
    _cells(),
    {"gaussian": measure_gaussian, "flows": measure_flows},
    repeats=6,
    quick=[Cell({"data": "FSDD", "features": 13, "K": 1, "folds": 1, "size": "60 recordings, 5 passes"})],
    quick_repeats=1,
    metrics=(*METRICS, "macro F1"),
    form=".1f",
    chunk=1,
    orders=(
        not_below("GenHMM", "GMM-HMM", "accuracy", "clean ", noise=None),
        *(not_below("GenHMM", "GMM-HMM", "accuracy", f"noisy ({n}) ", noise=n) for n in NOISES),
    ),
)

if __name__ == "__main__":
    TABLE.main()
