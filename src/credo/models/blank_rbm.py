"""A Boltzmann machine before its data: how many hidden units, and of what kind the visible ones are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from ..core import check
from ..core.errors import ModelError
from ..core.records import register
from .rbm import RBM
from .unit_rows import UnitRows, unit_table

__all__ = ["BlankRBM"]

_LEAST = 1e-6  # standard deviation that is none


@register("BlankRBM")
@dataclass(frozen=True)
class BlankRBM:
    """So many hidden units; the data say how many visible ones.

    Real units begin at the means of their columns and keep the standard deviation they are given here.

    Examples
    --------
    >>> import credo
    >>> credo.RBM.blank(3).filled([[1, 0], [0, 0]])
    RBM(2 visible units, 3 hidden units)
    """

    hidden: int  # units
    visible: Literal["bernoulli", "gaussian"] = "bernoulli"  # kind of the visible ones
    sd: float = 0.5  # of real ones given the hidden units, in standard deviations of their columns

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("hidden", self.hidden, 1)
        check.one_of("visible", self.visible, ["bernoulli", "gaussian"])
        check.at_least("sd", self.sd, _LEAST)

    def filled(self, data: Any, **reading: Any) -> RBM:
        """A machine of zeros for these rows; real units begin at the means of their columns."""
        rows = unit_table("data", data)
        weights = np.zeros((rows.shape[1], self.hidden))
        if self.visible == "bernoulli":
            return RBM(weights)
        machine = RBM(weights, visible="gaussian")
        v = machine.read_batch(rows).v
        sd = v.std(axis=0)
        return RBM(weights, v.mean(axis=0), visible="gaussian", sd=self.sd * np.where(sd > 0, sd, 1.0))

    def read_batch(self, data: Any, **reading: Any) -> UnitRows:
        """Rows of units, which a filled machine reads."""
        return self.filled(data).read_batch(data, **reading)

    def to_factor_graph(self) -> NoReturn:
        """Refused: there are no weights."""
        raise ModelError(
            "model: this BlankRBM is a blank, it has no weights; fit it first: credo.fit(model, data).model"
        )
