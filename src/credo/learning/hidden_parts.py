"""What rows with missing values have in common: the parts into which their hidden variables fall.

Given what a row observes, two hidden variables depend on each other only through a chain of factors over
hidden variables. So the hidden variables of a row fall into parts, and a part is a small problem of its
own: its hidden variables, the factors that touch them, and the observed values of these factors. Parts
do not know the rest of the row, hence

* factors a row observes whole are counted once and for all,
* a part is the same problem in all rows that agree on its few observed neighbours, whatever else they
  observe, and is solved once for all of them.

With 10^5 different rows of a network with five hidden variables, a few hundred small problems remain. The
memory is that of the distinct neighbourhoods, never more than a few numbers per row, part and factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.factor_graph import FactorGraph
from ..core.wiring import starts_of
from ..data.table import MISSING, StateTable
from ..kernels.expected_counts import count_observed, label_parts
from ..optimise.run import check, watched

__all__ = ["HiddenParts", "observed_counts"]

_CHUNK = 1 << 14  # patterns treated together; bounds the memory
_ENTRIES = 1 << 20  # of an array of members, between two looks at the clock
_LARGEST_KEY = 62.0  # bits of a neighbourhood as one number


def observed_counts(graph: FactorGraph, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted counts of every table entry, in factor order without gaps, in one pass over the rows.

    A row counts for a factor if it observes the factor's whole scope.
    """
    first = starts_of(graph.table_size)
    counts = np.zeros(int(first[-1]))
    w = graph.wiring
    count_observed(states, weights, w.scope_start, w.scope, w.edge_stride, first[:-1], counts)
    return counts


