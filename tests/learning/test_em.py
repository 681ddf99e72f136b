"""EM against enumeration, iterate by iterate; monotone; symmetric starts; priors, ties, batches, refusals."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import credo
from credo import BayesNet, FactorGraph, MarkovNet
from credo.core.errors import ConvergenceError, CredoError
from credo.core.result import Result, Status
from credo.data.table import StateTable
from credo.inference.messages.bp import BP
from credo.inference.problem.base import Algorithm
from credo.kernels import expected_counts as kernels
from credo.learning import EM, fit, log_likelihood
from credo.learning import e_step as e_step_module
from credo.learning.e_step import EStep
from credo.learning.em_data import unit_batches
from credo.learning.expectations import Oracle
from credo.learning.hidden_parts import HiddenParts
from credo.optimise.run import current_run

QUIET = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
STATES = {"a": 2, "b": 3, "c": 2, "d": 2, "e": 1}
PARENTS = {"b": ["a"], "c": ["a", "b"], "d": ["c"], "e": ["d"]}


def net(seed=0, **options):
    return BayesNet.random(STATES, PARENTS, seed=seed, **options)


def rows_of(model, count, missing, seed=0):
    rng = np.random.default_rng(seed)
    rows = credo.sample(model, count, seed=seed).indices.copy()
    rows[rng.random(rows.shape) < missing] = -1
    return rows[(rows >= 0).any(axis=1)]


def completions(row, sizes):
    return list(itertools.product(*[range(s) if x < 0 else [x] for x, s in zip(row, sizes, strict=True)]))


def em_by_enumeration(model, rows, iterations, *, pseudo=0.0, hard=False, groups=(), often=None):
    """Tables and log-likelihood of each iterate, from plain loops over all completions of all rows."""
    names, sizes = list(model.variables.names), model.variables.sizes
    axes = {n: [names.index(p) for p in (*model.parents[n], n)] for n in names}
    tables = {n: model.tables[n].copy() for n in names}
    history = []
    for _ in range(iterations + 1):
        counts = {n: np.full(tables[n].shape, float(pseudo)) for n in names}
        value = 0.0
        for row, times in zip(rows, np.ones(len(rows)) if often is None else often, strict=True):
            states = completions(row, sizes)
            weights = [np.prod([tables[n][tuple(x[i] for i in axes[n])] for n in names]) for x in states]
            if hard:
                best = int(np.argmax(weights))
                value += times * np.log(weights[best])
                weights = [float(k == best) for k in range(len(states))]
            else:
                value += times * np.log(sum(weights))
            for x, weight in zip(states, weights, strict=True):
                for n in names:
                    counts[n][tuple(x[i] for i in axes[n])] += times * weight / sum(weights)
        prior = sum(pseudo * np.log(tables[n]).sum() for n in names) if pseudo else 0.0
        history.append((np.concatenate([tables[n].ravel() for n in names]), value, value + prior))
        for group in groups:
            pooled = sum(counts[n] for n in group)
            counts.update(dict.fromkeys(group, pooled))
        for n in names:
            total = counts[n].sum(-1, keepdims=True)
            tables[n] = np.where(total > 0, counts[n] / np.where(total > 0, total, 1), tables[n])
    return history


def iterates(model, data, learner, iterations, **options):
    """The models after 0, 1, 2, ... iterations."""
    return [
        fit(model, data, learner, max_iter=k, tol=0.0, **options) for k in range(1, iterations + 1)
    ]  # fmt: skip


@QUIET
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pseudo", [0.0, 0.5])
def test_every_iterate_equals_enumeration_with_random_missing_values(seed, pseudo):
    model, rows = net(seed), rows_of(net(seed + 10), 60, 0.35, seed)
    expected = em_by_enumeration(model, rows, 4, pseudo=pseudo)
    learner = f"em(start=given,prior=uniform(count={pseudo}))"
    for k, found in enumerate(iterates(model, rows, learner, 4), start=1):
        assert found.model.flat_tables == pytest.approx(expected[k][0], abs=1e-12)
        assert found.objective * len(rows) == pytest.approx([e[2] for e in expected[: k + 1]], abs=1e-9)
        assert found.log_likelihood.value == pytest.approx(expected[k][1], abs=1e-9)
        assert found.log_likelihood.kind == "exact"


@QUIET
@pytest.mark.parametrize("inference", ["junction-tree", "junction-tree(propagation=hugin)", "enumerate"])
@pytest.mark.parametrize("limit", [8.0, 0.5])
def test_every_exact_engine_gives_the_same_iterates(inference, limit, monkeypatch):
    """With the low limit all parts of more than one state go through join trees."""
    monkeypatch.setattr(e_step_module, "_ENUMERATED", limit)
    model, rows = net(1), rows_of(net(2), 50, 0.4)
    expected = em_by_enumeration(model, rows, 3)
    found = fit(model, rows, "em(start=given)", inference=inference, max_iter=3, tol=0.0)
    assert found.model.flat_tables == pytest.approx(expected[3][0], abs=1e-12)
    assert found.objective * len(rows) == pytest.approx([e[1] for e in expected], abs=1e-9)


@QUIET
@pytest.mark.parametrize("limit", [8.0, 0.5])
@pytest.mark.parametrize("inference", [None, "enumerate"])
def test_hard_em_equals_enumeration_and_never_falls(inference, limit, monkeypatch):
    monkeypatch.setattr(e_step_module, "_ENUMERATED", limit)
    model, rows = net(3), rows_of(net(4), 60, 0.3)
    often = np.random.default_rng(0).random(len(rows))  # without weights, counts tie and rounding decides
    expected = em_by_enumeration(model, rows, 3, hard=True, often=often)
    learner = "em(start=given,hard=true)"
    found = fit(model, rows, learner, weights=often, inference=inference, max_iter=3, tol=0.0)
    assert found.model.flat_tables == pytest.approx(expected[3][0], abs=1e-12)
    assert found.objective * often.sum() == pytest.approx([e[1] for e in expected], abs=1e-9)
    assert (np.diff(found.objective) > -1e-12).all()
    assert found.log_likelihood.value == pytest.approx(log_likelihood(found.model, rows, weights=often).value)


@QUIET
def test_tied_tables_stay_one_and_equal_enumeration():
    states, parents = dict.fromkeys("wxyz", 2), {"x": ["w"], "y": ["x"], "z": ["y"]}
    model = BayesNet(
        states, parents, {"w": [0.5, 0.5]} | dict.fromkeys("xyz", np.array([[0.7, 0.3], [0.4, 0.6]]))
    )
    rows = rows_of(BayesNet.random(states, parents, seed=1), 80, 0.4)
    expected = em_by_enumeration(model, rows, 4, groups=["xyz"])
    found = fit(model, rows, "em(start=given,tie=[['x','y','z']])", max_iter=4, tol=0.0)
    assert found.model.flat_tables == pytest.approx(expected[4][0], abs=1e-12)
    assert np.array_equal(found.model.tables["x"], found.model.tables["z"])
    assert (np.diff(found.objective) > -1e-12).all()


def test_complete_data_are_the_closed_form():
    rows = credo.sample(net(1), 300, seed=0).indices
    for options in ("", "prior=bdeu(size=5)"):
        found, direct = fit(net(), rows, f"em({options})"), fit(net(), rows, f"counts({options})")
        assert found.status is Status.EXACT and len(found.objective) == 2
        assert found.model == direct.model
        assert found.log_likelihood.value == pytest.approx(direct.log_likelihood.value)


@QUIET
@pytest.mark.parametrize("name", ["asia", "sprinkler", "student"])
@pytest.mark.parametrize("kind", ["missing", "hidden"])
@pytest.mark.parametrize("learner", ["em(start=random)", "em(start=random,prior=bdeu)"])
def test_the_objective_never_falls_with_exact_inference(name, kind, learner):
    truth = getattr(credo.datasets, name)()
    rows = rows_of(truth, 100, 0.3 if kind == "missing" else 0.0)
    if kind == "hidden":
        rows[:, [1, 2]] = -1
    # The named networks have zeros, which a random start would keep.
    start = BayesNet.random(
        {v.name: v.states for v in truth.variables},
        {n: truth.parents[n] for n in truth.variables.names},
        seed=0,
    )
    for inference, steps in (("junction-tree(propagation=hugin)", 2), (None, 15)):
        found = fit(start, rows, learner, inference=inference, max_iter=steps, seed=1)
        assert (np.diff(found.objective) > -1e-12).all()
        assert found.objective[-1] > found.objective[0]
        assert not [n for n in found.notes if "fell" in n]
    assert found.log_likelihood.value == pytest.approx(log_likelihood(found.model, rows).value, abs=1e-8)


def mixture(seed=0, classes=3, children=5):
    names = [f"x{k}" for k in range(children)]
    states = {"h": classes} | dict.fromkeys(names, 3)
    parents = {n: ["h"] for n in names}
    drawn = BayesNet.random(states, parents, seed=seed, concentration=0.4)
    return BayesNet(states, parents, dict(drawn.tables) | {"h": np.arange(1, classes + 1) / 6})


def uniform(model):
    sizes = model.variables.sizes
    rows = np.repeat(1.0 / sizes, model.to_factor_graph().table_size)
    graph = model.to_factor_graph()
    return BayesNet.from_flat(model.variables, graph.scope_start, graph.scope, rows)


def hidden_class_data(count=1500):
    rows = credo.sample(mixture(), count, seed=0).indices.copy()
    rows[:, 0] = -1
    return rows


def test_a_symmetric_start_is_stuck_unless_it_is_perturbed():
    rows = hidden_class_data()
    start = uniform(mixture())
    stuck = fit(start, rows, "em(start=given)")
    assert np.allclose(stuck.model.tables["x0"], stuck.model.tables["x0"][0])
    found = fit(start, rows, "em", seed=0, max_iter=2000)
    assert any("alike at the start" in note for note in found.notes)
    assert found.log_likelihood.value > stuck.log_likelihood.value + 300
    truth = log_likelihood(mixture(), rows).value
    again = fit(start, rows, "em", seed=0, max_iter=2000)
    # Up to the rounding of the tier in which the kernels run.
    assert np.allclose(again.model.flat_tables, found.model.flat_tables, rtol=0, atol=1e-9), "the same seed"
    best = fit(start, rows, "em(restarts=4)", seed=0, max_iter=2000)
    assert best.log_likelihood.value > truth, "the maximum is above the truth on its own data"


def test_two_alike_states_of_three_are_found_and_different_ones_left_alone():
    model = mixture()
    tables = {n: model.tables[n].copy() for n in model.variables.names}
    for n, table in tables.items():
        if n != "h":
            table[2] = table[1]
    twins = BayesNet(model.variables, {n: model.parents[n] for n in tables}, tables)
    rows = hidden_class_data(200)
    found = fit(twins, rows, "em", seed=0, max_iter=2000)
    assert any("states of 'h', which is hidden, were alike" in note for note in found.notes)
    assert not np.allclose(found.model.tables["x0"][1], found.model.tables["x0"][2])
    assert not fit(model, rows, "em", max_iter=2000).notes
    # A hidden leaf has nothing below that could tell its states apart.
    leaf = uniform(BayesNet.random({"x": 2, "h": 2}, {"h": ["x"]}, seed=0))
    assert not fit(leaf, {"x": [0, 1]}, "em").notes


def test_a_hidden_class_is_recovered_from_its_own_samples():
    rows = hidden_class_data(20_000)
    found = fit(mixture(7), rows, "em(restarts=5)", seed=3, max_iter=3000, tol=1e-7)
    order = min(
        itertools.permutations(range(3)),
        key=lambda p: np.abs(found.model.tables["x0"][list(p)] - mixture().tables["x0"]).sum(),
    )
    assert found.model.tables["h"][list(order)] == pytest.approx(mixture().tables["h"], abs=0.05)
    for k in range(5):
        learned = found.model.tables[f"x{k}"][list(order)]
        assert learned == pytest.approx(mixture().tables[f"x{k}"], abs=0.08)


def test_restarts_return_the_best_run_and_list_all():
    rows = hidden_class_data(400)
    found = fit(mixture(5), rows, "em(restarts=5,start=random)", seed=0, max_iter=2000)
    assert len(found.restarts) == 5 and found.objective[-1] == found.restarts.max()
    assert len(set(found.restarts.round(6))) > 1
    assert found.restarts[0] == fit(mixture(5), rows, "em(start=random)", seed=0, max_iter=2000).objective[-1]


@QUIET
def test_stepwise_em_comes_near_the_full_one():
    rows = hidden_class_data(3000)
    start = mixture(1)
    full = fit(start, rows, "em(start=given)", max_iter=2000).objective[-1]
    for rate in (0.55, 0.6):
        found = fit(start, rows, f"em(start=given,batch=100,rate={rate})", max_iter=30, seed=1)
        assert found.objective[-1] > full - 0.02, "within a fiftieth of a nat per row"
        again = fit(start, rows, f"em(start=given,batch=100,rate={rate})", max_iter=30, seed=1)
        assert again.model == found.model
    whole = fit(start, rows, "em(start=given,batch=3000)", max_iter=5)
    assert whole.model == fit(start, rows, "em(start=given)", max_iter=5).model


def test_batches_together_are_all_rows():
    model, rows = net(1), rows_of(net(2), 100, 0.3)
    weights = np.arange(len(rows)) % 3 + 1.0
    data = StateTable.from_states(model.variables, rows, weights=weights)
    step = EStep(model.to_factor_graph(), data, Oracle(None))
    tables = np.log(model.flat_tables)
    whole = step(tables)
    total, counts = 0.0, np.zeros_like(whole.counts)
    parts = [*unit_batches(np.arange(len(data)), 30, 0, ())]
    for rows, _ in parts:
        share = weights[rows].sum() / data.total
        found = step.batch(rows)(tables)
        total += share * found.log_weight
        counts += share * found.counts
    assert total == pytest.approx(whole.log_weight) and parts[-1][1] == ()
    assert counts == pytest.approx(whole.counts)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_change_a_bit(threads, monkeypatch):
    monkeypatch.setattr(e_step_module, "_WORTH", 1)
    monkeypatch.setattr(e_step_module, "_ENUMERATED", 1.0)
    model, rows = net(1), rows_of(net(2), 300, 0.4)
    data = StateTable.from_states(model.variables, rows)
    tables = np.log(model.flat_tables)
    one = EStep(model.to_factor_graph(), data, Oracle(None), threads=1)(tables)
    many = EStep(model.to_factor_graph(), data, Oracle(None), threads=threads)(tables)
    assert many.log_weight == one.log_weight and np.array_equal(many.counts, one.counts)


def test_expected_counts_add_up():
    """Every table's counts sum to the total weight, whatever is missing."""
    model, rows = net(1), rows_of(net(2), 200, 0.5)
    data = StateTable.from_states(model.variables, rows)
    found = EStep(model.to_factor_graph(), data, Oracle(None))(np.log(model.flat_tables))
    sums = np.add.reduceat(found.counts, model.to_factor_graph().table_start)
    assert sums == pytest.approx(np.full(len(sums), data.total))


