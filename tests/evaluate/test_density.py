"""Nats and bits per dimension."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import credo
from credo.core.errors import DataError, ModelError, OptionError
from credo.evaluate import bits_per_dimension, nats_per_dimension
from credo.families import Categorical, DiagonalGaussian, Mixture

NORMAL = DiagonalGaussian([[0.0, 1.0]], [[1.0, 4.0]])
X = np.random.default_rng(0).standard_normal((30, 2))


def expected(x):
    return -np.stack([norm.logpdf(x[:, 0]), norm.logpdf(x[:, 1], 1, 2)])


def test_nats_are_the_mean_over_rows_and_columns():
    assert nats_per_dimension(NORMAL, X) == pytest.approx(expected(X).mean())
    mixture = Mixture([[0.5, 0.5]], NORMAL.take([0, 0]))
    assert nats_per_dimension(mixture, X) == pytest.approx(expected(X).mean())


def test_missing_cells_are_no_numbers():
    x = X.copy()
    x[3, 0] = x[7] = np.nan
    assert nats_per_dimension(NORMAL, x) == pytest.approx(np.nanmean(expected(x)))


def test_sequences_count_their_rows():
    hmm = credo.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], NORMAL.take([0, 0]))
    assert nats_per_dimension(hmm, X, lengths=[10, 20]) == pytest.approx(expected(X).mean())


def test_states_are_said_in_bits():
    coin = Categorical([[0.5, 0.5]])
    assert bits_per_dimension(coin, [0, 1, 1, -1]) == pytest.approx(1)


def test_bits_do_not_depend_on_the_unit_of_the_data():
    """Whole numbers with uniform noise, as they are and divided by 256."""
    as_they_are = DiagonalGaussian([[100.0]], [[2500.0]])
    divided = DiagonalGaussian([[100.0 / 256]], [[2500.0 / 256**2]])
    x = np.arange(0, 256.0, 7)[:, None] + 0.5
    bits = bits_per_dimension(as_they_are, x)
    assert bits_per_dimension(divided, x / 256, width=1 / 256) == pytest.approx(bits)
    assert bits == pytest.approx(nats_per_dimension(as_they_are, x) / math.log(2))


def test_refusals():
    with pytest.raises(ModelError, match=r"model: expected one of rows, .* got BayesNet"):
        nats_per_dimension(credo.datasets.asia(), {"asia": ["yes"]})
    with pytest.raises(DataError, match="at least one observed number, got none"):
        nats_per_dimension(NORMAL, np.full((2, 2), np.nan))
    with pytest.raises(OptionError, match="width must be a positive number, got 0"):
        bits_per_dimension(NORMAL, X, width=0.0)
