r"""Hamiltonian Monte Carlo on continuous variables.

Every step gives the point u a random momentum r ~ N(0, M) and follows

    du/dt = M^-1 r,      dr/dt = grad log p(u)

by the leapfrog rule. `hmc` goes a random number of steps and takes the end, or not; `nuts` doubles the
trajectory until it turns back and draws a point of it. Both leave p unchanged. Step size and mass matrix are
tuned in the windows of the warm-up. u are the free coordinates of all variables (`core/bijections.py`), with
their Jacobian in p.

Correct in the limit of many draws; far faster than one variable at a time where variables hang together, lost
where modes are separate. Every log-potential must be a function JAX can differentiate (almost everywhere).
Whether chains agree is judged by R-hat (see `chains`). log Z is not estimated.

Cost of a draw: as many gradients of the log density as the trajectory has steps.

Source: Neal (2011); Hoffman and Gelman (2014); the kernels are those of blackjax.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...core import check
from ..problem.base import Problem, register
from ..problem.gradients import needs, why_no_gradients
from ..problem.located import Places
from .chains import Engine, Sampler, Still
from .draws import Draws

__all__ = ["HMC", "NUTS"]


@dataclass(frozen=True, kw_only=True)
class _Hamiltonian(Sampler):
    """What both have in common."""

    compiles: ClassVar[bool] = True
    target: float = 0.8  # accepted share of proposals that the step size is tuned to
    metric: Literal["diagonal", "dense"] = "diagonal"  # mass matrix: its diagonal alone, or all of it

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check.in_range("target", self.target, 0.05, 1)
        check.one_of("metric", self.metric, ["dense", "diagonal"])

    @property
    @abc.abstractmethod
    def _length(self) -> int:
        """Doublings or steps of a trajectory."""

    def why_not(self, problem: Problem) -> str | None:
        """Sums over continuous variables whose factors can be differentiated."""
        return why_no_gradients(problem)

    def _engine(self, problem: Problem, places: Places, starts: Draws, rng: np.random.Generator) -> Engine:
        needs(self.name, "jax", "equinox", "blackjax")
        from ...core.log_density import LogDensity
        from .hamiltonian import HamiltonianEngine, HamiltonianSettings

        density = LogDensity.of(problem.graph, places.centre, places.scale)
        if not density.dimension:
            return Still(starts)
        is_nuts, is_diagonal = self.name == "nuts", self.metric == "diagonal"
        settings = HamiltonianSettings(density.shape, is_nuts, self._length, is_diagonal, float(self.target))
        return HamiltonianEngine(density, settings, starts, self._tuning, int(rng.integers(2**31)))


@register
@dataclass(frozen=True, kw_only=True)
class NUTS(_Hamiltonian):
    """Hamiltonian Monte Carlo whose trajectories end where they turn; for continuous variables."""

    name: ClassVar[str] = "nuts"
    doublings: int = 10  # of a trajectory at most

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check.whole("doublings", self.doublings, 1)

    @property
    def _length(self) -> int:
        return self.doublings


@register
@dataclass(frozen=True, kw_only=True)
class HMC(_Hamiltonian):
    """Hamiltonian Monte Carlo with trajectories of random length; for continuous variables."""

    name: ClassVar[str] = "hmc"
    steps: int = 20  # of a trajectory at most; each has any number of them up to this

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check.whole("steps", self.steps, 1)

    @property
    def _length(self) -> int:
        return self.steps
