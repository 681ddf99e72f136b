"""What a search along an elimination tree needs of a problem: the tree, the bounds, and room to work."""

from __future__ import annotations

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.wiring import starts_of
from ...kernels import and_or_plan as plan_kernel
from ...kernels.and_or_nodes import AndOrPlan, Memory
from ...kernels.mini_buckets import link_strides
from ...kernels.ordering import order_cost
from ...structures.elimination import free_primal_graph
from ..bounds.bucket_passes import BucketPasses, Tables
from ..problem.base import Problem

__all__ = ["make_memory", "make_plan"]

_LARGEST_SUM = 2.0**24  # entries of the tables of the summed part
_MOST_CLIQUES = 5e7  # members of all cliques, and states kept along the tree


def make_plan(problem: Problem, passes: BucketPasses, tables: Tables) -> AndOrPlan | None:
    """The plan of a search guided by these tables; None if the model is too large, or its sums too wide."""
    graph, buckets = problem.graph, passes.buckets
    n, rank, order = len(graph.variables), buckets.rank, buckets.order
    sizes = np.append(graph.variables.sizes, 1)
    alive = sizes[:n] > 1
    primal = free_primal_graph(graph)
    is_sum = np.append((problem.temperatures > 0) & alive, False)
    parent = plan_kernel.elimination_tree(primal.start, primal.neighbour, order, rank, alive)
    weight = sizes[:n].astype(np.float64)
    if _depths(parent, order).sum() > _MOST_CLIQUES:
        return None
    clique_start, clique, _, _ = order_cost(primal.start, primal.neighbour, weight, order)
    context, axis = _contexts(clique_start, clique, order, is_sum, n)
    child_start, child = _children(parent, is_sum, alive)
    walk, place, span = _walks(child_start, child, is_sum, n)
    keep_size = np.where(is_sum | np.append(~alive, False), 0, span)
    sums = _sums(problem, parent, is_sum, axis, sizes, rank)
    if sums is None:
        return None
    context_size = np.diff(context[0])
    mother = np.where(parent >= 0, parent, n)
    cached = context_size <= context_size[mother]
    cached[n] = False
    source = buckets.variable
    target = np.where(buckets.parent >= 0, source[buckets.parent], -1) if len(source) else source
    pass_start, passing = plan_kernel.passing(source, target, parent)
    alone = np.flatnonzero(buckets.parent < 0)
    constant = np.bincount(
        source[alone], weights=tables.message[buckets.message_start[alone]], minlength=n + 1
    )
    first, last = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    first[:n], last[:n] = buckets.bucket_start[rank], buckets.bucket_start[rank + 1]
    return AndOrPlan(
        sizes=sizes,
        is_sum=is_sum,
        parent=parent,
        child_start=child_start,
        child=child,
        place=place,
        walk=walk,
        span=span,
        state_start=starts_of(sizes),
        keep_start=starts_of(keep_size)[:-1],
        context_start=context[0],
        context=context[1],
        cached=cached,
        first=first,
        last=last,
        scope_start=buckets.scope_start,
        scope=buckets.scope,
        stride=buckets.stride,
        table_start=buckets.table_start,
        message_start=buckets.message_start,
        theta=tables.theta,
        psi=tables.psi,
        message=tables.message,
        pass_start=pass_start,
        passing=passing,
        below=_accumulate(constant, parent, order, n),
        constant=constant,
        temperature=np.append(problem.temperatures, 0.0),
        axis_start=axis[0],
        axis=axis[1],
        log_start=graph.table_start,
        log_tables=graph.log_tables,
        **sums,
    )


def make_memory(plan: AndOrPlan, cache: int) -> Memory:
    """Room for one search, with a cache of this many answers."""
    n = len(plan.sizes)
    kept = int(np.where(plan.is_sum, 0, plan.span).sum())
    axes = np.diff(plan.axis_start)
    log2 = np.add.reduceat(np.append(np.log2(plan.sizes[plan.axis]), 0.0), plan.axis_start[:-1]) * (axes > 0)
    largest = round(2.0 ** float(log2.max(initial=0.0))) + 1
    return Memory(
        x=np.zeros(n, dtype=np.int64),
        stack=np.empty(n, dtype=np.int64),
        tally=np.zeros(4, dtype=np.int64),
        answer=np.zeros(1),
        threshold=np.empty(n),
        low=np.empty(n),
        high=np.empty(n),
        total=np.empty(n),
        turn=np.empty(n, dtype=np.int64),
        hope=np.empty(n),
        bound=np.empty(int(plan.state_start[-1])),
        solution=np.full(n, -1, dtype=np.int64),
        kept=np.empty(kept, dtype=np.int64),
        key=np.zeros(cache, dtype=np.uint64),
        filled=np.zeros(cache, dtype=np.int8),
        worth=np.empty(cache),
        sums=np.empty(int(plan.sum_start[-1]) + 1),
        table=np.empty(largest),
        where=np.empty(largest, dtype=np.int64),
        scratch=np.empty(largest),
    )


