"""Message kernels against whole NumPy tables, against each other, and uncompiled."""

from __future__ import annotations

import numpy as np
import pytest

from credo import FactorGraph
from credo.kernels import binary_messages, message_beliefs, positive_messages
from credo.kernels import messages as kernel
from inference.dense_bp import DenseBP


def chain_and_loop(seed=0, states=(2, 3, 2, 2), zeros=False):
    """A loop of three variables with a three-way factor, a tail and a unary factor."""
    rng = np.random.default_rng(seed)
    names = "abcd"
    sizes = dict(zip(names, states, strict=True))
    scopes = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "b", "d"), ("c",)]
    tables = {s: np.exp(0.5 * rng.standard_normal([sizes[n] for n in s])) for s in scopes}
    if zeros:
        tables["a", "b"][0, 1] = 0.0
        tables["c",][1] = 0.0
    return FactorGraph(sizes, tables)


def uniform(graph):
    sizes = graph.variables.sizes[graph.scope]
    return np.repeat(-np.log(sizes), sizes)


def sweep(graph, messages, *, order=None, at_once=False, power=1.0, step=1.0, linear=False, heat=1.0, count=1,
          run=kernel.log_sweeps):  # fmt: skip
    """Call the log kernel on a whole graph; messages change in place."""
    w, m = graph.wiring, graph.n_factors
    order = np.arange(m)[None, :] if order is None else order
    return run(
        order, at_once, np.full(m, power), np.full(m, step), linear, w.scope_start, w.scope, w.sizes,
        w.state_start, w.edge_state_start, graph.log_tables, w.table_start,
        np.full(len(w.sizes), heat), messages, count, 0.0,
    )  # fmt: skip


def beliefs(graph, messages):
    w = graph.wiring
    belief, zeros = np.empty(w.state_start[-1]), np.empty(w.state_start[-1], dtype=np.int64)
    message_beliefs.log_beliefs(w.scope, w.edge_state_start, w.state_start, messages, belief, zeros)
    return belief, zeros


def test_a_belief_is_a_finite_part_and_a_count_of_zeros():
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): np.ones((2, 2)), "a": [1, 1]})
    messages = np.array([-1.0, -np.inf, -0.5, -0.7, -np.inf, -np.inf])
    belief, zeros = beliefs(graph, messages)
    np.testing.assert_array_equal(belief, [-1.0, 0.0, -0.5, -0.7])
    np.testing.assert_array_equal(zeros, [1, 2, 0, 0])


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_is_that_of_whole_tables(seed, zeros):
    graph = chain_and_loop(seed, zeros=zeros)
    dense, messages = DenseBP(graph), uniform(graph)
    for _ in range(4):
        change = sweep(graph, messages)
        assert change[0] == pytest.approx(dense.flood(), abs=1e-13)
        np.testing.assert_allclose(np.exp(messages), dense.flat_messages(), atol=1e-13)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("heat", [0.0, 1.0])
def test_the_source_runs_uncompiled_with_the_same_result(at_once, heat):
    graph = chain_and_loop(1, zeros=True)
    compiled, plain = uniform(graph), uniform(graph)
    fast = sweep(graph, compiled, at_once=at_once, heat=heat, count=2)
    slow = sweep(graph, plain, at_once=at_once, heat=heat, count=2, run=kernel.log_sweeps.py_func)
    np.testing.assert_allclose(fast, slow, atol=1e-14)
    np.testing.assert_allclose(compiled, plain, atol=1e-13)


@pytest.mark.parametrize(("power", "step"), [(1.0, 0.4), (2.0, 1.0), (0.5, 0.5), (1.7, 0.6)])
def test_powers_and_steps_follow_their_formula(power, step):
    graph = chain_and_loop(2)
    dense, messages = DenseBP(graph), uniform(graph)
    for _ in range(3):
        sweep(graph, messages, power=power, step=step)
        new = {}
        for a, i in dense.messages:
            table = dense.tables[a] ** power
            for k, j in enumerate(dense.scopes[a]):
                if j != i:
                    shape = [1] * len(dense.scopes[a])
                    shape[k] = -1
                    share = dense.cavity(-1, j) * dense.messages[a, j] ** -power
                    table = table * share.reshape(shape)
            total = table.sum(axis=tuple(k for k, j in enumerate(dense.scopes[a]) if j != i))
            mixed = dense.messages[a, i] ** (1 - step) * total ** (step / power)
            new[a, i] = mixed / mixed.sum()
        dense.messages = new
        np.testing.assert_allclose(np.exp(messages), dense.flat_messages(), atol=1e-12)


