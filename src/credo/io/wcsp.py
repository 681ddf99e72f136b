"""Weighted constraint problems of toulbar2 (`.wcsp`), reading only.

    name n d m k            problem name, number of variables, largest number of states, number of
                            cost functions, upper bound
    2 3 2                   number of states of each variable
    2 0 1 0 3               a cost function: number of variables, variables, default cost,
    0 0 5                   number of listed tuples; then each tuple: states and cost
    0 1 2
    1 2 9

Units: a cost c becomes the log weight -c (natural logarithm), so the assignment of least total cost
is the MAP assignment. A cost of at least k means forbidden: weight zero. That a *sum* of allowed
costs reaches k is not excluded, since it is no property of a single factor.

A negative number of variables marks a table that later functions may share; they give its
occurrence number, counted from 1 and negated, as their number of tuples. Functions given by a
formula or a global constraint (default cost -1 and a keyword) are refused by name, and so are
interval variables (negative numbers of states).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..core.errors import FormatError, UnsupportedError
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from ..core.wiring import starts_of, strides_of
from ..models.mrf import MarkovNet
from .base import Format, register_format, wrong
from .scan import NotANumber, Numbers, read_numbers
from .tables import check_dense, check_states, products, spread

__all__ = ["read_wcsp"]

_NAME = re.compile(rb"\s*(\S+)")


def read_wcsp(content: bytes, file: str = "<bytes>") -> MarkovNet:
    """Read a weighted constraint problem.

    Examples
    --------
    >>> from credo.io.wcsp import read_wcsp
    >>> model = read_wcsp(b"tiny 2 2 1 10   2 2   2 0 1 0 2   0 0 1.5   1 1 10")
    >>> model.to_factor_graph().log_table(0)
    array([[-1.5, -0. ],
           [-0. , -inf]])
    """
    name = _NAME.match(content)
    if name is None:
        raise wrong(file, 1, "expected the name of a problem, got an empty file")
    numbers = _stream(content, name.end(), file)
    n = numbers.count("number of variables")
    numbers.count("largest number of states")
    m = numbers.count("number of cost functions")
    bound = float(numbers.floats(1, "upper bound")[0])
    sizes = _sizes(numbers, n)
    check_states(file, sizes)
    parts = "its variables, default cost, number of tuples and tuples"
    starts = numbers.blocks("tuple_starts", m, "cost function", parts)
    return _build(numbers, _functions(numbers, starts, n), sizes, bound)


def _stream(content: bytes, after: int, file: str) -> Numbers:
    """The numbers after the name; a word among them is the keyword of a function without a table."""
    body, line = content[after:], content.count(b"\n", 0, after) + 1
    try:
        return Numbers(body, file, line, read_numbers(body))
    except NotANumber as error:
        line += error.line - 1
        if re.fullmatch(r"[a-z]\w*|[<>=]+", error.token):
            raise UnsupportedError(
                f"{file}, line {line}: the cost function '{error.token}' is given by a formula; "
                "credo reads cost tables only"
            ) from None
        raise wrong(file, line, str(error)) from None


def _sizes(numbers: Numbers, n: int) -> np.ndarray:
    start = numbers.at
    sizes = numbers.floats(n, "numbers of states")
    if (sizes < 0).any():
        i = int((sizes < 0).argmax())
        raise UnsupportedError(
            f"{numbers.file}, line {numbers.line(start + i)}: variable {i} is an interval "
            f"({sizes[i]:.15g}); credo reads variables with listed states only"
        )
    return numbers.as_integers(sizes, lambda k: start + k, "numbers of states", 1, None)


class _Functions(NamedTuple):
    """All cost functions of a file."""

    starts: np.ndarray  # place of each one's first number in the stream
    arity: np.ndarray
    shareable: np.ndarray  # positions of those whose table may be shared, in order
    scope_start: np.ndarray
    scope: np.ndarray
    tuples: np.ndarray  # listed tuples; -k for the shared table number k

    @property
    def own(self) -> np.ndarray:
        """Whether each function has a table of its own."""
        return self.tuples >= 0


def _functions(numbers: Numbers, starts: np.ndarray, n: int) -> _Functions:
    values = numbers.values
    signed = values[starts].astype(np.int64)
    arity = np.abs(signed)
    at_scope, at_tuples = spread(starts + 1, arity), starts + 2 + arity
    scope = numbers.as_integers(
        values[at_scope], lambda k: int(at_scope[k]), "variables of a cost function", 0, n
    )
    shareable = np.flatnonzero(signed < 0)
    tuples = numbers.as_integers(
        values[at_tuples], lambda k: int(at_tuples[k]), "number of tuples", -len(shareable), None
    )
    return _Functions(starts, arity, shareable, starts_of(arity), scope, tuples)


def _build(numbers: Numbers, f: _Functions, sizes: np.ndarray, bound: float) -> MarkovNet:
    shape_of = [sizes[f.scope[a:b]] for a, b in pairwise(f.scope_start)] if not f.own.all() else []
    table_size = products(f.scope_start, sizes[f.scope])
    check_dense(numbers.file, table_size[f.own])
    table_start = starts_of(np.where(f.own, table_size, 0))
    costs = _costs(numbers, f, sizes, table_start)
    for a in np.flatnonzero(~f.own):
        b = int(f.shareable[-f.tuples[a] - 1])
        if not f.own[b] or not np.array_equal(shape_of[a], shape_of[b]):
            raise numbers.error(
                int(f.starts[a]), f"cost function {a}: the shared table {-f.tuples[a]} has another shape"
            )
        table_start[a] = table_start[b]
    logs = log_weights(costs, bound)
    variables = Variables.numbered(sizes)
    return MarkovNet.from_graph(
        FactorGraph.from_flat(variables, f.scope_start, f.scope, logs, table_start=table_start[:-1])
    )


def _costs(numbers: Numbers, f: _Functions, sizes: np.ndarray, table_start: np.ndarray) -> np.ndarray:
    """All own cost tables in C order."""
    values = numbers.values
    listed = np.maximum(f.tuples, 0)
    costs = np.repeat(values[f.starts + 1 + f.arity], np.diff(table_start))
    owner = np.repeat(np.arange(len(f.arity)), listed)
    row = spread(np.zeros_like(listed), listed) * (f.arity[owner] + 1) + (f.starts + 3 + f.arity)[owner]
    place = table_start[owner]
    steps = strides_of(f.scope_start, sizes[f.scope])
    for k in range(int(f.arity.max(initial=0))):
        has = np.flatnonzero(f.arity[owner] > k)
        edge = f.scope_start[owner[has]] + k
        at, top = row[has] + k, sizes[f.scope[edge]]
        state = values[at]
        outside = np.flatnonzero((state < 0) | (state % 1 != 0) | (state >= top))
        if len(outside):
            e = int(outside[0])
            raise numbers.error(int(at[e]), f"expected a state from 0 to {top[e] - 1}, got {state[e]:.15g}")
        place[has] += state.astype(np.int64) * steps[edge]
    costs[place] = values[row + f.arity[owner]]
    if len(costs) and costs.min() < 0:
        raise FormatError(
            f"{numbers.file}: expected non-negative costs, got {costs.min():.15g}; see the .cfn format"
        )
    return costs


def log_weights(costs: np.ndarray, bound: float) -> np.ndarray:
    """Log weight -c of each cost, -inf from the bound on."""
    return np.where(costs >= bound, -np.inf, -costs)


register_format(Format("wcsp", (".wcsp",), read_wcsp))
