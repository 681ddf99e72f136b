"""libDAI factor graphs (`.fg`).

    2                       number of factors

    3                       number of variables of this factor
    4 8 7                   their labels
    3 2 2                   their numbers of states
    11                      number of table entries that follow; the others are zero
    0 0.1                   position in the table (FIRST variable fastest) and weight
    1 3.5
    ...

Line breaks mean nothing and `#` begins a comment. Labels are non-negative integers that may have
gaps; the variable with label 4 is called x4, and variables are ordered by label.

The writer keeps labels when all names have this form, and numbers the variables otherwise. A
variable without factors gets a factor of ones, because only factors mention variables.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from ..core.factor_graph import FactorGraph
from ..core.variable import Variable, Variables
from ..core.wiring import starts_of, strides_of
from ..models.mrf import MarkovNet
from .base import Format, register_format
from .scan import Numbers, strip_comments
from .tables import (
    check_dense,
    check_states,
    graph_of,
    products,
    spread,
    text_of,
    weights,
)

__all__ = ["read_fg", "write_fg"]


def read_fg(content: bytes, file: str = "<bytes>") -> MarkovNet:
    """Read a libDAI factor graph.

    Examples
    --------
    >>> from credo.io.fg import read_fg
    >>> model = read_fg(b"1  2  0 3  2 3  6  0 10 1 20 2 30 3 40 4 50 5 60")
    >>> model.to_factor_graph().factors[0].table.round(9)
    array([[10., 30., 50.],
           [20., 40., 60.]])
    """
    numbers = Numbers(strip_comments(content, "#") if b"#" in content else content, file)
    blocks = _blocks(numbers)
    labels, position = np.unique(blocks.labels, return_inverse=True)
    scope = position.reshape(-1).astype(np.int64)
    sizes = _sizes(numbers, blocks, labels, scope)
    check_states(file, sizes)
    scope_start = starts_of(blocks.arity)
    check_dense(file, products(scope_start, blocks.sizes))
    tables = _tables(numbers, blocks, scope_start)
    graph = FactorGraph.from_flat(_variables(labels, sizes), scope_start, scope, tables)
    return MarkovNet.from_graph(graph)


class _Blocks(NamedTuple):
    """All factor blocks of a file."""

    starts: np.ndarray  # place of each block's first number in the stream
    arity: np.ndarray
    labels: np.ndarray  # of all scopes, one after another
    sizes: np.ndarray  # of all scopes, one after another
    entries: np.ndarray  # listed table entries of each block


def _blocks(numbers: Numbers) -> _Blocks:
    m = numbers.count("number of factors")
    parts = "number of variables, their labels, their numbers of states, number of entries and the entries"
    starts = numbers.blocks("block_starts", m, "factor", f"the {parts}")
    arity = numbers.values[starts].astype(np.int64)
    at_labels = spread(starts + 1, arity)
    at_sizes = spread(starts + 1 + arity, arity)
    values = numbers.values
    return _Blocks(
        starts,
        arity,
        numbers.as_integers(values[at_labels], lambda k: int(at_labels[k]), "labels", 0, None),
        numbers.as_integers(values[at_sizes], lambda k: int(at_sizes[k]), "numbers of states", 1, None),
        values[starts + 1 + 2 * arity].astype(np.int64),
    )


def _sizes(numbers: Numbers, blocks: _Blocks, labels: np.ndarray, scope: np.ndarray) -> np.ndarray:
    """Number of states of each variable, which all its factors must agree on."""
    sizes = np.zeros(len(labels), dtype=np.int64)
    sizes[scope] = blocks.sizes
    unequal = np.flatnonzero(sizes[scope] != blocks.sizes)
    if len(unequal):
        e = int(unequal[0])
        a = int(np.searchsorted(np.cumsum(blocks.arity), e, side="right"))
        raise numbers.error(
            int(blocks.starts[a]),
            f"factor {a}: variable {blocks.labels[e]} has {blocks.sizes[e]} states here "
            f"and {sizes[scope[e]]} elsewhere",
        )
    return sizes


def _tables(numbers: Numbers, blocks: _Blocks, scope_start: np.ndarray) -> np.ndarray:
    """All log tables in C order."""
    table_size = products(scope_start, blocks.sizes).astype(np.int64)
    table_start = starts_of(table_size)
    at = spread(blocks.starts + 2 + 2 * blocks.arity, 2 * blocks.entries)
    owner = np.repeat(np.arange(len(blocks.arity)), blocks.entries)
    at_index, at_value = at[::2], at[1::2]
    values = numbers.values
    index = numbers.as_integers(values[at_index], lambda k: int(at_index[k]), "table positions", 0, None)
    weight = values[at_value]
    outside = np.flatnonzero(index >= table_size[owner])
    if len(outside):
        e = int(outside[0])
        a = int(owner[e])
        raise numbers.error(
            int(at_index[e]), f"factor {a}: expected table positions below {table_size[a]}, got {index[e]}"
        )
    if len(weight) and weight.min() < 0:
        e = int(weight.argmin())
        raise numbers.error(int(at_value[e]), f"expected non-negative weights, got {weight[e]:.15g}")
    place = table_start[owner] + _to_c_order(index, owner, blocks, scope_start)
    if len(np.unique(place)) < len(place):
        e = int(np.setdiff1d(np.arange(len(place)), np.unique(place, return_index=True)[1])[0])
        raise numbers.error(int(at_index[e]), f"factor {owner[e]}: table position {index[e]} is given twice")
    tables = np.full(table_start[-1], -np.inf)
    with np.errstate(divide="ignore"):
        tables[place] = np.log(weight)
    return tables


def _to_c_order(index: np.ndarray, owner: np.ndarray, blocks: _Blocks, scope_start: np.ndarray) -> np.ndarray:
    """Table positions with the first variable fastest, turned into those with the last one fastest."""
    steps = strides_of(scope_start, blocks.sizes)
    place = np.zeros_like(index)
    rest = index.copy()
    for k in range(int(blocks.arity.max(initial=0))):
        has = np.flatnonzero(blocks.arity[owner] > k)
        edge = scope_start[owner[has]] + k
        rest[has], digit = np.divmod(rest[has], blocks.sizes[edge])
        place[has] += digit * steps[edge]
    return place


def _variables(labels: np.ndarray, sizes: np.ndarray) -> Variables:
    if np.array_equal(labels, np.arange(len(labels))):
        return Variables.numbered(sizes)
    return Variables.of([Variable(f"x{i}", int(k)) for i, k in zip(labels, sizes, strict=True)])


def write_fg(model: Any) -> str:
    """Text of a model in libDAI form."""
    graph = graph_of(model)
    labels = _labels(graph.variables)
    sizes, values = graph.variables.sizes, weights(graph)
    blocks = [[str(graph.n_factors)]]
    for a in range(graph.n_factors):
        scope = graph.scope_of(a)
        start, size = int(graph.table_start[a]), int(graph.table_size[a])
        table = values[start : start + size].reshape(sizes[scope]).ravel(order="F")
        blocks.append(_block([labels[i] for i in scope], sizes[scope], table))
    alone = np.setdiff1d(np.arange(len(sizes)), graph.scope)
    blocks += [_block([labels[i]], sizes[[i]], np.ones(sizes[i])) for i in alone]
    blocks[0] = [str(len(blocks) - 1)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _block(labels: list[int], sizes: np.ndarray, table: np.ndarray) -> list[str]:
    listed = np.flatnonzero(table)
    entries = [f"{k} {x!r}" for k, x in zip(listed.tolist(), table[listed].tolist(), strict=True)]
    return [str(len(labels)), text_of(labels), text_of(sizes), str(len(listed)), *entries]


def _labels(variables: Variables) -> list[int]:
    """Labels from names x4, x8, ... in rising order, otherwise positions."""
    if all(re.fullmatch("x(0|[1-9][0-9]{0,14})", name) for name in variables.names):
        labels = [int(name[1:]) for name in variables.names]
        if labels == sorted(labels):
            return labels
    return list(range(len(variables)))


register_format(Format("fg", (".fg",), read_fg, write_fg))
