from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csc_matrix

import credo
import hybrid_zoo as zoo
from credo import potentials
from credo.core.errors import (
    ConvergenceWarning,
    ModelError,
    OptionError,
    QueryError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.messages.walk_sums import walk_sums
from credo.kernels import gaussian_messages

SCHEDULES = ["auto", "flooding", "sequential", "tree"]


def quietly(model, method, **question):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(model, method, **question)


def moments(result, names):
    return (
        np.array([result.marginals[n].mean for n in names]),
        np.array([result.marginals[n].variance for n in names]),
    )


def regression():
    """A tree with factors of three and four variables: y = a + 2 b + noise, z = 0.5 y - c + d + noise."""
    a, b, c, d, y, z = (zoo.real(n) for n in "abcdyz")
    factors = [potentials.gaussian(v, 0.3 * k, 1.0 + k) for k, v in enumerate((a, b, c, d))]
    factors.append(credo.GaussianFactor.linear(y, [a, b], [1.0, 2.0], 0.5, bias=1.0))
    factors.append(credo.GaussianFactor.linear(z, [y, c, d], [0.5, -1.0, 1.0], 0.2))
    return credo.HybridNet([a, b, c, d, y, z], factors)


def triangle(coupling, shift=(1.0, -2.0, 0.5)):
    return credo.GaussianNet(np.eye(3) + coupling * (np.ones((3, 3)) - np.eye(3)), shift)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_it_is_exact_on_trees(schedule):
    for seed in range(3):
        net = zoo.gaussian_tree(9, seed)
        found = credo.infer(net, f"gaussian-bp(schedule={schedule})")
        mean, variance = moments(found, net.names)
        np.testing.assert_allclose(mean, net.mean, atol=1e-10)
        np.testing.assert_allclose(variance, np.diag(net.covariance), atol=1e-10)
        assert found.log_z.value == pytest.approx(net.log_z, abs=1e-10)
        assert found.log_z.kind == "exact" and found.status is Status.CONVERGED
        assert not found.notes


def test_the_tree_schedule_needs_two_sweeps_and_one_to_notice():
    found = credo.infer(zoo.gaussian_tree(30, 5), "gaussian-bp")
    assert len(found.trace["change"]) == 3


def test_factors_of_more_variables_are_exact_on_trees():
    model = regression()
    exact = credo.infer(model, "gaussian")
    for evidence in ({}, {"z": 1.5}, {"z": 1.5, "b": -0.2}):
        exact = credo.infer(model, "gaussian", evidence=evidence)
        found = credo.infer(model, "gaussian-bp", evidence=evidence)
        assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-9)
        assert found.log_z.kind == "exact"
        for name in "abcdyz":
            assert found.marginals[name].mean == pytest.approx(exact.marginals[name].mean, abs=1e-9)
            assert found.marginals[name].variance == pytest.approx(exact.marginals[name].variance, abs=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_on_loops_means_are_exact_and_variances_are_not(schedule, damping):
    net = zoo.gaussian_loop(strength=0.45)
    found = credo.infer(net, f"gaussian-bp(schedule={schedule}, damping={damping})")
    mean, variance = moments(found, net.names)
    np.testing.assert_allclose(mean, net.mean, atol=1e-6)
    assert np.abs(variance - np.diag(net.covariance)).max() > 0.1
    assert found.log_z.kind == "estimate"
    assert abs(found.log_z.value - net.log_z) > 0.01


def test_the_bethe_value_of_a_loop_is_that_of_discretised_bp():
    net = triangle(0.3)
    found = credo.infer(net, "gaussian-bp")
    grid = credo.infer(net, "grid-bp(low=-12, high=12, points=121)")
    assert found.log_z.value == pytest.approx(grid.log_z.value, abs=1e-7)
    for name in net.names:
        assert found.marginals[name].variance == pytest.approx(grid.marginals[name].variance, abs=1e-6)


def test_large_models_agree_with_the_sparse_factorisation():
    side = 20
    n = side * side
    rng = np.random.default_rng(0)
    variables = [zoo.real(f"x{i}") for i in range(n)]
    factors = [
        potentials.gaussian(v, float(m), 1.0) for v, m in zip(variables, rng.normal(size=n), strict=True)
    ]
    pairs = [(i, i + 1) for i in range(n) if (i + 1) % side] + [(i, i + side) for i in range(n - side)]
    factors += [
        credo.GaussianFactor([variables[i], variables[j]], [[1.0, -1.0], [-1.0, 1.0]]) for i, j in pairs
    ]
    model = credo.HybridNet(variables, factors)
    found, exact = credo.infer(model, "gaussian-bp"), credo.infer(model, "gaussian")
    names = model.variables.names
    np.testing.assert_allclose(moments(found, names)[0], moments(exact, names)[0], atol=1e-6)
    assert "diagonally dominant, so walk-summable" in found.notes[0]


def random_net(seed, n=6):
    rng = np.random.default_rng(seed)
    rest = np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.7), 1)
    rest = rest + rest.T
    radius = np.abs(np.linalg.eigvalsh(np.abs(rest))).max()
    return np.eye(n) + rest * rng.uniform(0.4, 1.5) / radius, rng.normal(size=n)


