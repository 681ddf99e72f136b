r"""One update of expectation propagation, for many factors at once, and the order of updates in a sweep.

    cavity      q_i / site_{a,i}^power
    tilted      f_a^power prod_i cavity_i
    new site    ( projection of the tilted distribution / cavity )^(1 / power)

The residual of an update is how far the site would move without damping, in units of the beliefs: it vanishes
where the moments of all tilted distributions are those of the beliefs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.wiring import starts_of
from ...families.natural import log_sum, match_dirichlet, normalised
from .ep_beliefs import SiteBeliefs
from .ep_sites import SiteGroup, SiteLayout, SiteParameters
from .ep_tilted import Cavity, Proposal, Tilted

__all__ = ["Update", "UpdateBatch", "batches", "combined", "log_scale", "update"]


class Update(NamedTuple):
    """New sites of some factors."""

    precision: np.ndarray  # (rows, reals, reals)
    shift: np.ndarray  # (rows, reals)
    logs: tuple[np.ndarray, ...]  # per discrete axis (rows, states)
    natural: np.ndarray  # (rows, width)
    exists: np.ndarray  # (rows,) False where the update must be skipped
    change: np.ndarray  # (rows,) without damping, relative to the beliefs
    possible: bool  # False if some factor allows no joint state
    variance: np.ndarray  # (rows, reals) of the tilted distributions

    def at(self, keep: np.ndarray) -> Update:
        """Those of some rows."""
        logs = tuple(part[keep] for part in self.logs)
        return self._replace(
            precision=self.precision[keep],
            shift=self.shift[keep],
            logs=logs,
            natural=self.natural[keep],
            exists=self.exists[keep],
            change=self.change[keep],
            variance=self.variance[keep],
        )

    def shorter(self, group: SiteGroup, rows: np.ndarray, sites: SiteParameters, step: float) -> Update:
        """Sites between the old, at 0, and these, at 1."""
        square, real = sites.precision[group.square[rows]], sites.shift[group.real[1][rows]]
        natural = sites.natural[group.simplex[1][rows]]
        logs = (
            _mixed(logs, sites.logs[own[rows]], step)
            for logs, (_, own) in zip(self.logs, group.discrete, strict=True)
        )
        return self._replace(
            precision=square + step * (self.precision - square),
            shift=real + step * (self.shift - real),
            logs=tuple(logs),
            natural=natural + step * (self.natural - natural),
        )

    def write(self, group: SiteGroup, rows: np.ndarray, sites: SiteParameters) -> None:
        """Put the new sites in their places."""
        sites.precision[group.square[rows]] = self.precision
        sites.shift[group.real[1][rows]] = self.shift
        sites.natural[group.simplex[1][rows]] = self.natural
        for (_, own), logs in zip(group.discrete, self.logs, strict=True):
            sites.logs[own[rows]] = logs


def update(
    group: SiteGroup,
    rows: np.ndarray,
    beliefs: SiteBeliefs,
    sites: SiteParameters,
    proposal: Proposal,
    step: float,
) -> Update:
    """New sites of some factors of a group from the beliefs as they are; `step` is the weight of the new."""
    cavity, power = beliefs.cavity(group, rows, sites), group.power[rows]
    tilted = group.tilt(rows, cavity, power, proposal)
    others = beliefs.discrete_cavities(group, rows, sites)
    logs, messages = combined(tilted.log_weight, group.sizes, others)
    share, total = normalised(logs, axis=1)
    mean, covariance = _moments(share, tilted)
    width = np.einsum("rii->ri", covariance)
    exists = tilted.exists & (width > 0).all(axis=1) & np.isfinite(width).all(axis=1)
    covariance = np.where(exists[:, None, None], covariance, np.eye(width.shape[1]))
    precision = beliefs.project(mean, covariance)
    shift = np.einsum("rij,rj->ri", precision, mean)
    new = Update(
        (precision - cavity.precision) / power[:, None, None],
        (shift - cavity.shift) / power[:, None],
        tuple(_scaled(message / power[:, None]) for message in messages),
        _projected(tilted.expected_log, share, cavity, power),
        exists,
        np.zeros(len(rows)),
        bool((total > -np.inf)[tilted.exists].all()),
        width,
    )
    return _checked(new, group, rows, beliefs, sites, step)


def _moments(share: np.ndarray, tilted: Tilted) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of the real variables over all joint states."""
    mean = np.einsum("rc,rci->ri", share, tilted.mean)
    away = tilted.mean - mean[:, None, :]
    spread = tilted.covariance + away[..., :, None] * away[..., None, :]
    return mean, np.einsum("rc,rcij->rij", share, spread)


