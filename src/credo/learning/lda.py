r"""Latent Dirichlet allocation by Bethe variational inference, in the manner of scikit-learn.

    topics beta_k ~ Dir(eta),   theta_d ~ Dir(gamma),   z ~ theta_d,   w ~ beta_z

The beliefs are a mixture of products (`lda_objective.py`) that maximises minus the Bethe free energy, by
preconditioned steps over all documents or over batches of them (`lda_training.py`); gamma is learned. With
one component (`mixtures=1`) this is variational Bayes, and its value is a lower bound on the evidence; with
more, training goes on from that component, split by noise, and values are estimates that may exceed it.

`entropy="per-topic"` adds the entropies of the topics one by one while the terms of words use their joint
belief, as the source prints it; `"joint"` uses the joint entropy in both places. One component: they agree.

Source: Guo 2020, chapter 7 and appendices A, B; Blei, Ng and Jordan 2003; Hoffman, Blei and Bach 2010.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from ..core import check
from ..core.errors import ConvergenceWarning, DataError, MissingExtraError, OptionError, QueryError
from ..core.numbers import float_array
from ..core.records import register
from ..core.result import Status
from ..families.dirichlet_mixture import mixture_mode
from ..optimise.driver import Outcome, Step, drive
from ..optimise.run import Budget, Run, noted
from ..optimise.run import check as run_check
from .estimator import Estimator

__all__ = ["BetheLDA"]

_CHUNK = 256  # documents treated at once
_JITTER = 100.0  # shape of the Gamma noise that makes topics and components differ at the start


@register("BetheLDA")
class BetheLDA(Estimator):
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
    max_doc_iter, doc_tol
        Steps for the beliefs of a document, and the mean change of its concentrations at which they end; with
        several components these are the steps of each alone, which a few steps of all follow.
    restarts
        Random starts with one component; the one with the highest value is kept.
    seed
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
    >>> from credo.learning import BetheLDA
    >>> rng = np.random.default_rng(0)
    >>> counts = np.r_[rng.poisson([5, 5, 0.1, 0.1], (20, 4)), rng.poisson([0.1, 0.1, 5, 5], (20, 4))]
    >>> model = BetheLDA(2, seed=0).fit(counts)
    >>> sorted((model.topics_ > 0.25).astype(int).tolist())
    [[0, 0, 1, 1], [1, 1, 0, 0]]
    >>> bool(model.perplexity(counts) < 4)
    True
    """

    _kind = "transformer"
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
        max_doc_iter: int = 100,
        doc_tol: float = 1e-3,
        restarts: int = 1,
        seed: int | None = None,
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
        self.max_doc_iter = max_doc_iter
        self.doc_tol = doc_tol
        self.restarts = restarts
        self.seed = seed

    @noted
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn topics from counts (documents, words), an array or a sparse matrix."""
        self._check()
        corpus = _Corpus(X)
        rng = check.generator(self.seed)
        with Run(Budget(seconds=self.seconds), rng, whole=False) as run:
            shared, values = self._train(
                corpus, lambda: self._start(corpus.vocabulary, rng), rng, self.restarts
            )
            if self.mixtures > 1 and run.ended() is None:
                shared, more = self._train(corpus, lambda: self._split(shared, rng), rng)
                values += more
        self._keep(shared, values)
        if self.status_ is Status.OUT_OF_ITERATIONS and self.tol > 0:
            warnings.warn(
                f"BetheLDA: {self.max_iter} passes were too few for tol={self.tol:g}; raise max_iter, or set "
                "tol=0 to ask for just these passes",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Expected frequencies of the topics in documents, (documents, K)."""
        theta = self._documents(X)[0]
        mean = theta / theta.sum(axis=2, keepdims=True)
        return np.asarray(np.einsum("m,dmk->dk", self.weights_, mean))

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """`fit`, then `transform`, of the same documents."""
        return self.fit(X).transform(X)

    def score(self, X: Any, y: Any = None) -> float:
        """The value of documents given the learned topics: a bound on their log probability if mixtures=1."""
        return float(self._documents(X)[1].sum())

    def perplexity(self, X: Any) -> float:
        """exp(-score / words); lower is better."""
        corpus = _Corpus(X)
        return float(np.exp(-self.score(X) / corpus.tokens))

    @property
    def topics_(self) -> np.ndarray:
        """Expected topics, (K, V), rows sum to 1."""
        mean = self.concentrations_ / self.concentrations_.sum(axis=2, keepdims=True)
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

        corpus = _Corpus(X)
        beliefs = self._documents(X)[2]
        best = np.concatenate([np.einsum("m,muk->uk", self.weights_, b).argmax(axis=1) for b in beliefs])
        return csr_array((best, corpus.words, corpus.start), shape=(len(corpus), corpus.vocabulary))

    def _check(self) -> None:
        for name in ("n_components", "mixtures", "max_iter", "max_doc_iter", "restarts"):
            check.whole(name, getattr(self, name), 1)
        check.whole("samples", self.samples, 2)
        if self.batch_size is not None:
            check.whole("batch_size", self.batch_size, 1)
        check.one_of("entropy", self.entropy, ["per-topic", "joint"])
        check.one_of("expectations", self.expectations, ["closed", "samples"])
        for name in ("learn_prior", "learn_weights"):
            check.one_of(name, getattr(self, name), [True, False])
        for name in ("tol", "doc_tol", "learning_offset"):
            check.at_least(name, getattr(self, name), 0)
        if self.seconds is not None:
            check.at_least("seconds", self.seconds, 0)
        if not 0.5 < self.learning_decay <= 1:
            raise OptionError(f"learning_decay must be above 0.5 and at most 1, got {self.learning_decay!r}")
        given = 1.0 if self.doc_topic_prior is None else self.doc_topic_prior
        gamma = float_array("doc_topic_prior", given, error=OptionError)
        if gamma.shape not in ((), (self.n_components,)) or not (gamma > 0).all():
            raise OptionError(
                f"doc_topic_prior: expected a positive number or {self.n_components} of them, "
                f"got {self.doc_topic_prior!r:.80}"
            )
        if self.topic_word_prior is not None and not self.topic_word_prior > 0:
            raise OptionError(f"topic_word_prior must be positive, got {self.topic_word_prior!r}")

    @property
    def _eta(self) -> float:
        return 1.0 / self.n_components if self.topic_word_prior is None else float(self.topic_word_prior)

    @property
    def _limits(self) -> tuple[int, float]:
        return int(self.max_doc_iter), float(self.doc_tol)

    def _settings(self) -> Any:
        return _training().TopicSettings(
            samples=self.samples,
            closed=self.expectations == "closed",
            joint=self.entropy == "joint",
            weights=self.learn_weights,
            prior=self.learn_prior,
        )

    def _train(
        self, corpus: _Corpus, first: Callable[[], Any], rng: np.random.Generator, restarts: int = 1
    ) -> tuple[Any, list[float]]:
        """Passes over the documents until the value stands still; the best of several starts."""
        passes, budget = _Passes(self, first), Budget(self.max_iter, self.tol)
        shared, values, self.status_ = drive(passes, corpus, budget, rng, restarts=restarts)
        return shared, values

    def _start(self, vocabulary: int, rng: np.random.Generator) -> Any:
        K = self.n_components
        topics = rng.gamma(_JITTER, 1 / _JITTER, (1, K, vocabulary))
        gamma = 1.0 / K if self.doc_topic_prior is None else self.doc_topic_prior
        prior = np.broadcast_to(np.asarray(gamma, dtype=np.float64), (K,)).copy()
        return _training().Global(np.zeros(1), topics, prior)

    def _split(self, shared: Any, rng: np.random.Generator) -> Any:
        """Components around one that has been trained."""
        M = self.mixtures
        noise = rng.gamma(_JITTER, 1 / _JITTER, (M, *shared.topics.shape[1:]))
        return _training().Global(np.full(M, -np.log(M)), shared.topics * noise, shared.prior)

    def _pass(
        self, corpus: _Corpus, shared: Any, steps: int, rng: np.random.Generator
    ) -> tuple[Any, float, int]:
        """All documents once; the topics step after each batch."""
        training, settings = _training(), self._settings()
        total = len(corpus)
        size = total if self.batch_size is None else min(self.batch_size, total)
        order = np.arange(total) if size == total else rng.permutation(total)
        value = 0.0
        for first in range(0, total, size):
            rows = order[first : first + size]
            slopes: Any = None
            for chunk in _chunks(rows):
                run_check()
                found = training.fit_documents(shared, corpus.documents(chunk), self._limits, settings, rng)
                slopes = found.slopes if slopes is None else _added(slopes, found.slopes)
                value += float(found.values.sum())
            scaled = type(shared)(*(part * (total / len(rows)) for part in slopes))
            rate = self._rate(corpus, shared, steps)
            shared, of_topics = training.topic_step(shared, scaled, self._eta, rate, total, settings, rng)
            steps += 1
        return shared, value + of_topics, steps

    def _rate(self, corpus: _Corpus, shared: Any, steps: int) -> float:
        """The weight of a step of the topics: it falls where steps are noisy."""
        has_batches = self.batch_size is not None and self.batch_size < len(corpus)
        if has_batches or self.expectations == "samples" or len(shared.logits) > 1:
            return float((self.learning_offset + steps) ** -self.learning_decay)
        return 1.0

    def _weight(self, corpus: _Corpus, state: _State) -> float:
        """The weight of all steps of a pass, at most 1, by which a change is divided."""
        count = -(-len(corpus) // min(self.batch_size or len(corpus), len(corpus)))
        rates = (self._rate(corpus, state.shared, state.steps + k) for k in range(count))
        return min(1.0, sum(rates))

    def _keep(self, shared: Any, values: list[float]) -> None:
        self.weights_ = np.exp(shared.logits) / np.exp(shared.logits).sum()
        self.concentrations_, self.doc_topic_prior_ = shared.topics, shared.prior
        self.components_ = np.einsum("m,mkv->kv", self.weights_, shared.topics)
        self.objective_, self.n_iter_ = np.array(values), len(values)
        self.n_features_in_ = self.components_.shape[1]

    def _fitted(self) -> Any:
        if not hasattr(self, "weights_"):
            raise QueryError("this BetheLDA is not fitted yet; call fit(X) first")
        with np.errstate(divide="ignore"):
            logits = np.maximum(np.log(self.weights_), -1e3)
        return _training().Global(logits, self.concentrations_, self.doc_topic_prior_)

    def _documents(self, X: Any) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Per document: concentrations (M, K), value, and beliefs of its words (M, words, K)."""
        shared, corpus = self._fitted(), _Corpus(X)
        if corpus.vocabulary != self.n_features_in_:
            raise DataError(f"X: expected {self.n_features_in_} words, as in fit, got {corpus.vocabulary}")
        rng = check.generator(self.seed)
        theta, values, words = [], [], []
        for chunk in _chunks(np.arange(len(corpus))):
            found = _training().fit_documents(
                shared, corpus.documents(chunk), self._limits, self._settings(), rng
            )
            theta.append(found.local.theta[: len(chunk)])
            values.append(found.values[: len(chunk)])
            lengths = np.diff(corpus.start)[chunk]
            words += [found.local.words[d, :, :length] for d, length in enumerate(lengths)]
        return np.concatenate(theta), np.concatenate(values), words


class _State(NamedTuple):
    """What documents share, and the value of the last pass."""

    shared: Any
    value: float = -np.inf
    steps: int = 0  # of the topics


class _Passes:
    """Training as the driver sees it: a pass over all documents is a step."""

    name = "lda"

    def __init__(self, lda: BetheLDA, first: Callable[[], Any]) -> None:
        self._lda, self._first = lda, first

    def start(self, corpus: _Corpus, run: Run) -> Step:
        return Step(_State(self._first()))

    def advance(self, corpus: _Corpus, state: _State, run: Run) -> Step:
        shared, value, steps = self._lda._pass(corpus, state.shared, state.steps, run.rng)
        moved = np.abs(_frequencies(shared) - _frequencies(state.shared)).sum(axis=-1).max() / 2
        change = float(moved) / self._lda._weight(corpus, state)
        return Step(_State(shared, value, steps), [change], {"value": [value]})

    def value(self, state: _State) -> float:
        return state.value

    def read(self, corpus: _Corpus, outcome: Outcome) -> tuple[Any, list[float], Status]:
        return outcome.state.shared, outcome.trace.get("value", []), outcome.ended


def _frequencies(shared: Any) -> np.ndarray:
    """Expected topics of every component, (M, K, V)."""
    return np.asarray(shared.topics / shared.topics.sum(axis=-1, keepdims=True))


class _Corpus:
    """Counts of words as rows of (word, count), checked."""

    def __init__(self, X: Any) -> None:
        from scipy.sparse import csr_array, issparse

        if not issparse(X):
            X = np.asarray(X)
            if X.ndim != 2 or X.dtype.kind not in "iufb":
                raise DataError(f"X: expected counts of shape (documents, words), got {X.dtype} {X.shape}")
        rows = csr_array(X, dtype=np.float64)
        rows.sum_duplicates()
        if not (np.isfinite(rows.data).all() and (rows.data >= 0).all()):
            raise DataError("X: expected finite counts from 0, got others")
        rows.eliminate_zeros()
        self.start, self.words, self.counts = rows.indptr, rows.indices, rows.data
        self.vocabulary, self.tokens = int(rows.shape[1]), float(rows.data.sum())
        if not self.tokens:
            raise DataError("X: expected at least one word, got none")
        # One width for all batches, and few in all, so that few programs serve them.
        longest = int(np.diff(self.start).max())
        unit = max(1, (1 << (longest - 1).bit_length()) // 8)
        self._width = -(-longest // unit) * unit

    def __len__(self) -> int:
        return len(self.start) - 1

    def documents(self, rows: np.ndarray) -> Any:
        """Padded arrays of some documents."""
        count = min(_CHUNK, len(self)) if len(rows) > _CHUNK // 2 else 1 << int(len(rows) - 1).bit_length()
        count = max(count, len(rows))
        words = np.zeros((count, self._width), dtype=np.int64)
        counts = np.zeros((count, self._width))
        for d, row in enumerate(rows):
            mine = slice(self.start[row], self.start[row + 1])
            length = self.start[row + 1] - self.start[row]
            words[d, :length], counts[d, :length] = self.words[mine], self.counts[mine]
        real = (np.arange(count) < len(rows)).astype(np.float64)
        return _training().Documents(words, counts, real)


def _chunks(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[first : first + _CHUNK] for first in range(0, len(rows), _CHUNK)]


def _added(one: Any, other: Any) -> Any:
    return type(one)(*(a + b for a, b in zip(one, other, strict=True)))


def _training() -> Any:
    try:
        from . import lda_training
    except ImportError as error:
        raise MissingExtraError(f"BetheLDA needs JAX: install credo[neural] ({error})") from None
    return lda_training
