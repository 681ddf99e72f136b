"""How many steps to take in one call, where that does not change the numbers."""

from __future__ import annotations

from time import perf_counter

__all__ = ["Pace", "is_long"]

_LONG = 0.1  # seconds of a call after which a signal would wait too long


class Pace:
    """From one step a call, twice as many while calls are short, half as many when they become long.

    >>> from credo.optimise.pace import Pace
    >>> pace = Pace(most=3)
    >>> pace.took(0.01), pace.count
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
            self.count = min(2 * self.count, self.most)


def is_long(began: float) -> bool:
    """Whether a call that began at this `perf_counter` has gone on for as long as a signal may wait."""
    return perf_counter() - began >= _LONG
