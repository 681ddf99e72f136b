"""One variable after another on graphs with continuous variables, compiled: `gibbs` and `metropolis`.

Variables that share no factor move together, in all chains at once. Given the others, the log weight of a
value is the sum of the factors around the variable; `site_moves` says what is done with it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core.bijections import bijection_of
from ...core.domain import Discrete, Real, Simplex
from ...core.errors import ModelError
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...nn.arrays import precision
from ...nn.compiled import Compiled
from ...nn.hashed_random import fold, key_of
from ..problem.colour_blocks import ColourBlocks, colour_blocks
from ..problem.gaussian_system import gaussian_only, no_integral
from ..problem.potentials import group_function
from .draws import Draws
from .site_moves import MOVES, Site, SiteState, SiteStructure

__all__ = ["SiteEngine"]

_CHUNK = 50  # sweeps of one call


@record("site chains", kept=("_state", "_turn"))
class SiteEngine:
    """Chains on a graph, moved variable by variable.

    Parameters
    ----------
    graph
        Any graph.
    moves
        The move for discrete, real and simplex variables.
    starts
        One draw per chain.
    scale
        First sizes of the moves, one per variable.
    warmup
        Sweeps during which moves are tuned.
    seed
        Of the random numbers.
    """

    chunk = _CHUNK

    def __init__(
        self,
        graph: FactorGraph,
        moves: tuple[str, str, str],
        starts: Draws,
        scale: np.ndarray,
        warmup: int,
        seed: int,
    ) -> None:
        self._graph, self._warmup, self._seed = graph, warmup, seed
        self._structure, self._plan = _make_plan(graph, moves)
        self._scale = scale
        self.begin(starts, 0)

    def begin(self, starts: Draws, turn: int) -> None:
        """Put the chains at other points, untuned."""
        self._turn = turn
        self._state = _make_state(self._graph, starts, self._scale, self._structure.width)

    def advance(self, first: int, count: int) -> Draws:
        """Do sweeps number first, first + 1, ... and return the state after each."""
        with precision(double=True):
            seed = np.uint32((self._seed + self._turn) % 2**32)
            numbers = (seed, np.int64(first), np.int64(count), np.int64(self._warmup))
            self._state, kept = _ADVANCE(
                self._state, self._plan, *numbers, structure=self._structure, chunk=self.chunk
            )
            self._refuse_bad()
            return self._draws(*(np.asarray(k)[:count] for k in kept))

    def current(self) -> Draws:
        """The state of every chain, as one draw."""
        state = self._state
        with precision(double=True):
            logs = _HEIGHT(state, self._plan, structure=self._structure)
        return self._draws(*(np.asarray(k)[None] for k in (state.states, state.reals, state.logits, logs)))

    def divergences(self) -> int:
        """Zero: sites are drawn one by one, along no trajectory."""
        return 0

    def notes(self) -> list[str]:
        """No sentences about a run of these moves."""
        return []

    def _refuse_bad(self) -> None:
        reals = np.asarray(self._state.reals)
        if not np.isfinite(reals).all():
            name = self._graph.variables.names[int((~np.isfinite(reals)).any(axis=1).argmax())]
            raise no_integral(f"the draws of '{name}' leave the range of numbers")
        bad = np.flatnonzero(np.asarray(self._state.bad))
        if len(bad):
            factor = self._graph.factors[int(self._graph.batches[bad[0]].factors[0])]
            raise ModelError(
                f"factor over {list(factor.names)}, or another of the same function: log-potentials must be "
                "numbers below inf, got NaN, inf or an error at a point the sampler tried"
            )

    def _draws(self, states: np.ndarray, reals: np.ndarray, logits: np.ndarray, logs: np.ndarray) -> Draws:
        variables = self._graph.variables
        found = np.full((states.shape[2], len(states), len(variables)), -1, dtype=np.int64)
        values = {}
        for i, (name, domain) in enumerate(zip(variables.names, variables.domains, strict=True)):
            if isinstance(domain, Discrete):
                found[:, :, i] = states[:, i].T
            elif isinstance(domain, Real):
                values[name] = reals[:, i].T
            else:
                own = bijection_of(domain)
                values[name] = own.inverse(np.swapaxes(logits[:, i, :, : own.free], 0, 1))
        return Draws(found, values, logs.T)


def _make_state(graph: FactorGraph, starts: Draws, scale: np.ndarray, width: int) -> SiteState:
    n, chains = len(graph.variables), len(starts.states)
    states, reals = np.zeros((n + 1, chains), dtype=np.int64), np.zeros((n + 1, chains))
    logits = np.zeros((n + 1, chains, width))
    states[:n] = np.maximum(starts.states[:, 0].T, 0)
    for i, v in enumerate(graph.variables):
        if isinstance(v.domain, Real):
            reals[i] = starts.values[v.name][:, 0]
        elif isinstance(v.domain, Simplex):
            own = bijection_of(v.domain)
            logits[i, :, : own.free] = own.forward(starts.values[v.name][:, 0])
    return SiteState(states, reals, logits, np.append(scale, 1.0), np.zeros(len(graph.batches), dtype=bool))


def _make_plan(graph: FactorGraph, moves: tuple[str, str, str]) -> tuple[SiteStructure, dict[str, Any]]:
    """The program's constants, and its arrays."""
    kinds = _kinds(graph, moves)
    chosen = {kind: np.array([k == kind for k in kinds], dtype=bool) for kind in dict.fromkeys(kinds)}
    blocks = {kind: colour_blocks(graph, flags) for kind, flags in chosen.items()}
    simplices = [d for d in graph.variables.continuous if isinstance(d, Simplex)]
    structure = SiteStructure(
        tuple(group_function(group) for group in graph.batches),
        tuple(group.domains for group in graph.batches),
        tuple((*kind, tuple((m.group, m.axis) for m in b.meetings)) for kind, b in blocks.items()),
        int(graph.variables.sizes.max(initial=0)),
        max((bijection_of(d).free for d in simplices), default=0),
    )
    plan = {
        "scopes": tuple(group.scopes for group in graph.batches),
        "parameters": tuple(group.parameters for group in graph.batches),
        "blocks": tuple(_arrays(b) for b in blocks.values()),
        "sizes": np.append(graph.variables.sizes, 1),
    }
    return structure, plan


