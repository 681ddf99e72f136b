"""Exponents per factor, and factors that hold at most one free variable.

An exponent is given as one number for all factors, a sequence in factor order, or a mapping from
factors (position, or names of the scope in any order) to numbers; factors that a mapping does
not name have exponent 1. A factor over one free variable has the same message under every
exponent, so its entry never matters.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import OptionError
from ...core.factor_graph import FactorGraph
from ..problem.base import Problem

__all__ = ["Exponent", "check_exponent", "per_factor", "single_factors", "single_messages", "zeros_reason"]

Exponent = float | Sequence[float] | Mapping[Any, float]
_LARGEST = sys.float_info.max


def check_exponent(name: str, value: Any, high: float = np.inf) -> Any:
    """Refuse anything but positive numbers up to `high`; arrays become tuples, so that options compare."""
    if isinstance(value, np.ndarray):
        value = tuple(value.tolist())
    numbers = (
        value.values()
        if isinstance(value, Mapping)
        else value
        if isinstance(value, (tuple, list))
        else [value]
    )
    limit = f" and at most {high:g}" if np.isfinite(high) else ""
    for number in numbers:
        fine = isinstance(number, (int, float, np.number)) and not isinstance(number, bool)
        if not fine or not 0 < number <= min(high, _LARGEST):
            raise OptionError(f"{name} must be a positive number{limit}, got {number!r:.80}")
    return tuple(value) if isinstance(value, list) else value


def per_factor(name: str, value: Any, graph: FactorGraph) -> np.ndarray:
    """One exponent per factor of a graph."""
    m = graph.n_factors
    if isinstance(value, Mapping):
        found = np.ones(m)
        scopes: dict[frozenset[int], list[int]] = {}
        if any(not isinstance(key, (int, np.integer)) for key in value):
            for a in range(m):
                scopes.setdefault(frozenset(graph.scope_of(a).tolist()), []).append(a)
        for key, number in value.items():
            found[_factors(name, key, graph, scopes)] = number
        return found
    if isinstance(value, tuple):
        # Soft evidence and priors come after the model's own factors, each over one variable.
        if len(value) > m or (np.diff(graph.scope_start)[len(value) :] > 1).any():
            raise OptionError(f"{name}: expected one number for each of the {m} factors, got {len(value)}")
        return np.concatenate([value, np.ones(m - len(value))])
    return np.full(m, float(value))


def _factors(name: str, key: Any, graph: FactorGraph, scopes: dict[frozenset[int], list[int]]) -> list[int]:
    """Positions of the factors that a key of a mapping names."""
    if isinstance(key, (int, np.integer)):
        if not 0 <= key < graph.n_factors:
            raise OptionError(f"{name}: expected factor positions below {graph.n_factors}, got {key}")
        return [int(key)]
    names = (key,) if isinstance(key, str) else tuple(key)
    found = scopes.get(frozenset(graph.variables.positions(names).tolist()))
    if found is None:
        raise OptionError(f"{name}: no factor is over {list(names)}; name the variables of one factor")
    return found


def single_factors(graph: FactorGraph) -> np.ndarray:
    """Mask of the factors with at most one free variable; their messages depend on no other message."""
    free = np.concatenate([[0], np.cumsum(graph.variables.sizes[graph.scope] > 1)])
    return np.asarray(free[graph.scope_start[1:]] - free[graph.scope_start[:-1]] <= 1)


def single_messages(problem: Problem, messages: np.ndarray) -> np.ndarray:
    """Log messages with those of the single factors set to their final value, the factor itself."""
    graph, wiring = problem.graph, problem.graph.wiring
    messages = messages.copy()
    edge = single_factors(graph)[wiring.edge_factor] & (wiring.sizes[wiring.scope] > 1)
    for size in np.unique(wiring.sizes[wiring.scope][edge]):
        mine = np.flatnonzero(edge & (wiring.sizes[wiring.scope] == size))
        along = np.arange(size)
        rows = graph.log_tables[wiring.table_start[wiring.edge_factor[mine]][:, None] + along]
        top = rows.max(axis=1, keepdims=True)
        if np.isneginf(top).any():
            raise problem.contradiction()
        rows = rows - top
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        messages[wiring.edge_state_start[mine][:, None] + along] = rows
    return messages


def zeros_reason(graph: FactorGraph, power: np.ndarray) -> str | None:
    """Why exponents above 1 cannot be used, if a factor that has one holds a zero."""
    risky = (power > 1) & ~single_factors(graph)
    if not risky.any() or not np.isneginf(graph.log_tables).any():
        return None
    for a in np.flatnonzero(risky):
        if np.isneginf(graph.log_table(int(a))).any():
            names = [graph.variables.names[i] for i in graph.scope_of(int(a))]
            return (
                f"the factor over {names} holds a zero, and an exponent above 1 divides by "
                "a power of its messages; use an exponent of at most 1"
            )
    return None
