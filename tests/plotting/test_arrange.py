"""From graphs to drawings: where nodes stand and edges run."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from credo.plotting.arrange import arrange_arrows, arrange_factors, arrange_pairs
from credo.plotting.nodes import BeliefBox, DotMark, Oval


def box(rows):
    return BeliefBox("name", False, (("state", 0.5),) * rows)


networks = st.lists(st.integers(1, 6), min_size=2, max_size=12).flatmap(
    lambda rows: st.tuples(
        st.just(rows),
        st.lists(
            st.tuples(st.integers(0, len(rows) - 1), st.integers(0, len(rows) - 1)).filter(
                lambda e: e[0] < e[1]
            ),
            max_size=16,
            unique=True,
        ),
    )
)


@settings(deadline=None, max_examples=60)
@given(networks)
def test_edges_run_between_boxes_not_behind_them(network):
    rows, edges = network
    nodes = [box(count) for count in rows]
    drawing = arrange_arrows(edges, nodes)
    half = np.array([node.size for node in nodes]) / 2
    low, high = drawing.positions - half + 1e-9, drawing.positions + half - 1e-9
    steps = np.linspace(0, 1, 40)[:, None]
    for route, ends in zip(drawing.routes, edges, strict=True):
        np.testing.assert_array_equal(route[[0, -1]], drawing.positions[list(ends)])
        others = [k for k in range(len(nodes)) if k not in ends]
        points = np.concatenate([a + steps * (b - a) for a, b in itertools.pairwise(route)])
        inside = (points[:, None] > low[others]) & (points[:, None] < high[others])
        assert not inside.all(axis=2).any()


@settings(deadline=None, max_examples=60)
@given(networks)
def test_boxes_of_a_network_do_not_overlap(network):
    rows, edges = network
    nodes = [box(count) for count in rows]
    places = arrange_arrows(edges, nodes).positions
    half = np.array([node.size for node in nodes]) / 2
    for k in range(len(nodes)):
        for m in range(k):
            assert (np.abs(places[k] - places[m]) >= half[k] + half[m] - 1e-9).any()


def test_given_places_are_kept_by_every_kind_of_drawing():
    places = np.array([[0.0, 1.0], [2.0, 0.0], [5.0, 5.0]])
    nodes = [Oval(name, False) for name in "abc"]
    for drawing in (
        arrange_arrows([(0, 1), (0, 2)], nodes, places),
        arrange_pairs([(0, 1), (0, 2)], nodes, places),
        arrange_factors([(0, 1), (0, 2)], nodes, places),
    ):
        np.testing.assert_array_equal(drawing.positions, places)


def test_factors_of_given_places_stand_between_their_variables():
    places = np.array([[0.0, 0.0], [2.0, 4.0]])
    nodes = [Oval(name, False) for name in "ab"]
    squares = arrange_factors([(0, 1), (1,), ()], nodes, places).squares
    np.testing.assert_allclose(squares, [[1, 2], [2.3, 4.3], [0, 0]])


def test_dots_make_a_dense_drawing_and_names_do_not():
    assert arrange_pairs([(0, 1)], [DotMark(False), DotMark(False)]).is_dense
    assert not arrange_pairs([(0, 1)], [Oval("a", False), Oval("b", False)]).is_dense
