"""Joint samples of Bayesian networks: ancestral sampling, each variable for all rows at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.samples import Samples
from .directed_arrays import DirectedArrays

__all__ = ["draw_samples"]


def draw_samples(model: DirectedArrays, count: int, rng: np.random.Generator) -> Samples:
    """So many rows, parents drawn before their children."""
    variables = model.variables
    # Stored by variable: each step writes one contiguous column.
    states = np.zeros((len(variables), count), dtype=np.int64).T
    values: dict[int, np.ndarray] = {}
    for i in model.order.tolist():
        if variables.sizes[i]:
            _draw_states(model, i, states, rng)
        else:
            mean, variance = _moments(model, i, states, values)
            values[i] = np.asarray(mean + np.sqrt(variance) * rng.standard_normal(count))
            states[:, i] = -1
    return Samples(variables, states, {variables.names[i]: values[i] for i in sorted(values)})


def _draw_states(model: DirectedArrays, i: int, states: np.ndarray, rng: np.random.Generator) -> None:
    table = model.table_at(i).reshape(-1, int(model.variables.sizes[i]))
    upto = np.cumsum(table, axis=1)
    # The last positive state ends at exactly 1 and draws lie below 1: a state of
    # probability zero is never drawn, whatever the rounding of the row.
    upto = (upto / upto[:, -1:]).T
    row, draw = model.rows_at(i, states), rng.random(len(states))
    for k in range(len(upto) - 1):
        states[:, i] += draw >= upto[k][row]


def _moments(
    model: DirectedArrays, i: int, states: np.ndarray, values: Mapping[int, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of a real node in each row, its parents drawn before."""
    reals, given = model.parents_at(i)
    at, regression = tuple(states[:, j] for j in given), model.regressions[model.variables.names[i]]
    x = np.stack([values[j] for j in reals], axis=1) if reals else np.empty((len(states), 0))
    return regression.means(at, x), np.broadcast_to(regression.variance[at], len(states))
