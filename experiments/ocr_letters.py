"""Handwritten words: likelihoods and margins, with and without hidden styles (OCR letters of Taskar).

Not in the source. *small* learns from fold 0 (626 words) and is tested on the others, *large* the other way
round. Pixels, a constant and marks of the first and last letter; a table of steps between letters. CRF and
SSVM have no hidden variables; of the others every letter has a hidden style that sees the pixels, and only
its style does. lambda is that of lambda / 2 |w|^2 + the mean over words, named in each row; margins are
learned by Frank-Wolfe with averaged weights, inside CCCP where there are styles, likelihoods by L-BFGS.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from _sets import DATA
from _tables import Cell, Measured, Table

import credo
from credo.core.errors import ConvergenceWarning
from credo.learning import predict_structures

LABELS = tuple(str(k) for k in range(26))
START = 0.3  # deviation of the first weights of styles


def words() -> tuple[list[np.ndarray], list[list[str]], np.ndarray]:
    """Features and labels of every word, and its fold."""
    read = np.load(DATA / "ocr_letters" / "ocr_letters_taskar.npz")
    pixels = np.unpackbits(read["pixels"], axis=1).astype(float)
    ends = np.cumsum(read["word_len"].astype(int))[:-1]
    X = np.split(np.hstack([pixels, np.ones((len(pixels), 1)), np.zeros((len(pixels), 2))]), ends)
    for x in X:
        x[0, -2] = x[-1, -1] = 1.0
    return X, [[LABELS[k] for k in y] for y in np.split(read["labels"], ends)], read["fold"]


def split(name: str, most: int) -> tuple[Any, Any, Any, Any]:
    """Words to learn from and to test on, at most so many of each."""
    X, y, fold = words()
    first = (fold == 0) == (name == "small")
    a, b = np.flatnonzero(first)[:most], np.flatnonzero(~first)[:most]
    return [X[n] for n in a], [y[n] for n in a], [X[n] for n in b], [y[n] for n in b]


def styled(x: np.ndarray) -> dict[str, Any]:
    """A word whose letters have styles, which see the pixels."""
    pairs = np.stack([np.arange(len(x))] * 2, axis=1)
    plain = np.zeros((len(x), 1))
    return {"nodes": {"letter": plain, "style": plain}, "edges": {"step": None, "style": (pairs, x)}}


def first_field(styles: int, width: int, seed: int) -> Any:
    """No weights, but small random ones of the styles."""
    if styles == 1:
        return credo.CRF(LABELS, np.zeros((width, 26)), np.zeros((26, 26)))
    own = START * np.random.default_rng(seed).standard_normal((width, 26, styles))
    wires = {"step": ("letter", "letter"), "style": ("letter", "style")}
    nodes = {"letter": np.zeros((1, 26)), "style": np.zeros((1, styles))}
    return credo.LatentCRF(
        wires, {"style": styles}, states={"letter": LABELS}, node_weights=nodes,
        edge_weights={"step": np.zeros((1, 26, 26)), "style": own},
    )  # fmt: skip


def best_letters(field: Any, X: Any, member: str) -> list[np.ndarray]:
    """The best labelling of every word."""
    if isinstance(field, credo.CRF):
        from credo.kernels.chains import best_paths

        ends = np.cumsum([0, *map(len, X)])
        rows = np.ascontiguousarray(np.concatenate(X) @ field.node_weights)
        path, _ = best_paths(np.zeros(26), field.edge_weights, rows, ends)
        return np.split(path, ends[1:-1])
    told = predict_structures(field, [styled(x) for x in X], member)
    return [one["letter"].astype(int) for one in told]


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """Share of letters and of words that are wrong."""
    about, found = cell.settings, []
    X, y, Xt, yt = split(about["split"], about["words"])
    member, styles, steps = about["member"], about["styles"], about["steps"]
    inputs = X if styles == 1 else [styled(x) for x in X]
    smooth = member in ("crf", "hcrf")
    optimiser = "lbfgs" if smooth else "frank-wolfe" if styles == 1 else "cccp(inner=frank-wolfe, steps=10)"
    scale = float((1 / (len(X) * about["lambda"])) ** 0.5)
    learner = (
        f"structured(objective={member}, loss={'none' if smooth else about['loss']}, optimiser={optimiser}, "
        f"prior=gaussian(scale={scale!r}))"
    )
    for seed in seeds:
        field = first_field(styles, X[0].shape[1], seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = credo.fit(field, inputs, learner, targets=y, max_iter=steps, tol=1e-5, seed=seed)
        told = best_letters(fit.model, Xt, member)
        wrong = [t != np.array(z).astype(int) for t, z in zip(told, yt, strict=True)]
        numbers = {
            "letters wrong %": 100 * float(np.concatenate(wrong).mean()),
            "words wrong %": 100 * float(np.mean([w.any() for w in wrong])),
        }
        found.append({"measured": numbers})
    return found


def _cells() -> list[Cell]:
    share, each = "hamming(normalised=true)", "hamming"
    rows = [
        ("small", "crf", 1, 0.003, "none", 1000), ("small", "ssvm", 1, 0.01, share, 20),
        ("small", "ssvm", 1, 0.03, each, 50), ("small", "mssvm", 3, 0.003, each, 15),
        ("small", "lssvm", 3, 0.003, each, 15), ("small", "hcrf", 3, 0.003, "none", 300),
        ("large", "crf", 1, 0.0003, "none", 1000), ("large", "ssvm", 1, 0.001, share, 20),
        ("large", "mssvm", 3, 0.0003, each, 12),
    ]  # fmt: skip
    names = ("split", "member", "styles", "lambda", "loss", "steps")
    return [Cell(dict(zip(names, row, strict=True)) | {"words": 10_000}) for row in rows]


QUICK = [
    {
        "split": "small",
        "member": "mssvm",
        "styles": 2,
        "lambda": 0.03,
        "loss": "hamming",
        "steps": 2,
        "words": 20,
    },
    {
        "split": "small",
        "member": "crf",
        "styles": 1,
        "lambda": 0.03,
        "loss": "none",
        "steps": 20,
        "words": 20,
    },
]

TABLE = Table(
    name="ocr-letters",
    title="Handwritten words",
    cells=_cells(),
    measure=measure,
    repeats=1,
    metrics=("letters wrong %", "words wrong %"),
    quick=tuple(Cell(settings) for settings in QUICK),
    quick_repeats=1,
    form=".2f",
    chunk=1,
)

if __name__ == "__main__":
    TABLE.main()
