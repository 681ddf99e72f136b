"""The scores of the UAI 2022 competition.

    PR          error = | log10 Z* - log10 Z |
    MAR         error = mean over the unobserved variables of the Hellinger distance
    MAP, MMAP   error = max( 0, log10 value of the reference's assignment - log10 value of ours )

    score = max( 0, 100 (1 - error / error of a trivial solver) )

so 100 is as good as the reference and 0 no better than the trivial solver. The competition does
not publish its trivial solver. Ours knows the variables but not how they interact:

    PR          every table replaced by its mean: Z = prod_i d_i  prod_a mean(f_a); without a model, Z = 1
    MAR         the uniform distribution for every variable
    MAP, MMAP   each variable's best state under the tables over that variable alone

If the trivial solver is right, only an error within `ROUNDING` scores, and it scores 100. If its
assignment has weight zero, every assignment with positive weight scores 100.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import QueryError, UnsupportedError, ZeroProbabilityError
from ..core.evidence import Evidence
from ..core.factor_graph import FactorGraph, Model
from ..core.instance import Template
from ..inference.portfolio.question import graph_of, infer
from ..inference.problem.base import Algorithm
from ..kernels.tables import best_states
from .errors import hellinger

__all__ = [
    "Score",
    "score_assignment",
    "score_marginals",
    "score_partition",
    "trivial_assignment",
    "trivial_log10_z",
    "value_of",
]

ROUNDING = 1e-6  # result files are printed with six digits or more
LOG10 = float(np.log(10.0))


@dataclass(frozen=True)
class Score:
    """The score of one answer to one problem."""

    task: str  # PR, MAR, MAP or MMAP
    error: float  # of the answer, against the reference
    trivial_error: float  # error of the trivial solver
    trivial: str  # what the trivial solver answered

    @property
    def score(self) -> float:
        """From 0, no better than the trivial solver, to 100, as good as the reference."""
        if self.trivial_error <= ROUNDING:
            return 100.0 if self.error <= ROUNDING else 0.0
        if not np.isfinite(self.error):
            return 0.0
        return max(0.0, 100.0 * (1.0 - self.error / self.trivial_error))


def score_partition(found: float, reference: float, trivial: float | None = None) -> Score:
    """Score of log10 Z.

    Parameters
    ----------
    found, reference
        The two values of log10 Z.
    trivial
        The trivial solver's log10 Z (`trivial_log10_z`); None stands for Z = 1.

    Examples
    --------
    >>> from credo.evaluate import score_partition
    >>> round(score_partition(-9.0, -10.0).score, 6)
    90.0
    """
    guess, words = (0.0, "Z = 1") if trivial is None else (trivial, "mean of every table")
    return Score("PR", _gap(found, reference), _gap(guess, reference), words)


def score_marginals(found: Sequence[Any], reference: Sequence[Any], observed: Iterable[int] = ()) -> Score:
    """Score of marginals given as one vector per variable; `observed` positions do not count."""
    if len(found) != len(reference):
        raise QueryError(f"marginals: expected {len(reference)} variables, got {len(found)}")
    skipped = set(observed)
    kept = [i for i in range(len(reference)) if i not in skipped]
    truth = {str(i): np.asarray(reference[i], dtype=np.float64) for i in kept}
    ours = {str(i): np.asarray(found[i], dtype=np.float64) for i in kept}
    uniform = {name: np.full(len(p), 1 / len(p)) for name, p in truth.items()}
    error, trivial_error = (
        float(hellinger(truth, guess).mean()) if kept else 0.0 for guess in (ours, uniform)
    )
    return Score("MAR", error, trivial_error, "uniform marginals")


def score_assignment(found: float, reference: float, trivial: float, task: str = "MAP") -> Score:
    """Score of an assignment from the natural-log values (`value_of`) of three assignments.

    An assignment better than the reference's scores 100, like an equal one.
    """
    words = "best states under the one-variable tables"
    error, trivial_error = (max(0.0, _gap(value, reference, signed=True)) for value in (found, trivial))
    return Score(task, error / LOG10, trivial_error / LOG10, words)


def trivial_log10_z(graph: FactorGraph) -> float:
    """log10 of Z if every table were constant at its mean; exact for a Bayesian network without evidence."""
    total = float(np.log(graph.variables.sizes).sum())
    for group in graph.shape_groups:
        size = int(np.prod(group.shape, dtype=np.int64))
        tables = graph.log_tables[group.table_start[:, None] + np.arange(size)]
        total += float((np.logaddexp.reduce(tables, axis=1) - np.log(size)).sum())
    return total / LOG10


def trivial_assignment(graph: FactorGraph, names: Iterable[str] | None = None) -> dict[str, str]:
    """Each variable's best state under the tables over it alone; the first state without any."""
    variables = graph.variables
    start, weight = variables.state_start, np.zeros(variables.state_start[-1])
    for a in np.flatnonzero(np.diff(graph.scope_start) == 1).tolist():
        i = int(graph.scope_of(a)[0])
        weight[start[i] : start[i + 1]] += graph.log_table(a)
    best = best_states(start, weight)
    place = {name: variables.position(name) for name in (variables.names if names is None else names)}
    return {name: variables[i].label(int(best[i])) for name, i in place.items()}


def value_of(
    model: Model | Template,
    assignment: Mapping[str, Any],
    *,
    evidence: Mapping[str, Any] | None = None,
    method: str | Algorithm | None = None,
) -> float:
    """Log of the total weight of all joint states that agree with an assignment and the evidence.

    With every variable assigned this is the log score; otherwise the remaining variables are
    summed out by `method` (None: chosen as in `credo.infer`). -inf if the weight is zero.
    """
    graph = graph_of(model)
    seen, fixed = Evidence.of(graph.variables, evidence), Evidence.of(graph.variables, assignment)
    both = np.flatnonzero(seen.flags & fixed.flags)
    if any(not np.array_equal(seen.value(i), fixed.value(i)) for i in both.tolist()):
        return float("-inf")
    return _value_of_rest(graph, seen, fixed, method)


def _value_of_rest(
    graph: FactorGraph,
    seen: Evidence,
    fixed: Evidence,
    method: str | Algorithm | None,
) -> float:
    """The value of an assignment that agrees with the evidence, what is not assigned summed out."""
    names = graph.variables.names
    assigned = {names[i]: fixed.value(i) for i in np.flatnonzero(fixed.flags).tolist()}
    if seen.likelihoods:
        graph = graph.condition({names[i]: vector for i, vector in seen.likelihoods})
    known = {names[i]: seen.value(i) for i in np.flatnonzero(seen.flags).tolist()}
    if len(known | assigned) == len(names):
        return float(graph.log_score(known | assigned))
    try:
        answer = infer(graph, method, evidence=known | assigned).log_z
    except ZeroProbabilityError:
        return float("-inf")
    if answer is None:
        raise UnsupportedError(f"{method} computes no log Z; use an exact method to value an assignment")
    return answer.value


def _gap(found: float, reference: float, *, signed: bool = False) -> float:
    """`reference - found`, 0 for two equal infinities."""
    gap = 0.0 if found == reference else reference - found
    return gap if signed else abs(gap)
