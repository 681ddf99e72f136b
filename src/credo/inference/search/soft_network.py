"""From a factor graph to the cost networks a soft-consistency search works on, and back.

Costs are negated log-potentials. In order: one-state variables drop out; unary factors become unary
costs; factors over the same variables, or over some of another's, are merged into one; variables with
few neighbours are eliminated (their best states are looked up at the end); pairs along short cycles are
merged; what is left falls apart into connected networks, each searched on its own.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.wiring import starts_of
from ...kernels.soft_consistency import Network
from ...structures.graph import component_labels

__all__ = ["NetworkPart", "Reduced", "reduce_graph"]

_CYCLE = 16  # entries of a table made by merging the pairs of a cycle
_LARGEST = 512  # entries of a table made by eliminating a variable, the variable itself included
_PAIR = 4096  # entries of the table it leaves, if over two variables at most


class NetworkPart(NamedTuple):
    """A connected part of a problem, as a network of costs whose unary ones are apart."""

    variables: np.ndarray  # positions in the graph
    net: Network  # its factors of two variables or more
    unary: np.ndarray  # (states,) unary costs, +inf where forbidden


class _Eliminated(NamedTuple):
    variable: int  # position in the graph
    rest: tuple[int, ...]  # neighbours it had
    choice: np.ndarray  # its best state for each of their joint states


class Reduced(NamedTuple):
    """What is left to search, and how to complete an assignment."""

    constant: float  # cost of everything, +inf if impossible
    parts: list[NetworkPart]  # searched one by one
    eliminated: list[_Eliminated]  # to be completed from the last to the first
    alone: dict[int, int]  # best states of variables in no factor

    def complete(self, states: np.ndarray) -> None:
        """Fill in, in place, the states of the variables that were not searched."""
        for i, k in self.alone.items():
            states[i] = k
        for i, rest, choice in reversed(self.eliminated):
            states[i] = choice[tuple(states[list(rest)])]


class _Pool:
    """Factors by the sorted tuple of their variables, with the neighbourhoods kept up to date."""

    def __init__(self, graph: FactorGraph) -> None:
        self.sizes = graph.variables.sizes
        self.constant = 0.0
        self.unary = {int(i): np.zeros(self.sizes[i]) for i in np.flatnonzero(self.sizes > 1)}
        self.tables: dict[tuple[int, ...], np.ndarray] = {}
        self.around: dict[int, set[tuple[int, ...]]] = {i: set() for i in self.unary}
        costs = -graph.log_tables
        free = self.sizes[graph.scope] > 1
        for a in range(graph.n_factors):
            first, end = graph.scope_start[a], graph.scope_start[a + 1]
            start = graph.table_start[a]
            scope = graph.scope[first:end][free[first:end]].tolist()
            shape = self.sizes[scope]
            self.add(scope, costs[start : start + int(shape.prod())].reshape(shape))

    def add(self, scope: list[int], table: np.ndarray) -> None:
        """Merge a table in."""
        if not scope:
            self.constant += float(table.reshape(())) if table.size else 0.0
            return
        if len(scope) == 1:
            self.unary[scope[0]] = self.unary[scope[0]] + table
            return
        order = sorted(range(len(scope)), key=scope.__getitem__)
        key = tuple(scope[k] for k in order)
        table = table.transpose(order)
        if key in self.tables:
            self.tables[key] = self.tables[key] + table
        else:
            self.tables[key] = table
            for i in key:
                self.around[i].add(key)

    def take(self, key: tuple[int, ...]) -> np.ndarray:
        """Remove a table and return it."""
        for i in key:
            self.around[i].discard(key)
        return self.tables.pop(key)

    def absorb(self) -> None:
        """Merge factors into factors over more variables."""
        for key in sorted((k for k in self.tables if len(k) > 2), key=len, reverse=True):
            if len(key) > 6 or key not in self.tables:
                continue
            for count in range(2, len(key)):
                for part in itertools.combinations(range(len(key)), count):
                    small = tuple(key[k] for k in part)
                    if small in self.tables:
                        shape = [self.sizes[i] if k in part else 1 for k, i in enumerate(key)]
                        self.tables[key] = self.tables[key] + self.take(small).reshape(shape)

    def close_cycles(self) -> None:
        """Merge the pairs along short cycles into one factor each, which knows their contradictions."""
        for i, j in sorted(key for key in self.tables if len(key) == 2):
            if (i, j) in self.tables:
                cycle = self._cycle(i, j)
                if cycle:
                    self._merge(tuple(sorted(cycle)))

    def _merge(self, key: tuple[int, ...]) -> None:
        """One factor over these variables from all pairs among them."""
        total = np.zeros(self.sizes[list(key)])
        for k, h in itertools.combinations(range(len(key)), 2):
            pair = (key[k], key[h])
            if pair in self.tables:
                shape = [self.sizes[i] if i in pair else 1 for i in key]
                total = total + self.take(pair).reshape(shape)
        self.add(list(key), total)

    def _cycle(self, i: int, j: int) -> tuple[int, ...]:
        """A cycle of three or four pairs through i and j whose joint table is small; () if there is none."""
        room = _CYCLE // int(self.sizes[i] * self.sizes[j])  # for the states of the other members
        if room < 2:
            return ()
        size = self.sizes.item
        by_i = [k for k in sorted(self._partners(i)) if k != j and size(k) <= room]
        by_j = {h for h in self._partners(j) if h != i and size(h) <= room}
        for k in by_i:
            if k in by_j:
                return (i, j, k)
        for k in by_i:
            for h in sorted(by_j & self._partners(k)):
                if size(k) * size(h) <= room:
                    return (i, j, h, k)
        return ()

    def _partners(self, i: int) -> set[int]:
        """Variables that share a factor of two with i."""
        return {key[0] if key[1] == i else key[1] for key in self.around[i] if len(key) == 2}

    def neighbours(self, i: int) -> tuple[int, ...]:
        """Variables that share a factor with i, sorted."""
        return tuple(sorted({j for key in self.around[i] for j in key} - {i}))

    def joint(self, i: int, rest: tuple[int, ...]) -> np.ndarray:
        """Take all factors around i: their sum over (rest..., i)."""
        axes = (*rest, i)
        total = np.broadcast_to(self.unary.pop(i), self.sizes[list(axes)])
        for key in sorted(self.around[i]):
            table = self.take(key)
            order = sorted(range(len(key)), key=lambda k: axes.index(key[k]))
            shape = [self.sizes[j] if j in key else 1 for j in axes]
            total = total + table.transpose(order).reshape(shape)
        return total


def reduce_graph(graph: FactorGraph, *, degree: int, cycles: bool = False) -> Reduced:
    """Merge, eliminate variables with at most `degree` neighbours, close cycles if asked, and split."""
    pool = _Pool(graph)
    pool.absorb()
    eliminated: list[_Eliminated] = []
    alone: dict[int, int] = {}
    waiting, listed = sorted(pool.unary), set(pool.unary)
    while waiting:
        i = waiting.pop()
        listed.discard(i)
        if i not in pool.unary:
            continue
        rest = pool.neighbours(i)
        if not rest:
            unary = pool.unary.pop(i)
            alone[i] = int(unary.argmin())
            pool.constant += float(unary.min())
        elif len(rest) <= degree and _is_small(pool, i, rest):
            joint = pool.joint(i, rest)
            eliminated.append(_Eliminated(i, rest, joint.argmin(axis=-1)))
            pool.add(list(rest), joint.min(axis=-1))
            fresh = [j for j in rest if j not in listed]
            waiting += fresh
            listed.update(fresh)
    pool.absorb()
    if cycles:
        pool.close_cycles()
    _above_zero(pool)
    return Reduced(pool.constant, _split(pool), eliminated, alone)


def _is_small(pool: _Pool, i: int, rest: tuple[int, ...]) -> bool:
    """Whether eliminating i makes no table that is larger than what it replaces, or only a small one."""
    size = int(pool.sizes[list(rest)].prod())
    return (len(rest) <= 2 and size <= _PAIR) or size * int(pool.sizes[i]) <= _LARGEST


def _split(pool: _Pool) -> list[NetworkPart]:
    """One part per connected component of what is left."""
    if not pool.unary:
        return []
    n = len(pool.sizes)
    rows = [key[0] for key in pool.tables for _ in key[1:]]
    columns = [j for key in pool.tables for j in key[1:]]
    label = component_labels(n, np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64))
    variables: dict[int, list[int]] = {}
    factors: dict[int, list[tuple[int, ...]]] = {}
    for i in sorted(pool.unary):
        variables.setdefault(int(label[i]), []).append(i)
    for key in pool.tables:
        factors.setdefault(int(label[key[0]]), []).append(key)
    return [_part(pool, members, factors[c]) for c, members in variables.items()]


def _above_zero(pool: _Pool) -> None:
    """Make all costs non-negative; the differences go to the constant."""
    for group in (pool.unary, pool.tables):
        for key, table in group.items():  # type: ignore[attr-defined]
            least = float(table.min())
            pool.constant += least
            if least < np.inf:
                group[key] = table - least  # type: ignore[index]


def _part(pool: _Pool, members: list[int], keys: list[tuple[int, ...]]) -> NetworkPart:
    """Flat arrays of one component."""
    here = np.array(members)
    sizes = pool.sizes[here]
    position = {i: p for p, i in enumerate(members)}
    scope = np.array([position[i] for key in keys for i in key], dtype=np.int64)
    arity = np.array([len(key) for key in keys], dtype=np.int64)
    tables = [np.ascontiguousarray(pool.tables[key]) for key in keys]
    stride = np.array([s // 8 for t in tables for s in t.strides], dtype=np.int64)
    net = Network(
        state_start=starts_of(sizes),
        scope_start=starts_of(arity),
        scope=scope,
        stride=stride,
        factor=np.repeat(np.arange(len(keys), dtype=np.int64), arity),
        edge_start=starts_of(sizes[scope]),
        around_start=starts_of(np.bincount(scope, minlength=len(members))),
        around=np.argsort(scope, kind="stable").astype(np.int64),
        table_start=starts_of([t.size for t in tables])[:-1],
        tables=np.concatenate([t.ravel() for t in tables]),
    )
    return NetworkPart(here, net, np.concatenate([pool.unary[i] for i in members]))
