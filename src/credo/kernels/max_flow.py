"""Maximum flow with real capacities, for the cuts of graph-cut methods.

Two search trees grow from the source and from the sink until they touch, the path between them is
saturated, and what it cuts off is adopted by neighbours or set free; both trees are kept all along
(the augmenting-path scheme usual in computer vision). Arcs come in pairs: arc a and arc a ^ 1 are each
other's reverse. Terminal arcs are one number per node: positive for room left from the source,
negative for room left to the sink. Capacities may be infinite as long as every path from source to
sink has a finite one.
"""

from __future__ import annotations

import numpy as np

from .jit import inlined, jit

__all__ = ["arcs_by_tail", "max_flow"]

_FREE, _SOURCE, _SINK = 0, 1, 2
_NONE, _TERMINAL, _ORPHAN = -1, -2, -3


@jit
def arcs_by_tail(n, first, second):
    """Arcs 2a (first -> second) and 2a + 1 (back) sorted by tail: slice starts, and the arcs."""
    start = np.zeros(n + 1, np.int64)
    for a in range(len(first)):
        start[first[a] + 1] += 1
        start[second[a] + 1] += 1
    start = np.cumsum(start)
    filled, arcs = start.copy(), np.empty(2 * len(first), np.int64)
    for a in range(len(first)):
        arcs[filled[first[a]]] = 2 * a
        filled[first[a]] += 1
        arcs[filled[second[a]]] = 2 * a + 1
        filled[second[a]] += 1
    return start, arcs


@inlined
def _activate(i, queue, waiting, ends):
    """Put a node at the end of the ring of active nodes, once."""
    if not waiting[i]:
        waiting[i] = True
        queue[ends[1]] = i
        ends[1] = (ends[1] + 1) % len(queue)


@inlined
def _room(a, side, room):
    """Capacity left towards the child that holds arc `a` to its parent, as its tree needs it."""
    return room[a ^ 1] if side == _SOURCE else room[a]


@jit
def max_flow(start, arcs, head, room, terminal):
    """Push as much flow as possible; `room` and `terminal` become what is left.

    Parameters
    ----------
    start, arcs
        Arcs by tail.
    head
        Where each arc leads.
    room, terminal
        Capacities.

    Returns
    -------
    side
        Per node: 1 on the source's side of a smallest cut, 2 on the sink's, 0 if either will do.
    """
    n = len(terminal)
    side = np.zeros(n, np.int8)
    parent = np.full(n, _NONE, np.int64)
    stamp, depth = np.zeros(n, np.int64), np.zeros(n, np.int64)
    queue, waiting, ends = np.empty(n + 1, np.int64), np.zeros(n, np.bool_), np.zeros(2, np.int64)
    orphans, count = np.empty(n + 1, np.int64), np.zeros(1, np.int64)
    for i in range(n):
        if terminal[i] != 0.0:
            side[i] = _SOURCE if terminal[i] > 0.0 else _SINK
            parent[i] = _TERMINAL
            depth[i] = 1
            _activate(i, queue, waiting, ends)
    time = 0
    current = -1
    while True:
        i = current
        if i < 0 or side[i] == _FREE:
            i = -1
            while ends[0] != ends[1]:
                j = queue[ends[0]]
                ends[0] = (ends[0] + 1) % len(queue)
                waiting[j] = False
                if side[j] != _FREE:
                    i = j
                    break
            if i < 0:
                return side
        bridge = _grow(i, start, arcs, head, room, side, parent, stamp, depth, queue, waiting, ends)
        time += 1
        if bridge < 0:
            current = -1
            continue
        current = i
        _augment(bridge, head, room, terminal, side, parent, orphans, count)
        while count[0] > 0:
            count[0] -= 1
            j = orphans[count[0]]
            _adopt(
                j,
                time,
                start,
                arcs,
                head,
                room,
                side,
                parent,
                stamp,
                depth,
                queue,
                waiting,
                ends,
                orphans,
                count,
            )


