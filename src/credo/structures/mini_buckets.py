"""Mini-buckets: an elimination order carried out with tables of limited size.

Exact elimination joins everything that mentions a variable. Where that table would be too large,
the bucket of the variable is partitioned into mini-buckets, each of which eliminates its own copy of the
variable and sends a message over its other variables:

    psi_c(x_c)     = theta_c(x_c) + sum over children d of c of Z_d
    Z_c(the rest)  = powered sum over x_i of psi_c(x_c),     i the variable of c

Messages go to the bucket of the next variable of their scope, so mini-buckets form a forest: the
messages of roots have an empty scope. How the bucket's temperature is shared out among its mini-buckets
is the business of the bounds (`inference/bounds`); here is only who meets whom.

Layout. Mini-buckets are numbered along the elimination order, those of one bucket side by side; children
come before parents. Scopes are sorted by elimination rank and tables are in C order, so axis 0 is the
mini-bucket's own variable, and the message of a mini-bucket is a table over the remaining axes in the same
order: entry y of message c belongs to the entries y, y + stride, ... of table c, where
stride = message_size[c].

One-state variables appear in no scope (their axes take no room in a table), and have an empty bucket. Every
other variable has at least one mini-bucket, without factors if nothing mentions it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core import check
from ..core.errors import QueryError
from ..core.factor_graph import FactorGraph
from ..optimise.run import planning, recall
from .elimination import elimination_order, free_primal_graph, free_scopes

__all__ = ["MiniBuckets", "mini_bucket_order", "mini_buckets"]

_GREEDY_LIMIT = 8000  # variables up to which greedy orders take about a second, wide graphs included
_EFFORT = 0.05  # of the search for a narrow order: a split bucket gains little from it


@dataclass(frozen=True)
class MiniBuckets:
    """Who meets whom in a mini-bucket elimination; c counts mini-buckets, a factors, i variables."""

    order: np.ndarray  # (n,) variables, first eliminated first
    sizes: np.ndarray  # (n,) states per variable
    bucket_start: np.ndarray  # (n + 1,) mini-buckets of the variable of each RANK
    scope_start: np.ndarray  # (count + 1,) slices of `scope`
    scope: np.ndarray  # variables of each mini-bucket, by elimination rank: its own variable first
    parent: np.ndarray  # (count,) mini-bucket that receives the message, -1 for a constant
    factor_home: np.ndarray  # (m,) mini-bucket each factor is placed in, -1 for an empty scope
    table_start: np.ndarray  # (count + 1,) first entry of each table over `scope`
    message_start: np.ndarray  # (count + 1,) first entry of each message, over scope[1:]

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def rank(self) -> np.ndarray:
        """(n,) place of each variable in the order."""
        rank = np.empty(len(self.order), dtype=np.int64)
        rank[self.order] = np.arange(len(self.order))
        return rank

    @cached_property
    def variable(self) -> np.ndarray:
        """(count,) the variable each mini-bucket eliminates."""
        return self.scope[self.scope_start[:-1]]

    @cached_property
    def table_size(self) -> np.ndarray:
        """(count,) entries of each table."""
        return np.diff(self.table_start)

    @cached_property
    def message_size(self) -> np.ndarray:
        """(count,) entries of each message: the step of axis 0 in the table."""
        return np.diff(self.message_start)

    @cached_property
    def stride(self) -> np.ndarray:
        """(len(scope),) step of each axis in its mini-bucket's table."""
        size = self.sizes[self.scope]
        stride = np.ones(len(size), dtype=np.int64)
        arity = np.diff(self.scope_start)
        for k in range(1, int(arity.max(initial=0))):
            at = self.scope_start[1:][arity > k] - 1 - k
            stride[at] = stride[at + 1] * size[at + 1]
        return stride

    @cached_property
    def children(self) -> tuple[np.ndarray, np.ndarray]:
        """CSR arrays (start, child) of the mini-buckets that send to each."""
        return _group(self.parent, len(self))

    @cached_property
    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """CSR arrays (start, factor) of the factors placed in each."""
        return _group(self.factor_home, len(self))

    @cached_property
    def loose_factors(self) -> np.ndarray:
        """Factors with an empty scope: their logs are added to every bound."""
        return np.flatnonzero(self.factor_home < 0)

    @property
    def is_exact(self) -> bool:
        """Whether no bucket is split: elimination is then exact."""
        return bool((np.diff(self.bucket_start) <= 1).all())

    @property
    def width(self) -> int:
        """Variables of the largest mini-bucket, less one."""
        return int(np.diff(self.scope_start).max(initial=1)) - 1

    def scope_of(self, c: int) -> np.ndarray:
        """Variables of a mini-bucket, its own first."""
        return self.scope[self.scope_start[c] : self.scope_start[c + 1]]

    def __repr__(self) -> str:
        return (
            f"MiniBuckets({len(self)} for {len(self.order)} variables, width {self.width}, "
            f"{int(self.table_start[-1])} entries)"
        )


