r"""Conditional random fields: a Markov network over labels whose tables depend on inputs.

    p(y | x) = (1/Z(x)) exp( sum_i x_i . W[:, y_i]  +  sum_(i,j) z_ij . V[:, y_i, y_j] )

x_i are the features of node i, z_ij those of edge (i, j); the weights W (features, labels) and
V (edge features, labels, labels) are shared by all nodes and edges of all graphs. Without edge features every
edge has the one feature 1, so V holds a single table of transition scores. A field has no factor graph
of its own: `crf.given(x)` is the Markov network of the labels for one input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..core import check
from ..core.display import Axis, Listing, Shown, grid, told
from ..core.domain import Discrete
from ..core.errors import DataError, ModelError
from ..core.factor_graph import FactorGraph
from ..core.numbers import float_array
from ..core.records import register
from ..core.variable import Variables
from .mrf import MarkovNet

__all__ = ["CRF", "expanded_features", "feature_rows", "label_graph"]


@register("CRF", fields=["labels", "node_weights", "edge_weights", "node_features", "edge_features"])
class CRF(Shown):
    """A conditional random field; immutable.

    Parameters
    ----------
    labels
        State labels, the same for all nodes.
    node_weights
        W, shape (node features, labels).
    edge_weights
        V, shape (edge features, labels, labels), or (labels, labels) for one table of transitions.
    node_features, edge_features
        Names of the features, for inputs given as dictionaries.

    Examples
    --------
    >>> import credo, numpy as np
    >>> from credo.models.crf import CRF
    >>> crf = CRF(["noun", "verb"], [[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]])
    >>> chain = crf.given(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> credo.infer(chain, maximise="all").assignment
    Assignment(y0=noun, y1=verb)
    """

    def __init__(
        self,
        labels: Iterable[Any],
        node_weights: Any,
        edge_weights: Any,
        *,
        node_features: Sequence[str] | None = None,
        edge_features: Sequence[str] | None = None,
    ) -> None:
        self._domain = Discrete.of(labels)
        size = self._domain.size
        self._node = check.finite_numbers("node_weights", node_weights)
        edge = check.finite_numbers("edge_weights", edge_weights)
        self._edge = edge[None] if edge.ndim == 2 else edge
        if self._node.ndim != 2 or self._node.shape[1] != size:
            raise ModelError(f"node_weights: expected shape (features, {size}), got {self._node.shape}")
        if self._edge.ndim != 3 or self._edge.shape[1:] != (size, size):
            raise ModelError(f"edge_weights: expected shape (features, {size}, {size}), got {edge.shape}")
        self.node_features = _names("node_features", node_features, len(self._node))
        self.edge_features = _names("edge_features", edge_features, len(self._edge))
        self._node.flags.writeable = self._edge.flags.writeable = False

    @property
    def labels(self) -> tuple[str, ...]:
        """State labels of every node."""
        return self._domain.labels

    @property
    def node_weights(self) -> np.ndarray:
        """W, (node features, labels), read-only."""
        return self._node

    @property
    def edge_weights(self) -> np.ndarray:
        """V, (edge features, labels, labels), read-only."""
        return self._edge

    def with_weights(self, node_weights: Any, edge_weights: Any) -> CRF:
        """The same field with other weights."""
        names = {"node_features": self.node_features, "edge_features": self.edge_features}
        return CRF(self.labels, node_weights, edge_weights, **names)

    def node_scores(self, features: Any) -> np.ndarray:
        """Log potentials (nodes, labels) of nodes with these features (nodes, features), dense or sparse."""
        rows = feature_rows("node features", features, self.node_features, len(self._node))
        return np.ascontiguousarray(rows @ self._node)

    def edge_scores(self, features: Any, count: int) -> np.ndarray:
        """Log potentials (count, labels, labels) of edges; None stands for the one feature 1."""
        size = self._domain.size
        if features is None:
            if len(self._edge) != 1:
                raise DataError(f"edge features: expected {len(self._edge)} per edge, got none")
            return np.broadcast_to(self._edge[0], (count, size, size))
        rows = feature_rows("edge features", features, self.edge_features, len(self._edge))
        if rows.shape[0] != count:
            raise DataError(f"edge features: expected {count} rows, one per edge, got {rows.shape[0]}")
        return np.asarray(rows @ self._edge.reshape(len(self._edge), -1)).reshape(count, size, size)

    def given(self, features: Any, edges: Any = None, edge_features: Any = None) -> MarkovNet:
        """The Markov network of the labels y0, y1, ... for one input.

        Parameters
        ----------
        features
            Node features: an array (nodes, features), dense or sparse, or a list of dictionaries.
        edges
            Pairs of node positions; None makes a chain.
        edge_features
            Edge features in the order of `edges`; None if the field has none.
        """
        scores = self.node_scores(features)
        graph = label_graph(self._domain, len(scores), edges)
        pairs = self.edge_scores(edge_features, graph.n_factors - len(scores))
        tables = np.concatenate([scores.ravel(), pairs.ravel()])
        return MarkovNet.from_graph(graph.with_states(graph.variables, tables, graph.table_start))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CRF)
            and self.labels == other.labels
            and np.array_equal(self._node, other._node)
            and np.array_equal(self._edge, other._edge)
            and (self.node_features, self.edge_features) == (other.node_features, other.edge_features)
        )

    __hash__ = None  # type: ignore[assignment]

    def _shown(self) -> Iterable[str | Listing]:
        yield repr(self)
        for what, names, weights in (
            ("node feature", self.node_features, self._node),
            ("edge feature", self.edge_features, self._edge),
        ):
            features = Axis(what, names or [str(k) for k in range(len(weights))])
            labels = [Axis(f"label {k}", self.labels) for k in range(1, weights.ndim)]
            yield grid([features, *labels], weights, lambda shown: [told(w) for w in shown.flat], "weight")

    def __repr__(self) -> str:
        return (
            f"CRF({self._domain.size} labels, {len(self._node)} node features, "
            f"{len(self._edge)} edge features)"
        )


def label_graph(domain: Discrete, count: int, edges: Any) -> FactorGraph:
    """The structure of a field on one input: a unary factor per node, then one per edge; tables are zero."""
    if edges is None:
        edges = np.stack([np.arange(max(count - 1, 0)), np.arange(1, max(count, 1))], axis=1)
    try:
        pairs = np.asarray(edges if len(edges) else np.empty((0, 2), np.int64))
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"edges: expected pairs of node positions, got {edges!r:.80}") from None
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DataError(f"edges: expected pairs of node positions, got {edges!r:.80}")
    if len(pairs) and not (0 <= pairs.min() and pairs.max() < count):
        raise DataError(f"edges: expected positions in [0, {count}), got {pairs.min()} to {pairs.max()}")
    if (pairs[:, 0] == pairs[:, 1]).any():
        node = pairs[pairs[:, 0] == pairs[:, 1]][0, 0]
        raise DataError(f"edges: node {node} is joined to itself")
    names = Variables.numbered(np.full(count, domain.size), "y").names
    size = domain.size
    start = np.concatenate([np.arange(count + 1), count + 2 * np.arange(1, len(pairs) + 1)])
    scope = np.concatenate([np.arange(count), pairs.ravel()])
    tables = np.zeros(count * size + len(pairs) * size * size)
    return FactorGraph.from_flat(Variables(names, (domain,) * count), start, scope, tables)


def expanded_features(row: Mapping[str, Any]) -> dict[str, float]:
    """Names and values of one dictionary of features.

    A number is its own value, True and False are 1 and 0; a text becomes the feature "name:text" with the
    value 1, and a list of texts one such feature each.

    Examples
    --------
    >>> from credo.models.crf import expanded_features
    >>> expanded_features({"word": "cat", "length": 3, "title": False})
    {'word:cat': 1.0, 'length': 3.0, 'title': 0.0}
    """
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, str):
            found[f"{name}:{value}"] = 1.0
        elif isinstance(value, (list, tuple, set, frozenset)):
            found.update({f"{name}:{item}": 1.0 for item in value})
        else:
            try:
                found[str(name)] = float(value)
            except (TypeError, ValueError, OverflowError):
                raise DataError(
                    f"feature {name!r}: expected a number, a text or a list of texts, got {value!r:.80}"
                ) from None
    return found


def feature_rows(what: str, features: Any, names: Sequence[str] | None, count: int | None) -> Any:
    """Features as a matrix (rows, count), a float array or a sparse matrix in row form.

    Dictionaries need the names of the features; those that are not among them are left out, as a feature
    without a weight.
    """
    from scipy import sparse

    if sparse.issparse(features):
        found = sparse.csr_array(features).astype(np.float64)
        finite = np.isfinite(found.data).all()
    elif isinstance(features, Sequence) and len(features) and isinstance(features[0], Mapping):
        if names is None:
            raise DataError(f"{what}: expected numbers; dictionaries need a field with named features")
        found = _from_dictionaries(features, _positions(tuple(names)))
        finite = np.isfinite(found.data).all()
    else:
        found = float_array(what, features, error=DataError, expected="an array of numbers")
        finite = np.isfinite(found).all()
    if found.ndim != 2 or (count is not None and found.shape[1] != count):
        wanted = "features" if count is None else count
        raise DataError(f"{what}: expected an array of shape (rows, {wanted}), got {found.shape}")
    if not finite:
        raise DataError(f"{what}: expected finite numbers, got NaN or infinity")
    return found


@lru_cache(maxsize=8)
def _positions(names: tuple[str, ...]) -> dict[str, int]:
    """Name -> column; kept, because every sequence of a data set asks for the same."""
    return {name: k for k, name in enumerate(names)}


def _from_dictionaries(rows: Sequence[Mapping[str, Any]], position: Mapping[str, int]) -> Any:
    from scipy import sparse

    values, columns, ends = [], [], [0]
    for row in rows:
        for name, value in expanded_features(row).items():
            k = position.get(name)
            if k is not None:
                values.append(value)
                columns.append(k)
        ends.append(len(values))
    shape = (len(rows), len(position))
    return sparse.csr_array((np.array(values, dtype=np.float64), columns, ends), shape=shape)


def _names(what: str, names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    found = tuple(map(str, names))
    if len(found) != count or len(set(found)) < count:
        raise ModelError(f"{what}: expected {count} different names, got {len(found)}")
    return found
