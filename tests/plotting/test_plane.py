"""Densities in the plane and bent grids."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from credo.core.errors import ModelError, OptionError
from credo.families import DiagonalGaussian, Flow, Mixture
from credo.plotting import plot_plane


def test_density_data_and_the_grid_of_a_flow_are_shown():
    parameters = {"centre": np.array([[0.0, 0.0], [1.0, 2.0]]), "log_scale": np.log([[1.0, 1.0], [2.0, 4.0]])}
    model = Mixture([[0.5, 0.5]], Flow("actnorm", 2, parameters))
    data = np.random.default_rng(0).normal(size=(20, 2))
    axes = plot_plane(model, data, grid=1, resolution=21, limits=(-2, 3, -2, 4)).axes[0]
    image = axes.images[0].get_array()
    x, y = np.linspace(-2, 3, 21), np.linspace(-2, 4, 21)
    assert image[7, 3] == pytest.approx(np.exp(model.log_density([[x[3], y[7]]]))[0, 0])
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), data[:, 0])
    lines = axes.lines[1:]
    assert len(lines) == 26
    np.testing.assert_allclose(lines[0].get_xdata(), 1.0 - 3.0 / 2.0, atol=1e-6)
    np.testing.assert_allclose(lines[0].get_ydata()[[0, -1]], [2.0 - 3.0 / 4.0, 2.0 + 3.0 / 4.0], atol=1e-6)


def test_a_family_without_data_is_shown_where_its_draws_lie_and_what_cannot_be_is_refused():
    gaussian = DiagonalGaussian([[5.0, -5.0]], [[1.0, 1.0]])
    left, right = plot_plane(gaussian, resolution=5).axes[0].get_xlim()
    assert 0 < left < 4 and 6 < right < 10
    with pytest.raises(ModelError, match="expected a flow or a mixture of flows"):
        plot_plane(gaussian, grid=0)
    with pytest.raises(ModelError, match="family with one member"):
        plot_plane(gaussian.take([0, 0]))
    with pytest.raises(ModelError, match="rows of two numbers"):
        plot_plane(DiagonalGaussian([[0.0]], [[1.0]]))
    with pytest.raises(OptionError, match="left, right, bottom, top"):
        plot_plane(gaussian, limits=(1, 0, 0, 1))
