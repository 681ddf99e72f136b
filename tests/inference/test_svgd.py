"""SVGD: the direction against a plain double loop, fixed points, moments of Gaussian targets, refusals."""

from __future__ import annotations

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
import hybrid_zoo
from credo import potentials
from credo.core.errors import ConvergenceWarning, OptionError, QueryError, UnsupportedError
from credo.core.log_density import LogDensity, log_density
from credo.core.result import Status
from credo.inference.variational import stein


def slow_direction(x, slope, sets, widths) -> np.ndarray:
    """phi_i(x_a) = mean_b k_i(x_b, x_a) slope_bi + d k_i(x_b, x_a) / d x_bi, by loops."""
    phi = np.zeros_like(x)
    for i, (inside, width) in enumerate(zip(sets, widths, strict=True)):
        for a in range(len(x)):
            for b in range(len(x)):
                k = np.exp(-((x[b, inside] - x[a, inside]) ** 2).sum() / (2 * width))
                phi[a, i] += k * slope[b, i] - (x[b, i] - x[a, i]) / width * k
    return phi / len(x)


@pytest.mark.parametrize("seen", ["joint", "messages", "coordinate"])
def test_the_direction_is_that_of_a_double_loop(seen: str):
    graph = hybrid_zoo.gaussian_loop(4).to_factor_graph()
    rng = np.random.default_rng(0)
    x, slope = rng.normal(size=(6, 4)), rng.normal(size=(6, 4))
    near = stein.blankets(LogDensity.of(graph), seen)
    widths = np.full(4, 0.7) if seen == "joint" else np.array([0.4, 0.7, 1.0, 1.3])
    with jax.enable_x64(True):
        near = None if near is None else tuple(map(jax.numpy.asarray, near))
        found, kernel = stein.direction(jax.numpy.asarray(x), slope, near, 0.7 if near is None else widths)
    cycle = [[0, 1, 3], [0, 1, 2], [1, 2, 3], [0, 2, 3]]
    sets = {"joint": [[0, 1, 2, 3]] * 4, "messages": cycle, "coordinate": [[0], [1], [2], [3]]}[seen]
    np.testing.assert_allclose(found, slow_direction(x, slope, sets, widths), rtol=1e-12)
    assert (np.asarray(kernel) > 0).all()


def test_a_message_needs_only_the_factors_around_its_variable():
    """Changing a factor out of reach, with the gradient it causes, changes nothing."""
    net = hybrid_zoo.gaussian_tree(6)
    density = LogDensity.of(net.to_factor_graph())
    at, is_meant = stein.blankets(density, "messages")
    for i in range(6):
        inside = set(at[i][is_meant[i] > 0].tolist())
        assert inside == {i, *np.flatnonzero(net.precision[i]).tolist()}


def test_the_density_of_logits_has_the_jacobian():
    theta, x = credo.Variable("theta", credo.Simplex(3)), hybrid_zoo.real("x")
    graph = credo.HybridNet(
        [theta, x], [potentials.dirichlet(theta, [4.0, 2.0, 3.0]), potentials.gaussian(x, 1.0, 2.0)]
    ).to_factor_graph()
    density = LogDensity.of(graph)
    u = np.array([0.3, -0.8, 1.7])
    values = density.values(u)
    np.testing.assert_allclose(density.flatten(values), u)
    step = 1e-6
    shares = [density.values(u + step * e)["theta"][:2] for e in np.eye(3)[:2]]
    jacobian = np.linalg.slogdet((np.array(shares) - values["theta"][:2]) / step)[1]
    with jax.enable_x64(True):
        found = float(log_density(jax.numpy.asarray(u), density.arrays, density.shape))
    assert found == pytest.approx(graph.log_score(values) + jacobian, abs=1e-5)


def test_one_particle_climbs_to_the_mode():
    net = hybrid_zoo.gaussian_loop()
    result = credo.infer(net, "svgd(particles=1, stop=1e-9)", seed=0, max_iter=2000)
    np.testing.assert_allclose([result.marginals[n].mean for n in net.names], net.mean, atol=1e-3)


def test_a_run_has_converged_where_the_direction_vanishes_whatever_the_rate():
    net = hybrid_zoo.gaussian_loop()
    found = credo.infer(net, "svgd", seed=0)
    assert found.status is Status.CONVERGED and found.trace["change"][-1] < 1e-3
    assert len(found.trace["energy"]) == len(found.trace["change"])
    assert found.trace["energy"][-1] < found.trace["energy"][0]
    with pytest.warns(ConvergenceWarning, match="svgd: max_iter was reached"):
        slow = credo.infer(net, "svgd(rate=1e-6)", seed=0, max_iter=50)  # steps are tiny, the way is long
    assert slow.trace["change"][-1] > 0.1


