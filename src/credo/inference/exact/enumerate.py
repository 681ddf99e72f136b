"""Enumeration of all joint states: the definition itself, and the oracle of the tests.

    theta(x) = sum_a theta_a(x_a),      p(x) = exp( theta(x) - log Z )

    Z_0 = theta,    Z_k = t_k log sum_{x_k} exp( Z_{k-1} / t_k ),    q_k = exp( (Z_{k-1} - Z_k) / t_k )

The derivative of a powered sum by theta(x) is q(x) = prod_k q_k(x_k | later), which is p(x) for sums; where
t_k = 0, q_k is the indicator of the first maximiser.

The joint log table is built by broadcasting, each table shifted to a maximum of zero, so that constants take
no digits from differences; powered sums eliminate one axis at a time in the order of the problem's levels.
Exact; time and memory grow with the product of all state counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import ClassVar

import numpy as np

from ...core import check
from ...core.factor import take_out_maximum
from ...core.factor_graph import FactorGraph
from ...core.result import (
    Assignment,
    Estimate,
    FactorMarginals,
    Joint,
    Marginals,
    Result,
    Samples,
    Status,
)
from ..problem.base import Algorithm, Budget, Problem, register

__all__ = ["Enumerate"]


@register
@dataclass(frozen=True, kw_only=True)
class Enumerate(Algorithm):
    """Sum or maximise over the whole joint table."""

    name: ClassVar[str] = "enumerate"
    promises: ClassVar[frozenset[str]] = frozenset({"exact"})
    slopes: ClassVar[bool] = True
    max_entries: int = 2**22  # refuse joint tables with more

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("max_entries", self.max_entries, 1)

    def why_not(self, problem: Problem) -> str | None:
        """Refuse joint tables larger than `max_entries`."""
        bits = float(np.log2(problem.graph.variables.sizes).sum())
        if bits > np.log2(self.max_entries) + 1e-9:
            return f"the joint table has 2^{bits:.1f} entries, more than max_entries={self.max_entries}"
        return None

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Build the joint table and read every answer off it."""
        graph = problem.graph
        free = np.flatnonzero(graph.variables.sizes > 1)
        joint, constant = _joint_log_table(graph, free)
        if joint.max() == -np.inf:
            raise problem.contradiction()
        value, p, assignment = _powered_sum(problem, joint, free)
        log_z = Estimate(value + constant, "exact")
        return Result(
            self.name,
            Status.EXACT,
            log_z=log_z,
            marginals=_marginals(graph, p, free) if problem.is_sum else None,
            factor_marginals=_factor_marginals(graph, p, free),
            assignment=assignment,
            score=None if assignment is None else log_z,
            joint=_joint(problem, p, free) if problem.query else None,
            samples=_samples(problem, p, free, rng) if problem.samples else None,
        )


def _joint_log_table(graph: FactorGraph, free: np.ndarray) -> tuple[np.ndarray, float]:
    """Sum of all log tables less their maxima, one axis per variable with more than one state; the maxima."""
    axis = {int(i): k for k, i in enumerate(free)}
    joint, tops = np.zeros(graph.variables.sizes[free]), []
    for a in range(graph.n_factors):
        mine = [int(i) for i in graph.scope_of(a) if int(i) in axis]
        table, top = take_out_maximum(graph.log_table(a).reshape([graph.variables.sizes[i] for i in mine]))
        tops.append(top)
        by_axis = sorted(range(len(mine)), key=lambda k: axis[mine[k]])
        shape = [1] * len(free)
        for i in mine:
            shape[axis[i]] = int(graph.variables.sizes[i])
        joint = joint + table.transpose(by_axis).reshape(shape)
    return joint, fsum(tops)


