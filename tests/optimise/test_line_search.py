"""Searches along a line on functions of one number."""

from __future__ import annotations

import numpy as np
import pytest

from credo.optimise.line_search import Trial, backtrack, falls, golden_section, wolfe


def test_halving_ends_with_the_first_length_that_is_enough():
    tried = []

    def at(length):
        tried.append(length)
        return (length - 0.1) ** 2

    value, length = backtrack(at, lambda value, t: falls(value, 0.01, -0.2 * t), 1.0)
    assert tried == [1.0, 0.5, 0.25, 0.125] and (value, length) == (at(0.125), 0.125)


def test_halving_gives_up_after_its_tries():
    tried = []
    assert backtrack(tried.append, lambda value, t: False, 1.0, 5) is None
    assert tried == [1.0, 0.5, 0.25, 0.125, 0.0625]


@pytest.mark.parametrize("first", [1e-4, 1.0, 300.0])
@pytest.mark.parametrize(
    "function",
    [
        lambda t: ((t - 3) ** 2, 2 * (t - 3)),
        lambda t: (np.cosh(t - 3), np.sinh(t - 3)),
        lambda t: (-np.log1p(t) + 0.1 * t, 0.1 - 1 / (1 + t)),
    ],
)
def test_lengths_of_wolfe_fall_enough_and_flatten(function, first):
    value, slope = function(0.0)
    found = wolfe(lambda t: Trial(*function(t), t), value, slope, first)
    assert falls(found.value, value, found.place * slope) and abs(found.slope) <= 0.9 * abs(slope)


def test_wolfe_steps_back_from_where_there_is_no_number():
    def at(t):
        return Trial(-np.sqrt(4 - t), 0.5 / np.sqrt(4 - t), t) if t < 4 else Trial(np.inf, np.inf, t)

    found = wolfe(lambda t: at(t) if t > 2 else Trial((t - 3) ** 2, 2 * (t - 3), t), 9.0, -6.0, 50.0)
    assert found.place < 4


def test_wolfe_takes_no_noise_for_a_way_on():
    # The slope says down, the value rises: nothing is found, not even at lengths that change it by rounding.
    assert wolfe(lambda t: Trial(1.0 + t, -1.0, t), 1.0, -1.0, 1.0) is None


@pytest.mark.parametrize(("bottom", "expected"), [(0.3, 0.3), (-1.0, 0.0), (5.0, 2.0)])
def test_golden_section_finds_the_valley_or_an_end(bottom, expected):
    assert golden_section(lambda t: (t - bottom) ** 2, 0.0, 2.0) == pytest.approx(expected, abs=1e-7)
