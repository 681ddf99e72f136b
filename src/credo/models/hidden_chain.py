"""What models of a chain of hidden states that emit rows of data share: their parts, data and updates."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core import check
from ..core.display import Axis, Listing, Shown, grid, shares
from ..core.errors import ModelError
from ..core.instance import Instance
from ..data.dataset import Dataset
from ..data.sequences import read_sequences
from ..families.base import Family
from .hmm_parameters import HMMPrior, probability_rows, random_rows, renewed

__all__ = ["HiddenChain", "moves"]


class HiddenChain(Shown):
    """First states, moves between states, and a family with one member per state; immutable."""

    def __init__(self, start: Any, transition: Any, emission: Family) -> None:
        self._start = probability_rows("start", start, 1)
        self._transition = probability_rows("transition", transition, 2)
        states = len(self._start)
        if self._transition.shape != (states, states):
            raise ModelError(f"transition: expected shape ({states}, {states}), got {self._transition.shape}")
        if not isinstance(emission, Family):
            raise ModelError(f"emission: expected members of a family, got {type(emission).__name__}")
        if len(emission) != states:
            raise ModelError(f"emission: expected {states} members, one per state, got {len(emission)}")
        self._emission = emission

    @property
    def start(self) -> np.ndarray:
        """Probabilities of the first state, (states,), read-only."""
        return self._start

    @property
    def transition(self) -> np.ndarray:
        """Row s: probabilities of the state after s, (states, states), read-only."""
        return self._transition

    @property
    def emission(self) -> Any:
        """The family of emissions."""
        return self._emission

    @property
    def states(self) -> int:
        """How many hidden states there are."""
        return len(self._start)

    def movement(self, new: Any) -> float:
        """The largest change of a probability or, in the units of `Family.movement`, of an emission."""
        moves = [np.abs(a - b).max() for a, b in zip(self._rows(), new._rows(), strict=True)]
        return float(max(*moves, self._emission.movement(new.emission)))

    def _rows(self) -> tuple[np.ndarray, ...]:
        """All tables of probabilities."""
        return self._start, self._transition

    def sequences(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> Dataset:
        """Data as the emission works on them; see `data.read_sequences`, which may read its own answer."""
        return read_sequences(x, self._emission, lengths=lengths, mask=mask, **reading)

    def instantiate(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> Instance:
        """The hidden states of these sequences as arrays, for `inference/` to answer."""
        data = self.sequences(x, lengths, mask, **reading)
        return self.hidden(self._emission.log_density(data.rows()), data.begin).weighed(data.weights)

    @abc.abstractmethod
    def hidden(self, scores: np.ndarray, begin: np.ndarray, first: int = 0) -> Instance:
        """Hidden states of sequences whose rows have these log scores; the first has number `first`."""

    def _shown(self) -> Iterable[str | Listing]:
        return [repr(self), moves(self._start, self._transition)]

    def _initialised(
        self, data: Dataset, rng: np.random.Generator, fixed: tuple[str, ...]
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """Random start, transition and emission, drawn in this order."""
        start, transition, emission = self._start, self._transition, self._emission
        if "start" not in fixed:
            start = random_rows(start[None], rng)[0]
        if "transition" not in fixed:
            transition = random_rows(transition, rng)
        if "emission" not in fixed:
            emission = emission.initialise(data.rows(), rng)
        return start, transition, emission

    def _maximised(
        self, statistics: Any, prior: HMMPrior | None, fixed: tuple[str, ...], floor: float
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """New start, transition and emission; zeros stay zeros, unseen rows stay as they are."""
        for part in fixed:
            check.one_of("fixed", part, ["start", "transition", "durations", "emission"])
        start, transition, emission = self._start, self._transition, self._emission
        if "start" not in fixed:
            added = 0.0 if prior is None or prior.start is None else prior.start.natural[0]
            start = renewed(start[None], statistics.counts["start"] + added)[0]
        if "transition" not in fixed:
            added = 0.0
            if prior is not None and prior.transition is not None:
                added = prior.transition.repeat(len(transition)).natural
            transition = renewed(transition, statistics.counts["transition"] + added)
        if "emission" not in fixed:
            own = None if prior is None else prior.emission
            emission = emission.update(statistics.emission.counts, statistics.emission.sums, own, floor=floor)
        return start, transition, emission


def moves(start: np.ndarray, transition: np.ndarray) -> Listing:
    """The probabilities of the first state and of the moves between states, as they are shown."""
    labels = [str(k) for k in range(len(start))]
    axes = [Axis("from", ["start", *labels]), Axis("to", labels)]
    return grid(axes, np.concatenate([start[None], transition]), shares, "probability")
