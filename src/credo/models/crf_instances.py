"""What a conditional random field is asked about: inputs in all their forms, and the labels known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import DataError
from ..core.instance import Instance
from ..core.numbers import is_missing
from ..data.cells import Cells, is_missing_word
from ..data.dataset import Dataset, begin_of
from ..data.read import group_order
from ..data.sources import is_table, named_columns
from .crf_features import Features, Labels, label_list
from .crf_inputs import Graphs, LabelledSequences, edge_pairs, graph_parts, spaced

if TYPE_CHECKING:
    from .crf import CRF

__all__ = ["Inputs", "filled"]

_TRUTHS = {"True": 1.0, "False": 0.0}
_RANGE = 300.0  # of transition scores whose exponentials, and products of two of them, are numbers


@dataclass(frozen=True)
class Inputs:
    """Inputs as one table of node features, and what joins the nodes of each."""

    rows: Any  # (nodes, features), dense or sparse
    begin: np.ndarray  # (inputs + 1,) input i owns the nodes begin[i]:begin[i+1]
    edges: list[Any]  # pairs of node positions of each; None for a chain
    extra: list[Any]  # features of these edges; None for none
    known: np.ndarray | None = None  # (nodes,) positions of labels, -1 where missing

    @classmethod
    def of(
        cls,
        crf: CRF,
        data: Any,
        targets: Any = None,
        *,
        lengths: Any = None,
        mask: Any = None,
        groups: str | None = None,
        columns: Any = None,
    ) -> Inputs:
        """Read inputs for a field; see `CRF.instantiate`."""
        reading = {"lengths": lengths, "mask": mask, "groups": groups, "columns": columns}
        parts = _Parts.of(crf, data, targets, **reading)
        rows, begin = Features.of_field(crf).node_rows(parts.tables)
        begin = begin if parts.begin is None else begin_of(rows.shape[0], begin=parts.begin)
        if not begin[-1]:
            raise DataError("data: expected at least one node, got none")
        found = cls(rows, begin, parts.edges, parts.extra)
        labels = parts.labels_of(begin)
        return found if labels is None else found._labelled(crf, labels)

    def _labelled(self, crf: CRF, labels: Sequence[Any]) -> Inputs:
        known, lengths = Labels.of_field(crf), np.diff(self.begin).tolist()
        if len(labels) != len(lengths):
            raise DataError(f"targets: expected labels of {len(lengths)} inputs, got those of {len(labels)}")
        parts = [known.codes(part, k, lengths[k]) for k, part in enumerate(labels)]
        return Inputs(self.rows, self.begin, self.edges, self.extra, np.concatenate(parts))

    def batch(self, crf: CRF) -> LabelledSequences | Graphs:
        """What is learned from: features and labels, before weights make scores of them."""
        features = Features.of_field(crf)
        if any(edges is not None for edges in self.edges):
            size = len(crf.labels)
            return Graphs.joined(self.rows, self.begin, self.edges, self.extra, self.known, features, size)
        if any(extra is not None for extra in self.extra):
            self._check_extra()
            steps = spaced(*features.edge_rows(self.extra), self.begin)
            return LabelledSequences(self.rows, steps, self.known, self.begin)
        if (np.diff(self.begin) > 1).any():
            crf.check_plain_edges("step")
        return LabelledSequences(self.rows, None, self.known, self.begin)

    def _check_extra(self) -> None:
        if any(part is None for part in self.extra):
            raise DataError("edge features: expected them for all inputs or for none")

    def instance(self, crf: CRF) -> Instance:
        """The labels of these inputs: chains with one table, with scores of every step, or graphs."""
        scores = np.ascontiguousarray(self.rows @ crf.node_weights)
        if any(edges is not None for edges in self.edges):
            return self._graphs(crf, scores)
        if any(extra is not None for extra in self.extra):
            return self._steps(crf, scores)
        if (np.diff(self.begin) > 1).any():
            crf.check_plain_edges("step")
        moves = crf.edge_weights[0]
        if abs(moves).max() > _RANGE:
            pairs = np.ascontiguousarray(np.broadcast_to(moves, (len(scores), *moves.shape)))
            return Instance("steps", scores, self.begin, {}, pairs=pairs, name="label", domain=crf.domain)
        tables = {"start": np.ones(len(moves)), "transition": np.exp(moves)}
        return Instance("chains", scores, self.begin, tables, name="label", domain=crf.domain)

    def _steps(self, crf: CRF, scores: np.ndarray) -> Instance:
        count, size = len(scores), scores.shape[1]
        self._check_extra()
        found = spaced(*Features.of_field(crf).edge_rows(self.extra), self.begin)
        pairs = np.asarray(found @ crf.edge_weights.reshape(len(crf.edge_weights), -1))
        pairs = np.ascontiguousarray(pairs.reshape(count, size, size))
        return Instance("steps", scores, self.begin, {}, pairs=pairs, name="label", domain=crf.domain)

    def _graphs(self, crf: CRF, scores: np.ndarray) -> Instance:
        sizes = np.diff(self.begin).tolist()
        ends = []
        for number, (edges, size) in enumerate(zip(self.edges, sizes, strict=True)):
            try:
                ends.append(edge_pairs(edges, size))
            except DataError as error:
                raise DataError(f"item {number}: {error}") from None
        tables = []
        for number, (part, own) in enumerate(zip(self.extra, ends, strict=True)):
            try:
                tables.append(crf.edge_scores(part, len(own)))
            except DataError as error:
                raise DataError(f"item {number}: {error}") from None
        joined = np.concatenate([own + first for own, first in zip(ends, self.begin, strict=False)])
        pairs, label = np.concatenate(tables), crf.domain
        return Instance(
            "graph", scores, self.begin, {}, pairs=pairs, edges=joined, name="label", domain=label
        )


def _is_many(data: Any) -> bool:
    """Whether this is a list of inputs, not one input."""
    if isinstance(data, np.ndarray):
        return data.ndim == 3 or (data.dtype == object and data.ndim == 1)
    if not isinstance(data, list):
        return False
    return not data or any(_is_input(part) for part in data)


def _is_input(part: Any) -> bool:
    """Whether an item of a list is an input by itself, not a row of numbers or features."""
    if isinstance(part, (list, tuple)):
        return not part or isinstance(part[0], (Mapping, list, tuple, np.ndarray)) or hasattr(part[0], "ndim")
    return getattr(part, "ndim", 0) == 2


@dataclass(frozen=True)
class _Parts:
    """Inputs as they were given: what the nodes of each have, what joins them, and their labels."""

    tables: list[Any]  # features of nodes, one table per input; one of all inputs where `begin` cuts it
    edges: list[Any]
    extra: list[Any]
    begin: np.ndarray | None = None
    labels: Any = None  # one list per input, or one of all rows where inputs are cut out of one table

    @classmethod
    def of(
        cls, crf: CRF, data: Any, targets: Any, *, lengths: Any, mask: Any, groups: str | None, columns: Any
    ) -> _Parts:
        if mask is not None:
            raise DataError("mask: a field has no distribution over features, which must be given; leave out")
        if is_table(data):
            return cls._of_table(crf, data, targets, lengths, groups, columns)
        if groups is not None or columns is not None:
            raise DataError(
                f"groups, columns: expected a table whose columns have names, got {type(data).__name__}; "
                "give a list with one input each"
            )
        if lengths is not None:
            if not hasattr(data, "shape") and not hasattr(data, "__len__"):
                raise DataError(f"data: expected rows of features, got {data!r:.80}")
            count = int(data.shape[0]) if hasattr(data, "shape") else len(data)
            labels = None if targets is None else _cells(label_list(targets, 0))
            return cls._cut([data], begin_of(count, lengths=lengths), labels)
        if not _is_many(data):
            data, targets = [data], None if targets is None else [targets]
        nodes, edges, extra = graph_parts(data)
        if not nodes:
            raise DataError("data: expected at least one input, got none")
        return cls(nodes, edges, extra, None, targets)

    @classmethod
    def _cut(cls, tables: list[Any], begin: np.ndarray, labels: Any) -> _Parts:
        nothing = [None] * (len(begin) - 1)
        return cls(tables, list(nothing), list(nothing), begin, labels)

    @classmethod
    def _of_table(
        cls, crf: CRF, data: Any, targets: Any, lengths: Any, groups: str | None, columns: Any
    ) -> _Parts:
        """Named columns are features; those of the targets, groups, and what was not chosen are none."""
        begin = None
        if isinstance(data, Dataset):
            begin = data.begin if data.is_sequences else None
            targets = next(iter(data.targets), None) if targets is None else targets
            data = {column.name: column.labels() for column in data.columns}
        read = named_columns(data)
        raw = {name: _cells(values, is_text=read.in_file) for name, values in read.columns.items()}
        order: Any = slice(None)
        if groups is not None:
            if groups not in raw or lengths is not None or begin is not None:
                raise DataError(
                    f"groups: expected the name of one of {list(raw)[:12]}, and no lengths beside it"
                )
            order, lengths = group_order(groups, raw.pop(groups))
        count = len(next(iter(raw.values()), ()))
        if begin is None:
            begin = np.array([0, count]) if lengths is None else begin_of(count, lengths=lengths)
        labels = None
        if targets is not None:
            column = _cells(raw.pop(_known(targets, raw, "targets")) if isinstance(targets, str) else targets)
            if len(column) != count:
                raise DataError(f"targets: expected {count} labels, one per row, got {len(column)}")
            labels = column[order]
        names = list(raw) if columns is None else [_known(name, raw, "columns") for name in columns]
        return cls._cut([_features(crf, {name: raw[name][order] for name in names})], begin, labels)

    def labels_of(self, begin: np.ndarray) -> Any:
        """The labels of each input."""
        if self.begin is None or self.labels is None:
            return self.labels
        return np.split(self.labels, begin[1:-1])  # those of the last reach as far as the labels do


def filled(crf: CRF, data: Any, targets: Any, **reading: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The labels of a blank field, and its features: how many, or their names."""
    named = dict.fromkeys(("lengths", "mask", "groups", "columns")) | reading
    parts = _Parts.of(crf, data, targets, **named)
    if parts.labels is None:
        raise DataError("targets: expected the labels that were observed, got none")
    begin = np.zeros(1, dtype=np.int64) if parts.begin is None else parts.begin
    labels = Labels.of(parts.labels_of(begin))
    features = Features.of(parts.tables, parts.extra)
    counts = {"nodes": features.nodes or 0, "edges": features.edges or 1}
    names = {"node_features": features.node_names, "edge_features": features.edge_names}
    return tuple(str(label) for label in labels.classes), counts | names


