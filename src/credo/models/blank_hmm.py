"""Blanks of hidden Markov models: how many states, and perhaps what they emit."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import ModelError
from ..core.records import register
from ..families.additive import AdditiveGaussian
from ..families.base import Family
from ..families.blank import BlankRows, Kinds, family_of
from ..families.product import Product
from .factorial_hmm import FactorialHMM
from .hmm import HMM
from .semi_markov import SemiMarkov

__all__ = ["BlankFactorialHMM", "BlankHMM", "BlankSemiMarkov", "blank_of"]


def blank_of(kind: Any, states: Any, parts: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """A blank with so many states; parts that a blank gets from data are refused."""
    given = ("emission", "components", "durations", "cut")
    unknown = [*["a part"] * len(parts), *(name for name in more if name not in given)]
    if unknown:
        raise ModelError(
            f"states: expected nothing but emission beside it, got {', '.join(unknown)}; a blank gets its "
            "parameters from data, by credo.fit"
        )
    return kind(states, **more)


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


@register("BlankFactorialHMM", fields={"states": "states", "emission": "kinds"})
class BlankFactorialHMM(BlankRows):
    """How many states each of several chains has, and perhaps the family of the columns.

    Examples
    --------
    >>> import credo
    >>> credo.FactorialHMM(states=[2, 3], emission="additive")
    BlankFactorialHMM(2 x 3 joint states, additive; no parameters yet: fit it first)
    """

    _counted = "joint states"

    def __init__(self, states: Any, emission: Kinds = None) -> None:
        sizes = tuple(states) if hasattr(states, "__iter__") else (states,)
        for m, size in enumerate(sizes):
            check.whole(f"states of chain {m}", size, 1)
        if not sizes:
            raise ModelError("states: expected a number for every chain, got none")
        self._is_additive = isinstance(emission, str) and emission == "additive"
        super().__init__(prod(sizes), "tied" if self._is_additive else emission)
        self._sizes = tuple(int(size) for size in sizes)

    @property
    def states(self) -> tuple[int, ...]:
        """How many states every chain will have."""
        return self._sizes

    @property
    def kinds(self) -> Kinds:
        """The family of the columns."""
        return "additive" if self._is_additive else self._kinds

    def _members(self, source: Any, reading: Mapping[str, Any]) -> Family:
        found: Any = family_of(self._kinds, self._count, source, **reading)
        if not self._is_additive:
            return found  # type: ignore[no-any-return]
        if isinstance(found, Product):
            first: Any = found.parts[0]
            part = self._sums(first.dimension)
            return Product([part], found.columns, found.domains)
        return self._sums(found.dimension)

    def _sums(self, width: int) -> AdditiveGaussian:
        return AdditiveGaussian([np.zeros((n, width)) for n in self._sizes], np.eye(width))

    def _model(self, emission: Family) -> FactorialHMM:
        starts = [np.full(n, 1 / n) for n in self._sizes]
        return FactorialHMM(starts, [np.full((n, n), 1 / n) for n in self._sizes], emission)

    def __repr__(self) -> str:
        told = "" if self.kinds is None else f", {self.kinds}"
        size = " x ".join(map(str, self._sizes))
        return f"BlankFactorialHMM({size} joint states{told}; no parameters yet: fit it first)"


@register(
    "BlankSemiMarkov",
    fields={"states": "states", "durations": "durations", "emission": "kinds", "cut": "cut"},
)
class BlankSemiMarkov(BlankRows):
    """How many states, how long each lasts at least and at most, and perhaps the family of the columns.

    Examples
    --------
    >>> import credo
    >>> from credo.models import SemiMarkov
    >>> SemiMarkov(states=2, durations=(3, 20))
    BlankSemiMarkov(2 states; no parameters yet: fit it first)
    """

    _counted = "states"

    def __init__(
        self, states: int, durations: Any = (1, 20), emission: Kinds = None, cut: bool = True
    ) -> None:
        super().__init__(states, emission)
        try:
            shortest, longest = durations
        except (TypeError, ValueError):
            raise ModelError(
                f"durations: expected the shortest and the longest, got {durations!r:.60}"
            ) from None
        check.whole("shortest duration", shortest, 1)
        check.whole("longest duration", longest, int(shortest))
        self._durations, self.cut = (int(shortest), int(longest)), bool(cut)

    @property
    def states(self) -> int:
        """How many there will be."""
        return self._count

    @property
    def durations(self) -> tuple[int, int]:
        """The shortest and the longest time in a state."""
        return self._durations

    def _model(self, emission: Family) -> SemiMarkov:
        size, (shortest, longest) = self._count, self._durations
        each = np.where(np.arange(1, longest + 1) >= shortest, 1.0, 0.0) / (longest - shortest + 1)
        apart = np.ones((size, size)) - np.eye(size) if size > 1 else np.ones((1, 1))
        start, moves = np.full(size, 1 / size), apart / apart.sum(axis=1, keepdims=True)
        return SemiMarkov(start, moves, np.tile(each, (size, 1)), emission, cut=self.cut)
