"""Bounds, MAP and marginal MAP: time to a bound, time of a sweep, and answers within a limit.

    python benchmarks/bounds.py [--quick] [--seconds S] [--toulbar2 PYTHON] [--only NAME ...] [parts ...]

Parts: reach, sweeps, map, mmap. `reach` runs dual decomposition and weighted mini-buckets (which stand in
for merlin, a C++ program of that class) for the same CPU time, planning included, and tells when each reached
the looser of their two last bounds. `map` and `mmap` take the UAI 2014 models beside the checkout: the
portfolio behind `credo solve` and, for `map`, `soft-consistency` alone, at the same limit as toulbar2 if
this Python or the one named by `--toulbar2` has pytoulbar2.

One thread. All limits and times are CPU seconds, credo's too: in the child processes the clock that credo
looks at is replaced by that of the CPU, so that other work on the machine takes nothing from anybody.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np

UAI14 = common.ROOT.parent / "shared" / "data" / "uai14"
UAI08 = common.ROOT.parent / "shared" / "data" / "uai08"
REFERENCE = Path(__file__).resolve().parent / "reference"
REACH = (
    "ising 20", "ising 100", "potts 20 4", "linkage/pedigree1", "linkage/pedigree23", "linkage/pedigree30",
    "cpcs/cpcs360b",
)  # fmt: skip
TASKS = {"sum": 0.0, "marginal MAP": 0.5, "MAP": 1.0}  # share of maximised variables
SPECS = {"gdd": "gdd(ibound=0)", "wmb": "wmb(ibound=1)", "gdd large": "gdd", "wmb large": "wmb"}
SWEEPS = (
    ("ising 100", "sum", "gdd(ibound=0)"), ("ising 100", "sum", "wmb(ibound=1)"),
    ("ising 100", "marginal MAP", "gdd(ibound=0)"), ("ising 100", "marginal MAP", "wmb(ibound=1)"),
    ("ising 100", "MAP", "gdd(ibound=0)"), ("ising 100", "MAP", "wmb(ibound=1)"),
    ("ising 100", "MAP", "dual-decomposition"), ("potts 50 5", "sum", "gdd(ibound=0)"),
    ("potts 50 5", "sum", "wmb(ibound=1)"), ("potts 50 5", "MAP", "gdd(ibound=0)"),
    ("potts 50 5", "MAP", "wmb(ibound=1)"), ("potts 50 5", "MAP", "dual-decomposition"),
)  # fmt: skip
METHODS = ("portfolio", "soft-consistency")  # of credo, for MAP
REFERENCE_SECONDS = 20.0  # for the value of a published assignment that exact inference cannot give
TOL = 1e-9  # relative change at which a bound has converged
SAME = 1e-6  # relative: bounds this close are the same


# ---------------------------------------------------------------------------------------------
# In the child
# ---------------------------------------------------------------------------------------------


def work(task: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    time.perf_counter = time.process_time  # credo's limits now count CPU time
    return {"reach": reach, "sweeps": sweeps, "map": best_states, "mmap": marginal_map}[task["part"]](task)


def build(name: str) -> Any:
    """A model by name: "ising side", "potts side states", or a file of uai08."""
    import credo

    kind, *numbers = name.split()
    if kind == "ising":
        return credo.datasets.ising_grid(int(numbers[0]), seed=0)
    if kind == "potts":
        side, states = map(int, numbers)
        return credo.datasets.potts_grid(side, states=states, coupling=credo.datasets.Normal(1.0), seed=0)
    return credo.load(UAI08 / f"{name}.erg.gz")


def maximised(model: Any, task: str) -> Any:
    """A seeded share of the variables."""
    names = model.to_factor_graph().variables.names
    chosen = np.random.default_rng(0).permutation(len(names))[: round(TASKS[task] * len(names))]
    return [names[i] for i in sorted(chosen)]


def reach(task: dict[str, Any]) -> dict[str, Any]:
    """The bounds of a run of so many seconds, and when they were there."""
    descend(build(task["model"]), task, 0.0)  # loads compiled code
    return descend(build(task["model"]), task, task["seconds"])


def descend(model: Any, task: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The best bound after the start and after every iteration, each with its CPU time."""
    from credo.inference.portfolio.question import pose
    from credo.inference.problem.base import algorithms

    algorithm: Any = algorithms.resolve(task["spec"])
    _, problem = pose(model, None, maximised(model, task["task"]))
    began = time.process_time()
    state = algorithm.start(problem, np.random.default_rng(0))
    cpu, bounds = [time.process_time() - began], [state.best.value]
    while cpu[-1] < seconds or len(cpu) < 2:
        state, change = algorithm.step(problem, state)
        cpu.append(time.process_time() - began)
        bounds.append(state.best.value)
        if change < TOL:
            break
    return {"cpu": cpu, "bounds": bounds}


