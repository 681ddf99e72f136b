r"""Variational Bayes for hidden Markov models with conjugate emissions.

    start ~ Dirichlet,  every row of the transition matrix ~ Dirichlet,  emission of every state ~ prior

    VB-E   forward-backward with exp E[log start], exp E[log transition], E[log p(x_t | theta_k)];
           none of them is normalised, and the kernels do not mind
    VB-M   priors + expected first states, transitions, and statistics

Missing steps, or coordinates, are summed out. Transitions that are zero in the model are impossible and stay
so. A small concentration of the transition rows leaves states that the data do not need without visits;
`prune` removes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import DataError, ModelError
from ..core.records import register
from ..core.stopwatch import Stopwatch
from ..data.dataset import Dataset
from ..families.dirichlet_rows import DirichletRows
from ..inference.exact.hidden_rows import smooth_rows
from ..inference.problem.base import Budget
from ..kernels.scaled_chains import smooth_chains
from ..models.hmm import HMM, HMMPrior
from ..optimise.run import noted
from .base import Fit
from .em_data import Expected
from .em_steps import EMStart
from .vb import Prune, VariationalModel, pruner, report, run_vb
from .vb_priors import adapted, best_symmetric, check_prior, default_prior, expected_log_density, updated

__all__ = ["HMMPosterior", "vb_hmm"]

_ALIKE = 1e-12  # difference of the probabilities of states below which they are equal


@register("HMMPosterior")
@dataclass(frozen=True)
class HMMPosterior:
    """The distribution over the parameters of a hidden Markov model, and the prior it came from."""

    start: DirichletRows  # one row
    transition: DirichletRows  # one row per state
    emission: Any  # conjugate posterior, one member per state
    start_prior: DirichletRows  # in the same form
    transition_prior: DirichletRows  # in the same form
    emission_prior: Any  # one member, or one per state

    @property
    def states(self) -> int:
        """How many hidden states there are."""
        return len(self.emission)

    def mean(self) -> HMM:
        """The model with expected parameters."""
        k = self.states
        return HMM(self.start.mean(), self.transition.mean().reshape(k, k), self.emission.mean())

    def sample(self, rng: np.random.Generator) -> HMM:
        """A model with parameters drawn at random."""
        k = self.states
        steps = self.transition.sample(rng).reshape(k, k)
        return HMM(self.start.sample(rng), steps, self.emission.sample(rng))

    def divergence(self) -> float:
        """KL to the prior."""
        chain = self.start.kl(self.start_prior).sum() + self.transition.kl(self.transition_prior).sum()
        return float(chain + self.emission.kl(self.emission_prior.repeat(self.states)).sum())

    def take(self, kept: np.ndarray) -> HMMPosterior:
        """Some of the states."""
        k, prior = self.states, self.emission_prior

        def square(rows: DirichletRows) -> DirichletRows:
            part = rows.concentration.reshape(k, k)[np.ix_(kept, kept)]
            return DirichletRows(part.ravel(), np.full(len(kept), len(kept)))

        def line(rows: DirichletRows) -> DirichletRows:
            return DirichletRows(rows.concentration[kept], [len(kept)])

        return HMMPosterior(
            line(self.start),
            square(self.transition),
            self.emission.take(kept),
            line(self.start_prior),
            square(self.transition_prior),
            prior if len(prior) == 1 else prior.take(kept),
        )

    def __repr__(self) -> str:
        return f"HMMPosterior({self.states} states, {self.emission!r})"


class _Counts(NamedTuple):
    start: np.ndarray  # (states,)
    transition: np.ndarray  # (states, states)
    marginals: np.ndarray  # (positions, states)


@dataclass(frozen=True)
class _Chains(VariationalModel):
    """A hidden Markov model with its data."""

    model: HMM  # where the first run begins
    data: Dataset  # to learn from
    blank: HMMPosterior  # the prior
    adapts: tuple[str, ...] = ()

    @property
    def rows(self) -> float:  # type: ignore[override]
        return self.data.total_rows

    @cached_property
    def missing(self) -> np.ndarray:
        """Steps that observe nothing, (positions,)."""
        return self.model.emission.missing(self.data.rows())  # type: ignore[no-any-return]

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        model, data = self.model, self.data
        found = smooth_rows((model if number == 0 else model.initialise(data, rng)).instantiate(data))
        if model.states > 1 and np.ptp(found.marginals, axis=1).max() < _ALIKE:
            # Equal states would never part.
            found = smooth_rows(model.initialise(data, rng).instantiate(data))
        return EMStart(self.maximise(self.counts(found.marginals, found.counts["transition"]), self.blank))

    def expect(self, q: HMMPosterior) -> Expected:
        k = q.states
        first, steps = np.exp(q.start.expected_log), np.exp(q.transition.expected_log).reshape(k, k)
        scores = expected_log_density(q.emission, self.data.rows())
        scores[self.missing] = 0.0
        weights = self.data.weights
        found = smooth_chains(first, steps, np.ascontiguousarray(scores), self.data.begin, weight=weights)
        return Expected(float(weights @ found.log_z), self.counts(found.marginals, found.pairs))

    def counts(self, marginals: np.ndarray, pairs: np.ndarray) -> _Counts:
        filled = self.data.begin[:-1][self.data.lengths > 0]
        weighed = marginals * self.data.row_weights[:, None]
        return _Counts(weighed[filled].sum(axis=0), pairs, weighed)

    def divergence(self, q: HMMPosterior) -> float:
        return q.divergence()

    def maximise(self, statistics: _Counts, q: HMMPosterior) -> HMMPosterior:
        # Steps that observe nothing tell about the chain, not about the emission.
        weights = np.where(self.missing[:, None], 0.0, statistics.marginals)
        return replace(
            q,
            start=q.start_prior.posterior(_possible(q.start_prior, statistics.start)),
            transition=q.transition_prior.posterior(
                _possible(q.transition_prior, statistics.transition.ravel())
            ),
            emission=updated(q.emission_prior, q.emission, self.data.rows(), weights),
        )

    def adapt(self, q: HMMPosterior) -> HMMPosterior:
        if "emission" in self.adapts:
            q = replace(q, emission_prior=adapted(q.emission_prior, q.emission))
        if "transition" in self.adapts:
            rows = q.transition.expected_log.reshape(q.states, q.states)
            best = best_symmetric(rows)
            old = q.transition_prior.concentration
            q = replace(
                q, transition_prior=q.transition_prior.with_concentration(np.where(old > 0, best, 0.0))
            )
        return q

    def numbers(self, q: HMMPosterior) -> dict[str, float]:
        return {"states": float(q.states)}

    def sizes(self, q: HMMPosterior) -> np.ndarray:
        return self.expect(q).statistics.marginals.sum(axis=0)

    def fewer(self, q: HMMPosterior, kept: np.ndarray) -> HMMPosterior | None:
        """The model of some states; None if one of them could only go to one that is not left."""
        try:
            left = q.take(kept)
            return self.maximise(self.expect(left).statistics, left)
        except ModelError:
            return None


def _possible(prior: DirichletRows, counts: np.ndarray) -> np.ndarray:
    return np.where(prior.concentration > 0, counts, 0.0)


@noted
def vb_hmm(
    model: HMM,
    x: Any,
    lengths: Any = None,
    *,
    mask: Any = None,
    prior: HMMPrior | None = None,
    adapt: tuple[str, ...] = (),
    prune: Prune = "none",
    restarts: int = 1,
    max_iter: int = 500,
    tol: float = 1e-5,
    seconds: float | None = None,
    seed: int | None = None,
    strict: bool = False,
) -> Fit:
    """Fit a hidden Markov model by variational Bayes.

    Parameters
    ----------
    model
        Where learning starts; zeros of its start and transition probabilities stay zeros.
    x, lengths, mask
        The sequences; see `data.read_sequences`.
    prior
        Dirichlet priors of start and transition rows, conjugate prior of the emission; what is None
        gets a default: one count per state, and a weak prior at the scale of the data.
    adapt
        Hyper-parameters to be learned as well: `"transition"` (one concentration for all rows),
        `"emission"`.
    prune
        Whether to remove unused states, to search for ones that are not needed, or none.
    restarts, seed
        How many starts, and the seed of all but the first, which are random.
    max_iter, tol, seconds
        When a climb stops; `tol` is the largest change of an expected parameter that
        counts as none, in standard deviations where it is a mean.
    strict
        Raise `ConvergenceError` instead of warning when the best start did not converge.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families import Categorical
    >>> from credo.learning.vb_hmm import vb_hmm
    >>> from credo.models.hmm import HMM
    >>> start = HMM([0.5, 0.5], [[0.6, 0.4], [0.3, 0.7]], Categorical([[0.7, 0.3], [0.4, 0.6]]))
    >>> found = vb_hmm(start, [0, 0, 0, 1, 1, 1] * 10)
    >>> found.converged, found.evidence.kind, bool(np.all(np.diff(found.objective) > -1e-9))
    (True, 'lower', True)
    """
    for part in adapt:
        check.one_of("adapt", part, ["transition", "emission"])
    if type(model) is not HMM:
        raise ModelError(f"vb_hmm: expected an HMM, got {type(model).__name__}; use em for others")
    watch = Stopwatch()
    data = model.sequences(x, lengths, mask)
    problem = _Chains(model, data, _blank(model, data, prior), tuple(adapt))
    if problem.missing.all():
        raise DataError("data: expected at least one observed step, got missing ones only")
    best = run_vb(
        problem, Budget(max_iter, tol, seconds), check.generator(seed), name="vb-hmm", restarts=restarts,
        refine=pruner(problem.sizes, problem.fewer, prune),
    )  # fmt: skip
    left = best.parameters.states
    notes = (f"{left} of {model.states} states are used",) if left < model.states else ()
    return report(problem, best, label="vb-hmm", watch=watch, strict=strict, notes=notes)


def _blank(model: HMM, data: Dataset, prior: HMMPrior | None) -> HMMPosterior:
    """The prior as a posterior of no data."""
    k, given = model.states, prior or HMMPrior()
    first = np.ones(k) if given.start is None else given.start.repeat(1).concentration[0]
    steps = np.ones((k, k)) if given.transition is None else given.transition.repeat(k).concentration
    for name, found, shape in (("start", first, (k,)), ("transition", steps, (k, k))):
        if found.shape != shape:
            raise ModelError(f"prior of {name}: expected {k} states, got {found.shape[-1]}")
    start = DirichletRows(np.where(model.start > 0, first, 0.0), [k])
    transition = DirichletRows(np.where(model.transition > 0, steps, 0.0).ravel(), np.full(k, k))
    if given.emission is None:
        emission = default_prior(model.emission, data.rows())
    else:
        emission = check_prior(given.emission, model.emission)
    return HMMPosterior(start, transition, emission.repeat(k), start, transition, emission)
