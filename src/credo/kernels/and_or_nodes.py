"""Nodes of an AND/OR search: their bounds from mini-bucket messages, their sums, and a cache of answers.

The messages that leave the subtree of a variable, at the states of its ancestors, bound the value
of the subtree. The summed part below a variable is eliminated exactly once its maximised neighbours are set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import jit
from .mini_buckets import _eliminate as eliminate
from .mini_buckets import _index as index
from .random_numbers import STRIDE, mix_bits

__all__ = [
    "EMPTY",
    "EXACT",
    "UPPER",
    "AndOrPlan",
    "Memory",
    "bounds",
    "leaving",
    "recall",
    "recalled",
    "remember",
    "sum_children",
    "summed_at_root",
    "weight",
]

EMPTY, EXACT, UPPER = 0, 1, 2  # kinds of cached answers


class AndOrPlan(NamedTuple):
    """What stays the same during a search; variables are numbered, the last number is a common root."""

    sizes: np.ndarray  # (n + 1,) states, 1 for the root
    is_sum: np.ndarray  # (n + 1,) whether a variable is summed
    parent: np.ndarray  # (n + 1,)
    child_start: np.ndarray  # (n + 2,)
    child: np.ndarray  # summed ones first
    place: np.ndarray  # (n + 1,) position in `walk`
    walk: np.ndarray  # maximised variables and then summed ones: parents first, subtrees in one piece
    span: np.ndarray  # (n + 1,) variables of the same kind in the subtree
    state_start: np.ndarray  # (n + 2,) first flat state
    keep_start: np.ndarray  # (n + 1,) where the best states of a subtree are kept
    context_start: np.ndarray  # (n + 2,)
    context: np.ndarray  # ancestors that the value of a variable's subtree depends on
    cached: np.ndarray  # (n + 1,) whether answers of a variable can ever be asked for again
    first: np.ndarray  # (n + 1,) mini-buckets of each variable: the first
    last: np.ndarray  # (n + 1,) and one after the last
    scope_start: np.ndarray  # of the mini-buckets
    scope: np.ndarray
    stride: np.ndarray
    table_start: np.ndarray
    message_start: np.ndarray
    theta: np.ndarray
    psi: np.ndarray
    message: np.ndarray
    pass_start: np.ndarray  # (n + 2,) messages that leave the subtree of each variable
    passing: np.ndarray
    below: np.ndarray  # (n + 1,) messages without variables from within each subtree
    constant: np.ndarray  # (n + 1,) those of the variable's own mini-buckets
    temperature: np.ndarray  # (n + 1,)
    axis_start: np.ndarray  # (n + 2,) summed variables of each summed variable's exact bucket
    axis: np.ndarray
    sum_start: np.ndarray  # (n + 2,) where its message lies
    link_start: np.ndarray  # (n + 2,) steps of that message along the axes of the parent's bucket
    link: np.ndarray
    factor_start: np.ndarray  # (n + 2,) factors of each summed variable's bucket
    factor: np.ndarray
    along_start: np.ndarray  # (m + 1,) steps of a factor along these axes
    along: np.ndarray
    held_start: np.ndarray  # (m + 1,) and along maximised variables
    held: np.ndarray
    held_stride: np.ndarray
    log_start: np.ndarray  # (m,) the factors' tables
    log_tables: np.ndarray


class Memory(NamedTuple):
    """What a search changes."""

    x: np.ndarray  # (n + 1,) states on the path
    stack: np.ndarray  # (n + 1,) open OR nodes
    tally: np.ndarray  # stack height, nodes, work, answer is exact
    answer: np.ndarray  # (1,) last value returned
    threshold: np.ndarray  # (n + 1,)
    low: np.ndarray  # (n + 1,) best value above the threshold
    high: np.ndarray  # (n + 1,) largest bound on what was given up
    total: np.ndarray  # (n + 1,) bound on the current choice
    turn: np.ndarray  # (n + 1,) next child, -1 when a state is to be chosen
    hope: np.ndarray  # (n + 1,) bound on a variable's subtree when its parent was set
    bound: np.ndarray  # flat, of every state; NaN when done with
    solution: np.ndarray  # states along `walk`, -1 where a cache answered
    kept: np.ndarray  # best states of the subtrees of open nodes
    key: np.ndarray  # (capacity,) of the cache
    filled: np.ndarray  # (capacity,) kind of each answer
    worth: np.ndarray  # (capacity,) the answers
    sums: np.ndarray  # messages of the summed part
    table: np.ndarray  # scratch: a table, its index, totals
    where: np.ndarray
    scratch: np.ndarray


@jit
def _entry(plan, c, x):
    """Where the states of the other variables of mini-bucket c lie in its message."""
    at = 0
    for e in range(plan.scope_start[c] + 1, plan.scope_start[c + 1]):
        at += plan.stride[e] * x[plan.scope[e]]
    return at


@jit
def leaving(plan, i, x):
    """Bound on the best value of the subtree of i given its ancestors' states."""
    total = plan.below[i]
    for e in range(plan.pass_start[i], plan.pass_start[i + 1]):
        c = plan.passing[e]
        total += plan.message[plan.message_start[c] + _entry(plan, c, x)]
    return total


