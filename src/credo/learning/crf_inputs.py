"""Inputs and labels of conditional random fields: many sequences, or many graphs, as learners read them.

A sequence is its node features: an array (positions, features), dense or sparse, or a list of dictionaries;
or a pair (node features, edge features), where edge t joins positions t and t + 1. A graph is a tuple
(node features, edges) or (node features, edges, edge features). Labels are one list per sequence or
graph; None (or NaN) is a label that was not observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..core.domain import Discrete
from ..core.errors import DataError
from ..core.factor_graph import FactorGraph
from ..models.crf import expanded_features, feature_rows, label_graph

__all__ = ["Graphs", "Labels", "Sequences", "names_of", "parts_of"]

MISSING = -1


@dataclass(frozen=True)
class Labels:
    """The label set of an estimator: what users write, and its positions."""

    classes: np.ndarray  # as given, sorted
    position: dict[Any, int]  # label -> place in `classes`

    @classmethod
    def of(cls, labels: Sequence[Sequence[Any]]) -> Labels:
        """All labels that occur."""
        seen = {label for part in labels for label in part if not _is_missing(label)}
        if not seen:
            raise DataError("labels: expected at least one, got none")
        try:
            ordered = sorted(seen)
        except TypeError:
            ordered = sorted(seen, key=str)
        classes = np.array(ordered) if len({type(x) for x in ordered}) == 1 else np.array(ordered, object)
        return cls(classes, {label: k for k, label in enumerate(ordered)})

    def codes(self, labels: Any, number: int, length: int) -> np.ndarray:
        """Positions of the labels of one sequence or graph, -1 where missing."""
        if isinstance(labels, str) or not hasattr(labels, "__len__"):
            raise DataError(f"labels of item {number}: expected a list, got {labels!r:.80}")
        if len(labels) != length:
            raise DataError(f"labels of item {number}: expected {length}, one per node, got {len(labels)}")
        found = np.empty(length, dtype=np.int64)
        for t, label in enumerate(labels):
            if _is_missing(label):
                found[t] = MISSING
            elif label in self.position:
                found[t] = self.position[label]
            else:
                known = [str(c) for c in self.classes[:12]]
                raise DataError(
                    f"labels of item {number}: {label!r} at node {t} was not seen in training; "
                    f"the labels are {known}"
                )
        return found


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, (float, np.floating)) and bool(np.isnan(label)))


def parts_of(item: Any, number: int) -> tuple[Any, Any, Any]:
    """Node features, edges and edge features of one graph; edges are None for a plain sequence."""
    if not isinstance(item, tuple):
        return item, None, None
    if len(item) not in (2, 3):
        raise DataError(
            f"item {number}: expected (node features, edges) or (node features, edges, edge features), "
            f"got {len(item)} parts"
        )
    return item[0], item[1], item[2] if len(item) == 3 else None


def names_of(features: Sequence[Any]) -> tuple[str, ...] | None:
    """Names of all features that occur in dictionaries, sorted; None if the features are numbers."""
    if not any(_has_dictionaries(part) for part in features):
        return None
    names: set[str] = set()
    for part in features:
        for row in part:
            if not isinstance(row, Mapping):
                raise DataError(f"features: expected dictionaries throughout, got {row!r:.80}")
            names.update(expanded_features(row))
    return tuple(sorted(names))


def _has_dictionaries(part: Any) -> bool:
    return isinstance(part, Sequence) and len(part) > 0 and isinstance(part[0], Mapping)


def _stacked(parts: list[Any]) -> Any:
    from scipy import sparse

    if any(sparse.issparse(p) for p in parts):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(p) for p in parts]))
    return np.concatenate(parts) if parts else np.empty((0, 0))


def _rows(what: str, part: Any, names: tuple[str, ...] | None, count: int | None) -> Any:
    if isinstance(part, Sequence) and not len(part) and count is not None:
        return np.empty((0, count))
    return feature_rows(what, part, names, count)


@dataclass(frozen=True)
class Sequences:
    """Many sequences in one flat layout."""

    nodes: Any  # (positions, features), dense or sparse
    edges: Any  # (positions, edge features) of the step into each position, or None
    labels: np.ndarray | None  # (positions,) -1 where missing
    start: np.ndarray  # (sequences + 1,)
    _counted: list[Any] = field(default_factory=list, repr=False, compare=False)  # what is counted once

    @classmethod
    def of(
        cls,
        items: Sequence[Any],
        labels: Any,
        known: Labels | None,
        names: tuple[str, ...] | None,
        counts: tuple[int | None, int | None],
    ) -> Sequences:
        """Check and stack; `counts` are the numbers of node and edge features where they are known."""
        nodes, edges, codes, lengths = [], [], [], []
        width, edge_width = counts
        for number, item in enumerate(items):
            part, steps = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            rows = _rows(f"node features of item {number}", part, names, width)
            width, length = rows.shape[1], rows.shape[0]
            nodes.append(rows)
            lengths.append(length)
            if (steps is None) != (item is part):
                raise DataError(f"item {number}: expected node features, or a pair with edge features")
            if steps is not None:
                edges.append(_steps(number, steps, length, edge_width))
                edge_width = edges[-1].shape[1]
            if labels is not None and known is not None:
                codes.append(known.codes(labels[number], number, length))
        if edges and len(edges) < len(nodes):
            raise DataError("edge features: expected them for all sequences or for none")
        return cls(
            _stacked(nodes),
            _stacked(edges) if edges else None,
            np.concatenate([np.empty(0, np.int64), *codes]) if labels is not None else None,
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def total(self) -> float:
        """Number of sequences."""
        return float(len(self))

    def take(self, which: np.ndarray) -> Sequences:
        """Some of the sequences."""
        lengths = np.diff(self.start)[which]
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.arange(start[-1]) + np.repeat(self.start[which] - start[:-1], lengths)
        edges = None if self.edges is None else self.edges[rows]
        return Sequences(self.nodes[rows], edges, None if self.labels is None else self.labels[rows], start)

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[Sequences]:
        """The sequences in random order, `size` at a time; everything at once for None."""
        if size is None or size >= len(self):
            yield self
            return
        order = rng.permutation(len(self))
        for first in range(0, len(order), size):
            yield self.take(order[first : first + size])

    @cached_property
    def is_complete(self) -> bool:
        """Whether every label was observed."""
        return self.labels is not None and bool((self.labels != MISSING).all())

    def feature_counts(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Totals of node features by label and of edge features by pair of labels, of complete labels."""
        if self._counted and self._counted[0][0].shape[1] == size:
            return self._counted[0]
        assert self.labels is not None
        seen = np.zeros((len(self.labels), size))
        seen[np.arange(len(self.labels)), self.labels] = 1.0
        inside = self.inside
        both = self.labels[inside - 1] * size + self.labels[inside]
        if self.edges is None:
            edge = np.bincount(both, minlength=size * size).astype(np.float64)[None]
        else:
            pair = np.zeros((len(inside), size * size))
            pair[np.arange(len(inside)), both] = 1.0
            edge = np.asarray(self.edges[inside].T @ pair)
        found = np.asarray(self.nodes.T @ seen), edge.reshape(-1, size, size)
        self._counted.append(found)
        return found

    @cached_property
    def inside(self) -> np.ndarray:
        """Positions that have a predecessor in their sequence."""
        found = np.ones(int(self.start[-1]), dtype=bool)
        found[self.start[:-1][np.diff(self.start) > 0]] = False
        return np.flatnonzero(found)


