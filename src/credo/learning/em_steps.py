r"""What EM, Baum-Welch and variational Bayes have in common: two steps in turn, as the driver sees them.

    E   log_weight, statistics = log sum over z of p(x, z | theta), and what p(z | x, theta) expects
    M   theta = argmax of  sum over z of p(z | x, old theta) log p(x, z | theta)  +  log prior(theta)

A problem is a model with its data (`EMProblem`): it makes the statistics and uses them, whatever they are.
Its parameters may be a vector, a model, or a distribution over models: variational Bayes is EM whose E-step
sees expected log parameters and whose log prior is minus the divergence of that distribution from the prior.

    objective = log_weight + log prior,    known after each E-step, and never falls where `is_monotone`

The residual is the largest change of a parameter, not the gain: on a plateau the objective hardly rises while
the parameters still travel. The first step is an E-step alone, so that a start is cheap.

Stepwise EM takes an M-step after each batch of rows:

    statistics <- (1 - r) statistics + r statistics of the batch, scaled to all rows,    r = (k + 1)^-rate

Data may come in pieces (`em_data.py`): what they expect is added up. The state says how far a pass over the
data has come, so that a run can be cut, kept and continued in the middle of one.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..core.records import record
from ..core.result import Estimate, Kind, Status
from ..kernels.buffers import reusing
from ..optimise.budgets import with_start
from ..optimise.driver import UNKNOWN, Outcome, Step, drive
from ..optimise.pace import is_long
from ..optimise.run import Budget, Run
from ..optimise.run import check as run_check
from .base import Fit
from .em_data import DividedData, EMData, Expected, Place

__all__ = ["EMProblem", "EMRun", "EMStart", "EMSteps", "fit_of", "run_em"]

_FALL = 1e-9  # relative fall of the objective that rounding explains


class EMStart(NamedTuple):
    """Where a run begins: parameters that can be answered with at once."""

    parameters: Any
    note: str | None = None  # a sentence about the start
    first: Any = None  # data from which `EMProblem.prepare` makes the parameters of the first E-step


class EMProblem(EMData):
    """A model with its data: what has to be known to learn it by EM; in batches, if it is `DividedData`."""

    @abc.abstractmethod
    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        """Where run number 0, 1, ... begins."""

    def prepare(self, first: Any, parameters: Any) -> Any:
        """Parameters of the first E-step, where a start takes work."""
        return parameters

    @abc.abstractmethod
    def maximise(self, statistics: Any, parameters: Any) -> Any:
        """The M-step."""

    def adapt(self, parameters: Any) -> Any:
        """The step of hyper-parameters, which the parameters carry; none by default."""
        return parameters

    @abc.abstractmethod
    def movement(self, old: Any, new: Any) -> float:
        """The largest change of a parameter, whatever the units of the data."""

    def log_prior(self, parameters: Any) -> float:
        """What the objective has besides the log weight: log prior density, or minus a divergence."""
        return 0.0

    def made(self, parameters: Any) -> Any:
        """The model with these parameters."""
        return parameters

    def is_monotone(self) -> bool:
        """Whether the objective must rise; not so where inference is approximate."""
        return True

    def fall(self, number: int) -> float:
        """Relative fall of the objective before E-step `number` that is no reason to stop."""
        return _FALL

    def is_closed_form(self) -> bool:
        """Whether the statistics do not depend on the parameters, so that one M-step is all there is."""
        return False

    def validate(self, parameters: Any) -> float | None:
        """Log-likelihood per row of data that are only watched; None without such data."""
        return None

    def numbers(self, parameters: Any) -> dict[str, float]:
        """What else the trace shall show after each step."""
        return {}

    def kind(self) -> Kind:
        """What the log weights guarantee."""
        return "exact"

    def report(self) -> list[str]:
        """Sentences about how expectations were found."""
        return []

    @property
    def memory(self) -> tuple[Any, ...]:
        """What steps change besides the parameters."""
        return ()


@record("em memory")
class _Memory(NamedTuple):
    """The running mean of statistics of stepwise EM.

    It begins with those of all rows: after the first batch alone, states that it lacks would be impossible.
    """

    statistics: Any
    batches: int = 1


@record("em step under way")
class _Turn(NamedTuple):
    """A step under way: batches are learned from one by one, then the E-step adds up the pieces."""

    parameters: Any  # so far
    memory: _Memory | None
    learns: bool  # whether there are batches to learn from
    seed: int = 0  # of their order
    place: Place = ()  # where the next batch or piece begins
    found: Expected | None = None  # the E-step so far
    is_over: bool = False  # whether `found` is all of it


@record("em")
class _State(NamedTuple):
    """Parameters, and what the E-step said about them."""

    parameters: Any
    note: str | None = None  # about the start
    first: Any = None  # of the start, until the first E-step
    statistics: Any = None
    objective: float = -np.inf
    memory: _Memory | None = None
    number: int = 0  # E-steps so far
    turn: _Turn | None = None  # the step under way


@dataclass(frozen=True, eq=False)
class EMRun:
    """Where EM led from its best start."""

    parameters: Any  # of the model
    status: Status = Status.OUT_OF_ITERATIONS  # why it stopped
    objective: list[float] = field(default_factory=list)  # at the start and after each iteration, of all rows
    trace: dict[str, list[float]] = field(default_factory=dict)  # "log_likelihood" of all rows, ...
    values: np.ndarray = field(default_factory=lambda: np.empty(0))  # objective each start ended with
    note: str | None = None  # about the start

    @property
    def value(self) -> float:
        """The last objective."""
        return self.objective[-1] if self.objective else -np.inf

    @property
    def was_stopped(self) -> bool:
        """Whether somebody or the clock ended it."""
        return self.status in (Status.INTERRUPTED, Status.OUT_OF_TIME)


@dataclass(frozen=True)
class EMSteps:
    """E- and M-steps for the driver.

    Parameters
    ----------
    name
        For the progress bar.
    batch, rate
        Units per M-step of stepwise EM, and how fast it forgets; None: all units.
    shown
        What observers are shown of a run.
    kept
        Objects that steps change besides the state.
    """

    name: str
    batch: int | None = None
    rate: float = 0.6
    shown: Callable[[EMRun], Any] | None = None
    kept: tuple[Any, ...] = ()

    @property
    def memory(self) -> tuple[Any, ...]:
        """What steps change besides the state."""
        return self.kept

    def start(self, problem: EMProblem, run: Run) -> Step:
        """The cheapest readable state."""
        return self.begin(problem.start(run.rng, run.number))

    def begin(self, start: EMStart) -> Step:
        """A state without an E-step."""
        return Step(_State(*start))

    def advance(self, problem: EMProblem, state: _State, run: Run) -> Step:
        """M-step, then E-step; as much of them as a call may take, but one piece at least."""
        turn = state.turn or self._begin(problem, state, run.rng)
        turn = self._learn(problem, turn) if turn.learns else self._expect(problem, turn)
        if not turn.is_over:
            return Step(state._replace(turn=turn))
        assert turn.found is not None
        return self._finish(problem, state, turn, turn.found, run)

    def _begin(self, problem: EMProblem, state: _State, rng: np.random.Generator) -> _Turn:
        """The M-step, unless there is one per batch."""
        parameters, memory = state.parameters, state.memory
        if state.number == 0:
            if state.first is not None:
                parameters = problem.prepare(state.first, parameters)
            return _Turn(parameters, memory, False)
        if self.batch is None or memory is None:
            return _Turn(problem.adapt(problem.maximise(state.statistics, parameters)), memory, False)
        return _Turn(parameters, memory, True, int(rng.integers(1 << 62)))

    def _learn(self, problem: EMProblem, turn: _Turn) -> _Turn:
        """An M-step per batch."""
        assert self.batch is not None and turn.memory is not None and isinstance(problem, DividedData)
        began = perf_counter()
        for batch, place in problem.batches(self.batch, turn.seed, turn.place):
            run_check()
            share = (turn.memory.batches + 1) ** -self.rate
            mixed = problem.blend(turn.memory.statistics, batch(turn.parameters), share)
            memory = _Memory(mixed, turn.memory.batches + 1)
            parameters = problem.adapt(problem.maximise(mixed, turn.parameters))
            turn = turn._replace(parameters=parameters, memory=memory, place=place)
            if is_long(began):
                break
        return turn._replace(learns=bool(turn.place))

    def _expect(self, problem: EMProblem, turn: _Turn) -> _Turn:
        """The E-step, piece by piece."""
        began = perf_counter()
        for piece, place in problem.pieces(turn.place):
            run_check()
            turn = turn._replace(found=piece(turn.parameters).plus(turn.found), place=place)
            if is_long(began):
                break
        return turn._replace(is_over=not turn.place)

    def _finish(self, problem: EMProblem, state: _State, turn: _Turn, found: Expected, run: Run) -> Step:
        """The new state, and what the driver wants to know of it."""
        parameters, number = turn.parameters, state.number + 1
        objective = found.log_weight + problem.log_prior(parameters)
        if number > 1 and not np.isfinite(objective):
            return Step(state._replace(turn=None), [UNKNOWN], status=Status.DIVERGED)
        memory = turn.memory or (None if self.batch is None else _Memory(found.statistics))
        new = _State(parameters, state.note, None, found.statistics, objective, memory, number)
        trace = self._trace(problem, parameters, found, objective) | {"seconds": [run.elapsed]}
        residual = min(problem.movement(state.parameters, parameters), UNKNOWN) if number > 1 else UNKNOWN
        return Step(new, [residual], trace, self._judge(problem, state, new))

    def _judge(self, problem: EMProblem, old: _State, new: _State) -> Status | None:
        """A proof, or a fall that rounding cannot explain: a family breaks the contract."""
        if new.number == 2 and self.batch is None and problem.is_closed_form():
            return Status.EXACT
        fall = old.objective - new.objective
        most = problem.fall(new.number) * max(problem.rows, abs(new.objective))
        is_fall = np.isfinite(old.objective) and fall > most
        return Status.DIVERGED if is_fall and self.batch is None and problem.is_monotone() else None

    def _trace(
        self, problem: EMProblem, parameters: Any, found: Expected, objective: float
    ) -> dict[str, list[float]]:
        numbers = {"objective": [objective], "log_likelihood": [found.log_weight]}
        held = problem.validate(parameters)
        if held is not None:
            numbers["validation"] = [held]
        return numbers | {name: [number] for name, number in problem.numbers(parameters).items()}

    def value(self, state: _State) -> float:
        """How good a start was."""
        return state.objective

    def parameters(self, problem: EMProblem, state: _State) -> Any:
        """For observers."""
        return state.parameters

    def show(self, problem: EMProblem, outcome: Outcome) -> Any:
        """What observers see of the answer."""
        found = self.read(problem, outcome)
        return found if self.shown is None else self.shown(found)

    def read(self, problem: EMProblem, outcome: Outcome) -> EMRun:
        """Where it led."""
        trace = dict(outcome.trace)
        state = outcome.state
        ends = np.array(outcome.values or [state.objective])
        return EMRun(state.parameters, outcome.ended, trace.pop("objective", []), trace, ends, state.note)


def run_em(
    problem: EMProblem,
    budget: Budget,
    rng: np.random.Generator | None,
    *,
    name: str,
    restarts: int = 1,
    batch: int | None = None,
    rate: float = 0.6,
    shown: Callable[[EMRun], Any] | None = None,
    kind: Callable[..., EMSteps] = EMSteps,
) -> EMRun:
    """The best of several runs of EM.

    Parameters
    ----------
    problem
        The model with its data.
    budget, rng
        When each run stops, `tol` being the `movement` that counts as none; the one generator.
    name
        For the progress bar.
    restarts
        How many runs.
    batch, rate
        Of stepwise EM.
    shown
        What observers are shown of a run.
    kind
        What makes the steps.
    """
    steps = kind(name, batch, rate, shown, problem.memory)
    with reusing():
        return drive(steps, problem, with_start(budget), rng, restarts=restarts)  # type: ignore[no-any-return]


def fit_of(problem: EMProblem, found: EMRun) -> Fit:
    """The fit of a run, its curves per row."""
    curves = {name: np.array(numbers) for name, numbers in found.trace.items()}
    total = curves.get("log_likelihood", np.empty(0))
    objective = np.array(found.objective) / problem.rows
    trace = curves | {"objective": objective, "log_likelihood": total / problem.rows}
    value = Estimate(float(total[-1]), problem.kind()) if len(total) else None
    notes = [*([found.note] if found.note else []), *problem.report()]
    return Fit(
        problem.made(found.parameters), found.status, objective, value, trace, notes=tuple(notes),
        restarts=found.values / problem.rows,
    )  # fmt: skip
