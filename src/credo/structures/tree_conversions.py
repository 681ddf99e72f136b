"""Trees in their directed, undirected and factor-graph forms: the same distribution in each.

    polytree            P(x) = prod_i P(x_i | x_pa(i))            factor i over (pa(i), i), Z = 1
    directed tree       the same with at most one parent          factor per edge, roots absorbed, Z = 1
    undirected tree     P(x) = (1/Z) prod_(ij) f_ij(x_i, x_j)     see `one_factor_per_edge`
    its marginals       P(x) = prod_(ij) P(x_i, x_j) / prod_i P(x_i)^(deg(i) - 1)
                             = P(x_r) prod_(i != r) P(x_i | x_pa(i))      for any root r

The last two need the marginals of the tree, not its raw factors; they are taken from the
`Result` of any exact method. Forests and isolated variables are allowed everywhere. Directed
forms are plain mappings, ready for `BayesNet(variables, parents, tables)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import ModelError, QueryError
from ..core.factor import to_log
from ..core.factor_graph import FactorGraph
from ..core.numbers import float_array
from ..core.result import Result
from ..core.variable import Variables
from ..core.wiring import starts_of
from .conversions import table_entries
from .directed import DirectedGraph, Parents
from .graph import UndirectedGraph, connected_components, primal_graph
from .recognise import is_directed_tree, is_forest, is_polytree

__all__ = [
    "DirectedTables",
    "directed_tree_to_undirected",
    "polytree_to_factor_graph",
    "tree_from_marginals",
    "undirected_tree_to_directed",
]

# Printed tables are rounded to about six digits; anything further from 1 is a mistake.
ROW_TOLERANCE = 2e-6


class DirectedTables(NamedTuple):
    """A directed model as plain data."""

    parents: dict[str, list[str]]  # child -> parents
    tables: dict[str, np.ndarray]  # child -> P(child | parents), axes parents then child


def polytree_to_factor_graph(variables: Any, parents: Parents, tables: Mapping[str, Any]) -> FactorGraph:
    """The factor graph of a polytree: one factor P(x_i | x_pa(i)) per variable; a forest with Z = 1.

    Parameters
    ----------
    variables
        Variables, or a mapping name -> states.
    parents
        Child -> parents; without a loop even when arrows are dropped.
    tables
        Child -> table with one axis per parent, in the order given, and the child's axis last.

    Examples
    --------
    >>> from credo.structures import polytree_to_factor_graph
    >>> polytree_to_factor_graph(
    ...     {"a": 2, "b": 2}, {"a": [], "b": ["a"]}, {"a": [0.5, 0.5], "b": [[0.1, 0.9], [0.8, 0.2]]}
    ... )
    FactorGraph(2 variables, 2 factors, 3 edges)
    """
    directed = DirectedGraph.of(parents)
    if not is_polytree(directed):
        raise ModelError(
            "polytree_to_factor_graph: expected a polytree, got a loop of arrows; "
            "BayesNet(...).to_factor_graph() treats any directed graph"
        )
    variables, log_tables, _ = _checked_tables(variables, directed, tables)
    start, member = directed.families
    return FactorGraph.from_flat(variables, start, variables.positions(directed.names)[member], log_tables)


def directed_tree_to_undirected(variables: Any, parents: Parents, tables: Mapping[str, Any]) -> FactorGraph:
    """The undirected form of a directed tree: one factor per edge, each root absorbed once; Z = 1.

    Parameters
    ----------
    variables, parents, tables
        As in `polytree_to_factor_graph`, with at most one parent each.

    Examples
    --------
    >>> from credo.structures import directed_tree_to_undirected
    >>> pair = directed_tree_to_undirected(
    ...     {"a": 2, "b": 2}, {"a": [], "b": ["a"]}, {"a": [0.5, 0.5], "b": [[0.1, 0.9], [0.8, 0.2]]}
    ... )
    >>> pair.factors[0].table.round(6)
    array([[0.05, 0.45],
           [0.4 , 0.1 ]])
    """
    directed = DirectedGraph.of(parents)
    if not is_directed_tree(directed):
        crowded = int(np.diff(directed.parent_start).argmax())
        raise ModelError(
            "directed_tree_to_undirected: expected at most one parent each, got "
            f"{np.diff(directed.parent_start)[crowded]} for '{directed.names[crowded]}'; "
            "use polytree_to_factor_graph"
        )
    variables, log_tables, table_start = _checked_tables(variables, directed, tables)
    start, member = directed.families
    is_root, is_alone = np.diff(directed.parent_start) == 0, np.diff(directed.child_start) == 0
    absorbed = is_root & ~is_alone
    for i in np.flatnonzero(absorbed).tolist():
        heir = int(directed.child[directed.child_start[i]])
        root = log_tables[table_start[i] : table_start[i + 1]]
        into = log_tables[table_start[heir] : table_start[heir + 1]].reshape(len(root), -1)
        into += root[:, None]
    arity, size = np.diff(start), np.diff(table_start)
    return FactorGraph.from_flat(
        variables,
        starts_of(arity[~absorbed]),
        variables.positions(directed.names)[member[np.repeat(~absorbed, arity)]],
        log_tables[np.repeat(~absorbed, size)],
    )


def undirected_tree_to_directed(
    graph: FactorGraph,
    result: Result,
    root: str | Iterable[str] = (),
    *,
    impossible: Literal["uniform", "zero"] = "uniform",
) -> DirectedTables:
    """The directed form of an undirected tree, seen from any root.

    Parameters
    ----------
    graph
        A factor graph whose undirected graph has no loop.
    result
        Its exact marginals and factor marginals.
    root
        The root, or at most one root for each disconnected part; a part without one is rooted
        at its first variable.
    impossible
        Rows of P(child | parent) for parent states of probability zero do not matter:
        "uniform" makes them valid rows, "zero" is the convention 0/0 := 0.

    Examples
    --------
    >>> import credo
    >>> from credo.structures import undirected_tree_to_directed
    >>> pair = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]]})
    >>> tree = undirected_tree_to_directed(pair, credo.infer(pair, "enumerate"), root="b")
    >>> tree.parents, tree.tables["b"].round(6)
    ({'a': ['b'], 'b': []}, array([0.4, 0.6]))
    """
    check.one_of("impossible", impossible, ("uniform", "zero"))
    skeleton = _checked_forest("undirected_tree_to_directed", graph, result)
    names, sizes = list(graph.variables.names), graph.variables.sizes
    parent_of = _orient(skeleton, skeleton.positions(root))
    child = np.flatnonzero(parent_of >= 0)
    parent = parent_of[child]
    rows, start = _edge_marginals(graph, result, parent, child)
    row_start = starts_of(np.repeat(sizes[child], sizes[parent]))
    norm = np.repeat(np.add.reduceat(rows, row_start[:-1]) if len(child) else rows, np.diff(row_start))
    rest = 1 / np.repeat(sizes[child], np.diff(start)) if impossible == "uniform" else np.zeros(len(rows))
    rows = np.divide(rows, norm, out=rest, where=norm > 0)

    parents: dict[str, list[str]] = {name: [] for name in names}
    tables = {names[i]: np.array(result.marginals[names[i]]) for i in np.flatnonzero(parent_of < 0)}  # type: ignore[index]
    cuts = start.tolist()
    for e, (i, p) in enumerate(zip(child.tolist(), parent.tolist(), strict=True)):
        parents[names[i]].append(names[p])
        tables[names[i]] = rows[cuts[e] : cuts[e + 1]].reshape(sizes[p], sizes[i])
    return DirectedTables(parents, {name: tables[name] for name in names})


def tree_from_marginals(graph: FactorGraph, result: Result) -> FactorGraph:
    """The form prod_(ij) P(x_i, x_j) / prod_i P(x_i)^(deg(i) - 1) of an undirected tree; Z = 1.

    Parameters
    ----------
    graph
        A factor graph whose undirected graph has no loop.
    result
        Its exact marginals and factor marginals.

    Returns
    -------
    FactorGraph
        One factor per edge in the order of the skeleton's edges, then one per variable of
        degree other than 1. A division 0/0 counts as 0.
    """
    skeleton = _checked_forest("tree_from_marginals", graph, result)
    low, high = skeleton.edge_positions.T
    degrees, sizes, state_start = skeleton.degrees, graph.variables.sizes, graph.variables.state_start
    others = np.flatnonzero(degrees != 1)
    which, state = table_entries(sizes[others])
    power = (1 - degrees)[others][which]
    with np.errstate(divide="ignore"):
        pairs = np.log(_edge_marginals(graph, result, low, high)[0])
        singles = np.log(result.marginals.flat[state_start[others][which] + state])  # type: ignore[union-attr]
    # A state of probability zero is already excluded by the tables of its edges, if it has any.
    counts = (singles > -np.inf) | (power > 0)
    singles = np.multiply(singles, power, out=np.zeros(len(singles)), where=counts)
    return FactorGraph.from_flat(
        graph.variables,
        starts_of(np.repeat([2, 1], [len(low), len(others)])),
        np.concatenate([skeleton.edge_positions.ravel(), others]),
        np.concatenate([pairs, singles]),
    )


def _checked_tables(
    variables: Any, directed: DirectedGraph, tables: Mapping[str, Any]
) -> tuple[Variables, np.ndarray, np.ndarray]:
    """Variables, the log tables of all children in the order of the directed graph, and their starts."""
    variables = Variables.of(variables)
    for what, given in (("parents", directed.names), ("tables", tuple(tables))):
        if set(given) != set(variables.names):
            odd = sorted(map(str, set(given) ^ set(variables.names)))
            raise ModelError(f"{what}: expected one entry for each variable; check {odd[:5]}")
    sizes = variables.sizes[variables.positions(directed.names)]
    cuts, shapes = directed.families[0].tolist(), sizes[directed.families[1]].tolist()
    arrays = []
    for i, name in enumerate(directed.names):
        table = tables[name]
        if not isinstance(table, np.ndarray) or table.dtype != np.float64:
            to_log(table, f"table of '{name}'")  # refuses what is no table
            table = float_array(f"table of '{name}'", table)
        if table.shape != tuple(shapes[cuts[i] : cuts[i + 1]]):
            shape = tuple(shapes[cuts[i] : cuts[i + 1]])
            raise ModelError(f"table of '{name}': expected shape {shape}, got {table.shape}")
        arrays.append(table.ravel())
    start = starts_of([len(table) for table in arrays])
    flat = np.concatenate([np.empty(0), *arrays])
    _check_rows(flat, start, directed, sizes)
    return variables, to_log(flat, "tables"), start


def _check_rows(flat: np.ndarray, start: np.ndarray, directed: DirectedGraph, sizes: np.ndarray) -> None:
    """Refuse entries that are no probabilities and rows that do not sum to 1, naming the child."""
    wrong = np.flatnonzero(~(flat >= 0))
    if len(wrong):
        i = int(np.searchsorted(start, wrong[0], side="right")) - 1
        to_log(flat[start[i] : start[i + 1]], f"table of '{directed.names[i]}'")
    if not len(flat):
        return
    rows = np.diff(start) // sizes
    owner = np.repeat(np.arange(len(sizes)), rows)
    sums = np.add.reduceat(flat, starts_of(sizes[owner])[:-1])
    off = np.flatnonzero(~(np.abs(sums - 1) <= ROW_TOLERANCE))
    if len(off):
        i = int(owner[off[0]])
        mine = sums[owner == i]
        raise ModelError(
            f"table of '{directed.names[i]}': every row must sum to 1, "
            f"got sums from {mine.min():g} to {mine.max():g}"
        )


def _checked_forest(what: str, graph: FactorGraph, result: Result) -> UndirectedGraph:
    skeleton = primal_graph(graph)
    if not is_forest(skeleton):
        raise ModelError(f"{what}: expected an undirected tree or forest, got a loop; use a junction tree")
    if result.marginals is None or result.factor_marginals is None:
        raise QueryError(f"{what}: needs marginals and factor marginals; run an exact sum method first")
    if len(result.marginals) != len(skeleton) or len(result.factor_marginals) != graph.n_factors:
        raise QueryError(
            f"{what}: expected the marginals of this graph ({len(skeleton)} variables, {graph.n_factors} "
            f"factors), got {len(result.marginals)} and {len(result.factor_marginals)}"
        )
    return skeleton


def _edge_marginals(
    graph: FactorGraph, result: Result, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Joint tables of the pairs (first[e], second[e]), axes in this order, flat; and their starts."""
    n, sizes = len(graph.variables), graph.variables.sizes
    pair = np.flatnonzero(np.diff(graph.scope_start) == 2)
    ends = np.sort(graph.scope[graph.scope_start[pair][:, None] + np.arange(2)], axis=1)
    keys = ends[:, 0] * n + ends[:, 1]
    by_key = np.argsort(keys, kind="stable")
    asked = np.minimum(first, second) * n + np.maximum(first, second)
    # Several factors over one pair have the same marginal; the first is taken.
    factor = pair[by_key[np.searchsorted(keys[by_key], asked)]]
    table_sizes = sizes[first] * sizes[second]
    which, entry = table_entries(table_sizes)
    row, column = np.divmod(entry, sizes[second][which])
    flipped = (graph.scope[graph.scope_start[factor]] != first)[which]
    place = np.where(flipped, column * sizes[first][which] + row, entry)
    flat = result.factor_marginals.flat  # type: ignore[union-attr]
    values: np.ndarray = flat[starts_of(graph.table_size)[factor][which] + place]
    return values, starts_of(table_sizes)


def _orient(skeleton: UndirectedGraph, roots: np.ndarray) -> np.ndarray:
    """Parent position of each variable when the forest hangs from its roots, -1 at the roots."""
    labels = connected_components(skeleton)
    if len(np.unique(labels[roots])) < len(roots):
        raise QueryError(
            "root: expected at most one root in each connected part, got "
            f"{[skeleton.names[i] for i in roots.tolist()]}"
        )
    root_of = np.unique(labels, return_index=True)[1]
    root_of[labels[roots]] = roots
    start, neighbour = skeleton.start.tolist(), skeleton.neighbour.tolist()
    parent_of = [-1] * len(skeleton)
    queue = root_of.tolist()
    for i in queue:  # the list grows while it is read
        for j in neighbour[start[i] : start[i + 1]]:
            if j != parent_of[i]:
                parent_of[j] = i
                queue.append(j)
    return np.array(parent_of, dtype=np.int64)
