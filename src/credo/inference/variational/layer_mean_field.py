r"""Mean field between two layers of units: each layer at once, one problem or many with the same weights.

    p = sigma( b + W r ),   r = sigma( c + W'p ),   log Z >= b'p + c'r + p'W r + H(p) + H(r)

Units of a layer do not hear each other, so a layer at once is a coordinate step and the bound never falls.
With the correction of Thouless, Anderson and Palmer (TAP) every unit hears less of what it says itself,

    p = sigma( b + W r - (p - 1/2) (W^2 (r - r^2)) )                    (squares and products entry by entry)

which is nearer to the truth at small weights and bounds nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...core.result import FactorMarginals, Marginals, Result
from ...core.wiring import starts_of
from ...kernels.boltzmann import binary_entropy, sigmoid
from ...optimise.driver import Outcome
from ...structures.layers import Layers
from ..problem.base import Problem
from .descent import Descents, starting_beliefs
from .mean_field import MeanFieldState, product_tables

__all__ = ["LayerMeans", "LayerProducts", "layer_means"]


class LayerMeans(NamedTuple):
    """Probabilities of units of many problems, one row each."""

    left: np.ndarray  # (problems, m)
    right: np.ndarray  # (problems, n)
    change: np.ndarray  # (problems,) the last change of a belief
    sweeps: np.ndarray  # (problems,) until it was small


def layer_means(
    weights: np.ndarray, left: np.ndarray, right: np.ndarray, sweeps: int, tol: float, *, tap: bool = False
) -> LayerMeans:
    """Mean field, or TAP, of problems with fields left (problems, m) and right (problems, n).

    The left layer begins with its fields alone.
    """
    squares = weights**2 if tap else weights
    p, r = sigmoid(left), sigmoid(right)
    change, done = np.full(len(p), np.inf), np.zeros(len(p), dtype=np.int64)
    open_ = np.arange(len(p))
    for turn in range(sweeps):
        old, other = p[open_], r[open_]
        new = left[open_] + other @ weights.T
        if tap:
            new -= (old - 0.5) * ((other - other**2) @ squares.T)
        new = sigmoid(new)
        back = right[open_] + new @ weights
        if tap:
            back -= (other - 0.5) * ((new - new**2) @ squares)
        back = sigmoid(back)
        gap = np.maximum(np.abs(new - old).max(axis=1), np.abs(back - other).max(axis=1, initial=0.0))
        p[open_], r[open_], change[open_], done[open_] = new, back, gap, turn + 1
        open_ = open_[gap >= tol]
        if not len(open_):
            break
    return LayerMeans(p, r, change, done)


class LayerProducts(Descents[MeanFieldState]):
    """Descents over two layers of units, each layer at once."""

    def __init__(self, name: str, restarts: int, rng: np.random.Generator, layers: Layers) -> None:
        super().__init__(name, restarts, rng)
        self._layers = layers

    def begin(self, problem: Problem, number: int, rng: np.random.Generator) -> MeanFieldState:
        """Nearly uniform beliefs, those of a warm start, or random ones."""
        return self._state(problem, *self._split(problem, starting_beliefs(problem, number, rng, self.name)))

    def _split(self, problem: Problem, beliefs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = starts_of(problem.graph.variables.sizes)
        return beliefs[first[self._layers.left] + 1], beliefs[first[self._layers.right] + 1]

    def _state(self, problem: Problem, p: np.ndarray, r: np.ndarray) -> MeanFieldState:
        own, variables = self._layers, problem.graph.variables
        flat, first = np.ones(int(variables.state_start[-1])), starts_of(variables.sizes)
        for place, ones in ((own.left, p), (own.right, r)):
            flat[first[place]], flat[first[place] + 1] = 1 - ones, ones
        energy = own.constant + own.left_fields @ p + own.right_fields @ r + p @ own.weights @ r
        return MeanFieldState(flat, -float(energy + binary_entropy(p).sum() + binary_entropy(r).sum()))

    def sweep(
        self, problem: Problem, state: MeanFieldState, rng: np.random.Generator
    ) -> tuple[MeanFieldState, float]:
        """The left layer given the right one, then the right one given that."""
        own = self._layers
        p, r = self._split(problem, state.marginals)
        new = sigmoid(own.left_fields + own.weights @ r)
        back = sigmoid(own.right_fields + new @ own.weights)
        change = max(float(np.abs(new - p).max()), float(np.abs(back - r).max()))
        return self._state(problem, new, back), change

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        """Beliefs and the bound."""
        beliefs, whole = outcome.state.marginals, problem.graph.as_tables()
        pairs = None
        if whole is not None:
            pairs = FactorMarginals(whole, lambda: product_tables(whole, beliefs))
        return replace(
            self.bound(outcome),
            marginals=Marginals(problem.graph.variables, beliefs),
            factor_marginals=pairs,
        )
