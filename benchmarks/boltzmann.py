"""Boltzmann machines: an epoch of CD-1 beside its matrix products and scikit-learn, messages by matrices.

    python benchmarks/boltzmann.py [--quick] [memory] [epoch] [messages] [wide]

memory     megabytes above the start of an epoch of `negative=bp`, 784 x 256, batches of 100
epoch      CPU seconds per epoch of CD-1, 784 x 256 units, batches of 100 of 20,000 rows (MNIST above 127
           where it is at hand, random ones otherwise): credo, scikit-learn's `BernoulliRBM` on float32 and
           float64 rows, and the five matrix products that an epoch needs, interleaved, one thread. An epoch
           is half the difference of runs of three epochs and of one, so that starting costs nothing;
           the median of five rounds, in each of which a run that is not timed goes before
messages   nanoseconds per message and core of belief propagation, 784 x 256 units, 100 machines at once
wide       wall and CPU seconds of `bp` on 10,000 x 2,000 units to 1e-3, after warm-up, all cores
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import common  # noqa: E402
import numpy as np  # noqa: E402

import credo  # noqa: E402
from credo.core.display import align  # noqa: E402
from credo.inference.messages.layer_batch import layer_sums  # noqa: E402
from credo.kernels.jit import threads  # noqa: E402

PARTS = ("memory", "epoch", "messages", "wide")  # the peak of memory is that of the process so far
VISIBLE, HIDDEN, BATCH = 784, 256, 100
ROUNDS = 5


def rows(count: int, kind: Any) -> np.ndarray:
    """Binary images."""
    path = common.ROOT.parent / "shared" / "data" / "mnist" / "train-images-idx3-ubyte.gz"
    if not path.is_file():
        return (np.random.default_rng(0).random((count, VISIBLE)) < 0.15).astype(kind)
    import gzip

    flat = np.frombuffer(gzip.open(path).read(), np.uint8, offset=16).reshape(-1, VISIBLE)
    return (flat[:count] > 127).astype(kind)


def products(x: np.ndarray) -> None:
    """Up, down, up again, and two outer products, for every batch."""
    w = np.full((VISIBLE, HIDDEN), 0.01, x.dtype)
    for first in range(0, len(x), BATCH):
        v = x[first : first + BATCH]
        h = v @ w
        back = h @ w.T
        again = back @ w
        _ = v.T @ h, back.T @ again


def cpu(call: Callable[[], Any]) -> float:
    """CPU seconds."""
    start = time.process_time()
    call()
    return time.process_time() - start


def _ours(x: np.ndarray, epochs: int) -> None:
    credo.fit(
        credo.RBM.blank(HIDDEN), x, "boltzmann(negative=cd, optimiser=sgd(rate=0.05))", max_iter=epochs,
        seed=0, tol=0,
    )  # fmt: skip


def _theirs(x: np.ndarray, epochs: int) -> None:
    from sklearn.neural_network import BernoulliRBM

    BernoulliRBM(HIDDEN, learning_rate=0.05, batch_size=BATCH, n_iter=epochs, random_state=0).fit(x)


def epoch(*, quick: bool) -> list[list[str]]:
    """CPU seconds per epoch, median of interleaved rounds."""
    count = 5000 if quick else 20_000
    single, double = rows(count, np.float32), rows(count, np.float64)
    cases: dict[str, Callable[[int], Any]] = {
        "five products, float32": lambda n: [products(single) for _ in range(n)],
        "credo, float32 rows": lambda n: _ours(single, n),
        "credo, float64 rows": lambda n: _ours(double, n),
        "scikit-learn, float32 rows": lambda n: _theirs(single, n),
        "scikit-learn, float64 rows": lambda n: _theirs(double, n),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(2 if quick else ROUNDS):
        for name, run in cases.items():
            run(1)  # imports, and memory that others had
            one, three = (cpu(lambda run=run, n=n: run(n)) for n in (1, 3))
            times[name].append((three - one) / 2)
    usual = {name: float(np.median(found)) for name, found in times.items()}
    base = usual["five products, float32"]
    return [[name, f"{found:.3f} s", f"{found / base:.2f}"] for name, found in usual.items()]


def messages(*, quick: bool) -> list[list[str]]:
    """Nanoseconds per message and core."""
    rng = np.random.default_rng(0)
    weights = 0.1 * rng.standard_normal((VISIBLE, HIDDEN))
    count, sweeps = (10, 10) if quick else (100, 20)
    fields = rng.standard_normal((count, VISIBLE)), rng.standard_normal((count, HIDDEN))

    def run() -> None:
        layer_sums(weights, *fields, sweeps, 0.0)

    run()
    per = 1e9 / (2.0 * weights.size * sweeps * count)
    found = [per * cpu(run) for _ in range(ROUNDS)]
    return [["a message, float32", f"{min(found):.2f} ns", ""]]


def wide(*, quick: bool) -> list[list[str]]:
    """Wall seconds of a wide machine; the second question, about another one, has everything compiled."""
    m, n = (1000, 500) if quick else (10_000, 2000)
    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        model = credo.RBM(0.03 * rng.standard_normal((m, n)), rng.standard_normal(m), rng.standard_normal(n))
        model.to_factor_graph()
        start, used = time.perf_counter(), time.process_time()
        result = credo.infer(model, "bp", tol=1e-3)
        found.append((time.perf_counter() - start, time.process_time() - used, len(result.trace["change"])))
    seconds, work, sweeps = min(found[1:])
    told = f"{seconds:.2f} s wall, {work:.2f} s CPU"
    return [[f"{m} x {n} to 1e-3, {sweeps} sweeps, {threads()} threads", told, ""]]


def memory(*, quick: bool) -> list[list[str]]:
    """What an epoch by belief propagation takes beyond its rows."""
    x = rows(200 if quick else 1000, np.float32)

    def run() -> None:
        credo.fit(credo.RBM.blank(HIDDEN), x, "boltzmann(negative=bp)", max_iter=1, seed=0, tol=0)

    before = common.memory_mb("VmHWM")
    run()
    one = 4 * VISIBLE * HIDDEN * BATCH / 2**20
    grown = common.memory_mb("VmHWM") - before
    return [
        ["an epoch of negative=bp", f"{grown:.0f} MB", f"{one:.0f} MB are one array of batch x 784 x 256"]
    ]


def main() -> None:
    """All parts, or those that are named."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    options.add_argument("--quick", action="store_true", help="a small version")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    about = common.machine()
    print(f"{about['cpus']} CPUs, load {about['load']:.1f}, {about['versions']}")
    records = []
    for part in given.parts or PARTS:
        table = {"epoch": epoch, "messages": messages, "wide": wide, "memory": memory}[part](
            quick=given.quick
        )
        print(f"\n{part}\n" + align(["", "", "to the products"], table, [False, True, True]))
        records += [
            {"part": part, "case": case, "value": v, "more": m, "machine": about} for case, v, m in table
        ]
    common.write_lines(common.OUT / "boltzmann.jsonl", records)


if __name__ == "__main__":
    main()
