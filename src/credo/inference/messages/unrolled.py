r"""Belief propagation as a program of the tables, which JAX differentiates.

From uniform messages, a fixed number of flooding sweeps

    nu_{i->a} = h_i + sum_{b at i, b != a} m_{b->i},
    m_{a->i} <- d m_{a->i} + (1 - d) log sum_{x_a without x_i} exp( theta_a + sum_{j != i} nu_{j->a} )

and the Bethe value of where they lead, d being the damping and h the logarithms of evidence,

    log Z = sum_a log sum exp(theta_a + sum_j nu_{j->a}) + sum_i log sum exp(h_i + sum_a m_{a->i})
          - sum_{ai} log sum exp(m_{a->i} + nu_{i->a}).

Its derivative by theta_a, back through all sweeps, is that of the number itself: at a fixed point the
factor's belief, before one not. Zeros stand as exp(-10^6). Memory: sweeps x messages x rows at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...core.factor_graph import FactorGraph
from ...nn.arrays import LinearMap, pad_rows, precision
from ...nn.compiled import Compiled

__all__ = ["UnrolledBP"]

_NEVER = -1e6  # log weight of what is impossible
_ROWS = 64  # rows of evidence in one call


class _Wires(NamedTuple):
    """Index arrays of a graph. Messages stand group by group, axis by axis, factor by factor."""

    tables: tuple[Any, ...]  # per group of factors of one shape (count, *shape) entries of the log tables
    around: LinearMap  # adds up the messages to each state
    spread: LinearMap  # hands the numbers of states to the entries of messages
    rows: Any  # (variables, most states) flat states, and which of them are there
    mask: Any


class UnrolledBP:
    """Bethe values of graphs of one structure, and their derivatives by all log tables.

    Parameters
    ----------
    graph
        Its structure is what counts.
    sweeps
        Flooding sweeps, always that many.
    damping
        Weight of the old message, in logarithms.

    Examples
    --------
    On a tree, once the messages have been everywhere, the value is exact and the slopes are marginals:

    >>> import credo, numpy as np
    >>> from credo.inference.messages.unrolled import UnrolledBP
    >>> graph = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]], "a": [1, 1]})
    >>> values, slopes = UnrolledBP(graph, 3).differentiate(graph.log_tables, np.full((1, 2), -1), np.ones(1))
    >>> np.exp(values).round(3), slopes[:4].round(3)
    (array([10.]), array([0.1, 0.2, 0.3, 0.4]))
    """

    def __init__(self, graph: FactorGraph, sweeps: int, damping: float = 0.0) -> None:
        self.graph, self.sweeps, self.damping = graph, sweeps, damping
        with precision(double=True):
            key = ("unrolled belief propagation", graph.structure_key)
            self._wires = graph.memo.recall(key, lambda: _wire(graph))

    def differentiate(
        self, log_tables: np.ndarray, states: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log Z of each row of states, -1 where missing, and the slope of their weighted sum.

        Values of impossible rows are -inf.
        """
        values, slopes = np.empty(len(states)), np.zeros(len(log_tables))
        tables = np.maximum(log_tables, _NEVER)
        for first in range(0, len(states), _ROWS):
            part = slice(first, min(first + _ROWS, len(states)))
            size = min(_ROWS, 1 << (part.stop - first - 1).bit_length())  # few different programs
            clamp, weight = np.zeros((size, self._states)), np.zeros(size)
            clamp[: part.stop - first] = self._clamps(states[part])
            weight[: part.stop - first] = weights[part]
            with precision(double=True):
                found, slope = _PROGRAM(
                    tables, clamp, weight, self._wires, np.float64(self.damping), sweeps=self.sweeps
                )
            values[part] = np.asarray(found)[: part.stop - first]
            slopes += np.asarray(slope)
        return np.where(values < _NEVER / 2, -np.inf, values), np.where(log_tables > _NEVER, slopes, 0.0)

    @property
    def _states(self) -> int:
        return int(self.graph.wiring.state_start[-1])

    def _clamps(self, states: np.ndarray) -> np.ndarray:
        wiring = self.graph.wiring
        owner = np.repeat(np.arange(len(wiring.sizes)), wiring.sizes)
        own = np.arange(len(owner)) - wiring.state_start[owner]
        given = states[:, owner]
        return np.where((given < 0) | (given == own), 0.0, _NEVER)


