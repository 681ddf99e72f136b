"""Random numbers of kernels: known values, range, evenness, equal in both tiers."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.subjects import ask
from credo.kernels import random_numbers
from credo.kernels.random_numbers import below, mix_bits, shuffle, uniform
from tiers import interpreted
from zoo import case

TIERS = ["plain", "compiled"]


@pytest.fixture(params=TIERS)
def tier(request):
    return lambda kernel: getattr(kernel, request.param)


def state_of(seed: int) -> np.ndarray:
    return np.array([seed], dtype=np.uint64)


def splitmix(seed: int, count: int) -> list[int]:
    """The generator on Python's whole numbers."""
    found, mask = [], 2**64 - 1
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        found.append(z ^ (z >> 31))
    return found


@pytest.mark.filterwarnings("ignore:overflow encountered")  # wrapping is what is wanted
@pytest.mark.parametrize("seed", [0, 1, 1234567, 2**63 + 12345, 2**64 - 1])
def test_bits_are_those_of_splitmix(tier, seed):
    state = state_of(seed)
    found = [int(tier(random_numbers._next_bits)(state)) for _ in range(20)]
    assert found == splitmix(seed, 20)


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_no_two_numbers_are_mixed_to_the_same(tier):
    assert len({int(tier(mix_bits)(np.uint64(h))) for h in range(5000)}) == 5000


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_whole_numbers_are_even_and_in_range(tier, count):
    state, draws = state_of(3), 4000
    found = np.bincount([tier(below)(state, count) for _ in range(draws)], minlength=count)
    assert len(found) == count
    share = draws / count
    assert (np.abs(found - share) <= 5.5 * np.sqrt(share) + 1).all()


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_uniform_numbers_are_multiples_of_a_double_s_last_place_below_one(tier):
    state = state_of(4)
    found = np.array([tier(uniform)(state) for _ in range(4000)])
    assert ((found >= 0) & (found < 1)).all()
    np.testing.assert_array_equal(found * 2.0**53 % 1, 0)
    assert abs(found.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 4000)


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_shuffle_is_a_permutation_and_every_place_is_as_likely(tier):
    state = state_of(5)
    found = np.array([tier(shuffle)(state, 5) for _ in range(2000)])
    np.testing.assert_array_equal(np.sort(found, axis=1), np.tile(np.arange(5), (2000, 1)))
    for place in range(5):
        assert np.abs(np.bincount(found[:, place]) - 400).max() < 5 * np.sqrt(400)
    assert shuffle(state, 0).shape == (0,)


def test_nobody_else_s_numbers_change():
    np.random.seed(7)
    expected = np.random.RandomState(7).random_sample(3)
    with interpreted():
        ask("local-search(block=0)", case("grid with zeros").graph, maximise="all")
    np.testing.assert_array_equal(np.random.random_sample(3), expected)
