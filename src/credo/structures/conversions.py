"""Factor graphs made from factor graphs: the same distribution in another form.

Every conversion keeps the unnormalised product of all factors, hence log Z, unless its
docstring says otherwise. The undirected graph of a factor graph is `primal_graph`; the scopes
of the most general factor graph of an undirected graph are its `maximal_cliques`. Going to the
undirected graph forgets which of several factor sets was meant: three pairwise factors and one
three-way factor over the same variables have the same triangle.
"""

from __future__ import annotations

import numpy as np

from ..core import check
from ..core.domain import Discrete
from ..core.errors import ModelError, TooLargeError
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from ..core.wiring import starts_of
from .cliques import clique_positions
from .graph import UndirectedGraph, primal_graph

__all__ = ["one_factor_per_edge", "to_clique_factors", "to_pairwise", "without_constants"]


def without_constants(graph: FactorGraph) -> FactorGraph:
    """The graph without its one-state variables; factors keep their places and their numbers.

    Evidence leaves one-state variables behind; removing them shows what structure is left.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures import without_constants
    >>> without_constants(FactorGraph({"a": 2, "b": 1}, {("a", "b"): [1, 2], ("b",): [3]}))
    FactorGraph(1 variables, 2 factors, 1 edges)
    """
    variables = graph.variables
    free = variables.sizes > 1
    if free.all():
        return graph
    kept = np.flatnonzero(free).tolist()
    small = Variables([variables.names[i] for i in kept], [variables.domains[i] for i in kept])
    factor = np.repeat(np.arange(graph.n_factors), np.diff(graph.scope_start))
    stays = free[graph.scope]
    new_position = np.cumsum(free) - 1
    return FactorGraph.from_flat(
        small,
        starts_of(np.bincount(factor[stays], minlength=graph.n_factors)),
        new_position[graph.scope[stays]],
        graph.log_tables,
        table_start=graph.table_start,
    )


def one_factor_per_edge(graph: FactorGraph) -> FactorGraph:
    """The form p = (1/Z) prod_(ij) f_ij(x_i, x_j): exactly one factor for each pair of neighbours.

    Factors over the same pair are multiplied; a factor over one variable is absorbed by the
    first edge of that variable. What has no edge to go to stays: the factors of an isolated
    variable become one, and so do the factors over no variable.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures import one_factor_per_edge
    >>> pair = FactorGraph({"a": 2, "b": 2}, {("b", "a"): [[1, 2], [3, 4]], "a": [1, 10]})
    >>> one_factor_per_edge(pair).factors[0].table.round(6)
    array([[ 1.,  3.],
           [20., 40.]])
    """
    arity = np.diff(graph.scope_start)
    if arity.max(initial=0) > 2:
        a = int(arity.argmax())
        raise ModelError(
            f"one_factor_per_edge: expected factors over at most two variables, got {arity[a]} "
            f"in factor {a}; use to_pairwise first"
        )
    skeleton = primal_graph(graph)
    node = _unary_sums(graph)
    edge_tables = _edge_tables(graph, skeleton, node)
    alone = np.unique(graph.scope[graph.scope_start[:-1][arity == 1]])
    alone = alone[skeleton.degrees[alone] == 0]
    state_start = graph.variables.state_start
    unary = [node[state_start[i] : state_start[i + 1]] for i in alone.tolist()]
    empty = [[graph.log_tables[graph.table_start[arity == 0]].sum()]] if (arity == 0).any() else []
    edges = skeleton.edge_positions
    return FactorGraph.from_flat(
        graph.variables,
        starts_of(np.repeat([2, 1, 0], [len(edges), len(unary), len(empty)])),
        np.concatenate([edges.ravel(), alone]),
        np.concatenate([edge_tables, *unary, *empty]),
    )


def _unary_sums(graph: FactorGraph) -> np.ndarray:
    """Flat log weights per state: all factors over one variable, added up."""
    state_start = graph.variables.state_start
    node = np.zeros(state_start[-1])
    a = np.flatnonzero(np.diff(graph.scope_start) == 1)
    variable = graph.scope[graph.scope_start[a]]
    which, entry = table_entries(graph.variables.sizes[variable])
    np.add.at(
        node, state_start[variable][which] + entry, graph.log_tables[graph.table_start[a][which] + entry]
    )
    return node


def _edge_tables(graph: FactorGraph, skeleton: UndirectedGraph, node: np.ndarray) -> np.ndarray:
    """Flat log tables of all edges (lower position first), one after another."""
    sizes, state_start = graph.variables.sizes, graph.variables.state_start
    low, high = skeleton.edge_positions.T
    start = starts_of(sizes[low] * sizes[high])
    tables = np.zeros(start[-1])

    a = np.flatnonzero(np.diff(graph.scope_start) == 2)
    first, second = graph.scope[graph.scope_start[a]], graph.scope[graph.scope_start[a] + 1]
    n = len(skeleton)
    edge = np.searchsorted(low * n + high, np.minimum(first, second) * n + np.maximum(first, second))
    which, entry = table_entries(sizes[first] * sizes[second])
    row, column = np.divmod(entry, sizes[second][which])
    flipped = (first > second)[which]
    place = np.where(flipped, column * sizes[first][which] + row, entry)
    np.add.at(tables, start[edge][which] + place, graph.log_tables[graph.table_start[a][which] + entry])

    edges = np.arange(len(low))
    home = np.full(n, len(low), dtype=np.int64)  # first edge of each variable
    np.minimum.at(home, low, edges)
    np.minimum.at(home, high, edges)
    which, entry = table_entries(sizes[low] * sizes[high])
    row, column = np.divmod(entry, sizes[high][which])
    tables += np.where((home[low] == edges)[which], node[state_start[low][which] + row], 0.0)
    tables += np.where((home[high] == edges)[which], node[state_start[high][which] + column], 0.0)
    return tables


