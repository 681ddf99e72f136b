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
from credo.inference.messages.ep_beliefs import SiteBeliefs
from credo.inference.problem.potentials import evaluate

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
    one, other = credo.infer(model, "ep(nodes=12)"), credo.infer(model, "ep(nodes=12, power=1.0)")
    zoo.same(one, other, 1e-12)
    near = credo.infer(model, "ep(nodes=12, power=0.999)")
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


@pytest.mark.parametrize("power", [pytest.param(1.0, marks=pytest.mark.slow), 0.5])
def test_at_a_fixed_point_tilted_moments_are_those_of_the_beliefs(power):
    model = zoo.laplace_chain()
    found = credo.infer(model, f"ep(nodes=60, power={power})", tol=1e-9)
    state = found.state
    beliefs = SiteBeliefs(state.layout, state.sites)
    points = np.linspace(-11, 12, 461)
    checked = 0
    for group, own in zip(state.layout.groups, model.to_factor_graph().batches, strict=True):
        for row, a in enumerate(own.factors):
            cavity = beliefs.cavity(group, np.array([row]), state.sites)
            axes = np.meshgrid(*[points] * own.scopes.shape[1], indexing="ij")
            logs = power * model.factors[int(a)].log_values(*axes)
            for k, x in enumerate(axes):
                logs = logs + cavity.shift[0, k] * x - 0.5 * cavity.precision[0, k, k] * x**2
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


# ---------------------------------------------------------------- a state space that is not linear


def _follow(before, now, variance):
    return -0.5 * ((now - before - 0.9 * np.sin(before)) ** 2 / variance + np.log(variance) + LOG_2PI)


def _saturate(x, y, variance):
    return -0.5 * ((y - np.tanh(x)) ** 2 / variance + np.log(variance) + LOG_2PI)


def state_space(seed, length):
    """x_t = x + .9 sin x + noise, y_t = tanh x_t + noise; and log Z, means and variances on a dense grid."""
    rng = np.random.default_rng(seed)
    xs, state, seen = [zoo.real(f"x{t}") for t in range(length)], rng.normal(), []
    for t in range(length):
        state = state + (0.9 * np.sin(state) + rng.normal() * np.sqrt(0.3) if t else 0.0)
        seen.append(float(np.tanh(state) + rng.normal() * np.sqrt(0.1)))
    factors = [potentials.gaussian(xs[0], 0.0, 1.0)]
    factors += [credo.DensityFactor([a, b], _follow, 0.3) for a, b in itertools.pairwise(xs)]
    factors += [credo.DensityFactor([x], _saturate, y, 0.1) for x, y in zip(xs, seen, strict=True)]
    grid = np.linspace(-14, 14, 1201)
    step = np.exp(_follow(grid[:, None], grid[None, :], 0.3)) * (grid[1] - grid[0])
    own = np.array([np.exp(_saturate(grid, y, 0.1)) for y in seen])
    own[0] *= np.exp(-0.5 * (grid**2 + LOG_2PI))
    forward, backward, log_z = [own[0]], [np.ones_like(grid)], np.log(grid[1] - grid[0])
    for t in range(1, length):
        forward.append(forward[-1] @ step * own[t])
        backward.append(step @ (backward[-1] * own[length - t]))
    mass = np.array(forward) * np.array(backward[::-1])
    log_z += np.log(mass[0].sum())
    mass /= mass.sum(axis=1, keepdims=True)
    mean = mass @ grid
    return credo.HybridNet(xs, factors), log_z, mean, mass @ grid**2 - mean**2


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "method", ["ep(damping=0.5)", "ep(sites=block)", "ep(sites=block, damping=0.5, schedule=flooding)"]
)
def test_damped_and_block_forms_solve_a_state_space_that_is_not_linear(method, seed):
    model, log_z, mean, variance = state_space(seed, 12)
    found = credo.infer(model, method, tol=1e-6)
    assert found.status is Status.CONVERGED
    means = np.array([found.marginals[f"x{t}"].mean for t in range(12)])
    widths = np.array([found.marginals[f"x{t}"].variance for t in range(12)])
    assert np.abs((means - mean) / np.sqrt(variance)).max() < 0.1
    assert 0.7 < (widths / variance).min() and (widths / variance).max() < 1.3
    assert found.log_z.value == pytest.approx(log_z, abs=0.1)


def test_skipped_updates_are_counted_and_no_convergence_is_claimed():
    model, *_ = state_space(0, 15)
    found = quietly(model, "ep", max_iter=60, tol=1e-6)
    assert found.status is Status.STALLED
    assert "updates were skipped in the last sweep" in found.notes[0]
    assert "damping, block sites" in found.notes[0]


