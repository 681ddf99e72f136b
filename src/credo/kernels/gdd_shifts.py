r"""Block descent on the shifts of one separator.

Let t_r(x_s), for r = s and every cluster c around s, be what region r says about x_s alone: the table that
has r's belief on x_s under r's own weights,

    t_r(x_s) = sum_k w_k^r log mu_r(x_k | later ones of s).

With S = sum_r t_r, W_k = sum_r w_k^r and D_k = Z_{k-1} - Z_k the steps of the powered sum of S under W,

    delta_c += t_c - sum_k (w_k^c / W_k) D_k

makes all regions agree on x_s. Where s is eliminated last in every cluster (or only maxima follow) this is
the exact minimum of the block, Hoelder's inequality being an equality then; with all weights zero D is shared
out evenly, and it is the star update of dual decomposition. Elsewhere it is a descent direction with slope

    - ( - Z_S + sum_r sum_k w_k^r KL( mu_r || consensus ) ),    Z_S <= 0 the powered sum of S,

along which a line search finds a step that lowers the block's terms.
"""

from __future__ import annotations

import numpy as np

from .gdd import (
    AXIS,
    AXIS_END,
    EDGE,
    EDGE_END,
    FIRST,
    INSIDE,
    KIND,
    MAP,
    MAXIMA,
    MEMBER,
    ROOM,
    SHIFT,
    SIZE,
    TABLE,
    TAIL,
    subtract_shift,
)
from .jit import inner
from .powered import eliminate_first, powered_beliefs, powered_levels, powered_value

__all__ = ["shift_block"]

_SMOOTH = 0.05  # weight that stands in for zero where a maximum precedes a sum, to find a direction
_ROUGH = 1e-4  # weights below count as zero for that
_FAINT = 1e-100  # probabilities are raised to this before their logarithm is taken
_TRIALS = 9  # halvings of a step before a block is left alone
_LONGEST = 8.0  # steps grow to this multiple of the natural one at most
_ARMIJO = 1e-4  # share of the predicted decrease that a step must deliver
_ROUNDING = 1e-13  # relative; what cancels in sums with logarithms of faint probabilities
_ENOUGH = 1e-3  # share of the block's largest decrease below which its search ends


@inner
def _load_tail(row, states, axis_size, weight, maps, tables, trial, tails, at):
    """A cluster summed over what it eliminates before s, into tails[at:]; maxima after s are taken too."""
    start, first = row[TABLE], row[AXIS]
    if row[FIRST] == first:
        for n in range(row[SIZE]):
            trial[n] = tables[start + n]
    else:
        rest = row[SIZE] // axis_size[first]
        eliminate_first(tables, start, axis_size[first], rest, weight[first], trial, 0)
        powered_value(trial, 0, rest, axis_size, weight, first + 1, row[FIRST])
    if row[KIND] != MAXIMA:
        for n in range(row[TAIL]):
            tails[at + n] = trial[n]
        return
    for x in range(states):
        tails[at + x] = -np.inf
    for n in range(row[TAIL]):
        x = maps[row[MAP] + n]
        tails[at + x] = max(tails[at + x], trial[n])


@inner
def _tail_value(row, axis_size, weight, source, at, levels):
    """Powered sum of one tail, over s and what follows it."""
    size = row[ROOM]
    if row[KIND] == MAXIMA:
        top = source[at]
        for n in range(1, size):
            top = max(top, source[at + n])
        return top
    first = row[FIRST]
    rest = size // axis_size[first]
    eliminate_first(source, at, axis_size[first], rest, weight[first], levels, 0)
    powered_value(levels, 0, rest, axis_size, weight, first + 1, row[AXIS_END])
    return levels[0]


