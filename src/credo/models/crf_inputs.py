"""Many sequences, or many graphs, as the learners of conditional random fields read them.

A sequence is its node features: an array (positions, features), dense or sparse, or a list of dictionaries;
or a pair (node features, edge features), where edge t joins positions t and t + 1. A graph is a tuple
(node features, edges) or (node features, edges, edge features). Edge features have the forms of node
features. Labels are one list per sequence or graph; None (or NaN) is a label that was not observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.domain import Discrete
from ..core.errors import DataError
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from ..core.wiring import starts_of
from ..data.dataset import random_batches
from .crf_features import MISSING, Features, Labels

__all__ = [
    "Graphs",
    "LabelledNodes",
    "LabelledSequences",
    "chain_parts",
    "edge_pairs",
    "graph_parts",
    "label_graph",
    "spaced",
    "taken",
]


def chain_parts(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Node and edge features of sequences; None for a sequence without edge features."""
    nodes, steps = [], []
    for number, item in enumerate(items):
        if isinstance(item, tuple) and (len(item) != 2 or item[1] is None):
            raise DataError(f"item {number}: expected node features, or a pair with edge features")
        part, step = item if isinstance(item, tuple) else (item, None)
        nodes.append(part)
        steps.append(step)
    if any(step is None for step in steps) and any(step is not None for step in steps):
        raise DataError("edge features: expected them for all sequences or for none")
    return nodes, steps


