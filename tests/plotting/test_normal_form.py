"""Pictures of normal-form graphs, judged by what is drawn in them."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import QueryError, UnsupportedError
from credo.models.normal_form import NormalForm, Source
from credo.models.normal_form_build import embedding, from_bayes_net, hidden_chain
from credo.plotting import plot_normal_form

pytest.importorskip("matplotlib")
from matplotlib.patches import Circle, FancyArrowPatch, Polygon, Rectangle


def kinds(figure, kind):
    return [p for p in figure.axes[0].patches if type(p) is kind]


def texts(figure):
    return {t.get_text(): t for t in figure.axes[0].texts}


def product():
    net = credo.BayesNet.random({"a": 2, "b": 3, "c": 2}, {"c": ["a", "b"]}, seed=0)
    return from_bayes_net(net, hidden=["a", "b"])


def test_every_part_has_its_shape_and_every_branch_an_arrow(tmp_path):
    graph = product()
    figure = plot_normal_form(graph, evidence={"c": 1})
    assert len(kinds(figure, Rectangle)) == 5
    assert len(kinds(figure, Polygon)) == 1
    assert len(kinds(figure, FancyArrowPatch)) == len(graph.branches)
    (end,) = kinds(figure, Circle)
    assert end.get_facecolor()[:3] != (1, 1, 1)
    assert "c = 1" in texts(figure)
    figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_fixed_blocks_are_grey():
    boxes = kinds(plot_normal_form(product()), Rectangle)
    grey = [box for box in boxes if np.ptp(box.get_facecolor()[:3]) == 0]
    assert len(grey) == 2


def test_arrows_run_downwards_from_sources_to_leaves():
    shown = texts(plot_normal_form(hidden_chain([0.5, 0.5], np.eye(2), np.eye(2), 3)))
    heights = [shown[name].get_position()[1] for name in ("p(Z0)", "p(Z1|Z0)", "p(Z2|Z1)", "p(X2|Z2)")]
    assert heights == sorted(heights, reverse=True)


def test_copies_are_written_with_raised_numbers():
    assert {"S", "S\u207d\u00b9\u207e", "S\u207d\u00b2\u207e"} <= set(
        texts(plot_normal_form(embedding({"x": 2, "y": 2}, 2)))
    )


def test_parts_do_not_overlap():
    net = credo.BayesNet.random(
        {"S1": 4, "S2": 2, "Y1": 3, "Y2": 4, "X1": 3, "X2": 2},
        {"Y1": ["S1"], "Y2": ["S1", "S2"], "X1": ["Y1"], "X2": ["Y1"]},
        seed=0,
    )
    boxes = [
        (b.get_x(), b.get_y(), b.get_width(), b.get_height())
        for b in kinds(plot_normal_form(from_bayes_net(net)), Rectangle)
    ]
    for k, (x, y, w, h) in enumerate(boxes):
        for u, v, s, t in boxes[k + 1 :]:
            assert x + w <= u or u + s <= x or y + h <= v or v + t <= y


def big():
    names = [f"x{i}" for i in range(301)]
    return NormalForm(dict.fromkeys(names, 2), [Source(name, [0.5, 0.5]) for name in names])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plot_normal_form(big()), UnsupportedError, "expected at most 300 parts, got 301"),
        (lambda: plot_normal_form(product(), evidence={"a": 0}), QueryError, "'a' is no terminal; there are"),
    ],
)
def test_refusals_say_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()
