r"""Topics of documents by Bethe variational inference: how a `TopicModel` is learned.

The beliefs are a mixture of products (`inference/variational/topic_objective.py`) that maximises minus the
Bethe free energy, by preconditioned steps over all documents or over batches of them (`topic_steps.py`);
gamma is learned. With one component (`mixtures=1`) this is variational Bayes, and its value is a lower bound
on the evidence; with more, training goes on from that component, split by noise, and values are estimates
that may exceed it.

Source: Guo 2020, chapter 7 and appendices A, B; Blei, Ng and Jordan 2003; Hoffman, Blei and Bach 2010.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.records import record
from ..core.result import Estimate, Kind, Status
from ..data.corpus import Corpus
from ..inference.portfolio.documents import topic_programs
from ..models.topic_model import TopicModel
from ..optimise.driver import Outcome, Step, drive
from ..optimise.run import Budget, Run
from ..optimise.run import check as run_check
from .base import Fit, Learner, Task, register_learner

__all__ = ["Topics"]

_JITTER = 100.0  # shape of the Gamma noise that makes topics and components differ at the start


@register_learner
@dataclass(frozen=True, kw_only=True)
class Topics(Learner):
    """Topics of documents, by variational inference with one or several components.

    Examples
    --------
    >>> import numpy as np
    >>> import credo
    >>> from credo.models import TopicModel
    >>> rng = np.random.default_rng(0)
    >>> counts = np.r_[rng.poisson([5, 5, 0.1, 0.1], (20, 4)), rng.poisson([0.1, 0.1, 5, 5], (20, 4))]
    >>> found = credo.fit(TopicModel(2), counts, "topics(restarts=2)", seed=0)
    >>> found.evidence.kind
    'lower'
    """

    name: ClassVar[str] = "topics"
    checkpoints: ClassVar[bool] = True
    tol: ClassVar[float] = 5e-4  # change of a topic in a pass, in total variation
    learn_prior: bool = True  # whether gamma changes
    learn_weights: bool = True  # whether the weights of the components change
    expectations: Literal["closed", "samples"] = "closed"  # closed where there is a closed form
    samples: int = 8  # points for every expectation without a closed form
    batch: int | None = None  # documents per step of the topics; None: all
    decay: float = 0.7  # a noisy step t of the topics has the rate (offset + t)^-decay
    offset: float = 10.0  # see decay
    steps: int = 100  # for the beliefs of a document
    small: float = 1e-3  # the mean change of a document's concentrations that ends its steps
    restarts: int = 1  # random starts with one component; the best is kept

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("samples", self.samples, 2)
        for name, value in (("steps", self.steps), ("restarts", self.restarts), ("batch", self.batch)):
            if value is not None:
                check.whole(name, value, 1)
        check.one_of("expectations", self.expectations, ["closed", "samples"])
        for name, flag in (("learn_prior", self.learn_prior), ("learn_weights", self.learn_weights)):
            check.one_of(name, flag, [True, False])
        for name, number in (("small", self.small), ("offset", self.offset)):
            check.at_least(name, number, 0)
        if not 0.5 < self.decay <= 1:
            raise OptionError(f"decay must be above 0.5 and at most 1, got {self.decay!r}")

    def why_not(self, task: Task) -> str | None:
        """Models of documents."""
        if not hasattr(task.model, "emits_counts"):
            return f"it learns topics of documents, got {task.name}; use em or likelihood"
        return "its value is of the training documents; leave out validation" if task.validation else None

    def settings(self, model: TopicModel) -> Any:
        """What its programs are compiled for."""
        return topic_programs().TopicSettings(
            samples=self.samples, closed=self.expectations == "closed", joint=model.entropy == "joint",
            weights=self.learn_weights, prior=self.learn_prior,
        )  # fmt: skip

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Passes with one component, then with all, from noise around it."""
        model, budget = task.model, Budget(task.budget.max_iter, task.budget.tol)
        starts = self.restarts if model.is_blank else 1

        def climbed(first: Callable[[], _TopicState], restarts: int = 1) -> Outcome:
            found: Outcome = drive(_Passes(self, model, first), task.data, budget, rng, restarts=restarts)
            return found

        if not model.is_blank:
            found = climbed(lambda: _given(model))
        else:
            found = climbed(lambda: _random(model, task.data.vocabulary, rng), starts)
        values = list(found.trace.get("value", []))
        if (
            model.is_blank
            and model.mixtures > 1
            and found.ended in (Status.CONVERGED, Status.OUT_OF_ITERATIONS)
        ):
            one = found.state
            found = climbed(lambda: _split(one, model.mixtures, rng))
            values += found.trace.get("value", [])
        return self._fit(model, task.data, found, np.array(values))

    def _fit(self, model: TopicModel, corpus: Corpus, found: Outcome, values: np.ndarray) -> Fit:
        state = found.state
        weights = np.exp(state.logits) / np.exp(state.logits).sum()
        made = model.with_beliefs(state.topics, weights, state.prior)
        is_bound = len(weights) == 1 and self.expectations == "closed"
        is_bound &= self.batch is None or self.batch >= len(corpus)
        kind: Kind = "lower" if is_bound else "estimate"
        evidence = Estimate(float(values[-1]), kind) if len(values) else None
        return Fit(made, found.ended, values / len(corpus), None, {"value": values}, evidence=evidence)


