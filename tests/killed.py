"""Kill processes in the middle of runs with checkpoints, and see whether they end with the same bits.

    python tests/killed.py FOLDER KILLS SEED NAME...

A line per subject: its name, fingerprints of the answers of a run that was left alone and of one that was
killed and begun again so many times, and how many of the kills left a run that had not ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np

import credo
from credo.core.container import read_container
from credo.core.fingerprint import fingerprint
from credo.core.packing import pack
from credo.inference.messages import engine
from credo.kernels.jit import settle
from credo.learning import Fit
from credo.optimise import driver, pace

METHODS = {
    "bp": ("bp(schedule=random, damping=0.3)", {}),
    "mean-field": ("mean-field(restarts=5, order=random)", {}),
    "gdd": ("gdd(ibound=2)", {}),
    "local-search": ("local-search(block=3, patience=25)", {"maximise": "all"}),
    "gibbs": ("gibbs(warmup=10)", {}),
    "soft-consistency": ("soft-consistency", {"maximise": "all"}),
    "renn": ("renn(width=4)", {}),
}
LEARNERS = {"em": "em(restarts=3, batch=20)", "em-stream": "em(batch=20)", "vb": "vb"}
LEARNERS |= {"likelihood": "likelihood"}
LEARNERS |= {"contrastive": "contrastive-divergence", "pseudolikelihood": "pseudolikelihood"}
NAMES = [*METHODS, *LEARNERS]


def wait(iteration: int, view: object) -> None:
    """Make a step last."""
    time.sleep(0.002)


def digest(found: object) -> str:
    """Everything but the clock."""
    trace = {name: values for name, values in found.trace.items() if name != "seconds"}
    if isinstance(found, Fit):
        parts = (repr(pack(found.model)), found.objective, found.log_likelihood, found.restarts)
    else:
        marginals, states, drawn = found.marginals, found.assignment, found.samples
        densities = {} if marginals is None else {k: vars(d) for k, d in marginals.densities.items()}
        parts = (
            marginals if marginals is None else marginals.flat,
            densities,
            states if states is None else (states.indices, states.continuous),
            drawn if drawn is None else (drawn.indices, drawn.continuous),
            found.log_z,
            found.score,
        )
    return fingerprint(found.status.value, found.notes, trace, *parts)


@cache
def task(name: str) -> tuple[object, object]:
    """A network, and rows in which a variable is hidden; a Markov network, and complete rows, for others."""
    if name in ("em", "em-stream", "vb"):
        asia = credo.datasets.asia()
        return asia, credo.sample(asia, 60, seed=0).to_frame().drop(columns=["either"])
    grid = credo.datasets.ising_grid(4, coupling=0.3, seed=0)
    return grid, credo.sample(grid, 60, seed=0).to_frame()


def run(name: str, folder: Path | None = None) -> str:
    """The fingerprint of a subject's answer."""
    kept = {} if folder is None else {"checkpoint": folder / f"{name}.ckpt", "every": 0.0, "on_step": wait}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in LEARNERS:
            model, rows = task(name)
            if "stream" in name:
                parts = [rows[:25], rows[25:]]
                rows = credo.data.stream(parts, batch_rows=9, shuffle=True, seed=2)
            return digest(credo.fit(model, rows, LEARNERS[name], seed=1, max_iter=15, tol=0.0, **kept))
        spec, question = METHODS[name]
        grid = credo.datasets.ising_grid(7, coupling="normal(scale=1)", field="normal(scale=0.2)", seed=0)
        limits = {"max_iter": 30, "tol": 0.0, "seed": 1}
        return digest(credo.infer(grid, spec, **limits, **question, **kept))


def attempt(name: str, folder: Path, seconds: float | None) -> str:
    """What a process of its own finds, killed after some seconds if these are given: nothing then."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.write(writing, run(name, folder).encode())
        os._exit(0)
    os.close(writing)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


def is_under_way(path: Path) -> bool:
    """Whether a checkpoint is that of a run that goes on."""
    return path.exists() and read_container(path)[0]["run"]["at"]["status"] is None


def main(folder: Path, kills: int, rng: np.random.Generator, names: list[str]) -> None:
    """Print a line per subject."""
    settle(1)
    # As many calls and looks as there can be.
    driver._THIN, engine._CHUNK, engine._ENTRIES, pace._LONG = 0.0, 1, 0, 0.0
    for name in names:
        (folder / "whole").mkdir(exist_ok=True)
        if name != "renn":
            run(name)  # loads what is compiled, once; JAX must not be begun before a fork
        began = time.perf_counter()
        whole = attempt(name, folder / "whole", None)
        took, cut = time.perf_counter() - began, 0
        for _ in range(kills):
            attempt(name, folder, rng.uniform(0.1, 1.0) * took / kills)
            cut += is_under_way(folder / f"{name}.ckpt")
        print(name, whole, attempt(name, folder, None), cut, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), np.random.default_rng(int(sys.argv[3])), sys.argv[4:])
