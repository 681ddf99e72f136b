r"""Block-coordinate Frank-Wolfe for risks with a maximum over labels, one block per instance.

    P(w) = lam/2 |w|^2 + (1/N) sum_n [ U_n+(w) - c_n - g_n . w ],      lam = 1 / (scale^2 N)

c_n + g_n . w is the known part U_n-: linear where nothing is hidden, otherwise its tangent (a step of CCCP).
An instance keeps a plane below U_n+, beta_n + m_n . scores(w): m_n mixes the statistics of labellings that
were best somewhere, beta_n their losses and, of hidden variables, entropies. The dual problem is to choose
planes:

    w = (1 / (lam N)) sum_n (g_n - pull m_n),    D = - lam/2 |w|^2 + (1/N) sum_n (beta_n - c_n)  <=  min P

A block asks for the best labels of its instance at w, which touch U_n+ there, and mixes their plane in by the
best length; gap = P - D at one place. Statistics are kept, never expanded features. Places are averaged with
weights 2 / (k + 2), and of the last place and the average that with the smaller P is taken.

Source: Lacoste-Julien, Jaggi, Schmidt and Pletscher 2013, algorithm 4 and section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.records import record
from ..optimise.frank_wolfe import Active
from .structure_groups import StructureGroup, scattered
from .structured_risk import GraphAnswers, flat_of, like

__all__ = ["KnownParts", "PlaneParts", "PlaneProblem", "Planed"]


class KnownParts(NamedTuple):
    """The known parts of all instances, as a linear function of the weights."""

    slope: np.ndarray  # sum of g_n
    value: float  # sum of c_n
    means: tuple[np.ndarray, ...]  # (entries,) statistics of every instance that make g_n
    offsets: tuple[float, ...]  # c_n


@record("planed")
class Planed(NamedTuple):
    """Planes of all instances, and the weights that belong to them."""

    w: np.ndarray
    means: tuple[np.ndarray, ...]  # m_n, by entries of the tables of the instance
    offsets: tuple[float, ...]  # beta_n
    average: np.ndarray
    done: int = 0  # steps
    dual: float = -np.inf  # D


@record("plane")
class _Vertex(NamedTuple):
    """The plane that touches at a place."""

    mean: np.ndarray
    offset: float
    turn: np.ndarray  # by how much the features of the plane differ from those that are kept


_NOWHERE = np.empty(0)  # the turn of a plane that is not looked at from anywhere


class _Part(NamedTuple):
    """One instance by itself."""

    batch: Any
    group: StructureGroup


@dataclass(frozen=True)
class PlaneParts:
    """The instances of a batch one by one, and how weights make their scores."""

    weights: Any  # ScoreWeights
    answers: GraphAnswers  # values and slopes
    batch: Any

    @cached_property
    def parts(self) -> list[_Part]:
        """Those with a label, group after group."""
        found = []
        for group in self.answers.groups(self.batch):
            for k, n in enumerate(group.which.tolist()):
                own = self.batch.take(np.array([n]))
                charges = None if group.charges is None else group.charges[k : k + 1]
                entries, labels = own.entries_of(0)[None], group.labels[k : k + 1]
                found.append(
                    _Part(own, StructureGroup(np.zeros(1, int), group.graph, entries, labels, charges))
                )
        return found

    def flat(self, w: np.ndarray, part: _Part) -> np.ndarray:
        """Scores of one instance."""
        return flat_of(self.weights.scores(w, part.batch))

    def pull(self, mean: np.ndarray, part: _Part) -> np.ndarray:
        """Features of statistics of one instance."""
        empty = self.weights.scores(np.zeros(len(self.weights.start)), part.batch)
        size = sum(a.size for a in empty)
        total: np.ndarray = self.weights.pull(
            like(empty, scattered([part.group.entries], [mean], size)), part.batch
        )
        return total

    def tangent(self, w: np.ndarray) -> KnownParts:
        """The known parts, linear at `w`."""
        scores = self.weights.scores(w, self.batch)
        flat, means, offsets, slopes, entries = flat_of(scores), [], [], [], []
        for group in self.answers.groups(self.batch):
            found = self.answers.clamped_group(group, flat)
            means += list(found.slopes)
            offsets += list(found.values - (found.slopes * flat[group.entries]).sum(axis=1))
            slopes.append(found.slopes)
            entries.append(group.entries)
        total = self.weights.pull(like(scores, scattered(entries, slopes, len(flat))), self.batch)
        return KnownParts(total, float(np.sum(offsets)), tuple(means), tuple(map(float, offsets)))


@dataclass(frozen=True)
class PlaneProblem:
    """The dual problem, as `optimise.frank_wolfe` takes it: minus D is minimised."""

    source: PlaneParts  # of the planes
    tangent: KnownParts  # of the concave part
    scale: float  # of the prior: the square root of C
    first: Planed | None = None  # planes to begin with; None: those of the known labels

    @property
    def blocks(self) -> int:
        """One for every instance with a label."""
        return len(self.source.parts)

    @property
    def total(self) -> float:
        """N, all instances counted."""
        return float(self.source.batch.total)

    @cached_property
    def lam(self) -> float:
        """The strength of the squares per instance."""
        return 1.0 / (self.scale**2 * self.total)

    def begin(self) -> tuple[Planed, list[Any]]:
        """Planes of an earlier tangent stay below; those of the known labels always are."""
        if self.first is None:
            means, offsets = self.tangent.means, self.tangent.offsets
            w = np.zeros(len(self.tangent.slope))
        else:
            means, offsets = self.first.means, self.first.offsets
            w = self._weights(means)
        vertices = [_Vertex(mean, offset, _NOWHERE) for mean, offset in zip(means, offsets, strict=True)]
        return self._judged(Planed(w, means, offsets, w)), vertices

    def _weights(self, means: tuple[np.ndarray, ...]) -> np.ndarray:
        parts = zip(self.source.parts, means, strict=True)
        total = sum((self.source.pull(mean, part) for part, mean in parts), np.zeros_like(self.tangent.slope))
        found: np.ndarray = (self.tangent.slope - total) * self.scale**2
        return found

    def _judged(self, x: Planed) -> Planed:
        dual = (sum(x.offsets) - self.tangent.value) / self.total - 0.5 * self.lam * float(x.w @ x.w)
        return x._replace(dual=dual)

    def value(self, x: Planed) -> float:
        """Minus D."""
        return -self._judged(x).dual

    def best(self, x: Planed, block: int) -> tuple[_Vertex, float]:
        """The plane that touches U_n+ at `x.w`, and how far the one that is kept lies below it there."""
        part = self.source.parts[block]
        flat = self.source.flat(x.w, part)
        found = self.source.answers.charged_group(part.group, flat)
        own, mean = flat[part.group.entries[0]], found.slopes[0]
        offset = float(found.values[0] - mean @ own)
        gap = float(found.values[0] - (x.means[block] @ own + x.offsets[block])) / self.total
        return _Vertex(mean, offset, self.source.pull(mean - x.means[block], part)), gap

    def length(self, x: Planed, block: int, vertex: _Vertex, gap: float, most: float, *, away: bool) -> float:
        """The highest place of D on the line, which is a parabola."""
        turn = self._turn(x, block, vertex.mean) if away else vertex.turn
        bend = float(turn @ turn) * self.scale**2 / self.total
        return min(most, max(gap, 0.0) / bend) if bend > 0 else most * (gap > 0)

    def moved(self, x: Planed, block: int, vertex: _Vertex, length: float) -> Planed:
        """The plane mixed in, and the average with the new place."""
        mean = x.means[block] + length * (vertex.mean - x.means[block])
        offset = x.offsets[block] + length * (vertex.offset - x.offsets[block])
        return self._with(x, block, mean, offset, x.w - self.scale**2 * length * vertex.turn)

    def mixed(self, x: Planed, block: int, active: Active) -> Planed:
        """The planes mixed anew."""
        shares = np.array(active.weights)
        mean = shares @ np.stack([vertex.mean for vertex in active.vertices])
        offset = float(shares @ np.array([vertex.offset for vertex in active.vertices]))
        return self._with(x, block, mean, offset, x.w - self.scale**2 * self._turn(x, block, mean))

    def excess(self, x: Planed, block: int, vertex: _Vertex) -> float:
        """How far a plane lies below the one that is kept, at `x.w`."""
        part = self.source.parts[block]
        own = self.source.flat(x.w, part)[part.group.entries[0]]
        below = (x.means[block] - vertex.mean) @ own + x.offsets[block] - vertex.offset
        return float(below) / self.total

    def key(self, vertex: _Vertex) -> bytes:
        """Planes of the same statistics are one."""
        return vertex.mean.tobytes()

    def _turn(self, x: Planed, block: int, mean: np.ndarray) -> np.ndarray:
        return self.source.pull(mean - x.means[block], self.source.parts[block])

    def _with(self, x: Planed, block: int, mean: np.ndarray, offset: float, w: np.ndarray) -> Planed:
        share = 2.0 / (x.done + 2)
        means = (*x.means[:block], mean, *x.means[block + 1 :])
        offsets = (*x.offsets[:block], offset, *x.offsets[block + 1 :])
        return Planed(w, means, offsets, x.average + share * (w - x.average), x.done + 1, x.dual)

    def primal(self, w: np.ndarray) -> float:
        """P."""
        scores = self.source.weights.scores(w, self.source.batch)
        plus = float(self.source.answers.charged(scores, self.source.batch).values.sum())
        known = self.tangent.value + float(self.tangent.slope @ w)
        return 0.5 * self.lam * float(w @ w) + (plus - known) / self.total
