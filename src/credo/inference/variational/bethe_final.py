"""The last evaluation of a mixture: its value with many points, and what that value guarantees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ...core.errors import ModelError, UnsupportedError
from ...core.result import Estimate
from ..problem.gaussian_system import rounding
from ..problem.potentials import evaluate, terms_of
from .bethe_ascent import AscentCarry, evaluate_at, evaluate_much
from .bethe_expectations import trapezoid
from .bethe_plan import BetheLayout, BethePlan, Kind
from .bethe_system import BetheParameters
from .surrogate import Surrogate

__all__ = ["Verdict", "judge", "mixture_of", "refuse_values"]

_WORK = 2**24  # evaluations of all factors in the last evaluation, unless final_nodes says otherwise
_TERMS = 2**28  # numbers computed for them
_AT_ONCE = 2**21  # of these held in memory
_MUCH = 2**25  # beyond, optimising the program takes less time than it saves
_NODES = (161, 81, 41, 21, 11)
_BATCHES, _DRAWS = 16, 64  # of samples
_STEPS = 200  # whose values are averaged where steps take samples
_MASS = 1e-6  # probability on zeros of a potential that is put up with
_LOOSE = 0.05  # nats the two last evaluations may differ for a bound


@dataclass(frozen=True)
class Verdict:
    """A mixture and what it is worth."""

    restart: int  # its number
    parameters: BetheParameters  # of that restart
    value: float  # free energy, sign reversed
    log_z: Estimate  # the value and what it guarantees
    notes: tuple[str, ...]  # about the evaluation


def judge(run: Any, parameters: BetheParameters, carry: AscentCarry, r: int) -> Verdict:
    """Evaluate the parameters of a restart."""
    bounded = (run.layout.is_tree and run.options.counting >= 1) or run.options.components == 1
    families = {kind.family for kind in run.plan.kinds}
    if families == {"discrete"} and not run.settings.sampled:
        value = float(_in_passing(run, parameters, carry, r, 1, 0.0)[0])
        return Verdict(r, parameters, value, Estimate(value, "lower" if bounded else "estimate"), ())
    last = _Last(run)
    if "real" not in families and run.settings.random and not run.settings.sampled:
        # Steps that do not move take samples enough, and no other program is compiled.
        values, higher = (_in_passing(run, parameters, carry, r, _STEPS, wall) for wall in (0.0, 1.0))
    else:
        values, higher = (last.values(parameters, wall) for wall in (0.0, 1.0))
    if not np.isfinite(values).all():
        _refuse_tails(run, parameters, last.nodes)
    notes = []
    mass = float(values[0] - higher[0])  # a wall higher by one costs the probability of standing on it
    if mass > _MASS:
        refuse_values(run, parameters, zeros=True)
        notes.append(f"beliefs meet zeros of factors with probability {mass:.2g}; these count as exp(-wall)")
    if last.is_random:
        value, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
        notes.append(f"log Z is a mean over samples, with a standard error of {error:.2g}")
        return Verdict(r, parameters, value, Estimate(value), tuple(notes))
    value, error = float(values[0]), abs(float(values[0] - values[1]))
    error += rounding(run.graph, _sizes(run.layout, parameters))
    if bounded and not notes and error <= _LOOSE * max(1.0, 0.01 * abs(value)):
        return Verdict(r, parameters, value, Estimate(value - error, "lower"), ())
    if error > _LOOSE / 10:
        notes.append(f"the last evaluation is certain up to {error:.2g}, by half its points and by rounding")
    return Verdict(r, parameters, value, Estimate(value), tuple(notes))


def _sizes(layout: BetheLayout, parameters: BetheParameters) -> np.ndarray:
    """How large the values of every real variable are, (n,)."""
    sizes = np.zeros(len(layout.graph.variables))
    for kind, own, part in zip(layout.kinds, layout.members, parameters.parts, strict=True):
        if kind.family == "real":
            sizes[own] = (np.abs(part[:, 0]) + np.exp(part[:, 1])).max(axis=0)
    return sizes


def _in_passing(
    run: Any, parameters: BetheParameters, carry: AscentCarry, r: int, count: int, wall: float
) -> np.ndarray:
    """Values by the program of the steps, which stands still at the rate zero; the wall raised by `wall`."""
    whole = jax.tree.map(lambda all_, own: _replaced(all_, own, r), carry.parameters, parameters)
    still = run.numbers._replace(rate=np.float64(0), wall=run.numbers.wall + wall)
    state, found = carry._replace(parameters=whole), []
    for _ in range(-(-count // run.settings.chunk)):
        state, values, _, _ = run.chunk(state, min(count, run.settings.chunk), still)
        found.append(values[:, r])
    return np.concatenate(found)


def _replaced(values: Any, own: Any, r: int) -> np.ndarray:
    found = np.array(values)
    found[r] = own
    return found


class _Last:
    """The program of the last evaluation: points on a fine grid where they are few enough, else samples."""

    def __init__(self, run: Any) -> None:
        self.run = run
        pairs = zip(run.plan.groups, run.layout.sources, strict=True)
        self.terms = [
            1 if source is None or group.form is not None else terms_of(source) for group, source in pairs
        ]
        self.nodes = self._nodes()
        kinds = tuple(
            Kind(
                kind.family, kind.size, kind.family == "simplex" or (kind.family == "real" and not self.nodes)
            )
            for kind in run.plan.kinds
        )
        self.plan = BethePlan(kinds, run.plan.groups, run.plan.components)
        self.settings = run.settings._replace(samples=_DRAWS, sampled=False, random=False, particles=False)
        points, weights = trapezoid(self.nodes) if self.nodes else (np.zeros(0), np.zeros((2, 0)))
        real = [kind.family == "real" and not kind.paired for kind in kinds]
        self.points = tuple(points if own else np.zeros(0) for own in real)
        self.weights = tuple(weights if own else np.zeros((2, 0)) for own in real)
        self.batch = tuple(self._batch(g) for g in range(len(run.plan.groups)))

    @property
    def is_random(self) -> bool:
        return any(kind.paired for kind in self.plan.kinds)

    def _size(self, group: Any, nodes: int) -> float:
        """Evaluations per factor."""
        size, samples = float(self.run.plan.components), 1
        needs_points = group.needs_points(self.run.plan.components)
        for c, states in group.axes:
            family = self.run.plan.kinds[c].family
            if family == "discrete":
                size *= states
            elif not needs_points:
                continue
            elif family == "real" and nodes:
                size *= nodes
            else:
                samples = _DRAWS
        return size * samples

    def _nodes(self) -> int:
        """Points per real variable; zero if only samples are possible."""
        given = self.run.options.final_nodes
        if given is not None:
            return int(given) + (int(given) + 1) % 2
        groups, counts = self.run.plan.groups, [len(data.scopes) for data in self.run.layout.groups]
        for nodes in _NODES:
            sizes = [self._size(g, nodes) * count for g, count in zip(groups, counts, strict=True)]
            if sum(sizes) <= _WORK and float(np.dot(sizes, self.terms)) <= _TERMS:
                return nodes
        sizes = [self._size(g, _NODES[-1]) for g in groups]
        return _NODES[-1] if float(np.max(np.multiply(sizes, self.terms))) <= _AT_ONCE else 0

    def _work(self) -> float:
        """Numbers computed in one evaluation."""
        counts = [len(data.scopes) for data in self.run.layout.groups]
        sizes = [self._size(g, self.nodes) for g in self.run.plan.groups]
        return float(self.run.plan.components * np.dot(np.multiply(sizes, self.terms), counts))

    def _batch(self, g: int) -> int:
        """Factors of a group evaluated at a time; 0 for all."""
        size = self._size(self.run.plan.groups[g], self.nodes) * self.terms[g]
        count = len(self.run.layout.groups[g].scopes)
        return 0 if size * count <= _AT_ONCE else max(1, int(_AT_ONCE / size))

    def values(self, parameters: BetheParameters, wall: float) -> np.ndarray:
        """By all and by half of the points, or one per batch of samples; the wall raised by `wall`."""
        run = self.run
        numbers = run.numbers._replace(wall=run.numbers.wall + wall)
        program, found = evaluate_much if self._work() > _MUCH else evaluate_at, []
        for b in range(_BATCHES if self.is_random else 1):
            values = program(
                parameters, run.data, self.points, self.weights, numbers, jax.random.PRNGKey(b),
                plan=self.plan, settings=self.settings, batch=self.batch,
            )  # fmt: skip
            found.append(np.asarray(values) + run.layout.constant)
        return np.array([values[0] for values in found]) if self.is_random else found[0]


def _refuse_tails(run: Any, parameters: BetheParameters, nodes: int) -> None:
    """Refuse what is no number at the points of the last evaluation, which reach further than the steps'."""
    refuse_values(run, parameters, zeros=False, nodes=nodes)
    raise ModelError(
        "the free energy of the beliefs found is no number: some log-potential is NaN or +inf where they "
        "have little mass; write it so that it is a number or -inf everywhere"
    )


