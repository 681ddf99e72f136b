"""Trees and chains of Parzen densities: the best of all, with Z = 1 and the densities as marginals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import norm

import credo
from credo import HybridNet, potentials
from credo.core.errors import CredoError, DataError, OptionError
from credo.core.result import Samples
from credo.learning import kernel_bandwidth, kernel_chow_liu, kernel_information
from credo.learning.continuous_structure import _best_path, _grown_path

POINTS = np.linspace(-9.0, 9.0, 145)
NAMES = ("a", "b", "c", "d")


def degrees(net):
    """How many factors of two variables touch each variable."""
    pairs = [scope for scope in net.to_factor_graph().scopes if len(scope) == 2]
    return np.bincount(np.concatenate(pairs), minlength=len(net.variables))


def rows(count=60, n=4, seed=0):
    """Standardised columns of which the first three are two clusters."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(count, n)) @ rng.normal(size=(n, n))
    mixed[:, :3] += 3.0 * rng.integers(2, size=(count, 1))
    return (mixed - mixed.mean(axis=0)) / mixed.std(axis=0)


def columns(*args, **options):
    return dict(zip(NAMES, rows(*args, **options).T, strict=False))


def integrals(net, points=POINTS):
    """Z and the marginal density of every variable, by sums over a grid in one contraction."""
    letters = dict(zip(net.variables.names, "abcdefgh", strict=False))
    step = points[1] - points[0]
    tables = []
    for factor in net.factors:
        mesh = np.meshgrid(*[points] * len(factor.scope), indexing="ij", sparse=True)
        tables.append(np.exp(factor.log_values(*mesh)))
    scopes = ["".join(letters[n] for n in factor.names) for factor in net.factors]

    def contract(out):
        return np.einsum(f"{','.join(scopes)}->{out}", *tables, optimize=True)

    n = len(net.variables)
    return float(contract("")) * step**n, {v: contract(k) * step ** (n - 1) for v, k in letters.items()}


def tree_likelihood(data, width, edges):
    """Log-likelihood of the rows under the tree of Parzen densities, from its definition."""

    def density(*which):
        kernels = [norm.pdf(data[:, None, i], data[None, :, i], width[i]) for i in which]
        return np.log(np.prod(kernels, axis=0).mean(axis=1))

    total = sum(density(i).sum() for i in range(data.shape[1]))
    return total + sum((density(i, j) - density(i) - density(j)).sum() for i, j in edges)


def all_trees(n):
    pairs = list(itertools.combinations(range(n), 2))
    for edges in itertools.combinations(pairs, n - 1):
        reached = {0}
        for _ in edges:
            reached |= {v for e in edges if reached & set(e) for v in e}
        if len(reached) == n:
            yield edges


def edges_of(net):
    place = net.variables.position
    return [tuple(place(name) for name in f.names) for f in net.factors if len(f.scope) == 2]


@pytest.mark.parametrize("seed", range(3))
def test_no_tree_of_four_variables_is_more_likely(seed):
    data = rows(seed=seed)
    width = [kernel_bandwidth(column) for column in data.T]
    values = {edges: tree_likelihood(data, width, edges) for edges in all_trees(4)}
    assert len(values) == 16
    found = kernel_chow_liu(data, NAMES)
    assert tree_likelihood(data, width, edges_of(found)) == pytest.approx(max(values.values()))


@pytest.mark.parametrize("seed", range(3))
def test_no_chain_of_four_variables_is_more_likely(seed):
    data = rows(seed=seed)
    width = [kernel_bandwidth(column) for column in data.T]
    best = max(
        tree_likelihood(data, width, list(itertools.pairwise(order)))
        for order in itertools.permutations(range(4))
    )
    found = kernel_chow_liu(data, NAMES, structure="chain")
    assert tree_likelihood(data, width, edges_of(found)) == pytest.approx(best)
    assert sorted(degrees(found)) == [1, 1, 2, 2]


def test_the_best_path_is_that_of_all_orders_and_the_grown_one_is_a_path_below_it():
    for seed in range(4):
        gain = np.random.default_rng(seed).random((6, 6))
        gain += gain.T

        def weight(path, gain=gain):
            return sum(gain[i, j] for i, j in itertools.pairwise(path))

        best, grown = _best_path(gain), _grown_path(gain)
        assert sorted(best) == sorted(grown) == list(range(6))
        assert weight(best) == pytest.approx(max(map(weight, itertools.permutations(range(6)))))
        assert weight(grown) <= weight(best) + 1e-12


