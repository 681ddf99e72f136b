"""Segmentation of noisy pictures with labels that miss (Section 4.7.2, Fig. 4.5).

One picture of five regions, drawn here (bands, a disc, a rectangle; the source's is not to be had), seen
through noise N(0, 5) (variance 5). A label has the features (1, x, x^2) of its field, edges one table. A
share of the labels is hidden at random in learning. C = 1, Hamming loss, `bp` in learning and in prediction.
All methods start from the weights of ten steps of L-BFGS on the likelihood and go on by sub-gradient descent
(the source: CCCP from zero, where max-margin learning found nothing lower here); the step size is chosen per
method on validation pictures. The source prints curves and no numbers: MSSVM above at every rate, LSSVM
falling strongly as the rate grows, HCRF between.
Accuracy is of all fields of test pictures, none of which has labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from _structured import METHODS, best_labels, compared
from _tables import Cell, Measured, Table

import credo
from credo.core.errors import ConvergenceWarning

LABELS = tuple(str(k) for k in range(1, 6))
NOISE = 5.0**0.5
RATES = (0.002, 0.0003)
WARM = 10  # steps of the start
MISSING = (10, 30, 50, 75, 95)  # per cent


def picture(height: int, width: int) -> np.ndarray:
    """The true labels, 0 to 4."""
    rows, columns = np.mgrid[:height, :width]
    found = np.where(rows < height / 2, 0, 1)
    found[np.abs(columns - 0.2 * width) < 0.1 * width] = 2
    found[(rows - 0.5 * height) ** 2 + ((columns - 0.55 * width) * 0.7) ** 2 < (0.3 * height) ** 2] = 3
    found[(rows > 0.6 * height) & (columns > 0.75 * width)] = 4
    return found


def pairs_of(height: int, width: int) -> np.ndarray:
    """Neighbouring fields."""
    at = np.arange(height * width).reshape(height, width)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    return np.concatenate([across, np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)])


def seen(truth: np.ndarray, count: int, rng: np.random.Generator) -> list[Any]:
    """Noisy pictures as a CRF reads them."""
    found, pairs = [], pairs_of(*truth.shape)
    for _ in range(count):
        x = truth.ravel() + 1 + NOISE * rng.standard_normal(truth.size)
        found.append((np.stack([np.ones_like(x), x / 3, x**2 / 9], axis=1), pairs))
    return found


def hidden_labels(truth: np.ndarray, count: int, rate: float, rng: np.random.Generator) -> list[list[Any]]:
    """Labels of pictures, some of them None."""
    names = [LABELS[k] for k in truth.ravel()]
    hide = rng.random((count, truth.size)) < rate
    return [[None if h else name for h, name in zip(row, names, strict=True)] for row in hide]


def accuracy(field: Any, X: Any, truth: np.ndarray, method: str) -> float:
    """Share of fields that are right."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if method == "HCRF":
            told = np.stack([np.asarray(p).astype(int) - 1 for p in credo.predict(field, X, inference="bp")])
        else:
            names = [[LABELS[0]] * truth.size for _ in X]
            told = best_labels(field, X, names, METHODS[method], "bp")
    return float((told == truth.ravel()).mean())


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """All methods on the same pictures."""
    about, found = cell.settings, []
    truth = picture(about["height"], about["width"])
    count = about["pictures"]
    for seed in seeds:
        rng = np.random.default_rng([seed, 3])
        parts = [seen(truth, n, rng) for n in (count, 5, count)]
        y = hidden_labels(truth, count, about["missing %"] / 100, rng)
        first = _learned(
            credo.CRF(LABELS, np.zeros((3, 5)), np.zeros((5, 5))), parts[0], y, "hcrf", "lbfgs", WARM
        )
        scores = {m: {"accuracy": _best(m, first, parts, y, truth, about["steps"])} for m in METHODS}
        found.append(compared(scores))
    return found


def _learned(field: Any, X: Any, y: Any, member: str, optimiser: str, steps: int) -> Any:
    learner = f"structured(objective={member}, optimiser={optimiser}, prior=gaussian(scale=1))"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(field, X, learner, targets=y, max_iter=steps, tol=1e-5, seed=0, inference="bp").model


def _best(method: str, first: Any, parts: Sequence[Any], y: Any, truth: np.ndarray, steps: int) -> float:
    """Test accuracy of the step size that is best on the validation pictures."""
    best = (-1.0, 0.0)
    for rate in RATES:
        descent = f"subgradient(rate={rate}, decay=0.05)"
        field = _learned(first, parts[0], y, METHODS[method], descent, steps)
        held = accuracy(field, parts[1], truth, method)
        if held > best[0]:
            best = (held, accuracy(field, parts[2], truth, method))
    return 100 * best[1]


TABLE = Table(
    name="segmentation",
    title="Noisy pictures with missing labels, accuracy %",
    cells=[
        Cell({"missing %": rate, "height": 10, "width": 20, "pictures": 10, "steps": 30}) for rate in MISSING
    ],
    measure=measure,
    repeats=1,
    metrics=("accuracy",),
    quick=(Cell({"missing %": 50, "height": 4, "width": 6, "pictures": 2, "steps": 2}),),
    quick_repeats=1,
    form=".2f",
    chunk=1,
)

if __name__ == "__main__":
    TABLE.main()
