r"""Optimisers of a loss  f(w) + sum_k l1_k |w_k|,  f differentiable.

    lbfgs        quasi-Newton steps on all rows with a line search: the loss never rises (`lbfgs.py`)
    subgradient  w <- prox( w - rate_t slope ) on all rows, kinks allowed; the lowest place is kept
    sgd          w <- prox( w - rate_t m_t ),   m_t = momentum m_{t-1} + gradient of one batch
    adam         the same with each coordinate scaled by its running root mean square

prox shrinks each weight towards zero as far as a constant gradient l1_k would have moved it, so that zeros
are exact. The rate of the last three falls as rate / (1 + decay epoch), that of the last two with `ends` also
by the share of these epochs that is left.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.records import record
from ..core.registry import Registry
from ..core.result import Status
from . import driver
from . import run as checks
from .budgets import including, with_start
from .lbfgs import Descent, Point, advance
from .run import Budget, Run

__all__ = ["LBFGS", "SGD", "Adam", "Look", "Loss", "Optimiser", "Subgradient", "optimiser_of", "optimisers"]

Step = Callable[[np.ndarray], tuple[float, np.ndarray]]  # weights -> value and gradient
_QUIET = 3  # epochs in a row without change that end a stochastic descent


@record("look")
class Look(NamedTuple):
    """What an optimiser shows of a place."""

    weights: np.ndarray
    value: float  # of the loss, there or on the way there
    gradient: np.ndarray


@dataclass(frozen=True)
class Loss:
    """What is minimised: the smooth part on all rows or by batches, and the strength of |w|."""

    full: Step  # smooth part on all rows
    batches: Callable[[], Iterator[Step]] | None = None  # on each batch of an epoch; None: all rows
    l1: np.ndarray | float = 0.0  # strength of the absolute values

    def penalty(self, weights: np.ndarray) -> float:
        """The part that is not smooth."""
        return float((self.l1 * np.abs(weights)).sum()) if np.any(self.l1) else 0.0


class Optimiser(abc.ABC):
    """Options are the dataclass fields of the final class."""

    name: ClassVar[str]
    is_stochastic: ClassVar[bool]  # whether it works with noisy gradients of batches

    @abc.abstractmethod
    def begin(self, loss: Loss, start: np.ndarray) -> driver.Step:
        """The first step, which evaluates the start; the state of every step begins with a `Look`."""

    @abc.abstractmethod
    def advance(self, loss: Loss, state: Any, run: Run) -> driver.Step:
        """One iteration from this state: a line search, or an epoch of batches."""

    def limits(self, budget: Budget) -> Budget:
        """The budget of its steps, evaluation of the start included."""
        return with_start(budget)

    def minimise(self, loss: Loss, start: np.ndarray, budget: Budget) -> tuple[np.ndarray, Status]:
        """Descend; the weights at the end, and why it ended."""
        return driver.drive(_LineSearchDescent(self, start), loss, self.limits(budget))  # type: ignore[no-any-return]


class _LineSearchDescent:
    """An optimiser alone, as the driver sees it."""

    def __init__(self, optimiser: Optimiser, first: np.ndarray) -> None:
        self._optimiser, self._first, self.name = optimiser, first, optimiser.name

    def start(self, loss: Loss, run: Run) -> driver.Step:
        return driver.Step(None)

    def advance(self, loss: Loss, state: Any, run: Run) -> driver.Step:
        if state is None:
            return self._optimiser.begin(loss, self._first)
        return self._optimiser.advance(loss, state, run)

    def read(self, loss: Loss, outcome: driver.Outcome) -> tuple[np.ndarray, Status]:
        weights = self._first if outcome.state is None else outcome.state[0].weights
        return weights, outcome.ended


optimisers: Registry[Optimiser] = Registry("optimiser")


@optimisers.register
@dataclass(frozen=True, kw_only=True)
class LBFGS(Optimiser):
    """Limited-memory quasi-Newton steps with a line search; orthant-wise with absolute values."""

    name: ClassVar[str] = "lbfgs"
    is_stochastic: ClassVar[bool] = False
    memory: int = 10  # pairs of steps and gradients kept

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("memory", self.memory, 1)

    def limits(self, budget: Budget) -> Budget:
        """A largest slope of `tol` is none: where a loss is flat, slopes are exactly zero."""
        return including(with_start(budget))

    def begin(self, loss: Loss, start: np.ndarray) -> driver.Step:
        """The slopes at the start."""
        here = Point.at(loss.full, start, loss.l1)
        if not here.is_finite:
            return driver.Step(_look(Descent(here)), [driver.UNKNOWN], status=Status.DIVERGED)
        return driver.Step(_look(Descent(here)), [here.steepness])

    def advance(self, loss: Loss, state: tuple[Look, Descent], run: Run) -> driver.Step:
        """One line search; the residual is the largest slope."""
        step = advance(loss.full, state[1], loss.l1, memory=self.memory)
        return step._replace(state=state if step.state is state[1] else _look(step.state))


def _look(descent: Descent) -> tuple[Look, Descent]:
    return Look(descent.here.w, descent.here.value, descent.here.slope), descent


@record("subgradient")
class _Lowest(NamedTuple):
    """Where a descent over kinks is, and the lowest place it met."""

    look: Look  # of the lowest place
    here: Look
    step: int = 0
    lowest: tuple[float, ...] = ()  # values after the last steps


@optimisers.register
@dataclass(frozen=True, kw_only=True)
class Subgradient(Optimiser):
    """Steps along a slope of all rows; for losses with kinks, where slopes are large at the lowest place too.

    Converged when the largest slope is below tol, or the lowest value fell by less than that, relatively,
    in the last `patience` steps.
    """

    name: ClassVar[str] = "subgradient"
    is_stochastic: ClassVar[bool] = False
    rate: float = 0.1  # first step size
    decay: float = 0.0  # how fast the rate falls
    patience: int = 20  # steps over which the fall of the lowest value is judged

    def __post_init__(self) -> None:
        """Check the options."""
        _check_rate(self.rate, self.decay)
        check.whole("patience", self.patience, 1)

    def begin(self, loss: Loss, start: np.ndarray) -> driver.Step:
        """The start is the lowest place so far."""
        here = Point.at(loss.full, start, loss.l1)
        if not here.is_finite:
            look = Look(start, here.value, here.slope)
            return driver.Step(_Lowest(look, look), [driver.UNKNOWN], status=Status.DIVERGED)
        look = Look(here.w, here.value, here.slope)
        return driver.Step(_Lowest(look, look, 0, (look.value,)), [here.steepness])

    def advance(self, loss: Loss, state: _Lowest, run: Run) -> driver.Step:
        """One step, uphill or not."""
        rate = self.rate / (1.0 + self.decay * state.step)
        w = state.here.weights - rate * state.here.gradient
        if np.any(loss.l1):  # the slope has the sign of the weight in it: none may cross zero
            w = np.where(w * state.here.weights < 0, 0.0, w)
        there = Point.at(loss.full, w, loss.l1)
        if not there.is_finite:
            return driver.Step(state, [driver.UNKNOWN], status=Status.DIVERGED)
        here = Look(there.w, there.value, there.slope)
        look = here if here.value < state.look.value else state.look
        lowest = (*state.lowest, look.value)[-self.patience - 1 :]
        fall = (lowest[0] - lowest[-1]) / max(1.0, abs(lowest[-1]))
        residual = min(there.steepness, fall) if len(lowest) > self.patience else there.steepness
        return driver.Step(_Lowest(look, here, state.step + 1, lowest), [residual])


@record("epochs")
class _Epochs(NamedTuple):
    """Where a stochastic descent is."""

    look: Look
    memory: dict[str, np.ndarray]  # of the directions
    epoch: int = 0
    changes: tuple[float, ...] = ()  # of the mean loss in the last epochs


class _Stochastic(Optimiser):
    """Epochs of batches; converged when the mean loss of three epochs in a row changes less than tol."""

    is_stochastic: ClassVar[bool] = True
    rate: float
    decay: float
    ends: int | None

    @abc.abstractmethod
    def direction(self, gradient: np.ndarray, memory: dict[str, np.ndarray]) -> np.ndarray:
        """The step for unit rate; `memory` is this run's own."""

    @abc.abstractmethod
    def scale(self, memory: dict[str, np.ndarray]) -> np.ndarray | float:
        """How far a constant gradient of one would go by now, for the shrinking of absolute values."""

    def rate_at(self, epoch: int) -> float:
        """The step size of an epoch."""
        left = 1.0 if self.ends is None else max(0.0, 1.0 - epoch / self.ends)
        return left * self.rate / (1.0 + self.decay * epoch)

    def begin(self, loss: Loss, start: np.ndarray) -> driver.Step:
        """The loss on all rows."""
        value, gradient = loss.full(start)
        look = Look(start.copy(), value + loss.penalty(start), gradient)
        return driver.Step(_Epochs(look, {}), [driver.UNKNOWN])

    def advance(self, loss: Loss, state: _Epochs, run: Run) -> driver.Step:
        """Walk the batches of an epoch once; the residual is the largest of the last three changes."""
        look, memory, epoch, changes = state
        w, memory, rate = look.weights, dict(memory), self.rate_at(epoch)
        values, total, mean = [], 0, np.zeros_like(w)
        for batch in [loss.full] if loss.batches is None else loss.batches():
            checks.check()
            value, gradient = batch(w)
            if not np.isfinite(value) or not np.isfinite(gradient).all():
                return driver.Step(state, [driver.UNKNOWN], status=Status.DIVERGED)
            values.append(value + loss.penalty(w))
            total += 1
            mean += gradient
            w = w + -rate * self.direction(gradient, memory)  # the product's memory becomes that of the sum
            if np.any(loss.l1):
                w = np.sign(w) * np.maximum(np.abs(w) - rate * self.scale(memory) * loss.l1, 0.0)
        here = float(np.mean(values))
        # The first mean has nothing to be compared with: the value at the start is of all rows.
        changes = (*changes, abs(here - look.value) if epoch else driver.UNKNOWN)[-_QUIET:]
        residual = max(changes) if len(changes) == _QUIET else driver.UNKNOWN
        new = _Epochs(Look(w, here, mean / total), memory, epoch + 1, changes)
        return driver.Step(new, [residual])


