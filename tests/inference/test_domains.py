"""Inference on positive numbers, intervals and vectors, against known moments and linear algebra."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, stats

import credo
from credo import DensityFactor, FactorGraph, GaussianFactor, Interval, Positive, Real, TableFactor, Variable
from credo.core.bijections import Bijection, register_bijection
from credo.core.density import namespace
from credo.core.domain import Continuous
from credo.core.errors import ModelError, UnsupportedError
from credo.core.free import FreeGraph
from credo.core.linear_gaussian import LinearGaussianFactor
from credo.families.mapped import MappedDensity, VectorMixtureDensity, VectorParticleDensity
from credo.inference.problem.starting_places import starting_places

pytestmark = pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")


def exponential(x):
    return -x


def beta(x):
    xp = namespace(x)
    return xp.log(x) + 3 * xp.log(1 - x)


def log_normal(x):
    logs = namespace(x).log(x)
    return -logs - 0.5 * ((logs - 0.5) / 0.6) ** 2


def gaussian(x):
    return -0.5 * ((x - 1.5) / 0.5) ** 2


MODELS = {
    "exponential": (Positive(), exponential, stats.expon(), 0.0),
    "beta": (Interval(0, 1), beta, stats.beta(2, 4), float(np.log(1 / 20))),
    "log-normal": (
        Positive(),
        log_normal,
        stats.lognorm(0.6, scale=np.exp(0.5)),
        np.log(0.6 * np.sqrt(2 * np.pi)),
    ),
    "truncated": (
        Interval(-1, 2),
        gaussian,
        stats.truncnorm(-5, 1, 1.5, 0.5),
        np.log(0.5 * np.sqrt(2 * np.pi) * (stats.norm.cdf(1) - stats.norm.cdf(-5))),
    ),
}
TOGETHER = FactorGraph(
    [Variable(name, domain) for name, (domain, *_) in MODELS.items()],
    [DensityFactor([Variable(name, domain)], function) for name, (domain, function, *_) in MODELS.items()],
)


@pytest.mark.parametrize(
    "method", [pytest.param("nuts", marks=pytest.mark.slow), "hmc", "gibbs", "metropolis(draws=4000)"]
)
def test_samplers_have_the_moments_of_the_models(method):
    """Within four standard errors of the mean, told by the effective sample size."""
    found = credo.infer(TOGETHER, method, seed=1, max_iter=2000)
    assert found.converged
    for i, (name, (domain, _, truth, _)) in enumerate(MODELS.items()):
        density = found.marginals[name]
        error = truth.std() / np.sqrt(found.diagnostics["ess"][i])
        assert abs(density.mean - truth.mean()) < 4 * error, name
        assert density.sd == pytest.approx(truth.std(), rel=0.15)
        assert found.diagnostics["mcse"][i] == pytest.approx(error, rel=0.3)
        for value in found.samples[name][:50]:
            domain.value(value)


def test_svgd_is_near():
    found = credo.infer(TOGETHER, "svgd(particles=60)", seed=0, max_iter=1500)
    for name, (_, _, truth, _) in MODELS.items():
        assert found.marginals[name].mean == pytest.approx(truth.mean(), abs=0.1 * truth.std() + 0.02), name


@pytest.mark.parametrize("method", ["grid-bp", "particle-bp", "ep-particle-bp"])
def test_messages_have_moments_and_integrals(method):
    found = credo.infer(TOGETHER, method, seed=0)
    assert found.log_z.value == pytest.approx(sum(z for *_, z in MODELS.values()), abs=2e-3)
    for name, (_, _, truth, _) in MODELS.items():
        assert found.marginals[name].mean == pytest.approx(truth.mean(), rel=2e-3), name
        assert found.marginals[name].sd == pytest.approx(truth.std(), rel=1e-2), name


@pytest.mark.parametrize("options", ["", "(sites=block)"])
def test_ep_has_the_moments_of_values_and_not_those_of_mapped_coordinates(options):
    """One factor per variable is its tilted distribution; the Gaussian of log x alone has the mean 1.28."""
    found = credo.infer(TOGETHER, f"ep{options}")
    assert found.converged
    assert found.log_z.value == pytest.approx(sum(z for *_, z in MODELS.values()), abs=1e-8)
    for name, (_, _, truth, _) in MODELS.items():
        assert found.marginals[name].mean == pytest.approx(truth.mean(), rel=1e-5), name
        assert found.marginals[name].sd == pytest.approx(truth.std(), rel=1e-4), name


def test_ep_marginals_of_several_factors_per_number_are_their_product():
    """Waiting times at an unknown rate: the posterior is a gamma distribution."""
    rate, times = Variable("rate", Positive()), [0.5, 2.0, 0.3]

    def waited(x, t):
        return namespace(x).log(x) - x * t

    prior = DensityFactor([rate], exponential)
    seen = [DensityFactor([rate], waited, t) for t in times]
    found = credo.infer(FactorGraph([rate], [prior, *seen]), "ep")
    truth = stats.gamma(1 + len(times), scale=1 / (1 + sum(times)))
    assert found.marginals["rate"].mean == pytest.approx(truth.mean(), rel=1e-5)
    assert found.marginals["rate"].sd == pytest.approx(truth.std(), rel=1e-4)
    x = truth.ppf([0.1, 0.5, 0.9])
    np.testing.assert_allclose(found.marginals["rate"].density(x), truth.pdf(x), rtol=1e-2)


def test_ep_counts_states_next_to_positive_numbers():
    found = credo.infer(WAIT, "ep")
    weights = np.array([0.3, 0.35])
    assert found.log_z.value == pytest.approx(np.log(weights.sum()), abs=1e-8)
    np.testing.assert_allclose(found.marginals["s"], weights / weights.sum(), atol=1e-8)
    assert found.marginals["x"].mean == pytest.approx(weights @ [1.0, 0.5] / weights.sum(), rel=1e-5)


def test_bethe_is_near_and_stays_below_the_integral():
    found = credo.infer(TOGETHER, "bethe", seed=0)
    truth = sum(z for *_, z in MODELS.values())
    assert found.log_z.kind == "lower" and truth - 0.15 < found.log_z.value < truth
    for name, (_, _, law, _) in MODELS.items():
        assert found.marginals[name].mean == pytest.approx(law.mean(), abs=0.1 * law.std()), name


def test_bethe_maximises_values_and_not_coordinates():
    x = Variable("x", Positive())
    best = credo.infer(FactorGraph([x], [DensityFactor([x], log_normal)]), "bethe", maximise="all", seed=0)
    assert best.assignment["x"] == pytest.approx(np.exp(0.5 - 0.36), rel=0.05)
    assert best.score.value == pytest.approx(log_normal(np.array(best.assignment["x"])), abs=1e-9)


def test_mean_field_and_mixtures_stay_below_the_integral():
    truth = sum(z for *_, z in MODELS.values())
    for method in ("mean-field", "nonparametric-vi"):
        found = credo.infer(TOGETHER, method, seed=0, max_iter=300)
        assert truth - 1.0 < found.log_z.value < truth + 0.05
        assert found.marginals["truncated"].mean == pytest.approx(MODELS["truncated"][2].mean(), abs=0.1)


@pytest.mark.parametrize("name", MODELS)
def test_densities_of_marginals_are_those_of_values(name):
    domain, _, truth, _ = MODELS[name]
    density = credo.infer(TOGETHER, "grid-bp").marginals[name]
    assert isinstance(density, MappedDensity)
    x = truth.ppf(np.linspace(0.05, 0.95, 19))
    np.testing.assert_allclose(density.density(x), truth.pdf(x), rtol=0.05)
    grid = density.curve_points(2001)
    assert np.trapezoid(density.density(grid), grid) == pytest.approx(1.0, abs=0.01)
    outside = (
        np.array([-2.0]) if isinstance(domain, Positive) else np.array([domain.low - 1, domain.high, 9.0])
    )
    assert (density.density(outside) == 0).all()
    draws = density.sample(4000, np.random.default_rng(0))
    assert draws.mean() == pytest.approx(truth.mean(), abs=5 * truth.std() / np.sqrt(4000))


def test_modes_are_those_of_values_and_not_of_coordinates():
    marginals = credo.infer(TOGETHER, "grid-bp(points=800)").marginals
    assert marginals["beta"].mode == pytest.approx(0.25, abs=0.01)
    assert marginals["log-normal"].mode == pytest.approx(np.exp(0.5 - 0.36), rel=0.02)
    assert marginals["truncated"].mode == pytest.approx(1.5, abs=0.02)
    x = Variable("x", Positive())
    best = credo.infer(
        FactorGraph([x], [DensityFactor([x], log_normal)]), "grid-bp(points=800)", maximise="all"
    )
    assert best.assignment["x"] == pytest.approx(np.exp(0.5 - 0.36), rel=0.02)
    assert best.score.value == pytest.approx(log_normal(np.array(best.assignment["x"])), abs=1e-9)


def waiting(x, s):
    return -x * (1.0 + s)


X, S = Variable("x", Positive()), Variable("s", ["slow", "fast"])
WAIT = FactorGraph([X, S], [DensityFactor([X, S], waiting), TableFactor([S], [0.3, 0.7])])


def test_states_and_positive_numbers_together():
    weights = np.array([0.3, 0.35])
    found = credo.infer(WAIT)
    assert found.algorithm == "grid-bp" and "chosen: grid-bp" in found.notes[0]
    assert found.log_z.value == pytest.approx(np.log(weights.sum()), abs=1e-4)
    np.testing.assert_allclose(found.marginals["s"], weights / weights.sum(), atol=1e-4)
    assert found.marginals["x"].mean == pytest.approx(weights @ [1.0, 0.5] / weights.sum(), rel=1e-3)
    drawn = credo.infer(WAIT, "gibbs", seed=0)
    np.testing.assert_allclose(drawn.marginals["s"], weights / weights.sum(), atol=0.05)
    assert (credo.sample(WAIT, 20, seed=0)["x"] > 0).all()


def test_an_observed_positive_number_leaves_an_exact_model():
    found = credo.infer(WAIT, evidence={"x": 2.0})
    weights = np.array([0.3, 0.7]) * np.exp([-2.0, -4.0])
    assert found.algorithm == "junction-tree" and found.log_z.kind == "exact"
    assert found.log_z.value == pytest.approx(np.log(weights.sum()), abs=1e-12)
    np.testing.assert_allclose(found.marginals["s"], weights / weights.sum(), atol=1e-12)


@pytest.mark.parametrize("method", ["gibbs", "nuts", "grid-bp", "ep", "bethe"])
@pytest.mark.parametrize(
    ("domain", "function"),
    [
        (Positive(), lambda x: -namespace(x).log(x)),
        (Positive(), lambda x: 0 * x),
        (Interval(0, 1), lambda x: -namespace(x).log(1 - x)),
        (Interval(2, 5), lambda x: -1.5 * namespace(x).log(x - 2)),
    ],
)
def test_what_has_no_integral_towards_an_end_is_refused(method, domain, function):
    x = Variable("x", domain)
    with pytest.raises(
        ModelError, match="'x': the product of its factors does not fall towards an end of its"
    ):
        credo.infer(FactorGraph([x], [DensityFactor([x], function)]), method)


@pytest.mark.parametrize("method", [pytest.param("nuts", marks=pytest.mark.slow), "gibbs", "grid-bp"])
def test_a_density_may_be_infinite_at_the_ends(method):
    """The arcsine law, whose density is unbounded at both ends of its interval."""
    p = Variable("p", Interval(0, 1))

    def arcsine(x):
        xp = namespace(x)
        return -0.5 * xp.log(x) - 0.5 * xp.log(1 - x)

    found = credo.infer(FactorGraph([p], [DensityFactor([p], arcsine)]), method, seed=0).marginals["p"]
    assert found.mean == pytest.approx(0.5, abs=0.03) and found.sd == pytest.approx(np.sqrt(1 / 8), abs=0.02)


def logs(x):
    return namespace(x).log(x)


PAIR = [Variable("x", Positive()), Variable("y", Positive())]
PROPER_PAIRS = {
    "a ridge": lambda x, y: logs(x) - x - y - 0.5 * (x - y) ** 2,
    "one is confined by the other alone": lambda x, y: -x - 0.5 * (x - y) ** 2,
    "a ridge of unequal scales": lambda x, y: -x - 0.5 * (x - 100 * y) ** 2,
    "a ridge that falls like a power": lambda x, y: -2 * logs(1 + x + y) - 0.5 * (x - y) ** 2,
    "a ratio": lambda x, y: -x - 0.5 * (logs(x) - logs(y)) ** 2,
    "unbounded at zero": lambda x, y: -0.75 * logs(x) - 0.75 * logs(y) - x - y,
    "open": lambda x, y: -2.5 * logs(1 + x + y),
}
IMPROPER_PAIRS = {
    "a ridge": lambda x, y: -0.5 * (x - y) ** 2,
    "a ratio": lambda x, y: -0.5 * (logs(x) - logs(y)) ** 2,
    "a ridge that falls too slowly": lambda x, y: -logs(1 + x + y) - 0.5 * (x - y) ** 2,
    "open": lambda x, y: -1.5 * logs(1 + x + y),
    "unbounded at zero": lambda x, y: -2.2 * logs(x + y) - x - y,
}


@pytest.mark.parametrize("name", PROPER_PAIRS)
def test_pairs_of_positive_numbers_that_have_an_integral_are_taken(name):
    graph = FactorGraph(PAIR, [DensityFactor(PAIR, PROPER_PAIRS[name])])
    found = starting_places(FreeGraph.of(graph, np.ones(2)).graph)
    assert found.known.all() and (np.abs(found.centre) < 10).all()


@pytest.mark.parametrize("name", IMPROPER_PAIRS)
def test_pairs_of_positive_numbers_that_have_none_are_refused(name):
    graph = FactorGraph(PAIR, [DensityFactor(PAIR, IMPROPER_PAIRS[name])])
    with pytest.raises(ModelError, match=r"'x', 'y'.*does not fall when they move together towards infinity"):
        starting_places(FreeGraph.of(graph, np.ones(2)).graph)


@pytest.mark.parametrize("method", ["grid-bp", "ep", "bethe", "gibbs", "nuts"])
def test_a_ridge_of_two_positive_numbers_has_the_moments_of_quadrature(method):
    def density(y, x):
        return np.exp(PROPER_PAIRS["a ridge"](x, y))

    total = integrate.dblquad(density, 0, 40, 0, 40)[0]
    mean = integrate.dblquad(lambda y, x: x * density(y, x), 0, 40, 0, 40)[0] / total
    graph = FactorGraph(PAIR, [DensityFactor(PAIR, PROPER_PAIRS["a ridge"])])
    found = credo.infer(graph, method, seed=0)
    assert total == pytest.approx(0.5)
    assert found.marginals["x"].mean == pytest.approx(mean, abs=1e-4 if method in ("grid-bp", "ep") else 0.1)
    if found.log_z is not None:
        assert found.log_z.value == pytest.approx(np.log(total), abs=0.05 if method == "bethe" else 1e-5)


class TestVectors:
    @staticmethod
    def model(seed=0):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(5, 5))
        J, h = A @ A.T + np.eye(5), rng.normal(size=5)
        y, z, w = Variable("y", Real(2)), Variable("z", Real()), Variable("w", Real(2))
        return FactorGraph([y, z, w], [GaussianFactor([y, z, w], J, h)]), J, h

    def test_gaussian_marginals_of_vectors_are_joint(self):
        graph, J, h = self.model()
        found = credo.infer(graph)
        mean, covariance = np.linalg.solve(J, h), np.linalg.inv(J)
        assert found.algorithm == "gaussian" and found.log_z.kind == "exact"
        expected = 0.5 * (h @ mean + 5 * np.log(2 * np.pi) - np.linalg.slogdet(J)[1])
        assert found.log_z.value == pytest.approx(expected, abs=1e-10)
        for name, at in (("y", [0, 1]), ("w", [3, 4])):
            density = found.marginals[name]
            assert isinstance(density, VectorMixtureDensity)
            np.testing.assert_allclose(density.mean, mean[at], atol=1e-12)
            np.testing.assert_allclose(density.covariance, covariance[np.ix_(at, at)], atol=1e-12)
            truth = stats.multivariate_normal(mean[at], covariance[np.ix_(at, at)])
            assert density.log_density([0.3, -0.2]) == pytest.approx(truth.logpdf([0.3, -0.2]), abs=1e-10)
            np.testing.assert_allclose(density.mode, mean[at], atol=1e-8)
        best = credo.infer(graph, maximise="all").assignment
        np.testing.assert_allclose(best["y"], mean[:2], atol=1e-12)

    def test_conditioning_on_vectors_and_next_to_them(self):
        graph, J, h = self.model()
        seen = [3, 4, 2]
        x = np.array([0.5, -1.0, 0.3])
        found = credo.infer(graph, evidence={"w": x[:2], "z": 0.3})
        mean = np.linalg.solve(J[:2, :2], h[:2] - J[:2][:, seen] @ x)
        np.testing.assert_allclose(found.marginals["y"].mean, mean, atol=1e-12)
        np.testing.assert_allclose(found.marginals["w"].mean, x[:2])

    @pytest.mark.parametrize("method", [pytest.param("nuts", marks=pytest.mark.slow), "gibbs", "svgd"])
    def test_samplers_give_joint_draws(self, method):
        graph, J, h = self.model()
        found = credo.infer(graph, method, seed=0)
        density = found.marginals["w"]
        assert isinstance(density, VectorParticleDensity)
        np.testing.assert_allclose(density.mean, np.linalg.solve(J, h)[3:], atol=0.15)
        if method != "svgd":
            np.testing.assert_allclose(density.covariance, np.linalg.inv(J)[3:, 3:], atol=0.15)
            assert found.samples["w"].shape[1:] == (2,)
            assert all(len(column) == 3 for column in found.diagnostics.values())
        assert np.isfinite(density.log_density(density.mode))

    @pytest.mark.parametrize("method", ["ep", "ep(sites=block)", "bethe(components=1)"])
    def test_beliefs_about_coordinates_are_joint_densities(self, method):
        graph, J, h = self.model()
        density = credo.infer(graph, method, seed=0).marginals["w"]
        assert isinstance(density, VectorMixtureDensity)
        np.testing.assert_allclose(density.mean, np.linalg.solve(J, h)[3:], atol=1e-3)
        if "block" in method:
            np.testing.assert_allclose(density.covariance, np.linalg.inv(J)[3:, 3:], atol=1e-6)

    def test_mixtures_of_vectors_given_states(self):
        y, s = Variable("y", Real(2)), Variable("s", 2)
        w, b, v = np.array([[1.0, 0.5], [0.2, -1.0]]), np.array([0.0, 1.0]), np.array([1.0, 2.0])
        factors = [
            GaussianFactor([y], np.eye(2), [0.3, 0.1]),
            LinearGaussianFactor([y, s], w, b, v),
            TableFactor([s], [0.3, 0.7]),
        ]
        found = credo.infer(FactorGraph([y, s], factors), "conditional-gaussian")
        logs, means, squares = [], [], []
        for k in range(2):
            J = np.eye(2) + np.outer(w[k], w[k]) / v[k]
            h = np.array([0.3, 0.1]) + w[k] * b[k] / v[k]
            m = np.linalg.solve(J, h)
            logs.append(
                np.log([0.3, 0.7][k]) - 0.5 * b[k] ** 2 / v[k]
                + 0.5 * (h @ m + 2 * np.log(2 * np.pi) - np.linalg.slogdet(J)[1])
            )  # fmt: skip
            means.append(m)
            squares.append(np.linalg.inv(J) + np.outer(m, m))
        share = np.exp(logs - np.logaddexp.reduce(logs))
        mean = share @ np.array(means)
        assert found.log_z.value == pytest.approx(np.logaddexp.reduce(logs), abs=1e-12)
        np.testing.assert_allclose(found.marginals["y"].mean, mean, atol=1e-12)
        expected = np.einsum("k,kij->ij", share, squares) - np.outer(mean, mean)
        np.testing.assert_allclose(found.marginals["y"].covariance, expected, atol=1e-12)
        drawn = credo.sample(FactorGraph([y, s], factors), 4000, seed=0, method="conditional-gaussian")
        np.testing.assert_allclose(drawn["y"].mean(axis=0), mean, atol=0.08)

    @pytest.mark.parametrize("method", ["gaussian-bp", "grid-bp", "particle-bp"])
    def test_methods_of_single_numbers_say_so(self, method):
        graph, _, _ = self.model()
        with pytest.raises(UnsupportedError, match="'y' is a vector of 2 numbers and not observed"):
            credo.infer(graph, method)

    @pytest.mark.parametrize("method", ["mixture-of-gaussian-trees", "gaussian"])
    def test_methods_that_do_not_read_positive_numbers_say_so(self, method):
        with pytest.raises(
            UnsupportedError, match=r"'exponential' is continuous \(positive\) and not observed"
        ):
            credo.infer(TOGETHER, method)


def test_pictures_tables_and_frames_cope(tmp_path):
    pytest.importorskip("matplotlib")
    found = credo.infer(TOGETHER, "grid-bp")
    assert "exponential" in str(found) and len(found.marginals.to_frame()) == 4
    credo.plotting.plot_densities(found)
    drawn = credo.infer(TestVectors.model()[0])
    assert "y" in str(drawn)
    with pytest.raises(credo.CredoError, match="plot_densities"):
        credo.plotting.plot_densities(drawn, ["y"])
    assert "y[1]" in credo.sample(TestVectors.model()[0], 3, seed=0).to_frame().columns


def test_a_log_density_of_numpy_functions_needs_no_jax():
    import subprocess

    code = (
        "import sys, numpy as np, credo; x = credo.Variable('x', credo.Positive());"
        "d = credo.FactorGraph([x], [credo.DensityFactor([x], lambda x: -x)]).log_density;"
        "assert abs(d(np.zeros(1)) + 1) < 1e-12; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@dataclass(frozen=True)
class Rising(Continuous):
    """Vectors of rising numbers."""

    kind = "rising"
    width: int

    @property
    def shape(self):
        return (self.width,)

    def value(self, given):
        if not (np.diff(given) > 0).all():
            raise ModelError(f"expected rising numbers, got {given}")
        return np.asarray(given, dtype=np.float64)


@dataclass(frozen=True)
class Steps(Bijection):
    """The first number, and the logarithms of the steps."""

    domain: Rising

    @property
    def free(self):
        return self.domain.width

    def forward(self, x):
        xp = namespace(x)
        return xp.concatenate([x[..., :1], xp.log(xp.diff(x, axis=-1))], axis=-1)

    def inverse(self, u):
        xp = namespace(u)
        return xp.concatenate([u[..., :1], xp.exp(u[..., 1:].clip(-30, 300))], axis=-1).cumsum(axis=-1)

    def log_jacobian(self, u):
        return namespace(u).where(u[..., 1:] < 300, u[..., 1:], -np.inf).sum(axis=-1)

    @property
    def reach(self):
        return ((-np.inf, np.inf), *[(-30.0, 290.0)] * (self.free - 1))


def standard(x):
    return -0.5 * (x**2).sum(-1)


@pytest.mark.parametrize("method", [pytest.param("nuts", marks=pytest.mark.slow), "gibbs"])
def test_a_domain_of_a_user_is_read_by_methods_that_read_vectors(method):
    """The smaller and the larger of two standard normal numbers have the means -+ 1 / sqrt(pi)."""
    register_bijection("rising", Steps)
    x = Variable("x", Rising(2))
    found = credo.infer(FactorGraph([x], [DensityFactor([x], standard)]), method, seed=0, max_iter=2000)
    np.testing.assert_allclose(found.marginals["x"].mean, [-(np.pi**-0.5), np.pi**-0.5], atol=0.08)
    assert (np.diff(found.samples["x"], axis=1) > 0).all()
    with pytest.raises(UnsupportedError, match="'x' is a vector of 2 numbers"):
        credo.infer(FactorGraph([x], [DensityFactor([x], standard)]), "grid-bp")


@pytest.mark.parametrize("method", ["ep", "bethe"])
def test_joint_densities_of_coordinates_are_mapped_for_domains_of_users(method):
    register_bijection("rising", Steps)
    x = Variable("x", Rising(2))
    found = credo.infer(FactorGraph([x], [DensityFactor([x], standard)]), method, seed=0)
    np.testing.assert_allclose(found.marginals["x"].mean, [-(np.pi**-0.5), np.pi**-0.5], atol=0.03)
    assert found.log_z.value == pytest.approx(np.log(np.pi), abs=0.03)


def test_runs_on_positive_numbers_go_on_from_a_checkpoint(tmp_path):
    whole = credo.infer(WAIT, "gibbs", seed=3, max_iter=60)
    for budget in (20, 60):
        found = credo.infer(WAIT, "gibbs", seed=3, max_iter=budget, checkpoint=tmp_path / "run.ck")
    np.testing.assert_array_equal(found.samples["x"], whole.samples["x"])
