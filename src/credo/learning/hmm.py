r"""Models of hidden rows as EM sees them: hidden Markov models, mixtures, any `Learnable`.

Each iteration collects expected counts under the current model (of chains by forward-backward: Baum-Welch)
and puts the parameters that maximise

    E[log p(x, hidden | parameters)] + log prior(parameters)

in their place, so the objective, log p(x) + log prior, never falls. Variances that are raised to a floor are
the best of those allowed, so that only the first step may fall, from a start with smaller ones. The objective
has many maxima: `restarts` climbs from random models too and keeps the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from ..core.errors import DataError
from ..core.result import Kind
from ..data.dataset import Dataset
from ..data.stream import Stream
from ..families.independent import IndependentRows
from ..inference.portfolio.templates import total_log_z
from .base import Fit
from .em_data import DividedData, Expected, Place, unit_batches
from .em_steps import EMProblem, EMRun, EMStart, fit_of
from .hidden_rows import RowsOracle, expect_rows

__all__ = ["HiddenRows"]

_FALL = 1e-9  # relative fall of the objective that rounding explains
_FLOOR_FALL = 1e-6  # the same where variances are at a floor far below those of other directions


@dataclass(frozen=True)
class HiddenRows(DividedData, EMProblem):
    """A model of hidden rows with its sequences; the parameters are models."""

    first: Any  # the model of the first start
    data: Dataset  # to learn from
    prior: Any = None  # for a MAP estimate
    fixed: tuple[str, ...] = ()  # parts that are not learned
    floor: float = 0.0  # of variances
    unseen: Literal["keep", "refuse"] = "keep"  # states that the data never visit
    held: Dataset | None = None  # to watch only
    random: bool = False  # whether the first start is random too
    stream: Stream | None = None  # where all data come from, if `data` are the first batch only
    oracle: RowsOracle | None = None  # what answers instead of the exact recursions
    is_whole: bool = True  # whether these are all data that are learned from

    @property
    def rows(self) -> float:  # type: ignore[override]
        """Steps of data, each counted with the weight of its sequence."""
        return self.data.total_rows if self.stream is None else self.stream.total

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        """The model that was given, then random ones."""
        if self.oracle is not None:
            self.oracle.beliefs = None  # what is believed under another model is no start
        given = number == 0 and not self.random
        return EMStart(self.first if given else self.first.initialise(self.data, rng, fixed=self.fixed))

    def expect(self, parameters: Any) -> Expected:
        """Forward-backward, or what was asked for instead."""
        if self.oracle is None:
            found = expect_rows(parameters, self.data)
        else:
            found = self.oracle.expect(parameters, self.data, is_whole=self.is_whole)
        return Expected(found.log_likelihood, found)

    @property
    def memory(self) -> tuple[Any, ...]:
        """What expectations change."""
        return () if self.oracle is None else (self.oracle,)

    def is_monotone(self) -> bool:
        """Where expectations are exact."""
        return self.oracle is None

    def kind(self) -> Kind:
        """What the value is."""
        kinds = {"exact"} if self.oracle is None else self.oracle.kinds
        return "exact" if kinds == {"exact"} else "lower" if kinds <= {"exact", "lower"} else "estimate"

    def maximise(self, statistics: Any, parameters: Any) -> Any:
        """Parameters from counts."""
        if self.unseen == "refuse":
            self._check_seen(statistics.emission.count)
        return parameters.update(statistics, self.prior, fixed=self.fixed, floor=self.floor)

    def _check_seen(self, visits: np.ndarray) -> None:
        if (visits <= 0).any():
            k = int(np.argmin(visits))
            raise DataError(
                f"state {k}: the data never visit it, so nothing can be learned about it; "
                'use fewer states, or unseen="keep"'
            )

    def movement(self, old: Any, new: Any) -> float:
        """See `Learnable.movement`."""
        return float(old.movement(new))

    def log_prior(self, parameters: Any) -> float:
        """Of all parts that have a prior."""
        return 0.0 if self.prior is None else float(parameters.log_prior(self.prior))

    def made(self, parameters: Any) -> Any:
        """The model; of independent rows the family."""
        return parameters.family if isinstance(parameters, IndependentRows) else parameters

    def is_closed_form(self) -> bool:
        """Complete rows of a family without choices: nothing is hidden, and nothing filled in."""
        is_sure = isinstance(self.first, IndependentRows) and self.first.family.is_closed
        return is_sure and self.stream is None and self.data.is_complete

    def fall(self, number: int) -> float:
        """A start may have variances below the floor, and then the first step falls."""
        if self.floor > 0 and number == 2:
            return np.inf
        return _FLOOR_FALL if self.floor > 0 else _FALL

    def validate(self, parameters: Any) -> float | None:
        """Per step of the sequences that are watched."""
        if self.held is None:
            return None
        return total_log_z(parameters, self.held) / self.held.total_rows

    def part(self, batch: Dataset) -> Any:
        """With the sequences of a batch."""
        return self._of(self.first.sequences(batch))

    def _of(self, data: Dataset) -> Any:
        return replace(self, data=data, stream=None, is_whole=False)

    def own_batches(self, size: int, seed: int, place: Place) -> Iterator[tuple[Callable[[Any], Any], Place]]:
        """So many sequences at a time."""
        for units, end in unit_batches(np.flatnonzero(self.data.weights), size, seed, place):
            yield partial(self._learn_part, self._of(self.data.take(units))), end

    def scaled(self, statistics: Any, by: float) -> Any:
        """All of them."""
        return statistics.scaled(by)

    def report(self) -> list[str]:
        """About how expectations were found, and rows whose state is known."""
        told = [] if self.oracle is None else self.oracle.report()
        if not self.data.targets:
            return told
        known = int((self.data.column(self.data.targets[0]).values >= 0).sum())
        return [
            *told,
            f"the states of {known} of {self.data.n_rows} rows are known; likelihoods are of these too",
        ]

    def fit_of(self, found: EMRun) -> Fit:
        """The fit, as far as it is known without more work."""
        fit = fit_of(self, found)
        if len(found.values) < 2:
            return fit
        told = f"the best of {len(found.values)} starts; their objectives per step: "
        ends = (found.values / self.rows).round(6).tolist()
        return replace(fit, notes=(*fit.notes, f"{told}{ends}"))
