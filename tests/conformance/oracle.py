"""Answers by brute force on the table of all joint states; nothing of the library is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from zoo import Case

__all__ = ["Oracle"]


class Oracle:
    """Every question about a case, answered from its log weights."""

    def __init__(self, case: Case, evidence: Mapping[str, Any] | None = None) -> None:
        self.case = case
        self.axis = {name: i for i, name in enumerate(case.names)}
        weights = case.log_weights.copy()
        for name, value in (evidence or {}).items():
            if isinstance(value, (list, tuple, np.ndarray)):
                with np.errstate(divide="ignore"):
                    along = np.log(np.asarray(value, dtype=float))
            else:
                along = np.full(case.sizes[self.axis[name]], -np.inf)
                along[value] = 0.0
            shape = [1] * weights.ndim
            shape[self.axis[name]] = -1
            weights = weights + along.reshape(shape)
        self.weights = weights

    @property
    def possible(self) -> bool:
        return bool(self.weights.max() > -np.inf)

    @property
    def log_z(self) -> float:
        return self.powered_sum({}, self.case.names)

    @property
    def probabilities(self) -> np.ndarray:
        return np.exp(self.weights - self.log_z)

    def joint(self, names: Sequence[str]) -> np.ndarray:
        """Marginal of some variables, axes in the order of `names`."""
        keep = [self.axis[n] for n in names]
        rest = tuple(k for k in range(self.weights.ndim) if k not in keep)
        table = self.probabilities.sum(axis=rest)
        in_order = sorted(keep)
        return table.transpose([in_order.index(k) for k in keep])

    def conditional(self, names: Sequence[str], given: Sequence[str]) -> np.ndarray:
        table = self.joint([*names, *given])
        norm = table.sum(axis=tuple(range(len(names))), keepdims=True)
        return np.where(norm > 0, table / np.where(norm > 0, norm, 1.0), 0.0)

    def best(self) -> float:
        return float(self.weights.max())

    def score(self, indices: Sequence[int]) -> float:
        """Log weight of a full joint state."""
        return float(self.weights[tuple(indices)])

    def marginal_map(self, maximise: Iterable[str]) -> float:
        heat = {n: 0.0 for n in maximise}
        return self.powered_sum(heat, sorted(self.case.names, key=lambda n: n in heat))

    def value_of(self, states: Mapping[str, int]) -> float:
        """Log of the total weight of all joint states that agree with `states`."""
        where = tuple(states.get(n, slice(None)) for n in self.case.names)
        return _log_sum(self.weights[where].ravel())

    def powered_sum(self, temperatures: Mapping[str, float], order: Sequence[str]) -> float:
        """Eliminate one variable after another, the first name first."""
        table, left = self.weights, list(self.case.names)
        for name in order:
            k = left.index(name)
            table = _powered(table, k, temperatures.get(name, 1.0))
            left.pop(k)
        return float(table)


def _log_sum(values: np.ndarray) -> float:
    return float(_powered(values, 0, 1.0))


def _powered(table: np.ndarray, axis: int, temperature: float) -> np.ndarray:
    """sum^t f = (sum f^(1/t))^t, and the maximum for t = 0."""
    top = table.max(axis=axis)
    if temperature == 0:
        return top
    safe = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        inner = np.exp((table - np.expand_dims(safe, axis)) / temperature).sum(axis=axis)
        return safe + temperature * np.log(inner)
