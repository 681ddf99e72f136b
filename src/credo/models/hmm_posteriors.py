"""Distributions over the parameters of chains of hidden states; see `families.posteriors`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.errors import ModelError
from ..core.instance import Structure
from ..core.records import register
from ..families.base import Family
from ..families.dirichlet_rows import DirichletRows
from ..families.posteriors import HiddenPosterior, emission_prior
from .hmm import HMM
from .hmm_parameters import HMMPrior
from .semi_markov import SemiMarkov

__all__ = ["HMMPosterior", "SemiMarkovPosterior"]


@register("HMMPosterior")
@dataclass(frozen=True, repr=False)
class HMMPosterior(HiddenPosterior):
    """The distribution over the parameters of a hidden Markov model, and the prior it came from."""

    structure: ClassVar[Structure] = "chains"
    tables: ClassVar[tuple[str, ...]] = ("start", "transition")
    start: DirichletRows  # one row
    transition: DirichletRows  # one row per state
    emissions: Any  # conjugate posterior, one member per state
    start_prior: DirichletRows  # in the same form
    transition_prior: DirichletRows  # in the same form
    emissions_prior: Any  # one member, or one per state

    @classmethod
    def of(cls, model: HMM, prior: HMMPrior | None = None, data: Any = None) -> HMMPosterior:
        """The prior as a posterior of no data: one count per state where it says nothing of a table."""
        start, transition = _dirichlets(model, prior, "start", "transition")
        own = emission_prior(prior and prior.emission, model.emission, data)
        return cls(start, transition, own.repeat(model.states), start, transition, own)

    def model(self, tables: dict[str, np.ndarray], emission: Family) -> HMM:
        """The hidden Markov model."""
        return HMM(tables["start"], tables["transition"], emission)


@register("SemiMarkovPosterior")
@dataclass(frozen=True, repr=False)
class SemiMarkovPosterior(HiddenPosterior):
    """The distribution over the parameters of a hidden semi-Markov model, and the prior it came from."""

    structure: ClassVar[Structure] = "segments"
    tables: ClassVar[tuple[str, ...]] = ("start", "transition", "durations")
    start: DirichletRows  # one row
    transition: DirichletRows  # one row per state
    durations: DirichletRows  # one row per state
    emissions: Any  # conjugate posterior, one member per state
    start_prior: DirichletRows  # in the same form
    transition_prior: DirichletRows  # in the same form
    durations_prior: DirichletRows  # in the same form
    emissions_prior: Any  # one member, or one per state
    cut: bool = True  # whether the last segment may go on beyond the end of the data

    @classmethod
    def of(cls, model: SemiMarkov, prior: HMMPrior | None = None, data: Any = None) -> SemiMarkovPosterior:
        """The prior as a posterior of no data: one count per state or duration where it says nothing."""
        tables: Any = _dirichlets(model, prior, "start", "transition", "durations")
        own = emission_prior(prior and prior.emission, model.emission, data)
        start, transition, durations = tables
        return cls(
            start,
            transition,
            durations,
            own.repeat(model.states),
            start,
            transition,
            durations,
            own,
            model.cut,
        )

    @property
    def is_cut(self) -> bool:
        """As the model says."""
        return self.cut

    def model(self, tables: dict[str, np.ndarray], emission: Family) -> SemiMarkov:
        """The hidden semi-Markov model."""
        return SemiMarkov(tables["start"], tables["transition"], tables["durations"], emission, cut=self.cut)


def _dirichlets(model: Any, prior: HMMPrior | None, *names: str) -> list[DirichletRows]:
    """The priors of the tables; zeros of the model are impossible."""
    found = []
    for name in names:
        table: np.ndarray = np.atleast_2d(getattr(model, name))
        given = getattr(prior, name, None)
        a: np.ndarray = np.ones(table.shape) if given is None else given.repeat(len(table)).concentration
        if a.shape != table.shape:
            raise ModelError(f"prior of {name}: expected {table.shape[1]} states, got {a.shape[1]}")
        found.append(DirichletRows(np.where(table > 0, a, 0.0).ravel(), np.full(len(table), table.shape[1])))
    return found
