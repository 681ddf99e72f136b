r"""Shifts between variables and factors that lower the bound on the best score.

    L(delta) = sum_i max [ theta_i + sum_a delta_{a,i} ]  +  sum_a max [ theta_a - sum_{i in a} delta_{a,i} ]

is an upper bound for every finite delta. Shifts lie flat over edges and states. Every state of every
variable must have a finite entry in each of its factors (drop the others first): then all maxima here
are finite, and shifts stay so. A constant added to a shift changes nothing, so shifts are kept with
largest entry zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import inlined, jit

__all__ = [
    "Terms",
    "bound",
    "mplp_sweep",
    "reach",
    "sequential_sweep",
    "star_sweep",
    "subgradient",
]


class Terms(NamedTuple):
    """Index arrays and tables of factors over two or more variables; see `Wiring` for their meaning."""

    scope_start: np.ndarray
    scope: np.ndarray
    sizes: np.ndarray
    state_start: np.ndarray
    edge_factor: np.ndarray
    edge_stride: np.ndarray
    edge_state_start: np.ndarray
    neighbour_start: np.ndarray
    neighbour_edge: np.ndarray
    tables: np.ndarray
    table_start: np.ndarray
    table_size: np.ndarray


@inlined
def _turn(t, first, last, digit):
    """The next combination of the axes first .. last - 1, the last of them fastest."""
    e = last - 1
    while e >= first:
        digit[e - first] += 1
        if digit[e - first] < t.sizes[t.scope[e]]:
            break
        digit[e - first] = 0
        e -= 1


@inlined
def _outer(t, first, last, but, shifts, digit):
    """Sum of the shifts of the axes first .. last - 1, except that of edge `but`."""
    total = 0.0
    for e in range(first, last):
        if e != but:
            total += shifts[t.edge_state_start[e] + digit[e - first]]
    return total


@inlined
def _reach(t, edge, shifts, out, begin, digit):
    """out[begin + x] = max over the other variables of theta_a - their shifts, at state x of this edge."""
    a = t.edge_factor[edge]
    first, last = t.scope_start[a], t.scope_start[a + 1]
    size = t.sizes[t.scope[edge]]
    table = t.table_start[a]
    # Own shifts do not enter, so `out` may be the shifts themselves.
    if last - first == 2:
        other = first + last - 1 - edge
        count, step, stride = t.sizes[t.scope[other]], t.edge_stride[other], t.edge_stride[edge]
        from_ = t.edge_state_start[other]
        for x in range(size):
            best, at = -np.inf, table + x * stride
            for y in range(count):
                best = max(best, t.tables[at + y * step] - shifts[from_ + y])
            out[begin + x] = best
        return
    inner = last - 1
    count, from_ = t.sizes[t.scope[inner]], t.edge_state_start[inner]
    for x in range(size):
        out[begin + x] = -np.inf
    # Entries along the last axis lie side by side, and what the other axes take off is the same for a run.
    for k in range(last - first):
        digit[k] = 0
    for at in range(table, table + t.table_size[a], count):
        base = _outer(t, first, inner, edge, shifts, digit)
        if edge == inner:
            for y in range(count):
                out[begin + y] = max(out[begin + y], t.tables[at + y] - base)
        else:
            best = -np.inf
            for y in range(count):
                best = max(best, t.tables[at + y] - shifts[from_ + y])
            x = begin + digit[edge - first]
            out[x] = max(out[x], best - base)
        _turn(t, first, inner, digit)


@inlined
def _soften(t, edge, shifts, heat, out, begin, digit, weight):
    """Turn the maxima of `_reach` into  heat log sum exp(. / heat)."""
    a = t.edge_factor[edge]
    first, last = t.scope_start[a], t.scope_start[a + 1]
    size = t.sizes[t.scope[edge]]
    for x in range(size):
        weight[x] = 0.0
    for k in range(last - first):
        digit[k] = 0
    for at in range(t.table_start[a], t.table_start[a] + t.table_size[a]):
        x = digit[edge - first]
        value = t.tables[at] - _outer(t, first, last, edge, shifts, digit)
        weight[x] += np.exp((value - out[begin + x]) / heat)
        _turn(t, first, last, digit)
    for x in range(size):
        out[begin + x] += heat * np.log(weight[x])


@inlined
def _settle(shifts, begin, end):
    """Largest entry zero."""
    top = -np.inf
    for s in range(begin, end):
        top = max(top, shifts[s])
    for s in range(begin, end):
        shifts[s] -= top


@jit
def _scratch(t):
    """Members of the widest factor and states of the largest variable."""
    arity, widest = 1, 1
    for a in range(len(t.table_start)):
        arity = max(arity, t.scope_start[a + 1] - t.scope_start[a])
    for i in range(len(t.sizes)):
        widest = max(widest, t.sizes[i])
    return arity, widest


@jit
def reach(t, edge, shifts):
    """Largest reduced entry of a factor for every state of one of its variables, own shift left out."""
    arity, _ = _scratch(t)
    out = np.empty(t.sizes[t.scope[edge]])
    _reach(t, edge, shifts, out, 0, np.zeros(arity, np.int64))
    return out


@inlined
def _top(t, a, shifts, digit):
    """The largest reduced entry of factor a, and where it is; the first among equals."""
    first, inner = t.scope_start[a], t.scope_start[a + 1] - 1
    count, from_ = t.sizes[t.scope[inner]], t.edge_state_start[inner]
    start = t.table_start[a]
    best, where = -np.inf, start
    if inner == first + 1:
        at = start
        for x in range(t.sizes[t.scope[first]]):
            base = shifts[t.edge_state_start[first] + x]
            for y in range(count):
                value = t.tables[at] - base - shifts[from_ + y]
                if value > best:
                    best, where = value, at
                at += 1
        return best, where - start
    for k in range(inner - first):
        digit[k] = 0
    for at in range(start, start + t.table_size[a], count):
        base = _outer(t, first, inner, -1, shifts, digit)
        for y in range(count):
            value = t.tables[at + y] - shifts[from_ + y] - base
            if value > best:
                best, where = value, at + y
        _turn(t, first, inner, digit)
    return best, where - start


@inlined
def _total(t, i, node, shifts, out):
    """out[x] = theta_i + the shifts of all edges of a variable."""
    size = t.sizes[i]
    for x in range(size):
        out[x] = node[t.state_start[i] + x]
    for g in range(t.neighbour_start[i], t.neighbour_start[i + 1]):
        begin = t.edge_state_start[t.neighbour_edge[g]]
        for x in range(size):
            out[x] += shifts[begin + x]


@jit
def bound(t, node, shifts):
    """L(delta), always with true maxima."""
    arity, widest = _scratch(t)
    digit, total = np.zeros(arity, np.int64), np.empty(widest)
    value = 0.0
    for i in range(len(t.sizes)):
        _total(t, i, node, shifts, total)
        value += total[: t.sizes[i]].max()
    for a in range(len(t.table_start)):
        value += _top(t, a, shifts, digit)[0]
    return value


@jit
def sequential_sweep(t, node, shifts, order, is_first, is_last, forward, backward, trust):
    """Forwards and backwards along an order; each step minimises L over the shifts of one variable.

    A variable takes all its factors' maxima, and hands a share of the total to each factor with members
    still to come. `is_first` and `is_last` tell, per edge, whether the variable is the factor's first or
    last in the order; `forward` and `backward` are the shares. With `trust`, shifts of edges that nothing
    happened to since the last visit are taken as up to date.
    """
    arity, widest = _scratch(t)
    digit, total = np.zeros(arity, np.int64), np.empty(widest)
    n = len(order)
    for turn in range(2):
        known = is_first if turn == 0 else is_last
        closed = is_last if turn == 0 else is_first
        share = forward if turn == 0 else backward
        for p in range(n):
            i = order[p] if turn == 0 else order[n - 1 - p]
            around = t.neighbour_edge[t.neighbour_start[i] : t.neighbour_start[i + 1]]
            for e in around:
                # A factor's first member of this pass was its last of the pass before: since then no other
                # member moved, so what the factor had to say then still holds.
                if not (known[e] and trust):
                    _reach(t, e, shifts, shifts, t.edge_state_start[e], digit)
            _total(t, i, node, shifts, total)
            for e in around:
                begin, end = t.edge_state_start[e], t.edge_state_start[e + 1]
                # A factor with nobody left to visit gets nothing back: no member could use it in this pass.
                if not closed[e]:
                    for s in range(begin, end):
                        shifts[s] -= share[i] * total[s - begin]
                _settle(shifts, begin, end)
        trust = True


@jit
def star_sweep(t, node, shifts, order, heat):
    """One variable after another: all its terms made equal, which minimises L over its shifts.

    With `heat` above zero the maxima are heat log sum exp(. / heat); the same step then minimises the
    smoothed bound. Returns the largest change of a shift.
    """
    arity, widest = _scratch(t)
    digit, total, weight = np.zeros(arity, np.int64), np.empty(widest), np.empty(widest)
    before = np.empty(widest)
    change = 0.0
    for p in range(len(order)):
        i = order[p]
        around = t.neighbour_edge[t.neighbour_start[i] : t.neighbour_start[i + 1]]
        if len(around) == 0:
            continue
        # The sum of the old shifts stands for all of them when looking for changes.
        _total(t, i, node, shifts, before)
        for e in around:
            begin = t.edge_state_start[e]
            _reach(t, e, shifts, shifts, begin, digit)
            if heat > 0.0:
                _soften(t, e, shifts, heat, shifts, begin, digit, weight)
        _total(t, i, node, shifts, total)
        for e in around:
            begin, end = t.edge_state_start[e], t.edge_state_start[e + 1]
            for s in range(begin, end):
                shifts[s] -= total[s - begin] / (len(around) + 1)
            _settle(shifts, begin, end)
        _total(t, i, node, shifts, total)
        size = t.sizes[i]
        low, high = np.inf, -np.inf
        for x in range(size):
            low, high = min(low, total[x] - before[x]), max(high, total[x] - before[x])
        change = max(change, high - low)
    return change


@jit
def mplp_sweep(t, node, shifts, backwards):
    """One factor after another: its max-marginals, shared equally by its variables."""
    arity, widest = _scratch(t)
    digit, found = np.zeros(arity, np.int64), np.empty((arity, widest))
    belief = node.copy()
    for e in range(len(t.scope)):
        first, begin = t.state_start[t.scope[e]], t.edge_state_start[e]
        for x in range(t.sizes[t.scope[e]]):
            belief[first + x] += shifts[begin + x]
    factors = len(t.table_start)
    for p in range(factors):
        a = factors - 1 - p if backwards else p
        edges = range(t.scope_start[a], t.scope_start[a + 1])
        for e in edges:  # what the variable has from elsewhere, as a negative shift
            first, begin = t.state_start[t.scope[e]], t.edge_state_start[e]
            for x in range(t.sizes[t.scope[e]]):
                shifts[begin + x] -= belief[first + x]
        for e in edges:
            _reach(t, e, shifts, found[e - t.scope_start[a]], 0, digit)
        for e in edges:
            first, begin, end = t.state_start[t.scope[e]], t.edge_state_start[e], t.edge_state_start[e + 1]
            for x in range(end - begin):
                own = shifts[begin + x]
                belief[first + x] = -own
                shifts[begin + x] += (found[e - t.scope_start[a], x] - own) / len(edges)
            _settle(shifts, begin, end)
            for x in range(end - begin):
                belief[first + x] += shifts[begin + x]


@jit
def subgradient(t, node, shifts, slope):
    """Fill a subgradient of L and return L.

    1 at the best state of the variable, less 1 at its state in the best entry of the factor (the printed
    form has the signs of the descent direction).
    """
    arity, widest = _scratch(t)
    digit, total = np.zeros(arity, np.int64), np.empty(widest)
    slope[:] = 0.0
    value = 0.0
    for i in range(len(t.sizes)):
        _total(t, i, node, shifts, total)
        best = total[: t.sizes[i]].argmax()
        value += total[best]
        for g in range(t.neighbour_start[i], t.neighbour_start[i + 1]):
            slope[t.edge_state_start[t.neighbour_edge[g]] + best] += 1.0
    for a in range(len(t.table_start)):
        top, entry = _top(t, a, shifts, digit)
        value += top
        for e in range(t.scope_start[a], t.scope_start[a + 1]):
            x = (entry // t.edge_stride[e]) % t.sizes[t.scope[e]]
            slope[t.edge_state_start[e] + x] -= 1.0
    return value
