"""Checks of the arguments of generators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import OptionError

__all__ = ["probability", "state_counts"]


def probability(name: str, value: Any) -> None:
    """Refuse what is not in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise OptionError(f"{name} must be in [0, 1], got {value!r}")


def state_counts(states: Any, count: int) -> np.ndarray:
    """One number of states per variable, from one for all or one each."""
    sizes = np.asarray(states)
    if sizes.dtype.kind not in "iu" or sizes.shape not in ((), (count,)) or (sizes < 1).any():
        raise OptionError(f"states must be one positive whole number or {count}, got {states!r:.80}")
    return np.broadcast_to(sizes, (count,)).astype(np.int64)
