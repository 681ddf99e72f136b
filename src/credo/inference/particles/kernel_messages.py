r"""Messages of kernel belief propagation: regressions learned from joint rows of all variables.

With rows (x_1^i, ..., x_n^i), i = 1..N, of a joint density P*, a message is an element of the RKHS of its
receiver's kernel, and its update the conditional expectation estimated by kernel ridge regression:

    m_{t->s}(x) = E[ f_t(X_t) | X_s = x ],     f_t = l_t prod_{u in N(t) \ s} m_{u->t}                  (3.8)
               ~= k_s(x)' (K_s + ridge N I)^-1 ( f_t(x_t^1), ..., f_t(x_t^N) )
    b_s(x)      = P*(x) l_s(x) prod_u m_{u->s}(x)                                                       (3.9)

l_t is the likelihood of what was observed about t, and f_t the kernel density N(x_t^i; value, h^2) alone
where its value was. P* is a Parzen density, or the frequency of a state. Kernels are Gaussian, with the
median distance of the rows for their width; a discrete variable has k(x, y) = [x = y]. The mean of f is
left out of the ridge, so that a constant message stays one.

K ~ R R' with R from an incomplete Cholesky factorisation (Gram-Schmidt in feature space) of rank l, so an
update costs O(N l) instead of O(N^2). On trees the messages settle after as many sweeps as the longest path
has edges. Estimates of positive functions may be negative where rows are few: beliefs are cut at zero, and
how much was cut is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import DataError
from ...families.densities import GridDensity, MixtureDensity, ParticleDensity
from ...optimise.run import check

__all__ = ["KernelColumn", "KernelField", "Likelihood"]

Likelihood = Callable[[np.ndarray], np.ndarray]  # of values, or states

_EXACT = 1e-10  # share of the trace of K that may stay unexplained
_GRID = 400  # points of a belief
_REACH = 4.0  # of these beyond the rows, in widths of the Parzen density


@dataclass(frozen=True)
class KernelColumn:
    """One variable: its rows, and the features that stand for its kernel."""

    values: np.ndarray  # (rows,) numbers, or states
    size: int  # number of states; 0 for a real variable
    width: float  # of the kernel of the messages
    parzen: MixtureDensity | None  # density of a real variable
    pivots: np.ndarray  # (l,) rows that span the features
    corner: np.ndarray  # (l, l) features of these, lower triangular
    features: np.ndarray  # (rows, l) R
    solver: np.ndarray  # (l, rows) (R'R + ridge rows I)^-1 R'

    @classmethod
    def of(
        cls, name: str, values: np.ndarray, size: int, width: float, ridge: float, rank: int | None
    ) -> KernelColumn:
        """Features of a column of numbers, or of states of a variable with `size` of them."""
        rows = len(values)
        if size:
            parzen, scale = None, 1.0
        else:
            scale = width * _median_distance(values)
            if not scale > 0:
                raise DataError(f"data: column '{name}': expected values that differ, all are {values[0]}")
            parzen = ParticleDensity(values, np.full(rows, 1 / rows)).smooth
        pivots, features = _cholesky(values, size, scale, rows if rank is None else min(rank, rows))
        gram = features.T @ features + ridge * rows * np.eye(len(pivots))
        solver = np.linalg.solve(gram, features.T)
        return cls(values, size, scale, parzen, pivots, features[pivots], features, solver)

    def at(self, x: np.ndarray) -> np.ndarray:
        """Features (points, l) of any values."""
        kernel = _kernel(x[:, None], self.values[self.pivots], self.size, self.width)
        return np.linalg.solve(self.corner, kernel.T).T

    def fitted(self, target: np.ndarray) -> tuple[float, np.ndarray]:
        """The regression of a target (rows,) on this column: its mean, and weights (l,) of the features."""
        mean = float(target.mean())
        return mean, self.solver @ (target - mean)

    def likelihood(self, value: Any) -> np.ndarray:
        """How near each row is to an observed value: a kernel at the row, or whether it is that state."""
        if self.size:
            return (self.values == value).astype(np.float64)
        assert self.parzen is not None
        return np.exp(-0.5 * ((self.values - value) / self.parzen.sds[0]) ** 2)

    def points(self) -> np.ndarray:
        """Where beliefs are tabulated: the states, or values around the rows."""
        if self.size:
            return np.arange(self.size)
        assert self.parzen is not None
        reach = _REACH * self.parzen.sds[0]
        return np.linspace(self.values.min() - reach, self.values.max() + reach, _GRID)

    def prior(self, points: np.ndarray) -> np.ndarray:
        """P* at points."""
        if self.size:
            return np.bincount(self.values.astype(np.int64), minlength=self.size)[points] / len(self.values)
        assert self.parzen is not None
        return np.asarray(self.parzen.density(points))


def _kernel(x: np.ndarray, y: np.ndarray, size: int, width: float) -> np.ndarray:
    if size:
        return (x == y).astype(np.float64)
    return np.asarray(np.exp(-0.5 * ((x - y) / width) ** 2))


def _median_distance(values: np.ndarray) -> float:
    """Median of the distances of different rows, of evenly chosen ones where there are many."""
    chosen = np.sort(values)[np.linspace(0, len(values) - 1, min(len(values), 1000)).astype(np.int64)]
    gaps = np.abs(chosen[:, None] - chosen[None, :])
    return float(np.median(gaps[np.triu_indices(len(chosen), 1)])) if len(chosen) > 1 else 0.0


def _cholesky(values: np.ndarray, size: int, width: float, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Pivots and features R of the incomplete Cholesky factorisation; the farthest row is the next pivot."""
    rows = len(values)
    left = np.ones(rows)  # the diagonal of K - R R'
    features = np.zeros((rows, rank))
    pivots: list[int] = []
    while len(pivots) < rank and left.sum() > _EXACT * rows:
        check()
        k, p = len(pivots), int(left.argmax())
        kernel = _kernel(values, values[p], size, width)
        features[:, k] = (kernel - features[:, :k] @ features[p, :k]) / np.sqrt(left[p])
        left = np.maximum(left - features[:, k] ** 2, 0.0)
        left[p] = 0.0
        pivots.append(p)
    return np.array(pivots, dtype=np.int64), features[:, : len(pivots)]


