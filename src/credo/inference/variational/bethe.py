r"""Bethe variational inference with a mixture of products (BVI, "QBethe", one-shot inference).

Beliefs are the marginals of one joint distribution, a mixture of products with shared weights,

    b(x) = sum_m lambda_m prod_i b_i^m(x_i),

Gaussian, categorical or Dirichlet by the domain of the variable. Maximised is minus the Bethe free energy,

    F(b) = sum_a E_{b_a}[log f_a] + sum_i H(b_i) - sum_a E_{b_a}[ log b_a / prod_{i in a} b_i ]

by gradient ascent over the parameters of the components and the logits of lambda. Only values of the
potentials are needed: gradients are taken exactly and their expectations approximated afterwards
(`gradient="score"`; equations in `bethe_system.py`). Expectations: exact sums for discrete variables,
closed forms of factors that are Gaussian given states (`closed_forms.py`), Gauss-Hermite points for other
functions of real variables, samples for simplex ones, or samples or particles throughout
(`bethe_expectations.py`). Mutual informations of several components always need points. Any graph, any arity
the points allow; only the product of all factors has to be integrable.

Convergence. The residual is the squared length of the natural gradient per variable, about twice the nats
that a step could still gain. An ascent whose steps gain less than `stop` is renewed while the residual is
larger: Adam forgets its moments, and components without weight, or on top of another one, are tried on the
other side of the centres. The best mixture of all is the answer, so that no renewal lowers the value, and
*converged* speaks of its residual; of mixtures that are as good up to the tolerance it is the one with the
smallest. A note says how many components are in effect. Where steps are random their noise hides the
residual, and the run ends *stalled* when it rises no more.

Guarantees. One component: F is the mean-field bound, F <= log Z. On a tree F(b) <= log Z for any components,
and with enough of them F reaches log Z and the beliefs of variables and factors are exact. On other graphs F
may exceed log Z. The value reported is evaluated again, with many more points than the ascent used; it is
called a lower bound where theory says so and the points prove accurate (the difference to half as many is
subtracted), an estimate otherwise. The free energy knows only the beliefs of variables and factors: queries
about variables that share no factor depend on where the ascent started.

One run serves every question: `result.state` is a `Surrogate` with any marginal, conditional, maximum and
samples; `maximise` and `credo.sample` use it. Of positive numbers, intervals and vectors it knows the free
coordinates, which is what its components are Gaussians of; marginals, assignments and samples of the result
are about values, their moments by quadrature.

Zeros: a component avoids zero entries of tables in the end; while it moves, a zero counts `wall` nats below
the smallest positive weight. A zero on part of the real line is out of reach of Gaussians and is refused if
beliefs have mass there.

Cost of a step: factors x components^2 x nodes^(real variables of a factor); with one component, closed forms
of k numbers cost k^2 for each joint state.

Source: Guo, Xiong and Ruozzi (2019) and Guo (2020); the guard against collapse and renewals are not theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ...core import check
from ...core.domain import Discrete, Real
from ...core.errors import MissingExtraError, OptionError
from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch
from ...core.result import Assignment, Estimate, Marginals, Result, Status
from ..problem.base import Algorithm, Budget, Problem, register
from ..problem.gaussian_system import has_closed_form
from .surrogate import Surrogate

__all__ = ["Bethe"]

_MANY = 2**17  # evaluations per factor and step beyond which samples are cheaper
_MOST = 2**24  # the same beyond which it is refused


@register
@dataclass(frozen=True, kw_only=True)
class Bethe(Algorithm):
    """Mixture-of-products beliefs that maximise the Bethe free energy, for variables of any domain.

    Examples
    --------
    >>> import credo
    >>> from credo import potentials
    >>> x, s = credo.Variable("x", credo.Real()), credo.Variable("s", ["off", "on"])
    >>> model = credo.HybridNet([x, s], [credo.TableFactor([s], [0.7, 0.3]),
    ...                                  potentials.emission(x, s, [-3.0, 3.0], 1.0)])
    >>> found = credo.infer(model, "bethe(components=2)", seed=0)
    >>> found.marginals["s"].round(3).tolist(), abs(round(found.log_z.value, 2))
    ([0.7, 0.3], 0.0)
    >>> found.state.conditional("s", {"x": 0.0}).round(2).tolist()
    [0.7, 0.3]
    """

    name: ClassVar[str] = "bethe"
    checkpoints: ClassVar[bool] = True
    compiles: ClassVar[bool] = True
    warm_starts: ClassVar[bool] = True
    components: int = 5  # of the mixture
    # Gauss-Hermite points, or particles, per real variable; of a simplex at least two per coordinate
    nodes: int = 5
    # expectations under real and simplex beliefs; discrete ones are always summed
    expectation: Literal["auto", "quadrature", "samples", "particles"] = "auto"
    samples: int = 10  # per variable and step, where expectations are means over samples
    kernel: Literal["joint", "coordinate"] = "joint"  # of the particles of a simplex variable
    gradient: Literal["score", "autodiff"] = "score"  # exact then approximated, or that of the approximation
    sampled: bool = False  # whether a step looks at one component, drawn at random
    optimiser: Literal["adam", "ascent"] = "adam"  # with means of gradients, or by the gradient itself
    rate: float = 0.3  # of the first step
    decay: float = 100.0  # steps after which the rate has fallen by a factor of sqrt(2)
    # nats per variable: the residual that counts as none, and a gain per step that does; tol may raise it
    stop: float = 1e-6
    renewals: int = 3  # most times that an ascent which stands still goes on as below; 0: it ends there
    guard: float = 0.1  # rate of the weights relative to the first of components; 1: plain, without a guard
    restarts: int = 1  # starts; the one with the highest value is kept
    # sd of the initial means and of the initial logits of discrete variables; None: each variable's own scale
    spread: float | None = None
    floor: float = 1e-6  # smallest sd of a component, in scales of its variable
    counting: float = 1.0  # weight of the mutual informations; 1 is the Bethe free energy
    wall: float = 30.0  # nats below the smallest positive weight at which a zero counts on the way
    # points per real variable in the last evaluation, 11 or more, on 14 standard deviations; None: up to 161
    final_nodes: int | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("components", "restarts"):
            check.whole(name, getattr(self, name), 1)
        check.whole("renewals", self.renewals, 0)
        for name in ("nodes", "samples"):
            check.whole(name, getattr(self, name), 2)
        if self.final_nodes is not None:
            check.whole("final_nodes", self.final_nodes, 11)
        check.one_of("expectation", self.expectation, ["auto", "quadrature", "samples", "particles"])
        check.one_of("kernel", self.kernel, ["joint", "coordinate"])
        check.one_of("gradient", self.gradient, ["score", "autodiff"])
        check.one_of("optimiser", self.optimiser, ["adam", "ascent"])
        for name in ("rate", "decay", "floor"):
            check.at_least(name, getattr(self, name), 1e-12)
        for name in ("counting", "stop", "wall"):
            check.at_least(name, getattr(self, name), 0)
        if not 0 <= self.guard <= 1:
            raise OptionError(f"guard must be in [0, 1], got {self.guard!r}")
        if self.spread is not None:
            check.at_least("spread", self.spread, 0)
        if self.sampled and self.gradient == "autodiff":
            raise OptionError("sampled: one component per step needs gradient=score, got autodiff")

    def why_not(self, problem: Any) -> str | None:
        """Points that are too many, and functions that have no derivative where one is needed."""
        graph = problem.graph
        paired = self.takes_samples(graph)
        for batch in graph.batches:
            work = self.evaluations(batch, paired)
            if work > _MOST:
                discrete = all(isinstance(d, Discrete) for d in batch.domains) or not self.needs_points(batch)
                names = [graph.variables.names[int(i)] for i in batch.scopes[0]]
                return (
                    f"the factor over {names} would be evaluated {work:.1e} times in a step; "
                    f"use {'' if discrete else 'expectation=samples, fewer nodes or '}fewer components"
                )
        return _no_derivative(graph) if self.gradient == "autodiff" else None

    def evaluations(self, batch: FactorBatch, paired: bool) -> float:
        """How often a factor is evaluated in a step; `paired` if real variables are sampled."""
        if not self.needs_points(batch):
            return float(self.components) * math.prod(
                d.size for d in batch.domains if isinstance(d, Discrete)
            )
        work, samples = float(self.components) ** 2, 1
        for domain in batch.domains:
            if isinstance(domain, Discrete):
                work *= domain.size
            elif paired if isinstance(domain, Real) else self.expectation != "particles":
                samples = self.samples
            else:
                work *= self.nodes if isinstance(domain, Real) else self.particles(domain.width)
        return work * samples

    def needs_points(self, batch: FactorBatch) -> bool:
        """Whether its values, or the mutual information of a mixture, are summed over points."""
        return not has_closed_form(batch) or (
            self.components > 1 and self.counting > 0 and len(batch.domains) > 1
        )

    def particles(self, width: int) -> int:
        """Particles of a simplex variable: fewer than coordinates say nothing about a Dirichlet belief."""
        return max(self.nodes, 2 * width)

    def takes_samples(self, graph: FactorGraph) -> bool:
        """Whether real variables are sampled: on request, or if there would be too many points."""
        if self.expectation != "auto":
            return self.expectation == "samples"
        return any(self.evaluations(batch, False) > _MANY for batch in graph.batches)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Ascend from each start; keep the best, and answer from its mixture."""
        graph = problem.graph
        problem = replace(problem, graph=graph)
        if len(graph.variables) == 0:
            return self._constant(problem)
        found = _compiled().solve(problem, self, self.takes_samples(graph), budget, rng)
        return self._read(problem, found, rng)

    def _constant(self, problem: Problem) -> Result:
        """The answer where every variable was observed."""
        variables, value = problem.graph.variables, problem.graph.log_score({})
        if value == -np.inf:
            raise problem.contradiction()
        exact = Estimate(value, "exact")
        empty = np.zeros(0)
        mixture = Surrogate(
            variables, np.zeros(1), np.zeros((0, 1)), np.zeros((0, 1)), np.zeros((0, 1)), {}, exact
        )
        return Result(
            self.name,
            Status.EXACT,
            log_z=exact,
            marginals=Marginals(variables, empty),
            samples=mixture.sample(problem.samples, 0) if problem.samples else None,
            state=mixture,
        )

    def _read(self, problem: Problem, found: Any, rng: np.random.Generator) -> Result:
        mixture: Surrogate = found.mixture
        densities = mixture.marginals.densities | mixture.vectors(problem.vectors)
        result = Result(
            self.name,
            found.status,
            log_z=mixture.log_z,
            marginals=Marginals(mixture.variables, mixture.marginals.flat, densities),
            trace=found.trace,
            state=mixture,
            notes=found.notes,
        )
        if problem.samples:
            return replace(result, samples=mixture.sample(problem.samples, rng))
        if not len(problem.maximised):
            return result
        names = [problem.graph.variables.names[i] for i in problem.maximised]
        best = mixture.maximum(names)
        score = self._score(problem, mixture, best)
        value = replace(score, kind="lower") if score.kind == "exact" else score
        return replace(result, marginals=None, log_z=value, assignment=best, score=score)

    def _score(self, problem: Problem, mixture: Surrogate, best: Assignment) -> Estimate:
        """The weight of an assignment: exact if all variables have a value, otherwise by the mixture."""
        values = {name: _raw(best, name) for name in best}
        if problem.is_max:
            return Estimate(problem.graph.log_score(values), "exact")
        assert mixture.log_z is not None
        return Estimate(mixture.log_z.value + float(mixture.marginal(list(best)).log_density(values)))


def _raw(best: Assignment, name: str) -> Any:
    index = best.index(name)
    return best[name] if index < 0 else index


def _no_derivative(graph: FactorGraph) -> str | None:
    _compiled()
    from ..problem.potentials import is_traceable

    for group in graph.batches:
        if not all(isinstance(d, Discrete) for d in group.domains) and not is_traceable(group):
            factor = graph.factors[int(group.factors[0])]
            return (
                f"the function of the factor over {list(factor.names)} is not written for JAX and has no "
                "derivative; use gradient=score"
            )
    return None


def _compiled() -> Any:
    """The part that needs JAX."""
    try:
        import equinox  # noqa: F401
        import jax  # noqa: F401
        import optax  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"bethe needs the package '{error.name}', which is not installed; "
            'install it with: pip install "credo[neural]"'
        ) from None
    from . import bethe_run

    return bethe_run
