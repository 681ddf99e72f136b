"""How the Bethe value of a mixture of Gaussian trees is climbed.

By quadrature: L-BFGS, and Adam from where its line search finds no way up, because slope and value disagree
by the error of the quadrature. It has converged when the slope is below `tol`, or smaller than the difference
that twice as many nodes make to it. By samples: Adam. The rate of Adam falls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ...core.result import Status
from ...nn.arrays import precision
from ...nn.compiled import Compiled
from .gaussian_tree_value import Arrays, GaussianSystem, Parameters, estimated, hermite, value_and_slopes

__all__ = ["Ascent", "GaussianSystem", "Parameters", "climb", "value_and_slopes"]

_CHUNK = 50  # steps of Adam between two looks at the clock
_HALF_LIFE = 100.0  # steps after which the rate of Adam begins to fall
_MEMORY = 10  # pairs kept by L-BFGS
_FLAT = 1e-4  # of tol: relative change of the value that ends L-BFGS


@dataclass(frozen=True)
class Ascent:
    """Where a climb ended."""

    parameters: Parameters  # the last ones
    status: Status  # why it ended
    values: np.ndarray  # after each step, noisy if estimated by samples
    changes: np.ndarray  # largest slope after each step

    def then(self, climb: Callable[[Parameters, int], Ascent], max_iter: int) -> Ascent:
        """Go on from here with the steps that are left, unless the run was stopped."""
        left = max_iter - len(self.values)
        if left <= 0 or self.status in (Status.OUT_OF_TIME, Status.INTERRUPTED, Status.DIVERGED):
            return self
        new = climb(self.parameters, left)
        values, changes = np.append(self.values, new.values), np.append(self.changes, new.changes)
        return Ascent(new.parameters, new.status, values, changes)


def climb(
    system: GaussianSystem,
    start: Parameters,
    *,
    learn_weights: bool,
    max_iter: int,
    tol: float,
    deadline: float,
    estimate: str,
    points: int,
    rate: float,
    rng: np.random.Generator,
    report: Callable[[int, float], None],
) -> Ascent:
    """Climb by L-BFGS on the quadrature, otherwise by Adam; `points` are nodes, or samples per step.

    The weights stay equal until L-BFGS has converged once: freed too early, one component takes them all.
    """
    if estimate == "samples":
        return _adam(
            system, start, learn_weights, max_iter, tol, deadline, (estimate, points), rate, rng, report
        )
    stages = [False, True] if learn_weights and len(start.logits) > 1 else [False]
    found = Ascent(start, Status.OUT_OF_ITERATIONS, np.zeros(0), np.zeros(0))
    for free in stages:

        def climb(at: Parameters, left: int, free: bool = free) -> Ascent:
            return _lbfgs(system, at, free, left, tol, deadline, points, report)

        found = found.then(climb, max_iter)
    if found.status is Status.STALLED and not _is_flat(system, found.parameters, points):
        how = (estimate, points)
        found = found.then(
            lambda at, left: _adam(system, at, stages[-1], left, tol, deadline, how, rate, rng, report),
            max_iter,
        )
    if found.status in (Status.STALLED, Status.OUT_OF_ITERATIONS) and _is_flat(
        system, found.parameters, points
    ):
        found = replace(found, status=Status.CONVERGED)
    return found


def _is_flat(system: GaussianSystem, p: Parameters, nodes: int) -> bool:
    """Whether no slope is larger than what twice as many nodes change."""
    coarse, fine = (value_and_slopes(system, p, nodes=k)[1] for k in (nodes, 2 * nodes))
    largest = max(float(np.abs(s).max()) for s in coarse)
    return largest <= max(float(np.abs(s - t).max()) for s, t in zip(coarse, fine, strict=True))


def _lbfgs(
    system: GaussianSystem, start: Parameters, learn_weights: bool, max_iter: int, tol: float,
    deadline: float,
    nodes: int, report: Callable[[int, float], None],
) -> Ascent:  # fmt: skip
    from scipy.optimize import minimize

    shapes = [np.shape(part) for part in start]
    cuts = np.cumsum([int(np.prod(s)) for s in shapes])[:-1]
    here = np.concatenate([np.ravel(part) for part in start])
    values: list[float] = []
    changes: list[float] = []
    last = [0.0, 0.0]

    def read(x: np.ndarray) -> Parameters:
        return Parameters(*(part.reshape(s) for part, s in zip(np.split(x, cuts), shapes, strict=True)))

    def cost(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = value_and_slopes(system, read(x), nodes=nodes)
        if not learn_weights:
            slopes = slopes._replace(logits=np.zeros(shapes[-1]))
        slope = np.concatenate([np.ravel(part) for part in slopes])
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return np.inf, np.zeros(len(x))  # the line search steps back
        last[:] = [value, float(np.abs(slope).max())]
        return -value, -slope

    def watch(intermediate_result: Any) -> None:
        here[:] = intermediate_result.x
        values.append(last[0])
        changes.append(last[1])
        report(len(values), last[0])
        if time.perf_counter() > deadline:
            raise StopIteration

    if not np.isfinite(cost(here)[0]):
        return Ascent(start, Status.DIVERGED, np.zeros(0), np.zeros(0))
    options = {"maxiter": max_iter, "gtol": tol, "ftol": tol * _FLAT, "maxcor": _MEMORY}
    try:
        found = minimize(cost, here.copy(), jac=True, method="L-BFGS-B", callback=watch, options=options)
        here[:] = found.x
        status = {0: Status.CONVERGED, 1: Status.OUT_OF_ITERATIONS}.get(found.status, Status.STALLED)
        if time.perf_counter() > deadline:
            status = Status.OUT_OF_TIME
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return Ascent(read(here), status, np.array(values), np.array(changes))


def _advance(
    p: Parameters, moments: Any, arrays: Arrays, points: Any, rate: Any, done: Any, by_weight: Any,
    *, functions: Any, estimate: str, chunk: int,
) -> Any:  # fmt: skip
    """A chunk of Adam's steps; samples are fresh in each."""
    adam = optax.scale_by_adam()

    def step(carry: Any, k: Any) -> Any:
        p, state = carry
        here = points
        if estimate == "samples":
            here = (jax.random.fold_in(points[0], done + k), points[1])
        value, slopes = estimated(p, arrays, here, functions=functions, estimate=estimate)
        slopes = slopes._replace(logits=slopes.logits * by_weight)
        move, state = adam.update(slopes, state)
        size = rate / jnp.sqrt(1.0 + (done + k) / _HALF_LIFE)
        p = jax.tree.map(lambda x, d: x + size * d, p, move)
        largest = jnp.max(jnp.stack([jnp.abs(s).max() for s in slopes]))
        return (p, state), (value, largest)

    state = optax.ScaleByAdamState(*moments)
    (p, state), history = jax.lax.scan(step, (p, state), jnp.arange(chunk))
    return p, tuple(state), history


