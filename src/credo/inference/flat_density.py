r"""The log density of a graph of real and simplex variables as a function of one vector, for gradients.

A real variable x is one number u of the vector, x = centre + scale u, so that all of them have sizes near one
whatever their places; the constant that this adds to the log density is left out. A simplex variable of width
K is K - 1 numbers, the logits of its coordinates relative to the last one,

    theta = softmax(u_1, ..., u_{K-1}, 0),        |d theta / d u| = prod_k theta_k,

and the logarithm of that Jacobian is part of the log density of u. Log-potentials are evaluated group by
group; parameters and positions are arguments of compiled programs, so that graphs of one shape share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..core.domain import Real, Simplex
from ..core.factor_graph import FactorGraph
from .located import Places
from .potentials import evaluate, group_function, is_traceable

__all__ = ["FlatDensity", "Shape", "log_density", "untraceable"]


class Shape(NamedTuple):
    """What is constant in a program."""

    functions: tuple[Any, ...]  # of the groups
    domains: tuple[tuple[Any, ...], ...]  # of their scopes
    widths: tuple[int, ...]  # the different widths of simplex variables


@dataclass(frozen=True)
class FlatDensity:
    """A graph made ready."""

    graph: FactorGraph
    start: np.ndarray  # (n + 1,) first number of each variable, and their count last
    centre: np.ndarray  # (n,) of real variables
    scale: np.ndarray  # (n,) of real variables
    shape: Shape  # constants of programs
    arrays: dict[str, Any]  # arguments of programs

    @classmethod
    def of(cls, graph: FactorGraph, places: Places | None = None) -> FlatDensity:
        """Lay a graph out; without places, u is x."""
        places = Places.none(len(graph.variables)) if places is None else places
        domains = graph.variables.domains
        widths = [1 if isinstance(d, Real) else d.width - 1 for d in domains]
        start = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        groups = [g for g in graph.batches if g.scopes.shape[1]]
        different = tuple(sorted({d.width for d in domains if isinstance(d, Simplex)}))
        shape = Shape(tuple(group_function(g) for g in groups), tuple(g.domains for g in groups), different)
        arrays = {
            "at": tuple(start[g.scopes] for g in groups),
            "centre": tuple(places.centre[g.scopes] for g in groups),
            "scale": tuple(places.scale[g.scopes] for g in groups),
            "parameters": tuple(g.parameters for g in groups),
            "simplexes": tuple(
                start[:-1][[isinstance(d, Simplex) and d.width == w for d in domains]] for w in different
            ),
        }
        return cls(graph, start, places.centre, places.scale, shape, arrays)

    @property
    def dimension(self) -> int:
        """How many numbers the vector has."""
        return int(self.start[-1])

    def flatten(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Vectors (..., dimension) of values given by name, (...) or (..., width)."""
        parts = []
        variables = self.graph.variables
        for i, (name, domain) in enumerate(zip(variables.names, variables.domains, strict=True)):
            value = np.asarray(values[name], dtype=np.float64)
            if isinstance(domain, Real):
                parts.append(((value - self.centre[i]) / self.scale[i])[..., None])
            else:
                logs = np.log(np.maximum(value, np.finfo(float).tiny))
                parts.append(logs[..., :-1] - logs[..., -1:])
        return np.concatenate(parts, axis=-1)

    def values(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """Values by name of vectors (..., dimension)."""
        found = {}
        variables = self.graph.variables
        for i, (name, domain) in enumerate(zip(variables.names, variables.domains, strict=True)):
            own = vectors[..., self.start[i] : self.start[i + 1]]
            if isinstance(domain, Real):
                found[name] = self.centre[i] + self.scale[i] * own[..., 0]
                continue
            logits = np.concatenate([own, np.zeros((*own.shape[:-1], 1))], axis=-1)
            weight = np.exp(logits - logits.max(axis=-1, keepdims=True))
            found[name] = weight / weight.sum(axis=-1, keepdims=True)
        return found

    def log_values(self, vectors: np.ndarray) -> np.ndarray:
        """Sums of all log-potentials at (count, dimension); an error names a factor that is no number."""
        values, names = self.values(vectors), self.graph.variables.names
        total = np.zeros(len(vectors))
        for group in self.graph.batches:
            if group.scopes.shape[1]:
                every = (
                    [values[names[int(i)]] for i in group.scopes[:, k]] for k in range(len(group.domains))
                )
                total += evaluate(self.graph, group, tuple(np.stack(own) for own in every)).sum(axis=0)
        return total


def log_density(u: Any, arrays: Any, shape: Shape) -> Any:
    """Sum of all log-potentials at a vector, with the Jacobian of its simplex variables."""
    total = jnp.zeros(())
    laid = (arrays[name] for name in ("at", "centre", "scale", "parameters"))
    for function, domains, at, centre, scale, parameters in zip(
        shape.functions, shape.domains, *laid, strict=True
    ):
        columns = tuple(
            _column(u, at[:, k], centre[:, k], scale[:, k], domain) for k, domain in enumerate(domains)
        )
        total = total + function(columns, parameters).sum()
    for width, at in zip(shape.widths, arrays["simplexes"], strict=True):
        total = total + jax.nn.log_softmax(_logits(u, at, width), axis=-1).sum()
    return total


def _column(u: Any, at: Any, centre: Any, scale: Any, domain: Any) -> Any:
    if isinstance(domain, Real):
        return centre + scale * u[at]
    return jax.nn.softmax(_logits(u, at, domain.width), axis=-1)


def _logits(u: Any, at: Any, width: int) -> Any:
    free = u[at[:, None] + jnp.arange(width - 1)]
    return jnp.concatenate([free, jnp.zeros((len(at), 1))], axis=1)


def untraceable(graph: FactorGraph) -> str | None:
    """A sentence about the first factor that JAX cannot differentiate; None if there is none."""
    for group in graph.batches:
        if not is_traceable(group):
            factor = graph.factors[int(group.factors[0])]
            return (
                f"it needs gradients, and JAX cannot trace the factor over {list(factor.names)}; "
                "write it with jax.numpy (or credo.core.density.namespace), or use gibbs or metropolis"
            )
    return None
