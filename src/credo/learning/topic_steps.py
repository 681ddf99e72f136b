r"""The step of what documents share: topics, gamma and the weights of components, preconditioned.

    alpha  alpha^m     +=  step I(alpha^m)^-1 (dF / d alpha^m) / lambda_m
    gamma  gamma       +=  step I(gamma)^-1 (dF / d gamma) / D                   (Newton's step)
    lambda log lambda_m += step (dF / d lambda_m) / (D + number of topic entropies), then normalised

where I is the Fisher information of a Dirichlet distribution. With one component and step 1 the first is the
update of mean field, and with a falling rate stochastic variational inference. Documents of a batch stand for
all: their terms are scaled by D / batch.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..inference.variational.topic_beliefs import TopicSettings, attached, moved, natural, topic_points
from ..inference.variational.topic_objective import Global, Points, topic_value
from ..nn.arrays import precision
from ..nn.compiled import Compiled

__all__ = ["topic_step"]


def _topic_step(
    shared: Global, by_documents: Global, eta: Any, points: Points | None, step: Any, total: Any, *,
    settings: TopicSettings,
) -> tuple[Global, Any]:  # fmt: skip
    """One step of what documents share, from the slopes of all their terms; and F_topics before it."""

    def topics(shared: Global) -> Any:
        own = attached(points, shared.topics, settings.closed)
        return topic_value(shared, eta, own, closed=settings.closed, joint=settings.joint)

    value, own = jax.value_and_grad(topics)(shared)
    slope = jax.tree.map(jnp.add, own, by_documents)
    weights = jax.nn.softmax(shared.logits)
    share = jnp.maximum(weights, np.finfo(weights.dtype).tiny)
    new = moved(shared.topics, step * natural(shared.topics, slope.topics) / share[:, None, None])
    prior, logits = shared.prior, shared.logits
    if settings.prior:
        prior = moved(prior, step * natural(prior, slope.prior) / total)
    if settings.weights and len(logits) > 1:
        copies = 1 if settings.joint else shared.topics.shape[1]
        logits = jax.nn.log_softmax(
            jax.nn.log_softmax(logits) + step * slope.logits / share / (total + copies)
        )
    return Global(logits, new, prior), value


_TOPIC_STEP = Compiled(_topic_step)


def topic_step(
    shared: Global,
    by_documents: Global,
    eta: float,
    step: float,
    total: float,
    settings: TopicSettings,
    rng: np.random.Generator,
) -> tuple[Global, float]:
    """One step of the topics, gamma and the weights, given the slopes of the documents' terms."""
    points = topic_points(shared, settings, rng)
    with precision(double=True):
        new, value = _TOPIC_STEP(shared, by_documents, eta, points, step, total, settings=settings)
        return jax.tree.map(np.asarray, new), float(value)
