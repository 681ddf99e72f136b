"""What the tables about region-based energy networks share: models, methods, metrics, published numbers.

Models: Ising models on grids and complete graphs, J ~ N(0, 1) and h ~ N(0, gamma^2), or J ~ U(-u, u) and
h ~ U(-1, 1); the same models for all methods of a row.

Metrics, over the vector of all p(x_i = 1) and p(x_i = 1, x_j = 1): the mean absolute difference to the exact
vector (l1 error) and Pearson's correlation with it; and |log Z - estimate|. Exact answers come from the
junction tree.

Methods, with the settings of the source where it names them:

    mean field     one variable after another in random order, at most 200 sweeps
    loopy BP       random order, at most 200 sweeps from uniform messages; stops at a change of 1e-6 (the
                   source stops earlier, at a mean squared change of marginals of 1e-5)
    damped BP      the same with half of the old message, in logarithms
    GBP            region graph of the source (faces of grids, star triangles of complete graphs), the
                   equations as they are; single loop, then double loop where that does not settle
    inference net  the network on Bethe regions, same width, layers, steps and stop as RENN
    RENN           width 128, one attention and two residual layers, Adam with rate 0.001 for at most 200
                   steps, stop at a mean squared change of 1e-5, penalty 5 on grids and 3 on complete
                   graphs, beliefs and free energy as found. One setting per family, chosen on graphs with
                   other seeds. All models of a row start from one random network.
    RENN, ours     a narrow network whose beliefs GBP goes on from, on the same regions for grids; on
                   complete graphs the regions are larger: some variables, the hub, joined to every pair of
                   the others. Chosen on graphs with seeds from 1000 on, which no table uses.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from _tables import Cell, Published, Table

import credo
from credo.core.errors import ConvergenceWarning
from credo.inference.problem.base import algorithms

METRICS = ("l1 error", "correlation", "log Z error")
COLUMNS = ("mean field", "loopy BP", "damped BP", "GBP", "inference net", "RENN")
PENALTY = {"grid": 5.0, "complete": 3.0}
STEPS = 200  # of Adam at most
STOP = 1e-5  # mean squared change of marginals in one step that ends a run: the source's rule
HUB = {9: 3, 16: 4}  # variables all larger regions share, by the size of a complete graph

INSIDE = (
    "the source's GBP drops the factors between a child region and the rest of its parent; a correct one "
    "gives other numbers"
)
GRID_EDGES = (
    "the source used the neighbours and degrees of a square grid on complete graphs too; correct messages "
    "and energies give other numbers"
)
UNKNOWN = "the source's GBP is not that of its equations; where these numbers come from is not known"
DOUBTS = {
    "grid": {"GBP": INSIDE},
    "complete": {
        "GBP": UNKNOWN,
        **dict.fromkeys(("mean field", "loopy BP", "damped BP", "inference net"), GRID_EDGES),
    },
}
OURS = "RENN, ours"
_SHORT = dict(zip(("l1", "rho", "log-Z"), METRICS, strict=True))


class Rows(Table):
    """A table whose last lines say in which rows the better setting beats the published RENN."""

    def report(self, records: Sequence[dict]) -> None:
        """Print the table, and the rows where the better setting is not the better one."""
        super().report(records)
        said = {r["cell"]: r["published"] for r in records if _is(r, "RENN") and r["published"] is not None}
        mine = {r["cell"]: r["mean"] for r in records if _is(r, OURS) and r["cell"] in said}
        worse = [cell for cell, value in mine.items() if value >= said[cell]]
        if mine:
            won = len(mine) - len(worse)
            print(f"{OURS}: l1 error below the published RENN in {won} of {len(mine)} rows")
        for cell in worse:
            print(f"  not in: {cell} ({mine[cell]:.3f}, published {said[cell]:.3f})")


def _is(record: Mapping[str, Any], method: str) -> bool:
    return bool(record["method"] == method and record["metric"] == METRICS[0])


@dataclass(frozen=True)
class Method:
    """An algorithm and the limits of its runs."""

    algorithm: Any  # name or object
    limits: Mapping[str, Any] = field(default_factory=dict)  # max_iter, tol, seconds


def model_of(settings: Mapping[str, Any], seed: int) -> Any:
    """The Ising model of a row: `graph`, `N`, and `gamma` or `u`."""
    n = int(settings["N"])
    if "u" in settings:
        u = float(settings["u"])
        draws: dict[str, Any] = {
            "coupling": credo.datasets.Uniform(-u, u),
            "field": credo.datasets.Uniform(-1.0, 1.0),
        }
    else:
        draws = {"field": credo.datasets.Normal(float(settings["gamma"]))}
    if settings["graph"] == "grid":
        return credo.datasets.ising_grid(round(n**0.5), seed=seed, **draws)
    return credo.datasets.complete_ising(n, seed=seed, **draws)


def hub_regions(n: int, hub: int) -> tuple[tuple[str, ...], ...]:
    """Every pair of variables outside the hub, joined to the hub; a hub of one gives star triangles."""
    pairs = itertools.combinations(range(hub, n), 2)
    return tuple(tuple(f"x{i}" for i in (*range(hub), *pair)) for pair in pairs)


def renn(settings: Mapping[str, Any], **options: Any) -> Method:
    """The documented setting of a family; `options` replace some of it, and so do `width` and `steps`."""
    small = {"width": settings["width"]} if "width" in settings else {}
    chosen = {"penalty": PENALTY[settings["graph"]], "stop": STOP, "project": False, **small, **options}
    return Method(algorithms.get("renn")(**chosen), {"max_iter": settings.get("steps", STEPS)})


def ours(settings: Mapping[str, Any]) -> Method:
    """The better setting, see the module."""
    n = int(settings["N"])
    regions = "auto" if settings["graph"] == "grid" else hub_regions(n, HUB.get(n, 2))
    made = renn(settings, regions=regions, width=32, polish="gbp", project=True, penalty=5.0)
    return Method(made.algorithm, {"max_iter": 5000})


def methods(settings: Mapping[str, Any]) -> dict[str, Method]:
    """All columns of the tables."""
    sweeps = {"max_iter": 200, "tol": 1e-6}
    network = renn(settings)
    plain = network.algorithm
    net = algorithms.get("inference-net")(penalty=plain.penalty, width=plain.width, stop=STOP, project=False)
    return {
        "mean field": Method("mean-field(order=random)", sweeps),
        "loopy BP": Method("bp(schedule=random)", sweeps),
        "damped BP": Method("bp(schedule=random, damping=0.5)", sweeps),
        "GBP": Method("gbp", {"max_iter": 5000}),
        "inference net": Method(net, {**network.limits, "seconds": 900.0}),
        "RENN": network,
        OURS: ours(settings),
    }


def run(method: Method, models: Sequence[Any]) -> Any:
    """All models in one call; runs that do not converge are part of what is compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer_models(models, method.algorithm, seed=0, **method.limits)


