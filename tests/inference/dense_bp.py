"""Belief propagation with dictionaries and whole NumPy tables: slow, plain, and the measure of the engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from credo.core.factor_graph import FactorGraph

__all__ = ["DenseBP", "bethe"]


class DenseBP:
    """Flooding sum-product; `messages[a, i]` are probabilities, uniform at first."""

    def __init__(self, graph: FactorGraph, *, weight: float = 1.0, domain: str = "log") -> None:
        self.scopes = [tuple(graph.scope_of(a).tolist()) for a in range(graph.n_factors)]
        self.tables = [np.exp(graph.log_table(a) - graph.log_table(a).max()) for a in range(graph.n_factors)]
        self.sizes = graph.variables.sizes.tolist()
        self.weight, self.domain = weight, domain  # of the new message
        self.messages = {
            (a, i): np.full(self.sizes[i], 1 / self.sizes[i])
            for a, scope in enumerate(self.scopes)
            for i in scope
        }

    def settle_unary(self) -> None:
        """Send what unary factors have to say, as the positive forms do from the start."""
        for a, scope in enumerate(self.scopes):
            if len(scope) == 1:
                self.messages[a, scope[0]] = self.tables[a] / self.tables[a].sum()

    def cavity(self, a: int, j: int) -> np.ndarray:
        """Product of the messages to variable j from all factors but a."""
        found = np.ones(self.sizes[j])
        for (b, i), message in self.messages.items():
            if i == j and b != a:
                found = found * message
        return found

    def product(self, a: int, without: int | None = None) -> np.ndarray:
        """The table of a times the cavities of its variables, all but one of them."""
        table = self.tables[a]
        for k, j in enumerate(self.scopes[a]):
            if j != without:
                shape = [1] * len(self.scopes[a])
                shape[k] = -1
                table = table * self.cavity(a, j).reshape(shape)
        return table

    def sent(self, a: int, i: int) -> np.ndarray:
        """The message from factor a to variable i, damped and normalised."""
        others = tuple(k for k, j in enumerate(self.scopes[a]) if j != i)
        new = self.product(a, i).sum(axis=others)
        old, new, w = self.messages[a, i], new / new.sum(), self.weight
        mixed = (1 - w) * old + w * new if self.domain == "linear" else old ** (1 - w) * new**w
        return mixed / mixed.sum()

    def flood(self) -> float:
        """One sweep, every message from the old ones; the largest change."""
        new = {(a, i): self.sent(a, i) for a, i in self.messages}
        change = max((float(abs(new[key] - self.messages[key]).max()) for key in new), default=0.0)
        self.messages = new
        return change

    def converge(self, tol: float = 1e-13) -> DenseBP:
        for _ in range(2000):
            if self.flood() < tol:
                return self
        raise AssertionError("the dense iteration did not converge")

    def flat_messages(self) -> np.ndarray:
        """All messages, in the order of the factors and of their scopes."""
        found = [self.messages[a, i] for a, scope in enumerate(self.scopes) for i in scope]
        return np.concatenate(found) if found else np.empty(0)

    def marginals(self) -> np.ndarray:
        beliefs = [self.cavity(-1, i) for i in range(len(self.sizes))]
        return np.concatenate([b / b.sum() for b in beliefs])

    def factor_marginals(self) -> np.ndarray:
        beliefs = [self.product(a) for a in range(len(self.scopes))]
        return np.concatenate([(b / b.sum()).ravel() for b in beliefs])


def _entropy(p: np.ndarray) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def bethe(graph: FactorGraph, marginals: Any, factor_marginals: Any) -> float:
    """sum_a <theta_a> + sum_a H(b_a) - sum_i (d_i - 1) H(b_i), term by term."""
    total = 0.0
    degree = dict.fromkeys(graph.variables.names, 0)
    for a in range(graph.n_factors):
        b, theta = factor_marginals[a], graph.log_table(a)
        total += float((b[b > 0] * theta[b > 0]).sum()) + _entropy(b)
        for i in graph.scope_of(a):
            degree[graph.variables.names[i]] += 1
    return total - sum((degree[name] - 1) * _entropy(p) for name, p in marginals.items())