@pytest.mark.parametrize("linear", [False, True])
def test_damping_lets_zeros_follow_the_new_message(linear):
    graph = FactorGraph({"a": 3}, {"a": [1.0, 3.0, 0.0]})
    messages = np.array([-np.inf, np.log(0.5), np.log(0.5)])
    sweep(graph, messages, step=0.5, linear=linear)
    # State 0 was zero and takes the new weight; state 2 becomes zero; state 1 is mixed.
    middle = 0.5 * 0.5 + 0.5 * 0.75 if linear else np.sqrt(0.5 * 0.75)
    np.testing.assert_allclose(np.exp(messages), np.array([0.25, middle, 0.0]) / (0.25 + middle))


def test_a_contradiction_is_a_negative_change():
    tables = {("a", "b"): np.ones((2, 2)), ("a", "c"): np.eye(2), "a": [1, 0], "c": [0, 1]}
    graph = FactorGraph({"a": 2, "b": 2, "c": 2}, tables)
    changes = sweep(graph, uniform(graph), at_once=True, count=5)
    assert changes[-1] == -1
    assert len(changes) < 5


def test_max_messages_are_max_marginals_of_a_tree():
    rng = np.random.default_rng(4)
    ab, bc = rng.random((2, 3)), rng.random((3, 2))
    graph = FactorGraph({"a": 2, "b": 3, "c": 2}, {("a", "b"): ab, ("b", "c"): bc})
    messages = uniform(graph)
    sweep(graph, messages, heat=0.0, count=3)
    belief, _ = beliefs(graph, messages)
    joint = ab[:, :, None] * bc[None]
    for part, axes in zip(np.split(belief, [2, 5]), [(1, 2), (0, 2), (0, 1)], strict=True):
        best = joint.max(axis=axes)
        np.testing.assert_allclose(np.exp(part - part.max()), best / best.max(), atol=1e-13)


def test_the_reweighted_value_is_its_formula():
    graph = chain_and_loop(3)
    rng = np.random.default_rng(0)
    w, rho = graph.wiring, rng.uniform(0.2, 1.0, graph.n_factors)
    marginals = np.concatenate([rng.dirichlet(np.ones(s)) for s in w.sizes])
    sizes = [int(np.prod(w.sizes[graph.scope_of(a)])) for a in range(graph.n_factors)]
    tables = [rng.dirichlet(np.ones(s)) for s in sizes]
    tables[0] = np.eye(sizes[0])[0]  # 0 log 0 = 0
    found = message_beliefs.reweighted_log_z(
        rho, w.scope_start, w.scope, graph.log_tables, w.table_start, w.state_start, np.concatenate(tables),
        marginals,
    )  # fmt: skip
    entropy = lambda p: -sum(x * np.log(x) for x in p if x > 0)
    wanted = sum(
        float(tables[a] @ graph.log_table(a).ravel()) + rho[a] * entropy(tables[a])
        for a in range(graph.n_factors)
    )
    for i, p in enumerate(np.split(marginals, w.state_start[1:-1])):
        wanted += (1 - sum(rho[a] for a in range(graph.n_factors) if i in graph.scope_of(a))) * entropy(p)
    assert found == pytest.approx(wanted, abs=1e-12)


def test_depths_are_those_of_a_breadth_first_walk():
    graph = FactorGraph.from_arrays(
        np.full(7, 2),
        (np.array([[1, 2], [0, 1], [2, 3], [5, 6]]), np.ones((2, 2))),
        (np.array([[3], [4]]), np.ones(2)),
    )
    w = graph.wiring
    depth = message_beliefs.factor_depths(
        w.scope_start, w.scope, w.neighbour_start, w.neighbour_edge, w.edge_factor
    )
    np.testing.assert_array_equal(depth, [1, 0, 2, 0, 3, 0])


