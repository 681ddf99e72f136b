"""Quadratics over a simplex: the conditions of an optimum, and what is singular."""

import numpy as np
import pytest

from credo.optimise.simplex import lowest_mixture


@pytest.mark.parametrize("rank", [1, 3, 12])
def test_no_share_can_be_moved_to_gain(rank):
    rng = np.random.default_rng(rank)
    for _ in range(30):
        root, reward = rng.normal(size=(12, rank)), rng.normal(size=12)
        found = lowest_mixture(root @ root.T, reward, rng.random(12) if rank > 1 else None)
        assert found.sum() == pytest.approx(1.0)
        assert (found >= 0).all()
        slope = root @ root.T @ found - reward
        assert slope @ found - slope.min() < 1e-7


def test_equal_planes_and_a_single_one():
    assert lowest_mixture(np.ones((1, 1)), np.zeros(1)).tolist() == [1.0]
    found = lowest_mixture(np.ones((3, 3)), np.array([1.0, 1.0, 0.5]))
    assert found[:2].sum() == pytest.approx(1.0)
