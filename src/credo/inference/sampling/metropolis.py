r"""Random-walk Metropolis, one variable after another.

A value x_i' is proposed and taken with probability min(1, prod_{a at i} f_a(x_a') / f_a(x_a)):

    discrete   any of the states, with equal probability
    real       x_i + s_i times a normal number
    simplex    the logits, whose last one is zero, plus s_i times normal numbers; the densities of the logits
               are compared, which have the Jacobian prod_k theta_k

The sizes s_i are tuned during the warm-up until 0.44 of the proposals are taken (0.3 for simplex variables)
and stay fixed afterwards. Variables that share no factor move at once, in all chains.

Correct in the limit of many draws if every state of positive weight can be reached by changing one variable
at a time; usually slower to mix than `gibbs`, but each sweep costs two evaluations of every factor around a
variable whatever the factor is. log Z is not estimated. Graphs of tables need no JAX.

Source: Metropolis et al. (1953); Roberts, Gelman and Gilks (1997) for the accepted share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..problem.base import Problem, register
from ..problem.located import Places
from .chains import Engine, Sampler
from .draws import Draws
from .gibbs import site_engine
from .table_chains import TableEngine

__all__ = ["Metropolis"]


@register
@dataclass(frozen=True, kw_only=True)
class Metropolis(Sampler):
    """Random steps of one variable after another, accepted or not; for variables of any domain."""

    name: ClassVar[str] = "metropolis"
    slopes: ClassVar[bool] = True

    def _engine(self, problem: Problem, places: Places, starts: Draws, rng: np.random.Generator) -> Engine:
        if problem.graph.is_tables:
            return TableEngine(problem.graph, _metropolis_sweeps, (2,), starts, rng)
        return site_engine(problem, ("swap", "walk", "walk"), starts, places, self._tuning, rng)


def _metropolis_sweeps(*arguments: Any) -> None:
    from ...kernels.conditionals import metropolis_sweeps

    metropolis_sweeps(*arguments)
