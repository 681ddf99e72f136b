r"""Distributions over the parameters of models of hidden rows, which are models of hidden rows themselves.

    q(theta) = prod_tables prod_rows Dirichlet(a)   prod_states q(theta_k),      a conjugate posterior each

Where a model has log densities and tables, its posterior has their expectations,

    scores[t, k] = E[log p(x_t | theta_k)],     tables = exp E[log table], whose rows sum to less than 1,

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
from ..data.dataset import Dataset
from .averaged import AveragedFamily
from .base import Family
from .conjugates import check_prior, default_prior
from .dirichlet import Dirichlet
from .dirichlet_rows import DirichletRows
from .independent import IndependentRows, rows_model
from .mixture import Mixture, MixturePrior
from .stick_breaking import StickBreaking

__all__ = ["HiddenPosterior", "MixturePosterior", "emission_prior"]


class HiddenPosterior(abc.ABC):
    """What all of them share: dataclasses in which each part has its prior in the field `<part>_prior`."""

    structure: ClassVar[Structure]
    tables: ClassVar[tuple[str, ...]]  # parts that are tables of probabilities, by the names of the instance
    emits: ClassVar[str] = "emissions"  # the part with one member per state
    adapted: ClassVar[str] = "emission"  # its name among the parts whose hyper-parameters are learned
    state_name: ClassVar[str] = "state"

    @property
    def emission(self) -> AveragedFamily:
        """What states emit, averaged over its parameters."""
        return AveragedFamily(self._members)

    @property
    def _members(self) -> Any:
        """The conjugate posterior of what states emit, one member per state."""
        return getattr(self, self.emits)

    @property
    def states(self) -> int:
        """How many hidden states there are."""
        return len(self._members)

    @property
    def adaptable(self) -> tuple[str, ...]:
        """Parts whose hyper-parameters `match` can choose; first states are too few to tell theirs."""
        return (*(name for name in self.tables if name != "start"), self.adapted)

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

    def sequences(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> Dataset:
        """Data as the model reads them."""
        found: Dataset = rows_model(self.mean()).sequences(x, lengths, mask, **reading)
        return found

    def instantiate(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> Instance:
        """What is hidden given these data, parameters averaged over, for `inference/` to answer."""
        data = self.sequences(x, lengths, mask, **reading)
        return self.hidden(self.emission.log_density(data.rows()), data.begin).weighed(data.weights)

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
        return float(tables + self._members.kl(self._prior(self.emits).repeat(self.states)).sum())

    def match(self, parts: tuple[str, ...]) -> Self:
        """The same with hyper-parameters of these parts to which the divergence is least."""
        names = [self.emits if part == self.adapted else part for part in parts]
        return _changed(self, **{f"{n}_prior": self._prior(n).match(getattr(self, n)) for n in names})

    def mean(self) -> Any:
        """The model with expected parameters."""
        return self._made({n: getattr(self, n).mean() for n in self.tables}, self._members.mean())

    def sample(self, rng: np.random.Generator) -> Any:
        """A model with parameters drawn at random."""
        return self._made({n: getattr(self, n).sample(rng) for n in self.tables}, self._members.sample(rng))

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
        parts[self.emits] = self._members.take(kept)
        parts[f"{self.emits}_prior"] = prior if len(prior) == 1 else prior.take(kept)
        return _changed(self, **parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.states} states, {self._members!r})"


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
    adapted: ClassVar[str] = "components"
    state_name: ClassVar[str] = "component"
    weights: DirichletRows | StickBreaking  # one row over components, or pieces of a stick
    components: Any  # conjugate posterior, one member per component
    weights_prior: DirichletRows | StickBreaking  # in the same form
    components_prior: Any  # one member, or one per component
    is_single: bool = False  # whether it is the posterior of one member, and no mixture

    @classmethod
    def of(cls, model: IndependentRows, prior: Any = None, data: Any = None) -> MixturePosterior:
        """The prior as a posterior of no data: one count in all where it says nothing of the weights."""
        if not isinstance(model.family, Mixture):
            own, alone = emission_prior(prior, model.family, data), DirichletRows([1.0], [1])
            return cls(alone, own.repeat(1), alone, own, is_single=True)
        prior = MixturePrior() if prior is None else prior
        if not isinstance(prior, MixturePrior):
            raise ModelError(f"prior of a mixture: expected a MixturePrior, got {type(prior).__name__}")
        count = model.family.weights.shape[1]
        weights: Any = prior.weights
        if weights is None:
            weights = Dirichlet(np.full((1, count), 1.0 / count))
        if isinstance(weights, Dirichlet):
            weights = DirichletRows(weights.repeat(1).concentration[0], [weights.concentration.shape[1]])
        if len(weights.mean()) != count:
            raise ModelError(f"prior of weights: expected {count} components, got {len(weights.mean())}")
        own = emission_prior(prior.components, model.emission, data)
        return cls(weights, own.repeat(count), weights, own)

    def __len__(self) -> int:
        return len(self.components)

    def model(self, tables: dict[str, np.ndarray], emission: Family) -> Family:
        """The mixture."""
        return emission if self.is_single else Mixture(tables["weights"][None], emission)

    def predictive(self, x: np.ndarray) -> np.ndarray:
        """Log density of new rows, parameters integrated out of each component, (rows,)."""
        from scipy.special import logsumexp

        found: np.ndarray = logsumexp(np.log(self.weights.mean()) + self.components.predictive(x), axis=1)
        return found


def emission_prior(prior: Any, members: Family, data: Any) -> Any:
    """The conjugate prior of what states emit; without one, a weak one at the scale of the data."""
    if prior is not None:
        return check_prior(prior, members, None if data is None else data.rows())
    if data is None:
        raise ModelError(
            f"prior: expected a conjugate prior of {type(members).__name__}, got none; give one, or data "
            "whose scale says how wide it has to be"
        )
    return default_prior(members, data.rows())
