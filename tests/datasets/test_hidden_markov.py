"""The umbrella world as a network and as a hidden Markov model."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo import datasets
from credo.core.errors import OptionError
from sequence_answers import smoothed


def test_the_filtered_and_smoothed_answers_are_the_printed_ones():
    first = credo.infer(datasets.umbrella(1), "enumerate", evidence={"umbrella1": "yes"})
    assert first.marginal("rain1")["yes"] == pytest.approx(0.818, abs=5e-4)
    both = {"umbrella1": "yes", "umbrella2": "yes"}
    second = credo.infer(datasets.umbrella(2), "enumerate", evidence=both)
    assert second.marginal("rain2")["yes"] == pytest.approx(0.883, abs=5e-4)
    assert second.marginal("rain1")["yes"] == pytest.approx(0.883, abs=5e-4)


@pytest.mark.parametrize("seed", range(3))
def test_network_and_hidden_markov_model_are_the_same_distribution(seed):
    symbols = np.random.default_rng(seed).integers(0, 2, 6)
    evidence = {f"umbrella{t}": int(x) for t, x in enumerate(symbols, 1)}
    found = credo.infer(datasets.umbrella(6), "enumerate", evidence=evidence)
    posterior = smoothed(datasets.umbrella_hmm(), symbols)
    assert found.log_z.value == pytest.approx(posterior.log_z[0], abs=1e-12)
    for t in range(6):
        assert found.marginals[f"rain{t + 1}"] == pytest.approx(posterior.marginals[t], abs=1e-12)


def test_a_chain_of_no_days_is_refused():
    with pytest.raises(OptionError, match="days must be at least 1, got 0"):
        datasets.umbrella(0)
