"""Training of normal-form graphs through `credo.fit`: the local rules of `blocks.py` as a learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError
from ..core.result import Estimate
from ..data.table import StateTable
from ..models.normal_form import NormalForm
from .base import Fit, Learner, Task, register_learner
from .block_records import BlockFit, BlockSamples
from .block_training import Start, check_start, started, train_all
from .blocks import BlockRule, block_rules

__all__ = ["Blocks"]


@register_learner
@dataclass(frozen=True, kw_only=True)
class Blocks(Learner):
    """Every block of a normal-form graph learns from its own two messages.

    Examples
    --------
    >>> import credo
    >>> from credo.learning.base import fit
    >>> from credo.models.normal_form_build import embedding
    >>> data = {"X": [0, 0, 1, 1] * 25, "Y": [0, 0, 1, 1] * 25}
    >>> found = fit(embedding({"X": 2, "Y": 2}, 2), data, "blocks(rule=ml(iterations=3))", seed=0)
    >>> found.converged, round(found.log_likelihood.value, 2)
    (True, -69.31)
    """

    name: ClassVar[str] = "blocks"
    tol: ClassVar[float] = 1e-3  # change of a parameter
    rule: str | BlockRule = "ml"  # what every block does: ml, kl, vit or var
    start: Start = "random"  # random matrices, random messages, or the graph as it is given
    concentration: float = 2.0  # of random rows
    restarts: int = 1  # how many starts; the one with the largest likelihood is kept

    def __post_init__(self) -> None:
        """Check the options."""
        if not isinstance(block_rules.resolve(self.rule), BlockRule):
            raise OptionError(f"rule: expected a name or a BlockRule, got {self.rule!r:.80}")
        check.one_of("start", self.start, ("random", "messages", "given"))
        check.whole("restarts", self.restarts, 1)

    def why_not(self, task: Task) -> str | None:
        """Only normal-form graphs have blocks."""
        if not hasattr(task.model, "terminals"):
            return f"it has no blocks; make a NormalForm of this {type(task.model).__name__}"
        return None

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Train; epochs are iterations."""
        graph: NormalForm = task.model
        check_start(graph, self.start)
        samples = _samples(graph, task.data, task.validation)
        starts = (started(graph, self.start, self.concentration, rng, samples) for _ in range(self.restarts))
        rule = block_rules.resolve(self.rule)
        budget = task.budget
        runs = train_all(
            starts,
            samples,
            rule,
            epochs=budget.max_iter,
            restarts=self.restarts,
            tol=budget.tol,
            seconds=budget.seconds,
        )
        best = BlockFit(runs, rule.name, 0.0).best
        rows = samples.train.sum()
        trace = {"log_likelihood": best.log_likelihood / rows, "metric": best.metric / rows}
        if task.validation is not None:
            trace["validation"] = best.test_log_likelihood / samples.test.sum()
        total = Estimate(float(best.log_likelihood[-1]), "exact")
        return Fit(
            best.model,
            runs[-1].status if len(runs) < self.restarts else best.status,
            best.log_likelihood / rows,
            total,
            trace,
        )


def _samples(graph: NormalForm, data: StateTable, validation: StateTable | None) -> BlockSamples:
    """Distinct rows of both tables; those to be watched only count in testing."""
    tables = [data] if validation is None else [data, validation]
    states = np.concatenate([table.states for table in tables])
    columns = {}
    for i, name in enumerate(graph.variables.names):
        if (states[:, i] >= 0).any():
            columns[_terminal(graph, name)] = states[:, i]
    counts = np.concatenate([table.counts for table in tables])
    learned = np.arange(len(states)) < len(data.states)
    read = BlockSamples.of(graph, columns, counts * learned)
    return BlockSamples(read.given, counts * learned, counts * ~learned)


def _terminal(graph: NormalForm, variable: str) -> str:
    if variable in graph.terminals:
        return variable
    for name in graph.terminals:
        if graph.variable_of[name] == variable:
            return name
    raise DataError(f"data: '{variable}' has no open end in this graph; make one with tap('{variable}')")
