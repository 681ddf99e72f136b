r"""Weights of a Dirichlet process that is cut off: pieces broken from a stick of length one.

    pi_k = v_k prod_{j<k} (1 - v_j),   v_k ~ Beta(a_k, b_k),      prior v_k ~ Beta(1, a)
    E[log pi_k] = E[log v_k] + sum_{j<k} E[log (1 - v_j)],        posterior (a_k, b_k) + (N_k, sum_{j>k} N_j)

What is left of the stick after the last piece belongs to nobody, so expected weights are divided by their
sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import check
from ..core.errors import ModelError
from ..core.records import register
from .dirichlet import Dirichlet

__all__ = ["StickBreaking"]

_LEAST, _LARGEST = 1e-6, 1e6  # concentrations beyond which nothing changes any more


@register("StickBreaking", fields=["pieces"])
class StickBreaking:
    """The distribution of weights that are pieces of a stick; immutable.

    Parameters
    ----------
    pieces
        The Beta distribution of each piece: `Dirichlet` with two states, the first for the piece and the
        second for what remains.

    Examples
    --------
    >>> from credo.families.stick_breaking import StickBreaking
    >>> StickBreaking.prior(3, concentration=1.0).posterior([2.0, 1.0, 0.0]).mean().round(3)
    array([0.643, 0.286, 0.071])
    """

    def __init__(self, pieces: Dirichlet) -> None:
        if not isinstance(pieces, Dirichlet) or pieces.concentration.shape[1] != 2:
            raise ModelError(
                f"pieces: expected a Dirichlet with two states per piece of the stick, got {pieces!r:.60}; "
                "StickBreaking.prior(count, concentration) makes one"
            )
        self._pieces = pieces

    @classmethod
    def prior(cls, count: int, concentration: float = 1.0) -> StickBreaking:
        """So many pieces v ~ Beta(1, concentration): the smaller it is, the fewer components are used."""
        check.whole("count", count, 1)
        check.at_least("concentration", concentration, 1e-10)
        return cls(Dirichlet(np.tile([1.0, concentration], (count, 1))))

    @property
    def pieces(self) -> Dirichlet:
        """The distributions of v, one member per component."""
        return self._pieces

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def expected_log(self) -> np.ndarray:
        """E[log pi], (components,)."""
        first, rest = self._pieces.expected_log.T
        return np.asarray(first + np.concatenate([[0.0], np.cumsum(rest)[:-1]]))

    def posterior(self, counts: Any) -> StickBreaking:
        """Given how many rows belong to each component."""
        rows = np.asarray(counts, dtype=np.float64)
        after = np.maximum(rows.sum() - np.cumsum(rows), 0.0)
        return StickBreaking(Dirichlet(self._pieces.concentration + np.stack([rows, after], axis=1)))

    def mean(self) -> np.ndarray:
        """E[pi], (components,), divided by its sum."""
        return _broken(self._pieces.mean().probabilities)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Random weights, (components,), divided by their sum."""
        return _broken(self._pieces.sample(rng).probabilities)

    def kl(self, other: StickBreaking) -> np.ndarray:
        """KL divergence of every piece to the one of `other` at the same place, (components,)."""
        return self._pieces.kl(other._pieces)

    def match(self, members: StickBreaking) -> StickBreaking:
        """The prior Beta(1, a) of all pieces to which these have the least divergence."""
        a = len(members) / -members._pieces.expected_log[:, 1].sum()
        return StickBreaking.prior(len(members), min(max(a, _LEAST), _LARGEST))

    def take(self, components: Any) -> StickBreaking:
        """The stick with these pieces only, in this order."""
        return StickBreaking(self._pieces.take(components))

    def __repr__(self) -> str:
        return f"StickBreaking({len(self)} pieces)"


def _broken(v: np.ndarray) -> np.ndarray:
    found = v[:, 0] * np.concatenate([[1.0], np.cumprod(v[:, 1])[:-1]])
    return np.asarray(found / found.sum())
