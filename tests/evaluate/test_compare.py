"""The comparison table."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, QueryError, UnsupportedError, ZeroProbabilityError
from credo.core.result import Assignment, Estimate, Marginals, Result, Status
from credo.inference.problem.base import Algorithm, IterativeAlgorithm, algorithms
from markup import cells


@dataclass(frozen=True, kw_only=True)
class Indifferent(Algorithm):
    """Uniform marginals, and the last state of every maximised variable."""

    name: ClassVar[str] = "indifferent"

    def why_not(self, problem):
        return None

    def run(self, problem, budget, rng):
        variables = problem.graph.variables
        if problem.is_sum:
            flat = np.repeat(1 / variables.sizes, variables.sizes)
            return Result(self.name, Status.EXACT, Estimate(0.5), Marginals(variables, flat))
        last = np.where(problem.temperatures == 0, variables.sizes - 1, -1)
        return Result(self.name, Status.EXACT, Estimate(1.0, "upper"), assignment=Assignment(variables, last))


@dataclass(frozen=True, kw_only=True)
class Restless(IterativeAlgorithm):
    """Never converges; stops by hand after `steps` if that is given."""

    name: ClassVar[str] = "restless"
    steps: int | None = None

    def why_not(self, problem):
        return None

    def start(self, problem, rng):
        return 0

    def step(self, problem, state):
        if state == self.steps:
            raise KeyboardInterrupt
        return state + 1, 1.0

    def read(self, problem, state, status):
        return Result(self.name, status, Estimate(0.0))


@pytest.fixture
def model():
    return credo.datasets.sprinkler()


def test_errors_are_relative_to_the_first_method(model):
    exact, rough = credo.compare(model, ["enumerate", Indifferent()], evidence={"wet": "yes"}).rows
    truth = credo.infer(model, "enumerate", evidence={"wet": "yes"})
    tv = [abs(truth.marginals[n] - 0.5).sum() / 2 for n in ("cloudy", "sprinkler", "rain")] + [0.0]
    assert exact.max_tv == exact.mean_tv == exact.log_z_error == 0.0
    assert rough.max_tv == pytest.approx(max(tv))
    assert rough.mean_tv == pytest.approx(np.mean(tv))
    assert rough.log_z_error == pytest.approx(0.5 - truth.log_z.value)
    assert (exact.kind, rough.kind) == ("exact", "estimate")


def test_a_refusing_method_keeps_its_row_and_its_reason(model):
    table = credo.compare(model, ["enumerate", "enumerate(max_entries=4)"])
    refused = table["enumerate(max_entries=4)"]
    assert not refused.answered
    assert refused.status == "refused"
    assert refused.reason.startswith("the joint table has 2^4.0 entries, more than max_entries=4")
    assert refused.log_z is None


def test_if_the_first_refuses_the_table_says_what_the_errors_refer_to(model):
    table = credo.compare(model, ["enumerate(max_entries=4)", "enumerate", Indifferent()])
    assert table.reference == "enumerate"
    assert "errors are relative to enumerate, the first method that answered" in str(table)


def test_maximisation_scores_the_assignments(model):
    exact, rough = credo.compare(model, ["enumerate", Indifferent()], maximise="all").rows
    graph = model.to_factor_graph()
    assert exact.score == pytest.approx(exact.log_z)
    assert rough.score == pytest.approx(graph.log_score(dict.fromkeys(graph.variables.names, "yes")))
    assert exact.distance == 0
    assert rough.distance == sum(state != "yes" for state in exact.result.assignment.values())
    assert exact.max_tv is None


def test_marginal_map_scores_by_summing_out_the_rest(model):
    exact, rough = credo.compare(
        model, ["enumerate", Indifferent()], maximise=["rain"], evidence={"wet": "yes", "cloudy": [0.3, 0.6]}
    ).rows
    by_hand = credo.infer(
        model, "enumerate", evidence={"wet": "yes", "rain": "yes", "cloudy": [0.3, 0.6]}
    ).log_z.value
    assert exact.score == pytest.approx(exact.log_z)
    assert rough.score == pytest.approx(by_hand)


def test_marginal_map_with_likelihoods_on_the_maximised_variable(model):
    (row,) = credo.compare(model, "enumerate", maximise=["rain"], evidence={"rain": [0.9, 0.1]}).rows
    assert row.score == pytest.approx(row.log_z)


def test_the_printed_table_is_aligned(model):
    lines = str(credo.compare(model, ["enumerate", Indifferent(), "enumerate(max_entries=2)"])).splitlines()
    assert lines[0].split() == "method seconds iters log Z kind log Z error max TV mean TV status".split()
    column = lines[0].index("kind")
    assert [line[column : column + 8].strip() for line in lines[1:]] == ["exact", "estimate", "-"]
    assert "refused: the joint table has 2^4.0 entries, more than max_entries=2" in lines[3]


def test_the_rows_go_to_json_and_pandas(model):
    table = credo.compare(model, ["enumerate", "enumerate(max_entries=4)"])
    rows = json.loads(table.to_json())
    assert [row["method"] for row in rows] == ["enumerate", "enumerate(max_entries=4)"]
    assert rows[1]["reason"].startswith("the joint table")
    assert "score" not in rows[0]
    frame = table.to_frame()
    assert frame.loc["enumerate", "max_tv"] == 0.0
    assert frame.loc["enumerate(max_entries=4)", "status"] == "refused"


def test_without_methods_every_registered_one_runs_exact_ones_first(model):
    table = credo.compare(model)
    wanted = {n for n, c in algorithms.entries().items() if not c.compiles and c.groups[0] == "tables"}
    assert {row.method for row in table} == wanted
    assert table.rows[0].kind == "exact"
    exact = [row for row in table if row.kind == "exact"]
    assert max(row.max_tv for row in exact if row.max_tv is not None) < 1e-12


def test_running_out_of_iterations_is_a_status_and_no_warning(model):
    (row,) = credo.compare(model, [Restless()], max_iter=7).rows
    assert (row.status, row.iterations) == ("out of iterations", 7)


def test_ctrl_c_ends_the_comparison_with_what_was_found(model):
    table = credo.compare(model, ["enumerate", Restless(steps=3), Indifferent()])
    assert [row.status for row in table] == ["exact", "interrupted"]


def test_contradictory_evidence_is_an_error_and_no_table(model):
    impossible = {"sprinkler": "no", "rain": "no", "wet": "yes"}
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero"):
        credo.compare(model, ["enumerate"], evidence=impossible)


def test_progress_is_shown_on_request_and_leaves_the_answer_alone(model, capsys):
    table = credo.compare(model, ["enumerate"], progress=True)
    assert table.rows[0].status == "exact"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (["enumerate", "enumrate"], "no algorithm named 'enumrate'.*did you mean 'enumerate'"),
        ([], "methods: expected at least one, got none; there are"),
        ([3], "methods: expected names or Algorithms, got 3"),
    ],
)
def test_wrong_methods_are_refused_before_anything_runs(model, methods, message):
    with pytest.raises(OptionError, match=message):
        credo.compare(model, methods)


def test_an_unknown_row_is_refused(model):
    with pytest.raises(OptionError, match=r"no row 'bp'; there are \['enumerate'\]"):
        credo.compare(model, "enumerate")["bp"]


def test_value_of_needs_a_method_that_sums():
    from credo.evaluate.scoring import value_of

    @dataclass(frozen=True, kw_only=True)
    class Silent(Indifferent):
        name: ClassVar[str] = "silent"

        def run(self, problem, budget, rng):
            return Result(self.name, Status.EXACT)

    with pytest.raises(UnsupportedError, match="computes no log Z; use an exact method"):
        value_of(credo.datasets.sprinkler(), {"rain": "yes"}, method=Silent())


def test_continuous_models_are_compared_by_their_densities():
    net = credo.GaussianNet([[2.0, 0.5], [0.5, 1.0]], [1.0, -1.0])
    table = credo.compare(net, ["gaussian", "gaussian-bp", "gaussian-bp(damping=0.5)", "bp"])
    assert [row.answered for row in table] == [True, True, True, False]
    assert max(row.max_tv for row in list(table)[:3]) < 1e-6
    assert "continuous" in table["bp"].reason


def test_maxima_of_continuous_models_have_values_and_scores():
    net = credo.GaussianNet([[2.0, 0.4], [0.4, 2.0]], [1.0, 2.0])
    best = dict(zip(net.names, net.mean, strict=True))
    table = credo.compare(net, ["gaussian", "gaussian-bp", "ep"], maximise="all")
    for row in table.rows[:2]:
        assert row.score == pytest.approx(net.to_factor_graph().log_score(best))
        assert row.distance == 0 and row.log_z_error == pytest.approx(0, abs=1e-9)
    assert table.rows[2].status == "refused"
    some = credo.compare(net, ["gaussian"], maximise=["x0"], evidence={"x1": 0.5})["gaussian"]
    assert some.score == pytest.approx(some.log_z) and some.distance == 0
    seen = credo.compare(net, ["gaussian", "gaussian-bp"], maximise=["x0"], evidence={"x0": 1.0})
    assert [row.distance for row in seen] == [0, 0]
    assert seen.rows[0].score == pytest.approx(seen.rows[1].log_z)


def test_a_comparison_refuses_what_names_nothing():
    with pytest.raises(QueryError, match="maximise: expected 'all' or a list of names, got 3"):
        credo.compare(credo.datasets.sprinkler(), ["enumerate"], maximise=3)


def test_notebooks_show_the_table_of_a_comparison():
    table = credo.compare(credo.datasets.sprinkler(), ["enumerate", "bp"], evidence={"wet": "yes"})
    shown = cells(table._repr_html_())
    assert shown[: len(table.columns)] == table.columns
    assert shown[len(table.columns) :] == [cell for row in table.cells() for cell in row]
    pytest.importorskip("pandas")
    assert table.to_frame().loc["enumerate", "log_z"] == table["enumerate"].log_z
