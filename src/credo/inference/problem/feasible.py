"""The search for states that no zero entry forbids, in portions that look at the clock."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels.feasible import FOUND, GAVE_UP, IMPOSSIBLE, UNDECIDED, best_entries, box_start, box_steps
from ...optimise.run import is_ending

__all__ = ["FOUND", "GAVE_UP", "IMPOSSIBLE", "best_entries", "feasible_box"]

_PORTION = 2_000_000  # table entries between two looks at the clock


def feasible_box(*arguments: Any) -> tuple[int, np.ndarray]:
    """A set of states per variable such that every combination of them has positive weight.

    Parameters
    ----------
    arguments
        Those of `box_steps`, from `log_tables` to `max_failures`.

    Returns
    -------
    code
        `FOUND`, `IMPOSSIBLE` (proved) or `GAVE_UP`, which it also does at the end of the time given.
    keep
        One flag per flat state.
    """
    box = box_start(*arguments[:6])
    code, entries = UNDECIDED, len(arguments[0])
    while code == UNDECIDED:
        most = box_steps.portion(1.0, _PORTION)
        code = box_steps.over(min(most, 4 * entries))(box, *arguments, most)
        if code == UNDECIDED and is_ending():
            code = GAVE_UP
    return int(code), box.keep
