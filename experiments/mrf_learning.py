"""Learning Ising models with different inference: test NLL of grids and complete graphs (Tables 5.1-5.3).

A model is drawn, data are sampled from it exactly, and a model with random parameters is fitted to them by
Adam on the gradient  mean of the data's features - expected features,  where the expectations come from each
inference method in turn. What is compared is the negative log-likelihood of test data per row with the exact
log Z of the learned model, whatever learned it. All methods share one setting: 4000 or 2000 training
rows, 1000 test rows, every step a gradient on all rows with fresh expectations, 400 steps with rate 0.05,
and the last parameters; nothing is selected on the test data (the source prints the lowest test NLL).

The networks have width 64 and start each step from the parameters of the last; their beliefs are projected
to agree. Their runs stop at a mean squared change of 1e-8 in one step: the source's 1e-5 is a rule for a
start from random parameters, where the first steps are large. From the parameters of the last run every step
is smaller than that, so a run would end after its first ten steps and the beliefs would fall behind the
model that is being learned. 1e-8 is a change of 1e-4; two hundred more steps of that size, the most a run may
take, add up to the standard error of a mean over the training rows (0.016 to 0.022), and what is smaller than
that does not matter here.

"excess" is the test NLL above that of the generating model on the same rows: the source has one data set per
row, so that only differences compare with ours. "seconds" is the time of one gradient step, with its run of
inference and its share of compiling; the source divides one inference and twenty passes over the data by
twenty.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from _renn import DOUBTS, PENALTY, model_of
from _tables import Cell, Published, Table

import credo
from credo.core.errors import ConvergenceWarning
from credo.inference.problem.base import Budget
from credo.learning import fit, log_likelihood

METHODS = ("exact", "mean field", "loopy BP", "damped BP", "GBP", "inference net", "RENN")
LEARNER = "likelihood(optimiser=adam(rate=0.05))"
STEPS = 400
WIDTH = 64
STOP = 1e-8  # mean squared change in one step of a network
ROWS = {"grid": 4000, "complete": 2000}
TEST_ROWS = 1000


def engine(name: str, settings: Mapping[str, Any]) -> str:
    """The inference a method learns with."""
    options = f"width={settings.get('width', WIDTH)}, penalty={PENALTY[settings['graph']]}, stop={STOP}"
    return {
        "exact": "junction-tree",
        "mean field": "mean-field",
        "loopy BP": "bp",
        "damped BP": "bp(damping=0.5)",
        "GBP": "gbp",
        "inference net": f"inference-net({options})",
        "RENN": f"renn({options})",
    }[name]


def as_features(model: Any, weights: np.ndarray | None = None) -> Any:
    """The same Ising model with one weight per edge (J) and per variable (h)."""
    graph = model.to_factor_graph()
    spin = np.array([-1.0, 1.0])
    features, values = [], []
    for a in range(graph.n_factors):
        scope = graph.scope_of(a)
        features.append((scope[None, :], np.outer(spin, spin) if len(scope) == 2 else spin, a))
        values.append(float(graph.log_table(a).flat[-1]))
    return credo.MarkovNet.log_linear(model.variables, features, values if weights is None else weights)


def one(settings: Mapping[str, Any], seed: int, methods: Sequence[str] = METHODS) -> dict[str, Any]:
    """Test NLL per row, its excess over the truth and seconds per step of every method, on one data set."""
    truth = model_of(settings, seed)
    train = credo.sample(truth, ROWS[settings["graph"]], seed=2 * seed)
    test = credo.sample(truth, TEST_ROWS, seed=2 * seed + 1)
    start = as_features(model_of(settings, seed + 100_000))  # another draw from the same prior
    best = _nll(truth, test)
    found: dict[str, Any] = {"true": {"test NLL": best, "excess": 0.0}}
    for name in methods:
        clock = time.perf_counter()
        learned = _learned(start, train, engine(name, settings), int(settings.get("steps", STEPS)), seed)
        seconds = (time.perf_counter() - clock) / max(len(learned.objective) - 1, 1)
        nll = _nll(learned.model, test)
        found[name] = {"test NLL": nll, "excess": nll - best, "seconds": seconds}
    return found


def _nll(model: Any, rows: Any) -> float:
    return float(-log_likelihood(model, rows, "junction-tree").value / len(rows))


def _learned(start: Any, train: Any, inference: str, steps: int, seed: int) -> Any:
    with warnings.catch_warnings():
        # A fixed number of steps and runs of BP that oscillate are what is being compared.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(
            start, train, LEARNER, inference=inference, max_iter=steps, tol=0.0, seed=seed,
            inference_budget=Budget(200, 1e-6),
        )  # fmt: skip


def measure(setting: Cell, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """One data set per seed."""
    return [one(setting.settings, seed) for seed in seeds]


def published(graph: str, numbers: Sequence[float], seconds: Sequence[float] = ()) -> dict[Any, Published]:
    """The source's row: true, exact, mean field, BP, damped BP, GBP, inference net, RENN."""
    said = {}
    for name, value in zip(("true", *METHODS), numbers, strict=True):
        doubt = DOUBTS[graph].get(name, "")
        said[name, "test NLL"] = Published(value, None, doubt)
        said[name, "excess"] = Published(round(value - numbers[0], 3), None, doubt)
    for name, value in zip(METHODS[1:], seconds, strict=bool(seconds)):
        said[name, "seconds"] = Published(value)
    return said


# N: test NLL of true, exact, mean field, BP, damped BP, GBP, inference net, RENN; seconds of the last six
COMPLETE = {
    9: ((3.276, 3.286, 9.558, 5.201, 5.880, 10.06, 5.262, 3.414), ()),
    16: (
        (4.883, 4.934, 28.74, 13.64, 18.95, 24.45, 13.77, 5.178),
        (2.499, 12.40, 5.431, 1.387, 0.882, 2.262),
    ),
}
GRID = {
    25: ((9.000, 9.004, 9.811, 9.139, 9.196, 10.56, 9.252, 9.048), ()),
    100: ((19.34, 19.38, 23.48, 19.92, 20.02, 28.61, 20.29, 19.76), ()),
    225: (
        (63.90, 63.97, 69.01, 66.44, 66.25, 92.62, 68.15, 64.79),
        (40.09, 335.1, 525.1, 12.37, 19.49, 16.03),
    ),
}
CELLS = [
    Cell({"graph": graph, "N": n, "gamma": gamma}, published(graph, *numbers))
    for graph, gamma, rows in (("complete", 1.0, COMPLETE), ("grid", 0.1, GRID))
    for n, numbers in rows.items()
]
SMALL = Cell({"graph": "grid", "N": 25, "gamma": 0.1, "steps": 20, "width": 16})
TABLE = Table(
    "mrf-learning", __doc__.splitlines()[0], CELLS, measure, repeats=3, quick=(SMALL,), quick_repeats=1,
    metrics=("excess", "test NLL", "seconds"),
)  # fmt: skip

if __name__ == "__main__":
    TABLE.main()
