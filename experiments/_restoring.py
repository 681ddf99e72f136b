"""Conditional machines that restore corrupted images: how every method learns and predicts.

256 hidden units, outputs v the image, features x what is left of it; 784 x 256 + 784 x 784 + 256 x 784
weights and biases, 1,017,104 numbers. Every method has the same loop: batches of 20, momentum 0.5, the rate
out of 0.05, 0.02, 0.01 and 0.005 by the errors on validation images after two epochs on the first 2,000
images, and of all epochs the machine with the fewest errors on validation images. Beliefs have 7 sweeps in
the first epoch and one more in each that follows, tolerance 0.001, no damping. Prediction is by what was
learned with: mean field after chains and mean field, sum-product after BP with as many sweeps as its last
epoch had, mixed-product after MSSVM, max-product after LSSVM.

LR has no hidden units: a logistic regression of every pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from _machines import MODELS, Silhouettes, corrupted, errors, patient, silhouettes
from _tables import Cell, Measured, Published

import credo

__all__ = ["BELIEFS", "CHAINS", "METHODS", "cells", "part", "parts", "predicted"]

RATES = (0.05, 0.02, 0.01, 0.005)
PILOT = 2000  # images
TINY = 500  # images that are not worth a checkpoint


class Method(NamedTuple):
    """How one column of the tables is learned and predicted."""

    phase: str  # options of the learner
    hidden: bool = True
    predict: str = "mean-field"


METHODS = {
    "LR": Method("negative=mean-field", hidden=False),
    "CD-1": Method("negative=cd"),
    "CD-10": Method("negative=cd, sweeps=10"),
    "CD-PercLoss": Method("negative=perc-loss, sweeps=10"),
    "MLE-MF": Method("negative=mean-field"),
    "MLE-BP": Method("negative=bp", predict="bp"),
    "LSSVM": Method("negative=joint-margin", predict="joint"),
    "MSSVM": Method("negative=margin", predict="margin"),
}
CHAINS = ("LR", "CD-1", "CD-10", "CD-PercLoss", "MLE-MF")
BELIEFS = ("MLE-BP", "LSSVM", "MSSVM")


def cells(
    said: dict[str, dict[str, tuple[float, float]]], images: int, epochs: int, belief_epochs: int
) -> list[Cell]:
    """One cell per task, with the published errors of all pixels and of changed ones."""
    sizes = {"images": images, "epochs": epochs, "belief epochs": belief_epochs}
    return [
        Cell(
            {"task": task, **sizes},
            {
                (method, metric): Published(number)
                for method, numbers in rows.items()
                for metric, number in zip(("all", "changed"), numbers, strict=True)
            },
        )
        for task, rows in said.items()
    ]


@cache
def _pairs(name: str, task: str, count: int) -> tuple[Silhouettes, list[np.ndarray]]:
    """Originals, and the three parts corrupted; the same for all methods."""
    data, rng = silhouettes(name).first(count, held=min(count, 2000), test=max(5 * count, 500)), None
    rng = np.random.default_rng(1)
    return data, [corrupted(v, task, rng) for v in (data.x, data.held, data.test)]


def part(cell: Cell, seeds: Sequence[int], *, method: str, data: str) -> list[Measured]:
    """Errors of one method on test images."""
    return [{method: _measured(cell.settings, method, data, seed)} for seed in seeds]


def parts(data: str) -> dict[str, Any]:
    """All methods, to be measured one by one."""
    return {method: partial(part, method=method, data=data) for method in METHODS}


def _measured(about: Any, method: str, name: str, seed: int) -> dict[str, float]:
    own, (data, (x, held, test)) = METHODS[method], _pairs(name, about["task"], about["images"])
    epochs = about["epochs"] if method in CHAINS else about["belief epochs"]
    few = slice(0, min(PILOT, len(x)))

    def fit(rate: float, count: int, rows: slice, path: Any = None) -> Any:
        optimiser = f"sgd(rate={rate}, momentum=0.5)"
        spec = f"boltzmann({own.phase}, batch=20, patience={count + 1}, optimiser={optimiser})"
        with patient():
            return credo.fit(
                _blank(256 if own.hidden else 0), x[rows], spec, targets=data.x[rows],
                validation=(held, data.held), max_iter=count, tol=0, seed=seed, checkpoint=path,
            )  # fmt: skip

    pilots = {rate: fit(rate, min(2, epochs), few).trace["validation"].max() for rate in RATES}
    rate = max(pilots, key=lambda r: pilots[r])
    path = None
    if len(x) > TINY:
        MODELS.mkdir(parents=True, exist_ok=True)
        words = [name, about["task"], method, about["images"], epochs, seed]
        path = MODELS / ("crbm-" + "-".join(str(word) for word in words).replace(" ", "-") + ".credo")
    found = fit(rate, epochs, slice(0, len(x)), path)
    told = errors(predicted(found.model, method, test, 7 + epochs), data.test, test)
    return {
        "all": told.all,
        "changed": told.changed,
        "rate": rate,
        "seconds per epoch": found.seconds / epochs,
    }


def _blank(hidden: int) -> credo.ConditionalRBM:
    return credo.ConditionalRBM(np.zeros((784, hidden)), np.zeros((784, 784)), np.zeros((hidden, 784)))


def predicted(model: credo.ConditionalRBM, method: str, x: np.ndarray, sweeps: int) -> np.ndarray:
    """Restored images, in blocks that bound the memory."""
    way = METHODS[method].predict
    found = []
    with patient():
        for first in range(0, len(x), 2000):
            rows = x[first : first + 2000]
            if way in ("joint", "margin"):
                asked: Any = "all" if way == "joint" else ["visible"]
                states = credo.infer(model, data=rows, maximise=asked, max_iter=sweeps, tol=1e-3).assignment
            else:
                states = credo.infer(model, way, data=rows, max_iter=sweeps, tol=1e-3).marginals
            found.append(np.asarray(states["visible"]) > 0.5)
    return np.concatenate(found)
