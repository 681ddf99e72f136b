"""The form in which a table came, and answers about its rows in that form.

    form = Form.of(frame, model.variables)
    data = form.read(model.variables, without=["wet"])
    form.column(wet, states)                     # of a pandas frame: a Series with its index
    form.filled({"wet": (wet, states)})          # the table with its missing cells filled

Frames give frames and series, mappings and files give mappings of arrays, lists of mappings such lists, and
arrays give arrays. States are written as the table's own column of that name has them: as categories, labels,
booleans or whole numbers. Without such a column they are labels, as numbers or booleans where all labels are
such; in arrays of numbers they are positions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..core.domain import Discrete
from ..core.errors import MissingExtraError
from ..core.numbers import is_missing
from ..core.samples import Samples
from ..core.variable import Variable, Variables
from .column import MISSING, Column
from .dataset import Dataset
from .read import read
from .sources import read_file

__all__ = ["Form"]

Kind = Literal["pandas", "frame", "mapping", "rows", "array", "dataset"]
_BOOLS = {"false": False, "true": True, "no": False, "yes": True}


@dataclass(frozen=True, eq=False)
class Form:
    """A table as it came.

    Examples
    --------
    >>> import credo, numpy as np
    >>> from credo.data import Form
    >>> rain = credo.datasets.sprinkler().variables[2]
    >>> form = Form.of({"rain": ["yes", None], "wet": [True, False]})
    >>> form.column(rain, np.array([1, 0]))
    array(['yes', 'no'], dtype=object)
    >>> form.filled({"rain": (rain, np.array([1, 0]))})["rain"]
    array(['yes', 'no'], dtype=object)
    """

    kind: Kind  # what the source is
    source: Any  # as given; of a file its columns, of samples a dataset
    names: tuple[str, ...]  # of its columns
    whole: Any  # what `data.read` is given

    @classmethod
    def of(cls, source: Any, variables: Variables | None = None) -> Form:
        """The form of a source; the columns of an array are the variables in order."""
        if isinstance(source, Samples):
            source = Dataset.of(Column(v.name, v.domain, source.column(v.name)) for v in source.variables)
        if isinstance(source, Dataset):
            return cls("dataset", source, source.names, source)
        if isinstance(source, (str, os.PathLike)):
            columns = read_file(source)
            return cls("mapping", columns, tuple(columns), source)
        if isinstance(source, Mapping):
            return cls("mapping", source, tuple(map(str, source)), source)
        if hasattr(source, "columns") and hasattr(source, "iloc"):
            return cls("pandas", source, tuple(map(str, source.columns)), source)
        if hasattr(source, "columns") and not isinstance(source, np.ndarray):
            return cls("frame", source, tuple(_narwhals(source).columns), source)
        if isinstance(source, Sequence) and source and isinstance(source[0], Mapping):
            names = dict.fromkeys(str(name) for row in source for name in row)
            return cls("rows", source, tuple(names), source)
        array = source if isinstance(source, np.ndarray) else np.asarray(source)
        if array.dtype.names is not None:
            return cls("mapping", {name: array[name] for name in array.dtype.names}, array.dtype.names, array)
        return cls("array", array, () if variables is None else tuple(variables.names), source)

    def read(self, variables: Variables, without: Iterable[str] = ()) -> Dataset:
        """The table as `data.read` reads it for these variables, without some of its columns."""
        gone = set(without)
        schema = [v for v in variables if v.name not in gone]
        if self.kind != "array":
            return read(self.whole, schema=schema, columns=[n for n in self.names if n not in gone])
        is_whole = self.source.ndim == 2 and self.source.shape[1] == len(self.names)
        keep = [name not in gone for name in self.names]
        return read(self.source[:, keep] if gone and is_whole else self.whole, schema=schema)

    def column(self, variable: Variable, found: np.ndarray) -> Any:
        """States (positions, -1 where there is none) or numbers of all rows, as the table would have them."""
        if not isinstance(variable.domain, Discrete):
            return self.numbers(variable.name, found)
        name = variable.name
        own = self.cells(name)
        is_category = hasattr(getattr(own, "dtype", None), "categories")
        values = self._written(variable, found, own)
        if self.kind == "pandas":
            import pandas as pd

            if is_category and set(self._words(variable, own)) <= set(own.dtype.categories):
                values = pd.Categorical(values, categories=own.dtype.categories, ordered=own.dtype.ordered)
            return pd.Series(values, index=self.source.index, name=name)
        if self.kind == "frame":
            return self._series(name, values.tolist()).to_native()
        return values

    def numbers(self, name: Any, found: np.ndarray) -> Any:
        """Numbers of all rows, as a column of this form."""
        if self.kind == "pandas":
            import pandas as pd

            return pd.Series(found if found.ndim == 1 else list(found), index=self.source.index, name=name)
        return self._series(name, found.tolist()).to_native() if self.kind == "frame" else found

    def words(self, variable: Variable) -> list[Any]:
        """What stands for each state of a variable in this form."""
        return self._words(variable, self.cells(variable.name))

    def table(self, columns: Mapping[Any, Any]) -> Any:
        """Columns made by `column`, or arrays of numbers, as a table of this form."""
        if self.kind == "pandas":
            import pandas as pd

            return pd.DataFrame(dict(columns), index=self.source.index)
        if self.kind == "frame":
            frame = _narwhals(self.source)
            parts = [self._series(name, list(values)) for name, values in columns.items()]
            return frame.select(*parts).to_native()
        if self.kind == "rows":
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return np.stack(list(columns.values()), axis=1) if self.kind == "array" else dict(columns)

    def filled(self, columns: Mapping[str, tuple[Variable, np.ndarray]]) -> Any:
        """The table with the missing cells of these columns filled, and columns that it lacks after them."""
        if self.kind == "dataset":
            made = {name: Column(name, v.domain, found) for name, (v, found) in columns.items()}
            kept = [made.pop(c.name, c) for c in self.source.columns]
            return replace(self.source, columns=(*kept, *made.values()), block=None)
        done = {name: self._patched(name, *pair) for name, pair in columns.items()}
        if self.kind == "array":
            return np.stack([done.get(n, np.ma.getdata(self.cells(n))) for n in self.names], axis=1)
        if self.kind == "pandas":
            return self._assigned(done)
        if self.kind == "frame":
            parts = [self._series(name, list(values)) for name, values in done.items()]
            return _narwhals(self.source).with_columns(*parts).to_native()
        if self.kind == "rows":
            return [{**row, **{n: v[r] for n, v in done.items()}} for r, row in enumerate(self.source)]
        return {**self.source, **done}

    def _assigned(self, done: Mapping[str, Any]) -> Any:
        """A copy of a pandas frame with other columns in the same places."""
        frame = self.source.copy()
        for name, column in done.items():
            if name in self.names:
                frame.isetitem(self.names.index(name), column)
            else:
                frame[name] = column
        return frame

    def _patched(self, name: str, variable: Variable, found: np.ndarray) -> Any:
        """A column whose cells are kept where something is observed."""
        own = self.cells(name)
        if own is None:
            return self.column(variable, found)
        values = self._written(variable, found, own)
        if self.kind == "pandas":
            gone = own.isna().to_numpy()
            if hasattr(own.dtype, "categories"):
                more = [s for s in values[gone] if s is not None and s not in own.cat.categories]
                own = own.cat.add_categories(list(dict.fromkeys(more)))
            return own.mask(gone, _like(own, values))
        if self._is_file:
            return self.column(variable, found)
        if isinstance(own, np.ndarray) and own.dtype.kind in "iuf":
            return self._patched_numbers(variable, found, values, own)
        plain = own.to_list() if self.kind == "frame" else list(own)
        return _array([v if is_missing(cell) else cell for cell, v in zip(plain, values, strict=True)])

    def _patched_numbers(
        self, variable: Variable, found: np.ndarray, values: np.ndarray, own: np.ndarray
    ) -> np.ndarray:
        """An array of numbers, in which whole ones may be positions of states, -1 where there is none."""
        bare = np.ma.getdata(own)
        gone = np.ma.getmaskarray(own) | (np.isnan(bare) if bare.dtype.kind == "f" else False)
        if not variable.is_discrete:
            return np.where(gone, values, bare)
        none = np.nan if bare.dtype.kind == "f" else MISSING
        numbers = np.array([none if x == MISSING else v for x, v in zip(found, values, strict=True)])
        return np.where(gone | ((bare == MISSING) & (found != MISSING)), numbers, bare)

    def cells(self, name: str) -> Any:
        """The table's column of this name; None without one."""
        if name not in self.names:
            return None
        if self.kind == "pandas":
            return self.source.iloc[:, self.names.index(name)]
        if self.kind == "array":
            whole = self.source.ndim == 2 and self.source.shape[1] == len(self.names)
            return self.source[:, self.names.index(name)] if whole else np.empty(0)
        if self.kind == "rows":
            return [row.get(name) for row in self.source]
        return _narwhals(self.source)[name] if self.kind == "frame" else self.source[name]

    def _written(self, variable: Variable, found: np.ndarray, own: Any) -> np.ndarray:
        """States as the column writes them, None where there is none; numbers as they are."""
        if not isinstance(variable.domain, Discrete):
            return found
        if self._has_positions:
            return found
        words = self._words(variable, own)
        if all(isinstance(w, int) for w in words) and not (found == MISSING).any():
            return np.array(words)[found]
        return np.array([*words, None], dtype=object)[found]

    def _words(self, variable: Variable, own: Any) -> list[Any]:
        """What stands for each state."""
        labels = list(variable.states)
        if hasattr(getattr(own, "dtype", None), "categories"):
            known = {str(category): category for category in own.dtype.categories}
            return [known.get(label, label) for label in labels]
        if self._has_positions:
            return list(range(len(labels)))
        if self.kind == "dataset":
            return labels
        sort = _sort_of(own)
        whole = all(label.removeprefix("-").isdecimal() for label in labels)
        if sort == "number":
            return [int(label) for label in labels] if whole else list(range(len(labels)))
        if sort == "bool" or (sort is None and set(labels) == {"False", "True"}):
            return [_BOOLS.get(label.lower(), label == "1") for label in labels]
        return [int(label) for label in labels] if sort is None and whole else labels

    @property
    def _is_file(self) -> bool:
        return isinstance(self.whole, (str, os.PathLike))

    @property
    def _has_positions(self) -> bool:
        """Whether states are numbers of an array."""
        return self.kind == "array" and self.source.dtype.kind in "iuf"

    def _series(self, name: str, values: list[Any]) -> Any:
        import narwhals.stable.v1 as nw

        return nw.new_series(str(name), values, backend=nw.get_native_namespace(self.source))


def _narwhals(frame: Any) -> Any:
    try:
        import narwhals.stable.v1 as nw
    except ImportError:
        raise MissingExtraError('frames need narwhals: pip install "credo[data]"') from None
    return nw.from_native(frame, eager_only=True)


def _sort_of(column: Any) -> Literal["number", "bool", "text"] | None:
    """What the cells of a column are; None where nothing is known."""
    dtype = getattr(column, "dtype", None)
    if column is None or (hasattr(column, "__len__") and not len(column)):
        return None
    if hasattr(dtype, "categories"):
        return "text"
    cells = column.to_list() if hasattr(column, "to_list") else column
    first = next((cell for cell in cells if not is_missing(cell)), None)
    if first is None:
        return None
    if isinstance(first, (bool, np.bool_)):
        return "bool"
    return "number" if isinstance(first, (int, float, np.number)) else "text"


def _like(column: Any, values: np.ndarray) -> Any:
    """Values as a pandas column of the same type and index."""
    import pandas as pd

    return pd.Series(list(values), index=column.index, dtype=column.dtype)


def _array(cells: list[Any]) -> np.ndarray:
    """An array that keeps cells as they are where they are of several kinds."""
    kinds = {type(cell) for cell in cells}
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        return np.array(cells)
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found
