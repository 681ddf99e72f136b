"""A hidden variable learned from three leaves by four local rules (Experiments 1-3, Figures 11-14).

N samples of a hidden S with 4 states and leaves of 2, 2 and 3 states; the leaves are observed. The graph is
one source, one diverter and three blocks, all learned. What is plotted is the source's metric, the sum over
leaves and samples of log p(leaf | other leaves): a pseudo-likelihood; the joint likelihood is recorded too.

    1   M_S = 4, 60 epochs, 3 inner iterations; inner iterations 1 to 20 with 10 restarts; coefficients
    2   M_S = 2 and 7
    3   N = 300, the first half learned from, the other half judged; M_S = 4 and 9

The source prints curves and no numbers; the reference values are an independent computation on the same
draws. Runs start from random matrices (Dirichlet, concentration 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import bar, parser, save, show

import credo
from credo.learning.block_records import BlockRun
from credo.learning.block_training import train_blocks
from credo.models.normal_form_build import embedding, from_bayes_net

LEAVES = {"X1": 2, "X2": 2, "X3": 3}
INNER = (1, 3, 5, 10, 20)
RULES = {"ML": "ml(iterations={})", "KL": "kl(iterations={})", "VIT": "vit", "VAR": "var"}
GENERATOR = credo.BayesNet(
    {"S": 4, **LEAVES},
    {leaf: ["S"] for leaf in LEAVES},
    {
        "S": [0.25, 0.25, 0.25, 0.25],
        "X1": [[0.1, 0.9], [0.1, 0.9], [0.9, 0.1], [0.3, 0.7]],
        "X2": [[0.1, 0.9], [0.99, 0.01], [0.5, 0.5], [0.2, 0.8]],
        "X3": [[0.1, 0.89, 0.01], [0.3, 0.3, 0.4], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1]],
    },
)
# Experiment, states of S, rule, inner iterations -> what the reference says of the final metric.
REFERENCE = {
    ("1", 4, "ML", 1): "-770.0 in all",
    ("1", 4, "ML", 3): "-770.0 in all",
    ("1", 4, "ML", 5): "worst -783.5",
    ("1", 4, "ML", 10): "worst -892.4",
    ("1", 4, "ML", 20): "worst -948.1",
    ("1", 4, "KL", 3): "-770.0 to -770.2",
    ("1", 4, "VIT", 3): "-849.2 to -923.9, mean -893.9",
    ("1", 4, "VAR", 3): "-923.9 in all",
    ("2", 2, "ML", 3): "-804.8",
    ("2", 2, "KL", 3): "-804.8",
    ("2", 7, "ML", 3): "-770.0",
    ("2", 7, "KL", 3): "-770.0",
    ("3", 4, "ML", 3): "mean -298.4",
    ("3", 4, "KL", 3): "mean -298.1",
    ("3", 4, "VIT", 3): "mean -351.6",
    ("3", 4, "VAR", 3): "mean -361.3",
    ("3", 9, "ML", 3): "mean -298.5",
    ("3", 9, "KL", 3): "mean -298.4",
    ("3", 9, "VIT", 3): "mean -360.3",
    ("3", 9, "VAR", 3): "mean -361.3",
}


def draw(samples: int, seed: int) -> dict[str, np.ndarray]:
    """Samples of the leaves."""
    found = GENERATOR.sample(samples, seed=seed)
    return {leaf: found.column(leaf) for leaf in LEAVES}


def reference_levels(data: dict[str, np.ndarray]) -> dict[str, float]:
    """The metric of the generator, of the empirical table and of independent leaves."""
    table = np.zeros(tuple(LEAVES.values()))
    np.add.at(table, tuple(data.values()), 1.0)
    graph = from_bayes_net(GENERATOR, hidden=["S"])
    share = table / table.sum()
    saturated = sum(_log_total(table, table / table.sum(axis=k, keepdims=True)) for k in range(3))
    margins = [share.sum(axis=tuple(j for j in range(3) if j != k), keepdims=True) for k in range(3)]
    return {
        "generator": float(graph.messages(data).pseudo().sum()),
        "saturated": saturated,
        "independent": sum(_log_total(table, np.broadcast_to(m, table.shape)) for m in margins),
    }


def _log_total(counts: np.ndarray, conditional: np.ndarray) -> float:
    seen = counts > 0
    with np.errstate(invalid="ignore"):
        return float(counts[seen] @ np.log(conditional[seen]))


def train(
    experiment: str, states: int, rule: str, inner: int, restarts: int, epochs: int, seed: int
) -> tuple[BlockRun, ...]:
    """The runs of one cell; experiment 3 learns from half of its samples."""
    data = draw(300, 2) if experiment == "3" else draw(400, 1)
    mask = np.arange(300) < 150 if experiment == "3" else None
    graph = embedding(LEAVES, states)
    text = RULES[rule].format(inner)
    return train_blocks(graph, data, text, epochs=epochs, mask=mask, restarts=restarts, seed=seed).runs


def cells() -> list[tuple[str, int, str, int]]:
    """Every combination that is run: experiment, states, rule, inner iterations."""
    found = [("1", 4, rule, 3) for rule in RULES] + [("1", 4, "ML", inner) for inner in INNER if inner != 3]
    found += [("1", 4, rule, 20) for rule in ("KL",)]
    found += [("2", states, rule, 3) for states in (2, 7) for rule in RULES]
    return found + [("3", states, rule, 3) for states in (4, 9) for rule in RULES]


def measure(
    restarts: int, epochs: int, seed: int
) -> tuple[list[dict[str, Any]], dict[tuple[str, int, str, int], tuple[BlockRun, ...]]]:
    """One record per run, and the runs themselves."""
    records: list[dict[str, Any]] = []
    runs = {}
    with bar(len(cells())) as progress:
        for cell in cells():
            runs[cell] = train(*cell, restarts, epochs, seed)
            for k, run in enumerate(runs[cell]):
                records.append(
                    dict(zip(("experiment", "states", "rule", "inner"), cell, strict=True))
                    | {
                        "restart": k,
                        "epochs": run.epochs,
                        "metric": float(run.metric[-1]),
                        "log_likelihood": float(run.log_likelihood[-1]),
                        "test_metric": float(run.test_metric[-1]),
                        "test_log_likelihood": float(run.test_log_likelihood[-1]),
                    }
                )
            progress.step(" ".join(map(str, cell)))
    return records, runs


def report(records: list[dict[str, Any]]) -> None:
    """Reference and measured values side by side."""
    for experiment, data in (("1", draw(400, 1)), ("2", draw(400, 1)), ("3", None)):
        rows = []
        kind = "test_metric" if experiment == "3" else "metric"
        for cell in dict.fromkeys((r["experiment"], r["states"], r["rule"], r["inner"]) for r in records):
            if cell[0] != experiment:
                continue
            mine = [r for r in records if (r["experiment"], r["states"], r["rule"], r["inner"]) == cell]
            values = np.array([r[kind] for r in mine])
            joint = np.mean([r[kind.replace("metric", "log_likelihood")] for r in mine])
            name = f"M_S={cell[1]} {cell[2]}" + (f" Nit={cell[3]}" if cell[2] in ("ML", "KL") else "")
            known = REFERENCE.get(cell, "-")
            rows.append(
                [
                    name,
                    known,
                    f"{values.max():.1f}",
                    f"{values.mean():.1f}",
                    f"{values.min():.1f}",
                    f"{joint:.1f}",
                ]
            )
        what = "metric of the half not learned from" if experiment == "3" else "metric"
        header = ["run", "reference", "best", "mean", "worst", "mean joint log-likelihood"]
        show(f"Experiment {experiment}: final {what}", header, rows)
        if data is not None:
            levels = reference_levels(data)
            print("levels: " + ", ".join(f"{name} {value:.1f}" for name, value in levels.items()))


def picture_curves(runs: dict[tuple[str, int, str, int], tuple[BlockRun, ...]]) -> Any:
    """Figures 11, 13 and 14: the metric against the epoch, and final values against inner iterations."""
    from credo.plotting.style import COLOURS, new_figure, tidy

    panels = [
        ("1", 4, "metric"),
        ("2", 2, "metric"),
        ("2", 7, "metric"),
        ("3", 4, "test_metric"),
        ("3", 9, "test_metric"),
    ]
    figure = new_figure(10, 6)
    grid = figure.subplots(2, 3).ravel()
    for axes, (experiment, states, kind) in zip(grid, panels, strict=False):
        for colour, rule in zip(COLOURS, RULES, strict=False):
            cell = (experiment, states, rule, 3)
            for k, run in enumerate(runs.get(cell, ())[:1]):
                axes.plot(getattr(run, kind), color=colour, linewidth=1.2, label=rule if k == 0 else None)
        half = ", half not learned from" if experiment == "3" else ""
        axes.set_title(f"Experiment {experiment}: M_S = {states}{half}", fontsize=8)
        axes.set_xlabel("epoch", fontsize=8)
        tidy(axes)
    grid[0].legend(fontsize=7, frameon=False)
    for inner in INNER:
        values = [run.metric[-1] for run in runs.get(("1", 4, "ML", inner), ())]
        grid[5].plot([str(inner)] * len(values), values, "o", color=COLOURS[0], markersize=4, alpha=0.6)
    grid[5].set_title("Experiment 1: ML, final metric of every restart", fontsize=8)
    grid[5].set_xlabel("inner iterations", fontsize=8)
    tidy(grid[5])
    return figure


def picture_coefficients(runs: dict[tuple[str, int, str, int], tuple[BlockRun, ...]], inner: int) -> Any:
    """Figure 12: every coefficient against the epoch, and the generator's."""
    from credo.plotting import plot_trajectories

    truth = from_bayes_net(GENERATOR, hidden=["S"]).parameters
    shown = {}
    for rule in RULES:
        cell = ("1", 4, rule, inner if rule in ("ML", "KL") else 3)
        if runs.get(cell):
            shown[f"{rule}, Nit={inner}" if rule in ("ML", "KL") else rule] = runs[cell][0].trajectories
    return plot_trajectories(shown, truth=truth)


def main(arguments: list[str] | None = None) -> None:
    """Run the experiment from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--restarts", type=int, default=None, help="starts per cell (10; 2 with --quick)")
    given = options.parse_args(arguments)
    restarts = given.restarts or (2 if given.quick else 10)
    records, runs = measure(restarts, 20 if given.quick else 60, given.seed)
    if not records:
        return
    report(records)
    save(given.out, "normal-embedding", records, picture_curves(runs))
    for inner in (3, 20):
        figure = picture_coefficients(runs, inner)
        save(given.out, f"normal-embedding-coefficients-{inner}", records, figure)


if __name__ == "__main__":
    main()
