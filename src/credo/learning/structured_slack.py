r"""Slack rescaling: wrong labels must lie one below the right ones, and slack counts by the loss.

    U_n = max_y loss(y_n, y) ( 1 + S(y) - S(y_n) ),     S(y) = eps_h log sum_h exp( w.f(x_n, y, h) / eps_h )

The product of a loss and a score is no sum over factors, so all labels of an instance are enumerated;
sequences with a Hamming loss have a recursion that counts errors (`structured_chains.SlackAnswers`).

Source: Tsochantaridis, Joachims, Hofmann and Altun 2005.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ..core.errors import UnsupportedError
from ..core.records import record
from .structure_groups import StructureGroup, entries_at
from .structured_risk import GraphAnswers, GroupAnswer

__all__ = ["EnumeratedSlack"]

_MOST = 4096  # labellings of one instance


@record("enumerated slack", kept=("runs", "failures"))
@dataclass
class EnumeratedSlack(GraphAnswers):
    """The two questions of slack rescaling, the first by enumeration of labels."""

    def charged_group(self, group: StructureGroup, flat: np.ndarray) -> GroupAnswer:
        """U plus the score of the right labels."""
        tables = flat[group.entries]
        right = self._given(group, tables, group.labels)
        best = np.zeros(len(group))  # the right labels, which cost nothing
        told = group.labels.copy()
        for labels in _labellings(group):
            score = self._given(group, tables, labels).values
            worth = self._loss(group, labels) * (1.0 + score - right.values)
            higher = worth > best
            best, told = np.where(higher, worth, best), np.where(higher[:, None], labels, told)
        cost = self._loss(group, told)[:, None]
        slopes = cost * self._given(group, tables, told).slopes + (1.0 - cost) * right.slopes
        return GroupAnswer(best + right.values, slopes, told)

    def _loss(self, group: StructureGroup, labels: np.ndarray) -> np.ndarray:
        """What these labels cost."""
        if group.charges is None:
            return np.zeros(len(group))
        states = np.where(labels < 0, 0, labels)  # the loss of hidden nodes is zero whatever their state
        at = entries_at(group.graph, states)
        return np.asarray(np.take_along_axis(group.charges, at, axis=1).sum(axis=1))


def _labellings(group: StructureGroup) -> itertools.chain[np.ndarray]:
    """All labels of the known nodes, (instances, variables) each."""
    known = np.flatnonzero(~group.hidden)
    sizes = group.graph.variables.sizes[known]
    count = float(np.prod(sizes.astype(np.float64)))
    if count > _MOST:
        raise UnsupportedError(
            f"rescaling=slack: expected at most {_MOST} labellings of an instance, which are enumerated, got "
            f"{count:.3g}; sequences with all labels and loss='hamming' are counted, or use rescaling=margin"
        )

    def one(state: tuple[int, ...]) -> np.ndarray:
        labels = np.full((len(group), len(group.hidden)), -1)
        labels[:, known] = state
        return labels

    return itertools.chain(one(state) for state in itertools.product(*map(range, sizes.tolist())))
