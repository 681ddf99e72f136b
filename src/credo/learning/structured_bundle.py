r"""Cutting planes for convex risks: every pass asks about all instances at one place, in batches.

    P(w) = lam/2 |w|^2 + R(w) - g . w - c,     R = (1/N) sum_n U_n+,     lam = 1 / (scale^2 N)

R is convex; its value and slope at a place make a plane below it, b_k + a_k . w. The planes met so far give

    D = max over mixtures of planes  - |sum_k mix_k (a_k - g)|^2 / (2 lam) + sum_k mix_k b_k - c  <=  min P
    w = - (1 / lam) sum_k mix_k (a_k - g)

where the next plane is cut. The gap is the lowest P met less D, and bounds what is missing. g . w + c is the
known part, linear where nothing is hidden, otherwise its tangent; planes stay below R whatever the tangent.
The mixture is a quadratic over few numbers (`optimise.simplex`); planes that are in no mixture for some
passes are dropped.

Source: Teo, Vishwanathan, Smola and Le 2010; Joachims, Finley and Yu 2009 (one slack).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.records import record
from ..optimise.driver import UNKNOWN, Outcome, Step
from ..optimise.run import Run
from ..optimise.simplex import lowest_mixture
from .structured_risk import like

__all__ = ["Bundle", "BundleProblem", "BundleState"]

_IDLE = 20  # passes without a share in the mixture after which a plane is dropped


@record("bundle")
class BundleState(NamedTuple):
    """Planes, the place they lead to, and the lowest place met."""

    w: np.ndarray  # where the next plane is cut
    slopes: np.ndarray  # (planes, weights) a_k
    offsets: np.ndarray  # (planes,) b_k
    mix: np.ndarray  # (planes,) shares
    idle: np.ndarray  # (planes,) passes since a share was last positive
    best: np.ndarray  # the lowest place met
    value: float = np.inf  # P there
    dual: float = -np.inf  # D


@dataclass(frozen=True)
class BundleProblem:
    """A convex risk."""

    weights: Any  # ScoreWeights
    answers: Any  # of the two questions
    batch: Any  # the instances
    scale: float  # of the prior
    slope: np.ndarray  # g: the known part per instance
    constant: float  # c
    first: np.ndarray  # where to begin
    warm: BundleState | None = None  # planes of an earlier tangent
    known: float = np.inf  # P at the first place, where that is known

    @property
    def lam(self) -> float:
        """The strength of the squares."""
        return float(1.0 / (self.scale**2 * self.batch.total))

    def cut(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """R and its slope."""
        scores = self.weights.scores(w, self.batch)
        found = self.answers.charged(scores, self.batch)
        slope = self.weights.pull(like(scores, found.slopes), self.batch)
        return float(found.values.sum()) / self.batch.total, slope / self.batch.total

    def value(self, w: np.ndarray, risk: float) -> float:
        """P, where R is known."""
        return 0.5 * self.lam * float(w @ w) + risk - float(self.slope @ w) - self.constant


@dataclass(frozen=True)
class Bundle:
    """Passes of cutting planes, as the driver sees them."""

    name: str = "bundle"  # in progress bars

    def start(self, problem: BundleProblem, run: Run) -> Step:
        """No plane yet, or those of an earlier problem."""
        if problem.warm is not None:
            old = problem.warm
            mix, dual = _mixture(problem, old.slopes, old.offsets, old.mix)
            w = -((mix @ old.slopes) - problem.slope) / problem.lam
            return Step(old._replace(w=w, mix=mix, best=problem.first, value=problem.known, dual=dual))
        none, zero = np.empty(0), problem.first
        return Step(BundleState(zero, np.empty((0, len(zero))), none, none, none, zero))

    def advance(self, problem: BundleProblem, state: BundleState, run: Run) -> Step:
        """One more plane, the best mixture, and the place it leads to."""
        risk, slope = problem.cut(state.w)
        value = problem.value(state.w, risk)
        best = (state.w, value) if value < state.value else (state.best, state.value)
        slopes = np.concatenate([state.slopes, slope[None]])
        offsets = np.append(state.offsets, risk - slope @ state.w)
        mix, dual = _mixture(problem, slopes, offsets, np.append(state.mix, 0.0))
        idle = np.where(mix > 0, 0.0, np.append(state.idle, 0.0) + 1)
        kept = idle < _IDLE
        w = -((mix @ slopes) - problem.slope) / problem.lam
        dual = max(dual, state.dual)
        gap = max(best[1] - dual, 0.0)
        new = BundleState(w, slopes[kept], offsets[kept], mix[kept], idle[kept], *best, dual)
        trace = {"objective": [-best[1]], "dual": [dual], "gap": [min(gap, UNKNOWN)]}
        return Step(new, [min(gap, UNKNOWN)], trace)

    def value(self, state: BundleState) -> float:
        """Minus the lowest value met."""
        return -state.value

    def read(self, problem: BundleProblem, outcome: Outcome) -> Outcome:
        """What the driver knows."""
        return outcome


def _mixture(
    problem: BundleProblem, slopes: np.ndarray, offsets: np.ndarray, mix: np.ndarray
) -> tuple[np.ndarray, float]:
    """Shares of the planes that make the highest D, and D."""
    away = slopes - problem.slope
    square = (away @ away.T) / problem.lam
    shares = lowest_mixture(square, offsets, mix)
    return shares, float(offsets @ shares - 0.5 * shares @ square @ shares) - problem.constant
