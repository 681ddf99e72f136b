"""What a caller has set with `np.seterr` changes no answer: nothing raises, nothing warns."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo import estimators, learning
from credo.core.errors import ConvergenceWarning, UnsupportedError
from credo.families import Categorical
from credo.inference.problem.contents import methods
from credo.models import FactorAnalysis

GRID = credo.datasets.ising_grid(3, coupling="normal(scale=1)", field="normal(scale=0.1)", seed=0)
ASIA = credo.datasets.asia()
STEEP = credo.FactorGraph(
    {"a": 2, "b": 2, "c": 3},
    {("a", "b"): [[1, 0], [0, 1]], ("b", "c"): [[1e-300, 0, 2], [0, 1e300, 1]], ("a",): [1e-320, 1.0]},
)
CHAIN = credo.HMM([1e-320, 1.0], [[1.0, 1e-300], [1e-300, 1.0]], Categorical([[1e-310, 1.0], [1.0, 1e-310]]))
SEEN = [0, 1] * 300
DATA = credo.sample(ASIA, 60, seed=0).to_frame()
ROWS = np.concatenate([np.random.default_rng(0).normal(size=(20, 2)), np.full((10, 2), 1e6)])
COUNTS = np.random.default_rng(0).poisson(1.0, size=(10, 6))
GAUSSIAN = credo.GaussianNet([[2.0, 0.3], [0.3, 1.0]], [1.0, 2.0])
SENTENCES = np.array([[0.0, 1.0], [1.0, 0.0]]) * 500

CALLS = {
    "build a Gaussian net": lambda: credo.GaussianNet([[1e-300, 0], [0, 1e300]]),
    "build a net": lambda: credo.BayesNet({"a": 2}, tables={"a": [1e-320, 1]}),
    "soft evidence": lambda: credo.infer(ASIA, evidence={"smoke": [1e-320, 1]}),
    "query": lambda: credo.query(STEEP, ["a", "c"]),
    "condition": lambda: credo.query(STEEP, "a", given="c"),
    "sample": lambda: credo.sample(STEEP, 10, seed=0),
    "many": lambda: credo.infer_many(STEEP, [{"a": 0}, {"b": 1}]),
    "many by bp": lambda: credo.infer_many(STEEP, [{"a": 0}, {"b": 1}], "bp"),
    "models": lambda: credo.infer_models([STEEP, STEEP], "bp"),
    "bracket": lambda: credo.bracket(STEEP, seconds=1),
    "compare": lambda: credo.compare(STEEP, ["bp", "junction-tree", "mean-field"]),
    "log-likelihood": lambda: credo.log_likelihood(STEEP, {"a": [0, 1]}),
    "shown": lambda: repr(credo.infer(STEEP)),
    "likelihood of a chain": lambda: credo.log_likelihood(CHAIN, SEEN),
    "posterior of a chain": lambda: credo.infer(CHAIN, data=SEEN),
    "filter of a chain": lambda: credo.infer(CHAIN, data=SEEN, causal=True),
    "path of a chain": lambda: credo.infer(CHAIN, data=SEEN, maximise="all"),
    "states of a chain": lambda: credo.sample(CHAIN, 1, data=SEEN, seed=0),
    "Baum-Welch": lambda: credo.fit(CHAIN, SEEN, max_iter=3),
    "Gaussian chain": lambda: estimators.GaussianHMM(2, max_iter=3).fit(ROWS).predict(ROWS),
    "categorical chain": lambda: estimators.CategoricalHMM(2, max_iter=3).fit([[0, 1, 1], [0, 0, 1, 1]]),
    "Poisson chain": lambda: estimators.PoissonHMM(2, max_iter=3).fit([[0, 1, 1], [0, 0, 30, 1]]),
    "mixture": lambda: estimators.BayesianMixture(max_iter=3).fit(ROWS),
    "factor analysis": lambda: credo.fit(FactorAnalysis(1), ROWS[:20], "vb", max_iter=3),
    "topics": lambda: estimators.BetheLDA(2, max_iter=2).fit(COUNTS),
    "tree": lambda: credo.fit(credo.BayesNet.from_edges(), DATA, "chow-liu"),
    "trees": lambda: credo.fit(credo.BayesNet.from_edges(), DATA, "mixture-of-trees", seed=0, max_iter=3),
    "labels of a chain": lambda: estimators.ChainCRF(max_iter=3).fit([SENTENCES] * 3, [[0, 1]] * 3),
}


@pytest.mark.parametrize("name", CALLS)
def test_public_calls(name):
    tried(CALLS[name])


@pytest.mark.parametrize("learner", learning.learners.names())
@pytest.mark.parametrize("hidden", [(), ("either",)])
def test_learners(learner, hidden):
    for model, data in ((ASIA, DATA.drop(columns=list(hidden))), (GRID, credo.sample(GRID, 30, seed=0))):
        tried(lambda m=model, d=data: credo.fit(m, d, learner, max_iter=3, seed=0))


@pytest.mark.parametrize("method", [name for name, known in methods().items() if not known.compiles])
def test_methods(method):
    known = methods()[method]
    if "discrete" in known.reads:
        for graph in (GRID, STEEP):
            for maximise in ((), "all"):
                tried(lambda g=graph, m=maximise: credo.infer(g, method, max_iter=20, seed=0, maximise=m))
    if "real" in known.reads:
        tried(lambda: credo.infer(GAUSSIAN, method, max_iter=20, seed=0))


def test_they_are_as_before_after_a_call():
    before = np.geterr()
    credo.infer(ASIA)
    assert np.geterr() == before
    with np.errstate(all="raise"):
        strict = np.geterr()
        credo.infer(ASIA)
        assert np.geterr() == strict


def tried(call):
    """Run it where every flag of floating point raises; refusals and runs that are cut are fine."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            call()
        except UnsupportedError:
            pass
