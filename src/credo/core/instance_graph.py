"""The factor graph of hidden rows, for general methods: factors for every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .errors import UnsupportedError
from .factor_graph import FactorGraph
from .variable import Variables

if TYPE_CHECKING:
    from .instance import Instance

__all__ = ["graph_of"]


def graph_of(instance: Instance) -> FactorGraph:
    """One variable per row, or per chain and row; see `Instance.to_factor_graph`."""
    if instance.structure == "segments":
        raise UnsupportedError(
            "segments: a general method needs one variable per row, and durations are no table over "
            "neighbours; instantiate model.to_hmm() instead, or name no method"
        )
    if instance.structure == "factorial":
        return _several(instance)
    scores, rows = instance.scores.copy(), len(instance.scores)
    logs = _logs(instance)
    pairs, steps = np.empty(0, np.int64), np.empty(0)
    if instance.structure == "independent":
        scores += logs["weights"]
    elif instance.pairs is not None:
        pairs, steps = _scored(instance, instance.pairs)
    else:
        scores[instance.first_rows] += logs["start"]
        pairs = _neighbours(instance)
        steps = np.tile(logs["transition"].ravel(), len(pairs) // 2)
    sizes = np.concatenate([np.full(rows, 1), np.full(len(pairs) // 2, 2)])
    return FactorGraph.from_flat(
        _variables(instance),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([np.arange(rows), pairs]),
        np.concatenate([scores.ravel(), steps]),
    )


def _scored(instance: Instance, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of rows with log scores of their own."""
    if instance.edges is not None:
        return instance.edges.ravel(), scores.ravel()
    pairs = _neighbours(instance)
    return pairs, scores[pairs[1::2]].ravel()


def _variables(instance: Instance) -> Variables:
    names = _names(instance)
    if instance.domain is None:
        return Variables.of(dict.fromkeys(names, instance.states))
    return Variables(tuple(f"y{name[1:]}" for name in names), (instance.domain,) * len(names))


def _several(instance: Instance) -> FactorGraph:
    """A factor over all chains for every row, and the steps of every chain."""
    rows, chains = len(instance.scores), len(instance.shape)
    logs, pairs, first = _logs(instance), _neighbours(instance), instance.first_rows
    names = [f"s{m}_{name[1:]}" for m in range(chains) for name in _names(instance)]
    sizes = np.repeat(instance.shape, rows).tolist()
    scopes = [np.arange(rows)[:, None] + rows * np.arange(chains)]
    tables = [instance.scores.ravel()]
    for m in range(chains):
        scopes += [(first + m * rows)[:, None], pairs.reshape(-1, 2) + m * rows]
        tables.append(np.tile(logs[f"start{m}"], len(first)))
        tables.append(np.tile(logs[f"transition{m}"].ravel(), len(pairs) // 2))
    arity = np.concatenate([np.full(len(scope), scope.shape[1]) for scope in scopes])
    return FactorGraph.from_flat(
        Variables.of(dict(zip(names, sizes, strict=True))),
        np.concatenate([[0], np.cumsum(arity)]),
        np.concatenate([scope.ravel() for scope in scopes]),
        np.concatenate(tables),
    )


def _logs(instance: Instance) -> dict[str, np.ndarray]:
    with np.errstate(divide="ignore"):
        return {name: np.log(table) for name, table in instance.tables.items()}


def _neighbours(instance: Instance) -> np.ndarray:
    """Every row after the first of its sequence, and the one before, flat."""
    later = np.setdiff1d(np.arange(len(instance.scores)), instance.first_rows)
    return np.stack([later - 1, later], axis=1).ravel()


def _names(instance: Instance) -> list[str]:
    if len(instance.cuts) == 2:
        return [f"s{t}" for t in range(len(instance.scores))]
    return [f"s{unit}_{t}" for unit, size in enumerate(instance.lengths) for t in range(size)]
