r"""Hidden semi-Markov models: hidden states that last for an explicit number of steps.

A sequence is cut into segments. A segment of state k lasts d steps with probability durations[k, d-1]; the
next segment has state j with probability transition[k, j]:

    p(segments, x) = start(k_1) p_{k_1}(d_1) prod_n transition(k_{n-1}, k_n) p_{k_n}(d_n)
                     prod_t p(x_t | state at t)

In a hidden Markov model durations are geometric; here they are free, up to a longest one, D. The first
segment begins with the data. The last one may go on beyond their end (`cut=True`), or must end with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..core.errors import ModelError
from ..core.instance import Instance
from ..core.records import register
from ..data.dataset import Dataset
from .hidden_chain import HiddenChain
from .hmm import HMM
from .hmm_parameters import HMMPrior, probability_rows, random_rows, renewed

if TYPE_CHECKING:
    from .hmm_posteriors import SemiMarkovPosterior

__all__ = ["SemiMarkov"]


@register("SemiMarkov", fields=["start", "transition", "durations", "emission", "cut"])
class SemiMarkov(HiddenChain):
    """A hidden semi-Markov model; immutable.

    Parameters
    ----------
    start
        Probabilities of the first state, (states,).
    transition
        Row k holds the probabilities of the state of the next segment, (states, states); its diagonal is
        usually zero.
    durations
        Row k holds the probabilities of 1, 2, ..., D steps, (states, D).
    emission
        A family with one member per state.
    cut
        Whether the last segment may go on beyond the end of the data.
    states
        Instead of start and transition: how many states a blank has, which `credo.fit` fills. `durations` are
        then the shortest and the longest time in a state, and `emission` the name of a family, or column ->
        name.

    Examples
    --------
    >>> import credo
    >>> from credo.families import DiagonalGaussian
    >>> from credo.models.semi_markov import SemiMarkov
    >>> steps = [[0, 0, 1.0], [0, 1.0, 0]]  # three steps of the first state, then two of the second
    >>> model = SemiMarkov([1, 0], [[0, 1], [1, 0]], steps, DiagonalGaussian([[0.0], [1.0]], [[1.0], [1.0]]))
    >>> credo.infer(model, data=[0.9, 0.8, 0.1, 0.2, 0.3, 0.0], maximise="all").assignment["state"]
    array([0, 0, 0, 1, 1, 0])
    """

    parts: ClassVar[tuple[str, ...]] = ("start", "transition", "durations", "emission")

    def __new__(cls, *parts: Any, states: int | None = None, **more: Any) -> Any:
        """A model, or with `states` a blank."""
        if states is None:
            return super().__new__(cls)
        from .blank_hmm import BlankSemiMarkov, blank_of

        return blank_of(BlankSemiMarkov, states, parts, more)

    def __init__(
        self,
        start: Any = None,
        transition: Any = None,
        durations: Any = None,
        emission: Any = None,
        *,
        cut: bool = True,
        states: int | None = None,
    ) -> None:
        if start is None and transition is None:
            raise ModelError(
                "SemiMarkov: expected start, transition, durations and emission, or states, for a blank that "
                "data will fill"
            )
        super().__init__(start, transition, emission)
        self._durations = probability_rows("durations", durations, 2)
        if len(self._durations) != self.states:
            raise ModelError(
                f"durations: expected {self.states} rows, one per state, got {len(self._durations)}"
            )
        self.cut = bool(cut)

    @property
    def durations(self) -> np.ndarray:
        """(states, D), read-only."""
        return self._durations

    @property
    def n_parameters(self) -> int:
        """Free numbers; structural zeros are not free."""
        free = sum(int(np.count_nonzero(a)) for a in (self._start, self._transition, self._durations))
        return free - 1 - 2 * self.states + self._emission.n_parameters

    def to_hmm(self) -> HMM:
        """The same distribution as a hidden Markov model over (state, remaining steps), state first.

        Only with `cut=True`; it has states times D states and serves to check and to convert.
        """
        if not self.cut:
            raise ModelError("to_hmm: expected cut=True, got a model whose last segment ends with the data")
        states, longest = self._durations.shape
        step = np.zeros((states, longest, states, longest))
        step[:, 0] = self._transition[:, :, None] * self._durations
        for r in range(1, longest):
            step[np.arange(states), r, np.arange(states), r - 1] = 1.0
        size = states * longest
        start = (self._start[:, None] * self._durations).ravel()
        emission = self._emission.take(np.repeat(np.arange(states), longest))
        return HMM(start, step.reshape(size, size), emission)

    def hidden(self, scores: np.ndarray, begin: np.ndarray, first: int = 0) -> Instance:
        """Segments with these log scores (rows, states)."""
        tables = {"start": self._start, "transition": self._transition, "durations": self._durations}
        return Instance("segments", scores, begin, tables, cut=self.cut, first=first)

    def posterior(self, prior: HMMPrior | None = None, data: Dataset | None = None) -> SemiMarkovPosterior:
        """The distribution over the parameters before any data; see `HMM.posterior`."""
        from .hmm_posteriors import SemiMarkovPosterior

        return SemiMarkovPosterior.of(self, prior, data)

    def update(
        self,
        expected: Any,
        prior: HMMPrior | None = None,
        *,
        fixed: tuple[str, ...] = (),
        floor: float = 0.0,
    ) -> SemiMarkov:
        """The model of the highest expected log-likelihood, or posterior density; see `HMM.update`."""
        start, transition, emission = self._maximised(expected, prior, fixed, floor)
        durations = self._durations
        if "durations" not in fixed:
            counts = expected.counts["durations"]
            if prior is not None and prior.durations is not None:
                counts = counts + prior.durations.repeat(self.states).natural
            durations = renewed(durations, counts)
        return SemiMarkov(start, transition, durations, emission, cut=self.cut)

    def initialise(
        self, x: Any, rng: np.random.Generator, lengths: Any = None, *, fixed: tuple[str, ...] = ()
    ) -> SemiMarkov:
        """A random model of the same shape, at the scale of the data; zeros and `fixed` parts stay."""
        start, transition, emission = self._initialised(self.sequences(x, lengths), rng, fixed)
        durations = self._durations if "durations" in fixed else random_rows(self._durations, rng)
        return SemiMarkov(start, transition, durations, emission, cut=self.cut)

    def __repr__(self) -> str:
        longest = self._durations.shape[1]
        return f"SemiMarkov({self.states} states, durations up to {longest}, {self._emission!r})"
