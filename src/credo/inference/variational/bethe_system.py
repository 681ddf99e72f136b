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

Factors that are Gaussian given states need no points for E[log f_a] (`bethe_forms.py`), only for the mutual
information of several components.

Cost of a step: factors x components^2 x (points per variable)^(variables of a factor), or factors x
components x states x numbers^2 without points.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...core.records import record
from .bethe_forms import form_moments, form_slopes, form_values, taken
from .bethe_plan import BethePlan, GroupData, GroupPlan, Kind, KindData, RowLists

__all__ = ["BetheParameters", "BetheTerm", "SampledPoints", "beliefs", "gradient", "total"]

_LOG_2PI = math.log(2 * math.pi)
_TINY = float(np.finfo(float).tiny)  # smallest coordinate of a simplex value
_FAINT = -60.0  # log probability below which a state is treated as equally impossible everywhere


@record("bethe parameters")
class BetheParameters(NamedTuple):
    """What is optimised; variables on the last axis, where loops over them are fast."""

    weights: Any  # (components,) logits of lambda
    parts: Any  # per kind (components, k, n): mean and log sd, logits of states, logs of concentrations


class SampledPoints(NamedTuple):
    """Points of one kind."""

    points: Any  # real: standardised, (points,) or (m, points, n); simplex: logs, (m, points, width, n)
    weights: Any  # (points,) or (m, points, n), sum to 1; None where beliefs give the weights


class BetheTerm(NamedTuple):
    """What is known about the variables of one kind at their points."""

    values: Any  # (m, points, n), with coordinates before the variables for a simplex
    weights: Any  # (m, points, n), or broadcast to it
    log_belief: Any  # (m, points, n)
    ratio: Any  # (components, m, points, n) b_i^l / b_i; None for one component
    moments: Any = None  # mean and variance of real variables, (m, n) each


def beliefs(
    plan: BethePlan,
    kinds: tuple[KindData, ...],
    parameters: BetheParameters,
    draws: tuple[SampledPoints, ...],
    chosen: Any,
) -> tuple[BetheTerm, ...]:
    """Points, weights and mixture densities of all variables.

    `chosen` lists the components whose expectations are taken; None for all.
    """
    log_weights = jax.nn.log_softmax(parameters.weights)
    return tuple(
        _PARTS[kind.family](kind, data, own, draw, log_weights, chosen)
        for kind, data, own, draw in zip(plan.kinds, kinds, parameters.parts, draws, strict=True)
    )


def _real(
    kind: Kind, data: KindData, own: Any, draw: SampledPoints, log_weights: Any, chosen: Any
) -> BetheTerm:
    mean, log_sd = own[:, :1], own[:, 1:]
    here, spread = picked(mean, chosen), jnp.exp(picked(log_sd, chosen))
    z = draw.points[:, None] if draw.points.ndim == 1 else draw.points
    x = here + spread * z
    weights, moments = _broadcast(draw.weights), (here[:, 0], spread[:, 0] ** 2)
    if len(log_weights) == 1:
        return BetheTerm(x, weights, -0.5 * z**2 - picked(log_sd, chosen) - 0.5 * _LOG_2PI, None, moments)
    gap = (x - mean[:, None]) * jnp.exp(-log_sd)[:, None]
    return BetheTerm(
        x, weights, *_mixed(-0.5 * gap**2 - log_sd[:, None] - 0.5 * _LOG_2PI, log_weights), moments
    )


def _discrete(
    kind: Kind, data: KindData, own: Any, draw: SampledPoints, log_weights: Any, chosen: Any
) -> BetheTerm:
    logs = jax.nn.log_softmax(jnp.where(data.mask, own, -jnp.inf), axis=1)
    states = jnp.arange(kind.size)[None, :, None]
    faint = jnp.maximum(logs, _FAINT)
    weights = jnp.exp(picked(logs, chosen))
    if len(log_weights) == 1:
        return BetheTerm(states, weights, faint, None)
    return BetheTerm(states, weights, *_mixed(faint[:, None], log_weights))


