"""What the algorithms of this folder share: batches of problems of one structure, starts, and reading."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core.errors import MissingExtraError, OptionError, QueryError, ZeroProbabilityError
from ...core.records import record
from ...core.result import Estimate, Result, Status
from ...optimise.driver import judge
from ...structures.region_builders import REGIONS
from ..messages.gbp import GBP
from ..messages.region_plan import RegionTables
from ..problem.base import Algorithm, Budget, ContradictoryRowError, Problem
from ..problem.instances import Instances, TableBatch, gather
from .plan import NetworkPlan
from .readout import RegionAnswer, logs_of, polish_bp, polish_gbp, project
from .region_system import RegionSystem, system_of

__all__ = ["BeliefsUnderWay", "FreeEnergyMinimiser", "NetworkState", "check_regions"]


@record("network state")
@dataclass(frozen=True)
class NetworkState:
    """What a warm start needs: the parameters found, and for which structure."""

    leaves: tuple[np.ndarray, ...]  # of the tree of parameters
    shapes: tuple[Any, ...]  # of the parameters
    multiplier: np.ndarray | None = None  # of the disagreements between regions; None for zeros


class BeliefsUnderWay(NamedTuple):
    """Where some steps on the free energy of one problem led."""

    log_z: float  # -F of the beliefs as they are
    slopes: np.ndarray  # its derivative by all log tables, the beliefs held
    state: NetworkState | None  # to go on from; None where there is nothing to move


_ROUNDING = 8  # times the rounding error of one: a residual below it says nothing


class FreeEnergyMinimiser(Algorithm):
    """Gradient steps on the region free energy of many problems of one structure at once."""

    warm_starts: ClassVar[bool] = True
    compiles: ClassVar[bool] = True
    checkpoints: ClassVar[bool] = True

    @abc.abstractmethod
    def _where(self) -> tuple[Any, int]:
        """Which root regions, and the most states of a loop that is kept whole."""

    @abc.abstractmethod
    def _plan(self) -> NetworkPlan:
        """How to minimise and how to read."""

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Minimise the free energy of one problem."""
        return self.run_models([problem], budget, rng)[0][0]

    def run_models(
        self, problems: Sequence[Problem], budget: Budget, rng: np.random.Generator
    ) -> tuple[list[Result], float]:
        """Results of problems of one structure, started from one network, and the seconds of compiling."""
        plan, where = self._make_plan(budget), self._where()
        system = system_of(problems[0].graph, *where)
        tables = [RegionTables(problem, system.plan) for problem in problems]
        if not system.n_entries:
            return [_constant(self.name, t) for t in tables], 0.0
        posed = [system.problem(t) for t in tables]
        found = self._solve(system, problems, posed, plan, rng)
        gbp = GBP(regions=where[0], max_entries=where[1])
        reader = _ResultMaker(self.name, plan, system, gbp, budget, rng)
        results = []
        for k, t in enumerate(tables):
            own = found[k * plan.restarts : (k + 1) * plan.restarts]
            results.append(reader.result(t, posed[k][1], own))
        return results, sum(f.compile_seconds for f in found)

    def lower(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> BeliefsUnderWay:
        """Some steps on the beliefs alone: -F of the beliefs as they are, and how it depends on the tables.

        For learning by turns: nothing is projected, so the derivative is that of the value, beliefs held.
        """
        system = system_of(problem.graph, *self._where())
        tables = RegionTables(problem, system.plan)
        if not system.n_entries:
            return BeliefsUnderWay(tables.constant, tables.slopes(np.empty(0)), None)
        posed = system.problem(tables)
        # Multipliers that change at every turn would run away from the weights that follow them.
        found = self._solve(system, [problem], [posed], replace(self._make_plan(budget), rounds=1), rng)
        logs = [logs_of(system, one.roots, posed[1]) for one in found]
        values = [tables.log_z(own) for own in logs]
        best = int(np.argmax(values))
        parameters = found[best].parameters
        state = NetworkState(_leaves(parameters), _shapes(parameters), found[best].multiplier)
        return BeliefsUnderWay(values[best], tables.slopes(logs[best]), state)

    def takes_tables(self, instances: Instances) -> bool:
        """Whether problems of one structure go through one call."""
        return True

    def run_tables(self, instances: Instances, budget: Budget) -> TableBatch:
        """Answers to problems of one structure; all start from the same network."""
        problems = [replace(instances.problem, graph=instances.graph_of(k)) for k in range(len(instances))]
        try:
            results, _ = self.run_models(problems, budget, np.random.default_rng(0))
        except ZeroProbabilityError:
            raise ContradictoryRowError(self._contradictory(problems)) from None
        return gather(instances, results)

    def _contradictory(self, problems: Sequence[Problem]) -> int:
        """The first row that no state explains."""
        system = system_of(problems[0].graph, *self._where())
        for k, problem in enumerate(problems):
            try:
                tables = RegionTables(problem, system.plan)
                possible = system.problem(tables)[1]
                project(tables, logs_of(system, possible.astype(float), possible))
            except ZeroProbabilityError:
                return k
        return 0

    def _make_plan(self, budget: Budget) -> NetworkPlan:
        """How, within these limits."""
        plan = self._plan()
        return replace(
            plan,
            steps=budget.max_iter,
            tol=max(budget.tol, _ROUNDING * float(np.finfo(np.float64 if plan.double else np.float32).eps)),
            rounds=max(1, min(plan.rounds, budget.max_iter)),
            seconds=budget.seconds,
        )

    def _solve(
        self, system: RegionSystem, problems: Sequence[Problem], posed: Any, plan: NetworkPlan, rng: Any
    ) -> list[Any]:
        solve = _neural()
        variables = len(problems[0].graph.variables)
        first = [solve.starts_of(system, variables, plan, rng) for _ in range(plan.restarts)]
        starts = [s for problem in problems for s in _warm(problem, first)]
        repeated = [p for p in posed for _ in first]
        return solve.solve(system, repeated, starts, plan)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _ResultMaker:
    """Makes results of what was found."""

    name: str
    plan: NetworkPlan
    system: RegionSystem
    gbp: GBP
    budget: Budget
    rng: np.random.Generator

    def result(self, tables: RegionTables, possible: np.ndarray, found: Sequence[Any]) -> Result:
        raw = [logs_of(self.system, f.roots, possible) for f in found]
        answers = [project(tables, logs) for logs in raw]
        best = int(np.argmax([a.log_z for a in answers]))
        answer, chosen = answers[best], found[best]
        status = self._status(chosen)
        first = tables.log_z(raw[best])
        notes = [f"-F of the beliefs as found: {first:.10g}; projected to agree: {answer.log_z:.10g}"]
        if answer.left > 1e-6:
            notes.append(f"regions still disagree by {answer.left:.2g} after the projection")
        if status is Status.STALLED:
            notes.append(
                f"a step was smaller than stop={self.plan.stop:g}, short of the minimum: the residual is "
                f"{chosen.residual:.2g}; lower stop, or leave it out"
            )
        shown = answer
        if not self.plan.project and self.plan.polish == "none":
            shown = RegionAnswer(raw[best], first, 0.0)
        result = tables.result(self.name, shown.logs, status)
        if self.plan.polish != "none":
            other, gain = self._polish(tables, answer)
            notes.append(f"polish by {self.plan.polish}: free energy {-gain:+.3g}, {other.status.value}")
            if gain > 0:
                result = replace(other, algorithm=self.name)
        parameters = chosen.parameters
        state = NetworkState(_leaves(parameters), _shapes(parameters), chosen.multiplier)
        trace = dict(chosen.history)
        if trace:
            trace["log_z"] = tables.constant - trace["free_energy"]
        return replace(result, trace=trace, notes=tuple(notes), state=state)

    def _status(self, found: Any) -> Status:
        if not np.isfinite(found.roots).all():
            return Status.DIVERGED
        judged = judge(found.residual, self.plan.tol)
        stopped = Status.STALLED if found.stopped else Status.OUT_OF_ITERATIONS
        return judged if judged is Status.CONVERGED else found.cut or stopped

    def _polish(self, tables: RegionTables, answer: RegionAnswer) -> tuple[Result, float]:
        if self.plan.polish == "gbp":
            return polish_gbp(tables, answer, self.gbp, self.budget, self.rng)
        other, gain = polish_bp(tables, answer, self.budget, self.rng)
        return other, gain if other.converged else -np.inf  # messages that run away have no free energy


def _constant(name: str, tables: RegionTables) -> Result:
    """The answer where every variable has one state."""
    found = tables.result(name, np.empty(0), Status.EXACT)
    return replace(found, log_z=Estimate(tables.constant, "exact"))


def _warm(problem: Problem, first: list[Any]) -> list[Any]:
    """The starts, the first one replaced by the parameters of an earlier run."""
    if problem.warm is None:
        return first
    if not isinstance(problem.warm, NetworkState):
        raise QueryError(
            "warm_start: expected the result of a method that minimises a free energy by gradients"
        )
    if problem.warm.shapes != _shapes(first[0].parameters):
        raise QueryError(
            "warm_start: the parameters have other shapes; start from a run on the same structure, "
            "regions and layers"
        )
    import jax

    parameters = jax.tree.unflatten(jax.tree.structure(first[0].parameters), problem.warm.leaves)
    return [first[0]._replace(parameters=parameters, multiplier=problem.warm.multiplier), *first[1:]]


def _leaves(parameters: Any) -> tuple[np.ndarray, ...]:
    import jax

    return tuple(np.asarray(leaf) for leaf in jax.tree.leaves(parameters))


def _shapes(parameters: Any) -> tuple[Any, ...]:
    import jax

    leaves, tree = jax.tree.flatten(parameters)
    return (str(tree), *(np.shape(leaf) for leaf in leaves))


def _neural() -> Any:
    """The part that needs JAX."""
    try:
        import equinox  # noqa: F401
        import jax  # noqa: F401
        import optax  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"this method needs the package '{error.name}', which is not installed; "
            'install it with: pip install "credo[neural]"'
        ) from None
    from . import solve

    return solve


def check_regions(regions: Any) -> None:
    """Refuse what names no regions."""
    from ...core import check

    if isinstance(regions, str):
        check.one_of("regions", regions, REGIONS)
    elif not isinstance(regions, Sequence):
        raise OptionError(f"regions: expected a name or lists of variable names, got {regions!r}")
