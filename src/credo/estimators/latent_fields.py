"""What the estimators of random fields do with hidden nodes: inputs of a `LatentCRF`, and its answers.

`hidden=3` gives every node that has a label a hidden node with three states, which the features of the node
say something about together with its label: styles of letters, sub-classes. Where `edges` name kinds of
edges, inputs are those of a `LatentCRF` as they are, and `hidden` says how many states each hidden kind has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError
from ..learning.structured_predict import kind_log_likelihood, kind_marginals, predict_structures
from ..models.crf_features import Labels
from ..models.latent_crf import LatentCRF
from ..models.latent_inputs import labels_by_kind

__all__ = ["LatentAnswers", "flat_labels", "latent_blank", "latent_inputs"]

_LABEL, _HIDDEN = "label", "hidden"
_WIRES = {"step": (_LABEL, _LABEL), "style": (_LABEL, _HIDDEN)}


def latent_blank(hidden: Any, edges: Any = None) -> LatentCRF | None:
    """The field to learn; None where nothing is hidden and there are no kinds."""
    if edges is not None:
        if hidden is not None and not isinstance(hidden, Mapping):
            raise OptionError(f"hidden: expected a mapping kind -> states beside edges, got {hidden!r:.60}")
        return LatentCRF(edges, hidden)
    if hidden is None:
        return None
    if isinstance(hidden, Mapping):
        raise OptionError("hidden: expected a number of states; kinds need edges={kind: (kind, kind)} beside")
    check.whole("hidden", hidden, 1)
    return LatentCRF(_WIRES, {_HIDDEN: int(hidden)})


def latent_inputs(items: Sequence[Any], *, has_kinds: bool) -> list[Any]:
    """Sequences and graphs as inputs of a `LatentCRF`."""
    return [*items] if has_kinds else [_with_hidden(item) for item in items]


def _with_hidden(item: Any) -> Mapping[str, Any]:
    """A hidden node beside every node."""
    parts = item if isinstance(item, tuple) else (item, None)
    nodes, pairs, extra = parts[0], parts[1], parts[2] if len(parts) == 3 else None
    count = nodes.shape[0] if hasattr(nodes, "shape") else len(nodes)
    edges = {"step": pairs if extra is None else (pairs, extra), "style": (None, nodes)}
    return {"nodes": {_LABEL: nodes, _HIDDEN: int(count)}, "edges": edges}


class LatentAnswers:
    """What a field with hidden nodes says about inputs, in the labels that were learned from."""

    def __init__(self, model: LatentCRF, y: Any = None) -> None:
        self.model = model
        self.classes: dict[str, np.ndarray] = {k: np.array(model.labels[k]) for k in model.observed}
        if y is not None:
            told = labels_by_kind(y, len(y), model.observed)
            self.classes = {
                k: Labels.of([part for part in own if part is not None]).classes for k, own in told.items()
            }

    def only(self, found: Mapping[str, Any]) -> Any:
        """The answer about the one kind that has labels; a mapping where there are several."""
        return next(iter(found.values())) if len(found) == 1 else dict(found)

    def predict(self, x: Any, objective: Any, **options: Any) -> list[Any]:
        """Labels of every input."""
        positions = {k: {name: n for n, name in enumerate(self.model.labels[k])} for k in self.classes}
        found = predict_structures(self.model, x, objective, **options)
        return [
            self.only({k: self.classes[k][[positions[k][name] for name in part]] for k, part in own.items()})
            for own in found
        ]

    def predict_proba(self, x: Any, **options: Any) -> list[Any]:
        """Probabilities of every input."""
        return [self.only(own) for own in kind_marginals(self.model, x, **options)]

    def log_likelihood(self, x: Any, y: Any, **options: Any) -> float:
        """Sum of log p(y | x)."""
        return float(kind_log_likelihood(self.model, x, y, **options).sum())


def flat_labels(found: Any, wanted: Any, number: int) -> tuple[Any, Any]:
    """Labels of one input told and right, kind after kind."""
    if not isinstance(found, Mapping):
        return found, wanted.get(next(iter(wanted)), ()) if isinstance(wanted, Mapping) else wanted
    if not isinstance(wanted, Mapping):
        raise DataError(f"labels of item {number}: expected a mapping kind -> labels, got {wanted!r:.60}")
    kinds = [kind for kind in found if wanted.get(kind) is not None]
    told = np.concatenate([np.empty(0, object), *(np.asarray(found[kind], dtype=object) for kind in kinds)])
    return told, [label for kind in kinds for label in wanted[kind]]
