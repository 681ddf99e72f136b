"""Bethe variational inference from the public call: against enumeration, integration and linear algebra."""

from __future__ import annotations

import itertools
import re
import warnings

import numpy as np
import pytest
from scipy.special import gammaln

import credo
import hybrid_zoo as zoo
from credo import potentials
from credo.core.density import namespace
from credo.core.errors import (
    ConvergenceWarning,
    ModelError,
    OptionError,
    QueryError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.problem.base import Budget, Problem
from credo.inference.variational import bethe_final, bethe_run
from credo.inference.variational.bethe import Bethe
from credo.inference.variational.bethe_final import Verdict
from credo.inference.variational.bethe_run import Ascents
from credo.nn.arrays import precision
from credo.optimise.driver import drive

PUBLISHED_CYCLE = {3: (-17.32, 0.42)}  # components -> mean and sd over 50 starts of 150 steps


def quietly(model, method, **question):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(model, method, **question)


@pytest.fixture(scope="module")
def switching():
    model = zoo.switching()
    return model, credo.infer(model, "bethe(components=8)", seed=0), zoo.truth(model)


def discrete_tree(seed: int = 0) -> credo.FactorGraph:
    rng = np.random.default_rng(seed)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 2, "e": 2}
    tables = {(n,): np.exp(0.7 * rng.normal(size=k)) for n, k in sizes.items()}
    for i, j in ("ab", "bc", "bd", "ae"):
        tables[i, j] = np.exp(0.7 * rng.normal(size=(sizes[i], sizes[j])))
    return credo.FactorGraph(sizes, tables)


# Answers


def test_a_hybrid_tree_agrees_with_enumeration_and_integration(switching):
    _, found, truth = switching
    assert found.status is Status.CONVERGED
    zoo.close(found, truth, atol=0.02)
    assert found.log_z.kind == "lower"
    assert truth.log_z - 0.01 < found.log_z.value <= truth.log_z


def test_neighbours_are_answered_by_the_same_mixture(switching):
    _, found, truth = switching
    pair = found.state.marginal(["s", "t"]).table
    np.testing.assert_allclose(pair, np.array([[0.3, 0.18, 0.12], [0.04, 0.12, 0.24]]), atol=0.02)
    weight = (
        np.array([0.6, 0.4]) * np.exp(-0.5 * (0.3 - np.array([-1, 1.5])) ** 2 / [0.5, 1]) / np.sqrt([0.5, 1])
    )
    np.testing.assert_allclose(found.state.conditional("s", {"x": 0.3}), weight / weight.sum(), atol=0.05)
    np.testing.assert_allclose(found.state.marginals["s"], truth.marginals["s"], atol=0.02)


def test_maxima_and_samples_come_from_the_mixture(switching):
    model, _, truth = switching
    best = credo.infer(model, "bethe(components=8)", maximise="all", seed=0)
    assert best.marginals is None and best.log_z.kind == "lower" and best.score.kind == "exact"
    assert best.score.value == pytest.approx(model.to_factor_graph().log_score(dict(best.assignment)))
    axes = [np.arange(2), np.linspace(-3, 3, 61), np.arange(3), np.linspace(-4, 4, 81)]
    mesh = dict(zip("sxty", np.meshgrid(*axes, indexing="ij", sparse=True), strict=True))
    top = model.to_factor_graph().log_scores(mesh).max()
    assert top - 0.5 < best.score.value <= top + 1e-6
    some = credo.infer(model, "bethe(components=8)", maximise=["t"], seed=0)
    assert set(some.assignment) == {"t"} and some.assignment.index("t") == truth.marginals["t"].argmax()
    assert some.log_z.value == pytest.approx(np.log(truth.marginals["t"].max()), abs=0.05)
    drawn = credo.sample(model, 4000, method="bethe(components=8)", seed=0)
    assert (drawn.column("s") == 0).mean() == pytest.approx(0.6, abs=0.04)
    assert drawn.column("y").mean() == pytest.approx(truth.marginals["y"][0], abs=0.15)


