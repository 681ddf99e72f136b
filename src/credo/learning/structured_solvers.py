"""What moves the weights of structured prediction besides the optimisers of slopes, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..core import check
from ..core.errors import OptionError
from ..core.registry import Registry
from ..optimise.optimisers import Optimiser, optimiser_of, optimisers
from .priors import Elastic, GaussianPrior, Prior

__all__ = ["BlockFrankWolfe", "ConcaveConvex", "CuttingPlanes", "is_solver", "solver_of", "square_scale"]

solvers: Registry[Any] = Registry("optimiser")


@solvers.register
@dataclass(frozen=True, kw_only=True)
class BlockFrankWolfe:
    """One instance after another, with a duality gap; of convex risks with a maximum over labels."""

    name: ClassVar[str] = "frank-wolfe"
    average: bool = True  # whether the weighted average of the places is looked at, too
    away: bool = False  # whether planes are also moved away from: fewer passes to small gaps, more memory

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("average", self.average, [False, True])
        check.one_of("away", self.away, [False, True])


@solvers.register
@dataclass(frozen=True, kw_only=True)
class CuttingPlanes:
    """All instances at one place in every pass, with a duality gap; of convex risks."""

    name: ClassVar[str] = "bundle"


@solvers.register
@dataclass(frozen=True, kw_only=True)
class ConcaveConvex:
    """Convex problems in turn, each above the risk; of risks with hidden variables."""

    name: ClassVar[str] = "cccp"
    inner: Any = "auto"  # of the convex problems: bundle, frank-wolfe, lbfgs, subgradient(...)
    steps: int = 5  # of it before the whole risk is looked at

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("steps", self.steps, 1)
        if self.inner != "auto" and isinstance(solver_of(self.inner), ConcaveConvex):
            raise OptionError(
                "cccp: expected bundle, frank-wolfe, lbfgs or subgradient inside, got cccp itself"
            )


def solver_of(optimiser: Any) -> Any:
    """What moves the weights, from its text form."""
    if not isinstance(optimiser, str):
        return (
            optimiser
            if isinstance(optimiser, (BlockFrankWolfe, ConcaveConvex, CuttingPlanes))
            else optimiser_of(optimiser)
        )
    name = optimiser.partition("(")[0].strip()
    if name in solvers.names() or name not in optimisers.names():
        known = {*solvers.names(), *optimisers.names(), "auto"}
        if name not in solvers.names():
            raise OptionError(f"no optimiser named '{name}'; there are {sorted(known)}")
        return solvers.resolve(optimiser)
    return optimiser_of(optimiser)


def is_solver(optimiser: Any) -> bool:
    """Whether this is no optimiser of slopes."""
    return not isinstance(solver_of(optimiser), Optimiser)


def square_scale(prior: Prior) -> float | None:
    """The scale of a prior of squares about zero; None for others."""
    if isinstance(prior, GaussianPrior) and prior.mean == 0:
        return prior.scale
    if isinstance(prior, Elastic) and prior.c1 == 0 and prior.c2 > 0:
        return float((2 * prior.c2) ** -0.5)
    return None
