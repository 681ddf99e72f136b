"""Contractions against NumPy's einsum and plain broadcasting, on random scopes and layouts."""

from __future__ import annotations

import numpy as np
import pytest

from credo.kernels import contraction
from credo.kernels.contraction import (
    ADD_EXP,
    ADD_MAX,
    MUL_ADD,
    MUL_MAX,
    contract,
    log_contract,
    make_workspace,
)
from seeds import each_seed

LOG_OPS = {"maximum": 0.0, "sum": 1.0, "half": 0.5, "hot": 3.0, "cold": 1e-3}


def random_axes(rng, n):
    """Three random scopes over n variables, each in random axis order; any of them may be empty."""
    return [rng.permutation(n)[: int(rng.integers(0, n + 1))].astype(np.int64) for _ in range(3)]


def tensor(rng, sizes, axes, zeros=0.2):
    values = rng.random(int(np.prod(sizes[axes]))) + 0.01
    values[rng.random(values.size) < zeros] = 0.0
    return values


def spread(values, axes, sizes):
    """A tensor as an array with one axis per variable, of length one where it has none."""
    full = values.reshape(sizes[axes]).transpose(np.argsort(axes))
    return full.reshape([int(s) if i in axes else 1 for i, s in enumerate(sizes)])


def by_broadcasting(A, axes_a, B, axes_b, axes_c, sizes, combine, reduce):
    """The definition: combine over all variables of the three scopes, reduce what C lacks."""
    used = [int(s) if i in {*axes_a, *axes_b, *axes_c} else 1 for i, s in enumerate(sizes)]
    joint = np.broadcast_to(combine(spread(A, axes_a, sizes), spread(B, axes_b, sizes)), used)
    # A variable only C mentions repeats the value; one neither mentions is not there at all.
    out = reduce(joint, tuple(i for i in range(len(sizes)) if i not in axes_c))
    shape = [int(sizes[i]) for i in np.sort(axes_c)]
    return out.reshape(shape).transpose(np.argsort(np.argsort(axes_c))).ravel()


def by_einsum(A, axes_a, B, axes_b, axes_c, sizes):
    ones = np.ones(sizes[axes_c])
    a, b = A.reshape(sizes[axes_a]), B.reshape(sizes[axes_b])
    lists = [list(map(int, axes)) for axes in (axes_a, axes_b, axes_c)]
    return np.einsum(a, lists[0], b, lists[1], ones, lists[2], lists[2]).ravel()


def log_sum(temperature):
    def reduce(joint, axes):
        top = joint.max(axis=axes, keepdims=True, initial=-np.inf)
        if temperature == 0:
            return top
        safe = np.where(np.isneginf(top), 0.0, top)
        with np.errstate(divide="ignore"):
            inner = np.exp((joint - safe) / temperature).sum(axis=axes, keepdims=True)
            return safe + temperature * np.log(inner)

    return reduce


def maximum(joint, axes):
    return joint.max(axis=axes, keepdims=True, initial=0.0)


def workspace(sizes, *axes):
    work = make_workspace(len(sizes), 2 * max(map(len, axes)) + 2)
    for scratch in work[:2]:
        assert not scratch.any()
    return work


def left_clean(work):
    """The scratch arrays that must be zero on entry of the next call."""
    return not work[0].any() and not work[1].any()


@each_seed(range(150))
def test_sums_of_products_equal_einsum(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, int(rng.integers(1, 6)))
    axes_a, axes_b, axes_c = random_axes(rng, len(sizes))
    A, B = tensor(rng, sizes, axes_a), tensor(rng, sizes, axes_b)
    C = np.full(int(np.prod(sizes[axes_c])), np.nan)  # whatever was there must not matter
    work = workspace(sizes, axes_a, axes_b, axes_c)
    contract(MUL_ADD, A, axes_a, B, axes_b, C, axes_c, sizes, work)
    np.testing.assert_allclose(C, by_einsum(A, axes_a, B, axes_b, axes_c, sizes), rtol=1e-13)
    assert left_clean(work)


