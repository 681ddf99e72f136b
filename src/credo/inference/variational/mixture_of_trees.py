r"""Beliefs that are the marginals of a mixture of trees, for models of discrete variables with pair factors.

    b(x) = sum_m lambda_m T_m(x),      b_i = sum_m lambda_m p_i^m,      b_ij = sum_m lambda_m p_ij^m,

each T_m a spanning tree of the model's graph with its own structure and parameters. The beliefs maximise
minus the Bethe free energy (`discrete_trees.py`). They always have a joint distribution, which belief
propagation's need not have; with enough components both reach the same value where such a joint exists.

Guarantees. With one component, or on a model without cycles, the value is a lower bound on log Z; otherwise
it is an estimate, and a note gives the lower bound that the components prove together. One component on a
tree is exact. Factors with zeros must close no cycle: every component contains them, so that it avoids the
zeros.

Cost of a step: for each component one pass over its tree and one walk between the ends of every edge outside
it.

Sources: Meila and Jordan 2000 (mixtures of trees); Belanger et al. 2013 (Frank-Wolfe with MAP steps); Guo
2020, chapter 6, whose gradient (6.9) is replaced by the conditional expectations of `discrete_trees.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ...core import check
from ...core.result import Estimate, Kind, Marginals, Result, Samples
from ...optimise.driver import Outcome, Step, drive
from ...optimise.run import Run
from ..problem.base import Algorithm, Budget, Problem, register
from .components import told_components
from .descent import told_ends
from .discrete_tree_ascent import MomentSteps, QuasiNewton, TreeClimb, starting_logs
from .discrete_trees import PairModel, Tree, TreeMixture, hard_edges_close_a_cycle

__all__ = ["TreeBeliefs"]


@register
@dataclass(frozen=True, kw_only=True)
class TreeBeliefs(Algorithm):
    """Marginals of a mixture of spanning trees that maximise the Bethe value; discrete variables.

    Examples
    --------
    >>> import credo
    >>> ring = {("a", "b"): [[2, 1], [1, 2]], ("b", "c"): [[2, 1], [1, 2]], ("c", "a"): [[2, 1], [1, 3]]}
    >>> model = credo.FactorGraph({"a": 2, "b": 2, "c": 2}, ring)
    >>> found = credo.infer(model, "mixture-of-trees(components=2)", seed=0)
    >>> float(found.marginals["a"][1].round(2)), float(credo.infer(model).marginals["a"][1].round(2))
    (0.58, 0.58)
    >>> found.state.edges(0)  # the tree of the first component
    [('a', 'b'), ('a', 'c')]
    """

    name: ClassVar[str] = "mixture-of-trees"
    components: int = 3  # trees in the mixture
    trees: Literal["random", "maximum", "covering"] = "random"  # uniform, strongest edges, all edges in turn
    optimiser: Literal["gradient", "frank-wolfe"] = "gradient"  # L-BFGS on log weights, or steps on moments
    start: Literal["potentials", "uniform"] = "potentials"  # log weights of the trees at first, without noise
    spread: float = 0.5  # standard deviation of the noise added to them, which makes components differ
    learn_weights: bool = True  # whether the weights of the components change
    restarts: int = 1  # starts, each with trees of its own; the highest value is kept

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("components", self.components, 1)
        check.one_of("trees", self.trees, ["random", "maximum", "covering"])
        check.one_of("optimiser", self.optimiser, ["gradient", "frank-wolfe"])
        check.one_of("start", self.start, ["potentials", "uniform"])
        check.at_least("spread", self.spread, 0)
        check.one_of("learn_weights", self.learn_weights, [True, False])
        check.whole("restarts", self.restarts, 1)

    def why_not(self, problem: Problem) -> str | None:
        """Factors of at most two variables with several states."""
        graph = problem.graph
        several = np.cumsum(np.append(0, graph.variables.sizes[graph.scope] > 1))
        wide = np.flatnonzero(np.diff(several[graph.scope_start]) > 2)
        if len(wide):
            names = [graph.variables.names[int(i)] for i in graph.scope_of(int(wide[0]))]
            return f"the factor over {names} has more than two variables, and trees have pairs"
        if np.isneginf(graph.log_tables).any() and hard_edges_close_a_cycle(PairModel(graph)):
            return "factors with zeros close a cycle, and no tree can contain them all; use bp"
        return None

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Climb from each start; keep the best."""
        model = PairModel(problem.graph)
        if model.is_impossible:
            raise problem.contradiction()
        climbs = _DiscreteTreeAscent(self, model)
        result = drive(climbs, problem, budget, rng, restarts=self.restarts)
        return _with_samples(result, problem, model, rng)


class _DiscreteTreeAscent:
    """Climbs from trees of their own, as the driver sees them."""

    name = TreeBeliefs.name

    def __init__(self, options: TreeBeliefs, model: PairModel) -> None:
        self._options, self._model = options, model
        self._how: Any = QuasiNewton() if options.optimiser == "gradient" else MomentSteps()

    def start(self, problem: Problem, run: Run) -> Step:
        options, model = self._options, self._model
        trees = Tree.several(model, options.components, options.trees, run.rng)
        first = starting_logs(model, trees, options.start, options.spread, run.rng)
        return Step(self._how.begin(model, trees, first, options.learn_weights))

    def advance(self, problem: Problem, state: Any, run: Run) -> Step:
        return self._how.advance(self._model, state, run)  # type: ignore[no-any-return]

    def value(self, state: Any) -> float:
        return float(self._how.found(self._model, state).value)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        model, components = self._model, self._options.components
        best: TreeClimb = self._how.found(model, outcome.state)
        is_bound = model.is_forest or components == 1
        kind: Kind = "lower" if is_bound else "estimate"
        return Result(
            self.name,
            outcome.ended,
            log_z=Estimate(best.value, kind),
            marginals=Marginals(problem.graph.variables, _all_states(model, best.mixture)),
            trace={name: np.array(outcome.trace.get(name, ())) for name in ("value", "log_z", "change")},
            state=best.mixture,
            notes=(*self._notes(best, is_bound), *told_ends(outcome.values)),
        )

    def _notes(self, best: TreeClimb, is_bound: bool) -> list[str]:
        model, mixture = self._model, best.mixture
        notes = [told_components(mixture.weights, mixture.overlaps)]
        if not is_bound:
            bound = model.bound(list(mixture.parts), list(mixture.trees), mixture.weights)
            notes.append(f"the components together prove log Z >= {bound:.10g}")
        if best.ceiling is not None and model.is_forest:
            notes.append(f"Frank-Wolfe's gap proves log Z <= {best.ceiling:.10g}")
        return notes


def _keep(model: PairModel) -> np.ndarray:
    """Positions of the variables with several states."""
    return np.flatnonzero(model.original.sizes > 1)


def _all_states(model: PairModel, mixture: TreeMixture) -> np.ndarray:
    """Beliefs of all variables, those with one state included."""
    flat = np.ones(int(model.original.state_start[-1]))
    several = np.repeat(model.original.sizes > 1, model.original.sizes)
    flat[several] = mixture.beliefs().nodes
    return flat


def _with_samples(result: Result, problem: Problem, model: PairModel, rng: np.random.Generator) -> Result:
    if not problem.samples:
        return result
    rows = np.zeros((problem.samples, len(model.original)), dtype=np.int64)
    rows[:, _keep(model)] = result.state.sample(problem.samples, rng)
    return replace(result, samples=Samples(problem.graph.variables, rows))
