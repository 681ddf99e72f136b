r"""Chains from an easy distribution to a model: what is annealed, on tables and on two layers of units.

    theta_t(x) = (1 - t) base(x) + t theta(x),      0 <= t <= 1

base is a sum of functions of single variables. The weight of a chain that moves from temperature s to t at x
grows by theta_t(x) - theta_s(x); where one layer of units is summed by hand, by the difference of

    f_t(v) = b_t'v + sum_j softplus( c_tj + t (v'W)_j ),      b_t = (1 - t) b_0 + t b

Zeros of tables are large penalties on the way, and zeros again at its end.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.result import Marginals
from ...core.wiring import starts_of
from ...kernels.boltzmann import draw_units, sigmoid, softplus_sums
from ...kernels.conditionals import gibbs_sweeps
from ...structures.layers import Layers
from ..problem.base import Problem
from .weighing import row_scores_of

__all__ = ["LayerPath", "Path", "TablePath"]

_PENALTY = 20.0  # nats below the least entry of its table that a zero is on the way
_SMALL = 2**16  # weights up to which double precision costs next to nothing


class Path(Protocol):
    """What chains are annealed along; a row is the state of one chain."""

    log_z: float  # of the easy distribution

    def begin(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Rows of the easy distribution."""
        ...

    def gain(self, rows: np.ndarray, old: float, new: float) -> np.ndarray:
        """How the log weight of every row grows from one temperature to another."""
        ...

    def move(self, rows: np.ndarray, t: float, rng: np.random.Generator) -> np.ndarray:
        """Rows after a step that leaves the distribution at t as it is."""
        ...

    def marginals(self, rows: np.ndarray, weights: np.ndarray) -> Marginals:
        """Of all variables, given rows at the end and weights that sum to one."""
        ...


