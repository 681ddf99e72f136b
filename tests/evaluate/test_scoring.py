"""UAI 2022 scores, against numbers worked out by hand."""

import math

import numpy as np
import pytest

import credo
from credo.core.errors import QueryError
from credo.evaluate import score_assignment, score_marginals, score_partition
from credo.evaluate.scoring import trivial_assignment, trivial_log10_z, value_of

GRAPH = credo.FactorGraph(
    {"a": 2, "b": 3}, {("a",): [1, 3], ("a", "b"): [[1, 2, 3], [4, 5, 6]], ("b",): [2, 1, 1]}
)


@pytest.mark.parametrize(
    ("found", "reference", "trivial", "score"),
    [
        (-10.0, -10.0, None, 100.0),
        (-9.0, -10.0, None, 90.0),
        (-11.0, -10.0, None, 90.0),
        (-25.0, -10.0, None, 0.0),
        (-9.0, -10.0, -8.0, 50.0),
        (0.5, 0.0, None, 0.0),
        (0.0, 0.0, None, 100.0),
        (-math.inf, -10.0, None, 0.0),
    ],
)
def test_partition_scores(found, reference, trivial, score):
    assert score_partition(found, reference, trivial).score == pytest.approx(score)


def test_marginal_scores_are_relative_to_uniform_marginals():
    reference = [[1.0, 0.0], [0.5, 0.5]]
    score = score_marginals([[0.5, 0.5], [0.5, 0.5]], reference)
    assert score.error == pytest.approx(math.sqrt(1 - math.sqrt(0.5)) / 2)
    assert score.score == 0.0
    assert score_marginals(reference, reference).score == 100.0


def test_observed_variables_do_not_count():
    reference = [[1.0, 0.0], [0.9, 0.1]]
    found = [[0.0, 1.0], [0.9, 0.1]]
    assert score_marginals(found, reference, observed=[0]).error == 0.0
    assert score_marginals(found, reference).error == pytest.approx(0.5)
    assert score_marginals(found, reference, observed=[0, 1]).score == 100.0


def test_assignment_scores_use_the_gap_in_log10():
    ten = math.log(10)
    score = score_assignment(-3 * ten, -2 * ten, -6 * ten)
    assert score.error == pytest.approx(1.0)
    assert score.score == pytest.approx(75.0)


def test_an_assignment_better_than_the_reference_scores_100():
    assert score_assignment(-1.0, -2.0, -3.0).score == 100.0


def test_an_impossible_assignment_scores_0_and_beats_nothing():
    assert score_assignment(-math.inf, -2.0, -3.0).score == 0.0
    assert score_assignment(-2.5, -2.0, -math.inf).score == 100.0


def test_the_trivial_partition_function_is_the_product_of_the_mean_tables():
    assert trivial_log10_z(GRAPH) == pytest.approx(math.log10(6 * 2 * 3.5 * (4 / 3)))


def test_the_trivial_partition_function_is_exact_for_a_bayesian_network():
    assert trivial_log10_z(credo.datasets.asia().to_factor_graph()) == pytest.approx(0.0)


def test_the_trivial_assignment_reads_the_tables_over_one_variable():
    assert trivial_assignment(GRAPH) == {"a": "1", "b": "0"}
    assert trivial_assignment(GRAPH, ["b"]) == {"b": "0"}
    assert trivial_assignment(GRAPH.condition({"a": 0}), ["a"]) == {"a": "0"}


def test_the_value_of_an_assignment_is_its_weight_or_that_of_all_states_that_agree():
    assert value_of(GRAPH, {"a": 1, "b": 2}) == pytest.approx(math.log(18))
    assert value_of(GRAPH, {"a": 1}, method="enumerate") == pytest.approx(math.log(3 * (8 + 5 + 6)))
    seen = value_of(GRAPH, {"a": 1}, evidence={"b": 2}, method="enumerate")
    assert seen == pytest.approx(math.log(18))


def test_the_value_against_the_evidence_is_zero_weight():
    assert value_of(GRAPH, {"a": 1, "b": 2}, evidence={"b": 1}) == -math.inf
    impossible = {"sprinkler": "no", "rain": "no", "wet": "yes"}
    assert value_of(credo.datasets.sprinkler(), impossible, method="enumerate") == -math.inf


def test_numbered_states_keep_their_meaning_under_evidence():
    assert value_of(GRAPH, {"a": 1, "b": 2}, evidence={"a": 1, "b": np.array([1, 1, 2.0])}) == pytest.approx(
        math.log(36)
    )


def test_marginals_of_another_number_of_variables_are_refused():
    with pytest.raises(QueryError, match="marginals: expected 2 variables, got 1"):
        score_marginals([[1.0]], [[1.0], [1.0]])


def test_the_value_of_continuous_values():
    net = credo.GaussianNet([[2.0, 0.4], [0.4, 2.0]], [1.0, 2.0])
    graph = net.to_factor_graph()
    assert value_of(net, {"x0": 1.0, "x1": 2.0}) == pytest.approx(graph.log_score({"x0": 1.0, "x1": 2.0}))
    h = 2.0 - 0.4
    assert value_of(net, {"x0": 1.0}) == pytest.approx(h**2 / 4 + 0.5 * math.log(math.pi))
    assert value_of(net, {"x0": 1.0}, evidence={"x1": 2.0}) == pytest.approx(-0.8)
    assert value_of(net, {"x0": 1.0}, evidence={"x0": 1.0}) == pytest.approx(value_of(net, {"x0": 1.0}))
    assert value_of(net, {"x0": 1.0}, evidence={"x0": 2.0}) == -math.inf
