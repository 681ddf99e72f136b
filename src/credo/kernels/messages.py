"""Belief propagation on flat arrays, for any arity, any state counts and any schedule.

One iteration serves BP, tree-reweighted BP, fractional BP and alpha-BP. Factor a sends M_{a->i}; with
B_j the product of all messages at variable j,

    S_{a->i}(x_i) = op_{x_a without x_i} psi_a(x_a)^alpha prod_{j in a, j != i} B_j(x_j) M_{a->j}(x_j)^-alpha
    log M_new     = (1 - eta) log M + (eta / alpha) log S                       (then normalised)

alpha = 1 is BP; alpha = 1 / rho is tree-reweighted BP; eta = alpha is alpha-BP; eta < 1 damps.

`op` sums, or maximises, or both (mixed-product BP): a message to a maximised variable sums over the
summed variables and then maximises; a message to a summed variable sums over everything, the
maximised variables being confined to the states that maximise their current belief.

Three kernels: `log_*` works with logarithms and admits zeros: a belief is a finite sum and a
count of zero messages, so that a message can be divided out of a product even when it is zero.
`linear_*` works with positive normalised numbers, several times faster, for plain BP on positive
tables of moderate range. `binary_*` keeps one ratio m(1) / m(0) per message, for pairwise binary models.
"""

from __future__ import annotations

import numba
import numpy as np

from .jit import jit

__all__ = [
    "binary_ordered",
    "binary_read",
    "binary_residual",
    "binary_sweeps",
    "binary_sweeps_parallel",
    "constant_messages",
    "factor_depths",
    "linear_sweeps",
    "log_beliefs",
    "log_factor_beliefs",
    "log_residual",
    "log_sweeps",
    "prepare_binary",
    "reweighted_log_z",
    "survey",
]


@jit
def log_beliefs(wiring_scope, edge_state_start, state_start, messages, belief, zeros):
    """Sum of the log messages at each variable: the finite part, and how many are -inf."""
    belief[:] = 0.0
    zeros[:] = 0
    for e in range(len(wiring_scope)):
        first = state_start[wiring_scope[e]]
        begin = edge_state_start[e]
        for k in range(edge_state_start[e + 1] - begin):
            value = messages[begin + k]
            if value == -np.inf:
                zeros[first + k] += 1
            else:
                belief[first + k] += value


@jit
def _cavity(e, i, alpha, edge_state_start, state_start, messages, belief, zeros, out):
    """log B_i - alpha log M_e, normalised to a maximum of zero, with zeros divided out exactly."""
    begin, first = edge_state_start[e], state_start[i]
    size = edge_state_start[e + 1] - begin
    top = -np.inf
    for k in range(size):
        own = messages[begin + k]
        if own == -np.inf:
            value = belief[first + k] if (alpha == 1.0 and zeros[first + k] == 1) else -np.inf
        else:
            value = belief[first + k] - alpha * own if zeros[first + k] == 0 else -np.inf
        out[k] = value
        top = max(top, value)
    if top > -np.inf:
        for k in range(size):
            out[k] -= top


@jit
def _confine(i, state_start, belief, zeros, out):
    """Keep only the states that maximise the belief of variable i."""
    top = -np.inf
    for k in range(state_start[i], state_start[i + 1]):
        if zeros[k] == 0:
            top = max(top, belief[k])
    for k in range(state_start[i], state_start[i + 1]):
        if zeros[k] > 0 or belief[k] < top - 1e-9 * max(1.0, abs(top)):
            out[k - state_start[i]] = -np.inf


