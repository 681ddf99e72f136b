"""Divergences between arrays of non-negative numbers that need not sum to one.

    D_alpha(p || q) = sum_x [ alpha p + (1 - alpha) q - p^alpha q^(1 - alpha) ] / ( alpha (1 - alpha) )
    KL(p || q)      = sum_x p log(p / q) + q - p

D_alpha tends to KL(p || q) for alpha -> 1 and to KL(q || p) for alpha -> 0, and
D_alpha(p || q) = D_(1-alpha)(q || p). It is never negative, and zero only for p = q.
"""

from __future__ import annotations

import numpy as np

__all__ = ["alpha_terms"]


def alpha_terms(p: np.ndarray, q: np.ndarray, alpha: float) -> np.ndarray:
    """What each pair of entries adds to D_alpha(p || q), with its limits at alpha = 0 and alpha = 1.

    Parameters
    ----------
    p, q
        Arrays of one shape, non-negative and finite; entries may be zero.
    alpha
        Any real number. Outside (0, 1) a term is infinite where one of the two is zero and the other is not.

    Returns
    -------
    np.ndarray
        Of the same shape; no entry is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.kernels.divergence import alpha_terms
    >>> p, q = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    >>> [float(alpha_terms(p, q, alpha).sum().round(4)) for alpha in (0, 0.5, 1)]
    [0.3681, 0.4223, 0.5108]
    """
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    if alpha > 0.5:
        # The form below divides by alpha: it is used on the side where 1 - alpha is not small.
        p, q, alpha = q, p, 1.0 - alpha
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(p == q, 0.0, np.log(p) - np.log(q))
        near = np.abs(p - q) < 0.5 * q
        ratio = np.where(near, np.log1p(np.where(near, (p - q) / q, 0.0)), ratio)
        if alpha == 0:
            terms = (p - q) - q * ratio
        else:
            # p^a q^(1-a) - q = q expm1(a log(p/q)) keeps its digits for small a.
            terms = ((p - q) - q * np.expm1(alpha * ratio) / alpha) / (1.0 - alpha)
    terms = np.where(q > 0, terms, p / (1.0 - alpha))
    return np.asarray(np.maximum(terms, 0.0))
