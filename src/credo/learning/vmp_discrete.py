"""Categorical and Dirichlet nodes of variational message passing; see `vmp_nodes.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import DataError, ModelError
from ..core.numbers import float_array
from ..families.natural import SIMPLEX, STATES, Parts
from .vmp_base import (
    ConstantNode,
    MessageNode,
    RandomNode,
    RootNode,
    check_broadcast,
    check_kind,
    fold,
    nodes_among,
    shape_of,
)

__all__ = ["CategoricalNode", "DirichletNode"]


class DirichletNode(RootNode):
    """Probabilities p ~ Dirichlet(concentration); the states are the last axis, which is not in the shape."""

    family = SIMPLEX

    def __init__(self, concentration: Any, *, shape: Any = None) -> None:
        self._a = float_array("DirichletNode", concentration)
        if not self._a.ndim or not (self._a > 0).all():
            raise ModelError(
                "DirichletNode: expected positive concentrations with the states on the last axis"
            )
        self.states = self._a.shape[-1]
        self.shape = shape_of(shape, None, self._a.shape[:-1])

    def prior(self, at: Any) -> Parts:
        """Concentrations - 1."""
        return (np.broadcast_to(self._a - 1.0, (*self.shape, self.states)),)


class CategoricalNode(RandomNode):
    """States z ~ probabilities.

    Parameters
    ----------
    probabilities
        A `DirichletNode`, or an array with the states on the last axis; with `choose`, the components on the
        axis before.
    shape, choose
        As in `GaussianNode`.
    observed
        State indices; -1 is missing.
    """

    family = STATES

    def __init__(
        self, probabilities: Any, *, shape: Any = None, choose: Any = None, observed: Any = None
    ) -> None:
        if isinstance(probabilities, MessageNode):
            self.table: MessageNode = probabilities
            check_kind("probabilities", self.table, (DirichletNode,))
            plates, self.states = probabilities.shape, getattr(probabilities, "states", 0)
        else:
            found = float_array("probabilities", probabilities)
            if not found.ndim or (found <= 0).any() or not np.allclose(found.sum(axis=-1), 1.0):
                raise ModelError("probabilities: expected positive numbers whose rows sum to 1")
            self.table, plates, self.states = ConstantNode(np.log(found)), found.shape[:-1], found.shape[-1]
        self.choose = choose
        data = None if observed is None else np.asarray(observed)
        self.shape = shape_of(shape, data, plates[:-1] if choose is not None else plates)
        self._plates = plates
        self._full = (*(self.shape if choose is None else (*self.shape, choose.states)), self.states)
        check_broadcast(self.shape, (*plates, self.states), self._full)
        if data is not None:
            if data.dtype.kind not in "iu" or data.min() < -1 or data.max() >= self.states:
                raise DataError(
                    f"observed: expected state indices from 0 to {self.states - 1}, or -1 for missing"
                )
            self.observed = (np.eye(self.states + 1)[data][..., :-1],)
        self.parents = nodes_among(self.table, choose)

    def _shares(self, at: Any) -> np.ndarray:
        return np.ones(()) if self.choose is None else at(self.choose)[0][..., None]

    def _one_hot(self, at: Any) -> np.ndarray:
        return at(self)[0] if self.choose is None else at(self)[0][..., None, :]

    def prior(self, at: Any) -> Parts:
        """E[log p], averaged over the components."""
        logs = np.broadcast_to(self._shares(at) * at(self.table)[0], self._full)
        return (logs if self.choose is None else logs.sum(axis=-2),)

    def to_parent(self, parent: MessageNode, at: Any) -> Parts:
        """To the choice, expected log probabilities per component; to the table, expected counts."""
        if parent is self.choose:
            table = np.broadcast_to(self._one_hot(at) * at(self.table)[0], self._full).sum(axis=-1)
            return (fold(table, self._full[:-1], (*parent.shape, self._full[-2])),)
        return (fold(self._shares(at) * self._one_hot(at), self._full, (*parent.shape, self.states)),)

    def expected_log(self, at: Any) -> float:
        """E[log p(state | its table)] under q, summed over the entries."""
        table = self._shares(at) * self._one_hot(at) * at(self.table)[0]
        return float(np.broadcast_to(table, self._full).sum())

    def start(self, natural: Parts, rng: np.random.Generator) -> Parts:
        """At random, because equal states would never part."""
        return (natural[0] + rng.gumbel(size=natural[0].shape),)
