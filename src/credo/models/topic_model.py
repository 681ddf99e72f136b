r"""Topic models: every document mixes topics, every topic is a distribution over words.

    topics beta_k ~ Dir(eta),   theta_d ~ Dir(gamma),   z ~ theta_d,   w ~ beta_z          (latent Dirichlet)

What is known about the topics is a mixture of products of Dirichlet distributions, sum_m lambda_m prod_k
Dir(beta_k | c_k^m); with one component this is the belief of variational Bayes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np

from ..core import check
from ..core.display import Listing, Shown
from ..core.errors import DataError, ModelError, OptionError
from ..core.numbers import float_array
from ..core.records import register
from ..data.corpus import Corpus

__all__ = ["TopicModel"]

_FEW = 8  # words of a topic that notebooks show


@register("TopicModel")
class TopicModel(Shown):
    """Latent Dirichlet allocation; immutable. Without `concentrations` it is a blank, for `credo.fit`.

    Parameters
    ----------
    topics
        How many, K.
    mixtures
        Components M of the belief about the topics.
    doc_topic_prior
        Concentration gamma, a number or one per topic; 1 / K if left out.
    topic_word_prior
        Concentration eta of the topics; 1 / K if left out.
    entropy
        `"per-topic"`, or `"joint"`, which treats the topics of several components as one variable.
    concentrations, weights
        Of every component, (M, K, V) and (M,).

    Examples
    --------
    >>> import numpy as np
    >>> import credo
    >>> from credo.models import TopicModel
    >>> rng = np.random.default_rng(0)
    >>> counts = np.r_[rng.poisson([5, 5, 0.1, 0.1], (20, 4)), rng.poisson([0.1, 0.1, 5, 5], (20, 4))]
    >>> found = credo.fit(TopicModel(2), counts, seed=0)
    >>> sorted((found.model.words > 0.25).astype(int).tolist())
    [[0, 0, 1, 1], [1, 1, 0, 0]]
    >>> credo.infer(found.model, data=counts[:2]).marginals["topic"].max(axis=1).round(1)
    array([1., 1.])
    """

    emits_counts: ClassVar[bool] = True  # data are documents, not rows of states or numbers

    def __init__(
        self,
        topics: int,
        *,
        mixtures: int = 1,
        doc_topic_prior: Any = None,
        topic_word_prior: float | None = None,
        entropy: Literal["per-topic", "joint"] = "per-topic",
        concentrations: Any = None,
        weights: Any = None,
    ) -> None:
        check.whole("topics", topics, 1)
        check.whole("mixtures", mixtures, 1)
        check.one_of("entropy", entropy, ["per-topic", "joint"])
        gamma = float_array("doc_topic_prior", 1 / topics if doc_topic_prior is None else doc_topic_prior)
        if gamma.shape not in ((), (topics,)) or not (np.isfinite(gamma) & (gamma > 0)).all():
            got = f"{doc_topic_prior!r:.80}"
            raise OptionError(f"doc_topic_prior: expected a positive number or {topics} of them, got {got}")
        if topic_word_prior is not None and not topic_word_prior > 0:
            raise OptionError(f"topic_word_prior must be positive, got {topic_word_prior!r}")
        self.topics, self.mixtures, self.entropy = int(topics), int(mixtures), entropy
        self.doc_topic_prior = np.broadcast_to(gamma, (topics,)).astype(np.float64)
        self.topic_word_prior = 1 / topics if topic_word_prior is None else float(topic_word_prior)
        self.concentrations, self.weights = self._checked(concentrations, weights)

    def _checked(self, concentrations: Any, weights: Any) -> tuple[Any, Any]:
        if concentrations is None:
            if weights is not None:
                raise ModelError("weights: expected concentrations beside them, got none")
            return None, None
        rows = float_array("concentrations", concentrations)
        shape = (self.mixtures, self.topics)
        if rows.ndim != 3 or rows.shape[:2] != shape or not (np.isfinite(rows) & (rows > 0)).all():
            raise ModelError(f"concentrations: expected positive numbers (*{shape}, words), got {rows.shape}")
        even = np.full(self.mixtures, 1 / self.mixtures)
        parts = even if weights is None else float_array("weights", weights)
        if parts.shape != (self.mixtures,) or (parts < 0).any() or abs(parts.sum() - 1) > 1e-8:
            raise ModelError(
                f"weights: expected {self.mixtures} probabilities that sum to 1, got {weights!r:.60}"
            )
        return rows, parts

    def to_parts(self) -> dict[str, Any]:
        """What files keep."""
        names = ("topics", "mixtures", "doc_topic_prior", "topic_word_prior", "entropy")
        return {name: getattr(self, name) for name in (*names, "concentrations", "weights")}

    @classmethod
    def from_parts(cls, topics: Any, **parts: Any) -> TopicModel:
        """The model of what a file kept."""
        return cls(topics, **parts)

    def with_beliefs(self, concentrations: Any, weights: Any, doc_topic_prior: Any) -> TopicModel:
        """The same with other beliefs about the topics, and another gamma."""
        return TopicModel(
            self.topics, mixtures=len(concentrations), entropy=self.entropy,
            topic_word_prior=self.topic_word_prior, doc_topic_prior=doc_topic_prior,
            concentrations=concentrations, weights=weights,
        )  # fmt: skip

    @property
    def is_blank(self) -> bool:
        """Whether the topics are still to come from data."""
        return self.concentrations is None

    @property
    def vocabulary(self) -> int:
        """How many words there are."""
        return int(self._beliefs().shape[2])

    @property
    def words(self) -> np.ndarray:
        """Expected topics, (K, V), rows sum to 1."""
        rows = self._beliefs()
        return np.asarray(np.einsum("m,mkv->kv", self.weights, rows / rows.sum(axis=2, keepdims=True)))

    @property
    def n_parameters(self) -> int:
        """Free numbers: topics and gamma, and for several components these and their weights."""
        return self.mixtures * self.topics * self.vocabulary + self.topics + self.mixtures - 1

    def read_batch(self, x: Any, **reading: Any) -> Corpus:
        """Documents, counts (documents, words)."""
        given = [name for name, value in reading.items() if value is not None]
        if given:
            raise DataError(f"{', '.join(given)}: documents are rows of counts of words; leave out")
        found = Corpus.read(x)
        if not self.is_blank and found.vocabulary != self.vocabulary:
            raise DataError(f"X: expected {self.vocabulary} words, as in fit, got {found.vocabulary}")
        return found

    def documents(self, x: Any, **reading: Any) -> Corpus:
        """Documents for questions, which a blank refuses."""
        self._beliefs()
        return self.read_batch(x, **reading)

    def filled(self, x: Any, **reading: Any) -> TopicModel:
        """The model itself: a learner gives a blank its topics."""
        return self

    def draw(self, lengths: Iterable[int], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Counts (documents, words) of new documents, and the frequencies of topics behind them."""
        words = self.words
        theta = rng.dirichlet(self.doc_topic_prior, size=len(sizes := list(lengths)))
        rows = [rng.multinomial(n, p / p.sum()) for n, p in zip(sizes, theta @ words, strict=True)]
        return np.array(rows, dtype=np.int64).reshape(-1, words.shape[1]), theta

    def to_factor_graph(self) -> NoReturn:
        """Refused: it is a model of documents."""
        raise ModelError(
            "a TopicModel is asked about documents: infer(model, data=counts), log_likelihood(model, counts)"
        )

    def _beliefs(self) -> np.ndarray:
        if self.concentrations is None:
            raise ModelError(
                "model: this TopicModel is a blank, it has no topics; fit it first: "
                "credo.fit(TopicModel(10), counts).model"
            )
        return np.asarray(self.concentrations)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicModel):
            return False
        mine, theirs = self.to_parts(), other.to_parts()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]

    def _shown(self) -> Iterable[str | Listing]:
        yield repr(self)
        if not self.is_blank:
            best = np.argsort(-self.words, axis=1)[:, :_FEW]
            rows = [[str(k), ", ".join(map(str, row))] for k, row in enumerate(best)]
            yield Listing(rows, [True, False], ["topic", "most frequent words"])

    def __repr__(self) -> str:
        parts = f" in {self.mixtures} components" if self.mixtures > 1 else ""
        size = "no words yet: fit it first" if self.is_blank else f"{self.vocabulary} words"
        return f"TopicModel({self.topics} topics{parts}, {size})"
