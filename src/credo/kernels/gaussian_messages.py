"""Gaussian belief propagation on flat arrays, in canonical form, for any arity and schedule.

A variable holds all diagonal entries of the precision and all shifts; factor a couples its variables by the
matrix K_a, symmetric with zeros on the diagonal, stored in rows at matrix[matrix_start[a] :]. With P, H the
precisions and shifts of the variables of a without what a said, and o the variables of a other than i,

    M = K_oo + diag(P_o),      precision_{a->i} = -K_io M^-1 K_oi,      shift_{a->i} = -K_io M^-1 H_o

A pair needs one division. A message exists if M is positive definite; the first that does not exist ends the
sweeps. Changes are relative to the variable: precisions by its own one, shifts by the root of that.
"""

from __future__ import annotations

import numpy as np

from .arrays import copy
from .jit import jit

__all__ = ["gaussian_sweeps", "totals"]


@jit
def totals(scope, base_precision, base_shift, precision, shift, total_precision, total_shift):
    """Precision and shift of every variable: its own and those of all messages."""
    copy(base_precision, total_precision)
    copy(base_shift, total_shift)
    for e in range(len(scope)):
        total_precision[scope[e]] += precision[e]
        total_shift[scope[e]] += shift[e]


@jit
def _solve(m, root, left, right):
    """Cholesky factor of m (in root), then left <- root^-1 left, right <- root^-1 right; False if none."""
    k = len(left)
    for r in range(k):
        for c in range(r + 1):
            value = m[r, c]
            for q in range(c):
                value -= root[r, q] * root[c, q]
            if r == c:
                if not value > 0.0:
                    return False
                root[r, r] = np.sqrt(value)
            else:
                root[r, c] = value / root[c, c]
        for q in range(r):
            left[r] -= root[r, q] * left[q]
            right[r] -= root[r, q] * right[q]
        left[r] /= root[r, r]
        right[r] /= root[r, r]
    return True


@jit
def _messages(first, arity, matrix, cavity_precision, cavity_shift, new_precision, new_shift):
    """All messages of one factor of any arity; the axis whose message does not exist, or -1."""
    m, root = np.empty((arity - 1, arity - 1)), np.empty((arity - 1, arity - 1))
    left, right = np.empty(arity - 1), np.empty(arity - 1)
    for axis in range(arity):
        for r in range(arity - 1):
            i = r + (r >= axis)
            for c in range(r):
                m[r, c] = matrix[first + i * arity + c + (c >= axis)]
            m[r, r] = cavity_precision[i]
            left[r] = matrix[first + i * arity + axis]
            right[r] = cavity_shift[i]
        if not _solve(m, root, left, right):
            return axis
        new_precision[axis], new_shift[axis] = 0.0, 0.0
        for r in range(arity - 1):
            new_precision[axis] -= left[r] * left[r]
            new_shift[axis] -= left[r] * right[r]
    return -1


@jit
def gaussian_sweeps(
    orders,
    at_once,
    step,
    most,
    tol,
    scope_start,
    scope,
    matrix_start,
    matrix,
    base_precision,
    base_shift,
    precision,
    shift,
    change,
):
    """Sweep over the rows of `orders` in turn, at most `most` times, until the change is below `tol`.

    Messages (`precision`, `shift`, per edge) change in place; `change` gets one number per sweep. Returns
    the sweeps done, and the edge whose message does not exist, or -1. `step` is the weight of new messages;
    `at_once` uses them in the same sweep.
    """
    n, widest = len(base_precision), 1
    for a in range(len(scope_start) - 1):
        widest = max(widest, scope_start[a + 1] - scope_start[a])
    scale, root_scale = 1.0 / base_precision, 1.0 / np.sqrt(base_precision)
    total_precision, total_shift = np.empty(n), np.empty(n)
    cavity_precision, cavity_shift = np.empty(widest), np.empty(widest)
    new_precision, new_shift = np.empty(widest), np.empty(widest)
    for turn in range(most):
        totals(scope, base_precision, base_shift, precision, shift, total_precision, total_shift)
        largest = 0.0
        order = orders[turn % len(orders)]
        for at in range(len(order)):
            a = order[at]
            begin, arity = scope_start[a], scope_start[a + 1] - scope_start[a]
            if arity == 2:
                i, j = scope[begin], scope[begin + 1]
                coupling = matrix[matrix_start[a] + 1]
                p, q = total_precision[i] - precision[begin], total_precision[j] - precision[begin + 1]
                if not min(p, q) > 0.0:
                    change[turn] = np.inf
                    return turn + 1, begin + (1 if q > 0.0 else 0)
                u, v = coupling / p, coupling / q
                gap = step * (-coupling * v - precision[begin])
                drift = step * (-v * (total_shift[j] - shift[begin + 1]) - shift[begin])
                gap_j = step * (-coupling * u - precision[begin + 1])
                drift_j = step * (-u * (total_shift[i] - shift[begin]) - shift[begin + 1])
                largest = max(largest, abs(gap) * scale[i], abs(drift) * root_scale[i])
                largest = max(largest, abs(gap_j) * scale[j], abs(drift_j) * root_scale[j])
                # Messages are read by their own factor alone: the others see totals.
                precision[begin] += gap
                shift[begin] += drift
                precision[begin + 1] += gap_j
                shift[begin + 1] += drift_j
                if at_once:
                    total_precision[i] += gap
                    total_shift[i] += drift
                    total_precision[j] += gap_j
                    total_shift[j] += drift_j
                continue
            for k in range(arity):
                i, e = scope[begin + k], begin + k
                cavity_precision[k] = total_precision[i] - precision[e]
                cavity_shift[k] = total_shift[i] - shift[e]
            failed = _messages(
                matrix_start[a], arity, matrix, cavity_precision, cavity_shift, new_precision, new_shift
            )
            if failed >= 0:
                change[turn] = np.inf
                return turn + 1, begin + failed
            for k in range(arity):
                i, e = scope[begin + k], begin + k
                gap = step * (new_precision[k] - precision[e])
                drift = step * (new_shift[k] - shift[e])
                largest = max(largest, abs(gap) * scale[i], abs(drift) * root_scale[i])
                precision[e] += gap
                shift[e] += drift
                if at_once:
                    total_precision[i] += gap
                    total_shift[i] += drift
        change[turn] = largest
        if not largest >= tol or largest == np.inf:
            return turn + 1, -1
    return most, -1
