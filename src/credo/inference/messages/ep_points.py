r"""Tilted distributions of factors that are any functions, by sums over points.

The proposals of the points, one per factor and joint state of its discrete variables, follow the moments that
were found, so that what is Gaussian (or Dirichlet) given the states is integrated without error. Where
Gauss-Hermite rules of two sizes disagree (kinks, edges of a support, several modes, ridges), and wherever a
proposal is new, functions of one or two real numbers are integrated adaptively (`cubature.py`).

A cavity may be improper as long as the factor confines its variables: mass that reaches the end of the range
integrated tells that it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.factor_graph import FactorGraph
from ...core.groups import FactorBatch
from ...families.natural import (
    dirichlet_expected_log,
    dirichlet_log_norm,
    match_dirichlet,
    normalised,
)
from ...optimise.run import check
from .cubature import integrate
from .ep_tilted import Cavity, Proposal, Tilt, Tilted
from .moments import (
    gauss_hermite,
    group_log_values,
    point_moments,
    relative_logs,
    simplex_points,
    whitened_form,
    whitened_step,
)

__all__ = ["PointsTilt"]

_ROUNDS = 24  # most sums before the moves of a first proposal are given up
_MORE_ROUNDS = 4  # the same for one that was used before
_AT_ONCE = 1 << 21  # points evaluated together
_FLAT = 1e-2  # a cavity precision above minus this share of the belief's is flat, up to errors of sums
_UNSETTLED = 2.0  # a proposal that is still to move this far, in its own units, shows nothing yet
_IN_SIGHT = 4.0  # the same, for adaptive integrals, which see farther
_LOST = 8.0  # standard deviations between a proposal and the belief at which it begins again
_LEAST = 0.5  # concentration of a first proposal
_CLOSE = 1e-4  # relative change of concentrations below which a Dirichlet proposal is kept
_AGREE = 1e-8  # difference of two rules that is none
_NO_TAIL = 1e-6  # share of second moments at the ends of an improper tilted distribution


@dataclass(frozen=True, eq=False)
class PointsTilt(Tilt):
    """Any functions, by sums over points."""

    graph: FactorGraph  # whose factors these are
    group: FactorBatch  # the factors
    kinds: str  # per axis of the scope: r(eal), d(iscrete) or s(implex)
    states: np.ndarray  # (joint states, discrete axes) indices
    nodes: int  # Gauss-Hermite points per real variable
    points: int  # points on a simplex

    def __call__(self, rows: np.ndarray, cavity: Cavity, power: np.ndarray, proposal: Proposal) -> Tilted:
        """Sum over points; proposals that do not fit are moved, and those factors summed again."""
        improper = cavity.least < -_FLAT
        possible: Any = np.asarray(cavity.natural > -1).all(axis=1) & (self.adapts | ~improper)
        cavity = cavity._replace(
            precision=np.where(possible[:, None, None], cavity.precision, np.eye(cavity.precision.shape[1])),
            natural=np.where(possible[:, None], cavity.natural, 0.0),
        )
        size = max(1, _AT_ONCE // self._count(cavity))
        parts = []
        for k in range(0, len(rows), size):
            check()
            at = slice(k, k + size)
            parts.append(self._settled(rows[at], cavity.at(at), power[at], improper[at], proposal))
        found = Tilted(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        return found._replace(exists=found.exists & possible)

    @property
    def adapts(self) -> bool:
        """Whether integrals can be found to high accuracy where points of a proposal are not enough."""
        return self.kinds.count("r") in (1, 2) and "s" not in self.kinds

    @property
    def _finer(self) -> int:
        """Points per real variable of the rule that is compared with that of `nodes`."""
        return self.nodes + self.nodes // 2 if self.adapts else self.nodes

    def _count(self, cavity: Cavity) -> int:
        inner = len(gauss_hermite(self._finer, self.kinds.count("r"))[0]) * len(self.states)
        return inner * (self.points if cavity.natural.shape[1] else 1)

    def _settled(
        self, rows: np.ndarray, cavity: Cavity, power: np.ndarray, improper: np.ndarray, proposal: Proposal
    ) -> Tilted:
        """Sum again until the proposals fit; a factor whose proposal is still far off then is given up."""
        fresh = self._begin(rows, cavity, proposal)
        found: Tilted | None = None
        left, gap = np.arange(len(rows)), np.zeros(len(rows))
        for _ in range(_ROUNDS if fresh.any() else _MORE_ROUNDS):
            part, own = cavity.at(left), proposal.at(rows[left])
            new = self._sum(rows[left], part, power[left], own, self._finer)
            rough = self._is_rough(rows[left], part, power[left], own, new) | fresh[left] | improper[left]
            if self.adapts and rough.any():
                self._integrate(
                    rows[left], part, power[left], own, np.flatnonzero(rough), improper[left], new
                )
            if found is None:
                found = new
            else:
                for old, now in zip(found, new, strict=True):
                    old[left] = now
            gap = self._move(rows[left], new, proposal)
            if self.adapts:
                gap = np.where(rough & (gap <= _IN_SIGHT) | ~new.exists, 0.0, gap)
            left, gap = left[gap > 0], gap[gap > 0]
            if not len(left):
                break
        assert found is not None
        found.exists[left[gap > _UNSETTLED]] = False
        return found

    def _is_rough(
        self, rows: np.ndarray, cavity: Cavity, power: np.ndarray, proposal: Proposal, fine: Tilted
    ) -> np.ndarray:
        """Where a rule with fewer points disagrees."""
        if not self.adapts:
            return np.zeros(len(rows), dtype=bool)
        coarse = self._sum(rows, cavity, power, proposal, self.nodes)
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = np.einsum("rcii->rci", fine.covariance)
            parts = [
                np.abs(fine.log_weight - coarse.log_weight)[..., None],
                np.abs(fine.mean - coarse.mean) / np.sqrt(variance),
                np.abs(np.einsum("rcii->rci", coarse.covariance) / variance - 1),
            ]
            # Where a state is impossible by both rules there is nothing to compare, and NaN is not close.
            close = np.all(np.concatenate(parts, axis=2) < _AGREE, axis=2)
        return np.asarray(~np.all(close, axis=1))

    def _integrate(
        self,
        rows: np.ndarray,
        cavity: Cavity,
        power: np.ndarray,
        proposal: Proposal,
        rough: np.ndarray,
        improper: np.ndarray,
        found: Tilted,
    ) -> None:
        """Adaptive integrals of some of the factors, in place of sums over points."""
        at = proposal.at(rough)
        form = whitened_form(at.mean, at.root, cavity.precision[rough], cavity.shift[rough])
        states, d = len(self.states), at.mean.shape[2]

        def log_integrand(owner: np.ndarray, z: np.ndarray) -> np.ndarray:
            row, state = owner // states, owner % states
            start, linear, bent = (part[row, state] for part in form)
            x = at.mean[row, state][:, :, None] + at.root[row, state] @ np.swapaxes(z, 1, 2)
            logs = start[:, None] + np.einsum("kpi,ki->kp", z, linear)
            logs = logs + np.einsum("kpi,kij,kpj->kp", z, bent, z)
            return logs + power[rough][row][:, None] * self.values(rows[rough], row, state, x)

        new = integrate(log_integrand, len(rough) * states, d)
        shape = (len(rough), states)
        found.log_weight[rough] = new.logs.reshape(shape)
        found.mean[rough] = at.mean + np.einsum("rcij,rcj->rci", at.root, new.mean.reshape(*shape, d))
        inner = new.covariance.reshape(*shape, d, d)
        found.covariance[rough] = at.root @ inner @ np.swapaxes(at.root, -1, -2)
        # Without a confining cavity only the factor can make the mass end somewhere, and near by: where it
        # hardly does, moments far out mean nothing.
        ends = (new.tail.reshape(shape) < _NO_TAIL).all(axis=1) & _is_near(found, cavity, rough)
        ends |= ~improper[rough]
        found.exists[rough] = ends & _is_finite(found.log_weight[rough], found.covariance[rough])

    def values(self, rows: np.ndarray, row: np.ndarray, state: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Log-potentials at points x (cells, reals, points) of cells of some rows, which rise."""
        found = np.empty((len(row), x.shape[2]))
        ends = np.searchsorted(row, np.arange(len(rows) + 1))
        for k, a in enumerate(self.group.factors[rows]):
            cells = slice(ends[k], ends[k + 1])
            if ends[k] < ends[k + 1]:
                columns = self.columns(x[None, cells], np.zeros(0), self.states[state[cells]])
                found[cells] = self.graph.factors[int(a)].log_values(*(c[0] for c in columns))
        return found

    def _begin(self, rows: np.ndarray, cavity: Cavity, proposal: Proposal) -> np.ndarray:
        """Put proposals that were never used, or are far from the beliefs, to these; which."""
        old = proposal.at(rows)
        sd = np.sqrt(
            np.maximum(np.einsum("rcij,rcij->rci", old.root, old.root), 1 / cavity.scale[:, None, :])
        )
        away = np.abs(old.mean - cavity.centre[:, None, :]) / sd
        lost = ~(away.max(axis=2, initial=0.0).min(axis=1) <= _LOST)
        lost = np.asarray(lost | np.isnan(old.concentration).any(axis=(1, 2)))
        root = (cavity.scale**-0.5)[:, None, :, None] * np.eye(cavity.scale.shape[1])
        concentration = np.maximum(cavity.natural + 1, _LEAST)[:, None, :]
        fresh = cavity.centre[:, None, :], root, concentration
        for part, new in zip(proposal, fresh, strict=True):
            part[rows[lost]] = new[lost]
        return lost

    def _move(self, rows: np.ndarray, found: Tilted, proposal: Proposal) -> np.ndarray:
        """Move the proposals of some factors to the moments found; how far, 0 for those that stay."""
        old = proposal.at(rows)
        mean, root, gap = whitened_step(found.mean, found.covariance, old.mean, old.root)
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
        self, rows: np.ndarray, cavity: Cavity, power: np.ndarray, proposal: Proposal, nodes: int
    ) -> Tilted:
        """Integrals and moments under given proposals."""
        z, log_rule = gauss_hermite(nodes, self.kinds.count("r"))
        x = proposal.mean[..., None] + np.matmul(proposal.root, z.T)  # (rows, states, reals, points)
        logs = log_rule + relative_logs(proposal.mean, proposal.root, cavity.precision, cavity.shift, z)
        log_theta = np.zeros((*logs.shape, 0))
        if cavity.natural.shape[1]:
            x, logs, log_theta = self.with_simplex(x, logs, cavity, proposal)
        values = group_log_values(self.graph, self.group, rows, self.columns(x, log_theta, self.states))
        logs = logs + power[:, None, None] * values
        share, log_weight = normalised(logs, axis=2)
        at_points = share.reshape(*share.shape[:2], len(z), -1).sum(axis=3)  # over the simplex
        mean, covariance = point_moments(at_points, proposal.mean, proposal.root, z)
        expected_log = self._expected_log(share, log_theta, proposal)
        return Tilted(log_weight, mean, covariance, expected_log, _is_finite(log_weight, covariance))

    def with_simplex(
        self, x: np.ndarray, logs: np.ndarray, cavity: Cavity, proposal: Proposal
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every point of the real variables with every point of the simplex."""
        log_theta = simplex_points(proposal.concentration, self.points)
        excess = cavity.natural[:, None, :] + 1 - proposal.concentration
        weight = np.einsum("rcsk,rck->rcs", log_theta, excess) - np.log(self.points)
        weight = weight + dirichlet_log_norm(proposal.concentration)[:, :, None]
        rows, states, count = logs.shape
        logs = (logs[..., None] + weight[:, :, None, :]).reshape(rows, states, -1)
        log_theta = np.tile(log_theta, (1, 1, count, 1))
        return np.repeat(x, self.points, axis=3), logs, log_theta

    def _expected_log(self, share: np.ndarray, log_theta: np.ndarray, proposal: Proposal) -> np.ndarray:
        """E[log theta]: that of the proposal, which is known, and what the weights add to it."""
        if not log_theta.shape[3]:
            return log_theta[:, :, 0, :]
        known = dirichlet_expected_log(proposal.concentration)
        return known + np.einsum("rcp,rcpk->rck", share, log_theta) - log_theta.mean(axis=2)

    def columns(self, x: np.ndarray, log_theta: np.ndarray, states: np.ndarray) -> list[np.ndarray]:
        """One array per variable of the scope, (rows, states, points)."""
        columns, real, discrete = [], 0, 0
        rows = len(x)
        for kind in self.kinds:
            if kind == "r":
                columns.append(x[:, :, real])
                real += 1
            elif kind == "d":
                index = states[:, discrete][:, None]
                columns.append(np.broadcast_to(index, (rows, *index.shape)))
                discrete += 1
            else:
                columns.append(np.exp(log_theta))
        return columns


def _is_near(found: Tilted, cavity: Cavity, rows: np.ndarray) -> np.ndarray:
    """Whether the moments of some rows are not far from those of the beliefs, in units of these."""
    scale = cavity.scale[rows][:, None]
    away = np.abs(found.mean[rows] - cavity.centre[rows][:, None]) * np.sqrt(scale)
    width = np.einsum("rcii->rci", found.covariance[rows]) * scale
    return np.asarray(((away < _LOST) & (width < _LOST**2)).all(axis=(1, 2)))


def _is_finite(log_weight: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Per factor, whether its integrals and moments are numbers."""
    return np.asarray((log_weight < np.inf).all(axis=1) & np.isfinite(covariance).all(axis=(1, 2, 3)))
