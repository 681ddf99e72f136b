r"""The log density of a graph of continuous variables as a function of one vector of free coordinates.

    log p(theta) = sum_a log f_a(x(theta)) + log |dx / dtheta|  + constant,

x(theta) being the bijections of the domains (`bijections.py`), one variable after another. No number of theta
is limited, so any sampler or optimiser for functions of a vector can be run on it, and JAX differentiates it:

    density = graph.condition(evidence).log_density
    jax.grad(density)(density.flatten(values))

A scalar real variable may be laid out as x = centre + scale u, so that all of them have sizes near one
whatever their places; the constant that this adds is left out. Compiled programs take positions and
parameters as arguments (`arrays`) and functions as constants (`shape`): graphs of one shape share them.
JAX is imported only where a JAX array is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .bijections import Bijection, bijection_of
from .density import namespace
from .domain import Real
from .errors import ModelError, QueryError
from .factor_graph import FactorGraph
from .variable import Variables
from .wiring import starts_of

__all__ = ["LogDensity", "Shape", "log_density"]


class Shape(NamedTuple):
    """What is constant in a program."""

    functions: tuple[Any, ...]  # of the groups
    domains: tuple[tuple[Any, ...], ...]  # of their scopes
    curved: tuple[Bijection, ...]  # different ones that change volumes


@dataclass(frozen=True, eq=False)
class LogDensity:
    """A graph made ready; `graph.log_density` makes one.

    Discrete variables of a conditioned graph, which have one state, are left out.
    """

    graph: FactorGraph
    start: np.ndarray  # (n + 1,) first coordinate of each variable, and their count last
    centre: np.ndarray  # (n,) of scalar real variables
    scale: np.ndarray  # (n,) of scalar real variables
    shape: Shape  # constants of programs
    arrays: dict[str, Any]  # arguments of programs

    @classmethod
    def of(
        cls, graph: FactorGraph, centre: np.ndarray | None = None, scale: np.ndarray | None = None
    ) -> LogDensity:
        """Lay a graph out; without centre and scale, real numbers are their own coordinates."""
        graph = _continuous(graph)
        domains = graph.variables.domains
        n = len(domains)
        centre = np.zeros(n) if centre is None else centre
        scale = np.ones(n) if scale is None else scale
        maps = [bijection_of(d) for d in domains]
        start = starts_of([m.free for m in maps])
        groups = [g for g in graph.batches if g.scopes.shape[1]]
        curved = tuple(dict.fromkeys(m for m in maps if m.free and not m.keeps_volume))
        shape = Shape(tuple(g.function for g in groups), tuple(g.domains for g in groups), curved)
        arrays = {
            "at": tuple(start[g.scopes] for g in groups),
            "centre": tuple(centre[g.scopes] for g in groups),
            "scale": tuple(scale[g.scopes] for g in groups),
            "parameters": tuple(g.parameters for g in groups),
            "curved": tuple(start[:-1][[m == own for m in maps]] for own in curved),
        }
        return cls(graph, start, centre, scale, shape, arrays)

    @property
    def variables(self) -> Variables:
        """The variables, in the order of their coordinates."""
        return self.graph.variables

    @property
    def constant(self) -> float:
        """The sum of the log-potentials without variables, those of observations among them."""
        graph = self.graph
        alone = np.flatnonzero(np.diff(graph.scope_start) == 0)
        return float(graph.log_tables[graph.table_start[alone]].sum())

    @property
    def dimension(self) -> int:
        """How many free coordinates there are."""
        return int(self.start[-1])

    def __call__(self, theta: Any) -> Any:
        """Log density at a vector (dimension,) of JAX, or at vectors (..., dimension) of NumPy."""
        if np.shape(theta)[-1:] != (self.dimension,):
            raise QueryError(
                f"log_density: expected {self.dimension} free coordinates on the last axis, got shape "
                f"{np.shape(theta)}; flatten(values) makes them"
            )
        if namespace(theta) is np:
            theta = np.asarray(theta, dtype=np.float64)
            return self.graph.log_scores(self.values(theta)) + self.log_jacobian(theta)
        if np.ndim(theta) > 1:
            raise QueryError("log_density: expected one vector of JAX at a time; use jax.vmap for several")
        return self.constant + log_density(theta, self.arrays, self.shape)

    def log_jacobian(self, theta: Any) -> Any:
        """Log |dx / dtheta|."""
        total: Any = 0.0
        for _, own, at in self._parts(theta):
            total = total + own.log_jacobian(at)
        return total

    def flatten(self, values: Mapping[str, Any]) -> np.ndarray:
        """Vectors (..., dimension) of values given by name, (...) or (..., width)."""
        missing = [name for name in self.variables.names if name not in values]
        if missing:
            raise QueryError(f"flatten: the values lack {missing[:5]}; every variable needs one")
        parts = []
        for i, (name, domain) in enumerate(zip(self.variables.names, self.variables.domains, strict=True)):
            value = np.asarray(values[name], dtype=np.float64)
            if _is_line(domain):
                value = (value - self.centre[i]) / self.scale[i]
            parts.append(bijection_of(domain).forward(value))
        return np.concatenate(parts, axis=-1) if parts else np.empty(0)

    def values(self, theta: Any) -> dict[str, Any]:
        """Values by name of vectors (..., dimension)."""
        found = {}
        for i, own, at in self._parts(theta):
            value = own.inverse(at)
            if _is_line(self.variables.domains[i]):
                value = self.centre[i] + self.scale[i] * value
            found[self.variables.names[i]] = value
        return found

    def _parts(self, theta: Any) -> list[tuple[int, Bijection, Any]]:
        """Per variable its position, its bijection and its coordinates."""
        return [
            (i, bijection_of(domain), theta[..., self.start[i] : self.start[i + 1]])
            for i, domain in enumerate(self.variables.domains)
        ]


def log_density(u: Any, arrays: Any, shape: Shape) -> Any:
    """Sum of the log-potentials that have variables at a vector of JAX, with the Jacobians."""
    import jax
    import jax.numpy as jnp

    total = jnp.zeros(())
    laid = (arrays[name] for name in ("at", "centre", "scale", "parameters"))
    for function, domains, at, centre, scale, parameters in zip(
        shape.functions, shape.domains, *laid, strict=True
    ):
        columns = [
            _column(u, at[:, k], centre[:, k], scale[:, k], domain) for k, domain in enumerate(domains)
        ]
        # A function that does not look at its arguments returns one number for all factors.
        found = jax.vmap(function)(*columns, *parameters)
        total = total + jnp.broadcast_to(found, (len(at),)).sum()
    for own, at in zip(shape.curved, arrays["curved"], strict=True):
        total = total + own.log_jacobian(_coordinates(u, at, own)).sum()
    return total


def _column(u: Any, at: Any, centre: Any, scale: Any, domain: Any) -> Any:
    if _is_line(domain):
        return centre + scale * u[at]
    own = bijection_of(domain)
    return own.inverse(_coordinates(u, at, own))


def _is_line(domain: Any) -> bool:
    return isinstance(domain, Real) and not domain.shape


def _coordinates(u: Any, at: Any, own: Bijection) -> Any:
    return u[at[:, None] + np.arange(own.free)]


def _continuous(graph: FactorGraph) -> FactorGraph:
    """The graph without variables that have one state; one with several has no coordinates."""
    variables = graph.variables
    several = np.flatnonzero(variables.sizes > 1)
    if len(several):
        name = variables.names[int(several[0])]
        raise ModelError(
            f"log_density: variable '{name}' is discrete and has no free coordinates; observe it "
            "(graph.condition), or use gibbs, which moves states and numbers"
        )
    if not variables.sizes.any():
        return graph
    known = {variables.names[int(i)]: 0 for i in np.flatnonzero(variables.sizes)}
    return graph.condition(known).compact(np.flatnonzero(variables.sizes == 0))
