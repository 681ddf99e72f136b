"""Mini-batch steps in compiled chunks, driven.

    step(state, batch, key) -> state, metrics

The state is a tree of arrays: parameters, moments, persistent chains, whatever the step carries. A step is a
function of a module, or an object that equals others of its kind (`adam.Gradient`): programs are filed under
it. Several steps take turns as phases. Batches and keys follow from the seed, the epoch and the position, so
that a run goes on from the middle of an epoch with the same bits; chunks decide how often somebody looks.

What the driver counts is epochs: their metrics are the means over the steps that show them. After each epoch
a hook may look (validation), change the state, say how far it is, or stop the run (`hooks.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.records import record
from ..core.result import Status
from ..optimise.driver import UNKNOWN, Outcome, Step
from ..optimise.pace import Pace
from ..optimise.run import Run
from .batches import Batch, Batches, CompiledRows
from .compiled import Compiled
from .hooks import Hook, HookTurn
from .loop import repeat

__all__ = ["ChunkState", "Chunks", "Phase", "StepProgram", "TrainedChunks", "step_program"]

_ROOM = 64  # steps of one call at most


class Phase(NamedTuple):
    """A step that has several turns before the next phase."""

    step: Any  # (state, batch, key) -> state, metrics; `is_dear`, where it has it: worth a long compilation
    turns: int = 1  # batches, or epochs


@record("chunk state")
class ChunkState(NamedTuple):
    """Where the steps have come to: all that is needed to go on."""

    carry: Any  # what the steps carry
    epoch: int = 0
    position: int = 0  # batches of the epoch that are done
    sums: dict[str, tuple[float, int]] | None = None  # metrics of the epoch so far, and over how many steps
    memory: Any = None  # of the hook


class TrainedChunks(NamedTuple):
    """What a run led to."""

    carry: Any  # what the hook chooses: the last state, or the best one
    outcome: Outcome  # of the driver; its trace has the means of every epoch

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """Name -> one number per epoch that showed it."""
        return {name: np.array(numbers) for name, numbers in self.outcome.trace.items()}


@dataclass(frozen=True, kw_only=True)
class Chunks:
    """Mini-batch steps as the driver sees them; the problem is `CompiledRows`."""

    phases: Sequence[Phase]  # the steps that take turns
    carry: Any  # before the first step
    batches: Batches  # which rows a step sees
    turns: Literal["batches", "epochs"] = "batches"  # what phases count
    hook: Hook | None = None  # looks after each epoch
    name: str = "training"  # in progress bars
    # how many steps go in a short time
    _pace: Pace = field(default_factory=lambda: Pace(_ROOM), repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("turns", self.turns, ["batches", "epochs"])
        if not self.phases:
            raise OptionError("phases: expected at least one step, got none")
        for phase in self.phases:
            check.whole("turns of a phase", phase.turns, 1)

    def start(self, problem: CompiledRows, run: Run) -> Step:
        """The given state."""
        return Step(ChunkState(self.carry, memory=self.hook.begin(self.carry) if self.hook else None))

    def advance(self, problem: CompiledRows, state: ChunkState, run: Run) -> Step:
        """Some steps of an epoch, as many as go in a short time; at its end, one step of the driver."""
        left, began = self.batches.count(problem.length) - state.position, run.elapsed
        many = min(self._pace.count, left)
        carry, rows = self._run(problem, state, many)
        self._pace.took(run.elapsed - began)
        if not all(np.isfinite(numbers).all() for numbers in rows.values()):
            return Step(state, [UNKNOWN], status=Status.DIVERGED)
        before = state.sums or {}
        sums = {**before, **{name: _add(before.get(name), n) for name, n in rows.items()}}
        if many < left:
            return Step(state._replace(carry=carry, position=state.position + many, sums=sums))
        means = {name: total / count for name, (total, count) in sums.items() if count}
        turn = HookTurn(carry)
        if self.hook is not None:
            turn = self.hook.after(state.epoch, carry, means, state.memory)
        trace = {name: [number] for name, number in {**means, **turn.numbers}.items()}
        new = ChunkState(turn.carry, state.epoch + 1, memory=turn.memory)
        return Step(new, [turn.residual], trace, turn.status)

    def read(self, problem: CompiledRows, outcome: Outcome) -> TrainedChunks:
        """What the hook chooses."""
        carry = outcome.state.carry
        return TrainedChunks(self.hook.choose(carry, outcome.state.memory) if self.hook else carry, outcome)

    def _run(self, problem: CompiledRows, state: ChunkState, many: int) -> tuple[Any, dict[str, np.ndarray]]:
        """The state after some batches, and the metrics of those steps that show them."""
        count = self.batches.count(problem.length)
        room = min(_ROOM, 1 << (count - 1).bit_length())  # few sizes: each is a program
        whose = self._whose(count, room, state)
        numbers, weights = self.batches.rows(problem.length, state.epoch, state.position, room)
        place = np.array([self.batches.seed, state.epoch, state.position], np.uint32)
        program = step_program(tuple(phase.step for phase in self.phases))
        carry, rows, _ = program.compiled(
            state.carry, problem.tree, numbers, weights, whose, place, np.int32(many), room=room
        )
        found = {name: np.asarray(values, np.float64)[:many] for name, values in rows.items()}
        shows = {name: np.array([name in names for names in program.names]) for name in found}
        return carry, {name: values[shows[name][whose[:many]]] for name, values in found.items()}

    def _whose(self, count: int, room: int, state: ChunkState) -> np.ndarray:
        """The phase of each of the next steps, where an epoch has `count` of them."""
        cycle = np.repeat(np.arange(len(self.phases)), [phase.turns for phase in self.phases])
        steps = state.epoch * count + state.position + np.arange(room)
        at = steps if self.turns == "batches" else np.full(len(steps), state.epoch)
        return cycle[at % len(cycle)].astype(np.int32)


def _add(before: tuple[float, int] | None, numbers: np.ndarray) -> tuple[float, int]:
    """A sum that goes on, one number after another: chunks must not change its bits."""
    total, count = before or (0.0, 0)
    return float(np.add.accumulate([total, *numbers])[-1]), count + len(numbers)


class StepProgram:
    """The compiled loop over some steps, and the metrics that each shows, known once it is traced."""

    def __init__(self, steps: tuple[Any, ...]) -> None:
        self._steps, self.names = steps, [frozenset[str]()] * len(steps)
        is_dear = any(getattr(step, "is_dear", False) for step in steps)
        self.compiled = Compiled(self._loop, small=0, quick=False) if is_dear else Compiled(self._loop)

    def _loop(
        self,
        carry: Any,
        tree: Any,
        numbers: Any,
        weights: Any,
        whose: Any,
        place: Any,
        limit: Any,
        *,
        room: int,
    ) -> Any:
        epoch = jax.random.fold_in(jax.random.PRNGKey(place[0]), place[1])

        def step(k: Any, carry: Any) -> Any:
            batch = Batch(jax.tree.map(lambda rows: rows[numbers[k]], tree), weights[k])
            arguments = carry, batch, jax.random.fold_in(epoch, place[2] + k.astype(place.dtype))
            branches = self._branches(arguments)
            return (
                branches[0](*arguments)
                if len(branches) == 1
                else jax.lax.switch(whose[k], branches, *arguments)
            )

        return repeat(step, carry, room, limit)

    def _branches(self, arguments: tuple[Any, ...]) -> list[Any]:
        """All steps, each with the metrics of all."""
        shapes = [jax.eval_shape(step, *arguments)[1] for step in self._steps]
        for name, shape in (item for shown in shapes for item in shown.items()):
            if shape.shape:
                raise OptionError(f"metric '{name}': expected one number a step, got shape {shape.shape}")
        self.names = [frozenset(shown) for shown in shapes]
        blank = {name: jnp.zeros((), s.dtype) for shown in shapes for name, s in shown.items()}

        def filled(step: Any) -> Any:
            def run(*arguments: Any) -> Any:
                carry, metrics = step(*arguments)
                return carry, {**blank, **metrics}

            return run

        return [filled(step) for step in self._steps]


@lru_cache(maxsize=64)
def step_program(steps: tuple[Any, ...]) -> StepProgram:
    """The program of these steps, compiled for one combination of shapes after the other."""
    return StepProgram(steps)
