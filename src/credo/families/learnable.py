r"""What a model of hidden rows offers to be learned.

A `Learnable` says what is hidden and how parameters follow from what is expected of it. Reading, inference,
EM with its restarts, batches and checkpoints are done by others, who know no more of it:

    hidden(scores, begin)  ->  Instance  ->  expected counts by table, statistics of the emission  ->  update

Hidden Markov and semi-Markov models, mixtures and single families are Learnables, and so is any class of
one's own. With `@credo.register` it is kept in files and in checkpoints.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, Self

import numpy as np

from ..core.instance import Instance
from ..data.dataset import Dataset
from ..data.sequences import read_sequences

__all__ = ["Learnable"]


class Learnable(abc.ABC):
    """A model of hidden rows that EM can learn.

    `emission` is the family of the rows, one member per hidden state.

    Examples
    --------
    Two states that are left with one probability, which is the only parameter of the transition:

    >>> import numpy as np
    >>> import credo
    >>> from credo.core.instance import Instance
    >>> from credo.families import Poisson
    >>> class Bursts(credo.Learnable):
    ...     def __init__(self, leave, emission):
    ...         self.leave, self.emission = float(leave), emission
    ...     @property
    ...     def n_parameters(self):
    ...         return 1 + self.emission.n_parameters
    ...     def hidden(self, scores, begin, first=0):
    ...         moves = np.array([[1 - self.leave, self.leave], [self.leave, 1 - self.leave]])
    ...         return Instance("chains", scores, begin, {"start": np.full(2, 0.5), "transition": moves})
    ...     def initialise(self, data, rng, *, fixed=()):
    ...         return Bursts(rng.uniform(0.1, 0.5), self.emission.initialise(data.rows(), rng))
    ...     def update(self, expected, prior=None, *, fixed=(), floor=0.0):
    ...         moves = expected.counts["transition"]
    ...         leave = (moves[0, 1] + moves[1, 0]) / moves.sum()
    ...         return Bursts(leave, expected.emission.update(self.emission))
    >>> x = np.random.default_rng(0).poisson(np.repeat([1.0, 8.0, 1.0, 8.0], 25))
    >>> found = credo.fit(Bursts(0.3, Poisson([2.0, 3.0])), x)
    >>> found.learner, round(found.model.leave, 2), found.model.emission.rate.round(1)
    ('em', 0.03, array([1.1, 9. ]))
    """

    emission: Any  # the family of the rows, one member per hidden state
    prior_kinds: ClassVar[tuple[type, ...]] = ()  # classes of priors that `update` takes
    parts: ClassVar[tuple[str, ...]] = ()  # names that `fixed` may have

    @property
    @abc.abstractmethod
    def n_parameters(self) -> int:
        """How many free numbers there are."""

    @abc.abstractmethod
    def hidden(self, scores: np.ndarray, begin: np.ndarray, first: int = 0) -> Instance:
        """What is hidden behind rows with these log scores (rows, states).

        Unit i owns the rows begin[i]:begin[i+1]; the first one is number `first` of the user's.
        """

    @abc.abstractmethod
    def initialise(self, data: Dataset, rng: np.random.Generator, *, fixed: tuple[str, ...] = ()) -> Self:
        """A random model of the same shape, at the scale of the data, from which learning can start."""

    @abc.abstractmethod
    def update(
        self, expected: Any, prior: Any = None, *, fixed: tuple[str, ...] = (), floor: float = 0.0
    ) -> Self:
        """The model of the highest expected log-likelihood, or posterior density: the M-step.

        Parameters
        ----------
        expected
            `counts` by the names of the tables of `hidden`, and the `emission`'s own: the new members are
            `expected.emission.update(self.emission, prior, floor=floor)`.
        prior
            One of `prior_kinds`.
        fixed
            Parts to keep.
        floor
            Of variances.
        """

    def movement(self, new: Self) -> float:
        """The largest change of a probability or, in the units of `Family.movement`, of an emission."""
        none = np.zeros((0, len(self.emission))), np.zeros(1, dtype=np.int64)
        old, now = self.hidden(*none).tables, new.hidden(*none).tables
        moves = [float(np.abs(now[name] - table).max(initial=0.0)) for name, table in old.items()]
        return max(*moves, self.emission.movement(new.emission))

    def log_prior(self, prior: Any) -> float:
        """Log density of the parameters under a prior."""
        return float(prior.log_density(self))

    def sequences(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> Dataset:
        """Data as the emission works on them; see `data.read_sequences`, which may read its own answer."""
        return read_sequences(x, self.emission, lengths=lengths, mask=mask, **reading)

    def instantiate(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> Instance:
        """What is hidden given these data, for `inference/` to answer."""
        data = self.sequences(x, lengths, mask, **reading)
        return self.hidden(self.emission.log_density(data.rows()), data.begin).weighed(data.weights)
