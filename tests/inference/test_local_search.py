"""Local search: never above the truth nor below its start, and exact where a block spans everything."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from conformance.oracle import Oracle
from credo.core.errors import ConvergenceWarning, OptionError, UnsupportedError, ZeroProbabilityError
from credo.core.result import Status
from credo.inference.problem.base import Budget, Problem
from credo.inference.problem.value import value_of
from credo.inference.search.blocks import MoveBlocks
from credo.inference.search.local_search import descend, first_states, improve, landscape_of
from credo.kernels import local_search as kernel
from inference.test_branch_and_bound import random_graph
from seeds import each_seed
from zoo import ZOO


def problem_of(graph, maximised=None) -> Problem:
    heat = np.zeros(len(graph.variables)) if maximised is None else np.where(maximised, 0.0, 1.0)
    return Problem(graph, heat, (heat == 0).astype(np.int64))


def quietly(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(*args, **kwargs)


@pytest.mark.parametrize("case", [c for c in ZOO if c.names], ids=lambda c: c.id)
def test_small_models_are_solved_and_proven(case):
    truth = Oracle(case)
    result = quietly(case.graph, "local-search", maximise="all", seed=0)
    assert result.status is Status.OPTIMAL
    assert result.log_z.kind == "exact"
    assert result.log_z.value == pytest.approx(truth.best(), rel=1e-9, abs=1e-9)
    chosen = case.names[::2]
    result = quietly(case.graph, "local-search", maximise=chosen, seed=0)
    assert result.log_z.value == pytest.approx(truth.marginal_map(chosen), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("spec", ["local-search(block=0, patience=3)", "local-search(block=2, patience=3)"])
@pytest.mark.parametrize("seed", range(6))
def test_scores_are_true_and_never_above_the_maximum(spec, seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 9)
    names = list(graph.variables.names)
    for chosen in ("all", names[::2], names[:3]):
        try:
            truth = credo.infer(graph, "junction-tree", maximise=chosen).log_z.value
        except ZeroProbabilityError:
            with pytest.raises(ZeroProbabilityError, match="contradict each other"):
                quietly(graph, spec, maximise=chosen, seed=0)
            continue
        result = quietly(graph, spec, maximise=chosen, seed=0)
        assert result.log_z.kind in ("lower", "exact")
        assert result.log_z.value == result.score.value <= truth + 1e-9
        heat = np.array([0.0 if chosen == "all" or n in chosen else 1.0 for n in names])
        asked = Problem(graph, heat, (heat == 0).astype(np.int64))
        assert value_of(asked, np.maximum(result.assignment.indices, 0)).value == pytest.approx(
            result.score.value, abs=1e-9
        )
        assert (np.diff(result.trace["score"]) >= -1e-9).all()


def test_a_descent_never_loses_and_ends_where_no_single_move_gains():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, 12)
        start = rng.integers(0, graph.variables.sizes)
        found = descend(graph, start, rng, rounds=0)
        w = graph.wiring
        value, broken = kernel.local_scores(landscape_of(graph), found)
        for i in range(len(w.sizes)):
            for s in range(w.sizes[i]):
                moved = found.copy()
                moved[i] = s
                there, here = w.state_start[i] + s, w.state_start[i] + found[i]
                assert (broken[there], -value[there]) >= (broken[here], -value[here] - 1e-9)
                if broken[there] == broken[here] == 0:
                    after, before = graph.log_scores(np.array([moved, found]))
                    if np.isfinite(before):
                        assert after - before == pytest.approx(value[there] - value[here], abs=1e-9)
        longer = descend(graph, found, rng)
        assert graph.log_scores(longer[None])[0] >= graph.log_scores(found[None])[0] - 1e-9


@each_seed(range(8))
def test_a_block_is_solved_exactly_given_the_others(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 9, zeros=0.0)
    maximised = rng.random(9) < 0.7
    maximised[0] = True
    problem = problem_of(graph, maximised)
    blocks = MoveBlocks(problem, rng)
    states = np.zeros(9, dtype=np.int64)
    if not len(blocks.movable):
        return
    for limit in (1.0, 2.0, 4.0, 30.0):
        free = blocks.draw(limit)
        moved = blocks.solve(states, free, 30.0)
        if moved is None:
            continue
        held = ~free & maximised
        assert (moved[held] == states[held]).all()
        evidence = {graph.variables.names[i]: int(states[i]) for i in np.flatnonzero(held)}
        chosen = [graph.variables.names[i] for i in np.flatnonzero(maximised)]
        best = credo.infer(graph, "junction-tree", evidence=evidence, maximise=chosen).log_z.value
        assert value_of(problem, moved).value == pytest.approx(best, abs=1e-9)
        assert limit < 30 or blocks.is_everything(free) or len(np.unique(free)) == 2


def test_given_states_are_improved_and_never_lost():
    rng = np.random.default_rng(3)
    graph = random_graph(rng, 40, zeros=0.0)
    problem = problem_of(graph)
    start = rng.integers(0, graph.variables.sizes)
    same, score = improve(problem, start, Budget(max_iter=0), rng)
    assert (same == start).all() and score.value == pytest.approx(graph.log_scores(start[None])[0])
    better, score = improve(problem, start, Budget(max_iter=20), rng)
    assert score.value == pytest.approx(graph.log_scores(better[None])[0])
    assert score.value >= graph.log_scores(start[None])[0]


def test_first_states_avoid_zeros():
    graph = credo.FactorGraph(
        {f"x{i}": 2 for i in range(6)}, {(f"x{i}", f"x{i + 1}"): [[0, 3], [1, 0]] for i in range(5)}
    )
    states = first_states(problem_of(graph), np.random.default_rng(0))
    assert np.isfinite(graph.log_scores(states[None])[0])


def test_contradictions_are_named():
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[0, 1], [1, 0]], ("b", "a"): [[1, 0], [0, 1]]})
    with pytest.raises(ZeroProbabilityError, match="contradict each other"):
        credo.infer(graph, "local-search", maximise="all")


def test_no_time_still_gives_an_assignment():
    graph = credo.datasets.ising_grid(12, seed=0).to_factor_graph()
    result = quietly(graph, "local-search(block=3)", maximise="all", seconds=0, seed=0)
    assert result.status is Status.OUT_OF_TIME
    assert result.score.value == pytest.approx(graph.log_scores(result.assignment.indices[None])[0])
    assert quietly(graph, "local-search", maximise="all", max_iter=0).score.kind == "exact"


def test_the_same_seed_gives_the_same_states():
    graph = credo.datasets.ising_grid(12, seed=1).to_factor_graph()
    one, two = (quietly(graph, "local-search(block=4)", maximise="all", max_iter=8, seed=5) for _ in range(2))
    assert (one.assignment.indices == two.assignment.indices).all()


def test_ctrl_c_returns_the_best_so_far(monkeypatch):
    graph = credo.datasets.ising_grid(12, seed=1).to_factor_graph()

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("credo.inference.search.local_search.StateSearch._block", stop)
    result = quietly(graph, "local-search", maximise="all", seed=0)
    assert result.status is Status.INTERRUPTED
    assert np.isfinite(result.score.value)


def test_what_cannot_be_searched_is_refused_in_a_sentence():
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]]})
    with pytest.raises(
        UnsupportedError,
        match="it gives MAP, marginal MAP and powered sums, and the question asks for marginals and log Z",
    ):
        credo.infer(graph, "local-search")
    with pytest.raises(UnsupportedError, match="the question asks for powered sums in a given order"):
        credo.infer(graph, "local-search", temperatures={"a": 0.0}, order=["a", "b"])
    with pytest.raises(UnsupportedError, match="the question asks for joint tables"):
        credo.query(graph, "a", method="local-search")
    for wrong in ("start=never", "block=-1", "patience=0"):
        with pytest.raises(OptionError):
            credo.infer(graph, f"local-search({wrong})", maximise="all")
