r"""Mixtures of trees from data by expectation maximisation.

    E   r_m(x) = lambda_m T_m(x) / sum_k lambda_k T_k(x)               responsibilities of every row
    M   lambda_m = mean of r_m over the rows;  T_m = Chow-Liu tree of the rows weighted by r_m

The M-step is exact: the Chow-Liu tree is the most likely of all trees for its weighted rows, structure
included. With `smoothing` s each tree sees s more rows, spread evenly over all joint states, and what never
falls is

    sum over rows of log p(x)  +  s sum_m  mean over all joint states of log T_m(x).

A stationary point depends on the start; use `restarts`. Cost of an iteration: one count of all pairs of
variables per component, O(components rows n^2).

Source: Meila and Jordan 2000.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError
from ..core.progress import Progress
from ..core.result import Estimate, Status
from ..core.variable import Variables
from ..inference.base import Budget
from ..models.bayes_net import BayesNet
from ..models.mixture_of_trees import MixtureOfTrees
from .base import Fit, Learner, Task, fit, register_learner
from .data import Observations
from .structure import chow_liu, variables_of

__all__ = ["MixtureOfTreesEM", "mixture_of_trees"]

_SHARPNESS = 0.5  # concentration of random responsibilities: below 1, rows favour one component


def mixture_of_trees(
    data: Any,
    components: int = 2,
    variables: Any = None,
    *,
    smoothing: float = 1.0,
    restarts: int = 1,
    max_iter: int = 500,
    tol: float = 1e-6,
    seed: int | None = None,
) -> Fit:
    """Learn a mixture of trees, structures and tables, from complete rows.

    Parameters
    ----------
    data
        As in `fit`: a data frame, columns, rows, an array, samples or a file.
    components
        How many trees.
    variables
        Variables, or a mapping name -> states; by default the states that occur, sorted.
    smoothing
        Pseudo-rows per tree, spread evenly over the joint states.
    restarts
        Random starts; the best is returned.
    max_iter, tol, seed
        As in `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.learning.mixture_of_trees import mixture_of_trees
    >>> rng = np.random.default_rng(0)
    >>> bits = rng.integers(2, size=(400, 3))
    >>> bits[:200, 1], bits[200:, 2] = bits[:200, 0], bits[200:, 0]  # two ways to be alike
    >>> found = mixture_of_trees({"a": bits[:, 0], "b": bits[:, 1], "c": bits[:, 2]}, 2, restarts=3, seed=0)
    >>> found.model
    MixtureOfTrees(2 trees, 3 variables)
    >>> bool((np.diff(found.objective) > -1e-12).all())
    True
    """
    from ..core.factor_graph import FactorGraph

    asked = Variables.of(variables_of(data) if variables is None else variables)
    learner = MixtureOfTreesEM(components=components, smoothing=smoothing, restarts=restarts)
    return fit(FactorGraph(asked), data, learner, max_iter=max_iter, tol=tol, seed=seed)


@register_learner
@dataclass(frozen=True, kw_only=True)
class MixtureOfTreesEM(Learner):
    """Mixture of Chow-Liu trees by EM; the structures are learned, from complete rows.

    The model given to `fit` says which variables there are; if it is a `MixtureOfTrees`, it is the start.
    """

    name: ClassVar[str] = "mixture-of-trees"
    components: int = 2  # trees; those of the given mixture, if the start is one
    smoothing: float = 1.0  # pseudo-rows per tree, spread evenly over the joint states
    restarts: int = 1  # runs in all; the best is returned
    start: Literal["given", "random"] = "given"  # of the first run, if the model is a mixture of trees

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("components", self.components, 1)
        check.at_least("smoothing", self.smoothing, 0)
        check.whole("restarts", self.restarts, 1)
        check.one_of("start", self.start, ["given", "random"])

    def why_not(self, task: Task) -> str | None:
        """Complete rows of discrete variables."""
        variables = _observed_variables(task.model, task.data.variables)
        data = task.data.states[:, task.data.variables.positions(variables.names)]
        missing = np.argwhere(data < 0)
        if len(missing):
            name = variables.names[int(missing[0, 1])]
            return (
                f"'{name}' is missing in {int((data < 0).any(axis=1).sum())} rows; complete rows are needed"
            )
        return None

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """All restarts; the best of them."""
        variables = _observed_variables(task.model, task.data.variables)
        data = _columns(task.data, variables)
        held = None if task.validation is None else _columns(task.validation, variables)
        count = len(task.model.trees) if isinstance(task.model, MixtureOfTrees) else self.components
        climb = _Climb(data, held, self.smoothing, task.budget)
        paths: list[_Path] = []
        with Progress(self.name, self.restarts * task.budget.max_iter) as bar:
            for k in range(self.restarts):
                first = rng.dirichlet(np.full(count, _SHARPNESS), size=len(data.states))
                if k == 0 and self.start == "given" and isinstance(task.model, MixtureOfTrees):
                    first = task.model.responsibilities(data.states)
                paths.append(climb.run(first, bar, k * task.budget.max_iter))
                if paths[-1].status in (Status.INTERRUPTED, Status.OUT_OF_TIME):
                    break
        best = max(paths, key=lambda path: path.trace["objective"][-1])
        trace = {key: np.array(values) for key, values in best.trace.items()}
        model = best.model
        assert model is not None
        if isinstance(task.model, MixtureOfTrees):
            model = MixtureOfTrees(model.weights, model.trees, task.model.choice)
        return Fit(
            model,
            paths[-1].status if paths[-1].status is Status.INTERRUPTED else best.status,
            trace["objective"],
            Estimate(float(trace["log_likelihood"][-1]) * data.total, "exact"),
            trace,
            restarts=np.array([path.trace["objective"][-1] for path in paths]),
        )


def _observed_variables(model: Any, variables: Variables) -> Variables:
    return model.variables if isinstance(model, MixtureOfTrees) else variables


def _columns(data: Observations, variables: Variables) -> Observations:
    if data.variables == variables:
        return data
    states = data.states[:, data.variables.positions(variables.names)]
    if (states < 0).any():
        raise DataError("validation: expected complete rows, some values are missing")
    return Observations.from_states(variables, states, weights=data.counts)


@dataclass
class _Path:
    """One run from one start."""

    model: MixtureOfTrees | None = None
    status: Status = Status.OUT_OF_ITERATIONS
    trace: dict[str, list[float]] = field(default_factory=dict)


class _Climb:
    """What all runs of one call share."""

    def __init__(
        self, data: Observations, held: Observations | None, smoothing: float, budget: Budget
    ) -> None:
        self.data, self.held, self.smoothing, self.budget = data, held, smoothing, budget
        self.clock = time.perf_counter()

    def run(self, share: np.ndarray, bar: Progress, done: int) -> _Path:
        """Iterate from responsibilities until the objective per row changes less than tol."""
        path = _Path(trace={key: [] for key in ("objective", "log_likelihood", "seconds")})
        if self.held is not None:
            path.trace["validation"] = []
        try:
            for k in range(self.budget.max_iter + 1):
                path.model = self._improved(share)
                self._record(path)
                objective = path.trace["objective"]
                bar.update(done + k, f"objective {objective[-1]:.6g}")
                if k and objective[-1] - objective[-2] < self.budget.tol:
                    path.status = Status.CONVERGED
                    break
                if self.budget.seconds is not None and time.perf_counter() - self.clock > self.budget.seconds:
                    path.status = Status.OUT_OF_TIME
                    break
                share = path.model.responsibilities(self.data.states)
        except KeyboardInterrupt:
            if path.model is None or not path.trace["objective"]:
                raise
            path.status = Status.INTERRUPTED
        return path

    def _improved(self, share: np.ndarray) -> MixtureOfTrees:
        counts = self.data.counts[:, None] * share
        trees = [
            chow_liu(replace(self.data, counts=column), self.data.variables, smoothing=self.smoothing)
            for column in np.ascontiguousarray(counts.T)
        ]
        made = [tree for tree in trees if isinstance(tree, BayesNet)]
        return MixtureOfTrees(counts.sum(axis=0) / counts.sum(), made)

    def _record(self, path: _Path) -> None:
        model, total = path.model, self.data.total
        assert model is not None
        value = float(self.data.counts @ model.log_probs(self.data.states)) / total
        # Every row of a table counts alike where all joint states do.
        extra = (
            sum(float(np.log(table).mean()) for t in model.trees for table in t.tables.values())
            if self.smoothing
            else 0.0
        )
        path.trace["log_likelihood"].append(value)
        path.trace["objective"].append(value + self.smoothing * extra / total)
        path.trace["seconds"].append(time.perf_counter() - self.clock)
        if self.held is not None:
            held = float(self.held.counts @ model.log_probs(self.held.states)) / self.held.total
            path.trace["validation"].append(held)
