r"""One update of expectation propagation, for many factors at once, and the order of updates in a sweep.

    cavity      q_i / site_{a,i}^power
    tilted      f_a^power prod_i cavity_i
    new site    ( projection of the tilted distribution / cavity )^(1 / power)

Weights of discrete states are kept as a finite sum of logarithms and a count of zeros, so that a site can be
divided out even where it is zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.wiring import starts_of
from .ep_sites import Layout, Parameters, SiteGroup
from .ep_tilted import Cavity, Proposal
from .moments import dirichlet_log_norm, gaussian_log_norm, log_sum, match_dirichlet, normalised

__all__ = ["Batch", "Beliefs", "Update", "batches", "log_norms", "log_scale", "update"]


class Beliefs:
    """Natural parameters of all variables; they follow their sites, in place."""

    def __init__(self, layout: Layout, sites: Parameters) -> None:
        base, owner = layout.base, layout.owners
        self.precision = base.precision + _gathered(owner.precision, sites.precision, base.precision)
        self.shift = base.shift + _gathered(owner.shift, sites.shift, base.shift)
        self.natural = base.natural + _gathered(owner.natural, sites.natural, base.natural)
        self.finite = _finite(base.logs) + _gathered(owner.logs, _finite(sites.logs), base.logs)
        none = sites.logs == -np.inf
        self.zeros = (base.logs == -np.inf) + np.bincount(owner.logs[none], minlength=len(base.logs))

    @property
    def parameters(self) -> Parameters:
        """The natural parameters."""
        logs = np.where(self.zeros > 0, -np.inf, self.finite)
        return Parameters(self.precision, self.shift, logs, self.natural)

    def cavity(self, group: SiteGroup, rows: np.ndarray, sites: Parameters, power: float) -> Cavity:
        """What the others say about the continuous variables of some factors."""
        variable, site = group.real[0][rows], group.real[1][rows]
        place, coordinate = group.simplex[0][rows], group.simplex[1][rows]
        return Cavity(
            self.precision[variable] - power * sites.precision[site],
            self.shift[variable] - power * sites.shift[site],
            self.precision[variable],
            self.shift[variable] / self.precision[variable],
            self.natural[place] - power * sites.natural[coordinate],
        )

    def discrete_cavities(
        self, group: SiteGroup, rows: np.ndarray, sites: Parameters, power: float
    ) -> list[np.ndarray]:
        """What the others say about the discrete variables: log weights (rows, states) per axis."""
        found = []
        for places, own in group.discrete:
            logs = sites.logs[own[rows]]
            none = logs == -np.inf
            zeros = self.zeros[places[rows]] - (none if power == 1 else 0)
            value = self.finite[places[rows]] - power * np.where(none, 0.0, logs)
            found.append(np.where(zeros > 0, -np.inf, value))
        return found

    def put(self, group: SiteGroup, rows: np.ndarray, sites: Parameters, new: Update) -> None:
        """Replace the sites of factors that share no variable, in place, and follow."""
        variable, site = group.real[0][rows], group.real[1][rows]
        self.precision[variable] += new.precision - sites.precision[site]
        self.shift[variable] += new.shift - sites.shift[site]
        place, coordinate = group.simplex[0][rows], group.simplex[1][rows]
        self.natural[place] += new.natural - sites.natural[coordinate]
        for (places, own), logs in zip(group.discrete, new.logs, strict=True):
            old, at = sites.logs[own[rows]], places[rows]
            self.finite[at] += _finite(logs) - _finite(old)
            self.zeros[at] += (logs == -np.inf).astype(np.int64) - (old == -np.inf)
        new.write(group, rows, sites)


class Update(NamedTuple):
    """New sites of some factors."""

    precision: np.ndarray  # (rows, reals)
    shift: np.ndarray  # (rows, reals)
    logs: tuple[np.ndarray, ...]  # per discrete axis (rows, states)
    natural: np.ndarray  # (rows, width)
    exists: np.ndarray  # (rows,) False where the update must be skipped
    change: np.ndarray  # (rows,) relative to the beliefs
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

    def write(self, group: SiteGroup, rows: np.ndarray, sites: Parameters) -> None:
        """Put the new sites in their places."""
        sites.precision[group.real[1][rows]] = self.precision
        sites.shift[group.real[1][rows]] = self.shift
        sites.natural[group.simplex[1][rows]] = self.natural
        for (_, own), logs in zip(group.discrete, self.logs, strict=True):
            sites.logs[own[rows]] = logs


def update(
    group: SiteGroup,
    rows: np.ndarray,
    beliefs: Beliefs,
    sites: Parameters,
    proposal: Proposal,
    power: float,
    step: float,
) -> Update:
    """New sites of some factors of a group from the beliefs as they are; `step` is the weight of the new."""
    cavity = beliefs.cavity(group, rows, sites, power)
    tilted = group.tilt(rows, cavity, power, proposal)
    others = beliefs.discrete_cavities(group, rows, sites, power)
    logs, messages = _combined(tilted.log_weight, group.sizes, others)
    share, total = normalised(logs, axis=1)
    mean = np.einsum("rc,rci->ri", share, tilted.mean)
    spread = tilted.variance + (tilted.mean - mean[:, None, :]) ** 2
    width = np.einsum("rc,rci->ri", share, spread)
    exists = tilted.exists & (width > 0).all(axis=1) & np.isfinite(width).all(axis=1)
    variance = np.where(exists[:, None], width, 1.0)
    precision = (1 / variance - cavity.precision) / power
    shift = (mean / variance - cavity.shift) / power
    natural = _projected(tilted.expected_log, share, cavity, power)
    real, simplex = group.real[1][rows], group.simplex[1][rows]
    new = Update(
        sites.precision[real] + step * (precision - sites.precision[real]),
        sites.shift[real] + step * (shift - sites.shift[real]),
        tuple(
            _mixed(message / power, sites.logs[own[rows]], step)
            for message, (_, own) in zip(messages, group.discrete, strict=True)
        ),
        sites.natural[simplex] + step * (natural - sites.natural[simplex]),
        exists,
        np.zeros(len(rows)),
        bool((total > -np.inf)[tilted.exists].all()),
        width,
    )
    return _checked(new, group, rows, beliefs, sites)


def _combined(
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


def _projected(expected_log: np.ndarray, share: np.ndarray, cavity: Cavity, power: float) -> np.ndarray:
    """The natural parameters of new Dirichlet sites (rows, width)."""
    if not expected_log.shape[2]:
        return expected_log[:, 0, :]
    target = np.einsum("rc,rck->rk", share, expected_log)
    matched = match_dirichlet(target, np.maximum(cavity.natural + 1, 0.5))
    return (matched - 1 - cavity.natural) / power


def _mixed(logs: np.ndarray, old: np.ndarray, step: float) -> np.ndarray:
    """Normalised log weights between the old and the new; a zero of either is a zero."""
    norm = log_sum(logs, axis=1)[:, None]
    logs = logs - np.where(np.isfinite(norm), norm, 0.0)
    if step == 1:
        return logs
    mixed = step * logs + (1 - step) * old
    return mixed - log_sum(mixed, axis=1)[:, None]


def _checked(new: Update, group: SiteGroup, rows: np.ndarray, beliefs: Beliefs, sites: Parameters) -> Update:
    """Fill in the changes, and refuse what would leave a belief without an integral."""
    variable, site = group.real[0][rows], group.real[1][rows]
    place, coordinate = group.simplex[0][rows], group.simplex[1][rows]
    own = beliefs.precision[variable]
    gap, drift = new.precision - sites.precision[site], new.shift - sites.shift[site]
    turn = new.natural - sites.natural[coordinate]
    alpha = 1 + beliefs.natural[place]
    proper = (own + gap > 0).all(axis=1) & (alpha + turn > 0).all(axis=1)
    proper &= np.isfinite(gap).all(axis=1) & np.isfinite(drift).all(axis=1) & np.isfinite(turn).all(axis=1)
    change = np.abs(gap / own).max(axis=1, initial=0.0)
    # Of the mean, in standard deviations: far from zero the shift itself is a large number.
    move = (drift - gap * beliefs.shift[variable] / own) / np.sqrt(own)
    change = np.maximum(change, np.abs(move).max(axis=1, initial=0.0))
    change = np.maximum(change, np.abs(turn / alpha).max(axis=1, initial=0.0))
    for logs, (_, at) in zip(new.logs, group.discrete, strict=True):
        change = np.maximum(change, np.abs(np.exp(logs) - np.exp(sites.logs[at[rows]])).max(axis=1))
    exists = new.exists & proper
    return new._replace(exists=exists, change=np.where(exists, change, 0.0))


def log_scale(
    group: SiteGroup, beliefs: Beliefs, sites: Parameters, proposal: Proposal, power: float, norms: Parameters
) -> float | None:
    """Sum of the log scales of a group's sites, (log int tilted - sum_i log int q_i) / power; None if none.

    `norms` holds the log integrals of the beliefs at their first places.
    """
    rows = np.arange(len(group))
    cavity = beliefs.cavity(group, rows, sites, power)
    tilted = group.tilt(rows, cavity, power, proposal)
    if not tilted.exists.all():
        return None
    logs, _ = _combined(tilted.log_weight, group.sizes, beliefs.discrete_cavities(group, rows, sites, power))
    value = log_sum(logs, axis=1) - norms.precision[group.real[0]].sum(axis=1)
    for places, _ in group.discrete:
        value = value - norms.logs[places[:, 0]]
    if group.simplex[0].shape[1]:
        value = value - norms.natural[group.simplex[0][:, 0]]
    return float(value.sum()) / power


def log_norms(layout: Layout, beliefs: Beliefs) -> Parameters:
    """Log integrals of the beliefs at the first place of every variable, zeros elsewhere."""
    q = beliefs.parameters
    real = gaussian_log_norm(q.precision, q.shift)
    logs, natural = np.zeros(len(q.logs)), np.zeros(len(q.natural))
    for i in np.flatnonzero(layout.kinds != "r"):
        part = slice(layout.start[i], layout.start[i] + layout.width[i])
        if layout.kinds[i] == "d":
            logs[part.start] = log_sum(q.logs[part])
        else:
            natural[part.start] = dirichlet_log_norm(q.natural[part])
    return Parameters(real, real, logs, natural)


class Batch(NamedTuple):
    """Factors of one group that are updated at the same time."""

    group: int
    rows: np.ndarray


def batches(layout: Layout, schedule: str) -> list[Batch]:
    """The order of a sweep: factors of one variable first, then batches of factors that share none.

    `flooding` has one batch per group. `tree` goes from the leaves of a spanning forest to its roots.
    """
    whole = [Batch(g, np.arange(len(group))) for g, group in enumerate(layout.groups)]
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
        found += [Batch(int(g), row[now[owner[now] == g]]) for g in np.unique(owner[now])]
    return found


def _disjoint(layout: Layout, single: list[Batch]) -> list[Batch]:
    """Split batches of one-variable factors until no variable occurs twice in one."""
    found = []
    for group, rows in single:
        variable = layout.groups[group].scopes[:, 0]
        order = np.argsort(variable, kind="stable")
        first = np.concatenate([[True], np.diff(variable[order]) > 0])
        place = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        found += [Batch(group, rows[order[place == k]]) for k in range(int(place.max()) + 1)]
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


def _gathered(owner: np.ndarray, values: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.bincount(owner, values, minlength=len(like))


def _finite(logs: np.ndarray) -> np.ndarray:
    return np.where(logs == -np.inf, 0.0, logs)
