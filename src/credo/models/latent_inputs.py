r"""Inputs of fields with several kinds of nodes and edges, some hidden: many graphs in one flat layout.

An input is a mapping

    {"nodes": {kind: features}, "edges": {kind: pairs}}

Features are an array (nodes, features), dense or sparse, a list of dictionaries, or a number of nodes,
which then have the one feature 1. Pairs are positions of nodes of the two kinds that the edge kind joins, or
None: a chain where it joins a kind with itself, otherwise the first with the first, the second with the
second, and so on. `(pairs, features)` gives edges features of their own; without, they share one table.

Labels are a mapping kind -> list, or a list where one kind has labels; None (or NaN) is a missing one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.domain import Discrete
from ..core.errors import DataError
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from ..core.wiring import starts_of
from ..data.dataset import random_batches
from .crf_features import MISSING, Features, Labels
from .crf_inputs import LabelledNodes, edge_pairs, taken

__all__ = ["KindBatch", "KindEdges", "KindItems", "KindNodes"]


@dataclass(frozen=True)
class KindNodes:
    """All nodes of one kind."""

    rows: Any  # (nodes, features)
    start: np.ndarray  # (inputs + 1,)
    labels: np.ndarray  # (nodes,) -1 where hidden
    size: int  # states

    def take(self, which: np.ndarray) -> KindNodes:
        """Those of some inputs."""
        rows, start = taken(self.start, which)
        return KindNodes(self.rows[rows], start, self.labels[rows], self.size)


@dataclass(frozen=True)
class KindEdges:
    """All edges of one kind."""

    rows: Any  # (edges, features); None: they share one table
    start: np.ndarray  # (inputs + 1,)
    ends: np.ndarray  # (edges, 2) positions among the nodes of a kind of one input
    kinds: tuple[int, int]  # of the nodes they join

    def take(self, which: np.ndarray) -> KindEdges:
        """Those of some inputs."""
        rows, start = taken(self.start, which)
        return KindEdges(None if self.rows is None else self.rows[rows], start, self.ends[rows], self.kinds)


@dataclass(frozen=True)
class KindBatch:
    """Many inputs: the nodes and edges of all lie in one table per kind."""

    nodes: tuple[KindNodes, ...]
    edges: tuple[KindEdges, ...]

    def __len__(self) -> int:
        return len(self.nodes[0].start) - 1

    @property
    def total(self) -> float:
        """Number of inputs."""
        return float(len(self))

    def take(self, which: np.ndarray) -> KindBatch:
        """Some of the inputs."""
        return KindBatch(tuple(k.take(which) for k in self.nodes), tuple(k.take(which) for k in self.edges))

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[KindBatch]:
        """The inputs in random order, `size` at a time; everything at once for None."""
        return random_batches(self, size, rng)

    @cached_property
    def label_parts(self) -> list[LabelledNodes]:
        """Labels of every kind of nodes."""
        units = np.arange(len(self))
        return [LabelledNodes(k.labels, k.size, np.repeat(units, np.diff(k.start))) for k in self.nodes]

    @cached_property
    def known_counts(self) -> np.ndarray:
        """How many labels of each input were observed."""
        return self._counts(lambda labels: labels != MISSING)

    def _counts(self, flags: Any) -> np.ndarray:
        parts = [np.bincount(p.unit[flags(p.labels)], minlength=len(self)) for p in self.label_parts]
        return np.asarray(sum(parts))

    @property
    def has_hidden(self) -> bool:
        """Whether some node is hidden where others of the same input are known."""
        return bool(((self.known_counts > 0) & (self._counts(lambda labels: labels == MISSING) > 0)).any())

    def labels_of(self, n: int) -> np.ndarray:
        """Labels of one input, kind after kind, -1 where hidden."""
        return np.concatenate([k.labels[k.start[n] : k.start[n + 1]] for k in self.nodes])

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where the scores of every kind of nodes, then of edges, begin among all."""
        sizes = [int(k.start[-1]) * k.size for k in self.nodes]
        for k in self.edges:
            count = 1 if k.rows is None else int(k.start[-1])
            sizes.append(count * self.nodes[k.kinds[0]].size * self.nodes[k.kinds[1]].size)
        return starts_of(sizes)

    def entries_of(self, n: int) -> np.ndarray:
        """Where the tables of one input lie among all scores: of nodes kind after kind, then of edges."""
        parts, at = [], iter(self.offsets.tolist())
        for kind in self.nodes:
            parts.append(next(at) + np.arange(kind.start[n] * kind.size, kind.start[n + 1] * kind.size))
        for edge in self.edges:
            size, first = self.nodes[edge.kinds[0]].size * self.nodes[edge.kinds[1]].size, next(at)
            if edge.rows is None:
                parts.append(np.tile(first + np.arange(size), int(edge.start[n + 1] - edge.start[n])))
            else:
                parts.append(first + np.arange(edge.start[n] * size, edge.start[n + 1] * size))
        return np.concatenate(parts)

    @cached_property
    def graphs(self) -> list[FactorGraph]:
        """The structure of every input; those of one structure are one graph."""
        made: dict[Any, FactorGraph] = {}
        found = []
        for n in range(len(self)):
            counts = [int(k.start[n + 1] - k.start[n]) for k in self.nodes]
            ends = [k.ends[k.start[n] : k.start[n + 1]] for k in self.edges]
            key = (*counts, *(e.tobytes() for e in ends))
            if key not in made:
                made[key] = self._graph(counts, ends)
            found.append(made[key])
        return found

    def _graph(self, counts: list[int], ends: list[np.ndarray]) -> FactorGraph:
        first = np.concatenate([[0], np.cumsum(counts)])
        total = int(first[-1])
        domains = [
            Discrete(k.size) for k, count in zip(self.nodes, counts, strict=True) for _ in range(count)
        ]
        names = [f"{k}_{i}" for k, count in enumerate(counts) for i in range(count)]
        pairs = [e + first[list(k.kinds)] for e, k in zip(ends, self.edges, strict=True)]
        joined = np.concatenate([np.empty((0, 2), np.int64), *pairs])
        start = np.concatenate([np.arange(total + 1), total + 2 * np.arange(1, len(joined) + 1)])
        scope = np.concatenate([np.arange(total), joined.ravel()])
        sizes = np.array([d.size for d in domains], dtype=np.int64)
        entries = int(sizes.sum() + sizes[joined].prod(axis=1).sum())
        return FactorGraph.from_flat(Variables(tuple(names), tuple(domains)), start, scope, np.zeros(entries))