@inner
def _inside_view(
    row, states, arity, axis_size, weight, maps, members, tails, at, levels, belief, axes, view, to
):
    """t_c where sums follow s in the cluster, from the belief's marginal on x_s; the cluster's term."""
    first, last, tail = row[FIRST], row[AXIS_END], row[TAIL]
    is_rough = False
    for q in range(first, last):
        axes[0, q] = weight[q]
    for k in range(arity):
        q = members[row[MEMBER] + k]
        if weight[q] < _ROUGH:
            axes[0, q] = _SMOOTH
            is_rough = True
    for n in range(tail):
        levels[n] = tails[at + n]
    end = powered_levels(levels, 0, tail, axis_size, axes[0], first, last)
    value = levels[end]
    powered_beliefs(levels, 0, tail, axis_size, axes[0], first, last, belief, axes[1])
    # The partial sums are used up; their room takes the marginal and its own sums.
    for x in range(states):
        levels[x] = 0.0
        view[to + x] = 0.0
    for n in range(tail):
        levels[maps[row[MAP] + n]] += belief[n]
    left, here = states, 0
    for k in range(arity):
        q = members[row[MEMBER] + k]
        rest = left // axis_size[q]
        for x in range(rest):
            total = 0.0
            for y in range(x, left, rest):
                total += levels[here + y]
            levels[here + left + x] = total
        for block in range(0, states, left):
            for y in range(0, left, rest):
                for x in range(rest):
                    own, later = max(levels[here + y + x], _FAINT), max(levels[here + left + x], _FAINT)
                    view[to + block + y + x] += axes[0, q] * np.log(own / later)
        here += left
        left = rest
    return _tail_value(row, axis_size, weight, tails, at, levels) if is_rough else value


@inner
def _agree(sep, edges, axis_size, weight, members, node, own, total, heat, view):
    """Turn the views into directions; the powered sum of S."""
    begin, end, count, first, last = sep[AXIS], sep[AXIS_END], sep[SIZE], sep[EDGE], sep[EDGE_END]
    origin, inside = edges[first, SHIFT], 0
    for x in range(count):
        total[x] = node[x] - own
    for k in range(begin, end):
        heat[k] = weight[k]
    for e in range(first, last):
        to = edges[e, SHIFT] - origin
        inside += edges[e, KIND] == INSIDE
        for x in range(count):
            total[x] += view[to + x]
        for k in range(begin, end):
            heat[k] += weight[members[edges[e, MEMBER] + k - begin]]
    top = powered_levels(total, 0, count, axis_size, heat, begin, end)
    for e in range(first, last):
        to = edges[e, SHIFT] - origin
        here, left = 0, count
        for k in range(begin, end):
            rest = left // axis_size[k]
            share = weight[members[edges[e, MEMBER] + k - begin]]
            if heat[k] > 0.0:
                share /= heat[k]
            elif inside > 0:
                # Nobody around s sums over it: it goes where it will be eliminated.
                share = 1.0 / inside if edges[e, KIND] == INSIDE else 0.0
            else:
                share = 1.0 / (last - first + 1)
            for block in range(0, count, left):
                for y in range(0, left, rest):
                    for x in range(rest):
                        now = total[here + y + x]
                        if now > -np.inf:  # and so is the sum it is part of
                            view[to + block + y + x] -= share * (now - total[here + left + x])
            here += left
            left = rest
        for x in range(count):
            if node[x] == -np.inf:
                view[to + x] = 0.0
    return total[top]


@inner
def _look(sep, edges, axis_size, weight, maps, members, node, tails, levels, belief, axes, view):
    """All t_c into `view`; the value of the block's terms, and of the separator's alone."""
    count, first, last = sep[SIZE], sep[EDGE], sep[EDGE_END]
    origin, at = edges[first, SHIFT], 0
    own = _own_value(sep, axis_size, weight, node, levels)
    value = own
    for e in range(first, last):
        to = edges[e, SHIFT] - origin
        if edges[e, KIND] == INSIDE:
            arity = sep[AXIS_END] - sep[AXIS]
            value += _inside_view(
                edges[e],
                count,
                arity,
                axis_size,
                weight,
                maps,
                members,
                tails,
                at,
                levels,
                belief,
                axes,
                view,
                to,
            )
        else:
            term = _tail_value(edges[e], axis_size, weight, tails, at, levels)
            for x in range(count):
                view[to + x] = tails[at + x] - term
            value += term
        at += edges[e, ROOM]
    return value, own


@inner
def _own_value(sep, axis_size, weight, node, levels):
    """Powered sum of the separator's own table."""
    first = sep[AXIS]
    rest = sep[SIZE] // axis_size[first]
    eliminate_first(node, 0, axis_size[first], rest, weight[first], levels, 0)
    powered_value(levels, 0, rest, axis_size, weight, first + 1, sep[AXIS_END])
    return levels[0]


