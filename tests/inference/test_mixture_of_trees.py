"""Mixtures of discrete and Gaussian trees: moments, corrected gradients, Frank-Wolfe, exactness on trees."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import credo
from credo import potentials
from credo.core.density import namespace
from credo.core.errors import (
    ConvergenceWarning,
    ModelError,
    OptionError,
    UnsupportedError,
    ZeroProbabilityError,
)
from credo.core.result import Status
from credo.inference.variational import discrete_tree_ascent as ascent
from credo.inference.variational import mixture_of_gaussian_trees
from credo.inference.variational.discrete_trees import PairModel, Tree
from credo.inference.variational.gaussian_tree_mixture import GaussianTree, precision_score
from hybrid_zoo import gaussian_loop, gaussian_tree, laplace_chain, real, truth

SIZES = [2, 3, 2, 2]
LOOPS = [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]
CHAIN = [(0, 1), (1, 2), (2, 3)]


def _graph(edges, seed=0, spread=1.0, sizes=SIZES):
    rng = np.random.default_rng(seed)
    tables = {(f"x{i}",): np.exp(spread * rng.normal(size=s)) for i, s in enumerate(sizes)}
    for i, j in edges:
        tables[f"x{j}", f"x{i}"] = np.exp(spread * rng.normal(size=(sizes[j], sizes[i])))
    return credo.FactorGraph({f"x{i}": s for i, s in enumerate(sizes)}, tables)


def _mixture(edges, components=3, seed=1):
    rng = np.random.default_rng(seed)
    model = PairModel(_graph(edges))
    trees = Tree.several(model, components, "random", rng)
    start = ascent.starting_logs(model, trees, "potentials", 1.0, rng)
    return model, trees, ascent.TreeStart(start.nodes, start.edges, rng.normal(size=components))


def _rows(sizes=SIZES):
    return np.array(list(itertools.product(*map(range, sizes))))


def _run(model, method, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(model, method, seed=0, **options)


def test_mixtures_sum_to_one_and_their_moments_are_marginals():
    model, trees, start = _mixture(LOOPS)
    mixture = ascent.objective(model, trees, start)[3]
    p, rows = np.exp(mixture.log_probability(_rows())), _rows()
    assert p.sum() == pytest.approx(1)
    b = mixture.beliefs()
    for i, s in enumerate(SIZES):
        expected = np.bincount(rows[:, i], p, minlength=s)
        np.testing.assert_allclose(b.nodes[model._states(i)], expected, atol=1e-12)
    assert any(len(t.far) for t in trees)  # some model edges are in no tree of a component
    for a, (i, j) in enumerate(model.ends):
        expected = np.bincount(rows[:, i] * SIZES[j] + rows[:, j], p)
        np.testing.assert_allclose(b.edges[model.first[a] : model.first[a + 1]], expected, atol=1e-12)


def _differences(model, trees, start, m, at, kind):
    found = []
    for step in (1e-5, -1e-5):
        logs = [x.copy() for x in getattr(start, kind)]
        logs[m][at] += step
        parts = {"nodes": start.nodes, "edges": start.edges, kind: logs}
        found.append(ascent.objective(model, trees, ascent.TreeStart(**parts, logits=start.logits))[0])
    return (found[0] - found[1]) / 2e-5


def _printed(model, tree, mixture, m):
    """(6.9) as printed: the slopes at the edge's own ends, and minus the mean of all."""
    slopes, part = model.slopes(mixture.beliefs()), mixture.parts[m]
    mean = part.nodes @ slopes.nodes + part.edges @ slopes.edges
    found = np.zeros(len(part.edges))
    for a in np.flatnonzero(tree.members):
        i, j = model.ends[a]
        own = np.add.outer(slopes.nodes[model._states(i)], slopes.nodes[model._states(j)]).ravel()
        mine = slice(model.first[a], model.first[a + 1])
        found[mine] = mixture.weights[m] * part.edges[mine] * (own + slopes.edges[mine] - mean)
    return found


