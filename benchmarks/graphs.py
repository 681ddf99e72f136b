"""Graphs of all domains: building, conditioning and answering large ones, and how fast methods refuse them.

    python benchmarks/graphs.py [--side 316]

The field is a Gaussian Markov random field on a grid of side x side variables, from a sparse matrix; the
chain has 1,000 switches with observed emissions; the machine has 784 x 500 units in one bilinear factor. Then
every method is asked whether it takes on the field, after one question about a small one (which loads its
modules); a method that looks at every factor is slow here. Best of three, in milliseconds; alarm is left out
where there is no file of it.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import BIF_FOLDER
from scipy.sparse import csr_array, diags_array, eye_array, kron

import credo
from credo import potentials
from credo.core.display import align
from credo.core.factor_graph import FactorGraph
from credo.core.groups import Bilinear
from credo.core.variable import Variables
from credo.inference.portfolio.question import Question
from credo.inference.problem.base import algorithms
from credo.inference.problem.reading import refusal

_LIMIT = 50.0  # milliseconds within which a method should say whether it takes on a problem


def best(run: Callable[[], Any], repeats: int = 3) -> float:
    """Milliseconds of the fastest run."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def grid_precision(side: int) -> csr_array:
    """The precision of a grid with equal couplings."""
    ones = np.full(side - 1, -1.0)
    line = diags_array([ones, np.full(side, 4.2), ones], offsets=[-1, 0, 1])
    step = diags_array([ones, ones], offsets=[-1, 1], shape=(side, side))
    return csr_array(kron(eye_array(side), line) + kron(step, eye_array(side)))


def chain(n: int = 1000) -> tuple[credo.HybridNet, tuple[np.ndarray, np.ndarray]]:
    """Switches with emissions, and the observed numbers."""
    rng = np.random.default_rng(0)
    states = [credo.Variable(f"s{i}", 3) for i in range(n)]
    reals = [credo.Variable(f"x{i}", credo.Real()) for i in range(n)]
    moves = rng.dirichlet(np.full(3, 2.0), 3)
    factors: list[Any] = [credo.TableFactor(pair, moves) for pair in itertools.pairwise(states)]
    factors += [potentials.emission(x, s, [-1, 0, 1], 1.0) for x, s in zip(reals, states, strict=True)]
    return credo.HybridNet([*states, *reals], factors), (np.arange(n, 2 * n), rng.normal(size=n))


def machine(left: int = 784, right: int = 500) -> FactorGraph:
    """A Boltzmann machine of two layers."""
    weights = np.random.default_rng(0).normal(size=(left, right)) / 100
    variables = Variables.of(np.full(left + right, 2))
    return FactorGraph.of_groups(variables, Bilinear(np.arange(1), np.arange(left + right)[None], weights))


def refusals(precision: csr_array) -> list[list[str]]:
    """Milliseconds until each method says whether it takes on the field, and what it says."""
    small = credo.GaussianNet(grid_precision(4))
    rows = []
    for name in algorithms.names():
        algorithm = algorithms.resolve(name)
        refusal(algorithm, Question.of(small, None).problem((), None, None))
        times, said = [], None
        for _ in range(3):
            net = credo.GaussianNet(precision)  # anew, so that nothing is remembered
            problem = Question.of(net, None).problem((), None, None)
            start = time.perf_counter()
            said = refusal(algorithm, problem)
            times.append(1000 * (time.perf_counter() - start))
        slow = "slow" if min(times) > _LIMIT else ""
        rows.append([name, f"{min(times):.1f}", slow, (said or "takes it on")[:70]])
    return rows


def main() -> None:
    """Measure all of it and print two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=316, help="side of the grid of real variables")
    side = parser.parse_args().side
    precision = grid_precision(side)
    field = credo.GaussianNet(precision)
    switches, seen = chain()
    small = {"asia": credo.datasets.asia()}
    if (BIF_FOLDER / "alarm.bif.gz").exists():
        small["alarm"] = credo.load(BIF_FOLDER / "alarm.bif.gz")
    rows: list[list[str]] = []
    for what, run in (
        (f"build a field of {side**2} variables", lambda: credo.GaussianNet(precision)),
        ("answer it", lambda: credo.infer(field)),
        ("build a chain of 1,000 switches", chain),
        ("answer it given its emissions", lambda: credo.infer(switches, evidence=seen)),
        ("build a machine of 784 x 500", machine),
        *((f"infer {name}", partial(credo.infer, net)) for name, net in small.items()),
    ):
        run()  # compiled, imported
        rows.append([what, f"{best(run):.2f}"])
    print(align(["what", "ms"], rows, [False, True]))
    print()
    print(align(["method", "ms", "", "says"], refusals(precision), [False, True, False, False]))


if __name__ == "__main__":
    main()
