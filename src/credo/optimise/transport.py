r"""The public call `credo.transport`: exact plans, and plans with entropy.

    exact      equally many points of equal weight: an assignment; otherwise a linear program
    entropic   Sinkhorn's iteration (`sinkhorn.py`)

Potentials of an assignment are shortest paths: with i matched to s(i), beta_j - beta_s(i) <= M_ij - M_is(i).
"""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import ConvergenceError, ConvergenceWarning, DataError, OptionError, TooLargeError
from ..core.ground_cost import GroundCost
from ..core.numbers import float_array
from ..core.result import Status
from ..core.transport import Transport
from .driver import Observer, Outcome, advice, drive
from .run import Budget, call
from .run import check as look
from .sinkhorn import Scaling, ScalingProblem

__all__ = ["transport"]

_SUM = 1e-6  # how far the sums of weights may be from one
_STORED = 1 << 27  # entries of costs and K that are kept as a whole
_PROGRAM = 4_000_000  # pairs of an exact linear program
_COARSEST = 0.05  # of the range of costs: where a schedule begins
_FACTOR = 0.25  # from one eps of a schedule to the next
_EXACT = 1e-12  # relative slack of shortest paths that is rounding


def transport(
    x: Any = None,
    y: Any = None,
    *,
    cost: Any = "euclidean",
    weights: tuple[Any, Any] = (None, None),
    epsilon: float = 0.0,
    schedule: Literal["auto", "none"] | list[float] = "auto",
    memory: Literal["auto", "stored", "chunks"] = "auto",
    precision: Literal["double", "single"] = "double",
    max_iter: int = 10_000,
    tol: float | None = None,
    seconds: float | None = None,
    strict: bool = False,
    on_step: Observer | None = None,
) -> Transport:
    """The cheapest way to move the mass of one set of points onto another.

    Parameters
    ----------
    x, y
        Points, shapes (n, d) and (m, d), or numbers. Without them `cost` is the matrix.
    cost
        `"euclidean"`, `"squared"`, a function (n, d), (m, d) -> (n, m), or a matrix (n, m) without points.
    weights
        Masses of the points of either side, which sum to one; None: equal ones.
    epsilon
        Weight of the entropy of the plan, in the units of the cost; 0 asks for an exact plan.
    schedule
        Larger values of epsilon to begin with: by themselves where epsilon is small beside the costs, none,
        or as listed.
    memory, precision
        Whether a matrix is kept or made a block at a time, which takes longer and serves clouds of 10^5
        points; and the width of its numbers.
    max_iter, tol, seconds
        Iterations, those of larger epsilons included; the error of the marginals that counts as none, 1e-9
        (single precision: 1e-5) without saying; wall time.
    strict
        Raise `ConvergenceError` instead of warning where the marginals are not met.
    on_step
        Called as `on_step(iteration, view)`; see `credo.infer`.

    Examples
    --------
    >>> import credo
    >>> found = credo.transport([0.0, 1.0], [0.5, 3.0])
    >>> found.plan.tolist(), found.cost
    ([[0.5, 0.0], [0.0, 0.5]], 1.25)
    >>> credo.transport([0.0, 1.0], [0.5, 3.0], epsilon=0.1).plan.round(3).tolist()
    [[0.497, 0.003], [0.003, 0.497]]
    """
    costs = GroundCost.of(x, y, cost)
    a, b = (_checked(side, w, n) for side, w, n in zip("ab", weights, costs.shape, strict=True))
    check.at_least("epsilon", epsilon, 0)
    check.one_of("memory", memory, ["auto", "stored", "chunks"])
    check.one_of("precision", precision, ["double", "single"])
    tol = (1e-9 if precision == "double" else 1e-5) if tol is None else tol
    began = perf_counter()
    with call(on_step, seconds):
        if epsilon == 0:
            found = _exact(costs, a, b)
        else:
            is_stored = memory == "stored" or (memory == "auto" and len(a) * len(b) <= _STORED)
            way = Scaling(epsilons=_epsilons(costs, epsilon, schedule), stored=is_stored, precision=precision)
            found = _entropic(costs, a, b, way, Budget(max_iter, tol, seconds))
    if not found.converged:
        sentence = (
            f"transport: {advice(found.status, found.trace['marginal_error'].tolist(), 'raise epsilon')}"
        )
        if strict:
            raise ConvergenceError(sentence)
        warnings.warn(sentence, ConvergenceWarning, stacklevel=2)
    object.__setattr__(found, "seconds", perf_counter() - began)
    return found


def _checked(side: str, weights: Any, count: int) -> np.ndarray:
    """Masses of one side."""
    if weights is None:
        return np.full(count, 1.0 / count)
    found = float_array(f"weights {side}", weights, error=DataError)
    if found.shape != (count,):
        raise DataError(f"weights {side}: expected {count} numbers, one per point, got shape {found.shape}")
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise DataError(f"weights {side}: expected finite numbers of at least 0, got {found.min():g}")
    if abs(found.sum() - 1.0) > _SUM:
        raise DataError(f"weights {side}: expected a sum of 1, got {found.sum():.6g}; divide by it")
    return np.asarray(found / found.sum())


