"""Conditional independence as numbers and as lists of statements.

    X independent of Y given V   iff   P(X, Y | V) = P(X | V) P(Y | V)   wherever P(V) > 0

`independent` tests one statement on a joint table; `independencies` lists the statements C(G) of
a small graph; `is_i_map` asks whether all statements of a graph hold in a table or a second graph.

C(G) is listed by its elementary statements, pairs of single variables given any set. By the
chain rule X ⊥ {Y, W} | V holds iff X ⊥ Y | V and X ⊥ W | V, Y do, and separation obeys the same
rule, so the elementary statements imply all others in every distribution, zeros or not. (Pairs
given the same V do not: two fair coins are independent of their parity one by one.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core import check
from ..core.errors import ModelError, QueryError, TooLargeError
from ..core.numbers import float_array
from ..core.result import Joint
from .directed import DirectedGraph
from .separation import AnyGraph, Checked, as_graph, connection, names_of

__all__ = ["Statement", "independencies", "independent", "is_i_map"]

Axes: TypeAlias = str | int | Iterable[str] | Iterable[int]

# Conditional probabilities in double precision agree to about 1e-15 per added term; real
# dependence in models people write is far above this.
TOLERANCE = 1e-9


class Statement(NamedTuple):
    """`x` is independent of `y` given `given`; names in alphabetical order, so statements compare."""

    x: str
    y: str
    given: tuple[str, ...]


def independent(joint: Joint | Any, x: Axes, y: Axes, given: Axes = (), *, tol: float = TOLERANCE) -> bool:
    """Whether X and Y are independent given V in a joint table.

    Parameters
    ----------
    joint
        A `Joint`, as `credo.query` returns, or an array of non-negative weights.
    x, y, given
        Disjoint sets of variables: names for a `Joint`, axis numbers for an array.
    tol
        Largest difference of P(x, y | v) and P(x | v) P(y | v) that counts as equal.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.structures import independent
    >>> parity = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
    >>> independent(parity, 0, 2), independent(parity, 0, 2, given=1), independent(parity, 0, [1, 2])
    (True, False, False)
    """
    check.at_least("tol", tol, 0)
    table = _JointTable.of(joint)
    return table.independent(*table.axes(x=x, y=y, given=given), tol=tol)


def independencies(graph: AnyGraph, *, max_variables: int = 12) -> Iterator[Statement]:
    """The elementary conditional independence statements C(G) of a small graph, one by one.

    Parameters
    ----------
    graph
        A factor graph, an undirected graph, or a mapping child -> parents.
    max_variables
        Refuse larger graphs: there are n (n - 1) 2^(n - 3) candidate statements.

    Examples
    --------
    >>> from credo.structures import independencies
    >>> list(independencies({"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"]}))
    [Statement(x='rain', y='sprinkler', given=())]
    """
    view = as_graph(graph)
    names = names_of(view)
    _check_small("independencies", len(names), max_variables)
    return _statements(view, list(names))


def is_i_map(graph: AnyGraph, target: Any, *, tol: float = TOLERANCE, max_variables: int = 12) -> bool:
    """Whether every independence the graph states holds in the target.

    Parameters
    ----------
    graph
        A factor graph, an undirected graph, or a mapping child -> parents.
    target
        A joint table: a `Joint`, or an array with one axis per variable in the graph's order.
        Or a second graph: then every distribution of the second graph's form is one of the
        first graph's family.
    tol
        See `independent`.
    max_variables
        Refuse larger graphs, except directed ones tested on a table.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.structures import is_i_map
    >>> table = np.einsum("a,ab,bc->abc", [0.3, 0.7], [[0.1, 0.9], [0.6, 0.4]], [[0.5, 0.5], [0.2, 0.8]])
    >>> is_i_map({"a": [], "b": ["a"], "c": ["b"]}, table), is_i_map({"a": [], "b": ["a"], "c": []}, table)
    (True, False)
    """
    check.at_least("tol", tol, 0)
    view = as_graph(graph)
    names = list(names_of(view))
    if not isinstance(target, (Joint, np.ndarray, list)):
        other = as_graph(target)
        if set(names_of(other)) != set(names):
            raise QueryError("is_i_map: expected two graphs over the same variables")
        _check_small("is_i_map", len(names), max_variables)
        return set(_statements(view, names)) <= set(_statements(other, list(names_of(other))))
    table = _JointTable.of(target)
    axes = table.axes_of(names)
    if isinstance(view, DirectedGraph):
        groups = _directed_basis(view)
    else:
        _check_small("is_i_map", len(names), max_variables)
        groups = _undirected_basis(view, len(names))
    return all(table.independent(axes[x], axes[y], axes[v], tol=tol) for x, y, v in groups)


def _statements(graph: Checked, names: list[str]) -> Iterator[Statement]:
    n = len(names)
    for size in range(max(n - 1, 0)):
        for chosen in combinations(range(n), size):
            known = np.zeros(n, dtype=bool)
            known[list(chosen)] = True
            joined = connection(graph, known)
            given = tuple(sorted(names[i] for i in chosen))
            free = np.flatnonzero(~known).tolist()
            for i, j in combinations(free, 2):
                if not joined[i, j]:
                    x, y = sorted((names[i], names[j]))
                    yield Statement(x, y, given)


Group: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


def _directed_basis(graph: DirectedGraph) -> Iterator[Group]:
    """Each variable against its predecessors in a topological order, given its parents; implies C(G)."""
    parent_start, parent, _, _ = graph.lists
    for rank, i in enumerate(graph.order.tolist()):
        mine = parent[parent_start[i] : parent_start[i + 1]]
        others = np.setdiff1d(graph.order[:rank], mine)
        if len(others):
            yield np.array([i]), others, np.array(mine, dtype=np.int64)


def _undirected_basis(graph: Checked, n: int) -> Iterator[Group]:
    """For every V, each component outside it against the later ones; equals all separations by V."""
    for size in range(max(n - 1, 0)):
        for chosen in combinations(range(n), size):
            known = np.zeros(n, dtype=bool)
            known[list(chosen)] = True
            joined = connection(graph, known)
            left = np.flatnonzero(~known)
            while True:
                inside = joined[left[0], left]
                part, left = left[inside], left[~inside]
                if not len(left):
                    break
                yield part, left, np.array(chosen, dtype=np.int64)


class _JointTable(NamedTuple):
    """A joint table and, if known, the names of its axes."""

    values: np.ndarray
    names: tuple[str, ...] | None

    @classmethod
    def of(cls, joint: Any) -> _JointTable:
        if isinstance(joint, Joint) and joint.given:
            raise QueryError("expected a joint table p(scope), got a conditional one; ask without `given`")
        values = float_array(
            "joint table", joint.table if isinstance(joint, Joint) else joint, expected="an array of numbers"
        )
        if not (values >= 0).all() or np.isinf(values).any() or not values.any():
            raise ModelError("joint table: expected finite non-negative entries, not all zero")
        # Dividing by the largest entry first keeps the sum of huge weights finite.
        values = values / values.max()
        return cls(values / values.sum(), joint.names if isinstance(joint, Joint) else None)

    def axes_of(self, names: list[str]) -> np.ndarray:
        """Axis of each of a graph's variables."""
        if self.names is None:
            if self.values.ndim != len(names):
                raise QueryError(
                    f"joint table: expected one axis for each of the {len(names)} variables, "
                    f"got {self.values.ndim}"
                )
            return np.arange(len(names))
        return np.array([self.axis(name) for name in names], dtype=np.int64)

    def axis(self, which: Any) -> int:
        """Axis number of a variable given by name, or by number if the axes have no names."""
        if self.names is not None:
            if which in self.names:
                return self.names.index(which)
            raise QueryError(f"joint table: no variable named {which!r}; there are {list(self.names)}")
        if isinstance(which, (int, np.integer)) and 0 <= which < self.values.ndim:
            return int(which)
        raise QueryError(f"joint table: expected axis numbers below {self.values.ndim}, got {which!r}")

    def axes(self, **sets: Axes) -> list[np.ndarray]:
        """Axis numbers of disjoint sets."""
        found: list[np.ndarray] = []
        for asked in sets.values():
            several: Any = (asked,) if isinstance(asked, (str, int, np.integer)) else asked
            found.append(np.array([self.axis(which) for which in several], dtype=np.int64))
        everything = np.concatenate(found)
        if len(np.unique(everything)) < len(everything):
            raise QueryError("joint table: x, y and given must be disjoint and without repeats")
        return found

    def independent(self, x: np.ndarray, y: np.ndarray, given: np.ndarray, *, tol: float) -> bool:
        """Compare P(x, y | v) with P(x | v) P(y | v) for every v of positive probability."""
        asked = [*given.tolist(), *x.tolist(), *y.tolist()]
        kept = sorted(asked)
        table = self.values.sum(axis=tuple(k for k in range(self.values.ndim) if k not in asked))
        table = table.transpose([kept.index(k) for k in asked])
        sizes = [int(np.prod([self.values.shape[k] for k in part], dtype=np.int64)) for part in (given, x, y)]
        table = table.reshape(sizes)
        of_v = table.sum(axis=(1, 2))
        table = table[of_v > 0] / of_v[of_v > 0, None, None]
        product = table.sum(axis=2, keepdims=True) * table.sum(axis=1, keepdims=True)
        return bool(np.abs(table - product).max(initial=0.0) <= tol)


def _check_small(what: str, n: int, limit: int) -> None:
    if n > limit:
        raise TooLargeError(
            f"{what}: expected at most {limit} variables, got {n}; the statements grow as 2^n, "
            "raise max_variables if you can wait"
        )
