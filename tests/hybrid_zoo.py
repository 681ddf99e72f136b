"""Small models with continuous variables, and their answers by brute force.

The oracle integrates real variables on a dense grid and sums discrete ones: independent of every algorithm.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import credo
from credo import potentials


@dataclass(frozen=True)
class Truth:
    """Log Z, and per variable its probabilities or (mean, variance)."""

    log_z: float
    marginals: dict[str, np.ndarray]


def truth(model, low=-12.0, high=12.0, count=241) -> Truth:
    """The answers of a model with at most three real variables and a few discrete ones."""
    graph = model.to_factor_graph()
    points = np.linspace(low, high, count)
    axes = [np.arange(v.size) if v.is_discrete else points for v in graph.variables]
    mesh = dict(zip(graph.variables.names, np.meshgrid(*axes, indexing="ij", sparse=True), strict=True))
    log_p = np.broadcast_to(graph.log_scores(mesh), [len(a) for a in axes])
    cell = np.prod([1.0 if v.is_discrete else points[1] - points[0] for v in graph.variables])
    top = log_p.max()
    p = np.exp(log_p - top)
    total = p.sum()
    found = {}
    for i, v in enumerate(graph.variables):
        marginal = p.sum(axis=tuple(j for j in range(p.ndim) if j != i)) / total
        if v.is_discrete:
            found[v.name] = marginal
        else:
            mean = marginal @ points
            found[v.name] = np.array([mean, marginal @ (points - mean) ** 2])
    return Truth(float(top + np.log(total * cell)), found)


def real(name: str) -> credo.Variable:
    return credo.Variable(name, credo.Real())


def gaussian_tree(n: int = 6, seed: int = 0) -> credo.GaussianNet:
    """A random Gaussian tree."""
    rng = np.random.default_rng(seed)
    precision = np.diag(1.0 + rng.random(n) * 2)
    for i in range(1, n):
        j = int(rng.integers(i))
        precision[i, j] = precision[j, i] = rng.uniform(-0.6, 0.6)
    precision += np.eye(n) * max(0.0, 0.3 - np.linalg.eigvalsh(precision).min())
    return credo.GaussianNet(precision, rng.normal(size=n))


def gaussian_loop(n: int = 5, seed: int = 1, strength: float = 0.3) -> credo.GaussianNet:
    """A Gaussian cycle that is walk-summable for small strengths."""
    rng = np.random.default_rng(seed)
    precision = np.eye(n)
    for i in range(n):
        j = (i + 1) % n
        precision[i, j] = precision[j, i] = strength * rng.choice([-1, 1])
    return credo.GaussianNet(precision, rng.normal(size=n))


def switching() -> credo.HybridNet:
    """Two discrete switches in a chain, each with a real emission, and a smooth link between those."""
    s, t = credo.Variable("s", ["off", "on"]), credo.Variable("t", 3)
    x, y = real("x"), real("y")
    return credo.HybridNet(
        [s, x, t, y],
        [
            credo.TableFactor([s], [0.6, 0.4]),
            credo.TableFactor([s, t], [[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]]),
            potentials.emission(x, s, [-1.0, 1.5], [0.5, 1.0]),
            potentials.emission(y, t, [-2.0, 0.0, 2.0], [1.0, 0.5, 0.7]),
        ],
    )


def switching_loop() -> credo.HybridNet:
    """The same with a Laplace potential that closes a loop through both real variables."""
    chain = switching()
    x, y = real("x"), real("y")
    return credo.HybridNet(chain.variables, [*chain.factors, potentials.laplace(x, y, scale=2.0)])


def laplace_chain(n: int = 3) -> credo.HybridNet:
    """Gaussian-mixture nodes with Laplace edges in a chain."""
    names = [f"x{i}" for i in range(n)]
    variables = {name: real(name) for name in names}
    factors = [
        potentials.gaussian_mixture(v, [0.3, 0.7], [-1.0 + 0.3 * i, 2.0], [1.0, 0.5])
        for i, v in enumerate(variables.values())
    ]
    factors += [potentials.laplace(variables[a], variables[b]) for a, b in itertools.pairwise(names)]
    return credo.HybridNet(list(variables.values()), factors)


def bimodal_cycle() -> credo.HybridNet:
    """Three nodes exp(-0.1 |x|), every pair drawn to (10, -10) or (-10, 10); log Z = -16.1737."""
    variables = [real(f"x{i}") for i in range(3)]
    factors = [potentials.laplace(v, scale=10.0) for v in variables]
    factors += [potentials.bimodal(a, b) for a, b in itertools.combinations(variables, 2)]
    return credo.HybridNet(variables, factors)


def close(result, expected: Truth, atol: float) -> None:
    """Assert that marginals (probabilities; means and standard deviations) agree."""
    for name, value in expected.marginals.items():
        found = result.marginals[name]
        if isinstance(found, np.ndarray):
            np.testing.assert_allclose(found, value, atol=atol, err_msg=name)
        else:
            assert found.mean == pytest.approx(value[0], abs=atol), name
            assert found.sd == pytest.approx(np.sqrt(value[1]), abs=atol), name


def within_errors(result, expected: Truth, deviations: float = 5.0) -> None:
    """Assert that a sampler is right within its own standard errors, and variances within a fifth."""
    assert result.converged, result.notes
    for (name, value), error in zip(expected.marginals.items(), result.diagnostics["mcse"], strict=True):
        found = result.marginals[name]
        if isinstance(found, np.ndarray):
            assert np.abs(found - value).max() < deviations * error, name
        else:
            assert abs(found.mean - value[0]) < deviations * error, name
            assert found.variance == pytest.approx(value[1], rel=0.2), name


def gaussian_truth(net: credo.GaussianNet) -> Truth:
    """Exact moments by dense linear algebra."""
    moments = zip(net.names, net.mean, np.diag(net.covariance), strict=True)
    return Truth(net.log_z, {name: np.array([mean, variance]) for name, mean, variance in moments})


def topics() -> credo.HybridNet:
    """Words z0 ... z3 of one document with topic shares theta; with words seen, theta is Dirichlet."""
    theta = credo.Variable("theta", credo.Simplex(3))
    words = [credo.Variable(f"z{i}", 3) for i in range(4)]
    factors = [potentials.dirichlet(theta, [2.0, 1.0, 3.0])]
    return credo.HybridNet([theta, *words], factors + [potentials.categorical(z, theta) for z in words])


TOPIC_EVIDENCE = {"z0": 0, "z1": 0, "z2": 1}


def has_topic_shares(result, deviations: float = 5.0) -> None:
    """Assert that theta of `topics` given the evidence is Dirichlet(4, 2, 3), and z3 its mean."""
    alpha = np.array([4.0, 2.0, 3.0])
    mean = alpha / alpha.sum()
    assert result.converged, result.notes
    assert np.abs(result.marginals["theta"].mean - mean).max() < deviations * result.diagnostics["mcse"][0]
    np.testing.assert_allclose(result.marginals["theta"].variance, mean * (1 - mean) / 10, rtol=0.2)
    if len(result.diagnostics["mcse"]) > 1:
        assert np.abs(result.marginals["z3"] - mean).max() < deviations * result.diagnostics["mcse"][1]


def same(found, expected, atol: float) -> None:
    """Assert that two results agree in marginals and log Z."""
    for name in expected.marginals:
        one, other = found.marginals[name], expected.marginals[name]
        if isinstance(other, np.ndarray):
            np.testing.assert_allclose(one, other, atol=atol, err_msg=name)
        else:
            assert one.mean == pytest.approx(other.mean, abs=atol), name
            assert one.variance == pytest.approx(other.variance, abs=atol), name
    assert found.log_z.value == pytest.approx(expected.log_z.value, abs=atol)
