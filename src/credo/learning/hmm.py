r"""Baum-Welch: maximum likelihood and MAP estimates of hidden Markov models.

Each iteration collects expected counts under the current model (forward-backward over all sequences) and
puts the parameters that maximise

    E[log p(x, s | parameters)] + log prior(parameters)

in their place, so the objective, log p(x) + log prior, never falls. Variances that are raised to a floor are
the best of those allowed, so that only the first step may fall, from a start with smaller ones. The objective
has many maxima: `restarts` climbs from random models too and keeps the best. Hidden semi-Markov models are
learned by the same steps (`em_steps.py`): anything with `hidden`, `update`, `movement` and `initialise` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError
from ..core.stopwatch import Stopwatch
from ..data.dataset import Dataset
from ..data.stream import Stream
from ..inference.portfolio.templates import total_log_z
from ..models.hmm import HMMPrior
from ..optimise.run import Budget
from .base import Fit
from .em_data import Expected, Place
from .em_steps import EMProblem, EMRun, EMStart, fit_of, run_em
from .hidden_rows import expect_rows
from .vb import warn_unless_converged

__all__ = ["HiddenRows", "baum_welch"]

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
        The sequences; see `data.read_sequences`.
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
        `restarts` holds the final objective of every start.

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
    if model.emission.missing(data.rows()).all():
        raise DataError("data: expected at least one observed step, got missing ones only")
    watch = Stopwatch()
    problem = HiddenRows(model, data, prior, tuple(fixed), floor, unseen)
    found = run_em(
        problem, Budget(max_iter, tol, seconds), check.generator(seed), name="baum-welch", restarts=restarts,
        shown=problem.fit_of,
    )  # fmt: skip
    fit = replace(
        problem.fit_of(found), learner="baum-welch", seconds=watch.seconds,
        compile_seconds=watch.compile_seconds,
    )  # fmt: skip
    warn_unless_converged(fit, "baum-welch", strict, level=3)
    return fit


@dataclass(frozen=True)
class HiddenRows(EMProblem):
    """A model of hidden rows with its sequences; the parameters are models."""

    first: Any  # the model of the first start
    data: Dataset  # to learn from
    prior: HMMPrior | None = None  # for a MAP estimate
    fixed: tuple[str, ...] = ()  # parts that are not learned
    floor: float = 0.0  # of variances
    unseen: Literal["keep", "refuse"] = "keep"  # states that the data never visit
    held: Dataset | None = None  # to watch only
    random: bool = False  # whether the first start is random too
    stream: Stream | None = None  # where all data come from, if `data` are the first batch only

    @property
    def rows(self) -> float:  # type: ignore[override]
        """Steps of data, each counted with the weight of its sequence."""
        return self.data.total_rows if self.stream is None else float(self.stream.n_rows)

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        """The model that was given, then random ones."""
        given = number == 0 and not self.random
        return EMStart(self.first if given else self.first.initialise(self.data, rng, fixed=self.fixed))

    def expect(self, parameters: Any) -> Expected:
        """Forward-backward."""
        found = expect_rows(parameters, self.data)
        return Expected(found.log_likelihood, found)

    def maximise(self, statistics: Any, parameters: Any) -> Any:
        """Parameters from counts."""
        if self.unseen == "refuse":
            self._check_seen(statistics.emission.count)
        return parameters.update(statistics, self.prior, fixed=self.fixed, floor=self.floor)

    def _check_seen(self, visits: np.ndarray) -> None:
        if (visits <= 0).any():
            k = int(np.argmin(visits))
            raise DataError(
                f"state {k}: the data never visit it, so nothing can be learned about it; "
                'use fewer states, or unseen="keep"'
            )

    def movement(self, old: Any, new: Any) -> float:
        """See `HiddenChain.movement`."""
        return float(old.movement(new))

    def log_prior(self, parameters: Any) -> float:
        """Of all parts that have a prior."""
        return 0.0 if self.prior is None else self.prior.log_density(parameters)

    def fall(self, number: int) -> float:
        """A start may have variances below the floor, and then the first step falls."""
        if self.floor > 0 and number == 2:
            return np.inf
        return _FLOOR_FALL if self.floor > 0 else _FALL

    def validate(self, parameters: Any) -> float | None:
        """Per step of the sequences that are watched."""
        if self.held is None:
            return None
        return total_log_z(parameters, self.held) / self.held.total_rows

    def part(self, batch: Dataset) -> HiddenRows:
        """With the sequences of a batch."""
        return replace(self, data=self.first.sequences(batch), stream=None)

    def own_batches(self, size: int, seed: int, place: Place) -> Iterator[tuple[Callable[[Any], Any], Place]]:
        """So many sequences at a time."""
        order = np.random.default_rng(seed).permutation(np.flatnonzero(self.data.weights))
        for end in range((*place, 0)[0] + size, len(order) + size, size):
            part = self.data.take(order[end - size : end])
            yield partial(self._batch, part), (end,) if end < len(order) else ()

    def _batch(self, part: Dataset, parameters: Any) -> Any:
        return expect_rows(parameters, part).scaled(self.rows / part.total_rows)

    def scaled(self, statistics: Any, by: float) -> Any:
        """All of them."""
        return statistics.scaled(by)

    def fit_of(self, found: EMRun) -> Fit:
        """The fit, as far as it is known without more work."""
        fit = fit_of(self, found)
        if len(found.values) < 2:
            return fit
        told = f"the best of {len(found.values)} starts; their objectives per step: "
        ends = (found.values / self.rows).round(6).tolist()
        return replace(fit, notes=(*fit.notes, f"{told}{ends}"))
