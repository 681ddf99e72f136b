"""How far one answer is from another.

For two distributions p and q of one variable

    total variation   TV(p, q) = 1/2 sum_x |p(x) - q(x)|
    Hellinger         H(p, q)  = sqrt( 1/2 sum_x ( sqrt p(x) - sqrt q(x) )^2 )
    Kullback-Leibler  KL(p, q) = sum_x p(x) log( p(x) / q(x) ),   0 log 0 := 0, infinite if q = 0 < p
    alpha-divergence  D_alpha(p, q), see `kernels/divergence.py`: KL(q, p) and KL(p, q) at alpha = 0 and 1

Each function returns one number per variable, in the order of the first argument. TV and H
are metrics in [0, 1] and need no logarithm, so zero probabilities are harmless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import check
from ..core.belief import Density, PointMass, curve_points, values_at
from ..core.domain import Discrete
from ..core.errors import QueryError
from ..core.result import Assignment, Estimate, Marginals
from ..kernels.divergence import alpha_terms

__all__ = [
    "MarginalErrors",
    "alpha_divergence",
    "hamming",
    "hellinger",
    "kl_divergence",
    "log_z_error",
    "marginal_errors",
    "total_variation",
]

Beliefs = Mapping[str, Any]  # name -> probabilities or density; `Marginals` is one
_POINTS = 2001  # that a density is compared on
_TINY = 1e-300


@dataclass(frozen=True)
class MarginalErrors:
    """Distances between two sets of marginals, summed up over the variables."""

    max_tv: float  # largest total variation of any variable
    mean_tv: float  # mean total variation
    mean_hellinger: float  # mean Hellinger distance
    mean_kl: float  # KL(truth, found), infinite if found gives zero to a possible state


def total_variation(p: Beliefs, q: Beliefs) -> np.ndarray:
    """Total variation of each variable.

    Examples
    --------
    >>> from credo.evaluate import total_variation
    >>> total_variation({"a": [0.5, 0.5]}, {"a": [0.25, 0.75]})
    array([0.25])
    """
    first, second, start = _aligned(p, q)
    return _sums(np.abs(first - second), start) / 2


def hellinger(p: Beliefs, q: Beliefs) -> np.ndarray:
    """Hellinger distance of each variable.

    Examples
    --------
    >>> from credo.evaluate import hellinger
    >>> hellinger({"a": [1.0, 0.0], "b": [0.5, 0.5]}, {"a": [0.0, 1.0], "b": [0.5, 0.5]})
    array([1., 0.])
    """
    first, second, start = _aligned(p, q)
    return np.sqrt(_sums((np.sqrt(first) - np.sqrt(second)) ** 2, start) / 2)


def kl_divergence(p: Beliefs, q: Beliefs) -> np.ndarray:
    """Kullback-Leibler divergence KL(p, q) of each variable, in nats."""
    return alpha_divergence(p, q, 1.0)


def alpha_divergence(p: Beliefs, q: Beliefs, alpha: float) -> np.ndarray:
    """Alpha-divergence D_alpha(p, q) of each variable: KL(q, p) at 0, 4 H(p, q)^2 at 1/2, KL(p, q) at 1.

    Parameters
    ----------
    p, q
        Name -> probabilities or density. What does not sum to one is compared as it is.
    alpha
        Any real number; outside (0, 1) the divergence is infinite where one of the two is zero and the other
        is not.

    Examples
    --------
    >>> from credo.evaluate import alpha_divergence
    >>> p, q = {"a": [0.5, 0.5]}, {"a": [0.9, 0.1]}
    >>> [float(alpha_divergence(p, q, alpha)[0].round(4)) for alpha in (0, 0.5, 1)]
    [0.3681, 0.4223, 0.5108]
    """
    check.finite("alpha", alpha)
    first, second, start = _aligned(p, q)
    return _sums(alpha_terms(first, second, alpha), start)


def marginal_errors(found: Beliefs, truth: Beliefs) -> MarginalErrors:
    """The distances between two sets of marginals in four numbers."""
    tv = total_variation(truth, found)
    return MarginalErrors(
        max_tv=float(tv.max(initial=0.0)),
        mean_tv=_mean(tv),
        mean_hellinger=_mean(hellinger(truth, found)),
        mean_kl=_mean(kl_divergence(truth, found)),
    )


def log_z_error(found: Estimate | float, truth: Estimate | float) -> float:
    """Signed difference `found - truth`: negative below, positive above; 0 for two equal infinities."""
    a, b = float(found), float(truth)
    return 0.0 if a == b else a - b


def hamming(found: Assignment, truth: Assignment, tolerance: float = 1e-6) -> int:
    """Number of variables with different values in two assignments of the same variables.

    Values of a continuous variable differ if they are further apart than `tolerance` times (1 + |value|).
    """
    same = found._variables is truth._variables or found._variables == truth._variables
    if (
        not same
        or ((found.indices < 0) != (truth.indices < 0)).any()
        or found.continuous.keys() != truth.continuous.keys()
    ):
        raise QueryError("assignments: expected two over the same variables, got different ones")
    apart = [
        not np.allclose(value, truth.continuous[name], rtol=tolerance, atol=tolerance)
        for name, value in found.continuous.items()
    ]
    return int((found.indices != truth.indices).sum()) + sum(apart)


def _aligned(p: Beliefs, q: Beliefs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flat probabilities of both in the order of `p`, and where each variable begins."""
    if (
        isinstance(p, Marginals)
        and isinstance(q, Marginals)
        and p._variables is q._variables
        and not p.densities
    ):
        return p.flat, q.flat, p._variables.state_start  # no Python loop over a million variables
    if len(p) != len(q) or any(name not in q for name in p):
        odd = sorted(set(p) ^ set(q))[:5]
        raise QueryError(f"marginals: expected two sets over the same variables, got {odd} in only one")
    pairs = [_probabilities(name, p[name], _in_order(name, p, q)) for name in p]
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    for name, a, b in zip(p, first, second, strict=True):
        if a.shape != b.shape:
            raise QueryError(f"marginals of '{name}': expected {len(a)} states in both, got {len(b)}")
    start = np.concatenate([[0], np.cumsum([len(a) for a in first])]).astype(np.int64)
    if not first:
        return np.empty(0), np.empty(0), start
    return np.concatenate(first), np.concatenate(second), start


