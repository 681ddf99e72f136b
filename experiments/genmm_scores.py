"""Scores of images drawn from mixtures of K flows (Figures 6.6 and 6.7).

1,000 drawn images beside 1,000 held-out ones, five times, through the features of a residual network that
learned 10,000 images of the set at 16x16; its accuracy on others stands in the last table. Drawn grey levels
beyond black and white are clipped. The models are
those of `genmm-nll`, not of all 60,000 images as in the source, which prints no numbers. The column
"images" says what the scores are between two sets of real images: nothing can be better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from _glow import MODELS, SIDE, TINY, resized, trained
from _sets import images
from _tables import Cell, Measured, Table
from genmm_nll import METHODS, SIZE

import credo
from credo.estimators import ImageClassifier
from credo.evaluate import SampleScores, score_samples

DRAWN = 1000
JUDGED = 10_000  # images that the network learns from
KINDS = ("gaussian", "latent")


@cache
def judge(data: str, small: bool) -> ImageClassifier:
    """The network, from its file if there is one."""
    path = MODELS / f"judge-{data}.credo"
    if not small and path.is_file():
        return credo.load(path)
    count = 300 if small else JUDGED
    found = images(data)
    made = ImageClassifier(4 if small else 16, epochs=1 if small else 5, random_state=0)
    made.fit(resized(found.x[:count]), found.y[:count])
    if not small:
        MODELS.mkdir(parents=True, exist_ok=True)
        credo.save(made, path)
    return made


def real(data: str, count: int, seed: int) -> np.ndarray:
    """Held-out images, drawn without repetition: a first half and a second one."""
    found = images(data).test_x
    order = np.random.default_rng(seed).permutation(len(found))[: 2 * count]
    return resized(found[order])


def measure(kind: str) -> Callable[[Cell, Sequence[int]], list[Measured]]:
    """Scores of every draw; for K = 1 those of real images too."""

    def run(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
        about = cell.settings
        small = about["images"] <= TINY
        network, count = judge(about["data"], small), 50 if small else DRAWN
        model, found = trained(about, kind).model, []
        for seed in seeds:
            held = real(about["data"], count, seed)
            drawn = np.asarray(credo.sample(model, count, seed=seed)[0]).reshape(-1, SIDE, SIDE)
            named = {METHODS[kind]: _told(score_samples(held[:count], np.clip(drawn, 0, 255), network))}
            if about["K"] == 1 and kind == "gaussian":
                named["images"] = _told(score_samples(held[:count], held[count:], network))
            found.append(named)
        return found

    return run


def _told(scores: SampleScores) -> dict[str, Any]:
    return {
        "inception score": scores.inception,
        "FID": scores.frechet,
        "MMD^2": scores.mmd,
        "1-NN accuracy": scores.neighbour,
        "accuracy of the network": scores.accuracy,
    }


TABLE = Table(
    "genmm-scores",
    __doc__.splitlines()[0],
    [Cell({"data": data, **SIZE, "K": k}) for data in ("mnist", "fashion") for k in (1, 3, 5, 7)],
    {kind: measure(kind) for kind in KINDS},
    repeats=5,
    quick=[Cell({"data": "mnist", "images": 100, "epochs": 5, "steps": 1, "width": 4, "K": 1})],
    quick_repeats=1,
    metrics=("inception score", "FID", "MMD^2", "1-NN accuracy", "accuracy of the network"),
    form=".3f",
)

if __name__ == "__main__":
    TABLE.main()
