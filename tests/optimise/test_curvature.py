"""The two loops of L-BFGS on quadratics, whose curvature is known."""

from __future__ import annotations

import numpy as np
import pytest

from credo.optimise.curvature import apply_curvature, dot, is_curved, last_scale


def quadratic(seed, n=6):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(n, n))
    return half @ half.T + np.eye(n), rng


def test_the_last_turn_is_undone_exactly():
    for seed in range(20):
        curvature, rng = quadratic(seed)
        moves = list(rng.normal(size=(3, 6)))
        turns = [curvature @ m for m in moves]
        found = apply_curvature(turns[-1], moves, turns, last_scale(moves, turns))
        np.testing.assert_allclose(found, moves[-1], rtol=1e-9)


def test_conjugate_moves_give_the_inverse_curvature():
    curvature, _ = quadratic(0)
    values, vectors = np.linalg.eigh(curvature)
    moves = list(vectors.T)
    turns = [value * vector for value, vector in zip(values, vectors.T, strict=True)]
    slope = np.arange(6.0)
    for metric in (last_scale(moves, turns), lambda v: 3.0 * v):
        np.testing.assert_allclose(
            apply_curvature(slope, moves, turns, metric), np.linalg.solve(curvature, slope)
        )


def test_the_way_is_always_downhill():
    for seed in range(20):
        curvature, rng = quadratic(seed)
        moves = list(rng.normal(size=(4, 6)))
        turns = [curvature @ m for m in moves]
        slope = rng.normal(size=6)
        assert dot(slope, apply_curvature(slope, moves, turns, last_scale(moves, turns))) > 0


def test_without_moves_the_metric_is_all():
    slope = np.array([1.0, -2.0])
    assert apply_curvature(slope, (), (), last_scale((), ())).tolist() == [1.0, -2.0]
    assert apply_curvature(slope, (), (), lambda v: 2.0 * v).tolist() == [2.0, -4.0]
    assert dot(slope, slope) == pytest.approx(5.0)


def test_pairs_that_underflow_are_not_used():
    move, turn = np.array([1e-120, 0.0]), np.array([1e-120, 0.0])
    assert not is_curved(move, turn) and not is_curved(np.ones(2), 0 * turn)
    assert is_curved(np.ones(2), np.ones(2)) and not is_curved(np.ones(2), -np.ones(2))
