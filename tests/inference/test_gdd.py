"""Generalised dual decomposition against enumeration, and against the bounds it generalises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, ZeroProbabilityError
from credo.core.factor_graph import FactorGraph
from credo.core.result import Status
from credo.inference.bounds.gdd import GDD
from credo.inference.portfolio.question import pose
from credo.kernels.gdd import (
    AXIS,
    AXIS_END,
    EDGE,
    EDGE_END,
    SHIFT,
    SIZE,
    TABLE,
    bound_of,
    gradient,
    shift_tables,
)
from inference.gdd_models import TASKS, random_graph, random_question, ring_and_grid, truth_of

pytestmark = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "options",
    [{}, {"weights": "uniform"}, {"weights": "matched"}, {"ibound": 1}, {"ibound": 2, "weights": "uniform"}],
    ids=str,
)
def test_every_sweep_bounds_the_truth_and_never_rises(task, options):
    rng = np.random.default_rng(TASKS.index(task))
    algorithm = GDD(updates="blocks", smooth=False, **options)
    for k in range(40):
        graph = random_graph(rng, zeros=0.25 * (k % 2))
        _, problem = pose(graph, None, **random_question(rng, graph, task))
        truth = truth_of(problem)
        slack = 1e-9 * max(1.0, abs(truth)) if truth > -np.inf else 0.0
        try:
            state = algorithm.start(problem, rng)
            bounds = [state.best]
            for _ in range(5):
                state, change = algorithm.step(problem, state)
                assert change >= 0
                bounds.append(state.bounds[-1])
                assert np.isfinite(state.shifts).all()
            result = algorithm.read(problem, state, Status.CONVERGED)
        except ZeroProbabilityError:
            assert truth == -np.inf
            continue
        assert min(bounds) >= truth - slack, (k, bounds, truth)
        rises = np.diff(bounds)
        if algorithm.weights == "auto":
            rises = np.delete(rises, 1)  # weights are spread before the second sweep
        assert rises.max() <= 1e-10 * max(1.0, abs(bounds[-1])), (k, bounds)
        assert result.log_z.value == min(bounds)
        assert (np.diff(result.trace["bound"]) <= 0).all()
        if result.score is not None:
            assert result.score.value <= truth + slack
            assert result.score.value > -np.inf or truth == -np.inf or not problem.is_max


@pytest.mark.parametrize("ibound", [0, 1])
def test_cooling_maxima_bound_the_truth_at_every_sweep(ibound):
    rng = np.random.default_rng(13)
    algorithm = GDD(updates="blocks", ibound=ibound)
    for k in range(30):
        graph = random_graph(rng, zeros=0.25 * (k % 2))
        task = ["mixed", "fractional", "any order"][k % 3]
        _, problem = pose(graph, None, **random_question(rng, graph, task))
        truth = truth_of(problem)
        try:
            state = algorithm.start(problem, rng)
            for _ in range(8):
                before = state.best
                state, _ = algorithm.step(problem, state)
                assert state.bounds[-1] >= truth - 1e-9 * max(1.0, abs(truth))
                assert state.best <= before
        except ZeroProbabilityError:
            assert truth == -np.inf


@pytest.mark.parametrize("task", TASKS)
def test_the_joint_descent_bounds_the_truth_at_every_step(task):
    rng = np.random.default_rng(7)
    algorithm = GDD(updates="joint", ibound=1)
    for k in range(12):
        graph = random_graph(rng, zeros=0.25 * (k % 2))
        _, problem = pose(graph, None, **random_question(rng, graph, task))
        truth = truth_of(problem)
        try:
            state = algorithm.start(problem, rng)
            for _ in range(8):
                before = state.best
                state, _ = algorithm.step(problem, state)
                assert state.bounds[-1] >= truth - 1e-9 * max(1.0, abs(truth))
                assert state.best <= before
        except ZeroProbabilityError:
            assert truth == -np.inf


@pytest.mark.parametrize("ibound", [0, 2])
def test_gradients_of_the_bound_match_finite_differences(ibound):
    rng = np.random.default_rng(3)
    graph = credo.datasets.ising_grid(3, seed=1).to_factor_graph()
    _, problem = pose(graph, None)
    state = GDD(updates="blocks", ibound=ibound).start(problem, rng)
    plan = state.plan
    weight = rng.uniform(0.2, 1.5, len(state.weight))
    shifts = rng.standard_normal(plan.n_shifts)
    tables = np.empty_like(state.base)

    def bound(shifts, weight):
        shift_tables(plan.separators, plan.edges, plan.maps, state.base, shifts, tables)
        return bound_of(plan.regions, plan.axis_size, weight, tables, np.empty(len(plan.regions)))

    value = bound(shifts, weight)
    by_shift, by_weight = np.empty(plan.n_shifts), np.empty(len(weight))
    found = gradient(
        plan.regions,
        plan.separators,
        plan.edges,
        plan.maps,
        plan.axis_size,
        weight,
        tables,
        by_shift,
        by_weight,
    )
    assert found == pytest.approx(value, rel=1e-12)
    h = 1e-5
    for which, slope in ((0, by_shift), (1, by_weight)):
        for q in rng.permutation(len(slope))[:20]:
            ends = []
            for sign in (1, -1):
                point = [shifts.copy(), weight.copy()]
                point[which][q] += sign * h
                ends.append(bound(*point))
            assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(slope[q], abs=1e-7)


def dual_decomposition(graph, shifts_of):
    """(2.39) by plain loops: shifts_of[a, i] is added to variable i and subtracted from factor a."""
    node = {i: np.zeros(int(s)) for i, s in enumerate(graph.variables.sizes)}
    total = 0.0
    for a in range(graph.n_factors):
        scope, table = graph.scope_of(a).tolist(), graph.log_table(a).copy()
        if len(scope) == 1:
            node[scope[0]] = node[scope[0]] + table
            continue
        for k, i in enumerate(scope):
            shape = [1] * len(scope)
            shape[k] = -1
            table = table - shifts_of[a, i].reshape(shape)
            node[i] = node[i] + shifts_of[a, i]
        total += table.max()
    return total + sum(t.max() for t in node.values())


def test_all_zero_weights_give_the_dual_decomposition_bound():
    rng = np.random.default_rng(5)
    graph = ring_and_grid(rng)
    _, problem = pose(graph, None, "all")
    algorithm = GDD(updates="blocks")
    state = algorithm.start(problem, rng)
    for _ in range(4):
        plan = state.plan
        shifts_of = {}
        for a in range(graph.n_factors):
            c = plan.region[a]
            for i in graph.scope_of(a).tolist():
                s = plan.single[i]
                for e in range(plan.separators[s, EDGE], plan.separators[s, EDGE_END]):
                    if plan.joins.edge_cluster[e] == c:
                        at = plan.edges[e, SHIFT]
                        shifts_of[a, i] = state.shifts[at : at + 2]
        now = state.bounds[-1] if state.bounds else state.best
        assert now == pytest.approx(dual_decomposition(graph, shifts_of), abs=1e-10)
        state, _ = algorithm.step(problem, state)


def test_closed_forms_are_exact_minima_of_their_blocks():
    """After a block, no random move of its shifts lowers the bound."""
    from credo.kernels.gdd_sweeps import gdd_sweep

    rng = np.random.default_rng(6)
    graph = ring_and_grid(rng)
    names = graph.variables.names
    for maximise in ("all", names[::2]):
        _, problem = pose(graph, None, maximise)
        state = GDD(updates="blocks", smooth=False).start(problem, rng)
        plan = state.plan
        shifts = rng.standard_normal(plan.n_shifts)
        tables = np.empty_like(state.base)
        for i in problem.maximised:
            s = plan.single[i]
            shift_tables(plan.separators, plan.edges, plan.maps, state.base, shifts, tables)
            gdd_sweep(
                plan.regions, plan.separators, plan.edges, plan.axis_size, plan.maps, plan.members,
                plan.entry_start, plan.entry_region, plan.entry_axis, state.weight, tables, shifts,
                state.steps, state.paces, np.array([s]), np.empty(0, dtype=np.int64), 5, 0.0, plan.room_sizes,
            )  # fmt: skip
            terms = np.empty(len(plan.regions))
            low = bound_of(plan.regions, plan.axis_size, state.weight, tables, terms)
            edges = plan.edges[plan.separators[s, EDGE] : plan.separators[s, EDGE_END]]
            at = edges[:, SHIFT][:, None] + np.arange(plan.separators[s, SIZE])
            for scale in (1e-3, 0.1, 1.0):
                for _ in range(20):
                    moved = shifts.copy()
                    moved[at.ravel()] += scale * rng.standard_normal(at.size)
                    shift_tables(plan.separators, plan.edges, plan.maps, state.base, moved, tables)
                    high = bound_of(plan.regions, plan.axis_size, state.weight, tables, terms)
                    assert high >= low - 1e-10
        assert plan.regions[:, TABLE].max() < len(tables)


def test_pairwise_sums_reach_the_tree_reweighted_optimum():
    """The minimum over shifts is TRW with rho = the weight of the end eliminated first (B4)."""
    graph = ring_and_grid(np.random.default_rng(8))
    _, problem = pose(graph, None)
    algorithm = GDD(updates="blocks", weights="uniform", fixed_weights=True)
    state = algorithm.start(problem, np.random.default_rng(0))
    for _ in range(400):
        state, _ = algorithm.step(problem, state)
    plan = state.plan
    rho = np.ones(graph.n_factors)
    for a in range(graph.n_factors):
        if len(graph.scope_of(a)) == 2:
            rho[a] = state.weight[plan.regions[plan.region[a], AXIS]]
    assert state.best == pytest.approx(reweighted_optimum(graph, rho), abs=2e-6)


def reweighted_optimum(graph, rho):
    """Damped TRBP in logs, by plain loops on pairs, then its free energy."""
    pairs = [a for a in range(graph.n_factors) if len(graph.scope_of(a)) == 2]
    unary = np.zeros((len(graph.variables), 2))
    for a in set(range(graph.n_factors)) - set(pairs):
        unary[graph.scope_of(a)[0]] += graph.log_table(a)
    message = {(a, k): np.zeros(2) for a in pairs for k in (0, 1)}  # to the variable on axis k

    def incoming():
        total = unary.copy()
        for (a, k), m in message.items():
            total[graph.scope_of(a)[k]] += rho[a] * m
        return total

    for _ in range(4000):
        a = pairs[_ % len(pairs)]
        inc = incoming()
        for k in (0, 1):
            table = graph.log_table(a) if k == 1 else graph.log_table(a).T  # sender first
            sender = graph.scope_of(a)[1 - k]
            sums = table / rho[a] + (inc[sender] - message[a, 1 - k])[:, None]
            new = np.logaddexp.reduce(sums, axis=0)
            message[a, k] = 0.5 * message[a, k] + 0.5 * (new - new.max())
    inc = incoming()
    belief = np.exp(inc - np.logaddexp.reduce(inc, axis=1, keepdims=True))
    value = float((belief * unary).sum() - (belief * np.log(belief)).sum())
    for a in pairs:
        i, j = graph.scope_of(a)
        log = graph.log_table(a) / rho[a]
        log = log + (inc[i] - message[a, 0])[:, None] + (inc[j] - message[a, 1])[None, :]
        b = np.exp(log - np.logaddexp.reduce(log.ravel()))
        information = (b * (np.log(b) - np.log(b.sum(1))[:, None] - np.log(b.sum(0))[None, :])).sum()
        value += float((b * graph.log_table(a)).sum()) - rho[a] * float(information)
    return value


@pytest.mark.parametrize("ibound", [1, 2])
def test_matched_weights_end_at_the_fixed_point_of_weighted_mini_buckets(ibound):
    for seed in range(4):
        graph = ring_and_grid(np.random.default_rng(seed))
        found, buckets = (
            credo.infer(graph, spec, max_iter=1000, tol=1e-13).log_z.value
            for spec in (
                f"gdd(ibound={ibound}, fixed_weights=true, floor=0)",
                f"wmb(ibound={ibound}, weights=even)",
            )
        )
        assert found == pytest.approx(buckets, abs=1e-6)


def test_blocks_come_near_the_fixed_point_of_weighted_mini_buckets_from_above():
    graph = ring_and_grid(np.random.default_rng(9))
    found = credo.infer(graph, "gdd(updates=blocks, weights=matched, ibound=1)", max_iter=300).log_z.value
    buckets = credo.infer(graph, "wmb(ibound=1)", max_iter=300).log_z.value
    assert found <= buckets + 0.05 * abs(buckets)
    best = credo.infer(graph, "gdd(updates=blocks, ibound=1)", max_iter=300).log_z.value
    assert best <= buckets + 1e-3


@pytest.mark.parametrize("updates", ["passes", "blocks"])
@pytest.mark.parametrize("maximise", [(), "all", ["x0", "x4", "x8"]], ids=str)
def test_larger_clusters_are_never_looser_and_the_largest_exact(maximise, updates):
    for seed in range(1):
        graph = ring_and_grid(np.random.default_rng(seed))
        _, problem = pose(graph, None, maximise)
        truth = truth_of(problem)
        found = [
            credo.infer(
                graph, f"gdd(ibound={k}, updates={updates})", maximise=maximise, max_iter=200
            ).log_z.value
            for k in (1, 2, 3, 8)
        ]
        assert all(b <= a + 1e-3 for a, b in itertools.pairwise(found)), found
        assert found[-1] == pytest.approx(truth, abs=1e-7)


def test_trees_are_exact_after_a_sweep_whatever_is_asked():
    rng = np.random.default_rng(11)
    edges = np.array([(int(rng.integers(i)), i) for i in range(1, 8)])
    graph = FactorGraph.from_arrays(np.full(8, 3), (edges, 2 * rng.standard_normal((7, 3, 3))), log=True)
    for question in ({}, {"maximise": "all"}, {"temperatures": dict.fromkeys(graph.variables.names, 0.4)}):
        _, problem = pose(graph, None, **question)
        for spec in ("gdd", "gdd(updates=blocks)"):
            found = credo.infer(graph, spec, max_iter=40, **question)
            assert found.log_z.value == pytest.approx(truth_of(problem), abs=1e-7)


def test_a_bound_that_meets_its_score_is_proven_optimal():
    graph = FactorGraph({"a": 2, "b": 3}, {("a", "b"): [[1, 2, 3], [4, 5, 9]], ("a",): [1, 2]})
    result = credo.infer(graph, "gdd(updates=blocks)", maximise="all")
    assert result.status is Status.OPTIMAL and result.log_z.kind == "exact"
    assert dict(result.assignment) == {"a": "1", "b": "2"}
    assert result.score.value == pytest.approx(np.log(18))
    assert result.gap == pytest.approx(0, abs=1e-8)


def test_no_sweep_at_all_still_bounds():
    graph = ring_and_grid(np.random.default_rng(1))
    for question in ({"max_iter": 0}, {"seconds": 0.0, "max_iter": 3}):
        for maximise in ((), "all", ["x1", "x2"]):
            result = credo.infer(graph, "gdd(ibound=1)", maximise=maximise, **question)
            _, problem = pose(graph, None, maximise)
            assert result.log_z.value >= truth_of(problem) - 1e-9
            assert result.log_z.kind in ("upper", "exact")


def test_contradictions_are_named():
    never = FactorGraph({"a": 2, "b": 2}, {("a",): [1, 0], ("a", "b"): [[0, 0], [1, 1]]})
    for spec in ("gdd", "gdd(updates=blocks)", "gdd(ibound=1, updates=blocks)", "gdd(updates=joint)"):
        with pytest.raises(ZeroProbabilityError, match="its factors contradict each other"):
            credo.infer(never, spec)


def test_an_order_that_maximises_before_it_sums_is_followed():
    graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[3, 1], [2, 2.5]]})
    result = credo.infer(graph, "gdd", temperatures={"a": 0.0}, order=["a", "b"])
    assert result.assignment is None  # an assignment of "a" alone has no value here
    assert result.log_z.value >= np.log(5.5) - 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ibound": -1}, "ibound must be"),
        ({"floor": 0.9}, "floor must be"),
        ({"inner": 0}, "inner must be"),
        ({"weights": "even"}, "weights"),
        ({"updates": "all"}, "updates"),
        ({"max_entries": 0}, "max_entries must be"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(OptionError, match=message):
        GDD(**options)


def test_the_result_of_large_sweeps_does_not_depend_on_the_number_of_threads(monkeypatch):
    from credo.inference.bounds import gdd_blocks

    monkeypatch.setattr(gdd_blocks, "_PARALLEL_FROM", 0)
    monkeypatch.setattr(gdd_blocks, "_LEAST", 2)
    graph = credo.datasets.ising_grid(6, seed=3).to_factor_graph()
    for maximise in ((), "all"):
        for ibound in (0, 2):
            _, problem = pose(graph, None, maximise)
            state = GDD(updates="blocks", ibound=ibound).start(problem, np.random.default_rng(0))
            plan, found = state.plan, []
            for threads in (1, 3):
                changing = tuple(
                    x.copy() for x in (state.weight, state.tables, state.shifts, state.steps, state.paces)
                )
                for backwards in (False, True):
                    gdd_blocks.sweep_blocks(plan, changing, 5, 0.002, backwards=backwards, threads=threads)
                weight, tables, shifts = changing[:3]
                np.testing.assert_allclose(tables, _tables_after(plan, state.base, shifts), atol=1e-12)
                bound = gdd_blocks.bound_after(plan, state.base, shifts, weight, tables, threads)
                assert bound == pytest.approx(
                    bound_of(plan.regions, plan.axis_size, weight, tables, np.empty(len(plan.regions)))
                )
                found.append((*changing, bound))
            for one, three in zip(*found, strict=True):
                np.testing.assert_array_equal(one, three)
            assert found[0][-1] + state.constant < state.best - 1


def _tables_after(plan, base, shifts):
    tables = np.empty_like(base)
    shift_tables(plan.separators, plan.edges, plan.maps, base, shifts, tables)
    return tables


def test_weights_always_sum_to_the_temperatures():
    graph = ring_and_grid(np.random.default_rng(2))
    heats = {n: 0.25 * (1 + i) for i, n in enumerate(graph.variables.names)}
    _, problem = pose(graph, None, (), heats)
    for options in ({}, {"ibound": 2}, {"weights": "matched"}, {"updates": "joint"}):
        algorithm = GDD(**({"updates": "blocks"} | options))
        state = algorithm.start(problem, np.random.default_rng(0))
        for _ in range(4):
            state, _ = algorithm.step(problem, state)
            total = np.bincount(state.plan.axis_variable, state.weight, minlength=9)
            np.testing.assert_allclose(total, problem.temperatures, rtol=1e-12)
            assert (state.weight >= 0).all()


def test_regions_lie_one_after_another_in_elimination_order():
    graph = ring_and_grid(np.random.default_rng(2))
    _, problem = pose(graph, None, ["x3"])
    state = GDD(updates="blocks", ibound=2).start(problem, np.random.default_rng(0))
    plan, rank = state.plan, state.plan.joins.order.rank
    assert (np.diff(problem.levels[state.plan.joins.order.order]) >= 0).all()
    for row in plan.regions:
        ranks = rank[plan.axis_variable[row[AXIS] : row[AXIS_END]]]
        assert (np.diff(ranks) > 0).all()
    assert (np.cumsum(plan.regions[:, SIZE])[:-1] == plan.regions[1:, TABLE]).all()
