"""Many problems of one structure: the contract between the public batch calls and the algorithms.

The problems share variables, scopes, temperatures, levels and the tables of some factors; those of the others
are given per instance. An algorithm with `run_tables` answers all of them in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from ...core.errors import UnsupportedError
from ...core.factor_graph import FactorGraph
from ...core.result import FactorMarginals, Result, Status
from ...core.wiring import starts_of
from .base import Budget, Problem

__all__ = ["Instances", "ManyTables", "TableBatch", "gather"]


@dataclass(frozen=True)
class Instances:
    """Problems that differ in the tables of some factors only."""

    problem: Problem  # with the tables that are shared
    factors: np.ndarray  # those that vary, by position
    log_tables: np.ndarray  # (instances, entries) theirs, one after another
    weights: np.ndarray  # (instances,) of the summed derivatives
    each: bool = True  # whether the derivatives of every instance are wanted
    summed: bool = True  # whether their weighted sum is

    def __len__(self) -> int:
        return len(self.log_tables)

    @property
    def starts(self) -> np.ndarray:
        """(factors + 1,) where the table of each factor that varies begins in a row."""
        return starts_of(self.problem.graph.table_size[self.factors])

    def graph_of(self, k: int) -> FactorGraph:
        """The graph of one instance; it shares the plans made for the structure."""
        graph = self.problem.graph
        tables = graph.log_tables.copy()
        for a, begin, size in zip(self.factors, self.starts, graph.table_size[self.factors], strict=False):
            at = graph.table_start[a]
            tables[at : at + size] = self.log_tables[k, begin : begin + size]
        return graph.with_states(graph.variables, tables, graph.table_start)


@dataclass(frozen=True, repr=False)
class TableBatch:
    """Answers to many problems of one structure."""

    graph: FactorGraph  # the structure, with the tables that are shared
    factors: np.ndarray  # those whose tables vary
    values: np.ndarray  # (instances,) log Z, or the value of the powered sum
    status: tuple[Status, ...]  # why each instance stopped
    factor_marginals: np.ndarray | None = None  # (instances, entries) derivatives by the tables that vary
    summed: FactorMarginals | None = None  # derivatives by all tables, summed over instances with weights
    states: np.ndarray | None = None  # (instances, n) of maximised variables, -1 for others

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        done = sum(status.is_success for status in self.status)
        return f"TableBatch({len(self)} instances, {len(self.graph.variables)} variables, {done} converged)"


def gather(instances: Instances, results: Sequence[Result]) -> TableBatch:
    """The answers of single runs, one per instance, put together."""
    graph, factors = instances.problem.graph, instances.factors
    values = np.array([np.nan if r.log_z is None else r.log_z.value for r in results])
    each = summed = None
    if instances.each or instances.summed:
        for r in results:
            if r.factor_marginals is None:
                raise UnsupportedError(f"{r.algorithm} computes no factor marginals; use junction-tree or bp")
        tables = np.array([r.factor_marginals.flat for r in results if r.factor_marginals is not None])
        tables = tables.reshape(len(results), int(graph.table_size.sum()))
        start = starts_of(graph.table_size)
        parts = [np.arange(start[a], start[a + 1]) for a in factors]
        if instances.each:
            each = tables[:, np.concatenate(parts)] if parts else tables[:, :0]
        if instances.summed:
            summed = FactorMarginals(graph, instances.weights @ tables)
    found = [r.assignment.indices for r in results if r.assignment is not None]
    states = np.array(found) if found and len(found) == len(results) else None
    return TableBatch(graph, factors, values, tuple(r.status for r in results), each, summed, states)


@runtime_checkable
class ManyTables(Protocol):
    """An algorithm that answers many problems of one structure in one go."""

    name: ClassVar[str]

    def takes_tables(self, instances: Instances) -> bool:
        """Whether it can, with the options it has, and it pays."""
        ...

    def run_tables(self, instances: Instances, budget: Budget) -> TableBatch:
        """The answers; `ContradictoryRowError` names an instance without a possible state."""
        ...
