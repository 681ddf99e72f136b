"""What users write about labels and features of conditional random fields, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import DataError
from ..core.numbers import float_array, is_missing
from ..core.wiring import starts_of

if TYPE_CHECKING:
    from .crf import CRF

__all__ = ["MISSING", "Features", "Labels", "expanded_features", "feature_rows", "label_list"]

MISSING = -1  # the code of a label that was not observed


@dataclass(frozen=True)
class Labels:
    """The label set of an estimator: what users write, and its positions."""

    classes: np.ndarray  # as given, sorted
    position: dict[Any, int]  # label, as it is and as it is written -> place in `classes`

    @classmethod
    def of(cls, labels: Sequence[Sequence[Any]]) -> Labels:
        """All labels that occur."""
        try:
            seen = {x for k, part in enumerate(labels) for x in label_list(part, k) if not is_missing(x)}
        except TypeError as error:
            raise DataError(
                f"labels: expected texts, numbers or other fixed values, got an {error}"
            ) from None
        if not seen:
            raise DataError("labels: expected at least one, got none")
        try:
            ordered = sorted(seen)
        except TypeError:
            ordered = sorted(seen, key=str)
        if len({str(x) for x in ordered}) < len(ordered):
            raise DataError(f"labels: expected values that differ when written, got {ordered!r:.80}")
        plain = len({type(x) for x in ordered}) == 1 and not isinstance(ordered[0], tuple)
        classes = np.array(ordered) if plain else np.empty(len(ordered), object)
        if not plain:
            classes[:] = ordered
        return cls(classes, {key: k for k, label in enumerate(ordered) for key in (label, str(label))})

    @classmethod
    def of_field(cls, crf: CRF) -> Labels:
        """Those of a field; a value that is written like a label is that label."""
        return cls.of_names(crf.labels)

    @classmethod
    def of_names(cls, labels: Sequence[str]) -> Labels:
        """The labels of a field as texts."""
        position: dict[Any, int] = {label: k for k, label in enumerate(labels)}
        numbers = {float(x): k for x, k in position.items() if _is_written_number(x)}
        return cls(np.array(labels), numbers | position)

    def codes(self, labels: Any, number: int, length: int) -> np.ndarray:
        """Positions of the labels of one sequence or graph, -1 where missing."""
        if len(label_list(labels, number)) != length:
            raise DataError(f"labels of item {number}: expected {length}, one per node, got {len(labels)}")
        found = np.empty(length, dtype=np.int64)
        for t, label in enumerate(labels):
            if is_missing(label):
                found[t] = MISSING
                continue
            # Numbers are the same however they are written.
            is_number = isinstance(label, (int, float, np.number))
            place = self.position.get(label if is_number and label in self.position else str(label))
            if place is None:
                known = [str(c) for c in self.classes[:12]]
                raise DataError(
                    f"labels of item {number}: {label!r} at node {t} is none of the field's; "
                    f"the labels are {known}"
                )
            found[t] = place
        return found


def _is_written_number(label: str) -> bool:
    return label.removeprefix("-").replace(".", "", 1).isdecimal()


def label_list(labels: Any, number: int) -> Any:
    """The labels of one sequence or graph, if they are a list."""
    if isinstance(labels, (str, Mapping)) or not hasattr(labels, "__len__"):
        raise DataError(f"labels of item {number}: expected a list, got {labels!r:.80}")
    return labels


@dataclass(frozen=True)
class Features:
    """What is known of the features of nodes and edges before the rows of an item are read."""

    node_names: tuple[str, ...] | None  # of node features in dictionaries; None: numbers
    edge_names: tuple[str, ...] | None  # of edge features in dictionaries; None: numbers, or no features
    nodes: int | None  # how many a node has, if that is known
    edges: int | None  # how many an edge has

    @classmethod
    def of(cls, nodes: Sequence[Any], edges: Sequence[Any]) -> Features:
        """From the items to be learned from; edges without features are None."""
        given = [part for part in edges if part is not None]
        names, edge_names = _names_of(nodes), _names_of(given)
        width = _width("node features", names, nodes)
        return cls(names, edge_names, width, _width("edge features", edge_names, given))

    @classmethod
    def of_field(cls, crf: CRF) -> Features:
        """From a field that was learned."""
        return cls(crf.node_features, crf.edge_features, len(crf.node_weights), len(crf.edge_weights))

    def node_rows(self, parts: Sequence[Any]) -> tuple[Any, np.ndarray]:
        """Node features of all items in one matrix, and where those of each begin."""
        return _stacked("node features", parts, self.node_names, self.nodes)

    def edge_rows(self, parts: Sequence[Any]) -> tuple[Any, np.ndarray]:
        """The same for edge features."""
        return _stacked("edge features", parts, self.edge_names, self.edges)


def _names_of(features: Sequence[Any]) -> tuple[str, ...] | None:
    """Names of all features that occur in dictionaries, sorted; None if the features are numbers."""
    if not any(_has_dictionaries(part) for part in features):
        return None
    names: set[str] = set()
    for part in features:
        for row in part:
            if not isinstance(row, Mapping):
                raise DataError(f"features: expected dictionaries throughout, got {row!r:.80}")
            names.update(expanded_features(row))
    return tuple(sorted(names))


def _has_dictionaries(part: Any) -> bool:
    return isinstance(part, Sequence) and len(part) > 0 and isinstance(part[0], Mapping)


def _is_blank(part: Any) -> bool:
    """Whether an item has no rows and does not say how wide they would be."""
    return isinstance(part, Sequence) and not len(part)


def _width(what: str, names: tuple[str, ...] | None, parts: Sequence[Any]) -> int | None:
    """Features per row: one for each name, or as many as the first rows have."""
    if names is not None:
        return len(names)
    for number, part in enumerate(parts):
        if not _is_blank(part):
            return int(feature_rows(f"{what} of item {number}", part, None, None).shape[1])
    return None


def _stacked(
    what: str, parts: Sequence[Any], names: tuple[str, ...] | None, count: int | None
) -> tuple[Any, np.ndarray]:
    from scipy import sparse

    if names is not None and all(_has_dictionaries(part) or _is_blank(part) for part in parts):
        together = [row for part in parts for row in part]
        try:
            rows = feature_rows(what, together, names, count) if together else np.empty((0, len(names)))
            return rows, starts_of([len(part) for part in parts])
        except DataError:
            pass  # read one by one, the item at fault is named
    found = [
        np.empty((0, count or 0)) if _is_blank(part)
        else feature_rows(f"{what} of item {number}", part, names, count)
        for number, part in enumerate(parts)
    ]  # fmt: skip
    start = starts_of([part.shape[0] for part in found])
    if any(sparse.issparse(part) for part in found):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in found])), start
    return np.concatenate(found), start


def expanded_features(row: Mapping[str, Any]) -> dict[str, float]:
    """Names and values of one dictionary of features.

    A number is its own value, True and False are 1 and 0; a text becomes the feature "name:text" with the
    value 1, and a list of texts one such feature each.

    Examples
    --------
    >>> from credo.models.crf_features import expanded_features
    >>> expanded_features({"word": "cat", "length": 3, "title": False})
    {'word:cat': 1.0, 'length': 3.0, 'title': 0.0}
    """
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, str):
            found[f"{name}:{value}"] = 1.0
        elif isinstance(value, (list, tuple, set, frozenset)):
            found.update({f"{name}:{item}": 1.0 for item in value})
        else:
            try:
                found[str(name)] = float(value)
            except (TypeError, ValueError, OverflowError):
                raise DataError(
                    f"feature {name!r}: expected a number, a text or a list of texts, got {value!r:.80}"
                ) from None
    return found


def feature_rows(what: str, features: Any, names: Sequence[str] | None, count: int | None) -> Any:
    """Features as a matrix (rows, count), a float array or a sparse matrix in row form.

    Dictionaries need the names of the features; those that are not among them are left out, as a feature
    without a weight.
    """
    from scipy import sparse

    if sparse.issparse(features):
        found = sparse.csr_array(features).astype(np.float64)
        finite = np.isfinite(found.data).all()
    elif isinstance(features, Sequence) and len(features) and isinstance(features[0], Mapping):
        if names is None:
            raise DataError(f"{what}: expected numbers; dictionaries need a field with named features")
        found = _from_dictionaries(features, _positions(tuple(names)))
        finite = np.isfinite(found.data).all()
    else:
        found = float_array(what, features, error=DataError, expected="an array of numbers")
        finite = np.isfinite(found).all()
    if found.ndim != 2 or (count is not None and found.shape[1] != count):
        wanted = "features" if count is None else count
        raise DataError(f"{what}: expected an array of shape (rows, {wanted}), got {found.shape}")
    if not finite:
        raise DataError(f"{what}: expected finite numbers, got NaN or infinity")
    return found


@lru_cache(maxsize=8)
def _positions(names: tuple[str, ...]) -> dict[str, int]:
    """Name -> column; kept, because every sequence of a data set asks for the same."""
    return {name: k for k, name in enumerate(names)}


def _from_dictionaries(rows: Sequence[Mapping[str, Any]], position: Mapping[str, int]) -> Any:
    from scipy import sparse

    values, columns, ends = [], [], [0]
    for row in rows:
        for name, value in expanded_features(row).items():
            k = position.get(name)
            if k is not None:
                values.append(value)
                columns.append(k)
        ends.append(len(values))
    shape = (len(rows), len(position))
    return sparse.csr_array((np.array(values, dtype=np.float64), columns, ends), shape=shape)
