"""What estimators read: tables of numbers with their columns, and lists of sequences of these.

Refusals say what scikit-learn's own say, word for word where its users match them, so that pipelines and
their checks meet what they know.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import DataError
from ..core.numbers import float_array, is_missing
from ..data.sources import split_list
from .base import Estimator

__all__ = [
    "SequenceRows",
    "are_lengths",
    "read_columns",
    "read_labels",
    "read_rows",
    "read_sequences",
    "split_rows",
]


class _CellError(DataError, TypeError):
    """A cell that is no number at all."""


class SequenceRows(NamedTuple):
    """The rows of sequences below each other."""

    rows: np.ndarray  # (rows, columns)
    lengths: np.ndarray | None  # of the sequences; None is one of all rows
    is_list: bool  # whether answers are lists with one item per sequence


def read_rows(
    estimator: Estimator, X: Any, *, reset: bool = False, missing: bool | None = None, least: int = 1
) -> np.ndarray:
    """A table of numbers (rows, columns), which has the columns of the one that was fitted.

    Parameters
    ----------
    estimator
        Whose columns these are.
    X
        An array, a data frame, nested lists.
    reset
        Whether these are the columns to remember.
    missing
        Whether NaN is a missing number; as the estimator says.
    least
        How many rows there have to be.
    """
    rows = _table(X, estimator._allows_nan if missing is None else missing)
    if len(rows) < least:
        raise DataError(
            f"X: found array with {len(rows)} sample(s) (shape={rows.shape}) while a minimum of {least} is "
            "required."
        )
    read_columns(estimator, X, rows.shape[1], reset=reset)
    return rows


def read_sequences(
    estimator: Estimator, X: Any, lengths: Any = None, *, reset: bool = False, flat: bool = False
) -> SequenceRows:
    """The rows of sequences: of one table, with `lengths` if it holds several, or of a list of tables.

    Parameters
    ----------
    estimator, reset
        As for `read_rows`.
    X, lengths
        The data.
    flat
        Whether sequences may have one axis only: a row is then one number.
    """
    flat = flat and (reset or getattr(estimator, "n_features_in_", 1) == 1)
    parts = split_list(X) if lengths is None else None
    if parts is None:
        rows = read_rows(estimator, _upright(X) if flat else X, reset=reset)
        return SequenceRows(rows, _checked(lengths, len(rows)), is_list=False)
    tables = []
    for number, part in enumerate(parts):
        try:
            tables.append(read_rows(estimator, _upright(part) if flat else part, reset=reset and not number))
        except DataError as error:
            raise type(error)(f"sequence {number}: {error}") from None
    sizes = np.array([len(table) for table in tables], dtype=np.int64)
    return SequenceRows(np.concatenate(tables), sizes, is_list=True)


def split_rows(found: SequenceRows, rows: np.ndarray) -> Any:
    """What belongs to the rows, in the form in which the sequences came."""
    if not found.is_list or found.lengths is None:
        return rows
    return np.split(rows, np.cumsum(found.lengths)[:-1])


def read_labels(estimator: Estimator, y: Any, count: int, word: str = "row") -> np.ndarray:
    """One label per row, or per sequence."""
    if y is None:
        kind = type(estimator).__name__
        raise DataError(f"{kind} requires y to be passed, but the target y is None: expected {count} labels")
    found = np.asarray(y)
    if found.shape == (count, 1) and count:
        warnings.warn(
            f"A column-vector y was passed when a 1d array was expected; its {count} labels are taken",
            _conversion_warning(),
            stacklevel=4,
        )
        found = found[:, 0]
    if found.shape != (count,):
        raise DataError(f"y: expected {count} labels, one per {word}, got shape {found.shape}")
    if not count:
        raise DataError(f"X: expected at least one {word}, got none")
    if found.dtype.kind == "f":
        if not np.isfinite(found).all():
            raise DataError("Input y contains NaN or infinity; labels must be known")
        if (found != np.round(found)).any():
            raise DataError(
                "y: Unknown label type: continuous numbers; expected labels, such as whole numbers"
            )
    if found.dtype.kind == "O" and any(is_missing(label) for label in found):
        raise DataError("Input y contains NaN or None; labels must be known")
    return found


def _conversion_warning() -> type[Warning]:
    """scikit-learn's, where it is loaded."""
    known = sys.modules.get("sklearn.exceptions")
    return UserWarning if known is None else known.DataConversionWarning  # type: ignore[no-any-return]


def are_lengths(y: Any, rows: int) -> bool:
    """Whether a second argument that might be labels says how long sequences are."""
    if y is None or not isinstance(y, (Sequence, np.ndarray)) or isinstance(y, str):
        return False
    found = np.asarray(y)
    return found.ndim == 1 and found.dtype.kind in "iu" and bool((found >= 1).all()) and found.sum() == rows


