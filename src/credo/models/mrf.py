"""Markov networks: any non-negative factors, normalised by their sum Z.

    p(x) = (1/Z) prod_a psi_a(x_a)

    Ising   p(x) ∝ exp( sum_ij J_ij x_i x_j + sum_i h_i x_i ),      x_i in {-1, +1}
    Potts   p(x) ∝ exp( sum_ij J_ij [x_i = x_j] + sum_i h_i(x_i) )

Every edge counts once. Grids of a million variables are built as whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import check
from ..core.domain import Discrete
from ..core.errors import ModelError
from ..core.factor import TableFactor
from ..core.factor_graph import FactorGraph
from ..core.naming import NamedModel
from ..core.records import register
from ..core.variable import Variables

if TYPE_CHECKING:
    from .log_linear import LogLinear

__all__ = ["MarkovNet"]

_SPIN = Discrete.of(["-1", "+1"])


@register("MarkovNet")
class MarkovNet(NamedModel):
    """An undirected model; immutable.

    Parameters
    ----------
    variables
        Variables, a mapping name -> states, or an array of state counts.
    factors
        `TableFactor`s, or a mapping scope -> table of weights.

    Examples
    --------
    >>> from credo import MarkovNet
    >>> model = MarkovNet({"a": 2, "b": 3}, {("a", "b"): [[1, 2, 3], [4, 5, 6]]})
    >>> model
    MarkovNet(2 variables, 1 factors)
    """

    def __init__(self, variables: Any, factors: Any = ()) -> None:
        self._graph = _tables_only(FactorGraph(variables, factors))

    @classmethod
    def from_graph(cls, graph: FactorGraph) -> MarkovNet:
        """Make a model of an existing factor graph, which is shared, not copied."""
        if not isinstance(graph, FactorGraph):
            raise ModelError(f"from_graph: expected a FactorGraph, got {type(graph).__name__}")
        made = cls.__new__(cls)
        made._graph = _tables_only(graph)
        return made

    def to_parts(self) -> dict[str, Any]:
        """What files keep: the factor graph."""
        return {"graph": self._graph}

    @classmethod
    def from_parts(cls, graph: Any) -> MarkovNet:
        """The model of what a file kept."""
        return cls.from_graph(graph)

    @classmethod
    def ising(
        cls, couplings: Any, fields: Any = None, edges: Any = None, *, count: int | None = None
    ) -> MarkovNet:
        """Make an Ising model; the states of every variable are '-1' and '+1'.

        Parameters
        ----------
        couplings
            J: with `edges` one number, or one per edge; without, a mapping (i, j) -> J_ij or a
            dense or sparse matrix, symmetric or triangular, where zeros mean no edge.
        fields
            h: one number per variable, or one for all; None leaves the unary factors out.
        edges
            Pairs of variable positions, shape (edges, 2).
        count
            Number of variables, where neither a matrix nor the fields tell and some have no edge.

        Examples
        --------
        >>> from credo import MarkovNet
        >>> model = MarkovNet.ising({(0, 1): 0.5, (1, 2): -1.0}, fields=[0.1, 0.0, 0.2])
        >>> round(model.to_factor_graph().log_score({"x0": "+1", "x1": "+1", "x2": "-1"}), 6)
        1.4
        """
        is_matrix = edges is None and not isinstance(couplings, Mapping)
        edges, values, reached = _couplings(couplings, edges)
        if fields is not None:
            fields = check.finite_numbers("fields", fields)
        if count is None:
            count = len(fields) if fields is not None and fields.ndim and not is_matrix else reached
        if fields is not None:
            fields = _spread("fields", fields, count)
        _check_positions(edges, count)
        names = Variables.numbered(np.full(count, 2)).names
        variables = Variables(names, (_SPIN,) * count)
        groups = []
        if fields is not None:
            groups.append((np.arange(count)[:, None], fields[:, None] * np.array([-1.0, 1.0])))
        signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
        groups.append((edges, values[..., None, None] * signs))
        return cls.from_graph(FactorGraph.from_arrays(variables, *groups, log=True))

    @classmethod
    def potts(cls, edges: Any, sizes: Any, couplings: Any = 1.0, fields: Any = None) -> MarkovNet:
        """Make a Potts model with weight exp(J) for equal states on an edge.

        Parameters
        ----------
        edges
            Pairs of variable positions, shape (edges, 2).
        sizes
            Number of states, one for all variables or one per variable.
        couplings
            J, one number or one per edge.
        fields
            h, shape (variables, states), or one vector per variable; None leaves the unary
            factors out.

        Examples
        --------
        >>> from credo import MarkovNet
        >>> model = MarkovNet.potts([(0, 1), (1, 2)], sizes=3, couplings=[0.5, 2.0])
        >>> model.to_factor_graph().log_score({"x0": 2, "x1": 1, "x2": 1})
        2.0
        """
        edges = _pairs(edges)
        sizes = np.asarray(sizes)
        if sizes.dtype.kind not in "iu" or sizes.ndim > 1:
            raise ModelError(f"sizes: expected one number of states or one per variable, got {sizes!r:.80}")
        if sizes.ndim == 0:
            count = int(edges.max(initial=-1)) + 1 if fields is None else len(fields)
            sizes = np.full(count, int(sizes))
        variables = Variables.numbered(sizes)
        values = _spread("couplings", check.finite_numbers("couplings", couplings), len(edges))
        _check_positions(edges, len(sizes))
        groups = [] if fields is None else _field_groups(fields, sizes)
        left, right = sizes[edges[:, 0]], sizes[edges[:, 1]]
        base = int(sizes.max(initial=0)) + 1
        for shape in np.unique(left * base + right):
            mine = left * base + right == shape
            equal = np.eye(int(shape) // base, int(shape) % base)
            groups.append((edges[mine], values[mine, None, None] * equal))
        return cls.from_graph(FactorGraph.from_arrays(variables, *groups, log=True))

    @classmethod
    def from_pandas(
        cls, frames: Iterable[Any], *, states: Mapping[str, Any] | None = None, weight: str = "weight"
    ) -> MarkovNet:
        """Make a model from data frames in long form, one per factor.

        Parameters
        ----------
        frames
            Each has one column of state labels per variable of the scope, in axis order, and
            the weight column; one row per combination of states.
        states
            Name -> state labels, in order; by default the categories of a categorical column,
            else the labels in order of first appearance.
        weight
            Name of the weight column.
        """
        from .interchange import factor_parts

        return cls(*factor_parts(frames, states or {}, weight))

    @classmethod
    def from_networkx(cls, graph: Any, *, states: str = "states", table: str = "table") -> MarkovNet:
        """Make a pairwise model from a NetworkX graph.

        Parameters
        ----------
        graph
            Every node has states, and weights of its own if it carries a table; every edge has
            a table. The axes of an edge's table follow the edge's attribute `scope` if there is
            one, else the edge's direction, or in an undirected graph the order of the nodes.
        states, table
            Names of the attributes.
        """
        from .interchange import read_pairwise

        return cls(*read_pairwise(graph, states, table))

    @staticmethod
    def log_linear(variables: Any, features: Iterable[Any], weights: Any) -> LogLinear:
        """Make a model whose factors share parameters; see `LogLinear`."""
        from .log_linear import LogLinear

        return LogLinear(variables, features, weights)

    @property
    def variables(self) -> Variables:
        """The ordered set of variables."""
        return self._graph.variables

    @property
    def factors(self) -> Sequence[TableFactor]:
        """The factors, made one by one when looked at."""
        return self._graph.factors

    def to_factor_graph(self) -> FactorGraph:
        """Return the factor graph; the same object at every call."""
        return self._graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MarkovNet) and self._graph == other._graph

    __hash__ = None  # type: ignore[assignment]

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        return self._graph._columns()

    def __repr__(self) -> str:
        return f"MarkovNet({len(self.variables)} variables, {self._graph.n_factors} factors)"


def _couplings(couplings: Any, edges: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Edges, couplings (one number shared by all, or one per edge) and the variables they need."""
    if edges is not None:
        edges = _pairs(edges)
        values = check.finite_numbers("couplings", couplings)
        if values.ndim:
            values = _spread("couplings", values, len(edges))
        return edges, values, int(edges.max(initial=-1)) + 1
    if isinstance(couplings, Mapping):
        edges = _pairs(list(couplings))
        values = check.finite_numbers("couplings", list(couplings.values()))
        return edges, values, int(edges.max(initial=-1)) + 1
    return _from_matrix(couplings)


