r"""The E-step of every model with hidden rows: scores, exact answers, expected counts and statistics.

    scores = log p(row | state)   ->   Instance   ->   marginals, counts   ->   statistics of the emission

It knows no model: chains, segments and independent rows differ in what `hidden` makes of the scores, and
counts come back under the names of its tables. Sequences are treated in blocks, which bounds the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..core.records import record
from ..data.dataset import Dataset
from ..families.trees import Tree, map_tree, scale_tree
from ..inference.exact.hidden_rows import ENTRIES, smooth_rows
from ..optimise.run import noted
from .labels import allowed

__all__ = ["ExpectedHidden", "expect_rows"]


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