def test_the_certificate_agrees_with_the_eigenvalues_and_with_what_happens():
    seen = {True: 0, False: 0}
    failures = 0
    for seed in range(60):
        J, h = random_net(seed)
        radius = np.linalg.eigvalsh(np.abs(J - np.eye(len(J)))).max()
        certificate = walk_sums(csc_matrix(J))
        assert certificate.is_summable == (radius < 1)
        assert certificate.lower - 1e-9 <= radius <= certificate.upper + 1e-9
        assert (certificate.direction is not None) == (np.linalg.eigvalsh(J).min() <= 0)
        if certificate.direction is not None:
            assert certificate.direction @ J @ certificate.direction <= 1e-9
            continue
        seen[certificate.is_summable] += 1
        net = credo.GaussianNet(J, h)
        for schedule in ("flooding", "sequential"):
            found = quietly(net, f"gaussian-bp(schedule={schedule})", max_iter=3000)
            if certificate.is_summable:
                assert found.status is Status.CONVERGED
            if found.status is Status.CONVERGED:
                np.testing.assert_allclose(moments(found, net.names)[0], net.mean, atol=1e-5)
            failures += found.status is Status.DIVERGED
    assert min(seen.values()) >= 5 and failures >= 1


def test_large_models_are_certified_by_enclosure():
    side = 16
    J = np.eye(side * side)
    for i in range(side * side):
        for j in ([i + 1] if (i + 1) % side else []) + ([i + side] if i + side < side * side else []):
            J[i, j] = J[j, i] = 1.0
    radius = 4 * np.cos(np.pi / (side + 1))
    for scale, expected in ((0.99, True), (1.01, False)):
        certificate = walk_sums(csc_matrix(np.eye(len(J)) - (J - np.eye(len(J))) * scale / radius))
        assert certificate.is_summable is expected
        assert certificate.lower - 1e-9 <= scale <= certificate.upper + 1e-9
    assert certificate.direction is not None
    edge = walk_sums(csc_matrix(np.eye(len(J)) + (J - np.eye(len(J))) / (radius * (1 + 1e-9))))
    assert edge.is_summable is None and "at the edge" in str(edge)


def test_a_model_that_is_not_walk_summable_diverges_and_says_why():
    net = triangle(0.55)
    found = quietly(net, "gaussian-bp")
    assert found.status is Status.DIVERGED
    assert found.marginals is None and found.log_z is None
    assert "has no integral: the precisions of the others are not positive" in found.notes[0]
    assert "not walk-summable (spectral radius 1.1)" in found.notes[1]
    with pytest.raises(credo.core.errors.ConvergenceError):
        credo.infer(net, "gaussian-bp", strict=True)


def test_equal_scopes_are_merged():
    net = zoo.gaussian_tree()
    halves = []
    for factor in net.to_factor_graph().factors:
        scope = factor.scope[::-1]
        J, h = factor.precision[::-1, ::-1] / 2, factor.shift[::-1] / 2
        halves += [credo.GaussianFactor(factor.scope, factor.precision / 2, factor.shift / 2)]
        halves += [credo.GaussianFactor(scope, J, h)]
    found = credo.infer(credo.HybridNet(net.variables, halves), "gaussian-bp")
    assert found.log_z.kind == "exact"
    assert found.log_z.value == pytest.approx(net.log_z)


def test_maxima_are_means():
    net = zoo.gaussian_loop(strength=0.4)
    found = credo.infer(net, "gaussian-bp", maximise="all")
    exact = credo.infer(net, "gaussian", maximise="all")
    assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-9)
    assert found.log_z.kind == "lower" and found.score.kind == "exact"
    assert found.score.value == pytest.approx(net.to_factor_graph().log_score(dict(found.assignment)))


