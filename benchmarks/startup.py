"""The first minute: whole processes, from their start to the answer, with nothing compiled and with all.

    python benchmarks/startup.py [--crowd 100]

Every line is a new process; CPU seconds and memory are those of the process and its children, as the
operating system counts them. An empty cache is a new folder for each process. `second` is one more process on
what the first one left, `warmed` one after `credo warm`. `compiled` forces the compiled tier on an empty
cache: what a first use would cost without the interpreted tier.

The last part starts many processes at once on one empty cache, without a folder that takes files, and on
a full disk (`/dev/full` stands for it where there is one), and counts the answers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import BIF_FOLDER, unpack

from credo.core.display import align

PYTHON = sys.executable
CREDO = str(Path(PYTHON).parent / "credo")
GRID = """
import credo
grid = credo.datasets.ising_grid(10, coupling="uniform(low=-1,high=1)", field="normal(scale=1)", seed=0)
credo.infer(grid, {})
"""
HMM = """
import numpy as np
from credo.estimators import GaussianHMM
rng = np.random.default_rng(0)
means = (0, 3, 0, -3, 0, 3, -3, 0, 3, 0)
GaussianHMM(3, random_state=0).fit(np.concatenate([rng.normal(m, 1, (50, 2)) for m in means]))
"""
AGRUM = """
import sys, pyagrum
engine = pyagrum.LazyPropagation(pyagrum.loadBN(sys.argv[1]))
engine.setEvidence({"HRBP": "HIGH"})
engine.makeInference()
"""


def cases(folder: Path) -> dict[str, list[str]]:
    """Name -> command."""
    found = {
        "import numpy": [PYTHON, "-c", "import numpy"],
        "asia, exact": [CREDO, "infer", "asia", "--evidence", "dysp=yes"],
        "bp, 10x10 grid": [PYTHON, "-c", GRID.format("'bp'")],
        "gdd MAP, 10x10 grid": [PYTHON, "-c", GRID.format("'gdd', maximise='all'")],
        "Gaussian HMM, 500 rows": [PYTHON, "-c", HMM],
    }
    packed = BIF_FOLDER / "alarm.bif.gz"
    if packed.exists():
        alarm = unpack(packed, folder)
        found["alarm, exact"] = [CREDO, "infer", str(alarm), "--evidence", "HRBP=HIGH"]
        found["alarm, pyAgrum"] = [PYTHON, "-W", "ignore", "-c", AGRUM, str(alarm)]
    return found


def measure(command: list[str], cache: Path, **environment: str) -> tuple[float, float]:
    """CPU seconds and megabytes of one process with its children."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), **environment},
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command}: status {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3


def best(command: list[str], cache: Path, repeats: int, **environment: str) -> tuple[float, float]:
    """The least of several processes, which share a cache."""
    runs = [measure(command, cache, **environment) for _ in range(repeats)]
    return min(r[0] for r in runs), min(r[1] for r in runs)


def first_minute(folder: Path, repeats: int, warmed: bool) -> None:
    """The table of whole processes."""
    rows = []
    ready = folder / "ready"
    if warmed:
        subprocess.run(
            [CREDO, "warm", "junction-tree", "bp", "gdd"],
            env={**os.environ, "NUMBA_CACHE_DIR": str(ready)},
            check=True,
        )
    for name, command in cases(folder).items():
        first = [measure(command, folder / f"{name} {k}") for k in range(repeats)]
        row = [name, f"{min(f[0] for f in first):.2f}", f"{min(f[1] for f in first):.0f}"]
        row.append(f"{best(command, folder / f'{name} 0', repeats)[0]:.2f}")
        ours = warmed and not name.endswith(("numpy", "pyAgrum"))
        row.append(f"{best(command, ready, repeats)[0]:.2f}" if ours else "")
        forced = measure(command, folder / f"{name} compiled", CREDO_KERNELS="compiled")[0] if ours else None
        row.append("" if forced is None else f"{forced:.1f}")
        rows.append(row)
        print(name, file=sys.stderr)
    header = ["process", "first, CPU s", "MB", "second", "warmed", "compiled"]
    print(align(header, rows, [False, True, True, True, True, True]))


def crowd(folder: Path, count: int) -> None:
    """How many of many processes answer, all started at once."""
    read_only = folder / "file"
    read_only.write_text("not a folder")
    places = {
        "one empty cache": {"NUMBA_CACHE_DIR": str(folder / "shared")},
        "no folder that takes files": {"NUMBA_CACHE_DIR": str(read_only / "below")},
    }
    if Path("/dev/full").exists():
        full = folder / "full"
        full.mkdir()
        places["a full disk"] = {"NUMBA_CACHE_DIR": str(full), "CREDO_KERNELS": "compiled"}
        _fill(full)
    for place, environment in places.items():
        n = count if "CREDO_KERNELS" not in environment else 2
        clock = time.perf_counter()
        command = [CREDO, "infer", "asia", "--evidence", "dysp=yes", "--json"]
        running = [
            subprocess.Popen(
                command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for _ in range(n)
        ]
        answers = {p.communicate()[0].split(b'"seconds"')[0] for p in running}
        good = sum(p.returncode == 0 for p in running)
        wall = time.perf_counter() - clock
        print(f"{place}: {good} of {n} answer, {len(answers)} different, {wall:.0f} s wall")


def _fill(folder: Path) -> None:
    """Make a folder in which every file is full at once: a file system of 4 kB, if we may mount one."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if done.returncode:
        print("a full disk cannot be made here; the folder is read-only instead", file=sys.stderr)
        folder.chmod(0o500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--crowd", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="no crowd, nothing compiled")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        first_minute(folder, chosen.repeats, not chosen.quick)
        if not chosen.quick:
            crowd(folder, chosen.crowd)
    finally:
        subprocess.run(["umount", str(folder / "full")], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
