"""Runs the optimisation for many problems of one structure; the only door to JAX in this folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from ...core.result import Status
from ...nn.arrays import precision
from ...nn.optimise import Adam, Carry, Fit, minimise
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.run import Budget, Run
from .network import Logits, Network, Shared, change, objective
from .plan import Plan
from .region_system import RegionSystem

__all__ = ["Found", "solve", "solve_constrained"]

_MEMORY = 2**30  # bytes of parameters, gradients and moments held at once
_AGREED = 1e-5  # largest disagreement of regions at which multipliers have done their work
_LAST_RATE = 0.1  # of the last round, relative to the first


@dataclass(frozen=True)
class Found:
    """What was found for one problem from one start."""

    roots: np.ndarray  # beliefs of the entries of the roots
    parameters: Any  # tree of arrays
    history: dict[str, np.ndarray]  # metric -> one number per step
    stopped: bool  # whether the change fell below `stop`
    cut: Status | None  # what ended it early: a signal, the clock, or nothing
    compile_seconds: float  # of the whole batch, noted at its first problem


Problems = Sequence[tuple[np.ndarray, np.ndarray]]  # energies and possible entries


def starts_of(system: RegionSystem, variables: int, plan: Plan, rng: np.random.Generator) -> Any:
    """Parameters to start from."""
    kind = np.float64 if plan.double else np.float32
    if plan.layers == (0, 0):
        return Logits(system.buckets, rng, kind)
    return Network(system.buckets, variables, plan.width, plan.layers, rng, kind)


def solve(system: RegionSystem, problems: Problems, starts: Sequence[Any], plan: Plan) -> list[Found]:
    """Minimise the objective of each problem from the start of the same number."""
    size = sum(x.nbytes for x in jax.tree.leaves(starts[0]))
    groups = -(-len(problems) * 5 * size // _MEMORY)
    each = -(-len(problems) // max(1, min(groups, len(problems))))
    found: list[Found] = []
    with precision(plan.double) as kind:
        shared = Shared.of(system, plan.penalty, kind)
        begins, spent = range(0, len(problems), each), 0.0
        for turn, first in enumerate(begins):
            # The last group is filled up: one program serves all groups.
            members = [min(k, len(problems) - 1) for k in range(first, first + each)]
            data = _data(system, [problems[k] for k in members], kind)
            stacked = _stack([starts[k] for k in members], kind)
            left = None if plan.seconds is None else (plan.seconds - spent) / (len(begins) - turn)
            fit = _fit(stacked, data, shared, replace(plan, seconds=left))
            found += _split(fit, min(each, len(problems) - first))
            spent += fit.seconds
            if fit.cut is Status.INTERRUPTED:
                break
    return _completed(found, system, problems, starts)


def solve_constrained(
    system: RegionSystem, problems: Problems, starts: Sequence[Any], plan: Plan
) -> list[Found]:
    """The method of multipliers: rounds of steps, after each y <- y + 2 penalty r."""
    with precision(plan.double) as kind:
        shared = Shared.of(system, plan.penalty, kind)
        data = _data(system, problems, kind)
        adam = Adam(objective, change, _stack(starts, kind), stop=plan.stop)
        first = adam.first(data, shared)
        compiling = adam.prepare(first, data, shared)
        budget = Budget(plan.steps, _AGREED, plan.seconds)
        rounds = _Rounds(adam, system, plan)
        state = _Round(first, data["multiplier"])
        fit = drive(rounds, (data, shared), budget, state=state)
    return _split(replace(fit, compile_seconds=compiling), len(problems))


class _Round(NamedTuple):
    """Where the method of multipliers has come to."""

    carry: Carry
    multiplier: np.ndarray  # (problems, edges' entries)
    number: int = 0  # of the round
    taken: int = 0  # steps of it


class _Rounds:
    """Rounds as the driver sees them; the residual, known at the end of one, is the largest disagreement."""

    def __init__(self, adam: Adam, system: RegionSystem, plan: Plan) -> None:
        self._adam, self._system, self._plan, self.name = adam, system, plan, plan.name

    def advance(self, problem: tuple[Any, Any], state: _Round, run: Run) -> Step:
        data, shared = problem
        carry = state.carry if state.taken else self._adam.again(state.carry)
        left = self._length(state.number) - state.taken
        data = {**data, "multiplier": state.multiplier}
        carry, history = self._adam.advance(carry, data, shared, self._rate(state.number), run, left)
        done = len(history["change"])
        residuals = np.full(done, UNKNOWN)
        new = state._replace(carry=carry, taken=state.taken + done)
        is_settled = not np.asarray(carry.active).any()
        if is_settled or done == left:
            new, apart = self._next(new)
            residuals[-1] = apart if is_settled and np.isfinite(apart) else UNKNOWN
        return Step(new, residuals, history)

    def read(self, problem: tuple[Any, Any], outcome: Outcome) -> Fit:
        fit = self._adam.read(
            outcome.state.carry, outcome.trace, outcome.status if outcome.was_stopped else None
        )
        agreed = np.abs(self._apart(outcome.state.carry)).max(axis=1, initial=0) < _AGREED
        taken = np.full(len(agreed), len(outcome.residuals))
        return replace(fit, steps=taken, stopped=agreed & fit.stopped)

    def _next(self, state: _Round) -> tuple[_Round, float]:
        """The start of the next round, and the largest disagreement."""
        r = self._apart(state.carry)
        kind = state.multiplier.dtype
        multiplier = (state.multiplier + 2 * self._plan.penalty * r).astype(kind)
        return _Round(state.carry, multiplier, state.number + 1), float(np.abs(r).max(initial=0))

    def _apart(self, carry: Carry) -> np.ndarray:
        watched = np.asarray(carry.watched).astype(np.float64)
        return np.stack([self._system.disagreement @ b for b in watched])

    def _length(self, number: int) -> int:
        each, more = divmod(self._plan.steps, self._plan.rounds)
        return each + (number < more)

    def _rate(self, number: int) -> float:
        """Large steps first, small ones at the end, where Adam would otherwise keep jumping about."""
        return self._plan.rate * _LAST_RATE ** min(number / max(self._plan.rounds - 1, 1), 1.0)


def _fit(parameters: Any, data: Any, shared: Any, plan: Plan) -> Fit:
    return minimise(
        objective,
        change,
        parameters,
        data,
        shared,
        steps=plan.steps,
        rate=plan.rate,
        stop=plan.stop,
        seconds=plan.seconds,
        name=plan.name,
    )


def _data(system: RegionSystem, problems: Problems, kind: Any) -> dict[str, np.ndarray]:
    return {
        "energy": np.stack([energy for energy, _ in problems]).astype(kind),
        "possible": np.stack([possible for _, possible in problems]),
        "multiplier": np.zeros((len(problems), system.disagreement.shape[0]), kind),
    }


def _stack(trees: Sequence[Any], kind: Any) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves).astype(kind), *trees)


def _split(fit: Fit, count: int) -> list[Found]:
    parameters = jax.tree.map(np.asarray, fit.parameters)
    found = []
    for k in range(count):
        taken = int(fit.steps[k])
        found.append(
            Found(
                fit.watched[k].astype(np.float64),
                jax.tree.map(lambda leaf, k=k: leaf[k], parameters),
                {name: values[:taken, k].astype(np.float64) for name, values in fit.history.items()},
                bool(fit.stopped[k]),
                fit.cut,
                fit.compile_seconds if k == 0 else 0.0,
            )
        )
    return found


def _completed(found: list[Found], system: RegionSystem, problems: Problems, starts: Any) -> list[Found]:
    """Problems that Ctrl-C left untouched hold no beliefs; readers take these as uniform."""
    for k in range(len(found), len(problems)):
        found.append(Found(np.zeros(system.n_entries), starts[k], {}, False, Status.INTERRUPTED, 0.0))
    return found
