"""Places of undirected drawings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credo.plotting.spread import shelves, spread

SIZE = np.array([0.5, 0.3])


def sizes(n):
    return np.tile(SIZE, (n, 1))


def lengths(points, edges):
    return np.linalg.norm(points[[i for i, _ in edges]] - points[[j for _, j in edges]], axis=1)


def test_a_ring_is_drawn_round():
    edges = [(i, (i + 1) % 12) for i in range(12)]
    points = spread(sizes(12), edges, 1.0)
    radii = np.linalg.norm(points - points.mean(axis=0), axis=1)
    np.testing.assert_allclose(radii, radii.mean(), rtol=0.02)
    np.testing.assert_allclose(lengths(points, edges), 1.0, rtol=0.05)


def test_a_chain_is_drawn_as_a_level_line():
    points = spread(sizes(8), [(i, i + 1) for i in range(7)], 1.0)
    assert np.ptp(points[:, 1]) < 0.1
    assert (np.diff(points[:, 0]) > 0.5).all() or (np.diff(points[:, 0]) < -0.5).all()


def test_a_lattice_without_its_numbering_is_unfolded():
    rng = np.random.default_rng(0)
    number = rng.permutation(100).reshape(10, 10)
    edges = [(number[r, c], number[r + 1, c]) for r in range(9) for c in range(10)]
    edges += [(number[r, c], number[r, c + 1]) for r in range(10) for c in range(9)]
    points = spread(np.full((100, 2), 0.1), edges, 1.0)
    found = lengths(points, edges)
    assert found.max() < 2 * found.min()
    corners = points[number[[0, 0, 9, 9], [0, 9, 0, 9]]]
    apart = np.linalg.norm(corners[:, None] - corners[None], axis=2)
    assert apart[apart > 0].min() > 7


def test_nodes_that_look_alike_from_everywhere_are_kept_apart():
    star = spread(sizes(21), [(0, k) for k in range(1, 21)], 1.0)
    apart = np.linalg.norm(star[:, None] - star[None], axis=2) + np.eye(21)
    assert apart.min() > 0.3


def test_the_same_graph_is_drawn_the_same():
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (4, 5)]
    np.testing.assert_array_equal(spread(sizes(7), edges, 1.0), spread(sizes(7), edges, 1.0))


graphs = st.integers(1, 14).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] < e[1]),
            max_size=12,
            unique=True,
        )
        if n > 1
        else st.just([]),
    )
)


def parts(n, edges):
    part = list(range(n))
    for i, j in edges:
        part = [part[i] if p == part[j] else p for p in part]
    return [[i for i in range(n) if part[i] == p] for p in sorted(set(part))]


@settings(deadline=None, max_examples=40)
@given(graphs)
def test_connected_parts_stand_beside_each_other(graph):
    n, edges = graph
    points = spread(sizes(n), edges, 0.8)
    assert points.shape == (n, 2)
    assert np.isfinite(points).all()
    boxes = [
        ((points[p] - SIZE / 2).min(axis=0), (points[p] + SIZE / 2).max(axis=0)) for p in parts(n, edges)
    ]
    for k, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:k]:
            assert (high <= other_low + 1e-9).any() or (other_high <= low + 1e-9).any()


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 3), st.floats(0.1, 3)), min_size=1, max_size=30))
def test_boxes_on_shelves_do_not_overlap_and_stay_within_the_width(sides):
    boxes = np.array(sides)
    corners = shelves(boxes, width=4.0)
    assert (corners[:, 0] + boxes[:, 0] <= 4.0 + 1e-9).all()
    low, high = corners - [0, 1] * boxes, corners + [1, 0] * boxes
    for k in range(len(boxes)):
        for m in range(k):
            assert (high[k] <= low[m] + 1e-9).any() or (high[m] <= low[k] + 1e-9).any()


@pytest.mark.parametrize("n", [0, 1])
def test_almost_nothing_has_places_too(n):
    assert spread(sizes(n), [], 1.0).shape == (n, 2)
