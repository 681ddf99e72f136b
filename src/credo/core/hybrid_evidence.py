"""Evidence on graphs with variables of any domain.

An observed variable leaves the graph: factors are sliced at its value. A likelihood vector on a discrete
variable becomes one more factor. Answers about the remaining variables are completed by `complete`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .belief import PointMass
from .density import DensityFactor, GaussianFactor
from .errors import EvidenceError, QueryError
from .evidence import is_missing, is_vector, likelihood
from .factor import Factor, TableFactor
from .hybrid_graph import HybridGraph
from .result import Assignment, Marginals, Result, Samples
from .variable import Variables

__all__ = ["HybridEvidence"]


@dataclass(frozen=True)
class HybridEvidence:
    """Checked evidence: values of observed variables, and likelihoods of some discrete ones."""

    variables: Variables  # all of them
    values: dict[str, Any]  # name -> state index, number or vector
    likelihoods: dict[str, np.ndarray]  # name -> one number per state

    @classmethod
    def of(cls, variables: Variables, evidence: Mapping[str, Any] | None) -> HybridEvidence:
        """Check a mapping name -> value, likelihood vector (discrete variables), or None for missing."""
        values: dict[str, Any] = {}
        likelihoods = {}
        if evidence is not None and not hasattr(evidence, "items"):
            raise EvidenceError(f"evidence: expected a mapping name -> value, got {evidence!r:.80}")
        for name, value in () if evidence is None else evidence.items():
            try:
                variable = variables[variables.position(name)]
            except QueryError as error:
                raise EvidenceError(f"evidence: {error}") from None
            if is_missing(value):
                continue
            if variable.is_discrete and is_vector(value):
                likelihoods[variable.name] = likelihood(variable, value)
            else:
                values[variable.name] = variable.value(value)
        return cls(variables, values, likelihoods)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was observed."""
        return not self.values and not self.likelihoods

    def apply(self, graph: HybridGraph) -> HybridGraph:
        """The graph of the unobserved variables."""
        if self.is_empty:
            return graph
        soft = [
            TableFactor([self.variables[self.variables.position(name)]], vector)
            for name, vector in self.likelihoods.items()
        ]
        factors = [_sliced(f, self.values) for f in (*graph.factors, *soft)]
        free = [v for v in graph.variables if v.name not in self.values]
        return HybridGraph(free, factors)

    def complete(self, result: Result, maximised: Collection[str]) -> Result:
        """An answer about the unobserved variables with the observed ones added.

        `maximised` names what an assignment was asked for, observed variables included.
        """
        changes: dict[str, Any] = {}
        decided = bool(maximised) and all(name in self.values for name in maximised)
        if decided:  # the value of the maximisation is what remains, a sum
            nothing = Assignment(self.variables, np.full(len(self.variables), -1))
            changes["assignment"] = self._assignment(nothing, maximised)
            changes |= {"score": result.log_z, "marginals": None, "factor_marginals": None}
        elif result.marginals is not None:
            changes["marginals"] = self._marginals(result.marginals)
        if result.assignment is not None:
            changes["assignment"] = self._assignment(result.assignment, maximised)
        if result.samples is not None:
            changes["samples"] = self._samples(result.samples)
        return replace(result, **changes)

    def _marginals(self, found: Marginals) -> Marginals:
        flat = np.zeros(int(self.variables.state_start[-1]))
        densities: dict[str, Any] = {}
        for i, name in enumerate(self.variables.names):
            part = slice(*self.variables.state_start[i : i + 2])
            if name in self.values and self.variables.sizes[i]:
                flat[part][self.values[name]] = 1.0
            elif name in self.values:
                densities[name] = PointMass(self.values[name])
            elif self.variables.sizes[i]:
                flat[part] = found[name]
            else:
                densities[name] = found[name]
        return Marginals(self.variables, flat, densities)

    def _assignment(self, found: Assignment, maximised: Collection[str]) -> Assignment:
        indices = np.full(len(self.variables), -1, dtype=np.int64)
        values: dict[str, Any] = dict(found.continuous)
        for i, name in enumerate(self.variables.names):
            if name in self.values and name not in maximised:
                continue
            if name in self.values and not self.variables.sizes[i]:
                values[name] = self.values[name]
            elif name in self.values:
                indices[i] = self.values[name]
            elif self.variables.sizes[i]:
                indices[i] = found.index(name)
        return Assignment(self.variables, indices, values)

    def _samples(self, found: Samples) -> Samples:
        rows = len(found)
        indices = np.full((rows, len(self.variables)), -1, dtype=np.int64)
        values: dict[str, np.ndarray] = dict(found.continuous)
        for i, name in enumerate(self.variables.names):
            if name in self.values and not self.variables.sizes[i]:
                values[name] = np.broadcast_to(self.values[name], (rows, *np.shape(self.values[name])))
            elif name in self.values:
                indices[:, i] = self.values[name]
            elif self.variables.sizes[i]:
                indices[:, i] = found.column(name)
        return Samples(self.variables, indices, values)


def _sliced(factor: Factor, values: Mapping[str, Any]) -> Factor:
    seen = [name for name in factor.names if name in values]
    if not seen:
        return factor
    free = factor.condition({name: values[name] for name in seen})
    if isinstance(free, (DensityFactor, GaussianFactor)) and not free.scope:
        return TableFactor.from_log([], free.log_values())
    return free
