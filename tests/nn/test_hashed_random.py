"""Numbers of the hash generator behave as independent draws of their distributions."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats

from credo.nn.arrays import precision
from credo.nn.hashed_random import exponential, fold, gumbel, key_of, normal, uniform

COUNT = 50_000


@pytest.mark.parametrize(
    ("draw", "law"),
    [(uniform, stats.uniform), (exponential, stats.expon), (gumbel, stats.gumbel_r), (normal, stats.norm)],
    ids=["uniform", "exponential", "gumbel", "normal"],
)
def test_draws_follow_their_distribution(draw, law):
    with precision(double=True):
        x = np.asarray(draw(fold(key_of(3), 7), (COUNT,)))
    assert np.isfinite(x).all()
    assert stats.kstest(x, law.cdf).pvalue > 1e-4


def test_keys_seeds_and_counters_are_independent():
    with precision(double=True):
        rows = jax.vmap(lambda k: uniform(fold(fold(key_of(0), k), 1), (64,)))(np.arange(2000))
        other = uniform(key_of(1), (2000, 64))
    rows, other = np.asarray(rows), np.asarray(other)
    assert stats.kstest(rows[:, 0], "uniform").pvalue > 1e-4  # one number of many keys
    assert len(np.unique(rows)) == rows.size
    bound = 5 / np.sqrt(rows.size)
    assert abs(np.corrcoef(rows[:, 1:].ravel(), rows[:, :-1].ravel())[0, 1]) < bound
    assert abs(np.corrcoef(rows[1:].ravel(), rows[:-1].ravel())[0, 1]) < bound
    assert abs(np.corrcoef(rows.ravel(), other.ravel())[0, 1]) < bound


def test_the_same_key_gives_the_same_numbers():
    with precision(double=True):
        one, two = (np.asarray(uniform(fold(key_of(5), 2), (3, 4))) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert one.shape == (3, 4) and (one >= 0).all() and (one < 1).all()
