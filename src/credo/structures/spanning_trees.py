r"""Spanning forests of factor graphs and how often each factor appears in them.

Tree-reweighted methods need a distribution over forests, or only its appearance probabilities

    rho_a = sum_{T containing a} w_T,      w_T >= 0,   sum_T w_T = 1.

A *factor forest* is a set of factors whose bipartite graph with the variables has no cycle. For
factors over two variables that is a forest of the primal graph (factors over the same two
variables are parallel edges, of which a forest holds one). The same definition serves factors over
more variables: the entropy of any distribution is at most that of its projection on a forest,

    H <= sum_i H_i - sum_{a in T} ( sum_{i in a} H_i - H_a ),

so averages over forests bound log Z from above whatever the arity. Conventions: a variable with one
state closes no cycle, and a factor with at most one variable of several states is in every forest
(rho = 1). A maximal factor forest need not connect the graph once factors are wide.

Uniform spanning trees: by the matrix-tree theorem an edge appears with probability

    rho_ij = (e_i - e_j)^T L^+ (e_i - e_j),

its effective resistance (L the Laplacian of the multigraph); bridges get 1, complete graphs 2 / n,
and the sum is n minus the number of components. The entries come from one sparse factorisation and
the part of the inverse on its pattern, so large grids need no dense matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.factor_graph import FactorGraph
from ..core.numbers import float_array
from ..core.wiring import starts_of
from ..kernels import spanning as kernel
from .graph import UndirectedGraph, component_labels

__all__ = [
    "Forests",
    "appearance",
    "covering_forests",
    "edge_appearance",
    "given_forests",
    "random_forests",
    "spanning_forest",
    "uniform_appearance",
    "uniform_forest",
]

_BRIDGE = 1e-9  # distance from 1 that is rounding: no cycle is a thousand million edges long
_ROUNDS = 16  # covering forests averaged by default where uniform trees are not defined
_PER_PAIR = 5  # units of work per pair of entries of a column of an inverse


@dataclass(frozen=True, eq=False)
class Forests:
    """A distribution over factor forests."""

    members: np.ndarray  # (count, factors) whether each factor is in each forest
    weights: np.ndarray  # (count,) probability of each forest

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def appearance(self) -> np.ndarray:
        """(factors,) probability that a forest contains each factor."""
        rho: np.ndarray = np.minimum(self.weights @ self.members, 1.0)
        # Rounding must not turn certainty into almost certainty.
        rho[self.members.all(axis=0)] = 1.0
        return rho


def spanning_forest(graph: FactorGraph, weights: Any = None, *, largest: bool = True) -> np.ndarray:
    """A maximal factor forest of large (or small) total weight; one flag per factor.

    Optimal if no factor has more than two variables of several states, greedy otherwise.

    Parameters
    ----------
    graph
        The factor graph.
    weights
        One number per factor; without it the first factors are taken.
    largest
        Whether heavy factors are preferred, or light ones.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures.spanning_trees import spanning_forest
    >>> pairs = {("a", "b"): [1] * 4, ("b", "c"): [1] * 4, ("c", "a"): [1] * 4}
    >>> spanning_forest(FactorGraph({"a": 2, "b": 2, "c": 2}, pairs), [1, 5, 3]).tolist()
    [False, True, True]
    """
    weights = np.zeros(graph.n_factors) if weights is None else float_array("weights", weights)
    if weights.shape != (graph.n_factors,) or np.isnan(weights).any():
        raise ModelError(
            f"weights: expected one number per factor ({graph.n_factors}), got shape {weights.shape}"
            f"{' with NaN' if np.isnan(weights).any() else ''}"
        )
    return _greedy(graph, np.argsort(-weights if largest else weights, kind="stable"))


def uniform_forest(graph: FactorGraph, rng: np.random.Generator) -> np.ndarray:
    """A random factor forest; one flag per factor.

    Uniform over all maximal forests if no factor has more than two variables of several states
    (Wilson's algorithm); otherwise factors are taken greedily in random order.
    """
    links = _links(graph)
    if links is None:
        return _greedy(graph, rng.permutation(graph.n_factors))
    factor, i, j = links
    n = len(graph.variables)
    end = np.concatenate([i, j])
    slot = np.argsort(end, kind="stable")
    other, edge = np.concatenate([j, i])[slot], np.concatenate([np.arange(len(i))] * 2)[slot]
    start = starts_of(np.bincount(end, minlength=n))
    taken = np.ones(graph.n_factors, dtype=bool)
    taken[factor] = kernel.uniform_tree(start, other, edge, component_labels(n, i, j), rng)
    return taken


def covering_forests(graph: FactorGraph, least: int = 1) -> Forests:
    """Equally weighted factor forests that together contain every factor, without randomness.

    Each forest prefers the factors that appeared least so far, so appearances stay balanced and a
    few forests suffice: two or three for a grid, about n / 2 for a complete graph.

    Parameters
    ----------
    graph
        The factor graph.
    least
        How many forests to make even if fewer cover.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures.spanning_trees import covering_forests
    >>> pairs = {("a", "b"): [1] * 4, ("b", "c"): [1] * 4, ("c", "a"): [1] * 4}
    >>> covering_forests(FactorGraph({"a": 2, "b": 2, "c": 2}, pairs)).members.astype(int)
    array([[1, 1, 0],
           [1, 0, 1]])
    """
    # Lists of edges are often sorted by their first end, which makes stars of a dense graph: a fixed
    # shuffle then needs fewer forests, while the given order is best for grids.
    shuffled = np.random.default_rng(0).permutation(graph.n_factors)
    rows = min((_cover(graph, tie, least) for tie in (np.arange(graph.n_factors), shuffled)), key=len)
    return _equal(rows, graph.n_factors)


def _cover(graph: FactorGraph, tie: np.ndarray, least: int) -> list[np.ndarray]:
    """Forests that prefer what appeared least, ties in the given order."""
    counts = np.zeros(graph.n_factors, dtype=np.int64)
    found: list[np.ndarray] = []
    while len(found) < max(least, 1) or (counts == 0).any():
        found.append(_greedy(graph, tie[np.argsort(counts[tie], kind="stable")]))
        counts += found[-1]
    return found


def random_forests(graph: FactorGraph, count: int, rng: np.random.Generator) -> Forests:
    """Equally weighted random forests; as many more as are needed to contain every factor."""
    found = [uniform_forest(graph, rng) for _ in range(count)]
    missing = ~np.any(found, axis=0) if found else np.ones(graph.n_factors, dtype=bool)
    while missing.any() or not found:
        order = rng.permutation(graph.n_factors)
        found.append(_greedy(graph, order[np.argsort(~missing[order], kind="stable")]))
        missing &= ~found[-1]
    return _equal(found, graph.n_factors)


def given_forests(graph: FactorGraph, forests: Iterable[Iterable[int]], weights: Any = None) -> Forests:
    """Forests given as sets of factor positions, checked.

    Factors with at most one variable of several states belong to every forest and need not be listed.

    Parameters
    ----------
    graph
        The factor graph.
    forests
        The factor positions of each forest.
    weights
        Probability of each forest; equal without it.
    """
    alone = _spread(graph) < 2
    rows = []
    for t, chosen in enumerate(forests):
        at = np.unique(np.asarray(list(chosen), dtype=np.int64))
        if len(at) and not (0 <= at[0] and at[-1] < graph.n_factors):
            raise ModelError(f"forest {t}: expected factors in [0, {graph.n_factors}), got {at[-1]}")
        flags = alone.copy()
        flags[at] = True
        if not np.array_equal(_greedy(graph, np.flatnonzero(flags)), flags):
            raise ModelError(f"forest {t}: expected factors without a cycle, got {at.tolist()[:8]}")
        rows.append(flags)
    members = np.array(rows, dtype=bool).reshape(len(rows), graph.n_factors)
    missing = np.flatnonzero(~members.any(axis=0))
    if not rows or len(missing):
        raise ModelError(
            f"forests: expected every factor in some forest, got none with {missing[:5].tolist()}"
        )
    weights = np.full(len(rows), 1 / len(rows)) if weights is None else float_array("weights", weights)
    if weights.shape != (len(rows),) or not (weights > 0).all() or abs(weights.sum() - 1) > 1e-9:
        raise ModelError(f"weights: expected {len(rows)} positive numbers that sum to 1, got {weights}")
    return Forests(members, weights / weights.sum())


def uniform_appearance(graph: FactorGraph) -> np.ndarray:
    """Probability that each factor is in a uniformly random spanning forest.

    Only for graphs without a factor over more than two variables of several states.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures.spanning_trees import uniform_appearance
    >>> pairs = {("a", "b"): [1] * 4, ("b", "c"): [1] * 4, ("c", "a"): [1] * 4, "a": [1, 1]}
    >>> uniform_appearance(FactorGraph({"a": 2, "b": 2, "c": 2}, pairs)).round(6)
    array([0.666667, 0.666667, 0.666667, 1.      ])
    """
    links = _links(graph)
    if links is None:
        a = int(_spread(graph).argmax())
        raise ModelError(
            f"uniform_appearance: expected factors over at most two variables, got {_spread(graph)[a]} "
            f"in factor {a}; use covering_forests"
        )
    factor, i, j = links
    rho = np.ones(graph.n_factors)
    rho[factor] = _resistances(len(graph.variables), i, j)
    return rho


def edge_appearance(graph: UndirectedGraph) -> np.ndarray:
    """Probability of each edge (in the order of `edge_positions`) in a uniform spanning forest."""
    i, j = graph.edge_positions.T
    return _resistances(len(graph), i, j)


def appearance(graph: FactorGraph) -> np.ndarray:
    """Appearance probabilities without further choices.

    Uniform spanning trees where that is defined, otherwise balanced covering forests.
    """
    if _links(graph) is not None:
        return uniform_appearance(graph)
    return covering_forests(graph, _ROUNDS).appearance


def _spread(graph: FactorGraph) -> np.ndarray:
    """Number of variables with several states in each factor."""
    several = np.concatenate([[0], np.cumsum(graph.variables.sizes[graph.scope] > 1)])
    spread: np.ndarray = np.diff(several[graph.scope_start])
    return spread


def _links(graph: FactorGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The factors over two variables of several states and those variables; None if some have more."""
    spread = _spread(graph)
    if spread.max(initial=0) > 2:
        return None
    inside = (graph.variables.sizes > 1)[graph.scope] & np.repeat(spread == 2, np.diff(graph.scope_start))
    ends = graph.scope[inside].reshape(-1, 2)
    return np.flatnonzero(spread == 2), ends[:, 0], ends[:, 1]


def _greedy(graph: FactorGraph, order: np.ndarray) -> np.ndarray:
    free = graph.variables.sizes > 1
    taken: np.ndarray = kernel.greedy_forest(order, graph.scope_start, graph.scope, free)
    return taken


def _equal(found: list[np.ndarray], factors: int) -> Forests:
    members = np.array(found, dtype=bool).reshape(len(found), factors)
    return Forests(members, np.full(len(members), 1 / len(members)))


def _resistances(n: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Effective resistance between the ends of each unit resistor of a multigraph."""
    if not len(i):
        return np.empty(0)
    from scipy.sparse import coo_array, csc_array
    from scipy.sparse.linalg import splu

    # One vertex of each component is grounded, which makes the Laplacian of the rest invertible.
    labels = component_labels(n, i, j)
    _, ground = np.unique(labels, return_index=True)
    place = np.full(n, -1, dtype=np.int64)
    kept = np.setdiff1d(np.arange(n), ground)
    place[kept] = np.arange(len(kept))
    p, q = place[i], place[j]
    inner = (p >= 0) & (q >= 0)
    rows = np.concatenate([p[p >= 0], q[q >= 0], p[inner], q[inner]])
    columns = np.concatenate([p[p >= 0], q[q >= 0], q[inner], p[inner]])
    values = np.concatenate([np.ones((p >= 0).sum() + (q >= 0).sum()), -np.ones(2 * inner.sum())])
    laplacian = csc_array(coo_array((values, (rows, columns)), shape=(len(kept), len(kept))))
    factors = splu(
        laplacian, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    entry = _inverse_entries(factors)
    rho = np.zeros(len(i))
    rho[p >= 0] += entry(p[p >= 0], p[p >= 0])
    rho[q >= 0] += entry(q[q >= 0], q[q >= 0])
    rho[inner] -= 2 * entry(p[inner], q[inner])
    # A bridge has exactly 1; an edge on a cycle of length k has at most 1 - 1/k.
    exact: np.ndarray = np.where(rho > 1 - _BRIDGE, 1.0, rho)
    return exact


def _inverse_entries(factors: Any) -> Any:
    """Lookup of entries of the inverse on the pattern of a symmetric factorisation."""
    lower = factors.L.tocsc()
    lower.sort_indices()
    n = lower.shape[0]
    column = np.repeat(np.arange(n), np.diff(lower.indptr))
    strict = lower.indices > column
    row, column = lower.indices[strict].astype(np.int64), column[strict]
    start = starts_of(np.bincount(column, minlength=n))
    work = _PER_PAIR * float((np.diff(start).astype(np.float64) ** 2).sum())
    below, on = kernel.selected_inverse.over(work)(start, row, lower.data[strict], factors.U.diagonal())
    key = column * n + row
    rank = np.asarray(factors.perm_c, dtype=np.int64)  # diagonal pivots: rows and columns move together

    def entry(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        a, b = rank[i], rank[j]
        if (a == b).all():
            return on[a]
        wanted = np.minimum(a, b) * n + np.maximum(a, b)
        return below[np.searchsorted(key, wanted)]

    return entry
