"""Reading data once for everything that is learned from or scored.

    data = credo.data.read(frame, schema=model.variables)      # the model's domains decide
    data = credo.data.read(frame)                              # what the columns show decides
    data = credo.data.read(frame, groups="patient")            # sequences: one per patient

Sources are pandas, polars and Arrow frames, mappings name -> column, lists of mappings, arrays, lists with an
array or frame per sequence, `Samples`, and paths of .csv, .tsv and .parquet files. Without a schema,
categories stay in their order; bools, strings, whole numbers and whole floats with gaps become sorted labels,
at most 32 of them for numbers; other floats are real. What whole numbers mean is said in `coding.py`.

None, NaN, NA, null and masked cells are missing, -1 among positions of states, words such as `NA` and `?` in
text files only, and what `missing` adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..core import check
from ..core.domain import Discrete, Real, unlabelled_states
from ..core.errors import DataError, QueryError
from ..core.variable import Variable, Variables
from .cells import Cells
from .coding import coded, numbers_of, relabelled, soft_weights
from .column import MISSING, Column
from .dataset import Dataset, unit_weights
from .domains import shown
from .sources import Raw, joined, named_columns, split_list

__all__ = ["gather", "group_order", "read"]

_NAMED = 8  # columns named in a note


def read(
    source: Any,
    *,
    schema: Any = None,
    columns: Iterable[str] | None = None,
    targets: Any = None,
    groups: str | None = None,
    lengths: Any = None,
    weights: Any = None,
    soft: Mapping[str, Any] | None = None,
    window: int | None = None,
    missing: Any = None,
) -> Dataset:
    """Read a table or sequences.

    Parameters
    ----------
    source
        In any of the forms of the module's description.
    schema
        Variables, or a mapping name -> states or domain; None lets the columns say what they are.
    columns
        The columns to be read; all by default.
    targets
        Names of the columns that are to be predicted, or their values: one column, or one per sequence.
    groups
        A column that names the sequence of each row; the rows of a sequence keep their order.
    lengths
        Of the sequences, one after the other.
    weights
        One per unit, that is per row or per sequence, or the name of the column that has them.
    soft
        Name -> weights of its states, (rows, states): uncertain evidence. A cell may be such a vector too.
    window
        Cuts sequences into pieces of at most this many rows; a table without sequences is one.
    missing
        A value that stands for missing cells, several of them, or a mapping column -> these.

    Examples
    --------
    >>> import credo
    >>> credo.data.read({"rain": ["yes", "no", None], "height": [1.5, 2.0, 2.5]})
    Dataset(3 rows, 2 columns)
    rain  height
    yes      1.5
    no         2
             2.5
    """
    return gather(
        source, schema=schema, columns=columns, targets=targets, groups=groups, lengths=lengths,
        weights=weights, soft=soft, window=window, missing=missing,
    )  # fmt: skip


def gather(
    source: Any,
    *,
    schema: Any = None,
    columns: Iterable[str] | None = None,
    targets: Any = None,
    groups: str | None = None,
    lengths: Any = None,
    weights: Any = None,
    soft: Mapping[str, Any] | None = None,
    window: int | None = None,
    missing: Any = None,
    refused: dict[str, str] | None = None,
) -> Dataset:
    """What `read` does; with `refused`, columns that cannot be read are left out and told there."""
    variables = None if schema is None else Variables.of(schema)
    if isinstance(source, Dataset):
        if any(x is not None for x in (targets, groups, lengths, weights, soft, window, missing)):
            raise DataError(
                "data: these data were read before and have their weights and units already; leave out "
                "targets, groups, lengths, weights, soft, window and missing, or read the source again"
            )
        return _again(source, variables, columns)
    parts = split_list(source, None if variables is None else len(variables)) if lengths is None else None
    if parts is None:
        raw = named_columns(source, variables)
    else:
        raw, lengths = joined([named_columns(part, variables) for part in parts])
    named = dict(raw.with_spins().columns if variables is None else raw.columns)
    named, wanted = _with_targets(named, targets)
    units = _Units.of(named, groups, lengths, weights, window, raw.in_file)
    if columns is not None:
        named = {name: _column_of(named, name) for name in columns}
    known, notes = _unknown(named, soft or {}, variables)
    made = _typed(known, raw, variables, _absent(missing, named), refused)
    made = _softened(made, soft or {}, variables, raw)
    _check_lengths(made)
    if refused and not made:
        raise DataError(f"data: {next(iter(refused.values()))}")
    if not made or not len(made[0]):
        raise DataError("data: expected at least one row, got none")
    return units.cut(made, wanted, notes if variables is not None else _noted(made))


# ---------------------------------------------------------------------------------------------
# Units
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Units:
    """How rows are ordered, cut and weighed."""

    order: np.ndarray | None  # that joins the rows of each sequence
    lengths: Any  # of the sequences; None where rows are units
    weights: Any  # one per unit, or a column of them
    in_column: bool  # whether the weights were a column, one per row
    window: int | None

    @classmethod
    def of(
        cls, named: dict[str, Any], groups: Any, lengths: Any, weights: Any, window: Any, in_file: bool
    ) -> _Units:
        """Take the columns of groups and weights out of the named ones."""
        if window is not None:
            check.at_least("window", window, 1)
        order = None
        if groups is not None:
            if lengths is not None:
                raise DataError("groups, lengths: expected one of them, got both")
            order, lengths = group_order(groups, _column_of(named, groups))
        in_column = isinstance(weights, str) and weights in named
        if isinstance(weights, str) and not in_column:
            raise DataError(f"weights: expected one number per row or the name of a column, got {weights!r}")
        if in_column:
            values = numbers_of(weights, named.pop(weights), Real(), in_file=in_file)
            weights = values if order is None else values[order]
        if groups is not None:
            del named[groups]
        return cls(order, lengths, weights, in_column, window)

    def cut(self, made: list[Column], targets: tuple[str, ...], notes: list[str]) -> Dataset:
        """The dataset of these columns."""
        rows = len(made[0])
        if self.order is not None:
            made = [column.take(self.order) for column in made]
        if self.lengths is None and self.window is None:
            return Dataset.of(made, weights=unit_weights(self.weights, rows), targets=targets, notes=notes)
        plain = Dataset.of(made, lengths=[rows] if self.lengths is None else self.lengths)
        weights = unit_weights(self._of_sequences(plain.begin), plain.n_units, "sequence")
        begin = plain.begin
        if self.window is not None:
            begin = np.unique(
                np.concatenate([np.arange(a, b, self.window) for a, b in _spans(begin)] + [begin])
            )
            weights = weights[np.searchsorted(plain.begin, begin[:-1], side="right") - 1]
            if len(begin) > len(plain.begin):
                notes = [*notes, f"sequences were cut into pieces of at most {self.window} rows"]
        return Dataset.of(made, begin=begin, weights=weights, targets=targets, notes=notes)

    def _of_sequences(self, begin: np.ndarray) -> Any:
        """One weight per sequence of those in a column."""
        if not self.in_column:
            return self.weights
        for u, (a, b) in enumerate(_spans(begin)):
            if (self.weights[a:b] != self.weights[a]).any():
                raise DataError(
                    f"weights: expected one for all rows of a sequence, got several in number {u}"
                )
        return self.weights[begin[:-1]]


def _spans(begin: np.ndarray) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in pairwise(begin) if a < b]


def group_order(name: str, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """The order that joins the rows of each sequence, in the order of their first rows, and the lengths."""
    cells = Cells.of(values)
    if (cells.codes == MISSING).any():
        row = int(np.argmax(cells.codes == MISSING))
        raise DataError(f"groups: column '{name}', row {row}: expected the name of a sequence, got none")
    _, first, which = np.unique(cells.codes, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[which.ravel()]
    return np.argsort(rank, kind="stable"), np.bincount(rank)


# ---------------------------------------------------------------------------------------------
# Columns
# ---------------------------------------------------------------------------------------------


def _again(data: Dataset, variables: Variables | None, columns: Iterable[str] | None) -> Dataset:
    """A dataset that was read before, for a model with these variables."""
    found = data if columns is None else data.select(columns)
    if variables is None:
        return found
    known, notes = _unknown({column.name: column for column in found.columns}, {}, variables)
    made = [relabelled(c, variables[variables.position(c.name)].domain) for c in known.values()]
    there = tuple(name for name in found.targets if name in known)
    return replace(found, columns=tuple(made), targets=there, notes=(*found.notes, *notes))


def _column_of(named: Mapping[str, Any], name: str) -> Any:
    if name not in named:
        try:
            Variables(tuple(named), (unlabelled_states(1),) * len(named)).position(name)
        except QueryError as error:
            raise DataError(f"data: {str(error).replace('variable', 'column', 1)}") from None
    return named[name]


def _with_targets(named: dict[str, Any], targets: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The columns with those that were given beside them, and the names of the targets."""
    if targets is None:
        return named, ()
    rows = len(next(iter(named.values()))) if named else 0
    listed = list(targets) if isinstance(targets, (list, tuple)) else []
    are_names = bool(listed) and all(isinstance(t, str) for t in listed)
    if isinstance(targets, str) or (are_names and (set(listed) <= set(named) or len(listed) != rows)):
        names = (targets,) if isinstance(targets, str) else tuple(listed)
        for name in names:
            _column_of(named, name)
        return named, names
    name = str(getattr(targets, "name", None) or "target")
    if name in named:
        raise DataError(f"targets: the data have a column '{name}' already; give its name instead of values")
    by_sequence = len(listed) != rows and all(isinstance(t, (list, tuple)) for t in listed)
    parts = listed if listed and by_sequence else split_list(targets)
    values = targets if parts is None else joined([Raw({name: part}) for part in parts])[0].columns[name]
    return {**named, name: values}, (name,)