def _arrays(blocks: ColourBlocks) -> dict[str, Any]:
    return {
        "members": blocks.members,
        "rows": tuple(m.rows for m in blocks.meetings),
        "slots": tuple(m.slots for m in blocks.meetings),
    }


def _kinds(graph: FactorGraph, moves: tuple[str, str, str]) -> list[tuple[str, Simplex | None]]:
    """The move of every variable, the one asked for, and what is moved along several coordinates."""
    discrete, real, simplex = moves
    gaussian = gaussian_only(graph)
    found: list[tuple[str, Simplex | None]] = []
    for i, v in enumerate(graph.variables):
        if v.is_discrete:
            found.append((discrete, None))
        elif isinstance(v.domain, Simplex):
            found.append((f"{simplex} logits", v.domain))
        else:
            found.append(("gauss" if gaussian[i] and real == "slice" else real, None))
    return found


def _advance(
    state: SiteState,
    plan: Any,
    seed: Any,
    first: jax.Array,
    limit: jax.Array,
    warmup: Any,
    *,
    structure: SiteStructure,
    chunk: int,
) -> jax.Array:
    """Sweeps, and what the chains were after each of them."""
    key = key_of(seed)

    def sweep(k: jax.Array, carry: Any) -> tuple[Any, tuple[Any, ...]]:
        state, kept = carry
        own = fold(key, first + k)
        for number in range(len(structure.moves)):
            state = _move(number, state, plan, structure, fold(own, number), first + k, warmup)
        now = (state.states, state.reals, state.logits, _height(state, plan, structure=structure))
        return state, tuple(all_.at[k].set(one) for all_, one in zip(kept, now, strict=True))

    now = (state.states, state.reals, state.logits, jnp.zeros(state.reals.shape[1]))
    kept = tuple(jnp.zeros((chunk, *x.shape), x.dtype) for x in now)
    return jax.lax.fori_loop(0, limit, sweep, (state, kept))


