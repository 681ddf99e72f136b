"""Budgets of loops that count in their own way."""

from __future__ import annotations

import numpy as np
import pytest

from credo.optimise.budgets import including, with_start
from credo.optimise.run import Budget


def test_the_start_is_one_more_step():
    assert with_start(Budget(max_iter=0)).max_iter == 1


@pytest.mark.parametrize("tol", [0.0, 1e-6, 2.0])
def test_a_residual_of_exactly_tol_counts_as_none_and_nothing_above_does(tol):
    wider = including(Budget(tol=tol)).tol
    assert tol < wider and not np.nextafter(tol, np.inf) < wider
