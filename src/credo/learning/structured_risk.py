r"""The risk of structured prediction as a source of statistics: two powered sums of every instance.

    value = - (1/N) sum_n [ U_n+ - U_n- ]          slopes = - (1/N) sum_n [ E+_n - E-_n ]

E+ and E- are the derivatives of the two sums by the scores: expectations under

    p(h | y) ~ exp( w.f / eps_h ),   p(y) ~ exp( [ loss + eps_h log sum_h exp( w.f / eps_h ) ] / eps_y )

and in E- the labels are the known ones. Any inference answers that can be asked: the junction tree all
members; `bp` the temperatures 0 and 1; where all temperatures are one positive number the scores are divided
by it and summed, which `bp`, `gbp` and `trw` can; `lp` and `graph-cut` maxima. Where a method that is not
exact maximises labels, value and slopes are those of the labels that it found: the value is then below the
true one. Instances without any label contribute exactly nothing, and are left out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import ConvergenceWarning, UnsupportedError
from ..core.factor_graph import FactorGraph
from ..core.records import record
from ..core.result import Status
from ..inference.portfolio.batch import TableBatch
from ..inference.portfolio.powered import powered_question
from ..inference.problem.base import Algorithm, Budget, algorithms
from ..inference.problem.reading import refusal
from .label_sources import KeptByBatch
from .log_linear import StatisticsSource
from .structure_groups import StructureGroup, entries_at, groups_of, scattered
from .structured_losses import LabelLoss
from .structured_members import RiskMember

__all__ = ["Answered", "GraphAnswers", "GroupAnswer", "StructuredRisk", "flat_of", "like"]


class Answered(NamedTuple):
    """One powered sum of every instance of a batch."""

    values: np.ndarray  # (instances,) 0 where no label is known
    slopes: np.ndarray  # derivatives of their sum by the flat scores


class GroupAnswer(NamedTuple):
    """One powered sum of the instances of a group."""

    values: np.ndarray  # (instances,)
    slopes: np.ndarray  # (instances, entries) by the tables of the group
    labels: np.ndarray | None = None  # (instances, variables) states that were maximised, -1 for others


def flat_of(scores: Any) -> np.ndarray:
    """Scores laid end to end."""
    return np.concatenate([np.asarray(part).ravel() for part in scores])


def like(scores: Any, flat: np.ndarray) -> Any:
    """Flat numbers in the form of scores."""
    parts, at = [], 0
    for part in scores:
        parts.append(flat[at : at + part.size].reshape(part.shape))
        at += part.size
    return type(scores)._make(parts) if hasattr(scores, "_make") else type(scores)(parts)


@record("graph answers", kept=("runs", "failures"))
@dataclass
class GraphAnswers:
    """Powered sums of graphs by any inference that can be asked for them."""

    member: RiskMember  # which risk
    loss: LabelLoss | None = None  # of a labelling
    method: str | Algorithm | None = None  # None is exact where that is small
    budget: Budget = field(default_factory=Budget)  # of each run
    seed: int | None = None  # of inference
    runs: int = 0  # so far
    failures: int = 0  # runs that did not converge

    @cached_property
    def _groups(self) -> Any:
        return KeptByBatch(lambda batch, size: groups_of(batch, self.loss))

    def groups(self, batch: Any) -> list[StructureGroup]:
        """The instances with a label, by structure."""
        found: list[StructureGroup] = self._groups.of(batch, 0)
        return found

    def check(self, batch: Any) -> None:
        """Refuse a method that cannot answer both questions, before anything is learned."""
        if self.method is None:
            return
        algorithm = algorithms.resolve(self.method)
        for group in {group.hidden.any(): group for group in self.groups(batch)}.values():
            heat = np.where(group.hidden, self.member.eps_h, self.member.eps_y)
            asked = [(group.graph, heat)]
            if group.hidden.any():
                asked.append((group.told.graph, np.full(len(heat), self.member.eps_h)))
            for graph, temperatures in asked:
                reason = refusal(algorithm, powered_question(graph, temperatures, group.hidden)[0].problem)
                if reason is not None:
                    raise UnsupportedError(
                        f"{algorithm.name} cannot treat this problem, which objective="
                        f"{self.member.name} asks: {reason}"
                    )

    def charged(self, scores: Any, batch: Any) -> Answered:
        """U+ of every instance: labels and hidden variables are free, and wrong labels earn their loss."""
        flat = flat_of(scores)
        return self._whole(batch, flat, [self.charged_group(g, flat) for g in self.groups(batch)])

    def clamped(self, scores: Any, batch: Any) -> Answered:
        """U- of every instance: labels are the known ones."""
        flat = flat_of(scores)
        return self._whole(batch, flat, [self.clamped_group(g, flat) for g in self.groups(batch)])

    def _whole(self, batch: Any, flat: np.ndarray, found: list[GroupAnswer]) -> Answered:
        values, groups = np.zeros(len(batch)), self.groups(batch)
        for group, own in zip(groups, found, strict=True):
            values[group.which] = own.values
        return Answered(values, scattered([g.entries for g in groups], [f.slopes for f in found], len(flat)))

    def charged_group(self, group: StructureGroup, flat: np.ndarray) -> GroupAnswer:
        """U+ of the instances of a group."""
        heat = np.where(group.hidden, self.member.eps_h, self.member.eps_y)
        tables = group.tables(flat)
        if self.member.eps_y > 0:
            found = self.ask(group.graph, tables, heat, group.hidden)
            return GroupAnswer(found.values, _slopes(found))
        return self.best(group, tables)

    def best(self, group: StructureGroup, tables: np.ndarray) -> GroupAnswer:
        """The best labels of instances with these tables, hidden ones eliminated, and their value."""
        heat = np.where(group.hidden, self.member.eps_h, 0.0)
        found = self.ask(group.graph, tables, heat, group.hidden)
        if found.states is None:
            raise UnsupportedError("the inference tells no best states; use junction-tree, bp or lp")
        labels = np.where(heat == 0, found.states, -1)
        if group.hidden.any() and (heat > 0).any() and _is_exact(found):
            return GroupAnswer(found.values, _slopes(found), labels)
        return self._given(group, tables, labels)._replace(labels=labels)

    def clamped_group(self, group: StructureGroup, flat: np.ndarray) -> GroupAnswer:
        """U- of the instances of a group."""
        return self._given(group, flat[group.entries], group.labels)

    def _given(self, group: StructureGroup, tables: np.ndarray, labels: np.ndarray) -> GroupAnswer:
        """The value of instances with these labels, whatever is hidden eliminated."""
        clamped = group.told if labels is group.labels else group.clamp(labels)
        free, at = labels[0] < 0, clamped.positions
        own, slopes = np.take_along_axis(tables, at, axis=1), np.zeros(tables.shape)
        if not free.any():
            np.put_along_axis(slopes, at, 1.0, axis=1)
            return GroupAnswer(own.sum(axis=1), slopes)
        found = self.ask(clamped.graph, own, np.full(len(free), self.member.eps_h), free)
        if self.member.eps_h > 0:
            np.put_along_axis(slopes, at, _slopes(found), axis=1)
            return GroupAnswer(found.values, slopes)
        assert found.states is not None
        chosen = entries_at(clamped.graph, found.states)
        np.put_along_axis(slopes, np.take_along_axis(at, chosen, axis=1), 1.0, axis=1)
        return GroupAnswer(np.take_along_axis(own, chosen, axis=1).sum(axis=1), slopes)

    def ask(self, graph: FactorGraph, tables: np.ndarray, heat: np.ndarray, first: np.ndarray) -> TableBatch:
        """Powered sums with these temperatures; variables flagged `first` are eliminated before others."""
        question, scale = powered_question(graph, heat, first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = question.ask(
                tables / scale if scale != 1 else tables, self.method, summed=False, budget=self.budget,
                seed=self.seed,
            )  # fmt: skip
        self.runs += len(tables)
        self.failures += sum(not status.is_success for status in found.status)
        return found if scale == 1 else replace(found, values=scale * found.values)

    def report(self) -> list[str]:
        """Sentences for the notes of a fit."""
        if not self.failures:
            return []
        return [f"inference did not converge in {self.failures} of {self.runs} runs"]


def _is_exact(found: TableBatch) -> bool:
    return all(status in (Status.EXACT, Status.OPTIMAL) for status in found.status)


def _slopes(found: TableBatch) -> np.ndarray:
    assert found.factor_marginals is not None
    return found.factor_marginals


class StructuredRisk(StatisticsSource):
    """Minus the mean risk of a member."""

    def __init__(self, answers: Any) -> None:
        self.answers = answers
        self.memory = (answers,)

    def evaluate(self, scores: Any, batch: Any) -> tuple[float, Any]:
        """Value and slopes."""
        plus, minus = self.answers.charged(scores, batch), self.answers.clamped(scores, batch)
        value = float((minus.values - plus.values).sum()) / batch.total
        return value, like(scores, (minus.slopes - plus.slopes) / batch.total)

    def values(self, scores: Any, batch: Any) -> np.ndarray:
        """U of every instance."""
        found: np.ndarray = (
            self.answers.charged(scores, batch).values - self.answers.clamped(scores, batch).values
        )
        return found
