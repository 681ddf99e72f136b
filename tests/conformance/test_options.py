"""Counts among the options of all algorithms and learners, and seeds of all entries."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError
from credo.families import Categorical
from credo.inference.portfolio.solve import solve
from credo.inference.problem.base import algorithms
from credo.learning.base import learners
from credo.models import FactorAnalysis
from credo.models.hmm import HMM
from credo.models.semi_markov import SemiMarkov
from credo.structures import elimination_order

COUNTS = [
    (registry.get(name), option)
    for registry in (algorithms, learners)
    for name in registry.names()
    for option in fields(registry.get(name))
    if "int" in str(option.type).split(" | ")
]


@pytest.mark.parametrize(("cls", "option"), COUNTS, ids=[f"{c.name}-{o.name}" for c, o in COUNTS])
def test_an_option_that_counts_is_a_whole_number(cls, option):
    with pytest.raises(OptionError, match=f"{option.name} must be a whole number, got 9.5"):
        cls(**{option.name: 9.5})
    if option.default is not None:
        assert getattr(cls(**{option.name: np.int64(option.default)}), option.name) == option.default


GRID = credo.datasets.ising_grid(2, seed=0)
NET = credo.datasets.sprinkler()
COIN = Categorical([[0.5, 0.5], [0.2, 0.8]])
CHAIN = HMM([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], COIN)
SEEDS = {
    "infer": lambda seed: credo.infer(GRID, seed=seed),
    "infer_many": lambda seed: credo.infer_many(GRID, [{}], seed=seed),
    "infer_models": lambda seed: credo.infer_models([GRID], "bp", seed=seed),
    "infer of reals": lambda seed: credo.infer(credo.GaussianNet([[2.0]]), seed=seed),
    "sample": lambda seed: credo.sample(GRID, 2, seed=seed),
    "solve": lambda seed: solve(GRID, seed=seed),
    "fit": lambda seed: credo.fit(NET, [{"rain": 0}], seed=seed),
    "network": lambda seed: NET.sample(2, seed=seed),
    "random network": lambda seed: credo.BayesNet.random({"a": 2}, {}, seed=seed),
    "generator": lambda seed: credo.datasets.ising_grid(2, seed=seed),
    "chain": lambda seed: credo.sample(CHAIN, lengths=2, seed=seed),
    "segments": lambda seed: credo.sample(
        SemiMarkov([1], [[1]], [[1]], Categorical([[1.0]])), lengths=2, seed=seed
    ),
    "baum-welch": lambda seed: credo.fit(CHAIN, [0, 1], "baum-welch", seed=seed),
    "factor analysis": lambda seed: credo.fit(FactorAnalysis(), np.eye(3), "vb", seed=seed),
    "order": lambda seed: elimination_order(GRID.to_factor_graph(), effort=1, seed=seed),
}


@pytest.mark.parametrize("entry", SEEDS)
def test_a_seed_is_a_whole_number_from_zero(entry):
    for seed in ("x", -1, 0.5):
        with pytest.raises(OptionError, match="seed must be a whole number of at least 0"):
            SEEDS[entry](seed)
