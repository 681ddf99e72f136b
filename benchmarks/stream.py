"""Learning from a file of more rows than one wants in memory: seconds, memory, and a run that is killed.

    python benchmarks/stream.py [--rows 10000000] [CASE...]

Every case is a process of its own; seconds are wall time of the call alone, memory is the peak of the whole
process as the operating system counts it, beside that of a process which only imports. `raw` reads the file
by pyarrow alone. `killed` learns with a checkpoint, is killed (SIGKILL) in the middle of a pass over the data
and begun again, until it ends, and compares the model with that of a run which was left alone, bit by bit.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

SEEN = [f"x{k}" for k in range(10)]
STATES = {"kind": 3, **dict.fromkeys(SEEN, 2)}
GROUP = 1 << 20  # rows of a row group: what pyarrow and pandas write by default
CHAIN = 100  # steps of a sequence


def write(folder: Path, rows: int) -> None:
    """Rows of a network (11 columns of int64), the same with gaps, and sequences of two numbers."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    shares = rng.random((3, 10))
    writers: dict[str, parquet.ParquetWriter] = {}

    def add(name: str, columns: dict[str, pa.Array]) -> None:
        table = pa.table(columns)
        if name not in writers:
            writers[name] = parquet.ParquetWriter(folder / f"{name}.parquet", table.schema)
        writers[name].write_table(table, row_group_size=GROUP)

    for first in range(0, rows, GROUP):
        count = min(GROUP, rows - first)
        kind = rng.integers(0, 3, count)
        x = (rng.random((count, 10)) < shares[kind]).astype(np.int64)
        add("rows", {"kind": pa.array(kind), **{n: pa.array(x[:, k]) for k, n in enumerate(SEEN)}})
        gone = rng.random((count, 10)) < 0.02
        add("gaps", {n: pa.array(x[:, k], mask=gone[:, k]) for k, n in enumerate(SEEN)})
        steps = np.arange(first, first + count)
        level = np.where(np.sin(steps / 7) > 0, 2.0, 0.0)
        noise = rng.normal(size=(2, count))
        add(
            "steps",
            {"who": pa.array(steps // CHAIN), "u": pa.array(level + noise[0]), "v": pa.array(noise[1])},
        )
    for writer in writers.values():
        writer.close()


def network(seed: int = 1):
    """A hidden kind with ten visible children."""
    import credo

    return credo.BayesNet.random(STATES, {name: ["kind"] for name in SEEN}, seed=seed)


def run(case: str, folder: Path, rows: int) -> str:
    """Do it; what is said about it."""
    import credo
    from credo.core.errors import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    options = {"max_iter": 2, "tol": 0.0, "seed": 0}
    stream = credo.data.stream
    if case == "import":
        return ""
    if case == "write":
        write(folder, rows)
        return ""
    if case == "raw":
        from pyarrow import parquet

        file = parquet.ParquetFile(folder / "rows.parquet", pre_buffer=False)
        return str(sum(batch.num_rows for batch in file.iter_batches(1 << 16, use_threads=False)))
    if case in ("batches", "shuffled"):
        rows = stream(folder / "rows.parquet", schema=STATES, shuffle=case == "shuffled")
        return str(sum(batch.n_rows for batch in rows))
    if case == "schema":
        return str(stream(folder / "rows.parquet").variables.sizes.sum())
    if case == "counts":
        return told(credo.fit(network(), stream(folder / "rows.parquet"), "counts"))
    if case == "likelihood":
        return f"{credo.log_likelihood(network(), stream(folder / 'gaps.parquet')).value:.3f}"
    if case == "em":
        return told(credo.fit(network(), stream(folder / "gaps.parquet"), "em", **options))
    if case == "stepwise":
        rows = stream(folder / "gaps.parquet", shuffle=True)
        return told(credo.fit(network(), rows, "em(batch=65536)", **{**options, "max_iter": 2}))
    if case in ("whole", "killed"):
        kept = {"checkpoint": folder / f"{case}.credo", "every": 0.5}  # both, so that kernels have one tier
        rows = stream(folder / "gaps.parquet", shuffle=True)
        found = credo.fit(network(), rows, "em(batch=65536)", **options, **kept)
        return found.model.flat_tables.tobytes().hex()[-64:] + f" {found.objective[-1]!r}"
    from credo.families import Gaussian

    hmm = credo.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], Gaussian([[0.0, 0.0], [1.0, 0.5]], [np.eye(2)] * 2))
    return told(credo.fit(hmm, stream(folder / "steps.parquet", groups="who"), **options))


def told(fit) -> str:
    """How the objective went."""
    return f"objective {fit.objective[0]:.6f} -> {fit.objective[-1]:.6f}"


CASES = {
    "import": "import credo",
    "raw": "pyarrow alone, 11 columns",
    "batches": "a pass over batches of 65536 rows",
    "shuffled": "the same in another order",
    "schema": "the pass that finds the schema",
    "counts": "counts, 11 variables",
    "likelihood": "log-likelihood, one variable hidden, 2 % of the cells missing",
    "em": "em, the same: 2 steps, each a pass",
    "stepwise": "em(batch=65536), the same: 2 steps, of which one learns: 3 passes",
    "chain": "em of a hidden Markov model, sequences of 100 steps, 2 numbers each: 2 steps",
}


def child(case: str, folder: Path, kill_after: float | None = None, rows: int = 0) -> tuple[list[str], float]:
    """What a process says, and its peak memory in MB; nothing if it is killed."""
    command = [sys.executable, __file__, "--folder", str(folder), "--rows", str(rows), "--child", case]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if kill_after is not None:
        time.sleep(kill_after)
        process.send_signal(signal.SIGKILL)
    said = process.stdout.read().splitlines()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    return said, used.ru_maxrss / 1024


def place(folder: Path) -> str:
    """How far the run in the checkpoint has come."""
    from credo.core.container import read_container

    if not (folder / "killed.credo").exists():
        return "nothing"
    at = read_container(folder / "killed.credo")[0]["run"]["at"]
    if at["status"] is not None:
        return "the end"
    fields = at["state"]["fields"]
    turn = fields["turn"]
    where = "between two steps" if turn is None else str(turn["fields"]["place"])
    return f"step {fields['number']}, {where}"


def killed(folder: Path) -> None:
    """Kill a run three times on its way, and compare."""
    (whole, took), _ = child("whole", folder)
    seconds = float(took) / 4
    print(f"a run with a checkpoint, left alone: {float(took):.1f} s", flush=True)
    for _ in range(3):
        child("killed", folder, seconds)
        print(f"  killed after {seconds:.1f} s; the checkpoint is at {place(folder)}", flush=True)
    (found, _) = child("killed", folder)
    print(f"  resumed to the same bits: {found[0] == whole}", flush=True)


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {[*CASES, 'killed']}")
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        began = time.perf_counter()
        said = run(given.child, given.folder, given.rows)
        print(said)
        print(time.perf_counter() - began)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        child("write", folder, rows=given.rows)
        took = {}
        for case in given.cases or CASES:
            if case == "killed":
                continue
            (said, seconds), memory = child(case, folder)
            took[case] = float(seconds)
            print(f"{CASES[case]:75} {took[case]:8.2f} s {memory:6.0f} MB   {said}", flush=True)
        if not given.cases or "killed" in given.cases:
            killed(folder)


if __name__ == "__main__":
    main()