def refuse_values(run: Any, parameters: BetheParameters, zeros: bool, nodes: int = 0) -> None:
    """Refuse a potential that is no number (or zero, if `zeros`) near the beliefs, if there is one."""
    for plan, source, data in zip(run.plan.groups, run.layout.sources, run.layout.groups, strict=True):
        # A closed form is a number everywhere, and zero in some states or nowhere: one point says it all.
        count = 0 if plan.form is not None else nodes or (21 if len(plan.axes) < 3 else 5)
        points = trapezoid(count)[0] if count else np.zeros(1)
        for m in range(run.plan.components if source is not None else 0):
            columns = [_column(run, plan, data, parameters, m, j, points) for j in range(len(plan.axes))]
            values = evaluate(run.graph, source, columns)  # refuses what is no number
            zero = np.isneginf(values).reshape(len(values), -1).any(axis=1)
            if zeros and zero.any():
                factor = run.graph.factors[int(source.factors[int(np.flatnonzero(zero)[0])])]
                raise UnsupportedError(
                    f"bethe cannot treat this problem: the factor over {list(factor.names)} is zero on part "
                    "of its domain, where a Gaussian or Dirichlet belief is not: the free energy is -inf; "
                    "give it a small positive weight there, or substitute the variable (its logarithm)"
                )


