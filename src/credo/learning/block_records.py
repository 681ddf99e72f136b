"""What training of a normal-form graph reads, and what it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.display import Listing, Shown
from ..core.errors import DataError
from ..core.numbers import float_array
from ..core.records import register
from ..core.result import Status
from ..models.normal_form import NormalForm
from ..models.normal_form_messages import Messages

__all__ = ["BlockFit", "BlockRun", "BlockSamples"]


@register("BlockRun")
@dataclass(frozen=True, repr=False)
class BlockRun:
    """One training from one start."""

    model: NormalForm  # after the last epoch
    status: Status  # why it stopped
    log_likelihood: np.ndarray  # (epochs + 1,) total of the samples learned from
    metric: np.ndarray  # (epochs + 1,) total pseudo-log-likelihood of the samples learned from
    test_log_likelihood: np.ndarray  # (epochs + 1,) total of the samples the mask leaves out
    test_metric: np.ndarray  # (epochs + 1,) total of the samples the mask leaves out
    trajectories: Mapping[str, np.ndarray]  # parameter -> (epochs + 1, rows, columns)

    @property
    def epochs(self) -> int:
        """How many were run."""
        return len(self.metric) - 1

    def __repr__(self) -> str:
        return (
            f"{self.status.value} after {self.epochs} epochs: log-likelihood {self.log_likelihood[0]:.6g} -> "
            f"{self.log_likelihood[-1]:.6g}, metric {self.metric[0]:.6g} -> {self.metric[-1]:.6g}"
        )


@register("BlockFit")
@dataclass(frozen=True, repr=False)
class BlockFit(Shown):
    """All runs of a training; `best` has the largest final log-likelihood."""

    runs: tuple[BlockRun, ...]  # one per start, in order
    rule: str  # the specification that ran
    seconds: float  # wall time

    @property
    def best(self) -> BlockRun:
        """The run with the largest final log-likelihood."""
        return max(self.runs, key=lambda run: run.log_likelihood[-1])

    @property
    def model(self) -> NormalForm:
        """The graph of the best run."""
        return self.best.model

    def __repr__(self) -> str:
        return f"{self._run()}\n{self.model!r}"

    def _run(self) -> str:
        return f"{self.rule}: {len(self.runs)} runs, {self.seconds:.3g} s; best {self.best!r}"

    def _shown(self) -> Iterable[str | Listing]:
        return [self._run(), *self.model._shown()]


@dataclass(frozen=True)
class BlockSamples:
    """Messages of the open ends, and how much each row of them counts."""

    given: Messages  # of the open ends
    train: np.ndarray  # (rows,) how much each counts in learning
    test: np.ndarray  # (rows,) how much each counts among those not learned from

    @classmethod
    def of(cls, graph: NormalForm, evidence: Any, mask: Any = None, floor: float = 0.0) -> BlockSamples:
        """Read and check evidence and mask."""
        given = graph.open_messages(evidence, floor)
        if not given.observed.any():
            raise DataError("data: expected evidence on at least one terminal, got none")
        weights = np.ones(len(given)) if mask is None else float_array("mask", mask, error=DataError)
        if weights.shape != (len(given),) or not ((weights >= 0) & (weights < np.inf)).all():
            raise DataError(
                f"mask: expected {len(given)} non-negative numbers, one per sample, got shape {weights.shape}"
            )
        if not weights.any():
            raise DataError("mask: expected at least one sample to learn from, got none")
        return cls(given, weights, 1.0 * (weights == 0))

    def distinct(self) -> BlockSamples:
        """Equal rows once, with the sums of what they count."""
        keys = np.column_stack([self.given.flat, self.given.log_z])
        _, first, row_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        row_of = row_of.ravel()
        flat, log_z, observed = (x[first] for x in (self.given.flat, self.given.log_z, self.given.observed))
        return BlockSamples(
            replace(self.given, flat=flat, log_z=log_z, observed=observed),
            np.bincount(row_of, self.train, len(first)),
            np.bincount(row_of, self.test, len(first)),
        )
