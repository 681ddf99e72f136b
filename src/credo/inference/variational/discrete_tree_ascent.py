"""Two ways to maximise the Bethe value of a mixture of discrete trees.

QuasiNewton  L-BFGS on log weights theta of the trees and logits of the mixture weights
MomentSteps  mu <- (1 - gamma) mu + gamma mu', gamma = 2 / (t + 2) from t = 1, where mu' is the joint state
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

from ...core.result import Status
from ...optimise.driver import Step
from ...optimise.frank_wolfe import FrankWolfe, FrankWolfeState
from ...optimise.lbfgs import Descent, Point, advance
from ...optimise.run import Run
from .discrete_trees import PairModel, Slopes, Tree, TreeMixture, TreeMoments

__all__ = ["MomentSteps", "QuasiNewton", "TreeClimb", "TreeStart", "objective", "starting_logs"]


@dataclass(frozen=True)
class TreeStart:
    """Where a climb begins."""

    nodes: list[np.ndarray]  # log weights of the states, per tree
    edges: list[np.ndarray]  # log weights of the tables, per tree; -inf is kept
    logits: np.ndarray  # of the mixture weights


@dataclass(frozen=True)
class TreeClimb:
    """Where a climb leads."""

    mixture: TreeMixture  # where the climb stands
    value: float  # minus the Bethe free energy
    ceiling: float | None = None  # the least value + gap of Frank-Wolfe


class Vertices(NamedTuple):
    """Where Frank-Wolfe stands."""

    at: FrankWolfeState  # a mixture, and minus its value
    learn_weights: bool  # whether the weights of the components change


def starting_logs(
    model: PairModel, trees: list[Tree], how: str, spread: float, rng: np.random.Generator
) -> TreeStart:
    """Log weights: those of the model on each tree, or none, plus normal noise; zeros stay zeros."""
    nodes, edges = [], []
    for _ in trees:
        own = model.node_logs if how == "potentials" else np.zeros(len(model.node_logs))
        noisy = own + spread * rng.standard_normal(len(own))
        nodes.append(np.where(model.possible, noisy, -np.inf))
        tables = model.edge_logs if how == "potentials" else np.zeros(len(model.edge_logs))
        noisy = tables + spread * rng.standard_normal(len(tables))
        edges.append(np.where(np.isneginf(model.edge_logs), -np.inf, noisy))
    return TreeStart(nodes, edges, np.zeros(len(trees)))


def _softmax(logits: np.ndarray) -> np.ndarray:
    weight = np.exp(logits - logits.max())
    return weight / weight.sum()


def objective(
    model: PairModel, trees: list[Tree], start: TreeStart
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


def _by_weight(parts: Sequence[TreeMoments], slopes: Slopes) -> np.ndarray:
    return np.array([p.nodes @ slopes.nodes + p.edges @ slopes.edges for p in parts])


class _Vector:
    """Between the free log weights of all trees and one vector."""

    def __init__(self, trees: list[Tree], start: TreeStart, learn_weights: bool) -> None:
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

    def read(self, vector: np.ndarray) -> TreeStart:
        """The log weights and logits."""
        done, found = 0, []
        for given, at in zip([*self.start.nodes, *self.start.edges], [*self.nodes, *self.edges], strict=True):
            full = given.copy()
            full[at] = vector[done : done + len(at)]
            done += len(at)
            found.append(full)
        count = len(self.nodes)
        logits = vector[done:] if self.learn_weights else self.start.logits
        return TreeStart(found[:count], found[count:], logits)


class Logs(NamedTuple):
    """Where quasi-Newton ascent stands."""

    trees: list[Tree]  # one per component
    vector: _Vector  # how logarithms lie in one vector
    x: np.ndarray  # free log weights, and logits if they are learnt
    descent: Descent | None = None  # of minus the value; None before the first step

    def cost(self, model: PairModel, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the value, and its derivatives."""
        value, by_tree, by_logit, _ = objective(model, self.trees, self.vector.read(x))
        return -value, -self.vector.pack([s.nodes for s in by_tree], [s.edges for s in by_tree], by_logit)


