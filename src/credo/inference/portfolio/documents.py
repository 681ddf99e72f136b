"""Questions about documents: which topics they mix, and how probable they are, for models of counts of words.

A model with `emits_counts` offers `concentrations` and `weights` of its topics and `doc_topic_prior`. Beliefs
of documents are climbed in batches (`variational/topic_beliefs.py`); with one component the value is a lower
bound of log p(document | topics), with more an estimate, whose expectations are sampled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...core import check
from ...core.errors import MissingExtraError, QueryError
from ...core.result import Estimate, Result, Status
from ...core.rows import Rows
from ...core.stopwatch import Stopwatch
from ...data.corpus import Corpus
from ...optimise.run import call

__all__ = ["DocumentBeliefs", "document_beliefs", "infer_documents", "topic_programs"]

_STEPS, _SMALL = 100, 1e-3  # of a document, and the change of its concentrations that counts as none
_SAMPLES = 8  # points for an expectation without a closed form


class DocumentBeliefs(NamedTuple):
    """What is believed about documents given topics."""

    theta: np.ndarray  # (documents, M, K) concentrations
    values: np.ndarray  # (documents,) bound, or estimate, of log p(document | topics)
    words: list[np.ndarray]  # (M, words, K) probabilities of the topics of each distinct word

    def shares(self, weights: np.ndarray) -> np.ndarray:
        """Expected frequencies of the topics, (documents, K)."""
        mean = self.theta / self.theta.sum(axis=2, keepdims=True)
        return np.asarray(np.einsum("m,dmk->dk", weights, mean))


def topic_programs() -> Any:
    """The compiled programs, which need JAX."""
    try:
        from ..variational import topic_beliefs
    except ImportError as error:
        raise MissingExtraError(f"topic models need JAX: install credo[neural] ({error})") from None
    return topic_beliefs


def document_beliefs(
    model: Any, corpus: Corpus, rng: np.random.Generator, *, limits: Any = None, settings: Any = None
) -> DocumentBeliefs:
    """Beliefs of all documents, a few hundred at a time."""
    programs = topic_programs()
    from ..variational.topic_objective import Global

    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(model.weights), -1e3)
    shared = Global(logits, model.concentrations, model.doc_topic_prior)
    if settings is None:
        settings = programs.TopicSettings(_SAMPLES, True, model.entropy == "joint", True, True)
    theta, values, words = [], [], []
    for first in range(0, len(corpus), programs.CHUNK):
        chunk = np.arange(first, min(first + programs.CHUNK, len(corpus)))
        documents = programs.padded(corpus, chunk)
        found = programs.fit_documents(shared, documents, limits or (_STEPS, _SMALL), settings, rng)
        theta.append(found.local.theta[: len(chunk)])
        values.append(found.values[: len(chunk)])
        lengths = np.diff(corpus.start)[chunk]
        words += [found.local.words[d, :, :length] for d, length in enumerate(lengths)]
    return DocumentBeliefs(np.concatenate(theta), np.concatenate(values), words)


def infer_documents(
    model: Any,
    data: Any,
    reading: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    causal: bool,
) -> Result:
    """Expected frequencies of the topics, `marginals["topic"]` (documents, K), and the value of each."""
    if causal or options["maximise"] == "all" or tuple(options["maximise"]):
        raise QueryError(
            "documents: expected a question about frequencies of topics, got maximise or causal; leave it out"
        )
    watch = Stopwatch()
    with call(seconds=options["seconds"]):
        corpus = model.documents(data, **reading)
        found = document_beliefs(model, corpus, check.generator(options["seed"]))
    begin = np.array([0, len(corpus)])
    known: Any = Rows.of(found.shares(model.weights), begin, (), "topic")
    kind: Any = "lower" if len(model.weights) == 1 else "estimate"
    return Result(
        "topic-beliefs", Status.CONVERGED, Estimate(float(found.values.sum()), kind), marginals=known,
        each=found.values, seconds=watch.seconds, compile_seconds=watch.compile_seconds,
    )  # fmt: skip
