"""Nodes of several kinds together with data: one graph per input, whose kinds have states of their own.

What an `Instance` of structure "graph" is for one kind of nodes: a field with several kinds makes it of its
inputs, and answers come back kind by kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .errors import ModelError
from .factor_graph import FactorGraph
from .rows import Rows
from .wiring import starts_of

__all__ = ["KindGraphs"]


@dataclass(frozen=True, eq=False)
class KindGraphs:
    """The graphs of inputs; variables are the nodes of every kind in turn, each with its table first."""

    structure: ClassVar[str] = "graph"
    graphs: tuple[FactorGraph, ...]  # of every input
    kinds: tuple[str, ...]  # of nodes
    sizes: tuple[int, ...]  # states of every kind
    counts: np.ndarray  # (inputs, kinds) nodes

    @property
    def units(self) -> int:
        """How many inputs there are."""
        return len(self.graphs)

    @property
    def begin(self) -> np.ndarray:
        """(inputs + 1,) the nodes of input i are begin[i]:begin[i+1]."""
        return starts_of(self.counts.sum(axis=1))

    def unit(self, number: int) -> KindGraphs:
        """One of the inputs by itself."""
        one = slice(number, number + 1)
        return replace(self, graphs=self.graphs[one], counts=self.counts[one])

    def to_factor_graph(self) -> FactorGraph:
        """The graph of one input; those of several are `graphs`."""
        if self.units != 1:
            raise ModelError(
                f"to_factor_graph: expected one input, got {self.units}; ask about each of `graphs`"
            )
        return self.graphs[0]

    def named(self, states: np.ndarray) -> Rows:
        """States (nodes,) of all inputs by kind."""
        return self._by_kind(np.split(states, self._ends(self.counts)))

    def named_tables(self, flat: np.ndarray) -> Rows:
        """Probabilities of the states of all nodes, one after another: (nodes, states) by kind."""
        parts = np.split(flat, self._ends(self.counts * np.array(self.sizes)))
        sizes = [*self.sizes] * self.units
        return self._by_kind([part.reshape(-1, size) for part, size in zip(parts, sizes, strict=True)])

    def named_draws(self, paths: np.ndarray) -> Rows:
        """Draws (count, nodes) of all inputs by kind."""
        return self._by_kind(np.split(paths, self._ends(self.counts), axis=1))

    @staticmethod
    def _ends(sizes: np.ndarray) -> np.ndarray:
        """Where the parts of inputs and kinds, but the last, end."""
        return np.cumsum(sizes.ravel())[:-1]

    def _by_kind(self, parts: list[np.ndarray]) -> Rows:
        """One array per kind; a list of those for several inputs."""
        own = {kind: parts[k :: len(self.kinds)] for k, kind in enumerate(self.kinds)}
        return Rows({kind: part[0] if self.units == 1 else part for kind, part in own.items()})

    def __repr__(self) -> str:
        nodes = ", ".join(
            f"{n} of kind {kind}" for kind, n in zip(self.kinds, self.counts.sum(axis=0), strict=True)
        )
        return f"KindGraphs({self.units} inputs; nodes: {nodes})"
