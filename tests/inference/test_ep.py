from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.special import gammaln, ndtr, psi

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
from credo.inference.messages import moments
from credo.inference.messages.ep_updates import Beliefs
from credo.inference.potentials import evaluate

LOG_2PI = np.log(2 * np.pi)


def quietly(model, method, **question):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(model, method, **question)


# ---------------------------------------------------------------- identities


def discrete(seed, zeros=False):
    rng = np.random.default_rng(seed)
    scopes = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b", "d", "e"), ("a",), ("e",)]
    sizes = {"a": 2, "b": 3, "c": 2, "d": 2, "e": 3, "one": 1}
    tables = {s: rng.gamma(2.0, size=[sizes[v] for v in s]) for s in scopes}
    tables["one", "a"] = rng.gamma(2.0, size=(1, 2))
    if zeros:
        tables["a", "b"][0, 1] = tables["b", "d", "e"][:, 0, 2] = 0.0
        tables[("e",)][1] = 0.0
    return credo.FactorGraph(sizes, tables)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("schedule", ["auto", "flooding", "sequential", "tree"])
def test_on_discrete_models_it_is_belief_propagation(schedule, zeros):
    for seed in range(2):
        graph = discrete(seed, zeros)
        for evidence in ({}, {"c": 1, "d": [0.3, 0.7]}):
            found = credo.infer(graph, f"ep(schedule={schedule})", evidence=evidence, tol=1e-11)
            zoo.same(found, credo.infer(graph, "bp", evidence=evidence, tol=1e-11), 1e-8)


def test_on_discrete_models_power_ep_is_fractional_bp():
    graph = discrete(4)
    for power in (0.3, 0.7):
        expected = credo.infer(graph, f"fractional-bp(power={power})", tol=1e-11)
        for schedule in ("auto", "flooding"):
            zoo.same(credo.infer(graph, f"ep(power={power}, schedule={schedule})", tol=1e-11), expected, 1e-8)


def test_on_gaussian_trees_it_is_exact():
    net = zoo.gaussian_tree(8, 2)
    exact = credo.infer(net, "gaussian")
    for method in ("ep", "ep(schedule=flooding)", "ep(damping=0.3)"):
        found = credo.infer(net, method, tol=1e-10)
        zoo.same(found, exact, 1e-8)
        assert found.log_z.kind == "estimate"


def test_on_gaussian_loops_it_is_gaussian_bp():
    net = zoo.gaussian_loop(strength=0.45)
    expected = credo.infer(net, "gaussian-bp", tol=1e-11)
    for schedule in ("auto", "flooding"):
        zoo.same(credo.infer(net, f"ep(schedule={schedule})", tol=1e-11), expected, 1e-8)


def test_power_one_is_ep():
    model = zoo.laplace_chain(2)
    one, other = credo.infer(model, "ep"), credo.infer(model, "ep(power=1.0)")
    zoo.same(one, other, 1e-12)
    near = credo.infer(model, "ep(power=0.999)")
    zoo.same(near, one, 2e-3)


# ---------------------------------------------------------------- against integration


def integral(log_density, low, high, count=200001):
    """Log integral, mean and variance of a function of one number, by the trapezoid rule."""
    x = np.linspace(low, high, count)
    logs = log_density(x)
    p = np.exp(logs - logs.max())
    total = np.trapezoid(p, x)
    mean = np.trapezoid(p * x, x) / total
    return logs.max() + np.log(total), mean, np.trapezoid(p * (x - mean) ** 2, x) / total


def _probit(x, slope):
    return moments_log_ndtr(slope * x)


def moments_log_ndtr(x):
    return np.log(np.maximum(ndtr(x), 1e-300))


def test_one_site_that_is_not_gaussian_is_matched_exactly():
    x = zoo.real("x")
    model = credo.HybridNet([x], [potentials.gaussian(x, 0.5, 2.0), credo.DensityFactor([x], _probit, 3.0)])
    found = credo.infer(model, "ep(nodes=60)")
    log_z, mean, variance = integral(
        lambda t: -0.25 * (t - 0.5) ** 2 - 0.5 * (LOG_2PI + np.log(2)) + moments_log_ndtr(3 * t), -12, 14
    )
    assert log_z == pytest.approx(float(np.log(ndtr(1.5 / np.sqrt(1 + 18)))), abs=1e-9)
    assert found.log_z.value == pytest.approx(log_z, abs=1e-6)
    assert found.marginals["x"].mean == pytest.approx(mean, abs=1e-5)
    assert found.marginals["x"].variance == pytest.approx(variance, abs=1e-5)