class KernelField:
    """Columns and the pairs of them that messages pass between.

    Parameters
    ----------
    columns
        One per variable, with the same rows.
    pairs
        (E, 2) positions of the columns.
    """

    def __init__(self, columns: list[KernelColumn], pairs: np.ndarray) -> None:
        self.columns = columns
        self.sender = np.concatenate([pairs[:, 0], pairs[:, 1]])
        self.receiver = np.concatenate([pairs[:, 1], pairs[:, 0]])
        count = len(pairs)
        self.reverse = np.roll(np.arange(2 * count), count)
        self._into = [np.flatnonzero(self.receiver == i) for i in range(len(columns))]

    def start(self) -> tuple[np.ndarray, list[tuple[float, np.ndarray]]]:
        """Messages (2E, rows) at the rows of their receivers, and their regressions: constants."""
        rows = len(self.columns[0].values) if self.columns else 0
        fits = [(1.0, np.zeros(self.columns[s].features.shape[1])) for s in self.receiver]
        return np.ones((len(self.sender), rows)), fits

    def sweep(
        self, messages: np.ndarray, likelihoods: dict[int, np.ndarray], observed: dict[int, Any]
    ) -> tuple[np.ndarray, list[tuple[float, np.ndarray]], float]:
        """All messages from the old ones.

        Parameters
        ----------
        messages
            (2E, rows) at the rows of their receivers.
        likelihoods
            Position -> (rows,) what is known about a variable beyond P*, at its rows.
        observed
            Position -> value of an observed variable.

        Returns
        -------
        messages, regressions, change
            The new ones; each as mean and weights of features; and their largest change, of size about one.
        """
        new, fits = np.empty_like(messages), []
        for d, (t, s) in enumerate(zip(self.sender.tolist(), self.receiver.tolist(), strict=True)):
            if t in observed:
                target = self.columns[t].likelihood(observed[t])
            else:
                target = likelihoods.get(t, np.ones(messages.shape[1]))
                for u in self._into[t]:
                    if u != self.reverse[d]:
                        target = target * messages[u]
            size = float(np.abs(target).mean())
            mean, weights = self.columns[s].fitted(target / size if size > 0 else target)
            fits.append((mean, weights))
            new[d] = mean + self.columns[s].features @ weights
        change = float(np.abs(new - messages).max(initial=0.0))
        return new, fits, change

    def belief(
        self, i: int, fits: list[tuple[float, np.ndarray]], likelihood: np.ndarray | None, points: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """The belief of a variable at points, cut at zero and not normalised, and the share that was cut."""
        column = self.columns[i]
        values = column.prior(points)
        if likelihood is not None:
            values = values * likelihood
        features = column.at(np.asarray(points, dtype=np.float64))
        for d in self._into[i]:
            mean, weights = fits[d]
            values = values * (mean + features @ weights)
        total = float(np.abs(values).sum())
        lost = float(-np.minimum(values, 0.0).sum())
        return np.maximum(values, 0.0), lost / total if total > 0 else 1.0

    def density(self, i: int, values: np.ndarray, points: np.ndarray) -> Any:
        """Probabilities, or a density, of a tabulated belief."""
        if self.columns[i].size:
            return values / values.sum()
        with np.errstate(divide="ignore"):
            return GridDensity.of(points, np.log(values))
