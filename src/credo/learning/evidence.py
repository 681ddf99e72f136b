r"""Evidence of models: closed form, Laplace's approximation, BIC, nested tests, and posteriors of models.

    conjugate   log p(D) = B(chi + statistics) - B(chi) + log base measure
    Laplace     log p(D) ~ log p(D, t*) + d/2 log 2 pi - 1/2 log |A|,   A = -Hessian at the top t*
    BIC         log p(D) ~ log p(D | t_ML) - d/2 log N
    nested      2 (l_large - l_small) ~ chi^2(d_large - d_small), if the small model is true

Laplace is exact for Gaussians, and depends on the parameters chosen: tables are treated in their log-ratios,
in which the approximation is best. Both Laplace and BIC see one mode, and assume that the data determine all
parameters: neither holds for mixtures with more components than needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import chdtrc, logsumexp

from ..core.errors import ConvergenceWarning, DataError, OptionError, UnsupportedError
from ..core.numbers import float_array
from ..core.result import Estimate
from ..data.table import StateTable
from ..families.conjugate import Conjugate
from ..models.bayes_net import BayesNet
from ..models.table_posterior import table_rows
from ..optimise.driver import Outcome, Step, advice, drive
from ..optimise.run import Budget, Run, check, noted
from .e_step import EStep
from .expectations import Oracle

__all__ = [
    "Laplace",
    "NestedTest",
    "bic",
    "conjugate_evidence",
    "laplace",
    "laplace_tables",
    "model_posterior",
    "nested_test",
    "table_evidence",
]

_STEP = 1e-4  # of finite differences, relative to the size of a parameter
_LARGEST = 400  # free parameters for which a Hessian is computed by differences


@dataclass(frozen=True)
class Laplace:
    """A Gaussian around the mode, and the evidence it implies."""

    evidence: Estimate  # of the log evidence
    mode: np.ndarray  # the parameters at the top
    covariance: np.ndarray  # of the Gaussian there: the inverse curvature


@dataclass(frozen=True)
class NestedTest:
    """A likelihood-ratio test of a model against one that contains it."""

    statistic: float  # twice the difference of the log-likelihoods
    degrees: int  # difference of the numbers of parameters
    p: float  # probability of a larger statistic if the smaller model is true

    def rejects(self, level: float = 0.05) -> bool:
        """Whether the smaller model is rejected."""
        return self.p < level


def conjugate_evidence(prior: Conjugate, x: Any) -> Estimate:
    """Log evidence of rows under one member with a conjugate prior.

    Examples
    --------
    >>> from credo.families import Dirichlet
    >>> from credo.learning.evidence import conjugate_evidence
    >>> print(conjugate_evidence(Dirichlet([[1.0, 1.0]]), [0, 0, 1]))  # log of 2! 1! / 4!
    -2.48490665 (exact)
    """
    prior = prior.repeat(1)
    member = prior.mean()
    rows = member.rows(x)
    if not len(rows):
        raise DataError("data: expected at least one row, got none")
    if rows.dtype.kind == "f" and rows.ndim == 2 and np.isnan(rows).any():
        raise DataError("data: expected complete rows for a closed form, got missing values; use vb")
    return Estimate(float(prior.log_evidence(member.collect(rows))[0]), "exact")


def table_evidence(model: BayesNet, data: Any, prior: Any = "bdeu(size=10)") -> Estimate:
    """Log evidence of complete rows, all tables of the network integrated out.

    Parameters
    ----------
    model
        The structure; its probabilities are not used, but for zeros, which stay.
    data
        Complete rows.
    prior
        Dirichlet concentrations: `"bdeu(size=10)"`, `"uniform(count=1)"`, or a mapping by name.
    """
    observed = StateTable.of(model.variables, data)
    if not observed.is_complete:
        raise DataError("data: expected complete rows for a closed form, got missing values; use vb")
    counts = observed.table_counts(model.to_factor_graph())
    rows = table_rows(model, prior)
    if (counts[rows.concentration == 0] > 0).any():
        return Estimate(-np.inf, "exact")
    return Estimate(float(rows.log_evidence(counts).sum()), "exact")


def laplace(log_joint: Callable[[np.ndarray], float], start: Any) -> Laplace:
    """Laplace's approximation of log int exp(log_joint(t)) dt, from the mode near `start`.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.learning.evidence import laplace
    >>> found = laplace(lambda t: -0.5 * float(t @ t), [0.3, -0.2])
    >>> round(found.evidence.value, 6), round(float(np.log(2 * np.pi)), 6)
    (1.837877, 1.837877)
    """
    first = np.atleast_1d(float_array("start", start, error=OptionError))
    if not np.isfinite(log_joint(first)):
        raise OptionError("start: expected parameters with a finite log_joint, got others")
    found = minimize(lambda t: -log_joint(t), first, method="BFGS", options={"gtol": 1e-9})
    mode = found.x
    curvature = -_hessian(log_joint, mode)
    return _gaussian(float(log_joint(mode)), mode, curvature)


def _gaussian(top: float, mode: np.ndarray, curvature: np.ndarray) -> Laplace:
    sign, log_det = np.linalg.slogdet(curvature)
    if sign <= 0 or np.linalg.eigvalsh(curvature)[0] <= 0:
        raise UnsupportedError(
            "Laplace: the curvature at the mode is not positive: the data leave some parameters open; "
            "use a stronger prior, or variational Bayes"
        )
    value = top + 0.5 * (len(mode) * np.log(2.0 * np.pi) - log_det)
    return Laplace(Estimate(float(value), "estimate"), mode, np.linalg.inv(curvature))


def _hessian(f: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Second derivatives by central differences."""
    n, steps = len(at), _STEP * 10 * np.maximum(1.0, np.abs(at))
    out, middle = np.empty((n, n)), f(at)
    for i in range(n):
        a = np.zeros(n)
        a[i] = steps[i]
        out[i, i] = (f(at + a) - 2.0 * middle + f(at - a)) / steps[i] ** 2
        for j in range(i):
            b = np.zeros(n)
            b[j] = steps[j]
            mixed = f(at + a + b) - f(at + a - b) - f(at - a + b) + f(at - a - b)
            out[i, j] = out[j, i] = mixed / (4.0 * steps[i] * steps[j])
    return out


