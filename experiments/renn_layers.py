"""RENN with 0 to 2 attention and 0 to 6 residual layers (Tables 4.10 and 4.11).

Grids of 100 and complete graphs of 16 variables, gamma = 0.1; one column per number of residual layers. The
source prints no deviations. Without any layer the logits are free, and 200 steps of Adam with rate 0.001
move a logit by 0.2 at most: that column shows too few steps, not too few parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from _renn import METRICS, compare, renn
from _tables import Cell, Published, Table

RESIDUAL = (0, 2, 4, 6)
# metric, attention layers, then 0, 2, 4 and 6 residual layers
GRID = """
l1    0     0.144  0.026  0.060  0.085
l1    1     0.031  0.026  0.064  0.074
l1    2     0.029  0.026  0.031  0.066
rho   0     0.497  0.982  0.909  0.849
rho   1     0.975  0.982  0.903  0.891
rho   2     0.980  0.983  0.978  0.898
log-Z 0     91.69  1.897  2.605  3.690
log-Z 1     1.606  1.886  2.067  2.648
log-Z 2     1.774  1.886  3.144  2.567
"""
COMPLETE = """
l1    0     0.215  0.177  0.284  0.424
l1    1     0.253  0.185  0.304  0.378
l1    2     0.222  0.190  0.291  0.478
rho   0     0.185  0.497  0.353  0.095
rho   1     0.413  0.462  0.310  0.142
rho   2     0.456  0.459  0.413  0.040
log-Z 0     64.70  10.38  15.74  28.67
log-Z 1     3.229  10.65  18.36  36.19
log-Z 2     3.269  11.77  20.29  40.03
"""


def rows(text: str, graph: str, n: int) -> list[Cell]:
    """One cell per number of attention layers."""
    said: dict[str, dict[tuple[str, str], Published]] = {}
    names = dict(zip(("l1", "rho", "log-Z"), METRICS, strict=True))
    for metric, attention, *means in (line.split() for line in text.strip().split("\n")):
        for residual, mean in zip(RESIDUAL, means, strict=True):
            said.setdefault(attention, {})[f"{residual} residual", names[metric]] = Published(float(mean))
    return [
        Cell({"graph": graph, "N": n, "gamma": 0.1, "attention": int(a)}, numbers)
        for a, numbers in said.items()
    ]


def measure(cell: Cell, seeds: Sequence[int]) -> list[dict[str, dict[str, float]]]:
    """All numbers of residual layers on one model per seed."""
    attention = int(cell.settings["attention"])
    chosen = {f"{k} residual": renn(cell.settings, attention=attention, residual=k) for k in RESIDUAL}
    return compare(cell.settings, seeds, chosen)


CELLS = [*rows(GRID, "grid", 100), *rows(COMPLETE, "complete", 16)]
SMALL = Cell({"graph": "grid", "N": 9, "gamma": 0.1, "attention": 1})
TABLE = Table("renn-layers", __doc__.splitlines()[0], CELLS, measure, quick=(SMALL,), metrics=METRICS)

if __name__ == "__main__":
    TABLE.main()
