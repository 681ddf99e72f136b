r"""Generalised EM: hidden rows whose leaves have no closed form.

Choices, tables and the leaves that follow from sums are updated as in EM. The others are moved by gradient
steps on Q with the weights q of the E-step, which never lower it (`leaf_steps.climb_surely`), so the
objective never falls. The parameters carry what Adam remembers, so that each M-step goes on where the one
before stopped, and checkpoints keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.records import record
from .em_data import Expected
from .em_steps import EMStart
from .hidden_rows import expect_rows
from .hmm import HiddenRows
from .leaf_steps import RATE, ClimbPace, climb_surely

__all__ = ["ClimbedRows", "Climbing"]


@record("climbing")
class Climbing(NamedTuple):
    """A model and how its leaves move."""

    model: Any
    pace: ClimbPace = ClimbPace()


@dataclass(frozen=True)
class ClimbedRows(HiddenRows):
    """A model of hidden rows with its data; the parameters are `Climbing`."""

    steps: int = 50  # gradient steps of one M-step

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        """As of closed forms."""
        return EMStart(Climbing(super().start(rng, number).parameters))

    def expect(self, parameters: Climbing) -> Expected:
        """Statistics, and the weights of all rows."""
        found = expect_rows(parameters.model, self.data, keeps_q=True)
        return Expected(found.log_likelihood, found)

    def maximise(self, statistics: Any, parameters: Climbing) -> Climbing:
        """Gradient steps, then closed forms."""
        model, pace = parameters
        if "emission" not in self.fixed:
            rows = self.data.rows()
            moved, pace = climb_surely(model.emission, rows, statistics.q, pace, steps=self.steps)
            emission = replace(statistics.emission, free=moved.to_free())
            statistics = replace(statistics, emission=emission)
        return Climbing(super().maximise(statistics, model), pace)

    def movement(self, old: Climbing, new: Climbing) -> float:
        """That of the model, as if the steps had not been shortened: short steps are no convergence."""
        if new.pace.is_stuck:
            return np.inf
        return super().movement(old.model, new.model) * RATE / new.pace.rate

    def log_prior(self, parameters: Climbing) -> float:
        """Of the model."""
        return super().log_prior(parameters.model)

    def made(self, parameters: Climbing) -> Any:
        """The model."""
        return super().made(parameters.model)

    def validate(self, parameters: Climbing) -> float | None:
        """Of the model."""
        return super().validate(parameters.model)

    def report(self) -> list[str]:
        """What was not done in closed form."""
        name = type(self.first.emission).__name__
        told = f"generalised em: {name} has no closed form for all its leaves; gradient steps move them"
        return [*super().report(), told]
