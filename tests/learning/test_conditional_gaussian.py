"""Networks with real nodes: regressions, hidden classes and missing numbers against other roads."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import DataError, ImpossibleRowError, TooLargeError
from credo.learning.conditional_gaussian import NetworkProblem
from credo.learning.em_steps import run_em
from credo.learning.network_rows import NetworkRows
from credo.models import Regression
from credo.optimise.run import Budget


def net(bias=(0.0, 5.0), weights=((1.0,), (-2.0,)), variance=(1.0, 0.5)):
    """kind -> height <- age, age real."""
    return credo.BayesNet(
        {"kind": ["a", "b"], "age": credo.Real(), "height": credo.Real()},
        parents={"height": ["kind", "age"]},
        tables={
            "kind": [0.4, 0.6],
            "age": Regression(30.0, 25.0),
            "height": Regression(bias, variance, weights),
        },
    )


def rows_of(samples, lack=0.0, seed=0, hide=()):
    names = samples.variables.names
    states = samples.indices.copy()
    values = np.full(states.shape, np.nan)
    for name, column in samples.continuous.items():
        values[:, names.index(name)] = column
    gone = np.random.default_rng(seed).random(states.shape) < lack
    for name in hide:
        gone[:, names.index(name)] = True
    states[gone], values[gone] = -1, np.nan
    return NetworkRows(states, values, np.ones(len(states)))


def learned(problem, steps=1):
    parameters = problem.start(np.random.default_rng(0), 0).parameters
    for _ in range(steps):
        parameters = problem.maximise(problem.expect(parameters).statistics, parameters)
    return problem.made(parameters)


def test_complete_rows_give_the_regressions_of_least_squares():
    model = net()
    data = rows_of(model.sample(200, seed=1))
    found = learned(NetworkProblem(model, data))
    for s in range(2):
        mine = data.states[:, 0] == s
        design = np.stack([np.ones(mine.sum()), data.values[mine, 1]], axis=1)
        beta, rest, *_ = np.linalg.lstsq(design, data.values[mine, 2], rcond=None)
        own = found.regressions["height"]
        np.testing.assert_allclose([own.bias[s], own.weights[s, 0]], beta, rtol=1e-8)
        np.testing.assert_allclose(own.variance[s], rest[0] / mine.sum(), rtol=1e-8)
    np.testing.assert_allclose(found.tables["kind"], np.bincount(data.states[:, 0]) / 200)
    np.testing.assert_allclose(found.regressions["age"].variance, data.values[:, 1].var(), rtol=1e-10)


def test_the_log_likelihood_of_rows_is_that_of_inference():
    model = net()
    data = rows_of(model.sample(30, seed=2), lack=0.4)
    problem = NetworkProblem(model, data)
    got = problem.expect(problem.start(np.random.default_rng(0), 0).parameters).log_weight
    wanted = 0.0
    for states, values in zip(data.states, data.values, strict=True):
        seen = {"kind": int(states[0])} if states[0] >= 0 else {}
        seen |= {n: values[i] for i, n in [(1, "age"), (2, "height")] if not np.isnan(values[i])}
        wanted += credo.infer(model, evidence=seen).log_z.value
    np.testing.assert_allclose(got, wanted, rtol=1e-10)


def test_expectations_of_missing_numbers_are_those_of_the_conditional_gaussian():
    model = net()
    data = NetworkRows(np.array([[1, -1, -1]]), np.array([[np.nan, np.nan, -50.0]]), np.ones(1))
    wide = NetworkRows(
        np.array([[1, -1, -1]] * 2),
        np.array([[np.nan, 20.0, -50.0], [np.nan, 40.0, -70.0]]),
        np.full(2, 1e-300),
    )
    both = NetworkRows(
        *(np.concatenate([getattr(data, f), getattr(wide, f)]) for f in ("states", "values", "weights"))
    )
    problem = NetworkProblem(model, NetworkRows(both.states, both.values, np.array([1.0, 1e-13, 1e-13])))
    node = problem.nodes[1]
    found = problem.expect(problem.start(np.random.default_rng(0), 0).parameters).statistics
    moments = found[node.moments : node.moments + 4].reshape(2, 2)
    # age ~ N(30, 25), height = 5 - 2 age + noise of variance 0.5, seen at -50
    gain = 25 * -2 / (4 * 25 + 0.5)
    mean, variance = 30 + gain * (-50 - (5 - 60)), 25 - gain * -2 * 25
    back = moments[0, 1] * problem.unit[1] + problem.centre[1]
    np.testing.assert_allclose(back, mean, rtol=1e-6)
    second = (moments[1, 1] - moments[0, 1] ** 2) * problem.unit[1] ** 2
    np.testing.assert_allclose(second, variance, rtol=1e-6)


def test_a_hidden_class_is_learned_as_a_mixture_is():
    mixture = pytest.importorskip("sklearn.mixture")
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(0, 1, 60), rng.normal(4, 0.7, 40)])
    start = credo.BayesNet(
        {"kind": 2, "x": credo.Real()},
        parents={"x": ["kind"]},
        tables={"kind": [0.5, 0.5], "x": Regression([-1.0, 2.0], [1.0, 1.0])},
    )
    data = NetworkRows(np.full((100, 2), -1), np.stack([np.full(100, np.nan), x], axis=1), np.ones(100))
    found = learned(NetworkProblem(start, data, floor=0.0), steps=4)
    theirs = mixture.GaussianMixture(
        2, weights_init=[0.5, 0.5], means_init=[[-1.0], [2.0]], precisions_init=[[[1.0]], [[1.0]]],
        reg_covar=0.0, max_iter=4, tol=0.0,
    )  # fmt: skip
    with pytest.warns(Warning):
        theirs.fit(x[:, None])
    np.testing.assert_allclose(found.tables["kind"], theirs.weights_, rtol=1e-9)
    np.testing.assert_allclose(found.regressions["x"].bias, theirs.means_.ravel(), rtol=1e-9)
    np.testing.assert_allclose(found.regressions["x"].variance, theirs.covariances_.ravel(), rtol=1e-8)


def test_em_never_lowers_the_likelihood_and_finds_the_model_again():
    truth = net()
    data = rows_of(truth.sample(4000, seed=4), lack=0.2)
    problem = NetworkProblem(truth, data)
    found = run_em(problem, Budget(60, 1e-4), np.random.default_rng(0), name="em")
    assert (np.diff(found.objective) > -1e-7).all()
    model = problem.made(found.parameters)
    np.testing.assert_allclose(model.regressions["height"].weights.ravel(), [1, -2], atol=0.05)
    np.testing.assert_allclose(model.tables["kind"], [0.4, 0.6], atol=0.03)


def test_ugly_rows_are_refused_in_a_sentence():
    model = net()
    rows = rows_of(model.sample(10, seed=5))
    constant = NetworkRows(rows.states, np.where(np.isnan(rows.values), np.nan, 3.0), rows.weights)
    with pytest.raises(DataError, match="column 'age': expected numbers that vary, got 3 in every row"):
        NetworkProblem(model, constant)
    one = NetworkRows(np.where(rows.states >= 0, 0, -1), rows.values, rows.weights)
    with pytest.raises(DataError, match="'height' with kind=b: no row tells its coefficients"):
        learned(NetworkProblem(model, one, unseen="refuse", prior="uniform"))
    kept = learned(NetworkProblem(model, one))
    assert kept.regressions["height"].bias[1] == pytest.approx(5.0)
    uniform = learned(NetworkProblem(model, one, unseen="uniform"))
    assert uniform.regressions["height"].weights[1, 0] == 0
    few = NetworkRows(rows.states[:3], rows.values[:3], rows.weights[:3])
    few.states[:, 0] = [0, 1, 1]
    with pytest.raises(DataError, match="'height' with kind=a: its variance vanishes"):
        learned(NetworkProblem(model, few, floor=0.0))


def test_impossible_rows_and_too_many_states_are_refused():
    certain = credo.BayesNet(
        {"s": 2, "x": credo.Real()}, {"x": ["s"]}, {"s": [1.0, 0.0], "x": Regression([0.0, 1.0], 1.0)}
    )
    data = NetworkRows(np.array([[0, -1], [1, -1]]), np.array([[np.nan, 1.0], [np.nan, 2.0]]), np.ones(2))
    problem = NetworkProblem(certain, data)
    with pytest.raises(ImpossibleRowError):
        problem.expect(problem.start(np.random.default_rng(0), 0).parameters)
    many = {f"s{k}": 300 for k in range(2)}
    wide = credo.BayesNet(
        many | {"x": credo.Real()}, {"x": list(many)},
        {name: np.full(300, 1 / 300) for name in many} | {"x": Regression(0.0, 1.0, np.zeros((300, 300, 0)))},
    )  # fmt: skip
    hidden = NetworkRows(
        np.full((2, 3), -1), np.array([[np.nan, np.nan, 1.0], [np.nan, np.nan, 2.0]]), np.ones(2)
    )
    problem = NetworkProblem(wide, hidden)
    with pytest.raises(TooLargeError, match="joint states, expected at most 65536"):
        problem.expect(problem.start(np.random.default_rng(0), 0).parameters)


def test_fixed_regressions_stay():
    model = net()
    found = learned(NetworkProblem(model, rows_of(model.sample(50, seed=6)), fixed=["height", "kind"]))
    np.testing.assert_allclose(found.regressions["height"].bias, [0, 5], atol=1e-9)
    np.testing.assert_allclose(found.tables["kind"], [0.4, 0.6])


def test_rows_that_are_watched_show_their_likelihood_per_row():
    rng = np.random.default_rng(4)
    a = rng.normal(size=60)
    data = {"a": a, "b": 2 * a + rng.normal(size=60)}
    data["b"][::7] = np.nan
    held = {"a": rng.normal(size=9), "b": rng.normal(size=9)}
    blank = credo.BayesNet.from_edges([("a", "b")])
    found = credo.fit(blank, data, "em", validation=held)
    expected = credo.log_likelihood(found.model, held).value / 9
    assert found.trace["validation"][-1] == pytest.approx(expected, abs=1e-9)
    share = credo.fit(blank, data, "em", validation=0.25, seed=0)
    assert np.isfinite(share.trace["validation"]).all()
    with pytest.raises(DataError, match="two rows at least"):
        credo.fit(found.model, {"a": [1.0], "b": [2.0]}, validation=0.5)


def test_a_row_of_weight_two_is_a_row_that_comes_twice():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(20, 2))
    x[3, 0] = x[9, 1] = np.nan
    model = credo.fit(credo.BayesNet.from_edges([("a", "b")]), {"a": x[:, 0], "b": x[:, 1]}).model
    weights = np.where(np.arange(20) < 10, 2, 1)
    twice = np.repeat(x, weights, axis=0)
    one = credo.fit(model, {"a": x[:, 0], "b": x[:, 1]}, "em", weights=weights)
    two = credo.fit(model, {"a": twice[:, 0], "b": twice[:, 1]}, "em")
    np.testing.assert_allclose(one.objective, two.objective, atol=1e-12)
