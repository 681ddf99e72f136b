"""Hidden states that are known at some rows: a column of labels beside those that are emitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.domain import Discrete, unlabelled_states
from ..core.errors import DataError
from ..data.column import MISSING, Column
from ..data.dataset import Dataset
from ..data.read import read
from ..data.sequences import emitted_columns

__all__ = ["allowed", "read_labels", "unlabelled_columns", "with_labels"]


def unlabelled_columns(data: Any, labels: str, groups: str | None, weights: Any) -> list[str]:
    """The columns of a table that are emitted when none are chosen."""
    names = data.names if isinstance(data, Dataset) else emitted_columns(data, groups, None, weights)
    if names is None:
        raise DataError(
            f"labels: expected a table with a column '{labels}', such as a data frame, got "
            f"{type(data).__name__}"
        )
    return [name for name in names if name != labels]


def read_labels(data: Any, labels: str, states: int, groups: str | None, lengths: Any) -> np.ndarray:
    """The state of every row, -1 where it is unknown.

    Whole numbers are states; other labels are numbered in their order.
    """
    if isinstance(data, Dataset):
        column = data.column(labels)
    else:
        column = read(data, columns=[labels], groups=groups, lengths=lengths).column(labels)
    if not isinstance(column.domain, Discrete):
        whole = np.nan_to_num(column.values, nan=MISSING)
        wrong = whole.ndim > 1 or (whole != np.floor(whole)).any()
        if wrong or whole.min() < MISSING or whole.max() >= states:
            raise DataError(
                f"labels: expected states in column '{labels}', numbered below {states}, or names, got "
                f"{column.values.ravel()[:4]}"
            )
        return whole.astype(np.int64)
    said = column.domain.labels
    numbers = [int(label) for label in said] if all(label.isdecimal() for label in said) else range(len(said))
    if max(numbers, default=0) >= states:
        raise DataError(
            f"labels: expected at most {states} states in column '{labels}', numbered from 0, got {said[:8]}"
        )
    found: np.ndarray = np.array([*numbers, MISSING])[column.values]
    return found


def with_labels(data: Dataset, labels: str, states: int, known: np.ndarray) -> Dataset:
    """The dataset with the known states as its target."""
    if len(known) != data.n_rows:
        raise DataError(f"labels: expected {data.n_rows} rows, got {len(known)}")
    column = Column(labels, unlabelled_states(states), known)
    return replace(data, columns=(*data.columns, column), targets=(labels,), block=data.rows())


def allowed(scores: np.ndarray, data: Dataset, rows: slice = slice(None)) -> np.ndarray:
    """Scores of some rows, with -inf for all states but the known ones."""
    if not data.targets:
        return scores
    known = data.column(data.targets[0]).values[rows]
    other = (known[:, None] >= 0) & (np.arange(scores.shape[1]) != known[:, None])
    return np.where(other, -np.inf, scores)
