from __future__ import annotations

import numpy as np
import pytest

import credo
import hybrid_zoo as zoo
from credo import potentials
from credo.core.errors import ModelError, TooLargeError, UnsupportedError, ZeroProbabilityError
from credo.core.result import Status
from credo.inference.problem import gaussian_system
from credo.kernels import sparse_cholesky


def moments(result, names):
    return (
        np.array([result.marginals[n].mean for n in names]),
        np.array([result.marginals[n].variance for n in names]),
    )


def of_any_arity(seed=0, n=7):
    """Factors of one to three variables in any order, two of them over the same pair, with constants."""
    rng = np.random.default_rng(seed)
    variables = [zoo.real(f"x{i}") for i in range(n)]
    J, h, g = np.zeros((n, n)), np.zeros(n), 0.0
    factors = []
    scopes = [[i] for i in range(n)] + [[0, 1], [1, 0], [2, 3, 4], [4, 2, 5], [6, 0]]
    for scope in scopes:
        root = rng.normal(size=(len(scope), len(scope)))
        own = root @ root.T + 0.1 * np.eye(len(scope))
        shift, constant = rng.normal(size=len(scope)), rng.normal()
        J[np.ix_(scope, scope)] += own
        h[scope] += shift
        g += constant
        factors.append(credo.GaussianFactor([variables[i] for i in scope], own, shift, constant))
    return credo.HybridNet(variables, factors), J, h, g


def log_z_of(J, h, g):
    n = len(h)
    return g + 0.5 * (h @ np.linalg.solve(J, h) + n * np.log(2 * np.pi) - np.linalg.slogdet(J)[1])


def grid(side, diagonal=1.0, coupling=-0.24):
    """A grid wide enough for the sparse factorisation: (model, dense J, h)."""
    n = side * side
    J = diagonal * np.eye(n)
    for i in range(n):
        for j in ([i + 1] if (i + 1) % side else []) + ([i + side] if i + side < n else []):
            J[i, j] = J[j, i] = coupling
    h = np.random.default_rng(3).normal(size=n)
    variables = [zoo.real(f"x{i}") for i in range(n)]
    factors = [credo.GaussianFactor([v], [[J[i, i]]], [h[i]]) for i, v in enumerate(variables)]
    factors += [
        credo.GaussianFactor([variables[i], variables[j]], [[0.0, coupling], [coupling, 0.0]])
        for i, j in zip(*np.nonzero(np.triu(J, 1)), strict=True)
    ]
    return credo.HybridNet(variables, factors), J, h


def test_means_variances_and_log_z_are_those_of_dense_linear_algebra():
    for seed in range(5):
        model, J, h, g = of_any_arity(seed)
        found = credo.infer(model, "gaussian")
        mean, variance = moments(found, model.variables.names)
        np.testing.assert_allclose(mean, np.linalg.solve(J, h), rtol=1e-10)
        np.testing.assert_allclose(variance, np.diag(np.linalg.inv(J)), rtol=1e-10)
        assert found.log_z.value == pytest.approx(log_z_of(J, h, g), rel=1e-12)
        assert found.log_z.kind == "exact" and found.status is Status.EXACT