def test_sites_are_those_of_a_reference_with_dense_integrals():
    x = zoo.real("x")
    slopes = [1.0, -0.5, 2.0, 1.5]
    factors = [potentials.gaussian(x), *(credo.DensityFactor([x], _probit, s) for s in slopes)]
    found = credo.infer(credo.HybridNet([x], factors), "ep", tol=1e-10)
    precision, shift = np.zeros(4), np.zeros(4)
    for _ in range(20):
        for i, slope in enumerate(slopes):
            p, h = 1 + precision.sum() - precision[i], shift.sum() - shift[i]
            _, mean, variance = integral(
                lambda t, p=p, h=h, s=slope: h * t - 0.5 * p * t**2 + moments_log_ndtr(s * t), -12, 12, 4001
            )
            precision[i], shift[i] = 1 / variance - p, mean / variance - h
    np.testing.assert_allclose(found.state.sites.precision, precision, atol=1e-6)
    np.testing.assert_allclose(found.state.sites.shift, shift, atol=1e-6)
    log_z, mean, variance = integral(
        lambda t: -0.5 * (t**2 + LOG_2PI) + sum(moments_log_ndtr(s * t) for s in slopes), -10, 10
    )
    assert found.log_z.value == pytest.approx(log_z, abs=0.01)
    assert found.marginals["x"].mean == pytest.approx(mean, abs=0.005)
    assert found.marginals["x"].variance == pytest.approx(variance, rel=0.05)


def _clutter(x, y, share):
    signal = np.log(1 - share) - 0.5 * ((y - x) ** 2 + LOG_2PI)
    noise = np.log(share) - 0.5 * (y**2 / 10 + np.log(10) + LOG_2PI)
    return np.logaddexp(signal, noise)


def test_clutter_comes_close_to_the_integral_where_updates_may_be_negative():
    rng = np.random.default_rng(3)
    y = np.where(rng.random(20) < 0.5, rng.normal(scale=np.sqrt(10), size=20), 2 + rng.normal(size=20))
    x = zoo.real("x")
    prior = potentials.gaussian(x, 0.0, 100.0)
    factors = [credo.DensityFactor([x], _clutter, float(v), 0.5) for v in y]
    model = credo.HybridNet([x], [prior, *factors])
    log_z, mean, variance = integral(
        lambda t: -0.5 * (t**2 / 100 + np.log(100) + LOG_2PI) + sum(_clutter(t, v, 0.5) for v in y), -60, 60
    )
    for method in ("ep", "ep(power=0.5)", "ep(damping=0.3)"):
        found = quietly(model, method)
        assert found.converged
        assert found.log_z.value == pytest.approx(log_z, abs=0.05), method
        assert found.marginals["x"].mean == pytest.approx(mean, abs=0.02), method
        assert found.marginals["x"].variance == pytest.approx(variance, rel=0.1), method


def test_switches_with_emissions_are_exact_on_a_tree():
    model = zoo.switching()
    found = credo.infer(model, "ep")
    zoo.close(found, zoo.truth(model), 1e-8)
    assert found.log_z.value == pytest.approx(zoo.truth(model).log_z, abs=1e-8)
    for evidence in ({"t": 2}, {"x": 0.3}, {"s": [0.2, 0.9]}):
        free = credo.infer(model, "ep", evidence=evidence)
        grid = credo.infer(model, "grid-bp", evidence=evidence)
        assert free.log_z.value == pytest.approx(grid.log_z.value, abs=1e-7)
        np.testing.assert_allclose(free.marginals["t"], grid.marginals["t"], atol=1e-7)