def _column(
    run: Any, plan: Any, data: Any, parameters: BetheParameters, m: int, j: int, points: np.ndarray
) -> np.ndarray:
    """Values of variable j of all factors of a group under component m, on an axis of their own."""
    c, states = plan.axes[j]
    family, part = run.plan.kinds[c].family, parameters.parts[c][m][:, data.scopes[:, j]].T
    shape = [len(part), *[1] * len(plan.axes)]
    if family == "simplex":
        alpha = np.exp(part)
        return np.asarray(alpha / alpha.sum(axis=1, keepdims=True)).reshape(*shape, -1)
    column = np.tile(np.arange(states), (len(part), 1)) if family == "discrete" else (
        part[:, :1] + np.exp(part[:, 1:]) * points
    )  # fmt: skip
    shape[j + 1] = column.shape[1]
    return np.asarray(column.reshape(shape))


def mixture_of(layout: BetheLayout, verdict: Verdict) -> Surrogate:
    """The mixture as users see it."""
    variables, parameters = layout.graph.variables, verdict.parameters
    m = len(parameters.weights)
    means, sds = np.zeros((0, m)), np.zeros((0, m))
    log_tables = np.zeros((int(variables.state_start[-1]), m))
    concentrations: dict[str, np.ndarray] = {}
    for kind, own, part in zip(layout.kinds, layout.members, parameters.parts, strict=True):
        if kind.family == "real":
            means, sds = part[:, 0].T, np.exp(part[:, 1]).T
        elif kind.family == "simplex":
            for i, alpha in zip(own, np.exp(np.moveaxis(part, -1, 0)), strict=True):
                concentrations[variables.names[int(i)]] = alpha
        else:
            for i, logits in zip(own, np.moveaxis(part, -1, 0), strict=True):
                logs = logits[:, : variables.sizes[i]]
                logs = logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)
                at = slice(*variables.state_start[i : i + 2])
                log_tables[at] = np.where(logs < -1e8, -np.inf, logs).T
    weights = parameters.weights - np.logaddexp.reduce(parameters.weights)
    weights = np.where(weights < -1e8, -np.inf, weights)
    return Surrogate(variables, weights, means, sds, log_tables, concentrations, verdict.log_z)
