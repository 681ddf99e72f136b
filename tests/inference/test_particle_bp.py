"""Particle belief propagation, also with Gaussian proposals: against linear algebra, grids and BP."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo import potentials
from credo.core.errors import (
    ConvergenceWarning,
    ModelError,
    OptionError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.particles import edges
from credo.inference.particles.ep_particle_bp import EPParticleBP
from credo.inference.particles.pace import FIRST, DrawPace
from credo.inference.particles.pairs import ParticlePairs
from credo.inference.particles.particle_bp import ParticleBP
from credo.inference.particles.steps import ParticleStep
from credo.inference.portfolio.question import pose
from credo.inference.problem.base import Problem, algorithms
from credo.inference.problem.reading import compact
from credo.optimise.driver import UNKNOWN
from hybrid_zoo import (
    bimodal_cycle,
    close,
    gaussian_loop,
    gaussian_tree,
    gaussian_truth,
    laplace_chain,
    real,
    switching,
    switching_loop,
    truth,
)

SMOOTH = truth(laplace_chain(), count=161)  # modes that lie apart
METHODS = ["particle-bp", "particle-bp(proposal=gaussian)", "ep-particle-bp"]
BOTH = ["particle-bp", "ep-particle-bp"]


def ask(model, method, **question):
    """A run that is cut is no reason to warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(model, method, **{"seed": 0, **question})


def error(model, method, seeds=3) -> float:
    """Root mean square error of means and standard deviations, over variables and seeds."""
    exact = gaussian_truth(model).marginals
    gaps = []
    for seed in range(seeds):
        found = ask(model, method, seed=seed).marginals
        gaps += [found[name].mean - mean for name, (mean, _) in exact.items()]
        gaps += [found[name].sd - np.sqrt(variance) for name, (_, variance) in exact.items()]
    return float(np.sqrt(np.mean(np.square(gaps))))


@pytest.mark.parametrize(
    ("method", "few", "many", "limit"),
    [
        ("particle-bp(particles={})", 25, 400, 0.003),
        ("particle-bp(particles={}, proposal=gaussian)", 25, 400, 0.001),
        ("ep-particle-bp(particles={})", 25, 400, 0.001),
        ("ep-particle-bp(particles=200, components={}, redraws=20)", 8, 100, 0.01),
        ("particle-bp(particles={}, proposal=belief, steps=5, redraws=8)", 10, 160, 0.08),
    ],
)
def test_on_a_gaussian_chain_errors_fall_with_the_particles(method, few, many, limit):
    chain = credo.GaussianNet([[2.0, -0.8, 0.0], [-0.8, 2.0, 0.7], [0.0, 0.7, 1.5]], [1.0, 0.0, -1.0])
    coarse, fine = error(chain, method.format(few)), error(chain, method.format(many), seeds=2)
    assert fine < 0.5 * coarse
    assert fine < limit


@pytest.mark.parametrize("method", METHODS)
def test_on_a_gaussian_tree_log_z_is_near_the_exact_one(method):
    tree = gaussian_tree()
    found = ask(tree, method)
    assert found.log_z.kind == "estimate"
    assert found.log_z.value == pytest.approx(tree.log_z, abs=0.02)
    close(found, gaussian_truth(tree), 0.02)
    assert found.converged
    assert "noise" in found.notes[0]


