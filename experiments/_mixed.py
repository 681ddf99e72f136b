"""Tree-reweighted messages for marginal MAP on pairwise models, and the free energy they stand for.

With inc_i = theta_i + sum_k m_{k->i} and edge appearance rho, all messages at once, damped by one half:

    m_{i->j}(x_j) = op_{x_i} [ theta_ij + rho inc_i - m_{j->i} ],

where op is a powered sum of temperature rho from summed variables, a maximum between maximised ones, and
from a maximised to a summed one the powered sum over the maximisers of inc_i alone. The free energy
    <theta, b> + sum_{i summed} H(b_i) - sum_{edges with a summed end} rho I(b_ij)
is no bound before convergence, and convergence is not guaranteed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from credo.structures.spanning_trees import appearance

__all__ = ["mixed_reweighted"]


def mixed_reweighted(model: Any, maximise: Any, iterations: int, damping: float = 0.5) -> np.ndarray:
    """The free energy after each iteration; binary variables."""
    graph = model.to_factor_graph()
    best = np.isin(graph.variables.names, list(maximise))
    arity = np.diff(graph.scope_start)
    node = np.zeros((len(graph.variables), 2))
    for a in np.flatnonzero(arity == 1):
        node[graph.scope_of(a)[0]] += graph.log_table(a)
    pairs = np.flatnonzero(arity == 2)
    i, j = np.array([graph.scope_of(a) for a in pairs]).T
    table = np.array([graph.log_table(a) for a in pairs])
    rho = appearance(graph)[pairs]
    tail, head = np.concatenate([i, j]), np.concatenate([j, i])
    theta = np.concatenate([table, table.swapaxes(1, 2)])  # first axis: the sender
    share = np.concatenate([rho, rho])[:, None]
    back = np.roll(np.arange(2 * len(i)), len(i))
    messages, values = np.zeros((2 * len(i), 2)), []
    for _ in range(iterations):
        inc = node.copy()
        np.add.at(inc, head, messages)
        top = np.where(inc >= inc.max(axis=1, keepdims=True) - 1e-9, 0.0, -np.inf)
        out = theta + (share * inc[tail] - messages[back])[:, :, None]
        confined = out + np.where((best[tail] & ~best[head])[:, None], top[tail], 0.0)[:, :, None]
        new = np.where((best[tail] & best[head])[:, None], out.max(axis=1), _powered(confined, share))
        new -= new.max(axis=1, keepdims=True)
        messages = damping * messages + (1 - damping) * new
        values.append(_energy(node, table, i, j, rho, best, messages))
    return np.array(values)


def _powered(logs: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Powered sum over the middle axis."""
    peak = logs.max(axis=1, keepdims=True)
    return peak[:, 0] + share * np.log(np.exp((logs - peak) / share[:, :, None]).sum(axis=1))


def _energy(
    node: np.ndarray,
    table: np.ndarray,
    i: np.ndarray,
    j: np.ndarray,
    rho: np.ndarray,
    best: np.ndarray,
    messages: np.ndarray,
) -> float:
    to_j, to_i = messages[: len(i)], messages[len(i) :]
    inc = node.copy()
    np.add.at(inc, j, to_j)
    np.add.at(inc, i, to_i)
    chosen = np.eye(2)[inc.argmax(axis=1)]
    single = np.where(best[:, None], chosen, _softmax(inc))
    with np.errstate(divide="ignore"):
        fixed = np.where(best[:, None], np.log(chosen), 0.0)
    logs = (table - to_i[:, :, None] - to_j[:, None, :]) / rho[:, None, None]
    logs = logs + (inc + fixed)[i][:, :, None] + (inc + fixed)[j][:, None, :]
    joint = _softmax(logs.reshape(-1, 4)).reshape(-1, 2, 2)
    information = _entropy(single[i]) + _entropy(single[j]) - _entropy(joint.reshape(-1, 4))
    energy = (single * node).sum() + (joint * table).sum()
    summed = ~(best[i] & best[j])
    return float(energy + _entropy(single)[~best].sum() - (rho * information)[summed].sum())


def _softmax(logs: np.ndarray) -> np.ndarray:
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _entropy(p: np.ndarray) -> np.ndarray:
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1)
