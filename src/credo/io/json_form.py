"""credo's own JSON form, which keeps everything: names, labels, structure, logarithms, shared tables.

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

import json
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
from .base import Format, register_format, wrong
from .json_arrays import pack, unpack
from .tables import MOST_ENTRIES, check_states, graph_of

__all__ = ["read_json", "write_json"]

VERSION = 1


def write_json(model: Any) -> str:
    """Text of a model in JSON form.

    Examples
    --------
    >>> import credo
    >>> from credo.io.json_form import read_json, write_json
    >>> graph = credo.FactorGraph({"a": ["no", "yes"]}, {("a",): [0, 1]})
    >>> read_json(write_json(graph).encode()) == graph
    True
    """
    if isinstance(model, CRF):
        return _text(_write_crf(model))
    graph = model.to_factor_graph() if isinstance(model, LogLinear) else graph_of(model)
    parts: dict[str, Any] = {
        "format": "credo",
        "version": VERSION,
        "model": _kind(model),
        "variables": _write_variables(graph.variables),
        "scope_start": pack(graph.scope_start),
        "scope": pack(graph.scope),
    }
    if isinstance(model, BayesNet):
        parts["tables"] = pack(model.flat_tables)
    elif isinstance(model, LogLinear):
        parts.update(_write_weights(model))
    else:
        if not np.array_equal(graph.table_start, np.cumsum(graph.table_size) - graph.table_size):
            parts["table_start"] = pack(graph.table_start)
        parts["log_tables"] = pack(graph.log_tables)
    return _text(parts)


def _text(parts: dict[str, Any]) -> str:
    lines = [f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in parts.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _kind(model: Any) -> str:
    if isinstance(model, (BayesNet, FactorGraph, LogLinear)):
        return next(k.__name__ for k in (BayesNet, FactorGraph, LogLinear) if isinstance(model, k))
    return "MarkovNet"


def _write_variables(variables: Variables) -> dict[str, Any]:
    prefix = variables.names[0].removesuffix("0") if len(variables) else "x"
    if all(name == f"{prefix}{i}" for i, name in enumerate(variables.names)) and all(
        domain.states is None for domain in variables.domains
    ):
        return {"prefix": prefix, "sizes": pack(variables.sizes)}
    states = [d.size if d.states is None else list(d.states) for d in variables.domains]
    return {"names": list(variables.names), "states": states}


def read_json(content: bytes, file: str = "<bytes>") -> BayesNet | MarkovNet | FactorGraph | LogLinear | CRF:
    """Read a model in JSON form."""
    parts = _parse(content, file)
    if parts.get("format") != "credo" or parts.get("version") != VERSION:
        got = f"format {parts.get('format')!r:.40}, version {parts.get('version')!r:.40}"
        raise FormatError(f"{file}: expected the format 'credo', version {VERSION}, got {got}")
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


def _parse(content: bytes, file: str) -> dict[str, Any]:
    try:
        parts = json.loads(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise wrong(file, line, f"expected text in UTF-8, got the byte {content[error.start]:#x}") from None
    except json.JSONDecodeError as error:
        message = f"expected JSON, got an error in column {error.colno}: {error.msg}"
        raise wrong(file, error.lineno, message) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{file}: expected JSON, got a text that cannot be read ({error})") from None
    if not isinstance(parts, dict):
        raise wrong(file, 1, f"expected a JSON object, got {type(parts).__name__}")
    return parts


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


register_format(Format("json", (".json",), read_json, write_json))


def _write_weights(model: LogLinear) -> dict[str, Any]:
    """What a log-linear model has beyond its structure."""
    design = model.design.tocoo()
    return {
        "weights": pack(model.weights),
        "fixed": pack(model.fixed),
        "design_rows": pack(design.row.astype(np.int64)),
        "design_columns": pack(design.col.astype(np.int64)),
        "design_values": pack(design.data),
    }


def _read_weights(
    parts: dict[str, Any], variables: Variables, start: np.ndarray, scope: np.ndarray, file: str
) -> LogLinear:
    """A log-linear model from its structure and what `_write_weights` wrote."""
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


def _write_crf(crf: CRF) -> dict[str, Any]:
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


def _read_crf(parts: dict[str, Any], file: str) -> CRF:
    """A field that `_write_crf` wrote."""
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
