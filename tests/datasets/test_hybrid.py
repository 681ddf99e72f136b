"""Fish on a belt, against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

import credo

SALMON = 0.5 * (0.6 * 0.9 + 0.4 * 0.5) + 0.5 * (0.6 * 0.6 + 0.4 * 0.2)


def normal(x: float, mean: float, variance: float) -> float:
    return float(np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance))


def test_without_evidence_lengths_are_a_mixture():
    found = credo.infer(credo.datasets.fish(), "ep").marginals
    assert found["fish"][0] == pytest.approx(SALMON, abs=1e-9)
    assert found["length"].mean == pytest.approx(75 * SALMON + 60 * (1 - SALMON), abs=1e-6)


def test_a_measured_fish_is_told_by_bayes_rule():
    found = credo.infer(credo.datasets.fish(), "ep", evidence={"length": 66.0, "brightness": 5.0})
    salmon = SALMON * normal(66, 75, 100) * normal(5, 4, 1)
    bass = (1 - SALMON) * normal(66, 60, 144) * normal(5, 6.5, 1.44)
    assert found.marginals["fish"][0] == pytest.approx(salmon / (salmon + bass), abs=1e-9)
    assert found.log_z.value == pytest.approx(np.log(salmon + bass), abs=1e-9)
