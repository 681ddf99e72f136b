r"""Sources of statistics for random fields: log p(labels | features), and each label given its neighbours.

    likelihood         (1/N) sum_inputs [ log Z(y_known) - log Z ]      marginals less what was observed
    pseudolikelihood   (1/N) sum_inputs sum_i log p(y_i | y_-i)

Scores are those of the nodes and edges of all inputs of a batch (`LabelScores`), and so are the statistics.
Sequences are answered by a batched forward-backward kernel, graphs by any algorithm that gives factor
marginals; missing labels are summed out by a second run. For the pseudolikelihood all inputs are one graph,
whose parts do not touch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.domain import Discrete
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from ..kernels.chains import chain_sums, score_chains
from ..kernels.conditionals import pseudolikelihood
from ..kernels.scaled_chains import smooth_chains
from ..models.crf_features import MISSING
from ..models.crf_inputs import Graphs, LabelledSequences
from ..models.crf_weights import LabelScores
from .expectations import Oracle
from .log_linear import StatisticsSource

__all__ = [
    "ChainLikelihood",
    "GraphLikelihood",
    "KeptByBatch",
    "LabelPseudolikelihood",
    "expected_labels",
    "given_rows",
]

_RANGE = 600.0  # differences of transition scores whose exponentials are numbers


def _shared_sums(scores: LabelScores, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`chain_sums` where all steps share a table, on scaled numbers if these can hold it."""
    initial, moves = np.zeros(scores.rows.shape[1]), scores.pairs
    top = float(moves.max())
    if not top - float(moves.min()) < _RANGE:
        return chain_sums(initial, moves, scores.rows, start)
    found = smooth_chains(np.exp(initial), np.exp(moves[0] - top), scores.rows, start)
    return found.log_z + top * np.maximum(np.diff(start) - 1, 0), found.marginals, found.pairs


def expected_labels(scores: LabelScores, data: LabelledSequences) -> tuple[np.ndarray, LabelScores]:
    """Log Z of each, and the marginals of positions and steps; of steps that share a table their sum."""
    if data.edges is None:
        log_z, marginals, pairs = _shared_sums(scores, data.start)
        return log_z, LabelScores(marginals, pairs[None])
    initial = np.zeros(scores.rows.shape[1])
    log_z, marginals, pairs = chain_sums(initial, scores.pairs, scores.rows, data.start, pairs="each")
    return log_z, LabelScores(marginals, pairs)


class KeptByBatch:
    """What was made of the last few batches."""

    def __init__(self, make: Callable[[Any, int], Any]) -> None:
        self._make, self._found = make, dict[int, tuple[Any, Any]]()

    def of(self, batch: Any, size: int) -> Any:
        """What belongs to a batch, whose labels are so many."""
        found = self._found.get(id(batch))
        if found is None or found[0] is not batch:
            while len(self._found) >= 4:  # training, validation and a batch or two
                self._found.pop(next(iter(self._found)))
            found = self._found[id(batch)] = (batch, self._make(batch, size))
        return found[1]


class _Observed(NamedTuple):
    """Where known labels stand in tables of scores."""

    rows: np.ndarray  # (positions,) entries of the scores of nodes
    pairs: np.ndarray  # (steps,) entries of the scores of steps; of steps that share a table its counts

    @classmethod
    def of(cls, batch: LabelledSequences, size: int) -> _Observed:
        assert batch.labels is not None
        first, second = batch.labels[batch.ends].T
        place = first * size + second
        rows = np.arange(len(batch.labels)) * size + batch.labels
        if batch.edges is None:
            return cls(rows, np.bincount(place, minlength=size * size).astype(np.float64))
        return cls(rows, batch.edge_rows * size * size + place)


class ChainLikelihood(StatisticsSource):
    """The mean conditional log-likelihood of sequences: one forward-backward pass, two if labels miss."""

    def __init__(self) -> None:
        self._kept = KeptByBatch(_Observed.of)

    def evaluate(self, scores: LabelScores, batch: LabelledSequences) -> tuple[float, LabelScores]:
        """Value, and what was observed less what is expected."""
        log_z, found = expected_labels(scores, batch)
        total = float(log_z.sum())
        if not batch.is_complete:
            masked = scores._replace(rows=given_rows(scores.rows, batch.labels))
            known_log_z, seen = expected_labels(masked, batch)
            value = float(known_log_z.sum())
            slopes = LabelScores((seen.rows - found.rows), (seen.pairs - found.pairs))
            return (value - total) / batch.total, slopes.scaled(1.0 / batch.total)
        known, slopes = self._kept.of(batch, scores.rows.shape[1]), found.scaled(-1.0 / batch.total)
        flat, steps = slopes.rows.reshape(-1), slopes.pairs.reshape(-1)
        flat[known.rows] += 1.0 / batch.total
        value = float(scores.rows.reshape(-1)[known.rows].sum())
        if batch.edges is None:
            steps += known.pairs / batch.total
            value += float(known.pairs @ scores.pairs.reshape(-1))
        else:
            steps[known.pairs] += 1.0 / batch.total
            value += float(scores.pairs.reshape(-1)[known.pairs].sum())
        return (value - total) / batch.total, slopes

    def value(self, scores: LabelScores, batch: LabelledSequences) -> float:
        """The forward pass alone."""
        initial = np.zeros(scores.rows.shape[1])
        log_z, _, _ = chain_sums(initial, scores.pairs, scores.rows, batch.start, marginals=False)
        if batch.is_complete:
            assert batch.labels is not None
            seen = score_chains(initial, scores.pairs, scores.rows, batch.start, batch.labels)
        else:
            masked = given_rows(scores.rows, batch.labels)
            seen, _, _ = chain_sums(initial, scores.pairs, masked, batch.start, marginals=False)
        return float((seen - log_z).sum()) / batch.total


