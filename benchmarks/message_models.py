"""The models of benchmarks/messages.py: factors of one shape, and a unary factor per variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Flat(NamedTuple):
    """Factors of one shape, and one unary factor per variable."""

    scope: np.ndarray  # (factors, arity)
    tables: np.ndarray  # logs, (factors, k, ..., k)
    unary: np.ndarray  # logs, (variables, k)

    def graph(self) -> Any:
        from credo import FactorGraph

        n, k = self.unary.shape
        unary = (np.arange(n)[:, None], self.unary)
        return FactorGraph.from_arrays(np.full(n, k), (self.scope, self.tables), unary, log=True)


def grid_pairs(n: int) -> np.ndarray:
    at = np.arange(n * n).reshape(n, n)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    return np.concatenate([across, np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)])


def grid(n: int, k: int) -> Flat:
    """A grid with a random table per factor."""
    rng, pairs = np.random.default_rng(0), grid_pairs(n)
    return Flat(pairs, rng.uniform(-1, 1, (len(pairs), k, k)), rng.uniform(-0.5, 0.5, (n * n, k)))


def ising(n: int, w: float, seed: int = 0) -> Flat:
    """A binary grid with couplings U(-w, w) and fields U(-1/2, 1/2)."""
    rng, pairs, spin = np.random.default_rng(seed), grid_pairs(n), np.array([-1.0, 1.0])
    tables = rng.uniform(-w, w, len(pairs))[:, None, None] * np.outer(spin, spin)
    return Flat(pairs, tables, rng.uniform(-0.5, 0.5, n * n)[:, None] * spin)


def normal(n: int, k: int, s: float, seed: int = 0) -> Flat:
    """A grid with log tables N(0, s^2) and unary ones N(0, 0.09)."""
    rng, pairs = np.random.default_rng(seed), grid_pairs(n)
    return Flat(pairs, rng.normal(0, s, (len(pairs), k, k)), rng.normal(0, 0.3, (n * n, k)))


def triples(m: int, k: int) -> Flat:
    """Random factors of three variables."""
    rng = np.random.default_rng(0)
    scope = np.sort(rng.integers(0, m, (2 * m, 3)), axis=1)
    scope = rng.permuted(scope[(np.diff(scope) > 0).all(axis=1)][:m], axis=1)
    return Flat(scope, rng.uniform(-1, 1, (m, k, k, k)), rng.uniform(-0.5, 0.5, (m, k)))


def parity(n: int) -> Flat:
    """Random checks of six bits, each bit in three of them; a noisy channel as unary factors."""
    rng = np.random.default_rng(0)
    scope = rng.permutation(np.repeat(np.arange(n), 3)).reshape(-1, 6)
    scope = scope[(np.diff(np.sort(scope, axis=1)) > 0).all(axis=1)]  # a few have a bit twice
    even = np.indices((2,) * 6).sum(axis=0) % 2 == 0
    table = np.where(even, 0.0, -np.inf)
    level = rng.normal(1.0, 1.0, n)  # log-likelihood ratios of a codeword of zeros
    return Flat(scope, np.broadcast_to(table, (len(scope), *table.shape)), np.stack([level, -level], axis=1))


KINDS: dict[str, Callable[..., Flat]] = {
    "grid": grid, "ising": ising, "normal": normal, "triples": triples, "parity": parity,
}  # fmt: skip


def build(name: str) -> Flat:
    """A model by name and arguments: `build("ising n=100 w=0.5")`."""
    kind, *arguments = name.split()
    given = (argument.split("=") for argument in arguments)
    return KINDS[kind](**{key: float(value) if key in "ws" else int(value) for key, value in given})
