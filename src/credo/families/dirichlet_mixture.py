r"""The highest point of a mixture of Dirichlet densities.

    b(x) = sum_m w_m Dir(x | alpha^m),      d log b / d x_i = sum_m r_m(x) (alpha_i^m - 1) / x_i,

with responsibilities r_m(x) = w_m Dir(x | alpha^m) / b(x). On the simplex a stationary point has x_i
proportional to sum_m r_m(x) (alpha_i^m - 1); taking that as the next point never lowers b (it is a step of
EM), and stays on the simplex. The climb starts from the mode of every component; the highest end is kept.

A component with a concentration below 1 has no highest point: its density is not bounded. In the basis of
logits (`basis="softmax"`, where the density carries the factor prod x_i) every mixture has one, and alpha
replaces alpha - 1.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import QueryError
from ..core.numbers import float_array
from .natural import dirichlet_log_norm

__all__ = ["mixture_mode"]

_CLIMBS = 1000  # most steps from one start
_STILL = 1e-12  # largest change of a coordinate at which a climb has arrived


def mixture_mode(
    weights: Any, concentrations: Any, basis: Literal["simplex", "softmax"] = "simplex"
) -> np.ndarray:
    """The point of the highest density of a mixture of Dirichlets.

    Parameters
    ----------
    weights
        Of the components, (M,).
    concentrations
        Of the components, (M, width).
    basis
        The density on the simplex, or that of the logits of its points.

    Examples
    --------
    >>> from credo.families.dirichlet_mixture import mixture_mode
    >>> mixture_mode([1.0], [[3.0, 2.0, 2.0]])
    array([0.5 , 0.25, 0.25])
    >>> mixture_mode([0.5, 0.5], [[9.0, 2.0, 2.0], [2.0, 9.0, 2.0]], basis="softmax").round(3)
    array([0.692, 0.154, 0.154])
    """
    check.one_of("basis", basis, ["simplex", "softmax"])
    w, alpha = float_array("weights", weights), float_array("concentrations", concentrations)
    used = w > 0
    w, alpha = w[used], alpha[used]
    power = alpha - 1.0 if basis == "simplex" else alpha
    if (power < 0).any():
        raise QueryError(
            f"a concentration is {alpha.min():.4g}, below 1: the density has no highest point; "
            "use mixture_mode(..., basis='softmax')"
        )
    log_norm = np.log(w) - dirichlet_log_norm(alpha)
    # A component whose concentrations are all 1 is flat: every point is a mode, the middle is taken.
    flat = power.sum(axis=1, keepdims=True) == 0
    starts = np.where(flat, 1.0, power)
    ends = [_climb(x, log_norm, power) for x in starts / starts.sum(axis=1, keepdims=True)]
    return np.asarray(max(ends, key=lambda x: float(np.logaddexp.reduce(_terms(x, log_norm, power)))))


def _terms(x: np.ndarray, log_norm: np.ndarray, power: np.ndarray) -> np.ndarray:
    from scipy.special import xlogy

    return np.asarray(log_norm + xlogy(power, x).sum(axis=1))


def _climb(x: np.ndarray, log_norm: np.ndarray, power: np.ndarray) -> np.ndarray:
    for _ in range(_CLIMBS):
        terms = _terms(x, log_norm, power)
        share = np.exp(terms - terms.max())
        new = share @ power
        if new.sum() == 0:
            return x
        new = new / new.sum()
        if np.abs(new - x).max() <= _STILL:
            return np.asarray(new)
        x = new
    return x
