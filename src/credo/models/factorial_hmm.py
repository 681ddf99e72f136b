r"""Factorial hidden Markov models: several hidden chains that speak through one observation.

    p(s, x) = prod_m start^m(s^m_1) prod_t transition^m(s^m_{t-1}, s^m_t)   prod_t p(x_t | s^1_t, ..., s^M_t)

Given the data the chains depend on each other. `credo.infer(model, data=x)` answers exactly, over the product
of all states; `"structured-mean-field"` and `"mean-field"` climb lower bounds of the log-likelihood with
chains, or steps, that are independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np

from ..core import check
from ..core.display import Listing, Shown
from ..core.errors import ModelError
from ..core.instance import Instance
from ..core.records import register
from ..families.additive import AdditiveGaussian
from ..families.base import Family
from ..families.learnable import Learnable
from .hidden_chain import moves
from .hmm import HMM
from .hmm_parameters import probability_rows, random_rows, renewed

__all__ = ["FactorialHMM"]


@register("FactorialHMM", fields=["starts", "transitions", "emission"])
class FactorialHMM(Shown, Learnable):
    """Several hidden chains with one emission; immutable.

    `credo.fit` learns it by EM with exact expectations over the product of all states, or with
    `inference="structured"` with a bound whose chains are independent given the data.

    Parameters
    ----------
    starts, transitions
        One array per chain, as of an `HMM`.
    emission
        A family with one member per joint state, in C order: the state of the last chain changes fastest.
    states
        Instead of starts and transitions: how many states each chain has, of a blank that `credo.fit` fills;
        `emission` is then the name of a family, `"additive"` for sums of one effect per chain.

    Examples
    --------
    >>> import credo
    >>> from credo.models.factorial_hmm import FactorialHMM
    >>> half, sticky = [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]
    >>> effects = [[[0.0], [1.0]], [[0.0], [3.0]]]
    >>> model = FactorialHMM.additive([half, half], [sticky, sticky], effects, [[0.1]])
    >>> found = credo.infer(model, data=[0.0, 1.0, 4.0, 3.0])
    >>> found.marginals["state0"].argmax(axis=1), found.marginals["state1"].argmax(axis=1)
    (array([0, 1, 1, 0]), array([0, 0, 1, 1]))
    """

    parts: ClassVar[tuple[str, ...]] = ("start", "transition", "emission")

    def __new__(cls, *parts: Any, states: Any = None, **more: Any) -> Any:
        """A model, or with `states` a blank."""
        if states is None:
            return super().__new__(cls)
        from .blank_hmm import BlankFactorialHMM, blank_of

        return blank_of(BlankFactorialHMM, states, parts, more)

    def __init__(
        self,
        starts: Sequence[Any] = (),
        transitions: Sequence[Any] = (),
        emission: Any = None,
        *,
        states: Sequence[int] | None = None,
    ) -> None:
        if not len(starts) or len(starts) != len(transitions):
            raise ModelError(
                f"chains: expected as many starts as transitions and at least one, "
                f"got {len(starts)} and {len(transitions)}"
            )
        self._starts = tuple(probability_rows("start", start, 1) for start in starts)
        self._transitions = tuple(probability_rows("transition", step, 2) for step in transitions)
        for m, (start, step) in enumerate(zip(self._starts, self._transitions, strict=True)):
            if step.shape != (len(start), len(start)):
                raise ModelError(
                    f"transition of chain {m}: expected shape {(len(start), len(start))}, got {step.shape}"
                )
        if not isinstance(emission, Family) or len(emission) != prod(self.shape):
            size = len(emission) if isinstance(emission, Family) else type(emission).__name__
            raise ModelError(
                f"emission: expected {prod(self.shape)} members, one per joint state, got {size}"
            )
        self._emission = emission

    @classmethod
    def additive(
        cls, starts: Sequence[Any], transitions: Sequence[Any], effects: Sequence[Any], covariance: Any
    ) -> FactorialHMM:
        """Gaussian rows whose mean is the sum of one effect (states of the chain, d) per chain.

        Learning moves the effects, by a regression on the states of all chains.
        """
        return cls(starts, transitions, AdditiveGaussian(effects, covariance))

    @property
    def starts(self) -> tuple[np.ndarray, ...]:
        """Per chain, (states,)."""
        return self._starts

    @property
    def transitions(self) -> tuple[np.ndarray, ...]:
        """Per chain, (states, states)."""
        return self._transitions

    @property
    def emission(self) -> Any:  # type: ignore[override]
        """The family of emissions, one member per joint state."""
        return self._emission

    @property
    def shape(self) -> tuple[int, ...]:
        """States of each chain."""
        return tuple(len(start) for start in self._starts)

    def to_hmm(self) -> HMM:
        """The hidden Markov model over the product of all states."""
        start, step = np.ones(1), np.ones((1, 1))
        for first, move in zip(self._starts, self._transitions, strict=True):
            start, step = np.kron(start, first), np.kron(step, move)
        return HMM(start, step, self._emission)

    def hidden(self, scores: np.ndarray, begin: np.ndarray, first: int = 0) -> Instance:
        """Several chains with these log scores (rows, joint states)."""
        tables = {f"start{m}": start for m, start in enumerate(self._starts)}
        tables |= {f"transition{m}": step for m, step in enumerate(self._transitions)}
        return Instance("factorial", scores, begin, tables, shape=self.shape, first=first)

    @property
    def n_parameters(self) -> int:
        """Free numbers; structural zeros of starts and transitions are not free."""
        free = sum(np.count_nonzero(a) for a in (*self._starts, *self._transitions))
        return int(free - len(self.shape) - sum(self.shape)) + int(self._emission.n_parameters)

    def initialise(self, data: Any, rng: np.random.Generator, *, fixed: tuple[str, ...] = ()) -> FactorialHMM:
        """A random model of the same shape, at the scale of the data; zeros and `fixed` parts stay."""
        starts, steps, emission = self._starts, self._transitions, self._emission
        if "start" not in fixed:
            starts = tuple(random_rows(start[None], rng)[0] for start in starts)
        if "transition" not in fixed:
            steps = tuple(random_rows(step, rng) for step in steps)
        if "emission" not in fixed:
            emission = emission.initialise(self.sequences(data).rows(), rng)
        return FactorialHMM(starts, steps, emission)

    def update(
        self, expected: Any, prior: None = None, *, fixed: tuple[str, ...] = (), floor: float = 0.0
    ) -> FactorialHMM:
        """The model of the highest expected log-likelihood, chain by chain; see `HMM.update`."""
        for part in fixed:
            check.one_of("fixed", part, self.parts)
        starts, steps, emission = self._starts, self._transitions, self._emission
        chains, counts = range(len(self.shape)), expected.counts
        if "start" not in fixed:
            starts = tuple(renewed(starts[m][None], counts[f"start{m}"][None])[0] for m in chains)
        if "transition" not in fixed:
            steps = tuple(renewed(steps[m], counts[f"transition{m}"]) for m in chains)
        if "emission" not in fixed:
            emission = expected.emission.update(emission, None, floor=floor)
        return FactorialHMM(starts, steps, emission)

    def _shown(self) -> Iterable[str | Listing]:
        yield repr(self)
        for m, (start, step) in enumerate(zip(self._starts, self._transitions, strict=True)):
            yield replace(moves(start, step), title=f"chain {m}")

    def __repr__(self) -> str:
        return f"FactorialHMM(chains of {self.shape} states, {self._emission!r})"
