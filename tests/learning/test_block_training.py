"""Training of normal-form graphs: textbook EM, Baum-Welch, the traps, and the reference values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, DataError, ModelError, OptionError, UnsupportedError
from credo.core.result import Status
from credo.families import Categorical
from credo.learning import Blocks, fit, train_blocks
from credo.learning import block_training as module
from credo.learning.block_training import update_blocks
from credo.learning.blocks import KL, ML, VAR, VIT
from credo.models.hmm import HMM
from credo.models.normal_form import Block, Diverter, NormalForm, Source
from credo.models.normal_form_build import (
    embedding,
    from_bayes_net,
    hidden_chain,
    product_latent,
    to_bayes_net,
)
from polytrees import polytree

LEAVES = {"X1": 2, "X2": 2, "X3": 3}
GENERATOR = credo.BayesNet(
    {"S": 4, **LEAVES},
    {leaf: ["S"] for leaf in LEAVES},
    {
        "S": [0.25] * 4,
        "X1": [[0.1, 0.9], [0.1, 0.9], [0.9, 0.1], [0.3, 0.7]],
        "X2": [[0.1, 0.9], [0.99, 0.01], [0.5, 0.5], [0.2, 0.8]],
        "X3": [[0.1, 0.89, 0.01], [0.3, 0.3, 0.4], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1]],
    },
)


def draw(samples, seed):
    found = GENERATOR.sample(samples, seed=seed)
    return {leaf: found.column(leaf) for leaf in LEAVES}


DATA = draw(400, 1)
SATURATED, INDEPENDENT = -770.0, -923.9  # levels of the metric on this draw


def finals(rule, states=4, *, data=DATA, test=False, **options):
    runs = train_blocks(embedding(LEAVES, states), data, rule, record=False, seed=0, **options).runs
    return np.array([run.test_metric[-1] if test else run.metric[-1] for run in runs])


class TestReferenceValues:
    def test_the_draw_is_that_of_the_reference(self):
        table = np.zeros((2, 2, 3))
        np.add.at(table, tuple(DATA.values()), 1.0)
        joint = float((table * np.log(table / 400)).sum())
        assert joint == pytest.approx(-849.6, abs=0.05)
        graph = from_bayes_net(GENERATOR, hidden=["S"])
        assert graph.messages(DATA).pseudo().sum() == pytest.approx(-780.4, abs=0.05)
        best = train_blocks(product_latent(LEAVES), DATA, epochs=1, start="given").best
        assert best.log_likelihood[-1] == pytest.approx(joint)
        assert best.metric[-1] == pytest.approx(SATURATED, abs=0.05)

    def test_expectations_per_sample_under_the_generator(self):
        cells = np.stack(np.unravel_index(np.arange(12), (2, 2, 3)), axis=1)
        data = dict(zip(LEAVES, cells.T, strict=True))
        graph = from_bayes_net(GENERATOR, hidden=["S"])
        log_p = graph.log_likelihoods(data)
        assert np.exp(log_p).sum() == pytest.approx(1)
        assert np.exp(log_p) @ log_p == pytest.approx(-2.1780, abs=5e-5)
        assert np.exp(log_p) @ graph.messages(data).pseudo() == pytest.approx(-2.0206, abs=5e-5)

    def test_ml_and_kl_reach_the_empirical_table_from_every_start(self):
        np.testing.assert_allclose(finals("ml(iterations=3)", restarts=10), SATURATED, atol=0.15)
        np.testing.assert_allclose(finals("kl(iterations=3)", restarts=10), SATURATED, atol=0.25)
        np.testing.assert_allclose(
            finals("ml(iterations=3)", restarts=10, start="messages"), SATURATED, atol=0.15
        )

    def test_var_collapses_to_independent_leaves(self):
        np.testing.assert_allclose(finals("var", restarts=5), INDEPENDENT, atol=0.05)

    def test_vit_is_worse_than_ml_and_stays_in_the_range_of_the_reference(self):
        # Reference: -826.8 to -932.7 from random messages, -849.2 to -923.9 (mean -893.9) from matrices.
        found = np.concatenate([finals("vit", restarts=10, start=start) for start in ("random", "messages")])
        assert found.max() < SATURATED - 40
        assert found.min() > -950
        assert -930 < found.mean() < -880

    def test_two_hidden_states_are_too_few_and_more_than_four_gain_nothing(self):
        for rule in ("ml(iterations=3)", "kl(iterations=3)"):
            assert finals(rule, 2, restarts=3).max() == pytest.approx(-804.8, abs=0.2)
            for states in (7, 9):
                assert finals(rule, states, restarts=2).max() == pytest.approx(SATURATED, abs=0.15)

    def test_many_inner_iterations_are_greedy(self):
        for n in (1, 3):
            assert finals(f"ml(iterations={n})", restarts=10).min() == pytest.approx(SATURATED, abs=0.25)
        # The worst of ten starts depends on the starts; the tolerances say how much.
        for n, reference, tolerance in ((5, -783.5, 15), (10, -892.4, 30), (20, -948.1, 100)):
            worst = finals(f"ml(iterations={n})", restarts=10, start="messages").min()
            assert worst == pytest.approx(reference, abs=tolerance)

    def test_half_the_samples_suffice(self):
        data, mask = draw(300, 2), np.arange(300) < 150
        options = {"data": data, "mask": mask, "restarts": 6, "test": True}
        for states, reference in ((4, (-298.4, -298.1, -361.3)), (9, (-298.5, -298.4, -361.3))):
            for rule, known in zip(("ml(iterations=3)", "kl(iterations=3)", "var"), reference, strict=True):
                assert finals(rule, states, **options).mean() == pytest.approx(known, abs=1.5)
            assert -366 < finals("vit", states, **options).mean() < -340  # reference: -351.6 and -360.3


class TestIdentities:
    @pytest.mark.parametrize("seed", range(3))
    def test_one_iteration_of_ml_is_em_on_the_network_step_by_step(self, seed):
        rng = np.random.default_rng(seed)
        net = polytree(rng, n=6)
        states = net.sample(60, seed=seed).indices.copy()
        states[rng.random(states.shape) < 0.3] = -1
        hidden = net.variables.names[int(rng.integers(1, 6))]
        names = [name for name in net.variables.names if name != hidden]
        data = {name: states[:, net.variables.position(name)] for name in names}
        data[names[0]] = np.maximum(data[names[0]], 0)  # no row without any observation
        start = credo.BayesNet.random(
            dict(zip(net.variables.names, net.variables.sizes, strict=True)), net.parents, seed=9
        )
        graph = from_bayes_net(start)
        model = start
        for _ in range(4):
            graph = update_blocks(graph, graph.messages(data), ML())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                found = fit(model, data, "em(start=given)", inference="junction-tree", max_iter=1)
            model = found.model
            for name in net.variables.names:
                np.testing.assert_allclose(
                    to_bayes_net(graph, start).tables[name], model.tables[name], atol=1e-9
                )
            total = graph.log_likelihoods(data).sum()
            assert total == pytest.approx(found.log_likelihood.value, abs=1e-6)

    def test_it_is_em_of_latent_classes_by_plain_sums(self):
        graph = embedding(LEAVES, 3, seed=4)
        for _ in range(3):
            p = graph.parameters
            weight = p["p(S)"].T.copy() * np.ones(400)
            for leaf in LEAVES:
                weight *= p[f"p({leaf}|S)"][:, DATA[leaf]]
            share = weight / weight.sum(axis=0)
            graph = update_blocks(graph, graph.messages(DATA), ML())
            np.testing.assert_allclose(graph.parameters["p(S)"][0], share.mean(axis=1))
            for leaf, size in LEAVES.items():
                counts = share @ np.eye(size)[DATA[leaf]]
                expected = counts / counts.sum(axis=1, keepdims=True)
                np.testing.assert_allclose(graph.parameters[f"p({leaf}|S)"], expected)

    def test_a_chain_of_tied_blocks_is_baum_welch_step_by_step(self):
        rng = np.random.default_rng(5)
        x = rng.integers(3, size=(6, 8))
        start = HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], Categorical([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]]))
        graph = hidden_chain(start.start, start.transition, start.emission.probabilities, 8)
        data = {f"X{t}": x[:, t] for t in range(8)}
        assert graph.log_likelihoods(data).sum() == pytest.approx(credo.log_likelihood(start, list(x)).value)
        model = start
        for _ in range(5):
            graph = update_blocks(graph, graph.messages(data), ML())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = credo.fit(model, list(x), max_iter=1).model
            np.testing.assert_allclose(graph.parameters["start"][0], model.start, atol=1e-10)
            np.testing.assert_allclose(graph.parameters["transition"], model.transition, atol=1e-10)
            np.testing.assert_allclose(graph.parameters["emission"], model.emission.probabilities, atol=1e-10)

    def test_a_chain_of_tied_blocks_is_what_hmmlearn_learns(self):
        hmm = pytest.importorskip("hmmlearn.hmm")
        x = np.random.default_rng(6).integers(3, size=(5, 7))
        model = hmm.CategoricalHMM(2, n_iter=1, tol=0, init_params="", n_features=3)
        model.startprob_, model.transmat_ = np.array([0.6, 0.4]), np.array([[0.7, 0.3], [0.4, 0.6]])
        model.emissionprob_ = np.array([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]])
        graph = hidden_chain(model.startprob_, model.transmat_, model.emissionprob_, 7)
        data = {f"X{t}": x[:, t] for t in range(7)}
        for _ in range(3):
            graph = update_blocks(graph, graph.messages(data), ML())
            model.fit(x.reshape(-1, 1), [7] * 5)
            np.testing.assert_allclose(graph.parameters["transition"], model.transmat_, atol=1e-8)
            np.testing.assert_allclose(graph.parameters["emission"], model.emissionprob_, atol=1e-8)

    def test_the_prior_of_a_whole_product_space_becomes_the_empirical_table(self):
        table = np.zeros((2, 2, 3))
        np.add.at(table, tuple(DATA.values()), 1 / 400)
        for rule in ("ml", "kl", "var"):
            found = train_blocks(product_latent(LEAVES), DATA, rule, epochs=1, start="given").model
            np.testing.assert_allclose(found.parameters["p(S)"][0], table.ravel(), atol=1e-9)

    def test_the_metric_is_the_sum_of_the_conditionals_of_each_leaf(self):
        graph = from_bayes_net(GENERATOR, hidden=["S"])
        joint = np.einsum("s,sa,sb,sc->abc", *(GENERATOR.tables[n] for n in ("S", "X1", "X2", "X3")))
        cells = tuple(DATA.values())
        expected = sum(np.log((joint / joint.sum(axis=k, keepdims=True))[cells]) for k in range(3))
        np.testing.assert_allclose(graph.messages(DATA).pseudo(), expected)

    def test_all_observed_means_counting_by_every_rule_at_once(self):
        net = GENERATOR
        found = net.sample(300, seed=3)
        data = {name: found.column(name) for name in net.variables.names}
        counts = np.zeros((4, 3))
        np.add.at(counts, (data["S"], data["X3"]), 1.0)
        for rule in (ML(), KL(), VIT(delta=1e-12), VAR()):
            # A message into a block is sharp because the variable itself is observed on its other arm.
            graph = from_bayes_net(net)
            new = update_blocks(graph, graph.messages(data), rule)
            expected = counts / counts.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(new.parameters["p(X3|S)"], expected, atol=1e-6)


class TestTraps:
    @pytest.mark.parametrize("rule", ["ml(iterations=3)", "kl(iterations=3)", "vit", "var"])
    def test_symmetric_matrices_never_separate_hidden_states(self, rule):
        graph = embedding(LEAVES, 4)
        shapes = {name: theta.shape for name, theta in graph.parameters.items()}
        graph = graph.with_parameters({name: np.full(s, 1 / s[1]) for name, s in shapes.items()})
        chosen = credo.learning.blocks.block_rules.resolve(rule)
        for _ in range(10):
            # Random messages at the start do not help once they have been washed out.
            noise = np.random.default_rng(0).random((400, graph.open_messages(DATA).flat.shape[1]))
            graph = update_blocks(graph, graph.messages(DATA, schedule="flooding", start=noise), chosen)
        for leaf in LEAVES:
            assert np.ptp(graph.parameters[f"p({leaf}|S)"], axis=0).max() < 1e-9
        if rule != "vit":
            assert graph.messages(DATA).pseudo().sum() == pytest.approx(INDEPENDENT, abs=0.05)
        with pytest.raises(ModelError, match="all rows of all matrices are alike"):
            train_blocks(
                graph.with_parameters({n: np.full(s, 1 / s[1]) for n, s in shapes.items()}),
                DATA,
                start="given",
            )

    def test_cold_starts_of_one_iteration_would_be_var(self):
        graph = embedding(LEAVES, 4, seed=1)
        messages = graph.messages(DATA)
        shapes = {name: theta.shape for name, theta in graph.parameters.items()}
        cold = graph.with_parameters({name: np.full(s, 1 / s[1]) for name, s in shapes.items()})
        expected = update_blocks(cold, messages, VAR(delta=0)).parameters
        found = update_blocks(cold, messages, ML()).parameters
        warm = update_blocks(graph, messages, ML()).parameters
        for name, theta in expected.items():
            np.testing.assert_allclose(found[name], theta)
        assert np.abs(warm["p(X3|S)"] - expected["p(X3|S)"]).max() > 0.01

    def test_blocks_see_incoming_messages_and_nothing_else(self):
        graph = embedding(LEAVES, 4, seed=2)
        messages = graph.messages(DATA)
        f, b = messages.incoming("p(X1|S)")
        np.testing.assert_array_equal(f, messages.forward["S^1"])
        np.testing.assert_array_equal(b, np.eye(2)[DATA["X1"]])
        f, b = messages.incoming("p(S)")
        np.testing.assert_array_equal(f, np.ones((400, 1)))
        np.testing.assert_array_equal(b, messages.backward["S"])

    def test_the_joint_likelihood_never_falls_with_one_iteration_of_ml(self):
        fit_ = train_blocks(embedding(LEAVES, 4), DATA, "ml", restarts=5, seed=3)
        for run in fit_.runs:
            assert (np.diff(run.log_likelihood) >= -1e-8).all()
        deep = from_bayes_net(polytree(np.random.default_rng(8), n=6), hidden=["v0", "v1"])
        observed = {name: column for name, column in zip(deep.terminals, _columns(deep, 50), strict=True)}
        for run in train_blocks(deep, observed, "ml", epochs=30, restarts=3, seed=0).runs:
            assert (np.diff(run.log_likelihood) >= -1e-8).all()

    def test_with_many_iterations_the_joint_likelihood_may_fall(self):
        runs = train_blocks(embedding(LEAVES, 4), DATA, "ml(iterations=20)", restarts=10, seed=0).runs
        assert any((np.diff(run.log_likelihood) < -1e-3).any() for run in runs)

    def test_the_metric_is_a_pseudo_likelihood_and_may_fall_where_the_likelihood_rises(self):
        rng = np.random.default_rng(0)
        data = {leaf: rng.integers(size, size=30) for leaf, size in LEAVES.items()}
        run = train_blocks(embedding(LEAVES, 2), data, "ml", concentration=0.5, seed=0).best
        assert (np.diff(run.log_likelihood) >= -1e-8).all()
        assert np.diff(run.metric).min() < -1e-3

    def test_masked_samples_are_judged_and_not_learned_from(self):
        data, mask = draw(300, 2), np.arange(300) < 150
        graph = embedding(LEAVES, 4, seed=0)
        half = {name: column[:150] for name, column in data.items()}
        masked = train_blocks(graph, data, "ml", mask=mask, start="given", epochs=5).best
        alone = train_blocks(graph, half, "ml", start="given", epochs=5).best
        np.testing.assert_allclose(masked.log_likelihood, alone.log_likelihood)
        np.testing.assert_allclose(masked.metric, alone.metric)
        others = {name: column[150:] for name, column in data.items()}
        assert masked.test_metric[-1] == pytest.approx(masked.model.messages(others).pseudo().sum())
        assert masked.test_log_likelihood[-1] == pytest.approx(masked.model.log_likelihoods(others).sum())

    def test_a_floor_lets_zeros_be_evidence(self):
        graph = NormalForm(
            {"S": 2, "S1": 2, "S2": 2, "X": 2, "Y": 2},
            [
                Source("S", [0.5, 0.5]),
                Diverter("S", ("S1", "S2")),
                Block("S1", "X", np.eye(2), fixed=True),
                Block("S2", "Y", [[1.0, 0.0], [0.1, 0.9]]),
            ],
        )
        data = {"X": [0, 0, 1], "Y": [0, 1, 1]}
        with pytest.raises(ValueError, match="sample 1 has probability zero"):
            train_blocks(graph, data, start="given")
        found = train_blocks(graph, data, start="given", floor=1e-6, epochs=20).model
        assert found.parameters["p(Y|S2)"][0, 1] == 0  # multiplicative rules keep zeros
        np.testing.assert_array_equal(found.parameters["p(X|S1)"], np.eye(2))  # fixed

    def test_learned_states_come_in_any_order(self):
        graph = embedding(LEAVES, 4, seed=6)
        order = [2, 0, 3, 1]
        turned = {n: t[:, order] if n == "p(S)" else t[order] for n, t in graph.parameters.items()}
        runs = [
            train_blocks(g, DATA, "kl(iterations=3)", start="given", epochs=10).best
            for g in (graph, graph.with_parameters(turned))
        ]
        np.testing.assert_allclose(runs[0].metric, runs[1].metric)
        np.testing.assert_allclose(
            runs[0].model.parameters["p(X1|S)"][order], runs[1].model.parameters["p(X1|S)"]
        )


def _columns(graph, count):
    drawn = graph.sample(count, seed=1)
    return [drawn.column(graph.variable_of[name]) for name in graph.terminals]


class TestTraining:
    def test_trajectories_hold_every_matrix_of_every_epoch(self):
        run = train_blocks(embedding(LEAVES, 4), DATA, "ml", epochs=7, seed=0).best
        assert {n: t.shape for n, t in run.trajectories.items()} == {
            "p(S)": (8, 1, 4),
            "p(X1|S)": (8, 4, 2),
            "p(X2|S)": (8, 4, 2),
            "p(X3|S)": (8, 4, 3),
        }
        for name, values in run.trajectories.items():
            np.testing.assert_allclose(values.sum(axis=2), 1.0)
            np.testing.assert_array_equal(values[-1], run.model.parameters[name])
        assert len(run.metric) == len(run.log_likelihood) == len(run.test_metric) == 8
        assert not train_blocks(embedding(LEAVES, 4), DATA, epochs=1, record=False).best.trajectories

    def test_equal_samples_are_counted_and_not_repeated(self):
        soft = {"X1": np.random.default_rng(0).random((400, 2)), "X2": DATA["X2"], "X3": DATA["X3"]}
        graph = embedding(LEAVES, 3, seed=0)
        for data in (DATA, soft):
            run = train_blocks(graph, data, "kl", start="given", epochs=3).best
            expected = graph
            for _ in range(3):
                expected = update_blocks(expected, expected.messages(data), KL())
            np.testing.assert_allclose(run.model.parameters["p(X3|S)"], expected.parameters["p(X3|S)"])
            assert run.log_likelihood[-1] == pytest.approx(expected.log_likelihoods(data).sum())

    def test_soft_and_missing_evidence_train_too(self):
        rng = np.random.default_rng(1)
        data = {
            "X1": np.where(rng.random(400) < 0.5, DATA["X1"], -1),
            "X2": rng.random((400, 2)),
            "X3": DATA["X3"],
        }
        run = train_blocks(embedding(LEAVES, 3), data, "ml", epochs=30, seed=0).best
        assert (np.diff(run.log_likelihood) >= -1e-8).all()

    def test_the_same_seed_gives_the_same_runs_and_restarts_differ(self):
        fits = [train_blocks(embedding(LEAVES, 4), DATA, epochs=3, restarts=2, seed=5) for _ in range(2)]
        np.testing.assert_array_equal(fits[0].runs[1].metric, fits[1].runs[1].metric)
        assert fits[0].runs[0].metric[-1] != fits[0].runs[1].metric[-1]
        assert fits[0].best.log_likelihood[-1] == max(run.log_likelihood[-1] for run in fits[0].runs)

    def test_training_stops_where_nothing_changes(self):
        run = train_blocks(embedding(LEAVES, 2), DATA, "ml", epochs=5000, tol=1e-7, seed=0).best
        assert run.status is Status.CONVERGED
        assert run.epochs < 5000
        assert train_blocks(embedding(LEAVES, 2), DATA, epochs=2).best.status is Status.OUT_OF_ITERATIONS

    def test_random_ties_do_not_merge_samples(self):
        run = train_blocks(embedding(LEAVES, 4), DATA, "vit(ties=random)", epochs=3, seed=0).best
        assert np.isfinite(run.metric).all()

    def test_an_interruption_keeps_what_was_found(self, monkeypatch):
        calls = []
        original = module.update_blocks

        def stop(*given):
            calls.append(1)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return original(*given)

        monkeypatch.setattr(module, "update_blocks", stop)
        found = train_blocks(embedding(LEAVES, 4), DATA, epochs=50, restarts=3, seed=0)
        assert [run.status for run in found.runs] == [Status.INTERRUPTED]
        assert found.best.epochs == 3
        assert found.model.log_likelihoods(DATA).sum() == pytest.approx(found.best.log_likelihood[-1])

    def test_results_read_well(self):
        found = train_blocks(embedding(LEAVES, 4), DATA, "ml(iterations=3)", epochs=2, seed=0)
        assert repr(found).startswith("ml(iterations=3): 1 runs")
        assert "after 2 epochs: log-likelihood" in repr(found.best)


class TestThroughFit:
    def test_fit_trains_blocks_and_watches_validation(self):
        rows = [dict(zip(LEAVES, row, strict=True)) for row in np.stack(list(DATA.values()), axis=1).tolist()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = fit(
                embedding(LEAVES, 4),
                rows,
                "blocks(rule=kl(iterations=3), restarts=2)",
                validation=0.25,
                max_iter=15,
                seed=0,
            )
        assert len(found.objective) == len(found.trace["validation"]) == len(found.trace["metric"])
        assert found.objective[-1] > found.objective[0]
        assert found.model.log_z == pytest.approx(0)

    def test_it_is_em_with_the_ml_rule(self):
        start = embedding(LEAVES, 2, seed=3)
        found = fit(start, DATA, "blocks(start=given)", tol=1e-6, max_iter=2000)
        best = train_blocks(start, DATA, "ml", start="given", epochs=2000, tol=1e-6).best
        assert found.log_likelihood.value == pytest.approx(best.log_likelihood[-1])
        assert found.converged

    def test_evidence_on_a_tapped_variable_finds_its_terminal(self):
        graph = embedding(LEAVES, 2, seed=3).tap("S")
        found = fit(graph, {"S": [0, 1] * 200, **DATA}, "blocks(start=given)", max_iter=50)
        assert found.model.parameters["p(S)"][0].tolist() == pytest.approx([0.5, 0.5])

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: fit(GENERATOR, DATA, "blocks"), UnsupportedError, "make a NormalForm of this BayesNet"),
            (
                lambda: fit(embedding(LEAVES, 2), {"S": [0]}, "blocks"),
                DataError,
                "'S' has no open end in this graph",
            ),
            (lambda: Blocks(rule=3), OptionError, "expected a name or a BlockRule, got 3"),
            (lambda: Blocks(rule="em"), OptionError, "no block rule named 'em'"),
            (lambda: Blocks(start="zero"), OptionError, "start must be one of"),
            (lambda: Blocks(restarts=0), OptionError, "restarts must be at least 1"),
        ],
    )
    def test_refusals_of_the_learner(self, call, error, message):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: train_blocks(embedding(LEAVES, 2), {}),
            DataError,
            "evidence on at least one terminal, got none",
        ),
        (
            lambda: train_blocks(embedding(LEAVES, 2), {"X1": [-1, -1]}),
            DataError,
            "at least one terminal, got none",
        ),
        (
            lambda: train_blocks(embedding(LEAVES, 2), DATA, mask=[1]),
            DataError,
            "mask: expected 400 non-negative",
        ),
        (
            lambda: train_blocks(embedding(LEAVES, 2), DATA, mask=np.zeros(400)),
            DataError,
            "to learn from, got none",
        ),
        (
            lambda: train_blocks(embedding(LEAVES, 2), DATA, rule=3),
            OptionError,
            "rule: expected a name or a BlockRule",
        ),
        (
            lambda: train_blocks(embedding(LEAVES, 2), DATA, epochs=-1),
            OptionError,
            "epochs must be at least 0",
        ),
        (
            lambda: train_blocks(embedding(LEAVES, 2), DATA, restarts=0),
            OptionError,
            "restarts must be at least 1",
        ),
        (lambda: train_blocks(embedding(LEAVES, 2), DATA, start="cold"), OptionError, "start must be one of"),
        (
            lambda: train_blocks(NormalForm({"X": 2}, [Source("X", [0.5, 0.5], fixed=True)]), {"X": [0]}),
            ModelError,
            "at least one block that is not fixed, got none",
        ),
    ],
)
def test_refusals_say_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()
