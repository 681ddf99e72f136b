"""Depth-first branch and bound along an elimination tree.

An OR node asks for the best state of a variable given its ancestors; choosing a state splits the rest
into the independent problems of the variable's children. Mini-bucket messages bound each of them: what
leaves the subtree of a variable, at the ancestors' states, is never below its best value.

Depth first, an OR node is asked for its value above a threshold. It answers with that value, or with an
upper bound not above the threshold: then the whole choice that needed it fails. Answers are cached by
the states of the variable's context. Summed variables lie below all maximised ones; their part is summed
exactly once the context is set.

The search lives in arrays and returns after a given amount of work, to be called again.
"""

from __future__ import annotations

import numpy as np

from .and_or_nodes import EXACT, UPPER, bounds, leaving, recall, remember, sum_children, weight
from .jit import jit

__all__ = [
    "DONE",
    "FULL",
    "MORE",
    "depth_first",
    "enter",
    "frontier_bound",
    "partial_solution",
    "raise_threshold",
]

DONE, MORE, FULL = 0, 1, 2  # answered, out of work, out of memory


@jit
def enter(plan, memory, i, threshold, look):
    """Open the OR node of i, or answer it from the cache; whether it was opened."""
    count = memory.tally
    slot = recall(plan, memory, i) if look else -1
    if slot >= 0 and (memory.filled[slot] == EXACT or memory.worth[slot] <= threshold):
        memory.answer[0] = memory.worth[slot]
        count[3] = memory.filled[slot] == EXACT and memory.worth[slot] > threshold
        if count[3]:
            p = plan.place[i]
            memory.solution[p : p + plan.span[i]] = -1
        return False
    bounds(plan, i, memory.x, memory.bound[plan.state_start[i] : plan.state_start[i + 1]])
    memory.threshold[i], memory.low[i], memory.high[i], memory.turn[i] = threshold, -np.inf, -np.inf, -1
    memory.stack[count[0]] = i
    count[0] += 1
    count[1] += 1
    count[2] += 4 * (plan.pass_start[i + 1] - plan.pass_start[i]) + plan.sizes[i]
    return True


@jit
def _leave(plan, memory, i):
    """Close the OR node of i with its answer."""
    count = memory.tally
    count[0] -= 1
    found = memory.low[i] > memory.threshold[i]
    memory.answer[0] = memory.low[i] if found else memory.high[i]
    count[3] = found
    remember(plan, memory, i, memory.answer[0], EXACT if found else UPPER)
    if found:
        p, s = plan.place[i], plan.keep_start[i]
        for t in range(plan.span[i]):
            memory.solution[p + t] = memory.kept[s + t]


@jit
def _choose(plan, memory, i):
    """Take the next state of i worth trying; false if there is none."""
    x = memory.x
    first = plan.state_start[i]
    while True:
        best = -1
        for s in range(first, plan.state_start[i + 1]):
            if not np.isnan(memory.bound[s]) and (best < 0 or memory.bound[s] > memory.bound[best]):
                best = s
        if best < 0:
            return False
        need = max(memory.threshold[i], memory.low[i])
        if memory.bound[best] <= need:
            memory.high[i] = max(memory.high[i], memory.bound[best])
            return False
        x[i] = best - first
        total = weight(plan, i, x)
        for e in range(plan.child_start[i], plan.child_start[i + 1]):
            c = plan.child[e]
            memory.hope[c] = leaving(plan, c, x)
            memory.tally[2] += 4 * (plan.pass_start[c + 1] - plan.pass_start[c])
            slot = recall(plan, memory, c)
            if slot >= 0:
                memory.hope[c] = min(memory.hope[c], memory.worth[slot])
            total += memory.hope[c]
        if total > need:
            memory.total[i], memory.turn[i] = total, plan.child_start[i]
            return True
        memory.bound[best] = np.nan
        memory.high[i] = max(memory.high[i], total)


@jit
def _give_up(plan, memory, i):
    """The current state of i cannot reach what is needed."""
    memory.high[i] = max(memory.high[i], memory.total[i])
    memory.bound[plan.state_start[i] + memory.x[i]] = np.nan
    memory.turn[i] = -1


