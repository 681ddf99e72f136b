r"""What a normal-form graph is made of, and the fixed matrices of product spaces.

A branch is a variable with an arrow; it begins at one part and ends at another, or at an open end (a
terminal), where evidence comes in. Parts:

    Source(S, prior)                      a prior; its branch leaves it
    Block(X, Y, theta)                    theta[l, m] = p(Y = m | X = l); X enters, Y leaves
    Diverter((X,), (X1, X2, ...))         all its branches are equal; any number enter and leave

Product spaces count their first variable slowest (C order):

    from_product    p(X_j | X_1 .. X_D) = 1 x .. x I x .. x 1             0/1, picks one variable
    to_product      p(X_1 .. X_D | X_j), the transpose with rows that sum to 1: uniform over what agrees
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.numbers import float_array
from ..core.records import register
from ..core.variable import Variable, Variables
from .conditional_tables import ROW_TOLERANCE

__all__ = ["Block", "Diverter", "Part", "Source", "cut", "from_product", "to_product"]


def _rows(what: str, given: Any, ndim: int) -> np.ndarray:
    """A read-only matrix whose rows are distributions."""
    table = float_array(what, given, copy=True)
    if table.ndim != ndim or not table.size:
        raise ModelError(f"{what}: expected {ndim} axes with at least one state, got shape {table.shape}")
    if not ((table >= 0) & (table < np.inf)).all():
        raise ModelError(f"{what}: expected finite, non-negative probabilities")
    table = np.atleast_2d(table)
    sums = table.sum(axis=1)
    if (np.abs(sums - 1) > ROW_TOLERANCE).any():
        raise ModelError(
            f"{what}: every row must sum to 1, got sums from {sums.min():.8g} to {sums.max():.8g}; "
            "divide each row by its sum"
        )
    table.flags.writeable = False
    return table


@register("source")
@dataclass(frozen=True, eq=False)
class Source:
    """A prior of the branch that leaves it; `theta` is one row."""

    output: str  # the branch
    theta: Any  # (states,) probabilities, kept as (1, states)
    fixed: bool = False  # not to be learned
    name: str = ""  # p(output) by default
    tie: str = ""  # sources with the same word share their row

    def __post_init__(self) -> None:
        """Check the prior."""
        object.__setattr__(self, "name", self.name or f"p({self.output})")
        given = np.asarray(self.theta, dtype=object)
        row = given[0] if given.ndim == 2 and len(given) == 1 else self.theta
        object.__setattr__(self, "theta", _rows(f"source {self.name}", row, 1))

    @property
    def inputs(self) -> tuple[str, ...]:
        """No branch enters."""
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The branch that leaves."""
        return (self.output,)

    @property
    def parameter(self) -> str:
        """The name its row is learned and kept under."""
        return self.tie or self.name

    def renamed(self, old: str, new: str, *, entering: bool) -> Source:
        """The same part on another branch."""
        return self if entering or self.output != old else replace(self, output=new)


@register("block")
@dataclass(frozen=True, eq=False)
class Block:
    """A conditional distribution of the branch that leaves it, given the one that enters."""

    input: str  # the branch that enters
    output: str  # the branch that leaves
    theta: Any  # (states entering, states leaving), rows sum to 1
    fixed: bool = False  # not to be learned
    name: str = ""  # p(output|input) by default
    tie: str = ""  # blocks with the same word share their matrix

    def __post_init__(self) -> None:
        """Check the matrix."""
        object.__setattr__(self, "name", self.name or f"p({self.output}|{self.input})")
        object.__setattr__(self, "theta", _rows(f"block {self.name}", self.theta, 2))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The branch that enters."""
        return (self.input,)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The branch that leaves."""
        return (self.output,)

    @property
    def parameter(self) -> str:
        """The name its matrix is learned and kept under."""
        return self.tie or self.name

    def renamed(self, old: str, new: str, *, entering: bool) -> Block:
        """The same part with one branch replaced, where it enters or where it leaves."""
        if entering:
            return replace(self, input=new) if self.input == old else self
        return replace(self, output=new) if self.output == old else self


@register("diverter")
@dataclass(frozen=True)
class Diverter:
    """All branches that enter and leave are one variable."""

    inputs: Any  # names of branches that enter; one name or several, kept as a tuple
    outputs: Any  # names of branches that leave; one name or several, kept as a tuple
    name: str = ""  # = and the first branch by default

    def __post_init__(self) -> None:
        """Accept single names and lists."""
        for side in ("inputs", "outputs"):
            given = getattr(self, side)
            object.__setattr__(self, side, (given,) if isinstance(given, str) else tuple(given))
        arms = self.inputs + self.outputs
        if not arms:
            raise ModelError("diverter: expected at least one branch, got none")
        object.__setattr__(self, "name", self.name or f"={arms[0]}")

    def renamed(self, old: str, new: str, *, entering: bool) -> Diverter:
        """The same part with one branch replaced, where it enters or where it leaves."""
        arms = tuple(new if x == old else x for x in (self.inputs if entering else self.outputs))
        return replace(self, inputs=arms) if entering else replace(self, outputs=arms)


Part = Source | Block | Diverter


def cut(
    branches: Variables, parts: Sequence[Part], branch: str, name: str, is_end: bool
) -> tuple[list[Variable], list[Part]]:
    """Put a diverter with a new arm into a branch, which keeps its name where it leaves a part.

    `is_end` says that the branch ends openly: it then keeps its name at that end.
    """
    domain = branches.domains[branches.position(branch)]
    if name in branches:
        raise ModelError(f"tap: there is a branch named '{name}' already; give the new one another name")
    other = f"{branch}'"
    while other in branches or other == name:
        other += "'"
    # Names made from branches must not change with them: they are what matrices are kept under.
    moved = [replace(part.renamed(branch, other, entering=not is_end), name=part.name) for part in parts]
    enters, leaves = (other, branch) if is_end else (branch, other)
    diverter = Diverter(enters, (leaves, name), name=f"=({branch}, {name})")
    return [*branches, Variable(other, domain), Variable(name, domain)], [*moved, diverter]


def _kronecker(sizes: Sequence[int], j: int) -> np.ndarray:
    if not 0 <= j < len(sizes):
        raise ModelError(f"product space: expected a variable from 0 to {len(sizes) - 1}, got {j}")
    parts = [np.eye(size) if k == j else np.ones((size, 1)) for k, size in enumerate(sizes)]
    return reduce(np.kron, parts)


def from_product(sizes: Sequence[int], j: int) -> np.ndarray:
    """The matrix (product of sizes, sizes[j]) that picks variable `j` out of a product space.

    Examples
    --------
    >>> from credo.models.normal_form_parts import from_product
    >>> from_product([2, 3, 2], 1).argmax(axis=1)
    array([0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2])
    """
    return _kronecker(sizes, j)


def to_product(sizes: Sequence[int], j: int) -> np.ndarray:
    """The matrix (sizes[j], product of sizes) from variable `j`, uniform over the cells that agree with it.

    Examples
    --------
    >>> from credo.models.normal_form_parts import to_product
    >>> to_product([2, 2], 0)
    array([[0.5, 0.5, 0. , 0. ],
           [0. , 0. , 0.5, 0.5]])
    """
    return _kronecker(sizes, j).T * (sizes[j] / float(np.prod(sizes)))