def _epsilons(costs: GroundCost, epsilon: float, schedule: Any) -> list[float]:
    if not isinstance(schedule, str):
        for value in schedule:
            check.finite("schedule", value)
        if not all(high > low for high, low in zip(schedule, [*schedule[1:], epsilon], strict=True)):
            raise OptionError(
                f"schedule: expected decreasing values above epsilon={epsilon:g}, got {schedule}"
            )
        return [*map(float, schedule), epsilon]
    check.one_of("schedule", schedule, ["auto", "none"])
    low, high = costs.reach if schedule == "auto" else (0.0, 0.0)
    made, value = [], _COARSEST * (high - low)
    while value * _FACTOR > epsilon:
        made.append(value)
        value *= _FACTOR
    return [*made, epsilon]


def _entropic(costs: GroundCost, a: np.ndarray, b: np.ndarray, way: Scaling, budget: Budget) -> Transport:
    """Points without mass have no part in the iteration: their potentials are -inf."""
    rows, columns = np.flatnonzero(a), np.flatnonzero(b)
    part = costs if len(rows) == len(a) and len(columns) == len(b) else costs.between(rows, columns)
    outcome: Outcome = drive(way, ScalingProblem(part, a[rows], b[columns]), budget)
    alpha, beta = np.full(len(a), -np.inf), np.full(len(b), -np.inf)
    alpha[rows], beta[columns] = way.potentials(outcome.state)
    trace = {name: np.array(numbers) for name, numbers in outcome.trace.items()}
    # A run that was cut on the way has the plan of a larger epsilon.
    return _measured(costs, a, b, alpha, beta, way.epsilons[outcome.state.phase], outcome.ended, trace)


def _measured(
    costs: GroundCost, a: np.ndarray, b: np.ndarray, alpha: np.ndarray, beta: np.ndarray, epsilon: float,
    status: Status, trace: dict[str, np.ndarray],
) -> Transport:  # fmt: skip
    """Sums over the plan of these potentials, a block at a time."""
    cost = entropy = total = wrong = 0.0
    columns = np.zeros(len(b))
    for rows in costs.blocks():
        look()
        part = costs.block(rows)
        logs = (alpha[rows, None] + beta - part) / epsilon
        plan = np.exp(logs)
        cost += float((plan * part).sum())
        entropy -= float((plan * np.where(plan > 0, logs, 0.0)).sum())
        sums = plan.sum(axis=1)
        wrong += float(np.abs(sums - a[rows]).sum())
        total += float(sums.sum())
        columns += plan.sum(axis=0)
    wrong += float(np.abs(columns - b).sum())
    dual = float(a[a > 0] @ alpha[a > 0] + b[b > 0] @ beta[b > 0]) - epsilon * (total - 1.0)
    return Transport(costs, (a, b), (alpha, beta), epsilon, cost, entropy, dual, wrong, status, trace=trace)


def _exact(costs: GroundCost, a: np.ndarray, b: np.ndarray) -> Transport:
    n, m = costs.shape
    is_matching = n == m and bool((a == a[0]).all() and (b == a[0]).all())
    if not is_matching and n * m > _PROGRAM:
        raise TooLargeError(
            f"transport: an exact plan of {n} x {m} points with these weights is a linear program of {n * m} "
            f"numbers, more than {_PROGRAM}; give epsilon above 0"
        )
    matrix = np.concatenate([costs.block(rows) for rows in costs.blocks()])
    pairs, alpha, beta = (_match if is_matching else _program)(matrix, a, b)
    i, j, mass = pairs
    wrong = np.abs(np.bincount(i, mass, n) - a).sum() + np.abs(np.bincount(j, mass, m) - b).sum()
    entropy = -float(mass[mass > 0] @ np.log(mass[mass > 0]))
    cost, dual = float(mass @ matrix[i, j]), float(a @ alpha + b @ beta)
    return Transport(
        costs, (a, b), (alpha, beta), 0.0, cost, entropy, dual, float(wrong), Status.EXACT, pairs,
        {"marginal_error": np.array([wrong])},
    )  # fmt: skip


def _match(matrix: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """An assignment, and shortest paths for its potentials."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(matrix)
    matched = matrix[rows, columns]
    beta = np.zeros(len(b))
    slack = _EXACT * max(1.0, float(np.abs(matrix).max()))
    for _ in range(len(b)):
        look()
        shorter = np.minimum(beta, (beta[columns] - matched + matrix.T).min(axis=1))
        if (beta - shorter).max() <= slack:
            break
        beta = shorter
    alpha = np.empty(len(a))
    alpha[rows] = (matrix[rows] - beta).min(axis=1)
    return (rows, columns, a[rows]), alpha, beta


def _program(matrix: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """A linear program by HiGHS."""
    from scipy.optimize import linprog
    from scipy.sparse import identity, kron, vstack

    n, m = matrix.shape
    sums = vstack([kron(identity(n), np.ones((1, m))), kron(np.ones((1, n)), identity(m))]).tocsc()
    # One of the sums follows from the others, which have to agree to the last bit.
    found = linprog(matrix.ravel(), A_eq=sums[:-1], b_eq=np.concatenate([a, b])[:-1], method="highs")
    if found.x is None:
        raise ConvergenceError(f"transport: the linear program was not solved: {found.message}")
    plan = found.x.reshape(n, m)
    i, j = np.nonzero(plan)
    slopes = np.append(found.eqlin.marginals, 0.0)
    return (i, j, plan[i, j]), slopes[:n], slopes[n:]
