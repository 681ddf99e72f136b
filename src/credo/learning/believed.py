r"""What old posteriors say about a model: the E-step of generalised EM, its lower bound, and its four sums.

    Q(new; old) = sum counts log tables(new) + sum counts log choices(new) + sum q leaves(new)
    F(new) = Q(new; old) + entropy of the posteriors  <=  log-likelihood of new

The posteriors are those of the old model, or, if they are scaled, those in which the log density of a row
counts 1/d (`share`): a tempering that flattens them and moves the fixed points. F is a lower bound for
either, and tight at new = old for exact posteriors only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core.records import record
from ..data.dataset import Dataset
from ..families.base import ExpectedSums
from ..families.trees import Tree, add_trees, map_tree, tree_leaves
from ..inference.exact.hidden_rows import ENTRIES, smooth_rows
from ..optimise.run import check as run_check
from ..optimise.run import noted
from .hidden_rows import ExpectedHidden
from .labels import allowed

__all__ = ["Believed", "believe", "q_parts"]


@record("believed")
class Believed(NamedTuple):
    """Posteriors of a model about its data."""

    expected: ExpectedHidden  # counts, sums and q under the posteriors, and the exact log-likelihood
    leaves: float  # sum of q times the leaves of the model itself
    entropy: float  # of the posteriors
    others: float = 0.0  # the same sum for the q that was given: of the old posteriors

    def without_rows(self) -> Believed:
        """What adds up over batches: all but q."""
        return self._replace(expected=replace(self.expected, q=None))

    def plus(self, other: Believed | None) -> Believed:
        """What two batches say together; None is nothing."""
        if other is None:
            return self
        expected = other.expected + self.expected
        return Believed(expected, *(a + b for a, b in zip(other[1:], self[1:], strict=True)))


@noted
def believe(model: Any, data: Dataset, *, share: float = 1.0, q: Tree = None) -> Believed:
    """Expectations under the posteriors of a model.

    Parameters
    ----------
    model, data
        As `expect_rows` takes them.
    share
        What the log density of a row counts in the posteriors.
    q
        Of older posteriors, to be met with the leaves of this model.
    """
    size = max(1, ENTRIES // max(1, len(model.emission)))
    counts: Any = None
    emission, log_z, log_likelihood, own, others, kept, row = None, 0.0, 0.0, 0.0, 0.0, [], 0
    for which, part in data.blocks(size):
        run_check()
        found = _Block(model, part, which.start, share)
        counts = found.counts if counts is None else add_trees(counts, found.counts)
        emission = found.emission if emission is None else emission + found.emission
        log_z, log_likelihood = log_z + found.log_z, log_likelihood + found.log_likelihood
        own += _met(found.leaves, found.q)
        if q is not None:
            old = _some(q, slice(row, row + len(found.rows)))
            others += _met(found.leaves, old)
        kept.append(found.q)
        row += len(found.rows)
    whole = map_tree(lambda *parts: np.concatenate(parts), kept[0], *kept[1:])
    expected = ExpectedHidden(counts, emission, log_likelihood, whole)
    chosen = sum(q_parts(model, expected).values())
    return Believed(expected, own, log_z - chosen - share * own, others)


def q_parts(model: Any, expected: ExpectedHidden) -> dict[str, float]:
    """The sums of Q that need no rows: by the names of the tables, and of the choices of the emission."""
    none = np.zeros((0, len(model.emission))), np.zeros(1, dtype=np.int64)
    tables = model.hidden(*none).tables
    found = {}
    for name, count in expected.counts.items():
        with np.errstate(divide="ignore"):
            logs = np.log(tables[name])
        found[name] = float((count[count > 0] * logs[count > 0]).sum())
    found["choices"] = model.emission.choice_value(expected.emission.counts)
    return found


class _Block:
    """Some units of the data."""

    def __init__(self, model: Any, part: Dataset, first: int, share: float) -> None:
        family, self.rows = model.emission, part.rows()
        self.leaves = family.leaves(self.rows)
        used = self.leaves if share == 1.0 else map_tree(lambda a: share * a, self.leaves)

        def answer(leaves: Tree) -> Any:
            # The answer may overwrite the scores, and they may be the leaves themselves.
            scores = np.array(allowed(family.combine(leaves), part))
            instance = model.hidden(scores, part.begin, first).weighed(part.weights)
            again = lambda some: np.array(allowed(family.combine(_some(leaves, some)), part, some))  # noqa: E731
            return instance, smooth_rows(instance, again)

        instance, found = answer(used)
        weights = np.where(family.missing(self.rows)[:, None], 0.0, instance.weigh_rows(found.marginals))
        self.log_z = instance.total(found.log_z)
        self.log_likelihood = self.log_z
        if share != 1.0:
            plain, exact = answer(self.leaves)
            self.log_likelihood = plain.total(exact.log_z)
        self.counts = found.counts
        chosen, self.q = family.divide(used, weights)
        self.emission = ExpectedSums(weights.sum(axis=0), chosen, family.collect(self.rows, self.q))


def _some(leaves: Tree, rows: slice) -> Tree:
    return map_tree(lambda a: a[rows], leaves)


def _met(leaves: Tree, q: Tree) -> float:
    """Sum of q times leaves, where q is not zero."""
    pairs = zip(tree_leaves(leaves), tree_leaves(q), strict=True)
    return float(sum((leaf[share > 0] * share[share > 0]).sum() for leaf, share in pairs))
