"""Models from and to data frames and NetworkX graphs.

Data frames hold tables in long form: one row per entry, one column of state labels per
variable and one column of values. NetworkX graphs carry `states` and `table` as attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..core.errors import MissingExtraError, ModelError
from ..core.factor import TableFactor
from ..core.variable import Variable, Variables

__all__ = ["bayes_net_parts", "factor_parts", "read_digraph", "read_pairwise", "write_digraph"]

Parts = tuple[Variables, dict[str, list[str]], dict[str, np.ndarray]]


def bayes_net_parts(frames: Mapping[str, Any], states: Mapping[str, Any], probability: str) -> Parts:
    """Read variables, parents and tables from child name -> frame in long form."""
    parents = {}
    for child, frame in frames.items():
        columns = columns_of(frame, probability, f"table of '{child}'")
        if child not in columns:
            raise ModelError(f"table of '{child}': expected a column '{child}', got {columns}")
        parents[str(child)] = [c for c in columns if c != child]
    labels = {child: states_of_columns(child, [frames[child]], states) for child in frames}
    variables = Variables.of({**labels})
    unknown = [(c, p) for c, names in parents.items() for p in names if p not in labels]
    if unknown:
        child, parent = unknown[0]
        raise ModelError(
            f"table of '{child}': column '{parent}' is neither a variable with its own table "
            f"nor the probability column '{probability}'"
        )
    tables = {}
    for child, names in parents.items():
        scope = [variables[variables.position(n)] for n in (*names, child)]
        tables[child] = long_table(frames[child], scope, probability, f"table of '{child}'")
    return variables, parents, tables


def columns_of(frame: Any, value: str, where: str) -> list[str]:
    """List the columns of a long-form frame that name variables."""
    columns = [str(c) for c in getattr(frame, "columns", ())]
    if value not in columns:
        raise ModelError(
            f"{where}: expected a data frame with a column '{value}', got {columns or frame!r:.80}"
        )
    return [c for c in columns if c != value]


def states_of_columns(name: str, frames: Iterable[Any], states: Mapping[str, Any]) -> Any:
    """States given by the caller, else the categories of a column, else labels as they appear."""
    if name in states:
        return states[name]
    found: dict[str, None] = {}
    for frame in frames:
        column = frame[name]
        if hasattr(column, "cat"):
            return [str(c) for c in column.cat.categories]
        found.update(dict.fromkeys(map(str, column.unique())))
    return list(found)


def long_table(
    frame: Any, scope: list[Variable], value: str, where: str, *, complete: bool = False
) -> np.ndarray:
    """Spread a frame in long form over a dense table.

    A combination without a row is 0, or refused if the frame must be `complete`.
    """
    shape = tuple(v.size for v in scope)
    codes = []
    for v in scope:
        position = {label: k for k, label in enumerate(v.states)}
        column = [position.get(str(label), -1) for label in frame[v.name]]
        if -1 in column:
            label = frame[v.name].iloc[column.index(-1)]
            raise ModelError(
                f"{where}: variable '{v.name}' has no state {str(label)!r}; its states are {list(v.states)}"
            )
        codes.append(column)
    entry = np.zeros(len(frame), dtype=np.int64)
    for v, column in zip(scope, codes, strict=True):
        entry = entry * v.size + np.array(column, dtype=np.int64)
    if len(set(entry.tolist())) < entry.size:
        order = np.sort(entry)
        twice = np.unravel_index(order[1:][order[1:] == order[:-1]][0], shape)
        shown = ", ".join(f"{v.name}={v.label(int(k))}" for v, k in zip(scope, twice, strict=True))
        raise ModelError(f"{where}: expected one row per combination, got two for {shown}")
    if complete and entry.size < int(np.prod(shape)):
        raise ModelError(
            f"{where}: expected {int(np.prod(shape))} rows, one per combination, got {entry.size}; "
            "a weight of zero needs a row too"
        )
    try:
        values = frame[value].to_numpy(dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(
            f"{where}: expected numbers in column '{value}', got {list(frame[value])!r:.80}"
        ) from None
    table = np.zeros(shape)
    table.ravel()[entry] = values
    return table


def factor_parts(
    frames: Iterable[Any], states: Mapping[str, Any], weight: str
) -> tuple[Variables, list[TableFactor]]:
    """Read variables and factors from frames in long form, one per factor."""
    frames = list(frames)
    scopes = [columns_of(f, weight, f"factor {a}") for a, f in enumerate(frames)]
    holders: dict[str, list[Any]] = {str(name): [] for name in states}
    for frame, names in zip(frames, scopes, strict=True):
        for name in names:
            holders.setdefault(name, []).append(frame)
    variables = Variables.of({n: states_of_columns(n, held, states) for n, held in holders.items()})
    factors = []
    for frame, names in zip(frames, scopes, strict=True):
        scope = [variables[variables.position(n)] for n in names]
        table = long_table(frame, scope, weight, f"factor over {names}", complete=True)
        factors.append(TableFactor(scope, table))
    return variables, factors


def read_pairwise(graph: Any, states: str, table: str) -> tuple[Variables, list[TableFactor]]:
    """Read variables and factors from a NetworkX graph with tables on nodes and edges."""
    if not hasattr(graph, "edges") or not hasattr(graph, "nodes"):
        raise ModelError(f"expected a NetworkX graph, got {type(graph).__name__}")
    variables = Variables.of({str(n): attribute(n, data, states) for n, data in graph.nodes(data=True)})
    factors = [
        TableFactor([variables[i]], data[table])
        for i, (_, data) in enumerate(graph.nodes(data=True))
        if table in data
    ]
    for u, v, data in graph.edges(data=True):
        if table not in data:
            raise ModelError(
                f"edge ('{u}', '{v}'): expected the attribute '{table}', got {sorted(map(str, data))}"
            )
        names = [str(n) for n in data.get("scope", (u, v))]
        if sorted(names) != sorted([str(u), str(v)]):
            raise ModelError(f"edge ('{u}', '{v}'): its attribute 'scope' is {names}")
        factors.append(TableFactor([variables[variables.position(n)] for n in names], data[table]))
    return variables, factors


def attribute(node: Any, data: Mapping[str, Any], key: str) -> Any:
    """Read an attribute every node must carry."""
    if key not in data:
        raise ModelError(f"node '{node}': expected the attribute '{key}', got {sorted(map(str, data))}")
    return data[key]


def read_digraph(graph: Any) -> Parts:
    """Read variables, parents and tables from a directed NetworkX graph."""
    if not getattr(graph, "is_directed", lambda: False)():
        raise ModelError(
            f"expected a directed NetworkX graph, got {type(graph).__name__}; use networkx.DiGraph"
        )
    variables = Variables.of({str(n): attribute(n, data, "states") for n, data in graph.nodes(data=True)})
    parents = {}
    for node, data in graph.nodes(data=True):
        edges = [str(p) for p in graph.predecessors(node)]
        parents[str(node)] = [str(p) for p in data.get("parents", edges)]
        if sorted(parents[str(node)]) != sorted(edges):
            raise ModelError(
                f"node '{node}': its attribute 'parents' is {parents[str(node)]}, its edges come from {edges}"
            )
    return variables, parents, {str(n): attribute(n, d, "table") for n, d in graph.nodes(data=True)}


def write_digraph(
    variables: Variables, parents: Mapping[str, tuple[str, ...]], tables: Mapping[str, np.ndarray]
) -> Any:
    """Make a directed NetworkX graph that `read_digraph` reads back."""
    graph = networkx().DiGraph()
    for v in variables:
        states = v.size if v.discrete.states is None else list(v.states)
        graph.add_node(v.name, states=states, parents=list(parents[v.name]), table=tables[v.name])
    graph.add_edges_from((p, child) for child, names in parents.items() for p in names)
    return graph


def networkx() -> Any:
    """Import the package, or say how to get it."""
    try:
        import networkx as package
    except ImportError:
        raise MissingExtraError("networkx is not installed; install credo[plot]") from None
    return package
