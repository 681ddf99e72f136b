"""Hidden chains and grids: margins and likelihoods with hidden states (Table 4.2, Fig. 4.2).

20 sites in a row, or 6 x 6 on a lattice, labels and hidden states in turn, with inputs at all sites or at the
hidden ones (`_structured.py`: the source's picture of the wiring is not in its text). 20 instances to learn
from, 100 to test, C = 1, Hamming loss. "sgd" is the full sub-gradient descent of the source with 100 steps,
"cccp" the convex-concave procedure with sub-gradients inside. Chains are answered exactly, grids by `bp` in
learning and in prediction. The deviation of a column "MSSVM - ..." is that of paired differences: divide it
by the square root of the trials for the standard error.
"""

from __future__ import annotations

from collections.abc import Sequence

from _structured import CCCP, METHODS, SUBGRADIENT, Trial, compared
from _tables import Cell, Measured, Published, Table

SAID = {
    ("chain", "sgd"): (69.20, 66.87, 68.75),
    ("chain", "cccp"): (69.63, 67.91, 69.03),
    ("grid", "sgd"): (74.12, 71.96, 73.51),
    ("grid", "cccp"): (74.08, 73.38, 73.62),
}
SIZES = {"chain": 20, "grid": 6}
OPTIMISERS = {"sgd": (SUBGRADIENT, 100), "cccp": (CCCP, 30)}


def _cells() -> list[Cell]:
    found = []
    for inputs in ("hidden", "all"):
        for (graph, optimiser), numbers in SAID.items():
            said = {(m, "accuracy"): Published(n) for m, n in zip(METHODS, numbers, strict=True)}
            settings = {"graph": graph, "size": SIZES[graph], "inputs": inputs, "by": optimiser}
            found.append(Cell(settings, said))
    return found


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """All methods on the same draws."""
    about = cell.settings
    optimiser, steps = OPTIMISERS[about["by"]]
    inference = None if about["graph"] == "chain" else "bp"
    found = []
    for seed in seeds:
        trial = Trial.of((about["graph"], about["size"], about["inputs"]), 0.1, seed)
        scores = {}
        for method in METHODS:
            scores[method], fit = trial.scores(method, optimiser, steps, inference)
            values = fit.trace["objective"]
            scores[method]["risk"] = -float(values[-1])
            scores[method]["steps to 1 %"] = float(
                (values < values[-1] - 0.01 * (values[-1] - values[0])).sum()
            )
        found.append(compared(scores))
    return found


TABLE = Table(
    name="mssvm-chain",
    title="Hidden chains and grids, accuracy %",
    cells=_cells(),
    measure=measure,
    metrics=("accuracy", "risk", "steps to 1 %", "log-likelihood"),
    quick=(Cell({"graph": "chain", "size": 6, "inputs": "all", "by": "cccp"}),),
    form=".2f",
)

if __name__ == "__main__":
    TABLE.main()
