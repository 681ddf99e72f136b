"""Which variables a graph declares independent of which, given which.

    factor graph, undirected graph:  X and Y are separated by V if every path between them meets V
    directed graph:                  d-separation; a path is blocked by V if it holds a variable W with
                                       -> W <-   and neither W nor any descendant of W is in V, or
                                       any other pair of arrows at W, and W is in V

In a distribution with the graph's factored form, separation implies X independent of Y given V.
Statements are about the graph: a variable with one state is a variable like any other.
Undirected questions are component labels after removing V; directed ones are one search
("Bayes ball") over (variable, direction) pairs. Both are linear in the size of the graph.

A directed graph is a mapping child -> parents; for many questions about a large one, pass
`DirectedGraph.of(parents)`, which is checked once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..core.errors import ModelError, QueryError
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from .directed import DirectedGraph, Parents
from .graph import Named, UndirectedGraph, component_labels

__all__ = [
    "AnyGraph",
    "FactorSplit",
    "d_connected",
    "d_separated",
    "is_markov_blanket",
    "markov_blanket",
    "reachable",
    "separated",
    "split_factors",
]

AnyGraph: TypeAlias = FactorGraph | UndirectedGraph | Parents
Names: TypeAlias = str | Iterable[str]


def separated(graph: AnyGraph, x: Names, y: Names, given: Names = ()) -> bool:
    """Whether the graph says that `x` and `y` are independent given `given`.

    Parameters
    ----------
    graph
        A factor graph, an undirected graph, or a mapping child -> parents (d-separation).
    x, y, given
        Disjoint sets: a name or several names each.

    Examples
    --------
    >>> from credo.structures import UndirectedGraph, separated
    >>> chain = UndirectedGraph.from_edges([("a", "b"), ("b", "c")])
    >>> separated(chain, "a", "c"), separated(chain, "a", "c", given="b")
    (False, True)
    """
    view = as_graph(graph)
    xs, ys, vs = _disjoint(view, x=x, y=y, given=given)
    return not reach(view, xs, vs)[ys].any()


def d_separated(parents: Parents, x: Names, y: Names, given: Names = ()) -> bool:
    """Whether `x` and `y` are d-separated by `given` in a directed graph.

    Examples
    --------
    Rain and sprinkler are independent until the grass is seen:

    >>> from credo.structures import d_separated
    >>> net = {"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"]}
    >>> d_separated(net, "rain", "sprinkler"), d_separated(net, "rain", "sprinkler", given="wet")
    (True, False)
    """
    return separated(DirectedGraph.of(parents), x, y, given)


def reachable(graph: AnyGraph, x: Names, given: Names = ()) -> tuple[str, ...]:
    """All variables outside `x` and `given` that are not separated from `x` by `given`."""
    view = as_graph(graph)
    xs, vs = _disjoint(view, x=x, given=given)
    found = reach(view, xs, vs)
    found[xs] = False
    return _name(view, found)


def d_connected(parents: Parents, x: Names, given: Names = ()) -> tuple[str, ...]:
    """All variables outside `x` and `given` that are not d-separated from `x` by `given`.

    Examples
    --------
    >>> from credo.structures import d_connected
    >>> d_connected({"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"]}, "rain")
    ('wet',)
    """
    return reachable(DirectedGraph.of(parents), x, given)


def markov_blanket(graph: AnyGraph, x: Names) -> tuple[str, ...]:
    """The smallest set that separates `x` from all other variables (its Markov boundary).

    Neighbours in an undirected graph; variables sharing a factor in a factor graph; parents,
    children and the other parents of the children in a directed graph.

    Examples
    --------
    >>> from credo.structures import markov_blanket
    >>> markov_blanket({"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"]}, "rain")
    ('sprinkler', 'wet')
    """
    view = as_graph(graph)
    (xs,) = _disjoint(view, x=x)
    inside = _mask(view, xs)
    found = np.zeros_like(inside)
    if isinstance(view, UndirectedGraph):
        found[view.neighbour[inside[view.owner]]] = True
    else:
        start, member = (view.scope_start, view.scope) if isinstance(view, FactorGraph) else view.families
        group = np.repeat(np.arange(len(start) - 1), np.diff(start))
        touched = np.zeros(len(start) - 1, dtype=bool)
        touched[group[inside[member]]] = True
        found[member[touched[group]]] = True
    return _name(view, found & ~inside)


def is_markov_blanket(graph: AnyGraph, x: Names, blanket: Names) -> bool:
    """Whether `blanket` separates `x` from all variables outside both."""
    view = as_graph(graph)
    xs, vs = _disjoint(view, x=x, blanket=blanket)
    found = reach(view, xs, vs)
    found[xs] = False
    return not found.any()


@dataclass(frozen=True)
class FactorSplit:
    """The factors of a graph in the three groups of p = (1/Z) g_X g_Y g_R; each appears once."""

    x: np.ndarray  # positions of the factors of g_X: those connected to X without passing V
    y: np.ndarray  # of g_Y
    rest: np.ndarray  # of g_R: those touching neither, and those over V alone


def split_factors(graph: FactorGraph, x: Names, y: Names, given: Names = ()) -> FactorSplit:
    """Show a separation by its factorisation: p = (1/Z) g_X(X, V, Q_X) g_Y(Y, V, Q_Y) g_R(Q_R, V).

    The variables other than V of the three groups are disjoint, so that given V the groups are
    independent of each other.

    Examples
    --------
    >>> from credo import FactorGraph
    >>> from credo.structures import split_factors
    >>> chain = FactorGraph(
    ...     {"a": 2, "b": 2, "c": 2}, {("a", "b"): [1, 2, 3, 4], ("b", "c"): [1, 2, 3, 4], "b": [1, 2]}
    ... )
    >>> split_factors(chain, "a", "c", given="b")
    FactorSplit(x=array([0]), y=array([1]), rest=array([2]))
    """
    if not isinstance(graph, FactorGraph):
        raise ModelError(f"split_factors: expected a factor graph, got {type(graph).__name__}")
    xs, ys, vs = _disjoint(graph, x=x, y=y, given=given)
    labels = _labels(graph, _mask(graph, vs))
    n = len(graph.variables)
    of_x, of_y = np.isin(labels, labels[xs]), np.isin(labels, labels[ys])
    if (of_x & of_y).any():
        i = int(np.flatnonzero(of_x[:n] & of_y[:n])[0])
        raise QueryError(
            f"split_factors: x and y must be separated by given, got a path through "
            f"'{graph.variables.names[i]}'; enlarge given"
        )
    factor_x, factor_y = of_x[n:], of_y[n:]
    rest = ~(factor_x | factor_y)
    return FactorSplit(np.flatnonzero(factor_x), np.flatnonzero(factor_y), np.flatnonzero(rest))


Checked: TypeAlias = FactorGraph | UndirectedGraph | DirectedGraph


def as_graph(graph: Any) -> Checked:
    """A graph of one of the three kinds; a mapping child -> parents becomes a directed one."""
    if isinstance(graph, (FactorGraph, UndirectedGraph, DirectedGraph)):
        return graph
    if isinstance(graph, Mapping):
        return DirectedGraph.of(graph)
    raise ModelError(
        "expected a FactorGraph, an UndirectedGraph or a mapping child -> parents, "
        f"got {type(graph).__name__}; models have to_factor_graph() and parents"
    )


def names_of(graph: Checked) -> Any:
    """The variables' names in the order of positions."""
    return graph.variables.names if isinstance(graph, FactorGraph) else graph.names


