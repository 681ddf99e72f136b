"""What hidden Markov models of every kind share: priors, and the updates of their tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import ModelError
from ..core.numbers import float_array
from ..core.records import register
from ..families.categorical import Categorical
from ..families.dirichlet import Dirichlet

__all__ = ["HMMPrior", "probability_rows", "random_rows", "renewed"]


@register("HMMPrior")
@dataclass(frozen=True)
class HMMPrior:
    """Conjugate priors for MAP estimates; None leaves a part to maximum likelihood."""

    start: Dirichlet | None = None  # one member
    transition: Dirichlet | None = None  # one member, or one per state
    emission: Any = None  # the conjugate prior of the emission
    durations: Dirichlet | None = None  # of a semi-Markov model; one member, or one per state

    def __post_init__(self) -> None:
        """Refuse what is no prior; counts in an array might be concentrations, or counts less one."""
        for name in ("start", "transition", "durations"):
            part = getattr(self, name)
            if part is not None and not isinstance(part, Dirichlet):
                raise ModelError(
                    f"{name}: expected a Dirichlet prior or None, got {type(part).__name__}; give "
                    "Dirichlet(concentrations) with one row per member"
                )
        if isinstance(self.emission, (np.ndarray, list, float, int)):
            got = type(self.emission).__name__
            raise ModelError(f"emission: expected the conjugate prior of a family or None, got {got}")

    @classmethod
    def sticky(cls, states: int, stay: float, *, move: float = 1.0, **more: Any) -> HMMPrior:
        """A prior of states that last: concentration `move + stay` on staying and `move` on every move.

        With `move=1` the MAP estimate counts `stay` more steps in which the state stayed, from each state.

        Examples
        --------
        >>> from credo.models import HMMPrior
        >>> HMMPrior.sticky(2, 10).transition.concentration
        array([[11.,  1.],
               [ 1., 11.]])
        """
        check.whole("states", states, 1)
        check.at_least("stay", stay, 0)
        if not move > 0:
            raise ModelError(f"move: expected a positive concentration, got {move!r:.60}")
        counts = np.full((states, states), float(move)) + float(stay) * np.eye(states)
        return cls(transition=Dirichlet(counts), **more)

    def log_density(self, model: Any) -> float:
        """Log prior density of the parameters of a model."""
        total = 0.0
        if self.start is not None:
            total += float(self.start.log_density(Categorical(model.start[None]))[0])
        if self.transition is not None:
            total += float(self.transition.log_density(Categorical(model.transition)).sum())
        if self.durations is not None:
            total += float(self.durations.log_density(Categorical(model.durations)).sum())
        return total + model.emission.log_prior(self.emission)


def probability_rows(name: str, value: Any, axes: int) -> np.ndarray:
    """Rows that sum to one, read-only."""
    rows = float_array(name, value, expected="numbers in rows of one length")
    if rows.ndim != axes:
        raise ModelError(f"{name}: expected an array with {axes} axes, got shape {rows.shape}")
    try:
        found = Categorical(rows if axes == 2 else rows[None]).probabilities
    except ModelError as error:
        raise ModelError(f"{name}: {str(error).split(': ', 1)[1]}") from None
    return found if axes == 2 else found[0]


def renewed(old: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Counts divided by the sums of their rows; zeros of `old` stay, and rows without counts too."""
    counts = np.where(old > 0, np.maximum(counts, 0.0), 0.0)
    sums = counts.sum(axis=1, keepdims=True)
    return np.where(sums > 0, counts / np.where(sums > 0, sums, 1.0), old)


def random_rows(old: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows drawn uniformly from the simplex over the entries where `old` is positive."""
    draws = np.where(old > 0, rng.gamma(1.0, size=old.shape) + 1e-12, 0.0)
    return draws / draws.sum(axis=1, keepdims=True)
