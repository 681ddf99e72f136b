"""Runs the optimisation for many problems of one structure; the only door to JAX in this folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from ...core.records import record
from ...core.result import Status
from ...core.stopwatch import Stopwatch
from ...nn.arrays import precision
from ...nn.optimise import Carry, CompiledAdam, Minimised, minimise
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.run import Budget, Run
from .network import BeliefNetwork, Logits, Shared, change, objective
from .plan import NetworkPlan
from .region_system import RegionSystem

__all__ = ["NetworkStart", "SolvedNetwork", "solve", "starts_of"]

_MEMORY = 2**30  # bytes of parameters, gradients and moments held at once
_LAST_RATE = 0.1  # of the last round, relative to the first


@dataclass(frozen=True)
class SolvedNetwork:
    """What was found for one problem from one start."""

    roots: np.ndarray  # beliefs of the entries of the roots
    parameters: Any  # tree of arrays
    history: dict[str, np.ndarray]  # metric -> one number per step
    multiplier: np.ndarray  # of the disagreements
    residual: float  # at the last step
    stopped: bool  # whether it converged, or the change fell below `stop`
    cut: Status | None  # what ended it early: a signal, the clock, or nothing
    compile_seconds: float  # of the whole batch, noted at its first problem


Problems = Sequence[tuple[np.ndarray, np.ndarray]]  # energies and possible entries


class NetworkStart(NamedTuple):
    """Where a run begins."""

    parameters: Any  # tree of arrays
    multiplier: np.ndarray | None = None  # of the disagreements; None for zeros


def starts_of(
    system: RegionSystem, variables: int, plan: NetworkPlan, rng: np.random.Generator
) -> NetworkStart:
    """Parameters to start from."""
    kind = np.float64 if plan.double else np.float32
    if plan.layers == (0, 0):
        return NetworkStart(Logits(system.buckets, rng, kind))
    return NetworkStart(BeliefNetwork(system.buckets, variables, plan.width, plan.layers, rng, kind))


def solve(
    system: RegionSystem, problems: Problems, starts: Sequence[NetworkStart], plan: NetworkPlan
) -> list[SolvedNetwork]:
    """Minimise the objective of each problem from the start of the same number."""
    size = sum(x.nbytes for x in jax.tree.leaves(starts[0]))
    groups = -(-len(problems) * 5 * size // _MEMORY)
    each = -(-len(problems) // max(1, min(groups, len(problems))))
    found: list[SolvedNetwork] = []
    with precision(plan.double) as kind:
        shared = Shared.of(system, plan.penalty, kind)
        begins, spent = range(0, len(problems), each), 0.0
        for turn, first in enumerate(begins):
            # The last group is filled up: one program serves all groups.
            members = [min(k, len(problems) - 1) for k in range(first, first + each)]
            data = _data(system, [problems[k] for k in members], [starts[k] for k in members], kind)
            stacked = _stack([starts[k].parameters for k in members], kind)
            left = None if plan.seconds is None else (plan.seconds - spent) / (len(begins) - turn)
            fit, multiplier = _fit(stacked, data, shared, replace(plan, seconds=left), system)
            found += _split(fit, multiplier, min(each, len(problems) - first))
            spent += fit.seconds
            if fit.cut is Status.INTERRUPTED:
                break
    return _complete(found, system, problems, starts)


@record("multipliers")
class _MultiplierRound(NamedTuple):
    """Where the method of multipliers has come to."""

    carry: Carry
    multiplier: np.ndarray  # (problems, edges' entries)
    ends: np.ndarray  # (problems,) steps of those that have converged
    number: int = 0  # of the round
    taken: int = 0  # steps of it
    done: int = 0  # steps of all rounds


class _MultiplierRounds:
    """The method of multipliers as the driver sees it: rounds of steps, after each y <- y + 2 penalty r."""

    def __init__(self, adam: CompiledAdam, system: RegionSystem, plan: NetworkPlan) -> None:
        self._adam, self._system, self._plan, self.name = adam, system, plan, plan.name

    def advance(self, problem: tuple[Any, Any], state: _MultiplierRound, run: Run) -> Step:
        data, shared = problem
        carry = state.carry if state.taken else self._adam.again(state.carry)
        left = self._length(state.number) - state.taken
        data = {**data, "multiplier": state.multiplier}
        carry, history = self._adam.advance(
            carry, data, shared, self._rate(state.number), run, left, ~self._adam.has_converged(carry)
        )
        taken = len(history["change"])
        has_converged = self._adam.has_converged(carry)
        ends = np.where(has_converged, state.ends, state.done + taken)
        for k in np.flatnonzero(has_converged & ~self._adam.has_converged(state.carry)):
            ends[k] = state.done + int(carry.steps[k] - state.carry.steps[k])
        new = state._replace(carry=carry, ends=ends, taken=state.taken + taken, done=state.done + taken)
        if taken == left or not np.asarray(carry.active).any():
            new = self._next(new, has_converged)
        return Step(new, self._adam.residuals(carry, history), history)

    def read(self, problem: tuple[Any, Any], outcome: Outcome) -> tuple[Minimised, np.ndarray]:
        state, cut = outcome.state, outcome.status if outcome.was_stopped else None
        fit = self._adam.read(state.carry, outcome.trace, cut)
        return replace(fit, steps=state.ends, stopped=self._adam.has_converged(state.carry)), state.multiplier

    def _next(self, state: _MultiplierRound, has_converged: np.ndarray) -> _MultiplierRound:
        """The start of the next round."""
        watched = np.asarray(state.carry.watched).astype(np.float64)
        r = np.stack([self._system.disagreement @ b for b in watched])
        r[has_converged] = 0.0
        multiplier = (state.multiplier + 2 * self._plan.penalty * r).astype(state.multiplier.dtype)
        return state._replace(multiplier=multiplier, number=state.number + 1, taken=0)

    def _length(self, number: int) -> int:
        each, more = divmod(self._plan.steps, self._plan.rounds)
        return each + (number < more)

    def _rate(self, number: int) -> float:
        """Large steps first, small ones at the end, where Adam would otherwise keep jumping about."""
        return self._plan.rate * _LAST_RATE ** min(number / max(self._plan.rounds - 1, 1), 1.0)


def _fit(
    parameters: Any, data: Any, shared: Any, plan: NetworkPlan, system: RegionSystem
) -> tuple[Minimised, np.ndarray]:
    """Steps of one rate, or rounds of them with multipliers; what was found, and the multipliers."""
    if plan.rounds > 1:
        return _fit_rounds(parameters, data, shared, plan, system)
    fit = minimise(
        objective,
        change,
        parameters,
        data,
        shared,
        steps=plan.steps,
        rate=plan.rate,
        stop=plan.stop,
        tol=plan.tol,
        seconds=plan.seconds,
        name=plan.name,
    )
    return fit, data["multiplier"]


def _fit_rounds(
    parameters: Any, data: Any, shared: Any, plan: NetworkPlan, system: RegionSystem
) -> tuple[Minimised, np.ndarray]:
    adam = CompiledAdam(objective, change, parameters, stop=plan.stop, tol=plan.tol)
    first = adam.first(data, shared)
    adam.prepare(first, data, shared)
    watch, budget = Stopwatch(), Budget(plan.steps, adam.tol_of(first), plan.seconds)
    state = _MultiplierRound(first, data["multiplier"], np.zeros(len(first.active), np.int64))
    fit, multiplier = drive(_MultiplierRounds(adam, system, plan), (data, shared), budget, state=state)
    return replace(fit, seconds=watch.seconds, compile_seconds=adam.compile_seconds), multiplier


def _data(
    system: RegionSystem, problems: Problems, starts: Sequence[NetworkStart], kind: Any
) -> dict[str, Any]:
    none = np.zeros(system.disagreement.shape[0])
    given = [none if start.multiplier is None else start.multiplier for start in starts]
    return {
        "energy": np.stack([energy for energy, _ in problems]).astype(kind),
        "possible": np.stack([possible for _, possible in problems]),
        "multiplier": np.stack(given).astype(kind),
    }


def _stack(trees: Sequence[Any], kind: Any) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves).astype(kind), *trees)


def _split(fit: Minimised, multiplier: np.ndarray, count: int) -> list[SolvedNetwork]:
    parameters = jax.tree.map(np.asarray, fit.parameters)
    found = []
    for k in range(count):
        taken = int(fit.steps[k])
        found.append(
            SolvedNetwork(
                fit.watched[k].astype(np.float64),
                jax.tree.map(lambda leaf, k=k: leaf[k], parameters),
                {name: values[:taken, k].astype(np.float64) for name, values in fit.history.items()},
                np.asarray(multiplier[k]),
                float(fit.residuals[k]),
                bool(fit.stopped[k]),
                fit.cut,
                fit.compile_seconds if k == 0 else 0.0,
            )
        )
    return found


def _complete(
    found: list[SolvedNetwork], system: RegionSystem, problems: Problems, starts: Sequence[NetworkStart]
) -> list[SolvedNetwork]:
    """Problems that Ctrl-C left untouched hold no beliefs; readers take these as uniform."""
    none, y = np.zeros(system.n_entries), np.zeros(system.disagreement.shape[0])
    for k in range(len(found), len(problems)):
        found.append(
            SolvedNetwork(none, starts[k].parameters, {}, y, UNKNOWN, False, Status.INTERRUPTED, 0.0)
        )
    return found