def test_a_loop_through_switches_and_reals_is_near_the_truth():
    model = zoo.switching_loop()
    found, expected = credo.infer(model, "ep"), zoo.truth(model)
    assert found.log_z.value == pytest.approx(expected.log_z, abs=0.2)
    np.testing.assert_allclose(found.marginals["s"], expected.marginals["s"], atol=0.05)
    bethe = credo.infer(model, "grid-bp")  # the same loop without the Gaussian approximation
    assert found.log_z.value == pytest.approx(bethe.log_z.value, abs=0.01)


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_at_a_fixed_point_tilted_moments_are_those_of_the_beliefs(power):
    model = zoo.laplace_chain()
    found = credo.infer(model, f"ep(nodes=60, power={power})", tol=1e-9)
    state = found.state
    beliefs = Beliefs(state.layout, state.sites)
    points = np.linspace(-11, 12, 461)
    checked = 0
    for group, own in zip(state.layout.groups, model.to_factor_graph().groups, strict=True):
        for row, a in enumerate(own.factors):
            cavity = beliefs.cavity(group, np.array([row]), state.sites, power)
            axes = np.meshgrid(*[points] * own.scopes.shape[1], indexing="ij")
            logs = power * model.factors[int(a)].log_values(*axes)
            for k, x in enumerate(axes):
                logs = logs + cavity.shift[0, k] * x - 0.5 * cavity.precision[0, k] * x**2
            p = np.exp(logs - logs.max())
            p /= p.sum()
            for k, x in enumerate(axes):
                belief = found.marginals[model.factors[int(a)].names[k]]
                mean = (p * x).sum()
                assert mean == pytest.approx(belief.mean, abs=5e-3)
                assert (p * (x - mean) ** 2).sum() == pytest.approx(belief.variance, rel=0.02)
                checked += 1
    assert checked == 7


def test_narrow_and_distant_factors_are_found():
    x, y = zoo.real("x"), zoo.real("y")
    far = potentials.gaussian_mixture(x, [1.0], [2000.0], [1e-4])
    near = potentials.student(x, y, freedom=5.0, scale=0.01)
    found = credo.infer(credo.HybridNet([x, y], [far, near]), "ep")
    assert found.marginals["x"].mean == pytest.approx(2000.0, abs=1e-3)
    assert found.marginals["x"].sd == pytest.approx(0.01, rel=1e-3)
    assert found.marginals["y"].variance == pytest.approx(1e-4 + 1e-4 * 5 / 3, rel=0.1)


# ---------------------------------------------------------------- simplex variables


def topics():
    theta = credo.Variable("theta", credo.Simplex(3))
    words = [credo.Variable(f"z{i}", 3) for i in range(4)]
    factors = [
        potentials.dirichlet(theta, [1.0, 2.0, 0.5]),
        *(potentials.categorical(z, theta) for z in words),
    ]
    return credo.HybridNet([theta, *words], factors)


def _log_beta(alpha):
    return gammaln(alpha).sum() - gammaln(alpha.sum())


def test_counted_states_give_the_conjugate_posterior():
    prior, seen = np.array([1.0, 2.0, 0.5]), {"z0": 0, "z1": 0, "z2": 2, "z3": 1}
    found = credo.infer(topics(), "ep(points=64)", evidence=seen)
    after = prior + np.bincount(list(seen.values()), minlength=3)
    np.testing.assert_allclose(found.marginals["theta"].concentrations[0], after, atol=1e-3)
    assert found.log_z.value == pytest.approx(_log_beta(after) - _log_beta(prior), abs=1e-3)


def test_uncertain_states_come_close_to_enumeration():
    prior = np.array([1.0, 2.0, 0.5])
    seen = {"z0": [0.9, 0.1, 0.3], "z1": [0.2, 0.7, 0.3], "z2": [0.1, 0.1, 0.8]}
    found = credo.infer(topics(), "ep(points=64)", evidence=seen, tol=1e-6)
    total, mean = 0.0, np.zeros(3)
    for states in np.ndindex(3, 3, 3):
        after = prior + np.bincount(states, minlength=3)
        weight = np.prod([v[k] for v, k in zip(seen.values(), states, strict=True)])
        weight *= np.exp(_log_beta(after) - _log_beta(prior))
        total += weight
        mean += weight * after / after.sum()
    assert found.log_z.value == pytest.approx(np.log(total), abs=0.05)
    np.testing.assert_allclose(found.marginals["theta"].mean, mean / total, atol=0.03)


