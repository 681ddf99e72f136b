"""How much one message can move another: the matrix behind the convergence certificates.

Let d_{a->i} be the distance (half the range of the difference of logs) between two values of the
message from factor a to variable i. One synchronous sweep of the shared message iteration

    log M_new_{a->i} = (1 - eta) log M_{a->i} + (eta / alpha) log S_{a->i}

cannot stretch distances by more than the matrix M, entry by entry: d_new <= M d with

    |1 - eta|                               in column a->i,
    (eta / alpha) |1 - alpha| N_{a,i,j}     in column a->j,  j in a, j != i,
    (eta / alpha) N_{a,i,j}                 in column b->j,  j in a, j != i,  b at j, b != a,

    N_{a,i,j} = max tanh( |alpha| / 4 | theta(x,y,z) - theta(x',y,z) - theta(x,y',z') + theta(x',y',z') | )

over states x, x' of i, y != y' of j, and z, z' of the rest of factor a. For two-state pairs N is
tanh |alpha J| with J the coupling of the symmetric Ising form: the odd parts of a pair table only
shift messages and drop out. With eta = alpha this is the matrix (3.24) of alpha-BP; with
alpha = eta = 1 it is the matrix of sum-product.

Two parallel factors over one pair count as two edges, as the iteration treats them. Factors with
at most one free variable have constant messages and no place in M.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...core.errors import UnsupportedError
from ...core.factor_graph import FactorGraph
from ...core.wiring import ShapeGroup
from ...optimise.run import check, is_ending

__all__ = ["Influence", "influence", "interaction_strengths"]

_DENSE = 400  # rows up to which dense linear algebra is both fast and exact
_EXPLICIT = 20_000_000  # entries up to which the sparse matrix itself is built


@dataclass(frozen=True)
class Influence:
    """M = diag(stay) + inside (A - diag(1 - back)), with A the edges that share a variable."""

    edges: np.ndarray  # the factor graph's edges that own the rows and columns
    stay: np.ndarray  # |1 - eta| per row
    inside: Any  # sparse, (eta / alpha) N between the edges of one factor
    back: np.ndarray  # |1 - alpha| per column
    variable: np.ndarray  # variable of each edge, numbered without gaps

    @property
    def size(self) -> int:
        """Number of rows: messages that can change."""
        return len(self.edges)

    @cached_property
    def _incidence(self) -> Any:
        from scipy.sparse import csr_array

        at = np.arange(self.size)
        count = int(self.variable.max(initial=-1)) + 1
        return csr_array((np.ones(self.size), (at, self.variable)), shape=(self.size, count))

    @property
    def entries(self) -> int:
        """Upper limit of the number of entries other than zero."""
        at_variable = np.bincount(self.variable)[self.variable] if self.size else np.zeros(0)
        return int(self.size + at_variable[self.inside.indices].sum())

    @cached_property
    def matrix(self) -> Any:
        """M as a sparse matrix; rows and columns are `edges`."""
        from scipy.sparse import diags_array

        if not self.size:
            return self.inside
        together = self._incidence @ self._incidence.T - diags_array(1.0 - self.back)
        made = (diags_array(self.stay) + self.inside @ together).tocsr()
        made.eliminate_zeros()
        return made

    def times(self, x: np.ndarray) -> np.ndarray:
        """M x, in time linear in the edges."""
        shared = self._incidence @ (self._incidence.T @ x)
        return np.asarray(self.stay * x + self.inside @ (shared - (1.0 - self.back) * x))

    def transposed_times(self, x: np.ndarray) -> np.ndarray:
        """M' x, in time linear in the edges."""
        through = self.inside.T @ x
        shared = self._incidence @ (self._incidence.T @ through)
        return np.asarray(self.stay * x + shared - (1.0 - self.back) * through)

    @property
    def operator(self) -> Any:
        """M as a SciPy linear operator."""
        from scipy.sparse.linalg import LinearOperator

        return LinearOperator(
            (self.size, self.size),
            matvec=self._watched_times,
            rmatvec=lambda x: self.transposed_times(np.ravel(x)),
            dtype=np.float64,
        )

    def _watched_times(self, x: np.ndarray) -> np.ndarray:
        check()
        return self.times(np.ravel(x))

    def row_sum(self) -> float:
        """The largest row sum, the norm of M for largest entries."""
        return float(self.times(np.ones(self.size)).max(initial=0.0)) if self.size else 0.0

    def column_sum(self) -> float:
        """The largest column sum, the norm of M for sums of entries."""
        return float(self.transposed_times(np.ones(self.size)).max(initial=0.0)) if self.size else 0.0

    def singular_value(self) -> float:
        """The largest singular value."""
        if self.size <= _DENSE:
            return float(np.linalg.norm(self.matrix.toarray(), 2)) if self.size else 0.0
        from scipy.sparse.linalg import svds

        # M has no negative entry, so its leading vector has none: a vector of ones is a good start.
        found = svds(self.operator, k=1, v0=np.ones(self.size), return_singular_vectors=False)
        return float(found[0])

    def spectral_radius(self) -> float:
        """The largest modulus of an eigenvalue; for very large M an upper limit of it."""
        if not self.size:
            return 0.0
        if self.entries > _EXPLICIT:
            return _perron(self.times, self.size)
        return _radius(self.matrix)


