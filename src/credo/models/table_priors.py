"""Dirichlet priors on the rows of conditional tables, as pseudo-counts.

    p(theta | N) ~ prod over entries theta^(N + m),     m the pseudo-count of an entry

The estimate (N + m) / sum(N + m) is the mode of the posterior under Dirichlet(m + 1), and its mean under
Dirichlet(m). Zero pseudo-counts are maximum likelihood.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.errors import OptionError, QueryError
from ..core.numbers import float_array
from ..core.registry import Registry
from .bayes_net import BayesNet

__all__ = ["BDeu", "PerTable", "TablePrior", "Towards", "UniformTablePrior", "table_prior_of", "table_priors"]


class TablePrior(abc.ABC):
    """Pseudo-counts for all entries of a network."""

    name: ClassVar[str]

    @abc.abstractmethod
    def pseudo_counts(self, model: BayesNet) -> np.ndarray:
        """One number from 0 per entry of `model.flat_tables`."""


table_priors: Registry[TablePrior] = Registry("table prior")


@table_priors.register
@dataclass(frozen=True, kw_only=True)
class UniformTablePrior(TablePrior):
    """The same pseudo-count for every entry; 1 is Laplace's rule."""

    name: ClassVar[str] = "uniform"
    count: float = 1.0  # added to every entry

    def __post_init__(self) -> None:
        """Check the options."""
        _check("count", self.count)

    def pseudo_counts(self, model: BayesNet) -> np.ndarray:
        """The same count for every entry of every table, flat."""
        return np.full(len(model.flat_tables), float(self.count))


@table_priors.register
@dataclass(frozen=True, kw_only=True)
class BDeu(TablePrior):
    """An equivalent sample of rows spread evenly: every table gets the same total."""

    name: ClassVar[str] = "bdeu"
    size: float = 10.0  # pseudo-counts of each table together

    def __post_init__(self) -> None:
        """Check the options."""
        _check("size", self.size)

    def pseudo_counts(self, model: BayesNet) -> np.ndarray:
        """The size over the number of entries of the table."""
        entries = model.to_factor_graph().table_size
        return np.repeat(self.size / entries, entries)


@table_priors.register
@dataclass(frozen=True, kw_only=True)
class Towards(TablePrior):
    """Pseudo-counts in proportion to the rows of the model that learning starts from."""

    name: ClassVar[str] = "towards"
    size: float = 1.0  # pseudo-counts of each row together

    def __post_init__(self) -> None:
        """Check the options."""
        _check("size", self.size)

    def pseudo_counts(self, model: BayesNet) -> np.ndarray:
        """The tables of the model times `size`, flat: each row adds up to `size`."""
        return np.asarray(self.size * model.flat_tables)


@dataclass(frozen=True)
class PerTable(TablePrior):
    """Pseudo-counts by name of the child: a number or an array of the table's shape, by default 0."""

    name: ClassVar[str] = "per-table"
    counts: Mapping[str, Any]  # child name -> pseudo-counts

    def pseudo_counts(self, model: BayesNet) -> np.ndarray:
        """Checked against the tables' shapes."""
        graph, found = model.to_factor_graph(), np.zeros(len(model.flat_tables))
        for child, given in self.counts.items():
            try:
                i = model.variables.position(child)
            except QueryError as error:
                raise OptionError(f"prior: {error}") from None
            mine = slice(int(graph.table_start[i]), int(graph.table_start[i] + graph.table_size[i]))
            shape = model.tables[child].shape
            values = float_array(f"prior of '{child}'", given, error=OptionError)
            if values.ndim and values.shape != shape:
                raise OptionError(
                    f"prior of '{child}': expected a number or shape {shape}, got {values.shape}"
                )
            if not ((values >= 0) & (values < np.inf)).all():
                raise OptionError(f"prior of '{child}': expected finite numbers from 0, got {given!r:.80}")
            found[mine] = np.broadcast_to(values, shape).ravel()
        return found


def table_prior_of(prior: Any) -> TablePrior:
    """A prior from its text form or from a mapping child name -> pseudo-counts; None is no prior."""
    if prior is None:
        return UniformTablePrior(count=0.0)
    if isinstance(prior, Mapping):
        return PerTable(prior)
    found = table_priors.resolve(prior)
    if not isinstance(found, TablePrior):
        raise OptionError(
            "prior: expected a name such as 'bdeu(size=10)', a mapping name -> pseudo-counts or a "
            f"TablePrior, got {prior!r:.80}"
        )
    return found


def _check(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < np.inf:
        raise OptionError(f"{name} must be a finite number from 0, got {value!r}")
