r"""Generalised dual decomposition in the weights of mini-buckets: passes instead of blocks.

Let the temperature of a variable be shared only among the clusters that eliminate it (its mini-buckets).
Every shift that hands a cluster's powered sum on to a later variable then has its best value in closed
form: it is the message of a forward pass, and the bound is that of weighted mini-buckets. What is left are
shifts d_r(x_s) among the mini-buckets r of one bucket, on the variables s they share, and their weights w_r.
The backward pass gives the slope in all of them, b_r(x_s) and H_r. One sweep is

    match    a forward pass that moves every bucket on its way to agreement and weights by their entropies,
    leap     a quasi-Newton step on all shifts and the logarithms of all weights: L-BFGS whose metric is that
             of matching near agreement, w_r / sum_q (w_q / t) b_q(x_s), with a line search,

each followed by a backward pass and taken only if the bound falls. The first sweeps match twice instead. So
do later ones where leaps did worse than that, for longer each time; such a leap is taken back.

Maxima. The bound is not smooth there, so variables of temperature zero stand at a small positive one, shared
evenly; the bound F_e with that temperature e is at least the bound F_0 that counts. When a sweep lowers F_e
by less than a tenth of F_e - F_0, e is halved. The first sweeps and the last, once e is at its lowest, match
maxima themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...core.records import record
from ...kernels.gdd_passes import common_beliefs, first_entries, shift_tables
from ...kernels.mini_bucket_tables import COLD
from ...optimise.curvature import CurvaturePairs, dot
from ...optimise.line_search import backtrack, falls
from ...optimise.run import check
from ..problem.base import Problem
from .bucket_choice import tightest_passes
from .bucket_passes import BucketPasses, Tables, bucket_passes
from .bucket_weights import reweigh

__all__ = ["PassPlan", "Passing", "pass_start", "pass_step"]

_RATE = 10.0  # of the weights' steps
_MEMORY = 10  # pairs of moves and slope differences kept
_RARE = 1e-2  # beliefs below count as this in the metric
_LONGEST = 3.0, 1.0  # most that a leap moves a shift, and the logarithm of a weight
_HALVINGS = 12  # of a leap
_ROUNDING = 1e-13  # relative rise that is no rise
_SETTLED = 3  # sweeps before the first leap
_SHARP = 3  # sweeps at first that match maxima themselves
_SLOW = 0.1  # share of the price of smoothing below which a sweep's gain asks for cooling
_RANGE = 0.01  # the lowest temperature of maxima, relative to the first
_STALL = 1e-7  # relative gain of a sweep at which smoothing has done what it can
_SMALLEST = 1e-3  # step of matching below which there is nothing to gain
_DULL = 0.05  # temperature at which sums see maxima that are matched themselves


@dataclass(frozen=True)
class PassPlan:
    """Mini-buckets of a problem, and where their shifts are."""

    hard: BucketPasses  # with the problem's temperatures
    soft: BucketPasses  # with positive ones in place of zeros
    group: np.ndarray  # (count,) bucket of each mini-bucket
    fellows: np.ndarray  # (count,) mini-buckets in its bucket
    cold: np.ndarray  # (count,) whether its variable is maximised
    heat: np.ndarray  # (count,) temperature of its variable; one if that is zero
    start: np.ndarray  # (count + 1,) slices of the shifts
    owner: np.ndarray  # (shifts,) mini-bucket of each
    slot: np.ndarray  # (shifts,) bucket and state of the common variables, numbered
    entry: np.ndarray  # (shifts,) an entry of the tables that belongs to each
    free: bool  # whether weights move
    floor: float  # least share of a weight

    @property
    def is_mixed(self) -> bool:
        """Whether there are maxima to be smoothed."""
        return bool(self.cold.any())

    def weights(self, share: np.ndarray, heat: float) -> np.ndarray:
        """Weights from shares, with this temperature in place of zero."""
        return share * np.where(self.cold, heat, self.heat)

    def least(self) -> np.ndarray:
        """The floor of every share."""
        return np.minimum(self.floor, 0.5 / self.fellows)

    def by_slot(self, values: np.ndarray) -> np.ndarray:
        """Sums over the mini-buckets of a bucket, state by state."""
        return np.bincount(self.slot, values, minlength=int(self.slot.max(initial=-1)) + 1)

    def by_bucket(self, values: np.ndarray) -> np.ndarray:
        """Sums over the mini-buckets of a bucket, for each of them."""
        return np.bincount(self.group, values, minlength=1)[self.group]  # type: ignore[no-any-return]


@record("gdd slopes")
class _PassSlopes(NamedTuple):
    """What a backward pass tells."""

    context: np.ndarray  # beliefs of the parents
    entropy: np.ndarray  # of each mini-bucket's variable given its others
    slope: np.ndarray  # of the bound in all shifts, then in all logarithms of weights; empty between leaps
    metric: np.ndarray  # inverse curvature of the shifts


@record("gdd passes", rebuilt=("plan",))
class Passing(NamedTuple):
    """Where the passes stand."""

    plan: PassPlan  # mini-buckets and layout
    tables: Tables  # costs, smoothed weights and messages now
    share: np.ndarray  # (count,) weights as shares of the temperatures
    slopes: _PassSlopes | None  # at these tables, None before the first backward pass
    heat: float  # temperature in place of zero
    coldest: float  # where that ends
    sharp: bool  # whether maxima are matched themselves now
    step: float  # share of the way to agreement that is tried next
    length: float  # of the last leap
    pairs: CurvaturePairs  # recent moves, and how the slopes changed with them
    gains: tuple[float, ...]  # of the last two matchings, and since the last leap
    rest: tuple[int, int]  # sweeps until the next leap, and how many to wait if that disappoints
    undo: (
        tuple[Tables, np.ndarray, _PassSlopes | None] | None
    )  # where the last leap began: tables, share, slopes
    best: Tables  # the tightest bound so far, with zeros in place
    bounds: tuple[float, ...]  # the bound after each sweep
    states: np.ndarray | None  # best decoding so far, where all variables are maximised


def pass_start(
    problem: Problem, ibound: int | None, max_entries: int, *, smooth: bool, free: bool, floor: float
) -> Passing:
    """Even weights, no shifts."""
    if ibound is not None:
        ibound = max(1, ibound)
    hard = tightest_passes(problem, ibound, max_entries)
    cold = problem.temperatures == 0
    soft = hard
    if cold.any():
        warm = replace(problem, temperatures=np.where(cold, 1.0, problem.temperatures))
        soft = bucket_passes(warm, *hard.limits)
    plan = _plan(hard, soft, cold, free=free, floor=floor)
    share = 1.0 / plan.fellows
    tables = hard.evaluate(hard.theta, plan.weights(share, 0.0))
    if tables.value == -np.inf:
        raise problem.contradiction()
    finite = hard.theta[np.isfinite(hard.theta)]
    spread = float(finite.std()) if len(finite) and cold.all() else 1.0
    heat = spread if spread > 0 else 1.0
    # Weights below COLD are taken for maxima by the passes: cool down to there at most.
    coldest = max(_RANGE * heat, 1.01 * COLD * int(plan.fellows.max(initial=1)))
    sharp = plan.is_mixed
    return Passing(
        plan, tables, share, None, heat if smooth else 0.0, coldest, sharp, 1.0, 1.0, CurvaturePairs(), (),
        (0, 1),
        None,
        tables, (), None,
    )  # fmt: skip


def _plan(hard: BucketPasses, soft: BucketPasses, cold: np.ndarray, *, free: bool, floor: float) -> PassPlan:
    buckets = hard.buckets
    count = np.diff(buckets.bucket_start)
    group = np.repeat(np.arange(len(count)), count)
    fellows = count[group]
    common = soft.layout.common_size
    start = np.append(0, np.cumsum(np.where(fellows > 1, common[group], 0))).astype(np.int64)
    owner = np.repeat(np.arange(len(group)), np.diff(start))
    slots = np.append(0, np.cumsum(np.where(count > 1, common, 0))).astype(np.int64)
    slot = np.arange(start[-1]) - start[owner] + slots[group[owner]]
    entry = np.empty(start[-1], dtype=np.int64)
    first_entries(soft.layout, start, soft.theta, entry)
    heat = soft.temperatures[buckets.variable]
    return PassPlan(
        hard, soft, group, fellows, cold[buckets.variable], heat, start, owner, slot, entry, free, floor
    )


def pass_step(problem: Problem, state: Passing) -> tuple[Passing, float]:
    """One sweep; the change is what the bound fell by, relative to its size."""
    plan, sweeps = state.plan, len(state.bounds)
    if plan.hard.is_exact:
        return state._replace(bounds=(*state.bounds, state.tables.value)), 0.0
    if state.sharp and sweeps == _SHARP and state.heat > 0:
        state = _soften(state)
    before = state.tables.value
    state = _match(state)
    if state.sharp or sweeps < _SETTLED:
        state = _match(state)
    else:
        state = _leap_or_match(state)
    if state.tables.value == -np.inf:
        raise problem.contradiction()
    gain = max(0.0, before - state.tables.value)
    sharp = state.tables if state.sharp or not plan.is_mixed else _sharpen(state)
    if sharp.value == -np.inf:
        raise problem.contradiction()
    best = sharp if sharp.value < state.best.value else state.best
    state = state._replace(best=best, bounds=(*state.bounds, sharp.value))
    return _judge(state, gain, state.tables.value - sharp.value, max(1.0, abs(sharp.value)))


def _judge(state: Passing, gain: float, price: float, size: float) -> tuple[Passing, float]:
    """Whether to cool, to leap again or to stop: the change that the loop is told."""
    is_stalled = gain <= _STALL * size
    if state.sharp:
        # Before smoothing has begun nothing is settled; a step that failed is tried at half its length.
        is_open = state.heat > 0 or (is_stalled and state.step >= _SMALLEST)
        return state, 1.0 if is_open else gain / size
    if is_stalled and (state.rest[0] > 0 or len(state.bounds) <= _SETTLED):
        return state._replace(rest=(0, 1)), 1.0
    if state.plan.is_mixed:
        return _cool(state, gain, price, size)
    return state, gain / size


def _sharpen(state: Passing) -> Tables:
    """The tables with zeros in place: the bound that counts."""
    plan = state.plan
    return plan.hard.evaluate(state.tables.theta, plan.weights(state.share, 0.0))


def _soften(state: Passing) -> Passing:
    """Begin to smooth maxima, by no more than the last sweep gained."""
    gained = state.bounds[-2] - state.bounds[-1]
    heat, price = state.heat, np.inf
    while True:
        state = _at_heat(state, heat)
        price = state.tables.value - state.bounds[-1]
        if price <= gained or heat <= state.coldest:
            return state._replace(sharp=False, step=1.0, gains=())
        heat = max(state.coldest, heat / 2)


def _at_heat(state: Passing, heat: float) -> Passing:
    check()
    plan = state.plan
    tables = plan.soft.evaluate(state.tables.theta, plan.weights(state.share, heat))
    return state._replace(tables=tables, heat=heat, slopes=None, pairs=CurvaturePairs(), gains=(), undo=None)


def _cool(state: Passing, gain: float, price: float, size: float) -> tuple[Passing, float]:
    """Lower the temperature of maxima when that promises more; in the end match them themselves."""
    if gain <= _SLOW * price and state.heat > state.coldest:
        return _at_heat(state, max(state.coldest, state.heat / 2)), 1.0
    if gain <= _STALL * size and state.heat <= state.coldest:
        return state._replace(tables=state.best, sharp=True, step=1.0, slopes=None, gains=(), heat=0.0), 1.0
    return state, 1.0


def _match(state: Passing) -> Passing:
    """A forward pass that shifts on its way, if that lowers the bound; otherwise half the step next time."""
    check()
    plan, old, slopes = state.plan, state.tables, state.slopes
    passes = plan.hard if state.sharp else plan.soft
    if slopes is None and state.bounds:
        slopes = _look(state, old, state.share)
        state = state._replace(slopes=slopes)
    weight = old.weight
    if slopes is not None and plan.free:
        moved = reweigh(passes, weight, slopes.entropy, _RATE * state.step, plan.floor, lower=False)
        weight = np.where(plan.cold, weight, moved)
    message, context = (None, None) if slopes is None else (old.message, slopes.context)
    new, _ = passes.forward(old.theta, weight, message, context, state.step, "upper", gradient=False)
    gain = old.value - new.value
    if slopes is None and gain < 0:
        # Matching before the first beliefs may loosen the bound; with them it cannot if steps are small.
        return state._replace(slopes=_look(state, old, state.share))
    if not gain >= -_ROUNDING * max(1.0, abs(old.value)):
        return state._replace(step=state.step / 2, gains=(*state.gains[-2:], 0.0))
    share = np.where(plan.cold, state.share, weight / plan.heat)
    state = _arrive(state, new, share, None)
    return state._replace(step=min(1.0, 1.5 * state.step), gains=(*state.gains[-2:], max(0.0, gain)))


def _arrive(state: Passing, new: Tables, share: np.ndarray, move: np.ndarray | None) -> Passing:
    """Go on from new tables, with the slopes there and the curvature met on the way."""
    plan, old = state.plan, state.slopes
    slopes = _look(state, new, share)
    pairs = state.pairs
    if old is not None and len(old.slope) and len(slopes.slope):
        if move is None:
            with np.errstate(invalid="ignore"):
                shift = new.theta[plan.entry] - state.tables.theta[plan.entry]
            least = plan.least()
            part = np.log(np.maximum(share - least, 1e-12) / np.maximum(state.share - least, 1e-12))
            move = np.concatenate([np.where(np.isfinite(shift), shift, 0.0), np.clip(part, -2.0, 2.0)])
        pairs = pairs.after(move, slopes.slope - old.slope, _MEMORY)
    return state._replace(tables=new, share=share, slopes=slopes, pairs=pairs)


def _look(state: Passing, tables: Tables, share: np.ndarray, *, leaping: bool | None = None) -> _PassSlopes:
    """A backward pass, and the slopes that follow from it if a leap may need them."""
    check()
    plan = state.plan
    if leaping is None:
        leaping = len(state.bounds) >= _SETTLED and state.rest[0] == 0
    if state.sharp:
        context, entropy, _ = plan.hard.backward(tables, _DULL if len(state.bounds) > _SHARP else 1.0)
        return _PassSlopes(context, entropy, np.empty(0), np.empty(0))
    context, entropy, _ = plan.soft.backward(tables, 1.0)
    if not leaping:
        return _PassSlopes(context, entropy, np.empty(0), np.empty(0))
    belief = np.empty(plan.start[-1])
    common_beliefs(plan.soft.layout, tables.psi, tables.message, context, tables.weight, plan.start, belief)
    least = plan.least()
    part = (share - least) / (1.0 - least * plan.fellows)
    mean = plan.by_bucket(part * entropy)
    moving = plan.free & ~plan.cold & (plan.fellows > 1)
    by_weight = np.where(moving, (share - least) * plan.heat * (entropy - mean), 0.0)
    agreed = plan.by_slot(share[plan.owner] * belief)[plan.slot]
    metric = tables.weight[plan.owner] / np.maximum(agreed, _RARE)
    return _PassSlopes(context, entropy, np.concatenate([belief, by_weight]), metric)


def _leap_or_match(state: Passing) -> Passing:
    """A leap; but matching once more where leaps did worse than that, for longer each time."""
    wait, next_wait = state.rest
    if wait > 0:
        return _match(state._replace(rest=(wait - 1, next_wait)))
    gains = state.gains
    if len(gains) == 3 and gains[0] < 0 and state.undo is not None:
        # Minus what matching twice promised, the last leap's, and the matching's after it.
        if gains[1] + gains[2] < -gains[0]:
            tables, share, slopes = state.undo
            state = state._replace(tables=tables, share=share, slopes=slopes, undo=None, step=1.0)
            return _match(_match(state._replace(rest=(next_wait, min(64, 2 * next_wait)), gains=())))
        promised = -gains[0] / 2
    elif len(gains) >= 2 and gains[-2] > 0:
        ratio = min(1.0, gains[-1] / gains[-2])
        promised = gains[-1] * ratio * (1.0 + ratio)
    else:
        promised = 0.0
    before = state.tables.value
    state = _leap(state._replace(undo=(state.tables, state.share, state.slopes)))
    return state._replace(gains=(-promised, before - state.tables.value) if promised > 0 else ())


def _leap(state: Passing) -> Passing:
    """A quasi-Newton step on all shifts and weights that lowers the bound, if one does."""
    slopes = state.slopes
    if slopes is None or not len(slopes.slope):
        slopes = _look(state, state.tables, state.share, leaping=True)
        state = state._replace(slopes=slopes)
    for pairs in (state.pairs, CurvaturePairs()):
        found = _along(state, slopes, pairs)
        if found is not None:
            return found
    return state._replace(pairs=CurvaturePairs())


def _along(state: Passing, slopes: _PassSlopes, pairs: CurvaturePairs) -> Passing | None:
    """Down the way that the pairs show, if that lowers the bound."""
    way, old = _way(state, slopes, pairs), state.tables.value
    predicted = dot(slopes.slope, way)
    if not predicted < 0:
        return None
    found = backtrack(
        lambda length: _move(state, way, length),
        lambda there, length: falls(there[0].value, old, length * predicted),
        min(1.0, 4.0 * state.length),
        _HALVINGS,
    )
    if found is None:
        return None
    (new, share), length = found
    return _arrive(state._replace(pairs=pairs, length=length), new, share, length * way)


def _move(state: Passing, way: np.ndarray, length: float) -> tuple[Tables, np.ndarray]:
    """Tables and shares so far along a way."""
    check()
    plan, n, least = state.plan, len(state.plan.owner), state.plan.least()
    part = np.maximum((state.share - least) / (1.0 - least * plan.fellows), 1e-12)
    theta = np.empty_like(state.tables.theta)
    shift_tables(plan.soft.layout, plan.start, way[:n], length, state.tables.theta, theta)
    grown = part * np.exp(length * way[n:])
    share = least + (1.0 - least * plan.fellows) * grown / plan.by_bucket(grown)
    return plan.soft.evaluate(theta, plan.weights(share, state.heat)), share


def _way(state: Passing, slopes: _PassSlopes, pairs: CurvaturePairs) -> np.ndarray:
    """Where to leap: down the curvature, no further than is sensible."""
    plan, n = state.plan, len(state.plan.owner)
    way = -_direction(state, slopes, pairs)
    way[:n] = np.clip(way[:n], -_LONGEST[0], _LONGEST[0])
    # Shifts of a bucket cancel exactly, whatever was rounded or clipped.
    way[:n] -= (plan.by_slot(way[:n]) / np.maximum(plan.by_slot(np.ones(n)), 1.0))[plan.slot]
    way[n:] = np.clip(way[n:], -_LONGEST[1], _LONGEST[1])
    return way


def _direction(state: Passing, slopes: _PassSlopes, pairs: CurvaturePairs) -> np.ndarray:
    """The slope times the inverse curvature seen so far; the metric of matching stands for the rest."""
    plan, n = state.plan, len(state.plan.owner)
    heat = np.where(plan.cold, 1.0, plan.heat)

    def metric(v: np.ndarray) -> np.ndarray:
        pull = plan.by_slot(slopes.metric * v[:n]) / np.maximum(plan.by_slot(slopes.metric), 1e-300)
        return np.concatenate([slopes.metric * (v[:n] - pull[plan.slot]), v[n:] * _RATE / heat])

    return pairs.times(slopes.slope, metric)