def _steps(number: int, steps: Any, length: int, width: int | None) -> Any:
    """Edge features with a row of zeros before the first position."""
    from scipy import sparse

    rows = feature_rows(f"edge features of item {number}", steps, None, width)
    if rows.shape[0] != max(length - 1, 0):
        raise DataError(
            f"edge features of item {number}: expected {max(length - 1, 0)} rows, one between every two "
            f"positions, got {rows.shape[0]}"
        )
    if not length:
        return rows
    if sparse.issparse(rows):
        return sparse.vstack([sparse.csr_array((1, rows.shape[1])), rows])
    return np.concatenate([np.zeros((1, rows.shape[1])), rows])


@dataclass(frozen=True)
class Graphs:
    """Many graphs, each with its own structure."""

    graphs: list[FactorGraph]  # structures; plans of exact inference are kept in them
    nodes: list[Any]  # (nodes, features) each
    edges: list[Any]  # (edges, features) each; a column of ones where there are none
    labels: list[np.ndarray] | None  # -1 where missing

    @classmethod
    def of(
        cls,
        items: Sequence[Any],
        labels: Any,
        known: Labels | None,
        names: tuple[str, ...] | None,
        counts: tuple[int | None, int | None],
        size: int,
    ) -> Graphs:
        """Check and compile the structures."""
        domain = Discrete(size)
        width, edge_width = counts
        graphs, nodes, features, codes = [], [], [], []
        for number, item in enumerate(items):
            part, edges, edge_part = parts_of(item, number)
            rows = _rows(f"node features of item {number}", part, names, width)
            try:
                graph = label_graph(domain, rows.shape[0], edges)
            except DataError as error:
                raise DataError(f"item {number}: {error}") from None
            count = graph.n_factors - rows.shape[0]
            if edge_part is None:
                extra: Any = np.ones((count, 1))
            else:
                extra = feature_rows(f"edge features of item {number}", edge_part, None, edge_width)
            if extra.shape[0] != count or (edge_width is not None and extra.shape[1] != edge_width):
                raise DataError(
                    f"edge features of item {number}: expected shape ({count}, "
                    f"{edge_width or 'features'}), got {extra.shape}"
                )
            width, edge_width = rows.shape[1], extra.shape[1]
            graphs.append(graph)
            nodes.append(rows)
            features.append(extra)
            if labels is not None and known is not None:
                codes.append(known.codes(labels[number], number, rows.shape[0]))
        return cls(graphs, nodes, features, codes if labels is not None else None)

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def total(self) -> float:
        """Number of graphs."""
        return float(len(self))

    def take(self, which: np.ndarray) -> Graphs:
        """Some of the graphs."""
        chosen = which.tolist()
        return Graphs(
            [self.graphs[i] for i in chosen],
            [self.nodes[i] for i in chosen],
            [self.edges[i] for i in chosen],
            None if self.labels is None else [self.labels[i] for i in chosen],
        )

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[Graphs]:
        """The graphs in random order, `size` at a time; everything at once for None."""
        if size is None or size >= len(self):
            yield self
            return
        order = rng.permutation(len(self))
        for first in range(0, len(order), size):
            yield self.take(order[first : first + size])
