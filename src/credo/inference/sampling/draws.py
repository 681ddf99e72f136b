"""Draws of several chains, and what can be said of them: marginals, samples, diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.belief import Density
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...core.result import FactorMarginals, Marginals, Samples
from ...core.variable import Variables
from ...families.densities import ParticleDensity, SimplexParticleDensity
from ...optimise.run import watched
from .diagnostics import Diagnosis, diagnose, r_hat

__all__ = [
    "Draws",
    "diagnose_draws",
    "draw_factor_marginals",
    "draw_marginals",
    "draw_samples",
    "join",
    "worst_r_hat",
]

_BATCH = 2**23  # flags diagnosed at once
_TOGETHER = 2**14  # numbers diagnosed at once


@record("draws")
class Draws(NamedTuple):
    """Draws of several chains."""

    states: np.ndarray  # (chains, draws, n) state indices, -1 for continuous variables
    values: dict[str, np.ndarray]  # name of a continuous variable -> (chains, draws) or (..., width)
    logs: np.ndarray | None = None  # (chains, draws) log density, where it is known


def join(parts: Sequence[Draws], axis: int = 1) -> Draws:
    """Draws one after another, or chains (axis 0) side by side."""

    # How sums over draws are rounded must not depend on how many came at a time.
    def joined(arrays: list[Any]) -> np.ndarray:
        return np.ascontiguousarray(np.concatenate(arrays, axis=axis))

    values = {name: joined([p.values[name] for p in parts]) for name in parts[0].values}
    logs = None if parts[0].logs is None else joined([p.logs for p in parts])
    return Draws(joined([p.states for p in parts]), values, logs)


def draw_marginals(variables: Variables, draws: Draws) -> Marginals:
    """Frequencies of states, and points of equal weight."""
    flat = np.zeros(int(variables.state_start[-1]))
    total = draws.states.shape[0] * draws.states.shape[1]
    densities: dict[str, Density] = {}
    for i, name in enumerate(variables.names):
        if variables.sizes[i]:
            counts = np.bincount(draws.states[:, :, i].ravel(), minlength=int(variables.sizes[i]))
            flat[variables.state_start[i] : variables.state_start[i + 1]] = counts / total
            continue
        points = draws.values[name]
        points = points.reshape(total, *points.shape[2:])
        kind = ParticleDensity if points.ndim == 1 else SimplexParticleDensity
        densities[name] = kind(points, np.full(total, 1 / total))
    return Marginals(variables, flat, densities)


def draw_factor_marginals(graph: FactorGraph, draws: Draws) -> FactorMarginals:
    """Frequencies of the joint states of every table's scope, counted when they are read."""
    chains, each, n = draws.states.shape
    return FactorMarginals(graph, partial(_frequencies, graph, draws.states.reshape(chains * each, n)))


def _frequencies(graph: FactorGraph, states: np.ndarray) -> np.ndarray:
    size, stride, parts = graph.table_size, graph.wiring.edge_stride, [np.empty(0)]
    for a in watched(range(graph.n_tables)):
        edges = slice(int(graph.scope_start[a]), int(graph.scope_start[a + 1]))
        where = states[:, graph.scope[edges]] @ stride[edges]
        parts.append(np.bincount(where, minlength=int(size[a])) / len(states))
    return np.concatenate(parts)


def draw_samples(variables: Variables, draws: Draws, wanted: int) -> Samples:
    """All draws, chain after chain; or as many as were asked for, evenly spread over them."""
    total = draws.states.shape[0] * draws.states.shape[1]
    rows: Any = slice(None)
    if 0 < wanted < total:
        rows = np.linspace(0, total - 1, wanted).round().astype(np.int64)
    values = {name: v.reshape(total, *v.shape[2:])[rows] for name, v in draws.values.items()}
    return Samples(variables, draws.states.reshape(total, len(variables))[rows], values)


def diagnose_draws(variables: Variables, draws: Draws) -> Diagnosis:
    """R-hat, effective sample size and standard error per variable."""
    n = len(variables)
    chains, each, _ = draws.states.shape
    found = Diagnosis(np.ones(n), np.full(n, float(chains * each)), np.zeros(n))
    for owner, columns, is_flag in _pieces(variables, draws):
        _keep_worst(found, owner, diagnose(columns, is_flag=is_flag))
    return found


def worst_r_hat(variables: Variables, draws: Draws) -> float:
    """The largest R-hat of a variable, 1 without any."""
    every = (r_hat(columns, is_flag=is_flag).max() for _, columns, is_flag in _pieces(variables, draws))
    return float(max(every, default=1.0))


def _pieces(variables: Variables, draws: Draws) -> Iterator[tuple[np.ndarray, np.ndarray, bool]]:
    """Variables, numbers (chains, draws, some) of theirs, and whether these are flags of states."""
    for owner, columns in _columns(variables, draws):
        yield owner, columns, False
    chains, each, _ = draws.states.shape
    owner, state = _indicators(variables)
    step = max(1, _BATCH // max(chains * each, 1))
    for first in range(0, len(owner), step):
        part = slice(first, first + step)
        yield owner[part], draws.states[:, :, owner[part]] == state[part], True


def _columns(variables: Variables, draws: Draws) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of continuous variables (chains, draws, some), and the variables that they belong to."""
    chains, each, _ = draws.states.shape
    names = np.array([i for i, size in enumerate(variables.sizes) if not size], dtype=np.int64)
    step = max(1, _TOGETHER // max(chains * each, 1))
    for first in range(0, len(names), step):
        part = names[first : first + step]
        columns = [draws.values[variables.names[int(i)]].reshape(chains, each, -1) for i in part]
        yield np.repeat(part, [c.shape[2] for c in columns]), np.concatenate(columns, axis=2)


def _indicators(variables: Variables) -> tuple[np.ndarray, np.ndarray]:
    """Variable and state of every indicator to judge: one suffices for two states."""
    sizes = variables.sizes
    count = np.where(sizes > 2, sizes, np.maximum(sizes - 1, 0))
    owner = np.repeat(np.arange(len(sizes)), count)
    first = np.cumsum(count) - count
    return owner, np.arange(len(owner)) - first[owner]


def _keep_worst(found: Diagnosis, owner: np.ndarray, new: Diagnosis) -> None:
    owner = np.broadcast_to(owner, np.shape(new.r_hat) or (1,))
    np.maximum.at(found.r_hat, owner, new.r_hat)
    np.minimum.at(found.ess, owner, new.ess)
    np.maximum.at(found.mcse, owner, new.mcse)
