"""Many random cases as one test: what every test costs beside its work is more than most of these take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

__all__ = ["each_seed"]


def each_seed(seeds: Iterable[int]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once with each of these as its argument `seed`; a failure names the one it was.

    Seeds that the test skips are passed over, unless it skips all of them.
    """
    chosen = tuple(seeds)

    def make(test: Callable[..., None]) -> Callable[..., None]:
        def run(*self: Any, **given: Any) -> None:
            skipped = []
            for seed in chosen:
                try:
                    test(*self, seed=seed, **given)
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except BaseException as failure:
                    failure.add_note(f"seed {seed}")
                    raise
            if len(skipped) == len(chosen):
                raise skipped[0]

        signature = inspect.signature(test)
        others = [p for name, p in signature.parameters.items() if name != "seed"]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
        run.__module__ = test.__module__
        return run

    return make
