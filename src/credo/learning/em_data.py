"""The data of EM: E-steps of parts that add up, and batches, in memory or from a stream.

Where a pass over the data stands is a tuple of whole numbers, so that it can be kept and gone on from: in
memory the unit that comes next, of a stream its place (`data/stream.py`).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from ..core.records import record
from ..data.dataset import Dataset
from ..data.stream import Stream

__all__ = ["EMData", "Expected", "Place"]

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
    """What is expected of data, whole or in parts."""

    rows: float  # weight of all rows
    stream: Stream | None = None  # where the data come from in batches, if they are not in memory

    @abc.abstractmethod
    def expect(self, parameters: Any) -> Expected:
        """The E-step."""

    def part(self, batch: Any) -> EMData:
        """The same model with a batch of the stream."""
        raise NotImplementedError

    def pieces(self, place: Place) -> Iterator[tuple[Callable[[Any], Expected], Place]]:
        """E-steps of parts of the data from a place on, which add up, each with the place after it."""
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
        """The same for statistics of `size` units, scaled to all rows, in an order that `seed` gives."""
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
            part = self.part(batch)
            return self.scaled(part.expect(parameters).statistics, self.rows / part.rows)

    def own_batches(self, size: int, seed: int, place: Place) -> Iterator[tuple[Callable[[Any], Any], Place]]:
        """Batches of data that are in memory."""
        raise NotImplementedError

    def scaled(self, statistics: Any, by: float) -> Any:
        """Statistics as if every row counted so often."""
        return by * statistics

    def blend(self, old: Any, new: Any, share: float) -> Any:
        """Statistics between old and new ones."""
        return self.scaled(old, 1 - share) + self.scaled(new, share)