@jit
def _grow(i, start, arcs, head, room, side, parent, stamp, depth, queue, waiting, ends):
    """Take in the free neighbours of a node; the arc that touches the other tree, or -1."""
    mine = side[i]
    for g in range(start[i], start[i + 1]):
        a = arcs[g]
        if (room[a] if mine == _SOURCE else room[a ^ 1]) <= 0.0:
            continue
        j = head[a]
        if side[j] == _FREE:
            side[j] = mine
            parent[j] = a ^ 1
            stamp[j], depth[j] = stamp[i], depth[i] + 1
            _activate(j, queue, waiting, ends)
        elif side[j] != mine:
            return a if mine == _SOURCE else a ^ 1
        elif stamp[j] <= stamp[i] and depth[j] > depth[i] + 1:
            parent[j] = a ^ 1  # a shorter way to the root
            stamp[j], depth[j] = stamp[i], depth[i] + 1
    return -1


@jit
def _augment(bridge, head, room, terminal, side, parent, orphans, count):
    """Saturate the path through an arc from the source's tree to the sink's; cut-off nodes are orphans."""
    least = room[bridge]
    for end in range(2):
        i = head[bridge ^ 1] if end == 0 else head[bridge]
        while parent[i] != _TERMINAL:
            least = min(least, _room(parent[i], side[i], room))
            i = head[parent[i]]
        least = min(least, abs(terminal[i]))
    room[bridge] -= least
    room[bridge ^ 1] += least
    for end in range(2):
        i = head[bridge ^ 1] if end == 0 else head[bridge]
        while parent[i] != _TERMINAL:
            a = parent[i]
            down = a ^ 1 if end == 0 else a
            room[down] -= least
            room[down ^ 1] += least
            up = head[a]
            if room[down] <= 0.0:
                parent[i] = _ORPHAN
                orphans[count[0]] = i
                count[0] += 1
            i = up
        terminal[i] += -least if end == 0 else least
        if terminal[i] == 0.0:
            parent[i] = _ORPHAN
            orphans[count[0]] = i
            count[0] += 1


@jit
def _distance(i, time, head, parent, stamp, depth):
    """Steps from a node to its root, or -1 if its tree lost the root; remembers where it has been."""
    steps, j = 0, i
    while True:
        if stamp[j] == time:
            steps += depth[j]
            break
        if parent[j] == _TERMINAL:
            stamp[j], depth[j] = time, 1
            steps += 1
            break
        if parent[j] < 0:
            return -1
        steps += 1
        j = head[parent[j]]
    left, j = steps, i
    while stamp[j] != time:
        stamp[j], depth[j] = time, left
        left -= 1
        j = head[parent[j]]
    return steps


@jit
def _adopt(
    i, time, start, arcs, head, room, side, parent, stamp, depth, queue, waiting, ends, orphans, count
):
    """Find an orphan the neighbour nearest to the root, or set it free and orphan its children."""
    mine = side[i]
    best, shortest = -1, 0
    for g in range(start[i], start[i + 1]):
        a = arcs[g]
        j = head[a]
        if side[j] == mine and parent[j] != _ORPHAN and _room(a, mine, room) > 0.0:
            steps = _distance(j, time, head, parent, stamp, depth)
            if steps >= 0 and (best < 0 or steps < shortest):
                best, shortest = a, steps
    if best >= 0:
        parent[i] = best
        stamp[i], depth[i] = time, shortest + 1
        return
    for g in range(start[i], start[i + 1]):
        a = arcs[g]
        j = head[a]
        if side[j] != mine:
            continue
        if _room(a, mine, room) > 0.0:
            _activate(j, queue, waiting, ends)
        if parent[j] == a ^ 1:
            parent[j] = _ORPHAN
            orphans[count[0]] = j
            count[0] += 1
    side[i] = _FREE
    parent[i] = _NONE
