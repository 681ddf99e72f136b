"""Smallest cuts for energies over pairs of two-valued choices, and expansion moves built on them.

    E(x) = sum_i h_i x_i + sum_pairs E_ij(x_i, x_j),      E_ij(0,0) + E_ij(1,1) <= E_ij(0,1) + E_ij(1,0)

A pair's table becomes two linear terms and one arc; entries off the diagonal may be infinite. A node on the
sink's side of the cut has x = 1.
"""

from __future__ import annotations

import numpy as np

from .jit import inlined, jit
from .max_flow import max_flow

__all__ = ["expand", "expansion_fault", "set_pair", "two_colours"]

_ROUNDING = 1e-9  # relative excess of a sum that counts as rounding


@inlined
def _set_pair(a, i, j, e00, e01, e10, e11, room, terminal, linear):
    """File one pair: arcs 2a (i -> j) and 2a + 1, linear terms of both ends."""
    if e10 < np.inf:
        linear[a, 0], linear[a, 1] = e10 - e00, e11 - e10
        room[2 * a], room[2 * a + 1] = max(e01 - linear[a, 1] - e00, 0.0), 0.0
    elif e01 < np.inf:
        linear[a, 0], linear[a, 1] = e11 - e01, e01 - e00
        room[2 * a], room[2 * a + 1] = 0.0, np.inf
    else:
        linear[a, 0], linear[a, 1] = e11 - e00, 0.0
        room[2 * a], room[2 * a + 1] = np.inf, np.inf
    terminal[i] += linear[a, 0]
    terminal[j] += linear[a, 1]


@jit
def set_pair(first, second, energy, room, terminal, linear):
    """File all pairs; `energy` is (pairs, 2, 2)."""
    for a in range(len(first)):
        e = energy[a]
        _set_pair(a, first[a], second[a], e[0, 0], e[0, 1], e[1, 0], e[1, 1], room, terminal, linear)


@jit
def two_colours(start, arcs, head, coupling):
    """Flip some nodes so that no pair repels: flags, and the first pair that forbids it (or -1).

    `coupling` is positive for pairs that prefer equal states, negative for unequal, zero for neither.
    """
    n = len(start) - 1
    colour = np.full(n, -1, np.int8)
    queue = np.empty(n, np.int64)
    fault = -1
    for root in range(n):
        if colour[root] >= 0:
            continue
        colour[root] = 0
        queue[0] = root
        done, count = 0, 1
        while done < count:
            i = queue[done]
            done += 1
            for g in range(start[i], start[i + 1]):
                pair = arcs[g] // 2
                if coupling[pair] == 0.0:
                    continue
                j = head[arcs[g]]
                wanted = colour[i] if coupling[pair] > 0.0 else 1 - colour[i]
                if colour[j] < 0:
                    colour[j] = wanted
                    queue[count] = j
                    count += 1
                elif colour[j] != wanted and (fault < 0 or pair < fault):
                    fault = pair
    return colour, fault


@jit
def expansion_fault(tables, table_start, count):
    """The first factor for which some expansion move is no smallest cut, or -1.

    Needed for all states k, x, y with a possible entry (x, y): theta(k, k) + theta(x, y) is at least
    theta(x, k) + theta(k, y).
    """
    for a in range(len(table_start)):
        size, s = count[a], table_start[a]
        for x in range(size):
            for y in range(size):
                now = tables[s + x * size + y]
                if now == -np.inf:
                    continue
                for k in range(size):
                    both = tables[s + k * size + k]
                    other = tables[s + x * size + k] + tables[s + k * size + y]
                    if other == -np.inf:
                        if both == -np.inf:
                            return a
                    elif both + now < other - _ROUNDING * max(1.0, abs(other)):
                        return a
    return -1


@jit
def expand(
    k,
    states,
    node,
    state_start,
    first,
    second,
    tables,
    table_start,
    start,
    arcs,
    head,
    room,
    terminal,
    linear,
):
    """Let any set of variables change to state k at once, in the best way; the new states."""
    n = len(states)
    for i in range(n):
        terminal[i] = 0.0
        if k < state_start[i + 1] - state_start[i]:
            terminal[i] = node[state_start[i] + states[i]] - node[state_start[i] + k]
    for a in range(len(first)):
        i, j = first[a], second[a]
        size = state_start[i + 1] - state_start[i]
        if k >= size:
            room[2 * a] = room[2 * a + 1] = 0.0
            continue
        s, x, y = table_start[a], states[i], states[j]
        _set_pair(
            a,
            i,
            j,
            -tables[s + x * size + y],
            -tables[s + x * size + k],
            -tables[s + k * size + y],
            -tables[s + k * size + k],
            room,
            terminal,
            linear,
        )
    side = max_flow(start, arcs, head, room, terminal)
    new = states.copy()
    for i in range(n):
        if side[i] == 2 and k < state_start[i + 1] - state_start[i]:
            new[i] = k
    return new
