"""The factor graph: the one form every algorithm reads.

    p(x) = (1/Z) prod_a exp( theta_a(x_a) )

All discrete factors live in four flat arrays from birth:

    scope_start[a] : scope_start[a+1]   the slice of `scope` with factor a's variable positions
    table_start[a]                      where factor a's log table begins in `log_tables` (C order)

so a million tables are one array, readers and bulk constructors fill it without a Python
object per factor, and many factors may share one table (equal `table_start`).
`graph.factors[a]` makes a `TableFactor` view when somebody wants to look at one.
`graph.wiring` adds the derived index arrays message-passing kernels need.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .errors import ModelError, QueryError
from .factor import TableFactor, check_log_table, to_log
from .naming import NamedModel
from .variable import Variables
from .wiring import Memo, ShapeGroup, Wiring, products_of, starts_of

__all__ = ["FactorGraph", "Model"]


_NONE = np.empty(0, dtype=np.int64)


@runtime_checkable
class Model(Protocol):
    """Anything that can be read as a factor graph."""

    def to_factor_graph(self) -> FactorGraph:
        """The factor graph of this model; the same object at every call."""
        ...


class FactorGraph(NamedModel):
    """Variables and factors.

    Parameters
    ----------
    variables
        Variables, a mapping name -> states, or an array of state counts.
    factors
        `TableFactor`s, or a mapping scope -> table of weights.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> graph = FactorGraph({"a": 2, "b": ["lo", "hi"]}, {("a", "b"): [[1, 2], [3, 4]], ("a",): [1, 1]})
    >>> graph.log_score({"a": 1, "b": "hi"})
    1.3862943611198906
    """

    variables: Variables
    scope_start: np.ndarray
    scope: np.ndarray
    table_start: np.ndarray
    log_tables: np.ndarray
    memo: Memo  # what algorithms compiled for this structure

    def __init__(self, variables: Any, factors: Any = ()) -> None:
        self.variables = Variables.of(variables)
        if isinstance(factors, Mapping):
            factors = [self._factor(scope, table) for scope, table in factors.items()]
        if not isinstance(factors, Iterable):
            raise ModelError(f"factors: expected a mapping scope -> table or a list, got {factors!r:.80}")
        factors = list(factors)
        self._check_domains()
        self._check_scopes(factors)
        position = self.variables.position
        self.scope_start = starts_of([len(f.scope) for f in factors])
        self.scope = np.array([position(v) for f in factors for v in f.scope], dtype=np.int64)
        self.table_start = starts_of([f.log_table.size for f in factors])[:-1]
        self.log_tables = np.concatenate([f.log_table.ravel() for f in factors]) if factors else np.empty(0)
        self.memo = Memo()
        self._freeze()

    @classmethod
    def from_flat(
        cls,
        variables: Variables,
        scope_start: np.ndarray,
        scope: np.ndarray,
        log_tables: np.ndarray,
        *,
        table_start: np.ndarray | None = None,
    ) -> FactorGraph:
        """Make a graph from the flat arrays described in the module; no factor objects are made.

        Parameters
        ----------
        variables
            The ordered set of variables.
        scope_start, scope
            CSR arrays of the factors' variable positions.
        log_tables
            All log tables one after another.
        table_start
            Start of each table; by default they lie without gaps in factor order.
        """
        graph = cls._unchecked(variables, scope_start, scope, log_tables)
        graph._check_domains()
        if len(graph.scope) and not (0 <= graph.scope.min() and graph.scope.max() < len(variables)):
            raise ModelError(f"factor scopes: expected positions in [0, {len(variables)})")
        size = graph.table_size
        graph.table_start = starts_of(size)[:-1] if table_start is None else np.asarray(table_start, np.int64)
        end = int((graph.table_start + size).max()) if len(size) else 0
        if end > len(graph.log_tables) or (table_start is None and end < len(graph.log_tables)):
            raise ModelError(f"factor tables: expected {end} entries, got {len(graph.log_tables)}")
        graph._check_repeats()
        graph._freeze()
        return graph

    @classmethod
    def _unchecked(
        cls, variables: Variables, scope_start: np.ndarray, scope: np.ndarray, log_tables: np.ndarray
    ) -> FactorGraph:
        graph = cls.__new__(cls)
        graph.variables = variables
        graph.scope_start = np.ascontiguousarray(scope_start, dtype=np.int64)
        graph.scope = np.ascontiguousarray(scope, dtype=np.int64)
        graph.log_tables = np.ascontiguousarray(log_tables, dtype=np.float64)
        graph.memo = Memo()
        return graph

    def with_states(
        self, variables: Variables, log_tables: np.ndarray, table_start: np.ndarray
    ) -> FactorGraph:
        """The same structure over other state counts; plans are filed by state counts, so they are shared."""
        made = FactorGraph._unchecked(variables, self.scope_start, self.scope, log_tables)
        made.table_start = table_start
        made.memo = self.memo
        made._freeze()
        return made

    @classmethod
    def from_arrays(cls, variables: Any, *groups: tuple[Any, Any], log: bool = False) -> FactorGraph:
        """Make a graph from whole arrays of factors of one shape.

        Parameters
        ----------
        variables
            Variables, a mapping name -> states, or an array of state counts.
        groups
            Pairs `(scopes, tables)`: `scopes` has shape (count, arity) and holds variable
            positions; `tables` has shape (count, d1, ..., dk), or (d1, ..., dk) for one table
            that all factors of the group share.
        log
            Whether the tables hold logarithms.

        Examples
        --------
        >>> import numpy as np
        >>> from credo import FactorGraph
        >>> chain = np.stack([np.arange(9), np.arange(1, 10)], axis=1)
        >>> FactorGraph.from_arrays(np.full(10, 2), (chain, [[2.0, 1.0], [1.0, 2.0]]))
        FactorGraph(10 variables, 9 factors, 18 edges)
        """
        variables = Variables.of(np.asarray(variables) if _is_array_like(variables) else variables)
        parts = [_Group.of(variables, scopes, tables, log=log) for scopes, tables in groups]
        offset, starts = 0, []
        for part in parts:
            starts.append(offset + part.table_start)
            offset += part.tables.size
        return cls.from_flat(
            variables,
            starts_of(np.concatenate([np.full(len(p.scopes), p.scopes.shape[1]) for p in parts] or [_NONE])),
            np.concatenate([p.scopes.ravel() for p in parts] or [_NONE]),
            np.concatenate([p.tables.ravel() for p in parts] or [_NONE]),
            table_start=np.concatenate(starts or [_NONE]),
        )

    def _factor(self, scope: Any, table: Any) -> TableFactor:
        if not isinstance(scope, (str, Iterable)):
            raise ModelError(f"factors: expected a name or names of variables as a scope, got {scope!r:.80}")
        names = (scope,) if isinstance(scope, str) else tuple(scope)
        return TableFactor([self.variables[self.variables.position(n)] for n in names], table)

    def _check_domains(self) -> None:
        if not self.variables.is_discrete:
            name = self.variables.names[int(np.flatnonzero(self.variables.sizes == 0)[0])]
            raise ModelError(
                f"variable '{name}' is continuous: a graph of tables needs states; use HybridNet"
            )

    def _check_scopes(self, factors: list[Any]) -> None:
        for f in factors:
            if not isinstance(f, TableFactor):
                raise ModelError(f"expected a TableFactor, got {f!r}")
            for v in f.scope:
                if v not in self.variables:
                    raise ModelError(
                        f"factor over {list(f.names)}: variable '{v.name}' is not in the graph "
                        "with these states; declare it in `variables`"
                    )

    def _check_repeats(self) -> None:
        factor = np.repeat(np.arange(self.n_factors), np.diff(self.scope_start))
        pair = np.sort(factor * max(len(self.variables), 1) + self.scope)
        twice = np.flatnonzero(pair[1:] == pair[:-1])
        if len(twice):
            a, i = divmod(int(pair[twice[0]]), len(self.variables))
            raise ModelError(f"factor {a}: variable '{self.variables.names[i]}' appears twice in the scope")

    def _freeze(self) -> None:
        for array in (self.scope_start, self.scope, self.table_start, self.log_tables):
            array.flags.writeable = False

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return len(self.scope_start) - 1

    @cached_property
    def table_size(self) -> np.ndarray:
        """Number of entries of each factor's table."""
        sizes = products_of(self.scope_start, self.variables.sizes[self.scope].astype(np.float64))
        if sizes.max(initial=0.0) > 2.0**62:  # floats tell, where whole numbers would wrap around
            raise ModelError(f"factor {int(sizes.argmax())}: its table would have more than 2^62 entries")
        if sizes.max(initial=0.0) < 2.0**53:
            return sizes.astype(np.int64)
        return products_of(self.scope_start, self.variables.sizes[self.scope])

    @cached_property
    def structure_key(self) -> bytes:
        """A short name of the state counts and scopes, under which plans are filed in `memo`."""
        made = hashlib.blake2b(digest_size=16)
        for array in (self.variables.sizes, self.scope_start, self.scope):
            made.update(np.ascontiguousarray(array).data)
        return made.digest()

    @property
    def factors(self) -> Sequence[TableFactor]:
        """The factors, made one by one when looked at."""
        return _FactorView(self)

    @cached_property
    def wiring(self) -> Wiring:
        """Index arrays for kernels, compiled once."""
        return Wiring.of(self)

    @cached_property
    def shape_groups(self) -> tuple[ShapeGroup, ...]:
        """The factors grouped by table shape."""
        arity = np.diff(self.scope_start)
        found = []
        for k in np.unique(arity):
            of_arity = np.flatnonzero(arity == k)
            scopes = self.scope[self.scope_start[of_arity][:, None] + np.arange(k)]
            sizes = self.variables.sizes[scopes]
            if k == 0 or (sizes == sizes[0]).all():
                shapes, which = sizes[:1], np.zeros(len(sizes), dtype=np.int64)
            else:
                shapes, which = np.unique(sizes, axis=0, return_inverse=True)
            for g, shape in enumerate(shapes):
                rows = np.flatnonzero(which.ravel() == g)
                found.append(
                    ShapeGroup(
                        tuple(map(int, shape)),
                        of_arity[rows],
                        scopes[rows],
                        self.table_start[of_arity[rows]],
                    )
                )
        return tuple(found)

    def scope_of(self, a: int) -> np.ndarray:
        """Variable positions of factor `a`, in axis order."""
        return self.scope[self.scope_start[a] : self.scope_start[a + 1]]

    def log_table(self, a: int) -> np.ndarray:
        """Log table of factor `a`, a read-only view."""
        start = self.table_start[a]
        shape = self.variables.sizes[self.scope_of(a)]
        return self.log_tables[start : start + self.table_size[a]].reshape(shape)

    def select(self, factors: np.ndarray) -> FactorGraph:
        """The graph with only these factors (positions), in this order; tables are not copied."""
        arity = np.diff(self.scope_start)[factors]
        start = starts_of(arity)
        edges = np.arange(start[-1]) + np.repeat(self.scope_start[factors] - start[:-1], arity)
        made = FactorGraph._unchecked(self.variables, start, self.scope[edges], self.log_tables)
        made.table_start = self.table_start[factors]
        made.memo = self.memo  # plans are filed under the scopes, so they may be shared
        made._freeze()
        return made

    def log_score(self, assignment: Mapping[str, Any]) -> float:
        """Sum of all log-potentials at one joint state, given as name -> state."""
        missing = [n for n in self.variables.names if n not in assignment]
        if missing:
            raise ModelError(f"log_score: the assignment lacks {missing[:5]}; every variable needs a state")
        states = np.array([v.index(assignment[v.name]) for v in self.variables], dtype=np.int64)
        return float(self.log_scores(states[None, :])[0])

    def log_scores(self, states: np.ndarray) -> np.ndarray:
        """Sum of all log-potentials for each row of state indices (rows, n)."""
        states, n = np.asarray(states), len(self.variables)
        if states.ndim != 2 or states.shape[1] != n or (states.dtype.kind not in "iu" and states.size):
            raise QueryError(
                f"log_scores: expected integers of shape (rows, {n}), got {states.dtype} {states.shape}"
            )
        if ((states < 0) | (states >= self.variables.sizes)).any():
            row, i = np.argwhere((states < 0) | (states >= self.variables.sizes))[0]
            raise QueryError(
                f"log_scores: row {row} has state {states[row, i]} of '{self.variables.names[i]}', "
                f"expected 0 to {self.variables.sizes[i] - 1}"
            )
        wiring = self.wiring
        total = np.zeros(len(states))
        if self.n_factors == 0:
            return total
        has_scope = np.flatnonzero(np.diff(self.scope_start))
        for row, x in enumerate(np.asarray(states, dtype=np.int64)):
            entry = self.table_start.copy()
            if len(has_scope):
                steps = wiring.edge_stride * x[self.scope]
                entry[has_scope] += np.add.reduceat(steps, self.scope_start[has_scope])
            total[row] = self.log_tables[entry].sum()
        return total

    def condition(self, evidence: Mapping[str, Any]) -> FactorGraph:
        """The graph given evidence: observed variables keep one state, factors keep their places.

        Likelihood vectors (soft evidence) become unary factors after the existing ones. The
        probability of the evidence is the ratio of the two partition functions.
        """
        from .evidence import Evidence, condition

        return condition(self, Evidence.of(self.variables, evidence))[0]

    def to_factor_graph(self) -> FactorGraph:
        """A factor graph is its own model."""
        return self

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FactorGraph)
            and self.variables == other.variables
            and np.array_equal(self.scope_start, other.scope_start)
            and np.array_equal(self.scope, other.scope)
            and all(np.array_equal(self.log_table(a), other.log_table(a)) for a in range(self.n_factors))
        )

    __hash__ = None  # type: ignore[assignment]

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        degree = np.bincount(self.scope, minlength=len(self.variables))
        return {"factors": lambda i: str(degree[i])}

    def __repr__(self) -> str:
        return (
            f"FactorGraph({len(self.variables)} variables, {self.n_factors} factors, {len(self.scope)} edges)"
        )


