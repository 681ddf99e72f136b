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
heap; the rest uses a lazy binary heap and adjacency lists that grow in one pool.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["HEURISTICS", "greedy_order", "maximum_cardinality_order", "order_cost"]

HEURISTICS = {"min-degree": 0, "min-fill": 1, "weighted-min-fill": 2, "min-size": 3}


@jit
def _strip(start, neighbour, level, alive, degree, order):
    """Eliminate vertices of the lowest level with at most one neighbour; returns how many."""
    n = len(start) - 1
    lowest = level.min() if n else 0
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
def _push(keys, ties, items, stamps, size, key, tie, item, stamp):
    """Insert into the binary heap ordered by (key, tie)."""
    k = size
    while k > 0:
        parent = (k - 1) >> 1
        if keys[parent] < key or (keys[parent] == key and ties[parent] <= tie):
            break
        keys[k], ties[k], items[k], stamps[k] = keys[parent], ties[parent], items[parent], stamps[parent]
        k = parent
    keys[k], ties[k], items[k], stamps[k] = key, tie, item, stamp


@jit
def _pop(keys, ties, items, stamps, size):
    """Remove the root of a heap of `size` entries."""
    last = size - 1
    key, tie, item, stamp = keys[last], ties[last], items[last], stamps[last]
    k = 0
    while True:
        child = 2 * k + 1
        if child >= last:
            break
        right = child + 1
        if right < last and (
            keys[right] < keys[child] or (keys[right] == keys[child] and ties[right] < ties[child])
        ):
            child = right
        if key < keys[child] or (key == keys[child] and tie <= ties[child]):
            break
        keys[k], ties[k], items[k], stamps[k] = keys[child], ties[child], items[child], stamps[child]
        k = child
    keys[k], ties[k], items[k], stamps[k] = key, tie, item, stamp


@jit
def _double(array, least):
    grown = np.empty(max(2 * len(array), least), array.dtype)
    grown[: len(array)] = array
    return grown


