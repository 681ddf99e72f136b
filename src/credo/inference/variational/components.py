"""How many components a mixture has in effect."""

from __future__ import annotations

import numpy as np

__all__ = ["effective_number", "told_components"]

_SAME = 0.95  # overlap at which two components count as one


def effective_number(weights: np.ndarray, overlap: np.ndarray) -> float:
    """Exponential of the entropy of the weights; components that coincide count once.

    Parameters
    ----------
    weights
        (components,) that sum to one.
    overlap
        (components, components) from 0, apart, to 1, equal.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.inference.variational.components import effective_number
    >>> round(effective_number(np.array([0.5, 0.25, 0.25]), np.array([[1, 0, 0], [0, 1, 1], [0, 1, 1]])), 6)
    2.0
    """
    owner = np.array([int(np.flatnonzero(row >= _SAME)[0]) for row in overlap])
    share = np.bincount(owner[owner], weights)
    share = share[share > 0] / share.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


def told_components(weights: np.ndarray, overlap: np.ndarray) -> str:
    """A sentence about them."""
    return f"{effective_number(weights, overlap):.3g} of {len(weights)} components in effect"