@each_seed(range(150))
def test_maxima_of_products_equal_broadcasting(seed):
    rng = np.random.default_rng(1000 + seed)
    sizes = rng.integers(1, 5, int(rng.integers(1, 6)))
    axes_a, axes_b, axes_c = random_axes(rng, len(sizes))
    A, B = tensor(rng, sizes, axes_a), tensor(rng, sizes, axes_b)
    C = np.full(int(np.prod(sizes[axes_c])), np.nan)
    contract(MUL_MAX, A, axes_a, B, axes_b, C, axes_c, sizes, workspace(sizes, axes_a, axes_b, axes_c))
    expected = by_broadcasting(A, axes_a, B, axes_b, axes_c, sizes, np.multiply, maximum)
    np.testing.assert_allclose(C, expected, rtol=1e-15)


@pytest.mark.parametrize("op", LOG_OPS)
@each_seed(range(60))
def test_powered_sums_of_logs_equal_broadcasting(seed, op):
    rng = np.random.default_rng(2000 + seed)
    sizes = rng.integers(1, 5, int(rng.integers(1, 6)))
    axes_a, axes_b, axes_c = random_axes(rng, len(sizes))
    with np.errstate(divide="ignore"):
        A = np.log(tensor(rng, sizes, axes_a)) * rng.choice([1.0, 200.0])
        B = np.log(tensor(rng, sizes, axes_b)) * rng.choice([1.0, 200.0])
    C = np.full(int(np.prod(sizes[axes_c])), np.nan)
    work = workspace(sizes, axes_a, axes_b, axes_c)
    log_contract(LOG_OPS[op], A, axes_a, B, axes_b, C, axes_c, sizes, work)
    expected = by_broadcasting(A, axes_a, B, axes_b, axes_c, sizes, np.add, log_sum(LOG_OPS[op]))
    np.testing.assert_allclose(C, expected, rtol=1e-12, atol=1e-12)
    assert not np.isnan(C).any()
    assert left_clean(work)


LARGE = {
    "matrices": ([64, 70, 66], [0, 1], [1, 2], [0, 2]),
    "transposed": ([64, 70, 66], [1, 0], [2, 1], [2, 0]),
    "batched": ([3, 50, 60, 40], [1, 0, 2], [2, 3, 0], [3, 0, 1]),
    "two axes each": ([6, 7, 8, 9, 5, 11], [0, 2, 1, 3], [3, 4, 2, 5], [4, 0, 5, 1]),
    "with one-state axes": ([1, 60, 1, 70, 60], [0, 1, 2, 3], [3, 2, 4, 0], [4, 0, 1]),
    "many two-state axes": ([2] * 18, list(range(12)), list(range(6, 18)), [*range(6), *range(12, 18)]),
}


@pytest.mark.parametrize("shape", LARGE)
def test_large_products_go_through_matrix_products_and_stay_right(shape, monkeypatch):
    sizes, *scopes = LARGE[shape]
    sizes = np.array(sizes, dtype=np.int64)
    axes_a, axes_b, axes_c = (np.array(s, dtype=np.int64) for s in scopes)
    rng = np.random.default_rng(4)
    A, B = tensor(rng, sizes, axes_a), tensor(rng, sizes, axes_b)
    expected = by_einsum(A, axes_a, B, axes_b, axes_c, sizes)
    C = np.full(expected.size, np.nan)
    work = workspace(sizes, axes_a, axes_b, axes_c)
    contract(MUL_ADD, A, axes_a, B, axes_b, C, axes_c, sizes, work)
    np.testing.assert_allclose(C, expected, rtol=1e-11)
    assert left_clean(work)
    # The same choice made in Python shows that this shape indeed takes the road through BLAS.
    taken = []
    gemm = contraction._gemm
    monkeypatch.setattr(contraction, "_gemm", lambda *args: (taken.append(True), gemm(*args)))
    again = np.empty_like(C)
    contract.py_func(MUL_ADD, A, axes_a, B, axes_b, again, axes_c, sizes, work)
    assert taken
    np.testing.assert_array_equal(again, C)


@each_seed(range(12))
def test_larger_random_products_equal_einsum_whatever_road_they_take(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 12, 6)
    axes_a, axes_b, axes_c = (
        rng.permutation(6)[: int(rng.integers(2, 5))].astype(np.int64) for _ in range(3)
    )
    A, B = tensor(rng, sizes, axes_a), tensor(rng, sizes, axes_b)
    C = np.empty(int(np.prod(sizes[axes_c])))
    contract(MUL_ADD, A, axes_a, B, axes_b, C, axes_c, sizes, workspace(sizes, axes_a, axes_b, axes_c))
    np.testing.assert_allclose(C, by_einsum(A, axes_a, B, axes_b, axes_c, sizes), rtol=1e-12)


