"""The stable sort against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from credo.kernels.sorting import sort_by


@pytest.mark.parametrize("run", [sort_by.plain, sort_by.compiled], ids=["interpreted", "compiled"])
@pytest.mark.parametrize("kind", [np.int64, np.float64])
@given(count=st.integers(0, 150), values=st.integers(1, 60), seed=st.integers(0, 9))
def test_items_come_by_rising_key_and_equal_ones_keep_their_order(run, kind, count, values, seed):
    rng = np.random.default_rng(seed)
    keys = rng.integers(values, size=2 * count).astype(kind)
    items = rng.permutation(2 * count)[:count]
    expected = items[np.argsort(keys[items], kind="stable")]
    room = np.concatenate([[-7], items, [-9]])  # a part is sorted, what is around it stays
    run(keys, room[1:-1])
    np.testing.assert_array_equal(room, [-7, *expected, -9])
