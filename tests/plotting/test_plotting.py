"""Pictures, judged by what is drawn in them."""

import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import credo
from credo.core.errors import MissingExtraError, OptionError, QueryError, UnsupportedError
from credo.core.result import Marginals, Status
from credo.core.variable import Variables
from credo.families.densities import MixtureDensity, ParticleDensity
from credo.plotting import (
    plot_beliefs,
    plot_comparison,
    plot_densities,
    plot_grid,
    plot_model,
    plot_trace,
)
from credo.plotting.layout import lattice_columns, layered

pytest.importorskip("matplotlib")
pytest.importorskip("networkx")
from matplotlib.collections import LineCollection
from matplotlib.patches import Ellipse, FancyArrowPatch


@pytest.fixture
def result():
    return credo.infer(credo.datasets.student(), "enumerate")


def texts(axes):
    return {t.get_text(): t for t in axes.texts}


def kinds(axes, kind):
    return [p for p in axes.patches if isinstance(p, kind)]


def draws(figure, tmp_path):
    """Whether the whole picture can be painted; warnings are errors."""
    figure.savefig(tmp_path / "picture.png")
    return (tmp_path / "picture.png").stat().st_size > 1000


def test_a_network_has_an_arrow_per_parent_and_a_name_per_variable(tmp_path):
    model = credo.datasets.asia()
    figure = plot_model(model)
    (axes,) = figure.axes
    assert set(texts(axes)) == set(model.variables.names)
    assert len(kinds(axes, FancyArrowPatch)) == sum(len(p) for p in model.parents.values())
    assert draws(figure, tmp_path)


def test_parents_are_drawn_above_their_children():
    model = credo.datasets.asia()
    where = texts(plot_model(model).axes[0])
    for child, parents in model.parents.items():
        for parent in parents:
            assert where[parent].get_position()[1] > where[child].get_position()[1]


def test_variables_of_a_network_do_not_overlap():
    ellipses = kinds(plot_model(credo.datasets.random_bayes_net(30, seed=1)).axes[0], Ellipse)
    boxes = [(*e.center, e.width, e.height) for e in ellipses]
    for k, (x, y, w, h) in enumerate(boxes):
        for u, v, width, height in boxes[:k]:
            assert abs(x - u) >= (w + width) / 2 or abs(y - v) >= (h + height) / 2


def test_observed_variables_are_dark_and_show_their_state():
    axes = plot_model(credo.datasets.sprinkler(), evidence={"wet": "yes", "rain": [0.1, 0.9]}).axes[0]
    assert {"wet = yes", "rain", "cloudy"} <= set(texts(axes))
    brightness = {e.center: np.mean(e.get_facecolor()[:3]) for e in kinds(axes, Ellipse)}
    where = {name: brightness[t.get_position()] for name, t in texts(axes).items()}
    assert max(where["wet = yes"], where["rain"]) < 0.5 < min(where["cloudy"], where["sprinkler"])


def test_a_factor_graph_has_a_square_per_factor_and_a_line_per_edge(tmp_path):
    graph = credo.FactorGraph(
        {"a": 2, "b": 2, "c": 2, "alone": 2},
        {("a", "b", "c"): np.ones((2, 2, 2)), ("a",): [1, 2], (): np.ones(())},
    )
    figure = plot_model(graph)
    (axes,) = figure.axes
    (squares,) = axes.lines
    assert len(squares.get_xdata()) == graph.n_factors
    (lines,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert len(lines.get_segments()) == len(graph.scope)
    assert len(kinds(axes, Ellipse)) == 4
    assert draws(figure, tmp_path)


def test_a_large_pairwise_model_is_drawn_with_lines_and_a_grid_as_a_grid():
    axes = plot_model(credo.datasets.ising_grid(4, 5)).axes[0]
    assert not axes.lines
    (lines,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert len(lines.get_segments()) == 4 * 4 + 3 * 5
    centres = np.array([e.center for e in kinds(axes, Ellipse)]).reshape(4, 5, 2)
    assert (np.ptp(centres[..., 0], axis=0) == 0).all()
    assert (np.ptp(centres[..., 1], axis=1) == 0).all()


def test_given_positions_are_used():
    places = {"a": (0.0, 0.0), "b": (3.0, 1.0)}
    graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): np.ones((2, 2))})
    for style in ("factors", "pairwise"):
        axes = plot_model(graph, style=style, positions=places).axes[0]
        assert {n: t.get_position() for n, t in texts(axes).items()} == places


