r"""Restricted Boltzmann machines: two layers of units, every pair across joined, none within.

    p(v, h) ∝ exp( v'W h + b'v + c'h ),      v, h in {0, 1}
    p(v, h) ∝ exp( -sum_i (v_i - b_i)^2 / (2 s_i^2) + sum_ij v_i W_ij h_j / s_i^2 + c'h ),      v real

Given one layer, the units of the other are independent:

    p(h_j = 1 | v) = sigma( (u'W)_j + c_j ),     u = v, or v / s^2
    p(v_i = 1 | h) = sigma( (W h)_i + b_i ),     or v_i ~ N( b_i + (W h)_i, s_i^2 )

and the hidden units are summed out by hand: log p(v) = -F(v) - log Z with the free energy

    -F(v) = sum_j softplus( (u'W)_j + c_j ) + b'v,      or - sum_i (v_i - b_i)^2 / (2 s_i^2)

log Z is a sum over the states of the smaller layer (of real units: of the hidden one). The factor graph holds
W as one dense factor. Source: Smolensky (1986); Welling, Rosen-Zvi and Hinton (2004) for real units.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core import check
from ..core.domain import Real
from ..core.errors import DataError, ModelError, TooLargeError
from ..core.factor_graph import FactorGraph
from ..core.groups import Bilinear, Gaussians
from ..core.naming import NamedModel
from ..core.numbers import float_array
from ..core.records import register
from ..core.variable import Variable, Variables
from ..kernels.background import Helper
from ..kernels.boltzmann import log_sum_over_layer, sigmoid, softplus_sums
from .unit_rows import UnitRows, UnitWeights, unit_table

if TYPE_CHECKING:
    from .blank_rbm import BlankRBM

__all__ = ["RBM", "exact_log_z", "layer_rows", "layer_vector"]

_SUMMED = 24  # units whose joint states can be summed in a minute or so


@register("RBM", fields=["weights", "visible_bias", "hidden_bias", "visible", "sd"])
class RBM(NamedModel):
    """A restricted Boltzmann machine; immutable.

    Parameters
    ----------
    weights
        W, shape (visible units, hidden units); without hidden units the visible ones are independent.
    visible_bias, hidden_bias
        b and c, one number per unit; None: zeros.
    visible
        Whether visible units have two states, or are real numbers.
    sd
        Standard deviations s of real visible units given the hidden ones, one number or one per unit.

    Examples
    --------
    >>> import credo
    >>> from credo.models import RBM
    >>> rbm = RBM([[1.0, -2.0], [0.5, 0.0], [-1.0, 3.0]], [0.0, 0.2, -0.1], [0.1, -1.0])
    >>> round(rbm.log_z(), 6), rbm.hidden_given([1, 0, 1]).round(4)
    (4.018933, array([0.525, 0.5  ]))
    >>> credo.infer(rbm, "enumerate", evidence={"v0": 1, "v1": 0, "v2": 1}).marginals["h0"].round(4)
    h0   0: 0.475   1: 0.525
    """

    def __init__(
        self,
        weights: Any,
        visible_bias: Any = None,
        hidden_bias: Any = None,
        *,
        visible: Literal["bernoulli", "gaussian"] = "bernoulli",
        sd: Any = 1.0,
    ) -> None:
        self.weights = check.finite_numbers("weights", weights)
        if self.weights.ndim != 2 or not len(self.weights):
            raise ModelError(
                f"weights: expected shape (visible units, hidden units), got {self.weights.shape}"
            )
        count, hidden = self.weights.shape
        self.visible_bias = layer_vector("visible_bias", visible_bias, count)
        self.hidden_bias = layer_vector("hidden_bias", hidden_bias, hidden)
        check.one_of("visible", visible, ["bernoulli", "gaussian"])
        self.visible: Literal["bernoulli", "gaussian"] = visible
        self.sd = layer_vector("sd", sd, count, spread=True)
        if not (self.sd > 0).all():
            raise ModelError(f"sd: expected positive standard deviations, got {self.sd.min():g}")
        if visible == "bernoulli" and not (self.sd == 1).all():
            raise ModelError('sd: units of two states have none; leave it out, or give visible="gaussian"')
        self.weights.flags.writeable = False

    @classmethod
    def of_clamped_unit(cls, weights: Any, visible_bias: Any = None) -> RBM:
        """The machine without hidden biases whose last visible unit is always 1: its weights are biases.

        Parameters
        ----------
        weights
            One row per visible unit; the last one is that of the unit which is 1.
        visible_bias
            Of the units before it.
        """
        all_weights = check.finite_numbers("weights", weights)
        if all_weights.ndim != 2 or len(all_weights) < 2:
            raise ModelError(f"weights: expected two rows or more, the last a bias, got {all_weights.shape}")
        return cls(all_weights[:-1], visible_bias, all_weights[-1])

    @property
    def is_real(self) -> bool:
        """Whether visible units are numbers of the line."""
        return self.visible == "gaussian"

    @property
    def n_parameters(self) -> int:
        """Weights, biases, and the variances of real units."""
        return self.weights.size + sum(self.weights.shape) + (len(self.sd) if self.is_real else 0)

    @cached_property
    def couplings(self) -> np.ndarray:
        """What multiplies v_i h_j: W, of real units W / s^2."""
        found: np.ndarray = self.weights / self.sd[:, None] ** 2
        return found

    def hidden_inputs(self, v: Any) -> np.ndarray:
        """Log-odds of the hidden units given rows of visible ones, (rows, hidden)."""
        rows = self._visible_rows(v)
        return np.asarray(rows @ self.couplings + self.hidden_bias)

    def hidden_given(self, v: Any) -> np.ndarray:
        """p(h_j = 1 | v), one row per row of v."""
        return sigmoid(self.hidden_inputs(v))

    def visible_given(self, h: Any) -> np.ndarray:
        """p(v_i = 1 | h), of real units their means, one row per row of h."""
        inputs = layer_rows("h", h, self.weights.shape[1]) @ self.weights.T + self.visible_bias
        return inputs if self.is_real else sigmoid(inputs)

    def energy(self, v: Any, h: Any) -> Any:
        """E(v, h) = -log of the weight of rows of both layers."""
        rows = layer_rows("h", h, self.weights.shape[1])
        return -self._visible_score(self._visible_rows(v)) - (self.hidden_inputs(v) * rows).sum(axis=-1)

    def free_energy(self, v: Any) -> Any:
        """F(v) = -log sum_h exp(-E(v, h)), one number per row."""
        return -self._visible_score(self._visible_rows(v)) - softplus_sums(self.hidden_inputs(v))

    def log_density(self, v: Any, log_z: float | None = None) -> Any:
        """Log p(v) of every row; without the log Z of another method it is summed exactly."""
        return -self.free_energy(v) - (self.log_z() if log_z is None else float(log_z))

    def log_z(self) -> float:
        """Log Z by summing over the states of the smaller layer; `ais` estimates it where both are wide."""
        count, hidden = self.weights.shape
        if self.is_real:
            return exact_log_z(self.hidden_bias, self.weights.T, self._integrated, "hidden")
        b, c = self.visible_bias, self.hidden_bias
        if hidden <= count:
            return exact_log_z(c, self.weights.T, lambda inputs: softplus_sums(inputs + b), "hidden")
        return exact_log_z(b, self.weights, lambda inputs: softplus_sums(inputs + c), "visible")

    def _integrated(self, pull: np.ndarray) -> np.ndarray:
        """The log of the integral over real visible units given rows of their inputs W h."""
        variance = self.sd**2
        each = (self.visible_bias * pull + 0.5 * pull**2) / variance
        return np.asarray(each.sum(axis=1) + 0.5 * np.log(2 * np.pi * variance).sum())

    def _visible_score(self, v: np.ndarray) -> Any:
        if self.is_real:
            return -0.5 * (((v - self.visible_bias) / self.sd) ** 2).sum(axis=-1)
        return v @ self.visible_bias

    def _visible_rows(self, v: Any) -> np.ndarray:
        return layer_rows("v", v, len(self.weights), is_real=self.is_real)

    @classmethod
    def blank(cls, hidden: int, **options: Any) -> BlankRBM:
        """So many hidden units, and what the data say: `credo.fit(RBM.blank(100), x)`."""
        from .blank_rbm import BlankRBM

        return BlankRBM(hidden, **options)

    def read_batch(self, data: Any, **reading: Any) -> UnitRows:
        """Rows of visible units, for learning: an array, or a table whose columns are the units in order."""
        given = [name for name, value in reading.items() if value is not None]
        if given:
            raise DataError(f"{', '.join(given)}: a Boltzmann machine has independent rows; leave out")
        if isinstance(data, UnitRows):
            return data
        names = [f"v{i}" for i in range(len(self.weights))]
        return UnitRows(np.atleast_2d(self._visible_rows(unit_table("data", data, names))))

    def filled(self, data: Any, **reading: Any) -> RBM:
        """The machine itself, which has all its units."""
        return self

    def unit_weights(self) -> UnitWeights:
        """All weights as one vector, for learning; standard deviations of real units stay."""
        options: dict[str, Any] = {"visible": self.visible, "sd": self.sd} if self.is_real else {}
        parts = (self.weights, self.visible_bias, self.hidden_bias)
        scale = 1 / self.sd**2 if self.is_real else None
        return UnitWeights.of(parts, lambda w, b, c: RBM(w, b, c, **options), scale)

    @property
    def variables(self) -> Variables:
        """Units v0, v1, ... and h0, h1, ..."""
        return self.to_factor_graph().variables

    def to_factor_graph(self) -> FactorGraph:
        """Biases as one factor per unit, and W as one dense factor; the same object at every call."""
        return self._graph

    @cached_property
    def _graph(self) -> FactorGraph:
        count, hidden = self.weights.shape
        left = [Variable(f"v{i}", Real() if self.is_real else 2) for i in range(count)]
        right = [Variable(f"h{j}", 2) for j in range(hidden)]
        variables, units = Variables.of(left + right), np.arange(count + hidden)
        fields = [self.hidden_bias] if self.is_real else [self.visible_bias, self.hidden_bias]
        field = np.concatenate(fields)
        states = (units[len(units) - len(field) :, None], np.stack([np.zeros_like(field), field], axis=1))
        tables = FactorGraph.from_arrays(variables, states, log=True)
        layers = [Bilinear(np.array([len(field)]), units[None], self.couplings)] if hidden else []
        if not self.is_real:
            return tables.with_parts(variables, layers)
        precision, b = 1 / self.sd**2, self.visible_bias
        own = Gaussians(
            len(field) + len(layers) + units[:count],
            units[:count, None],
            precision[:, None, None],
            (precision * b)[:, None],
            -0.5 * precision * b**2,
        )
        return tables.with_parts(variables, [own, *layers])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RBM)
            and self.visible == other.visible
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("weights", "visible_bias", "hidden_bias", "sd")
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        count, hidden = self.weights.shape
        return f"RBM({count} {'real ' if self.is_real else ''}visible units, {hidden} hidden units)"


def layer_vector(what: str, values: Any, count: int, *, spread: bool = False) -> np.ndarray:
    """One finite number per unit, zeros where there are none."""
    found = np.zeros(count) if values is None else check.finite_numbers(what, values)
    if spread and found.ndim == 0:
        found = np.full(count, float(found))
    if found.shape != (count,):
        raise ModelError(f"{what}: expected {count} numbers, one per unit, got shape {found.shape}")
    found.flags.writeable = False
    return found


def layer_rows(what: str, values: Any, count: int, *, is_real: bool = False) -> np.ndarray:
    """Rows of units: numbers in [0, 1], or any finite ones of real units; one row stays one row."""
    rows = float_array(what, values, error=DataError)
    if rows.ndim not in (1, 2) or rows.shape[-1] != count:
        raise DataError(f"{what}: expected rows of {count} units, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise DataError(f"{what}: expected finite numbers, got {rows[~np.isfinite(rows)].flat[0]:g}")
    if not is_real and rows.size and not (rows.min() >= 0 and rows.max() <= 1):
        worst = rows.max() if rows.max() > 1 else rows.min()
        raise DataError(
            f"{what}: expected numbers from 0 to 1, got {worst:g}; scale the columns to [0, 1], or use real "
            'visible units: RBM(..., visible="gaussian")'
        )
    return rows


def exact_log_z(fields: np.ndarray, weights: np.ndarray, joined: Any, layer: str) -> float:
    """The sum over all states of a layer, if they are few enough."""
    if len(fields) > _SUMMED:
        raise TooLargeError(
            f"log_z: summing over the states of {len(fields)} {layer} units takes 2^{len(fields)} terms, at "
            f'most 2^{_SUMMED} are summed; estimate it: credo.infer(model, "ais").log_z'
        )
    return log_sum_over_layer(fields, weights, joined, Helper.look)