def mini_bucket_order(graph: FactorGraph, levels: np.ndarray) -> np.ndarray:
    """An order to split buckets along: positions of all variables, by rising level.

    Min-fill, slightly improved. On large graphs a breadth-first sweep (reverse Cuthill-McKee) takes its
    place, because the fill of a wide graph costs more to find than all mini-buckets cost to use; its bounds
    are as good there.
    """
    levels = np.asarray(levels, dtype=np.int64)

    def make() -> np.ndarray:
        if (graph.variables.sizes > 1).sum() <= _GREEDY_LIMIT:
            with planning():
                return elimination_order(graph, levels=levels, effort=_EFFORT).order
        return _sweep(graph, levels)

    key = ("mini-bucket order", graph.structure_key, levels.tobytes())
    return recall(graph.memo, key, make)  # type: ignore[no-any-return]


def _sweep(graph: FactorGraph, levels: np.ndarray) -> np.ndarray:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    adjacency = free_primal_graph(graph)
    ones = np.ones(len(adjacency.neighbour), dtype=np.int8)
    matrix = csr_matrix((ones, adjacency.neighbour, adjacency.start), shape=(len(levels), len(levels)))
    sweep = reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int64)
    return sweep[np.argsort(levels[sweep], kind="stable")]


def mini_buckets(
    graph: FactorGraph, order: np.ndarray, *, ibound: int, max_entries: float = 2.0**62
) -> MiniBuckets:
    """Partition the buckets of an elimination order.

    Parameters
    ----------
    graph
        The factor graph.
    order
        Positions of all variables, first eliminated first.
    ibound
        A mini-bucket joins at most `ibound` + 1 variables, as an exact elimination of that width does.
    max_entries
        Most entries of a joined table. A single factor beyond a limit stands alone.

    Examples
    --------
    >>> import credo
    >>> from credo.structures.elimination import elimination_order
    >>> from credo.structures.mini_buckets import mini_buckets
    >>> grid = credo.datasets.ising_grid(4, seed=0).to_factor_graph()
    >>> order = elimination_order(grid).order
    >>> mini_buckets(grid, order, ibound=2).is_exact, mini_buckets(grid, order, ibound=4).is_exact
    (False, True)
    """
    check.whole("ibound", ibound, 0)
    check.at_least("max_entries", max_entries, 1)
    order = np.ascontiguousarray(order, dtype=np.int64)
    if not np.array_equal(np.sort(order), np.arange(len(graph.variables))):
        raise QueryError(
            f"order: expected each of the {len(graph.variables)} variables once, got {len(order)} positions"
        )
    return graph.memo.recall(  # type: ignore[no-any-return]
        ("mini-buckets", graph.structure_key, order.tobytes(), int(ibound), float(max_entries)),
        lambda: _partition(graph, order, int(min(ibound, len(order))) + 1, float(max_entries)),
    )


def _partition(
    graph: FactorGraph, order: np.ndarray, most_variables: int, most_entries: float
) -> MiniBuckets:
    from ..kernels.mini_bucket_plan import partition

    sizes = graph.variables.sizes
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    scope_start, scope = free_scopes(graph)
    factor = np.repeat(np.arange(graph.n_factors), np.diff(scope_start))
    scope = scope[np.lexsort((rank[scope], factor))]
    bucket_start, start, axes, owner = partition(
        order, sizes, scope_start, scope, most_variables, most_entries
    )
    log2 = np.concatenate([[0.0], np.cumsum(np.log2(sizes[axes]))])[start]
    if len(log2) > 1 and np.diff(log2).max() > 62:
        raise OverflowError("a mini-bucket has more than 2^62 entries; lower max_entries")
    size = np.multiply.reduceat(sizes[axes], start[:-1]) if len(start) > 1 else np.empty(0, dtype=np.int64)
    message = size // sizes[axes[start[:-1]]]
    return MiniBuckets(
        order,
        sizes,
        bucket_start,
        start,
        axes,
        owner[graph.n_factors :],
        owner[: graph.n_factors],
        np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
        np.concatenate([[0], np.cumsum(message)]).astype(np.int64),
    )


def _group(owner: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Items by owner as CSR arrays; those without one (-1) are left out."""
    by_owner = np.argsort(owner, kind="stable")
    start = np.searchsorted(owner[by_owner], np.arange(count + 1))
    return (start - start[0]).astype(np.int64), by_owner[start[0] :].astype(np.int64)
