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

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ...core import check
from ...core.density import GaussianFactor
from ...core.domain import Real
from ...core.errors import MissingExtraError, UnsupportedError
from ...core.factor_graph import FactorGraph
from ...core.hybrid_graph import HybridGraph
from ...core.progress import Progress
from ...core.result import Estimate, Kind, Marginals, Result, Samples, Status
from ..base import Algorithm, Budget, register
from ..gaussian_system import claimed, rounding
from ..hybrid import HybridProblem
from ..starting_places import Places, refuse_flat_along, starting_places
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
    hybrid: ClassVar[bool] = True
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
        check.at_least("spread", self.spread, 1e-6)
        check.whole("nodes", self.nodes, 2)
        check.whole("samples", self.samples, 2)
        check.at_least("rate", self.rate, 0)
        check.one_of("learn_weights", self.learn_weights, [True, False])
        check.whole("restarts", self.restarts, 1)

    def why_not(self, problem: HybridProblem) -> str | None:
        """Sums and samples on real variables with factors of at most two of them."""
        graph = problem.graph
        if not problem.is_sum:
            return "it gives marginals, not maxima"
        other = [v.name for v in graph.variables if not isinstance(v.domain, Real)]
        if other:
            return f"'{other[0]}' is not real; use mixture-of-trees where all variables are discrete"
        wide = [f for f in graph.factors if len(f.scope) > 2]
        if wide:
            return f"the factor over {list(wide[0].names)} has more than two variables, and trees have pairs"
        if len(graph.variables) > _LARGEST:
            return (
                f"it keeps dense covariances of at most {_LARGEST} variables, here are {len(graph.variables)}"
            )
        return None

    def run(self, problem: HybridProblem, budget: Budget, rng: np.random.Generator) -> Result:
        """Climb from each start; keep the best."""
        graph = problem.graph
        if not len(graph.variables):
            return _constant(self.name, problem)
        ascent = _ascent()
        found_places = starting_places(graph)
        model = _skeleton(graph, self.spread)
        places = self._places(found_places)
        deadline = np.inf if budget.seconds is None else time.perf_counter() + budget.seconds
        best: tuple[Any, ...] | None = None
        values = []
        for _ in range(self.restarts):
            trees = Tree.several(model, self.components, self.trees, rng)
            system = ascent.GaussianSystem.of(graph, model.ends, np.array([t.up for t in trees]))
            start = self._start(ascent, graph, places, trees, rng)
            found = self._climb(ascent, system, start, budget, deadline, rng)
            value = ascent.value_and_slopes(system, found.parameters, nodes=self.nodes)[0]
            values.append(value)
            if best is None or value > best[0]:
                best = (value, found, system, trees)
            if found.status in (Status.OUT_OF_TIME, Status.INTERRUPTED):
                best = (best[0], replace(best[1], status=found.status), *best[2:])
                break
        assert best is not None
        return self._result(problem, ascent, model, found_places, best, values, rng)

    def _places(self, found: Places) -> tuple[np.ndarray, np.ndarray]:
        """Where the variables begin, and how wide."""
        n = len(found.centre)
        if self.start == "normal":
            return np.full(n, self.centre), np.full(n, self.spread)
        near = found.low < found.high  # found itself, or a neighbour of it
        return np.where(near, found.centre, self.centre), np.where(near, found.scale, self.spread)

    def _climb(
        self, ascent: Any, system: Any, start: Any, budget: Budget, deadline: float, rng: np.random.Generator
    ) -> Any:
        with Progress(self.name, budget.max_iter) as bar:
            return ascent.climb(
                system,
                start,
                learn_weights=self.learn_weights,
                max_iter=budget.max_iter,
                tol=budget.tol,
                deadline=deadline,
                estimate=self.gradient,
                points=self.samples if self.gradient == "samples" else self.nodes,
                rate=self.rate,
                rng=rng,
                report=lambda done, value: bar.update(done, f"value {value:.8g}"),
            )

    def _start(
        self,
        ascent: Any,
        graph: HybridGraph,
        places: tuple[np.ndarray, np.ndarray],
        trees: list[Tree],
        rng: np.random.Generator,
    ) -> Any:
        n = len(graph.variables)
        J, h = _gaussian_part(graph) if self.start == "potentials" else (np.zeros((n, n)), np.zeros(n))
        first = [_on_tree(tree, J, h, *places) for tree in trees]
        several = self.components > 1 or self.restarts > 1
        noise = rng.standard_normal((self.components, n)) * several
        means = np.array([t.mean for t in first]) + noise * np.sqrt([t.variance for t in first])
        return ascent.Parameters(
            means,
            np.array([t.slope for t in first]),
            np.log([t.sd for t in first]),
            np.zeros(self.components),
        )

    def _result(
        self, problem: HybridProblem, ascent: Any, model: PairModel, places: Places,
        best: tuple[Any, ...], values: list[float], rng: np.random.Generator,
    ) -> Result:  # fmt: skip
        value, found, system, trees = best
        p = found.parameters
        names = tuple(problem.graph.variables.names)
        weights = np.exp(p.logits - p.logits.max())
        parts = [
            GaussianTree(
                t.up, _outward(t), p.means[m], np.where(t.up >= 0, p.slopes[m], 0.0), np.exp(p.log_sds[m])
            )
            for m, t in enumerate(trees)
        ]
        _refuse_endless(problem.graph, parts, places)
        mixture = GaussianTreeMixture(names, weights / weights.sum(), tuple(parts))
        finer = ascent.value_and_slopes(system, p, nodes=2 * self.nodes)[0]
        is_exact = abs(finer - value) <= 1e-7 * max(1.0, abs(finer))
        kind: Kind = "lower" if is_exact and (model.is_forest or self.components == 1) else "estimate"
        size = np.abs(p.means).max(axis=0) + np.exp(p.log_sds).max(axis=0)
        log_z, told = claimed(float(finer), kind, rounding(problem.graph, size))
        notes = [*told, f"{mixture.effective:.3g} of {self.components} components in effect"]
        if not is_exact:
            notes.append(f"{self.nodes} nodes gave {value:.8g}, {2 * self.nodes} nodes give {finer:.8g}")
        if self.restarts > 1:
            notes.append(f"{len(values)} starts gave values from {min(values):.8g} to {max(values):.8g}")
        samples = None
        if problem.samples:
            rows = mixture.sample(problem.samples, rng)
            indices = np.full(rows.shape, -1, dtype=np.int64)
            columns = {name: rows[:, i] for i, name in enumerate(names)}
            samples = Samples(problem.graph.variables, indices, columns)
        finite = np.isfinite(finer)
        if finer == -np.inf:
            _refuse_zeros(problem.graph, mixture)
        return Result(
            self.name,
            found.status if finite else Status.DIVERGED,
            log_z=log_z if finite else None,
            marginals=Marginals(problem.graph.variables, np.zeros(0), mixture.densities()),
            samples=samples,
            trace={"value": found.values, "change": found.changes},
            state=mixture,
            notes=tuple(notes),
        )


