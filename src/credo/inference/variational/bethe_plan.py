"""The arrays behind Bethe variational inference: variables by kind, factors by group.

Variables of one kind (real; discrete; simplex of one width) share arrays. Discrete variables are padded to
the largest number of states, and all factors of discrete variables only become tables, padded likewise and
merged by arity, so that a graph of many domains is still a small program. Factors that are Gaussian given
states have closed forms; every other group of factors keeps its function. A zero weight in a table counts as
exp(-wall) times the smallest positive one while beliefs move; `bethe_zeros.py` removes what is left on zeros
afterwards.

A factor whose scope lies within that of another is part of it: the mutual information of its variables is
counted once. On a graph with one factor per edge that is the Bethe free energy as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...core.domain import Discrete, Real, Simplex
from ...core.factor import look_up
from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch
from ...nn.arrays import row_buckets
from ..problem.gaussian_system import has_closed_form
from ..problem.potentials import group_function

__all__ = ["BetheLayout", "BethePlan", "GroupData", "GroupPlan", "Kind", "KindData", "RowLists", "layout_of"]

_PADDING = 2**16  # entries that padded tables may have in any case
_WASTE = 8  # beyond, how many times as many as the tables themselves
_SLACK = 2  # times the number of factors that lists of them may be long without buckets


@dataclass(frozen=True)
class Kind:
    """What variables of one kind have in common."""

    family: str  # real, discrete or simplex
    size: int  # most states, or coordinates
    paired: bool = False  # whether its points are samples, paired between the variables of a factor


@dataclass(frozen=True)
class GroupPlan:
    """What factors of one group have in common."""

    function: Any  # of columns and parameters; None for tables and closed forms
    form: Any  # `quadratic` or `residual`; None where expectations are sums over points
    axes: tuple[tuple[int, int], ...]  # per variable of the scope its kind, and its number of states
    mutual: bool  # whether mutual informations are subtracted
    aligned: tuple[bool, ...]  # per variable of the scope whether the factors have those of its kind in order

    def needs_points(self, components: int) -> bool:
        """Whether something is left to sum over points: values, or the mutual information of a mixture."""
        return self.form is None or (self.mutual and components > 1)


@dataclass(frozen=True)
class BethePlan:
    """The constants of a program."""

    kinds: tuple[Kind, ...]  # of variables
    groups: tuple[GroupPlan, ...]  # of factors
    components: int  # of the mixture


class GroupData(NamedTuple):
    """The arrays of a group; factors on the first axis."""

    scopes: Any  # (count, arity) positions within the kinds
    parameters: Any  # of the function, or one table padded
    mutual: Any  # (count,) weight of the mutual information


class RowLists(NamedTuple):
    """Which factors of a group have a variable at one place of their scope."""

    rows: Any  # per bucket (longest, variables); nothing if the factors have the variables in order
    masks: Any  # likewise; what is not padding
    order: Any  # (n,) position of each variable among the bucketed ones; None if they are in order


class KindData(NamedTuple):
    """The arrays of a kind; its variables on the last axis."""

    lists: tuple[RowLists, ...]  # one for every place in the scope of a group where the kind is found
    mask: Any  # (size, n) states that exist; (0,) if the kind has none


@dataclass(frozen=True)
class BetheLayout:
    """A graph in the form that is compiled."""

    graph: FactorGraph  # where it comes from
    kinds: tuple[Kind, ...]  # of variables
    members: tuple[np.ndarray, ...]  # positions of the variables of each kind
    plans: tuple[GroupPlan, ...]  # of groups of factors
    groups: tuple[GroupData, ...]  # their arrays
    sources: tuple[FactorBatch | None, ...]  # where the values of a group come from; None for tables
    constant: float  # log-potentials of factors without variables
    mutual: np.ndarray  # (factors,) 1 where the mutual information of a factor counts
    zeros: tuple[np.ndarray | None, ...]  # per group of tables where they are zero, if anywhere

    @cached_property
    def kind_data(self) -> tuple[KindData, ...]:
        """Where the contributions to each variable are found."""
        found = []
        for c, (kind, members) in enumerate(zip(self.kinds, self.members, strict=True)):
            owners = [
                group.scopes[:, j]
                for plan, group in zip(self.plans, self.groups, strict=True)
                for j, (at, _) in enumerate(plan.axes)
                if at == c
            ]
            lists = tuple(_row_lists(owner, len(members)) for owner in owners)
            found.append(KindData(lists, self._mask(kind, members)))
        return tuple(found)

    def _mask(self, kind: Kind, members: np.ndarray) -> np.ndarray:
        if kind.family != "discrete":
            return np.zeros(0, bool)
        return np.arange(kind.size)[:, None] < self.graph.variables.sizes[members]

    @property
    def is_tree(self) -> bool:
        """Whether the factors that count form a forest."""
        return self.graph.is_forest_of(np.flatnonzero(self.mutual))


def layout_of(graph: FactorGraph, paired: dict[str, bool], counting: float, wall: float) -> BetheLayout:
    """Sort variables and factors.

    Parameters
    ----------
    graph
        Of the variables that were not observed.
    paired
        Per family whether expectations are means over samples.
    counting
        Weight of the mutual informations; 1 is the Bethe free energy.
    wall
        How many nats below the smallest positive weight a zero counts.
    """
    kinds, members = _kinds(graph, paired)
    at = np.zeros((len(graph.variables), 2), np.int64)  # kind and position within it
    for c, own in enumerate(members):
        at[own] = np.stack([np.full(len(own), c), np.arange(len(own))], axis=1)
    mutual = _counted(graph.scopes)
    builder = _Builder(graph, kinds, at, mutual * counting, wall)
    for group in graph.batches:
        builder.add(group)
    plans, data, sources, zeros = builder.finished()
    return BetheLayout(graph, kinds, members, plans, data, sources, builder.constant, mutual, zeros)


def _kinds(graph: FactorGraph, paired: dict[str, bool]) -> tuple[tuple[Kind, ...], tuple[np.ndarray, ...]]:
    domains = graph.variables.domains
    sizes = graph.variables.sizes
    found: dict[Any, list[int]] = {}
    for i in range(len(sizes)):
        domain = None if sizes[i] else domains[i]
        key = "discrete" if sizes[i] else domain if isinstance(domain, Simplex) else "real"
        found.setdefault(key, []).append(i)
    kinds = []
    for key in found:
        family = "simplex" if isinstance(key, Simplex) else key
        size = key.width if isinstance(key, Simplex) else max(1, int(sizes[found[key]].max()))
        kinds.append(Kind(family, size, paired.get(family, False)))
    return tuple(kinds), tuple(np.array(own, np.int64) for own in found.values())


def _counted(scopes: Sequence[np.ndarray]) -> np.ndarray:
    """1 for the factors of two or more variables whose scope lies in no other one (the first of equals)."""
    around: dict[int, list[int]] = {}
    for a, scope in enumerate(scopes):
        for i in scope:
            around.setdefault(int(i), []).append(a)
    sets = [frozenset(scope.tolist()) for scope in scopes]
    counted = np.zeros(len(scopes))
    for a, scope in enumerate(scopes):
        if len(scope) > 1:
            rivals = min((around[int(i)] for i in scope), key=len)
            inside = (sets[a] < sets[b] or (sets[a] == sets[b] and b < a) for b in rivals if b != a)
            counted[a] = not any(inside)
    return counted


def _row_lists(owner: np.ndarray, count: int) -> RowLists:
    if np.array_equal(owner, np.arange(count)):
        return RowLists((), (), None)
    order = np.argsort(owner, kind="stable")
    lengths = np.bincount(owner, minlength=count)
    first = np.concatenate([[0], np.cumsum(lengths)])
    whole = count * int(lengths.max()) <= _SLACK * len(owner)
    place, done, rows, masks = np.full(count, -1, np.int64), 0, [], []
    for own in [np.arange(count)] if whole else row_buckets(lengths):
        steps = np.arange(int(lengths[own].max()))[:, None]
        mask = steps < lengths[own]
        rows.append(order[np.where(mask, first[own] + steps, 0)])
        masks.append(mask)
        place[own] = done + np.arange(len(own))
        done += len(own)
    place[place < 0] = done  # variables without factors: the zero after the last
    return RowLists(tuple(rows), tuple(masks), None if whole else place)


class _Builder:
    """Collects the groups of a layout; tables of equal arity are merged when that wastes little."""

    def __init__(
        self, graph: FactorGraph, kinds: tuple[Kind, ...], at: np.ndarray, mutual: np.ndarray, wall: float
    ) -> None:
        self._graph, self._kinds, self._at, self._mutual, self._wall = graph, kinds, at, mutual, wall
        self._tables: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._plans: list[GroupPlan] = []
        self._data: list[GroupData] = []
        self._sources: list[FactorBatch | None] = []
        self._zeros: list[np.ndarray | None] = []
        self.constant = 0.0

    def add(self, group: FactorBatch) -> None:
        """One group of the graph."""
        arity = group.scopes.shape[1]
        if arity == 0:
            self.constant += float(sum(self._graph.factors[int(a)].log_values() for a in group.factors))
        elif all(isinstance(d, Discrete) for d in group.domains):
            self._tables.setdefault(arity, []).append((group.factors, self._values(group)))
        else:
            kinds = self._at[group.scopes[0], 0]
            axes = tuple((int(c), _states(d)) for c, d in zip(kinds, group.domains, strict=True))
            form = group.function if has_closed_form(group) else None
            function = None if form is not None else group_function(group, last=True)
            self._append((function, form), axes, group.factors, group.parameters, group, None)

    def _values(self, group: FactorBatch) -> np.ndarray:
        """The tables of a group of discrete variables, (count, states, ...)."""
        if group.function is look_up:
            return group.parameters[0]
        mesh = np.meshgrid(*(np.arange(d.size) for d in group.domains), indexing="ij")
        return np.stack([self._graph.factors[int(a)].log_values(*mesh) for a in group.factors])

    def _append(
        self, functions: Any, axes: Any, factors: np.ndarray, parameters: Any, source: Any, zeros: Any
    ) -> None:
        scopes = np.stack([self._graph.scopes[int(a)] for a in factors])
        mutual, places = self._mutual[factors], self._at[scopes, 1]
        members = np.bincount(self._at[:, 0])
        aligned = tuple(
            np.array_equal(own, np.arange(members[c])) for own, (c, _) in zip(places.T, axes, strict=True)
        )
        function, form = functions
        self._plans.append(GroupPlan(function, form, axes, bool(mutual.any()), aligned))
        self._data.append(GroupData(places, tuple(parameters), mutual))
        self._sources.append(source)
        self._zeros.append(zeros)

    def finished(self) -> tuple[Any, Any, Any, Any]:
        """Plans, data, sources and zeros of all groups, tables merged."""
        c = next((c for c, kind in enumerate(self._kinds) if kind.family == "discrete"), -1)
        for arity, parts in self._tables.items():
            for merged in self._merge(arity, parts):
                factors = np.concatenate([f for f, _ in merged])
                tables = np.concatenate([t for _, t in merged])
                zeros = np.isneginf(tables)
                if zeros.any():
                    flat = np.where(zeros, np.inf, tables).reshape(len(tables), -1).min(axis=1)
                    lowest = np.where(np.isfinite(flat), flat, 0.0).reshape(-1, *[1] * arity)
                    tables = np.where(zeros, lowest - self._wall, tables)
                axes = tuple((c, size) for size in tables.shape[1:])
                self._append((None, None), axes, factors, (tables,), None, zeros if zeros.any() else None)
        return tuple(self._plans), tuple(self._data), tuple(self._sources), tuple(self._zeros)

    def _merge(self, arity: int, parts: Any) -> list[Any]:
        """All tables of one arity in one group if the padding stays small, otherwise as they are."""
        size = max(max(t.shape[1:]) for _, t in parts)
        padded = sum(len(t) for _, t in parts) * size**arity
        if padded > max(_PADDING, _WASTE * sum(t.size for _, t in parts)):
            return [[part] for part in parts]
        return [[(f, np.pad(t, [(0, 0), *((0, size - k) for k in t.shape[1:])])) for f, t in parts]]


def _states(domain: Any) -> int:
    return 1 if isinstance(domain, (Real, Simplex)) else int(domain.size)
