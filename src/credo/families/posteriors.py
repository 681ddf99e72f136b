r"""Distributions over the parameters of models of hidden rows, which are models of hidden rows themselves.

    q(theta) = prod_tables prod_rows Dirichlet(a)   prod_states q(theta_k),      a conjugate posterior each

Where a model has log densities and tables, its posterior has their expectations,

    scores[t, k] = E[log p(x_t | theta_k)],     tables = exp E[log table],     rows of which sum to less than 1,

so the E-step of variational Bayes is the one of EM, and its M-step is `update`: priors plus expected counts
and statistics. Entries that are zero in the model are impossible and stay so.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..core.errors import ModelError
from ..core.instance import Instance, Structure
from ..core.records import register
from .base import Family
from .conjugates import check_prior, default_prior
from .dirichlet import Dirichlet
from .dirichlet_rows import DirichletRows
from .mixture import Mixture, MixturePrior
from .stick_breaking import StickBreaking

__all__ = ["HiddenPosterior", "MixturePosterior", "emission_prior"]


class HiddenPosterior(abc.ABC):
    """What all of them share: dataclasses in which each part has its prior in the field `<part>_prior`."""

    structure: ClassVar[Structure]
    tables: ClassVar[tuple[str, ...]]  # parts that are tables of probabilities, by the names of the instance
    emits: ClassVar[str] = "emission"  # the part with one member per state
    state_name: ClassVar[str] = "state"
    emission: Any  # the conjugate posterior of what states emit, one member per state

    @property
    def states(self) -> int:
        """How many hidden states there are."""
        return len(self.emission)

    @property
    def adaptable(self) -> tuple[str, ...]:
        """Parts whose hyper-parameters `match` can choose; a row that has been seen once tells nothing of its."""
        return (*(name for name in self.tables if name != "start"), self.emits)

    @property
    def is_cut(self) -> bool:
        """Whether the last segment may go on beyond the end of the data."""
        return True

    def hidden(self, scores: np.ndarray, begin: np.ndarray, first: int = 0) -> Instance:
        """Hidden states of sequences whose rows have these expected log densities."""
        tables = {name: self._shaped(name, np.exp(getattr(self, name).expected_log)) for name in self.tables}
        return Instance(
            self.structure, scores, begin, tables, cut=self.is_cut, first=first, name=self.state_name
        )

    def _shaped(self, name: str, flat: np.ndarray) -> np.ndarray:
        """Numbers of a table in the shape that it has in the model."""
        return flat if name in ("start", "weights") else flat.reshape(self.states, -1)

    def update(self, expected: Any) -> Self:
        """Priors plus what was expected: the M-step; see `learning.hidden_rows` for `expected`."""
        parts = {name: self._prior(name).posterior(expected.counts[name].ravel()) for name in self.tables}
        own = self._prior(self.emits).repeat(self.states)
        return _changed(self, **parts, **{self.emits: own.posterior(expected.emission.sums)})

    def _prior(self, part: str) -> Any:
        return getattr(self, f"{part}_prior")

    def divergence(self) -> float:
        """KL to the prior."""
        tables = sum(getattr(self, name).kl(self._prior(name)).sum() for name in self.tables)
        return float(tables + self.emission.kl(self._prior(self.emits).repeat(self.states)).sum())

    def match(self, parts: tuple[str, ...]) -> Self:
        """The same with hyper-parameters of these parts to which the divergence is least."""
        return _changed(self, **{f"{part}_prior": self._prior(part).match(getattr(self, part)) for part in parts})

    def mean(self) -> Any:
        """The model with expected parameters."""
        return self._made({n: getattr(self, n).mean() for n in self.tables}, self.emission.mean())

    def sample(self, rng: np.random.Generator) -> Any:
        """A model with parameters drawn at random."""
        return self._made({n: getattr(self, n).sample(rng) for n in self.tables}, self.emission.sample(rng))

    def _made(self, tables: dict[str, np.ndarray], emission: Family) -> Any:
        """The model with these parameters."""
        return self.model({name: self._shaped(name, flat) for name, flat in tables.items()}, emission)

    @abc.abstractmethod
    def model(self, tables: dict[str, np.ndarray], emission: Family) -> Any:
        """The model with these tables and this emission."""

    def movement(self, new: Self) -> float:
        """The largest change of a parameter of the expected model; see `Family.movement` for the units."""
        return float(self.mean().movement(new.mean()))

    def take(self, kept: np.ndarray) -> Self:
        """Some of the states; refused where one of them could only go to one that is not kept."""
        parts = {}
        for part in self.tables:
            for name in (part, f"{part}_prior"):
                parts[name] = _taken(part, getattr(self, name), kept)
        prior = self._prior(self.emits)
        parts[self.emits] = self.emission.take(kept)
        parts[f"{self.emits}_prior"] = prior if len(prior) == 1 else prior.take(kept)
        return _changed(self, **parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.states} states, {self.emission!r})"


def _changed(posterior: Any, **parts: Any) -> Any:
    return replace(posterior, **parts)


def _taken(part: str, table: Any, kept: np.ndarray) -> Any:
    """The entries of some states."""
    if isinstance(table, StickBreaking):
        return table.take(kept)
    if part == "durations":
        return table.take(kept)
    return table.take(kept, kept) if part == "transition" else table.take(slice(None), kept)


@register("MixturePosterior")
@dataclass(frozen=True, repr=False)
class MixturePosterior(HiddenPosterior):
    """The distribution over weights and components of a mixture, and the prior it came from.

    The labels of components are arbitrary, so a mixture has K! equal modes of which this describes one: for
    the evidence of a K-component mixture, log K! may be added to a free energy where the components lie far
    apart.
    """

    structure: ClassVar[Structure] = "independent"
    tables: ClassVar[tuple[str, ...]] = ("weights",)
    emits: ClassVar[str] = "components"
    state_name: ClassVar[str] = "component"
    weights: DirichletRows | StickBreaking  # one row over components, or pieces of a stick
    components: Any  # conjugate posterior, one member per component
    weights_prior: DirichletRows | StickBreaking  # in the same form
    components_prior: Any  # one member, or one per component

    @classmethod
    def of(cls, model: Mixture, prior: MixturePrior | None = None, data: Any = None) -> MixturePosterior:
        """The prior as a posterior of no data: one count in all where it says nothing of the weights."""
        count, prior = model.weights.shape[1], MixturePrior() if prior is None else prior
        weights: Any = prior.weights
        if weights is None:
            weights = Dirichlet(np.full((1, count), 1.0 / count))
        if isinstance(weights, Dirichlet):
            weights = DirichletRows(weights.repeat(1).concentration[0], [weights.concentration.shape[1]])
        if len(weights.mean()) != count:
            raise ModelError(f"prior of weights: expected {count} components, got {len(weights.mean())}")
        own = emission_prior(prior.components, model.components, data)
        return cls(weights, own.repeat(count), weights, own)

    @property
    def emission(self) -> Any:  # type: ignore[override]
        """The components."""
        return self.components

    def __len__(self) -> int:
        return len(self.components)

    def model(self, tables: dict[str, np.ndarray], emission: Family) -> Mixture:
        """The mixture."""
        return Mixture(tables["weights"][None], emission)

    def predictive(self, x: np.ndarray) -> np.ndarray:
        """Log density of new rows, parameters integrated out of each component, (rows,)."""
        from scipy.special import logsumexp

        found: np.ndarray = logsumexp(np.log(self.weights.mean()) + self.components.predictive(x), axis=1)
        return found


def emission_prior(prior: Any, members: Family, data: Any) -> Any:
    """The conjugate prior of what states emit; without one, a weak one at the scale of the data."""
    if prior is not None:
        return check_prior(prior, members)
    if data is None:
        raise ModelError(
            f"prior: expected a conjugate prior of {type(members).__name__}, got none; give one, or data whose "
            "scale says how wide it has to be"
        )
    return default_prior(members, data.rows())
