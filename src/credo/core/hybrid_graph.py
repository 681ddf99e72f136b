"""Factor graphs whose variables may be real or simplex-valued as well as discrete.

    p(x) = (1/Z) prod_a f_a(x_a),     Z = the sum over discrete and the integral over continuous variables

Algorithms read `groups`: factors that share their function, the domains of their scopes and the shapes of
their parameters, with scopes and parameters stacked, so that thousands of factors are one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .domain import Discrete, Real, Simplex
from .errors import ModelError
from .factor import Factor, TableFactor
from .factor_graph import FactorGraph
from .naming import NamedModel
from .variable import Variables

__all__ = ["FactorGroup", "HybridGraph"]

_PROBED = 64  # factors of a group whose function is tried when the graph is made
_PROBES = np.array([-1.3, -0.4, 0.2, 0.9, 1.7])  # where real arguments are tried


@dataclass(frozen=True)
class FactorGroup:
    """Factors that are evaluated together; arrays have the factors on their first axis."""

    function: Callable[..., Any]  # log-potential of values and parameters of one factor
    domains: tuple[Any, ...]  # of the scope, the same for all
    factors: np.ndarray  # (count,) positions in the graph
    scopes: np.ndarray  # (count, arity) variable positions
    parameters: tuple[np.ndarray, ...]  # each (count, ...)


class HybridGraph(NamedModel):
    """Variables of any domain and factors; immutable.

    Parameters
    ----------
    variables
        Variables, or a mapping name -> states or domain.
    factors
        `GaussianFactor`s, `DensityFactor`s and `TableFactor`s.

    Examples
    --------
    >>> import credo
    >>> from credo.core.hybrid_graph import HybridGraph
    >>> x = credo.Variable("x", credo.Real())
    >>> s = credo.Variable("s", ["cold", "hot"])
    >>> def reading(x, s):
    ...     return -0.5 * (x - 20 * s) ** 2
    >>> factors = [credo.DensityFactor([x, s], reading), credo.TableFactor([s], [0.9, 0.1])]
    >>> graph = HybridGraph([x, s], factors)
    >>> graph.log_score({"x": 19.0, "s": "hot"}).__round__(4)
    -2.8026
    """

    def __init__(self, variables: Any, factors: Iterable[Factor] = ()) -> None:
        self.variables = Variables.of(variables)
        self.factors = tuple(factors)
        for factor in self.factors:
            self._check(factor)
        self._probe()

    @classmethod
    def of(cls, graph: FactorGraph | HybridGraph) -> HybridGraph:
        """A graph of tables as a hybrid graph; a hybrid graph passes through."""
        if isinstance(graph, HybridGraph):
            return graph
        return cls._unchecked(graph.variables, tuple(graph.factors))

    @classmethod
    def _unchecked(cls, variables: Variables, factors: tuple[Factor, ...]) -> HybridGraph:
        made = cls.__new__(cls)
        made.variables, made.factors = variables, factors
        return made

    def _check(self, factor: Any) -> None:
        if not isinstance(factor, Factor):
            raise ModelError(f"expected a factor (Gaussian, Density or Table), got {factor!r:.80}")
        for v in factor.scope:
            if v not in self.variables:
                raise ModelError(
                    f"factor over {list(factor.names)}: variable '{v.name}' is not in the graph with the "
                    f"domain {v.domain!r}; declare it in `variables`"
                )

    def _probe(self) -> None:
        """Try functions at a few points, so that a wrong one is refused here and by name."""
        for group in self.groups:
            for a in group.factors[:: max(1, len(group.factors) // _PROBED)]:
                factor = self.factors[int(a)]
                if not isinstance(factor, TableFactor):
                    factor.log_values(*(_probes(v.domain) for v in factor.scope))

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return len(self.factors)

    @cached_property
    def scopes(self) -> tuple[np.ndarray, ...]:
        """Variable positions of every factor."""
        return tuple(self.variables.positions(f.names) for f in self.factors)

    @cached_property
    def degrees(self) -> np.ndarray:
        """How many factors of two or more variables touch each variable."""
        degrees = np.zeros(len(self.variables), dtype=np.int64)
        for scope in self.scopes:
            if len(scope) > 1:
                degrees[scope] += 1
        return degrees

    @cached_property
    def groups(self) -> tuple[FactorGroup, ...]:
        """The factors by function, domains and shapes of the parameters."""
        found: dict[Any, list[int]] = {}
        for a, factor in enumerate(self.factors):
            domains = tuple(_kind(v.domain) for v in factor.scope)
            shapes = tuple((p.shape, p.dtype.kind) for p in factor.parameters)
            found.setdefault((_key(factor.function), domains, shapes), []).append(a)
        made = []
        for (_, domains, shapes), members in found.items():
            stacked = (np.stack([self.factors[a].parameters[k] for a in members]) for k in range(len(shapes)))
            made.append(
                FactorGroup(
                    self.factors[members[0]].function,
                    domains,
                    np.array(members, dtype=np.int64),
                    np.stack([self.scopes[a] for a in members]),
                    tuple(stacked),
                )
            )
        return tuple(made)

    @cached_property
    def is_tree(self) -> bool:
        """Whether the factors of two or more variables form a forest."""
        root = np.arange(len(self.variables) + self.n_factors)

        def find(i: int) -> int:
            while root[i] != i:
                root[i] = root[root[i]]
                i = int(root[i])
            return i

        for a, scope in enumerate(self.scopes):
            for i in scope:
                one, other = find(len(self.variables) + a), find(int(i))
                if one == other:
                    return False
                root[one] = other
        return True

    def log_score(self, assignment: Mapping[str, Any]) -> float:
        """Sum of all log-potentials at one joint state, given as name -> state or value."""
        missing = [n for n in self.variables.names if n not in assignment]
        if missing:
            raise ModelError(f"log_score: the assignment lacks {missing[:5]}; every variable needs a value")
        return float(sum(f.log_value(assignment) for f in self.factors))

    def log_scores(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Sum of all log-potentials for many joint states: one array of values per variable."""
        total: Any = 0.0
        for factor in self.factors:
            total = total + factor.log_values(*(columns[name] for name in factor.names))
        return np.asarray(total)

    def condition(self, evidence: Mapping[str, Any]) -> HybridGraph:
        """The graph of the variables that are not observed; observed ones are fixed in every factor.

        A vector for a discrete variable is a likelihood and becomes a factor; None means missing.
        """
        from .hybrid_evidence import HybridEvidence

        return HybridEvidence.of(self.variables, evidence).apply(self)

    def to_factor_graph(self) -> HybridGraph:
        """A graph is its own model."""
        return self

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        degree = np.bincount(np.concatenate([*self.scopes, np.empty(0, np.int64)]), minlength=len(self))
        return {"factors": lambda i: str(degree[i])}

    def __repr__(self) -> str:
        return f"HybridGraph({len(self.variables)} variables, {self.n_factors} factors)"


def _key(function: Any) -> Any:
    """What tells two functions apart: equality where it is defined, else identity."""
    try:
        hash(function)
    except TypeError:
        return id(function)
    return function


def _kind(domain: Any) -> Any:
    """A domain without its labels."""
    return Discrete(domain.size) if isinstance(domain, Discrete) else domain


def _probes(domain: Any) -> np.ndarray:
    count = len(_PROBES)
    if isinstance(domain, Discrete):
        return np.arange(count) % domain.size
    if isinstance(domain, Real):
        return _PROBES
    return _simplex_probes(domain)


def _simplex_probes(domain: Simplex) -> np.ndarray:
    weight = 1.0 + (np.arange(len(_PROBES))[:, None] + np.arange(domain.width)) % 3
    return weight / weight.sum(axis=1, keepdims=True)
