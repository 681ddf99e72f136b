r"""Mixtures of discrete trees as beliefs: moments, the Bethe free energy and its exact gradient.

Component m is a tree in exponential form, T_m(x) = exp( sum_i theta_i(x_i) + sum_{ij in E_m} theta_ij ) /
Z_m, and beliefs are the marginals of sum_m lambda_m T_m. The value to be maximised is minus the Bethe free
energy,

    F(b) = sum_i <b_i, log phi_i - (1 - N_i) log b_i> + sum_{ij in E} <b_ij, log psi_ij - log b_ij>,

over all edges E of the model: one that is in no tree needs the joint of two variables at a distance. With
G(x) = sum_i [log phi_i - (1 - N_i)(log b_i + 1)](x_i) + sum_ij [log psi_ij - (log b_ij + 1)](x_i, x_j),

    dF / d theta_ij^m(x_i, x_j) = lambda_m p_ij^m(x_i, x_j) { E_m[G | x_i, x_j] - E_m[G] },
    dF / d lambda_m             = E_m[G].

Frank-Wolfe works with the moments instead: its linear problem has the slopes by p_i^m, p_ij^m as
log-potentials of the tree, so it is a MAP problem, solved by max-product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.wiring import starts_of
from ...kernels import tree_moments as kernel
from ...structures.conversions import one_factor_per_edge, without_constants
from ...structures.spanning_trees import spanning_forest, uniform_forest
from ..problem.forest import ForestPasses
from .components import effective_number

__all__ = ["PairModel", "Slopes", "Tree", "TreeMixture", "TreeMoments", "hard_edges_close_a_cycle"]


class TreeMoments(NamedTuple):
    """Marginals of variables and of all edges of the model."""

    nodes: np.ndarray  # flat states
    edges: np.ndarray  # flat tables


class Slopes(NamedTuple):
    """Derivatives by moments, in their layout."""

    nodes: np.ndarray
    edges: np.ndarray


def _x_log_x(x: np.ndarray) -> np.ndarray:
    return x * np.log(x, where=x > 0, out=np.zeros(x.shape))


def _inner(weights: np.ndarray, values: np.ndarray) -> float:
    """Sum of the products where the weight is not zero; -inf if an impossible entry has weight."""
    return float(np.multiply(weights, values, where=weights > 0, out=np.zeros(weights.shape)).sum())


class PairModel:
    """A discrete model of variables with several states: log weights of states and of pairs."""

    def __init__(self, graph: FactorGraph) -> None:
        small = without_constants(graph)
        arity = np.diff(small.scope_start)
        self.original, self.variables = graph.variables, small.variables
        merged = one_factor_per_edge(small.select(np.flatnonzero(arity == 2)))
        self.ends = merged.scope.reshape(-1, 2)  # (edges, 2) lower position first
        self.first = starts_of(merged.table_size)
        self.edge_logs = merged.log_tables
        self.node_logs = np.zeros(self.variables.state_start[-1])
        for a in np.flatnonzero(arity == 1).tolist():
            self.node_logs[self._states(int(small.scope_of(a)[0]))] += small.log_table(a)
        self.constant = float(sum(float(small.log_table(a)) for a in np.flatnonzero(arity == 0).tolist()))
        self.degrees = np.bincount(self.ends.ravel(), minlength=len(self.variables))
        self.links = merged
        self.passes = ForestPasses(merged)

    def _states(self, i: int) -> slice:
        return slice(int(self.variables.state_start[i]), int(self.variables.state_start[i + 1]))

    @cached_property
    def possible(self) -> np.ndarray:
        """One flag per state: whether zeros leave it possible; exact if hard edges close no cycle."""
        n = len(self.variables)
        arity = np.repeat([2, 1], [len(self.ends), n])
        scope = np.concatenate([self.links.scope, np.arange(n)])
        tables = np.concatenate([self.edge_logs, self.node_logs])
        return ForestPasses(FactorGraph.from_flat(self.variables, starts_of(arity), scope, tables)).possible

    @property
    def is_impossible(self) -> bool:
        """Whether no joint state has weight; exact if hard edges close no cycle."""
        start = self.variables.state_start
        some = np.logical_or.reduceat(self.possible, start[:-1]) if len(start) > 1 else np.ones(0, dtype=bool)
        return bool(self.constant == -np.inf or not some.all())

    @cached_property
    def hard(self) -> np.ndarray:
        """Which edges have an impossible entry: every tree must contain them."""
        if not len(self.ends):
            return np.zeros(0, dtype=bool)
        return np.logical_or.reduceat(np.isneginf(self.edge_logs), self.first[:-1])

    @cached_property
    def is_forest(self) -> bool:
        """Whether the edges close no cycle."""
        return bool(spanning_forest(self.links).all())

    def strengths(self) -> np.ndarray:
        """How much each edge couples its ends: the spread of its log table beyond single states."""
        found = np.empty(len(self.ends))
        for a, (i, j) in enumerate(self.ends):
            table = self.edge_logs[self.first[a] : self.first[a + 1]]
            table = table.reshape(self.variables.sizes[i], self.variables.sizes[j])
            if self.hard[a]:
                found[a] = np.inf
                continue
            rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
            found[a] = np.sqrt((rest**2).mean())
        return found

    def value(self, b: TreeMoments) -> float:
        """Minus the Bethe free energy of beliefs."""
        counts = np.repeat(1.0 - self.degrees, self.variables.sizes)
        energy = _inner(b.nodes, self.node_logs) + _inner(b.edges, self.edge_logs) + self.constant
        return energy - float((counts * _x_log_x(b.nodes)).sum()) - float(_x_log_x(b.edges).sum())

    def slopes(self, b: TreeMoments) -> Slopes:
        """Derivatives of `value`; zero where beliefs are zero because the model makes them so."""
        counts = np.repeat(1.0 - self.degrees, self.variables.sizes)
        nodes, edges = b.nodes > 0, b.edges > 0
        log_nodes = np.log(b.nodes, where=nodes, out=np.zeros(len(nodes)))
        log_edges = np.log(b.edges, where=edges, out=np.zeros(len(edges)))
        return Slopes(
            np.where(nodes, self.node_logs, 0.0) - counts * (log_nodes + 1.0) * nodes,
            np.where(edges, self.edge_logs, 0.0) - (log_edges + 1.0) * edges,
        )

    def bound(self, parts: list[TreeMoments], trees: list[Tree], weights: np.ndarray) -> float:
        """A lower bound on log Z: the mean over components of expected log weight plus entropy."""
        total = 0.0
        for part, tree, weight in zip(parts, trees, weights, strict=True):
            energy = _inner(part.nodes, self.node_logs) + _inner(part.edges, self.edge_logs) + self.constant
            inside = np.repeat(tree.members, self.links.table_size)
            degrees = np.bincount(self.ends[tree.members].ravel(), minlength=len(self.variables))
            counts = np.repeat(1.0 - degrees, self.variables.sizes)
            entropy = -float((counts * _x_log_x(part.nodes)).sum()) - float(
                _x_log_x(part.edges)[inside].sum()
            )
            total += float(weight) * (energy + entropy)
        return total


def hard_edges_close_a_cycle(model: PairModel) -> bool:
    """Whether edges with impossible entries close a cycle, so that no tree contains them all."""
    return not spanning_forest(model.links, np.where(model.hard, 1.0, 0.0))[model.hard].all()


@dataclass(frozen=True, eq=False)
class Tree:
    """A spanning forest of the edges of a model, rooted."""

    model: PairModel  # whose edges these are
    members: np.ndarray  # (edges,) whether each edge is in the tree
    order: tuple[np.ndarray, np.ndarray]  # edges outwards from the roots, and how each is entered
    outward: np.ndarray  # variables in the order of these edges
    up: np.ndarray  # (variables,) the variable above, -1 for roots
    link: np.ndarray  # (variables,) the edge to it, -1 for roots
    depth: np.ndarray  # (variables,) edges to the root

    @classmethod
    def of(cls, model: PairModel, members: np.ndarray) -> Tree:
        """Root the forest of these edges."""
        order = model.passes.order(members)
        n = len(model.variables)
        up, link = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
        parent = model.links.scope[order[1]]
        child = model.ends[order[0]].sum(axis=1) - parent
        up[child], link[child] = parent, order[0]
        depth = np.zeros(n, dtype=np.int64)
        for i in child:
            depth[i] = depth[up[i]] + 1
        return cls(model, members, order, child, up, link, depth)

    @classmethod
    def several(cls, model: PairModel, count: int, how: str, rng: np.random.Generator) -> list[Tree]:
        """Trees for a mixture: `random`, `maximum` (the strongest edges) or `covering` (edges in turn)."""
        used = np.zeros(len(model.ends))
        found: list[Tree] = []
        for _ in range(count):
            if how == "maximum":
                members = spanning_forest(model.links, model.strengths())
            elif how == "random" and not model.hard.any():
                members = uniform_forest(model.links, rng)
            else:
                wish = rng.random(len(used)) - (used if how == "covering" else 0.0)
                members = spanning_forest(model.links, np.where(model.hard, np.inf, wish))
            used += members
            found.append(cls.of(model, members))
        return found

    @cached_property
    def far(self) -> np.ndarray:
        """The edges of the model that are not in the tree."""
        return np.flatnonzero(~self.members)

    @cached_property
    def inside(self) -> np.ndarray:
        """One flag per table entry: whether its edge is in the tree."""
        return np.repeat(self.members, self.model.links.table_size)

    def _layout(self) -> tuple[np.ndarray, ...]:
        variables = self.model.variables
        return self.model.ends[:, 0].copy(), variables.sizes, variables.state_start, self.model.first

    def moments(self, nodes: np.ndarray, edges: np.ndarray) -> TreeMoments:
        """Marginals of the tree with these log weights; edges outside the tree are ignored."""
        ones = np.ones(len(self.members))
        passed = self.model.passes.run(self.order, nodes, ones, tables=edges)
        return self.completed(TreeMoments(np.exp(passed.belief), np.exp(passed.joint)))

    def completed(self, p: TreeMoments) -> TreeMoments:
        """Moments of the tree with those of the edges outside it filled in."""
        low, sizes, start, first = self._layout()
        tables = p.edges.copy()
        kernel.far_joints(
            self.far,
            self.model.ends,
            self.up,
            self.link,
            self.depth,
            low,
            sizes,
            start,
            first,
            p.nodes,
            tables,
        )
        return TreeMoments(p.nodes, tables)

    def tree_slopes(self, p: TreeMoments, slopes: Slopes) -> Slopes:
        """Slopes of all beliefs as slopes of the tree's own moments; zero on edges outside it."""
        low, sizes, start, first = self._layout()
        nodes, edges = slopes.nodes.copy(), slopes.edges.copy()
        kernel.far_slopes(
            self.far, self.model.ends, self.up, self.link, self.depth, low, sizes, start, first,
            p.nodes, p.edges, nodes, edges,
        )  # fmt: skip
        return Slopes(nodes, np.where(self.inside, edges, 0.0))

    def log_weight_slopes(self, p: TreeMoments, own: Slopes) -> Slopes:
        """Derivatives by the log weights of the tree, from those by its own moments."""
        nodes, edges = np.zeros(len(p.nodes)), np.zeros(len(p.edges))
        kernel.covariances(
            self.outward,
            self.up,
            self.link,
            *self._layout(),
            p.nodes,
            p.edges,
            own.nodes,
            own.edges,
            nodes,
            edges,
        )
        return Slopes(nodes, edges)

    def best(self, nodes: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """The best joint state under these log weights, by max-product."""
        ones = np.ones(len(self.members))
        passed = self.model.passes.run(self.order, nodes, ones, heat=0.0, tables=edges)
        states = np.zeros(len(self.model.variables), dtype=np.int64)
        kernel.best_states(
            self.outward, self.up, self.link, *self._layout(), passed.belief, passed.joint, states
        )
        return states

    def vertex(self, states: np.ndarray) -> TreeMoments:
        """Moments of one joint state; edges outside the tree included."""
        variables, ends = self.model.variables, self.model.ends
        nodes, edges = np.zeros(variables.state_start[-1]), np.zeros(self.model.first[-1])
        nodes[variables.state_start[:-1] + states] = 1.0
        edges[
            self.model.first[:-1] + states[ends[:, 0]] * variables.sizes[ends[:, 1]] + states[ends[:, 1]]
        ] = 1.0
        return TreeMoments(nodes, edges)


@dataclass(frozen=True, eq=False, repr=False)
class TreeMixture:
    """The distribution sum_m weights[m] T_m(x) that was found: what a run keeps as its state."""

    weights: np.ndarray  # (components,)
    trees: tuple[Tree, ...]  # their structures
    parts: tuple[TreeMoments, ...]  # their moments, those of model edges outside the tree included

    @property
    def effective(self) -> float:
        """Effective number of components: of the entropy of the weights, those that coincide counted once."""
        return effective_number(self.weights, self.overlaps)

    @property
    def overlaps(self) -> np.ndarray:
        """(components, components) one minus the largest difference of a belief."""
        beliefs = np.array([np.concatenate([part.nodes, part.edges]) for part in self.parts])
        return np.array([1.0 - np.abs(beliefs - own).max(axis=1, initial=0.0) for own in beliefs])

    def edges(self, m: int) -> list[tuple[str, str]]:
        """Names of the linked variables of a component."""
        names = self.trees[m].model.variables.names
        return [(names[i], names[j]) for i, j in self.trees[m].model.ends[self.trees[m].members]]

    def beliefs(self) -> TreeMoments:
        """Marginals of variables and of edges, mixed over the components by their weights."""
        nodes = sum(w * p.nodes for w, p in zip(self.weights, self.parts, strict=True))
        edges = sum(w * p.edges for w, p in zip(self.weights, self.parts, strict=True))
        return TreeMoments(np.asarray(nodes), np.asarray(edges))

    def log_probability(self, states: np.ndarray) -> np.ndarray:
        """Log probability of rows of state indices over the variables that have several states."""
        terms = [
            _tree_log_probability(tree, part, states) + np.log(w)
            for tree, part, w in zip(self.trees, self.parts, self.weights, strict=True)
            if w > 0
        ]
        return np.asarray(np.logaddexp.reduce(terms, axis=0))

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Joint states (count, variables with several states): a component, then outwards from its roots."""
        variables = self.trees[0].model.variables
        start, sizes = variables.state_start, variables.sizes
        rows = np.zeros((count, len(variables)), dtype=np.int64)
        which = rng.choice(len(self.weights), size=count, p=self.weights)
        for m, (tree, part) in enumerate(zip(self.trees, self.parts, strict=True)):
            mine = np.flatnonzero(which == m)
            for i in np.flatnonzero(tree.up < 0):
                chance = np.broadcast_to(part.nodes[start[i] : start[i + 1]], (len(mine), sizes[i]))
                rows[mine, i] = _draw(chance, rng)
            for i in tree.outward:
                rows[mine, i] = _draw(_orient(tree, part, int(i))[rows[mine, tree.up[i]]], rng)
        return rows


def _orient(tree: Tree, part: TreeMoments, i: int) -> np.ndarray:
    """The joint of a variable and the one above it, (states above, states)."""
    model, a, p = tree.model, int(tree.link[i]), int(tree.up[i])
    sizes = model.variables.sizes
    table = part.edges[model.first[a] : model.first[a + 1]]
    if model.ends[a, 0] == p:
        return table.reshape(sizes[p], sizes[i])
    return table.reshape(sizes[i], sizes[p]).T


def _tree_log_probability(tree: Tree, part: TreeMoments, states: np.ndarray) -> np.ndarray:
    start = tree.model.variables.state_start
    total = np.zeros(len(states))
    with np.errstate(divide="ignore"):
        for i in np.flatnonzero(tree.up < 0):
            total += np.log(part.nodes[start[i] + states[:, i]])
        for i in tree.outward:
            p = int(tree.up[i])
            above = part.nodes[start[p] + states[:, p]]
            joint = _orient(tree, part, int(i))[states[:, p], states[:, i]]
            total += np.log(np.divide(joint, above, where=above > 0, out=np.zeros(len(states))))
    return total


def _draw(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One state per row of weights."""
    edges = weights.cumsum(axis=1)
    return (edges <= rng.random(len(edges))[:, None] * edges[:, -1:]).sum(axis=1)
