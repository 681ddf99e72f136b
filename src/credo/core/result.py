"""What a run returns: the answer, what it guarantees, and why the run stopped."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from .belief import Density
from .domain import Discrete, Real
from .errors import QueryError
from .evidence import Restriction
from .factor_graph import FactorGraph
from .variable import Variables
from .wiring import starts_of

__all__ = [
    "Assignment",
    "Estimate",
    "FactorMarginals",
    "Joint",
    "Kind",
    "Marginals",
    "Result",
    "Samples",
    "Status",
    "unrestrict",
]

Kind = Literal["exact", "lower", "upper", "estimate"]


@dataclass(frozen=True)
class Estimate:
    """A number and what it guarantees about the true one."""

    value: float  # the number
    kind: Kind = "estimate"  # what it guarantees

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        sign = {"exact": "=", "lower": ">=", "upper": "<=", "estimate": "~"}[self.kind]
        return f"{sign} {self.value:.10g} ({self.kind})"


class Status(enum.Enum):
    """Why a run stopped; `advice` says what to do about it."""

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
    Status.OUT_OF_ITERATIONS: "max_iter was reached; raise it, loosen tol, or add damping where there is any",
    Status.OUT_OF_TIME: "the time given was used up; raise seconds, or loosen tol",
    Status.DIVERGED: "a value left the finite range; add damping where there is any, or use another method",
    Status.STALLED: "no step improves any more, or can be made, short of a solution; use another method",
    Status.INTERRUPTED: "the run was stopped by hand; this is what was found so far",
}


class _ByName(Mapping[str, Any]):
    """A mapping that knows which names it has; asking for another one is a `QueryError`."""

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # type: ignore[index]
        except (KeyError, QueryError):
            return False
        return True

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a variable, or `default` if there is none."""
        return self[name] if name in self else default


class Marginals(_ByName):
    """Name -> probabilities, a view on one flat array; `flat` is that array.

    A continuous variable has no states: its marginal is a `Density`, held in `densities`.
    """

    def __init__(
        self, variables: Variables, flat: np.ndarray, densities: Mapping[str, Density] | None = None
    ) -> None:
        flat.flags.writeable = False
        self._variables, self.flat = variables, flat
        self.densities = {} if densities is None else dict(densities)

    def __getitem__(self, name: str) -> Any:
        start = self._variables.state_start
        i = self._variables.position(name)
        if self._variables.sizes[i] == 0:
            return self.densities[self._variables.names[i]]
        return self.flat[start[i] : start[i + 1]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables.names)

    def __len__(self) -> int:
        return len(self._variables)

    def __repr__(self) -> str:
        shown = ", ".join(f"{n}: {_told(self[n])}" for n in self._variables.names[:8])
        return f"Marginals({shown}{', ...' if len(self) > 8 else ''})"


def _told(marginal: Any) -> str:
    if isinstance(marginal, Density):
        mean, sd = (np.array2string(np.asarray(v), precision=4) for v in (marginal.mean, marginal.sd))
        return f"{mean} +- {sd}"
    return np.array2string(marginal, precision=4)


class FactorMarginals(Sequence[np.ndarray]):
    """Factor position -> joint probabilities of its scope, views on one flat array."""

    def __init__(self, graph: FactorGraph, flat: np.ndarray) -> None:
        flat.flags.writeable = False
        self._graph, self.flat = graph, flat
        self._start = starts_of(graph.table_size)

    def __len__(self) -> int:
        return self._graph.n_factors

    def __getitem__(self, a: Any) -> Any:
        if isinstance(a, slice):
            return tuple(self[i] for i in range(len(self))[a])
        a = range(len(self))[a]
        shape = self._graph.variables.sizes[self._graph.scope_of(a)]
        return self.flat[self._start[a] : self._start[a + 1]].reshape(shape)