def test_a_warm_start_goes_on_from_the_messages():
    net = zoo.gaussian_loop(strength=0.45)
    first = credo.infer(net, "gaussian-bp")
    again = credo.infer(net, "gaussian-bp", warm_start=first)
    assert len(again.trace["change"]) < len(first.trace["change"]) / 3
    with pytest.raises(QueryError, match="on the same structure"):
        credo.infer(zoo.gaussian_tree(), "gaussian-bp", warm_start=first)


def test_disconnected_parts_and_isolated_variables():
    a, b, c, d = (zoo.real(n) for n in "abcd")
    pair = credo.GaussianFactor([a, b], [[2.0, 0.5], [0.5, 1.0]], [1.0, 0.0], 0.3)
    model = credo.HybridNet([a, b, c, d], [pair, potentials.gaussian(c, 4.0, 9.0), potentials.gaussian(d)])
    found, exact = credo.infer(model, "gaussian-bp"), credo.infer(model, "gaussian")
    assert found.log_z.value == pytest.approx(exact.log_z.value)
    assert found.marginals["c"].mean == pytest.approx(4.0) and found.marginals["c"].sd == pytest.approx(3.0)
    seen = credo.infer(model, "gaussian-bp", evidence=dict.fromkeys("abcd", 1.0))
    assert seen.log_z.value == pytest.approx(model.to_factor_graph().log_score(dict.fromkeys("abcd", 1.0)))


@pytest.mark.parametrize(
    ("J", "says"),
    [
        ([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]], "the precision of 'b' is 0"),
        ([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]], "precision of '[ab]' came out as -3"),
        ([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]], "is not positive|are not positive"),
        ([[1.0, -0.8, -0.8], [-0.8, 1.0, -0.8], [-0.8, -0.8, 1.0]], "does not fall off along"),
    ],
    ids=["no precision", "a pair", "a chain", "a loop"],
)
def test_a_product_without_an_integral_is_refused_with_a_name(J, says):
    variables = [zoo.real(n) for n in "abc"]
    J = np.array(J)
    factors = [credo.GaussianFactor([v], [[J[i, i]]]) for i, v in enumerate(variables)]
    for i, j in zip(*np.nonzero(np.triu(J, 1)), strict=True):
        factors.append(credo.GaussianFactor([variables[i], variables[j]], [[0, J[i, j]], [J[i, j], 0]]))
    with pytest.raises(ModelError, match=f"the product of the factors has no integral: .*({says})"):
        credo.infer(credo.HybridNet(variables, factors), "gaussian-bp")


def test_contradictions_and_wrong_questions_are_refused():
    x, s = zoo.real("x"), credo.Variable("s", 2)
    model = credo.HybridNet([x, s], [potentials.gaussian(x), credo.TableFactor([s], [1.0, 0.0])])
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero under this model"):
        credo.infer(model, "gaussian-bp", evidence={"s": 1})
    with pytest.raises(UnsupportedError, match="it works on real variables, and 's' is discrete"):
        credo.infer(model, "gaussian-bp")
    net = zoo.gaussian_tree()
    with pytest.raises(UnsupportedError, match="the question asks for marginal MAP"):
        credo.infer(net, "gaussian-bp", maximise=["x0"])
    with pytest.raises(UnsupportedError, match="the question asks for samples"):
        credo.sample(net, 3, method="gaussian-bp")
    with pytest.raises(OptionError, match="damping must be in"):
        credo.infer(net, "gaussian-bp(damping=1.0)")


def test_the_kernel_runs_uncompiled_too():
    found = {}
    for part in (gaussian_messages.gaussian_sweeps, gaussian_messages.gaussian_sweeps.py_func):
        precision, shift, change = np.zeros(5), np.zeros(5), np.zeros(4)
        matrix = np.array([0, 0.3, 0.3, 0, 0, 0.2, -0.1, 0.2, 0, 0.3, -0.1, 0.3, 0])
        rows = np.array([[0, 1], [1, 0]])
        part(rows, True, 0.9, 4, 0.0, np.array([0, 2, 5]), np.array([0, 1, 1, 2, 3]), np.array([0, 4]),
             matrix, np.ones(4), np.arange(4.0), precision, shift, change)  # fmt: skip
        found[part] = np.concatenate([precision, shift, change])
    one, other = found.values()
    np.testing.assert_allclose(one, other, rtol=1e-12)
