"""Beliefs and the reweighted Bethe value of log messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.result import FactorMarginals, Marginals
from ...kernels import message_beliefs
from ..problem.base import Problem

__all__ = ["Readout", "read_logs", "uniform_logs"]


class Readout(NamedTuple):
    """What a state says."""

    marginals: Marginals
    factor_marginals: FactorMarginals
    log_z: float  # the reweighted Bethe value
    log_beliefs: np.ndarray  # per flat state, not normalised


def read_logs(problem: Problem, messages: np.ndarray, power: np.ndarray) -> Readout:
    """Beliefs and the reweighted Bethe value of log messages."""
    graph, wiring = problem.graph, problem.graph.wiring
    belief = np.zeros(wiring.state_start[-1])
    zeros = np.zeros(wiring.state_start[-1], dtype=np.int64)
    message_beliefs.log_beliefs(
        wiring.scope, wiring.edge_state_start, wiring.state_start, messages, belief, zeros
    )
    logs = np.where(zeros == 0, belief, -np.inf)
    marginals = _normalise(logs, wiring.state_start)
    tables = message_beliefs.log_factor_beliefs(
        power,
        wiring.scope_start,
        wiring.scope,
        wiring.sizes,
        wiring.state_start,
        wiring.edge_state_start,
        graph.log_tables,
        wiring.table_start,
        messages,
        belief,
        zeros,
    )
    if np.isnan(marginals).any() or np.isnan(tables).any():
        if problem.is_sum or problem.is_max:
            raise problem.contradiction()
        # Messages about the best states may exclude each other before they settle: that says nothing.
        sizes = wiring.sizes
        marginals = np.where(np.isnan(marginals), np.repeat(1 / sizes, sizes), marginals)
        tables = np.where(np.isnan(tables), np.repeat(1 / wiring.table_size, wiring.table_size), tables)
    value = message_beliefs.reweighted_log_z(
        1.0 / power,
        wiring.scope_start,
        wiring.scope,
        graph.log_tables,
        wiring.table_start,
        wiring.state_start,
        tables,
        marginals,
    )
    return Readout(Marginals(graph.variables, marginals), FactorMarginals(graph, tables), float(value), logs)


def _normalise(logs: np.ndarray, state_start: np.ndarray) -> np.ndarray:
    """Probabilities per variable from flat logs."""
    if len(state_start) == 1:
        return np.empty(0)
    sizes = np.diff(state_start)
    with np.errstate(invalid="ignore"):
        p = np.exp(logs - np.repeat(np.maximum.reduceat(logs, state_start[:-1]), sizes))
        return p / np.repeat(np.add.reduceat(p, state_start[:-1]), sizes)


def uniform_logs(graph: FactorGraph) -> np.ndarray:
    """Uniform log messages over edges and states."""
    sizes = graph.variables.sizes[graph.scope]
    return np.repeat(-np.log(sizes), sizes)