@noted
def laplace_tables(
    model: BayesNet, data: Any, prior: Any = "bdeu(size=10)", *, max_iter: int = 2000, tol: float = 1e-8
) -> Estimate:
    """Laplace's approximation of the evidence of a network, in the log-ratios of its tables.

    Complete data have a closed form. With hidden variables the mode is found by EM from the tables of the
    model, and the curvature by differences of the gradient.

    Parameters
    ----------
    model
        The structure, and the tables at which EM starts.
    data
        Rows; values may be missing.
    prior
        Dirichlet concentrations, as in `table_evidence`.
    max_iter, tol
        Steps of EM, and the largest change of a probability that ends them.
    """
    budget = Budget(max_iter, tol)
    observed = StateTable.of(model.variables, data)
    rows = table_rows(model, prior)
    graph = model.to_factor_graph()
    if observed.is_complete:
        counts = observed.table_counts(graph)
        if (counts[rows.concentration == 0] > 0).any():
            return Estimate(-np.inf, "estimate")
        return Estimate(float(rows.laplace_evidence(counts).sum()), "estimate")
    if rows.n_parameters > _LARGEST:
        raise UnsupportedError(
            f"Laplace: expected at most {_LARGEST} free parameters with hidden variables, "
            f"got {rows.n_parameters}; use variational Bayes"
        )
    e_step = EStep(graph, observed, Oracle(None, warm=False))
    possible = rows.concentration > 0
    with np.errstate(divide="ignore"):
        logs = np.log(model.flat_tables)
    mode = drive(_TableMode(e_step, rows, logs), None, budget, whole=False)
    check()  # away from the mode there is no evidence to tell
    if not mode.ended.is_success:
        told = advice(mode.ended, mode.residuals)
        warnings.warn(f"laplace_tables: {told}", ConvergenceWarning, stacklevel=3)
    logs, value, _ = mode.state
    free = _free_entries(rows.row_sizes, possible)
    curvature = _table_curvature(e_step, rows, logs, free)
    return _gaussian(value - float(rows.log_normaliser.sum()), logs[free], curvature).evidence


class _Tables(NamedTuple):
    """Tables on the way to the top."""

    logs: np.ndarray
    value: float  # log joint of data and log-ratios, up to the constant of the prior
    counts: np.ndarray  # expected under these tables


