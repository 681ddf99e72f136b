r"""Conditional random fields with several kinds of nodes and edges, hidden ones among them.

    p(y, h | x) = (1/Z(x)) exp( sum_kinds sum_i x_i . W_kind[:, s_i]
                                + sum_edge kinds sum_(i,j) z_ij . V_kind[:, s_i, s_j] )

s_i is the state of node i, a label y_i of kinds that are observed, or a state h_i of kinds that never are.
All nodes of a kind share their weights, and so do all edges of an edge kind: weights of single nodes are
those of kinds with one member. Labels that are missing make a node hidden for that input.

The field is made by `fit` from its wiring and data, and learned by `structured`, which has likelihoods
(`objective=hcrf`) and margins (`mssvm`, `lssvm`); `learning.predict_structures` predicts labels as it was
learned (`decoding`). It is a template: `credo.infer(field, data=x)`, `credo.predict(field, x)` and
`credo.log_likelihood(field, x, targets=y)` answer about inputs. `graphs(x)` are its Markov networks, which
every other question can be asked of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..core import check
from ..core.display import Listing, Shown
from ..core.domain import Discrete
from ..core.errors import DataError, ModelError
from ..core.factor_graph import FactorGraph
from ..core.kind_graphs import KindGraphs
from ..core.records import register
from ..core.variable import Variables
from ..core.wiring import starts_of
from .crf_features import Features, Labels
from .decodings import EACH, temperature_of
from .latent_inputs import KindBatch, KindEdges, KindItems, KindNodes, codes_of, labels_by_kind

__all__ = ["KindWeights", "LatentCRF"]

_SMALL = 0.1  # standard deviation of the numbers that tell hidden states apart


@register("LatentCRF")
class LatentCRF(Shown):
    """A conditional random field with several kinds of nodes and edges; immutable.

    Parameters
    ----------
    edges
        Edge kind -> the two kinds of nodes it joins.
    hidden
        Kinds of nodes that are never observed -> how many states they have.
    states
        Kinds of nodes that have labels -> their labels. Without it the field is a blank, which gets labels
        and features from data.
    node_weights, edge_weights
        W of every node kind (features, states), V of every edge kind (features, states, states).
    node_features, edge_features
        Names of the features of kinds whose features are dictionaries.
    decoding
        How labels are predicted, see `decodings`; learning sets what suits its objective.

    Examples
    --------
    Letters with two hidden styles each, and steps between letters:

    >>> import credo, numpy as np
    >>> blank = credo.LatentCRF({"step": ("letter", "letter"), "style": ("letter", "style")}, {"style": 2})
    >>> x = [{"nodes": {"letter": np.eye(2)[[0, 1, 1]], "style": 3}, "edges": {"step": None, "style": None}}]
    >>> found = credo.fit(blank, x, "structured(objective=mssvm)", targets=[["a", "b", "b"]], seed=0)
    >>> found.model
    LatentCRF(letter: 2 labels; style: 2 hidden states; step: letter-letter; style: letter-style)
    """

    is_conditional: ClassVar[bool] = True

    def __init__(
        self,
        edges: Mapping[str, tuple[str, str]],
        hidden: Mapping[str, int] | None = None,
        *,
        states: Mapping[str, Iterable[Any]] | None = None,
        node_weights: Mapping[str, Any] | None = None,
        edge_weights: Mapping[str, Any] | None = None,
        node_features: Mapping[str, Any] | None = None,
        edge_features: Mapping[str, Any] | None = None,
        decoding: str = EACH,
    ) -> None:
        temperature_of(decoding)
        self.decoding = decoding
        self.edges, self.hidden = _wiring(edges), _states(hidden)
        self.is_blank = states is None
        self.node_features = {kind: tuple(names) for kind, names in (node_features or {}).items() if names}
        self.edge_features = {kind: tuple(names) for kind, names in (edge_features or {}).items() if names}
        if states is None:
            if node_weights is not None or edge_weights is not None:
                raise ModelError("LatentCRF: expected states beside weights, got weights alone")
            return
        both = sorted(set(states) & set(self.hidden))
        if both:
            raise ModelError(f"LatentCRF: expected kinds that have labels or are hidden, got both of {both}")
        self.domains = {kind: Discrete.of(labels) for kind, labels in states.items()}
        self.domains |= {kind: Discrete(count) for kind, count in self.hidden.items()}
        for kind, ends in self.edges.items():
            unknown = [end for end in ends if end not in self.domains]
            if unknown:
                raise ModelError(f"edges of kind '{kind}': no nodes of kind '{unknown[0]}'")
        sizes = {kind: (domain.size,) for kind, domain in self.domains.items()}
        pairs = {e: (sizes[a][0], sizes[b][0]) for e, (a, b) in self.edges.items()}
        self.node_weights = _weights("node_weights", node_weights, sizes)
        self.edge_weights = _weights("edge_weights", edge_weights, pairs)

    def to_parts(self) -> dict[str, Any]:
        """What files keep."""
        wiring: dict[str, Any] = {"edges": {k: list(v) for k, v in self.edges.items()}, "hidden": self.hidden}
        if self.decoding != EACH:
            wiring["decoding"] = self.decoding
        if self.is_blank:
            return wiring
        names = {"node_features": self.node_features, "edge_features": self.edge_features}
        weights = {"node_weights": self.node_weights, "edge_weights": self.edge_weights}
        return (
            wiring | {"states": {kind: list(self.labels[kind]) for kind in self.observed}} | weights | names
        )

    @classmethod
    def from_parts(cls, **parts: Any) -> LatentCRF:
        """The field of what a file kept."""
        return cls(**parts)

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds of nodes, those with labels first."""
        self._refuse_blank()
        return tuple(self.domains)

    @property
    def observed(self) -> tuple[str, ...]:
        """Kinds of nodes that have labels."""
        return tuple(kind for kind in self.kinds if kind not in self.hidden)

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """Kind -> labels, or names of hidden states."""
        self._refuse_blank()
        return {kind: domain.labels for kind, domain in self.domains.items()}

    def _refuse_blank(self) -> None:
        if self.is_blank:
            raise ModelError("model: this LatentCRF is a blank, it has no labels and weights; fit it first")

    def filled(self, x: Any, targets: Any = None, **reading: Any) -> LatentCRF:
        """A blank with the labels and features of data, all weights zero; other fields as they are."""
        if not self.is_blank:
            return self
        _refuse_reading(reading)
        items = KindItems.of(x, None, self.edges)
        observed = [kind for kind in items.nodes if kind not in self.hidden]
        told = labels_by_kind(targets, _count(items), observed)
        states = {k: Labels.of([y for y in told[k] if y is not None]).classes.tolist() for k in observed}
        sizes = {kind: len(labels) for kind, labels in states.items()} | self.hidden
        nodes, edges = items.features()
        for kind in self.hidden:
            nodes.setdefault(kind, Features(None, None, 1, None))
        widths = {k: np.zeros((nodes[k].nodes or 1, size)) for k, size in sizes.items()}
        missing = [end for ends in self.edges.values() for end in ends if end not in sizes]
        if missing:
            raise ModelError(f"edges: no nodes of kind '{missing[0]}' in the data")
        pairs = {e: np.zeros((edges[e].edges or 1, sizes[a], sizes[b])) for e, (a, b) in self.edges.items()}
        return LatentCRF(
            self.edges, self.hidden, states={k: [str(s) for s in own] for k, own in states.items()},
            node_weights=widths, edge_weights=pairs,
            node_features={k: f.node_names for k, f in nodes.items()},
            edge_features={e: f.edge_names for e, f in edges.items()}, decoding=self.decoding,
        )  # fmt: skip

    def read_batch(self, x: Any, targets: Any = None, **reading: Any) -> KindBatch:
        """Features and labels of inputs; what this returned is read again as it is.

        Without `targets` no label is known.
        """
        if isinstance(x, KindBatch):
            return x
        _refuse_reading(reading)
        items = KindItems.of(x, self.kinds, self.edges)
        told = {}
        if targets is not None:
            told = labels_by_kind(targets, _count(items), self.observed)
        nodes = []
        for kind in self.kinds:
            names, width = self.node_features.get(kind), len(self.node_weights[kind])
            rows, start = items.node_rows(kind, Features(names, None, width, None))
            domain = self.domains[kind]
            labels = np.full(int(start[-1]), -1)
            if kind in told:
                labels = codes_of(Labels.of_names(domain.labels), told[kind], start)
            nodes.append(KindNodes(rows, start, labels, domain.size))
        counts = {kind: np.diff(own.start) for kind, own in zip(self.kinds, nodes, strict=True)}
        edges = []
        for kind, (a, b) in self.edges.items():
            own = self.edge_weights[kind]
            names = self.edge_features.get(kind)
            is_plain = len(own) == 1 and names is None and all(e is None for e in items.extra[kind])
            features = Features(None, names, None, None if is_plain else len(own))
            rows, start, ends = items.edge_rows(kind, (counts[a], counts[b]), features, is_loop=a == b)
            edges.append(KindEdges(rows, start, ends, (self.kinds.index(a), self.kinds.index(b))))
        return KindBatch(tuple(nodes), tuple(edges))

    def score_weights(self, batch: KindBatch) -> KindWeights:
        """The weights as one vector, of which the scores of a batch are a linear function."""
        return KindWeights(self)

    def instantiate(self, x: Any, **reading: Any) -> KindGraphs:
        """The nodes of one input, or of a list of inputs: what `infer(field, data=x)` is asked about."""
        return self._instance(self.read_batch(x, **reading))

    def labelled(self, x: Any, targets: Any = None, **reading: Any) -> tuple[KindGraphs, np.ndarray]:
        """The nodes of inputs, and the positions of labels that were observed, -1 where hidden or missing."""
        if targets is None and not isinstance(x, KindBatch):
            raise DataError("targets: expected the labels that were observed, got none")
        batch = self.read_batch(x, targets, **reading)
        return self._instance(batch), np.concatenate([batch.labels_of(n) for n in range(len(batch))])

    def _instance(self, batch: KindBatch) -> KindGraphs:
        counts = np.stack([np.diff(kind.start) for kind in batch.nodes], axis=1)
        sizes = tuple(kind.size for kind in batch.nodes)
        return KindGraphs(tuple(self.graphs(batch)), self.kinds, sizes, counts)

    def graphs(self, x: Any) -> list[FactorGraph]:
        """The Markov network of every input; variables are named kind and number, such as `letter_0`."""
        batch = self.read_batch(x)
        weights = self.score_weights(batch)
        flat = np.concatenate([part.ravel() for part in weights.scores(weights.start, batch)])
        return [_named(graph, self, flat[batch.entries_of(n)]) for n, graph in enumerate(batch.graphs)]

    def with_weights(self, node_weights: Mapping[str, Any], edge_weights: Mapping[str, Any]) -> LatentCRF:
        """The same field with other weights."""
        return LatentCRF(
            self.edges, self.hidden, states={kind: self.labels[kind] for kind in self.observed},
            node_weights=node_weights, edge_weights=edge_weights,
            node_features=self.node_features, edge_features=self.edge_features, decoding=self.decoding,
        )  # fmt: skip

    @property
    def temperature(self) -> float | None:
        """At which hidden nodes are eliminated where labels are predicted; None: each label by itself."""
        return temperature_of(self.decoding)

    def with_decoding(self, decoding: str) -> LatentCRF:
        """The same field whose labels are predicted in this way."""
        return LatentCRF.from_parts(**(self.to_parts() | {"decoding": decoding}))

    def _shown(self) -> Iterable[str | Listing]:
        yield repr(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LatentCRF) or (self.is_blank, self.edges, self.hidden, self.decoding) != (
            other.is_blank, other.edges, other.hidden, other.decoding,
        ):  # fmt: skip
            return False
        if self.is_blank:
            return True
        mine, theirs = self.to_parts(), other.to_parts()
        same = all(mine[name] == theirs[name] for name in ("states", "node_features", "edge_features"))
        return same and all(
            np.array_equal(mine[name][kind], theirs[name][kind])
            for name in ("node_weights", "edge_weights")
            for kind in mine[name]
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        wires = [f"{kind}: {a}-{b}" for kind, (a, b) in self.edges.items()]
        hidden = [f"{kind}: {count} hidden states" for kind, count in self.hidden.items()]
        if self.is_blank:
            return f"LatentCRF({'; '.join(['no labels yet: fit it first', *hidden, *wires])})"
        told = [f"{kind}: {self.domains[kind].size} labels" for kind in self.observed]
        return f"LatentCRF({'; '.join([*told, *hidden, *wires])})"


@dataclass(frozen=True)
class KindWeights:
    """A field with kinds seen as a vector of weights; see `learning.log_linear`."""

    field: LatentCRF

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the weights of every kind of nodes, then of edges."""
        parts = [*self.field.node_weights.values(), *self.field.edge_weights.values()]
        return [part.shape for part in parts]

    @cached_property
    def start(self) -> np.ndarray:
        """Those of the field given."""
        parts = [*self.field.node_weights.values(), *self.field.edge_weights.values()]
        return np.concatenate([part.ravel() for part in parts])

    def spread(self, theta: np.ndarray) -> list[np.ndarray]:
        """Weights of every kind of nodes, then of edges."""
        ends = starts_of([int(np.prod(shape)) for shape in self.shapes])
        return [theta[a:b].reshape(shape) for a, b, shape in zip(ends, ends[1:], self.shapes, strict=False)]

    def scores(self, theta: np.ndarray, batch: KindBatch) -> tuple[np.ndarray, ...]:
        """Log potentials of all nodes and edges of a batch, kind by kind."""
        parts, count = self.spread(theta), len(batch.nodes)
        found = [np.asarray(k.rows @ w) for k, w in zip(batch.nodes, parts[:count], strict=True)]
        for kind, w in zip(batch.edges, parts[count:], strict=True):
            made = w[:1] if kind.rows is None else np.asarray(kind.rows @ w.reshape(len(w), -1))
            found.append(made.reshape(-1, *w.shape[1:]))
        return tuple(found)

    def pull(self, statistics: tuple[np.ndarray, ...], batch: KindBatch) -> np.ndarray:
        """Slopes by the weights from slopes by the scores."""
        count = len(batch.nodes)
        found = [np.asarray(k.rows.T @ s) for k, s in zip(batch.nodes, statistics[:count], strict=True)]
        for kind, s in zip(batch.edges, statistics[count:], strict=True):
            found.append(s if kind.rows is None else np.asarray(kind.rows.T @ s.reshape(len(s), -1)))
        return np.concatenate([part.ravel() for part in found])

    def model(self, theta: np.ndarray) -> LatentCRF:
        """The field with these weights."""
        parts, nodes = self.spread(theta), list(self.field.node_weights)
        edges = dict(zip(self.field.edge_weights, parts[len(nodes) :], strict=True))
        return self.field.with_weights(dict(zip(nodes, parts, strict=False)), edges)

    def apart(self, theta: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, str | None]:
        """Small random weights for hidden kinds whose states cannot be told apart, and a sentence."""
        parts, nodes = [part.copy() for part in self.spread(theta)], list(self.field.node_weights)
        alike = []
        for kind in self.field.hidden:
            axes = [(nodes.index(kind), 1)]
            for e, ends in enumerate(self.field.edges.values()):
                axes += [(len(nodes) + e, 1 + side) for side in (0, 1) if ends[side] == kind]
            if all((np.ptp(parts[at], axis=axis) == 0).all() for at, axis in axes):
                alike.append(kind)
                for at in dict.fromkeys(at for at, _ in axes):
                    parts[at] += _SMALL * rng.standard_normal(parts[at].shape)
        if not alike:
            return theta, None
        return np.concatenate([part.ravel() for part in parts]), (
            f"the states of the hidden nodes {alike} were alike at the start, where no step tells them "
            "apart: learning started at small random weights of theirs"
        )


def _named(graph: FactorGraph, field: LatentCRF, tables: np.ndarray) -> FactorGraph:
    """A structure with tables, labels and names."""
    names, domains, kinds = [], [], field.kinds
    for name in graph.variables.names:
        k, i = name.split("_")
        names.append(f"{kinds[int(k)]}_{i}")
        domains.append(field.domains[kinds[int(k)]])
    return FactorGraph.from_flat(
        Variables(tuple(names), tuple(domains)), graph.scope_start, graph.scope, tables
    )


def _count(items: KindItems) -> int:
    return len(next(iter(items.nodes.values()), []))


def _wiring(edges: Any) -> dict[str, tuple[str, str]]:
    if not isinstance(edges, Mapping):
        raise ModelError(
            f"edges: expected a mapping kind -> (kind of nodes, kind of nodes), got {edges!r:.80}"
        )
    for kind, ends in edges.items():
        if isinstance(ends, str) or len(ends) != 2:
            raise ModelError(f"edges of kind '{kind}': expected two kinds of nodes, got {ends!r:.80}")
    return {str(kind): (str(ends[0]), str(ends[1])) for kind, ends in edges.items()}


def _states(hidden: Mapping[str, int] | None) -> dict[str, int]:
    for kind, count in (hidden or {}).items():
        check.whole(f"hidden states of '{kind}'", count, 1)
    return {str(kind): int(count) for kind, count in (hidden or {}).items()}


def _weights(name: str, given: Any, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    if not isinstance(given, Mapping) or set(given) != set(sizes):
        raise ModelError(f"{name}: expected a mapping with the kinds {list(sizes)}, got {given!r:.80}")
    found = {}
    for kind, size in sizes.items():
        table = check.finite_numbers(f"{name} of '{kind}'", given[kind])
        if table.ndim != len(size) + 1 or table.shape[1:] != size:
            raise ModelError(f"{name} of '{kind}': expected shape (features, {size}), got {table.shape}")
        table = table.copy()
        table.flags.writeable = False
        found[kind] = table
    return found


def _refuse_reading(reading: Mapping[str, Any]) -> None:
    given = [name for name, value in reading.items() if value is not None]
    if given:
        raise ModelError(f"{', '.join(given)}: inputs with several kinds of nodes are a list; leave out")