def _simplex(
    kind: Kind, data: KindData, own: Any, draw: SampledPoints, log_weights: Any, chosen: Any
) -> BetheTerm:
    alpha = jnp.exp(own)
    norm = jax.lax.lgamma(alpha.sum(axis=1)) - jax.lax.lgamma(alpha).sum(axis=1)
    each = (draw.points * (alpha - 1)[:, None, None]).sum(axis=-2) + norm[:, None, None]
    x = jnp.maximum(jnp.exp(draw.points), _TINY)
    weights = _broadcast(draw.weights)
    if len(log_weights) == 1:
        return BetheTerm(x, weights, each[0], None)
    return BetheTerm(x, weights, *_mixed(each, log_weights))


_PARTS = {"real": _real, "discrete": _discrete, "simplex": _simplex}


def _broadcast(weights: Any) -> Any:
    weights = jnp.asarray(weights)
    return weights[None, :, None] if weights.ndim == 1 else weights


def picked(values: Any, chosen: Any) -> Any:
    """The chosen components, on the first axis."""
    return values if chosen is None else jnp.take(values, chosen, axis=0)


def _mixed(each: Any, log_weights: Any) -> tuple[Any, Any]:
    """Log density of the mixture and the ratio of each component to it, from logs on the first axis."""
    terms = each + log_weights.reshape(-1, *[1] * (each.ndim - 1))
    top = jax.lax.stop_gradient(terms.max(axis=0))
    log_belief = top + jnp.log(jnp.exp(terms - top).sum(axis=0))
    return log_belief, jnp.exp(each - log_belief)


class _Grid(NamedTuple):
    """How the points of the variables of a factor are combined."""

    where: tuple[int, ...]  # axis of each variable between components and factors
    axes: int  # number of such axes

    @classmethod
    def of(cls, plan: GroupPlan, kinds: tuple[Kind, ...]) -> _Grid:
        paired = [kinds[c].paired for c, _ in plan.axes]
        after = iter(range(int(any(paired)), len(paired) + 1))
        where = tuple(0 if pair else next(after) for pair in paired)
        return cls(where, max(where) + 1)

    def place(self, values: Any, j: int, lead: int = 1, tail: int = 1) -> Any:
        """Put the points of variable j on their axis, behind `lead` axes and before `tail`."""
        before, after = self.where[j], self.axes - 1 - self.where[j]
        shape = values.shape
        return values.reshape(*shape[:lead], *[1] * before, shape[lead], *[1] * after, *shape[-tail:])


def _group(
    plan: GroupPlan,
    data: GroupData,
    kinds: tuple[Kind, ...],
    parts: tuple[BetheTerm, ...],
    weights: Any,
    wall: Any,
) -> tuple[Any, list[Any]]:
    """G_a of all factors of a group, (m, points ..., count), and the weights of each axis of points.

    Closed forms are not part of it.
    """
    grid = _Grid.of(plan, kinds)
    value: Any
    if plan.form is not None:
        value = jnp.zeros([1] * (grid.axes + 2))
    elif plan.function is None:
        (table,) = data.parameters
        value = jnp.moveaxis(table, 0, -1)[None]
    else:
        columns = [_column(plan, grid, kinds, parts, data, j) for j in range(len(plan.axes))]
        value = _walled(plan.function(tuple(columns), data.parameters), wall)
    if plan.mutual and len(weights) > 1:
        value = value - data.mutual * _information(plan, grid, kinds, parts, data, weights)
    measure: list[Any] = [None] * grid.axes
    for j, (c, size) in enumerate(plan.axes):
        own = parts[c].weights
        own = own if own.shape[-1] == 1 else _at(own, plan, data, j)
        measure[grid.where[j]] = own[:, :size] if kinds[c].family == "discrete" else own
    return value, measure


def _at(values: Any, plan: GroupPlan, data: GroupData, j: int) -> Any:
    """What belongs to variable j of every factor."""
    return (
        values
        if plan.aligned[j] and len(data.scopes) == values.shape[-1]
        else taken(values, data.scopes[:, j])
    )


def _column(plan: GroupPlan, grid: _Grid, kinds: Any, parts: Any, data: GroupData, j: int) -> Any:
    c, size = plan.axes[j]
    if kinds[c].family == "discrete":
        states = jnp.broadcast_to(jnp.arange(size)[None, :, None], (1, size, len(data.scopes)))
        return grid.place(states, j)
    return grid.place(_at(parts[c].values, plan, data, j), j, tail=1 + int(kinds[c].family == "simplex"))


