r"""Many rows of evidence about a conditional linear Gaussian model, answered together.

Rows that observe the same real variables are the states of one more discrete variable r, on which only the
offsets of residuals depend: b_s becomes b_sr = b_s - w_s'x_r, x_r the observed numbers. What the real
variables leave is then one table per row,

    log T(s, r) = log of the integral over all real variables that are missing in these rows,

all made by `conditional_gaussian.integrate` in one go, and the discrete model with these tables is solved for
all rows by the junction tree. A missing number has the mixture sum_s p(s | r) N(m_sr, J_s^-1).

Where all factors are Gaussian blocks, the missing numbers have one precision matrix for all rows, and the
mean is linear in what was observed: J_mm m = h_m - J_mo x.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.domain import Real, unlabelled_states
from ...core.factor_graph import FactorGraph
from ...core.groups import Gaussians, Group, LinearGaussians
from ...core.variable import Variables
from ...core.wiring import starts_of
from ..problem.base import Budget, ContradictoryRowError, Problem
from ..problem.gaussian_system import GaussianSystem
from ..problem.instances import Instances, TableBatch
from .conditional_gaussian import Integral, forecast, integrate, parts_of
from .junction_tree import JunctionTreePropagation

__all__ = ["Mixtures", "RealRows", "solve_real_rows", "takes_real_rows"]

_AT_ONCE = 2.0**22  # numbers of the matrices of all rows together
_CLIMBS, _STILL = 200, 1e-10  # steps to the highest point, and what is none, in standard deviations


class Mixtures(NamedTuple):
    """One real variable in every row: a mixture of Gaussians each."""

    weights: np.ndarray  # (rows, components)
    means: np.ndarray  # (rows, components)
    sds: np.ndarray  # (rows, components)

    @property
    def mean(self) -> np.ndarray:
        """Expected values, (rows,)."""
        return np.asarray((self.weights * self.means).sum(axis=1))

    @property
    def sd(self) -> np.ndarray:
        """Standard deviations, (rows,)."""
        spread = self.sds**2 + (self.means - self.mean[:, None]) ** 2
        return np.asarray(np.sqrt((self.weights * spread).sum(axis=1)))

    @property
    def mode(self) -> np.ndarray:
        """Highest points, (rows,); as `MixtureDensity.mode`, a part of the rows at a time."""
        count, k = self.means.shape
        size = max(int(_AT_ONCE) // (k * k), 1)
        parts = [Mixtures(*(a[at : at + size] for a in self)) for at in range(0, count, size)]
        return np.concatenate([part._climb() for part in parts]) if k > 1 else self.mean

    def _climb(self) -> np.ndarray:
        """Mean shift from every component: each step raises the density."""
        x, climbing = self.means.copy(), np.arange(len(self.means))
        for _ in range(_CLIMBS):
            part = Mixtures(*(a[climbing] for a in self))
            terms = part._terms(x[climbing])
            share = np.exp(terms - terms.max(axis=2, keepdims=True)) / part.sds[:, None, :] ** 2
            new = (share * part.means[:, None, :]).sum(axis=2) / share.sum(axis=2)
            moves = (np.abs(new - x[climbing]) > _STILL * part.sds).any(axis=1)
            x[climbing] = new
            climbing = climbing[moves]
            if not len(climbing):
                break
        best = np.logaddexp.reduce(self._terms(x), axis=2).argmax(axis=1)
        return np.asarray(np.take_along_axis(x, best[:, None], axis=1)[:, 0])

    def _terms(self, x: np.ndarray) -> np.ndarray:
        """Log densities of the components at points (rows, points), up to a constant."""
        with np.errstate(divide="ignore"):
            logs = (np.log(self.weights) - np.log(self.sds))[:, None, :]
        return np.asarray(logs - 0.5 * ((x[:, :, None] - self.means[:, None, :]) / self.sds[:, None, :]) ** 2)


class RealRows(NamedTuple):
    """Answers to rows that observe the same real variables."""

    flat: np.ndarray  # (rows, flat states) marginals of the discrete variables
    numbers: dict[int, Mixtures]  # position -> the real variables that were not observed


def takes_real_rows(graph: FactorGraph) -> bool:
    """Whether all factors are of the kinds that are answered here."""
    real = all(d == Real() for d in graph.variables.domains if not d.size)
    kinds = {type(group) for group in graph.others}
    if not real or not kinds <= {Gaussians, LinearGaussians}:
        return False
    if Gaussians in kinds:
        has_states = any(g.constant.ndim > 1 for g in graph.others if isinstance(g, LinearGaussians))
        return not has_states and not graph.n_tables and not graph.variables.sizes.any()
    return forecast(graph).numbers <= _AT_ONCE


def solve_real_rows(graph: FactorGraph, clamps: np.ndarray, values: np.ndarray) -> RealRows | None:
    """Marginals of what is not observed; None where the tables are too large for all rows together.

    Parameters
    ----------
    graph
        One that `takes_real_rows`.
    clamps
        (rows, flat states) log likelihoods of the states of all discrete variables.
    values
        (rows, n) numbers, NaN in the same columns of all rows.
    """
    if any(isinstance(group, Gaussians) for group in graph.others):
        return RealRows(clamps, _linear(graph, values))
    parts = []
    for rows in _blocks(graph, values):
        try:
            found = _PatternRows(graph, clamps[rows], values[rows]).solve()
        except ContradictoryRowError as error:
            raise ContradictoryRowError(error.rows + rows.start) from None
        if found is None:
            return None
        parts.append(found)
    return _join(parts)


def _blocks(graph: FactorGraph, values: np.ndarray) -> list[slice]:
    size = max(int(_AT_ONCE / max(forecast(graph).numbers, 1.0)), 1)
    return [slice(first, first + size) for first in range(0, len(values), size)]


def _join(parts: list[RealRows]) -> RealRows:
    numbers = {
        i: Mixtures(*(np.concatenate(arrays) for arrays in zip(*(p.numbers[i] for p in parts), strict=True)))
        for i in parts[0].numbers
    }
    return RealRows(np.concatenate([p.flat for p in parts]), numbers)


def _linear(graph: FactorGraph, values: np.ndarray) -> dict[int, Mixtures]:
    """All variables real, all factors Gaussian: one factorisation for all rows."""
    blocks = [g.to_gaussians() if isinstance(g, LinearGaussians) else g for g in graph.others]
    system = GaussianSystem.of(Problem.about(graph.with_parts(graph.variables, blocks)))
    gone = np.isnan(values).any(axis=0)
    missing, seen = np.flatnonzero(gone), np.flatnonzero(~gone)
    factorisation = system.part(missing).factorise()
    across = system.precision[missing][:, seen] @ values[:, seen].T
    means = factorisation.solve_columns(system.shift[missing][:, None] - across).T
    sds, one = np.sqrt(factorisation.variances()), np.ones((len(values), 1))
    return {
        i: Mixtures(one, means[:, k : k + 1], np.full_like(one, sds[k]))
        for k, i in enumerate(missing.tolist())
    }


class _PatternRows:
    """Rows of one pattern, few enough to be held together."""

    def __init__(self, graph: FactorGraph, clamps: np.ndarray, values: np.ndarray) -> None:
        self.graph, self.clamps, self.values = graph, clamps, values
        self.missing = np.isnan(values).any(axis=0) & (graph.variables.sizes == 0)
        self.row = len(graph.variables)  # position of the variable whose states are the rows
        old = graph.variables
        name = "row" if "row" not in old.names else "row " + "".join(old.names)
        self.variables = Variables((*old.names, name), (*old.domains, unlabelled_states(len(values))))

    def solve(self) -> RealRows | None:
        """The tables of all rows, the discrete model with them, and the mixtures."""
        groups, tables = self._given()
        keep = np.flatnonzero((self.variables.sizes > 0) | np.append(self.missing, False))
        posed = FactorGraph.of_groups(self.variables, *groups).compact(keep)
        none = np.zeros(len(keep), dtype=bool)
        integrals = [integrate(posed, part, none) for part in parts_of(posed)]
        at = [keep[found.part.discrete] for found in integrals]
        tables += [(scope, found.log_table) for scope, found in zip(at, integrals, strict=True)]
        per_row = [self._per_row(scope, table) for scope, table in tables]
        answer = self._discrete(per_row)
        if answer is None:
            return None
        beliefs, flat = answer
        first = len(tables) - len(integrals)
        numbers: dict[int, Mixtures] = {}
        for k, found in enumerate(integrals):
            numbers |= self._mixtures(found, keep, at[k], beliefs[first + k])
        return RealRows(flat, numbers)

    def _given(self) -> tuple[list[Group], list[tuple[np.ndarray, np.ndarray]]]:
        """Residuals with the row as one more state, and tables (scope, log table) where no number is left."""
        groups: list[Group] = []
        tables: list[tuple[np.ndarray, np.ndarray]] = []
        for group in self.graph.others:
            assert isinstance(group, LinearGaussians)
            k = group.weights.shape[-1]
            for a, scope in enumerate(group.scopes):
                w, b, v, c = (p[a] for p in (group.weights, group.offset, group.variance, group.constant))
                free = self.missing[scope[:k]]
                x = np.where(free, 0.0, self.values[:, scope[:k]])
                offset = b[..., None] - w @ x.T  # (states..., rows)
                if not free.any():
                    table = c[..., None] - 0.5 * offset**2 / v[..., None]
                    tables.append((np.append(scope[k:], self.row), table))
                    continue
                shape = offset.shape
                w, *rest = (w[..., None, free], offset, v[..., None], c[..., None])
                full = [
                    np.broadcast_to(w, (*shape, int(free.sum()))),
                    *(np.broadcast_to(p, shape) for p in rest),
                ]
                scopes = np.concatenate([scope[:k][free], scope[k:], [self.row]])[None]
                groups.append(LinearGaussians(np.array([len(groups)]), scopes, *(p[None] for p in full)))
        return groups, tables

    def _per_row(self, scope: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The scope without the row, and the tables (rows, states...)."""
        where = np.flatnonzero(scope == self.row)
        if len(where):
            return np.delete(scope, where), np.moveaxis(table, int(where[0]), 0)
        return scope, np.broadcast_to(table, (len(self.values), *table.shape))

    def _discrete(
        self, per_row: list[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[list[np.ndarray], np.ndarray] | None:
        """Beliefs of the tables (rows, states...) and marginals (rows, flat states)."""
        whole = self.graph.variables
        position = np.cumsum(whole.sizes > 0) - 1
        alone = self.graph.discrete_part() if self.graph.others else self.graph
        n, count = len(alone.variables), len(self.values)
        if not n:
            return [np.ones(table.shape) for _, table in per_row], self.clamps
        scopes = [position[scope] for scope, _ in per_row] + [np.array([i]) for i in range(n)]
        sizes = [table[0].size for _, table in per_row] + alone.variables.sizes.tolist()
        rows = np.concatenate([*(t.reshape(count, -1) for _, t in per_row), self.clamps], axis=1)
        graph = FactorGraph.from_flat(
            alone.variables,
            np.concatenate([alone.scope_start, alone.scope_start[-1] + np.cumsum([len(s) for s in scopes])]),
            np.concatenate([alone.scope, *scopes]).astype(np.int64),
            np.concatenate([alone.log_tables, np.zeros(rows.shape[1])]),
            table_start=np.concatenate([alone.table_start, len(alone.log_tables) + starts_of(sizes)[:-1]]),
        )
        slots = np.arange(alone.n_factors, graph.n_factors)
        instances = Instances(Problem.about(graph), slots, rows, np.ones(count), summed=False)
        exact = JunctionTreePropagation()
        if not exact.takes_tables(instances):
            return None
        return self._split(exact.run_tables(instances, Budget()), per_row)

    def _split(
        self, found: TableBatch, per_row: list[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        assert found.factor_marginals is not None  # they were asked for
        ends = np.cumsum([t[0].size for _, t in per_row]).astype(np.int64)
        *parts, flat = np.split(found.factor_marginals, ends, axis=1)
        return [p.reshape(t.shape) for p, (_, t) in zip(parts, per_row, strict=True)], flat

    def _mixtures(
        self, found: Integral, keep: np.ndarray, scope: np.ndarray, belief: np.ndarray
    ) -> dict[int, Mixtures]:
        """The mixtures of one part."""
        count, d = len(self.values), len(found.part.real)
        inverse = np.linalg.inv(found.root)
        sd = np.sqrt((inverse**2).sum(axis=-2))
        made = []
        for array in (found.mode, sd):  # (states..., d) with the row among the axes, or not
            parts = [self._per_row(scope, array[..., i])[1].reshape(count, -1) for i in range(d)]
            made.append(parts)
        weights = belief.reshape(count, -1)
        weights = weights / weights.sum(axis=1, keepdims=True)
        return {
            int(keep[i]): Mixtures(weights, made[0][k], made[1][k])
            for k, i in enumerate(found.part.real.tolist())
        }
