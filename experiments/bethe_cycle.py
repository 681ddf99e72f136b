"""Bethe variational inference on a three-node cycle with three modes (Tables 8.3 and 8.4, Figure 8.5).

Nodes exp(-0.1 |x|), and between any two nodes bumps at (10, -10) and (-10, 10): at most two of the three
nodes can have what they want. 50 trials of 150 iterations; exact log Z = -16.1737 by direct integration.

- QBethe: `bethe(nodes=3)`, means N(0, 10^2). The source gives neither K_Q nor steps; Adam with rate 0.3 and
  the guard against collapse are ours. The value is that of the beliefs by accurate quadrature.
- QBethe, ours: 5 starts per trial, 5 nodes, 1000 iterations.
- PBP: `particle-bp(proposal=belief)`, particles moved by a random walk (5 steps) as in the source. PBP,
  ours: drawn from tables of the beliefs.

No method has to approach the exact value. The Bethe free energy of the exact marginals is -15.89, that of
the fixed point of belief propagation +1.17: mixtures of several components may exceed log Z, and PBP has
+1.17 as its limit, not -16.17. Figure 8.5: EPBP is run with 100 particles for the picture only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from _bethe import cycle, cycle_truth, infer
from _tables import Cell, Measured, Published, Table

QBETHE = {2: (-17.56, 0.36), 3: (-17.32, 0.42), 4: (-17.07, 0.45), 5: (-16.88, 0.41), 6: (-16.78, 0.42)}
PBP = {
    5: (-47.34, 38.03),
    25: (-25.57, 31.05),
    50: (-22.24, 19.05),
    75: (-20.64, 19.34),
    100: (-10.61, 12.62),
}
POINTS = np.linspace(-30.0, 30.0, 1201)
ITERATIONS = 150
EXACT = -16.1737

CELLS = [
    Cell({"M": m}, {("QBethe", "log Z"): Published(*said)}) for m, said in QBETHE.items()
] + [
    Cell({"particles": k}, {("PBP", "log Z"): Published(*said)}) for k, said in PBP.items()
]  # fmt: skip


def methods(cell: Cell) -> dict[str, tuple[str, int]]:
    """Column -> specification and iterations."""
    if "M" in cell.settings:
        m = cell.settings["M"]
        return {
            "QBethe": (f"bethe(renewals=0, components={m}, nodes=3, spread=10, rate=0.3)", ITERATIONS),
            "QBethe, ours": (
                f"bethe(renewals=0, components={m}, nodes=5, spread=10, rate=0.3, restarts=5)",
                1000,
            ),
        }
    k = f"particles={cell.settings['particles']}, redraws={ITERATIONS}, spread=10"
    return {
        "PBP": (f"particle-bp({k}, proposal=belief, steps=5)", ITERATIONS),
        "PBP, ours": (f"particle-bp({k})", ITERATIONS),
    }


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """The value of every method's beliefs in each trial."""
    model = cycle()
    return [
        {
            column: {"log Z": infer(model, spec, max_iter=most, seed=seed).log_z.value}
            for column, (spec, most) in methods(cell).items()
        }
        for seed in seeds
    ]  # fmt: skip


class Cycle(Table):
    """The two tables, and the marginal of one node as the methods see it."""

    def report(self, records: Sequence[dict]) -> None:
        """The tables and the exact value."""
        super().report(records)
        print(f"exact log Z {cycle_truth(POINTS)[0]:.4f} (source -16.17)")

    def picture(self, records: Sequence[dict]) -> Any:
        """Figure 8.5: the exact marginal and the beliefs of one trial."""
        from credo.plotting.style import COLOURS, FAINT, new_figure, tidy

        model = cycle()
        _, exact = cycle_truth(POINTS)
        figure = new_figure(6, 3.2)
        axes = figure.add_subplot(1, 1, 1)
        axes.fill_between(POINTS, exact, color=FAINT, alpha=0.4, lw=0, label="exact")
        specs = {
            "QBethe, M = 6": ("bethe(renewals=0, components=6, nodes=3, spread=10, rate=0.3)", ITERATIONS),
            "PBP, 100 particles": ("particle-bp(particles=100, proposal=belief, redraws=20, spread=10)", 20),
            "EPBP, 100 particles": ("ep-particle-bp(particles=100, widen=1, redraws=20, spread=10)", 20),
        }
        for colour, (name, (spec, most)) in zip(COLOURS, specs.items(), strict=False):
            belief = infer(model, spec, max_iter=most, seed=0).marginals["x0"]
            axes.plot(POINTS, belief.density(POINTS), color=colour, lw=1.2, label=name)
        axes.set_xlim(-20, 20)
        axes.set_ylim(0, 3 * exact.max())
        axes.set_xlabel("x", fontsize=8)
        axes.legend(fontsize=7, frameon=False)
        tidy(axes)
        return figure


TABLE = Cycle(
    "bethe-cycle",
    __doc__.splitlines()[0],
    CELLS,
    measure,
    repeats=50,
    quick=(0, 5),
    quick_repeats=2,
    form=".2f",
)

if __name__ == "__main__":
    TABLE.main()
