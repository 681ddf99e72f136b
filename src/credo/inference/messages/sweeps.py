"""What one call of the message engine is to do: weights, schedules and the orders they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.factor_graph import FactorGraph
from ...kernels import message_beliefs
from ...kernels.jit import Kernel
from ...structures import recognise

__all__ = ["SCHEDULES", "Schedule", "Sweep", "Weighted", "is_forest", "orders", "pace_sweeps"]

Schedule = Literal["auto", "flooding", "sequential", "random", "residual", "tree"]
SCHEDULES = ("auto", "flooding", "sequential", "random", "residual", "tree")


class Weighted(NamedTuple):
    """The weights of one iteration scheme, per factor."""

    power: np.ndarray  # alpha: tables and own messages are raised to it; 1 for BP, 1/rho for TRW
    step: np.ndarray  # eta: weight of the new message; 1 for no damping
    linear: bool = False  # whether damping mixes probabilities instead of logarithms

    @classmethod
    def plain(cls, graph: FactorGraph, step: float = 1.0, *, linear: bool = False) -> Weighted:
        """The weights of BP, with the weight of the new message."""
        ones = np.ones(graph.n_factors)
        return cls(ones, step * ones, linear)

    @property
    def is_plain(self) -> bool:
        """Whether this is undamped BP."""
        return bool((self.power == 1).all() and (self.step == 1).all())


class Sweep(NamedTuple):
    """What one call of a form's `sweeps` is to do."""

    schedule: Schedule
    turn: int  # sweeps done before, for schedules with several orders
    most: int  # sweeps to do
    tol: float  # stop below this change
    rng: np.random.Generator  # for random orders
    due: np.ndarray | None = None  # what the residual schedule has pending; it changes in place


_PER_ENTRY = 10  # units of work of a sweep, per entry of a table


def pace_sweeps(kernel: Kernel, graph: FactorGraph, sweep: Sweep) -> tuple[Callable[..., Any], Sweep]:
    """The kernel for as many of the sweeps as it should do at once, and those sweeps."""
    work = _PER_ENTRY * (len(graph.log_tables) + 1)
    most = kernel.portion(work, sweep.most)
    return kernel.over(most * work), sweep._replace(most=most)


def orders(graph: FactorGraph, active: np.ndarray, sweep: Sweep) -> tuple[np.ndarray, bool]:
    """Rows of factor positions to sweep over in turn, and whether new messages are used at once."""
    if sweep.schedule == "flooding":
        return active[None, :], False
    if sweep.schedule == "random":
        return np.stack([sweep.rng.permutation(active) for _ in range(sweep.most)]), True
    if sweep.schedule == "tree" or (sweep.schedule == "auto" and is_forest(graph)):
        # One form moves all factors, the others those of several free variables: the count tells which.
        key = ("tree rows", graph.structure_key, len(active))
        rows = graph.memo.recall(key, lambda: _tree_rows(graph, active))
    else:
        rows = np.stack([active, active[::-1]])
    return np.roll(rows, -(sweep.turn % len(rows)), axis=0), True


def _tree_rows(graph: FactorGraph, active: np.ndarray) -> np.ndarray:
    """Factors from the leaves of a spanning forest to its roots, and back."""
    w = graph.wiring
    depth = message_beliefs.factor_depths(
        w.scope_start, w.scope, w.neighbour_start, w.neighbour_edge, w.edge_factor
    )
    down = active[np.argsort(depth[active], kind="stable")]
    return np.stack([down[::-1], down])


def is_forest(graph: FactorGraph) -> bool:
    """Whether messages flow on a forest, so that two passes are exact."""
    key = ("is forest", graph.structure_key)
    return bool(graph.memo.recall(key, lambda: recognise.is_forest(graph)))
