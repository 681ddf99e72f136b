"""Distances between answers, against numbers worked out by hand."""

import math

import numpy as np
import pytest

import credo
from credo.core.belief import values_at
from credo.core.errors import OptionError, QueryError
from credo.core.result import Assignment, Estimate, Marginals
from credo.core.variable import Variables
from credo.evaluate import (
    alpha_divergence,
    hamming,
    hellinger,
    kl_divergence,
    log_z_error,
    marginal_errors,
    total_variation,
)
from credo.families.densities import GridDensity, MixtureDensity, ParticleDensity

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


def test_the_alpha_divergence_is_both_kl_divergences_at_its_ends_and_hellinger_in_the_middle():
    swapped = {name: P[name] for name in Q}
    np.testing.assert_allclose(alpha_divergence(P, Q, 1), kl_divergence(P, Q))
    np.testing.assert_allclose(alpha_divergence(Q, P, 0), kl_divergence(swapped, Q))
    np.testing.assert_allclose(alpha_divergence(P, Q, 0.5), 4 * hellinger(P, Q) ** 2)
    with pytest.raises(OptionError, match="alpha must be a finite number"):
        alpha_divergence(P, Q, math.nan)


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


def normal(mean, sd, weights=None):
    means, sds = np.atleast_1d(np.asarray(mean, float)), np.atleast_1d(np.asarray(sd, float))
    means, sds = np.broadcast_arrays(means, sds)
    return MixtureDensity(np.full(len(means), 1 / len(means)), means, sds)


def crossing(sd):
    """Total variation of N(0, 1) and N(0, sd^2), by the point where the densities cross."""
    at = math.sqrt(2 * math.log(1 / sd) / (1 / sd**2 - 1))
    return math.erf(at / sd / math.sqrt(2)) - math.erf(at / math.sqrt(2))


@pytest.mark.parametrize("sd", [1e-8, 1e-4, 0.5])
def test_densities_of_any_width_are_told_apart(sd):
    wide, narrow = {"x": normal(0, 1)}, {"x": normal(0, sd)}
    for p, q in ((wide, narrow), (narrow, wide)):
        assert total_variation(p, q)[0] == pytest.approx(crossing(sd), abs=1e-5)
    expected = 1 - math.sqrt(2 * sd / (1 + sd**2))
    assert hellinger(wide, narrow)[0] ** 2 == pytest.approx(expected, abs=1e-5)


def test_narrow_peaks_far_apart_count_each():
    peaks = {"x": normal([0, 10], 0.001)}
    assert total_variation(peaks, peaks)[0] == 0
    assert total_variation(peaks, {"x": normal(0, 0.001)})[0] == pytest.approx(0.5, abs=1e-6)
    shifted = {"x": normal([0, 10.001], 0.001)}
    assert total_variation(peaks, shifted)[0] == pytest.approx(math.erf(0.5 / math.sqrt(2)) / 2, abs=1e-5)


def test_densities_on_grids_and_particles():
    unit, later = (GridDensity.of(np.array([a, a + 1]), np.zeros(2)) for a in (0.0, 0.5))
    assert total_variation({"x": unit}, {"x": later})[0] == pytest.approx(0.5, abs=1e-9)
    same = ParticleDensity(np.ones(5), np.full(5, 0.2))
    assert total_variation({"x": same}, {"x": normal(0, 1)})[0] == pytest.approx(1, abs=1e-4)
    cloud = ParticleDensity(np.linspace(-2, 2, 50), np.full(50, 0.02))
    assert total_variation({"x": cloud}, {"x": cloud.smooth})[0] == pytest.approx(0, abs=1e-12)


def test_many_components_have_points_each_but_not_many():
    for count in (1, 2, 40, 300):
        x = normal(100.0 * np.arange(count), 1).curve_points(2001)
        assert len(x) <= max(2100, 40 * count)
        density = values_at(normal(100.0 * np.arange(count), 1), np.unique(x))
        assert np.trapezoid(density, np.unique(x)) == pytest.approx(1, abs=1e-6)


def test_states_are_compared_by_their_labels():
    one = credo.infer(credo.MarkovNet({"a": ["lo", "hi"]}, {("a",): [1, 3]})).marginals
    other = credo.infer(credo.MarkovNet({"a": ["hi", "lo"]}, {("a",): [3, 1]})).marginals
    plain = credo.infer(credo.MarkovNet({"a": 2}, {("a",): [1, 3]})).marginals
    for distance in (total_variation, hellinger, kl_divergence):
        assert distance(one, other)[0] == pytest.approx(0)
        assert distance(one, plain)[0] == pytest.approx(0)
    third = credo.infer(credo.MarkovNet({"a": ["hi", "off"]}, {("a",): [3, 1]})).marginals
    with pytest.raises(QueryError, match=r"marginals of 'a': expected the same states.*\['lo', 'off'\]"):
        total_variation(one, third)


def test_hamming_counts_continuous_values_that_differ():
    variables = Variables.of({"s": 2, "x": credo.Real(), "t": credo.Simplex(2)})

    def at(s, x, t=(0.5, 0.5)):
        return Assignment(variables, np.array([s, -1, -1]), {"x": x, "t": np.array(t)})

    assert hamming(at(0, 1.0), at(0, 1.0 + 1e-9)) == 0
    assert hamming(at(0, 1.0), at(1, 1.1)) == 2
    assert hamming(at(0, 1.0), at(0, 1.1), tolerance=0.2) == 0
    assert hamming(at(0, 1e9), at(0, 1e9 + 1)) == 0
    assert hamming(at(0, 1.0), at(0, 1.0, (0.4, 0.6))) == 1
    with pytest.raises(QueryError, match="same variables"):
        hamming(at(0, 1.0), Assignment(variables, np.array([0, -1, -1]), {"x": 1.0}))
