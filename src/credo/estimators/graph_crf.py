"""Conditional random fields that label the nodes of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core import check
from ..core.domain import Discrete
from ..core.records import register
from ..inference.problem.base import Algorithm
from ..learning.priors import Prior
from ..models.crf import CRF
from ..models.crf_features import Labels
from ..optimise.optimisers import Optimiser
from .random_fields import RandomField, Support, check_items

__all__ = ["GraphCRF"]


@register("GraphCRF")
class GraphCRF(RandomField):
    """A pairwise conditional random field for labelling the nodes of graphs.

    Parameters
    ----------
    objective, loss
        As for `ChainCRF`.
    hidden, edges
        A number of states of hidden nodes, as for `ChainCRF`; or with `edges`, kind -> (kind of nodes, kind
        of nodes), hidden kind -> number of states: items are then those of a `LatentCRF`.
    inference
        The algorithm behind expectations and predictions; by default the rule of `infer`.
    symmetric
        Whether V(y, y') = V(y', y): for edges without a direction.
    decode
        `"map"` predicts the most probable joint labels, `"marginals"` the most probable label of each node,
        `"auto"` as was learned.
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

    def __init__(  # noqa: PLR0913, scikit-learn wants options there
        self,
        *,
        objective: str = "crf",
        loss: Any = "auto",
        hidden: Any = None,
        edges: Mapping[str, tuple[str, str]] | None = None,
        inference: str | Algorithm | None = None,
        symmetric: bool = False,
        decode: str = "auto",
        prior: str | Prior | None = "gaussian(scale=1)",
        optimiser: str | Optimiser = "auto",
        support: Support = "all",
        batch: int | None = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        seconds: float | None = None,
        validation: float = 0.0,
        patience: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.objective, self.loss, self.hidden, self.edges = objective, loss, hidden, edges
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
        check.one_of("symmetric", self.symmetric, [False, True])
        super()._check(X, y)

    def _blank(self, y: Any) -> CRF:
        if self._decoding() != "max-marginals":
            self._check_maximises(Discrete(len(Labels.of(y).classes)))
        return CRF(support=self.support, symmetric=self.symmetric)

    def _inputs(self, X: Any, y: Any = None) -> list[Any]:
        """Graphs as they came."""
        check_items(X, y)
        return [*X]

    @property
    def _method(self) -> str | Algorithm | None:
        return self.inference