@pytest.mark.parametrize("count", [0, 1, 160, 300])
def test_models_of_every_size_can_be_drawn(count, tmp_path):
    model = credo.FactorGraph(np.full(count, 2)) if count < 2 else credo.datasets.random_tree(count, seed=0)
    assert len(kinds(plot_model(model).axes[0], Ellipse)) == count
    assert plot_model(model).savefig(tmp_path / "p.svg") is None


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


@dataclass(frozen=True)
class FakeRow:
    method: str
    seconds: float = 1.0
    max_tv: float | None = 0.0
    log_z_error: float | None = 0.0
    score: float | None = None
    answered: bool = True


@dataclass(frozen=True)
class FakeComparison:
    rows: tuple
    maximised: bool = False
    reference: ClassVar[str] = "exact"


def test_a_comparison_has_bars_of_time_and_error_and_skips_refusals(tmp_path):
    rows = (FakeRow("exact"), FakeRow("bp", 0.1, 1e-3, -2e-2), FakeRow("no", answered=False))
    figure = plot_comparison(FakeComparison(rows))
    assert [axes.get_xlabel() for axes in figure.axes] == ["seconds", "max TV", "|log Z error|"]
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["exact", "bp"]
    widths = [[bar.get_width() for bar in axes.patches] for axes in figure.axes]
    np.testing.assert_allclose(widths, [[1.0, 0.1], [1e-16, 1e-3], [1e-16, 2e-2]])
    assert [t.get_text() for t in figure.axes[1].texts] == ["0", "0.001"]
    assert draws(figure, tmp_path)


def test_a_comparison_of_maxima_shows_how_far_each_score_is_below_the_best(tmp_path):
    rows = (FakeRow("exact", score=-1.0), FakeRow("rough", score=-3.5, log_z_error=None), FakeRow("mute"))
    figure = plot_comparison(FakeComparison(rows, maximised=True))
    assert figure.axes[1].get_xlabel() == "score below the best"
    np.testing.assert_allclose([bar.get_width() for bar in figure.axes[1].patches], [1e-16, 2.5])
    assert draws(figure, tmp_path)


def test_a_real_comparison_can_be_drawn(tmp_path):
    table = credo.compare(credo.datasets.sprinkler(), ["enumerate", "enumerate(max_states=2)"])
    assert draws(plot_comparison(table), tmp_path)


def test_pictures_leave_pyplot_and_its_settings_alone(result):
    import matplotlib

    before = dict(matplotlib.rcParams)
    had_pyplot = "matplotlib.pyplot" in sys.modules
    plot_beliefs(result)
    plot_model(credo.datasets.asia())
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


@pytest.mark.parametrize("package", ["matplotlib", "networkx"])
def test_a_missing_package_names_the_extra(package, monkeypatch):
    for module in [m for m in sys.modules if m.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"package '{package}'.*pip install 'credo\[plot\]'"):
        plot_model(credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): np.ones((2, 2))}))


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
        (
            lambda r: plot_comparison(FakeComparison((FakeRow("a", answered=False),))),
            QueryError,
            "no method answered",
        ),
        (lambda r: plot_model(credo.datasets.asia(), style="round"), OptionError, "style must be one of"),
        (
            lambda r: plot_model(credo.datasets.ising_grid(2), style="directed"),
            UnsupportedError,
            "style 'directed' needs a model with parents, got MarkovNet",
        ),
        (
            lambda r: plot_model(credo.FactorGraph(np.full(2001, 2))),
            UnsupportedError,
            "expected at most 2000 variables, got 2001",
        ),
    ],
)
def test_refusals_say_what_was_expected(result, call, error, message):
    with pytest.raises(error, match=message):
        call(result)


def test_long_edges_bend_around_the_layers_they_cross():
    found = layered([1.0, 1.0, 1.0], [(0, 1), (1, 2), (0, 2)])
    np.testing.assert_allclose(found.positions[:, 1], [0.0, -0.95, -1.9])
    assert [len(route) for route in found.routes] == [2, 2, 3]
    bend, between = found.routes[2][1], found.positions[1]
    assert bend[1] == between[1]
    assert abs(bend[0] - between[0]) >= 0.5


def test_grids_are_recognised_by_their_edges_alone():
    grid = {(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)}
    assert lattice_columns(6, grid) == 3
    assert lattice_columns(6, grid - {(4, 5)}) is None
    assert lattice_columns(6, {(i, i + 1) for i in range(5)}) is None


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
