"""What is done once, before a soft-consistency search: strong bounds by sweeps, and a first assignment.

A sweep visits the variables in order, collects all costs that the factors around a variable can give,
moves the least to c0, and hands the rest on in equal shares to the factors that hold a later variable
(sequential tree-reweighted message passing, for factors of any arity). c0 never falls.
"""

from __future__ import annotations

import numpy as np

from .jit import inner, jit
from .soft_consistency import (
    project,
    set_shift,
    set_unary,
    settle,
)

__all__ = ["assignment_cost", "decode", "descend", "sweep"]

_TIE = 1e-12  # relative; costs nearer than this are equal


@inner
def _share(net, i, forward):
    """How many factors around i reach further in this direction, and the part of its costs each receives."""
    ahead, only_ahead, only_behind = 0, 0, 0
    for t in range(net.around_start[i], net.around_start[i + 1]):
        a = net.factor[net.around[t]]
        later, earlier = False, False
        for f in range(net.scope_start[a], net.scope_start[a + 1]):
            later = later or net.scope[f] > i
            earlier = earlier or net.scope[f] < i
        if not forward:
            later, earlier = earlier, later
        ahead += later
        only_ahead += later and not earlier
        only_behind += earlier and not later
    return 1.0 / max(1, ahead + max(only_behind - only_ahead, 0))


@inner
def _reaches(net, e, forward):
    i, a = net.scope[e], net.factor[e]
    for f in range(net.scope_start[a], net.scope_start[a + 1]):
        if net.scope[f] > i if forward else net.scope[f] < i:
            return True
    return False


@jit
def sweep(net, work, forward):
    """One sweep; True if it proves that no assignment is below the upper bound."""
    n = work.size.shape[0]
    for t in range(n):
        i = t if forward else n - 1 - t
        start = net.state_start[i]
        for u in range(net.around_start[i], net.around_start[i + 1]):
            project(net, work, net.around[u], 0.0)
        if settle(net, work, i):
            return True
        share = _share(net, i, forward)
        for p in range(start, start + work.size[i]):
            k = work.domain[p]
            whole = work.unary[start + k]
            part = whole * share
            if part == 0.0:
                continue
            for u in range(net.around_start[i], net.around_start[i + 1]):
                e = net.around[u]
                if _reaches(net, e, forward):
                    set_shift(work, net.edge_start[e] + k, work.shift[net.edge_start[e] + k] - part)
                    whole -= part
            set_unary(work, start + k, whole)
    return False


@jit
def assignment_cost(net, constant, states):
    """Cost of an assignment by the original tables: `constant` holds the first unary costs."""
    total = 0.0
    for i in range(states.shape[0]):
        total += constant[net.state_start[i] + states[i]]
    for a in range(net.table_start.shape[0]):
        at = net.table_start[a]
        for f in range(net.scope_start[a], net.scope_start[a + 1]):
            at += states[net.scope[f]] * net.stride[f]
        total += net.tables[at]
    return total


@inner
def _given_earlier(net, work, e, k, states, forward):
    """Least cost of a factor with e's variable in state k, earlier ones fixed and later ones free."""
    i, a = net.scope[e], net.factor[e]
    first, end = net.scope_start[a], net.scope_start[a + 1]
    for f in range(first, end):
        work.digit[f - first] = 0
    best = np.inf
    while True:
        at, c = net.table_start[a], 0.0
        for f in range(first, end):
            j = net.scope[f]
            fixed = j < i if forward else j > i
            s = work.domain[net.state_start[j] + work.digit[f - first]]
            s = k if f == e else (states[j] if fixed else s)
            at += s * net.stride[f]
            c -= work.shift[net.edge_start[f] + s]
        best = min(best, c + net.tables[at])
        f = end - 1
        while f >= first:
            j = net.scope[f]
            if j > i if forward else j < i:
                work.digit[f - first] += 1
                if work.digit[f - first] < work.size[j]:
                    break
                work.digit[f - first] = 0
            f -= 1
        if f < first:
            return best


@jit
def decode(net, work, forward, states):
    """States in order, each the cheapest given the earlier ones and the present costs."""
    n = work.size.shape[0]
    for t in range(n):
        i = t if forward else n - 1 - t
        start = net.state_start[i]
        least = np.inf
        states[i] = work.domain[start]
        for p in range(start, start + work.size[i]):
            k = work.domain[p]
            c = work.unary[start + k]
            for u in range(net.around_start[i], net.around_start[i + 1]):
                c += _given_earlier(net, work, net.around[u], k, states, forward)
            # Shifts make states equally cheap: rounding must not choose among them.
            if c < least - (_TIE * (1.0 + abs(least)) if least < np.inf else 0.0):
                least = c
                states[i] = k


@jit
def descend(net, constant, states, most):
    """Change one state at a time while that lowers the cost of an assignment; at most so many rounds."""
    n = states.shape[0]
    for _ in range(most):
        moved = False
        for i in range(n):
            start, best, least = net.state_start[i], states[i], np.inf
            for k in range(net.state_start[i + 1] - start):
                c = constant[start + k]
                for u in range(net.around_start[i], net.around_start[i + 1]):
                    e = net.around[u]
                    a = net.factor[e]
                    at = net.table_start[a] + k * net.stride[e]
                    for f in range(net.scope_start[a], net.scope_start[a + 1]):
                        if f != e:
                            at += states[net.scope[f]] * net.stride[f]
                    c += net.tables[at]
                if k == states[i]:
                    c -= 1e-12 * abs(c) if c < np.inf else 0.0
                if c < least:
                    least = c
                    best = k
            if best != states[i]:
                states[i] = best
                moved = True
        if not moved:
            return
