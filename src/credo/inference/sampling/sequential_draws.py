r"""Joint states drawn one variable after another, with the probability that they had: what is weighed later.

Variable i is drawn, given those before it, with probability proportional to

    prod_{a at i}  sum_{x_k, k in a, k after i}  f_a(x_a) prod_k m_{k->a}(x_k)

where m are messages of belief propagation to the factor from the variables that are still to come. On a tree,
whose variables are taken from neighbour to neighbour, this is the distribution itself. Without messages a
variable is drawn from the factor that is its distribution given others before it (it sums to one along the
axis of the variable), as nodes of a Bayesian network are given their parents; where there is none, from the
factors whose other variables have all been drawn.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from ...core.factor_graph import FactorGraph
from ...optimise.run import check

__all__ = ["VariableDraw", "along_factors", "along_parents", "draw_states", "messages_to_factors", "turns_of"]

_NORMAL = 1e-9  # how far a sum of probabilities may be from one
_FAINT = -30.0  # log of the least weight that a message leaves to a state: few sweeps may be wrong


class VariableDraw(NamedTuple):
    """How one variable is drawn."""

    variable: int
    given: list[np.ndarray]  # per factor: the variables drawn before it that it knows
    strides: list[np.ndarray]  # per factor: steps of these in the rows of its table
    logs: list[np.ndarray]  # per factor: (states of those, states of the variable)


def own_factors(graph: FactorGraph) -> dict[int, tuple[int, ...]]:
    """Factor -> axes along which its weights sum to one, whatever the other variables are."""
    found: dict[int, tuple[int, ...]] = {}
    for group in graph.shape_groups:
        size = int(np.prod(group.shape, dtype=np.int64))
        logs = graph.log_tables[group.table_start[:, None] + np.arange(size)].reshape(-1, *group.shape)
        weights = np.exp(np.minimum(logs, 1.0))  # a probability is no larger than one
        for axis, states in enumerate(group.shape):
            if states > 1:
                gap = np.abs(weights.sum(axis=axis + 1) - 1).reshape(len(logs), -1).max(axis=1)
                for a in group.factors[gap < _NORMAL].tolist():
                    found[a] = (*found.get(a, ()), axis)
    return found


def along_parents(graph: FactorGraph) -> tuple[list[int], dict[int, int]]:
    """Variables in an order in which each has its own factor after the others of that one, where it can.

    The second part says which factor: variable -> factor, of those that have one.
    """
    w, owned = graph.wiring, own_factors(graph)
    free = w.sizes > 1
    missing = np.bincount(w.edge_factor[free[w.scope]], minlength=graph.n_tables)
    order: list[int] = []
    own: dict[int, int] = {}
    done, used = ~free, np.zeros(graph.n_tables, dtype=bool)
    ready = deque(a for a in owned if missing[a] == 1)
    while ready:
        a = ready.popleft()
        scope = graph.scope_of(a)
        axis = next((k for k in owned[a] if not done[scope[k]]), None)
        if used[a] or axis is None or missing[a] != 1:
            continue
        i, used[a] = int(scope[axis]), True
        order.append(i)
        own[i], done[i] = a, True
        for e in w.neighbour_edge[w.neighbour_start[i] : w.neighbour_start[i + 1]].tolist():
            b = int(w.edge_factor[e])
            missing[b] -= 1
            if missing[b] == 1 and b in owned and not used[b]:
                ready.append(b)
    order += [i for i in along_factors(graph) if not done[i]]
    return order, own


def along_factors(graph: FactorGraph) -> list[int]:
    """Variables from neighbour to neighbour, every component from one of its busiest."""
    w = graph.wiring
    done, order = w.sizes <= 1, []
    for first in np.argsort(-np.diff(w.neighbour_start), kind="stable").tolist():
        if done[first]:
            continue
        open_, done[first] = deque([first]), True
        while open_:
            i = open_.popleft()
            order.append(i)
            for e in w.neighbour_edge[w.neighbour_start[i] : w.neighbour_start[i + 1]].tolist():
                for j in graph.scope_of(int(w.edge_factor[e])).tolist():
                    if not done[j]:
                        done[j] = True
                        open_.append(j)
    return order


def turns_of(
    graph: FactorGraph, order: list[int], messages: np.ndarray | None, own: dict[int, int]
) -> list[VariableDraw]:
    """How variables are drawn in this order; `messages` are logs from variables to factors by edge."""
    w, rank = graph.wiring, np.full(len(graph.variables), -1)
    rank[order] = np.arange(len(order))
    turns = []
    for i in order:
        check()
        edges = w.neighbour_edge[w.neighbour_start[i] : w.neighbour_start[i + 1]]
        factors = [own[i]] if i in own else w.edge_factor[edges].tolist()
        parts = [_summed(graph, a, i, rank, messages) for a in factors]
        kept = [part for part in parts if part is not None]
        turns.append(VariableDraw(i, *([part[k] for part in kept] for k in range(3))))
    return turns


def _summed(
    graph: FactorGraph, a: int, i: int, rank: np.ndarray, messages: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """What factor a says about variable i given those before it; None where it has to wait."""
    scope, logs = graph.scope_of(a), graph.log_table(a)
    later = np.flatnonzero(rank[scope] > rank[i])
    edge, start = graph.scope_start[a], graph.wiring.edge_state_start
    for k in later.tolist():
        if messages is None:
            return None
        shape = [1] * len(scope)
        shape[k] = -1
        told = messages[start[edge + k] : start[edge + k + 1]].reshape(shape)
        logs = np.logaddexp.reduce(logs + told, axis=k, keepdims=True)
    axis = int(np.flatnonzero(scope == i)[0])
    before = [k for k in range(len(scope)) if k != axis and 0 <= rank[scope[k]] < rank[i]]
    logs = np.moveaxis(logs, axis, -1).reshape(-1, logs.shape[axis])
    sizes = graph.variables.sizes[scope[before]]
    strides = np.append(np.cumprod(sizes[::-1])[::-1][1:], 1)[: len(before)]
    return scope[before], strides.astype(np.int64), logs


def messages_to_factors(graph: FactorGraph, to_variables: np.ndarray) -> np.ndarray:
    """Logs of what variables tell factors, by edge, from what factors tell variables."""
    w = graph.wiring
    edge = np.repeat(np.arange(len(w.scope)), w.sizes[w.scope])
    state = w.state_start[w.scope[edge]] + np.arange(len(edge)) - w.edge_state_start[edge]
    zero = np.isneginf(to_variables)
    finite = np.where(zero, 0.0, to_variables)
    count = int(w.state_start[-1])
    others = np.bincount(state, finite, minlength=count)[state] - finite
    zeros = np.bincount(state, zero, minlength=count)[state] - zero
    logs = np.where(zeros > 0, -np.inf, others)
    if not len(edge):
        return logs
    top = np.maximum.reduceat(logs, w.edge_state_start[:-1])[edge]
    return np.maximum(logs - np.where(np.isfinite(top), top, 0.0), _FAINT)


def draw_states(
    graph: FactorGraph, turns: list[VariableDraw], count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Joint states (count, n), and the log probability with which each was drawn.

    Where all states of a variable are impossible given those before, one is taken at random: the joint state
    has weight zero.
    """
    states = np.zeros((count, len(graph.variables)), dtype=np.int64)
    total = np.zeros(count)
    uniforms = rng.random((len(turns), count))
    for turn, uniform in zip(turns, uniforms, strict=True):
        check()
        size = int(graph.variables.sizes[turn.variable])
        logs = np.zeros((count, size))
        for given, strides, table in zip(turn.given, turn.strides, turn.logs, strict=True):
            logs += table[states[:, given] @ strides]
        top = logs.max(axis=1)
        logs -= np.where(np.isfinite(top), top, 0.0)[:, None]
        weights = np.where(np.isfinite(top)[:, None], np.exp(logs), 1.0)
        ends = np.cumsum(weights, axis=1)
        chosen = (uniform[:, None] * ends[:, -1:] >= ends).sum(axis=1)
        # The end of rounding: a state of weight zero is never taken.
        chosen = np.where(np.take_along_axis(weights, np.minimum(chosen, size - 1)[:, None], 1)[:, 0] > 0,
                          np.minimum(chosen, size - 1), weights.argmax(axis=1))  # fmt: skip
        states[:, turn.variable] = chosen
        total += np.log(np.take_along_axis(weights, chosen[:, None], 1)[:, 0] / ends[:, -1])
    return states, total