@dataclass(frozen=True)
class HiddenParts:
    """Parts one after another in flat arrays; see `kernels/expected_counts.py` for their use."""

    graph: FactorGraph  # the structure; its tables are taken to lie without gaps
    data: StateTable  # the rows
    hidden_start: np.ndarray  # (parts + 1,) slices of `hidden`
    hidden: np.ndarray  # hidden variables of each part
    factor_start: np.ndarray  # (parts + 1,) slices of `factor`
    factor: np.ndarray  # factors that touch each part
    step_start: np.ndarray  # (parts + 1,) slices of `step`
    step: np.ndarray  # (factors, hidden) per part: what one state more adds to a factor's entry
    row_start: np.ndarray  # (parts + 1,) slices of rows: the distinct neighbourhoods of each part
    weight: np.ndarray  # (rows,) total weight of the observations with this neighbourhood
    example: np.ndarray  # (rows,) one of these observations, a distinct row of `data`
    base_start: np.ndarray  # (parts + 1,) slices of `base`
    base: np.ndarray  # (rows, factors) per part: entry of a factor with all hidden states 0
    pair_from: np.ndarray  # (pairs,) a distinct row of `data` ...
    pair_to: np.ndarray  # (pairs,) ... and one of the rows here that is a part of it

    @classmethod
    def of(cls, graph: FactorGraph, data: StateTable) -> HiddenParts:
        """Find the parts of all rows."""
        members, rows_of = _find(graph, data)
        maker = _Maker(graph, data)
        kind = np.int32 if maker.first[-1] < 2**31 else np.int64
        made = [
            maker.part(np.flatnonzero(m), rows) for m, rows in watched(zip(members, rows_of, strict=True))
        ]
        row_start = starts_of([len(p.weight) for p in made])

        def joined(parts: list[np.ndarray], dtype: type = np.int64) -> np.ndarray:
            check()
            return np.concatenate([*parts, np.empty(0, dtype)], dtype=dtype, casting="same_kind")

        return cls(
            graph,
            data,
            starts_of([len(p.hidden) for p in made]),
            joined([p.hidden for p in made]),
            starts_of([len(p.factor) for p in made]),
            joined([p.factor for p in made]),
            starts_of([p.step.size for p in made]),
            joined([p.step.ravel() for p in made]),
            row_start,
            joined([p.weight for p in made], np.float64),
            joined([p.example for p in made]),
            starts_of([p.base.size for p in made]),
            joined([p.base.ravel() for p in made], kind),
            joined(rows_of, np.int32),
            joined([p.which + begin for p, begin in zip(made, row_start, strict=False)], np.int32),
        )

    def __len__(self) -> int:
        return len(self.row_start) - 1

    @cached_property
    def log2_joint(self) -> np.ndarray:
        """Log2 of the joint states of each part."""
        logs = np.concatenate([[0.0], np.cumsum(np.log2(self.graph.variables.sizes[self.hidden]))])
        return np.diff(logs[self.hidden_start])

    def weights(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """The weights that these distinct rows of the data, each so often, would give."""
        start, to = self._pairs
        length = start[rows + 1] - start[rows]
        place = np.repeat(start[rows] - (np.cumsum(length) - length), length)
        found = to[place + np.arange(len(place))]
        return np.bincount(found, np.repeat(counts, length), minlength=len(self.weight))

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Slices of `pair_to` by distinct row of the data."""
        order = np.argsort(self.pair_from, kind="stable")
        counts = np.bincount(self.pair_from, minlength=len(self.data.states))
        return starts_of(counts), self.pair_to[order]

    def variables(self, p: int) -> np.ndarray:
        """Hidden variables of a part."""
        return self.hidden[self.hidden_start[p] : self.hidden_start[p + 1]]

    def factors(self, p: int) -> np.ndarray:
        """Factors of a part."""
        return self.factor[self.factor_start[p] : self.factor_start[p + 1]]

    def steps(self, p: int) -> np.ndarray:
        """Matrix (factors, hidden variables) of a part."""
        flat = self.step[self.step_start[p] : self.step_start[p + 1]]
        return flat.reshape(len(self.factors(p)), len(self.variables(p)))

    def bases(self, p: int) -> np.ndarray:
        """Matrix (rows, factors) of a part."""
        flat = self.base[self.base_start[p] : self.base_start[p + 1]]
        return flat.reshape(self.row_start[p + 1] - self.row_start[p], len(self.factors(p)))

    def number(self, row: int) -> int:
        """Number in the data of a row of the parts, for messages."""
        return self.data.number(int(self.example[row]))


@dataclass(frozen=True)
class _Part:
    hidden: np.ndarray
    factor: np.ndarray
    step: np.ndarray
    weight: np.ndarray
    example: np.ndarray
    base: np.ndarray
    which: np.ndarray  # neighbourhood of each of the rows given


class _Maker:
    """Makes parts of one graph; holds the scratch arrays they share."""

    def __init__(self, graph: FactorGraph, data: StateTable) -> None:
        w = graph.wiring
        self.graph, self.data = graph, data
        self.start, self.around = w.neighbour_start, w.edge_factor[w.neighbour_edge]
        self.first = starts_of(graph.table_size)
        self.place = np.zeros(len(graph.variables), dtype=np.int64)

    def part(self, hidden: np.ndarray, rows: np.ndarray) -> _Part:
        """The part with these hidden variables, in these distinct rows."""
        graph, w = self.graph, self.graph.wiring
        factor = np.unique(
            np.concatenate([self.around[self.start[i] : self.start[i + 1]] for i in hidden.tolist()])
        )
        arity = graph.scope_start[factor + 1] - graph.scope_start[factor]
        edge = np.repeat(graph.scope_start[factor] - (np.cumsum(arity) - arity), arity)
        edge += np.arange(len(edge))
        owner, scope, stride = np.repeat(np.arange(len(factor)), arity), w.scope[edge], w.edge_stride[edge]
        self.place[:] = -1
        self.place[scope] = 0
        self.place[hidden] = -1
        near = np.flatnonzero(self.place == 0)
        self.place[near] = np.arange(len(near))
        outside = self.place[scope] >= 0
        near_of, moves = self.place[scope[outside]], stride[outside]
        ends = starts_of(np.bincount(owner[outside], minlength=len(factor)))
        self.place[hidden] = np.arange(len(hidden))
        step = np.zeros((len(factor), len(hidden)), dtype=np.int64)
        step[owner[~outside], self.place[scope[~outside]]] = stride[~outside]
        kept, which = self._neighbourhoods(near, rows)
        sums = np.zeros((len(kept), len(near_of) + 1), dtype=np.int64)
        np.cumsum(self.data.states[kept][:, near[near_of]] * moves, axis=1, out=sums[:, 1:])
        base = sums[:, ends[1:]] - sums[:, ends[:-1]] + self.first[factor]
        weight = np.bincount(which, self.data.counts[rows], minlength=len(kept))
        return _Part(hidden, factor, step, weight, kept, base, which)

    def _neighbourhoods(self, near: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One row for each joint state of the neighbours, and which of them each row is."""
        sizes = self.graph.variables.sizes[near]
        key: np.ndarray
        if np.log2(sizes).sum() < _LARGEST_KEY:
            key = np.zeros(len(rows), dtype=np.int64)
            for i, size in zip(near.tolist(), sizes.tolist(), strict=True):
                key = key * size + self.data.states[rows, i]
        else:
            found = np.ascontiguousarray(self.data.states[rows][:, near])
            key = found.view(np.dtype((np.void, found.itemsize * found.shape[1]))).ravel()
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        return rows[first], which.ravel()


def _find(graph: FactorGraph, data: StateTable) -> tuple[np.ndarray, list[np.ndarray]]:
    """Members (parts, n) of every part that occurs, and the distinct rows with each of them."""
    n = len(graph.variables)
    incomplete = data.incomplete_rows
    if not len(incomplete):
        return np.empty((0, n), dtype=bool), []
    packed = np.packbits(data.states[incomplete] != MISSING, axis=1)
    _, first, which = np.unique(_bytes_of(packed), return_index=True, return_inverse=True)
    by_pattern = np.argsort(which.ravel(), kind="stable")
    pattern_start = starts_of(np.bincount(which.ravel(), minlength=len(first)))
    known: dict[bytes, int] = {}
    masks, pattern_of, part_of = [], [], []
    for begin in range(0, len(first), _CHUNK):
        chunk = incomplete[first[begin : begin + _CHUNK]]
        label = label_parts(data.states[chunk] != MISSING, graph.scope_start, graph.scope)
        patterns, roots = np.nonzero(label == np.arange(n))
        some_rows = max(1, _ENTRIES // n)
        for piece in watched(range(0, len(patterns), some_rows)):
            pattern = patterns[piece : piece + some_rows]
            inside = label[pattern] == roots[piece : piece + some_rows, None]
            _, some, same = np.unique(
                _bytes_of(np.packbits(inside, axis=1)), return_index=True, return_inverse=True
            )
            numbers = np.empty(len(some), dtype=np.int64)
            for k, at in enumerate(watched(some)):
                name = inside[at].tobytes()
                if name not in known:
                    known[name] = len(known)
                    masks.append(inside[at].copy())
                numbers[k] = known[name]
            pattern_of.append(pattern + begin)
            part_of.append(numbers[same.ravel()])
    pattern, part = np.concatenate(pattern_of), np.concatenate(part_of)
    length = np.diff(pattern_start)[pattern]
    place = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    rows = incomplete[by_pattern[np.repeat(pattern_start[pattern], length) + place]]
    owner = np.repeat(part, length)
    order = np.argsort(owner, kind="stable")
    cuts = np.cumsum(np.bincount(owner, minlength=len(masks)))[:-1]
    return np.array(masks), np.split(rows[order], cuts)


def _bytes_of(packed: np.ndarray) -> np.ndarray:
    """Rows of bytes as one value each, which sorts much faster."""
    packed = np.ascontiguousarray(packed)
    return packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
