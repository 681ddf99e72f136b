r"""Exact answers where real variables are Gaussian given the states: conditional linear Gaussian models.

Real variables joined by factors form parts. A part with real variables x and discrete neighbours s is, for
every joint state s, one quadratic form with precision J_s and mode m_s = J_s^-1 h_s; its integral is a table,

    log T(s) = f(m_s, s) + ( |x| log 2 pi - log det J_s ) / 2,

f being the sum of its factors. Putting tables in the place of the parts leaves a discrete model, which
the junction tree answers; real variables then have the mixtures sum_s p(s) N(m_s, J_s^-1). Where real
variables are maximised, and with them all neighbours of their part, the table is f(m_s, s) plus the integral
over the rest: log det J_s is that of the integrated variables alone.

Values are taken at the mode, factor by factor, so that numbers far from zero lose no digits. The work is the
number of joint states of the neighbours of a part times the cube of its real variables; it is forecast and,
where too large (a chain of switches that are all unknown), refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ...core.belief import Density
from ...core.errors import TooLargeError
from ...core.factor_graph import FactorGraph
from ...core.groups import Gaussians, Group, LinearGaussians, TableBlock
from ...core.result import Assignment, FactorMarginals, Marginals, Result, Samples, Status
from ...families.densities import MixtureDensity
from ...families.mapped import VectorMixtureDensity
from ..problem.base import Algorithm, Budget, Problem, register
from ..problem.gaussian_system import no_integral
from .junction_tree import JunctionTreePropagation

__all__ = ["ConditionalGaussian", "forecast"]

_LOG_2PI = float(np.log(2 * np.pi))
_MOST_NUMBERS = 2.0**27  # of all matrices of a part, 1 GB
_MOST_WORK = 2.0**36  # multiplications, about a minute
_DIGITS = 64 * np.finfo(float).eps  # a pivot below this share of its diagonal is rounding


class GaussianPart(NamedTuple):
    """Real variables that are joined by factors, and the discrete variables of these."""

    real: np.ndarray  # positions, ascending
    discrete: np.ndarray  # positions, ascending
    members: tuple[tuple[int, np.ndarray], ...]  # (group, rows) of its factors


def parts_of(graph: FactorGraph) -> list[GaussianPart]:
    """The parts of a graph of tables, Gaussian blocks and residuals."""
    label, real = _labels(graph), np.flatnonzero(graph.variables.sizes == 0)
    owner, around = _neighbours(graph, label)
    names, own_real = _split(label[real], real)
    members: dict[int, list[tuple[int, np.ndarray]]] = {c: [] for c in names.tolist()}
    for g, group in enumerate(graph.others):
        some, rows = _split(label[group.scopes[:, 0]], np.arange(len(group)))
        for c, own in zip(some.tolist(), rows, strict=True):
            members[c].append((g, own))
    ends = np.searchsorted(owner, names), np.searchsorted(owner, names, side="right")
    return [
        GaussianPart(own, around[first:last], tuple(members[c]))
        for c, own, first, last in zip(names.tolist(), own_real, *ends, strict=True)
    ]


def _labels(graph: FactorGraph) -> np.ndarray:
    """The part of each variable, as a number; discrete variables stand alone."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ends = [np.empty((0, 2), dtype=np.int64)]
    for group in graph.others:
        count = _real_count(group)
        if count > 1:
            firsts = np.repeat(group.scopes[:, 0], count - 1)
            ends.append(np.stack([firsts, group.scopes[:, 1:count].ravel()], axis=1))
    pairs, n = np.concatenate(ends), len(graph.variables)
    links = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)


