"""What missing cells cost: an iteration of EM and of variational Bayes, beside the same rows without gaps."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import common
import numpy as np

import credo
from credo.core.errors import ConvergenceWarning
from credo.families import DiagonalGaussian, Gaussian, Mixture
from credo.models.hmm import HMM

STATES, ITERATIONS, REPEATS = 3, 20, 3
CASES = ((3_000, 10, 0.3), (20_000, 4, 0.2), (20_000, 10, 0.1), (20_000, 10, 0.3))  # rows, columns, missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the first case only")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    records = []
    for rows, columns, share in CASES[:1] if options.quick else CASES:
        rng = np.random.default_rng(0)
        # Clusters that overlap, so that neither kind of data is learned before the iterations are over.
        x = rng.normal(size=(rows, columns)) + 0.5 * rng.integers(STATES, size=rows)[:, None]
        gaps = np.where(rng.random(x.shape) < share, np.nan, x)
        gaps = gaps[~np.isnan(gaps).all(axis=1)]
        patterns = len(np.unique(np.isnan(gaps), axis=0))
        for family in (Gaussian, DiagonalGaussian):
            for learner in (hidden_markov, mixture):
                whole, lacking = (seconds(partial(learner, family, data)) for data in (x, gaps))
                case = {"rows": rows, "columns": columns, "missing": share, "patterns": patterns}
                case |= {"family": family.__name__, "learner": learner.__name__}
                records.append({**case, "complete": whole, "gaps": lacking, **common.machine()})
                print(
                    *case.values(), f"{1e3 * whole:.2f} ms -> {1e3 * lacking:.2f} ms, {lacking / whole:.1f}x"
                )
    common.write_lines(common.OUT / "missing.jsonl", records)


def hidden_markov(family: Any, x: np.ndarray) -> int:
    """Baum-Welch; how many iterations it took."""
    first = members(family, x).initialise(x, np.random.default_rng(1))
    even = np.full((STATES, STATES), 1 / STATES)
    fit = credo.fit(HMM(even[0], even, first), x, max_iter=ITERATIONS, tol=1e-14)
    return len(fit.trace["log_likelihood"])


def mixture(family: Any, x: np.ndarray) -> int:
    """Variational Bayes; how many iterations it took."""
    first = Mixture(np.full((1, STATES), 1 / STATES), members(family, x))
    fit = credo.fit(first, x, "vb", seed=0, max_iter=ITERATIONS, tol=1e-14)
    return len(fit.trace["free_energy"])


def members(family: Any, x: np.ndarray) -> Any:
    """Members of the right shape."""
    d = x.shape[1]
    scale = np.tile(np.eye(d), (STATES, 1, 1)) if family is Gaussian else np.ones((STATES, d))
    return family(np.zeros((STATES, d)), scale)


def seconds(learn: Callable[[], int]) -> float:
    """CPU seconds of an iteration, the smallest of some runs; the first one compiles."""
    best = np.inf
    for _ in range(REPEATS + 1):
        begin = time.process_time()
        count = learn()
        best = min(best, (time.process_time() - begin) / count)
    return float(best)


if __name__ == "__main__":
    main()
