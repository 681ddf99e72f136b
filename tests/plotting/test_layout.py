"""Layers of directed drawings, and which graphs are grids."""

import numpy as np

from credo.plotting.layout import lattice_columns, place_layers


def test_long_edges_bend_around_the_layers_they_cross():
    found = place_layers([1.0, 1.0, 1.0], [(0, 1), (1, 2), (0, 2)])
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


def test_layers_stand_closer_where_less_room_is_asked_for():
    edges = [(0, k) for k in range(1, 6)]
    wide, narrow = (place_layers([0.1] * 6, edges, gap=gap).positions for gap in (0.5, 0.1))
    np.testing.assert_allclose(np.diff(np.sort(wide[1:, 0])), 0.6)
    np.testing.assert_allclose(np.diff(np.sort(narrow[1:, 0])), 0.2)