def test_warm_starts_go_on_and_the_seed_decides(switching):
    model, found, _ = switching
    again = credo.infer(model, "bethe(components=8)", seed=0)
    np.testing.assert_array_equal(again.marginals.flat, found.marginals.flat)
    assert again.log_z == found.log_z
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        warm = credo.infer(model, "bethe(components=8)", seed=1, warm_start=found, max_iter=1)
    assert warm.trace["objective"][0] == pytest.approx(found.log_z.value, abs=1e-3)
    with pytest.raises(QueryError, match="expected the result of bethe"):
        tree = discrete_tree()
        credo.infer(tree, "bethe", warm_start=credo.infer(tree, "mean-field"))
    with pytest.raises(QueryError, match="expected a mixture of 3 components"):
        credo.infer(model, "bethe(components=3)", warm_start=found)


def test_a_state_that_is_nearly_impossible_does_not_hold_up_the_ascent():
    """Slopes of its logits vanish with the belief in it, long before the belief is right."""
    s, t = credo.Variable("s", 2), credo.Variable("t", 3)
    table = np.array([[1.0, 2.0, 3.0], [1e-30, 3e-25, 1e-9]])
    model = credo.MarkovNet([s, t], [credo.TableFactor([s, t], table)])
    found = credo.infer(model, "bethe(components=1)", seed=0)
    assert found.status is Status.CONVERGED and len(found.trace["residual"]) < 300
    assert found.log_z.value == pytest.approx(np.log(table.sum()), abs=1e-6)


def test_evidence_leaves_a_discrete_model_whose_answer_is_exact():
    model = zoo.switching()
    seen = {"x": 0.2, "y": 1.0}
    found = credo.infer(model, "bethe(components=3)", evidence=seen, seed=0)
    means, variances = np.array([-1.0, 1.5]), np.array([0.5, 1.0])
    one = np.exp(-0.5 * (0.2 - means) ** 2 / variances) / np.sqrt(2 * np.pi * variances)
    means, variances = np.array([-2.0, 0.0, 2.0]), np.array([1.0, 0.5, 0.7])
    two = np.exp(-0.5 * (1.0 - means) ** 2 / variances) / np.sqrt(2 * np.pi * variances)
    table = np.array([[0.3, 0.18, 0.12], [0.04, 0.12, 0.24]]) * one[:, None] * two
    assert found.log_z.kind == "lower"
    assert np.log(table.sum()) - 1e-3 < found.log_z.value <= np.log(table.sum()) + 1e-9
    np.testing.assert_allclose(found.marginals["t"], table.sum(axis=0) / table.sum(), atol=0.01)
    np.testing.assert_allclose(found.state.marginal(["s", "t"]).table, table / table.sum(), atol=0.01)
    assert found.marginals["x"].mean == 0.2
    everything = credo.infer(model, "bethe", evidence={**seen, "s": "on", "t": 2})
    assert everything.log_z.kind == "exact"
    assert everything.log_z.value == pytest.approx(np.log(table[1, 2]))
    with pytest.raises(ZeroProbabilityError):
        never = credo.FactorGraph({"a": 2}, {("a",): [1, 0]})
        credo.infer(never, "bethe", evidence={"a": 1})


def test_one_component_is_exact_on_independent_gaussians_of_any_scale(monkeypatch):
    scales = {"x": (3.0, 1e-4), "y": (-2e3, 1e4), "z": (0.0, 1.0)}
    variables = {name: zoo.real(name) for name in scales}
    factors = [credo.GaussianFactor([v], [[1 / scales[n][1]]], [scales[n][0] / scales[n][1]], 0.5)
               for n, v in variables.items()]  # fmt: skip
    model = credo.HybridNet(list(variables.values()), factors)
    found = credo.infer(model, "bethe(components=1)", seed=0)
    exact = sum(0.5 + 0.5 * m * m / v + 0.5 * np.log(2 * np.pi * v) for m, v in scales.values())
    assert found.log_z.kind == "lower"
    assert found.log_z.value == pytest.approx(exact, rel=1e-6)
    for name, (mean, variance) in scales.items():
        assert found.marginals[name].mean == pytest.approx(mean, abs=2e-3 * np.sqrt(variance))
        assert found.marginals[name].sd == pytest.approx(np.sqrt(variance), rel=2e-3)
    monkeypatch.setattr(bethe_run, "_WIDE", 0.5)  # as if a scale had been a hundred thousand
    with pytest.raises(ModelError, match="variable 'x': its belief widens without end"):
        credo.infer(model, "bethe(components=1)", seed=0)


