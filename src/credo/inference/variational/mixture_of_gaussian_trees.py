r"""Beliefs that are the marginals of a mixture of Gaussian trees, for real variables in pairs.

    b(x) = sum_m lambda_m N(x; mu^m, Delta_m^-1),      Delta_m zero outside the edges of tree m,

each tree a spanning tree of the model's graph with a sparse Cholesky factor (`gaussian_tree_mixture.py`). The
beliefs maximise minus the Bethe free energy (`gaussian_tree_ascent.py`); potentials may be any functions,
and no derivative of them is taken.

Guarantees. One component on a Gaussian tree recovers means, variances and log Z. With one component, or on a
model without cycles, the value is below log Z up to the error of the quadrature: it is reported as a lower
bound only if quadrature with more nodes gives the same. Otherwise it is an estimate.

Cost of a step with M components, E pairs and K nodes: E K^2 M^2 and, for the covariances, n^3 M.

Source: Guo 2020, chapter 6, with the gradient (6.16) corrected (outer product, twice for pairs,
responsibilities).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ...core import check
from ...core.density import GaussianFactor
from ...core.errors import MissingExtraError, UnsupportedError
from ...core.factor_graph import FactorGraph
from ...core.result import Estimate, Kind, Marginals, Result, Samples, Status
from ...optimise.driver import Outcome, Step, drive
from ...optimise.run import Run
from ..problem.base import Algorithm, Budget, Problem, register
from ..problem.gaussian_system import claim, rounding
from ..problem.starting_places import Places, refuse_flat_along, starting_places
from .components import told_components
from .descent import told_ends
from .discrete_trees import PairModel, Tree
from .gaussian_tree_mixture import GaussianTree, GaussianTreeMixture

__all__ = ["GaussianTreeBeliefs"]

_LARGEST = 2000  # variables: covariances are dense
_AWAY = 5.0  # scales of a variable at which the way that a component went is looked at
_LOOKS = 1000  # samples at which a zero of a factor is looked for
_ENDLESS = 25.0  # log of the ratio of standard deviations at which the density has no end
_PROBES = np.array([-1.5, -0.5, 0.5, 1.5])  # in units of `spread`, where the strength of a pair is measured


@register
@dataclass(frozen=True, kw_only=True)
class GaussianTreeBeliefs(Algorithm):
    """Marginals of a mixture of Gaussian trees that maximise the Bethe value; real variables.

    Examples
    --------
    >>> import credo
    >>> model = credo.GaussianNet([[2.0, -0.8, 0.0], [-0.8, 1.5, 0.3], [0.0, 0.3, 1.0]], [1.0, 0.0, 2.0])
    >>> found = credo.infer(model, "mixture-of-gaussian-trees(components=1)", seed=0)
    >>> round(found.marginals["x1"].mean, 4), round(float(model.mean[1]), 4)
    (-0.1835, -0.1835)
    """

    name: ClassVar[str] = "mixture-of-gaussian-trees"
    compiles: ClassVar[bool] = True
    components: int = 2  # trees in the mixture
    trees: Literal["random", "maximum", "covering"] = "random"  # uniform, strongest pairs, all pairs in turn
    start: Literal["potentials", "normal"] = "potentials"  # where the factors are, or independent
    centre: float = 0.0  # where the means begin, for start=normal and variables that are not found
    spread: float = 1.0  # standard deviation of these at the start
    gradient: Literal["quadrature", "samples"] = "quadrature"  # how expectations are taken
    nodes: int = 8  # per dimension of the quadrature
    samples: int = 100  # per step, for gradient=samples
    rate: float = 0.05  # of Adam at first where L-BFGS does not serve
    learn_weights: bool = True  # whether the weights of the components change
    restarts: int = 1  # starts, each with trees of its own; the highest value is kept

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("components", self.components, 1)
        check.one_of("trees", self.trees, ["random", "maximum", "covering"])
        check.one_of("start", self.start, ["potentials", "normal"])
        check.one_of("gradient", self.gradient, ["quadrature", "samples"])
        check.finite("centre", self.centre)
        check.at_least("spread", self.spread, 1e-6)
        check.whole("nodes", self.nodes, 2)
        check.whole("samples", self.samples, 2)
        check.at_least("rate", self.rate, 0)
        check.one_of("learn_weights", self.learn_weights, [True, False])
        check.whole("restarts", self.restarts, 1)

    def why_not(self, problem: Problem) -> str | None:
        """Factors of at most two variables, and not too many of these."""
        graph = problem.graph
        for batch in graph.batches:
            if batch.scopes.shape[1] > 2:
                names = [graph.variables.names[int(i)] for i in batch.scopes[0]]
                return f"the factor over {names} has more than two variables, and trees have pairs"
        if len(graph.variables) > _LARGEST:
            return (
                f"it keeps dense covariances of at most {_LARGEST} variables, here are {len(graph.variables)}"
            )
        return None

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Climb from each start; keep the best."""
        graph = problem.graph
        if not len(graph.variables):
            return _constant(self.name, problem)
        climbs = _GaussianTreeAscent(self, graph)
        result: Result = drive(climbs, problem, budget, rng, restarts=self.restarts)
        return _with_samples(result, problem, rng)