@jit
def _send(
    a, axis, alpha, scope_start, scope, sizes, state_start, table, heat, cavity, confined, temp, peak, out
):
    """log S_{a->i} for the variable on one axis, normalised to sum to one; False if all is impossible."""
    first, arity = scope_start[a], scope_start[a + 1] - scope_start[a]
    target = scope[first + axis]
    maximising = heat[target] == 0.0
    # Strides in the table and in the smaller one over the target and, if maximising, its maximised
    # companions, the target outermost.
    total = 1
    step = np.zeros(arity, np.int64)
    digit = np.zeros(arity, np.int64)
    kept = 1
    for k in range(arity - 1, -1, -1):
        j = scope[first + k]
        total *= sizes[j]
        if k != axis and maximising and heat[j] == 0.0:
            step[k] = kept
            kept *= sizes[j]
    step[axis] = kept
    groups = kept
    kept *= sizes[target]
    peak[:kept] = -np.inf
    temp[:kept] = 0.0
    for turn in range(2):
        where = 0
        digit[:] = 0
        for entry in range(total):
            value = alpha * table[entry] if table[entry] > -np.inf else -np.inf
            if value > -np.inf:
                for k in range(arity):
                    if k != axis:
                        source = cavity if maximising else confined
                        value += source[k, digit[k]]
                if turn == 0:
                    peak[where] = max(peak[where], value)
                elif value > -np.inf:
                    temp[where] += np.exp(value - peak[where])
            k = arity - 1
            while k >= 0:
                digit[k] += 1
                where += step[k]
                if digit[k] < sizes[scope[first + k]]:
                    break
                where -= step[k] * digit[k]
                digit[k] = 0
                k -= 1
    top = -np.inf
    for x in range(sizes[target]):
        best = -np.inf
        for g in range(groups):
            q = x * groups + g
            if temp[q] > 0.0:
                best = max(best, peak[q] + np.log(temp[q]))
        out[x] = best / alpha
        top = max(top, out[x])
    if top == -np.inf:
        return False
    norm = 0.0
    for x in range(sizes[target]):
        norm += np.exp(out[x] - top)
    norm = top + np.log(norm)
    for x in range(sizes[target]):
        out[x] -= norm
    return True


@jit
def _mix(old, new, eta, linear):
    """Damped log message: the weight eta goes to the new one; zeros follow the new one."""
    if eta == 1.0 or new == -np.inf or old == -np.inf:
        return new
    if linear:
        return np.log((1.0 - eta) * np.exp(old) + eta * np.exp(new))
    return (1.0 - eta) * old + eta * new


@jit
def _update_factor(
    a, alpha, eta, linear, scope_start, scope, sizes, state_start, edge_state_start, tables, table_start, heat,
    messages, belief, zeros, target, work, commit,
):  # fmt: skip
    """New messages of factor a into `target`; with `commit` beliefs follow at once. Returns the change.

    A negative change says that no state of the factor is possible.
    """
    cavity, confined, temp, peak, out = work
    first, last = scope_start[a], scope_start[a + 1]
    mixed = False
    size = 1
    for e in range(first, last):
        i = scope[e]
        size *= sizes[i]
        _cavity(e, i, alpha, edge_state_start, state_start, messages, belief, zeros, cavity[e - first])
        confined[e - first, : sizes[i]] = cavity[e - first, : sizes[i]]
        if heat[i] == 0.0:
            mixed = True
            _confine(i, state_start, belief, zeros, confined[e - first])
    table = tables[table_start[a] : table_start[a] + size]
    change = 0.0
    for axis in range(last - first):
        e = first + axis
        i = scope[e]
        begin = edge_state_start[e]
        fine = _send(
            a, axis, alpha, scope_start, scope, sizes, state_start, table, heat, cavity, confined, temp, peak, out
        )
        if not fine and mixed:
            # Confinement left nothing possible: fall back to the plain sum for this message.
            fine = _send(
                a, axis, alpha, scope_start, scope, sizes, state_start, table, heat, cavity, cavity, temp, peak, out
            )
        if not fine:
            return -1.0
        top = -np.inf
        for k in range(sizes[i]):
            out[k] = _mix(messages[begin + k], out[k], eta, linear)
            top = max(top, out[k])
        # A step above one extrapolates: the largest entry may be far from zero.
        norm = 0.0
        for k in range(sizes[i]):
            norm += np.exp(out[k] - top)
        norm = top + np.log(norm)
        for k in range(sizes[i]):
            old, new = messages[begin + k], out[k] - norm
            change = max(change, abs(np.exp(new) - np.exp(old)))
            target[begin + k] = new
            if commit:
                s = state_start[i] + k
                if old == -np.inf:
                    zeros[s] -= 1
                else:
                    belief[s] -= old
                if new == -np.inf:
                    zeros[s] += 1
                else:
                    belief[s] += new
    return change


