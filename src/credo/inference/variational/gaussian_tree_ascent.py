"""How the Bethe value of a mixture of Gaussian trees is climbed.

By quadrature: L-BFGS, and Adam from where its line search finds no way up, because slope and value disagree
by the error of the quadrature. It has converged when the slope is below `tol`, and stalls when it is smaller
than the difference that twice as many nodes make to it. By samples: Adam. The rate of Adam falls.

Means are measured in scales of their variables, and slopes of variables on others in ratios of these, so that
neither steps nor `tol` depend on units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...core.result import Status
from ...nn.adam import AdamMoments, Rates, direction
from ...nn.arrays import precision
from ...nn.compiled import Compiled
from ...nn.loop import repeat
from ...optimise.driver import UNKNOWN, Step
from ...optimise.lbfgs import Descent, Point, advance
from ...optimise.run import Run
from .gaussian_tree_value import (
    Arrays,
    GaussianTreeParameters,
    GaussianTreeSystem,
    estimated,
    hermite,
    value_and_slopes,
)

__all__ = [
    "GaussianTreeClimb",
    "GaussianTreeParameters",
    "GaussianTreeState",
    "GaussianTreeSystem",
    "value_and_slopes",
]

_CHUNK = 50  # steps of Adam in a call
_SMALL = 1e-4  # of tol: relative gain of a step after which the error of the quadrature is looked at
_HALF_LIFE = 100.0  # steps after which the rate of Adam begins to fall


class GaussianTreeState(NamedTuple):
    """Where a climb stands."""

    system: GaussianTreeSystem  # trees of its own
    units: GaussianTreeParameters  # of the parameters
    x: np.ndarray  # all parameters in these units, one after another
    stage: int  # which of the stages of the climb
    descent: Descent | None = None  # of minus the value in this stage; None before its first step
    seed: int = 0  # of the samples of Adam
    moments: Any = None  # of Adam
    done: int = 0  # steps of Adam

    @property
    def parameters(self) -> GaussianTreeParameters:
        """What `x` stands for."""
        return self.at(self.x)

    def at(self, x: np.ndarray) -> GaussianTreeParameters:
        """What another place stands for."""
        return _times(_parameters(x, *self.system.arrays.up.shape), self.units)


def _parameters(x: np.ndarray, count: int, n: int) -> GaussianTreeParameters:
    cut = count * n
    means, slopes, log_sds = (x[k * cut : (k + 1) * cut].reshape(count, n) for k in range(3))
    return GaussianTreeParameters(means, slopes, log_sds, x[3 * cut :])


def _flat(p: GaussianTreeParameters) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in p])


def _times(p: GaussianTreeParameters, units: GaussianTreeParameters) -> GaussianTreeParameters:
    return GaussianTreeParameters(*(part * unit for part, unit in zip(p, units, strict=True)))


def _units(up: np.ndarray, scale: np.ndarray) -> GaussianTreeParameters:
    """What counts as one, of variables with these scales."""
    above = np.where(up >= 0, scale[up], scale)
    own = np.broadcast_to(scale, up.shape)
    return GaussianTreeParameters(own, own / above, np.ones(up.shape), np.ones(len(up)))


class GaussianTreeClimb:
    """Climbs by L-BFGS on the quadrature, otherwise by Adam, as the driver sees them.

    The weights stay equal until L-BFGS has converged once: freed too early, one component takes them all.

    Parameters
    ----------
    estimate
        `quadrature` or `samples`.
    points
        Nodes, or samples per step.
    rate
        Of Adam at first.
    learn_weights
        Whether the weights of the components change.
    """

    def __init__(self, estimate: str, points: int, rate: float, learn_weights: bool) -> None:
        self._estimate, self._points, self._rate, self._learns = estimate, points, rate, learn_weights

    def begin(
        self,
        system: GaussianTreeSystem,
        start: GaussianTreeParameters,
        scale: np.ndarray,
        rng: np.random.Generator,
    ) -> GaussianTreeState:
        """The first state, of variables with these scales."""
        units = _units(np.asarray(system.arrays.up), scale)
        first = GaussianTreeState(system, units, _flat(start) / _flat(units), 0)
        if self._estimate == "samples":
            return _with_moments(first._replace(seed=int(rng.integers(2**31))))
        return first

    def advance(self, state: GaussianTreeState, run: Run) -> Step:
        """Steps of one stage."""
        step = self._climb(state, run) if state.moments is None else self._walk(state, run)
        if self._estimate == "samples" or step.status is not None:
            return step
        is_out = len(step.residuals) == run.count and step.residuals[-1] >= run.budget.tol
        if is_out and _is_flat(step.state, self._points):
            return step._replace(status=Status.STALLED)
        return step

    def _climb(self, state: GaussianTreeState, run: Run) -> Step:
        """A line search of L-BFGS, and what comes where there is none any more."""
        frees = state.stage == 1

        def function(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, slopes = _slopes(state, state.at(x), self._points)
            return -value, -_flat(slopes if frees else slopes._replace(logits=0 * slopes.logits))

        first = state.descent or Descent(Point.at(function, state.x))
        if not np.isfinite(first.here.value):
            return Step(state, status=Status.DIVERGED)
        step = advance(function, first)
        here = step.state.here
        state = state._replace(x=here.w, descent=step.state)
        trace = {"value": [-here.value], "log_z": [-here.value], "change": [here.steepness]}
        least = _SMALL * run.budget.tol * max(1.0, abs(here.value))
        goes_on = first.here.value - here.value > least and here.steepness >= run.budget.tol
        if goes_on and step.status is None:
            return Step(state, step.residuals, trace)
        if self._learns and not frees and len(state.parameters.logits) > 1:
            return Step(state._replace(stage=1, descent=None), [UNKNOWN], trace)
        if here.left < run.budget.tol:
            return Step(state, [here.left], trace)
        return Step(
            _with_moments(state), [UNKNOWN], trace
        )  # it needs no value, and finds where slopes vanish

    def _frees(self, state: GaussianTreeState) -> bool:
        """Whether Adam moves the weights."""
        return self._learns and (self._estimate == "samples" or len(state.parameters.logits) > 1)

    def _walk(self, state: GaussianTreeState, run: Run) -> Step:
        """A chunk of Adam's steps."""
        chunk = min(_CHUNK, run.count)
        with precision(double=True):
            points: Any = hermite(self._points)
            if self._estimate == "samples":
                points = (jax.random.PRNGKey(state.seed), np.zeros((self._points, 0)))
            p, moments, history = _ADVANCE(
                state.parameters, state.units, state.moments, state.system.arrays, points,
                Rates(self._rate, half_life=_HALF_LIFE), state.done, float(self._frees(state)), chunk,
                functions=state.system.functions, estimate=self._estimate,
            )  # fmt: skip
            x = _flat(p) / _flat(state.units)
            values, slopes = (np.asarray(history[name])[:chunk] for name in ("value", "slope"))
        if not np.isfinite(x).all():
            return Step(state, status=Status.DIVERGED)
        new = state._replace(x=x, moments=moments, done=state.done + chunk)
        values = values + state.system.constant
        trace = {"value": values, "log_z": values, "change": slopes}
        return Step(new, _ending(slopes, slopes.max()), trace)