def _walled(value: Any, wall: Any) -> Any:
    """Zero weights as exp(-wall) times the smallest positive one of the factor."""
    inner = tuple(range(value.ndim - 1))
    zero = value == -jnp.inf
    lowest = jnp.where(zero, jnp.inf, value).min(axis=inner)
    return jnp.where(zero, jnp.where(jnp.isfinite(lowest), lowest, 0.0) - wall, value)


def _information(plan: GroupPlan, grid: _Grid, kinds: Any, parts: Any, data: GroupData, weights: Any) -> Any:
    """The logarithm of b_a / prod b_i at the points."""
    product: Any = weights.reshape(-1, *[1] * (grid.axes + 2))
    for j, (c, size) in enumerate(plan.axes):
        ratio = parts[c].ratio[:, :, :size] if kinds[c].family == "discrete" else parts[c].ratio
        product = product * grid.place(_at(ratio, plan, data, j), j, lead=2)
    return jnp.log(product.sum(axis=0))


def _averaged(value: Any, measure: list[Any], keep: int | None) -> Any:
    """Mean over all point axes but one, (m, points, count), or over all, (m, count)."""
    for axis in reversed(range(len(measure))):
        if axis != keep:
            shape = measure[axis].shape
            after = value.ndim - 3 - axis
            weights = measure[axis].reshape(shape[0], *[1] * axis, shape[1], *[1] * after, shape[2])
            value = (value * weights).sum(axis=1 + axis, keepdims=True)
    found = value.reshape(value.shape[0], -1, value.shape[-1])
    return found if keep is not None else found[:, 0]


def total(
    plan: BethePlan,
    groups: tuple[GroupData, ...],
    parts: tuple[BetheTerm, ...],
    weights: Any,
    wall: Any,
    batch: tuple[int, ...],
) -> Any:
    """Expectation of all G under each component, (m,): lambda times it is the free energy.

    `batch` has one number per group: how many factors are evaluated at a time, 0 for all at once.
    """
    found: Any = 0.0
    for part in parts:
        found = found - (part.weights * part.log_belief).sum(axis=(1, 2))
    for own, data, size in zip(plan.groups, groups, batch, strict=True):
        if own.form is not None:
            moments = form_moments(own, data, plan.kinds, parts)
            found = found + form_values(own, data, wall, *moments).sum(axis=-1)
        if not own.needs_points(plan.components):
            continue

        def one(data: GroupData, own: GroupPlan = own) -> Any:
            return _averaged(*_group(own, data, plan.kinds, parts, weights, wall), None).sum(axis=-1)

        if size:
            single = jax.lax.map(lambda d: one(jax.tree.map(lambda x: x[None], d)), data, batch_size=size)
            found = found + single.sum(axis=0)
        else:
            found = found + one(data)
    return found


def gradient(
    plan: BethePlan,
    kinds: tuple[KindData, ...],
    groups: tuple[GroupData, ...],
    parameters: BetheParameters,
    draws: tuple[SampledPoints, ...],
    parts: tuple[BetheTerm, ...],
    wall: Any,
    chosen: Any,
) -> tuple[Any, tuple[Any, ...]]:
    """Expectation of all G under each component, (m,), and gradients of each part without lambda_m."""
    weights = jax.nn.softmax(parameters.weights)
    totals: Any = 0.0
    rows: list[list[Any]] = [[] for _ in plan.kinds]
    forms: list[list[Any]] = [[] for _ in plan.kinds]  # derivatives by means and variances
    for own, data in zip(plan.groups, groups, strict=True):
        found: list[Any] = [None] * len(own.axes)
        if own.form is not None:
            value, found = form_slopes(own, data, plan.kinds, parts, wall)
            totals = totals + value.sum(axis=-1)
        looked, gained = _looked_up(plan, own, data, parts, weights, wall)
        totals = totals + gained
        for j, (c, _) in enumerate(own.axes):
            is_real = plan.kinds[c].family == "real"
            forms[c].append(found[j] if is_real else None)
            rows[c].append(_plus(looked[j], None if is_real else found[j]))
    slopes = []
    for c, (kind, part) in enumerate(zip(plan.kinds, parts, strict=True)):
        shape = np.broadcast_shapes(part.weights.shape, part.log_belief.shape)
        mean = _row_sums(kinds[c].lists, rows[c], shape) - part.log_belief
        expected = (mean * part.weights).sum(axis=1, keepdims=True)
        totals = totals - (part.weights * part.log_belief).sum(axis=(1, 2))
        # The mean of samples contains each of them: without the factor the gradient would be biased.
        unbiased = shape[1] / (shape[1] - 1) if kind.paired else 1.0
        weighted = jnp.broadcast_to(part.weights * (mean - expected) * unbiased, shape)
        slope = _SLOPES[kind.family](weighted, parameters.parts[c], draws[c], chosen)
        if any(form is not None for form in forms[c]):
            by_mean, by_variance = jnp.moveaxis(_row_sums(kinds[c].lists, forms[c], slope.shape), 1, 0)
            slope = slope + jnp.stack([by_mean, 2 * part.moments[1] * by_variance], axis=1)
        slopes.append(slope)
    return totals, tuple(slopes)


