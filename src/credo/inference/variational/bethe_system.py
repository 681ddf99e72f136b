r"""The Bethe free energy of a mixture of products, and its gradient; compiled.

    b(x) = sum_m lambda_m prod_i b_i^m(x_i),     one lambda for all variables

    F(b) = sum_a E_{b_a}[log f_a] + sum_i H(b_i) - sum_a c_a E_{b_a}[ log b_a / prod_{i in a} b_i ]

b_i and b_a are the marginals of b, so they agree. Everything is an expectation under one component of

    G_i = -log b_i,     G_a = log f_a - c_a log sum_l lambda_l prod_{i in a} b_i^l / b_i

taken at points x_i^{m,k} with weights w_k (see `bethe_expectations.py`): tensor products of the points of the
variables of a factor, or paired samples. The derivative of log b inside integrates to zero, therefore

    dF / d tau_i^m = lambda_m E_{b_i^m}[ Gbar_i^m(x_i) d log b_i^m / d tau ],
    Gbar_i^m(x_i)  = G_i(x_i) + sum_{a at i} E_{b^m}[ G_a | x_i ],     dF / d lambda_m = E_{b^m}[ all G ]

which needs values of the potentials and no derivative ("score"). Scores: (x - mu) / s^2 and
((x - mu) / s)^2 - 1 for the mean and the log standard deviation of a Gaussian, an indicator for a
probability, alpha_v (psi(sum alpha) - psi(alpha_v) + log x_v) for the log concentration of a Dirichlet.
Soft-max parameters of a categorical belief and of lambda follow by the chain rule. The mean of Gbar is
subtracted first, which changes nothing where scores average to zero and lowers the variance of samples.

Cost of a step: factors x components^2 x (points per variable)^(variables of a factor).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .bethe_plan import GroupData, GroupPlan, Kind, KindData, Plan, RowLists

__all__ = ["Draws", "Parameters", "Part", "beliefs", "gradient", "total"]

_LOG_2PI = math.log(2 * math.pi)
_TINY = float(np.finfo(float).tiny)  # smallest coordinate of a simplex value
_FAINT = -60.0  # log probability below which a state is treated as equally impossible everywhere


class Parameters(NamedTuple):
    """What is optimised; variables on the first axis."""

    weights: Any  # (components,) logits of lambda
    parts: Any  # per kind: real (n, components, 2), discrete (n, components, states), simplex likewise


class Draws(NamedTuple):
    """Points of one kind."""

    points: Any  # real: standardised, (points,) or (n, components, points); simplex: logs, (..., width)
    weights: Any  # (points,) or (n, m, points), sum to 1; None where beliefs give the weights


class Part(NamedTuple):
    """What is known about the variables of one kind at their points."""

    values: Any  # (n, m, points), with coordinates last for a simplex
    weights: Any  # (n, m, points), or broadcast to it
    log_belief: Any  # (n, m, points)
    ratio: Any  # (n, m, points, components) b_i^l / b_i; None for one component


def beliefs(
    plan: Plan, kinds: tuple[KindData, ...], parameters: Parameters, draws: tuple[Draws, ...], chosen: Any
) -> tuple[Part, ...]:
    """Points, weights and mixture densities of all variables.

    `chosen` lists the components whose expectations are taken; None for all.
    """
    log_weights = jax.nn.log_softmax(parameters.weights)
    return tuple(
        _PARTS[kind.family](kind, data, own, draw, log_weights, chosen)
        for kind, data, own, draw in zip(plan.kinds, kinds, parameters.parts, draws, strict=True)
    )


def _real(kind: Kind, data: KindData, own: Any, draw: Draws, log_weights: Any, chosen: Any) -> Part:
    mean, log_sd = own[..., 0], own[..., 1]
    here, spread = _picked(mean, chosen)[..., None], jnp.exp(_picked(log_sd, chosen))[..., None]
    z = jnp.broadcast_to(draw.points, (*here.shape[:2], draw.points.shape[-1]))
    x = here + spread * z
    weights = _broadcast(draw.weights)
    if len(log_weights) == 1:
        return Part(x, weights, -0.5 * z**2 - jnp.log(spread) - 0.5 * _LOG_2PI, None)
    precision = jnp.exp(-log_sd)
    gap = (x[..., None] - mean[:, None, None]) * precision[:, None, None]
    return Part(x, weights, *_mixed(-0.5 * gap**2 - log_sd[:, None, None] - 0.5 * _LOG_2PI, log_weights))


def _discrete(kind: Kind, data: KindData, own: Any, draw: Draws, log_weights: Any, chosen: Any) -> Part:
    logs = jax.nn.log_softmax(jnp.where(data.mask[:, None], own, -jnp.inf), axis=-1)
    states = jnp.arange(kind.size)[None, None]
    faint = jnp.maximum(logs, _FAINT)
    weights = jnp.exp(_picked(logs, chosen))
    if len(log_weights) == 1:
        return Part(states, weights, faint, None)
    return Part(states, weights, *_mixed(jnp.moveaxis(faint, 1, 2)[:, None], log_weights))


def _simplex(kind: Kind, data: KindData, own: Any, draw: Draws, log_weights: Any, chosen: Any) -> Part:
    alpha = jnp.exp(own)
    norm = jax.lax.lgamma(alpha.sum(axis=-1)) - jax.lax.lgamma(alpha).sum(axis=-1)
    each = jnp.einsum("nmsv,nlv->nmsl", draw.points, alpha - 1) + norm[:, None, None]
    x = jnp.maximum(jnp.exp(draw.points), _TINY)
    weights = _broadcast(draw.weights)
    if len(log_weights) == 1:
        return Part(x, weights, each[..., 0], None)
    return Part(x, weights, *_mixed(each, log_weights))


_PARTS = {"real": _real, "discrete": _discrete, "simplex": _simplex}


def _broadcast(weights: Any) -> Any:
    weights = jnp.asarray(weights)
    return weights[None, None] if weights.ndim == 1 else weights


def _picked(values: Any, chosen: Any) -> Any:
    return values if chosen is None else jnp.take(values, chosen, axis=1)


def _mixed(each: Any, log_weights: Any) -> tuple[Any, Any]:
    """Log density of the mixture and the ratio of each component to it, from logs on the last axis."""
    terms = each + log_weights
    top = jax.lax.stop_gradient(terms.max(axis=-1))
    log_belief = top + jnp.log(jnp.exp(terms - top[..., None]).sum(axis=-1))
    return log_belief, jnp.exp(each - log_belief[..., None])


class _Grid(NamedTuple):
    """How the points of the variables of a factor are combined."""

    where: tuple[int, ...]  # axis of each variable behind factors and components
    axes: int  # number of such axes

    @classmethod
    def of(cls, plan: GroupPlan, kinds: tuple[Kind, ...]) -> _Grid:
        paired = [kinds[c].paired for c, _ in plan.axes]
        after = iter(range(int(any(paired)), len(paired) + 1))
        where = tuple(0 if pair else next(after) for pair in paired)
        return cls(where, max(where) + 1)

    def place(self, values: Any, j: int, tail: int = 0) -> Any:
        """Put the points of variable j on their axis; `tail` axes stay last."""
        before, after = self.where[j], self.axes - 1 - self.where[j]
        shape = values.shape
        return values.reshape(*shape[:2], *[1] * before, shape[2], *[1] * after, *shape[3 : 3 + tail])


def _group(
    plan: GroupPlan,
    data: GroupData,
    kinds: tuple[Kind, ...],
    parts: tuple[Part, ...],
    weights: Any,
    wall: Any,
) -> tuple[Any, list[Any]]:
    """G_a of all factors of a group, (count, m, points ...), and the weights of each of those axes."""
    grid = _Grid.of(plan, kinds)
    if plan.function is None:
        (table,) = data.parameters
        value = table[:, None]
    else:
        columns = [_column(plan, grid, kinds, parts, data, j) for j in range(len(plan.axes))]
        value = _walled(plan.function(tuple(columns), data.parameters), wall)
    if plan.mutual and len(weights) > 1:
        shared = _information(plan, grid, kinds, parts, data, weights)
        value = value - data.mutual.reshape(-1, *[1] * (value.ndim - 1)) * shared
    measure: list[Any] = [None] * grid.axes
    for j, (c, size) in enumerate(plan.axes):
        own = parts[c].weights
        own = own if own.shape[0] == 1 else own[data.scopes[:, j]]
        measure[grid.where[j]] = own[..., :size] if kinds[c].family == "discrete" else own
    return value, measure


def _column(plan: GroupPlan, grid: _Grid, kinds: Any, parts: Any, data: GroupData, j: int) -> Any:
    c, size = plan.axes[j]
    if kinds[c].family == "discrete":
        states = jnp.broadcast_to(jnp.arange(size)[None, None], (len(data.scopes), 1, size))
        return grid.place(states, j)
    return grid.place(parts[c].values[data.scopes[:, j]], j, tail=int(kinds[c].family == "simplex"))


def _walled(value: Any, wall: Any) -> Any:
    """Zero weights as exp(-wall) times the smallest positive one of the factor."""
    inner = tuple(range(1, value.ndim))
    zero = value == -jnp.inf
    lowest = jnp.where(zero, jnp.inf, value).min(axis=inner, keepdims=True)
    return jnp.where(zero, jnp.where(jnp.isfinite(lowest), lowest, 0.0) - wall, value)


def _information(plan: GroupPlan, grid: _Grid, kinds: Any, parts: Any, data: GroupData, weights: Any) -> Any:
    """The logarithm of b_a / prod b_i at the points."""
    product: Any = weights
    for j, (c, size) in enumerate(plan.axes):
        ratio = parts[c].ratio[data.scopes[:, j]]
        ratio = ratio[:, :, :size] if kinds[c].family == "discrete" else ratio
        product = product * grid.place(ratio, j, tail=1)
    return jnp.log(product.sum(axis=-1))


def _averaged(value: Any, measure: list[Any], keep: int | None) -> Any:
    """Mean over all point axes but one, (count, m, points), or over all, (count, m)."""
    for axis in reversed(range(len(measure))):
        if axis != keep:
            shape = measure[axis].shape
            after = value.ndim - 3 - axis
            value = (value * measure[axis].reshape(*shape[:2], *[1] * axis, shape[2], *[1] * after)).sum(
                axis=2 + axis, keepdims=True
            )
    found = value.reshape(*value.shape[:2], -1)
    return found if keep is not None else found[..., 0]


def total(
    plan: Plan,
    groups: tuple[GroupData, ...],
    parts: tuple[Part, ...],
    weights: Any,
    wall: Any,
    batch: tuple[int, ...],
) -> Any:
    """Expectation of all G under each component, (m,): lambda times it is the free energy.

    `batch` has one number per group: how many factors are evaluated at a time, 0 for all at once.
    """
    found: Any = 0.0
    for part in parts:
        found = found - (part.weights * part.log_belief).sum(axis=(0, 2))
    for own, data, size in zip(plan.groups, groups, batch, strict=True):

        def one(data: GroupData, own: GroupPlan = own) -> Any:
            return _averaged(*_group(own, data, plan.kinds, parts, weights, wall), None).sum(axis=0)

        if size:
            single = jax.lax.map(lambda d: one(jax.tree.map(lambda x: x[None], d)), data, batch_size=size)
            found = found + single.sum(axis=0)
        else:
            found = found + one(data)
    return found


def gradient(
    plan: Plan,
    kinds: tuple[KindData, ...],
    groups: tuple[GroupData, ...],
    parameters: Parameters,
    draws: tuple[Draws, ...],
    parts: tuple[Part, ...],
    wall: Any,
    chosen: Any,
) -> tuple[Any, tuple[Any, ...]]:
    """Expectation of all G under each component, (m,), and gradients of each part without lambda_m."""
    weights = jax.nn.softmax(parameters.weights)
    totals: Any = 0.0
    rows: list[list[Any]] = [[] for _ in plan.kinds]
    for own, data in zip(plan.groups, groups, strict=True):
        value, measure = _group(own, data, plan.kinds, parts, weights, wall)
        means = [_averaged(value, measure, axis) for axis in range(len(measure))]
        totals = totals + (means[0] * measure[0]).sum(axis=(0, 2))
        where = _Grid.of(own, plan.kinds).where
        for j, (c, _) in enumerate(own.axes):
            rows[c].append(means[where[j]])
    slopes = []
    for c, (kind, part) in enumerate(zip(plan.kinds, parts, strict=True)):
        shape = np.broadcast_shapes(part.weights.shape, part.log_belief.shape)
        mean = _row_sums(kinds[c].lists, rows[c], shape) - part.log_belief
        expected = (mean * part.weights).sum(axis=-1, keepdims=True)
        totals = totals - (part.weights * part.log_belief).sum(axis=(0, 2))
        # The mean of samples contains each of them: without the factor the gradient would be biased.
        unbiased = shape[2] / (shape[2] - 1) if kind.paired else 1.0
        weighted = jnp.broadcast_to(part.weights * (mean - expected) * unbiased, shape)
        slopes.append(_SLOPES[kind.family](weighted, parameters.parts[c], draws[c], chosen))
    return totals, tuple(slopes)


def _row_sums(lists: RowLists, rows: list[Any], shape: tuple[int, ...]) -> Any:
    """Sums of the contributions to each variable, by gathers; padded to (n, m, points)."""
    if not rows:
        return jnp.zeros(shape)
    padded = [jnp.pad(r, [(0, 0), (0, 0), (0, shape[2] - r.shape[2])]) for r in rows]
    padded = [jnp.broadcast_to(r, (len(r), *shape[1:])) for r in padded]
    stacked = jnp.concatenate([*padded, jnp.zeros((1, *shape[1:]))])
    parts = [stacked.at[at].get(mode="promise_in_bounds").sum(axis=1) for at in lists.rows]
    found = jnp.concatenate([*parts, jnp.zeros((1, *shape[1:]))])
    return found.at[lists.order].get(mode="promise_in_bounds")


def _real_slope(weighted: Any, own: Any, draw: Draws, chosen: Any) -> Any:
    z = draw.points
    sd = jnp.exp(_picked(own[..., 1], chosen))
    return jnp.stack([(weighted * z).sum(axis=-1) / sd, (weighted * (z**2 - 1)).sum(axis=-1)], axis=-1)


def _discrete_slope(weighted: Any, own: Any, draw: Draws, chosen: Any) -> Any:
    return weighted


def _simplex_slope(weighted: Any, own: Any, draw: Draws, chosen: Any) -> Any:
    alpha = jnp.exp(_picked(own, chosen))
    constant = jax.lax.digamma(alpha.sum(axis=-1, keepdims=True)) - jax.lax.digamma(alpha)
    mass = weighted.sum(axis=-1)[..., None]
    return alpha * (constant * mass + jnp.einsum("nms,nmsv->nmv", weighted, draw.points))


_SLOPES = {"real": _real_slope, "discrete": _discrete_slope, "simplex": _simplex_slope}
