"""Signals to every method and learner at random moments; a line each says what came of it.

    python tests/interrupts.py [MOMENTS] [SEED] [PART...]

Parts are `interpreted` (methods and learners that begin at once), `compiled` (methods that JAX compiles),
`quickly compiled` (two of these), `own` (learners that are calls or estimators of their own) and `large`
(models and data for which every stage takes a while); all but the third if none is given.

Run in a process of its own, because a signal that comes too late hits whatever runs then.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from typing import NamedTuple

import numpy as np

import credo
import hybrid_zoo
from credo.core.errors import CredoError, UnsupportedError
from credo.core.result import Status
from credo.estimators import BayesianMixture, BetheLDA, ChainCRF, GaussianHMM, GraphCRF
from credo.families import Categorical, DiagonalGaussian, Mixture
from credo.inference.problem.base import algorithms
from credo.inference.problem.contents import methods
from credo.learning.base import learners
from credo.models import FactorAnalysis
from credo.optimise.run import Run

NOTHING = "stopped before there was anything to answer with"
DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)
LATE = 0.3  # seconds
SHARES = (50, 90, 99, 100)  # per cent of the latencies that are told
LIMITS = {"max_iter": 10**7, "tol": 0.0, "seconds": 20.0, "seed": 0}
ESTIMATED = {"max_iter": 10**7, "tol": 0.0, "seconds": 20.0, "random_state": 0}


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


def compiled(names=None):
    """Name -> a call of a method whose program is compiled before; of all of them, or those named."""
    small, real = credo.datasets.ising_grid(3, coupling=0.5, field=0.1, seed=0), hybrid_zoo.gaussian_tree(3)
    for name, method in methods().items():
        if method.compiles and (names is None or name in names):
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
    BetheLDA(3, max_iter=1, random_state=0).fit(words)
    yield "lda", lambda: Fitted(BetheLDA(3, **ESTIMATED).fit(words).status_)
    items = [rng.normal(size=(12, 3)) for _ in range(60)]
    labels = [(x[:, 0] > 0).astype(int).tolist() for x in items]
    yield "chain-crf", lambda: ChainCRF(**ESTIMATED).fit(items, labels).fit_
    yield "graph-crf", lambda: GraphCRF(**ESTIMATED).fit(items, labels).fit_


def large():
    """Name -> a call about so much that every stage of it takes a while."""
    from credo.inference.messages.certificates import certify

    endless = {"max_iter": LIMITS["max_iter"], "tol": LIMITS["tol"], "random_state": LIMITS["seed"]}
    rng = np.random.default_rng(0)
    rows, symbols = rng.normal(size=(20000, 6)), rng.integers(30, size=100000)
    middles = DiagonalGaussian(rng.normal(size=(20, 6)), np.ones((20, 6)))
    chain = credo.HMM(np.full(20, 1 / 20), rng.dirichlet(np.ones(20), 20), middles)
    spoken = credo.HMM(
        np.full(10, 0.1), rng.dirichlet(np.ones(10), 10), Categorical(rng.dirichlet(np.ones(30), 10))
    )
    for name, model, data in (("real", chain, rows), ("symbols", spoken, symbols)):
        yield f"em {name}", lambda m=model, x=data: credo.fit(m, x, "em", **LIMITS)
        yield f"vb {name}", lambda m=model, x=data: credo.fit(m, x, "vb", **LIMITS)
        yield f"log-likelihood {name}", lambda m=model, x=data: Fitted(credo.infer(m, data=x).status)
    yield "vb-mixture", lambda: credo.fit(Mixture(np.full((1, 20), 1 / 20), middles), rows, "vb", **LIMITS)
    yield "mixture from nothing", lambda: BayesianMixture(20, **endless).fit(rows).fit_
    yield "hmm from nothing", lambda: GaussianHMM(10, **endless).fit(rows).fit_
    yield "vb-factor-analysis", lambda: credo.fit(credo.models.FactorAnalysis(4), rows, "vb", **LIMITS)
    yield "lda", lambda: Fitted(BetheLDA(10, **ESTIMATED).fit(rng.poisson(0.3, size=(400, 300))).status_)
    spins = credo.datasets.ising_grid(60, coupling="normal(scale=1)", field="normal(scale=0.1)", seed=0)
    alike = credo.datasets.ising_grid(150, coupling=0.4, field="normal(scale=0.5)", seed=0)
    colours = credo.datasets.potts_grid(60, states=5, coupling=0.8, field="normal(scale=1)", seed=0)
    middle = credo.datasets.ising_grid(19, coupling="normal(scale=1)", field="normal(scale=0.1)", seed=0)
    for name in ("bp", "trw", "gbp", "wmb", "gdd", "mini-bucket", "trp", "structured-mean-field", "alpha-bp"):
        yield f"{name} sum", lambda n=name: credo.infer(spins, n, **LIMITS)
    for name in ("junction-tree", "elimination", "junction-tree(propagation=hugin)"):
        yield f"{name} sum", lambda n=name: credo.infer(middle, n, **LIMITS)
        yield f"{name} max", lambda n=name: credo.infer(middle, n, maximise="all", **LIMITS)
    for name in (
        "dual-decomposition",
        "soft-consistency",
        "branch-and-bound",
        "lp",
        "decimation",
        "portfolio",
    ):
        yield f"{name} max", lambda n=name: credo.infer(spins, n, maximise="all", **LIMITS)
    yield "graph-cut max", lambda: credo.infer(alike, "graph-cut", maximise="all", **LIMITS)
    for name in ("alpha-expansion", "local-search"):
        yield f"{name} max", lambda n=name: credo.infer(colours, n, maximise="all", **LIMITS)
    yield "certify", lambda: Fitted(certify(spins, "bp") and Status.EXACT)
    yield "gaussian-bp", lambda: credo.infer(hybrid_zoo.gaussian_tree(800), "bp", **LIMITS)


class Fitted(NamedTuple):
    """What is asked of an estimator that has been fitted."""

    status: Status


def quickly_compiled():
    """One method for tables and one for real variables."""
    return compiled(("bethe-direct", "svgd"))


PARTS = {
    "interpreted": interpreted,
    "compiled": compiled,
    "quickly compiled": quickly_compiled,
    "own": own,
    "large": large,
}
ALL = ("interpreted", "compiled", "own", "large")


def place(frame) -> str:
    """Where a thread is: the innermost two lines of this package that are no tier of a kernel."""
    found = []
    while frame is not None and len(found) < 2:
        name = frame.f_code.co_filename
        if "/credo/" in name and not name.endswith("kernels/jit.py"):
            found.append(f"{'/'.join(name.split('/')[-2:])}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


def outcome(call, seconds: float, number: int) -> tuple[str, float, float]:
    """What a call that gets a signal gives, seconds after it by the clock and of work, and where it was."""
    sent, done, places = [], [], Counter()
    main_thread = threading.get_ident()

    def send():
        while not done and signal.getsignal(number) in DEFAULTS:
            time.sleep(0.001)  # SIGTERM ends a process in which nobody listens
        if done:
            return
        sent.extend((time.perf_counter(), time.process_time()))
        os.kill(os.getpid(), number)
        while not done:
            time.sleep(0.02)
            if time.perf_counter() > sent[0] + 0.1 and not done:
                places[place(sys._current_frames()[main_thread])] += 1

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
        ended, worked = time.perf_counter(), time.process_time()
        done.append(ended)
        timer.cancel()
        timer.join()
    except KeyboardInterrupt:
        ended = worked = 0.0  # it came when the call had ended
    finally:
        Run.is_leaving = False  # or the next call would end this process, as it should after a SIGTERM
    if not sent or sent[0] > ended:
        return told, 0.0, 0.0
    latency = ended - sent[0]
    where = f"  at {places.most_common(1)[0][0]}" if latency > LATE and places else ""
    return told + where, latency, worked - sent[1]


def main(moments: int, seed: int, parts: list[str]) -> None:
    """Print a line per subject and moment, and how many of them there were of each kind."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    rng, kinds, latencies = np.random.default_rng(seed), Counter(), []
    for kind, name, call in ((part, *subject) for part in parts for subject in PARTS[part]()):
        for _ in range(moments):
            number = (signal.SIGINT, signal.SIGTERM)[int(rng.integers(2))]
            moment = 10 ** rng.uniform(-2.3, 0.7 if kind == "large" else -0.7)
            told, latency, work = outcome(call, moment, number)
            print(f"{name:32} {number.name} {latency:6.2f} s ({work:.2f} of work)  {told}", flush=True)
            kinds[told.partition(":")[0].partition("  at")[0]] += 1
            latencies.append((latency, work))
    shares = [np.percentile(latencies, share, axis=0) for share in SHARES]
    said = ", ".join(f"{n} % {a:.2f} s ({b:.2f})" for n, (a, b) in zip(SHARES, shares, strict=True))
    print(f"{len(latencies)} moments: {dict(kinds)}; latency {said}")


if __name__ == "__main__":
    given = [*sys.argv[1:], *("1", "0")[len(sys.argv) - 1 :]]
    main(int(given[0]), int(given[1]), given[2:] or list(ALL))
