"""What models of a chain of hidden states that emit rows of data share: their parts, data and updates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from ..core import check
from ..core.display import Axis, Listing, Shown, grid, shares
from ..core.errors import ModelError
from ..data.dataset import Dataset
from ..families.base import Family
from ..families.learnable import Learnable
from .hmm_parameters import HMMPrior, probability_rows, random_rows, renewed

__all__ = ["HiddenChain", "moves"]


class HiddenChain(Shown, Learnable):
    """First states, moves between states, and a family with one member per state; immutable."""

    prior_kinds: ClassVar = (HMMPrior,)
    parts: ClassVar[tuple[str, ...]] = ("start", "transition", "emission")

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
    def emission(self) -> Any:  # type: ignore[override]
        """The family of emissions."""
        return self._emission

    @property
    def states(self) -> int:
        """How many hidden states there are."""
        return len(self._start)

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
        self, expected: Any, prior: HMMPrior | None, fixed: tuple[str, ...], floor: float
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """New start, transition and emission; zeros stay zeros, unseen rows stay as they are."""
        for part in fixed:
            check.one_of("fixed", part, self.parts)
        start, transition, emission = self._start, self._transition, self._emission
        if "start" not in fixed:
            added = 0.0 if prior is None or prior.start is None else prior.start.natural[0]
            start = renewed(start[None], expected.counts["start"] + added)[0]
        if "transition" not in fixed:
            added = 0.0
            if prior is not None and prior.transition is not None:
                added = prior.transition.repeat(len(transition)).natural
            transition = renewed(transition, expected.counts["transition"] + added)
        if "emission" not in fixed:
            own = None if prior is None else prior.emission
            emission = expected.emission.update(emission, own, floor=floor)
        return start, transition, emission


def moves(start: np.ndarray, transition: np.ndarray) -> Listing:
    """The probabilities of the first state and of the moves between states, as they are shown."""
    labels = [str(k) for k in range(len(start))]
    axes = [Axis("from", ["start", *labels]), Axis("to", labels)]
    return grid(axes, np.concatenate([start[None], transition]), shares, "probability")
