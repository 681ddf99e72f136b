"""Bayesian networks: the formula, sampling, conversions and every refusal."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo import BayesNet, CredoError, Variable
from credo.core.errors import EvidenceError, ModelError, OptionError, QueryError
from credo.core.variable import Variables

STATES = {"a": 2, "b": ["lo", "mid", "hi"], "c": 1, "d": 2}
PARENTS = {"b": ["a"], "c": ["b"], "d": ["b", "a"]}
D = np.array([[[0.1, 0.9], [1.0, 0.0]], [[0.5, 0.5], [0.25, 0.75]], [[0.3, 0.7], [0.6, 0.4]]])


def small() -> BayesNet:
    """Three-state, one-state and deterministic rows; the axes of d are not in variable order."""
    tables = {"a": [0.3, 0.7], "b": [[0.2, 0.5, 0.3], [0.0, 0.4, 0.6]], "c": [[1.0]] * 3, "d": D}
    return BayesNet(STATES, PARENTS, tables)


def by_hand(a: int, b: int, c: int, d: int) -> float:
    return [0.3, 0.7][a] * [[0.2, 0.5, 0.3], [0.0, 0.4, 0.6]][a][b] * D[b, a, d]


ALL = list(itertools.product(range(2), range(3), range(1), range(2)))


def test_the_graph_the_model_and_the_formula_agree_on_every_assignment():
    model = small()
    with np.errstate(divide="ignore"):
        expected = np.log([by_hand(*x) for x in ALL])
    np.testing.assert_allclose(model.log_probs(np.array(ALL)), expected, rtol=1e-13)
    for x, value in zip(ALL, expected, strict=True):
        assignment = dict(zip("abcd", x, strict=True))
        assert model.to_factor_graph().log_score(assignment) == pytest.approx(value, rel=1e-13)
        assert model.log_prob(assignment) == pytest.approx(value, rel=1e-13)
    assert np.exp(expected).sum() == pytest.approx(1)


def test_the_factor_graph_is_cached_and_has_one_factor_per_variable_in_order():
    model = small()
    graph = model.to_factor_graph()
    assert graph is model.to_factor_graph()
    assert [f.names for f in graph.factors] == [("a",), ("a", "b"), ("b", "c"), ("b", "a", "d")]
    assert credo.infer(model, "enumerate").log_z.value == pytest.approx(0, abs=1e-12)


def test_parents_children_edges_tables_and_order_are_readable():
    model = small()
    assert model.parents["d"] == ("b", "a") and model.parents["a"] == ()
    assert model.children["b"] == ("c", "d") and model.children["d"] == ()
    assert model.edges == [("a", "b"), ("b", "c"), ("b", "d"), ("a", "d")]
    np.testing.assert_array_equal(model.tables["d"], D)
    assert list(model.tables) == ["a", "b", "c", "d"] and len(model.parents) == 4
    assert model.parents.get("nobody", ()) == () and "nobody" not in model.tables
    assert "'d': ('b', 'a')" in repr(model.parents)
    with pytest.raises(QueryError, match="no variable named 'nobody'"):
        model.tables["nobody"]
    np.testing.assert_array_equal(model.order, [0, 1, 2, 3])


def test_the_model_and_its_arrays_cannot_be_changed():
    model = small()
    for array in (model.tables["d"], model.flat_tables, model.order):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(AttributeError):
        model.variables = None


def test_bulk_construction_leaves_the_callers_arrays_alone():
    start, scope, tables = np.array([0, 1]), np.array([0]), np.array([0.5, 0.5])
    BayesNet.from_flat(Variables.numbered([2]), start, scope, tables)
    start[0], scope[0], tables[0] = 7, 7, 7


def test_parents_declared_after_children_are_ordered():
    model = BayesNet(
        {"leaf": 2, "middle": 2, "root": 2},
        {"leaf": ["middle"], "middle": "root"},
        {"root": [0.5, 0.5], "middle": np.eye(2), "leaf": np.eye(2)},
    )
    assert [model.variables.names[i] for i in model.order] == ["root", "middle", "leaf"]
    states = model.sample(50, seed=1).indices
    assert (states == states[:, :1]).all() and 0 < states[:, 0].mean() < 1


def test_flat_tables_in_any_order_make_the_same_network():
    model = small()
    scopes = {"d": [1, 0, 3], "a": [0], "c": [1, 2], "b": [0, 1]}
    flat = BayesNet.from_flat(
        model.variables,
        np.array([0, 3, 4, 6, 8]),
        np.concatenate(list(scopes.values())),
        np.concatenate([model.tables[n].ravel() for n in scopes]),
    )
    assert flat == model
    assert flat != BayesNet.random(STATES, PARENTS, seed=0) and flat != "text"


def test_a_flat_list_in_c_order_is_a_table():
    assert BayesNet({"a": 2, "b": 2}, {"b": ["a"]}, {"a": [1, 0], "b": [0.1, 0.9, 0.8, 0.2]}).tables["b"][
        1, 0
    ] == pytest.approx(0.8)


def test_a_network_without_variables_or_edges_works():
    assert BayesNet({}).to_factor_graph().n_factors == 0
    model = BayesNet([Variable("a", 2)], tables={"a": [0.25, 0.75]})
    assert repr(model) == "BayesNet(1 variables, 0 edges, 2 table entries)"
    assert model.sample(0, seed=0).indices.shape == (0, 1)


def test_thirds_with_six_digits_are_accepted_as_given():
    table = [0.333333, 0.333333, 0.333333]
    np.testing.assert_array_equal(BayesNet({"a": 3}, tables={"a": table}).tables["a"], table)


# Sampling ------------------------------------------------------------------------------------


def bound(p: np.ndarray, count: int) -> np.ndarray:
    """Five standard deviations of a frequency: a correct sampler misses one in two million."""
    return 5 * np.sqrt(p * (1 - p) / count)


def sampled_and_exact(model: BayesNet, count: int) -> tuple[np.ndarray, np.ndarray]:
    samples = model.sample(count, seed=11)
    exact = credo.infer(model, "enumerate").marginals
    frequencies = [np.bincount(samples.column(v.name), minlength=v.size) / count for v in model.variables]
    return np.concatenate(frequencies), exact.flat


@pytest.mark.parametrize("model", [small(), credo.datasets.asia(), credo.datasets.student()], ids=repr)
def test_sample_frequencies_match_exact_marginals(model):
    found, exact = sampled_and_exact(model, 20000)
    assert (np.abs(found - exact) <= bound(exact, 20000)).all()


def test_the_sampling_tolerance_notices_a_wrong_model():
    found, _ = sampled_and_exact(small(), 20000)
    wrong = BayesNet(STATES, PARENTS, {**small().tables, "a": [0.35, 0.65]})
    exact = credo.infer(wrong, "enumerate").marginals.flat
    with pytest.raises(AssertionError):
        assert (np.abs(found - exact) <= bound(exact, 20000)).all()


def test_joint_sample_frequencies_match_the_formula():
    states = small().sample(20000, seed=3).indices
    seen = {tuple(x): n / 20000 for x, n in zip(*np.unique(states, axis=0, return_counts=True), strict=True)}
    for x in ALL:
        p = by_hand(*x)
        assert abs(seen.get(x, 0.0) - p) <= bound(np.array(p), 20000), x


def test_states_of_probability_zero_are_never_drawn():
    model = BayesNet({"a": 4}, tables={"a": [0.0, 1 / 3, 2 / 3 - 1e-6, 0.0]})
    assert set(np.unique(model.sample(50000, seed=0).indices)) == {1, 2}


def test_the_same_seed_gives_the_same_samples_and_the_same_random_tables():
    model = small()
    np.testing.assert_array_equal(model.sample(20, seed=5).indices, model.sample(20, seed=5).indices)
    assert BayesNet.random(STATES, PARENTS, seed=2) == BayesNet.random(STATES, PARENTS, seed=2)
    assert BayesNet.random(STATES, PARENTS, seed=2) != BayesNet.random(STATES, PARENTS, seed=3)


def test_log_probs_reads_samples():
    model = small()
    samples = model.sample(5, seed=0)
    expected = [np.log(by_hand(*x)) for x in samples.indices]
    np.testing.assert_allclose(model.log_probs(samples), expected, rtol=1e-13)


def test_concentration_moves_rows_between_corners_and_centre():
    sharp = BayesNet.random({"a": 4, "b": 5}, {"b": ["a"]}, seed=0, concentration=1e-4).tables["b"]
    flat = BayesNet.random({"a": 4, "b": 5}, {"b": ["a"]}, seed=0, concentration=1e6).tables["b"]
    assert (sharp.max(axis=1) > 0.99).all() and (np.abs(flat - 0.2) < 0.01).all()


# Conversions ---------------------------------------------------------------------------------


def frames():
    pd = pytest.importorskip("pandas")
    rain = pd.DataFrame({"rain": ["no", "yes"], "probability": [0.8, 0.2]})
    wet = pd.DataFrame(
        {
            "rain": ["yes", "yes", "no"],
            "wet": ["dry", "soaked", "dry"],
            "probability": [0.05, 0.95, 1.0],
        }
    )
    return {"rain": rain, "wet": wet}


def test_frames_become_tables_and_missing_combinations_are_zero():
    model = BayesNet.from_pandas(frames())
    assert model.variables[1].states == ("dry", "soaked")
    np.testing.assert_array_equal(model.tables["wet"], [[1.0, 0.0], [0.05, 0.95]])


def test_states_come_from_the_caller_or_from_categories():
    pd = pytest.importorskip("pandas")
    model = BayesNet.from_pandas(frames(), states={"wet": ["soaked", "damp", "dry"]})
    np.testing.assert_array_equal(model.tables["wet"], [[0.0, 0.0, 1.0], [0.95, 0.0, 0.05]])
    given = frames()
    given["rain"]["rain"] = pd.Categorical(given["rain"]["rain"], categories=["yes", "no"])
    np.testing.assert_array_equal(BayesNet.from_pandas(given).tables["rain"], [0.2, 0.8])


def test_frames_with_faults_are_refused():
    for change, message in [
        (
            {"wet": frames()["wet"].drop(columns="wet")},
            r"table of 'wet': expected a column 'wet', got \['rain'\]",
        ),
        ({"wet": frames()["wet"].rename(columns={"rain": "sun"})}, "column 'sun' is neither a variable"),
        ({"rain": frames()["rain"].drop(columns="probability")}, "a data frame with a column 'probability'"),
        ({"rain": [1, 2]}, "a data frame with a column 'probability', got"),
        ({"wet": frames()["wet"].iloc[[0, 0, 1, 2]]}, "got two for rain=yes, wet=dry"),
        ({"wet": frames()["wet"].replace("no", "maybe")}, "'rain' has no state 'maybe'"),
        ({"wet": frames()["wet"].assign(probability=["x", "y", "z"])}, "numbers in column 'probability'"),
        ({"wet": frames()["wet"].iloc[:2]}, "every row must sum to 1, got sums from 0 to 1"),
    ]:
        with pytest.raises(ModelError, match=message):
            BayesNet.from_pandas({**frames(), **change})


def test_networkx_round_trip_keeps_everything():
    pytest.importorskip("networkx")
    model = small()
    graph = model.to_networkx()
    assert set(graph.edges) == set(model.edges)
    assert BayesNet.from_networkx(graph) == model


def test_networkx_edges_give_the_axes_in_the_order_they_were_added():
    nx = pytest.importorskip("networkx")
    graph = nx.DiGraph()
    for name, states in [("a", 2), ("b", 3), ("d", 2)]:
        graph.add_node(name, states=states, table=np.full(states, 1 / states))
    graph.add_edge("b", "d")
    graph.add_edge("a", "d")
    graph.nodes["d"]["table"] = D
    assert BayesNet.from_networkx(graph).parents["d"] == ("b", "a")
    graph.nodes["d"]["parents"] = ["a"]
    with pytest.raises(
        ModelError, match=r"node 'd': its attribute 'parents' is \['a'\], its edges come from"
    ):
        BayesNet.from_networkx(graph)
    del graph.nodes["d"]["table"], graph.nodes["d"]["parents"]
    with pytest.raises(ModelError, match="node 'd': expected the attribute 'table', got"):
        BayesNet.from_networkx(graph)
    with pytest.raises(ModelError, match="expected a directed NetworkX graph, got Graph"):
        BayesNet.from_networkx(nx.Graph())


def test_a_missing_networkx_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(CredoError, match=r"networkx is not installed; install credo\[plot\]"):
        small().to_networkx()


# Refusals ------------------------------------------------------------------------------------

HALF = [0.5, 0.5]


@pytest.mark.parametrize(
    ("parents", "tables", "message"),
    [
        (
            {},
            {"A": [0.5, 0.48], "B": HALF},
            "table of 'A': every row must sum to 1, got sums from 0.98 to 0.98",
        ),
        (
            {"B": ["A"]},
            {"A": HALF, "B": [[0.5, 0.48], HALF]},
            "table of 'B': every row must sum to 1, got sums from 0.98 to 1; divide each row by its sum",
        ),
        (
            {},
            {"A": HALF, "B": [-0.1, 1.1]},
            "table of 'B': expected finite, non-negative probabilities, got -0.1",
        ),
        (
            {},
            {"A": HALF, "B": [np.nan, 1]},
            "table of 'B': expected finite, non-negative probabilities, got nan",
        ),
        (
            {},
            {"A": [np.inf, 1], "B": HALF},
            "table of 'A': expected finite, non-negative probabilities, got inf",
        ),
        (
            {"B": ["A"]},
            {"A": HALF, "B": HALF},
            r"table of 'B': expected shape \(2, 2\) for \(A, B\), got \(2,\)",
        ),
        ({}, {"A": [1, 0, 0], "B": HALF}, r"table of 'A': expected shape \(2,\) for \(A\), got \(3,\)"),
        ({}, {"A": ["x", "y"], "B": HALF}, "table of 'A': expected numbers, got"),
        ({}, {"B": HALF}, r"tables: expected one per variable, got none for \['A'\]"),
        ({}, {"A": HALF, "B": HALF, "AB": HALF}, "tables: no variable named 'AB'; did you mean"),
        ({"B": ["C"]}, {"A": HALF, "B": HALF}, "parents of 'B': no variable named 'C'"),
        ({"C": ["B"]}, {"A": HALF, "B": HALF}, "parents: no variable named 'C'"),
        ({"B": ["A", "A"]}, {"A": HALF, "B": [HALF] * 4}, r"table of 'B': expected shape \(2, 2, 2\)"),
        ({"B": ["A", "A"]}, {"A": HALF, "B": [[HALF] * 2] * 2}, "parents of 'B': 'A' is named twice"),
        (
            {"B": ["A"], "A": ["B"]},
            {"A": [HALF] * 2, "B": [HALF] * 2},
            "parents: expected no cycle, got A -> B -> A; remove one of these edges",
        ),
        ({"A": ["A"]}, {"A": [HALF] * 2, "B": HALF}, "parents: expected no cycle, got A -> A"),
    ],
)
def test_bad_networks_are_refused_with_a_sentence(parents, tables, message):
    with pytest.raises(ModelError, match=message):
        BayesNet({"A": 2, "B": 2}, parents, tables)


def test_arguments_of_the_wrong_kind_are_refused():
    with pytest.raises(ModelError, match="parents: expected a mapping by child name, got list"):
        BayesNet({"A": 2}, [("A", "B")], {"A": HALF})
    with pytest.raises(ModelError, match="tables: expected a mapping by child name, got list"):
        BayesNet({"A": 2}, {}, [HALF])
    with pytest.raises(ModelError, match="parents of 'A': expected a list of names, got 3"):
        BayesNet({"A": 2}, {"A": 3}, {"A": HALF})
    with pytest.raises(ModelError, match="parents of 'A': expected the name of a variable, got"):
        BayesNet({"A": 2}, {"A": [["B"]]}, {"A": HALF})


def test_the_named_cycle_is_a_cycle_of_the_graph():
    parents = {"r": ["z"], "x": ["r", "y"], "y": ["w"], "w": ["x"], "leaf": ["w"]}
    with pytest.raises(ModelError, match=r"got (x -> w -> y -> x|w -> y -> x -> w|y -> x -> w -> y);"):
        BayesNet.random(dict.fromkeys("rxywz", 2) | {"leaf": 2}, parents, seed=0)


def test_a_long_cycle_is_shortened():
    ring = {f"v{i}": [f"v{(i + 1) % 40}"] for i in range(40)}
    with pytest.raises(ModelError, match=r"got v\d+ -> .* -> \.\.\. -> .*; remove"):
        BayesNet.random(dict.fromkeys(ring, 2), ring, seed=0)


def test_many_missing_tables_are_counted():
    with pytest.raises(ModelError, match=r"got none for \['v0', .*'v4'\] and 3 more"):
        BayesNet({f"v{i}": 2 for i in range(8)})


@pytest.mark.parametrize(
    ("start", "scope", "tables", "message"),
    [
        ([0, 1], [0], [0.5, 0.5], "one non-empty scope .* per variable, 2 in all, got 1"),
        ([0, 1, 1], [0], [0.5, 0.5], "one non-empty scope"),
        ([0, 1, 3], [0, 1], [0.5] * 4, "expected scope_start from 0 to 2"),
        ([0, 1, 2], [0, 2], [0.5] * 4, r"expected positions in \[0, 2\), got 0 to 2"),
        ([0, 1, 2], [0, 0], [0.5] * 4, "expected one table per variable, got 2 for 'x0'"),
        ([0, 1, 2], [0, 1], [0.5] * 3, r"tables: expected 4 entries in one flat array, got shape \(3,\)"),
        ([0, 1, 2], [1, 0], [0.5] * 3, r"tables: expected 4 entries in one flat array, got shape \(3,\)"),
        ([0, 1, 2], [0, 1], [0.5, 0.5, 0.9, 0.5], "table of 'x1': every row must sum to 1"),
    ],
)
def test_bad_flat_arrays_are_refused(start, scope, tables, message):
    with pytest.raises(ModelError, match=message):
        BayesNet.from_flat(Variables.numbered([2, 2]), np.array(start), np.array(scope), np.array(tables))


def test_a_table_too_large_for_any_array_is_refused_before_it_is_made():
    n = 70
    with pytest.raises(ModelError, match=r"table of 'v69': it would have 2\^70 entries; use fewer parents"):
        BayesNet.random({f"v{i}": 2 for i in range(n)}, {"v69": [f"v{i}" for i in range(69)]}, seed=0)


def test_bad_questions_are_refused():
    model = small()
    with pytest.raises(
        QueryError, match=r"log_probs: expected integers of shape \(rows, 4\), got int64 \(4,\)"
    ):
        model.log_probs(np.zeros(4, dtype=np.int64))
    with pytest.raises(QueryError, match="log_probs: row 0 has state 3 of 'b', expected 0 to 2"):
        model.log_probs(np.array([[0, 3, 0, 0]]))
    with pytest.raises(EvidenceError, match="variable 'b' has no state 'top'"):
        model.log_prob({"a": 0, "b": "top", "c": 0, "d": 0})
    with pytest.raises(OptionError, match="count must be at least 0, got -1"):
        model.sample(-1)
    for value in (0, -1.0, np.nan):
        with pytest.raises(ModelError, match="concentration: expected a positive number"):
            BayesNet.random(STATES, PARENTS, seed=0, concentration=value)
