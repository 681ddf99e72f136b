"""Assignments and samples: one joint state, and many, by the names of variables and states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from .display import LIMIT, WIDTH, Listing, Shown, beyond, data_frame, told
from .domain import Discrete
from .naming import OFFERED, ByName
from .variable import Variables

__all__ = ["Assignment", "Samples"]

_ROWS = 10  # samples shown
_COLUMNS = 12  # variables shown of each


class Assignment(Shown, ByName[Any]):
    """Name -> state label, or value of a continuous variable.

    `indices` holds one state index per variable, -1 where unassigned; `continuous` the other values.
    """

    def __init__(
        self, variables: Variables, indices: np.ndarray, continuous: Mapping[str, Any] | None = None
    ) -> None:
        indices = np.asarray(indices, dtype=np.int64)
        indices.flags.writeable = False
        self._variables, self.indices = variables, indices
        self.continuous = {} if continuous is None else dict(continuous)

    def _at(self, i: int) -> Any:
        if self._variables.sizes[i] == 0:
            return self.continuous[self._variables.names[i]]
        if self.indices[i] < 0:
            raise KeyError(self._variables.names[i])
        return self._variables.domains[i].label(int(self.indices[i]))

    def __contains__(self, name: object) -> bool:
        if name not in self._variables:
            return False
        i = self._variables.position(name)  # type: ignore[arg-type]
        return bool(self.indices[i] >= 0) or self._variables.names[i] in self.continuous

    def __iter__(self) -> Iterator[str]:
        if not self.continuous:
            return (self._variables.names[int(i)] for i in np.flatnonzero(self.indices >= 0))
        pairs = zip(self._variables.names, self.indices, strict=True)
        return (name for name, i in pairs if i >= 0 or name in self.continuous)

    def __len__(self) -> int:
        return int((self.indices >= 0).sum()) + len(self.continuous)

    def index(self, name: str) -> int:
        """State index of a variable."""
        return int(self.indices[self._variables.position(name)])

    def to_dict(self) -> dict[str, Any]:
        """Name -> state label or value."""
        return dict(self)

    def to_frame(self) -> Any:
        """A pandas data frame with a row per assigned variable: `variable` and `value`."""
        return data_frame({"variable": list(self), "value": [self[name] for name in self]})

    def _shown(self) -> Iterable[str | Listing]:
        shown = [(name, told(self[name])) for name in islice(self, LIMIT)]
        line = f"Assignment({', '.join(f'{name}={value}' for name, value in shown)})"
        if len(line) <= WIDTH and len(self) <= LIMIT:
            return [line]
        more = beyond(len(self), "variables")
        return [Listing(shown, [False, False], ["variable", "value"], more=more)]


@dataclass(frozen=True, repr=False)
class Samples(Shown):
    """Joint samples: one row per sample, one column of state indices per variable.

    `samples[3]` is the assignment of a row, `samples[:10]` the samples of several, `samples["rain"]` the
    column of a variable: labels of its states, or values. The columns of continuous variables are in
    `continuous`; their column of indices holds -1.

    Examples
    --------
    >>> import credo
    >>> samples = credo.datasets.sprinkler().sample(3, seed=1)
    >>> samples
    Samples(3 rows, 4 variables)
    cloudy  sprinkler  rain  wet
    yes     yes        yes   yes
    yes     no         yes   yes
    no      no         no    no
    >>> samples[1]["rain"], samples["rain"][1]
    ('yes', np.str_('yes'))
    """

    variables: Variables  # one per column
    indices: np.ndarray  # (rows, n)
    continuous: Mapping[str, np.ndarray] = field(default_factory=dict)  # name -> (rows,) or (rows, width)

    @classmethod
    def none(cls, variables: Variables) -> Samples:
        """Samples of these variables with no rows, to be added to."""
        shapes = {v.name: (0, *v.domain.shape) for v in variables if not isinstance(v.domain, Discrete)}
        continuous = {name: np.empty(shape) for name, shape in shapes.items()}
        return cls(variables, np.empty((0, len(variables)), np.int64), continuous)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, key: Any) -> Any:
        """The column of a name, the assignment of one row, or the samples of several."""
        if isinstance(key, str):
            variable = self.variables[self.variables.position(key)]
            return np.array(variable.states)[self.column(key)] if variable.is_discrete else self.column(key)
        parts = {n: c[key] for n, c in self.continuous.items()}
        if np.ndim(self.indices[key]) > 1:
            return Samples(self.variables, self.indices[key], parts)
        return Assignment(self.variables, self.indices[key], parts)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.variables.names[:OFFERED])

    def column(self, name: str) -> np.ndarray:
        """State indices, or values, of one variable over all samples."""
        if name in self.continuous:
            return self.continuous[name]
        return self.indices[:, self.variables.position(name)]

    def to_frame(self) -> Any:
        """A data frame: categorical columns with labels, one column of numbers per coordinate otherwise."""
        columns: dict[str, Any] = {}
        for i, v in enumerate(self.variables):
            if v.is_discrete:
                columns[v.name] = (v.states, self.indices[:, i])
            elif self.continuous[v.name].ndim == 1:
                columns[v.name] = self.continuous[v.name]
            else:
                columns |= {f"{v.name}[{k}]": c for k, c in enumerate(self.continuous[v.name].T)}
        return data_frame(columns)

    def _shown(self) -> Iterable[str | Listing]:
        title = f"Samples({len(self)} rows, {len(self.variables)} variables)"
        names = list(self.variables.names[:_COLUMNS])
        first = [self[k] for k in range(min(len(self), _ROWS))]
        rows = [[told(row[name]) for name in names] for row in first]
        if len(names) < len(self.variables):
            names, rows = [*names, "..."], [[*row, "..."] for row in rows]
        right = [name in self.continuous for name in names]
        return [Listing(rows, right, names, title, beyond(len(self), "rows", _ROWS))]
