"""The promises of every algorithm while all kernels are interpreted; nothing compiled, small cases."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from conformance import test_maxima, test_queries, test_sums
from conformance.subjects import SUBJECTS, compiles, promising, takes, try_each
from tiers import compiled, interpreted
from zoo import Case, case

SMALL = ("grid with zeros", "chain", "three-way factors", "one-state variables", "no variables, one constant")


@pytest.fixture(autouse=True)
def _no_kernel_is_compiled():
    with interpreted():
        yield


def fresh(spec: str) -> list[tuple[Case, str]]:
    """Cases whose graphs no compiled kernel has planned for, and kinds of evidence; few for variants."""
    cases = [replace(case(name)) for name in SMALL[:: 2 if "(" in spec else 1]]
    return [(one, "several" if one.names else "none") for one in cases]


def those(task: str) -> list[str]:
    return [spec for spec in SUBJECTS if takes(spec, task) and not compiles(spec)]


@pytest.mark.parametrize("spec", those("sum"))
def test_sums_keep_their_word(spec: str):
    try_each(fresh(spec), partial(test_sums.check_sum, spec))


@pytest.mark.parametrize("spec", those("max"))
def test_maxima_keep_their_word(spec: str):
    try_each(fresh(spec), partial(test_maxima.check_map, spec))


@pytest.mark.parametrize("spec", those("mixed"))
def test_marginal_maxima_keep_their_word(spec: str):
    try_each(((one,) for one, _ in fresh(spec)), partial(test_maxima.check_marginal_map, spec))


@pytest.mark.parametrize("spec", promising("exact", task="query"))
def test_joints_equal_brute_force(spec: str):
    try_each(((one, "several") for one, _ in fresh(spec)), partial(test_queries.check_joints, spec))


@pytest.mark.parametrize("spec", promising("exact", task="samples"))
def test_samples_are_those_of_the_compiled_tier(spec: str):
    mine = test_queries._sample(spec, replace(case("grid 3x3")), {})
    with compiled():
        theirs = test_queries._sample(spec, replace(case("grid 3x3")), {})
    np.testing.assert_array_equal(mine, theirs)
