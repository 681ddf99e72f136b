"""Maximum flow against SciPy's, on random graphs."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

from credo.kernels.max_flow import arcs_by_tail, max_flow
from seeds import each_seed


def random_network(seed: int):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < 3 / n]
    first = np.array([i for i, _ in pairs], dtype=np.int64)
    second = np.array([j for _, j in pairs], dtype=np.int64)
    room = rng.integers(0, 20, 2 * len(pairs)).astype(float)
    terminal = rng.integers(-20, 20, n).astype(float)
    return n, first, second, room, terminal


def solve(n, first, second, room, terminal):
    start, arcs = arcs_by_tail(n, first, second)
    head = np.stack([second, first], axis=1).ravel()
    return max_flow(start, arcs, head, room, terminal)


@each_seed(range(60))
def test_flow_and_cut_equal_the_reference(seed):
    n, first, second, room, terminal = random_network(seed)
    tail = np.stack([first, second], axis=1).ravel()
    head = np.stack([second, first], axis=1).ravel()
    up, down = np.flatnonzero(terminal > 0), np.flatnonzero(terminal < 0)
    rows = np.concatenate([tail, np.full(len(up), n), down])
    columns = np.concatenate([head, up, np.full(len(down), n + 1)])
    values = np.concatenate([room, terminal[up], -terminal[down]]).astype(np.int32)
    network = coo_array((values, (rows, columns)), shape=(n + 2, n + 2)).tocsr()
    expected = maximum_flow(network, n, n + 1).flow_value

    left, ends = room.copy(), terminal.copy()
    side = solve(n, first, second, left, ends)
    assert terminal[up].sum() - ends[up].sum() == expected
    assert (left >= 0).all() and (left[::2] + left[1::2] == room[::2] + room[1::2]).all()
    # The cut that the sides describe has the value of the flow.
    sink = side == 2
    crossing = room[~sink[tail] & sink[head]].sum()
    assert crossing + terminal[up][sink[up]].sum() - terminal[down][~sink[down]].sum() == expected


def test_infinite_arcs_never_cross_the_cut():
    for seed in range(30):
        n, first, second, room, terminal = random_network(seed)
        rng = np.random.default_rng(seed)
        room[rng.random(len(room)) < 0.3] = np.inf
        tail = np.stack([first, second], axis=1).ravel()
        head = np.stack([second, first], axis=1).ravel()
        left = room.copy()
        sink = solve(n, first, second, left, terminal.copy()) == 2
        assert not (np.isinf(room) & ~sink[tail] & sink[head]).any()
        assert not np.isnan(left).any()


def test_the_source_runs_uncompiled_with_the_same_result():
    n, first, second, room, terminal = random_network(7)
    start, arcs = arcs_by_tail(n, first, second)
    head = np.stack([second, first], axis=1).ravel()
    one = max_flow(start, arcs, head, room.copy(), terminal.copy())
    two = max_flow.py_func(start, arcs, head, room.copy(), terminal.copy())
    np.testing.assert_array_equal(one, two)
