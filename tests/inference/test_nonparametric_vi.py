"""Nonparametric variational inference: the entropy bound, the corrected objective, fits, refusals."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import credo
import hybrid_zoo
from credo import potentials
from credo.core.errors import ConvergenceWarning, OptionError, QueryError, UnsupportedError
from credo.core.log_density import LogDensity
from credo.core.result import Status
from credo.inference.variational.curvature import LocalShape
from credo.inference.variational.nonparametric_vi import entropy_bound


def mixture(components: int, dimension: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return 2 * rng.normal(size=(components, dimension)), np.exp(rng.normal(size=components))


def log_mixture(y: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Log density of the mixture of equal weights, by its definition."""
    squares = ((y[:, None] - means) ** 2).sum(axis=-1)
    logs = -0.5 * (squares / variances + means.shape[1] * np.log(2 * np.pi * variances)) - np.log(len(means))
    return np.logaddexp.reduce(logs, axis=1)


def entropy(means: np.ndarray, variances: np.ndarray, count: int = 100_000) -> tuple[float, float]:
    """The entropy by samples, and its standard error."""
    rng = np.random.default_rng(0)
    part = rng.integers(len(means), size=count)
    y = means[part] + np.sqrt(variances[part])[:, None] * rng.normal(size=(count, means.shape[1]))
    logs = -log_mixture(y, means, variances)
    return float(logs.mean()), float(logs.std() / np.sqrt(count))


def printed_objective_part(means: np.ndarray, variances: np.ndarray) -> float:
    """The entropy part of (4.14) as it is printed: + (1/N) sum_n (1/N) sum_j N, without the logarithm."""
    total = variances[:, None] + variances
    squares = ((means[:, None] - means) ** 2).sum(axis=-1)
    density = np.exp(-0.5 * squares / total) / (2 * np.pi * total) ** (means.shape[1] / 2)
    return float(density.mean())


@pytest.mark.parametrize(("components", "dimension"), [(1, 1), (2, 1), (5, 3), (8, 2)])
def test_the_bound_lies_below_the_entropy_and_the_printed_formula_does_not_follow_it(components, dimension):
    gaps = []
    for seed in range(4):
        means, variances = mixture(components, dimension, seed)
        truth, error = entropy(means, variances)
        bound = entropy_bound(means, variances)[0]
        assert bound <= truth + 4 * error
        # The loss is at most that of one component, and the label's share.
        assert bound >= truth - 0.5 * dimension * (1 - np.log(2)) - np.log(components) - 4 * error
        wide = printed_objective_part(means, 100 * variances)
        gaps.append(wide - printed_objective_part(means, variances))
    # Entropy grows with the variances; the printed term falls, so that it would make components collapse.
    assert max(gaps) < 0 < entropy_bound(means, 100 * variances)[0] - entropy_bound(means, variances)[0]


def test_a_single_component_loses_a_known_amount():
    bound = entropy_bound(np.zeros((1, 4)), np.full(1, 2.5))[0]
    truth = 2 * np.log(2 * np.pi * np.e * 2.5)
    assert bound == pytest.approx(truth - 2 * (1 - np.log(2)))


def test_derivatives_of_the_bound_are_finite_differences():
    means, variances = mixture(4, 3, 1)
    _, by_mean, by_variance = entropy_bound(means, variances)
    step = 1e-6
    for n in range(4):
        moved = variances.copy()
        moved[n] += step
        slope = (entropy_bound(means, moved)[0] - entropy_bound(means, variances)[0]) / step
        assert slope == pytest.approx(by_variance[n], abs=1e-5)
        for d in range(3):
            up, down = means.copy(), means.copy()
            up[n, d] += step
            down[n, d] -= step
            slope = (entropy_bound(up, variances)[0] - entropy_bound(down, variances)[0]) / (2 * step)
            assert slope == pytest.approx(by_mean[n, d], abs=1e-7)


def test_traces_of_hessians_are_finite_differences():
    model = hybrid_zoo.laplace_chain()
    shape = LocalShape(LogDensity.of(model.to_factor_graph()))
    point = np.array([[0.3, 1.9, -0.7], [2.0, 0.1, 1.0]])
    step, total = 1e-4, np.zeros(2)
    for d in range(3):
        move = step * np.eye(3)[d]
        total += (shape.slopes(point + move)[1] - shape.slopes(point - move)[1])[:, d] / (2 * step)
    np.testing.assert_allclose(shape.traces(point), total, atol=1e-4)
    values = {f"x{i}": point[:, i] for i in range(3)}
    np.testing.assert_allclose(shape.slopes(point)[0], model.to_factor_graph().log_scores(values))


def test_converged_means_that_the_slopes_vanish():
    x = credo.Variable("x", credo.Real())
    two = credo.HybridNet([x], [credo.potentials.gaussian_mixture(x, [0.5, 0.5], [-3.0, 3.0], [1.0, 1.0])])
    for model in (hybrid_zoo.gaussian_loop(), two):
        found = credo.infer(model, "nonparametric-vi(components=3)", seed=0)
        assert found.status is Status.CONVERGED and found.trace["residual"][-1] < 1e-8
        assert found.trace["log_z"][-1] == pytest.approx(found.log_z.value, abs=1e-6)


