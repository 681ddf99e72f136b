r"""Factors that are no tables, in bulk: groups of one kind, each a few stacked arrays.

    Gaussians         exp( g + h'x - x'Jx / 2 )                        blocks of one arity
    LinearGaussians   exp( c_s - (w_s'x - b_s)^2 / (2 v_s) )           s: joint states of discrete variables
    Densities         exp( function(x_1, ..., x_k, *parameters) )      one function, many parameters
    Bilinear          exp( x' W y )                                    one factor between two layers

A group answers a few questions: its factors as calls of functions (`batches`), itself given evidence
(`condition`), itself as tables (`to_tables`), one factor as an object (`factor`), itself with variables at
other positions (`moved`). Every factor has a number, its place among all factors of the graph, and keeps it
under conditioning. Observed variables leave the scopes of groups; what has states only becomes tables, and
tables are answered by every discrete method.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from .density import DensityFactor, GaussianFactor, Sliced, coordinatewise, quadratic
from .domain import Discrete
from .factor import Factor
from .linear_gaussian import BilinearFactor, LinearGaussianFactor, product, residual
from .records import register
from .variable import Variables

if TYPE_CHECKING:
    from .evidence import Evidence

__all__ = [
    "Bilinear",
    "Densities",
    "FactorBatch",
    "Gaussians",
    "Group",
    "LinearGaussians",
    "TableBlock",
    "domains_of",
    "group_of",
    "groups_of",
]

_MOST_ENTRIES = 2.0**24  # of all tables that stand for a group of another kind


@dataclass(frozen=True)
class FactorBatch:
    """Factors that are evaluated together; arrays have the factors on their first axis."""

    function: Callable[..., Any]  # log-potential of values and parameters of one factor
    domains: tuple[Any, ...]  # of the scope, the same for all
    factors: np.ndarray  # (count,) positions in the graph
    scopes: np.ndarray  # (count, arity) variable positions
    parameters: tuple[np.ndarray, ...]  # each (count, ...)


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Log tables of one shape, on their way into the flat arrays of a graph."""

    numbers: np.ndarray  # (count,)
    scopes: np.ndarray  # (count, arity)
    logs: np.ndarray  # (count, d1, ..., dk)


