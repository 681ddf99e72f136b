"""Passes over mini-buckets: forward messages with cost shifting, backward beliefs, decoding.

Everything lives in flat arrays laid out as `structures/mini_buckets.py` says: axis 0 of table c is the
variable that c eliminates, with weight w_c; the weights of a bucket sum to its variable's temperature.

    forward    psi_c = theta_c + messages of children,     Z_c = powered sum of psi_c over axis 0
    backward   log b_c(x_c) = (psi_c - Z_c) / w_c + log b_parent(x_c without its variable)

b is the derivative of the bound with respect to theta. Where the weight is (nearly) zero, the value

    L_c(x_c) = psi_c - Z_c + max over the rest of L_parent

takes the place of log b: the bound given x_c, less the bound. A summed mini-bucket below a maximised one
takes its context from exp(L / heat).

Matching makes the mini-buckets of a bucket agree on the variables s they have in common: with
M_c(x_s) the marginal of log b_c (a maximum of L_c),

    theta_c += step w_c ( sum_d (w_d / t) M_d - M_c ),        theta_c += step ( mean_d M_d - M_c )

for sums and maxima. The shifts of a bucket add up to zero, so the model stays the same. A state x_s
that is impossible in one mini-bucket is impossible in all.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .jit import inner, jit
from .mini_bucket_tables import (
    COLD,
    eliminate,
    entries_of,
    fold,
    largest_table,
    link_strides,
    log_belief,
    normalise_logs,
)

__all__ = ["backward", "decode", "forward", "link_strides"]

_eliminate, _index = eliminate, entries_of  # the names under which search kernels know them


@inner
def _match(layout, rank, lower, gradient, theta, psi, message, context, weight, known, step, scratch):
    """Shift costs among the mini-buckets of one bucket until they agree; returns their disagreement."""
    where, belief, total, margin = scratch
    first, last = layout.bucket_start[rank], layout.bucket_start[rank + 1]
    size, heat = layout.common_size[rank], layout.temperature[rank]
    hard = abs(heat) < COLD
    mean, share = margin[(last - first) * size : (last - first + 1) * size], 0.0
    mean[:] = 0.0
    for c in range(first, last):
        a, b = layout.table_start[c], layout.table_start[c + 1]
        p, q = layout.message_start[c], layout.message_start[c + 1]
        axes = slice(layout.scope_start[c], layout.scope_start[c + 1])
        out = margin[(c - first) * size : (c - first + 1) * size]
        entries_of(where, layout.axis_size[axes], layout.common[axes])
        log_belief(psi[a:b], message[p:q], context[p:q], weight[c], known, belief)
        # A maximised mini-bucket among summed ones takes no part: its share is zero.
        soft = abs(weight[c]) >= COLD
        top = fold(belief[: b - a], where, hard or not soft, 1.0, out, total)
        if not hard and soft and top > -np.inf:
            normalise_logs(out)
        part = 1.0 / (last - first) if hard else (weight[c] if soft else 0.0)
        share += part
        for s in range(size):
            if out[s] == -np.inf:
                mean[s] = -np.inf
            elif mean[s] > -np.inf:
                mean[s] += part * out[s]
    if share == 0.0:
        return 0.0
    if gradient:
        return _descend(layout, rank, lower, theta, psi, weight, step, scratch)
    apart = 0.0
    for c in range(first, last):
        out = margin[(c - first) * size : (c - first + 1) * size]
        soft = abs(weight[c]) >= COLD
        pull = step if hard else (step * weight[c] if soft else 0.0)
        for s in range(size):
            if mean[s] == -np.inf:
                out[s] = 0.0 if lower else -np.inf
                continue
            middle = mean[s] / share
            if hard:
                apart = max(apart, abs(middle - out[s]))
            elif soft:
                apart = max(apart, abs(np.exp(middle) - np.exp(out[s])))
            out[s] = pull * (middle - out[s])
        _shift(layout, c, out, theta, psi, where)
    return apart


@inner
def _shift(layout, c, change, theta, psi, where):
    """Add a table over the common variables to a mini-bucket."""
    axes = slice(layout.scope_start[c], layout.scope_start[c + 1])
    a = layout.table_start[c]
    count = entries_of(where, layout.axis_size[axes], layout.common[axes])
    for t in range(count):
        theta[a + t] += change[where[t]]
        psi[a + t] += change[where[t]]


@inner
def _descend(layout, rank, lower, theta, psi, weight, step, scratch):
    """A gradient step instead of matching: the bound's slope in a shift is the belief itself."""
    where, _, _, margin = scratch
    first, last = layout.bucket_start[rank], layout.bucket_start[rank + 1]
    size, heat = layout.common_size[rank], layout.temperature[rank]
    hard = abs(heat) < COLD
    mean, count = margin[(last - first) * size : (last - first + 1) * size], 0
    mean[:] = 0.0
    for c in range(first, last):
        if not hard and abs(weight[c]) < COLD:
            continue
        out = margin[(c - first) * size : (c - first + 1) * size]
        count += 1
        ties = 0
        for s in range(size):
            ties += out[s] == 0.0
        for s in range(size):
            if hard:  # the largest value is zero
                out[s] = 1.0 / ties if out[s] == 0.0 else 0.0
            else:
                out[s] = np.exp(out[s])
            mean[s] += out[s]
    apart = 0.0
    pull = step * (1.0 if hard else heat)
    for c in range(first, last):
        if not hard and abs(weight[c]) < COLD:
            continue
        out = margin[(c - first) * size : (c - first + 1) * size]
        for s in range(size):
            slope = out[s] - mean[s] / count
            apart = max(apart, abs(slope))
            out[s] = pull * slope if lower else -pull * slope
        _shift(layout, c, out, theta, psi, where)
    return apart


