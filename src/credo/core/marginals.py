"""Marginals: the probabilities of every variable, with the names of its states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from .belief import Density
from .display import (
    LIMIT,
    WIDTH,
    Axis,
    Listing,
    Share,
    Shown,
    beyond,
    data_frame,
    grid,
    numbers,
    shares,
    told,
)
from .factor_graph import FactorGraph
from .naming import ByName
from .variable import Variable, Variables
from .wiring import starts_of

__all__ = ["FactorMarginals", "Marginal", "Marginals"]

_DIGITS = 4  # decimals shown


class Marginal(Shown, np.ndarray):
    """The probabilities of one discrete variable: an array that knows its states.

    It is indexed by a label, by True or False as evidence is, or as any array; it prints with its labels.
    What is computed from it is a plain array; only `round` keeps the labels.

    Parameters
    ----------
    variable
        The variable.
    values
        One probability per state; the array is a view of them.
    digits
        Decimals that are shown.

    Examples
    --------
    >>> import credo
    >>> rain = credo.infer(credo.datasets.sprinkler(), evidence={"wet": "yes"}).marginals["rain"]
    >>> rain
    rain   no: 0.2921   yes: 0.7079
    >>> rain.round(2)
    rain   no: 0.29   yes: 0.71
    >>> round(rain["yes"], 6), rain.argmax(), (2 * rain).round(1)
    (0.707928, np.int64(1), array([0.6, 1.4]))
    """

    _variable: Variable | None = None  # views and copies made by NumPy have none
    _digits = _DIGITS

    def __new__(cls, variable: Variable, values: Any, digits: int = _DIGITS) -> Marginal:
        """The view of the values."""
        made = np.asarray(values, dtype=np.float64).view(cls)
        made._variable, made._digits = variable, digits
        return made

    @property
    def variable(self) -> Variable:
        """The variable the probabilities are of."""
        if self._variable is None:
            # An AttributeError, because other libraries ask arrays for names they need not have.
            raise AttributeError(
                "this array was computed from a marginal and has no labels; ask the marginal itself"
            )
        return self._variable

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self.variable.name

    @property
    def states(self) -> tuple[str, ...]:
        """State labels, in order."""
        return self.variable.states

    def __getitem__(self, key: Any) -> Any:
        plain = self.view(np.ndarray)
        if self._variable is not None and isinstance(key, (str, bool, np.bool_)):
            return float(plain[self._variable.find(key)])
        return plain[key]

    def round(self, decimals: Any = 0, out: Any = None) -> Any:
        """The rounded probabilities, with their labels."""
        found = np.round(self.view(np.ndarray), decimals, out)
        return found if self._variable is None else Marginal(self._variable, found, max(int(decimals), 1))

    def to_dict(self) -> dict[str, float]:
        """State label -> probability."""
        return dict(zip(self.states, self.tolist(), strict=True))

    def to_frame(self) -> Any:
        """A pandas data frame: a column of states under the name of the variable, and `probability`."""
        codes = np.arange(self.size)
        return data_frame({self.name: (self.states, codes), "probability": self.view(np.ndarray)})

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What is computed is a plain array, or a number."""
        return np.asarray(array)[()]

    def __reduce__(self) -> Any:
        if self._variable is None:
            return super().__reduce__()
        return Marginal, (self._variable, np.array(self), self._digits)

    def _cells(self, texts: Iterable[str]) -> list[str]:
        """The label, the number and the bar of each state that is shown; the numbers are given as texts."""
        pairs = zip(self.states[:LIMIT], self[:LIMIT], texts, strict=False)
        return [Share(f"{label}: {text}", float(p)) for label, p, text in pairs]

    def _shown(self) -> Iterable[str | Listing]:
        if self._variable is None:
            return [repr(np.asarray(self))]
        row = [self.name, *self._cells(numbers(self[:LIMIT], self._digits))]
        if sum(map(len, row)) + 3 * len(row) <= WIDTH and self.size <= LIMIT:
            return [Listing([row], [False] * len(row), gap=3)]
        return [grid([Axis(self.name, self.states)], self.view(np.ndarray), shares, "probability")]

    def __str__(self) -> str:
        return str(np.asarray(self)) if self._variable is None else repr(self)