def _known(name: Any, raw: Mapping[str, Any], what: str) -> str:
    if name not in raw:
        raise DataError(f"{what}: expected the name of one of {list(raw)[:12]}, got {name!r:.60}")
    return str(name)


def _features(crf: CRF, columns: dict[str, np.ndarray]) -> Any:
    """A dictionary for every row, or an array where features have no names.

    What is a feature by its name alone is a number, even if data that were read before have it as a label;
    a blank takes every column of numbers as one.
    """
    if crf.node_features is None and not crf.is_blank:
        cells = [_numbers(column) for column in columns.values()]
        return np.stack(cells, axis=1) if cells else np.empty((0, 0))
    known = set(columns if crf.is_blank else crf.node_features or ())
    columns = {name: _numbers(cells) if name in known else cells for name, cells in columns.items()}
    return [
        {name: value for name, value in zip(columns, row, strict=True) if not is_missing(value)}
        for row in zip(*columns.values(), strict=True)
    ]


def _numbers(column: np.ndarray) -> np.ndarray:
    """Numbers, and True and False, that are written as text; a column with other text stays as it is."""
    try:
        found = [_TRUTHS.get(v, v) if isinstance(v, str) else v for v in column.tolist()]
        return np.array([float(v) if isinstance(v, str) else v for v in found], dtype=object)
    except ValueError:
        return column


def _cells(values: Any, *, is_text: bool = False) -> np.ndarray:
    """Values of a column as objects; in a text file some words mean that a cell is missing."""
    if isinstance(values, Cells):
        values = np.array([*values.distinct, None], dtype=object)[values.codes]
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    found = np.empty(len(listed), object)
    found[:] = [None if is_text and is_missing_word(value) else value for value in listed]
    return found
