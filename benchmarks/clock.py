"""Whether `seconds` is kept, planning included: the wall time of calls with a limit, on wide models.

    python benchmarks/clock.py [--seconds S] [--only NAME ...] [--methods NAME ...] [--folder FOLDER]

Twenty models of UAI 2014 beside the checkout, each asked by belief propagation, generalised belief
propagation, mean field, dual decomposition and local search (the last two for the best states), and learned
by EM with belief propagation from rows in which half of the variables are hidden. Reading a file is not part
of a call, everything after it is. Kernels are compiled, and loaded by one call each on a small model first.
Where a machine is shared, the seconds of work after the end tell more than those of the clock.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("CREDO_KERNELS", "compiled")

import common
import numpy as np

UAI14 = common.ROOT.parent / "shared" / "data" / "uai14"
MODELS = (
    "PR/Alchemy_11", "PR/BN_74", "PR/CSP_12", "PR/DBN_16", "PR/Grids_12", "PR/Grids_18",
    "PR/ObjectDetection_20", "PR/Pedigree_12", "PR/Promedus_16", "PR/Segmentation_16", "PR/linkage_12",
    "PR/linkage_24", "PR/log-1.cnf", "PR/relational_2", "PR/relational_4", "MAP/Grids_20",
    "MAP/ImageAlignment_12", "MAP/ObjectDetection_14", "MAP/Promedas_14", "MAP/wcsp_14",
)  # fmt: skip
METHODS = ("bp", "gbp", "mean-field", "gdd", "local-search", "em")
MAXIMISING = ("gdd", "local-search")
ALLOWED = 1.2  # of the seconds given
ROWS = 8  # of the data of EM


def calls_of(model: Any, evidence: Any, method: str, seconds: float | None) -> Callable[[], Any] | None:
    """The call to be timed, with everything prepared that belongs to the question; None without data."""
    import credo

    if method == "em":
        rows = rows_of(model)
        if rows is None:
            return None
        return lambda: credo.fit(model, rows, "em", inference="bp", seconds=seconds)
    maximise = "all" if method in MAXIMISING else ()
    return lambda: credo.infer(model, method, evidence=evidence, maximise=maximise, seconds=seconds)


def rows_of(model: Any) -> Any:
    """Rows of possible states, half of each hidden; None where no possible state is found."""
    import credo

    variables = model.to_factor_graph().variables
    best = credo.infer(model, "local-search(start=entries)", maximise="all", seconds=0.3, seed=0)
    if best.score.value == -np.inf:
        return None
    table = np.tile(best.assignment.indices.astype(float), (ROWS, 1))
    hidden = np.random.default_rng(0).random(table.shape) < 0.5
    return {
        name: [None if hidden[r, i] else int(table[r, i]) for r in range(ROWS)]
        for i, name in enumerate(variables.names)
    }


def timed(call: Callable[[], Any] | None, given: float = np.inf) -> tuple[float, float, str]:
    """Wall seconds, the seconds of work after those that were given, and how it ended."""
    if call is None:
        return np.nan, 0.0, "not asked"
    from credo.core.errors import CredoError

    at_end: list[float] = []
    timer = threading.Timer(min(given, 1e6), lambda: at_end.append(time.process_time()))
    timer.daemon = True
    began = time.perf_counter()
    timer.start()
    try:
        ended = str(call().status.value)
    except CredoError as error:
        ended = f"no answer: {type(error).__name__}: {str(error)[:60]}"
    took, worked = time.perf_counter() - began, time.process_time()
    timer.cancel()
    return took, worked - at_end[0] if at_end else 0.0, ended


def load(folder: Path, name: str) -> tuple[Any, Any]:
    """A model and its evidence."""
    import credo
    from credo.io.uai_results import read_evidence

    model = credo.load(folder / f"{name}.uai.gz")
    return model, read_evidence(folder / f"{name}.uai.evid", model.to_factor_graph().variables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", nargs="*", default=MODELS, metavar="NAME")
    parser.add_argument("--methods", nargs="*", default=METHODS, metavar="NAME")
    parser.add_argument("--folder", type=Path, default=UAI14)
    given = parser.parse_args()
    if not given.folder.is_dir():
        print(f"no models in {given.folder}; nothing was measured")
        return 0
    warnings.simplefilter("ignore")
    import credo

    for warm in (credo.datasets.ising_grid(4, seed=0), credo.datasets.asia()):
        for method in given.methods:
            timed(calls_of(warm, None, method, None))
    late, calls = [], 0
    print(f"{'':24}" + "".join(f"{method:>14}" for method in given.methods))
    for name in given.only:
        model, evidence = load(given.folder, name)
        took, said = [], []
        for method in given.methods:
            call = calls_of(model, evidence, method, given.seconds)
            seconds, work, ended = timed(call, given.seconds)
            took.append(seconds)
            calls += ended != "not asked"
            if ended.startswith("no answer"):
                said.append(f"    {method}: {ended}")
            if ended.startswith("no answer") or seconds > ALLOWED * given.seconds:
                late.append((name, method))
                said.append(f"    {method}: {work:.2f} s of work after the end")
        print(f"{name:24}" + "".join(f"{seconds:14.2f}" for seconds in took), flush=True)
        for line in said:
            print(line)
    print(f"{calls - len(late)} of {calls} calls answered within {ALLOWED} of their time", file=sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