@dataclass(frozen=True, eq=False)
class Group(abc.ABC):
    """Factors of one kind over variables whose domains agree column by column."""

    kind: ClassVar[str]  # what algorithms call it where they say what they read
    stands_alone: ClassVar[bool] = False  # whether one factor is a group
    numbers: np.ndarray  # (count,) of its factors among all
    scopes: np.ndarray  # (count, arity) variable positions

    @classmethod
    def of(cls, batch: FactorBatch) -> Group:
        """The group of factors of one function, their parameters stacked."""
        return cls(batch.factors, batch.scopes, *batch.parameters)

    @abc.abstractmethod
    def batches(self, variables: Variables) -> Iterator[FactorBatch]:
        """The factors as calls of functions; `factors` holds their numbers."""

    @abc.abstractmethod
    def condition(self, seen: Evidence, variables: Variables) -> Iterator[Group | TableBlock]:
        """The same factors given evidence, without the observed variables; kinds may change."""

    @abc.abstractmethod
    def factor(self, row: int, variables: Variables) -> Factor:
        """One of the factors."""

    def to_tables(self, variables: Variables) -> Sequence[TableBlock] | None:
        """The same factors as tables; None where a variable has no states, or the tables would not fit."""
        return None

    def unfolded(self, variables: Variables) -> Iterator[Group]:
        """Groups in which every factor stands for itself alone."""
        yield self

    def moved(self, position: np.ndarray) -> Group:
        """The same factors with variable i at `position[i]`."""
        return replace(self, scopes=position[self.scopes])

    def __len__(self) -> int:
        return len(self.numbers)

    def _rows_by_flags(self, seen: Evidence) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Which variables of a scope are observed (flags), and the rows where it is exactly these."""
        flags = seen.flags[self.scopes]
        code = flags @ (1 << np.arange(flags.shape[1]))  # unique rows by axis would cost a second per 10^5
        for first in np.unique(code, return_index=True)[1]:
            yield flags[first], np.flatnonzero(code == code[first])

    def _scope(self, row: int, variables: Variables) -> list[Any]:
        return [variables[int(i)] for i in self.scopes[row]]


_GROUPS: dict[type[Factor], type[Group]] = {}
G = TypeVar("G", bound=Group)


def group_of(factor: type[Factor]) -> Callable[[type[G]], type[G]]:
    """Decorator of a group: factors of this class are kept in it. Those without a group are `Densities`."""

    def known(group: type[G]) -> type[G]:
        _GROUPS[factor] = group
        return group

    return known


def domains_of(variables: Variables, scope: np.ndarray) -> tuple[Any, ...]:
    """The domains of a scope without their labels."""
    found = (variables.domains[int(i)] for i in scope)
    return tuple(Discrete(d.size) if isinstance(d, Discrete) else d for d in found)


@register("gaussians")
@group_of(GaussianFactor)
@dataclass(frozen=True, eq=False)
class Gaussians(Group):
    """Blocks exp(g + h'x - x'Jx / 2) of one arity; a Markov random field is two groups of them."""

    kind: ClassVar[str] = "gaussian"
    precision: np.ndarray  # J, (count, k, k)
    shift: np.ndarray  # h, (count, k)
    constant: np.ndarray  # g, (count,)

    @classmethod
    def field(cls, precision: Any, shift: np.ndarray) -> tuple[Gaussians, Gaussians]:
        """The Markov random field of a scipy.sparse matrix: a block per variable and one per edge."""
        from scipy.sparse import triu

        n, upper = len(shift), triu(precision, 1, format="coo")
        upper.eliminate_zeros()
        blocks = np.zeros((upper.nnz, 2, 2))
        blocks[:, 0, 1] = blocks[:, 1, 0] = upper.data
        pairs = np.stack([upper.row, upper.col], axis=1).astype(np.int64)
        own = np.arange(n)
        diagonal = precision.diagonal()[:, None, None]
        return (
            cls(own, own[:, None], diagonal, shift[:, None], np.zeros(n)),
            cls(n + np.arange(upper.nnz), pairs, blocks, np.zeros((upper.nnz, 2)), np.zeros(upper.nnz)),
        )

    def batches(self, variables: Variables) -> Iterator[FactorBatch]:
        """One call of the quadratic form."""
        if len(self):
            domains = domains_of(variables, self.scopes[0])
            parameters = (self.precision, self.shift, self.constant)
            function = coordinatewise(quadratic, domains)
            yield FactorBatch(function, domains, self.numbers, self.scopes, parameters)

    def condition(self, seen: Evidence, variables: Variables) -> Iterator[Group | TableBlock]:
        """Observed numbers move into shift and constant."""
        for given, rows in self._rows_by_flags(seen):
            J, h, numbers = self.precision[rows], self.shift[rows], self.numbers[rows]
            x = seen.coordinates(self.scopes[rows], variables)
            scopes, free = self.scopes[rows][:, ~given], np.isnan(x[0])
            x = np.where(free, 0.0, x)
            g = self.constant[rows] + (h * x).sum(axis=1) - 0.5 * np.einsum("ai,aij,aj->a", x, J, x)
            if given.all():
                yield TableBlock(numbers, scopes, g)
                continue
            h = (h - np.einsum("aij,aj->ai", J, x))[:, free]
            yield Gaussians(numbers, scopes, J[:, free][:, :, free], h, g)

    def factor(self, row: int, variables: Variables) -> Factor:
        """The block of this row as a factor over its variables."""
        scope = self._scope(row, variables)
        return GaussianFactor(scope, self.precision[row], self.shift[row], float(self.constant[row]))


@register("linear gaussians")
@group_of(LinearGaussianFactor)
@dataclass(frozen=True, eq=False)
class LinearGaussians(Group):
    """Residuals w_s'x - b_s with variances v_s: emissions, regressions, switching dynamics.

    The scope is k real variables, then those whose joint states are s. Residuals are kept instead of
    precisions and shifts, so that conditioning on far numbers loses no digits.
    """

    kind: ClassVar[str] = "linear-gaussian"
    weights: np.ndarray  # w, (count, S..., k)
    offset: np.ndarray  # b, (count, S...)
    variance: np.ndarray  # v, (count, S...)
    constant: np.ndarray  # c, (count, S...)

    def batches(self, variables: Variables) -> Iterator[FactorBatch]:
        """One call of the residual."""
        if len(self):
            domains = domains_of(variables, self.scopes[0])
            parameters = (self.weights, self.offset, self.variance, self.constant)
            function = coordinatewise(residual, domains)
            yield FactorBatch(function, domains, self.numbers, self.scopes, parameters)

    def condition(self, seen: Evidence, variables: Variables) -> Iterator[Group | TableBlock]:
        """Observed numbers move into the offset; when none is left, c - b^2 / 2v is a table."""
        k = int((variables.sizes[self.scopes[:1]] == 0).sum())
        for given, rows in self._rows_by_flags(seen):
            scopes, numbers = self.scopes[rows], self.numbers[rows]
            w, b, v, c = (p[rows] for p in (self.weights, self.offset, self.variance, self.constant))
            x = seen.coordinates(scopes[:, :k], variables)
            free = np.isnan(x[0])
            x = np.where(free, 0.0, x)
            b = b - (w * x.reshape(len(rows), *[1] * (w.ndim - 2), -1)).sum(axis=-1)
            for axis in np.flatnonzero(given[k:])[::-1]:
                at = seen.states[scopes[:, k + axis]]
                w, b, v, c = (_take(p, at, int(axis) + 1) for p in (w, b, v, c))
            scopes, w = scopes[:, ~given], w[..., free]
            if not w.shape[-1]:
                yield TableBlock(numbers, scopes, c - 0.5 * b**2 / v)
                continue
            if c.ndim == 1 and np.isneginf(c).any():  # a forbidden state was observed: zero whatever x is
                zero = np.flatnonzero(np.isneginf(c))
                yield TableBlock(numbers[zero], scopes[zero, :0], c[zero])
                c = np.where(np.isneginf(c), 0.0, c)
            yield LinearGaussians(numbers, scopes, w, b, v, c)

    def to_gaussians(self) -> Gaussians:
        """Residuals without states as Gaussian blocks."""
        w, b, v = self.weights, self.offset, self.variance
        J = w[:, :, None] * w[:, None, :] / v[:, None, None]
        return Gaussians(self.numbers, self.scopes, J, w * (b / v)[:, None], self.constant - 0.5 * b**2 / v)

    def factor(self, row: int, variables: Variables) -> Factor:
        """The residual of this row as a factor over its variables."""
        scope = self._scope(row, variables)
        parts = (self.weights, self.offset, self.variance, self.constant)
        return LinearGaussianFactor(scope, *(p[row] for p in parts))


def _take(array: np.ndarray, at: np.ndarray, axis: int) -> np.ndarray:
    """Entry `at[a]` of an axis in row a; the axis goes."""
    index = at.reshape(-1, *[1] * (array.ndim - 1))
    return np.take_along_axis(array, index, axis=axis).squeeze(axis)


@register("densities")
@group_of(DensityFactor)
@dataclass(frozen=True, eq=False)
class Densities(Group):
    """One function, one row of parameters per factor."""

    kind: ClassVar[str] = "density"
    function: Callable[..., Any]
    parameters: tuple[np.ndarray, ...]  # each (count, ...)

    @classmethod
    def of(cls, batch: FactorBatch) -> Group:
        """Function and parameters as they are."""
        return cls(batch.factors, batch.scopes, batch.function, batch.parameters)

    def batches(self, variables: Variables) -> Iterator[FactorBatch]:
        """One call of the function."""
        if len(self):
            domains = domains_of(variables, self.scopes[0])
            yield FactorBatch(self.function, domains, self.numbers, self.scopes, self.parameters)

    def condition(self, seen: Evidence, variables: Variables) -> Iterator[Group | TableBlock]:
        """Observed values come first among the parameters; what has states only becomes tables."""
        for given, rows in self._rows_by_flags(seen):
            scopes, parameters = self.scopes[rows], tuple(p[rows] for p in self.parameters)
            function = self.function
            if given.any():
                known = tuple(seen.column(scopes[:, k], variables) for k in np.flatnonzero(given))
                function, parameters = Sliced(function, tuple(given.tolist())), (*known, *parameters)
            made = Densities(self.numbers[rows], scopes[:, ~given], function, parameters)
            yield from (given.any() and made.to_tables(variables)) or (made,)

    def to_tables(self, variables: Variables) -> Sequence[TableBlock] | None:
        """The values at all joint states."""
        if not len(self):
            return ()
        shape = variables.sizes[self.scopes[0]]
        if not shape.all() or np.prod(shape.astype(np.float64)) * len(self) > _MOST_ENTRIES:
            return None
        mesh = np.meshgrid(*map(np.arange, shape), indexing="ij", sparse=True)
        logs = [self.factor(row, variables).log_values(*mesh) for row in range(len(self))]
        return (TableBlock(self.numbers, self.scopes, np.array(logs).reshape(len(self), *shape)),)

    def factor(self, row: int, variables: Variables) -> Factor:
        """The function with one row of parameters."""
        return DensityFactor(self._scope(row, variables), self.function, *(p[row] for p in self.parameters))


@register("bilinear")
@group_of(BilinearFactor)
@dataclass(frozen=True, eq=False)
class Bilinear(Group):
    """One factor exp(x'Wy) between two layers; the scope is left + right.

    Values are states as numbers 0, 1, ..., or numbers where a layer is real. As calls of functions, and as
    tables, it stands for a factor per pair, all with its number.
    """

    kind: ClassVar[str] = "bilinear"
    stands_alone: ClassVar[bool] = True
    weights: np.ndarray  # W, (left, right)

    @classmethod
    def of(cls, batch: FactorBatch) -> Group:
        """One factor."""
        return cls(batch.factors, batch.scopes, batch.parameters[0][0])

    def batches(self, variables: Variables) -> Iterator[FactorBatch]:
        """A factor per pair, grouped by the domains."""
        for part in self.unfolded(variables):
            yield from part.batches(variables)

    def unfolded(self, variables: Variables) -> Iterator[Group]:
        """A factor per pair, grouped by the domains."""
        left, right = np.split(self.scopes[0], [len(self.weights)])
        number = int(self.numbers[0])
        for _, rows in _by_domain(left, variables):
            for _, columns in _by_domain(right, variables):
                scopes = np.stack(np.meshgrid(left[rows], right[columns], indexing="ij"), axis=-1)
                flat = self.weights[np.ix_(rows, columns)].ravel()
                yield Densities(np.full(len(flat), number), scopes.reshape(-1, 2), product, (flat,))

    def condition(self, seen: Evidence, variables: Variables) -> Iterator[Group | TableBlock]:
        """An observed layer leaves one table, or Gaussian shift, per variable of the other one."""
        scope, count = self.scopes[0], len(self.weights)
        flags = seen.flags[scope]
        if not flags.any():
            yield self
            return
        value = np.where(flags, np.where(seen.states[scope] >= 0, seen.states[scope], seen.numbers[scope]), 0)
        x, y = np.split(value.astype(np.float64), [count])
        yield TableBlock(self.numbers, np.empty((1, 0), np.int64), np.array([x @ self.weights @ y]))
        field, free = np.concatenate([self.weights @ y, x @ self.weights]), np.flatnonzero(~flags)
        yield from _shifts(self.numbers[0], scope[free], field[free], variables)
        if not flags[:count].all() and not flags[count:].all():
            yield Bilinear(
                self.numbers, self.scopes[:, ~flags], self.weights[~flags[:count]][:, ~flags[count:]]
            )

    def to_gaussians(self, variables: Variables) -> list[Group | TableBlock]:
        """The same as Gaussian blocks, given states where one layer has some, or as tables; one per pair.

        A number x beside a state s is exp(w x s) = exp( (w s)^2 / 2 - (x - w s)^2 / 2 ) exp( x^2 / 2 ).
        """
        found: list[Group | TableBlock] = []
        for part in self.unfolded(variables):
            scopes, (weights,) = part.scopes, part.parameters  # type: ignore[attr-defined]
            sizes = variables.sizes[scopes[0]]
            if sizes.all():
                found.extend(part.to_tables(variables) or (part,))
                continue
            if not sizes.any():
                blocks = np.zeros((len(part), 2, 2))
                blocks[:, 0, 1] = blocks[:, 1, 0] = -weights
                found.append(Gaussians(part.numbers, scopes, blocks, np.zeros((len(part), 2)), 0.0 * weights))
                continue
            scopes = scopes if sizes[1] else scopes[:, ::-1]
            shift = weights[:, None] * np.arange(sizes.max())
            ones, flat = np.ones_like(shift), np.zeros((len(part), 1))
            found.append(LinearGaussians(part.numbers, scopes, ones[:, :, None], shift, ones, 0.5 * shift**2))
            found.append(Gaussians(part.numbers, scopes[:, :1], flat[:, :, None] - 1, flat, flat[:, 0]))
        return found

    def to_tables(self, variables: Variables) -> Sequence[TableBlock] | None:
        """A table per pair."""
        left, right = np.split(variables.sizes[self.scopes[0]].astype(np.float64), [len(self.weights)])
        if not (left.all() and right.all()) or left.sum() * right.sum() > _MOST_ENTRIES:
            return None
        return [
            TableBlock(
                batch.factors, batch.scopes, _outer(batch.parameters[0], [d.size for d in batch.domains])
            )
            for batch in self.batches(variables)
        ]

    def factor(self, row: int, variables: Variables) -> Factor:
        """All of it."""
        left, right = np.split(self.scopes[0], [len(self.weights)])
        return BilinearFactor(
            [variables[int(i)] for i in left], [variables[int(i)] for i in right], self.weights
        )


def _by_domain(scope: np.ndarray, variables: Variables) -> Iterator[tuple[Any, np.ndarray]]:
    """The domains of variables without their labels, and the places of those that have each."""
    places: dict[Any, list[int]] = {}
    for place, domain in enumerate(domains_of(variables, scope)):
        places.setdefault(domain, []).append(place)
    return ((domain, np.array(own)) for domain, own in places.items())


def _outer(weights: np.ndarray, sizes: list[int]) -> np.ndarray:
    return weights[:, None, None] * np.multiply.outer(*map(np.arange, sizes))


def _shifts(
    number: int, scope: np.ndarray, field: np.ndarray, variables: Variables
) -> Iterator[Group | TableBlock]:
    """The factors exp(field_i x_i) of one variable each."""
    sizes = variables.sizes[scope]
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        numbers, scopes, h = np.full(len(rows), number), scope[rows][:, None], field[rows][:, None]
        if size:
            yield TableBlock(numbers, scopes, h * np.arange(size))
        else:
            yield Gaussians(numbers, scopes, np.zeros((len(rows), 1, 1)), h, np.zeros(len(rows)))


def groups_of(numbered: Sequence[tuple[int, Factor]], variables: Variables) -> tuple[Group, ...]:
    """Factors that are no tables, with their numbers, by kind, function, domains and shapes of parameters."""
    found: dict[Any, list[tuple[int, Factor]]] = {}
    for number, factor in numbered:
        found.setdefault(_key(factor, number), []).append((number, factor))
    made: list[Group] = []
    for members in found.values():
        numbers = np.array([number for number, _ in members], dtype=np.int64)
        arity = len(members[0][1].scope)
        scopes = [variables.positions(f.names) for _, f in members]
        stacked = tuple(np.stack(p) for p in zip(*(f.parameters for _, f in members), strict=True))
        first = members[0][1]
        positions = np.array(scopes, np.int64).reshape(-1, arity)
        domains = domains_of(variables, positions[0])
        batch = FactorBatch(first.function, domains, numbers, positions, stacked)
        made.append(_GROUPS.get(type(first), Densities).of(batch))
    return tuple(made)


def _key(factor: Factor, number: int) -> Any:
    """What factors of one group share."""
    if _GROUPS.get(type(factor), Densities).stands_alone:
        return number
    domains = tuple(Discrete(v.size) if v.is_discrete else v.domain for v in factor.scope)
    shapes = tuple((p.shape, p.dtype.kind) for p in factor.parameters)
    return type(factor), _identity(factor.function), domains, shapes


def _identity(function: Any) -> Any:
    """What tells two functions apart: equality where it is defined, else identity."""
    try:
        hash(function)
    except TypeError:
        return id(function)
    return function
