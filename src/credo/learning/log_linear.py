r"""The seam of gradient learning: scores that are linear in weights, and a source of statistics.

    value(w) = source.value( scores(w, batch), batch )        a mean over the rows of the batch
    slope(w) = pull( d value / d scores, batch )

What a *model* offers is `scores(theta, batch)`, an affine function of its weights, and `pull(statistics,
batch)`, the transposed one: of tables the design (`parameters.py`), of random fields the features of nodes
and edges (`models/crf_weights.py`). Where the statistics come from is the *source*: inference, exact or not
(expectations under the model), the conditional distribution of each variable (pseudolikelihood), samples
(contrastive divergence), chains by forward-backward. A source sees scores and rows, never weights, so every
source serves every way to make scores, and a new objective is a new source.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = ["ByDifferences", "Objective", "ScoreWeights", "StatisticsSource"]

_STEP = 1e-5  # of central differences: errors of order 1e-10 in exact log Z


class ScoreWeights(Protocol):
    """A model seen as a vector of weights."""

    start: np.ndarray  # the weights of the model given

    def scores(self, theta: np.ndarray, batch: Any) -> Any:
        """Log potentials of a batch, affine in the weights."""
        ...

    def pull(self, statistics: Any, batch: Any) -> np.ndarray:
        """Slopes by the weights from slopes by the scores."""
        ...

    def model(self, theta: np.ndarray) -> Any:
        """The model with these weights."""
        ...


class StatisticsSource(abc.ABC):
    """Where statistics come from.

    Examples
    --------
    One more source, of models whose scores are a number per row: the slope of least squares.

    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from credo.learning.log_linear import Objective, StatisticsSource
    >>> class Squares(StatisticsSource):
    ...     def evaluate(self, scores, batch):
    ...         left = batch.y - scores
    ...         return -0.5 * float((left**2).mean()), left / len(left)
    >>> batch = SimpleNamespace(x=np.array([[1.0], [2.0]]), y=np.array([2.0, 4.0]))
    >>> line = SimpleNamespace(scores=lambda w, b: b.x @ w, pull=lambda s, b: b.x.T @ s)
    >>> value, slope = Objective(line, Squares()).evaluate(np.zeros(1), batch)
    >>> value, slope.tolist()
    (-5.0, [5.0])
    """

    memory: tuple[Any, ...] = ()  # what evaluations change

    @abc.abstractmethod
    def evaluate(self, scores: Any, batch: Any) -> tuple[float, Any]:
        """The mean value over the rows of a batch, and its slopes by the scores."""

    def value(self, scores: Any, batch: Any) -> float:
        """The value alone."""
        return self.evaluate(scores, batch)[0]


@dataclass
class Objective:
    """A mean over rows to be maximised, as a function of weights."""

    weights: Any  # ScoreWeights: how weights make scores
    source: StatisticsSource  # what they are worth

    @property
    def memory(self) -> tuple[Any, ...]:
        """What evaluations change."""
        return self.source.memory

    def evaluate(self, theta: np.ndarray, batch: Any) -> tuple[float, np.ndarray]:
        """Value and gradient on these rows."""
        value, slopes = self.source.evaluate(self.weights.scores(theta, batch), batch)
        return value, self.weights.pull(slopes, batch)

    def value(self, theta: np.ndarray, batch: Any) -> float:
        """The value on these rows, without its gradient."""
        return self.source.value(self.weights.scores(theta, batch), batch)


class ByDifferences(Objective):
    """The same with central differences of the value as its gradient: for sources that know values only."""

    def evaluate(self, theta: np.ndarray, batch: Any) -> tuple[float, np.ndarray]:
        """Value and gradient on these rows."""
        here, gradient = self.value(theta, batch), np.empty(len(theta))
        step = getattr(self.source, "step", _STEP)
        for k in range(len(theta)):
            ahead, behind = theta.copy(), theta.copy()
            ahead[k] += step
            behind[k] -= step
            gradient[k] = (self.value(ahead, batch) - self.value(behind, batch)) / (2 * step)
        return here, gradient