def read_columns(estimator: Estimator, X: Any, count: int, *, reset: bool) -> None:
    """Remember the number and the names of columns, or compare them with what was fitted."""
    names = _names(X)
    kind = type(estimator).__name__
    if reset:
        estimator.n_features_in_ = count  # type: ignore[attr-defined]
        if names is not None:
            estimator.feature_names_in_ = names  # type: ignore[attr-defined]
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and names is None:
        warnings.warn(
            f"X does not have valid feature names, but {kind} was fitted with feature names",
            UserWarning,
            stacklevel=4,
        )
    elif known is None and names is not None and hasattr(estimator, "n_features_in_"):
        warnings.warn(
            f"X has feature names, but {kind} was fitted without feature names", UserWarning, stacklevel=4
        )
    elif known is not None and names is not None and list(known) != list(names):
        raise DataError(_other_names(list(known), list(names)))
    expected = getattr(estimator, "n_features_in_", count)
    if expected != count:
        raise DataError(f"X has {count} features, but {kind} is expecting {expected} features as input.")


def _other_names(known: list[str], names: list[str]) -> str:
    """How the columns of a table differ from those that were fitted."""
    said = "The feature names should match those that were passed during fit.\n"
    new, gone = sorted(set(names) - set(known)), sorted(set(known) - set(names))
    for title, some in (
        ("Feature names unseen at fit time:", new),
        ("Feature names seen at fit time, yet now missing:", gone),
    ):
        if some:
            listed = [f"- {name}" for name in some[:5]] + (["- ..."] if len(some) > 5 else [])
            said += "\n".join([title, *listed]) + "\n"
    if not new and not gone:
        said += "Feature names must be in the same order as they were in fit.\n"
    return said


def _names(X: Any) -> np.ndarray | None:
    """The names of the columns of a frame, if all of them are text."""
    columns = getattr(X, "columns", None)
    if columns is None or isinstance(X, np.ndarray):
        return None
    names = list(columns)
    return np.array(names, dtype=object) if names and all(isinstance(n, str) for n in names) else None


def _table(X: Any, missing: bool) -> np.ndarray:
    """Two axes, at least one column, no infinite numbers."""
    if hasattr(X, "toarray"):
        raise DataError(f"X: expected a dense table, got a sparse {type(X).__name__}; give its `toarray()`")
    _refuse_others(X)
    rows = float_array("X", X, error=DataError, missing=True)
    if rows.ndim != 2:
        raise DataError(
            f"X: Expected 2D array, got {rows.ndim}D array instead: shape {rows.shape}. Reshape your data "
            "using array.reshape(-1, 1) if it has one column, or array.reshape(1, -1) if it is one row."
        )
    if not rows.shape[1]:
        raise DataError(
            f"X: found array with 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required."
        )
    if np.isinf(rows).any():
        row = int(np.flatnonzero(np.isinf(rows).any(axis=1))[0])
        raise DataError(f"X: row {row} has inf: an infinite number; expected finite ones")
    if not missing and np.isnan(rows).any():
        row = int(np.flatnonzero(np.isnan(rows).any(axis=1))[0])
        raise DataError(f"X: row {row} has NaN: a missing number; fill it in, or leave the row out")
    return rows


def _refuse_others(X: Any) -> None:
    """Cells that are no numbers, where the usual sentence would not say what scikit-learn's does."""
    found = np.asarray(X) if isinstance(X, (np.ndarray, list, tuple)) and not _is_ragged(X) else None
    if found is None:
        return
    if found.dtype.kind == "c":
        raise DataError("X: expected real numbers, got complex ones. Complex data not supported")
    if found.dtype.kind == "O":
        for place, cell in np.ndenumerate(found):
            if isinstance(cell, (dict, list, set, tuple)):
                raise _CellError(
                    f"X: cell {place}: the argument must be a string or a number, got a {type(cell).__name__}"
                )


def _is_ragged(X: Any) -> bool:
    try:
        np.asarray(X)
    except ValueError:
        return True
    return False


def _upright(X: Any) -> Any:
    """One axis of numbers as one column."""
    if hasattr(X, "columns"):
        return X
    try:
        found = X if isinstance(X, np.ndarray) else np.asarray(X)
    except ValueError:
        return X
    return found[:, None] if found.ndim == 1 and found.dtype.kind in "iufbO" else X


def _checked(lengths: Any, rows: int) -> np.ndarray | None:
    if lengths is None:
        return None
    found = np.atleast_1d(np.asarray(lengths))
    if found.ndim != 1 or found.dtype.kind not in "iu" or (found < 1).any() or int(found.sum()) != rows:
        raise DataError(
            f"lengths: expected whole numbers from 1 that sum to {rows} rows, got {lengths!r:.80}"
        )
    return found.astype(np.int64)
