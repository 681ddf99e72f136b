"""What a run returns: the answer, what it guarantees, and why the run stopped."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from .belief import Density, PointMass
from .display import Listing, Shown, text_of
from .errors import QueryError
from .evidence import Restriction
from .factor_graph import FactorGraph
from .joint import Joint
from .marginals import FactorMarginals, Marginal, Marginals
from .records import register
from .samples import Assignment, Samples
from .stopwatch import told_seconds

__all__ = [
    "Assignment",
    "Estimate",
    "FactorMarginals",
    "Joint",
    "Kind",
    "Marginal",
    "Marginals",
    "Result",
    "Samples",
    "Status",
    "spread",
    "unrestrict",
]

Kind = Literal["exact", "lower", "upper", "estimate"]


@register("estimate")
@dataclass(frozen=True)
class Estimate:
    """A number and what it guarantees about the true one."""

    value: float  # the number
    kind: Kind = "estimate"  # what it guarantees
    error: float | None = field(
        default=None, repr=False
    )  # standard error of a number from draws, where known

    def __post_init__(self) -> None:
        # Kernels return NumPy's numbers, which print and pickle as such.
        object.__setattr__(self, "value", float(self.value))

    def to_parts(self) -> dict[str, Any]:
        """What files keep; those of numbers without an error are as they always were."""
        return {"value": self.value, "kind": self.kind} | (
            {} if self.error is None else {"error": self.error}
        )

    @classmethod
    def from_parts(cls, value: float, kind: Kind, error: float | None = None) -> Estimate:
        """The number of what a file kept."""
        return cls(value, kind, error)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        lead, promise = _READ[self.kind]
        told = "" if self.error is None else f", standard error {self.error:.2g}"
        return f"{lead}{self.value:.10g} ({promise}{told})"


_READ = {
    "exact": ("", "exact"),
    "lower": ("at least ", "lower bound"),
    "upper": ("at most ", "upper bound"),
    "estimate": ("", "estimate"),
}


class Status(enum.Enum):
    """Why a run stopped; `advice` says what to do about it.

    *Converged*: a residual which vanishes at the answer of this method fell below `tol`: the change of
    messages, beliefs or parameters under the method's own map, a slope, a gap between bounds, the share of
    what is undecided. A method of one pass (mini-bucket) has done all there is and leaves no residual. A slow
    step, or patience that ran out, is *stalled*; *exact* and *proven optimal* are promises about the answer.
    """

    EXACT = "exact"
    OPTIMAL = "proven optimal"
    CONVERGED = "converged"
    OUT_OF_ITERATIONS = "out of iterations"
    OUT_OF_TIME = "out of time"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"

    @property
    def advice(self) -> str:
        """A sentence for the user."""
        return _ADVICE[self]

    @property
    def is_success(self) -> bool:
        """Whether the run ended as it should."""
        return self in (Status.EXACT, Status.OPTIMAL, Status.CONVERGED)


_ADVICE = {
    Status.EXACT: "the answer is exact",
    Status.OPTIMAL: "the bound meets the score of the assignment: none is better",
    Status.CONVERGED: "the change fell below tol",
    Status.OUT_OF_ITERATIONS: "max_iter was reached; raise it, or loosen tol",
    Status.OUT_OF_TIME: "the time given was used up; raise seconds, or loosen tol",
    Status.DIVERGED: "a value left the finite range; use another method",
    Status.STALLED: "no step improves any more, or can be made, short of a solution; use another method",
    Status.INTERRUPTED: "the run was stopped by hand; this is what was found so far",
}


@dataclass(frozen=True, repr=False)
class Result(Shown):
    """The answer of one run. What the algorithm does not compute is None; accessors say so."""

    algorithm: str  # the specification that ran
    status: Status  # why it stopped
    log_z: Estimate | None = None  # log partition function, or the value of the maximisation
    marginals: Marginals | None = None  # per variable
    factor_marginals: FactorMarginals | None = None  # derivative of the value by each (shared) log table
    assignment: Assignment | None = None  # states of the maximised variables
    score: Estimate | None = None  # value of that assignment: exact, or bounded from below
    joint: Joint | None = None  # of the queried variables
    samples: Samples | None = None  # joint samples, if they were asked for
    trace: dict[str, np.ndarray] = field(default_factory=dict)  # equally long arrays
    seconds: float = 0.0  # wall time of the run, without compiling
    compile_seconds: float = 0.0  # spent on compiling, or on loading what was compiled
    state: Any = None  # what a warm start needs
    notes: tuple[str, ...] = ()  # sentences about choices made on the way
    diagnostics: dict[str, np.ndarray] = field(default_factory=dict)  # of draws, per unobserved variable
    each: np.ndarray | None = None  # log Z, or the value, of every sequence of a template
    hint: str = ""  # what to do about the way this very run ended, where more is known than its status says

    @property
    def advice(self) -> str:
        """A sentence about why the run stopped, and what to do about it."""
        return self.hint or self.status.advice

    def but(self, **changes: Any) -> Result:
        """The same with some fields changed; every call does so several times, and `replace` is slow."""
        made = object.__new__(Result)
        made.__dict__.update(self.__dict__, **changes)
        return made

    @property
    def converged(self) -> bool:
        """Whether the run ended as it should."""
        return self.status.is_success

    @property
    def gap(self) -> float | None:
        """How far the upper bound on the maximum is above the score; None without either."""
        if self.score is None or self.log_z is None or self.log_z.kind not in ("exact", "upper"):
            return None
        return max(0.0, self.log_z.value - self.score.value)

    def marginal(self, name: str) -> dict[str, float]:
        """Probabilities of one variable by state label."""
        if self.marginals is None:
            raise QueryError(self._lacks("marginals"))
        found = self.marginals[name]
        if isinstance(found, Density):
            raise QueryError(f"variable '{name}' is continuous and has no states; read marginals['{name}']")
        return found.to_dict()

    def _lacks(self, what: str) -> str:
        if self.assignment is not None:
            return f"this run maximised its variables: it holds an assignment, not {what}"
        return f"{self.algorithm} computed no {what}; ask another method"

    def summary(self) -> str:
        """What printing shows: the answer, its promise, the run and its notes, as lines of text."""
        return text_of(self._shown())

    def _shown(self) -> Iterable[str | Listing]:
        yield f"{self.algorithm}: {self.status.value} ({self.advice}), {told_seconds(self)}"
        if self.log_z is not None:
            yield f"{'log Z' if self.assignment is None else 'value'} {self.log_z}"
        if self.marginals is not None:
            yield from self.marginals._shown()
        if self.assignment is not None:
            yield from self.assignment._shown()
        if self.score is not None and self.score != self.log_z:
            yield f"score of the assignment {self.score}"
        for table in (self.joint, self.samples):
            if table is not None:
                yield from table._shown()
        yield from self.notes


def unrestrict(result: Result, restriction: Restriction, graph: FactorGraph) -> Result:
    """An answer about the restricted states, in terms of all states and values of `graph`."""
    variables, seen = graph.variables, restriction.values
    changes: dict[str, Any] = {}
    if result.marginals is not None:
        flat = restriction.expand_states(result.marginals.flat)
        known = {variables.names[i]: PointMass(value) for i, value in seen.items()}
        changes["marginals"] = Marginals(variables, flat, result.marginals.densities | known)
    if result.factor_marginals is not None:
        changes["factor_marginals"] = _all_factor_marginals(result.factor_marginals, restriction, graph)
    if result.assignment is not None:
        found = result.assignment
        values = {variables.names[i]: value for i, value in seen.items() if found.indices[i] >= 0}
        indices = restriction.expand_indices(found.indices)
        changes["assignment"] = Assignment(variables, indices, found.continuous | values)
    if result.samples is not None:
        drawn = result.samples
        columns = {
            variables.names[i]: np.broadcast_to(value, (len(drawn), *np.shape(value)))
            for i, value in seen.items()
        }
        indices = restriction.expand_indices(drawn.indices)
        changes["samples"] = Samples(variables, indices, {**drawn.continuous, **columns})
    if result.joint is not None:
        asked = variables.positions(result.joint.names)
        changes["joint"] = replace(
            result.joint,
            variables=tuple(variables[int(i)] for i in asked),
            table=restriction.expand_axes(result.joint.table, asked),
        )
    return result.but(**changes)


def _all_factor_marginals(
    found: FactorMarginals, restriction: Restriction, graph: FactorGraph
) -> FactorMarginals:
    """Those of all states; a factor that became a table when values were observed has that table's scope."""
    whole = (
        graph
        if not graph.others
        else found.graph.with_states(graph.variables, np.empty(0), np.empty(0, np.int64))
    )
    return FactorMarginals(whole, partial(_spread_tables, found, restriction, whole))


