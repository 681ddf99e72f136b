r"""Learning of restricted Boltzmann machines, conditional ones too: gradient steps on mini-batches.

Every step compares rows of data with what the model expects, and `negative` says where that comes from:
chains (`cd`, `random-cd`, `pcd`, `perc-loss`), beliefs (`mean-field`, `tap`, `bp`) or best states with a
margin (`margin`, `joint-margin`, `icm-margin`); see `unit_phases`. The rest is what all learners of weights
share: optimisers with momentum or adaptive moments, priors, validation and patience, checkpoints.

A blank or zero machine begins with the log-odds of the data as visible biases and small random weights.
Beliefs have `sweeps` sweeps in the first epoch and one more in each that follows. What is watched in every
epoch, on validation rows where there are some, is the pseudolikelihood of a unit per row; with `watch=gap`
the mean score of the rows less that of the rows to learn from, which falls when a machine begins to overfit;
of conditional machines minus the share of wrong units, predicted by the method that was learned with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..models.unit_rows import UnitRows, log_odds
from ..optimise.optimisers import Optimiser, optimiser_of
from .base import Fit, Task, register_learner
from .gradient import Aim, GradientLearner
from .log_linear import Objective, StatisticsSource
from .unit_phases import GIBBS, PHASES, NegativePhase
from .unit_sources import FreeEnergyGap, UnitContrast, UnitErrors, UnitPseudolikelihood

__all__ = ["Boltzmann"]

_SMALL = 0.01  # standard deviation of first weights
_MOST = 10  # batches that one evaluation of a mean may take


@register_learner
@dataclass(frozen=True, kw_only=True)
class Boltzmann(GradientLearner):
    """Machines of two layers of units, by chains, beliefs or margins; mini-batches."""

    name: ClassVar[str] = "boltzmann"
    negative: (
        Literal[
            "cd",
            "random-cd",
            "pcd",
            "perc-loss",
            "mean-field",
            "tap",
            "bp",
            "margin",
            "joint-margin",
            "icm-margin",
        ]
        | None
    ) = None  # where the statistics of the model come from; None: pcd, bp where there are features
    sweeps: int | None = None  # of Gibbs sampling per step (1; perc-loss: 10), or of beliefs at first (7)
    particles: int | None = None  # chains that are carried on; None: as many as a batch has rows
    optimiser: str | Optimiser = "sgd(rate=0.05,momentum=0.5)"  # sgd(...) or adam(...)
    batch: int | None = 100  # rows per step
    binarise: bool = False  # whether rows are probabilities of states, which every step draws anew
    centring: bool = False  # whether slopes are those of units less their means
    watch: Literal["pseudolikelihood", "gap"] = "pseudolikelihood"  # what the curves show
    precision: Literal["single", "double"] = "single"  # of the arithmetic

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.negative is not None:
            check.one_of("negative", self.negative, PHASES)
        check.one_of("watch", self.watch, ["gap", "pseudolikelihood"])
        check.one_of("precision", self.precision, ["double", "single"])
        check.one_of("centring", self.centring, [False, True])
        check.one_of("binarise", self.binarise, [False, True])
        for name, value in (("sweeps", self.sweeps), ("particles", self.particles)):
            if value is not None:
                check.whole(name, value, 1)
        if not optimiser_of(self.optimiser).is_stochastic:
            raise OptionError("optimiser: steps of mini-batches are noisy; use adam(...) or sgd(...)")
        if self.tie is not None or self.fixed:
            raise OptionError("tie, fixed: all weights of a Boltzmann machine are learned; leave out")

    def why_not(self, task: Task) -> str | None:
        """Boltzmann machines, with a phase that suits them."""
        model, name = task.model, self._phase(task.model)
        if not hasattr(model, "unit_weights"):
            return f"it learns Boltzmann machines, got {task.name}"
        if getattr(model, "is_conditional", False):
            if name == "pcd":
                return "every row would need a chain of its own to carry on; use negative=random-cd or bp"
            if self.centring:
                return "units whose fields differ from row to row have no common means; leave out centring"
        elif name == "perc-loss":
            return "its chains begin at what features predict, and there are none; use negative=random-cd"
        if getattr(model, "is_real", False):
            if name not in GIBBS:
                return "visible units are numbers, which chains alone treat; use negative=pcd or cd"
            if self.binarise:
                return "visible units are numbers, and no probabilities of states; leave out binarise"
        return None

    def _phase(self, model: Any) -> str:
        """What is asked for, or what suits a machine: chains that are carried on need one for every row."""
        if self.negative is not None:
            return self.negative
        return "bp" if getattr(model, "is_conditional", False) else "pcd"

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Climb on rows of one precision."""
        kind = np.float32 if self.precision == "single" else np.float64
        held = None if task.validation is None else task.validation.as_type(kind)
        found = super().run(replace(task, data=task.data.as_type(kind), validation=held), rng)
        return found

    def weights(self, task: Task) -> Any:
        """All weights of a machine as one vector."""
        kind = np.float32 if self.precision == "single" else np.float64
        return task.model.unit_weights().as_type(kind)

    def begin(self, task: Task, weights: Any, rng: np.random.Generator) -> tuple[np.ndarray, str | None]:
        """The weights given; where nothing was learned, what the data say first."""
        start = weights.start.copy()
        parts, told = weights.parts(start), []
        if not parts[0].any():
            parts[0][:] = _SMALL * rng.standard_normal(parts[0].shape)
            told.append("weights between the layers began at small random numbers")
        if not parts[1].any() and len(parts) == 3 and weights.scale is None:
            parts[1][:] = log_odds(task.data.v)
            told.append("visible biases at the log-odds of the data")
        return start, ", ".join(told) or None

    def sees(self, task: Task, weights: Any, rng: np.random.Generator) -> Aim:
        """The contrast of data and model, and what is shown of it."""
        data: UnitRows = task.data
        size = min(self.batch or len(data), len(data))
        name = self._phase(task.model)
        usual = {"perc-loss": 10}.get(name, 1 if name in GIBBS else 7)
        phase = NegativePhase(
            name,
            rng,
            self.sweeps or usual,
            self.particles or size,
            -(-len(data) // size),
            weights.scale,
        )
        source = UnitContrast(phase, size * _MOST, self.centring, self.binarise)
        watched: StatisticsSource = UnitPseudolikelihood(phase)
        curve = self.watch
        if data.x is not None:
            watched, curve = UnitErrors(phase), "accuracy"  # type: ignore[assignment]
        elif self.watch == "gap":
            watched = FreeEnergyGap(phase, data)
        return Aim(Objective(weights, source), Objective(weights, watched), curve)

    def notes(self, seen: Aim) -> list[str]:
        """How often beliefs settled."""
        phase = seen.objective.source.phase  # type: ignore[attr-defined]
        done, rows = phase.settled
        return [f"beliefs settled on {done / rows:.3f} of the rows of the last epoch"] if rows else []
