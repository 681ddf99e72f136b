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
from .region_system import RegionSystem

__all__ = ["Found", "Settings", "solve", "solve_constrained"]

_MEMORY = 2**30  # bytes of parameters, gradients and moments held at once
_AGREED = 1e-5  # largest disagreement of regions at which multipliers have done their work
_LAST_RATE = 0.1  # of the last round, relative to the first


@dataclass(frozen=True)
class Settings:
    """What a run needs to know, apart from the problems."""

    width: int  # numbers per variable
    layers: tuple[int, int]  # attention, residual; (0, 0): free logits
    penalty: float  # weight of the squared disagreement
    steps: int  # most steps, of all rounds together
    rate: float  # of Adam
    stop: float  # mean squared change that ends the steps
    double: bool  # precision
    seconds: float | None  # most wall time of the steps
    report: Callable[[int, dict[str, np.ndarray]], None]  # told after each chunk of steps
    rounds: int = 1  # of multipliers


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


def starts_of(system: RegionSystem, variables: int, settings: Settings, rng: np.random.Generator) -> Any:
    """Parameters to start from."""
    kind = np.float64 if settings.double else np.float32
    if settings.layers == (0, 0):
        return Logits(system.buckets, rng, kind)
    return Network(system.buckets, variables, settings.width, settings.layers, rng, kind)


def solve(system: RegionSystem, problems: Problems, starts: Sequence[Any], settings: Settings) -> list[Found]:
    """Minimise the objective of each problem from the start of the same number."""
    size = sum(x.nbytes for x in jax.tree.leaves(starts[0]))
    groups = -(-len(problems) * 5 * size // _MEMORY)
    each = -(-len(problems) // max(1, min(groups, len(problems))))
    found: list[Found] = []
    with precision(settings.double) as kind:
        shared = Shared.of(system, settings.penalty, kind)
        for first in range(0, len(problems), each):
            # The last group is filled up: one program serves all groups.
            members = [min(k, len(problems) - 1) for k in range(first, first + each)]
            data = _data(system, [problems[k] for k in members], kind)
            stacked = _stack([starts[k] for k in members], kind)
            fit = _fit(stacked, data, shared, settings)
            found += _split(fit, min(each, len(problems) - first))
            if fit.interrupted:
                break
    return _completed(found, system, problems, starts)


def solve_constrained(
    system: RegionSystem, problems: Problems, starts: Sequence[Any], settings: Settings
) -> list[Found]:
    """The method of multipliers: rounds of steps, after each y <- y + 2 penalty r."""
    each, more = divmod(settings.steps, settings.rounds)
    with precision(settings.double) as kind:
        shared = Shared.of(system, settings.penalty, kind)
        data = _data(system, problems, kind)
        parts: list[Fit] = []
        stacked, carry = _stack(starts, kind), None
        for k in range(settings.rounds):
            # Large steps first, small ones at the end, where Adam would otherwise keep jumping about.
            rate = settings.rate * _LAST_RATE ** (k / max(settings.rounds - 1, 1))
            before = sum(len(part.history.get("change", ())) for part in parts)
            left = None if settings.seconds is None else settings.seconds - sum(p.seconds for p in parts)
            own = replace(
                settings, steps=each + (k < more), rate=rate, seconds=left, report=_from(before, settings)
            )
            fit = _fit(stacked, data, shared, own, carry)
            parts.append(fit)
            carry = fit.carry
            r = np.stack([system.disagreement @ b for b in fit.watched.astype(np.float64)])
            data["multiplier"] = (data["multiplier"] + 2 * settings.penalty * r).astype(kind)
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


def _from(before: int, settings: Settings) -> Callable[[int, dict[str, np.ndarray]], None]:
    """The report of a later round, which counts the steps of the earlier ones."""
    return lambda done, row: settings.report(before + done, row)


def _fit(parameters: Any, data: Any, shared: Any, settings: Settings, carry: Any = None) -> Fit:
    return minimise(
        objective,
        change,
        parameters,
        data,
        shared,
        steps=settings.steps,
        rate=settings.rate,
        stop=settings.stop,
        seconds=settings.seconds,
        report=settings.report,
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
