"""The free energy of a mixture of products and its gradients, against formulas, differences and bounds."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from scipy.special import betaln

import credo
import hybrid_zoo as zoo
from credo import potentials
from credo.inference.problem.base import Problem
from credo.inference.variational.bethe import Bethe
from credo.inference.variational.bethe_ascent import slope_at
from credo.inference.variational.bethe_expectations import (
    gauss_hermite,
    log_dirichlet_samples,
    stein_direction,
    trapezoid,
)
from credo.inference.variational.bethe_plan import BethePlan, Kind, _row_lists
from credo.inference.variational.bethe_run import Ascents
from credo.inference.variational.bethe_system import (
    BetheParameters,
    SampledPoints,
    _gathered,
    beliefs,
    gradient,
)
from credo.nn.arrays import precision
from credo.nn.compiled import Compiled


def run_of(model, **options) -> Ascents:
    """A model in compiled form; plain gradients, that is with lambda_m, unless told otherwise."""
    problem = Problem.about(model.to_factor_graph())
    with precision(double=True):
        return Ascents(problem, Bethe(**{"guard": 1.0, **options}), False, np.random.default_rng(0))


def slopes_of(run: Ascents):
    """Values and gradients of a stack of parameters, compiled once; takes the data of any like run."""

    def one(parameters, data):
        key = jax.random.PRNGKey(0)
        points = jax.tree.map(lambda x: x[0], run.carry.points)
        return slope_at(run.plan, run.settings, data, run.numbers, run.weights, parameters, key, points, 0.0)

    program = Compiled(jax.vmap(one, in_axes=(0, None)))

    def call(parameters, data=run.data):
        with precision(double=True):
            return jax.tree.map(np.asarray, program(parameters, data))

    return call


def random_parameters(run: Ascents, count: int, seed: int = 0, scale: float = 1.0) -> BetheParameters:
    rng = np.random.default_rng(seed)
    first = jax.tree.map(lambda x: np.asarray(x)[0], run.carry.parameters)
    return jax.tree.map(lambda x: scale * rng.standard_normal((count, *x.shape)), first)


def differences(call, parameters: BetheParameters, step: float = 1e-5) -> np.ndarray:
    """Central differences of the value for every number, and the gradient in the same order."""
    one = jax.tree.map(lambda x: x[:1], parameters)
    leaves, tree = jax.tree.flatten(one)
    sizes = [leaf.size for leaf in leaves]
    moves = np.concatenate([np.zeros((1, sum(sizes))), step * np.eye(sum(sizes)), -step * np.eye(sum(sizes))])
    flat = np.concatenate([leaf.ravel() for leaf in leaves]) + moves
    parts = np.split(flat, np.cumsum(sizes)[:-1], axis=1)
    stacked = [part.reshape(-1, *leaf.shape[1:]) for part, leaf in zip(parts, leaves, strict=True)]
    values, slopes = call(jax.tree.unflatten(tree, stacked))
    n = sum(sizes)
    found = np.concatenate([leaf[0].ravel() for leaf in jax.tree.leaves(slopes)])
    return found, (values[1 : n + 1] - values[n + 1 :]) / (2 * step)


# Discrete: the printed formulas


def discrete_cycle(seed: int = 0) -> credo.FactorGraph:
    rng = np.random.default_rng(seed)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 3}
    tables = {(n,): np.exp(rng.normal(size=k)) for n, k in sizes.items()}
    for one, other in ("ab", "bc", "cd", "da"):
        tables[one, other] = np.exp(rng.normal(size=(sizes[one], sizes[other])))
    return credo.FactorGraph(sizes, tables)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def textbook(graph: credo.FactorGraph, lam: np.ndarray, pi: dict[str, np.ndarray]):
    """(5.2), (5.11) and the gradients (5.12), (5.13), written out for a pairwise model."""
    names = graph.variables.names
    phi = {n: 0.0 for n in names}
    psi = {}
    for factor in graph.factors:
        if len(factor.names) == 1:
            phi[factor.names[0]] = factor.log_table
        else:
            psi[factor.names] = factor.log_table
    degree = {n: sum(n in pair for pair in psi) for n in names}
    b = {n: lam @ pi[n] for n in names}
    bb = {(i, j): np.einsum("m,mx,my->xy", lam, pi[i], pi[j]) for i, j in psi}
    first = sum((b[n] * (phi[n] - np.log(b[n]))).sum() for n in names)
    first += sum((bb[e] * (psi[e] - np.log(bb[e] / np.outer(b[e[0]], b[e[1]])))).sum() for e in psi)
    second = sum((b[n] * (phi[n] - (1 - degree[n]) * np.log(b[n]))).sum() for n in names)
    second += sum((bb[e] * (psi[e] - np.log(bb[e]))).sum() for e in psi)
    inner = {n: phi[n] - (1 - degree[n]) * (np.log(b[n]) + 1) for n in names}
    outer = {e: psi[e] - np.log(bb[e]) - 1 for e in psi}
    slope_pi = {n: np.tile(inner[n], (len(lam), 1)) for n in names}
    for (i, j), table in outer.items():
        slope_pi[i] = slope_pi[i] + pi[j] @ table.T
        slope_pi[j] = slope_pi[j] + pi[i] @ table
    slope_pi = {n: lam[:, None] * g for n, g in slope_pi.items()}
    slope_lam = sum(pi[n] @ inner[n] for n in names)
    slope_lam = slope_lam + sum(np.einsum("mx,my,xy->m", pi[i], pi[j], t) for (i, j), t in outer.items())
    return first, second, slope_pi, slope_lam


def test_discrete_gradients_are_the_printed_ones_and_finite_differences():
    graph = discrete_cycle()
    run = run_of(graph, components=2)
    call = slopes_of(run)
    parameters = random_parameters(run, 1, seed=3)
    found, numeric = differences(call, parameters)
    np.testing.assert_allclose(found, numeric, atol=2e-8)
    lam = softmax(parameters.weights[0])
    logits = dict(zip(graph.variables.names, np.moveaxis(parameters.parts[0][0], -1, 0), strict=True))
    pi = {n: softmax(x[:, : graph.variables[i].size]) for i, (n, x) in enumerate(logits.items())}
    first, second, slope_pi, slope_lam = textbook(graph, lam, pi)
    values, slopes = call(parameters)
    assert first == pytest.approx(second, abs=1e-12)
    assert values[0] == pytest.approx(first, abs=1e-10)
    np.testing.assert_allclose(slopes.weights[0], lam * (slope_lam - lam @ slope_lam), atol=1e-10)
    for i, n in enumerate(graph.variables.names):
        centred = slope_pi[n] - (pi[n] * slope_pi[n]).sum(axis=1, keepdims=True)
        size = graph.variables[i].size
        np.testing.assert_allclose(slopes.parts[0][0, :, :size, i], pi[n] * centred, atol=1e-10)
        assert not slopes.parts[0][0, :, size:, i].any()  # padding


def test_a_factor_inside_another_one_is_part_of_it():
    a, b, table = credo.Variable("a", 2), credo.Variable("b", 2), np.arange(1.0, 5).reshape(2, 2)
    twice = credo.FactorGraph([a, b], [credo.TableFactor([a, b], table) for _ in range(2)])
    run = run_of(twice, components=2)
    assert run.layout.is_tree and run.layout.mutual.tolist() == [1, 0]
    parameters = random_parameters(run, 1)
    pi = dict(zip("ab", softmax(np.moveaxis(parameters.parts[0][0], -1, 0)), strict=True))
    once = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): table**2})
    expected = textbook(once, softmax(parameters.weights[0]), pi)[0]
    assert slopes_of(run)(parameters)[0] == pytest.approx(expected, abs=1e-12)


def test_on_a_tree_no_mixture_exceeds_log_z():
    sizes = {f"x{i}": 2 + i % 2 for i in range(5)}
    scopes = [("x0", "x1"), ("x1", "x2"), ("x1", "x3"), ("x0", "x4")]
    call = None
    for seed in range(4):
        rng = np.random.default_rng(seed)
        tables = {scope: np.exp(2 * rng.normal(size=[sizes[n] for n in scope])) for scope in scopes}
        graph = credo.FactorGraph(sizes, tables)
        run = run_of(graph, components=3)
        call = call or slopes_of(run)
        exact = credo.infer(graph, "junction-tree").log_z.value
        parameters = random_parameters(run, 60, seed=seed, scale=2.0)
        alone = parameters._replace(weights=parameters.weights * [0, 1, 1] - [0, 1e3, 1e3])  # one component
        assert call(parameters, run.data)[0].max() <= exact + 1e-10
        assert call(alone, run.data)[0].max() <= exact + 1e-10


def test_theorem_two_caps_the_free_energy_of_gaussian_models():
    def model(seed: int) -> credo.GaussianNet:
        rng = np.random.default_rng(seed)
        a = rng.normal(size=(4, 4))
        return credo.GaussianNet(a @ a.T + 0.2 * np.eye(4), rng.normal(size=4))

    run = run_of(model(0), components=2, nodes=12)
    call = slopes_of(run)
    for seed in range(6):
        net = model(seed)
        cap = 0.5 * net.shift @ net.mean + 2 * np.log(2 * np.pi / np.linalg.eigvalsh(net.precision).min())
        assert net.log_z <= cap
        parameters = random_parameters(run, 40, seed=seed)
        own = parameters.parts[0]
        own[:, :, 0] = net.mean + 0.7 * own[:, :, 0]  # near the answer, where F is high
        own[:, :, 1] -= 0.5 * np.log(np.diag(net.precision))
        values = call(parameters, run_of(net, components=2, nodes=12).data)[0]
        assert cap - 20 < values.max() <= cap


@pytest.mark.parametrize(
    ("owner", "buckets"),
    [([0, 1, 2, 3, 4], 0), ([0, 0, 1, 2, 2, 4, 3], 1), ([1, 3, 0, 2, 4], 1), ([2] * 9 + [0, 4, 4], 3)],
)
def test_what_factors_say_is_summed_for_each_variable(owner: list[int], buckets: int):
    lists = _row_lists(np.array(owner), 5)
    assert len(lists.rows) == buckets and (lists.order is not None) == (buckets > 1)
    row = np.random.default_rng(0).normal(size=(2, 3, len(owner)))
    expected = np.stack([row[..., np.equal(owner, i)].sum(axis=-1) for i in range(5)], axis=-1)
    with precision(double=True):
        np.testing.assert_allclose(_gathered(lists, jax.numpy.asarray(row)), expected, atol=1e-14)


# Real and mixed


def smooth_model() -> credo.HybridNet:
    def link(x, y):
        xp = credo.core.density.namespace(x, y)
        return xp.sin(x) * xp.cos(0.5 * y) - 0.1 * (x - y) ** 2

    x, y, s = zoo.real("x"), zoo.real("y"), credo.Variable("s", 2)
    return credo.HybridNet(
        [s, x, y],
        [
            potentials.gaussian(x, 0.5),
            potentials.student(y, freedom=2.0),
            credo.DensityFactor([x, y], link),
            potentials.emission(y, s, [-1.0, 2.0], [0.5, 1.0]),
            credo.TableFactor([s], [0.3, 0.7]),
        ],
    )


def test_gaussian_scores_are_finite_differences_once_the_points_suffice():
    run = run_of(smooth_model(), components=2, nodes=60)
    found, numeric = differences(slopes_of(run), random_parameters(run, 1, seed=1, scale=0.4))
    np.testing.assert_allclose(found, numeric, atol=5e-6)


def test_the_two_ways_to_differentiate_differ_at_few_points():
    x = zoo.real("x")
    model = credo.HybridNet([x], [potentials.student(x, freedom=2.0)])
    exact, score = (run_of(model, components=2, nodes=3, gradient=g) for g in ("autodiff", "score"))
    parameters = random_parameters(exact, 1, seed=1, scale=0.4)
    found, numeric = differences(slopes_of(exact), parameters)
    np.testing.assert_allclose(found, numeric, atol=1e-8)
    other = np.concatenate([x[0].ravel() for x in jax.tree.leaves(slopes_of(score)(parameters)[1])])
    assert 1e-4 < np.abs(other - found).max() < 0.5


def test_dirichlet_scores_are_finite_differences():
    """A simplex of two coordinates and a discrete variable; integrals on the logit line are exact."""
    z, theta = credo.Variable("z", 2), credo.Variable("theta", credo.Simplex(2))
    prior, table = np.array([1.5, 2.5]), np.log([0.3, 0.7])
    model = credo.HybridNet(
        [theta, z],
        [
            potentials.dirichlet(theta, prior),
            potentials.categorical(z, theta),
            credo.TableFactor([z], np.exp(table)),
        ],
    )
    run = run_of(model, components=2)
    u = np.linspace(-40, 40, 1601)
    logs = np.stack([-np.logaddexp(0, -u), -np.logaddexp(0, u)], axis=-1)  # log theta

    def densities(log_alpha):
        alpha = np.exp(log_alpha)  # (components, 2)
        norm = -betaln(alpha[:, 0], alpha[:, 1])
        return norm[:, None] + (alpha - 1) @ logs.T, alpha

    def free_energy(t, log_alpha, logits):
        lam, pi = softmax(t), softmax(logits)
        each, _ = densities(log_alpha)
        measure = np.exp(each + logs.sum(axis=1)) * (u[1] - u[0])  # d theta = theta (1 - theta) du
        b_theta = np.logaddexp.reduce(each + np.log(lam)[:, None], axis=0)
        b_z = lam @ pi
        both = np.logaddexp.reduce(
            each[:, :, None] + np.log(pi)[:, None] + np.log(lam)[:, None, None], axis=0
        )  # (points, states)
        log_prior = (prior - 1) @ logs.T - betaln(*prior)
        total = 0.0
        for m in range(2):
            total += lam[m] * (measure[m] @ (log_prior - b_theta) + pi[m] @ (table - np.log(b_z)))
            inner = logs - both + b_theta[:, None] + np.log(b_z)
            total += lam[m] * np.einsum("s,z,sz->", measure[m], pi[m], inner)
        return total

    rng = np.random.default_rng(0)
    t, log_alpha, logits = rng.normal(size=2), 0.5 + 0.4 * rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    kinds = tuple(Kind(k.family, k.size) for k in run.plan.kinds)
    assert [k.family for k in kinds] == ["simplex", "discrete"]
    plan = BethePlan(kinds, run.plan.groups, 2)
    each, _ = densities(log_alpha)
    weights = np.exp(each + logs.sum(axis=1)) * (u[1] - u[0])
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)
    points = np.broadcast_to(logs, (2, *logs.shape))[..., None]
    draws = (SampledPoints(points, weights[..., None]), SampledPoints(None, None))

    def slope(parameters, data, draws):
        parts = beliefs(plan, data[0], parameters, draws, None)
        return gradient(plan, *data, parameters, draws, parts, 30.0, None)

    with precision(double=True):
        parameters = BetheParameters(np.array(t), (log_alpha[..., None], logits[..., None]))
        totals, slopes = jax.tree.map(np.asarray, Compiled(slope)(parameters, run.data, draws))
    lam = softmax(t)
    assert lam @ totals == pytest.approx(free_energy(t, log_alpha, logits), abs=1e-10)
    step = 1e-5
    for array, found in (
        (t, lam * (totals - lam @ totals)),
        (log_alpha, lam[:, None] * slopes[0][..., 0]),
        (logits, lam[:, None] * slopes[1][..., 0]),
    ):
        for at in np.ndindex(array.shape):
            kept = array[at]
            array[at] = kept + step
            high = free_energy(t, log_alpha, logits)
            array[at] = kept - step
            low = free_energy(t, log_alpha, logits)
            array[at] = kept
            assert found[at] == pytest.approx((high - low) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("guard", [0.1, pytest.param(1.0, marks=pytest.mark.slow)])
def test_one_sampled_component_gives_the_gradient_on_average(guard: float):
    full, part = (run_of(discrete_cycle(), components=2, guard=guard, sampled=s) for s in (False, True))
    parameters = random_parameters(full, 1, seed=2)
    value, slope = slopes_of(full)(parameters)
    odds = softmax(parameters.weights[0]) if guard == 1 else np.full(2, 0.5)

    def one(parameters, data, key):
        settings = (part.plan, part.settings, data, part.numbers, part.weights)
        drawn = jax.random.choice(jax.random.fold_in(key, 99), 2, p=odds)
        return drawn, slope_at(*settings, parameters, key, (np.zeros(0),), 1.7)

    with precision(double=True):
        keys = np.stack([np.asarray(jax.random.PRNGKey(k)) for k in range(12)])
        alone = jax.tree.map(lambda x: x[0], parameters)
        drawn, found = Compiled(jax.vmap(one, in_axes=(None, None, 0)))(alone, part.data, keys)
    at = [int(np.flatnonzero(np.asarray(drawn) == m)[0]) for m in (0, 1)]  # a step that drew each component
    mean = jax.tree.map(lambda x: odds @ np.asarray(x)[at].reshape(2, -1), found)
    for one_, expected in zip(jax.tree.leaves(mean), jax.tree.leaves((value, slope)), strict=True):
        np.testing.assert_allclose(one_, expected[0].ravel(), atol=1e-10)


# Points


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_theorem_one_exact_up_to_degree_and_the_corrected_remainder(count: int):
    z, w = gauss_hermite(count)
    mean, sd = 0.7, 1.3
    for degree in range(2 * count):
        exact = sum(
            math.comb(degree, k) * mean ** (degree - k) * sd**k * math.prod(range(k - 1, 0, -2))
            for k in range(0, degree + 1, 2)
        )
        assert w @ (mean + sd * z) ** degree == pytest.approx(exact, rel=1e-9)
    degree = 2 * count
    moment = sd**degree * math.prod(range(degree - 1, 0, -2))
    error = moment - w @ (sd * z) ** degree
    derivative = math.factorial(degree)  # of x^(2K), the same everywhere
    corrected = math.factorial(count) * sd**degree * derivative / math.factorial(degree)
    printed = math.factorial(count) * math.sqrt(math.pi) * derivative / (2**count * math.factorial(degree))
    assert error == pytest.approx(corrected, rel=1e-8)
    assert abs(error - printed) > 0.1 * error


def test_the_trapezoid_rule_sees_kinks_and_shows_its_error():
    z, w = trapezoid(161)
    np.testing.assert_allclose(w.sum(axis=1), 1)
    np.testing.assert_allclose(w @ z**4, 3, atol=1e-8)
    exact = math.sqrt(2 / math.pi)  # E|z|
    fine, coarse = w @ np.abs(z - 0.01) - exact
    assert abs(fine) < abs(fine - coarse) < 0.01
    few = gauss_hermite(5)
    assert abs(few[1] @ np.abs(few[0]) - exact) > 10 * abs(fine)


def test_dirichlet_samples_and_particles_have_the_right_moments():
    with precision(double=True):
        alpha = np.array([[[0.3, 2.0, 5.0]]])
        draw = Compiled(log_dirichlet_samples)
        logs = np.asarray(draw(jax.random.PRNGKey(0), alpha, count=20_000))[0, 0]
        mean = alpha[0, 0] / alpha.sum()
        np.testing.assert_allclose(np.exp(logs).mean(axis=0), mean, atol=0.01)
        np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1)
        alpha = np.array([2.0, 3.0, 5.0])
        direction = jax.jit(stein_direction, static_argnums=2)
        for coordinate in (False, True):
            u = np.log(np.random.default_rng(0).standard_gamma(1.0, (60, 3)))
            for _ in range(300):
                u = u + 0.3 * np.asarray(direction(u, alpha - np.exp(u), coordinate))
            found = softmax(u)
            np.testing.assert_allclose(found.mean(axis=0), alpha / alpha.sum(), atol=0.015)
            spread = np.sqrt(alpha * (10 - alpha) / (100 * 11))
            np.testing.assert_allclose(found.std(axis=0), spread, rtol=0.25)
        x = np.random.default_rng(1).normal(size=(20, 1)) + 3
        for _ in range(300):
            x = x + 0.3 * np.asarray(direction(x, -x, False))
        assert abs(x.mean()) < 0.01
        assert x.std() == pytest.approx(1, abs=0.15)
