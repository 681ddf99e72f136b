"""Parameters that are declared: learned as the same weights elsewhere, and to the maximum that is known."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo import potentials
from credo.core.errors import DataError, ModelError, UnsupportedError
from credo.learning.base import learners
from credo.models.declared import DeclaredWeights

RNG = np.random.default_rng(0)
STATES = [credo.Variable(name, 2) for name in "abc"]
X, Y = credo.Variable("x", credo.Real()), credo.Variable("y", credo.Real())


@credo.register("test.alike")
def alike(a, b, strength):
    return strength * (a == b)


def pairs(start=0.0):
    pull, (a, b, c) = credo.Parameter("pull", start), STATES
    factors = [credo.DensityFactor([a, b], alike, pull), credo.DensityFactor([b, c], alike, pull)]
    return credo.HybridNet(STATES, factors)


def log_linear(start=0.0):
    features = [(("a", "b"), np.eye(2), 0), (("b", "c"), np.eye(2), 0)]
    return credo.MarkovNet.log_linear(dict.fromkeys("abc", 2), features, [start])


def rows(gaps=0.0):
    drawn = credo.sample(log_linear(0.8), 300, seed=0)
    return {n: [None if RNG.random() < gaps else v for v in drawn[n].tolist()] for n in "abc"}


@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_a_shared_number_is_learned_as_the_weight_of_a_log_linear_model(gaps):
    data = rows(gaps)
    ours, theirs = credo.fit(pairs(), data), credo.fit(log_linear(), data)
    assert ours.learner == theirs.learner == "likelihood"
    assert ours.model.parameters["pull"] == pytest.approx(theirs.model.weights[0], abs=1e-5)
    assert ours.log_likelihood.kind == "exact"
    assert ours.log_likelihood.value == pytest.approx(theirs.log_likelihood.value)
    assert credo.log_likelihood(ours.model, data).value == pytest.approx(ours.log_likelihood.value)
    assert (np.diff(ours.objective) > -1e-12).all()


@pytest.mark.slow
def test_a_scale_and_a_centre_of_real_variables_come_to_their_maximum():
    x = RNG.normal(size=200)
    y = x - 0.5 + 0.7 * RNG.laplace(size=200)
    scale, gap = credo.Parameter("scale", 2.0, credo.Positive()), credo.Parameter("gap", 0.0)
    net = credo.HybridNet([X, Y], [potentials.gaussian(X), potentials.laplace(X, Y, scale=scale, centre=gap)])
    found = credo.fit(net, {"x": x, "y": y}, inference="grid-bp", tol=1e-3, max_iter=20).model
    middle = np.median(x - y)
    assert found.parameters["gap"] == pytest.approx(middle, abs=0.02)
    assert found.parameters["scale"] == pytest.approx(np.abs(x - y - middle).mean(), rel=0.02)


def test_rows_that_lack_a_state_are_summed_over_it():
    """A sensor that says what a hidden state is: EM by hand has the same top."""
    s = credo.Variable("s", 2)

    def sensor(x, s, gain):  # of a normalised density
        return -0.5 * (x - gain * s) ** 2

    gain = credo.Parameter("gain", 1.0, credo.Interval(0, 10))
    net = credo.HybridNet([X, s], [credo.DensityFactor([X, s], sensor, gain)])
    x = 3.0 * RNG.integers(2, size=40) + RNG.normal(size=40)
    at = 1.0
    for _ in range(500):
        share = 1 / (1 + np.exp(0.5 * (x - at) ** 2 - 0.5 * x**2))
        at = float(share @ x / share.sum())
    found = credo.fit(net, {"x": x}, inference="grid-bp", tol=1e-4, max_iter=20).model
    assert found.parameters["gain"] == pytest.approx(at, abs=0.01)


def test_models_with_declared_parameters_are_kept_compared_and_go_on(tmp_path):
    data = rows()
    few = credo.fit(pairs(), data, tol=0.05)
    credo.save(few, tmp_path / "fit.credo")
    more = credo.fit(credo.load(tmp_path / "fit.credo"), data)
    assert more.objective[0] == few.objective[-1] and more.model.declared == ("pull",)
    table = credo.compare_models({"pull": pairs(), "weight": log_linear()}, data, criteria=["bic", "cv"])
    pull, weight = table.rows
    assert (pull.parameters, pull.bic) == (1, pytest.approx(weight.bic))
    assert pull.cv == pytest.approx(weight.cv, abs=1e-4)


def test_values_are_set_by_name_and_arrays_keep_their_shape():
    net = pairs().with_parameters({"pull": 0.5})
    assert net.parameters == {"pull": 0.5} and net.n_parameters == 1
    assert net.factors[0].log_values(0, 0) == net.factors[1].log_values(1, 1) == 0.5
    table = credo.Parameter("table", [[0.1, 0.2], [0.3, 0.4]], credo.Interval(0, 1))
    whole = credo.HybridNet(STATES, [credo.DensityFactor(STATES[:2], lambda a, b, t: t[a, b], table)])
    weights = whole.score_weights()
    assert isinstance(weights, DeclaredWeights) and weights.start.shape == (4,)
    np.testing.assert_allclose(weights.model(weights.start).parameters["table"], table.value)


@pytest.mark.parametrize("name", learners.names())
def test_every_other_learner_refuses_with_a_sentence(name):
    if name == "likelihood":
        return
    net = credo.HybridNet([X], [potentials.laplace(X, scale=credo.Parameter("scale", 1.0, credo.Positive()))])
    with pytest.raises(UnsupportedError, match=f"{name} cannot treat this task: "):
        credo.fit(net, {"x": [0.5, 1.0]}, name)


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: credo.Parameter("", 1.0), ModelError, "parameter: expected a name"),
        (lambda: credo.Parameter("p", -1.0, credo.Positive()), ModelError, "parameter 'p': .*-1"),
        (lambda: credo.Parameter("p", 1.0, credo.Real(2)), ModelError, "a domain of single numbers"),
        (
            lambda: pairs().with_parameters({"push": 1.0}),
            ModelError,
            r"expected names of \['pull'\], got 'push'",
        ),
        (lambda: pairs().with_parameters({"pull": [1.0]}), ModelError, r"expected shape \(\), got \(1,\)"),
        (lambda: credo.fit(pairs(), {"a": []}), DataError, "expected at least one row"),
        (
            lambda: credo.fit(pairs(), rows(), "likelihood(gradient=autodiff)"),
            UnsupportedError,
            "by gradient=log_z",
        ),
        (
            lambda: credo.fit(credo.HybridNet([X], [potentials.laplace(X)]), {"x": [1.0]}),
            UnsupportedError,
            "declare parameters: credo.Parameter in the place of a number",
        ),
        (
            lambda: credo.HybridNet(
                STATES,
                [credo.DensityFactor(STATES[:2], alike, credo.Parameter("p", k)) for k in (0.0, 1.0)],
            ),
            ModelError,
            "expected one value and domain wherever it stands",
        ),
    ],
)
def test_refusals(call, kind, said):
    with pytest.raises(kind, match=said):
        call()
