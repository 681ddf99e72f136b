"""The residual schedule of plain BP, by estimates: what has changed most before it is sent on first.

The residual of a message is how much it would change if it were computed now. To know it one must compute
the message, so an exact schedule computes every message around an update and then commits one of them.
Here the changes that have come in since a sender was last served are added up: an estimate of what it
would pass on that costs nothing.

Senders wait in buckets, one for each power of two of their estimate, and are served from the highest
bucket in order of arrival, which takes a few nanoseconds where a heap moves through memory. When no
estimate reaches the tolerance, every sender is due once more: the run has converged when such a round
changes nothing, whatever the estimates were.

The estimates belong to the state of a run: `due` holds one per sender, infinite at first, and at the end
the largest change of the round. So a run can be cut into calls without any difference.
"""

from __future__ import annotations

import numpy as np

from .binary_messages import binary_beliefs
from .jit import inlined, jit
from .positive_messages import all_messages, divide, extent, linear_beliefs, store

__all__ = ["binary_residual", "linear_residual"]

_U = np.uint64
_LEVELS = 64  # buckets
_TOP = _LEVELS - 1  # for two and above, and for those that are due in any case
_LOWEST = 1024 - _TOP  # biased exponent of the first bucket, 2^-62


@inlined
def _put(after, before, level, x, b):
    """Append x to bucket b; each bucket is a ring through a node of its own, past the items."""
    if level[x] >= 0:
        after[before[x]], before[after[x]] = after[x], before[x]
    node = len(level) + b
    last = before[node]
    after[last], before[node] = x, x
    before[x], after[x] = last, node
    level[x] = b


@inlined
def _take(after, before, level, top):
    """The first item of the highest bucket that has one, from `top` down, and that bucket; -1 for none."""
    n = len(level)
    while top >= 0 and after[n + top] == n + top:
        top -= 1
    if top < 0:
        return -1, top
    x = after[n + top]
    after[n + top], before[after[x]] = after[x], n + top
    level[x] = -1
    return x, top


@inlined
def _raise(after, before, level, due, bits, x, moved, tol, top):
    """Add a change to the estimate of x and move it up if it has reached a higher bucket; the new `top`."""
    due[x] += moved
    if due[x] >= tol:
        b = min(max((bits[x] >> 52) - _LOWEST, 0), _TOP)  # the exponent of the estimate
        if b > level[x]:
            _put(after, before, level, x, b)
            return max(top, b)
    return top


@jit
def _fill(after, before, level, due, bits, tol):
    """All senders into the buckets of their estimates, in order; the highest bucket."""
    level[:] = -1
    for node in range(len(level), len(after)):
        after[node], before[node] = node, node
    top = -1
    for x in range(len(level)):
        top = _raise(after, before, level, due, bits, x, 0.0, tol, top)
    return top


@jit
def binary_residual(first, second, p, prior, around_start, around, due, ratio, sweeps, tol):
    """Pairwise binary factors with one ratio per message, as in `binary_sweeps`; in place.

    A variable is served by sending all its messages. `around` lists 2 a + side per variable. A sweep is as
    many messages as there are; returns the largest change, in probability, of each sweep done, but not less
    than the tolerance unless the run has converged.
    """
    n, m = len(prior), len(first)
    ends = np.empty(2 * m, np.int32)
    for a in range(m):
        ends[2 * a], ends[2 * a + 1] = first[a], second[a]
    flat = ratio.reshape(2 * m)
    belief, bits = np.empty(n), due.view(np.int64)
    after, before = np.empty(n + _LEVELS, np.int32), np.empty(n + _LEVELS, np.int32)
    level = np.empty(n, np.int32)
    changes = np.zeros(sweeps)
    if m == 0:
        return changes[:1]
    for turn in range(sweeps):
        # Fresh products: running ones pile up rounding.
        binary_beliefs(first, second, prior, ratio, belief)
        top = _fill(after, before, level, due, bits, tol)
        change, sent = 0.0, 0
        while sent < 2 * m:
            v, top = _take(after, before, level, top)
            if v < 0:
                if due[n] < tol:  # a whole round has changed nothing
                    changes[turn] = due[n]
                    return changes[: turn + 1]
                due[:n], due[n] = np.inf, 0.0
                top = _fill(after, before, level, due, bits, tol)
                continue
            due[v] = 0.0
            mine = belief[v]
            for g in range(around_start[v], around_start[v + 1]):
                # The message through factor a to its other end, given the one that came from there.
                there, side = around[g] ^ 1, around[g] & 1
                a, j, r, s = there >> 1, np.int64(ends[there]), flat[around[g]], flat[there]
                up = p[a, 1 + side] * r + p[a, 3] * mine
                down = p[a, 0] * r + p[a, 2 - side] * mine
                same = down * s  # what `up` would be for no change
                moved = abs(up - same) / ((up + down) * (1.0 + s))
                flat[there] = up / down
                belief[j] *= up / same
                change = max(change, moved)
                top = _raise(after, before, level, due, bits, j, moved, tol, top)
            due[n] = max(due[n], change)
            sent += around_start[v + 1] - around_start[v]
        changes[turn] = max(change, tol)
    return changes


