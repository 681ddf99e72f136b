r"""Latent Dirichlet allocation by Bethe variational inference, in the manner of scikit-learn.

A `TopicModel` learned by `"topics"` (`topics.py`): with one component (`mixtures=1`) this is variational
Bayes, and its value is a lower bound on the evidence; with more, training goes on from that component, split
by noise, and values are estimates that may exceed it.

`entropy="per-topic"` adds the entropies of the topics one by one while the terms of words use their joint
belief, as the source prints it; `"joint"` uses the joint entropy in both places. One component: they agree.

Source: Guo 2020, chapter 7 and appendices A, B; Blei, Ng and Jordan 2003; Hoffman, Blei and Bach 2010.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Literal, Self

import numpy as np

from ..core import check
from ..core.errors import ConvergenceWarning, DataError, OptionError
from ..core.records import register
from ..core.result import Status
from ..data.corpus import Corpus
from ..families.dirichlet_mixture import mixture_mode
from ..inference.portfolio.documents import DocumentBeliefs, document_beliefs
from ..learning.base import fit
from ..learning.topics import Topics
from ..models.topic_model import TopicModel
from ..optimise.run import noted
from .inputs import read_columns, read_rows
from .transformers import TransformerEstimator

__all__ = ["BetheLDA"]


@register("BetheLDA")
class BetheLDA(TransformerEstimator):
    """Topic model for counts of words.

    Parameters
    ----------
    n_components
        Topics K.
    mixtures
        Components M of the mixture of products; 1 is variational Bayes.
    doc_topic_prior
        Concentration gamma at the start, a number or one per topic; 1 / K if left out.
    topic_word_prior
        Concentration eta of the topics; 1 / K if left out.
    learn_prior, learn_weights
        Whether gamma, and the weights of the components, change.
    entropy
        `"per-topic"` as printed in the source, or `"joint"`, which treats the topics as one variable.
    expectations
        `"closed"` where there is a closed form, or `"samples"` for all of them.
    samples
        Points for every expectation without a closed form; sampling all of them needs some dozens.
    batch_size
        Documents per step of the topics; None for all.
    learning_decay, learning_offset
        Step t of the topics has the rate (offset + t)^-decay where steps are noisy: with batches, sampled
        expectations, or several components.
    max_iter, tol, seconds
        Passes over the documents (again as many after the split of `mixtures`); the change of a topic in a
        pass, in total variation, at which they end, 0 for all passes; and the time for everything. Where
        steps are noisy, the change is divided by their rate and noise keeps it up: all passes are made.
    max_doc_update_iter, mean_change_tol
        Steps for the beliefs of a document, and the mean change of its concentrations at which they end; with
        several components these are the steps of each alone, which a few steps of all follow.
    n_init
        Random starts with one component; the one with the highest value is kept.
    random_state
        The same seed gives the same answer.

    Attributes
    ----------
    components_
        Expected pseudo-counts of words, (K, V); normalised rows are the topics.
    concentrations_, weights_
        Of every component, (M, K, V) and (M,).
    doc_topic_prior_
        The learned gamma, (K,).
    objective_
        The value after each pass; an estimate where batches or samples are used.
    status_, n_iter_
        Why the training stopped, and after how many passes.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.estimators import BetheLDA
    >>> rng = np.random.default_rng(0)
    >>> counts = np.r_[rng.poisson([5, 5, 0.1, 0.1], (20, 4)), rng.poisson([0.1, 0.1, 5, 5], (20, 4))]
    >>> model = BetheLDA(2, random_state=0).fit(counts)
    >>> sorted((model.topics_ > 0.25).astype(int).tolist())
    [[0, 0, 1, 1], [1, 1, 0, 0]]
    >>> bool(model.perplexity(counts) < 4)
    True
    """

    _has_positive_rows = True
    _reads_sparse = True

    status_: Status

    def __init__(  # noqa: PLR0913, the options of one model
        self,
        n_components: int = 10,
        *,
        mixtures: int = 1,
        doc_topic_prior: Any = None,
        topic_word_prior: float | None = None,
        learn_prior: bool = True,
        learn_weights: bool = True,
        entropy: Literal["per-topic", "joint"] = "per-topic",
        expectations: Literal["closed", "samples"] = "closed",
        samples: int = 8,
        batch_size: int | None = None,
        learning_decay: float = 0.7,
        learning_offset: float = 10.0,
        max_iter: int = 100,
        tol: float = 5e-4,
        seconds: float | None = None,
        max_doc_update_iter: int = 100,
        mean_change_tol: float = 1e-3,
        n_init: int = 1,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.mixtures = mixtures
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.learn_prior = learn_prior
        self.learn_weights = learn_weights
        self.entropy = entropy
        self.expectations = expectations
        self.samples = samples
        self.batch_size = batch_size
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.max_iter = max_iter
        self.tol = tol
        self.seconds = seconds
        self.max_doc_update_iter = max_doc_update_iter
        self.mean_change_tol = mean_change_tol
        self.n_init = n_init
        self.random_state = random_state

    @noted
    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None, every: float = 60
    ) -> Self:
        """Learn topics from counts (documents, words), an array, a sparse matrix or a frame.

        `checkpoint` and `every` are as in `credo.fit`; `y` is not used.
        """
        model, learner = self._check()
        corpus = self._read(X, reset=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = fit(
                model, corpus, learner, max_iter=self.max_iter, tol=self.tol, seconds=self.seconds,
                seed=self._seed(), checkpoint=checkpoint, every=every,
            )  # fmt: skip
        self._keep_fit(found)
        self.status_ = found.status
        self.objective_, self.n_iter_ = found.trace["value"], len(found.trace["value"])
        self.weights_, self.concentrations_ = found.model.weights, found.model.concentrations
        self.doc_topic_prior_ = found.model.doc_topic_prior
        self.components_ = np.einsum("m,mkv->kv", self.weights_, self.concentrations_)
        if self.status_ is Status.OUT_OF_ITERATIONS and self.tol > 0:
            warnings.warn(
                f"BetheLDA: {self.max_iter} passes were too few for tol={self.tol:g}; raise max_iter, or set "
                "tol=0 to ask for just these passes",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _columns(self, X: Any) -> np.ndarray:
        """Expected frequencies of the topics in documents, (documents, K)."""
        found = self._documents(X)
        return found.shares(self.weights_)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def score(self, X: Any, y: Any = None) -> float:
        """The value of documents given the learned topics: a bound on their log probability if mixtures=1."""
        return float(self._documents(X)[1].sum())

    def perplexity(self, X: Any) -> float:
        """exp(-score / words); lower is better."""
        return float(np.exp(-self.score(X) / self._read(X).tokens))

    @property
    def topics_(self) -> np.ndarray:
        """Expected topics, (K, V), rows sum to 1."""
        mean = self._learned("concentrations_") / self.concentrations_.sum(axis=2, keepdims=True)
        return np.asarray(np.einsum("m,mkv->kv", self.weights_, mean))

    def topic_modes(self, basis: Literal["simplex", "softmax"] = "simplex") -> np.ndarray:
        """The most probable topics under the beliefs, (K, V); see `families.dirichlet_mixture`."""
        self._fitted()
        alpha = np.moveaxis(self.concentrations_, 1, 0)
        return np.array([mixture_mode(self.weights_, rows, basis) for rows in alpha])

    def document_modes(self, X: Any, basis: Literal["simplex", "softmax"] = "simplex") -> np.ndarray:
        """The most probable frequencies of topics in documents under the beliefs, (documents, K)."""
        return np.array([mixture_mode(self.weights_, rows, basis) for rows in self._documents(X)[0]])

    def assign(self, X: Any) -> Any:
        """The most probable topic of every word of every document, a sparse matrix with the pattern of X.

        Topics are stored as numbers from 0, so that stored zeros mean topic 0.
        """
        from scipy.sparse import csr_array

        corpus = self._read(X)
        beliefs = self._documents(X)[2]
        best = np.concatenate([np.einsum("m,muk->uk", self.weights_, b).argmax(axis=1) for b in beliefs])
        return csr_array((best, corpus.words, corpus.start), shape=(len(corpus), corpus.vocabulary))

    def _check(self) -> tuple[TopicModel, Topics]:
        """The blank and the learner of these options."""
        for name in ("n_components", "mixtures", "max_iter", "max_doc_update_iter", "n_init"):
            check.whole(name, getattr(self, name), 1)
        if self.batch_size is not None:
            check.whole("batch_size", self.batch_size, 1)
        if not 0.5 < self.learning_decay <= 1:
            raise OptionError(f"learning_decay must be above 0.5 and at most 1, got {self.learning_decay!r}")
        for name in ("tol", "mean_change_tol", "learning_offset"):
            check.at_least(name, getattr(self, name), 0)
        if self.seconds is not None:
            check.at_least("seconds", self.seconds, 0)
        model = TopicModel(
            self.n_components, mixtures=self.mixtures, entropy=self.entropy,
            doc_topic_prior=self.doc_topic_prior, topic_word_prior=self.topic_word_prior,
        )  # fmt: skip
        return model, self._learner()

    def _learner(self) -> Topics:
        return Topics(
            learn_prior=self.learn_prior, learn_weights=self.learn_weights, expectations=self.expectations,
            samples=self.samples, batch=self.batch_size, decay=self.learning_decay,
            offset=self.learning_offset, steps=self.max_doc_update_iter, small=self.mean_change_tol,
            restarts=self.n_init,
        )  # fmt: skip

    def _fitted(self) -> TopicModel:
        self._learned("weights_")
        blank, _ = self._check()
        return blank.with_beliefs(self.concentrations_, self.weights_, self.doc_topic_prior_)

    def _documents(self, X: Any) -> DocumentBeliefs:
        """What is believed about documents."""
        model, learner = self._fitted(), self._learner()
        limits = (int(self.max_doc_update_iter), float(self.mean_change_tol))
        rng, settings = check.generator(self._seed(), "random_state"), learner.settings(model)
        return document_beliefs(model, self._read(X), rng, limits=limits, settings=settings)

    def _read(self, X: Any, *, reset: bool = False) -> Corpus:
        """Counts with the columns that were fitted."""
        if hasattr(X, "toarray"):
            read_columns(self, X, int(X.shape[1]), reset=reset)
            counts = X.data if hasattr(X, "data") else X
        else:
            X = counts = read_rows(self, X, reset=reset)
        if np.size(counts) and np.asarray(counts).dtype.kind in "iuf" and np.min(counts) < 0:
            raise DataError("X: Negative values in data passed to BetheLDA: counts begin at 0")
        return Corpus.read(X)