@jit
def bounds(plan, i, x, out):
    """Bound on the subtree of i for each of its states."""
    hope = leaving(plan, i, x) - plan.constant[i]
    out[:] = 0.0
    for c in range(plan.first[i], plan.last[i]):
        at = _entry(plan, c, x)
        step = plan.message_start[c + 1] - plan.message_start[c]
        if plan.scope_start[c + 1] - plan.scope_start[c] > 1:
            hope -= plan.message[plan.message_start[c] + at]
        for k in range(len(out)):
            out[k] += plan.psi[plan.table_start[c] + at + k * step]
    if not hope > -np.inf:  # what leaves is impossible, whatever i does
        out[:] = -np.inf
    else:
        for k in range(len(out)):
            out[k] += hope


@jit
def weight(plan, i, x):
    """The factors of the bucket of i at the states of the path."""
    total = 0.0
    for c in range(plan.first[i], plan.last[i]):
        step = plan.message_start[c + 1] - plan.message_start[c]
        total += plan.theta[plan.table_start[c] + _entry(plan, c, x) + x[i] * step]
    return total


@jit
def _key(plan, i, x):
    h = mix_bits(np.uint64(i + 1))
    for e in range(plan.context_start[i], plan.context_start[i + 1]):
        h = mix_bits(h + STRIDE * np.uint64(x[plan.context[e]] + 1))
    return h


@jit
def _sum_below(plan, memory, root):
    """The powered sum of the summed part below `root`, given the states of maximised variables."""
    x, sums, table, where = memory.x, memory.sums, memory.table, memory.where
    for p in range(plan.place[root] + plan.span[root] - 1, plan.place[root] - 1, -1):
        v = plan.walk[p]
        axes = plan.sizes[plan.axis[plan.axis_start[v] : plan.axis_start[v + 1]]]
        size = 1
        for k in range(len(axes)):
            size *= axes[k]
        table[:size] = 0.0
        for e in range(plan.factor_start[v], plan.factor_start[v + 1]):
            a = plan.factor[e]
            at = plan.log_start[a]
            for h in range(plan.held_start[a], plan.held_start[a + 1]):
                at += plan.held_stride[h] * x[plan.held[h]]
            index(where, axes, plan.along[plan.along_start[a] : plan.along_start[a + 1]])
            for t in range(size):
                table[t] += plan.log_tables[at + where[t]]
        for e in range(plan.child_start[v], plan.child_start[v + 1]):
            u = plan.child[e]
            index(where, axes, plan.link[plan.link_start[u] : plan.link_start[u + 1]])
            at = plan.sum_start[u]
            for t in range(size):
                table[t] += sums[at + where[t]]
        parts = (
            plan.factor_start[v + 1] - plan.factor_start[v] + plan.child_start[v + 1] - plan.child_start[v]
        )
        memory.tally[2] += size * (2 + parts)
        out = sums[plan.sum_start[v] : plan.sum_start[v + 1]]
        eliminate(table[:size], plan.temperature[v], out, memory.scratch)
    return sums[plan.sum_start[root]]


@jit
def recall(plan, memory, i):
    """Slot of the cached answer of i, -1 if there is none."""
    if not plan.cached[i]:
        return -1
    key = _key(plan, i, memory.x)
    slot = np.int64(key % np.uint64(len(memory.key)))
    return slot if memory.filled[slot] != EMPTY and memory.key[slot] == key else -1


@jit
def remember(plan, memory, i, value, kind):
    """Cache the answer of i at the states of the path."""
    if plan.cached[i]:
        key = _key(plan, i, memory.x)
        slot = np.int64(key % np.uint64(len(memory.key)))
        memory.key[slot], memory.filled[slot], memory.worth[slot] = key, kind, value


@jit
def sum_children(plan, memory, i):
    """The value of the summed part below i, cached."""
    slot = recall(plan, memory, i)
    if slot >= 0:
        return memory.worth[slot]
    value = _sum_below(plan, memory, i)
    remember(plan, memory, i, value, EXACT)
    return value


@jit
def summed_at_root(plan, memory):
    """Bound on everything before any choice; exact for the parts that are only summed."""
    i = len(plan.sizes) - 1
    total = 0.0
    for e in range(plan.child_start[i], plan.child_start[i + 1]):
        c = plan.child[e]
        total += sum_children(plan, memory, c) if plan.is_sum[c] else leaving(plan, c, memory.x)
    return total


@jit
def recalled(plan, memory, i):
    """The cached value of variable i at the states of the path, -inf if there is none."""
    slot = recall(plan, memory, i)
    return memory.worth[slot] if slot >= 0 and memory.filled[slot] == EXACT else -np.inf
