r"""The concave-convex procedure for risks with hidden variables.

    f(w) = lam/2 |w|^2 + (1/N) sum_n [ U_n+(w) - U_n-(w) ],   both parts convex

Every tangent of U- makes a convex problem that lies above f and touches it where the tangent does. It is
worked on by cutting planes or block-coordinate Frank-Wolfe (labels that are maximised: planes are kept from
one tangent to the next, since U+ does not change), by L-BFGS (smooth members) or by sub-gradients.

How far a place is from being stationary: f there less the dual bound of the convex problem that touches
there, which is all that this problem could gain; without planes the largest slope, or where there are kinks
what the last problem gained. A norm of a sub-gradient would do for neither. A descent over kinks that found
nothing lower says nothing about the place, since its steps may be too long: it has stalled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..optimise.driver import UNKNOWN, Outcome, Step
from ..optimise.frank_wolfe import FrankWolfeState
from ..optimise.optimisers import Loss, Optimiser
from ..optimise.run import Run
from .log_linear import Objective
from .priors import Prior
from .structured_bundle import BundleProblem, BundleState
from .structured_planes import Planed, PlaneParts, PlaneProblem
from .structured_risk import like

__all__ = ["BundledRisk", "HiddenRisk", "PlanedRisk", "Tangents"]


@dataclass
class HiddenRisk:
    """The whole function, and its convex problems for descents along slopes."""

    objective: Objective  # minus the mean risk
    prior: Prior  # smooth
    batch: Any  # the instances
    first: np.ndarray  # weights to start from
    is_smooth: bool  # whether the largest slope says how far it is
    # value and slope at the last few places
    _known: dict[bytes, tuple[float, np.ndarray]] = field(default_factory=dict, repr=False)

    def begin(self) -> Any:
        """The weights to start from."""
        return self.first

    def weights_of(self, x: Any) -> np.ndarray:
        """The weights of a place."""
        found: np.ndarray = x
        return found

    def at(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and a slope; the last few are kept, because several questions are asked about a place."""
        key = w.tobytes()
        if key not in self._known:
            while len(self._known) >= 8:
                self._known.pop(next(iter(self._known)))
            value, slope = self.objective.evaluate(w, self.batch)
            self._known[key] = self._with_prior(w, -value, -slope)
        return self._known[key]

    def _with_prior(self, w: np.ndarray, value: float, slope: np.ndarray) -> tuple[float, np.ndarray]:
        extra, more = self.prior.smooth(w)
        total = self.batch.total
        return value - extra / total, slope - more / total

    def value(self, x: Any) -> float:
        """The risk with its prior."""
        return self.at(self.weights_of(x))[0]

    def bound(self, x: Any) -> Any:
        """The convex function that touches at `x`, and its slopes."""
        w, total = self.weights_of(x), self.batch.total
        source: Any = self.objective.source
        weights, answers = self.objective.weights, source.answers
        slope, constant = self.tangent(w)

        def full(place: np.ndarray) -> tuple[float, np.ndarray]:
            scores = weights.scores(place, self.batch)
            plus = answers.charged(scores, self.batch)
            value = (float(plus.values.sum()) - constant - float(slope @ place)) / total
            turn = weights.pull(like(scores, plus.slopes), self.batch) - slope
            return self._with_prior(place, value, turn / total)

        return w, Loss(full)

    def tangent(self, w: np.ndarray) -> tuple[np.ndarray, float]:
        """Slope and constant of the sum of the known parts, linear at `w`."""
        source: Any = self.objective.source
        weights = self.objective.weights
        scores = weights.scores(w, self.batch)
        known = source.answers.clamped(scores, self.batch)
        slope: np.ndarray = weights.pull(like(scores, known.slopes), self.batch)
        return slope, float(known.values.sum()) - float(slope @ w)

    def place(self, state: Any) -> Any:
        """Where a descent is."""
        return state[0].weights

    def change(self, old: Any, new: Any) -> float:
        """The largest slope, or what was gained."""
        if self.is_smooth:
            return float(np.abs(self.at(new)[1]).max(initial=0.0))
        gained = self.value(old) - self.value(new)
        return gained / max(1.0, abs(self.value(new))) if gained > 0 else UNKNOWN


@dataclass
class BundledRisk(HiddenRisk):
    """The same with cutting planes, which are kept from one tangent to the next."""

    scale: float = 1.0  # of the prior

    def begin(self) -> Any:
        """No planes yet."""
        none, zero = np.empty(0), self.first
        return BundleState(zero, np.empty((0, len(zero))), none, none, none, zero)

    def weights_of(self, x: Any) -> np.ndarray:
        """The weights of a place."""
        found: np.ndarray = x.best
        return found

    def bound(self, x: Any) -> Any:
        """Planes lie below the convex part, wherever the tangent touches."""
        w, total = x.best, self.batch.total
        slope, constant = self.tangent(w)
        source: Any = self.objective.source
        warm, known = (x, self.value(x)) if len(x.offsets) else (None, np.inf)
        return BundleProblem(
            self.objective.weights, source.answers, self.batch, self.scale, slope / total, constant / total,
            w, warm, known,
        )  # fmt: skip

    def place(self, state: BundleState) -> Any:
        """The lowest place met, with all planes."""
        return state

    def change(self, old: Any, new: Any) -> float:
        """What the convex problem at the old place could still gain at most."""
        return max(self.value(old) - new.dual, 0.0)


class Tangents:
    """An optimiser on one convex problem after another, as the driver sees it."""

    def __init__(self, optimiser: Optimiser) -> None:
        self._optimiser, self.name = optimiser, optimiser.name

    def start(self, problem: tuple[np.ndarray, Loss], run: Run) -> Step:
        """The value and slope at the place that is touched."""
        return self._optimiser.begin(problem[1], problem[0])._replace(residuals=[])

    def advance(self, problem: tuple[np.ndarray, Loss], state: Any, run: Run) -> Step:
        """One iteration."""
        return self._optimiser.advance(problem[1], state, run)

    def read(self, problem: Any, outcome: Outcome) -> Outcome:
        """What the driver knows."""
        return outcome


@dataclass
class PlanedRisk(HiddenRisk):
    """The same with planes: convex problems for block-coordinate Frank-Wolfe."""

    source: PlaneParts = None  # type: ignore[assignment]
    scale: float = 1.0  # of the prior
    average: bool = True  # whether averages are looked at

    def begin(self) -> Any:
        """Planes of the known labels at the start."""
        tangent = self.source.tangent(self.first)
        return Planed(self.first, tangent.means, tangent.offsets, self.first)

    def weights_of(self, x: Any) -> np.ndarray:
        """The weights of a place."""
        found: np.ndarray = x.w
        return found

    def bound(self, x: Any) -> Any:
        """Planes stay below the convex part, wherever the tangent touches."""
        return PlaneProblem(self.source, self.source.tangent(x.w), self.scale, x)

    def place(self, state: FrankWolfeState) -> Any:
        """The lower of the last place and the average, with the planes of the last."""
        x: Planed = state.x
        here = x._replace(dual=-state.value)
        if not self.average or self.at(x.w)[0] <= self.at(x.average)[0]:
            return here
        return here._replace(w=x.average)

    def change(self, old: Any, new: Any) -> float:
        """What the convex problem at the old place could still gain at most."""
        return max(self.value(old) - new.dual, 0.0)
