"""Hidden chains by the number of instances to learn from; accuracy and log-likelihood (Figs 4.3, 4.4).

Chains of 10 sites with 10 inputs (20 nodes), 4 to 1,024 instances, 500 to test, five trials, CCCP. The source
prints curves and no numbers: MSSVM above the others for few instances, HCRF behind LSSVM there and ahead of
it for many; the likelihood of HCRF, which maximises it, is the highest. The deviation of a column "MSSVM -
..." is that of paired differences.
"""

from __future__ import annotations

from collections.abc import Sequence

from _structured import CCCP, METHODS, Trial, compared
from _tables import Cell, Measured, Table

COUNTS = tuple(4**k for k in range(1, 6))


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """All methods on the same draws."""
    about, found = cell.settings, []
    for seed in seeds:
        key = ("chain", about["sites"], about["inputs"])
        trial = Trial.of(key, 0.1, seed, about["instances"], about["test"])
        found.append(compared({method: trial.scores(method, CCCP, 30)[0] for method in METHODS}))
    return found


TABLE = Table(
    name="mssvm-size",
    title="Hidden chains by the number of instances",
    cells=[Cell({"inputs": "hidden", "sites": 10, "instances": n, "test": 500}) for n in COUNTS],
    measure=measure,
    repeats=5,
    metrics=("accuracy", "log-likelihood"),
    quick=(Cell({"inputs": "hidden", "sites": 4, "instances": 4, "test": 20}),),
    form=".2f",
)

if __name__ == "__main__":
    TABLE.main()
