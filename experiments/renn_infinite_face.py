"""RENN and GBP on 5 x 5 grids with the outer face as one more region (Table 4.3).

The outer face has 16 variables and so 65536 joint states; its network head is narrow for that reason. Models,
methods and metrics are described in `_renn.py`; "ours" is RENN with the outer face that GBP goes on from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from _renn import DOUBTS, METRICS, OURS, Method, Rows, cells, compare, published, renn
from _tables import Cell

from credo.inference.problem.base import algorithms

# metric, gamma, then mean and sd of GBP and RENN
FACES = """
l1    0.1   0.061 0.025  0.025 0.020
rho   0.1   0.913 0.049  0.984 0.021
log-Z 0.1   3.564 2.823  0.384 0.223
l1    1     0.145 0.028  0.016 0.010
rho   1     0.783 0.091  0.995 0.010
log-Z 1     0.825 0.841  0.364 0.201
"""
REGIONS = {"regions": "all-faces", "max_entries": 2**16}


def methods(settings: Mapping[str, Any]) -> dict[str, Method]:
    """GBP, RENN, and both together."""
    return {
        "GBP": Method(algorithms.get("gbp")(**REGIONS)),
        "RENN": renn(settings, **REGIONS),
        OURS: Method(renn(settings, width=32, polish="gbp", project=True, **REGIONS).algorithm),
    }


def measure(cell: Cell, seeds: Sequence[int]) -> list[dict[str, dict[str, float]]]:
    """GBP, RENN, and both together on the models of some seeds."""
    return compare(cell.settings, seeds, methods(cell.settings))


CELLS = cells("grid", "gamma", published(FACES, ("GBP", "RENN"), DOUBTS["grid"]), N=25)
SMALL = Cell({"graph": "grid", "N": 9, "gamma": 0.1})
TABLE = Rows(
    "renn-infinite-face",
    __doc__.splitlines()[0],
    CELLS,
    measure,
    quick=(SMALL,),
    metrics=METRICS,
    chunk=1,  # the tables of the outer face of many models would not fit into memory together
)

if __name__ == "__main__":
    TABLE.main()