def test_rows_that_agree_around_their_hidden_variables_are_solved_once():
    chain = BayesNet.random(
        {f"x{k}": 2 for k in range(9)}, {f"x{k}": [f"x{k - 1}"] for k in range(1, 9)}, seed=0
    )
    rows = credo.sample(chain, 2000, seed=0).indices.copy()
    rows[:, [2, 6]] = -1
    parts = HiddenParts.of(chain.to_factor_graph(), StateTable.from_states(chain.variables, rows))
    assert len(parts) == 2 and len(parts.weight) == 8
    assert parts.weight.sum() == 2 * 2000
    assert sorted(parts.variables(p).tolist() for p in range(2)) == [[2], [6]]
    rows[:, 3:6] = -1
    parts = HiddenParts.of(chain.to_factor_graph(), StateTable.from_states(chain.variables, rows))
    assert len(parts) == 1 and parts.variables(0).tolist() == [2, 3, 4, 5, 6] and len(parts.weight) <= 4


def test_tiny_and_huge_tables_are_done_with_logarithms():
    tiny = 1e-300
    model = BayesNet(
        {"h": 2, "x": 2, "y": 2},
        {"x": ["h"], "y": ["h"]},
        {"h": [0.5, 0.5], "x": [[1 - tiny, tiny]] * 2, "y": [[1 - tiny, tiny], [1 - 2 * tiny, 2 * tiny]]},
    )
    found = fit(model, {"x": [1], "y": [1]}, "em(start=given)")
    assert found.objective[0] == pytest.approx(np.log(1.5) + 2 * np.log(tiny))
    data = StateTable.of(model.variables, {"x": [1], "y": [1]})
    for limit in (0.0, 8.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(e_step_module, "_ENUMERATED", limit)
            counts = EStep(model.to_factor_graph(), data, Oracle(None))(np.log(model.flat_tables)).counts
        assert counts[:2] == pytest.approx([1 / 3, 2 / 3])


def test_wide_neighbourhoods_need_no_number_of_their_own():
    names = [f"x{k}" for k in range(70)]
    model = BayesNet.random({"h": 2} | dict.fromkeys(names, 2), {n: ["h"] for n in names}, seed=0)
    rows = credo.sample(model, 50, seed=0).indices.copy()
    rows[:, 0] = -1
    data = StateTable.from_states(model.variables, rows)
    found = EStep(model.to_factor_graph(), data, Oracle(None))(np.log(model.flat_tables))
    assert found.log_weight == pytest.approx(log_likelihood(model, rows).value)


@QUIET
def test_approximate_inference_is_any_inference():
    parents = {"c": ["a", "b"], "d": ["a", "b"], "e": ["c", "d"]}
    model = BayesNet.random(dict.fromkeys("abcde", 2), parents, seed=0)
    rows = rows_of(BayesNet.random(dict.fromkeys("abcde", 2), parents, seed=1), 200, 0.0)
    rows[:, [0, 1, 2]] = -1
    exact = fit(model, rows, "em(start=given)", max_iter=20)
    for inference in ("bp", "mean-field"):
        found = fit(model, rows, "em(start=given)", inference=inference, max_iter=20)
        assert found.log_likelihood.kind == "estimate"
        gain = log_likelihood(found.model, rows).value - log_likelihood(model, rows).value
        assert gain > 0.5 * (exact.log_likelihood.value - log_likelihood(model, rows).value)


def test_a_part_too_wide_for_exact_inference_goes_to_the_one_chosen(monkeypatch):
    monkeypatch.setattr(e_step_module, "_ENUMERATED", 1.0)

    model, rows = net(1), rows_of(net(2), 40, 0.4)
    expected = fit(model, rows, "em(start=given)", max_iter=2, tol=1.0)
    monkeypatch.setattr(e_step_module.Limits, "excess", lambda self, forecast: "what is allowed")
    found = fit(model, rows, "em(start=given)", inference=None, max_iter=2, tol=1.0)
    assert found.objective == pytest.approx(expected.objective, abs=0.05)
    with pytest.raises(CredoError, match="more than what is allowed; use"):
        fit(model, rows, "em(start=given)", inference="junction-tree", max_iter=2)


def undirected(seed=0):
    rng = np.random.default_rng(seed)
    scopes = {("a", "b"): (2, 3), ("b", "c"): (3, 2), ("c", "d"): (2, 2), ("d", "a"): (2, 2), ("b",): (3,)}
    return MarkovNet(
        {"a": 2, "b": 3, "c": 2, "d": 2}, {s: np.exp(rng.standard_normal(n)) for s, n in scopes.items()}
    )


@QUIET
@pytest.mark.parametrize("learner", ["em(start=given)", "em(start=given,prior=gaussian(scale=2))"])
def test_generalised_em_never_falls_and_reaches_the_gradient_learner(learner):
    model, rows = undirected(), rows_of(undirected(1), 100, 0.25)
    found = fit(model, rows, learner, max_iter=60, tol=1e-7)
    assert (np.diff(found.objective) > -1e-10).all()
    assert isinstance(found.model, MarkovNet) and found.log_likelihood.kind == "exact"
    direct = fit(model, rows, learner.replace("em(start=given", "likelihood(").replace("(,", "("), tol=1e-8)
    assert found.objective[-1] == pytest.approx(direct.objective[-1], abs=1e-3)
    assert found.log_likelihood.value == pytest.approx(log_likelihood(found.model, rows).value, abs=1e-8)


@QUIET
def test_log_linear_models_and_factor_graphs_learn_too():
    ring = np.stack([np.arange(5), (np.arange(5) + 1) % 5], axis=1)
    truth = MarkovNet.log_linear(np.full(5, 2), [(ring, np.eye(2), 0)], [0.9])
    rows = credo.sample(truth, 2000, seed=0).indices.copy()
    rows[:, 2] = -1
    found = fit(truth.with_weights([0.1]), rows, "em", max_iter=200, tol=1e-9, seed=0)
    assert abs(found.model.weights[0] - 0.9) < 0.1
    graph = undirected().to_factor_graph()
    learned = fit(graph, rows_of(undirected(1), 50, 0.3), "em(restarts=2,start=random)", max_iter=5, seed=0)
    assert isinstance(learned.model, FactorGraph) and len(learned.restarts) == 2
    hard = fit(graph, rows_of(undirected(1), 50, 0.3), "em(hard=true)", max_iter=5, seed=0)
    assert (np.diff(hard.objective) > -1e-10).all()


def test_states_never_seen_are_kept_made_uniform_or_refused():
    rows = rows_of(net(1), 100, 0.0).copy()
    rows[:, 0] = 0
    rows[::3, 2] = -1
    kept = fit(net(), rows, "em(start=given)").model
    assert kept.tables["b"][1] == pytest.approx(net().tables["b"][1])
    assert fit(net(), rows, "em(unseen=uniform)").model.tables["b"][1] == pytest.approx(np.full(3, 1 / 3))
    with pytest.raises(CredoError, match="table of 'b': no row of the data with a=1 tells"):
        fit(net(), rows, "em(unseen=refuse)")


def test_fixed_tables_stay_and_zeros_remain_zero():
    tables = {"h": [0.5, 0.5], "x": [[0.9, 0.1], [0.2, 0.8]], "y": [[1.0, 0.0], [0.5, 0.5]]}
    model = BayesNet({"h": 2, "x": 2, "y": 2}, {"x": ["h"], "y": ["h"]}, tables)
    data = {"x": [0, 1, 1, 0, 1], "y": [0, 1, 1, 0, 0]}
    found = fit(model, data, "em(fixed=['x'],start=given)").model
    assert found.tables["x"].tolist() == tables["x"] and found.tables["y"][0, 1] == 0
    restarted = fit(model, data, "em(fixed=['x'],restarts=3)", seed=0).model
    assert restarted.tables["x"].tolist() == tables["x"] and restarted.tables["y"][0, 1] == 0


@QUIET
def test_the_curves_and_the_status_say_what_happened():
    rows = hidden_class_data(300)
    found = fit(mixture(1), rows, "em", max_iter=3, tol=0.0, validation=0.3, seed=0)
    assert found.status is Status.OUT_OF_ITERATIONS and len(found.objective) == 4
    assert {len(v) for v in found.trace.values()} == {4}
    assert set(found.trace) == {"objective", "log_likelihood", "seconds", "validation"}
    assert fit(mixture(1), rows, "em", seconds=0.0).status is Status.OUT_OF_TIME
    with pytest.raises(ConvergenceError, match="em: max_iter was reached"):
        fit(mixture(1), rows, "em", max_iter=1, strict=True)


@QUIET
def test_ctrl_c_returns_what_was_found(monkeypatch):
    calls = []
    whole = EStep.__call__

    def interrupted(self, tables):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(self, tables)

    monkeypatch.setattr(EStep, "__call__", interrupted)
    found = fit(mixture(1), hidden_class_data(100), "em(restarts=3)", max_iter=10)
    assert found.status is Status.INTERRUPTED and len(found.objective) == 2 and len(found.restarts) == 1


@QUIET
@pytest.mark.parametrize("why", ["a signal", "the clock"])
def test_what_ends_em_ends_the_bp_inside_it_with_the_best_model_of_em(monkeypatch, why):
    rows, at = hidden_class_data(20), []
    whole = BP.advance

    def advance(self, *arguments):
        outer = current_run().outer
        if len(at) == 60 and why == "a signal":
            outer.root.note(2)
        elif len(at) == 60:
            outer.ends = 0.0
        at.append(1)
        return whole(self, *arguments)

    whole_start = fit(mixture(1), rows, "em", inference="bp", max_iter=30, tol=0.0)
    monkeypatch.setattr(BP, "advance", advance)
    found = fit(mixture(1), rows, "em(restarts=2)", inference="bp", max_iter=30, tol=0.0)
    assert found.status is (Status.INTERRUPTED if why == "a signal" else Status.OUT_OF_TIME)
    assert len(at) == 61, "nothing goes on after the step that was cut"
    steps = len(found.objective)
    assert 1 < steps < 31 and np.allclose(found.objective, whole_start.objective[:steps], rtol=1e-12)
    assert found.log_likelihood.value == pytest.approx(float(found.objective[-1]) * len(rows))


@QUIET
def test_a_falling_objective_is_noted(monkeypatch):
    values = iter([-3.0, -2.0, -2.5, -2.5])
    whole = EStep.__call__
    monkeypatch.setattr(
        EStep,
        "__call__",
        lambda self, t: e_step_module.ExpectedTables(next(values) * 100, whole(self, t).counts),
    )
    found = fit(mixture(1), hidden_class_data(100), "em", max_iter=3)
    assert "the objective fell in 1 of 3 iterations: a numerical problem" in found.notes


def test_tables_with_missing_cells_come_in_every_form(tmp_path):
    pd = pytest.importorskip("pandas")
    truth = credo.datasets.asia()
    frame = credo.sample(truth, 200, seed=0).to_frame().astype(object)
    holes = np.random.default_rng(0).random(frame.shape) < 0.2
    frame = frame.mask(holes)
    frame.to_csv(tmp_path / "data.csv", index=False)
    codes = np.array(
        [[-1 if pd.isna(x) else ["no", "yes"].index(x) for x in row] for row in frame.to_numpy()]
    )
    forms = [
        frame,
        codes,
        np.where(codes < 0, np.nan, codes),
        tmp_path / "data.csv",
        frame.to_dict("records"),
    ]
    try:
        frame.to_parquet(tmp_path / "data.parquet")
        forms.append(tmp_path / "data.parquet")
    except ImportError:
        pass
    learner = "em(prior=bdeu,start=given)"
    expected = fit(truth, forms[0], learner, tol=1e-4)
    for form in forms[1:]:
        assert fit(truth, form, learner, tol=1e-4).model == expected.model


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("start=uniform", "start must be one of ['auto', 'given', 'random'], got 'uniform'"),
        ("unseen=drop", "unseen must be one of ['keep', 'refuse', 'uniform'], got 'drop'"),
        ("hard=soft", "hard must be one of [False, True], got 'soft'"),
        ("restarts=0", "restarts must be at least 1, got 0"),
        ("steps=0", "steps must be at least 1, got 0"),
        ("batch=0", "batch must be at least 1, got 0"),
        ("threads=0", "threads must be at least 1, got 0"),
        ("rate=0.5", "rate must be above 0.5 and at most 1, got 0.5"),
        ("prior=nonsense", "no table prior named 'nonsense'"),
        ("prior=gaussian", "gaussian is a prior of weights; for a BayesNet use uniform, bdeu or towards"),
    ],
)
def test_wrong_options_get_a_sentence(options, message):
    with pytest.raises(CredoError, match=re.escape(message)):
        fit(net(), {"a": [0]}, f"em({options})")