def _random(model: TopicModel, vocabulary: int, rng: np.random.Generator) -> _TopicState:
    """Topics that differ by noise."""
    topics = rng.gamma(_JITTER, 1 / _JITTER, (1, model.topics, vocabulary))
    return _TopicState(np.zeros(1), topics, model.doc_topic_prior.copy())


def _given(model: TopicModel) -> _TopicState:
    """The beliefs of a model that was learned before."""
    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(model.weights), -1e3)
    return _TopicState(logits, model.concentrations, model.doc_topic_prior)


def _split(state: _TopicState, count: int, rng: np.random.Generator) -> _TopicState:
    """Components around one that has been trained."""
    noise = rng.gamma(_JITTER, 1 / _JITTER, (count, *state.topics.shape[1:]))
    return _TopicState(np.full(count, -np.log(count)), state.topics * noise, state.prior)


@record("topics")
class _TopicState(NamedTuple):
    """What documents share, and the value of the last pass."""

    logits: np.ndarray  # (M,) of the weights
    topics: np.ndarray  # (M, K, V) concentrations
    prior: np.ndarray  # (K,) gamma
    value: float = -np.inf
    steps: int = 0  # of the topics

    @property
    def frequencies(self) -> np.ndarray:
        """Expected topics of every component, (M, K, V)."""
        return np.asarray(self.topics / self.topics.sum(axis=-1, keepdims=True))


class _Passes:
    """Training as the driver sees it: a pass over all documents is a step."""

    name = "topics"

    def __init__(self, how: Topics, model: TopicModel, first: Callable[[], _TopicState]) -> None:
        self._how, self._model, self._first = how, model, first
        self._programs, self._settings = topic_programs(), how.settings(model)

    def start(self, corpus: Corpus, run: Run) -> Step:
        return Step(self._first())

    def advance(self, corpus: Corpus, state: _TopicState, run: Run) -> Step:
        new = self._pass(corpus, state, run.rng)
        moved = np.abs(new.frequencies - state.frequencies).sum(axis=-1).max() / 2
        change = float(moved) / self._weight(corpus, state)
        return Step(new, [change], {"value": [new.value]})

    def value(self, state: _TopicState) -> float:
        return state.value

    def read(self, corpus: Corpus, outcome: Outcome) -> Outcome:
        return outcome

    def parameters(self, corpus: Corpus, state: _TopicState) -> np.ndarray:
        return state.frequencies

    def _pass(self, corpus: Corpus, state: _TopicState, rng: np.random.Generator) -> _TopicState:
        """All documents once; the topics step after each batch."""
        from ..inference.variational.topic_objective import Global
        from .topic_steps import topic_step

        programs, settings, how = self._programs, self._settings, self._how
        total, shared, steps, value, of_topics = len(corpus), Global(*state[:3]), state.steps, 0.0, 0.0
        size = total if how.batch is None else min(how.batch, total)
        order = np.arange(total) if size == total else rng.permutation(total)
        for first in range(0, total, size):
            rows = order[first : first + size]
            slopes: Any = None
            for begin in range(0, len(rows), programs.CHUNK):
                run_check()
                documents = programs.padded(corpus, rows[begin : begin + programs.CHUNK])
                limits = (int(how.steps), float(how.small))
                found = programs.fit_documents(shared, documents, limits, settings, rng)
                slopes = found.slopes if slopes is None else _added(slopes, found.slopes)
                value += float(found.values.sum())
            scaled = Global(*(part * (total / len(rows)) for part in slopes))
            rate, eta = self._rate(corpus, len(shared.logits), steps), self._model.topic_word_prior
            shared, of_topics = topic_step(shared, scaled, eta, rate, total, settings, rng)
            steps += 1
        return _TopicState(*shared, value + of_topics, steps)

    def _rate(self, corpus: Corpus, components: int, steps: int) -> float:
        """The weight of a step of the topics: it falls where steps are noisy."""
        how = self._how
        has_batches = how.batch is not None and how.batch < len(corpus)
        if has_batches or how.expectations == "samples" or components > 1:
            return float((how.offset + steps) ** -how.decay)
        return 1.0

    def _weight(self, corpus: Corpus, state: _TopicState) -> float:
        """The weight of all steps of a pass, at most 1, by which a change is divided."""
        count = -(-len(corpus) // min(self._how.batch or len(corpus), len(corpus)))
        rates = (self._rate(corpus, len(state.logits), state.steps + k) for k in range(count))
        return min(1.0, sum(rates))


def _added(one: Any, other: Any) -> Any:
    return type(one)(*(a + b for a, b in zip(one, other, strict=True)))
