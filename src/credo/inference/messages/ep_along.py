"""Tilted distributions of a factor along one of its real variables, all others integrated out.

Given that variable, the points of the others follow the proposal of the factor. One other is integrated
adaptively: along a ridge it is found nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...families.natural import log_sum
from .cubature import integrate
from .ep_points import PointsTilt
from .ep_tilted import Cavity, Proposal
from .moments import gauss_hermite, group_log_values

__all__ = ["TiltedLine"]


@dataclass(frozen=True, eq=False)
class TiltedLine:
    """One factor, with one of its real variables at given points."""

    tilt: PointsTilt  # of the group
    row: int  # of the factor in it
    axis: int  # of the variable among the real ones of the scope
    points: np.ndarray  # where the variable is
    cavity: Cavity  # one row
    power: float  # of the factor
    proposal: Proposal  # of the group

    def log_weights(self) -> np.ndarray:
        """Log integrals (states, points) over all other continuous variables."""
        volume = np.log(np.einsum("cii->ci", self._root)).sum(axis=1)[:, None]
        is_adaptive = self._mean.shape[1] == 2 and self.tilt.adapts
        logs = integrate(self._log_integrand, self._count, 1).logs if is_adaptive else self._sums()
        return np.asarray(volume + logs.reshape(len(self._mean), -1))

    @property
    def _count(self) -> int:
        return len(self._mean) * len(self.points)

    @cached_property
    def _mean(self) -> np.ndarray:
        return self.proposal.mean[self.row]

    @cached_property
    def _covariance(self) -> np.ndarray:
        root = self.proposal.root[self.row]
        return np.asarray(root @ np.swapaxes(root, 1, 2))

    @cached_property
    def _rest(self) -> np.ndarray:
        return np.delete(np.arange(self._mean.shape[1]), self.axis)

    @cached_property
    def _slope(self) -> np.ndarray:
        """How the means of the others move with the variable, (states, others)."""
        across = self._covariance[:, self._rest, self.axis]
        return np.asarray(across / self._covariance[:, self.axis, self.axis, None])

    @cached_property
    def _root(self) -> np.ndarray:
        """Of the covariance of the others given the variable, (states, others, others)."""
        own = self._covariance[:, self._rest[:, None], self._rest]
        return np.linalg.cholesky(
            own - self._slope[:, :, None] * self._covariance[:, None, self.axis, self._rest]
        )

    def _cells(self, owner: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (cells, reals, points) at z (cells, points, others), and the log of the cavity there."""
        state, u = owner // len(self.points), self.points[owner % len(self.points)]
        x = np.insert(self._root[state] @ np.swapaxes(z, 1, 2), self.axis, 0.0, axis=1)
        moved = self._slope[state] * (u - self._mean[state, self.axis])[:, None]
        x[:, self._rest] += (self._mean[state][:, self._rest] + moved)[..., None]
        x[:, self.axis] = u[:, None]
        precision, centre = self.cavity.precision[0], self.cavity.centre[0]
        away = x - centre[:, None]
        bent = np.einsum("nip,ij,njp->np", away, precision, away)
        return x, np.einsum("i,nip->np", self.cavity.shift[0] - precision @ centre, away) - 0.5 * bent

    def _log_integrand(self, owner: np.ndarray, z: np.ndarray) -> np.ndarray:
        x, logs = self._cells(owner, z)
        state = owner // len(self.points)
        values = self.tilt.values(np.array([self.row]), np.zeros_like(state), state, x)
        return np.asarray(logs + self.power * values)

    def _sums(self) -> np.ndarray:
        """By Gauss-Hermite points, and points on a simplex where there is one."""
        (states, k), tilt, row = self._mean.shape, self.tilt, np.array([self.row])
        z, log_rule = gauss_hermite(tilt.nodes, k - 1)
        x, logs = self._cells(np.arange(self._count), np.broadcast_to(z, (self._count, *z.shape)))
        logs = logs + log_rule + 0.5 * (z**2).sum(axis=1)
        x = np.moveaxis(x.reshape(states, -1, k, len(z)), 2, 1).reshape(1, states, k, -1)
        logs, log_theta = logs.reshape(1, states, -1), np.zeros((1, states, 0, 0))
        if self.cavity.natural.shape[1]:
            x, logs, log_theta = tilt.with_simplex(x, logs, self.cavity, self.proposal.at(row))
        columns = tilt.columns(x, log_theta, tilt.states)
        logs = logs + self.power * group_log_values(tilt.graph, tilt.group, row, columns)
        return log_sum(logs.reshape(states, len(self.points), -1))
