"""The number scanner against `float`, bit for bit."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from credo.kernels import text, walks


def scan(content: bytes):
    data = np.frombuffer(content, dtype=np.uint8)
    count = text.count_tokens(data)
    bits = np.zeros(count, dtype=np.uint64)
    hard = np.zeros((count + 1, 3), dtype=np.int64)
    read, undecided, at, bad = text.scan_numbers(data, bits, hard, text.power_table())
    return bits.view(np.float64)[:read], hard[:undecided], at, bad


def assert_same_as_float(tokens: list[str]) -> int:
    """Check all decided tokens; return how many were left to the caller."""
    values, hard, _, bad = scan(" ".join(tokens).encode())
    assert bad == -1
    assert len(values) == len(tokens)
    decided = np.setdiff1d(np.arange(len(tokens)), hard[:, 0])
    wanted = np.array([float(t) for t in tokens])
    assert np.array_equal(values[decided].view(np.uint64), wanted[decided].view(np.uint64))
    return len(hard)


def test_shortest_text_of_any_double_is_read_back():
    rng = random.Random(0)
    doubles = [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(50_000)]
    tokens = [repr(x) for x in doubles if x == x and abs(x) != float("inf")]
    assert assert_same_as_float(tokens) < len(tokens) / 100


@pytest.mark.parametrize("digits", [1, 6, 15, 16, 17, 18, 19])
def test_printed_digits_of_any_number_are_rounded_correctly(digits):
    rng = random.Random(digits)
    tokens = [
        f"{rng.randrange(10 ** (digits - 1), 10**digits)}e{rng.randrange(-360, 330)}" for _ in range(10_000)
    ]
    assert_same_as_float(tokens)


def test_numbers_half_way_between_two_doubles_go_to_the_even_one():
    rng = random.Random(1)
    halves = [(2 * (rng.getrandbits(52) | 1 << 52) + 1) << rng.randrange(9) for _ in range(10_000)]
    assert assert_same_as_float([str(h) for h in halves]) == 0
    assert_same_as_float([f"{h}e-{k}" for k in range(1, 6) for h in halves[:1000]])
    assert_same_as_float([str(h + d) for h in halves for d in (-1, 1)])


def test_special_forms_are_read():
    tokens = "0 -0 0.0 1. +.5 1e5 1E-5 1e+05 0e999 00012 1e400 -1e400 1e-400 1.7976931348623157e308".split()
    tokens += ["1.7976931348623159e308", "2.2250738585072014e-308", "9007199254740993", "000.0001230000"]
    assert assert_same_as_float(tokens) == 0


def test_subnormal_numbers_and_long_digit_strings_are_left_to_the_caller():
    _, hard, _, _ = scan(b"1 4.9e-324 2 0.12345678901234567890123 3")
    assert hard.tolist() == [[1, 2, 10], [3, 13, 38]]


@pytest.mark.parametrize(
    "token", ["x", ".", "-", "1e", "1e+", "1.2.3", "1-2", "1_0", "nan", "inf", "0x1", "é", "1,2"]
)
def test_the_first_token_that_is_not_a_number_is_located(token):
    values, _, _, bad = scan(f" 7 8\n{token} 9".encode())
    assert bad == 5
    assert values.tolist() == [7, 8]


def test_the_scan_can_be_resumed_where_an_output_was_full():
    content = np.frombuffer(b"1 2 3", dtype=np.uint8)
    bits = np.zeros(2, dtype=np.uint64)
    count, _, at, bad = text.scan_numbers(content, bits, np.zeros((9, 3), np.int64), text.power_table())
    assert (count, at, bad) == (2, 4, -1)


@given(st.lists(st.sampled_from([b" ", b"\n", b"\t", b"\r", b"a", b"12"]), max_size=30))
@example([])
def test_tokens_are_counted_as_split_counts_them(parts):
    content = b"".join(parts)
    assert text.count_tokens(np.frombuffer(content, dtype=np.uint8)) == len(content.split())


@given(st.binary(max_size=40), st.integers(0, 5))
def test_the_compiled_scanner_does_what_its_source_does(content, capacity):
    data = np.frombuffer(content, dtype=np.uint8)
    for run in (text.scan_numbers, text.scan_numbers.py_func):
        bits, hard = np.zeros(20, np.uint64), np.zeros((capacity, 3), np.int64)
        result = run(data, bits, hard, text.power_table())
        if run is text.scan_numbers:
            first = (*map(int, result), bits.tolist(), hard.tolist())
    assert (*map(int, result), bits.tolist(), hard.tolist()) == first


@pytest.mark.parametrize("name", ["record_starts", "block_starts", "tuple_starts"])
@given(
    values=st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0, 3.0, 0.5, 1e300]), max_size=30),
    count=st.integers(0, 5),
)
def test_compiled_walks_do_what_their_source_does(name, values, count):
    starts = [np.full(count + 1, -1, dtype=np.int64) for _ in range(2)]
    plain = getattr(walks, name)(values, 0, count, starts[0])
    assert plain == getattr(text, name)(np.array(values), 0, count, starts[1])
    assert np.array_equal(*starts)


def test_records_are_walked_by_their_lengths():
    starts = np.zeros(4, dtype=np.int64)
    assert walks.record_starts([9, 2, 7, 7, 0, 1, 5], 1, 3, starts) == 3
    assert starts.tolist() == [1, 4, 5, 7]
    assert walks.record_starts([9, 2, 7], 1, 3, starts) == 0
