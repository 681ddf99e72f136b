"""Powered sums of graphs with temperatures of two groups of variables, as the plainest question there is."""

from __future__ import annotations

import numpy as np

from ...core.factor_graph import FactorGraph
from .batch import BatchQuestion

__all__ = ["powered_question"]


def powered_question(graph: FactorGraph, heat: np.ndarray, first: np.ndarray) -> tuple[BatchQuestion, float]:
    """Sums where one temperature serves all, or maxima, and what scores are divided by.

    Parameters
    ----------
    graph
        The structure that tables are given for.
    heat
        The temperature of every variable.
    first
        Flags of those that are eliminated before the others.
    """
    key = ("powered", heat.tobytes(), first.tobytes())
    return graph.memo.recall(key, lambda: _posed(graph, heat, first))  # type: ignore[no-any-return]


def _posed(graph: FactorGraph, heat: np.ndarray, first: np.ndarray) -> tuple[BatchQuestion, float]:
    names, sizes = graph.variables.names, graph.variables.sizes
    free = heat[sizes > 1] if (sizes > 1).any() else heat
    if (free == free[0]).all():
        is_sum = free[0] > 0
        return BatchQuestion.of(graph, () if is_sum else "all"), float(free[0]) if is_sum else 1.0
    if np.isin(free, (0.0, 1.0)).all() and not (heat[first] == 0).any():
        return BatchQuestion.of(graph, [names[int(i)] for i in np.flatnonzero(heat == 0)]), 1.0
    temperatures = {names[i]: float(t) for i, t in enumerate(heat)}
    order = [names[int(i)] for i in np.argsort(~first, kind="stable")]
    return BatchQuestion.of(graph, (), temperatures, order), 1.0
