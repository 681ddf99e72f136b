"""A run of Bethe variational inference: starts, chunks of steps, the last evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from ...core.errors import ModelError, UnsupportedError
from ...core.records import record
from ...core.result import Status
from ...nn.arrays import precision
from ...optimise.driver import UNKNOWN, Outcome, Step, drive
from ...optimise.pace import Pace
from ...optimise.run import Budget, Run
from ..problem.base import Problem
from ..problem.starting_places import refuse_flat_along, starting_places
from .bethe_ascent import AscentCarry, AscentNumbers, AscentSettings, advance
from .bethe_expectations import gauss_hermite
from .bethe_final import Verdict, judge, mixture_of, refuse_values
from .bethe_plan import BetheLayout, BethePlan, layout_of
from .bethe_split import overlaps, relocated, useless
from .bethe_start import StartOf, warm_parameters
from .bethe_system import BetheParameters
from .bethe_zeros import without_zeros
from .components import told_components
from .descent import told_ends
from .surrogate import Surrogate

__all__ = ["AscentOutcome", "Ascents", "solve"]

_CHUNK = 50  # steps of a call at most, and between two looks whether the run may end
_QUIET = 10  # steps in a row whose change, or residual, must be small
_WINDOW = 100  # steps whose means are compared; twice as many if they are random
_SLOW = 1e-3  # of the gain that counts as standing still: an ascent goes on that is no more renewed
_WIDE = 1e5  # scales of a variable at which a belief counts as unbounded
_FAR = 20.0  # scales from its place at which the way that a component went is looked at
_ODD = 1e-3  # weight below which a component is not looked at


@dataclass(frozen=True)
class AscentOutcome:
    """What a run found."""

    mixture: Surrogate  # the best one
    status: Status  # why the run ended
    trace: dict[str, np.ndarray]  # objective, effective components, change and residual of each step
    notes: tuple[str, ...]  # about the value


def solve(
    problem: Problem, options: Any, paired: bool, budget: Budget, rng: np.random.Generator
) -> AscentOutcome:
    """Optimise from every start and keep the best."""
    with precision(double=True):
        budget = replace(budget, tol=max(options.stop, budget.tol))
        ascents = Ascents(problem, options, paired, rng)
        return drive(ascents, problem, budget, rng)  # type: ignore[no-any-return]


@record("bethe")
class Progressed(NamedTuple):
    """Where all starts stand."""

    carry: AscentCarry
    values: np.ndarray  # (steps, restarts) objectives
    components: np.ndarray  # (steps, restarts) in effect
    left: np.ndarray  # (steps, restarts) residuals
    since: int = 0  # step of the last renewal
    renewals: int = 0  # so far
    kept: tuple[AscentCarry, ...] = ()  # where all starts stood before
    residuals: tuple[np.ndarray, ...] = ()  # (restarts,) of those


class Ascents:
    """One problem in the form that is compiled, with its starts, as the driver sees it.

    Parameters
    ----------
    problem
        A hybrid problem with at least one variable.
    options
        A `Bethe`.
    paired
        Whether real variables are sampled.
    rng
        Of the starts and of all samples.
    """

    def __init__(self, problem: Problem, options: Any, paired: bool, rng: np.random.Generator) -> None:
        self.problem, self.options, self.graph = problem, options, problem.graph
        self.name, self._pace, self._tol = options.name, Pace(most=_CHUNK), options.stop
        families = {"real": paired, "simplex": options.expectation != "particles"}
        self.layout: BetheLayout = layout_of(self.graph, families, options.counting, options.wall)
        if self.layout.constant == -np.inf:
            raise problem.contradiction()
        self.plan = BethePlan(self.layout.kinds, self.layout.plans, options.components)
        self.settings = AscentSettings(
            score=options.gradient == "score",
            adam=options.optimiser == "adam",
            guarded=options.guard < 1,
            sampled=options.sampled,
            samples=options.samples,
            particles=options.expectation == "particles",
            coordinate=options.kernel == "coordinate",
            random=options.sampled or any(kind.paired for kind in self.layout.kinds),
            chunk=_CHUNK,
        )
        self.places = starting_places(self.graph)
        self.carry = self._first(rng)
        self.numbers = AscentNumbers(
            np.float64(options.rate),
            np.float64(options.decay),
            np.float64(options.guard),
            np.float64(options.wall),
            self._floors(),
        )
        self.data = jax.tree.map(jax.numpy.asarray, (self.layout.kind_data, self.layout.groups))
        self.weights = self._weights()

    def _floors(self) -> tuple[np.ndarray, ...]:
        low = np.log(self.options.floor)
        return tuple(low + np.log(self.places.scale[own]) for own in self.layout.members)

    def _weights(self) -> tuple[np.ndarray, ...]:
        """Weights of the points of each kind."""
        found = []
        for kind in self.plan.kinds:
            if kind.family == "discrete" or kind.paired:
                found.append(np.zeros(0))
            elif self.settings.particles:
                simplex = kind.family == "simplex"
                count = self.options.particles(kind.size) if simplex else self.options.nodes
                found.append(np.full(count, 1 / count))
            else:
                found.append(gauss_hermite(self.options.nodes)[1])
        return tuple(found)

    def _first(self, rng: np.random.Generator) -> AscentCarry:
        """Random components, one set per restart; the first may be those of an earlier run."""
        starts = [
            StartOf(self.layout, self.places, self.options, child).parameters(self.problem)
            for child in rng.spawn(self.options.restarts)
        ]
        if self.problem.warm is not None:
            starts[0] = warm_parameters(self.problem.warm, self.layout, self.options.components)
        parameters = jax.tree.map(lambda *each: np.stack(each), *starts)
        zero = jax.tree.map(np.zeros_like, parameters)
        seeds = rng.integers(2**31, size=len(starts))
        self.seed = int(seeds[0])
        key = np.stack([np.asarray(jax.random.PRNGKey(int(seed))) for seed in seeds])
        points = [np.stack([self._points(c, child) for child in rng.spawn(len(starts))])
                  for c in range(len(self.plan.kinds))]  # fmt: skip
        average = parameters if self.settings.random else ()
        none = np.zeros(len(starts))
        return AscentCarry(parameters, zero, zero, np.int64(0), key, tuple(points), none, average)

    def _points(self, c: int, rng: np.random.Generator) -> np.ndarray:
        kind, count = self.plan.kinds[c], self.options.nodes
        if kind.family == "discrete" or kind.paired:
            return np.zeros(0)
        if kind.family == "simplex":
            most = self.options.particles(kind.size)
            shape = (len(self.layout.members[c]), self.options.components, most, kind.size)
            return np.log(rng.standard_gamma(1.0, shape))
        return np.sort(rng.standard_normal(count)) if self.settings.particles else gauss_hermite(count)[0]

    def start(self, problem: Problem, run: Run) -> Step:
        """All starts at once: they are mapped."""
        self._tol = run.budget.tol
        none = np.zeros((0, self.options.restarts))
        return Step(Progressed(self.carry, none, none, none))

    def advance(self, problem: Problem, state: Progressed, run: Run) -> Step:
        """A chunk of steps."""
        done = len(state.values)
        # Chunks end at multiples of the largest, however fast the machine is: same seed, same answer.
        limit = min(self._pace.count, _CHUNK - done % _CHUNK, run.count)
        before = run.elapsed
        carry, values, components, left = self.chunk(state.carry, limit, self.numbers)
        self._pace.took(run.elapsed - before)
        lost = ~np.isfinite(values).all(axis=0)
        if lost.any():
            self._explain(state.carry)
        new = state._replace(
            carry=state.carry if lost.all() else carry,
            values=np.concatenate([state.values, values]),
            components=np.concatenate([state.components, components]),
            left=np.concatenate([state.left, left]),
        )
        if lost.all():
            return Step(new, [UNKNOWN] * limit, status=Status.DIVERGED)
        return self._judged(new, limit, run)

    def _judged(self, state: Progressed, limit: int, run: Run) -> Step:
        """Whether all starts stand still; then the ascent is renewed, or it is the end."""
        tol, is_last = run.budget.tol, limit == run.count
        best = self._best(state)
        residuals = [*np.nan_to_num(state.left[-limit:].max(axis=1), nan=UNKNOWN)[:-1], max(best, tol)]
        values, can_go_on = (
            state.values[state.since :],
            self.options.renewals > 0 and not self.settings.random,
        )
        if not self._is_still(values, tol, is_last):
            is_quiet = is_last and self._is_quiet(state, tol)
            return Step(state, [*residuals[:-1], best] if is_quiet else residuals)
        if not is_last and state.renewals < self.options.renewals:
            renewed = self._renewed(state, best < tol or self.settings.random)
            if renewed is not None:
                return Step(renewed, residuals)
        if best >= tol and can_go_on and not self._is_still(values, tol * _SLOW, is_last):
            return Step(state, residuals)
        return Step(state, [*residuals[:-1], best], status=None if best < tol else Status.STALLED)

    def _best(self, state: Progressed) -> float:
        """The residual of the best start; not known where steps are random."""
        left = float(state.left[-1, int(np.nanargmax(state.values[-1]))])
        return UNKNOWN if self.settings.random else left

    def _is_quiet(self, state: Progressed, tol: float) -> bool:
        """Whether the best start has small residuals: rounding may keep its values from standing still."""
        left = state.left[state.since :, int(np.nanargmax(state.values[-1]))]
        return len(left) >= _QUIET and bool((left[-_QUIET:] < tol).all())

    def _renewed(self, state: Progressed, is_done: bool) -> Progressed | None:
        """Components without use tried elsewhere, and all moments forgotten; None if that is not needed."""
        found, is_split = [], False
        for r in range(self.options.restarts):
            parameters = jax.tree.map(lambda x, r=r: np.asarray(x)[r], state.carry.parameters)
            rng = np.random.default_rng([self.seed, state.renewals, r])
            which = useless(self.layout, parameters) if _is_finite(parameters) else {}
            if which:
                fresh = StartOf(self.layout, self.places, self.options, rng).parameters(self.problem)
                parameters = relocated(self.layout, self.places, parameters, fresh, which)
                is_split = True
            found.append(parameters)
        if not is_split and is_done:
            return None
        parameters = jax.tree.map(lambda *each: np.stack(each), *found)
        zero = jax.tree.map(np.zeros_like, parameters)
        average = parameters if self.settings.random else ()
        carry = state.carry._replace(
            parameters=parameters, first=zero, second=zero, step=np.int64(0), average=average
        )
        return state._replace(
            carry=carry,
            since=len(state.values),
            renewals=state.renewals + 1,
            kept=(*state.kept, state.carry),
            residuals=(*state.residuals, state.left[-1]),
        )

    def _is_still(self, values: np.ndarray, stop: float, is_last: bool) -> bool:
        """Whether a climb may end: all starts stand still at the end of a chunk, the best one in the end."""
        if not is_last and len(values) % _CHUNK:
            return False
        settled = [self._settled(values[:, r], stop) for r in range(values.shape[1])]
        return all(settled) or (is_last and settled[int(np.nanargmax(values[-1]))])

    def read(self, problem: Problem, outcome: Outcome) -> AscentOutcome:
        """The last evaluation of where every start stands; the best."""
        state = outcome.state
        stood = [(self._verdicts(carry), left) for carry, left in self._stands(state)]
        ends = [v.value for v in stood[-1][0]] if self.options.restarts > 1 else []
        verdict, left = self._chosen([(v, float(left[v.restart])) for found, left in stood for v in found])
        self._refuse_unbounded(verdict.parameters)
        values = state.values[:, verdict.restart]
        trace = {
            "objective": values,
            "log_z": values,
            "components": state.components[:, verdict.restart],
            "change": self._changes(values),
            "residual": state.left[:, verdict.restart],
        }
        weights = np.exp(verdict.parameters.weights - np.logaddexp.reduce(verdict.parameters.weights))
        told = told_components(weights, overlaps(self.layout, verdict.parameters))
        notes = (*verdict.notes, *told_ends(ends), told)
        if state.renewals:
            notes = (*notes, f"the ascent was renewed {state.renewals} times; the best mixture is kept")
        if self.settings.random and outcome.status is Status.STALLED:
            notes = (*notes, "steps are random, and it rises no more as far as their noise lets one see")
        status = outcome.ended
        if status in (Status.CONVERGED, Status.STALLED) and not self.settings.random:
            status = Status.CONVERGED if left < self._tol else Status.STALLED
        return AscentOutcome(mixture_of(self.layout, verdict), status, trace, notes)

    def _stands(self, state: Progressed) -> list[tuple[AscentCarry, np.ndarray]]:
        """Where all starts stood at renewals and stand now, and their residuals of one step before."""
        last = state.left[-1] if len(state.left) else np.full(self.options.restarts, np.inf)
        return list(zip((*state.kept, state.carry), (*state.residuals, last), strict=True))

    def _chosen(self, found: list[tuple[Verdict, float]]) -> tuple[Verdict, float]:
        """The best mixture and its residual; of those as good up to `tol`, that nearest to rest."""
        best = max(verdict.value for verdict, _ in found) - self._tol * len(self.graph.variables)
        known = [
            (left if np.isfinite(left) else np.inf, k) for k, (v, left) in enumerate(found) if v.value >= best
        ]
        return found[min(known)[1]]

    def chunk(
        self, carry: AscentCarry, limit: int, numbers: AscentNumbers
    ) -> tuple[AscentCarry, np.ndarray, np.ndarray, np.ndarray]:
        """At most 50 steps: where they lead; value, effective components and residual before each."""
        new, (values, components, left) = advance(
            carry, self.data, self.weights, numbers, np.int32(limit), plan=self.plan, settings=self.settings
        )
        history = (values + self.layout.constant, components, left / len(self.graph.variables))
        return new, *(np.asarray(part)[:limit] for part in history)

    def _settled(self, values: np.ndarray, stop: float) -> bool:
        """Whether the objective stands still, or rises no more on average; as far as noise allows to see."""
        if np.isnan(values[-1:]).any():  # lost: nothing more will come
            return True
        changes = self._changes(values)
        if not self.settings.random and len(values) > _QUIET and (changes[-_QUIET:] < stop).all():
            return True
        window = _WINDOW * (2 if self.settings.random else 1)
        if len(values) < 2 * window:
            return False
        late, early = values[-window:], values[-2 * window : -window]
        rise, still = late.mean() - early.mean(), stop * window * len(self.graph.variables)
        if not self.settings.random:
            return bool(abs(rise) <= still)
        return bool(rise <= max(still, np.sqrt((late.var() + early.var()) / window)))

    def _changes(self, values: np.ndarray) -> np.ndarray:
        """Change of the objective per variable in each step; that of the first is not known."""
        return np.abs(np.diff(values, prepend=np.inf)) / len(self.graph.variables)

    def _verdicts(self, carry: AscentCarry) -> list[Verdict]:
        """The last evaluation of every restart."""
        found = []
        last = carry.average if self.settings.random else carry.parameters
        for r in range(self.options.restarts):
            parameters = jax.tree.map(lambda x, r=r: np.asarray(x)[r], last)
            if not _is_finite(parameters):
                continue
            if any(zeros is not None for zeros in self.layout.zeros):
                parameters = without_zeros(self.layout, parameters)
            if parameters is not None:
                found.append(judge(self, parameters, carry, r))
        if not found:
            raise UnsupportedError(
                "bethe cannot treat this problem: no component avoids the zeros of the tables; "
                "raise components or restarts, or use bp"
            )
        return found

    def _explain(self, carry: AscentCarry) -> None:
        """Name the factor whose function gives no number where beliefs are; says nothing if there is none."""
        for r in range(self.options.restarts):
            refuse_values(self, jax.tree.map(lambda x, r=r: np.asarray(x)[r], carry.parameters), zeros=False)

    def _refuse_unbounded(self, parameters: BetheParameters) -> None:
        share = np.exp(parameters.weights - np.logaddexp.reduce(parameters.weights))
        for c, kind in enumerate(self.plan.kinds):
            if kind.family != "real":
                continue
            own, members = parameters.parts[c][share > _ODD], self.layout.members[c]
            scale, centre = self.places.scale[members], self.places.centre[members]
            for way in own[:, 0] - centre:
                length = float(np.abs(way / scale).max())
                if length > _FAR:
                    direction = np.zeros(len(self.graph.variables))
                    direction[members] = way / length
                    refuse_flat_along(self.graph, self.places, direction)
            wide = np.exp(own[:, 1]).max(axis=0) > _WIDE * scale
            away = np.abs(own[:, 0] - centre).max(axis=0) > _WIDE * scale
            if (wide | away).any():
                i = int(np.flatnonzero(wide | away)[0])
                name = self.graph.variables.names[int(members[i])]
                raise ModelError(
                    f"variable '{name}': its belief widens without end (mean {own[0, 0, i]:.2g}, "
                    f"sd {np.exp(own[0, 1, i]):.2g}), so the product of the factors has no finite integral; "
                    "add a factor that falls off, such as potentials.gaussian"
                )


def _is_finite(parameters: BetheParameters) -> bool:
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(parameters))
