r"""Graph cuts: exact MAP of attractive binary pairwise models by one maximum flow.

A model is attractive if theta(0,0) + theta(1,1) >= theta(0,1) + theta(1,0) in every pair, perhaps after
the states of some variables are exchanged; such an exchange is found by two-colouring the signs. The
smallest cut is then the best joint state, and the flow along each pair is a pair of shifts (see
`dual-decomposition`) whose bound meets its score: that bound is evaluated, so optimality is proven
with the model's own numbers and not by trust in the flow. Zeros are infinite capacities. Variables
with more states take part if zeros leave two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.errors import ZeroProbabilityError
from ...core.result import Result, Status
from ...kernels import graph_cut as kernel
from ...kernels.max_flow import arcs_by_tail, max_flow
from ..bounds.decomposition import Decomposition, answer
from ..problem.base import Algorithm, Budget, Problem, register

__all__ = ["GraphCut"]

_ROUNDING = 1e-12  # relative coupling that counts as none


@register
@dataclass(frozen=True, kw_only=True)
class GraphCut(Algorithm):
    """The best state of an attractive binary pairwise model, by a smallest cut."""

    name: ClassVar[str] = "graph-cut"
    promises: ClassVar[frozenset[str]] = frozenset({"upper"})

    def why_not(self, problem: Problem) -> str | None:
        """Two states, pairs, and no cycle with an odd number of repulsive pairs; all maximised."""
        try:
            return _analyse(Decomposition.of(problem))[0]
        except ZeroProbabilityError:
            return None  # `run` says so

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """One maximum flow; the budget is not looked at."""
        work = Decomposition.of(problem)
        _, energy, flip = _analyse(work)
        t, n = work.terms, len(work.graph.variables)
        first, second = t.scope[::2].copy(), t.scope[1::2].copy()
        terminal = _node_energy(work, flip)
        room, linear = np.empty(len(t.scope)), np.empty((len(first), 2))
        kernel.set_pair(first, second, energy, room, terminal, linear)
        # Infinite room both ways would hide the flow; more than all terminals together is as good.
        tied = np.repeat(np.isinf(room[::2]) & np.isinf(room[1::2]), 2)
        room[tied] = 1.0 + np.abs(terminal).sum()
        before = room.copy()
        start, arcs = arcs_by_tail(n, first, second)
        side = max_flow(start, arcs, _heads(first, second), room, terminal)
        states = ((side == 2) != flip) & (t.sizes > 1)
        shifts = _shifts(work, linear, _flow(before, room), flip)
        # The flow proves the cut; where rounding keeps the two apart, nothing more can be done.
        return answer(
            self.name, problem, Status.STALLED, work.bound(shifts), work.original(states.astype(np.int64))
        )


def _heads(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack([second, first], axis=1).ravel()


def _node_energy(work: Decomposition, flip: np.ndarray) -> np.ndarray:
    """Energy of state 1 less that of state 0, after the exchange."""
    t = work.terms
    low = t.state_start[:-1]
    gain = np.where(t.sizes > 1, work.node[low] - work.node[low + (t.sizes > 1)], 0.0)
    return np.where(flip, -gain, gain)


def _analyse(work: Decomposition) -> tuple[str | None, np.ndarray, np.ndarray]:
    """Why not, the energies of all pairs after exchanging states, and which variables exchange them."""
    t, graph = work.terms, work.graph
    nothing = np.empty((0, 2, 2)), np.zeros(len(t.sizes), dtype=np.bool_)
    many = np.flatnonzero(t.sizes > 2)
    if len(many):
        i = int(many[0])
        name = graph.variables.names[i]
        return f"variable '{name}' has {t.sizes[i]} states, and cuts choose between two", *nothing
    wide = np.flatnonzero(np.diff(t.scope_start) > 2)
    if len(wide):
        return f"{_factor(work, int(wide[0]))} joins more than two variables", *nothing
    energy = -graph.log_tables[t.table_start[:, None] + np.arange(4)].reshape(-1, 2, 2)
    finite = np.where(np.isfinite(energy), np.abs(energy), 0.0)
    coupling = energy[:, 0, 1] + energy[:, 1, 0] - energy[:, 0, 0] - energy[:, 1, 1]
    coupling[np.abs(coupling) <= _ROUNDING * finite.max(axis=(1, 2), initial=0.0)] = 0.0
    first, second = t.scope[::2].copy(), t.scope[1::2].copy()
    start, arcs = arcs_by_tail(len(t.sizes), first, second)
    colour, fault = kernel.two_colours(start, arcs, _heads(first, second), coupling)
    if fault >= 0:
        reason = f"{_factor(work, int(fault))} closes a cycle with an odd number of repulsive factors"
        return reason, *nothing
    flip = colour == 1
    energy[flip[first]] = energy[flip[first]][:, ::-1]
    energy[flip[second]] = energy[flip[second]][:, :, ::-1]
    return None, np.ascontiguousarray(energy), flip


def _factor(work: Decomposition, a: int) -> str:
    names = [work.graph.variables.names[int(i)] for i in work.graph.scope_of(a)]
    return f"the factor over {names}"


def _flow(before: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Net flow from the first to the second end of each pair; infinite arcs show it on their reverse."""
    with np.errstate(invalid="ignore"):
        ahead, back = before[::2] - room[::2], room[1::2] - before[1::2]
    return np.where(np.isfinite(room[::2]), ahead, back)


def _shifts(work: Decomposition, linear: np.ndarray, flow: np.ndarray, flip: np.ndarray) -> np.ndarray:
    """The flow as shifts: each pair keeps its arc's energy, balanced by what flows through it."""
    t = work.terms
    slope = np.stack([linear[:, 0] - flow, linear[:, 1] + flow], axis=1).ravel()
    one = t.edge_state_start[:-1] + np.where(flip[t.scope], 0, 1)
    shifts = work.no_shifts()
    shifts[one] = -slope
    return shifts
