"""The public calls: a question about a model is checked, posed as a problem, answered and mapped back.

`infer`, `query` and `sample` share one road: the evidence conditions the graph, the question becomes a
`Problem` (temperatures and elimination levels by position), an algorithm of the registry answers it, and
the answer is expressed in all states of the original graph again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...core import check
from ...core.errors import ModelError, QueryError
from ...core.evidence import Evidence, Restriction, condition
from ...core.factor_graph import FactorGraph, Model
from ...core.result import Joint, Result, Samples, unrestrict
from ...optimise.driver import Observer, View
from ...optimise.run import call, current_run
from ..problem.base import Algorithm, Budget, Problem, names_to_maximise
from ..problem.hints import hinted
from ..problem.reading import Posed
from ..problem.running import chosen, generator_of, opened, run_algorithm

if TYPE_CHECKING:
    from ...core.instance import Template

__all__ = ["Question", "graph_of", "infer", "pose", "query", "sample", "without_data"]


@hinted
def infer(  # noqa: PLR0913, the options of one call
    model: Model | Template,
    method: str | Algorithm | None = None,
    *,
    evidence: Mapping[str, Any] | None = None,
    maximise: Literal["all"] | Iterable[str] = (),
    temperatures: Mapping[str, float] | None = None,
    order: Iterable[str] | None = None,
    max_iter: int = 1000,
    tol: float = 1e-8,
    seconds: float | None = None,
    seed: int | None = None,
    strict: bool = False,
    warm_start: Result | None = None,
    on_step: Observer | None = None,
    trace: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 60,
    data: Any = None,
    lengths: Any = None,
    mask: Any = None,
    groups: str | None = None,
    columns: Any = None,
    causal: bool = False,
) -> Result:
    """Answer a question about a model.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`.
    method
        A name such as `"junction-tree"`, with options `"junction-tree(propagation=hugin)"`, or
        an algorithm object. Without one: the junction tree if its forecast is small, otherwise `"bp"` for
        marginals and `"portfolio"` for maxima; see `choose.py`.
    evidence
        Name -> state label or index, likelihood vector, value of a continuous variable, or None for missing.
    maximise
        `()` for marginals and log Z, `"all"` for MAP, names for marginal MAP.
    temperatures
        Name -> temperature of the powered sum, for variables not in `maximise`; 1 is a sum.
    order
        Full elimination order (first eliminated first) where temperatures differ and the
        default, by falling temperature, is not meant.
    max_iter, tol, seconds
        When to stop an iterative method. The portfolio takes 10 seconds where none are given, less where its
        states are proven optimal before.
    seed
        Seed of the one random generator of the run.
    strict
        Raise `ConvergenceError` instead of warning when the run did not converge.
    warm_start
        The result of an earlier run of a message-passing method with the same variables observed.
    on_step
        Called as `on_step(iteration, view)` while an iterative method runs, ten times a second at most:
        `view.beliefs`, `view.log_z`, `view.bound`, `view.energy`, `view.residual` and `view.messages` show
        where it is, `view.outcome` holds its state, residuals and trace, `view.result()` computes the answer
        so far and `view.stop()` ends the run with it. What is not asked for costs nothing.
    trace
        Record log Z after every step of a method that does not do so by itself (message passing), in
        `result.trace["log_z"]`; a step then costs about two.
    checkpoint, every
        A file that keeps the state of an iterative method, written every so many seconds at most and at the
        end, however that comes. If it exists, the run goes on from there, equal to the last bit to one that
        was never stopped; a finished one is read, or goes on where `max_iter` (counted from the very
        beginning) or `tol` now allow more. Kernels are compiled from the beginning.
    data, lengths
        Observations of a template, a model that is a graph only together with data (`HMM`, `SemiMarkov`,
        `FactorialHMM`; of a `CRF` its inputs, see `CRF.instantiate`, and `"label"` is the name): one table
        of rows, with the lengths of its sequences if it holds several, or a list of tables.
        `marginals["state"]` is then (rows, states), `assignment["state"]` the best path, of
        several sequences a list of those; `factor_marginals["transition"]` expected counts by the name of the
        table; `log_z` the total log-likelihood, `each` that of every sequence.
    mask
        Of the rows of data, True where a row was observed.
    groups, columns
        Of data whose columns have names: the column that tells sequences apart, and those that are emitted.
    causal
        Of templates: give each state the rows up to it only (filtering).

    Returns
    -------
    Result
        For marginal MAP and MAP, `log_z` is the value of the maximisation.

    Examples
    --------
    >>> import credo
    >>> model = credo.datasets.sprinkler()
    >>> print(credo.infer(model, evidence={"wet": "yes"}).marginals["rain"].round(4))
    rain   no: 0.2921   yes: 0.7079
    """
    reading = {"lengths": lengths, "mask": mask, "groups": groups, "columns": columns}
    if data is not None:
        from .templates import infer_by_name, infer_template, names_given

        names_given(evidence=evidence, temperatures=temperatures, order=order, warm_start=warm_start)
        rest: Any = {
            "maximise": maximise, "max_iter": max_iter, "tol": tol, "seconds": seconds, "seed": seed,
            "strict": strict, "on_step": on_step, "trace": trace, "checkpoint": checkpoint, "every": every,
        }  # fmt: skip
        if hasattr(model, "emits_counts"):
            from .documents import infer_documents

            names_given(method=method, checkpoint=checkpoint)
            return infer_documents(model, data, reading, rest, causal=causal)
        general = partial(infer, method=method, **rest)
        if method is None:
            return infer_template(model, data, reading, rest, causal=causal, general=general)
        return infer_by_name(model, data, reading, method, rest, causal=causal, general=general)
    without_data(causal=causal or None, **reading)
    warm = _state_of(warm_start)
    budget = Budget(max_iter, tol, seconds)
    with call(seconds=seconds) as run:
        if checkpoint is not None:
            run.checkpoint = opened(checkpoint, every, warm)
        question, problem = pose(model, evidence, maximise, temperatures, order)
        problem = problem if warm is None else replace(problem, warm=warm)

        def watch(posed: Posed) -> None:
            run.on_step = _Watcher(on_step, trace, lambda found: question.all_states(posed.complete(found)))

        is_watched = trace or on_step is not None
        return question.ask(
            problem,
            method,
            budget,
            seed=seed,
            strict=strict,
            keep=run.checkpoint,
            watch=watch if is_watched else None,
        )


@dataclass(frozen=True)
class _Watcher:
    """An observer who sees answers in terms of the model that was asked about."""

    on_step: Observer | None
    asks_trace: bool
    back: Callable[[Result], Result]

    def __call__(self, iteration: int, view: View) -> None:
        if self.on_step is not None:
            self.on_step(iteration, view.mapped(self.back))


def _state_of(warm_start: Result | None) -> Any:
    if warm_start is None:
        return None
    if not isinstance(warm_start, Result):
        raise QueryError(f"warm_start: expected the Result of an earlier run, got {warm_start!r:.80}")
    if warm_start.state is None:
        raise QueryError(f"warm_start: {warm_start.algorithm} keeps no state to start from")
    return warm_start.state


def pose(
    model: Model | Template,
    evidence: Mapping[str, Any] | None,
    maximise: Literal["all"] | Iterable[str] = (),
    temperatures: Mapping[str, float] | None = None,
    order: Iterable[str] | None = None,
) -> tuple[Question, Problem]:
    """The checked question of a call like `infer`, and its problem on the conditioned graph."""
    question = Question.of(model, evidence)
    return question, question.problem(maximise, temperatures, order)


@hinted
def query(
    model: Model,
    variables: str | Iterable[str],
    *,
    given: str | Iterable[str] = (),
    evidence: Mapping[str, Any] | None = None,
    method: str | Algorithm | None = None,
) -> Joint:
    """Joint marginal p(variables | evidence), or the conditional table p(variables | given, evidence).

    Without a method: elimination; where some variables are real, and Gaussian given states, integrals.

    Examples
    --------
    >>> import credo
    >>> credo.query(credo.datasets.sprinkler(), "wet", given=["rain"])["yes", "no"].__round__(6)
    0.378
    """
    question = Question.of(model, evidence)
    names, given = _names(variables), _names(given)
    if not names:
        raise QueryError("query: expected at least one variable, got none")
    problem = question.problem((), None, None, query=(*names, *given))
    if method is None:
        method = "conditional-gaussian" if problem.graph.as_tables() is None else "elimination"
    with call():
        joint = question.ask(problem, method, Budget(), seed=None, strict=True).joint
    if joint is None:
        raise QueryError(f"{method} computes no joint marginals; use method='elimination'")
    if not given:
        return joint
    axes = tuple(range(len(names)))
    norm = joint.table.sum(axis=axes, keepdims=True)
    # Where the condition has probability zero the conditional is undefined; 0/0 := 0.
    table = np.divide(joint.table, norm, out=np.zeros_like(joint.table), where=norm > 0)
    return replace(joint, table=table, given=len(given))


@hinted
def sample(
    model: Model | Template,
    count: int | None = None,
    *,
    evidence: Mapping[str, Any] | None = None,
    method: str | Algorithm | None = None,
    seed: int | None = None,
    data: Any = None,
    lengths: Any = None,
    mask: Any = None,
    groups: str | None = None,
    columns: Any = None,
) -> Any:
    """Joint samples from p(x | evidence), or of hidden rows.

    Without a method: independent draws by the junction tree if all variables are discrete, otherwise what
    `infer` would choose for samples.

    Of a template `sample(model, lengths=[100, 50])` makes new sequences, rows and hidden states (one number
    makes one sequence). `sample(model, count, data=x)` draws paths of hidden states given data: `["state"]`
    is (count, rows); `lengths, mask, groups, columns` say how the data are read, as in `infer`. Of a mixture,
    or another family with one member, `sample(model, count)` are rows and the components they are from.
    """
    reading = {"mask": mask, "groups": groups, "columns": columns}
    if data is not None or lengths is not None:
        from .templates import draw_paths, draw_rows, names_given

    if data is not None:
        names_given(evidence=evidence, method=method)
        reading["lengths"] = lengths
        return draw_paths(model, data, reading, 1 if count is None else count, seed, sample)
    without_data(**reading)
    if lengths is not None:
        names_given(evidence=evidence, method=method, count=count)
        return draw_rows(model, lengths, seed)
    if count is None:
        raise QueryError("count: expected how many samples, got None; templates take lengths= or data=")
    check.whole("count", count, 0)
    if not hasattr(model, "to_factor_graph"):
        from ...families.independent import IndependentRows, rows_model
        from .templates import draw_rows, names_given

        rows = rows_model(model)
        if isinstance(rows, IndependentRows):
            names_given(evidence=evidence, method=method)
            return draw_rows(rows, count, seed)
    question = Question.of(model, evidence)
    if count == 0:
        return Samples.none(question.original.variables)
    problem = question.problem((), None, None, samples=int(count))
    with call():
        samples = question.ask(problem, method, Budget(), seed=seed, strict=False).samples
    if samples is None:
        raise QueryError(f"{method} draws no samples; use another method, or none")
    return samples


def without_data(**given: Any) -> None:
    """Refuse what says how data are read where there are none."""
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise QueryError(f"{', '.join(names)}: expected data= with them, got none; they are about its rows")


def graph_of(model: Any) -> Any:
    """The factor graph of a model, or a sentence about what is none."""
    if not hasattr(model, "to_factor_graph"):
        from ...core.instance import Template  # what is a graph already needs none
        from ...families.independent import rows_model

        if isinstance(rows_model(model), Template):
            name = type(getattr(model, "family", model)).__name__
            raise ModelError(
                f"expected data=, got none: a {name} is a graph only together with data; give data=rows, or "
                "ask about model.instantiate(data).to_factor_graph()"
            )
        raise ModelError(f"expected a model (something with to_factor_graph()), got {type(model).__name__}")
    return model.to_factor_graph()


@dataclass(frozen=True)
class Question:
    """A model with evidence: it poses problems on the restricted graph, maps answers back."""

    original: FactorGraph  # as given
    graph: FactorGraph  # conditioned on the evidence
    restriction: Restriction  # the way back from one to the other
    has_evidence: bool  # whether anything was observed

    @classmethod
    def of(cls, model: Model | Template, evidence: Mapping[str, Any] | None) -> Question:
        """Check the evidence and condition the model on it."""
        original = graph_of(model)
        checked = Evidence.of(original.variables, evidence)
        graph, restriction = condition(original, checked)
        return cls(original, graph, restriction, not checked.is_empty)

    @cached_property
    def observed(self) -> np.ndarray | None:
        """Flags of the observed variables; None where nothing was."""
        return None if self.restriction.is_trivial else self.restriction.observed

    def problem(
        self,
        maximise: Literal["all"] | Iterable[str],
        temperatures: Mapping[str, float] | None,
        order: Iterable[str] | None,
        *,
        query: Iterable[str] = (),
        samples: int = 0,
    ) -> Problem:
        """What is asked, checked: temperatures and levels by position."""
        variables = self.graph.variables
        heat = np.ones(len(variables))
        if temperatures is not None and not isinstance(temperatures, Mapping):
            raise QueryError(f"temperatures: expected a mapping name -> number, got {temperatures!r:.80}")
        for name, value in (temperatures or {}).items():
            check.in_range(f"temperature of '{name}'", value, 0, float("inf"))
            heat[variables.position(name)] = value
        if maximise == "all":
            heat[:] = 0
        else:
            heat[variables.positions(names_to_maximise(maximise, ()))] = 0
        asked = tuple(int(i) for i in variables.positions(query))
        if len(set(asked)) < len(asked):
            raise QueryError(f"query: a variable is named twice in {list(query)}")
        levels = _levels(heat) if order is None else _levels_of_order(variables, order)
        return Problem(self.graph, heat, levels, asked, samples, self.has_evidence, observed=self.observed)

    def ask(
        self,
        problem: Problem,
        method: str | Algorithm | None,
        budget: Budget,
        *,
        seed: int | None,
        strict: bool,
        keep: Any = None,
        watch: Callable[[Posed], None] | None = None,
    ) -> Result:
        """Run a method, say how it went, and map its answer back to all states."""
        from .choose import choose

        is_part = (run := current_run()) is not None and run.parent is not None
        algorithm, notes = chosen(method, problem, lambda asked: choose(asked, budget.seconds, many=is_part))
        rng = generator_of(seed, keep, algorithm, problem, self.original)
        result = run_algorithm(algorithm, problem, budget, rng, notes, strict=strict, watch=watch)
        return self.all_states(result)

    def all_states(self, result: Result) -> Result:
        """An answer about the conditioned graph in terms of all states of the original one."""
        return unrestrict(result, self.restriction, self.original)


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(names, Iterable):
        raise QueryError(f"expected a name or a list of names of variables, got {names!r:.80}")
    return (names,) if isinstance(names, str) else tuple(names)


def _levels(temperatures: np.ndarray) -> np.ndarray:
    """Level 0 for the highest temperature, rising as it falls."""
    if (temperatures == 1).all():  # most questions
        return np.zeros(len(temperatures), dtype=np.int64)
    return np.unique(-temperatures, return_inverse=True)[1].astype(np.int64)


def _levels_of_order(variables: Any, order: Iterable[str]) -> np.ndarray:
    positions = variables.positions(order)
    if len(set(positions.tolist())) != len(variables) or len(positions) != len(variables):
        raise QueryError(
            f"order: expected each of the {len(variables)} variables once, got {len(positions)} names"
        )
    levels = np.empty(len(variables), dtype=np.int64)
    levels[positions] = np.arange(len(variables))
    return levels
