"""A hybrid graph of factors on one and two variables, as message passing between variables reads it.

Factors on the same pair of variables are multiplied into one edge, so that they make no loop. Edges whose
factors come from the same groups are evaluated together. Edge e joins `ends[e, 0]` and `ends[e, 1]`; message
e goes from the first to the second, message E + e back, and both are rows of arrays (2E, points).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch

__all__ = ["EdgeClass", "ParticlePairs", "why_not_pairs"]


def why_not_pairs(graph: FactorGraph) -> str | None:
    """Why a graph is not one of factors on pairs of variables; None if it is."""
    for batch in graph.batches:
        if batch.scopes.shape[1] > 2:
            names = [graph.variables.names[int(i)] for i in batch.scopes[0]]
            return f"it works on factors of one or two variables, the factor over {names} has {len(names)}"
    return None


@dataclass(frozen=True)
class EdgeClass:
    """Edges start:stop, all with factors from the same groups."""

    members: tuple[
        tuple[FactorBatch, bool], ...
    ]  # groups, and whether their axes are those of the edge swapped
    rows: np.ndarray  # (count, members) which factor of each group
    start: int  # the first edge
    stop: int  # the one after the last

    @cached_property
    def parameters(self) -> tuple[tuple[np.ndarray, ...], ...]:
        """Per member its parameters, each (count, ...)."""
        pairs = zip(self.members, self.rows.T, strict=True)
        return tuple(tuple(p[rows] for p in group.parameters) for (group, _), rows in pairs)


class ParticlePairs:
    """The structure of a graph that `why_not_pairs` accepts.

    Examples
    --------
    >>> import credo
    >>> from credo.inference.particles.pairs import ParticlePairs
    >>> model = credo.GaussianNet([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.0]])
    >>> pairs = ParticlePairs(model.to_factor_graph())
    >>> pairs.ends.tolist(), pairs.sender.tolist(), pairs.receiver.tolist()
    ([[0, 1], [1, 2]], [0, 1, 1, 2], [1, 2, 0, 1])
    """

    def __init__(self, graph: FactorGraph) -> None:
        self.graph = graph
        self.sizes = np.asarray(graph.variables.sizes)
        self.is_real = self.sizes == 0
        self.constant = 0.0  # of the factors without variables
        self.unary: list[FactorBatch] = []
        of_pair: dict[tuple[int, int], list[tuple[int, int]]] = {}  # pair -> (group, row) of its factors
        for g, group in enumerate(graph.batches):
            if group.scopes.shape[1] == 0:
                self.constant += float(sum(graph.factors[int(a)].log_values() for a in group.factors))
            elif group.scopes.shape[1] == 1:
                self.unary.append(group)
            else:
                for row, (i, j) in enumerate(group.scopes.tolist()):
                    of_pair.setdefault((min(i, j), max(i, j)), []).append((g, row))
        self.classes, self.ends = self._edges(of_pair)
        self.sender = np.concatenate([self.ends[:, 0], self.ends[:, 1]])
        self.receiver = np.concatenate([self.ends[:, 1], self.ends[:, 0]])
        self.reverse = np.roll(np.arange(2 * len(self.ends)), len(self.ends))

    def _edges(
        self, of_pair: dict[tuple[int, int], list[tuple[int, int]]]
    ) -> tuple[tuple[EdgeClass, ...], np.ndarray]:
        """The classes of edges; the first factor of an edge gives its direction."""
        groups = self.graph.batches
        found: dict[tuple[tuple[int, bool], ...], list[tuple[np.ndarray, list[int]]]] = {}
        for own in of_pair.values():
            ends = groups[own[0][0]].scopes[own[0][1]]
            key = tuple((g, bool(groups[g].scopes[row][0] != ends[0])) for g, row in own)
            found.setdefault(key, []).append((ends, [row for _, row in own]))
        classes, all_ends = [], [np.empty((0, 2), dtype=np.int64)]
        start = 0
        for key, edges in found.items():
            rows = np.array([row for _, row in edges], dtype=np.int64)
            members = tuple((groups[g], swapped) for g, swapped in key)
            classes.append(EdgeClass(members, rows, start, start + len(edges)))
            all_ends.append(np.stack([ends for ends, _ in edges]))
            start += len(edges)
        return tuple(classes), np.concatenate(all_ends)

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.sizes)

    @property
    def n_edges(self) -> int:
        """Number of pairs of variables with a factor."""
        return len(self.ends)

    @cached_property
    def degrees(self) -> np.ndarray:
        """Neighbours of each variable."""
        return np.bincount(self.receiver, minlength=self.n)

    @cached_property
    def _by_receiver(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Messages in the order of their receivers, who receives any, and where theirs begin."""
        order = np.argsort(self.receiver, kind="stable")
        able = np.flatnonzero(self.degrees)
        return order, able, (np.cumsum(self.degrees) - self.degrees)[able]

    def collect(self, messages: np.ndarray) -> np.ndarray:
        """Sums (n, ...) of what every variable receives."""
        order, able, first = self._by_receiver
        total = np.zeros((self.n, *messages.shape[1:]))
        if len(able):
            total[able] = np.add.reduceat(messages[order], first, axis=0)
        return total

    def beliefs(self, log_unary: np.ndarray, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log beliefs and cavities at points of the variables, where messages were evaluated.

        Parameters
        ----------
        log_unary
            (n, points) log of the product of the unary factors.
        messages
            (2E, points) log messages at the points of their receivers.

        Returns
        -------
        beliefs, cavities
            (n, points), and (2E, points): for each message, what its sender knows from all others.
        """
        zero, zero_unary = np.isneginf(messages), np.isneginf(log_unary)
        if not zero.any():  # -inf - (-inf) cannot happen
            total = log_unary + self.collect(messages)
            return total, total[self.sender] - messages[self.reverse]
        finite = np.where(zero, 0.0, messages)
        zeros = zero_unary + self.collect(zero.astype(np.float64))
        total = np.where(zero_unary, 0.0, log_unary) + self.collect(finite)
        left = zeros[self.sender] - zero[self.reverse] < 0.5
        cavities = np.where(left, total[self.sender] - finite[self.reverse], -np.inf)
        return np.where(zeros < 0.5, total, -np.inf), cavities
