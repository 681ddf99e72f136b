"""Marginal MAP on random eight-node trees: mixtures and mixed-product BP (Figures 8.6 and 8.7).

theta_i ~ N(0, 0.01), theta_ij ~ N(0, sigma^2) for sigma from 0.1 to 1, and for 2 and 3, which are ours; of
the eight variables three are maximised. The source draws 100 models per sigma, the default here is 20;
neither its tree nor its number of states is known, so TREE of `_bethe.py` has two states and three. Mixtures
with 3, 5 and 10 components, 500 steps, equal weights and random tables at the start (logits of sd 0.1);
"mixture-20, ours" chooses its start by the free energy. Judged as `_mmap.py` says: the share of the splits
whose answer is optimal, and the relative error of its probability. Seconds are for all 56 splits of a model,
compiling left out.

The source shows pictures and says: where couplings are strong the mixtures are better in both respects;
where they are weak they are less often optimal, but nearly as good; 40 seconds against 250.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from _mmap import EQUAL, Truth, ask, chosen_mixture, mixed_product, mixture, random_tree, relative_errors
from _tables import Cell, Measured, Table

SIGMAS = (*(round(0.1 * k, 1) for k in range(1, 11)), 2.0, 3.0)
COMPONENTS = (3, 5, 10)
CELLS = [Cell({"states": states, "sigma": sigma}) for sigma in SIGMAS for states in (2, 3)]
METRICS = ("correct", "RE", "seconds")


def answers(model: Any, truth: Truth, seed: int) -> dict[str, tuple[Any, float]]:
    """Method -> its answers to all splits, and its seconds."""
    jobs: dict[str, Any] = {"mixed-BP": lambda: mixed_product(model, truth, seed)}
    for m in COMPONENTS:
        jobs[f"mixture-{m}"] = lambda m=m: ask(truth, mixture(model, m, seed))
    jobs["mixture-20, ours"] = lambda: ask(truth, chosen_mixture(model, 20, seed))
    found = {}
    for name, job in jobs.items():
        clock = time.perf_counter()
        found[name] = job(), time.perf_counter() - clock
    return found


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """The three numbers of every method for one model per seed."""
    states, sigma = cell.settings["states"], cell.settings["sigma"]
    model = random_tree(states, sigma, 0)
    answers(model, Truth(model), 0)  # compiles
    rows = []
    for seed in seeds:
        model = random_tree(states, sigma, seed)
        truth = Truth(model)
        row = {}
        for name, (given, seconds) in answers(model, truth, seed).items():
            errors = relative_errors(truth, given)
            row[name] = {
                "correct": float((errors > -EQUAL).mean()),
                "RE": float(errors.mean()),
                "seconds": seconds,
            }
        rows.append(row)
    return rows


class Curves(Table):
    """Both metrics against the strength of the couplings."""

    def picture(self, records: Sequence[dict]) -> Any:
        """Figure 8.7."""
        from credo.plotting.style import COLOURS, new_figure, tidy

        figure = new_figure(8.5, 5.2)
        methods = list(dict.fromkeys(r["method"] for r in records))
        for k, (metric, states) in enumerate((m, s) for m in METRICS[:2] for s in (2, 3)):
            axes = figure.add_subplot(2, 2, k + 1)
            for colour, method in zip(COLOURS, methods, strict=False):
                mine = [
                    r for r in records if (r["method"], r["metric"], r["states"]) == (method, metric, states)
                ]
                x, y = [r["sigma"] for r in mine], np.array([r["mean"] for r in mine])
                axes.plot(x, y, "o-", ms=3, lw=1, color=colour, label=method)
            axes.set_title(f"{states} states", fontsize=9)
            axes.set_xlabel("sigma", fontsize=8)
            axes.set_ylabel(metric, fontsize=8)
            tidy(axes)
        figure.axes[0].legend(fontsize=7, frameon=False)
        return figure


TABLE = Curves(
    "bethe-mmap-trees",
    __doc__.splitlines()[0],
    CELLS,
    measure,
    quick=(0, 18),
    quick_repeats=1,
    metrics=METRICS,
)

if __name__ == "__main__":
    TABLE.main()