def given_rows(scores: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Scores with every label but the observed one excluded."""
    assert labels is not None
    found = scores.copy()
    known = np.flatnonzero(labels != MISSING)
    found[known] = -np.inf
    found[known, labels[known]] = scores[known, labels[known]]
    return found


class GraphLikelihood(StatisticsSource):
    """The mean conditional log-likelihood of graphs, with any algorithm that gives factor marginals."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.memory = (oracle,)

    def evaluate(self, scores: LabelScores, batch: Graphs) -> tuple[float, LabelScores]:
        """One run per graph; two where labels are missing."""
        slopes = LabelScores(np.zeros_like(scores.rows), np.zeros_like(scores.pairs))
        total, size = 0.0, scores.rows.shape[1]
        for n in range(len(batch)):
            value, entries = self._terms(scores, batch, n)
            total += value
            nodes, edges = slice(*batch.start[n : n + 2]), slice(*batch.edge_start[n : n + 2])
            count = int(batch.start[n + 1] - batch.start[n]) * size
            slopes.rows[nodes] = entries[:count].reshape(-1, size) / batch.total
            slopes.pairs[edges] = entries[count:].reshape(-1, size, size) / batch.total
        return total / batch.total, slopes

    def value(self, scores: LabelScores, batch: Graphs) -> float:
        """Mean log-likelihood per graph, by the same runs of inference as `evaluate`."""
        return sum(self._terms(scores, batch, n)[0] for n in range(len(batch))) / batch.total

    def _terms(self, scores: LabelScores, data: Graphs, n: int) -> tuple[float, np.ndarray]:
        """Log-likelihood of one graph, and observed less expected indicators of all table entries."""
        nodes, edges = slice(*data.start[n : n + 2]), slice(*data.edge_start[n : n + 2])
        shape, oracle = data.graphs[n], self.oracle
        tables = np.concatenate([scores.rows[nodes].ravel(), scores.pairs[edges].ravel()])
        graph = shape.with_states(shape.variables, tables, shape.table_start)
        assert data.labels is not None
        labels = data.labels[nodes]
        free = oracle.free(graph)
        expected = oracle.entries(free)
        if (labels == MISSING).any():
            given = oracle.clamped(graph, labels, n)
            return oracle.log_z(given) - oracle.log_z(free), oracle.entries(given) - expected
        w = graph.wiring
        entry = graph.table_start.copy()
        if len(graph.scope):
            entry += np.add.reduceat(w.edge_stride * labels[graph.scope], graph.scope_start[:-1])
        seen = np.zeros(len(graph.log_tables))
        seen[entry] = 1.0
        return float(graph.log_tables[entry].sum()) - oracle.log_z(free), seen - expected


class LabelPseudolikelihood(StatisticsSource):
    """Each label given those it is joined to; for labels that are all known."""

    def __init__(self) -> None:
        self._kept = KeptByBatch(_joined)

    def evaluate(self, scores: LabelScores, batch: Any) -> tuple[float, LabelScores]:
        """One walk over nodes and edges."""
        size, steps = scores.rows.shape[1], batch.edge_rows
        shared = batch.edges is None
        pairs = np.broadcast_to(scores.pairs, (len(steps), size, size)) if shared else scores.pairs[steps]
        tables = np.concatenate([scores.rows.ravel(), pairs.ravel()])
        slopes, w = np.zeros(len(tables)), self._kept.of(batch, size).wiring
        value = pseudolikelihood(
            tables, w.table_start, w.scope_start, w.scope, w.edge_factor, w.edge_stride, w.state_start,
            w.neighbour_start, w.neighbour_edge, batch.labels[None], np.ones(1), slopes,
        )  # fmt: skip
        rows, moves = np.split(slopes / batch.total, [scores.rows.size])
        moves, found = moves.reshape(-1, size, size), np.zeros_like(scores.pairs)
        found[0 if shared else steps] = moves.sum(axis=0) if shared else moves
        return value / batch.total, LabelScores(rows.reshape(-1, size), found)


def _joined(batch: Any, size: int) -> FactorGraph:
    """All inputs as one graph: a factor per node, then one per edge."""
    count, ends = len(batch.labels), batch.ends
    start = np.concatenate([np.arange(count + 1), count + 2 * np.arange(1, len(ends) + 1)])
    scope = np.concatenate([np.arange(count), ends.ravel()])
    variables = Variables(Variables.numbered(np.full(count, size), "y").names, (Discrete(size),) * count)
    tables = np.zeros(count * size + len(ends) * size * size)
    return FactorGraph.from_flat(variables, start, scope, tables)
