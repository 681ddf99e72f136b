"""Conditional probability tables in flat arrays: from names to arrays, and every check.

Slice a of the CSR arrays (`scope_start`, `scope`) is (parents..., child) and table a has one
axis per entry of the slice, in C order, so the rows of all tables are consecutive blocks whose
lengths are the children's state counts. Nothing here loops over entries in Python.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import ModelError, QueryError
from ..core.numbers import float_array
from ..core.variable import Variables

__all__ = [
    "ROW_TOLERANCE",
    "check_length",
    "check_repeats",
    "check_rows",
    "children_once",
    "edge_arrays",
    "flat_from_names",
    "random_rows",
    "scopes_from_names",
    "table_sizes",
    "take_slices",
    "topological_order",
]

# Three thirds typed with six digits miss 1 by 1e-6, single-precision tables by less. File
# readers, which meet coarser rounding, normalise the rows before they build a network.
ROW_TOLERANCE = 2e-6


def random_rows(
    row_sizes: np.ndarray, seed: int | np.random.Generator | None, concentration: float = 1.0
) -> np.ndarray:
    """Flat rows of the given lengths, each drawn from a symmetric Dirichlet distribution."""
    if not 0 < concentration < np.inf:
        raise ModelError(f"concentration: expected a positive number, got {concentration!r}")
    rng = check.generator(seed)
    start = np.cumsum(row_sizes) - row_sizes
    weights = rng.standard_gamma(concentration, size=int(row_sizes.sum()))
    sums = np.add.reduceat(weights, start) if len(start) else np.zeros(0)
    # With a tiny concentration all draws of a row may underflow; the limit of the
    # distribution is then all mass on one state chosen uniformly.
    for r in np.flatnonzero(sums < 1e-290):
        weights[start[r] : start[r] + row_sizes[r]] = 0.0
        weights[start[r] + rng.integers(row_sizes[r])] = sums[r] = 1.0
    rows: np.ndarray = weights / np.repeat(sums, row_sizes)
    return rows


def scopes_from_names(variables: Variables, parents: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """CSR arrays of (parents..., child) for every variable in order, from parents by name."""
    scopes = [[i] for i in range(len(variables))]
    for child, given in _items("parents", parents):
        names = (given,) if isinstance(given, str) else given
        if not isinstance(names, Iterable):
            raise ModelError(f"parents of '{child}': expected a list of names, got {given!r:.80}")
        i = _position(variables, child, "parents")
        scopes[i] = [*(_position(variables, n, f"parents of '{child}'") for n in names), i]
    scope_start = np.concatenate([[0], np.cumsum([len(s) for s in scopes])]).astype(np.int64)
    return scope_start, np.array([i for s in scopes for i in s], dtype=np.int64)


def _items(what: str, given: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(given, Mapping):
        raise ModelError(f"{what}: expected a mapping by child name, got {type(given).__name__}")
    return given.items()


def _position(variables: Variables, name: Any, where: str) -> int:
    try:
        return variables.position(name)
    except QueryError as error:
        raise ModelError(f"{where}: {error}") from None
    except TypeError:
        raise ModelError(f"{where}: expected the name of a variable, got {name!r:.80}") from None


def flat_from_names(
    variables: Variables, scope_start: np.ndarray, scope: np.ndarray, tables: Mapping[str, Any]
) -> tuple[np.ndarray, dict[str, Any]]:
    """All tables one after another in variable order, from tables by name; checks the shapes.

    What is given for variables without states is returned by name, as it is.
    """
    by_position = {_position(variables, name, "tables"): table for name, table in _items("tables", tables)}
    missing = [variables.names[i] for i in range(len(variables)) if i not in by_position]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ModelError(f"tables: expected one per variable, got none for {missing[:5]}{more}")
    parts = []
    for i in np.flatnonzero(variables.sizes).tolist():
        axes = scope[scope_start[i] : scope_start[i + 1]]
        where = f"table of '{variables.names[i]}'"
        table = float_array(where, by_position[i])
        shape = tuple(int(variables.sizes[j]) for j in axes)
        flat_is_fine = table.ndim == 1 and table.size == np.prod(shape, dtype=float)
        if table.shape != shape and not flat_is_fine:
            names = ", ".join(variables.names[j] for j in axes)
            raise ModelError(f"{where}: expected shape {shape} for ({names}), got {table.shape}")
        parts.append(table.ravel())
    others = {variables.names[i]: given for i, given in by_position.items() if not variables.sizes[i]}
    return np.concatenate(parts) if parts else np.empty(0), others


def children_once(variables: Variables, scope_start: np.ndarray, scope: np.ndarray) -> np.ndarray:
    """Child of each slice, after checking that every variable is the child of one."""
    n = len(variables)
    if len(scope_start) != n + 1 or (n and np.diff(scope_start).min() < 1):
        raise ModelError(
            f"scopes: expected one non-empty scope (parents..., child) per variable, {n} in all, "
            f"got {len(scope_start) - 1}"
        )
    if scope_start[0] != 0 or scope_start[-1] != len(scope):
        raise ModelError(f"scopes: expected scope_start from 0 to {len(scope)}, got {scope_start[[0, -1]]}")
    if n and not (0 <= scope.min() and scope.max() < n):
        raise ModelError(f"scopes: expected positions in [0, {n}), got {scope.min()} to {scope.max()}")
    children: np.ndarray = scope[scope_start[1:] - 1]
    counts = np.bincount(children, minlength=n)
    if (counts != 1).any():
        i = int(np.flatnonzero(counts != 1)[0])
        raise ModelError(
            f"scopes: expected one table per variable, got {counts[i]} for '{variables.names[i]}'"
        )
    return children


def table_sizes(variables: Variables, scope_start: np.ndarray, scope: np.ndarray) -> np.ndarray:
    """Entries of each table; refuses what no array can hold."""
    sizes = variables.sizes[scope]
    if not len(sizes):
        return np.zeros(0, dtype=np.int64)
    bits = np.add.reduceat(np.log2(np.maximum(sizes, 1)), scope_start[:-1])
    if bits.max() > 62:
        i = int(scope[scope_start[int(bits.argmax()) + 1] - 1])
        raise ModelError(
            f"table of '{variables.names[i]}': it would have 2^{bits.max():.0f} entries; use fewer parents"
        )
    return np.multiply.reduceat(sizes, scope_start[:-1])


def check_length(expected: int, flat: np.ndarray) -> None:
    """Refuse a flat array that cannot be cut into the tables."""
    if flat.shape != (expected,):
        raise ModelError(f"tables: expected {expected} entries in one flat array, got shape {flat.shape}")


def check_repeats(variables: Variables, scope_start: np.ndarray, scope: np.ndarray) -> None:
    """Refuse a parent named twice (a variable that is its own parent is a cycle, refused there)."""
    parent, child = edge_arrays(scope_start, scope)
    pair = np.sort(child * max(len(variables), 1) + parent)
    twice = np.flatnonzero(pair[1:] == pair[:-1])
    if len(twice):
        i, j = divmod(int(pair[twice[0]]), len(variables))
        raise ModelError(f"parents of '{variables.names[i]}': '{variables.names[j]}' is named twice")


def check_rows(
    variables: Variables, table_start: np.ndarray, row_counts: np.ndarray, flat: np.ndarray
) -> None:
    """Refuse entries that are no probabilities, and rows that do not sum to 1."""
    # `not all` catches NaN as well, because every comparison with NaN is false.
    fine = (flat >= 0) & (flat < np.inf)
    if not fine.all():
        at = int(np.flatnonzero(~fine)[0])
        i = int(np.searchsorted(table_start, at, side="right")) - 1
        raise ModelError(
            f"table of '{variables.names[i]}': expected finite, non-negative probabilities, got {flat[at]:g}"
        )
    if not len(flat):
        return
    row_sizes = np.repeat(variables.sizes, row_counts)
    sums = np.add.reduceat(flat, np.cumsum(row_sizes) - row_sizes)
    wrong = np.flatnonzero(np.abs(sums - 1) > ROW_TOLERANCE)
    if len(wrong):
        row_start = np.concatenate([[0], np.cumsum(row_counts)])
        i = int(np.searchsorted(row_start, wrong[0], side="right")) - 1
        mine = sums[row_start[i] : row_start[i + 1]]
        raise ModelError(
            f"table of '{variables.names[i]}': every row must sum to 1, "
            f"got sums from {mine.min():.8g} to {mine.max():.8g}; divide each row by its sum"
        )


def take_slices(values: np.ndarray, start: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put the slices start[a]:start[a+1] of `values` in a new order; returns their new starts too."""
    counts = np.diff(start)[order]
    new_start = np.concatenate([[0], np.cumsum(counts)])
    where = np.repeat(start[order] - new_start[:-1], counts) + np.arange(new_start[-1])
    return values[where], new_start


