"""Memory that is used again is never given twice."""

import numpy as np

from credo.kernels.buffers import empty, reusing
from credo.kernels.row_patterns import group_rows

SIZE = (64, 256)


def place(array):
    return array.__array_interface__["data"][0]


def test_memory_is_given_again_only_when_no_array_looks_at_it():
    with reusing():
        first = empty(SIZE)
        first[:] = 7.0
        part = first[3:5]
        where = place(first)
        del first
        second = empty(SIZE)
        second[:] = 1.0
        assert place(second) != where
        assert (part == 7.0).all()
        del part
        assert place(empty((32, 256))) == where


def test_what_is_kept_beyond_the_block_stays_as_it_is():
    with reusing():
        kept = empty(SIZE)
        kept[:] = 2.0
    other = empty(SIZE)
    other[:] = 3.0
    assert (kept == 2.0).all()


def test_a_block_inside_of_another_uses_its_memory():
    with reusing():
        array = empty(SIZE)
        where = place(array)
        with reusing():
            del array
            assert place(empty(SIZE)) == where


def test_small_arrays_and_those_outside_of_blocks_are_plain():
    assert empty(SIZE).base is None
    with reusing():
        assert empty((3,)).base is None


def test_arrays_from_a_store_are_contiguous_floats_that_may_be_written_to():
    with reusing():
        array = empty((100, 3, 50))
        assert array.flags.c_contiguous and array.flags.writeable and array.dtype == np.float64
        assert array.shape == (100, 3, 50)


def test_rows_are_grouped_by_what_they_observe_whatever_their_width():
    rng = np.random.default_rng(0)
    for d in (1, 8, 9, 40, 70):
        x = np.where(rng.random((50, d)) < 0.1, np.nan, 1.0)
        seen, order, start = group_rows(x)
        assert sorted(order.tolist()) == list(range(50))
        assert len({tuple(pattern) for pattern in seen}) == len(seen) == len(start) - 1
        for g, pattern in enumerate(seen):
            rows = x[order[start[g] : start[g + 1]]]
            assert len(rows) and (~np.isnan(rows) == pattern).all()
    assert group_rows(np.empty((0, 3)))[2].tolist() == [0]
