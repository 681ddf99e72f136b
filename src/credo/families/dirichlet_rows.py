r"""Dirichlet distributions over rows of different lengths, in one flat array; zeros are structural.

    log p(theta) = sum_rows [ sum_s (a_s - 1) log theta_s - log B(a) ]
    E[log theta_s] = psi(a_s) - psi(sum a)

The rows are those of conditional tables: row r owns the entries row_start[r]:row_start[r+1]. An entry with
concentration 0 is impossible: its probability is 0, its logarithm -inf, and it is no parameter.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.records import register
from .base import frozen, numbers
from .natural import best_symmetric

__all__ = ["DirichletRows"]


@register("DirichletRows", fields=["concentration", "row_sizes"])
class DirichletRows:
    """Dirichlet distributions of all rows of some tables; immutable.

    Parameters
    ----------
    concentration
        One number from 0 per entry; every row needs a positive one.
    row_sizes
        Entries of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families.dirichlet_rows import DirichletRows
    >>> prior = DirichletRows([1.0, 1.0, 2.0, 0.0, 2.0], [2, 3])
    >>> prior.mean()
    array([0.5, 0.5, 0.5, 0. , 0.5])
    >>> round(float(prior.log_evidence(np.array([2.0, 1.0, 0, 0, 0])).sum()), 6)  # 2! 1! / 4!
    -2.484907
    """

    def __init__(self, concentration: Any, row_sizes: Any) -> None:
        self._a = numbers("concentration", concentration, 1)
        self._sizes = np.asarray(row_sizes, dtype=np.int64)
        if self._sizes.ndim != 1 or (self._sizes < 1).any() or self._sizes.sum() != len(self._a):
            raise ModelError(
                f"row_sizes: expected positive counts that add up to {len(self._a)}, got {row_sizes!r:.60}"
            )
        if (self._a < 0).any() or (self._sums(self._a) <= 0).any():
            raise ModelError(
                "concentration: expected numbers from 0 with a positive one in every row, got others"
            )

    @property
    def concentration(self) -> np.ndarray:
        """Concentrations of all rows, one after the other, (entries,), read-only."""
        return self._a

    @property
    def row_sizes(self) -> np.ndarray:
        """How many entries each row has, (rows,)."""
        return self._sizes

    @cached_property
    def _first(self) -> np.ndarray:
        return np.cumsum(self._sizes) - self._sizes

    @cached_property
    def _totals(self) -> np.ndarray:
        return self._sums(self._a)

    @property
    def n_parameters(self) -> int:
        """Free numbers: possible entries less one per row."""
        return int(np.count_nonzero(self._a) - len(self._sizes))

    def _sums(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self._first)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sums of flat values over each row, (rows,)."""
        return self._sums(values)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """One number per row, repeated for its entries."""
        return np.repeat(values, self._sizes)

    @property
    def log_normaliser(self) -> np.ndarray:
        """Log of the multivariate beta function of every row."""
        from scipy.special import gammaln

        gammas = np.where(self._a > 0, gammaln(np.where(self._a > 0, self._a, 1.0)), 0.0)
        return self._sums(gammas) - gammaln(self._totals)

    @property
    def expected_log(self) -> np.ndarray:
        """E[log theta], (entries,); -inf where impossible. exp of it sums to less than 1."""
        from scipy.special import psi

        digammas = psi(np.where(self._a > 0, self._a, 1.0)) - self.spread(psi(self._totals))
        return np.where(self._a > 0, digammas, -np.inf)

    def posterior(self, counts: np.ndarray) -> DirichletRows:
        """Given counts of the entries; those of impossible ones must be 0."""
        found = DirichletRows(np.where(self._a > 0, self._a + counts, 0.0), self._sizes)
        if (counts[self._a == 0] > 0).any():
            raise ModelError("counts: an impossible entry was counted; give it a positive concentration")
        return found

    def log_evidence(self, counts: np.ndarray) -> np.ndarray:
        """Log probability of sequences of states with these counts, (rows,), tables integrated out."""
        return self.posterior(counts).log_normaliser - self.log_normaliser

    def laplace_evidence(self, counts: np.ndarray) -> np.ndarray:
        """Laplace's approximation of `log_evidence`, (rows,), in the log-ratios of the probabilities.

        In that basis the density has its maximum at (counts + a) / sum, and the determinant of the
        curvature there is sum^(S-1) prod theta.
        """
        after = self.posterior(counts)
        used = after._a > 0
        logs = np.where(used, np.log(np.where(used, after.mean(), 1.0)), 0.0)
        free = self._sums(used.astype(np.float64)) - 1.0
        fit = self._sums(after._a * logs) - self.log_normaliser
        curvature = free * np.log(after._totals) + self._sums(logs)
        return fit + 0.5 * (free * np.log(2.0 * np.pi) - curvature)

    def mean(self) -> np.ndarray:
        """Expected tables, (entries,)."""
        return self._a / self.spread(self._totals)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Random tables, (entries,)."""
        drawn = rng.standard_gamma(self._a)
        sums = self._sums(drawn)
        return np.where(
            self.spread(sums) > 0, drawn / self.spread(np.where(sums > 0, sums, 1.0)), self.mean()
        )

    def kl(self, other: DirichletRows) -> np.ndarray:
        """KL divergence of every row to the one of `other` at the same place, (rows,)."""
        gap = (self._a - other._a) * np.where(self._a > 0, self.expected_log, 0.0)
        return self._sums(gap) - self.log_normaliser + other.log_normaliser

    def match(self, members: DirichletRows) -> DirichletRows:
        """The prior to which these have the least divergence: one concentration for all possible entries.

        For rows of one length.
        """
        best = best_symmetric(members.expected_log.reshape(len(self._sizes), -1))
        return self.with_concentration(np.where(self._a > 0, best, 0.0))

    def take(self, rows: Any, entries: Any = slice(None)) -> DirichletRows:
        """Some of the rows, and of each some of the entries; for rows of one length."""
        table = self._a.reshape(len(self._sizes), -1)[rows][:, entries]
        return DirichletRows(table.ravel(), np.full(len(table), table.shape[1]))

    def with_concentration(self, concentration: np.ndarray) -> DirichletRows:
        """The same rows with other numbers."""
        return DirichletRows(frozen(np.array(concentration)), self._sizes)

    def __repr__(self) -> str:
        return f"DirichletRows({len(self._sizes)} rows, {len(self._a)} entries)"
