r"""Chains of labels with a hidden node at each: styles of letters, sub-states of phones.

    v_t(y, s) = x_t . W[:, y] + u_t . P[:, s] + z_t . V[:, y, s]
    r_t(y) = eps_h log sum_s exp( v_t(y, s) / eps_h ),    q_t(s | y) = exp( (v_t(y, s) - r_t(y)) / eps_h )
    S(y) = sum_t r_t(y_t) + sum_t move(y_{t-1}, y_t)

A hidden node touches its label only, so it is eliminated position by position, exactly and at any
temperature; what is left are labelled sequences (`structured_chains`), whose slopes by r are spread over
hidden states by q. Convex problems of CCCP go to the compiled passes (`structured_blocks`): planes stay below
U+ whatever the tangent of U-, so they are kept from one problem to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.records import record
from ..models.crf_features import MISSING
from ..models.crf_inputs import LabelledSequences
from ..models.crf_weights import LabelScores
from ..models.latent_inputs import KindBatch, KindEdges
from .label_sources import KeptByBatch
from .structured_blocks import ChainBlocks, PassState, Tangent, known_statistics, sparse_rows
from .structured_chains import ChainAnswers, answers_of_sequences, node_charges
from .structured_losses import LabelLoss
from .structured_members import RiskMember
from .structured_risk import Answered, flat_of

__all__ = ["LeafAnswers", "LeafRisk", "LeafWiring"]


class LeafWiring(NamedTuple):
    """Which kinds of a batch are labels, hidden nodes, steps and the edges between."""

    label: int
    hidden: int
    step: int
    leaf: int
    turned: bool  # whether the edges lead from hidden nodes to labels
    labels: int
    states: int

    @classmethod
    def of(cls, batch: Any) -> LeafWiring | None:
        """None where a batch is wired otherwise."""
        if not isinstance(batch, KindBatch) or len(batch.nodes) != 2 or len(batch.edges) != 2:
            return None
        seen = [bool((kind.labels != MISSING).any()) for kind in batch.nodes]
        if seen.count(True) != 1 or (batch.nodes[0].start != batch.nodes[1].start).any():
            return None
        label = seen.index(True)
        steps = [e for e, edge in enumerate(batch.edges) if edge.kinds == (label, label)]
        leaves = [e for e, edge in enumerate(batch.edges) if set(edge.kinds) == {0, 1}]
        if len(steps) != 1 or len(leaves) != 1:
            return None
        step, leaf, start = batch.edges[steps[0]], batch.edges[leaves[0]], batch.nodes[0].start
        if step.rows is not None or not _is_row(step, start, 1) or not _is_row(leaf, start, 0):
            return None
        sizes = batch.nodes[label].size, batch.nodes[1 - label].size
        return cls(label, 1 - label, steps[0], leaves[0], leaf.kinds[0] != label, *sizes)

    def joint(self, table: np.ndarray) -> np.ndarray:
        """A table (..., first, second) of the edges between as (..., label, hidden state)."""
        return np.swapaxes(table, -1, -2) if self.turned else table

    def sequences(self, batch: KindBatch) -> LabelledSequences:
        """The labels alone."""
        own = batch.nodes[self.label]
        return LabelledSequences(own.rows, None, own.labels, own.start)


def _is_row(edges: KindEdges, start: np.ndarray, ahead: int) -> bool:
    """Whether the edges of every input join each position to itself, or to the next, in order."""
    lengths = np.maximum(np.diff(start) - ahead, 0)
    if (np.diff(edges.start) != lengths).any():
        return False
    at = np.arange(int(lengths.sum())) - np.repeat(edges.start[:-1], lengths)
    return bool((edges.ends == np.stack([at, at + ahead], axis=1)).all())


class _Left(NamedTuple):
    """Scores with hidden states eliminated."""

    chain: LabelScores
    share: np.ndarray  # q, (positions, labels, hidden states)


@dataclass
class LeafAnswers:
    """Powered sums of such chains."""

    member: RiskMember  # which risk
    loss: LabelLoss | None  # of a labelling
    wiring: LeafWiring  # which leaf hangs where
    runs: int = 0  # of inference so far

    def __post_init__(self) -> None:
        """The sums of the sequences."""
        self.chains = ChainAnswers(self.member, self.loss)
        self._sequences = KeptByBatch(lambda batch, size: self.wiring.sequences(batch))

    @classmethod
    def of(cls, member: RiskMember, loss: LabelLoss | None, batch: Any) -> LeafAnswers | None:
        """None where the batch is none of such chains, or recursions do not answer."""
        wiring = LeafWiring.of(batch)
        if wiring is None or answers_of_sequences(member, loss, wiring.sequences(batch)) is None:
            return None
        return cls(member, loss, wiring)

    def report(self) -> list[str]:
        """Nothing can fail here."""
        return []

    def sequences(self, batch: KindBatch) -> LabelledSequences:
        """The labels alone; the same object for the same batch."""
        found: LabelledSequences = self._sequences.of(batch, 0)
        return found

    def charged(self, scores: Any, batch: KindBatch) -> Answered:
        """U+ of every input."""
        left, data = self.eliminate(scores), self.sequences(batch)
        return self._spread(scores, left, self.chains.charged(left.chain, data))

    def clamped(self, scores: Any, batch: KindBatch) -> Answered:
        """U- of every input."""
        left, data = self.eliminate(scores), self.sequences(batch)
        return self._spread(scores, left, self.chains.clamped(left.chain, data))

    def eliminate(self, scores: Any) -> _Left:
        """Sums over hidden states at eps_h, the best ones where that is zero."""
        at, eps = self.wiring, self.member.eps_h
        nodes = len(scores) - 2
        both = at.joint(scores[nodes + at.leaf])
        both = both + scores[at.label][:, :, None] + scores[at.hidden][:, None, :]
        top = both.max(axis=2, keepdims=True)
        if eps == 0:
            share = np.zeros(both.shape)
            np.put_along_axis(share, both.argmax(axis=2)[:, :, None], 1.0, axis=2)
            return _Left(LabelScores(top[:, :, 0], scores[nodes + at.step]), share)
        share = np.exp((both - top) / eps)
        total = share.sum(axis=2, keepdims=True)
        rows = (top + eps * np.log(total))[:, :, 0]
        return _Left(LabelScores(np.ascontiguousarray(rows), scores[nodes + at.step]), share / total)

    def _spread(self, scores: Any, left: _Left, found: Answered) -> Answered:
        """Slopes by the scores of all kinds."""
        at, size = self.wiring, left.chain.rows.size
        rows = found.slopes[:size].reshape(left.chain.rows.shape)
        joint, parts = rows[:, :, None] * left.share, list[np.ndarray]([rows] * 4)
        parts[at.label], parts[at.hidden] = rows, joint.sum(axis=1)
        leaf = at.joint(joint)
        parts[2 + at.leaf] = leaf if scores[2 + at.leaf].shape[0] == len(rows) else leaf.sum(axis=0)[None]
        parts[2 + at.step] = found.slopes[size:]
        return Answered(found.values, flat_of(parts))


@record("leaf place")
class LeafPlace(NamedTuple):
    """Weights, in the order of the passes, and the planes that were found on the way."""

    w: np.ndarray
    state: PassState | None = None
    dual: float = -np.inf  # of the convex problem that was solved last, per instance


@dataclass
class LeafRisk:
    """The whole risk and its convex problems, for CCCP with compiled passes; labels are all known."""

    answers: LeafAnswers  # values and slopes
    weights: Any  # of the field: `shapes`, `scores`
    first: np.ndarray  # the weights to start from
    batch: KindBatch  # the instances
    scale: float  # C
    average: bool = True  # over the instances, or their sum

    def __post_init__(self) -> None:
        """Where each weight stands in the order of the passes: label, hidden, leaf blocks, then moves."""
        at, sizes = self.answers.wiring, [int(np.prod(shape)) for shape in self.weights.shapes]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        own = [np.arange(ends[k], ends[k + 1]) for k in range(4)]
        order = [at.label, at.hidden, 2 + at.leaf, 2 + at.step]
        self.order = np.concatenate([own[k] for k in order])
        self._seen: dict[bytes, float] = {}

    @cached_property
    def blocks(self) -> ChainBlocks:
        """Features and losses, with planes of the right labels and no weights."""
        at, batch = self.answers.wiring, self.batch
        data, count = self.answers.sequences(batch), at.labels * at.states
        known, leaf = np.asarray(data.labels), batch.edges[at.leaf].rows
        leaf = np.ones((len(known), 1)) if leaf is None else leaf
        tables = [data.nodes, batch.nodes[at.hidden].rows, leaf]
        y, s = np.divmod(np.arange(count), at.states)
        column = np.stack([y, s, s * at.labels + y if at.turned else y * at.states + s])
        made = sparse_rows(tables, [at.labels, at.states, count], column, data.start, at.labels)
        charges = node_charges(self.answers.loss, data, at.labels)
        rows, moves = known_statistics(known, data.start, at.labels)
        alike = np.repeat(rows, at.states, axis=1) / at.states
        eps = self.answers.member.eps_h
        tangent = Tangent(alike, moves, eps * np.log(at.states) * np.diff(data.start))
        return ChainBlocks(made, charges, self.scale, tangent, eps)

    def begin(self) -> LeafPlace:
        """The weights given."""
        return LeafPlace(self.first[self.order])

    def theta(self, place: LeafPlace) -> np.ndarray:
        """The weights of a place, in the order of the field."""
        found = np.empty(len(place.w))
        found[self.order] = place.w
        return found

    def tangent(self, w: np.ndarray) -> Tangent:
        """The clamped part, linear at these weights."""
        theta = np.empty(len(w))
        theta[self.order] = w
        scores, at = self.weights.scores(theta, self.batch), self.answers.wiring
        left, data = self.answers.eliminate(scores), self.answers.sequences(self.batch)
        assert data.labels is not None
        here = np.arange(len(data.labels))
        rows, moves = known_statistics(data.labels, data.start, at.labels)
        share = left.share[here, data.labels]
        full = (rows[:, :, None] * share[:, None, :]).reshape(len(rows), -1)
        entropy = -self.answers.member.eps_h * (share * np.log(np.where(share > 0, share, 1.0))).sum(axis=1)
        unit = np.repeat(np.arange(len(data)), np.diff(data.start))
        return Tangent(full, moves, np.bincount(unit, entropy, minlength=len(data)))

    def value(self, x: LeafPlace) -> float:
        """The risk with its prior, per instance."""
        key = x.w.tobytes()
        if key not in self._seen:
            while len(self._seen) >= 8:
                self._seen.pop(next(iter(self._seen)))
            here = replace(self.blocks, tangent=self.tangent(x.w))
            self._seen[key] = here.value(x.w) / (self.scale * len(here))
        return self._seen[key]

    def bound(self, x: LeafPlace) -> ChainBlocks:
        """Planes stay below the convex part, wherever the tangent touches."""
        tangent = self.tangent(x.w)
        if x.state is None:  # planes of tangents touch where they were taken
            return replace(self.blocks, tangent=tangent)
        return replace(self.blocks, tangent=tangent, warm=x.state)

    def place(self, state: PassState) -> LeafPlace:
        """The lowest place met, or the last one if it is lower, with the planes of the last."""
        last = state.w_average if self.average else state.w.copy()
        places = [LeafPlace(w, state, state.dual) for w in (state.found, last)]
        return min(places, key=self.value)

    def change(self, old: LeafPlace, new: LeafPlace) -> float:
        """What the convex problem at the old place could still gain at most."""
        return max(self.value(old) - new.dual, 0.0)
