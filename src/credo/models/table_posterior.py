r"""Distributions over the tables of Bayesian networks.

    theta_i(. | u) ~ Dirichlet(m_iu)   for every row u of every table i

An entry that is zero in the network is impossible and stays so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.errors import ModelError, OptionError
from ..core.records import register
from ..core.variable import Variable, Variables
from ..families.dirichlet_rows import DirichletRows
from ..families.natural import best_symmetric
from .bayes_net import BayesNet
from .table_priors import table_prior_of

__all__ = ["TablePosterior", "table_rows"]


@register("TablePosterior")
@dataclass(frozen=True)
class TablePosterior:
    """Dirichlet distributions over all rows of all tables, and the prior they came from."""

    model: BayesNet  # the structure
    rows: DirichletRows  # in the order of `model.flat_tables`
    prior: DirichletRows  # in the same order
    held: np.ndarray  # (entries,) whether an entry is not learned

    @classmethod
    def of(cls, model: BayesNet, prior: Any = None) -> TablePosterior:
        """The prior as a posterior of no data; see `BayesNet.posterior`."""
        if model.regressions:
            raise ModelError("posterior: real nodes of a BayesNet have no distribution over their parameters")
        rows = table_rows(model, "uniform(count=1)" if prior is None else prior)
        return cls(model, rows, rows, np.zeros(len(rows.concentration), dtype=bool))

    def concentration(self, child: str) -> np.ndarray:
        """Of the table of one variable, in its shape."""
        graph, i = self.model.to_factor_graph(), self.model.variables.position(child)
        first = int(graph.table_start[i])
        flat = self.rows.concentration[first : first + int(graph.table_size[i])]
        return flat.reshape(self.model.tables[child].shape)

    def mean(self) -> BayesNet:
        """The network with expected tables; it predicts as the average over all tables does."""
        return self._made(self.rows.mean())

    def movement(self, new: TablePosterior) -> float:
        """The largest change of an expected probability."""
        return float(np.abs(new.rows.mean() - self.rows.mean()).max(initial=0.0))

    def match(self, names: tuple[str, ...]) -> TablePosterior:
        """The same with one concentration for each table of these children, the best; not for tables held."""
        graph, logs = self.model.to_factor_graph(), self.rows.expected_log
        new = self.prior.concentration.copy()
        for i, variable in enumerate(self.model.variables):
            mine = slice(int(graph.table_start[i]), int(graph.table_start[i] + graph.table_size[i]))
            if variable.name in names and not self.held[mine].any():
                best = best_symmetric(logs[mine].reshape(-1, self.model.variables.sizes[i]))
                new[mine] = np.where(new[mine] > 0, best, 0.0)
        return replace(self, prior=self.prior.with_concentration(new))

    def take(self, kept: Mapping[str, np.ndarray]) -> TablePosterior:
        """The network in which these variables have some of their states only."""
        old = self.model
        variables = [
            Variable(v.name, [v.states[int(s)] for s in kept[v.name]]) if v.name in kept else v
            for v in old.variables
        ]
        parts = [old.flat_tables, self.rows.concentration, self.prior.concentration, self.held]
        tables, rows, prior, held = (self._taken(part, kept) for part in parts)
        smaller = Variables.of(variables)
        sizes = np.concatenate(
            [np.full(len(t) // size, size) for t, size in zip(tables, smaller.sizes, strict=True)]
        )
        flat = [
            (t.reshape(-1, size) / t.reshape(-1, size).sum(axis=1, keepdims=True)).ravel()
            for t, size in zip(tables, smaller.sizes, strict=True)
        ]
        graph = old.to_factor_graph()
        return TablePosterior(
            BayesNet.from_flat(smaller, graph.scope_start, graph.scope, np.concatenate(flat)),
            DirichletRows(np.concatenate(rows), sizes), DirichletRows(np.concatenate(prior), sizes),
            np.concatenate(held),
        )  # fmt: skip

    def _taken(self, flat: np.ndarray, kept: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """What belongs to some states, one flat array per table."""
        graph, found = self.model.to_factor_graph(), []
        for i, name in enumerate(self.model.variables.names):
            first = int(graph.table_start[i])
            table = flat[first : first + int(graph.table_size[i])].reshape(self.model.tables[name].shape)
            for axis, member in enumerate([*self.model.parents[name], name]):
                if member in kept:
                    table = np.take(table, kept[member], axis=axis)
            found.append(table.ravel())
        return found

    def sample(self, rng: np.random.Generator) -> BayesNet:
        """A network with tables drawn at random."""
        return self._made(self.rows.sample(rng))

    def _made(self, tables: np.ndarray) -> BayesNet:
        graph = self.model.to_factor_graph()
        tables = np.where(self.held, self.model.flat_tables, tables)
        return BayesNet.from_flat(self.model.variables, graph.scope_start, graph.scope, tables)

    def divergence(self) -> float:
        """KL to the prior."""
        return float(self.rows.kl(self.prior).sum())

    def __repr__(self) -> str:
        return f"TablePosterior({self.rows!r} of {self.model!r})"


def table_rows(model: BayesNet, prior: Any = "uniform(count=1)") -> DirichletRows:
    """The Dirichlet prior of all rows; entries that are zero in the model are impossible.

    Parameters
    ----------
    model
        The network.
    prior
        `"uniform(count=1)"`, `"bdeu(size=10)"`, `"towards(size=1)"`, or a mapping child name ->
        concentrations, in which tables that are not named get 1.
    """
    if isinstance(prior, dict):
        prior = dict.fromkeys(model.variables.names, 1.0) | prior
    counts = table_prior_of(prior).pseudo_counts(model)
    possible = model.flat_tables > 0
    if (counts[possible] <= 0).any():
        raise OptionError(
            "prior: expected positive concentrations for all entries that are not zero in the model, got 0; "
            "use uniform(count=1) or bdeu(size=10)"
        )
    sizes = model.variables.sizes
    per_table = model.to_factor_graph().table_size // sizes
    return DirichletRows(np.where(possible, counts, 0.0), np.repeat(sizes, per_table))