def _unknown(
    named: dict[str, Any], soft: Mapping[str, Any], variables: Variables | None
) -> tuple[dict[str, Any], list[str]]:
    """Without columns that are no variables; unless every variable has a column they are refused."""
    if variables is None:
        return named, []
    names = set(variables.names)  # asking `variables` would look for near misses of each that is not there
    other = [name for name in named if name not in names]
    if other and any(name not in named and name not in soft for name in names):
        try:
            variables.position(other[0])
        except QueryError as error:
            end = " " if str(error).endswith("?") else "; "
            raise DataError(
                f"data: the column {other[0]!r} is no variable of the model: {error}{end}leave it out if it "
                "is none: other variables have no column"
            ) from None
    more = f" and {len(other) - _NAMED} more" if len(other) > _NAMED else ""
    note = (
        [f"columns that are no variables were left out: {', '.join(other[:_NAMED])}{more}"] if other else []
    )
    return {name: values for name, values in named.items() if name in names}, note


def _absent(missing: Any, named: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Values that stand for missing cells, by column."""
    if isinstance(missing, Mapping):
        for name in missing:
            _column_of(named, name)
        return {name: _listed(values) for name, values in missing.items()}
    return {} if missing is None else dict.fromkeys(named, _listed(missing))


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple, set, np.ndarray)) else [values]


def _typed(
    named: dict[str, Any],
    raw: Raw,
    variables: Variables | None,
    absent: Mapping[str, list[Any]],
    refused: dict[str, str] | None,
) -> list[Column]:
    """Columns with the domains of the schema, or with those that they show."""
    made = []
    for name, values in named.items():
        how: dict[str, Any] = {
            "has_names": raw.has_names,
            "in_file": raw.in_file,
            "missing": absent.get(name, ()),
        }
        try:
            single = isinstance(values, (str, bytes)) or not getattr(values, "ndim", 1)
            if single or not (hasattr(values, "__len__") or isinstance(values, Cells)):
                raise DataError(f"data: column '{name}': expected a list of values, got {values!r:.80}")
            if variables is None:
                made.append(shown(name, values, **how))
            else:
                made.append(coded(name, variables[variables.position(name)].domain, values, **how))
        except DataError as error:
            if refused is None:
                raise
            refused[name] = str(error).removeprefix("data: ")
    return made


def _softened(
    made: list[Column], soft: Mapping[str, Any], variables: Variables | None, raw: Raw
) -> list[Column]:
    """The columns with soft evidence, which may be all that is known of a variable."""
    columns = {column.name: column for column in made}
    for name, given in soft.items():
        column = columns.get(name)
        if column is None and variables is None:
            _column_of(raw.columns, name)
        domain = variables[_position(variables, name)].domain if variables is not None else column.domain  # type: ignore[union-attr]
        if not isinstance(domain, Discrete):
            raise DataError(f"soft: '{name}' has no states, whose weights soft evidence gives; leave it out")
        weights = soft_weights(Variable(name, domain), given)
        if column is None:
            column = Column(name, domain, np.full(len(weights), MISSING, dtype=np.int64))
        if len(weights) != len(column):
            raise DataError(f"soft: '{name}' has {len(weights)} rows, the data {len(column)}")
        both = weights if column.soft is None else weights * column.soft
        columns[name] = Column(name, domain, column.values, both)
    return list(columns.values())


def _position(variables: Variables, name: str) -> int:
    try:
        return variables.position(name)
    except QueryError as error:
        raise DataError(f"soft: {error}") from None


def _noted(made: Sequence[Column]) -> list[str]:
    """Sentences about readings that may surprise."""
    spins = [c.name for c in made if c.domain == Discrete.of(["-1", "1"])]
    return [f"-1 and 1 are states, not missing cells: {', '.join(spins[:5])}"] if spins else []


def _check_lengths(made: Sequence[Column]) -> None:
    for column in made:
        if len(column) != len(made[0]):
            raise DataError(
                f"data: column '{column.name}' has {len(column)} rows, the first one {len(made[0])}"
            )
