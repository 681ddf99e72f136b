"""What the mini-bucket methods share: mini-buckets of a problem, their tables, and passes over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.errors import TooLargeError
from ...core.factor_graph import FactorGraph
from ...core.machine import machine_gigabytes
from ...core.records import record
from ...core.result import Assignment, Estimate, FactorMarginals, Result, Status
from ...core.wiring import starts_of
from ...kernels import mini_bucket_tables as tabled
from ...kernels import mini_buckets as kernel
from ...kernels.bound_slopes import bucket_slopes
from ...kernels.jit import Kernel
from ...optimise.run import check
from ...structures.mini_buckets import MiniBuckets, mini_bucket_order, mini_buckets
from ..problem.base import Problem
from ..problem.value import meets
from .possible import evaluate_states, possible_state

__all__ = [
    "Bound",
    "BucketPasses",
    "Tables",
    "bucket_passes",
    "finish",
    "first_weights",
    "heat_after",
    "one_state",
]

Bound = Literal["upper", "lower"]

_LEAST = 16  # entries below which a table is not shrunk to save room
_NEVER = -1e-300  # a weight whose powered sum is the minimum
_NEGATIVE = 0.5  # first size of each negative weight, as a share of the temperature
_HEATS = (3.0, 0.05)  # at which beliefs see maxima: first, and in the end


@record("bucket tables")
class Tables(NamedTuple):
    """Costs and messages of one pass, flat, in the layout of `MiniBuckets`."""

    theta: np.ndarray  # the model's factors and all shifts: adding up to the model
    weight: np.ndarray  # (count,) powers; those of a bucket sum to its temperature
    psi: np.ndarray  # theta with the messages of the children
    message: np.ndarray  # powered sums of psi over each mini-bucket's own variable
    value: float  # the bound


@dataclass(frozen=True)
class BucketPasses:
    """Mini-buckets of a problem, ready to be swept."""

    buckets: MiniBuckets  # who meets whom
    layout: tabled.TableLayout  # the same as the kernels want it
    theta: np.ndarray  # the factors' log tables, added up per mini-bucket
    constant: float  # of factors with empty scopes
    temperatures: np.ndarray  # (n,) of the problem
    is_exact: bool  # whether no bucket is split, along an order that is the problem's
    limits: tuple[int, int]  # variables beside its own, and entries, that a mini-bucket may have
    homes: tuple[np.ndarray, np.ndarray]  # steps of every factor along the axes of its mini-bucket, CSR

    def evaluate(self, theta: np.ndarray, weight: np.ndarray) -> Tables:
        """One forward pass without shifts."""
        return self.forward(theta, weight, None, None, 0.0, "upper", gradient=False)[0]

    def forward(
        self,
        theta: np.ndarray,
        weight: np.ndarray,
        message: np.ndarray | None,
        context: np.ndarray | None,
        step: float,
        bound: Bound,
        *,
        gradient: bool,
    ) -> tuple[Tables, float]:
        """One forward pass that shifts costs by `step`, and the disagreement it met; changes no argument."""
        theta = theta.copy() if step > 0 else theta
        psi = np.empty(len(theta))
        known = message is not None and context is not None
        message = np.empty(int(self.buckets.message_start[-1])) if message is None else message.copy()
        context = message if context is None else context
        sums, slopes = np.zeros(2), (known, step, bound == "lower", gradient)
        for run, ranks in self._parts(kernel.forward):
            run(self.layout, theta, weight, psi, message, context, *slopes, ranks, sums)
        return Tables(theta, weight, psi, message, float(sums[0]) + self.constant), float(sums[1])

    def backward(self, tables: Tables, heat: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Contexts for the next forward pass, conditional entropies, and marginals of all variables."""
        buckets = self.buckets
        sizes = buckets.sizes[buckets.order]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        context = np.zeros(len(tables.message))
        entropy = np.zeros(len(buckets))
        by_rank = np.zeros(int(start[-1]))
        known = (tables.weight, tables.psi, tables.message)
        for run, ranks in self._parts(kernel.backward, backwards=True):
            run(self.layout, *known, heat, context, entropy, start, by_rank, ranks)
        return context, entropy, self._by_variable(by_rank, start)

    def _parts(self, run: Kernel, *, backwards: bool = False) -> Iterator[tuple[Any, np.ndarray]]:
        """Slices of the buckets that are short to pass, each with the kernel for so much."""
        total = self.layout.table_start[self.layout.bucket_start]
        done, count = 0, len(total) - 1
        if backwards:
            total = total[-1] - total[::-1]
        while done < count:
            check()
            most = run.portion(1.0, int(total[-1]))
            end = max(done + 1, int(np.searchsorted(total, total[done] + most, side="right")) - 1)
            ranks = np.array([count - end, count - done] if backwards else [done, end])
            yield run.over(float(total[end] - total[done])), ranks
            done = end

    def _by_variable(self, by_rank: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Normalised rows in the order of the variables; rows without mass are even."""
        buckets = self.buckets
        sizes = buckets.sizes
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        flat = np.arange(first[-1]) + np.repeat(start[buckets.rank] - first[:-1], sizes)
        rows = np.maximum(by_rank[flat], 0.0) if len(flat) else np.empty(0)
        total = np.add.reduceat(rows, first[:-1]) if len(sizes) else np.empty(0)
        even = np.repeat(total <= 0, sizes)
        return np.where(even, 1.0, rows) / np.repeat(np.where(total > 0, total, sizes), sizes)

    def factor_marginals(self, graph: FactorGraph, tables: Tables) -> FactorMarginals:
        """The derivative of the bound by the factors' log tables, shifts and weights held fixed."""
        first = starts_of(graph.table_size)
        slopes = np.empty(int(first[-1]))
        bucket_slopes(
            self.layout, tables.weight, tables.psi, tables.message, self.buckets.factor_home, *self.homes,
            first, slopes,
        )  # fmt: skip
        return FactorMarginals(graph, slopes)

    def decode(self, psi: np.ndarray) -> np.ndarray:
        """One state per variable, last eliminated first, each the best given those before it."""
        states = np.zeros(len(self.temperatures), dtype=np.int64)
        kernel.decode(self.layout, self.buckets.scope, self.buckets.order, psi, states)
        return states


def bucket_passes(
    problem: Problem,
    ibound: int | None,
    max_entries: int,
    *,
    most: float = 2.0**21,
    free: bool = False,
) -> BucketPasses:
    """Mini-buckets along an order that respects the problem's levels, or along any if `free`.

    Without an `ibound`, `max_entries` is lowered until all tables together have at most `most` entries: room
    in entries is used better than room in variables where state counts differ.
    """
    graph = problem.graph
    levels = np.zeros_like(problem.levels) if free else problem.levels
    order = mini_bucket_order(graph, levels)
    joined = len(order) if ibound is None else ibound
    buckets = mini_buckets(graph, order, ibound=joined, max_entries=max_entries)
    while ibound is None and max_entries > _LEAST and buckets.table_start[-1] > most:
        max_entries //= 2
        buckets = mini_buckets(graph, order, ibound=joined, max_entries=max_entries)
    entries = 5.0 * float(buckets.table_start[-1])  # tables before and after a step, and messages
    if entries * 8 > machine_gigabytes() * 2**30 / 2:
        raise TooLargeError(
            f"mini-buckets need {entries * 8 / 2**30:.3g} GB: more than half of this machine's memory; "
            "lower ibound or max_entries"
        )
    layout, home_start, home = graph.memo.recall(
        (
            "mini-bucket layout",
            graph.structure_key,
            order.tobytes(),
            joined,
            max_entries,
            problem.temperatures.tobytes(),
        ),
        lambda: _layout(graph, buckets, problem.temperatures),
    )
    theta = np.zeros(int(buckets.table_start[-1]))
    constant = tabled.gather(
        buckets.factor_home, home_start, home, graph.table_start, graph.log_tables, layout, theta
    )
    heat = problem.temperatures
    exact = buckets.is_exact and (not free or bool((heat == heat[:1]).all()))
    limits, homes = (joined, max_entries), (home_start, home)
    return BucketPasses(buckets, layout, theta, float(constant), heat, exact, limits, homes)


def _layout(
    graph: FactorGraph, buckets: MiniBuckets, temperatures: np.ndarray
) -> tuple[tabled.TableLayout, np.ndarray, np.ndarray]:
    """The kernels' arrays, and the steps of every factor in its mini-bucket."""
    n = len(buckets.order)
    start, scope, stride = buckets.scope_start, buckets.scope, buckets.stride
    link_start, link = tabled.link_strides(buckets.parent, start, scope, stride, 1, start, scope, n)
    home_start, home = tabled.link_strides(
        buckets.factor_home, graph.scope_start, graph.scope, graph.wiring.edge_stride, 0, start, scope, n
    )
    kind = (temperatures >= tabled.COLD).astype(np.int64)
    common, common_size = tabled.common_strides(buckets.bucket_start, start, scope, buckets.sizes, kind)
    made = tabled.TableLayout(
        np.ascontiguousarray(temperatures[buckets.order]),
        buckets.bucket_start,
        start,
        buckets.sizes[scope],
        stride,
        common,
        common_size,
        buckets.table_start,
        buckets.message_start,
        buckets.parent,
        *buckets.children,
        link_start,
        link,
    )
    return made, home_start, home


def heat_after(iterations: int) -> float:
    """At which temperature beliefs see maxima after some iterations: ever more sharply."""
    first, last = _HEATS
    return max(last, first / (1 + iterations))


def first_weights(passes: BucketPasses, bound: Bound, *, split: bool) -> np.ndarray:
    """Weights that sum to each variable's temperature.

    Split evenly for an upper bound; for a lower one a mini-bucket of each bucket is positive and the others
    negative. Without splitting, one has all and the others maximise (or minimise). A negative mini-bucket
    with a zero makes the lower bound -inf, so the positive one is the first that has any.
    """
    buckets = passes.buckets
    filled = np.flatnonzero(np.diff(buckets.bucket_start))
    count = np.diff(buckets.bucket_start)[filled]
    heat = passes.temperatures[buckets.variable]
    even = heat / np.repeat(count, count)
    if bound == "upper" and split:
        return even
    chosen = np.zeros(len(buckets), dtype=bool)
    chosen[buckets.bucket_start[filled]] = True
    if bound == "upper":
        return np.where(chosen, heat, 0.0)
    if np.isneginf(passes.theta).any():
        zero = np.logical_or.reduceat(
            np.isneginf(passes.evaluate(passes.theta, even).psi), buckets.table_start[:-1]
        )
        where = np.where(
            zero | chosen, np.arange(len(buckets)) + np.where(zero, 0, len(buckets)), 2 * len(buckets)
        )
        chosen[:] = False
        chosen[np.minimum.reduceat(where, buckets.bucket_start[filled]) % len(buckets)] = True
    if not split:
        return np.where(chosen, heat, _NEVER)
    return np.where(chosen, heat * (1 + _NEGATIVE * (np.repeat(count, count) - 1)), -_NEGATIVE * heat)


def finish(problem: Problem, passes: BucketPasses, tables: Tables, result: Result) -> Result:
    """Add the derivative of the bound and the decoded assignment with its score, and say what is proven."""
    wanted = problem.temperatures == 0
    assert result.log_z is not None  # every bound has a value
    bound, kind = result.log_z.value, result.log_z.kind
    if bound == tables.value > -np.inf:
        result = replace(result, factor_marginals=passes.factor_marginals(problem.graph, tables))
    if passes.is_exact:
        result = replace(result, status=Status.EXACT, log_z=Estimate(bound, "exact"))
    if not wanted.any() or not problem.maximises_last:
        return result
    states, score = evaluate_states(problem, passes.decode(tables.psi), passes.buckets.order[::-1])
    if kind == "upper" and meets(score.value, bound) and not passes.is_exact:
        result = replace(result, status=Status.OPTIMAL, log_z=Estimate(bound, "exact"))
    shown = np.where(wanted, states, -1)
    return replace(result, assignment=Assignment(problem.graph.variables, shown), score=score)


def one_state(problem: Problem, passes: BucketPasses, tables: Tables) -> float:
    """The plainest lower bound: the weight of one state, decoded or at least possible.

    No powered sum is below its largest term, so none is below any of its terms.
    """
    states = passes.decode(tables.psi)
    score = float(problem.graph.log_scores(states[None, :])[0])
    if score == -np.inf:
        found = possible_state(problem, states, passes.buckets.order[::-1])
        score = -np.inf if found is None else float(problem.graph.log_scores(found[None, :])[0])
    return score
