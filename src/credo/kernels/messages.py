"""Belief propagation on flat arrays, for any arity, any state counts and any schedule.

One iteration serves BP, tree-reweighted BP, fractional BP and alpha-BP. Factor a sends M_{a->i}; with
B_j the product of all messages at variable j,

    S_{a->i}(x_i) = op_{x_a without x_i} psi_a(x_a)^alpha prod_{j in a, j != i} B_j(x_j) M_{a->j}(x_j)^-alpha
    log M_new     = (1 - eta) log M + (eta / alpha) log S                       (then normalised)

alpha = 1 is BP; alpha = 1 / rho is tree-reweighted BP; eta = alpha is alpha-BP; eta < 1 damps.

`op` sums, or maximises, or both (mixed-product BP): a message to a maximised variable sums over the
summed variables and then maximises; a message to a summed variable sums over everything, the
maximised variables being confined to the states that maximise their current belief.

These kernels work with logarithms and admit zeros: a belief is a finite sum and a count of zero
messages, so that a message can be divided out of a product even when it is zero. Faster ones for
plain BP on positive tables are in `positive_messages.py` and `binary_messages.py`.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .jit import inlined, jit, parallel, prange
from .message_beliefs import cavity, log_beliefs, log_factor_beliefs, reweighted_log_z

__all__ = ["log_batch", "log_residual", "log_sweeps", "sift"]


@jit
def _confine(i, state_start, belief, zeros, out):
    """Keep only the states that maximise the belief of variable i."""
    top = -np.inf
    for k in range(state_start[i], state_start[i + 1]):
        if zeros[k] == 0:
            top = max(top, belief[k])
    # States that are best up to rounding stay: which of equal ones wins must not hang on the order of sums.
    for k in range(state_start[i], state_start[i + 1]):
        if zeros[k] > 0 or belief[k] < top - 1e-9 * max(1.0, abs(top)):
            out[k - state_start[i]] = -np.inf


@jit
def _send(
    a, axis, alpha, scope_start, scope, sizes, state_start, table, heat, others, confined, temp, peak, out
):
    """Log S_{a->i} for the variable on one axis, normalised to sum to one; False if all is impossible."""
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
    # Twice over the table: first the peak of every kept entry, then sums of exponentials below that peak,
    # which cannot overflow. `where` is the kept entry of the table's entry; it follows by strides.
    for turn in range(2):
        where = 0
        digit[:] = 0
        for entry in range(total):
            value = alpha * table[entry] if table[entry] > -np.inf else -np.inf
            if value > -np.inf:
                for k in range(arity):
                    if k != axis:
                        source = others if maximising else confined
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
    # What was summed is done; over the maximised companions (`groups`) the best counts.
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
        top = max(old, new)
        return top + np.log((1.0 - eta) * np.exp(old - top) + eta * np.exp(new - top))
    return (1.0 - eta) * old + eta * new


@inlined
def _exchange(s, old, new, belief, zeros):
    """Put a new log message in the place of the old one at a flat state."""
    if old == -np.inf:
        zeros[s] -= 1
    else:
        belief[s] -= old
    if new == -np.inf:
        zeros[s] += 1
    else:
        belief[s] += new


@jit
def _update_factor(
    a, alpha, eta, linear, scope_start, scope, sizes, state_start, edge_state_start, tables, table_start,
    heat, messages, belief, zeros, target, work, commit,
):  # fmt: skip
    """New messages of factor a into `target`; with `commit` beliefs follow at once. Returns the change.

    A negative change says that no state of the factor is possible.
    """
    others, confined, temp, peak, out = work
    first, last = scope_start[a], scope_start[a + 1]
    mixed = False
    size = 1
    for e in range(first, last):
        i = scope[e]
        size *= sizes[i]
        cavity(e, i, alpha, edge_state_start, state_start, messages, belief, zeros, others[e - first])
        confined[e - first, : sizes[i]] = others[e - first, : sizes[i]]
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
            a, axis, alpha, scope_start, scope, sizes, state_start, table, heat, others,
            confined, temp, peak, out,
        )  # fmt: skip
        if not fine and mixed:
            # Confinement left nothing possible: fall back to the plain sum for this message.
            fine = _send(
                a, axis, alpha, scope_start, scope, sizes, state_start, table, heat, others,
                others, temp, peak, out,
            )  # fmt: skip
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
                _exchange(state_start[i] + k, old, new, belief, zeros)
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
    order, asynchronous, power, step, linear, scope_start, scope, sizes, state_start, edge_state_start,
    tables, table_start, heat, messages, sweeps, tol,
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
                a, power[a], step[a], linear, scope_start, scope, sizes, state_start, edge_state_start,
                tables, table_start, heat, messages, belief, zeros, target, work, asynchronous,
            )  # fmt: skip
            if moved < 0.0:
                changes[turn] = -1.0
                return changes[: turn + 1]
            change = max(change, moved)
        if not asynchronous:
            copy(target, messages)
        changes[turn] = change
        if change < tol:
            return changes[: turn + 1]
    return changes


@jit
def sift(heap, place, key, k):
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
        sift(heap, place, key, k)
    done = 0
    while done < updates and len(heap) and key[heap[0]] >= tol:
        a = heap[0]
        done += 1
        for e in range(scope_start[a], scope_start[a + 1]):
            i = scope[e]
            for k in range(sizes[i]):
                at = edge_state_start[e] + k
                _exchange(state_start[i] + k, messages[at], target[at], belief, zeros)
                messages[at] = target[at]
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
                sift(heap, place, key, place[b])
    return done, key[heap[0]] if len(heap) else 0.0


@jit
def _settle(
    order, at_once, power, step, linear, scope_start, scope, sizes, state_start, edge_state_start, tables,
    table_start, heat, messages, sweeps, tol, rest,
):  # fmt: skip
    """Sweep until the logarithms rest, or no belief has moved for `rest` sweeps; the last change.

    Logarithms of nearly certain messages may move where probabilities do not show it.
    """
    belief, old = np.zeros(state_start[-1]), np.empty(state_start[-1])
    zeros = np.zeros(state_start[-1], np.int64)
    log_beliefs(scope, edge_state_start, state_start, messages, belief, zeros)
    still, left, least = 0, sweeps, step.min()
    while still < rest:
        if left <= 0:
            return np.inf
        left -= 1
        before = messages.copy()
        copy(belief, old)
        change = log_sweeps(
            order, at_once, power, step, linear, scope_start, scope, sizes, state_start, edge_state_start,
            tables, table_start, heat, messages, 1, 0.0,
        )[-1]  # fmt: skip
        if change < 0.0:
            return change
        moved = 0.0
        for k in range(len(messages)):
            if messages[k] > -np.inf and before[k] > -np.inf:
                moved = max(moved, abs(messages[k] - before[k]))
        if moved <= 10.0 * tol * least:
            return change
        log_beliefs(scope, edge_state_start, state_start, messages, belief, zeros)
        shown = change
        for i in range(len(sizes)):
            shown = max(shown, _gap(old, belief, zeros, state_start[i], state_start[i + 1]))
        still = still + 1 if shown < tol else 0
    return 0.0


@jit
def _gap(old, new, zeros, first, last):
    """Largest change in probability between two log beliefs about one variable."""
    tops, totals = np.full(2, -np.inf), np.zeros(2)
    for s in range(first, last):
        if zeros[s] == 0:
            tops[0], tops[1] = max(tops[0], old[s]), max(tops[1], new[s])
    for s in range(first, last):
        if zeros[s] == 0:
            totals[0] += np.exp(old[s] - tops[0])
            totals[1] += np.exp(new[s] - tops[1])
    gap = 0.0
    for s in range(first, last):
        if zeros[s] == 0:
            gap = max(gap, abs(np.exp(new[s] - tops[1]) / totals[1] - np.exp(old[s] - tops[0]) / totals[0]))
    return gap


@parallel
def log_batch(
    order, at_once, power, step, linear, scope_start, scope, sizes, state_start, edge_state_start, tables,
    table_start, heat, slots, own, beliefs, sweeps, tol, rest,
):  # fmt: skip
    """BP for many problems of one structure, spread over all cores.

    The tables from position `slots` on are replaced by a row of `own`. The last columns of all factors'
    beliefs are written to `beliefs` (rows, columns). Returns the Bethe log Z and the last change of each row
    (negative: contradiction). `rest` is how many sweeps beliefs must stand still while logarithms of messages
    move.
    """
    rows = len(own)
    values = np.empty(rows)
    changes = np.empty(rows)
    for row in prange(rows):
        mine = tables.copy()
        copy(own[row], mine[slots:])
        messages = np.empty(edge_state_start[-1])
        for e in range(len(scope)):
            for k in range(edge_state_start[e], edge_state_start[e + 1]):
                messages[k] = -np.log(float(edge_state_start[e + 1] - edge_state_start[e]))
        done = log_sweeps(
            order, at_once, power, step, linear, scope_start, scope, sizes, state_start, edge_state_start,
            mine, table_start, heat, messages, sweeps, tol,
        )  # fmt: skip
        changes[row] = done[-1] if len(done) else np.inf
        if 0.0 <= changes[row] < tol:
            changes[row] = _settle(
                order, at_once, power, step, linear, scope_start, scope, sizes, state_start,
                edge_state_start, mine, table_start, heat, messages, sweeps - len(done) + 1, tol, rest,
            )  # fmt: skip
        if changes[row] < 0.0:
            continue
        belief, marginals = np.zeros(state_start[-1]), np.empty(state_start[-1])
        zeros = np.zeros(state_start[-1], np.int64)
        log_beliefs(scope, edge_state_start, state_start, messages, belief, zeros)
        for i in range(len(sizes)):
            top, total = -np.inf, 0.0
            for s in range(state_start[i], state_start[i + 1]):
                if zeros[s] == 0:
                    top = max(top, belief[s])
            for s in range(state_start[i], state_start[i + 1]):
                marginals[s] = np.exp(belief[s] - top) if zeros[s] == 0 else 0.0
                total += marginals[s]
            for s in range(state_start[i], state_start[i + 1]):
                marginals[s] /= total
        factor_beliefs = log_factor_beliefs(
            power,
            scope_start,
            scope,
            sizes,
            state_start,
            edge_state_start,
            mine,
            table_start,
            messages,
            belief,
            zeros,
        )
        values[row] = reweighted_log_z(
            1.0 / power, scope_start, scope, mine, table_start, state_start, factor_beliefs, marginals
        )
        # Unary factors that exclude each other's states meet in the beliefs only.
        if np.isnan(marginals).any() or np.isnan(factor_beliefs).any():
            changes[row] = -1.0
        copy(factor_beliefs[len(factor_beliefs) - beliefs.shape[1] :], beliefs[row])
    return values, changes
