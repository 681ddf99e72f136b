"""How uncertain hidden states are, and what it costs to maximise them (Table 4.3).

Chains as in `mssvm_chain.py`, learned by CCCP. sigma_h is the deviation of the weights of the hidden states:
where it is large they are nearly certain, and maximising them is as good as summing them. M3E and ModLat of
the source are not learned here. Compare methods within a row: draws of two rows differ. The deviation of a
column "MSSVM - ..." is that of paired differences.
"""

from __future__ import annotations

from collections.abc import Sequence

from _structured import CCCP, METHODS, Trial, compared
from _tables import Cell, Measured, Published, Table

SAID = {
    10.0: (79.30, 79.46, 78.68),
    1.0: (70.00, 70.07, 69.88),
    0.5: (67.24, 65.98, 66.66),
    0.1: (69.63, 67.91, 69.03),
    0.01: (73.88, 71.38, 72.58),
    0.001: (72.08, 69.24, 70.88),
}


def _cells() -> list[Cell]:
    found = []
    for inputs in ("hidden", "all"):
        for sigma, numbers in SAID.items():
            said = {(m, "accuracy"): Published(n) for m, n in zip(METHODS, numbers, strict=True)}
            found.append(Cell({"inputs": inputs, "sites": 20, "sigma_h": sigma}, said))
    return found


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """All methods on the same draws."""
    about, found = cell.settings, []
    for seed in seeds:
        trial = Trial.of(("chain", about["sites"], about["inputs"]), about["sigma_h"], seed)
        found.append(compared({method: trial.scores(method, CCCP, 30)[0] for method in METHODS}))
    return found


TABLE = Table(
    name="mssvm-uncertainty",
    title="Hidden chains by the uncertainty of hidden states, accuracy %",
    cells=_cells(),
    measure=measure,
    metrics=("accuracy", "log-likelihood"),
    quick=(Cell({"inputs": "hidden", "sites": 6, "sigma_h": 0.1}),),
    form=".2f",
)

if __name__ == "__main__":
    TABLE.main()
