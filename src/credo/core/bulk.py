"""Whole arrays of tables of one shape: checked, and put into the flat arrays of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ModelError
from .factor import Factor, TableFactor, check_log_table, to_log
from .flat_tables import FlatTables
from .groups import TableBlock
from .numbers import float_array
from .variable import Variables
from .wiring import starts_of

__all__ = [
    "TableArrays",
    "check_scopes",
    "flat_arrays",
    "is_array_like",
    "merge_blocks",
    "refuse_without_states",
    "table_over",
]


def refuse_without_states(variables: Variables, scope: np.ndarray) -> None:
    """Raise an error if one of these variables is continuous."""
    without = scope[variables.sizes[scope] == 0]
    if len(without):
        name = variables.names[int(without[0])]
        raise ModelError(f"variable '{name}' is continuous: a table needs states; use a DensityFactor")


@dataclass(frozen=True)
class TableArrays:
    """Checked arrays of one bulk group."""

    scopes: np.ndarray  # (count, arity)
    tables: np.ndarray  # logs, (count, d1, ..., dk), or (d1, ..., dk) if all share one
    table_start: np.ndarray  # (count,) where each begins in the flat array

    @classmethod
    def of(cls, variables: Variables, scopes: Any, tables: Any, *, log: bool) -> TableArrays:
        """Check scopes (count, arity) and tables (count, d1, ..., dk), or one table that all share."""
        scopes = np.asarray(scopes, dtype=np.int64)
        if scopes.ndim != 2:
            raise ModelError(f"scopes: expected an array of shape (count, arity), got {scopes.shape}")
        count, arity = scopes.shape
        outside = scopes[(scopes < 0) | (scopes >= len(variables))]
        if len(outside):
            raise ModelError(f"scopes: expected positions in [0, {len(variables)}), got {outside[0]}")
        refuse_without_states(variables, scopes.ravel())
        if log:
            tables = float_array("tables", tables)
            check_log_table(tables, "tables")
        else:
            tables = to_log(tables, "tables")
        shared = tables.ndim == arity
        sizes = variables.sizes[scopes]
        shape = tables.shape if shared else tables.shape[1:]
        if len(shape) != arity or (not shared and len(tables) != count):
            raise ModelError(
                f"tables: expected shape (d1, ..., d{arity}) or ({count}, d1, ..., d{arity}), "
                f"got {tables.shape}"
            )
        if count and not (sizes == np.array(shape, dtype=np.int64)).all():
            a = int(np.flatnonzero((sizes != shape).any(axis=1))[0])
            raise ModelError(
                f"factor {a} over {[variables.names[i] for i in scopes[a]]}: "
                f"expected a table of shape {tuple(map(int, sizes[a]))}, got {shape}"
            )
        step = 0 if shared else int(np.prod(shape, dtype=np.int64))
        return cls(scopes, tables, np.arange(count, dtype=np.int64) * step)


def merge_blocks(graph: FlatTables, numbers: np.ndarray, blocks: Sequence[TableBlock]) -> np.ndarray:
    """Put blocks of tables into the flat arrays of a graph under construction; the numbers of all tables."""
    arity = [np.diff(graph.scope_start), *(np.full(len(b.numbers), b.scopes.shape[1]) for b in blocks)]
    sizes = [int(np.prod(b.logs.shape[1:], dtype=np.int64)) for b in blocks]
    begin = len(graph.log_tables) + starts_of(
        [len(b.numbers) * size for b, size in zip(blocks, sizes, strict=True)]
    )
    starts = [
        first + size * np.arange(len(b.numbers)) for first, size, b in zip(begin, sizes, blocks, strict=False)
    ]
    all_numbers = np.concatenate([numbers, *(b.numbers for b in blocks)])
    order = np.argsort(all_numbers, kind="stable")
    arities = np.concatenate(arity)
    old = starts_of(arities)
    graph.scope_start = starts_of(arities[order])
    edge = np.arange(old[-1]) + np.repeat(old[:-1][order] - graph.scope_start[:-1], arities[order])
    graph.scope = np.concatenate([graph.scope, *(b.scopes.ravel() for b in blocks)])[edge]
    graph.table_start = np.concatenate([graph.table_start, *starts])[order]
    graph.log_tables = np.concatenate([graph.log_tables, *(b.logs.ravel() for b in blocks)])
    return all_numbers[order]


def table_over(variables: Variables, scope: Any, table: Any) -> TableFactor:
    """A factor of a mapping scope -> table."""
    if not isinstance(scope, (str, Iterable)):
        raise ModelError(f"factors: expected a name or names of variables as a scope, got {scope!r:.80}")
    names = (scope,) if isinstance(scope, str) else tuple(scope)
    return TableFactor([variables[variables.position(n)] for n in names], table)


def check_scopes(variables: Variables, factors: list[Any]) -> None:
    """Refuse what is no factor, and factors of variables that were not declared."""
    for f in factors:
        if not isinstance(f, Factor):
            raise ModelError(
                f"expected a factor (TableFactor, GaussianFactor, DensityFactor ...), got {f!r:.80}"
            )
        for v in f.scope:
            if v not in variables:
                raise ModelError(
                    f"factor over {list(f.names)}: variable '{v.name}' is not in the graph with "
                    f"{'these states' if v.is_discrete else f'the domain {v.domain!r}'}; declare it in "
                    "`variables`"
                )


def flat_arrays(
    variables: Variables, groups: Sequence[tuple[Any, Any]], *, log: bool
) -> dict[str, np.ndarray]:
    """Pairs of scopes and tables as the arrays of one graph."""
    parts = [TableArrays.of(variables, scopes, tables, log=log) for scopes, tables in groups]
    none = np.empty(0, dtype=np.int64)
    begin = starts_of([part.tables.size for part in parts])[:-1]
    arity = [np.full(len(part.scopes), part.scopes.shape[1]) for part in parts]
    return {
        "scope_start": starts_of(np.concatenate(arity or [none])),
        "scope": np.concatenate([part.scopes.ravel() for part in parts] or [none]),
        "log_tables": np.concatenate([part.tables.ravel() for part in parts] or [none]),
        "table_start": np.concatenate(
            [at + part.table_start for at, part in zip(begin, parts, strict=True)] or [none]
        ),
    }


def is_array_like(variables: Any) -> bool:
    """Whether variables are given by a list of state counts."""
    first = variables[0] if isinstance(variables, (list, tuple)) and variables else None
    return isinstance(first, (int, np.integer))
