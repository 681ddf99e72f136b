"""Maximum likelihood reaches what it should, never falls, and says what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

import credo
from credo import FactorGraph, MarkovNet
from credo.core.errors import ConvergenceError, ConvergenceWarning, CredoError, DataError, UnsupportedError
from credo.core.result import Status
from credo.data.table import StateTable
from credo.inference.problem.base import Budget
from credo.learning import MaximumLikelihood, fit, log_likelihood
from credo.learning.expectations import Oracle

QUIET = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


def grid_model(seed=0, n=3):
    return credo.datasets.ising_grid(n, coupling="normal(scale=0.7)", field="normal(scale=0.5)", seed=seed)


def ising_features(n):
    """Log-linear Ising grid: one weight per edge and per variable."""
    truth = grid_model(n=n)
    graph = truth.to_factor_graph()
    spin = np.array([-1.0, 1.0])
    features = [
        (graph.scope_of(a)[None, :], np.outer(spin, spin) if len(graph.scope_of(a)) == 2 else spin, a)
        for a in range(graph.n_factors)
    ]
    return MarkovNet.log_linear(truth.variables, features, np.zeros(graph.n_factors)), truth


@pytest.mark.parametrize("seed", range(3))
def test_exact_learning_reaches_the_generating_likelihood_within_sampling_error(seed):
    """Wilks: twice the gain over the truth is chi-square with as many degrees as weights."""
    start, truth = ising_features(3)
    train, test = credo.sample(truth, 4000, seed=seed), credo.sample(truth, 4000, seed=100 + seed)
    found = fit(start, train)
    assert found.status is Status.CONVERGED
    gain = found.log_likelihood.value - log_likelihood(truth, train).value
    degrees = len(start.weights)
    assert 0 <= 2 * gain < degrees + 5 * np.sqrt(2 * degrees)
    loss = log_likelihood(truth, test).value - log_likelihood(found.model, test).value
    assert -5 < loss < degrees + 5 * np.sqrt(2 * degrees)
    worse = log_likelihood(start, test).value
    assert log_likelihood(truth, test).value - worse > 20 * degrees, "the start must be far away"


def test_tables_and_features_reach_the_same_distribution():
    """Full tables and Ising weights span the same family on pairs of spins with fields."""
    start, truth = ising_features(2)
    data = credo.sample(truth, 500, seed=3)
    by_weights = fit(start, data, tol=1e-9)
    flat = FactorGraph.from_flat(
        truth.variables,
        truth.to_factor_graph().scope_start,
        truth.to_factor_graph().scope,
        np.zeros_like(truth.to_factor_graph().log_tables),
    )
    by_tables = fit(MarkovNet.from_graph(flat), data, tol=1e-9)
    assert isinstance(by_tables.model, MarkovNet)
    assert by_tables.log_likelihood.value == pytest.approx(by_weights.log_likelihood.value, abs=1e-6)


def test_the_optimum_matches_moments():
    start, truth = ising_features(3)
    data = credo.sample(truth, 300, seed=1)
    found = fit(start, data, tol=1e-8)
    model = found.model
    expected = model.expected_features(credo.infer(model, "junction-tree").factor_marginals)
    assert expected == pytest.approx(start.mean_features(data), abs=1e-7)


@QUIET
@pytest.mark.parametrize("start_seed", range(3))
def test_the_likelihood_with_hidden_variables_never_falls(start_seed):
    """Two hidden spins above four observed ones."""
    rng = np.random.default_rng(start_seed)
    edges = [(h, v) for h in (4, 5) for v in range(4)]
    truth = MarkovNet.ising(
        {e: 1.2 for e in edges[:4]} | {e: -0.8 for e in edges[4:]}, fields=np.full(6, 0.2)
    )
    samples = credo.sample(truth, 400, seed=7).indices
    rows = samples.astype(float)
    rows[:, 4:] = np.nan
    rows[rng.random(len(rows)) < 0.3, 0] = np.nan
    data = {f"x{i}": np.where(np.isnan(rows[:, i]), -7, rows[:, i]) for i in range(4)}
    data = {name: [None if v < 0 else int(v) for v in column] for name, column in data.items()}
    start = MarkovNet.ising({e: rng.normal() for e in edges}, fields=rng.normal(size=6))
    found = fit(start, data, max_iter=60, tol=1e-5, validation={n: c[:50] for n, c in data.items()})
    assert (np.diff(found.objective) > -1e-12).all()
    assert found.objective[-1] > found.objective[0] + 0.01
    assert found.objective[-1] * 400 == pytest.approx(log_likelihood(found.model, data).value, abs=1e-8)
    assert len(found.trace["validation"]) == len(found.objective)


def test_a_symmetric_start_with_a_hidden_variable_is_broken_and_said():
    model = MarkovNet({"h": 2, "a": 2, "b": 2}, {("h", "a"): np.ones((2, 2)), ("h", "b"): np.ones((2, 2))})
    data = {"a": [0, 0, 1, 1, 0, 1], "b": [0, 0, 1, 1, 1, 1]}
    found = fit(model, data, "likelihood(prior=gaussian(scale=3))", seed=0)
    assert "the states of the hidden variable 'h' were alike at the start" in found.notes[0]
    independent = fit(MarkovNet({"a": 2, "b": 2, "h": 2}, {("a",): [1, 1], ("b",): [1, 1]}), data)
    assert found.log_likelihood.value > independent.log_likelihood.value + 0.1
    again = fit(model, data, "likelihood(prior=gaussian(scale=3))", seed=0)
    assert np.array_equal(again.objective, found.objective)


@QUIET
@pytest.mark.parametrize("inference", ["bp", "bp(damping=0.5)", "trw", "mean-field", "gbp", "fractional-bp"])
def test_approximate_engines_learn(inference):
    start, truth = ising_features(3)
    train = credo.sample(truth, 500, seed=0)
    found = fit(
        start, train, "likelihood(optimiser=adam(rate=0.05),prior=gaussian(scale=3))", inference=inference,
        max_iter=40, tol=1e-3, inference_budget=Budget(300, 1e-7), seed=0,
    )  # fmt: skip
    assert found.log_likelihood.kind in ("estimate", "lower", "upper")
    exact = log_likelihood(found.model, train, "junction-tree").value
    assert exact > log_likelihood(start, train, "junction-tree").value + 100


def test_bounds_on_log_z_bound_the_likelihood():
    _, truth = ising_features(3)
    train = credo.sample(truth, 100, seed=0)
    exact = log_likelihood(truth, train).value
    upper = log_likelihood(truth, train, "mean-field")
    lower = log_likelihood(truth, train, "trw")
    assert (upper.kind, lower.kind) == ("upper", "lower")
    assert lower.value <= exact <= upper.value


def test_priors_pull_and_the_laplace_prior_gives_zeros():
    start, truth = ising_features(3)
    data = credo.sample(truth, 200, seed=2)
    free = fit(start, data).model.weights
    ridge = fit(start, data, "likelihood(prior=gaussian(scale=0.2))", tol=1e-9).model.weights
    lasso = fit(start, data, "likelihood(prior=laplace(scale=0.05))", tol=1e-8)
    assert np.abs(ridge).sum() < np.abs(free).sum()
    assert (lasso.model.weights == 0).sum() >= 3
    # Stationarity: the data's moments less the model's equal the prior's slope, |.| <= 1/scale at zeros.
    model = lasso.model
    gap = len(data) * (
        start.mean_features(data)
        - model.expected_features(credo.infer(model, "junction-tree").factor_marginals)
    )
    at_zero = model.weights == 0
    assert (np.abs(gap[at_zero]) <= 20 + 1e-3).all()
    assert gap[~at_zero] == pytest.approx(20 * np.sign(model.weights[~at_zero]), abs=1e-3)
    elastic = fit(start, data, "likelihood(prior=elastic(c1=0,c2=12.5))", tol=1e-9).model.weights
    assert elastic == pytest.approx(ridge, abs=1e-6), "c2 = 1/(2 scale^2)"


@pytest.mark.parametrize("optimiser", ["adam(rate=0.05,decay=0.05)", "sgd(rate=0.1,momentum=0.9,decay=0.1)"])
def test_batches_and_stochastic_optimisers_come_near_the_optimum(optimiser):
    start, truth = ising_features(3)
    data = credo.sample(truth, 1000, seed=2)
    best = fit(start, data).log_likelihood.value
    learner = f"likelihood(optimiser={optimiser},batch=100)"
    found = fit(start, data, learner, max_iter=60, tol=0.003, validation=0.2, seed=0)
    again = fit(start, data, learner, max_iter=60, tol=0.003, validation=0.2, seed=0)
    assert np.array_equal(found.model.weights, again.model.weights)
    assert len(found.trace["validation"]) == len(found.trace["log_likelihood"])
    assert log_likelihood(found.model, data).value > best - 25


@pytest.mark.parametrize("learner", ["likelihood", "pseudolikelihood"])
def test_batches_count_by_the_weight_of_their_rows(learner):
    model = credo.MarkovNet({"a": 3}, {("a",): [1, 1, 1]})
    spec = f"{learner}(optimiser=sgd(rate=0.3, decay=0.1), batch=1)"
    with pytest.warns(ConvergenceWarning):
        found = fit(model, {"a": [0, 1, 2]}, spec, weights=[6, 3, 0], max_iter=300, tol=0, seed=0)
    shares = credo.infer(found.model, "junction-tree").marginals["a"]
    assert shares == pytest.approx([2 / 3, 1 / 3, 0], abs=0.05)


@pytest.mark.parametrize("optimiser", ["adam(rate=0.02)", "sgd(rate=0.1)"])
def test_proximal_steps_give_the_zeros_of_the_laplace_prior(optimiser):
    start, truth = ising_features(2)
    data = credo.sample(truth, 200, seed=2)
    exact = fit(start, data, "likelihood(prior=laplace(scale=0.03))", tol=1e-8)
    found = fit(
        start, data, f"likelihood(prior=laplace(scale=0.03),optimiser={optimiser})", max_iter=2000, tol=1e-9
    )
    assert (exact.model.weights == 0).any()
    assert found.model.weights == pytest.approx(exact.model.weights, abs=2e-2)
    assert found.objective[-1] == pytest.approx(exact.objective[-1], abs=1e-4)


def test_early_stopping_returns_the_weights_with_the_best_validation_value():
    start, truth = ising_features(3)
    train, held = credo.sample(truth, 30, seed=5), credo.sample(truth, 2000, seed=6)
    found = fit(start, train, "likelihood(patience=3)", validation=held, tol=1e-10)
    assert found.status is Status.STALLED and found.stopped_early, "nothing has converged"
    assert found.advice.startswith("the validation value no longer rose")
    best = found.trace["validation"].max()
    assert log_likelihood(found.model, held).value / 2000 == pytest.approx(best)
    assert found.trace["validation"][-1] < best
    assert found.log_likelihood.value == pytest.approx(log_likelihood(found.model, train).value)


def test_early_stopping_needs_validation_rows_that_are_possible():
    start = credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [1, 1]]})
    with pytest.raises(DataError, match="validation data: row 0 has probability zero"):
        fit(start, {"a": [0, 1], "b": [0, 1]}, "likelihood(patience=2)", validation={"a": [0], "b": [1]})


def test_tied_tables_stay_equal_and_fixed_ones_stay_put():
    truth = grid_model()
    data = credo.sample(truth, 300, seed=0)
    graph = truth.to_factor_graph()
    found = fit(truth, data, MaximumLikelihood(tie="shape")).model.to_factor_graph()
    pairs = [a for a in range(graph.n_factors) if len(graph.scope_of(a)) == 2]
    assert all(np.array_equal(found.log_table(a), found.log_table(pairs[0])) for a in pairs)
    assert len(np.unique(found.table_start)) == 2
    some = fit(truth, data, MaximumLikelihood(tie=[pairs[:3], pairs[2:5]], fixed=(pairs[6],)))
    tables = [some.model.to_factor_graph().log_table(a) for a in pairs]
    assert all(np.array_equal(tables[0], t) for t in tables[:5])
    assert not np.array_equal(tables[0], tables[5])
    assert np.array_equal(tables[6], graph.log_table(pairs[6]))


def test_shared_storage_is_kept_and_saved(tmp_path):
    ring = np.stack([np.arange(6), (np.arange(6) + 1) % 6], axis=1)
    model = MarkovNet.from_graph(FactorGraph.from_arrays(np.full(6, 2), (ring, [[2.0, 1.0], [1.0, 2.0]])))
    data = credo.sample(model, 200, seed=0)
    found = fit(model, data, tol=1e-8)
    assert len(found.model.to_factor_graph().log_tables) == 4
    credo.save(found.model, tmp_path / "ring.json")
    loaded = credo.load(tmp_path / "ring.json")
    assert loaded == found.model
    assert log_likelihood(loaded, data).value == pytest.approx(found.log_likelihood.value)


def test_a_log_linear_model_is_saved_and_loaded_with_its_weights(tmp_path):
    start, truth = ising_features(2)
    found = fit(start, credo.sample(truth, 100, seed=0))
    credo.save(found.model, tmp_path / "model.json")
    loaded = credo.load(tmp_path / "model.json")
    assert loaded.weights == pytest.approx(found.model.weights)
    assert loaded.to_factor_graph() == found.model.to_factor_graph()
    assert loaded.with_weights(start.weights).to_factor_graph() == start.to_factor_graph()


def test_zero_entries_stay_zero():
    model = MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 1], [0, 1]]})
    found = fit(model, {"a": [0, 0, 1, 0], "b": [0, 1, 1, 1]}, tol=1e-8)
    marginal = credo.infer(found.model, "junction-tree").factor_marginals[0]
    assert marginal == pytest.approx(np.array([[0.25, 0.5], [0.0, 0.25]]), abs=1e-6)


def test_learning_by_differences_of_log_z_needs_no_marginals():
    start, truth = ising_features(2)
    data = credo.sample(truth, 100, seed=0)
    plain = fit(start, data, tol=1e-5)
    found = fit(start, data, "likelihood(gradient=log_z)", inference="elimination", tol=1e-5)
    assert found.model.weights == pytest.approx(plain.model.weights, abs=1e-3)


def test_autodiff_agrees_with_marginals_where_messages_settle():
    start, truth = ising_features(3)
    data = credo.sample(truth, 300, seed=0)
    plain = fit(start, data, inference="bp", inference_budget=Budget(500, 1e-10), tol=1e-5)
    found = fit(start, data, "likelihood(gradient=autodiff, sweeps=60)", inference="bp", tol=1e-5)
    assert found.model.weights == pytest.approx(plain.model.weights, abs=1e-3)
    assert found.log_likelihood.value == pytest.approx(plain.log_likelihood.value, abs=1e-3)
    assert found.log_likelihood.kind == "estimate"


@QUIET
def test_autodiff_through_few_sweeps_climbs_its_own_objective():
    start, truth = ising_features(3)
    data = credo.sample(truth, 60, seed=0).to_frame()
    data.iloc[::3, 2] = None
    found = fit(start, data, "likelihood(gradient=autodiff, sweeps=2)", max_iter=8)
    assert found.objective[-1] > found.objective[0] and (np.diff(found.objective) >= -1e-12).all()


def test_autodiff_sums_missing_values_out():
    chain = MarkovNet({"a": 2, "b": 2, "c": 2}, {("a", "b"): np.ones((2, 2)), ("b", "c"): np.ones((2, 2))})
    rows = {"a": [0, 0, 1, None, 1], "b": [0, 1, 1, 0, None], "c": [0, None, 1, 0, 1]}
    exact = fit(chain, rows, "likelihood(prior=gaussian(scale=2))", tol=1e-8)
    other = fit(chain, rows, "likelihood(prior=gaussian(scale=2), gradient=autodiff, sweeps=4)", tol=1e-8)
    assert other.log_likelihood.value == pytest.approx(exact.log_likelihood.value, abs=1e-6)


def test_autodiff_refuses_other_inference():
    start, truth = ising_features(2)
    data = credo.sample(truth, 10, seed=0)
    for inference in ("junction-tree", "bp(damping=0.5, damping_domain=linear)"):
        with pytest.raises(UnsupportedError, match="follows belief propagation"):
            fit(start, data, "likelihood(gradient=autodiff)", inference=inference)
    model = MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 0], [1, 1]]})
    with pytest.raises(DataError, match="row 1 has probability zero"):
        fit(model, {"a": [0, 0], "b": [0, 1]}, "likelihood(gradient=autodiff)")


class _Fuse(Oracle):
    """Interrupts at the n-th run."""

    def _ask(self, *arguments):
        if self.runs >= 5:
            raise KeyboardInterrupt
        return super()._ask(*arguments)


def test_ctrl_c_keeps_what_was_found(monkeypatch):
    monkeypatch.setattr("credo.learning.likelihood.Oracle", _Fuse)
    start, truth = ising_features(3)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = fit(start, credo.sample(truth, 200, seed=0))
    assert found.status is Status.INTERRUPTED
    assert 1 <= len(found.objective) <= 5
    assert found.objective[-1] > found.objective[0]
    assert np.abs(found.model.weights).max() > 0


def test_running_out_of_iterations_or_time_is_said():
    start, truth = ising_features(3)
    data = credo.sample(truth, 200, seed=0)
    with pytest.warns(ConvergenceWarning, match="likelihood: max_iter was reached"):
        assert fit(start, data, max_iter=2).status is Status.OUT_OF_ITERATIONS
    with pytest.raises(ConvergenceError, match="max_iter was reached"):
        fit(start, data, max_iter=2, strict=True)
    with pytest.warns(ConvergenceWarning, match="the time given was used up"):
        assert fit(start, data, seconds=0.0).status is Status.OUT_OF_TIME


def test_runs_of_inference_that_did_not_converge_are_counted():
    start, truth = ising_features(3)
    data = credo.sample(truth, 100, seed=0)
    found = fit(
        truth,
        data,
        "likelihood(prior=gaussian(scale=2))",
        inference="bp",
        inference_budget=Budget(1, 1e-12),
        max_iter=50,
        tol=1e9,
    )
    assert re.search(r"inference did not converge in \d+ of \d+ runs", " ".join(found.notes))
    assert "chosen: junction-tree" in " ".join(fit(start, data, tol=10).notes)
    text = repr(found)
    assert "objective" in text
    assert "log-likelihood" in text


REFUSALS = [
    (dict(learner="likelyhood"), "no learner named 'likelyhood'; did you mean 'likelihood'?"),
    (dict(learner=3), "learner: expected a name or a Learner, got 3"),
    (dict(learner="likelihood(optimiser=newton)"), "no optimiser named 'newton'"),
    (dict(learner="likelihood(prior=cauchy)"), "no prior named 'cauchy'"),
    (dict(learner="likelihood(prior=gaussian(scale=0))"), "scale must be a positive number, got 0"),
    (dict(learner="likelihood(prior=laplace(scale=-1))"), "scale must be a positive number, got -1"),
    (dict(learner="likelihood(prior=elastic(c1=-1))"), "c1 must be at least 0, got -1"),
    (dict(learner="likelihood(optimiser=adam(rate=0))"), "rate must be a positive number, got 0"),
    (dict(learner="likelihood(optimiser=sgd(momentum=1))"), "momentum must be in [0, 1), got 1"),
    (
        dict(learner="likelihood(batch=10)"),
        "batch: lbfgs uses all rows at each step; use optimiser=adam or sgd",
    ),
    (dict(learner="likelihood(batch=0)"), "batch must be at least 1, got 0"),
    (dict(learner="likelihood(patience=2)"), "patience: early stopping needs validation data"),
    (
        dict(learner="likelihood(gradient=exact)"),
        "gradient must be one of ['autodiff', 'log_z', 'marginals', 'min-max'], got 'exact'",
    ),
    (dict(learner="likelihood(tie=size)"), "tie: expected 'shape' or lists of factor positions, got 'size'"),
    (
        dict(learner=MaximumLikelihood(tie=[[0, 99]])),
        "tie: expected factor positions in [0, 33), got [0, 99]",
    ),
    (dict(learner=MaximumLikelihood(tie=[["a"]])), "tie: expected a list of factor positions, got ['a']"),
    (dict(learner=MaximumLikelihood(tie=3)), "tie: expected 'shape' or lists of factor positions, got 3"),
    (dict(learner=MaximumLikelihood(tie=[3])), "tie: expected a list of factor positions, got 3"),
    (dict(learner="likelihood(fixed=0)"), "fixed: expected a list of factor positions, got 0"),
    (dict(learner=MaximumLikelihood(fixed=(0.5,))), "fixed: expected a list of factor positions, got (0.5,)"),
    (dict(learner=MaximumLikelihood(fixed=("0",))), "fixed: expected a list of factor positions, got ('0',)"),
    (
        dict(learner=MaximumLikelihood(tie=[[0, 32]])),
        "tie: expected factors of one shape, got [(2,), (2, 2)]",
    ),
    (dict(learner=MaximumLikelihood(fixed=(40,))), "fixed: expected factor positions in [0, 33), got [40]"),
    (dict(learner="likelihood(optimiser=3)"), "optimiser: expected a name such as"),
    (dict(learner="likelihood(prior=3)"), "prior: expected a name such as"),
    (dict(validation=1.5), "validation must be in [0, 1), got 1.5"),
    (dict(validation={"z": [1]}), "validation: data: the column 'z' is no variable of the model"),
    (dict(max_iter=-1), "max_iter must be at least 0, got -1"),
    (dict(max_iter=2.5), "max_iter must be a whole number, got 2.5"),
    (dict(seed="x"), "seed must be a whole number of at least 0, a numpy Generator or None, got 'x'"),
    (dict(inference="bpp"), "no algorithm named 'bpp'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSALS, ids=[m[:50] for _, m in REFUSALS])
def test_refusals_say_what_was_expected_and_what_came(arguments, message):
    model = credo.datasets.ising_grid(4, seed=0)
    model = MarkovNet.from_graph(model.to_factor_graph().select(np.arange(33)))
    data = credo.sample(model, 20, seed=0)
    with pytest.raises(CredoError, match=re.escape(message)):
        fit(model, data, **arguments)


def test_models_that_cannot_be_moved_freely_are_refused():
    net = credo.datasets.sprinkler()
    data = credo.sample(net, 20, seed=0)
    with pytest.raises(CredoError, match=r"tables of a BayesNet are conditional probabilities.*use em"):
        fit(net, data, "likelihood")

    class Own:
        def to_factor_graph(self):
            return net.to_factor_graph()

    with pytest.raises(CredoError, match="expected a LogLinear, MarkovNet or FactorGraph, got Own"):
        fit(Own(), data)
    with pytest.raises(CredoError, match="expected a model"):
        fit(3, data)
    start, _ = ising_features(2)
    with pytest.raises(CredoError, match="features of a log-linear model say what is shared already"):
        fit(start, credo.sample(start, 5, seed=0), "likelihood(tie=shape)")
    zeros = MarkovNet({"a": 2, "b": 2}, {("a",): [0, 1], ("b",): [1, 1]})
    with pytest.raises(CredoError, match="tied tables with their zero entries at the same places"):
        fit(zeros, [[1, 0]], "likelihood(tie=shape)")


def test_the_data_are_counted_once_per_distinct_row():
    model = grid_model()
    data = StateTable.of(model.variables, [{"x0": 0}] * 500 + [{"x1": 1}] * 500)
    oracle = Oracle("junction-tree")
    from credo.learning.parameters import Parameters
    from credo.learning.table_sources import Likelihood

    parameters = Parameters.of(model)
    Likelihood(parameters.graph, oracle).evaluate(parameters.tables(parameters.start), data)
    assert oracle.runs == 3


@QUIET
def test_a_network_whose_runs_converge_learns_what_exact_inference_learns():
    start, truth = ising_features(3)
    rows = credo.sample(truth, 500, seed=0)
    learner, budget = "likelihood(optimiser=adam(rate=0.1))", Budget(1000, 1e-4)
    exact, found = (
        fit(start, rows, learner, inference=by, max_iter=40, seed=0, inference_budget=budget)
        for by in ("junction-tree", "renn(width=16, rate=0.003)")
    )
    likelihoods = [log_likelihood(f.model, rows, "junction-tree").value for f in (exact, found)]
    assert likelihoods[1] == pytest.approx(likelihoods[0], abs=1.0)
    assert not any("inference did not converge" in note for note in found.notes)
