"""Graphs of Gaussian factors as one quadratic form, log f(x) = g + h'x - x'Jx / 2, and its factorisation.

Small or densely coupled systems are factorised as dense matrices by LAPACK, larger ones by
`kernels/sparse_cholesky.py` along an elimination order of few fill-ins. Either way the forecast of work and
memory comes before anything is allocated. A form whose J is not positive definite has no integral; the
first pivot that is not positive names the variable, and the direction along which the form does not fall.

Among other factors the same holds for the variables S that have Gaussian factors only: with all others fixed,
J_SS has to be positive definite, or there is no integral over S, and so none at all (`refuse_improper`).

Far from zero, or with tiny variances, g, h'x and x'Jx are large and nearly cancel. A value of the form at x
is known up to eps (|g| + |h|'|x| + |x|'|J||x| / 2), summed over the factors (`rounding`), and no more than
that is claimed (`claim`); a residual c - (w'x - b)^2 / (2 v) up to eps (|c| + (|w|'|x| + |b|)^2 / (2 v)).
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.belief import Density
from ...core.density import quadratic
from ...core.domain import Real
from ...core.errors import ModelError, TooLargeError
from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch
from ...core.linear_gaussian import residual
from ...core.result import Estimate, Kind
from ...families.densities import MixtureDensity
from ...families.mapped import VectorMixtureDensity
from .base import Problem

__all__ = [
    "Factorisation",
    "GaussianSystem",
    "claim",
    "closed_only",
    "gaussian_densities",
    "gaussian_only",
    "has_closed_form",
    "joint_densities",
    "no_integral",
    "refuse_improper",
    "rounding",
]

_LOG_2PI = float(np.log(2 * np.pi))
_SMALL = 256  # variables up to which nothing is gained by a sparse factorisation
_DENSE = 0.1  # share of entries from which a matrix is treated as dense
_SLOWER = 4.0  # nanoseconds of a sparse multiplication over those of a dense one
_MOST_ENTRIES = 2.0**28  # of a factor, 2 GB
_MOST_WORK = 2.0**38  # multiplications, some minutes
_DIGITS = 64 * np.finfo(float).eps  # a pivot below this share of its diagonal is rounding
_SHOWN = 3  # variables of a direction that are named
_CLEAR = 1e-6  # doubt about log Z, relative where that exceeds one, below which nothing is said of it


def gaussian_densities(names: Sequence[str], mean: np.ndarray, variance: np.ndarray) -> dict[str, Density]:
    """Name -> Gaussian density, for marginals."""
    one, sd = np.ones(1), np.sqrt(variance)
    return {name: MixtureDensity(one, mean[i : i + 1], sd[i : i + 1]) for i, name in enumerate(names)}


def joint_densities(problem: Problem, mean: np.ndarray, factorisation: Factorisation) -> dict[str, Density]:
    """Name -> Gaussian density of a vector, for those whose coordinates the variables are."""
    one = np.ones(1)
    return {
        name: VectorMixtureDensity(one, mean[None, at], factorisation.covariances(at)[None])
        for name, at in problem.vectors.items()
    }


def no_integral(why: str) -> ModelError:
    """The error for a product of factors that cannot be normalised."""
    return ModelError(
        f"the product of the factors has no integral: {why}; add a factor that confines it, such as a prior"
    )


def gaussian_only(graph: FactorGraph) -> np.ndarray:
    """Flags of the real variables all of whose factors are Gaussian."""
    return _only(graph, lambda group: group.function is quadratic)


def has_closed_form(group: FactorBatch) -> bool:
    """Whether expectations under independent variables need means, variances and probabilities only."""
    return group.function is quadratic or group.function is residual


def closed_only(graph: FactorGraph) -> np.ndarray:
    """Flags of the real variables all of whose factors are Gaussian, or are so given states."""
    return _only(graph, has_closed_form)


def _only(graph: FactorGraph, is_meant: Callable[[FactorBatch], bool]) -> np.ndarray:
    found = np.array([isinstance(d, Real) for d in graph.variables.domains], dtype=bool)
    for group in graph.batches:
        if not is_meant(group):
            found[group.scopes] = False
    return found


def refuse_improper(graph: FactorGraph) -> None:
    """Raise an error if the product of the Gaussian factors has no integral over the variables S.

    A model that is too large to be factorised passes.
    """
    own = np.flatnonzero(gaussian_only(graph))
    if not len(own):
        return
    forms = [g for g in graph.batches if g.function is quadratic and g.scopes.shape[1]]
    with contextlib.suppress(TooLargeError):
        GaussianSystem(graph.variables.names, *_sum(graph, forms), 0.0).part(own).factorise()


def rounding(graph: FactorGraph, size: np.ndarray) -> float:
    """By how much the sum of Gaussian factors and residuals may be wrong at values of these sizes, (n,)."""
    total = 0.0
    for group in graph.batches:
        if group.function is quadratic:
            J, h, g = (np.abs(p) for p in group.parameters)
            x = size[group.scopes]
            total += float(g.sum() + (h * x).sum() + 0.5 * np.einsum("ai,aij,aj->", x, J, x))
        elif group.function is residual:
            total += float(_residual_sizes(group, size).sum())
    return float(np.finfo(float).eps) * total


def _residual_sizes(group: FactorBatch, size: np.ndarray) -> np.ndarray:
    """The largest |c| + (|w|'|x| + |b|)^2 / (2 v) of every residual among its possible states, (count,)."""
    w, b, v, c = group.parameters
    count, k = len(w), w.shape[-1]
    x = size[group.scopes[:, :k]].reshape(count, *[1] * (w.ndim - 2), k)
    is_possible = np.isfinite(c)
    reach = np.abs(np.where(is_possible, c, 0.0)) + 0.5 * ((np.abs(w) * x).sum(axis=-1) + np.abs(b)) ** 2 / v
    return np.asarray(np.where(is_possible, reach, 0.0).reshape(count, -1).max(axis=1))


def claim(value: float, kind: Kind, doubt: float) -> tuple[Estimate, tuple[str, ...]]:
    """A number of this kind as far as its rounding allows, and what there is to say about that."""
    clear = doubt <= _CLEAR * max(1.0, abs(value))
    if kind == "exact":
        kind = "exact" if clear else "estimate"
    elif kind == "lower":
        value -= doubt
    why = f"log Z is the difference of large numbers and known up to {doubt:.2g}"
    return Estimate(value, kind), () if clear else (why,)


def _sum(graph: FactorGraph, groups: Sequence[FactorBatch]) -> tuple[Any, np.ndarray]:
    """The precision matrix and the shift of groups of Gaussian factors."""
    from scipy.sparse import coo_matrix

    n = len(graph.variables)
    rows, columns, entries = [], [], []
    shift = np.zeros(n)
    for group in groups:
        J, h, _ = group.parameters
        k = group.scopes.shape[1]
        rows.append(np.repeat(group.scopes, k, axis=1).ravel())
        columns.append(np.tile(group.scopes, (1, k)).ravel())
        entries.append(J.ravel())
        np.add.at(shift, group.scopes, h)
    triplets = (_join(entries, float), (_join(rows, int), _join(columns, int)))
    matrix = coo_matrix(triplets, shape=(n, n)).tocsc()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix, shift


@dataclass(frozen=True, eq=False)
class GaussianSystem:
    """The product of all factors of a graph."""

    names: Any  # of the variables
    precision: Any  # J, a sparse (n, n) matrix with sorted columns
    shift: np.ndarray  # h, (n,)
    constant: float  # g

    @classmethod
    def of(cls, problem: Problem) -> GaussianSystem:
        """Add up the factors of a graph that holds Gaussian factors and constants only."""
        graph = problem.graph
        forms = [g for g in graph.batches if g.domains]
        constant = sum(_constants(graph, g) for g in graph.batches if not g.domains)
        constant += sum(float(g.parameters[2].sum()) for g in forms)
        if constant == -np.inf:
            raise problem.contradiction()
        return cls(graph.variables.names, *_sum(graph, forms), constant)

    def part(self, keep: np.ndarray) -> GaussianSystem:
        """The same form with all variables but those at `keep` fixed to zero."""
        matrix = self.precision[keep][:, keep].tocsc()
        matrix.sort_indices()
        return GaussianSystem([self.names[int(i)] for i in keep], matrix, self.shift[keep], self.constant)

    def factorise(self) -> Factorisation:
        """The factorisation of J, or an error that names a direction, or the forecast that is too large."""
        n = len(self.names)
        if n <= _SMALL or self.precision.nnz > _DENSE * n**2:
            _refuse_large(float(n) ** 2, n**3 / 3)
            return _Dense(self)
        plan = _Plan(self.precision)
        if _SLOWER * plan.work < n**3 / 3:
            _refuse_large(plan.entries, plan.work)
            return _Sparse(self, plan)
        _refuse_large(float(n) ** 2, n**3 / 3)
        return _Dense(self)

    def log_integral(self, factorisation: Factorisation, mean: np.ndarray) -> float:
        """The log of the integral over all variables."""
        n = len(self.names)
        half = 0.5 * (float(self.shift @ mean) + n * _LOG_2PI - factorisation.log_determinant)
        return self.constant + half

    def describe(self, direction: np.ndarray) -> str:
        """A direction in words: its largest coordinates by name."""
        order = np.argsort(-np.abs(direction), kind="stable").tolist()
        top = [i for i in order[:_SHOWN] if abs(direction[i]) > 1e-6 * abs(direction[order[0]])]
        if len(top) == 1:
            return f"'{self.names[top[0]]}'"
        scaled = direction / direction[top[0]]
        more = ", ..." if np.count_nonzero(np.abs(scaled) > 1e-6) > len(top) else ""
        return "(" + ", ".join(f"{self.names[i]}: {scaled[i]:.3g}" for i in top) + f"{more})"


class Factorisation(abc.ABC):
    """J = L D L' in some order of the variables."""

    size: int  # of J
    log_determinant: float

    @abc.abstractmethod
    def solve(self, b: np.ndarray) -> np.ndarray:
        """J^-1 b."""

    def solve_columns(self, b: np.ndarray) -> np.ndarray:
        """J^-1 b for every column of b, (n, count)."""
        return np.stack([self.solve(column) for column in b.T], axis=1) if b.shape[1] else b

    @abc.abstractmethod
    def variances(self) -> np.ndarray:
        """The diagonal of J^-1."""

    def covariances(self, positions: np.ndarray) -> np.ndarray:
        """The block of J^-1 at some positions."""
        block = np.empty((len(positions), len(positions)))
        for k, i in enumerate(positions):
            unit = np.zeros(self.size)
            unit[i] = 1.0
            block[:, k] = self.solve(unit)[positions]
        return (block + block.T) / 2

    @abc.abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Rows of independent draws with covariance J^-1 and mean zero."""


class _Dense(Factorisation):
    def __init__(self, system: GaussianSystem) -> None:
        from scipy.linalg.lapack import dpotrf

        J = system.precision.toarray()
        self.size = len(J)
        self._root, failed = dpotrf(J, lower=1, clean=1)
        done = failed - 1 if failed else len(J)
        pivots = np.diag(self._root)[:done] ** 2
        small = np.flatnonzero(pivots <= _DIGITS * np.diag(J)[:done])
        if failed or len(small):
            k = int(small[0]) if len(small) else done
            direction = np.zeros(len(J))
            direction[: k + 1] = np.append(-np.linalg.solve(J[:k, :k], J[:k, k]), 1.0)
            raise _refusal(system, direction)
        self.log_determinant = float(np.log(pivots).sum())

    def solve(self, b: np.ndarray) -> np.ndarray:
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve((self._root, True), b)) if len(b) else b

    def solve_columns(self, b: np.ndarray) -> np.ndarray:
        return self.solve(b)

    def variances(self) -> np.ndarray:
        from scipy.linalg.lapack import dpotri

        return np.diag(dpotri(self._root, lower=1)[0]).copy() if len(self._root) else np.empty(0)

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        from scipy.linalg import solve_triangular

        noise = rng.standard_normal((len(self._root), count))
        return np.asarray(solve_triangular(self._root.T, noise, lower=False)).T


class _Sparse(Factorisation):
    def __init__(self, system: GaussianSystem, plan: _Plan) -> None:
        from ...kernels import sparse_cholesky as kernel

        order, (start, row) = plan.order, plan.pattern()
        self._order, self._start, self._row, self.size = order, start, row, len(order)
        moved = system.precision[order][:, order].tocsc()
        diagonal = moved.diagonal()
        self._value, self._pivot = np.zeros(len(row)), np.zeros(len(order))
        entry = _on_pattern(moved, start, row)
        failed = kernel.factorise(
            start, row, diagonal, entry, _DIGITS * np.abs(diagonal), self._value, self._pivot
        )
        if failed >= 0:
            # The columns before it are complete: with them, L' v = e gives v'Jv = the pivot.
            direction = np.zeros(len(order))
            direction[failed] = 1.0
            kernel.backward(start[: failed + 1], row, self._value, direction)
            raise _refusal(system, self._back(direction))
        self.log_determinant = float(np.log(self._pivot).sum())

    def solve(self, b: np.ndarray) -> np.ndarray:
        from ...kernels import sparse_cholesky as kernel

        x = b[self._order].astype(np.float64)
        kernel.forward(self._start, self._row, self._value, x)
        x /= self._pivot
        kernel.backward(self._start, self._row, self._value, x)
        return self._back(x)

    def variances(self) -> np.ndarray:
        from ...kernels.sparse_cholesky import inverse_diagonal

        return self._back(inverse_diagonal(self._start, self._row, self._value, self._pivot))

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        from ...kernels.sparse_cholesky import backward

        found = rng.standard_normal((count, len(self._order))) / np.sqrt(self._pivot)
        for x in found:
            backward(self._start, self._row, self._value, x)
        return self._back(found)

    def _back(self, x: np.ndarray) -> np.ndarray:
        found = np.empty_like(x)
        found[..., self._order] = x
        return found


def _refusal(system: GaussianSystem, direction: np.ndarray) -> ModelError:
    curvature = float(direction @ (system.precision @ direction)) / float(direction @ direction)
    along = system.describe(direction)
    if abs(curvature) <= np.sqrt(_DIGITS) * abs(system.precision).max():
        return no_integral(f"it does not fall off along {along}")
    return no_integral(f"it grows along {along}, where the precision is {curvature:.4g}")


class _Plan:
    """An elimination order of few fill-ins, and what factorising along it will take."""

    def __init__(self, matrix: Any) -> None:
        from scipy.sparse import csc_matrix, identity
        from scipy.sparse.linalg import spilu

        from ...kernels.sparse_cholesky import column_counts

        n = matrix.shape[0]
        ones = np.full(matrix.nnz, -1.0)
        pattern = csc_matrix((ones, matrix.indices, matrix.indptr), shape=(n, n), copy=True)
        # SciPy offers no ordering by itself; an incomplete factorisation of a harmless matrix of this
        # pattern finds one, and is made to drop what it computes besides.
        harmless = pattern + (2.0 + np.diff(matrix.indptr).max(initial=0)) * identity(n, format="csc")
        settings: dict[str, Any] = {"drop_tol": 0.99, "fill_factor": 1, "drop_rule": "basic"}
        settings |= {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0}
        made = spilu(harmless, options={"SymmetricMode": True}, **settings)
        self.order = np.argsort(made.perm_c).astype(np.int64)
        pattern.setdiag(0.0)
        pattern.eliminate_zeros()
        self._start, self._neighbour = pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64)
        counts = np.zeros(n, dtype=np.int64)
        self.entries = column_counts(self._start, self._neighbour, self.order, _MOST_ENTRIES, counts)
        too_many = self.entries > _MOST_ENTRIES  # then the counts are not complete
        self.work = np.inf if too_many else float((counts.astype(np.float64) ** 2).sum())

    def pattern(self) -> tuple[np.ndarray, np.ndarray]:
        """The pattern of L: slices of ascending rows, columns in the order of elimination."""
        from ...kernels.ordering import order_cost

        n = len(self.order)
        first, clique, _, _ = order_cost(self._start, self._neighbour, np.ones(n), self.order)
        rank = np.empty(n, dtype=np.int64)
        rank[self.order] = np.arange(n)
        column, row = np.repeat(np.arange(n), np.diff(first)), rank[clique]
        inside = row != column  # a clique begins with the variable itself
        row, column = row[inside], column[inside]
        start = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=n))]).astype(np.int64)
        return start, row[np.lexsort((row, column))]


def _on_pattern(matrix: Any, start: np.ndarray, row: np.ndarray) -> np.ndarray:
    """The entries below the diagonal at the places of a pattern that contains them."""
    n = len(start) - 1
    found = np.zeros(len(row))
    columns = np.repeat(np.arange(n), np.diff(matrix.indptr))
    below = matrix.indices > columns
    keys = np.repeat(np.arange(n), np.diff(start)) * n + row
    found[np.searchsorted(keys, columns[below] * n + matrix.indices[below])] = matrix.data[below]
    return found


def _refuse_large(entries: float, work: float) -> None:
    if entries > _MOST_ENTRIES or work > _MOST_WORK:
        raise TooLargeError(
            f"gaussian: the factor would have {entries:.1e} entries and need {work:.1e} multiplications; "
            "use gaussian-bp, whose means are exact where it converges"
        )


def _constants(graph: FactorGraph, group: Any) -> float:
    return float(sum(float(graph.factors[int(a)].log_values()) for a in group.factors))


def _join(parts: list[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(parts).astype(kind) if parts else np.empty(0, dtype=kind)
