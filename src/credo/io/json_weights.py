"""Models with shared weights in JSON form.

A LogLinear has "weights", "fixed" (log tables without parameters) and its design matrix as "design_rows",
"design_columns" and "design_values", one number per entry that is not zero. A CRF has "labels",
"node_weights" (features x labels), "edge_weights" (edge features x labels x labels), "node_features" and
"edge_features" (names or null).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import FormatError, ModelError
from ..core.factor import check_log_table
from ..core.variable import Variables
from ..models.crf import CRF
from ..models.log_linear import LogLinear
from .json_arrays import pack, unpack

__all__ = ["read_crf", "read_weights", "write_crf", "write_weights"]


def write_weights(model: LogLinear) -> dict[str, Any]:
    """What a log-linear model has beyond its structure."""
    design = model.design.tocoo()
    return {
        "weights": pack(model.weights),
        "fixed": pack(model.fixed),
        "design_rows": pack(design.row.astype(np.int64)),
        "design_columns": pack(design.col.astype(np.int64)),
        "design_values": pack(design.data),
    }


def read_weights(
    parts: dict[str, Any], variables: Variables, start: np.ndarray, scope: np.ndarray, file: str
) -> LogLinear:
    """A log-linear model from its structure and what `write_weights` wrote."""
    from scipy import sparse

    weights, fixed, values = (
        unpack(parts, key, np.float64, file) for key in ("weights", "fixed", "design_values")
    )
    rows, columns = (unpack(parts, key, np.int64, file) for key in ("design_rows", "design_columns"))
    check_log_table(fixed, "fixed")
    if not len(rows) == len(columns) == len(values):
        raise FormatError(
            f"{file}: the design matrix has {len(rows)} rows, {len(columns)} columns and {len(values)} "
            "values; expected equally many"
        )
    inside = len(rows) == 0 or (
        rows.min() >= 0 and columns.min() >= 0 and rows.max() < len(fixed) and columns.max() < len(weights)
    )
    if not inside or not np.isfinite(values).all():
        raise FormatError(f"{file}: expected a design matrix of shape ({len(fixed)}, {len(weights)})")
    design = sparse.csr_array((values, (rows, columns)), shape=(len(fixed), len(weights)))
    model = LogLinear.from_design(variables, start, scope, design, fixed, weights)
    try:
        model.to_factor_graph()
    except ModelError as error:
        raise FormatError(f"{file}: {error}") from None
    return model


def write_crf(crf: CRF) -> dict[str, Any]:
    """All of a conditional random field."""
    return {
        "format": "credo",
        "version": 1,
        "model": "CRF",
        "labels": list(crf.labels),
        "node_features": None if crf.node_features is None else list(crf.node_features),
        "edge_features": None if crf.edge_features is None else list(crf.edge_features),
        "node_weights": pack(crf.node_weights.ravel()),
        "edge_weights": pack(crf.edge_weights.ravel()),
    }


def read_crf(parts: dict[str, Any], file: str) -> CRF:
    """A field that `write_crf` wrote."""
    labels = parts.get("labels")
    if not isinstance(labels, list) or not labels or not all(isinstance(x, str) for x in labels):
        raise FormatError(f"{file}: expected a list of labels, got {labels!r:.40}")
    size = len(labels)
    node, edge = (unpack(parts, key, np.float64, file) for key in ("node_weights", "edge_weights"))
    if len(node) % size or len(edge) % size**2:
        raise FormatError(f"{file}: expected weights for {size} labels, got {len(node)} and {len(edge)}")
    names = {}
    for key in ("node_features", "edge_features"):
        names[key] = parts.get(key)
        if names[key] is not None and not isinstance(names[key], list):
            raise FormatError(f"{file}: {key}: expected a list of names or null, got {names[key]!r:.40}")
    return CRF(labels, node.reshape(-1, size), edge.reshape(-1, size, size), **names)
