r"""Exact answers about chains and independent rows: smoothing, filtering, best paths, draws, forecasts.

    log Z = log sum_s start(s_1) prod_t transition(s_{t-1}, s_t) exp(sum_t scores[t, s_t])   per sequence

Where every step has log scores of its own these stand for the transition, and no table is counted.
Forward-backward works on scaled weights, O(rows states^2), and in logarithms where those would underflow.
Counts have the names of the tables: derivatives of the total log Z by the logarithms of their entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...core.errors import ZeroProbabilityError
from ...core.instance import Instance
from ...kernels.chains import best_paths, chain_sums, filter_chains, sample_chains
from ...kernels.scaled_chains import likelihoods, smooth_chains

__all__ = ["Answer", "best", "draw", "filtered", "log_z", "smooth"]


class Answer(NamedTuple):
    """What inference says about hidden rows."""

    log_z: np.ndarray  # (units,)
    marginals: np.ndarray  # (rows, states)
    counts: dict[str, np.ndarray]  # expected, under the names of the tables, over all units with weights


def smooth(instance: Instance, again: Callable[[slice], np.ndarray] | None = None) -> Answer:
    """Log Z, marginals given all rows of the sequence, and counts.

    Parameters
    ----------
    instance
        Independent rows or chains.
    again
        Gives the scores of some rows once more; with it those of the instance are overwritten, not copied.
    """
    if instance.structure == "independent":
        return _independent(instance)
    if instance.structure == "steps":
        log_z, marginals, _ = chain_sums(*_logs(instance), instance.scores, instance.begin, pairs="none")
        return Answer(log_z, marginals, {})
    tables = instance.tables
    found = smooth_chains(
        tables["start"], tables["transition"], instance.scores, instance.begin, again=again,
        weight=instance.weights,
    )  # fmt: skip
    if not np.isfinite(found.log_z).all():
        scores = instance.scores if again is None else again(slice(0, len(instance.scores)))
        refuse(instance, scores)
    firsts = found.marginals[instance.first_rows]
    if instance.weights is not None:
        firsts = firsts * instance.weights[instance.lengths > 0, None]
    return Answer(found.log_z, found.marginals, {"start": firsts.sum(axis=0), "transition": found.pairs})


def _independent(instance: Instance) -> Answer:
    with np.errstate(divide="ignore"):
        joint = instance.scores + np.log(instance.tables["weights"])
    top = joint.max(axis=1, keepdims=True)
    impossible = np.flatnonzero(~np.isfinite(top[:, 0]))
    if len(impossible):
        raise ZeroProbabilityError(_impossible(instance, int(impossible[0])))
    marginals = np.exp(joint - top)
    sums = marginals.sum(axis=1, keepdims=True)
    marginals /= sums
    counts = instance.weigh_rows(marginals).sum(axis=0)
    return Answer(_by_unit(instance, (top + np.log(sums))[:, 0]), marginals, {"weights": counts})


def _by_unit(instance: Instance, rows: np.ndarray) -> np.ndarray:
    """Numbers of the rows summed over every unit."""
    if instance.units == len(rows) and (instance.lengths == 1).all():
        return rows
    return np.array([rows[a:b].sum() for a, b in zip(instance.begin, instance.begin[1:], strict=False)])


def log_z(instance: Instance) -> np.ndarray:
    """Log Z of every sequence, -inf where it is impossible."""
    tables = instance.tables
    if instance.structure == "independent":
        with np.errstate(divide="ignore"):
            rows = np.logaddexp.reduce(instance.scores + np.log(tables["weights"]), axis=1)
        return _by_unit(instance, rows)
    if instance.structure == "steps":
        return chain_sums(*_logs(instance), instance.scores, instance.begin, marginals=False)[0]
    return likelihoods(tables["start"], tables["transition"], instance.scores, instance.begin)


def filtered(instance: Instance) -> np.ndarray:
    """Probabilities of every state given the rows of the sequence up to it, (rows, states)."""
    if instance.structure == "independent":
        return _independent(instance).marginals
    logs, scale = filter_chains(*_logs(instance), instance.scores, instance.begin)
    if not np.isfinite(scale).all():
        refuse(instance, instance.scores)
    return np.exp(logs)


def best(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """The most probable states (rows,) and the log weight of each sequence with them, by Viterbi."""
    if instance.structure == "independent":
        with np.errstate(divide="ignore"):
            joint = instance.scores + np.log(instance.tables["weights"])
        _independent(instance)  # refuses impossible rows
        return joint.argmax(axis=1), _by_unit(instance, joint.max(axis=1))
    path, value = best_paths(*_logs(instance), instance.scores, instance.begin)
    if not np.isfinite(value).all():
        refuse(instance, instance.scores)
    return path, value


def draw(instance: Instance, uniforms: np.ndarray) -> np.ndarray:
    """Joint samples of the hidden states given the data, from uniform numbers (samples, rows)."""
    if instance.structure == "independent":
        edges = np.cumsum(_independent(instance).marginals, axis=1)
        found = (uniforms[:, :, None] * edges[None, :, -1:] >= edges[None, :, :-1]).sum(axis=2)
        return found.astype(np.int64)
    if not np.isfinite(log_z(instance)).all():
        refuse(instance, instance.scores)
    return sample_chains(*_logs(instance), instance.scores, instance.begin, uniforms)


def _logs(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    if instance.pairs is not None:
        return np.zeros(instance.states), instance.pairs
    with np.errstate(divide="ignore"):
        return np.log(instance.tables["start"]), np.log(instance.tables["transition"])[None]


def refuse(instance: Instance, scores: np.ndarray) -> None:
    """Name the first row of a chain that no state can reach and emit."""
    opens, moves = instance.tables["start"] > 0, instance.tables["transition"] > 0
    for first, last in zip(instance.begin, instance.begin[1:], strict=False):
        open_states = opens
        for t in range(first, last):
            open_states = open_states & (scores[t] > -np.inf)
            if not open_states.any():
                raise ZeroProbabilityError(_impossible(instance, t))
            open_states = (open_states @ moves) > 0


def _impossible(instance: Instance, row: int) -> str:
    return (
        f"{instance.place(row)}: no state that can be reached here can emit this row; give the emissions or "
        "transitions positive probabilities there, or mask the step"
    )
