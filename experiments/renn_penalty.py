"""RENN without the penalty that makes regions agree, on grids (Table 4.9).

Compare with the RENN column of `renn-grid`, which has the same models and all other settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from _renn import METRICS, compare, published, renn
from _tables import Cell, Published, Table

# metric, N, then mean and sd for gamma = 0.1 and gamma = 1
FREE = """
l1    25    0.075 0.021  0.107 0.032
l1    100   0.128 0.014  0.108 0.021
l1    225   0.136 0.013  0.112 0.012
l1    400   0.141 0.011  0.118 0.010
rho   25    0.908 0.057  0.879 0.074
rho   100   0.806 0.039  0.874 0.044
rho   225   0.799 0.036  0.864 0.028
rho   400   0.793 0.021  0.852 0.021
log-Z 25    0.598 0.214  2.256 1.006
log-Z 100   22.20 4.530  12.29 1.748
log-Z 225   11.70 1.747  31.49 3.239
log-Z 400   22.55 1.953  56.49 4.296
"""
NAME = "RENN, no penalty"
MISPRINT = "22.20 at N = 100 is out of line with 11.70 at N = 225 and 22.55 at N = 400; probably a misprint"


def rows() -> list[Cell]:
    """One cell per size and gamma, small ones first."""
    made = []
    for n, numbers in published(FREE, ("0.1", "1")).items():
        for gamma in ("0.1", "1"):
            said = {(NAME, metric): numbers[gamma, metric] for metric in METRICS}
            if (n, gamma) == ("100", "0.1"):
                said[NAME, METRICS[2]] = Published(*said[NAME, METRICS[2]][:2], MISPRINT)
            made.append(Cell({"graph": "grid", "gamma": float(gamma), "N": int(n)}, said))
    return made


def measure(cell: Cell, seeds: Sequence[int]) -> list[dict[str, dict[str, float]]]:
    """One method on one model per seed."""
    return compare(cell.settings, seeds, {NAME: renn(cell.settings, penalty=0.0)})


TABLE = Table("renn-penalty", __doc__.splitlines()[0], rows(), measure, metrics=METRICS)

if __name__ == "__main__":
    TABLE.main()
