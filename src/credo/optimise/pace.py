"""How many steps to take in one call, where that does not change the numbers."""

from __future__ import annotations

from time import perf_counter

__all__ = ["Pace", "is_long"]

_LONG = 0.1  # seconds of a call after which a signal would wait too long
_FASTER = 16  # times as many steps that the next call may have: the first ones tell little


class Pace:
    """From one step a call as many as would take half of what is long, half as many when calls become long.

    >>> from credo.optimise.pace import Pace
    >>> pace = Pace(most=3)
    >>> pace.took(0.02), pace.count
    (None, 2)
    >>> pace.took(0.01), pace.count
    (None, 3)
    >>> pace.took(1.0), pace.count
    (None, 1)

    Parameters
    ----------
    most
        Steps of one call at most.
    """

    def __init__(self, most: int) -> None:
        self.most, self.count = most, 1

    def took(self, seconds: float) -> None:
        """Learn how long a call of `count` steps took."""
        if seconds > _LONG:
            self.count = max(1, self.count // 2)
        elif seconds < _LONG / 2:
            times = int(_LONG / 2 / max(seconds, _LONG / 2 / _FASTER))
            self.count = min(max(2, times) * self.count, self.most)


def is_long(began: float) -> bool:
    """Whether a call that began at this `perf_counter` has gone on for as long as a signal may wait."""
    return perf_counter() - began >= _LONG