def timed(model: Any, spec: str, maximise: Any, iterations: int) -> tuple[Any, float]:
    """A run and its CPU seconds."""
    import credo

    before = time.process_time()
    found = credo.infer(model, spec, maximise=maximise, max_iter=iterations, tol=TOL, seed=0)
    return found, time.process_time() - before


def sweeps(task: dict[str, Any]) -> dict[str, Any]:
    """CPU seconds of one sweep: a longer run less a shorter one, best of three."""
    model = build(task["model"])
    maximise = maximised(model, task["task"])
    timed(model, task["spec"], maximise, 2)
    best, planned = np.inf, np.inf
    for _ in range(3):
        one, short = timed(model, task["spec"], maximise, 1)
        many, long = timed(model, task["spec"], maximise, 21)
        count = len(many.trace["change"]) - len(one.trace["change"])
        best, planned = min(best, (long - short) / max(1, count)), min(planned, short)
    return {"cpu": best, "first": planned}


def load(task: str, name: str) -> tuple[Any, dict[str, Any], Any]:
    """Model, evidence, and what to maximise."""
    import credo
    from credo.io.uai_results import read_evidence, read_query

    path = UAI14 / task / f"{name}.uai"
    model = credo.load(f"{path}.gz")
    evidence = read_evidence(f"{path}.evid", model.variables)
    return model, evidence, "all" if task == "MAP" else read_query(f"{path}.query", model.variables)


def best_states(task: dict[str, Any]) -> dict[str, Any]:
    """The portfolio or a method alone within the limit, and the score of another program's states."""
    import credo
    from credo.inference.portfolio.solve import solve

    method = task["method"]
    small = credo.datasets.ising_grid(5, seed=0)
    solve(small, maximise="all", memory_gb=0, seconds=2.0)  # loads compiled code
    model, evidence, _ = load("MAP", task["model"])
    cpu = time.process_time()
    if method == "portfolio":
        found = solve(model, evidence, "all", seconds=task["seconds"]).result
    else:
        asked = {"evidence": evidence, "maximise": "all", "seconds": task["seconds"], "max_iter": 10**9}
        found = credo.infer(model, method, seed=0, **asked)
    answer = {
        "cpu": time.process_time() - cpu,
        "score": found.score.value,
        "bound": found.log_z.value,
        "proven": found.status.value == "proven optimal",
    }
    if task.get("states"):
        answer["other"] = float(model.to_factor_graph().log_scores(np.array([task["states"]]))[0])
    return answer


def marginal_map(task: dict[str, Any]) -> dict[str, Any]:
    """The portfolio within the limit, and the value of the published assignment."""
    import credo
    from credo.inference.portfolio.solve import solve

    small = credo.datasets.ising_grid(5, seed=0)
    solve(small, maximise=["x0", "x7"], memory_gb=0, seconds=2.0)  # loads compiled code
    model, evidence, maximise = load("MMAP", task["model"])
    cpu = time.process_time()
    found = solve(model, evidence, maximise, seconds=task["seconds"])
    return {
        "cpu": time.process_time() - cpu,
        "score": found.result.score.value,
        "bound": found.bounds.upper.value,
        "proven": found.bounds.is_exact,
        "by": [found.bounds.lower_by, found.bounds.upper_by],
        "known": known_value(task["model"], model, evidence, maximise),
    }


