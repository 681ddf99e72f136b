"""Distances between answers, against numbers worked out by hand."""

import math

import numpy as np
import pytest

import credo
from credo.core.errors import QueryError
from credo.core.result import Assignment, Estimate, Marginals
from credo.core.variable import Variables
from credo.evaluate import (
    hamming,
    hellinger,
    kl_divergence,
    log_z_error,
    marginal_errors,
    total_variation,
)

P = {"a": [0.5, 0.5], "b": [1.0, 0.0, 0.0]}
Q = {"b": [0.5, 0.25, 0.25], "a": [0.2, 0.8]}


def test_total_variation_is_half_the_absolute_difference_in_the_order_of_the_first_argument():
    np.testing.assert_allclose(total_variation(P, Q), [0.3, 0.5])


def test_hellinger_matches_one_minus_the_bhattacharyya_coefficient():
    overlap = [math.sqrt(0.5 * 0.2) + math.sqrt(0.5 * 0.8), math.sqrt(0.5)]
    np.testing.assert_allclose(hellinger(P, Q), np.sqrt(1 - np.array(overlap)))


def test_kl_is_in_nats_and_ignores_states_of_probability_zero():
    by_hand = [0.5 * math.log(0.5 / 0.2) + 0.5 * math.log(0.5 / 0.8), math.log(2)]
    np.testing.assert_allclose(kl_divergence(P, Q), by_hand)


def test_kl_is_infinite_where_a_possible_state_is_excluded():
    assert kl_divergence(Q, P)[0] == math.inf


def test_distances_of_equal_marginals_are_zero():
    for distance in (total_variation, hellinger, kl_divergence):
        assert (distance(P, P) == 0).all()


def test_the_fast_path_for_marginals_agrees_with_the_general_one():
    variables = Variables.numbered([2, 3])
    p = Marginals(variables, np.array([0.5, 0.5, 1.0, 0.0, 0.0]))
    q = Marginals(variables, np.array([0.2, 0.8, 0.5, 0.25, 0.25]))
    np.testing.assert_array_equal(total_variation(p, q), total_variation(dict(p), dict(q)))


def test_marginal_errors_sums_up_over_the_variables():
    errors = marginal_errors(Q, P)
    assert errors.max_tv == pytest.approx(0.5)
    assert errors.mean_tv == pytest.approx(0.4)
    assert errors.mean_hellinger == pytest.approx(hellinger(P, Q).mean())
    assert errors.mean_kl == pytest.approx(kl_divergence(P, Q).mean())


def test_no_variables_are_at_distance_zero():
    assert marginal_errors({}, {}).max_tv == 0.0


def test_log_z_error_is_signed_and_knows_infinities():
    assert log_z_error(Estimate(-3.0), Estimate(-1.0)) == -2.0
    assert log_z_error(-math.inf, -math.inf) == 0.0
    assert log_z_error(-math.inf, 1.0) == -math.inf


def test_hamming_counts_the_variables_that_differ():
    variables = Variables.numbered([2, 2, 3])
    first = Assignment(variables, np.array([0, 1, 2]))
    assert hamming(first, Assignment(variables, np.array([0, 0, 1]))) == 2
    assert hamming(first, Assignment(Variables.numbered([2, 2, 3]), np.array([0, 1, 2]))) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: total_variation({"a": [1.0]}, {"b": [1.0]}),
            r"same variables, got \['a', 'b'\] in only one",
        ),
        (
            lambda: hellinger({"a": [1.0]}, {"a": [0.5, 0.5]}),
            "marginals of 'a': expected 1 states in both, got 2",
        ),
        (
            lambda: hamming(
                Assignment(Variables.numbered([2, 2]), np.array([0, -1])),
                Assignment(Variables.numbered([2, 2]), np.array([0, 1])),
            ),
            "assignments: expected two over the same variables",
        ),
    ],
)
def test_refusals_say_what_was_expected(call, message):
    with pytest.raises(QueryError, match=message):
        call()


def test_results_of_the_same_question_are_at_distance_zero():
    model = credo.datasets.sprinkler()
    first, second = (credo.infer(model, "enumerate", evidence={"wet": "yes"}) for _ in range(2))
    assert marginal_errors(first.marginals, second.marginals).max_tv == 0.0