def _ascent() -> Any:
    try:
        from . import gaussian_tree_ascent
    except ImportError as error:
        raise MissingExtraError(
            f"mixture-of-gaussian-trees needs JAX: install credo[neural] ({error})"
        ) from None
    return gaussian_tree_ascent


def _constant(name: str, problem: HybridProblem) -> Result:
    value = sum(float(f.log_values()) for f in problem.graph.factors)
    if value == -np.inf:
        raise problem.contradiction()
    marginals = Marginals(problem.graph.variables, np.zeros(0))
    return Result(name, Status.EXACT, log_z=Estimate(value, "exact"), marginals=marginals)


def _skeleton(graph: HybridGraph, spread: float) -> PairModel:
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


def _gaussian_part(graph: HybridGraph) -> tuple[np.ndarray, np.ndarray]:
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


def _refuse_zeros(graph: HybridGraph, mixture: GaussianTreeMixture) -> None:
    """Name the factor that is zero where the beliefs are."""
    rows = mixture.sample(_LOOKS, np.random.default_rng(0))
    for factor, scope in zip(graph.factors, graph.scopes, strict=True):
        if np.isneginf(factor.log_values(*rows[:, scope].T)).any():
            raise UnsupportedError(
                f"mixture-of-gaussian-trees cannot treat this problem: the factor over {list(factor.names)} "
                "is zero on part of its domain, where a Gaussian belief is not: the free energy is -inf; "
                "give it a small positive weight there, or substitute the variable (its logarithm)"
            )


def _refuse_endless(graph: HybridGraph, trees: Sequence[GaussianTree], found: Places) -> None:
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