@optimisers.register
@dataclass(frozen=True, kw_only=True)
class SGD(_Stochastic):
    """Stochastic gradient descent with momentum.

    Examples
    --------
    A rate that begins at 0.2 and has fallen to zero after four epochs.

    >>> from credo.optimise.optimisers import SGD
    >>> [SGD(rate=0.2, ends=4).rate_at(epoch) for epoch in range(5)]
    [0.2, 0.15000000000000002, 0.1, 0.05, 0.0]
    """

    name: ClassVar[str] = "sgd"
    rate: float = 0.1  # first step size
    momentum: float = 0.0
    decay: float = 0.0  # how fast the rate falls
    ends: int | None = None  # epochs over which it falls, in a straight line, to zero

    def __post_init__(self) -> None:
        """Check the options."""
        _check_rate(self.rate, self.decay, self.ends)
        check.in_range("momentum", self.momentum, 0, 1)

    def direction(self, gradient: np.ndarray, memory: dict[str, np.ndarray]) -> np.ndarray:
        """The gradient and what is left of earlier ones."""
        if not self.momentum:
            memory["scale"] = np.ones(())
            return gradient
        memory["momentum"] = self.momentum * memory.get("momentum", 0.0) + gradient
        memory["scale"] = self.momentum * memory.get("scale", np.zeros(())) + 1.0
        return memory["momentum"]

    def scale(self, memory: dict[str, np.ndarray]) -> np.ndarray | float:
        """What earlier gradients still add: the pull towards zero must not be weaker than theirs."""
        return memory["scale"]


