"""Log-linear models: factors that share parameters.

    p(x) ∝ exp( sum_a theta_a(x_a) ),      theta_a(x_a) = sum_k w_k phi_ak(x_a)

All log tables, one after another, are one vector that is linear in the weights,

    theta = D w + fixed,

with a sparse design matrix D (table entries x parameters). So new weights cost one
matrix-vector product, and expected features under factor marginals mu are D' mu: what the
gradient of a likelihood needs, E_data[phi] - E_model[phi].
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.factor import check_log_table
from ..core.factor_graph import FactorGraph
from ..core.graph_parts import check_arrays
from ..core.naming import NamedModel
from ..core.numbers import float_array
from ..core.records import register
from ..core.result import FactorMarginals, Samples
from ..core.variable import Variables
from ..core.wiring import starts_of
from .state_rows import state_rows

__all__ = ["Feature", "LogLinear"]


@dataclass(frozen=True)
class Feature:
    """A feature on one scope or on many."""

    scope: Any  # names or positions of one scope, or many: a list of tuples of names, an array (count, arity)
    table: Any  # values phi, shape (d1, ..., dk) for all scopes, or (count, d1, ..., dk)
    parameter: Any = None  # index of the weight, one or one per scope; None: fixed weight 1, -inf allowed


@register("LogLinear")
class LogLinear(NamedModel):
    """A Markov network with shared parameters; immutable.

    Parameters
    ----------
    variables
        Variables, a mapping name -> states, or an array of state counts.
    features
        `Feature`s, or tuples (scope, table, parameter). Features on the same ordered scope
        share one factor.
    weights
        One number per parameter.

    Examples
    --------
    A chain that likes equal neighbours, with one weight for all its edges:

    >>> import numpy as np
    >>> from credo import MarkovNet
    >>> chain = np.stack([np.arange(3), np.arange(1, 4)], axis=1)
    >>> model = MarkovNet.log_linear(np.full(4, 2), [(chain, np.eye(2), 0), ("x0", [0, 1], 1)], [0.5, 2.0])
    >>> model
    LogLinear(4 variables, 4 factors, 2 parameters)
    >>> model.to_factor_graph().log_score({"x0": 1, "x1": 1, "x2": 0, "x3": 0})
    3.0
    >>> model.with_weights([1.0, 0.0]).to_factor_graph().log_score({"x0": 1, "x1": 1, "x2": 0, "x3": 0})
    2.0
    """

    def __init__(self, variables: Any, features: Iterable[Any], weights: Any) -> None:
        from scipy import sparse

        self._variables = Variables.of(variables)
        self._weights = _weights(weights)
        groups = [_Group.of(self._variables, number, f) for number, f in enumerate(features)]
        factor_of, scopes = _distinct_scopes(groups)
        none = np.empty(0, np.int64)
        self._scope_start = starts_of(np.concatenate([none, *(np.full(len(s), s.shape[1]) for s in scopes)]))
        self._scope = np.concatenate([none, *(s.ravel() for s in scopes)])
        sizes = (self._variables.sizes[s].prod(axis=1) for s in scopes)
        table_start = starts_of(np.concatenate([none, *sizes]))
        self._fixed = np.zeros(table_start[-1])
        rows, columns, values = [], [], []
        for group, factors in zip(groups, factor_of, strict=True):
            entries = table_start[factors][:, None] + np.arange(group.tables.shape[1])
            phi = np.broadcast_to(group.tables, entries.shape)
            if group.parameters is None:
                np.add.at(self._fixed, entries.ravel(), phi.ravel())
                continue
            if len(factors) and not (
                0 <= group.parameters.min() and group.parameters.max() < len(self._weights)
            ):
                raise ModelError(
                    f"{group.where}: expected parameters in [0, {len(self._weights)}), "
                    f"got {group.parameters.min()} to {group.parameters.max()}"
                )
            some = phi != 0
            rows.append(entries[some])
            columns.append(np.broadcast_to(group.parameters[:, None], entries.shape)[some])
            values.append(phi[some])
        index = (np.concatenate([none, *rows]), np.concatenate([none, *columns]))
        shape = (int(table_start[-1]), len(self._weights))
        self._design = sparse.csr_array((np.concatenate([np.empty(0), *values]), index), shape=shape)

    @classmethod
    def from_design(
        cls, variables: Variables, scope_start: Any, scope: Any, design: Any, fixed: Any, weights: Any
    ) -> LogLinear:
        """Make a model of its flat parts: CSR scopes, sparse D, fixed log tables and weights."""
        from scipy import sparse

        made = cls.__new__(cls)
        made._variables, made._weights = variables, _weights(weights)
        made._scope_start = np.ascontiguousarray(scope_start, dtype=np.int64)
        made._scope = np.ascontiguousarray(scope, dtype=np.int64)
        made._fixed = np.ascontiguousarray(fixed, dtype=np.float64)
        made._design = sparse.csr_array(design)
        shape = (len(made._fixed), len(made._weights))
        if made._design.shape != shape:
            raise ModelError(f"design: expected shape {shape}, got {made._design.shape}")
        return made

    def to_parts(self) -> dict[str, Any]:
        """What files keep: the flat parts."""
        return {
            "variables": self._variables, "scope_start": self._scope_start, "scope": self._scope,
            "design": self._design, "fixed": self._fixed, "weights": self._weights,
        }  # fmt: skip

    @classmethod
    def from_parts(cls, variables: Any, scope_start: Any, scope: Any, **parts: Any) -> LogLinear:
        """The model of what a file kept."""
        check_arrays(variables, scope_start, scope)
        made = cls.from_design(variables, scope_start, scope, **parts)
        check_log_table(made.fixed, "fixed")
        if not np.isfinite(made.design.data).all():
            raise ModelError("design: expected finite numbers, got others")
        made.to_factor_graph()  # refuses tables that do not fit
        return made

    @property
    def variables(self) -> Variables:
        """The ordered set of variables."""
        return self._variables

    @property
    def weights(self) -> np.ndarray:
        """The parameters, read-only."""
        return self._weights

    @property
    def design(self) -> Any:
        """Sparse matrix D with `log_tables = D @ weights + fixed`."""
        return self._design

    @property
    def fixed(self) -> np.ndarray:
        """What the features without a parameter add to the log tables, (entries,)."""
        return self._fixed

    def with_weights(self, weights: Any) -> LogLinear:
        """Make a model with the same features and other weights."""
        new = _weights(weights)
        if new.shape != self._weights.shape:
            raise ModelError(f"weights: expected {len(self._weights)} numbers, got {len(new)}")
        made = self.__class__.__new__(self.__class__)
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k != "_graph"})
        made._weights = new
        # What algorithms compiled depends on the structure alone, which is the same.
        made._graph.memo = self._graph.memo
        return made

    @cached_property
    def _graph(self) -> FactorGraph:
        tables = self._design @ self._weights + self._fixed
        return FactorGraph.from_flat(self._variables, self._scope_start, self._scope, tables)

    def to_factor_graph(self) -> FactorGraph:
        """One factor per distinct scope, by rising arity; the same object at every call."""
        return self._graph

    def expected_features(self, marginals: FactorMarginals) -> np.ndarray:
        """Return the expected total of each feature under the factor marginals of a result."""
        return np.asarray(self._design.T @ marginals.flat)

    def mean_features(self, states: Samples | np.ndarray) -> np.ndarray:
        """Mean over rows of the total of each feature; rows are state indices (rows, n)."""
        states = state_rows("mean_features", self._variables, states)
        if not len(states):
            raise ModelError("mean_features: expected at least one row, got none")
        graph = self._graph
        counts = np.zeros(len(self._fixed))
        for group in graph.shape_groups:
            entry = np.zeros((len(states), len(group.factors)), dtype=np.int64)
            for k, size in enumerate(group.shape):
                entry = entry * size + states[:, group.scopes[:, k]]
            counts += np.bincount((entry + group.table_start).ravel(), minlength=len(counts))
        return np.asarray(self._design.T @ counts) / len(states)

    def __repr__(self) -> str:
        return (
            f"LogLinear({len(self._variables)} variables, {len(self._scope_start) - 1} factors, "
            f"{len(self._weights)} parameters)"
        )


@dataclass(frozen=True)
class _Group:
    """A checked feature: all its scopes have one shape."""

    where: str
    scopes: np.ndarray  # (count, arity)
    tables: np.ndarray  # (count or 1, entries)
    parameters: np.ndarray | None  # (count,)

    @classmethod
    def of(cls, variables: Variables, number: int, feature: Any) -> _Group:
        where = f"feature {number}"
        if not isinstance(feature, Feature):
            if not isinstance(feature, tuple) or not 2 <= len(feature) <= 3:
                raise ModelError(f"{where}: expected (scope, table, parameter), got {feature!r:.80}")
            feature = Feature(*feature)
        scopes = _scopes(variables, feature.scope, where)
        count, arity = scopes.shape
        tables = _table(feature, where)
        shape = tables.shape if tables.ndim == arity else tables.shape[1:]
        sizes = variables.sizes[scopes]
        if len(shape) != arity or (tables.ndim > arity and len(tables) != count) or (sizes != shape).any():
            expected = tuple(map(int, sizes[0])) if count else "(d1, ..., dk)"
            raise ModelError(
                f"{where}: expected a table of shape {expected} for all {count} scopes or one per scope, "
                f"got {tables.shape}"
            )
        parameters = None
        if feature.parameter is not None:
            parameters = np.asarray(feature.parameter)
            if parameters.dtype.kind not in "iu" or parameters.shape not in ((), (count,)):
                raise ModelError(
                    f"{where}: expected one parameter index or {count}, got {feature.parameter!r:.80}"
                )
            parameters = np.broadcast_to(parameters, (count,))
        flat = tables.reshape(1 if tables.ndim == arity else count, -1)
        return cls(where, scopes, flat, parameters)


def _table(feature: Feature, where: str) -> np.ndarray:
    table = float_array(where, feature.table, expected="a table of numbers")
    # A hard constraint cannot have a weight: 0 * -inf is not a number.
    fine = np.isfinite(table) if feature.parameter is not None else table < np.inf
    if not fine.all():
        raise ModelError(
            f"{where}: expected finite values (-inf only without a parameter), got {table[~fine].flat[0]:g}"
        )
    return table


def _scopes(variables: Variables, scope: Any, where: str) -> np.ndarray:
    """Positions of shape (count, arity), from one scope or many, by name or position."""
    if isinstance(scope, str):
        scope = [scope]
    if isinstance(scope, (list, tuple)) and scope and isinstance(scope[0], (str, list, tuple)):
        rows = [scope] if isinstance(scope[0], str) else scope
        if len({len(row) for row in rows}) > 1:
            raise ModelError(f"{where}: expected scopes of one length, got {list(rows)!r:.80}")
        scope = [[variables.position(n) if isinstance(n, str) else n for n in row] for row in rows]
    found = np.asarray(scope)
    found = found[None, :] if found.ndim == 1 else found
    if found.ndim != 2 or found.dtype.kind not in "iu" or not found.size:
        raise ModelError(f"{where}: expected names or positions of one scope or many, got {scope!r:.80}")
    if not (0 <= found.min() and found.max() < len(variables)):
        raise ModelError(
            f"{where}: expected positions in [0, {len(variables)}), got {found.min()} to {found.max()}"
        )
    return found.astype(np.int64)


def _distinct_scopes(groups: list[_Group]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Factor number of every scope of every group, and the scopes of all factors by arity."""
    factor_of: list[np.ndarray] = [np.empty(0, np.int64)] * len(groups)
    scopes: list[np.ndarray] = []
    count = 0
    for arity in sorted({g.scopes.shape[1] for g in groups}):
        mine = [g for g, group in enumerate(groups) if group.scopes.shape[1] == arity]
        stacked = np.concatenate([groups[g].scopes for g in mine])
        order = np.lexsort(stacked.T[::-1])
        ordered = stacked[order]
        is_new = np.ones(len(ordered), dtype=bool)
        is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        numbers = np.empty(len(ordered), dtype=np.int64)
        numbers[order] = count + np.cumsum(is_new) - 1
        scopes.append(ordered[is_new])
        count += len(scopes[-1])
        cuts = np.cumsum([len(groups[g].scopes) for g in mine])[:-1]
        for g, part in zip(mine, np.split(numbers, cuts), strict=True):
            factor_of[g] = part
    return factor_of, scopes


def _weights(weights: Any) -> np.ndarray:
    found = float_array("weights", weights, copy=True)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise ModelError(f"weights: expected a vector of finite numbers, got {weights!r:.80}")
    found.flags.writeable = False
    return found
