r"""Factors that are Gaussian given states, under the components of a mixture of products; compiled.

With the means m, variances v and probabilities p of a component, E[log f_a] is the closed form of
`closed_forms.py`, and

    dE / dp(s) = E[ log f_a | s ],     dE / d mu = dE / dm,     dE / d log sd = 2 v dE / dv.

The logarithm of a mixture has no such form. Of these factors c_a log b_a / prod b_i is left to points, where
c_a is not zero and there is more than one component. A state of weight zero counts `wall` nats below the
lowest expectation of the others.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..problem.closed_forms import expected_by_states, over_states
from .bethe_plan import GroupData, GroupPlan, Kind

__all__ = ["form_moments", "form_slopes", "form_values", "taken"]


def taken(values: Any, where: Any) -> Any:
    """What belongs to these positions on the last axis."""
    return values.at[..., where].get(mode="promise_in_bounds")


def form_moments(
    plan: GroupPlan, data: GroupData, kinds: tuple[Kind, ...], parts: tuple[Any, ...]
) -> tuple[Any, Any, list[Any]]:
    """Means and variances of real variables, (m, count, k); probabilities of the others, (m, count, S)."""
    k = sum(kinds[c].family == "real" for c, _ in plan.axes)
    mean, variance = (taken(values, data.scopes[:, :k]) for values in parts[plan.axes[0][0]].moments)
    shares = [
        jnp.moveaxis(taken(parts[c].weights, data.scopes[:, j])[:, :size], -1, 1)
        for j, (c, size) in enumerate(plan.axes)
        if j >= k
    ]
    return mean, variance, shares


def form_values(plan: GroupPlan, data: GroupData, wall: Any, mean: Any, variance: Any, shares: Any) -> Any:
    """Expected log-potentials of closed forms, (m, count)."""
    table = expected_by_states(plan.form, mean, variance, data.parameters, len(shares))
    if not shares:
        return table
    zero, inner = table == -jnp.inf, tuple(range(2, table.ndim))
    lowest = jax.lax.stop_gradient(jnp.where(zero, jnp.inf, table).min(axis=inner, keepdims=True))
    lowest = jnp.where(jnp.isfinite(lowest), lowest, 0.0)
    return over_states(jnp.where(zero, lowest - wall, table), shares)


def form_slopes(
    plan: GroupPlan, data: GroupData, kinds: tuple[Kind, ...], parts: tuple[Any, ...], wall: Any
) -> tuple[Any, list[Any]]:
    """Closed forms (m, count), and their derivatives for every variable of the scope.

    By mean and variance (m, 2, count) of a real variable, by the probabilities (m, states, count) of others.
    """
    value, back = jax.vjp(
        lambda *moments: form_values(plan, data, wall, *moments), *form_moments(plan, data, kinds, parts)
    )
    by_mean, by_variance, by_shares = back(jnp.ones_like(value))
    k = by_mean.shape[-1]
    real = [jnp.stack([by_mean[..., j], by_variance[..., j]], axis=1) for j in range(k)]
    return value, [*real, *(jnp.moveaxis(share, 1, -1) for share in by_shares)]
