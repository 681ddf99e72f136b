r"""Conditional log-likelihoods of random fields, per sequence or graph.

    (1/N) sum_n [ log Z(y_O, x_n) - log Z(x_n) ]
    d/dW = (1/N) sum_n sum_i x_i ( E[y_i | y_O] - E[y_i] )',     V alike with pairs

y_O are the labels that were observed; with all of them the first term is a plain score. Chains run in
one batched forward-backward kernel, general graphs through any inference algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels.chains import chain_sums, score_chains
from ..kernels.scaled_chains import smooth_chains
from ..models.crf_features import MISSING
from ..models.crf_inputs import Graphs, LabelledSequences
from .expectations import Oracle

__all__ = [
    "ChainLikelihood",
    "GraphLikelihood",
    "WeightLayout",
    "chain_layout",
    "chain_potentials",
    "graph_at",
    "graph_layout",
]

_RANGE = 600.0  # differences of transition scores whose exponentials are numbers
Potentials = tuple[np.ndarray, np.ndarray, np.ndarray]  # initial, transition and node scores


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

    def spread(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of nodes W and of edges V, from the free numbers; 0 where a feature has none."""
        padded = np.append(weights, 0.0)  # what index -1 reads
        return padded[self.node], padded[self.edge]

    def gather(self, node: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """Totals per weight of gradients by W and V."""
        index = np.concatenate([self.node.ravel(), self.edge.ravel()]) + 1
        values = np.concatenate([node.ravel(), edge.ravel()])
        return np.bincount(index, values, minlength=self.count + 1)[1:]


def chain_potentials(node: np.ndarray, edge: np.ndarray, data: LabelledSequences) -> Potentials:
    """What the chain kernels read: initial scores (none), transitions (shared or per step), node scores."""
    scores = np.ascontiguousarray(data.nodes @ node)
    size = node.shape[1]
    if data.edges is None:
        transition = np.ascontiguousarray(edge[:1])
    else:
        transition = np.asarray(data.edges @ edge.reshape(len(edge), -1)).reshape(-1, size, size)
        # One position in all would look like a shared table; there it is not read.
        transition = np.ascontiguousarray(transition)
    return np.zeros(size), transition, scores


def _shared_sums(
    initial: np.ndarray, transition: np.ndarray, scores: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`chain_sums` where all steps share a table, on scaled numbers if these can hold it."""
    top = float(transition.max())
    if not top - float(transition.min()) < _RANGE:
        return chain_sums(initial, transition, scores, start)
    found = smooth_chains(np.exp(initial), np.exp(transition[0] - top), scores, start)
    return found.log_z + top * np.maximum(np.diff(start) - 1, 0), found.marginals, found.pairs


@dataclass
class ChainLikelihood:
    """The mean conditional log-likelihood of sequences."""

    layout: WeightLayout  # where each weight stands

    def evaluate(self, weights: np.ndarray, data: LabelledSequences) -> tuple[float, np.ndarray]:
        """One forward-backward pass; two where labels are missing."""
        node, edge = self.layout.spread(weights)
        parts = chain_potentials(node, edge, data)
        total, node_counts, edge_counts = self._expected(parts, data, edge.shape)
        if data.is_complete:
            # The score of complete labels is linear in the weights: their features are counted once.
            seen_node, seen_edge = data.feature_counts(node.shape[1])
            score = float((node * seen_node).sum() + (edge * seen_edge).sum())
        else:
            masked = (*parts[:2], _masked(parts[2], data.labels))
            score, seen_node, seen_edge = self._expected(masked, data, edge.shape)
        gradient = self.layout.gather(seen_node - node_counts, seen_edge - edge_counts)
        return (score - total) / data.total, gradient / data.total

    def _expected(
        self, parts: Potentials, data: LabelledSequences, shape: tuple[int, ...]
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Sum of log Z, and expected totals of node and edge features."""
        if data.edges is None:
            log_z, marginals, pair = _shared_sums(*parts, data.start)
            return float(log_z.sum()), np.asarray(data.nodes.T @ marginals), pair[None]
        log_z, marginals, pair = chain_sums(*parts, data.start, pairs="each")
        node = np.asarray(data.nodes.T @ marginals)
        flat = np.asarray(data.edges.T @ pair.reshape(len(pair), -1))
        return float(log_z.sum()), node, flat.reshape(shape)

    def value(self, weights: np.ndarray, data: LabelledSequences) -> float:
        """The forward pass alone."""
        parts = chain_potentials(*self.layout.spread(weights), data)
        log_z, _, _ = chain_sums(*parts, data.start, marginals=False)
        if data.is_complete:
            assert data.labels is not None
            seen = score_chains(*parts, data.start, data.labels)
        else:
            masked = _masked(parts[2], data.labels)
            seen, _, _ = chain_sums(parts[0], parts[1], masked, data.start, marginals=False)
        return float((seen - log_z).sum()) / data.total


def _masked(scores: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Scores with every label but the observed one excluded."""
    assert labels is not None
    found = scores.copy()
    known = np.flatnonzero(labels != MISSING)
    found[known] = -np.inf
    found[known, labels[known]] = scores[known, labels[known]]
    return found


@dataclass
class GraphLikelihood:
    """The mean conditional log-likelihood of graphs, with any algorithm that gives factor marginals."""

    layout: WeightLayout  # where each weight stands
    oracle: Oracle  # what answers questions about the graphs

    def evaluate(self, weights: np.ndarray, data: Graphs) -> tuple[float, np.ndarray]:
        """One run per graph; two where labels are missing."""
        node, edge = self.layout.spread(weights)
        node_gradient, edge_gradient, total = np.zeros(node.shape), np.zeros(edge.shape), 0.0
        for n in range(len(data)):
            value, entries = self._terms(node, edge, data, n)
            total += value
            count = data.nodes[n].shape[0]
            size = node.shape[1]
            node_gradient += data.nodes[n].T @ entries[: count * size].reshape(count, size)
            pairs = entries[count * size :].reshape(-1, size * size)
            edge_gradient += np.asarray(data.edges[n].T @ pairs).reshape(edge.shape)
        return total / data.total, self.layout.gather(node_gradient, edge_gradient) / data.total

    def value(self, weights: np.ndarray, data: Graphs) -> float:
        """Mean log-likelihood per graph, by the same runs of inference as `evaluate`."""
        node, edge = self.layout.spread(weights)
        return sum(self._terms(node, edge, data, n)[0] for n in range(len(data))) / data.total

    def _terms(self, node: np.ndarray, edge: np.ndarray, data: Graphs, n: int) -> tuple[float, np.ndarray]:
        """Log-likelihood of one graph, and observed less expected indicators of all table entries."""
        graph = graph_at(node, edge, data, n)
        assert data.labels is not None
        labels = data.labels[n]
        free = self.oracle.free(graph)
        expected = self.oracle.entries(free)
        if (labels == MISSING).any():
            given = self.oracle.clamped(graph, labels, n)
            return (
                self.oracle.log_z(given) - self.oracle.log_z(free),
                self.oracle.entries(given) - expected,
            )
        w = graph.wiring
        entry = graph.table_start.copy()
        if len(graph.scope):
            entry += np.add.reduceat(w.edge_stride * labels[graph.scope], graph.scope_start[:-1])
        seen = np.zeros(len(graph.log_tables))
        seen[entry] = 1.0
        return float(graph.log_tables[entry].sum()) - self.oracle.log_z(free), seen - expected


def graph_at(node: np.ndarray, edge: np.ndarray, data: Graphs, n: int) -> Any:
    """The factor graph of the labels of one input; plans compiled for its structure are kept."""
    graph = data.graphs[n]
    scores = np.asarray(data.nodes[n] @ node)
    pairs = np.asarray(data.edges[n] @ edge.reshape(len(edge), -1))
    tables = np.concatenate([scores.ravel(), pairs.ravel()])
    return graph.with_states(graph.variables, tables, graph.table_start)


def chain_layout(data: LabelledSequences, size: int, support: str) -> WeightLayout:
    """The weights of chains: all of them, or those whose features occur with their labels."""
    features = data.nodes.shape[1]
    edge_features = 1 if data.edges is None else data.edges.shape[1]
    if support == "all":
        return WeightLayout.of(np.ones((features, size), bool), np.ones((edge_features, size, size), bool))
    assert data.labels is not None
    seen = np.zeros((len(data.labels), size))
    known = np.flatnonzero(data.labels != MISSING)
    seen[known, data.labels[known]] = 1.0
    node = np.asarray(abs(data.nodes).T @ seen) > 0
    inside = data.inside
    both = inside[(data.labels[inside - 1] != MISSING) & (data.labels[inside] != MISSING)]
    pair = np.zeros((len(data.labels), size * size))
    pair[both, data.labels[both - 1] * size + data.labels[both]] = 1.0
    if data.edges is None:
        edge = pair.sum(axis=0).reshape(1, size, size) > 0
    else:
        edge = np.asarray(abs(data.edges).T @ pair).reshape(-1, size, size) > 0
    return WeightLayout.of(node, edge)


def graph_layout(data: Graphs, size: int, support: str, symmetric: bool) -> WeightLayout:
    """The same for graphs; `symmetric` ties V(y, y') and V(y', y)."""
    shape, edge_shape = (data.nodes[0].shape[1], size), (data.edges[0].shape[1], size, size)
    if support == "all":
        return WeightLayout.of(np.ones(shape, bool), np.ones(edge_shape, bool), symmetric=symmetric)
    node, edge = np.zeros(shape), np.zeros((edge_shape[0], size * size))
    assert data.labels is not None
    for graph, rows, extra, labels in zip(data.graphs, data.nodes, data.edges, data.labels, strict=True):
        seen = np.zeros((len(labels), size))
        known = np.flatnonzero(labels != MISSING)
        seen[known, labels[known]] = 1.0
        node += abs(rows).T @ seen
        ends = graph.scope[len(labels) :].reshape(-1, 2)
        first, second = labels[ends[:, 0]], labels[ends[:, 1]]
        both = np.flatnonzero((first != MISSING) & (second != MISSING))
        pair = np.zeros((len(ends), size * size))
        pair[both, first[both] * size + second[both]] = 1.0
        edge += abs(extra).T @ pair
    return WeightLayout.of(node > 0, edge.reshape(edge_shape) > 0, symmetric=symmetric)
