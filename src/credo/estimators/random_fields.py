"""What the estimators of conditional random fields share.

Both learn the weights of a `CRF` by (penalised) maximum conditional likelihood, which is concave when all
labels are observed; missing labels (None) are summed out.

    objective = sum_n log p(y_n | x_n) + log prior(weights)

Other objectives are those of `learning.structured`: margins (`"ssvm"`, `"mssvm"`, `"lssvm"`) and likelihoods
with hidden nodes (`"hcrf"`). Predictions are made as was learned, and `decoding_` says how.

With `support="observed"` only pairs (feature, label) and transitions that occur in the training data have
a weight, as in CRFsuite by default; `prior="elastic(c1=..., c2=...)"` is its penalty.
"""

from __future__ import annotations

import abc
import os
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from ..core import check
from ..core.domain import Discrete
from ..core.errors import ConvergenceWarning, DataError, OptionError, UnsupportedError
from ..core.numbers import is_missing
from ..core.result import Result
from ..inference.portfolio.question import infer
from ..inference.problem.base import Algorithm, Problem, algorithms
from ..inference.problem.reading import refusal
from ..learning.base import fit
from ..learning.gradient import GradientLearner
from ..learning.likelihood import MaximumLikelihood, log_likelihood
from ..learning.priors import prior_of
from ..learning.structured import StructuredPrediction
from ..learning.structured_members import DECODINGS, RiskMember, member_of
from ..learning.structured_solvers import is_solver, solver_of
from ..models.crf import CRF
from ..models.crf_features import Labels, label_list
from ..models.crf_inputs import label_graph
from ..models.latent_crf import LatentCRF
from ..optimise.run import noted
from .base import Estimator
from .inputs import read_columns
from .latent_fields import LatentAnswers, flat_labels, latent_blank, latent_inputs

__all__ = ["RandomField", "Support", "accuracy", "by_item", "check_items"]

Support = Literal["all", "observed"]


