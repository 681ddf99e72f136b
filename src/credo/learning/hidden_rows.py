r"""The E-step of every model with hidden rows: scores, exact answers, expected counts and statistics.

    scores = log p(row | state)   ->   Instance   ->   marginals, counts   ->   statistics of the emission

It knows no model: chains, segments and independent rows differ in what `hidden` makes of the scores, and
counts come back under the names of its tables. Sequences are treated in blocks, which bounds the memory.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, cast

import numpy as np

from ..core.errors import ConvergenceWarning
from ..core.records import record
from ..core.result import Kind, Status
from ..data.dataset import Dataset
from ..families.trees import Tree, map_tree, scale_tree
from ..inference.exact.hidden_rows import ENTRIES, smooth_rows
from ..inference.problem.base import Budget
from ..inference.problem.rows import RowsAlgorithm, run_rows
from ..optimise.run import Stopped, noted
from .labels import allowed

__all__ = ["ExpectedHidden", "RowsOracle", "expect_rows"]

_TOLD = {"lower": "a lower bound", "estimate": "an estimate", "exact": "exact", "upper": "an upper bound"}


@record("hidden rows expected")
@dataclass(frozen=True)
class ExpectedHidden:
    """What the data say about a model; parts add up over sequences."""

    counts: dict[str, np.ndarray]  # by the names of the tables
    emission: Any  # what the family collected
    log_likelihood: float  # of the data, under the model that was asked
    q: Tree = None  # weights of all rows in the places of the leaves, where gradient steps will need them

    def __add__(self, other: ExpectedHidden) -> ExpectedHidden:
        counts = {name: count + other.counts[name] for name, count in self.counts.items()}
        q = map_tree(lambda *parts: np.concatenate(parts), self.q, other.q)
        total = self.log_likelihood + other.log_likelihood
        return ExpectedHidden(counts, self.emission + other.emission, total, q)

    def scaled(self, step: float) -> ExpectedHidden:
        """The same with all weights multiplied by one number, as mini-batches need it."""
        counts = {name: step * count for name, count in self.counts.items()}
        q = scale_tree(self.q, step)
        return ExpectedHidden(counts, self.emission.scaled(step), step * self.log_likelihood, q)


@record("rows oracle", kept=("runs", "failures", "kinds", "beliefs"))
@dataclass
class RowsOracle:
    """Answers about hidden rows by a method that is not exact; runs that do not converge are counted."""

    method: RowsAlgorithm  # what answers
    budget: Budget = field(default_factory=Budget)  # of each run
    seed: int | None = None  # of each run: every one begins alike
    runs: int = 0  # so far
    failures: int = 0  # runs that did not converge
    kinds: set[Kind] = field(default_factory=set)  # of every value so far
    beliefs: list[np.ndarray] | None = None  # of the last run on all rows, where the next one begins

    def expect(self, model: Any, data: Dataset, *, is_whole: bool = True) -> ExpectedHidden:
        """Expected counts by chain, and statistics as if the chains were independent given the data."""
        rows, family = data.rows(), model.emission
        leaves = family.leaves(rows)
        scores = allowed(family.combine(leaves), data)
        instance = model.hidden(scores, data.begin).weighed(data.weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warm = self.beliefs if is_whole else None
            found = run_rows(self.method, instance, self.budget, seed=self.seed, strict=False, warm=warm)
        if found.status is Status.INTERRUPTED:
            raise Stopped(found.status)  # what a run that was cut says is no expectation
        self.runs, self.failures = self.runs + 1, self.failures + (not found.status.is_success)
        assert found.log_z is not None
        self.kinds.add(found.log_z.kind)
        known = cast(Any, found.marginals)
        parts = [_flat(known[name]) for name in known]
        self.beliefs = parts if is_whole else self.beliefs
        joint = reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(a), -1), parts)
        expected = family.expect(rows, instance.weigh_rows(joint), leaves)
        return ExpectedHidden(cast(Any, found.factor_marginals), expected, found.log_z.value)

    def report(self) -> list[str]:
        """Sentences for the notes of a fit."""
        told = [f"expectations came from {self.method.name}: the value is {_TOLD[max(self.kinds, key=str)]}"]
        if self.failures:
            told.append(f"inference did not converge in {self.failures} of {self.runs} runs")
        return told if self.runs else []


def _flat(part: Any) -> np.ndarray:
    """Marginals of all sequences in one array."""
    return np.concatenate(part) if isinstance(part, list) else np.asarray(part)


@noted
def expect_rows(model: Any, data: Dataset, *, keeps_q: bool = False) -> ExpectedHidden:
    """Expected counts and statistics given data as `model.sequences` reads them, with the weights of units.

    `keeps_q` is for leaves that gradient steps move.
    """
    blocks = data.blocks(ENTRIES // len(model.emission))
    return reduce(add, [_part(model, part, which.start, keeps_q) for which, part in blocks])


def _part(model: Any, part: Dataset, first: int, keeps_q: bool) -> ExpectedHidden:
    family, rows = model.emission, part.rows()
    leaves = family.leaves(rows)
    # The answer may overwrite the scores; they are the leaves themselves only where nothing is divided.
    instance = model.hidden(allowed(family.combine(leaves), part), part.begin, first).weighed(part.weights)
    found = smooth_rows(instance, lambda some: allowed(family.log_density(rows[some]), part, some))
    weights = instance.weigh_rows(found.marginals)
    q = None
    if keeps_q:
        q = family.divide(leaves, np.where(family.missing(rows)[:, None], 0.0, weights))[1]
    return ExpectedHidden(found.counts, family.expect(rows, weights, leaves), instance.total(found.log_z), q)
