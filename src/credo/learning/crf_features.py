"""What users write about labels and features of conditional random fields, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import DataError
from ..core.wiring import starts_of
from ..models.crf import CRF, expanded_features, feature_rows

__all__ = ["MISSING", "Features", "Labels", "is_missing", "label_list"]

MISSING = -1  # the code of a label that was not observed


@dataclass(frozen=True)
class Labels:
    """The label set of an estimator: what users write, and its positions."""

    classes: np.ndarray  # as given, sorted
    position: dict[Any, int]  # label -> place in `classes`

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
        return cls(classes, {label: k for k, label in enumerate(ordered)})

    def codes(self, labels: Any, number: int, length: int) -> np.ndarray:
        """Positions of the labels of one sequence or graph, -1 where missing."""
        if len(label_list(labels, number)) != length:
            raise DataError(f"labels of item {number}: expected {length}, one per node, got {len(labels)}")
        found = np.empty(length, dtype=np.int64)
        for t, label in enumerate(labels):
            if is_missing(label):
                found[t] = MISSING
            elif label in self.position:
                found[t] = self.position[label]
            else:
                known = [str(c) for c in self.classes[:12]]
                raise DataError(
                    f"labels of item {number}: {label!r} at node {t} was not seen in training; "
                    f"the labels are {known}"
                )
        return found


def label_list(labels: Any, number: int) -> Any:
    """The labels of one sequence or graph, if they are a list."""
    if isinstance(labels, (str, Mapping)) or not hasattr(labels, "__len__"):
        raise DataError(f"labels of item {number}: expected a list, got {labels!r:.80}")
    return labels


def is_missing(label: Any) -> bool:
    """Whether a label was not observed."""
    if isinstance(label, (float, np.floating)):
        return bool(np.isnan(label))
    return label is None or type(label).__name__ == "NAType"  # that of pandas, which need not be there


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