def _looked_up(
    plan: BethePlan, own: GroupPlan, data: GroupData, parts: tuple[BetheTerm, ...], weights: Any, wall: Any
) -> tuple[list[Any], Any]:
    """E[G_a | x_i] at the points of every variable of a group of factors, and E[G_a] summed, (m,)."""
    if not own.needs_points(plan.components):
        return [None] * len(own.axes), 0.0
    value, measure = _group(own, data, plan.kinds, parts, weights, wall)
    means = [_averaged(value, measure, axis) for axis in range(len(measure))]
    # Any of the means would do. A mean that is used twice is stored, and not computed within the gather.
    sums = [(mean * own_).sum(axis=(1, 2)) for mean, own_ in zip(means, measure, strict=True)]
    where = _Grid.of(own, plan.kinds).where
    return [means[where[j]] for j in range(len(own.axes))], sum(sums) / len(sums)


def _plus(one: Any, other: Any) -> Any:
    """The sum of what there is; None if that is nothing."""
    return other if one is None else one if other is None else one + other


def _row_sums(lists: tuple[RowLists, ...], rows: list[Any], shape: tuple[int, ...]) -> Any:
    """Sums of the contributions to each variable, by gathers; padded to (m, points, n)."""
    found: Any = jnp.zeros(shape)
    for own, row in zip(lists, rows, strict=True):
        if row is None:
            continue
        found = found + jnp.pad(_gathered(own, row), [(0, 0), (0, shape[1] - row.shape[1]), (0, 0)])
    return found


def _gathered(lists: RowLists, row: Any) -> Any:
    """What the factors say, (m, points, count), summed for each variable, (m, points, n)."""
    if not lists.rows:
        return row
    pairs = zip(lists.rows, lists.masks, strict=True)
    parts = [jnp.where(mask, taken(row, at), 0.0).sum(axis=-2) for at, mask in pairs]
    if lists.order is None:
        return parts[0]
    return taken(jnp.concatenate([*parts, jnp.zeros((*row.shape[:2], 1))], axis=-1), lists.order)


def _real_slope(weighted: Any, own: Any, draw: SampledPoints, chosen: Any) -> Any:
    z = draw.points[:, None] if draw.points.ndim == 1 else draw.points
    scores = jnp.stack([z, z**2 - 1], axis=-2)
    is_mean = jnp.array([[True], [False]])
    unit = jnp.where(is_mean, jnp.exp(picked(own[:, 1:], chosen)), 1.0)
    return (weighted[:, :, None] * scores).sum(axis=1) / unit


def _discrete_slope(weighted: Any, own: Any, draw: SampledPoints, chosen: Any) -> Any:
    return weighted


def _simplex_slope(weighted: Any, own: Any, draw: SampledPoints, chosen: Any) -> Any:
    alpha = jnp.exp(picked(own, chosen))
    constant = jax.lax.digamma(alpha.sum(axis=1, keepdims=True)) - jax.lax.digamma(alpha)
    mass = weighted.sum(axis=1)[:, None]
    return alpha * (constant * mass + (weighted[:, :, None] * draw.points).sum(axis=1))


_SLOPES = {"real": _real_slope, "discrete": _discrete_slope, "simplex": _simplex_slope}