def test_models_without_learnable_tables_are_refused():
    with pytest.raises(CredoError, match="bdeu is a prior of conditional tables; use gaussian"):
        fit(undirected(), {"a": [0]}, "em(prior=bdeu)")

    class Odd:
        def to_factor_graph(self):
            return undirected().to_factor_graph()

    with pytest.raises(CredoError, match="expected a BayesNet, LogLinear, MarkovNet or FactorGraph, got Odd"):
        fit(Odd(), {"a": [0]}, "em")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": [0], "b": [5]}, "data: row 0: variable 'b' has no state"),
        ({"a": []}, "data: expected at least one row, got none"),
        (np.full((2, 5), np.nan), "data: expected a row that observes a variable of the model, got none"),
        ({"a": [0.5]}, "data: row 0: variable 'a' has no state '0.5'"),
    ],
)
def test_bad_data_get_a_sentence(data, message):
    with pytest.raises(CredoError, match=re.escape(message)):
        fit(net(), data, "em")


@pytest.mark.parametrize("limit", [0.0, 8.0])
@pytest.mark.parametrize("inference", [None, "enumerate"])
@pytest.mark.parametrize("hard", [False, True])
def test_impossible_rows_are_named(limit, inference, hard, monkeypatch):
    monkeypatch.setattr(e_step_module, "_ENUMERATED", limit)
    model = BayesNet({"h": 2, "x": 2}, {"x": ["h"]}, {"h": [0.5, 0.5], "x": [[1, 0], [1, 0]]})
    learner = EM(start="given", hard=hard)
    with pytest.raises(CredoError, match="data: row 2 has probability zero under the model"):
        fit(model, {"x": [0, 0, 1]}, learner, inference=inference)
    message = re.escape("data: row 1 has probability zero under the model: its states of ['h', 'x'] have")
    with pytest.raises(CredoError, match=message):
        fit(model, {"h": [0, 0], "x": [0, 1]}, learner, inference=inference)


