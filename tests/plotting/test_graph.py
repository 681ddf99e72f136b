"""Pictures of models, judged by what is drawn in them."""

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, QueryError, UnsupportedError
from credo.core.result import Marginals
from credo.core.variable import Variables
from credo.plotting import plot_model

pytest.importorskip("matplotlib")
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Ellipse, FancyArrowPatch, Rectangle


def texts(axes):
    return {t.get_text(): t for t in axes.texts}


def kinds(axes, kind):
    return [p for p in axes.patches if isinstance(p, kind)]


def draws(figure, tmp_path):
    """Whether the whole picture can be painted; warnings are errors."""
    figure.savefig(tmp_path / "picture.png")
    return (tmp_path / "picture.png").stat().st_size > 1000


def beliefs_of(states, values):
    return Marginals(Variables.of(states), np.concatenate([np.asarray(v, dtype=float) for v in values]))


def bars(axes):
    """Lengths of the bars of beliefs, of the whole."""
    thin = [p for p in kinds(axes, Rectangle) if p.get_height() == pytest.approx(0.1)]
    whole = max(p.get_width() for p in thin)
    return [p.get_width() / whole for p in thin[1::2]]


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


def test_places_of_a_network_can_be_given():
    places = {"cloudy": (0.0, 3.0), "sprinkler": (-2.0, 1.0), "rain": (2.0, 1.0), "wet": (0.0, -1.0)}
    axes = plot_model(credo.datasets.sprinkler(), positions=places).axes[0]
    assert {n: t.get_position() for n, t in texts(axes).items()} == places
    assert len(kinds(axes, FancyArrowPatch)) == 4


def test_beliefs_are_bars_inside_the_variables_in_the_order_of_states(tmp_path):
    model, seen = credo.datasets.student(), {"SAT": "high"}
    found = credo.infer(model, "enumerate", evidence=seen)
    figure = plot_model(model, evidence=seen, beliefs=found)
    (axes,) = figure.axes
    np.testing.assert_allclose(bars(axes), np.concatenate([found.marginals[n] for n in found.marginals]))
    said = [t.get_text() for t in axes.texts]
    start = said.index("grade")
    expected = [
        text
        for state, p in zip("ABC", found.marginals["grade"], strict=True)
        for text in (state, f"{100 * p:.1f}")
    ]
    assert said[start + 1 : start + 7] == expected
    assert "SAT = high" in said
    assert not kinds(axes, Ellipse)
    assert draws(figure, tmp_path)


def test_boxes_of_beliefs_do_not_overlap_and_hold_their_bars():
    model = credo.datasets.random_bayes_net(40, seed=1)
    uniform = beliefs_of(model.variables, [np.full(v.size, 1 / v.size) for v in model.variables])
    axes = plot_model(model, beliefs=uniform).axes[0]
    boxes = [p.get_bbox().extents for p in kinds(axes, Rectangle) if not p.get_fill()]
    assert len(boxes) == 40
    for k, (x, y, right, top) in enumerate(boxes):
        for u, v, other_right, other_top in boxes[:k]:
            assert right <= u or other_right <= x or top <= v or other_top <= y
    for p in kinds(axes, Rectangle):
        left, low, right, high = p.get_bbox().extents
        assert any(
            x - 1e-9 <= left and y - 1e-9 <= low and right <= u + 1e-9 and high <= v + 1e-9
            for x, y, u, v in boxes
        )


def test_a_variable_of_many_states_shows_the_likeliest_and_sums_the_others():
    values = np.array([0.02, 0.3, 0.01, 0.2, 0.15, 0.02, 0.25, 0.05])
    graph = credo.FactorGraph({"x": 8})
    axes = plot_model(graph, beliefs=beliefs_of({"x": 8}, [values])).axes[0]
    np.testing.assert_allclose(bars(axes), [0.3, 0.2, 0.15, 0.25, 0.05, 0.05])
    said = [t.get_text() for t in axes.texts]
    assert said[1::2] == ["1", "3", "4", "6", "7", "3 others"]


def test_a_real_variable_shows_its_mean_and_deviation(tmp_path):
    net, seen = credo.GaussianNet([[2.0, 0.5], [0.5, 1.0]]), {"x0": 1.5}
    figure = plot_model(net, evidence=seen, beliefs=credo.infer(net, "gaussian", evidence=seen))
    assert [t.get_text() for t in figure.axes[0].texts] == ["x0 = 1.5", "1.5", "x1", "-0.75 ± 1"]
    assert draws(figure, tmp_path)


def test_a_vector_shows_a_row_per_coordinate_while_there_are_few():
    from credo.core.belief import PointMass
    from credo.plotting.nodes import rows_of

    assert rows_of((), PointMass(np.arange(3.0))) == (("0", None), ("1", None), ("2", None))
    assert [text for text, _ in rows_of((), PointMass(np.arange(9.0)))] == [*"01234", "and 4 more"]


@pytest.mark.parametrize(("count", "named"), [(100, True), (300, False)])
def test_beliefs_about_many_variables_are_colours(count, named, tmp_path):
    model = credo.datasets.random_tree(count, seed=0)
    certain, undecided = [1.0, 0.0], [0.5, 0.5]
    values = [certain, certain[::-1], *[undecided] * (count - 2)]
    figure = plot_model(model, beliefs=beliefs_of(model.to_factor_graph().variables, values))
    (axes,) = figure.axes
    faces = [e.get_facecolor()[:3] for e in kinds(axes, Ellipse)]
    handles = axes.get_legend().get_patches()
    np.testing.assert_allclose(faces[:2], [handle.get_facecolor()[:3] for handle in handles])
    assert all(np.ptp(face) < 1e-9 and face[0] > 0.9 for face in faces[2:])
    assert (len(axes.texts) > 0) == named
    assert draws(figure, tmp_path)


