"""A deeper graph with five hidden variables learned by four local rules (Section 7.2, Figure 15).

Eight variables, S1 S2 S3 (roots), Y1 Y2 (hidden) and the observed leaves X1 X2 X3, with 4, 2, 3; 3, 4;
3, 2, 3 states. Children of two parents go through product spaces. 100 samples, 600 epochs, 3 inner
iterations.

The figure of the graph is lost; the text fixes S1 -> two copies, (S1, S2) -> Y2 and (Y2, S3) -> a leaf.
TOPOLOGY is one reading. The generating parameters ("hand-picked") are lost too: rows are drawn from
Dir(0.4), so the levels differ from the source's, and what is compared is the order: ML and KL first
and smooth, VIT oscillating or stuck, VAR at the level of independent leaves. The reference lines are
an independent computation on three other data sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import bar, parser, save, show

import credo
from credo.learning.block_records import BlockRun
from credo.learning.block_training import train_blocks
from credo.models.normal_form_build import from_bayes_net

STATES = {"S1": 4, "S2": 2, "S3": 3, "Y1": 3, "Y2": 4, "X1": 3, "X2": 2, "X3": 3}
TOPOLOGY = {"Y1": ["S1"], "Y2": ["S1", "S2"], "X1": ["Y1"], "X2": ["Y1"], "X3": ["Y2", "S3"]}
LEAVES = ("X1", "X2", "X3")
RULES = {"ML": "ml(iterations=3)", "KL": "kl(iterations=3)", "VIT": "vit", "VAR": "var"}
SAMPLES = 100
# Three data sets of the reference: final metric of each rule, of independent leaves, of the empirical table.
REFERENCE = (
    {
        "ML": "-240.4 to -242.6",
        "KL": "-243.3",
        "VIT": "-256.9 to -269.5",
        "VAR": "-269.5",
        "levels": "-269.5, -238.8",
    },
    {
        "ML": "-174.9 to -178.3",
        "KL": "-180.5 to -180.9",
        "VIT": "-191.8 to -235.5",
        "VAR": "-235.5",
        "levels": "-235.5, -173.4",
    },
    {
        "ML": "-217.9 to -218.4",
        "KL": "-222.8 to -222.9",
        "VIT": "-229.8",
        "VAR": "-229.8",
        "levels": "-229.8, -212.1",
    },
)


def generator(seed: int) -> credo.BayesNet:
    """A network of the topology with random tables."""
    return credo.BayesNet.random(STATES, TOPOLOGY, seed=seed, concentration=0.4)


def levels(data: dict[str, np.ndarray]) -> tuple[float, float]:
    """The metric of independent leaves, and of the empirical table."""
    table = np.zeros([STATES[leaf] for leaf in LEAVES])
    np.add.at(table, tuple(data.values()), 1.0)
    seen, low, high = table > 0, 0.0, 0.0
    for k in range(3):
        others = tuple(j for j in range(3) if j != k)
        alone = np.broadcast_to(table.sum(axis=others, keepdims=True) / table.sum(), table.shape)
        given = table[seen] / np.broadcast_to(table.sum(axis=k, keepdims=True), table.shape)[seen]
        low += float(table[seen] @ np.log(alone[seen]))
        high += float(table[seen] @ np.log(given))
    return low, high


def measure(
    sets: int, restarts: int, epochs: int, seed: int
) -> tuple[list[dict[str, Any]], dict[str, BlockRun]]:
    """One record per run, and the first run of every rule on the first data set."""
    records: list[dict[str, Any]] = []
    first: dict[str, BlockRun] = {}
    with bar(sets * len(RULES)) as progress:
        for number in range(sets):
            net = generator(seed + number)
            drawn = net.sample(SAMPLES, seed=seed + number)
            data = {leaf: drawn.column(leaf) for leaf in LEAVES}
            low, high = levels(data)
            graph = from_bayes_net(net, hidden=[name for name in STATES if name not in LEAVES])
            for rule, text in RULES.items():
                runs = train_blocks(graph, data, text, epochs=epochs, restarts=restarts, seed=seed).runs
                first.setdefault(rule, runs[0])
                for k, run in enumerate(runs):
                    records.append(
                        {
                            "set": number + 1,
                            "rule": rule,
                            "restart": k,
                            "epochs": run.epochs,
                            "metric": float(run.metric[-1]),
                            "log_likelihood": float(run.log_likelihood[-1]),
                            "independent": low,
                            "saturated": high,
                        }
                    )
                progress.step(f"data set {number + 1} {rule}")
    return records, first


def report(records: list[dict[str, Any]]) -> None:
    """Measured values, and those of the reference's own data sets."""
    rows = []
    for number in sorted({r["set"] for r in records}):
        mine = [r for r in records if r["set"] == number]
        for rule in RULES:
            values = [r["metric"] for r in mine if r["rule"] == rule]
            if values:
                joint = max(r["log_likelihood"] for r in mine if r["rule"] == rule)
                cells = [f"{max(values):.1f}", f"{min(values):.1f}", f"{joint:.1f}"]
                rows.append([f"set {number} {rule}", *cells])
        cells = [f"{mine[0]['saturated']:.1f}", f"{mine[0]['independent']:.1f}", "-"]
        rows.append([f"set {number} saturated, independent", *cells])
    show("final metric", ["run", "best", "worst", "best joint log-likelihood"], rows)
    known = [[f"set {k + 1}", *row.values()] for k, row in enumerate(REFERENCE)]
    show("reference, on data sets of its own", ["", *RULES, "independent, saturated"], known)


def picture(first: dict[str, BlockRun]) -> Any:
    """The metric against the epoch."""
    from credo.plotting.style import COLOURS, new_figure, tidy

    figure = new_figure(5, 3.4)
    axes = figure.add_subplot(1, 1, 1)
    for colour, (rule, run) in zip(COLOURS, first.items(), strict=False):
        axes.plot(run.metric, color=colour, linewidth=1.2, label=rule)
    axes.set_xlabel("epoch", fontsize=8)
    axes.set_ylabel("metric", fontsize=8)
    axes.legend(fontsize=8, frameon=False)
    tidy(axes)
    return figure


def main(arguments: list[str] | None = None) -> None:
    """Run the experiment from the command line."""
    from credo.plotting import plot_normal_form, plot_trajectories

    options = parser(__doc__ or "")
    options.add_argument("--sets", type=int, default=None, help="data sets (3; 1 with --quick)")
    options.add_argument("--restarts", type=int, default=None, help="starts per data set (5; 1 with --quick)")
    given = options.parse_args(arguments)
    sets, restarts = given.sets or (1 if given.quick else 3), given.restarts or (1 if given.quick else 5)
    records, first = measure(sets, restarts, 40 if given.quick else 600, given.seed)
    if not records:
        return
    report(records)
    save(given.out, "normal-deep", records, picture(first))
    figure = plot_trajectories({rule: run.trajectories for rule, run in first.items()})
    save(given.out, "normal-deep-coefficients", records, figure)
    save(given.out, "normal-deep-graph", records, plot_normal_form(next(iter(first.values())).model))


if __name__ == "__main__":
    main()
