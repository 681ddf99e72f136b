r"""Belief propagation where two layers of two-state units are joined pair by pair: as matrices.

With weights W, fields b and c of the units alone, and messages as log-odds (`kernels/layer_messages`),

    L_ij = f(W_ij + c_ij) - f(c_ij),   c_ij = l_j - L_ji,   l_i = b_i + sum_j L_ij,   and so to the right

with f = log(1 + e^x) for sums, max(x, 0) for maxima, t f(x / t) where all temperatures are t. The left layer
is told first, then the right one, without damping; the residual is the largest change of a belief. Fixed
points are those of any other schedule. Single precision serves where `tol` is 1e-4 or more.

Where one layer is maximised and the other summed, a maximised unit sends what its best state says, so the
summed layer believes p(h | v) at the best v, and a sweep is coordinate ascent of all units at once on

    Q(v) = b'v + sum_j log(1 + exp( (v'W)_j + c_j ))

from v = 0. It may go back and forth between two states; the best v that was met is the answer.
Source: Ping and Ihler, Belief propagation in conditional RBMs for structured prediction (2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.errors import QueryError
from ...core.factor_graph import FactorGraph
from ...core.records import record
from ...core.result import Assignment, Estimate, FactorMarginals, Marginals, Result, Status
from ...core.wiring import starts_of
from ...kernels import layer_messages as kernel
from ...kernels.boltzmann import sigmoid, softplus_sums
from ...kernels.jit import threads
from ...structures.layers import Layers, dense_layers
from ..problem.base import Problem

__all__ = [
    "LayerForm",
    "LayerMessages",
    "advance_layers",
    "flush_of",
    "form_of",
    "read_layers",
    "start_layers",
    "widest_of",
]

_ROUGH = 1e-4  # tolerance from which single precision serves
_WIDEST = {
    np.float32: 80.0,
    np.float64: 600.0,
}  # log-odds whose exponentials are numbers
_STRONG = 30.0  # weights beyond which messages are not worked on as ratios
_PAYS = 256  # pairs of tables from which matrices pay
_MANY = 2**18  # pairs from which work is spread over cores
_AT_ONCE = 2**22  # numbers of one block of rows


@dataclass(frozen=True, eq=False)
class LayerForm:
    """Two layers and what is done to each of them, at temperature one."""

    layers: Layers
    kind: Literal["sum", "max", "left", "right"]  # the side that is maximised, or what is done to both
    heat: float  # the temperature of what is summed

    @cached_property
    def scaled(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights and fields over the temperature, the maximised layer on the left."""
        own, t = self.layers, self.heat
        parts = (own.weights, own.left_fields, own.right_fields)
        if self.kind == "right":
            parts = (own.weights.T, own.right_fields, own.left_fields)
        return parts if t == 1 else (parts[0] / t, parts[1] / t, parts[2] / t)

    def arrays(self, kind: Any) -> tuple[Any, ...]:
        """Weights as the kernel takes them and fields, in one precision."""
        if kind not in self._kept:
            weights, left, right = (np.ascontiguousarray(part, dtype=kind) for part in self.scaled)
            self._kept[kind] = (weights if self.kind == "max" else np.exp(weights), left, right)
        return self._kept[kind]

    @cached_property
    def _kept(self) -> dict[Any, tuple[Any, ...]]:
        return {}

    @cached_property
    def strongest(self) -> float:
        """The largest weight, over the temperature."""
        return float(np.abs(self.scaled[0]).max())


@record("layer messages", rebuilt=("form",))
class LayerMessages(NamedTuple):
    """Where belief propagation between two layers stands."""

    form: LayerForm
    q: np.ndarray  # messages to the right, as ratios or, of maxima, logarithms; none where one side is both
    beliefs: np.ndarray  # log-odds of the left units, then of the right ones
    best: np.ndarray  # where one layer is maximised: its best states so far, and their value


def widest_of(kind: Any) -> float:
    """Log-odds up to which products of odds and weights are numbers of a precision."""
    return _WIDEST[kind]


def flush_of(kind: Any, strongest: float) -> int:
    """How many ratios, between e^-w and e^w, may be multiplied before a logarithm is taken."""
    return int(np.clip(_WIDEST[kind] / max(strongest, 1e-3) / 2, 1, 64))