class Marginals(Shown, ByName[Any]):
    """Name -> probabilities, a view on one flat array; `flat` is that array.

    A continuous variable has no states: its marginal is a `Density`, held in `densities`.
    """

    def __init__(
        self, variables: Variables, flat: np.ndarray, densities: Mapping[str, Density] | None = None
    ) -> None:
        flat.flags.writeable = False
        self._variables, self.flat = variables, flat
        self.densities = {} if densities is None else dict(densities)

    def _at(self, i: int) -> Any:
        if self._variables.sizes[i] == 0:
            return self.densities[self._variables.names[i]]
        start = self._variables.state_start
        return Marginal(self._variables[i], self.flat[start[i] : start[i + 1]])

    def to_frame(self) -> Any:
        """A pandas data frame with a row per state: `variable`, `state` and `probability`.

        Continuous variables have one row each, without a state, and add the columns `mean` and `sd`.
        """
        sizes = self._variables.sizes
        name = np.repeat(np.array(self._variables.names[:], dtype=object), np.maximum(sizes, 1))
        state = [label for v in self._variables for label in (v.states if v.is_discrete else [None])]
        found: dict[str, Any] = {"variable": name, "state": np.array(state, dtype=object)}
        found["probability"] = np.full(len(name), np.nan)
        found["probability"][np.repeat(sizes > 0, np.maximum(sizes, 1))] = self.flat
        if self.densities:
            for moment in ("mean", "sd"):
                of = {n: getattr(d, moment) for n, d in self.densities.items()}
                found[moment] = [of.get(n, np.nan) for n in name]
        return data_frame(found)

    def _shown(self) -> Iterable[str | Listing]:
        if not len(self):
            return ["Marginals(0 variables)"]
        shown = {name: self[name] for name in islice(self, LIMIT)}
        first = [m[:LIMIT] for m in shown.values() if isinstance(m, Marginal)]
        texts = iter(numbers(np.concatenate(first))) if first else iter(())
        rows = [_line(name, marginal, texts) for name, marginal in shown.items()]
        columns = max(map(len, rows))
        rows = [[*row, *[""] * (columns - len(row))] for row in rows]
        return [Listing(rows, [False] * columns, more=beyond(len(self), "variables"), gap=3)]


def _line(name: str, marginal: Marginal | Density, texts: Iterator[str]) -> list[str]:
    """The name and what fits on a line beside it; `texts` holds the numbers of all states that are shown."""
    if isinstance(marginal, Density):
        return [name, f"mean: {told(marginal.mean)}", f"sd: {told(marginal.sd)}"]
    cells = marginal._cells(list(islice(texts, min(marginal.size, LIMIT))))
    ends = np.cumsum([len(cell) + 3 for cell in cells])
    fitting = cells[: int((ends <= WIDTH - len(name)).sum())]
    return [name, *fitting, *(["..."] if len(fitting) < marginal.size else [])]


class FactorMarginals(Sequence[np.ndarray]):
    """Factor position -> joint probabilities of its scope, views on one flat array.

    They are the derivative of the value by the factors' log tables, whatever the temperatures: marginals of
    sums, and indicators of the decoded states where all variables are maximised.
    """

    def __init__(self, graph: FactorGraph, flat: np.ndarray | Callable[[], np.ndarray]) -> None:
        self.graph, self._given = graph, flat

    @classmethod
    def indicator(cls, graph: FactorGraph, states: np.ndarray) -> FactorMarginals:
        """Certainty about one state index per variable; laid out when it is read."""
        return cls(graph, partial(_indicator, graph, states))

    @cached_property
    def flat(self) -> np.ndarray:
        """All tables one after another, in C order."""
        flat = self._given() if callable(self._given) else self._given
        flat.flags.writeable = False
        return flat

    @cached_property
    def _start(self) -> np.ndarray:
        return starts_of(self.graph.table_size)

    def __len__(self) -> int:
        return self.graph.n_tables

    def __getitem__(self, a: Any) -> Any:
        if isinstance(a, slice):
            return tuple(self[i] for i in range(len(self))[a])
        a = range(len(self))[a]
        shape = self.graph.variables.sizes[self.graph.scope_of(a)]
        return self.flat[self._start[a] : self._start[a + 1]].reshape(shape)


def _indicator(graph: FactorGraph, states: np.ndarray) -> np.ndarray:
    """Ones at the entries of one joint state, zeros elsewhere."""
    start = starts_of(graph.table_size)
    flat = np.zeros(int(start[-1]))
    factor = np.repeat(np.arange(graph.n_tables), np.diff(graph.scope_start))
    inside = np.bincount(factor, graph.wiring.edge_stride * states[graph.scope], minlength=graph.n_tables)
    flat[start[:-1] + inside.astype(np.int64)] = 1.0
    return flat
