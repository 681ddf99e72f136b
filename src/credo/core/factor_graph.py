"""The factor graph: the one form every algorithm reads.

    p(x) = (1/Z) prod_a exp( theta_a(x_a) ),    Z = the sum over states and the integral over other values

All tables live in four flat arrays from birth:

    scope_start[a] : scope_start[a+1]   the slice of `scope` with factor a's variable positions
    table_start[a]                      where factor a's log table begins in `log_tables` (C order)

so a million tables are one array, readers and bulk constructors fill it without a Python
object per factor, and many factors may share one table (equal `table_start`).
`graph.wiring` adds the derived index arrays message-passing kernels need.

Factors that are no tables lie in groups of one kind (`others`, see `groups.py`), over any domains.
Every factor has a number, its place among all of them; `graph.factors[a]` makes a view of one when
somebody wants to look at it. `graph.batches` gives all factors, tables too, as few calls of functions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from .bulk import TableArrays, refuse_without_states
from .errors import ModelError, QueryError
from .factor import Factor, TableFactor, look_up
from .factor_list import FactorList, probe
from .groups import FactorBatch, Group, TableBlock, domains_of, groups_of
from .naming import NamedModel
from .records import register
from .variable import Variables
from .wiring import Memo, ShapeGroup, Wiring, products_of, starts_of

if TYPE_CHECKING:
    from .log_density import LogDensity

__all__ = ["FactorGraph", "Model"]


_NONE = np.empty(0, dtype=np.int64)


@runtime_checkable
class Model(Protocol):
    """Anything that can be read as a factor graph."""

    def to_factor_graph(self) -> FactorGraph:
        """The factor graph of this model; the same object at every call."""
        ...


@register("FactorGraph")
class FactorGraph(NamedModel):
    """Variables of any domain, and factors; immutable.

    Parameters
    ----------
    variables
        Variables, a mapping name -> states or domain, or an array of state counts.
    factors
        Factors of any kind, or a mapping scope -> table of weights.

    Examples
    --------
    >>> import credo
    >>> from credo import FactorGraph
    >>> graph = FactorGraph({"a": 2, "b": ["lo", "hi"]}, {("a", "b"): [[1, 2], [3, 4]], ("a",): [1, 1]})
    >>> graph.log_score({"a": 1, "b": "hi"})
    1.3862943611198906
    >>> x, s = credo.Variable("x", credo.Real()), credo.Variable("s", ["cold", "hot"])
    >>> def reading(x, s):
    ...     return -0.5 * (x - 20 * s) ** 2
    >>> factors = [credo.DensityFactor([x, s], reading), credo.TableFactor([s], [0.9, 0.1])]
    >>> FactorGraph([x, s], factors).log_score({"x": 19.0, "s": "hot"}).__round__(4)
    -2.8026
    """

    variables: Variables
    scope_start: np.ndarray
    scope: np.ndarray
    table_start: np.ndarray
    log_tables: np.ndarray
    others: tuple[Group, ...] = ()  # factors that are no tables
    numbers: np.ndarray | None = None  # of the tables among all factors; None: 0, 1, ...
    memo: Memo  # what algorithms compiled for this structure

    def __init__(self, variables: Any, factors: Any = ()) -> None:
        self.variables = Variables.of(variables)
        if isinstance(factors, Mapping):
            factors = [self._factor(scope, table) for scope, table in factors.items()]
        if not isinstance(factors, Iterable):
            raise ModelError(f"factors: expected a mapping scope -> table or a list, got {factors!r:.80}")
        factors = list(factors)
        self._check_scopes(factors)
        tables = [f for f in factors if isinstance(f, TableFactor)]
        position = self.variables.position
        self.scope_start = starts_of([len(f.scope) for f in tables])
        self.scope = np.array([position(v) for f in tables for v in f.scope], dtype=np.int64)
        self.table_start = starts_of([f.log_table.size for f in tables])[:-1]
        self.log_tables = np.concatenate([f.log_table.ravel() for f in tables]) if tables else np.empty(0)
        self.memo = Memo()
        if len(tables) < len(factors):
            numbered = list(enumerate(factors))
            self.numbers = np.array([a for a, f in numbered if isinstance(f, TableFactor)], dtype=np.int64)
            self.others = groups_of(
                [(a, f) for a, f in numbered if not isinstance(f, TableFactor)], self.variables
            )
            probe(self)
        self._freeze()

    @classmethod
    def of_groups(cls, variables: Variables, *groups: Group) -> FactorGraph:
        """The graph of groups made in bulk, which number their factors 0, 1, ... together."""
        made = cls._unchecked(variables, starts_of([]), _NONE, np.empty(0))
        made.table_start = _NONE
        made.others, made.numbers = tuple(g for g in groups if len(g)), _NONE
        made._freeze()
        return made

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
        if len(graph.scope) and not (0 <= graph.scope.min() and graph.scope.max() < len(variables)):
            raise ModelError(f"factor scopes: expected positions in [0, {len(variables)})")
        refuse_without_states(variables, graph.scope)
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
        """The tables alone over other state counts; plans are filed by state counts, so they are shared."""
        made = FactorGraph._unchecked(variables, self.scope_start, self.scope, log_tables)
        made.table_start, made.numbers = table_start, self.numbers
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
        parts = [TableArrays.of(variables, scopes, tables, log=log) for scopes, tables in groups]
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

    def to_parts(self) -> dict[str, Any]:
        """What files keep: the flat arrays, and the groups."""
        from .graph_parts import graph_parts

        return graph_parts(self)

    @classmethod
    def from_parts(cls, variables: Any, others: Any, numbers: Any, **arrays: Any) -> FactorGraph:
        """The graph of what a file kept, all of it checked."""
        from .graph_parts import check_arrays, check_groups

        check_arrays(variables, **arrays)
        logs = arrays.pop("log_tables")
        made = cls.from_flat(variables, arrays["scope_start"], arrays["scope"], logs,
                             table_start=arrays["table_start"])  # fmt: skip
        check_groups(variables, others, numbers, made.n_tables)
        made.others, made.numbers = others, numbers
        probe(made)
        return made

    def _factor(self, scope: Any, table: Any) -> TableFactor:
        if not isinstance(scope, (str, Iterable)):
            raise ModelError(f"factors: expected a name or names of variables as a scope, got {scope!r:.80}")
        names = (scope,) if isinstance(scope, str) else tuple(scope)
        return TableFactor([self.variables[self.variables.position(n)] for n in names], table)

    def _check_scopes(self, factors: list[Any]) -> None:
        for f in factors:
            if not isinstance(f, Factor):
                raise ModelError(
                    f"expected a factor (TableFactor, GaussianFactor, DensityFactor ...), got {f!r:.80}"
                )
            for v in f.scope:
                if v not in self.variables:
                    raise ModelError(
                        f"factor over {list(f.names)}: variable '{v.name}' is not in the graph with "
                        f"{'these states' if v.is_discrete else f'the domain {v.domain!r}'}; declare it in "
                        "`variables`"
                    )

    def _check_repeats(self) -> None:
        factor = np.repeat(np.arange(self.n_tables), np.diff(self.scope_start))
        pair = np.sort(factor * max(len(self.variables), 1) + self.scope)
        twice = np.flatnonzero(pair[1:] == pair[:-1])
        if len(twice):
            a, i = divmod(int(pair[twice[0]]), len(self.variables))
            raise ModelError(f"factor {a}: variable '{self.variables.names[i]}' appears twice in the scope")

    def _freeze(self) -> None:
        for array in (self.scope_start, self.scope, self.table_start, self.log_tables):
            array.flags.writeable = False

    @property
    def n_tables(self) -> int:
        """Number of factors that are tables."""
        return len(self.scope_start) - 1

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return len(self.scope_start) - 1 + (sum(map(len, self.others)) if self.others else 0)

    @property
    def all_numbers(self) -> list[np.ndarray]:
        """Numbers of the tables, then of the factors of each group."""
        tables = np.arange(self.n_tables) if self.numbers is None else self.numbers
        return [tables, *(group.numbers for group in self.others)]

    @property
    def is_tables(self) -> bool:
        """Whether all factors are tables and all variables have states: what discrete methods read."""
        return not self.others and self.variables.is_discrete

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

    @cached_property
    def factors(self) -> FactorList:
        """The factors by number, made one by one when looked at."""
        return FactorList(self)

    @cached_property
    def scopes(self) -> tuple[np.ndarray, ...]:
        """Variable positions of every factor."""
        factor, variable = self.edges
        order = np.argsort(factor, kind="stable")
        counts = np.bincount(factor, minlength=self.n_factors)
        return tuple(np.split(variable[order], np.cumsum(counts)[:-1])) if self.n_factors else ()

    @cached_property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Factor position and variable position of every edge, in axis order within a factor."""
        places = self.factors.places
        factor = [np.repeat(places[0], np.diff(self.scope_start))]
        variable = [self.scope]
        for group, own in zip(self.others, places[1:], strict=True):
            factor.append(np.repeat(own, group.scopes.shape[1]))
            variable.append(group.scopes.ravel())
        return np.concatenate(factor), np.concatenate(variable)

    @cached_property
    def is_forest(self) -> bool:
        """Whether factors and variables, joined by the edges, form no cycle."""
        return self.is_forest_of(np.arange(self.n_factors))

    def is_forest_of(self, factors: np.ndarray) -> bool:
        """The same for some of the factors."""
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        factor, variable = self.edges
        chosen = np.isin(factor, factors)
        factor, variable = factor[chosen], variable[chosen]
        n = len(self.variables) + self.n_factors
        ends = (np.ones(len(factor)), (len(self.variables) + factor, variable))
        parts, _ = connected_components(coo_matrix(ends, shape=(n, n)), directed=False)
        return bool(len(factor) == n - parts)

    @cached_property
    def batches(self) -> tuple[FactorBatch, ...]:
        """All factors as calls of functions: by function, domains and shapes of the parameters."""
        places = self.factors.places
        found = [self._batch_of(group, places[0]) for group in self.shape_groups]
        for group, own in zip(self.others, places[1:], strict=True):
            found.extend(replace(group, numbers=own).batches(self.variables))
        return tuple(sorted(found, key=lambda batch: int(batch.factors[0])))

    def _batch_of(self, group: ShapeGroup, places: np.ndarray) -> FactorBatch:
        size = int(np.prod(group.shape, dtype=np.int64))
        logs = self.log_tables[group.table_start[:, None] + np.arange(size)].reshape(-1, *group.shape)
        domains = domains_of(self.variables, group.scopes[0])
        return FactorBatch(look_up, domains, places[group.factors], group.scopes, (logs,))

    @cached_property
    def log_density(self) -> LogDensity:
        """The sum of all log-potentials as a function of free coordinates: for samplers and optimisers.

        Examples
        --------
        >>> import credo
        >>> rate = credo.Variable("rate", credo.Positive())
        >>> graph = credo.FactorGraph([rate], [credo.DensityFactor([rate], lambda x: -x)])
        >>> theta = graph.log_density.flatten({"rate": 2.0})
        >>> float(graph.log_density(theta)).__round__(4), float(graph.log_density.values(theta)["rate"])
        (-1.3069, 2.0)
        """
        from .log_density import LogDensity

        return LogDensity.of(self)

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
        """Variable positions of table `a`, in axis order."""
        return self.scope[self.scope_start[a] : self.scope_start[a + 1]]

    def log_table(self, a: int) -> np.ndarray:
        """Log table `a`, a read-only view."""
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
        """Sum of all log-potentials at one joint state, given as name -> state or value."""
        missing = [n for n in self.variables.names if n not in assignment]
        if missing:
            what = "state" if self.is_tables else "value"
            raise ModelError(f"log_score: the assignment lacks {missing[:5]}; every variable needs a {what}")
        if not self.is_tables:
            return float(sum(f.log_value(assignment) for f in self.factors))
        states = np.array([v.index(assignment[v.name]) for v in self.variables], dtype=np.int64)
        return float(self.log_scores(states[None, :])[0])

    def log_scores(self, states: np.ndarray | Mapping[str, Any]) -> np.ndarray:
        """Sum of all log-potentials for each row of state indices (rows, n), or of columns by name."""
        if isinstance(states, Mapping):
            total: Any = 0.0
            for factor in self.factors:
                total = total + factor.log_values(*(states[name] for name in factor.names))
            return np.asarray(total)
        return self._log_scores(np.asarray(states))

    def _log_scores(self, states: np.ndarray) -> np.ndarray:
        n = len(self.variables)
        if not self.is_tables:
            raise QueryError("log_scores: expected columns by name, because some variables have no states")
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

    def moved(self, variables: Variables, position: np.ndarray, others: Iterable[Group]) -> FactorGraph:
        """The same tables over other variables, variable i at `position[i]`, and other groups."""
        made = FactorGraph._unchecked(variables, self.scope_start, position[self.scope], self.log_tables)
        made.table_start, made.others = self.table_start, tuple(others)
        made.numbers = np.arange(self.n_tables) if self.numbers is None else self.numbers
        made._freeze()
        return made

    def with_parts(self, variables: Variables, parts: Iterable[Group | TableBlock]) -> FactorGraph:
        """The tables of this graph, over variables of these domains, together with other parts.

        Tables are put in the order of their numbers; where nothing else is left, places are numbers again.
        """
        blocks: list[TableBlock] = []
        others: list[Group] = []
        for part in parts:
            if isinstance(part, TableBlock):
                blocks.append(part)
            else:
                others.append(part)
        made = FactorGraph._unchecked(variables, self.scope_start, self.scope, self.log_tables)
        made.table_start, numbers = self.table_start, self.numbers
        if blocks:
            numbers = np.arange(self.n_tables) if numbers is None else numbers
            numbers = _merge(made, numbers, blocks)
        is_whole = not others and (numbers is None or np.array_equal(numbers, np.arange(len(numbers))))
        made.others, made.numbers = tuple(others), None if is_whole else numbers
        made.memo = self.memo
        made._freeze()
        return made

    def as_tables(self) -> FactorGraph | None:
        """Tables in place of every group, if all can be tables; None otherwise."""
        if not self.others or not self.variables.is_discrete:
            return None if self.others or not self.variables.is_discrete else self
        parts = [group.to_tables(self.variables) for group in self.others]
        if any(part is None for part in parts):
            return None
        return self.with_parts(self.variables, (block for part in parts for block in part or ()))

    def discrete_part(self) -> FactorGraph:
        """The variables that have states, and the tables over them."""
        if self.is_tables:
            return self
        alone = self.with_parts(self.variables, ())
        return alone.compact(np.flatnonzero(self.variables.sizes))

    def compact(self, keep: np.ndarray) -> FactorGraph:
        """The graph of the variables at `keep`; the others have one state, and only tables know of them."""
        position = np.full(len(self.variables), -1, dtype=np.int64)
        position[keep] = np.arange(len(keep))
        edge = position[self.scope] >= 0
        arity = np.add.reduceat(np.append(edge, False), self.scope_start[:-1]) if self.n_tables else _NONE
        arity = np.where(np.diff(self.scope_start) > 0, arity, 0)
        made = FactorGraph._unchecked(
            self.variables.select(keep), starts_of(arity), position[self.scope[edge]], self.log_tables
        )
        made.table_start, made.numbers = self.table_start, self.numbers
        made.others = tuple(group.moved(position) for group in self.others)
        made.memo = self.memo
        made._freeze()
        return made

    def condition(self, evidence: Mapping[str, Any]) -> FactorGraph:
        """The graph given evidence: observed variables of any domain keep one state, factors their numbers.

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
            and all(np.array_equal(self.log_table(a), other.log_table(a)) for a in range(self.n_tables))
            and ((not self.others and not other.others) or self.factors.has_equal_groups(other.factors))
        )

    __hash__ = None  # type: ignore[assignment]

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        degree = np.bincount(self.edges[1], minlength=len(self.variables))
        return {"factors": lambda i: str(degree[i])}

    def __repr__(self) -> str:
        edges = len(self.scope) + sum(group.scopes.size for group in self.others)
        return f"FactorGraph({len(self.variables)} variables, {self.n_factors} factors, {edges} edges)"


def _merge(graph: FactorGraph, numbers: np.ndarray, blocks: Sequence[TableBlock]) -> np.ndarray:
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


def _is_array_like(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], (int, np.integer))