def _powered_sum(
    problem: Problem, joint: np.ndarray, free: np.ndarray
) -> tuple[float, np.ndarray, Assignment | None]:
    """Value, its derivative by the joint table, and the maximisers if sums come before maxima."""
    heat, order = problem.temperatures, free[np.argsort(problem.levels[free], kind="stable")]
    axis = {int(i): k for k, i in enumerate(free)}
    table, q = joint, np.ones(() if problem.is_sum else joint.shape)
    for i in order:
        reduced = _reduce(table, axis[int(i)], float(heat[i]))
        if not problem.is_sum:
            q *= _conditional(table, reduced, axis[int(i)], float(heat[i]))
        table = reduced
    value = float(table.item())
    if problem.is_sum:
        return value, np.exp(joint - value), None
    if not len(problem.maximised) or not problem.maximises_last:
        return value, q, None  # the best states then depend on variables summed later
    states = np.zeros(len(heat), dtype=np.int64)
    states[free] = np.unravel_index(int(q.argmax()), q.shape)  # q is zero at all other best states
    return value, q, Assignment(problem.graph.variables, np.where(heat == 0, states, -1))


def _reduce(table: np.ndarray, k: int, temperature: float) -> np.ndarray:
    """The powered sum over axis k, which is kept with one entry."""
    top = table.max(axis=k, keepdims=True)
    if temperature == 0:
        return top  # type: ignore[no-any-return]
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):  # at t -> 0 the quotient may become -inf
        inner = np.exp((table - shift) / temperature).sum(axis=k, keepdims=True)
        return shift + temperature * np.log(inner)  # type: ignore[no-any-return]


def _conditional(table: np.ndarray, reduced: np.ndarray, k: int, temperature: float) -> np.ndarray:
    """The distribution of axis k given the later ones; zero where nothing is possible."""
    if temperature == 0:
        share = np.zeros_like(table)
        np.put_along_axis(share, table.argmax(axis=k, keepdims=True), 1.0, axis=k)
        return share
    fall = table - np.where(reduced > -np.inf, reduced, 0.0)
    with np.errstate(over="ignore"):
        share = np.exp(fall / temperature)
    total = share.sum(axis=k, keepdims=True)  # one, but for rounding that a small temperature magnifies
    return share / np.where(total > 0, total, 1.0)  # type: ignore[no-any-return]


def _marginals(graph: FactorGraph, p: np.ndarray, free: np.ndarray) -> Marginals:
    flat = np.ones(graph.variables.state_start[-1])
    start = graph.variables.state_start
    for k, i in enumerate(free):
        flat[start[i] : start[i + 1]] = p.sum(axis=tuple(j for j in range(p.ndim) if j != k))
    return Marginals(graph.variables, flat)


def _scope_table(graph: FactorGraph, p: np.ndarray, free: np.ndarray, scope: np.ndarray) -> np.ndarray:
    """Marginal of some variables, axes in the order of `scope`, one-state axes included."""
    axis = {int(i): k for k, i in enumerate(free)}
    mine = [axis[int(i)] for i in scope if int(i) in axis]
    table = p.sum(axis=tuple(k for k in range(p.ndim) if k not in mine))
    rank = np.argsort(np.argsort(mine))
    return table.transpose(rank).reshape(graph.variables.sizes[scope])


def _factor_marginals(graph: FactorGraph, p: np.ndarray, free: np.ndarray) -> FactorMarginals:
    tables = [_scope_table(graph, p, free, graph.scope_of(a)).ravel() for a in range(graph.n_factors)]
    return FactorMarginals(graph, np.concatenate(tables) if tables else np.empty(0))


def _joint(problem: Problem, p: np.ndarray, free: np.ndarray) -> Joint:
    asked = np.array(problem.query, dtype=np.int64)
    scope = tuple(problem.graph.variables[int(i)] for i in asked)
    return Joint(scope, _scope_table(problem.graph, p, free, asked))


def _samples(problem: Problem, p: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> Samples:
    variables = problem.graph.variables
    indices = np.zeros((problem.samples, len(variables)), dtype=np.int64)
    picked = rng.choice(p.size, size=problem.samples, p=p.ravel() / p.sum())
    indices[:, free] = np.stack(np.unravel_index(picked, p.shape), axis=1) if p.ndim else 0
    return Samples(variables, indices)