@jit
def greedy_order(start, neighbour, weight, level, heuristic, tie, noise, limit):
    """Greedy order of all vertices.

    Parameters
    ----------
    start, neighbour
        Sorted adjacency lists in CSR form.
    weight
        Number of states of each vertex, as floats.
    level
        Vertices of a lower level are eliminated before those of a higher one.
    heuristic
        A value of `HEURISTICS`.
    tie
        Random key per vertex.
    noise
        Factor per vertex on its cost (ones for none).
    limit
        Give up when the summed table sizes exceed this; the order is then empty.

    Returns
    -------
    order, total, work
        The order, the sum of all clique table sizes, and how many list entries were looked at.
    """
    n = len(start) - 1
    order = np.empty(n, np.int64)
    alive = np.ones(n, np.int8)
    degree = np.empty(n, np.int64)
    for v in range(n):
        degree[v] = start[v + 1] - start[v]
    done = _strip(start, neighbour, level, alive, degree, order)
    total = 0.0
    gone = np.zeros(n, np.int8)
    for k in range(done):
        v = order[k]
        gone[v] = 1
        size = weight[v]
        for e in range(start[v], start[v + 1]):
            if gone[neighbour[e]] == 0:
                size *= weight[neighbour[e]]
        total += size
    if done == n:
        return order, total, n + len(neighbour)

    # Adjacency of what is left, in a pool where lists move to the end when they outgrow their room.
    first = np.zeros(n, np.int64)
    count = np.zeros(n, np.int64)
    room = np.zeros(n, np.int64)
    pool = np.empty(max(4 * len(neighbour), 16), np.int64)
    end = 0
    for v in range(n):
        if alive[v]:
            first[v] = end
            for e in range(start[v], start[v + 1]):
                if alive[neighbour[e]]:
                    pool[end] = neighbour[e]
                    end += 1
            count[v] = end - first[v]
            room[v] = count[v]
    mark = np.zeros(n, np.int64)
    stamp = 0
    work = np.full(1, n + len(neighbour), np.int64)
    version = np.zeros(n, np.int64)
    keys = np.empty(4 * n + 16)
    ties = np.empty(4 * n + 16)
    items = np.empty(4 * n + 16, np.int64)
    stamps = np.empty(4 * n + 16, np.int64)
    heap = 0
    touched = np.empty(n, np.int64)
    current = level[order[0]] if done else level.min()
    pending = np.empty(n, np.int64)  # alive vertices by level
    left = 0
    for v in range(n):
        if alive[v]:
            pending[left] = v
            left += 1
    by_level = np.argsort(level[pending[:left]], kind="mergesort")
    pending = pending[:left][by_level]
    cursor = 0
    while done < n:
        while heap == 0:
            # The current level is used up (or not yet entered): offer the next one.
            current = level[pending[cursor]]
            while cursor < left and level[pending[cursor]] == current:
                v = pending[cursor]
                cursor += 1
                stamp += 1
                cost = _cost(v, heuristic, pool, first, count, weight, mark, stamp, work) * noise[v]
                if heap == len(keys):
                    keys, ties = _double(keys, 16), _double(ties, 16)
                    items, stamps = _double(items, 16), _double(stamps, 16)
                _push(keys, ties, items, stamps, heap, cost, tie[v], v, version[v])
                heap += 1
        v, seen = items[0], stamps[0]
        _pop(keys, ties, items, stamps, heap)
        heap -= 1
        if not alive[v] or seen != version[v]:
            continue
        alive[v] = 0
        order[done] = v
        done += 1
        begin, size = first[v], count[v]
        entries = weight[v]
        for e in range(begin, begin + size):
            entries *= weight[pool[e]]
        total += entries
        if total > limit:
            return order[:0], total, work[0]
        # Join the neighbours pairwise and drop v from their lists.
        filled = False
        for e in range(begin, begin + size):
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
            count[u] = k - first[u]
            missing = 0
            for g in range(begin, begin + size):
                if mark[pool[g]] != stamp:
                    missing += 1
            if missing == 0:
                continue
            filled = True
            if count[u] + missing > room[u]:
                need = 2 * (count[u] + missing)
                if end + need > len(pool):
                    pool = _double(pool, end + need)
                for g in range(count[u]):
                    pool[end + g] = pool[first[u] + g]
                first[u], room[u] = end, need
                end += need
            for g in range(begin, begin + size):
                w = pool[g]
                if mark[w] != stamp:
                    pool[first[u] + count[u]] = w
                    count[u] += 1
        # Costs change for the neighbours, and with new edges and a fill cost also one step further.
        stamp += 1
        changed = 0
        for e in range(begin, begin + size):
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
        for k in range(changed):
            u = touched[k]
            if level[u] > current:
                continue
            stamp += 1
            cost = _cost(u, heuristic, pool, first, count, weight, mark, stamp, work) * noise[u]
            version[u] += 1
            if heap == len(keys):
                keys, ties = _double(keys, 16), _double(ties, 16)
                items, stamps = _double(items, 16), _double(stamps, 16)
            _push(keys, ties, items, stamps, heap, cost, tie[u], u, version[u])
            heap += 1
    return order, total, work[0]


@jit
def maximum_cardinality_order(start, neighbour, tie):
    """Reverse of the visiting order of maximum cardinality search; perfect on chordal graphs."""
    n = len(start) - 1
    visited = np.zeros(n, np.int8)
    seen = np.zeros(n, np.int64)
    order = np.empty(n, np.int64)
    # A lazy heap over -|visited neighbours|.
    room = n + len(neighbour) + 1
    keys, ties = np.empty(room), np.empty(room)
    items, stamps = np.empty(room, np.int64), np.empty(room, np.int64)
    heap = 0
    for v in range(n):
        _push(keys, ties, items, stamps, heap, 0.0, tie[v], v, 0)
        heap += 1
    k = n
    while k > 0:
        v, count = items[0], stamps[0]
        _pop(keys, ties, items, stamps, heap)
        heap -= 1
        if visited[v] or count != seen[v]:
            continue
        visited[v] = 1
        k -= 1
        order[k] = v
        for e in range(start[v], start[v + 1]):
            u = neighbour[e]
            if not visited[u]:
                seen[u] += 1
                _push(keys, ties, items, stamps, heap, -float(seen[u]), tie[u], u, seen[u])
                heap += 1
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
            clique = _double(clique, end + len(mark) + 1)
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