def test_the_heap_keeps_the_largest_on_top():
    rng = np.random.default_rng(5)
    key = rng.random(50)
    heap, place = np.arange(50), np.arange(50)
    for k in range(49, -1, -1):
        kernel.sift(heap, place, key, k)
    for _ in range(200):
        a = int(rng.integers(50))
        key[a] = rng.random()
        kernel.sift(heap, place, key, place[a])
        assert key[heap[0]] == key.max()
        np.testing.assert_array_equal(place[heap], np.arange(50))


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("states", [(2, 3, 2, 2), (2, 2, 2, 2), (5, 4, 7, 3)])
def test_positive_sweeps_equal_those_in_logarithms(states, at_once):
    graph = chain_and_loop(6, states)
    w = graph.wiring
    free, _, _ = positive_messages.survey(w.scope_start, w.scope, w.sizes, graph.log_tables, w.table_start)
    np.testing.assert_array_equal(free, [2, 2, 2, 3, 1])
    order = np.array([[3, 0, 1, 2], [2, 1, 0, 3]])
    logs = uniform(graph)
    sweep(graph, logs, order=np.array([[4]]))
    size = np.repeat(w.sizes[w.scope], w.sizes[w.scope])
    values = np.exp(logs) * size
    constant = np.exp(
        positive_messages.constant_messages(
            free, w.scope_start, w.scope, w.sizes, w.state_start, graph.log_tables, w.table_start
        )
    )
    changes = positive_messages.linear_sweeps(
        order, at_once, w.scope_start, w.scope, w.sizes, w.state_start, w.edge_state_start,
        np.exp(graph.log_tables), w.table_start, constant, values, 5, 0.0,
    )  # fmt: skip
    wanted = sweep(graph, logs, order=order, at_once=at_once, count=5)
    np.testing.assert_allclose(changes, wanted, atol=1e-12)
    np.testing.assert_allclose(values / size, np.exp(logs), atol=1e-12)


@pytest.mark.parametrize("arity", [4, 5, 6])
def test_positive_sweeps_take_tables_of_any_arity(arity):
    rng = np.random.default_rng(arity)
    sizes = rng.integers(1, 4, arity)
    scopes = np.stack([np.arange(arity), rng.permutation(arity)])
    graph = FactorGraph.from_flat(
        FactorGraph.from_arrays(sizes).variables,
        np.array([0, arity, 2 * arity]),
        scopes.ravel(),
        0.3 * rng.standard_normal(2 * int(sizes.prod())),
    )
    w, logs = graph.wiring, uniform(graph)
    size = np.repeat(w.sizes[w.scope], w.sizes[w.scope])
    values = np.exp(logs) * size
    order = np.array([[0, 1]])
    changes = positive_messages.linear_sweeps(
        order, True, w.scope_start, w.scope, w.sizes, w.state_start, w.edge_state_start,
        np.exp(graph.log_tables), w.table_start, np.ones(w.state_start[-1]), values, 6, 0.0,
    )  # fmt: skip
    np.testing.assert_allclose(changes, sweep(graph, logs, order=order, at_once=True, count=6), atol=1e-12)
    np.testing.assert_allclose(values / size, np.exp(logs), atol=1e-12)


def test_the_survey_adds_up_ranges_and_sees_zeros():
    def spread(tables):
        graph = FactorGraph({"a": 2, "b": 2}, tables)
        w = graph.wiring
        return positive_messages.survey(w.scope_start, w.scope, w.sizes, graph.log_tables, w.table_start)[1]

    assert spread({}) == 0
    assert spread({"a": [1, np.e], ("a", "b"): [[1, 1], [1, np.e**2]]}) == pytest.approx(3)
    assert spread({"a": [0, 1]}) == np.inf
    assert spread({(): 0.0}) == np.inf
    assert spread({(): 1e-200}) == 0


def binary_ring(n, seed=0):
    rng = np.random.default_rng(seed)
    first, second = np.arange(n), (np.arange(n) + 1) % n
    return first, second, np.exp(0.5 * rng.standard_normal((n, 4))), np.exp(rng.standard_normal(n))


def test_flooding_on_all_cores_takes_the_same_steps():
    ring = binary_ring(101)
    one, many = np.ones((101, 2)), np.ones((101, 2))
    alone = binary_messages.binary_sweeps(*ring, one, 9, 0.0)
    together = binary_messages.binary_sweeps_parallel(*ring, many, 9, 0.0, 3)
    np.testing.assert_allclose(together, alone, rtol=1e-9)
    np.testing.assert_allclose(many, one, rtol=1e-12)


def test_binary_ratios_satisfy_their_equation_at_the_end():
    first, second, p, prior = binary_ring(8, seed=2)
    ratio = np.ones((8, 2))
    order = np.stack([np.arange(8), np.arange(8)[::-1]])
    changes = binary_messages.binary_ordered(order, first, second, p, prior, ratio, 500, 1e-14)
    assert changes[-1] < 1e-14
    for a in range(8):
        i, j = first[a], second[a]
        ci = prior[i] * ratio[a - 1, 1]  # variable i is the second one of the factor before
        cj = prior[j] * ratio[(a + 1) % 8, 0]
        assert ratio[a, 0] == pytest.approx((p[a, 2] + p[a, 3] * cj) / (p[a, 0] + p[a, 1] * cj), rel=1e-10)
        assert ratio[a, 1] == pytest.approx((p[a, 1] + p[a, 3] * ci) / (p[a, 0] + p[a, 2] * ci), rel=1e-10)
