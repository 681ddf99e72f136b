"""Planning and running a binary join tree: the machinery the exact algorithms share.

plan      order -> binary join tree, filed in the graph's memo under its structure, so repeated
          questions about one structure plan once, whatever the evidence values
forecast  what the plan will store and multiply, checked against the limits before allocating
climb     the upward pass; scaled numbers first, logarithms if a range would underflow
beliefs   the downward pass: the derivative of the value by the log tables
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...core.errors import TooLargeError
from ...core.evidence import Restriction
from ...core.factor_graph import FactorGraph
from ...core.machine import machine_gigabytes
from ...core.registry import or_else
from ...kernels import join_beliefs as down
from ...kernels import join_tree as kernel
from ...kernels.support import supported_states
from ...optimise.run import check, recall
from ...structures.elimination import EliminationOrder, elimination_order, is_narrow
from ...structures.join_tree import JoinTree, join_tree
from .base import Problem
from .contents import TASKS

__all__ = [
    "Forecast",
    "Limits",
    "Prepared",
    "UpwardPass",
    "affordable",
    "beliefs",
    "best_states",
    "climb",
    "forecast",
    "may_fit",
    "plan",
    "prepare",
    "prune",
    "trace_back",
]

_PRUNE_FROM = 2.0**20  # operations from which looking for impossible states pays
_ZEROS = 15.0  # log2 of what dropping impossible states may gain
_CHOICE = 30.0  # steps of choosing the states of one clique, about
_OPERATIONS = 27.5  # log2 of the operations exact inference does in a second
_LEAST = 1e-3  # seconds: planning alone takes as long
_HOPELESS = 45.0  # log2 of a table no machine holds; the tree is not even laid out


@dataclass(frozen=True)
class Forecast:
    """What an exact computation needs, known before anything is allocated."""

    width: int  # members of the largest clique, less one
    log2_largest: float  # of the largest clique table
    log2_entries: float  # of all numbers that have to be stored
    log2_operations: float  # of the multiplications of one upward pass

    @property
    def gigabytes(self) -> float:
        """Memory for the stored numbers."""
        return float(2.0 ** (self.log2_entries + 3 - 30))

    def __str__(self) -> str:
        return (
            f"width {self.width}, {_memory(self.log2_entries + 3)}, 2^{self.log2_operations:.1f} operations"
        )


def _memory(log2_bytes: float) -> str:
    """A size for people: 3.2 MB, 40 GB, 2^53 GB."""
    if log2_bytes > 60:
        return f"2^{log2_bytes - 30:.0f} GB"
    unit = max(0, min(3, int(log2_bytes // 10)))
    return f"{2.0 ** (log2_bytes - 10 * unit):.3g} {('bytes', 'kB', 'MB', 'GB')[unit]}"


def affordable(seconds: float) -> float:
    """Log2 of the operations that exact inference does in some seconds."""
    return _OPERATIONS + float(np.log2(max(seconds, _LEAST)))


@dataclass(frozen=True)
class Limits:
    """When an exact computation is refused."""

    memory_gb: float | None  # None: half of the machine's memory
    log2_operations: float  # most operations, as a power of two

    def excess(self, forecast: Forecast) -> str:
        """The limit that a forecast exceeds, in words; empty if it stays within all of them."""
        allowed = machine_gigabytes() / 2 if self.memory_gb is None else self.memory_gb
        if forecast.log2_entries > 62 or forecast.gigabytes > allowed:
            return f"the limit of {allowed:.3g} GB (option memory_gb)"
        if forecast.log2_operations > self.log2_operations:
            return f"the limit of 2^{self.log2_operations:g} operations (option max_log2_operations)"
        return ""

    def refuse(self, forecast: Forecast, problem: Problem) -> None:
        """Raise `TooLargeError` if the forecast exceeds a limit, with what answers the question instead."""
        limit = self.excess(forecast)
        if limit:
            raise TooLargeError(f"exact inference needs {forecast}: more than {limit}; {_way_out(problem)}")


def _way_out(problem: Problem) -> str:
    """The best known method of each family that answers this question without being exact."""
    from .alternatives import alternatives

    found = alternatives(problem, lambda known: "exact" not in known.promises and not known.compiles)
    if found:
        return f"use an approximate method such as {or_else(found)}, or add evidence"
    return f"no approximate method answers this ({TASKS[problem.task]}): raise the limit, or add evidence"


def plan(problem: Problem, keep: tuple[int, ...], effort: float) -> tuple[Forecast, JoinTree | None]:
    """The forecast, and the join tree unless it is hopeless; recalled if planned before."""
    graph = problem.graph
    levels = problem.commuting_levels
    if keep:
        levels = levels.copy()
        levels[list(keep)] = levels.max(initial=0) + 1
    key = ("join tree", graph.structure_key, levels.tobytes(), keep, effort)
    return recall(graph.memo, key, lambda: _plan(graph, levels, keep, effort))  # type: ignore[no-any-return]


def _plan(
    graph: FactorGraph, levels: np.ndarray, keep: tuple[int, ...], effort: float
) -> tuple[Forecast, JoinTree | None]:
    order = elimination_order(graph, levels=levels, effort=effort)
    if order.log2_largest > _HOPELESS:
        return _rough(order), None
    tree = join_tree(graph, order, levels, keep)
    made = Forecast(
        order.width,
        order.log2_largest,
        float(np.log2(tree.peak_entries)),
        float(np.log2(max(tree.operations, 1.0))),
    )
    return made, tree


def _rough(order: EliminationOrder) -> Forecast:
    """A forecast from the cliques alone, where the tree is too large to be laid out."""
    return Forecast(order.width, order.log2_largest, order.log2_largest, order.log2_total)


def forecast(model: object, *, levels: np.ndarray | None = None) -> Forecast:
    """What exact inference on this model would need.

    Examples
    --------
    >>> import credo
    >>> from credo.inference.exact.junction_tree import forecast
    >>> forecast(credo.datasets.asia()).width
    2
    """
    graph: FactorGraph = model.to_factor_graph()  # type: ignore[attr-defined]
    n = len(graph.variables)
    flat = np.zeros(n, dtype=np.int64) if levels is None else levels
    # Temperatures that differ where levels do, since levels of one temperature commute.
    return plan(Problem(graph, 1.0 + flat, flat), (), 1.0)[0]


def may_fit(problem: Problem, log2_operations: float) -> bool:
    """Whether planning is worth its time; that of wide models takes long."""
    graph, levels = problem.graph, problem.commuting_levels
    key = ("may fit", graph.structure_key, levels.tobytes(), log2_operations)
    found: bool = recall(graph.memo, key, lambda: is_narrow(graph, log2_operations + _ZEROS, levels=levels))
    return found


@dataclass(frozen=True)
class Prepared:
    """A problem after dropping impossible states where that pays, with its plan."""

    problem: Problem  # on the smaller graph
    restriction: Restriction | None  # the way back, None if nothing was dropped
    forecast: Forecast  # of the smaller problem
    tree: JoinTree | None  # None if hopeless


def prepare(problem: Problem, effort: float) -> Prepared:
    """Plan the problem; if it is large and has zeros, drop impossible states and plan again."""
    predicted, tree = plan(problem, problem.query, effort)
    restriction = prune(problem, predicted)
    if restriction is None:
        return Prepared(problem, None, predicted, tree)
    small = replace(problem, graph=restriction.apply(problem.graph))
    return Prepared(small, restriction, *plan(small, problem.query, effort))


def prune(problem: Problem, forecast: Forecast) -> Restriction | None:
    """The states that zeros leave possible, if looking for them pays; None if all are."""
    graph = problem.graph
    if forecast.log2_operations < np.log2(_PRUNE_FROM) or not np.isneginf(graph.log_tables).any():
        return None
    keep = supported_states(
        graph.log_tables, graph.table_start, graph.scope_start, graph.scope, graph.variables.state_start
    )
    if not np.logical_or.reduceat(keep, graph.variables.state_start[:-1]).all():
        raise problem.contradiction()
    restriction = Restriction(graph.variables, keep)
    return None if restriction.is_trivial else restriction


@dataclass
class UpwardPass:
    """A finished upward pass."""

    tree: JoinTree  # the tree that was climbed
    arena: np.ndarray  # all tensors
    logs: bool  # whether they hold logarithms
    log_z: float  # value of the powered sum (of the table over the kept variables: its log maximum)


def climb(
    problem: Problem, tree: JoinTree, *, logs: bool = False, arena: np.ndarray | None = None
) -> UpwardPass:
    """Run the upward pass on the problem's tables, in a given arena if there is one to reuse."""
    check()
    graph, heat = problem.graph, problem.temperatures
    logs = logs or bool(((heat != 0) & (heat != 1)).any())
    arena = np.empty(tree.entries) if arena is None else arena
    code, scale = kernel.upward.over(tree.operations)(
        graph.log_tables,
        graph.table_start,
        tree.scope_start,
        tree.scope,
        tree.left,
        tree.right,
        tree.drop_start,
        tree.drop,
        tree.start,
        tree.axes,
        tree.offset,
        tree.sizes,
        heat,
        logs,
        arena,
    )
    if code == kernel.UNDERFLOW:
        return climb(problem, tree, logs=True, arena=arena)
    if code == kernel.IMPOSSIBLE:
        raise problem.contradiction()
    free = (heat[tree.lonely] * np.log(tree.sizes[tree.lonely])).sum()
    return UpwardPass(tree, arena, logs, float(scale[tree.roots].sum() + free))


