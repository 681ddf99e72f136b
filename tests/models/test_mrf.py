"""Markov networks: Ising and Potts formulas, conversions and every refusal."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo import FactorGraph, MarkovNet
from credo.core.errors import CredoError, ModelError, QueryError

EDGES = [(0, 1), (1, 2), (2, 0), (3, 1)]
J = np.array([0.5, -1.25, 2.0, 0.3])
H = np.array([0.1, -0.2, 0.7, 0.0])
SPINS = list(itertools.product([-1, 1], repeat=4))


def energy(x: tuple[int, ...]) -> float:
    pairs = sum(c * x[i] * x[j] for (i, j), c in zip(EDGES, J, strict=True))
    return pairs + sum(h * s for h, s in zip(H, x, strict=True))


def scores(model: MarkovNet) -> list[float]:
    labels = {-1: "-1", 1: "+1"}
    graph = model.to_factor_graph()
    return [graph.log_score({f"x{i}": labels[s] for i, s in enumerate(x)}) for x in SPINS]


def dense() -> np.ndarray:
    matrix = np.zeros((4, 4))
    for (i, j), c in zip(EDGES, J, strict=True):
        matrix[i, j] = matrix[j, i] = c
    return matrix


def sparse():
    return pytest.importorskip("scipy.sparse").csr_array(dense())


@pytest.mark.parametrize(
    "make",
    [
        lambda: MarkovNet.ising(J, H, EDGES),
        lambda: MarkovNet.ising(dict(zip(EDGES, J, strict=True)), H),
        lambda: MarkovNet.ising(dense(), H),
        lambda: MarkovNet.ising(np.triu(dense()), H),
        lambda: MarkovNet.ising(np.tril(dense()), list(H)),
        lambda: MarkovNet.ising(sparse(), H),
    ],
    ids=["edges", "mapping", "symmetric", "upper", "lower", "sparse"],
)
def test_every_way_to_give_couplings_gives_the_ising_energy(make):
    model = make()
    np.testing.assert_allclose(scores(model), [energy(x) for x in SPINS], atol=1e-12)
    assert model.variables[0].states == ("-1", "+1")
    assert model.to_factor_graph() is model.to_factor_graph()


def test_one_coupling_is_shared_by_all_edges_and_one_field_by_all_variables():
    graph = MarkovNet.ising(0.4, 0.1, EDGES).to_factor_graph()
    score = graph.log_score({"x0": 1, "x1": 1, "x2": 0, "x3": 1})
    assert score == pytest.approx(0.4 * (1 - 1 - 1 + 1) + 0.1 * 2)
    assert len(np.unique(graph.table_start[4:])) == 1


def test_without_fields_there_are_no_unary_factors():
    assert MarkovNet.ising(J, None, EDGES).to_factor_graph().n_factors == 4
    assert repr(MarkovNet.ising(J, None, EDGES, count=9)) == "MarkovNet(9 variables, 4 factors)"
    assert repr(MarkovNet.ising(np.zeros((3, 3)))) == "MarkovNet(3 variables, 0 factors)"
    assert repr(MarkovNet.ising({})) == "MarkovNet(0 variables, 0 factors)"


def test_the_partition_function_of_an_ising_triangle_is_the_known_one():
    # Z = 2 e^{3J} + 6 e^{-J}: two aligned states, six with one spin against two.
    model = MarkovNet.ising(0.7, None, [(0, 1), (1, 2), (0, 2)])
    found = credo.infer(model, "enumerate").log_z.value
    assert found == pytest.approx(np.log(2 * np.exp(2.1) + 6 * np.exp(-0.7)), abs=1e-12)


@pytest.mark.parametrize("sizes", [3, [3, 2, 4]], ids=["equal", "different"])
def test_the_potts_score_is_the_formula(sizes):
    counts = np.broadcast_to(sizes, 3)
    rng = np.random.default_rng(0)
    fields = [rng.normal(size=k) for k in counts]
    edges, couplings = [(0, 1), (2, 1), (0, 2)], [0.5, -1.0, 2.0]
    graph = MarkovNet.potts(edges, sizes, couplings, fields).to_factor_graph()
    for x in itertools.product(*map(range, counts)):
        expected = sum(c for (i, j), c in zip(edges, couplings, strict=True) if x[i] == x[j])
        expected += sum(f[k] for f, k in zip(fields, x, strict=True))
        assert graph.log_score({f"x{i}": k for i, k in enumerate(x)}) == pytest.approx(expected)


def test_potts_with_two_states_is_ising_with_half_the_coupling():
    potts = credo.infer(MarkovNet.potts(EDGES, 2, 2 * J), "enumerate").marginals.flat
    ising = credo.infer(MarkovNet.ising(J, None, EDGES), "enumerate").marginals.flat
    np.testing.assert_allclose(potts, ising, atol=1e-12)


def test_a_model_is_its_factors():
    model = MarkovNet({"a": 2, "b": 3}, {("b", "a"): np.arange(6).reshape(3, 2)})
    graph = FactorGraph({"a": 2, "b": 3}, {("b", "a"): np.arange(6).reshape(3, 2)})
    assert model.to_factor_graph() == graph
    assert MarkovNet.from_graph(graph) == model and model != graph
    assert MarkovNet.from_graph(graph).to_factor_graph() is graph
    assert model.to_factor_graph().log_score({"a": 1, "b": 2}) == pytest.approx(np.log(5))


def test_frames_become_factors():
    pd = pytest.importorskip("pandas")
    pair = pd.DataFrame(
        [("u", "0", 1.0), ("u", "1", 2.0), ("v", "0", 3.0), ("v", "1", 0.0)], columns=["a", "b", "weight"]
    )
    one = pd.DataFrame({"b": ["1", "0"], "weight": [5.0, 7.0]})
    model = MarkovNet.from_pandas([pair, one], states={"alone": 2})
    assert [v.name for v in model.variables] == ["alone", "a", "b"]
    score = model.to_factor_graph().log_score({"a": "v", "b": "0", "alone": 0})
    assert score == pytest.approx(np.log(3 * 7))
    with pytest.raises(ModelError, match="expected 4 rows, one per combination, got 3; a weight of zero"):
        MarkovNet.from_pandas([pair.iloc[:3]])
    with pytest.raises(ModelError, match="factor 0: expected a data frame with a column 'w', got"):
        MarkovNet.from_pandas([pair], weight="w")


def test_networkx_tables_follow_the_node_order_or_the_scope():
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_node("a", states=2, table=[1.0, 10.0])
    graph.add_node("b", states=["p", "q", "r"])
    table = np.arange(1.0, 7.0).reshape(2, 3)
    graph.add_edge("b", "a", table=table)
    expected = MarkovNet({"a": 2, "b": ["p", "q", "r"]}, {("a",): [1, 10], ("a", "b"): table})
    assert MarkovNet.from_networkx(graph) == expected
    graph.edges["a", "b"].update(scope=["b", "a"], table=table.T)
    found = MarkovNet.from_networkx(graph).to_factor_graph()
    assert found.log_score({"a": 1, "b": "r"}) == pytest.approx(np.log(60))
    graph.edges["a", "b"]["scope"] = ["b", "c"]
    with pytest.raises(ModelError, match=r"edge \('a', 'b'\): its attribute 'scope' is \['b', 'c'\]"):
        MarkovNet.from_networkx(graph)
    del graph.edges["a", "b"]["table"]
    with pytest.raises(ModelError, match=r"edge \('a', 'b'\): expected the attribute 'table', got"):
        MarkovNet.from_networkx(graph)
    with pytest.raises(ModelError, match="node 'a': expected the attribute 'domain', got"):
        MarkovNet.from_networkx(graph, states="domain")
    with pytest.raises(ModelError, match="expected a NetworkX graph, got int"):
        MarkovNet.from_networkx(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: MarkovNet.ising([1.0, 2.0], None, [(0, 1)]),
            r"couplings: expected one number or 1, got shape \(2,\)",
        ),
        (lambda: MarkovNet.ising(np.ones((2, 3))), r"couplings: expected a square matrix, or edges as well"),
        (lambda: MarkovNet.ising([1.0, 2.0]), r"couplings: expected a square matrix, or edges as well"),
        (lambda: MarkovNet.ising(np.eye(2)), "couplings: expected a zero diagonal, because x_i x_i = 1"),
        (
            lambda: MarkovNet.ising([[0, 1], [2, 0]]),
            "expected a symmetric or triangular matrix, got J_ij different",
        ),
        (lambda: MarkovNet.ising([[0, np.nan], [0, 0]]), "couplings: expected finite numbers, got nan"),
        (lambda: MarkovNet.ising("strong", None, EDGES), "couplings: expected numbers, got 'strong'"),
        (
            lambda: MarkovNet.ising(np.zeros((2, 2)), [1, 2, 3]),
            r"fields: expected one number or 2, got shape \(3,\)",
        ),
        (lambda: MarkovNet.ising(1.0, [0.1], [(0, 1)]), r"edges: expected positions in \[0, 1\), got 0 to 1"),
        (
            lambda: MarkovNet.ising(1.0, None, [(0, 1.5)]),
            "edges: expected pairs of variable positions, got float64",
        ),
        (
            lambda: MarkovNet.ising(1.0, None, [0, 1]),
            r"edges: expected pairs of variable positions, got .*\(2,\)",
        ),
        (lambda: MarkovNet.ising(1.0, None, 7), "edges: expected pairs of variable positions, got 7"),
        (lambda: MarkovNet.ising({(1, 1): 1.0}), "variable 'x1' appears twice in the scope"),
        (lambda: MarkovNet.potts([(0, 4)], [2, 2]), r"edges: expected positions in \[0, 2\), got 0 to 4"),
        (lambda: MarkovNet.potts([(0, 1)], 2.5), "sizes: expected one number of states or one per variable"),
        (lambda: MarkovNet.potts([(0, 1)], 2, fields=[[1, 2]]), r"edges: expected positions in \[0, 1\)"),
        (
            lambda: MarkovNet.potts([(0, 1)], [2, 2], fields=[[1, 2]]),
            "fields: expected one vector per variable, 2 in all",
        ),
        (
            lambda: MarkovNet.potts([(0, 1)], [2, 2], fields=[[1, 2, 3], [1, 2, 3]]),
            r"fields: expected 2 numbers for a variable with 2 states, got shape \(3,\)",
        ),
        (
            lambda: MarkovNet.potts([(0, 1)], 2, [1, 2]),
            r"couplings: expected one number or 1, got shape \(2,\)",
        ),
        (lambda: MarkovNet.from_graph("graph"), "from_graph: expected a FactorGraph, got str"),
    ],
)
def test_bad_models_are_refused_with_a_sentence(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_an_unknown_variable_in_a_factor_is_refused():
    with pytest.raises(QueryError, match="no variable named 'c'"):
        MarkovNet({"a": 2}, {("c",): [1, 2]})
    with pytest.raises(CredoError, match=r"expected a table of shape \(2,\), got \(3,\)"):
        MarkovNet({"a": 2}, {("a",): [1, 2, 3]})
