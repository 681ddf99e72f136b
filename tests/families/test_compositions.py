"""Families over families: mixtures of mixtures, products over columns, and a leaf that gradients move."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from credo.core.errors import DataError, ModelError
from credo.families import (
    Categorical,
    DiagonalGaussian,
    Gaussian,
    Mixture,
    Poisson,
    Product,
    StudentT,
)
from credo.learning.leaf_steps import climb_leaves

DTYPE = [("kind", np.int64), ("a", float), ("b", float)]


def gaussians(members, seed=0):
    rng = np.random.default_rng(seed)
    return DiagonalGaussian(rng.normal(size=(members, 2)), rng.random((members, 2)) + 0.5)


def deep(seed=0):
    rng = np.random.default_rng(seed)
    inner = Mixture(rng.dirichlet(np.ones(3), size=4), gaussians(12, seed))
    return Mixture(rng.dirichlet(np.ones(2), size=2), inner)


def mixed(members=2, seed=0):
    rng = np.random.default_rng(seed)
    parts = [Categorical(rng.dirichlet(np.ones(3), size=members)), gaussians(members, seed)]
    return Product(parts, ["kind", ("a", "b")])


def table(family, count=200, lacking=0.0, seed=1):
    rng = np.random.default_rng(seed)
    x = family.sample(rng.integers(len(family), size=count), rng)
    for name, gap in (("kind", -1), ("a", np.nan), ("b", np.nan)):
        x[name][rng.random(count) < lacking] = gap
    return x


def test_a_mixture_of_mixtures_is_the_flat_mixture():
    outer = deep()
    flat = (outer.weights[:, :, None] * outer.components.weights.reshape(2, 2, 3)).reshape(2, 6)
    x = np.random.default_rng(1).normal(size=(30, 2))
    same = Mixture(flat, outer.components.components)
    np.testing.assert_allclose(outer.log_density(x), same.log_density(x), rtol=1e-12)
    one, two = outer.expect(x), same.expect(x)
    np.testing.assert_allclose(one.sums.total, two.sums.total, rtol=1e-9)
    np.testing.assert_allclose(one.counts["components"]["choice"].reshape(2, 6), two.counts["choice"])
    assert outer.leaves(x).shape == (30, 2, 2, 3)


def test_em_of_a_mixture_of_mixtures_never_lowers_the_likelihood():
    family, x = deep(), np.random.default_rng(1).normal(size=(200, 2))
    weights = np.random.default_rng(2).random((200, 2))
    values = []
    for _ in range(10):
        values.append((weights * family.log_density(x)).sum())
        found = family.expect(x, weights)
        family = family.update(found.counts, found.sums)
    assert (np.diff(values) > -1e-9).all() and values[-1] > values[0] + 1


def test_em_of_a_gaussian_mixture_is_that_of_scikit_learn():
    peer = pytest.importorskip("sklearn.mixture")
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(80, 2)), rng.normal(size=(60, 2)) * 0.5 + 2])
    weights, means = np.array([0.4, 0.6]), x[[0, 100]]
    model = Mixture([weights], Gaussian(means, np.tile(np.eye(2), (2, 1, 1))))
    for _ in range(4):
        parts = model.components
        theirs = peer.GaussianMixture(
            2, max_iter=1, tol=0, reg_covar=0, weights_init=model.weights[0], means_init=parts.mean,
            precisions_init=parts.precisions,
        )  # fmt: skip
        with pytest.warns(UserWarning):
            theirs.fit(x)
        found = model.expect(x)
        model = model.update(found.counts, found.sums)
        np.testing.assert_allclose(model.weights[0], theirs.weights_, rtol=1e-10)
        np.testing.assert_allclose(model.components.mean, theirs.means_, rtol=1e-9)
        np.testing.assert_allclose(model.components.covariances, theirs.covariances_, rtol=1e-8, atol=1e-12)


def test_expectations_add_up_and_scale():
    family, x = deep(), np.random.default_rng(1).normal(size=(40, 2))
    whole, parts = family.expect(x), family.expect(x[:15]) + family.expect(x[15:])
    np.testing.assert_allclose(parts.count, whole.count)
    np.testing.assert_allclose(parts.counts["choice"], whole.counts["choice"])
    np.testing.assert_allclose(parts.scaled(2).sums.total, 2 * whole.sums.total)
    np.testing.assert_allclose(parts.scaled(2).counts["choice"], 2 * whole.counts["choice"])


def test_weights_of_zero_stay_zero():
    family = Mixture([[0.0, 1.0], [0.5, 0.5]], gaussians(4))
    found = family.expect(np.random.default_rng(0).normal(size=(50, 2)))
    assert family.update(found.counts, found.sums).weights[0, 0] == 0


def test_a_product_is_the_sum_of_its_parts_and_one_over_all_rows():
    family = mixed()
    x = table(family)
    kind, reals = family.parts
    both = kind.log_density(x["kind"]) + reals.log_density(np.column_stack([x["a"], x["b"]]))
    np.testing.assert_allclose(family.log_density(x), both, rtol=1e-13)
    two = Product([Categorical([[0.2, 0.8]]), Categorical([[0.5, 0.1, 0.4]])], [0, 1])
    every = np.array(list(itertools.product(range(2), range(3))))
    assert np.exp(two.log_density(every)).sum() == pytest.approx(1)


def test_missing_cells_of_a_product_leave_the_marginal_density():
    family = mixed()
    x = np.array([(1, np.nan, 0.3), (-1, 0.1, np.nan), (-1, np.nan, np.nan)], dtype=DTYPE)
    kind, reals = family.parts
    normal = [stats.norm(reals.mean[:, j], np.sqrt(reals.variances[:, j])) for j in range(2)]
    expected = [
        np.log(kind.probabilities[:, 1]) + normal[1].logpdf(0.3),
        normal[0].logpdf(0.1),
        np.zeros(2),
    ]
    np.testing.assert_allclose(family.log_density(x), expected, rtol=1e-12)
    np.testing.assert_array_equal(family.missing(x), [False, False, True])
    hidden = family.hide(table(family, 3), np.array([True, False, True]))
    np.testing.assert_array_equal(family.missing(hidden), [True, False, True])


@pytest.mark.parametrize("lacking", [0.0, 0.4])
def test_a_mixture_of_products_is_learned_from_a_mixed_table(lacking):
    family = mixed(3)
    x = table(family, 400, lacking)
    model = Mixture(np.full((1, 3), 1 / 3), family).initialise(x, np.random.default_rng(3))
    values = []
    for _ in range(15):
        values.append(model.log_density(x).sum())
        found = model.expect(x)
        model = model.update(found.counts, found.sums)
    assert (np.diff(values) > -1e-8).all() and values[-1] > values[0] + 10


def test_columns_by_number_are_those_by_name():
    plain = Product([Poisson([2.0, 5.0]), gaussians(2)], [2, (0, 1)])
    x = plain.sample(np.array([0, 1, 1]), np.random.default_rng(0))
    named = Product(plain.parts, ["n", ("a", "b")])
    fields = np.array([(r[2], r[0], r[1]) for r in x], dtype=[("n", float), ("a", float), ("b", float)])
    np.testing.assert_allclose(plain.log_density(x), named.log_density(fields))
    assert plain.missing(plain.hide(x, np.array([True, False, False]))).tolist() == [True, False, False]


def student(members=2, d=2, seed=0, **options):
    rng = np.random.default_rng(seed)
    return StudentT(
        rng.normal(size=(members, d)), rng.random((members, d)) + 0.5, 3 + 4 * rng.random(members), **options
    )


def test_the_student_density_is_that_of_scipy_and_its_marginals():
    family, x = student(), np.random.default_rng(0).normal(size=(20, 2))
    for k in range(2):
        shape = np.diag(family.scale[k] ** 2)
        exact = stats.multivariate_t(family.location[k], shape, df=family.freedom[k]).logpdf(x)
        np.testing.assert_allclose(family.log_density(x)[:, k], exact, rtol=1e-11)
        lacking = np.column_stack([x[:, 0], np.full(20, np.nan)])
        exact = stats.t(family.freedom[k], family.location[k, 0], family.scale[k, 0]).logpdf(x[:, 0])
        np.testing.assert_allclose(family.log_density(lacking)[:, k], exact, rtol=1e-11)


def test_the_slope_of_q_is_the_slope_of_the_likelihood():
    """Fisher's identity, by finite differences of the log density of a mixture of Student-t leaves."""
    jax = pytest.importorskip("jax")
    from credo.families.base import each_member

    model = Mixture([[0.3, 0.7]], student())
    x = np.random.default_rng(0).normal(size=(15, 2))
    x[3, 0] = np.nan
    _, q = model.divide(model.leaves(x), np.ones((15, 1)))
    free = model.to_free()
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(lambda tree: (q * each_member(model)(tree, x)).sum()))(free)
        np.testing.assert_allclose(jax.jit(each_member(model))(free, x), model.leaves(x), rtol=1e-10)
    for name, numbers in free.items():
        for at in np.ndindex(numbers.shape):
            ends = []
            for h in (1e-6, -1e-6):
                moved = {**free, name: numbers.copy()}
                moved[name][at] += h
                ends.append(model.from_free(moved).log_density(x).sum())
            assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(float(slope[name][at]), rel=1e-5, abs=1e-6)


