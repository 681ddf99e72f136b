"""Tables of probabilities over a few variables, with the names of their states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .display import Axis, Listing, Shown, data_frame, grid, shares
from .errors import QueryError
from .variable import Variable

__all__ = ["Joint", "label_columns"]


@dataclass(frozen=True, repr=False)
class Joint(Shown):
    """A table of probabilities over a few variables: p(scope), or p(scope | given).

    Axes are the variables of `scope` followed by those of `given`. Where the condition itself
    has probability zero, the conditional is not defined and its entries are zero.

    Examples
    --------
    >>> import credo
    >>> wet = credo.datasets.sprinkler().cpt("wet")
    >>> wet
    p(wet | sprinkler, rain)
    sprinkler  rain  wet=no  wet=yes
    no         no      1.00     0.00
    no         yes     0.10     0.90
    yes        no      0.10     0.90
    yes        yes     0.01     0.99
    >>> wet["yes", "no", "yes"]
    0.9
    """

    variables: tuple[Variable, ...]  # one per axis
    table: np.ndarray
    given: int = 0  # how many of the last axes are conditioned on

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(v.name for v in self.variables)

    def __getitem__(self, states: Any) -> Any:
        """Probability of one joint state, by labels or indices, as a tuple or a mapping."""
        if isinstance(states, Mapping):
            missing = [n for n in self.names if n not in states]
            if missing:
                raise QueryError(
                    f"joint over {list(self.names)}: expected a state of each, got none of {missing}"
                )
            states = tuple(states[n] for n in self.names)
        states = states if isinstance(states, tuple) else (states,)
        if len(states) != len(self.variables):
            raise QueryError(
                f"joint over {list(self.names)}: expected {len(self.variables)} states, got {states!r}"
            )
        return float(self.table[tuple(v.find(s) for v, s in zip(self.variables, states, strict=True))])

    def to_frame(self) -> Any:
        """A pandas data frame with a row per entry: a column of states per variable, and `probability`.

        Conditions come first, as in the tables that `BayesNet.from_pandas` reads.
        """
        variables, table = self._read_down()
        return data_frame({**label_columns(variables), "probability": table.ravel()})

    def _read_down(self) -> tuple[tuple[Variable, ...], np.ndarray]:
        """The variables in the order of reading, conditions first, and the table turned like them."""
        cut = len(self.variables) - self.given
        order = [*range(cut, len(self.variables)), *range(cut)]
        return tuple(self.variables[k] for k in order), self.table.transpose(order)

    def _shown(self) -> Iterable[str | Listing]:
        cut = len(self.variables) - self.given
        bar = f" | {', '.join(self.names[cut:])}" if self.given else ""
        variables, table = self._read_down()
        axes = [Axis(v.name, v.states) for v in variables]
        return [f"p({', '.join(self.names[:cut])}{bar})", grid(axes, table, shares, "probability")]


def label_columns(variables: Iterable[Variable]) -> dict[str, Any]:
    """Columns of states for a data frame with one row per entry of a table over these variables."""
    variables = tuple(variables)
    codes = np.indices([v.size for v in variables]).reshape(len(variables), -1)
    return {v.name: (v.states, column) for v, column in zip(variables, codes, strict=True)}
