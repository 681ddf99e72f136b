r"""Baum-Welch: maximum likelihood and MAP estimates of hidden Markov models.

Each iteration collects expected counts under the current model (forward-backward over all sequences) and
puts the parameters that maximise

    E[log p(x, s | parameters)] + log prior(parameters)

in their place, so the objective, log p(x) + log prior, never falls. Variances that are raised to a floor are
the best of those allowed, so that only the first step may fall, from a start with smaller ones. The objective
has many maxima: `restarts` climbs from random models too and keeps the best. Hidden semi-Markov models are
learned by the same loop: anything with `collect`, `maximise` and `perturbed` is.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import ConvergenceError, ConvergenceWarning, DataError
from ..core.progress import Progress
from ..core.result import Estimate, Status
from ..core.stopwatch import Stopwatch
from ..inference.base import Budget
from ..models.hmm import HMMPrior
from .base import Fit

__all__ = ["baum_welch"]

_FALL = 1e-9  # relative fall of the objective that rounding explains
_FLOOR_FALL = 1e-6  # the same where variances are at a floor far below those of other directions


@dataclass
class _Climb:
    """One run from one start: the curve, and the best model so far."""

    model: Any
    objective: list[float] = field(default_factory=list)
    log_likelihood: list[float] = field(default_factory=list)
    status: Status = Status.OUT_OF_ITERATIONS


@dataclass(frozen=True)
class _Options:
    prior: HMMPrior | None
    fixed: tuple[str, ...]
    floor: float
    unseen: Literal["keep", "refuse"]


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
    max_iter: int = 100,
    tol: float = 1e-6,
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
        When to stop: iterations of each start, the gain of the objective per step of data that counts as
        none, wall time.
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
    rng = check.generator(seed)
    clock, watch = time.perf_counter(), Stopwatch()
    budget = Budget(max_iter, tol, seconds)
    options = _Options(prior, tuple(fixed), floor, unseen)
    climbs: list[_Climb] = []
    with Progress("baum-welch", restarts * max_iter) as bar:
        for number in range(restarts):
            first = model if number == 0 else model.perturbed(data, seed=rng)
            climb = _Climb(first)
            climbs.append(climb)
            climb.status = _run(climb, data, options, budget, clock, bar, number)
            if climb.status in (Status.INTERRUPTED, Status.OUT_OF_TIME):
                break
    best = max(climbs, key=lambda c: c.objective[-1] if c.objective else -np.inf)
    status = climbs[-1].status if climbs[-1].status is Status.INTERRUPTED else best.status
    return _report(best, climbs, status, len(data.rows), watch, strict)


def _run(
    climb: _Climb, data: Any, options: _Options, budget: Budget, clock: float, bar: Progress, number: int
) -> Status:
    """Iterate; the model of `climb` is always one whose objective is the last of its curve."""
    try:
        statistics = climb.model.collect(data)
        _record(climb, statistics, options)
        for done in range(budget.max_iter):
            _check_seen(statistics, options)
            new = climb.model.maximise(statistics, options.prior, fixed=options.fixed, floor=options.floor)
            statistics = new.collect(data)
            climb.model = new
            gain = _record(climb, statistics, options) / len(data.rows)
            bar.update(number * budget.max_iter + done + 1, f"{climb.objective[-1]:.6g}")
            scale = max(1.0, abs(climb.objective[-1]) / len(data.rows))
            fell = gain < -(_FLOOR_FALL if options.floor else _FALL) * scale
            raised = fell and done == 0 and options.floor > 0  # a start may have variances below the floor
            if fell and not raised:
                return Status.DIVERGED
            if gain < budget.tol and not raised:
                return Status.CONVERGED
            if budget.seconds is not None and time.perf_counter() - clock > budget.seconds:
                return Status.OUT_OF_TIME
    except KeyboardInterrupt:
        return Status.INTERRUPTED
    return Status.OUT_OF_ITERATIONS


def _record(climb: _Climb, statistics: Any, options: _Options) -> float:
    """Note log-likelihood and objective of the current model; returns the gain."""
    value = statistics.log_likelihood
    climb.log_likelihood.append(value)
    if options.prior is not None:
        value += options.prior.log_density(climb.model)
    before = climb.objective[-1] if climb.objective else -np.inf
    climb.objective.append(value)
    return value - before


def _check_seen(statistics: Any, options: _Options) -> None:
    if options.unseen == "keep":
        return
    visits = statistics.emission.count
    if (visits <= 0).any():
        k = int(np.argmin(visits))
        raise DataError(
            f"state {k}: the data never visit it, so nothing can be learned about it; "
            'use fewer states, or unseen="keep"'
        )


def _report(
    best: _Climb, climbs: list[_Climb], status: Status, rows: int, watch: Stopwatch, strict: bool
) -> Fit:
    ends = np.array([c.objective[-1] if c.objective else -np.inf for c in climbs]) / rows
    trace = {"log_likelihood": np.array(best.log_likelihood) / rows, "restarts": ends}
    notes: tuple[str, ...] = ()
    if len(climbs) > 1:
        notes = (f"the best of {len(climbs)} starts; their objectives per step: {ends.round(6).tolist()}",)
    value = Estimate(best.log_likelihood[-1], "exact") if best.log_likelihood else None
    found = Fit(
        best.model,
        status,
        np.array(best.objective) / rows,
        value,
        trace,
        "baum-welch",
        watch.seconds,
        notes,
        compile_seconds=watch.compile_seconds,
    )
    if not status.is_success:
        if strict:
            raise ConvergenceError(f"baum-welch: {found.advice}")
        warnings.warn(f"baum-welch: {found.advice}", ConvergenceWarning, stacklevel=3)
    return found
