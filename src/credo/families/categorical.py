r"""Categorical distributions: p(x = s) = p_s.

    T(x) = one-hot of x,   eta_s = log p_s,   A(eta) = log sum_s exp eta_s

The natural parameters are over-complete: adding a constant to a row changes nothing. A probability of
zero has eta = -inf. A missing observation is -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.domain import Domain, unlabelled_states
from ..core.errors import DataError, ModelError
from ..core.numbers import float_array
from ..core.records import register
from .base import ClosedLeaf, Statistics, frozen, member_weights, numbers
from .natural import normalised

__all__ = ["Categorical"]

_EXACT = 1e-14
_SUM = 1e-6  # how far from 1 a row may sum before it is refused; it is divided by its sum


@register("Categorical", fields=["probabilities"])
class Categorical(ClosedLeaf):
    """Categorical members; immutable.

    Parameters
    ----------
    probabilities
        Shape (members, states); rows sum to 1.

    Examples
    --------
    >>> from credo.families.categorical import Categorical
    >>> Categorical([[0.5, 0.5], [0.9, 0.1]])
    Categorical(2 members, 2 states)
    """

    def __init__(self, probabilities: Any) -> None:
        found = numbers("probabilities", probabilities, 2)
        sums = found.sum(axis=1)
        if (found < 0).any():
            raise ModelError(f"probabilities: expected no negative number, got {found.min():g}")
        if not np.allclose(sums, 1.0, rtol=0, atol=_SUM):
            raise ModelError(
                f"probabilities: every row must sum to 1, got sums from {sums.min():g} to {sums.max():g}"
            )
        # Rows that sum to one up to rounding are taken to the last digit.
        self._p = frozen(np.where(np.abs(sums - 1.0) < _EXACT, 1.0, 1.0 / sums)[:, None] * found)

    @property
    def probabilities(self) -> np.ndarray:
        """(members, states), read-only."""
        return self._p

    def __len__(self) -> int:
        return len(self._p)

    def movement(self, new: Categorical) -> float:
        """The largest change of a probability."""
        return float(np.abs(new._p - self._p).max(initial=0.0))

    def schema(self, names: Sequence[str]) -> dict[str, Domain]:
        """States."""
        return {name: unlabelled_states(self.states) for name in names}

    @property
    def states(self) -> int:
        """How many states a row can have."""
        return self._p.shape[1]

    @property
    def n_parameters(self) -> int:
        """One less than the states, per member."""
        return len(self) * (self.states - 1)

    @property
    def natural(self) -> np.ndarray:
        """Log probabilities, (members, states)."""
        with np.errstate(divide="ignore"):
            return np.log(self._p)

    @property
    def log_normaliser(self) -> np.ndarray:
        """Zero: the natural parameters kept here are normalised."""
        return np.zeros(len(self))

    @property
    def mean_parameters(self) -> np.ndarray:
        """The probabilities."""
        return self._p

    @classmethod
    def from_natural(cls, natural: Any) -> Categorical:
        """Members proportional to exp(natural); -inf is a zero probability."""
        eta = float_array("natural", natural, copy=True)
        if np.isnan(eta).any() or not np.isfinite(eta.max(axis=1)).all():
            raise ModelError("natural: expected a finite number in every row, no NaN and no +inf")
        return cls(normalised(eta)[0])

    @classmethod
    def from_mean(cls, mean: Any) -> Categorical:
        """Members with these probabilities."""
        return cls(mean)

    def rows(self, x: Any) -> np.ndarray:
        """State indices (rows,); a column (rows, 1) is accepted, NaN and -1 are missing."""
        try:
            found = np.asarray(x)
        except ValueError:
            raise DataError(f"data: expected state indices of shape (rows,), got {x!r:.80}") from None
        if found.dtype.kind == "O" or np.ma.is_masked(x):
            found = float_array("data", x, error=DataError, expected="state indices", missing=True)
        if found.ndim == 2 and found.shape[1] == 1:
            found = found[:, 0]
        if found.dtype.kind == "f":
            found = np.where(np.isnan(found), -1.0, found)
            whole = found.astype(np.int64)
            if (whole != found).any():
                raise DataError(f"data: expected state indices, got {found[whole != found][0]:g}")
            found = whole
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise DataError(
                f"data: expected state indices of shape (rows,), got {found.dtype} of shape {found.shape}"
            )
        if len(found) and (found.min() < -1 or found.max() >= self.states):
            row = int(np.flatnonzero((found < -1) | (found >= self.states))[0])
            raise DataError(
                f"data: row {row} has state {found[row]}, expected 0 to {self.states - 1}, or -1 for missing"
            )
        return found.astype(np.int64, copy=False)

    def missing(self, x: np.ndarray) -> np.ndarray:
        """Rows with state -1."""
        return x < 0

    def hide(self, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """A copy with -1 in the marked rows."""
        return np.where(hidden, -1, x)

    def sufficient(self, x: np.ndarray) -> np.ndarray:
        """One-hot rows."""
        return np.eye(self.states)[x]

    def leaves(self, x: Any) -> np.ndarray:
        """Log probabilities of the states, (rows, members); 0 where missing."""
        table = np.zeros((self.states + 1, len(self)))  # the last row serves -1
        table[:-1] = self.natural.T
        return table[self.rows(x)]

    def sample(self, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One state from each of the given members."""
        edges = np.cumsum(self._p, axis=1)
        draws = rng.random(len(members)) * edges[members, -1]
        return np.minimum((edges[members] <= draws[:, None]).sum(axis=1), self.states - 1)

    def collect(self, x: Any, q: np.ndarray | None = None) -> Statistics:
        """Weighted counts of the states; missing rows do not count."""
        found = self.rows(x)
        weights = member_weights(q, len(found), len(self))
        total = np.empty((self.states + 1, len(self)))
        where = np.where(found < 0, self.states, found)
        for k in range(len(self)):
            column = None if weights is None else weights[:, k]
            total[:, k] = np.bincount(where, column, minlength=self.states + 1)
        return Statistics(total[:-1].sum(axis=0), np.ascontiguousarray(total[:-1].T))

    def update(self, counts: None, sums: Statistics, prior: Any = None, *, floor: float = 0.0) -> Categorical:
        """Relative counts, or the mode of the Dirichlet posterior; `floor` is not used here."""
        total = sums.total
        if prior is not None:
            total = np.maximum(total + prior.repeat(len(self)).concentration - 1.0, 0.0)
        whole = total.sum(axis=1, keepdims=True)
        seen = whole > 0
        return Categorical(np.where(seen, total / np.where(seen, whole, 1.0), self._p))

    def kl(self, other: Categorical) -> np.ndarray:
        """KL divergence, inf where `other` excludes a state that this one has."""
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(self._p > 0, self._p * (self.natural - other.natural), 0.0)
        return terms.sum(axis=1)

    def entropy(self) -> np.ndarray:
        """-sum p log p."""
        with np.errstate(invalid="ignore"):
            return -np.where(self._p > 0, self._p * self.natural, 0.0).sum(axis=1)

    def take(self, members: Any) -> Categorical:
        """Some of the members."""
        return Categorical(self._p[members])

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> Categorical:
        """Rows drawn uniformly from the simplex."""
        return Categorical(rng.dirichlet(np.ones(self.states), size=len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categorical) and np.array_equal(self._p, other._p)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Categorical({len(self)} members, {self.states} states)"
