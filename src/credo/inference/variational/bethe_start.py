"""Where the ascents of Bethe variational inference start: random mixtures, or that of an earlier run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import QueryError
from ..problem.base import Problem
from ..problem.starting_places import Places
from .bethe_plan import BetheLayout
from .bethe_system import BetheParameters
from .bethe_zeros import boxes
from .surrogate import Surrogate

__all__ = ["StartOf", "warm_parameters"]

_FAVOUR = 6.0  # logit of the states in which a component starts where a model has zeros


@dataclass(frozen=True)
class StartOf:
    """Random parameters of one restart."""

    layout: BetheLayout  # which variables there are, by kind
    places: Places  # where the mass of variables lies
    options: Any  # of the method: components, spread
    rng: np.random.Generator  # of this restart

    def parameters(self, problem: Problem) -> BetheParameters:
        """Means around the places of variables, logits around zero, concentrations near one."""
        m = self.options.components
        favoured = boxes(problem, self.layout, m, self.rng)
        parts = []
        for kind, own in zip(self.layout.kinds, self.layout.members, strict=True):
            if kind.family == "real":
                parts.append(self._real(own, m))
            elif kind.family == "discrete":
                sd = 1.0 if self.options.spread is None else self.options.spread
                logits = sd * self.rng.standard_normal((len(own), m, kind.size))
                parts.append(logits if favoured is None else logits + _FAVOUR * favoured)
            else:
                parts.append(0.5 + 0.5 * self.rng.standard_normal((len(own), m, kind.size)))
        return BetheParameters(np.zeros(m), tuple(np.moveaxis(part, 0, -1) for part in parts))

    def _real(self, own: np.ndarray, m: int) -> np.ndarray:
        scale = self.places.scale[own][:, None]
        spread = scale if self.options.spread is None else self.options.spread
        mean = self.places.centre[own][:, None] + spread * self.rng.standard_normal((len(own), m))
        log_sd = np.broadcast_to(np.log(scale / m), mean.shape)
        return np.stack([mean, log_sd], axis=-1)


def warm_parameters(state: Any, layout: BetheLayout, components: int) -> BetheParameters:
    """The parameters of the mixture of an earlier run."""
    if not isinstance(state, Surrogate):
        raise QueryError("warm_start: expected the result of bethe")
    variables = layout.graph.variables
    if list(state.variables.names) != list(variables.names) or len(state.log_weights) != components:
        raise QueryError(
            f"warm_start: expected a mixture of {components} components over the {len(variables)} variables "
            f"that are not observed, got {state!r}"
        )
    parts = []
    real = iter(range(len(state.means)))
    rows = {i: next(real) for i in sorted(state._real)}
    for kind, own in zip(layout.kinds, layout.members, strict=True):
        if kind.family == "real":
            at = [rows[int(i)] for i in own]
            parts.append(np.stack([state.means[at], np.log(state.sds[at])], axis=-1))
        elif kind.family == "simplex":
            parts.append(np.log(np.stack([state.concentrations[variables.names[int(i)]] for i in own])))
        else:
            logits = np.full((len(own), components, kind.size), -60.0)
            for row, i in enumerate(own):
                table = state.log_tables[variables.state_start[i] : variables.state_start[i + 1]]
                logits[row, :, : len(table)] = np.maximum(table.T, -60.0)
            parts.append(logits)
    parts = [np.moveaxis(part, 0, -1) for part in parts]
    return BetheParameters(np.maximum(state.log_weights, -60.0), tuple(parts))
