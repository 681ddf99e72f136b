"""Beliefs of five methods on two eight-node trees with several modes (Figures 8.1 and 8.2).

(A) nodes 0.3 N(x - y; -1, 1) + 0.7 N(x - y; 2, 0.5) with two modes, and edges exp(-|x_u - x_v|).
(B) nodes exp(-|x| / 10), and edges with bumps at (10, -10) and (-10, 10).

20 iterations; PBP and EPBP with 10 particles, QBethe with 6 components and 3 nodes; its iterations are
gradient steps, of which it has 1000. The drawing of the tree and the y of (A) are lost: TREE in
`_bethe.py`, and y = 2 with noise from the node potential, are substitutes. The exact densities are sums
over a grid from -25 to 25. The source's reference, 200 points from -10 to 10 ("grid [-10, 10]"), cuts the
modes of (B) in halves. "Two-sided" is the share of the nodes whose belief has at least a tenth of its mass
on either side of zero, as all have in (B).

The source shows pictures only: in (A) particles good, EP poor, QBethe a little worse than the particles; in
(B) PBP and EPBP find one of two peaks, EP a normal density between them, QBethe both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from _bethe import bimodal_tree, divergence, grid_truth, infer, smooth_tree
from _tables import Cell, Measured, Table

POINTS = np.linspace(-25.0, 25.0, 501)
METHODS = {
    "EP": ("ep", 20),
    "PBP": ("particle-bp(particles=10, proposal=belief, redraws=20)", 20),
    "EPBP": ("ep-particle-bp(particles=10, widen=1, redraws=20)", 20),
    "QBethe": ("bethe(renewals=0, components=6, nodes=3)", 1000),
    "QBethe, ours": ("bethe(renewals=0, components=6, nodes=7, restarts=10)", 1000),
    "PBP, 100": ("particle-bp(particles=100, redraws=20)", 20),
    "grid [-10, 10]": ("grid-bp(points=200, low=-10, high=10)", 20),
}
CELLS = [Cell({"graph": "(A)"}), Cell({"graph": "(B)"})]


def model_of(cell: Cell, seed: int) -> Any:
    """One of the two trees; that of (B) is the same for all seeds."""
    return smooth_tree(seed) if cell.settings["graph"] == "(A)" else bimodal_tree()


def sides(result: Any) -> float:
    """Share of the nodes with at least a tenth of the mass on either side of zero."""
    left = [
        np.trapezoid(belief.density(POINTS[POINTS <= 0]), POINTS[POINTS <= 0])
        for belief in (result.marginals[f"x{i}"] for i in range(8))
    ]
    return float(np.mean([0.1 < mass < 0.9 for mass in left]))


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """Divergence of the beliefs, and error of log Z, in each repetition."""
    found = []
    for seed in seeds:
        model = model_of(cell, seed)
        log_z, exact = grid_truth(model, POINTS)
        row = {}
        for column, (spec, most) in METHODS.items():
            result = infer(model, spec, max_iter=most, seed=seed)
            row[column] = {"KL": divergence(POINTS, exact, result)}
            if result.log_z is not None:  # EP has none where a tilted distribution has no integral
                row[column]["log Z error"] = result.log_z.value - log_z
            if cell.settings["graph"] == "(B)":
                row[column]["two-sided"] = sides(result)
        found.append(row)
    return found


class Trees(Table):
    """Numbers, and the beliefs of the first repetition."""

    def picture(self, records: Sequence[dict]) -> Any:
        """Figure 8.2: the density of a node in the middle and of a leaf, exact and as the methods see it."""
        from credo.plotting.style import COLOURS, FAINT, new_figure, tidy

        figure = new_figure(9, 5.6)
        for row, cell in enumerate(CELLS):
            model = model_of(cell, 0)
            _, exact = grid_truth(model, POINTS)
            runs = {
                m: infer(model, spec, max_iter=most, seed=0) for m, (spec, most) in list(METHODS.items())[:4]
            }
            for column, node in enumerate(("x3", "x0")):
                axes = figure.add_subplot(2, 2, 2 * row + column + 1)
                axes.fill_between(POINTS, exact[node], color=FAINT, alpha=0.4, lw=0, label="exact")
                for colour, (method, result) in zip(COLOURS, runs.items(), strict=False):
                    axes.plot(
                        POINTS, result.marginals[node].density(POINTS), color=colour, lw=1, label=method
                    )
                axes.set_ylim(0, 2.5 * exact[node].max())
                axes.set_xlim(*((-4, 10) if row == 0 else (-18, 18)))
                axes.set_title(
                    f"{cell.settings['graph']} {'inner node' if node == 'x3' else 'leaf'}", fontsize=9
                )
                tidy(axes)
        figure.axes[0].legend(fontsize=7, frameon=False)
        return figure


TABLE = Trees(
    "bethe-trees", __doc__.splitlines()[0], CELLS, measure, repeats=10, quick=(0, 1), quick_repeats=1
)

if __name__ == "__main__":
    TABLE.main()
