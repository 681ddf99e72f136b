"""Questions a mixture of products answers by itself, against enumeration and numerical integration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import dirichlet, norm

import credo
from credo.core.errors import EvidenceError, OptionError, QueryError, ZeroProbabilityError
from credo.core.variable import Variables
from credo.inference.variational.surrogate import Surrogate

GRID = np.linspace(-12, 12, 241)
STEP = GRID[1] - GRID[0]


def discrete(sizes=(2, 3, 2, 4), components=3, seed=0, zeros=False) -> Surrogate:
    rng = np.random.default_rng(seed)
    tables = [rng.dirichlet(np.ones(k), components).T for k in sizes]
    if zeros:
        for table in tables:
            table[rng.integers(len(table), size=components), np.arange(components)] = 0
        tables = [table / table.sum(axis=0) for table in tables]
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate(tables))
    none = np.zeros((0, components))
    variables = Variables.of([credo.Variable(f"d{i}", k) for i, k in enumerate(sizes)])
    return Surrogate(variables, np.log(rng.dirichlet(np.ones(components))), none, none, logs, {})


def joint(mixture: Surrogate) -> np.ndarray:
    """The full table, component by component."""
    start, table = mixture.variables.state_start, 0.0
    for m, weight in enumerate(mixture.weights):
        columns = [np.exp(mixture.log_tables[a:b, m]) for a, b in itertools.pairwise(start)]
        product = columns[0]
        for column in columns[1:]:
            product = np.multiply.outer(product, column)
        table = table + weight * product
    return table


def hybrid() -> Surrogate:
    """One discrete, one simplex and two real variables, not in that order."""
    x, y = credo.Variable("x", credo.Real()), credo.Variable("y", credo.Real())
    s, theta = credo.Variable("s", ["off", "on"]), credo.Variable("theta", credo.Simplex(3))
    return Surrogate(
        Variables.of([x, s, theta, y]),
        np.log([0.5, 0.3, 0.2]),
        np.array([[-2.0, 1.0, 3.0], [0.5, -1.0, 2.0]]),
        np.array([[1.0, 0.6, 0.8], [0.7, 1.2, 0.5]]),
        np.log([[0.9, 0.2, 0.5], [0.1, 0.8, 0.5]]),
        {"theta": np.array([[2.0, 3.0, 4.0], [5.0, 2.0, 2.0], [1.5, 1.5, 6.0]])},
    )


@pytest.mark.parametrize("zeros", [False, True])
def test_any_marginal_of_discrete_variables_equals_enumeration(zeros: bool):
    mixture = discrete(zeros=zeros)
    whole = joint(mixture)
    assert whole.sum() == pytest.approx(1)
    for size in (1, 2, 3, 4):
        for keep in itertools.combinations(range(4), size):
            expected = whole.sum(axis=tuple(i for i in range(4) if i not in keep))
            found = mixture.marginal([f"d{i}" for i in keep]).table
            np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(mixture.marginal(["d3", "d0"]).table, whole.sum(axis=(1, 2)).T, atol=1e-12)
    np.testing.assert_allclose(mixture.marginal("d1"), whole.sum(axis=(0, 2, 3)), atol=1e-12)


def test_conditionals_of_discrete_variables_equal_enumeration():
    mixture, whole = discrete(), joint(discrete())
    expected = whole[1, :, 0, :] / whole[1, :, 0, :].sum()
    found = mixture.condition({"d0": 1, "d2": 0})
    np.testing.assert_allclose(found.table, expected, atol=1e-12)
    np.testing.assert_allclose(
        mixture.conditional("d3", {"d0": 1, "d2": 0}), expected.sum(axis=0), atol=1e-12
    )
    impossible = discrete((2, 2), components=1, zeros=True)
    state = int(np.flatnonzero(np.isneginf(impossible.log_tables[:2, 0]))[0])
    with pytest.raises(ZeroProbabilityError, match="weight zero"):
        impossible.condition({"d0": state})


@pytest.mark.parametrize("seed", range(4))
def test_maxima_of_few_states_are_exhaustive(seed: int):
    mixture = discrete(seed=seed)
    whole = joint(mixture)
    best = np.unravel_index(whole.argmax(), whole.shape)
    assert mixture.maximum().indices.tolist() == list(best)
    pair = whole.sum(axis=(0, 2))
    state = np.unravel_index(pair.argmax(), pair.shape)
    assert mixture.maximum(["d3", "d1"]).indices.tolist() == [-1, state[0], -1, state[1]]
    given = whole[:, :, 1].sum(axis=1)
    state = np.unravel_index(given.argmax(), given.shape)
    assert mixture.maximum(["d0", "d3"], given={"d2": 1}).indices.tolist() == [state[0], -1, -1, state[1]]


@pytest.mark.parametrize("zeros", [False, True])
def test_the_climb_ends_where_no_single_state_is_better(zeros: bool, monkeypatch):
    monkeypatch.setattr("credo.inference.variational.surrogate._EXHAUSTIVE", 0)
    reached = 0
    for seed in range(6):
        mixture = discrete(seed=seed, zeros=zeros)
        whole = joint(mixture)
        found = tuple(mixture.maximum().indices)
        for axis in range(4):
            line = tuple(slice(None) if a == axis else k for a, k in enumerate(found))
            assert whole[found] == pytest.approx(whole[line].max())
        reached += whole[found] == pytest.approx(whole.max())
    assert reached >= 5


def test_hybrid_marginals_and_conditionals_equal_numerical_integration():
    mixture = hybrid()
    theta = np.array([0.2, 0.3, 0.5])
    lam, mean, sd = mixture.weights, mixture.means, mixture.sds
    parts = np.array([dirichlet.pdf(theta, a) for a in mixture.concentrations["theta"]])
    x, y = np.meshgrid(GRID, GRID, indexing="ij")
    density = sum(
        lam[m] * 0.8 ** (m == 1) * [0.1, 1.0, 0.5][m] * parts[m]
        * norm.pdf(x, mean[0, m], sd[0, m]) * norm.pdf(y, mean[1, m], sd[1, m])
        for m in range(3)
    )  # fmt: skip
    found = mixture.log_density({"x": x, "y": y, "s": "on", "theta": theta})
    np.testing.assert_allclose(np.exp(found), density, rtol=1e-10)
    given = mixture.condition({"s": "on", "theta": theta})
    assert given.variables.names == ("x", "y")
    norm_ = density.sum() * STEP**2
    np.testing.assert_allclose(np.exp(given.log_density({"x": x, "y": y})), density / norm_, rtol=1e-8)
    only = mixture.conditional("y", {"s": "on", "theta": theta})
    np.testing.assert_allclose(only.density(GRID), density.sum(axis=0) * STEP / norm_, rtol=1e-8, atol=1e-12)
    # A marginal of two, and consistency: integrating one variable out gives the marginal of the other.
    pair = np.exp(mixture.marginal(["x", "s"]).log_density({"x": GRID[:, None], "s": np.arange(2)}))
    np.testing.assert_allclose(pair.sum(axis=1), mixture.marginal("x").density(GRID), rtol=1e-10)
    np.testing.assert_allclose(pair.sum(axis=0) * STEP, mixture.marginal("s"), rtol=1e-8)


def test_hybrid_maxima_equal_a_dense_search():
    mixture = hybrid()
    found = mixture.maximum(["x", "y", "s"])
    x, y = np.meshgrid(GRID, GRID, indexing="ij")
    for s in (0, 1):
        dense = mixture.marginal(["x", "s", "y"]).log_density({"x": x, "y": y, "s": s})
        value = {"x": found["x"], "y": found["y"], "s": found["s"]}
        assert mixture.marginal(["x", "s", "y"]).log_density(value) >= dense.max() - 1e-9
    best = mixture.maximum()
    assert set(best) == {"x", "s", "theta", "y"} and best["theta"].sum() == pytest.approx(1)
    top = mixture.log_density({name: np.asarray(best[name]) for name in best})
    rng = np.random.default_rng(0)
    for _ in range(200):
        near = rng.dirichlet(best["theta"] * 300 + 1)
        values = {"x": best["x"] + 0.1 * rng.normal(), "y": best["y"] + 0.1 * rng.normal(), "s": best["s"]}
        assert mixture.log_density({**values, "theta": near}) <= top + 1e-9


def test_a_maximum_starts_from_every_component_and_is_judged_by_the_mixture():
    # The highest component alone is not the highest point: two lower ones overlap.
    x = credo.Variable("x", credo.Real())
    none = np.zeros((0, 3))
    mixture = Surrogate(
        Variables.of([x]), np.log([0.34, 0.33, 0.33]), np.array([[-5.0, 4.9, 5.1]]), np.ones((1, 3)), none, {}
    )
    assert mixture.maximum()["x"] == pytest.approx(5.0, abs=0.01)


def test_samples_have_the_moments_of_the_mixture():
    mixture = hybrid()
    drawn = mixture.sample(40_000, 0)
    for name in ("x", "y"):
        density = mixture.marginal(name)
        assert drawn.column(name).mean() == pytest.approx(density.mean, abs=5 * density.sd / 200)
        assert drawn.column(name).std() == pytest.approx(density.sd, rel=0.03)
    assert (drawn.column("s") == 1).mean() == pytest.approx(mixture.marginal("s")[1], abs=0.015)
    theta = mixture.marginal("theta")
    np.testing.assert_allclose(drawn.column("theta").mean(axis=0), theta.mean, atol=0.01)
    product = mixture.weights @ (mixture.means[0] * mixture.means[1])
    assert (drawn.column("x") * drawn.column("y")).mean() == pytest.approx(product, abs=0.1)
    again = mixture.sample(10, np.random.default_rng(3))
    np.testing.assert_array_equal(again.column("x"), mixture.sample(10, 3).column("x"))


def test_a_component_without_weight_does_no_harm():
    mixture = hybrid()
    with np.errstate(divide="ignore"):
        weights = np.log([0.0, 0.6, 0.4])
    changed = Surrogate(
        mixture.variables, weights, mixture.means, mixture.sds, mixture.log_tables, mixture.concentrations
    )
    assert changed.effective_components < 2
    assert np.isfinite(changed.marginal("x").log_density(0.0))
    assert np.isfinite(changed.log_density({**{n: changed.maximum()[n] for n in ("x", "y", "s", "theta")}}))
    assert len(changed.sample(5, 0)) == 5


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda m: m.table, r"\['x', 'theta', 'y'\] have no states"),
        (lambda m: m.marginal(["x", "x"]), "named twice"),
        (lambda m: m.marginal("q"), "no variable named 'q'"),
        (lambda m: m.log_density({"x": 0.0}), r"no values for \['s', 'theta', 'y'\]"),
        (lambda m: m.maximum("x"), "expected 'all' or a list of names"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(ask, says: str):
    with pytest.raises(QueryError, match=says):
        ask(hybrid())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"s": 5}, "variable 's' has no state '5'"),
        ({"s": -1}, "variable 's' has no state '-1'"),
        ({"s": np.array([0, 2])}, "variable 's' has no state '2'"),
        ({"x": "wide"}, "values of 'x': expected numbers"),
        ({"theta": [0.5, 0.5]}, "values of 'theta': expected 3 numbers on the last axis"),
        ({"x": np.zeros(2), "y": np.zeros(3)}, "expected shapes that can be broadcast"),
    ],
)
def test_values_out_of_the_domain_are_refused(change, words):
    values = {"x": 0.0, "s": 0, "theta": [0.2, 0.3, 0.5], "y": 1.0}
    assert np.isfinite(hybrid().log_density(values))
    with pytest.raises((EvidenceError, QueryError), match=words):
        hybrid().log_density(values | change)


def test_negative_labels_are_states():
    spin = Surrogate(
        Variables.of([credo.Variable("s", ["-1", "1"])]), np.zeros(1), np.zeros((0, 1)), np.zeros((0, 1)),
        np.log([[0.25], [0.75]]), {},
    )  # fmt: skip
    assert spin.log_density({"s": -1}) == pytest.approx(np.log(0.25))


@pytest.mark.parametrize("count", [-1, 1.5])
def test_a_number_of_draws_is_a_whole_number(count):
    with pytest.raises(OptionError, match="count must be"):
        hybrid().sample(count)
    assert len(hybrid().sample(0, 0)) == 0


@pytest.mark.parametrize("shortfall", [0.0, 0.02])
def test_a_maximum_hardly_depends_on_whether_a_belief_is_just_flat_at_an_edge(shortfall):
    theta, none = credo.Variable("theta", credo.Simplex(3)), np.zeros((0, 1))
    alpha = np.array([[2.0, 1.0 - shortfall, 3.0]])
    flat = Surrogate(Variables.of([theta]), np.zeros(1), none, none, none, {"theta": alpha})
    best = flat.maximum(["theta"])["theta"]
    np.testing.assert_allclose(best, [1 / 3, 0, 2 / 3], atol=1e-5)
    assert flat.log_density({"theta": best}) == pytest.approx(np.log(60 * 4 / 27), abs=20 * shortfall + 1e-5)
