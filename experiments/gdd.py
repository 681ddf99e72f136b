"""Bounds that hold at every iteration: dual decomposition beside its competitors (Figures 3.2 to 3.5).

Figure 3.2: Ising models on a 5x5 grid, all parameters N(0, 2), with 2 read as standard deviation or as
variance: (a) log Z, (b) marginal MAP with half of the nodes maximised. Curves of the value after
each iteration: GDD, weighted mini-buckets, the exact value, and the tree-reweighted free energy, which
bounds only where it has converged. How often it lies below the exact value is counted over seeds, in (a) by
schedule. In (b) its messages mix sums and maxima (`_mixed.py`) and mostly do not converge.

Figure 3.3: diagnostic networks with half of the nodes maximised at random; bounds and values Q(x_B) of the
decoded states against the iteration. The source's two networks are not public under a known name;
CPCS networks stand in. Figure 3.4: the share of maximised nodes from 0 to 1, best bound in 20
iterations. Figure 3.5: as 3.3, on nine pedigrees; which nine the source took is not known.

All cliques are the factors (ibound 1 for the elimination methods). WMB steps go a fixed fraction r of
the way ("wmb r"), as in the source; "wmb" adapts its steps. "gdd blocks" is the source's Algorithm 3.1,
"gdd" the library's own. One iteration: a sweep of GDD, both passes of WMB, a joint quasi-Newton
step of L-BFGS. The source prints no numbers of its curves.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _common import bar, parser, save, show
from _mixed import mixed_reweighted

import credo
from credo.core.errors import ConvergenceWarning, TooLargeError, UnsupportedError
from credo.core.result import Status
from credo.inference.portfolio.question import pose
from credo.inference.problem.base import algorithms

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "uai08"
NETWORKS = ("cpcs179", "cpcs360b")
PEDIGREES = tuple(f"pedigree{k}" for k in (1, 7, 9, 13, 18, 20, 23, 30, 37))
READINGS = {"standard deviation 2": 2.0, "variance 2": 2.0**0.5}
SCHEDULES = ("flooding", "sequential")  # of the reweighted messages
FRACTIONS = (0.5, 0.06, 0.05, 0.04, 0.035, 0.02, 0.01)  # steps of WMB in the source
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
SWEEPS = 20  # of Figure 3.4
LOOKS = (1, 2, 5, 10, 20, 50, 100)  # iterations after which states are decoded
BELOW = 1e-9  # relative: what counts as below the exact value

ITERATIVE = {
    "gdd": "gdd(ibound=0)",
    "gdd blocks": "gdd(ibound=0, updates=blocks)",
    "wmb": "wmb(ibound=1)",
}

Record = dict[str, Any]


def methods(fractions: tuple[float, ...]) -> dict[str, str]:
    """Name in tables -> specification."""
    return {
        **ITERATIVE,
        "joint": "gdd(ibound=0, updates=joint)",
        **fixed_steps(fractions),
        "mbe": "mini-bucket(ibound=1)",
        "reordering": "reordering(ibound=1)",
    }


def fixed_steps(fractions: tuple[float, ...]) -> dict[str, str]:
    """WMB as in the source."""
    return {f"wmb {r:g}": f"wmb(ibound=1, adapt=false, damping={r:g})" for r in fractions}


def run(model: Any, spec: str, maximise: Any, iterations: int) -> Any:
    """The result after exactly so many iterations, or None where the method refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return credo.infer(model, spec, maximise=maximise, max_iter=iterations, tol=0, seed=0)
        except (UnsupportedError, TooLargeError):
            return None


def curve(model: Any, spec: str, maximise: Any, iterations: int) -> np.ndarray:
    """The bound after each iteration, none where refused; without iterations one value throughout."""
    found = run(model, spec, maximise, iterations)
    if found is None:
        return np.empty(0)
    bounds = np.asarray(found.trace.get("bound", np.empty(0)), dtype=float)[:iterations]
    last = bounds[-1] if len(bounds) else found.log_z.value
    return np.concatenate([bounds, np.full(iterations - len(bounds), last)])


def scores(model: Any, spec: str, maximise: Any, iterations: int) -> dict[int, float]:
    """Value of the decoded states after some of the iterations."""
    found = {n: run(model, spec, maximise, n) for n in LOOKS if n <= iterations}
    return {n: r.score.value for n, r in found.items() if r is not None and r.score is not None}