def test_gradients_equal_finite_differences_and_the_printed_one_does_not():
    model, trees, start = _mixture(LOOPS)
    _, by_tree, by_logit, mixture = ascent.objective(model, trees, start)
    for m, tree in enumerate(trees):
        inside = np.flatnonzero(tree.inside)
        numeric = np.array([_differences(model, trees, start, m, at, "edges") for at in inside])
        np.testing.assert_allclose(by_tree[m].edges[inside], numeric, atol=1e-8)
        nodes = [_differences(model, trees, start, m, at, "nodes") for at in range(len(start.nodes[m]))]
        np.testing.assert_allclose(by_tree[m].nodes, nodes, atol=1e-8)
        printed = _printed(model, tree, mixture, m)[inside]
        assert np.abs(printed - numeric).max() > 0.01
        assert (np.sign(printed) != np.sign(numeric)).any()
    for m in range(len(trees)):
        shifted = [start.logits + s * np.eye(len(trees))[m] for s in (1e-5, -1e-5)]
        up, down = (
            ascent.objective(model, trees, ascent.TreeStart(start.nodes, start.edges, t))[0] for t in shifted
        )
        assert by_logit[m] == pytest.approx((up - down) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_the_linear_step_finds_the_best_joint_state(seed):
    model, trees, _ = _mixture(LOOPS, 1, seed)
    tree, rng = trees[0], np.random.default_rng(seed)
    nodes, edges = rng.normal(size=len(model.node_logs)), rng.normal(size=len(model.edge_logs))
    if seed == 3:
        nodes[:], edges[:] = 0.0, np.round(edges)  # many ties
    edges = np.where(tree.inside, edges, 0.0)
    values = [tree.vertex(x).nodes @ nodes + tree.vertex(x).edges @ edges for x in _rows()]
    best = tree.vertex(tree.best(nodes, edges))
    assert best.nodes @ nodes + best.edges @ edges == pytest.approx(max(values))


def test_frank_wolfe_rises_to_log_z_on_a_tree_from_below():
    graph = _graph(CHAIN)
    exact = credo.infer(graph, "junction-tree")
    found = _run(graph, "mixture-of-trees(optimiser=frank-wolfe, start=uniform, components=1)", max_iter=2000)
    values, gaps = found.trace["value"], found.trace["change"]
    assert (values <= exact.log_z.value + 1e-9).all()
    assert values[-1] == pytest.approx(exact.log_z.value, abs=5e-3)
    assert exact.log_z.value - values[-1] < 0.1 * (exact.log_z.value - values[20])
    # Concave: the value before a step plus the gap of that step is an upper bound.
    assert (values[:-1] + gaps[1:] >= exact.log_z.value - 1e-9).all()
    np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=0.02)
    (said,) = [float(note.split("<=")[1]) for note in found.notes if "log Z <=" in note]
    assert said == pytest.approx((values[:-1] + gaps[1:]).min(), abs=1e-8)  # not that after the last step


@pytest.mark.parametrize("trees", ["random", "maximum", "covering"])
@pytest.mark.parametrize("components", [1, 3])
def test_trees_are_solved_exactly_from_any_start(trees, components):
    graph = _graph(CHAIN)
    exact = credo.infer(graph, "junction-tree")
    found = _run(graph, f"mixture-of-trees(start=uniform, trees={trees}, components={components})")
    assert found.log_z.kind == "lower"
    assert found.log_z.value == pytest.approx(exact.log_z.value, abs=1e-8)
    assert found.log_z.value <= exact.log_z.value + 1e-10
    np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=1e-5)


