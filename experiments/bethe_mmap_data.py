"""Marginal MAP on Chow-Liu trees of discrete data: mixtures beside mixed-product BP (Table 8.5).

Three variables are maximised, in all choices of three; 5 trials, which differ in the random starts. Numbers
are the relative error of the answers' probabilities; see `_mmap.py`. The trees have one pseudo-row per pair
of variables. "mixture-20, ours" has 20 components, and its start is chosen by the free energy among three
spreads.

Data: iris, which has a published row; wine and the ten means of breast cancer, which have none; numbers in
three bins of equally many rows, the class included. Tic-tac-toe, which has a published row, is enumerated:
958 final boards. The other sets of the source are not here. It does not say how it makes numbers discrete,
and its deviations, over splits as well as trials by their size, are not comparable with ours, over trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from _mmap import (
    EQUAL,
    Truth,
    ask,
    chosen_mixture,
    discretise,
    mixed_product,
    mixture,
    relative_errors,
    tic_tac_toe,
)
from _tables import Cell, Measured, Published, Table

import credo

COMPONENTS = (3, 5, 10)
SAID = {
    "iris": (-0.1848, 0.0743, -0.1242, 0.1238, -0.1473, 0.1326, -0.1188, 0.0566),
    "tic-tac-toe": (-0.0789, 0.0768, -0.1078, 0.0750, -0.0791, 0.0562, -0.0757, 0.0778),
}
METHODS = ("mixed-BP", *(f"mixture-{m}" for m in COMPONENTS))


def _published(data: str) -> dict[tuple[str, str], Published]:
    said = SAID.get(data, ())
    return {(m, "RE"): Published(*said[2 * k : 2 * k + 2]) for k, m in enumerate(METHODS) if said}


CELLS = [Cell({"data": data}, _published(data)) for data in ("iris", "tic-tac-toe", "breast-cancer", "wine")]


@cache
def columns(data: str) -> dict[str, np.ndarray]:
    """Discrete columns with the class."""
    if data == "tic-tac-toe":
        return tic_tac_toe()
    from sklearn import datasets

    found = getattr(datasets, f"load_{data.replace('-', '_')}")()
    table = found.data[:, :10] if data == "breast-cancer" else found.data
    return discretise(table, found.target)


@cache
def learned(data: str) -> tuple[Any, Truth]:
    """The tree of a data set and its exact marginals."""
    how = "chow-liu(smoothing=1,directed=false)"
    model = credo.fit(credo.BayesNet.from_edges(), columns(data), how).model
    return model, Truth(model)


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """The relative error of every method, averaged over the splits, and the share of optimal answers."""
    model, truth = learned(cell.settings["data"])
    rows = []
    for seed in seeds:
        given = {"mixed-BP": mixed_product(model, truth, seed)}
        for m in COMPONENTS:
            given[f"mixture-{m}"] = ask(truth, mixture(model, m, seed))
        given["mixture-20, ours"] = ask(truth, chosen_mixture(model, 20, seed))
        errors = {name: relative_errors(truth, found) for name, found in given.items()}
        rows.append(
            {m: {"RE": float(e.mean()), "correct": float((e > -EQUAL).mean())} for m, e in errors.items()}
        )
    return rows


TABLE = Table(
    "bethe-mmap-data",
    __doc__.splitlines()[0],
    CELLS,
    measure,
    repeats=5,
    quick_repeats=1,
    metrics=("RE", "correct"),
    form=".4f",
)

if __name__ == "__main__":
    TABLE.main()
