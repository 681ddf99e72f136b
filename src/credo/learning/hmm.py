r"""Baum-Welch: maximum likelihood and MAP estimates of hidden Markov models.

Each iteration collects expected counts under the current model (forward-backward over all sequences) and
puts the parameters that maximise

    E[log p(x, s | parameters)] + log prior(parameters)

in their place, so the objective, log p(x) + log prior, never falls. Variances that are raised to a floor are
the best of those allowed, so that only the first step may fall, from a start with smaller ones. The objective
has many maxima: `restarts` climbs from random models too and keeps the best. Hidden semi-Markov models are
learned by the same loop: anything with `hidden`, `maximise`, `movement` and `perturbed` is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import DataError
from ..core.result import Estimate, Status
from ..core.stopwatch import Stopwatch
from ..models.hmm import HMMPrior
from ..optimise.budgets import with_start
from ..optimise.driver import UNKNOWN, Outcome, Step, drive
from ..optimise.run import Budget, Run
from .base import Fit
from .hidden_rows import expect_rows
from .runs import arrays
from .vb import warn_unless_converged

__all__ = ["baum_welch"]

_FALL = 1e-9  # relative fall of the objective that rounding explains
_FLOOR_FALL = 1e-6  # the same where variances are at a floor far below those of other directions


def baum_welch(  # noqa: PLR0913, the options of one learner
    model: Any,
    x: Any,
    lengths: Any = None,
    *,
    mask: Any = None,
    prior: HMMPrior | None = None,
    fixed: tuple[str, ...] = (),
    floor: float = 0.0,
    unseen: Literal["keep", "refuse"] = "keep",
    restarts: int = 1,
    max_iter: int = 1000,
    tol: float = 1e-4,
    seconds: float | None = None,
    seed: int | None = None,
    strict: bool = False,
) -> Fit:
    """Fit a hidden Markov model, or a hidden semi-Markov model, to sequences.

    Parameters
    ----------
    model
        Where learning starts; zeros of its start and transition probabilities stay zeros.
    x, lengths, mask
        The sequences; see `HMM.posterior`.
    prior
        Conjugate priors for a MAP estimate; None is maximum likelihood.
    fixed
        Parts that are not learned: `"start"`, `"transition"`, `"durations"`, `"emission"`.
    floor
        Variances of Gaussian emissions below this are raised to it.
    unseen
        What becomes of a state that the data never visit: `"keep"` its parameters, or `"refuse"`.
    restarts
        How many starts; the first is `model`, the others are random.
    max_iter, tol, seconds
        When to stop: iterations of each start, the largest change of a parameter that counts as none
        (probabilities as they are, means in standard deviations), wall time.
    seed
        Of the random starts.
    strict
        Raise `ConvergenceError` instead of warning when the best start did not converge.

    Returns
    -------
    Fit
        Objective and trace per step of data, at the start and after each iteration of the best start;
        `trace["restarts"]` holds the final objective of every start.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families import Categorical
    >>> from credo.learning.hmm import baum_welch
    >>> from credo.models.hmm import HMM
    >>> start = HMM([0.5, 0.5], [[0.6, 0.4], [0.3, 0.7]], Categorical([[0.7, 0.3], [0.4, 0.6]]))
    >>> found = baum_welch(start, [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1] * 5, max_iter=300)
    >>> found.converged, bool(np.all(np.diff(found.objective) >= -1e-12))
    (True, True)
    """
    check.whole("restarts", restarts, 1)
    check.at_least("floor", floor, 0)
    check.one_of("unseen", unseen, ["keep", "refuse"])
    data = model.sequences(x, lengths, mask)
    if model.emission.missing(data.rows).all():
        raise DataError("data: expected at least one observed step, got missing ones only")
    watch, budget = Stopwatch(), with_start(Budget(max_iter, tol, seconds))
    steps = _Steps(model, prior, tuple(fixed), floor, unseen)
    found = drive(steps, data, budget, check.generator(seed), restarts=restarts)
    found = replace(found, seconds=watch.seconds, compile_seconds=watch.compile_seconds)
    warn_unless_converged(found, steps.name, strict, level=3)
    return found  # type: ignore[no-any-return]


class _State(NamedTuple):
    """A model, and what the data say about it."""

    model: Any
    statistics: Any = None  # expected counts; None before the first pass over the data
    objective: float = -np.inf
    number: int = 0  # passes so far


@dataclass(frozen=True)
class _Steps:
    """Baum-Welch as the driver sees it: parameters from counts, then counts; the first step only counts.

    The residual is the largest change of a parameter, see `HiddenChain.movement`: on a plateau the objective
    hardly gains while the parameters still travel.
    """

    first: Any  # the model of the first start
    prior: HMMPrior | None
    fixed: tuple[str, ...]
    floor: float
    unseen: Literal["keep", "refuse"]
    name: ClassVar[str] = "baum-welch"

    def start(self, data: Any, run: Run) -> Step:
        return Step(_State(self.first.perturbed(data, seed=run.rng) if run.number else self.first))

    def advance(self, data: Any, state: _State, run: Run) -> Step:
        model, rows = state.model, len(data.rows)
        if state.statistics is not None:
            self._check_seen(state.statistics)
            model = model.maximise(state.statistics, self.prior, fixed=self.fixed, floor=self.floor)
        statistics = expect_rows(model, data)
        likelihood = statistics.log_likelihood
        objective = likelihood + (0.0 if self.prior is None else self.prior.log_density(model))
        new = _State(model, statistics, objective, state.number + 1)
        trace = {"objective": [objective], "log_likelihood": [likelihood]}
        gain = (objective - state.objective) / rows
        if not np.isfinite(state.objective):
            return Step(new, [UNKNOWN], trace)
        fell = gain < -(_FLOOR_FALL if self.floor else _FALL) * max(1.0, abs(objective) / rows)
        if fell and state.number == 1 and self.floor > 0:  # a start may have variances below the floor
            return Step(new, [UNKNOWN], trace)
        residual = min(state.model.movement(model), UNKNOWN)
        return Step(new, [residual], trace, Status.DIVERGED if fell else None)

    def _check_seen(self, statistics: Any) -> None:
        if self.unseen == "keep":
            return
        visits = statistics.emission.count
        if (visits <= 0).any():
            k = int(np.argmin(visits))
            raise DataError(
                f"state {k}: the data never visit it, so nothing can be learned about it; "
                'use fewer states, or unseen="keep"'
            )

    def value(self, state: _State) -> float:
        return state.objective

    def parameters(self, data: Any, state: _State) -> Any:
        return state.model

    def read(self, data: Any, outcome: Outcome) -> Fit:
        rows, state = len(data.rows), outcome.state
        ends = np.array(outcome.values or [state.objective]) / rows
        curves = arrays(outcome.trace, ["objective", "log_likelihood"])
        notes: tuple[str, ...] = ()
        if len(ends) > 1:
            notes = (f"the best of {len(ends)} starts; their objectives per step: {ends.round(6).tolist()}",)
        return Fit(
            state.model, outcome.ended, curves["objective"] / rows,
            None if state.statistics is None else Estimate(state.statistics.log_likelihood, "exact"),
            {"log_likelihood": curves["log_likelihood"] / rows, "restarts": ends},
            self.name, notes=notes,
        )  # fmt: skip