class _GaussianTreeAscent:
    """Climbs from trees of their own, as the driver sees them."""

    name = GaussianTreeBeliefs.name

    def __init__(self, options: GaussianTreeBeliefs, graph: FactorGraph) -> None:
        self._options, self._graph, self._ascent = options, graph, _ascent()
        self._found = starting_places(graph)
        self._model, self._places = _skeleton(graph, options.spread), self._beginnings()
        points = options.samples if options.gradient == "samples" else options.nodes
        climb = self._ascent.GaussianTreeClimb
        self._climb = climb(options.gradient, points, options.rate, options.learn_weights)

    def _beginnings(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the variables begin, and how wide."""
        found, options = self._found, self._options
        n = len(found.centre)
        if options.start == "normal":
            return np.full(n, options.centre), np.full(n, options.spread)
        near = found.low < found.high  # found itself, or a neighbour of it
        return np.where(near, found.centre, options.centre), np.where(near, found.scale, options.spread)

    def start(self, problem: Problem, run: Run) -> Step:
        options, model = self._options, self._model
        trees = Tree.several(model, options.components, options.trees, run.rng)
        system = self._ascent.GaussianTreeSystem.of(self._graph, model.ends, np.array([t.up for t in trees]))
        first = self._parameters(trees, run.rng)
        return Step((self._climb.begin(system, first, self._places[1], run.rng), trees))

    def _parameters(self, trees: list[Tree], rng: np.random.Generator) -> Any:
        """Where the components begin."""
        n, options = len(self._graph.variables), self._options
        J, h = np.zeros((n, n)), np.zeros(n)
        if options.start == "potentials":
            J, h = _gaussian_part(self._graph)
        first = [_on_tree(tree, J, h, *self._places) for tree in trees]
        several = options.components > 1 or options.restarts > 1
        noise = rng.standard_normal((options.components, n)) * several
        means = np.array([t.mean for t in first]) + noise * np.sqrt([t.variance for t in first])
        return self._ascent.GaussianTreeParameters(
            means,
            np.array([t.slope for t in first]),
            np.log([t.sd for t in first]),
            np.zeros(options.components),
        )

    def advance(self, problem: Problem, state: Any, run: Run) -> Step:
        climb, trees = state
        step: Step = self._climb.advance(climb, run)
        return step._replace(state=(step.state, trees))

    def value(self, state: Any) -> float:
        return self._value(state[0], self._options.nodes)

    def _value(self, climb: Any, nodes: int) -> float:
        return float(self._ascent.value_and_slopes(climb.system, climb.parameters, nodes=nodes)[0])

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        (climb, trees), graph = outcome.state, problem.graph
        mixture = _mixture(graph, climb.parameters, trees)
        _refuse_endless(graph, mixture.trees, self._found)
        finer = self._value(climb, 2 * self._options.nodes)
        if finer == -np.inf:
            _refuse_zeros(graph, mixture)
        log_z, notes = self._claim(climb, mixture, finer)
        is_finite = np.isfinite(finer)
        return Result(
            self.name,
            outcome.ended if is_finite else Status.DIVERGED,
            log_z=log_z if is_finite else None,
            marginals=Marginals(graph.variables, np.zeros(0), mixture.densities()),
            trace={name: np.array(outcome.trace.get(name, ())) for name in ("value", "log_z", "change")},
            state=mixture,
            notes=(*notes, *told_ends(outcome.values)),
        )

    def _claim(self, climb: Any, mixture: GaussianTreeMixture, finer: float) -> tuple[Estimate, list[str]]:
        """What log Z is, by twice as many nodes as on the way, and what is to be said about it."""
        options, p, nodes = self._options, climb.parameters, self._options.nodes
        value = self._value(climb, nodes)
        is_exact = abs(finer - value) <= 1e-7 * max(1.0, abs(finer))
        kind: Kind = (
            "lower" if is_exact and (self._model.is_forest or options.components == 1) else "estimate"
        )
        size = np.abs(p.means).max(axis=0) + np.exp(p.log_sds).max(axis=0)
        log_z, told = claim(finer, kind, rounding(self._graph, size))
        notes = [*told, told_components(mixture.weights, mixture.overlaps)]
        if not is_exact:
            notes.append(f"{nodes} nodes gave {value:.8g}, {2 * nodes} nodes give {finer:.8g}")
        return log_z, notes


def _mixture(graph: FactorGraph, p: Any, trees: list[Tree]) -> GaussianTreeMixture:
    weights = np.exp(p.logits - p.logits.max())
    parts = [
        GaussianTree(
            t.up, _outward(t), p.means[m], np.where(t.up >= 0, p.slopes[m], 0.0), np.exp(p.log_sds[m])
        )
        for m, t in enumerate(trees)
    ]
    return GaussianTreeMixture(tuple(graph.variables.names), weights / weights.sum(), tuple(parts))


def _with_samples(result: Result, problem: Problem, rng: np.random.Generator) -> Result:
    if not problem.samples:
        return result
    variables, rows = problem.graph.variables, result.state.sample(problem.samples, rng)
    indices = np.full(rows.shape, -1, dtype=np.int64)
    columns = {name: rows[:, i] for i, name in enumerate(variables.names)}
    return replace(result, samples=Samples(variables, indices, columns))


def _ascent() -> Any:
    try:
        from . import gaussian_tree_ascent
    except ImportError as error:
        raise MissingExtraError(
            f"mixture-of-gaussian-trees needs JAX: install credo[neural] ({error})"
        ) from None
    return gaussian_tree_ascent


def _constant(name: str, problem: Problem) -> Result:
    value = sum(float(f.log_values()) for f in problem.graph.factors)
    if value == -np.inf:
        raise problem.contradiction()
    marginals = Marginals(problem.graph.variables, np.zeros(0))
    return Result(name, Status.EXACT, log_z=Estimate(value, "exact"), marginals=marginals)


def _skeleton(graph: FactorGraph, spread: float) -> PairModel:
    """A discrete stand-in with the pairs of the graph; its tables are the log-potentials at a few points."""
    count = len(_PROBES)
    x = _PROBES * spread
    tables: dict[tuple[str, str], np.ndarray] = {}
    names = graph.variables.names
    for factor, scope in zip(graph.factors, graph.scopes, strict=True):
        if len(scope) == 2:
            values = factor.log_values(x[:, None], x[None, :])
            pair, values = (scope, values) if scope[0] < scope[1] else (scope[::-1], values.T)
            key = names[pair[0]], names[pair[1]]
            tables[key] = tables.get(key, np.zeros((count, count))) + np.maximum(values, -1e6)
    from ...core.factor import TableFactor
    from ...core.variable import Variable

    variables = {name: Variable(name, count) for name in names}
    factors = [TableFactor.from_log([variables[a], variables[b]], t) for (a, b), t in tables.items()]
    return PairModel(FactorGraph(list(variables.values()), factors))


def _gaussian_part(graph: FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    """Summed precision and shift of the Gaussian factors."""
    n = len(graph.variables)
    J, h = np.zeros((n, n)), np.zeros(n)
    for factor, scope in zip(graph.factors, graph.scopes, strict=True):
        if isinstance(factor, GaussianFactor):
            J[np.ix_(scope, scope)] += factor.precision
            h[scope] += factor.shift
    return J, h


def _outward(tree: Tree) -> np.ndarray:
    return np.concatenate([np.flatnonzero(tree.up < 0), tree.outward])


def _on_tree(
    tree: Tree, J: np.ndarray, h: np.ndarray, centre: np.ndarray, spread: np.ndarray
) -> GaussianTree:
    """The tree part of a Gaussian, with as much of N(centre, spread^2) multiplied in as makes it proper."""
    bare = np.diagonal(J) <= 0
    extra = np.where(bare, spread**-2, 0.0)
    while True:
        try:
            return GaussianTree.of_precision(tree.up, _outward(tree), J + np.diag(extra), h + extra * centre)
        except np.linalg.LinAlgError:
            extra = 2 * extra + spread**-2


def _refuse_zeros(graph: FactorGraph, mixture: GaussianTreeMixture) -> None:
    """Name the factor that is zero where the beliefs are."""
    rows = mixture.sample(_LOOKS, np.random.default_rng(0))
    for factor, scope in zip(graph.factors, graph.scopes, strict=True):
        if np.isneginf(factor.log_values(*rows[:, scope].T)).any():
            raise UnsupportedError(
                f"mixture-of-gaussian-trees cannot treat this problem: the factor over {list(factor.names)} "
                "is zero on part of its domain, where a Gaussian belief is not: the free energy is -inf; "
                "give it a small positive weight there, or substitute the variable (its logarithm)"
            )


def _refuse_endless(graph: FactorGraph, trees: Sequence[GaussianTree], found: Places) -> None:
    """Look at the ways along which components went far or are wide; refuse a density that does not fall."""
    for tree in trees:
        for way in (tree.mean - found.centre, _widest(tree, found.scale)):
            length = float(np.abs(way / found.scale).max())
            if length > _AWAY:
                refuse_flat_along(graph, found, way / length)
    wide = np.log([tree.sd for tree in trees]).max(axis=0) - np.log(found.scale)
    if wide.max() > _ENDLESS:
        name = graph.variables.names[int(wide.argmax())]
        raise UnsupportedError(
            "mixture-of-gaussian-trees cannot treat this problem: the belief of "
            f"'{name}' widens without end, as if the product of its factors had no "
            "integral; add a factor that bounds it"
        )


def _widest(tree: GaussianTree, scale: np.ndarray) -> np.ndarray:
    """The direction in which a tree is widest, one standard deviation long; nothing if it is nowhere wide."""
    if np.sqrt(tree.variance / scale**2).max() <= _AWAY:
        return np.zeros(len(scale))
    values, vectors = np.linalg.eigh(tree.covariance() / np.outer(scale, scale))
    return np.asarray(np.sqrt(values[-1]) * vectors[:, -1] * scale)