def _depths(parent: np.ndarray, order: np.ndarray) -> np.ndarray:
    depth = np.zeros(len(parent), dtype=np.int64)
    for i in order[::-1].tolist():
        if parent[i] >= 0:
            depth[i] = depth[parent[i]] + 1
    return depth


def _accumulate(values: np.ndarray, parent: np.ndarray, order: np.ndarray, n: int) -> np.ndarray:
    total = values.copy()
    for i in order.tolist():
        if parent[i] >= 0:
            total[parent[i]] += total[i]
    return total


def _contexts(
    clique_start: np.ndarray, clique: np.ndarray, order: np.ndarray, is_sum: np.ndarray, n: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Maximised members of every clique but its own variable, and its own and other summed ones by rank."""
    rank = np.empty(n + 1, dtype=np.int64)
    rank[order], rank[n] = np.arange(n), n
    owner = np.repeat(order, np.diff(clique_start))
    context = ~is_sum[clique] & (clique != owner)
    axis = is_sum[clique] & is_sum[owner]
    found = []
    for wanted in (context, axis):
        mine, member = owner[wanted], clique[wanted]
        by = np.lexsort((rank[member], mine))
        found.append((starts_of(np.bincount(mine, minlength=n + 1)), member[by]))
    return found[0], found[1]


def _children(parent: np.ndarray, is_sum: np.ndarray, alive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Children of every variable: summed ones first, then small subtrees before large ones."""
    n = len(alive)
    inside = np.flatnonzero(alive)
    bare = starts_of(np.bincount(parent[inside], minlength=n + 1))
    by_parent = inside[np.argsort(parent[inside], kind="stable")]
    _, span = plan_kernel.preorder(bare, by_parent, n)
    by = np.lexsort((span[inside], ~is_sum[inside], parent[inside]))
    return bare, inside[by]


def _walks(
    child_start: np.ndarray, child: np.ndarray, is_sum: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maximised variables from the common root, then the summed parts; places and subtree sizes in them."""
    whole, _ = plan_kernel.preorder(child_start, child, n)
    # Within a subtree of the whole walk, either kind keeps its relative order, and stays in one piece.
    walk = np.concatenate([whole[~is_sum[whole]], whole[is_sum[whole]]])
    place, span = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    place[walk] = np.arange(len(walk))
    for v in whole[::-1].tolist():
        span[v] = 1
        for c in child[child_start[v] : child_start[v + 1]].tolist():
            if is_sum[c] == is_sum[v]:
                span[v] += span[c]
    return walk, place, span


def _sums(
    problem: Problem,
    parent: np.ndarray,
    is_sum: np.ndarray,
    axis: tuple[np.ndarray, np.ndarray],
    sizes: np.ndarray,
    rank: np.ndarray,
) -> dict[str, np.ndarray] | None:
    """Tables of the summed part given all maximised variables, and how factors and messages lie in them."""
    graph: FactorGraph = problem.graph
    n = len(sizes) - 1
    start, members = axis
    log2 = np.concatenate([[0.0], np.cumsum(np.log2(sizes[members]))])[start]
    log2 = np.diff(log2)
    if (2.0 ** log2[is_sum]).sum() > _LARGEST_SUM:
        return None
    size = np.where(is_sum, np.round(2.0**log2), 0).astype(np.int64)
    stride = np.ones(len(members), dtype=np.int64)
    arity = np.diff(start)
    for k in range(1, int(arity.max(initial=0))):
        at = start[1:][arity > k] - 1 - k
        stride[at] = stride[at + 1] * sizes[members[at + 1]]
    inner = np.where(is_sum & (parent >= 0) & is_sum[np.maximum(parent, 0)], parent, -1)
    link_start, link = link_strides(inner, start, members, stride, 1, start, members, n + 1)
    free = sizes[graph.scope] > 1
    early = np.full(graph.n_factors, n, dtype=np.int64)
    np.minimum.at(early, graph.wiring.edge_factor[free], rank[graph.scope[free]])
    by_rank = np.empty(n + 1, dtype=np.int64)
    by_rank[rank], by_rank[n] = np.arange(n), n
    home = by_rank[early]
    along_start, along, held_start, held, held_stride = plan_kernel.sum_layout(
        home, graph.scope_start, graph.scope, graph.wiring.edge_stride, start, members, is_sum, n
    )
    factor = np.argsort(home, kind="stable")
    return {
        "sum_start": starts_of(size // np.maximum(sizes, 1)),
        "link_start": link_start,
        "link": link,
        "factor_start": starts_of(np.bincount(home, minlength=n + 1)),
        "factor": factor.astype(np.int64),
        "along_start": along_start,
        "along": along,
        "held_start": held_start,
        "held": held,
        "held_stride": held_stride,
    }