_ADVANCE = Compiled(_advance)


def _adam(
    system: GaussianSystem, start: Parameters, learn_weights: bool, max_iter: int, tol: float,
    deadline: float,
    how: tuple[str, int], rate: float, rng: np.random.Generator, report: Callable[[int, float], None],
) -> Ascent:  # fmt: skip
    values: list[np.ndarray] = []
    changes: list[np.ndarray] = []
    status, done = Status.OUT_OF_ITERATIONS, 0
    zeros = Parameters(*(np.zeros_like(part) for part in start))
    p, state = start, (np.int32(0), zeros, zeros)
    with precision(double=True):
        points: Any = hermite(how[1])
        if how[0] == "samples":
            points = (jax.random.PRNGKey(int(rng.integers(2**31))), np.zeros((how[1], 0)))
        while done < max_iter:
            chunk = min(_CHUNK, max_iter - done)
            try:
                new, state, history = _ADVANCE(
                    p, state, system.arrays, points, rate, done, float(learn_weights),
                    functions=system.functions, estimate=how[0], chunk=chunk,
                )  # fmt: skip
                new = Parameters(*(np.asarray(part) for part in new))
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
                break
            if not all(np.isfinite(part).all() for part in new):
                status = Status.DIVERGED
                break
            p, done = new, done + chunk
            values.append(np.asarray(history[0]) + system.constant)
            changes.append(np.asarray(history[1]))
            report(done, float(values[-1].mean()))
            if changes[-1].max() < tol:
                status = Status.CONVERGED
                break
            if time.perf_counter() > deadline:
                status = Status.OUT_OF_TIME
                break
    joined = [np.concatenate(part) if part else np.zeros(0) for part in (values, changes)]
    return Ascent(p, status, *joined)
