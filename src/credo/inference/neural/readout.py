r"""From beliefs of the roots to an answer: projection, polish, and which of several starts is returned.

Projection. Beliefs found with a penalty disagree a little where regions overlap, and the free energy of
beliefs that disagree may lie far below the minimum over those that agree. The consistent beliefs that are
nearest,

    min_q  sum_{roots R} KL( q_R || b_R )     such that all roots agree on every region they share,

are found by cyclic projections: for one inner region after another, all roots above it are scaled so that
they have the (normalised) geometric mean of their marginals there. Each scaling solves the problem for one
constraint, so the cycle converges to the nearest point (Csiszar 1975). The beliefs of the other regions are
then common marginals, and -F of the result is the reported log Z.

Polish. `gbp` starts the descent on the region free energy from the projected beliefs; `bp` starts belief
propagation from messages whose product at each variable is the projected belief. The answer with the lower
free energy is returned, of the regions for `gbp`, of Bethe for `bp`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.result import Result, Status
from ...kernels.region_descent import descend
from ...kernels.regions import IMPOSSIBLE
from ..messages import engine
from ..messages.bp import BP
from ..messages.gbp import GBP
from ..messages.gbp_double_loop import DescentState
from ..messages.region_plan import RegionTables
from ..problem import free_energy
from ..problem.base import Budget, Problem
from .region_system import RegionSystem

__all__ = ["RegionAnswer", "logs_of", "polish_bp", "polish_gbp", "project"]

_FLOOR = 1e-30  # least belief in a possible state: single precision rounds to zero what is not impossible
_PASSES = 500  # of the projection
_AGREED = 1e-9  # disagreement at which beliefs count as consistent
_DAMPING = 0.5  # of belief propagation in a polish


@dataclass(frozen=True)
class RegionAnswer:
    """Consistent beliefs of all regions and their free energy."""

    logs: np.ndarray  # normalised log beliefs of all regions
    log_z: float  # minus the region free energy
    left: float  # largest disagreement after the projection


def logs_of(system: RegionSystem, roots: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Log beliefs of all regions from those of the roots; uniform where a root has none."""
    b = np.where(possible & np.isfinite(roots), np.maximum(roots, _FLOOR), 0.0) * possible
    count = int(system.root_of[-1]) + 1
    lost = np.bincount(system.root_of, b, minlength=count) < 0.5
    b = np.where(lost[system.root_of], possible.astype(float), b)
    b /= np.bincount(system.root_of, b, minlength=count)[system.root_of]
    with np.errstate(divide="ignore"):
        logs: np.ndarray = np.log(system.beliefs @ b)
    return logs


def project(tables: RegionTables, logs: np.ndarray) -> RegionAnswer:
    """The nearest consistent beliefs, see the module."""
    plan = tables.plan
    pairs, found = plan.pairs, np.empty_like(logs)
    alike, none = np.zeros_like(plan.counting), np.zeros(pairs.message_start[-1])
    left = descend(False, alike, logs, pairs, none, logs, found, _PASSES, _AGREED)
    if left[-1] == IMPOSSIBLE:
        raise tables.problem.contradiction()
    return RegionAnswer(found, tables.log_z(found), float(left[-1]) if len(pairs.inner) else 0.0)


def polish_gbp(
    tables: RegionTables, answer: RegionAnswer, gbp: GBP, budget: Budget, rng: np.random.Generator
) -> tuple[Result, float]:
    """Where the descent on the region free energy ends that starts from an answer, and how much lower."""
    if tables.plan.regions.is_forest:  # two sweeps of messages are exact, from anywhere
        found = gbp.run(replace(tables.problem, warm=None), budget, rng)
        assert found.log_z is not None
        return found, found.log_z.value - answer.log_z
    start = DescentState(np.zeros(tables.plan.pairs.message_start[-1]), answer.logs, ())
    found = gbp.run(replace(tables.problem, warm=start), budget, rng)
    better = project(tables, found.state.logs)  # beliefs of a run that was cut short may disagree
    return tables.result("gbp", better.logs, found.status), better.log_z - answer.log_z


def polish_bp(
    tables: RegionTables, answer: RegionAnswer, budget: Budget, rng: np.random.Generator
) -> tuple[Result, float]:
    """What belief propagation finds from an answer, and by how much its Bethe free energy is lower."""
    problem = tables.problem
    before = tables.result("bp", answer.logs, Status.CONVERGED)
    assert before.marginals is not None and before.factor_marginals is not None
    bp = BP(damping=_DAMPING)
    messages = _messages(problem, before.marginals.flat)
    state = engine.start(problem, engine.Weighted.plain(problem.graph, 1 - _DAMPING), rng, messages=messages)
    found = bp.run(replace(problem, warm=state), budget, rng)
    energy = free_energy.bethe(problem.graph, before.marginals.flat, before.factor_marginals.flat)
    assert found.log_z is not None
    return found, energy + found.log_z.value


def _messages(problem: Problem, marginals: np.ndarray) -> np.ndarray:
    """Log messages whose sum over the factors of a variable is its log belief."""
    w: Any = problem.graph.wiring
    degree = np.maximum(np.diff(w.neighbour_start), 1)[w.scope]
    start, sizes = w.state_start[w.scope], w.sizes[w.scope]
    entry = np.arange(int(sizes.sum())) + np.repeat(start - np.cumsum(sizes) + sizes, sizes)
    logs: np.ndarray = np.log(np.maximum(marginals[entry], _FLOOR)) / np.repeat(degree, sizes)
    return logs
