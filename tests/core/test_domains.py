"""Every domain: its values, its free coordinates, and the density of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo import DensityFactor, FactorGraph, GaussianFactor, Interval, Positive, Real, Simplex, Variable
from credo.core.bijections import bijection_of, free_kinds, register_bijection
from credo.core.density import namespace
from credo.core.domain import Continuous, Discrete
from credo.core.errors import EvidenceError, ModelError, QueryError
from credo.core.free import FreeGraph
from credo.core.linear_gaussian import LinearGaussianFactor
from credo.core.samples import Samples

DOMAINS = [
    Real(),
    Real(3),
    Positive(),
    Interval(0, 1),
    Interval(-3.5, 1e3),
    Interval(1000, 1000.001),
    Simplex(2),
    Simplex(4),
]
CURVED = [d for d in DOMAINS if not isinstance(d, Real)]


def coordinates(domain, count=50, scale=2.0):
    return scale * np.random.default_rng(0).standard_normal((count, bijection_of(domain).free))


class TestValues:
    @pytest.mark.parametrize("domain", DOMAINS, ids=repr)
    def test_values_of_a_domain_are_taken_and_have_its_shape(self, domain):
        for value in bijection_of(domain).inverse(coordinates(domain)):
            np.testing.assert_allclose(domain.value(value), value)
            assert np.shape(domain.value(value)) == domain.shape

    @pytest.mark.parametrize(
        ("domain", "given", "says"),
        [
            (Real(2), 1.0, "expected 2 numbers, got shape"),
            (Real(2), [1.0, np.nan], "expected finite numbers"),
            (Real(2), "ab", "expected 2 numbers, got 'ab'"),
            (Positive(), 0.0, "expected a number above zero, got 0.0"),
            (Positive(), "much", "expected a number, got 'much'"),
            (Positive(), np.inf, "expected a finite number, got inf"),
            (Interval(0, 2), 2.0, "expected a number between 0 and 2, got 2.0"),
            (Interval(0, 2), -1, "expected a number between 0 and 2, got -1.0"),
            (Simplex(2), [0.5, 0.6], "expected non-negative numbers that sum to 1"),
        ],
    )
    def test_other_values_are_refused_in_a_sentence(self, domain, given, says):
        with pytest.raises(EvidenceError, match=f"variable 'v': {says}"):
            Variable("v", domain).value(given)

    @pytest.mark.parametrize(
        ("make", "says"),
        [
            (lambda: Real(0), "Real needs at least one coordinate"),
            (lambda: Real(1.5), "Real needs at least one coordinate"),
            (lambda: Interval(2, 1), "the first end must be below the second, got 2.0 and 1.0"),
            (lambda: Interval(0, np.inf), r"expected a finite number, got inf; Positive\(\) and Real\(\)"),
        ],
    )
    def test_domains_that_make_no_sense_are_refused(self, make, says):
        with pytest.raises(ModelError, match=says):
            make()

    def test_a_number_of_the_line_is_no_vector_and_a_positive_number_is_not_any_real_one(self):
        assert Real() == Real(1) and Real(1).shape == () and isinstance(Real().value(2), float)
        assert not isinstance(Positive(), Real) and not isinstance(Interval(0, 1), Real)
        assert [d.kind for d in (Discrete(2), *DOMAINS[::2])] == [
            "discrete", "real", "positive", "interval", "simplex",
        ]  # fmt: skip
        for domain in (Positive(), Interval(0, 1), Simplex(2)):
            with pytest.raises(ModelError, match="a Gaussian factor takes real variables"):
                GaussianFactor([Variable("v", domain)], np.eye(1))

    @pytest.mark.parametrize("domain", DOMAINS, ids=repr)
    def test_functions_are_tried_at_values_of_the_domain(self, domain):
        seen = []

        def watch(x):
            seen.append(np.array(x))
            return np.zeros(np.shape(x)[: np.ndim(x) - len(domain.shape)])

        FactorGraph([Variable("v", domain)], [DensityFactor([Variable("v", domain)], watch)])
        for value in np.concatenate(seen):
            domain.value(value)

    def test_no_samples_have_the_shapes_of_values(self):
        found = Samples.none(
            credo.FactorGraph([Variable(f"v{i}", d) for i, d in enumerate(DOMAINS)]).variables
        )
        assert [found.continuous[f"v{i}"].shape for i in range(len(DOMAINS))] == [
            (0, *d.shape) for d in DOMAINS
        ]


class TestBijections:
    @pytest.mark.parametrize("domain", DOMAINS, ids=repr)
    def test_there_and_back(self, domain):
        own, u = bijection_of(domain), coordinates(domain)
        x = own.inverse(u)
        assert x.shape == (len(u), *domain.shape)
        tolerance = (
            1e-9 if domain != Interval(1000, 1000.001) else 1e-4
        )  # seven digits are left between its ends
        np.testing.assert_allclose(own.forward(x), u, rtol=tolerance, atol=tolerance)

    @pytest.mark.parametrize("domain", DOMAINS, ids=repr)
    def test_jacobians_are_finite_differences(self, domain):
        own, step = bijection_of(domain), 1e-5
        wide = (domain.high - domain.low) if isinstance(domain, Interval) else 1.0
        for u in coordinates(domain, 10, 1.0):
            moves = step * np.eye(own.free)
            rows = [(own.inverse(u + m) - own.inverse(u - m)) / (2 * step) for m in moves]
            matrix = np.array(rows).reshape(own.free, -1)[:, : own.free]
            expected = np.linalg.slogdet(matrix)[1]
            digits = 1e-6 if wide > 0.1 else 1e-3
            assert float(own.log_jacobian(u)) == pytest.approx(expected, abs=digits)

    @pytest.mark.parametrize("domain", DOMAINS, ids=repr)
    def test_jax_and_numpy_agree(self, domain):
        own, u = bijection_of(domain), coordinates(domain)
        with jax.enable_x64(True):
            for function, given in ((own.inverse, u), (own.log_jacobian, u), (own.forward, own.inverse(u))):
                found = jax.jit(function)(jnp.asarray(given))
                np.testing.assert_allclose(found, function(given), rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("domain", CURVED, ids=repr)
    @pytest.mark.parametrize("far", [40.0, 800.0, 1e6])
    def test_values_stay_inside_however_far_the_coordinates_are(self, domain, far):
        own = bijection_of(domain)
        for u in (np.full(own.free, far), np.full(own.free, -far)):
            domain.value(own.inverse(u))
            with jax.enable_x64(True):
                domain.value(np.asarray(own.inverse(jnp.asarray(u))))
                slope = jax.grad(lambda v: own.log_jacobian(v) + own.inverse(v).sum())(jnp.asarray(u))
            assert not np.isnan(own.log_jacobian(u)) and not np.isnan(slope).any()

    @pytest.mark.parametrize("domain", [d for d in DOMAINS if bijection_of(d).free == 1], ids=repr)
    def test_densities_integrate_to_one_through_the_map(self, domain):
        """A known density of values, as one of free coordinates."""
        from scipy import stats

        known = {
            "real": stats.norm(0.3, 1.2).logpdf,
            "positive": stats.gamma(2.5).logpdf,
            "interval": lambda x: (
                stats.beta(2, 3).logpdf((x - domain.low) / (domain.high - domain.low))
                - np.log(domain.high - domain.low)
            ),
            "simplex": lambda x: stats.beta(2, 3).logpdf(x[..., 0]),
        }[domain.kind]
        u = np.linspace(-40, 40, 40001)
        own = bijection_of(domain)
        density = np.exp(known(own.inverse(u[:, None])) + own.log_jacobian(u[:, None]))
        assert np.trapezoid(density, u) == pytest.approx(1.0, abs=1e-6)

    def test_equal_domains_share_a_bijection(self):
        assert bijection_of(Interval(0, 1)) == bijection_of(Interval(0.0, 1.0))
        assert free_kinds()[:4] == ("real", "positive", "interval", "simplex")
        with pytest.raises(ModelError, match="is built in; choose another word"):
            register_bijection("real", type)

    def test_a_domain_without_a_bijection_is_refused(self):
        class Circle(Continuous):
            kind = "circle"
            shape = ()

            def value(self, given):
                return float(given)

        with pytest.raises(ModelError, match="no bijection is known for the kind 'circle'"):
            bijection_of(Circle())


def log_gamma(x, shape):
    return (shape - 1) * namespace(x).log(x) - x


def weighted(x, y, t):
    return -x * (y**2).sum(-1) + t[..., 0]


@pytest.fixture(name="graph")
def _graph():
    x, y, t = Variable("x", Positive()), Variable("y", Real(2)), Variable("t", Simplex(3))
    p, s = Variable("p", Interval(-1, 2)), Variable("s", 2)
    factors = [
        DensityFactor([x], log_gamma, 2.5),
        GaussianFactor.from_moments([y], [1.0, -1.0], [[2.0, 0.3], [0.3, 1.0]]),
        DensityFactor([x, y, t], weighted),
        LinearGaussianFactor([y, s], [[1.0, 0.5], [0.2, -1.0]], [0.3, 1.0], [1.0, 2.0]),
        DensityFactor([p, s], lambda p, s: -(p**2) * (1 + s)),
        credo.TableFactor([s], [0.2, 0.8]),
    ]
    return FactorGraph([x, y, t, p, s], factors)


VALUES = {"x": 0.7, "y": [0.4, -0.3], "t": [0.2, 0.5, 0.3], "p": 1.5, "s": 1}


class TestLogDensity:
    def test_it_is_the_score_and_the_jacobian_of_the_model_given_states(self, graph):
        density = graph.condition({"s": 1}).log_density
        assert density.dimension == 1 + 2 + 2 + 1
        theta = density.flatten(VALUES)
        jacobian = sum(
            float(
                bijection_of(v.domain).log_jacobian(bijection_of(v.domain).forward(np.array(VALUES[v.name])))
            )
            for v in density.variables
        )
        expected = graph.log_score(VALUES) + jacobian
        assert float(density(theta)) == pytest.approx(expected, abs=1e-12)
        with jax.enable_x64(True):
            assert float(density(jnp.asarray(theta))) == pytest.approx(expected, abs=1e-12)
        for name, value in density.values(theta).items():
            np.testing.assert_allclose(value, VALUES[name], rtol=1e-12)

    def test_gradients_are_finite_differences(self, graph):
        density = graph.condition({"s": 0}).log_density
        theta = np.random.default_rng(1).standard_normal(density.dimension)
        steps = 1e-6 * np.eye(density.dimension)
        expected = [(density(theta + e) - density(theta - e)) / 2e-6 for e in steps]
        with jax.enable_x64(True):
            slope = jax.jit(jax.grad(density))(jnp.asarray(theta))
        np.testing.assert_allclose(slope, expected, atol=1e-7)

    def test_rows_of_vectors_are_taken_together(self, graph):
        density = graph.condition({"s": 0}).log_density
        rows = np.random.default_rng(1).standard_normal((2, 3, density.dimension))
        found = density(rows)
        assert found.shape == (2, 3)
        assert found[1, 2] == pytest.approx(float(density(rows[1, 2])))
        with jax.enable_x64(True):
            together = jax.jit(jax.vmap(density))(jnp.asarray(rows[0]))
        np.testing.assert_allclose(together, found[0], rtol=1e-12)

    def test_observed_values_are_part_of_it(self, graph):
        seen = {"s": 1, "y": [0.4, -0.3], "x": 0.7}
        density = graph.condition(seen).log_density
        assert list(density.variables.names) == ["t", "p"]
        theta = density.flatten(VALUES)
        whole = graph.condition({"s": 1}).log_density
        others = sum(
            float(bijection_of(d).log_jacobian(bijection_of(d).forward(np.array(VALUES[n]))))
            for n, d in (("x", Positive()), ("y", Real(2)))
        )
        assert float(density(theta)) == pytest.approx(float(whole(whole.flatten(VALUES))) - others, abs=1e-12)
        with jax.enable_x64(True):
            assert float(density(jnp.asarray(theta))) == pytest.approx(float(density(theta)), abs=1e-12)

    def test_an_optimiser_finds_the_mode_of_the_free_coordinates(self):
        from scipy.optimize import minimize

        x = Variable("x", Positive())
        density = FactorGraph([x], [DensityFactor([x], log_gamma, 2.5)]).log_density
        found = minimize(lambda theta: -float(density(theta)), np.zeros(1))
        assert float(density.values(found.x)["x"]) == pytest.approx(2.5, abs=1e-4)  # x p(x) is highest there

    def test_refusals(self, graph):
        with pytest.raises(
            ModelError, match="variable 's' is discrete and has no free coordinates; observe it"
        ):
            _ = graph.log_density
        density = graph.condition({"s": 0}).log_density
        with pytest.raises(QueryError, match="expected 6 free coordinates on the last axis, got shape"):
            density(np.zeros(3))
        with pytest.raises(QueryError, match="the values lack"):
            density.flatten({"x": 1.0})
        with pytest.raises(QueryError, match=r"use jax\.vmap"):
            density(jnp.zeros((2, 6)))


class TestFreeGraphs:
    def test_the_score_in_free_coordinates_is_that_of_values_and_volumes(self, graph):
        heat = np.array([1.0, 1.0, 1.0, 0.5, 1.0])
        free = FreeGraph.of(graph, heat)
        assert list(free.graph.variables.names) == ["x", "y[0]", "y[1]", "t", "p", "s"]
        u = {"x": np.log(0.7), "y[0]": 0.4, "y[1]": -0.3, "t": VALUES["t"], "s": 1}
        u["p"] = float(bijection_of(Interval(-1, 2)).forward(np.array(1.5))[0])
        volume = np.log(0.7) + 0.5 * float(bijection_of(Interval(-1, 2)).log_jacobian(np.array([u["p"]])))
        assert free.graph.log_score(u) == pytest.approx(graph.log_score(VALUES) + volume, abs=1e-12)
        back = free.values({name: np.asarray(value) for name, value in u.items() if name != "s"})
        for name, value in back.items():
            np.testing.assert_allclose(value, VALUES[name], rtol=1e-12)

    def test_maximised_variables_have_no_volume(self):
        x = Variable("x", Positive())
        graph = FactorGraph([x], [DensityFactor([x], log_gamma, 2.5)])
        u = np.log(1.7)
        with_volume, without = (FreeGraph.of(graph, levels).graph for levels in (np.ones(1), np.zeros(1)))
        values = [g.factors[0].log_value({g.variables.names[0]: u}) for g in (with_volume, without)]
        assert values[1] == pytest.approx(graph.factors[0].log_value({"x": 1.7}), abs=1e-12)
        assert values[0] - values[1] == pytest.approx(u, abs=1e-12)

    def test_a_plain_graph_stays(self):
        x = Variable("x", Real())
        assert FreeGraph.of(FactorGraph([x], [GaussianFactor([x], np.eye(1))]), np.ones(1)) is None


class TestVectorsInFactors:
    def test_gaussian_blocks_index_coordinates(self):
        rng = np.random.default_rng(0)
        A = rng.normal(size=(4, 4))
        J, h = A @ A.T + np.eye(4), rng.normal(size=4)
        y, z, w = Variable("y", Real(2)), Variable("z", Real()), Variable("w", Real())
        factor = GaussianFactor([z, y, w], J, h, 0.5)
        x = np.array([0.3, -1.0, 0.7, 2.0])
        expected = 0.5 + h @ x - 0.5 * x @ J @ x
        values = {"z": 0.3, "y": [-1.0, 0.7], "w": 2.0}
        assert factor.log_value(values) == pytest.approx(expected, abs=1e-12)
        graph = FactorGraph([y, z, w], [factor])
        for seen in ({"y": [-1.0, 0.7]}, {"z": 0.3, "w": 2.0}, {"y": [-1.0, 0.7], "w": 2.0}, values):
            left = {name: value for name, value in values.items() if name not in seen}
            assert factor.condition(seen).log_value(left) == pytest.approx(expected, abs=1e-12)
            rest = graph.condition(seen)
            assert rest.log_score({**left, **dict.fromkeys(seen, 0)}) == pytest.approx(expected, abs=1e-12)

    def test_residuals_index_coordinates(self):
        y, z, s = Variable("y", Real(2)), Variable("z", Real()), Variable("s", 2)
        w, b, v = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 1.0]]), np.array([0.1, 0.2]), np.array([1.0, 2.0])
        factor = LinearGaussianFactor([z, y, s], w, b, v)
        values = {"z": 0.3, "y": [-1.0, 0.7], "s": 1}
        expected = -0.5 * (w[1] @ [0.3, -1.0, 0.7] - b[1]) ** 2 / v[1]
        assert factor.log_value(values) == pytest.approx(expected, abs=1e-12)
        graph = FactorGraph([y, z, s], [factor])
        for seen in (
            {"y": [-1.0, 0.7]},
            {"z": 0.3},
            {"s": 1},
            {"s": 1, "y": [-1.0, 0.7]},
            {"y": [-1, 0.7], "z": 0.3},
        ):
            left = {name: value for name, value in values.items() if name not in seen}
            assert factor.condition(seen).log_value(left) == pytest.approx(expected, abs=1e-12)
            rest = graph.condition(seen)
            assert rest.log_score({**left, **dict.fromkeys(seen, 0)}) == pytest.approx(expected, abs=1e-12)

    def test_factors_of_numbers_refuse_vectors(self):
        y, z = Variable("y", Real(2)), Variable("z", Real())
        for make in (
            lambda: GaussianFactor.linear(y, [z], [1.0], 1.0),
            lambda: LinearGaussianFactor.conditional(y, [z], [], [1.0], 1.0),
        ):
            with pytest.raises(ModelError, match=r"expected a variable with one number, 'y' is Real\(2\)"):
                make()
        with pytest.raises(ModelError, match="expected a real variable"):
            credo.potentials.laplace(y, 1.0)
        child = GaussianFactor.linear(z, [y], [1.0, 2.0], 1.0)
        assert child.log_value({"z": 5.0, "y": [1.0, 2.0]}) == pytest.approx(-0.5 * np.log(2 * np.pi))
