"""Restoring MNIST images by conditional Boltzmann machines: noise and missing patches (Tables 6.1 and 6.2).

Images are on where a pixel is above 127. *flip 10* changes each pixel with probability 10 per cent, *patch
8 to 0* sets a square of 8 x 8 pixels somewhere to 0. *all* is the per cent of wrong pixels, *changed* that
of the pixels that the corruption changed. How methods learn and predict is told in `_restoring.py`. The
source has 50,000 images, 200 epochs of chains and 50 of the others; every row here says its own: *epochs*
of LR, chains and mean field, *belief epochs* of the others.
"""

from __future__ import annotations

from _restoring import cells, parts
from _tables import Cell, Table

_NAMES = ("LR", "CD-1", "CD-10", "CD-PercLoss", "MLE-MF", "MLE-BP", "LSSVM", "MSSVM")
_SAID = {
    "flip 10": (
        (1.960, 12.531), (1.925, 12.229), (1.816, 11.103), (1.760, 11.121),
        (1.862, 11.319), (1.688, 10.718), (1.807, 11.565), (1.751, 11.023),
    ),
    "flip 20": (
        (4.088, 12.609), (4.012, 12.597), (3.995, 11.271), (3.970, 10.876),
        (3.917, 10.939), (3.691, 10.409), (3.910, 11.175), (3.804, 10.627),
    ),
    "patch 8 to 0": (
        (1.468, 61.304), (1.814, 63.130), (1.707, 67.925), (1.394, 45.684),
        (1.492, 49.553), (1.329, 39.785), (1.496, 44.037), (1.391, 41.829),
    ),
    "patch 12 to 0": (
        (3.498, 53.971), (3.983, 58.376), (3.921, 63.237), (3.483, 35.755),
        (3.477, 40.703), (3.117, 36.233), (3.468, 39.140), (3.273, 35.712),
    ),
}  # fmt: skip
SAID = {task: dict(zip(_NAMES, rows, strict=True)) for task, rows in _SAID.items()}

TABLE = Table(
    "crbm-mnist",
    __doc__.splitlines()[0],
    [*cells(SAID, 3000, 10, 5), *cells(SAID, 50_000, 50, 5)],
    parts("mnist threshold"),
    repeats=1,
    quick=[Cell({"task": "flip 10", "images": 100, "epochs": 2, "belief epochs": 1})],
    quick_repeats=1,
    metrics=("all", "changed", "rate", "seconds per epoch"),
    form=".3f",
    chunk=1,
)

if __name__ == "__main__":
    TABLE.main()
