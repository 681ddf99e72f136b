"""Zero entries of tables: where components start, and what they give up in the end.

E[log f] is finite only if a component gives no probability to a zero entry. Components start near sets of
states that no zero forbids (one set each, found by search), and what little probability is left on zeros
afterwards is removed: of every zero entry that a component reaches, the state with the smallest probability.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.factor import TableFactor
from ...core.factor_graph import FactorGraph
from ..problem.base import Problem
from .bethe_plan import BetheLayout
from .bethe_system import BetheParameters

__all__ = ["boxes", "without_zeros"]

_DEAD_ENDS = 1000  # of a search
_REACHED = 1e-12  # probability below which a state counts as left
_GONE = -1e9  # logit of a state that is left


def boxes(problem: Problem, layout: BetheLayout, components: int, rng: np.random.Generator) -> Any:
    """Flags (variables, components, states) of sets that avoid all zeros; None if there are no zeros.

    A set that is not found in time is left out: all its flags are zero.
    """
    if all(zeros is None for zeros in layout.zeros):
        return None
    from ..problem import feasible as kernel

    c = next(c for c, kind in enumerate(layout.kinds) if kind.family == "discrete")
    graph = _tables(layout, c)
    sizes, size = graph.variables.sizes, layout.kinds[c].size
    score = kernel.entry_scores(graph)
    flags = np.zeros((len(layout.members[c]), components, size))
    at = np.arange(size) < sizes[:, None]
    used = np.zeros(len(score))  # so that components start in different places
    for m in range(components):
        preference = rng.random() * np.maximum(score, -1e300) + rng.gumbel(size=len(score)) - used
        code, keep = kernel.feasible_box(graph, rng.permutation(len(sizes)), preference, _DEAD_ENDS)
        if code == kernel.IMPOSSIBLE:
            raise problem.contradiction()
        if code == kernel.FOUND:
            flags[:, m][at] = keep
            used += keep
    return flags


def _tables(layout: BetheLayout, c: int) -> FactorGraph:
    """The factors of discrete variables only, as a graph of tables."""
    variables = [layout.graph.variables[int(i)] for i in layout.members[c]]
    factors = []
    for plan, data, zeros in zip(layout.plans, layout.groups, layout.zeros, strict=True):
        if plan.function is not None or zeros is None:
            continue
        for scope, table, zero in zip(data.scopes, data.parameters[0], zeros, strict=True):
            own = [variables[int(i)] for i in scope]
            inside = tuple(slice(v.size) for v in own)
            factors.append(TableFactor.from_log(own, np.where(zero, -np.inf, table)[inside]))
    return FactorGraph(variables, factors)


def without_zeros(layout: BetheLayout, parameters: BetheParameters) -> BetheParameters | None:
    """The same components with no probability on zero entries.

    A component in which a variable would lose its last state gets no weight; None if that is every one.
    """
    c = next(c for c, kind in enumerate(layout.kinds) if kind.family == "discrete")
    logits = np.moveaxis(parameters.parts[c], -1, 0)  # (n, components, states)
    logs = np.where(layout.kind_data[c].mask.T[:, None], logits, -np.inf)
    p = np.exp(logs - logs.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    kept = p > _REACHED
    entries = _zero_entries(layout)
    for scope, entry in entries:
        for m in np.flatnonzero(kept[scope, :, entry].all(axis=0)):
            for j in np.argsort(p[scope, m, entry], kind="stable"):
                if kept[scope[j], m].sum() > 1:
                    kept[scope[j], m, entry[j]] = False
                    break
    stuck = np.zeros(kept.shape[1], bool)
    for scope, entry in entries:
        stuck |= kept[scope, :, entry].all(axis=0)
    if stuck.all():
        return None
    parts = list(parameters.parts)
    parts[c] = np.moveaxis(np.where(kept, logits, _GONE), 0, -1)
    return BetheParameters(np.where(stuck, _GONE, parameters.weights), tuple(parts))


def _zero_entries(layout: BetheLayout) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scope and states of every zero entry."""
    found = []
    for data, zeros in zip(layout.groups, layout.zeros, strict=True):
        if zeros is not None:
            for row in np.argwhere(zeros):
                found.append((data.scopes[row[0]], row[1:]))
    return found
