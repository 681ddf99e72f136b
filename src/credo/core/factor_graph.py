"""The factor graph: the one form every algorithm reads.

    p(x) = (1/Z) prod_a exp( theta_a(x_a) ),    Z = the sum over states and the integral over other values

All tables live in four flat arrays from birth:

    scope_start[a] : scope_start[a+1]   the slice of `scope` with factor a's variable positions
    table_start[a]                      where factor a's log table begins in `log_tables` (C order)

These, and what follows from them alone, are the base class (`flat_tables.py`); `graph.wiring` is the
index arrays that message-passing kernels need.

Factors that are no tables lie in groups of one kind (`others`, see `groups.py`), over any domains.
Every factor has a number, its place among all of them; `graph.factors[a]` makes a view of one when
somebody wants to look at it. `graph.batches` gives all factors, tables too, as few calls of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from .bulk import check_scopes, flat_arrays, is_array_like, merge_blocks, refuse_without_states, table_over
from .errors import ModelError, QueryError
from .factor import TableFactor
from .factor_list import FactorList, probe
from .flat_tables import FlatTables
from .groups import FactorBatch, Group, TableBlock, groups_of
from .records import register
from .variable import Variables
from .wiring import Memo, is_forest_of, starts_of

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
class FactorGraph(FlatTables):
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

    others: tuple[Group, ...] = ()  # factors that are no tables
    numbers: np.ndarray | None = None  # of the tables among all factors; None: 0, 1, ...

    def __init__(self, variables: Any, factors: Any = ()) -> None:
        self.variables = Variables.of(variables)
        if isinstance(factors, Mapping):
            factors = [table_over(self.variables, scope, table) for scope, table in factors.items()]
        if not isinstance(factors, Iterable):
            raise ModelError(f"factors: expected a mapping scope -> table or a list, got {factors!r:.80}")
        factors = list(factors)
        check_scopes(self.variables, factors)
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
        variables = Variables.of(np.asarray(variables) if is_array_like(variables) else variables)
        return cls.from_flat(variables, **flat_arrays(variables, groups, log=log))

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
        factor, variable = self.edges
        chosen = np.isin(factor, factors)
        return is_forest_of(self.n_factors, len(self.variables), factor[chosen], variable[chosen])

    @cached_property
    def batches(self) -> tuple[FactorBatch, ...]:
        """All factors as calls of functions: by function, domains and shapes of the parameters."""
        places = self.factors.places
        found = [self.batch_of(group, places[0]) for group in self.shape_groups]
        for group, own in zip(self.others, places[1:], strict=True):
            found.extend(replace(group, numbers=own).batches(self.variables))
        return tuple(sorted(found, key=lambda batch: int(batch.factors[0])))

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

    def log_score(self, assignment: Mapping[str, Any]) -> float:
        """Sum of all log-potentials at one joint state, given as name -> state or value."""
        if missing := [n for n in self.variables.names if n not in assignment]:
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
        if not self.is_tables:
            raise QueryError("log_scores: expected columns by name, because some variables have no states")
        return self.table_scores(np.asarray(states))

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
            numbers = merge_blocks(made, numbers, blocks)
        is_whole = not others and (numbers is None or np.array_equal(numbers, np.arange(len(numbers))))
        made.others, made.numbers = tuple(others), None if is_whole else numbers
        made.memo = self.memo
        made._freeze()
        return made

    def as_tables(self) -> FactorGraph | None:
        """Tables in place of every group, if all can be tables; None otherwise."""
        if not self.variables.is_discrete:
            return None
        if not self.others:
            return self
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
            and self.has_equal_tables(other)
            and ((not self.others and not other.others) or self.factors.has_equal_groups(other.factors))
        )

    __hash__ = None  # type: ignore[assignment]

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        degree = np.bincount(self.edges[1], minlength=len(self.variables))
        return {"factors": lambda i: str(degree[i])}

    def __repr__(self) -> str:
        edges = len(self.scope) + sum(group.scopes.size for group in self.others)
        return f"FactorGraph({len(self.variables)} variables, {self.n_factors} factors, {edges} edges)"