def test_a_grown_path_finds_a_strong_chain():
    order = [3, 0, 4, 1, 5, 2]
    gain = np.full((6, 6), 0.1)
    for i, j in itertools.pairwise(order):
        gain[i, j] = gain[j, i] = 1.0 + 0.1 * i
    assert _grown_path(gain) in (order, order[::-1])


@pytest.mark.parametrize("structure", ["tree", "chain"])
@pytest.mark.parametrize("place", ["edges", "nodes"])
def test_z_is_one_and_the_marginals_are_the_parzen_densities(structure, place):
    data = columns()
    z, marginals = integrals(kernel_chow_liu(data, structure=structure, place=place))
    assert z == pytest.approx(1.0, abs=1e-6)
    for name, column in data.items():
        width = kernel_bandwidth(column)
        expected = norm.pdf(POINTS[:, None], column, width).mean(axis=1)
        np.testing.assert_allclose(marginals[name], expected, atol=1e-6)


def test_the_printed_exponents_do_not_give_one():
    """Exponents 1 - d instead of 1 - 1/d."""
    data = columns()
    right = kernel_chow_liu(data, structure="chain")
    graph = right.to_factor_graph()
    wrong = []
    for factor in right.factors:
        rows, width, _ = factor.parameters
        powers = 1.0 - degrees(right)[graph.variables.positions(factor.names)]
        wrong.append(potentials.density_ratio(*factor.scope, rows, width, powers))
    z, _ = integrals(HybridNet(right.variables, wrong))
    assert abs(integrals(right)[0] - 1) < 1e-6
    assert z < 0.1


def test_different_bandwidths_of_a_variable_would_not_give_one():
    data = columns()
    (name, *_), rest = data, list(data)[1]
    joint = np.stack([data[name], data[rest]], axis=1)
    x, y = (credo.Variable(n, credo.Real()) for n in (name, rest))
    factors = [
        potentials.kernel_density([x], data[name], 0.8),
        potentials.kernel_density([y], data[rest], 0.8),
        potentials.density_ratio(x, y, joint, (0.4, 0.4)),
    ]
    assert abs(integrals(HybridNet([x, y], factors))[0] - 1) > 1e-3


def test_information_is_the_average_and_the_integral_of_the_log_ratio():
    data = rows(40, 3)
    width = np.array([0.5, 0.4, 0.6])
    by_rows = kernel_information(data, bandwidth=width)
    by_integral = kernel_information(data, bandwidth=width, information="quadrature")
    step = POINTS[1] - POINTS[0]
    for i, j in itertools.combinations(range(3), 2):
        one, other = (norm.pdf(POINTS[:, None], data[:, k], width[k]) for k in (i, j))
        joint = one @ other.T / len(data)
        ratio = np.log(joint / np.outer(one.mean(axis=1), other.mean(axis=1)))
        assert by_integral[i, j] == pytest.approx((joint * ratio).sum() * step**2, abs=1e-7)
        kernels = [norm.pdf(data[:, None, k], data[:, k], width[k]) for k in (i, j)]
        own = np.log((kernels[0] * kernels[1]).mean(axis=1))
        own -= np.log(kernels[0].mean(axis=1)) + np.log(kernels[1].mean(axis=1))
        assert by_rows[i, j] == pytest.approx(own.mean())
    assert not by_rows.diagonal().any() and np.array_equal(by_rows, by_rows.T)


def test_information_in_blocks_is_the_same(monkeypatch):
    data = rows(30)
    whole = kernel_information(data)
    monkeypatch.setattr("credo.learning.continuous_structure._NUMBERS", 4 * 30 * 7)
    np.testing.assert_allclose(kernel_information(data), whole)


def test_information_of_gaussian_rows_is_near_that_of_the_gaussian():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    y = 0.8 * x + 0.6 * rng.normal(size=2000)
    found = kernel_information({"x": x, "y": y}, information="quadrature")[0, 1]
    assert found == pytest.approx(-0.5 * np.log(1 - 0.64), abs=0.06)


def test_the_structure_does_not_depend_on_units():
    data = columns()
    other = {name: 1000.0 * column - 3.0 for name, column in data.items()}
    assert edges_of(kernel_chow_liu(data)) == edges_of(kernel_chow_liu(other))
    np.testing.assert_allclose(kernel_information(data), kernel_information(other), rtol=1e-6)


