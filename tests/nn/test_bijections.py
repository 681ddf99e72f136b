"""Bijections: Jacobians, round trips, what adapts to data, and what is refused."""

from __future__ import annotations

import sys

import jax
import numpy as np
import pytest
import scipy.linalg

from credo.core.errors import MissingExtraError, OptionError
from credo.nn.arrays import precision
from credo.nn.bijections import Chain, read_bijection

LIVELY = [
    ("actnorm", 3),
    ("mixing + actnorm", 3),
    ("permutation(seed=1) + permutation(seed=none)", 4),
    ("coupling(layers=3, width=4, zero=false)", 5),
    ("coupling(layers=3, width=4, zero=false, masks=interleaved, activation=leaky)", 5),
    ("coupling(layers=4, width=4, zero=false, masks=random, depth=1)", 4),
    ("planar(layers=3)", 3),
    ("radial(layers=2)", 3),
    ("glow(levels=2, steps=1, width=2, zero=false)", 16),
]


def lively(text, d, seed=0):
    """A bijection whose parameters are all away from zero."""
    rng, found = np.random.default_rng(seed), read_bijection(text)
    tree = found.start(d, rng)
    return found, jax.tree.map(lambda a: a + 0.3 * rng.normal(size=a.shape), tree)


@pytest.mark.parametrize(("text", "d"), LIVELY)
def test_the_volume_is_the_determinant_of_the_jacobian_and_rows_come_back(text, d):
    check_jacobian(*lively(text, d), d)


def check_jacobian(found, tree, d, near=1e-9):
    x = np.random.default_rng(1).normal(size=(6, d))
    with precision(double=True):
        z, volume = jax.jit(found.forward)(tree, x)
        back = jax.jit(found.backward)(tree, z)
        step, run = 1e-6, jax.jit(lambda rows: found.forward(tree, rows)[0])
        columns = [(run(x + step * e) - run(x - step * e)) / (2 * step) for e in np.eye(d)]
    np.testing.assert_allclose(back, x, atol=near)
    numerical = np.linalg.slogdet(np.stack(columns, axis=2))[1]
    np.testing.assert_allclose(volume, numerical, atol=max(near, 3e-5))  # a kink of relu may be near


@pytest.mark.parametrize("masks", ["alternating", "interleaved", "random"])
@pytest.mark.parametrize("d", [5])
def test_after_two_couplings_no_coordinate_is_as_it_was(masks, d):
    found, tree = lively(f"coupling(layers=2, width=4, zero=false, masks={masks})", d)
    x = np.random.default_rng(1).normal(size=(4, d))
    with precision(double=True):
        z = np.asarray(jax.jit(found.forward)(tree, x)[0])
    assert np.abs(z[:, :, None] - x[:, None, :]).min(axis=0).min() > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("text", ["spline(layers=2, width=4, knots=4)", "maf(layers=2, width=4)"])
def test_splines_and_autoregressive_flows_come_from_flowjax(text):
    pytest.importorskip("flowjax")
    check_jacobian(*lively(text, 3), 3, near=1e-4)  # constants of the library are in single precision
    assert "two coordinates" in (read_bijection(text).why_not(1) or "")


def test_without_flowjax_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flowjax", None)
    monkeypatch.setitem(sys.modules, "flowjax.bijections", None)
    with pytest.raises(MissingExtraError, match=r"install credo\[flows\]"):
        read_bijection("spline").start(2, np.random.default_rng(0))


def test_continuous_flows_solve_a_linear_field_and_come_back():
    found = read_bijection("ode(width=4, depth=1, steps=40, zero=false)")
    tree = found.start(2, np.random.default_rng(0))
    x = np.random.default_rng(1).normal(size=(5, 2))
    with precision(double=True):
        z, volume = jax.jit(found.forward)(tree, x)
        back = jax.jit(found.backward)(tree, z)
        run, step = jax.jit(lambda rows: found.forward(tree, rows)[0]), 1e-6
        columns = [(run(x + step * e) - run(x - step * e)) / (2 * step) for e in np.eye(2)]
        matrix = 1e-4 * np.array([[300.0, 100.0], [-200.0, 500.0]])  # tanh is linear near zero
        small = {
            "hidden": ({"weight": np.vstack([1e-4 * np.eye(2), np.zeros((1, 2))]), "bias": np.zeros(2)},)
        }
        linear = {**small, "weight": 1e4 * matrix, "bias": np.zeros(2)}
        field, trace = found.forward(linear, x)
    np.testing.assert_allclose(back, x, atol=1e-7)
    np.testing.assert_allclose(volume, np.linalg.slogdet(np.stack(columns, axis=2))[1], atol=1e-6)
    np.testing.assert_allclose(field, x @ scipy.linalg.expm(matrix), atol=1e-7)
    np.testing.assert_allclose(trace, np.trace(matrix), atol=1e-7)


def test_scales_stay_within_their_bound():
    found, tree = lively("coupling(layers=1, width=4, bound=0.5)", 4)
    tree = jax.tree.map(lambda a: 100 * a, tree)
    with precision(double=True):
        _, volume = found.forward(tree, np.random.default_rng(1).normal(size=(50, 4)))
    assert np.abs(volume).max() <= 2 * 0.5 + 1e-12


def test_actnorm_starts_from_data_and_couplings_as_the_identity():
    found = read_bijection("flow")
    assert isinstance(found, Chain)
    rng = np.random.default_rng(0)
    x, weights = rng.normal([3.0, -2.0], [0.1, 5.0], (400, 2)), rng.random(400)
    with precision(double=True):
        tree = jax.jit(found.adapt)(found.start(2, rng), x, weights)
        z = np.asarray(jax.jit(found.forward)(tree, x)[0])
    share = weights / weights.sum()
    np.testing.assert_allclose(share @ z, 0, atol=1e-12)
    np.testing.assert_allclose(share @ z**2, 1, rtol=1e-9)


def test_texts_are_read_and_shown_and_options_checked():
    text = "actnorm + coupling(layers=2, masks=random)"
    assert str(read_bijection(text)) == text and read_bijection(read_bijection(text)) == read_bijection(text)
    assert hash(read_bijection(text)) == hash(read_bijection(text))
    assert "two coordinates" in (read_bijection("coupling").why_not(1) or "")
    assert "cannot be squeezed 3 times; resize" in (read_bijection("glow").why_not(784) or "")
    assert "no images of 3 x 4 x 1" in (read_bijection("glow(shape=(3, 4))").why_not(10) or "")
    with pytest.raises(OptionError, match="shape must be"):
        read_bijection("glow(shape=(4,))")
    with pytest.raises(OptionError, match="no bijection named 'couplin'; did you mean 'coupling'"):
        read_bijection("couplin")
    with pytest.raises(OptionError, match="expected a name or a RowBijection, got int"):
        read_bijection(3)
    for wrong in ("layers=0", "width=0", "depth=-1", "masks=odd", "bound=0", "activation=sin", "zero=2"):
        with pytest.raises(OptionError, match=wrong.partition("=")[0]):
            read_bijection(f"coupling({wrong})")
    with pytest.raises(OptionError, match="first must be one of"):
        read_bijection("mixing(first=zero)")


def test_the_tables_of_names_is_that_of_the_classes():
    from credo.core.registry import summary_of
    from credo.nn.bijections.base import BIJECTIONS, bijections

    for name, entry in BIJECTIONS.items():
        known = bijections.get(name)
        assert (known.__module__, summary_of(known)) == (entry.module, entry.summary)
