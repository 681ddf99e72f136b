"""Tests that run over many seeds fail for one of them, and name it."""

from __future__ import annotations

import pytest

from seeds import each_seed

SEEN: list[tuple[str, int]] = []


@pytest.mark.parametrize("kind", ["a", "b"])
@each_seed(range(3))
def test_every_seed_is_run(kind, seed):
    SEEN.append((kind, seed))
    assert SEEN[-seed - 1 :] == [(kind, k) for k in range(seed + 1)]


def test_a_failure_names_its_seed():
    @each_seed(range(5))
    def fails(seed):
        assert seed < 3

    with pytest.raises(AssertionError) as failure:
        fails()
    assert failure.value.__notes__[-1] == "seed 3"


def test_some_seeds_may_be_skipped_but_not_all():
    ran = []

    @each_seed(range(4))
    def odd(seed, least):
        if seed % 2 == 0 or seed < least:
            pytest.skip("even")
        ran.append(seed)

    odd(least=0)
    assert ran == [1, 3]
    with pytest.raises(pytest.skip.Exception, match="even"):
        odd(least=9)
