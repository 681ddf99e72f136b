"""EM with hidden variables on a network of the size of alarm: what is lost by not seeing them.

Rows are sampled from a network of 37 variables. Either five inner variables are never shown, or one value in
ten is missing at random; EM fills the tables from random starts. Compared is the log-likelihood per row of
fresh test rows, of what is visible in them:

    start      random tables, where EM begins
    one run    EM from the first start
    best       the best of several starts, by the likelihood of the training rows
    complete   counts of the same rows with nothing hidden: what no EM can expect to beat by much
    truth      the network the rows come from

All estimates have the same weak prior (one pseudo-row per table). EM cannot know the names of hidden states,
but any relabelling gives the same likelihood. The network is alarm, if its file is found or given with
--model, otherwise a random one of its size.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _common import bar, parser, save, show

import credo
from credo.core.errors import ConvergenceWarning
from credo.data.table import StateTable
from credo.learning import fit
from credo.learning.e_step import EStep
from credo.learning.expectations import Oracle

ALARM = Path(__file__).resolve().parents[2] / "shared" / "data" / "bif" / "alarm.bif.gz"
PRIOR = "bdeu(size=1)"
HIDDEN = 5
TEST_ROWS = 5000


def network(path: Path | None, seed: int) -> Any:
    """The network that makes the data."""
    if path is not None:
        return credo.load(path)
    sizes = np.random.default_rng(seed).choice([2, 3, 4], 37, p=[0.4, 0.45, 0.15])
    return credo.datasets.random_bayes_net(37, 2, sizes, seed=seed, concentration=0.5)


def inner_variables(truth: Any) -> list[str]:
    """The variables with most children: hiding a leaf is not hiding much."""
    return sorted(truth.variables.names, key=lambda n: -len(truth.children[n]))[:HIDDEN]


def masked(truth: Any, rows: np.ndarray, case: str, rng: np.random.Generator) -> StateTable:
    """What is visible of the rows."""
    rows = rows.copy()
    if case == "hidden":
        rows[:, truth.variables.positions(inner_variables(truth))] = -1
    else:
        rows[rng.random(rows.shape) < 0.1] = -1
    return StateTable.from_states(truth.variables, rows)


def mean_score(model: Any, data: StateTable) -> float:
    """Exact log-likelihood per row of what is visible."""
    graph = model.to_factor_graph()
    return EStep(graph, data, Oracle(None), values_only=True)(graph.log_tables).log_weight / data.total


def measure(truth: Any, case: str, count: int, restarts: int, seed: int) -> dict[str, Any]:
    """All the numbers of one cell, and the curves of the best run."""
    rng = np.random.default_rng([seed, count])
    rows = truth.sample(count, seed=int(rng.integers(2**31))).indices
    test = masked(truth, truth.sample(TEST_ROWS, seed=int(rng.integers(2**31))).indices, case, rng)
    train = masked(truth, rows, case, rng)
    start = credo.BayesNet.random(truth.variables, dict(truth.parents), seed=seed)
    complete = fit(start, rows, f"counts(prior={PRIOR})").model
    clock = time.perf_counter()
    one = fit(start, train, f"em(prior={PRIOR})", max_iter=1000, tol=0.01, seed=seed)
    seconds = time.perf_counter() - clock
    best = fit(start, train, f"em(prior={PRIOR},restarts={restarts})", max_iter=1000, tol=0.01, seed=seed)
    return {
        "case": case,
        "rows": count,
        "start": mean_score(start, test),
        "one run": mean_score(one.model, test),
        "best": mean_score(best.model, test),
        "complete": mean_score(complete, test),
        "truth": mean_score(truth, test),
        "iterations": len(one.objective) - 1,
        "seconds": seconds,
        "curve": one.trace["log_likelihood"].tolist(),
        "restarts": best.restarts.tolist(),
    }


def picture(records: list[dict[str, Any]]) -> Any:
    """Left: likelihood of the training rows by iteration; right: distance from the truth by rows."""
    from credo.plotting.style import COLOURS, new_figure, tidy

    figure = new_figure(8, 3.2)
    left, right = figure.subplots(1, 2)
    for k, record in enumerate(records):
        label = f"{record['case']}, {record['rows']} rows"
        curve = record["curve"][1:]  # the start is far below
        left.plot(range(1, len(curve) + 1), curve, color=COLOURS[k % len(COLOURS)], lw=1, label=label)
    left.set_xscale("log")
    left.set_xlabel("iteration", fontsize=8)
    left.set_ylabel("log-likelihood per training row", fontsize=8)
    left.legend(fontsize=6, frameon=False)
    for case, style in (("hidden", "-"), ("missing", "--")):
        mine = [r for r in records if r["case"] == case]
        for k, name in enumerate(("one run", "best", "complete")):
            away = [max(r["truth"] - r[name], 1e-6) for r in mine]
            right.plot([r["rows"] for r in mine], away, style, color=COLOURS[k], lw=1, marker="o", ms=3,
                       label=f"{case}: {name}")  # fmt: skip
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("training rows", fontsize=8)
    right.set_ylabel("test nats per row below the truth", fontsize=8)
    right.legend(fontsize=6, frameon=False)
    tidy(left)
    tidy(right)
    return figure


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", type=Path, default=None, help="a network file; alarm by default")
    given = options.parse_args()
    path = given.model or (ALARM if ALARM.is_file() and not given.quick else None)
    truth = network(path, given.seed)
    print(f"{'alarm' if path == ALARM else path or 'a random network'}: {truth}")
    print(f"hidden: {', '.join(inner_variables(truth))}")
    sizes, restarts = ((300, 1000), 2) if given.quick else ((1000, 10_000, 100_000), 10)
    records: list[dict[str, Any]] = []
    with bar(2 * len(sizes)) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for case in ("hidden", "missing"):
            for count in sizes:
                records.append(measure(truth, case, count, restarts, given.seed))
                progress.step(f"{case}, {count} rows")
    names = ("start", "one run", "best", "complete", "truth")
    table = [
        [f"{r['case']}, {r['rows']} rows", *(f"{r[n]:.4f}" for n in names), str(r["iterations"]),
         f"{r['seconds']:.2f}"]
        for r in records
    ]  # fmt: skip
    show("test log-likelihood per row", ["", *names, "iterations", "seconds"], table)
    if records:
        save(given.out, "em-alarm", records, picture(records))


if __name__ == "__main__":
    main()
