r"""Nonparametric variational inference: a mixture of equal Gaussians, fitted by local expansions.

    q(y) = (1/N) sum_n N(y; mu_n, v_n I)

The evidence bound E_q[log f] + H(q) <= log Z, with f the product of all factors, is replaced by

    L = (1/N) sum_n { log f(mu_n) + (v_n / 2) trace of the Hessian of log f at mu_n }
      - (1/N) sum_n log[ (1/N) sum_j N(mu_n; mu_j, (v_n + v_j) I) ],

a second-order expansion at the means and, by Jensen's inequality, a lower bound on the entropy: the sum over
j is the mean of q under component n. With one component it lies (D/2)(1 - log 2) below the entropy. Rounds
alternate: the means climb L without the trace, which would need third derivatives, then the variances climb
L; both by L-BFGS. A run has converged when the squared length of both slopes, about what a step could still
gain, is below tol relative to L where that exceeds one: means count in standard deviations of their
component, variances by their logarithm.

If all factors are Gaussian the expansion is exact and L is a lower bound on log Z, otherwise an estimate.
Where log f has no negative curvature at a mean, its variance grows without limit; this is reported. All
directions share one variance, so that variables of different scales are fitted poorly.

Cost: a gradient per component and step of the means, and as many Hessian products per component and round as
there are variables.

Source: Gershman, Hoffman and Blei (2012).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core import check
from ...core.density import quadratic
from ...core.errors import QueryError, UnsupportedError
from ...core.records import record
from ...core.result import Estimate, Marginals, Result, Samples, Status
from ...families.densities import MixtureDensity
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.optimisers import LBFGS, Loss
from ...optimise.run import Run
from ..problem.base import Algorithm, Budget, Problem, register
from ..problem.gaussian_system import claim, rounding
from ..problem.gradients import needs, why_no_gradients
from ..problem.located import Places
from ..problem.starting_places import starting_places
from ..sampling.starts import starting_points

__all__ = ["MixtureState", "NonparametricVI", "entropy_bound"]

_WIDEST = 24.0  # log of a variance at which it is said to have no limit
_STEPS = 200  # of L-BFGS per round and block
_FLAT = 1e-9  # slope that ends them
_LOOKS = 16  # points per component where factors are looked at in the end


@record("mixture of isotropic Gaussians")
class MixtureState(NamedTuple):
    """Where the rounds stand."""

    means: np.ndarray  # (components, n)
    log_variances: np.ndarray  # (components,)

    def inside(self, places: Places) -> MixtureState:
        """The same in the coordinates (x - centre) / scale; all scales are equal."""
        unit = places.scale[0]
        return MixtureState((self.means - places.centre) / unit, self.log_variances - 2 * np.log(unit))

    def outside(self, places: Places) -> MixtureState:
        """The same in the coordinates of the model: `inside` undone."""
        unit = places.scale[0]
        return MixtureState(places.centre + unit * self.means, self.log_variances + 2 * np.log(unit))


@register
@dataclass(frozen=True, kw_only=True)
class NonparametricVI(Algorithm):
    """A mixture of equal isotropic Gaussians, fitted by expansions at their means; for real variables."""

    name: ClassVar[str] = "nonparametric-vi"
    checkpoints: ClassVar[bool] = True
    compiles: ClassVar[bool] = True
    warm_starts: ClassVar[bool] = True
    components: int = 5  # of the mixture
    spread: float = 2.0  # of the random means at the start, in the mean width of the profiles of variables

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("components", self.components, 1)
        check.at_least("spread", self.spread, 0)

    def why_not(self, problem: Problem) -> str | None:
        """Sums over real variables whose factors can be differentiated."""
        return why_no_gradients(problem)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Alternate between means and variances until L stands still."""
        needs(self.name, "jax", "equinox")
        from ...core.log_density import LogDensity
        from .curvature import LocalShape

        if not len(problem.graph.variables):
            return _certain(self.name, problem, problem.constant)
        places = starting_places(problem.graph)
        # One unit for all variables keeps components isotropic, and models of any size near one.
        unit = float(np.exp(np.log(places.scale).mean()))
        places = replace(places, scale=np.full(len(places.scale), unit))
        density = LogDensity.of(problem.graph, places.centre, places.scale)
        first = self._start(problem, places, rng).inside(places)
        result: Result = drive(_MixtureRounds(LocalShape(density), places, first), problem, budget, rng)
        if result.status is Status.DIVERGED:
            return result
        _refuse_zeros(density, result.state.inside(places))
        return _with_samples(result, problem, rng)

    def _start(self, problem: Problem, places: Places, rng: np.random.Generator) -> MixtureState:
        n = len(problem.graph.variables)
        if problem.warm is not None:
            if not isinstance(problem.warm, MixtureState) or problem.warm.means.shape != (self.components, n):
                raise QueryError(
                    f"warm_start: expected the result of {self.name} with {self.components} components and "
                    "the same variables observed"
                )
            return problem.warm
        starts = starting_points(problem, self.components, self.spread, rng, self.name, places)
        means = np.stack([starts.values[name][:, 0] for name in problem.graph.variables.names], axis=1)
        return MixtureState(means, np.full(self.components, 2 * float(np.log(places.scale[0]))))