def _radius(matrix: Any) -> float:
    """Spectral radius of a non-negative sparse matrix, one strongly connected part at a time.

    Across the parts the matrix is triangular; taken whole, the eigenvalues of its nilpotent part
    would come out far from zero, as they do for the messages of a tree.
    """
    from scipy.sparse.csgraph import connected_components

    count, part = connected_components(matrix, directed=True, connection="strong")
    order = np.argsort(part, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=count))])
    largest = float(matrix.diagonal().max(initial=0.0))  # parts of one row
    for p in np.flatnonzero(np.diff(start) > 1):
        members = order[start[p] : start[p + 1]]
        block = matrix[members][:, members]
        if len(members) <= _DENSE:
            largest = max(largest, float(np.abs(np.linalg.eigvals(block.toarray())).max()))
        else:
            largest = max(largest, _perron(lambda x, block=block: block @ x, len(members)))
    return largest


def _perron(times: Any, size: int, rounds: int = 2000, tol: float = 1e-10) -> float:
    """Upper limit of the spectral radius of a non-negative matrix by power iteration.

    For every positive x the radius is at most the largest (M x)_k / x_k, so a run that is cut
    short still gives a safe number. The shift keeps periodic matrices from swinging.
    """
    x, best = np.ones(size), np.inf
    shift = 0.5 * float(times(x).max())
    for _ in range(rounds):
        y = times(x) + shift * x
        quotient = y / x
        best = min(best, float(quotient.max()))
        if best - float(quotient.min()) <= tol * best or is_ending():
            break
        x = np.maximum(y / y.max(), 1e-200)
    return best - shift


def influence(graph: FactorGraph, power: np.ndarray, step: np.ndarray) -> Influence:
    """The matrix M of a graph for exponents alpha and step sizes eta, one of each per factor.

    Examples
    --------
    >>> import credo
    >>> import numpy as np
    >>> from credo.inference.messages.influence import influence
    >>> ring = credo.FactorGraph(
    ...     {"a": 2, "b": 2, "c": 2},
    ...     {("a", "b"): [[2, 1], [1, 2]], ("b", "c"): [[2, 1], [1, 2]], ("c", "a"): [[2, 1], [1, 2]]},
    ... )
    >>> round(influence(ring, np.ones(3), np.ones(3)).spectral_radius(), 6)
    0.333333
    """
    from scipy.sparse import csr_array

    row, column, strength = interaction_strengths(graph, power)
    edges = np.unique(row)
    at = np.full(len(graph.scope), -1, dtype=np.int64)
    at[edges] = np.arange(len(edges))
    factor = np.repeat(np.arange(graph.n_factors), np.diff(graph.scope_start))[edges]
    gain = np.abs(step / power)
    shape = (len(edges), len(edges))
    inside = csr_array((gain[factor[at[row]]] * strength, (at[row], at[column])), shape=shape)
    variable = np.unique(graph.scope[edges], return_inverse=True)[1].astype(np.int64)
    return Influence(edges, np.abs(1.0 - step[factor]), inside, np.abs(1.0 - power[factor]), variable)


def interaction_strengths(graph: FactorGraph, power: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """N_{a,i,j} for all pairs of free variables of a factor: edge a->i, edge a->j, strength.

    Raises
    ------
    UnsupportedError
        If a table over two or more free variables holds a zero.
    """
    rows, columns, strengths = [], [], []
    for group in graph.shape_groups:
        free = [k for k, size in enumerate(group.shape) if size > 1]
        if len(free) < 2:
            continue
        tables = _tables(graph, group)
        for i in free:
            for j in free:
                if i != j:
                    rows.append(graph.scope_start[group.factors] + i)
                    columns.append(graph.scope_start[group.factors] + j)
                    bend = np.abs(power[group.factors]) * _bend(tables, i + 1, j + 1)
                    strengths.append(np.tanh(bend / 4))
    if not rows:
        none = np.empty(0, dtype=np.int64)
        return none, none, np.empty(0)
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(strengths)


def _tables(graph: FactorGraph, group: ShapeGroup) -> np.ndarray:
    """The log tables of a group as one array (count, d1, ..., dk), all finite."""
    size = int(np.prod(group.shape))
    tables = graph.log_tables[group.table_start[:, None] + np.arange(size)]
    zeros = np.flatnonzero(np.isneginf(tables).any(axis=1))
    if len(zeros):
        a = int(group.factors[zeros[0]])
        names = [graph.variables.names[i] for i in graph.scope_of(a)]
        raise UnsupportedError(
            f"factor {a} over {names}: expected positive weights, got a zero; "
            "the certificates of message passing are for positive tables"
        )
    return tables.reshape(len(tables), *group.shape)


def _bend(tables: np.ndarray, i: int, j: int) -> np.ndarray:
    """How far a table is from a sum of a function without axis i and one without axis j, per factor."""
    tables = np.moveaxis(tables, (i, j), (1, 2))
    tables = tables.reshape(*tables.shape[:3], -1)
    largest = np.zeros(len(tables))
    for x in range(tables.shape[1]):
        for y in range(x + 1, tables.shape[1]):
            # The two orders of (x, y) are the two signs of the difference: both are below.
            gap = tables[:, x] - tables[:, y]
            high, low = gap.max(axis=2), gap.min(axis=2)
            largest = np.maximum(largest, _widest(high, low))
    return largest


def _widest(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Largest high[k] - low[l] over columns k != l, per row."""
    rows, top = np.arange(len(high)), high.argmax(axis=1)
    without = low.copy()
    without[rows, top] = np.inf
    best = high[rows, top] - without.min(axis=1)
    # Where the lowest low sits in the same column, the second highest column may do better.
    bottom = low.argmin(axis=1)
    rest = high.copy()
    rest[rows, bottom] = -np.inf
    return np.maximum(best, rest.max(axis=1) - low[rows, bottom])
