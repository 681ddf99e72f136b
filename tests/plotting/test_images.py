"""Images side by side, and curves with bands."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from credo.core.errors import DataError, OptionError
from credo.plotting import plot_curves, plot_images


def shown(figure):
    return np.ma.filled(figure.axes[0].images[0].get_array(), np.nan)


def test_images_stand_side_by_side_with_a_gap():
    images = np.arange(5)[:, None, None] * np.ones((5, 2, 3))
    canvas = shown(plot_images(images, columns=3))
    assert canvas.shape == (2 * 2 + 1, 3 * 3 + 2)
    assert canvas[0, :3].tolist() == [0] * 3 and canvas[0, 4:7].tolist() == [1] * 3
    assert canvas[3, 4:7].tolist() == [4] * 3 and np.isnan(canvas[3, 8:]).all() and np.isnan(canvas[2]).all()


def test_rows_of_pixels_and_grids_are_images_too():
    flat = np.arange(16.0).reshape(4, 4)
    np.testing.assert_array_equal(shown(plot_images(flat)), shown(plot_images(flat.reshape(4, 2, 2))))
    wide = plot_images(flat, shape=(1, 4), columns=1, limits=(0, 20), titles=["a"])
    assert shown(wide).shape == (7, 4) and wide.axes[0].images[0].get_clim() == (0, 20)
    assert [text.get_text() for text in wide.axes[0].texts] == ["a"]
    assert shown(plot_images(np.zeros((2, 5, 3, 3)))).shape == (7, 19)


def test_curves_of_several_runs_are_a_mean_and_a_band():
    figure = plot_curves({"one": [1.0, 2.0, 4.0], "runs": [[0, 1, 2], [2, 3, 4]]}, ylabel="nats", log=True)
    axes = figure.axes[0]
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1, 2, 4], [1, 2, 3]]
    assert len(axes.collections) == 1 and axes.get_yscale() == "log" and axes.get_ylabel() == "nats"
    assert axes.lines[0].get_xdata().tolist() == [1, 2, 3]
    again = plot_curves({"more": [5, 6]}, x=[1, 3], ax=axes)
    assert again is figure and axes.lines[2].get_xdata().tolist() == [1, 3]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: plot_images(np.zeros((2, 5))), OptionError, "of 5 pixels, got None"),
        (lambda: plot_images(np.zeros((2, 4)), shape=(3, 2)), OptionError, r"of 4 pixels, got \(3, 2\)"),
        (lambda: plot_images(np.zeros(4)), DataError, r"expected \(images, height, width\)"),
        (lambda: plot_images(np.zeros((2, 4)), columns=0), OptionError, "columns must be at least 1"),
        (lambda: plot_images(np.zeros((2, 4)), limits=(1, 1)), OptionError, "black below white"),
        (
            lambda: plot_images(np.zeros((2, 4)), titles=["a"]),
            OptionError,
            "expected 2, one per column, got 1",
        ),
        (lambda: plot_curves({}), OptionError, "expected at least one, got none"),
        (
            lambda: plot_curves({"a": [1, 2]}, x=[1]),
            DataError,
            "curve 'a': expected 1 numbers per run, got 2",
        ),
    ],
)
def test_refusals(call, error, said):
    with pytest.raises(error, match=said):
        call()
