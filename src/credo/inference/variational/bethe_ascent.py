r"""Gradient ascent on the Bethe free energy, in compiled chunks of steps; restarts are mapped.

    ascent   p <- p + rate_t g,                  rate_t = rate / sqrt(1 + t / decay)
    adam     p <- p + rate_t m / (sqrt(v) + 1e-8),   m, v = running means of g and g^2

Means are measured in standard deviations of their own component, so that a step means the same on every
scale. Slopes of logits of states are divided by the beliefs in them, which makes the natural gradient: one
that vanishes with a belief would leave a state nearly impossible for long before it is as unlikely as it is.
Collapse: lambda_m scales the gradient of component m, so that a component that falls behind stops
learning and all weight ends on one. With guard < 1 gradients of components are divided by lambda_m, and the
logits of lambda have the rate guard * rate, which does not fall: slow at first, like the rest at last.

Where steps are random, what is returned is an average over the later ones.

With one sampled component per step (`sampled`), m* ~ q and what it says is divided by q(m*); the gradient of
lambda has a running mean subtracted. Both are unbiased.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...core.records import record
from ...nn import adam
from ...nn.compiled import Compiled
from .bethe_expectations import log_dirichlet_samples, stein_direction
from .bethe_plan import BethePlan
from .bethe_system import BetheParameters, SampledPoints, beliefs, gradient, picked, total

__all__ = [
    "AscentCarry",
    "AscentNumbers",
    "AscentSettings",
    "advance",
    "draws_of",
    "evaluate_at",
    "evaluate_much",
    "slope_at",
]

_LONGEST = 1.0  # step: a standard deviation of a mean, a factor e of a width
_STEIN = 0.3  # step of the particles
_RECENT = 8.0  # steps enter the average by the seventh power of their number
_MEMORY = 0.95  # of the running mean of the objective
_LITTLE = 1e-30  # smallest weight or belief that is divided by
_LOG_SD = 40.0  # beyond, a density counts as flat; e^40
_LOG_ALPHA = (-7.0, 14.0)  # concentrations of Dirichlet beliefs


class AscentSettings(NamedTuple):
    """The constants of the program, besides the plan."""

    score: bool  # differentiate exactly, then approximate; otherwise the other way round
    adam: bool
    guarded: bool
    sampled: bool  # one component per step
    samples: int  # per variable, where expectations are means over samples
    particles: bool  # whether points of real and simplex variables are moved
    coordinate: bool  # whether every coordinate of a particle has its own kernel
    random: bool  # whether steps differ by more than their parameters
    chunk: int  # most steps of a call


class AscentNumbers(NamedTuple):
    """What may differ between calls of one program."""

    rate: Any
    decay: Any
    guard: Any
    wall: Any
    floor: Any  # per kind (n,) smallest log standard deviations; None where there are none


@record("bethe steps")
class AscentCarry(NamedTuple):
    """Where a run stands; restarts on the first axis."""

    parameters: BetheParameters
    first: Any  # running mean of the gradient
    second: Any  # running mean of its square
    step: Any  # steps done
    key: Any  # of the random numbers
    points: Any  # per kind: standardised points of reals, log-Gamma particles of simplexes, or nothing
    baseline: Any  # running mean of the objective
    average: Any  # parameters averaged over the later steps, where steps are random; otherwise nothing


def draws_of(
    plan: BethePlan,
    settings: AscentSettings,
    parameters: BetheParameters,
    points: tuple[Any, ...],
    weights: tuple[Any, ...],
    key: Any,
    chosen: Any,
) -> tuple[SampledPoints, ...]:
    """Points of all kinds: fixed, moved or drawn."""
    found = []
    for c, kind in enumerate(plan.kinds):
        own, count = parameters.parts[c], settings.samples
        m = plan.components if chosen is None else 1
        here = jax.random.fold_in(key, c) if kind.paired else key
        even = jnp.full(count, 1.0 / count)
        if kind.family == "discrete":
            found.append(SampledPoints(None, None))
        elif kind.family == "real" and kind.paired:
            drawn = jax.random.normal(here, (own.shape[-1], m, count))
            found.append(SampledPoints(jnp.moveaxis(drawn, 0, -1), even))
        elif kind.family == "real":
            found.append(SampledPoints(points[c], weights[c]))
        elif kind.paired:
            alpha = jnp.moveaxis(jnp.exp(picked(own, chosen)), -1, 0)
            found.append(SampledPoints(jnp.moveaxis(log_dirichlet_samples(here, alpha, count), 0, -1), even))
        else:
            logs = jnp.moveaxis(jax.nn.log_softmax(points[c], axis=-1), 0, -1)
            found.append(SampledPoints(picked(logs, chosen), weights[c]))
    return tuple(found)


def slope_at(
    plan: BethePlan, settings: AscentSettings, data: Any, numbers: AscentNumbers, weights: Any,
    parameters: BetheParameters, key: Any, points: Any, baseline: Any,
) -> tuple[Any, BetheParameters]:  # fmt: skip
    """The free energy and its gradient; that of components without lambda_m if guarded."""
    kinds, groups = data
    if not settings.score:
        return _automatic(plan, settings, data, numbers, weights, parameters, key, points)
    share = jax.nn.softmax(parameters.weights)
    chosen = None
    if settings.sampled:
        odds = jnp.full_like(share, 1 / plan.components) if settings.guarded else share
        chosen = jax.random.choice(jax.random.fold_in(key, 99), plan.components, (1,), p=odds)
    draws = draws_of(plan, settings, parameters, points, weights, key, chosen)
    parts = beliefs(plan, kinds, parameters, draws, chosen)
    totals, slopes = gradient(plan, kinds, groups, parameters, draws, parts, numbers.wall, chosen)
    scale = jnp.ones_like(share) if settings.guarded else share
    if chosen is None:
        value = share @ totals
        own = BetheParameters(share * (totals - value), tuple(s * scale[:, None, None] for s in slopes))
        return value, own
    at = jax.nn.one_hot(chosen[0], plan.components)
    value = (at @ (share / odds)) * totals[0]
    gain = (at @ (share / odds)) * (totals[0] - baseline) * (at - share)
    spread = at * scale / odds
    return value, BetheParameters(gain, tuple(s * spread[:, None, None] for s in slopes))


def _automatic(
    plan: BethePlan, settings: AscentSettings, data: Any, numbers: AscentNumbers, weights: Any,
    parameters: BetheParameters, key: Any, points: Any,
) -> tuple[Any, BetheParameters]:  # fmt: skip
    def value(p: BetheParameters) -> Any:
        draws = draws_of(plan, settings, p, points, weights, key, None)
        parts = beliefs(plan, data[0], p, draws, None)
        share = jax.nn.softmax(p.weights)
        return share @ total(plan, data[1], parts, share, numbers.wall, (0,) * len(plan.groups))

    found, slope = jax.value_and_grad(value)(parameters)
    if settings.guarded:
        share = jnp.maximum(jax.nn.softmax(parameters.weights), 1e-12)
        slope = slope._replace(parts=tuple(s / share[:, None, None] for s in slope.parts))
    return found, slope


def _moved(
    plan: BethePlan, settings: AscentSettings, parameters: BetheParameters, points: tuple[Any, ...]
) -> Any:
    """Particles one Stein step nearer to the beliefs."""
    if not settings.particles:
        return points
    found = []
    for c, kind in enumerate(plan.kinds):
        x = points[c]
        if kind.family == "real":
            x = x + _STEIN * stein_direction(x[:, None], -x[:, None], False)[:, 0]
        elif kind.family == "simplex":
            alpha = jnp.moveaxis(jnp.exp(parameters.parts[c]), -1, 0)
            score = alpha[:, :, None] - jnp.exp(x)
            # A long way out e^u is huge; the direction then counts, not the length.
            step = stein_direction(x, score, settings.coordinate)
            x = x + _STEIN * jnp.clip(step, -1.0, 1.0)
        found.append(x)
    return tuple(found)


def _speeds(plan: BethePlan, parameters: BetheParameters) -> BetheParameters:
    """Units in which steps are measured."""
    parts = []
    for kind, own in zip(plan.kinds, parameters.parts, strict=True):
        if kind.family == "real":
            sd = jnp.exp(own[:, 1])
            parts.append(jnp.stack([sd, jnp.ones_like(sd)], axis=1))
        else:
            parts.append(jnp.ones_like(own))
    return BetheParameters(jnp.ones_like(parameters.weights), tuple(parts))


def _even(
    plan: BethePlan, kinds: Any, parameters: BetheParameters, slope: BetheParameters
) -> BetheParameters:
    """Slopes of logits divided by the beliefs in their states."""
    parts = []
    for kind, data, own, g in zip(plan.kinds, kinds, parameters.parts, slope.parts, strict=True):
        parts.append(g / _likely(data, own) if kind.family == "discrete" else g)
    return slope._replace(parts=tuple(parts))


def _likely(data: Any, own: Any) -> Any:
    """Beliefs in states, as what is divided by."""
    return jnp.maximum(jax.nn.softmax(jnp.where(data.mask, own, -jnp.inf), axis=1), _LITTLE)


def _natural(
    plan: BethePlan, settings: AscentSettings, kinds: Any, parameters: BetheParameters, slope: BetheParameters
) -> Any:
    """Squared length of the natural gradient, about twice what a step could still gain.

    Components count by their weights; slopes have been divided by these if guarded.
    """
    share = jax.nn.softmax(parameters.weights)
    by_weight = slope.weights**2 / jnp.maximum(share, _LITTLE)
    found = by_weight.sum()
    factor = share if settings.guarded else 1 / jnp.maximum(share, _LITTLE)
    for kind, data, own, g in zip(plan.kinds, kinds, parameters.parts, slope.parts, strict=True):
        if kind.family == "real":
            sd = jnp.exp(own[:, 1:])
            squares = jnp.concatenate([(g[:, :1] * sd) ** 2, 0.5 * g[:, 1:] ** 2], axis=1)
        elif kind.family == "discrete":
            squares = g**2 / _likely(data, own)
        else:
            squares = g**2
        found = found + (factor * squares.sum(axis=(1, 2))).sum()
    return found


def _kept(plan: BethePlan, numbers: AscentNumbers, parameters: BetheParameters) -> BetheParameters:
    """Parameters within their ranges."""
    parts = []
    for c, (kind, own) in enumerate(zip(plan.kinds, parameters.parts, strict=True)):
        if kind.family == "real":
            log_sd = jnp.clip(own[:, 1], numbers.floor[c], _LOG_SD)
            parts.append(jnp.stack([own[:, 0], log_sd], axis=1))
        elif kind.family == "simplex":
            parts.append(jnp.clip(own, *_LOG_ALPHA))
        else:
            parts.append(own - own.max(axis=1, keepdims=True))
    return BetheParameters(parameters.weights - parameters.weights.max(), tuple(parts))


def _advance(
    carry: AscentCarry,
    data: Any,
    weights: Any,
    numbers: AscentNumbers,
    limit: Any,
    plan: BethePlan,
    settings: AscentSettings,
) -> Any:
    """At most `limit` steps; the new carry, and of each the value, effective components and the residual."""

    def one(
        parameters: BetheParameters, first: Any, second: Any, key: Any, points: Any, baseline: Any,
        average: Any, step: Any,
    ) -> Any:  # fmt: skip
        here = jax.random.fold_in(key, step) if settings.random else key
        value, slope = slope_at(plan, settings, data, numbers, weights, parameters, here, points, baseline)
        left = _natural(plan, settings, data[0], parameters, slope)
        speed = _speeds(plan, parameters)
        slope = _even(plan, data[0], parameters, jax.tree.map(jnp.multiply, slope, speed))
        direction, first, second = _direction(settings, slope, first, second, step)
        rate = numbers.rate / jnp.sqrt(1 + step / numbers.decay)
        moves = jax.tree.map(lambda d, s: s * jnp.clip(rate * d, -_LONGEST, _LONGEST), direction, speed)
        slower = jnp.minimum(1.0, numbers.guard * numbers.rate / jnp.maximum(rate, 1e-300))
        moves = moves._replace(weights=slower * moves.weights)
        new = jax.tree.map(jnp.add, parameters, moves)
        new = _kept(plan, numbers, new)
        share = jax.nn.softmax(parameters.weights)
        effective = jnp.exp(-(share * jnp.log(jnp.maximum(share, 1e-300))).sum())
        known = jnp.where(step == 0, value, baseline)
        baseline = _MEMORY * known + (1 - _MEMORY) * value
        if settings.random:
            recent = _RECENT / (step + _RECENT)
            average = jax.tree.map(lambda a, p: a + recent * (p - a), average, new)
        points = _moved(plan, settings, new, points)
        return new, first, second, points, baseline, average, (value, effective, left)

    def body(state: Any) -> Any:
        k, carry, history = state
        over = jax.vmap(one, in_axes=(0, 0, 0, 0, 0, 0, 0, None))
        new, first, second, points, baseline, average, told = over(
            carry.parameters, carry.first, carry.second, carry.key, carry.points, carry.baseline,
            carry.average, carry.step,
        )  # fmt: skip
        after = AscentCarry(new, first, second, carry.step + 1, carry.key, points, baseline, average)
        return k + 1, after, tuple(h.at[k].set(row) for h, row in zip(history, told, strict=True))

    shape = (settings.chunk, carry.parameters.weights.shape[0])
    empty = jnp.zeros(shape, carry.parameters.weights.dtype)
    state = (jnp.int32(0), carry, (empty, empty, empty))
    _, carry, history = jax.lax.while_loop(lambda s: s[0] < limit, body, state)
    return carry, history


def _direction(
    settings: AscentSettings, slope: Any, first: Any, second: Any, step: Any
) -> tuple[Any, Any, Any]:
    if not settings.adam:
        return slope, first, second
    direction, moments = adam.direction(slope, adam.AdamMoments(step, first, second))
    return direction, moments.mean, moments.square


advance = Compiled(_advance, loops=True)


def _evaluate(
    parameters: BetheParameters, data: Any, points: Any, weights: Any, numbers: AscentNumbers, key: Any,
    plan: BethePlan, settings: AscentSettings, batch: tuple[int, ...],
) -> Any:  # fmt: skip
    """The free energy of one restart under each of several sets of weights of the points."""

    def one(weights: Any) -> Any:
        draws = draws_of(plan, settings, parameters, points, weights, key, None)
        parts = beliefs(plan, data[0], parameters, draws, None)
        share = jax.nn.softmax(parameters.weights)
        return share @ total(plan, data[1], parts, share, numbers.wall, batch)

    return jax.vmap(one)(weights)


evaluate_at, evaluate_much = Compiled(_evaluate, loops=True), Compiled(_evaluate, loops=True, small=0)
