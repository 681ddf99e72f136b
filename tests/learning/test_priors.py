"""Priors of weights."""

from __future__ import annotations

import numpy as np
import pytest

from credo.learning.priors import Elastic, GaussianPrior, LaplacePrior


@pytest.mark.parametrize(
    "prior", [GaussianPrior(scale=0.7, mean=0.2), Elastic(c1=0.3, c2=1.1), LaplacePrior(scale=2)]
)
def test_priors_have_the_gradient_of_their_value(prior):
    w = np.array([0.5, -1.5, 2.0])
    smooth, gradient = prior.smooth(w)
    gradient = np.broadcast_to(gradient, 3)
    for k in range(3):
        step = 1e-6 * np.eye(3)[k]
        slope = (prior.value(w + step) - prior.value(w - step)) / 2e-6
        assert slope == pytest.approx(gradient[k] - prior.strength() * np.sign(w[k]), abs=1e-6)
    assert prior.value(w) == pytest.approx(smooth - prior.strength() * 4.0)
