"""Belief propagation between 10,000 visible and 2,000 hidden units.

Weights are normal with the standard deviation of the row, biases standard normal; beliefs are asked for to
0.001, in single precision, from first messages. *seconds* are wall time of one question after another one of
the same kind, *CPU seconds* those of all cores, *nanoseconds* CPU time per message. The source says that such
a machine takes a few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from _machines import patient
from _tables import Cell, Measured, Table

import credo


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """Ask once for nothing, then for each seed."""
    found = []
    for k, seed in enumerate([0, *seeds]):
        rng = np.random.default_rng(seed)
        m, n, sd = (cell.settings[name] for name in ("visible", "hidden", "sd"))
        model = credo.RBM(sd * rng.standard_normal((m, n)), rng.standard_normal(m), rng.standard_normal(n))
        model.to_factor_graph()
        wall, used = time.perf_counter(), time.process_time()
        with patient():
            result = credo.infer(model, "bp", tol=1e-3, max_iter=100)
        wall, used = time.perf_counter() - wall, time.process_time() - used
        sweeps = len(result.trace["change"])
        numbers = {
            "seconds": wall,
            "CPU seconds": used,
            "sweeps": float(sweeps),
            "nanoseconds": 1e9 * used / (2.0 * m * n * sweeps),
            "change": float(result.trace["change"][-1]),
        }
        if k:
            found.append({"bp": numbers})
    return found


CELLS = [Cell({"visible": 10_000, "hidden": 2000, "sd": sd}) for sd in (0.01, 0.03, 0.1)]
TABLE = Table(
    "rbm-scale",
    __doc__.splitlines()[0],
    CELLS,
    measure,
    repeats=1,
    quick=[Cell({"visible": 300, "hidden": 100, "sd": 0.1})],
    quick_repeats=1,
    metrics=("seconds", "CPU seconds", "sweeps", "nanoseconds", "change"),
    form=".3f",
)

if __name__ == "__main__":
    TABLE.main()
