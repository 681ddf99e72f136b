r"""Block-coordinate Frank-Wolfe over chains in one compiled loop, as the driver sees it.

    minimise  P(w) = 1/2 |w|^2 + C sum_n [ max_y { loss_n(y) + S_n(y; w) } - c_n - g_n . w ]

`kernels/chain_planes.py` has the formulas of a step. The dual value of the planes grows with every step, and
a value P(w) met anywhere less the dual is a gap: no weights are better than these by more. One evaluation of
P costs about a pass, so it is taken every few passes, after the last one, and whenever the gaps met on the
way, each at its own place, say that the end is near. Between two of them the gap falls with the dual alone.
The trace is per instance and per unit of C: what is lowered there is lambda / 2 |w|^2 + 1/n sum_n U_n,
lambda = 1 / (n C).

The averaged weights, 2 / (k + 2) of step k, are those returned unless `average` is off: their value falls
much faster than that of the last ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core import check
from ..core.records import record
from ..kernels.chain_planes import ChainFeatures, Planes, plane_pass, plane_values
from ..models.crf_inputs import LabelledSequences
from ..models.crf_weights import WeightLayout
from ..optimise.driver import UNKNOWN, Outcome, Step
from ..optimise.run import Run

__all__ = ["BlockPasses", "ChainBlocks", "PassState", "Tangent", "chain_blocks"]

_ROUNDING = 1e-12  # relative gap that sums of many numbers explain


class Tangent(NamedTuple):
    """The clamped part of every instance, or its tangent where that is not linear: c_n + g_n . w."""

    rows: np.ndarray  # (positions, labels * hidden states) g of positions
    moves: np.ndarray  # (chains, labels, labels) g of steps
    constant: np.ndarray  # (chains,) c_n


@record("chain planes")
class PassState(NamedTuple):
    """Where the passes have come to; arrays change within a pass and are copied before the next."""

    planes: Planes
    order: np.ndarray  # of the present pass
    place: int  # chains of it that are done
    met: float  # gaps met in it
    passes: int
    least: float  # lowest value of the objective evaluated so far
    found: np.ndarray  # the weights that have it
    dual: float = -np.inf  # of the planes after the last pass, per instance

    @property
    def w(self) -> np.ndarray:
        """The last weights."""
        return self.planes.w

    @property
    def w_average(self) -> np.ndarray:
        """The averaged weights."""
        return self.planes.w - self.planes.tally[1] * self.planes.behind


@dataclass(frozen=True, eq=False)
class ChainBlocks:
    """The problem: chains, their losses, and the linear parts."""

    features: ChainFeatures  # of the positions
    charges: np.ndarray  # (positions, labels) loss of every label
    scale: float  # C
    tangent: Tangent  # where planes begin, and what is subtracted
    eps: float = 1.0  # temperature of hidden states
    warm: PassState | None = None  # planes of an earlier tangent, which stay planes

    def __len__(self) -> int:
        return len(self.features.start) - 1

    def pull(self, rows: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Statistics of scores as statistics of weights."""
        parts = []
        for matrix, column, cols in zip(
            self._matrices, self.features.column, self.features.cols, strict=True
        ):
            own = np.zeros((len(rows), int(cols)))
            np.add.at(own.T, column, rows.T)
            parts.append((matrix.T @ own).ravel())
        return np.concatenate([*parts, moves.ravel()])

    @cached_property
    def _matrices(self) -> list[Any]:
        """Features of every block, (positions, features)."""
        from scipy import sparse

        x, matrices = self.features, []
        ends = np.append(x.first[1:], self._count - x.labels**2)
        for b in range(len(x.first)):
            inside = slice(x.row[b, 0], x.row[b, -1])
            index = x.feature[inside]
            value = x.value[inside] if len(x.value) else np.ones(len(index))
            shape = (x.row.shape[1] - 1, int(ends[b] - x.first[b]) // int(x.cols[b]))
            matrices.append(sparse.csr_array((value, index, x.row[b] - x.row[b, 0]), shape=shape))
        return matrices

    @cached_property
    def _count(self) -> int:
        """Number of weights."""
        return int(self.features.weights)

    @cached_property
    def linear(self) -> np.ndarray:
        """Sum of g_n, by weights."""
        return self.pull(self.tangent.rows, self.tangent.moves.sum(axis=0))

    def planes(self) -> Planes:
        """The first planes, those of the right labels; or those of an earlier problem with their weights."""
        if self.warm is None:
            rows, moves = self.tangent.rows.copy(), self.tangent.moves.copy()
            offset = self.tangent.constant.copy()
            tally = np.array([0.0, 1.0, offset.sum(), offset.sum()])
            zero = np.zeros(self._count)
            return Planes(zero, zero.copy(), rows, moves, offset, tally)
        old = self.warm.planes
        w = self.scale * (self.linear - self.pull(old.rows, old.moves.sum(axis=0)))
        tally = np.array([0.0, 1.0, old.offset.sum(), old.offset.sum()])
        return Planes(w, np.zeros_like(w), old.rows.copy(), old.moves.copy(), old.offset.copy(), tally)

    def dual(self, w: np.ndarray, offset: float) -> float:
        """The value of planes whose offsets add up to this, at their weights."""
        return float(-0.5 * w @ w + self.scale * (offset - self.tangent.constant.sum()))

    def value(self, w: np.ndarray) -> float:
        """P(w)."""
        values, labels = np.empty(len(self)), np.empty(len(self.charges), np.int64)
        plane_values(self.features, w, self.charges, self.eps, values, labels)
        rest = values.sum() - self.tangent.constant.sum() - self.linear @ w
        return float(0.5 * w @ w + self.scale * rest)


@dataclass(frozen=True, kw_only=True)
class BlockPasses:
    """Passes over all chains in random order, for the driver; the problem is `ChainBlocks`."""

    average: bool = True  # whether the averaged weights are evaluated and returned
    every: int = 10  # passes between two exact gaps
    name: str = "frank-wolfe"  # in progress bars

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("average", self.average, [False, True])
        check.whole("every", self.every, 1)

    def start(self, problem: ChainBlocks, run: Run) -> Step:
        """Planes that touch at the right labels: no weights yet."""
        planes = problem.planes()
        order = run.rng.permutation(len(problem))
        return Step(PassState(planes, order, 0, 0.0, 0, np.inf, planes.w.copy()))

    def advance(self, problem: ChainBlocks, state: PassState, run: Run) -> Step:
        """A pass, or as much of one as is short."""
        if state.place == 0:
            state = state._replace(planes=Planes(*(part.copy() for part in state.planes)), met=0.0)
        left, work = len(state.order) - state.place, self._work(problem)
        count = plane_pass.portion(work, left) if left else 0
        some = state.order[state.place : state.place + count]
        sweep: Callable[..., float] = plane_pass.over(count * work)
        met = sweep(problem.features, state.planes, problem.charges, problem.eps, problem.scale, some)
        state = state._replace(place=state.place + count, met=state.met + met)
        if state.place < len(state.order):
            return Step(state)
        return self._finish(problem, state, run)

    def _work(self, problem: ChainBlocks) -> float:
        """Units of work of a chain, about."""
        x = problem.features
        entries = 3 * len(x.feature) * problem.tangent.rows.shape[1] / max(1, len(x.first))
        steps = 2 * len(problem.charges) * x.labels**2
        return float(entries + steps) / max(1, len(problem)) + 3 * x.labels**2

    def _finish(self, problem: ChainBlocks, state: PassState, run: Run) -> Step:
        """The numbers of a pass, and the order of the next."""
        per, passes = problem.scale * max(len(problem), 1), state.passes + 1
        dual = self._dual(problem, state)
        rough = state.met / max(len(problem), 1)
        is_due = passes % self.every == 0 or passes in (1, 2, 5, run.budget.max_iter)
        exact = is_due or rough < 2 * run.budget.tol
        least, found = state.least, state.found
        if exact:
            w = state.w_average if self.average else state.w
            value = problem.value(w)
            if value < least:
                least, found = value, w.copy()
        gap = least - dual
        if abs(gap) <= _ROUNDING * max(1.0, abs(least)):
            gap = 0.0
        residual = min(gap / per, UNKNOWN)
        order = run.rng.permutation(len(problem))
        state = state._replace(order=order, place=0, passes=passes, least=least, found=found, dual=dual / per)
        numbers = {"objective": least / per, "dual": dual / per, "gap": residual, "seconds": run.elapsed}
        trace = {name: [number] for name, number in numbers.items()}
        return Step(state, [residual], trace)

    def _dual(self, problem: ChainBlocks, state: PassState) -> float:
        """The better of the values of the last planes and of the averaged ones."""
        tally = state.planes.tally
        return max(problem.dual(state.w, tally[2]), problem.dual(state.w_average, tally[3]))

    def value(self, state: PassState) -> float:
        """Minus the lowest value met, because drivers take larger values to be better."""
        return -state.least

    def read(self, problem: ChainBlocks, outcome: Outcome) -> Outcome:
        """What the driver knows."""
        return outcome

    def weights(self, problem: ChainBlocks, state: PassState) -> np.ndarray:
        """The weights a run returns: its last, or those of the last evaluation where these are better."""
        w = state.w_average if self.average else state.w
        return w if problem.value(w) < state.least else state.found


def chain_blocks(
    layout: WeightLayout, batch: LabelledSequences, charges: np.ndarray, scale: float
) -> ChainBlocks | None:
    """Labelled sequences as blocks; None where their weights or labels are not those of plain chains."""
    size = layout.node.shape[1]
    is_plain = layout.count == layout.node.size + size * size and (layout.node >= 0).all()
    if batch.edges is not None or not batch.is_complete or not is_plain:
        return None
    assert batch.labels is not None
    rows, moves = known_statistics(batch.labels, batch.start, size)
    features = sparse_rows([batch.nodes], [size], np.arange(size)[None], batch.start, size)
    return ChainBlocks(features, charges, scale, Tangent(rows, moves, np.zeros(len(batch))))


def known_statistics(labels: np.ndarray, start: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Indicators of the labels of positions, and how often each chain has every pair of neighbours."""
    rows = np.zeros((len(labels), size))
    rows[np.arange(len(labels)), labels] = 1.0
    inside = np.ones(len(labels), dtype=bool)
    inside[start[:-1][np.diff(start) > 0]] = False
    second = np.flatnonzero(inside)
    moves = np.zeros((len(start) - 1, size, size))
    chain = np.repeat(np.arange(len(start) - 1), np.diff(start))[second]
    np.add.at(moves, (chain, labels[second - 1], labels[second]), 1.0)
    return rows, moves


def sparse_rows(
    tables: list[Any], cols: list[int], column: np.ndarray, start: np.ndarray, labels: int
) -> ChainFeatures:
    """Features of every block as sparse rows."""
    from scipy import sparse

    found = [sparse.csr_array(table) for table in tables]
    ends = np.cumsum([0, *(len(f.data) for f in found)])
    row = np.stack([f.indptr.astype(np.int64) + end for f, end in zip(found, ends, strict=False)])
    value = np.concatenate([f.data for f in found]).astype(np.float64)
    if (value == 1.0).all():
        value = np.empty(0)
    first = np.cumsum([0, *(f.shape[1] * c for f, c in zip(found, cols, strict=True))])
    feature = np.concatenate([f.indices for f in found]).astype(np.int32)
    at, wide = first[:-1].astype(np.int64), np.array(cols, dtype=np.int64)
    count = int(first[-1]) + labels * labels
    column = column.astype(np.int64)
    straight = (wide == column.shape[1]) & (column == np.arange(column.shape[1])).all(axis=1)
    return ChainFeatures(start, row, feature, value, at, wide, column, straight, labels, count)
