"""Numbers that no float or array can hold are refused where they are given, in a sentence."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import credo
from credo.core.errors import CredoError, OptionError
from credo.inference.problem.base import algorithms

HUGE = 10**400
ASIA = credo.datasets.asia()


@pytest.mark.parametrize(
    "call",
    [
        lambda: credo.infer(ASIA, "bp", max_iter=HUGE),
        lambda: credo.infer(ASIA, "bp", tol=HUGE),
        lambda: credo.infer(ASIA, "bp", seconds=HUGE),
        lambda: credo.infer(ASIA, f"bp(damping={HUGE})"),
        lambda: credo.infer(ASIA, f"enumerate(max_entries={HUGE})"),
        lambda: credo.infer(ASIA, f"junction-tree(memory_gb={HUGE})"),
        lambda: credo.infer(ASIA, f"wmb(ibound={HUGE})"),
        lambda: credo.infer(ASIA, f"local-search(patience={HUGE})", maximise="all"),
        lambda: credo.infer(ASIA, temperatures={"smoke": HUGE}),
        lambda: credo.infer(ASIA, evidence={HUGE: 1}),
        lambda: credo.infer(ASIA, evidence={"smoke": HUGE}),
        lambda: credo.infer(ASIA, evidence={"smoke": [HUGE, 1]}),
        lambda: credo.infer_many(ASIA, [{"smoke": HUGE}]),
        lambda: credo.sample(ASIA, HUGE),
        lambda: credo.log_likelihood(ASIA, {"smoke": [HUGE]}),
        lambda: credo.fit(ASIA, {"smoke": [HUGE]}, "em"),
        lambda: credo.fit(ASIA, {"smoke": [0]}, "em", max_iter=HUGE),
        lambda: credo.Variable("a", HUGE),
        lambda: credo.Variable("a", credo.Simplex(HUGE)),
        lambda: credo.FactorGraph({"a": HUGE}, {}),
        lambda: credo.MarkovNet({"a": 2}, {("a",): [HUGE, 1]}),
        lambda: credo.GaussianNet([[HUGE]]),
        lambda: credo.datasets.ising_grid(HUGE),
        lambda: credo.datasets.ising_grid(3, coupling=HUGE),
        lambda: credo.datasets.ising_grid(3, coupling=f"normal(scale={HUGE})"),
    ],
)
def test_whole_numbers_beyond_floats_are_refused_in_a_short_sentence(call):
    with pytest.raises(CredoError) as refusal:
        call()
    assert 20 < len(str(refusal.value)) < 1000


@pytest.mark.parametrize("seconds", [float("inf"), 10**300, np.float64(1e308)])
def test_endless_time_and_large_floats_are_numbers(seconds):
    assert credo.infer(ASIA, "bp", seconds=seconds).status.value == "converged"


@pytest.mark.parametrize("name", credo.algorithms())
def test_no_option_of_a_method_takes_them(name):
    for option in fields(algorithms.get(name)):
        if type(option.default) in (int, float):
            with pytest.raises(OptionError):
                algorithms.resolve(f"{name}({option.name}={HUGE})")
