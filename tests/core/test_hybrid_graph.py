"""Domains, factors on continuous variables, and the graph they form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo import potentials
from credo.core.belief import PointMass
from credo.core.density import DensityFactor, GaussianFactor
from credo.core.domain import Simplex
from credo.core.errors import EvidenceError, ModelError, OptionError, QueryError, UnsupportedError
from credo.core.factor_graph import FactorGraph
from credo.core.variable import Variable
from credo.inference.problem.base import Problem, algorithms
from credo.inference.problem.reading import refusal
from hybrid_zoo import real, switching, truth

X, Y, S = real("x"), real("y"), Variable("s", ["off", "on"])
THETA = Variable("theta", Simplex(3))


class TestDomains:
    def test_values_are_checked_and_named(self):
        assert X.value("2.5") == 2.5
        np.testing.assert_array_equal(THETA.value([0.2, 0.3, 0.5]), [0.2, 0.3, 0.5])
        for variable, bad in (
            (X, "wide"),
            (X, np.inf),
            (X, 10**400),
            (THETA, [0.5, 0.5]),
            (THETA, [0.9, 0.9, -0.8]),
        ):
            with pytest.raises(EvidenceError, match=f"variable '{variable.name}': expected"):
                variable.value(bad)

    def test_continuous_variables_have_no_states(self):
        assert X.size == 0 and not X.is_discrete
        with pytest.raises(ModelError, match="'x' has no states"):
            _ = X.states
        with pytest.raises(ModelError, match="no states"):
            credo.TableFactor([X], [1.0])

    def test_a_model_of_tables_refuses_them(self):
        with pytest.raises(ModelError, match=r"'x' is continuous.*HybridNet"):
            credo.MarkovNet({"y": 2, "x": credo.Real()})
        with pytest.raises(ModelError, match=r"'x' is continuous: a table needs states"):
            credo.FactorGraph.from_arrays([S, X], ([[1]], [1.0]))

    def test_a_simplex_needs_a_coordinate(self):
        with pytest.raises(ModelError, match="at least one coordinate"):
            Simplex(0)


class TestGaussianFactors:
    def test_moments_are_those_of_the_density(self):
        mean, covariance = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 1.0]])
        factor = GaussianFactor.from_moments([X, Y], mean, covariance)
        x = np.random.default_rng(0).normal(size=(2, 7))
        gap = x - mean[:, None]
        expected = -0.5 * (gap * np.linalg.solve(covariance, gap)).sum(axis=0)
        expected -= 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
        np.testing.assert_allclose(factor.log_values(*x), expected, rtol=1e-12)

    def test_conditioning_slices(self):
        factor = GaussianFactor([X, Y], [[2.0, 0.5], [0.5, 1.0]], [1.0, -1.0], 0.3)
        sliced = factor.condition({"y": 0.7})
        assert sliced.names == ("x",)
        assert sliced.log_value({"x": -0.4}) == pytest.approx(factor.log_value({"x": -0.4, "y": 0.7}))
        assert factor.condition({"x": 1.0, "y": 2.0}).log_values() == pytest.approx(
            factor.log_value({"x": 1.0, "y": 2.0})
        )

    def test_a_linear_conditional_is_a_density_of_the_child(self):
        factor = GaussianFactor.linear(Y, [X], [2.0], variance=0.5, bias=1.0)
        grid = np.linspace(-10, 12, 4001)
        density = np.exp(factor.condition({"x": 0.3}).log_values(grid))
        assert np.trapezoid(density, grid) == pytest.approx(1)
        assert np.trapezoid(density * grid, grid) == pytest.approx(2.0 * 0.3 + 1.0)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: GaussianFactor([X, S], np.eye(2)), "'s' is"),
            (lambda: GaussianFactor([X], [[np.nan]]), "finite"),
            (lambda: GaussianFactor([X, Y], [[1.0, 0.2], [0.3, 1.0]]), "symmetric"),
            (lambda: GaussianFactor.from_moments([X], [0.0], [[-1.0]]), "positive definite"),
            (lambda: GaussianFactor([X], [1.0]), "shape"),
            (
                lambda: GaussianFactor([X, Y], np.eye(2), [1, 2, 3]),
                r"shift must have shape \(2,\), got \(3,\)",
            ),
            (lambda: GaussianFactor([X, Y], np.eye(2), "ab"), "shift: expected numbers"),
            (lambda: GaussianFactor([X, Y], [[1e-8, 9e-9], [0.0, 1e-8]]), "symmetric"),
            (lambda: GaussianFactor.from_moments([X, Y], [0, 0], [[1e-8, 9e-9], [0, 1e-8]]), "symmetric"),
            (lambda: GaussianFactor.from_moments([X, Y], [0, 0], np.ones((2, 2))), "positive definite"),
            (lambda: GaussianFactor.linear(Y, [X], [1.0], "wide"), "variance: expected numbers"),
        ],
    )
    def test_bad_ones_are_refused_by_name(self, make, words):
        with pytest.raises(ModelError, match=words):
            make()

    def test_small_precisions_are_symmetric_to_the_last_digit(self):
        J = np.array([[1e-8, 4e-9 * (1 + 1e-13)], [4e-9, 1e-8]])
        one, other = (GaussianFactor([X, Y], m).precision for m in (J, J.T))
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, one.T)


class TestDensityFactors:
    @pytest.mark.parametrize(
        ("function", "words"),
        [
            (lambda x: np.full(np.shape(x), np.nan), "got nan"),
            (lambda x: np.full(np.shape(x), np.inf), "got inf"),
            (lambda x: 0.0, r"shape \(\)"),
            (lambda x: None, "must be real numbers, got None"),
            (lambda x: np.asarray(x) * 1j, "must be real numbers, got complex ones"),
            (lambda x: np.zeros((2, 2)), r"shape \(2, 2\)"),
            (lambda x, y: x, r"failed with TypeError: .*one array per variable \(1\)"),
            (lambda x: x if x > 0 else -x, "failed with ValueError: .*`where` in place of `if`"),
            (lambda x: {"log": x}, "must be real numbers, got None or other objects"),
        ],
    )
    def test_bad_potentials_are_refused_with_the_factor_named(self, function, words):
        with pytest.raises(ModelError, match=rf"factor over \['x'\].*{words}"):
            credo.HybridNet([X], [DensityFactor([X], function)])

    def test_errors_of_the_library_and_warnings_pass_unchanged(self):
        def refuses(x):
            raise EvidenceError("not this one")

        with pytest.raises(EvidenceError, match=r"^not this one"):
            credo.HybridNet([X], [DensityFactor([X], refuses)])

    def test_what_is_no_function_is_refused(self):
        with pytest.raises(ModelError, match="expected a function"):
            DensityFactor([X], 3.0)

    def test_conditioning_on_each_kind_of_variable(self):
        factor = potentials.emission(X, S, [0.0, 3.0], [1.0, 4.0])
        full = factor.log_value({"x": 1.5, "s": "on"})
        for evidence, rest in (({"s": 1}, {"x": 1.5}), ({"x": 1.5}, {"s": "on"})):
            assert factor.condition(evidence).log_value(rest) == pytest.approx(full)
        topic = Variable("z", 3)
        chosen = potentials.categorical(topic, THETA)
        sliced = chosen.condition({"theta": [0.2, 0.3, 0.5]})
        np.testing.assert_allclose(np.exp(sliced.log_values(np.arange(3))), [0.2, 0.3, 0.5])


class TestGraphs:
    def test_factors_of_one_function_form_one_group(self):
        variables = [real(f"x{i}") for i in range(5)]
        edges = [
            potentials.laplace(a, b, scale=1.0 + i) for i, (a, b) in enumerate(itertools.pairwise(variables))
        ]
        graph = FactorGraph(variables, [*edges, *(potentials.gaussian(v) for v in variables)])
        assert sorted(len(g.factors) for g in graph.batches) == [4, 5]
        assert graph.is_forest
        assert not FactorGraph(variables, [*edges, potentials.laplace(variables[0], variables[4])]).is_forest

    def test_a_factor_on_an_undeclared_variable_is_refused(self):
        with pytest.raises(ModelError, match="'y' is not in the graph"):
            FactorGraph([X], [potentials.laplace(X, Y)])
        with pytest.raises(ModelError, match="'x' is not in the graph with the domain"):
            FactorGraph({"x": 2}, [potentials.gaussian(X)])

    def test_conditioning_keeps_the_score(self):
        graph = switching().to_factor_graph()
        full = {"s": "on", "x": 0.4, "t": 2, "y": -0.3}
        for seen in (["x"], ["s", "y"], ["t"], ["s", "x", "t", "y"]):
            rest = graph.condition({n: full[n] for n in seen})
            left = {n: 0 if n in seen else v for n, v in full.items()}  # an observed variable has one state
            assert rest.variables.sizes[rest.variables.positions(seen)].tolist() == [1] * len(seen)
            assert rest.log_score(left) == pytest.approx(graph.log_score(full))
            assert rest.n_factors == graph.n_factors

    def test_soft_and_missing_evidence(self):
        graph = switching().to_factor_graph()
        soft = graph.condition({"s": [0.2, 0.9], "x": None, "y": float("nan")})
        assert list(soft.variables.names) == ["s", "x", "t", "y"]
        assert soft.n_factors == graph.n_factors + 1
        with pytest.raises(EvidenceError, match="no variable named 'z'"):
            graph.condition({"z": 1.0})

    def test_an_assignment_must_be_complete(self):
        with pytest.raises(ModelError, match="lacks"):
            switching().to_factor_graph().log_score({"x": 1.0})


class TestAnswers:
    def test_observed_variables_are_part_of_the_answer(self):
        net = credo.GaussianNet([[2.0, 0.5], [0.5, 1.0]], [1.0, -1.0])
        found = credo.infer(net, "gaussian", evidence={"x1": 0.7})
        assert isinstance(found.marginals["x1"], PointMass)
        assert found.marginals["x1"].mean == 0.7
        assert found.marginals["x0"].mean == pytest.approx((1.0 - 0.5 * 0.7) / 2.0)
        with pytest.raises(QueryError, match="no density"):
            found.marginals["x1"].log_density(0.0)

    def test_the_default_method_says_what_it_chose(self):
        net = credo.GaussianNet([[2.0, 0.5], [0.5, 1.0]])
        assert credo.infer(net).notes[0].startswith("chosen: gaussian")
        drawn = credo.sample(net, 5, seed=0)
        assert drawn.column("x0").shape == (5,)
        assert list(drawn.to_frame().columns) == ["x0", "x1"]
        assert set(drawn[0]) == {"x0", "x1"}

    def test_discrete_methods_and_options_are_refused_in_a_sentence(self):
        net = credo.GaussianNet([[1.0]])
        with pytest.raises(UnsupportedError, match="discrete variables"):
            credo.infer(net, "junction-tree")
        with pytest.raises(UnsupportedError, match="asks for powered sums"):
            credo.infer(net, "gaussian", temperatures={"x0": 0.5})
        with pytest.raises(ModelError, match="no integral"):
            credo.GaussianNet([[1.0, 2.0], [2.0, 1.0]])

    @pytest.mark.parametrize("method", [None, "gaussian-bp", "ep"])
    def test_observed_variables_are_maximised_too(self, method):
        net = credo.GaussianNet([[2.0, 0.4], [0.4, 2.0]], [1.0, 2.0])
        one = credo.infer(net, method, evidence={"x0": 1}, maximise=["x0"])
        assert dict(one.assignment) == {"x0": 1.0} and one.marginals is None
        h = 2.0 - 0.4  # of the integral over x1: -1 + 1 + log int exp(h x - x^2)
        assert one.score.value == pytest.approx(h**2 / 4 + 0.5 * np.log(np.pi))
        assert one.log_z == one.score
        both = credo.infer(net, method, evidence={"x0": 1, "x1": 2}, maximise="all")
        assert dict(both.assignment) == {"x0": 1.0, "x1": 2.0} and both.marginals is None
        assert both.score.value == pytest.approx(net.to_factor_graph().log_score({"x0": 1.0, "x1": 2.0}))

    def test_bethe_maximises_what_is_observed(self):
        net = credo.GaussianNet([[2.0, 0.4], [0.4, 2.0]], [1.0, 2.0])
        both = credo.infer(net, "bethe", evidence={"x0": 1, "x1": 2}, maximise=["x0"])
        assert dict(both.assignment) == {"x0": 1.0} and both.marginals is None
        assert both.score.value == pytest.approx(net.to_factor_graph().log_score({"x0": 1.0, "x1": 2.0}))

    def test_an_observed_state_is_maximised_among_real_variables(self):
        net = switching()
        found = credo.infer(net, "ep", evidence={"s": "on", "x": 0.3}, maximise=["s", "x"])
        assert dict(found.assignment) == {"s": "on", "x": 0.3}
        assert found.score == credo.infer(net, "ep", evidence={"s": "on", "x": 0.3}).log_z

    @pytest.mark.parametrize("maximise", [3, None, [["x0"]], "x0"])
    def test_what_names_no_variables_is_not_maximised(self, maximise):
        for model in (credo.GaussianNet(np.eye(2)), credo.datasets.sprinkler()):
            with pytest.raises(QueryError, match="maximise: expected 'all' or a list of names"):
                credo.infer(model, maximise=maximise)

    def test_half_a_row_is_not_drawn(self):
        for model in (credo.GaussianNet(np.eye(2)), credo.datasets.sprinkler()):
            with pytest.raises(OptionError, match=r"count must be a whole number, got 2\.5"):
                credo.sample(model, 2.5)

    @pytest.mark.parametrize("method", [None, "ep", "grid-bp", "gibbs"])
    def test_a_simplex_of_one_coordinate_is_known(self, method):
        one = Variable("t", Simplex(1))
        net = credo.HybridNet([one, X], [potentials.gaussian(X, 2.0), potentials.dirichlet(one, 3.0)])
        found = credo.infer(net, method, seed=0)
        assert found.marginals["t"].mean == [1.0]
        assert found.marginals["x"].mean == pytest.approx(2.0, abs=0.2)
        assert found.log_z is None or found.log_z.value == pytest.approx(0, abs=1e-6)
        assert credo.sample(net, 3, seed=0).column("t").tolist() == [[1.0]] * 3

    def test_gradient_methods_that_take_real_variables_refuse_every_simplex(self):
        one = Variable("t", Simplex(1))
        problem = Problem.about(FactorGraph([one, X], [potentials.gaussian(X)]))
        reason = refusal(algorithms.resolve("nonparametric-vi"), problem)
        assert "it works on real, positive and interval variables, and 't' is continuous (simplex)" in str(
            reason
        )

    def test_the_oracle_of_these_tests_integrates(self):
        net = credo.GaussianNet([[2.0, 0.5], [0.5, 1.0]], [1.0, -1.0])
        found = truth(net)
        assert found.log_z == pytest.approx(net.log_z, abs=1e-9)
        assert found.marginals["x0"] == pytest.approx([net.mean[0], net.covariance[0, 0]], abs=1e-9)
