"""What is believed in each row of a table: probabilities of states, means and spreads of numbers.

Rows of states about tables are asked by `infer_many`; rows of numbers about models that are Gaussian given
states all together, pattern by pattern of missing cells; all other questions row by row, by `infer`. Equal
rows are answered once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import DataError, UnsupportedError, ZeroProbabilityError
from ...core.factor_graph import FactorGraph
from ...core.progress import Progress
from ...core.result import Result
from ...data.column import MISSING, Column
from ...data.dataset import Dataset
from ...data.table import distinct_rows
from ..exact.conditional_rows import Mixtures, solve_real_rows, takes_real_rows
from ..problem.base import Algorithm, ContradictoryRowError
from .evidence_rows import clamps_of_data, infer_many
from .question import infer

__all__ = ["Moments", "RowBeliefs", "RowQuestion", "evidence_of"]

_AT_ONCE = 1 << 23  # probabilities of rows answered together


class Moments(NamedTuple):
    """What is known of a number in every row; zero rows where nothing can be."""

    mean: np.ndarray  # (rows,) or (rows, d)
    sd: np.ndarray  # the same
    mode: np.ndarray | None = None  # the same, where it was asked for


@dataclass
class RowBeliefs:
    """Answers to all rows of a table."""

    possible: np.ndarray  # (rows,) whether the model allows what the row says
    states: dict[str, np.ndarray] = field(default_factory=dict)  # name -> (rows, states) probabilities
    numbers: dict[str, Moments] = field(default_factory=dict)  # name -> means and spreads


@dataclass(frozen=True)
class RowQuestion:
    """What is asked about every row."""

    graph: FactorGraph  # of the model
    names: tuple[str, ...]  # of the variables whose beliefs are wanted
    method: str | Algorithm | None = None  # by default what suits the model
    is_strict: bool = True  # whether an impossible row is an error
    modes: bool = False  # whether highest points of densities are wanted
    options: Mapping[str, Any] = field(default_factory=dict)  # max_iter, tol and seed

    def beliefs(self, data: Dataset) -> RowBeliefs:
        """Answers to these rows."""
        first, back = _distinct(data)
        found = self._none(len(first))
        (self._of_tables if self.graph.is_tables else self._of_numbers)(data.take(first), found)
        if self.is_strict and not found.possible.all():
            raise ContradictoryRowError(np.flatnonzero(~found.possible[back]))
        moments = {
            name: Moments(m.mean[back], m.sd[back], None if m.mode is None else m.mode[back])
            for name, m in found.numbers.items()
        }
        return RowBeliefs(found.possible[back], {n: p[back] for n, p in found.states.items()}, moments)

    def _of_tables(self, data: Dataset, found: RowBeliefs) -> None:
        """Answer blocks of rows, whose marginals of all variables fit into memory."""
        size = max(_AT_ONCE // max(int(self.graph.variables.state_start[-1]), 1), 1)
        for first in range(0, len(data), size):
            rows = slice(first, min(first + size, len(data)))
            answer = infer_many(
                self.graph, data.take(rows), self.method, impossible="missing", **self.options
            )
            found.possible[rows] = answer.log_z > -np.inf
            if self.is_strict and not found.possible[rows].all():
                return
            for name, states in found.states.items():
                states[rows] = answer.marginal(name)

    def _of_numbers(self, data: Dataset, found: RowBeliefs) -> None:
        slow = np.arange(len(data))
        if self.method is None and takes_real_rows(self.graph):
            slow = self._together(data, found)
        self._one_by_one(data, slow, found)

    def _none(self, count: int) -> RowBeliefs:
        found = RowBeliefs(np.ones(count, dtype=bool))
        for name in self.names:
            domain = self.graph.variables[self.graph.variables.position(name)].domain
            if domain.size:
                found.states[name] = np.zeros((count, domain.size))
            else:
                shape = (count, *domain.shape)  # type: ignore[union-attr]
                mode = np.zeros(shape) if self.modes else None
                found.numbers[name] = Moments(np.zeros(shape), np.zeros(shape), mode)
        return found

    # Models that are Gaussian given states ------------------------------------------------------------------

    def _together(self, data: Dataset, found: RowBeliefs) -> np.ndarray:
        """Answer all patterns that can be; the rows that are left."""
        discrete = self.graph.discrete_part()
        names = discrete.variables.names
        clamps = clamps_of_data(discrete, data.select([n for n in data.names if n in names]))
        values = np.full((len(data), len(self.graph.variables)), np.nan)
        for column in data.columns:
            if not column.is_discrete:
                values[:, self.graph.variables.position(column.name)] = column.values
        masks, which = np.unique(np.isnan(values), axis=0, return_inverse=True)
        slow = []
        for p in range(len(masks)):
            rows = np.flatnonzero(which.ravel() == p)
            if not self._pattern(discrete, clamps, values, rows, found):
                slow.append(rows)
        return np.concatenate(slow) if slow else np.empty(0, dtype=np.int64)

    def _pattern(
        self,
        discrete: FactorGraph,
        clamps: np.ndarray,
        values: np.ndarray,
        rows: np.ndarray,
        found: RowBeliefs,
    ) -> bool:
        """Answer the rows of a pattern of missing numbers; whether it could be done."""
        try:
            answer = solve_real_rows(self.graph, clamps[rows], values[rows])
        except ContradictoryRowError as error:
            found.possible[rows[error.rows]] = False
            rest = np.delete(rows, error.rows)
            return not len(rest) or self._pattern(discrete, clamps, values, rest, found)
        if answer is None:
            return False
        start, variables = discrete.variables.state_start, self.graph.variables
        for name, states in found.states.items():
            i = discrete.variables.position(name)
            states[rows] = answer.flat[:, start[i] : start[i + 1]]
        for name, moments in found.numbers.items():
            i = variables.position(name)
            if i in answer.numbers:
                self._note(moments, rows, answer.numbers[i])
            else:
                _note_known(moments, rows, values[rows, i])
        return True

    def _note(self, moments: Moments, rows: np.ndarray, mixtures: Mixtures) -> None:
        moments.mean[rows], moments.sd[rows] = mixtures.mean, mixtures.sd
        if moments.mode is not None:
            moments.mode[rows] = mixtures.mode

    # All others ---------------------------------------------------------------------------------------------

    def _one_by_one(self, data: Dataset, rows: np.ndarray, found: RowBeliefs) -> None:
        if not len(rows):
            return
        with Progress("rows", len(rows)) as bar:
            for done, r in enumerate(rows.tolist()):
                try:
                    answer = infer(self.graph, self.method, evidence=evidence_of(data, r), **self.options)
                except ZeroProbabilityError:
                    found.possible[r] = False
                    if self.is_strict:
                        return
                    continue
                self._note_answer(found, r, answer)
                bar.update(done + 1)

    def _note_answer(self, found: RowBeliefs, r: int, answer: Result) -> None:
        if answer.marginals is None:
            raise UnsupportedError(f"{answer.algorithm} computes no marginals; use another method, or none")
        for name, states in found.states.items():
            states[r] = answer.marginals[name]
        for name, moments in found.numbers.items():
            density = answer.marginals[name]
            moments.mean[r], moments.sd[r] = density.mean, density.sd
            if moments.mode is not None:
                moments.mode[r] = density.mode


def _note_known(moments: Moments, rows: np.ndarray, values: np.ndarray) -> None:
    """A number that was observed is known."""
    moments.mean[rows], moments.sd[rows] = values, 0.0
    if moments.mode is not None:
        moments.mode[rows] = values


def evidence_of(data: Dataset, row: int) -> dict[str, Any]:
    """What a row observes, by name."""
    said: dict[str, Any] = {}
    for column in data.columns:
        if column.soft is not None:
            said[column.name] = column.soft[row]
            if column.values[row] == MISSING:
                continue
        cell = column.values[row]
        if column.is_discrete:
            if cell != MISSING:
                said[column.name] = int(cell)
        elif not np.isnan(cell).any():
            said[column.name] = float(cell) if np.ndim(cell) == 0 else cell
        elif not np.isnan(cell).all():
            raise DataError(
                f"data: column '{column.name}', row {row}: expected a whole vector or none, got {cell}"
            )
    return said


def _distinct(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """First places of the distinct rows, and which of them each row is."""
    if not data.columns:
        return np.arange(min(data.n_rows, 1)), np.zeros(data.n_rows, dtype=np.int64)
    if all(column.is_discrete and column.soft is None for column in data.columns):
        codes = np.stack([column.values for column in data.columns], axis=1)
        return distinct_rows(codes, data.variables.sizes)
    keys = np.concatenate([_bits(column) for column in data.columns], axis=1)
    packed = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.itemsize * keys.shape[1]))).ravel()
    _, first, back = np.unique(packed, return_index=True, return_inverse=True)
    return first, back.ravel()


def _bits(column: Column) -> np.ndarray:
    """Cells as whole numbers (rows, k) that agree where the cells do."""
    parts = [column.values] if column.soft is None else [column.values, column.soft]
    bits = [np.ascontiguousarray(part).view(np.int64).reshape(len(column), -1) for part in parts]
    return np.concatenate(bits, axis=1)
