"""Random small models for MAP methods, as factor graphs; one joint state is always possible."""

from __future__ import annotations

import itertools

import numpy as np

import credo
from credo.core.factor import TableFactor
from credo.core.variable import Variable

__all__ = ["attractive", "grid", "metric", "random_model"]


def random_model(seed: int, arity: int = 2, zeros: float = 0.0, spread: float = 2.0) -> credo.FactorGraph:
    """Normal log tables over random scopes, some entries zero; scopes may repeat."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 7))
    variables = [Variable(f"x{i}", int(rng.integers(2, 4))) for i in range(n)]
    possible = [int(rng.integers(v.size)) for v in variables]
    factors = [TableFactor.from_log([v], rng.standard_normal(v.size)) for v in variables]
    for _ in range(int(rng.integers(n, 2 * n))):
        scope = rng.permutation(n)[:arity]
        table = spread * rng.standard_normal([variables[i].size for i in scope])
        table[rng.random(table.shape) < zeros] = -np.inf
        at = tuple(possible[i] for i in scope)
        table[at] = max(table[at], -1.0)
        factors.append(TableFactor.from_log([variables[i] for i in scope], table))
    return credo.FactorGraph(variables, factors)


def attractive(seed: int, zeros: float = 0.0, flipped: bool = False) -> credo.FactorGraph:
    """Binary pairs that prefer equal states (after exchanging the states of some variables, if `flipped`)."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    flip = (rng.random(n) < 0.5) & flipped
    variables = [Variable(f"x{i}", 2) for i in range(n)]
    possible = int(rng.integers(2))
    factors = []
    for v, swap in zip(variables, flip, strict=True):
        table = 2 * rng.standard_normal(2)
        if rng.random() < zeros:
            table[1 - possible] = -np.inf
        factors.append(TableFactor.from_log([v], table[::-1] if swap else table))
    for i, j in itertools.permutations(range(n), 2):
        if rng.random() < 0.35:
            table = rng.standard_normal((2, 2))
            if table[0, 0] + table[1, 1] < table[0, 1] + table[1, 0]:
                table = table[:, ::-1].copy()
            for at in ((0, 1), (1, 0)):
                if rng.random() < zeros:
                    table[at] = -np.inf
            table = table[::-1] if flip[i] else table
            table = table[:, ::-1] if flip[j] else table
            factors.append(TableFactor.from_log([variables[i], variables[j]], table))
    return credo.FactorGraph(variables, factors)


def metric(seed: int, states: int, zeros: float = 0.0) -> credo.FactorGraph:
    """Potts and truncated linear pairs; some single states are impossible."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    variables = [Variable(f"x{i}", states) for i in range(n)]
    factors = []
    for v in variables:
        table = 2 * rng.standard_normal(states)
        if rng.random() < zeros:
            table[rng.integers(1, states)] = -np.inf
        factors.append(TableFactor.from_log([v], table))
    apart = np.abs(np.subtract.outer(np.arange(states), np.arange(states)))
    for i, j in itertools.combinations(range(n), 2):
        if rng.random() < 0.7:
            table = 2 * np.eye(states) if rng.random() < 0.5 else -np.minimum(apart, 1.5)
            factors.append(TableFactor.from_log([variables[i], variables[j]], rng.random() * table))
    return credo.FactorGraph(variables, factors)


def grid(side: int, states: int, seed: int, *, potts: float | None = None) -> credo.FactorGraph:
    """A square grid with normal unary terms, and normal or Potts pairs."""
    rng = np.random.default_rng(seed)
    at = np.arange(side * side).reshape(side, side)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    pairs = np.concatenate([across, down])
    tables = rng.standard_normal((len(pairs), states, states)) if potts is None else potts * np.eye(states)
    single = rng.standard_normal((side * side, states))
    return credo.FactorGraph.from_arrays(
        np.full(side * side, states), (at.reshape(-1, 1), single), (pairs, tables), log=True
    )