def test_loops_bounds_and_the_value_of_belief_propagation():
    graph = _graph(LOOPS)
    exact, bp = credo.infer(graph, "junction-tree").log_z.value, credo.infer(graph, "bp")
    one = _run(graph, "mixture-of-trees(components=1)").log_z
    assert one.kind == "lower" and one.value < exact
    many = _run(graph, "mixture-of-trees(components=6, trees=covering)")
    assert many.log_z.kind == "estimate"
    # A joint with the marginals of the BP fixed point exists here, and six trees find it.
    assert many.log_z.value == pytest.approx(bp.log_z.value, abs=1e-6)
    np.testing.assert_allclose(many.marginals.flat, bp.marginals.flat, atol=1e-3)
    bound = next(float(n.rpartition(" ")[2]) for n in many.notes if "prove log Z >=" in n)
    assert bound <= exact
    frozen = _run(graph, "mixture-of-trees(components=4, learn_weights=False, restarts=2)")
    np.testing.assert_allclose(frozen.state.weights, 0.25)
    assert "2 starts gave values" in frozen.notes[-1]


def test_zeros_one_state_variables_constants_and_disconnected_parts():
    tables = {
        ("a", "b"): [[1, 0], [2, 3]],
        ("b", "c"): [[1], [2]],
        ("d",): [0, 2],
        ("e",): [3, 4, 5],
        (): 7.0,
    }
    graph = credo.FactorGraph({"a": 2, "b": 2, "c": 1, "d": 2, "e": 3, "f": 2}, tables)
    exact = credo.infer(graph, "enumerate")
    for spec in ("mixture-of-trees(components=2)", "mixture-of-trees(optimiser=frank-wolfe)"):
        found = _run(graph, spec, max_iter=500)
        assert np.isfinite(found.marginals.flat).all()
        np.testing.assert_allclose(found.marginals.flat, exact.marginals.flat, atol=0.01)
        assert found.marginals["d"][0] == 0
    with pytest.raises(ZeroProbabilityError):
        credo.infer(graph, "mixture-of-trees", evidence={"a": 0, "b": 1})
    assert _run(graph, "mixture-of-trees", evidence={"a": 0}).marginals["b"][0] == pytest.approx(1)
    everything = _run(graph, "mixture-of-trees", evidence=dict.fromkeys("abcdef", 0) | {"d": 1})
    assert everything.log_z.value == pytest.approx(np.log(1 * 1 * 2 * 3 * 7))


def test_samples_have_the_beliefs_as_frequencies():
    graph = _graph(LOOPS)
    found = credo.sample(graph, 20000, method="mixture-of-trees", seed=3)
    beliefs = _run(graph, "mixture-of-trees").marginals
    again = credo.sample(graph, 20000, method="mixture-of-trees", seed=3)
    np.testing.assert_array_equal(found.indices, again.indices)
    for i, name in enumerate(beliefs):
        freq = np.bincount(found.indices[:, i], minlength=SIZES[i]) / 20000
        np.testing.assert_allclose(freq, beliefs[name], atol=0.03)


@pytest.mark.parametrize(
    ("graph", "question", "says"),
    [
        (
            _graph(CHAIN),
            {"maximise": "all"},
            "it gives marginals and log Z and samples, and the question asks for MAP",
        ),
        (
            credo.FactorGraph(dict.fromkeys("abc", 2), {("a", "b", "c"): np.arange(1, 9)}),
            {},
            "more than two variables",
        ),
        (
            credo.FactorGraph(
                dict.fromkeys("abc", 2), {tuple(p): [[0, 1], [1, 1]] for p in ("ab", "bc", "ca")}
            ),
            {},
            "factors with zeros close a cycle",
        ),
        (gaussian_tree(3), {}, "it works on discrete variables, and 'x0' is continuous .real."),
    ],
    ids=["maxima", "wide", "zeros in a cycle", "real"],
)
def test_refusals(graph, question, says):
    with pytest.raises(UnsupportedError, match=says):
        credo.infer(graph, "mixture-of-trees", **question)


@pytest.mark.parametrize(
    "spec",
    ["mixture-of-trees(components=0)", "mixture-of-trees(trees=oak)", "mixture-of-gaussian-trees(nodes=1)"],
)
def test_wrong_options_are_named(spec):
    with pytest.raises(OptionError, match="must be"):
        credo.infer(_graph(CHAIN), spec)


