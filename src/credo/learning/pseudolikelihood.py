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

from ..data.table import StateTable
from .base import Task, register_learner
from .gradient import Aim, GradientLearner
from .hybrid_source import HybridRows
from .label_sources import LabelPseudolikelihood
from .log_linear import Objective
from .table_sources import Pseudolikelihood

__all__ = ["MaximumPseudolikelihood", "incomplete"]


@register_learner
@dataclass(frozen=True, kw_only=True)
class MaximumPseudolikelihood(GradientLearner):
    """Gradient ascent on the pseudolikelihood; for complete data."""

    name: ClassVar[str] = "pseudolikelihood"
    monotone: ClassVar[bool] = True

    def why_not(self, task: Task) -> str | None:
        """Undirected models and fields of labels, and complete rows."""
        if isinstance(task.data, HybridRows):
            return super().why_not(task) or "it needs the states of all others; use likelihood"
        return super().why_not(task) or incomplete(task, "use likelihood")

    def sees(self, task: Task, weights: Any, rng: np.random.Generator) -> Aim:
        """Conditional distributions; the log-likelihood itself is never computed."""
        tables = isinstance(task.data, StateTable)
        source = Pseudolikelihood(weights.graph) if tables else LabelPseudolikelihood()
        return Aim(Objective(weights, source), curve="pseudolikelihood")


def incomplete(task: Task, way_out: str) -> str | None:
    """Why data with missing values cannot be treated, or None."""
    for what, data in (("the data", task.data), ("the validation data", task.validation)):
        if data is None or data.is_complete:
            continue
        if not isinstance(data, StateTable):
            return f"{what} lack the label of node {int((data.labels < 0).argmax())}; {way_out}"
        distinct = int(data.incomplete_rows[0])
        row = data.number(distinct)
        i = int(np.flatnonzero(~data.observed[distinct])[0])
        return f"{what} lack a value of '{data.variables.names[i]}' in row {row}; {way_out}"
    return None