def graph_parts(items: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Node features, edges and edge features of graphs; edges are None for a plain sequence."""
    nodes, edges, features = [], [], []
    for number, item in enumerate(items):
        parts = item if isinstance(item, tuple) else (item, None)
        if len(parts) not in (2, 3):
            raise DataError(
                f"item {number}: expected (node features, edges) or (node features, edges, edge features), "
                f"got {len(parts)} parts"
            )
        nodes.append(parts[0])
        edges.append(parts[1])
        features.append(parts[2] if len(parts) == 3 else None)
    return nodes, edges, features


class LabelledNodes(NamedTuple):
    """Nodes of one kind of a batch."""

    labels: np.ndarray  # (nodes,) positions of the right labels, -1 where missing
    size: int  # how many labels there are
    unit: np.ndarray  # (nodes,) the instance each belongs to


class _Labelled:
    """What batches of inputs share: transposed features, made once."""

    nodes: Any
    edges: Any
    labels: np.ndarray | None
    start: np.ndarray

    @cached_property
    def by_node_feature(self) -> Any:
        """(features, nodes)."""
        return self.nodes.T

    @cached_property
    def by_edge_feature(self) -> Any:
        """(edge features, edges)."""
        return self.edges.T

    @cached_property
    def is_complete(self) -> bool:
        """Whether every label was observed."""
        return self.labels is not None and bool((self.labels != MISSING).all())

    @cached_property
    def known_counts(self) -> np.ndarray:
        """How many labels of each input were observed."""
        ends = np.zeros(int(self.start[-1]) + 1, dtype=np.int64)
        if self.labels is not None:
            np.cumsum(self.labels != MISSING, out=ends[1:])
        return np.diff(ends[self.start])

    @property
    def has_hidden(self) -> bool:
        """Whether labels are missing where others of the same input are known."""
        known = self.known_counts
        return bool(((known > 0) & (known < np.diff(self.start))).any())


@dataclass(frozen=True)
class LabelledSequences(_Labelled):
    """Many sequences in one flat layout."""

    nodes: Any  # (positions, features), dense or sparse
    edges: Any  # (positions, edge features) of the step into each position, or None
    labels: np.ndarray | None  # (positions,) -1 where missing
    start: np.ndarray  # (sequences + 1,)

    @classmethod
    def of(
        cls, items: Sequence[Any], features: Features, labels: Any = None, known: Labels | None = None
    ) -> LabelledSequences:
        """Check and stack."""
        nodes, steps = chain_parts(items)
        rows, start = features.node_rows(nodes)
        edges = None if steps[0] is None else spaced(*features.edge_rows(steps), start)
        codes = None
        if labels is not None and known is not None:
            lengths = np.diff(start).tolist()
            parts = [known.codes(part, k, lengths[k]) for k, part in enumerate(labels)]
            codes = np.concatenate([np.empty(0, np.int64), *parts])
        return cls(rows, edges, codes, start)

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def total(self) -> float:
        """Number of sequences."""
        return float(len(self))

    def take(self, which: np.ndarray) -> LabelledSequences:
        """Some of the sequences."""
        rows, start = taken(self.start, which)
        edges = None if self.edges is None else self.edges[rows]
        labels = None if self.labels is None else self.labels[rows]
        return LabelledSequences(self.nodes[rows], edges, labels, start)

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[LabelledSequences]:
        """The sequences in random order, `size` at a time; everything at once for None."""
        return random_batches(self, size, rng)

    @cached_property
    def ends(self) -> np.ndarray:
        """Neighbours in a sequence, (steps, 2)."""
        return np.stack([self.edge_rows - 1, self.edge_rows], axis=1)

    @cached_property
    def edge_rows(self) -> np.ndarray:
        """Positions that have a predecessor in their sequence: the rows of `edges` that belong to `ends`."""
        return _inside(self.start)

    def as_graphs(self, size: int) -> Graphs:
        """The same as graphs, for methods that read factor graphs; `size` is the number of labels."""
        domain, lengths = Discrete(size), np.diff(self.start)
        shapes = {int(n): label_graph(domain, int(n), None) for n in np.unique(lengths)}
        steps = np.maximum(lengths - 1, 0)
        edges = np.ones((int(steps.sum()), 1)) if self.edges is None else self.edges[self.edge_rows]
        graphs = [shapes[int(n)] for n in lengths]
        return Graphs(graphs, self.nodes, edges, self.labels, self.start, starts_of(steps))


def _inside(start: np.ndarray) -> np.ndarray:
    found = np.ones(int(start[-1]), dtype=bool)
    found[start[:-1][np.diff(start) > 0]] = False
    return np.flatnonzero(found)


def spaced(rows: Any, row_start: np.ndarray, start: np.ndarray) -> Any:
    """Edge features with a row of zeros for the first position of every sequence."""
    from scipy import sparse

    wanted, got = np.maximum(np.diff(start) - 1, 0), np.diff(row_start)
    if (wanted != got).any():
        number = int(np.flatnonzero(wanted != got)[0])
        raise DataError(
            f"edge features of item {number}: expected {wanted[number]} rows, one between every two "
            f"positions, got {got[number]}"
        )
    inside, shape = _inside(start), (int(start[-1]), rows.shape[1])
    if not sparse.issparse(rows):
        found = np.zeros(shape)
        found[inside] = rows
        return found
    counts = np.zeros(shape[0] + 1, dtype=np.int64)
    counts[inside + 1] = np.diff(rows.indptr)
    return sparse.csr_array((rows.data, rows.indices, np.cumsum(counts)), shape=shape)


@dataclass(frozen=True)
class Graphs(_Labelled):
    """Many graphs, each with its own structure; the nodes and edges of all lie in two tables."""

    graphs: list[FactorGraph]  # structures; plans of exact inference are kept in them
    nodes: Any  # (nodes, features)
    edges: Any  # (edges, features); a column of ones where there are none
    labels: np.ndarray | None  # (nodes,) -1 where missing
    start: np.ndarray  # (graphs + 1,) of the nodes of each
    edge_start: np.ndarray  # (graphs + 1,) of its edges

    @classmethod
    def of(
        cls,
        items: Sequence[Any],
        features: Features,
        size: int,
        labels: Any = None,
        known: Labels | None = None,
    ) -> Graphs:
        """Check and compile the structures; `size` is the number of labels."""
        nodes, edges, extra = graph_parts(items)
        rows, start = features.node_rows(nodes)
        codes = None
        if labels is not None and known is not None:
            lengths = np.diff(start).tolist()
            codes = np.concatenate([known.codes(part, k, lengths[k]) for k, part in enumerate(labels)])
        return cls.joined(rows, start, edges, extra, codes, features, size)

    @classmethod
    def joined(
        cls,
        rows: Any,
        start: np.ndarray,
        edges: Sequence[Any],
        extra: list[Any],
        labels: np.ndarray | None,
        features: Features,
        size: int,
    ) -> Graphs:
        """Graphs with these rows of nodes, pairs of node positions, and edge features."""
        domain, graphs = Discrete(size), []
        for number, ends in enumerate(edges):
            try:
                graphs.append(label_graph(domain, int(start[number + 1] - start[number]), ends))
            except DataError as error:
                raise DataError(f"item {number}: {error}") from None
        counts = np.array([g.n_factors for g in graphs]) - np.diff(start)
        found = _edge_parts(extra, counts, features)
        return cls(graphs, rows, found, labels, start, starts_of(counts))

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def total(self) -> float:
        """Number of graphs."""
        return float(len(self))

    @cached_property
    def ends(self) -> np.ndarray:
        """The nodes that each edge joins, (edges, 2)."""
        parts = [
            graph.scope[len(graph.variables) :].reshape(-1, 2) + first
            for graph, first in zip(self.graphs, self.start, strict=False)
        ]
        return np.concatenate(parts)

    @property
    def edge_rows(self) -> np.ndarray:
        """The rows of `edges` that belong to `ends`."""
        return np.arange(len(self.ends))

    @property
    def size(self) -> int:
        """How many labels there are."""
        return max((int(n) for graph in self.graphs for n in graph.variables.sizes[:1]), default=0)

    @property
    def label_parts(self) -> list[LabelledNodes]:
        """All nodes, which are of one kind."""
        labels = np.full(int(self.start[-1]), MISSING) if self.labels is None else self.labels
        unit = np.repeat(np.arange(len(self)), np.diff(self.start))
        return [LabelledNodes(labels, self.size, unit)]

    def labels_of(self, n: int) -> np.ndarray:
        """Labels of one graph, (variables,), -1 where missing."""
        return self.label_parts[0].labels[self.start[n] : self.start[n + 1]]

    def entries_of(self, n: int) -> np.ndarray:
        """Where the tables of one graph lie among the scores of all nodes, then of all edges."""
        size, nodes = self.size, int(self.start[-1])
        own = np.arange(self.start[n] * size, self.start[n + 1] * size)
        edges = np.arange(self.edge_start[n] * size * size, self.edge_start[n + 1] * size * size)
        return np.concatenate([own, nodes * size + edges])

    def take(self, which: np.ndarray) -> Graphs:
        """Some of the graphs."""
        rows, start = taken(self.start, which)
        edges, edge_start = taken(self.edge_start, which)
        labels = None if self.labels is None else self.labels[rows]
        chosen = [self.graphs[i] for i in which.tolist()]
        return Graphs(chosen, self.nodes[rows], self.edges[edges], labels, start, edge_start)

    def batches(self, size: int | None, rng: np.random.Generator) -> Iterator[Graphs]:
        """The graphs in random order, `size` at a time; everything at once for None."""
        return random_batches(self, size, rng)


def taken(start: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of some units, and where each begins among them."""
    lengths = np.diff(start)[which]
    begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.arange(begin[-1]) + np.repeat(start[which] - begin[:-1], lengths), begin


def _edge_parts(parts: list[Any], counts: np.ndarray, features: Features) -> Any:
    """Edge features of all graphs; where there are none, every edge has the one feature 1."""
    width = features.edges if features.edges is not None else 1
    for number, part in enumerate(parts):
        if part is None and (width != 1 or features.edge_names is not None) and counts[number]:
            raise DataError(f"edge features of item {number}: expected {width} per edge, got none")
    given = [
        np.ones((int(n), width)) if part is None else part for n, part in zip(counts, parts, strict=True)
    ]
    found, start = features.edge_rows(given)
    if (np.diff(start) != counts).any():
        number = int(np.flatnonzero(np.diff(start) != counts)[0])
        raise DataError(
            f"edge features of item {number}: expected {counts[number]} rows, one per edge, "
            f"got {start[number + 1] - start[number]}"
        )
    return found


def edge_pairs(edges: Any, count: int) -> np.ndarray:
    """Pairs of node positions (edges, 2) of a graph with so many nodes; None joins them to a chain."""
    if edges is None:
        return np.stack([np.arange(max(count - 1, 0)), np.arange(1, max(count, 1))], axis=1)
    try:
        pairs = np.asarray(edges if len(edges) else np.empty((0, 2), np.int64))
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"edges: expected pairs of node positions, got {edges!r:.80}") from None
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DataError(
            f"edges: expected pairs of node positions, got {edges!r:.80}; edge features come third, after "
            "the edges, or None for a chain"
        )
    if len(pairs) and not (0 <= pairs.min() and pairs.max() < count):
        raise DataError(f"edges: expected positions in [0, {count}), got {pairs.min()} to {pairs.max()}")
    if (pairs[:, 0] == pairs[:, 1]).any():
        node = pairs[pairs[:, 0] == pairs[:, 1]][0, 0]
        raise DataError(f"edges: node {node} is joined to itself")
    return pairs.astype(np.int64, copy=False)


def label_graph(domain: Discrete, count: int, edges: Any) -> FactorGraph:
    """The structure of a field on one input: a unary factor per node, then one per edge; tables are zero."""
    pairs, size = edge_pairs(edges, count), domain.size
    names = Variables.numbered(np.full(count, size), "y").names
    start = np.concatenate([np.arange(count + 1), count + 2 * np.arange(1, len(pairs) + 1)])
    scope = np.concatenate([np.arange(count), pairs.ravel()])
    tables = np.zeros(count * size + len(pairs) * size * size)
    return FactorGraph.from_flat(Variables(names, (domain,) * count), start, scope, tables)