def test_the_time_given_is_kept():
    found = _run(_graph(LOOPS), "mixture-of-trees", seconds=0.0)
    assert found.status is Status.OUT_OF_TIME
    assert np.isfinite(found.log_z.value)


@pytest.mark.parametrize("optimiser", ["gradient", "frank-wolfe"])
@pytest.mark.parametrize("call", [3, 12])
def test_ctrl_c_returns_the_best_so_far(monkeypatch, optimiser, call):
    calls, real = itertools.count(1), PairModel.slopes

    def interrupted(self, beliefs):
        if next(calls) == call:
            raise KeyboardInterrupt
        return real(self, beliefs)

    monkeypatch.setattr(PairModel, "slopes", interrupted)
    found = _run(_graph(LOOPS), f"mixture-of-trees(restarts=3, optimiser={optimiser})", max_iter=5)
    assert found.status is Status.INTERRUPTED and np.isfinite(found.log_z.value)
    assert any("starts gave values" in note for note in found.notes)


# Gaussian trees


def _tree(n=6, seed=0):
    net = gaussian_tree(n, seed)
    up = np.full(n, -1)
    for c in range(1, n):
        up[c] = np.flatnonzero(net.precision[c, :c])[0]
    return net, GaussianTree.of_precision(up, np.arange(n), net.precision, net.shift)


def test_a_tree_precision_has_a_cholesky_factor_without_fill_in():
    net, tree = _tree()
    np.testing.assert_allclose(tree.mean, net.mean)
    np.testing.assert_allclose(tree.covariance(), net.covariance)
    np.testing.assert_allclose(tree.variance, np.diag(net.covariance))
    np.testing.assert_allclose(tree.precision().toarray(), net.precision, atol=1e-12)
    factor = tree.cholesky()
    assert factor.nnz == 2 * len(tree.up) - 1
    assert np.allclose(np.triu(factor.toarray(), 1), 0)
    backwards = net.precision[::-1, ::-1]
    np.testing.assert_allclose(factor.toarray(), np.linalg.cholesky(backwards), atol=1e-12)
    x = np.random.default_rng(0).normal(size=(5, 6))
    np.testing.assert_allclose(tree.log_density(x), multivariate_normal(net.mean, net.covariance).logpdf(x))
    rows = tree.sample(40000, np.random.default_rng(1))
    np.testing.assert_allclose(np.cov(rows.T), net.covariance, atol=0.1)


def test_scores_need_the_outer_product_and_twice_the_pairs():
    net, tree = _tree(4)
    x = np.array([0.3, -1.0, 2.0, 0.5])
    by_mean, by_precision = precision_score(tree, x)

    def log_density(mean, precision):
        return multivariate_normal(mean, np.linalg.inv(precision)).logpdf(x)

    for i in range(4):
        step = 1e-5 * np.eye(4)[i]
        numeric = (
            log_density(net.mean + step, net.precision) - log_density(net.mean - step, net.precision)
        ) / 2e-5
        assert by_mean[i] == pytest.approx(numeric, abs=1e-7)
    printed = 0.5 * (net.covariance - (x - net.mean) @ (x - net.mean))
    wrong = 0
    for i, j in itertools.combinations_with_replacement(range(4), 2):
        step = np.zeros((4, 4))
        step[i, j] = step[j, i] = 1e-5
        numeric = (
            log_density(net.mean, net.precision + step) - log_density(net.mean, net.precision - step)
        ) / 2e-5
        assert by_precision[i, j] == pytest.approx(numeric, abs=1e-6)
        wrong += abs(printed[i, j] - numeric) > 1e-3
        once = 0.5 * (net.covariance - np.outer(x - net.mean, x - net.mean))[i, j]
        assert i == j or 2 * once == pytest.approx(numeric, abs=1e-6)
    assert wrong > 5


