"""Learning on a region free energy by turns: slopes with beliefs held, and where it leads."""

import numpy as np
import pytest

import credo
from credo.core.errors import ImpossibleRowError, OptionError, UnsupportedError
from credo.inference.messages.region_plan import RegionTables
from credo.inference.neural.readout import logs_of
from credo.inference.neural.region_system import system_of
from credo.inference.problem.base import Problem
from credo.learning.region_saddle import RegionSaddle

pytestmark = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
PAIRS = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
LEARNER = "likelihood(gradient=min-max, optimiser=adam(rate=0.1), sweeps=15)"


def field(seed=None):
    rng = np.random.default_rng(seed)
    tables = {p: np.ones((2, 2)) if seed is None else np.exp(rng.normal(size=(2, 2))) for p in PAIRS}
    return credo.MarkovNet(dict.fromkeys("abcd", 2), tables | {("a",): [1.0, 1.0]})


def test_slopes_with_beliefs_held_are_differences_of_the_free_energy():
    graph = field(0).to_factor_graph()
    problem = Problem.about(graph)
    system = system_of(graph, "auto", 1 << 12)
    tables = RegionTables(problem, system.plan)
    possible = system.problem(tables)[1]
    logs = logs_of(system, np.random.default_rng(1).random(system.n_entries), possible)
    found, h = tables.slopes(logs), 1e-5
    for k in range(len(found)):
        values = []
        for step in (h, -h):
            moved = graph.log_tables.copy()
            moved[k] += step
            other = graph.with_states(graph.variables, moved, graph.table_start)
            values.append(RegionTables(Problem.about(other), system.plan).log_z(logs))
        assert found[k] == pytest.approx((values[0] - values[1]) / (2 * h), abs=1e-8)


def test_where_regions_agree_slopes_are_factor_marginals():
    graph = field(0).to_factor_graph()
    system = system_of(graph, "auto", 1 << 12)
    tables = RegionTables(Problem.about(graph), system.plan)
    possible = system.problem(tables)[1]
    even = logs_of(system, np.ones(system.n_entries), possible)
    np.testing.assert_allclose(tables.slopes(even), tables.result("", even, None).factor_marginals.flat)


def test_turns_of_beliefs_and_weights_lead_to_the_most_likely_weights():
    data = credo.sample(field(1), 500, seed=0)
    exact = credo.fit(field(), data, "likelihood(prior=gaussian(scale=10))").model
    found = credo.fit(field(), data, LEARNER, inference="region-direct", max_iter=60, tol=0, seed=0)
    best = credo.learning.log_likelihood(exact, data).value
    assert credo.learning.log_likelihood(found.model, data).value > best - 0.5
    assert found.log_likelihood is None and len(found.trace["saddle"]) == 61


def test_a_checkpoint_keeps_the_beliefs_under_way(tmp_path, monkeypatch):
    data, count, evaluate = credo.sample(field(1), 50, seed=0), [], RegionSaddle.evaluate

    def cut(self, scores, batch):
        count.append(0)
        if len(count) == 5:
            raise RuntimeError("power failure")
        return evaluate(self, scores, batch)

    how = {"inference": "region-direct", "max_iter": 6, "tol": 0, "seed": 0}
    whole = credo.fit(field(), data, LEARNER, **how)
    path = tmp_path / "run.credo"
    monkeypatch.setattr(RegionSaddle, "evaluate", cut)
    with pytest.raises(RuntimeError):
        credo.fit(field(), data, LEARNER, **how, checkpoint=path, every=0.0)
    before = len(count)
    resumed = credo.fit(field(), data, LEARNER, **how, checkpoint=path, every=0.0)
    assert len(count) - before < 7
    np.testing.assert_array_equal(resumed.trace["saddle"], whole.trace["saddle"])
    np.testing.assert_array_equal(
        resumed.model.to_factor_graph().log_tables, whole.model.to_factor_graph().log_tables
    )


def test_what_turns_cannot_do_is_refused():
    data = {name: [0, 1, 1] for name in "abcd"}
    for method in (None, "bp"):
        with pytest.raises(
            UnsupportedError, match="min-max moves beliefs of regions by turns; give inference='"
        ):
            credo.fit(field(), data, LEARNER, inference=method)
    with pytest.raises(UnsupportedError, match="min-max has no function to search along; use optimiser=adam"):
        credo.fit(field(), data, "likelihood(gradient=min-max)", inference="renn")
    with pytest.raises(UnsupportedError, match="min-max needs complete rows"):
        credo.fit(field(), {**data, "a": [0, None, 1]}, LEARNER, inference="renn")
    with pytest.raises(OptionError, match="gradient"):
        credo.fit(field(), data, "likelihood(gradient=saddle)")
    model = credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [1, 1]]})
    with pytest.raises(ImpossibleRowError):
        credo.fit(model, {"a": [0], "b": [1]}, LEARNER, inference="region-direct")
