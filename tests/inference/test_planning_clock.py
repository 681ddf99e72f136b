"""Plans under a clock that has run out: each is worse or coarser, but whole, and answers can be read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo.core.result import Status
from credo.inference.problem import feasible
from credo.kernels.feasible import UNDECIDED, box_start, box_steps
from credo.optimise.run import Budget, Run, Stopped, planning, recall
from credo.structures import elimination_order, region_graph
from credo.structures.mini_buckets import mini_bucket_order

pytestmark = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


def grid(side=8):
    return credo.datasets.ising_grid(side, seed=0)


def pigeons(count):
    """One pigeon more than there are holes: no joint state is possible, and it takes long to see."""
    differ = np.where(np.eye(count - 1) == 1, -np.inf, 0.0)
    pairs = np.array(list(itertools.combinations(range(count), 2)))
    return credo.FactorGraph.from_arrays(np.full(count, count - 1), (pairs, differ), log=True)


def over():
    """A run without any time."""
    return Run(Budget(seconds=0.0), whole=False)


@pytest.mark.parametrize("heuristic", ["search", "min-fill", "min-degree"])
def test_an_order_without_time_still_orders_every_variable_by_level(heuristic):
    graph = grid().to_factor_graph()
    levels = np.arange(64) % 2
    with over():
        found = elimination_order(graph, heuristic, levels=levels)
    assert sorted(found.order.tolist()) == list(range(64))
    assert (np.diff(levels[found.order]) >= 0).all()
    assert found.log2_total >= elimination_order(graph, heuristic, levels=levels).log2_total


def test_a_hurried_order_is_kept_for_its_run_and_for_no_other():
    graph, levels = grid().to_factor_graph(), np.zeros(64, dtype=np.int64)
    with over():
        first, again = mini_bucket_order(graph, levels), mini_bucket_order(graph, levels)
        assert first is again
    calm = mini_bucket_order(graph, levels)
    assert calm.tolist() == mini_bucket_order(grid().to_factor_graph(), levels).tolist()
    assert calm is mini_bucket_order(graph, levels)


def test_a_plan_cut_inside_of_planning_is_the_one_that_its_run_finds_afterwards():
    # Two halves of a bound are laid out along one order, one of them after planning has ended.
    graph, levels = grid().to_factor_graph(), np.zeros(64, dtype=np.int64)
    with over():
        with planning(), planning():
            first = mini_bucket_order(graph, levels)
        assert mini_bucket_order(graph, levels) is first


def test_what_was_planned_in_time_is_filed():
    graph = grid(3).to_factor_graph()
    with Run(Budget(), whole=False):
        with planning():
            made = recall(graph.memo, "key", object)
        assert recall(graph.memo, "key", object) is made
    assert graph.memo["key"] is made


@pytest.mark.parametrize("regions", ["auto", "loops", "cvm", "loop-edge-node"])
def test_making_regions_can_be_cut(regions):
    graph = grid(5).to_factor_graph()
    with over(), pytest.raises(Stopped):
        region_graph(graph, regions)
    assert region_graph(graph, regions).is_valid


def test_without_time_for_regions_the_factors_are_the_regions():
    model = grid(6)
    found = credo.infer(model, "gbp", seconds=0.0)
    assert found.status is Status.OUT_OF_TIME
    assert any("the factors are the regions" in note for note in found.notes)
    assert found.marginals.flat.min() >= 0 and np.isfinite(found.log_z.value)
    calm = credo.infer(model, "gbp")
    assert not any("the factors are the regions" in note for note in calm.notes)  # nothing hurried was filed


@pytest.mark.parametrize("method", ["mean-field", "structured-mean-field"])
def test_a_start_that_was_not_found_in_time_is_said_to_bound_nothing(method, monkeypatch):
    monkeypatch.setattr(feasible, "box_steps", _Never())
    differ = np.where(np.eye(3) == 1, -np.inf, 0.0)
    pairs = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
    graph = credo.FactorGraph.from_arrays(np.full(4, 3), (pairs, differ), log=True)
    found = credo.infer(graph, method, seconds=0.0)
    assert found.status is Status.OUT_OF_TIME
    assert (found.log_z.value, found.log_z.kind) == (-np.inf, "lower")
    assert any("nothing is bounded" in note for note in found.notes)
    np.testing.assert_allclose(found.marginals.flat, 1 / 3)


class _Never:
    """A search that has not decided yet, whenever it is asked."""

    def portion(self, work, most):
        return most

    def over(self, work):
        return lambda *arguments: UNDECIDED


@pytest.mark.parametrize("most", [1, 10, 1000])
def test_the_size_of_portions_does_not_change_what_a_search_finds(most):
    for graph in (pigeons(5), grid(3).to_factor_graph()):
        w, rng = graph.wiring, np.random.default_rng(0)
        arrays = (graph.log_tables, w.table_start, w.scope_start, w.scope, w.edge_stride, w.state_start)
        n = len(w.sizes)
        wish = (rng.permutation(n), rng.random(int(w.state_start[-1])), 1000)
        code, keep = feasible.feasible_box(graph, *wish)
        box, cut = box_start(*arrays), UNDECIDED
        while cut == UNDECIDED:
            cut = box_steps(box, *arrays, *wish, most)
        assert cut == code
        np.testing.assert_array_equal(box.keep, keep)


@pytest.mark.parametrize("method", ["gdd", "wmb", "local-search", "mini-bucket"])
def test_bounds_and_states_without_time_are_bounds_and_states(method):
    model = grid(4)
    exact = credo.infer(model, "junction-tree", maximise="all").log_z.value
    found = credo.infer(model, method, maximise="all", seconds=0.0)
    if found.log_z.kind == "upper":
        assert found.log_z.value >= exact - 1e-9
    if found.score is not None:
        assert found.score.value <= exact + 1e-9


def test_learning_without_time_gives_the_model_it_started_from():
    model = credo.datasets.asia()
    names = model.to_factor_graph().variables.names
    rows = {name: [0, 0, None] for name in names} | {"asia": [0, 1, 0]}
    found = credo.fit(model, rows, "em(start=given)", seconds=0.0)
    assert found.status is Status.OUT_OF_TIME
    start, learned = model.to_factor_graph(), found.model.to_factor_graph()
    np.testing.assert_allclose(learned.log_tables, start.log_tables, atol=1e-12)
