r"""Hidden Markov models: a chain of hidden states, each of which emits a row of data.

    p(s, x) = start(s_1) p(x_1 | s_1) prod_{t>1} transition(s_{t-1}, s_t) p(x_t | s_t)

The emission is any family with one member per state: categorical, Gaussian with any shape of covariance,
Poisson, a mixture of those. Steps, or single coordinates of Gaussians, may be missing (NaN, or -1 for
states); they are summed out. Data are one table with `lengths` or `groups`, or a list of tables, one per
sequence. The model is a template: `credo.infer(hmm, data=x)` and its relatives answer questions about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core import check
from ..core.errors import ModelError, UnsupportedError
from ..core.factor_graph import FactorGraph
from ..core.instance import Instance
from ..core.records import register
from ..core.variable import Variables
from ..data.dataset import Dataset
from ..families.categorical import Categorical
from .hidden_chain import HiddenChain
from .hmm_parameters import HMMPrior

if TYPE_CHECKING:
    from .blank_hmm import BlankHMM
    from .hmm_posteriors import HMMPosterior

__all__ = ["HMM", "HMMPrior"]


@register("HMM", fields=["start", "transition", "emission"])
class HMM(HiddenChain):
    """A hidden Markov model; immutable.

    Parameters
    ----------
    start
        Probabilities of the first state, (states,).
    transition
        Row j holds the probabilities of the state after j, (states, states).
    emission
        A family with one member per state.
    states, components
        Instead of start and transition: how many states a blank has, which `credo.fit` fills; `emission` is
        then the name of a family, or column -> name (see `HMM.blank`), and `components` makes mixtures of it.

    Examples
    --------
    >>> import credo
    >>> from credo.families import Categorical
    >>> symbols = Categorical([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]])
    >>> hmm = credo.HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], symbols)
    >>> print(credo.log_likelihood(hmm, [0, 1, 2]))
    -3.392872133 (exact)
    >>> credo.infer(hmm, data=[0, 1, 2], maximise="all").assignment["state"]
    array([1, 0, 0])
    """

    def __new__(cls, *parts: Any, states: int | None = None, **more: Any) -> Any:
        """A model, or with `states` a blank."""
        if states is None:
            return super().__new__(cls)
        from .blank_hmm import BlankHMM, blank_of

        return blank_of(BlankHMM, states, parts, more)

    def __init__(
        self,
        start: Any = None,
        transition: Any = None,
        emission: Any = None,
        *,
        states: int | None = None,
        components: int = 1,
    ) -> None:
        if start is None and transition is None:
            raise ModelError(
                "HMM: expected start, transition and emission, or states, for a blank that data will fill"
            )
        super().__init__(start, transition, emission)

    @staticmethod
    def blank(states: int, emission: Any = None, *, components: int = 1) -> BlankHMM:
        """So many hidden states, families and parameters to come from data by `credo.fit`.

        Parameters
        ----------
        states
            How many.
        emission
            The family of the columns: one name, column -> name, or None, which lets the columns say; see
            `families.blank.family_of`.
        components
            Every state emits a mixture of so many members.

        Examples
        --------
        >>> import credo
        >>> credo.HMM.blank(3, {"hr": "gaussian", "alarm": "categorical"})
        BlankHMM(3 states, {'hr': 'gaussian', 'alarm': 'categorical'}; no parameters yet: fit it first)
        """
        from .blank_hmm import BlankHMM

        return BlankHMM(states, emission, components)

    @staticmethod
    def gaussian(
        states: int,
        *,
        covariance: Literal["full", "tied", "diagonal", "spherical"] = "full",
        components: int = 1,
    ) -> BlankHMM:
        """A blank whose states emit Gaussian rows, with covariances of all columns unless said otherwise.

        Examples
        --------
        >>> import numpy as np
        >>> import credo
        >>> x = np.random.default_rng(0).normal(np.repeat([1.0, 5.0, 1.0, 5.0], 25))
        >>> found = credo.fit(credo.HMM.gaussian(states=2), x, seed=0)
        >>> np.sort(found.model.emission.mean.ravel()).round()
        array([1., 5.])
        """
        check.one_of("covariance", covariance, ["full", "tied", "diagonal", "spherical"])
        return HMM.blank(states, "gaussian" if covariance == "full" else covariance, components=components)

    @property
    def n_parameters(self) -> int:
        """Free numbers; structural zeros of start and transition are not free."""
        start = np.count_nonzero(self._start) - 1
        rows = np.count_nonzero(self._transition) - self.states
        return int(start + rows) + self._emission.n_parameters

    @property
    def stationary(self) -> np.ndarray:
        """Probabilities of the states that one more step does not change, (states,).

        Where several are such (states that never lead to each other), the most even of them.
        """
        size = self.states
        system = np.concatenate([self._transition.T - np.eye(size), np.ones((1, size))])
        found = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]
        found = np.maximum(found, 0.0)  # a probability of 0 comes as one of -1e-17
        return np.asarray(found / found.sum())

    def hidden(self, scores: np.ndarray, begin: np.ndarray, first: int = 0) -> Instance:
        """Chains with these log scores (rows, states)."""
        return Instance(
            "chains", scores, begin, {"start": self._start, "transition": self._transition}, first=first
        )

    def posterior(self, prior: HMMPrior | None = None, data: Dataset | None = None) -> HMMPosterior:
        """The distribution over the parameters before any data: what variational Bayes learns.

        Parameters
        ----------
        prior
            Of the tables, one count per entry where it says nothing, and of the emission.
        data
            Whose scale says how wide the prior of the emission is, where there is none.

        Zeros of start and transition are impossible.
        """
        from .hmm_posteriors import HMMPosterior

        return HMMPosterior.of(self, prior, data)

    def update(
        self,
        expected: Any,
        prior: HMMPrior | None = None,
        *,
        fixed: tuple[str, ...] = (),
        floor: float = 0.0,
    ) -> HMM:
        """The model of the highest expected log-likelihood, or posterior density: the M-step.

        Parameters
        ----------
        expected
            Expected `counts` by the names of the tables, and what the `emission` collected; see
            `learning.hidden_rows`.
        prior
            Conjugate priors.
        fixed
            Parts to keep: `"start"`, `"transition"`, `"emission"`.
        floor
            Of variances.

        Zeros of start and transition stay zeros; a state that was never left keeps its row.
        """
        return HMM(*self._maximised(expected, prior, fixed, floor))

    def initialise(
        self, x: Any, rng: np.random.Generator, lengths: Any = None, *, fixed: tuple[str, ...] = ()
    ) -> HMM:
        """A random model of the same shape, at the scale of the data; zeros and `fixed` parts stay."""
        return HMM(*self._initialised(self.sequences(x, lengths), rng, fixed))

    def to_factor_graph(self, length: int | None = None) -> FactorGraph:
        """Hidden s0, s1, ... and observed x0, x1, ... of one sequence; for categorical emissions."""
        if length is None:
            raise UnsupportedError(
                "a hidden Markov model has no length of its own: give data, as in infer(model, data=x), or "
                "ask about to_factor_graph(length)"
            )
        check.whole("length", length, 1)
        if not isinstance(self._emission, Categorical):
            raise UnsupportedError(
                f"to_factor_graph: expected categorical emissions, got {type(self._emission).__name__}; "
                "instantiate(x).to_factor_graph() is that of the hidden states for data of any kind"
            )
        names = {f"s{t}": self.states for t in range(length)}
        names |= {f"x{t}": self._emission.states for t in range(length)}
        factors: dict[tuple[str, ...], Any] = {("s0",): self._start}
        factors |= {(f"s{t - 1}", f"s{t}"): self._transition for t in range(1, length)}
        factors |= {(f"s{t}", f"x{t}"): self._emission.probabilities for t in range(length)}
        return FactorGraph(Variables.of(names), factors)

    def __repr__(self) -> str:
        return f"HMM({self.states} states, {self._emission!r})"
