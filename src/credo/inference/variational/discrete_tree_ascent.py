"""Two ways to maximise the Bethe value of a mixture of discrete trees.

ascend       quasi-Newton ascent (L-BFGS) on log weights theta of the trees and logits of the mixture weights
frank_wolfe  mu <- (1 - gamma) mu + gamma mu', gamma = 2 / (t + 2) from t = 1, where mu' is the joint state
             that max-product finds under the slopes; the mixture weights take a multiplicative step of the
             same size

The gap sum_m lambda_m <slopes_m, mu'_m - mu_m> of Frank-Wolfe is zero at a stationary point; on a model
without cycles the value is concave, so that value + gap, both before a step, is an upper bound on log Z.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.progress import Progress
from ...core.result import Status
from ..base import Budget
from .discrete_trees import Moments, PairModel, Slopes, Tree, TreeMixture

__all__ = ["Climb", "Start", "ascend", "frank_wolfe", "objective", "starting_logs"]

_MEMORY = 10  # pairs kept by L-BFGS
_FLAT = 1e-4  # of tol: relative change of the value that ends L-BFGS


@dataclass(frozen=True)
class Start:
    """Where a climb begins."""

    nodes: list[np.ndarray]  # log weights of the states, per tree
    edges: list[np.ndarray]  # log weights of the tables, per tree; -inf is kept
    logits: np.ndarray  # of the mixture weights


@dataclass(frozen=True)
class Climb:
    """Where a climb ended."""

    mixture: TreeMixture  # the last one
    value: float  # minus the Bethe free energy
    status: Status  # why it ended
    values: np.ndarray  # after each step
    changes: np.ndarray  # largest slope (L-BFGS), or gap (Frank-Wolfe), after each step
    ceiling: float | None = None  # the least value + gap of Frank-Wolfe


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


def _by_weight(parts: list[Moments], slopes: Slopes) -> np.ndarray:
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


def ascend(
    model: PairModel,
    trees: list[Tree],
    start: Start,
    learn_weights: bool,
    budget: Budget,
    deadline: float,
    label: str,
) -> Climb:
    """Quasi-Newton ascent on log weights and mixture weights."""
    from scipy.optimize import minimize

    vector = _Vector(trees, start, learn_weights)
    here = vector.pack(start.nodes, start.edges, start.logits)
    values: list[float] = []
    slopes: list[float] = []
    last = [0.0, 0.0]

    def cost(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, by_tree, by_logit, _ = objective(model, trees, vector.read(x))
        slope = vector.pack([s.nodes for s in by_tree], [s.edges for s in by_tree], by_logit)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return np.inf, np.zeros(len(x))  # a step beyond what floats hold: the line search comes back
        last[:] = [value, np.abs(slope).max(initial=0.0)]
        return -value, -slope

    def watch(intermediate_result: Any) -> None:
        here[:] = intermediate_result.x
        values.append(last[0])
        slopes.append(last[1])
        bar.update(len(values), f"value {last[0]:.8g}")
        if time.perf_counter() > deadline:
            raise StopIteration

    options = {"maxiter": budget.max_iter, "gtol": budget.tol, "ftol": budget.tol * _FLAT, "maxcor": _MEMORY}
    status = Status.CONVERGED
    with Progress(label, budget.max_iter) as bar:
        try:
            found = minimize(cost, here.copy(), jac=True, method="L-BFGS-B", callback=watch, options=options)
            here[:] = found.x
            if time.perf_counter() > deadline:
                status = Status.OUT_OF_TIME
            elif found.status == 1:
                status = Status.OUT_OF_ITERATIONS
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
    value, _, _, mixture = objective(model, trees, vector.read(here))
    return Climb(mixture, value, status, np.array(values), np.array(slopes))


def frank_wolfe(
    model: PairModel,
    trees: list[Tree],
    start: Start,
    learn_weights: bool,
    budget: Budget,
    deadline: float,
    label: str,
) -> Climb:
    """Frank-Wolfe on the moments of the trees."""
    weights = _softmax(start.logits)
    parts = [t.moments(n, e) for t, n, e in zip(trees, start.nodes, start.edges, strict=True)]
    values: list[float] = []
    gaps: list[float] = []
    ceiling, before = np.inf, model.value(TreeMixture(weights, tuple(trees), tuple(parts)).beliefs())
    status = Status.OUT_OF_ITERATIONS
    with Progress(label, budget.max_iter) as bar:
        try:
            for t in range(1, budget.max_iter + 1):
                step = 2.0 / (t + 2.0)
                slopes = model.slopes(TreeMixture(weights, tuple(trees), tuple(parts)).beliefs())
                own = [tree.tree_slopes(p, slopes) for tree, p in zip(trees, parts, strict=True)]
                found = [_linear(tree, p, s) for tree, p, s in zip(trees, parts, own, strict=True)]
                gaps.append(float(weights @ np.array([gap for _, gap in found])))
                ceiling = min(ceiling, before + gaps[-1])
                by_weight = _by_weight(parts, slopes)
                parts = [
                    tree.completed(_mixed(p, vertex, step))
                    for tree, p, (vertex, _) in zip(trees, parts, found, strict=True)
                ]
                if learn_weights:
                    weights = _softmax(np.log(weights) + step * (by_weight - by_weight.max()))
                values.append(model.value(TreeMixture(weights, tuple(trees), tuple(parts)).beliefs()))
                before = values[-1]
                bar.update(t, f"value {before:.8g}, gap {gaps[-1]:.1e}")
                if gaps[-1] < budget.tol:
                    status = Status.CONVERGED
                    break
                if time.perf_counter() > deadline:
                    status = Status.OUT_OF_TIME
                    break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
    mixture = TreeMixture(weights, tuple(trees), tuple(parts))
    value = model.value(mixture.beliefs())
    return Climb(mixture, value, status, np.array(values), np.array(gaps), ceiling if gaps else None)


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