@jit
def _take(plan, memory, i):
    """The current state of i is the best so far: all its children are solved."""
    memory.low[i] = memory.total[i]
    memory.bound[plan.state_start[i] + memory.x[i]] = np.nan
    memory.turn[i] = -1
    p, s = plan.place[i], plan.keep_start[i]
    memory.kept[s] = memory.x[i]
    for t in range(1, plan.span[i]):
        memory.kept[s + t] = memory.solution[p + t]


@jit
def depth_first(plan, memory, nodes, work):
    """Go on from the open nodes until they are answered, or `nodes` are opened, or the work is done."""
    count = memory.tally
    limit, until = count[1] + nodes, count[2] + work
    back = False  # whether a child was just answered
    while count[0] > 0:
        i = memory.stack[count[0] - 1]
        if not back and (count[1] >= limit or count[2] >= until):
            return MORE
        need = max(memory.threshold[i], memory.low[i])
        if back:
            c = plan.child[memory.turn[i]]
            memory.total[i] += memory.answer[0] - memory.hope[c]
            memory.hope[c] = memory.answer[0]
            back = False
            if count[3] and memory.total[i] > need:
                memory.turn[i] += 1
            else:
                _give_up(plan, memory, i)
        if memory.turn[i] < 0:
            if not _choose(plan, memory, i):
                _leave(plan, memory, i)
                back = True
            continue
        if memory.turn[i] == plan.child_start[i + 1]:
            _take(plan, memory, i)
            continue
        c = plan.child[memory.turn[i]]
        if plan.is_sum[c]:
            memory.answer[0] = sum_children(plan, memory, c)
            count[3] = 1
            back = True
        else:
            rest = memory.total[i] - memory.hope[c]
            back = not enter(plan, memory, c, need - rest, True)
    return DONE


@jit
def frontier_bound(plan, memory):
    """Upper bound on the first open node's value: what was found, given up, or is still to be tried."""
    value = -np.inf
    for d in range(memory.tally[0] - 1, -1, -1):
        i = memory.stack[d]
        best = max(memory.low[i], memory.high[i])
        first = plan.state_start[i]
        for s in range(first, plan.state_start[i + 1]):
            current = memory.turn[i] >= 0 and s - first == memory.x[i]
            if not current and not np.isnan(memory.bound[s]):
                best = max(best, memory.bound[s])
        if memory.turn[i] >= 0:
            total = memory.total[i]
            if d + 1 < memory.tally[0]:
                hope = memory.hope[memory.stack[d + 1]]
                total += min(value, hope) - hope
            best = max(best, total)
        value = best
    return value


@jit
def raise_threshold(plan, memory, threshold):
    """Ask the open nodes for more, because a better solution came from elsewhere."""
    for d in range(memory.tally[0]):
        i = memory.stack[d]
        memory.threshold[i] = max(memory.threshold[i], threshold)
        if memory.low[i] <= memory.threshold[i]:
            memory.high[i], memory.low[i] = max(memory.high[i], memory.low[i]), -np.inf
        if d + 1 < memory.tally[0]:
            c = memory.stack[d + 1]
            need = max(memory.threshold[i], memory.low[i])
            threshold = need - (memory.total[i] - memory.hope[c])


@jit
def partial_solution(plan, memory, out):
    """Overwrite states by those of the path, of solved children, and of the best choices of open nodes."""
    for d in range(memory.tally[0]):
        i = memory.stack[d]
        if memory.low[i] > memory.threshold[i]:
            for t in range(plan.span[i]):
                state = memory.kept[plan.keep_start[i] + t]
                if state >= 0:
                    out[plan.walk[plan.place[i] + t]] = state
            return
        if memory.turn[i] < 0:
            return
        out[i] = memory.x[i]
        for e in range(plan.child_start[i], memory.turn[i]):
            c = plan.child[e]
            for t in range(0 if plan.is_sum[c] else plan.span[c]):
                state = memory.solution[plan.place[c] + t]
                if state >= 0:
                    out[plan.walk[plan.place[c] + t]] = state
