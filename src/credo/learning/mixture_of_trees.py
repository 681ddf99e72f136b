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

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import DataError
from ..core.records import record
from ..core.variable import Variables
from ..data.table import StateTable
from ..models.bayes_net import BayesNet
from ..models.mixture_of_trees import MixtureOfTrees
from ..optimise.run import check as run_check
from .base import Fit, Learner, Task, register_learner
from .em_data import Expected
from .em_steps import EMProblem, EMStart, fit_of, run_em
from .structure import best_tree

__all__ = ["MixtureOfTreesEM"]

_SHARPNESS = 0.5  # concentration of random responsibilities: below 1, rows favour one component


@register_learner
@dataclass(frozen=True, kw_only=True)
class MixtureOfTreesEM(Learner):
    """Mixture of Chow-Liu trees by EM; the structures are learned, from complete rows.

    The model given to `fit` says which variables there are; if it is a `MixtureOfTrees`, it is the start.

    Examples
    --------
    >>> import credo
    >>> rng = np.random.default_rng(0)
    >>> bits = rng.integers(2, size=(400, 3))
    >>> bits[:200, 1], bits[200:, 2] = bits[:200, 0], bits[200:, 0]  # two ways to be alike
    >>> data = {"a": bits[:, 0], "b": bits[:, 1], "c": bits[:, 2]}
    >>> found = credo.fit(credo.BayesNet.from_edges(), data, "mixture-of-trees(restarts=3)", seed=0)
    >>> found.model
    MixtureOfTrees(2 trees, 3 variables)
    >>> bool((np.diff(found.objective) > -1e-12).all())
    True
    """

    name: ClassVar[str] = "mixture-of-trees"
    monotone: ClassVar[bool] = True
    checkpoints: ClassVar[bool] = True
    tol: ClassVar[float] = 1e-3  # change of a responsibility
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
        if not isinstance(task.data, StateTable):
            return f"its trees are of states alone, and a {type(task.model).__name__} has other rows; use em"
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
        given = task.model if hasattr(task.model, "trees") else None
        data = _columns(task.data, variables, given)
        held = None if task.validation is None else _columns(task.validation, variables, given)
        count = self.components if given is None else len(given.trees)
        problem = _Rows(data, held, count, self.smoothing, given, self.start)
        found = run_em(
            problem, task.budget, rng, name=self.name, restarts=self.restarts, shown=partial(fit_of, problem)
        )
        return fit_of(problem, found)


def _observed_variables(model: Any, variables: Variables) -> Variables:
    return model.variables if hasattr(model, "trees") else variables


class _Columns(NamedTuple):
    """Complete rows of the trees' variables, and the component of each where the data say it."""

    rows: StateTable
    known: np.ndarray | None = None  # (rows,) -1 where it is not said

    def log_likelihood(self, model: MixtureOfTrees) -> float:
        """Of all rows, and of the components that are known."""
        return float(self.rows.counts @ model.log_probs(self.rows.states, self.known))

    def responsibilities(self, model: MixtureOfTrees) -> np.ndarray:
        """Of the trees for every row, certain where the component is known."""
        return model.responsibilities(self.rows.states, self.known)


def _columns(data: StateTable, variables: Variables, given: MixtureOfTrees | None) -> _Columns:
    if data.variables == variables:
        return _Columns(data)
    known = None if given is None else data.states[:, data.variables.position(given.choice)]
    states = data.states[:, data.variables.positions(variables.names)]
    if (states < 0).any():
        raise DataError("validation: expected complete rows, some values are missing")
    everywhere = np.arange(len(states))
    return _Columns(StateTable(variables, states, data.counts, everywhere, data.counts), known)


@record("mixture of trees in em")
class _Trees(NamedTuple):
    """A mixture, and what it was made from."""

    model: MixtureOfTrees
    share: np.ndarray  # (rows, trees) responsibilities


@dataclass(frozen=True)
class _Rows(EMProblem):
    """Complete rows and a number of trees."""

    data: _Columns
    held: _Columns | None
    count: int  # trees
    smoothing: float
    given: MixtureOfTrees | None
    first: Literal["given", "random"]

    @property
    def rows(self) -> float:  # type: ignore[override]
        return self.data.rows.total

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        share = rng.dirichlet(np.full(self.count, _SHARPNESS), size=len(self.data.rows.states))
        if number == 0 and self.first == "given" and self.given is not None:
            share = self.data.responsibilities(self.given)
        elif self.data.known is not None:
            share = np.where(self.data.known[:, None] < 0, share, np.eye(self.count)[self.data.known])
        return EMStart(_Trees(self._improved(share), share))

    def expect(self, parameters: _Trees) -> Expected:
        model, data = parameters.model, self.data
        return Expected(data.log_likelihood(model), data.responsibilities(model))

    def maximise(self, statistics: np.ndarray, parameters: _Trees) -> _Trees:
        return _Trees(self._improved(statistics), statistics)

    def movement(self, old: _Trees, new: _Trees) -> float:
        """The largest change of a responsibility.

        Trees that change their edges have no parameters to compare, and all parameters follow from these.
        """
        return float(np.abs(new.share - old.share).max(initial=0.0))

    def log_prior(self, parameters: _Trees) -> float:
        if not self.smoothing:
            return 0.0
        # Every row of a table counts alike where all joint states do.
        tables = (table for tree in parameters.model.trees for table in tree.tables.values())
        return self.smoothing * sum(float(np.log(table).mean()) for table in tables)

    def validate(self, parameters: _Trees) -> float | None:
        held = self.held
        return None if held is None else held.log_likelihood(parameters.model) / held.rows.total

    def made(self, parameters: _Trees) -> MixtureOfTrees:
        model = parameters.model
        return model if self.given is None else MixtureOfTrees(model.weights, model.trees, self.given.choice)

    def _improved(self, share: np.ndarray) -> MixtureOfTrees:
        rows = self.data.rows
        counts = rows.counts[:, None] * share
        made = []
        for column in np.ascontiguousarray(counts.T):
            run_check()
            tree = best_tree(replace(rows, counts=column), rows.variables, smoothing=self.smoothing)
            made += [tree] if isinstance(tree, BayesNet) else []
        return MixtureOfTrees(counts.sum(axis=0) / counts.sum(), made)
