r"""The weights of conditional random fields as one vector, and scores that are linear in it.

    scores   rows_t = x_t W,   pairs_e = z_e V          of all nodes and edges of a batch of inputs
    pull     dW = sum_t x_t' rows_t,   dV = sum_e z_e' pairs_e

A weight may stand at several places (`symmetric`) or at none (`support="observed"`: pairs of a feature and a
label, and transitions, that never occur in training have no weight, as in CRFsuite by default).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .crf_features import MISSING

if TYPE_CHECKING:
    from .crf import CRF

__all__ = ["CRFWeights", "LabelScores", "WeightLayout"]


class LabelScores(NamedTuple):
    """One number for every label of a node and pair of labels of an edge: scores, or what was counted."""

    rows: np.ndarray  # (nodes, labels)
    pairs: np.ndarray  # (edges, labels, labels); a single table where all edges share one

    def scaled(self, by: float) -> LabelScores:
        """All of them multiplied by a number."""
        return LabelScores(by * self.rows, by * self.pairs)


@dataclass(frozen=True)
class WeightLayout:
    """Which weight stands at each place of W and V; -1 is a weight that is always zero."""

    node: np.ndarray  # (features, labels)
    edge: np.ndarray  # (edge features, labels, labels)
    count: int  # number of weights

    @classmethod
    def of(cls, node: np.ndarray, edge: np.ndarray, *, symmetric: bool = False) -> WeightLayout:
        """Number the places where `node` and `edge` are true; `symmetric` ties V(y, y') and V(y', y)."""
        node_index = np.where(node, np.cumsum(node).reshape(node.shape) - 1, -1)
        count = int(node.sum())
        if symmetric:
            edge = edge | edge.transpose(0, 2, 1)
            upper = edge & np.triu(np.ones(edge.shape[1:], dtype=bool))
            index = np.where(upper, np.cumsum(upper).reshape(edge.shape) - 1 + count, -1)
            edge_index = np.maximum(index, index.transpose(0, 2, 1))
            return cls(node_index, edge_index, count + int(upper.sum()))
        edge_index = np.where(edge, np.cumsum(edge).reshape(edge.shape) - 1 + count, -1)
        return cls(node_index, edge_index, count + int(edge.sum()))

    @classmethod
    def of_batch(cls, batch: Any, size: int, *, support: str, symmetric: bool) -> WeightLayout:
        """All weights of a batch of inputs, or those whose features occur with their labels."""
        features, edge_features = batch.nodes.shape[1], 1 if batch.edges is None else batch.edges.shape[1]
        if support == "all":
            node, edge = np.ones((features, size), bool), np.ones((edge_features, size, size), bool)
            return cls.of(node, edge, symmetric=symmetric)
        labels = batch.labels
        seen = np.zeros((len(labels), size))
        known = np.flatnonzero(labels != MISSING)
        seen[known, labels[known]] = 1.0
        first, second = labels[batch.ends[:, 0]], labels[batch.ends[:, 1]]
        both = np.flatnonzero((first != MISSING) & (second != MISSING))
        place = first[both] * size + second[both]
        if batch.edges is None:
            edges = np.bincount(place, minlength=size * size)
        else:
            pair = np.zeros((batch.edges.shape[0], size * size))
            pair[batch.edge_rows[both], place] = 1.0
            edges = np.asarray(abs(batch.edges).T @ pair)
        node = np.asarray(abs(batch.nodes).T @ seen) > 0
        return cls.of(node, edges.reshape(-1, size, size) > 0, symmetric=symmetric)

    def spread(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of nodes W and of edges V, from the free numbers; 0 where a feature has none."""
        padded = np.append(weights, 0.0)  # what index -1 reads
        return padded[self.node], padded[self.edge]

    def gather(self, node: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """Totals per weight of gradients by W and V."""
        index = np.concatenate([self.node.ravel(), self.edge.ravel()]) + 1
        values = np.concatenate([node.ravel(), edge.ravel()])
        return np.bincount(index, values, minlength=self.count + 1)[1:]

    def collected(self, node: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """The free numbers of given W and V: the mean over the places of each."""
        ones = self.gather(np.ones(self.node.shape), np.ones(self.edge.shape))
        return self.gather(node, edge) / np.maximum(ones, 1.0)


@dataclass(frozen=True)
class CRFWeights:
    """A field seen as a vector of weights; see `learning.log_linear`."""

    layout: WeightLayout  # where each weight stands
    start: np.ndarray  # those of the field given
    make: Callable[[np.ndarray, np.ndarray], CRF]  # a field with these W and V

    def scores(self, theta: np.ndarray, batch: Any) -> LabelScores:
        """Log potentials of all nodes and edges of a batch."""
        node, edge = self.layout.spread(theta)
        rows = np.ascontiguousarray(batch.nodes @ node)
        if batch.edges is None:
            return LabelScores(rows, np.ascontiguousarray(edge[:1]))
        size = edge.shape[1]
        pairs = np.asarray(batch.edges @ edge.reshape(len(edge), size * size))
        return LabelScores(rows, np.ascontiguousarray(pairs.reshape(-1, size, size)))

    def pull(self, statistics: LabelScores, batch: Any) -> np.ndarray:
        """Slopes by the weights from slopes by the scores."""
        node, edge = np.asarray(batch.by_node_feature @ statistics.rows), statistics.pairs
        if batch.edges is not None:
            edge = np.asarray(batch.by_edge_feature @ edge.reshape(len(edge), edge.shape[1] * edge.shape[2]))
        return self.layout.gather(node, edge)

    def model(self, theta: np.ndarray) -> CRF:
        """The field with these weights."""
        return self.make(*self.layout.spread(theta))
