"""Two ways to maximise the Bethe value of a mixture of discrete trees.

QuasiNewton  L-BFGS on log weights theta of the trees and logits of the mixture weights
FrankWolfe   mu <- (1 - gamma) mu + gamma mu', gamma = 2 / (t + 2) from t = 1, where mu' is the joint state
             that max-product finds under the slopes; the mixture weights take a multiplicative step of the
             same size

The gap sum_m lambda_m <slopes_m, mu'_m - mu_m> of Frank-Wolfe is zero at a stationary point; on a model
without cycles the value is concave, so that value + gap, both before a step, is an upper bound on log Z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...optimise.driver import Step
from ...optimise.quasi_newton import ascend
from ...optimise.run import Run
from .discrete_trees import Moments, PairModel, Slopes, Tree, TreeMixture

__all__ = ["Climb", "FrankWolfe", "QuasiNewton", "Start", "objective", "starting_logs"]


@dataclass(frozen=True)
class Start:
    """Where a climb begins."""

    nodes: list[np.ndarray]  # log weights of the states, per tree
    edges: list[np.ndarray]  # log weights of the tables, per tree; -inf is kept
    logits: np.ndarray  # of the mixture weights


@dataclass(frozen=True)
class Climb:
    """Where a climb leads."""

    mixture: TreeMixture  # where the climb stands
    value: float  # minus the Bethe free energy
    ceiling: float | None = None  # the least value + gap of Frank-Wolfe


class Vertices(NamedTuple):
    """Where Frank-Wolfe stands."""

    mixture: TreeMixture  # where the climb stands
    value: float  # minus the Bethe free energy
    learn_weights: bool  # whether the weights of the components change
    steps: int = 0  # done so far
    ceiling: float = np.inf  # the least value + gap


def starting_logs(
    model: PairModel, trees: list[Tree], how: str, spread: float, rng: np.random.Generator
) -> Start:
    """Log weights: those of the model on each tree, or none, plus normal noise; zeros stay zeros."""
    nodes, edges = [], []
    for _ in trees:
        own = model.node_logs if how == "potentials" else np.zeros(len(model.node_logs))
        noisy = own + spread * rng.standard_normal(len(own))
        nodes.append(np.where(model.possible, noisy, -np.inf))
        tables = model.edge_logs if how == "potentials" else np.zeros(len(model.edge_logs))
        noisy = tables + spread * rng.standard_normal(len(tables))
        edges.append(np.where(np.isneginf(model.edge_logs), -np.inf, noisy))
    return Start(nodes, edges, np.zeros(len(trees)))


def _softmax(logits: np.ndarray) -> np.ndarray:
    weight = np.exp(logits - logits.max())
    return weight / weight.sum()


def objective(
    model: PairModel, trees: list[Tree], start: Start
) -> tuple[float, list[Slopes], np.ndarray, TreeMixture]:
    """The value, its derivatives by the log weights of each tree and by the logits, and the mixture."""
    weights = _softmax(start.logits)
    parts = [t.moments(n, e) for t, n, e in zip(trees, start.nodes, start.edges, strict=True)]
    mixture = TreeMixture(weights, tuple(trees), tuple(parts))
    b = mixture.beliefs()
    slopes = model.slopes(b)
    own = [t.log_weight_slopes(p, t.tree_slopes(p, slopes)) for t, p in zip(trees, parts, strict=True)]
    by_tree = [Slopes(w * s.nodes, w * s.edges) for w, s in zip(weights, own, strict=True)]
    by_weight = _by_weight(parts, slopes)
    return model.value(b), by_tree, weights * (by_weight - weights @ by_weight), mixture


def _by_weight(parts: Sequence[Moments], slopes: Slopes) -> np.ndarray:
    return np.array([p.nodes @ slopes.nodes + p.edges @ slopes.edges for p in parts])


class _Vector:
    """Between the free log weights of all trees and one vector."""

    def __init__(self, trees: list[Tree], start: Start, learn_weights: bool) -> None:
        self.start, self.learn_weights = start, learn_weights
        self.nodes = [np.flatnonzero(np.isfinite(n)) for n in start.nodes]
        self.edges = [
            np.flatnonzero(np.isfinite(e) & t.inside) for e, t in zip(start.edges, trees, strict=True)
        ]

    def pack(self, nodes: list[np.ndarray], edges: list[np.ndarray], logits: np.ndarray) -> np.ndarray:
        """One vector."""
        parts = [n[at] for n, at in zip(nodes, self.nodes, strict=True)]
        parts += [e[at] for e, at in zip(edges, self.edges, strict=True)]
        return np.concatenate([*parts, logits if self.learn_weights else np.zeros(0)])

    def read(self, vector: np.ndarray) -> Start:
        """The log weights and logits."""
        done, found = 0, []
        for given, at in zip([*self.start.nodes, *self.start.edges], [*self.nodes, *self.edges], strict=True):
            full = given.copy()
            full[at] = vector[done : done + len(at)]
            done += len(at)
            found.append(full)
        count = len(self.nodes)
        logits = vector[done:] if self.learn_weights else self.start.logits
        return Start(found[:count], found[count:], logits)


@dataclass(frozen=True)
class Logs:
    """Where quasi-Newton ascent stands; `x` is moved in place."""

    trees: list[Tree]  # one per component
    vector: _Vector  # how logarithms lie in one vector
    x: np.ndarray  # free log weights, and logits if they are learnt

    def objective(self, model: PairModel, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and its derivatives."""
        value, by_tree, by_logit, _ = objective(model, self.trees, self.vector.read(x))
        return value, self.vector.pack([s.nodes for s in by_tree], [s.edges for s in by_tree], by_logit)


