r"""Kernel belief propagation on a given model: learned from draws, told the rest.

Kernel belief propagation learns its messages from joint rows of all variables and cannot read a potential
(see `credo.learning.KernelBP` for data of your own). Here the rows are drawn from the model with its unary
factors phi_i raised to a power `temper`,

    q(x) ~ prod_ij psi_ij(x_i, x_j) prod_i phi_i(x_i)^temper,

and the rest of the unary factors, phi_i^(1 - temper), is what was observed about the variables:

    m_{t->s}(x) = E_q[ phi_t(X_t)^(1 - temper) prod_{u != s} m_{u->t}(X_t) | X_s = x ]
    b_s(x)      = q_s(x) phi_s(x)^(1 - temper) prod_u m_{u->s}(x)

Conditional expectations are kernel ridge regressions and q_s a Parzen density. With temper=1 nothing is
left to infer and the beliefs are those of the draws; a smaller power asks more of the messages and less of
the sampler, until q has no finite integral. On trees the answer becomes exact with many draws and a small
ridge; on loopy graphs it tends to a fixed point of belief propagation. Beliefs may be negative in places
and are cut there; log Z is not estimated.

The sampler decides the cost, and what modes are found. A sweep costs (draws) x (rank) per message.

Source: Song, Gretton, Bickson, Low and Guestrin (2011).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core import check
from ...core.density import DensityFactor, GaussianFactor, namespace
from ...core.errors import ModelError, UnsupportedError
from ...core.factor import Factor, TableFactor
from ...core.factor_graph import FactorGraph
from ...core.result import Result, Samples, Status
from ...optimise.run import Run, Stopped, unwatched
from ..problem.base import Algorithm, Budget, Problem, algorithms, register
from ..problem.reading import able, pose_for
from ..problem.starting_places import starting_places
from .cloud import without_variables
from .pairs import ParticlePairs, why_not_pairs

if TYPE_CHECKING:
    from .kernel_messages import KernelField, Likelihood

__all__ = ["DrawnKernelBP", "Tempered"]


@dataclass(frozen=True)
class Tempered:
    """A log-potential times a number."""

    function: Callable[..., Any]  # the log-potential
    power: float  # the number

    def __call__(self, *arguments: Any) -> Any:
        """The log-potential of a power of the factor; where that is zero, so are its powers."""
        values = self.function(*arguments)
        xp, is_zero = namespace(values), values == -np.inf
        return xp.where(is_zero, -np.inf, self.power * xp.where(is_zero, 0.0, values))


_FEW_DRAWS, _FEW = "gibbs(warmup=5, chains=2)", 20  # where the time ends before there are any draws
_SAMPLERS = ("gaussian", "conditional-gaussian", "nuts", "gibbs")  # the first that can draws, unless told


@register
@dataclass(frozen=True, kw_only=True)
class DrawnKernelBP(Algorithm):
    """Belief propagation in reproducing kernel Hilbert spaces, learned from draws.

    Examples
    --------
    >>> import credo
    >>> model = credo.GaussianNet([[2.0, -1.0], [-1.0, 2.0]], [3.0, 0.0])
    >>> found = credo.infer(model, "kernel-bp", seed=0)
    >>> bool(abs(found.marginals["x0"].mean - 2.0) < 0.2)
    True
    """

    name: ClassVar[str] = "kernel-bp"
    samples: int = 1000  # draws to learn from
    sampler: str | None = None  # how they are made; None: as credo.sample would
    temper: float = 0.8  # power of the unary factors in what is drawn from
    width: float = 0.5  # of the kernels, in median distances of the draws
    ridge: float = 1e-3  # weight of the regulariser
    rank: int | None = None  # of the features of a variable; None: as many as the kernel has

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("samples", self.samples, 10)
        check.in_range("temper", self.temper, 0, 1 + 1e-12)
        check.at_least("width", self.width, 0)
        check.at_least("ridge", self.ridge, 0)
        if self.rank is not None:
            check.whole("rank", self.rank, 1)

    def why_not(self, problem: Problem) -> str | None:
        """Sums over pairwise models."""
        return why_not_pairs(problem.graph)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Draw, learn and pass messages."""
        nothing = without_variables(self.name, problem)
        if nothing is not None:
            return nothing
        starting_places(problem.graph)  # refuses a model that has no integral
        with Run(budget, rng, whole=False) as run:
            samples, told, cut = self._draws(problem, rng)
            run.has_begun = False  # before there is a field, only a signal ends the learning
            with nullcontext() if cut is None else unwatched():  # draws that were cut are learned from
                field = self._learn(problem, samples)
            run.has_begun = True
            result = self._sweeps(problem, field, budget, cut)
        return replace(result, notes=(*told, *result.notes))

    def _learn(self, problem: Problem, samples: Samples) -> KernelField:
        """What messages need to know of the draws."""
        from .kernel_messages import KernelColumn, KernelField

        columns = [
            KernelColumn.of(
                v.name,
                samples.column(v.name).astype(np.float64),
                v.size if v.is_discrete else 0,
                self.width,
                self.ridge,
                self.rank,
            )
            for v in problem.graph.variables
        ]
        return KernelField(columns, ParticlePairs(problem.graph).ends)

    def _sweeps(self, problem: Problem, field: KernelField, budget: Budget, cut: Status | None) -> Result:
        """What messages learned from the draws say."""
        from .kernel_sweeps import infer_field

        known: dict[int, Likelihood] = {
            i: partial(_likelihood, own, 1 - self.temper) for i, own in _unary(problem.graph).items()
        }
        return infer_field(self.name, problem.graph.variables, field, {}, known, budget, cut)

    def _draws(
        self, problem: Problem, rng: np.random.Generator
    ) -> tuple[Samples, tuple[str, ...], Status | None]:
        """Rows of the tempered model, a sentence about how they were made, and what cut the drawing short."""
        graph = problem.graph
        factors = [_temper(f, self.temper) if len(f.scope) == 1 else f for f in graph.factors]
        problem = Problem.about(FactorGraph(graph.variables, factors), samples=self.samples)
        name = next(iter(able(problem, _SAMPLERS)), "gibbs") if self.sampler is None else self.sampler
        algorithm = algorithms.resolve(name)
        posed = pose_for(algorithm, problem)
        reason = posed if isinstance(posed, str) else algorithm.why_not(posed.problem)
        if isinstance(posed, str) or reason is not None:
            raise UnsupportedError(f"{self.name}: {algorithm.name} cannot draw from this model: {reason}")
        try:
            found = algorithm.run(posed.problem, Budget(), rng)  # ends with the run around it
        except Stopped as stopped:
            if stopped.status is not Status.OUT_OF_TIME:
                raise
            with unwatched():  # a few draws are the least to learn from
                found = algorithms.resolve(_FEW_DRAWS).run(replace(problem, samples=_FEW), Budget(), rng)
            found = found.but(status=Status.OUT_OF_TIME)
        except ModelError as error:
            raise ModelError(
                f"{self.name} draws from the model with its unary factors to the power {self.temper:g}: "
                f"{error}; or raise temper"
            ) from None
        if found.samples is None:
            raise UnsupportedError(f"{self.name}: {algorithm.name} draws no samples; use gibbs or nuts")
        told = f"learned from {len(found.samples)} draws by {algorithm.name}: {found.status.value}"
        cut = found.status if found.status in (Status.INTERRUPTED, Status.OUT_OF_TIME) else None
        return found.samples, (told,), cut


