r"""Training of normal-form graphs: messages, then the local rule in every block, epoch after epoch.

    E   all messages with the matrices held
    M   every learnable block, from its own two messages; tied blocks from the messages of all of them

Recorded at the start and after every epoch, as totals over the samples that are learned from:

    log_likelihood   log p(evidence of a sample), jointly
    metric           sum over observed ends of log p(end | all other evidence): a pseudo-likelihood, the
                     number the literature on these graphs plots. It need not rise where the likelihood does

With `ml` of one iteration this is EM, and the log-likelihood never falls (unless learned blocks meet in a
diverter, as in the separable form). With more iterations, or other rules, it may.

Symmetry: where all rows of all matrices are alike, hidden states stay alike for ever. So learning starts from
random matrices (start="random"), or from random messages in the first M-step (start="messages").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import ModelError, OptionError
from ..core.registry import describe
from ..core.result import Status
from ..core.stopwatch import Stopwatch
from ..models.normal_form import Diverter, NormalForm, Source
from ..models.normal_form_messages import Messages
from ..optimise.driver import UNKNOWN, Outcome, Step, drive
from ..optimise.run import Budget, Run
from .block_records import BlockFit, BlockRun, BlockSamples
from .blocks import VIT, BlockRule, block_rules

__all__ = ["check_start", "started", "train_all", "train_blocks", "update_blocks"]

Start = Literal["random", "messages", "given"]
Started = tuple[NormalForm, tuple[Messages, np.ndarray] | None]  # and what the first M-step reads


def update_blocks(
    graph: NormalForm, messages: Messages, rule: BlockRule, mask: np.ndarray | None = None
) -> NormalForm:
    """The M-step: every learnable matrix from the messages that enter its blocks."""
    weights = np.ones(len(messages)) if mask is None else np.asarray(mask, dtype=np.float64)
    new = {}
    for parameter, names in graph.learnable.items():
        seen = [messages.incoming(name) for name in names]
        if len(seen) == 1:
            (f, b), repeated = seen[0], weights
        else:
            f, b = (np.concatenate([pair[k] for pair in seen]) for k in (0, 1))
            repeated = np.tile(weights, len(seen))
        new[parameter] = rule.update(graph.parameters[parameter], f, b, repeated)
    return graph.with_parameters(new)


def train_blocks(
    graph: NormalForm,
    data: Any,
    rule: str | BlockRule = "ml",
    *,
    epochs: int = 60,
    mask: Any = None,
    restarts: int = 1,
    start: Start = "random",
    concentration: float = 2.0,
    tol: float = 0.0,
    floor: float = 0.0,
    record: bool = True,
    seed: int | None = None,
) -> BlockFit:
    """Learn the matrices of a normal-form graph from evidence on its terminals.

    Parameters
    ----------
    graph
        The graph; fixed blocks stay as they are.
    data
        Evidence, one entry per sample; see `NormalForm.messages`.
    rule
        What every block does: "ml(iterations=3)", "kl(iterations=3)", "vit" or "var", or a rule object.
    epochs
        At most so many.
    mask
        (samples,) how much each sample counts in learning; those of 0 are a test set.
    restarts
        How many starts.
    start
        "random": rows from a symmetric Dirichlet distribution; "messages": uniform matrices, and a first
        M-step on random messages; "given": the graph's own matrices.
    concentration
        Of the Dirichlet distribution of random starts.
    tol
        Stop when no entry of a matrix changes by more; 0 runs all epochs.
    floor
        Likelihoods below this are raised to it, so that nothing is impossible.
    record
        Keep the matrices of all epochs.
    seed
        Of all starts.

    Examples
    --------
    >>> from credo.learning.block_training import train_blocks
    >>> from credo.models.normal_form_build import embedding
    >>> data = {"X": [0, 0, 1, 1] * 25, "Y": [0, 0, 1, 1] * 25}
    >>> found = train_blocks(embedding({"X": 2, "Y": 2}, 2), data, "ml(iterations=3)", seed=0)
    >>> float(found.best.log_likelihood[-1].round(2))  # 100 log(1/2)
    -69.31
    """
    check.whole("epochs", epochs, 0)
    check.whole("restarts", restarts, 1)
    check.at_least("tol", tol, 0)
    check_start(graph, start)
    chosen = block_rules.resolve(rule)
    if not isinstance(chosen, BlockRule):
        raise OptionError(f"rule: expected a name or a BlockRule, got {chosen!r:.80}")
    distinct = not (isinstance(chosen, VIT) and chosen.ties == "random")
    every = BlockSamples.of(graph, data, mask, floor)
    watch, rng = Stopwatch(), check.generator(seed)
    starts = (started(graph, start, concentration, rng, every) for _ in range(restarts))
    samples = every.distinct() if distinct else every
    runs = train_all(starts, samples, chosen, epochs=epochs, restarts=restarts, tol=tol, record=record)
    return BlockFit(runs, describe(chosen), watch.seconds)


def train_all(
    starts: Iterable[Started],
    samples: BlockSamples,
    rule: BlockRule,
    *,
    epochs: int,
    restarts: int,
    tol: float = 0.0,
    record: bool = False,
    seconds: float | None = None,
) -> tuple[BlockRun, ...]:
    """Train from every start until all are done, time is up or somebody stops it."""
    made = (_Training(graph, samples, rule, record, first) for graph, first in starts)
    several = _Starts(f"blocks ({rule.name})", made, Budget(epochs, tol))
    budget = Budget(max_iter=restarts - 1, seconds=seconds)
    # Every run counts, as far as it came.
    return drive(several, None, budget, whole=False)  # type: ignore[no-any-return]


def check_start(graph: NormalForm, start: str) -> None:
    """Refuse a start from which nothing can be learned."""
    check.one_of("start", start, ("random", "messages", "given"))
    if not graph.learnable:
        raise ModelError("graph: expected at least one block that is not fixed, got none")
    blocks = [p for p in graph.parts if not isinstance(p, (Diverter, Source)) and not p.fixed]
    if start == "given" and blocks and all(np.ptp(p.theta, axis=0).max() == 0 for p in blocks):
        raise ModelError(
            "start='given': all rows of all matrices are alike, so hidden states can never become different; "
            "use start='random' or start='messages'"
        )


def started(
    graph: NormalForm, start: str, concentration: float, rng: np.random.Generator, samples: BlockSamples
) -> Started:
    """A graph to start from, and what its first M-step reads instead of its messages, if anything."""
    if start == "given":
        return graph, None
    if start == "random":
        return graph.randomised(rng, concentration), None
    shapes = {name: graph.parameters[name].shape for name in graph.learnable}
    level = graph.with_parameters({name: np.full(shape, 1.0 / shape[1]) for name, shape in shapes.items()})
    # Random messages everywhere but at the open ends, different for every sample.
    noise = rng.random(samples.given.flat.shape)
    first = level.messages(samples.given, schedule="flooding", steps=0, start=noise)
    return level, (first, samples.train)


@dataclass(frozen=True)
class _Starts:
    """All starts as the driver sees them: each is a step, and a run of its own."""

    steps_are_runs: ClassVar[bool] = True
    name: str
    trainings: Iterator[_Training]
    each: Budget

    def start(self, problem: None, run: Run) -> Step:
        return self._with_next(())

    def advance(self, problem: None, state: tuple[BlockRun, ...], run: Run) -> Step:
        return self._with_next(state)

    def _with_next(self, runs: tuple[BlockRun, ...]) -> Step:
        found = drive(next(self.trainings), None, self.each)
        was_stopped = found.status in (Status.INTERRUPTED, Status.OUT_OF_TIME)
        return Step((*runs, found), [UNKNOWN] * bool(runs), status=found.status if was_stopped else None)

    def read(self, problem: None, outcome: Outcome) -> tuple[BlockRun, ...]:
        return outcome.state  # type: ignore[no-any-return]


class _State(NamedTuple):
    """A graph and its messages."""

    graph: NormalForm
    messages: Messages
    epoch: int = 0


@dataclass(frozen=True)
class _Training:
    """The epochs of one start as the driver sees them; the residual is the largest change of an entry."""

    graph: NormalForm
    samples: BlockSamples
    rule: BlockRule
    record: bool
    first: tuple[Messages, np.ndarray] | None = None  # what the first M-step reads instead of messages

    @property
    def name(self) -> str:
        return f"blocks ({self.rule.name})"

    @cached_property
    def _log_z(self) -> float | None:
        """The same for all parameters, unless learned blocks meet."""
        joins = any(isinstance(p, Diverter) and len(p.inputs) > 1 for p in self.graph.parts)
        return None if joins else self.graph.log_z

    def start(self, problem: None, run: Run) -> Step:
        return self._expected(self.graph, None)

    def advance(self, problem: None, state: _State, run: Run) -> Step:
        seen, weights = state.messages, self.samples.train
        if self.first is not None and state.epoch == 0:
            seen, weights = self.first
        return self._expected(update_blocks(state.graph, seen, self.rule, weights), state)

    def _expected(self, graph: NormalForm, before: _State | None) -> Step:
        """The E-step, and what is recorded of this epoch."""
        messages = graph.messages(self.samples.given)
        likelihood = messages.log_z - (graph.log_z if self._log_z is None else self._log_z)
        weights, curves = (self.samples.train, self.samples.test), (likelihood, messages.pseudo())
        totals = tuple(_total(w, x) for w in weights for x in curves)
        trace: dict[str, list[Any]] = {"curves": [totals], "parameters": [graph.parameters] * self.record}
        if before is None:
            return Step(_State(graph, messages), (), trace)
        residual = UNKNOWN
        if before.epoch or self.first is None:
            old, new = before.graph.parameters, graph.parameters
            residual = max(float(np.abs(new[name] - old[name]).max()) for name in graph.learnable)
        return Step(_State(graph, messages, before.epoch + 1), [residual], trace)

    def parameters(self, problem: None, state: _State) -> dict[str, np.ndarray]:
        return dict(state.graph.parameters)

    def read(self, problem: None, outcome: Outcome) -> BlockRun:
        graph, recorded = outcome.state.graph, outcome.trace["parameters"]
        kept = {name: np.array([p[name] for p in recorded]) for name in graph.learnable if recorded}
        curves = np.array(outcome.trace["curves"]).T
        return BlockRun(graph, outcome.ended, curves[0], curves[1], curves[2], curves[3], kept)


def _total(weights: np.ndarray, values: np.ndarray) -> float:
    """Weighted sum; values of weight 0 may be infinite."""
    return float(weights[weights > 0] @ values[weights > 0])