def test_gradient_steps_recover_a_student_distribution():
    true = StudentT([[1.0]], [[2.0]], [3.0])
    x = true.sample(np.zeros(4000, int), np.random.default_rng(0))
    start = true.initialise(x, np.random.default_rng(1))
    found = climb_leaves(start, x, np.ones((4000, 1)), steps=800, rate=0.02)
    assert abs(found.family.location[0, 0] - 1) < 0.15
    assert abs(found.family.scale[0, 0] - 2) < 0.2
    assert abs(found.family.freedom[0] - 3) < 0.6
    assert found.objective[-1] >= true.log_density(x).mean() - 1e-6


def test_steps_that_are_interrupted_and_continued_are_the_same_to_the_last_bit():
    family = Mixture([[0.5, 0.5]], student())
    x = np.random.default_rng(0).normal(size=(300, 2))
    _, q = family.divide(family.leaves(x), np.ones((300, 1)))
    whole = climb_leaves(family, x, q, steps=30)
    first = climb_leaves(family, x, q, steps=11)
    second = climb_leaves(first.family, x, q, steps=19, state=first.state)
    for name, numbers in whole.family.to_free().items():
        np.testing.assert_array_equal(numbers, second.family.to_free()[name])
    np.testing.assert_array_equal(whole.objective, np.concatenate([first.objective, second.objective]))


