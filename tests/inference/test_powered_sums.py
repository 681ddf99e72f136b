"""Powered sums in any order: values and derivatives against enumeration and finite differences of it."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo import FactorGraph

HEATS = (0.0, 0.3, 1.0, 2.5)


def random_model(seed, *, zeros=True):
    """Up to six variables, one of them with one state, in two parts; factors of up to three variables."""
    rng = np.random.default_rng(seed)
    sizes = dict(zip("abcdef", [2, 3, 2, 1, 2, 3], strict=True))
    scopes = [("a", "b"), ("b", "c"), ("a", "c"), ("e", "f"), ("b",), ("f",), ("c", "d"), ()]
    if rng.random() < 0.5:
        scopes.append(("c", "a", "b"))
    if rng.random() < 0.5:
        scopes.append(("e", "c"))
    tables = []
    for scope in scopes:
        log = rng.normal(0, 1.5, [sizes[v] for v in scope])
        if zeros and len(scope) > 1 and rng.random() < 0.5:
            log.flat[rng.integers(log.size)] = -np.inf
        tables.append((scope, log))
    order = [str(v) for v in rng.permutation(list(sizes))]
    heat = {v: float(rng.choice(HEATS)) for v in sizes}
    return sizes, tables, heat, order


def graph_of(sizes, tables):
    return FactorGraph(sizes, {scope: np.exp(log) for scope, log in tables})


def brute_force(sizes, tables, heat, order):
    """log sum^{t_n} ... sum^{t_1} exp theta by the definition, on the whole joint table."""
    names = list(sizes)
    joint = np.zeros([sizes[v] for v in names])
    for scope, log in tables:
        shape = [sizes[v] if v in scope else 1 for v in names]
        joint = joint + log.transpose(np.argsort([names.index(v) for v in scope])).reshape(shape)
    for v in order:
        k, t = names.index(v), heat[v]
        top = joint.max(axis=k, keepdims=True)
        if t > 0:
            shift = np.where(top > -np.inf, top, 0.0)
            with np.errstate(divide="ignore"):
                top = shift + t * np.log(np.exp((joint - shift) / t).sum(axis=k, keepdims=True))
        joint = top
    return float(joint.item())


def slopes(sizes, tables, heat, order, step=1e-5):
    """Central differences by every finite entry of every table; zero at impossible ones."""
    found = []
    for a, (scope, log) in enumerate(tables):
        slope = np.zeros(log.shape)
        for where in np.ndindex(log.shape):
            if log[where] == -np.inf:
                continue
            values = []
            for sign in (1, -1):
                moved = log.copy()
                moved[where] += sign * step
                values.append(
                    brute_force(sizes, [*tables[:a], (scope, moved), *tables[a + 1 :]], heat, order)
                )
            slope[where] = (values[0] - values[1]) / (2 * step)
        found.append(slope)
    return found


@pytest.mark.parametrize("method", ["junction-tree", "enumerate"])
@pytest.mark.parametrize("seed", range(12))
def test_values_and_derivatives_of_exact_methods(method, seed):
    sizes, tables, heat, order = random_model(seed)
    found = credo.infer(graph_of(sizes, tables), method, temperatures=heat, order=order)
    assert found.log_z.kind == "exact"
    assert found.log_z.value == pytest.approx(brute_force(sizes, tables, heat, order), abs=1e-10)
    for got, expected in zip(found.factor_marginals, slopes(sizes, tables, heat, order), strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-8)
