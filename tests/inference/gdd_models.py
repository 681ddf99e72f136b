"""Small random models and questions for generalised dual decomposition, and their answers by enumeration."""

from __future__ import annotations

import itertools

import numpy as np

import credo
from credo.core.factor_graph import FactorGraph


def joint_table(graph):
    sizes = graph.variables.sizes.tolist()
    weights = np.zeros(sizes)
    for x in itertools.product(*map(range, sizes)):
        weights[x] = sum(
            float(graph.log_table(a)[tuple(x[i] for i in graph.scope_of(a))]) for a in range(graph.n_factors)
        )
    return weights


def powered(table, heats, order):
    """Eliminate the axes one by one in the given order."""
    left = list(range(table.ndim))
    for i in order:
        k, w = left.index(i), heats[i]
        top = table.max(axis=k)
        if w > 0:
            safe = np.where(top > -np.inf, top, 0.0)
            with np.errstate(divide="ignore"):
                top = safe + w * np.log(np.exp((table - np.expand_dims(safe, k)) / w).sum(axis=k))
        table = top
        left.pop(k)
    return float(table)


def truth_of(problem):
    order = sorted(range(len(problem.levels)), key=lambda i: problem.levels[i])
    return powered(joint_table(problem.graph), problem.temperatures, order)


def random_graph(rng, zeros=0.0, n=None, widest=3):
    n = int(rng.integers(1, 7)) if n is None else n
    sizes = rng.integers(1, 4, n)
    variables = {f"x{i}": int(s) for i, s in enumerate(sizes)}
    factors = []
    for _ in range(int(rng.integers(0, 2 * n + 1))):
        scope = rng.permutation(n)[: int(rng.integers(0, min(widest, n) + 1))]
        table = np.exp(1.5 * rng.standard_normal([sizes[i] for i in scope]))
        table = np.where(rng.random(table.shape) < zeros, 0.0, table)
        factors.append(credo.TableFactor([credo.Variable(f"x{i}", int(sizes[i])) for i in scope], table))
    return FactorGraph([credo.Variable(k, s) for k, s in variables.items()], factors)


def random_question(rng, graph, task):
    names = graph.variables.names
    if task == "sum":
        return {}
    if task == "max":
        return {"maximise": "all"}
    if task == "mixed":
        return {"maximise": [n for n in names if rng.random() < 0.5]}
    heats = {n: float(rng.choice([0.0, 0.3, 0.7, 1.0, 2.5])) for n in names}
    if task == "fractional":
        return {"temperatures": heats}
    return {"temperatures": heats, "order": [names[i] for i in rng.permutation(len(names))]}


TASKS = ["sum", "max", "mixed", "fractional", "any order"]


def ring_and_grid(rng):
    grid = [(r * 3 + c, r * 3 + c + 1) for r in range(3) for c in range(2)]
    grid += [(r * 3 + c, r * 3 + c + 3) for r in range(2) for c in range(3)]
    return FactorGraph.from_arrays(
        np.full(9, 2),
        (np.array(grid), rng.standard_normal((len(grid), 2, 2))),
        (np.arange(9)[:, None], rng.standard_normal((9, 2))),
        log=True,
    )