def test_a_discrete_tree_reaches_log_z_from_below_with_exact_beliefs():
    graph = discrete_tree()
    exact = credo.infer(graph, "junction-tree")
    method = "bethe(components=6, restarts=4, stop=1e-8)"
    found = credo.infer(graph, method, seed=0, max_iter=4000)
    assert found.log_z.kind == "lower"
    assert exact.log_z.value - 1e-4 < found.log_z.value <= exact.log_z.value + 1e-10
    for name in "abcde":
        np.testing.assert_allclose(found.marginals[name], exact.marginals[name], atol=1e-3)
    for factor, table in zip(graph.factors, exact.factor_marginals, strict=True):
        np.testing.assert_allclose(found.state.marginal(factor.names).table, table, atol=1e-3)
    assert re.search("4 starts gave values from", " ".join(found.notes))
    # A run cut at once still is a bound, of beliefs that agree.
    with pytest.warns(ConvergenceWarning):
        cut = credo.infer(graph, method, seed=0, max_iter=0)
    assert cut.status is Status.OUT_OF_ITERATIONS and cut.log_z.value <= exact.log_z.value
    pair = cut.state.marginal(["a", "b"]).table
    np.testing.assert_allclose(pair.sum(axis=1), cut.marginals["a"], atol=1e-12)


def test_a_run_that_is_stopped_returns_what_was_found(monkeypatch):
    calls = itertools.count()
    real = Ascents.chunk

    def chunk(self, *arguments):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(Ascents, "chunk", chunk)
    with pytest.warns(ConvergenceWarning, match="stopped by hand"):
        found = credo.infer(discrete_tree(), "bethe(components=6, restarts=4)", seed=0)
    assert found.status is Status.INTERRUPTED
    assert len(found.trace["objective"]) in range(2, 18)  # a step, then some, as fast as the machine is


@pytest.mark.parametrize(("found", "chosen"), [
    ([(1.0, 1e-9), (2.0, 1e-2)], 1),  # the best, although it does not rest
    ([(2.0, 1e-2), (1.0, 1e-9)], 0),
    ([(2.0, 1e-2), (2.0 - 1e-7, 1e-9)], 1),  # as good, and at rest
    ([(2.0, np.nan), (2.0, 1e-9)], 1),
])  # fmt: skip
def test_the_residual_is_that_of_the_mixture_that_is_returned(found, chosen):
    problem = Problem.about(discrete_tree())
    with precision(double=True):
        run = Ascents(problem, Bethe(components=1), False, np.random.default_rng(0))
    verdicts = [(Verdict(0, None, value, None, ()), left) for value, left in found]
    assert run._chosen(verdicts)[0] is verdicts[chosen][0]


@pytest.mark.parametrize(("left", "status"), [(1e-9, Status.CONVERGED), (1e-2, Status.STALLED)])
def test_the_status_is_that_of_the_mixture_that_is_returned(left, status, monkeypatch):
    """Whichever ascent the run ended with: a mixture kept before may be the better one."""
    real = Ascents._chosen
    monkeypatch.setattr(Ascents, "_chosen", lambda run, found: (real(run, found)[0], left))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = credo.infer(discrete_tree(), "bethe(components=1)", seed=0, max_iter=2000)
    assert found.status is status


class Unjudged(Ascents):
    """Answers with where all starts stand."""

    def read(self, problem, outcome):
        return outcome.state


def cycle_run(steps: int, **options):
    problem = Problem.about(zoo.bimodal_cycle().to_factor_graph())
    with precision(double=True):
        run = Unjudged(problem, Bethe(**options), False, np.random.default_rng(0))
        state = drive(run, None, Budget(steps, 0.0))
    return state.values[-1], state.components[-1]