@pytest.fixture(scope="module")
def gaussian_problem():
    """A Gaussian loop with two trees, and parameters that are no optimum."""
    from credo.inference.variational import gaussian_tree_value as program

    graph = gaussian_loop(4, strength=0.4).to_factor_graph()
    ends = np.array([[0, 1], [0, 3], [1, 2], [2, 3]])
    up = np.array([[-1, 0, 1, 2], [-1, 0, 3, 0]])
    rng = np.random.default_rng(2)
    parameters = program.GaussianTreeParameters(
        rng.normal(size=(2, 4)),
        0.4 * rng.normal(size=(2, 4)),
        0.2 * rng.normal(size=(2, 4)),
        np.array([0.3, -0.2]),
    )
    return program, program.GaussianTreeSystem.of(graph, ends, up), parameters


def test_score_gradients_equal_finite_differences_and_the_mean_of_samples(gaussian_problem):
    import jax

    from credo.nn.arrays import precision

    program, system, p = gaussian_problem
    _, slopes = program.value_and_slopes(system, p, nodes=48)
    for name in ("means", "slopes", "log_sds", "logits"):
        for at in [(0, 1), (1, 2), (1, 3)] if name != "logits" else [(0,), (1,)]:
            values = []
            for step in (1e-5, -1e-5):
                part = getattr(p, name).copy()
                part[at] += step
                values.append(program.value_and_slopes(system, p._replace(**{name: part}), nodes=48)[0])
            assert getattr(slopes, name)[at] == pytest.approx((values[0] - values[1]) / 2e-5, abs=5e-5)
    with precision(double=True):
        points = (jax.random.PRNGKey(0), np.zeros((20000, 0)))
        value, sampled = program._PROGRAM(
            p, system.arrays, points, functions=system.functions, estimate="samples"
        )
    assert float(value) == pytest.approx(program.value_and_slopes(system, p, nodes=48)[0], abs=0.05)
    for exact, estimate in zip(slopes, sampled, strict=True):
        np.testing.assert_allclose(np.asarray(estimate), exact, atol=0.12)


@pytest.mark.parametrize("gradient", ["quadrature", "samples"])
def test_a_gaussian_tree_is_recovered(gradient):
    net = gaussian_tree(5)
    rest = [0, 1, 3, 4]
    J, h = net.precision[np.ix_(rest, rest)], net.shift[rest] - net.precision[rest, 2] * 0.7
    mean, covariance = np.linalg.solve(J, h), np.linalg.inv(J)
    seen = net.shift[2] * 0.7 - 0.5 * net.precision[2, 2] * 0.7**2
    log_z = seen + 0.5 * (h @ mean + 4 * np.log(2 * np.pi) - np.linalg.slogdet(J)[1])
    spec = f"mixture-of-gaussian-trees(components=1, start=normal, nodes=3, gradient={gradient}, rate=0.1)"
    found = _run(net, spec, evidence={"x2": 0.7}, max_iter=600)
    assert found.log_z.kind == "lower"
    assert found.log_z.value == pytest.approx(log_z, abs=1e-8)
    for k, i in enumerate(rest):
        assert found.marginals[f"x{i}"].mean == pytest.approx(mean[k], abs=1e-5)
        assert found.marginals[f"x{i}"].variance == pytest.approx(covariance[k, k], abs=1e-5)
    assert found.marginals["x2"].mean == 0.7
    np.testing.assert_allclose(found.state.trees[0].precision().toarray(), J, atol=1e-4)


@pytest.mark.slow
def test_more_components_fit_a_chain_of_mixtures_better_and_stay_below_log_z():
    chain = laplace_chain(2)
    exact = truth(chain)
    found = [
        _run(chain, f"mixture-of-gaussian-trees(components={m}, nodes=12)", max_iter=200) for m in (1, 2)
    ]
    gaps = [exact.log_z - f.log_z.value for f in found]
    assert gaps[0] > gaps[1] > -0.01
    samples = credo.sample(chain, 3000, method="mixture-of-gaussian-trees(components=2, nodes=12)", seed=0)
    assert samples.column("x0").mean() == pytest.approx(found[1].marginals["x0"].mean, abs=0.15)