class TablePath:
    """Any graph of tables; a move draws every variable given the others.

    Parameters
    ----------
    problem
        With a graph of tables.
    is_uniform
        Whether the easy distribution is uniform, not the product of the tables of single variables.
    """

    def __init__(self, problem: Problem, *, is_uniform: bool) -> None:
        graph = problem.graph
        self.graph, variables = graph, graph.variables
        soft, start = graph.log_tables.copy(), graph.table_start
        zero = np.isneginf(soft)
        for a in np.unique(start, return_index=True)[1].tolist() if zero.any() else ():
            own = soft[start[a] : start[a] + graph.table_size[a]]
            bad = np.isneginf(own)
            if bad.all():
                raise problem.contradiction()
            own[bad] = own[~bad].min(initial=np.inf) - _PENALTY
        base = np.zeros(int(variables.state_start[-1]))
        if not is_uniform:
            for a in np.flatnonzero(np.diff(graph.scope_start) == 1).tolist():
                i = int(graph.scope_of(a)[0])
                base[variables.state_start[i] : variables.state_start[i + 1]] += soft[
                    start[a] : start[a] + graph.table_size[a]
                ]
        n, entries = len(variables), len(soft)
        self._soft, self._base, self._has_zeros = soft, base, bool(zero.any())
        self._whole = FactorGraph.from_flat(
            variables,
            np.concatenate([graph.scope_start, graph.scope_start[-1] + np.arange(1, n + 1)]),
            np.concatenate([graph.scope, np.arange(n)]),
            np.concatenate([soft, base]),
            table_start=np.concatenate([start, entries + variables.state_start[:-1]]),
        )
        self._gap = np.concatenate([soft, -base])
        top = np.maximum.reduceat(base, variables.state_start[:-1]) if n else base
        owner = np.repeat(np.arange(n), variables.sizes)
        self._weights = np.exp(base - top[owner])
        self._totals = np.bincount(owner, self._weights, minlength=n)
        self.log_z = float((top + np.log(self._totals)).sum())

    def begin(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Every variable by itself."""
        variables = self.graph.variables
        rows = np.zeros((count, len(variables)), dtype=np.int64)
        for i in np.flatnonzero(variables.sizes > 1).tolist():
            ends = np.cumsum(self._weights[variables.state_start[i] : variables.state_start[i + 1]])
            rows[:, i] = np.searchsorted(ends[:-1], rng.random(count) * ends[-1], side="right")
        return rows

    def gain(self, rows: np.ndarray, old: float, new: float) -> np.ndarray:
        """The difference of both log weights, with the zeros at the very end."""
        gained = (new - old) * row_scores_of(self._whole, rows, self._gap)
        if self._has_zeros and new == 1.0:
            gained[np.isneginf(row_scores_of(self.graph, rows))] = -np.inf
        return np.asarray(gained)

    def move(self, rows: np.ndarray, t: float, rng: np.random.Generator) -> np.ndarray:
        """One sweep of Gibbs sampling."""
        w, new = self._whole.wiring, rows.copy()
        tables = np.concatenate([t * self._soft, (1 - t) * self._base])
        if t == 1.0 and self._has_zeros:
            tables[: len(self._soft)] = self.graph.log_tables
        gibbs_sweeps(
            tables, w.table_start, w.scope_start, w.scope, w.edge_factor, w.edge_stride, w.state_start,
            w.neighbour_start, w.neighbour_edge, new, np.ones(rows.shape, dtype=bool),
            rng.random((1, *rows.shape)),
        )  # fmt: skip
        return new

    def marginals(self, rows: np.ndarray, weights: np.ndarray) -> Marginals:
        """Weighted frequencies."""
        variables = self.graph.variables
        at = (variables.state_start[:-1] + rows).ravel()
        own = np.broadcast_to(weights[:, None], rows.shape).ravel()
        flat = np.bincount(at, own, minlength=int(variables.state_start[-1]))
        owner = np.repeat(np.arange(len(variables)), variables.sizes)
        return Marginals(variables, flat / np.bincount(owner, flat)[owner])


class _Fields(NamedTuple):
    """Log-odds of units alone, in the easy distribution and in the model."""

    base: np.ndarray
    own: np.ndarray

    def at(self, t: float) -> Any:
        return (1 - t) * self.base + t * self.own


class LayerPath:
    """Two layers of units: rows are states of the left one, the right one is summed by hand.

    Parameters
    ----------
    graph, layers
        The model.
    is_uniform
        Whether the easy distribution is uniform, not that of the model without its weights.
    """

    def __init__(self, graph: FactorGraph, layers: Layers, *, is_uniform: bool) -> None:
        self.graph, self._layers = graph, layers
        self._last: tuple[Any, Any] = (None, None)
        self._kind = np.float64 if layers.weights.size <= _SMALL else np.float32
        self._weights = layers.weights.astype(self._kind)
        self._left, self._right = (
            _Fields(np.zeros_like(own) if is_uniform else own, own)
            for own in (layers.left_fields, layers.right_fields)
        )
        self.log_z = layers.constant + float(softplus_sums(self._left.base) + softplus_sums(self._right.base))

    def begin(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Every unit by itself."""
        return self._drawn(np.broadcast_to(sigmoid(self._left.base), (count, len(self._left.own))), rng)

    def _drawn(self, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return draw_units(p.astype(self._kind, copy=False), rng)

    def gain(self, rows: np.ndarray, old: float, new: float) -> np.ndarray:
        """The difference of both log weights of the left layer."""
        inputs = self._inputs(rows)
        own = rows @ (self._left.at(new) - self._left.at(old))
        high, low = (softplus_sums(self._right.at(t) + t * inputs) for t in (new, old))
        return np.asarray(own + high - low, dtype=np.float64)

    def move(self, rows: np.ndarray, t: float, rng: np.random.Generator) -> np.ndarray:
        """Both layers in turn, each at once."""
        right = self._drawn(self._given_left(rows, t), rng)
        return self._drawn(sigmoid((right @ self._weights.T) * t + self._left.at(t)), rng)

    def _given_left(self, rows: np.ndarray, t: float) -> np.ndarray:
        return sigmoid(t * self._inputs(rows) + self._right.at(t))

    def _inputs(self, rows: np.ndarray) -> np.ndarray:
        """What the right layer gets from rows; a gain and the move after it ask for the same."""
        if self._last[0] is not rows:
            self._last = (rows, rows @ self._weights)
        return np.asarray(self._last[1])

    def marginals(self, rows: np.ndarray, weights: np.ndarray) -> Marginals:
        """Weighted frequencies of the left layer, and probabilities of the right one given it."""
        variables, ones = self.graph.variables, np.zeros(len(self.graph.variables))
        ones[self._layers.left] = weights @ rows
        ones[self._layers.right] = weights @ self._given_left(rows, 1.0)
        flat = np.ones(int(variables.state_start[-1]))
        free = np.flatnonzero(variables.sizes == 2)
        first = starts_of(variables.sizes)[free]
        flat[first], flat[first + 1] = 1 - ones[free], ones[free]
        return Marginals(variables, flat)
