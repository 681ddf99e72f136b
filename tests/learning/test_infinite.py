"""Machines that grow: slopes, gains and equivalences against enumeration, steps, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, OptionError, UnsupportedError
from credo.kernels.boltzmann import binary_rows, sigmoid
from credo.learning.unit_growth import Grown, Growth
from credo.models import FractionalRBM
from credo.models.unit_rows import UnitRows

STATES = binary_rows(3)


def whole_numbers():
    """A machine whose probabilities are ratios of whole numbers, and every state as often as that says."""
    bias, unit = np.log([2.0, 1.0, 3.0]), np.log([2.0, 1.0, 3.0])
    weights = np.exp(STATES @ bias) * (1 + np.exp(STATES @ unit))
    chains = np.repeat(STATES, np.rint(weights).astype(int), axis=0)
    place = Grown(np.append(unit, 0.0)[:, None], np.ones(1), 1.0, bias[:, None], chains)
    return place, credo.RBM(unit[:, None], bias, [0.0])


def growth(place, v, **options):
    made = Growth(UnitRows(v), place, np.random.default_rng(0), **options)
    made._now = made._seen(place)
    return made


def rows(seed=0, count=40):
    return np.random.default_rng(seed).integers(0, 2, (count, 3)).astype(float)


def likelihood(weights, counts, bias, hidden, v):
    return float(FractionalRBM(weights, counts, bias, hidden).log_density(v).mean())


def test_a_distribution_over_equal_units_is_an_ordinary_machine():
    rng = np.random.default_rng(0)
    weights, bias, hidden = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3)
    place = Grown(np.vstack([weights, hidden]), np.full(3, 1 / 3), 3.0, bias[:, None], np.zeros((1, 4)))
    np.testing.assert_array_equal(place.counts, np.ones(3))
    v = binary_rows(4)
    machine = credo.RBM(weights, bias, hidden)
    found = growth(place, v).score(place, UnitRows(v))
    assert found == pytest.approx(-machine.free_energy(v).mean(), abs=1e-12)
    fractional = FractionalRBM(weights, place.counts, bias, hidden)
    np.testing.assert_allclose(fractional.log_density(v), machine.log_density(v), atol=1e-12)


def test_the_likelihood_is_concave_in_the_shares_the_bias_and_alpha():
    rng = np.random.default_rng(1)
    v = rows()
    for _ in range(20):
        weights, hidden = 2 * rng.normal(size=(3, 5)), rng.normal(size=5)
        q, b, alpha = rng.dirichlet(np.ones(5), 2), rng.normal(size=(2, 3)), rng.uniform(0.2, 8, 2)

        def value(shares, bias, scale, weights=weights, hidden=hidden):
            return likelihood(weights, scale * shares, bias, hidden, v)

        for one, two in (
            ((q[0], b[0], alpha[0]), (q[1], b[1], alpha[0])),
            ((q[0], b[0], alpha[0]), (q[0], b[0], alpha[1])),
        ):
            middle = [(x + y) / 2 for x, y in zip(one, two, strict=True)]
            assert value(*middle) >= (value(*one) + value(*two)) / 2 - 1e-10


@pytest.mark.parametrize("scaled", [False, True])
def test_the_slope_of_a_unit_is_the_directional_derivative_of_the_likelihood(scaled):
    place, machine = whole_numbers()
    v = rows()
    problem = growth(place, v, penalty=0.3, scaled=scaled)
    unit = np.array([0.7, -1.2, 0.4, 0.3])
    step = 1e-6
    weights = np.column_stack([machine.weights, unit[:3]])

    def ahead(size):
        return likelihood(weights, [1.0, size], machine.visible_bias, [0.0, unit[3]], v)

    slope = (ahead(2 * step) - ahead(step)) / step - 0.15 * unit @ unit
    assert problem.slopes(place, unit[:, None], problem._now)[0] == pytest.approx(slope, abs=1e-5)
    value, gradient = problem._minus(unit, place)
    assert value == pytest.approx(-slope, abs=1e-5)
    for k in range(4):
        move = 1e-6 * np.eye(4)[k]
        found = (problem._minus(unit + move, place)[0] - problem._minus(unit - move, place)[0]) / 2e-6
        assert gradient[k] == pytest.approx(found, abs=1e-7)


def test_a_ball_holds_units_and_its_slopes_are_those_of_free_numbers():
    place, _ = whole_numbers()
    problem = growth(place, rows(), penalty=0.0, radius=0.8)
    u = np.array([3.0, -1.0, 2.0, 0.5])
    w, _ = problem._in_ball(u)
    assert np.linalg.norm(w) < 0.8
    gradient = problem._minus(u, place)[1]
    for k in range(4):
        move = 1e-6 * np.eye(4)[k]
        found = (problem._minus(u + move, place)[0] - problem._minus(u - move, place)[0]) / 2e-6
        assert gradient[k] == pytest.approx(found, abs=1e-7)
    unit, _ = problem.best(place, 0)
    assert np.linalg.norm(unit) <= 0.8 + 1e-12


def test_slopes_of_bias_and_alpha_are_those_of_the_likelihood():
    place, machine = whole_numbers()
    v = rows()
    problem = growth(place, v)
    told = problem._slope_of_bias(v, None) - problem._slope_of_bias(place.chains, None)
    alpha = problem._slope_of_alpha(place, UnitRows(place.chains))

    def value(bias, counts):
        return likelihood(machine.weights, [counts], bias, [0.0], v)

    for k in range(3):
        move = 1e-6 * np.eye(3)[k]
        exact = (value(machine.visible_bias + move, 1) - value(machine.visible_bias - move, 1)) / 2e-6
        assert told[k, 0] == pytest.approx(exact, abs=1e-7)
    b = machine.visible_bias
    assert alpha == pytest.approx((value(b, 1 + 1e-6) - value(b, 1 - 1e-6)) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("grows", [True, False])
def test_the_gain_of_a_unit_is_the_change_of_the_likelihood(grows):
    place, machine = whole_numbers()
    v = rows()
    problem = growth(place, v, grows=grows)
    unit = np.array([0.7, -1.2, 0.4, 0.3])
    counts = [1.0, 1.0] if grows else [0.7, 0.3]
    weights = np.column_stack([machine.weights, unit[:3]])
    mean = sigmoid(v @ unit[:3] + unit[3]).mean()
    bias = machine.visible_bias - counts[1] * mean * unit[:3]
    after = likelihood(weights, counts, bias, [0.0, unit[3]], v)
    before = float(machine.log_density(v).mean())
    assert problem.gain(place, unit, 0.3) == pytest.approx(after - before, abs=1e-10)


def test_a_unit_that_would_cost_too_much_is_halved():
    place, _ = whole_numbers()
    problem = growth(place, rows(), penalty=1e-4, fall=1e-3)
    unit, gap = problem.best(place, 0)
    told = problem._about
    assert told["gain"] >= -1e-3 and gap > 0
    assert problem.gain(place, unit) == told["gain"] and told["halvings"] > 0


# Whole runs.


def bars(count=400):
    rng = np.random.default_rng(0)
    return np.repeat(rng.integers(0, 2, (count, 3)), 2, axis=1).astype(float)


def grow(x, spec="", model=None, **options):
    options = {"seed": 0, "tol": 0, "max_iter": 6} | options
    model = credo.RBM.blank(1) if model is None else model
    spec = f"infinite-boltzmann(particles=400{', ' + spec if spec else ''})"
    with pytest.warns(ConvergenceWarning):
        return credo.fit(model, x, spec, **options)


def test_a_machine_grows_by_a_unit_per_step_and_beats_independent_units():
    x = bars()
    found = grow(x)
    model = found.model
    assert isinstance(model, credo.RBM) and model.weights.shape == (6, 6)
    assert found.trace["units"].tolist() == found.trace["alpha"].tolist() == [1, 2, 3, 4, 5, 6]
    assert model.log_density(x).mean() > -6 * np.log(2) + 0.7
    assert (found.trace["gain"] >= 0).all() and (found.trace["gap"] > 0).all()
    assert "visible biases began at the log-odds of the data" in found.notes


def test_a_machine_with_units_is_gone_on_from_and_started_again():
    x = bars()
    first = grow(x, max_iter=3).model
    more = grow(x, model=first, max_iter=2).model
    np.testing.assert_array_equal(more.weights[:, :3], first.weights)
    assert more.weights.shape == (6, 5)
    with pytest.warns(ConvergenceWarning):
        tuned = credo.fit(more, x, "boltzmann(negative=cd, sweeps=10)", max_iter=20, seed=0, tol=0)
    assert "visible biases" not in " ".join(tuned.notes)
    assert tuned.model.log_density(x).mean() > more.log_density(x).mean() > first.log_density(x).mean()


@pytest.mark.parametrize("spec", ["alpha=2.5", "learn_alpha=True"])
def test_units_that_count_together_are_a_fractional_machine(spec):
    x = bars()
    found = grow(x, spec)
    model = found.model
    assert isinstance(model, FractionalRBM) and not model.is_whole
    assert (np.diff(found.trace["gain"])[1:] >= -0.1).all() and (found.trace["gain"] >= 0).all()
    assert model.counts.sum() == pytest.approx(found.trace["alpha"][-1])
    assert (found.trace["accepted"] < 1).any() and found.trace["accepted"][-1] > 0.3
    assert (found.trace["alpha"] == 2.5).all() == (spec == "alpha=2.5")
    assert model.log_density(x).mean() > -6 * np.log(2) + 0.5
    again = grow(x, spec, model=model, max_iter=1).model
    assert len(again.counts) in (6, 7)


def test_a_step_away_takes_a_planted_bad_unit_out():
    x = bars()
    good = grow(x, max_iter=4).model
    bad = np.array([3.0, -3, 3, -3, 3, -3])
    planted = credo.RBM(
        np.column_stack([0.3 * good.weights, bad]), np.zeros(6), np.append(0.3 * good.hidden_bias, 0.0)
    )
    spec = "infinite-boltzmann(particles=400, penalty=0.5, away=True)"
    with pytest.warns(ConvergenceWarning):
        found = credo.fit(planted, x, spec, max_iter=1, seed=0, tol=0)
    assert found.trace["units"].tolist() == [4] and found.trace["alpha"].tolist() == [4]
    np.testing.assert_allclose(found.model.weights, 0.3 * good.weights, atol=1e-12)


def test_where_no_unit_is_worth_anything_growing_has_converged():
    v = np.random.default_rng(0).integers(0, 2, (500, 3)).astype(float)
    found = credo.fit(credo.RBM.blank(1), v, "infinite-boltzmann(penalty=5.0)", max_iter=5, seed=0)
    assert found.converged and found.model.weights.shape == (3, 0)
    assert found.trace["units"].tolist() == [0]
    np.testing.assert_allclose(sigmoid(found.model.visible_bias), v.mean(axis=0), atol=0.01)


def test_growing_stops_where_validation_rows_fall_behind():
    rng = np.random.default_rng(0)
    x, held = rng.integers(0, 2, (15, 6)), rng.integers(0, 2, (300, 6))
    spec = "infinite-boltzmann(widest=0.5, penalty=0.05)"
    found = credo.fit(credo.RBM.blank(1), x, spec, validation=held, max_iter=40, seed=0, tol=0)
    behind = found.trace["validation"]
    assert found.stopped_early and behind[-1] < -0.5 <= behind[:-1].min()
    assert found.model.weights.shape[1] == len(behind) - 1
    told = found.model.free_energy(x).mean() - found.model.free_energy(held).mean()
    assert told == pytest.approx(behind[-2], abs=1e-4)


def test_a_conditional_machine_grows_too():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    on = x[:, :1] * x[:, 1:] > 0  # no logistic regression can tell
    v = np.hstack([on, ~on]).astype(float)
    start = credo.ConditionalRBM(np.zeros((2, 0)), np.zeros((2, 2)), np.zeros((0, 2)))
    with pytest.warns(ConvergenceWarning):
        found = credo.fit(start, x, "infinite-boltzmann(rows=200)", targets=v, max_iter=8, seed=0, tol=0)
    assert found.model.weights.shape == (2, 8) and found.model.hidden_weights.shape == (8, 2)
    told = credo.log_likelihood(found.model, x, "enumerate", targets=v).value / 300
    alone = credo.log_likelihood(start, x, "enumerate", targets=v).value / 300
    assert told > alone + 0.5


def test_a_run_that_was_stopped_goes_on_with_the_same_numbers(tmp_path):
    x = bars(100)
    whole = grow(x, "away=True")
    grow(x, "away=True", max_iter=2, checkpoint=tmp_path / "run.credo")
    again = grow(x, "away=True", checkpoint=tmp_path / "run.credo")
    assert again.model == whole.model
    np.testing.assert_array_equal(again.trace["gain"], whole.trace["gain"])


@pytest.mark.parametrize(
    ("spec", "error", "sentence"),
    [
        ("alpha=0", OptionError, "alpha must be a number above 0, got 0"),
        ("alpha=-1", OptionError, "alpha must be a number above 0, got -1"),
        ("radius=0", OptionError, "radius must be a number above 0"),
        ("rate=0", OptionError, "rate must be a number above 0"),
        ("widest=1", OptionError, "widest: stopping needs validation data"),
    ],
)
def test_growing_refuses_what_makes_no_machine(spec, error, sentence):
    with pytest.raises(error, match=sentence):
        credo.fit(credo.RBM.blank(1), bars(10), f"infinite-boltzmann({spec})")


def test_growing_refuses_models_that_it_does_not_treat():
    real = credo.RBM.blank(1, visible="gaussian")
    with pytest.raises(UnsupportedError, match="visible units are numbers of the line; use boltzmann"):
        credo.fit(real, bars(10), "infinite-boltzmann")
    start = credo.ConditionalRBM(np.zeros((6, 0)), np.zeros((6, 6)), np.zeros((0, 6)))
    with pytest.raises(UnsupportedError, match="units of a conditional machine count once; leave out alpha"):
        credo.fit(start, bars(10), "infinite-boltzmann(alpha=2)", targets=bars(10))
    net = credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 1], [1, 1]]})
    with pytest.raises(UnsupportedError, match="it learns Boltzmann machines, got a MarkovNet"):
        credo.fit(net, {"a": [0], "b": [1]}, "infinite-boltzmann")