@record("nonparametric-vi")
class _MixtureRound(NamedTuple):
    """Where the rounds stand, in the coordinates of the density."""

    mixture: MixtureState
    value: float  # L
    number: int  # of rounds so far


class _MixtureRounds:
    """The rounds as the driver sees them."""

    name = NonparametricVI.name

    def __init__(self, shape: Any, places: Places, first: MixtureState) -> None:
        self._shape, self._places, self._first = shape, places, first

    def start(self, problem: Problem, run: Run) -> Step:
        first = self._first
        return Step(_MixtureRound(first, -_cost(self._shape, first.means)(first.log_variances)[0], 0))

    def advance(self, problem: Problem, state: _MixtureRound, run: Run) -> Step:
        means = _best_means(self._shape, state.mixture)
        log_variances, value = _best_variances(self._shape, means, state.mixture.log_variances)
        is_lost = not np.isfinite(value) or log_variances.max() > _WIDEST
        new = _MixtureRound(MixtureState(means, log_variances), value, state.number + 1)
        if is_lost:
            trace = {"change": [1.0], "residual": [1.0], "objective": [value]}
            return Step(new, [UNKNOWN], trace, Status.DIVERGED)
        change = abs(value - state.value) / max(1.0, abs(value)) if state.number else 1.0
        residual = _left(self._shape, new.mixture) / max(1.0, abs(value))
        is_stuck = residual >= run.budget.tol and _is_same(state.mixture, new.mixture)
        trace = {"change": [change], "residual": [residual], "objective": [value]}
        return Step(new, [residual], trace, Status.STALLED if is_stuck else None)

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        unit = float(self._places.scale[0])
        constant = problem.constant + len(problem.graph.variables) * float(np.log(unit))
        return _read(problem, outcome, outcome.state.mixture.outside(self._places), constant)


def _best_means(shape: Any, state: MixtureState) -> np.ndarray:
    """Climb the first-order objective."""
    variances = np.exp(state.log_variances)
    count = len(variances)

    def downhill(flat: np.ndarray) -> tuple[float, np.ndarray]:
        means = flat.reshape(state.means.shape)
        values, slopes = shape.slopes(means)
        bound, by_mean, _ = entropy_bound(means, variances)
        return -(values.mean() + bound), -(slopes / count + by_mean).ravel()

    return _lowest(downhill, state.means.ravel()).reshape(state.means.shape)


def _left(shape: Any, state: MixtureState) -> float:
    """What steps along both slopes could still gain, about."""
    variances = np.exp(state.log_variances)
    _, slopes = shape.slopes(state.means)
    by_mean = slopes / len(variances) + entropy_bound(state.means, variances)[1]
    by_log = _cost(shape, state.means)(state.log_variances)[1]
    # A component has one share of N of the weight: its slopes count N times.
    return float(len(variances) * ((variances[:, None] * by_mean**2).sum() + (by_log**2).sum()))


def _is_same(one: MixtureState, other: MixtureState) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _best_variances(shape: Any, means: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, float]:
    """Climb the second-order objective; the variances and L."""
    cost = _cost(shape, means)
    logs = _lowest(cost, start)
    return logs, -cost(logs)[0]


def _lowest(cost: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray) -> np.ndarray:
    return LBFGS().minimise(Loss(cost), start, Budget(_STEPS, _FLAT))[0]