@pytest.mark.parametrize("method", METHODS)
def test_modes_that_lie_apart_are_weighted_right(method):
    found = ask(laplace_chain(), f"{method.rstrip(')')}{', ' if '(' in method else '('}particles=200)")
    close(found, SMOOTH, 0.05)
    assert found.log_z.value == pytest.approx(SMOOTH.log_z, abs=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_states_of_discrete_variables_are_particles_that_stay(method):
    model = switching()
    exact = truth(model)
    found = ask(model, method)
    close(found, exact, 0.02)
    assert found.log_z.value == pytest.approx(exact.log_z, abs=0.01)
    assert found.marginals["t"].sum() == pytest.approx(1)
    at = np.linspace(-8, 8, 161)  # messages of discrete neighbours can be evaluated anywhere
    assert found.marginals["x"].density(at).sum() * 0.1 == pytest.approx(1, abs=0.02)
    nothing = credo.HybridNet(model.variables, [*model.factors, credo.TableFactor([], 0.0)])
    with pytest.raises(ZeroProbabilityError, match="the model gives every configuration weight zero"):
        ask(nothing, method)


def test_a_message_from_a_discrete_variable_is_never_thinned():
    states, x = credo.Variable("s", 3), real("x")
    model = credo.HybridNet(
        [states, x],
        [credo.TableFactor([states], [0.2, 0.5, 0.3]), potentials.emission(x, states, [-3.0, 0.0, 3.0], 0.3)],
    )
    found = ask(model, "ep-particle-bp(components=3)")
    exact = truth(model)
    close(found, exact, 0.03)
    x_belief = found.marginals["x"]
    assert x_belief.mean == pytest.approx(exact.marginals["x"][0], abs=1e-3)


@pytest.mark.parametrize("method", BOTH)
def test_without_real_variables_it_is_belief_propagation(method):
    loop = credo.datasets.ising_grid(3, coupling="uniform(low=-0.4, high=0.4)", seed=0)
    found, expected = ask(loop, method), credo.infer(loop, "bp")
    assert found.converged
    np.testing.assert_allclose(found.marginals.flat, expected.marginals.flat, atol=1e-7)
    assert found.log_z.value == pytest.approx(expected.log_z.value, abs=1e-7)


def test_zeros_between_states_are_respected():
    a, b, c = credo.Variable("a", 2), credo.Variable("b", 3), credo.Variable("c", 2)
    factors = [
        credo.TableFactor([a, b], [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]),
        credo.TableFactor([b, c], [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]),
    ]
    graph = credo.FactorGraph([a, b, c], factors)
    found, exact = ask(graph, "particle-bp"), credo.infer(graph, "enumerate")
    np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-9)
    assert found.log_z.value == pytest.approx(exact.log_z.value)
    # With c = 1 and a = 1, b would have to be both 1 and not 1.
    with pytest.raises(ZeroProbabilityError, match="weight zero"):
        ask(graph, "particle-bp", evidence={"a": 1, "c": 1})


def test_on_the_three_cycle_it_tends_to_the_bethe_value_and_not_to_log_z():
    values = [ask(bimodal_cycle(), "particle-bp", max_iter=40, seed=seed).log_z.value for seed in range(3)]
    assert np.mean(values) == pytest.approx(1.1688, abs=0.05)  # of damped belief propagation on a grid
    few = ask(bimodal_cycle(), "particle-bp(particles=5, proposal=belief, redraws=20)", max_iter=20)
    assert few.log_z.value < -10
    belief = ask(bimodal_cycle(), "particle-bp", max_iter=40).marginals["x0"]
    assert belief.density([-9.75, 0.0, 9.75])[1] < 1e-3  # the fixed point lacks the third mode


@pytest.mark.parametrize("method", METHODS)
def test_on_a_gaussian_loop_means_are_exact_up_to_noise(method):
    loop = gaussian_loop()
    found = ask(loop, method, max_iter=30)
    means = np.array([found.marginals[name].mean for name in loop.names])
    np.testing.assert_allclose(means, loop.mean, atol=0.05)
    assert np.isfinite(found.log_z.value)


def denoising(n: int = 3, seed: int = 0) -> credo.HybridNet:
    """A small image of the denoising experiment."""
    rng = np.random.default_rng(seed)
    pixels = {(i, j): real(f"x{i}{j}") for i in range(n) for j in range(n)}
    factors = [potentials.gaussian(v, rng.random(), 0.01) for v in pixels.values()]
    for (i, j), v in pixels.items():
        for other in ((i + 1, j), (i, j + 1)):
            if other in pixels:
                factors.append(potentials.clamped_laplace(v, pixels[other], scale=0.03, limit=0.2))
    return credo.HybridNet(list(pixels.values()), factors)