def _in_order(name: str, p: Beliefs, q: Beliefs) -> Any:
    """The marginal in `q`, its states in the order of `p` where both know their labels."""
    if not isinstance(p, Marginals) or not isinstance(q, Marginals):
        return q[name]
    first, second = (m._variables.domains[m._variables.position(name)] for m in (p, q))
    if not isinstance(first, Discrete) or not isinstance(second, Discrete) or first == second:
        return q[name]
    if first.states is None or second.states is None:
        return q[name]
    if set(first.states) != set(second.states):
        odd = sorted(set(first.states) ^ set(second.states))[:5]
        raise QueryError(f"marginals of '{name}': expected the same states in both, got {odd} in only one")
    return q[name][[second.states.index(label) for label in first.states]]


def _probabilities(name: str, a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two marginals as vectors of probabilities; densities by the trapezoid rule, or by their means.

    The mean of a density on a simplex is the distribution it predicts.
    """
    if not isinstance(a, Density) and not isinstance(b, Density):
        return np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if not isinstance(a, Density) or not isinstance(b, Density):
        raise QueryError(f"marginals of '{name}': expected two densities, got one and a vector")
    if np.ndim(a.mean) or isinstance(a, PointMass) or isinstance(b, PointMass):
        one, other = np.atleast_1d(a.mean), np.atleast_1d(b.mean)
        if np.ndim(a.mean) == 0:  # the value of an observed variable, the same or not
            return np.array([1.0, 0.0]), np.array([1.0, 0.0] if one == other else [0.0, 1.0])
        return one, other
    x = curve_points((a, b), _POINTS)
    step = np.diff(x, prepend=x[0], append=x[-1])
    weight = (step[1:] + step[:-1]) / 2
    # A tail must not make the divergence infinite.
    masses = (values_at(d, x) * weight + _TINY for d in (a, b))
    first, second = (m / m.sum() for m in masses)
    return first, second


def _sums(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Sum over the states of each variable."""
    return np.add.reduceat(values, start[:-1]) if len(start) > 1 else np.empty(0)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
