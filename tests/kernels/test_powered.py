"""Powered sums of one table against plain NumPy, their derivatives against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from credo.kernels.powered import powered_region, powered_sum

SHAPES = [(3,), (2, 2), (3, 2), (2, 3, 2), (2, 2, 3, 2), (1, 3), (2, 1, 2)]


def plain_sum(table, weights):
    """Eliminate the first axis again and again."""
    for w in weights:
        top = table.max(axis=0)
        if w == 0:
            table = top
            continue
        safe = np.where(top > -np.inf, top, 0.0)
        with np.errstate(divide="ignore"):
            table = safe + w * np.log(np.exp((table - safe) / w).sum(axis=0))
    return float(table)


def value(table, weights):
    sizes = np.array(table.shape, dtype=np.int64)
    return powered_sum(table.ravel().copy(), sizes, np.asarray(weights, dtype=float))


def region(table, weights):
    sizes = np.array(table.shape, dtype=np.int64)
    found, belief, entropy = powered_region(table.ravel().copy(), sizes, np.asarray(weights, dtype=float))
    return found, belief.reshape(table.shape), entropy


def cases():
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        for heat in ([1.0], [0.5], [0.0], [2.0, 0.3, 0.0], [0.0, 1.0], [1e-3, 1.0]):
            weights = [heat[k % len(heat)] for k in range(len(shape))]
            for zeros in (0.0, 0.4):
                table = 2 * rng.standard_normal(shape)
                yield np.where(rng.random(shape) < zeros, -np.inf, table), weights


@pytest.mark.parametrize(("table", "weights"), list(cases()))
def test_the_value_is_the_plain_powered_sum(table, weights):
    assert value(table, weights) == pytest.approx(plain_sum(table, weights), rel=1e-12, abs=1e-12)
    assert region(table, weights)[0] == pytest.approx(plain_sum(table, weights), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("table", "weights"), list(cases()))
def test_beliefs_are_distributions_without_mass_on_zeros(table, weights):
    found, belief, entropy = region(table, weights)
    if found == -np.inf:
        assert (belief == 0).all()
        return
    assert belief.sum() == pytest.approx(1)
    assert (belief[table == -np.inf] == 0).all()
    assert (entropy >= -1e-12).all() and (entropy <= np.log(np.array(table.shape)) + 1e-12).all()


@pytest.mark.parametrize(("table", "weights"), [c for c in cases() if min(c[1]) > 0.1])
def test_beliefs_and_entropies_are_the_derivatives(table, weights):
    if table.max() == -np.inf:
        return
    _, belief, entropy = region(table, weights)
    h = 1e-5
    for at in np.ndindex(table.shape):
        if table[at] > -np.inf:
            up, down = table.copy(), table.copy()
            up[at] += h
            down[at] -= h
            assert (value(up, weights) - value(down, weights)) / (2 * h) == pytest.approx(
                belief[at], abs=1e-8
            )
    for k in range(len(weights)):
        up, down = np.array(weights), np.array(weights)
        up[k] += h
        down[k] -= h
        assert (value(table, up) - value(table, down)) / (2 * h) == pytest.approx(entropy[k], abs=1e-8)


def hessian(belief, weights, i, k):
    """Second derivatives with respect to shifts of variables i <= k, from beliefs alone (A.14, cross form).

    Shifts are subtracted from the table; the sign cancels in second derivatives.
    """
    c = belief.ndim
    shape = (belief.shape[i], belief.shape[k])
    pair = np.zeros(shape)
    for x in np.ndindex(belief.shape):
        if i == k:
            pair[x[i], x[i]] += belief[x]
        else:
            pair[x[i], x[k]] += belief[x]
    single = [belief.sum(axis=tuple(j for j in range(c) if j != v)) for v in range(c)]
    found = pair / weights[k] - np.outer(single[i], single[k]) / weights[c - 1]
    for j in range(k, c - 1):
        # mu(x_k' | x_{j+1..c}) from the belief with the first j + 1 axes summed out, except k.
        rest = belief.sum(axis=tuple(range(j + 1)))
        kept = belief.sum(axis=tuple(v for v in range(j + 1) if v != k))
        given = np.divide(kept, rest, out=np.zeros_like(kept), where=rest > 0)
        mixed = np.zeros(shape)
        for x in np.ndindex(belief.shape):
            mixed[x[i], :] += belief[x] * given[(slice(None), *x[j + 1 :])]
        found += (1 / weights[j + 1] - 1 / weights[j]) * mixed
    return found


@pytest.mark.parametrize("shape", [(3,), (2, 3), (3, 2, 2), (2, 2, 2, 2)])
def test_second_derivatives_follow_the_formula_of_the_thesis(shape):
    rng = np.random.default_rng(len(shape))
    table, weights = rng.standard_normal(shape), rng.uniform(0.3, 1.5, len(shape))
    _, belief, _ = region(table, weights)

    def marginal(v, shifted):
        return region(shifted, weights)[1].sum(axis=tuple(j for j in range(len(shape)) if j != v))

    h = 1e-5
    for i in range(len(shape)):
        for k in range(i, len(shape)):
            formula = hessian(belief, weights, i, k)
            for y in range(shape[k]):
                bump = np.zeros(shape[k])
                bump[y] = h
                bump = bump.reshape([-1 if v == k else 1 for v in range(len(shape))])
                slope = (marginal(i, table + bump) - marginal(i, table - bump)) / (2 * h)
                np.testing.assert_allclose(formula[:, y], slope, atol=1e-7)
            # Adding a constant to a shift changes nothing: the Hessian is singular along it.
            np.testing.assert_allclose(formula.sum(axis=1), 0, atol=1e-12)


def test_equal_maxima_share_the_belief():
    found, belief, entropy = region(np.array([[1.0, 1.0], [1.0, -np.inf]]), [0.0, 0.0])
    assert found == 1.0
    np.testing.assert_allclose(belief, [[0.25, 0.5], [0.25, 0.0]])
    np.testing.assert_allclose(entropy, [0.5 * np.log(2), np.log(2)])


def test_weights_near_zero_are_maxima():
    table = np.array([[0.5, 2.0], [1.0, -3.0]])
    for tiny in (0.0, 5e-324, 1e-200, 1e-12):
        assert value(table, [tiny, tiny]) == pytest.approx(2.0, abs=1e-10)


@pytest.mark.parametrize(("table", "weights"), list(cases())[::5])
def test_the_source_runs_uncompiled(table, weights):
    sizes = np.array(table.shape, dtype=np.int64)
    plain = powered_sum.py_func.__globals__["eliminate_first"].py_func
    work = table.ravel().copy()
    left = len(work)
    with np.errstate(divide="ignore", invalid="ignore"):
        for q, size in enumerate(sizes):
            left //= size
            plain(work, 0, size, left, weights[q], work, 0)
    assert work[0] == pytest.approx(value(table, weights), rel=1e-12, abs=1e-12)
