r"""Chow-Liu trees: the best tree-shaped distribution, by mutual information.

    I(i, j) = sum p_ij log( p_ij / (p_i p_j) )        p_ij = (N_ij + s / (S_i S_j)) / (N + s)

Of all trees, the maximum-weight spanning tree of I has the highest likelihood (Chow and Liu 1968):
log-likelihood per row = sum over edges I - sum over variables H. With `smoothing` s the same holds for
the counts with s pseudo-rows spread evenly. Edges at or below the threshold are left out, which makes
a forest; `"bic"` keeps an edge only if its gain pays for its parameters,
N I > log(N) (S_i - 1)(S_j - 1) / 2.

All pairs are counted in one compiled pass, O(rows n^2); the tree is found in O(n^2). A row that misses a
value does not count for the pairs with that variable; frequencies then come from different rows for different
pairs, and the tree is no longer the exact optimum.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError, QueryError
from ..core.factor_graph import FactorGraph
from ..core.result import Samples
from ..core.variable import Variables
from ..data.column import Column
from ..data.dataset import Dataset
from ..data.read import read
from ..data.table import StateTable
from ..kernels.expected_counts import count_pairs
from ..models.bayes_net import BayesNet
from ..models.mrf import MarkovNet

__all__ = ["best_tree", "mutual_information", "spanning_forest", "variables_of"]

_PIECES = 16  # of the pairs, for threads


def best_tree(
    data: Any,
    variables: Any = None,
    *,
    root: str | None = None,
    smoothing: float = 0.0,
    threshold: float | Literal["bic"] = 0.0,
    directed: bool = True,
    weights: Any = None,
) -> BayesNet | MarkovNet:
    """Learn the most likely tree and its tables.

    Parameters
    ----------
    data
        As in `fit`: a data frame, columns, rows, an array, samples or a file.
    variables
        Variables, or a mapping name -> states; by default the states that occur, sorted, in columns of whole
        numbers (at most 32), bools, strings or categories.
    root
        The variable without parents, in its part of the tree; elsewhere, and by default, the first one.
    smoothing
        Pseudo-rows, spread evenly over the joint states of each pair.
    threshold
        Mutual information in nats that an edge must exceed, or `"bic"`.
    directed
        A `BayesNet` with arrows away from the root, or else a `MarkovNet` with a factor per edge.
    weights
        How often each row counts.

    Returns
    -------
    BayesNet or MarkovNet
        The same distribution either way.

    Examples
    --------
    >>> import credo
    >>> from credo.learning.structure import best_tree
    >>> chain = credo.BayesNet(
    ...     {"a": 2, "b": 2, "c": 2},
    ...     {"b": ["a"], "c": ["b"]},
    ...     {"a": [0.4, 0.6], "b": [[0.9, 0.1], [0.2, 0.8]], "c": [[0.7, 0.3], [0.1, 0.9]]},
    ... )
    >>> best_tree(credo.sample(chain, 2000, seed=0), root="c").edges
    [('b', 'a'), ('c', 'b')]
    """
    check.at_least("smoothing", smoothing, 0)
    if threshold != "bic":
        check.at_least("threshold", threshold, 0)
    observed = _observations(data, variables, weights)
    pairs = _Pairs.of(observed, float(smoothing))
    parent = _forest(pairs, threshold, _root(observed.variables, root))
    return _directed(pairs, parent) if directed else _undirected(pairs, parent)


def mutual_information(
    data: Any, variables: Any = None, *, smoothing: float = 0.0, weights: Any = None
) -> np.ndarray:
    """Mutual information of all pairs of variables in nats, shape (n, n), zero on the diagonal.

    Examples
    --------
    >>> from credo.learning.structure import mutual_information
    >>> mutual_information({"a": [0, 0, 1, 1], "b": [0, 0, 1, 1], "c": [0, 1, 0, 1]}).round(4)
    array([[0.    , 0.6931, 0.    ],
           [0.6931, 0.    , 0.    ],
           [0.    , 0.    , 0.    ]])
    """
    check.at_least("smoothing", smoothing, 0)
    return _Pairs.of(_observations(data, variables, weights), float(smoothing)).information


def variables_of(data: Any) -> Variables:
    """The variables of a table of data: one per column, with the states that occur, sorted.

    States are whole numbers, bools, strings or categories, read as `credo.data.read` does. Other numbers are
    refused, because a state for every one of them says nothing about the next; so are more than 32 whole
    numbers, and strings that name the rows.

    Examples
    --------
    >>> from credo.learning.structure import variables_of
    >>> variables_of({"rain": ["yes", "no", None]})[0].states
    ('no', 'yes')
    """
    if isinstance(data, (StateTable, Samples)):
        return data.variables
    if not isinstance(data, (Dataset, Mapping, str, os.PathLike)) and not hasattr(data, "columns"):
        raise DataError(
            "data: expected a data frame, a mapping of columns, samples or a file; otherwise give variables"
        )
    for column in (found := read(data)).columns:
        if not column.is_discrete:
            _refuse_numbers(column)
    return found.variables


def _refuse_numbers(column: Column) -> None:
    """Numbers that measure something are no states."""
    seen = np.ravel(column.values)[~np.isnan(np.ravel(column.values))]
    if not len(seen):
        raise DataError(
            f"data: column '{column.name}': expected at least one value, got none; give variables"
        )
    odd = next((v for v in seen if v != np.floor(v)), seen[0])
    raise DataError(
        f"data: column '{column.name}': expected states, that is whole numbers, bools, strings or "
        f"categories, got {odd:g}; use `kernel_chow_liu`, or classes of numbers, as by `pandas.cut`, or give "
        "the variables with their states"
    )


def _observations(data: Any, variables: Any, weights: Any) -> StateTable:
    return StateTable.of(variables_of(data) if variables is None else variables, data, weights=weights)


def _root(variables: Variables, root: str | None) -> int:
    if root is None:
        return 0
    try:
        return variables.position(root)
    except QueryError as error:
        raise OptionError(f"root: {error}") from None


@dataclass(frozen=True)
class _Pairs:
    """Frequencies of all pairs of variables."""

    variables: Variables
    counts: np.ndarray  # (flat states, flat states), symmetric; on the diagonal blocks the single counts
    totals: np.ndarray  # (n, n) weight of the rows that observe both
    smoothing: float

    @classmethod
    def of(cls, data: StateTable, smoothing: float) -> _Pairs:
        variables, n = data.variables, len(data.variables)
        start = variables.state_start
        counts = np.zeros((int(start[-1]), int(start[-1])))
        columns = np.ascontiguousarray(data.states.T, dtype=np.int32)
        # Variable i has n - i pairs; the pieces hold about equally many.
        cuts = np.unique((n * (1 - np.sqrt(1 - np.linspace(0, 1, _PIECES + 1)))).round().astype(np.int64))
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for job in [
                pool.submit(count_pairs, columns, data.counts, variables.sizes, start, int(b), int(e), counts)
                for b, e in pairwise(cuts)
            ]:
                job.result()
        counts += counts.T
        for i in range(n):
            seen = columns[i] >= 0
            single = np.bincount(columns[i][seen], data.counts[seen], minlength=int(variables.sizes[i]))
            counts[start[i] : start[i + 1], start[i] : start[i + 1]] = np.diag(single)
        totals = np.add.reduceat(np.add.reduceat(counts, start[:-1], axis=0), start[:-1], axis=1)
        return cls(variables, counts, totals, smoothing)

    def joint(self, i: int, j: int) -> np.ndarray:
        """Smoothed frequencies of the joint states of two variables; uniform where no row has both."""
        start = self.variables.state_start
        table = self.counts[start[i] : start[i + 1], start[j] : start[j + 1]]
        total = self.totals[i, j] + self.smoothing
        if total == 0:
            return np.full(table.shape, 1.0 / table.size)
        return np.asarray((table + self.smoothing / table.size) / total)

    def single(self, i: int) -> np.ndarray:
        """Smoothed frequencies of the states of a variable."""
        start = self.variables.state_start
        counts = self.counts.diagonal()[start[i] : start[i + 1]]
        total = self.totals[i, i] + self.smoothing
        if total == 0:
            return np.full(len(counts), 1.0 / len(counts))
        return np.asarray((counts + self.smoothing / len(counts)) / total)

    @property
    def information(self) -> np.ndarray:
        """Mutual information of all pairs."""
        variables, start = self.variables, self.variables.state_start
        sizes = variables.sizes.astype(np.float64)
        total = self.totals + self.smoothing
        spread = self.smoothing / np.outer(sizes, sizes)
        safe = np.where(total > 0, total, 1.0)
        owner = np.repeat(np.arange(len(sizes)), variables.sizes)
        p = (self.counts + spread[np.ix_(owner, owner)]) / safe[np.ix_(owner, owner)]
        rows = np.add.reduceat(p, start[:-1], axis=1)[:, owner]  # p_i, from the rows of the same pair
        expected = rows * np.add.reduceat(p, start[:-1], axis=0)[owner, :]
        terms = np.zeros_like(p)
        used = p > 0
        terms[used] = p[used] * np.log(p[used] / expected[used])
        found = np.add.reduceat(np.add.reduceat(terms, start[:-1], axis=0), start[:-1], axis=1)
        np.fill_diagonal(found, 0.0)
        return np.asarray(np.maximum((found + found.T) / 2, 0.0))  # rounding may leave -1e-17


def _forest(pairs: _Pairs, threshold: float | Literal["bic"], root: int) -> np.ndarray:
    """Parent of each variable in the best forest of edges that pass the threshold."""
    gain = pairs.information
    if threshold == "bic":
        free = pairs.variables.sizes - 1.0
        total = np.maximum(pairs.totals, 1.0)
        kept = gain * total > 0.5 * np.log(total) * np.outer(free, free)
    else:
        kept = gain > threshold
    return spanning_forest(np.where(kept, gain, -np.inf), root)


def spanning_forest(gain: np.ndarray, root: int = 0) -> np.ndarray:
    """Parent of each variable in the heaviest forest, -1 for roots (Prim); ties go to the first variable.

    Parameters
    ----------
    gain
        Symmetric weights of the edges (n, n); -inf where there is none.
    root
        The variable without parents, in its part of the forest; elsewhere the first one.
    """
    n = len(gain)
    parent = np.full(n, -1)
    best, via = np.full(n, -np.inf), np.full(n, -1)
    waiting = np.ones(n, dtype=bool)
    for _ in range(n):
        if waiting[root]:
            i = root
        else:
            i = int(np.where(waiting, best, -np.inf).argmax())
            if not waiting[i] or best[i] == -np.inf:
                i = int(np.flatnonzero(waiting)[0])
        parent[i] = via[i]
        waiting[i] = False
        better = waiting & (gain[i] > best)
        best[better], via[better] = gain[i, better], i
    return parent


def _directed(pairs: _Pairs, parent: np.ndarray) -> BayesNet:
    names = pairs.variables.names
    tables = {}
    for i, j in enumerate(parent.tolist()):
        if j < 0:
            tables[names[i]] = pairs.single(i)
            continue
        joint = pairs.joint(j, i)
        size = joint.sum(axis=1, keepdims=True)
        # A parent state that never occurs says nothing about its child, which keeps its own frequencies.
        rest = np.broadcast_to(pairs.single(i), joint.shape).copy()
        tables[names[i]] = np.divide(joint, size, out=rest, where=size > 0)
    parents = {names[i]: [names[j]] for i, j in enumerate(parent.tolist()) if j >= 0}
    return BayesNet(pairs.variables, parents, tables)


def _undirected(pairs: _Pairs, parent: np.ndarray) -> MarkovNet:
    """One factor p_i per variable and p_ij / (p_i p_j) per edge: Z is 1 for complete data."""
    names = pairs.variables.names
    factors: dict[tuple[str, ...], np.ndarray] = {}
    for i in range(len(names)):
        factors[names[i],] = pairs.single(i)
    for i, j in enumerate(parent.tolist()):
        if j >= 0:
            joint = pairs.joint(j, i)
            product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
            factors[names[j], names[i]] = np.divide(
                joint, product, out=np.zeros_like(joint), where=product > 0
            )
    return MarkovNet.from_graph(FactorGraph(pairs.variables, factors))
