"""Flows as families: densities, reductions to Gaussians, learning by em, saving and refusals."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest
from scipy import stats

import credo
from credo.core.errors import ConvergenceWarning, DataError, ModelError, OptionError, UnsupportedError
from credo.families import (
    Categorical,
    DiagonalGaussian,
    Flow,
    Gaussian,
    Mixture,
    MixturePrior,
    Product,
    SphericalGaussian,
    StudentT,
    TiedGaussian,
)
from credo.families.interpolation import interpolate
from credo.families.moved import moved
from credo.families.trees import map_tree
from credo.learning.leaf_steps import leaf_objective
from credo.nn.arrays import precision

LATENT = "actnorm + coupling(layers=2, width=4)"


def lively(members=1, base=None, text=LATENT, d=2, seed=0, **options):
    """A flow whose parameters are all away from zero."""
    flow = Flow.started(text, d, members, base, **{"precision": "double", **options})
    rng = np.random.default_rng(seed)
    return flow.from_free(map_tree(lambda a: a + 0.3 * rng.normal(size=a.shape), flow.to_free()))


def latent(members, components, seed=0):
    rng = np.random.default_rng(seed)
    parts = DiagonalGaussian(
        rng.normal(size=(members * components, 2)), 0.5 + rng.random((members * components, 2))
    )
    return Mixture(rng.dirichlet(np.ones(components), members), parts)


def integral(family, reach=12.0, size=141):
    axis = np.linspace(-reach, reach, size)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.exp(family.log_density(grid)).sum(axis=0) * (axis[1] - axis[0]) ** 2


def affine(mean, scale):
    """Flows that are diagonal Gaussians."""
    return {"centre": np.asarray(mean, float), "log_scale": -np.log(scale)}


@pytest.mark.parametrize(
    "family",
    [
        lively(2),
        lively(base=latent(1, 3)),
        Mixture([[0.3, 0.7]], lively(base=latent(2, 2))),
        lively(base=Mixture([[0.3, 0.7]], lively(2, seed=1)), seed=2),
        lively(base=StudentT([[0.0, 1.0]], [[1.0, 0.5]], [9.0])),
        lively(base=Product([SphericalGaussian([[0.0]], [1.0]), Gaussian([[1.0]], [[[2.0]]])], [1, 0])),
    ],
    ids=["flows", "LatMM", "GenMM over LatMM", "common and individual", "Student", "product"],
)
def test_densities_integrate_to_one(family):
    np.testing.assert_allclose(integral(family), 1.0, atol=2e-2 if "Student" in repr(family) else 2e-3)


def test_an_affine_flow_is_a_diagonal_gaussian():
    rng = np.random.default_rng(0)
    mean, scale = rng.normal(size=(3, 2)), 0.5 + rng.random((3, 2))
    flow = Flow("actnorm", 2, affine(mean, scale), precision="double")
    plain = DiagonalGaussian(mean, scale**2)
    x = rng.normal(size=(20, 2))
    x[3] = np.nan
    np.testing.assert_allclose(flow.log_density(x), plain.log_density(x), atol=1e-9)
    weights = [[0.2, 0.3, 0.5]]
    pairs = Mixture(weights, flow), Mixture(weights, plain)
    np.testing.assert_allclose(*(m.log_density(x) for m in pairs), atol=1e-9)
    np.testing.assert_allclose(*(m.responsibilities(x[:3]) for m in pairs), atol=1e-9)
    start, moves = [0.5, 0.2, 0.3], rng.dirichlet(np.ones(3), 3)
    chains = [credo.log_likelihood(credo.HMM(start, moves, f), x).value for f in (flow, plain)]
    assert chains[0] == pytest.approx(chains[1], abs=1e-8)
    one = Flow(
        "actnorm",
        2,
        affine(mean[:1], scale[:1]),
        Mixture([[0.4, 0.6]], plain.take([0, 1])),
        precision="double",
    )
    z = (x - mean[0]) / scale[0]
    exact = one.base.log_density(z) - np.where(np.isnan(z[:, :1]), 0.0, np.log(scale[0]).sum())
    np.testing.assert_allclose(one.log_density(x), exact, atol=1e-9)


def test_a_chain_of_one_state_or_of_equal_rows_is_the_mixture_and_the_junction_tree_agrees():
    flow, x = lively(4, seed=3), np.random.default_rng(0).normal(size=(6, 2))
    pairs = Mixture([[0.3, 0.7], [0.6, 0.4]], flow)
    one = Mixture(pairs.weights[:1], flow.take([0, 1]))
    alone = credo.HMM([1.0], [[1.0]], one)
    assert credo.log_likelihood(alone, x).value == pytest.approx(one.log_density(x).sum(), abs=1e-6)
    equal = credo.HMM([0.2, 0.8], [[0.2, 0.8]] * 2, pairs)
    flat = Mixture([[0.2 * 0.3, 0.2 * 0.7, 0.8 * 0.6, 0.8 * 0.4]], flow)
    assert credo.log_likelihood(equal, x).value == pytest.approx(flat.log_density(x).sum(), abs=1e-6)
    chain = credo.HMM([0.9, 0.1], [[0.7, 0.3], [0.0, 1.0]], pairs)
    tree = credo.infer(chain.instantiate(x).to_factor_graph(), "junction-tree")
    assert tree.log_z.value == pytest.approx(credo.log_likelihood(chain, x).value, abs=1e-9)
    exact = credo.infer(chain, data=x).marginals["state"]
    found = np.stack([tree.marginals[name] for name in tree.marginals])
    np.testing.assert_allclose(found, exact, atol=1e-9)


@pytest.mark.slow
def test_segments_emit_flows_too():
    x, _ = moons(60)
    model = credo.models.SemiMarkov([0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], [[0.2, 0.8]] * 2, lively(2))
    found = quietly(model, x, "em", max_iter=2)
    assert (np.diff(found.objective) >= -1e-12).all() and found.objective[-1] > found.objective[0]


@pytest.mark.parametrize(
    "family",
    [
        DiagonalGaussian([[0.0, 1.0], [2.0, 3.0]], [[1.0, 2.0], [0.5, 1.0]]),
        SphericalGaussian([[0.0, 1.0], [2.0, 3.0]], [2.0, 0.5]),
        Gaussian([[0.0, 1.0], [2.0, 3.0]], [[[2.0, 0.5], [0.5, 1.0]], [[1.0, -0.3], [-0.3, 1.0]]]),
        TiedGaussian([[0.0, 1.0], [2.0, 3.0]], [[2.0, 0.5], [0.5, 1.0]]),
        Mixture([[0.2, 0.8]], StudentT([[0.0, 1.0], [2.0, 3.0]], [[1.0, 2.0], [0.5, 1.0]], [3.0, 9.0])),
    ],
    ids=lambda family: type(family).__name__,
)
def test_members_that_move_have_the_density_they_had(family):
    x = np.random.default_rng(0).normal(size=(5, 2))
    free = moved(family)
    with precision(double=True):
        leaves = jax.vmap(free.leaves_at, (0, None), 1)(free.to_free(), x)
    np.testing.assert_allclose(leaves, family.leaves(x), atol=1e-10)
    again = free.from_free(map_tree(lambda a: np.asarray(a, np.float32), free.to_free()))
    np.testing.assert_array_equal(again.log_density(x), family.log_density(x))
    shifted = free.from_free(map_tree(lambda a: a + 0.1, free.to_free()))
    assert not np.allclose(shifted.log_density(x), family.log_density(x))


def test_rows_come_back_and_samples_have_the_density():
    flow = lively(2, base=latent(2, 2), text="mixing + coupling(layers=2, width=4)")
    x = np.random.default_rng(1).normal(size=(30, 2))
    members = np.arange(30) % 2
    np.testing.assert_allclose(flow.decode(flow.encode(x, members), members), x, atol=1e-9)
    drawn = flow.sample(np.full(4000, 1), np.random.default_rng(2))
    inside = (np.abs(drawn) < 1.5).all(axis=1).mean()
    axis = np.linspace(-1.5, 1.5, 101)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    assert inside == pytest.approx(9 * np.exp(flow.log_density(grid)[:, 1]).mean(), abs=0.04)


def test_points_between_two_rows_begin_and_end_at_these():
    flow = lively(2, text="glow(levels=2, steps=1, width=2, shape=(4, 4))", d=16)
    model = Mixture([[0.3, 0.7]], flow)
    rng = np.random.default_rng(0)
    # Two rows of different components.
    drawn = flow.sample(np.repeat([0, 1], 20), rng)
    own = model.responsibilities(drawn)[:, 0].argmax(axis=1)
    ends = drawn[own.argmin()], drawn[own.argmax()]
    assert own.min() == 0 and own.max() == 1
    points = interpolate(model, *ends, [0.0, 0.4, 0.6, 1.0])
    np.testing.assert_allclose(points[[0, 3]], ends, atol=1e-9)
    near = flow.decode(0.6 * flow.encode(ends[0][None], 0) + 0.4 * flow.encode(ends[1][None], 1), 0)
    np.testing.assert_allclose(points[1], near[0], atol=1e-9)
    other = interpolate(model, *ends, 5, generator="drawn", seed=0)
    assert other.shape == (5, 16) and not np.allclose(other, interpolate(model, *ends, 5))
    for wrong, said in (([2.0], "from 0 to 1"), (0, "weights")):
        with pytest.raises(OptionError, match=said):
            interpolate(model, *ends, wrong)
    with pytest.raises(OptionError, match="generator"):
        interpolate(model, *ends, generator="best")
    with pytest.raises(DataError, match="two observed rows"):
        interpolate(model, np.full(16, np.nan), ends[1])
    with pytest.raises(ModelError, match="one flow or one mixture of flows"):
        interpolate(flow, *ends)


def test_single_precision_is_near_double_and_parameters_keep_their_last_bit():
    flow = lively(2, base=latent(2, 2))
    x = np.random.default_rng(1).normal(size=(40, 2))
    single = flow.with_precision("single")
    np.testing.assert_allclose(single.log_density(x), flow.log_density(x), atol=1e-4)
    same = single.from_free(single.to_free())
    for one, two in zip(jax.tree.leaves(same.parameters), jax.tree.leaves(flow.parameters), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(same.base.components.variances, flow.base.components.variances)


def test_weights_of_the_base_are_counted_and_expectations_add_up():
    flow = lively(base=latent(1, 3))
    x = np.random.default_rng(1).normal(size=(50, 2))
    found = flow.expect(x)
    exact = flow.base.responsibilities(flow.encode(x))[:, 0]
    np.testing.assert_allclose(found.counts["choice"][0], exact.sum(axis=0), rtol=1e-9)
    new = found.update(flow)
    np.testing.assert_allclose(new.base.weights[0], exact.mean(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(new.base.components.mean, flow.base.components.mean)
    parts = flow.expect(x[:20]) + flow.expect(x[20:])
    np.testing.assert_allclose(parts.counts["choice"], found.counts["choice"])


def test_a_mixture_divides_its_weight_among_flows_and_q_is_their_likelihood():
    family = Mixture([[0.3, 0.7]], lively(base=latent(2, 2)))
    x = np.random.default_rng(1).normal(size=(20, 2))
    leaves = family.leaves(x)
    counts, q = family.divide(leaves, np.ones((20, 1)))
    np.testing.assert_allclose(q["volume"], family.responsibilities(x))
    np.testing.assert_allclose(q["base"].sum(axis=3), q["volume"])
    choices = (counts["choice"] * np.log(family.weights)).sum()
    choices += (counts["components"]["choice"] * np.log(family.components.base.weights)).sum()
    entropy = -(q["base"] * np.log(q["base"])).sum()
    bound = choices + leaf_objective(family, x, q) + entropy
    assert bound == pytest.approx(family.log_density(x).sum())  # tight under the members that divided


def moons(count=300, seed=0):
    rng = np.random.default_rng(seed)
    angle, kind = rng.random(count) * np.pi, rng.integers(2, size=count)
    centre = np.column_stack([np.cos(angle) + kind - 0.5, (1 - 2 * kind) * np.sin(angle) + 0.5 * kind])
    return centre + 0.1 * rng.normal(size=(count, 2)), kind


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*arguments, **options)


SMALL = f"flow(bijection={LATENT}, precision=double)"


def test_mixtures_and_chains_of_flows_are_learned_and_the_objective_never_falls():
    x, kind = moons()
    held, _ = moons(seed=1)
    plain = quietly(credo.Mixture.blank(2, "gaussian"), x, seed=0).model.log_density(held).mean()
    found = quietly(credo.Mixture.blank(2, SMALL), x, "em", max_iter=8, seed=0)
    assert (np.diff(found.objective) >= -1e-12).all()
    assert found.model.log_density(held).mean() > plain + 0.1
    order = np.argsort(kind, kind="stable")
    chain = quietly(credo.HMM.blank(2, SMALL), x[order], "em", max_iter=4, seed=0)
    assert (np.diff(chain.objective) >= -1e-12).all() and chain.objective[-1] > chain.objective[1] + 0.1
    states = credo.infer(chain.model, data=x[order]).marginals["state"].argmax(axis=1)
    assert stats.pearsonr(states, kind[order])[0] ** 2 > 0.8


@pytest.mark.parametrize(
    "covariance",
    ["tied", *(pytest.param(c, marks=pytest.mark.slow) for c in ("diagonal", "full", "spherical"))],
)
def test_latent_mixtures_are_learned_with_every_covariance(covariance):
    x, _ = moons()
    blank = credo.Flow.blank(LATENT, components=2, covariance=covariance, precision="double")
    found = quietly(blank, x, "em", max_iter=3, seed=0)
    assert (np.diff(found.objective) >= -1e-12).all() and found.objective[-1] > found.objective[0] + 0.05
    assert found.model.base.weights.sum() == pytest.approx(1)
    assert isinstance(found.model.base.components, TiedGaussian) == (covariance == "tied")


def test_zeros_of_a_left_to_right_chain_stay_and_ragged_sequences_with_gaps_are_learned():
    x, _ = moons()
    start = Flow.started(LATENT, 2, 3, precision="double").initialise(x, np.random.default_rng(0))
    moves = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    model = credo.HMM([1.0, 0.0, 0.0], moves, start)
    x[10] = np.nan
    found = quietly(model, [x[:1], x[1:40], x[40:60]], "em", max_iter=2)
    assert (np.diff(found.objective) >= -1e-12).all()
    np.testing.assert_array_equal(found.model.transition == 0, moves == 0)
    np.testing.assert_array_equal(found.model.start, [1.0, 0.0, 0.0])


@pytest.mark.slow
def test_a_flow_beside_symbols_in_a_product_moves_alone():
    x, kind = moons(100)
    parts = [Categorical([[0.8, 0.2], [0.2, 0.8]]), Flow.started(LATENT, 2, 2, precision="double")]
    start = Mixture([[0.5, 0.5]], Product(parts, ["kind", ("a", "b")]))
    table = {"kind": kind, "a": x[:, 0], "b": x[:, 1]}
    found = quietly(start, table, "em", max_iter=2)
    assert found.objective[-1] > found.objective[0] + 0.1
    assert found.model.components.parts[0].probabilities[0, 0] > 0.85


def test_noise_makes_steps_of_rows_smooth_and_em_leaves_it_to_other_learners():
    flow = Flow("actnorm", 1, affine([[0.0]], [[1.0]]), noise="uniform", step=2.0, precision="double")
    np.testing.assert_allclose(flow.log_density([[0.0]]), stats.norm.logpdf([[1.0]]), atol=1e-12)
    drawn = flow.sample(np.zeros(50, int), np.random.default_rng(0))
    np.testing.assert_array_equal(drawn % 2, 0)
    np.testing.assert_allclose(flow.decode(flow.encode(drawn)), drawn, atol=1e-12)
    middle = flow.to_arrays(np.zeros((2000, 1)))
    gaussian = Flow("actnorm", 1, affine([[0.0]], [[1.0]]), noise="gaussian", precision="double")
    with precision(double=True):
        noisy = np.asarray(flow.noisy_at(middle, jax.random.PRNGKey(0)))
        bells = np.asarray(gaussian.noisy_at(middle, jax.random.PRNGKey(0)))
    assert noisy.min() >= 0 and noisy.max() <= 2 and noisy.std() == pytest.approx(2 / np.sqrt(12), rel=0.05)
    with pytest.raises(UnsupportedError, match="rows come in steps"):
        credo.fit(flow, [[0], [2], [4]], "em")
    assert bells.std() == pytest.approx(1, rel=0.05)


def test_blanks_and_models_are_shown_and_kept(tmp_path):
    assert (
        repr(credo.Flow.blank())
        == "BlankFlow(flow(bijection=actnorm + coupling); no parameters yet: fit it first)"
    )
    flow = lively(2, base=latent(2, 2))
    credo.save(flow, tmp_path / "flow.credo")
    again = credo.load(tmp_path / "flow.credo")
    x = moons(20)[0]
    np.testing.assert_array_equal(again.log_density(x), flow.log_density(x))
    assert "2 members" in repr(again) and "Mixture" in repr(again)


def test_what_cannot_be_is_refused():
    x = moons(20)[0]
    x[3, 0] = np.nan
    with pytest.raises(DataError, match=r"row 3 misses some of its numbers.*impute"):
        lively().log_density(x)
    with pytest.raises(DataError, match="column 1 has the same number in all rows"):
        credo.fit(lively(), np.column_stack([np.arange(5.0), np.ones(5)]), "em")
    with pytest.raises(DataError, match="column 1 has the same number"):
        credo.fit(credo.Flow.blank(LATENT), np.column_stack([np.arange(5.0), np.ones(5)]))
    with pytest.raises(ModelError, match="a coupling needs two coordinates or more, got 1"):
        Flow.started(LATENT, 1)
    with pytest.raises(ModelError, match="base of a flow: expected Gaussian members"):
        Flow.started(LATENT, 2, base=Product([Categorical([[1.0]]), Gaussian([[0.0]], [[[1.0]]])], [0, 1]))
    with pytest.raises(ModelError, match="product over columns by number"):
        parts = [Gaussian([[0.0]], [[[1.0]]]), Gaussian([[0.0]], [[[1.0]]])]
        Flow.started(LATENT, 2, base=Product(parts, ["a", "b"]))
    with pytest.raises(ModelError, match=r"parameters: expected arrays of shape \(members, 2\)"):
        Flow("actnorm", 2, affine([[1.0]], [[1.0]]))
    with pytest.raises(ModelError, match="expected a tree of arrays as actnorm makes it"):
        Flow("actnorm", 2, {"centre": [[0.0, 0.0]]})
    with pytest.raises(ModelError, match="expected finite numbers"):
        Flow("actnorm", 1, affine([[np.nan]], [[1.0]]))
    with pytest.raises(ModelError, match="as many members in all arrays"):
        Flow("actnorm", 1, {"centre": [[0.0]], "log_scale": [[0.0], [0.0]]})
    with pytest.raises(ModelError, match="base: expected a family of 1 members"):
        Flow("actnorm", 2, affine([[0.0, 0.0]], [[1.0, 1.0]]), latent(2, 2))
    with pytest.raises(ModelError, match="step: expected a positive number"):
        Flow.started("actnorm", 1, noise="uniform", step=0.0)
    for option in ({"noise": "salt"}, {"precision": "half"}):
        with pytest.raises(OptionError, match="must be one of"):
            Flow.started("actnorm", 1, **option)
    with pytest.raises(OptionError, match="flow has no option 'bijectio'"):
        credo.fit(credo.Mixture.blank(2, "flow(bijectio=coupling)"), moons(20)[0])
    with pytest.raises(OptionError, match="emission must be one of"):
        credo.Mixture.blank(2, "flows")
    with pytest.raises(ModelError, match="prior of leaves under a flow"):
        found = lively(base=latent(1, 2)).expect(moons(5)[0])
        found.update(lively(base=latent(1, 2)), MixturePrior(None, 3))