def combined(
    log_weight: np.ndarray, sizes: tuple[int, ...], others: list[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Log weights of joint states under all cavities (rows, states), and messages to each discrete axis."""
    rows, axes = len(log_weight), len(sizes)
    table = log_weight.reshape(rows, *sizes)
    shaped = [
        log.reshape(rows, *(size if k == axis else 1 for k, size in enumerate(sizes)))
        for axis, log in enumerate(others)
    ]
    messages = []
    for axis in range(axes):
        rest = table + sum((s for k, s in enumerate(shaped) if k != axis), np.zeros(()))
        messages.append(log_sum(rest, axis=tuple(k + 1 for k in range(axes) if k != axis)))
    whole = table + sum(shaped, np.zeros(()))
    return whole.reshape(rows, -1), [m.reshape(rows, -1) for m in messages]


def _projected(expected_log: np.ndarray, share: np.ndarray, cavity: Cavity, power: np.ndarray) -> np.ndarray:
    """The natural parameters of new Dirichlet sites (rows, width)."""
    if not expected_log.shape[2]:
        return expected_log[:, 0, :]
    target = np.einsum("rc,rck->rk", share, expected_log)
    matched = match_dirichlet(target, np.maximum(cavity.natural + 1, 0.5))
    return np.asarray((matched - 1 - cavity.natural) / power[:, None])


def _scaled(logs: np.ndarray) -> np.ndarray:
    """Log weights that sum to one."""
    norm = log_sum(logs, axis=1)[:, None]
    return np.asarray(logs - np.where(np.isfinite(norm), norm, 0.0))


def _mixed(logs: np.ndarray, old: np.ndarray, step: float) -> np.ndarray:
    """Normalised log weights between the old and the new; a zero of either is a zero."""
    return _scaled(step * logs + (1 - step) * old)


def _checked(
    new: Update, group: SiteGroup, rows: np.ndarray, beliefs: SiteBeliefs, sites: SiteParameters, step: float
) -> Update:
    """Fill in the residuals, damp, and refuse what would leave a belief without an integral."""
    own = beliefs.scopes(group, rows)
    sd = np.sqrt(own.variance)
    gap = new.precision - sites.precision[group.square[rows]]
    drift = new.shift - sites.shift[group.real[1][rows]]
    turn = new.natural - sites.natural[group.simplex[1][rows]]
    alpha = 1 + beliefs.natural[group.simplex[0][rows]]
    exists = new.exists & (alpha + step * turn > 0).all(axis=1)
    for part in (gap.reshape(len(rows), -1), drift, turn):
        exists &= np.isfinite(part).all(axis=1)
    safe = np.where(exists[:, None, None], gap, 0.0)
    exists &= beliefs.keeps_integral(own, step * safe)
    change = np.abs(gap * sd[:, :, None] * sd[:, None, :]).max(axis=(1, 2), initial=0.0)
    # Of the mean, in standard deviations: far from zero the shift itself is a large number.
    move = (drift - np.einsum("rij,rj->ri", gap, own.mean)) * sd
    change = np.maximum(change, np.abs(move).max(axis=1, initial=0.0))
    change = np.maximum(change, np.abs(turn / alpha).max(axis=1, initial=0.0))
    for logs, (_, at) in zip(new.logs, group.discrete, strict=True):
        change = np.maximum(change, np.abs(np.exp(logs) - np.exp(sites.logs[at[rows]])).max(axis=1))
    damped = new if step == 1 else new.shorter(group, rows, sites, step)
    return damped._replace(exists=exists, change=np.where(exists, change, 0.0))


def log_scale(
    group: SiteGroup,
    beliefs: SiteBeliefs,
    sites: SiteParameters,
    proposal: Proposal,
    norms: tuple[np.ndarray, np.ndarray],
) -> float | None:
    """Sum of the log scales of a group's sites, (log int tilted - log int q over the scope) / power, or None.

    `norms` holds the log integrals of discrete and simplex beliefs at their first places.
    """
    rows = np.arange(len(group))
    cavity = beliefs.cavity(group, rows, sites)
    tilted = group.tilt(rows, cavity, group.power, proposal)
    if not tilted.exists.all():
        return None
    logs, _ = combined(tilted.log_weight, group.sizes, beliefs.discrete_cavities(group, rows, sites))
    value = log_sum(logs, axis=1) - beliefs.scope_log_norms(group)
    for places, _ in group.discrete:
        value = value - norms[0][places[:, 0]]
    if group.simplex[0].shape[1]:
        value = value - norms[1][group.simplex[0][:, 0]]
    return float((value / group.power).sum())


class UpdateBatch(NamedTuple):
    """Factors of one group that are updated at the same time."""

    group: int
    rows: np.ndarray


def batches(layout: SiteLayout, schedule: str) -> list[UpdateBatch]:
    """The order of a sweep: factors of one variable first, then batches of factors that share none.

    `flooding` has one batch per group. `tree` goes from the leaves of a spanning forest to its roots.
    """
    whole = [UpdateBatch(g, np.arange(len(group))) for g, group in enumerate(layout.groups)]
    if schedule == "flooding":
        return whole
    single = [b for b in whole if layout.groups[b.group].scopes.shape[1] == 1]
    several = [b for b in whole if layout.groups[b.group].scopes.shape[1] > 1]
    if not several:
        return _disjoint(layout, single)
    scopes = [scope for b in several for scope in layout.groups[b.group].scopes]
    owner = np.repeat([b.group for b in several], [len(b.rows) for b in several])
    row = np.concatenate([b.rows for b in several])
    rounds = (
        _tree_rounds(scopes, len(layout.kinds)) if schedule == "tree" else _colours(scopes, len(layout.kinds))
    )
    found = _disjoint(layout, single)
    for r in range(int(rounds.max()) + 1):
        now = np.flatnonzero(rounds == r)
        found += [UpdateBatch(int(g), row[now[owner[now] == g]]) for g in np.unique(owner[now])]
    return found


def _disjoint(layout: SiteLayout, single: list[UpdateBatch]) -> list[UpdateBatch]:
    """Split batches of one-variable factors until no variable occurs twice in one."""
    found = []
    for group, rows in single:
        variable = layout.groups[group].scopes[:, 0]
        order = np.argsort(variable, kind="stable")
        first = np.concatenate([[True], np.diff(variable[order]) > 0])
        place = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        found += [UpdateBatch(group, rows[order[place == k]]) for k in range(int(place.max()) + 1)]
    return found


def _wiring(
    scopes: list[np.ndarray], n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    start, place = starts_of([len(s) for s in scopes]), np.concatenate(scopes)
    factor = np.repeat(np.arange(len(scopes)), np.diff(start))
    around = np.argsort(place, kind="stable")
    return start, place, starts_of(np.bincount(place, minlength=n)), around, factor


def _colours(scopes: list[np.ndarray], n: int) -> np.ndarray:
    from ...kernels.colouring import greedy_colours

    start, place, first, around, factor = _wiring(scopes, n)
    colour = np.zeros(len(scopes), dtype=np.int64)
    greedy_colours(start, place, first, factor[around], colour)
    return colour


def _tree_rounds(scopes: list[np.ndarray], n: int) -> np.ndarray:
    """Leaves first; a factor comes after all earlier ones it shares a variable with."""
    from ...kernels.message_beliefs import factor_depths

    start, place, first, around, factor = _wiring(scopes, n)
    depth = factor_depths(start, place, first, around, factor)
    last = np.full(n, -1, dtype=np.int64)
    rounds = np.zeros(len(scopes), dtype=np.int64)
    for a in np.argsort(-depth, kind="stable"):
        rounds[a] = last[scopes[a]].max() + 1
        last[scopes[a]] = rounds[a]
    return rounds
