r"""Tilted distributions of expectation propagation: a factor times what all others say about its variables.

For every joint state c of the discrete variables of a factor, with cavities exp(shift x - precision x^2 / 2)
of its real variables and prod theta^natural of a simplex variable,

    log_weight(c) = log int f(c, x, theta)^power cavity(x) cavity(theta),

and the moments of that integrand. Tables need no integral, Gaussian factors have a closed form, all others
are summed over points. The proposals of these points, one per factor and c, follow the moments that were
found, so that what is Gaussian (or Dirichlet) given c is integrated without error.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.hybrid_graph import FactorGroup, HybridGraph
from .moments import (
    LOG_2PI,
    dirichlet_log_norm,
    gauss_hermite,
    group_log_values,
    match_dirichlet,
    normalised,
    relative_logs,
    simplex_points,
    weighted_moments,
    whitened_step,
)

__all__ = ["Cavity", "GaussianTilt", "PointsTilt", "Proposal", "TableTilt", "Tilt", "Tilted"]

_ROUNDS = 24  # most sums before the moves of a first proposal are given up
_MORE_ROUNDS = 4  # the same for one that was used before
_AT_ONCE = 1 << 21  # points evaluated together
_FLAT = 1e-2  # a cavity precision above minus this share of the belief's is flat, up to errors of sums
_SINGULAR = 1e-12  # a smaller eigenvalue, with beliefs scaled to precision one, is zero
_UNSETTLED = 2.0  # a proposal that is still to move this far, in its own units, shows nothing yet
_LOST = 8.0  # standard deviations between a proposal and the belief at which it begins again
_LEAST = 0.5  # concentration of a first proposal
_CLOSE = 1e-4  # relative change of concentrations below which a Dirichlet proposal is kept


class Cavity(NamedTuple):
    """What the other factors say about the continuous variables of some factors, one row per factor."""

    precision: np.ndarray  # (rows, reals)
    shift: np.ndarray  # (rows, reals)
    scale: np.ndarray  # (rows, reals) precisions of the beliefs, which tell what is small
    centre: np.ndarray  # (rows, reals) means of the beliefs
    natural: np.ndarray  # (rows, width) concentrations - 1 of the simplex variable; width 0 without one


class Tilted(NamedTuple):
    """Log integrals and moments, one row per factor, one column per joint state of its discrete variables."""

    log_weight: np.ndarray  # (rows, states)
    mean: np.ndarray  # (rows, states, reals)
    variance: np.ndarray  # (rows, states, reals)
    expected_log: np.ndarray  # (rows, states, width)
    exists: np.ndarray  # (rows,) whether the integral does


class Proposal(NamedTuple):
    """Where the points of each factor are, one proposal per joint state of its discrete variables."""

    mean: np.ndarray  # (rows, states, reals)
    root: np.ndarray  # (rows, states, reals, reals) of the covariance
    concentration: np.ndarray  # (rows, states, width)

    def at(self, rows: np.ndarray) -> Proposal:
        """Those of some factors."""
        return Proposal(*(part[rows] for part in self))

    @classmethod
    def unknown(cls, rows: int, states: int, reals: int, width: int) -> Proposal:
        """NaN: the first use of each begins at what is believed then."""
        shapes = (reals,), (reals, reals), (width,)
        return cls(*(np.full((rows, states, *shape), np.nan) for shape in shapes))

    def put(self, rows: np.ndarray, new: Proposal) -> None:
        """Replace those of some factors, in place."""
        for part, given in zip(self, new, strict=True):
            part[rows] = given


class Tilt(abc.ABC):
    """How the tilted distributions of a group of factors are found."""

    @abc.abstractmethod
    def __call__(self, rows: np.ndarray, cavity: Cavity, power: float, proposal: Proposal) -> Tilted:
        """Integrals and moments of some factors; their proposals may move, in place."""


def _plain(log_weight: np.ndarray, exists: np.ndarray) -> Tilted:
    none = np.zeros((*log_weight.shape, 0))
    return Tilted(log_weight, none, none, none, exists)


@dataclass(frozen=True, eq=False)
class TableTilt(Tilt):
    """Tables: nothing to integrate."""

    tables: np.ndarray  # (count, states) log tables

    def __call__(self, rows: np.ndarray, cavity: Cavity, power: float, proposal: Proposal) -> Tilted:
        """The tables themselves."""
        return _plain(power * self.tables[rows], np.ones(len(rows), dtype=bool))


@dataclass(frozen=True, eq=False)
class GaussianTilt(Tilt):
    """Gaussian factors, their diagonals and shifts given to the variables: exp(-x'Kx / 2)."""

    couplings: np.ndarray  # (count, k, k) with zero diagonals

    def __call__(self, rows: np.ndarray, cavity: Cavity, power: float, proposal: Proposal) -> Tilted:
        """The marginals of a Gaussian of precision power K + diag(cavity)."""
        k = self.couplings.shape[1]
        joint = power * self.couplings[rows] + cavity.precision[:, :, None] * np.eye(k)
        unit = 1 / np.sqrt(cavity.scale)
        exists = np.linalg.eigvalsh(joint * unit[:, :, None] * unit[:, None, :])[:, 0] > _SINGULAR
        joint = np.where(exists[:, None, None], joint, np.eye(k))
        covariance = np.linalg.inv(joint)
        mean = np.einsum("rij,rj->ri", covariance, cavity.shift)
        log_det = np.linalg.slogdet(joint)[1]
        logs = 0.5 * ((cavity.shift * mean).sum(axis=1) + k * LOG_2PI - log_det)
        variance = np.einsum("rii->ri", covariance)
        none = np.zeros((len(rows), 1, 0))
        return Tilted(logs[:, None], mean[:, None, :], variance[:, None, :], none, exists)


@dataclass(frozen=True, eq=False)
class PointsTilt(Tilt):
    """Any functions, by sums over points."""

    graph: HybridGraph  # whose factors these are
    group: FactorGroup  # the factors
    kinds: str  # per axis of the scope: r(eal), d(iscrete) or s(implex)
    states: np.ndarray  # (joint states, discrete axes) indices
    nodes: int  # Gauss-Hermite points per real variable
    points: int  # points on a simplex

    def __call__(self, rows: np.ndarray, cavity: Cavity, power: float, proposal: Proposal) -> Tilted:
        """Sum over points; proposals that do not fit are moved, and those factors summed again."""
        small = np.asarray(cavity.precision < -_FLAT * cavity.scale).any(axis=1)
        proper: Any = ~small & np.asarray(cavity.natural > -1).all(axis=1)
        cavity = cavity._replace(
            precision=np.where(proper[:, None], cavity.precision, 1.0),
            natural=np.where(proper[:, None], cavity.natural, 0.0),
        )
        size = max(1, _AT_ONCE // self._count(cavity))
        parts = [
            self._settled(rows[k : k + size], Cavity(*(c[k : k + size] for c in cavity)), power, proposal)
            for k in range(0, len(rows), size)
        ]
        found = Tilted(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        return found._replace(exists=found.exists & proper)

    def _count(self, cavity: Cavity) -> int:
        inner = len(gauss_hermite(self.nodes, self.kinds.count("r"))[0]) * len(self.states)
        return inner * (self.points if cavity.natural.shape[1] else 1)

    def _settled(self, rows: np.ndarray, cavity: Cavity, power: float, proposal: Proposal) -> Tilted:
        """Sum again until the proposals fit; a factor whose proposal is still far off then is given up."""
        rounds = _ROUNDS if self._begin(rows, cavity, proposal) else _MORE_ROUNDS
        found: Tilted | None = None
        left, gap = np.arange(len(rows)), np.zeros(len(rows))
        for _ in range(rounds):
            part = Cavity(*(c[left] for c in cavity))
            new, covariance = self._sum(rows[left], part, power, proposal.at(rows[left]))
            if found is None:
                found = new
            else:
                for old, fresh in zip(found, new, strict=True):
                    old[left] = fresh
            gap = self._move(rows[left], new, covariance, proposal)
            left, gap = left[gap > 0], gap[gap > 0]
            if not len(left):
                break
        assert found is not None
        found.exists[left[gap > _UNSETTLED]] = False
        return found

    def _begin(self, rows: np.ndarray, cavity: Cavity, proposal: Proposal) -> bool:
        """Put proposals that were never used, or are far from the beliefs, to these; whether any."""
        old = proposal.at(rows)
        sd = np.sqrt(
            np.maximum(np.einsum("rcij,rcij->rci", old.root, old.root), 1 / cavity.scale[:, None, :])
        )
        away = np.abs(old.mean - cavity.centre[:, None, :]) / sd
        lost = ~(away.max(axis=2, initial=0.0).min(axis=1) <= _LOST) | np.isnan(old.concentration).any(
            axis=(1, 2)
        )
        if not lost.any():
            return False
        root = (cavity.scale**-0.5)[:, None, :, None] * np.eye(cavity.scale.shape[1])
        concentration = np.maximum(cavity.natural + 1, _LEAST)[:, None, :]
        fresh = cavity.centre[:, None, :], root, concentration
        for part, new in zip(proposal, fresh, strict=True):
            part[rows[lost]] = new[lost]
        return True

    def _move(
        self, rows: np.ndarray, found: Tilted, covariance: np.ndarray, proposal: Proposal
    ) -> np.ndarray:
        """Move the proposals of some factors to the moments found; how far, 0 for those that stay."""
        old = proposal.at(rows)
        mean, root, gap = whitened_step(found.mean, covariance, old.mean, old.root)
        concentration = old.concentration
        if concentration.shape[2]:
            concentration = match_dirichlet(found.expected_log, concentration)
            change = np.abs(concentration / old.concentration - 1).max(axis=2)
            gap = np.maximum(gap, np.where((change > _CLOSE) & np.isfinite(change), change, 0.0))
        gap = np.where((found.log_weight > -np.inf) & np.isfinite(concentration).all(axis=2), gap, 0.0)
        where = gap[:, :, None] > 0
        proposal.put(
            rows,
            Proposal(
                np.where(where, mean, old.mean),
                np.where(where[..., None], root, old.root),
                np.where(where, concentration, old.concentration),
            ),
        )
        return gap.max(axis=1)

    def _sum(
        self, rows: np.ndarray, cavity: Cavity, power: float, proposal: Proposal
    ) -> tuple[Tilted, np.ndarray]:
        """Integrals and moments under given proposals, and full covariances of the real variables."""
        z, log_rule = gauss_hermite(self.nodes, self.kinds.count("r"))
        x = proposal.mean[..., None] + np.matmul(proposal.root, z.T)  # (rows, states, reals, points)
        logs = log_rule + relative_logs(proposal.mean, proposal.root, cavity.precision, cavity.shift, z)
        log_theta = np.zeros((*logs.shape, 0))
        if cavity.natural.shape[1]:
            x, logs, log_theta = self._with_simplex(x, logs, cavity, proposal)
        values = group_log_values(self.graph, self.group, rows, self._columns(x, log_theta))
        logs = logs + power * values
        share, log_weight = normalised(logs, axis=2)
        at_points = share.reshape(*share.shape[:2], len(z), -1).sum(axis=3)  # over the simplex
        mean, covariance = weighted_moments(at_points, proposal.mean, proposal.root, z)
        expected_log = self._expected_log(share, log_theta, proposal)
        variance = np.einsum("rcii->rci", covariance)
        exists = (log_weight < np.inf).all(axis=1) & np.isfinite(variance).all(axis=(1, 2))
        return Tilted(log_weight, mean, variance, expected_log, exists), covariance

    def _with_simplex(
        self, x: np.ndarray, logs: np.ndarray, cavity: Cavity, proposal: Proposal
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every point of the real variables with every point of the simplex."""
        log_theta = simplex_points(proposal.concentration, self.points)
        excess = cavity.natural[:, None, :] + 1 - proposal.concentration
        weight = np.einsum("rcsk,rck->rcs", log_theta, excess) - np.log(self.points)
        weight = weight + dirichlet_log_norm(proposal.concentration - 1)[:, :, None]
        rows, states, count = logs.shape
        logs = (logs[..., None] + weight[:, :, None, :]).reshape(rows, states, -1)
        log_theta = np.tile(log_theta, (1, 1, count, 1))
        return np.repeat(x, self.points, axis=3), logs, log_theta

    def _expected_log(self, share: np.ndarray, log_theta: np.ndarray, proposal: Proposal) -> np.ndarray:
        """E[log theta]: that of the proposal, which is known, and what the weights add to it."""
        if not log_theta.shape[3]:
            return log_theta[:, :, 0, :]
        from scipy.special import psi

        alpha = proposal.concentration
        known = psi(alpha) - psi(alpha.sum(axis=2, keepdims=True))
        return known + np.einsum("rcp,rcpk->rck", share, log_theta) - log_theta.mean(axis=2)

    def _columns(self, x: np.ndarray, log_theta: np.ndarray) -> list[np.ndarray]:
        columns, real, discrete = [], 0, 0
        rows = len(x)
        for kind in self.kinds:
            if kind == "r":
                columns.append(x[:, :, real])
                real += 1
            elif kind == "d":
                index = self.states[:, discrete][:, None]
                columns.append(np.broadcast_to(index, (rows, *index.shape)))
                discrete += 1
            else:
                columns.append(np.exp(log_theta))
        return columns
