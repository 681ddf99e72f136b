"""The steps of `svgd`, compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...core.log_density import LogDensity, Shape, log_density
from ...core.records import record
from ...core.result import Status
from ...nn import adam
from ...nn.arrays import precision
from ...nn.compiled import Compiled
from ...optimise.driver import Step
from ...optimise.run import Run

__all__ = ["Movement", "Particles", "SteinPlan", "blankets", "direction"]

_CHUNK = 25  # steps of one call, and between two bandwidths
_DECAY = 100.0  # steps after which the rate has fallen by a root of two


class SteinPlan(NamedTuple):
    """How particles move: what kernels see, how wide they are, how fast the steps."""

    seen: str  # what kernels see: joint, messages (a Markov blanket) or coordinate
    bandwidth: float | None  # h, or None for the median
    rate: float  # of the first step


@record("svgd")
class Particles(NamedTuple):
    """The state of a run: where the particles stand, and what Adam remembers."""

    at: np.ndarray  # (count, dimension)
    moments: tuple[Any, Any]  # of Adam
    steps: int  # done so far
    ran_away: bool = False  # whether the next ones would not be finite


def blankets(density: LogDensity, seen: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Coordinates that the kernel of each one sees, filled up, and which are meant; None for all of them."""
    if seen == "joint":
        return None
    n, start = len(density.graph.variables), density.start
    near: list[set[int]] = [{i} for i in range(n)]
    for scope in density.graph.scopes if seen == "messages" else ():
        for i in scope:
            near[int(i)].update(int(j) for j in scope)
    rows: list[np.ndarray] = []
    for i in range(n):
        inside = np.concatenate([np.arange(start[j], start[j + 1]) for j in sorted(near[i])])
        own = range(int(start[i]), int(start[i + 1]))
        rows += [np.array([c]) if seen == "coordinate" else inside for c in own]
    most = max(map(len, rows))
    at, is_meant = np.zeros((len(rows), most), dtype=np.int64), np.zeros((len(rows), most))
    for c, row in enumerate(rows):
        at[c, : len(row)], is_meant[c, : len(row)] = row, 1.0
    return at, is_meant


def direction(x: jax.Array, slope: jax.Array, near: Any, width: jax.Array) -> tuple[Any, jax.Array]:
    """The direction phi of each particle and its mean kernel, both (count, dimension).

    `width` is h^2, one number per kernel.
    """
    if near is None:
        phi, mean = _along(x, x, slope, width)
        return phi, jnp.broadcast_to(mean, phi.shape)

    def one(inputs: Any) -> tuple[Any, Any]:
        at, is_meant, own, steep, h = inputs
        phi, mean = _along(x[:, at] * is_meant, own[:, None], steep[:, None], h)
        return phi[:, 0], mean[:, 0]

    phi, mean = jax.lax.map(one, (*near, x.T, slope.T, width), batch_size=min(x.shape[1], 16))
    return phi.T, mean.T


def _along(seen: Any, x: jax.Array, slope: jax.Array, width: jax.Array) -> tuple[jax.Array, jax.Array]:
    k = jnp.exp(-_squares(seen) / (2 * width))
    mean = k.mean(axis=1)[:, None]
    return (k @ slope - k @ x / width) / len(x) + x * mean / width, mean


def _squares(x: jax.Array) -> jax.Array:
    return ((x[:, None] - x[None]) ** 2).sum(axis=-1)


def _widths(x: np.ndarray, near: Any, bandwidth: float | None) -> np.ndarray:
    """h^2 of every kernel."""
    kernels = () if near is None else (x.shape[1],)
    if bandwidth is not None:
        return np.full(kernels, float(bandwidth) ** 2)
    if near is None:
        return np.asarray(_median(x))
    return np.array([_median(x[:, at] * is_meant) for at, is_meant in zip(*near, strict=True)])


def _median(x: np.ndarray) -> float:
    count = len(x)
    if count == 1:
        return 1.0
    with np.errstate(over="ignore", invalid="ignore"):  # particles on their way to infinity
        norm = (x**2).sum(axis=1)
        squares = (norm[:, None] + norm - 2 * x @ x.T)[np.triu_indices(count, 1)]
    return float(np.clip(np.nan_to_num(np.median(squares)) / (2 * np.log(count + 1)), 1e-12, 1e300))


def _steps(
    carry: Any,
    arrays: Any,
    near: Any,
    width: jax.Array,
    first: jax.Array,
    limit: jax.Array,
    rate: jax.Array,
    *,
    shape: Shape,
) -> jax.Array:
    """Steps of Adam, and at each the size of the direction and the energy, minus the mean log density."""
    look = jax.vmap(jax.value_and_grad(lambda u: log_density(u, arrays, shape)))

    def step(k: jax.Array, state: Any) -> tuple[Any, Any, Any, Any, Any]:
        x, mean, square, sizes, energies = state
        logs, slopes = look(x)
        phi, kernel = direction(x, slopes, near, width)
        t = first + k + 1.0
        move, (_, mean, square) = adam.direction(
            phi, adam.AdamMoments((first + k).astype(jnp.int32), mean, square)
        )
        spread = x.std(axis=0) if len(x) > 1 else jnp.sqrt(width)
        size = (jnp.sqrt(((phi / kernel) ** 2).mean(axis=0)) * spread).max()
        x = x + rate / jnp.sqrt(1 + t / _DECAY) * move
        return x, mean, square, sizes.at[k].set(size), energies.at[k].set(-logs.mean())

    return jax.lax.fori_loop(0, limit, step, (*carry, jnp.zeros(_CHUNK), jnp.zeros(_CHUNK)))


_STEPS = Compiled(_steps)


class Movement:
    """Chunks of steps, as the driver sees them.

    Parameters
    ----------
    density
        Where to go.
    plan
        How to.
    """

    def __init__(self, density: LogDensity, plan: SteinPlan) -> None:
        self._density, self._plan, self._near = density, plan, blankets(density, plan.seen)

    def begin(self, first: np.ndarray) -> Particles:
        """The first state."""
        return Particles(first, (np.zeros_like(first), np.zeros_like(first)), 0)

    def advance(self, state: Particles, run: Run) -> Step:
        """Steps with one bandwidth."""
        if not self._density.dimension:
            return Step(state, [0.0])
        count, plan = min(_CHUNK, run.count), self._plan
        numbers = (np.float64(state.steps), np.int64(count), np.float64(plan.rate))
        with precision(double=True):
            width = _widths(state.at, self._near, plan.bandwidth)
            at, mean, square, sizes, energies = _STEPS(
                (state.at, *state.moments), self._density.arrays, self._near, width, *numbers,
                shape=self._density.shape,
            )  # fmt: skip
            moved = np.asarray(at)
        if not np.isfinite(moved).all():
            return Step(state._replace(ran_away=True), status=Status.DIVERGED)
        found = np.asarray(sizes)[:count].tolist()
        trace = {"change": found, "energy": np.asarray(energies)[:count].tolist()}
        return Step(Particles(moved, (mean, square), state.steps + count), found, trace)
