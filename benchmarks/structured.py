"""Structured prediction on handwritten words: optima, duality gaps, errors, seconds, memory.

    python benchmarks/structured.py [--quick] [parts ...]

Parts: optima, margins, passes, scale. The words are those of `../shared/data/ocr_letters` beside the
checkout: 16 x 8 binary pixels, a constant, and a mark of the first and the last letter, 26 labels. *small*
learns from fold 0 (626 words) and tests on the others (6,251), *large* the other way round. The loss is the
share of wrong letters of a word; what is minimised is lambda / 2 |w|^2 + the mean over words.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import common
import numpy as np

DATA = common.ROOT.parent / "shared" / "data" / "ocr_letters" / "ocr_letters_taskar.npz"
LABELS = 26
OPTIMA = [
    ("small", 0.01),
    ("small", 0.003),
    ("small", 0.001),
    ("large", 0.01),
    ("large", 0.001),
    ("large", 0.0003),
]
MARGINS = [
    ("small", 0.01, 50),
    ("small", 0.001, 50),
    ("small", 1 / 626, 50),
    ("large", 0.01, 20),
    ("large", 0.001, 20),
]
SHOWN = (1, 5, 10, 20, 50)  # passes
SCALE = (10_000, 10, 128)  # chains, positions, binary features


def words() -> tuple[list[np.ndarray], list[list[str]], np.ndarray]:
    """Features and labels of every word, and its fold."""
    read = np.load(DATA)
    pixels = np.unpackbits(read["pixels"], axis=1).astype(float)
    ends = np.cumsum(read["word_len"].astype(int))[:-1]
    features = np.hstack([pixels, np.ones((len(pixels), 1)), np.zeros((len(pixels), 2))])
    X = np.split(features, ends)
    for x in X:
        x[0, -2] = x[-1, -1] = 1.0
    return X, [[str(k) for k in y] for y in np.split(read["labels"], ends)], read["fold"]


def split(name: str) -> tuple[Any, Any, Any, Any]:
    """Words to learn from and to test on."""
    X, y, fold = words()
    first = (fold == 0) == (name == "small")
    chosen = [[part[n] for n in np.flatnonzero(flags)] for flags in (first, ~first) for part in (X, y)]
    return chosen[0], chosen[1], chosen[2], chosen[3]


def blank() -> Any:
    import credo

    names = [str(k) for k in range(LABELS)]
    return credo.CRF(names, np.zeros((131, LABELS)), np.zeros((LABELS, LABELS)))


def scale_of(lam: float, count: int) -> float:
    """The scale of the prior that is lambda / 2 |w|^2 beside the mean over words."""
    return float((1.0 / (count * lam)) ** 0.5)


def errors(model: Any, X: Any, y: Any) -> float:
    """Share of wrong letters of the best labellings."""
    from credo.kernels.chains import best_paths

    ends = np.cumsum([0, *map(len, X)])
    rows = np.ascontiguousarray(np.concatenate(X) @ model.node_weights)
    path, _ = best_paths(np.zeros(LABELS), model.edge_weights, rows, ends)
    return float((path != np.concatenate(y).astype(int)).mean())


# ---------------------------------------------------------------------------------------------
# In the child
# ---------------------------------------------------------------------------------------------


def optima(task: dict[str, Any]) -> dict[str, Any]:
    """The conditional random field at its optimum."""
    import credo

    X, y, Xt, yt = split(task["split"])
    learner = f"likelihood(prior=gaussian(scale={scale_of(task['lam'], len(X))!r}))"
    crf = blank()
    batch = crf.read_batch(X, y)
    credo.fit(crf, batch, learner, max_iter=2)
    clock = time.process_time()
    found = credo.fit(crf, batch, learner, max_iter=2000, tol=1e-7)
    spent = time.process_time() - clock
    value = -float(found.objective[-1])
    return {
        "objective": value,
        "iterations": len(found.objective),
        "cpu": spent,
        "converged": found.status.is_success,
        "error": errors(found.model, Xt, yt),
    }


def margins(task: dict[str, Any]) -> dict[str, Any]:
    """Passes of Frank-Wolfe: dual, gaps, errors of the averaged weights and of the last."""
    import credo

    X, y, Xt, yt = split(task["split"])
    scale, crf = scale_of(task["lam"], len(X)), blank()
    batch, found = crf.read_batch(X, y), {}
    for passes in (n for n in SHOWN if n <= task["passes"]):
        for average in ("true", "false"):
            learner = (
                "structured(objective=ssvm, loss=hamming(normalised=true), "
                f"prior=gaussian(scale={scale!r}), optimiser=frank-wolfe(average={average}))"
            )
            clock = time.process_time()
            fit = credo.fit(crf, batch, learner, max_iter=passes, tol=1e-9, seed=0)
            kind = "average" if average == "true" else "last"
            found[f"{kind} {passes}"] = {
                "dual": float(fit.trace["dual"][-1]),
                "gap": float(fit.trace["gap"][-1]),
                "error": errors(fit.model, Xt, yt),
                "cpu": time.process_time() - clock,
            }
    return found


def passes(task: dict[str, Any]) -> dict[str, Any]:
    """CPU milliseconds of one more pass or iteration, credo and CRFsuite in turn."""
    import sklearn_crfsuite

    import credo

    X, y, _, _ = split("small")
    crf = blank()
    batch = crf.read_batch(X, y)
    named = [[_named(row) for row in x] for x in X]
    scale = scale_of(0.01, len(X))
    margin = (
        f"structured(objective=ssvm, loss=hamming(normalised=true), prior=gaussian(scale={scale!r}), "
        "optimiser=frank-wolfe)"
    )
    likelihood = f"likelihood(prior=gaussian(scale={scale!r}))"

    def with_credo(learner: str) -> Any:
        return lambda n: credo.fit(crf, batch, learner, max_iter=n, tol=1e-12, seed=0)

    def with_suite(algorithm: str, **options: Any) -> Any:
        every = {"all_possible_states": True, "all_possible_transitions": True, **options}
        return lambda n: sklearn_crfsuite.CRF(algorithm=algorithm, max_iterations=n, **every).fit(named, y)

    calls = {
        "credo frank-wolfe": with_credo(margin),
        "CRFsuite ap": with_suite("ap", epsilon=0),
        "credo likelihood": with_credo(likelihood),
        "CRFsuite lbfgs": with_suite("lbfgs", c1=0.0, c2=0.5, epsilon=0, delta=0),
    }
    few, many = 10, 40
    best: dict[str, list[float]] = {name: [np.inf, np.inf] for name in calls}
    for call in calls.values():
        call(few)
    for _ in range(task["repeats"]):
        for name, call in calls.items():
            for k, n in enumerate((few, many)):
                clock = time.process_time()
                call(n)
                best[name][k] = min(best[name][k], time.process_time() - clock)
    return {name: 1e3 * (more - less) / (many - few) for name, (less, more) in best.items()}


def _named(row: np.ndarray) -> dict[str, float]:
    return {f"f{k}": 1.0 for k in np.flatnonzero(row)}


def scale(task: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a pass over many chains, and memory at its peak."""
    import credo

    chains, length, features = SCALE
    rng = np.random.default_rng(0)
    X = (rng.random((chains * length, features)) < 0.5).astype(float)
    y = rng.integers(0, LABELS, chains * length).astype(str)
    names = [str(k) for k in range(LABELS)]
    crf = credo.CRF(names, np.zeros((features, LABELS)), np.zeros((LABELS, LABELS)))
    batch = crf.read_batch(X, y, lengths=[length] * chains)
    seconds = {}
    for n in (1, 1, 9):  # the first call loads the kernels
        clock = time.process_time()
        credo.fit(crf, batch, "structured(objective=ssvm)", max_iter=n, tol=1e-12, seed=0)
        seconds[n] = time.process_time() - clock
    return {"pass": (seconds[9] - seconds[1]) / 8, "peak_mb": common.memory_mb("VmHWM")}


