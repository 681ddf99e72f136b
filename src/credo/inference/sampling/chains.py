"""What all samplers share: options, the loop over sweeps, and reading an answer from the draws.

A sampler advances several chains at once; the sweeps of the warm-up tune it and are thrown away. Marginals
are frequencies of states and weighted points of continuous variables, all draws with equal weight. The run
has converged when R-hat of every variable is below 1.05 (see `diagnostics`); the trace holds R-hat, the
effective sample size and the standard error of each unobserved variable, in the order of the model: for a
discrete variable those of the worst of its states, for a simplex variable of the worst coordinate.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ...core import check
from ...core.belief import Density
from ...core.errors import TooLargeError
from ...core.records import record
from ...core.result import Marginals, Result, Samples, Status
from ...core.variable import Variables
from ...families.densities import ParticleDensity, SimplexParticleDensity
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.pace import Pace
from ...optimise.run import Run
from ..base import Algorithm, Budget, Problem
from ..located import Places
from ..starting_places import starting_places
from .diagnostics import Diagnosis, diagnose

__all__ = ["Draws", "Engine", "Sampler", "Still", "read"]

AGREED = 1.05  # R-hat below which chains agree
_MEMORY = 2**32  # bytes of draws that are kept
_BATCH = 2**23  # flags diagnosed at once
_TOGETHER = 2**17  # numbers diagnosed at once


@record("draws")
class Draws(NamedTuple):
    """Draws of several chains."""

    states: np.ndarray  # (chains, draws, n) state indices, -1 for continuous variables
    values: dict[str, np.ndarray]  # name of a continuous variable -> (chains, draws) or (..., width)


class Engine(Protocol):
    """Chains that can be moved on."""

    @property
    def chunk(self) -> int:
        """Most sweeps in one go."""
        ...

    def advance(self, first: int, count: int) -> Draws:
        """Do sweeps number first, first + 1, ... and return the state after each."""
        ...

    def current(self) -> Draws:
        """The state of every chain, as one draw."""
        ...

    def notes(self) -> Sequence[str]:
        """Sentences about the run."""
        ...


@record("still chains", rebuilt=("points", "chunk"))
@dataclass(frozen=True)
class Still:
    """Chains that have nothing to move."""

    points: Draws  # one per chain
    chunk: int = 1000  # most sweeps in one go

    def advance(self, first: int, count: int) -> Draws:
        """The same points again and again."""
        values = {name: np.repeat(v, count, axis=1) for name, v in self.points.values.items()}
        return Draws(np.repeat(self.points.states, count, axis=1), values)

    def current(self) -> Draws:
        """The points."""
        return self.points

    def notes(self) -> Sequence[str]:
        """None."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Sampler(Algorithm):
    """Markov chains on variables of any domain."""

    checkpoints: ClassVar[bool] = True
    chains: int = 4  # run side by side, from different starts
    warmup: int = 500  # sweeps that tune the sampler and are thrown away
    draws: int | None = None  # kept per chain; None: max_iter, or more if more samples are asked for
    spread: float = 2.0  # of the random starts of continuous variables, in the widths of their profiles

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("chains", self.chains, 1)
        check.whole("warmup", self.warmup, 0)
        if self.draws is not None:
            check.whole("draws", self.draws, 1)
        check.at_least("spread", self.spread, 0)

    @abc.abstractmethod
    def _engine(self, problem: Problem, places: Places, rng: np.random.Generator) -> Engine:
        """Chains at their starts, around these places."""

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Warm up, draw, and judge the draws."""
        each = max(self.draws or budget.max_iter, -(-problem.samples // self.chains), 1)
        self._refuse_large(problem, each)
        budget = replace(budget, max_iter=self.warmup + each)
        sweeps = _Sweeps(self.name, self.warmup, self._engine)
        return drive(sweeps, problem, budget, rng, whole=False)  # type: ignore[no-any-return]

    def _refuse_large(self, problem: Problem, each: int) -> None:
        variables = problem.graph.variables
        numbers = sum(
            d.width if s == 0 else 1 for d, s in zip(variables.domains, variables.sizes, strict=True)
        )
        needed = 8.0 * self.chains * each * numbers
        if needed > _MEMORY:
            raise TooLargeError(
                f"{self.name}: {self.chains} chains of {each} draws of {len(variables)} variables need "
                f"{needed / 1e9:.1f} GB, more than the {_MEMORY / 1e9:.1f} GB kept at most; lower draws"
            )


@record("chains")
class _Drawn(NamedTuple):
    """Chains under way."""

    engine: Engine
    done: int = 0  # sweeps, those of the warm-up among them
    parts: tuple[Draws, ...] = ()  # after the warm-up


class _Sweeps:
    """Chains as the driver sees them; their residual is judged from all draws at the end."""

    def __init__(self, name: str, warmup: int, make: Callable[..., Engine]) -> None:
        self.name, self._warmup, self._make = name, warmup, make

    def start(self, problem: Problem, run: Run) -> Step:
        engine = self._make(problem, starting_places(problem.graph), run.rng)
        self._pace = Pace(engine.chunk)
        return Step(_Drawn(engine))

    def advance(self, problem: Problem, state: _Drawn, run: Run) -> Step:
        engine, done, parts = state
        left = self._warmup - done
        count = min(self._pace.count, left if left > 0 else run.count)
        began = run.elapsed
        part = engine.advance(done, count)
        self._pace.took(run.elapsed - began)
        new = _Drawn(engine, done + count, parts if left > 0 else (*parts, part))
        is_last = count == run.count  # whoever has drawn all has not been cut by the clock
        return Step(new, [UNKNOWN] * count, status=Status.OUT_OF_ITERATIONS if is_last else None)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        engine, _, parts = outcome.state
        cut = outcome.status if outcome.was_stopped else None
        return read(self.name, problem, _joined(parts or (engine.current(),)), cut, engine.notes())


def _joined(parts: Sequence[Draws]) -> Draws:
    # How sums over draws are rounded must not depend on how many came at a time.
    def join(arrays: list[np.ndarray]) -> np.ndarray:
        return np.ascontiguousarray(np.concatenate(arrays, axis=1))

    values = {name: join([p.values[name] for p in parts]) for name in parts[0].values}
    return Draws(join([p.states for p in parts]), values)


def read(name: str, problem: Problem, draws: Draws, status: Status | None, notes: Sequence[str]) -> Result:
    """Marginals, samples and the verdict of the diagnostics; `status` is what cut the run short, or None."""
    variables = problem.graph.variables
    chains, each, _ = draws.states.shape
    found = _diagnosed(variables, draws)
    told = [f"{chains} chains of {each} draws{_worst(variables, found)}"]
    worst = float(found.r_hat.max(initial=1.0))
    if status is None:
        status = Status.CONVERGED if worst < AGREED else Status.OUT_OF_ITERATIONS
    if worst >= AGREED:
        told.append(
            f"the chains do not agree yet (R-hat below {AGREED} is wanted): raise max_iter or warmup, "
            "or use another method"
        )
    return Result(
        name,
        status,
        marginals=_marginals(variables, draws),
        samples=_samples(variables, draws, problem.samples),
        trace=found._asdict(),
        notes=(*told, *notes),
    )


def _marginals(variables: Variables, draws: Draws) -> Marginals:
    flat = np.zeros(int(variables.state_start[-1]))
    total = draws.states.shape[0] * draws.states.shape[1]
    densities: dict[str, Density] = {}
    for i, name in enumerate(variables.names):
        if variables.sizes[i]:
            counts = np.bincount(draws.states[:, :, i].ravel(), minlength=int(variables.sizes[i]))
            flat[variables.state_start[i] : variables.state_start[i + 1]] = counts / total
            continue
        points = draws.values[name]
        points = points.reshape(total, *points.shape[2:])
        kind = ParticleDensity if points.ndim == 1 else SimplexParticleDensity
        densities[name] = kind(points, np.full(total, 1 / total))
    return Marginals(variables, flat, densities)


def _samples(variables: Variables, draws: Draws, wanted: int) -> Samples:
    """All draws, chain after chain; or as many as were asked for, evenly spread over them."""
    total = draws.states.shape[0] * draws.states.shape[1]
    rows: Any = slice(None)
    if 0 < wanted < total:
        rows = np.linspace(0, total - 1, wanted).round().astype(np.int64)
    values = {name: v.reshape(total, *v.shape[2:])[rows] for name, v in draws.values.items()}
    return Samples(variables, draws.states.reshape(total, len(variables))[rows], values)


def _diagnosed(variables: Variables, draws: Draws) -> Diagnosis:
    """R-hat, effective sample size and standard error per variable."""
    n = len(variables)
    chains, each, _ = draws.states.shape
    found = Diagnosis(np.ones(n), np.full(n, float(chains * each)), np.zeros(n))
    for owner, columns in _columns(variables, draws):
        _keep_worst(found, owner, diagnose(columns))
    owner, state = _indicators(variables)
    step = max(1, _BATCH // max(chains * each, 1))
    for first in range(0, len(owner), step):
        part = slice(first, first + step)
        flags = draws.states[:, :, owner[part]] == state[part]
        _keep_worst(found, owner[part], diagnose(flags, is_flag=True))
    return found


def _columns(variables: Variables, draws: Draws) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of continuous variables (chains, draws, some), and the variables that they belong to."""
    chains, each, _ = draws.states.shape
    names = np.array([i for i, size in enumerate(variables.sizes) if not size], dtype=np.int64)
    step = max(1, _TOGETHER // max(chains * each, 1))
    for first in range(0, len(names), step):
        part = names[first : first + step]
        columns = [draws.values[variables.names[int(i)]].reshape(chains, each, -1) for i in part]
        yield np.repeat(part, [c.shape[2] for c in columns]), np.concatenate(columns, axis=2)


def _indicators(variables: Variables) -> tuple[np.ndarray, np.ndarray]:
    """Variable and state of every indicator to judge: one suffices for two states."""
    sizes = variables.sizes
    count = np.where(sizes > 2, sizes, np.maximum(sizes - 1, 0))
    owner = np.repeat(np.arange(len(sizes)), count)
    first = np.cumsum(count) - count
    return owner, np.arange(len(owner)) - first[owner]


def _keep_worst(found: Diagnosis, owner: np.ndarray, new: Diagnosis) -> None:
    owner = np.broadcast_to(owner, np.shape(new.r_hat) or (1,))
    np.maximum.at(found.r_hat, owner, new.r_hat)
    np.minimum.at(found.ess, owner, new.ess)
    np.maximum.at(found.mcse, owner, new.mcse)


def _worst(variables: Variables, found: Diagnosis) -> str:
    if not len(variables):
        return ""
    high, low = int(np.argmax(found.r_hat)), int(np.argmin(found.ess))
    return (
        f": largest R-hat {found.r_hat[high]:.3f} ('{variables.names[high]}'), "
        f"smallest effective sample size {found.ess[low]:.0f} ('{variables.names[low]}')"
    )
