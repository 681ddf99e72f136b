"""The search for states that no zero entry forbids, in portions that look at the clock."""

from __future__ import annotations

import numpy as np

from ...core.factor_graph import FactorGraph
from ...kernels.feasible import FOUND, GAVE_UP, IMPOSSIBLE, UNDECIDED, best_entries, box_start, box_steps
from ...optimise.run import is_ending

__all__ = ["FOUND", "GAVE_UP", "IMPOSSIBLE", "entry_scores", "feasible_box"]

_PORTION = 2_000_000  # table entries between two looks at the clock


def entry_scores(graph: FactorGraph) -> np.ndarray:
    """For every flat state, the sum of the largest entry that each factor has there."""
    return np.asarray(best_entries(*_arrays(graph)))


def feasible_box(
    graph: FactorGraph,
    order: np.ndarray,
    preference: np.ndarray,
    dead_ends: int,
    log_tables: np.ndarray | None = None,
) -> tuple[int, np.ndarray]:
    """A set of states per variable such that every combination of them has positive weight.

    Parameters
    ----------
    graph
        The tables.
    order
        Variables in the order in which they are decided.
    preference
        One number per flat state; states of large ones are tried first.
    dead_ends
        After so many the search gives up.
    log_tables
        In place of those of the graph.

    Returns
    -------
    code
        `FOUND`, `IMPOSSIBLE` (proved) or `GAVE_UP`, which it also does at the end of the time given.
    keep
        One flag per flat state.
    """
    arrays = _arrays(graph, log_tables)
    wish = (np.ascontiguousarray(order), preference, dead_ends)
    box = box_start(*arrays)
    code, entries = UNDECIDED, len(arrays[0])
    while code == UNDECIDED:
        most = box_steps.portion(1.0, _PORTION)
        code = box_steps.over(min(most, 4 * entries))(box, *arrays, *wish, most)
        if code == UNDECIDED and is_ending():
            code = GAVE_UP
    return int(code), box.keep


def _arrays(graph: FactorGraph, log_tables: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    w = graph.wiring
    tables = graph.log_tables if log_tables is None else log_tables
    return tables, w.table_start, w.scope_start, w.scope, w.edge_stride, w.state_start
