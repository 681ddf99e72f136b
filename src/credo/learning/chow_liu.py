"""The most likely tree of discrete variables through `credo.fit`: no iterations, and other edges.

credo.fit(credo.BayesNet.from_edges(), frame, "chow-liu(threshold=bic)")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import ZeroProbabilityError
from ..core.result import Estimate, Status
from ..data.table import StateTable
from .base import Fit, Learner, Task, register_learner
from .likelihood import log_likelihood
from .runs import completed
from .structure import best_tree

__all__ = ["ChowLiu"]


@register_learner
@dataclass(frozen=True, kw_only=True)
class ChowLiu(Learner):
    """The most likely tree, edges and tables, in closed form.

    The network given to `fit` says which variables there are; its edges are not used.

    Examples
    --------
    >>> import credo
    >>> tables = {"a": [0.4, 0.6], "b": [[0.9, 0.1], [0.2, 0.8]], "c": [[0.7, 0.3], [0.1, 0.9]]}
    >>> chain = credo.BayesNet({"a": 2, "b": 2, "c": 2}, {"b": ["a"], "c": ["b"]}, tables)
    >>> rows = credo.sample(chain, 2000, seed=0)
    >>> found = credo.fit(credo.BayesNet.from_edges(), rows, "chow-liu(root=c,threshold=bic)")
    >>> found.model.edges
    [('b', 'a'), ('c', 'b')]
    """

    name: ClassVar[str] = "chow-liu"
    monotone: ClassVar[bool] = True
    root: str | None = None  # the variable without parents, in its part of the tree; else the first one
    smoothing: float = 0.0  # pseudo-rows, spread evenly over the joint states of each pair
    threshold: float | Literal["bic"] = 0.0  # mutual information that an edge must exceed, or bic
    directed: bool = True  # a BayesNet, or else a MarkovNet with a factor per edge

    def __post_init__(self) -> None:
        """Check the options."""
        check.at_least("smoothing", self.smoothing, 0)
        if self.threshold != "bic":
            check.at_least("threshold", self.threshold, 0)
        check.one_of("directed", self.directed, [True, False])

    def why_not(self, task: Task) -> str | None:
        """Networks of states alone, every one of which some row has."""
        if not hasattr(task.model, "parents") or not hasattr(task.model, "tables"):
            return f"it learns the edges of a network, got {task.name}; give credo.BayesNet.from_edges()"
        if not isinstance(task.data, StateTable):
            real = [v.name for v in task.model.variables if not v.is_discrete]
            return f"{real[:5]} hold numbers; leave them out, or make classes of them, as pandas.cut does"
        hidden = sorted(task.data.hidden)
        return f"no row observes {hidden[:5]}; use em" if hidden else None

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Count all pairs, and take the best tree."""
        tree = best_tree(
            task.data, root=self.root, smoothing=self.smoothing, threshold=self.threshold,
            directed=self.directed,
        )  # fmt: skip
        found = Fit(tree, Status.EXACT, np.zeros(0), notes=(_told(tree, task.model),))

        def valued(found: Fit) -> Fit:
            from dataclasses import replace

            value = _value(tree, task.data)
            objective = np.array([value.value / task.data.total])
            trace = {"log_likelihood": objective}
            if task.validation is not None:
                held = _value(tree, task.validation).value / task.validation.total
                trace["validation"] = np.array([held])
            return replace(found, objective=objective, log_likelihood=value, trace=trace)

        return completed(found, valued)


def _value(tree: Any, data: StateTable) -> Estimate:
    try:
        found: Estimate = log_likelihood(tree, data)
    except ZeroProbabilityError:  # a table that was counted elsewhere
        return Estimate(-np.inf, "exact")
    return found


def _told(tree: Any, model: Any) -> str:
    count = len(tree.variables) - 1
    edges = len(tree.edges) if hasattr(tree, "edges") else tree.to_factor_graph().n_factors - count - 1
    return f"{edges} edges of at most {count}; those of the model that was given are not used"
