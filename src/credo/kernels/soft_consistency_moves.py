"""Propagation of soft consistency: moves of costs around what changed, as long as they gain something.

The network becomes directionally and existentially consistent: costs are projected in all directions,
extended towards earlier variables (through factors of two), and extended from all around towards a
variable if c0 gains by it. A variable is supported by a state that costs nothing together with the best
its neighbours can do; only where a support is lost is there anything to gain. Gains below a threshold are
left alone, which costs strength and never validity.
"""

from __future__ import annotations

from .jit import inner, jit
from .soft_consistency import (
    C0,
    CHECK_HEAD,
    CHECKS,
    CULPRIT,
    GAIN,
    HEAD,
    WAITING,
    cost_at,
    empty_rings,
    extend,
    project,
    push,
    push_check,
    settle,
)

__all__ = ["propagate"]


@inner
def _send(net, work, e, pulling):
    """Project a factor on e's variable; when pulling, extend the others before and give the rest back."""
    a = net.factor[e]
    first, end = net.scope_start[a], net.scope_start[a + 1]
    some, rise = False, 0.0
    if pulling:
        for f in range(first, end):
            if f != e and extend(net, work, f):
                some = True
    for t in range(end - first if some else 1):
        # The edge e itself first, then the others in turn.
        f = e if t == 0 else first + t - (1 if first + t <= e else 0)
        found = project(net, work, f, 0.0 if pulling else work.number[GAIN])
        if t == 0:
            rise = found
    return rise


@inner
def _still_supported(net, work, e):
    """Whether the supporting state of e's variable is left, and costs nothing as far as this factor goes."""
    i = net.scope[e]
    k = work.support[i]
    place = net.state_start[i] + k
    if work.place[place] >= work.size[i] or work.unary[place] > work.number[GAIN]:
        return False
    return cost_at(net, work, e, k, True) <= work.number[GAIN]


@inner
def _neighbours(net, work, j):
    """Send what variable j's change allows through its factors; True at a dead end."""
    for t in range(net.around_start[j], net.around_start[j + 1]):
        e = net.around[t]
        a = net.factor[e]
        work.tally[CULPRIT] = a
        first, end = net.scope_start[a], net.scope_start[a + 1]
        for f in range(first, end):
            if f == e:
                continue
            i = net.scope[f]
            rise = _send(net, work, f, end - first == 2 and i < j)
            if rise > 0.0 and settle(net, work, i):
                return True
            if rise > work.number[GAIN]:
                push(work, i)
                push_check(work, i)
            elif work.size[i] > 1 and not work.checked[i] and not _still_supported(net, work, f):
                push_check(work, i)
    return False


@inner
def _costs_little(net, work, i, k):
    """Whether state k of variable i costs nothing together with the best its neighbours can do."""
    start, gain = net.state_start[i], work.number[GAIN]
    if k < 0 or work.place[start + k] >= work.size[i]:
        return False
    total = work.unary[start + k]
    for t in range(net.around_start[i], net.around_start[i + 1]):
        if total > gain:
            return False
        total += cost_at(net, work, net.around[t], k, True)
    return total <= gain


@inner
def _find_support(net, work, i):
    """Whether some state costs nothing; first the last such state, then that of the best assignment."""
    start, size = net.state_start[i], work.size[i]
    for p in range(-2, size):
        k = work.support[i] if p == -2 else work.best[i]
        if p >= 0:
            k = work.domain[start + p]
        if _costs_little(net, work, i, k):
            work.support[i] = k
            return True
    return False


@inner
def _gather(net, work, i):
    """Pull costs from all around variable i to c0; True at a dead end."""
    for t in range(net.around_start[i], net.around_start[i + 1]):
        e = net.around[t]
        work.tally[CULPRIT] = net.factor[e]
        _send(net, work, e, True)
        if work.size[i] == 0:
            return True
        a = net.factor[e]
        for f in range(net.scope_start[a], net.scope_start[a + 1]):
            if settle(net, work, net.scope[f]):
                return True
    start = net.state_start[i]
    for p in range(start, start + work.size[i]):
        if work.unary[start + work.domain[p]] < work.unary[start + work.support[i]]:
            work.support[i] = work.domain[p]
    push(work, i)
    return False


_MISSES = 64  # fruitless pulls allowed in one propagation: factors that share variables promise too much


@jit
def propagate(net, work):
    """Until nothing is left to gain; True if the upper bound is reached or a variable has no state left."""
    n, misses = work.size.shape[0], 0
    while True:
        before = work.number[C0]
        while work.tally[WAITING] > 0:
            j = work.queue[work.tally[HEAD]]
            work.tally[HEAD] = (work.tally[HEAD] + 1) % n
            work.tally[WAITING] -= 1
            work.queued[j] = False
            if settle(net, work, j) or _neighbours(net, work, j):
                return True
        if work.number[C0] > before:
            for i in range(n):
                if settle(net, work, i):
                    return True
            if work.tally[WAITING] > 0:
                continue
        if work.tally[CHECKS] == 0 or misses > _MISSES:
            empty_rings(work)
            return False
        i = work.checks[work.tally[CHECK_HEAD]]
        work.tally[CHECK_HEAD] = (work.tally[CHECK_HEAD] + 1) % n
        work.tally[CHECKS] -= 1
        work.checked[i] = False
        if work.size[i] > 1 and not _find_support(net, work, i):
            before = work.number[C0]
            if _gather(net, work, i):
                return True
            if work.number[C0] - before <= work.number[GAIN]:
                misses += 1
