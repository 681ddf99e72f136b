r"""Adam for compiled steps, by Optax: directions, rates that change, and gradients that are clipped.

    rate_t = min(1, (t + 1) / warm_up) max(rate (1 + t / half_life)^(-power), floor)

Rates and the bound of gradients are arrays of the state and no constants: one program serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..core.errors import OptionError
from ..core.records import record

__all__ = ["AdamMoments", "Gradient", "Learned", "Rates", "direction", "learned", "move"]


@record("adam moments")
class AdamMoments(NamedTuple):
    """What Adam remembers."""

    steps: Any  # so far
    mean: Any  # of gradients
    square: Any  # of their squares


@record("adam rates")
class Rates(NamedTuple):
    """How the rate of the steps changes."""

    rate: Any = 1e-3
    warm_up: Any = 0.0  # steps until it has its full size
    half_life: Any = np.inf  # steps after which it begins to fall
    power: Any = 0.5  # with which it falls
    floor: Any = 0.0  # it falls no further

    def at(self, step: Any) -> Any:
        """The rate of a step, counted from zero.

        Examples
        --------
        >>> from credo.nn.adam import Rates
        >>> [round(float(Rates(1.0, warm_up=2, half_life=1.0, power=1.0).at(t)), 3) for t in (0, 1, 3)]
        [0.5, 0.5, 0.25]
        """
        growing = jnp.minimum(1.0, (step + 1.0) / jnp.maximum(self.warm_up, 1.0))
        falling = jnp.maximum(self.rate * (1.0 + step / self.half_life) ** -self.power, self.floor)
        return growing * falling


@record("adam group")
class Learned(NamedTuple):
    """A group of parameters that Adam moves."""

    parameters: Any
    moments: AdamMoments
    rates: Rates
    clip: Any  # largest norm of a gradient; longer ones are shortened to it


def learned(parameters: Any, rates: Rates | None = None, *, clip: float = np.inf) -> Learned:
    """Parameters before the first step; numbers have the precision of the parameters."""
    rates = rates or Rates()
    if not clip > 0:
        raise OptionError(f"clip must be a positive number, got {clip!r}")
    kind = jax.tree.leaves(parameters)[0].dtype
    numbers = Rates(*(np.asarray(number, kind) for number in rates))
    zeros = jax.tree.map(np.zeros_like, parameters)
    moments = AdamMoments(np.zeros((), np.int32), zeros, zeros)
    return Learned(parameters, moments, numbers, np.asarray(clip, kind))


def direction(gradient: Any, moments: AdamMoments) -> tuple[Any, AdamMoments]:
    """Where Adam goes with unit rate (against it, for a descent), and its new moments."""
    found, state = optax.scale_by_adam().update(gradient, optax.ScaleByAdamState(*moments))
    return found, AdamMoments(*state)


def move(gradient: Any, group: Learned) -> Learned:
    """A step down a gradient."""
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
    share = jnp.where(norm > group.clip, group.clip / norm, 1.0)
    way, moments = direction(jax.tree.map(lambda g: g * share.astype(g.dtype), gradient), group.moments)
    rate = group.rates.at(group.moments.steps)
    new = jax.tree.map(lambda p, d: p - (rate * d).astype(p.dtype), group.parameters, way)
    return group._replace(parameters=new, moments=moments)


@dataclass(frozen=True)
class Gradient:
    """A step of `chunks`: Adam on one group of the parameters; all others are seen and stay as they are.

    Equal ones share a compiled program, so the loss should be a function of a module.
    """

    loss: Callable[..., Any]  # (parameters, state, batch, key) -> value, (changes of other entries, metrics)
    group: str = "model"  # the entry of the state that is a `Learned`

    def __call__(self, state: dict[str, Any], batch: Any, key: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The next state, and the numbers to be shown."""
        group: Learned = state[self.group]
        slope = jax.value_and_grad(self.loss, has_aux=True)
        (value, (changes, metrics)), gradient = slope(group.parameters, state, batch, key)
        return {**state, **changes, self.group: move(gradient, group)}, {"loss": value, **metrics}