class Assignment(_ByName):
    """Name -> state label, or value of a continuous variable.

    `indices` holds one state index per variable, -1 where unassigned; `continuous` the other values.
    """

    def __init__(
        self, variables: Variables, indices: np.ndarray, continuous: Mapping[str, Any] | None = None
    ) -> None:
        indices = np.asarray(indices, dtype=np.int64)
        indices.flags.writeable = False
        self._variables, self.indices = variables, indices
        self.continuous = {} if continuous is None else dict(continuous)

    def __getitem__(self, name: str) -> Any:
        i = self._variables.position(name)
        if self._variables.sizes[i] == 0:
            return self.continuous[name]
        if self.indices[i] < 0:
            raise KeyError(name)
        return self._variables.domains[i].label(int(self.indices[i]))

    def __iter__(self) -> Iterator[str]:
        if not self.continuous:
            return (self._variables.names[int(i)] for i in np.flatnonzero(self.indices >= 0))
        pairs = zip(self._variables.names, self.indices, strict=True)
        return (name for name, i in pairs if i >= 0 or name in self.continuous)

    def __len__(self) -> int:
        return int((self.indices >= 0).sum()) + len(self.continuous)

    def index(self, name: str) -> int:
        """State index of a variable."""
        return int(self.indices[self._variables.position(name)])

    def __repr__(self) -> str:
        items = list(self.items())[:12]
        shown = ", ".join(f"{k}={v if isinstance(v, str) else _rounded(v)}" for k, v in items)
        return f"Assignment({shown}{', ...' if len(self) > 12 else ''})"


def _rounded(value: Any) -> str:
    return np.array2string(np.asarray(value), precision=5)


