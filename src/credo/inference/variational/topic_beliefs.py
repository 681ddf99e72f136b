r"""How the Bethe value of latent Dirichlet allocation is climbed: preconditioned stochastic steps.

The slopes of `topic_objective.py` are turned into steps that do not depend on how parameters are scaled:

    pi     log pi_w^m  +=  step (dF / d pi_w^m) / (c_w lambda_m), then normalised
    alpha  alpha^m     +=  step I(alpha^m)^-1 (dF / d alpha^m) / lambda_m
    gamma  gamma       +=  step I(gamma)^-1 (dF / d gamma) / D                   (Newton's step)
    lambda log lambda_m += step (dF / d lambda_m) / (D + number of topic entropies), then normalised

where I is the Fisher information of a Dirichlet distribution. With one component and step 1 the first two are
the updates of mean field, and the step of the topics with a falling rate is stochastic variational inference.
A step shrinks a concentration to a tenth at most, and no further than to a millionth, so that it stays
positive. Documents of a batch stand for all: their terms are scaled by D / batch.

The beliefs of documents (theta and pi) are climbed to the top for every batch before the topics take a step;
with several components each is climbed alone, in closed form, and a few steps of all follow, whose
expectations are sampled: these never settle, and cost some hundred times as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, polygamma

from ...nn.arrays import precision
from ...nn.compiled import Compiled
from .topic_objective import Documents, Global, Local, Points, document_values, topic_value

__all__ = [
    "CHUNK",
    "TopicSettings",
    "Trained",
    "attached",
    "fit_documents",
    "free_energy",
    "log_gammas",
    "moved",
    "natural",
    "padded",
    "topic_points",
]

CHUNK = 256  # documents treated at once
_SHRINK = 0.1  # of a concentration, at most, in one step
_LEAST = 1e-6  # concentration: logarithms of samples stay below a few millions
_DAMPED = 0.5  # step of documents with several components, where full steps oscillate
_TOGETHER = 6  # most steps of documents from where each component alone ends: then only noise moves them
_FALL = 0.7  # power with which steps of documents shrink where all expectations are sampled


class TopicSettings(NamedTuple):
    """What a program is compiled for."""

    samples: int  # points per expectation that has no closed form
    closed: bool  # whether the others are taken in closed form
    joint: bool  # whether the topics have one entropy
    weights: bool  # whether the weights of the components change
    prior: bool  # whether gamma changes


def natural(a: Any, slope: Any) -> Any:
    """I(a)^-1 slope, with the Fisher information diag(psi'(a)) - psi'(sum a) of Dirichlets (last axis)."""
    if a.shape[-1] == 1:  # one point: nothing to learn
        return jnp.zeros_like(a)
    each, whole = polygamma(1, a), polygamma(1, a.sum(axis=-1, keepdims=True))
    scaled = slope / each
    left = 1.0 - whole * (1.0 / each).sum(axis=-1, keepdims=True)
    return scaled + whole * scaled.sum(axis=-1, keepdims=True) / left / each


def _expected_log(a: Any) -> Any:
    return digamma(a) - digamma(a.sum(axis=-1, keepdims=True))


def moved(a: Any, step: Any) -> Any:
    """Concentrations after a step, which shrinks none of them to less than a tenth."""
    return jnp.maximum(jnp.maximum(a + step, _SHRINK * a), _LEAST)


def _first_local(shared: Global, documents: Documents, theta: Any) -> Local:
    """Beliefs of words that suit beliefs of documents."""
    log_words = jnp.moveaxis(_expected_log(shared.topics)[:, :, documents.words], (0, 1), (1, 3))
    return Local(theta, jax.nn.softmax(log_words + _expected_log(theta)[:, :, None, :], axis=-1))


def _theta_points(key: Any, theta: Any, count: int) -> tuple[Any, Any]:
    """Points (B, M, S, K) of log theta with weights (B, M, S), a smooth function of the concentrations.

    Gammas as Marsaglia and Tsang propose them, d (1 + z / sqrt(9 d))^3 with d = a + 2/3 for Gamma(a + 1);
    what they would reject gets a small weight instead. Times a uniform variable to the power 1 / a this is
    Gamma(a).
    """
    one, other = jax.random.split(key)
    a = jnp.broadcast_to(theta[:, :, None, :], (*theta.shape[:2], count, theta.shape[2]))
    z = jax.random.normal(one, a.shape, dtype=a.dtype)
    d = a + 2.0 / 3.0
    root = jnp.maximum(1.0 + z / jnp.sqrt(9.0 * d), 1e-3)
    log_v = 3.0 * jnp.log(root)
    log_accept = (0.5 * z**2 + d - d * jnp.exp(log_v) + d * log_v).sum(axis=-1)
    drawn = jnp.log(d) + log_v - jax.random.exponential(other, a.shape, dtype=a.dtype) / a
    log_theta = drawn - jax.nn.logsumexp(drawn, axis=-1, keepdims=True)
    return log_theta, jax.nn.softmax(log_accept, axis=-1)


def attached(points: Points | None, topics: Any, closed: bool) -> Points | None:
    """Samples of topics that move with their concentrations: implicit derivatives of Gamma variables."""
    if points is None or closed:
        return points
    a, log_g, shrink = topics[:, None], points.log_topics[0], points.log_topics[1]
    g = jnp.exp(log_g)
    slope = jax.lax.random_gamma_grad(jnp.broadcast_to(a + 1.0, g.shape), g) / g + shrink / a**2
    drawn = log_g - shrink / a
    moved = jax.lax.stop_gradient(drawn) + jax.lax.stop_gradient(slope) * (a - jax.lax.stop_gradient(a))
    return points._replace(log_topics=moved - jax.nn.logsumexp(moved, axis=-1, keepdims=True))


def _fit_documents(
    shared: Global,
    documents: Documents,
    drawn: Points | None,
    key: Any,
    limits: Any,
    *,
    settings: TopicSettings,
) -> tuple[Local, Any, Global]:
    """The beliefs of documents, F_d of each, and the slopes of their sum by what documents share."""
    weights = jax.nn.softmax(shared.logits)
    share = jnp.maximum(weights, np.finfo(weights.dtype).tiny)
    single = len(shared.logits) == 1
    scale = jnp.maximum(documents.counts, 1e-9)[:, None, :, None] * share[:, None, None]

    def total(shared: Global, local: Local, k: Any) -> Any:
        points = attached(drawn, shared.topics, settings.closed)
        if points is not None:
            # The same noise in every step lets the beliefs settle; where all is sampled, steps shrink.
            own = key if settings.closed else jax.random.fold_in(key, k)
            log_theta, weight = _theta_points(own, local.theta, settings.samples)
            points = points._replace(log_theta=log_theta, theta_weights=weight)
        values = document_values(shared, local, documents, points, closed=settings.closed)
        return values.sum(), values

    def slopes(local: Local, k: Any) -> Local:
        return jax.grad(total, argnums=1, has_aux=True)(shared, local, k)[0]  # type: ignore[no-any-return]

    def step(carry: Any) -> Any:
        local, k, _ = carry
        size = _DAMPED if settings.closed else (1.0 + k) ** -_FALL
        slope = slopes(local, k)
        log_words = jnp.log(jnp.maximum(local.words, np.finfo(slope.words.dtype).tiny))
        words = jax.nn.softmax(log_words + size * slope.words / scale, axis=-1)
        theta = moved(local.theta, size * natural(local.theta, slope.theta) / share[:, None])
        if not single:  # no narrower than the posterior given the topics of the words: noise has no bound
            theta = theta * jnp.minimum(1.0, most / theta.sum(axis=-1, keepdims=True))
        change = jnp.abs(theta - local.theta).mean(axis=(1, 2)) * documents.real
        return Local(theta, words), k + 1, change.max()

    def mean_field(carry: Any) -> Any:
        """A full step with one component in closed form: words first, then what suits them."""
        local, k, _ = carry
        words = _first_local(shared, documents, local.theta).words
        theta = shared.prior + (documents.counts[:, None, :, None] * words).sum(axis=2)
        change = jnp.abs(theta - local.theta).mean(axis=(1, 2)) * documents.real
        return Local(theta, words), k + 1, change.max()

    def go_on(carry: Any) -> Any:
        return (carry[1] < limits[0]) & (carry[2] > limits[1])

    def go_on_together(carry: Any) -> Any:
        return go_on(carry) & (carry[1] < _TOGETHER)

    length = documents.counts.sum(axis=1)[:, None, None]
    even, most = length / len(shared.prior), length + shared.prior.sum()
    theta = jnp.broadcast_to(shared.prior + even, (len(even), len(share), len(shared.prior)))
    first = _first_local(shared, documents, theta)
    local, k = first, 0
    if settings.closed:  # with several components this is where each alone would end, a start for all
        local, k, _ = jax.lax.while_loop(go_on, mean_field, (first, 0, jnp.inf))
    if not (single and settings.closed):
        local, k, _ = jax.lax.while_loop(
            go_on_together if settings.closed else go_on, step, (local, 0, jnp.inf)
        )
    by_shared, values = jax.grad(total, has_aux=True)(shared, local, k)
    return local, values, by_shared


_FIT_DOCUMENTS = Compiled(_fit_documents)


def padded(corpus: Any, rows: np.ndarray) -> Documents:
    """Some documents of a corpus as arrays of few shapes, so that few programs serve them."""
    longest = int(np.diff(corpus.start).max())
    unit = max(1, (1 << (longest - 1).bit_length()) // 8)
    width = -(-longest // unit) * unit
    count = min(CHUNK, len(corpus)) if len(rows) > CHUNK // 2 else 1 << int(len(rows) - 1).bit_length()
    count = max(count, len(rows))
    words, counts = np.zeros((count, width), dtype=np.int64), np.zeros((count, width))
    for d, row in enumerate(rows):
        mine = slice(corpus.start[row], corpus.start[row + 1])
        length = corpus.start[row + 1] - corpus.start[row]
        words[d, :length], counts[d, :length] = corpus.words[mine], corpus.counts[mine]
    return Documents(words, counts, (np.arange(count) < len(rows)).astype(np.float64))


@dataclass(frozen=True)
class Trained:
    """What was found about a batch of documents."""

    local: Local  # beliefs
    values: np.ndarray  # F_d of each
    slopes: Global  # of their sum


def log_gammas(
    concentration: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Logs of Gamma(a + 1) variables g and exponential ones e, (count, *shape).

    The logarithm of a Gamma(a) variable is log g - e / a, because such a variable is a Gamma(a + 1) one
    times a uniform one to the power 1 / a: nothing underflows.
    """
    shape = (count, *concentration.shape)
    return np.log(rng.standard_gamma(concentration + 1.0, shape)), rng.exponential(size=shape)


def topic_points(shared: Global, settings: TopicSettings, rng: np.random.Generator) -> Points | None:
    """Samples of the topics; none where everything has a closed form.

    Where all is sampled, the two parts of their Gamma variables are kept on a first axis, for `_attached`.
    """
    if len(shared.logits) == 1 and settings.closed:
        return None
    parts = [np.moveaxis(part, 0, 1) for part in log_gammas(shared.topics, settings.samples, rng)]
    even = np.full(parts[0].shape[:2], 1.0 / settings.samples)
    if not settings.closed:
        return Points(np.stack(parts), even, None, None)
    drawn = parts[0] - parts[1] / shared.topics[:, None]
    top = drawn.max(axis=-1, keepdims=True)
    log_topics = drawn - top - np.log(np.exp(drawn - top).sum(axis=-1, keepdims=True))
    return Points(log_topics, even, None, None)


def fit_documents(
    shared: Global,
    documents: Documents,
    limits: tuple[int, float],
    settings: TopicSettings,
    rng: np.random.Generator,
) -> Trained:
    """Climb the beliefs of a batch of documents from equally frequent topics; NumPy arrays.

    `limits` are the most steps, and the mean change of concentrations that ends them.
    """
    points = topic_points(shared, settings, rng)
    with precision(double=True):
        key = jax.random.PRNGKey(int(rng.integers(2**31)))
        found = _FIT_DOCUMENTS(shared, documents, points, key, limits, settings=settings)
        local, values, slopes = jax.tree.map(np.asarray, found)
    return Trained(local, values, slopes)


def _free_energy(
    shared: Global,
    local: Local,
    documents: Documents,
    points: Points | None,
    eta: Any,
    *,
    closed: bool,
    joint: bool,
) -> Any:
    value = document_values(shared, local, documents, points, closed=closed).sum()
    return value + topic_value(shared, eta, points, closed=closed, joint=joint)


_FREE_ENERGY = Compiled(_free_energy)


def free_energy(
    shared: Global,
    local: Local,
    documents: Documents,
    points: Points | None,
    eta: float,
    *,
    closed: bool,
    joint: bool,
) -> float:
    """F of given beliefs, with given points for what has no closed form; documents are not scaled."""
    with precision(double=True):
        return float(_FREE_ENERGY(shared, local, documents, points, eta, closed=closed, joint=joint))