def known_value(
    name: str, model: Any, evidence: dict[str, Any], query: list[str]
) -> list[float] | str | None:
    """Bounds on the value of the published assignment; the same number twice where exact."""
    import credo
    from credo.core.errors import ZeroProbabilityError
    from credo.io.uai_results import read_answer

    path = UAI14 / "MMAP" / f"{name}.uai.MMAP"
    if not path.is_file():
        return None
    states = read_answer(path, query=model.variables.positions(query)).states
    chosen = {model.variables.names[i]: k for i, k in states.items()}
    try:
        found = credo.bracket(model, {**evidence, **chosen}, seconds=REFERENCE_SECONDS)
    except ZeroProbabilityError:
        return "impossible"
    return [found.lower.value, found.upper.value]


# ---------------------------------------------------------------------------------------------
# In the parent
# ---------------------------------------------------------------------------------------------


def child(task: dict[str, Any], *, seconds: float) -> dict[str, Any]:
    print("  ", {k: v for k, v in task.items() if k != "states"}, file=sys.stderr, flush=True)
    answer = common.in_subprocess(__file__, task, common.Limits(seconds, 20.0, 1), NUMBA_NUM_THREADS="1")
    shown = {k: v for k, v in answer.items() if not isinstance(v, list) or len(v) < 4}
    print("     ", shown, file=sys.stderr, flush=True)
    return answer