class RandomField(Estimator, abc.ABC):
    """What both estimators share."""

    _kind = None  # labels of items are lists, which scikit-learn's classifiers have no idea of
    _needs_y = True
    _reads_tables = False

    classes_: Any  # labels, sorted; of several kinds of nodes that have some a mapping kind -> labels
    model_: CRF | LatentCRF  # the field that was learned
    decoding_: str  # how labels are predicted, and by what

    def _fitted(self) -> Any:
        return self._learned("model_")

    def _check_columns(self, X: Any, *, reset: bool = False) -> None:
        """Remember the names of the columns of frames, or compare them with those that were fitted."""
        if reset and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        for number, part in enumerate(X):
            nodes = part[0] if isinstance(part, tuple) and len(part) else part
            if hasattr(nodes, "columns") or hasattr(self, "feature_names_in_"):
                read_columns(self, nodes, np.shape(nodes)[-1], reset=reset and not number)

    def _objective(self) -> tuple[RiskMember, bool]:
        """The member, and whether the learner of likelihoods serves it."""
        options = self.get_params()
        member, loss = member_of(options["objective"]), options["loss"]
        has_loss = member.has_loss or not (loss is None or (isinstance(loss, str) and loss == "auto"))
        is_plain = member.eps_y == member.eps_h == 1 and not has_loss and self._latent() is None
        return member, is_plain and (options["optimiser"] == "auto" or not is_solver(options["optimiser"]))

    def _latent(self) -> LatentCRF | None:
        """The blank field with hidden nodes, if there are any."""
        options = self.get_params()
        return latent_blank(options["hidden"], options.get("edges"))

    def _latent_inputs(self, X: Any, y: Any = None) -> list[Any]:
        """Items as a field with hidden nodes takes them."""
        has_kinds = self.get_params().get("edges") is not None
        return latent_inputs([*X] if has_kinds else self._inputs(X, y), has_kinds=has_kinds)

    def _decoding(self) -> str:
        """How labels are predicted."""
        decode = self.get_params()["decode"]
        if decode != "auto":
            return {"map": "joint-map", "marginals": "max-marginals"}.get(decode, decode)
        return member_of(self.get_params()["objective"]).decoding

    def _labelled(self, states: Any) -> list[np.ndarray]:
        """Labels as they were written, one array per item."""
        return [self.classes_[part] for part in by_item(states)]

    @abc.abstractmethod
    def _blank(self, y: Any) -> CRF:
        """The field to learn, for such labels."""

    @abc.abstractmethod
    def _inputs(self, X: Any, y: Any = None) -> list[Any]:
        """Items as the field takes them."""

    @property
    def _method(self) -> str | Algorithm | None:
        """The algorithm that answers; None is what suits the items."""
        return None

    @noted
    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Sequence[Any]],
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: float = 60,
    ) -> Self:
        """Learn from items `X` and the labels `y` of their nodes; see `models.crf_inputs` for their forms.

        `checkpoint` and `every` are as in `credo.fit`.
        """
        self._check(X, y)
        latent = self._latent()
        kept = {"checkpoint": checkpoint, "every": every}
        if latent is not None:
            self._learn(latent, self._latent_inputs(X, y), y, **kept)
        else:
            self._learn(self._blank(y), self._inputs(X, y), y, **kept)
        return self

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """Labels of the nodes of each item, predicted as `decoding_` says."""
        crf = self._fitted()
        if isinstance(crf, LatentCRF):
            objective = self.get_params()["objective"]
            x, how = self._latent_inputs(X), {"decoding": self._decoding(), **self._answering()}
            return self._answers(crf).predict(x, objective, **how)
        if self._decoding() == "max-marginals":
            return [self.classes_[p.argmax(axis=1)] for p in self.predict_proba(X)]
        self._check_maximises(crf.domain)
        return self._labelled(self._asked(X, maximise="all").assignment)

    def _answering(self) -> dict[str, Any]:
        return {"inference": self._method, "seed": self._seed()}

    def _answers(self, crf: LatentCRF) -> LatentAnswers:
        made = LatentAnswers(crf)
        known = self.classes_
        made.classes = known if isinstance(known, dict) else dict.fromkeys(made.classes, known)
        return made

    def predict_proba(self, X: Sequence[Any]) -> list[Any]:
        """Label probabilities (nodes, labels) of each item, columns as in `classes_`."""
        if isinstance(crf := self._fitted(), LatentCRF):
            return self._answers(crf).predict_proba(self._latent_inputs(X), **self._answering())
        return by_item(self._asked(X).marginals)

    def _check_maximises(self, domain: Discrete) -> None:
        """Predictions of joint labels need a method for maxima; better said before the learning."""
        if self._method is None:
            return
        algorithm, pair = algorithms.resolve(self._method), label_graph(domain, 2, None)
        reason = refusal(algorithm, Problem(pair, np.zeros(2), np.zeros(2, dtype=np.int64)))
        if reason is not None:
            raise UnsupportedError(
                f"decode='map' cannot be done by {algorithm.name}: {reason}; "
                "use decode='marginals', or an inference that maximises"
            )

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Fraction of nodes with a known label that are predicted right."""
        return accuracy(self.predict(X), y)

    def log_likelihood(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Sum over items of log p(y | x), as the algorithm sees it; labels written alike are the same."""
        if isinstance(crf := self._fitted(), LatentCRF):
            return self._answers(crf).log_likelihood(self._latent_inputs(X, y), y, **self._answering())
        inputs = self._inputs(X, y)
        listed = [label_list(part, number) for number, part in enumerate(y)]
        return float(log_likelihood(crf, inputs, self._method, targets=listed, seed=self._seed()))

    def _asked(self, X: Sequence[Any], maximise: Any = ()) -> Result:
        crf = self._fitted()
        check_items(X, None)
        self._check_columns(X)
        return infer(crf, self._method, data=self._inputs(X), maximise=maximise, seed=self._seed())

    def _adopt(self, crf: CRF) -> Any:
        if not isinstance(crf, CRF):
            raise OptionError(f"from_model: expected a CRF, got {type(crf).__name__}")
        self.model_, self.classes_ = crf, np.array(crf.labels)
        self.decoding_ = self._decoding()
        return self

    def _learn(self, blank: Any, X: list[Any], y: Any, **kept: Any) -> None:
        """Learn from zero weights; random ones would only slow a concave objective down."""
        options = self.get_params()
        given = {name: options[name] for name in ("prior", "optimiser", "batch", "patience")}
        member, is_likelihood = self._objective()
        if is_likelihood:
            given["optimiser"] = "lbfgs" if given["optimiser"] == "auto" else given["optimiser"]
            learner: GradientLearner = MaximumLikelihood(**given)
            blank = blank.with_decoding(member.prediction(has_hidden=False))
        else:
            learner = StructuredPrediction(objective=options["objective"], loss=options["loss"], **given)
        limits = {name: options[name] for name in ("max_iter", "tol", "seconds")}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = fit(
                blank, X, learner, targets=y, inference=self._method,
                validation=options["validation"] or None, seed=self._seed(), **limits, **kept,
            )  # fmt: skip
        self.model_ = found.model
        if isinstance(found.model, LatentCRF):
            self.classes_ = LatentAnswers(found.model, y).classes
            if len(self.classes_) == 1:
                self.classes_ = next(iter(self.classes_.values()))
            self.n_features_in_ = len(found.model.node_weights[found.model.observed[0]])
        else:
            self.classes_, self.n_features_in_ = Labels.of(y).classes, len(found.model.node_weights)
        method = self._method or "exact inference where that is small"
        self.decoding_ = f"{self._decoding()} (eps_h = {member.eps_h:g}) by {method}"
        self._keep_fit(found)
        if not (found.status.is_success or found.stopped_early):
            told = f"{type(self).__name__}: {found.advice}"
            warnings.warn(told, ConvergenceWarning, stacklevel=4)

    def _check(self, X: Any, y: Any) -> None:
        options = self.get_params()
        if options["optimiser"] != "auto":
            solver_of(options["optimiser"])
        prior_of(options["prior"])
        self._objective()
        check.one_of("decode", options["decode"], ["auto", "map", "marginals", *DECODINGS])
        check.one_of("support", options["support"], ["all", "observed"])
        check.in_range("validation", options["validation"], 0, 1)
        check_items(X, y)
        if options.get("edges") is None:
            self._check_columns(X, reset=True)