@jit
def _workspace(scope_start, scope, sizes):
    """Scratch for one factor: cavities per axis, sums, peaks and the outgoing message."""
    arity, widest, largest = 1, 1, 1
    for a in range(len(scope_start) - 1):
        arity = max(arity, scope_start[a + 1] - scope_start[a])
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            widest = max(widest, sizes[scope[e]])
            size *= sizes[scope[e]]
        largest = max(largest, size)
    return (
        np.empty((arity, widest)),
        np.empty((arity, widest)),
        np.empty(largest),
        np.empty(largest),
        np.empty(widest),
    )


@jit
def log_sweeps(
    order, asynchronous, power, step, linear, scope_start, scope, sizes, state_start, edge_state_start, tables,
    table_start, heat, messages, sweeps, tol,
):  # fmt: skip
    """Sweeps over the factors in the given orders (rows, used in turn); messages change in place.

    Asynchronous sweeps use every new message at once; synchronous ones (flooding) compute all from
    the old ones. Returns the largest change of each sweep done; a negative entry says that the
    factors contradict each other.
    """
    belief = np.zeros(state_start[-1])
    zeros = np.zeros(state_start[-1], np.int64)
    work = _workspace(scope_start, scope, sizes)
    target = messages if asynchronous else messages.copy()
    changes = np.zeros(sweeps)
    for turn in range(sweeps):
        # Fresh sums once a sweep keep rounding from piling up in the running ones.
        log_beliefs(scope, edge_state_start, state_start, messages, belief, zeros)
        change = 0.0
        row = order[turn % len(order)]
        for q in range(len(row)):
            a = row[q]
            moved = _update_factor(
                a, power[a], step[a], linear, scope_start, scope, sizes, state_start, edge_state_start, tables,
                table_start, heat, messages, belief, zeros, target, work, asynchronous,
            )  # fmt: skip
            if moved < 0.0:
                changes[turn] = -1.0
                return changes[: turn + 1]
            change = max(change, moved)
        if not asynchronous:
            messages[:] = target
        changes[turn] = change
        if change < tol:
            return changes[: turn + 1]
    return changes


@jit
def _sift(heap, place, key, k):
    """Restore the max-heap of factors around position k."""
    item = heap[k]
    while k > 0:
        parent = (k - 1) >> 1
        if key[heap[parent]] >= key[item]:
            break
        heap[k] = heap[parent]
        place[heap[k]] = k
        k = parent
    while True:
        child = 2 * k + 1
        if child >= len(heap):
            break
        if child + 1 < len(heap) and key[heap[child + 1]] > key[heap[child]]:
            child += 1
        if key[heap[child]] <= key[item]:
            break
        heap[k] = heap[child]
        place[heap[k]] = k
        k = child
    heap[k] = item
    place[item] = k


@jit
def log_residual(
    active, power, step, linear, scope_start, scope, sizes, state_start, edge_state_start, neighbour_start,
    neighbour_edge, edge_factor, tables, table_start, heat, messages, updates, tol,
):  # fmt: skip
    """Always update the factor whose messages would change most; messages change in place.

    Returns the number of updates done and the largest residual left (negative: contradiction).
    """
    factors = len(scope_start) - 1
    belief = np.zeros(state_start[-1])
    zeros = np.zeros(state_start[-1], np.int64)
    work = _workspace(scope_start, scope, sizes)
    target = messages.copy()
    key = np.full(factors, -1.0)
    log_beliefs(scope, edge_state_start, state_start, messages, belief, zeros)
    for q in range(len(active)):
        a = active[q]
        key[a] = _update_factor(
            a, power[a], step[a], linear, scope_start, scope, sizes, state_start, edge_state_start, tables,
            table_start, heat, messages, belief, zeros, target, work, False,
        )  # fmt: skip
        if key[a] < 0.0:
            return 0, -1.0
    heap = active.copy()
    place = np.zeros(factors, np.int64)
    for k in range(len(heap)):
        place[heap[k]] = k
    for k in range(len(heap) - 1, -1, -1):
        _sift(heap, place, key, k)
    done = 0
    while done < updates and len(heap) and key[heap[0]] >= tol:
        a = heap[0]
        done += 1
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            for k in range(sizes[i]):
                s, old, new = state_start[i] + k, messages[edge_state_start[e] + k], target[edge_state_start[e] + k]
                if old == -np.inf:
                    zeros[s] -= 1
                else:
                    belief[s] -= old
                if new == -np.inf:
                    zeros[s] += 1
                else:
                    belief[s] += new
                messages[edge_state_start[e] + k] = new
        if done % 1024 == 0:
            log_beliefs(scope, edge_state_start, state_start, messages, belief, zeros)
        # With a step below one the factor itself has more to say; it is refreshed with its neighbours.
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            for g in range(neighbour_start[i], neighbour_start[i + 1]):
                b = edge_factor[neighbour_edge[g]]
                if key[b] < 0.0:
                    continue
                moved = _update_factor(
                    b, power[b], step[b], linear, scope_start, scope, sizes, state_start, edge_state_start,
                    tables, table_start, heat, messages, belief, zeros, target, work, False,
                )  # fmt: skip
                if moved < 0.0:
                    return done, -1.0
                key[b] = moved
                _sift(heap, place, key, place[b])
    return done, key[heap[0]] if len(heap) else 0.0


