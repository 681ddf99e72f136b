"""Message passing: nanoseconds per message, time to convergence, schedules, cores, size.

    python benchmarks/messages.py [--quick] [--large] [--pgmax PYTHON] [parts ...]

Parts: updates, products, convergence, schedules, threads, large (only with --large). A plain C++ version of
the same loops (reference/messages.cpp) is compiled and timed in the same process, in turn with credo, if
there is a compiler. `--pgmax` names a Python that has PGMax; without it its quoted figures stand alone.

One thread, PGMax too: CPU seconds, best of repeats; two threads and whole processes: wall seconds.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np
from message_models import Flat, build, grid_pairs, ising

REFERENCE = Path(__file__).resolve().parent / "reference"
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC")
PRODUCTS = {"grid50 k2": "grid n=50 k=2", "grid50 k4": "grid n=50 k=4", "grid50 k10": "grid n=50 k=10"}
UPDATES = {
    "grid100 k2": "grid n=100 k=2",
    "grid100 k10": "grid n=100 k=10",
    "grid500 k2": "grid n=500 k=2",
    "tri100k k2": "triples m=100000 k=2",
    "tri30k k5": "triples m=30000 k=5",
    "ldpc10k": "parity n=10000",
}
CONVERGENCE = (
    "ising n=10 w=0.5", "ising n=50 w=0.5", "ising n=100 w=0.5", "ising n=500 w=0.5", "ising n=50 w=1",
    "ising n=100 w=1", "grid n=50 k=10", "grid n=100 k=10", "triples m=20000 k=2", "triples m=5000 k=5",
    "parity n=10000",
)  # fmt: skip
FRESH = ("ising n=10 w=0.5", "ising n=100 w=0.5", "ising n=100 w=1")
HARD = (
    "ising n=100 w=1 seed=0", "ising n=100 w=1 seed=1", "ising n=100 w=1 seed=2", "ising n=50 w=1.2 seed=0",
    "ising n=50 w=1.2 seed=1", "ising n=100 w=1.5 seed=0", "ising n=50 w=1.5 seed=1", "ising n=50 w=2 seed=0",
    "normal n=50 k=5 s=1.5 seed=0", "normal n=50 k=5 s=1.5 seed=1", "normal n=50 k=5 s=2 seed=0",
    "normal n=50 k=5 s=2 seed=1", "normal n=50 k=10 s=1.5 seed=0", "normal n=50 k=10 s=1.5 seed=1",
    "normal n=50 k=10 s=2 seed=0", "normal n=50 k=10 s=2 seed=1",
)  # fmt: skip
EASY = ("ising n=100 w=0.5 seed=0", "normal n=100 k=2 s=1 seed=0")
SCHEDULES = ("flooding", "sequential", "random", "residual")
HEAP_SWEEPS = 200  # most for the C++ heap, which takes long where nothing converges
MAX_ITER = 2000
TOL = 1e-6  # change of a message at convergence

# Measured on another occasion, on a quiet machine of another kind: C++ and Numba compiled for one state
# count, C++ for any (ns per message; residual: per update); whole runs in seconds.
QUOTED_NS = {
    "grid100 k2": (17.1, 16.7, 20.2), "grid100 k10": (56.4, 57.4, 58.4), "grid500 k2": (18.1, 13.4, 21.3),
    "tri100k k2": (18.0, 23.2, 26.0), "tri30k k5": (52.1, 57.3, 71.4),
}  # fmt: skip
QUOTED_RATIO = {"grid100 k2": (2.1, 4.4), "grid500 k2": (2.6, 4.5)}
QUOTED_SECONDS = {  # libDAI (C++), PGMax jitted (float32), pomegranate
    "ising n=10 w=0.5": (0.0023, 0.0008, 0.34),
    "ising n=50 w=0.5": (0.076, 0.010, 11.7),
    "ising n=100 w=0.5": (0.36, 0.049, 55.8),
    "ising n=50 w=1": (0.34, 0.052, None),
    "ising n=100 w=1": (1.73, 0.77, None),
}


# ---------------------------------------------------------------------------------------------
# The C++ reference
# ---------------------------------------------------------------------------------------------


def compile_reference() -> str | None:
    """Path of the compiled reference, or None without a compiler."""
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    library = common.OUT / "reference.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, *FLAGS, str(REFERENCE / "messages.cpp"), "-o", str(library)], check=True)
    return str(library)


class Reference:
    """The loops of reference/messages.cpp on one model."""

    def __init__(self, library: str, model: Flat) -> None:
        self._code = ctypes.CDLL(library)
        n, self._k = model.unary.shape
        self._m, self._arity = model.scope.shape
        ends = model.scope.ravel()
        start = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.int64)
        around = np.argsort(ends, kind="stable").astype(np.uint32)
        self._around = (start, around)
        self._scope = np.ascontiguousarray(model.scope, dtype=np.uint32)
        self._psi, self._unary = np.exp(model.tables), np.exp(model.unary)
        self._messages = np.ones((self._m, self._arity, self._k))
        self._n = n

    def flooding(self, sweeps: int, threads: int = 1) -> None:
        size = (self._n, self._m), (self._arity, self._k)
        arrays = (self._scope, self._psi, self._unary, *self._around, self._messages)
        self._call("flooding", *size, arrays, (sweeps, threads))

    def ratios(self, sweeps: int, threads: int = 1) -> None:
        prior = self._unary[:, 1] / self._unary[:, 0]
        ratio = np.ones((self._m, 2))
        arrays = (self._scope, self._psi, prior, *self._around, ratio)
        self._call("binary_flooding", (self._n, self._m), (), arrays, (sweeps, threads))

    def residual(self, updates: int, tol: float) -> tuple[int, bool]:
        """Updates until no residual reaches the tolerance, and whether that came; from the start."""
        arrays = (self._scope, self._psi, self._unary, *self._around, np.ones_like(self._messages))
        function = self._code.residual
        function.restype = ctypes.c_double
        longs = [ctypes.c_int64(v) for v in (self._n, self._m)]
        ints = [ctypes.c_int(v) for v in (self._arity, self._k)]
        done = ctypes.c_int64()
        tail = (ctypes.c_int64(updates), ctypes.c_double(tol), ctypes.byref(done))
        left = function(*longs, *ints, *map(_pointer, arrays), *tail)
        return done.value, left < tol

    def _call(self, name: str, longs: Any, ints: Any, arrays: Any, tail: Any) -> None:
        function = getattr(self._code, name)
        function.restype = ctypes.c_double
        head = [ctypes.c_int64(v) for v in longs] + [ctypes.c_int(v) for v in ints]
        function(*head, *map(_pointer, arrays), *(ctypes.c_int(v) for v in tail))


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


# ---------------------------------------------------------------------------------------------
# In the child
# ---------------------------------------------------------------------------------------------


def work(task: dict[str, Any]) -> dict[str, Any]:
    return {"updates": updates, "products": products, "runs": runs, "cold": cold, "large": large}[
        task["part"]
    ](task)


def sweeper(graph: Any, schedule: str, heat: np.ndarray | None = None) -> Callable[[int], Any]:
    """Runs that many sweeps of BP, from where the last call ended; where `heat` is zero, of maxima."""
    from credo.inference.messages import engine
    from credo.inference.problem.base import Problem

    n = len(graph.variables)
    problem = Problem(graph, np.ones(n) if heat is None else heat, np.zeros(n, dtype=np.int64))
    weights = engine.Weighted.plain(graph)
    state = engine.start(problem, weights, np.random.default_rng(0))

    def run(sweeps: int) -> Any:
        return state.form.sweeps(state.values, weights, engine.Sweep(schedule, 0, sweeps, 0.0, state.rng))

    return run


def in_turn(
    calls: dict[str, Callable[[], Any]], clock: Callable[[], float], budget: float
) -> dict[str, float]:
    """Best seconds of each call; all are called once per round, so that all meet the same disturbances."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()  # compiles, and fills the caches
    started, rounds = time.perf_counter(), 0
    while rounds < 2 or time.perf_counter() - started < budget:
        for name, call in calls.items():
            before = clock()
            call()
            best[name] = min(best[name], clock() - before)
        rounds += 1
    return best