# ---------------------------------------------------------------- ugly cases


def test_disconnected_parts_isolated_variables_and_one_state():
    x, y = zoo.real("x"), zoo.real("y")
    s, one, alone = credo.Variable("s", 2), credo.Variable("one", 1), credo.Variable("alone", 3)
    factors = [
        potentials.gaussian(x, 1.0, 4.0),
        potentials.emission(y, s, [0.0, 3.0], 1.0),
        credo.TableFactor([s, one], [[2.0], [3.0]]),
    ]
    found = credo.infer(credo.HybridNet([x, y, s, one, alone], factors), "ep")
    assert found.log_z.value == pytest.approx(np.log(5 * 3), abs=1e-9)
    np.testing.assert_allclose(found.marginals["s"], [0.4, 0.6], atol=1e-9)
    np.testing.assert_allclose(found.marginals["alone"], 1 / 3)
    assert found.marginals["one"].tolist() == [1.0]
    assert found.marginals["y"].mean == pytest.approx(1.8, abs=1e-9)


def test_everything_observed_leaves_a_constant():
    model = zoo.switching()
    point = {"s": 1, "x": 0.5, "t": 0, "y": -1.0}
    found = credo.infer(model, "ep", evidence=point)
    assert found.log_z.value == pytest.approx(model.to_factor_graph().log_score(point), abs=1e-12)


def test_a_leaf_whose_cavity_is_flat():
    x, y = zoo.real("x"), zoo.real("y")
    model = credo.HybridNet([x, y], [potentials.laplace(x), potentials.laplace(x, y, scale=0.5)])
    found = credo.infer(model, "ep(nodes=200)")  # sums over a kink converge slowly
    assert found.log_z.value == pytest.approx(np.log(2.0 * 1.0), abs=0.02)
    assert found.marginals["y"].variance == pytest.approx(2.0 + 0.5, rel=0.03)


def test_contradictions_are_named():
    s, t, x = credo.Variable("s", 2), credo.Variable("t", 2), zoo.real("x")
    factors = [
        credo.TableFactor([s, t], [[1.0, 0.0], [1.0, 0.0]]),
        potentials.emission(x, t, [0.0, 1.0], 1.0),
        credo.TableFactor([s], [1.0, 0.0]),
    ]
    model = credo.HybridNet([s, t, x], factors)
    for seen in ({"t": 1}, {"s": 1}, {"s": 1, "t": 0}):
        with pytest.raises(ZeroProbabilityError, match="the evidence has weight zero"):
            credo.infer(model, "ep", evidence=seen)
    never = credo.HybridNet([s, t, x], [*factors, credo.TableFactor([t], [0.0, 1.0])])
    with pytest.raises(ZeroProbabilityError, match="every configuration has weight zero"):
        credo.infer(never, "ep")
    nowhere = credo.HybridNet([s], [factors[2], credo.TableFactor([s], [0.0, 1.0])])
    for budget in (0, 10):
        with pytest.raises(ZeroProbabilityError, match="every configuration has weight zero"):
            credo.infer(nowhere, "ep", max_iter=budget)


def test_a_product_without_an_integral_is_refused_or_diverges_with_a_name():
    x, y = zoo.real("x"), zoo.real("y")
    with pytest.raises(ModelError, match="no integral: it does not fall off along 'y'"):
        credo.infer(credo.HybridNet([x, y], [potentials.gaussian(x)]), "ep")
    adrift = credo.HybridNet([x, y], [potentials.laplace(x, y)])
    found = quietly(adrift, "ep")
    assert found.status is Status.DIVERGED and found.marginals is None
    assert "grows without bound: the product of the factors seems to have no integral" in found.notes[0]


def test_skipped_updates_are_counted_and_no_convergence_is_claimed():
    found = quietly(zoo.bimodal_cycle(), "ep", max_iter=60)
    assert found.status is not Status.CONVERGED
    assert "updates were skipped in the last sweep" in found.notes[0]
    for name in ("x0", "x1", "x2"):
        assert np.isfinite(found.marginals[name].mean) and found.marginals[name].variance > 0


