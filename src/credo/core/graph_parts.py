"""What a file keeps of a factor graph, and the checks of what a file claims to be one.

Constructors in bulk trust the arrays of their callers, because those were made by this package; arrays of a
file are looked at first: positions inside their ranges, groups of one domain per column, numbers that are
numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ModelError, UnsupportedError
from .factor import check_log_table
from .groups import Gaussians, Group, LinearGaussians
from .records import known_class, known_function
from .variable import Variables

if TYPE_CHECKING:
    from .factor_graph import FactorGraph

__all__ = ["check_arrays", "check_groups", "graph_parts"]

_SYMMETRIC = 1e-8  # largest difference of two mirrored entries, relative to the largest entry


def graph_parts(graph: FactorGraph) -> dict[str, Any]:
    """The flat arrays and the groups; functions that no file can name are refused."""
    for group in graph.others:
        function = getattr(group, "function", None)
        if function is not None and not _is_known(function):
            names = [graph.variables.names[int(i)] for i in group.scopes[0]]
            told = getattr(function, "__name__", type(function).__name__)
            raise UnsupportedError(
                f"factor over {names}: a file cannot keep its function '{told}'; use one of "
                "credo.potentials, or define the function in a module and decorate it by "
                "`@credo.register(tag)`"
            )
    return {
        "variables": graph.variables, "scope_start": graph.scope_start, "scope": graph.scope,
        "table_start": graph.table_start, "log_tables": graph.log_tables, "numbers": graph.numbers,
        "others": graph.others,
    }  # fmt: skip


def _is_known(function: Any) -> bool:
    if known_class(type(function)) is not None:
        return _is_known(function.function)
    return known_function(function) is not None


def _whole(what: str, array: Any, axes: int) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.dtype != np.int64 or array.ndim != axes:
        raise ModelError(f"{what}: expected an array of whole numbers with {axes} axes, got another value")
    return array


def check_arrays(
    variables: Any, scope_start: Any, scope: Any, table_start: Any = None, log_tables: Any = None
) -> None:
    """Refuse scopes, and tables where there are some, that are none."""
    if not isinstance(variables, Variables):
        raise ModelError(f"variables: expected a set of variables, got {type(variables).__name__}")
    start, scope, n = _whole("scope_start", scope_start, 1), _whole("scope", scope, 1), len(variables)
    if not len(start) or start[0] != 0 or (np.diff(start) < 0).any() or start[-1] != len(scope):
        raise ModelError(f"scope_start: expected rising positions from 0 to {len(scope)}")
    if len(scope) and not (scope.min() >= 0 and scope.max() < n):
        raise ModelError(f"scope: expected positions from 0 to {n - 1}")
    if table_start is not None:
        first = _whole("table_start", table_start, 1)
        if len(first) != len(start) - 1 or (len(first) and first.min() < 0):
            raise ModelError(f"table_start: expected {len(start) - 1} positions from 0, got others")
    if log_tables is not None:
        if not isinstance(log_tables, np.ndarray) or log_tables.dtype != np.float64 or log_tables.ndim != 1:
            raise ModelError("log_tables: expected one row of numbers, got another value")
        check_log_table(log_tables, "log_tables")


def check_groups(variables: Variables, groups: Any, numbers: Any, n_tables: int) -> None:
    """Refuse groups whose factors cannot be looked at."""
    if numbers is None and not groups and variables.is_discrete:
        return
    if len(_whole("numbers", numbers, 1)) != n_tables or (n_tables and numbers.min() < 0):
        raise ModelError(f"numbers: expected {n_tables} from 0, one per table, got others")
    if not isinstance(groups, tuple) or not all(isinstance(group, Group) for group in groups):
        raise ModelError("others: expected groups of factors, got something else")
    kinds: dict[Any, int] = {}
    kind_of = np.array([kinds.setdefault(d, len(kinds)) for d in variables.domains], dtype=np.int64)
    for group in groups:
        _check_group(group, variables, kind_of)


def _check_group(group: Group, variables: Variables, kind_of: np.ndarray) -> None:
    where = f"group of {group.kind} factors"
    own = _whole(f"{where}: numbers", group.numbers, 1)
    scopes = _whole(f"{where}: scopes", group.scopes, 2)
    if not len(own) or own.min() < 0 or len(scopes) != len(own):
        raise ModelError(f"{where}: expected a number from 0 and a scope for each, at least one")
    if scopes.size and not (scopes.min() >= 0 and scopes.max() < len(kind_of)):
        raise ModelError(f"{where}: expected positions from 0 to {len(kind_of) - 1}")
    if not group.stands_alone and (np.ptp(kind_of[scopes], axis=0) > 0).any():
        sizes = variables.sizes[scopes]  # labels may differ, domains may not
        if (np.ptp(sizes, axis=0) > 0).any() or not sizes[0].all():
            raise ModelError(f"{where}: expected variables of one domain in each column of the scopes")
    arrays = _arrays(group)
    if not group.stands_alone and any(len(a) != len(own) for a in arrays):
        raise ModelError(f"{where}: expected {len(own)} rows of parameters, got others")
    if any(a.dtype.kind not in "fiu" or np.isnan(a).any() for a in arrays):
        raise ModelError(f"{where}: expected numbers as parameters, got others")
    group.factor(0, variables)  # the shapes, which all rows share
    _check_values(where, group)


def _arrays(group: Group) -> list[np.ndarray]:
    parts = [v for k, v in vars(group).items() if k not in ("numbers", "scopes", "function", "parameters")]
    parts += getattr(group, "parameters", ())
    if not all(isinstance(part, np.ndarray) and part.ndim for part in parts):
        raise ModelError(f"group of {group.kind} factors: expected arrays as parameters, got something else")
    return parts


def _check_values(where: str, group: Group) -> None:
    if isinstance(group, Gaussians):
        J = group.precision
        skew = np.abs(J - np.swapaxes(J, 1, 2)).max(initial=0.0)
        fine = all(np.isfinite(a).all() for a in (J, group.shift, group.constant))
        if not fine or skew > _SYMMETRIC * np.abs(J).max(initial=0.0):
            raise ModelError(f"{where}: expected finite numbers and symmetric precisions, got others")
    if isinstance(group, LinearGaussians):
        fine = all(np.isfinite(a).all() for a in (group.weights, group.offset, group.variance))
        if not fine or not (group.variance > 0).all() or (group.constant == np.inf).any():
            raise ModelError(f"{where}: expected finite numbers and positive variances, got others")