def _from_matrix(matrix: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Edges and couplings of a symmetric or triangular matrix, dense or sparse."""
    if hasattr(matrix, "tocoo"):
        sparse = matrix.tocoo()
        shape, (rows, columns, values) = sparse.shape, (sparse.row, sparse.col, sparse.data)
    else:
        dense = check.finite_numbers("couplings", matrix)
        shape = dense.shape
        rows, columns = np.nonzero(dense) if dense.ndim == 2 else (np.empty(0, np.int64),) * 2
        values = dense[rows, columns] if dense.ndim == 2 else np.empty(0)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ModelError(f"couplings: expected a square matrix, or edges as well, got shape {shape}")
    values = check.finite_numbers("couplings", values)
    if (rows == columns)[values != 0].any():
        raise ModelError("couplings: expected a zero diagonal, because x_i x_i = 1 is a constant")
    edges = np.stack([np.minimum(rows, columns), np.maximum(rows, columns)], axis=1).astype(np.int64)
    upper, lower = rows < columns, rows > columns
    if upper.any() and lower.any():
        above, below = (_sorted_by_edge(edges[side], values[side]) for side in (upper, lower))
        if not all(np.array_equal(a, b) for a, b in zip(above, below, strict=True)):
            raise ModelError(
                "couplings: expected a symmetric or triangular matrix, got J_ij different from J_ji"
            )
        return *above, int(shape[0])
    keep = values != 0
    return *_sorted_by_edge(edges[keep], values[keep]), int(shape[0])


def _sorted_by_edge(edges: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    return edges[order], values[order]


def _pairs(edges: Any) -> np.ndarray:
    """Positions of shape (count, 2)."""
    try:
        found = np.asarray(edges if len(edges) else np.empty((0, 2)))
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"edges: expected pairs of variable positions, got {edges!r:.80}") from None
    if found.ndim != 2 or found.shape[1] != 2 or (found.size and found.dtype.kind not in "iu"):
        raise ModelError(
            f"edges: expected pairs of variable positions, got {found.dtype} of shape {found.shape}"
        )
    return found.astype(np.int64)


def _check_positions(edges: np.ndarray, count: int) -> None:
    if edges.size and not (0 <= edges.min() and edges.max() < count):
        raise ModelError(f"edges: expected positions in [0, {count}), got {edges.min()} to {edges.max()}")


def _spread(what: str, values: np.ndarray, count: int) -> np.ndarray:
    """One number for each of `count` places, from as many or from one."""
    if values.shape not in ((), (count,)):
        raise ModelError(f"{what}: expected one number or {count}, got shape {values.shape}")
    return np.broadcast_to(values, (count,))


def _field_groups(fields: Any, sizes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Unary factors from one vector per variable, one group per state count."""
    if len(fields) != len(sizes):
        raise ModelError(f"fields: expected one vector per variable, {len(sizes)} in all, got {len(fields)}")
    groups = []
    for size in np.unique(sizes):
        mine = np.flatnonzero(sizes == size)
        rows = fields[mine] if isinstance(fields, np.ndarray) else [fields[i] for i in mine]
        tables = check.finite_numbers("fields", rows)
        if tables.shape != (len(mine), size):
            raise ModelError(
                f"fields: expected {size} numbers for a variable with {size} states, "
                f"got shape {tables.shape[1:]}"
            )
        groups.append((mine[:, None], tables))
    return groups


def _tables_only(graph: FactorGraph) -> FactorGraph:
    """The graph, if all of its factors are tables."""
    if graph.is_tables:
        return graph
    if not graph.variables.is_discrete:
        name = graph.variables.first_in(graph.variables.continuous)[0]
        raise ModelError(f"variable '{name}' is continuous: a Markov net is made of tables; use HybridNet")
    raise ModelError(
        f"a Markov net is made of tables, and some factors are {graph.others[0].kind}; use HybridNet"
    )
