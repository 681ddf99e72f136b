"""What was believed after an iteration, in few numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.records import record

__all__ = ["ParticleStep", "moves"]


@record("particle step")
@dataclass(frozen=True)
class ParticleStep:
    """Moments and probabilities after one iteration."""

    mean: np.ndarray  # (real variables,)
    sd: np.ndarray  # (real variables,)
    effective: np.ndarray  # (real variables,) number of equally weighted particles worth as much
    shares: np.ndarray  # (discrete variables, k) probabilities of states
    note: float  # what the method counts

    def change(self, before: ParticleStep) -> float:
        """Largest move of a mean, in standard deviations, or of a probability."""
        sd = np.maximum(np.maximum(self.sd, before.sd), 1e-300)
        moved = (np.abs(self.mean - before.mean) / sd).max(initial=0.0)
        return float(max(moved, np.abs(self.shares - before.shares).max(initial=0.0)))


def moves(steps: Sequence[ParticleStep]) -> np.ndarray:
    """How far beliefs moved in every iteration, the noise of draws included."""
    return np.array([new.change(old) for old, new in itertools.pairwise(steps)])