def table_entries(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For tables of these sizes one after another: the table of each entry, and its place in it."""
    start = starts_of(sizes)
    which = np.repeat(np.arange(len(sizes)), sizes)
    return which, np.arange(start[-1]) - start[which]


def to_pairwise(graph: FactorGraph) -> FactorGraph:
    """The same distribution with factors over at most two variables.

    A factor over three or more variables becomes a new variable, whose states are the joint
    states of its scope in C order, with the factor's table as its weights and one 0/1 factor to
    each variable of the scope. The old variables keep their positions, log Z and all marginals
    stay; the new variables come last and are named after the factor ('factor 4').

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures import to_pairwise
    >>> wide = to_pairwise(FactorGraph({"a": 2, "b": 2, "c": 2}, {("a", "b", "c"): range(8)}))
    >>> wide, wide.variables[3]
    (FactorGraph(4 variables, 4 factors, 7 edges), Variable('factor 0', 8))
    """
    arity = np.diff(graph.scope_start)
    wide = np.flatnonzero(arity > 2)
    if not len(wide):
        return graph
    variables = _with_factor_variables(graph, wide)
    stays = arity <= 2
    factor = np.repeat(np.arange(graph.n_factors), arity)
    scopes, counts = [graph.scope[stays[factor]]], [arity[stays]]
    table_starts, tables = [graph.table_start[stays]], [graph.log_tables]
    offset = len(graph.log_tables)
    new_position = np.full(graph.n_factors, -1, dtype=np.int64)
    new_position[wide] = len(graph.variables) + np.arange(len(wide))
    for group in graph.shape_groups:
        if len(group.shape) <= 2:
            continue
        mine = new_position[group.factors]
        scopes.append(mine)
        counts.append(np.ones(len(mine), dtype=np.int64))
        table_starts.append(group.table_start)
        digits = np.indices(group.shape).reshape(len(group.shape), -1)
        for k, size in enumerate(group.shape):
            agree = np.where(digits[k][:, None] == np.arange(size), 0.0, -np.inf)
            scopes.append(np.stack([mine, group.scopes[:, k]], axis=1).ravel())
            counts.append(np.full(len(mine), 2, dtype=np.int64))
            table_starts.append(np.full(len(mine), offset, dtype=np.int64))
            tables.append(agree.ravel())
            offset += agree.size
    return FactorGraph.from_flat(
        variables,
        starts_of(np.concatenate(counts)),
        np.concatenate(scopes),
        np.concatenate(tables),
        table_start=np.concatenate(table_starts),
    )


def _with_factor_variables(graph: FactorGraph, wide: np.ndarray) -> Variables:
    old = graph.variables
    taken = set(old.names)
    names = []
    for a in wide.tolist():
        name = f"factor {a}"
        while name in taken:
            name += "'"
        taken.add(name)
        names.append(name)
    sizes = graph.table_size[wide].tolist()
    return Variables([*old.names, *names], [*old.domains, *(Discrete.of(size) for size in sizes)])


def to_clique_factors(graph: FactorGraph, *, max_entries: int = 2**26) -> FactorGraph:
    """The same distribution with one factor for each maximal clique of the undirected graph.

    Every factor is multiplied into exactly one clique that contains its scope; a clique without
    factors gets a table of ones. Factors over no variable go to the first clique.

    Parameters
    ----------
    graph
        The factor graph.
    max_entries
        Refuse if the tables together would have more entries.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures import to_clique_factors
    >>> pairs = {("a", "b"): [1, 2, 3, 4], ("b", "c"): [1, 1, 2, 1], ("a", "c"): [1, 0, 0, 1]}
    >>> to_clique_factors(FactorGraph({"a": 2, "b": 2, "c": 2}, pairs))
    FactorGraph(3 variables, 1 factors, 3 edges)
    """
    check.whole("max_entries", max_entries, 1)
    cliques = clique_positions(primal_graph(graph))
    sizes = graph.variables.sizes
    entries = sum(float(np.prod(sizes[clique], dtype=np.float64)) for clique in cliques)
    if entries > max_entries:
        raise TooLargeError(
            f"to_clique_factors: the clique tables would have 2^{np.log2(entries):.1f} entries, "
            f"more than max_entries={max_entries}; keep the factor graph"
        )
    if not cliques:
        return graph
    tables = [np.zeros(sizes[clique]) for clique in cliques]
    around: list[list[int]] = [[] for _ in range(len(sizes))]
    members = [set(clique) for clique in cliques]
    for c, clique in enumerate(cliques):
        for i in clique:
            around[i].append(c)
    for a in range(graph.n_factors):
        scope = graph.scope_of(a).tolist()
        # The variable in the fewest cliques leaves the fewest to search.
        rarest = min(scope, key=lambda i: len(around[i]), default=None)
        c = 0 if rarest is None else next(c for c in around[rarest] if members[c].issuperset(scope))
        by_clique = sorted(range(len(scope)), key=lambda k: scope[k])
        shape = [int(sizes[i]) if i in scope else 1 for i in cliques[c]]
        tables[c] += graph.log_table(a).transpose(by_clique).reshape(shape)
    return FactorGraph.from_flat(
        graph.variables,
        starts_of([len(clique) for clique in cliques]),
        np.concatenate([np.array(clique, dtype=np.int64) for clique in cliques]),
        np.concatenate([table.ravel() for table in tables]),
    )
