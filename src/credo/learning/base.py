"""What every learner is, what it returns, and the one public call.

A learner changes the parameters of a model to fit data. It works through `infer`, never inside an
algorithm, and returns a new model. As with inference, options are fields of the learner, and budget,
seed and data are arguments of the call:

    fit = credo.fit(model, data, "likelihood(prior=gaussian(scale=2))", inference="bp", seed=0)
"""

from __future__ import annotations

import abc
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..core import check
from ..core.display import Listing, Shown, text_of
from ..core.errors import ConvergenceError, ConvergenceWarning, OptionError, UnsupportedError
from ..core.fingerprint import fingerprint
from ..core.instance import Template
from ..core.packing import pack
from ..core.records import register
from ..core.registry import Entry, Registry, describe
from ..core.result import Estimate, Status
from ..core.stopwatch import Stopwatch, told_seconds
from ..data.stream import Stream
from ..inference.problem.base import Algorithm, Budget
from ..optimise.driver import Observer
from ..optimise.run import Run, call
from .choice import choose, with_options
from .task_data import read_task

__all__ = ["Fit", "Learner", "Task", "fit", "learners", "register_learner"]


@dataclass(frozen=True)
class Task:
    """A model to be changed and what it is to be fitted to."""

    model: Any  # where learning starts
    data: Any  # to learn from: a `StateTable`, `NetworkRows`, the sequences of a template, or a `Stream`
    validation: Any = None  # to watch only, in the same form
    inference: str | Algorithm | None = None  # what answers questions about the model; None: by the rule
    inference_budget: Budget = field(default_factory=Budget)  # of each of its runs
    budget: Budget = field(default_factory=Budget)  # of the learner
    seed: int | None = None  # of the runs of inference

    @property
    def name(self) -> str:
        """What sentences call the model."""
        return f"a {type(getattr(self.model, 'family', self.model)).__name__}"


@register("Fit")
@dataclass(frozen=True, repr=False)
class Fit(Shown):
    """What learning found. The trace holds one number per iteration in each of its arrays."""

    model: Any  # the new model
    status: Status  # why learning stopped
    objective: np.ndarray  # what was maximised, at the start and after each iteration
    log_likelihood: Estimate | None = None  # total over the training data, None if it was never computed
    trace: dict[str, np.ndarray] = field(default_factory=dict)  # "log_likelihood", "validation", ...: per row
    learner: str = ""  # the specification that ran
    seconds: float = 0.0  # wall time, without compiling
    notes: tuple[str, ...] = ()  # sentences about what happened on the way
    restarts: np.ndarray | None = None  # final objective of each run, where a learner starts several times
    compile_seconds: float = 0.0  # spent on compiling, or on loading what was compiled
    stopped_early: bool = False  # whether patience with the validation value ended it, as was asked for
    posterior: Any = None  # the distribution over the parameters, where one was learned
    evidence: Estimate | None = None  # log evidence of the data, or its lower bound, where that was maximised

    @property
    def converged(self) -> bool:
        """Whether learning ended as it should."""
        return self.status.is_success

    @property
    def advice(self) -> str:
        """A sentence about why learning stopped, and what to do about it."""
        if self.stopped_early:
            return "the validation value no longer rose; the model is the one where it was highest"
        if self.status is Status.OUT_OF_ITERATIONS:
            return "max_iter was reached; raise it, or loosen tol"
        if self.status is Status.CONVERGED:
            return "the slope, or the change of the parameters, fell below tol"
        if self.status is Status.DIVERGED:
            return "the objective fell or left the finite range; use another start, prior or optimiser"
        return self.status.advice

    def __repr__(self) -> str:
        return text_of([*self._run(), repr(self.model), *self.notes])

    def _run(self) -> Iterable[str]:
        """Sentences about the run."""
        yield f"{self.learner}: {self.status.value} ({self.advice}), {told_seconds(self)}"
        if len(self.objective):
            first, last = self.objective[0], self.objective[-1]
            yield f"objective {first:.6g} -> {last:.6g} per row in {len(self.objective) - 1} iterations"
        if self.log_likelihood is not None:
            yield f"log-likelihood {self.log_likelihood}"
        if self.evidence is not None:
            yield f"log evidence {self.evidence}"
        if "validation" in self.trace and len(self.trace["validation"]):
            yield f"validation {self.trace['validation'][-1]:.6g} per row"

    def _shown(self) -> Iterable[str | Listing]:
        """What notebooks show: the run, and the model with its variables."""
        model = self.model._shown() if isinstance(self.model, Shown) else [repr(self.model)]
        return [*self._run(), *model, *self.notes]