def test_colours_are_explained_by_labels_or_by_numbers():
    same = {f"x{i}": ["low", "high"] for i in range(61)}
    mixed = {**same, "y": ["a", "b", "c"]}
    for states, expected in ((same, ["low", "high"]), (mixed, ["state 0", "state 1", "state 2"])):
        values = [np.full(len(labels), 1 / len(labels)) for labels in states.values()]
        axes = plot_model(credo.FactorGraph(states), beliefs=beliefs_of(states, values)).axes[0]
        assert [t.get_text() for t in axes.get_legend().get_texts()] == expected


def test_observed_variables_keep_the_colour_of_their_belief_and_get_a_dark_rim():
    states = {f"x{i}": 2 for i in range(200)}
    beliefs = beliefs_of(states, [[0.0, 1.0]] * 200)
    first, second = kinds(
        plot_model(credo.FactorGraph(states), evidence={"x0": 1}, beliefs=beliefs).axes[0], Ellipse
    )[:2]
    assert first.get_facecolor() == second.get_facecolor()
    assert np.mean(first.get_edgecolor()[:3]) < 0.2 < np.mean(second.get_edgecolor()[:3])
    assert first.get_linewidth() > second.get_linewidth()


def test_states_beyond_the_categorical_colours_have_their_own():
    from credo.plotting.nodes import mixed_colour, palette

    assert len({tuple(colour) for colour in palette(30)}) == 30
    np.testing.assert_allclose(mixed_colour(np.eye(30)[7], 30), palette(30)[7])
    np.testing.assert_allclose(mixed_colour([0.0, 1.0], 3), to_rgb("#E69F00"))
    np.testing.assert_allclose(mixed_colour([1.0], 1), palette(1)[0])


def test_hundreds_of_variables_are_small_dots_with_thin_lines_on_a_sheet_for_a_screen():
    figure = plot_model(credo.datasets.random_tree(400, seed=0))
    (axes,) = figure.axes
    assert max(figure.get_size_inches()) <= 12 + 1e-9
    assert not axes.texts
    (lines,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert lines.get_linewidths()[0] < 1
    few = plot_model(credo.datasets.random_tree(30, seed=0)).axes[0]
    assert max(e.width for e in kinds(axes, Ellipse)) < min(e.width for e in kinds(few, Ellipse)) / 2


def test_a_large_network_is_in_layers_with_what_is_alone_below():
    model = credo.datasets.random_bayes_net(300, seed=1)
    axes = plot_model(model).axes[0]
    height = dict(zip(model.variables.names, (e.center[1] for e in kinds(axes, Ellipse)), strict=True))
    joined = {n for child, parents in model.parents.items() if parents for n in (child, *parents)}
    for child, parents in model.parents.items():
        assert all(height[parent] > height[child] for parent in parents)
    alone = set(height) - joined
    assert alone
    assert max(height[n] for n in alone) < min(height[n] for n in joined)


def test_very_many_factors_stand_between_their_variables():
    graph = credo.datasets.random_tree(1010, seed=0).to_factor_graph()
    axes = plot_model(graph, style="factors").axes[0]
    centres = np.array([e.center for e in kinds(axes, Ellipse)])
    squares = np.stack(axes.lines[0].get_data(), axis=1)
    for a in range(graph.n_factors):
        if len(graph.scope_of(a)) > 1:
            np.testing.assert_allclose(squares[a], centres[graph.scope_of(a)].mean(axis=0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plot_model(credo.datasets.asia(), style="round"), OptionError, "style must be one of"),
        (
            lambda: plot_model(credo.datasets.ising_grid(2), style="directed"),
            UnsupportedError,
            "style 'directed' needs a model with parents, got MarkovNet",
        ),
        (
            lambda: plot_model(credo.FactorGraph(np.full(2001, 2))),
            UnsupportedError,
            "expected at most 2000 variables, got 2001",
        ),
        (
            lambda: plot_model(credo.datasets.asia(), beliefs=beliefs_of({"asia": 2}, [[0.5, 0.5]])),
            QueryError,
            "no variable named 'tub'",
        ),
        (
            lambda: plot_model(
                credo.FactorGraph({"x": 2}), beliefs=beliefs_of({"x": 3}, [[0.5, 0.25, 0.25]])
            ),
            QueryError,
            "beliefs about the 2 states of 'x', got 3 numbers; give an answer to this model",
        ),
        (
            lambda: plot_model(
                credo.FactorGraph({"x0": 2}), beliefs=credo.infer(credo.GaussianNet([[1.0]]), "gaussian")
            ),
            QueryError,
            "the 2 states of 'x0', got a density",
        ),
        (
            lambda: plot_model(
                credo.GaussianNet(np.eye(61)), beliefs=credo.infer(credo.GaussianNet(np.eye(61)), "gaussian")
            ),
            UnsupportedError,
            "none of these 61 variables has states; use plot_densities",
        ),
        (
            lambda: plot_model(credo.datasets.asia(), positions={"asia": (0, 0)}),
            QueryError,
            "expected a position for every variable, got none for 'tub'",
        ),
    ],
)
def test_refusals_say_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()