def half(names: tuple[str, ...] | list[str], share: float, seed: int) -> list[str]:
    """A random share of the names."""
    chosen = np.random.default_rng(seed).permutation(len(names))[: round(share * len(names))]
    return [names[i] for i in sorted(chosen)]


# ---------------------------------------------------------------------------------------------
# Figure 3.2
# ---------------------------------------------------------------------------------------------


def reweighted(model: Any, schedule: str, iterations: int) -> np.ndarray:
    """The tree-reweighted free energy after each iteration, whatever it then is worth."""
    method = algorithms.resolve(f"trw(schedule={schedule}, damping=0)")
    _, problem = pose(model, None)
    state, found = method.start(problem, np.random.default_rng(0)), []
    for _ in range(iterations):
        state, _ = method.step(problem, state)
        found.append(method.read(problem, state, Status.OUT_OF_ITERATIONS).log_z.value)
    return np.array(found)


def ising(seeds: int, iterations: int, first: int) -> list[Record]:
    """One record per reading, task, seed, method and iteration."""
    records: list[Record] = []
    specs = {**ITERATIVE, **fixed_steps((0.5,))}
    with bar(len(READINGS) * 2 * seeds) as progress:
        for reading, scale in READINGS.items():
            for task in "ab":
                for seed in range(first, first + seeds):
                    draw = credo.datasets.Normal(scale)
                    model = credo.datasets.ising_grid(5, coupling=draw, field=draw, seed=seed)
                    maximise = () if task == "a" else half(model.variables.names, 0.5, seed)
                    exact = credo.infer(model, "junction-tree", maximise=maximise).log_z.value
                    curves = {m: curve(model, s, maximise, iterations) for m, s in specs.items()}
                    if task == "a":
                        for schedule in SCHEDULES:
                            curves[f"trw {schedule}"] = reweighted(model, schedule, iterations)
                    else:
                        curves["trw mixed"] = mixed_reweighted(model, maximise, iterations)
                    about = {"reading": reading, "task": task, "seed": seed, "exact": exact}
                    for method, values in curves.items():
                        records += [
                            {**about, "method": method, "iteration": n + 1, "value": float(v)}
                            for n, v in enumerate(values)
                        ]
                    progress.step(f"Ising {task}, seed {seed}")
    return records


def report_ising(records: list[Record]) -> list[str]:
    """How often each method lies below the exact value; returns the names of bounds that did."""
    rows, broken = [], []
    for key in dict.fromkeys((r["reading"], r["task"], r["method"]) for r in records):
        mine = [r for r in records if (r["reading"], r["task"], r["method"]) == key]
        seeds = {r["seed"] for r in mine}
        below = [r for r in mine if r["value"] < r["exact"] - BELOW * max(1, abs(r["exact"]))]
        last = max(r["iteration"] for r in mine)
        gap = np.mean([r["value"] - r["exact"] for r in mine if r["iteration"] == last])
        early = [len({r["seed"] for r in below if r["iteration"] <= n}) for n in (1, 5, last)]
        when = sorted({r["iteration"] for r in below})
        shown = f"{when[0]}..{when[-1]}" if when else "-"
        rows.append([", ".join(key), *(f"{n}/{len(seeds)}" for n in early), shown, f"{gap:.3f}"])
        if below and not key[2].startswith("trw"):
            broken.append(", ".join(key))
    show(
        "Figure 3.2: seeds whose value is below the exact one, and the mean gap at the end",
        ["5x5 Ising", "at 1", "up to 5", "ever", "iterations", "gap"],
        rows,
    )
    print("GDD and WMB never below the exact value:", "yes" if not broken else f"no: {broken}")
    return broken


def picture_ising(records: list[Record]) -> Any:
    """The first seed of each reading and task."""
    from credo.plotting.style import COLOURS, FAINT, new_figure, tidy

    figure = new_figure(9, 3.2 * len(READINGS))
    for k, reading in enumerate(READINGS):
        for j, task in enumerate("ab"):
            mine = [r for r in records if r["reading"] == reading and r["task"] == task]
            if not mine:
                continue
            mine = [r for r in mine if r["seed"] == mine[0]["seed"]]
            axes = figure.add_subplot(len(READINGS), 2, 2 * k + j + 1)
            axes.axhline(mine[0]["exact"], color=FAINT, linewidth=1.5, label="exact")
            for colour, method in zip(COLOURS, dict.fromkeys(r["method"] for r in mine), strict=False):
                own = [r for r in mine if r["method"] == method]
                x, y = [r["iteration"] for r in own], [r["value"] for r in own]
                axes.plot(x, y, "o-", ms=2, lw=1, color=colour, label=method)
            axes.set_title(f"({task}) {reading}", fontsize=9)
            axes.set_xlabel("iteration")
            tidy(axes)
            axes.legend(fontsize=7, frameon=False)
    return figure