@optimisers.register
@dataclass(frozen=True, kw_only=True)
class Adam(_Stochastic):
    """Adaptive moments (Kingma and Ba)."""

    name: ClassVar[str] = "adam"
    rate: float = 0.01  # first step size
    beta1: float = 0.9  # memory of the mean gradient
    beta2: float = 0.999  # memory of its square
    decay: float = 0.0  # how fast the rate falls
    ends: int | None = None  # epochs over which it falls, in a straight line, to zero

    def __post_init__(self) -> None:
        """Check the options."""
        _check_rate(self.rate, self.decay, self.ends)
        check.in_range("beta1", self.beta1, 0, 1)
        check.in_range("beta2", self.beta2, 0, 1)

    def direction(self, gradient: np.ndarray, memory: dict[str, np.ndarray]) -> np.ndarray:
        """The mean gradient over the root of the mean square, both corrected for their start at zero."""
        step = memory.get("step", np.zeros(())) + 1
        mean = self.beta1 * memory.get("mean", 0.0) + (1 - self.beta1) * gradient
        square = self.beta2 * memory.get("square", 0.0) + (1 - self.beta2) * gradient**2
        memory.update(step=step, mean=mean, square=square)
        memory["scale"] = 1.0 / (np.sqrt(square / (1 - self.beta2**step)) + 1e-8)
        return mean / (1 - self.beta1**step) * memory["scale"]

    def scale(self, memory: dict[str, np.ndarray]) -> np.ndarray | float:
        """One over the root of the mean square."""
        return memory["scale"]


def optimiser_of(optimiser: str | Optimiser) -> Optimiser:
    """An optimiser from its text form."""
    found = optimisers.resolve(optimiser)
    if not isinstance(found, Optimiser):
        raise OptionError(
            f"optimiser: expected a name such as 'adam(rate=0.1)' or an Optimiser, got {optimiser!r:.80}"
        )
    return found


def _check_rate(rate: float, decay: float, ends: int | None = None) -> None:
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < np.inf:
        raise OptionError(f"rate must be a positive number, got {rate!r}")
    check.at_least("decay", decay, 0)
    if ends is not None:
        check.whole("ends", ends, 1)
