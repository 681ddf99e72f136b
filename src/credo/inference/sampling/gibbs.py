r"""Gibbs sampling: every variable in turn is drawn given all others.

    x_i  ~  p(x_i | x_-i)  proportional to  prod_{a at i} f_a(x_a)

A discrete variable is drawn exactly, as is a real one whose factors are all Gaussian; other real variables,
and simplex variables along random directions of their logits, are drawn by slice sampling, which leaves the
conditional unchanged as well. Variables that share no factor are drawn at once, in all chains. Two layers of
two-state units, every pair across joined, are drawn layer by layer, by matrices.

Correct in the limit of many draws if every state of positive weight can be reached by changing one variable
at a time: zeros may forbid that, and strong couplings make it slow. Chains start at random points of positive
weight; whether they agree is judged by R-hat (see `chains`). log Z is not estimated.

Cost of a sweep: each table is read once per variable in its scope; a slice takes some five to ten evaluations
of the factors around a variable. Graphs of tables need no JAX.

Source: Geman and Geman (1984); Neal (2003) for slices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.errors import MissingExtraError
from ...structures.layers import dense_layers
from ..problem.base import Problem, register
from ..problem.located import Places
from .chains import Engine, Sampler
from .draws import Draws
from .layer_chains import LayerEngine
from .table_chains import TableEngine

__all__ = ["Gibbs", "site_engine"]


@register
@dataclass(frozen=True, kw_only=True)
class Gibbs(Sampler):
    """Draws one variable after another given the others; for variables of any domain."""

    name: ClassVar[str] = "gibbs"
    slopes: ClassVar[bool] = True

    def _engine(self, problem: Problem, places: Places, starts: Draws, rng: np.random.Generator) -> Engine:
        if (layers := dense_layers(problem.graph)) is not None:
            return LayerEngine(problem.graph, layers, starts, rng)
        if problem.graph.is_tables:
            return TableEngine(problem.graph, _gibbs_sweeps, (), starts, rng)
        return site_engine(problem, ("choose", "slice", "slice"), starts, places, self._tuning, rng)


def _gibbs_sweeps(*arguments: Any) -> None:
    from ...kernels.conditionals import gibbs_sweeps

    *arrays, rows, uniforms = arguments
    gibbs_sweeps(*arrays, rows, np.ones(rows.shape, dtype=bool), uniforms)


def site_engine(
    problem: Problem,
    moves: tuple[str, str, str],
    starts: Draws,
    places: Places,
    warmup: int,
    rng: np.random.Generator,
) -> Engine:
    """Chains on a graph with continuous variables; needs JAX."""
    try:
        from .site_engine import SiteEngine
    except ImportError as error:
        raise MissingExtraError(
            f"sampling continuous variables needs the package '{error.name}', which is not installed; "
            'install it with: pip install "credo[neural]"'
        ) from None
    return SiteEngine(problem.graph, moves, starts, places.scale, warmup, int(rng.integers(2**32)))
