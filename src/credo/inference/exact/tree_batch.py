"""Many problems of one structure on one join tree, spread over threads.

The tree is planned once, with and without absorbing factors into larger ones, whichever multiplies less: for
chains a message meets the unary table before the pair's. Instances are cut into pieces whose bounds do not
depend on how many threads there are, so the same data give the same sums.

Equal temperatures t other than 0 and 1 are sums of tables divided by t,

    Phi_t(theta) = t Phi_1(theta / t),    with the same derivatives,

and run on plain numbers; instances whose numbers leave the safe range are done again with logarithms.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ...core.progress import Progress
from ...core.result import FactorMarginals, Status
from ...kernels.jit import current_tier
from ...kernels.join_batch import BatchTree, solve_batch, unfold
from ...kernels.join_tree import FINE, UNDERFLOW
from ...optimise.run import check
from ...structures.elimination import elimination_order
from ...structures.join_tree import JoinTree, join_tree
from ..problem.base import ContradictoryRowError, Problem
from ..problem.instances import Instances, TableBatch
from ..problem.tree import may_fit, plan

__all__ = ["solve_tables", "suits_batch"]

_SMALL = 24.0  # log2 of the multiplications of one instance beyond which its own zeros matter more
_PIECES = 16  # of the instances, for threads
_WORTH = 1 << 18  # multiplications of all instances together from which threads pay
_STEP_COST = 100.0  # of a step besides its multiplications
_PASSES = 4.0  # work of the ways up and down, as a multiple of the way up


def suits_batch(problem: Problem, effort: float) -> bool:
    """Whether an instance is small enough to be solved without looking at its tables first."""
    if not may_fit(problem, _SMALL):
        return False
    forecast, tree = plan(problem, (), effort)
    return tree is not None and forecast.log2_operations <= _SMALL


def solve_tables(instances: Instances, effort: float) -> TableBatch:
    """Values, derivatives and best states of all instances."""
    check()
    problem, scale = instances.problem, _common_temperature(instances.problem)
    if scale != 1.0:
        instances = _divide(instances, scale)
    heat = instances.problem.temperatures
    work = _BatchRun.of(instances, effort)
    rows = np.arange(len(instances))
    codes = work.solve(rows, logs=bool(((heat != 0) & (heat != 1)).any()))
    again = rows[codes == UNDERFLOW]
    if len(again):
        codes[again] = work.solve(again, logs=True)
    if (codes != FINE).any():
        raise ContradictoryRowError(np.flatnonzero(codes != FINE))
    return TableBatch(
        problem.graph,
        instances.factors,
        scale * work.values,
        (Status.EXACT,) * len(instances),
        work.each if instances.each else None,
        FactorMarginals(problem.graph, unfold(work.tree, work.summed)) if instances.summed else None,
        work.states if work.traces else None,
    )


def _common_temperature(problem: Problem) -> float:
    """The temperature of all variables where it is one and positive; otherwise 1."""
    heat = problem.temperatures
    return float(heat[0]) if len(heat) and heat[0] > 0 and (heat == heat[0]).all() else 1.0


def _divide(instances: Instances, temperature: float) -> Instances:
    problem, graph = instances.problem, instances.problem.graph
    shared = graph.with_states(graph.variables, graph.log_tables / temperature, graph.table_start)
    sums = replace(problem, graph=shared, temperatures=np.ones_like(problem.temperatures))
    return replace(instances, problem=sums, log_tables=instances.log_tables / temperature)


@dataclass(frozen=True)
class _BatchRun:
    """One plan, and room for all answers."""

    instances: Instances
    tree: BatchTree
    cost: float  # of the way up of one instance
    free: float  # what variables without factors add to every value
    traces: bool  # whether best states are found
    values: np.ndarray
    states: np.ndarray
    each: np.ndarray
    summed: np.ndarray  # in the layout of the tree

    @classmethod
    def of(cls, instances: Instances, effort: float) -> _BatchRun:
        problem, graph = instances.problem, instances.problem.graph
        tree = _plan(problem, effort)
        row_start = np.full(graph.n_factors, -1, dtype=np.int64)
        row_start[instances.factors] = instances.starts[:-1]
        count, heat = len(instances), problem.temperatures
        arrays = (
            tree.sizes, tree.scope_start, tree.scope, tree.left, tree.right, tree.drop_start, tree.drop,
            tree.start, tree.axes, tree.offset, tree.roots, graph.table_start, row_start,
        )  # fmt: skip
        traces = bool(len(problem.maximised)) and problem.maximises_last
        return cls(
            instances,
            # Copies: some of these may be read-only and some not, and each mixture would be compiled anew.
            BatchTree(*(np.array(a) for a in arrays)),
            tree.operations + _STEP_COST * len(tree.left),
            float((heat[tree.lonely] * np.log(tree.sizes[tree.lonely])).sum()),
            traces,
            np.empty(count),
            np.empty((count, len(heat) if traces else 0), dtype=np.int64),
            np.empty((count, instances.log_tables.shape[1] if instances.each else 0)),
            np.zeros(int(graph.table_size.sum()) if instances.summed else 0),
        )

    def solve(self, rows: np.ndarray, *, logs: bool) -> np.ndarray:
        """Answer these instances, adding to `summed`; their codes."""
        codes = np.empty(len(rows), dtype=np.int64)
        total = _PASSES * self.cost * len(rows)
        pieces = _PIECES if total >= _WORTH else 1
        cuts = np.unique(np.linspace(0, len(rows), pieces + 1).astype(np.int64))
        jobs = [slice(int(a), int(b)) for a, b in pairwise(cuts)]

        def run(job: slice) -> np.ndarray:
            return self._piece(rows[job], codes[job], logs=logs)

        with Progress("junction-tree", len(rows)) as bar:
            for job, part in zip(jobs, _in_threads(run, jobs), strict=True):
                check()
                self.summed[:] += part
                bar.update(job.stop)
        return codes

    def _piece(self, rows: np.ndarray, codes: np.ndarray, *, logs: bool) -> np.ndarray:
        """Answer some instances in one call of the kernel; their part of the sum."""
        given, graph = self.instances, self.instances.problem.graph
        summed = np.zeros(len(self.summed))
        is_slice = len(rows) and rows[-1] - rows[0] + 1 == len(rows)  # views then, nothing is copied
        where = slice(int(rows[0]), int(rows[-1]) + 1) if is_slice else rows
        values, states, each = self.values[where], self.states[where], self.each[where]
        solve_batch.over(_PASSES * self.cost * len(rows))(
            self.tree,
            np.array(graph.log_tables),
            given.log_tables[where],
            given.weights[where],
            given.problem.temperatures,
            logs,
            self.traces,
            values,
            states,
            each,
            summed,
            codes,
        )
        values += self.free
        if not is_slice:
            self.values[where], self.states[where], self.each[where] = values, states, each
        return summed


def _in_threads(run: Callable[[slice], np.ndarray], jobs: list[slice]) -> Iterator[np.ndarray]:
    """What each job gives, in their order; the first one alone, since it may compile."""
    threads = os.cpu_count() or 1
    if len(jobs) < 2 or threads == 1 or current_tier() == "interpreted":
        yield from map(run, jobs)
        return
    yield run(jobs[0])
    with ThreadPoolExecutor(min(threads, len(jobs) - 1)) as pool:
        yield from pool.map(run, jobs[1:])


def _plan(problem: Problem, effort: float) -> JoinTree:
    """The tree that multiplies less, of those that absorb factors and those that do not."""
    graph, levels = problem.graph, problem.commuting_levels

    def make() -> JoinTree:
        order = elimination_order(graph, levels=levels, effort=effort)
        trees = [join_tree(graph, order, levels, absorb=absorb) for absorb in (True, False)]
        return min(trees, key=lambda tree: tree.operations + _STEP_COST * len(tree.left))

    return graph.memo.recall(  # type: ignore[no-any-return]
        ("join tree of batches", graph.structure_key, levels.tobytes(), effort), make
    )