@jit
def log_factor_beliefs(
    power, scope_start, scope, sizes, state_start, edge_state_start, tables, table_start, messages, belief, zeros
):
    """Normalised factor beliefs b_a ~ psi_a^alpha prod_j B_j M_{a->j}^-alpha, one after another."""
    factors = len(scope_start) - 1
    start = np.zeros(factors + 1, np.int64)
    for a in range(factors):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            size *= sizes[scope[e]]
        start[a + 1] = start[a] + size
    out = np.empty(start[-1])
    cavity = _workspace(scope_start, scope, sizes)[0]
    digit = np.zeros(len(cavity), np.int64)
    for a in range(factors):
        first, arity = scope_start[a], scope_start[a + 1] - scope_start[a]
        for k in range(arity):
            e = first + k
            _cavity(e, scope[e], power[a], edge_state_start, state_start, messages, belief, zeros, cavity[k])
            digit[k] = 0
        top = -np.inf
        for entry in range(start[a], start[a + 1]):
            theta = tables[table_start[a] + entry - start[a]]
            value = -np.inf
            if theta > -np.inf:
                value = power[a] * theta
                for k in range(arity):
                    value += cavity[k, digit[k]]
            out[entry] = value
            top = max(top, value)
            k = arity - 1
            while k >= 0:
                digit[k] += 1
                if digit[k] < sizes[scope[first + k]]:
                    break
                digit[k] = 0
                k -= 1
        total = 0.0
        for entry in range(start[a], start[a + 1]):
            out[entry] = np.exp(out[entry] - top) if top > -np.inf else np.nan
            total += out[entry]
        for entry in range(start[a], start[a + 1]):
            out[entry] /= total
    return out


_U = np.uint64  # unsigned positions spare the test for negative indices at each access


@jit
def _divide(belief, s, messages, g, size, cavity, c):
    """Cavity of one edge, belief over message, from position c on."""
    for k in range(size):
        cavity[c + k] = belief[s + k] / messages[g + k]


@jit
def _pair(psi, t, d0, d1, cavity, out, width):
    """Both messages of a pairwise table that begins at t; the second axis lies `width` further."""
    for y in range(d1):
        out[width + y] = 0.0
    for x in range(d0):
        here, weight, row = 0.0, cavity[x], t + x * d1
        for y in range(d1):
            value = psi[row + y]
            here += value * cavity[width + y]
            out[width + y] += value * weight
        out[x] = here


@jit
def _triple(psi, t, d0, d1, d2, cavity, out, width):
    """All three messages of a three-way table that begins at t."""
    third = width + width
    for y in range(d1):
        out[width + y] = 0.0
    for z in range(d2):
        out[third + z] = 0.0
    for x in range(d0):
        total, weight = 0.0, cavity[x]
        for y in range(d1):
            row = t + (x * d1 + y) * d2
            middle = cavity[width + y]
            here, both = 0.0, weight * middle
            for z in range(d2):
                value = psi[row + z]
                here += value * cavity[third + z]
                out[third + z] += value * both
            total += here * middle
            out[width + y] += here * weight
        out[x] = total