@inner
def _try(sep, edges, axis_size, weight, maps, node, tails, levels, trial, total, view, step):
    """Value of the block's terms after a step along the directions."""
    count, first, last = sep[SIZE], sep[EDGE], sep[EDGE_END]
    origin, at, value = edges[first, SHIFT], 0, 0.0
    for x in range(count):
        total[x] = node[x]
    for e in range(first, last):
        to, where, is_inside = edges[e, SHIFT] - origin, edges[e, MAP], edges[e, KIND] == INSIDE
        for n in range(edges[e, ROOM]):
            trial[n] = tails[at + n] - step * view[to + (maps[where + n] if is_inside else n)]
        value += _tail_value(edges[e], axis_size, weight, trial, 0, levels)
        for x in range(count):
            total[x] += step * view[to + x]
        at += edges[e, ROOM]
    return value + _own_value(sep, axis_size, weight, total, levels)


@inner
def _take(sep, edges, maps, node, tails, moved, view, step):
    """Go to the point that was tried."""
    count, first, last = sep[SIZE], sep[EDGE], sep[EDGE_END]
    origin, at = edges[first, SHIFT], 0
    for e in range(first, last):
        to, where, is_inside = edges[e, SHIFT] - origin, edges[e, MAP], edges[e, KIND] == INSIDE
        for n in range(edges[e, ROOM]):
            tails[at + n] -= step * view[to + (maps[where + n] if is_inside else n)]
        for x in range(count):
            node[x] += step * view[to + x]
            moved[to + x] += step * view[to + x]
        at += edges[e, ROOM]


@inner
def shift_block(
    sep, edges, axis_size, weight, maps, members, tables, shifts, steps, s, steps_inside, sizes, axes, room
):
    """Lower the terms around a separator by moving its shifts; `steps_inside` searches at most.

    `room` is one flat array to compute in, cut into pieces at `sizes` (`room_sizes` of the plan).
    """
    count, node_at, first, last = sep[SIZE], sep[TABLE], sep[EDGE], sep[EDGE_END]
    if first == last:
        return
    tails, levels = room[: sizes[0]], room[sizes[0] : sizes[1]]
    belief, trial = room[sizes[1] : sizes[2]], room[sizes[2] : sizes[3]]
    view, moved = room[sizes[3] : sizes[4]], room[sizes[4] : sizes[5]]
    node, total = room[sizes[5] : sizes[6]], room[sizes[6] : sizes[7]]
    origin, at, is_closed = edges[first, SHIFT], 0, True
    for x in range(count):
        node[x] = tables[node_at + x]
    for e in range(first, last):
        is_closed &= edges[e, KIND] != INSIDE
        _load_tail(edges[e], count, axis_size, weight, maps, tables, trial, tails, at)
        at += edges[e, ROOM]
        for x in range(count):
            moved[edges[e, SHIFT] - origin + x] = 0.0
    most = 0.0
    for _ in range(steps_inside):
        value, own = _look(
            sep, edges, axis_size, weight, maps, members, node, tails, levels, belief, axes, view
        )
        slope = min(0.0, _agree(sep, edges, axis_size, weight, members, node, own, total, axes[0], view))
        if is_closed:
            _take(sep, edges, maps, node, tails, moved, view, 1.0)
            break
        step, is_lower, found = min(2.0 * steps[s], _LONGEST), False, value
        slack = _ROUNDING * max(1.0, abs(value))
        for _ in range(_TRIALS if slope < -slack else 0):
            found = _try(sep, edges, axis_size, weight, maps, node, tails, levels, trial, total, view, step)
            is_lower = found <= value + _ARMIJO * step * slope and found < value
            if is_lower:
                break
            step /= 2
        if not is_lower:
            # On a plateau the natural step loses nothing and may free a neighbour.
            step, steps[s] = 1.0, 0.5
            found = _try(sep, edges, axis_size, weight, maps, node, tails, levels, trial, total, view, step)
            if found <= value + slack:
                _take(sep, edges, maps, node, tails, moved, view, step)
            break
        steps[s] = step
        _take(sep, edges, maps, node, tails, moved, view, step)
        most = max(most, value - found)
        if value - found <= _ENOUGH * most:
            break
    for e in range(first, last):
        at, to = edges[e, SHIFT], edges[e, SHIFT] - origin
        for x in range(count):
            shifts[at + x] += moved[to + x]
            tables[node_at + x] += moved[to + x]
        subtract_shift(edges[e], maps, moved, to, tables)