@jit
def _scratch(layout):
    """Buffers that fit every table, and the common tables of every bucket."""
    largest, widest = largest_table(layout), 1
    for rank in range(len(layout.common_size)):
        count = layout.bucket_start[rank + 1] - layout.bucket_start[rank]
        if count > 1:
            widest = max(widest, layout.common_size[rank] * (count + 1))
    return np.empty(largest, np.int64), np.empty(largest), np.empty(largest), np.empty(widest)


@jit
def forward(layout, theta, weight, psi, message, context, known, step, lower, gradient, ranks, sums):
    """A part of one pass of messages; with a positive step, costs are shifted on the way.

    Parameters
    ----------
    layout
        The mini-buckets.
    theta, weight
        Tables, shifted in place, and the weight of every mini-bucket.
    psi, message
        Written: tables with incoming messages, and outgoing messages.
    context
        Marginals of the parents' beliefs, as `backward` left them; read if `known`.
    known
        Whether `message` and `context` hold those of an earlier pass.
    step
        Share of the way to agreement; 0 only evaluates.
    lower
        Whether the weights make a lower bound; impossible states are then not passed on.
    gradient
        Whether to step along the slope of the bound instead of towards agreement.
    ranks
        (2,) the first bucket of this part, and the one after the last.
    sums
        (2,) goes on: the bound without constants, and the largest disagreement met.
    """
    where, belief, total, margin = _scratch(layout)
    value, apart = sums[0], sums[1]
    for rank in range(ranks[0], ranks[1]):
        first, last = layout.bucket_start[rank], layout.bucket_start[rank + 1]
        for c in range(first, last):
            a, b = layout.table_start[c], layout.table_start[c + 1]
            copy(theta[a:b], psi[a:b])
            axes = layout.axis_size[layout.scope_start[c] : layout.scope_start[c + 1]]
            for e in range(layout.child_start[c], layout.child_start[c + 1]):
                d = layout.child[e]
                entries_of(where, axes, layout.link[layout.link_start[d] : layout.link_start[d + 1]])
                at = layout.message_start[d]
                for t in range(b - a):
                    psi[a + t] += message[at + where[t]]
        if step > 0.0 and last - first > 1:
            found = _match(
                layout,
                rank,
                lower,
                gradient,
                theta,
                psi,
                message,
                context,
                weight,
                known,
                step,
                (where, belief, total, margin),
            )
            apart = max(apart, found)
        for c in range(first, last):
            a, b = layout.table_start[c], layout.table_start[c + 1]
            p, q = layout.message_start[c], layout.message_start[c + 1]
            eliminate(psi[a:b], weight[c], message[p:q], total)
            if layout.parent[c] < 0:
                value += message[p]
    sums[0], sums[1] = value, apart