@jit
def _many(psi, t, n, dims, cavity, out, width, digit):
    """All messages of a table of any arity; positive cavities are divided out of the joint sums."""
    size = 1
    for j in range(n):
        size *= dims[j]
        digit[j] = 0
        for k in range(dims[j]):
            out[j * width + k] = 0.0
    for entry in range(size):
        value = psi[t + entry]
        for j in range(n):
            value *= cavity[j * width + digit[j]]
        for j in range(n):
            out[j * width + digit[j]] += value
        j = n - 1
        while j >= 0:
            digit[j] += 1
            if digit[j] < dims[j]:
                break
            digit[j] = 0
            j -= 1
    for j in range(n):
        for k in range(dims[j]):
            out[j * width + k] /= cavity[j * width + k]


@jit
def _store(out, cavity, c, size, messages, g, fresh, belief, s, asynchronous):
    """Normalise a message to mean one and put it in place; returns its change in probability."""
    total = 0.0
    for k in range(size):
        total += out[c + k]
    total = float(size) / total
    change = 0.0
    for k in range(size):
        old, new = messages[g + k], out[c + k] * total
        change = max(change, abs(new - old))
        fresh[g + k] = new
    if asynchronous:
        for k in range(size):
            belief[s + k] = cavity[c + k] * out[c + k] * total
    return change / float(size)


@jit
def linear_sweeps(
    order, asynchronous, scope_start, scope, sizes, state_start, edge_state_start, psi, table_start, constant,
    messages, sweeps, tol,
):  # fmt: skip
    """Plain BP in positive numbers over the listed factors (rows of `order`, in turn); in place.

    `constant` holds the product of the constant messages per state; messages have mean one, so that
    products stay near one. Returns the largest change of each sweep done.
    """
    widest, arity = 1, 3
    for q in range(len(order[0])):
        a = order[0, q]
        arity = max(arity, scope_start[a + 1] - scope_start[a])
        for e in range(scope_start[a], scope_start[a + 1]):
            widest = max(widest, sizes[scope[e]])
    belief = np.empty(state_start[-1])
    cavity = np.empty(arity * widest)
    out = np.empty(arity * widest)
    digit = np.zeros(arity, np.int64)
    dims = np.zeros(arity, np.int64)
    width = _U(widest)
    fresh = messages if asynchronous else messages.copy()
    changes = np.zeros(sweeps)
    for turn in range(sweeps):
        row = turn % len(order)
        belief[:] = constant
        for q in range(order.shape[1]):
            a = order[row, q]
            for e in range(scope_start[a], scope_start[a + 1]):
                s, g = _U(state_start[scope[e]]), _U(edge_state_start[e])
                for k in range(_U(sizes[scope[e]])):
                    belief[s + k] *= messages[g + k]
        change = 0.0
        for q in range(order.shape[1]):
            a = order[row, q]
            first = scope_start[a]
            n = scope_start[a + 1] - first
            t = _U(table_start[a])
            for j in range(n):
                i = scope[first + j]
                dims[j] = sizes[i]
                _divide(
                    belief, _U(state_start[i]), messages, _U(edge_state_start[first + j]), _U(dims[j]), cavity,
                    _U(j) * width,
                )  # fmt: skip
            if n == 2:
                _pair(psi, t, _U(dims[0]), _U(dims[1]), cavity, out, width)
            elif n == 3:
                _triple(psi, t, _U(dims[0]), _U(dims[1]), _U(dims[2]), cavity, out, width)
            else:
                _many(psi, table_start[a], n, dims, cavity, out, widest, digit)
            for j in range(n):
                moved = _store(
                    out, cavity, _U(j) * width, _U(dims[j]), messages, _U(edge_state_start[first + j]), fresh,
                    belief, _U(state_start[scope[first + j]]), asynchronous,
                )  # fmt: skip
                change = max(change, moved)
        if not asynchronous:
            messages[:] = fresh
        changes[turn] = change
        if change < tol:
            return changes[: turn + 1]
    return changes