@pytest.mark.parametrize(
    "spec", ["svgd", "svgd(form=messages, stop=0.05)", "svgd(kernel=coordinate)", "svgd(bandwidth=1.0)"]
)
def test_particles_have_the_means_of_a_gaussian_model(spec: str):
    net = hybrid_zoo.gaussian_loop()
    result = credo.infer(net, spec, seed=0)
    assert result.status is Status.CONVERGED
    assert result.log_z is None and len(result.samples) == 100
    found = np.array([result.marginals[n].mean for n in net.names])
    np.testing.assert_allclose(found, net.mean, atol=0.06)
    spread = np.array([result.marginals[n].variance for n in net.names])
    assert (spread > 0.6 * np.diag(net.covariance)).all() and (spread < 1.2 * np.diag(net.covariance)).all()


def test_messages_keep_particles_apart_where_the_joint_kernel_lets_them_collapse():
    chain = np.eye(20) + 0.3 * (np.eye(20, k=1) + np.eye(20, k=-1))
    net = credo.GaussianNet(chain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        joint, messages = (
            np.mean(
                [credo.infer(net, spec, seed=0, max_iter=300).marginals[n].variance for n in net.names[:1]]
            )
            for spec in ("svgd(particles=40)", "svgd(particles=40, form=messages)")
        )
    truth = net.covariance[0, 0]
    assert joint < 0.6 * truth < 0.75 * truth < messages


def test_a_share_is_moved_by_its_logits():
    theta = credo.Variable("theta", credo.Simplex(3))
    net = credo.HybridNet([theta], [potentials.dirichlet(theta, [4.0, 2.0, 3.0])])
    result = credo.infer(net, "svgd", seed=0)
    np.testing.assert_allclose(result.marginals["theta"].mean, np.array([4, 2, 3]) / 9, atol=0.02)
    np.testing.assert_allclose(result.samples.column("theta").sum(axis=1), 1)


def test_particles_go_on_from_an_earlier_run_and_follow_the_seed():
    net = hybrid_zoo.gaussian_loop()
    first, again = (credo.infer(net, "svgd", seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.samples.column("x0"), again.samples.column("x0"))
    warm = credo.infer(net, "svgd", warm_start=first, seed=4)
    assert len(warm.trace["change"]) <= len(first.trace["change"])
    with pytest.raises(QueryError, match="warm_start: expected the result of svgd with 50 particles"):
        credo.infer(net, "svgd(particles=50)", warm_start=first)
    assert credo.sample(net, 12, method="svgd", seed=0).column("x1").shape == (12,)


def test_observed_variables_are_left_out():
    net = hybrid_zoo.gaussian_loop()
    result = credo.infer(net, "svgd", evidence={n: 0.5 for n in net.names[1:]}, seed=0)
    expected = net.shift[0] - 0.5 * net.precision[0, 1:].sum()
    assert result.marginals["x0"].mean == pytest.approx(expected, abs=0.02)
    assert result.marginals["x0"].variance == pytest.approx(1.0, abs=0.15)
    everything = credo.infer(net, "svgd", evidence={n: 0.5 for n in net.names}, seed=0)
    assert everything.converged


def test_refusals():
    net = hybrid_zoo.gaussian_loop()
    with pytest.raises(OptionError, match="form=messages with kernel=coordinate"):
        credo.infer(net, "svgd(form=messages, kernel=coordinate)")
    with pytest.raises(OptionError, match="bandwidth must be positive, got 0"):
        credo.infer(net, "svgd(bandwidth=0)")
    with pytest.raises(UnsupportedError, match="interval and simplex variables, and 's' is discrete"):
        credo.infer(hybrid_zoo.switching(), "svgd")
    with pytest.raises(UnsupportedError, match="the question asks for MAP"):
        credo.infer(net, "svgd", maximise="all")


def test_particles_that_run_away_are_reported():
    x = hybrid_zoo.real("x")
    explosive = credo.HybridNet([x], [credo.GaussianFactor([x], [[1.0]])])
    with pytest.warns(ConvergenceWarning, match="svgd"):
        result = credo.infer(explosive, "svgd(rate=1e300)", seed=0, max_iter=50)
    assert result.status is Status.DIVERGED and np.isfinite(result.marginals["x"].mean)


def test_particles_where_a_factor_is_zero_are_no_success():
    def half(values):
        return jnp.where(values > 0, -(values**2), -jnp.inf)

    x = hybrid_zoo.real("x")
    with pytest.warns(ConvergenceWarning, match="svgd"):
        result = credo.infer(credo.HybridNet([x], [credo.DensityFactor([x], half)]), "svgd", seed=0)
    assert not result.converged and "particles lie where a factor is zero" in result.notes[0]


@pytest.mark.parametrize("call", [1, 3])
def test_ctrl_c_leaves_the_particles_of_the_last_chunk(monkeypatch, call):
    calls, real = itertools.count(1), stein._STEPS

    def interrupted(*arguments, **options):
        if next(calls) == call:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(stein, "_STEPS", interrupted)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(hybrid_zoo.gaussian_tree(), "svgd(particles=10, stop=0)", seed=0)
    assert found.status is Status.INTERRUPTED and len(found.trace["change"]) == 25 * (call - 1)
