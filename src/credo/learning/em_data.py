"""The data of EM: E-steps of parts that add up, and batches, in memory or from a stream.

Where a pass over the data stands is a tuple of whole numbers, so that it can be kept and gone on from: in
memory the unit that comes next, of a stream its place (`data/stream.py`).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.records import record
from ..data.dataset import Dataset
from ..data.stream import Stream

__all__ = ["DividedData", "EMData", "Expected", "Place", "batch_of", "check_batches", "unit_batches"]

Place = tuple[int, ...]  # where a pass over the data stands; () at its beginning and at its end


@record("em statistics")
class Expected(NamedTuple):
    """What an E-step finds."""

    log_weight: float  # log-likelihood of all rows, or what variational Bayes has in its place
    statistics: Any  # what the M-step needs

    def plus(self, other: Expected | None) -> Expected:
        """What two parts of the data say together; None is nothing."""
        if other is None:
            return self
        return Expected(other.log_weight + self.log_weight, other.statistics + self.statistics)


class EMData(abc.ABC):
    """What is expected of data as a whole."""

    rows: float  # weight of all rows

    @abc.abstractmethod
    def expect(self, parameters: Any) -> Expected:
        """The E-step."""

    def pieces(self, place: Place) -> Iterator[tuple[Callable[[Any], Expected], Place]]:
        """E-steps of parts of the data from a place on, which add up, each with the place after it."""
        yield self.expect, ()


class DividedData(EMData):
    """What is expected of data whose statistics can be had in parts, from memory or from a stream."""

    stream: Stream | None = None  # where the data come from in batches, if they are not in memory

    @abc.abstractmethod
    def part(self, batch: Any) -> DividedData:
        """The same model with a batch of the stream."""

    @abc.abstractmethod
    def own_batches(self, size: int, seed: int, place: Place) -> Iterator[tuple[Callable[[Any], Any], Place]]:
        """Statistics of `size` units of the data in memory, see `batches`."""

    def pieces(self, place: Place) -> Iterator[tuple[Callable[[Any], Expected], Place]]:
        """All data in memory at once, or a batch of the stream after the other."""
        if self.stream is None:
            yield self.expect, ()
            return
        for batch, end in self.stream.batches(place):
            yield partial(self._expect_batch, batch, place), end
            place = end

    def _expect_batch(self, batch: Dataset, place: Place, parameters: Any) -> Expected:
        assert self.stream is not None
        with self.stream.placed(place):
            return self.part(batch).expect(parameters)

    def batches(self, size: int, seed: int, place: Place) -> Iterator[tuple[Callable[[Any], Any], Place]]:
        """Statistics of `size` units at a time, scaled to all rows, in an order that `seed` gives."""
        if self.stream is None:
            yield from self.own_batches(size, seed, place)
            return
        place = place or (seed,)
        for batch, end in self.stream.batches(place, size):
            yield partial(self._learn_batch, batch, place), end
            place = end

    def _learn_batch(self, batch: Dataset, place: Place, parameters: Any) -> Any:
        assert self.stream is not None
        with self.stream.placed(place):
            return self._learn_part(self.part(batch), parameters)

    def _learn_part(self, part: DividedData, parameters: Any) -> Any:
        """Statistics of a part, scaled to all rows."""
        return self.scaled(part.expect(parameters).statistics, self.rows / part.rows)

    def scaled(self, statistics: Any, by: float) -> Any:
        """Statistics as if every row counted so often."""
        return by * statistics

    def blend(self, old: Any, new: Any, share: float) -> Any:
        """Statistics between old and new ones."""
        return self.scaled(old, 1 - share) + self.scaled(new, share)


def check_batches(batch: Any, rate: Any) -> None:
    """Check the options of stepwise EM."""
    if batch is not None:
        check.whole("batch", batch, 1)
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0.5 < rate <= 1:
        raise OptionError(f"rate must be above 0.5 and at most 1, got {rate!r}")


def batch_of(batch: int | None, data: Any, stream: Stream | None) -> int | None:
    """Units per M-step of stepwise EM; None where these are all there are."""
    if batch is None:
        return None
    count = stream.n_rows if stream is not None else data.n_units if isinstance(data, Dataset) else len(data)
    return None if batch >= count else batch


def unit_batches(units: np.ndarray, size: int, seed: int, place: Place) -> Iterator[tuple[np.ndarray, Place]]:
    """So many of the units at a time in an order that `seed` gives, each with the place after it."""
    order = np.random.default_rng(seed).permutation(units)
    for end in range((*place, 0)[0] + size, len(order) + size, size):
        yield order[end - size : end], (end,) if end < len(order) else ()
