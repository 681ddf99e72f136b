"""Restoring Caltech-101 silhouettes by conditional Boltzmann machines (Table 6.3).

4,100 images to learn from, 2,264 to choose by, 2,307 to test; objects are 0 and the background is 1, so
that a patch set to 1 is background. The rest is as for MNIST.
"""

from __future__ import annotations

from _restoring import cells, parts
from _tables import Cell, Table

_NAMES = ("LR", "CD-1", "CD-10", "CD-PercLoss", "MLE-MF", "MLE-BP", "LSSVM", "MSSVM")
_SAID = {
    "flip 20": (
        (5.653, 11.460), (5.876, 12.423), (5.736, 12.013), (5.622, 10.808),
        (5.617, 11.083), (5.445, 10.731), (5.628, 11.468), (5.549, 11.389),
    ),
    "patch 12 to 1": (
        (4.771, 16.587), (5.033, 20.300), (5.149, 21.087), (5.081, 15.102),
        (4.692, 15.995), (4.548, 16.541), (4.703, 16.014), (4.534, 14.918),
    ),
}  # fmt: skip
SAID = {task: dict(zip(_NAMES, rows, strict=True)) for task, rows in _SAID.items()}

TABLE = Table(
    "crbm-caltech",
    __doc__.splitlines()[0],
    [*cells(SAID, 1000, 10, 5), *cells(SAID, 4100, 20, 20)],
    parts("caltech"),
    repeats=1,
    quick=[Cell({"task": "patch 12 to 1", "images": 100, "epochs": 2, "belief epochs": 1})],
    quick_repeats=1,
    metrics=("all", "changed", "rate", "seconds per epoch"),
    form=".3f",
    chunk=1,
)

if __name__ == "__main__":
    TABLE.main()
