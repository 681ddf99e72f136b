"""Factors: non-negative functions of an ordered scope of variables, stored as logarithms.

Every factor is a function with parameters, log f(x) = function(x_1, ..., x_k, *parameters); factors that
share the function and the shapes of their parameters are evaluated together. A table is the function that
looks an entry up. Axis k of a table belongs to `scope[k]`; the flat order is C order (last axis fastest).
A zero weight is -inf; NaN and +inf are refused.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .display import Axis, Listing, data_frame, grid, html_of, text_of, told
from .errors import ModelError
from .joint import label_columns
from .numbers import float_array
from .variable import Variable

__all__ = ["Factor", "TableFactor", "check_log_table", "check_scope", "look_up", "take_out_maximum", "to_log"]


class Factor(abc.ABC):
    """A log-potential over an ordered scope."""

    scope: tuple[Variable, ...]

    @property
    @abc.abstractmethod
    def function(self) -> Callable[..., Any]:
        """The log-potential of one array per variable of the scope, followed by the parameters."""

    @property
    @abc.abstractmethod
    def parameters(self) -> tuple[np.ndarray, ...]:
        """What the function is given after the values."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scope, in order."""
        return tuple(v.name for v in self.scope)

    def log_value(self, assignment: Mapping[str, Any]) -> float:
        """Log-potential of one joint state, given as name -> state or value."""
        return float(self.log_values(*(v.value(assignment[v.name]) for v in self.scope)))

    def log_values(self, *columns: Any) -> np.ndarray:
        """Log-potentials of many joint states: one array per variable, broadcast against each other.

        Arrays hold state indices for a discrete variable, numbers for a real one; those of a simplex
        variable have its coordinates on a last axis of their own.
        """
        return np.asarray(self.function(*columns, *self.parameters))

    @abc.abstractmethod
    def condition(self, evidence: Mapping[str, Any]) -> Factor:
        """The factor with the observed variables of its scope fixed and removed."""

    def _shown(self) -> Iterable[str | Listing]:
        """What notebooks show: the factor and the domains of its scope."""
        yield repr(self)
        yield Listing([[v.name, repr(v.domain)] for v in self.scope], [False, False], ["variable", "domain"])

    def _repr_html_(self) -> str:
        return html_of(self._shown())


def look_up(*arguments: Any) -> Any:
    """The entries of a table, the last argument, at the indices before it."""
    *states, table = arguments
    return table[tuple(states)]


def take_out_maximum(log_table: np.ndarray) -> tuple[np.ndarray, float]:
    """A log table shifted to a maximum of zero, and that maximum; one of zero weights alone stays, with -inf.

    Sums of shifted tables keep the digits of their differences, whatever constants there were.
    """
    top = float(log_table.max())
    return (log_table - top if top > -np.inf else log_table), top


class TableFactor(Factor):
    """A factor given by a dense table of weights.

    Parameters
    ----------
    scope
        The variables, one per axis of the table.
    table
        Non-negative weights; a flat list in C order is accepted too.

    Examples
    --------
    >>> from credo import TableFactor, Variable
    >>> a, b = Variable("a", 2), Variable("b", ["lo", "hi"])
    >>> factor = TableFactor([a, b], [[1, 2], [3, 0]])
    >>> factor.log_value({"a": 1, "b": "lo"})
    1.0986122886681098
    >>> print(factor)
    TableFactor(['a', 'b'], shape=(2, 2))
    a  b=lo  b=hi
    0     1     2
    1     3     0
    """

    __slots__ = ("log_table", "scope")

    def __init__(self, scope: Iterable[Variable], table: Any) -> None:
        self.scope = tuple(scope)
        self.log_table = _shape(self.scope, to_log(table, check_scope(self.scope)))

    @classmethod
    def from_log(cls, scope: Iterable[Variable], log_table: Any) -> TableFactor:
        """Make a factor from log weights (-inf is a zero weight)."""
        made = cls.__new__(cls)
        made.scope = tuple(scope)
        where = check_scope(made.scope)
        values = float_array(where, log_table, expected="a table of numbers", copy=True)
        check_log_table(values, where)
        made.log_table = _shape(made.scope, values)
        return made

    @property
    def table(self) -> np.ndarray:
        """The weights themselves."""
        return np.exp(self.log_table)

    @property
    def function(self) -> Callable[..., Any]:
        """Look an entry up."""
        return look_up

    @property
    def parameters(self) -> tuple[np.ndarray, ...]:
        """The log table."""
        return (self.log_table,)

    def condition(self, evidence: Mapping[str, Any]) -> TableFactor:
        """The factor with the observed variables of its scope fixed and removed."""
        where = tuple(v.index(evidence[v.name]) if v.name in evidence else slice(None) for v in self.scope)
        free = [v for v in self.scope if v.name not in evidence]
        return TableFactor.from_log(free, self.log_table[where])

    def to_frame(self) -> Any:
        """A pandas data frame with a row per entry: a column of states per variable, and `weight`."""
        return data_frame({**label_columns(self.scope), "weight": self.table.ravel()})

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TableFactor)
            and self.scope == other.scope
            and np.array_equal(self.log_table, other.log_table)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TableFactor({list(self.names)}, shape={self.log_table.shape})"

    def _shown(self) -> Iterable[str | Listing]:
        axes = [Axis(v.name, v.states) for v in self.scope]
        return [repr(self), grid(axes, self.table, lambda weights: [told(w) for w in weights.flat], "weight")]

    def __str__(self) -> str:
        return text_of(self._shown())


def to_log(table: Any, where: str) -> np.ndarray:
    """Logarithm of non-negative weights; refuses negative, NaN and infinite entries."""
    values = float_array(where, table, expected="a table of numbers")
    # `not all` catches NaN as well, because every comparison with NaN is false.
    if not (values >= 0).all():
        bad = values[~(values >= 0)].flat[0]
        raise ModelError(f"{where}: entries must be non-negative numbers, got {bad:g}")
    if np.isinf(values).any():
        raise ModelError(f"{where}: entries must be finite, got inf")
    with np.errstate(divide="ignore"):
        return np.log(values)


def check_log_table(values: np.ndarray, where: str) -> None:
    """Refuse log weights that are NaN or +inf."""
    if not (values < np.inf).all():
        bad = values[~(values < np.inf)].flat[0]
        raise ModelError(f"{where}: log entries must be numbers below inf, got {bad:g}")


def check_scope(scope: tuple[Variable, ...]) -> str:
    """The name of a factor in messages; refuses a scope that is none."""
    for v in scope:
        if not isinstance(v, Variable):
            raise ModelError(f"factor scope: expected Variables, got {v!r}")
    names = [v.name for v in scope]
    if len(set(names)) < len(names):
        raise ModelError(f"factor over {names}: a variable appears twice in the scope")
    return f"factor over {names}"


def _shape(scope: tuple[Variable, ...], values: np.ndarray) -> np.ndarray:
    shape = tuple(v.discrete.size for v in scope)
    if values.shape != shape:
        if values.ndim != 1 or values.size != int(np.prod(shape)):
            raise ModelError(f"{check_scope(scope)}: expected a table of shape {shape}, got {values.shape}")
        values = values.reshape(shape)
    values = np.ascontiguousarray(values).reshape(shape)
    values.flags.writeable = False
    return values
