r"""Conjugate priors: exponential families over the parameters of a family.

A conjugate prior is itself an exponential family over the parameters, whose natural parameters grow by
statistics of the data:

    p(eta) = exp( chi . t(eta) - B(chi) ),  posterior = chi + statistics,  evidence = B(posterior) - B(prior)
"""

from __future__ import annotations

import abc
from typing import Any, Self

import numpy as np

from ..core.errors import ModelError
from .base import ExpectedSums, ExponentialFamily

__all__ = ["Conjugate"]


class Conjugate(ExponentialFamily):
    """A batch of priors, or of posteriors, over the parameters of a family; itself an exponential family.

    In the words of the module, its natural parameters are chi and its log-normaliser is B; its mean
    parameters E[t(eta)] are what variational Bayes puts in the place of the parameters.

    A prior with one member serves families with any number of members.
    """

    @property
    def is_closed(self) -> bool:
        """Whether nothing is hidden inside of a member, so that sums over complete rows say all."""
        return True

    @abc.abstractmethod
    def posterior(self, statistics: Any) -> Self:
        """The posterior given statistics that a member of the family collected."""

    @abc.abstractmethod
    def log_density(self, members: Any) -> np.ndarray:
        """Log prior density of the parameters of the members, (members,)."""

    @abc.abstractmethod
    def expected_log_density(self, x: Any) -> np.ndarray:
        """E[log p(x | parameters)], (rows, members): the E-step of variational Bayes.

        exp of it is not normalised, and must not be.
        """

    def expect(self, x: Any, weights: Any = None) -> ExpectedSums:
        """What rows with weights (rows, members) say to `posterior`, as `Family.expect` for an M-step."""
        sums = self.mean().collect(x, weights)
        return ExpectedSums(sums.count, None, sums)

    def expect_under(self, members: Any, x: Any, weights: Any = None) -> ExpectedSums:
        """`expect` with what is hidden inside of a member divided as these members do; here nothing is."""
        return self.expect(x, weights)

    @abc.abstractmethod
    def match(self, members: Any) -> Self:
        """The prior of this kind, one for all, to which these distributions have the least divergence.

        What says how sure it is stays as it is: strengths, freedoms, shapes.
        """

    @abc.abstractmethod
    def predictive(self, x: Any) -> np.ndarray:
        """Logarithm of E[p(x | parameters)], (rows, members)."""

    @abc.abstractmethod
    def mean(self) -> Any:
        """Members with the expected parameters."""

    @abc.abstractmethod
    def mode(self) -> Any:
        """Members with the most probable parameters."""

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator) -> Any:
        """Members with parameters drawn at random."""

    def repeat(self, count: int) -> Self:
        """A prior with `count` members: this one if it has as many, or its only member repeated."""
        if len(self) == count:
            return self
        if len(self) != 1:
            raise ModelError(f"prior: expected 1 or {count} members, got {len(self)}; repeat one of them")
        return self.take(np.zeros(count, dtype=np.int64))

    def log_evidence(self, statistics: Any) -> np.ndarray:
        """Log probability of the data, parameters integrated out, (members,)."""
        prior = self.repeat(len(statistics.count))
        return prior.posterior(statistics).log_normaliser - prior.log_normaliser + statistics.log_base

    def kl(self, other: Self) -> np.ndarray:
        """KL divergence of every member to the one of `other` at the same place, (members,)."""
        return super().kl(other.repeat(len(self)))