def _wire(graph: FactorGraph) -> _Wires:
    wiring = graph.wiring
    tables, states = [], [np.empty(0, np.int64)]
    for group in graph.shape_groups:
        entries = group.table_start[:, None] + np.arange(int(np.prod(group.shape)))
        tables.append(entries.reshape(-1, *group.shape))
        for axis, count in enumerate(group.shape):
            states.append((wiring.state_start[group.scopes[:, axis]][:, None] + np.arange(count)).ravel())
    state = np.concatenate(states)
    entry, n = np.arange(len(state)), int(wiring.state_start[-1])
    ones = np.ones(len(state))
    return _Wires(
        tuple(tables),
        LinearMap.of(state, entry, ones, (n, len(state)), np.float64),
        LinearMap.of(entry, state, ones, (len(state), n), np.float64),
        *pad_rows(np.arange(n), wiring.state_start),
    )


def _log_z(tables: Any, clamp: Any, wires: _Wires, damping: Any, sweeps: int) -> jax.Array:
    """The Bethe value of one row."""
    logs = [tables[at] for at in wires.tables]
    size = sum(sum(log.shape[0] * k for k in log.shape[1:]) for log in logs)

    def towards(messages: Any) -> jax.Array:
        return wires.spread(clamp + wires.around(messages)) - messages

    def sweep(messages: Any, _: Any) -> tuple[Any, None]:
        pairs = zip(logs, _blocks(logs, towards(messages)), strict=True)
        new = jnp.concatenate([m.ravel() for log, nu in pairs for m in _outgoing(log, nu)])
        return damping * messages + (1 - damping) * new, None

    messages = jnp.zeros(size)
    if size:
        messages, _ = jax.lax.scan(sweep, messages, None, length=sweeps)
    nu = towards(messages)
    belief = jnp.where(wires.mask, (clamp + wires.around(messages))[wires.rows], -jnp.inf)
    value = jax.nn.logsumexp(belief, axis=1).sum()
    for log, own, both in zip(logs, _blocks(logs, nu), _blocks(logs, messages + nu), strict=True):
        joint = _join(log, own)
        value = value + jax.nn.logsumexp(joint, axis=tuple(range(1, joint.ndim))).sum()
        value = value - sum(jax.nn.logsumexp(edge, axis=1).sum() for edge in both)
    return value


def _blocks(logs: list[Any], flat: Any) -> list[list[Any]]:
    """The entries of messages by group and axis, (count, states) each."""
    found, at = [], 0
    for log in logs:
        own = []
        for states in log.shape[1:]:
            own.append(flat[at : at + len(log) * states].reshape(len(log), states))
            at += len(log) * states
        found.append(own)
    return found


def _join(log: Any, incoming: list[Any]) -> jax.Array:
    for axis, nu in enumerate(incoming):
        log = log + nu.reshape(len(nu), *[1] * axis, -1, *[1] * (len(incoming) - 1 - axis))
    return log


def _outgoing(log: Any, incoming: list[Any]) -> list[Any]:
    """Messages of a group of factors to each of their variables, normalised."""
    joint = _join(log, incoming)
    found = []
    for axis, nu in enumerate(incoming):
        others = tuple(1 + k for k in range(len(incoming)) if k != axis)
        message = jax.nn.logsumexp(joint, axis=others) - nu
        # Through the norm too: rounding in its direction would grow with every sweep on the way back.
        found.append(jnp.maximum(jax.nn.log_softmax(message, axis=1), _NEVER))
    return found


def _differentiate(
    tables: Any, clamps: Any, weights: jax.Array, wires: _Wires, damping: Any, sweeps: int
) -> tuple[Any, Any]:
    def weighted(tables: Any) -> tuple[Any, Any]:
        values = jax.vmap(lambda clamp: _log_z(tables, clamp, wires, damping, sweeps))(clamps)
        return jnp.where(weights != 0, weights * values, 0.0).sum(), values

    slope, values = jax.grad(weighted, has_aux=True)(tables)
    return values, slope


_PROGRAM = Compiled(_differentiate)
