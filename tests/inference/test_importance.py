"""Importance sampling and annealing against exact answers, within their own errors; refusals."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from credo.core.errors import ConvergenceWarning, OptionError, TooLargeError, UnsupportedError
from credo.core.result import Estimate, Status
from credo.inference.sampling import ais, annealing
from credo.inference.sampling.sequential_draws import along_factors, along_parents, draw_states, turns_of
from zoo import ZOO, case

SUMS = [one for one in ZOO if one.names]


def gaps(found, problem, evidence):
    """How far log Z and the marginals are from the truth, in standard errors, one draw aside."""
    truth = Oracle(problem, evidence)
    error = max(found.log_z.error, 1e-9)
    yield abs(found.log_z.value - truth.log_z) / error
    known = {name for name, state in evidence.items() if not np.ndim(state)}
    is_whole = len(found.diagnostics["mcse"]) == len(problem.names)  # the evidence excluded no state
    free = [name for name in problem.names if is_whole or name not in known]
    errors = dict(zip(free, found.diagnostics["mcse"], strict=True))
    for name in free:
        p = truth.joint([name])
        gap = np.abs(found.marginals[name] - p).max() - 3 / found.diagnostics["ess"].max()
        yield max(gap, 0) / max(errors[name], 1e-9)


@pytest.mark.parametrize("guide", ["bp", "likelihood"])
def test_weighted_draws_are_right_within_their_errors(guide):
    """Every case of the zoo; weights over hundreds of nats and almost no possible states are left out."""
    tried = 0
    for problem in SUMS:
        if "exp(" in problem.id or problem.log_weights.size > 4096:
            continue
        for kind in ("none", "several"):
            evidence = problem.evidences[kind]
            try:
                found = credo.infer(
                    problem.graph, f"importance(guide={guide}, batch=4000)", evidence=evidence, seed=1,
                    max_iter=10,
                )  # fmt: skip
            except (ConvergenceWarning, UnsupportedError):
                continue
            tried += 1
            assert max(gaps(found, problem, evidence)) < 5.5, (problem.id, kind)
    assert tried > 30


def test_on_trees_belief_propagation_leaves_nothing_to_weigh():
    for name in ("chain", "tree with zeros"):
        problem = case(name)
        found = credo.infer(problem.graph, "importance", evidence=problem.evidences["several"], seed=0)
        assert found.log_z.error < 1e-6 and found.log_z.kind == "estimate"
        assert found.log_z.value == pytest.approx(
            Oracle(problem, problem.evidences["several"]).log_z, abs=1e-6
        )
        assert found.diagnostics["ess"][0] == pytest.approx(len(found.trace["ess"]) * 1000, rel=1e-6)


def test_without_evidence_a_network_is_drawn_from_its_parents_with_equal_weights():
    net = credo.datasets.asia()
    found = credo.infer(net, "importance(guide=likelihood)", seed=0)
    assert found.log_z.value == pytest.approx(0, abs=1e-12) and found.log_z.error < 1e-12
    graph = net.to_factor_graph()
    order, own = along_parents(graph)
    place = {graph.variables.names[i]: k for k, i in enumerate(order)}
    assert all(place[p] < place[c] for c in net.variables.names for p in net.parents[c])
    assert own == {i: i for i in order}


def test_likelihood_weighting_is_that_of_the_evidence_given_its_parents():
    net = credo.datasets.sprinkler()
    graph = net.to_factor_graph().condition({"wet": "yes"})
    order, own = along_parents(graph)
    rows, logs = draw_states(graph, turns_of(graph, order, None, own), 500, np.random.default_rng(0))
    wet = net.variables.position("wet")
    expected = [net.to_factor_graph().factors[wet].log_value(
        {"sprinkler": int(r[1]), "rain": int(r[2]), "wet": "yes"}) for r in rows]  # fmt: skip
    weights = [graph.log_scores(r[None])[0] for r in rows] - logs
    np.testing.assert_allclose(weights, expected, atol=1e-12)


def test_variables_go_from_neighbour_to_neighbour():
    graph = case("grid 3x3").graph
    order = along_factors(graph)
    for k in range(1, 9):
        near = {
            int(j) for a in range(graph.n_tables) if order[k] in graph.scope_of(a) for j in graph.scope_of(a)
        }
        assert near & set(order[:k])


def test_samples_have_the_frequencies_of_the_model():
    net = credo.datasets.sprinkler()
    drawn = credo.sample(net, 4000, evidence={"wet": "yes"}, method="importance", seed=0)
    exact = credo.infer(net, "enumerate", evidence={"wet": "yes"}).marginals["rain"]["yes"]
    assert (drawn["rain"] == "yes").mean() == pytest.approx(exact, abs=0.05)
    assert (drawn["wet"] == "yes").all()


def test_a_run_that_is_not_good_enough_says_how_good_it_is():
    grid = credo.datasets.ising_grid(4, coupling="normal(scale=2)", seed=0)
    with pytest.warns(
        ConvergenceWarning, match=r"importance: the .* is wanted there and of marginals \(error"
    ):
        found = credo.infer(grid, "importance(guide=likelihood, batch=2000)", max_iter=1, seed=0)
    assert found.status is Status.OUT_OF_ITERATIONS and "independent ones" in found.notes[0]
    with pytest.warns(
        ConvergenceWarning, match=r"worth .* independent ones, 1e\+06 are wanted: raise max_iter"
    ):
        credo.infer(grid, "importance(effective=1e6)", max_iter=1, seed=0)


def test_an_estimate_shows_its_standard_error():
    assert str(Estimate(1.0, "estimate", 0.012)) == "1 (estimate, standard error 0.012)"
    assert str(Estimate(1.0)) == "1 (estimate)"


def test_draws_without_weight_are_refused():
    never = {("a", "b", "c", "d"): np.zeros((9,) * 4)}
    never["a", "b", "c", "d"][8, 3, 1, 7] = 1.0
    graph = credo.FactorGraph(dict.fromkeys("abcd", 9), never)
    with pytest.raises(UnsupportedError, match="none of 2 draws has positive weight; give evidence"):
        credo.infer(graph, "importance(guide=likelihood, batch=2)", max_iter=1, seed=3)
    with pytest.raises(UnsupportedError, match="none of 2 chains ended at a joint state of positive weight"):
        credo.infer(graph, "ais(chains=2, temperatures=2)", seed=0)


# Annealing.


def random_rbm(seed, count=10, hidden=6, scale=1.0):
    rng = np.random.default_rng(seed)
    return credo.RBM(
        scale * rng.normal(size=(count, hidden)), rng.normal(size=count), rng.normal(size=hidden)
    )


def test_annealing_is_within_three_errors_on_48_of_50_machines():
    hits = 0
    for seed in range(50):
        rbm = random_rbm(seed)
        found = credo.infer(rbm, "ais", seed=seed)
        hits += abs(found.log_z.value - rbm.log_z()) <= 3 * found.log_z.error
    assert hits >= 48


def test_with_five_temperatures_the_mean_log_weight_is_far_below():
    rbm = random_rbm(0, scale=1.5)
    with pytest.warns(ConvergenceWarning, match=r"is wanted \(error\): raise temperatures or chains"):
        found = credo.infer(rbm, "ais(temperatures=5, chains=400)", seed=0)
    layers = credo.structures.dense_layers(rbm.to_factor_graph())
    begin = annealing.LayerPath(rbm.to_factor_graph(), layers, is_uniform=False).log_z
    logs = begin + found.diagnostics["log_weights"]
    assert rbm.log_z() - logs.mean() > 5 * logs.std(ddof=1) / 20


@pytest.mark.parametrize("options", ["", "base=uniform", "schedule=late", "direction=reverse"])
def test_annealing_of_tables_and_of_layers_finds_log_z_and_marginals(options):
    rbm, grid = random_rbm(3, 6, 5), case("grid 3x3")
    for model, truth in ((rbm, rbm.log_z()), (grid.graph, Oracle(grid).log_z)):
        found = credo.infer(model, f"ais({options})", seed=4)
        assert found.status is Status.CONVERGED and found.log_z.kind == "estimate"
        assert abs(found.log_z.value - truth) < 4.5 * found.log_z.error
        if found.marginals is None:
            assert "on the way there log Z was" in found.notes[1]
            continue
        exact = credo.infer(model, "enumerate").marginals.flat
        assert np.abs(found.marginals.flat - exact).max() < 0.25


def test_zeros_have_no_weight_at_the_end_and_evidence_is_kept():
    problem = case("grid with zeros")
    evidence = problem.evidences["several"]
    found = credo.infer(problem.graph, "ais(chains=400)", evidence=evidence, seed=0)
    assert abs(found.log_z.value - Oracle(problem, evidence).log_z) < 4 * found.log_z.error
    for name, state in evidence.items():
        if not np.ndim(state):
            assert found.marginals[name][state] == 1
    rbm = random_rbm(1, 5, 4)
    seen = {"v0": 1, "h2": 0, "v3": [0.2, 0.9]}
    exact = credo.infer(rbm, "enumerate", evidence=seen)
    found = credo.infer(rbm, "ais(chains=2000)", evidence=seen, seed=0)
    assert abs(found.log_z.value - exact.log_z.value) < 4 * found.log_z.error
    np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=0.05)
    with pytest.raises(UnsupportedError, match="some weights are zero, and chains that come back"):
        credo.infer(problem.graph, "ais(direction=reverse)")


def test_a_run_that_is_cut_is_still_without_bias():
    rbm = random_rbm(2, 6, 5, scale=0.3)

    def stop(iteration, view):
        view.stop()

    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(rbm, "ais(chains=4000)", seed=0, on_step=stop)
    assert 0 < len(found.trace["temperature"]) < 200 and found.marginals is None
    assert abs(found.log_z.value - rbm.log_z()) < 4 * found.log_z.error


def test_late_temperatures_are_those_of_boltzmann_machines():
    heat = ais._late(14500)
    assert ((heat < 0.5).sum(), ((heat >= 0.5) & (heat < 0.9)).sum(), len(heat)) == (500, 4000, 14501)
    np.testing.assert_allclose(heat[[0, 500, 4500, 14500]], [0, 0.5, 0.9, 1], atol=1e-12)


def test_wide_machines_are_annealed_in_single_precision_without_a_table_per_pair(monkeypatch):
    rbm = random_rbm(5)
    double = credo.infer(rbm, "ais", seed=0).log_z
    monkeypatch.setattr(annealing, "_SMALL", 0)
    monkeypatch.setattr(credo.FactorGraph, "as_tables", lambda graph: pytest.fail("asked for tables"))
    single = credo.infer(rbm, "ais", seed=0).log_z
    assert single.value != double.value
    assert abs(single.value - rbm.log_z()) < 4 * single.error
    with pytest.raises(TooLargeError, match="estimate it"):
        random_rbm(0, 30, 30).log_z()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("ais(chains=1)", "chains must be at least 2"),
        ("ais(temperatures=0)", "temperatures must be at least 1"),
        ("ais(base=none)", "base must be one of"),
        ("ais(error=-1)", "error must be at least 0"),
        ("importance(batch=1)", "batch must be at least 2"),
        ("importance(effective=-1)", "effective must be at least 0"),
        ("importance(guide=prior)", "guide must be one of"),
    ],
)
def test_options_are_checked(spec, sentence):
    with pytest.raises(OptionError, match=sentence):
        credo.infer(case("pair").graph, spec)


# Layer by layer.


def test_layers_are_drawn_at_once_with_the_right_frequencies():
    rbm = random_rbm(4, 4, 3)
    found = credo.infer(rbm, "gibbs(warmup=100)", evidence={"v2": 1}, max_iter=4000, seed=0)
    exact = credo.infer(rbm, "enumerate", evidence={"v2": 1}).marginals
    assert "a sweep draws each of them at once" in found.notes[-2]
    errors = dict(zip([n for n in exact if n != "v2"], found.diagnostics["mcse"], strict=True))
    for name, error in errors.items():
        assert abs(found.marginals[name][1] - exact[name][1]) < 5 * error
    drawn = credo.sample(
        random_rbm(5, 100, 60, scale=0.1), 40, method="gibbs(warmup=20, effective=0)", seed=0
    )
    assert drawn.indices.shape == (40, 160)