def test_one_component_on_a_gaussian_model_has_a_closed_form():
    net = hybrid_zoo.gaussian_loop()
    result = credo.infer(net, "nonparametric-vi(components=1)", seed=0)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose([result.marginals[n].mean for n in net.names], net.mean, atol=1e-4)
    # The best isotropic variance is one over the mean precision.
    n, mean_precision = len(net.names), np.trace(net.precision) / 5
    assert result.marginals["x0"].variance == pytest.approx(1 / mean_precision, rel=1e-4)
    value = 0.5 * net.shift @ net.mean - n / 2 + n / 2 * np.log(4 * np.pi / mean_precision)
    assert result.log_z.value == pytest.approx(value, abs=1e-6)


def test_more_components_fit_a_gaussian_model_better_and_never_above():
    net = hybrid_zoo.gaussian_loop()
    found = [credo.infer(net, f"nonparametric-vi(components={k})", seed=0) for k in (1, 3, 8)]
    values = [r.log_z.value for r in found]
    assert {r.log_z.kind for r in found} == {"lower"}
    assert values[0] < values[1] < values[2] < net.log_z
    again = credo.infer(net, "nonparametric-vi(components=3)", seed=0)
    assert again.log_z == found[1].log_z


def test_two_modes_are_both_found():
    x = hybrid_zoo.real("x")
    model = credo.HybridNet([x], [potentials.gaussian_mixture(x, [0.5, 0.5], [-3.0, 3.0], [1.0, 0.5])])
    result = credo.infer(model, "nonparametric-vi(components=2)", seed=3)
    order = np.argsort(result.marginals["x"].means)
    np.testing.assert_allclose(result.marginals["x"].means[order], [-3, 3], atol=1e-2)
    np.testing.assert_allclose(result.marginals["x"].sds[order] ** 2, [1.0, 0.5], rtol=1e-2)
    assert result.log_z.kind == "estimate"
    # Both entropies are bounded with the loss of a single component.
    assert result.log_z.value == pytest.approx(-0.5 * (1 - np.log(2)), abs=1e-2)
    rows = credo.sample(model, 2000, method="nonparametric-vi(components=2)", seed=3).column("x")
    assert rows.var() == pytest.approx(result.marginals["x"].variance, rel=0.1)


def test_evidence_and_warm_starts():
    net = hybrid_zoo.gaussian_loop()
    evidence = {n: 0.5 for n in net.names[1:]}
    result = credo.infer(net, "nonparametric-vi(components=1)", evidence=evidence, seed=0)
    assert result.marginals["x0"].mean == pytest.approx(
        net.shift[0] - 0.5 * net.precision[0, 1:].sum(), abs=1e-4
    )
    warm = credo.infer(net, "nonparametric-vi(components=1)", evidence=evidence, warm_start=result)
    assert len(warm.trace["change"]) <= len(result.trace["change"])
    with pytest.raises(QueryError, match="warm_start: expected the result of nonparametric-vi"):
        credo.infer(net, "nonparametric-vi", warm_start=result)
    everything = credo.infer(net, "nonparametric-vi", evidence={n: 0.5 for n in net.names})
    score = net.to_factor_graph().log_score({n: 0.5 for n in net.names})
    assert everything.log_z.value == pytest.approx(score) and everything.log_z.kind == "exact"


def test_a_density_without_curvature_is_reported():
    x = hybrid_zoo.real("x")
    with pytest.warns(ConvergenceWarning, match="nonparametric-vi"):
        result = credo.infer(
            credo.HybridNet([x], [potentials.laplace(x)]), "nonparametric-vi(components=1)", seed=0
        )
    assert result.status is Status.DIVERGED and result.log_z is None
    assert "grows without limit" in result.notes[0]


def test_refusals():
    net = hybrid_zoo.gaussian_loop()
    with pytest.raises(OptionError, match="components must be at least 1, got 0"):
        credo.infer(net, "nonparametric-vi(components=0)")
    with pytest.raises(UnsupportedError, match="positive and interval variables, and 's' is discrete"):
        credo.infer(hybrid_zoo.switching(), "nonparametric-vi")
    with pytest.raises(
        UnsupportedError, match=r"positive and interval variables, and 'theta' is continuous .simplex."
    ):
        credo.infer(hybrid_zoo.topics(), "nonparametric-vi", evidence={f"z{i}": 0 for i in range(4)})
    with pytest.raises(UnsupportedError, match="the question asks for MAP"):
        credo.infer(net, "nonparametric-vi", maximise="all")
    x = hybrid_zoo.real("x")
    half = credo.DensityFactor([x], lambda v: jnp.where(v > 0, -(v**2), -jnp.inf))
    with pytest.raises(UnsupportedError, match="a factor is zero where components have weight"):
        credo.infer(credo.HybridNet([x], [half]), "nonparametric-vi", seed=0)


@pytest.mark.parametrize("call", [1, 40])
def test_ctrl_c_returns_the_last_round_and_its_bound(monkeypatch, call):
    from credo.inference.variational import nonparametric_vi as module

    calls, real = itertools.count(1), module.entropy_bound

    def interrupted(*arguments):
        if next(calls) == call + 1:  # the first is the start
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "entropy_bound", interrupted)
    net = hybrid_zoo.gaussian_loop()
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(net, "nonparametric-vi", seed=0)
    assert found.status is Status.INTERRUPTED
    assert found.log_z.kind == "lower" and found.log_z.value <= credo.infer(net).log_z.value