class _TableMode:
    """EM for the top of the posterior of log-ratios, as the driver sees it."""

    name = "laplace"

    def __init__(self, e_step: EStep, rows: Any, logs: np.ndarray) -> None:
        self._e_step, self._rows, self._logs = e_step, rows, logs
        self._possible = rows.concentration > 0

    def _at(self, logs: np.ndarray) -> _Tables:
        possible, found = self._possible, self._e_step(logs)
        value = found.log_weight + float(self._rows.concentration[possible] @ logs[possible])
        return _Tables(logs, value, found.counts)

    def start(self, problem: None, run: Run) -> Step:
        return Step(self._at(self._logs))

    def advance(self, problem: None, state: _Tables, run: Run) -> Step:
        after = self._rows.posterior(np.where(self._possible, state.counts, 0.0)).mean()
        change = float(np.abs(after - np.exp(state.logs)).max(initial=0.0))
        with np.errstate(divide="ignore"):
            return Step(self._at(np.log(after)), [change])

    def read(self, problem: None, outcome: Outcome) -> Outcome:
        return outcome


def _free_entries(sizes: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """All possible entries but the last of each row."""
    row = np.repeat(np.arange(len(sizes)), sizes)
    entries = np.flatnonzero(possible)
    last = np.append(row[entries][1:] != row[entries][:-1], True)
    return entries[~last]


def _table_curvature(e_step: EStep, rows: Any, logs: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Minus the Hessian in the log-ratios; the gradient is counts + a - (sum of the row) theta."""

    def gradient(at: np.ndarray) -> np.ndarray:
        weights = np.exp(at)
        theta = weights / rows.spread(rows.sums(weights))
        with np.errstate(divide="ignore"):
            counts = e_step(np.log(theta)).counts + rows.concentration
        return (counts - rows.spread(rows.sums(counts)) * theta)[free]

    out = np.empty((len(free), len(free)))
    for i, entry in enumerate(free):
        shift = np.zeros(len(logs))
        shift[entry] = _STEP
        out[i] = (gradient(logs - shift) - gradient(logs + shift)) / (2.0 * _STEP)
    return 0.5 * (out + out.T)


def bic(log_likelihood: float, n_parameters: int, rows: float) -> float:
    """Log-likelihood minus half the parameters times the logarithm of the number of rows: higher is better.

    Examples
    --------
    >>> from credo.learning.evidence import bic
    >>> round(bic(-100.0, 4, 50), 4)
    -107.824
    """
    return float(log_likelihood - 0.5 * n_parameters * np.log(rows))


def nested_test(small: tuple[float, int], large: tuple[float, int]) -> NestedTest:
    """Test a model against one that contains it, both as (highest log-likelihood, free parameters).

    Examples
    --------
    >>> from credo.learning.evidence import nested_test
    >>> round(nested_test((-105.0, 3), (-100.0, 4)).p, 5)
    0.00157
    """
    degrees = large[1] - small[1]
    if degrees < 1:
        raise OptionError(
            f"nested models: expected more parameters in the second, got {small[1]} and {large[1]}; "
            "order them"
        )
    statistic = 2.0 * (large[0] - small[0])
    return NestedTest(float(statistic), int(degrees), float(chdtrc(degrees, max(statistic, 0.0))))


def model_posterior(log_evidence: Any, prior: Any = None) -> np.ndarray:
    """Probabilities of models given their log evidences; the prior is uniform by default.

    Examples
    --------
    >>> from credo.learning.evidence import model_posterior
    >>> model_posterior([-10.0, -12.0]).round(3)
    array([0.881, 0.119])
    """
    logs = float_array("log_evidence", log_evidence, error=OptionError)
    if logs.ndim != 1 or not len(logs) or np.isnan(logs).any() or not np.isfinite(logs).any():
        raise OptionError("log_evidence: expected one number per model, not all of them -inf")
    weights = np.ones(len(logs)) if prior is None else float_array("prior", prior, error=OptionError)
    if weights.shape != logs.shape or (weights < 0).any() or not weights.sum() > 0:
        raise OptionError(f"prior: expected {len(logs)} numbers from 0, not all of them 0")
    with np.errstate(divide="ignore"):
        logs = logs + np.log(weights)
    return np.exp(logs - logsumexp(logs))
