"""Pictures of beliefs, densities and runs, judged by what is drawn in them."""

from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.core.errors import QueryError
from credo.core.result import Marginals, Status
from credo.core.variable import Variables
from credo.families.densities import MixtureDensity, ParticleDensity
from credo.plotting import plot_beliefs, plot_densities, plot_grid, plot_trace

pytest.importorskip("matplotlib")


@pytest.fixture
def result():
    return credo.infer(credo.datasets.student(), "enumerate")


def draws(figure, tmp_path):
    """Whether the whole picture can be painted; warnings are errors."""
    figure.savefig(tmp_path / "picture.png")
    return (tmp_path / "picture.png").stat().st_size > 1000


def test_beliefs_are_bars_of_the_right_length_with_labels(result, tmp_path):
    figure = plot_beliefs(result, ["grade", "letter"])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["grade", "letter"]
    grade = figure.axes[0]
    np.testing.assert_allclose([bar.get_width() for bar in grade.patches], result.marginals["grade"])
    assert [t.get_text() for t in grade.get_yticklabels()] == ["A", "B", "C"]
    assert [t.get_text() for t in grade.texts] == [f"{p:.3f}" for p in result.marginals["grade"]]
    assert draws(figure, tmp_path)


def test_two_answers_stand_side_by_side_with_a_legend(result, tmp_path):
    second = credo.infer(credo.datasets.student(), "enumerate", evidence={"SAT": "high"})
    figure = plot_beliefs(result, ["grade"], compare=second, labels=("before", "after"))
    first_bars, second_bars = figure.axes[0].containers
    np.testing.assert_allclose([b.get_width() for b in first_bars], result.marginals["grade"])
    np.testing.assert_allclose([b.get_width() for b in second_bars], second.marginals["grade"])
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["before", "after"]
    assert draws(figure, tmp_path)


def test_two_answers_of_one_method_get_different_captions(result):
    (legend,) = plot_beliefs(result, ["grade"], compare=result).legends
    assert [t.get_text() for t in legend.get_texts()] == ["enumerate (1)", "enumerate (2)"]


def test_a_grid_shows_the_probability_of_the_state_row_by_row(tmp_path):
    found = credo.infer(credo.datasets.ising_grid(3, 4, seed=1), "enumerate")
    figure = plot_grid(found, 3, 4)
    (image,) = figure.axes[0].images
    shown = np.asarray(image.get_array())
    assert shown.shape == (3, 4)
    np.testing.assert_allclose(shown.ravel(), [found.marginals[n][1] for n in found.marginals])
    assert figure.axes[0].texts[0].get_text() == f"{shown[0, 0]:.2f}"
    assert draws(figure, tmp_path)


def test_a_trace_has_a_panel_per_quantity_and_a_log_axis_where_it_helps(result, tmp_path):
    change = 0.5 ** np.arange(1, 21)
    run = replace(
        result, status=Status.CONVERGED, trace={"change": change, "energy": np.linspace(-2.0, -1.0, 20)}
    )
    figure = plot_trace(run)
    assert [axes.get_ylabel() for axes in figure.axes] == ["change", "energy"]
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "linear"]
    (line,) = figure.axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), change)
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 21))
    assert figure.axes[0].get_title(loc="left") == "enumerate: converged"
    assert draws(figure, tmp_path)
    assert len(plot_trace(run, ["energy"]).axes) == 1


def test_the_trace_of_learning_begins_at_the_start_and_shows_the_objective(tmp_path):
    found = credo.fit(credo.datasets.sprinkler(), [{"rain": 0}, {"wet": 1}], "em", max_iter=50, seed=0)
    figure = plot_trace(found, ["objective", "log_likelihood"])
    (line,) = figure.axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), found.objective)
    np.testing.assert_array_equal(line.get_xdata(), np.arange(len(found.objective)))
    assert figure.axes[0].get_title(loc="left") == f"em: {found.status.value}"
    assert {"objective", *found.trace} == {axes.get_ylabel() for axes in plot_trace(found).axes}
    assert draws(figure, tmp_path)


