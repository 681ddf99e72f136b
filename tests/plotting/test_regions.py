"""Pictures of region graphs."""

import pytest

import credo
from credo.core.errors import QueryError, UnsupportedError
from credo.plotting import plot_regions
from credo.structures import region_graph

pytest.importorskip("matplotlib")
from matplotlib.collections import LineCollection


def drawn(n):
    regions = region_graph(credo.datasets.ising_grid(n).to_factor_graph(), "faces")
    return regions, plot_regions(regions)


def test_every_region_has_a_box_with_its_names_and_counting_number(tmp_path):
    regions, figure = drawn(3)
    (axes,) = figure.axes
    assert len(axes.patches) == len(regions)
    texts = [t.get_text() for t in axes.texts]
    assert "x0 x1 x3 x4" in texts
    assert texts.count("+1") == 5 and texts.count("-1") == 4
    figure.savefig(tmp_path / "regions.png")
    assert (tmp_path / "regions.png").stat().st_size > 1000


def test_every_edge_has_a_line_and_parents_are_above():
    regions, figure = drawn(4)
    (lines,) = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    assert len(lines.get_segments()) == len(regions.edges)
    assert all(line[0][1] > line[-1][1] for line in lines.get_segments())


def test_boxes_do_not_overlap():
    _, figure = drawn(3)
    boxes = [p.get_path().get_extents(p.get_patch_transform()) for p in figure.axes[0].patches]
    for k, one in enumerate(boxes):
        for other in boxes[:k]:
            assert not one.overlaps(other)


def test_a_model_is_drawn_with_its_default_regions():
    model = credo.datasets.ising_grid(3)
    regions, given = plot_regions(region_graph(model.to_factor_graph())), plot_regions(model)
    assert [t.get_text() for t in given.axes[0].texts] == [t.get_text() for t in regions.axes[0].texts]
    for other in (3, credo.GaussianNet([[1.0]])):
        with pytest.raises(QueryError, match=r"got \w+; make one with credo.structures.region_graph"):
            plot_regions(other)


def test_an_empty_graph_is_drawn_and_a_large_one_refused():
    assert len(plot_regions(region_graph(credo.FactorGraph({}))).axes) == 1
    with pytest.raises(UnsupportedError, match="expected at most 400 regions, got 841"):
        drawn(16)
