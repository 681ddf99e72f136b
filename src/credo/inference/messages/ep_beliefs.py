r"""What expectation propagation believes: the product of all sites and of what is exact.

With diagonal sites q is a product over variables. With block sites its real part is one Gaussian of precision
J = base + sum_a site_a, whose marginals over the scope of a factor take the place of products.

Weights of discrete states are kept as a finite sum of logarithms and a count of zeros, so that a site can be
divided out even where it is zero.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...families.natural import (
    dirichlet_log_norm,
    gaussian_log_norm,
    log_sum,
    normal_log_norm,
    normal_moments,
)
from .ep_sites import SiteGroup, SiteLayout, SiteParameters
from .ep_tilted import Cavity
from .moments import is_positive_definite

if TYPE_CHECKING:
    from .ep_updates import Update

__all__ = ["BlockBeliefs", "Scopes", "SiteBeliefs", "beliefs_of"]

_REPAIRS = 4  # times a sweep of all at once is taken back in part before it is given up
_HALVINGS = 20  # of a step that would leave a joint Gaussian without an integral


class Scopes(NamedTuple):
    """Marginals of the real variables of some factors, in natural parameters and moments."""

    precision: np.ndarray  # (rows, reals, reals)
    shift: np.ndarray  # (rows, reals)
    mean: np.ndarray  # (rows, reals)
    variance: np.ndarray  # (rows, reals)


def beliefs_of(layout: SiteLayout, sites: SiteParameters) -> SiteBeliefs:
    """The beliefs of a layout: a product, or a joint Gaussian with block sites."""
    return (SiteBeliefs if layout.coupling is None else BlockBeliefs)(layout, sites)


class SiteBeliefs:
    """Natural parameters of all variables; they follow their sites, in place."""

    def __init__(self, layout: SiteLayout, sites: SiteParameters) -> None:
        base, owner = layout.base, layout.owners
        own = owner.precision >= 0
        self.layout = layout
        self.precision = base.precision + _gathered(
            owner.precision[own], sites.precision[own], base.precision
        )
        self.shift = base.shift + _gathered(owner.shift, sites.shift, base.shift)
        self.natural = base.natural + _gathered(owner.natural, sites.natural, base.natural)
        self.finite = _finite(base.logs) + _gathered(owner.logs, _finite(sites.logs), base.logs)
        none = sites.logs == -np.inf
        self.zeros = (base.logs == -np.inf) + np.bincount(owner.logs[none], minlength=len(base.logs))

    @property
    def logs(self) -> np.ndarray:
        """Log weights of the states of discrete variables."""
        return np.where(self.zeros > 0, -np.inf, self.finite)

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the real variables."""
        return normal_moments(self.precision, self.shift)

    def covariance(self, places: np.ndarray) -> np.ndarray:
        """Of some real variables."""
        return np.diag(self.moments[1][places])

    def scopes(self, group: SiteGroup, rows: np.ndarray) -> Scopes:
        """The marginals over the real variables of some factors."""
        variable = group.real[0][rows]
        precision, shift = self.precision[variable], self.shift[variable]
        square = precision[:, :, None] * np.eye(variable.shape[1])
        return Scopes(square, shift, *normal_moments(precision, shift))

    def cavity(self, group: SiteGroup, rows: np.ndarray, sites: SiteParameters) -> Cavity:
        """What the others say about the continuous variables of some factors."""
        own, power = self.scopes(group, rows), group.power[rows]
        place, coordinate = group.simplex[0][rows], group.simplex[1][rows]
        return Cavity(
            own.precision - power[:, None, None] * sites.precision[group.square[rows]],
            own.shift - power[:, None] * sites.shift[group.real[1][rows]],
            1 / own.variance,
            own.mean,
            self.natural[place] - power[:, None] * sites.natural[coordinate],
        )

    def discrete_cavities(
        self, group: SiteGroup, rows: np.ndarray, sites: SiteParameters
    ) -> list[np.ndarray]:
        """What the others say about the discrete variables: log weights (rows, states) per axis."""
        found, power = [], group.power[rows][:, None]
        for places, own in group.discrete:
            logs = sites.logs[own[rows]]
            none = logs == -np.inf
            zeros = self.zeros[places[rows]] - (none & (power == 1))
            value = self.finite[places[rows]] - power * np.where(none, 0.0, logs)
            found.append(np.where(zeros > 0, -np.inf, value))
        return found

    def project(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Precisions (rows, k, k) of the members of the family with these moments."""
        variance = np.einsum("rii->ri", covariance)
        return np.asarray((1 / variance)[:, :, None] * np.eye(mean.shape[1]))

    def keeps_integral(self, own: Scopes, gap: np.ndarray) -> np.ndarray:
        """Per row, whether the belief has an integral after its precision changed by `gap`."""
        diagonal = np.einsum("rii->ri", own.precision + gap)
        return np.asarray((diagonal > 0).all(axis=1))

    def put(self, group: SiteGroup, rows: np.ndarray, sites: SiteParameters, new: Update) -> int:
        """Replace the sites of factors that share no variable, in place, and follow; how many were not."""
        variable, site = group.real[0][rows], group.real[1][rows]
        gap = new.precision - sites.precision[group.square[rows]]
        self.precision[variable] += np.einsum("rii->ri", gap)
        self.shift[variable] += new.shift - sites.shift[site]
        place, coordinate = group.simplex[0][rows], group.simplex[1][rows]
        self.natural[place] += new.natural - sites.natural[coordinate]
        for (places, own), logs in zip(group.discrete, new.logs, strict=True):
            old, at = sites.logs[own[rows]], places[rows]
            self.finite[at] += _finite(logs) - _finite(old)
            self.zeros[at] += (logs == -np.inf).astype(np.int64) - (old == -np.inf)
        new.write(group, rows, sites)
        return 0

    def real_log_norm(self) -> float:
        """Log of the integral of q over the real variables."""
        return float(normal_log_norm(self.precision, self.shift).sum())

    def scope_log_norms(self, group: SiteGroup) -> np.ndarray:
        """Log integrals (count,) of the marginals over the real variables of a group's factors."""
        return np.asarray(normal_log_norm(self.precision, self.shift)[group.real[0]].sum(axis=1))

    def other_log_norms(self) -> tuple[np.ndarray, np.ndarray]:
        """Log sums of discrete and integrals of simplex variables at their first places, zeros elsewhere."""
        layout, q = self.layout, self.logs
        logs, natural = np.zeros(len(q)), np.zeros(len(self.natural))
        for i in np.flatnonzero(layout.kinds != "r"):
            part = slice(layout.start[i], layout.start[i] + layout.width[i])
            if layout.kinds[i] == "d":
                logs[part.start] = log_sum(q[part])
            else:
                natural[part.start] = dirichlet_log_norm(1 + self.natural[part])
        return logs, natural

    @staticmethod
    def repair(layout: SiteLayout, sites: SiteParameters, before: SiteParameters) -> int:
        """Take back the new sites at variables whose beliefs have no integral, in place; how many."""
        taken = 0
        for _ in range(_REPAIRS):
            beliefs = SiteBeliefs(layout, sites)
            bad_real, bad_simplex = ~(beliefs.precision > 0), ~(beliefs.natural > -1)
            if not (bad_real.any() or bad_simplex.any()):
                return taken
            simplex = bad_simplex[layout.owners.natural]
            owner = layout.owners.precision
            square, shift = (owner >= 0) & bad_real[owner], bad_real[layout.owners.shift]
            sites.precision[square], sites.shift[shift] = before.precision[square], before.shift[shift]
            sites.natural[simplex] = before.natural[simplex]
            taken += int(shift.sum() + simplex.sum())
        for part, old in zip(sites, before, strict=True):
            part[:] = old
        return taken


class BlockBeliefs(SiteBeliefs):
    """Beliefs whose real part is one Gaussian of all real variables."""

    def __init__(self, layout: SiteLayout, sites: SiteParameters) -> None:
        super().__init__(layout, sites)
        assert layout.coupling is not None
        self.joint = layout.coupling + np.diag(layout.base.precision)
        for group in layout.groups:
            self._add(group, np.arange(len(group)), sites.precision[group.square])

    def _add(self, group: SiteGroup, rows: np.ndarray, matrices: np.ndarray) -> None:
        places = group.real[0][rows]
        np.add.at(self.joint, (places[:, :, None], places[:, None, :]), matrices)

    @cached_property
    def _covariance(self) -> np.ndarray:
        """The inverse of the joint precision; forgotten when that changes."""
        # Scaled to a unit diagonal: variables of very different scales make J look singular.
        unit = 1 / np.sqrt(np.diag(self.joint))
        inverse = np.linalg.inv(self.joint * unit[:, None] * unit)
        return np.asarray(0.5 * (inverse + inverse.T) * unit[:, None] * unit)

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the real variables."""
        return self._covariance @ self.shift, np.diag(self._covariance).copy()

    def covariance(self, places: np.ndarray) -> np.ndarray:
        """Of some real variables."""
        return self._covariance[np.ix_(places, places)]

    def scopes(self, group: SiteGroup, rows: np.ndarray) -> Scopes:
        """The marginals over the real variables of some factors."""
        at = group.real[0][rows]
        covariance = self._covariance[at[:, :, None], at[:, None, :]]
        mean, variance = self.moments[0][at], np.einsum("rii->ri", covariance)
        precision = np.linalg.inv(covariance)
        return Scopes(precision, np.einsum("rij,rj->ri", precision, mean), mean, variance)

    def project(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Precisions (rows, k, k) of the members of the family with these moments."""
        return np.linalg.inv(covariance)

    def keeps_integral(self, own: Scopes, gap: np.ndarray) -> np.ndarray:
        """Per row, whether the belief has an integral after its precision changed by `gap`."""
        unit = np.sqrt(own.variance)
        values = np.linalg.eigvalsh((own.precision + gap) * unit[:, :, None] * unit[:, None, :])
        return np.asarray(values.min(axis=1, initial=1.0) > 0)

    def put(self, group: SiteGroup, rows: np.ndarray, sites: SiteParameters, new: Update) -> int:
        """Replace the sites of some factors, in place, and follow; how many were not.

        Each alone leaves an integral; where all at once do not, the step is halved.
        """
        gap = new.precision - sites.precision[group.square[rows]]
        before, step = self.joint.copy(), 1.0
        for _ in range(_HALVINGS):
            self._add(group, rows, step * gap)
            if is_positive_definite(self.joint):
                self.__dict__.pop("_covariance", None)
                super().put(group, rows, sites, new if step == 1 else new.shorter(group, rows, sites, step))
                return 0
            self.joint, step = before.copy(), 0.5 * step
        return len(rows)

    def real_log_norm(self) -> float:
        """Log of the integral of q over the real variables."""
        return float(gaussian_log_norm(self.joint, self.shift, self.moments[0]))

    def scope_log_norms(self, group: SiteGroup) -> np.ndarray:
        """Log integrals (count,) of the marginals over the real variables of a group's factors."""
        own = self.scopes(group, np.arange(len(group)))
        return gaussian_log_norm(own.precision, own.shift, own.mean)

    @staticmethod
    def repair(layout: SiteLayout, sites: SiteParameters, before: SiteParameters) -> int:
        """Halve the changes of all sites until the joint Gaussian has an integral, in place."""
        for _ in range(_HALVINGS):
            beliefs = BlockBeliefs(layout, sites)
            if is_positive_definite(beliefs.joint):
                break
            sites.precision[:] = 0.5 * (sites.precision + before.precision)
            sites.shift[:] = 0.5 * (sites.shift + before.shift)
        else:
            sites.precision[:], sites.shift[:] = before.precision, before.shift
        bad = ~(beliefs.natural > -1)[layout.owners.natural]
        sites.natural[bad] = before.natural[bad]
        return int(bad.sum())


def _gathered(owner: np.ndarray, values: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.bincount(owner, values, minlength=len(like))


def _finite(logs: np.ndarray) -> np.ndarray:
    return np.where(logs == -np.inf, 0.0, logs)
