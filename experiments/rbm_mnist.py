"""A restricted Boltzmann machine with 500 hidden units on MNIST, and small ones whose likelihood is exact.

Binarisation: drawn; learning draws every image anew in each step with probability grey / 255
(`binarise=True`), the test images are drawn once. PCD with one sweep and 100 chains, batches of 100, rate
0.05 falling in a straight line to zero over the epochs of the row, no momentum, no decay; visible biases
begin at the log-odds of the data. CD-1 has the same settings. 50,000 images, all 10,000 test images.

log Z comes from annealed importance sampling with 100 chains; *reverse* comes back from the model, and both
agree where the chains follow. For 20 units log Z is exact, and *error of AIS* is the difference. The
published number is that of Salakhutdinov and Murray (2008), who learned with up to 25 sweeps of CD.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from _machines import MODELS, ais, patient, silhouettes
from _tables import Cell, Measured, Published, Table

import credo

CELLS = [
    Cell({"hidden": 20, "images": 50_000, "epochs": 10, "temperatures": 14_500}),
    Cell({"hidden": 500, "images": 50_000, "epochs": 10, "temperatures": 14_500}),
    Cell({"hidden": 500, "images": 50_000, "epochs": 60, "temperatures": 14_500}),
    Cell(
        {"hidden": 500, "images": 50_000, "epochs": 250, "temperatures": 14_500},
        {("PCD-1", "log-likelihood"): Published(-86.34)},
    ),
]
QUICK = Cell({"hidden": 10, "images": 1000, "epochs": 2, "temperatures": 300})


def measure(cell: Cell, seeds: Sequence[int], negative: str) -> list[Measured]:
    """Learn, then ask for the likelihood of test images."""
    return [{f"{negative.upper()}-1": _measured(cell, seed, negative)} for seed in seeds]


def _measured(cell: Cell, seed: int, negative: str) -> dict[str, float]:
    about = cell.settings
    data = silhouettes("mnist grey")
    x, test = data.x[: about["images"]], data.test[: about["images"]]
    path = None
    if about["images"] > 1000:
        MODELS.mkdir(parents=True, exist_ok=True)
        path = MODELS / f"rbm-{negative}-{about['hidden']}-{about['images']}-{about['epochs']}-{seed}.credo"
    rate = f"sgd(rate=0.05, ends={about['epochs']})"
    with patient():
        fit = credo.fit(
            credo.RBM.blank(about["hidden"]),
            x,
            f"boltzmann(negative={negative}, binarise=True, optimiser={rate})",
            max_iter=about["epochs"],
            tol=0,
            seed=seed,
            checkpoint=path,
        )
        return _scores(fit.model, x, test, about) | {"seconds per epoch": fit.seconds / about["epochs"]}


def _scores(model: credo.RBM, x: np.ndarray, test: np.ndarray, about: object) -> dict[str, float]:
    assert isinstance(about, dict)
    score = float(-model.free_energy(test).mean())
    drawn = (np.random.default_rng(0).random(x.shape, dtype=np.float32) < x)[: len(test)]
    there, back = (ais(model, about["temperatures"], way) for way in ("forward", "reverse"))
    found = {
        "log-likelihood": score - there.value,
        "reverse": score - back.value,
        "error bar": 3 * float(there.error),
        "training images": float(-model.free_energy(drawn).mean()) - there.value,
    }
    if about["hidden"] <= 20:
        exact = model.log_z()
        found |= {"exact": score - exact, "error of AIS": there.value - exact}
    return found


TABLE = Table(
    "rbm-mnist",
    __doc__.splitlines()[0],
    CELLS,
    {"pcd": partial(measure, negative="pcd"), "cd": partial(measure, negative="cd")},
    repeats=1,
    quick=[QUICK],
    quick_repeats=1,
    metrics=("log-likelihood", "reverse", "error bar", "exact", "error of AIS", "training images"),
    form=".2f",
    chunk=1,
)

if __name__ == "__main__":
    TABLE.main()
