r"""The Bethe value of a mixture of products for latent Dirichlet allocation, and its slopes.

Model: topics beta_k ~ Dir(eta) over V words; per document theta_d ~ Dir(gamma), and per token z ~ theta_d,
w ~ beta_z. Beliefs: M components with shared weights lambda, each the product of Dirichlets of all beta_k and
theta_d (concentrations alpha) and of categoricals pi_w(z) that all tokens of one word in a document share:

    b_beta        = sum_m lambda_m prod_k Dir(beta_k | alpha_k^m)
    b_w(z, theta) = sum_m lambda_m pi_w^m(z) Dir(theta | alpha^m),      and so on

With responsibilities r_m(x) = lambda_m Dir(x | alpha^m) / b(x) and rho_w(z, x) = log sum_m r_m(x) pi_w^m(z),
the Bethe value is, with counts c_w of the words of a document,

    F   = F_topics + sum_d F_d
    F_d = E[log p(theta | gamma)] + H(b_theta) + sum_w c_w { E[log theta_z] + E[log beta_zw] - H(b_w) }
          - sum_w c_w { E[rho_w(z, theta)] + E[rho_w(z, beta)] }
    F_topics = sum_k E[log p(beta_k | eta)] + sum_k H(b_beta_k)

which is (7.6) of the source with the large logarithms of Dirichlet densities cancelled. `joint` replaces the
last sum by H(b_beta), so that all terms treat the topics as one variable. E[rho] under one component is
-H(pi_w): with M = 1 F is the evidence lower bound of mean field.

Entropies are split so that only what mixes has to be estimated: under component m

    -log b(x) = -log Dir(x | alpha^m) - log lambda_m + log r_m(x),

where the first part has a closed form. What is left is averaged over points x with weights: samples, or the
nodes of a quadrature. Slopes follow (A.1): values are held fixed and the measure is differentiated, through
lambda, pi and the log Dirichlet density at the points. What has a closed form may be averaged over points too
(`closed=False`); then the points themselves are differentiated, where they depend on the concentrations,
because the score of thousands of words is all noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln

__all__ = ["Documents", "Global", "Local", "Points", "document_values", "log_density", "topic_value"]


class Global(NamedTuple):
    """What all documents share."""

    logits: Any  # (M,) of the weights
    topics: Any  # (M, K, V) concentrations of beta
    prior: Any  # (K,) gamma


class Local(NamedTuple):
    """What belongs to a batch of documents."""

    theta: Any  # (B, M, K) concentrations
    words: Any  # (B, M, U, K) probabilities pi of the topics of each distinct word


class Documents(NamedTuple):
    """A batch of documents: distinct words and counts, padded with counts of zero."""

    words: Any  # (B, U) positions in the vocabulary
    counts: Any  # (B, U)
    real: Any  # (B,) 1 for documents, 0 for padding


class Points(NamedTuple):
    """Where expectations under each component are taken."""

    log_topics: Any  # (M, S, K, V) log beta
    topic_weights: Any  # (M, S)
    log_theta: Any  # (B, M, S, K)
    theta_weights: Any  # (B, M, S)


def _log_beta(a: Any) -> Any:
    return gammaln(a).sum(axis=-1) - gammaln(a.sum(axis=-1))


def log_density(log_x: Any, a: Any) -> Any:
    """Log Dirichlet density on the last axis."""
    return ((a - 1.0) * log_x).sum(axis=-1) - _log_beta(a)


def _expected_log(a: Any) -> Any:
    return digamma(a) - digamma(a.sum(axis=-1, keepdims=True))


def _entropy(a: Any) -> Any:
    return _log_beta(a) - ((a - 1.0) * _expected_log(a)).sum(axis=-1)


_hold = jax.lax.stop_gradient
TINY = 1e-300  # probabilities below this count as this


def _average(weights: Any, values: Any, log_density: Any) -> Any:
    """Mean of values (..., S, *rest) over points, with the slope of the measure.

    That slope is the sum of w (f - mean) d log density.

    `weights` and `log_density` are (..., S); values may have derivatives of their own.
    """
    extra = values.ndim - log_density.ndim
    w = weights.reshape(*weights.shape, *[1] * extra)
    score = log_density.reshape(*log_density.shape, *[1] * extra)
    axis = log_density.ndim - 1
    mean = (w * values).sum(axis=axis)
    gap = _hold(values - jnp.expand_dims(mean, axis))
    return mean + (w * gap * (score - _hold(score))).sum(axis=axis)


def _mean(weights: Any, values: Any) -> Any:
    """Mean of values (..., S, *rest) over points, differentiated through values and weights."""
    return (weights.reshape(*weights.shape, *[1] * (values.ndim - weights.ndim)) * values).sum(
        weights.ndim - 1
    )


class _Mixing(NamedTuple):
    """What points say about the components they may come from; component m of the points on axis -3."""

    own: Any  # (..., M, S) log density under their own component, differentiable
    log_share: Any  # (..., M, S, M) log responsibilities, held fixed

    @property
    def log_own_share(self) -> Any:
        """Log responsibility of their own component, (..., M, S)."""
        return jnp.moveaxis(jnp.diagonal(self.log_share, axis1=-3, axis2=-1), -1, -2)


def _mixing(logits: Any, terms: Any) -> _Mixing:
    """From log densities (..., M, S, M) of points of each component under all components."""
    own = jnp.moveaxis(jnp.diagonal(terms, axis1=-3, axis2=-1), -1, -2)
    return _Mixing(own, _hold(jax.nn.log_softmax(jax.nn.log_softmax(logits) + terms, axis=-1)))


def _pair_logs(mixing: _Mixing, words: Any) -> Any:
    """The numbers rho = log sum_m r_m(x) pi^m(z), (B, M, S, U, K), held fixed."""
    share = jnp.exp(mixing.log_share)
    if share.ndim == 3:  # of topics, which all documents share
        return _hold(_safe_log(jnp.einsum("msl,bluk->bmsuk", share, words)))
    return _hold(_safe_log(jnp.einsum("bmsl,bluk->bmsuk", share, words)))


def document_values(
    shared: Global, local: Local, documents: Documents, points: Points | None, *, closed: bool
) -> Any:
    """F_d of every document, (B,), with slopes; `points` may be left out for one component in closed form."""
    weights = jax.nn.softmax(shared.logits)
    theta, words, counts = local.theta, local.words, documents.counts
    mixed = jnp.einsum("m,bmuk->buk", weights, words)
    value = (counts[..., None] * mixed * _hold(_safe_log(mixed))).sum(axis=(1, 2))
    if points is None:
        prior, log_theta = _closed_theta(shared, theta)
        log_words = _expected_log(shared.topics)[:, :, documents.words]  # (M, K, B, U)
        per_word = (
            log_theta[:, :, None, :] + jnp.moveaxis(log_words, (0, 1), (1, 3)) - 2 * _hold(_safe_log(words))
        )
        entropy = _entropy(theta) - _hold(jax.nn.log_softmax(shared.logits))
    else:
        prior, entropy, per_word = _with_points(shared, local, documents, points, closed)
    inner = (counts[:, None, :, None] * words * per_word).sum(axis=(2, 3))
    return (value + (weights * (prior + entropy + inner)).sum(axis=1)) * documents.real


def _closed_theta(shared: Global, theta: Any) -> tuple[Any, Any]:
    log_theta = _expected_log(theta)
    return ((shared.prior - 1.0) * log_theta).sum(axis=-1) - _log_beta(shared.prior), log_theta


def _with_points(
    shared: Global, local: Local, documents: Documents, points: Points, closed: bool
) -> tuple[Any, Any, Any]:
    """Per document and component: E[log p(theta)], the entropy of theta, and what each word adds."""
    at, log_weights = points.log_theta, _hold(jax.nn.log_softmax(shared.logits))
    terms = log_density(_hold(at)[..., None, :], local.theta[:, None, None, :, :])  # (B, M, S, M)
    theta_mixing, topic_mixing = _mixing(shared.logits, terms), _topic_mixing(shared, points)
    own, weight = theta_mixing.own, _hold(points.theta_weights)
    if closed:
        prior, log_theta = _closed_theta(shared, local.theta)
        entropy = _entropy(local.theta)
        log_words = _expected_log(shared.topics)[:, :, documents.words]  # (M, K, B, U)
    else:
        prior = _mean(points.theta_weights, log_density(at, shared.prior))
        log_theta = _mean(points.theta_weights, at)
        entropy = -_mean(points.theta_weights, log_density(at, _hold(local.theta)[:, :, None, :]))
        log_words = _mean(points.topic_weights, points.log_topics)[:, :, documents.words]
    entropy = entropy - log_weights + _average(weight, theta_mixing.log_own_share, own)
    log_words = jnp.moveaxis(log_words, (0, 1), (1, 3))
    by_theta = _average(weight, _pair_logs(theta_mixing, local.words), own)
    by_topics = _by_topics(topic_mixing, points, local.words)
    return prior, entropy, log_theta[:, :, None, :] + log_words - by_theta - by_topics


def _by_topics(mixing: _Mixing, points: Points, words: Any) -> Any:
    """E[rho_w(z, beta)], (B, M, U, K); where words tell the components apart no point is needed."""

    def mixed(own: Any) -> Any:
        rho = jnp.moveaxis(_pair_logs(mixing, words), 0, 2)  # (M, S, B, U, K)
        return jnp.moveaxis(_average(_hold(points.topic_weights), rho, own), 1, 0)

    def apart(own: Any) -> Any:
        return _hold(_safe_log(words)) + 0.0 * own.sum()

    return jax.lax.cond((mixing.log_own_share > -1e-12).all(), apart, mixed, mixing.own)


def _topic_mixing(shared: Global, points: Points) -> _Mixing:
    return _mixing(shared.logits, _topic_terms(shared, points).sum(axis=-1))


def _topic_terms(shared: Global, points: Points) -> Any:
    """Log densities of points under all components, topic by topic, (M, S, M, K)."""
    inner = jnp.einsum("mskv,lkv->mslk", _hold(points.log_topics), shared.topics - 1.0)
    return inner - _log_beta(shared.topics)


def topic_value(shared: Global, eta: Any, points: Points | None, *, closed: bool, joint: bool) -> Any:
    """F_topics with slopes; `joint` takes the entropy of all topics together."""
    weights, log_weights = jax.nn.softmax(shared.logits), _hold(jax.nn.log_softmax(shared.logits))
    V = shared.topics.shape[-1]
    log_norm = gammaln(eta) * V - gammaln(eta * V)
    copies = 1 if joint else shared.topics.shape[1]
    if points is None:
        prior = (eta - 1.0) * _expected_log(shared.topics).sum(axis=-1) - log_norm
        return weights @ ((prior + _entropy(shared.topics)).sum(axis=1) - copies * log_weights)
    per_topic = _topic_terms(shared, points)
    terms = per_topic.sum(axis=-1)[None] if joint else jnp.moveaxis(per_topic, -1, 0)  # (copies, M, S, M)
    mixing = _mixing(shared.logits, terms)
    weight = jnp.broadcast_to(_hold(points.topic_weights), mixing.own.shape)
    shares = _average(weight, mixing.log_own_share, mixing.own).sum(axis=0) - copies * log_weights
    if closed:
        prior, entropy = (eta - 1.0) * _expected_log(shared.topics).sum(axis=-1), _entropy(shared.topics)
    else:
        log_topics = _mean(points.topic_weights, points.log_topics)
        prior = (eta - 1.0) * log_topics.sum(axis=-1)
        held = _hold(shared.topics)
        entropy = _log_beta(held) - ((held - 1.0) * log_topics).sum(axis=-1)
    return weights @ ((prior - log_norm + entropy).sum(axis=1) + shares)


def _safe_log(x: Any) -> Any:
    return jnp.log(jnp.maximum(x, np.finfo(x.dtype).tiny))
