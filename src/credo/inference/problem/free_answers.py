"""Answers about free coordinates in terms of the variables that they describe.

A number that is not free has the density of its coordinate, mapped. A vector has the joint density that the
method gives under its name (`Problem.vectors`), or the draws of its coordinates, which samplers have in one
order. A vector of another domain than the reals has mapped draws of its coordinates, which hang together as
the joint density says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...core.belief import Density
from ...core.bijections import Bijection
from ...core.domain import FreeCoordinate, Real
from ...core.factor_graph import FactorGraph
from ...core.free import FreeGraph
from ...core.result import Assignment, FactorMarginals, Marginals, Result, Samples
from ...families.densities import ParticleDensity
from ...families.mapped import MappedDensity, VectorParticleDensity

__all__ = ["in_values"]

_DRAWS = 2**14  # that stand for a joint density
_SHOWN = 3  # names in a sentence


def in_values(result: Result, free: FreeGraph, graph: FactorGraph) -> Result:
    """An answer about `free.graph` as one about `graph`."""
    variables, first = graph.variables, free.start[:-1]
    changes: dict[str, Any] = {}
    if result.marginals is not None:
        known = result.marginals.densities
        found = {
            variables.names[i]: _density(free, i, known)
            for i in np.flatnonzero(variables.sizes == 0).tolist()
        }
        changes["marginals"] = Marginals(variables, np.array(result.marginals.flat), found)
        if result.diagnostics:
            changes["diagnostics"] = _diagnose(result.diagnostics, free, found)
    if result.factor_marginals is not None:
        changes["factor_marginals"] = FactorMarginals(graph, np.array(result.factor_marginals.flat))
    if result.assignment is not None:
        values = free.values(result.assignment.continuous)
        changes["assignment"] = Assignment(variables, result.assignment.indices[first], values)
    if result.samples is not None:
        values = free.values(dict(result.samples.continuous))
        changes["samples"] = Samples(variables, result.samples.indices[:, first], values)
    return replace(result, **changes, notes=(*result.notes, *_describe(free)))


def _diagnose(
    coordinates: dict[str, np.ndarray], free: FreeGraph, densities: dict[str, Density]
) -> dict[str, np.ndarray]:
    """Of the worst coordinate; R-hat and the effective size look at ranks, so they are those of values."""
    first = free.start[:-1]
    worst = {
        name: (np.minimum if name == "ess" else np.maximum).reduceat(column, first)
        for name, column in coordinates.items()
    }
    for i, own in enumerate(free.maps):
        if own is not None and not own.keeps_volume:
            spread = np.max(densities[free.variables.names[i]].sd)
            worst["mcse"][i] = spread / np.sqrt(worst["ess"][i])
    return worst


def _describe(free: FreeGraph) -> tuple[str, ...]:
    """A sentence for whoever reads places in the notes of a method."""
    limited = [v.name for v in free.graph.variables if isinstance(v.domain, FreeCoordinate)]
    if not limited:
        return ()
    more = ", ..." if len(limited) > _SHOWN else ""
    names = ", ".join(f"'{name}'" for name in limited[:_SHOWN])
    return (
        f"{names}{more}: described by free coordinates (logarithms, logits); places told here are theirs",
    )


def _density(free: FreeGraph, i: int, known: dict[str, Density]) -> Density:
    own, name, names = free.maps[i], free.variables.names[i], free.names(i)
    if own is None:
        return known[name]
    if not free.variables.domains[i].shape:
        return MappedDensity(known[name], own)
    if name in known and isinstance(free.variables.domains[i], Real):
        return known[name]
    parts = [known[k] for k in names]
    if name in known:
        return _drawn(known[name], parts, own)
    draws = [p.particles for p in parts if isinstance(p, ParticleDensity)]
    assert len(draws) == len(names), "a method that reads vectors gives their density, or draws"
    weights = parts[0].weights  # type: ignore[attr-defined]
    return VectorParticleDensity(np.asarray(own.inverse(np.stack(draws, axis=-1))), weights)


def _drawn(joint: Density, parts: list[Density], own: Bijection) -> VectorParticleDensity:
    """Draws of every coordinate by itself, paired by the ranks of draws of the joint density."""
    rng = np.random.default_rng(0)
    ranks = np.argsort(np.argsort(joint.sample(_DRAWS, rng), axis=0), axis=0)
    columns = [np.sort(part.sample(_DRAWS, rng))[ranks[:, k]] for k, part in enumerate(parts)]
    draws = own.inverse(np.stack(columns, axis=-1))
    return VectorParticleDensity(np.asarray(draws), np.full(_DRAWS, 1 / _DRAWS))
