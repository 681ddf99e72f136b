r"""Messages of normal-form graphs, one sample after another.

Message 2i runs along the arrow of branch i, message 2i + 1 against it; message d of sample n lies at
`messages[n, start[d] : start[d + 1]]`, normalised to sum to 1. A part (block, source, diverter) has one arm
per branch it touches; `arm_in` and `arm_out` name the messages that enter and leave it there.

    kind 0   block: arm 0 enters, arm 1 leaves     out_1 ~ theta' in_0,   out_0 ~ theta in_1
    kind 1   source: one arm                       out_0 = theta
    kind 2   diverter: any arms                    out_k ~ product of in_j over j != k

Messages are kept as they are, not as logarithms: states that are less likely than others by more than a
factor of 1e300 count as impossible.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = ["BLOCK", "DIVERTER", "SOURCE", "flood", "sample_states", "two_pass"]

BLOCK, SOURCE, DIVERTER = 0, 1, 2
_FEW = 5  # arms of a diverter up to which each product is made by itself
_TINY = 1e-150  # a product of sums this small is put into a logarithm


@jit
def _normalise(row, first, last):
    """Divide a message by its sum; returns the sum."""
    total = 0.0
    for k in range(first, last):
        total += row[k]
    if total > 0.0:
        for k in range(first, last):
            row[k] /= total
    return total


@jit
def _through_block(row, new, d_in, d_out, start, theta, at, along):
    """Send a message through a block, along its arrow or against it; returns the sum before scaling."""
    i0, i1, o0, o1 = start[d_in], start[d_in + 1], start[d_out], start[d_out + 1]
    n_in, n_out = i1 - i0, o1 - o0
    for k in range(n_out):
        new[o0 + k] = 0.0
    if along:
        for i in range(n_in):
            weight = row[i0 + i]
            if weight != 0.0:
                for k in range(n_out):
                    new[o0 + k] += weight * theta[at + i * n_out + k]
    else:
        for k in range(n_out):
            total = 0.0
            for i in range(n_in):
                total += row[i0 + i] * theta[at + k * n_in + i]
            new[o0 + k] = total
    return _normalise(new, o0, o1)


@jit
def _product(row, new, d_out, arms_in, skip, start):
    """Multiply the messages of all arms but one; returns the log of the sum before scaling."""
    o0, o1 = start[d_out], start[d_out + 1]
    for k in range(o0, o1):
        new[k] = 1.0
    log_total, scale = 0.0, 1.0
    for j in range(len(arms_in)):
        if j == skip:
            continue
        i0 = start[arms_in[j]]
        for k in range(o1 - o0):
            new[o0 + k] *= row[i0 + k]
        total = _normalise(new, o0, o1)
        if total <= 0.0:
            return -np.inf
        if scale * total < _TINY:
            log_total += np.log(scale) + np.log(total)
            scale = 1.0
        else:
            scale *= total
    scale *= _normalise(new, o0, o1)  # 1, but for a diverter of one arm
    return log_total + np.log(scale)


@jit
def _divert_all(row, new, arms_in, arms_out, skip, start):
    """All messages out of a diverter but one, from products of the arms before and after each."""
    count = len(arms_in)
    size = start[arms_in[0] + 1] - start[arms_in[0]]
    if count <= _FEW:
        for j in range(count):
            if j != skip:
                _product(row, new, arms_out[j], arms_in, j, start)
        return
    after = np.ones((count + 1, size))
    for j in range(count - 1, -1, -1):
        i0, total = start[arms_in[j]], 0.0
        for k in range(size):
            after[j, k] = after[j + 1, k] * row[i0 + k]
            total += after[j, k]
        if total > 0.0:
            for k in range(size):
                after[j, k] /= total
    before = np.ones(size)
    for j in range(count):
        i0, total = start[arms_in[j]], 0.0
        if j != skip:
            o0 = start[arms_out[j]]
            for k in range(size):
                new[o0 + k] = before[k] * after[j + 1, k]
            _normalise(new, o0, o0 + size)
        for k in range(size):
            before[k] *= row[i0 + k]
            total += before[k]
        if total > 0.0:
            for k in range(size):
                before[k] /= total


@jit
def _copy_source(new, d_out, start, theta, at):
    for k in range(start[d_out + 1] - start[d_out]):
        new[start[d_out] + k] = theta[at + k]
    return _normalise(new, start[d_out], start[d_out + 1])


@jit
def _collect(row, kind, arm_start, arm_in, arm_out, u, k, start, theta, at):
    """The message of part `u` through its arm `k`; returns the log of its sum before scaling."""
    first, last = arm_start[u], arm_start[u + 1]
    if kind[u] == 2:
        return _product(row, row, arm_out[first + k], arm_in[first:last], k, start)
    if kind[u] == 1:
        total = _copy_source(row, arm_out[first], start, theta, at)
    else:
        total = _through_block(row, row, arm_in[first + 1 - k], arm_out[first + k], start, theta, at, k == 1)
    return np.log(total) if total > 0.0 else -np.inf


@jit
def two_pass(messages, start, theta, theta_start, kind, arm_start, arm_in, arm_out, order, towards, roots):
    """All messages of forests: from the rims to a root branch of each tree, and back.

    Parameters
    ----------
    messages
        (samples, flat) written in place; messages from open ends must be there, normalised.
    start
        (messages + 1,) of the flat layout.
    theta, theta_start
        Flat matrices, and where that of each part begins.
    kind, arm_start, arm_in, arm_out
        The parts.
    order
        Parts from the roots outwards.
    towards
        (parts,) arm of each part that leads to its root.
    roots
        One branch per tree.

    Returns
    -------
    log_z
        (samples,) log weight relative to the normalised messages of the open ends; -inf for a sample that
        is impossible, whose messages mean nothing.
    """
    log_z = np.zeros(len(messages))
    for n in range(len(messages)):
        row = messages[n]
        total = 0.0
        for place in range(len(order) - 1, -1, -1):
            u = order[place]
            total += _collect(
                row, kind, arm_start, arm_in, arm_out, u, towards[u], start, theta, theta_start[u]
            )
        for r in roots:
            meet = 0.0
            for k in range(start[2 * r + 1] - start[2 * r]):
                meet += row[start[2 * r] + k] * row[start[2 * r + 1] + k]
            total += np.log(meet) if meet > 0.0 else -np.inf
        log_z[n] = total
        if total == -np.inf:
            continue
        for u in order:
            first, last = arm_start[u], arm_start[u + 1]
            if kind[u] == 2:
                _divert_all(row, row, arm_in[first:last], arm_out[first:last], towards[u], start)
            elif kind[u] == 0:
                k = 1 - towards[u]
                _through_block(
                    row, row, arm_in[first + 1 - k], arm_out[first + k], start, theta, theta_start[u], k == 1
                )
    return log_z


@jit
def flood(old, new, start, theta, theta_start, kind, arm_start, arm_in, arm_out):
    """One synchronous step: every part sends all its messages, computed from `old`, into `new`."""
    for n in range(len(old)):
        row, out = old[n], new[n]
        for u in range(len(kind)):
            first, last, at = arm_start[u], arm_start[u + 1], theta_start[u]
            if kind[u] == 2:
                _divert_all(row, out, arm_in[first:last], arm_out[first:last], -1, start)
            elif kind[u] == 1:
                _copy_source(out, arm_out[first], start, theta, at)
            else:
                _through_block(row, out, arm_in[first], arm_out[first + 1], start, theta, at, True)
                _through_block(row, out, arm_in[first + 1], arm_out[first], start, theta, at, False)


@jit
def _pick(weights, draw):
    """A state with probability proportional to its weight."""
    total = 0.0
    for k in range(len(weights)):
        total += weights[k]
    left, chosen = draw * total, -1
    for k in range(len(weights)):
        if weights[k] > 0.0:
            chosen = k
            left -= weights[k]
            if left < 0.0:
                return k
    return chosen


@jit
def sample_states(
    messages, start, theta, theta_start, kind, arm_start, arm_in, order, towards, roots, draws, states
):
    """Exact joint samples from the messages towards the roots; sample n uses row n, or the only one.

    Parameters
    ----------
    draws
        (samples, roots + parts) uniform random numbers.
    states
        (samples, branches) written in place.
    """
    for n in range(len(states)):
        row = messages[n if len(messages) > 1 else 0]
        for r in range(len(roots)):
            i = roots[r]
            both = row[start[2 * i] : start[2 * i + 1]] * row[start[2 * i + 1] : start[2 * i + 2]]
            states[n, i] = _pick(both, draws[n, r])
        for u in order:
            first, k = arm_start[u], towards[u]
            known = states[n, arm_in[first + k] // 2]
            if kind[u] == 2:
                for j in range(first, arm_start[u + 1]):
                    states[n, arm_in[j] // 2] = known
            elif kind[u] == 0:
                other = arm_in[first + 1 - k]
                weights = row[start[other] : start[other + 1]].copy()
                # A block's matrix is (states entering, states leaving).
                leaving = start[arm_in[first + 1] + 1] - start[arm_in[first + 1]]
                for s in range(len(weights)):
                    cell = known * leaving + s if k == 0 else s * leaving + known
                    weights[s] *= theta[theta_start[u] + cell]
                states[n, other // 2] = _pick(weights, draws[n, len(roots) + u])