def test_a_threshold_leaves_parts_whose_lonely_variables_keep_their_density():
    rng = np.random.default_rng(1)
    x = rng.normal(size=300)
    data = {"x": x, "y": x + 0.3 * rng.normal(size=300), "lonely": rng.normal(size=300)}
    net = kernel_chow_liu(data, threshold=0.5)
    assert sorted(f.names for f in net.factors) == [("lonely",), ("x", "y")]
    assert integrals(net)[0] == pytest.approx(1.0, abs=1e-6)


def test_one_variable_is_its_density():
    net = kernel_chow_liu({"x": [0.0, 1.0, 3.0]}, structure="chain")
    assert integrals(net)[0] == pytest.approx(1.0, abs=1e-6)


def test_given_edges_are_taken():
    data = columns()
    net = kernel_chow_liu(data, structure=[("a", "c"), ("d", "c"), ("b", "c")], bandwidth="scott")
    assert degrees(net).tolist() == [1, 1, 3, 1]
    assert integrals(net)[0] == pytest.approx(1.0, abs=1e-6)


def test_many_variables_make_a_chain(monkeypatch):
    monkeypatch.setattr("credo.learning.continuous_structure._EXACT_CHAIN", 3)
    net = kernel_chow_liu(columns(), structure="chain")
    assert sorted(degrees(net)) == [1, 1, 2, 2]


def test_all_forms_of_data_are_the_same(tmp_path):
    pandas = pytest.importorskip("pandas")
    data = columns(20)
    frame = pandas.DataFrame(data)
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    variables = credo.HybridNet({name: credo.Real() for name in data}).variables
    samples = Samples(variables, np.full((20, 4), -1), data)
    expected = kernel_information(data)
    for form in (frame, path, str(path), samples):
        np.testing.assert_allclose(kernel_information(form), expected)
    np.testing.assert_allclose(kernel_information(rows(20), NAMES), expected)


def test_bandwidth_rules():
    column = np.random.default_rng(0).normal(size=1000)
    assert kernel_bandwidth(column, "scott") == pytest.approx(1.06 * column.std(ddof=1) * 1000**-0.2)
    assert kernel_bandwidth(column) < kernel_bandwidth(column, "scott")
    heavy = np.concatenate([np.zeros(80), np.arange(20.0)])  # quartiles coincide
    assert kernel_bandwidth(heavy) == pytest.approx(0.9 * heavy.std(ddof=1) * 100**-0.2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: kernel_chow_liu({"x": [1.0, np.nan]}), DataError, "column 'x', row 1: expected a finite"),
        (lambda: kernel_chow_liu({"x": ["a", "b"]}), DataError, "column 'x': expected numbers"),
        (lambda: kernel_chow_liu({"x": [[1.0], [2.0]]}), DataError, "expected one number per row"),
        (lambda: kernel_chow_liu({"x": [1.0], "y": [1.0, 2.0]}), DataError, "equally many rows"),
        (lambda: kernel_chow_liu({}), DataError, "at least one column"),
        (lambda: kernel_chow_liu([1.0, 2.0]), DataError, r"shape \(rows, n\), got shape \(2,\)"),
        (lambda: kernel_chow_liu({"x": [2.0, 2.0]}), DataError, "column 'x': a bandwidth by rule needs"),
        (lambda: kernel_chow_liu(rows(), ["a", "a", "b", "c"]), OptionError, "names: expected 4 different"),
        (lambda: kernel_chow_liu(columns(), ["a"]), OptionError, "names already"),
        (lambda: kernel_chow_liu(columns(), bandwidth=0.0), OptionError, "expected positive numbers"),
        (lambda: kernel_chow_liu(columns(), bandwidth=[1, 2]), OptionError, "a number or 4 numbers"),
        (lambda: kernel_chow_liu(columns(), bandwidth="wide"), OptionError, "bandwidth must be one of"),
        (lambda: kernel_chow_liu(columns(), structure="star"), OptionError, "structure must be one of"),
        (lambda: kernel_chow_liu(columns(), structure=[("a", "z")]), OptionError, "expected pairs of"),
        (lambda: kernel_chow_liu(columns(), structure=[("a", "b"), ("b", "a")]), OptionError, "cycle"),
        (lambda: kernel_chow_liu(columns(), place="both"), OptionError, "place must be one of"),
        (lambda: kernel_chow_liu(columns(), threshold=-1), OptionError, "threshold must be at least 0"),
        (lambda: kernel_information(columns(), information="guess"), OptionError, "information must be"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert isinstance(caught.value, CredoError)
