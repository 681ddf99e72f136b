r"""The E-step: log-likelihood and expected counts of all table entries, for any tables of one structure.

    log-likelihood   sum_a counts_a . theta_a  +  sum_parts weight log Z(part)  -  N log Z
    expected counts  observed counts  +  sum_parts weight p(x_a | row)

(log Z of the model itself is the caller's; for a Bayesian network it is 0.) With exact inference all rows
go through compiled kernels: parts with few joint states by summing them, others on a join tree that is
planned once per part. Any other algorithm is asked part by part through `infer`. The hard E-step
takes the best completion of each row instead of all of them.

Rows are spread over threads in pieces whose bounds do not depend on how many threads there are, so the
same data give the same numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from ..core.errors import ImpossibleRowError, UnsupportedError, ZeroProbabilityError
from ..core.evidence import Evidence
from ..core.factor_graph import FactorGraph
from ..core.records import record
from ..core.result import Kind
from ..core.variable import Variables
from ..core.wiring import Memo
from ..data.table import StateTable
from ..inference.exact.junction_tree import JunctionTreePropagation
from ..inference.portfolio.question import infer
from ..inference.problem.base import Problem, algorithms
from ..inference.problem.tree import Limits, plan
from ..kernels.expected_counts import enumerate_parts, sum_on_tree
from ..optimise.run import watched
from ..structures.join_tree import JoinTree
from .expectations import Oracle
from .hidden_parts import HiddenParts, observed_counts

__all__ = ["EStep", "ExpectedTables"]

_ENUMERATED = 8.0  # log2 of the joint states up to which summing them all beats a join tree
_PIECES = 16  # of the rows, for threads
_WORTH = 1 << 17  # table entries of all rows together from which threads pay
_PLANS = 4096  # plans of exact inference kept
_STEP_COST = 100.0  # of a step of a join tree besides its multiplications, in table entries
_Job = Callable[[np.ndarray], tuple[float, int]]  # counts to add to -> log weight, impossible row or -1


@record("expected counts")
@dataclass(frozen=True)
class ExpectedTables:
    """What one pass over the data found."""

    log_weight: float  # total log weight of the rows: the log-likelihood, but for the model's own log Z
    counts: np.ndarray  # (entries,) expected counts, in factor order without gaps


@dataclass(frozen=True)
class _Tree:
    """A part that is solved on a join tree."""

    part: int
    leaf_start: np.ndarray
    leaf_offset: np.ndarray
    arrays: tuple[np.ndarray, ...]  # of the tree, as the kernel takes them
    cost: float  # of one row, in table entries

    @classmethod
    def of(cls, part: int, leaf_start: np.ndarray, leaf_offset: np.ndarray, tree: JoinTree) -> _Tree:
        arrays = (
            tree.scope_start, tree.scope, tree.left, tree.right, tree.drop_start, tree.drop, tree.start,
            tree.axes, tree.offset, tree.sizes, tree.state_start, tree.home, tree.roots,
        )  # fmt: skip
        # Copies: some of these may be read-only and some not, and each mixture would be compiled anew.
        cost = tree.operations + _STEP_COST * len(tree.left)
        return cls(part, leaf_start, leaf_offset, tuple(np.array(a) for a in arrays), cost)


@dataclass
class EStep:
    """The E-step for one table of observations; everything that does not depend on tables is made once."""

    graph: FactorGraph  # the structure
    data: StateTable  # the rows
    oracle: Oracle  # which inference, and its budget
    hard: bool = False  # best completions instead of expectations
    threads: int | None = None  # None: as many as the machine has
    values_only: bool = False  # whether only the log weight is wanted, not the counts
    _counts: np.ndarray = field(init=False)  # what is not hidden in the rows
    _soft: np.ndarray = field(init=False)  # log tables of soft evidence, after those of the model

    def __post_init__(self) -> None:
        """Count what is observed; what is uncertain becomes children that are."""
        self.graph, self.data, self._soft = self.data.with_soft_children(self.graph)
        self._counts = observed_counts(self.graph, self.data.states, self.data.counts)

    @cached_property
    def _parts(self) -> HiddenParts:
        """What is hidden in the rows; found by the first step that asks, which can be cut."""
        return HiddenParts.of(self.graph, self.data)

    @property
    def is_closed_form(self) -> bool:
        """Whether nothing is hidden, so that expected counts do not depend on the tables."""
        return len(self._parts) == 0

    def kind(self) -> Kind:
        """What the log weight guarantees."""
        return "exact" if self.oracle.kinds <= {"exact"} else "estimate"

    def __call__(self, log_tables: np.ndarray) -> ExpectedTables:
        """One pass over all rows; the tables lie in factor order without gaps."""
        return self._pass(log_tables, self._counts.copy(), self._parts.weight)

    def batch(self, chosen: np.ndarray) -> Callable[[np.ndarray], ExpectedTables]:
        """The E-step of some rows of the data, counts scaled to all of them."""
        data = self.data
        rows, which = np.unique(data.row_of[chosen], return_inverse=True)
        weights = np.bincount(which.ravel(), data.row_weights[chosen], minlength=len(rows))
        return partial(self._batch, rows, weights * (data.total / weights.sum()))

    def _batch(self, rows: np.ndarray, weights: np.ndarray, log_tables: np.ndarray) -> ExpectedTables:
        counts = observed_counts(self.graph, self.data.states[rows], weights)
        return self._pass(log_tables, counts, self._parts.weights(rows, weights))

    def _pass(self, log_tables: np.ndarray, counts: np.ndarray, weight: np.ndarray) -> ExpectedTables:
        """Add the expected counts of the parts, each row with its weight, to those that are observed."""
        own = len(log_tables)
        # A copy: kernels are compiled for arrays that may be written to.
        log_tables = np.concatenate([log_tables, self._soft])
        seen = counts > 0
        total = float(counts[seen] @ log_tables[seen])
        if total == -np.inf:
            raise self._impossible_entry(log_tables)
        for log_weight in self._pieces(log_tables, weight, counts):
            total += log_weight
        if self._plan[2]:
            graph = self.graph.with_states(self.graph.variables, log_tables, _first(self.graph))
            graph.memo = self._memo
            for p in self._plan[2]:
                total += self._ask(p, graph, weight, counts)
        return ExpectedTables(total, counts[:own])

    def _impossible_entry(self, log_tables: np.ndarray) -> ImpossibleRowError:
        entry = int(np.flatnonzero((self._counts > 0) & (log_tables == -np.inf))[0])
        ends = np.cumsum(self.graph.table_size)
        a = int(np.searchsorted(ends, entry, side="right"))
        names = [self.graph.variables.names[int(i)] for i in self.graph.scope_of(a)]
        at = np.unravel_index(
            entry - int(ends[a] - self.graph.table_size[a]), self.graph.log_table(a).shape or (1,)
        )
        rows = np.ones(len(self.data.states), dtype=bool)
        for i, state in zip(self.graph.scope_of(a), at, strict=False):
            rows &= self.data.states[:, i] == state
        row = min(self.data.number(int(r)) for r in np.flatnonzero(rows))
        return ImpossibleRowError(row, f"its states of {names} have a table entry of zero")

    # Exact inference in compiled kernels.

    @cached_property
    def _plan(self) -> tuple[np.ndarray, list[_Tree], list[int]]:
        """Joint states of the enumerated parts (0 elsewhere), parts on trees, and parts that are asked."""
        parts = self._parts
        method = None if self.oracle.method is None else algorithms.resolve(self.oracle.method)
        if method is not None and not (
            isinstance(method, JunctionTreePropagation) and method.propagation == "shafer-shenoy"
        ):
            return np.zeros(len(parts), dtype=np.int64), [], list(range(len(parts)))
        small = parts.log2_joint <= _ENUMERATED
        joint = np.where(small, np.round(2.0 ** np.minimum(parts.log2_joint, _ENUMERATED)), 0)
        trees, asked = [], []
        for p in np.flatnonzero(~small):
            found = self._tree(int(p), method)
            if found is None:
                asked.append(int(p))
            else:
                trees.append(found)
        return joint.astype(np.int64), trees, asked

    def _tree(self, p: int, method: JunctionTreePropagation | None) -> _Tree | None:
        """The join tree of a part; None if it is too large and any inference would do."""
        parts, sizes = self._parts, self.graph.variables.sizes
        inside = parts.variables(p)
        scopes, leaf_offset = [], []
        for f, a in enumerate(watched(parts.factors(p))):
            scope = np.array([i for i in self.graph.scope_of(int(a)) if i in inside])
            scopes.append(np.searchsorted(inside, scope))
            steps = parts.steps(p)[f, scopes[-1]]
            offset = np.zeros(1, dtype=np.int64)
            for i, step in zip(scope, steps, strict=True):
                offset = (offset[:, None] + step * np.arange(sizes[i])).ravel()
            leaf_offset.append(offset)
        scope_start = np.concatenate([[0], np.cumsum([len(s) for s in scopes])]).astype(np.int64)
        leaf_start = np.concatenate([[0], np.cumsum([len(o) for o in leaf_offset])]).astype(np.int64)
        local = FactorGraph.from_flat(
            Variables.of(sizes[inside]), scope_start, np.concatenate(scopes), np.zeros(int(leaf_start[-1]))
        )
        n, chosen = len(inside), method or JunctionTreePropagation()
        problem = Problem(local, np.ones(n), np.zeros(n, dtype=np.int64))
        forecast, tree = plan(problem, (), chosen.effort)
        limits = Limits(chosen.memory_gb, chosen.max_log2_operations)
        if limits.excess(forecast):
            if method is not None:
                limits.refuse(forecast, problem)
            return None
        assert tree is not None  # a hopeless plan is refused above
        return _Tree.of(p, leaf_start, np.concatenate(leaf_offset), tree)

    def _pieces(self, log_tables: np.ndarray, weight: np.ndarray, counts: np.ndarray) -> list[float]:
        """Run the kernels piece by piece, add to `counts`, and return the log weight of each piece."""
        with np.errstate(over="ignore"):
            tables = np.exp(log_tables)
        bounds, worth = self._bounds
        jobs: list[_Job] = [
            partial(self._enumerate, log_tables, tables, weight, b, e) for b, e in pairwise(bounds)
        ]
        jobs += [partial(self._climb_all, slices, log_tables, weight) for slices in self._tree_slices]

        def run(job: _Job) -> tuple[float, int, np.ndarray]:
            into = np.zeros(len(counts))
            return (*job(into), into)

        threads = self.threads or os.cpu_count() or 1
        if len(jobs) == 1 or threads == 1 or not (worth or self._tree_slices):
            return [self._gather(run(job), counts) for job in jobs]
        with ThreadPoolExecutor(min(threads, len(jobs))) as pool:
            return [self._gather(found, counts) for found in pool.map(run, jobs)]

    def _gather(self, found: tuple[float, int, np.ndarray], counts: np.ndarray) -> float:
        log_weight, bad, into = found
        if bad >= 0:
            raise ImpossibleRowError(self._parts.number(bad))
        counts += into
        return log_weight

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, bool]:
        """Where the rows are cut into pieces of about equal work, and whether threads pay."""
        parts, joint = self._parts, self._plan[0]
        rows = np.diff(parts.row_start)
        each = np.repeat(joint * np.diff(parts.factor_start), rows)
        upto = np.concatenate([[0], np.cumsum(each)])
        if not len(each) or upto[-1] == 0:
            return np.zeros(1, dtype=np.int64), False
        pieces = _PIECES if upto[-1] >= _WORTH else 1
        cuts = np.searchsorted(upto, np.linspace(0, upto[-1], pieces + 1))
        cuts[-1] = len(each)
        return np.unique(cuts), pieces > 1

    def _enumerate(
        self, log_tables: np.ndarray, tables: np.ndarray, weight: np.ndarray, first: int, last: int,
        into: np.ndarray,
    ) -> tuple[float, int]:  # fmt: skip
        parts = self._parts
        return enumerate_parts(  # type: ignore[no-any-return]
            log_tables, tables, self.graph.variables.sizes, parts.hidden_start, parts.hidden,
            parts.factor_start, parts.step_start, parts.step, parts.row_start, weight,
            parts.base_start, parts.base, self._plan[0], first, last, self.hard, into,
        )  # fmt: skip

    @cached_property
    def _tree_slices(self) -> list[list[tuple[_Tree, int, int]]]:
        """Pieces of about equal work: lists of a part and a slice of its rows."""
        trees, start = self._plan[1], self._parts.row_start
        rows = [int(start[item.part + 1] - start[item.part]) for item in trees]
        share = sum(r * item.cost for r, item in zip(rows, trees, strict=True)) / _PIECES
        pieces: list[list[tuple[_Tree, int, int]]] = []
        full = share
        for item, count in zip(trees, rows, strict=True):
            size = max(int(share / item.cost), 1)
            for begin in range(0, count, size):
                if full >= share:
                    pieces.append([])
                    full = 0.0
                end = min(begin + size, count)
                pieces[-1].append((item, begin, end))
                full += (end - begin) * item.cost
        return pieces

    def _climb_all(
        self, slices: list[tuple[_Tree, int, int]], log_tables: np.ndarray, weight: np.ndarray,
        into: np.ndarray,
    ) -> tuple[float, int]:  # fmt: skip
        total = 0.0
        for item, first, last in slices:
            log_weight, bad = self._climb(item, log_tables, weight, first, last, into)
            if bad >= 0:
                return total, bad
            total += log_weight
        return total, -1

    def _climb(
        self,
        item: _Tree,
        log_tables: np.ndarray,
        weight: np.ndarray,
        first: int,
        last: int,
        into: np.ndarray,
    ) -> tuple[float, int]:
        parts, p = self._parts, item.part
        begin = int(parts.row_start[p])
        log_weight, bad = sum_on_tree(
            log_tables, weight[begin + first : begin + last], parts.bases(p)[first:last], parts.steps(p),
            item.leaf_start, item.leaf_offset, *item.arrays, self.hard, into,
        )  # fmt: skip
        return log_weight, bad if bad < 0 else begin + first + bad

    # Any other inference, part by part.

    @cached_property
    def _memo(self) -> Memo:
        """Room for the plans of all parts, so that each is planned once."""
        made = Memo()
        made.CAPACITY = min(max(2 * len(self._parts) + 2, Memo.CAPACITY), _PLANS)  # type: ignore[misc]
        return made

    def _ask(self, p: int, graph: FactorGraph, weights: np.ndarray, counts: np.ndarray) -> float:
        """Solve one part for all its rows by the chosen algorithm."""
        parts, factors = self._parts, self._parts.factors(p)
        some = graph.select(factors)
        entry = np.concatenate(
            [np.arange(graph.table_start[a], graph.table_start[a] + graph.table_size[a]) for a in factors]
            or [np.empty(0, np.int64)]
        )
        near = np.zeros(len(graph.variables), dtype=bool)
        near[some.scope] = True
        inside = parts.variables(p)
        total = 0.0
        for row in range(int(parts.row_start[p]), int(parts.row_start[p + 1])):
            weight = weights[row]
            if weight == 0:
                continue
            # Variables that no factor of the part mentions are pinned: they must not count their states.
            states = np.where(near, self.data.states[parts.example[row]], 0)
            states[inside] = -1
            if self.hard:
                total += weight * self._ask_best(some, states, entry, row, weight, counts)
                continue
            found = self.oracle.clamped(some, states, parts.number(row))
            if not self.values_only:
                counts[entry] += weight * self.oracle.entries(found)
            total += weight * self.oracle.log_weight(found, graph.log_tables[entry])
        return total

    def _ask_best(
        self, graph: FactorGraph, states: np.ndarray, entry: np.ndarray, row: int, weight: float,
        counts: np.ndarray,
    ) -> float:  # fmt: skip
        budget = self.oracle.budget
        try:
            found = infer(
                graph, self.oracle.method, evidence=Evidence(states), maximise="all",  # type: ignore[arg-type]
                max_iter=budget.max_iter, tol=budget.tol, seconds=budget.seconds, seed=self.oracle.seed,
            )  # fmt: skip
        except ZeroProbabilityError:
            raise ImpossibleRowError(self._parts.number(row)) from None
        if found.assignment is None:
            raise UnsupportedError(
                f"{found.algorithm} finds no best states; use junction-tree, or hard=false"
            )
        if found.log_z is not None:
            self.oracle.kinds.add(found.log_z.kind)
        chosen = np.where(states >= 0, states, found.assignment.indices)
        score = float(graph.log_scores(chosen[None, :])[0])
        if score == -np.inf:
            raise ImpossibleRowError(self._parts.number(row))
        sizes, start = graph.table_size, 0
        for a in range(graph.n_factors):
            edges = slice(int(graph.scope_start[a]), int(graph.scope_start[a + 1]))
            at = int(graph.wiring.edge_stride[edges] @ chosen[graph.scope[edges]])
            counts[entry[start + at]] += weight
            start += int(sizes[a])
        return score


def _first(graph: FactorGraph) -> np.ndarray:
    """Starts of tables that lie in factor order without gaps."""
    return np.concatenate([[0], np.cumsum(graph.table_size)[:-1]]).astype(np.int64)[: graph.n_factors]
