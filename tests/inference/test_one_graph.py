"""One graph for all domains: conditioning comes first, and what is exact is answered exactly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse import diags_array

import credo
from credo import TableFactor, Variable, potentials
from credo.core.errors import ModelError, UnsupportedError, ZeroProbabilityError
from credo.core.linear_gaussian import BilinearFactor, LinearGaussianFactor
from credo.core.result import Status
from credo.families import Gaussian
from hybrid_fuzz import Case, forms, random_case
from hybrid_zoo import close, real, switching, truth
from seeds import each_seed
from sequence_answers import decoded, smoothed


def two_states() -> credo.HybridNet:
    x, s = real("x"), Variable("s", ["off", "on"])
    return credo.HybridNet(
        [x, s], [potentials.emission(x, s, [0.0, 2.0], [1.0, 0.5]), TableFactor([s], [0.7, 0.3])]
    )


METHODS = [
    None,
    "junction-tree",
    "enumerate",
    "bp",
    "elimination",
    "gbp",
    "trw",
    "mean-field",
    "wmb",
    "conditional-gaussian",
]


@pytest.mark.parametrize("method", METHODS)
def test_an_observed_emission_is_answered_exactly_by_every_discrete_method(method):
    found = credo.infer(two_states(), method, evidence={"x": 1.3})
    joint = np.array([0.7, 0.3]) * np.exp(-0.5 * (1.3 - np.array([0.0, 2.0])) ** 2 / np.array([1.0, 0.5]))
    joint /= np.sqrt(2 * np.pi * np.array([1.0, 0.5]))
    np.testing.assert_allclose(found.marginals["s"], joint / joint.sum(), atol=1e-12)
    assert found.log_z.value == pytest.approx(np.log(joint.sum()), abs=1e-12)
    assert found.marginals["x"].mean == 1.3
    if method in (None, "junction-tree", "enumerate", "elimination"):
        assert found.status is Status.EXACT and found.log_z.kind == "exact"
    if method is None:
        assert "junction-tree" in found.notes[0]


def test_a_long_switching_chain_with_observed_emissions_is_the_hmm():
    n, rng = 1000, np.random.default_rng(0)
    start, transition = np.array([0.5, 0.3, 0.2]), rng.dirichlet(np.full(3, 2.0), 3)
    means, variances = np.array([-1.0, 0.5, 2.0]), np.array([0.5, 1.0, 0.7])
    states = [Variable(f"s{i}", 3) for i in range(n)]
    reals = [real(f"x{i}") for i in range(n)]
    factors = [TableFactor([states[0]], start)]
    factors += [TableFactor(pair, transition) for pair in itertools.pairwise(states)]
    factors += [potentials.emission(x, s, means, variances) for x, s in zip(reals, states, strict=True)]
    net = credo.HybridNet([*states, *reals], factors)
    values = rng.normal(size=n) * 1.5
    hmm = credo.HMM(start, transition, Gaussian(means[:, None], variances[:, None, None]))
    posterior = smoothed(hmm, values[:, None])
    evidence = (np.arange(n, 2 * n), values)
    for given in (evidence, {x.name: value for x, value in zip(reals, values.tolist(), strict=True)}):
        found = credo.infer(net, evidence=given)
        assert found.status is Status.EXACT and found.algorithm == "junction-tree"
        assert found.log_z.value == pytest.approx(posterior.log_z[0], abs=1e-10)
        marginals = np.array([found.marginals[s.name] for s in states])
        np.testing.assert_allclose(marginals, posterior.marginals, atol=1e-10)
    path, score = decoded(hmm, values[:, None])
    best = credo.infer(net, evidence=evidence, maximise="all")
    assert best.score.value == pytest.approx(score, abs=1e-9)
    assert [int(best.assignment[s.name]) for s in states] == path.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_a_bilinear_factor_is_a_table_per_pair(seed):
    rng = np.random.default_rng(seed)
    left = [Variable(f"v{i}", 2 + i % 2) for i in range(4)]
    right = [Variable(f"h{j}", 2) for j in range(3)]
    weights = rng.normal(size=(4, 3))
    unary = [TableFactor([v], rng.uniform(0.2, 1, v.size)) for v in left + right]
    machine = credo.FactorGraph(left + right, [BilinearFactor(left, right, weights), *unary])
    tables = [
        TableFactor.from_log([v, h], weights[i, j] * np.multiply.outer(np.arange(v.size), np.arange(2)))
        for i, v in enumerate(left)
        for j, h in enumerate(right)
    ]
    pairs = credo.FactorGraph(left + right, [*tables, *unary])
    for evidence in ({}, {"v0": 1, "h2": 1}, {v.name: 1 for v in left}):
        expected = credo.infer(pairs, "enumerate", evidence=evidence)
        for method in (None, "junction-tree", "enumerate"):
            found = credo.infer(machine, method, evidence=evidence)
            assert found.log_z.value == pytest.approx(expected.log_z.value, abs=1e-12)
            for name in machine.variables.names:
                np.testing.assert_allclose(found.marginals[name], expected.marginals[name], atol=1e-12)
    assert machine.as_tables().n_factors == pairs.n_factors


def test_a_sparse_field_is_answered_like_a_dense_one():
    rng = np.random.default_rng(1)
    matrix = diags_array([rng.uniform(-1, 0, 39), rng.uniform(2.5, 3, 40)], offsets=[1, 0])
    matrix = (matrix + diags_array([matrix.diagonal(1)], offsets=[-1])).tocsr()
    shift = rng.normal(size=40)
    net = credo.GaussianNet(matrix, shift)
    found = credo.infer(net, evidence=(np.array([0, 7]), np.array([1.0, -2.0])))
    J, keep = matrix.toarray(), np.setdiff1d(np.arange(40), [0, 7])
    h = (shift - J[:, [0, 7]] @ [1.0, -2.0])[keep]
    covariance = np.linalg.inv(J[np.ix_(keep, keep)])
    assert found.status is Status.EXACT
    for i, mean, variance in zip(keep, covariance @ h, np.diag(covariance), strict=True):
        assert found.marginals[f"x{i}"].mean == pytest.approx(mean, abs=1e-12)
        assert found.marginals[f"x{i}"].variance == pytest.approx(variance, abs=1e-12)
    seen = np.array([1.0, -2.0])
    constant = shift[[0, 7]] @ seen - 0.5 * seen @ J[np.ix_([0, 7], [0, 7])] @ seen
    log_z = 0.5 * (h @ covariance @ h + 38 * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1])
    assert found.log_z.value == pytest.approx(constant + log_z, abs=1e-10)


def test_a_sparse_field_of_ten_thousand_variables_is_answered():
    n = 10_000
    ones = np.full(n - 1, -1.0)
    matrix = diags_array([ones, np.full(n, 2.1), ones], offsets=[-1, 0, 1]).tocsr()
    found = credo.infer(credo.GaussianNet(matrix, np.ones(n)))
    assert found.status is Status.EXACT
    assert found.marginals["x5000"].mean == pytest.approx(10.0, abs=1e-9)
    assert found.marginals["x5000"].variance == pytest.approx(1 / np.sqrt(2.1**2 - 4), abs=1e-9)


def regression() -> credo.HybridNet:
    """Two switches, a regression of y on x in both, one emission and a Gaussian block."""
    s, t = Variable("s", 2), Variable("t", 3)
    x, y = real("x"), real("y")
    rng = np.random.default_rng(2)
    link = LinearGaussianFactor.conditional(
        y, [x], [t, s], rng.uniform(-1, 1, (3, 2, 1)), rng.uniform(0.5, 1.5, (3, 2)), rng.normal(size=(3, 2))
    )
    return credo.HybridNet(
        [s, x, t, y],
        [
            TableFactor([s, t], [[0.3, 0.0, 0.2], [0.1, 0.3, 0.1]]),
            potentials.emission(x, s, [-1.0, 1.5], [0.5, 1.0]),
            credo.GaussianFactor([y, x], [[0.3, 0.1], [0.1, 0.2]], [0.5, -0.2], 0.7),
            link,
        ],
    )


@pytest.mark.parametrize("model", [switching(), regression(), two_states()], ids=["switching", "link", "two"])
def test_models_that_are_gaussian_given_states_are_exact(model):
    expected = truth(model)
    found = credo.infer(model)
    assert found.algorithm == "conditional-gaussian" and found.status is Status.EXACT
    assert found.log_z.kind == "exact"
    assert found.log_z.value == pytest.approx(expected.log_z, abs=1e-9)
    close(found, expected, 1e-8)


@each_seed(range(30))
def test_maxima_and_marginal_maxima_are_those_of_brute_force(seed):
    case = random_case(seed, gaussian=True)
    reals, found = forms(case)
    if not found:
        with pytest.raises(ZeroProbabilityError, match=r"probability zero|weight zero"):
            credo.infer(case.model, "conditional-gaussian", evidence=case.evidence, maximise="all")
        return
    states = [v.name for v in case.free if v.is_discrete]
    names = [v.name for v in reals]
    for maximise in ("all", states, [*states, *names[:1]]):
        if not len(maximise):
            continue
        flags = np.array([maximise == "all" or n in maximise for n in names], dtype=bool)
        scores = [form.integral(flags) for form in found]
        best = found[int(np.argmax(scores))]
        answer = credo.infer(case.model, "conditional-gaussian", evidence=case.evidence, maximise=maximise)
        assert answer.status in (Status.EXACT, Status.OPTIMAL)
        assert answer.score.value == pytest.approx(max(scores), abs=1e-9)
        if len(scores) == 1 or np.diff(np.sort(scores)[-2:]) > 1e-6:
            assert {n: int(answer.assignment[n]) for n in states} == best.state
            for name, number, flag in zip(names, best.mode, flags, strict=True):
                if flag:
                    assert answer.assignment[name] == pytest.approx(number, abs=1e-9)


@each_seed(range(30, 38))
def test_samples_have_the_moments(seed):
    case = random_case(seed, gaussian=True)
    if not forms(case)[1]:
        with pytest.raises(ZeroProbabilityError, match=r"probability zero|weight zero"):
            credo.sample(case.model, 10, evidence=case.evidence, method="conditional-gaussian")
        return
    exact = credo.infer(case.model, "conditional-gaussian", evidence=case.evidence)
    drawn = credo.sample(case.model, 4000, evidence=case.evidence, method="conditional-gaussian", seed=1)
    for v in case.free:
        column, own = drawn.column(v.name), exact.marginals[v.name]
        if v.is_discrete:
            share = np.bincount(column, minlength=v.size) / 4000
            np.testing.assert_allclose(share, own, atol=5 * 0.5 / np.sqrt(4000))
        else:
            assert abs(column.mean() - own.mean) < 5 * own.sd / np.sqrt(4000)
            assert column.var() == pytest.approx(own.variance, rel=0.25)
    for name, value in case.evidence.items():
        if not isinstance(value, list):
            assert (drawn.column(name) == value).all()


def test_what_conditional_gaussian_models_cannot_do_is_said():
    model = regression()
    with pytest.raises(
        UnsupportedError, match=r"real variables are maximised, and '[st]', which they depend on"
    ):
        credo.infer(model, "conditional-gaussian", maximise=["x"])
    with pytest.raises(UnsupportedError, match="the question asks for powered sums"):
        credo.infer(model, "conditional-gaussian", temperatures={"x": 0.5})
    x = real("x")
    laplace = credo.HybridNet([x], [potentials.laplace(x)])
    with pytest.raises(UnsupportedError, match=r"it reads linear-gaussian, .* factors, and some are density"):
        credo.infer(laplace, "conditional-gaussian")
    theta = Variable("theta", credo.Simplex(3))
    simplex = credo.HybridNet([theta], [potentials.dirichlet(theta, 2.0)])
    with pytest.raises(UnsupportedError, match=r"'theta' is continuous \(simplex\) and not observed"):
        credo.infer(simplex, "conditional-gaussian")
    states = [Variable(f"s{i}", 2) for i in range(40)]
    reals = [real(f"x{i}") for i in range(40)]
    chain = [
        LinearGaussianFactor.conditional(b, [a], [s], [[0.5], [0.9]], 1.0)
        for (a, b), s in zip(itertools.pairwise(reals), states, strict=False)
    ]
    wide = credo.HybridNet([*states, *reals], [potentials.gaussian(reals[0]), *chain])
    with pytest.raises(UnsupportedError, match="integrating real variables state by state would take"):
        credo.infer(wide, "conditional-gaussian")
    s = Variable("s", ["tight", "loose"])
    loose = credo.HybridNet([x, s], [LinearGaussianFactor([x, s], [[1.0], [0.0]])])
    with pytest.raises(ModelError, match=r"no integral.*\['x'\] given \{'s': 'loose'\}"):
        credo.infer(loose, "conditional-gaussian")


def test_functions_of_states_do_not_hinder_exact_answers():
    s, t, x = Variable("s", 2), Variable("t", 3), real("x")
    slope = credo.DensityFactor([s, t], lambda s, t: 0.3 * s * t)
    layers = BilinearFactor([s], [t], [[0.4]])
    model = credo.HybridNet([s, t, x], [slope, layers, potentials.emission(x, s, [0.0, 1.0], 1.0)])
    found = credo.infer(model)
    assert found.algorithm == "conditional-gaussian"
    weight = np.exp(0.7 * np.multiply.outer(np.arange(2), np.arange(3)))
    assert found.log_z.value == pytest.approx(np.log(weight.sum()), abs=1e-12)
    np.testing.assert_allclose(found.marginals["t"], weight.sum(axis=0) / weight.sum(), atol=1e-12)


def test_far_numbers_lose_no_digits():
    x, s = real("x"), Variable("s", 2)
    near = credo.HybridNet(
        [x, s], [potentials.emission(x, s, [0.0, 1.0], 1e-6), TableFactor([s], [0.5, 0.5])]
    )
    far = credo.HybridNet(
        [x, s], [potentials.emission(x, s, [1e6, 1e6 + 1.0], 1e-6), TableFactor([s], [0.5, 0.5])]
    )
    for evidence, shifted in (({}, {}), ({"x": 0.5}, {"x": 1e6 + 0.5})):
        one, other = credo.infer(near, evidence=evidence), credo.infer(far, evidence=shifted)
        assert one.log_z.value == pytest.approx(other.log_z.value, abs=1e-9)
        np.testing.assert_allclose(one.marginals["s"], other.marginals["s"], atol=1e-9)


def test_nothing_is_left_to_ask():
    case = Case(two_states(), {"x": 1.3, "s": "on"}, True)
    found = credo.infer(case.model, evidence=case.evidence)
    assert found.status is Status.EXACT
    assert found.log_z.value == pytest.approx(np.log(0.3) - 0.49 - 0.5 * np.log(np.pi), abs=1e-12)