def compare(
    settings: Mapping[str, Any], seeds: Sequence[int], chosen: Mapping[str, Method]
) -> list[dict[str, dict[str, float]]]:
    """The three metrics of the chosen methods, one entry per seed."""
    models = [model_of(settings, seed) for seed in seeds]
    truth = [credo.infer(model, "junction-tree") for model in models]
    found: list[dict[str, dict[str, float]]] = [{} for _ in models]
    for name, method in chosen.items():
        for entry, result, exact in zip(found, run(method, models), truth, strict=True):
            entry[name] = errors(result, exact)
    return found


def measure(cell: Cell, seeds: Sequence[int]) -> list[dict[str, dict[str, float]]]:
    """All methods on one model per seed."""
    return compare(cell.settings, seeds, methods(cell.settings))


def errors(found: Any, exact: Any) -> dict[str, float]:
    """The metrics; those that are not defined are left out."""
    a, b = beliefs(found), beliefs(exact)
    varies = min(a.std(), b.std()) > 0
    values = (
        float(np.abs(a - b).mean()),
        float(np.corrcoef(a, b)[0, 1]) if varies else np.nan,
        abs(found.log_z.value - exact.log_z.value),
    )
    return {name: value for name, value in zip(METRICS, values, strict=True) if np.isfinite(value)}


def beliefs(result: Any) -> np.ndarray:
    """p(x_i = 1) of all variables, then p(x_i = 1, x_j = 1) of all edges."""
    tables = [t for t in result.factor_marginals if t.ndim == 2]
    return np.concatenate([result.marginals.flat[1::2], [t[1, 1] for t in tables]])


def published(
    text: str, columns: Sequence[str] = COLUMNS, doubts: Mapping[str, str] | None = None
) -> dict[str, dict[tuple[str, str], Published]]:
    """Read lines `metric row mean sd mean sd ...`, one pair per column: row -> (method, metric) -> number."""
    said: dict[str, dict[tuple[str, str], Published]] = {}
    for line in text.split("\n"):
        words = line.split()
        if not words:
            continue
        metric, row, *numbers = words
        if len(numbers) != 2 * len(columns):
            raise ValueError(
                f"'{line}': expected {len(columns)} pairs of numbers, got {len(numbers)} numbers"
            )
        for k, column in enumerate(columns):
            mean, sd = float(numbers[2 * k]), float(numbers[2 * k + 1])
            doubt = (doubts or {}).get(column, "")
            said.setdefault(row, {})[column, _SHORT[metric]] = Published(mean, sd, doubt)
    return said


def cells(graph: str, key: str, said: Mapping[str, Any], **fixed: Any) -> list[Cell]:
    """One cell per row of a published table; `key` is what a row varies."""
    made = []
    for row, numbers in said.items():
        value: int | float = float(row) if key != "N" else int(row)
        made.append(Cell({"graph": graph, **fixed, key: value}, numbers))
    return made