@jit
def backward(layout, weight, psi, message, heat, context, entropy, state_start, marginal, ranks):
    """A part of the beliefs from the roots down: contexts, conditional entropies and marginals by rank.

    `heat` is the temperature at which summed mini-buckets see maximised parents; `ranks` as for `forward`,
    the last part first. All that is written begins with zeros.
    """
    where, belief, total, _ = _scratch(layout)
    for rank in range(ranks[1] - 1, ranks[0] - 1, -1):
        first, last = layout.bucket_start[rank], layout.bucket_start[rank + 1]
        for c in range(last - 1, first - 1, -1):
            a, b = layout.table_start[c], layout.table_start[c + 1]
            p, q = layout.message_start[c], layout.message_start[c + 1]
            if layout.parent[c] < 0:
                context[p] = 0.0
            hard = abs(weight[c]) < COLD
            here = belief[: b - a]
            log_belief(psi[a:b], message[p:q], context[p:q], weight[c], True, here)
            if not hard:
                _moments(here, psi[a:b], message[p:q], weight, c, layout.temperature[rank], entropy,
                         marginal[state_start[rank] : state_start[rank + 1]])  # fmt: skip
            axes = layout.axis_size[layout.scope_start[c] : layout.scope_start[c + 1]]
            for e in range(layout.child_start[c], layout.child_start[c + 1]):
                d = layout.child[e]
                entries_of(where, axes, layout.link[layout.link_start[d] : layout.link_start[d + 1]])
                out = context[layout.message_start[d] : layout.message_start[d + 1]]
                maximised = abs(weight[d]) < COLD
                inverse = 1.0 / heat if hard and not maximised else 1.0
                top = fold(here, where, hard and maximised, inverse, out, total)
                if top > -np.inf and not maximised:
                    normalise_logs(out)


@inner
def _moments(belief, psi, message, weight, c, heat, entropy, marginal):
    """Add one mini-bucket's conditional entropy and its share of the variable's marginal."""
    m, spread = len(message), 0.0
    inverse = 1.0 / weight[c]
    for x in range(len(marginal)):
        mass = 0.0
        for y in range(m):
            if belief[x * m + y] > -np.inf:
                p = np.exp(belief[x * m + y])
                mass += p
                spread -= p * (psi[x * m + y] - message[y]) * inverse
        marginal[x] += mass * weight[c] / heat
    entropy[c] = spread


@jit
def decode(layout, scope, order, psi, states):
    """Fill in all states, last eliminated first, each the best given those already there; ties go low."""
    score = np.empty(1)
    for rank in range(len(order) - 1, -1, -1):
        i = order[rank]
        first, last = layout.bucket_start[rank], layout.bucket_start[rank + 1]
        if first == last:
            states[i] = 0
            continue
        size = layout.axis_size[layout.scope_start[first]]
        if len(score) < size:
            score = np.empty(size)
        score[:size] = 0.0
        for c in range(first, last):
            at = layout.table_start[c]
            begin = layout.scope_start[c]
            for e in range(begin + 1, layout.scope_start[c + 1]):
                at += layout.stride[e] * states[scope[e]]
            for x in range(size):
                score[x] += psi[at + x * layout.stride[begin]]
        best = 0
        for x in range(1, size):
            if score[x] > score[best]:
                best = x
        states[i] = best
