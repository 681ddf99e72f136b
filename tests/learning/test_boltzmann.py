"""Learning of Boltzmann machines: slopes against differences and enumeration, every phase, refusals."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, DataError, ModelError, OptionError, UnsupportedError
from credo.learning import unit_phases
from credo.learning.log_linear import Objective
from credo.learning.unit_phases import PHASES, NegativePhase
from credo.learning.unit_sources import FreeEnergyGap, UnitContrast, UnitErrors, UnitPseudolikelihood
from credo.models.unit_rows import UnitRows, log_odds


def machine(count=4, hidden=3, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return credo.RBM(
        scale * rng.normal(size=(count, hidden)), rng.normal(size=count), rng.normal(size=hidden)
    )


def conditional(hidden=3, seed=0):
    rng = np.random.default_rng(seed)
    draw = rng.normal
    model = credo.ConditionalRBM(
        draw(size=(4, hidden)), draw(size=(4, 2)), draw(size=(hidden, 2)), draw(size=4), draw(size=hidden)
    )
    return model, UnitRows(rng.integers(0, 2, (5, 4)).astype(float), draw(size=(5, 2)))


def phase_of(kind, sweeps=300, particles=10):
    return NegativePhase(kind, np.random.default_rng(0), sweeps, particles, 1)


def slopes(model, batch, kind, **how):
    """The slope that a phase gives, and a function that moves the weights."""
    weights = model.unit_weights()
    objective = Objective(weights, UnitContrast(phase_of(kind, **how), 10**6))
    return weights, objective.evaluate(weights.start, batch)


def by_differences(value, start, step=1e-5):
    found = np.empty(len(start))
    for k in range(len(start)):
        ahead, behind = start.copy(), start.copy()
        ahead[k] += step
        behind[k] -= step
        found[k] = (value(ahead) - value(behind)) / (2 * step)
    return found


@pytest.fixture
def settled(monkeypatch):
    monkeypatch.setattr(unit_phases, "_SETTLED", 1e-13)


def log_likelihood(weights, batch):
    def value(theta):
        model = weights.model(theta)
        if batch.x is None:
            return float(model.log_density(batch.v).mean())
        rows = [model.given(x).log_density(v) for v, x in zip(batch.v, batch.x, strict=True)]
        return float(np.mean(rows))

    return value


def test_slopes_by_beliefs_on_trees_are_those_of_the_likelihood(settled):
    rng = np.random.default_rng(1)
    for model, batch in (
        (machine(4, 1), UnitRows(rng.integers(0, 2, (6, 4)).astype(float))),
        conditional(hidden=1),
    ):
        weights, (value, slope) = slopes(model, batch, "bp")
        exact = log_likelihood(weights, batch)
        assert value == pytest.approx(exact(weights.start), abs=1e-10)
        np.testing.assert_allclose(slope, by_differences(exact, weights.start), atol=1e-8)


def test_slopes_by_mean_field_are_those_of_its_own_value(settled):
    model, batch = conditional()
    weights, (_, slope) = slopes(model, batch, "mean-field", sweeps=2000)
    objective = Objective(weights, UnitContrast(phase_of("mean-field", 2000), 10**6))
    np.testing.assert_allclose(
        slope, by_differences(lambda theta: objective.value(theta, batch), weights.start), atol=1e-6
    )


@pytest.mark.parametrize("kind", ["margin", "joint-margin", "icm-margin"])
def test_slopes_of_margins_are_those_at_the_states_that_were_found(kind, settled):
    model, batch = conditional(seed=2)
    weights = model.unit_weights()
    source = UnitContrast(phase_of(kind), 10**6)
    scores = weights.scores(weights.start, batch)
    found = source.phase(scores, batch, np.zeros((5, 3)))
    is_joint = kind != "margin"

    def value(theta):
        own = weights.model(theta)
        total = 0.0
        for v, x, best, h in zip(batch.v, batch.x, found.left, found.right, strict=True):
            given = own.given(x)
            loss = np.abs(v - best).sum()
            if is_joint:
                seen = (given.hidden_inputs(v) > 0).astype(float)
                total += -given.energy(v, seen) - loss + given.energy(best, h)
            else:
                total += -given.free_energy(v) - loss + given.free_energy(best)
        return total / len(batch)

    told, slope = Objective(weights, UnitContrast(phase_of(kind), 10**6)).evaluate(weights.start, batch)
    assert told == pytest.approx(value(weights.start), abs=1e-9)
    np.testing.assert_allclose(slope, by_differences(value, weights.start), atol=1e-7)
    every, exact = np.array(list(itertools.product([0, 1], repeat=4))), 0.0
    for v, x in zip(batch.v, batch.x, strict=True):
        free = model.given(x).free_energy
        exact += (-free(v) - (np.abs(v - every).sum(axis=1) - free(every)).max()) / 5
    if kind == "margin":
        assert told == pytest.approx(exact, abs=1e-9)  # it found the best of all states here


@pytest.mark.parametrize("kind", ["cd", "random-cd", "pcd"])
def test_long_chains_have_the_expectations_of_the_model(kind):
    model = machine(seed=3, scale=0.7)
    rng = np.random.default_rng(0)
    batch = UnitRows(rng.integers(0, 2, (8000, 4)).astype(float))
    weights, (_, slope) = slopes(model, batch, kind, sweeps=25, particles=8000)
    exact = by_differences(log_likelihood(weights, batch), weights.start)
    np.testing.assert_allclose(slope, exact, atol=0.03)


def test_chains_that_are_carried_on_go_on():
    batch = UnitRows(np.zeros((5, 4)))
    source = UnitContrast(phase_of("pcd", 1, particles=7), 100)
    weights = machine().unit_weights()
    source.evaluate(weights.scores(weights.start, batch), batch)
    first = source.phase.chains.copy()
    source.evaluate(weights.scores(weights.start, batch), batch)
    assert source.phase.chains.shape == (7, 3) and (first != source.phase.chains).any()


def test_the_perceptron_loss_compares_with_the_least_free_energy_on_the_way():
    model, batch = conditional(seed=4)
    weights = model.unit_weights()
    phase = phase_of("perc-loss", 30)
    found = phase(weights.scores(weights.start, batch), batch, np.zeros((5, 3)))
    for v, x in zip(found.left, batch.x, strict=True):
        given = model.given(x)
        states = np.array(list(itertools.product([0, 1], repeat=4)))
        assert given.free_energy(v) <= np.sort(given.free_energy(states))[3]


def flipped(model):
    return credo.RBM(-model.weights, -model.visible_bias, model.hidden_bias + model.weights.sum(axis=0))


def test_a_centred_step_does_not_care_which_state_is_called_one(settled):
    rng = np.random.default_rng(5)
    v = rng.integers(0, 2, (9, 4)).astype(float)
    ends = []
    for model, rows in ((machine(4, 1), v), (flipped(machine(4, 1)), 1 - v)):
        weights = model.unit_weights()
        source = UnitContrast(phase_of("bp"), 100, is_centred=True)
        _, slope = Objective(weights, source).evaluate(weights.start, UnitRows(rows))
        ends.append(weights.model(weights.start + 0.1 * slope))
    other = flipped(ends[1])
    for name in ("weights", "visible_bias", "hidden_bias"):
        np.testing.assert_allclose(getattr(ends[0], name), getattr(other, name), atol=1e-8)


def test_curves_are_what_they_say():
    model = machine(seed=6)
    rng = np.random.default_rng(6)
    data, held = (UnitRows(rng.integers(0, 2, (30, 4)).astype(float)) for _ in range(2))
    weights = model.unit_weights()
    scores = weights.scores(weights.start, data)
    phase = phase_of("cd", 1)
    gap = FreeEnergyGap(phase, data)
    expected = model.free_energy(data.v).mean() - model.free_energy(held.v).mean()
    assert gap.value(scores, held) == pytest.approx(expected, abs=1e-12)
    assert gap.value(scores, data) == 0
    unit = np.random.default_rng(0).integers(4, size=30)
    other = data.v.copy()
    other[np.arange(30), unit] = 1 - other[np.arange(30), unit]
    conditional_logs = -np.log1p(np.exp(model.free_energy(data.v) - model.free_energy(other)))
    found = UnitPseudolikelihood(phase).value(scores, data)
    assert found == pytest.approx(4 * conditional_logs.mean(), abs=1e-12)


@pytest.mark.parametrize("kind", sorted(set(PHASES) - {"perc-loss"}))
def test_every_phase_learns_rows_of_bars(kind):
    rng = np.random.default_rng(0)
    bars = np.repeat(rng.integers(0, 2, (200, 2)), 2, axis=1)
    with pytest.warns(ConvergenceWarning):
        found = credo.fit(
            credo.RBM.blank(2), bars, f"boltzmann(negative={kind}, batch=50)", max_iter=15, seed=0, tol=0
        )
    assert found.model.weights.shape == (4, 2) and np.isfinite(found.objective).all()
    assert len(found.trace["pseudolikelihood"]) == 16
    if kind in ("cd", "random-cd", "pcd"):
        assert "visible biases at the log-odds of the data" in found.notes[0]
    else:
        assert ("beliefs settled on" in found.notes[-1]) == (kind in ("mean-field", "tap", "bp"))


@pytest.mark.parametrize(
    "kind", ["cd", "random-cd", "perc-loss", "mean-field", "bp", "margin", "joint-margin"]
)
def test_every_phase_learns_outputs_from_features(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 2))
    v = np.stack([x[:, 0] > 0, x[:, 0] <= 0, x[:, 1] > 0], axis=1).astype(float)
    start = credo.ConditionalRBM(np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((2, 2)))
    with pytest.warns(ConvergenceWarning):
        found = credo.fit(
            start, x, f"boltzmann(negative={kind}, batch=25, optimiser=sgd(rate=0.5))", targets=v,
            validation=0.2, max_iter=10, seed=0, tol=0,
        )  # fmt: skip
    assert found.trace["accuracy"][-1] > -0.1 > found.trace["accuracy"][0]
    assert len(found.trace["validation"]) == 11
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # coordinate ascent may go back and forth
        states = credo.infer(found.model, data=x, maximise=["visible"]).assignment["visible"]
    assert (states != v).mean() < 0.15


def test_real_units_find_the_middles_of_two_clouds():
    rng = np.random.default_rng(0)
    x = np.where(rng.random((300, 1)) < 0.5, -3.0, 3.0) * [1, 0.5] + rng.normal(size=(300, 2))
    blank = credo.RBM.blank(2, visible="gaussian")
    with pytest.warns(ConvergenceWarning):
        found = credo.fit(blank, x, "boltzmann(optimiser=adam(rate=0.05))", max_iter=40, seed=0)
    first = blank.filled(x)
    assert found.model.is_real and found.model.log_density(x).mean() > first.log_density(x).mean() + 0.05
    with pytest.raises(UnsupportedError, match="visible units are numbers, which chains alone treat"):
        credo.fit(blank, x, "boltzmann(negative=bp)")


def test_a_machine_that_begins_to_overfit_is_stopped_and_the_best_one_kept():
    rng = np.random.default_rng(0)
    data, held = rng.integers(0, 2, (12, 6)), rng.integers(0, 2, (200, 6))
    found = credo.fit(
        credo.RBM.blank(12), data, "boltzmann(watch=gap, patience=15, optimiser=adam(rate=0.05), batch=12)",
        validation=held, max_iter=500, seed=0,
    )  # fmt: skip
    gap = found.trace["validation"]
    assert found.stopped_early and len(gap) < 400
    told = found.model.free_energy(data).mean() - found.model.free_energy(held).mean()
    assert told == pytest.approx(gap.max(), abs=1e-4) and gap[-1] < gap.max() - 0.05


def test_the_same_seed_gives_the_same_machine_in_both_precisions():
    x = np.random.default_rng(0).integers(0, 2, (60, 4))
    for precision in ("single", "double"):
        spec = f"boltzmann(precision={precision}, batch=20)"
        with pytest.warns(ConvergenceWarning):
            one, two = (credo.fit(credo.RBM.blank(2), x, spec, max_iter=3, seed=5).model for _ in range(2))
        assert one == two


def test_likelihoods_of_machines_are_exact_or_by_the_method_named():
    model, rng = machine(seed=7), np.random.default_rng(7)
    v = rng.integers(0, 2, (6, 4))
    exact = credo.log_likelihood(model, v)
    assert exact.kind == "exact" and exact.value == pytest.approx(model.log_density(v).sum(), abs=1e-10)
    lower = credo.log_likelihood(model, v, "mean-field", seed=0)
    assert lower.kind == "upper" and lower.value >= exact.value
    crbm, batch = conditional(seed=7)
    rows = [crbm.given(x).log_density(v) for v, x in zip(batch.v, batch.x, strict=True)]
    found = credo.log_likelihood(crbm, batch.x, "enumerate", targets=batch.v, each=True)
    np.testing.assert_allclose(found, rows, atol=1e-10)
    assert credo.log_likelihood(crbm, batch.x, targets=batch.v).kind == "estimate"
    for task in (lambda: credo.log_likelihood(model, v, "gibbs"), lambda: credo.log_likelihood(
        crbm, batch.x[:1], "gibbs", targets=batch.v[:1])):  # fmt: skip
        with pytest.raises(UnsupportedError, match="computes no log Z; use"):
            task()


def test_columns_and_frames_are_rows_of_units():
    blank = credo.RBM.blank(2)
    columns = {"a": [0, 1, 1], "b": [1, 0, 1]}
    assert blank.filled(columns).weights.shape == (2, 2)
    np.testing.assert_array_equal(blank.read_batch(columns).v, [[0, 1], [1, 0], [1, 1]])
    np.testing.assert_allclose(log_odds(np.array([[0.0, 1], [0, 1]])), [-np.log(5), np.log(5)])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda x: credo.fit(machine(), x * 2.0), DataError, "expected numbers from 0 to 1, got 2"),
        (
            lambda x: credo.fit(machine(), np.where(x > 0, np.nan, 0)),
            DataError,
            "expected finite numbers, got nan",
        ),
        (lambda x: credo.fit(machine(5), x), DataError, "expected rows of 5 units"),
        (lambda x: credo.fit(machine(), x[0]), DataError, "expected a table of rows of units"),
        (lambda x: credo.fit(machine(), x[:0]), DataError, "expected at least one row"),
        (
            lambda x: credo.fit(machine(), x, groups="a"),
            DataError,
            "groups: a Boltzmann machine has independent",
        ),
        (
            lambda x: credo.fit(machine(), x, "boltzmann(negative=perc-loss)"),
            UnsupportedError,
            "use negative=ran",
        ),
        (lambda x: credo.fit(machine(), x, "boltzmann(optimiser=lbfgs)"), OptionError, "use adam"),
        (lambda x: credo.fit(machine(), x, "boltzmann(fixed=(0,))"), OptionError, "all weights of a Boltz"),
        (
            lambda x: credo.fit(machine(), x, "boltzmann(negative=nce)"),
            OptionError,
            "negative must be one of",
        ),
        (lambda x: credo.fit(machine(), x, "likelihood"), UnsupportedError, "got RBM"),
        (lambda x: credo.infer(credo.RBM.blank(2)), ModelError, "it has no weights; fit it first"),
    ],
)
def test_what_cannot_be_learned_is_refused(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call(np.array([[0, 1, 1, 0], [1, 0, 0, 1]]))


def test_conditional_machines_say_what_does_not_suit_them():
    model, batch = conditional()
    for spec, sentence in (
        ("pcd", "a chain"),
        ("cd, centring=True", "have no common means"),
    ):
        with pytest.raises(UnsupportedError, match=sentence.replace("a chain", "chain of its own")):
            credo.fit(model, batch.x, f"boltzmann(negative={spec})", targets=batch.v)
    with pytest.raises(DataError, match="targets: expected the visible units"):
        credo.fit(model, batch.x, "boltzmann(negative=cd)")
    with pytest.raises(DataError, match="targets: expected 5 rows, as many as features have, got 4"):
        credo.fit(model, batch.x, "boltzmann(negative=cd)", targets=batch.v[:4])


def test_predictions_of_outputs_use_what_was_learned_with():
    model, batch = conditional(seed=8)
    weights = model.unit_weights()
    scores = weights.scores(weights.start, batch)
    for kind in ("bp", "margin", "joint-margin", "mean-field"):
        found = UnitErrors(phase_of(kind, 20)).value(scores, batch)
        assert -1 <= found <= 0 and (found * 20) == pytest.approx(round(found * 20))


def test_rows_may_be_probabilities_that_every_step_draws_anew():
    p = np.full((4000, 4), [0.1, 0.5, 0.9, 1.0])
    model = machine(4, 1)
    weights = model.unit_weights()
    source = UnitContrast(phase_of("bp"), 10**6, is_drawn=True)
    _, one = Objective(weights, source).evaluate(weights.start, UnitRows(p))
    _, two = Objective(weights, source).evaluate(weights.start, UnitRows(p))
    assert (one != two).any()
    every = np.array(list(itertools.product([0, 1], repeat=4)), dtype=float)
    shares = np.prod(np.where(every > 0, p[0], 1 - p[0]), axis=1)
    exact = by_differences(
        lambda theta: float(shares @ weights.model(theta).log_density(every)), weights.start
    )
    np.testing.assert_allclose(one, exact, atol=0.05)
    with pytest.raises(UnsupportedError, match="and no probabilities of states; leave out binarise"):
        credo.fit(credo.RBM.blank(1, visible="gaussian"), p, "boltzmann(binarise=True)")


def test_a_rate_falls_to_zero_over_the_epochs_given():
    x = np.random.default_rng(0).integers(0, 2, (60, 4))
    spec = "boltzmann(optimiser=sgd(rate=0.1, ends={}), batch=20)"
    with pytest.warns(ConvergenceWarning):
        short, long = (
            credo.fit(credo.RBM.blank(2), x, spec.format(3), max_iter=n, seed=5, tol=0).model for n in (3, 5)
        )
    assert short == long
    with pytest.raises(OptionError, match="ends must be at least 1, got 0"):
        credo.fit(credo.RBM.blank(2), x, spec.format(0))


def test_without_hidden_units_outputs_are_logistic_regressions():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    v = (x @ [[2.0, -1], [0, 1]] + rng.logistic(size=(200, 2)) > 0).astype(float)
    start = credo.ConditionalRBM(np.zeros((2, 0)), np.zeros((2, 2)), np.zeros((0, 2)))
    spec = "boltzmann(negative=mean-field, batch=None, optimiser=sgd(rate=1.0))"
    with pytest.warns(ConvergenceWarning):
        found = credo.fit(start, x, spec, targets=v, validation=(x, v), max_iter=200, seed=0, tol=0).model
    residual = v - 1 / (1 + np.exp(-(x @ found.visible_weights.T + found.visible_bias)))
    np.testing.assert_allclose(residual.T @ np.column_stack([x, np.ones(200)]) / 200, 0, atol=1e-3)
    alone = credo.infer(found, data=x)
    np.testing.assert_allclose(alone.marginals["visible"], v - residual, atol=1e-6)
    for method in ("bp", "mean-field", "enumerate", "ais"):
        told = credo.infer(found.given(x[0]), method, seed=0).log_z.value
        assert told == pytest.approx(found.given(x[0]).log_z(), abs=1e-9)
