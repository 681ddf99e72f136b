r"""The two powered sums of structured prediction for labelled sequences, by recursions over all at once.

    eps_y = 0      best labels of the known positions, the others summed (`best_known`), or all maximised;
                   then the sum given these labels
    eps_y = eps_h  one sum of the scores divided by it, times it
    complete       eps_h makes no difference: a sum at eps_y

Other temperatures with missing labels are no single recursion: `answers_of` leaves them to general inference,
as losses of pairs of labels. Slack rescaling asks for max_y loss(y) (1 + S(y) - S(y_n)), which chains of a
Hamming loss answer by counting errors (`best_by_errors`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.records import record
from ..kernels.chain_maxima import best_by_errors, best_known
from ..kernels.chains import best_paths, score_chains
from ..models.crf_features import MISSING
from ..models.crf_inputs import LabelledNodes, LabelledSequences
from ..models.crf_weights import LabelScores
from .label_sources import KeptByBatch, expected_labels, given_rows
from .structured_losses import LabelLoss, LabelTables
from .structured_members import RiskMember
from .structured_risk import Answered, flat_of

__all__ = ["ChainAnswers", "SlackAnswers", "answers_of", "answers_of_sequences"]


def answers_of_sequences(member: RiskMember, loss: LabelLoss | None, batch: Any) -> ChainAnswers | None:
    """Answers for sequences, None where other inference has to be asked."""
    if not isinstance(batch, LabelledSequences) or batch.labels is None:
        return None
    is_one = batch.is_complete or member.eps_y in (0.0, member.eps_h)
    charges_pairs = isinstance(loss, LabelTables) and loss.edges is not None
    return ChainAnswers(member, loss) if is_one and not charges_pairs else None


def answers_of(member: RiskMember, loss: LabelLoss | None, batch: Any) -> Any:
    """Answers for sequences, with a hidden node at each label or without; None for other batches."""
    from .structured_leaves import LeafAnswers

    return answers_of_sequences(member, loss, batch) or LeafAnswers.of(member, loss, batch)


def node_charges(loss: LabelLoss | None, batch: LabelledSequences, size: int) -> np.ndarray:
    """(positions, labels) what every label costs."""
    assert batch.labels is not None
    if loss is None:
        return np.zeros((len(batch.labels), size))
    loss.check_whole(len(batch))
    unit = np.repeat(np.arange(len(batch)), np.diff(batch.start))
    return loss.charges([LabelledNodes(batch.labels, size, unit)])[0]


@record("chain answers", kept=("runs",))
@dataclass
class ChainAnswers:
    """Powered sums of sequences."""

    member: RiskMember  # which risk
    loss: LabelLoss | None = None  # of a labelling
    runs: int = 0  # sequences answered so far

    def report(self) -> list[str]:
        """Nothing can fail here."""
        return []

    @cached_property
    def _charges(self) -> KeptByBatch:
        return KeptByBatch(lambda batch, size: node_charges(self.loss, batch, size))

    def charged(self, scores: LabelScores, batch: LabelledSequences) -> Answered:
        """U+ of every sequence: labels and hidden ones are free, and wrong labels earn their loss."""
        charges = self._charges.of(batch, scores.rows.shape[1])
        charged = scores._replace(rows=scores.rows + charges)
        if self.member.eps_y > 0:
            return self._told(batch, *_powered(charged, batch, self.member.eps_y))
        return self._told(batch, *self._given(charged, batch, self.best(charged, batch)))

    def clamped(self, scores: LabelScores, batch: LabelledSequences) -> Answered:
        """U- of every sequence: known labels are given."""
        assert batch.labels is not None
        return self._told(batch, *self._given(scores, batch, batch.labels))

    def best(self, scores: LabelScores, batch: LabelledSequences) -> np.ndarray:
        """The best labels of known positions, -1 at the others."""
        initial, known = np.zeros(scores.rows.shape[1]), np.asarray(batch.labels) != MISSING
        if batch.is_complete or self.member.eps_h == 0:
            found = best_paths(initial, scores.pairs, scores.rows, batch.start)[0]
            return np.where(known, found, MISSING)
        return best_known(initial, scores.pairs, scores.rows, batch.start, known, self.member.eps_h)[0]

    def _given(
        self, scores: LabelScores, batch: LabelledSequences, labels: np.ndarray
    ) -> tuple[np.ndarray, LabelScores]:
        """Values and slopes where these labels are given, the missing ones eliminated."""
        if not batch.is_complete and self.member.eps_h > 0:
            return _powered(scores._replace(rows=given_rows(scores.rows, labels)), batch, self.member.eps_h)
        initial = np.zeros(scores.rows.shape[1])
        if not batch.is_complete:
            masked = given_rows(scores.rows, labels)
            labels = best_paths(initial, scores.pairs, masked, batch.start)[0]
        value = score_chains(initial, scores.pairs, scores.rows, batch.start, labels)
        return value, indicators(scores, batch, labels)

    def _told(self, batch: LabelledSequences, values: np.ndarray, slopes: LabelScores) -> Answered:
        """Without the sequences that have no label: they say nothing, on either side."""
        self.runs += len(batch)
        assert batch.labels is not None
        unit = np.repeat(np.arange(len(batch)), np.diff(batch.start))
        known = np.bincount(unit, batch.labels != MISSING, minlength=len(batch)) > 0
        return Answered(np.where(known, values, 0.0), flat_of(slopes))


def _powered(scores: LabelScores, batch: LabelledSequences, eps: float) -> tuple[np.ndarray, LabelScores]:
    """Eps times log of the sum of exp(score / eps), and its derivative."""
    log_z, slopes = expected_labels(scores if eps == 1 else scores.scaled(1.0 / eps), batch)
    return eps * log_z, slopes


def indicators(
    scores: LabelScores, batch: LabelledSequences, labels: np.ndarray, weight: np.ndarray | None = None
) -> LabelScores:
    """The weight of its sequence where a label stands; of steps that share a table their sum."""
    by = np.ones(len(labels)) if weight is None else np.repeat(weight, np.diff(batch.start))
    rows, pairs = np.zeros_like(scores.rows), np.zeros_like(scores.pairs)
    rows[np.arange(len(labels)), labels] = by
    first, second = labels[batch.ends].T
    at = np.zeros(len(first), np.int64) if batch.edges is None else batch.edge_rows
    np.add.at(pairs, (at, first, second), by[batch.edge_rows])
    return LabelScores(rows, pairs)


@record("slack answers", kept=("runs",))
@dataclass
class SlackAnswers(ChainAnswers):
    """The same with slack rescaling, U = max_y loss(y) (1 + S(y) - S(y_n)), for a loss that counts errors."""

    def charged(self, scores: LabelScores, batch: LabelledSequences) -> Answered:
        """U plus the score of the right labels, by the best score of every number of errors."""
        assert batch.labels is not None
        initial, labels, start = np.zeros(scores.rows.shape[1]), batch.labels, batch.start
        right = score_chains(initial, scores.pairs, scores.rows, start, labels)
        charges = self._charges.of(batch, len(initial))
        cost = np.append(charges.max(axis=1), 0.0)[start[:-1]] * (np.diff(start) > 0)
        path, value = best_by_errors(
            initial, scores.pairs, scores.rows, start, labels, cost=cost, right=right
        )
        unit = np.repeat(np.arange(len(batch)), np.diff(start))
        loss = cost * np.bincount(unit, path != labels, minlength=len(batch))
        told, known = (indicators(scores, batch, y, w) for y, w in ((path, loss), (labels, 1.0 - loss)))
        slopes = LabelScores(told.rows + known.rows, told.pairs + known.pairs)
        return self._told(batch, value + right, slopes)