def form_of(problem: Problem) -> LayerForm | None:
    """The form of a problem about two layers that pays; None for another form."""
    graph = problem.graph
    if (graph.is_tables and len(graph.scope_start) <= _PAYS) or problem.task == "ordered":
        return None
    layers = dense_layers(graph)
    if layers is None or (graph.is_tables and layers.weights.size < _PAYS):
        return None
    left, right = problem.temperatures[layers.left], problem.temperatures[layers.right]
    if np.ptp(left) or np.ptp(right):
        return None
    a, b = float(left[0]), float(right[0])
    if a == b:
        form = LayerForm(layers, "sum" if a > 0 else "max", a or 1.0)
    elif a == 0 or b == 0:
        form = LayerForm(layers, "left" if a == 0 else "right", max(a, b))
    else:
        return None
    return form if form.kind != "sum" or form.strongest <= _STRONG else None


def start_layers(problem: Problem, form: LayerForm) -> LayerMessages:
    """The first messages, which say nothing, or those of an earlier run."""
    weights, left, right = form.scaled
    if problem.warm is not None:
        return _warmed(problem.warm, form)
    q = np.ones(weights.shape, np.float32) if form.kind in ("sum", "max") else np.empty((0, 0), np.float32)
    best = np.zeros(len(left) + 1)
    if form.kind == "max":
        q[:] = 0.0
    return LayerMessages(form, q, np.concatenate([left, right]), _rated(form, best[:-1]))


def _warmed(state: Any, form: LayerForm) -> LayerMessages:
    fits = isinstance(state, LayerMessages) and len(state.beliefs) == sum(form.layers.weights.shape)
    if not fits or state.form.kind != form.kind:
        raise QueryError(
            "warm_start: expected the result of bp about the same two layers with the same variables "
            "observed and maximised"
        )
    return state._replace(form=form, best=_rated(form, state.best[:-1]))


def _rated(form: LayerForm, states: np.ndarray) -> np.ndarray:
    """States of the maximised layer with their value at the end."""
    if form.kind not in ("left", "right"):
        return np.zeros(1)
    weights, left, right = form.scaled
    return np.append(states, left @ states + softplus_sums(right + states @ weights))


def advance_layers(state: LayerMessages, count: int, tol: float) -> tuple[LayerMessages, np.ndarray]:
    """At most so many sweeps, and the largest change of a belief in each."""
    form = state.form
    if form.kind in ("left", "right"):
        return _ascend(state, count, tol)
    kind = np.float32 if tol >= _ROUGH and form.kind == "sum" else np.float64
    weights, left, right = form.arrays(kind)
    q, beliefs = state.q.astype(kind), state.beliefs.astype(kind)
    work = 2.0 * weights.size
    if form.kind == "max":
        most = kernel.layer_maxima.portion(work, count)
        changes = kernel.layer_maxima.over(work * most)(weights, q, left, right, beliefs, most, tol)
    else:
        limits = (flush_of(kind, form.strongest), widest_of(kind) - form.strongest, kind(1.0))
        blocks = threads() if weights.size >= _MANY else 1
        sums = kernel.layer_sums if blocks == 1 else kernel.layer_sums_parallel
        most = sums.portion(work / blocks, count)
        extra = () if blocks == 1 else (blocks,)
        changes = sums.over(work * most / blocks)(
            weights, q, left, right, beliefs, *limits, most, tol, *extra
        )
    return state._replace(q=q, beliefs=beliefs), changes


