"""Samples of mixtures of flows, and images between images (Figures 6.8 and 6.9).

Grids of samples and rows of interpolations are written as pictures; the table says in numbers what they show.
Codes of two real images lie on a straight line; each is decoded by the component of the nearer end, or by one
drawn from the weights, which shows that components know different kinds of images.

ends      largest distance of the first and last row from the real images, in grey levels
purity    how often an image between two of one class is of that class too, by the network of `genmm-scores`
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from _common import OUT
from _glow import SIDE, TINY, between, pictures, trained
from _sets import images
from _tables import Cell, Measured, Table
from genmm_nll import SIZE
from genmm_scores import judge

import credo
from credo.plotting import plot_images

PAIRS, SHARES = 200, np.linspace(0.0, 1.0, 9)
SHOWN = 10  # columns of pictures


def pairs(data: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Held-out images in pairs of one class, and the classes."""
    rng = np.random.default_rng(seed)
    x, y = pictures(data, 2000)[1], images(data).test_y[:2000]
    chosen = [rng.choice(np.flatnonzero(y == k % 10), 2, replace=False) for k in range(count)]
    first, last = np.array(chosen).T
    return x[first], x[last], y[first]


def measure(cell: Cell, seeds: Sequence[int]) -> list[Measured]:
    """Numbers about the lines between images, and the pictures of the first seed."""
    about, found = cell.settings, []
    small = about["images"] <= TINY
    model, network = trained(about, "gaussian").model, judge(about["data"], small)
    for seed in seeds:
        first, last, label = pairs(about["data"], 20 if small else PAIRS, seed)
        rng, named = np.random.default_rng(seed), {}
        for name, draw in (("nearer end", None), ("drawn", rng)):
            rows = between(model, first, last, SHARES, draw)
            inner = np.clip(rows[1:-1], 0, 255).reshape(-1, SIDE, SIDE)
            told = network.predict(inner) == np.tile(label, len(SHARES) - 2)
            named[name] = {"purity": float(told.mean())}
            if draw is None:
                named[name]["ends"] = float(max(np.abs(rows[0] - first).max(), np.abs(rows[-1] - last).max()))
            if seed == seeds[0] and not small:
                _save(f"{about['data']}-K{about['K']}-{name.replace(' ', '-')}", rows[:, :SHOWN])
        if seed == seeds[0] and not small:
            drawn = np.asarray(credo.sample(model, SHOWN**2, seed=seed)[0])
            _save(f"{about['data']}-K{about['K']}-samples", drawn.reshape(SHOWN, SHOWN, -1))
        found.append(named)
    return found


def _save(name: str, rows: np.ndarray) -> None:
    grid = np.clip(rows, 0, 255).reshape(*rows.shape[:2], SIDE, SIDE)
    OUT.mkdir(parents=True, exist_ok=True)
    plot_images(grid, limits=(0, 255)).savefig(OUT / f"genmm-pictures-{name}.png")


TABLE = Table(
    "genmm-pictures",
    __doc__.splitlines()[0],
    [Cell({"data": data, **SIZE, "K": k}) for data in ("mnist", "fashion") for k in (1, 3, 5, 7)],
    measure,
    repeats=3,
    quick=[Cell({"data": "mnist", "images": 100, "epochs": 5, "steps": 1, "width": 4, "K": 2})],
    quick_repeats=1,
    metrics=("ends", "purity"),
    form=".3f",
)

if __name__ == "__main__":
    TABLE.main()
