"""Contraction of tensors in several semirings: C(x_C) = op over the other axes of A(x_A) B(x_B).

One loop nest serves forward elimination, the reverse pass that turns it into marginals, and
permutation. `plan_nest` lays the loops out: the axes of the largest tensor in its own order, so
that it is streamed once; axes it lacks just outside the innermost loop; neighbouring axes that
are contiguous in all three tensors are merged into one loop. The innermost loop then is an axpy,
an element-wise product or a dot product on contiguous memory.

Values are either non-negative numbers (sum of products, maximum of products) or logarithms
(maximum of sums, log-sum-exp with a temperature). Where both inner and outer dimensions are large, the
sum of products goes through a permutation to a matrix product (BLAS).
"""

from __future__ import annotations

import numpy as np

from .jit import jit

__all__ = [
    "ADD_EXP",
    "ADD_MAX",
    "MUL_ADD",
    "MUL_MAX",
    "contract",
    "log_contract",
    "make_workspace",
    "rescale",
]

MUL_ADD, MUL_MAX, ADD_MAX, ADD_EXP = 0, 1, 2, 3
_INNER_LIMIT = 4096  # entries of the innermost loop that stay in the first-level cache
_GEMM_GAIN = 12.0  # multiplications per tensor entry from which permuting to BLAS pays
_GEMM_LEAST = 2**15  # multiplications below which it never does


