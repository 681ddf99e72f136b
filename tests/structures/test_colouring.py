"""Independent sets against the definition."""

from __future__ import annotations

import itertools

import numpy as np

from credo.structures.colouring import independent_sets
from seeds import each_seed


@each_seed(range(10))
def test_sets_are_independent_and_hold_every_item_once(seed):
    rng = np.random.default_rng(seed)
    n, places = int(rng.integers(1, 20)), int(rng.integers(1, 12))
    pairs = np.array([(i, p) for i in range(n) for p in range(places) if rng.random() < 0.15], dtype=np.int64)
    pairs = pairs.reshape(-1, 2)[rng.permutation(len(pairs))]
    sets = independent_sets(pairs[:, 0], pairs[:, 1], n)
    assert sorted(np.concatenate(sets).tolist()) == list(range(n))
    at = {i: {int(p) for j, p in pairs if j == i} for i in range(n)}
    for members in sets:
        assert all(not at[i] & at[j] for i, j in itertools.combinations(members.tolist(), 2))


def test_a_grid_needs_two_colours():
    n = 7
    right = [(r * n + c, r * n + c + 1) for r in range(n) for c in range(n - 1)]
    down = [(r * n + c, r * n + c + n) for r in range(n - 1) for c in range(n)]
    pairs = np.array(right + down)
    sets = independent_sets(pairs.ravel(), np.repeat(np.arange(len(pairs)), 2), n * n)
    assert [len(s) for s in sets] == [25, 24]


def test_nothing_has_no_sets():
    none = np.empty(0, dtype=np.int64)
    assert independent_sets(none, none, 0) == []
    assert [s.tolist() for s in independent_sets(none, none, 2)] == [[0, 1]]
