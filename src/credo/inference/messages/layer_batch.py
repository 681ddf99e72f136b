"""Belief propagation on many pairs of layers with the same weights: in one call, a problem per row of fields.

Pair probabilities are summed over the problems, in blocks, and never kept for each of them; a problem has
messages only while it is worked on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...kernels import layer_maxima, layer_messages
from ...kernels.boltzmann import sigmoid, softplus_sums
from ...kernels.jit import threads
from .layer_bp import flush_of, widest_of

__all__ = ["LayerAnswers", "LayerMaxima", "layer_joint_states", "layer_states", "layer_sums"]


class LayerAnswers(NamedTuple):
    """Beliefs of many problems."""

    left: np.ndarray  # (problems, m) probabilities
    right: np.ndarray  # (problems, n)
    values: np.ndarray  # (problems,) the Bethe log Z
    pairs: np.ndarray  # (m, n) p(x_i = 1, y_j = 1), summed over problems with their shares
    change: np.ndarray  # (problems,) the last change of a belief
    sweeps: np.ndarray  # (problems,) taken


class LayerMaxima(NamedTuple):
    """States of many problems."""

    left: np.ndarray  # (problems, m) states
    right: np.ndarray  # (problems, n) states, or probabilities where that layer is summed
    values: np.ndarray  # (problems,) of these states
    sweeps: np.ndarray  # (problems,) taken


def layer_sums(
    weights: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    sweeps: int,
    tol: float,
    shares: np.ndarray | None = None,
    kind: Any = np.float32,
) -> LayerAnswers:
    """Sum-product from first messages on problems with fields left (problems, m) and right (problems, n)."""
    count, (m, n) = len(left), weights.shape
    shares = np.ones(count) if shares is None else shares
    strongest = float(np.abs(weights).max(initial=0.0))
    blocks = max(1, min(threads(), count))
    beliefs, values = np.empty((count, m + n), kind), np.empty(count)
    pairs = np.zeros((blocks, m, n), kind)
    parts = [np.ascontiguousarray(part, dtype=kind) for part in (np.exp(weights), left, right, shares)]
    last, done = layer_messages.layer_batch.over(2.0 * m * n * sweeps * count)(
        *parts, flush_of(kind, strongest), widest_of(kind) - strongest, kind(1), sweeps, tol, blocks,
        beliefs, values, pairs,
    )  # fmt: skip
    p = sigmoid(beliefs.astype(np.float64))
    return LayerAnswers(p[:, :m], p[:, m:], values, pairs.sum(axis=0, dtype=np.float64), last, done)


def layer_states(
    weights: np.ndarray, left: np.ndarray, right: np.ndarray, sweeps: int, kind: Any = np.float32
) -> LayerMaxima:
    """The best states of the left layer that were met, with the right one summed; p(right | left)."""
    count, strongest = len(left), float(np.abs(weights).max(initial=0.0))
    best = np.zeros((count, weights.shape[0]), kind)
    parts = [np.ascontiguousarray(p, dtype=kind) for p in (np.exp(weights), weights, left, right)]
    blocks = max(1, min(threads(), count))
    done = layer_maxima.layer_climbs.over(float(weights.size) * sweeps * count)(
        *parts, flush_of(kind, strongest), widest_of(kind) - strongest, kind(1), sweeps, blocks, best
    )
    states = best.astype(np.float64)
    inputs = right + states @ weights
    values = (left * states).sum(axis=1) + softplus_sums(inputs)
    return LayerMaxima(states, sigmoid(inputs), values, done)


def layer_joint_states(
    weights: np.ndarray, left: np.ndarray, right: np.ndarray, sweeps: int, tol: float, kind: Any = np.float32
) -> LayerMaxima:
    """Joint states by max-product: the left layer as it believes, the right one the best answer to it."""
    count, (m, n) = len(left), weights.shape
    beliefs = np.empty((count, m + n), kind)
    parts = [np.ascontiguousarray(p, dtype=kind) for p in (weights, left, right)]
    _, done = layer_maxima.layer_joint_maxima.over(2.0 * m * n * sweeps * count)(
        *parts, sweeps, tol, max(1, min(threads(), count)), beliefs
    )
    states = (beliefs[:, :m] > 0).astype(np.float64)
    inputs = right + states @ weights
    answers = (inputs > 0).astype(np.float64)
    values = (left * states).sum(axis=1) + (inputs * answers).sum(axis=1)
    return LayerMaxima(states, answers, values, done)
