"""Drawing of two-state units, and their entropies."""

from __future__ import annotations

import numpy as np
import pytest

from credo.kernels.boltzmann import binary_entropy, draw_units


class Every:
    """A generator that gives each byte as often as the others, and evenly spaced numbers."""

    def bytes(self, count: int) -> bytes:
        return (np.arange(count) % 256).astype(np.uint8).tobytes()

    def random(self, count: int, dtype: type) -> np.ndarray:
        return ((np.arange(count) + 0.5) / count).astype(dtype)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("p", [0.0, 1e-4, 1 / 256, 0.3, 0.5, 0.9999, 1.0])
def test_units_are_on_with_their_probability(p, kind):
    rows = 256 * 100
    found = draw_units(np.full((rows, 1), p, kind), Every())
    assert found.dtype == kind and set(np.unique(found)) <= {0, 1}
    assert abs(found.mean(dtype=float) - p) <= 1 / rows


def test_draws_of_a_seed_are_the_same_and_independent():
    p = np.broadcast_to(np.array([0.2, 0.7, 0.5]), (40_000, 3))
    first, again = (draw_units(p, np.random.default_rng(0)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first.mean(axis=0), p[0], atol=4 * 0.5 / 200)
    np.testing.assert_allclose(np.corrcoef(first.T), np.eye(3), atol=4 / 200)


def test_no_units_and_undefined_probabilities():
    rng = np.random.default_rng(0)
    assert draw_units(np.zeros((0, 3)), rng).shape == (0, 3)
    np.testing.assert_array_equal(draw_units(np.array([np.nan]), rng), [0])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_certain_units_have_no_entropy(kind):
    found = binary_entropy(np.array([0.0, 0.5, 1.0, 0.25], kind))
    assert found.dtype == kind
    np.testing.assert_allclose(found, [0, np.log(2), 0, 2 * np.log(2) - 0.75 * np.log(3)], atol=1e-6)