def _ascend(state: LayerMessages, count: int, tol: float) -> tuple[LayerMessages, np.ndarray]:
    """Every maximised unit to its better state given all others, and the summed layer after it."""
    weights, left, right = state.form.scaled
    m, best, beliefs = len(left), state.best, state.beliefs
    changes = []
    step = max(1, _AT_ONCE // len(right))
    for _ in range(count):
        new = np.empty_like(beliefs)
        states = (beliefs[:m] > 0).astype(np.float64) if len(state.q) else np.zeros(m)
        inputs = beliefs[m:]
        for first in range(0, m, step):
            part = slice(first, min(first + step, m))
            on, rows = states[part, None], weights[part]
            gain = softplus_sums(inputs + rows * (1 - on)) - softplus_sums(inputs - rows * on)
            new[part] = left[part] + gain
        states = (new[:m] > 0).astype(np.float64)
        new[m:] = right + states @ weights
        rated = _rated(state.form, states)
        best = rated if rated[-1] > best[-1] else best
        changes.append(float(np.abs(sigmoid(new) - sigmoid(beliefs)).max()))
        beliefs = new
        # What was sent is what the beliefs say from the first sweep on; before it nothing was.
        state = state._replace(q=np.ones((1, 1), np.float32), beliefs=beliefs, best=best)
        if not changes[-1] >= tol:
            break
    return state, np.array(changes)


def read_layers(problem: Problem, state: LayerMessages, name: str, status: Status) -> Result:
    """Beliefs and the Bethe log Z, or decoded states and their value."""
    if state.form.kind == "sum":
        return _read_sum(problem, state, name, status)
    ones = _decoded(state)
    form, graph = state.form, problem.graph
    states = np.full(len(graph.variables), -1, dtype=np.int64)
    states[problem.temperatures == 0] = 0
    if form.kind == "max":
        states[form.layers.left], states[form.layers.right] = ones
        value = _score(form.layers, *ones)
    else:
        side = form.layers.left if form.kind == "left" else form.layers.right
        states[side] = ones[0]
        value = form.layers.constant + form.heat * float(state.best[-1])
    return Result(
        name,
        status,
        log_z=Estimate(value, "lower"),
        assignment=Assignment(graph.variables, states),
        score=Estimate(value, "exact"),
    )


def _score(layers: Layers, x: np.ndarray, y: np.ndarray) -> float:
    return float(layers.constant + x @ layers.left_fields + y @ layers.right_fields + x @ layers.weights @ y)


def _decoded(state: LayerMessages) -> tuple[np.ndarray, ...]:
    """States of what is maximised: of both layers the better of either one's and the answer to it."""
    if state.form.kind != "max":
        return (state.best[:-1].astype(np.int64),)
    own, m = state.form.layers, len(state.form.layers.left)
    left, right = (state.beliefs[:m] > 0).astype(float), (state.beliefs[m:] > 0).astype(float)
    pairs = (
        (left, (left @ own.weights + own.right_fields > 0).astype(float)),
        ((own.weights @ right + own.left_fields > 0).astype(float), right),
    )
    return tuple(side.astype(np.int64) for side in max(pairs, key=lambda pair: _score(own, *pair)))


def _read_sum(problem: Problem, state: LayerMessages, name: str, status: Status) -> Result:
    form, variables = state.form, problem.graph.variables
    weights = form.arrays(state.beliefs.dtype.type)[0]
    own = form.layers
    q = state.q.astype(state.beliefs.dtype)
    none = np.empty((0, 0), q.dtype)
    value = kernel.layer_read.over(float(q.size))(weights, q, state.beliefs, 1.0, none)
    p = np.ones(len(variables))
    p[np.concatenate([own.left, own.right])] = sigmoid(state.beliefs.astype(np.float64))
    flat = np.ones(int(variables.state_start[-1]))
    free = np.flatnonzero(variables.sizes == 2)
    first = starts_of(variables.sizes)[free]
    flat[first], flat[first + 1] = 1 - p[free], p[free]
    whole = problem.graph.as_tables()
    factors = None if whole is None else FactorMarginals(whole, partial(_pair_tables, state, whole, p))
    return Result(
        name,
        status,
        log_z=Estimate(own.constant + form.heat * float(value), "estimate"),
        marginals=Marginals(variables, flat),
        factor_marginals=factors,
    )


def _pair_tables(state: LayerMessages, graph: FactorGraph, p: np.ndarray) -> np.ndarray:
    """The beliefs of all tables, one after another."""
    both = np.zeros(state.q.shape, state.q.dtype)
    weights = state.form.arrays(state.q.dtype.type)[0]
    kernel.layer_read.over(float(both.size))(weights, state.q, state.beliefs, 1.0, both)
    own, place = state.form.layers, np.full(len(p), -1)
    place[own.left], place[own.right] = np.arange(len(own.left)), np.arange(len(own.right))
    is_left = np.zeros(len(p), dtype=bool)
    is_left[own.left] = True
    start = starts_of(graph.table_size)
    flat = np.ones(int(start[-1]))
    for group in graph.shape_groups:
        axes = [k for k, states in enumerate(group.shape) if states == 2]
        at = start[group.factors]
        ends = [group.scopes[:, k] for k in axes]
        if len(axes) == 1:
            flat[at], flat[at + 1] = 1 - p[ends[0]], p[ends[0]]
        if len(axes) == 2:
            swap = ~is_left[ends[0]]
            i, j = (np.where(swap, ends[1 - k], ends[k]) for k in range(2))
            pair = both[place[i], place[j]].astype(np.float64)
            ones = [p[end] - pair for end in ends]
            flat[at], flat[at + 3] = 1 + pair - p[ends[0]] - p[ends[1]], pair
            flat[at + 1], flat[at + 2] = ones[1], ones[0]
    return np.maximum(flat, 0.0)
