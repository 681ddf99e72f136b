r"""Contrastive divergence: the model's expectations from a few Gibbs sweeps.

    dw = (1/N) sum_rows phi(x) - (1/M) sum_samples phi(x')

The samples start at the data at each step (CD-k) or are carried on from step to step (`persistent`, also
known as stochastic maximum likelihood, whose expectations are right if the weights move slowly). Missing
values are filled in by sweeps with the observed ones clamped. The gradient is noisy and, for CD-k, biased:
there is no objective that it climbs. The curve shows the pseudolikelihood of the data instead, where they
are complete, else the score difference; learning stops when it is flat or the budget is used up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..data.table import StateTable
from ..optimise.optimisers import Optimiser, optimiser_of
from .base import Task, register_learner
from .gradient import Aim, GradientLearner
from .log_linear import Objective
from .parameters import why_not_linear
from .table_sources import Contrastive, Pseudolikelihood

__all__ = ["ContrastiveDivergence"]


@register_learner
@dataclass(frozen=True, kw_only=True)
class ContrastiveDivergence(GradientLearner):
    """Stochastic ascent with Gibbs samples in place of inference."""

    name: ClassVar[str] = "contrastive-divergence"
    sweeps: int = 1  # Gibbs sweeps per step
    persistent: bool = False  # whether samples are carried on
    particles: int = 100  # how many, if so
    optimiser: str | Optimiser = "adam(rate=0.05,decay=0.05)"  # adam(...) or sgd(...)
    batch: int | None = 200  # rows per step

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("sweeps", self.sweeps, 1)
        check.whole("particles", self.particles, 1)
        super().__post_init__()
        if not optimiser_of(self.optimiser).is_stochastic:
            raise OptionError("optimiser: contrastive gradients are noisy; use adam(...) or sgd(...)")

    def why_not(self, task: Task) -> str | None:
        """Undirected models of named variables, any data."""
        if not isinstance(task.data, StateTable):
            return why_not_linear(task.model) or "it draws rows of named variables"
        return super().why_not(task)

    def sees(self, task: Task, weights: Any, rng: np.random.Generator) -> Aim:
        """Samples; the log-likelihood itself is never computed."""
        source = Contrastive(weights.graph, rng, self.sweeps, self.persistent, self.particles)
        whole = task.data.is_complete and (task.validation is None or task.validation.is_complete)
        watched = Objective(weights, Pseudolikelihood(weights.graph)) if whole else None
        curve = "pseudolikelihood" if whole else "score_difference"
        return Aim(Objective(weights, source), watched, curve)