def test_what_is_not_moved_stays_to_the_last_bit():
    leaf = student(learn_freedom=False)
    family = Product([Categorical([[0.0, 1.0], [1 / 3, 2 / 3]]), leaf], [0, (1, 2)])
    x = family.sample(np.array([0, 1] * 20), np.random.default_rng(0))
    _, q = family.divide(family.leaves(x), np.full((40, 2), 0.5))
    new = climb_leaves(family, x, q, steps=5).family
    np.testing.assert_array_equal(new.parts[0].probabilities, family.parts[0].probabilities)
    np.testing.assert_array_equal(new.parts[1].freedom, leaf.freedom)
    assert (new.parts[1].location != leaf.location).all()


def test_closed_forms_never_load_jax():
    code = """
import sys
import numpy as np
from credo.families import Categorical, DiagonalGaussian, Mixture, Product
parts = [Categorical([[0.5, 0.5]] * 2), DiagonalGaussian([[0.0], [1.0]], [[1.0], [1.0]])]
model = Mixture([[0.5, 0.5]], Product(parts, [0, 1]))
found = model.expect(np.array([[0, 0.1], [1, 2.0]]))
model.update(found.counts, found.sums)
assert "jax" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Product([], []), ModelError, "one family or more"),
        (lambda: Product([Poisson([1.0]), Poisson([1.0, 2.0])], [0, 1]), ModelError, "equally many members"),
        (lambda: Product([Poisson([1.0])], [0, 1]), ModelError, "1 groups, one per part, got 2"),
        (lambda: Product([Poisson([1.0])] * 2, [0, "a"]), ModelError, "names only, or numbers"),
        (lambda: Product([Poisson([1.0])] * 2, [0, 0]), ModelError, "every column once"),
        (lambda: mixed().rows(np.zeros((3, 2))), DataError, "structured array"),
        (lambda: Product([Poisson([1.0])], [1]).rows(np.zeros((3, 1))), DataError, "or wider"),
        (lambda: mixed().update(None, (None, None), "flat"), ModelError, "one or None per part"),
        (lambda: Mixture([[1.0]], Poisson([1.0])).collect([1]), DataError, "divided weights of a mixture"),
        (lambda: StudentT([[0.0]], [[1.0, 1.0]], [1.0]), ModelError, "scale: expected shape"),
        (lambda: StudentT([[0.0]], [[1.0]], [1.0, 2.0]), ModelError, "freedom: expected shape"),
        (lambda: StudentT([[0.0]], [[0.0]], [1.0]), ModelError, "scale: expected positive"),
        (lambda: student().update(None, None, "flat"), ModelError, "prior of Student-t members"),
        (
            lambda: climb_leaves(gaussians(1), [[0.0, 0.0]], np.ones((1, 1))),
            ModelError,
            "without closed form",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
