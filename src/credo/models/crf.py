r"""Conditional random fields: a Markov network over labels whose tables depend on inputs.

    p(y | x) = (1/Z(x)) exp( sum_i x_i . W[:, y_i]  +  sum_(i,j) z_ij . V[:, y_i, y_j] )

x_i are the features of node i, z_ij those of edge (i, j); the weights W (features, labels) and
V (edge features, labels, labels) are shared by all nodes and edges of all graphs. Without edge features every
edge has the one feature 1, so V holds a single table of transition scores. The field is a template: it has no
factor graph of its own, and `credo.infer(crf, data=x)` and its relatives answer questions about the labels of
inputs; `crf.instantiate(x).to_factor_graph()` is their Markov network.

`CRF()` is a blank: `credo.fit` gives it the labels and features of its data. Gradients move W and V as one
vector, of which scores are a linear function (`crf_weights.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

import numpy as np

from ..core import check
from ..core.display import Axis, Listing, Shown, grid, told
from ..core.domain import Discrete
from ..core.errors import DataError, ModelError
from ..core.instance import Instance
from ..core.records import register
from .crf_features import feature_rows
from .crf_weights import CRFWeights, WeightLayout
from .decodings import EACH, temperature_of

if TYPE_CHECKING:
    from .crf_inputs import Graphs, LabelledSequences
    from .crf_instances import Inputs

__all__ = ["CRF"]

Support = Literal["all", "observed"]
_ABOUT = {"symmetric": False, "support": "all", "decoding": EACH}


@register("CRF")
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
    symmetric
        Whether V(y, y') = V(y', y) when weights are learned: for edges without a direction.
    support
        What learning gives a weight: `"all"` pairs of feature and label, or only those `"observed"`.
    decoding
        What `credo.predict` tells: `"max-marginals"`, the most probable label of each node by itself, or
        `"joint-map"`, the best labels together. Structured learning sets what suits its objective.

    Examples
    --------
    >>> import credo, numpy as np
    >>> from credo.models.crf import CRF
    >>> crf = CRF(["noun", "verb"], [[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]])
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> credo.infer(crf, data=x).marginals["label"].round(2)
    array([[0.85, 0.15],
           [0.08, 0.92]])
    >>> credo.predict(crf, x)
    array(['noun', 'verb'], dtype=object)

    Learned from labelled sequences:

    >>> X = [[{"word": "the"}, {"word": "cat"}], [{"word": "the"}, {"word": "dog"}, {"word": "runs"}]]
    >>> y = [["det", "noun"], ["det", "noun", "verb"]]
    >>> found = credo.fit(credo.CRF(), credo.data.read(X, targets=y), prior="gaussian(scale=2)")
    >>> credo.predict(found.model, [{"word": "the"}, {"word": "bird"}, {"word": "runs"}])
    array(['det', 'noun', 'verb'], dtype=object)
    """

    is_conditional: ClassVar[bool] = True  # what it is the probability of are labels, given features

    def __init__(
        self,
        labels: Iterable[Any] | None = None,
        node_weights: Any = None,
        edge_weights: Any = None,
        *,
        node_features: Sequence[str] | None = None,
        edge_features: Sequence[str] | None = None,
        symmetric: bool = False,
        support: Support = "all",
        decoding: str = EACH,
    ) -> None:
        check.one_of("symmetric", symmetric, [False, True])
        check.one_of("support", support, ["all", "observed"])
        temperature_of(decoding)
        self.symmetric, self.support, self.decoding = symmetric, support, decoding
        given = [x is not None for x in (labels, node_weights, edge_weights)]
        self.is_blank = not any(given)
        if self.is_blank:
            if node_features is not None or edge_features is not None:
                raise ModelError("a blank CRF gets its features from data; leave out node_features")
            self.node_features: tuple[str, ...] | None = None
            self.edge_features: tuple[str, ...] | None = None
            return
        if labels is None or not all(given):
            raise ModelError(
                "CRF: expected labels, node_weights and edge_weights, or none of them, for a blank that "
                "credo.fit gives the labels and features of its data"
            )
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

    def to_parts(self) -> dict[str, Any]:
        """What files keep."""
        about = {} if self._about == _ABOUT else self._about
        if self.is_blank:
            return about
        names = {"node_features": self.node_features, "edge_features": self.edge_features}
        weights = {"node_weights": self._node, "edge_weights": self._edge}
        return {"labels": self.labels, **weights, **names, **about}

    @classmethod
    def from_parts(
        cls,
        labels: Any = None,
        node_weights: Any = None,
        edge_weights: Any = None,
        node_features: Any = None,
        edge_features: Any = None,
        symmetric: Any = False,
        support: Any = "all",
        decoding: Any = EACH,
    ) -> CRF:
        """The field of what a file kept."""
        names = {"node_features": node_features, "edge_features": edge_features}
        about = {"symmetric": symmetric, "support": support, "decoding": decoding}
        return cls(labels, node_weights, edge_weights, **names, **about)

    @property
    def _about(self) -> dict[str, Any]:
        """What learning is told about the weights, and predictions about the labels."""
        return {"symmetric": self.symmetric, "support": self.support, "decoding": self.decoding}

    def _refuse(self) -> NoReturn:
        raise ModelError(
            "model: this CRF is a blank, it has no labels and weights; fit it first: "
            "credo.fit(credo.CRF(), credo.data.read(X, targets=y)).model"
        )

    @property
    def domain(self) -> Discrete:
        """The states of every node."""
        if self.is_blank:
            self._refuse()
        return self._domain

    @property
    def labels(self) -> tuple[str, ...]:
        """State labels of every node."""
        return self.domain.labels

    @property
    def node_weights(self) -> np.ndarray:
        """W, (node features, labels), read-only."""
        if self.is_blank:
            self._refuse()
        return self._node

    @property
    def edge_weights(self) -> np.ndarray:
        """V, (edge features, labels, labels), read-only."""
        if self.is_blank:
            self._refuse()
        return self._edge

    def with_weights(self, node_weights: Any, edge_weights: Any) -> CRF:
        """The same field with other weights."""
        names: dict[str, Any] = {"node_features": self.node_features, "edge_features": self.edge_features}
        return CRF(self.labels, node_weights, edge_weights, **names, **self._about)

    @property
    def predicts_jointly(self) -> bool:
        """Whether labels are told as they are best together, not each by itself."""
        return temperature_of(self.decoding) is not None

    def with_decoding(self, decoding: str) -> CRF:
        """The same field whose labels are predicted in this way."""
        return CRF.from_parts(**(self.to_parts() | {"decoding": decoding}))

    def filled(self, x: Any, targets: Any = None, **reading: Any) -> CRF:
        """A blank with the labels and features of data, all weights zero; other fields as they are."""
        if not self.is_blank:
            return self
        from .crf_instances import filled

        labels, read = filled(self, x, targets, **reading)
        size, nodes, edges = len(labels), read.pop("nodes"), read.pop("edges")
        return CRF(labels, np.zeros((nodes, size)), np.zeros((edges, size, size)), **read, **self._about)

    def read_batch(self, x: Any, targets: Any = None, **reading: Any) -> LabelledSequences | Graphs:
        """Features and labels of inputs, for learning; arguments as those of `labelled`.

        What this returned is read again as it is.
        """
        if hasattr(x, "by_node_feature"):
            return x  # type: ignore[no-any-return]
        return self._read(x, targets, reading).batch(self)

    def score_weights(self, batch: LabelledSequences | Graphs) -> CRFWeights:
        """The weights as one vector, of which the scores of a batch are a linear function."""
        size = len(self.labels)
        layout = WeightLayout.of_batch(batch, size, support=self.support, symmetric=self.symmetric)
        return CRFWeights(layout, layout.collected(self._node, self._edge), self.with_weights)

    def node_scores(self, features: Any) -> np.ndarray:
        """Log potentials (nodes, labels) of nodes with these features (nodes, features), dense or sparse."""
        weights = self.node_weights
        rows = feature_rows("node features", features, self.node_features, len(weights))
        return np.ascontiguousarray(rows @ weights)

    def edge_scores(self, features: Any, count: int) -> np.ndarray:
        """Log potentials (count, labels, labels) of edges; None stands for the one feature 1."""
        size = self.domain.size
        if features is None:
            if count:
                self.check_plain_edges("edge")
            return np.broadcast_to(self._edge[0], (count, size, size))
        rows = feature_rows("edge features", features, self.edge_features, len(self._edge))
        if rows.shape[0] != count:
            raise DataError(f"edge features: expected {count} rows, one per edge, got {rows.shape[0]}")
        return np.asarray(rows @ self._edge.reshape(len(self._edge), -1)).reshape(count, size, size)

    def check_plain_edges(self, what: str) -> None:
        """Refuse edges without features where the field has weights for some."""
        if len(self._edge) != 1 or self.edge_features is not None:
            raise DataError(f"edge features: expected {len(self._edge)} per {what}, got none")

    def instantiate(self, x: Any, **reading: Any) -> Instance:
        """The labels of one input, or of a list of inputs: what `infer(crf, data=x)` is asked about.

        Parameters
        ----------
        x
            Node features: an array (nodes, features), dense or sparse, or a list of dictionaries; a tuple
            (node features, edges) or (node features, edges, edge features), where `edges` are pairs of node
            positions, None for a chain; or a list of any of these. Tables whose columns have names, and
            datasets, are dictionaries row by row.
        reading
            `lengths` of the inputs in one array or table; of tables `groups`, the column that tells inputs
            apart, and `columns`, the features.

        Examples
        --------
        >>> import credo
        >>> crf = credo.CRF(["noun", "verb"], [[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]])
        >>> crf.instantiate([[1.0, 0.0], [0.0, 1.0]])
        Instance(chains, 1 sequences, 2 rows, 2 states)
        >>> crf.instantiate(([[1.0, 0.0], [0.0, 1.0]], [(1, 0)])).to_factor_graph().variables.names
        ('y0', 'y1')
        """
        from .crf_instances import Inputs

        return Inputs.of(self, x, **reading).instance(self)

    def labelled(self, x: Any, targets: Any = None, **reading: Any) -> tuple[Instance, np.ndarray]:
        """The labels of inputs, and the positions of those that were observed, -1 where missing.

        Parameters
        ----------
        x, reading
            As in `instantiate`.
        targets
            Labels of one input, or a list with those of each; None or NaN is missing. Of a table also the
            name of the column that has them; a dataset knows its targets.
        """
        read = self._read(x, targets, reading)
        assert read.known is not None
        return read.instance(self), read.known

    def _read(self, x: Any, targets: Any, reading: Any) -> Inputs:
        from .crf_instances import Inputs

        read = Inputs.of(self, x, targets, **reading)
        if read.known is None:
            raise DataError("targets: expected the labels that were observed, got none")
        return read

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CRF) or self.is_blank or other.is_blank:
            return isinstance(other, CRF) and (self.is_blank, self._about) == (other.is_blank, other._about)
        return (
            self.labels == other.labels
            and np.array_equal(self._node, other._node)
            and np.array_equal(self._edge, other._edge)
            and (self.node_features, self.edge_features) == (other.node_features, other.edge_features)
            and self.decoding == other.decoding
        )

    __hash__ = None  # type: ignore[assignment]

    def _shown(self) -> Iterable[str | Listing]:
        yield repr(self)
        if self.is_blank:
            return
        for what, names, weights in (
            ("node feature", self.node_features, self._node),
            ("edge feature", self.edge_features, self._edge),
        ):
            features = Axis(what, names or [str(k) for k in range(len(weights))])
            labels = [Axis(f"label {k}", self.labels) for k in range(1, weights.ndim)]
            yield grid([features, *labels], weights, lambda shown: [told(w) for w in shown.flat], "weight")

    def __repr__(self) -> str:
        if self.is_blank:
            return "CRF(no labels, no features yet: fit it first)"
        return (
            f"CRF({self._domain.size} labels, {len(self._node)} node features, "
            f"{len(self._edge)} edge features)"
        )


def _names(what: str, names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    found = tuple(map(str, names))
    if len(found) != count or len(set(found)) < count:
        raise ModelError(f"{what}: expected {count} different names, got {len(found)}")
    return found
