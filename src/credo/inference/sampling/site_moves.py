r"""Moves of one variable given the others, for many variables and chains at once, compiled.

    choose     a discrete variable is drawn from its conditional
    swap       any of its states is proposed, and accepted or not
    gauss      a real variable among Gaussian factors only is drawn from its conditional
    slice      a real variable is drawn from a slice of its conditional; a simplex variable moves along a
               random direction of its free coordinates in the same way
    walk       a normal step of a real variable, or of the free coordinates of a simplex one, is taken or not

Free coordinates and their Jacobian are those of `core/bijections.py`. While the warm-up lasts, the width of a
slice follows the mean move, and the size of a step
log s <- log s + (k + 1)^-0.6 (accepted share - wanted share) in sweep k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from ...core.bijections import bijection_of
from ...core.records import record
from ...nn.hashed_random import exponential, fold, gumbel, normal, uniform
from .slices import slice_moves

__all__ = ["MOVES", "Site", "SiteState", "SiteStructure"]

_WIDTH = 2.5  # of a slice, in mean moves
_ACCEPT_ONE, _ACCEPT_MANY = 0.44, 0.3  # wanted share of accepted steps in one dimension, and in several


class SiteStructure(NamedTuple):
    """What is constant in a program."""

    functions: tuple[Any, ...]  # of the groups
    domains: tuple[tuple[Any, ...], ...]  # of their scopes
    moves: tuple[Any, ...]  # (move, simplex that is moved or None, (group, axis) around the variables)
    states: int  # most states of a discrete variable
    width: int  # most free coordinates of a simplex variable


@record("site state")
class SiteState(NamedTuple):
    """Where the chains are; the last row of each array stands for no variable."""

    states: Any  # (n + 1, chains)
    reals: Any  # (n + 1, chains)
    logits: Any  # (n + 1, chains, width) free coordinates
    scale: Any  # (n + 1,) width of a slice or size of a step
    bad: Any  # (groups,) whether a log-potential was NaN or +inf


class Site(NamedTuple):
    """One block at its turn."""

    members: Any  # (length,) variable positions
    key: Any  # of its random numbers
    sweep: Any  # number of the sweep
    is_warming: Any  # whether moves are tuned
    weigh: Callable[..., Any]  # own values (length, chains, candidates, ...), bad -> log weights, bad
    around: Any  # ((group, axis), factors, slots) for each axis the block is met on
    plan: Any  # arrays of the graph
    domain: Any  # of variables that have several coordinates


def _choose(site: Site, state: SiteState, structure: SiteStructure) -> SiteState:
    length, chains = len(site.members), state.states.shape[1]
    own = jnp.broadcast_to(jnp.arange(structure.states), (length, 1, structure.states))
    weights, bad = site.weigh(own, state.bad)
    is_there = jnp.arange(structure.states) < site.plan["sizes"][site.members][:, None]
    noise = gumbel(site.key, (length, chains, structure.states))
    drawn = jnp.argmax(jnp.where(is_there[:, None], weights + noise, -jnp.inf), axis=-1)
    return state._replace(states=state.states.at[site.members].set(drawn), bad=bad)


def _gauss(site: Site, state: SiteState, structure: SiteStructure) -> SiteState:
    length, chains = len(site.members), state.reals.shape[1]
    total, shift = jnp.zeros(length + 1), jnp.zeros((length + 1, chains))
    for (g, axis), row, slot in site.around:
        J, h = (site.plan["parameters"][g][k][row] for k in (0, 1))
        pull = jnp.broadcast_to(h[:, axis, None], (len(row), chains))
        for k in range(J.shape[1]):
            if k != axis:
                pull = pull - J[:, axis, k, None] * state.reals[site.plan["scopes"][g][row, k]]
        total, shift = total.at[slot].add(J[:, axis, axis]), shift.at[slot].add(pull)
    scale = jnp.where(site.members < len(state.reals) - 1, total[:length], 1.0)[:, None]
    noise = normal(site.key, (length, chains))
    drawn = shift[:length] / scale + noise / jnp.sqrt(scale)
    return state._replace(reals=state.reals.at[site.members].set(drawn))


def _slice_real(site: Site, state: SiteState, structure: SiteStructure) -> SiteState:
    x = state.reals[site.members]

    def weigh(t: Any, bad: Any) -> Any:
        return site.weigh(x[..., None] + t, bad)

    move, bad = slice_moves(weigh, state.scale[site.members], site.key, x.shape, state.bad)
    state = state._replace(reals=state.reals.at[site.members].set(x + move), bad=bad)
    return _tune_width(site, state, move)


def _slice_logits(site: Site, state: SiteState, structure: SiteStructure) -> SiteState:
    mapped = bijection_of(site.domain)
    logits = state.logits[site.members][..., : mapped.free]
    direction = normal(fold(site.key, 1), logits.shape)
    norm = jnp.linalg.norm(direction, axis=-1, keepdims=True)
    direction = direction / jnp.where(norm > 0, norm, 1.0)

    def weigh(t: Any, bad: Any) -> Any:
        own = logits[:, :, None] + t[..., None] * direction[:, :, None]
        weights, bad = site.weigh(own, bad)
        return weights + mapped.log_jacobian(own), bad

    move, bad = slice_moves(weigh, state.scale[site.members], site.key, logits.shape[:2], state.bad)
    new = logits + move[..., None] * direction
    state = state._replace(logits=state.logits.at[site.members, :, : mapped.free].set(new), bad=bad)
    return _tune_width(site, state, move)


def _tune_width(site: Site, state: SiteState, move: Any) -> SiteState:
    """The width follows the mean move over chains and sweeps of the warm-up."""
    old = state.scale[site.members]
    new = old + (_WIDTH * jnp.abs(move).mean(axis=1) - old) / (site.sweep + 2.0)
    new = jnp.where(site.is_warming, jnp.maximum(new, 1e-300), old)
    return state._replace(scale=state.scale.at[site.members].set(new))


def _swap(site: Site, state: SiteState, structure: SiteStructure) -> SiteState:
    x = state.states[site.members]
    sizes = site.plan["sizes"][site.members][:, None]
    one, two = fold(site.key, 0), fold(site.key, 1)
    # Any state, its own included: two states that always swap would never mix.
    other = jnp.minimum((uniform(one, x.shape) * sizes).astype(x.dtype), sizes - 1)
    weights, bad = site.weigh(jnp.stack([x, other], axis=-1), state.bad)
    is_taken = _accept(two, weights)
    return state._replace(states=state.states.at[site.members].set(jnp.where(is_taken, other, x)), bad=bad)


def _walk_real(site: Site, state: SiteState, structure: SiteStructure) -> SiteState:
    x = state.reals[site.members]
    one, two = fold(site.key, 0), fold(site.key, 1)
    other = x + state.scale[site.members][:, None] * normal(one, x.shape)
    weights, bad = site.weigh(jnp.stack([x, other], axis=-1), state.bad)
    is_taken = _accept(two, weights)
    state = state._replace(reals=state.reals.at[site.members].set(jnp.where(is_taken, other, x)), bad=bad)
    return _tune_step(site, state, is_taken, _ACCEPT_ONE)


def _walk_logits(site: Site, state: SiteState, structure: SiteStructure) -> SiteState:
    mapped = bijection_of(site.domain)
    x = state.logits[site.members][..., : mapped.free]
    one, two = fold(site.key, 0), fold(site.key, 1)
    noise = normal(one, x.shape)
    own = jnp.stack([x, x + state.scale[site.members][:, None, None] * noise], axis=2)
    weights, bad = site.weigh(own, state.bad)
    is_taken = _accept(two, weights + mapped.log_jacobian(own))
    new = jnp.where(is_taken[..., None], own[:, :, 1], x)
    state = state._replace(logits=state.logits.at[site.members, :, : mapped.free].set(new), bad=bad)
    return _tune_step(site, state, is_taken, _ACCEPT_MANY)


def _accept(key: Any, weights: Any) -> Any:
    """Whether the second candidate replaces the first."""
    return -exponential(key, weights.shape[:2]) < weights[..., 1] - weights[..., 0]


def _tune_step(site: Site, state: SiteState, is_taken: Any, wanted: float) -> SiteState:
    old = state.scale[site.members]
    rate = (site.sweep + 1.0) ** -0.6
    new = old * jnp.exp(rate * (is_taken.mean(axis=1) - wanted))
    return state._replace(scale=state.scale.at[site.members].set(jnp.where(site.is_warming, new, old)))


MOVES: dict[str, Callable[..., SiteState]] = {
    "choose": _choose,
    "gauss": _gauss,
    "slice": _slice_real,
    "slice logits": _slice_logits,
    "swap": _swap,
    "walk": _walk_real,
    "walk logits": _walk_logits,
}
