"""When particles are drawn anew, and when they are kept until the messages made of them come to rest.

While particles are drawn, beliefs move by the noise of the draws, which does not vanish: such a step has no
residual. Once late means differ from earlier ones by no more than that noise, the particles have found their
places and stay. From there on an iteration is one of belief propagation on a discrete model whose states are
the particles, and its residual vanishes at a fixed point: the largest distance of the weights of a message
from those before,

    max over messages of  1/2 sum_k |w_k' - w_k|.

Where the beliefs move away from particles that are kept, so that few of them hold all weight, they are drawn
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...core.records import record
from .steps import ParticleStep

__all__ = ["FIRST", "DrawPace", "distance", "has_settled"]

_DRIFT = 3.0  # of averages over iterations, in their standard errors
_LEAST = 8  # draws before particles are kept
_WORN = 0.25  # share of the effective number of particles at which they are drawn again


@record("particle pace")
class DrawPace(NamedTuple):
    """Where a run is between draws and iterations that keep them."""

    since: int = 1  # the first step of the draws that go on, or were last
    kept: int = 0  # iterations since the last draw

    def draws(self, steps: Sequence[ParticleStep], redraws: int | None) -> bool:
        """Whether the next iteration draws particles anew: the first `redraws` do, if that is given."""
        if redraws is not None:
            return len(steps) <= redraws
        if not self.kept:
            return not has_settled(steps[self.since :])
        drawn = steps[-1 - self.kept].effective
        return bool((steps[-1].effective < _WORN * drawn).any())

    def after(self, steps: Sequence[ParticleStep], drew: bool) -> DrawPace:
        """Where the run is after the last of these steps."""
        if not drew:
            return self._replace(kept=self.kept + 1)
        return DrawPace(len(steps) - 1) if self.kept else self


FIRST = DrawPace()  # nothing was drawn yet but the start


def has_settled(steps: Sequence[ParticleStep]) -> bool:
    """Whether the means of the last quarter of some iterations are those of the quarter before.

    Differences are measured in the standard errors that independent particles would give them, and their
    root mean square over all variables is compared.
    """
    width = len(steps) // 4
    if len(steps) < _LEAST:
        return False
    late, early = steps[-width:], steps[-2 * width : -width]
    gap = sum(s.mean for s in late) - sum(s.mean for s in early)
    error = np.sqrt(sum(s.sd**2 / s.effective for s in (*late, *early)))
    score = np.asarray(gap) / np.maximum(error, 1e-300)
    return bool(np.sqrt(np.mean(score**2)) < _DRIFT)


def distance(log_new: np.ndarray, log_old: np.ndarray) -> float:
    """The largest total variation between rows of weights, given by their logs."""
    return float(0.5 * np.abs(np.exp(log_new) - np.exp(log_old)).sum(axis=1).max(initial=0.0))
