"""Conditional random fields that label the nodes of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.domain import Discrete
from ..core.errors import UnsupportedError
from ..core.records import register
from ..inference.problem.base import Algorithm, Problem, algorithms
from ..inference.problem.reading import refusal
from ..learning.priors import Prior
from ..models.crf import CRF
from ..models.crf_features import Labels
from ..models.crf_inputs import label_graph
from ..optimise.optimisers import Optimiser
from .random_fields import RandomField, Support, check_items

__all__ = ["GraphCRF"]


@register("GraphCRF")
class GraphCRF(RandomField):
    """A pairwise conditional random field for labelling the nodes of graphs.

    Parameters
    ----------
    inference
        The algorithm behind expectations and predictions; by default the rule of `infer`.
    symmetric
        Whether V(y, y') = V(y', y): for edges without a direction.
    decode
        `"map"` predicts the most probable joint labels, `"marginals"` the most probable label of each node.
    prior, optimiser, support, batch, max_iter, tol, seconds, validation, patience, random_state
        As for `ChainCRF`.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import GraphCRF
    >>> square = [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> nodes = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> X = [(nodes, square), (-nodes, square)]
    >>> y = [["a", "a", "b", "b"], ["b", "b", "a", "a"]]
    >>> crf = GraphCRF(symmetric=True).fit(X, y)
    >>> crf.score(X, y)
    1.0
    """

    def __init__(
        self,
        *,
        inference: str | Algorithm | None = None,
        symmetric: bool = False,
        decode: Literal["map", "marginals"] = "map",
        prior: str | Prior | None = "gaussian(scale=1)",
        optimiser: str | Optimiser = "lbfgs",
        support: Support = "all",
        batch: int | None = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        seconds: float | None = None,
        validation: float = 0.0,
        patience: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.inference, self.symmetric, self.decode = inference, symmetric, decode
        self.prior, self.optimiser, self.support, self.batch = prior, optimiser, support, batch
        self.max_iter, self.tol, self.seconds = max_iter, tol, seconds
        self.validation, self.patience, self.random_state = validation, patience, random_state

    @classmethod
    def from_model(cls, crf: CRF, inference: str | Algorithm | None = None) -> GraphCRF:
        """An estimator that predicts with a field that exists, for instance a loaded one."""
        made: GraphCRF = cls(inference=inference)._adopt(crf)
        return made

    def _check(self, X: Any, y: Any) -> None:
        check.one_of("decode", self.decode, ["map", "marginals"])
        check.one_of("symmetric", self.symmetric, [False, True])
        super()._check(X, y)

    def _blank(self, y: Any) -> CRF:
        if self.decode == "map":
            self._check_maximises(Discrete(len(Labels.of(y).classes)))
        return CRF(support=self.support, symmetric=self.symmetric)

    def _inputs(self, X: Any, y: Any = None) -> list[Any]:
        """Graphs as they came."""
        check_items(X, y)
        return [*X]

    @property
    def _method(self) -> str | Algorithm | None:
        return self.inference

    def predict(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Labels of the nodes of each graph."""
        if self.decode == "marginals":
            return [self.classes_[p.argmax(axis=1)] for p in self.predict_proba(X)]
        self._check_maximises(self._fitted().domain)
        return self._labelled(self._asked(X, maximise="all").assignment)

    def _check_maximises(self, domain: Discrete) -> None:
        """Predictions of joint labels need a method for maxima; better said before the learning."""
        if self.inference is None:
            return
        algorithm, pair = algorithms.resolve(self.inference), label_graph(domain, 2, None)
        reason = refusal(algorithm, Problem(pair, np.zeros(2), np.zeros(2, dtype=np.int64)))
        if reason is not None:
            raise UnsupportedError(
                f"decode='map' cannot be done by {algorithm.name}: {reason}; "
                "use decode='marginals', or an inference that maximises"
            )