def _temper(factor: Factor, power: float) -> Factor:
    if isinstance(factor, GaussianFactor):
        return GaussianFactor(
            factor.scope, power * factor.precision, power * factor.shift, power * factor.constant
        )
    if isinstance(factor, TableFactor):
        zero = np.isneginf(factor.log_table)
        return TableFactor.from_log(
            factor.scope, np.where(zero, -np.inf, power * np.where(zero, 0.0, factor.log_table))
        )
    return DensityFactor(factor.scope, Tempered(factor.function, power), *factor.parameters)


def _unary(graph: FactorGraph) -> dict[int, list[Factor]]:
    found: dict[int, list[Factor]] = {}
    for factor, scope in zip(graph.factors, graph.scopes, strict=True):
        if len(scope) == 1:
            found.setdefault(int(scope[0]), []).append(factor)
    return found


def _likelihood(factors: list[Factor], power: float, values: np.ndarray) -> np.ndarray:
    """The product of factors to a power at values, up to a constant."""
    column = values.astype(np.int64) if factors[0].scope[0].is_discrete else values
    total: Any = sum(f.log_values(column) for f in factors)
    top = total.max(initial=-np.inf)
    if power == 0 or np.isneginf(top):
        return np.where(np.isneginf(total), 0.0, 1.0)
    return np.exp(power * (total - top))