def test_the_three_cycle_is_as_published_and_the_guard_prevents_collapse():
    options = {"components": 3, "nodes": 3, "restarts": 24, "optimiser": "ascent"}
    values, effective = cycle_run(150, **options)
    mean, spread = PUBLISHED_CYCLE[3]
    assert abs(values.mean() - mean) < spread
    assert np.median(effective) > 1.5
    plain, alone = cycle_run(150, **options, guard=1.0)
    assert np.median(alone) < 1.2
    assert plain.mean() < values.mean()


def test_simplex_beliefs_find_the_conjugate_posterior():
    theta = credo.Variable("theta", credo.Simplex(3))
    words = [credo.Variable(f"z{i}", 3) for i in range(3)]
    factors = [
        potentials.dirichlet(theta, [1.0, 2.0, 3.0]),
        *(potentials.categorical(z, theta) for z in words),
    ]
    model = credo.HybridNet([theta, *words], factors)
    found = quietly(model, "bethe(components=1)", evidence={"z0": 0, "z1": 2, "z2": 2}, seed=0)
    assert found.status is Status.STALLED  # steps are random: their noise hides the residual
    assert any("steps are random" in note for note in found.notes)
    prior, counts = np.array([1.0, 2.0, 3.0]), np.array([1, 0, 2])
    exact = gammaln(6) - gammaln(9) + (gammaln(prior + counts) - gammaln(prior)).sum()
    assert found.log_z.value == pytest.approx(exact, abs=1e-3)
    assert "standard error" in found.notes[0]
    np.testing.assert_allclose(found.marginals["theta"].concentrations[0], prior + counts, rtol=0.02)


def two_modes(apart: float):
    x, y = credo.Variable("x", credo.Real()), credo.Variable("y", credo.Real())
    near = credo.DensityFactor([x, y], lambda x, y: -0.5 * (x - y) ** 2)
    mixture = potentials.gaussian_mixture(x, [0.5, 0.5], [-apart, apart], [1.0, 1.0])
    return credo.HybridNet([x, y], [mixture, near])


def test_components_on_top_of_each_other_are_tried_elsewhere():
    model = two_modes(5.0)
    with pytest.warns(ConvergenceWarning, match="bethe: no step improves any more"):
        plain = credo.infer(model, "bethe(components=2, renewals=0)", seed=3)
    found = credo.infer(model, "bethe(components=2)", seed=3)
    assert (plain.state.means[0] > 0).all()  # both at one of the two modes
    assert found.status is Status.CONVERGED and found.log_z.value > plain.log_z.value + 0.4
    np.testing.assert_allclose(np.sort(found.state.means[0]), [-5, 5], atol=0.01)
    assert "2 of 2 components in effect" in found.notes
    assert any("the best mixture is kept" in note for note in found.notes)


