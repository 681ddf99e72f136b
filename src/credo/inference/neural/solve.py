"""Runs the optimisation for many problems of one structure; the only door to JAX in this folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from ...nn.arrays import precision
from ...nn.optimise import Fit, minimise
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
    interrupted: bool  # by Ctrl-C
    out_of_time: bool  # whether the clock ended it
    seconds: float  # share of the steps' time
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
            if fit.interrupted:
                break
    return _completed(found, system, problems, starts)


def solve_constrained(
    system: RegionSystem, problems: Problems, starts: Sequence[Any], plan: Plan
) -> list[Found]:
    """The method of multipliers: rounds of steps, after each y <- y + 2 penalty r."""
    each, more = divmod(plan.steps, plan.rounds)
    with precision(plan.double) as kind:
        shared = Shared.of(system, plan.penalty, kind)
        data = _data(system, problems, kind)
        parts: list[Fit] = []
        stacked, carry = _stack(starts, kind), None
        for k in range(plan.rounds):
            # Large steps first, small ones at the end, where Adam would otherwise keep jumping about.
            rate = plan.rate * _LAST_RATE ** (k / max(plan.rounds - 1, 1))
            before = sum(len(part.history.get("change", ())) for part in parts)
            left = None if plan.seconds is None else plan.seconds - sum(p.seconds for p in parts)
            own = replace(plan, steps=each + (k < more), rate=rate, seconds=left, report=_from(before, plan))
            fit = _fit(stacked, data, shared, own, carry)
            parts.append(fit)
            carry = fit.carry
            r = np.stack([system.disagreement @ b for b in fit.watched.astype(np.float64)])
            data["multiplier"] = (data["multiplier"] + 2 * plan.penalty * r).astype(kind)
            agreed = np.abs(r).max(axis=1, initial=0) < _AGREED
            if fit.interrupted or fit.out_of_time or (agreed & fit.stopped).all():
                break
        history = {
            name: np.concatenate([part.history[name] for part in parts if name in part.history])
            for name in parts[-1].history
        }
    last = parts[-1]
    taken = max((len(values) for values in history.values()), default=0)
    whole = Fit(
        last.parameters,
        last.watched,
        history,
        np.full(len(problems), taken),
        agreed & last.stopped,
        last.interrupted,
        last.out_of_time,
        sum(part.seconds for part in parts),
        sum(part.compile_seconds for part in parts),
        None,
    )
    return _split(whole, len(problems))


def _from(before: int, plan: Plan) -> Callable[[int, dict[str, np.ndarray]], None]:
    """The report of a later round, which counts the steps of the earlier ones."""
    return lambda done, row: plan.report(before + done, row)


def _fit(parameters: Any, data: Any, shared: Any, plan: Plan, carry: Any = None) -> Fit:
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
        report=plan.report,
        carry=carry,
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
                fit.interrupted,
                fit.out_of_time,
                fit.seconds / count,
                fit.compile_seconds if k == 0 else 0.0,
            )
        )
    return found


def _completed(found: list[Found], system: RegionSystem, problems: Problems, starts: Any) -> list[Found]:
    """Problems that Ctrl-C left untouched hold no beliefs; readers take these as uniform."""
    for k in range(len(found), len(problems)):
        found.append(Found(np.zeros(system.n_entries), starts[k], {}, False, True, False, 0.0, 0.0))
    return found
