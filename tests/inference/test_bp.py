"""Belief propagation against a dense one, exact answers on trees, and its bounds on loopy models."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import credo
from credo import FactorGraph, datasets
from credo.core.errors import (
    ConvergenceWarning,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.messages import engine, forms
from credo.inference.messages.bp import BP
from credo.inference.problem.base import Problem
from inference.dense_bp import DenseBP, bethe
from random_models import graphs, joint

ORDERS = [s for s in engine.SCHEDULES if s != "auto"]
TASKS = {"sum": 1.0, "max": 0.0}


def problem_of(graph, heat=1.0):
    n = len(graph.variables)
    return Problem(graph, np.full(n, heat), np.zeros(n, dtype=np.int64))


def scoped(sizes, scopes, seed, spread=0.5):
    """Normal log tables over the given scopes."""
    rng = np.random.default_rng(seed)
    tables = [spread * rng.standard_normal([sizes[i] for i in scope]) for scope in scopes]
    return FactorGraph.from_flat(
        FactorGraph.from_arrays(np.array(sizes)).variables,
        np.concatenate([[0], np.cumsum([len(s) for s in scopes])]),
        np.array([i for s in scopes for i in s], dtype=np.int64),
        np.concatenate([t.ravel() for t in tables]),
    )


def binary_loops():
    pairs = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5), (5, 0)]
    return scoped([2] * 6, [*pairs, (0,), (4,), (4,)], 1)


def mixed_loops():
    return scoped([2, 3, 4, 2, 3], [(0, 1), (1, 2), (2, 0), (1, 2, 3), (4, 3, 2, 0), (3,), (1,)], 2, 0.3)


MODELS = {"_Binary": binary_loops, "_Linear": mixed_loops}
FORMS = [(name, name) for name in MODELS] + [(name, "_Log") for name in MODELS]


def in_form(monkeypatch, model, form):
    """A problem whose messages are kept in the named form."""
    if form == "_Log":
        monkeypatch.setattr(forms, "SAFE_LOG", 0.0)
    problem = problem_of(MODELS[model]())
    state = BP().start(problem, np.random.default_rng(0))
    assert type(state.form).__name__ == form
    return problem


class TestAgainstDense:
    """The engine does what the equations say."""

    @pytest.mark.parametrize("schedule", ORDERS)
    @pytest.mark.parametrize(("model", "form"), FORMS)
    def test_every_schedule_and_form_reaches_the_same_fixed_point(self, monkeypatch, model, form, schedule):
        graph = in_form(monkeypatch, model, form).graph
        dense = DenseBP(graph).converge()
        found = credo.infer(graph, BP(schedule=schedule), tol=1e-12, seed=3)
        assert found.status is Status.CONVERGED
        np.testing.assert_allclose(found.marginals.flat, dense.marginals(), atol=1e-8)
        np.testing.assert_allclose(found.factor_marginals.flat, dense.factor_marginals(), atol=1e-8)
        np.testing.assert_allclose(np.exp(engine.log_messages(found.state)), dense.flat_messages(), atol=1e-8)
        assert found.log_z.kind == "estimate"
        value = bethe(graph, found.marginals, found.factor_marginals)
        assert found.log_z.value == pytest.approx(value, abs=1e-10)

    @pytest.mark.parametrize(("model", "form"), FORMS)
    def test_flooding_takes_the_same_steps(self, monkeypatch, model, form):
        problem = in_form(monkeypatch, model, form)
        bp, dense = BP(schedule="flooding"), DenseBP(problem.graph)
        if form != "_Log":
            dense.settle_unary()
        state = bp.start(problem, np.random.default_rng(0))
        for _ in range(12):
            state, change = bp.step(problem, state)
            assert change == pytest.approx(dense.flood(), abs=1e-12)
            np.testing.assert_allclose(np.exp(engine.log_messages(state)), dense.flat_messages(), atol=1e-12)

    @pytest.mark.parametrize("domain", ["log", "linear"])
    @pytest.mark.parametrize("model", MODELS)
    def test_damping_takes_the_same_steps(self, model, domain):
        problem = problem_of(MODELS[model]())
        bp = BP(schedule="flooding", damping=0.3, damping_domain=domain)
        dense = DenseBP(problem.graph, weight=0.7, domain=domain)
        state = bp.start(problem, np.random.default_rng(0))
        for _ in range(12):
            state, change = bp.step(problem, state)
            assert change == pytest.approx(dense.flood() / 0.7, abs=1e-12)  # without damping
            np.testing.assert_allclose(np.exp(engine.log_messages(state)), dense.flat_messages(), atol=1e-12)

    @pytest.mark.parametrize("schedule", ORDERS)
    @pytest.mark.parametrize("domain", ["log", "linear"])
    def test_damping_does_not_move_the_fixed_point(self, domain, schedule):
        graph = mixed_loops()
        bp = BP(schedule=schedule, damping=0.4, damping_domain=domain)
        found = credo.infer(graph, bp, tol=1e-12, seed=0)
        np.testing.assert_allclose(found.marginals.flat, DenseBP(graph).converge().marginals(), atol=1e-8)

    def test_many_sweeps_at_once_are_the_same_as_one_by_one(self):
        problem = problem_of(mixed_loops())
        for schedule in ("flooding", "sequential", "tree", "residual"):
            bp = BP(schedule=schedule)
            one = many = bp.start(problem, np.random.default_rng(0))
            changes = np.empty(0)
            while len(changes) < 5:  # as many as it does at a time
                many, new = bp.advance(problem, many, 5 - len(changes), 0.0)
                changes = np.append(changes, new)
            single = []
            for _ in range(5):
                one, change = bp.step(problem, one)
                single.append(change)
            np.testing.assert_allclose(changes, single, rtol=1e-9, atol=1e-13)
            np.testing.assert_allclose(
                engine.log_messages(many), engine.log_messages(one), rtol=1e-9, atol=1e-12
            )


def pairwise_loops():
    pairs = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 2), (6, 1), (3, 6)]
    return scoped([2, 3, 4, 2, 3, 1, 5], [*pairs, (3,), (1,), (6,), (5,)], 7)


class TestMaximaInPositiveNumbers:
    """Pairs with maximised variables take the same steps in positive numbers as in logarithms."""

    HEATS = ([0, 0, 0, 0, 0, 0, 0], [1, 0, 1, 0, 1, 0, 0], [0, 1, 1, 1, 0, 0, 1], [1, 1, 1, 1, 1, 1, 0])

    @pytest.mark.parametrize("schedule", ["flooding", "sequential", "residual"])
    def test_steps_are_those_of_logarithms(self, schedule):
        graph = pairwise_loops()
        weights = engine.Weighted.plain(graph)
        for heat in self.HEATS:
            problem = Problem(graph, np.array(heat, float), np.zeros(7, dtype=np.int64))
            fast = engine.start(problem, weights, np.random.default_rng(0))
            assert type(fast.form).__name__ == "_Mixed"
            slow = fast._replace(form=forms.safe_form(problem), values=fast.form.to_log(fast.values))
            for _ in range(10):
                fast, change = engine.advance(problem, fast, weights, schedule, 1, 0.0)
                slow, expected = engine.advance(problem, slow, weights, schedule, 1, 0.0)
                np.testing.assert_allclose(change, expected, atol=1e-12)
                np.testing.assert_allclose(
                    np.exp(engine.log_messages(fast)), np.exp(engine.log_messages(slow)), atol=1e-12
                )
            found, wanted = (engine.read(problem, s, weights) for s in (fast, slow))
            np.testing.assert_allclose(found.factor_marginals.flat, wanted.factor_marginals.flat, atol=1e-10)
            assert found.log_z == pytest.approx(wanted.log_z)

    def test_zeros_beside_maxima(self):
        table = np.array([[0.0, -np.inf, -1.0], [-np.inf, 0.5, 0.2], [0.1, 0.3, -np.inf]])
        pairs = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
        graph = FactorGraph.from_arrays(
            np.full(4, 3), (pairs, np.stack([table + k for k in range(4)])), log=True
        )
        kinds = {(): "_Linear", ("x0", "x2"): "_Log", ("x0", "x1", "x2", "x3"): "_Mixed"}
        for names, form in kinds.items():
            heat = np.array([float(n not in names) for n in ("x0", "x1", "x2", "x3")])
            problem = Problem(graph, heat, np.zeros(4, dtype=np.int64))
            state = engine.start(problem, engine.Weighted.plain(graph), np.random.default_rng(0))
            assert type(state.form).__name__ == form


class TestTrees:
    """Exact on trees."""

    @pytest.mark.parametrize("states", [2, 3, [2, 3, 4, 1, 2, 3, 2, 2, 4, 2]], ids=["two", "three", "mixed"])
    def test_two_passes_are_exact(self, states):
        model = datasets.random_tree(10, states=states, seed=4)
        exact = credo.infer(model, "junction-tree")
        with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
            found = credo.infer(model, "bp(schedule=tree)", max_iter=2)
        np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-12)
        np.testing.assert_allclose(found.factor_marginals.flat, exact.factor_marginals.flat, atol=1e-12)
        assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-10)
        assert len(credo.infer(model, "bp").trace["change"]) <= 3

    def test_a_long_chain_takes_two_passes_too(self):
        n = 10_000
        rng = np.random.default_rng(6)
        pairs = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
        logs = rng.standard_normal((n - 1, 2, 2))
        graph = FactorGraph.from_arrays(np.full(n, 2), (pairs, logs), log=True)
        found = credo.infer(graph, "bp(schedule=tree)")
        assert len(found.trace["change"]) <= 3
        exact = credo.infer(graph, "junction-tree")
        np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-10)
        assert found.log_z.value == pytest.approx(exact.log_z.value, rel=1e-11)

    @pytest.mark.parametrize("schedule", ORDERS)
    def test_random_starts_end_at_the_same_point(self, schedule):
        model = datasets.random_tree(12, states=3, seed=1)
        exact = credo.infer(model, "junction-tree")
        for seed in range(3):
            bp = BP(schedule=schedule, random_start=True)
            found = credo.infer(model, bp, seed=seed, tol=1e-12)
            np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-9)

    @pytest.mark.parametrize("schedule", ORDERS)
    @pytest.mark.parametrize("seed", range(4))
    def test_max_product_finds_the_best_states(self, seed, schedule):
        model = datasets.random_tree(15, states=[2, 3, 4] * 5, seed=seed)
        exact = credo.infer(model, "junction-tree", maximise="all")
        found = credo.infer(model, BP(schedule=schedule), maximise="all", seed=0)
        assert dict(found.assignment) == dict(exact.assignment)
        assert found.log_z.kind == "lower"
        assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-10)
        assert found.marginals is None

    @pytest.mark.parametrize("schedule", ORDERS)
    @pytest.mark.parametrize("seed", range(4))
    def test_mixed_product_is_exact_where_the_maximised_variables_are_a_subtree(self, seed, schedule):
        model = datasets.random_tree(14, states=3, seed=seed)
        chosen = list(model.variables.names[:5])  # the first variables of a recursive tree are a subtree
        exact = credo.infer(model, "junction-tree", maximise=chosen)
        found = credo.infer(model, BP(schedule=schedule), maximise=chosen, seed=0)
        assert dict(found.assignment) == dict(exact.assignment)
        assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-8)

    @pytest.mark.parametrize("maximise", ["all", ["a", "b"]], ids=["max", "some"])
    def test_ties_are_broken_consistently(self, maximise):
        graph = FactorGraph(
            {"a": 2, "b": 2, "c": 2}, {("a", "b"): 1 - np.eye(2), ("b", "c"): [[1, 2], [2, 1]]}
        )
        exact = credo.infer(graph, "junction-tree", maximise=maximise)
        found = credo.infer(graph, "bp", maximise=maximise)
        assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-10)


class TestUglyModels:
    """Zeros, strong weights, hubs, odd shapes: never NaN, never a wrong refusal."""

    @pytest.mark.parametrize("schedule", ORDERS)
    @pytest.mark.parametrize("task", TASKS)
    @settings(max_examples=25)
    @given(graph=graphs())
    def test_no_nan_in_any_schedule_or_task(self, schedule, task, graph):
        maximise = "all" if task == "max" else ()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                found = credo.infer(graph, BP(schedule=schedule), maximise=maximise, max_iter=50, seed=0)
            except ZeroProbabilityError:
                assert np.isneginf(joint(graph)).all()
                return
        assert not np.isnan(found.log_z.value)
        if task == "sum":
            for p in found.marginals.values():
                assert (p >= 0).all()
                assert p.sum() == pytest.approx(1)
            for b in found.factor_marginals:
                assert (b >= 0).all()
                assert b.sum() == pytest.approx(1)
        else:
            assert found.log_z.value <= joint(graph).max() + 1e-9
            assert set(found.assignment) == set(graph.variables.names)

    @pytest.mark.parametrize("schedule", ORDERS)
    @settings(max_examples=15)
    @given(graph=graphs(most=4), seed=st.integers(0, 100))
    def test_no_nan_in_marginal_map(self, schedule, graph, seed):
        rng = np.random.default_rng(seed)
        # Without zeros: a decoded state that is impossible has no value to estimate.
        logs = np.where(np.isneginf(graph.log_tables), -3.0, graph.log_tables)
        graph = FactorGraph.from_flat(graph.variables, graph.scope_start, graph.scope, logs)
        chosen = [n for n in graph.variables.names if rng.random() < 0.5] or list(graph.variables.names[:1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = credo.infer(graph, BP(schedule=schedule), maximise=chosen, max_iter=50, seed=0)
        assert np.isfinite(found.log_z.value)
        assert set(found.assignment) == set(chosen)

    @pytest.mark.parametrize("schedule", [*ORDERS, "auto"])
    @pytest.mark.parametrize("maximise", [(), "all"], ids=["sum", "max"])
    def test_graphs_with_next_to_nothing_in_them(self, schedule, maximise):
        for graph, value in (
            (FactorGraph({}, {}), 0.0),
            (FactorGraph({}, {(): 3.0}), np.log(3)),
            (FactorGraph({"a": 1, "b": 1}, {("a", "b"): [[2.0]], (): 5.0}), np.log(10)),
            (FactorGraph({"a": 3}, {}), 0.0 if maximise else np.log(3)),
            (FactorGraph({"a": 2, "b": 1}, {("a", "b"): [[1.0], [3.0]]}), np.log(3 if maximise else 4)),
        ):
            found = credo.infer(graph, BP(schedule=schedule), maximise=maximise, seed=0)
            assert found.log_z.value == pytest.approx(value)

    @pytest.mark.parametrize("schedule", ["tree", "sequential", "flooding", "residual"])
    @pytest.mark.parametrize(("spread", "form"), [(0.2, "_Binary"), (2.0, "_Log")])
    def test_a_hub_with_many_neighbours(self, schedule, spread, form):
        n = 601
        rng = np.random.default_rng(8)
        pairs = np.stack([np.zeros(n - 1, np.int64), np.arange(1, n)], axis=1)
        logs = spread * rng.uniform(-0.5, 0.5, (n - 1, 2, 2))
        graph = FactorGraph.from_arrays(np.full(n, 2), (pairs, logs), log=True)
        exact = credo.infer(graph, "junction-tree")
        found = credo.infer(graph, BP(schedule=schedule))
        assert type(found.state.form).__name__ == form
        np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-9)
        assert found.log_z.value == pytest.approx(exact.log_z.value, rel=1e-10)

    @pytest.mark.parametrize("schedule", ORDERS)
    def test_a_strong_range_is_kept_in_logarithms(self, schedule):
        sizes, scopes = [2, 3, 2, 2], [(0, 1), (1, 2), (2, 3), (1,)]
        graph = scoped(sizes, scopes, 5, spread=400.0)
        exact = credo.infer(graph, "junction-tree")
        found = credo.infer(graph, BP(schedule=schedule), seed=0)
        assert type(found.state.form).__name__ == "_Log"
        np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-10)
        assert found.log_z.value == pytest.approx(exact.log_z.value, rel=1e-12)

    def test_a_wide_factor_between_torn_variables(self):
        n, low = 7, -145.0
        torn = (np.arange(n)[:, None], np.array([0.0, low]))
        pulled = (np.stack([np.arange(n), n + np.arange(n)], axis=1), np.array([[low, low], [0.0, 0.0]]))
        wide = (np.arange(n)[None, :], np.log(np.arange(1, 2**n + 1)).reshape([2] * n))
        graph = FactorGraph.from_arrays(np.full(2 * n, 2), torn, pulled, wide, log=True)
        exact = credo.infer(graph, "junction-tree")
        found = credo.infer(graph, "bp")
        np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-10)

    def test_two_certain_neighbours_do_not_overflow(self):
        sure = [1.0, np.exp(290.0)]
        graph = FactorGraph({"x": 2, "y": 2}, {"x": sure, "y": sure, ("x", "y"): [[1, 1], [1, 2]]})
        found = credo.infer(graph, "bp")
        assert type(found.state.form).__name__ == "_Binary"
        np.testing.assert_allclose(found.factor_marginals[2], [[0, 0], [0, 1]], atol=1e-12)
        assert found.log_z.value == pytest.approx(580 + np.log(2), rel=1e-14)

    @pytest.mark.parametrize("schedule", ORDERS)
    @pytest.mark.parametrize("maximise", [(), "all"], ids=["sum", "max"])
    def test_contradictory_evidence_is_named(self, schedule, maximise):
        evidence = {"sprinkler": "no", "rain": "no", "wet": "yes"}
        with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero under this model"):
            credo.infer(datasets.sprinkler(), BP(schedule=schedule), evidence=evidence, maximise=maximise)
        graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): np.eye(2), "a": [1, 0], "b": [0, 1]})
        with pytest.raises(ZeroProbabilityError, match="factors contradict each other"):
            credo.infer(graph, BP(schedule=schedule), maximise=maximise)


class TestLoops:
    """What is known of the numbers on loopy models."""

    def test_bethe_is_below_log_z_on_attractive_binary_models(self):
        for seed in range(30):
            rng = np.random.default_rng(seed)
            pairs = [(i, j) for i in range(6) for j in range(i) if rng.random() < 0.6]
            spin = np.array([-1.0, 1.0])
            coupling = rng.uniform(0, 1.2, len(pairs))[:, None, None] * np.outer(spin, spin)
            field = rng.uniform(-0.5, 0.5, 6)[:, None] * spin
            graph = FactorGraph.from_arrays(
                np.full(6, 2), (np.array(pairs), coupling), (np.arange(6)[:, None], field), log=True
            )
            found = credo.infer(graph, "bp", tol=1e-10, max_iter=5000, strict=True)
            exact = credo.infer(graph, "junction-tree").log_z.value
            assert found.log_z.value <= exact + 1e-9, seed

    def test_the_value_of_decoded_states_is_never_above_the_maximum(self):
        for seed in range(20):
            graph = scoped([2, 3, 2, 3], [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], seed, spread=2.0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                found = credo.infer(graph, "bp", maximise="all", max_iter=60)
            assert found.log_z.kind == "lower"
            assert found.log_z.value <= joint(graph).max() + 1e-12
            assert found.log_z.value == pytest.approx(graph.log_score(found.assignment), abs=1e-12)

    def test_the_residual_schedule_needs_fewer_updates_on_a_hard_grid(self):
        graph = datasets.ising_grid(12, coupling="normal(scale=0.9)", field=0.1, seed=3)
        sweeps = {
            s: len(credo.infer(graph, BP(schedule=s), max_iter=3000, tol=1e-6, strict=True).trace["change"])
            for s in ("residual", "sequential", "flooding")
        }
        assert sweeps["residual"] < sweeps["sequential"]
        assert sweeps["residual"] < sweeps["flooding"]

    def test_the_same_seed_gives_the_same_answer(self):
        graph = mixed_loops()
        runs = [
            credo.infer(graph, "bp(schedule=random,random_start=true)", seed=s, tol=1e-4) for s in (5, 5, 6)
        ]
        np.testing.assert_array_equal(runs[0].marginals.flat, runs[1].marginals.flat)
        np.testing.assert_array_equal(runs[0].trace["change"], runs[1].trace["change"])
        assert not np.array_equal(runs[0].marginals.flat, runs[2].marginals.flat)


def parity_checks(seed, n=24, strength=1.0):
    """A sparse code: random (3, 6) parity checks and noisy bits."""
    rng = np.random.default_rng(seed)
    slots = rng.permutation(np.repeat(np.arange(n), 3)).reshape(-1, 6)
    checks = np.array([row for row in slots if len(set(row)) == 6])
    even = (np.indices([2] * 6).sum(axis=0) % 2 == 0).astype(float)
    noise = np.exp(strength * rng.normal(size=(n, 2)))
    return FactorGraph.from_arrays(np.full(n, 2), (checks, even), (np.arange(n)[:, None], noise))


class TestZerosThatLeaveEveryStatePossible:
    """Tables with zeros stay in the fast form as long as no state loses its last entry."""

    @pytest.mark.parametrize("schedule", ["flooding", "sequential", "residual", "tree"])
    def test_parity_checks_agree_with_logarithms(self, schedule, monkeypatch):
        graph = parity_checks(0)
        fast = credo.infer(graph, f"bp(schedule={schedule})", tol=1e-12)
        assert type(fast.state.form).__name__ == "_Linear"
        monkeypatch.setattr(forms, "SAFE_LOG", -1.0)
        logs = credo.infer(graph, f"bp(schedule={schedule})", tol=1e-12)
        assert type(logs.state.form).__name__ == "_Log"
        np.testing.assert_allclose(fast.marginals.flat, logs.marginals.flat, atol=1e-9)
        assert fast.log_z.value == pytest.approx(logs.log_z.value, abs=1e-8)

    def test_a_long_chain_of_equalities_leaves_the_doubles_and_goes_on_in_logarithms(self):
        n = 400
        pairs = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
        push = np.tile([1.0, np.exp(-8.0)], (n, 1))
        graph = FactorGraph.from_arrays(np.full(n, 2), (pairs, np.eye(2)), (np.arange(n)[:, None], push))
        found = credo.infer(graph, "bp(schedule=tree)")
        assert type(found.state.form).__name__ == "_Log"
        assert found.log_z.value == pytest.approx(np.log1p(np.exp(-8.0 * n)), abs=1e-9)
        np.testing.assert_allclose(found.marginals["x0"], [1.0, 0.0], atol=1e-12)


def _strong_trees():
    """Trees whose messages are nearly certain, and pull in opposite directions."""
    s = 30.0
    yield FactorGraph.from_arrays(
        [2, 2, 2],
        ([[0], [1], [2]], [[0, s], [s - 2, 0], [0, 0]]),
        ([[0, 2], [1, 2]], [[s, 0], [0, s]]),
        log=True,
    )
    yield FactorGraph.from_arrays(
        [2, 2, 2],
        ([[0], [1], [2]], [[31, 108], [48, -54], [-30, 43]]),
        ([[0, 1], [1, 2]], [[[-2, 60], [-97, 106]], [[94, -72], [-15, -30]]]),
        log=True,
    )
    rng = np.random.default_rng(0)
    for scale in (10, 30, 100, 300):
        for n in (3, 5, 6):
            pairs = [[int(rng.integers(i)), i] for i in range(1, n)]
            yield FactorGraph.from_arrays(
                [2] * n,
                ([[i] for i in range(n)], scale * rng.normal(size=(n, 2))),
                (pairs, scale * rng.normal(size=(n - 1, 2, 2))),
                log=True,
            )


@pytest.mark.parametrize(
    "method",
    ["bp", "bp(schedule=residual)", "bp(schedule=flooding)", "bp(schedule=random)",
     "bp(schedule=sequential)", "bp(damping=0.3)", "bp(damping=0.3, damping_domain=linear)",
     "bp(damping=0.9)", "fractional-bp(power=1.0)"],
)  # fmt: skip
def test_strong_trees_are_exact_whatever_the_schedule(method):
    for graph in _strong_trees():
        exact, found = credo.infer(graph, "junction-tree"), credo.infer(graph, method, seed=0)
        assert found.log_z.value == pytest.approx(exact.log_z.value, rel=1e-7, abs=1e-5)
        np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-6)


@pytest.mark.parametrize("options", ["", "(damping=0.3)"])
def test_strong_trees_are_exact_for_many_rows(options):
    for graph in _strong_trees():
        rows = [{}, {"x0": 1}]
        exact, found = (credo.infer_many(graph, rows, m) for m in ("junction-tree", "bp" + options))
        np.testing.assert_allclose(found.log_z, exact.log_z, rtol=1e-7, atol=1e-5)
        np.testing.assert_allclose(found.flat, exact.flat, atol=1e-6)


def test_runs_that_end_on_the_way_say_so():
    graph = next(_strong_trees())
    with pytest.warns(ConvergenceWarning):
        found = credo.infer(graph, "bp(damping=0.9)", max_iter=30)
    assert found.status is Status.OUT_OF_ITERATIONS


def test_a_contradiction_is_told_whatever_is_maximised():
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [0, 1]], ("a",): [1, 0], ("b",): [0, 1]})
    for maximise in ((), "all", ["a"], ["b"]):
        with pytest.raises(ZeroProbabilityError):
            credo.infer(graph, "bp", maximise=maximise)
