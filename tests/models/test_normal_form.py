"""Normal-form graphs against enumeration, the junction tree and the numbers of the source."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo.core.errors import EvidenceError, ModelError, OptionError, QueryError, ZeroProbabilityError
from credo.kernels import normal_form as kernels
from credo.models.normal_form import Block, Diverter, NormalForm, Source
from credo.models.normal_form_build import (
    embedding,
    from_bayes_net,
    hidden_chain,
    product_latent,
    to_bayes_net,
)
from credo.models.normal_form_parts import from_product, to_product
from polytrees import brute_marginal, polytree, random_evidence, weights
from seeds import each_seed


def rows(rng, *shape):
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])


def small(rng=None):
    """A source, a diverter entered by two and left by three branches, blocks in both directions."""
    rng = rng or np.random.default_rng(0)
    sizes = {"A": 2, "B": 3, "B1": 2, "C": 2, "D": 2, "E": 2, "D1": 3}
    parts = [
        Source("A", rows(rng, 2)),
        Block("B", "B1", rows(rng, 3, 2)),
        Diverter(("A", "B1"), ("C", "D", "E")),
        Block("D", "D1", rows(rng, 2, 3)),
    ]
    return NormalForm(sizes, parts)


EVIDENCE = {
    "B": np.array([0, -1, 2]),
    "D1": np.array([[0.2, 0.5, 1.0], [1, 1, 1], [0, 1, 0]]),
    "E": [1, -1, -1],
}


class TestMessages:
    def test_beliefs_and_weight_equal_enumeration(self):
        graph = small()
        found = graph.messages(EVIDENCE)
        for row in range(3):
            joint = weights(graph, EVIDENCE, row)
            assert found.log_z[row] == pytest.approx(np.log(sum(joint.values())), abs=1e-12)
            for name in graph.branches.names:
                np.testing.assert_allclose(
                    found.beliefs[name][row], brute_marginal(graph, joint, name), atol=1e-12
                )

    def test_the_product_of_both_messages_is_the_same_on_all_arms_of_a_diverter(self):
        found = small().messages(EVIDENCE)
        first, *others = (found.beliefs[name] for name in ("A", "B1", "C", "D", "E"))
        for other in others:
            np.testing.assert_allclose(other, first, atol=1e-14)

    def test_blocks_multiply_by_their_matrix_both_ways(self):
        graph = small()
        found = graph.messages(EVIDENCE)
        theta = graph.part("p(D1|D)").theta
        forward = found.forward["D"] @ theta
        backward = found.backward["D1"] @ theta.T
        np.testing.assert_allclose(found.forward["D1"], forward / forward.sum(axis=1, keepdims=True))
        np.testing.assert_allclose(found.backward["D"], backward / backward.sum(axis=1, keepdims=True))
        for values in (*found.forward.values(), *found.backward.values()):
            np.testing.assert_allclose(values.sum(axis=1), 1.0)

    def test_a_diverter_of_two_arms_is_a_wire(self):
        graph = NormalForm({"X": 2, "Y": 2}, [Source("X", [0.3, 0.7]), Diverter("X", "Y")])
        found = graph.messages({"Y": [[0.5, 0.1]]})
        np.testing.assert_allclose(found.forward["Y"], [[0.3, 0.7]])
        np.testing.assert_allclose(found.backward["X"], [[5 / 6, 1 / 6]])

    @each_seed(range(12))
    def test_beliefs_equal_the_junction_tree_on_random_polytrees_with_random_evidence(self, seed):
        rng = np.random.default_rng(seed)
        net = polytree(rng, n=8)
        graph = from_bayes_net(net)
        evidence = random_evidence(rng, net.variables, 3)
        found = graph.messages(evidence)
        for row in range(len(found)):
            mine = {k: v[row] if v.ndim == 2 or v[row] >= 0 else None for k, v in evidence.items()}
            for model in (net, graph):
                known = credo.infer(model, "junction-tree", evidence=mine)
                for name in net.variables.names:
                    np.testing.assert_allclose(found.beliefs[name][row], known.marginals[name], atol=1e-10)
            # The graph's own factor graph has the same weight, constants of product spaces included.
            assert found.log_z[row] == pytest.approx(known.log_z.value, abs=1e-10)
            assert graph.log_likelihoods(evidence)[row] == pytest.approx(
                credo.infer(net, "junction-tree", evidence=mine).log_z.value, abs=1e-10
            )

    @pytest.mark.parametrize("seed", range(4))
    def test_flooding_for_the_diameter_equals_two_passes_whatever_the_start(self, seed):
        rng = np.random.default_rng(seed)
        net = polytree(rng)
        graph = from_bayes_net(net)
        evidence = random_evidence(rng, net.variables, 2)
        exact = graph.messages(evidence)
        noise = rng.random(exact.flat.shape)
        flooded = graph.messages(evidence, schedule="flooding", start=noise)
        np.testing.assert_allclose(flooded.flat, exact.flat, atol=1e-12)
        np.testing.assert_allclose(flooded.log_z, exact.log_z, atol=1e-10)

    def test_one_step_less_than_the_diameter_is_not_enough(self):
        graph = hidden_chain([0.6, 0.4], [[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.1, 0.9]], 5)
        evidence = {f"X{t}": t % 2 for t in range(5)}
        exact = graph.messages(evidence)
        noise = np.random.default_rng(0).random(exact.flat.shape)
        early = graph.messages(evidence, schedule="flooding", steps=graph.diameter - 1, start=noise)
        assert np.abs(early.flat - exact.flat).max() > 1e-6

    def test_a_wide_diverter_does_not_underflow(self):
        arms = [f"X{k}" for k in range(2000)]
        branches = {"S": 2, **dict.fromkeys(arms, 2)}
        graph = NormalForm(branches, [Source("S", [0.5, 0.5]), Diverter("S", arms)])
        soft = {name: [[0.2, 0.3]] for name in arms}
        found = graph.messages(soft)
        expected = 2000 * np.log([0.2, 0.3])
        log_z = np.logaddexp(*expected) - np.log(2)
        assert found.log_z[0] == pytest.approx(log_z, rel=1e-12)
        np.testing.assert_allclose(found.beliefs["S"][0], np.exp(expected - np.log(2) - log_z), atol=1e-12)

    def test_the_kernels_say_the_same_uncompiled(self, monkeypatch):
        graph = small()
        expected = graph.messages(EVIDENCE)
        names = [n for n in vars(kernels) if hasattr(getattr(kernels, n), "py_func")]
        for name in names:
            monkeypatch.setattr(kernels, name, getattr(kernels, name).py_func)
        w, flat = graph.wiring, graph.open_messages(EVIDENCE).flat.copy()
        theta, start = graph._theta
        kernels.two_pass(
            flat,
            w.message_start,
            theta,
            start,
            w.kind,
            w.arm_start,
            w.arm_in,
            w.arm_out,
            w.order,
            w.towards,
            w.roots,
        )
        np.testing.assert_allclose(flat, expected.flat, atol=1e-14)

    def test_the_local_likelihood_of_a_block_differs_from_the_joint_one_by_a_constant(self):
        """Equation (8): with another matrix in one block, both change by the same amount."""
        graph = small()
        rng = np.random.default_rng(5)
        for name in ("p(A)", "p(B1|B)", "p(D1|D)"):
            changed = graph.with_parameters({name: rows(rng, *graph.part(name).theta.shape)})
            before, after = graph.messages(EVIDENCE), changed.messages(EVIDENCE)
            for mine, other in zip(before.incoming(name), after.incoming(name), strict=True):
                np.testing.assert_allclose(mine, other)
            np.testing.assert_allclose(
                after.local(name) - before.local(name), after.log_z - before.log_z, rtol=0, atol=1e-12
            )


class TestEvidence:
    def test_labels_columns_and_missing_values_are_read(self):
        pd = pytest.importorskip("pandas")
        graph = NormalForm(
            {"X": ["no", "yes"], "Y": 2}, [Source("X", [0.5, 0.5]), Block("X", "Y", np.eye(2))]
        )
        graph = graph.tap("X", "seen")
        frame = pd.DataFrame({"seen": ["yes", None, "no"]})
        expected = [[0, 1], [0.5, 0.5], [1, 0]]
        for given in (
            frame,
            {"seen": ["yes", None, "no"]},
            {"seen": [1, -1, 0]},
            {"seen": [1.0, np.nan, 0.0]},
        ):
            np.testing.assert_allclose(graph.messages(given).beliefs["Y"], expected)

    def test_one_state_holds_for_all_samples(self):
        found = small().messages({"E": 1, "B": [0, 1]})
        np.testing.assert_allclose(found.beliefs["C"], [[0, 1], [0, 1]])

    def test_samples_of_a_graph_are_evidence(self):
        graph = hidden_chain([0.5, 0.5], np.eye(2), np.eye(2), 2)
        drawn = graph.sample(5, seed=0)
        observed = {name: drawn.column(name) for name in ("X0", "X1")}
        np.testing.assert_allclose(graph.log_likelihoods(observed), np.log(0.5))

    def test_a_floor_makes_the_impossible_unlikely(self):
        graph = NormalForm({"X": 2, "Y": 2}, [Source("X", [1, 0]), Block("X", "Y", np.eye(2))])
        with pytest.raises(ZeroProbabilityError, match="sample 1 has probability zero"):
            graph.messages({"Y": [0, 1]})
        found = graph.messages({"Y": [0, 1]}, floor=1e-9)
        np.testing.assert_allclose(found.log_z, np.log([1, 1e-9]), atol=1e-6)

    def test_all_missing_is_no_evidence(self):
        graph = small()
        found = graph.messages({"B": [-1], "E": [None]})
        assert not found.observed.any()
        assert found.log_z[0] == pytest.approx(graph.log_z)
        assert found.pseudo()[0] == 0


class TestProductSpaces:
    def test_the_worked_example_with_its_misprints_corrected(self):
        sizes = (2, 3, 2)
        columns = [
            [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1],
            [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2],
            [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
        ]
        for j, expected in enumerate(columns):
            picked = from_product(sizes, j)
            assert picked.shape == (12, sizes[j])
            np.testing.assert_array_equal(picked, np.eye(sizes[j])[expected])
            spread = to_product(sizes, j)
            np.testing.assert_allclose(spread, picked.T * (1 / 6, 1 / 4, 1 / 6)[j])
            np.testing.assert_allclose(spread.sum(axis=1), 1.0)

    def test_the_first_variable_is_the_slowest(self):
        table = np.arange(24).reshape(2, 3, 4)
        for j in range(3):
            states = from_product(table.shape, j).argmax(axis=1)
            np.testing.assert_array_equal(states, np.unravel_index(table.ravel(), table.shape)[j])

    def test_map_and_diverter_send_what_a_table_of_several_parents_would(self):
        rng = np.random.default_rng(2)
        table = rows(rng, 2, 3, 4)
        tables = {"a": rows(rng, 2), "b": rows(rng, 3), "c": table}
        net = credo.BayesNet({"a": 2, "b": 3, "c": 4}, {"c": ["a", "b"]}, tables)
        found = from_bayes_net(net).messages({"c": [[0.1, 0.2, 0.3, 0.4]], "b": [[0.5, 0.2, 0.1]]})
        outer = np.outer(tables["a"], tables["b"] * [0.5, 0.2, 0.1])
        np.testing.assert_allclose(found.forward["(a,b)"][0], outer.ravel() / outer.sum())
        back = (table @ [0.1, 0.2, 0.3, 0.4]) @ (tables["b"] * [0.5, 0.2, 0.1])
        np.testing.assert_allclose(found.backward["a^0"][0], back / back.sum())

    def test_a_whole_product_space_is_the_joint_table(self):
        rng = np.random.default_rng(3)
        prior = rng.dirichlet(np.ones(12))
        graph = product_latent({"X1": 2, "X2": 2, "X3": 3}, prior=prior)
        for cell, x in enumerate(itertools.product(range(2), range(2), range(3))):
            evidence = dict(zip(("X1", "X2", "X3"), x, strict=True))
            assert graph.log_likelihoods(evidence)[0] == pytest.approx(np.log(prior[cell]))
        assert list(graph.learnable) == ["p(S)"]
        assert product_latent({"X": 3}).messages().beliefs["X"].tolist() == [[pytest.approx(1 / 3)] * 3]

    @pytest.mark.parametrize("seed", range(3))
    def test_the_separable_form_is_a_product_of_experts(self, seed):
        rng = np.random.default_rng(seed)
        net = credo.BayesNet.random({"a": 2, "b": 3, "c": 2, "g": 3}, {"g": ["a", "b", "c"]}, seed=seed)
        graph = from_bayes_net(net, form="separable").randomised(rng)
        p = graph.parameters
        joint = np.einsum(
            "a,b,c,ag,bg,cg->abcg",
            p["p(a)"][0],
            p["p(b)"][0],
            p["p(c)"][0],
            p["p(g|a)"],
            p["p(g|b)"],
            p["p(g|c)"],
        )
        found = graph.messages({"g": 1})
        assert found.log_z[0] == pytest.approx(np.log(joint[..., 1].sum()))
        assert graph.log_z == pytest.approx(np.log(joint.sum()))
        np.testing.assert_allclose(
            found.beliefs["b"][0], joint[..., 1].sum(axis=(0, 2)) / joint[..., 1].sum()
        )
        assert sum(isinstance(part, Diverter) for part in graph.parts if part.name.startswith("=(")) == 1


class TestConstruction:
    def test_hidden_variables_have_no_terminal(self):
        net = polytree(np.random.default_rng(4))
        inner = [v for v in net.variables.names if any(v in p for p in net.parents.values())]
        graph = from_bayes_net(net, hidden=inner)
        assert set(graph.terminals) == set(net.variables.names) - set(inner)
        assert set(from_bayes_net(net).terminals) == set(net.variables.names)

    def test_tables_come_back_as_a_network(self):
        net = polytree(np.random.default_rng(6))
        assert to_bayes_net(from_bayes_net(net), net) == net

    def test_names_of_variables_are_never_taken_by_copies(self):
        net = credo.BayesNet.random({"a": 2, "a^1": 2, "b": 2}, {"a^1": ["a"], "b": ["a"]}, seed=0)
        graph = from_bayes_net(net)
        assert {"a", "a^1", "b"} == set(graph.variables.names)
        known = credo.infer(net, "junction-tree", evidence={"b": 1}).marginals["a^1"]
        np.testing.assert_allclose(graph.messages({"b": 1}).beliefs["a^1"][0], known)

    def test_an_inserted_diverter_changes_nothing_until_something_is_put_on_it(self):
        graph = small()
        before = graph.messages(EVIDENCE)
        for name in graph.branches.names:
            tapped = graph.tap(name)
            found = tapped.messages(EVIDENCE)
            np.testing.assert_allclose(found.log_z, before.log_z)
            for branch in graph.branches.names:
                np.testing.assert_allclose(found.beliefs[branch], before.beliefs[branch], atol=1e-13)
            np.testing.assert_allclose(found.beliefs[f"{name} tap"], before.beliefs[name], atol=1e-13)
            assert set(tapped.parameters) == set(graph.parameters)
            soft = np.random.default_rng(0).random((3, graph.branches[graph.branches.position(name)].size))
            given = EVIDENCE | {f"{name} tap": soft}
            joint = weights(tapped, given, 1) if name in ("A", "D1") else None
            if joint:
                for branch in ("B", "C", "D1"):
                    mine = tapped.messages(given).beliefs[branch][1]
                    np.testing.assert_allclose(mine, brute_marginal(tapped, joint, branch), atol=1e-12)

    def test_a_sharp_injection_cuts_the_flow(self):
        chain = hidden_chain([0.6, 0.4], [[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.1, 0.9]], 4).tap(
            "Z2", "in"
        )
        before, after = {f"X{t}": 0 for t in (0, 1)}, {f"X{t}": 1 for t in (0, 1)}
        soft, sharp = {"in": [[0.7, 0.3]]}, {"in": 1}
        assert (
            np.abs(
                chain.messages(before | soft).beliefs["X3"] - chain.messages(after | soft).beliefs["X3"]
            ).max()
            > 0.01
        )
        np.testing.assert_allclose(
            chain.messages(before | sharp).beliefs["X3"],
            chain.messages(after | sharp).beliefs["X3"],
            atol=1e-14,
        )

    def test_branches_joined_by_diverters_are_one_variable(self):
        graph = small()
        assert list(graph.variables.names) == ["A", "B", "D1"]
        assert graph.variable_of["E"] == graph.variable_of["B1"] == "A"
        assert graph.to_factor_graph() is graph.to_factor_graph()
        for row in range(3):
            found = graph.to_factor_graph()
            given = {"B": EVIDENCE["B"][row], "D1": EVIDENCE["D1"][row], "A": EVIDENCE["E"][row]}
            given = {k: v for k, v in given.items() if np.ndim(v) or v >= 0}
            known = credo.infer(found, "junction-tree", evidence=given)
            np.testing.assert_allclose(graph.messages(EVIDENCE).beliefs["C"][row], known.marginals["A"])

    def test_an_embedding_has_the_shape_of_the_figure(self):
        graph = embedding({"X1": 2, "X2": 2, "X3": 3}, 4, seed=0)
        assert [type(part) for part in graph.parts] == [Diverter, Source, Block, Block, Block]
        assert graph.diameter == 3
        assert graph.log_z == pytest.approx(0)

    def test_a_branch_without_parts_is_a_free_variable(self):
        graph = NormalForm({"X": 3, "Y": 2}, [Source("Y", [0.5, 0.5])])
        found = graph.messages({"X": [[0.2, 0.3, 0.5]]})
        assert found.log_z[0] == pytest.approx(0)
        np.testing.assert_allclose(found.beliefs["X"], [[0.2, 0.3, 0.5]])
        assert graph.messages({"X": [[0.2, 0.3, 0.5]]}, schedule="flooding").log_z[0] == pytest.approx(0)


class TestSampling:
    def test_samples_follow_the_joint_table(self):
        net = polytree(np.random.default_rng(7), n=4)
        graph = from_bayes_net(net)
        drawn = graph.sample(40_000, seed=1)
        states = np.stack([drawn.column(name) for name in net.variables.names], axis=1)
        table = np.zeros(net.variables.sizes)
        np.add.at(table, tuple(states.T), 1 / len(states))
        for x in itertools.product(*map(range, net.variables.sizes)):
            p = np.exp(net.log_prob(dict(zip(net.variables.names, x, strict=True))))
            assert abs(table[x] - p) < 5 * np.sqrt(p * (1 - p) / 40_000) + 1e-9

    def test_samples_given_evidence_follow_the_beliefs(self):
        graph = hidden_chain([0.6, 0.4], [[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.1, 0.9]], 3)
        evidence = {"X0": 1, "X2": 0}
        drawn = graph.sample(20_000, seed=2, evidence=evidence)
        assert (drawn.column("X0") == 1).all()
        for name in ("Z0", "Z1", "X1"):
            p = graph.messages(evidence).beliefs[name][0, 1]
            assert drawn.column(name).mean() == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / 20_000))

    def test_the_same_seed_gives_the_same_samples(self):
        graph = small()
        np.testing.assert_array_equal(graph.sample(50, seed=3).indices, graph.sample(50, seed=3).indices)


HALF = [0.5, 0.5]
PAIR = {"X": 2, "Y": 2}


def diamond():
    parents = {"b": ["a"], "c": ["a"], "d": ["b", "c"]}
    return from_bayes_net(credo.BayesNet.random(dict.fromkeys("abcd", 2), parents, seed=0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (diamond, ModelError, r"expected no cycle, got .*-\[a\^2\]- =a -\[a\^1\]- .*join the variables"),
        (
            lambda: NormalForm(PAIR, [Block("X", "Y", np.eye(2)), Block("Y", "X", np.eye(2))]),
            ModelError,
            r"expected no cycle, got p\(Y\|X\) -\[X\]- p\(X\|Y\) -\[Y\]- p\(Y\|X\)",
        ),
        (
            lambda: NormalForm({"X": 2}, [Diverter("X", "X")]),
            ModelError,
            r"expected no cycle, got =X -\[X\]- =X",
        ),
        (
            lambda: NormalForm(PAIR, [Source("X", HALF), Source("X", HALF, name="q")]),
            ModelError,
            "leaves both",
        ),
        (
            lambda: NormalForm(PAIR, [Source("X", HALF), Source("Y", HALF, name="p(X)")]),
            ModelError,
            "declared twice",
        ),
        (lambda: NormalForm(PAIR, [Source("Q", HALF)]), ModelError, "no branch named 'Q'"),
        (
            lambda: NormalForm(PAIR, [Source("X", [0.2, 0.3, 0.5])]),
            ModelError,
            r"shape \(1, 2\), got \(1, 3\)",
        ),
        (
            lambda: NormalForm({"X": 2, "Y": 3}, [Diverter("X", "Y")]),
            ModelError,
            r"one size, got sizes \[2, 3\]",
        ),
        (lambda: NormalForm(PAIR, ["X"]), ModelError, "expected Source, Block or Diverter, got 'X'"),
        (lambda: Diverter((), ()), ModelError, "expected at least one branch"),
        (lambda: Source("X", [0.5, 0.6]), ModelError, "every row must sum to 1, got sums from 1.1"),
        (lambda: Block("X", "Y", [[0.5, -0.5]]), ModelError, "expected finite, non-negative"),
        (lambda: Block("X", "Y", "no"), ModelError, "expected numbers, got 'no'"),
        (
            lambda: Block("X", "Y", HALF),
            ModelError,
            r"expected 2 axes with at least one state, got shape \(2,\)",
        ),
        (
            lambda: NormalForm(PAIR, [Source("X", HALF, tie="t"), Source("Y", [0.1, 0.9], tie="t")]),
            ModelError,
            "are tied, but differ",
        ),
        (lambda: small().part("none"), QueryError, "no part named 'none'"),
        (lambda: small().with_parameters({"none": 1}), QueryError, "no parameter named 'none'"),
        (
            lambda: small().with_parameters({"p(A)": [1.0]}),
            ModelError,
            r"expected a matrix of shape \(1, 2\)",
        ),
        (lambda: small().messages({"A": 0}), EvidenceError, r"'A' has no open end; make one with tap\('A'\)"),
        (lambda: small().messages({"none": 0}), EvidenceError, "no branch named 'none'"),
        (lambda: small().messages(3), EvidenceError, "expected a mapping from branches to states"),
        (lambda: small().messages({"B": [0, 3]}), EvidenceError, "sample 1 has state 3, expected 0 to 2"),
        (lambda: small().messages({"B": ["x"]}), EvidenceError, "variable 'B' has no state 'x'"),
        (lambda: small().messages({"B": [0], "E": [0, 1]}), EvidenceError, "'B' has 1 samples and 'E' has 2"),
        (lambda: small().messages({"B": [[1, 2]]}), EvidenceError, "expected 3 likelihoods per sample"),
        (lambda: small().messages({"B": [[0, 0, 0]]}), EvidenceError, "sample 0 has no positive likelihood"),
        (lambda: small().messages({"B": [[1, -1, 0]]}), EvidenceError, "must be finite and non-negative"),
        (lambda: small().messages({"B": [["a", "b", "c"]]}), EvidenceError, "expected numbers"),
        (lambda: small().messages({"B": np.ones((1, 1, 3))}), EvidenceError, r"got shape \(1, 1, 3\)"),
        (lambda: small().messages(schedule="random"), OptionError, "schedule must be one of"),
        (
            lambda: small().messages(schedule="flooding", start=np.ones((1, 2))),
            QueryError,
            r"start: expected \(1, 32\) non-negative numbers, got shape \(1, 2\)",
        ),
        (lambda: small().messages().incoming("=A"), QueryError, "'=A' is a diverter"),
        (lambda: small().sample(3, evidence={"B": [0, 1]}), QueryError, "evidence for 1 or 3 samples, got 2"),
        (lambda: small().tap("A", "B"), ModelError, "there is a branch named 'B' already"),
        (lambda: from_product((2, 2), 2), ModelError, "expected a variable from 0 to 1, got 2"),
        (
            lambda: hidden_chain(HALF, np.eye(2), HALF, 2),
            ModelError,
            r"expected a matrix \(states, symbols\)",
        ),
        (
            lambda: to_bayes_net(small(), credo.datasets.asia()),
            QueryError,
            "expected a graph made from this network in product form",
        ),
    ],
)
def test_refusals_say_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_messages_that_have_not_met_say_so():
    graph = NormalForm(PAIR, [Source("X", [1.0, 0.0]), Block("X", "Y", np.eye(2))])
    found = graph.messages({"Y": 1}, schedule="flooding")
    assert found.log_z[0] == -np.inf
    with pytest.raises(ZeroProbabilityError, match="messages of branch 'Y' contradict each other"):
        _ = found.beliefs["Y"]


def test_states_and_likelihoods_may_stand_side_by_side():
    graph = NormalForm(
        {"S": 2, "S1": 2, "S2": 2, "X": 2, "Y": 2},
        [
            Source("S", [0.6, 0.4]),
            Diverter("S", ["S1", "S2"]),
            Block("S1", "X", [[0.9, 0.1], [0.2, 0.8]]),
            Block("S2", "Y", [[0.7, 0.3], [0.4, 0.6]]),
        ],
    )
    mixed = graph.messages({"X": [0, [0.2, 0.8], None, 1]})
    soft = graph.messages({"X": np.array([[1.0, 0.0], [0.2, 0.8], [1.0, 1.0], [0.0, 1.0]])})
    np.testing.assert_allclose(mixed.beliefs["Y"], soft.beliefs["Y"])
    np.testing.assert_allclose(mixed.log_z, soft.log_z)
    with pytest.raises(EvidenceError, match="sample 1: expected a state or 2 likelihoods, got"):
        graph.messages({"X": [0, [0.2, 0.8, 0.1], 1]})
    with pytest.raises(EvidenceError, match="sample 0: expected a state or 2 likelihoods, got"):
        graph.messages({"X": [[10**400, 1], 1]})