def part_reach(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows, records = [], []
    seconds = 1.0 if options.quick else 10.0
    for name in options.only or (REACH[:1] if options.quick else REACH):
        if "/" in name and not (UAI08 / f"{name}.erg.gz").is_file():
            print(f"left out, not beside the checkout: {name}", file=sys.stderr)
            continue
        for task in TASKS:
            found = {
                key: child(
                    {"part": "reach", "model": name, "task": task, "spec": spec, "seconds": seconds},
                    seconds=10 * seconds + 60,
                )
                for key, spec in SPECS.items()
            }
            records.append({"part": "reach", "model": name, "task": task, **found})
            for pair in (("gdd", "wmb"), ("gdd large", "wmb large")):
                rows.append([f"{name}, {task}, {pair[0]}", *_race([found[key] for key in pair])])
    header = ["model, task, clusters", "bound", "gdd", "wmb", "wmb / gdd", "last gdd", "last wmb"]
    show(f"CPU seconds to the looser of two bounds, after {seconds:g} s each", header, rows)
    return records


def _race(answers: list[dict[str, Any]]) -> list[str]:
    """When each of two runs reached the looser of their last bounds."""
    if any("none" in a for a in answers):
        return ["none"] + [a.get("none", "")[:40] for a in answers] + [""] * 3
    target = max(a["bounds"][-1] for a in answers)
    goal = target + SAME * max(1.0, abs(target))
    times = [a["cpu"][int(np.argmax(np.asarray(a["bounds"]) <= goal))] for a in answers]
    ratio = common.ratio({"cpu": times[1]}, {"cpu": times[0]}) if times[0] > 0 else ""
    return [
        f"{target:.3f}",
        *map(common.number, times),
        ratio,
        *(f"{a['bounds'][-1]:.3f}" for a in answers),
    ]


def part_sweeps(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows, records = [], []
    for name, task, spec in SWEEPS[:2] if options.quick else SWEEPS:
        found = child({"part": "sweeps", "model": name, "task": task, "spec": spec}, seconds=180.0)
        records.append({"part": "sweeps", "model": name, "task": task, "spec": spec, **found})
        cells = [found["none"], ""] if "none" in found else [_milli(found["cpu"]), _milli(found["first"])]
        rows.append([f"{name}, {task}, {spec}", *cells])
    show("Milliseconds of CPU per sweep, and of a run of one", ["model, task, method", "sweep", "run"], rows)
    return records


def part_map(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows, records = [], []
    for name in models("MAP", options):
        other = toulbar2(options.toulbar2, name, options.seconds)
        record = {"part": "map", "model": name, "limit": options.seconds}
        for method in METHODS:
            task = {**record, "method": method, "seconds": options.seconds, "states": other.get("states")}
            record[method] = child(task, seconds=2 * options.seconds + 120)
        if "none" not in other:
            score = record[METHODS[0]].get("other")
            other = {**other, "score": score, "bound": None if score is None else score + other["gap"]}
        other.pop("states", None)
        records.append({**record, "toulbar2": other})
        rows += [[f"{name}, {who}", *_answer(records[-1][who])] for who in (*METHODS, "toulbar2")]
    header = ["model, by", "CPU s", "score", "bound", "proven"]
    show(f"MAP within {options.seconds:g} CPU s", header, rows)
    return records


def toulbar2(python: str, name: str, seconds: float) -> dict[str, Any]:
    """The answer of toulbar2 in its own environment."""
    path = UAI14 / "MAP" / f"{name}.uai"
    command = [python, str(REFERENCE / "toulbar2_map.py"), f"{path}.gz", f"{path}.evid", str(seconds)]
    patience = 20 * seconds + 120  # of wall time
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        return {"none": f"no answer in {patience:g} s of wall time"}
    if done.returncode:
        return {"none": (done.stderr.strip().splitlines() or ["no message"])[-1][:160]}
    return json.loads(done.stdout.splitlines()[-1])


def part_mmap(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows, records = [], []
    for name in models("MMAP", options):
        task = {"part": "mmap", "model": name, "seconds": options.seconds}
        found = child(task, seconds=6 * options.seconds + 180)
        records.append({"part": "mmap", "limit": options.seconds, **task, **found})
        known = found.get("known")
        shown = f"{known[0]:.4f}..{known[1]:.4f}" if isinstance(known, list) else known or "-"
        if isinstance(known, list) and known[1] - known[0] < SAME * max(1.0, abs(known[1])):
            shown = f"{known[1]:.4f}"
        rows.append([name, *_answer(found), shown, _verdict(found)])
    header = ["model", "CPU s", "value", "bound", "proven", "published", "at least as good"]
    show(f"Marginal MAP within {options.seconds:g} CPU s", header, rows)
    return records


def _verdict(found: dict[str, Any]) -> str:
    known = found.get("known")
    if "none" in found or not isinstance(known, list):
        return "yes" if known == "impossible" else ""
    slack = SAME * max(1.0, abs(known[1]))
    if found["score"] >= known[1] - slack:
        return "yes"
    return "no" if found["score"] < known[0] - slack else "not known"


def models(task: str, options: argparse.Namespace) -> list[str]:
    """Names of the models of a task beside the checkout."""
    if options.only:
        return list(options.only)
    found = sorted(p.name.removesuffix(".uai.gz") for p in (UAI14 / task).glob("*.uai.gz"))
    if not found:
        print(f"left out, not beside the checkout: {UAI14 / task}", file=sys.stderr)
    return [n for n in found if n.startswith("Segmentation")][:2] if options.quick else found


def _answer(found: dict[str, Any]) -> list[str]:
    """Seconds, score, bound, proven."""
    if "none" in found:
        return ["none", "", "", ""]
    numbers = [found["score"], found["bound"]]
    shown = ["" if v is None else f"{v:.4f}" for v in numbers]
    return [common.number(found["cpu"]), *shown, "yes" if found["proven"] else "no"]


def _milli(seconds: float) -> str:
    return common.number(1e3 * seconds)


def show(title: str, header: list[str], rows: list[list[Any]]) -> None:
    from credo.core.display import align

    print(f"\n{title}\n" + align(header, rows, [False, *[True] * (len(header) - 1)]), flush=True)


PARTS = {"reach": part_reach, "sweeps": part_sweeps, "map": part_map, "mmap": part_mmap}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller models")
    parser.add_argument("--seconds", type=float, default=None, help="CPU limit of map and mmap (20; 5)")
    parser.add_argument(
        "--toulbar2", metavar="PYTHON", default=sys.executable, help="an interpreter that has pytoulbar2"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some models")
    options = parser.parse_args()
    options.seconds = options.seconds or (5.0 if options.quick else 20.0)
    about = common.machine()
    print(f"{about['cpus']} CPUs, load {about['load']:.1f}, {about['versions']}", file=sys.stderr)
    file = common.OUT / "bounds.jsonl"
    for name in options.parts or PARTS:
        found = [{**record, "machine": about} for record in PARTS[name](options)]
        kept = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        common.write_lines(file, [*(r for r in kept if r["part"] != name or not found), *found])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        common.child(work)
    main()