def connection(graph: Checked, given: np.ndarray) -> np.ndarray:
    """(n, n) which pairs of variables outside `given` (a mask) are not separated by it."""
    n = len(given)
    if isinstance(graph, DirectedGraph):
        rows = [reach(graph, np.array([i]), np.flatnonzero(given)) for i in range(n)]
        return np.array(rows, dtype=bool).reshape(n, n)
    labels = _labels(graph, given)[:n]
    pairs: np.ndarray = labels[:, None] == labels[None, :]
    return pairs


def reach(graph: Checked, x: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Mask of the variables outside `given` not separated from `x`, those of `x` included."""
    known = _mask(graph, given)
    if isinstance(graph, DirectedGraph):
        return _bayes_ball(graph, x, known)
    labels = _labels(graph, known)
    found: np.ndarray = np.isin(labels, labels[x])[: len(known)] & ~known
    return found


def _labels(graph: FactorGraph | UndirectedGraph, removed: np.ndarray) -> np.ndarray:
    """Component labels without the removed variables; of a factor graph, factors come after variables."""
    if isinstance(graph, UndirectedGraph):
        keep = ~(removed[graph.owner] | removed[graph.neighbour])
        return component_labels(len(graph), graph.owner[keep], graph.neighbour[keep])
    n, m = len(graph.variables), graph.n_factors
    factor = np.repeat(np.arange(n, n + m), np.diff(graph.scope_start))
    keep = ~removed[graph.scope]
    return component_labels(n + m, graph.scope[keep], factor[keep])


def _bayes_ball(graph: DirectedGraph, x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Variables the ball reaches from `x`; it enters a variable from a child or from a parent."""
    parent_start, parent, child_start, child = graph.lists
    given = known.tolist()
    up, down = bytearray(len(given)), bytearray(len(given))
    found = np.zeros(len(given), dtype=bool)
    stack = [(i, True) for i in x.tolist()]
    while stack:
        i, from_child = stack.pop()
        seen = up if from_child else down
        if seen[i]:
            continue
        seen[i] = 1
        if not given[i]:
            found[i] = True
            stack.extend((j, False) for j in child[child_start[i] : child_start[i + 1]] if not down[j])
        # Up through an unobserved variable, or back up from an observed one. A collider that a
        # descendant opens needs no rule: the ball falls to the descendant and climbs back.
        if from_child != given[i]:
            stack.extend((j, True) for j in parent[parent_start[i] : parent_start[i + 1]] if not up[j])
    return found


def _disjoint(graph: Checked, **sets: Names) -> list[np.ndarray]:
    """Positions of each set of names; refuses a variable that is in two of them."""
    index: Variables | Named = graph.variables if isinstance(graph, FactorGraph) else graph
    found: list[np.ndarray] = []
    home: dict[int, str] = {}
    for role, names in sets.items():
        positions = index.positions((names,) if isinstance(names, str) else names)
        for i in positions.tolist():
            if home.setdefault(i, role) != role:
                raise QueryError(
                    f"separation: '{names_of(graph)[i]}' is in both {home[i]} and {role}; "
                    "the sets must be disjoint"
                )
        found.append(positions)
    return found


def _mask(graph: Checked, positions: np.ndarray) -> np.ndarray:
    mask = np.zeros(len(names_of(graph)), dtype=bool)
    mask[positions] = True
    return mask


def _name(graph: Checked, mask: np.ndarray) -> tuple[str, ...]:
    names = names_of(graph)
    return tuple(names[i] for i in np.flatnonzero(mask).tolist())
