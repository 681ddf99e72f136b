r"""Fractional Boltzmann machines: hidden units that count any positive number of times.

    log p(v) = sum_j a_j softplus( (v'W)_j + c_j ) + b'v - log Z,      a_j > 0

With a_j = 1 this is a restricted Boltzmann machine, with whole numbers one whose unit j stands there a_j
times. In between there is no joint distribution of v and hidden units that has two states each, so there is
no factor graph and no p(h | v), and log Z is a sum over the visible units. It is what a distribution over
hidden units, a_j = alpha q_j, becomes: the machine with infinitely many of them.

Source: Ping, Liu and Ihler, Learning infinite RBMs with Frank-Wolfe (2016).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import check
from ..core.errors import ModelError, UnsupportedError
from ..core.factor_graph import FactorGraph
from ..core.records import register
from ..kernels.boltzmann import softplus
from .rbm import RBM, exact_log_z, layer_rows, layer_vector
from .unit_rows import UnitRows

__all__ = ["FractionalRBM"]


@register("FractionalRBM", fields=["weights", "counts", "visible_bias", "hidden_bias"])
class FractionalRBM:
    """A Boltzmann machine whose hidden units count fractionally; immutable.

    Parameters
    ----------
    weights
        W, shape (visible units, hidden units).
    counts
        a, how often every hidden unit counts; positive.
    visible_bias, hidden_bias
        b and c; None: zeros.

    Examples
    --------
    >>> from credo.models import FractionalRBM
    >>> FractionalRBM([[1.0, -1.0]], [2, 1]).to_rbm()
    RBM(1 visible units, 3 hidden units)
    """

    def __init__(self, weights: Any, counts: Any, visible_bias: Any = None, hidden_bias: Any = None) -> None:
        machine = RBM(weights, visible_bias, hidden_bias)
        self.weights, self.visible_bias = machine.weights, machine.visible_bias
        self.hidden_bias = machine.hidden_bias
        self.counts = layer_vector("counts", check.finite_numbers("counts", counts), self.weights.shape[1])
        if not (self.counts > 0).all():
            raise ModelError(
                f"counts: expected positive numbers, got {self.counts.min():g}; leave such units out"
            )

    @property
    def is_whole(self) -> bool:
        """Whether every unit counts a whole number of times."""
        return bool((self.counts == np.rint(self.counts)).all())

    @property
    def n_parameters(self) -> int:
        """Weights, biases and counts."""
        return self.weights.size + len(self.visible_bias) + 2 * len(self.counts)

    def free_energy(self, v: Any) -> Any:
        """F(v), with exp(-F) the weight of visible units."""
        rows = layer_rows("v", v, len(self.weights))
        return -(softplus(rows @ self.weights + self.hidden_bias) @ self.counts) - rows @ self.visible_bias

    def log_density(self, v: Any, log_z: float | None = None) -> Any:
        """Log p(v) of every row; without a log Z it is summed exactly."""
        return -self.free_energy(v) - (self.log_z() if log_z is None else float(log_z))

    def log_z(self) -> float:
        """Log Z by summing over the states of the visible units, also where there are fewer hidden ones."""
        b, c = self.visible_bias, self.hidden_bias
        return exact_log_z(b, self.weights, lambda inputs: softplus(inputs + c) @ self.counts, "visible")

    def to_rbm(self) -> RBM:
        """The machine whose units stand there as often as they count, where these are whole numbers."""
        self._check_whole("no machine of whole units")
        times = self.counts.astype(np.int64)
        return RBM(
            np.repeat(self.weights, times, axis=1), self.visible_bias, np.repeat(self.hidden_bias, times)
        )

    def hidden_given(self, v: Any) -> np.ndarray:
        """p(h | v) of the repeated units; refused where units count fractionally."""
        self._check_whole("no p(h | v)")
        return self.to_rbm().hidden_given(v)

    def to_factor_graph(self) -> FactorGraph:
        """The graph of the repeated units; refused where units count fractionally."""
        self._check_whole("no factor graph")
        if not hasattr(self, "_machine"):
            self._machine = self.to_rbm()
        return self._machine.to_factor_graph()

    def read_batch(self, data: Any, **reading: Any) -> UnitRows:
        """Rows of visible units, for learning."""
        return RBM(self.weights).read_batch(data, **reading)

    def filled(self, data: Any, **reading: Any) -> FractionalRBM:
        """The machine itself, which has all its units."""
        return self

    def _check_whole(self, what: str) -> None:
        if not self.is_whole:
            odd = float(self.counts[self.counts != np.rint(self.counts)][0])
            raise UnsupportedError(
                f"a fractional machine has {what}: a unit counts {odd:g} times; ask for free_energy and "
                "log_density, which it has, or round the counts"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FractionalRBM) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("weights", "counts", "visible_bias", "hidden_bias")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        count, hidden = self.weights.shape
        return f"FractionalRBM({count} visible units, {hidden} hidden units, {self.counts.sum():g} in all)"
