"""Interpreted = compiled, for every kernel; and what the comparison notices."""

from __future__ import annotations

import importlib
import pkgutil
import re

import numpy as np
import pytest

import credo.kernels
from credo.kernels.jit import Kernel, jit
from small_work import WORK
from tiers import Recording, compiled, copies, differences, interpreted


def all_kernels() -> set[Kernel]:
    found: set[Kernel] = set()
    for module in pkgutil.iter_modules(credo.kernels.__path__):
        world = vars(importlib.import_module(f"credo.kernels.{module.name}"))
        found |= {value for value in world.values() if isinstance(value, Kernel)}
    return found


def test_every_kernel_means_the_same_interpreted_and_compiled():
    recording = Recording()
    with recording.open():
        for work in WORK:
            work()
    assert recording.failures == {}
    assert recording.misses(all_kernels()) == []


def kernel_of(source, other):
    """A kernel whose compiled form is another function."""
    made = jit(source)
    made._compiled = made._run = other
    return made


def first_difference(source, other, *args):
    recording, kernel = Recording(), kernel_of(source, other)
    with recording.open():
        kernel(*args)
    return next(iter(recording.failures.values()), None)


def write_first(value):
    def write(x):
        x[0] = value

    return write


X = np.array([1.0, np.nan, -np.inf])


@pytest.mark.parametrize(
    ("source", "other", "says"),
    [
        (lambda x: x[0], lambda x: x[0] + 1e-9, "answer"),
        (lambda x: (x, 1), lambda x: (x, 2), r"answer\[1\]"),
        (lambda x: x[:2], lambda x: x, "answer"),
        (lambda x: 1, lambda x: 1.0, "answer"),
        (lambda x: None, lambda x: 0, "answer"),
        (lambda x: np.nan_to_num(x, nan=0.0), lambda x: x, "answer"),
        (write_first(1.0), write_first(2.0), r"arguments\[0\]"),
        (lambda x: x[7], lambda x: 0.0, "interpreted: IndexError"),
        (lambda x: 1.0 / float(x[0] - 1), lambda x: np.inf, "interpreted: ZeroDivisionError"),
    ],
)
def test_a_difference_is_noticed(source, other, says):
    assert re.match(says, first_difference(source, other, X.copy()))


def test_equal_up_to_rounding_is_equal():
    assert first_difference(lambda x: (x, 1), lambda x: (x * (1 + 1e-15), 1), X.copy()) is None


def test_a_write_to_what_is_read_only_is_noticed():
    fixed = np.ones(2)
    fixed.flags.writeable = False
    assert "read-only" in first_difference(write_first(2.0), lambda x: None, fixed)


def test_copies_overlap_where_the_originals_do_and_keep_their_layout():
    base = np.arange(12.0).reshape(3, 4)
    args = (base[1], base[:, ::2], base.T, (np.asfortranarray(base), 3), base[3:])
    found = copies(args)
    assert differences(found, args) == []
    found[0][0] = -1.0
    assert found[1][1, 0] == found[2][0, 1] == -1.0
    assert found[3][0][1, 0] == base[1, 0] == 4.0
    for one, other in zip(found[:3], args[:3], strict=True):
        assert one.strides == other.strides


def test_random_numbers_are_compared_by_what_comes_next():
    def draw(times):
        return lambda rng: [rng.random() for _ in range(times)] and None

    assert first_difference(draw(2), draw(2), np.random.default_rng(0)) is None
    assert "arguments[0]" in first_difference(draw(2), draw(3), np.random.default_rng(0))


def test_kernels_that_are_compiled_can_be_interpreted():
    kernel = kernel_of(lambda: "interpreted", lambda: "compiled")
    with interpreted():
        assert kernel() == kernel.over(3)() == "interpreted"
        with compiled():
            assert kernel() == kernel.over(3)() == "compiled"
    assert kernel() == kernel.over(3)() == "compiled"
