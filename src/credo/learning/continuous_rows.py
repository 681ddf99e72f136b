"""The log-likelihood of rows under models whose variables may be continuous.

    log p(row) = log Z(given what the row has seen) - log Z

A row that has seen every variable needs its score and no inference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import DataError, UnsupportedError, ZeroProbabilityError
from ..core.evidence import Evidence
from ..core.factor_graph import FactorGraph
from ..core.result import Estimate, Samples
from ..inference.base import Algorithm, Budget
from ..inference.question import infer

__all__ = ["row_likelihoods"]


def row_likelihoods(
    graph: FactorGraph,
    data: Any,
    method: str | Algorithm | None,
    weights: Any,
    budget: Budget,
    seed: int | None,
) -> Estimate:
    """The sum over all rows, each counted with its weight."""
    rows = _rows(data, graph)
    counts = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
    if counts.shape != (len(rows),) or not (counts >= 0).all():
        raise DataError(f"weights: expected {len(rows)} numbers that are not negative, got {weights!r:.80}")
    limits = {"max_iter": budget.max_iter, "tol": budget.tol, "seconds": budget.seconds, "seed": seed}
    whole = _log_z(graph, method, None, limits)
    total, kinds = 0.0, {whole.kind}
    for row, count in zip(rows, counts, strict=True):
        found = _seen(graph, method, row, limits)
        kinds.add(found.kind)
        total += count * (found.value - whole.value)
    return Estimate(total, "exact" if kinds == {"exact"} else "estimate")


def _seen(graph: FactorGraph, method: Any, row: Mapping[str, Any], limits: Mapping[str, Any]) -> Estimate:
    checked = Evidence.of(graph.variables, row)
    if checked.flags.all():
        names = graph.variables.names
        return Estimate(graph.log_score({n: checked.value(i) for i, n in enumerate(names)}), "exact")
    try:
        return _log_z(graph, method, row, limits)
    except ZeroProbabilityError:
        return Estimate(-np.inf, "exact")


def _log_z(
    graph: FactorGraph, method: Any, row: Mapping[str, Any] | None, limits: Mapping[str, Any]
) -> Estimate:
    found = infer(graph, method, evidence=row, **limits)
    if found.log_z is None:
        raise UnsupportedError(f"log_likelihood: {found.algorithm} computes no log Z; use another inference")
    return found.log_z


def _rows(data: Any, graph: FactorGraph) -> list[Mapping[str, Any]]:
    """Rows as mappings name -> value."""
    if isinstance(data, Samples):
        data = {name: data[name] for name in graph.variables.names}
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        data = {str(name): list(data[name]) for name in data.columns}
    if isinstance(data, Mapping):
        columns = {name: list(column) for name, column in data.items()}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"data: columns must be equally long, got {lengths}")
        count = next(iter(lengths.values()), 0)
        return [{name: column[row] for name, column in columns.items()} for row in range(count)]
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        return list(data)
    raise DataError(
        "data: expected columns by name, a frame, a list of mappings or samples, because some variables are "
        f"continuous; got {type(data).__name__}"
    )