@jit
def _binary_pair(p, a, ci, cj):
    """Ratios sent by pairwise factor a, given the cavity ratios of its two variables."""
    to_i = (p[a, 2] + p[a, 3] * cj) / (p[a, 0] + p[a, 1] * cj)
    to_j = (p[a, 1] + p[a, 3] * ci) / (p[a, 0] + p[a, 2] * ci)
    return to_i, to_j


@jit
def _larger_gap(change, new, old):
    """The larger of `change` and the change in probability from ratio `old` to `new`."""
    gap, scale = abs(new - old), (1.0 + new) * (1.0 + old)
    return gap / scale if gap > change * scale else change  # divide only for a new maximum


@jit
def binary_sweeps(first, second, p, prior, ratio, sweeps, tol):
    """Flooding BP on pairwise binary factors, one ratio m(1)/m(0) per message; in place.

    Factor a joins variables first[a] and second[a] with the table p[a] = (p00, p01, p10, p11);
    `prior` is the ratio of the unary factors, `ratio[a]` the messages to the first and the second.
    Returns the largest change, in probability, of each sweep done.
    """
    belief = np.empty(len(prior))
    changes = np.zeros(sweeps)
    for turn in range(sweeps):
        _binary_beliefs(first, second, prior, ratio, belief)
        change = 0.0
        for a in range(len(first)):
            r, s = ratio[a, 0], ratio[a, 1]
            to_i, to_j = _binary_pair(p, a, belief[first[a]] / r, belief[second[a]] / s)
            change = _larger_gap(_larger_gap(change, to_i, r), to_j, s)
            ratio[a, 0], ratio[a, 1] = to_i, to_j
        changes[turn] = change
        if change < tol:
            return changes[: turn + 1]
    return changes


@jit
def _binary_beliefs(first, second, prior, ratio, belief):
    belief[:] = prior
    for a in range(len(first)):
        belief[first[a]] *= ratio[a, 0]
        belief[second[a]] *= ratio[a, 1]


@jit
def binary_ordered(order, first, second, p, prior, ratio, sweeps, tol):
    """As `binary_sweeps`, but every new message is used at once; rows of `order` are taken in turn."""
    belief = np.empty(len(prior))
    changes = np.zeros(sweeps)
    for turn in range(sweeps):
        _binary_beliefs(first, second, prior, ratio, belief)
        change = 0.0
        row = order[turn % len(order)]
        for q in range(len(row)):
            a = row[q]
            i, j = first[a], second[a]
            r, s = ratio[a, 0], ratio[a, 1]
            ci, cj = belief[i] / r, belief[j] / s
            to_i, to_j = _binary_pair(p, a, ci, cj)
            change = _larger_gap(_larger_gap(change, to_i, r), to_j, s)
            ratio[a, 0], ratio[a, 1] = to_i, to_j
            belief[i], belief[j] = ci * to_i, cj * to_j
        changes[turn] = change
        if change < tol:
            return changes[: turn + 1]
    return changes


