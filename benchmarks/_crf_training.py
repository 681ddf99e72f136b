"""Training linear-chain random fields, side by side with CRFsuite, in one run.

    python benchmarks/_crf_training.py [--quick] [--seconds 300]

A made-up language: labels follow a Markov chain and emit words, each position has four features. Both
libraries maximise  sum log p(y | x) - c2 ||w||^2  over all pairs of feature and label, and stop when their
own test of convergence says so; the objective each one reached is printed, so that speed is not bought with
a worse optimum. CPU seconds of one training, data in the form of dictionaries included.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import common
import numpy as np

CASES = {
    "small": (100, 60, 4),
    "medium": (500, 300, 8),
    "large": (1500, 1500, 12),
}  # sequences, words, labels
LIBRARIES = ("credo", "sklearn-crfsuite")
C2 = 0.1
TOL = 3e-4  # of credo: the first of 1e-3, 3e-4, ... at which its objective is the better one in all cases


def language(sequences: int, words: int, labels: int) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    follow = rng.dirichlet(np.full(labels, 0.3), size=labels)
    emit = rng.dirichlet(np.full(words, 0.1), size=labels)
    X, y = [], []
    for _ in range(sequences):
        state, x, z = int(rng.integers(labels)), [], []
        for _ in range(int(rng.integers(5, 40))):
            word = int(rng.choice(words, p=emit[state]))
            x.append({"word": f"w{word}", "ending": f"e{word % 7}", "size": word % 3 / 2, "bias": 1.0})
            z.append(f"L{state}")
            state = int(rng.choice(labels, p=follow[state]))
        X.append(x)
        y.append(z)
    return X, y


def with_credo(X: list[Any], y: list[Any]) -> Any:
    from credo.estimators import ChainCRF

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ChainCRF(max_iter=2).fit(X[:3], y[:3])  # compiled kernels are loaded once per process
    return lambda: -ChainCRF(prior=f"elastic(c2={C2})", tol=TOL).fit(X, y).fit_.objective[-1] * len(X)


def with_crfsuite(X: list[Any], y: list[Any]) -> Any:
    import sklearn_crfsuite

    options = {"all_possible_states": True, "all_possible_transitions": True}

    def train() -> float:
        model = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.0, c2=C2, max_iterations=1000, **options)
        return float(model.fit(X, y).training_log_.last_iteration["loss"])

    return train


def work(task: dict[str, Any]) -> dict[str, Any]:
    X, y = language(*CASES[task["case"]])
    train = (with_credo if task["library"] == "credo" else with_crfsuite)(X, y)
    best, loss = common.measure(train)
    return {**best, "loss": loss}


def shown(answer: dict[str, Any]) -> str:
    return f"{common.number(answer['cpu'])} CPU s, loss {answer['loss']:.4f}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        common.child(work)
    common.side_by_side(__file__, __doc__.splitlines()[0], list(CASES), LIBRARIES, shown, 300.0)
