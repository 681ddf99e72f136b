"""Where learning starts from a blank of sequences: the best of a few starts after a few steps of EM each.

A blank's members are those of a mixture, which looks at rows and not at their order. Of several such starts
that one is kept from which a short run comes furthest; the first one, unless another is better by more than
noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..optimise.run import Budget, Run
from .em_steps import run_em
from .hmm import HiddenRows

__all__ = ["best_first"]

_OTHERS = 3  # starts besides the first
_SHORT = Budget(15, 1e-2)
_MOST = 320_000  # rows times states squared for which that costs little
_BETTER = 1e-3  # nat per row


def best_first(
    first: Any, data: Any, again: Callable[[np.random.Generator], Any], rng: np.random.Generator
) -> Any:
    """The model to start from; `again(rng)` makes another one, and `data` are as the model reads them."""
    states = len(first.emission)
    is_small = data.n_rows * states**2 <= _MOST and first.emission.to_free() is None
    if not data.is_sequences or states < 2 or not is_small:
        return first
    best, value = first, _reached(first, data, rng)
    for child in _children(rng):
        other = again(child)
        reached = _reached(other, data, rng)
        if reached > value + _BETTER * data.total_rows:
            best, value = other, reached
    return best


def _children(rng: np.random.Generator) -> list[np.random.Generator]:
    """Generators of the other starts; what the given one will draw stays as it is."""
    if isinstance(rng.bit_generator.seed_seq, np.random.SeedSequence):
        return rng.spawn(_OTHERS)
    return [np.random.default_rng(k) for k in range(_OTHERS)]  # of old generators, which have no children


def _reached(model: Any, data: Any, rng: np.random.Generator) -> float:
    """The objective after a short run; -inf where a member collapses."""
    with Run(Budget(), whole=False, on_step=lambda *_: None) as run:
        run.has_begun = False  # the run that a checkpoint is for comes later
        try:
            found = run_em(HiddenRows(model, data), _SHORT, rng, name="first steps", restarts=1)
        except ModelError:
            return -np.inf
    return float(found.values.max()) if len(found.values) else -np.inf