class QuasiNewton:
    """Ascent on log weights and mixture weights, as the driver sees it."""

    def begin(self, model: PairModel, trees: list[Tree], start: TreeStart, learn_weights: bool) -> Logs:
        """The first state."""
        vector = _Vector(trees, start, learn_weights)
        return Logs(trees, vector, vector.pack(start.nodes, start.edges, start.logits))

    def advance(self, model: PairModel, state: Logs, run: Run) -> Step:
        """One line search; where none leads up any more, the last slope counts by what it could gain."""

        def function(x: np.ndarray) -> tuple[float, np.ndarray]:
            return state.cost(model, x)

        step = advance(function, state.descent or Descent(Point.at(function, state.x)))
        here = step.state.here
        new = state._replace(x=here.w, descent=step.state)
        value = [-here.value]
        trace = {"value": value, "log_z": value, "change": [here.steepness]}
        if step.status is None:
            return Step(new, step.residuals, trace)
        return Step(new, [here.left], trace, None if here.left < run.budget.tol else Status.STALLED)

    def found(self, model: PairModel, state: Logs) -> TreeClimb:
        """What a state holds."""
        value, _, _, mixture = objective(model, state.trees, state.vector.read(state.x))
        return TreeClimb(mixture, value)


class _Moments:
    """Minus the value as a function of the moments of all trees together, for Frank-Wolfe."""

    blocks = 1

    def __init__(self, model: PairModel, learn_weights: bool) -> None:
        self._model, self._learns = model, learn_weights

    def value(self, x: TreeMixture) -> float:
        return -self._model.value(x.beliefs())

    def best(self, x: TreeMixture, block: int) -> tuple[tuple[list[TreeMoments], np.ndarray], float]:
        """The vertices that the slopes like best, with the slopes by the mixture weights; and the gap."""
        slopes = self._model.slopes(x.beliefs())
        own = [tree.tree_slopes(p, slopes) for tree, p in zip(x.trees, x.parts, strict=True)]
        found = [_linear(tree, p, s) for tree, p, s in zip(x.trees, x.parts, own, strict=True)]
        gap = float(x.weights @ np.array([gap for _, gap in found]))
        return ([vertex for vertex, _ in found], _by_weight(x.parts, slopes)), gap

    def moved(
        self, x: TreeMixture, block: int, vertex: tuple[list[TreeMoments], np.ndarray], length: float
    ) -> TreeMixture:
        """All trees towards their vertices; the weights by a multiplicative step of the same size."""
        vertices, by_weight = vertex
        parts = tuple(
            tree.completed(_mix(p, v, length)) for tree, p, v in zip(x.trees, x.parts, vertices, strict=True)
        )
        weights = x.weights
        if self._learns:
            weights = _softmax(np.log(weights) + length * (by_weight - by_weight.max()))
        return TreeMixture(weights, x.trees, parts)


class MomentSteps:
    """Frank-Wolfe on the moments of the trees, as the driver sees it."""

    _steps = FrankWolfe(steps="open", delay=1)

    def begin(self, model: PairModel, trees: list[Tree], start: TreeStart, learn_weights: bool) -> Vertices:
        """The first state."""
        parts = [t.moments(n, e) for t, n, e in zip(trees, start.nodes, start.edges, strict=True)]
        mixture = TreeMixture(_softmax(start.logits), tuple(trees), tuple(parts))
        return Vertices(FrankWolfeState(mixture, -model.value(mixture.beliefs())), learn_weights)

    def advance(self, model: PairModel, state: Vertices, run: Run) -> Step:
        """One step towards the vertices that the slopes like best."""
        step = self._steps.advance(_Moments(model, state.learn_weights), state.at, run)
        value = [-step.state.value]
        trace = {"value": value, "log_z": value, "change": step.residuals}
        return step._replace(state=state._replace(at=step.state), trace=trace)

    def found(self, model: PairModel, state: Vertices) -> TreeClimb:
        """What a state holds."""
        return TreeClimb(
            state.at.x, -state.at.value, -state.at.bound if np.isfinite(state.at.bound) else None
        )


def _linear(tree: Tree, p: TreeMoments, own: Slopes) -> tuple[TreeMoments, float]:
    """The vertex that the slopes like best, and how much better it is than where the tree stands."""
    nodes = np.where(p.nodes > 0, own.nodes, -np.inf)
    edges = np.where(p.edges > 0, own.edges, -np.inf)
    vertex = tree.vertex(tree.best(nodes, edges))
    gap = (vertex.nodes - p.nodes) @ own.nodes + (vertex.edges - p.edges) @ own.edges
    return vertex, float(gap)


def _mix(p: TreeMoments, vertex: TreeMoments, step: float) -> TreeMoments:
    return TreeMoments(
        (1 - step) * p.nodes + step * vertex.nodes,
        (1 - step) * p.edges + step * vertex.edges,
    )
