"""Version 1 of the JSON form, which is read and no longer written.

    {"format": "credo", "version": 1,
     "model": "BayesNet",                       or "MarkovNet", "FactorGraph"
     "variables": {"names": ["a", "b"], "states": [2, ["low", "high"]]},
     "scope_start": [0, 1, 3],                  factor a has the scope scope[scope_start[a]:scope_start[a+1]]
     "scope": [0, 0, 1],                        positions in names; of a BayesNet parents first, child last
     "tables": [0.2, 0.8, ...]}                 BayesNet: probabilities, one table after another

A MarkovNet or FactorGraph has "log_tables" (natural logarithms, null for a zero weight) instead of "tables",
and "table_start" when factors share tables. Variables x0, x1, ... without labels are written {"prefix": "x",
"sizes": [2, 2]}. Arrays of more than 4096 numbers are packed as {"dtype": "<f8" or "<i8", "base64": ...}, so
that size and time stay those of the binary data.

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
from ..core.factor_graph import FactorGraph
from ..core.variable import Variable, Variables
from ..models.bayes_net import BayesNet
from ..models.crf import CRF
from ..models.log_linear import LogLinear
from ..models.mrf import MarkovNet
from .json_version_1_arrays import unpack
from .tables import MOST_ENTRIES, check_states

__all__ = ["read_version_1"]


def read_version_1(parts: dict[str, Any], file: str) -> BayesNet | MarkovNet | FactorGraph | LogLinear | CRF:
    """The model that an object of JSON of version 1 describes."""
    kind = parts.get("model")
    if kind == "CRF":
        return _read_crf(parts, file)
    if kind not in ("BayesNet", "MarkovNet", "FactorGraph", "LogLinear"):
        raise FormatError(
            f"{file}: expected the model BayesNet, MarkovNet, FactorGraph, LogLinear or CRF, got {kind!r:.40}"
        )
    variables = _read_variables(parts.get("variables"), file)
    start = unpack(parts, "scope_start", np.int64, file)
    scope = unpack(parts, "scope", np.int64, file)
    _check_slices(start, scope, len(variables), file)
    if kind == "BayesNet":
        return BayesNet.from_flat(variables, start, scope, unpack(parts, "tables", np.float64, file))
    if kind == "LogLinear":
        return _read_weights(parts, variables, start, scope, file)
    graph = _graph(parts, variables, start, scope, file)
    return graph if kind == "FactorGraph" else MarkovNet.from_graph(graph)


def _graph(
    parts: dict[str, Any], variables: Variables, start: np.ndarray, scope: np.ndarray, file: str
) -> FactorGraph:
    logs = unpack(parts, "log_tables", np.float64, file)
    check_log_table(logs, "log_tables")
    table_start = unpack(parts, "table_start", np.int64, file) if "table_start" in parts else None
    if table_start is not None and (
        len(table_start) != len(start) - 1 or (len(table_start) and table_start.min() < 0)
    ):
        raise FormatError(f"{file}: expected {len(start) - 1} table starts from 0, got {len(table_start)}")
    return FactorGraph.from_flat(variables, start, scope, logs, table_start=table_start)


def _read_variables(part: Any, file: str) -> Variables:
    if isinstance(part, dict) and "sizes" in part:
        sizes = unpack(part, "sizes", np.int64, file)
        check_states(file, sizes)
        return Variables.numbered(sizes, str(part.get("prefix", "x")))
    names, states = (part.get("names"), part.get("states")) if isinstance(part, dict) else (None, None)
    if not isinstance(names, list) or not isinstance(states, list) or len(names) != len(states):
        raise FormatError(f"{file}: expected variables with equally many names and states")
    for name, domain in zip(names, states, strict=True):
        listed = isinstance(domain, list) and all(isinstance(s, str) for s in domain)
        counted = type(domain) is int and domain <= MOST_ENTRIES
        if not isinstance(name, str) or not (listed or counted):
            raise FormatError(
                f"{file}: expected a name and its states (a count or a list of labels), "
                f"got {name!r:.40} and {domain!r:.40}"
            )
    made = Variables.of([Variable(n, s) for n, s in zip(names, states, strict=True)])
    check_states(file, made.sizes)
    return made


def _check_slices(start: np.ndarray, scope: np.ndarray, n: int, file: str) -> None:
    if not len(start) or start[0] != 0 or (np.diff(start) < 0).any() or start[-1] != len(scope):
        raise FormatError(f"{file}: scope_start: expected rising positions from 0 to {len(scope)}")
    if len(scope) and not (scope.min() >= 0 and scope.max() < n):
        raise FormatError(f"{file}: scope: expected positions from 0 to {n - 1}")


def _read_weights(
    parts: dict[str, Any], variables: Variables, start: np.ndarray, scope: np.ndarray, file: str
) -> LogLinear:
    """A log-linear model from its structure and the sparse entries of its design."""
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


def _read_crf(parts: dict[str, Any], file: str) -> CRF:
    """A conditional random field."""
    labels = parts.get("labels")
    if not isinstance(labels, list) or not labels or not all(isinstance(x, str) for x in labels):
        raise FormatError(f"{file}: expected a list of labels, got {labels!r:.40}")
    size = len(labels)
    node, edge = (unpack(parts, key, np.float64, file) for key in ("node_weights", "edge_weights"))
    if len(node) % size or len(edge) % size**2:
        raise FormatError(f"{file}: expected weights for {size} labels, got {len(node)} and {len(edge)}")
    names: dict[str, Any] = {}
    for key in ("node_features", "edge_features"):
        names[key] = parts.get(key)
        if names[key] is not None and not isinstance(names[key], list):
            raise FormatError(f"{file}: {key}: expected a list of names or null, got {names[key]!r:.40}")
    return CRF(labels, node.reshape(-1, size), edge.reshape(-1, size, size), **names)