def test_the_sparse_factorisation_agrees_with_dense_linear_algebra():
    model, J, h = grid(18)
    found = credo.infer(model, "gaussian")
    mean, variance = moments(found, model.variables.names)
    np.testing.assert_allclose(mean, np.linalg.solve(J, h), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(variance, np.diag(np.linalg.inv(J)), rtol=1e-9)
    assert found.log_z.value == pytest.approx(log_z_of(J, h, 0.0), rel=1e-12)
    system = gaussian_system.GaussianSystem.of(_problem(model))
    assert isinstance(system.factorise(), gaussian_system._Sparse)
    some = [f"x{i}" for i in range(0, 324, 50)]
    best = credo.infer(model, "gaussian", maximise=some)
    rest = np.setdiff1d(np.arange(324), np.arange(0, 324, 50))
    logdet = np.linalg.slogdet(J[np.ix_(rest, rest)])[1]
    value = 0.5 * (h @ np.linalg.solve(J, h) + len(rest) * np.log(2 * np.pi) - logdet)
    assert best.log_z.value == pytest.approx(value, rel=1e-12)
    drawn = credo.sample(model, 4000, method="gaussian", seed=0)
    column = drawn.column("x100")
    assert column.mean() == pytest.approx(mean[100], abs=5 * np.sqrt(variance[100] / 4000))
    assert column.var() == pytest.approx(variance[100], rel=0.15)
    both = np.cov(drawn.column("x100"), drawn.column("x101"))[0, 1]
    assert both == pytest.approx(np.linalg.inv(J)[100, 101], abs=0.1)


def _problem(model):
    from credo.inference.problem.base import Problem

    return Problem.about(model.to_factor_graph())


def test_the_sparse_kernels_run_uncompiled_too():
    rng = np.random.default_rng(0)
    n = 12
    J = np.diag(4.0 + rng.random(n))
    for i, j in rng.integers(n, size=(20, 2)):
        if i != j:
            J[i, j] = J[j, i] = rng.uniform(-0.6, 0.6)
    from scipy.sparse import csc_matrix

    matrix = csc_matrix(J)
    plan = gaussian_system._Plan(matrix)
    start, row = plan.pattern()
    assert plan.entries == len(row)
    moved = matrix[plan.order][:, plan.order].tocsc()
    entry = gaussian_system._on_pattern(moved, start, row)
    answers = []
    for part in (sparse_cholesky.factorise, sparse_cholesky.factorise.py_func):
        value, pivot = np.zeros(len(row)), np.zeros(n)
        assert part(start, row, moved.diagonal(), entry, np.zeros(n), value, pivot) == -1
        answers.append((value, pivot))
    np.testing.assert_allclose(answers[0][0], answers[1][0])
    np.testing.assert_allclose(np.log(answers[0][1]).sum(), np.linalg.slogdet(J)[1])
    inverse = sparse_cholesky.inverse_diagonal.py_func(start, row, *answers[0])
    np.testing.assert_allclose(inverse, np.diag(np.linalg.inv(moved.toarray())))


def test_the_mean_is_the_most_probable_point():
    model, J, h, g = of_any_arity(1)
    mean = np.linalg.solve(J, h)
    found = credo.infer(model, "gaussian", maximise="all")
    assert found.log_z.value == pytest.approx(g + 0.5 * h @ mean)
    assert found.score == found.log_z
    assert found.log_z.value == pytest.approx(model.to_factor_graph().log_score(dict(found.assignment)))
    np.testing.assert_allclose([found.assignment[n] for n in model.variables.names], mean, rtol=1e-9)


def test_marginal_map_integrates_the_others():
    model, J, h, g = of_any_arity(2)
    keep, rest = [1, 4], [0, 2, 3, 5, 6]
    found = credo.infer(model, "gaussian", maximise=["x1", "x4"])
    inner = J[np.ix_(keep, keep)] - J[np.ix_(keep, rest)] @ np.linalg.solve(
        J[np.ix_(rest, rest)], J[np.ix_(rest, keep)]
    )
    # The marginal density at its mean is (det inner)^(1/2) / 2 pi for two variables.
    peak = 0.5 * np.linalg.slogdet(inner)[1] - np.log(2 * np.pi)
    assert found.log_z.value == pytest.approx(log_z_of(J, h, g) + peak)
    assert set(found.assignment) == {"x1", "x4"}


def test_evidence_is_conditioned_on():
    model, J, h, g = of_any_arity(3)
    seen = {"x0": 0.7, "x3": -1.2}
    o, f = [0, 3], [1, 2, 4, 5, 6]
    x = np.array([0.7, -1.2])
    rest_h = h[f] - J[np.ix_(f, o)] @ x
    found = credo.infer(model, "gaussian", evidence=seen)
    mean, variance = moments(found, [f"x{i}" for i in f])
    np.testing.assert_allclose(mean, np.linalg.solve(J[np.ix_(f, f)], rest_h), rtol=1e-9)
    np.testing.assert_allclose(variance, np.diag(np.linalg.inv(J[np.ix_(f, f)])), rtol=1e-9)
    constant = g + h[o] @ x - 0.5 * x @ J[np.ix_(o, o)] @ x
    assert found.log_z.value == pytest.approx(log_z_of(J[np.ix_(f, f)], rest_h, constant))
    assert found.marginals["x0"].mean == 0.7
    everything = dict.fromkeys(model.variables.names, 0.5)
    whole = credo.infer(model, "gaussian", evidence=everything)
    assert whole.log_z.value == pytest.approx(model.to_factor_graph().log_score(everything))


def test_samples_have_the_right_moments_and_repeat_with_the_seed():
    model, J, h, _ = of_any_arity(4)
    drawn = credo.sample(model, 20000, method="gaussian", seed=1)
    again = credo.sample(model, 20000, method="gaussian", seed=1)
    table = np.stack([drawn.column(n) for n in model.variables.names], axis=1)
    np.testing.assert_array_equal(table[:, 0], again.column("x0"))
    covariance = np.linalg.inv(J)
    error = 5 * np.sqrt(np.diag(covariance) / 20000)
    assert (np.abs(table.mean(axis=0) - np.linalg.solve(J, h)) < error).all()
    np.testing.assert_allclose(np.cov(table.T), covariance, atol=0.05 * np.abs(covariance).max())


def test_it_is_what_infer_chooses_for_gaussian_models():
    net = zoo.gaussian_tree()
    found = credo.infer(net)
    assert found.algorithm == "gaussian" and "exact linear algebra" in found.notes[0]
    assert found.log_z.value == pytest.approx(net.log_z)


@pytest.mark.parametrize(
    ("J", "says"),
    [
        ([[1.0, 0.0], [0.0, 0.0]], "does not fall off along 'y'"),
        ([[1.0, -1.0], [-1.0, 1.0]], r"does not fall off along \(x: 1, y: 1\)"),
        ([[1.0, 2.0], [2.0, 1.0]], r"grows along \(x: 1, y: -0.5\), where the precision is -0.6"),
    ],
)
def test_a_product_without_an_integral_is_refused_with_a_direction(J, says):
    x, y = zoo.real("x"), zoo.real("y")
    model = credo.HybridNet([x, y], [credo.GaussianFactor([x, y], J)])
    with pytest.raises(ModelError, match=f"the product of the factors has no integral: it {says}"):
        credo.infer(model, "gaussian")


def test_the_sparse_factorisation_names_a_direction_too():
    model, J, _ = grid(18, diagonal=0.9, coupling=-0.25)
    assert np.linalg.eigvalsh(J).min() < 0
    with pytest.raises(ModelError, match=r"no integral: it grows along \(x\d+: 1, x\d+: "):
        credo.infer(model, "gaussian")
    direction = np.zeros(9)
    direction[4] = 2.0
    small, _, _ = grid(3)
    assert gaussian_system.GaussianSystem.of(_problem(small)).describe(direction) == "'x4'"


def test_a_variable_without_factors_is_named():
    x, y = zoo.real("x"), zoo.real("y")
    model = credo.HybridNet([x, y], [potentials.gaussian(x)])
    with pytest.raises(ModelError, match="does not fall off along 'y'"):
        credo.infer(model, "gaussian")


def test_other_domains_and_factors_are_refused():
    x, s = zoo.real("x"), credo.Variable("s", 2)
    with pytest.raises(UnsupportedError, match=r"it works on real and vector variables, and 's' is discrete"):
        credo.infer(credo.HybridNet([x, s], [potentials.gaussian(x)]), "gaussian")
    with pytest.raises(UnsupportedError, match=r"it reads gaussian factors, and some are density"):
        credo.infer(credo.HybridNet([x], [potentials.laplace(x)]), "gaussian")


def test_contradictory_evidence_is_named():
    x, s = zoo.real("x"), credo.Variable("s", 2)
    model = credo.HybridNet([x, s], [potentials.gaussian(x), credo.TableFactor([s], [1.0, 0.0])])
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero under this model"):
        credo.infer(model, "gaussian", evidence={"s": 1})
    assert credo.infer(model, "gaussian", evidence={"s": 0}).log_z.value == pytest.approx(0.0, abs=1e-12)


def test_what_is_too_large_is_forecast(monkeypatch):
    model, _, _ = grid(18)
    monkeypatch.setattr(gaussian_system, "_MOST_ENTRIES", 1000.0)
    with pytest.raises(TooLargeError, match="use gaussian-bp"):
        credo.infer(model, "gaussian")