def _neighbours(graph: FactorGraph, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a part and a discrete variable of its factors, each once and in order."""
    n, codes = max(len(label), 1), [np.empty(0, dtype=np.int64)]
    for group in graph.others:
        discrete = group.scopes[:, _real_count(group) :]
        codes.append((label[group.scopes[:, :1]] * n + discrete).ravel())
    owner, around = np.divmod(np.unique(np.concatenate(codes)), n)
    return owner, around


def _split(label: np.ndarray, things: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The labels that occur, and the things of each."""
    order = np.argsort(label, kind="stable")
    names, first = np.unique(label[order], return_index=True)
    return names, np.split(things[order], first[1:]) if len(names) else []


def _real_count(group: Group) -> int:
    return group.weights.shape[-1] if isinstance(group, LinearGaussians) else group.scopes.shape[1]


class Cost(NamedTuple):
    """What the largest part takes."""

    numbers: float  # of its matrices
    work: float  # multiplications of all parts

    @property
    def is_small(self) -> bool:
        """Whether it can be done here in about a minute."""
        return self.numbers <= _MOST_NUMBERS and self.work <= _MOST_WORK

    def __str__(self) -> str:
        return f"{self.numbers:.1e} numbers, {self.work:.1e} multiplications"


def forecast(graph: FactorGraph) -> Cost:
    """The cost of integrating all parts of a graph."""
    label, sizes = _labels(graph), graph.variables.sizes
    owner, around = _neighbours(graph, label)
    d = np.bincount(label[sizes == 0], minlength=len(sizes)).astype(np.float64)
    with np.errstate(over="ignore"):
        states = np.exp(np.bincount(owner, np.log(sizes[around]), minlength=len(sizes)))
        numbers, work = states * d**2, states * (d**3 / 3 + d**2)
    return Cost(float(numbers.max(initial=0.0)), float(work.sum()))


class Integral(NamedTuple):
    """A part, for every joint state of its discrete variables; arrays begin with those axes."""

    part: GaussianPart
    mode: np.ndarray  # (states..., d)
    root: np.ndarray  # (states..., d, d) L of J = L L'
    log_table: np.ndarray  # (states...)


def integrate(graph: FactorGraph, part: GaussianPart, maximised: np.ndarray) -> Integral:
    """The table that a part leaves; `maximised` flags variables of the graph."""
    shape, d = tuple(graph.variables.sizes[part.discrete].tolist()), len(part.real)
    J, h = np.zeros((*shape, d, d)), np.zeros((*shape, d))
    pieces = list(_pieces(graph, part))
    for at, w, b, v, _ in pieces:
        J[..., at[:, None], at] += w[..., :, None] * w[..., None, :] / v[..., None, None]
        h[..., at] += w * (b / v)[..., None]
    own_groups = ((graph.others[g], rows) for g, rows in part.members)
    blocks = [(group, rows) for group, rows in own_groups if isinstance(group, Gaussians)]
    constant = np.zeros(shape)
    for group, rows in blocks:
        at = np.searchsorted(part.real, group.scopes[rows])
        k = at.shape[1]
        own, shift = np.zeros((d, d)), np.zeros(d)
        np.add.at(
            own, (np.repeat(at, k, axis=1), np.tile(at, (1, k))), group.precision[rows].reshape(len(rows), -1)
        )
        np.add.at(shift, at, group.shift[rows])
        J, h, constant = J + own, h + shift, constant + group.constant[rows].sum()
    root = _root(graph, part, J)
    mode = np.linalg.solve(J, h[..., None])[..., 0] if d else h
    value = constant + _at_mode(mode, pieces, blocks, part)
    free = np.flatnonzero(~maximised[part.real])
    inner = root if len(free) == d else _root(graph, part, J[..., free[:, None], free])
    log_det = 2 * np.log(np.diagonal(inner, axis1=-2, axis2=-1)).sum(axis=-1)
    return Integral(part, mode, root, value + 0.5 * (len(free) * _LOG_2PI - log_det))


def _pieces(graph: FactorGraph, part: GaussianPart) -> Iterator[tuple[np.ndarray, ...]]:
    """Per residual its places in x, and w, b, v, c with an axis per discrete variable of the part."""
    for g, rows in part.members:
        group = graph.others[g]
        if isinstance(group, LinearGaussians):
            k = group.weights.shape[-1]
            arrays = (group.weights, group.offset, group.variance, group.constant)
            for row in rows.tolist():
                axes = np.searchsorted(part.discrete, group.scopes[row, k:])
                w, b, v, c = (_spread(a[row], axes, len(part.discrete)) for a in arrays)
                yield np.searchsorted(part.real, group.scopes[row, :k]), w, b, v, c


def _spread(array: np.ndarray, axes: np.ndarray, count: int) -> np.ndarray:
    """An array over some discrete variables, with an axis of length one for each of the others."""
    more = array.ndim - len(axes)
    turned = array.transpose(*np.argsort(axes), *range(len(axes), array.ndim))
    shape = np.ones(count, dtype=np.int64)
    shape[np.sort(axes)] = turned.shape[: len(axes)]
    return turned.reshape((*shape, *turned.shape[len(turned.shape) - more :]))


def _at_mode(
    mode: np.ndarray,
    pieces: list[tuple[np.ndarray, ...]],
    blocks: list[tuple[Gaussians, np.ndarray]],
    part: GaussianPart,
) -> np.ndarray:
    """The sum of the factors at the mode, without the constants of Gaussian blocks."""
    total = np.zeros(mode.shape[:-1])
    for at, w, b, v, c in pieces:
        total = total + c - 0.5 * ((w * mode[..., at]).sum(axis=-1) - b) ** 2 / v
    for group, rows in blocks:
        x = mode[..., np.searchsorted(part.real, group.scopes[rows])]
        total = total + (group.shift[rows] * x).sum(axis=(-2, -1))
        total = total - 0.5 * np.einsum("...ai,aij,...aj->...", x, group.precision[rows], x)
    return total


def _root(graph: FactorGraph, part: GaussianPart, J: np.ndarray) -> np.ndarray:
    """The Cholesky factors; an error names a state in which there is no integral."""
    try:
        root = np.linalg.cholesky(J)
        pivots = np.diagonal(root, axis1=-2, axis2=-1) ** 2
        bad = (pivots <= _DIGITS * np.diagonal(J, axis1=-2, axis2=-1)).any(axis=-1)
    except np.linalg.LinAlgError:
        scale = np.sqrt(np.maximum(np.diagonal(J, axis1=-2, axis2=-1), np.finfo(float).tiny))
        scaled = J / (scale[..., :, None] * scale[..., None, :])
        bad = np.linalg.eigvalsh(scaled).min(axis=-1) <= _DIGITS
    if not bad.any():
        return root
    variables, at = graph.variables, np.argwhere(bad)[0]
    states = {
        variables.names[i]: variables[int(i)].label(int(s)) for i, s in zip(part.discrete, at, strict=True)
    }
    names = [variables.names[i] for i in part.real[:3]]
    given = f" given {states}" if states else ""
    raise no_integral(f"it does not fall off in some direction of {names}{given}")


def _open_state(graph: FactorGraph, summed: np.ndarray) -> str | None:
    """A summed discrete variable of a part whose real variables are maximised; None if there is none."""
    label = _labels(graph)
    owner, around = _neighbours(graph, label)
    is_maximised = np.zeros(len(label), dtype=bool)
    is_maximised[label[~summed & (graph.variables.sizes == 0)]] = True
    found = around[is_maximised[owner] & summed[around]]
    return graph.variables.names[int(found[0])] if len(found) else None


@register
@dataclass(frozen=True, kw_only=True)
class ConditionalGaussian(Algorithm):
    """Models that are Gaussian given states: log Z, mixtures as marginals, maxima, samples, all exact.

    Examples
    --------
    >>> import credo
    >>> x, s = credo.Variable("x", credo.Real()), credo.Variable("s", ["off", "on"])
    >>> sensor = credo.potentials.emission(x, s, [0.0, 5.0], 1.0)
    >>> net = credo.HybridNet([x, s], [sensor, credo.TableFactor([s], [0.8, 0.2])])
    >>> credo.infer(net, "conditional-gaussian").marginals["x"].mean.__round__(6)
    1.0
    """

    name: ClassVar[str] = "conditional-gaussian"
    promises: ClassVar[frozenset[str]] = frozenset({"exact"})

    def why_not(self, problem: Problem) -> str | None:
        """Real variables are maximised only with the states they depend on; the forecast is small."""
        graph, summed = problem.graph, problem.temperatures != 0
        if problem.graph.is_tables:
            return None
        is_real = graph.variables.sizes == 0
        if is_real[list(problem.query)].any():
            return "joint tables are of discrete variables; marginals of real ones are densities, by infer"
        if ((problem.temperatures != 1) & summed & is_real).any():
            return "it integrates or maximises real variables; they have no other temperatures"
        if not summed[is_real].all() and (name := _open_state(graph, summed)) is not None:
            return f"real variables are maximised, and '{name}', which they depend on, is summed; use bethe"
        cost = forecast(graph)
        if not cost.is_small:
            return f"integrating real variables state by state would take {cost}; use bethe or gibbs"
        return None

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Put tables in the place of the real variables, ask the junction tree, and come back."""
        graph = problem.graph
        if not (cost := forecast(graph)).is_small:
            raise TooLargeError(f"conditional-gaussian: it would take {cost}; use bethe or gibbs")
        integrals = [integrate(graph, part, problem.temperatures == 0) for part in parts_of(graph)]
        first = 1 + max((int(numbers.max(initial=-1)) for numbers in graph.all_numbers), default=-1)
        blocks = [
            TableBlock(np.array([first + k]), found.part.discrete[None], found.log_table[None])
            for k, found in enumerate(integrals)
        ]
        keep = np.flatnonzero(graph.variables.sizes)
        tables = graph.with_parts(graph.variables, blocks).compact(keep)
        posed = replace(
            problem,
            graph=tables,
            temperatures=problem.temperatures[keep],
            levels=problem.levels[keep],
            query=tuple(int(i) for i in np.searchsorted(keep, problem.query)),
        )
        found = JunctionTreePropagation().run(posed, budget, rng)
        return _read(self.name, problem, found, integrals, rng)


def _read(
    name: str, problem: Problem, found: Result, integrals: list[Integral], rng: np.random.Generator
) -> Result:
    variables = problem.graph.variables
    keep = np.flatnonzero(variables.sizes)
    result = replace(found, algorithm=name, status=Status.EXACT, factor_marginals=None, state=None)
    if found.marginals is not None and found.factor_marginals is not None:
        densities = _densities(problem, found.factor_marginals, integrals)
        result = replace(result, marginals=Marginals(variables, np.array(found.marginals.flat), densities))
    if found.assignment is not None or not problem.is_sum:
        result = _assign(result, problem, keep, integrals)
    if found.samples is not None:
        indices = np.full((len(found.samples), len(variables)), -1, dtype=np.int64)
        indices[:, keep] = found.samples.indices
        values = _draw(indices, variables.names, integrals, rng)
        result = replace(result, samples=Samples(variables, indices, values))
    return result


def _densities(problem: Problem, beliefs: FactorMarginals, integrals: list[Integral]) -> dict[str, Density]:
    """The mixtures of all real variables; the tables of the parts are the last factors."""
    made: dict[str, Density] = {}
    for k, found in enumerate(integrals):
        weight = beliefs[len(beliefs) - len(integrals) + k].ravel()
        possible = np.flatnonzero(weight > 0)
        d = len(found.part.real)
        mode, root = found.mode.reshape(-1, d)[possible], found.root.reshape(-1, d, d)[possible]
        inverse = np.linalg.inv(root)
        sd = np.sqrt((inverse**2).sum(axis=-2))
        share = weight[possible] / weight[possible].sum()
        for i, position in enumerate(found.part.real.tolist()):
            made[problem.graph.variables.names[position]] = MixtureDensity(share, mode[:, i], sd[:, i])
        for name, at in problem.vectors.items():
            if at[0] in found.part.real:  # a factor of a vector joins all its coordinates
                rows = np.searchsorted(found.part.real, at)
                root_of = inverse[:, :, rows]  # J^-1 = L'^-1 L^-1
                made[name] = VectorMixtureDensity(share, mode[:, rows], np.swapaxes(root_of, 1, 2) @ root_of)
    return made


def _assign(result: Result, problem: Problem, keep: np.ndarray, integrals: list[Integral]) -> Result:
    """The best states with the best numbers given them."""
    variables = problem.graph.variables
    indices = np.full(len(variables), -1, dtype=np.int64)
    if result.assignment is not None:
        indices[keep] = result.assignment.indices
    values = {}
    for found in integrals:
        chosen = found.part.real[problem.temperatures[found.part.real] == 0]
        at = found.mode[tuple(indices[found.part.discrete])] if len(chosen) else None
        for i in chosen.tolist():
            assert at is not None
            values[variables.names[i]] = float(at[np.searchsorted(found.part.real, i)])
    score = result.score if result.score is not None else result.log_z
    return replace(result, assignment=Assignment(variables, indices, values), score=score, marginals=None)


def _draw(
    indices: np.ndarray, names: object, integrals: list[Integral], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Numbers given states: m_s + L'^-1 z with standard normal z."""
    values: dict[str, np.ndarray] = {}
    for found in integrals:
        d = len(found.part.real)
        at = tuple(indices[:, i] for i in found.part.discrete)
        noise = rng.standard_normal((len(indices), d, 1))
        spread = np.linalg.solve(np.swapaxes(found.root[at], -2, -1), noise)[..., 0] if at else None
        if spread is None:
            spread = np.linalg.solve(found.root.T, noise[..., 0].T).T
        drawn = found.mode[at] + spread if at else found.mode + spread
        for k, i in enumerate(found.part.real.tolist()):
            values[names[i]] = drawn[:, k]  # type: ignore[index]
    return values