@jit
def make_workspace(n, depth):
    """Scratch for nests: strides per variable and tensor, loop tables, axis lists."""
    return (
        np.zeros((3, n + 1), np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros((depth + 2, 4), np.int64),
        np.zeros((4, depth + 2), np.int64),
    )


@jit
def _set_strides(strides, row, axes, sizes):
    step = 1
    for k in range(len(axes) - 1, -1, -1):
        strides[row, axes[k]] = step
        step *= sizes[axes[k]]
    return step


@jit
def _clear_strides(strides, row, axes):
    for k in range(len(axes)):
        strides[row, axes[k]] = 0


@jit
def plan_nest(axes_a, axes_b, axes_c, sizes, strides, seen, loops):
    """Fill `loops` with rows (length, step in A, B, C), outermost first; the last row is the innermost loop.

    Returns the number of rows. `strides` and `seen` must be zero on entry and are left so.
    """
    size_a = _set_strides(strides, 0, axes_a, sizes)
    size_b = _set_strides(strides, 1, axes_b, sizes)
    size_c = _set_strides(strides, 2, axes_c, sizes)
    if size_a >= size_b and size_a >= size_c:
        main, second, third = axes_a, axes_b, axes_c
    elif size_c >= size_b:
        main, second, third = axes_c, axes_a, axes_b
    else:
        main, second, third = axes_b, axes_a, axes_c
    # The innermost loop: as many trailing axes of the main tensor as merge in all three.
    length, sa, sb, sc = 1, 0, 0, 0
    inner = len(main)
    while inner > 0:
        i = main[inner - 1]
        if inner == len(main):
            length, sa, sb, sc = sizes[i], strides[0, i], strides[1, i], strides[2, i]
        elif (
            length < _INNER_LIMIT
            and strides[0, i] == sa * length
            and strides[1, i] == sb * length
            and strides[2, i] == sc * length
        ):
            length *= sizes[i]
        else:
            break
        inner -= 1
    for k in range(len(main)):
        seen[main[k]] = 1
    rows = 0
    for part in range(3):
        axes = main[:inner] if part == 0 else (second if part == 1 else third)
        for k in range(len(axes)):
            i = axes[k]
            if part > 0:
                if seen[i]:
                    continue
                seen[i] = 1
            d, a, b, c = sizes[i], strides[0, i], strides[1, i], strides[2, i]
            if rows > 0 and (
                loops[rows - 1, 1] == a * d and loops[rows - 1, 2] == b * d and loops[rows - 1, 3] == c * d
            ):
                loops[rows - 1, 0] *= d
                loops[rows - 1, 1], loops[rows - 1, 2], loops[rows - 1, 3] = a, b, c
            else:
                loops[rows, 0], loops[rows, 1], loops[rows, 2], loops[rows, 3] = d, a, b, c
                rows += 1
    for k in range(len(main)):
        seen[main[k]] = 0
    for k in range(len(second)):
        seen[second[k]] = 0
    for k in range(len(third)):
        seen[third[k]] = 0
    _clear_strides(strides, 0, axes_a)
    _clear_strides(strides, 1, axes_b)
    _clear_strides(strides, 2, axes_c)
    if rows == 0:
        loops[0, 0], loops[0, 1], loops[0, 2], loops[0, 3] = 1, 0, 0, 0
        rows = 1
    loops[rows, 0], loops[rows, 1], loops[rows, 2], loops[rows, 3] = length, sa, sb, sc
    return rows + 1


@jit
def _run_nest(op, A, B, C, ref, inverse, loops, rows, digit):
    """Walk the loops and combine; `ref` and `inverse` (1 / temperature) serve ADD_EXP."""
    outer = rows - 2  # rows before the middle and innermost loops
    mid, ma, mb, mc = loops[outer, 0], loops[outer, 1], loops[outer, 2], loops[outer, 3]
    inner, sa, sb, sc = loops[outer + 1, 0], loops[outer + 1, 1], loops[outer + 1, 2], loops[outer + 1, 3]
    for k in range(outer):
        digit[k] = 0
    pa, pb, pc = 0, 0, 0
    while True:
        qa, qb, qc = pa, pb, pc
        if op == MUL_ADD:
            if sa == 1 and sb == 0 and sc == 1:
                for _ in range(mid):
                    factor = B[qb]
                    if factor != 0.0:
                        a, c = A[qa : qa + inner], C[qc : qc + inner]
                        for i in range(inner):
                            c[i] += a[i] * factor
                    qa, qb, qc = qa + ma, qb + mb, qc + mc
            elif sa == 0 and sb == 1 and sc == 1:
                for _ in range(mid):
                    factor = A[qa]
                    if factor != 0.0:
                        b, c = B[qb : qb + inner], C[qc : qc + inner]
                        for i in range(inner):
                            c[i] += b[i] * factor
                    qa, qb, qc = qa + ma, qb + mb, qc + mc
            elif sa == 1 and sb == 1 and sc == 1:
                for _ in range(mid):
                    a, b, c = A[qa : qa + inner], B[qb : qb + inner], C[qc : qc + inner]
                    for i in range(inner):
                        c[i] += a[i] * b[i]
                    qa, qb, qc = qa + ma, qb + mb, qc + mc
            elif sa == 1 and sb == 1 and sc == 0:
                for _ in range(mid):
                    a, b = A[qa : qa + inner], B[qb : qb + inner]
                    total = 0.0
                    for i in range(inner):
                        total += a[i] * b[i]
                    C[qc] += total
                    qa, qb, qc = qa + ma, qb + mb, qc + mc
            else:
                for _ in range(mid):
                    for i in range(inner):
                        C[qc + i * sc] += A[qa + i * sa] * B[qb + i * sb]
                    qa, qb, qc = qa + ma, qb + mb, qc + mc
        elif op == MUL_MAX:
            for _ in range(mid):
                if sa == 1 and sb == 0 and sc == 1:
                    factor = B[qb]
                    a, c = A[qa : qa + inner], C[qc : qc + inner]
                    for i in range(inner):
                        c[i] = max(c[i], a[i] * factor)
                else:
                    for i in range(inner):
                        C[qc + i * sc] = max(C[qc + i * sc], A[qa + i * sa] * B[qb + i * sb])
                qa, qb, qc = qa + ma, qb + mb, qc + mc
        elif op == ADD_MAX:
            for _ in range(mid):
                for i in range(inner):
                    C[qc + i * sc] = max(C[qc + i * sc], A[qa + i * sa] + B[qb + i * sb])
                qa, qb, qc = qa + ma, qb + mb, qc + mc
        else:
            for _ in range(mid):
                for i in range(inner):
                    value = A[qa + i * sa] + B[qb + i * sb]
                    if value > -np.inf:
                        C[qc + i * sc] += np.exp((value - ref[qc + i * sc]) * inverse)
                qa, qb, qc = qa + ma, qb + mb, qc + mc
        k = outer - 1
        while k >= 0:
            digit[k] += 1
            pa, pb, pc = pa + loops[k, 1], pb + loops[k, 2], pc + loops[k, 3]
            if digit[k] < loops[k, 0]:
                break
            pa, pb, pc = (
                pa - loops[k, 0] * loops[k, 1],
                pb - loops[k, 0] * loops[k, 2],
                pc - loops[k, 0] * loops[k, 3],
            )
            digit[k] = 0
            k -= 1
        if k < 0:
            break


@jit
def _groups(axes_a, axes_b, axes_c, sizes, seen, lists):
    """Sort axes into batch, rows (A and C), columns (B and C), summed (A and B).

    Returns their counts and total sizes, or a negative first count if an axis is in one tensor only.
    """
    for k in range(len(axes_a)):
        seen[axes_a[k]] |= 1
    for k in range(len(axes_b)):
        seen[axes_b[k]] |= 2
    for k in range(len(axes_c)):
        seen[axes_c[k]] |= 4
    counts = np.zeros(4, np.int64)
    totals = np.ones(4, np.int64)
    single = False
    for part in range(3):
        axes = axes_a if part == 0 else (axes_b if part == 1 else axes_c)
        for k in range(len(axes)):
            i = axes[k]
            kind = seen[i]
            if kind == 0:
                continue
            group = 0 if kind == 7 else (1 if kind == 5 else (2 if kind == 6 else (3 if kind == 3 else -1)))
            if group < 0:
                single = True
            else:
                lists[group, counts[group]] = i
                counts[group] += 1
                totals[group] *= sizes[i]
            seen[i] = 0
    if single:
        counts[0] = -1
    return counts, totals


@jit
def _join(lists, counts, second, third):
    """The axes of the batch and of two other groups, one after another."""
    order = np.empty(counts[0] + counts[second] + counts[third], np.int64)
    at = 0
    for group in (0, second, third):
        for k in range(counts[group]):
            order[at] = lists[group, k]
            at += 1
    return order


@jit
def _gemm(A, axes_a, B, axes_b, C, axes_c, sizes, work, counts, totals):
    """The same sum of products as one matrix product per batch entry."""
    strides, seen, loops, lists = work
    b, m, n, k = totals[0], totals[1], totals[2], totals[3]
    digit = np.zeros(len(loops), np.int64)
    none = np.zeros(1)
    one = np.ones(1)
    empty = axes_a[:0]
    order_a = _join(lists, counts, 1, 3)
    order_b = _join(lists, counts, 3, 2)
    order_c = _join(lists, counts, 1, 2)
    pa = np.zeros(b * m * k)
    rows = plan_nest(axes_a, empty, order_a, sizes, strides, seen, loops)
    _run_nest(MUL_ADD, A, one, pa, none, 1.0, loops, rows, digit)
    pb = np.zeros(b * k * n)
    rows = plan_nest(axes_b, empty, order_b, sizes, strides, seen, loops)
    _run_nest(MUL_ADD, B, one, pb, none, 1.0, loops, rows, digit)
    pc = np.empty(b * m * n)
    for j in range(b):
        np.dot(
            pa[j * m * k : (j + 1) * m * k].reshape((m, k)),
            pb[j * k * n : (j + 1) * k * n].reshape((k, n)),
            pc[j * m * n : (j + 1) * m * n].reshape((m, n)),
        )
    rows = plan_nest(order_c, empty, axes_c, sizes, strides, seen, loops)
    _run_nest(MUL_ADD, pc, one, C, none, 1.0, loops, rows, digit)


@jit
def contract(op, A, axes_a, B, axes_b, C, axes_c, sizes, work):
    """C = op of products (MUL_ADD or MUL_MAX) of non-negative tensors; C is overwritten."""
    strides, seen, loops, lists = work
    C[:] = 0.0
    if op == MUL_ADD and len(A) * len(B) >= _GEMM_LEAST:
        counts, totals = _groups(axes_a, axes_b, axes_c, sizes, seen, lists)
        flops = float(totals[0]) * totals[1] * totals[2] * totals[3]
        moved = float(len(A) + len(B) + len(C))
        if counts[0] >= 0 and flops >= _GEMM_LEAST and flops >= _GEMM_GAIN * moved:
            _gemm(A, axes_a, B, axes_b, C, axes_c, sizes, work, counts, totals)
            return
    rows = plan_nest(axes_a, axes_b, axes_c, sizes, strides, seen, loops)
    _run_nest(op, A, B, C, C, 1.0, loops, rows, lists[0])


@jit
def log_contract(temperature, A, axes_a, B, axes_b, C, axes_c, sizes, work):
    """C = powered sum of sums of log tensors; temperature 0 is the maximum; C is overwritten."""
    strides, seen, loops, lists = work
    rows = plan_nest(axes_a, axes_b, axes_c, sizes, strides, seen, loops)
    C[:] = -np.inf
    _run_nest(ADD_MAX, A, B, C, C, 1.0, loops, rows, lists[0])
    if temperature == 0.0:
        return
    total = np.zeros(len(C))
    _run_nest(ADD_EXP, A, B, total, C, 1.0 / temperature, loops, rows, lists[0])
    for i in range(len(C)):
        if total[i] > 0.0:
            C[i] += temperature * np.log(total[i])


@jit
def rescale(values):
    """Divide by the maximum in place; returns its logarithm and the smallest positive entry left."""
    top = 0.0
    for i in range(len(values)):
        top = max(top, values[i])
    if top == 0.0:
        return -np.inf, 1.0
    factor = 1.0 / top
    least = 1.0
    for i in range(len(values)):
        value = values[i] * factor
        values[i] = value
        least = min(least, value if value > 0.0 else 1.0)
    return np.log(top), least
