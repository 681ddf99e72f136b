r"""How good predicted labels are: accuracy, precision, recall and F1 per class, and their averages.

With n_ab the rows of class a that were called b:

    accuracy    sum_a n_aa / n           precision_a   n_aa / sum_b n_ba
    recall_a    n_aa / sum_b n_ab        F1_a          2 precision_a recall_a / (precision_a + recall_a)

0 where the divisor is zero. *Macro* averages count every class alike, *weighted* ones by its rows; the
weighted recall is the accuracy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.display import Listing, Shown, text_of
from ..core.errors import DataError
from ..core.records import register

__all__ = ["ClassScores", "score_classes"]


@register("ClassScores")
@dataclass(frozen=True, repr=False)
class ClassScores(Shown):
    """What was called what, and the numbers that follow."""

    classes: tuple[Any, ...]  # labels, in order
    confusion: np.ndarray  # (true class, predicted class) numbers of rows

    @property
    def accuracy(self) -> float:
        """Share of the rows that were called by their class."""
        return float(np.trace(self.confusion) / self.confusion.sum())

    @property
    def precision_by_class(self) -> np.ndarray:
        """(classes,)."""
        return _divided(np.diag(self.confusion), self.confusion.sum(axis=0))

    @property
    def recall_by_class(self) -> np.ndarray:
        """(classes,)."""
        return _divided(np.diag(self.confusion), self.confusion.sum(axis=1))

    @property
    def f1_by_class(self) -> np.ndarray:
        """(classes,)."""
        return _divided(
            2.0 * np.diag(self.confusion), self.confusion.sum(axis=0) + self.confusion.sum(axis=1)
        )

    @property
    def macro_precision(self) -> float:
        """Mean over the classes."""
        return float(self.precision_by_class.mean())

    @property
    def macro_recall(self) -> float:
        """Mean over the classes."""
        return float(self.recall_by_class.mean())

    @property
    def macro_f1(self) -> float:
        """Mean over the classes."""
        return float(self.f1_by_class.mean())

    @property
    def weighted_precision(self) -> float:
        """Mean over the classes, by their rows."""
        return self._weighted(self.precision_by_class)

    @property
    def weighted_f1(self) -> float:
        """Mean over the classes, by their rows."""
        return self._weighted(self.f1_by_class)

    def _weighted(self, values: np.ndarray) -> float:
        return float(self.confusion.sum(axis=1) @ values / self.confusion.sum())

    def __repr__(self) -> str:
        return text_of(self._shown())

    def _shown(self) -> Iterable[str | Listing]:
        count = int(self.confusion.sum())
        yield f"accuracy {self.accuracy:.4f} of {count} rows in {len(self.classes)} classes"
        rows = [
            ["precision", f"{self.macro_precision:.4f}", f"{self.weighted_precision:.4f}"],
            ["recall", f"{self.macro_recall:.4f}", f"{self.accuracy:.4f}"],
            ["F1", f"{self.macro_f1:.4f}", f"{self.weighted_f1:.4f}"],
        ]
        yield Listing(rows, [False, True, True], ["", "macro", "weighted"])


def score_classes(truth: Any, found: Any) -> ClassScores:
    """Compare predicted labels with true ones; classes are all labels that either of them has.

    Examples
    --------
    >>> from credo.evaluate import score_classes
    >>> print(score_classes(["a", "a", "b", "b"], ["a", "b", "b", "b"]))
    accuracy 0.7500 of 4 rows in 2 classes
                macro  weighted
    precision  0.8333    0.8333
    recall     0.7500    0.7500
    F1         0.7333    0.7333
    """
    first, second = np.asarray(truth), np.asarray(found)
    if first.ndim != 1 or first.shape != second.shape or not len(first):
        raise DataError(
            f"labels: expected two lists of the same length, at least 1, got shapes {first.shape} and "
            f"{second.shape}"
        )
    if (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        raise DataError(
            f"labels: expected two lists of one kind, got {first.dtype} and {second.dtype}; text and numbers "
            "are never the same label"
        )
    classes, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    size, rows = len(classes), len(first)
    pairs = places[:rows] * size + places[rows:]
    confusion = np.bincount(pairs, minlength=size * size).reshape(size, size)
    return ClassScores(tuple(classes.tolist()), confusion)


def _divided(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """The quotient, 0 where there is nothing to divide by."""
    return part / np.where(whole > 0, whole, 1)  # type: ignore[no-any-return]
