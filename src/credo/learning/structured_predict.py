r"""Predictions of fields with hidden kinds, made as they were learned.

    annealed         argmax_y eps_h log sum_h exp( score(y, h) / eps_h ), eps_h of the member
    marginal-map     the same with eps_h = 1
    joint-map        the same with eps_h = 0: best states of all nodes, the hidden ones dropped
    max-marginals    the most probable label of each node by itself

Hidden variables are eliminated before labels. Labels come from the same inference that learning used where it
is named here; marginal MAP is as hard as the structure makes it, and exact where that is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..inference.problem.base import Algorithm, Budget
from ..models.decodings import temperature_of
from ..models.latent_crf import LatentCRF
from ..models.latent_inputs import KindBatch
from ..optimise.run import call
from .structured_members import RiskMember, member_of
from .structured_risk import GraphAnswers, StructuredRisk, flat_of

__all__ = ["kind_log_likelihood", "kind_marginals", "predict_structures"]


def predict_structures(
    model: LatentCRF,
    x: Any,
    objective: str | RiskMember | None = None,
    *,
    decoding: str | None = None,
    inference: str | Algorithm | None = None,
    budget: Budget | None = None,
    seed: int | None = None,
) -> list[dict[str, np.ndarray]]:
    """Labels of every input, kind by kind, for the kinds that have labels.

    Parameters
    ----------
    model, x
        A field, and inputs as it was learned from.
    objective
        The member that says how labels are predicted, if not the one the field was learned by.
    decoding
        How they are, if not as the field or that member says: "marginal-map", "joint-map", "max-marginals" or
        "annealed(eps_h=0.3)", or "annealed" at the temperature of `objective`.
    inference
        The algorithm that answers; None is exact where that is small.
    budget, seed
        Of each run of it.

    Examples
    --------
    >>> import credo, numpy as np
    >>> from credo.learning import predict_structures
    >>> field = credo.LatentCRF(
    ...     {"part": ("y", "h")}, {"h": 2}, states={"y": ["no", "yes"]},
    ...     node_weights={"y": [[0.0, 0.5]], "h": [[0.0, 0.0]]}, edge_weights={"part": [[[1, 1], [1.2, 0]]]},
    ... )
    >>> one = [{"nodes": {"y": 1, "h": 1}, "edges": {"part": None}}]
    >>> [str(predict_structures(field, one, how)[0]["y"][0]) for how in ("mssvm", "lssvm")]
    ['yes', 'yes']
    """
    batch = _asked(model, x)
    how = _decoding(model, objective, decoding)
    eps_h = temperature_of(how)
    with call():
        if eps_h is None:
            return [
                {
                    kind: np.array(model.labels[kind], dtype=object)[p.argmax(axis=1)]
                    for kind, p in own.items()
                }
                for own in _marginals(model, batch, inference, budget, seed)
            ]
        answers = GraphAnswers(RiskMember(how, 0.0, eps_h, False), None, inference, budget or Budget(), seed)
        flat = _flat(model, batch)
        found: list[Any] = [None] * len(batch)
        for group in answers.groups(batch):
            labels = answers.best(group, flat[group.entries]).labels
            assert labels is not None
            for n, own in zip(group.which.tolist(), labels, strict=True):
                found[n] = _by_kind(model, batch, n, own)
    nothing = {kind: np.empty(0, object) for kind in model.observed}
    return [nothing if own is None else own for own in found]


def kind_marginals(
    model: LatentCRF,
    x: Any,
    *,
    inference: str | Algorithm | None = None,
    budget: Budget | None = None,
    seed: int | None = None,
) -> list[dict[str, np.ndarray]]:
    """Probabilities (nodes, labels) of every input, kind by kind, for the kinds that have labels."""
    with call():
        return _marginals(model, _asked(model, x), inference, budget, seed)


def kind_log_likelihood(
    model: LatentCRF,
    x: Any,
    y: Any,
    *,
    inference: str | Algorithm | None = None,
    budget: Budget | None = None,
    seed: int | None = None,
) -> np.ndarray:
    """Log p(labels | features) of every input, hidden nodes and missing labels summed out."""
    with call():
        batch = model.read_batch(x, y)
        answers = GraphAnswers(member_of("hcrf"), None, inference, budget or Budget(), seed)
        weights = model.score_weights(batch)
        found: np.ndarray = -StructuredRisk(answers).values(weights.scores(weights.start, batch), batch)
        return found


def _asked(model: Any, x: Any) -> KindBatch:
    """Inputs whose kinds with labels are to be told."""
    if not isinstance(model, LatentCRF):
        raise ModelError(f"predict_structures: expected a LatentCRF, got {type(model).__name__}")
    batch = model.read_batch(x)
    told = [replace(k, labels=np.full(len(k.labels), -int(kind in model.hidden)))
            for kind, k in zip(model.kinds, batch.nodes, strict=True)]  # fmt: skip
    return replace(batch, nodes=tuple(told))


def _decoding(model: LatentCRF, objective: str | RiskMember | None, decoding: str | None) -> str:
    """How labels are predicted: as was asked, as a member says, or as the field was learned."""
    if objective is None:
        return model.decoding if decoding is None else decoding
    member = member_of(objective)
    if decoding is None:
        return member.prediction(has_hidden=bool(model.hidden))
    return f"annealed(eps_h={member.eps_h!r})" if decoding == "annealed" else decoding


def _flat(model: LatentCRF, batch: KindBatch) -> np.ndarray:
    weights = model.score_weights(batch)
    return flat_of(weights.scores(weights.start, batch))


def _marginals(
    model: LatentCRF, batch: KindBatch, inference: Any, budget: Budget | None, seed: int | None
) -> list[dict[str, np.ndarray]]:
    answers = GraphAnswers(member_of("hcrf"), None, inference, budget or Budget(), seed)
    flat = _flat(model, batch)
    nothing = {kind: np.empty((0, len(model.labels[kind]))) for kind in model.observed}
    found: list[dict[str, np.ndarray]] = [nothing] * len(batch)
    for group in answers.groups(batch):
        slopes = answers.charged_group(group, flat).slopes
        for n, own in zip(group.which.tolist(), slopes, strict=True):
            at, told = 0, {}
            for kind, nodes in zip(model.kinds, batch.nodes, strict=True):
                count = int(nodes.start[n + 1] - nodes.start[n])
                told[kind] = own[at : at + count * nodes.size].reshape(count, nodes.size)
                at += count * nodes.size
            found[n] = {kind: told[kind] for kind in model.observed}
    return found


def _by_kind(model: LatentCRF, batch: KindBatch, n: int, labels: np.ndarray) -> Mapping[str, np.ndarray]:
    """Labels of one input by kind."""
    at, found = 0, {}
    for kind, nodes in zip(model.kinds, batch.nodes, strict=True):
        count = int(nodes.start[n + 1] - nodes.start[n])
        if kind not in model.hidden:
            found[kind] = np.array(model.labels[kind], dtype=object)[labels[at : at + count]]
        at += count
    return found
