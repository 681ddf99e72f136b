from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest

import credo
import hybrid_zoo as zoo
from credo import potentials
from credo.core.errors import (
    ConvergenceWarning,
    ModelError,
    OptionError,
    TooLargeError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.messages.bp import BP
from credo.inference.messages.grid_tables import Grids, discretise


@pytest.mark.parametrize("rule", ["trapezoid", "midpoint"])
def test_gaussian_trees_are_exact_up_to_the_grid(rule):
    net = zoo.gaussian_tree(8, 1)
    found = credo.infer(net, f"grid-bp(rule={rule})")
    zoo.same(found, credo.infer(net, "gaussian"), 1e-6)
    assert found.log_z.kind == "estimate" and found.status is Status.CONVERGED
    assert "200 points each, between" in found.notes[-1]


def test_gaussian_loops_give_the_bethe_value():
    net = zoo.gaussian_loop(strength=0.4)
    zoo.same(credo.infer(net, "grid-bp"), credo.infer(net, "gaussian-bp"), 1e-5)


def test_on_discrete_models_it_is_bp():
    grid = credo.datasets.ising_grid(3, coupling="uniform(low=-1, high=1)", seed=1)
    zoo.same(credo.infer(grid, "grid-bp"), credo.infer(grid, "bp"), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found, bp = (credo.infer(grid, m, maximise="all") for m in ("grid-bp", "bp"))
    assert dict(found.assignment) == dict(bp.assignment) and found.log_z == bp.log_z


def test_the_bimodal_cycle_has_the_published_bethe_value_and_two_modes():
    model = zoo.bimodal_cycle()
    x = np.linspace(-30, 30, 1201)  # the integral around a loop is the trace of a product of matrices
    weight = np.exp(-0.05 * np.abs(x)) * np.sqrt(0.05)
    pair = np.exp(model.factors[3].log_values(x[:, None], x[None, :])) * weight[:, None] * weight
    assert np.log(np.einsum("ij,ji->", pair @ pair, pair)) == pytest.approx(-16.1737, abs=1e-4)
    found = credo.infer(model, "grid-bp(low=-30, high=30, points=241, damping=0.5)")
    assert found.log_z.value == pytest.approx(1.1688, abs=1e-4)
    density = found.marginals["x0"]
    inner = density.values[1:-1]
    peaks = density.points[1:-1][(inner > density.values[:-2]) & (inner > density.values[2:])]
    np.testing.assert_allclose(peaks, [-9.75, 9.75], atol=0.25)
    searched = credo.infer(model, "grid-bp(damping=0.5)")
    assert searched.log_z.value == pytest.approx(1.1688, abs=1e-4)


def test_the_bimodal_tree_has_the_published_modes():
    variables = [zoo.real(f"x{i}") for i in range(8)]
    pairs = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (6, 7)]
    factors = [potentials.laplace(v, scale=10.0) for v in variables]
    factors += [potentials.bimodal(variables[a], variables[b]) for a, b in pairs]
    model = credo.HybridNet(variables, factors)
    found = credo.infer(model, "grid-bp(low=-25, high=25, points=401)")
    assert abs(found.marginals["x7"].mode) == pytest.approx(9.5, abs=0.13)
    assert abs(found.marginals["x0"].mode) == pytest.approx(9.85, abs=0.13)
    assert found.marginals["x7"].density(9.5) == pytest.approx(0.089, abs=1e-3)
    cut = credo.infer(model, "grid-bp(low=-10, high=10)")  # a grid that ends at the peaks
    assert cut.marginals["x7"].density(9.5) == pytest.approx(0.15, abs=3e-3)
    assert credo.infer(model, "grid-bp").log_z.value == pytest.approx(found.log_z.value, abs=1e-5)


def test_hybrid_trees_agree_with_enumeration_and_integration():
    model = zoo.switching()
    found, expected = credo.infer(model, "grid-bp"), zoo.truth(model)
    zoo.close(found, expected, 1e-6)
    assert found.log_z.value == pytest.approx(expected.log_z, abs=1e-6)
    chain = zoo.laplace_chain(2)
    zoo.close(credo.infer(chain, "grid-bp(points=400)"), zoo.truth(chain, count=1001), 2e-3)


def test_it_converges_with_the_grid():
    chain = zoo.laplace_chain(2)
    fine = zoo.truth(chain, -8, 8, 2001).log_z
    errors = [
        abs(credo.infer(chain, f"grid-bp(low=-8, high=8, points={n})").log_z.value - fine)
        for n in (50, 100, 200)
    ]
    assert errors[0] > 3 * errors[1] > 9 * errors[2]  # second order across the kink


def _decay(x):
    return np.where(np.asarray(x) > 0, -np.asarray(x), -np.inf)


def _box(x):
    return np.where((np.asarray(x) >= 2) & (np.asarray(x) < 3), 0.0, -np.inf)


def _step(x):
    return np.where(np.asarray(x) > 0.3, 1.0, 0.0) - 0.5 * np.asarray(x) ** 2


def _singular(x):
    inside = np.asarray(x) > 0
    safe = np.where(inside, x, 1.0)
    return np.where(inside, -0.5 * np.log(safe) - safe, -np.inf)


def _alone(function):
    x = zoo.real("x")
    return credo.HybridNet([x], [credo.DensityFactor([x], function)])


@pytest.mark.parametrize("rule", ["trapezoid", "midpoint"])
def test_grids_end_at_walls(rule):
    decay = credo.infer(_alone(_decay), f"grid-bp(rule={rule})")
    assert decay.status is Status.CONVERGED
    assert decay.log_z.value == pytest.approx(0.0, abs=2e-3)
    assert decay.marginals["x"].mean == pytest.approx(1.0, abs=2e-3)
    assert decay.marginals["x"].sd == pytest.approx(1.0, abs=2e-3)
    assert np.isneginf(decay.marginals["x"].log_density(-1e-6))
    box = credo.infer(_alone(_box), f"grid-bp(rule={rule})")
    assert box.log_z.value == pytest.approx(0.0, abs=1e-9)
    assert box.marginals["x"].mean == pytest.approx(2.5) and len(box.notes) == 1
    assert box.marginals["x"].variance == pytest.approx(1 / 12, rel=1e-3)


def test_a_wall_is_an_end_for_maxima_too():
    found = credo.infer(_alone(_decay), "grid-bp", maximise="all")
    assert 0 <= found.assignment["x"] < 1e-9 and found.log_z.value == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("points", [200, 201])
@pytest.mark.parametrize("place", [0.0, 0.013, 0.03, 0.047])
def test_a_jump_inside_of_a_grid_is_told_wherever_it_lies(points, place):
    def shifted(x):
        return _step(np.asarray(x) - place)

    found = credo.infer(_alone(shifted), f"grid-bp(points={points})")
    assert "with every other point" in found.notes[-1] and "give more points" in found.notes[-1]
    smooth = credo.infer(zoo.laplace_chain(2), f"grid-bp(points={points})")
    assert not any("every other point" in note for note in smooth.notes)


def test_a_pair_that_jumps_along_an_oblique_line_is_told():
    x, y = zoo.real("x"), zoo.real("y")

    def less(x, y):
        return np.where(np.asarray(x) < np.asarray(y), 0.0, -np.inf)

    factors = [potentials.gaussian(x), potentials.gaussian(y), credo.DensityFactor([x, y], less)]
    found = credo.infer(credo.HybridNet([x, y], factors), "grid-bp")
    assert found.log_z.value == pytest.approx(np.log(0.5), abs=0.02)
    assert "with every other point" in found.notes[-1]


@pytest.mark.parametrize("width", [10.0, 1000.0])
def test_a_ridge_narrower_than_a_cell_is_no_success(width):
    """Along x = -y the product is nearly flat: sums over points are not near the integral."""
    x, y = zoo.real("x"), zoo.real("y")

    def ridge(x, y):
        return -50 * (np.asarray(x) + np.asarray(y)) ** 2

    factors = [potentials.gaussian(x, 0.0, width**2), credo.DensityFactor([x, y], ridge)]
    with pytest.warns(ConvergenceWarning, match="grid-bp"):
        found = credo.infer(credo.HybridNet([x, y], factors), "grid-bp")
    assert found.status is Status.STALLED and "with every other point" in found.notes[-1]


def test_a_density_that_is_infinite_at_its_wall_is_no_success():
    with pytest.warns(ConvergenceWarning, match="grid-bp"):
        found = credo.infer(_alone(_singular), "grid-bp")
    assert found.status is Status.STALLED and "with every other point" in found.notes[-1]


def test_maxima_are_points_of_the_grid():
    net = zoo.gaussian_tree()
    found = credo.infer(net, "grid-bp(points=400)", maximise="all")
    exact = credo.infer(net, "gaussian", maximise="all")
    assert found.log_z.kind == "lower" and found.score.kind == "exact"
    assert exact.log_z.value - 1e-3 < found.log_z.value <= exact.log_z.value
    assert found.log_z.value == pytest.approx(net.to_factor_graph().log_score(dict(found.assignment)))
    for name in net.names:
        assert found.assignment[name] == pytest.approx(exact.assignment[name], abs=0.05)
    some = credo.infer(net, "grid-bp", maximise=["x0", "x3"])
    assert some.log_z.kind == "estimate"
    assert some.log_z.value == pytest.approx(
        credo.infer(net, "gaussian", maximise=["x0", "x3"]).log_z.value, abs=1e-3
    )
    model = zoo.switching()
    best = credo.infer(model, "grid-bp", maximise="all")
    scores = {
        (s, t): model.to_factor_graph().log_score(
            {"s": s, "t": t, "x": [-1.0, 1.5][s], "y": [-2.0, 0.0, 2.0][t]}
        )
        for s in range(2)
        for t in range(3)
    }
    assert best.log_z.value == pytest.approx(max(scores.values()), abs=1e-2)
    assert (best.assignment.index("s"), best.assignment.index("t")) == max(scores, key=scores.get)


def test_evidence_and_everything_observed():
    model = zoo.switching_loop()
    found = credo.infer(model, "grid-bp", evidence={"x": 0.4, "t": 1})
    expected = zoo.truth(credo.HybridNet(*_sliced(model, {"x": 0.4, "t": 1})))
    assert found.log_z.value == pytest.approx(expected.log_z, abs=1e-3)
    np.testing.assert_allclose(found.marginals["s"], expected.marginals["s"], atol=1e-6)
    assert found.marginals["x"].mean == 0.4 and found.marginals["t"].tolist() == [0.0, 1.0, 0.0]
    point = {"s": 0, "x": 0.4, "t": 1, "y": 2.0}
    whole = credo.infer(model, "grid-bp", evidence=point)
    assert whole.log_z.value == pytest.approx(model.to_factor_graph().log_score(point))


def _sliced(model, evidence):
    graph = model.to_factor_graph().condition(evidence)
    return list(graph.variables), graph.factors


def test_disconnected_parts_one_state_and_alone():
    x, y = zoo.real("x"), zoo.real("y")
    one, alone = credo.Variable("one", 1), credo.Variable("alone", 3)
    factors = [potentials.gaussian(x, 3.0, 0.25), potentials.laplace(y, scale=2.0)]
    factors.append(credo.TableFactor([one], [4.0]))
    found = credo.infer(credo.HybridNet([x, y, one, alone], factors), "grid-bp(points=801)")
    assert found.log_z.value == pytest.approx(np.log(4 * 4 * 3), abs=1e-3)
    assert found.marginals["x"].sd == pytest.approx(0.5, abs=1e-5)
    np.testing.assert_allclose(found.marginals["alone"], 1 / 3)


def test_ranges_are_found_far_out_and_at_any_scale():
    x, y, z = zoo.real("x"), zoo.real("y"), zoo.real("z")
    factors = [
        potentials.gaussian_mixture(x, [0.5, 0.5], [5000.0, 5000.2], [1e-3, 1e-3]),
        credo.GaussianFactor.linear(y, [x], [-1.0], 1e-2),
        potentials.student(y, z, freedom=6.0, scale=3.0),
    ]
    found = credo.infer(credo.HybridNet([x, y, z], factors), "grid-bp")
    assert found.marginals["x"].mean == pytest.approx(5000.1, abs=1e-4)
    assert found.marginals["x"].variance == pytest.approx(0.011, rel=1e-3)
    assert found.marginals["y"].mean == pytest.approx(-5000.1, abs=1e-3)
    assert found.marginals["z"].variance == pytest.approx(9 * 6 / 4 + 0.021, rel=0.02)


def test_a_heavy_tailed_peak_far_out_is_not_lost():
    x, y = zoo.real("x"), zoo.real("y")
    factors = [potentials.student(x, freedom=4.0, centre=1e4), potentials.laplace(x, y)]
    found = credo.infer(credo.HybridNet([x, y], factors), "grid-bp")
    assert found.status is Status.CONVERGED
    assert found.log_z.value == pytest.approx(np.log(2 * 8 / 3), abs=0.03)  # a Student's integral times two
    assert found.marginals["x"].mean == pytest.approx(1e4, abs=0.01)
    assert found.marginals["x"].sd == pytest.approx(np.sqrt(2), rel=0.02)


def test_ranges_that_do_not_come_to_rest_are_no_success():
    x = zoo.real("x")
    with pytest.warns(ConvergenceWarning, match="grid-bp"):
        found = credo.infer(credo.HybridNet([x], [potentials.student(x, freedom=1e-6)]), "grid-bp")
    assert found.status is Status.STALLED
    assert any("the ranges of ['x'] still moved after 12 rounds" in note for note in found.notes)
    assert "are cut off by their grids" in found.notes[-1]
    wide = credo.HybridNet([x], [potentials.gaussian(x, -1e11, 1e20)])
    found = credo.infer(wide, "grid-bp")
    assert found.status is Status.CONVERGED and found.log_z.value == pytest.approx(0, abs=1e-6)


def test_a_search_for_ranges_that_is_cut_ends_with_its_coarse_answer(monkeypatch):
    exact = zoo.truth(zoo.laplace_chain(), count=181)
    for maximise, kind in (((), "estimate"), ("all", "lower")):
        with pytest.warns(ConvergenceWarning, match="grid-bp"):
            found = credo.infer(zoo.laplace_chain(), "grid-bp", seconds=0, maximise=maximise)
        assert found.status is Status.OUT_OF_TIME and found.log_z.kind == kind
    calls, run = [], BP.run

    def interrupted(*arguments):
        calls.append(arguments)
        return replace(run(*arguments), status=Status.INTERRUPTED)

    monkeypatch.setattr(BP, "run", interrupted)
    with pytest.warns(ConvergenceWarning, match="grid-bp"):
        found = credo.infer(zoo.laplace_chain(), "grid-bp")
    assert found.status is Status.INTERRUPTED and len(calls) == 1
    zoo.close(found, exact, 0.05)


def test_equal_factors_share_one_table():
    variables = [zoo.real(f"x{i}") for i in range(6)]
    factors = [potentials.laplace(a, b) for a, b in itertools.pairwise(variables)]
    factors += [potentials.laplace(variables[0], variables[5], scale=2.0), potentials.gaussian(variables[0])]
    graph = credo.HybridNet(variables, factors).to_factor_graph()
    grids = Grids(np.full(6, -5.0), np.full(6, 5.0), 11, "trapezoid")
    tables = discretise(graph, grids, np.ones(6, dtype=bool), 1e6)
    assert len(tables.log_tables) == 2 * 121 + 11 + 6 * 11
    for a, factor in enumerate(factors):
        points = np.linspace(-5, 5, 11)
        axes = np.meshgrid(*[points] * len(factor.scope), indexing="ij")
        np.testing.assert_allclose(tables.log_table(a), factor.log_values(*axes))
    np.testing.assert_allclose(np.exp(tables.log_table(len(factors))).sum(), 10.0)
    grids.high[3] = 6.0
    own = discretise(graph, grids, np.ones(6, dtype=bool), 1e6)
    assert len(own.log_tables) == 4 * 121 + 11 + 6 * 11


def test_a_cut_belief_is_told():
    net = zoo.gaussian_tree(3)
    found = credo.infer(net, "grid-bp(low=-0.5, high=0.5)")
    assert "are cut off by their grids; give low and high" in found.notes[-1]


def test_a_product_without_an_integral_is_refused_with_a_name():
    x, y = zoo.real("x"), zoo.real("y")
    with pytest.raises(ModelError, match="has no integral: it does not fall off along 'y'"):
        credo.infer(credo.HybridNet([x, y], [potentials.gaussian(x)]), "grid-bp")
    with pytest.raises(ModelError, match=r"\['x', 'y'\]: the product of all factors does not fall when they"):
        credo.infer(credo.HybridNet([x, y], [potentials.laplace(x, y, scale=3.0)]), "grid-bp")
    with pytest.raises(ModelError, match="has no integral: the belief about 'x' does not fall off"):
        credo.infer(credo.HybridNet([x], [potentials.student(x, freedom=1e-6)]), "grid-bp(rounds=40)")


def test_contradictions_are_named():
    s, x = credo.Variable("s", 2), zoo.real("x")
    model = credo.HybridNet(
        [s, x], [credo.TableFactor([s], [1.0, 0.0]), potentials.emission(x, s, [0.0, 1.0], 1.0)]
    )
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero under this model"):
        credo.infer(model, "grid-bp", evidence={"s": 1})
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero under this model"):
        credo.infer(model, "grid-bp", evidence={"s": 1, "x": 0.0})


def test_wrong_questions_and_options_are_refused():
    model = zoo.laplace_chain()
    with pytest.raises(UnsupportedError, match="MAP and marginal MAP, and the question asks for samples"):
        credo.sample(model, 2, method="grid-bp")
    theta = credo.Variable("theta", credo.Simplex(2))
    with pytest.raises(
        UnsupportedError,
        match=r"real, positive and interval variables, and 'theta' is continuous .simplex.",
    ):
        credo.infer(credo.HybridNet([theta], [potentials.dirichlet(theta, 1.0)]), "grid-bp")
    with pytest.raises(OptionError, match="expected both or neither"):
        credo.infer(model, "grid-bp(low=1)")
    with pytest.raises(OptionError, match="high - low must be at least"):
        credo.infer(model, "grid-bp(low=1, high=0)")
    with pytest.raises(OptionError, match="points must be at least 3"):
        credo.infer(model, "grid-bp(points=2)")
    with pytest.raises(TooLargeError, match="give fewer points, or low and high"):
        credo.infer(model, "grid-bp(max_entries=1000)")


def test_a_run_that_stops_early_says_so():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = credo.infer(zoo.switching_loop(), "grid-bp", max_iter=2)
    assert found.status is Status.OUT_OF_ITERATIONS
    assert np.isfinite(found.log_z.value)
