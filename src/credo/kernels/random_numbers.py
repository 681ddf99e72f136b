"""Random numbers for kernels: a counter whose bits are mixed (splitmix64).

The state is one unsigned 64-bit number in an array, so that a caller's generator seeds it and both tiers draw
the same numbers, to the bit, without touching any global generator.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["STRIDE", "below", "mix_bits", "shuffle", "uniform"]

STRIDE = np.uint64(0x9E3779B97F4A7C15)  # odd and without pattern: 2^64 over the golden ratio
_BITS_30, _BITS_27, _BITS_31 = np.uint64(30), np.uint64(27), np.uint64(31)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)  # bits of a half word
_BELOW_DOUBLE = np.uint64(11)  # bits that a double in [0, 1) does not hold
_UNIT = 2.0**-53


@jit
def mix_bits(h):
    """A 64-bit number whose every bit depends on every bit of h; different for different h."""
    h = (h ^ (h >> _BITS_30)) * _FIRST
    h = (h ^ (h >> _BITS_27)) * _SECOND
    return h ^ (h >> _BITS_31)


@jit
def _next_bits(state):
    state[0] += STRIDE
    return mix_bits(state[0])


@jit
def below(state, count):
    """A whole number from 0 to count - 1; count is below 2^32."""
    return np.int64(((_next_bits(state) >> _HALF) * np.uint64(count)) >> _HALF)


@jit
def uniform(state):
    """A number in [0, 1), a multiple of 2^-53."""
    return (_next_bits(state) >> _BELOW_DOUBLE) * _UNIT


@jit
def shuffle(state, count):
    """The numbers 0 to count - 1 in random order."""
    order = np.empty(count, np.int64)
    for k in range(count):
        j = below(state, k + 1)
        order[k] = order[j]
        order[j] = k
    return order