@pytest.mark.parametrize("method", ["particle-bp(particles=50)", "ep-particle-bp(particles=50)"])
def test_potentials_without_a_finite_integral_agree_with_belief_propagation_on_a_grid(method):
    model = denoising()
    found = ask(model, method)
    grid = credo.infer(model, "grid-bp(low=-1, high=2, points=300)")
    for name in model.variables.names:
        assert found.marginals[name].mean == pytest.approx(grid.marginals[name].mean, abs=0.01)
        assert found.marginals[name].sd == pytest.approx(grid.marginals[name].sd, abs=0.01)
    assert found.log_z.value == pytest.approx(grid.log_z.value, abs=0.1)


def _pull(x, y, strength):
    return -strength * np.abs(np.asarray(x) - np.asarray(y))  # NumPy refuses to be traced


def test_a_black_box_is_as_good_as_a_compiled_function(monkeypatch):
    x, y = real("x"), real("y")
    own = [potentials.gaussian(x, 1.0, 0.5), potentials.gaussian(y)]
    known = credo.HybridNet([x, y], [*own, potentials.laplace(x, y, scale=0.5)])
    black = credo.HybridNet([x, y], [*own, credo.DensityFactor([x, y], _pull, 2.0)])
    interpreted = ask(known, "ep-particle-bp(particles=30)", max_iter=5)
    monkeypatch.setattr(edges, "_FEW", 0)
    monkeypatch.setattr(edges, "_LITTLE", 0)
    for model in (known, black):
        found = ask(model, "ep-particle-bp(particles=30)", max_iter=5)
        assert found.log_z.value == pytest.approx(interpreted.log_z.value, abs=1e-9)
        for name in ("x", "y"):
            assert found.marginals[name].mean == pytest.approx(interpreted.marginals[name].mean, abs=1e-9)


