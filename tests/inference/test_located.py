"""Where mass is: models of any place and width, no integral, and what rounding leaves of log Z."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo import GaussianFactor, HybridNet, potentials
from credo.core.errors import ConvergenceWarning, ModelError
from credo.core.result import Status
from credo.inference.problem.gaussian_system import rounding
from credo.inference.problem.located import places_of, search
from hybrid_zoo import gaussian_loop, real

X, Y, Z = real("x"), real("y"), real("z")


def chain(mean: float, sd: float) -> HybridNet:
    """x ~ N(mean, sd^2), y = x + noise of the same size: log Z is zero, and y is wider by sqrt(2)."""
    return HybridNet(
        [X, Y], [potentials.gaussian(X, mean, sd**2), GaussianFactor.linear(Y, [X], [1.0], sd**2)]
    )


PLACES = [
    (0.0, 1.0),
    (0.3, 1e-12),
    (-3e5, 5e4),
    (1e6, 1.0),
    (2e9, 1e-3),
    (-7e13, 1e10),
    (1e-9, 1e-15),
    (0, 1e13),
]


@pytest.mark.parametrize("shape", ["normal", "student", "laplace", "half"])
def test_one_search_finds_functions_of_any_place_and_width(shape):
    """All at once; the functions are evaluated without rounding of their own."""
    at, width = (np.array(v)[:, None] for v in zip(*PLACES, strict=True))
    height = {
        "normal": lambda u: -0.5 * u**2,
        "student": lambda u: -2.5 * np.log1p(u**2 / 4),
        "laplace": lambda u: -np.abs(u),
        "half": lambda u: np.where(u >= 0, -u, -np.inf),
    }[shape]
    seen = search(lambda x: height((x - at) / width), np.ones(len(PLACES), dtype=bool))
    assert seen.known.all()
    mean, sd = seen.moments()
    true_sd = {"normal": 1.0, "student": 1.4, "laplace": 1.4, "half": 1.0}[shape]
    true_mean = 1.0 if shape == "half" else 0.0
    digits = 1e-15 * np.abs(at[:, 0]) / width[:, 0]
    np.testing.assert_array_less(np.abs((mean - at[:, 0]) / width[:, 0] - true_mean), 0.1 + 4 * digits)
    np.testing.assert_allclose(sd / width[:, 0], true_sd, rtol=0.1)
    low, high = seen.hull(10.0)
    assert (low <= mean).all() and (mean <= high).all()
    assert (high - low < 100 * width[:, 0]).all()


def test_a_hull_covers_all_modes_and_what_does_not_fall_is_not_known():
    rows = [
        lambda x: np.logaddexp(-((x - 3) ** 2), -0.01 * (x + 700.0) ** 2),
        np.zeros_like,
        lambda x: np.full_like(x, -np.inf),
        np.tanh,
        lambda x: -0.5 * np.log1p(np.abs(x)),  # falls more slowly than 1/|x|
        lambda x: np.where(np.abs(x) > 1e3, np.nan, -np.abs(x)),  # no number far out counts as zero
    ]

    def height(points):
        return np.stack([row(own) for row, own in zip(rows, points, strict=True)])

    seen = search(height, np.ones(len(rows), dtype=bool))
    assert seen.known.tolist() == [True, False, False, False, False, True]
    low, high = seen.hull(30.0)
    assert -800 < low[0] < -740 and 8 < high[0] < 11


def test_places_are_passed_on_from_neighbour_to_neighbour():
    many = [real(f"v{i}") for i in range(20)]
    factors = [potentials.student(many[0], freedom=2.0, centre=-4e7)]
    factors += [potentials.laplace(a, b, centre=5.0) for a, b in zip(many[1:], many[:-1], strict=True)]
    found = places_of(HybridNet([*many, Z], factors).to_factor_graph())
    assert found.own.tolist() == [True] + [False] * 20
    assert np.abs(found.centre[:20] + 4e7).max() < 200
    assert (found.centre[20], found.scale[20]) == (0.0, 1.0) and not found.known[20]


@pytest.mark.parametrize(("mean", "sd"), [(3e5, 5e4), (1e7, 1e6), (1e6, 1.0)])
@pytest.mark.parametrize("method", ["ep-particle-bp", "particle-bp", "nonparametric-bp", "grid-bp", "bethe"])
def test_every_method_finds_a_chain_far_out(method, mean, sd):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = credo.infer(chain(mean, sd), method, seed=0)
    # Five components for one Gaussian leave bethe directions in which nothing rises: it may say stalled.
    assert found.status in ((Status.CONVERGED, Status.STALLED) if method == "bethe" else (Status.CONVERGED,))
    assert found.log_z.value == pytest.approx(0, abs=0.1)
    for name, width in (("x", sd), ("y", np.sqrt(2) * sd)):
        assert found.marginals[name].mean == pytest.approx(mean, abs=0.1 * sd)
        assert found.marginals[name].sd == pytest.approx(width, rel=0.06)


@pytest.mark.parametrize(("centre", "scale"), [(1e4, 1.0), (1.0, 1e-6)])
@pytest.mark.parametrize("method", ["hmc", "gibbs", "metropolis", "svgd", "nonparametric-vi", "ep"])
def test_methods_that_move_start_where_a_model_lies_and_step_as_wide(method, centre, scale):
    model = HybridNet(
        [X, Y],
        [
            potentials.gaussian_mixture(X, [0.4, 0.6], centre + np.array([-2.0, 1.0]) * scale, scale**2),
            potentials.student(X, Y, freedom=9.0, scale=scale),
            potentials.student(Y, freedom=4.0, centre=centre, scale=scale),
        ],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = credo.infer(model, method, seed=0, max_iter=400)
    assert found.status is not Status.DIVERGED
    for name, mean, sd in (("x", 0.01, 1.33), ("y", 0.0, 1.05)):
        assert (found.marginals[name].mean - centre) / scale == pytest.approx(mean, abs=0.3)
        assert found.marginals[name].sd / scale == pytest.approx(sd, rel=0.25)


def test_a_wide_density_around_zero_is_a_density():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = credo.infer(chain(0.0, 1e6), "bethe", seed=0)
    assert found.log_z.value == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("centre", [100.0, 1e6])
def test_gaussian_trees_and_mean_field_start_where_a_heavy_tailed_factor_is(centre):
    model = HybridNet([X], [potentials.student(X, freedom=4.0, centre=centre)])
    trees = credo.infer(model, "mixture-of-gaussian-trees(components=1)", seed=0)
    assert trees.status is Status.CONVERGED
    assert trees.log_z.value == pytest.approx(np.log(8 / 3), abs=0.1)
    field = credo.infer(model, "mean-field", seed=0)
    assert np.log(8 / 3) - 0.2 < field.log_z.value < np.log(8 / 3)
    for found in (trees, field):
        assert found.marginals["x"].mean == pytest.approx(centre, abs=0.1)


@pytest.mark.parametrize("scale", [1e-6, 1e3, 1e6])
def test_the_climb_of_gaussian_trees_does_not_depend_on_units(scale):
    """Neither the way nor the status: slopes are measured in scales of the variables."""

    def found(unit):
        heavy = potentials.student(X, freedom=4.0, centre=3 * unit, scale=unit)
        model = HybridNet([X, Y], [heavy, potentials.student(X, Y, freedom=9.0, scale=unit)])
        return credo.infer(model, "mixture-of-gaussian-trees(components=1)", seed=0)

    one, other = found(1.0), found(scale)
    assert one.status is other.status is Status.CONVERGED
    assert other.log_z.value - 2 * np.log(scale) == pytest.approx(one.log_z.value, abs=1e-9)
    for name in ("x", "y"):
        assert other.marginals[name].mean / scale == pytest.approx(one.marginals[name].mean, abs=1e-6)
        assert other.marginals[name].sd / scale == pytest.approx(one.marginals[name].sd, rel=1e-6)


METHODS = (
    "mean-field nonparametric-vi mixture-of-gaussian-trees grid-bp gibbs metropolis nuts bethe particle-bp "
    "ep svgd kernel-bp"
)


@pytest.mark.parametrize("method", ["gaussian", *METHODS.split(), "ep-particle-bp", "nonparametric-bp"])
def test_gaussian_factors_without_an_integral_are_refused_alike(method):
    saddle = HybridNet([X, Y], [GaussianFactor([X, Y], [[1.0, 2.0], [2.0, 1.0]])])
    says = r"has no integral: it grows along \(x: 1, y: -0.5\), where the precision is -0.6"
    with pytest.raises(ModelError, match=says):
        credo.infer(saddle, method, seed=0)


@pytest.mark.parametrize("method", ["gibbs", "nonparametric-bp", "grid-bp", "mean-field", "svgd"])
def test_a_factor_that_outgrows_the_others_is_refused(method):
    model = HybridNet([X], [potentials.gaussian(X), credo.DensityFactor([X], lambda x: 0.6 * x**2)])
    with pytest.raises(ModelError, match="'x': the product of its factors does not fall towards infinity"):
        credo.infer(model, method, seed=0)


def test_an_error_of_a_function_far_out_names_its_factor():
    def short(x):
        if np.any(np.abs(x) > 1e3):
            raise ValueError("too far")
        return -(np.asarray(x) ** 2)

    with pytest.raises(ModelError, match=r"over \['x'\]: its function failed with ValueError: too far"):
        credo.infer(HybridNet([X], [credo.DensityFactor([X], short)]), "gibbs", seed=0)


def test_no_integral_is_noticed_beside_other_factors():
    """Whatever z is, there is no integral over x and y."""
    s = credo.Variable("s", 2)
    factors = [
        GaussianFactor([X, Y], [[1.0, 2.0], [2.0, 1.0]]),
        potentials.laplace(Z),
        credo.TableFactor([s], [1, 2]),
    ]
    for method in ("mean-field", "gibbs", "grid-bp"):
        with pytest.raises(ModelError, match="has no integral"):
            credo.infer(HybridNet([X, Y, Z, s], factors), method, seed=0)
    with pytest.raises(ModelError, match="it grows along 'x', where the precision is -1"):
        credo.infer(HybridNet([X], [GaussianFactor([X], [[-1.0]])]), "mean-field")


CANCELLING = [
    HybridNet([X], [potentials.gaussian(X, 1.7e9, 1.0)]),
    HybridNet([X], [potentials.gaussian(X, 1.0, 1e-16)]),
    chain(1.0, 1e-8),
    chain(1e6, 1.0),
]


@pytest.mark.parametrize("model", CANCELLING, ids=["far", "narrow", "narrow chain", "far chain"])
def test_no_more_of_log_z_is_claimed_than_rounding_leaves(model):
    """log Z is zero, a difference of numbers of up to 1e18."""
    mean = 1.7e9 if model is CANCELLING[0] else 1e6 if model is CANCELLING[3] else 1.0
    truth = 1e-8 if model in CANCELLING[1:3] else 1.0
    doubt = rounding(model.to_factor_graph(), np.full(len(model.variables), mean))
    for method in ("gaussian", "gaussian-bp"):
        found = credo.infer(model, method)
        assert found.log_z.kind == "estimate" and abs(found.log_z.value) < doubt
        assert "log Z is the difference of large numbers" in found.notes[-1]
        assert found.marginals["x"].sd == pytest.approx(truth)
    for method in ["mean-field", "nonparametric-vi", "bethe"][: 1 if len(model.variables) == 1 else 3]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # noise may keep an optimiser from its end
            found = credo.infer(model, method, seed=0)
        assert found.log_z.kind == "estimate" or found.log_z.value <= 0
        assert abs(found.log_z.value) < 4 * doubt + 1
    field = credo.infer(model, "mean-field", seed=0)
    assert field.status is Status.CONVERGED and field.log_z.kind == "lower"
    assert field.marginals["x"].mean == pytest.approx(mean, rel=1e-12)


def test_ordinary_models_lose_nothing_to_rounding():
    net = gaussian_loop()
    found = credo.infer(net, "gaussian")
    assert found.log_z.kind == "exact" and found.notes == ()
    assert rounding(net.to_factor_graph(), np.abs(net.mean)) < 1e-13