def _with_moments(state: GaussianTreeState) -> GaussianTreeState:
    """Ready for Adam."""
    zeros = GaussianTreeParameters(*(np.zeros_like(part) for part in state.parameters))
    return state._replace(moments=(np.int32(0), zeros, zeros))


def _ending(residuals: Sequence[float] | np.ndarray, last: float) -> list[float]:
    """The same, with another last one."""
    return [*residuals[:-1], last] if len(residuals) else []


def _slopes(
    state: GaussianTreeState, p: GaussianTreeParameters, nodes: int
) -> tuple[float, GaussianTreeParameters]:
    """The value and its slopes in the units of the state."""
    value, slopes = value_and_slopes(state.system, p, nodes=nodes)
    return value, _times(slopes, state.units)


def _is_flat(state: GaussianTreeState, nodes: int) -> bool:
    """Whether no slope is larger than what twice as many nodes change."""
    coarse, fine = (_slopes(state, state.parameters, k)[1] for k in (nodes, 2 * nodes))
    largest = max(float(np.abs(s).max()) for s in coarse)
    return largest <= max(float(np.abs(s - t).max()) for s, t in zip(coarse, fine, strict=True))


def _advance(
    p: GaussianTreeParameters, units: GaussianTreeParameters, moments: Any, arrays: Arrays, points: Any,
    rates: Rates, done: Any, by_weight: Any, limit: Any, *, functions: Any, estimate: str,
) -> Any:  # fmt: skip
    """At most `limit` of Adam's steps; samples are fresh in each."""

    def step(k: Any, carry: Any) -> Any:
        p, state = carry
        here = points
        if estimate == "samples":
            here = (jax.random.fold_in(points[0], done + k), points[1])
        value, slopes = estimated(p, arrays, here, functions=functions, estimate=estimate)
        slopes = _times(slopes._replace(logits=slopes.logits * by_weight), units)
        move, state = direction(slopes, state)
        size = rates.at(done + k)
        p = jax.tree.map(lambda x, d, unit: x + size * unit * d, p, move, units)
        largest = jnp.max(jnp.stack([jnp.abs(s).max() for s in slopes]))
        return (p, state), {"value": value, "slope": largest}

    (p, state), history, _ = repeat(step, (p, AdamMoments(*moments)), _CHUNK, limit)
    return p, tuple(state), history


_ADVANCE = Compiled(_advance)
