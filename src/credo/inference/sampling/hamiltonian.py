"""Chains that follow Hamiltonian dynamics, compiled: the engine of `nuts` and `hmc`.

One program serves warm-up and draws: a step of the kernel, then, while the warm-up lasts, an update of the
step size and, in the slow windows, of the mass matrix. Kernels, the tuning rules and the schedule of windows
are those of blackjax.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.mass_matrix import mass_matrix_adaptation
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.adaptation.window_adaptation import build_schedule

from ...core.log_density import LogDensity, Shape, log_density
from ...core.records import record
from ...nn.arrays import precision
from ...nn.compiled import Compiled
from ..problem.potentials import log_values
from .draws import Draws

__all__ = ["HamiltonianEngine", "HamiltonianSettings"]

_CHUNK = 500  # steps of one call at most
_KEPT = 2**17  # numbers that one call returns at most


class HamiltonianSettings(NamedTuple):
    """What is constant in a program."""

    shape: Shape  # of the density
    is_nuts: bool  # trajectories end by themselves
    length: int  # most doublings of a trajectory (nuts), or steps (hmc)
    is_diagonal: bool  # mass matrix
    target: float  # accepted share that the step size is tuned to


@record("hamiltonian steps")
class _Carry(NamedTuple):
    """One chain; arrays get a leading axis over chains."""

    key: jax.Array  # of the random numbers
    state: Any  # position, log density, gradient
    tuning: Any  # step size and mass matrix
    divergences: Any  # after the warm-up
    bad: Any  # a point tried after the warm-up where the log density is NaN or +inf; NaN if there is none


@record("hamiltonian chains", kept=("_carry",))
class HamiltonianEngine:
    """Chains on a graph of continuous variables.

    Parameters
    ----------
    density
        The graph made ready.
    settings
        Constants.
    starts
        One draw per chain.
    warmup
        Steps during which the sampler is tuned.
    seed
        Of the random numbers.
    """

    def __init__(
        self, density: LogDensity, settings: HamiltonianSettings, starts: Draws, warmup: int, seed: int
    ) -> None:
        self._density, self._settings = density, settings
        self._schedule, self._warmup = _schedule(warmup), warmup
        self._seed = seed
        with precision(double=True):
            self._arrays = jax.tree.map(jnp.asarray, density.arrays)
        self.chunk = int(np.clip(_KEPT // max(1, len(starts.states) * density.dimension), 1, _CHUNK))
        self._program: Any = None
        self._carry: Any = None
        self.begin(starts, 0)

    def begin(self, starts: Draws, turn: int) -> None:
        """Put the chains at other points, untuned but for the size of a step: the middle one of all."""
        points = self._density.flatten({name: v[:, 0] for name, v in starts.values.items()})
        with precision(double=True):
            size = np.float64(_middle(self._carry) if turn else 1.0)
            seeds = np.array([self._seed, turn])
            self._carry = _START(seeds, points, size, self._arrays, settings=self._settings)

    def advance(self, first: int, count: int) -> Draws:
        """Do steps number first, first + 1, ... and return the state after each."""
        at = np.minimum(np.arange(first, first + self.chunk), self._warmup)
        with precision(double=True):
            given = (self._carry, self._arrays, self._schedule[at], np.int64(first), np.int64(count))
            if self._program is None:
                self._program = _ADVANCE.ready(*given, settings=self._settings)
            self._carry, kept = self._program(*given)
            bad = np.asarray(self._carry.bad)
            bad = bad[np.isfinite(bad).all(axis=1)]
            if len(bad):
                log_values(self._density, bad)  # names the factor
            return self._draws(*(np.asarray(k)[:count].swapaxes(0, 1) for k in kept))

    def current(self) -> Draws:
        """The state of every chain, as one draw."""
        state = self._carry.state
        return self._draws(*(np.asarray(x)[:, None] for x in (state.position, state.logdensity)))

    def divergences(self) -> int:
        """Trajectories after the warm-up whose energy was lost."""
        return int(np.asarray(self._carry.divergences).sum())

    def notes(self) -> list[str]:
        """No sentences: what there is to tell is in `divergences`."""
        return []

    def _draws(self, vectors: np.ndarray, logs: np.ndarray) -> Draws:
        states = np.full((*vectors.shape[:2], len(self._density.graph.variables)), -1, dtype=np.int64)
        return Draws(states, self._density.values(vectors), logs)


def _middle(carry: _Carry) -> float:
    """The median size of a step; a chain that is lost does not spoil it."""
    sizes = np.exp(np.asarray(carry.tuning[0].log_step_size_avg))
    found = float(np.median(sizes))
    return found if 0 < found < np.inf else 1.0


@lru_cache(maxsize=16)
def _schedule(warmup: int) -> np.ndarray:
    """What each step of the warm-up tunes, and -1 for all steps after it."""
    stages = np.array(build_schedule(warmup), dtype=np.int64).reshape(-1, 2)
    return np.concatenate([stages, np.full((1, 2), -1, dtype=np.int64)])


def _start(
    seeds: Any, points: jax.Array, first: jax.Array, arrays: Any, *, settings: HamiltonianSettings
) -> _Carry:
    def one(key: jax.Array, point: Any) -> _Carry:
        state = blackjax.hmc.init(point, lambda u: log_density(u, arrays, settings.shape))
        size = mass_matrix_adaptation(settings.is_diagonal)[0](len(point))
        tuning = (dual_averaging_adaptation(settings.target)[0](first), size)
        none = (jnp.zeros((), jnp.int64), jnp.full_like(point, jnp.nan))
        return _Carry(key, state, tuning, *none)

    key = jax.random.fold_in(jax.random.PRNGKey(seeds[0]), seeds[1])
    return jax.vmap(one)(jax.random.split(key, len(points)), points)


def _advance(
    carry: _Carry,
    arrays: Any,
    stages: Any,
    first: jax.Array,
    limit: jax.Array,
    *,
    settings: HamiltonianSettings,
) -> jax.Array:
    """Steps of every chain, and its position and log density after each."""
    kernel = (blackjax.nuts if settings.is_nuts else blackjax.hmc).build_kernel()

    def density(u: jax.Array) -> jax.Array:
        return log_density(u, arrays, settings.shape)

    def one(carry: _Carry, key: jax.Array, is_drawing: Any) -> tuple[_Carry, Any]:
        length: Any = settings.length
        if not settings.is_nuts:
            # A fixed length may be a multiple of a period of the motion, which then goes nowhere.
            length = 1 + (key[0] % np.uint32(length)).astype(jnp.int32)
        size, mass = carry.tuning
        step = jnp.exp(jnp.where(is_drawing, size.log_step_size_avg, size.log_step_size))
        state, info = kernel(key, carry.state, density, step, mass.inverse_mass_matrix, length)
        divergences = carry.divergences + (info.is_divergent & is_drawing)
        bad = carry.bad
        for end in _ends(info, settings.is_nuts):
            is_bad = jnp.isfinite(end.position).all() & ~(end.logdensity < jnp.inf) & is_drawing
            bad = jnp.where(is_bad, end.position, bad)
        new = carry._replace(state=state, divergences=divergences, bad=bad)
        return new, info.acceptance_rate

    def step(k: jax.Array, both: Any) -> Any:
        carry, kept = both
        is_drawing = stages[k, 0] < 0
        carry, accepted = jax.vmap(one, in_axes=(0, 0, None))(carry, keys[k], is_drawing)
        # One branch for all chains: what a stage does not tune costs nothing.
        stage = jnp.where(is_drawing, 0, 1 + stages[k, 0] + 2 * stages[k, 1])
        tuning = jax.lax.switch(stage, tunings, carry.tuning, carry.state.position, accepted)
        carry = carry._replace(tuning=tuning)
        now = (carry.state.position, carry.state.logdensity)
        return carry, tuple(all_.at[k].set(one) for all_, one in zip(kept, now, strict=True))

    steps = first + jnp.arange(len(stages))
    keys = jax.vmap(lambda k: jax.vmap(jax.random.fold_in, (0, None))(carry.key, k))(steps)
    tunings = [jax.vmap(tune) for tune in _tunings(settings)]
    now = (carry.state.position, carry.state.logdensity)
    kept = tuple(jnp.zeros((len(stages), *x.shape)) for x in now)
    return jax.lax.fori_loop(0, limit, step, (carry, kept))


def _ends(info: Any, is_nuts: bool) -> tuple[Any, ...]:
    """Where a trajectory stopped; one that meets a wrong value stops there."""
    return (info.trajectory_leftmost_state, info.trajectory_rightmost_state) if is_nuts else (info.proposal,)


def _tunings(settings: HamiltonianSettings) -> list[Any]:
    """What a step does to step size and mass matrix: drawing, in fast and slow windows, and at their ends."""
    first_size, next_size, last_size = dual_averaging_adaptation(settings.target)
    _, next_mass, last_mass = mass_matrix_adaptation(settings.is_diagonal)

    def tuned(
        tuning: Any, position: jax.Array, accepted: Any, is_slow: bool, is_end: bool
    ) -> tuple[Any, Any]:
        size, mass = tuning
        size = next_size(size, jnp.where(jnp.isfinite(accepted), accepted, 0.0))
        if is_slow:
            mass = next_mass(mass, position)
        return (first_size(last_size(size)), last_mass(mass)) if is_end else (size, mass)

    stages = [partial(tuned, is_slow=bool(k % 2), is_end=k >= 2) for k in range(4)]
    return [lambda tuning, position, accepted: tuning, *stages]


_START, _ADVANCE = Compiled(_start), Compiled(_advance, small=0, quick=False)
