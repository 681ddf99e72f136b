"""What happens between epochs: validation, and stopping when it gets no better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple, Protocol

from ..core import check
from ..core.result import Status
from ..optimise.driver import UNKNOWN

__all__ = ["EarlyStopping", "Hook", "HookTurn"]


@dataclass(frozen=True)
class HookTurn:
    """What a hook says after an epoch."""

    carry: Any  # to go on with
    memory: Any = None  # of the hook, which has none of its own: it is part of the state
    residual: float = UNKNOWN  # how far the answer is, if that is known
    status: Status | None = None  # ends the run
    numbers: Mapping[str, float] = field(default_factory=dict)  # for the trace


class Hook(Protocol):
    """Called on the host between chunks."""

    def begin(self, carry: Any) -> Any:
        """Its memory before the first epoch."""

    def after(self, epoch: int, carry: Any, means: Mapping[str, float], memory: Any) -> HookTurn:
        """An epoch is over; `means` are those of its metrics."""

    def choose(self, carry: Any, memory: Any) -> Any:
        """What the run answers with at this moment."""


class _Best(NamedTuple):
    """The best state so far."""

    carry: Any
    value: float = -inf  # larger is better
    since: int = 0  # epochs without a better one


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when a value that should rise has not done so for some epochs; the answer is the best state."""

    evaluate: Callable[[Any], float]  # of a state, larger is better
    patience: int  # epochs without a better value after which the run stops
    name: str = "validation"  # in the trace

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("patience", self.patience, 1)

    def begin(self, carry: Any) -> _Best:
        """Nothing is known yet."""
        return _Best(carry)

    def after(self, epoch: int, carry: Any, means: Mapping[str, float], memory: _Best) -> HookTurn:
        """Keep the better state; say how it does, and stop after `patience` epochs without a better one."""
        value = float(self.evaluate(carry))
        best = _Best(carry, value) if value > memory.value else memory._replace(since=memory.since + 1)
        # As with patience elsewhere: to have stopped where validation is best is what was asked for.
        status = Status.CONVERGED if best.since >= self.patience else None
        return HookTurn(carry, best, status=status, numbers={self.name: value})

    def choose(self, carry: Any, memory: _Best) -> Any:
        """The best state; the present one before there is a value."""
        return memory.carry if memory.value > -inf else carry