def best_states(problem: Problem, up: UpwardPass) -> np.ndarray | None:
    """The decoded states of the maximised variables, -1 for others; None where they depend on later sums."""
    if not len(problem.maximised) or not problem.maximises_last:
        return None
    states = np.where(problem.temperatures == 0, 0, -1).astype(np.int64)[None, :]
    trace_back(up, problem.temperatures, np.empty((1, 0)), states)
    return np.asarray(states[0])


def beliefs(problem: Problem, up: UpwardPass) -> tuple[np.ndarray, np.ndarray]:
    """Derivative of the value by all log tables, flat, and the variables' marginals; uses up the climb."""
    tree, heat = up.tree, problem.temperatures
    code = down.downward.over(2 * tree.operations)(
        tree.left,
        tree.right,
        tree.drop_start,
        tree.drop,
        tree.start,
        tree.axes,
        tree.offset,
        tree.n_leaves,
        tree.sizes,
        heat,
        up.logs,
        up.arena,
    )
    if code == kernel.UNDERFLOW:
        # The upward values are partly overwritten: start again with logarithms.
        return beliefs(problem, climb(problem, tree, logs=True, arena=up.arena))
    return down.read_marginals(  # type: ignore[no-any-return]
        tree.scope_start,
        tree.scope,
        tree.start,
        tree.axes,
        tree.offset,
        tree.sizes,
        tree.state_start,
        tree.home,
        up.logs,
        up.arena,
    )


def trace_back(up: UpwardPass, heat: np.ndarray, uniform: np.ndarray, states: np.ndarray) -> None:
    """Write the best states, or samples where the heat is positive; a row of `uniform` and `states` each."""
    tree = up.tree
    work = _CHOICE * (1 + len(tree.left))  # for a row
    done = 0
    while done < len(states):
        rows = slice(done, done + kernel.trace_states.portion(work, len(states)))
        kernel.trace_states.over(work * len(states[rows]))(
            tree.left,
            tree.right,
            tree.drop_start,
            tree.drop,
            tree.start,
            tree.axes,
            tree.offset,
            tree.sizes,
            heat,
            up.logs,
            up.arena,
            uniform[rows],
            states[rows],
        )
        done = rows.stop
