"""Several labels of a picture at once, with factors on pairs of labels (scene; named in the source as a use).

1,211 pictures to learn from, 1,196 to test, 294 features, six labels that a picture has or not. Every label
is a kind of node with weights of its own, every pair of labels an edge kind with one table; "alone" has no
pairs. Exact inference; lambda = 1 / (N scale^2) is the same for all. The source prints no numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from _sets import DATA
from _tables import Cell, Measured, Table

import credo
from credo.core.errors import ConvergenceWarning
from credo.learning import predict_structures

KINDS = [f"label {k}" for k in range(6)]
LEARNERS = {"crf": "lbfgs", "ssvm": "bundle"}


def pictures(part: str, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardised features with a constant, and the labels."""
    read = np.load(DATA / "scene" / "scene.npz")
    base = read["X_train"].astype(float)
    rows = (read[f"X_{part}"].astype(float) - base.mean(axis=0)) / base.std(axis=0)
    return np.hstack([rows / 10, np.ones((len(rows), 1))])[:most], read[f"y_{part}"][:most]


def inputs(rows: np.ndarray, *, paired: bool) -> list[dict[str, Any]]:
    """Six nodes with the features of the picture, and every pair of them."""
    edges = {f"{a} - {b}": None for a, b in combinations(KINDS, 2)} if paired else {}
    return [{"nodes": dict.fromkeys(KINDS, row[None]), "edges": edges} for row in rows]


def targets(y: np.ndarray) -> list[dict[str, list[str]]]:
    """Labels by kind."""
    return [{kind: [str(int(v))] for kind, v in zip(KINDS, row, strict=True)} for row in y]


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """Wrong labels, and pictures with a wrong one."""
    about = cell.settings
    (X, y), (Xt, yt) = (pictures(part, about["pictures"]) for part in ("train", "test"))
    paired = about["pairs"] == "all"
    wires = {f"{a} - {b}": (a, b) for a, b in combinations(KINDS, 2)} if paired else {}
    learner = (
        f"structured(objective={about['member']}, optimiser={LEARNERS[about['member']]}, "
        f"prior=gaussian(scale={about['scale']}))"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = credo.fit(
            credo.LatentCRF(wires), inputs(X, paired=paired), learner, targets=targets(y),
            max_iter=about["steps"], tol=1e-3, seed=0, inference="junction-tree",
        )  # fmt: skip
    told = predict_structures(fit.model, inputs(Xt, paired=paired), about["member"])
    labels = np.array([[int(one[kind][0]) for kind in KINDS] for one in told])
    wrong = labels != yt
    numbers = {
        "labels wrong %": 100 * float(wrong.mean()),
        "pictures wrong %": 100 * float(wrong.any(1).mean()),
    }
    return [{"measured": numbers} for _ in seeds]


TABLE = Table(
    name="scene",
    title="Several labels of a picture",
    cells=[
        Cell({"member": member, "pairs": pairs, "scale": 1.0, "steps": 100, "pictures": 5000})
        for member in LEARNERS
        for pairs in ("none", "all")
    ],
    measure=measure,
    repeats=1,
    metrics=("labels wrong %", "pictures wrong %"),
    quick=(Cell({"member": "crf", "pairs": "all", "scale": 1.0, "steps": 3, "pictures": 12}),),
    quick_repeats=1,
    form=".2f",
    chunk=1,
)

if __name__ == "__main__":
    TABLE.main()