def test_components_that_coincide_count_once():
    net = credo.GaussianNet([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    found = credo.infer(net, "bethe(components=3)", seed=0)
    assert found.log_z.value == pytest.approx(np.log(2 * np.pi), abs=1e-4)
    assert "1 of 3 components in effect" in found.notes
    assert "2 of 2 components in effect" in credo.infer(two_modes(5.0), "bethe(components=2)", seed=0).notes


@pytest.mark.parametrize("seed", range(3))
def test_renewals_never_lower_the_value_and_converged_means_that_nothing_is_left_to_gain(seed):
    model = zoo.switching()
    plain, found = (quietly(model, f"bethe(components=4, renewals={r})", seed=seed) for r in (0, 3))
    assert found.log_z.value >= plain.log_z.value - 1e-12
    for result in (plain, found):
        assert result.converged == (result.trace["residual"][-1] < 1e-6)
        np.testing.assert_array_equal(result.trace["log_z"], result.trace["objective"])


# Ugly cases


def test_components_avoid_the_zeros_of_tables():
    xor = np.fromfunction(lambda a, b, c: (a + b + c) % 2 == 0, (2, 2, 2)).astype(float)
    graph = credo.FactorGraph({"a": 2, "b": 2, "c": 2, "one": 1, "free": 3}, {
        ("a", "b", "c"): xor, ("a",): [0.2, 0.8], ("one", "b"): [[1.0, 2.0]]})  # fmt: skip
    exact = credo.infer(graph, "enumerate")
    found = credo.infer(graph, "bethe(restarts=4)", seed=0)
    assert found.log_z.kind == "lower"
    assert exact.log_z.value - 0.01 < found.log_z.value <= exact.log_z.value + 1e-9
    table = found.state.marginal(["a", "b", "c"]).table
    assert table[xor == 0].max() == 0
    np.testing.assert_allclose(found.marginals["free"], 1 / 3, atol=1e-3)
    for name in "abc":
        np.testing.assert_allclose(found.marginals[name], exact.marginals[name], atol=0.02)
    drawn = found.state.sample(200, 0).indices
    assert (drawn[:, :3].sum(axis=1) % 2 == 0).all()


@pytest.mark.parametrize(
    ("tables", "evidence", "says"),
    [
        (
            {("a", "b"): [[0, 1], [1, 0]], ("b", "c"): [[0, 1], [1, 0]], ("c", "a"): [[0, 1], [1, 0]]},
            {},
            "every configuration weight zero",
        ),
        (
            {("a",): [1, 0], ("a", "b"): [[0, 0], [1, 1]], ("c",): [1, 1]},
            {},
            "every configuration weight zero",
        ),
        (
            {("a",): [1, 0], ("b",): [1, 1], ("c",): [1, 1]},
            {"a": 1},
            "the evidence has probability zero under this model",
        ),
    ],
)
def test_a_contradiction_is_named(tables, evidence, says):
    graph = credo.FactorGraph(dict.fromkeys("abc", 2), tables)
    with pytest.raises(ZeroProbabilityError, match=says):
        credo.infer(graph, "bethe", evidence=evidence)


def test_a_model_without_variables_is_a_constant():
    found = credo.infer(credo.FactorGraph({}, {(): 3.0}), "bethe")
    assert found.log_z.kind == "exact" and found.log_z.value == pytest.approx(np.log(3))
    assert (
        found.status is Status.EXACT
        and len(credo.sample(credo.FactorGraph({}, {(): 3.0}), 4, method="bethe")) == 4
    )


def steep(x):
    return namespace(x).where(abs(x) > 1.2, np.nan, -0.5 * x * x)


def box(x):
    return namespace(x).where((x > 0) & (x < 1), 0.0, -np.inf)


X, Y, SIMPLEX = zoo.real("x"), zoo.real("y"), credo.Variable("theta", credo.Simplex(3))


def saddle(x, y):
    return -3 * x * y


def corner(theta):
    return -2.5 * namespace(theta).log(theta[..., 0] + theta[..., 1])


def imaginary(x):
    return -1j * x * x


@pytest.mark.parametrize(
    ("variables", "factors", "says"),
    [
        ([X], [], "does not fall off along 'x'|variable 'x': the product of its factors does not fall"),
        ([X], [potentials.clamped_laplace(X)], "variable 'x': the product of its factors does not fall"),
        ([Y, X], [potentials.gaussian(Y), potentials.clamped_laplace(X, Y)], "variable 'x': the product"),
        (
            [X, Y],
            [potentials.laplace(X, Y)],
            r"variables \['x', 'y'\]: the product of all factors does not fall",
        ),
        (
            [X, Y],
            [potentials.gaussian(X), potentials.gaussian(Y), credo.DensityFactor([X, Y], saddle)],
            r"variables \['x', 'y'\]: the product of all factors does not fall",
        ),
        (
            [SIMPLEX],
            [potentials.dirichlet(SIMPLEX, [1.0, 0.4, 1.0]), credo.DensityFactor([SIMPLEX], corner)],
            "variable 'theta': the product of its factors grows towards an edge of the simplex",
        ),
        ([X], [credo.DensityFactor([X], steep)], r"factor over \['x'\]: log-potentials must be numbers"),
        ([X], [credo.DensityFactor([X], imaginary)], r"factor over \['x'\]: .* real numbers, got complex"),
    ],
    ids=[
        "no factor",
        "flat",
        "flat beside another",
        "flat together",
        "rises between axes",
        "rises to a corner",
        "no number",
        "complex",
    ],
)
def test_what_is_no_density_is_refused_by_name(variables, factors, says: str):
    with np.errstate(all="ignore"), pytest.raises(ModelError, match=says):
        credo.infer(credo.HybridNet(variables, factors), "bethe(components=1)", seed=0)


def test_what_is_no_number_far_out_is_refused_by_name():
    def far(x):
        return namespace(x).where(abs(x) > 3, np.nan, 0.0)

    model = credo.HybridNet([X], [potentials.gaussian(X), credo.DensityFactor([X], far)])
    with pytest.raises(ModelError, match=r"factor over \['x'\]: log-potentials must be numbers below inf"):
        credo.infer(model, "bethe(components=2)", seed=0)


def test_a_zero_on_part_of_the_line_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"the factor over \['x'\] is zero on part of its domain"):
        credo.infer(credo.HybridNet([X], [credo.DensityFactor([X], box)]), "bethe(components=1)", seed=0)


def test_absurd_grids_are_refused_and_point_to_samples():
    variables = [zoo.real(f"x{i}") for i in range(9)]
    factors = [credo.GaussianFactor(variables, np.eye(9))]
    model = credo.HybridNet(variables, factors)
    says = (
        r"the factor over \['x0', .*\] would be evaluated 4.9e\+07 times in a step; use expectation=samples"
    )
    with pytest.raises(UnsupportedError, match=says):
        credo.infer(model, "bethe(expectation=quadrature)")
    problem = Problem.about(model.to_factor_graph())
    assert Bethe().why_not(problem) is None and Bethe().takes_samples(problem.graph)
    assert Bethe(expectation="samples").why_not(problem) is None


def numpy_only(x):
    return -0.5 * np.square(np.asarray(x, dtype=np.float64) - 1.0)


def test_a_function_of_numpy_is_called_back_and_has_no_derivative():
    model = credo.HybridNet([X], [credo.DensityFactor([X], numpy_only)])
    with pytest.raises(UnsupportedError, match=r"factor over \['x'\] is not written for JAX"):
        credo.infer(model, "bethe(gradient=autodiff)")
    found = credo.infer(model, "bethe(components=1)", seed=0)
    assert found.log_z.value == pytest.approx(0.5 * np.log(2 * np.pi), abs=1e-5)
    assert found.marginals["x"].mean == pytest.approx(1, abs=1e-2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("components=0", "components must be at least 1"),
        ("components=2.5", "components must be a whole number"),
        ("nodes=1", "nodes must be at least 2"),
        ("samples=1", "samples must be at least 2"),
        ("final_nodes=9", "final_nodes must be at least 11"),
        ("expectation=guess", "expectation must be one of"),
        ("gradient=both", "gradient must be one of"),
        ("optimiser=sgd", "optimiser must be one of"),
        ("kernel=rbf", "kernel must be one of"),
        ("guard=2", r"guard must be in \[0, 1\]"),
        ("rate=0", "rate must be at least"),
        ("spread=-1", "spread must be at least 0"),
        ("sampled=true, gradient=autodiff", "sampled: one component per step needs gradient=score"),
    ],
)
def test_options_are_checked(options: str, says: str):
    with pytest.raises(OptionError, match=says):
        credo.infer(zoo.switching(), f"bethe({options})")