def edge_arrays(scope_start: np.ndarray, scope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions (parent, child) of every edge, from scopes in variable order."""
    is_parent = np.ones(len(scope), dtype=bool)
    is_parent[scope_start[1:] - 1] = False
    counts = np.diff(scope_start) - 1
    return scope[is_parent], np.repeat(np.arange(len(counts)), counts)


def topological_order(variables: Variables, scope_start: np.ndarray, scope: np.ndarray) -> np.ndarray:
    """Kahn's algorithm; refuses a cycle and names it."""
    parent, child = edge_arrays(scope_start, scope)
    n = len(variables)
    if (parent < child).all():
        order = np.arange(n)
    else:
        waiting = np.bincount(child, minlength=n).tolist()
        around = np.argsort(parent, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(parent, minlength=n))]).tolist()
        followers = child[around].tolist()
        ready = deque(i for i in range(n) if not waiting[i])
        found = []
        while ready:
            i = ready.popleft()
            found.append(i)
            for j in followers[start[i] : start[i + 1]]:
                waiting[j] -= 1
                if not waiting[j]:
                    ready.append(j)
        if len(found) < n:
            raise ModelError(_describe_cycle(variables, scope_start, scope, waiting))
        order = np.array(found, dtype=np.int64)
    order.flags.writeable = False
    return order


def _describe_cycle(
    variables: Variables, scope_start: np.ndarray, scope: np.ndarray, waiting: list[int]
) -> str:
    """Walk from a blocked variable to blocked parents until one repeats: that is a cycle."""
    i = next(i for i, count in enumerate(waiting) if count)
    path: dict[int, None] = {}
    while i not in path:
        path[i] = None
        parents = scope[scope_start[i] : scope_start[i + 1] - 1]
        i = next(int(j) for j in parents if waiting[j])
    walked = list(path)
    cycle = [variables.names[j] for j in [i, *walked[walked.index(i) :][::-1]]]
    shown = cycle if len(cycle) <= 12 else [*cycle[:6], "...", *cycle[-5:]]
    return f"parents: expected no cycle, got {' -> '.join(shown)}; remove one of these edges"