def test_gaussian_trees_refuse_what_they_cannot_treat(monkeypatch):
    x, y = real("x"), real("y")
    loose = credo.HybridNet([x, y], [potentials.laplace(x, scale=3.0), potentials.clamped_laplace(y)])
    with pytest.raises(ModelError, match="variable 'y': the product of its factors does not fall"):
        _run(loose, "mixture-of-gaussian-trees(components=1, nodes=3)")
    normal = [potentials.gaussian(x), potentials.gaussian(y)]
    saddle = credo.HybridNet([x, y], [*normal, credo.DensityFactor([x, y], lambda a, b: -3 * a * b)])
    with pytest.raises(ModelError, match="the product of all factors does not fall when they move together"):
        _run(saddle, "mixture-of-gaussian-trees(components=1, nodes=3)")
    half = credo.DensityFactor([y], lambda b: namespace(b).where(b > 0, 0.0, -np.inf))
    with pytest.raises(UnsupportedError, match=r"factor over \['y'\] is zero on part of its domain"):
        _run(credo.HybridNet([x, y], [*normal, half]), "mixture-of-gaussian-trees(components=1, nodes=3)")
    monkeypatch.setattr(mixture_of_gaussian_trees, "_ENDLESS", -1.0)
    with pytest.raises(UnsupportedError, match=r"belief of '.' widens without end"):
        _run(credo.HybridNet([x, y], normal), "mixture-of-gaussian-trees(components=1, nodes=3)")
    for graph, question, says in [
        (_graph(CHAIN), {}, "it works on real variables, and 'x0' is discrete"),
        (gaussian_tree(3), {"maximise": "all"}, "the question asks for MAP"),
    ]:
        with pytest.raises(UnsupportedError, match=says):
            credo.infer(graph, "mixture-of-gaussian-trees", **question)


@pytest.mark.parametrize("gradient", ["quadrature", "samples"])
def test_ctrl_c_returns_the_best_gaussian_trees_so_far(monkeypatch, gradient):
    from credo.inference.variational import gaussian_tree_ascent as program

    name = "_ADVANCE" if gradient == "samples" else "value_and_slopes"
    calls, real = itertools.count(1), getattr(program, name)

    def interrupted(*arguments, **options):
        if next(calls) == 8:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(program, name, interrupted)
    found = _run(gaussian_loop(), f"mixture-of-gaussian-trees(gradient={gradient}, samples=10)")
    assert found.status is Status.INTERRUPTED and np.isfinite(found.log_z.value)


def test_the_time_given_is_kept_by_gaussian_trees():
    found = _run(gaussian_loop(), "mixture-of-gaussian-trees(restarts=9)", seconds=0.0)
    assert found.status is Status.OUT_OF_TIME and found.notes[-1].startswith("1 starts")


def test_components_that_coincide_count_once():
    grid = credo.datasets.ising_grid(3, seed=0)
    same = credo.infer(grid, "mixture-of-trees(trees=maximum, spread=0)", seed=0)
    assert "1 of 3 components in effect" in same.notes
    assert same.state.effective == pytest.approx(1.0)
    net = credo.GaussianNet([[2.0, -0.8, 0.0], [-0.8, 1.5, 0.3], [0.0, 0.3, 1.0]], [1.0, 0.0, 2.0])
    found = credo.infer(net, "mixture-of-gaussian-trees(components=2)", seed=0)
    assert "1 of 2 components in effect" in found.notes


@pytest.mark.parametrize("optimiser", ["gradient", "frank-wolfe"])
def test_converged_means_that_the_slope_or_the_gap_vanishes(optimiser):
    for seed in range(3):
        grid = credo.datasets.ising_grid(3, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = credo.infer(grid, f"mixture-of-trees(optimiser={optimiser})", seed=0, max_iter=300)
        last = found.trace["change"][-1]
        left = min(last, last**2) if optimiser == "gradient" else last
        assert not found.converged or left < 1e-8 * max(1.0, abs(found.log_z.value))
        assert len(found.trace["log_z"]) == len(found.trace["change"])