# What is compiled for one question each


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        "expectation=samples, samples=30",
        "expectation=particles, nodes=10",
        "sampled=true",
        "gradient=autodiff, nodes=15",
    ],
)
def test_every_way_to_take_expectations_stays_below_log_z_on_a_tree(options: str):
    model = zoo.laplace_chain()
    truth = zoo.truth(model)
    found = credo.infer(model, f"bethe(components=4, restarts=4, {options})", seed=0, max_iter=3000)
    assert found.log_z.kind == "lower"
    assert truth.log_z - 0.15 < found.log_z.value <= truth.log_z
    zoo.close(found, truth, atol=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("model", [zoo.gaussian_tree(), zoo.switching(), zoo.laplace_chain()])
def test_lower_bounds_on_trees_hold_for_any_components(model):
    exact = model.log_z if isinstance(model, credo.GaussianNet) else zoo.truth(model).log_z
    best = -np.inf
    for components in (1, 2, 5):
        found = credo.infer(
            model, f"bethe(components={components}, restarts=4, nodes=9)", seed=0, max_iter=3000
        )
        assert found.log_z.kind == "lower" and found.log_z.value <= exact + 1e-6
        assert found.log_z.value > best - 0.01
        best = found.log_z.value
    assert exact - best < 0.06


def test_a_simplex_has_more_particles_than_coordinates():
    theta = credo.Variable("theta", credo.Simplex(6))
    model = credo.HybridNet([theta], [potentials.dirichlet(theta, np.ones(6))])
    found = credo.infer(model, "bethe(components=1, nodes=2, expectation=particles)", seed=0, max_iter=300)
    assert found.log_z.value == pytest.approx(0, abs=0.01)  # with two particles -0.48
    assert Bethe(nodes=2).particles(6) == 12 and Bethe(nodes=20).particles(6) == 20


@pytest.mark.slow
@pytest.mark.parametrize("expectation", ["auto", "particles"])
def test_simplex_and_discrete_variables_together(expectation: str):
    theta = credo.Variable("theta", credo.Simplex(3))
    words = [credo.Variable(f"z{i}", 3) for i in range(3)]
    factors = [
        potentials.dirichlet(theta, [1.0, 2.0, 3.0]),
        *(potentials.categorical(z, theta) for z in words),
    ]
    model = credo.HybridNet([theta, *words], factors)
    found = credo.infer(
        model, f"bethe(expectation={expectation}, samples=30, nodes=15)", seed=0, max_iter=3000
    )
    assert found.log_z.value == pytest.approx(0, abs=0.02)
    for z in words:
        np.testing.assert_allclose(found.marginals[z.name], np.array([1, 2, 3]) / 6, atol=0.03)
    np.testing.assert_allclose(found.marginals["theta"].mean, np.array([1, 2, 3]) / 6, atol=0.03)


@pytest.mark.slow
def test_factors_of_three_variables_of_two_kinds():
    x, y, s = zoo.real("x"), zoo.real("y"), credo.Variable("s", 2)

    def regression(y, x, s, slopes):
        return -0.5 * (y - slopes[s] * x) ** 2

    model = credo.HybridNet(
        [x, y, s],
        [
            potentials.gaussian(x, 0.5),
            credo.DensityFactor([y, x, s], regression, np.array([0.5, -1.0])),
            credo.TableFactor([s], [0.4, 0.6]),
        ],
    )
    truth = zoo.truth(model)
    found = credo.infer(model, "bethe(components=8, restarts=4)", seed=0, max_iter=3000)
    assert found.log_z.kind == "lower" and truth.log_z - 0.05 < found.log_z.value <= truth.log_z
    zoo.close(found, truth, atol=0.05)


@pytest.mark.slow
def test_the_last_evaluation_may_be_done_in_parts(monkeypatch):
    whole = credo.infer(zoo.laplace_chain(), "bethe(components=2, nodes=9)", seed=0)
    monkeypatch.setattr(bethe_final, "_AT_ONCE", 60_000)
    parts = credo.infer(zoo.laplace_chain(), "bethe(components=2, nodes=9)", seed=0)
    assert parts.log_z.value == pytest.approx(whole.log_z.value, abs=1e-10)


@pytest.mark.slow
def test_nine_variables_in_one_factor_are_sampled():
    variables = [zoo.real(f"x{i}") for i in range(9)]
    model = credo.HybridNet(variables, [credo.GaussianFactor(variables, np.eye(9), np.arange(9.0))])
    found = credo.infer(model, "bethe(components=1, samples=50)", seed=0)
    exact = 0.5 * (np.arange(9) ** 2).sum() + 4.5 * np.log(2 * np.pi)
    assert found.log_z.kind == "estimate" and found.log_z.value == pytest.approx(exact, abs=0.05)
    for i in range(9):
        assert found.marginals[f"x{i}"].mean == pytest.approx(i, abs=0.1)
