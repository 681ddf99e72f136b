"""Estimators for conditional random fields in the manner of scikit-learn: fit, predict, score.

`ChainCRF` labels sequences with a batched forward-backward kernel; `GraphCRF` labels the nodes of any
graphs with any inference algorithm. Both learn the weights of a `CRF` by (penalised) maximum conditional
likelihood, which is concave when all labels are observed; missing labels (None) are summed out.

    objective = sum_n log p(y_n | x_n) + log prior(weights)

With `support="observed"` only pairs (feature, label) and transitions that occur in the training data have
a weight, as in CRFsuite by default; `prior="elastic(c1=..., c2=...)"` is its penalty.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.domain import Discrete
from ..core.errors import ConvergenceWarning, DataError, OptionError, QueryError, UnsupportedError
from ..core.numbers import is_missing
from ..core.records import register
from ..core.result import Result
from ..inference.portfolio.question import infer
from ..inference.problem.base import Algorithm, Problem, algorithms
from ..inference.problem.reading import refusal
from ..models.crf import CRF
from ..models.crf_features import Labels, label_list
from ..models.crf_inputs import chain_parts, label_graph
from ..optimise.optimisers import Optimiser, optimiser_of
from ..optimise.run import noted
from .base import Fit, fit
from .estimator import Estimator
from .likelihood import MaximumLikelihood, log_likelihood
from .priors import Prior, prior_of

__all__ = ["ChainCRF", "GraphCRF"]

Support = Literal["all", "observed"]


class _Estimator(Estimator):
    """What both estimators share."""

    classes_: np.ndarray  # labels, sorted
    crf_: CRF  # the field that was learned
    fit_: Fit  # curves, status and log-likelihood of the training

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator; it is there when this is called."""
        from sklearn.utils import (  # type: ignore[import-untyped]
            ClassifierTags,
            InputTags,
            Tags,
            TargetTags,
        )

        return Tags("classifier", TargetTags(required=True), None, ClassifierTags(), None, InputTags())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "crf_")

    def _fitted(self) -> CRF:
        if not hasattr(self, "crf_"):
            raise QueryError(f"this {type(self).__name__} is not fitted yet; call fit(X, y) first")
        return self.crf_

    def _labelled(self, states: Any) -> list[np.ndarray]:
        """Labels as they were written, one array per item."""
        return [self.classes_[part] for part in _listed(states)]

    def _log_likelihood(self, inputs: list[Any], y: Any, inference: Any = None) -> float:
        """The sum over items; labels that are written alike are the same."""
        listed = [label_list(part, number) for number, part in enumerate(y)]
        found = log_likelihood(
            self._fitted(), inputs, inference, targets=listed, seed=self.get_params()["seed"]
        )
        return float(found)

    def _adopt(self, crf: CRF) -> Any:
        if not isinstance(crf, CRF):
            raise OptionError(f"from_model: expected a CRF, got {type(crf).__name__}")
        self.crf_, self.classes_ = crf, np.array(crf.labels)
        return self

    def _learn(self, blank: CRF, X: list[Any], y: Any, inference: Any = None) -> None:
        """Learn from zero weights; random ones would only slow a concave objective down."""
        options = self.get_params()
        learner = MaximumLikelihood(
            **{name: options[name] for name in ("prior", "optimiser", "batch", "patience")}
        )
        limits = {name: options[name] for name in ("max_iter", "tol", "seconds", "seed")}
        known = Labels.of(y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = fit(
                blank, X, learner, targets=y, inference=inference, validation=options["validation"] or None,
                **limits,
            )  # fmt: skip
        self.classes_, self.crf_, self.fit_ = known.classes, found.model, found
        if not (found.status.is_success or found.stopped_early):
            told = f"{type(self).__name__}: {found.advice}"
            warnings.warn(told, ConvergenceWarning, stacklevel=4)

    def _check(self) -> None:
        options = self.get_params()
        optimiser_of(options["optimiser"])
        prior_of(options["prior"])
        check.one_of("support", options["support"], ["all", "observed"])
        check.in_range("validation", options["validation"], 0, 1)


@register("ChainCRF")
class ChainCRF(_Estimator):
    """A linear-chain conditional random field for labelling sequences.

    Parameters
    ----------
    prior
        On the weights: `"gaussian(scale=...)"`, `"laplace(scale=...)"`, `"elastic(c1=..., c2=...)"` or None.
    optimiser
        `"lbfgs"`, `"adam(rate=...)"` or `"sgd(rate=...)"`.
    support
        `"all"` pairs of feature and label have a weight, or only those `"observed"` in training.
    batch
        Sequences per step of a stochastic optimiser.
    max_iter, tol, seconds
        When to stop; the gradient that counts as zero is per sequence.
    validation, patience
        Fraction of the sequences to hold back, and how many iterations without a better value on them
        are endured.
    seed
        Of the shuffling.

    Examples
    --------
    >>> from credo.learning.crf import ChainCRF
    >>> X = [[{"word": "the"}, {"word": "cat"}], [{"word": "the"}, {"word": "dog"}, {"word": "runs"}]]
    >>> y = [["det", "noun"], ["det", "noun", "verb"]]
    >>> crf = ChainCRF(prior="gaussian(scale=2)").fit(X, y)
    >>> crf.predict([[{"word": "the"}, {"word": "bird"}, {"word": "runs"}]])[0].tolist()
    ['det', 'noun', 'verb']
    >>> crf.score(X, y)
    1.0
    """

    def __init__(
        self,
        *,
        prior: str | Prior | None = "gaussian(scale=1)",
        optimiser: str | Optimiser = "lbfgs",
        support: Support = "all",
        batch: int | None = None,
        max_iter: int = 500,
        tol: float = 1e-5,
        seconds: float | None = None,
        validation: float = 0.0,
        patience: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.prior, self.optimiser, self.support, self.batch = prior, optimiser, support, batch
        self.max_iter, self.tol, self.seconds = max_iter, tol, seconds
        self.validation, self.patience, self.seed = validation, patience, seed

    @classmethod
    def from_model(cls, crf: CRF) -> ChainCRF:
        """An estimator that predicts with a field that exists, for instance a loaded one."""
        made: ChainCRF = cls()._adopt(crf)
        return made

    @noted
    def fit(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> ChainCRF:
        """Learn from sequences `X` and their labels `y`; see `learning.crf_inputs` for their forms."""
        self._check()
        _check_items(X, y)
        self._learn(CRF(support=self.support), self._inputs(X, y), y)
        return self

    def predict(self, X: Sequence[Any]) -> list[np.ndarray]:
        """The most probable labels of each sequence."""
        return self._labelled(self._asked(X, maximise="all").assignment)

    def predict_marginals(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Label probabilities (positions, labels) of each sequence, columns as in `classes_`."""
        return _listed(self._asked(X).marginals)

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Fraction of positions with a known label that are predicted right."""
        return _accuracy(self.predict(X), y)

    def log_likelihood(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Sum over sequences of log p(y | x)."""
        return self._log_likelihood(self._inputs(X, y), y)

    def _asked(self, X: Sequence[Any], maximise: Any = ()) -> Result:
        return infer(self._fitted(), data=self._inputs(X), maximise=maximise)

    def _inputs(self, X: Sequence[Any], y: Any = None) -> list[Any]:
        """Sequences as the field takes them: without edges, which join neighbours."""
        _check_items(X, y)
        nodes, steps = chain_parts(X)
        return [part if step is None else (part, None, step) for part, step in zip(nodes, steps, strict=True)]


@register("GraphCRF")
class GraphCRF(_Estimator):
    """A pairwise conditional random field for labelling the nodes of graphs.

    Parameters
    ----------
    inference
        The algorithm behind expectations and predictions; by default the rule of `infer`.
    symmetric
        Whether V(y, y') = V(y', y): for edges without a direction.
    decode
        `"map"` predicts the most probable joint labels, `"marginals"` the most probable label of each node.
    prior, optimiser, support, batch, max_iter, tol, seconds, validation, patience, seed
        As for `ChainCRF`.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.learning.crf import GraphCRF
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
        seed: int | None = None,
    ) -> None:
        self.inference, self.symmetric, self.decode = inference, symmetric, decode
        self.prior, self.optimiser, self.support, self.batch = prior, optimiser, support, batch
        self.max_iter, self.tol, self.seconds = max_iter, tol, seconds
        self.validation, self.patience, self.seed = validation, patience, seed

    @classmethod
    def from_model(cls, crf: CRF, inference: str | Algorithm | None = None) -> GraphCRF:
        """An estimator that predicts with a field that exists, for instance a loaded one."""
        made: GraphCRF = cls(inference=inference)._adopt(crf)
        return made

    @noted
    def fit(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> GraphCRF:
        """Learn from graphs `X` and the labels `y` of their nodes; see `learning.crf_inputs`."""
        self._check()
        check.one_of("decode", self.decode, ["map", "marginals"])
        check.one_of("symmetric", self.symmetric, [False, True])
        _check_items(X, y)
        if self.decode == "map":
            self._check_maximises(Discrete(len(Labels.of(y).classes)))
        self._learn(CRF(support=self.support, symmetric=self.symmetric), [*X], y, self.inference)
        return self

    def predict(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Labels of the nodes of each graph."""
        if self.decode == "marginals":
            return [self.classes_[p.argmax(axis=1)] for p in self.predict_marginals(X)]
        self._check_maximises(self._fitted().domain)
        return self._labelled(self._asked(X, maximise="all").assignment)

    def predict_marginals(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Label probabilities (nodes, labels) of each graph, columns as in `classes_`."""
        return _listed(self._asked(X).marginals)

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Fraction of nodes with a known label that are predicted right."""
        return _accuracy(self.predict(X), y)

    def log_likelihood(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Sum over graphs of log p(y | x), as the inference algorithm sees it."""
        _check_items(X, y)
        return self._log_likelihood([*X], y, self.inference)

    def _asked(self, X: Sequence[Any], maximise: Any = ()) -> Result:
        crf = self._fitted()
        _check_items(X, None)
        return infer(crf, self.inference, data=[*X], maximise=maximise, seed=self.seed)

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


def _check_items(X: Any, y: Any) -> None:
    listed = isinstance(X, Sequence) and not isinstance(X, (str, tuple))
    if not listed and not (isinstance(X, np.ndarray) and (X.dtype == object or X.ndim == 3)):
        raise DataError(f"X: expected a list of sequences or graphs, got {type(X).__name__}")
    if not len(X):
        raise DataError("X: expected at least one sequence or graph, got none")
    if y is not None and (not hasattr(y, "__len__") or len(y) != len(X)):
        got = len(y) if hasattr(y, "__len__") else type(y).__name__
        raise DataError(f"y: expected {len(X)} lists of labels, one per item of X, got {got}")


def _listed(rows: Any) -> list[np.ndarray]:
    """One array per item; of a single one there is no list."""
    found = rows["label"]
    return found if isinstance(found, list) else [found]


def _accuracy(found: list[np.ndarray], wanted: Sequence[Sequence[Any]]) -> float:
    _check_items(found, wanted)
    right = total = 0
    for number, (guess, truth) in enumerate(zip(found, wanted, strict=True)):
        if len(guess) != len(label_list(truth, number)):
            raise DataError(f"labels of item {number}: expected {len(guess)}, got {len(truth)}")
        for a, b in zip(guess.tolist(), truth, strict=True):
            if not is_missing(b):
                total += 1
                right += a == b
    if not total:
        raise DataError("y: expected at least one known label to score against, got none")
    return right / total