# ---------------------------------------------------------------------------------------------
# Figures 3.3 to 3.5
# ---------------------------------------------------------------------------------------------


def load(folder: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The models that are there; a sentence about those that are not."""
    paths = {name: DATA / folder / f"{name}.erg.gz" for name in names}
    missing = [name for name, path in paths.items() if not path.is_file()]
    if missing:
        print(f"left out, not in {DATA / folder}: {', '.join(missing)}")
    return {name: credo.load(path) for name, path in paths.items() if path.is_file()}


def bounds_by_iteration(models: dict[str, Any], specs: dict[str, str], iterations: int, seed: int) -> list:
    """Figures 3.3 and 3.5: one record per model, method and iteration."""
    records: list[Record] = []
    with bar(len(models) * len(specs)) as progress:
        for name, model in models.items():
            maximise = half(model.to_factor_graph().variables.names, 0.5, seed)
            for method, spec in specs.items():
                values = curve(model, spec, maximise, iterations)
                decoded = scores(model, spec, maximise, iterations)
                records += [
                    {
                        "model": name,
                        "variables": len(model.to_factor_graph().variables),
                        "method": method,
                        "iteration": n + 1,
                        "bound": float(v),
                        "score": decoded.get(n + 1),
                    }
                    for n, v in enumerate(values)
                ]
                progress.step(f"{name}, {method}")
    return records


def report_curves(title: str, records: list[Record]) -> None:
    """Bounds after 1, 5 and all iterations, and the best score, one row per model and method."""
    rows = []
    for name in dict.fromkeys(r["model"] for r in records):
        mine = [r for r in records if r["model"] == name]
        for method in dict.fromkeys(r["method"] for r in mine):
            own = [r for r in mine if r["method"] == method]
            score = max((r["score"] for r in own if r["score"] is not None), default=-np.inf)
            at = [own[min(n, len(own)) - 1]["bound"] for n in (1, 5, len(own))]
            best = min(r["bound"] for r in own)
            rows.append([f"{name}, {method}", *(f"{v:.2f}" for v in (*at, best, score))])
        best = {m: min(r["bound"] for r in mine if r["method"] == m) for m in {r["method"] for r in mine}}
        rivals = {m: v for m, v in best.items() if m.startswith("wmb")}
        if "gdd" in best and rivals:
            rival = min(rivals, key=rivals.__getitem__)
            rows.append([f"{name}: gdd less {rival}", "", "", "", f"{best['gdd'] - rivals[rival]:+.2f}", ""])
    last = max(r["iteration"] for r in records)
    show(title, ["model, method", "bound at 1", "at 5", f"at {last}", "best bound", "best score"], rows)


def picture_curves(records: list[Record]) -> Any:
    """One panel per model: bounds as lines, values of decoded states dashed."""
    from credo.plotting.style import COLOURS, new_figure, tidy

    names = list(dict.fromkeys(r["model"] for r in records))
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = new_figure(4.2 * columns, 3.2 * rows)
    for k, name in enumerate(names):
        axes = figure.add_subplot(rows, columns, k + 1)
        mine = [r for r in records if r["model"] == name]
        for m, method in enumerate(dict.fromkeys(r["method"] for r in mine)):
            own, colour = [r for r in mine if r["method"] == method], COLOURS[m % len(COLOURS)]
            line = "-" if m < len(COLOURS) else ":"
            x, y = [r["iteration"] for r in own], [r["bound"] for r in own]
            axes.plot(x, y, line, lw=1, color=colour, label=method)
            seen = [r for r in own if r["score"] is not None and np.isfinite(r["score"])]
            axes.plot([r["iteration"] for r in seen], [r["score"] for r in seen], "--", lw=0.8, color=colour)
        low = [r["score"] for r in mine if r["score"] is not None and np.isfinite(r["score"])]
        tops = [r["bound"] for r in mine if r["method"] == "mbe"] or [r["bound"] for r in mine]
        if low:  # diverging curves leave the picture
            axes.set_ylim(np.median(low) - 5, 1.2 * max(tops) - 0.2 * np.median(low))
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("iteration")
        tidy(axes)
    figure.axes[0].legend(fontsize=6, frameon=False)
    return figure


def bounds_by_share(models: dict[str, Any], specs: dict[str, str], seed: int) -> list[Record]:
    """Figure 3.4: the best bound of 20 iterations for each share of maximised nodes."""
    records: list[Record] = []
    with bar(len(models) * len(SHARES) * len(specs)) as progress:
        for name, model in models.items():
            for share in SHARES:
                maximise = half(model.to_factor_graph().variables.names, share, seed)
                for method, spec in specs.items():
                    best = float(np.min(curve(model, spec, maximise, SWEEPS), initial=np.inf))
                    records.append({"model": name, "share": share, "method": method, "bound": best})
                    progress.step(f"{name}, {share:.0%}, {method}")
    return records


def report_shares(records: list[Record]) -> None:
    """One row per model and share."""
    names = list(dict.fromkeys(r["method"] for r in records))
    value = {(r["model"], r["share"], r["method"]): r["bound"] for r in records}
    rows = [
        [f"{model}, {share:.0%}", *(f"{value.get((model, share, m), np.nan):.2f}" for m in names)]
        for model, share in dict.fromkeys((r["model"], r["share"]) for r in records)
    ]
    show(f"Figure 3.4: best bound in {SWEEPS} iterations by the share of maximised nodes", ["", *names], rows)


def picture_shares(records: list[Record]) -> Any:
    """One panel per model: how far each bound is above the best one."""
    from credo.plotting.style import COLOURS, new_figure, tidy

    names = list(dict.fromkeys(r["model"] for r in records))
    figure = new_figure(4.2 * len(names), 3.4)
    for k, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), k + 1)
        mine = [r for r in records if r["model"] == name]
        best = {r["share"]: min(o["bound"] for o in mine if o["share"] == r["share"]) for r in mine}
        for colour, method in zip(COLOURS, dict.fromkeys(r["method"] for r in mine), strict=False):
            own = [r for r in mine if r["method"] == method]
            above = [r["bound"] - best[r["share"]] for r in own]
            axes.plot([r["share"] for r in own], above, "o-", ms=3, lw=1, color=colour, label=method)
        axes.set_yscale("symlog")
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("share of maximised nodes")
        axes.set_ylabel("above the best bound", fontsize=8)
        tidy(axes)
    figure.axes[0].legend(fontsize=7, frameon=False)
    return figure


def main(arguments: list[str] | None = None) -> None:
    """Run the experiment from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--repeats", type=int, default=None, help="seeds of Figure 3.2 (20; 2 with --quick)")
    options.add_argument("--iterations", type=int, default=None, help="of Figures 3.3 and 3.5 (50)")
    given = options.parse_args(arguments)
    found = ising(given.repeats or (2 if given.quick else 20), 10 if given.quick else 50, given.seed)
    if found:
        report_ising(found)
        save(given.out, "gdd-ising", found, picture_ising(found))
    if given.quick:
        made = credo.datasets.random_bayes_net(25, states=3, seed=given.seed, concentration=0.5)
        networks = pedigrees = {"random network": made}
    else:
        networks, pedigrees = load("cpcs", NETWORKS), load("linkage", PEDIGREES)
    steps = given.iterations or (10 if given.quick else 50)
    few = (0.5,) if given.quick else (0.5, 0.035)
    for title, name, models, fractions in (
        ("Figure 3.3: diagnostic networks", "gdd-networks", networks, few),
        ("Figure 3.5: pedigrees", "gdd-pedigrees", {} if given.quick else pedigrees, FRACTIONS[1:]),
    ):
        curves = bounds_by_iteration(models, methods(fractions), steps, given.seed) if models else []
        if curves:
            report_curves(title, curves)
            save(given.out, name, curves, picture_curves(curves))
    wanted = {**ITERATIVE, **fixed_steps((0.5, 0.04, 0.02))}
    shares = bounds_by_share(networks, wanted, given.seed) if networks else []
    if shares:
        report_shares(shares)
        save(given.out, "gdd-shares", shares, picture_shares(shares))


if __name__ == "__main__":
    main()