def test_damping_does_not_make_a_run_end_early():
    model, *_ = state_space(2, 3)
    plain = credo.infer(model, "ep(sites=block)", tol=1e-6)
    damped = credo.infer(model, "ep(sites=block, damping=0.9)", tol=1e-6)
    assert damped.converged
    zoo.same(damped, plain, 1e-5)


def test_a_run_without_time_answers_from_its_first_sites():
    model, *_ = state_space(0, 6)
    found = quietly(model, "ep", seconds=0)
    assert found.status is Status.OUT_OF_TIME
    assert np.isfinite(found.marginals["x3"].mean)


# ---------------------------------------------------------------- supports, powers and blocks


def _exponential(x, rate):
    return np.where(x >= 0, np.log(rate) - rate * np.where(x >= 0, x, 0.0), -np.inf)


@pytest.mark.parametrize(("rate", "shift"), [(1.0, 0.0), (1.0, 0.37), (50.0, -3.0)])
def test_the_edge_of_a_support_is_integrated(rate, shift):
    x = zoo.real("x")

    def moved(x, rate):
        return _exponential(x - shift, rate)

    found = credo.infer(credo.HybridNet([x], [credo.DensityFactor([x], moved, rate)]), "ep")
    assert found.converged
    assert found.log_z.value == pytest.approx(0.0, abs=1e-8)
    assert found.marginals["x"].mean == pytest.approx(shift + 1 / rate, abs=1e-8)
    assert found.marginals["x"].variance == pytest.approx(rate**-2, rel=1e-8)


def probit_chain(closed):
    """A Gaussian prior in pairs, around a loop if closed, under probit sites; and with the prior in one."""
    xs = [zoo.real(f"x{i}") for i in range(4)]
    edges = [(0, 1), (1, 2), (2, 3), *([(3, 0)] if closed else [])]
    pair = np.array([[1.0, -0.8], [-0.8, 1.0]])
    pairs = [credo.GaussianFactor([xs[i], xs[j]], pair, np.zeros(2)) for i, j in edges]
    whole = np.zeros((4, 4))
    for edge in edges:
        whole[np.ix_(edge, edge)] += pair
    sites = [credo.DensityFactor([x], _probit, s) for x, s in zip(xs, (2.0, -1.0, 1.5, 1.0), strict=True)]
    joint = credo.GaussianFactor(xs, whole, np.zeros(4))
    return credo.HybridNet(xs, [*pairs, *sites]), credo.HybridNet(xs, [joint, *sites])


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("schedule", ["auto", "flooding"])
def test_block_sites_keep_gaussian_loops_exact(schedule, power):
    pairs, joint = probit_chain(closed=True)
    expected = credo.infer(joint, f"ep(power={power})", tol=1e-10)
    found = credo.infer(pairs, f"ep(sites=block, power={power}, schedule={schedule})", tol=1e-10)
    assert found.converged
    zoo.same(found, expected, 1e-8)
    product = credo.infer(pairs, f"ep(power={power})")
    assert abs(product.log_z.value - expected.log_z.value) > 0.01  # messages around the loop


def test_block_sites_begin_where_only_all_factors_together_confine():
    x, y = zoo.real("x"), zoo.real("y")
    smooth = credo.GaussianFactor([x, y], [[4.0, -4.0], [-4.0, 4.0]], [0.0, 0.0])
    model = credo.HybridNet([x, y], [smooth, potentials.laplace(x)])
    found = credo.infer(model, "ep(sites=block)")
    assert found.marginals["x"].variance == pytest.approx(2.0, rel=1e-6)
    assert found.marginals["y"].variance == pytest.approx(2.25, rel=1e-6)
    assert found.log_z.value == pytest.approx(np.log(2) + 0.5 * (LOG_2PI - np.log(4)), abs=1e-6)


def test_block_sites_of_mixed_factors():
    model = zoo.switching()
    zoo.close(credo.infer(model, "ep(sites=block)"), zoo.truth(model), 1e-8)


def test_block_sites_refuse_what_they_cannot_hold():
    many = [zoo.real(f"x{i}") for i in range(5001)]
    with pytest.raises(UnsupportedError, match="5000 at most, got 5001; give sites=diagonal"):
        credo.infer(credo.HybridNet(many, [potentials.gaussian(x) for x in many]), "ep(sites=block)")
    x, y, z = zoo.real("x"), zoo.real("y"), zoo.real("z")
    saddle = credo.GaussianFactor([x, y], [[1.0, 2.0], [2.0, 1.0]], [0.0, 0.0])
    model = credo.HybridNet([x, y, z], [saddle, credo.DensityFactor([x, y, z], _bowl)])
    with pytest.raises(UnsupportedError, match="joint precision is not positive definite"):
        credo.infer(model, "ep(sites=block, spread=1e6)")


