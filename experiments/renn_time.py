"""Seconds per inference of RENN and message passing (Table 4.8).

The models of a row go through one call; its wall time without compiling is divided by their number. Compiling
happens once per structure and is a row of its own. The source names no hardware, and its messages are Python
loops: the numbers show what to expect, not a race. Methods and settings are those of `_renn.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from _renn import COLUMNS, methods, model_of, run
from _tables import Cell, Published, Table

# seconds of mean field, loopy BP, damped BP, GBP, inference net, RENN
SAID = (
    ({"graph": "complete", "N": 9, "u": 15.0}, (0.502, 15.86, 18.23, 3.213, 17.21, 7.857)),
    ({"graph": "complete", "N": 16, "gamma": 1.0}, (0.457, 0.777, 1.285, 14.29, 12.45, 16.16)),
    ({"graph": "grid", "N": 100, "u": 15.0}, (2.314, 253.3, 229.3, 53.72, 103.4, 79.38)),
    ({"graph": "grid", "N": 400, "gamma": 0.1}, (9.897, 425.0, 328.3, 286.3, 74.41, 101.0)),
)


def measure(cell: Cell, seeds: Sequence[int]) -> list[dict[str, dict[str, float]]]:
    """Mean seconds per model of one call per method, the same for every seed."""
    models = [model_of(cell.settings, seed) for seed in seeds]
    found: dict[str, dict[str, float]] = {}
    for name, method in methods(cell.settings).items():
        if isinstance(method.algorithm, str):
            run(method, models[:1])  # loads compiled kernels; networks report their compiling themselves
        batch = run(method, models)
        found[name] = {"seconds": batch.seconds / len(models)}
        if batch.compile_seconds:
            found[name]["seconds of compiling"] = batch.compile_seconds
    return [found for _ in seeds]


CELLS = [
    Cell(settings, {(c, "seconds"): Published(s) for c, s in zip(COLUMNS, seconds, strict=True)})
    for settings, seconds in SAID
]
TABLE = Table(
    "renn-time", __doc__.splitlines()[0], CELLS, measure, metrics=("seconds", "seconds of compiling")
)

if __name__ == "__main__":
    TABLE.main()
