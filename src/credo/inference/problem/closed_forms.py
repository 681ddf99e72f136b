r"""Expectations of Gaussian factors and of residuals under products of independent variables, without points.

Real variables with means m and variances u, states with probabilities p:

    E[ g + h'x - x'Jx / 2 ]               =  g + h'm - ( m'Jm + sum_i J_ii u_i ) / 2
    E[ c_s - (w_s'x - b_s)^2 / (2 v_s) ]  =  sum_s p_s ( c_s - r_s / (2 v_s) ),
                                      r_s =  (w_s'm - b_s)^2 + sum_i w_si^2 u_i

for any distributions with these moments. As functions of one x_i they are quadratic, with

    precision  J_ii                                shift  h_i - sum_{j != i} J_ij m_j
    precision  sum_s p_s w_si^2 / v_s              shift  sum_s p_s w_si (b_s - sum_{j != i} w_sj m_j) / v_s

The cost is k^2 for k numbers, and k for each joint state of a residual.

Arrays have any axes in front, in which they are broadcast: means and variances (..., k), parameters as those
of one factor behind them, probabilities (..., states).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ...core.density import quadratic

__all__ = ["expected_by_states", "natural", "over_states"]


def expected_by_states(form: Any, mean: Any, variance: Any, parameters: Sequence[Any], states: int) -> Any:
    """Expected log-potentials given the joint states of `states` discrete variables, (..., S...).

    `form` is `quadratic` or `residual`.
    """
    if form is quadratic:
        J, h, g = parameters
        pulled = (J * mean[..., None, :]).sum(axis=-1)
        spread = (jnp.diagonal(J, axis1=-2, axis2=-1) * variance).sum(axis=-1)
        return g + (mean * (h - 0.5 * pulled)).sum(axis=-1) - 0.5 * spread
    w, b, v, c = parameters
    gap = (w * _before_numbers(mean, states)).sum(axis=-1) - b
    return c - 0.5 * (gap**2 + (w**2 * _before_numbers(variance, states)).sum(axis=-1)) / v


def over_states(table: Any, shares: Sequence[Any], keep: int | None = None) -> Any:
    """Mean of a table (..., S...) over the states of all its variables but one; no share counts as zero."""
    count = len(shares)
    weight: Any = jnp.ones([1] * count)
    for j, share in enumerate(shares):
        if j != keep:
            room = (*[1] * j, share.shape[-1], *[1] * (count - 1 - j))
            weight = weight * share.reshape(*share.shape[:-1], *room)
    terms = jnp.where(weight > 0, weight * jnp.where(weight > 0, table, 0.0), 0.0)
    return terms.sum(axis=tuple(j - count for j in range(count) if j != keep))


def natural(form: Any, axis: int, mean: Any, shares: Sequence[Any], parameters: Sequence[Any]) -> Any:
    """Precision and shift, (...), of the expectation as a function of number `axis`."""
    others = mean.at[..., axis].set(0.0)
    if form is quadratic:
        J, h, _ = parameters
        return J[..., axis, axis], h[..., axis] - (J[..., axis, :] * others).sum(axis=-1)
    w, b, v, _ = parameters
    gap = b - (w * _before_numbers(others, len(shares))).sum(axis=-1)
    own = w[..., axis] / v
    return over_states(own * w[..., axis], shares), over_states(own * gap, shares)


def _before_numbers(values: Any, states: int) -> Any:
    """Room for the axes of states before that of numbers."""
    return values.reshape(*values.shape[:-1], *[1] * states, values.shape[-1])
