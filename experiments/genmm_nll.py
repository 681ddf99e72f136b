"""Likelihood of images under mixtures of K flows as K grows (Table 6.1, Figures 6.4 and 6.5).

See `_glow.py` for the models; the source used 10,000 images of 32x32 (28x28 resized), 400 epochs and width
512. Only likelihoods of the *training* images are expected to rise with K, as in the source; those held out
stand beside them. Levels cannot be compared, the source's scaling of the data being unknown; the fall with K
can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

from _curves import draw_curves, keep_curve
from _glow import REFRESH, SIDE, nats, pictures, trained
from _orders import OrderedTable, falling
from _tables import Cell, Measured, Published

SIZE = {"images": 10000, "epochs": 20, "steps": 2, "width": 16}
SAID = {
    "mnist": {1: 1.8929, 3: 1.8797, 5: 1.8719, 7: 1.8579},
    "fashion": {1: 2.3571, 3: 2.3429, 5: 2.3353, 7: 2.3323},
}
METHODS = {
    "gaussian": "GenMM",
    "scaled": "GenMM, scaled posteriors",
    "held": "GenMM, first posteriors kept",
    "uniform": "GenMM, uniform noise",
    "latent": "LatMM",
}


def _cells() -> list[Cell]:
    return [
        Cell({"data": data, **SIZE, "K": k}, {("GenMM", "training nats"): Published(number)})
        for data, numbers in SAID.items()
        for k, number in numbers.items()
    ]


def measure(kind: str) -> Callable[[Cell, Sequence[int]], list[Measured]]:
    """Nats per pixel of training and held-out images, with uniform noise bits too; effective components."""

    def run(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
        if kind in ("scaled", "held") and cell.settings["K"] == 1:
            return [{} for _ in seeds]
        fit = trained(cell.settings, kind)
        periods = [-value / SIDE**2 for value in fit.objective]
        epochs = [REFRESH * k for k in range(len(periods))]
        keep_curve(
            "genmm-nll", f"{cell.label}, {METHODS[kind]}", epochs, {"training nats per pixel": periods}
        )
        found = []
        for seed in seeds:
            train, held = (
                nats(fit.model, part, kind, seed)
                for part in pictures(cell.settings["data"], cell.settings["images"])
            )
            told = {"training nats": train, "held-out nats": held, "components": fit.trace["components"][-1]}
            if kind == "uniform":
                told |= {"training bits": train / log(2), "held-out bits": held / log(2)}
            found.append({METHODS[kind]: told})
        return found

    return run


TABLE = OrderedTable(
    "genmm-nll",
    __doc__.splitlines()[0],
    _cells(),
    {kind: measure(kind) for kind in METHODS},
    repeats=1,
    quick=[Cell({"data": "mnist", "images": 100, "epochs": 5, "steps": 1, "width": 4, "K": 2})],
    quick_repeats=1,
    metrics=("training nats", "held-out nats", "training bits", "held-out bits", "components"),
    form=".3f",
    chunk=1,
    orders=(
        falling("GenMM", "training nats", "K", "data"),
        falling("GenMM", "held-out nats", "K", "data"),
        falling("LatMM", "training nats", "K", "data"),
    ),
)

if __name__ == "__main__":
    TABLE.main()
    draw_curves("genmm-nll", "nats per pixel")
