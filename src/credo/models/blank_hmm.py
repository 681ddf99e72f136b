"""Blanks of hidden Markov models: how many states, and perhaps what they emit."""

from __future__ import annotations

import numpy as np

from ..core.records import register
from ..families.base import Family
from ..families.blank import BlankRows, Kinds
from .hmm import HMM

__all__ = ["BlankHMM"]


@register("BlankHMM", fields={"states": "states", "emission": "kinds", "components": "components"})
class BlankHMM(BlankRows):
    """How many hidden states, and perhaps the family of the columns; see `HMM.blank`."""

    _counted = "states"

    def __init__(self, states: int, emission: Kinds = None, components: int = 1) -> None:
        super().__init__(states, emission, components)

    @property
    def states(self) -> int:
        """How many there will be."""
        return self._count

    @property
    def components(self) -> int:
        """Of the mixture that a state emits."""
        return self._components

    def _model(self, emission: Family) -> HMM:
        size = self._count
        return HMM(np.full(size, 1 / size), np.full((size, size), 1 / size), emission)
