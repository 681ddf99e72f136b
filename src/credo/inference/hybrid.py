"""Questions about graphs whose variables may be continuous.

A `HybridProblem` is what algorithms with `hybrid = True` read. They treat graphs of tables too, so that one
method can be compared on discrete, continuous and mixed models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..core.domain import Simplex
from ..core.errors import UnsupportedError, ZeroProbabilityError
from ..core.factor_graph import FactorGraph
from ..core.hybrid_evidence import HybridEvidence
from ..core.hybrid_graph import HybridGraph
from ..core.registry import or_else
from ..core.result import Result
from .alternatives import alternatives
from .base import Algorithm, Budget, names_to_maximise
from .running import chosen, generator_of, run_algorithm

__all__ = ["HybridProblem", "HybridQuestion"]


@dataclass(frozen=True)
class HybridProblem:
    """A conditioned graph and the question asked about it; positions index `graph.variables`."""

    graph: HybridGraph  # of the variables that were not observed
    maximise: tuple[int, ...] = ()  # positions; all of them for MAP
    samples: int = 0  # how many joint samples are asked for
    has_evidence: bool = False  # whether anything was observed; decides the wording of a refusal
    warm: Any = None  # state of an earlier run, to start from
    asked: frozenset[str] = frozenset()  # names to maximise, observed variables included

    @property
    def is_sum(self) -> bool:
        """Whether nothing is maximised."""
        return not self.maximise

    @property
    def is_max(self) -> bool:
        """Whether everything is maximised."""
        return bool(self.maximise) and len(self.maximise) == len(self.graph.variables)

    @property
    def task(self) -> str:
        """The kind of question, a word of `contents.TASKS`."""
        if self.samples or self.is_sum:
            return "samples" if self.samples else "sum"
        return "max" if self.is_max else "mixed"

    @property
    def constant(self) -> float:
        """The log of the product of the factors without variables; an error if it is zero."""
        total = float(sum(float(f.log_values()) for f in self.graph.factors if not f.scope))
        if total == -np.inf:
            raise self.contradiction()
        return total

    def contradiction(self) -> ZeroProbabilityError:
        """The error to raise when no configuration has positive weight."""
        subject = "the evidence has" if self.has_evidence else "every configuration has"
        return ZeroProbabilityError(f"{subject} weight zero under this model; check values and factors")


@dataclass(frozen=True)
class HybridQuestion:
    """A model with evidence: it poses problems about the unobserved variables, completes the answers."""

    original: HybridGraph  # as given
    graph: HybridGraph  # of the unobserved variables
    evidence: HybridEvidence  # checked
    has_evidence: bool  # whether anything was observed

    @classmethod
    def of(cls, graph: FactorGraph | HybridGraph, evidence: Mapping[str, Any] | None) -> HybridQuestion:
        """Check the evidence and condition the graph on it.

        A simplex with one coordinate has one value only, so its variable counts as observed.
        """
        original = HybridGraph.of(graph)
        checked = HybridEvidence.of(original.variables, evidence)
        known = {v.name: np.ones(1) for v in original.variables if _is_known(v.domain)}
        complete = replace(checked, values=known | checked.values) if known else checked
        return cls(original, complete.apply(original), complete, not checked.is_empty)

    def problem(
        self, maximise: Literal["all"] | Iterable[str] = (), *, samples: int = 0, warm: Any = None
    ) -> HybridProblem:
        """What is asked, checked; observed variables among the maximised ones are maximised already."""
        variables = self.original.variables
        names = names_to_maximise(maximise, variables.names)
        asked = frozenset(variables.names[variables.position(name)] for name in names)
        free = [name for name in asked if name not in self.evidence.values]
        positions = tuple(sorted(int(i) for i in self.graph.variables.positions(free)))
        return HybridProblem(self.graph, positions, samples, self.has_evidence, warm, asked)

    def ask(
        self,
        problem: HybridProblem,
        method: str | Algorithm | None,
        budget: Budget,
        *,
        seed: int | None,
        strict: bool,
        keep: Any = None,
    ) -> Result:
        """Run a method, say how it went, and add the observed variables to its answer."""
        from .choose import choose_hybrid

        algorithm, notes = chosen(method, problem, choose_hybrid)
        self._refuse_discrete(algorithm, problem)
        rng = generator_of(seed, keep, algorithm, problem, self.original)
        result = run_algorithm(algorithm, problem, budget, rng, notes, strict=strict)
        return self.evidence.complete(result, problem.asked)

    def _refuse_discrete(self, algorithm: Any, problem: HybridProblem) -> None:
        if getattr(algorithm, "hybrid", False) or getattr(algorithm, "continuous", False):
            return
        names = [v.name for v in self.original.variables if not v.is_discrete]
        able = alternatives(problem)
        way_out = f"use {or_else(able)}" if able else "no method answers this question"
        raise UnsupportedError(
            f"{getattr(algorithm, 'name', algorithm)} cannot treat this problem: it works on discrete "
            f"variables, and {names[:3]} {'are' if len(names) > 1 else 'is'} continuous; {way_out}"
        )


def _is_known(domain: Any) -> bool:
    return isinstance(domain, Simplex) and domain.width == 1