def check_items(X: Any, y: Any) -> None:
    """Refuse what is no list of inputs with as many lists of labels."""
    listed = isinstance(X, Sequence) and not isinstance(X, (str, tuple))
    if not listed and not (isinstance(X, np.ndarray) and (X.dtype == object or X.ndim == 3)):
        raise DataError(f"X: expected a list of sequences or graphs, got {type(X).__name__}")
    if not len(X):
        raise DataError("X: expected at least one sequence or graph, got none")
    if y is not None and (not hasattr(y, "__len__") or len(y) != len(X)):
        got = len(y) if hasattr(y, "__len__") else type(y).__name__
        raise DataError(f"y: expected {len(X)} lists of labels, one per item of X, got {got}")


def by_item(rows: Any) -> list[np.ndarray]:
    """One array per item; of a single one there is no list."""
    found = rows["label"]
    return found if isinstance(found, list) else [found]


def accuracy(found: list[Any], wanted: Sequence[Sequence[Any]]) -> float:
    """The fraction of known labels that are right."""
    check_items(found, wanted)
    right = total = 0
    pairs = zip(found, wanted, strict=True)
    flat = [flat_labels(told, known, number) for number, (told, known) in enumerate(pairs)]
    for number, (guess, truth) in enumerate(flat):
        if len(guess) != len(label_list(truth, number)):
            raise DataError(f"labels of item {number}: expected {len(guess)}, got {len(truth)}")
        for a, b in zip(guess.tolist(), truth, strict=True):
            if not is_missing(b):
                total += 1
                right += a == b
    if not total:
        raise DataError("y: expected at least one known label to score against, got none")
    return right / total