@jit
def binary_residual(first, second, p, prior, around_start, around, ratio, updates, tol):
    """As `log_residual` for pairwise binary factors; `around` lists 2 a + side per variable."""
    m = len(first)
    belief = np.empty(len(prior))
    _binary_beliefs(first, second, prior, ratio, belief)
    new = np.empty((m, 2))
    key = np.empty(m)
    for a in range(m):
        new[a, 0], new[a, 1] = _binary_pair(p, a, belief[first[a]] / ratio[a, 0], belief[second[a]] / ratio[a, 1])
        key[a] = _larger_gap(_larger_gap(0.0, new[a, 0], ratio[a, 0]), new[a, 1], ratio[a, 1])
    heap, place = np.arange(m), np.arange(m)
    for k in range(m - 1, -1, -1):
        _sift(heap, place, key, k)
    done = 0
    while done < updates and m and key[heap[0]] >= tol:
        a = heap[0]
        done += 1
        i, j = first[a], second[a]
        belief[i] *= new[a, 0] / ratio[a, 0]
        belief[j] *= new[a, 1] / ratio[a, 1]
        ratio[a, 0], ratio[a, 1] = new[a, 0], new[a, 1]
        key[a] = 0.0
        _sift(heap, place, key, place[a])
        if done % 65536 == 0:
            _binary_beliefs(first, second, prior, ratio, belief)
        for side in range(2):
            v = i if side == 0 else j
            for g in range(around_start[v], around_start[v + 1]):
                b = around[g] >> 1
                if b == a:
                    continue
                ci, cj = belief[first[b]] / ratio[b, 0], belief[second[b]] / ratio[b, 1]
                new[b, 0], new[b, 1] = _binary_pair(p, b, ci, cj)
                key[b] = _larger_gap(_larger_gap(0.0, new[b, 0], ratio[b, 0]), new[b, 1], ratio[b, 1])
                _sift(heap, place, key, place[b])
    return done, key[heap[0]] if m else 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def binary_sweeps_parallel(first, second, p, prior, around_start, around, ratio, sweeps, tol):
    """Flooding as in `binary_sweeps`, over all cores; `around` lists 2 a + side per variable."""
    n, m = len(prior), len(first)
    belief = np.empty(n)
    changes = np.zeros(sweeps)
    flat = ratio.reshape(2 * m)
    blocks = 64
    worst = np.zeros(blocks)
    for turn in range(sweeps):
        for i in numba.prange(n):
            value = prior[i]
            for e in range(around_start[i], around_start[i + 1]):
                value *= flat[around[e]]
            belief[i] = value
        for block in numba.prange(blocks):
            change = 0.0
            for a in range(block * m // blocks, (block + 1) * m // blocks):
                r, s = ratio[a, 0], ratio[a, 1]
                to_i, to_j = _binary_pair(p, a, belief[first[a]] / r, belief[second[a]] / s)
                change = _larger_gap(_larger_gap(change, to_i, r), to_j, s)
                ratio[a, 0], ratio[a, 1] = to_i, to_j
            worst[block] = change
        changes[turn] = worst.max()
        if changes[turn] < tol:
            return changes[: turn + 1]
    return changes


@jit
def factor_depths(scope_start, scope, neighbour_start, neighbour_edge, edge_factor):
    """Breadth-first depth of each factor from the first variable of its part of the graph."""
    n, m = len(neighbour_start) - 1, len(scope_start) - 1
    depth = np.full(m, -1, np.int64)
    reached = np.zeros(n, np.int8)
    queue = np.empty(n, np.int64)
    level = np.zeros(n, np.int64)
    for root in range(n):
        if reached[root]:
            continue
        reached[root] = 1
        queue[0] = root
        head, tail = 0, 1
        while head < tail:
            i = queue[head]
            head += 1
            for g in range(neighbour_start[i], neighbour_start[i + 1]):
                a = edge_factor[neighbour_edge[g]]
                if depth[a] >= 0:
                    continue
                depth[a] = level[i]
                for e in range(scope_start[a], scope_start[a + 1]):
                    j = scope[e]
                    if not reached[j]:
                        reached[j] = 1
                        level[j] = level[i] + 1
                        queue[tail] = j
                        tail += 1
    return depth


@jit
def reweighted_log_z(rho, scope_start, scope, tables, table_start, state_start, factor_beliefs, marginals):
    """sum_a <theta_a> + sum_a rho_a H(b_a) + sum_i (1 - sum_{a at i} rho_a) H(b_i)."""
    total = 0.0
    share = np.ones(len(state_start) - 1)
    begin = 0
    for a in range(len(scope_start) - 1):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            size *= state_start[i + 1] - state_start[i]
            share[i] -= rho[a]
        for k in range(size):
            b = factor_beliefs[begin + k]
            if b > 0.0:
                total += b * (tables[table_start[a] + k] - rho[a] * np.log(b))
        begin += size
    for i in range(len(share)):
        for s in range(state_start[i], state_start[i + 1]):
            if marginals[s] > 0.0:
                total -= share[i] * marginals[s] * np.log(marginals[s])
    return total


@jit
def survey(scope_start, scope, sizes, tables, table_start):
    """What decides the form of a problem.

    Returns the number of variables with several states in each factor, and the largest sum, over the
    factors around a variable, of their log ranges (inf if a table has a zero).
    """
    m = len(scope_start) - 1
    free = np.zeros(m, np.int64)
    around = np.zeros(len(sizes))
    for a in range(m):
        size = 1
        for e in range(scope_start[a], scope_start[a + 1]):
            size *= sizes[scope[e]]
            if sizes[scope[e]] > 1:
                free[a] += 1
        low, high = np.inf, -np.inf
        for k in range(table_start[a], table_start[a] + size):
            low, high = min(low, tables[k]), max(high, tables[k])
        spread = np.inf if low == -np.inf else high - low
        for e in range(scope_start[a], scope_start[a + 1]):
            around[scope[e]] += spread
    largest = 0.0
    for i in range(len(sizes)):
        largest = max(largest, around[i])
    return free, largest


@jit
def constant_messages(free, scope_start, scope, sizes, state_start, tables, table_start):
    """Sum, per flat state, of the log tables of the factors with a single variable of several states."""
    constant = np.zeros(state_start[-1])
    for a in range(len(scope_start) - 1):
        if free[a] != 1:
            continue
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            if sizes[i] > 1:
                for k in range(sizes[i]):
                    constant[state_start[i] + k] += tables[table_start[a] + k]
    return constant


@jit
def prepare_binary(active, constant, scope_start, scope, sizes, state_start, tables, table_start):
    """Arrays of `binary_sweeps` for the active factors, and the two edges of each."""
    m = len(active)
    first, second = np.empty(m, np.int64), np.empty(m, np.int64)
    edges = np.empty((m, 2), np.int64)
    p = np.empty((m, 4))
    for q in range(m):
        a = active[q]
        side = 0
        for e in range(scope_start[a], scope_start[a + 1]):
            if sizes[scope[e]] > 1:
                edges[q, side] = e
                side += 1
        first[q], second[q] = scope[edges[q, 0]], scope[edges[q, 1]]
        t = table_start[a]
        top = max(max(tables[t], tables[t + 1]), max(tables[t + 2], tables[t + 3]))
        for k in range(4):
            p[q, k] = np.exp(tables[t + k] - top)
    prior = np.ones(len(sizes))
    for i in range(len(sizes)):
        if sizes[i] > 1:
            prior[i] = np.exp(constant[state_start[i] + 1] - constant[state_start[i]])
    return first, second, p, prior, edges


@jit
def binary_read(
    active, free, first, second, p, prior, ratio, scope_start, scope, sizes, state_start, tables, table_start
):
    """Marginals, factor beliefs and the Bethe log Z of a binary state."""
    n, m = len(sizes), len(scope_start) - 1
    belief = np.empty(n)
    _binary_beliefs(first, second, prior, ratio, belief)
    marginals = np.ones(state_start[-1])
    entropy = np.zeros(n)
    for i in range(n):
        if sizes[i] > 1:
            one = belief[i] / (1.0 + belief[i])
            zero = 1.0 / (1.0 + belief[i])
            marginals[state_start[i]], marginals[state_start[i] + 1] = zero, one
            entropy[i] = (-zero * np.log(zero) if zero > 0.0 else 0.0) - (one * np.log(one) if one > 0.0 else 0.0)
    start = np.zeros(m + 1, np.int64)
    for a in range(m):
        start[a + 1] = start[a] + (1 << free[a])
    out = np.empty(start[m])
    value = 0.0
    for i in range(n):
        value += entropy[i]
    for a in range(m):
        t = table_start[a]
        if free[a] == 0:
            out[start[a]] = 1.0
            value += tables[t]
        elif free[a] == 1:
            for e in range(scope_start[a], scope_start[a + 1]):
                i = scope[e]
                if sizes[i] > 1:
                    for k in range(2):
                        out[start[a] + k] = marginals[state_start[i] + k]
                        value += out[start[a] + k] * tables[t + k]
    for q in range(len(active)):
        a = active[q]
        ci, cj = belief[first[q]] / ratio[q, 0], belief[second[q]] / ratio[q, 1]
        b = out[start[a] : start[a] + 4]
        b[0], b[1], b[2], b[3] = p[q, 0], p[q, 1] * cj, p[q, 2] * ci, p[q, 3] * ci * cj
        norm = 1.0 / (b[0] + b[1] + b[2] + b[3])
        for k in range(4):
            b[k] *= norm
            if b[k] > 0.0:
                value += b[k] * (tables[table_start[a] + k] - np.log(b[k]))
        value -= entropy[first[q]] + entropy[second[q]]
    return marginals, out, value
