r"""Whether Markov chains agree, and how many independent draws they are worth.

Every chain is cut in halves, so that a drift within a chain shows as a disagreement between two. With M
halves of N draws, W the mean of their variances and B / N the variance of their means,

    V     = W (N - 1) / N + B / N                       variance of all draws together
    R-hat = sqrt( V / W )                               1 if the halves agree
    rho_t = 1 - (W - mean autocovariance at lag t) / V  correlation of draws t steps apart
    ESS   = M N / (-1 + 2 sum_k P_k),                   P_k = rho_{2k} + rho_{2k+1}

where the sum ends before the first negative P_k, and P_k is made to fall (Geyer). Draws are replaced by
normal scores of their ranks first, so that heavy tails do no harm; R-hat is the larger one of these scores
and of those of the distances from the median. The standard error of a mean is the standard deviation over
the root of the effective sample size of the draws themselves.

Draws have shape (chains, draws, ...); every number of the trailing axes is judged by itself. What never
changes is worth as many draws as there are, unless chains stand still at different places: then R-hat is
infinite. Source: Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.errors import QueryError
from ...core.records import record

__all__ = ["Diagnosis", "diagnose", "ess", "ess_bulk", "mcse", "r_hat"]

_FEWEST = 4  # draws per chain below which nothing can be said


@record("diagnosis")
class Diagnosis(NamedTuple):
    """What is known about the draws of each number."""

    r_hat: np.ndarray  # disagreement of the halves of chains, 1 if there is none
    ess: np.ndarray  # effective sample size of the ranks
    mcse: np.ndarray  # standard error of the mean


def diagnose(draws: np.ndarray, *, is_flag: bool = False) -> Diagnosis:
    """All three numbers; `is_flag` says that draws are 0 or 1, where ranks change nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.inference.sampling.diagnostics import diagnose
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(diagnose(draws).r_hat < 1.01), bool(diagnose(draws + np.arange(4)[:, None]).r_hat > 1.1)
    (True, True)
    """
    x = _check(draws)
    shape = x.shape[2:]
    spread = x.std(axis=(0, 1))
    if x.shape[1] < _FEWEST:
        return Diagnosis(np.full(shape, np.inf), np.ones(shape), spread)
    halves = _halves(x)
    effective = _ess(halves)
    scores = halves if is_flag else _scores(halves)
    found = _disagreement(halves, scores, is_flag)
    bulk = effective if is_flag else _ess(scores)
    return Diagnosis(found.reshape(shape), bulk.reshape(shape), spread / np.sqrt(effective.reshape(shape)))


def r_hat(draws: np.ndarray, *, is_flag: bool = False) -> np.ndarray:
    """How much the spread of all draws exceeds that within chains."""
    x = _check(draws)
    if x.shape[1] < _FEWEST:
        return np.full(x.shape[2:], np.inf)
    halves = _halves(x)
    return _disagreement(halves, halves if is_flag else _scores(halves), is_flag).reshape(x.shape[2:])


def ess_bulk(draws: np.ndarray) -> np.ndarray:
    """Effective sample size of the ranks: how well the centre of the distribution is known."""
    return diagnose(draws).ess


def ess(draws: np.ndarray) -> np.ndarray:
    """Effective sample size for the mean."""
    return diagnose(draws, is_flag=True).ess


def mcse(draws: np.ndarray) -> np.ndarray:
    """Monte Carlo standard error of the mean."""
    return diagnose(draws, is_flag=True).mcse


def _check(draws: np.ndarray) -> np.ndarray:
    x = np.asarray(draws, dtype=np.float64)
    if x.ndim < 2 or not x.shape[0]:
        raise QueryError(f"draws: expected shape (chains, draws, ...), got {x.shape}")
    return x


def _halves(x: np.ndarray) -> np.ndarray:
    """Halves of chains, twice as many, all trailing axes in one; draws of a half lie side by side."""
    half = x.shape[1] // 2
    columns = np.ascontiguousarray(np.moveaxis(x.reshape(*x.shape[:2], -1), 2, 0))
    return np.moveaxis(np.concatenate([columns[:, :, :half], columns[:, :, -half:]], axis=1), 0, 2)


def _disagreement(halves: np.ndarray, scores: np.ndarray, is_flag: bool) -> np.ndarray:
    if is_flag:
        return _scale_reduction(halves)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_scale_reduction(scores), _scale_reduction(_scores(folded)))


def _parts(halves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of the halves, and draws without them; exactly zero where nothing changes."""
    shifted = halves - halves[:1, :1]
    is_still = (shifted == shifted[:, :1]).all(axis=1, keepdims=True)
    means = np.where(is_still, shifted[:, :1], shifted.mean(axis=1, keepdims=True))
    return means[:, 0], shifted - means