def test_blocks_of_edges_give_what_all_edges_at_once_give(monkeypatch):
    model = denoising()
    pairs = ParticlePairs(model.to_factor_graph())
    rng = np.random.default_rng(1)
    particles, weights = rng.random((pairs.n, 6)), rng.normal(size=(len(pairs.sender), 6))
    points = rng.random((pairs.n, 7))

    def messages():
        return edges.send(pairs, particles[pairs.sender], weights, points[pairs.receiver])

    def sums():
        cavity = rng_cavity[: pairs.n_edges], rng_cavity[pairs.n_edges :]
        return edges.edge_sums(pairs, points, *cavity)

    rng_cavity = rng.normal(size=(len(pairs.sender), 7))
    one_by_one, summed = messages(), sums()
    monkeypatch.setattr(edges, "_FEW", 0)
    monkeypatch.setattr(edges, "_LITTLE", 0)
    np.testing.assert_allclose(messages(), one_by_one, atol=1e-12)
    monkeypatch.setattr(edges, "_ENTRIES", 6 * 7 * 5)
    np.testing.assert_allclose(messages(), one_by_one, atol=1e-12)
    for found, expected in zip(sums(), summed, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_factors_on_one_pair_are_one_edge():
    x, y = real("x"), real("y")
    whole = credo.HybridNet(
        [x, y],
        [
            potentials.gaussian(x),
            potentials.laplace(x, y),
            credo.GaussianFactor([y, x], [[1.0, 0.3], [0.3, 0.5]], [0.4, -0.2]),
        ],
    )
    pairs = ParticlePairs(whole.to_factor_graph())
    assert pairs.n_edges == 1
    assert [swapped for _, swapped in pairs.classes[0].members] == [False, True]
    exact = truth(whole)
    found = ask(whole, "particle-bp(particles=200)")
    close(found, exact, 0.01)
    assert found.log_z.value == pytest.approx(exact.log_z, abs=0.01)


@pytest.mark.parametrize("method", BOTH)
def test_evidence_conditions_every_kind_of_variable(method):
    tree = gaussian_tree()
    found = ask(tree, method, evidence={"x1": 0.7})
    expected = credo.infer(tree, "gaussian", evidence={"x1": 0.7})
    assert found.marginals["x1"].mean == 0.7
    for name in tree.names:
        assert found.marginals[name].mean == pytest.approx(expected.marginals[name].mean, abs=0.02)
    assert found.log_z.value == pytest.approx(expected.log_z.value, abs=0.02)
    seen = {"x": 1.0, "t": 2}
    close(ask(switching_loop(), method, evidence=seen), _conditional(switching_loop(), seen), 0.05)


def _conditional(model, seen):
    return truth(compact(pose(model, seen)[1]).problem.graph)


@pytest.mark.parametrize("method", BOTH)
def test_isolated_variables_and_separate_parts(method):
    a, b, c, d = (real(name) for name in "abcd")
    s = credo.Variable("s", 2)
    parts = [
        credo.GaussianFactor([a, b], [[1.0, 0.4], [0.4, 1.0]], [1.0, 0.0]),
        potentials.gaussian_mixture(c, [0.5, 0.5], [-3.0, 3.0], [0.1, 0.2]),
        potentials.gaussian(d, 500.0, 0.01),
        credo.TableFactor([s], [1.0, 3.0]),
        credo.TableFactor.from_log([], 2.0),
    ]
    model = credo.HybridNet([a, b, c, d, s], parts)
    found = ask(model, method)
    assert found.marginals["a"].mean == pytest.approx(1 / 0.84, abs=0.02)
    assert found.marginals["c"].variance == pytest.approx(9.15, abs=1e-3)
    assert found.marginals["d"].mean == pytest.approx(500, abs=1e-3)
    assert found.marginals["d"].sd == pytest.approx(0.1, abs=1e-3)
    np.testing.assert_allclose(found.marginals["s"], [0.25, 0.75])
    pair = credo.GaussianNet([[1.0, 0.4], [0.4, 1.0]], [1.0, 0.0]).log_z
    assert found.log_z.value == pytest.approx(pair + np.log(4) + 2.0, abs=0.01)


@pytest.mark.parametrize("method", BOTH)
def test_where_nothing_is_left_to_infer_the_answer_is_exact(method):
    net = gaussian_tree(2)
    found = credo.infer(net, method, evidence={"x0": 0.3, "x1": -0.2})
    assert found.log_z.kind == "exact"
    score = net.to_factor_graph().log_score({"x0": 0.3, "x1": -0.2})
    assert found.log_z.value == pytest.approx(score)


@pytest.mark.parametrize("method", [*METHODS, "particle-bp(proposal=belief, steps=2)"])
def test_the_same_seed_gives_the_same_answer(method):
    model = laplace_chain()
    one, two, other = (ask(model, method, seed=seed) for seed in (4, 4, 5))
    assert one.log_z == two.log_z
    assert one.log_z != other.log_z
    x = np.linspace(-2, 3, 5)
    np.testing.assert_array_equal(one.marginals["x0"].density(x), two.marginals["x0"].density(x))


@pytest.mark.parametrize("method", BOTH)
def test_a_run_goes_on_from_an_earlier_one(method):
    model = laplace_chain()
    whole = ask(model, method, max_iter=8)
    first = ask(model, method, max_iter=5)
    rest = ask(model, method, max_iter=3, warm_start=first, seed=9)
    assert rest.log_z == whole.log_z
    assert len(rest.trace["change"]) == 3
    with pytest.raises(UnsupportedError, match="warm_start: expected a result of the same method"):
        ask(model, f"{method}(particles=10)", warm_start=first)


@pytest.mark.parametrize("method", [*METHODS, "nonparametric-bp(components=30)"])
def test_nothing_but_max_iter_limits_the_iterations(method):
    """The advice of a run that was cut, to raise max_iter, is true."""
    drawing = f"{method.rstrip(')')}{', ' if '(' in method else '('}redraws=100)"
    found = ask(laplace_chain(), drawing, max_iter=30)
    assert found.status is Status.OUT_OF_ITERATIONS and len(found.trace["change"]) == 30
    assert (found.trace["change"] == UNKNOWN).all()  # draws have no residual, however little they move
    assert (found.trace["moved"] < 1).all()
    again = ask(laplace_chain(), drawing, max_iter=31, tol=0.5)
    assert again.status is Status.OUT_OF_ITERATIONS
    more = ask(laplace_chain(), drawing.replace("redraws=100", "redraws=30"), max_iter=40)
    assert more.status is Status.CONVERGED and 30 < len(more.trace["change"]) < 40
    with pytest.raises(OptionError, match="iterations"):
        credo.infer(laplace_chain(), "particle-bp(iterations=3)")


@pytest.mark.parametrize("method", [*METHODS, "nonparametric-bp(components=30)"])
def test_a_run_that_has_converged_is_at_a_fixed_point_for_its_particles(method):
    for model in (laplace_chain(), gaussian_loop()):
        found = credo.infer(model, method, seed=0, tol=1e-6)
        assert found.status is Status.CONVERGED and "noise of its" in found.notes[0]
        change = found.trace["change"]
        kept = change[change < UNKNOWN]
        assert (kept[:-1] >= 1e-6).all() and kept[-1] < 1e-6
        problem = Problem.about(model.to_factor_graph())
        algorithm = algorithms.resolve(method)
        state, left = algorithm.step(problem, found.state)
        assert left < 1e-6
        again = algorithm.read(problem, state, Status.CONVERGED)
        assert again.log_z.value == pytest.approx(found.log_z.value, abs=1e-4)


def _seen(mean, effective):
    return ParticleStep(np.array([mean, 0.0]), np.ones(2), np.array([effective, 50.0]), np.zeros((0, 0)), 0.0)


def test_particles_are_drawn_until_they_move_as_noise_does_and_again_when_they_are_worn():
    noisy = [_seen(0.1 * (-1) ** k, 50.0) for k in range(9)]
    drifting = [_seen(float(k), 50.0) for k in range(30)]
    assert FIRST.draws(noisy[:8], None) and not FIRST.draws(noisy, None)
    assert FIRST.draws(drifting, None)
    assert FIRST.draws(noisy, 9) and not FIRST.draws(noisy, 8)
    kept = FIRST.after(noisy, True).after(noisy, False)
    assert kept == DrawPace(1, 1)
    assert not kept.draws([*noisy, _seen(0.0, 20.0)], None)
    worn = [*noisy, _seen(0.0, 5.0)]
    assert kept.draws(worn, None)
    anew = kept.after([*worn, _seen(0.0, 50.0)], True)
    assert anew == DrawPace(10, 0) and anew.draws([*worn, _seen(0.0, 50.0)], None)


def test_few_iterations_are_no_convergence():
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        found = credo.infer(laplace_chain(), "particle-bp", max_iter=2, seed=0)
    assert not found.converged
    assert len(found.trace["change"]) == len(found.trace["accepted"]) == 2


def test_the_random_walk_accepts_some_steps_and_not_all():
    found = ask(laplace_chain(), "particle-bp(proposal=belief, steps=3, stride=1.5)", max_iter=4)
    assert ((found.trace["accepted"] > 0.2) & (found.trace["accepted"] < 0.95)).all()


def test_skipped_updates_are_counted():
    found = ask(switching(), "ep-particle-bp", max_iter=4)
    assert found.trace["skipped"].shape == (4,)


# ---------------------------------------------------------------------------------------------
# Refusals
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", BOTH)
def test_what_cannot_be_treated_is_refused_in_a_sentence(method):
    x, y, z = (real(name) for name in "xyz")
    theta = credo.Variable("theta", credo.Simplex(2))
    three = credo.HybridNet([x, y, z], [credo.GaussianFactor([x, y, z], np.eye(3))])
    with pytest.raises(
        UnsupportedError, match=r"factors of one or two variables, the factor over \['x', 'y', 'z'\] has 3"
    ):
        credo.infer(three, method)
    assert ask(three, method, evidence={"z": 0.0}).marginals["x"].sd == pytest.approx(1, abs=0.02)
    with pytest.raises(
        UnsupportedError,
        match=r"real, positive and interval variables, and 'theta' is continuous .simplex.",
    ):
        credo.infer(credo.HybridNet([theta], [potentials.dirichlet(theta, 2.0)]), method)
    pair = gaussian_tree(2)
    with pytest.raises(UnsupportedError, match="it gives marginals and log Z, and the question asks for MAP"):
        credo.infer(pair, method, maximise="all")
    with pytest.raises(UnsupportedError, match="the question asks for samples"):
        credo.sample(pair, 3, method=method)
    with pytest.raises(ModelError, match="no integral: it does not fall off along 'y'"):
        ask(credo.HybridNet([x, y], [potentials.gaussian(x)]), method)


def _bad(x, y):
    return np.where(np.abs(np.asarray(x)) < 4, np.nan, 0.0) + 0 * np.asarray(y)


def _bad_far_away(x):
    return np.where(np.abs(np.asarray(x)) > 1e3, np.nan, -0.5 * np.asarray(x) ** 2)


def test_potentials_that_are_no_numbers_are_refused_by_name():
    x, y = real("x"), real("y")
    with pytest.raises(ModelError, match=r"factor over \['x', 'y'\].*nan"):
        credo.HybridNet([x, y], [credo.DensityFactor([x, y], _bad)])
    model = credo.HybridNet([x], [credo.DensityFactor([x], _bad_far_away)])
    assert ask(model, "particle-bp").marginals["x"].sd == pytest.approx(1, abs=0.01)


def _beyond(x, y):
    return np.where(np.asarray(x) + 0 * np.asarray(y) > 2.5, np.inf, -np.abs(np.asarray(x) - np.asarray(y)))


def test_an_infinite_potential_is_named_when_it_is_met():
    x, y = real("x"), real("y")
    own = [potentials.gaussian(x, 3.0, 1.0), potentials.gaussian(y)]
    model = credo.HybridNet([x, y], [*own, credo.DensityFactor([x, y], _beyond)])
    with pytest.raises(
        ModelError, match=r"factor over \['x', 'y'\]: log-potentials must be numbers below inf"
    ):
        ask(model, "particle-bp")


def _wall(x):
    return np.where(np.asarray(x) > 0, -np.asarray(x), -np.inf)


def _other_wall(x):
    return np.where(np.asarray(x) < -1, np.asarray(x), -np.inf)


def test_factors_that_contradict_each_other_are_told():
    x, y = real("x"), real("y")
    factors = [credo.DensityFactor([x], _wall), credo.DensityFactor([x], _other_wall), potentials.gaussian(y)]
    with pytest.raises((ZeroProbabilityError, ModelError)):
        ask(credo.HybridNet([x, y], factors), "particle-bp")


def test_hard_walls_are_respected():
    x, y = real("x"), real("y")
    model = credo.HybridNet(
        [x, y], [credo.DensityFactor([x], _wall), potentials.gaussian(y), potentials.laplace(x, y)]
    )
    for method in BOTH:
        found = ask(model, method)
        exact = _wall_truth()
        assert found.marginals["x"].mean == pytest.approx(exact[0], abs=0.01)
        assert found.log_z.value == pytest.approx(exact[1], abs=0.01)
        assert np.isneginf(found.marginals["x"].log_density(-0.5))


def _wall_truth():
    x, y = np.linspace(0, 20, 2001), np.linspace(-8, 8, 1601)
    log_p = -x[:, None] - 0.5 * y**2 - 0.5 * np.log(2 * np.pi) - np.abs(x[:, None] - y)
    mass = np.exp(log_p).sum(axis=1) * 0.01
    return (x * mass).sum() / mass.sum(), np.log(np.trapezoid(mass, x))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("particle-bp(particles=1)", "particles must be at least 2"),
        ("particle-bp(particles=2.5)", "particles must be a whole number"),
        ("particle-bp(redraws=-1)", "redraws must be at least 0"),
        ("particle-bp(proposal=prior)", "proposal must be one of"),
        ("particle-bp(steps=0)", "steps must be at least 1"),
        ("particle-bp(stride=-1)", "stride must be at least 0"),
        ("particle-bp(spread=-1)", "spread must be at least 0"),
        ("ep-particle-bp(components=0)", "components must be at least 1"),
        ("ep-particle-bp(points=3)", "points must be at least 8"),
        ("ep-particle-bp(widen=0.5)", "widen must be at least 1"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(OptionError, match=message):
        credo.infer(gaussian_tree(2), options)


def test_steps_can_be_taken_by_hand():
    problem = Problem.about(gaussian_tree(3).to_factor_graph())
    for algorithm in (ParticleBP(particles=20), EPParticleBP(particles=20)):
        state = algorithm.start(problem, np.random.default_rng(0))
        new, change = algorithm.step(problem, state)
        assert len(new.steps) == len(state.steps) + 1
        assert change == UNKNOWN
        assert not np.array_equal(new.cloud.particles, state.cloud.particles)