class QuasiNewton:
    """Ascent on log weights and mixture weights, as the driver sees it."""

    def begin(self, model: PairModel, trees: list[Tree], start: Start, learn_weights: bool) -> Logs:
        """The first state."""
        vector = _Vector(trees, start, learn_weights)
        return Logs(trees, vector, vector.pack(start.nodes, start.edges, start.logits))

    def advance(self, model: PairModel, state: Logs, run: Run) -> Step:
        """Steps until nothing is gained any more."""
        steps = ascend(lambda x: state.objective(model, x), state.x, run)
        residuals = steps.slopes
        if steps.is_flat or steps.is_stuck:  # nothing is left to gain, whatever the slope
            residuals = [*residuals[:-1], 0.0]
        return Step(state, residuals, {"value": steps.values, "change": steps.slopes})

    def found(self, model: PairModel, state: Logs) -> Climb:
        """What a state holds."""
        value, _, _, mixture = objective(model, state.trees, state.vector.read(state.x))
        return Climb(mixture, value)


class FrankWolfe:
    """Steps on the moments of the trees, as the driver sees them."""

    def begin(self, model: PairModel, trees: list[Tree], start: Start, learn_weights: bool) -> Vertices:
        """The first state."""
        parts = [t.moments(n, e) for t, n, e in zip(trees, start.nodes, start.edges, strict=True)]
        mixture = TreeMixture(_softmax(start.logits), tuple(trees), tuple(parts))
        return Vertices(mixture, model.value(mixture.beliefs()), learn_weights)

    def advance(self, model: PairModel, state: Vertices, run: Run) -> Step:
        """One step towards the vertices that the slopes like best."""
        at, step = state.mixture, 2.0 / (state.steps + 3.0)
        weights, trees, parts = at.weights, at.trees, at.parts
        slopes = model.slopes(at.beliefs())
        own = [tree.tree_slopes(p, slopes) for tree, p in zip(trees, parts, strict=True)]
        found = [_linear(tree, p, s) for tree, p, s in zip(trees, parts, own, strict=True)]
        gap = float(weights @ np.array([gap for _, gap in found]))
        by_weight = _by_weight(parts, slopes)
        parts = tuple(
            tree.completed(_mixed(p, vertex, step))
            for tree, p, (vertex, _) in zip(trees, parts, found, strict=True)
        )
        if state.learn_weights:
            weights = _softmax(np.log(weights) + step * (by_weight - by_weight.max()))
        mixture = TreeMixture(weights, trees, parts)
        value, ceiling = model.value(mixture.beliefs()), min(state.ceiling, state.value + gap)
        new = Vertices(mixture, value, state.learn_weights, state.steps + 1, ceiling)
        return Step(new, [gap], {"value": [value], "change": [gap]})

    def found(self, model: PairModel, state: Vertices) -> Climb:
        """What a state holds."""
        return Climb(state.mixture, state.value, state.ceiling if state.steps else None)


def _linear(tree: Tree, p: Moments, own: Slopes) -> tuple[Moments, float]:
    """The vertex that the slopes like best, and how much better it is than where the tree stands."""
    nodes = np.where(p.nodes > 0, own.nodes, -np.inf)
    edges = np.where(p.edges > 0, own.edges, -np.inf)
    vertex = tree.vertex(tree.best(nodes, edges))
    gap = (vertex.nodes - p.nodes) @ own.nodes + (vertex.edges - p.edges) @ own.edges
    return vertex, float(gap)


def _mixed(p: Moments, vertex: Moments, step: float) -> Moments:
    return Moments(
        (1 - step) * p.nodes + step * vertex.nodes,
        (1 - step) * p.edges + step * vertex.edges,
    )
