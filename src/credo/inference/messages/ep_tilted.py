r"""Tilted distributions of expectation propagation: a factor times what all others say about its variables.

For every joint state c of the discrete variables of a factor, with a cavity exp(shift x - x' precision x / 2)
of its real variables and prod theta^natural of a simplex variable,

    log_weight(c) = log int f(c, x, theta)^power cavity(x) cavity(theta),

and the moments of that integrand. Tables need no integral, Gaussian factors have a closed form, all others
are summed over points (`ep_points.py`).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...core.records import record
from ...families.natural import gaussian_log_norm, gaussian_moments

__all__ = ["Cavity", "GaussianTilt", "Proposal", "TableTilt", "Tilt", "Tilted"]

_SINGULAR = 1e-12  # a smaller eigenvalue, with beliefs scaled to precision one, is zero


class Cavity(NamedTuple):
    """What the other factors say about the continuous variables of some factors, one row per factor."""

    precision: np.ndarray  # (rows, reals, reals)
    shift: np.ndarray  # (rows, reals)
    scale: np.ndarray  # (rows, reals) precisions of the beliefs, which tell what is small
    centre: np.ndarray  # (rows, reals) means of the beliefs
    natural: np.ndarray  # (rows, width) concentrations - 1 of the simplex variable; width 0 without one

    def at(self, rows: np.ndarray | slice) -> Cavity:
        """Those of some factors."""
        return Cavity(*(part[rows] for part in self))

    @property
    def least(self) -> np.ndarray:
        """The least eigenvalue of each precision, with beliefs scaled to precision one; at most 1."""
        unit = 1 / np.sqrt(self.scale)
        values = np.linalg.eigvalsh(self.precision * unit[:, :, None] * unit[:, None, :])
        return np.asarray(values.min(axis=1, initial=1.0))


class Tilted(NamedTuple):
    """Log integrals and moments, one row per factor, one column per joint state of its discrete variables."""

    log_weight: np.ndarray  # (rows, states)
    mean: np.ndarray  # (rows, states, reals)
    covariance: np.ndarray  # (rows, states, reals, reals)
    expected_log: np.ndarray  # (rows, states, width)
    exists: np.ndarray  # (rows,) whether the integral does


@record("ep proposal")
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
    def __call__(self, rows: np.ndarray, cavity: Cavity, power: np.ndarray, proposal: Proposal) -> Tilted:
        """Integrals and moments of some factors to their powers; their proposals may move, in place."""


@dataclass(frozen=True, eq=False)
class TableTilt(Tilt):
    """Tables: nothing to integrate."""

    tables: np.ndarray  # (count, states) log tables

    def __call__(self, rows: np.ndarray, cavity: Cavity, power: np.ndarray, proposal: Proposal) -> Tilted:
        """The tables themselves."""
        logs = power[:, None] * self.tables[rows]
        none, exists = np.zeros((*logs.shape, 0)), np.ones(len(rows), dtype=bool)
        return Tilted(logs, none, none[..., None], none, exists)


@dataclass(frozen=True, eq=False)
class GaussianTilt(Tilt):
    """Gaussian factors, their diagonals and shifts given to the variables: exp(-x'Kx / 2)."""

    couplings: np.ndarray  # (count, k, k) with zero diagonals

    def __call__(self, rows: np.ndarray, cavity: Cavity, power: np.ndarray, proposal: Proposal) -> Tilted:
        """The Gaussian of precision K + cavity; the power is one: nothing about it is approximated."""
        k = self.couplings.shape[1]
        joint = self.couplings[rows] + cavity.precision
        unit = 1 / np.sqrt(cavity.scale)
        exists = np.linalg.eigvalsh(joint * unit[:, :, None] * unit[:, None, :])[:, 0] > _SINGULAR
        joint = np.where(exists[:, None, None], joint, np.eye(k))
        mean, covariance = gaussian_moments(joint, cavity.shift)
        logs = gaussian_log_norm(joint, cavity.shift, mean)
        none = np.zeros((len(rows), 1, 0))
        return Tilted(logs[:, None], mean[:, None, :], covariance[:, None], none, exists)