class Learner(abc.ABC):
    """Options are the dataclass fields of the final class; nothing else is configurable.

    A complete learner: one that gives every model uniform tables.

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> import numpy as np
    >>> import credo
    >>> from credo.core.result import Status
    >>> from credo.learning.base import Fit, Learner, fit
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Forget(Learner):
    ...     name: ClassVar[str] = "forget"
    ...     def why_not(self, task):
    ...         return None
    ...     def run(self, task, rng):
    ...         model = credo.FactorGraph(task.model.variables)
    ...         return Fit(model, Status.EXACT, np.zeros(1))
    >>> model = credo.FactorGraph({"a": 2}, {("a",): [1, 3]})
    >>> fit(model, {"a": [0, 1, 1]}, Forget()).model
    FactorGraph(1 variables, 0 factors, 0 edges)
    """

    name: ClassVar[str]
    monotone: ClassVar[bool] = False  # whether its objective never falls: inference exact, all rows each step
    checkpoints: ClassVar[bool] = False  # whether its runs can be kept: they are driven, their state is data
    streams: ClassVar[bool] = False  # whether it learns from a `data.Stream`, batch by batch
    reads_soft: ClassVar[bool] = False  # whether cells may be soft evidence
    tol: ClassVar[float] = 1e-6  # residual that counts as none, where the call does not say

    @abc.abstractmethod
    def why_not(self, task: Task) -> str | None:
        """None if the task can be treated, otherwise the reason in one sentence."""

    @abc.abstractmethod
    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Learn; never modifies its arguments."""


def _contents() -> Mapping[str, Entry]:
    from . import LEARNERS

    return LEARNERS


learners: Registry[Learner] = Registry("learner", _contents, aliases={"baum-welch": "em"})
register_learner = learners.register


def fit(  # noqa: PLR0913, the options of one call
    model: Any,
    data: Any,
    learner: str | Learner | None = None,
    *,
    prior: Any = None,
    fixed: Any = None,
    restarts: int | None = None,
    groups: str | None = None,
    columns: Any = None,
    lengths: Any = None,
    labels: str | None = None,
    targets: Any = None,
    inference: str | Algorithm | None = None,
    validation: Any = None,
    weights: Any = None,
    max_iter: int = 500,
    tol: float | None = None,
    seconds: float | None = None,
    seed: int | None = None,
    inference_budget: Budget | None = None,
    strict: bool = False,
    on_step: Observer | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 60,
) -> Fit:
    """Fit the parameters of a model to data.

    Parameters
    ----------
    model
        Where learning starts: its structure is kept, its parameters are changed in a copy. A family with one
        member, such as a `Mixture`, is a model of independent rows; a blank (`BayesNet.from_edges`,
        `HMM.blank`, `Mixture.blank`, `CRF()`) gets its columns from the data. A `Fit` goes on from what it
        found, by its learner if no other is named.
    data
        A data frame, columns, rows, an array, samples or a file; see `credo.data`. Missing values
        and hidden variables are allowed where the learner allows them. Data of more than memory are given as
        `credo.data.stream(path)`, from which `counts`, `em` and `gradient-em` learn batch by batch.
    learner
        A name with options, such as `"likelihood(optimiser=adam(rate=0.1))"`, or a learner object. Without
        it the first that can: `counts` (complete data, closed form), `likelihood` (weights), `em` (something
        is hidden or missing); the notes of the fit say which and why.
    columns
        The columns of the data that are read; all by default.
    groups, lengths
        Of sequences, for models of them: the column that tells sequences apart, or the lengths of sequences
        in one table. A list with one table each will do as well.
    labels
        Of models of hidden rows, a column that says the hidden state where it is known: a whole number, or
        one of as many names, in their order; missing cells are unknown.
    prior, fixed, restarts
        Options that many learners have, such as `prior="bdeu(size=10)"`; the same as inside `learner`.
    targets
        Of a `CRF`: the labels of one input, or a list with those of each, None where missing; of a table the
        name of their column. What `credo.data.read(X, targets=y)` read knows them.
    inference
        The algorithm that answers questions about the model; by default the one `infer` would choose.
    validation
        More data of the same form, or the fraction of the rows to hold back; its objective is recorded.
    weights
        How often each row, or sequence, counts; or the name of the column that says so.
    max_iter, tol, seconds
        When to stop: iterations (epochs of a stochastic optimiser), the residual that counts as none, wall
        time. The residual is the slope of a gradient learner, the largest change of a parameter of EM and its
        relatives, the mismatch of marginals of IPF; without `tol` it is what suits the learner, 1e-6 or 1e-3.
        Ctrl-C stops too; what was found is returned.
    seed
        Seed of the one random generator of the run.
    inference_budget
        `Budget(max_iter, tol, seconds)` of each run of an iterative inference algorithm.
    strict
        Raise `ConvergenceError` instead of warning when learning did not converge.
    on_step
        Called as `on_step(iteration, view)` while learning, ten times a second at most; see `credo.infer`.
    checkpoint, every
        A file that keeps the state of learning, written every so many seconds at most and at the end, and
        from which the same call goes on; see `credo.infer`.

    Returns
    -------
    Fit
        The new model, the curve of the objective, the final log-likelihood and why learning stopped.

    Examples
    --------
    >>> import credo
    >>> from credo.learning.base import fit
    >>> start = credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 1], [1, 1]]})
    >>> found = fit(start, {"a": [0, 0, 0, 1], "b": [0, 0, 1, 1]})
    >>> credo.infer(found.model, "junction-tree").factor_marginals[0].round(4)
    array([[0.5 , 0.25],
           [0.  , 0.25]])
    """
    with call(on_step, seconds) as run:
        if isinstance(model, Fit):
            found, model = model, model.model
            learner = learner or found.learner or None
        options = {"prior": prior, "fixed": fixed, "restarts": restarts}
        chosen = None if learner is None else with_options(_resolve(learner), options)
        rng = check.generator(seed)
        if checkpoint is not None:
            _check_keeps(chosen)
            rng = _opened(run, checkpoint, every, seed)
        named = {"groups": groups, "columns": columns, "lengths": lengths}
        given = model
        model, observed, held = read_task(model, data, weights, validation, rng, named, labels, targets)
        task = Task(model, observed, held, inference, inference_budget or Budget(), seed=seed)
        why = ""
        if chosen is None:
            chosen, why = choose(task, options, keeps=checkpoint is not None)
        if isinstance(observed, Stream) and not chosen.streams:
            raise _no_stream(chosen)
        limits = Budget(max_iter, chosen.tol if tol is None else tol, seconds)
        task = replace(task, budget=limits)
        reason = _why_not_soft(chosen, task) or chosen.why_not(task)
        if reason is not None:
            raise UnsupportedError(f"{chosen.name} cannot treat this task: {reason}")
        if checkpoint is not None:
            _check_keeps(chosen)
            run.checkpoint.identify(_identity(task, chosen))
        watch = Stopwatch()
        found = chosen.run(task, rng)
        if hasattr(given, "from_rows"):
            found = replace(found, model=given.from_rows(found.model))
    if not (found.status.is_success or found.stopped_early):
        sentence = f"{chosen.name}: {found.advice}"
        if strict:
            raise ConvergenceError(sentence)
        warnings.warn(sentence, ConvergenceWarning, stacklevel=2)
    return replace(
        found, learner=describe(chosen), seconds=watch.seconds, compile_seconds=watch.compile_seconds,
        notes=(*([why] if why else []), *getattr(observed, "notes", ()), *found.notes),
    )  # fmt: skip


def _resolve(learner: str | Learner) -> Learner:
    found = learners.resolve(learner)
    if not isinstance(found, Learner):
        raise OptionError(f"learner: expected a name or a Learner, got {found!r:.80}")
    return found


def _why_not_soft(learner: Learner, task: Task) -> str | None:
    parts = (task.data, task.validation)
    if learner.reads_soft or all(getattr(part, "soft", None) is None for part in parts):
        return None
    return "some cells are soft evidence; use em or vb"


def _check_keeps(learner: Learner | None) -> None:
    """Refuse a checkpoint of a learner that has none; one that is still to be chosen is asked later."""
    if learner is not None and not learner.checkpoints:
        able = [name for name in learners.names() if learners.get(name).checkpoints]
        raise UnsupportedError(
            f"{learner.name} keeps no checkpoints; leave out checkpoint, or use one of {able}"
        )


def _no_stream(learner: Learner) -> UnsupportedError:
    able = [name for name in learners.names() if learners.get(name).streams]
    return UnsupportedError(
        f"{learner.name} needs all rows at once, and a stream has batches; use one of {able}, or give data "
        "in memory, such as credo.data.read(path)"
    )


def _opened(run: Run, path: Any, every: float, seed: Any) -> np.random.Generator:
    """Give the call a checkpoint; the generator of the run."""
    from ..optimise.checkpoint import Checkpoint

    run.checkpoint = Checkpoint(path, every)
    rng: np.random.Generator = run.checkpoint.generator(seed)
    return rng


def _identity(task: Task, learner: Learner) -> dict[str, str]:
    """What a checkpoint must agree with."""
    method = task.inference
    return {
        "learner": describe(learner),
        "model": _model_identity(task.model),
        "data": task.data.fingerprint() if isinstance(task.data, Stream) else fingerprint(task.data),
        "validation": fingerprint(task.validation),
        "inference": describe(method) if isinstance(method, Algorithm) else str(method),
        "inference_budget": fingerprint(task.inference_budget),
    }


def _model_identity(model: Any) -> str:
    if isinstance(model, Template) or hasattr(model, "read_batch"):
        tree, parts = pack(model)
        return fingerprint(repr(tree), *parts)
    return fingerprint(type(model).__name__, model.to_factor_graph())
