"""Greedy elimination orders on an undirected graph.

Eliminating v joins all its neighbours to a clique (fill-in) and removes it. At each step the
vertex with the smallest cost goes next:

    min-degree          |N(v)|
    min-fill            number of missing edges among N(v)
    weighted-min-fill   sum of d_i d_j over the missing edges ij
    min-size            entries of the table over v and N(v), in log2

Ties are broken by a random key per vertex; `noise` multiplies costs by a factor per vertex, which
is what a search over orders varies. Vertices of a lower level go first (sums before maxima). Vertices with at
most one neighbour are stripped beforehand in linear time, so trees of a million vertices take no
heap; the rest uses a binary heap and adjacency lists that grow in one pool. Eliminating goes in portions, and
whoever cuts it keeps what is done.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import double
from .jit import jit
from .sorting import sort_by

__all__ = [
    "HEURISTICS",
    "OrderSearch",
    "greedy_start",
    "greedy_steps",
    "hurried_order",
    "is_eliminating",
    "maximum_cardinality_order",
    "order_cost",
    "work_of",
]

HEURISTICS = {"min-degree": 0, "min-fill": 1, "weighted-min-fill": 2, "min-size": 3}


@jit
def _strip(start, neighbour, level, alive, degree, order):
    """Eliminate vertices of the lowest level with at most one neighbour; returns how many."""
    n = len(start) - 1
    lowest = level[0] if n else 0
    for v in range(n):
        lowest = min(lowest, level[v])
    for v in range(n):
        if level[v] == lowest and degree[v] <= 1:
            alive[v] = 2  # queued
    queue = np.empty(n, np.int64)
    tail = 0
    for v in range(n):
        if alive[v] == 2:
            queue[tail] = v
            tail += 1
    head = 0
    while head < tail:
        v = queue[head]
        order[head] = v
        head += 1
        alive[v] = 0
        for e in range(start[v], start[v + 1]):
            u = neighbour[e]
            if alive[u] != 0:
                degree[u] -= 1
                if alive[u] == 1 and degree[u] <= 1 and level[u] == lowest:
                    alive[u] = 2
                    queue[tail] = u
                    tail += 1
    return head


@jit
def _cost(v, heuristic, pool, first, count, weight, mark, stamp, work):
    """Cost of eliminating v now; `mark` with a fresh `stamp` is scratch."""
    begin, size = first[v], count[v]
    work[0] += size
    if heuristic == 0:
        return float(size)
    if heuristic == 3:
        total = np.log2(weight[v])
        for e in range(begin, begin + size):
            total += np.log2(weight[pool[e]])
        return total
    for e in range(begin, begin + size):
        mark[pool[e]] = stamp
    linked = 0.0
    if heuristic == 1:
        for e in range(begin, begin + size):
            u = pool[e]
            work[0] += count[u]
            for g in range(first[u], first[u] + count[u]):
                if mark[pool[g]] == stamp:
                    linked += 1.0
        return 0.5 * (size * (size - 1.0) - linked)
    plain, squares = 0.0, 0.0
    for e in range(begin, begin + size):
        u = pool[e]
        plain += weight[u]
        squares += weight[u] * weight[u]
        work[0] += count[u]
        for g in range(first[u], first[u] + count[u]):
            if mark[pool[g]] == stamp:
                linked += weight[u] * weight[pool[g]]
    return 0.5 * (plain * plain - squares - linked)


@jit
def _comes_before(cost, tie, u, v):
    return cost[u] < cost[v] or (cost[u] == cost[v] and tie[u] < tie[v])


@jit
def _settle(heap, place, size, cost, tie, v):
    """Move v, somewhere in a heap by (cost, tie) and out of order, to its place; `place` follows."""
    k = place[v]
    while k > 0 and _comes_before(cost, tie, v, heap[(k - 1) >> 1]):
        heap[k] = heap[(k - 1) >> 1]
        place[heap[k]] = k
        k = (k - 1) >> 1
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and _comes_before(cost, tie, heap[child + 1], heap[child]):
            child += 1
        if not _comes_before(cost, tie, heap[child], v):
            break
        heap[k] = heap[child]
        place[heap[k]] = k
        k = child
    heap[k], place[v] = v, k


@jit
def _pop(heap, place, size, cost, tie):
    """Take the first of a heap of `size` vertices."""
    first, last = heap[0], heap[size - 1]
    if size > 1:
        heap[0], place[last] = last, 0
        _settle(heap, place, size - 1, cost, tie, last)
    return first


class OrderSearch(NamedTuple):
    """A greedy elimination under way."""

    order: np.ndarray  # vertices, those that are eliminated first
    first: np.ndarray  # where the neighbours of each vertex begin in the pool
    degree: np.ndarray  # how many there are now
    room: np.ndarray  # and how many fit there
    mark: np.ndarray  # scratch: the stamp a vertex was last seen with
    cost: np.ndarray  # of eliminating each vertex of the heap
    heap: np.ndarray  # vertices of the current level by cost
    place: np.ndarray  # of each vertex in the heap
    pending: np.ndarray  # vertices left after stripping, by level
    touched: np.ndarray  # scratch
    at: np.ndarray  # counters, by the names below
    total: np.ndarray  # (1,) the sum of clique table sizes so far


_DONE, _LEFT, _END, _STAMP, _SIZE, _CURSOR, _LEVEL, _NEXT, _CHANGED, _WORK = range(10)  # of `Elimination.at`


@jit
def greedy_start(start, neighbour, weight, level):
    """Strip, and lay out the adjacency of what is left.

    Parameters
    ----------
    start, neighbour
        Sorted adjacency lists in CSR form.
    weight
        Number of states of each vertex, as floats.
    level
        Vertices of a lower level are eliminated before those of a higher one.

    Returns
    -------
    state, pool
        The elimination under way, and the pool where lists move to the end when they outgrow their room.
    """
    n = len(start) - 1
    order = np.zeros(n, np.int64)
    alive = np.ones(n, np.int8)
    degree = np.zeros(n, np.int64)
    for v in range(n):
        degree[v] = start[v + 1] - start[v]
    done = _strip(start, neighbour, level, alive, degree, order)
    total = np.zeros(1)
    gone = np.zeros(n, np.int8)
    for k in range(done):
        v = order[k]
        gone[v] = 1
        size = weight[v]
        for e in range(start[v], start[v + 1]):
            if gone[neighbour[e]] == 0:
                size *= weight[neighbour[e]]
        total[0] += size
    first = np.zeros(n, np.int64)
    count = np.zeros(n, np.int64)
    room = np.zeros(n, np.int64)
    pool = np.zeros(max(4 * len(neighbour), 16) if done < n else 0, np.int64)
    pending = np.zeros(n, np.int64)
    end, left = 0, 0
    for v in range(n):
        if alive[v]:
            first[v] = end
            for e in range(start[v], start[v + 1]):
                if alive[neighbour[e]]:
                    pool[end] = neighbour[e]
                    end += 1
            count[v] = end - first[v]
            room[v] = count[v]
            pending[left] = v
            left += 1
    sort_by(level, pending[:left])
    at = np.zeros(10, np.int64)
    at[_DONE], at[_LEFT], at[_END], at[_WORK] = done, left, end, n + len(neighbour)
    state = OrderSearch(
        order, first, count, room, np.zeros(n, np.int64), np.zeros(n), np.zeros(n, np.int64),
        np.zeros(n, np.int64), pending, np.zeros(n, np.int64), at, total,
    )  # fmt: skip
    return state, pool


@jit
def greedy_steps(state, pool, weight, level, heuristic, tie, noise, limit, most):
    """Eliminate until all is done, or about `most` list entries were looked at.

    Parameters
    ----------
    state, pool
        From `greedy_start` or an earlier call; the state changes in place.
    weight, level
        As there.
    heuristic
        A value of `HEURISTICS`.
    tie
        Random key per vertex.
    noise
        Factor per vertex on its cost (ones for none).
    limit
        Give up when the summed table sizes exceed this.

    Returns
    -------
    pool
        For the next call, which is due while `is_eliminating`.
    """
    order, first, count, room, mark = state.order, state.first, state.degree, state.room, state.mark
    cost, heap, place = state.cost, state.heap, state.place
    pending, touched = state.pending, state.touched
    n, left, until = len(order), state.at[_LEFT], state.at[_WORK] + most
    done, end, stamp = state.at[_DONE], state.at[_END], state.at[_STAMP]
    size, cursor, current = state.at[_SIZE], state.at[_CURSOR], state.at[_LEVEL]
    total, work = state.total[0], state.at[_WORK : _WORK + 1]
    following, changed = state.at[_NEXT], state.at[_CHANGED]
    while True:
        # What the last elimination changed.
        while following < changed and work[0] < until:
            u = touched[following]
            following += 1
            if level[u] > current:
                continue
            stamp += 1
            cost[u] = _cost(u, heuristic, pool, first, count, weight, mark, stamp, work) * noise[u]
            _settle(heap, place, size, cost, tie, u)
        if done == n or total > limit or work[0] >= until:
            break
        if size == 0:
            current = level[pending[cursor]]  # the level before it is used up
        while cursor < left and level[pending[cursor]] == current and work[0] < until:
            v = pending[cursor]
            cursor += 1
            stamp += 1
            cost[v] = _cost(v, heuristic, pool, first, count, weight, mark, stamp, work) * noise[v]
            place[v] = size
            size += 1
            _settle(heap, place, size, cost, tie, v)
        if cursor < left and level[pending[cursor]] == current:
            break
        v = _pop(heap, place, size, cost, tie)
        size -= 1
        order[done] = v
        done += 1
        begin, end_of_list = first[v], first[v] + count[v]
        entries = weight[v]
        for e in range(begin, end_of_list):
            entries *= weight[pool[e]]
        total += entries
        if total > limit:
            break
        # Join the neighbours pairwise and drop v from their lists.
        filled = False
        for e in range(begin, end_of_list):
            u = pool[e]
            stamp += 1
            mark[u] = stamp
            k = first[u]
            for g in range(first[u], first[u] + count[u]):
                w = pool[g]
                if w != v:
                    mark[w] = stamp
                    pool[k] = w
                    k += 1
            until -= count[u] + end_of_list - begin  # joining takes time, too
            count[u] = k - first[u]
            missing = 0
            for g in range(begin, end_of_list):
                if mark[pool[g]] != stamp:
                    missing += 1
            if missing == 0:
                continue
            filled = True
            if count[u] + missing > room[u]:
                need = 2 * (count[u] + missing)
                if end + need > len(pool):
                    pool = double(pool, end + need)
                for g in range(count[u]):
                    pool[end + g] = pool[first[u] + g]
                first[u], room[u] = end, need
                end += need
            for g in range(begin, end_of_list):
                w = pool[g]
                if mark[w] != stamp:
                    pool[first[u] + count[u]] = w
                    count[u] += 1
        # Costs change for the neighbours, and with new edges and a fill cost also one step further.
        stamp += 1
        following, changed = 0, 0
        for e in range(begin, end_of_list):
            u = pool[e]
            if mark[u] != stamp:
                mark[u] = stamp
                touched[changed] = u
                changed += 1
        if filled and (heuristic == 1 or heuristic == 2):
            near = changed
            for k in range(near):
                u = touched[k]
                for g in range(first[u], first[u] + count[u]):
                    w = pool[g]
                    if mark[w] != stamp:
                        mark[w] = stamp
                        touched[changed] = w
                        changed += 1
    state.at[_DONE], state.at[_END], state.at[_STAMP] = done, end, stamp
    state.at[_SIZE], state.at[_CURSOR], state.at[_LEVEL] = size, cursor, current
    state.at[_NEXT], state.at[_CHANGED] = following, changed
    state.total[0] = total
    return pool


def is_eliminating(state: OrderSearch, limit: float) -> bool:
    """Whether there is more to do: vertices are left, and the tables so far within the limit."""
    return bool(state.at[_DONE] < len(state.order) and state.total[0] <= limit)


def work_of(state: OrderSearch) -> int:
    """How many list entries were looked at."""
    return int(state.at[_WORK])


def hurried_order(state: OrderSearch, level: np.ndarray) -> np.ndarray:
    """An order from an elimination that was cut: what is left follows by level, few neighbours first."""
    done = state.at[_DONE]
    gone = np.zeros(len(state.order), dtype=bool)
    gone[state.order[:done]] = True
    rest = np.flatnonzero(~gone)
    return np.concatenate([state.order[:done], rest[np.lexsort((state.degree[rest], level[rest]))]])


@jit
def maximum_cardinality_order(start, neighbour, tie):
    """Reverse of the visiting order of maximum cardinality search; perfect on chordal graphs."""
    n = len(start) - 1
    visited = np.zeros(n, np.int8)
    missing = np.zeros(n)  # visited neighbours, counted downwards
    order = np.empty(n, np.int64)
    heap, place = np.empty(n, np.int64), np.empty(n, np.int64)
    for v in range(n):
        place[v] = v
        _settle(heap, place, v + 1, missing, tie, v)
    for k in range(n - 1, -1, -1):
        v = _pop(heap, place, k + 1, missing, tie)
        visited[v] = 1
        order[k] = v
        for e in range(start[v], start[v + 1]):
            u = neighbour[e]
            if not visited[u]:
                missing[u] -= 1.0
                _settle(heap, place, k, missing, tie, u)
    return order


@jit
def order_cost(start, neighbour, weight, order):
    """Cliques of a given elimination order, without the eliminated vertex's own entry repeated.

    Returns the clique of each step in CSR form (its vertex first), the sum of table sizes and log2
    of the largest. Higher neighbours are passed on to the next one in the order, so the cost is
    linear in the size of the filled graph.
    """
    n = len(order)
    rank = np.empty(len(start) - 1, np.int64)
    rank[:] = -1
    for k in range(n):
        rank[order[k]] = k
    head = np.full(n, -1, np.int64)  # children whose leftover neighbours come to this rank
    following = np.full(n, -1, np.int64)
    clique_start = np.zeros(n + 1, np.int64)
    clique = np.empty(max(2 * len(neighbour) + n, 16), np.int64)
    mark = np.full(len(start) - 1, -1, np.int64)
    total, widest = 0.0, 0.0
    end = 0
    for k in range(n):
        v = order[k]
        begin = end
        if end + len(mark) + 1 > len(clique):
            clique = double(clique, end + len(mark) + 1)
        clique[end] = v
        end += 1
        mark[v] = k
        entries = weight[v]
        for e in range(start[v], start[v + 1]):
            u = neighbour[e]
            if rank[u] > k and mark[u] != k:
                mark[u] = k
                clique[end] = u
                end += 1
                entries *= weight[u]
        child = head[k]
        while child >= 0:
            for e in range(clique_start[child] + 1, clique_start[child + 1]):
                u = clique[e]
                if mark[u] != k:
                    mark[u] = k
                    clique[end] = u
                    end += 1
                    entries *= weight[u]
            child = following[child]
        clique_start[k + 1] = end
        total += entries
        widest = max(widest, np.log2(entries))
        # Hand the remaining members to the earliest of them.
        nearest = n
        for e in range(begin + 1, end):
            nearest = min(nearest, rank[clique[e]])
        if nearest < n:
            following[k] = head[nearest]
            head[nearest] = k
    return clique_start, clique[:end].copy(), total, widest
