r"""Hidden Markov models: a chain of hidden states, each of which emits a row of data.

    p(s, x) = start(s_1) p(x_1 | s_1) prod_{t>1} transition(s_{t-1}, s_t) p(x_t | s_t)

The emission is any family with one member per state: categorical, Gaussian with any shape of covariance,
Poisson, a mixture of those. Steps, or single coordinates of Gaussians, may be missing (NaN, or -1 for
states); they are summed out. Data are one array with `lengths`, or a list of arrays, one per sequence.

Forward-backward is exact: O(T K^2) time on scaled probabilities, in logarithms where those would underflow.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import UnsupportedError, ZeroProbabilityError
from ..core.factor_graph import FactorGraph
from ..core.instance import Instance
from ..core.records import register
from ..core.variable import Variables
from ..data.dataset import Dataset
from ..data.sequences import step_counts
from ..families.categorical import Categorical
from ..kernels.chains import best_paths, filter_chains, sample_chains
from ..kernels.scaled_chains import likelihoods, smooth_chains
from ..optimise.run import noted
from .hidden_chain import Domain, HiddenChain
from .hmm_parameters import HMMPrior

__all__ = ["HMM", "HMMPrior", "Posterior"]

_ENTRIES = 1 << 23  # numbers per table of one block of sequences; bounds the memory


class Posterior(NamedTuple):
    """What forward-backward finds: likelihoods, state probabilities, expected transitions."""

    log_likelihoods: np.ndarray  # (sequences,)
    marginals: np.ndarray  # (positions, states): p(s_t | all data of the sequence)
    transitions: np.ndarray  # (states, states): expected number of transitions, over all sequences


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

    Examples
    --------
    >>> from credo.families import Categorical
    >>> from credo.models.hmm import HMM
    >>> hmm = HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], Categorical([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]]))
    >>> round(hmm.log_likelihood([0, 1, 2]), 6)
    -3.392872
    >>> path, score = hmm.decode([0, 1, 2])
    >>> path
    array([1, 0, 0])
    """

    @property
    def n_parameters(self) -> int:
        """Free numbers; structural zeros of start and transition are not free."""
        start = np.count_nonzero(self._start) - 1
        rows = np.count_nonzero(self._transition) - self.states
        return int(start + rows) + self._emission.n_parameters

    def hidden(self, scores: np.ndarray, begin: np.ndarray, first: int = 0) -> Instance:
        """Chains with these log scores (rows, states)."""
        return Instance(
            "chains", scores, begin, {"start": self._start, "transition": self._transition}, first=first
        )

    @noted
    def log_likelihoods(
        self, x: Any, lengths: Any = None, *, mask: Any = None, domain: Domain = "scaled"
    ) -> np.ndarray:
        """Log-likelihood of every sequence, -inf where it is impossible."""
        check.one_of("domain", domain, ["scaled", "log"])
        data = self.sequences(x, lengths, mask)
        out = np.empty(data.n_units)
        for which, part in data.blocks(_ENTRIES // self.states):
            scores = self._emission.log_density(part.rows())
            out[which] = likelihoods(self._start, self._transition, scores, part.begin, logs=domain == "log")
        return out

    @noted
    def posterior(
        self, x: Any, lengths: Any = None, *, mask: Any = None, domain: Domain = "scaled"
    ) -> Posterior:
        """Forward-backward: marginals of every hidden state and expected transitions.

        Parameters
        ----------
        x, lengths
            The sequences.
        mask
            (positions,), False where a step is to be taken as missing.
        domain
            `"scaled"` with a way out to logarithms, or `"log"` from the beginning.
        """
        data = self.sequences(x, lengths, mask)
        logs, marginals = np.empty(data.n_units), np.empty((len(data.rows()), self.states))
        transitions = np.zeros((self.states, self.states))
        for which, part in data.blocks(_ENTRIES // self.states):
            found = self._smooth(part, which.start, domain)
            logs[which], transitions = found.log_z, transitions + found.pairs
            marginals[data.begin[which.start] : data.begin[which.stop]] = found.marginals
        return Posterior(logs, marginals, transitions)

    def _smooth(self, part: Dataset, first: int, domain: Domain) -> Any:
        """Forward-backward of some sequences; the first one is number `first` of the user's."""
        check.one_of("domain", domain, ["scaled", "log"])
        emit = self._emission.log_density
        found = smooth_chains(
            self._start,
            self._transition,
            emit(part.rows()),
            part.begin,
            logs=domain == "log",
            again=None if domain == "log" else lambda rows: emit(part.rows()[rows]),
        )
        if not np.isfinite(found.log_z).all():
            self._refuse(emit(part.rows()), part, first)
        return found

    def _refuse(self, scores: np.ndarray, part: Dataset, first: int = 0) -> None:
        """Name the first step that no state can reach and emit."""
        for s in range(part.n_units):
            open_states = self._start > 0
            for t in range(part.begin[s], part.begin[s + 1]):
                open_states = open_states & (scores[t] > -np.inf)
                if not open_states.any():
                    step = t - part.begin[s]
                    raise ZeroProbabilityError(
                        f"sequence {first + s}, step {step}: no state that can be reached here can emit "
                        f"{part.rows()[t]}; give the emissions or transitions positive probabilities there, "
                        "or mask the step"
                    )
                open_states = (open_states @ (self._transition > 0)) > 0

    @noted
    def filter(self, x: Any, lengths: Any = None, *, mask: Any = None) -> np.ndarray:
        """Filtered probabilities p(s_t | data up to t), (positions, states)."""
        data = self.sequences(x, lengths, mask)
        scores = self._emission.log_density(data.rows())
        logs, scale = filter_chains(*self._logs(), scores, data.begin)
        if not np.isfinite(scale).all():
            self._refuse(scores, data)
        return np.exp(logs)

    @noted
    def decode(
        self,
        x: Any,
        lengths: Any = None,
        *,
        mask: Any = None,
        method: Literal["viterbi", "posterior"] = "viterbi",
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best states (positions,) and a score per sequence.

        `"viterbi"` finds the most probable path, scored by its log joint probability with the data;
        `"posterior"` takes the most probable state of every step, scored by the expected share of right
        ones.
        """
        check.one_of("method", method, ["viterbi", "posterior"])
        data = self.sequences(x, lengths, mask)
        if method == "posterior":
            marginals = self.posterior(data).marginals
            best = marginals.max(axis=1)
            sums = np.add.reduceat(np.append(best, 0.0), data.begin[:-1])
            return marginals.argmax(axis=1), np.where(data.lengths > 0, sums, 0.0) / np.maximum(
                data.lengths, 1
            )
        scores = self._emission.log_density(data.rows())
        path, value = best_paths(*self._logs(), scores, data.begin)
        if not np.isfinite(value).all():
            self._refuse(scores, data)
        return path, value

    @noted
    def sample(self, lengths: int | Any, *, seed: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Rows and hidden states of new sequences with these lengths (one number makes one sequence)."""
        rng = check.generator(seed)
        sizes = step_counts(lengths)
        uniforms = rng.random(int(sizes.sum()))
        first = np.cumsum(self._start)
        edges = np.cumsum(self._transition, axis=1)
        states = np.empty(len(uniforms), np.int64)
        t = 0
        for size in sizes:
            row = first
            for _ in range(size):
                states[t] = np.searchsorted(row, uniforms[t] * row[-1], side="right")
                row = edges[states[t]]
                t += 1
        return self._emission.sample(states, rng), states

    @noted
    def sample_states(
        self, x: Any, lengths: Any = None, *, count: int = 1, mask: Any = None, seed: Any = None
    ) -> np.ndarray:
        """Joint samples of the hidden states given data, (count, positions)."""
        check.whole("count", count, 0)
        data = self.sequences(x, lengths, mask)
        scores = self._emission.log_density(data.rows())
        if not np.isfinite(likelihoods(self._start, self._transition, scores, data.begin)).all():
            self._refuse(scores, data)
        uniforms = check.generator(seed).random((count, len(data.rows())))
        return sample_chains(*self._logs(), scores, data.begin, uniforms)

    def update(
        self,
        statistics: Any,
        prior: HMMPrior | None = None,
        *,
        fixed: tuple[str, ...] = (),
        floor: float = 0.0,
    ) -> HMM:
        """The model of the highest expected log-likelihood, or posterior density: the M-step.

        Parameters
        ----------
        statistics
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
        return HMM(*self._maximised(statistics, prior, fixed, floor))

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
                "given(x) is the factor graph of the hidden states for data of any kind"
            )
        names = {f"s{t}": self.states for t in range(length)}
        names |= {f"x{t}": self._emission.states for t in range(length)}
        factors: dict[tuple[str, ...], Any] = {("s0",): self._start}
        factors |= {(f"s{t - 1}", f"s{t}"): self._transition for t in range(1, length)}
        factors |= {(f"s{t}", f"x{t}"): self._emission.probabilities for t in range(length)}
        return FactorGraph(Variables.of(names), factors)

    def given(self, x: Any) -> FactorGraph:
        """The factor graph over the hidden states s0, s1, ... of one sequence of data."""
        data = self.sequences(x)
        scores = self._emission.log_density(data.rows())
        length, states = scores.shape
        variables = Variables.of({f"s{t}": states for t in range(length)})
        single = np.arange(length)
        pairs = np.stack([single[:-1], single[1:]], axis=1).ravel()
        first, steps = self._logs()
        scores[0] += first
        tables = np.concatenate([scores.ravel(), np.tile(steps.ravel(), length - 1)])
        sizes = np.concatenate([np.full(length, 1), np.full(length - 1, 2)])
        scope_start = np.concatenate([[0], np.cumsum(sizes)])
        return FactorGraph.from_flat(variables, scope_start, np.concatenate([single, pairs]), tables)

    def _logs(self) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore"):
            return np.log(self._start), np.log(self._transition)[None]

    def __repr__(self) -> str:
        return f"HMM({self.states} states, {self._emission!r})"
