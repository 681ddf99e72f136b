r"""Hugin propagation: clique beliefs q and separator beliefs r, with division.

    start     q_i = product of the factors assigned to clique i,  r_ij = 1
    i -> j    r_new = sum_{C_i \ S_ij} q_i,   q_j <- q_j r_new / r_ij,   r_ij <- r_new

up to the root and down again; the product of all q over the product of all r never changes. At the
end q and r are the marginals. Everything is in logarithms; 0 / 0 := 0. Tables are shifted to a maximum of
zero, so that constants take no digits from differences. A second, independent road to the numbers of the
binary join tree.
"""

from __future__ import annotations

from math import fsum

import numpy as np

from ...core.factor import take_out_maximum
from ...core.factor_graph import FactorGraph
from ...core.result import Estimate, FactorMarginals, Marginals, Result, Status
from ...optimise.run import check, watched
from ...structures.elimination import elimination_order
from ...structures.junction_tree import JunctionTree, junction_tree
from ..problem.base import Problem
from ..problem.tree import Forecast, Limits

__all__ = ["run"]


def run(problem: Problem, limits: Limits, effort: float) -> Result:
    """Marginals, factor marginals and log Z by two Hugin passes."""
    graph = problem.graph
    order = elimination_order(graph, effort=effort)
    limits.refuse(Forecast(order.width, order.log2_largest, order.log2_total, order.log2_total), problem)
    tree = junction_tree(graph, order)
    beliefs = _start(tree)
    _propagate(tree, beliefs)
    roots = [c for c, p in enumerate(tree.parent) if p < 0]
    tops = [take_out_maximum(graph.log_table(a))[1] for a in range(graph.n_factors)]
    log_z = fsum([*tops, *(float(_log_sum(beliefs[c], ())) for c in roots)])
    if log_z == -np.inf:
        raise problem.contradiction()
    beliefs = [np.exp(q - _log_sum(q, ())) for q in watched(beliefs)]
    return Result(
        "",
        Status.EXACT,
        log_z=Estimate(log_z, "exact"),
        marginals=_marginals(tree, beliefs),
        factor_marginals=_factor_marginals(tree, beliefs),
    )


def _start(tree: JunctionTree) -> list[np.ndarray]:
    graph = tree.graph
    beliefs = [np.zeros(graph.variables.sizes[c]) for c in tree.cliques]
    for a, c in enumerate(watched(tree.factor_clique)):
        if c >= 0:
            beliefs[c] += _spread(graph, a, tree.cliques[c])
    return beliefs


def _spread(graph: FactorGraph, a: int, clique: np.ndarray) -> np.ndarray:
    """A factor's log table with its axes in clique order and length one where it has none."""
    mine = np.array([i for i in graph.scope_of(a) if graph.variables.sizes[i] > 1], dtype=np.int64)
    table = take_out_maximum(graph.log_table(a))[0].reshape(graph.variables.sizes[mine])
    table = table.transpose(np.argsort(mine))
    return table.reshape([graph.variables.sizes[i] if i in mine else 1 for i in clique])


def _log_sum(values: np.ndarray, keep: tuple[int, ...]) -> np.ndarray:
    """Log-sum-exp over all axes but `keep`, which stay (others have length one)."""
    axes = tuple(k for k in range(values.ndim) if k not in keep)
    top = values.max(axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total = shift + np.log(np.exp(values - shift).sum(axis=axes, keepdims=True))
    return total if keep else total.reshape(())


def _propagate(tree: JunctionTree, beliefs: list[np.ndarray]) -> None:
    """Collect to the roots, then distribute; `beliefs` is updated in place."""
    separators: dict[int, np.ndarray] = {}
    edges = [(c, int(p)) for c, p in enumerate(tree.parent) if p >= 0]
    for c, p in _bottom_up(tree, edges):
        separators[c] = np.zeros(tree.graph.variables.sizes[tree.separators[c]])
        _pass(tree, beliefs, separators, c, source=c, target=p)
    for c, p in reversed(_bottom_up(tree, edges)):
        _pass(tree, beliefs, separators, c, source=p, target=c)


def _bottom_up(tree: JunctionTree, edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Edges (child, parent) so that a clique's own edge comes after those of its children."""
    depth = {c: 0 for c, p in enumerate(tree.parent) if p < 0}
    for c, _ in edges:
        path = [c]
        while path[-1] not in depth:
            path.append(int(tree.parent[path[-1]]))
        for node in reversed(path[:-1]):
            depth[node] = depth[int(tree.parent[node])] + 1
    return sorted(edges, key=lambda edge: -depth[edge[0]])


def _pass(
    tree: JunctionTree,
    beliefs: list[np.ndarray],
    separators: dict[int, np.ndarray],
    edge: int,
    *,
    source: int,
    target: int,
) -> None:
    check()
    shared = tree.separators[edge]
    sizes = tree.graph.variables.sizes
    axes = tuple(int(k) for k in np.flatnonzero(np.isin(tree.cliques[source], shared)))
    new = _log_sum(beliefs[source], axes).reshape(sizes[shared])
    old = separators[edge]
    ratio = np.where(np.isneginf(old), -np.inf, new - np.where(np.isneginf(old), 0.0, old))
    shape = [int(sizes[i]) if i in shared else 1 for i in tree.cliques[target]]
    beliefs[target] = beliefs[target] + ratio.reshape(shape)
    separators[edge] = new


def _table(tree: JunctionTree, beliefs: list[np.ndarray], clique: int, scope: np.ndarray) -> np.ndarray:
    """Marginal of a scope (one-state variables allowed) from a clique that holds the rest."""
    sizes = tree.graph.variables.sizes
    free = np.array([i for i in scope if sizes[i] > 1], dtype=np.int64)
    members = tree.cliques[clique]
    drop = tuple(int(k) for k in np.flatnonzero(~np.isin(members, free)))
    table = beliefs[clique].sum(axis=drop)
    return table.transpose(np.argsort(np.argsort(free))).reshape(sizes[scope])


def _marginals(tree: JunctionTree, beliefs: list[np.ndarray]) -> Marginals:
    variables = tree.graph.variables
    flat = np.empty(variables.state_start[-1])
    for c, members in enumerate(watched(tree.cliques)):
        for i in np.setdiff1d(members, tree.separators[c]):
            start = variables.state_start[i]
            flat[start : start + variables.sizes[i]] = _table(tree, beliefs, c, np.array([i]))
    return Marginals(variables, flat)


def _factor_marginals(tree: JunctionTree, beliefs: list[np.ndarray]) -> FactorMarginals:
    graph = tree.graph
    tables = [
        _table(tree, beliefs, int(c), graph.scope_of(a)).ravel() if c >= 0 else np.ones(1)
        for a, c in enumerate(watched(tree.factor_clique))
    ]
    return FactorMarginals(graph, np.concatenate(tables) if tables else np.empty(0))