def test_scalars_are_multiplied():
    none, sizes = np.empty(0, dtype=np.int64), np.array([3], dtype=np.int64)
    C = np.empty(1)
    contract(MUL_ADD, np.array([2.0]), none, np.array([3.0]), none, C, none, sizes, workspace(sizes, none))
    assert C[0] == 6
    log_contract(1.0, np.array([2.0]), none, np.array([3.0]), none, C, none, sizes, workspace(sizes, none))
    assert C[0] == 5


def test_impossible_states_stay_impossible_in_logs():
    axes, none, sizes = np.array([0]), np.empty(0, dtype=np.int64), np.array([2], dtype=np.int64)
    C = np.empty(1)
    for temperature in (0.0, 0.5, 1.0):
        work = workspace(sizes, axes)
        log_contract(temperature, np.full(2, -np.inf), axes, np.zeros(1), none, C, none, sizes, work)
        assert C[0] == -np.inf


def test_values_of_any_range_are_summed_in_logs():
    axes, none, sizes = np.array([0]), np.empty(0, dtype=np.int64), np.array([3], dtype=np.int64)
    C = np.empty(1)
    for shift in (-1e5, 0.0, 1e5):
        A = np.array([0.0, -1.0, -2000.0]) + shift
        log_contract(1.0, A, axes, np.zeros(1), none, C, none, sizes, workspace(sizes, axes))
        assert C[0] == pytest.approx(shift + np.log1p(np.exp(-1.0)), rel=1e-15)


@pytest.mark.parametrize("op", [MUL_ADD, MUL_MAX, ADD_MAX, ADD_EXP])
@each_seed(range(8))
def test_the_source_of_the_loops_runs_uncompiled_as_their_specification(op, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 4)
    axes_a, axes_b, axes_c = random_axes(rng, 4)
    A, B = tensor(rng, sizes, axes_a), tensor(rng, sizes, axes_b)
    results = []
    for plan_nest, run_nest in (
        (contraction.plan_nest, contraction._run_nest),
        (contraction.plan_nest.py_func, contraction._run_nest.py_func),
    ):
        strides, seen, loops, lists = workspace(sizes, axes_a, axes_b, axes_c)
        rows = plan_nest(axes_a, axes_b, axes_c, sizes, strides, seen, loops)
        C = np.zeros(int(np.prod(sizes[axes_c])))
        run_nest(op, A, B, C, np.zeros_like(C), 0.5, loops, rows, lists[0])
        results.append((loops[:rows].copy(), C))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-14)


def test_contract_and_log_contract_run_uncompiled():
    rng = np.random.default_rng(0)
    sizes = np.array([3, 4, 2], dtype=np.int64)
    axes_a, axes_b, axes_c = np.array([0, 1]), np.array([1, 2]), np.array([2, 0])
    A, B = tensor(rng, sizes, axes_a, 0.0), tensor(rng, sizes, axes_b, 0.0)
    work = workspace(sizes, axes_a, axes_b, axes_c)
    fast, slow = np.empty(6), np.empty(6)
    contract(MUL_ADD, A, axes_a, B, axes_b, fast, axes_c, sizes, work)
    contract.py_func(MUL_ADD, A, axes_a, B, axes_b, slow, axes_c, sizes, work)
    np.testing.assert_allclose(slow, fast, rtol=1e-14)
    for temperature in (0.0, 1.0, 2.0):
        log_contract(temperature, A, axes_a, B, axes_b, fast, axes_c, sizes, work)
        log_contract.py_func(temperature, A, axes_a, B, axes_b, slow, axes_c, sizes, work)
        np.testing.assert_allclose(slow, fast, rtol=1e-14)


def test_rescaling_reports_the_scale_and_the_smallest_positive_entry():
    for rescale in (contraction.rescale, contraction.rescale.py_func):
        values = np.array([0.0, 4.0, 1e-200, 2.0])
        top, least = rescale(values)
        assert top == pytest.approx(np.log(4))
        assert least == pytest.approx(2.5e-201)
        np.testing.assert_allclose(values, [0, 1, 2.5e-201, 0.5])
        assert rescale(np.zeros(3)) == (-np.inf, 1.0)
