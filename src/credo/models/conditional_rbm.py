r"""Conditional restricted Boltzmann machines: outputs v and hidden units h given features x.

    p(v, h | x) ∝ exp( v'W h + v'A x + h'B x + b'v + c'h ),      v, h in {0, 1}

Given x this is a restricted Boltzmann machine with the biases b + A x and c + B x, so it is a template: a
model only together with features. With x = 0 it is the machine itself.

Source: Mnih, Larochelle and Hinton (2011); Ping and Ihler, Belief propagation in conditional RBMs (2017).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..core import check
from ..core.errors import DataError, ModelError
from ..core.layer_rows import LayerRows
from ..core.numbers import float_array
from ..core.records import register
from ..kernels.boltzmann import sigmoid, softplus_sums
from .rbm import RBM, layer_rows
from .unit_rows import UnitRows, UnitWeights, unit_table

__all__ = ["ConditionalRBM"]

_PARTS = ("weights", "visible_weights", "hidden_weights", "visible_bias", "hidden_bias")


@register("ConditionalRBM", fields=_PARTS)
class ConditionalRBM:
    """A restricted Boltzmann machine whose biases depend on features; immutable.

    Parameters
    ----------
    weights
        W, shape (visible units, hidden units).
    visible_weights
        A, shape (visible units, features).
    hidden_weights
        B, shape (hidden units, features).
    visible_bias, hidden_bias
        b and c; None: zeros.

    Examples
    --------
    >>> from credo.models import ConditionalRBM
    >>> crbm = ConditionalRBM([[1.0], [-1.0]], [[2.0], [0.0]], [[0.5]])
    >>> crbm.given([1.0]).visible_bias, crbm.given([1.0]).hidden_bias
    (array([2., 0.]), array([0.5]))
    """

    layers: ClassVar[tuple[str, str]] = ("visible", "hidden")  # what answers about rows are called

    def __init__(
        self,
        weights: Any,
        visible_weights: Any,
        hidden_weights: Any,
        visible_bias: Any = None,
        hidden_bias: Any = None,
    ) -> None:
        machine = RBM(weights, visible_bias, hidden_bias)
        self.weights, self.visible_bias = machine.weights, machine.visible_bias
        self.hidden_bias = machine.hidden_bias
        count, hidden = self.weights.shape
        self.visible_weights = check.finite_numbers("visible_weights", visible_weights)
        self.hidden_weights = check.finite_numbers("hidden_weights", hidden_weights)
        for name, own, units in (
            ("visible_weights", self.visible_weights, count),
            ("hidden_weights", self.hidden_weights, hidden),
        ):
            if own.ndim != 2 or len(own) != units:
                raise ModelError(f"{name}: expected shape ({units}, features), got {own.shape}")
            own.flags.writeable = False
        if self.visible_weights.shape[1] != self.hidden_weights.shape[1]:
            raise ModelError(
                f"hidden_weights: expected {self.visible_weights.shape[1]} features, as visible_weights has, "
                f"got {self.hidden_weights.shape[1]}"
            )

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return int(self.visible_weights.shape[1])

    @property
    def n_parameters(self) -> int:
        """Weights of all three kinds, and biases."""
        return sum(getattr(self, name).size for name in _PARTS)

    def fields(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Biases of both layers given rows of features, (rows, visible) and (rows, hidden)."""
        rows = self._features(x)
        return (
            rows @ self.visible_weights.T + self.visible_bias,
            rows @ self.hidden_weights.T + self.hidden_bias,
        )

    def given(self, x: Any) -> RBM:
        """The machine of one row of features."""
        visible, hidden = self.fields(x)
        if visible.ndim != 1:
            raise DataError(f"x: expected one row of {self.n_features} features, got shape {np.shape(x)}")
        return RBM(self.weights, visible, hidden)

    is_conditional: ClassVar[bool] = True  # it has no distribution over features

    def read_batch(self, data: Any, targets: Any = None, **reading: Any) -> UnitRows:
        """Rows of features, and of visible units as targets, for learning; or both as a pair."""
        self._refuse(reading)
        if isinstance(data, UnitRows) and data.x is not None:
            return data
        if targets is None and isinstance(data, tuple) and len(data) == 2:
            data, targets = data
        if targets is None:
            raise DataError(
                "targets: expected the visible units of every row of features, got none; of validation rows "
                "give both, as a pair (features, targets)"
            )
        x = np.atleast_2d(self._features(unit_table("data", data)))
        v = np.atleast_2d(layer_rows("targets", unit_table("targets", targets), len(self.weights)))
        if len(x) != len(v):
            raise DataError(f"targets: expected {len(x)} rows, as many as features have, got {len(v)}")
        return UnitRows(v, x)

    def filled(self, data: Any, **reading: Any) -> ConditionalRBM:
        """The machine itself, which has all its units."""
        return self

    def unit_weights(self) -> UnitWeights:
        """All weights as one vector, for learning."""
        parts = (
            self.weights, self.visible_bias, self.hidden_bias, self.visible_weights, self.hidden_weights
        )  # fmt: skip
        return UnitWeights.of(parts, lambda w, b, c, a, h: ConditionalRBM(w, a, h, b, c))

    @staticmethod
    def _refuse(reading: dict[str, Any]) -> None:
        given = [name for name, value in reading.items() if value is not None]
        if given:
            raise DataError(
                f"{', '.join(given)}: a conditional machine has independent rows of features; leave out"
            )

    def instantiate(self, x: Any, **reading: Any) -> LayerRows:
        """The machines of rows of features: what `infer(crbm, data=x)` is asked about.

        Examples
        --------
        >>> import credo
        >>> crbm = credo.ConditionalRBM([[1.0], [-1.0]], [[2.0], [0.0]], [[0.5]])
        >>> credo.infer(crbm, data=[[1.0], [0.0]]).marginals["visible"].round(4)
        array([[0.9339, 0.3292],
               [0.6293, 0.3707]])
        """
        self._refuse(reading)
        visible, hidden = (np.atleast_2d(part) for part in self.fields(x))
        return LayerRows(self.weights, visible, hidden)

    def hidden_given(self, v: Any, x: Any) -> np.ndarray:
        """p(h_j = 1 | v, x), row by row."""
        return sigmoid(self._hidden_inputs(v, x))

    def free_energy(self, v: Any, x: Any) -> Any:
        """F(v, x) = -log sum_h exp(-E(v, h, x)), row by row."""
        rows = layer_rows("v", v, len(self.weights))
        own = (rows * self.fields(x)[0]).sum(axis=-1)
        return -own - softplus_sums(self._hidden_inputs(rows, x))

    def _hidden_inputs(self, v: Any, x: Any) -> np.ndarray:
        rows, field = layer_rows("v", v, len(self.weights)), self.fields(x)[1]
        if rows.ndim == 2 and field.ndim == 2 and len(rows) != len(field):
            raise DataError(f"v: expected {len(field)} rows, as many as x has, got {len(rows)}")
        return np.asarray(rows @ self.weights + field)

    def _features(self, x: Any) -> np.ndarray:
        rows = float_array("x", x, error=DataError)
        if rows.ndim not in (1, 2) or rows.shape[-1] != self.n_features:
            raise DataError(f"x: expected rows of {self.n_features} features, got shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise DataError(f"x: expected finite numbers, got {rows[~np.isfinite(rows)].flat[0]:g}")
        return rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConditionalRBM) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in _PARTS
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        count, hidden = self.weights.shape
        return f"ConditionalRBM({count} visible units, {hidden} hidden units, {self.n_features} features)"