class _FactorView(Sequence[TableFactor]):
    """The factors of a graph as objects, made on demand."""

    def __init__(self, graph: FactorGraph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return self._graph.n_factors

    def __getitem__(self, a: Any) -> Any:
        if isinstance(a, slice):
            return tuple(self[i] for i in range(len(self))[a])
        a = range(len(self))[a]
        scope = [self._graph.variables[int(i)] for i in self._graph.scope_of(a)]
        return TableFactor.from_log(scope, self._graph.log_table(a))


@dataclass(frozen=True)
class _Group:
    """Checked arrays of one bulk group."""

    scopes: np.ndarray
    tables: np.ndarray
    table_start: np.ndarray

    @classmethod
    def of(cls, variables: Variables, scopes: Any, tables: Any, *, log: bool) -> _Group:
        scopes = np.asarray(scopes, dtype=np.int64)
        if scopes.ndim != 2:
            raise ModelError(f"scopes: expected an array of shape (count, arity), got {scopes.shape}")
        count, arity = scopes.shape
        outside = scopes[(scopes < 0) | (scopes >= len(variables))]
        if len(outside):
            raise ModelError(f"scopes: expected positions in [0, {len(variables)}), got {outside[0]}")
        if log:
            tables = np.asarray(tables, dtype=np.float64)
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


def _is_array_like(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], (int, np.integer))
