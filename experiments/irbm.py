"""Infinite Boltzmann machines by Frank-Wolfe beside contrastive divergence (Figures 5.1 and 5.2).

FW       units one by one: `infinite-boltzmann(penalty=0.01)`, 1,000 chains
CD       CD-10 from random weights, the best of so many starts by the pseudolikelihood of validation images
random   the same with chains from random states, one start
FW + CD  CD-10 from the machine that FW has grown

Images are on where MNIST is above 127, or silhouettes of Caltech-101. *log-likelihood* is that of test
images by annealed importance sampling, 100 chains, with three standard errors (*error bar*); *gap* is by
how much the images learned from are likelier than validation ones; *classification error* is that of a
multinomial logistic regression on p(h | v), in per cent; *seconds* are those of learning. The source prints
curves and no numbers: FW stops at 460 units on MNIST and 550 on Caltech-101, FW + CD is above the best of
five starts of CD everywhere, and FW has the better features from 450 units on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from _machines import MODELS, Silhouettes, ais, patient, silhouettes
from _tables import Cell, Measured, Table

import credo

TINY = 500  # images that are not worth a checkpoint


def _cells() -> list[Cell]:
    mnist = [
        {
            "data": "mnist threshold",
            "images": 10_000,
            "units": u,
            "epochs": 50,
            "starts": 2,
            "temperatures": 14_500,
        }
        for u in (20, 100, 200)
    ]
    caltech = [
        {"data": "caltech", "images": 4100, "units": u, "epochs": 50, "starts": 2, "temperatures": 14_500}
        for u in (100, 300, 700)
    ]
    small = [
        {"data": d, "images": 2000, "units": 50, "epochs": 10, "starts": 1, "temperatures": 3000}
        for d in ("mnist threshold", "caltech")
    ]
    return [Cell(settings) for settings in (*small, *mnist, *caltech)]


def _fit(model: Any, data: Silhouettes, spec: str, steps: int, name: str, about: Any) -> Any:
    path = None
    if len(data.x) > TINY:
        MODELS.mkdir(parents=True, exist_ok=True)
        words = [name, *about.values()]
        path = MODELS / ("irbm-" + "-".join(str(word) for word in words).replace(" ", "-") + ".credo")
    with patient():
        return credo.fit(
            model,
            data.x,
            spec,
            validation=data.held,
            max_iter=steps,
            tol=0,
            seed=about["seed"],
            checkpoint=path,
        )


def _grown(data: Silhouettes, about: Any) -> Any:
    spec = "infinite-boltzmann(penalty=0.01, rows=2000, starts=2)"
    return _fit(credo.RBM.blank(1), data, spec, about["units"], "fw", about)


def _divergence(model: Any, data: Silhouettes, about: Any, name: str, negative: str = "cd") -> Any:
    spec = (
        f"boltzmann(negative={negative}, sweeps=10, batch=50, "
        f"optimiser=sgd(rate=0.05, momentum=0.5, ends={about['epochs']}))"
    )
    return _fit(model, data, spec, about["epochs"], name, about)


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """All methods on one set of images."""
    found = []
    data = silhouettes(cell.settings["data"]).first(cell.settings["images"])
    for seed in seeds:
        about = {**cell.settings, "seed": seed}
        named: dict[str, dict[str, float]] = {}
        grown = _grown(data, about)
        named["FW"] = _scores(grown.model, data, about, grown.seconds)
        starts = []
        for k in range(about["starts"]):
            blank = credo.RBM.blank(about["units"])
            starts.append(_divergence(blank, data, about | {"seed": 1000 * k + seed}, f"cd{k}"))
        best = max(starts, key=lambda fit: fit.trace["validation"][-1])
        named["CD"] = _scores(best.model, data, about, best.seconds)
        other = _divergence(credo.RBM.blank(about["units"]), data, about, "random", "random-cd")
        named["random"] = _scores(other.model, data, about, other.seconds)
        tuned = _divergence(grown.model, data, about, "fw-cd")
        named["FW + CD"] = _scores(tuned.model, data, about, grown.seconds + tuned.seconds)
        found.append(named)
    return found


def _scores(model: credo.RBM, data: Silhouettes, about: Any, seconds: float) -> dict[str, float]:
    start = time.perf_counter()
    log_z = ais(model, about["temperatures"])
    free = [float(-model.free_energy(part).mean()) for part in (data.x, data.held, data.test)]
    return {
        "log-likelihood": free[2] - log_z.value,
        "error bar": 3 * float(log_z.error),
        "gap": free[0] - free[1],
        "classification error": _classified(model, data),
        "units": float(model.weights.shape[1]),
        "seconds": seconds,
        "seconds of scores": time.perf_counter() - start,
    }


def _classified(model: credo.RBM, data: Silhouettes) -> float:
    from sklearn.linear_model import LogisticRegression

    made = LogisticRegression(C=1.0, max_iter=200)
    with patient():
        import warnings

        warnings.simplefilter("ignore")
        made.fit(model.hidden_given(data.x), data.y)
    return 100 * (1 - float(np.mean(made.predict(model.hidden_given(data.test)) == data.test_y)))


TABLE = Table(
    "irbm",
    __doc__.splitlines()[0],
    _cells(),
    measure,
    repeats=1,
    quick=[
        Cell({"data": "caltech", "images": 200, "units": 3, "epochs": 1, "starts": 1, "temperatures": 100})
    ],
    quick_repeats=1,
    metrics=("log-likelihood", "error bar", "gap", "classification error", "units", "seconds"),
    form=".2f",
    chunk=1,
)

if __name__ == "__main__":
    TABLE.main()
