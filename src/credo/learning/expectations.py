"""Runs of inference as learners need them: counted, warm, and quiet until the end."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.errors import ConvergenceWarning, ImpossibleRowError, UnsupportedError, ZeroProbabilityError
from ..core.evidence import Evidence
from ..core.factor_graph import FactorGraph
from ..core.records import record
from ..core.registry import or_else
from ..core.result import Kind, Result, Status
from ..inference.portfolio.question import infer
from ..inference.problem.base import Algorithm, Budget, algorithms
from ..optimise.run import Stopped

__all__ = ["Oracle"]


@record("oracle", kept=("runs", "failures", "notes", "kinds", "_state"))
@dataclass
class Oracle:
    """Answers about graphs of one structure by one algorithm.

    Runs that do not converge are counted instead of warned about each time. Where the algorithm can,
    the run on the free model starts from the messages of the last one: between two steps of learning
    the tables change little.
    """

    method: str | Algorithm | None  # the algorithm; None until one is chosen by the rule of `infer`
    budget: Budget = field(default_factory=Budget)  # of each run
    seed: int | None = None  # of each run
    warm: bool = True  # whether the free run starts from the last one
    runs: int = 0  # so far
    failures: int = 0  # runs that did not converge
    notes: list[str] = field(default_factory=list)  # sentences about choices
    kinds: set[Kind] = field(default_factory=set)  # of every log Z so far
    _state: Any = None  # where a warm run starts

    def free(self, graph: FactorGraph) -> Result:
        """The model without evidence."""
        warm = None
        if self.warm and self._state is not None:
            warm = Result("the last run", Status.CONVERGED, state=self._state)
        found = self._ask(graph, None, warm)
        if found.state is not None and getattr(self.algorithm, "warm_starts", False):
            # Messages that left the finite range would spoil every later run.
            state = found.state.alone() if hasattr(found.state, "alone") else found.state
            self._state = None if found.status is Status.DIVERGED else state
        return found

    def clamped(self, graph: FactorGraph, states: np.ndarray, row: int) -> Result:
        """The model given one row of states, -1 where missing; `row` names it in messages."""
        try:
            return self._ask(graph, self._evidence(graph, states), None)
        except ZeroProbabilityError:
            raise ImpossibleRowError(row) from None

    def given(self, graph: FactorGraph, evidence: Evidence) -> Result:
        """The model given values of some variables of any domain."""
        return self._ask(graph, evidence, None)

    def _evidence(self, graph: FactorGraph, states: np.ndarray) -> Any:
        if not getattr(self.algorithm, "hybrid", False):
            return Evidence(states)
        names = graph.variables.names  # methods for any domain read values by name
        return {names[int(i)]: int(states[i]) for i in np.flatnonzero(states >= 0)}

    @property
    def algorithm(self) -> Any:
        """The algorithm itself, once one is chosen."""
        return None if self.method is None else algorithms.resolve(self.method)

    def _ask(self, graph: FactorGraph, evidence: Evidence | None, warm: Result | None) -> Result:
        if self.method is None:
            self._choose(graph)
        budget: dict[str, Any] = {"max_iter": self.budget.max_iter, "tol": self.budget.tol}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = infer(
                graph, self.method, evidence=evidence, seconds=self.budget.seconds,  # type: ignore[arg-type]
                seed=self.seed, warm_start=warm, **budget,
            )  # fmt: skip
        if found.status is Status.INTERRUPTED:
            raise Stopped(found.status)  # what a run that was cut says is no expectation
        self.runs += 1
        self.failures += not found.status.is_success
        if found.log_z is not None:
            self.kinds.add(found.log_z.kind)
        return found

    def _choose(self, graph: FactorGraph) -> None:
        from ..inference.portfolio.choose import choose
        from ..inference.problem.base import Problem

        n = len(graph.variables)
        self.method, note = choose(Problem(graph, np.ones(n), np.zeros(n, dtype=np.int64)))
        if note not in self.notes:
            self.notes.append(note)

    def log_z(self, found: Result) -> float:
        """Log Z of a run, or a sentence."""
        if found.log_z is None:
            raise UnsupportedError(f"{found.algorithm} computes no log Z; use {or_else(_able())}")
        return found.log_z.value

    def log_weight(self, found: Result, logs: np.ndarray) -> float:
        """Log Z of a run by these log tables; without one a lower bound from its draws.

        log Z >= E_q[log f] + H(q) for every distribution q of joint states, here that of the draws.
        """
        if found.log_z is not None:
            return found.log_z.value
        entries = self.entries(found)
        self.kinds.add("lower")
        note = f"{found.algorithm} estimates no log Z: the objective is a lower bound from its draws"
        if note not in self.notes:
            self.notes.append(note)
        value = float(entries[entries > 0] @ logs[entries > 0])
        if found.samples is None:
            return value
        share = np.unique(found.samples.indices, axis=0, return_counts=True)[1] / len(found.samples)
        return value - float(share @ np.log(share))

    def entries(self, found: Result) -> np.ndarray:
        """Factor marginals of a run, or a sentence."""
        if found.factor_marginals is None:
            raise UnsupportedError(
                f"{found.algorithm} computes no factor marginals; use {or_else(_able())}, "
                "or gradient=log_z where there are few parameters"
            )
        return found.factor_marginals.flat

    def kind(self, complete: bool) -> Kind:
        """What a log-likelihood made of these answers guarantees; `complete` data need only log Z."""
        if self.kinds <= {"exact"}:
            return "exact"
        if complete and self.kinds == {"upper"}:
            return "lower"
        if complete and self.kinds == {"lower"}:
            return "upper"
        return "estimate"

    def report(self) -> list[str]:
        """Sentences for the notes of a fit."""
        if not self.failures:
            return list(self.notes)
        return [*self.notes, f"inference did not converge in {self.failures} of {self.runs} runs"]


def _able() -> list[str]:
    """The best known method of every family that declares factor marginals and log Z."""
    found: dict[str, str] = {}
    for name, known in algorithms.entries().items():
        if known.slopes and known.family not in (*found, "sampling"):
            found[known.family] = name
    return list(found.values())