def updates(task: dict[str, Any]) -> dict[str, Any]:
    """Nanoseconds per message (both directions)."""
    model, threads = build(UPDATES[task["model"]]), task["limits"]["threads"]
    edges, graph = model.scope.size, model.graph()
    is_binary = model.unary.shape[1] == 2 and model.scope.shape[1] == 2
    sweeps = max(2, 400_000 // edges)
    calls: dict[str, Callable[[], Any]] = {}
    for schedule in ("flooding", "sequential") if threads == 1 else ("flooding",):
        calls[schedule] = functools.partial(sweeper(graph, schedule), sweeps)
    if task["library"]:
        reference = Reference(task["library"], model)
        calls["C++"] = lambda: reference.flooding(sweeps, threads)
        if is_binary:
            calls["C++ ratio"] = lambda: reference.ratios(sweeps, threads)
    clock = time.perf_counter if task.get("wall") else time.process_time
    return {name: 1e9 * t / sweeps / edges for name, t in in_turn(calls, clock, task["budget"]).items()}


def _all(run: Callable[[int], Any], sweeps: int) -> None:
    """So many sweeps, in as many calls as it takes."""
    while sweeps > 0:
        sweeps -= len(run(sweeps))


def products(task: dict[str, Any]) -> dict[str, Any]:
    """Nanoseconds per message of sum-, mixed- (every other variable) and max-product, in turn."""
    model = build(PRODUCTS[task["model"]])
    graph, n = model.graph(), len(model.unary)
    side = round(n**0.5)
    other = np.add.outer(np.arange(side), np.arange(side)).ravel() % 2.0
    heats = {"sum": np.ones(n), "mixed": other, "max": np.zeros(n)}
    calls: dict[str, Callable[[], Any]] = {}
    for schedule in ("sequential", "flooding"):
        for name, heat in heats.items():
            run = sweeper(graph, schedule, heat)
            run(1)
            calls[f"{schedule} {name}"] = functools.partial(_all, run, 4)
    best = in_turn(calls, time.process_time, task["budget"])
    return {name: 1e9 * seconds / 4 / model.scope.size for name, seconds in best.items()}


def runs(task: dict[str, Any]) -> dict[str, Any]:
    """Whole runs of each schedule on a model in memory, in turn: CPU seconds, sweeps, convergence."""
    import warnings

    import credo

    warnings.simplefilter("ignore")
    model = build(task["model"])
    graph, calls, last = model.graph(), {}, {}

    def run(schedule: str) -> None:
        last[schedule] = credo.infer(graph, f"bp(schedule={schedule})", tol=TOL, max_iter=MAX_ITER, seed=0)

    for schedule in task["schedules"]:
        calls[schedule] = functools.partial(run, schedule)
    if task["library"]:
        reference, most = Reference(task["library"], model), HEAP_SWEEPS * len(model.scope)
        calls["C++ heap"] = lambda: last.update({"C++ heap": reference.residual(most, TOL)})
    best = in_turn(calls, time.process_time, task["budget"])
    found: dict[str, Any] = {}
    for name, seconds in best.items():
        if name == "C++ heap":
            sweeps, converged = last[name][0] / len(model.scope), last[name][1]
        else:
            sweeps, converged = len(last[name].trace["change"]), last[name].status.is_success
        found[name] = {"cpu": seconds, "sweeps": sweeps, "converged": bool(converged)}
    if task["loops"]:
        loops = {name: functools.partial(sweeper(graph, name), int(found[name]["sweeps"])) for name in last}
        for name, seconds in in_turn(loops, time.process_time, task["budget"]).items():
            found[name]["loop"] = seconds
    return found


def cold(task: dict[str, Any]) -> dict[str, Any]:
    """All that a new process does; the parent adds its wall time."""
    import credo

    graph = build(task["model"]).graph()
    credo.infer(graph, "bp", tol=TOL, max_iter=MAX_ITER)
    return {"cpu": time.process_time()}


def large(task: dict[str, Any]) -> dict[str, Any]:
    """10^7 pairwise factors: build, memory, one sweep."""
    start = time.perf_counter()
    model = ising(task["n"], 0.5)
    made = time.perf_counter()
    graph = model.graph()
    built = time.perf_counter()
    size = common.memory_mb()
    del model
    run = sweeper(graph, "flooding")
    run(1)
    ready = time.perf_counter()
    best = in_turn({"sweep": lambda: run(4)}, time.perf_counter, 20.0)["sweep"] / 4
    edges = 2 * len(grid_pairs(task["n"]))
    return {
        "factors": edges // 2,
        "arrays": made - start,
        "graph": built - made,
        "start": ready - built,
        "sweep": best,
        "ns": 1e9 * best / edges,
        "mb": size,
        "peak_mb": common.memory_mb("VmHWM"),
    }


# ---------------------------------------------------------------------------------------------
# In the parent
# ---------------------------------------------------------------------------------------------


def child(task: dict[str, Any], *, seconds: float = 120.0, threads: int = 1) -> dict[str, Any]:
    print("  ", {k: v for k, v in task.items() if k != "library"}, file=sys.stderr, flush=True)
    limits = common.Limits(seconds, 20.0, threads)
    clock = time.perf_counter()
    answer = common.in_subprocess(__file__, task, limits, NUMBA_NUM_THREADS=str(threads))
    answer["process"] = time.perf_counter() - clock
    print("     ", answer, file=sys.stderr, flush=True)  # a run that is cut short has shown what it had
    return answer


def part_updates(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows, records = [], []
    for name in list(UPDATES)[:2] if options.quick else UPDATES:
        found = child(
            {"part": "updates", "model": name, "library": options.library, "budget": options.budget}
        )
        records.append({"part": "updates", "model": name, **found})
        base = found.get("C++ ratio", found.get("C++"))
        fixed, numba, free = QUOTED_NS.get(name, (None, None, None))
        ratio = QUOTED_RATIO.get(name, (None, None))
        row = [name, *map(_ns, (found.get(key) for key in ("flooding", "sequential", "C++", "C++ ratio")))]
        row += [_times(found.get("flooding"), base), _ns(free), _ns(fixed), _ns(numba), _ns(ratio[0])]
        rows.append([*row, found.get("none", "")])
    header = ["model", "credo flooding", "sequential", "C++", "C++ ratio", "credo / C++"]
    header += ["quoted: C++", "fixed K", "Numba fixed K", "C++ ratio", ""]
    show("Nanoseconds per message, one thread (CPU, best of repeats)", header, rows)
    return records


def part_products(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows, records = [], []
    names = [f"{s} {name}" for s in ("sequential", "flooding") for name in ("sum", "mixed", "max")]
    for model in list(PRODUCTS)[:1] if options.quick else PRODUCTS:
        found = child({"part": "products", "model": model, "budget": options.budget})
        records.append({"part": "products", "model": model, **found})
        ratios = [
            _times(found.get(f"sequential {name}"), found.get("sequential sum")) for name in ("mixed", "max")
        ]
        rows.append([model, *(_ns(found.get(name)) for name in names), *ratios])
    header = ["model", *names, "mixed / sum", "max / sum"]
    show("Nanoseconds per message of sums, maxima and both (CPU, best of repeats)", header, rows)
    return records


def part_threads(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows, records = [], []
    for name in ("grid500 k2",):
        for threads in (1, 2):
            task = {
                "part": "updates",
                "model": name,
                "library": options.library,
                "budget": 3 * options.budget,
            }
            found = child({**task, "wall": True}, threads=threads)
            records.append({"part": "threads", "model": name, "threads": threads, **found})
        one, two = records[-2:]
        for key in ("flooding", "C++", "C++ ratio"):
            rows.append([name, key, _ns(one.get(key)), _ns(two.get(key)), _times(one.get(key), two.get(key))])
    header = ["model", "loop", "1 thread", "2 threads", "gain"]
    show("Threads: ns of wall time per message", header, rows)
    return records


def part_convergence(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows, loops, records, schedules = [], [], [], ("sequential", "flooding", "residual")
    for name in CONVERGENCE[:2] if options.quick else CONVERGENCE:
        task = {"part": "runs", "model": name, "library": None, "budget": options.budget}
        found = child({**task, "schedules": schedules, "loops": True})
        fresh = {"none": "not tried"}
        if name in FRESH:
            child({"part": "cold", "model": name})  # fills the cache
            fresh = min(
                (child({"part": "cold", "model": name}) for _ in range(3)), key=lambda a: a["process"]
            )
        other = pgmax(options.pgmax, name)
        records.append({"part": "convergence", "model": name, "credo": found, "cold": fresh, "pgmax": other})
        row = [name, *(_run(found.get(schedule)) for schedule in schedules)]
        row += [
            "" if "none" in fresh else common.seconds(fresh, "process"),
            _pgmax(other),
            _pgmax_cold(other),
        ]
        row += [common.ratio(other, found.get(schedule)) for schedule in ("sequential", "flooding")]
        rows.append([*row, *map(_number, QUOTED_SECONDS.get(name, (None, None, None)))])
        flooding = found.get("flooding", {})
        loops.append([name, *(_number(found.get(schedule, {}).get("loop")) for schedule in schedules)])
        loops[-1] += [_number(other.get("loop")), common.ratio(other, flooding, "loop")]
    header = ["model", "credo sequential", "flooding", "residual", "new process", "PGMax", "PGMax first"]
    header += ["PGMax / sequential", "/ flooding", "quoted: libDAI", "PGMax", "pomegranate"]
    title = f"to a message change of {TOL:g}; - where {MAX_ITER} were not enough"
    show(f"Seconds (sweeps) from the question to the beliefs, {title}", header, rows)
    header = ["model", "credo sequential", "flooding", "residual", "PGMax", "PGMax / flooding"]
    show("Seconds of the same sweeps alone, prepared messages to final ones", header, loops)
    return records


def part_schedules(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows, records = [], []
    for name in HARD[:1] if options.quick else (*HARD, *EASY):
        task = {"part": "runs", "model": name, "library": options.library, "budget": options.budget}
        found = child({**task, "schedules": SCHEDULES, "loops": False})
        records.append({"part": "schedules", "model": name, **found})
        cells = [_run(found.get(schedule)) for schedule in (*SCHEDULES, "C++ heap")]
        rows.append([name, *cells, found.get("none", "")])
    header = ["model", *SCHEDULES, "C++ heap", ""]
    show(f"Schedules: CPU seconds (sweeps) to {TOL:g}; - where {MAX_ITER} were not enough", header, rows)
    return records


def part_large(options: argparse.Namespace) -> list[dict[str, Any]]:
    if not options.large:
        return []
    found = child({"part": "large", "n": 2236}, seconds=600.0, threads=os.cpu_count() or 1)
    print("\n10^7 pairwise factors, all cores, wall seconds:", {k: _number(v) for k, v in found.items()})
    return [{"part": "large", **found}]


def pgmax(python: str | None, name: str) -> dict[str, Any]:
    """Times of PGMax in its own environment."""
    if python is None:
        return {"none": "no interpreter with PGMax given"}
    model = build(name)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.npz"
        np.savez(file, scope=model.scope, tables=model.tables, unary=model.unary)
        command = [python, str(REFERENCE / "pgmax_bp.py"), str(file), str(TOL)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except subprocess.TimeoutExpired:
            return {"none": "no answer in 600 s of wall time"}
    if done.returncode:
        return {"none": (done.stderr.strip().splitlines() or ["no message"])[-1][:160]}
    return json.loads(done.stdout.splitlines()[-1])


def _run(answer: dict[str, Any] | None) -> str:
    """Seconds and sweeps of one run."""
    if answer is None:
        return ""
    return f"{common.number(answer['cpu'])} ({answer['sweeps']:.0f}{'' if answer['converged'] else ' -'})"


def _pgmax(answer: dict[str, Any]) -> str:
    if "none" in answer:
        return "none"
    return _run({"cpu": answer["cpu"], "sweeps": answer["iterations"], "converged": answer["reached"]})


def _pgmax_cold(answer: dict[str, Any]) -> str:
    return "none" if "none" in answer else _number(answer["import"] + answer["build"] + answer["first"])


def _ns(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _number(value: Any) -> str:
    return "" if value is None else common.number(value) if isinstance(value, float | int) else str(value)


def _times(value: float | None, base: float | None) -> str:
    return "" if value is None or base is None else f"{value / base:.2f}"


def show(title: str, header: list[str], rows: list[list[Any]]) -> None:
    from credo.core.display import align

    print(f"\n{title}\n" + align(header, rows, [False, *[True] * (len(header) - 1)]), flush=True)


PARTS = {
    "updates": part_updates,
    "products": part_products,
    "convergence": part_convergence,
    "schedules": part_schedules,
    "threads": part_threads,
    "large": part_large,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller models")
    parser.add_argument("--large", action="store_true", help="also 10^7 factors (3 GB)")
    parser.add_argument("--pgmax", metavar="PYTHON", help="an interpreter that has PGMax")
    options = parser.parse_args()
    options.library = compile_reference()
    options.budget = 1.0 if options.quick else 5.0
    about = common.machine()
    print(f"{about['cpus']} CPUs, load {about['load']:.1f}, {about['versions']}", file=sys.stderr)
    if options.library is None:
        print("no C++ compiler (g++): the reference is left out", file=sys.stderr)
    file = common.OUT / "messages.jsonl"
    for name in options.parts or PARTS:
        found = [{**record, "machine": about} for record in PARTS[name](options)]
        kept = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        common.write_lines(file, [*(r for r in kept if r["part"] != name or not found), *found])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        common.child(work)
    main()
