"""Random small problems for the mini-bucket methods, and their powered sums by enumeration."""

from __future__ import annotations

from functools import cache

import numpy as np

import credo
from credo.core.factor import TableFactor
from credo.core.variable import Variable
from credo.inference.problem.base import Problem
from random_models import joint

__all__ = ["HEATS", "powered", "problem", "random_graph", "temperatures"]

HEATS = ("sum", "max", "mixed", "fractional", "odd order")


@cache
def random_graph(seed: int) -> credo.FactorGraph:
    """A few variables, one-state and isolated ones among them; pairs, triples, constants; often zeros."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    variables = [Variable(f"x{i}", int(rng.integers(1, 4)) if i else 2) for i in range(n)]
    zeros = rng.choice([0.0, 0.15, 0.3])
    kept = [int(rng.integers(v.size)) for v in variables]
    factors = []
    for _ in range(int(rng.integers(n, 2 * n + 1))):
        scope = rng.permutation(n)[: int(rng.choice([0, 1, 2, 2, 2, 3]))]
        table = np.exp(1.5 * rng.standard_normal([variables[i].size for i in scope]))
        table = np.where(rng.random(table.shape) < zeros, 0.0, table)
        table[tuple(kept[i] for i in scope)] = 1.0  # one joint state stays possible
        factors.append(TableFactor([variables[i] for i in scope], table))
    graph = credo.FactorGraph(variables, factors)
    graph.seed = seed  # type: ignore[attr-defined]  # under which its joint table is kept
    return graph


def temperatures(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """One temperature per variable."""
    if kind == "sum":
        return np.ones(n)
    if kind == "max":
        return np.zeros(n)
    if kind == "mixed":
        return rng.integers(0, 2, n).astype(float)
    return rng.choice([0.0, 1e-4, 0.3, 1.0, 2.5], n)


def problem(graph: credo.FactorGraph, kind: str, seed: int) -> Problem:
    """Levels by falling temperature, or a random full order."""
    rng = np.random.default_rng(seed)
    heat = temperatures(kind, len(graph.variables), rng)
    levels = np.unique(-heat, return_inverse=True)[1]
    if kind == "odd order":
        levels = rng.permutation(len(heat))
    return Problem(graph, heat, levels.astype(np.int64))


@cache
def _joint(seed: int) -> np.ndarray:
    return joint(random_graph(seed))


def powered(asked: Problem) -> float:
    """The powered sum along the problem's levels, on the table of all joint states."""
    known = getattr(asked.graph, "seed", None)
    table = joint(asked.graph) if known is None else _joint(known)
    left = list(range(len(asked.temperatures)))
    for i in np.argsort(asked.levels, kind="stable"):
        axis, heat = left.index(i), asked.temperatures[i]
        top = table.max(axis=axis)
        if heat > 0:
            safe = np.where(top > -np.inf, top, 0.0)
            with np.errstate(divide="ignore"):
                top = safe + heat * np.log(np.exp((table - np.expand_dims(safe, axis)) / heat).sum(axis=axis))
        table = top
        left.pop(axis)
    return float(table)
