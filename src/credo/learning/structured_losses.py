r"""Losses of structured prediction: what it costs to tell labels y where y_n are right.

    loss(y_n, y) = sum_i l_i(y_i)   and, of tables, + sum_factors l_a(y_a)

    hamming      l_i(y) = [y != y_ni]; normalised: divided by the number of known labels of the instance
    weighted     l_i(y) = v[y_ni] [y != y_ni]; "balanced" takes v from how rare the labels are
    costs        l_i(y) = table[y_ni, y]
    tables       any table per node, and per factor, of every instance

Nodes without a label cost nothing: nobody knows what is right there.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError
from ..core.registry import Registry
from ..models.crf_features import MISSING
from ..models.crf_inputs import LabelledNodes

__all__ = ["CostMatrix", "Hamming", "LabelLoss", "LabelTables", "WeightedHamming", "loss_of"]


class LabelLoss(abc.ABC):
    """A cost for every label of every node."""

    name: ClassVar[str]

    @abc.abstractmethod
    def charges(self, parts: Sequence[LabelledNodes]) -> list[np.ndarray]:
        """(nodes, labels) of every kind of nodes."""

    def pair_charges(self, number: int, size: int) -> np.ndarray | None:
        """(entries,) costs of the pairs of labels of all edges of an instance; None: they cost nothing."""
        return None

    def check_whole(self, count: int) -> None:  # noqa: B027, most losses have nothing to refuse
        """Refuse batches that are not all of the data, where costs are given instance by instance."""


losses: Registry[LabelLoss] = Registry("loss")


@losses.register
@dataclass(frozen=True, kw_only=True)
class Hamming(LabelLoss):
    """The number, or the share, of wrong labels."""

    name: ClassVar[str] = "hamming"
    normalised: bool = False  # whether it is the share of the known labels of an instance

    def __post_init__(self) -> None:
        """Check the option."""
        check.one_of("normalised", self.normalised, [False, True])

    def charges(self, parts: Sequence[LabelledNodes]) -> list[np.ndarray]:
        """One for every wrong label."""
        found = [_wrong(part) for part in parts]
        if not self.normalised:
            return found
        units = max((int(part.unit.max(initial=-1)) for part in parts), default=-1) + 1
        known = sum(np.bincount(part.unit[part.labels >= 0], minlength=units) for part in parts)
        share = 1.0 / np.maximum(known, 1)
        return [cost * share[part.unit, None] for cost, part in zip(found, parts, strict=True)]


@losses.register
@dataclass(frozen=True, kw_only=True)
class WeightedHamming(LabelLoss):
    """Wrong labels, each counted with a weight of the label that is right."""

    name: ClassVar[str] = "weighted"
    weights: Sequence[float] | Literal["balanced"] = "balanced"  # one per label

    def __post_init__(self) -> None:
        """Check the weights."""
        if isinstance(self.weights, str):
            check.one_of("weights", self.weights, ["balanced"])
            return
        found = check.finite_numbers("weights", self.weights)
        if found.ndim != 1 or (found < 0).any():
            raise OptionError(f"weights: expected a number of 0 or more per label, got {self.weights!r:.80}")

    def charges(self, parts: Sequence[LabelledNodes]) -> list[np.ndarray]:
        """The weight of the right label for every wrong one."""
        return [_wrong(part) * self._own(part)[part.labels, None] for part in parts]

    def _own(self, part: LabelledNodes) -> np.ndarray:
        if isinstance(self.weights, str):
            counts = np.bincount(part.labels[part.labels >= 0], minlength=part.size)
            seen = max(int((counts > 0).sum()), 1)
            return np.asarray(counts.sum() / (seen * np.maximum(counts, 1)))
        _check_size("weights", len(self.weights), part.size)
        return np.asarray(self.weights, dtype=np.float64)


@losses.register
@dataclass(frozen=True, kw_only=True)
class CostMatrix(LabelLoss):
    """What it costs to tell a label where another is right."""

    name: ClassVar[str] = "costs"
    table: Any  # (labels, labels) rows are what is right, columns what is told

    def __post_init__(self) -> None:
        """Check the table."""
        found = check.finite_numbers("costs", self.table)
        if found.ndim != 2 or found.shape[0] != found.shape[1]:
            raise OptionError(f"costs: expected a table (labels, labels), got shape {found.shape}")
        if (found < 0).any() or found.diagonal().any():
            raise OptionError("costs: expected numbers of 0 or more, and 0 for the right label")

    def charges(self, parts: Sequence[LabelledNodes]) -> list[np.ndarray]:
        """The row of what is right."""
        table = np.asarray(self.table, dtype=np.float64)
        for part in parts:
            _check_size("costs", len(table), part.size)
        return [np.where(part.labels[:, None] >= 0, table[part.labels], 0.0) for part in parts]


@losses.register
@dataclass(frozen=True, kw_only=True)
class LabelTables(LabelLoss):
    """Tables given for every instance: of its nodes, and of its edges where pairs of labels cost more.

    Of models with several kinds, an item is a list with the table of every kind.
    """

    name: ClassVar[str] = "tables"
    nodes: Any  # per instance (nodes, labels)
    edges: Any = None  # per instance (edges, labels, labels)

    def check_whole(self, count: int) -> None:
        """As many items as there are instances."""
        for name, given in (("nodes", self.nodes), ("edges", self.edges)):
            if given is not None and len(given) != count:
                raise DataError(
                    f"loss: expected tables of {name} for {count} instances, got {len(given)}; tables belong "
                    "to all of the data, so leave out batch and validation"
                )

    def charges(self, parts: Sequence[LabelledNodes]) -> list[np.ndarray]:
        """The tables, where labels are known."""
        found = []
        for kind, part in enumerate(parts):
            own = [item[kind] if isinstance(item, (list, tuple)) else item for item in self.nodes]
            tables = [check.finite_numbers("loss", table).reshape(-1, np.shape(table)[-1]) for table in own]
            lengths = np.bincount(part.unit, minlength=len(tables))
            for number, (table, length) in enumerate(zip(tables, lengths, strict=True)):
                if table.shape != (length, part.size):
                    raise DataError(
                        f"loss of item {number}: expected a table of shape ({length}, {part.size}), one "
                        f"row per node and one number per label, got {table.shape}"
                    )
            found.append(np.where(part.labels[:, None] >= 0, np.concatenate(tables), 0.0))
        return found

    def pair_charges(self, number: int, size: int) -> np.ndarray | None:
        """Those of the edges, one after another."""
        if self.edges is None:
            return None
        given = self.edges[number]
        parts = given if isinstance(given, (list, tuple)) else [given]
        found = np.concatenate([check.finite_numbers("loss", part).ravel() for part in parts])
        if len(found) != size:
            raise DataError(
                f"loss of item {number}: expected {size} numbers, one per pair of labels of every edge, got "
                f"{len(found)}"
            )
        return found


def _wrong(part: LabelledNodes) -> np.ndarray:
    """One for every label but the right one; zeros where that is not known."""
    known = np.flatnonzero(part.labels != MISSING)
    found = np.zeros((len(part.labels), part.size))
    found[known] = 1.0
    found[known, part.labels[known]] = 0.0
    return found


def _check_size(what: str, got: int, size: int) -> None:
    if got != size:
        raise OptionError(f"{what}: expected one per label, {size}, got {got}")


def loss_of(loss: str | LabelLoss | Any) -> LabelLoss | None:
    """A loss from its text form, or from a table (labels, labels) of costs; None is no loss."""
    if loss is None or isinstance(loss, LabelLoss):
        return loss
    if isinstance(loss, str):
        return losses.resolve(loss)
    return CostMatrix(table=loss)
