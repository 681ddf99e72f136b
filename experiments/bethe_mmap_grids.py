"""Marginal MAP on 20 x 20 grids: a mixture of five products beside mixed-product BP (Table 8.6).

Half of the variables are maximised, by three masks: the black squares of a checkerboard, every other row,
and every other block of 4 x 4. The value is that of the returned states, log sum_{x_A} exp theta(x_A, x_B),
by exact elimination of the others; 5 trials with random starts. Mixtures have 500 steps and one run for all
masks.

The source's Grids26, 28, 29 and 30 and the drawings of its masks are not here: Grids_16 and Grids_18 of the
UAI 2014 set, binary and 20 x 20 too, stand in where that set is at hand, and an Ising grid with couplings
N(0, 4^2) and fields N(0, 1). So its numbers are not beside ours: mixed-BP 1898 to 6661 with deviations of
54 to 559, mixture-5 2088 to 7443 with 12 to 64, the mixture ahead in all twelve cells, by 8 to 32 per cent.
Ours: sequential BP with damping, which is deterministic, and local search.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _bethe import infer
from _mmap import MORE, STEPS, SWEEPS
from _tables import Cell, Measured, Table

import credo

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "uai14" / "PR"
SIDE = 20
FILES = tuple(name for name in ("Grids_16", "Grids_18") if (DATA / f"{name}.uai.gz").is_file())
CELLS = [
    Cell({"model": model, "mask": mask})
    for model in (*FILES, "Ising")
    for mask in ("checkerboard", "rows", "blocks")
]
QUICK = Cell({"model": "Ising 6 x 6", "mask": "checkerboard"})


@cache
def model_of(name: str) -> Any:
    """A grid of binary variables, row by row."""
    if name.startswith("Grids"):
        return credo.load(DATA / f"{name}.uai.gz")
    side = 6 if name == QUICK.settings["model"] else SIDE
    draws = {"coupling": credo.datasets.Normal(4.0), "field": credo.datasets.Normal(1.0)}
    return credo.datasets.ising_grid(side, **draws, seed=0)


def maximised(model: Any, mask: str) -> list[str]:
    """Names of the maximised variables of a square grid."""
    names = model.to_factor_graph().variables.names
    side = round(len(names) ** 0.5)
    row, column = np.divmod(np.arange(len(names)), side)
    chosen = {
        "checkerboard": (row + column) % 2 == 0,
        "rows": row % 2 == 0,
        "blocks": (row // 4 + column // 4) % 2 == 0,
    }[mask]
    return [names[i] for i in np.flatnonzero(chosen)]


def value(model: Any, names: Sequence[str], best: Any) -> float:
    """The exact value of states of the maximised variables."""
    return credo.infer(model, "junction-tree", evidence={n: best.index(n) for n in names}).log_z.value


@cache
def mixture(name: str, seed: int) -> Any:
    """One mixture for all masks."""
    return infer(model_of(name), "bethe(renewals=0, components=5)", max_iter=STEPS, seed=seed).state


def mixed(model: Any, names: Sequence[str], seed: int) -> Any:
    """States by mixed-product BP from random messages."""
    method = "bp(schedule=flooding, random_start=true)"
    result = infer(model, method, maximise=names, max_iter=SWEEPS, seed=seed)
    if not result.converged:
        result = infer(model, method, maximise=names, max_iter=MORE, warm_start=result)
    return result.assignment


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """The value of every method's states."""
    model = model_of(cell.settings["model"])
    names = maximised(model, cell.settings["mask"])
    rows = []
    for seed in seeds:
        states = {
            "mixed-BP": mixed(model, names, seed),
            "mixture-5": mixture(cell.settings["model"], seed).maximum(names),
            "damped BP, ours": infer(model, "bp(damping=0.5)", maximise=names).assignment,
            "local search, ours": infer(model, "local-search", maximise=names, seed=seed).assignment,
        }
        rows.append({method: {"value": value(model, names, best)} for method, best in states.items()})
    return rows


TABLE = Table(
    "bethe-mmap-grids",
    __doc__.splitlines()[0],
    CELLS,
    measure,
    repeats=5,
    quick=(QUICK,),
    quick_repeats=1,
    form=".1f",
)

if __name__ == "__main__":
    TABLE.main()