@jit
def linear_residual(
    active, scope_start, scope, sizes, state_start, edge_state_start, around_start, around, psi, table_start,
    constant, due, messages, sweeps, tol,
):  # fmt: skip
    """Positive numbers as in `linear_sweeps`; in place.

    A factor is served by sending all its messages, which cost little more than one. `around` lists the
    active factors per variable. A sweep is as many factors as there are; returns what `binary_residual`
    returns.
    """
    factors, m = len(scope_start) - 1, len(active)
    widest, arity, most = extent(active, scope_start, scope, sizes)
    work = np.empty(2 * arity * (widest + most))
    dims = np.zeros(arity, np.uint64)
    width, out, spare = _U(widest), _U(arity * widest), _U(2 * arity * widest)
    belief, bits = np.empty(len(constant)), due.view(np.int64)
    after, before = np.empty(factors + _LEVELS, np.int32), np.empty(factors + _LEVELS, np.int32)
    level = np.empty(factors, np.int32)
    idle = np.ones(factors, np.bool_)
    idle[active] = False
    due[:factors][idle] = -np.inf  # never comes to the tolerance
    changes = np.zeros(sweeps)
    if m == 0:
        return changes[:1]
    for turn in range(sweeps):
        # Fresh products: running ones pile up rounding.
        linear_beliefs(active, scope_start, scope, state_start, edge_state_start, constant, messages, belief)
        top = _fill(after, before, level, due, bits, tol)
        change, sent = 0.0, 0
        while sent < m:
            a, top = _take(after, before, level, top)
            if a < 0:
                if due[factors] < tol:  # a whole round has changed nothing
                    changes[turn] = due[factors]
                    return changes[: turn + 1]
                due[active], due[factors] = np.inf, 0.0
                top = _fill(after, before, level, due, bits, tol)
                continue
            due[a] = 0.0
            first = _U(scope_start[a])
            n = _U(scope_start[a + 1]) - first
            for j in range(n):
                e = first + j
                g = _U(edge_state_start[e])
                dims[j] = _U(edge_state_start[e + _U(1)]) - g
                divide(belief, _U(state_start[scope[e]]), messages, g, dims[j], work, j * width)
            all_messages(psi, _U(table_start[a]), n, dims, work, width, out, spare)
            for j in range(n):
                i = scope[first + j]
                moved = store(
                    work, out + j * width, j * width, dims[j], messages, _U(edge_state_start[first + j]),
                    belief, _U(state_start[i]), True,
                )  # fmt: skip
                change = max(change, moved)
                for near in range(around_start[i], around_start[i + 1]):
                    if around[near] != a:
                        top = _raise(after, before, level, due, bits, around[near], moved, tol, top)
            due[factors] = max(due[factors], change)
            sent += 1
        changes[turn] = max(change, tol)
    return changes
