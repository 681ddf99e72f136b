"""Signals to every method and learner at random moments; a line each says what came of it.

    python tests/interrupts.py [MOMENTS] [SEED] [PART...]

Parts are `interpreted` (methods and learners that begin at once), `compiled` (methods that JAX compiles) and
`own` (learners that are calls or estimators of their own); all if none is given.

Run in a process of its own, because a signal that comes too late hits whatever runs then.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from typing import NamedTuple

import numpy as np

import credo
import hybrid_zoo
from credo.core.errors import CredoError, UnsupportedError
from credo.core.result import Status
from credo.families import Categorical, DiagonalGaussian, Mixture
from credo.inference.problem.base import algorithms
from credo.inference.problem.contents import methods
from credo.learning.base import learners
from credo.learning.crf import ChainCRF, GraphCRF
from credo.learning.lda import BetheLDA
from credo.models import FactorAnalysis
from credo.optimise.run import Run

NOTHING = "stopped before there was anything to answer with"
LIMITS = {"max_iter": 10**7, "tol": 0.0, "seconds": 20.0, "seed": 0}


def interpreted():
    """Name -> a call that would go on for long."""
    grid = credo.datasets.ising_grid(14, coupling="normal(scale=1)", field="normal(scale=0.1)", seed=0)
    for name, method in methods().items():
        if method.compiles or "discrete" not in method.reads:
            continue
        algorithms.get(name)  # imported, so that the moment lies in the run
        for task, question in (("sum", {}), ("max", {"maximise": "all"})):
            if task in method.answers:
                yield f"{name} {task}", lambda n=name, q=question: credo.infer(grid, n, **LIMITS, **q)
    yield (
        "local-search for ever",
        lambda: credo.infer(grid, "local-search(patience=1000000000)", maximise="all", **LIMITS),
    )
    yield "mean-field in restarts", lambda: credo.infer(grid, "mean-field(restarts=1000000)", **LIMITS)
    asia = credo.datasets.asia()
    rows = credo.sample(asia, 2000, seed=0).to_frame()
    hidden, small = rows.drop(columns=["either"]), credo.datasets.ising_grid(4, coupling=0.3, seed=0)
    pairs = credo.sample(small, 500, seed=0).to_frame()
    for learner in [*learners.names(), "em(restarts=3)"]:
        for model, data in ((asia, hidden), (asia, rows), (small, pairs)):
            yield (
                f"{learner} {type(model).__name__}",
                lambda s=learner, m=model, d=data: credo.fit(m, d, s, **LIMITS),
            )


def compiled():
    """Name -> a call of a method whose program is compiled before."""
    small, real = credo.datasets.ising_grid(3, coupling=0.5, field=0.1, seed=0), hybrid_zoo.gaussian_tree(3)
    for name, method in methods().items():
        if method.compiles:
            model = small if "discrete" in method.reads else real
            credo.infer(model, name, max_iter=2, seed=0)
            yield f"{name} sum", lambda n=name, m=model: credo.infer(m, n, **LIMITS)


def own():
    """Name -> a call of a learner that is not reached by `fit`."""
    rng = np.random.default_rng(0)
    rows, states = rng.normal(size=(500, 4)), rng.integers(4, size=200)
    chain = credo.HMM(
        np.full(3, 1 / 3), rng.dirichlet(np.ones(3), 3), Categorical(rng.dirichlet(np.ones(4), 3))
    )
    yield "baum-welch", lambda: credo.fit(chain, states, **LIMITS)
    yield "vb-hmm", lambda: credo.fit(chain, states, "vb", **LIMITS)
    mixture = Mixture([[0.2] * 5], DiagonalGaussian(rng.normal(size=(5, 4)), np.ones((5, 4))))
    yield "vb-mixture", lambda: credo.fit(mixture, rows, "vb(prune=search)", **LIMITS)
    yield "vb-factor-analysis", lambda: credo.fit(FactorAnalysis(2), rows, "vb", **LIMITS)
    words = rng.poisson(0.7, size=(40, 20))
    BetheLDA(3, max_iter=1, seed=0).fit(words)
    yield "lda", lambda: Fitted(BetheLDA(3, **LIMITS).fit(words).status_)
    items = [rng.normal(size=(12, 3)) for _ in range(60)]
    labels = [(x[:, 0] > 0).astype(int).tolist() for x in items]
    yield "chain-crf", lambda: ChainCRF(**LIMITS).fit(items, labels).fit_
    yield "graph-crf", lambda: GraphCRF(**LIMITS).fit(items, labels).fit_


class Fitted(NamedTuple):
    """What is asked of an estimator that has been fitted."""

    status: Status


PARTS = {"interpreted": interpreted, "compiled": compiled, "own": own}


def outcome(call, seconds: float, number: int) -> tuple[str, float]:
    """What a call that gets a signal gives, and how long after it."""
    sent, done = [], []

    def send():
        if done:
            return  # nobody listens any more, and SIGTERM would end this process
        sent.append(time.perf_counter())
        os.kill(os.getpid(), number)

    timer = threading.Timer(seconds, send)
    told = "?"
    try:
        timer.start()
        try:
            told = f"answer: {call().status.value}"
        except KeyboardInterrupt as error:
            told = "nothing yet" if str(error) == NOTHING else f"LOST: bare KeyboardInterrupt {error}"
        except UnsupportedError:
            told = "refused"
        except CredoError as error:
            told = f"sentence: {error}"[:80]
        except BaseException as error:
            told = f"LOST: {error!r}"[:120]
        done.append(ended := time.perf_counter())
        timer.cancel()
        timer.join()
    except KeyboardInterrupt:
        ended = 0.0  # it came when the call had ended
    finally:
        Run.is_leaving = False  # or the next call would end this process, as it should after a SIGTERM
    return told, ended - sent[0] if sent and sent[0] < ended else 0.0


def main(moments: int, seed: int, parts: list[str]) -> None:
    """Print a line per subject and moment."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    for name, call in (subject for part in parts for subject in PARTS[part]()):
        for _ in range(moments):
            number = (signal.SIGINT, signal.SIGTERM)[int(rng.integers(2))]
            told, latency = outcome(call, 10 ** rng.uniform(-2.3, -0.7), number)
            print(f"{name:32} {number.name} {latency:6.2f} s  {told}", flush=True)


if __name__ == "__main__":
    given = [*sys.argv[1:], *("1", "0")[len(sys.argv) - 1 :]]
    main(int(given[0]), int(given[1]), given[2:] or list(PARTS))
