r"""Variational Bayes EM: a distribution over the parameters instead of one best value.

    log p(X) >= F(q_z, q_theta) = E[log p(X, Z | theta)] + H[q_z] - KL(q_theta || prior)

For conjugate-exponential models both steps are in closed form:

    VB-E    q_z     ~ exp E_theta[log p(X, Z | theta)]       the ordinary E-step at E[natural parameters]
    VB-M    q_theta = prior + E_z[sufficient statistics]     the conjugate update
    hyper   prior  <- argmax F                               where asked for

So it is EM on `model.posterior(prior)`, a model whose parameters are distributions. Every step raises F,
which bounds the log evidence from below; the difference is KL(q || posterior). F is known after each E-step
at no cost:

    F = log_weight - divergence,   log_weight = log sum_z exp E_theta[log p(X, z | theta)]

F has many maxima: `restarts` begins anew several times and keeps the best. A fall that rounding cannot
explain ends a run as diverged: it would mean that a family breaks the contract.

Stepwise EM (`batch`) blends statistics of batches, which are natural parameters of q_theta: it is stochastic
variational inference (Hoffman et al. 2013). There F may fall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from types import NoneType
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError
from ..data.stream import Stream
from ..families.conjugates import why_no_conjugate
from ..families.learnable import Learnable
from .base import Fit, Learner, Task, register_learner
from .em_data import batch_of, check_batches
from .em_steps import EMSteps, run_em
from .streams import first_batch
from .vb_factor_analysis import factor_problem, factors_of
from .vb_rows import PosteriorRows, seen_rows
from .vb_steps import Prune, PruningSteps
from .vb_tables import NetworkTables, network_problem, why_not_network

__all__ = ["VariationalBayes", "why_not_posterior"]


def why_not_posterior(model: Any) -> str | None:
    """None if a model of rows has a distribution over its parameters, otherwise the reason."""
    if factors_of(model) is not None:
        return None
    if isinstance(model, Learnable) and hasattr(model, "posterior"):
        return why_no_conjugate(model.emission)
    return (
        "it learns the tables of a BayesNet, and models of rows with conjugate priors, got "
        f"{type(model).__name__}; use em or likelihood"
    )


@register_learner
@dataclass(frozen=True, kw_only=True)
class VariationalBayes(Learner):
    """Distributions over the parameters, by EM on the posterior of a conjugate model.

    Bayesian networks; hidden Markov and semi-Markov models, mixtures and single families of `Categorical`,
    `Gaussian`, `DiagonalGaussian` or `Poisson` rows or products and mixtures of these; `FactorAnalysis`. The
    result is a `Fit`: `model` has the expected parameters, `posterior` the distribution, and `evidence` the
    free energy, a lower bound of the log evidence, which is exact where nothing is hidden or missing.

    Examples
    --------
    >>> import credo
    >>> from credo.learning import fit
    >>> net = credo.BayesNet.random({"rain": 2, "wet": 2}, {"wet": ["rain"]}, seed=0)
    >>> found = fit(net, {"rain": [0, 0, 1, 1], "wet": [0, 0, 1, 0]}, "vb")
    >>> found.model.tables["wet"]
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    >>> print(found.evidence)
    -6.29156914 (exact)
    """

    name: ClassVar[str] = "vb"
    monotone: ClassVar[bool] = True
    checkpoints: ClassVar[bool] = True
    streams: ClassVar[bool] = True
    reads_soft: ClassVar[bool] = True
    tol: ClassVar[float] = 1e-3  # change of an expected parameter, in standard deviations where it is a mean
    prior: Any = None  # networks: uniform, bdeu, towards, or by name; others: HMMPrior, MixturePrior, ...
    start: Literal["auto", "given", "random"] = "auto"  # of the first run; auto breaks symmetries only
    restarts: int = 1  # runs in all; the best is returned
    adapt: Any = ()  # parts (tables of networks) whose hyper-parameters are learned as well; true: all
    prune: Literal["unused", "search", "none"] | None = None  # leave out what no row needs, or can be spared
    fixed: tuple[str, ...] = ()  # children of networks whose tables are not learned
    batch: int | None = None  # rows, or sequences in memory, per M-step of stepwise VB; None: all
    rate: float = 0.6  # how fast stepwise VB forgets, above 0.5 and at most 1

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("start", self.start, ["auto", "given", "random"])
        check.whole("restarts", self.restarts, 1)
        if self.prune is not None:
            check.one_of("prune", self.prune, ["unused", "search", "none"])
        check_batches(self.batch, self.rate)

    def why_not(self, task: Task) -> str | None:
        """Refuses models without conjugate priors, and options that mean nothing for a model."""
        is_divided = self.batch is not None or isinstance(task.data, Stream)
        if is_divided and factors_of(task.model) is not None:
            return "factor analysis takes all rows at once; leave batch out, and give data in memory"
        if is_divided and self.prune not in (None, "none"):
            return "pruning divides all rows anew; leave it out, or batch, and give data in memory"
        return self._why_not_model(task)

    def _why_not_model(self, task: Task) -> str | None:
        if hasattr(type(task.model), "flat_tables"):
            return why_not_network(task)
        if self.fixed:
            return "every part of a model of rows gets a distribution, so fixed must be left out"
        if factors_of(task.model) is not None:
            given = [n for n in ("prior", "adapt") if getattr(self, n)]
            if self.prune == "search" or task.validation is not None or given:
                return "factor analysis has its own priors, which are learned; only restarts and prune=unused"
            if (task.data.weights != 1).any():
                return "rows of factor analysis count once each; leave weights out, or use em"
            return None
        reason = why_not_posterior(task.model)
        if reason is not None:
            return reason
        if not isinstance(self.prior, (*task.model.prior_kinds, NoneType)):
            kinds = " or ".join(kind.__name__ for kind in task.model.prior_kinds)
            return f"{self.prior!r:.80} is no prior of {task.name}; give {kinds}"
        return None

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Climb, and prune where asked to."""
        stream = None
        if isinstance(task.data, Stream):
            stream, task = task.data, replace(task, data=first_batch(task.model, task.data))
        prune: Prune | None = None if self.prune == "none" else self.prune
        problem: Any
        if factors_of(task.model) is not None:
            problem, prune = factor_problem(task.model, task.data, prune == "unused"), None
        else:
            make = self._network if hasattr(type(task.model), "flat_tables") else self._rows
            problem = make(task, stream)
        batch = batch_of(self.batch, task.data, stream)
        kind = EMSteps if prune is None else partial(PruningSteps, prune=prune)
        found = run_em(
            problem, task.budget, rng, name=self.name, restarts=self.restarts, batch=batch, rate=self.rate,
            shown=problem.fit_of, kind=kind,
        )  # fmt: skip
        return problem.fit_of(found)  # type: ignore[no-any-return]

    def _network(self, task: Task, stream: Stream | None) -> NetworkTables:
        names = task.model.variables.names
        return network_problem(
            task, prior=self.prior, fixed=self.fixed, adapts=self._adapts(names), start=self.start,
            stream=stream,
        )  # fmt: skip

    def _rows(self, task: Task, stream: Stream | None) -> PosteriorRows:
        model, data = task.model, task.data
        empty = model.emission.missing(data.rows())
        if empty.all():
            raise DataError("data: expected at least one observed step, got missing ones only")
        data = seen_rows(data, empty)
        blank = model.posterior(self.prior, data)
        return PosteriorRows(
            model, data, held=task.validation, begins=self.start, blank=blank,
            adapts=self._adapts(blank.adaptable), stream=stream,
        )  # fmt: skip

    def _adapts(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The parts to adapt, of those that there are."""
        if isinstance(self.adapt, bool) or self.adapt is None:
            return names if self.adapt else ()
        parts = (self.adapt,) if isinstance(self.adapt, str) else tuple(self.adapt)
        for part in parts:
            check.one_of("adapt", part, names)
        return parts
