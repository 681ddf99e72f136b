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
from ..optimise.optimisers import Optimiser, optimiser_of
from .ascent import Ascent, break_symmetry
from .base import Fit, Learner, Task, register_learner
from .likelihood import check_ascent
from .objectives import Contrastive, Pseudolikelihood
from .parameters import Parameters, why_not_linear
from .priors import Prior, prior_of

__all__ = ["ContrastiveDivergence"]


@register_learner
@dataclass(frozen=True, kw_only=True)
class ContrastiveDivergence(Learner):
    """Stochastic ascent with Gibbs samples in place of inference."""

    name: ClassVar[str] = "contrastive-divergence"
    checkpoints: ClassVar[bool] = True
    sweeps: int = 1  # Gibbs sweeps per step
    persistent: bool = False  # whether samples are carried on
    particles: int = 100  # how many, if so
    optimiser: str | Optimiser = "adam(rate=0.05,decay=0.05)"  # adam(...) or sgd(...)
    prior: str | Prior | None = None  # gaussian(...), laplace(...), elastic(...)
    batch: int | None = 200  # rows per step
    tie: Any = None  # which tables are one: None, "shape", or lists of factor positions
    fixed: tuple[int, ...] = ()  # factors that are not learned
    patience: int | None = None  # epochs without a better validation value before stopping

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("sweeps", self.sweeps, 1)
        check.whole("particles", self.particles, 1)
        check_ascent(self.optimiser, self.prior, self.batch, self.patience)
        if not optimiser_of(self.optimiser).is_stochastic:
            raise OptionError("optimiser: contrastive gradients are noisy; use adam(...) or sgd(...)")

    def why_not(self, task: Task) -> str | None:
        """Undirected models, any data."""
        return why_not_linear(task.model)

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Epochs of sampling and steps; the log-likelihood itself is never computed."""
        parameters = Parameters.of(task.model, tie=self.tie, fixed=self.fixed)
        objective = Contrastive(parameters, rng, self.sweeps, self.persistent, self.particles)
        whole = task.data.is_complete and (task.validation is None or task.validation.is_complete)
        hidden = task.data.variables.positions(task.data.hidden)
        graph = parameters.graph_at(parameters.start)
        start, note = break_symmetry(graph, hidden, parameters.start, rng)
        ascent = Ascent(
            objective, prior_of(self.prior), optimiser_of(self.optimiser), task.data, task.validation,
            Pseudolikelihood(parameters) if whole else None, self.batch, self.patience, self.name,
        )  # fmt: skip
        weights, status, trace, early = ascent.run(start, task.budget, rng)
        trace["pseudolikelihood" if whole else "score_difference"] = trace.pop("log_likelihood")
        notes = (note,) if note else ()
        return Fit(
            parameters.model(weights), status, trace["objective"], None, trace, notes=notes,
            stopped_early=early,
        )  # fmt: skip