def _spread_tables(found: FactorMarginals, restriction: Restriction, whole: FactorGraph) -> np.ndarray:
    return restriction.expand_tables(found.flat, whole)


def spread(
    result: Result, keep: np.ndarray, graph: FactorGraph, maximised: np.ndarray, query: Sequence[int] = ()
) -> Result:
    """An answer about the variables of `graph` at `keep`, with those that were observed added.

    `maximised` are positions that an assignment was asked for. Where none of them was left to be decided, the
    value of the maximisation is what remains, a sum. `query` are those of a joint table.
    """
    variables = graph.variables
    changes: dict[str, Any] = {}
    if len(maximised) and not np.isin(maximised, keep).any():
        indices = np.full(len(variables), -1, dtype=np.int64)
        indices[maximised] = 0
        changes = {"assignment": Assignment(variables, indices), "score": result.log_z}
        return result.but(**changes, marginals=None, factor_marginals=None)
    if result.marginals is not None:
        flat = np.ones(int(variables.state_start[-1]))
        flat[np.repeat(np.isin(np.arange(len(variables)), keep), variables.sizes)] = result.marginals.flat
        changes["marginals"] = Marginals(variables, flat, result.marginals.densities)
    if result.factor_marginals is not None:
        changes["factor_marginals"] = FactorMarginals(graph, result.factor_marginals.flat)
    if result.assignment is not None:
        indices = np.full(len(variables), -1, dtype=np.int64)
        indices[maximised] = 0
        indices[keep] = result.assignment.indices
        changes["assignment"] = Assignment(variables, indices, result.assignment.continuous)
    if result.samples is not None:
        indices = np.zeros((len(result.samples), len(variables)), dtype=np.int64)
        indices[:, keep] = result.samples.indices
        changes["samples"] = Samples(variables, indices, result.samples.continuous)
    if result.joint is not None:
        absent = tuple(k for k, i in enumerate(query) if i not in keep)
        table = np.expand_dims(result.joint.table, absent)
        changes["joint"] = replace(result.joint, variables=tuple(variables[i] for i in query), table=table)
    return result.but(**changes)
