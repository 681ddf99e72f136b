"""What all pictures share: where they are drawn, and how notebooks show them."""

import struct
import sys
from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.core.errors import MissingExtraError, OptionError
from credo.core.result import Marginals, Status
from credo.core.variable import Variables
from credo.families.densities import MixtureDensity
from credo.models.normal_form_build import from_bayes_net
from credo.plotting import (
    plot_beliefs,
    plot_comparison,
    plot_densities,
    plot_grid,
    plot_model,
    plot_normal_form,
    plot_regions,
    plot_trace,
    plot_trajectories,
)
from credo.plotting.style import new_figure

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure


def answer():
    return credo.infer(credo.datasets.student(), "enumerate")


def run():
    return replace(answer(), status=Status.CONVERGED, trace={"change": np.ones(3), "energy": np.ones(3)})


def density():
    one = MixtureDensity(np.ones(1), np.zeros(1), np.ones(1))
    return Marginals(Variables.of({"x": credo.Real()}), np.empty(0), {"x": one})


def normal_form():
    return from_bayes_net(credo.BayesNet.random({"a": 2, "b": 3}, {"b": ["a"]}, seed=0))


def table():
    return credo.compare(credo.datasets.sprinkler(), ["enumerate"])


def trajectories():
    return {"ML": {"p(S)": np.full((5, 1, 2), 0.5), "p(X)": np.full((5, 1, 2), 0.5)}}


ONE_PANEL = [
    lambda **where: plot_beliefs(answer(), ["grade"], **where),
    lambda **where: plot_comparison(table(), ["seconds"], **where),
    lambda **where: plot_densities(density(), **where),
    lambda **where: plot_grid(answer(), 1, 5, **where),
    lambda **where: plot_model(credo.datasets.asia(), **where),
    lambda **where: plot_normal_form(normal_form(), **where),
    lambda **where: plot_regions(credo.datasets.ising_grid(2), **where),
    lambda **where: plot_trace(run(), ["change"], **where),
    lambda **where: plot_trajectories(trajectories(), parameters=["p(S)"], **where),
]
SEVERAL_PANELS = {
    "plot_beliefs": lambda **where: plot_beliefs(answer(), ["grade", "letter"], **where),
    "plot_comparison": lambda **where: plot_comparison(table(), **where),
    "plot_trace": lambda **where: plot_trace(run(), **where),
    "plot_trajectories": lambda **where: plot_trajectories(trajectories(), **where),
}


def marks(axes):
    return len(axes.patches) + len(axes.lines) + len(axes.images)


@pytest.mark.parametrize("draw", ONE_PANEL)
def test_given_axes_are_drawn_into_and_their_figure_is_returned(draw, tmp_path):
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    assert draw(ax=right) is figure
    assert marks(right) > 0
    assert marks(left) == 0
    assert tuple(figure.get_size_inches()) == (8, 3)
    figure.savefig(tmp_path / "picture.png")


def test_axes_of_a_part_of_a_figure_return_the_whole_figure():
    figure = Figure()
    part = figure.subfigures(1, 2)[0]
    assert plot_model(credo.datasets.asia(), ax=part.subplots()) is figure
    assert plot_beliefs(answer(), ["grade"], ax=part.subplots()) is figure


@pytest.mark.parametrize("draw", [*ONE_PANEL, *SEVERAL_PANELS.values()])
def test_a_new_figure_has_the_size_that_is_asked_for(draw, tmp_path):
    figure = draw(figsize=(9, 4.5))
    assert tuple(figure.get_size_inches()) == (9, 4.5)
    figure.savefig(tmp_path / "picture.png")


def test_names_in_a_smaller_drawing_are_smaller():
    natural = plot_model(credo.datasets.asia())
    half = plot_model(credo.datasets.asia(), figsize=tuple(natural.get_size_inches() / 2))
    sizes = [figure.axes[0].texts[0].get_fontsize() for figure in (natural, half)]
    assert sizes[1] == pytest.approx(sizes[0] / 2)


@pytest.mark.parametrize("name", SEVERAL_PANELS)
def test_several_panels_do_not_fit_into_given_axes(name):
    with pytest.raises(OptionError, match=rf"{name}: ax= has room for one panel, got [2-9]; choose what"):
        SEVERAL_PANELS[name](ax=Figure().subplots())


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"ax": 3}, "plot_model: ax must be one pair of Matplotlib axes, got int; take one of figure.axes"),
        ({"ax": np.array([1, 2])}, "got ndarray"),
        ({"ax": Figure().subplots(), "figsize": (3, 3)}, "plot_model: expected ax or figsize, got both"),
        *(
            ({"figsize": size}, r"plot_model: figsize must be \(width, height\) in inches, got")
            for size in [(3,), 3, (3, 0), (3, np.nan), "ab", (1, 2, 3), (np.inf, 1)]
        ),
    ],
)
def test_places_that_are_none_are_refused(where, message):
    with pytest.raises(OptionError, match=message):
        plot_model(credo.datasets.asia(), **where)


def pixels(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


def test_notebooks_are_given_a_picture():
    figure = plot_model(credo.datasets.asia())
    width, height = pixels(figure._repr_png_())
    np.testing.assert_allclose((width, height), figure.get_size_inches() * figure.dpi, atol=1)


def test_the_picture_of_a_large_figure_fits_a_screen_while_its_file_does_not(tmp_path):
    figure = new_figure(40, 20)
    np.testing.assert_allclose(pixels(figure._repr_png_()), (1800, 900), atol=1)
    figure.savefig(tmp_path / "whole.png")
    assert pixels((tmp_path / "whole.png").read_bytes()) == (6000, 3000)


def test_pictures_leave_pyplot_and_its_settings_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    had_pyplot = "matplotlib.pyplot" in sys.modules
    plot_beliefs(answer())
    plot_model(credo.datasets.asia())
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


def test_a_missing_package_names_the_extra(monkeypatch):
    for module in [m for m in sys.modules if m.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"package 'matplotlib'.*pip install 'credo\[plot\]'"):
        plot_model(credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): np.ones((2, 2))}))
