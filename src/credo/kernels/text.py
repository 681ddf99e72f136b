"""Decimal numbers from text, correctly rounded, at the speed of memory.

A number w * 10^q with up to 19 digits in w is rounded to the nearest double with integer
arithmetic only (the method of Eisel and Lemire, 2021): w is multiplied by the leading 128 bits
of 5^q, the leading 54 bits of the product decide the result, and the few cases they cannot
decide are reported to the caller instead of being guessed. Integer arithmetic also keeps the
result independent of the compiler's freedom with floating-point operations.

Cost: one pass over the bytes, about 30 ns per number.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import walks
from .jit import jit

__all__ = ["block_starts", "count_tokens", "power_table", "record_starts", "scan_numbers", "tuple_starts"]

_SMALLEST, _LARGEST = -342, 308  # powers of ten outside give 0 or infinity for any 19 digits

_U0, _U1, _U2, _U3 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
_U9, _U10, _U32, _U52, _U63 = np.uint64(9), np.uint64(10), np.uint64(32), np.uint64(52), np.uint64(63)
_LOW32 = np.uint64(0xFFFFFFFF)
_ALL64 = np.uint64(0xFFFFFFFFFFFFFFFF)
_HIDDEN = np.uint64(1 << 52)  # the leading bit a double does not store
_OVERFULL = np.uint64(1 << 53)
_FRACTION = np.uint64((1 << 52) - 1)
_SIGN = np.uint64(1 << 63)
_EXACT = np.uint64(1 << 53)  # integers up to here are doubles
_INFINITY = np.uint64(0x7FF << 52)


@cache
def power_table() -> np.ndarray:
    """The leading 128 bits of 5^q for q = -342 ... 308, as rows (high, low) of 64 bits."""
    table = np.empty((_LARGEST - _SMALLEST + 1, 2), dtype=np.uint64)
    for q in range(_SMALLEST, _LARGEST + 1):
        power = 5 ** abs(q)
        if q >= 0:
            shift = 128 - power.bit_length()
            bits = power << shift if shift >= 0 else power >> -shift
        else:
            # The reciprocals of powers up to 5^27, which fit into 64 bits, are rounded up so
            # that exact quotients stay exact; the others are cut off like the large powers.
            width = power.bit_length()
            bits = (1 << (width + 127 if q >= -27 else 2 * width + 128)) // power + 1
            bits >>= bits.bit_length() - 128
        table[q - _SMALLEST] = bits >> 64, bits & ((1 << 64) - 1)
    return table


@jit
def _times(a, b):
    """The 128-bit product of two 64-bit numbers, as (high, low)."""
    a_high, a_low = a >> _U32, a & _LOW32
    b_high, b_low = b >> _U32, b & _LOW32
    low = a_low * b_low
    middle = a_high * b_low + (low >> _U32)
    other = a_low * b_high + (middle & _LOW32)
    high = a_high * b_high + (middle >> _U32) + (other >> _U32)
    return high, (other << _U32) | (low & _LOW32)


@jit
def _leading_zeros(w):
    """Number of zero bits above the highest set bit of a non-zero number."""
    count = _U0
    for step in (np.uint64(32), np.uint64(16), np.uint64(8), np.uint64(4), np.uint64(2), np.uint64(1)):
        if w >> (np.uint64(64) - step) == _U0:
            w = w << step
            count += step
    return count


@jit
def _to_bits(w, q, powers):
    """Bits of the double nearest to w * 10^q for w > 0, and whether they are certain."""
    if q < -342:
        return _U0, True
    if q > 308:
        return _INFINITY, True
    zeros = _leading_zeros(w)
    w = w << zeros
    high, low = _times(w, powers[q + 342, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        # The bits that decide the rounding could still change: use the second half of 5^q.
        more, _ = _times(w, powers[q + 342, 1])
        low = low + more
        if low < more:
            high = high + _U1
        if low == _ALL64 and (q < -27 or q > 55):
            return _U0, False
    top = high >> _U63
    shift = top + _U9
    mantissa = high >> shift
    # floor(q log2(10)) by a rational approximation that is exact in this range of q.
    exponent = ((217706 * q) >> 16) + 63 + 1023 + np.int64(top) - np.int64(zeros)
    if exponent <= 0:
        return _U0, False  # subnormal
    if low <= _U1 and -4 <= q <= 23 and (mantissa & _U3) == _U1 and (mantissa << shift) == high:
        mantissa = mantissa - _U1  # exactly half way: the even neighbour is below
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    if mantissa >= _OVERFULL:
        mantissa = _HIDDEN
        exponent += 1
    if exponent >= 2047:
        return _INFINITY, True
    return (np.uint64(exponent) << _U52) | (mantissa & _FRACTION), True


@jit
def scan_numbers(
    text: np.ndarray, bits: np.ndarray, hard: np.ndarray, powers: np.ndarray
) -> tuple[int, int, int, int]:
    """Read whitespace-separated decimal numbers.

    Parameters
    ----------
    text
        Bytes as uint8.
    bits
        Output, uint64: the doubles' bit patterns, one per token.
    hard
        Output, int64 (capacity, 3): number, first and last-plus-one byte of each token whose
        rounding was not decided here.
    powers
        `power_table()`.

    Returns
    -------
    count
        Tokens read. Equal to len(bits) with `at` < len(text) when the output was full.
    undecided
        Rows of `hard` filled; the scan stops when it is full.
    at
        Byte where the scan stopped: len(text), or where to go on.
    bad
        First byte of the first token that is not a number, -1 if there is none.
    """
    n = len(text)
    at, count, undecided = 0, 0, 0
    while True:
        while at < n and (text[at] == 32 or 9 <= text[at] <= 13):
            at += 1
        if at == n or count == len(bits) or undecided == len(hard):
            return count, undecided, at, -1
        start = at
        negative = text[at] == 45
        if negative or text[at] == 43:
            at += 1
        w, digits, significant, q = _U0, 0, 0, 0
        point = False
        while at < n:
            c = text[at]
            if 48 <= c <= 57:
                digits += 1
                if significant > 0 or c != 48:
                    significant += 1
                    if significant <= 19:
                        w = w * _U10 + np.uint64(c - 48)
                if point:
                    q -= 1
            elif c == 46 and not point:
                point = True
            else:
                break
            at += 1
        if digits == 0:
            return count, undecided, at, start
        if at < n and (text[at] == 101 or text[at] == 69):
            at += 1
            minus = at < n and text[at] == 45
            if minus or (at < n and text[at] == 43):
                at += 1
            power, first = 0, at
            while at < n and 48 <= text[at] <= 57:
                if power < 100000:
                    power = power * 10 + int(text[at] - 48)
                at += 1
            if at == first:
                return count, undecided, at, start
            q += -power if minus else power
        if at < n and not (text[at] == 32 or 9 <= text[at] <= 13):
            return count, undecided, at, start
        found, certain = _U0, True
        if significant > 19:
            certain = False
        elif w > _U0:
            found, certain = _to_bits(w, q, powers)
        if not certain:
            hard[undecided, 0] = count
            hard[undecided, 1] = start
            hard[undecided, 2] = at
            undecided += 1
        bits[count] = found | _SIGN if negative else found
        count += 1


@jit
def count_tokens(text: np.ndarray) -> int:
    """Number of whitespace-separated tokens."""
    count, inside = 0, False
    for c in text:
        blank = c == 32 or 9 <= c <= 13
        if inside and blank:
            count += 1
        inside = not blank
    return count + 1 if inside else count


record_starts = jit(walks.record_starts)
block_starts = jit(walks.block_starts)
tuple_starts = jit(walks.tuple_starts)
