"""What the formats for Bayesian networks share: a network in the making, and rules for writers.

Every reader declares variables and hands over one table per child, with axes (parents..., child)
in C order; `Draft.finish` checks all tables at once and builds the network.

Files print few digits, so rows do not sum to 1 exactly. Rows that miss 1 by at most
`FILE_TOLERANCE` are divided by their sum, which is the only change ever made to values; rows
that are right to `EXACT` keep every bit; rows further off are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any

import numpy as np

from ..core.domain import Discrete
from ..core.errors import ModelError, UnsupportedError
from ..core.variable import Variables
from ..models.bayes_net import BayesNet
from .base import wrong

__all__ = ["EXACT", "FILE_TOLERANCE", "Draft", "NodeFamily", "check_names", "network_of", "rows_of"]

# The common benchmark networks miss 1 by up to 3e-7; three thirds printed with three digits by 1e-3.
FILE_TOLERANCE = 2e-3
EXACT = 1e-12

# A default row or a noisy-max can describe a table far larger than the file it stands in.
MAX_ENTRIES = 2**28


@dataclass(frozen=True, slots=True)
class NodeFamily:
    """A child, its parents, and the line that brings them together."""

    name: str  # of the child
    child: int  # position
    parents: tuple[int, ...]  # positions, in axis order
    sizes: tuple[int, ...]  # states per parent
    size: int  # states of the child
    line: int

    @property
    def rows(self) -> int:
        """Number of joint states of the parents."""
        return math.prod(self.sizes)


class Draft:
    """A Bayesian network while its file is being read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.names: list[str] = []
        self.labels: list[tuple[str, ...]] = []
        self._lines: list[int] = []  # of the declarations
        self._position: dict[str, int] = {}
        self._families: dict[int, NodeFamily] = {}
        self._tables: list[np.ndarray] = []
        self._entries = 0  # of tables that may be larger than their text

    def declare(self, name: str, labels: Sequence[str], line: int) -> None:
        """Add a variable."""
        if name in self._position:
            first = self._lines[self._position[name]]
            raise wrong(self.file, line, f"variable '{name}' is declared twice, first in line {first}")
        if not labels:
            raise wrong(self.file, line, f"variable '{name}': expected at least one state, got none")
        if len(set(labels)) < len(labels):
            twice = next(s for k, s in enumerate(labels) if s in labels[:k])
            raise wrong(self.file, line, f"variable '{name}': state '{twice}' appears twice")
        self._position[name] = len(self.names)
        self.names.append(name)
        self.labels.append(tuple(labels))
        self._lines.append(line)

    def family(self, child: str, parents: Sequence[str], line: int) -> NodeFamily:
        """Check the names of a child and its parents."""
        i = self._known(child, line, "probability of")
        if i in self._families:
            first = self._families[i].line
            raise wrong(self.file, line, f"'{child}' has two tables, the first in line {first}")
        positions = tuple(self._known(p, line, f"parent of '{child}':") for p in parents)
        if len({i, *positions}) < len(positions) + 1:
            raise wrong(
                self.file, line, f"table of '{child}': a variable appears twice in {[child, *parents]}"
            )
        sizes = tuple(len(self.labels[j]) for j in positions)
        family = NodeFamily(child, i, positions, sizes, len(self.labels[i]), line)
        self._families[i] = family
        return family

    def _known(self, name: str, line: int, role: str) -> int:
        found = self._position.get(name)
        if found is None:
            raise wrong(self.file, line, f"{role} unknown variable '{name}'; it is not declared")
        return found

    def check_size(self, family: NodeFamily) -> None:
        """Refuse a table that is implied rather than written and would not fit in memory."""
        self._entries += family.rows * family.size
        if self._entries > MAX_ENTRIES:
            raise wrong(
                self.file,
                family.line,
                f"table of '{family.name}': expected at most {MAX_ENTRIES} entries, got {self._entries}",
            )

    def numbers(self, what: str, rows: Sequence[Sequence[str]], line_of: Callable[[int], int]) -> np.ndarray:
        """Convert rows of equally many tokens at once; shape (rows, columns).

        Parameters
        ----------
        what
            The subject of a message.
        rows
            The tokens.
        line_of
            Line number of a row, asked for when a token is no number.
        """
        tokens = list(chain.from_iterable(rows))
        try:
            # Python reads 1_000 as a thousand; no format has that.
            if "_" in "".join(tokens):
                raise ValueError
            values = np.array(tokens, dtype=np.float64)
        except ValueError:
            row, bad = next((k, t) for k, row in enumerate(rows) for t in row if not _is_number(t))
            raise wrong(self.file, line_of(row), f"{what}: expected a number, got {bad[:40]!r}") from None
        return values.reshape(len(rows), -1)

    def tabulate(self, family: NodeFamily, tokens: Sequence[str], line: int) -> np.ndarray:
        """Convert the entries of a whole table, in any axis order, and check their number."""
        expected = family.rows * family.size
        if len(tokens) != expected:
            of = f" ({family.rows} rows of {family.size})" if family.sizes else ""
            raise wrong(
                self.file,
                line,
                f"table of '{family.name}': expected {expected} entries{of}, got {len(tokens)}",
            )
        return self.numbers(f"table of '{family.name}'", [tokens], lambda _: line).reshape(-1)

    def add(self, table: np.ndarray) -> None:
        """Keep the table of the family made last; axes (parents..., child) or rows of the child."""
        self._tables.append(table.reshape(-1))

    def finish(self) -> BayesNet:
        """Check all tables and build the network."""
        if not self.names:
            raise wrong(self.file, 1, "expected at least one variable, got none; is the file cut off?")
        for i, name in enumerate(self.names):
            if i not in self._families:
                raise wrong(
                    self.file, self._lines[i], f"variable '{name}' has no table; is the file cut off?"
                )
        families = list(self._families.values())
        flat = np.concatenate(self._tables)
        self._normalise(families, flat)
        scopes = [(*f.parents, f.child) for f in families]
        starts = np.cumsum([0, *map(len, scopes)])
        domains = tuple(Discrete(len(s), s) for s in self.labels)
        try:
            return BayesNet.from_flat(
                Variables(tuple(self.names), domains), starts, np.array(list(chain(*scopes))), flat
            )
        except ModelError as error:
            raise wrong(self.file, self._cycle_line(), str(error)) from None

    def _normalise(self, families: list[NodeFamily], flat: np.ndarray) -> None:
        """Refuse entries that are no probabilities; make rows sum to 1, in place."""
        ends = np.cumsum([f.rows * f.size for f in families])
        fine = (flat >= 0) & (flat < np.inf)
        if not fine.all():
            at = int(np.flatnonzero(~fine)[0])
            family = families[int(np.searchsorted(ends, at, side="right"))]
            raise wrong(
                self.file,
                family.line,
                f"table of '{family.name}': expected finite, non-negative probabilities, got {flat[at]:g}",
            )
        counts = np.array([f.rows for f in families])
        row_sizes = np.repeat([f.size for f in families], counts)
        sums = np.add.reduceat(flat, np.cumsum(row_sizes) - row_sizes)
        error = np.abs(sums - 1)
        far = np.flatnonzero(error > FILE_TOLERANCE)
        if len(far):
            row_ends = np.cumsum(counts)
            a = int(np.searchsorted(row_ends, far[0], side="right"))
            mine = sums[row_ends[a] - counts[a] : row_ends[a]]
            raise wrong(
                self.file,
                families[a].line,
                f"table of '{families[a].name}': every row must sum to 1, "
                f"got sums from {mine.min():.8g} to {mine.max():.8g}",
            )
        if (error > EXACT).any():
            flat /= np.repeat(np.where(error > EXACT, sums, 1.0), row_sizes)

    def _cycle_line(self) -> int:
        graph = {f.child: f.parents for f in self._families.values()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            return self._families[error.args[1][0]].line
        return 1


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return "_" not in token


def network_of(model: Any, what: str) -> BayesNet:
    """Refuse models that are no Bayesian network."""
    if not isinstance(model, BayesNet):
        raise UnsupportedError(
            f"{what} files hold Bayesian networks, got a {type(model).__name__}; write it as .uai or .json"
        )
    return model


def check_names(model: BayesNet, what: str, fits: Any, rule: str, *, states: Any = None) -> None:
    """Refuse variable names, and state labels, that a format cannot hold.

    Parameters
    ----------
    model
        The network to be written.
    what
        Name of the format.
    fits
        Function of a name: whether the format can hold it.
    rule
        What the format wants, for the message.
    states
        The same function for state labels; by default `fits`.
    """
    states = states or fits
    for name, domain in zip(model.variables.names, model.variables.domains, strict=True):
        if not fits(name):
            raise UnsupportedError(
                f"variable {name!r}: {what} files want {rule}; rename it or write another format"
            )
        for label in domain.labels:
            if not states(label):
                raise UnsupportedError(
                    f"state {label!r} of variable '{name}': {what} files want {rule}; "
                    "rename it or write another format"
                )


def rows_of(table: np.ndarray, separator: str) -> list[str]:
    """Rows of a table as text; each number is the shortest one that reads back the same."""
    return [separator.join(map(repr, row)) for row in table.reshape(-1, table.shape[-1]).tolist()]
