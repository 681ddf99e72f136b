r"""Variational Bayes for models of hidden rows: EM on `model.posterior(prior)`.

    start ~ Dirichlet,  every row of the transition matrix ~ Dirichlet,  emission of every state ~ prior
    pi ~ Dirichlet or a broken stick,  every component ~ prior

    E   the one of EM, `expect_rows`: forward-backward, or responsibilities, under expected log densities
    M   `posterior.update`: priors + expected first states, transitions, and statistics

Missing steps, or coordinates, are summed out. Transitions that are zero in the model are impossible and stay
so. A small concentration leaves states that the data do not need without rows; pruning removes them, which
raises F: the smaller model explains the same with fewer parameters. VB by itself does not merge two states
that share one cluster; a search does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..core.errors import ModelError
from ..core.result import Kind, Status
from ..data.dataset import Dataset
from ..families.independent import IndependentRows
from ..families.mixture import Mixture
from ..families.starts import distant_members
from ..inference.exact.hidden_rows import smooth_rows
from .base import Fit
from .em_steps import EMRun, EMStart
from .hidden_rows import ExpectedHidden, expect_rows
from .hmm import HiddenRows
from .vb_steps import Prunable, posterior_fit

__all__ = ["PosteriorRows", "seen_rows"]

_ALIKE = 1e-12  # difference of the probabilities of states below which they are equal


@dataclass(frozen=True)
class PosteriorRows(Prunable, HiddenRows):
    """A model of hidden rows with its data; the parameters are posteriors."""

    blank: Any = None  # the prior, as a posterior of no data
    adapts: tuple[str, ...] = ()  # parts whose hyper-parameters are learned
    begins: Literal["auto", "given", "random"] = "auto"  # the first run

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        """The posterior of the states that a model expects: the one that was given, or a random one."""
        found, model = None, self.first
        if number == 0 and self.begins != "random":
            instance = model.instantiate(self.data)
            found = smooth_rows(instance)
            alike = self.blank.states > 1 and np.ptp(found.marginals, axis=1).max() < _ALIKE
            if alike and self.begins == "auto":
                found = None  # equal states would never part
        if found is None:
            model = self._random(rng)
            instance = model.instantiate(self.data)
            found = smooth_rows(instance)
        weights = instance.weigh_rows(found.marginals)
        told = self.blank.emission.expect_under(model.emission, self.data.rows(), weights)
        expected = ExpectedHidden(found.counts, told, 0.0)  # of a stream those of its first batch
        return EMStart(self.blank.update(expected.scaled(self.rows / self.data.total_rows)))

    def _random(self, rng: np.random.Generator) -> Any:
        """A random model; of independent rows with components that are at home among some of them."""
        if self.blank.structure != "independent" or self.blank.states == 1:
            return self.first.initialise(self.data, rng)
        members = distant_members(self.first.emission, self.data.rows(), rng)
        return IndependentRows(Mixture(np.full((1, len(members)), 1.0 / len(members)), members))

    def part(self, batch: Dataset) -> Any:
        """With the sequences, or rows that observe something, of a batch."""
        data = self.first.sequences(batch)
        return self._of(seen_rows(data, self.first.emission.missing(data.rows())))

    def is_closed_form(self) -> bool:
        """Whether there is nothing to choose and nothing to fill in."""
        if self.stream is not None:
            return False
        is_sure = self.blank.states == 1 and self.blank.structure != "segments" and not self.adapts
        return is_sure and self.blank.emission.is_closed and self.data.is_complete

    def maximise(self, statistics: ExpectedHidden, parameters: Any) -> Any:
        """The conjugate update."""
        return parameters.update(statistics)

    def adapt(self, parameters: Any) -> Any:
        """Hyper-parameters under which F is highest."""
        return parameters.match(self.adapts) if self.adapts else parameters

    def numbers(self, parameters: Any) -> dict[str, float]:
        """How many states there are."""
        return {f"{parameters.state_name}s": float(parameters.states)}

    def validate(self, parameters: Any) -> float | None:
        """Under expected parameters."""
        return super().validate(parameters.mean())

    def sizes(self, parameters: Any, statistics: ExpectedHidden) -> np.ndarray:
        """Rows that each state explains."""
        return np.asarray(statistics.emission.count)

    def fewer(self, parameters: Any, kept: np.ndarray) -> Any:
        """With all rows divided among the states that are left; None if one of them cannot be left alone."""
        try:
            left = parameters.take(kept)
            return left.update(expect_rows(left, self.data))
        except ModelError:
            return None

    def fit_of(self, found: EMRun) -> Fit:
        """The fit, as far as it is known without more work."""
        fit, left, most = super().fit_of(found), found.parameters.states, self.blank.states
        told = [f"{left} of {most} {self.blank.state_name}s are used"] if left < most else []
        kind: Kind = "exact" if found.status is Status.EXACT else "lower"
        return posterior_fit(replace(fit, notes=(*told, *fit.notes)), found, kind)


def seen_rows(data: Dataset, empty: np.ndarray) -> Dataset:
    """The same where rows that are units, and empty, do not count: they tell nothing."""
    if data.is_sequences or not data.has_rows_as_units:
        return data
    return replace(data, weights=np.where(empty, 0.0, data.weights))