@dataclass(frozen=True)
class KindItems:
    """Inputs as they were given, kind by kind."""

    nodes: dict[str, list[Any]]  # features of every input
    pairs: dict[str, list[Any]]  # kind of edge -> nodes of every item
    extra: dict[str, list[Any]]  # features of edges, None for none

    @classmethod
    def of(cls, x: Any, node_kinds: Sequence[str] | None, edges: Mapping[str, tuple[str, str]]) -> KindItems:
        """Check the form; without `node_kinds` those that occur."""
        items = [x] if isinstance(x, Mapping) else x
        if isinstance(items, str) or not isinstance(items, Sequence) or not len(items):
            raise DataError("data: expected a list of inputs {'nodes': ..., 'edges': ...}, got none")
        for number, item in enumerate(items):
            if not isinstance(item, Mapping) or "nodes" not in item or not set(item) <= {"nodes", "edges"}:
                raise DataError(
                    f"item {number}: expected a mapping with 'nodes' and 'edges', got {item!r:.80}"
                )
        found = dict.fromkeys(kind for item in items for kind in item["nodes"])
        kinds = list(found) if node_kinds is None else list(node_kinds)
        for number, item in enumerate(items):
            _known(number, "nodes", item["nodes"], kinds)
            _known(number, "edges", item.get("edges", {}), edges)
        nodes = {kind: [_counted(item["nodes"].get(kind, 0)) for item in items] for kind in kinds}
        parts = {e: [_edge_parts(item.get("edges", {}), e) for item in items] for e in edges}
        pairs = {e: [pair for pair, _ in own] for e, own in parts.items()}
        extra = {e: [features for _, features in own] for e, own in parts.items()}
        return cls(nodes, pairs, extra)

    def features(self) -> tuple[dict[str, Features], dict[str, Features]]:
        """What is known of the features of every kind, before they are read."""
        edges = {e: Features.of([], own) for e, own in self.extra.items()}
        return {kind: Features.of(own, []) for kind, own in self.nodes.items()}, edges

    def node_rows(self, kind: str, features: Features) -> tuple[Any, np.ndarray]:
        """Features of all nodes of a kind."""
        try:
            return features.node_rows(self.nodes[kind])
        except DataError as error:
            raise DataError(f"nodes of kind '{kind}': {error}") from None

    def edge_rows(
        self, kind: str, counts: tuple[np.ndarray, np.ndarray], features: Features, *, is_loop: bool
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Features, or None, starts and ends of all edges of a kind, whose nodes are so many."""
        ends = []
        for number, (pairs, extra) in enumerate(zip(self.pairs[kind], self.extra[kind], strict=True)):
            first, second = int(counts[0][number]), int(counts[1][number])
            try:
                own = _joined(pairs, first, second, is_loop=is_loop)
            except DataError as error:
                raise DataError(f"item {number}, edges of kind '{kind}': {error}") from None
            if len(own) and (extra is None) != (features.edges is None):
                raise DataError(f"edges of kind '{kind}': expected features in all items or in none")
            ends.append(own)
        start = starts_of([len(own) for own in ends])
        joined = np.concatenate([np.empty((0, 2), np.int64), *ends])
        if features.edges is None:
            return None, start, joined
        empty: list[Any] = []
        given = [empty if part is None else part for part in self.extra[kind]]
        rows, found = features.edge_rows(given)
        if (found != start).any():
            number = int(np.flatnonzero(np.diff(found) != np.diff(start))[0])
            raise DataError(
                f"item {number}, edges of kind '{kind}': expected {len(ends[number])} rows of features, one "
                f"per edge, got {found[number + 1] - found[number]}"
            )
        return rows, start, joined


def labels_by_kind(y: Any, count: int, kinds: Sequence[str]) -> dict[str, list[Any]]:
    """Labels of every input for each kind; None for a kind that an input says nothing about."""
    items = [y] if isinstance(y, Mapping) else y
    if items is None or isinstance(items, str) or not hasattr(items, "__len__") or len(items) != count:
        got = "none" if items is None else len(items) if hasattr(items, "__len__") else type(items).__name__
        raise DataError(f"targets: expected labels of {count} inputs, got {got}")
    found: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for number, item in enumerate(items):
        if not isinstance(item, Mapping):
            if len(kinds) != 1:
                raise DataError(
                    f"labels of item {number}: expected a mapping kind -> labels, because {list(kinds)} have "
                    "some"
                )
            found[kinds[0]].append(item)
            continue
        _known(number, "labels", item, kinds)
        for kind in kinds:
            found[kind].append(item.get(kind))
    return found


def codes_of(known: Labels, labels: list[Any], start: np.ndarray) -> np.ndarray:
    """Positions of the labels of one kind, -1 where missing."""
    parts = []
    for number, (own, length) in enumerate(zip(labels, np.diff(start).tolist(), strict=True)):
        missing = np.full(length, MISSING)
        parts.append(missing if own is None else known.codes(own, number, length))
    return np.concatenate([np.empty(0, np.int64), *parts])


def _known(number: int, what: str, given: Any, names: Any) -> None:
    unknown = [name for name in given if name not in names] if isinstance(given, Mapping) else [given]
    if unknown:
        raise DataError(f"item {number}: expected {what} of the kinds {list(names)}, got {unknown[0]!r:.60}")


def _counted(features: Any) -> Any:
    """A number of nodes as nodes with the one feature 1."""
    if isinstance(features, (int, np.integer)) and not isinstance(features, bool):
        if features < 0:
            raise DataError(f"nodes: expected a number of 0 or more, got {features}")
        return np.ones((int(features), 1)) if features else []
    return features


def _edge_parts(edges: Mapping[str, Any], kind: str) -> tuple[Any, Any]:
    if kind not in edges:
        return np.empty((0, 2), np.int64), None
    given = edges[kind]
    is_pair = isinstance(given, tuple) and len(given) == 2 and (given[0] is None or np.ndim(given[0]) == 2)
    return given if is_pair else (given, None)


def _joined(pairs: Any, first: int, second: int, *, is_loop: bool) -> np.ndarray:
    """Pairs of positions among the nodes of two kinds."""
    if is_loop:
        return edge_pairs(pairs, first)
    if pairs is None:
        if first != second:
            raise DataError(
                f"expected as many nodes of both kinds where pairs are None, got {first}, {second}"
            )
        return np.stack([np.arange(first), np.arange(first)], axis=1)
    if not len(pairs):
        return np.empty((0, 2), np.int64)
    found = edge_pairs(np.asarray(pairs) + np.array([0, first]), first + second)
    if (found[:, 0] >= first).any() or (found[:, 1] < first).any():
        raise DataError(f"expected pairs of positions below {first} and {second}, got others")
    return found - np.array([0, first])