def test_inference_without_what_em_needs_is_refused():
    data = {"a": [0, 1], "d": [0, 1]}
    with pytest.raises(CredoError, match="computes no factor marginals"):
        fit(net(), data, "em", inference="conditional-gaussian")
    found = fit(net(), data, "em(hard=true)", inference="elimination")
    assert found.objective == pytest.approx(fit(net(), data, "em(hard=true)").objective)

    @dataclass(frozen=True)
    class Silent(Algorithm):
        name: ClassVar[str] = "silent"

        def why_not(self, problem):
            return None

        def run(self, problem, budget, rng):
            return Result(self.name, Status.EXACT)

    with pytest.raises(CredoError, match=r"finds no best states; use junction-tree, or hard=false"):
        fit(net(), data, "em(hard=true)", inference=Silent())


def test_kernels_run_uncompiled_to_the_same_numbers():
    model, rows = net(1), rows_of(net(2), 30, 0.4)
    data = StateTable.from_states(model.variables, rows)
    graph, tables = model.to_factor_graph(), model.flat_tables.copy()
    step = EStep(graph, data, Oracle(None), threads=1)
    expected = step(np.log(tables))
    parts, w = HiddenParts.of(graph, data), graph.wiring
    counts = np.zeros(len(tables))
    kernels.count_observed.py_func(
        data.states, data.counts, w.scope_start, w.scope, w.edge_stride, graph.table_start, counts
    )
    joint = np.round(2.0**parts.log2_joint).astype(np.int64)
    seen = float(counts @ np.log(tables))
    total, bad = kernels.enumerate_parts.py_func(
        np.log(tables), tables, w.sizes, parts.hidden_start, parts.hidden, parts.factor_start,
        parts.step_start, parts.step, parts.row_start, parts.weight, parts.base_start, parts.base,
        joint, 0, len(parts.weight), False, counts,
    )  # fmt: skip
    assert bad == -1 and seen + total == pytest.approx(expected.log_weight)
    assert counts == pytest.approx(expected.counts)
    masks = data.observed[:5]
    assert np.array_equal(
        kernels.label_parts.py_func(masks, graph.scope_start, graph.scope),
        kernels.label_parts(masks, graph.scope_start, graph.scope),
    )


@QUIET
def test_a_start_with_zeros_and_a_prior_is_impossible_only_at_the_start():
    model = credo.datasets.sprinkler()
    rows = rows_of(model, 50, 0.2)
    found = fit(model, rows, "em(prior=bdeu,start=given)", max_iter=5)
    assert found.objective[0] == -np.inf and np.isfinite(found.objective[1:]).all()
    assert (found.model.flat_tables > 0).all()