@dataclass(frozen=True, repr=False)
class Samples:
    """Joint samples: one row per sample, one column of state indices per variable.

    The columns of continuous variables are in `continuous`; their column of indices holds -1.
    """

    variables: Variables  # one per column
    indices: np.ndarray  # (rows, n)
    continuous: Mapping[str, np.ndarray] = field(default_factory=dict)  # name -> (rows,) or (rows, width)

    @classmethod
    def none(cls, variables: Variables) -> Samples:
        """No rows."""
        shapes = {v.name: (0,) if isinstance(v.domain, Real) else (0, v.domain.width)
                  for v in variables if not isinstance(v.domain, Discrete)}  # fmt: skip
        continuous = {name: np.empty(shape) for name, shape in shapes.items()}
        return cls(variables, np.empty((0, len(variables)), np.int64), continuous)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, row: Any) -> Any:
        """The assignment of one row, or the samples of several."""
        parts = {n: c[row] for n, c in self.continuous.items()}
        if np.ndim(self.indices[row]) > 1:
            return Samples(self.variables, self.indices[row], parts)
        return Assignment(self.variables, self.indices[row], parts)

    def column(self, name: str) -> np.ndarray:
        """State indices, or values, of one variable over all samples."""
        if name in self.continuous:
            return self.continuous[name]
        return self.indices[:, self.variables.position(name)]

    def to_pandas(self) -> Any:
        """A data frame: categorical columns with labels, one column of numbers per coordinate otherwise."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for i, v in enumerate(self.variables):
            if v.is_discrete:
                columns[v.name] = pd.Categorical.from_codes(self.indices[:, i], categories=list(v.states))
            elif self.continuous[v.name].ndim == 1:
                columns[v.name] = self.continuous[v.name]
            else:
                columns |= {f"{v.name}[{k}]": c for k, c in enumerate(self.continuous[v.name].T)}
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        return f"Samples({len(self)} rows, {len(self.variables)} variables)"


@dataclass(frozen=True, repr=False)
class Joint:
    """A table of probabilities over a few variables: p(scope), or p(scope | given).

    Axes are the variables of `scope` followed by those of `given`. Where the condition itself
    has probability zero, the conditional is not defined and its entries are zero.
    """

    variables: tuple[Any, ...]  # Variable per axis
    table: np.ndarray
    given: int = 0  # how many of the last axes are conditioned on

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(v.name for v in self.variables)

    def __getitem__(self, states: Any) -> Any:
        """Probability of one joint state, by labels or indices, as a tuple or a mapping."""
        if isinstance(states, Mapping):
            states = tuple(states[n] for n in self.names)
        states = states if isinstance(states, tuple) else (states,)
        if len(states) != len(self.variables):
            raise QueryError(
                f"joint over {list(self.names)}: expected {len(self.variables)} states, got {states!r}"
            )
        return float(self.table[tuple(v.index(s) for v, s in zip(self.variables, states, strict=True))])

    def to_pandas(self) -> Any:
        """A series indexed by the state labels of all axes."""
        import pandas as pd

        index = pd.MultiIndex.from_product([v.states for v in self.variables], names=self.names)
        return pd.Series(self.table.ravel(), index=index, name="probability")

    def __repr__(self) -> str:
        cut = len(self.variables) - self.given
        bar = f" | {', '.join(self.names[cut:])}" if self.given else ""
        return f"p({', '.join(self.names[:cut])}{bar}) =\n{np.array2string(self.table, precision=6)}"


@dataclass(frozen=True, repr=False)
class Result:
    """The answer of one run. What the algorithm does not compute is None; accessors say so."""

    algorithm: str  # the specification that ran
    status: Status  # why it stopped
    log_z: Estimate | None = None  # log partition function, or the value of the maximisation
    marginals: Marginals | None = None  # per variable
    factor_marginals: FactorMarginals | None = None  # per factor, in the graph's order
    assignment: Assignment | None = None  # states of the maximised variables
    score: Estimate | None = None  # value of that assignment: exact, or bounded from below
    joint: Joint | None = None  # of the queried variables
    samples: Samples | None = None  # joint samples, if they were asked for
    trace: dict[str, np.ndarray] = field(default_factory=dict)  # equally long arrays
    seconds: float = 0.0  # wall time of the run
    state: Any = None  # what a warm start needs
    notes: tuple[str, ...] = ()  # sentences about choices made on the way

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
        values = self.marginals[name]
        labels = self.marginals._variables[self.marginals._variables.position(name)].states
        return dict(zip(labels, map(float, values), strict=True))

    def _lacks(self, what: str) -> str:
        if self.assignment is not None:
            return f"this run maximised its variables: it holds an assignment, not {what}"
        return f"{self.algorithm} computed no {what}; ask another method"

    def summary(self) -> str:
        """A few readable lines."""
        lines = [f"{self.algorithm}: {self.status.value} ({self.status.advice}), {self.seconds:.3g} s"]
        if self.log_z is not None:
            lines.append(f"log Z {self.log_z}" if self.assignment is None else f"value {self.log_z}")
        if self.marginals is not None:
            lines.append(repr(self.marginals))
        if self.assignment is not None:
            lines.append(repr(self.assignment))
        if self.score is not None and self.score != self.log_z:
            lines.append(f"score of the assignment {self.score}")
        if self.joint is not None:
            lines.append(repr(self.joint))
        if self.samples is not None:
            lines.append(repr(self.samples))
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return self.summary()


def unrestrict(result: Result, restriction: Restriction, graph: FactorGraph) -> Result:
    """An answer about the restricted states, in terms of all states of `graph`."""
    variables = graph.variables
    changes: dict[str, Any] = {}
    if result.marginals is not None:
        changes["marginals"] = Marginals(variables, restriction.expand_states(result.marginals.flat))
    if result.factor_marginals is not None:
        flat = restriction.expand_tables(result.factor_marginals.flat, graph)
        changes["factor_marginals"] = FactorMarginals(graph, flat)
    if result.assignment is not None:
        indices = restriction.expand_indices(result.assignment.indices)
        changes["assignment"] = Assignment(variables, indices)
    if result.samples is not None:
        changes["samples"] = Samples(variables, restriction.expand_indices(result.samples.indices))
    if result.joint is not None:
        asked = variables.positions(result.joint.names)
        changes["joint"] = replace(
            result.joint,
            variables=tuple(variables[int(i)] for i in asked),
            table=restriction.expand_axes(result.joint.table, asked),
        )
    return replace(result, **changes)
