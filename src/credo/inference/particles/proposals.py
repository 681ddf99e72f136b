"""Where the next particles come from: a random walk, a table of the beliefs, or normal densities."""

from __future__ import annotations

import numpy as np

from .cloud import Cloud, believe
from .edges import unary_values
from .pairs import ParticlePairs
from .tables import draw, moments

__all__ = ["from_normal", "from_table", "walk"]

_TABLE = 64  # least number of points of a tabulated belief
_MARGIN = 0.25  # of a table beyond the particles, as a share of their range
_LEAST = 1e-3  # standard deviation of a proposal, as a share of that of the last particles
_WIDER = 1.5  # a normal proposal than the belief: what lies beyond its reach would never be found


def walk(
    pairs: ParticlePairs, cloud: Cloud, steps: int, stride: float, rng: np.random.Generator
) -> tuple[Cloud, float]:
    """Metropolis steps of every particle, and the share of them that was accepted."""
    real = pairs.is_real[:, None]
    x = cloud.particles
    length = stride * np.where(real, x.std(axis=1, keepdims=True), 0.0)
    beliefs, _, messages = believe(pairs, cloud, x)
    accepted = 0.0
    for _ in range(steps):
        tried = x + length * rng.standard_normal(x.shape)
        new_beliefs, _, new_messages = believe(pairs, cloud, tried)
        with np.errstate(invalid="ignore", divide="ignore"):
            better = np.log(rng.random(x.shape)) < new_beliefs - beliefs  # false for -inf less -inf
        better &= real
        x, beliefs = np.where(better, tried, x), np.where(better, new_beliefs, beliefs)
        messages = np.where(better[pairs.receiver], new_messages, messages)
        accepted += float(better[pairs.is_real].mean()) / steps
    beliefs, cavities = pairs.beliefs(unary_values(pairs, x), messages)
    at = np.where(np.isneginf(beliefs), np.inf, beliefs)  # a particle that never found weight has none
    log_base = np.where(real, -np.log(x.shape[1]) - at, cloud.log_base)
    return Cloud.of(pairs, x, log_base, beliefs, cavities), accepted


def from_table(pairs: ParticlePairs, cloud: Cloud, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws from the beliefs of real variables, tabulated, and the logs of their density."""
    real = pairs.is_real
    old = np.sort(cloud.particles[real], axis=1)
    count = max(_TABLE, cloud.particles.shape[1])
    margin = _MARGIN * (old[:, -1] - old[:, 0])
    even = np.linspace(old[:, 0] - margin, old[:, -1] + margin, count - count // 2, axis=1)
    chosen = np.linspace(0, old.shape[1] - 1, count // 2).round().astype(np.int64)
    points = np.zeros((pairs.n, count)) + cloud.particles[:, :1]
    points[real] = np.sort(np.concatenate([even, old[:, chosen]], axis=1), axis=1)
    beliefs = believe(pairs, cloud, points)[0]
    return draw(points[real], beliefs[real], uniforms)


def from_normal(pairs: ParticlePairs, cloud: Cloud, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws from normal densities with the moments of the last beliefs, and the logs of their density."""
    from scipy.special import ndtri

    real = pairs.is_real
    mean, variance = moments(cloud.particles[real], cloud.log_mass[real])
    sd = np.maximum(_WIDER * np.sqrt(variance), _LEAST * cloud.particles[real].std(axis=1))[:, None]
    normal = ndtri(np.clip(uniforms, 1e-15, 1 - 1e-15))
    return mean[:, None] + sd * normal, -0.5 * normal**2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
