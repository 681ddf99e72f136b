"""Mean field with real variables: closed forms, bounds, monotony, quadrature, zeros, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import credo
import hybrid_zoo
from credo import potentials
from credo.core.errors import ConvergenceWarning, OptionError, QueryError, UnsupportedError
from credo.core.result import Status


def test_converged_means_that_the_slope_of_the_bound_vanishes():
    x, y = credo.Variable("x", credo.Real()), credo.Variable("y", credo.Real())
    pair = credo.DensityFactor([x, y], lambda x, y: -0.25 * (x - y) ** 4 - 0.5 * (x - 1) ** 2)
    found = credo.infer(credo.HybridNet([x, y], [pair]), "mean-field", seed=0, tol=1e-7)
    m = {name: found.marginals[name].mean for name in "xy"}
    v = {name: found.marginals[name].variance for name in "xy"}
    gap, spread = m["x"] - m["y"], v["x"] + v["y"]
    slope = gap**3 + 3 * gap * spread  # of -E[(x - y)^4] / 4 by the mean of y
    assert abs(slope) * np.sqrt(v["y"]) < 1e-6
    assert v["y"] == pytest.approx(1 / (3 * gap**2 + 3 * spread), rel=1e-5)
    np.testing.assert_array_equal(found.trace["log_z"], -found.trace["free_energy"])


def test_a_belief_that_no_step_improves_is_stalled(monkeypatch):
    from credo.inference.variational import hybrid_mean_field

    monkeypatch.setattr(hybrid_mean_field.Sweeper, "sweep", lambda sweeper, beliefs, orders: (beliefs, 0.1))
    with pytest.warns(ConvergenceWarning, match="mean-field: no step improves any more"):
        found = credo.infer(hybrid_zoo.gaussian_loop(), "mean-field", seed=0)
    assert found.status is Status.STALLED and len(found.trace["change"]) == 1


@pytest.mark.parametrize("spec", ["mean-field", "mean-field(order=random, restarts=2)"])
def test_gaussian_models_have_exact_means_and_the_closed_form_of_the_bound(spec: str):
    net = hybrid_zoo.gaussian_loop()
    result = credo.infer(net, spec, seed=0)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose([result.marginals[n].mean for n in net.names], net.mean, atol=1e-7)
    variances = [result.marginals[n].variance for n in net.names]
    np.testing.assert_allclose(variances, 1 / np.diag(net.precision), rtol=1e-10)
    value = 0.5 * net.shift @ net.mean + 0.5 * np.log(2 * np.pi / np.diag(net.precision)).sum()
    assert result.log_z.value == pytest.approx(value, abs=1e-9)
    assert result.log_z.kind == "lower" and result.log_z.value < net.log_z
    assert (np.diff(result.trace["free_energy"]) < 1e-10).all()


def _fixed_point(result, model: credo.HybridNet) -> dict[str, tuple[float, float]]:
    """What each belief should be, given the others, by dense grids: nothing of the algorithm is used."""
    graph = model.to_factor_graph()
    points = np.linspace(-12, 12, 481)
    beliefs, axes = {}, {}
    for v in graph.variables:
        b = result.marginals[v.name]
        axes[v.name] = np.arange(v.size) if v.is_discrete else points
        beliefs[v.name] = b if v.is_discrete else b.density(points) * (points[1] - points[0])
    found = {}
    for v in graph.variables:
        total = np.zeros(len(axes[v.name]))
        for factor in graph.factors:
            if v not in factor.scope:
                continue
            mesh = np.meshgrid(*(axes[n] for n in factor.names), indexing="ij", sparse=True)
            logs = np.asarray(factor.log_values(*mesh))
            for k in reversed(range(len(factor.scope))):
                if factor.names[k] != v.name:
                    logs = np.moveaxis(logs, k, -1) @ beliefs[factor.names[k]]
            total += logs
        found[v.name] = total
    return found


def test_a_hybrid_model_ends_at_a_fixed_point_below_log_z():
    model = hybrid_zoo.switching_loop()
    result = credo.infer(model, "mean-field(restarts=3)", seed=0)
    assert result.status is Status.CONVERGED
    assert result.log_z.kind == "estimate" and result.log_z.value < hybrid_zoo.truth(model).log_z
    assert (np.diff(result.trace["free_energy"]) < 1e-3).all()
    points = np.linspace(-12, 12, 481)
    for name, logs in _fixed_point(result, model).items():
        belief = result.marginals[name]
        if isinstance(belief, np.ndarray):
            p = np.exp(logs - logs.max())
            np.testing.assert_allclose(belief, p / p.sum(), atol=2e-3)
            continue
        # Stationary points of E[f] + log sd over Gaussians: E[f'] = 0 and E[f''] = -1 / variance.
        slope, bend = np.gradient(logs, points), np.gradient(np.gradient(logs, points), points)
        weight = belief.density(points) * (points[1] - points[0])
        assert weight @ slope == pytest.approx(0, abs=0.02)
        assert weight @ bend == pytest.approx(-1 / belief.variance, rel=0.02)


def test_the_value_is_the_bound_of_the_beliefs_by_dense_integration():
    model = hybrid_zoo.bimodal_cycle()
    result = credo.infer(model, "mean-field", seed=0)
    points = np.linspace(-30, 30, 1201)
    weights = {n: result.marginals[n].density(points) * (points[1] - points[0]) for n in ("x0", "x1", "x2")}
    value = sum(0.5 * np.log(2 * np.pi * np.e * result.marginals[n].variance) for n in weights)
    for factor in model.factors:
        logs = factor.log_values(*np.meshgrid(*[points] * len(factor.scope), indexing="ij", sparse=True))
        for name in reversed(factor.names):
            logs = logs @ weights[name]
        value += float(logs)
    assert result.log_z.value == pytest.approx(value, abs=0.01)
    assert value < -16.1737  # log Z
    assert "41 points" in result.notes[0]


def test_variables_that_evidence_makes_independent_are_exact():
    net = hybrid_zoo.gaussian_loop()
    evidence = {"x0": 0.0, "x1": 1.0, "x3": -1.0}
    result = credo.infer(net, "mean-field", evidence=evidence, seed=0)
    free, seen, values = [2, 4], [0, 1, 3], np.array([0.0, 1.0, -1.0])
    J, h = net.precision, net.shift
    shift = h[free] - J[np.ix_(free, seen)] @ values
    mean = shift / np.diag(J)[free]
    np.testing.assert_allclose([result.marginals[net.names[i]].mean for i in free], mean, atol=1e-10)
    constant = h[seen] @ values - 0.5 * values @ J[np.ix_(seen, seen)] @ values
    exact = constant + 0.5 * (shift @ mean + np.log(2 * np.pi / np.diag(J)[free]).sum())
    assert result.log_z.value == pytest.approx(exact, abs=1e-10) and result.log_z.kind == "lower"
    assert result.marginals["x1"].mean == 1.0


def test_warm_starts_and_seeds():
    net = hybrid_zoo.gaussian_loop()
    result = credo.infer(net, "mean-field", seed=0)
    warm = credo.infer(net, "mean-field", warm_start=result)
    assert len(warm.trace["change"]) < len(result.trace["change"])
    assert credo.infer(net, "mean-field", seed=0).log_z == result.log_z
    with pytest.raises(QueryError, match="warm_start: expected the result of mean-field on this model"):
        credo.infer(net, "mean-field", evidence={"x0": 0.0}, warm_start=result)


def test_a_hybrid_net_of_tables_is_the_discrete_method():
    a, b = credo.Variable("a", 2), credo.Variable("b", 3)
    tables = [credo.TableFactor([a, b], [[1, 2, 3], [3, 0, 1]]), credo.TableFactor([a], [1, 2])]
    one = credo.infer(credo.HybridNet([a, b], tables), "mean-field", seed=0)
    other = credo.infer(credo.FactorGraph([a, b], tables), "mean-field", seed=0)
    assert one.log_z == other.log_z and one.log_z.kind == "lower"
    np.testing.assert_array_equal(one.marginals.flat, other.marginals.flat)


def test_zeros_of_tables_are_avoided_and_those_of_densities_refused():
    s, t, x = credo.Variable("s", 2), credo.Variable("t", 2), hybrid_zoo.real("x")
    factors = [credo.TableFactor([s, t], [[0, 1], [1, 0]]), potentials.emission(x, s, [-1.0, 1.0], 1.0)]
    model = credo.HybridNet([s, t, x], factors)
    result = credo.infer(model, "mean-field(nodes=5)", seed=0)
    assert result.log_z.value == pytest.approx(0.0, abs=1e-8)  # one of two equal halves, each of weight one
    assert result.marginals["s"] @ result.marginals["t"] == 0

    def half_line(values):
        return np.where(np.asarray(values) > 0, 0.0, -np.inf)

    bounded = credo.HybridNet([x], [potentials.gaussian(x), credo.DensityFactor([x], half_line)])
    with pytest.raises(UnsupportedError, match=r"the factor over \['x'\] is zero where beliefs have weight"):
        credo.infer(bounded, "mean-field", seed=0)


def test_tails_too_heavy_for_a_gaussian_are_reported():
    x = hybrid_zoo.real("x")
    flat = credo.HybridNet([x], [potentials.student(x, freedom=1e-6)])
    with pytest.warns(ConvergenceWarning, match="mean-field"):
        result = credo.infer(flat, "mean-field", seed=0)
    assert result.status is Status.DIVERGED
    assert "the variance of ['x'] grows without limit" in result.notes[-1]


def test_refusals():
    net = hybrid_zoo.gaussian_loop()
    with pytest.raises(
        UnsupportedError,
        match=r"mean-field cannot treat this problem: it gives marginals and log Z, and .* asks for MAP",
    ):
        credo.infer(net, "mean-field", maximise="all")
    with pytest.raises(UnsupportedError, match="the question asks for samples"):
        credo.sample(net, 3, method="mean-field")
    with pytest.raises(UnsupportedError, match=r"it works on .*, and 'theta' is continuous .simplex."):
        credo.infer(hybrid_zoo.topics(), "mean-field")
    with pytest.raises(OptionError, match="nodes must be at least 2, got 1"):
        credo.infer(net, "mean-field(nodes=1)")
    wide = [hybrid_zoo.real(f"x{i}") for i in range(6)]
    joint = credo.HybridNet(wide, [credo.DensityFactor(wide, lambda *x: -(sum(x) ** 2))])
    with pytest.raises(UnsupportedError, match=r"would be evaluated at 6\.4e\+07 points; lower nodes"):
        credo.infer(joint, "mean-field")
    with pytest.raises(UnsupportedError, match=r"bp cannot treat this problem.*use .*'mean-field'"):
        credo.infer(net, "bp")
