r"""Maximum pseudolikelihood: each variable predicted from all others.

    l(w) = (1/N) sum_rows sum_i log p(x_i | x_-i; w)

Concave in the weights of a log-linear model, and consistent: with complete data from a model of the same
family the optimum tends to the true distribution as rows grow (less efficiently than the likelihood). No
inference is needed, so one step costs O(rows * edges), whatever the structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..optimise.optimisers import Optimiser, optimiser_of
from .ascent import Ascent
from .base import Fit, Learner, Task, register_learner
from .likelihood import check_ascent
from .objectives import Pseudolikelihood
from .parameters import Parameters, why_not_linear
from .priors import Prior, prior_of

__all__ = ["MaximumPseudolikelihood", "incomplete"]


@register_learner
@dataclass(frozen=True, kw_only=True)
class MaximumPseudolikelihood(Learner):
    """Gradient ascent on the pseudolikelihood; for complete data."""

    name: ClassVar[str] = "pseudolikelihood"
    monotone: ClassVar[bool] = True
    checkpoints: ClassVar[bool] = True
    optimiser: str | Optimiser = "lbfgs"  # lbfgs, adam(...), sgd(...)
    prior: str | Prior | None = None  # gaussian(...), laplace(...), elastic(...)
    batch: int | None = None  # rows per step of a stochastic optimiser
    tie: Any = None  # which tables are one: None, "shape", or lists of factor positions
    fixed: tuple[int, ...] = ()  # factors that are not learned
    patience: int | None = None  # iterations without a better validation value before stopping

    def __post_init__(self) -> None:
        """Check the options."""
        check_ascent(self.optimiser, self.prior, self.batch, self.patience)

    def why_not(self, task: Task) -> str | None:
        """Undirected models and complete rows."""
        return why_not_linear(task.model) or incomplete(task, "use likelihood")

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Climb; the log-likelihood itself is never computed."""
        parameters = Parameters.of(task.model, tie=self.tie, fixed=self.fixed)
        ascent = Ascent(
            Pseudolikelihood(parameters), prior_of(self.prior), optimiser_of(self.optimiser), task.data,
            task.validation, batch=self.batch, patience=self.patience, label=self.name,
        )  # fmt: skip
        weights, status, trace, early = ascent.run(parameters.start, task.budget, rng)
        trace["pseudolikelihood"] = trace.pop("log_likelihood")
        return Fit(parameters.model(weights), status, trace["objective"], None, trace, stopped_early=early)


def incomplete(task: Task, way_out: str) -> str | None:
    """Why data with missing values cannot be treated, or None."""
    for what, data in (("the data", task.data), ("the validation data", task.validation)):
        if data is None or data.is_complete:
            continue
        distinct = int(data.incomplete_rows[0])
        row = data.number(distinct)
        i = int(np.flatnonzero(~data.observed[distinct])[0])
        return f"{what} lack a value of '{data.variables.names[i]}' in row {row}; {way_out}"
    return None
