"""Rows of a network with real nodes that lack the same cells: what one of their parts expects.

The formulas are those of `conditional_gaussian.py`: responsibilities of the hidden joint states, the Gaussian
of the missing numbers given each of them, and what both add to counts and moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import ImpossibleRowError

if TYPE_CHECKING:
    from .conditional_gaussian import NetworkProblem

__all__ = ["ConditionalNode", "PatternPart"]

_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class ConditionalNode:
    """Where the parameters and statistics of a real node lie."""

    i: int  # position of the variable
    reals: tuple[int, ...]  # real parents
    given: tuple[int, ...]  # discrete parents
    sizes: tuple[int, ...]  # of the discrete parents
    at: int  # of its parameters: (S, k + 2) rows bias, weights, variance
    moments: int  # of its moments: (S, k + 2, k + 2)

    @property
    def count(self) -> int:
        """Joint states of the discrete parents."""
        return int(np.prod(self.sizes, dtype=np.int64))

    @property
    def width(self) -> int:
        """Numbers per joint state: bias, weights, variance."""
        return len(self.reals) + 2


class PatternPart:
    """Rows of one pattern, one part: weights (rows, joint states) and Gaussians given these."""

    def __init__(
        self, problem: NetworkProblem, parameters: np.ndarray, logs: np.ndarray, rows: np.ndarray,
        discrete: list[int], missing: list[int], around: list[int],
    ) -> None:  # fmt: skip
        self.problem, self.rows, self.missing, self.around = problem, rows, missing, around
        self.sizes = problem.model.variables.sizes
        joint = (
            np.indices(tuple(self.sizes[discrete])).reshape(len(discrete), -1)
            if discrete
            else np.empty((0, 1))
        )
        self.own = dict(zip(discrete, joint.astype(np.int64), strict=True))
        self.shape = (len(rows), joint.shape[1])
        self.log_weight = np.zeros(self.shape)
        self._tables(logs)
        self._gaussian(parameters)

    def _code(self, variables: Any) -> np.ndarray:
        """Joint state of some discrete variables in each row and joint state of the part."""
        code: Any = np.zeros((1, 1), dtype=np.int64)
        for j in variables:
            own = self.own[j][None] if j in self.own else self.problem.data.states[self.rows, j][:, None]
            code = code * self.sizes[j] + own
        return np.broadcast_to(code, self.shape)

    def _tables(self, logs: np.ndarray) -> None:
        self.entries = {
            i: self.problem.table_at[i] + self._code(self.problem.scopes[i])
            for i in self.around
            if self.sizes[i]
        }
        for entry in self.entries.values():
            self.log_weight += logs[entry]

    def _gaussian(self, parameters: np.ndarray) -> None:
        """Precision and mode of the missing numbers, and the density of the others."""
        m, problem = len(self.missing), self.problem
        self.codes = {i: self._code(problem.nodes[i].given) for i in self.around if not self.sizes[i]}
        J, h, forms = np.zeros((*self.shape, m, m)), np.zeros((*self.shape, m)), []
        for i, code in self.codes.items():
            node = problem.nodes[i]
            own = problem.of_node(parameters, node)[code]
            a, g = np.zeros((*self.shape, m)), own[..., 0].copy()
            for j, factor in [(i, np.array(-1.0)), *((p, own[..., 1 + k]) for k, p in enumerate(node.reals))]:
                if j in self.missing:
                    a[..., self.missing.index(j)] -= factor
                else:
                    g += factor * problem.x[self.rows, j][:, None]
            v = own[..., -1]
            J += a[..., :, None] * a[..., None, :] / v[..., None, None]
            h += a * (g / v)[..., None]
            forms.append((a, g, v))
        self.covariance = np.linalg.inv(J) if m else J
        self.mean = (self.covariance @ h[..., None])[..., 0] if m else h
        for a, g, v in forms:
            gap = (a * self.mean).sum(axis=-1) - g
            self.log_weight -= 0.5 * (gap**2 / v + np.log(v) + _LOG_2PI)
        if m:
            self.log_weight += 0.5 * (m * _LOG_2PI - np.linalg.slogdet(J)[1])
        for i in self.codes:  # densities are per unit of the data, not of the columns
            if i not in self.missing:
                self.log_weight -= np.log(problem.unit[i])

    def add_to(self, statistics: np.ndarray) -> float:
        """Add what these rows expect; returns their log-likelihood."""
        problem, weights = self.problem, self.problem.data.weights[self.rows]
        top = self.log_weight.max(axis=1)
        if np.isneginf(top).any():
            raise ImpossibleRowError(int(self.rows[int(np.flatnonzero(np.isneginf(top))[0])]))
        share = np.exp(self.log_weight - top[:, None])
        sums = share.sum(axis=1)
        share *= (weights / sums)[:, None]
        for entry in self.entries.values():
            _add(statistics, entry, share)
        for i, code in self.codes.items():
            self._add_moments(statistics, problem.nodes[i], code, share)
        return float(weights @ (top + np.log(sums)))

    def _add_moments(
        self, statistics: np.ndarray, node: ConditionalNode, code: np.ndarray, share: np.ndarray
    ) -> None:
        members = [*node.reals, node.i]
        z = [np.ones((1, 1)), *(self._expected(j) for j in members)]
        place = [self.missing.index(j) if j in self.missing else None for j in members]
        for a in range(node.width):
            for b in range(a, node.width):
                value = z[a] * z[b]
                if a and b and place[a - 1] is not None and place[b - 1] is not None:
                    value = value + self.covariance[..., place[a - 1], place[b - 1]]
                for one, other in {(a, b), (b, a)}:
                    entry = node.moments + code * node.width**2 + one * node.width + other
                    _add(statistics, entry, share * value)

    def _expected(self, j: int) -> np.ndarray:
        if j in self.missing:
            return self.mean[..., self.missing.index(j)]
        return self.problem.x[self.rows, j][:, None]


def _add(statistics: np.ndarray, entry: np.ndarray, amount: np.ndarray) -> None:
    """Add amounts at entries that may repeat; the range of entries is what is written."""
    low, high = int(entry.min()), int(entry.max())
    sums = np.bincount(entry.ravel() - low, np.broadcast_to(amount, entry.shape).ravel())
    statistics[low : high + 1] += sums