def work(task: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    parts = {"optima": optima, "margins": margins, "passes": passes, "scale": scale}
    return parts[task["part"]](task)


# ---------------------------------------------------------------------------------------------
# In the parent
# ---------------------------------------------------------------------------------------------


def child(task: dict[str, Any], seconds: float = 600.0) -> dict[str, Any]:
    print("  ", task, file=sys.stderr, flush=True)
    limits = common.Limits(seconds, 12.0, 1)
    found = common.in_subprocess(__file__, task, limits, CREDO_KERNELS="compiled")
    print("     ", found, file=sys.stderr, flush=True)
    return {**task, **found}


def part_optima(*, quick: bool) -> list[dict[str, Any]]:
    found = [
        child({"part": "optima", "split": s, "lam": lam}) for s, lam in (OPTIMA[:2] if quick else OPTIMA)
    ]
    rows = []
    for r in found:
        row = [f"{r['split']} {r['lam']:g}", r.get("none", "")]
        if "none" not in r:
            row += [
                f"{r['objective']:.5f}",
                f"{100 * r['error']:.2f}",
                str(r["iterations"]),
                common.number(r["cpu"]),
            ]
        rows.append([*row, *[""] * (6 - len(row))])
    show(
        "Conditional random field at its optimum",
        ["split, lambda", "", "objective", "error %", "iterations", "CPU s"],
        rows,
    )
    return found


def part_margins(*, quick: bool) -> list[dict[str, Any]]:
    chosen = [("small", 0.01, 10)] if quick else MARGINS
    found = [child({"part": "margins", "split": s, "lam": lam, "passes": n}) for s, lam, n in chosen]
    rows = []
    for r in found:
        for n in (n for n in SHOWN if f"last {n}" in r):
            last, average = r[f"last {n}"], r[f"average {n}"]
            rows.append([
                f"{r['split']} {r['lam']:.2g}", str(n), f"{last['dual']:.4f}", f"{last['gap']:.3f}",
                f"{average['gap']:.3f}", f"{100 * last['error']:.1f}", f"{100 * average['error']:.1f}",
            ])  # fmt: skip
    header = ["split, lambda", "pass", "dual", "gap of last", "of average", "error % of last", "of average"]
    show("Structured SVM by Frank-Wolfe", header, rows)
    return found


def part_passes(*, quick: bool) -> list[dict[str, Any]]:
    found = child({"part": "passes", "repeats": 1 if quick else 5})
    rows = [[name, f"{found[name]:.1f}"] for name in found if name.startswith(("credo", "CRFsuite"))]
    show("Milliseconds of a pass or iteration over the small split (CPU)", ["", "ms"], rows)
    return [found]


def part_scale(*, quick: bool) -> list[dict[str, Any]]:
    found = child({"part": "scale"})
    print(f"\n{SCALE[0]} chains of {SCALE[1]}, {SCALE[2]} binary features:", found)
    return [found]


PARTS = {"optima": part_optima, "margins": part_margins, "passes": part_passes, "scale": part_scale}


def show(title: str, header: list[str], rows: list[list[str]]) -> None:
    from credo.core.display import align

    print(f"\n{title}\n{align(header, rows, [False] + [True] * (len(header) - 1))}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few cases")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    options = parser.parse_args()
    about, records = common.machine(), []
    for name in options.parts or PARTS:
        records += [{**record, "machine": about} for record in PARTS[name](quick=options.quick)]
    common.write_lines(common.OUT / "structured.jsonl", records)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        common.child(work)
    else:
        main()