def _bowl(x, y, z):
    return -5 * (x**2 + y**2 + z**2)


def test_gaussian_factors_are_never_powered():
    net = zoo.gaussian_tree(8, 2)
    zoo.same(credo.infer(net, "ep(power=0.5)", tol=1e-10), credo.infer(net, "gaussian"), 1e-8)
    pairs, joint = probit_chain(closed=False)
    zoo.same(
        credo.infer(pairs, "ep(power=0.5)", tol=1e-10), credo.infer(joint, "ep(power=0.5)", tol=1e-10), 1e-8
    )
    with pytest.raises(OptionError, match=r"factor 0 over \['x0', 'x1'\] is Gaussian, which is exact"):
        credo.infer(pairs, "ep(power={0: 0.5})")


def test_powers_can_be_given_to_some_factors():
    _, model = probit_chain(closed=True)
    half = credo.infer(model, "ep(power=0.5)", tol=1e-10)
    zoo.same(credo.infer(model, "ep(power={1: 0.5, 2: 0.5, 3: 0.5, 4: 0.5})", tol=1e-10), half, 1e-10)
    some = credo.infer(model, "ep(power={1: 0.5})", tol=1e-10).log_z.value
    one = credo.infer(model, "ep", tol=1e-10).log_z.value
    assert sorted([one, some, half.log_z.value])[1] == some and one != some


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
    found = credo.infer(model, "ep(nodes=100)")  # sums over a kink converge slowly
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
        with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero under this model"):
            credo.infer(model, "ep", evidence=seen)
    never = credo.HybridNet([s, t, x], [*factors, credo.TableFactor([t], [0.0, 1.0])])
    with pytest.raises(ZeroProbabilityError, match="the model gives every configuration weight zero"):
        credo.infer(never, "ep")
    nowhere = credo.HybridNet([s], [factors[2], credo.TableFactor([s], [0.0, 1.0])])
    for budget in (0, 10):
        with pytest.raises(ZeroProbabilityError, match="the model gives every configuration weight zero"):
            credo.infer(nowhere, "ep", max_iter=budget)


def test_a_product_without_an_integral_is_refused_or_diverges_with_a_name():
    x, y = zoo.real("x"), zoo.real("y")
    with pytest.raises(ModelError, match="no integral: it does not fall off along 'y'"):
        credo.infer(credo.HybridNet([x, y], [potentials.gaussian(x)]), "ep")
    adrift = credo.HybridNet([x, y], [potentials.laplace(x, y)])
    found = quietly(adrift, "ep")
    assert found.status is Status.DIVERGED and found.marginals is None
    assert "grows without bound: the product of the factors seems to have no integral" in found.notes[0]


def test_the_wide_gaussian_of_the_bimodal_cycle_is_found():
    found = quietly(zoo.bimodal_cycle(), "ep", tol=1e-4)
    assert found.converged
    for name in ("x0", "x1", "x2"):
        assert found.marginals[name].mean == pytest.approx(0.0, abs=1e-6)
        assert found.marginals[name].sd == pytest.approx(9.8, abs=0.2)


def test_wrong_questions_and_options_are_refused():
    model = zoo.laplace_chain()
    with pytest.raises(UnsupportedError, match="it gives marginals and log Z, and the question asks for MAP"):
        credo.infer(model, "ep", maximise="all")
    with pytest.raises(UnsupportedError, match="the question asks for samples"):
        credo.sample(model, 3, method="ep")
    with pytest.raises(OptionError, match="power must be at most 1"):
        credo.infer(model, "ep(power=2.0)")
    with pytest.raises(OptionError, match=r"power must be at least 0\.01, got 0"):
        credo.infer(model, "ep(power={1: 0})")
    with pytest.raises(OptionError, match="the number of a factor must be at least 0, got -1"):
        credo.infer(model, "ep(power={-1: 0.5})")
    with pytest.raises(OptionError, match="numbers of factors below 5, got 9"):
        credo.infer(model, "ep(power={9: 0.5})")
    with pytest.raises(OptionError, match="sites must be one of"):
        credo.infer(model, "ep(sites=full)")
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
    (group,) = graph.batches
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=(100, 3)) for _ in range(2)]
    many = moments.group_log_values(graph, group, np.arange(100), columns)
    np.testing.assert_allclose(many, evaluate(graph, group, columns))
    few = moments.group_log_values(graph, group, np.arange(90, 100), [c[90:] for c in columns])
    np.testing.assert_allclose(many[90:], few)
