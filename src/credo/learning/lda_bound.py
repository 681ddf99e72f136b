r"""A lower bound on the entropy of a mixture of products, for one document of latent Dirichlet allocation.

    b(z, theta, beta) = sum_m lambda_m prod_n pi_n^m(z_n) Dir(theta | a^m) prod_k Dir(beta_k | c_k^m)

    H(b) >= -sum_l lambda_l log Q_l,       Q_l = sum_m lambda_m O_ml                           (Jensen)
    O_ml = prod_n ( sum_z pi_n^m(z) pi_n^l(z) ) * overlap(a^m, a^l) * prod_k overlap(c_k^m, c_k^l)

The overlap of two Dirichlet densities has a closed form, and is infinite unless all a_i + a'_i > 1:

    overlap(a, a') = int Dir(x | a) Dir(x | a') dx = B(a + a' - 1) / (B(a) B(a')).

Where an overlap is infinite the bound is -inf. The derivative of the bound by a parameter of component m is

    -lambda_m sum_l lambda_l (1 / Q_l + 1 / Q_m) dO_ml / d parameter,

the sum over all l, m among them: O_mm changes through both of its places.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.errors import ModelError
from ..families.natural import dirichlet_expected_log, dirichlet_log_norm

__all__ = ["EntropySlopes", "dirichlet_log_overlap", "entropy_bound", "entropy_bound_slopes"]


class EntropySlopes(NamedTuple):
    """Derivatives of the bound, as if all numbers were free."""

    words: np.ndarray  # (M, N, K) by pi
    theta: np.ndarray  # (M, K) by the concentrations of theta
    topics: np.ndarray  # (M, K, V) by those of beta
    weights: np.ndarray  # (M,) by lambda


def dirichlet_log_overlap(a: Any, other: Any) -> np.ndarray:
    """Log of the integral of the product of two Dirichlet densities, on the last axis; inf where it diverges.

    Examples
    --------
    >>> from credo.learning.lda_bound import dirichlet_log_overlap
    >>> float(dirichlet_log_overlap([1.0, 1.0], [3.0, 2.0]).round(6))  # a uniform density is 1 everywhere
    0.0
    >>> float(dirichlet_log_overlap([0.4, 1.0], [0.5, 1.0]))
    inf
    """
    a, other = np.asarray(a, dtype=np.float64), np.asarray(other, dtype=np.float64)
    both = a + other - 1.0
    finite = (both > 0).all(axis=-1)
    found = dirichlet_log_norm(np.where(both > 0, both, 1.0))
    found = found - dirichlet_log_norm(a) - dirichlet_log_norm(other)
    return np.asarray(np.where(finite, found, np.inf))


def _checked(weights: Any, words: Any, theta: Any, topics: Any) -> tuple[np.ndarray, ...]:
    w, pi, a, c = (np.asarray(x, dtype=np.float64) for x in (weights, words, theta, topics))
    shapes = [len(w)] if w.ndim == 1 else []
    if not shapes or pi.ndim != 3 or a.ndim != 2 or c.ndim != 3 or {len(pi), len(a), len(c)} != {len(w)}:
        raise ModelError(
            "entropy bound: expected weights (M,), words (M, N, K), theta (M, K) and topics (M, K, V), got "
            f"{w.shape}, {pi.shape}, {a.shape} and {c.shape}"
        )
    return w, pi, a, c


def _log_overlaps(pi: np.ndarray, a: np.ndarray, c: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        found = np.log(np.einsum("mnk,lnk->mln", pi, pi)).sum(axis=-1)
    found = found + dirichlet_log_overlap(a[:, None], a[None])
    return np.asarray(found + dirichlet_log_overlap(c[:, None], c[None]).sum(axis=-1))


def entropy_bound(weights: Any, words: Any, theta: Any, topics: Any) -> float:
    """The bound for one document.

    Parameters
    ----------
    weights
        Of the components, (M,).
    words
        Probabilities of the topics of each token, (M, N, K).
    theta
        Concentrations of the document's frequencies of topics, (M, K).
    topics
        Concentrations of the topics, (M, K, V).

    Examples
    --------
    >>> from credo.learning.lda_bound import entropy_bound
    >>> flat = [[1.0, 1.0]]  # where all is uniform the bound is tight
    >>> round(entropy_bound([1.0], [[[0.5, 0.5]]], flat, [[[1.0, 1.0], [1.0, 1.0]]]), 6)
    0.693147
    """
    w, pi, a, c = _checked(weights, words, theta, topics)
    with np.errstate(divide="ignore"):
        log_q = np.logaddexp.reduce(np.log(w)[:, None] + _log_overlaps(pi, a, c), axis=0)
    used = w > 0
    return 0.0 - float(w[used] @ log_q[used])


def entropy_bound_slopes(weights: Any, words: Any, theta: Any, topics: Any) -> EntropySlopes:
    """Derivatives of `entropy_bound` by all of its arguments; the overlaps must be finite."""
    w, pi, a, c = _checked(weights, words, theta, topics)
    logs = _log_overlaps(pi, a, c)
    if not (logs < np.inf).all():
        raise ModelError("entropy bound: an overlap is infinite (two concentrations add up to 1 or less)")
    with np.errstate(divide="ignore"):
        log_q = np.logaddexp.reduce(np.log(w)[:, None] + logs, axis=0)
    overlap = np.exp(logs)
    # (M, M): minus lambda_m lambda_l (1 / Q_l + 1 / Q_m) O_ml, to be multiplied by d log O_ml.
    pull = -w[:, None] * w[None, :] * overlap * (np.exp(-log_q)[None, :] + np.exp(-log_q)[:, None])
    dots = np.einsum("mnk,lnk->mln", pi, pi)
    by_words = np.einsum("ml,mln,lnk->mnk", pull, 1.0 / dots, pi)
    return EntropySlopes(
        by_words,
        np.einsum("ml,mlk->mk", pull, _log_overlap_slope(a[:, None], a[None])),
        np.einsum("ml,mlkv->mkv", pull, _log_overlap_slope(c[:, None], c[None])),
        np.asarray(-log_q - overlap @ (w * np.exp(-log_q))),
    )


def _log_overlap_slope(a: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Derivative of the log overlap by the first concentrations."""
    return dirichlet_expected_log(a + other - 1.0) - dirichlet_expected_log(a)
