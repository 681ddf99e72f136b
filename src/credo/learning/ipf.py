r"""Iterative proportional fitting: one table at a time is made to match the data exactly.

    theta_a <- theta_a + log phat_a - log p_a        phat_a the data's frequencies, p_a the model's marginal

Each update maximises the likelihood over one table, so it never falls, and the limit is the maximum of the
likelihood: every factor's marginal equals the data's. On a decomposable model one or two sweeps suffice. One
run of exact inference per table and sweep. Frequencies of zero become zero weights, as the optimum
demands; `smoothing` adds a pseudo-count to every entry instead. Complete data, tables that share nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..core import check
from ..core.factor_graph import FactorGraph
from ..core.records import record
from ..core.result import Estimate
from ..data.table import StateTable
from ..optimise.budgets import including, with_start
from ..optimise.driver import Outcome, Step, drive
from ..optimise.run import Run
from .base import Fit, Learner, Task, register_learner
from .expectations import Oracle
from .parameters import Parameters, why_not_linear
from .pseudolikelihood import incomplete
from .runs import arrays
from .table_sources import impossible_row

__all__ = ["IPF"]


@register_learner
@dataclass(frozen=True, kw_only=True)
class IPF(Learner):
    """Match the marginals of all factors in turn; for complete data.

    Examples
    --------
    >>> import credo
    >>> from credo.learning import fit
    >>> start = credo.MarkovNet({"a": 2, "b": 2}, {("a",): [1, 1], ("b",): [1, 1]})
    >>> found = fit(start, {"a": [0, 1, 1, 1], "b": [0, 0, 1, 1]}, "ipf")
    >>> credo.infer(found.model, "junction-tree").marginals["a"]
    a   0: 0.25   1: 0.75
    """

    name: ClassVar[str] = "ipf"
    monotone: ClassVar[bool] = True
    checkpoints: ClassVar[bool] = True
    smoothing: float = 0.0  # pseudo-count, spread evenly over the entries of each table

    def __post_init__(self) -> None:
        """Check the options."""
        check.at_least("smoothing", self.smoothing, 0)

    def why_not(self, task: Task) -> str | None:
        """Tables that are not shared, and complete rows."""
        if hasattr(type(task.model), "design"):
            return "it fits whole tables, and a log-linear model has shared weights; use likelihood"
        reason = why_not_linear(task.model) or incomplete(task, "use likelihood")
        if reason is not None:
            return reason
        graph = task.model.to_factor_graph()
        if _shares_tables(graph):
            return "it fits tables one by one, and here factors share one; use likelihood"
        if self.smoothing and (graph.log_tables == -np.inf).any():
            return (
                "smoothing gives every entry a pseudo-count, and zero entries of the model stay zero; "
                "use likelihood(prior=gaussian(...))"
            )
        return None

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Sweep until all marginals match within tol."""
        parameters = Parameters.of(task.model)
        graph, oracle = parameters.graph, Oracle(task.inference, task.inference_budget, task.seed, warm=False)
        if (graph.log_tables[task.data.table_counts(graph) > 0] == -np.inf).any():
            raise impossible_row(graph, task.data, graph.log_tables)
        wanted = self._frequencies(graph, task.data)
        sweeps = _Sweeps(graph, wanted, oracle, task)
        return drive(sweeps, task, including(with_start(task.budget)))  # type: ignore[no-any-return]

    def _frequencies(self, graph: FactorGraph, data: StateTable) -> np.ndarray:
        size = np.repeat(graph.table_size, graph.table_size)
        return (data.table_counts(graph) + self.smoothing / size) / (data.total + self.smoothing)


@record("ipf")
class _State(NamedTuple):
    """Log tables."""

    tables: np.ndarray
    is_evaluated: bool = False


class _Sweeps:
    """Sweeps as the driver sees them; the first step only looks at the start."""

    name = IPF.name

    def __init__(self, graph: FactorGraph, wanted: np.ndarray, oracle: Oracle, task: Task) -> None:
        self.graph, self.wanted, self.oracle = graph, wanted, oracle
        self.memory = (oracle,)
        self.counts = task.data.table_counts(graph)
        self.held = None if task.validation is None else task.validation.table_counts(graph)

    def start(self, task: Task, run: Run) -> Step:
        return Step(_State(self.graph.log_tables))

    def advance(self, task: Task, state: _State, run: Run) -> Step:
        tables = self._swept(state.tables) if state.is_evaluated else state.tables
        marginals, log_z = self._marginals(tables)
        mismatch = float(np.abs(marginals - self.wanted).max(initial=0.0))
        wanted = self.wanted > 0
        trace = {
            # The likelihood of the smoothed frequencies: what each update raises.
            "objective": [float(self.wanted[wanted] @ tables[wanted]) - log_z],
            "log_likelihood": [_mean_score(self.counts, tables, task.data) - log_z],
            "mismatch": [mismatch],
            "seconds": [run.elapsed],
        }
        if self.held is not None and task.validation is not None:
            trace["validation"] = [_mean_score(self.held, tables, task.validation) - log_z]
        return Step(_State(tables, True), [mismatch], trace)

    def parameters(self, task: Task, state: _State) -> np.ndarray:
        return state.tables

    def read(self, task: Task, outcome: Outcome) -> Fit:
        graph, tables = self.graph, outcome.state.tables
        made = FactorGraph.from_flat(graph.variables, graph.scope_start, graph.scope, tables)
        made.memo = graph.memo
        names = ["objective", "log_likelihood", "mismatch", "seconds"]
        trace = arrays(outcome.trace, names + ["validation"] * (self.held is not None))
        value = None
        if outcome.state.is_evaluated:
            total = float(trace["log_likelihood"][-1]) * task.data.total
            value = Estimate(total, self.oracle.kind(complete=True))
        return Fit(
            task.model.from_graph(made) if hasattr(task.model, "from_graph") else made,
            outcome.ended, trace["objective"], value, trace, notes=tuple(self.oracle.report()),
        )  # fmt: skip

    def _marginals(self, tables: np.ndarray) -> tuple[np.ndarray, float]:
        graph = self.graph.with_states(self.graph.variables, tables.copy(), self.graph.table_start)
        found = self.oracle.free(graph)
        return self.oracle.entries(found), self.oracle.log_z(found)

    def _swept(self, tables: np.ndarray) -> np.ndarray:
        """Every table matched once, in turn."""
        tables, start, size = tables.copy(), self.graph.table_start, self.graph.table_size
        for a in range(self.graph.n_factors):
            mine = slice(int(start[a]), int(start[a] + size[a]))
            marginals, _ = self._marginals(tables)
            with np.errstate(divide="ignore", invalid="ignore"):
                shift = np.log(self.wanted[mine]) - np.log(marginals[mine])
            # An entry the model excludes stays excluded: 0/0 is no change.
            possible = marginals[mine] > 0
            tables[mine] = np.where(possible, tables[mine] + shift, -np.inf)
        return tables


def _mean_score(counts: np.ndarray, tables: np.ndarray, data: StateTable) -> float:
    seen = counts > 0
    return float(counts[seen] @ tables[seen]) / data.total


def _shares_tables(graph: FactorGraph) -> bool:
    return len(np.unique(graph.table_start)) < graph.n_factors
