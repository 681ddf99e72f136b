"""Pictures of comparisons, judged by what is drawn in them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import credo
from credo.core.errors import QueryError
from credo.plotting import plot_comparison

pytest.importorskip("matplotlib")


def draws(figure, tmp_path):
    """Whether the whole picture can be painted; warnings are errors."""
    figure.savefig(tmp_path / "picture.png")
    return (tmp_path / "picture.png").stat().st_size > 1000


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
    np.testing.assert_allclose(widths, [[1.0, 0.1], [1e-4, 1e-3], [1e-2, 2e-2]])
    assert [t.get_text() for t in figure.axes[1].texts] == ["0", "0.001"]
    # A bar that ends where the axis begins is not seen.
    assert [axes.get_xlim()[0] for axes in figure.axes[1:]] == pytest.approx([1e-4, 1e-2])
    assert draws(figure, tmp_path)


def test_rounding_does_not_stretch_the_axis():
    rows = (FakeRow("a", max_tv=0.0), FakeRow("b", max_tv=3e-16), FakeRow("c", max_tv=2e-3))
    axes = plot_comparison(FakeComparison(rows), ["max TV"]).axes[0]
    assert [t.get_text() for t in axes.texts] == ["0", "0", "0.002"]
    assert axes.get_xlim()[0] == pytest.approx(1e-3)


def test_errors_that_are_all_rounding_have_no_bars(tmp_path):
    rows = (FakeRow("a", max_tv=0.0), FakeRow("b", max_tv=3e-16))
    figure = plot_comparison(FakeComparison(rows), ["max TV"])
    assert [bar.get_width() for bar in figure.axes[0].patches] == [0, 0]
    assert figure.axes[0].get_xscale() == "linear"
    assert draws(figure, tmp_path)


def test_one_panel_of_a_comparison_can_be_drawn_into_given_axes():
    rows = (FakeRow("exact"), FakeRow("bp", 0.1, 1e-3, -2e-2))
    both = plot_comparison(FakeComparison(rows), ["max TV", "seconds"])
    assert [axes.get_xlabel() for axes in both.axes] == ["max TV", "seconds"]
    axes = both.axes[1]
    axes.clear()
    assert plot_comparison(FakeComparison(rows), ["|log Z error|"], ax=axes) is both
    assert axes.get_xlabel() == "|log Z error|"
    assert axes.get_title() == "errors relative to exact"


def test_a_comparison_of_maxima_shows_how_far_each_score_is_below_the_best(tmp_path):
    rows = (FakeRow("exact", score=-1.0), FakeRow("rough", score=-3.5, log_z_error=None), FakeRow("mute"))
    figure = plot_comparison(FakeComparison(rows, maximised=True))
    assert figure.axes[1].get_xlabel() == "score below the best"
    np.testing.assert_allclose([bar.get_width() for bar in figure.axes[1].patches], [1.0, 2.5])
    assert draws(figure, tmp_path)


def test_a_real_comparison_can_be_drawn(tmp_path):
    table = credo.compare(credo.datasets.sprinkler(), ["enumerate", "enumerate(max_entries=2)"])
    assert draws(plot_comparison(table), tmp_path)


@pytest.mark.parametrize(
    ("rows", "names", "message"),
    [
        ((FakeRow("a", answered=False),), None, "no method answered"),
        ((FakeRow("a"),), ["time"], r"expected names of \['seconds', 'max TV', .*\], got 'time'"),
        ((FakeRow("a"),), [], "got no name"),
    ],
)
def test_refusals_say_what_was_expected(rows, names, message):
    with pytest.raises(QueryError, match=message):
        plot_comparison(FakeComparison(rows), names)