def _cost(shape: Any, means: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """-L and its slope as functions of log variances; the expansion at the means is fixed."""
    values, traces = shape.slopes(means)[0], shape.traces(means)
    count = len(means)

    def downhill(logs: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(all="ignore"):  # where there is no number, a search steps back
            variances = np.exp(logs)
            bound, _, by_variance = entropy_bound(means, variances)
            value = (values + 0.5 * variances * traces).mean() + bound
            return -float(value), -(0.5 * traces / count + by_variance) * variances

    return downhill


def _refuse_zeros(density: Any, state: MixtureState) -> None:
    """A factor that is zero, or no number, where components have weight is not seen at their means."""
    from ..problem.potentials import log_values

    noise = np.random.default_rng(0).standard_normal((_LOOKS, *state.means.shape))
    points = state.means + np.exp(0.5 * state.log_variances)[:, None] * noise
    if np.isneginf(log_values(density, points.reshape(-1, points.shape[-1]))).any():
        raise UnsupportedError(
            "nonparametric-vi cannot treat this problem: a factor is zero where components have weight, so "
            "that E[log f] is -inf; use gibbs, metropolis or nuts"
        )


def _certain(name: str, problem: Problem, constant: float) -> Result:
    variables = problem.graph.variables
    samples = Samples(variables, np.zeros((problem.samples, 0), dtype=np.int64)) if problem.samples else None
    log_z = Estimate(constant, "exact")
    marginals = Marginals(variables, np.zeros(0), {})
    return Result(name, Status.EXACT, log_z=log_z, marginals=marginals, samples=samples)


def _read(problem: Problem, outcome: Outcome, state: MixtureState, constant: float) -> Result:
    variables, graph = problem.graph.variables, problem.graph
    means, sds = state.means, np.exp(0.5 * state.log_variances)
    weights = np.full(len(means), 1 / len(means))
    trace = {name: np.array(outcome.trace.get(name, ())) for name in ("change", "residual", "objective")}
    result = Result(
        _MixtureRounds.name,
        outcome.ended,
        marginals=Marginals(
            variables,
            np.zeros(0),
            {v: MixtureDensity(weights, means[:, i], sds) for i, v in enumerate(variables.names)},
        ),
        trace={**trace, "objective": constant + trace["objective"], "log_z": constant + trace["objective"]},
        state=state,
    )
    if outcome.status is Status.DIVERGED:
        note = (
            "the variance of a component grows without limit: log f has no negative curvature at its mean "
            "(as with absolute values, or far from the modes); use bethe or svgd"
        )
        return replace(result, notes=(note,))
    is_exact = all(g.function is quadratic for g in graph.batches if g.scopes.shape[1])
    doubt = rounding(graph, np.abs(means).max(axis=0) + sds.max())
    log_z, notes = claim(constant + outcome.state.value, "lower" if is_exact else "estimate", doubt)
    return replace(result, log_z=log_z, notes=notes)


def _with_samples(result: Result, problem: Problem, rng: np.random.Generator) -> Result:
    if not problem.samples:
        return result
    variables = problem.graph.variables
    means, sds = result.state.means, np.exp(0.5 * result.state.log_variances)
    part = rng.integers(len(means), size=problem.samples)
    drawn = means[part] + sds[part, None] * rng.standard_normal((problem.samples, len(variables)))
    states = np.full(drawn.shape, -1, dtype=np.int64)
    values = {v: drawn[:, i] for i, v in enumerate(variables.names)}
    return replace(result, samples=Samples(variables, states, values))


def entropy_bound(means: np.ndarray, variances: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """A lower bound on the entropy of the mixture, and its derivatives by the means and the variances.

    Parameters
    ----------
    means
        (components, dimension)
    variances
        (components,) one for all directions.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.inference.variational.nonparametric_vi import entropy_bound
    >>> bound, entropy = entropy_bound(np.zeros((1, 2)), np.ones(1))[0], np.log(2 * np.pi * np.e)
    >>> round(bound, 4), round(float(entropy), 4)
    (2.531, 2.8379)
    """
    count, dimension = means.shape
    gap = means[:, None] - means[None]
    squares = (gap**2).sum(axis=-1)
    total = variances[:, None] + variances
    logs = -0.5 * (squares / total + dimension * np.log(2 * np.pi * total)) - np.log(count)
    top = logs.max(axis=1, keepdims=True)
    weight = np.exp(logs - top)
    norm = weight.sum(axis=1, keepdims=True)
    value = -float((top[:, 0] + np.log(norm[:, 0])).mean())
    share = weight / norm / count
    both = share + share.T  # a pair counts once for each of its two ends
    by_mean = (both[..., None] * gap / total[..., None]).sum(axis=1)
    by_variance = -(both * 0.5 * (squares / total - dimension) / total).sum(axis=1)
    return value, by_mean, by_variance
