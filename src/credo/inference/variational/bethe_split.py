"""Components that a mixture of products has no use for: which, and where they are tried next."""

from __future__ import annotations

import numpy as np

from ...families.natural import dirichlet_log_norm
from ..problem.starting_places import Places
from .bethe_plan import BetheLayout
from .bethe_system import BetheParameters

__all__ = ["overlaps", "relocated", "useless"]

_NEAR = 0.25  # overlap at which one of two is tried elsewhere
_DEAD = 0.01  # weight, relative to an equal share, below which a component is tried elsewhere


def overlaps(layout: BetheLayout, parameters: BetheParameters) -> np.ndarray:
    """(components, components) Bhattacharyya coefficients: 1 for equal ones, 0 for those far apart."""
    m = len(parameters.weights)
    logs = np.zeros((m, m))
    for kind, own, part in zip(layout.kinds, layout.members, parameters.parts, strict=True):
        if kind.family == "real":
            mean, variance = part[:, 0], np.exp(2 * part[:, 1])
            both = variance[:, None] + variance
            squares = (mean[:, None] - mean) ** 2 / both
            logs += (0.5 * np.log(2 * np.sqrt(variance[:, None] * variance) / both) - 0.25 * squares).sum(-1)
        elif kind.family == "discrete":
            exists = np.arange(kind.size)[:, None] < layout.graph.variables.sizes[own]
            p = np.where(exists, np.exp(part - part.max(axis=1, keepdims=True)), 0.0)
            p = np.sqrt(p / p.sum(axis=1, keepdims=True))
            logs += np.log(np.maximum(np.einsum("akn,bkn->abn", p, p), 1e-300)).sum(-1)
        else:
            alpha = np.exp(part)
            alpha = np.moveaxis(alpha, 1, -1)  # coordinates last
            norm = dirichlet_log_norm(alpha)
            both = dirichlet_log_norm(0.5 * (alpha[:, None] + alpha))
            logs += (both - 0.5 * (norm[:, None] + norm)).sum(-1)
    return np.exp(np.minimum(logs, 0.0))


def useless(layout: BetheLayout, parameters: BetheParameters) -> dict[int, int]:
    """Components without weight, or on top of a heavier one -> the heaviest one that they overlap with."""
    weights = np.exp(parameters.weights - np.logaddexp.reduce(parameters.weights))
    overlap, found = overlaps(layout, parameters), dict[int, int]()
    heavy = np.argsort(-weights, kind="stable")
    for rank, k in enumerate(heavy[1:], start=1):
        before = [int(j) for j in heavy[:rank] if int(j) not in found]
        nearest = max(before, key=lambda j: overlap[k, j])
        if weights[k] < _DEAD / len(weights) or overlap[k, nearest] > _NEAR:
            found[int(k)] = nearest
    return found


def relocated(
    layout: BetheLayout,
    places: Places,
    parameters: BetheParameters,
    fresh: BetheParameters,
    which: dict[int, int],
) -> BetheParameters:
    """Components moved to where the others are not: mirrored at the centres, near a new start."""
    weights = parameters.weights.copy()
    parts = [part.copy() for part in parameters.parts]
    for k, beside in which.items():
        weights[beside] = np.logaddexp(weights[beside], weights[k])
        for kind, own, part, new in zip(layout.kinds, layout.members, parts, fresh.parts, strict=True):
            part[k] = new[k]
            if kind.family == "real":
                part[k, 0] = places.centre[own] - part[beside, 0] + 0.5 * (new[k, 0] + places.centre[own])
    for k in which:
        weights[k] = np.logaddexp.reduce(weights) - np.log(len(weights))
    return BetheParameters(weights, tuple(parts))
