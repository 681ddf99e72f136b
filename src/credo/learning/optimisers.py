r"""Optimisers of a loss  f(w) + sum_k l1_k |w_k|,  f differentiable.

    lbfgs   quasi-Newton steps on all rows with a line search: the loss never rises (`quasi_newton.py`)
    sgd     w <- prox( w - rate_t m_t ),   m_t = momentum m_{t-1} + gradient of one batch
    adam    the same with each coordinate scaled by its running root mean square

prox shrinks each weight towards zero as far as a constant gradient l1_k would have moved it, so that zeros
are exact. The rate of the two stochastic ones falls as rate / (1 + decay epoch).
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.registry import Registry
from ..core.result import Status
from ..inference.base import Budget
from .quasi_newton import Point, descend

__all__ = ["LBFGS", "SGD", "Adam", "Loss", "Optimiser", "Stop", "optimiser_of", "optimisers"]

Step = Callable[[np.ndarray], tuple[float, np.ndarray]]  # weights -> value and gradient
Watch = Callable[[np.ndarray, float, np.ndarray], None]  # weights, value, gradient; may raise Stop


class Stop(Exception):  # noqa: N818, a signal and no error
    """Raised by a watcher to end the run with a status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


@dataclass(frozen=True)
class Loss:
    """What is minimised: the smooth part on all rows or by batches, and the strength of |w|."""

    full: Step  # smooth part on all rows
    batches: Callable[[], Iterator[Step]]  # smooth part on each batch of one epoch
    l1: np.ndarray | float = 0.0  # strength of the absolute values

    def penalty(self, weights: np.ndarray) -> float:
        """The part that is not smooth."""
        return float((self.l1 * np.abs(weights)).sum())


class Optimiser(abc.ABC):
    """Options are the dataclass fields of the final class."""

    name: ClassVar[str]
    is_stochastic: ClassVar[bool]  # whether it works with noisy gradients of batches

    @abc.abstractmethod
    def minimise(self, loss: Loss, start: np.ndarray, budget: Budget, watch: Watch) -> Status:
        """Descend; `watch` is called at the start and after each iteration, and keeps what it wants."""


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

    def minimise(self, loss: Loss, start: np.ndarray, budget: Budget, watch: Watch) -> Status:
        """Stop when the largest slope is at most tol."""
        clock = time.perf_counter()

        def seen(point: Point) -> None:
            watch(point.w, point.value, point.slope)
            if budget.seconds is not None and time.perf_counter() - clock > budget.seconds:
                raise Stop(Status.OUT_OF_TIME)

        return descend(
            loss.full,
            start,
            loss.l1,
            memory=self.memory,
            max_iter=budget.max_iter,
            tol=budget.tol,
            watch=seen,
        )


class _Stochastic(Optimiser):
    """Epochs of batches; converged when the mean loss of three epochs in a row changes less than tol."""

    is_stochastic: ClassVar[bool] = True
    rate: float
    decay: float

    @abc.abstractmethod
    def direction(self, gradient: np.ndarray, memory: dict[str, np.ndarray]) -> np.ndarray:
        """The step for unit rate; `memory` is this run's own."""

    @abc.abstractmethod
    def scale(self, memory: dict[str, np.ndarray]) -> np.ndarray | float:
        """How far a constant gradient of one would go by now, for the shrinking of absolute values."""

    def minimise(self, loss: Loss, start: np.ndarray, budget: Budget, watch: Watch) -> Status:
        """Walk the batches of each epoch once."""
        clock = time.perf_counter()
        w, memory, quiet, last = start.copy(), dict[str, np.ndarray](), 0, np.inf
        value, gradient = loss.full(w)
        watch(w.copy(), value + loss.penalty(w), gradient)
        for epoch in range(budget.max_iter):
            rate = self.rate / (1.0 + self.decay * epoch)
            values, total, mean = [], 0, np.zeros_like(w)
            for batch in loss.batches():
                value, gradient = batch(w)
                if not np.isfinite(value) or not np.isfinite(gradient).all():
                    return Status.DIVERGED
                values.append(value + loss.penalty(w))
                total, mean = total + 1, mean + gradient
                w = w - rate * self.direction(gradient, memory)
                if np.any(loss.l1):
                    w = np.sign(w) * np.maximum(np.abs(w) - rate * self.scale(memory) * loss.l1, 0.0)
            here = float(np.mean(values))
            watch(w.copy(), here, mean / total)
            quiet = quiet + 1 if abs(here - last) < budget.tol else 0
            last = here
            if quiet >= 3:
                return Status.CONVERGED
            if budget.seconds is not None and time.perf_counter() - clock > budget.seconds:
                return Status.OUT_OF_TIME
        return Status.OUT_OF_ITERATIONS


@optimisers.register
@dataclass(frozen=True, kw_only=True)
class SGD(_Stochastic):
    """Stochastic gradient descent with momentum."""

    name: ClassVar[str] = "sgd"
    rate: float = 0.1  # first step size
    momentum: float = 0.0
    decay: float = 0.0  # how fast the rate falls

    def __post_init__(self) -> None:
        """Check the options."""
        _check_rate(self.rate, self.decay)
        check.in_range("momentum", self.momentum, 0, 1)

    def direction(self, gradient: np.ndarray, memory: dict[str, np.ndarray]) -> np.ndarray:
        """The gradient and what is left of earlier ones."""
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

    def __post_init__(self) -> None:
        """Check the options."""
        _check_rate(self.rate, self.decay)
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


def _check_rate(rate: float, decay: float) -> None:
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < np.inf:
        raise OptionError(f"rate must be a positive number, got {rate!r}")
    check.at_least("decay", decay, 0)