def test_one_answer_needs_no_label():
    result = credo.infer(credo.GaussianNet([[2.0, 0.5], [0.5, 1.0]]), "gaussian")
    named = plot_densities({"exact": result})
    for figure in (plot_densities(result), plot_densities(result.marginals)):
        assert [axes.get_title(loc="left") for axes in figure.axes] == ["x0", "x1"]
        np.testing.assert_array_equal(figure.axes[1].lines[0].get_ydata(), named.axes[1].lines[0].get_ydata())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: plot_beliefs(r, ["nobody"]), QueryError, "no variable named 'nobody'"),
        (lambda r: plot_beliefs(r, []), QueryError, "expected 1 to 60 variables, got 0; choose some"),
        (lambda r: plot_beliefs(3), QueryError, "plot: expected a Result or its marginals, got int"),
        (
            lambda r: plot_beliefs(credo.infer(credo.datasets.student(), "enumerate", maximise="all")),
            QueryError,
            "it holds an assignment, not marginals",
        ),
        (lambda r: plot_grid(r, 2, 2), QueryError, "expected 2 x 2 = 4 variables, got 5"),
        (lambda r: plot_grid(r, 1, 5, state=2), QueryError, "variable 'difficulty' has no state number 2"),
        (plot_trace, QueryError, "enumerate recorded no trace"),
        (lambda r: plot_trace(3), QueryError, "plot_trace: expected a Result or a Fit, got int"),
        (plot_densities, QueryError, "no densities of real variables; use plot_beliefs"),
        (lambda r: plot_densities(3), QueryError, "expected a Result or its marginals, got int"),
        (
            lambda r: plot_trace(replace(r, trace={"change": np.ones(2)}), ["energy"]),
            QueryError,
            r"no quantity named 'energy'; there are \['change'\]",
        ),
    ],
)
def test_refusals_say_what_was_expected(result, call, error, message):
    with pytest.raises(error, match=message):
        call(result)


def test_narrow_peaks_are_drawn_with_their_area():
    variables = Variables.of({"x": credo.Real()})
    peaks = MixtureDensity(np.full(2, 0.5), np.array([0.0, 10.0]), np.full(2, 0.001))
    wide = MixtureDensity(np.ones(1), np.array([5.0]), np.array([4.0]))
    answers = {k: Marginals(variables, np.empty(0), {"x": d}) for k, d in (("two", peaks), ("one", wide))}
    for line in plot_densities(answers).axes[0].lines:
        assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(1, abs=1e-4)
    axes = plot_densities(answers).axes[0]
    assert axes.get_xlim() == pytest.approx((5 - 5 * peaks.sd, 5 + 5 * peaks.sd))


def test_particles_at_one_point_are_drawn():
    one = ParticleDensity(np.full(4, 2.0), np.full(4, 0.25))
    figure = plot_densities(Marginals(Variables.of({"x": credo.Real()}), np.empty(0), {"x": one}))
    line = figure.axes[0].lines[0]
    assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(1, abs=1e-4)


def test_runs_drawn_into_the_same_axes_keep_apart(result):
    one = replace(result, status=Status.CONVERGED, trace={"change": 0.5 ** np.arange(20)})
    axes = plot_trace(one).axes[0]
    assert axes.get_yscale() == "log"
    plot_trace(replace(one, algorithm="other", trace={"change": np.linspace(-1, 1, 5)}), ax=axes)
    first, second = axes.lines
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["enumerate", "other"]
    assert axes.get_title(loc="left") == ""
    assert first.get_color() != second.get_color()
    assert axes.get_yscale() == "linear"  # a logarithmic axis would hide the second run


def test_densities_drawn_into_the_same_axes_keep_apart_and_in_view():
    variables = Variables.of({"x": credo.Real()})
    left, right = (MixtureDensity(np.ones(1), np.array([m]), np.ones(1)) for m in (-3.0, 20.0))
    figure = plot_densities(Marginals(variables, np.empty(0), {"x": left}))
    axes = figure.axes[0]
    assert plot_densities({"b": Marginals(variables, np.empty(0), {"x": right})}, ax=axes) is figure
    assert axes.get_xlim() == pytest.approx((-8, 25))
    first, second = axes.lines
    assert first.get_color() != second.get_color()
    assert second.get_label() == "b"


def test_the_legend_of_two_answers_stands_inside_given_axes(result):
    axes = plot_beliefs(result, ["letter"]).axes[0]
    plot_beliefs(result, ["grade"], compare=result, ax=axes)
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["enumerate (1)", "enumerate (2)"]
    assert not axes.figure.legends