def _height(state: SiteState, plan: Any, *, structure: SiteStructure) -> jax.Array:
    """Sum of all log-potentials, per chain."""
    total = jnp.zeros(state.reals.shape[1])
    for g, function in enumerate(structure.functions):
        scopes = plan["scopes"][g]
        columns = [_current(state, d, scopes[:, k]) for k, d in enumerate(structure.domains[g])]
        values = function(columns, plan["parameters"][g])
        total = total + jnp.broadcast_to(values, (len(scopes), len(total), 1)).sum(axis=(0, 2))
    return total


_ADVANCE, _HEIGHT = Compiled(_advance), Compiled(_height)


def _move(
    number: int,
    state: SiteState,
    plan: Any,
    structure: SiteStructure,
    key: jax.Array,
    sweep: Any,
    warmup: Any,
) -> SiteState:
    move, domain, met = structure.moves[number]
    arrays = plan["blocks"][number]

    def one(b: Any, state: SiteState) -> SiteState:
        members = arrays["members"][b]
        rows, slots = ([x[b] for x in arrays[name]] for name in ("rows", "slots"))

        def weigh(own: jax.Array, bad: Any) -> tuple[jax.Array, Any]:
            return _weights(own, bad, state, plan, structure, met, rows, slots)

        around = tuple(zip(met, rows, slots, strict=True))
        site = Site(members, fold(key, b), sweep, sweep < warmup, weigh, around, plan, domain)
        return MOVES[move](site, state, structure)

    return jax.lax.fori_loop(0, len(arrays["members"]), one, state)


def _current(state: SiteState, domain: Any, at: jax.Array) -> jax.Array:
    """Values of variables, with an axis for candidates."""
    if isinstance(domain, Discrete):
        return state.states[at][..., None]
    if isinstance(domain, Real):
        return state.reals[at][..., None]
    own = bijection_of(domain)
    return own.inverse(state.logits[at][..., : own.free])[:, :, None]


def _weights(
    own: jax.Array,
    bad: Any,
    state: SiteState,
    plan: Any,
    structure: SiteStructure,
    met: Any,
    rows: Any,
    slots: Any,
) -> tuple[jax.Array, Any]:
    """Sum of the log-potentials around each variable of a block, (length, chains, candidates)."""
    length = own.shape[0]
    own = jnp.concatenate([own, own[:1]])
    shape = (length + 1, state.reals.shape[1], own.shape[2])
    total = jnp.zeros(shape)
    for (g, axis), row, slot in zip(met, rows, slots, strict=True):
        columns = []
        for k, domain in enumerate(structure.domains[g]):
            if k != axis:
                columns.append(_current(state, domain, plan["scopes"][g][row, k]))
            elif isinstance(domain, Discrete):
                columns.append(jnp.minimum(own[slot], domain.size - 1))
            elif isinstance(domain, Real):
                columns.append(own[slot])
            else:
                columns.append(bijection_of(domain).inverse(own[slot]))
        values = structure.functions[g](columns, tuple(p[row] for p in plan["parameters"][g]))
        values = jnp.broadcast_to(values, (len(row), *shape[1:]))
        is_wrong = ~(values < jnp.inf) & (slot < length)[:, None, None]
        bad = bad.at[g].set(bad[g] | is_wrong.any())
        total = total.at[slot].add(jnp.where(is_wrong, -jnp.inf, values))
    return total[:length], bad