def test_more_nodes_find_the_wide_gaussian_of_the_bimodal_cycle():
    found = quietly(zoo.bimodal_cycle(), "ep(nodes=60)", tol=1e-4)
    assert found.converged
    for name in ("x0", "x1", "x2"):
        assert found.marginals[name].mean == pytest.approx(0.0, abs=1e-6)
        assert found.marginals[name].sd == pytest.approx(9.8, abs=0.2)


def test_wrong_questions_and_options_are_refused():
    model = zoo.laplace_chain()
    with pytest.raises(UnsupportedError, match="maxima need grid-bp"):
        credo.infer(model, "ep", maximise="all")
    with pytest.raises(UnsupportedError, match="draws no samples"):
        credo.sample(model, 3, method="ep")
    with pytest.raises(OptionError, match="power must be at most 1"):
        credo.infer(model, "ep(power=2.0)")
    with pytest.raises(OptionError, match="nodes must be a whole number"):
        credo.infer(model, "ep(nodes=2.5)")
    with pytest.raises(UnsupportedError, match=r"factor over \['x0', 'x1'\]: .* give fewer nodes"):
        credo.infer(model, "ep(nodes=2000)")
    one, other = (credo.Variable(n, credo.Simplex(2)) for n in "ab")

    def both(a, b):
        return a[..., 0] * b[..., 0]

    with pytest.raises(UnsupportedError, match="expected one simplex variable at most, got 2"):
        credo.infer(credo.HybridNet([one, other], [credo.DensityFactor([one, other], both)]), "ep")


def test_a_warm_start_goes_on_from_the_sites():
    model = zoo.switching_loop()
    first = credo.infer(model, "ep")
    again = credo.infer(model, "ep", warm_start=first)
    assert len(again.trace["change"]) < len(first.trace["change"])
    zoo.same(again, first, 1e-6)
    with pytest.raises(QueryError, match="on the same structure"):
        credo.infer(zoo.laplace_chain(), "ep", warm_start=first)


# ---------------------------------------------------------------- moment matching


def test_gauss_hermite_is_exact_for_polynomials():
    z, log_weight = moments.gauss_hermite(4, 2)
    weight = np.exp(log_weight)
    assert weight.sum() == pytest.approx(1.0)
    assert weight @ (z[:, 0] ** 6 * z[:, 1] ** 2) == pytest.approx(15.0)
    assert weight @ (z[:, 0] ** 8) != pytest.approx(105.0)  # one degree too many


def test_a_dirichlet_is_recovered_from_its_expected_logarithms():
    alpha = np.array([[0.05, 3.0], [40.0, 0.7], [1.0, 1.0]])
    target = psi(alpha) - psi(alpha.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(moments.match_dirichlet(target, np.ones_like(alpha)), alpha, rtol=1e-8)


def test_points_on_a_simplex_follow_the_dirichlet():
    alpha = np.array([0.4, 2.0, 5.0])
    logs = moments.simplex_points(alpha, 4096)
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(logs).mean(axis=0), alpha / alpha.sum(), atol=2e-3)
    np.testing.assert_allclose(logs.mean(axis=0), psi(alpha) - psi(alpha.sum()), atol=2e-2)
    assert np.isfinite(moments.simplex_points(np.array([1e-3, 1e-3]), 64)).all()


def test_many_factors_are_evaluated_like_few():
    variables = [zoo.real(f"x{i}") for i in range(101)]
    factors = [
        potentials.laplace(a, b, scale=1.0 + 0.01 * k)
        for k, (a, b) in enumerate(itertools.pairwise(variables))
    ]
    graph = credo.HybridNet(variables, factors).to_factor_graph()
    (group,) = graph.groups
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=(100, 3)) for _ in range(2)]
    many = moments.group_log_values(graph, group, np.arange(100), columns)
    np.testing.assert_allclose(many, evaluate(graph, group, columns))
    few = moments.group_log_values(graph, group, np.arange(90, 100), [c[90:] for c in columns])
    np.testing.assert_allclose(many[90:], few)