def _scale_reduction(halves: np.ndarray) -> np.ndarray:
    count = halves.shape[1]
    means, rest = _parts(halves)
    within = (rest**2).sum(axis=1).mean(axis=0) / (count - 1)
    between = means.var(axis=0, ddof=1)
    is_still = within <= 0
    ratio = between / np.where(is_still, 1.0, within)
    return np.where(is_still, np.where(between > 0, np.inf, 1.0), np.sqrt((count - 1) / count + ratio))


def _scores(halves: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks among all draws; ties share the mean of their ranks."""
    from scipy.special import ndtri

    rows = np.ascontiguousarray(np.moveaxis(halves, 2, 0)).reshape(halves.shape[2], -1)
    count = rows.shape[1]
    order = np.argsort(rows, axis=1)
    order += count * np.arange(len(rows))[:, None]
    rising = np.take(rows, order)
    is_new = np.ones((len(rows), count + 1), dtype=bool)
    np.not_equal(rising[:, 1:], rising[:, :-1], out=is_new[:, 1:-1])
    # Ranks are halves of whole numbers, so that a table holds all scores there are.
    table = ndtri((np.arange(2 * count - 1) / 2 + 0.625) / (count + 0.25))
    scores = np.empty_like(rows)
    scores.ravel()[order] = table[::2] if is_new.all() else table[_twice_ranks(is_new)]
    return np.moveaxis(scores.reshape(halves.shape[2], *halves.shape[:2]), 0, 2)


def _twice_ranks(is_new: np.ndarray) -> np.ndarray:
    """First plus last place of the equal numbers among which each one is, of rows of rising ones."""
    count = is_new.shape[1] - 1
    place = np.arange(count)
    first = np.maximum.accumulate(np.where(is_new[:, :-1], place, 0), axis=1)
    last = np.minimum.accumulate(np.where(is_new[:, 1:], place, count)[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(first + last)


def _ess(halves: np.ndarray) -> np.ndarray:
    chains, count, _ = halves.shape
    total = chains * count
    means, rest = _parts(halves)
    covariance = _autocovariance(rest)
    within = covariance[0] * count / (count - 1)
    overall = covariance[0] + means.var(axis=0, ddof=1)
    is_still = overall <= 0
    rho = 1 - (within - covariance) / np.where(is_still, 1.0, overall)
    rho[0] = 1.0
    last = count - count % 2
    pairs = rho[0:last:2] + rho[1:last:2]
    is_positive = np.logical_and.accumulate(pairs > 0, axis=0)
    falling = np.where(is_positive, np.minimum.accumulate(pairs, axis=0), 0.0)
    tau = -1 + 2 * falling.sum(axis=0) + _next_even(rho, is_positive)
    # Draws that repel each other may be worth more than independent ones, but not without limit.
    found = total / np.maximum(tau, 1 / np.log10(total))
    return np.where(is_still, float(total), found)


def _next_even(rho: np.ndarray, is_positive: np.ndarray) -> np.ndarray:
    """The correlation at the even lag after the last pair, if positive: a better end of the sum."""
    after = 2 * is_positive.sum(axis=0)
    inside = after < len(rho)
    found = np.take_along_axis(rho, np.minimum(after, len(rho) - 1)[None], axis=0)[0]
    return np.where(inside, np.maximum(found, 0.0), 0.0)


def _autocovariance(rest: np.ndarray) -> np.ndarray:
    """The mean over all halves, (lags, ...)."""
    from scipy.fft import irfft, next_fast_len, rfft

    count = rest.shape[1]
    size = next_fast_len(2 * count, real=True)
    spectrum = rfft(rest, n=size, axis=1)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=0)
    return irfft(power, n=size, axis=0)[:count] / count
