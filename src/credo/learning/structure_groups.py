r"""Instances of one structure, and where the entries of their tables lie among the scores of a batch.

Scores of a batch are a tuple of arrays, nodes before edges; laid end to end they are *flat*. The tables of an
instance are a gathering of flat scores, and slopes go back by adding up:

    tables = flat[entries] + charges          slopes of flat = sum over entries of the slopes of the tables

Instances of one graph whose labels are known at the same nodes are one group, asked about in one call. Known
labels leave a smaller graph, whose variables with a label have one state; its tables are gathered likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.domain import Discrete
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from .structured_losses import LabelLoss

__all__ = ["Clamped", "StructureGroup", "entries_at", "groups_of", "scattered"]


@dataclass(frozen=True)
class Clamped:
    """Instances whose known variables are fixed."""

    graph: FactorGraph  # variables with a label have one state
    positions: np.ndarray  # (instances, its entries) where they lie among the entries of the group


@dataclass(frozen=True)
class StructureGroup:
    """Instances of one graph with the same hidden variables."""

    which: np.ndarray  # (instances,) their numbers in the batch
    graph: FactorGraph  # tables are zero; first a factor per variable, then the edges
    entries: np.ndarray  # (instances, entries) flat positions of the entries of the tables
    labels: np.ndarray  # (instances, variables) positions of known labels, -1 where hidden
    charges: np.ndarray | None = None  # (instances, entries) of the loss; None: no loss

    def __len__(self) -> int:
        return len(self.which)

    @cached_property
    def hidden(self) -> np.ndarray:
        """(variables,) flags of those without a label."""
        return np.asarray((self.labels[:1] < 0).all(axis=0))

    def tables(self, flat: np.ndarray) -> np.ndarray:
        """(instances, entries) log tables with the loss."""
        found = flat[self.entries]
        if self.charges is not None:
            found += self.charges
        return found

    @cached_property
    def told(self) -> Clamped:
        """The instances given their labels."""
        return self.clamp(self.labels)

    def clamp(self, labels: np.ndarray) -> Clamped:
        """The instances with these states, (instances, variables), -1 where free at all of them."""
        graph, w, known = self.graph, self.graph.wiring, labels[0] >= 0
        offset = np.zeros((len(labels), graph.n_factors), dtype=np.int64)
        edges = np.flatnonzero(known[graph.scope])
        steps = labels[:, graph.scope[edges]] * w.edge_stride[edges]
        np.add.at(offset.T, w.edge_factor[edges], steps.T)
        key = ("free entries", known.tobytes())
        left, factor = graph.memo.recall(key, lambda: _free_entries(graph, known))
        return Clamped(self._conditioned(known), left + offset[:, factor])

    def _conditioned(self, known: np.ndarray) -> FactorGraph:
        graph = self.graph
        key = ("clamped", known.tobytes())
        return graph.memo.recall(key, lambda: _small_graph(graph, known))  # type: ignore[no-any-return]


def entries_at(graph: FactorGraph, states: np.ndarray) -> np.ndarray:
    """(instances, factors) the entry of every table at these states, (instances, variables)."""
    w = graph.wiring
    found = np.tile(graph.table_start, (len(states), 1))
    np.add.at(found.T, w.edge_factor, (states[:, graph.scope] * w.edge_stride).T)
    return found


def _free_entries(graph: FactorGraph, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Entries of all tables where known variables are in their first state, and the factor of each."""
    entries, factors = [], []
    sizes, strides = graph.variables.sizes, graph.wiring.edge_stride
    for a in range(graph.n_factors):
        found = np.zeros(1, dtype=np.int64)
        for e in range(int(graph.scope_start[a]), int(graph.scope_start[a + 1])):
            i = int(graph.scope[e])
            if not known[i]:
                found = np.add.outer(found, strides[e] * np.arange(sizes[i])).ravel()
        entries.append(found + graph.table_start[a])
        factors.append(np.full(len(found), a))
    if not entries:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(entries), np.concatenate(factors)


def _small_graph(graph: FactorGraph, known: np.ndarray) -> FactorGraph:
    domains = tuple(Discrete(1 if known[i] else int(n)) for i, n in enumerate(graph.variables.sizes))
    count = len(_free_entries(graph, known)[0])
    names = graph.variables.names
    return FactorGraph.from_flat(Variables(names, domains), graph.scope_start, graph.scope, np.zeros(count))


def groups_of(batch: Any, loss: LabelLoss | None) -> list[StructureGroup]:
    """The instances that have a label, by structure; others say nothing about weights."""
    charges = None
    if loss is not None:
        loss.check_whole(len(batch))
        parts = batch.label_parts
        told = iter(loss.charges([part for part in parts if (part.labels >= 0).any()]))
        made = [
            next(told) if (part.labels >= 0).any() else np.zeros((len(part.labels), part.size))
            for part in parts
        ]
        charges = np.concatenate([part.ravel() for part in made])
    found: dict[Any, list[int]] = {}
    for n, graph in enumerate(batch.graphs):
        hidden = batch.labels_of(n) < 0
        if not hidden.all():
            found.setdefault((graph.structure_key, hidden.tobytes()), []).append(n)
    return [_group(batch, np.array(which), loss, charges) for which in found.values()]


def _group(
    batch: Any, which: np.ndarray, loss: LabelLoss | None, charges: np.ndarray | None
) -> StructureGroup:
    graph = batch.graphs[which[0]]
    entries = np.stack([batch.entries_of(n) for n in which.tolist()])
    labels = np.stack([batch.labels_of(n) for n in which.tolist()])
    found = StructureGroup(which, graph, entries, labels)
    if charges is None or loss is None:
        return found
    nodes = int(graph.table_size[: len(graph.variables)].sum())
    tables = np.zeros(entries.shape)
    tables[:, :nodes] = charges[entries[:, :nodes]]
    for k, n in enumerate(which.tolist()):
        own = loss.pair_charges(n, entries.shape[1] - nodes)
        if own is not None:
            tables[k, nodes:] += own
    return StructureGroup(which, graph, entries, labels, tables)


def scattered(entries: Sequence[np.ndarray], slopes: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Slopes of tables added up where their scores lie."""
    total = np.zeros(size)
    for at, by in zip(entries, slopes, strict=True):
        total += np.bincount(at.ravel(), by.ravel(), minlength=size)
    return total
