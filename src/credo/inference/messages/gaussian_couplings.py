"""What couples the variables of a Gaussian model, in the flat arrays of `kernels/gaussian_messages.py`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.wiring import starts_of
from ...structures.graph import component_labels
from ..problem.gaussian_system import GaussianSystem, no_integral

__all__ = ["Couplings", "merge_pairs"]

_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class Couplings:
    """Precision and shift of each variable, and a matrix with a zero diagonal for each set of variables.

    An edge is a place in `scope`: a variable of a factor.
    """

    scope_start: np.ndarray  # (m + 1,) first edge of each factor
    scope: np.ndarray  # (edges,) variable of each edge
    matrix_start: np.ndarray  # (m,) where each matrix begins
    matrix: np.ndarray  # all matrices in rows
    precision: np.ndarray  # (n,) the diagonal of J
    shift: np.ndarray  # (n,) h
    constant: float  # g

    @classmethod
    def of(cls, graph: FactorGraph, system: GaussianSystem) -> Couplings:
        """Merge the factors of equal scopes and give their diagonals to the variables."""
        diagonal = system.precision.diagonal()
        if (diagonal <= 0).any():
            i = int(np.argmin(diagonal))
            raise no_integral(f"the precision of '{graph.variables.names[i]}' is {diagonal[i]:.4g}")
        arities, scopes, matrices = [], [], []
        for group in graph.batches:
            if len(group.domains) < 2:
                continue
            scope, matrix = merge_pairs(group.scopes, group.parameters[0])
            arities.append(np.full(len(scope), scope.shape[1]))
            scopes.append(scope.ravel())
            matrices.append(matrix.ravel())
        arity = np.concatenate(arities) if arities else np.empty(0, np.int64)
        return cls(
            starts_of(arity),
            np.concatenate(scopes) if scopes else np.empty(0, np.int64),
            starts_of(arity**2)[:-1],
            np.concatenate(matrices) if matrices else np.empty(0),
            diagonal,
            system.shift,
            system.constant,
        )

    @cached_property
    def is_forest(self) -> bool:
        """Whether the factors form a forest, so that two passes are exact."""
        n, m = len(self.precision), len(self.scope_start) - 1
        factor = n + np.repeat(np.arange(m), np.diff(self.scope_start))
        parts = int(component_labels(n + m, factor, self.scope).max(initial=-1)) + 1
        return len(factor) == n + m - parts

    def orders(self, schedule: str, turn: int) -> tuple[np.ndarray, bool]:
        """Rows of factors to sweep over in turn, and whether new messages are used at once."""
        m = len(self.scope_start) - 1
        if schedule == "flooding":
            return np.arange(m)[None, :], False
        if schedule == "tree" or (schedule == "auto" and self.is_forest):
            rows = self._tree_rows
        else:
            rows = np.stack([np.arange(m), np.arange(m)[::-1]])
        return np.roll(rows, -(turn % 2), axis=0), True

    @cached_property
    def _tree_rows(self) -> np.ndarray:
        """Factors from the leaves of a spanning forest to its roots, and back."""
        from ...kernels.message_beliefs import factor_depths

        m = len(self.scope_start) - 1
        factor = np.repeat(np.arange(m), np.diff(self.scope_start))
        around = np.argsort(self.scope, kind="stable")
        first = starts_of(np.bincount(self.scope, minlength=len(self.precision)))
        depth = factor_depths(self.scope_start, self.scope, first, around, factor)
        down = np.argsort(depth, kind="stable")
        return np.stack([down[::-1], down])

    def totals(self, precision: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Precision and shift of every variable's belief."""
        n = len(self.precision)
        return (
            self.precision + np.bincount(self.scope, precision, minlength=n),
            self.shift + np.bincount(self.scope, shift, minlength=n),
        )

    def log_value(self, x: np.ndarray) -> float:
        """The quadratic form at a point, without the constant."""
        total = float(x @ (self.shift - 0.5 * self.precision * x))
        for edges, matrix in self._blocks():
            values = x[self.scope[edges]]
            total -= 0.5 * float(np.einsum("ai,aij,aj->", values, matrix, values))
        return total

    def bethe(self, precision: np.ndarray, shift: np.ndarray) -> float | None:
        """The Bethe log Z of messages; None if the belief of a factor has no integral."""
        P, H = self.totals(precision, shift)
        degree = np.bincount(self.scope, minlength=len(P))
        value = self.constant + float(((1 - degree) * _log_integral(P, H)).sum())
        for edges, matrix in self._blocks():
            k = edges.shape[1]
            cavity = P[self.scope[edges]] - precision[edges]
            local = matrix + cavity[:, :, None] * np.eye(k)
            rest = H[self.scope[edges]] - shift[edges]
            try:
                root = np.linalg.cholesky(local)
            except np.linalg.LinAlgError:
                return None
            half = np.linalg.solve(root, rest[:, :, None])[:, :, 0]
            logs = 2 * np.log(np.einsum("aii->ai", root)).sum()
            value += 0.5 * float((half**2).sum() + len(edges) * k * _LOG_2PI - logs)
        return value

    def _blocks(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Edges (count, k) and matrices (count, k, k) of the factors of each arity."""
        arity = np.diff(self.scope_start)
        found = []
        for k in np.unique(arity):
            at = np.flatnonzero(arity == k)
            edges = self.scope_start[at][:, None] + np.arange(k)
            entries = self.matrix_start[at][:, None] + np.arange(k**2)
            found.append((edges, self.matrix[entries].reshape(-1, k, k)))
        return found


def merge_pairs(scopes: np.ndarray, matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The off-diagonal matrices of equal scopes added up; those without any coupling left out."""
    order = np.argsort(scopes, axis=1)
    sorted_scopes = np.take_along_axis(scopes, order, axis=1)
    rows = np.arange(len(scopes))[:, None, None]
    moved = matrices[rows, order[:, :, None], order[:, None, :]]
    scope, which = np.unique(sorted_scopes, axis=0, return_inverse=True)
    total = np.zeros((len(scope), *matrices.shape[1:]))
    np.add.at(total, which.ravel(), moved)
    np.einsum("aii->ai", total)[:] = 0.0
    coupled = (total != 0).any(axis=(1, 2))
    return scope[coupled], total[coupled]


def _log_integral(precision: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Log of the integral of exp(shift x - precision x^2 / 2)."""
    return 0.5 * (_LOG_2PI - np.log(precision) + shift**2 / precision)
