"""Refusal of models that are Gaussian given states, and have no integral given some of them.

The product of all factors has an integral only if it has one for every joint state of positive weight. Real
variables all of whose factors are Gaussian, or are so given states, are looked at part by part: the precision
matrix of a part has to be positive definite for every joint state of its discrete neighbours that no residual
and no table forbids. Parts with too many joint states pass.
"""

from __future__ import annotations

import math

import numpy as np

from ...core.density import quadratic
from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch
from ...structures.graph import component_labels
from .gaussian_system import closed_only, gaussian_only, no_integral

__all__ = ["refuse_improper_states"]

_MOST_WORK = 2.0**24  # joint states times cubes of variables that are looked at
_SINGULAR = 1e-12  # a smaller eigenvalue of a matrix with unit diagonal is zero
_SHOWN = 3  # variables that are named


def refuse_improper_states(graph: FactorGraph) -> None:
    """Raise an error if the Gaussians of some joint state have no integral."""
    own = closed_only(graph)
    if not (own & ~gaussian_only(graph)).any():
        return
    groups = [g for g in graph.batches if len(g.domains) and own[g.scopes[:, 0]].any()]
    pairs = [(int(s[0]), int(j)) for g in groups for s in g.scopes for j in s[1 : _reals(g, graph)]]
    row, column = np.array(pairs, np.int64).reshape(-1, 2).T
    label = component_labels(len(graph.variables), row, column)
    for part in np.unique(label[own]):
        _refuse_part(graph, groups, label, int(part), own)


def _reals(group: FactorBatch, graph: FactorGraph) -> int:
    return int((graph.variables.sizes[group.scopes[0]] == 0).sum())


def _refuse_part(
    graph: FactorGraph, groups: list[FactorBatch], label: np.ndarray, part: int, own: np.ndarray
) -> None:
    variables = graph.variables
    real = np.flatnonzero((label == part) & own)
    if len(real) < 2:  # its profile tells
        return
    rows = [(g, a) for g in groups for a in np.flatnonzero(label[g.scopes[:, 0]] == part)]
    near = np.unique(np.concatenate([g.scopes[a, _reals(g, graph) :] for g, a in rows]))
    sizes = tuple(int(variables.sizes[i]) for i in near)
    if math.prod(sizes) * float(len(real)) ** 3 > _MOST_WORK or not len(near):
        return
    J, possible = np.zeros((*sizes, len(real), len(real))), np.ones(sizes, dtype=bool)
    for group, a in rows:
        k = _reals(group, graph)
        at, axes = np.searchsorted(real, group.scopes[a, :k]), np.searchsorted(near, group.scopes[a, k:])
        if group.function is quadratic:
            J[..., at[:, None], at] += group.parameters[0][a]
            continue
        w, _, v, c = (p[a] for p in group.parameters)
        J[..., at[:, None], at] += _spread(
            w[..., :, None] * w[..., None, :] / v[..., None, None], axes, len(near), 2
        )
        possible &= _spread(c > -np.inf, axes, len(near), 0)
    unit = np.sqrt(np.einsum("...ii->...i", J))
    unit = 1 / np.where(unit > 0, unit, 1.0)
    least = np.linalg.eigvalsh(J * unit[..., :, None] * unit[..., None, :])[..., 0]
    improper = possible & (least < _SINGULAR * len(real))
    if improper.any() and len(bad := np.argwhere(improper & _allowed(graph, near, sizes))):
        names = [variables.names[int(i)] for i in real[:_SHOWN]]
        state = {
            variables.names[int(i)]: variables[int(i)].states[int(s)]
            for i, s in zip(near, bad[0], strict=True)
        }
        raise no_integral(f"it does not fall off in some direction of {names} given {state}")


def _spread(values: np.ndarray, axes: np.ndarray, count: int, inner: int) -> np.ndarray:
    """An array over some discrete variables, in any order, as one over all of them."""
    order = np.argsort(axes)
    outer = len(axes)
    values = np.transpose(values, (*order, *range(outer, outer + inner)))
    missing = [k for k in range(count) if k not in set(axes.tolist())]
    return np.expand_dims(values, missing) if missing else values


def _allowed(graph: FactorGraph, near: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Joint states that every table by itself allows, whatever its other variables are."""
    allowed = np.ones(sizes, dtype=bool)
    for a in range(graph.n_factors):
        scope = graph.scopes[a]
        if not len(scope) or not (graph.variables.sizes[scope] > 0).all() or not np.isin(scope, near).any():
            continue
        factor = graph.factors[a]
        mesh = np.meshgrid(*(np.arange(int(graph.variables.sizes[i])) for i in scope), indexing="ij")
        table: np.ndarray = np.asarray(factor.log_values(*mesh)) > -np.inf
        inside = np.isin(scope, near)
        table = np.asarray(table.any(axis=tuple(np.flatnonzero(~inside).tolist())))
        allowed &= _spread(table, np.searchsorted(near, scope[inside]), len(near), 0)
    return allowed
