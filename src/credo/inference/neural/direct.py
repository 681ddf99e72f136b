r"""Plain minimisation of a free energy over logits, without a network: the honest comparators.

The beliefs of the root regions are softmaxes of free logits, all others are means of what their parents say,
and parents and children are made to agree by multipliers (the augmented Lagrangian):

    minimise   F(b) + <y, r> + penalty |r|^2,   r = disagreement of parents and children,
    then       y <- y + 2 penalty r,            again and again

Each round is a number of Adam steps; it ends early when the beliefs change no more. A run has converged when
the squared length of the natural gradient plus |r|^2, per nat of F, is below `tol`. The beliefs are then
projected to agree exactly (see `readout.py`), and log Z is minus their free energy: an estimate. With Bethe
regions the minima are stable fixed points of belief propagation; with others, those of generalised belief
propagation.

Source: Welling and Teh (2001) for minimising the Bethe free energy by gradients; the multipliers are
textbook material (Nocedal and Wright, chapter 17).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...core import check
from ...structures.region_builders import MAX_ENTRIES
from ..problem.base import register
from .minimiser import FreeEnergyMinimiser, check_regions
from .plan import NetworkPlan

__all__ = ["BetheDirect", "RegionDirect"]


@register
@dataclass(frozen=True, kw_only=True)
class BetheDirect(FreeEnergyMinimiser):
    """Gradient minimisation of the Bethe free energy under its constraints."""

    name: ClassVar[str] = "bethe-direct"
    slopes: ClassVar[bool] = True
    rounds: int = 50  # of multipliers that max_iter steps are shared out to; what they leave over goes on
    rate: float = 0.1  # of Adam in the first round; a tenth of it in the last and after it
    penalty: float = 10.0  # weight of the squared disagreement
    stop: float = 1e-14  # mean squared change of marginals in one step that ends a round

    def __post_init__(self) -> None:
        """Check the options."""
        _check(self)

    def _where(self) -> tuple[Any, int]:
        return "bethe", MAX_ENTRIES

    def _plan(self) -> NetworkPlan:
        return _plan(self)


@register
@dataclass(frozen=True, kw_only=True)
class RegionDirect(FreeEnergyMinimiser):
    """Gradient minimisation of the region free energy under its constraints."""

    name: ClassVar[str] = "region-direct"
    slopes: ClassVar[bool] = True
    # root regions: auto, bethe, cvm, faces, all-faces, star, loops, loop-edge-node, junction-tree, or names
    regions: str | Sequence[Sequence[str]] = "auto"
    max_entries: int = MAX_ENTRIES  # loops with more joint states are split into triangles
    rounds: int = 50  # of multipliers that max_iter steps are shared out to; what they leave over goes on
    rate: float = 0.1  # of Adam in the first round; a tenth of it in the last and after it
    penalty: float = 10.0  # weight of the squared disagreement
    stop: float = 1e-14  # mean squared change of marginals in one step that ends a round

    def __post_init__(self) -> None:
        """Check the options."""
        check_regions(self.regions)
        check.whole("max_entries", self.max_entries, 8)
        _check(self)

    def _where(self) -> tuple[Any, int]:
        return self.regions, self.max_entries

    def _plan(self) -> NetworkPlan:
        return _plan(self)


def _check(options: BetheDirect | RegionDirect) -> None:
    check.whole("rounds", options.rounds, 2)
    check.at_least("rate", options.rate, 0)
    check.at_least("penalty", options.penalty, 0)
    check.at_least("stop", options.stop, 0)


def _plan(options: BetheDirect | RegionDirect) -> NetworkPlan:
    return NetworkPlan(
        name=options.name,
        width=1,
        layers=(0, 0),
        penalty=options.penalty,
        rate=options.rate,
        stop=options.stop,
        double=True,
        rounds=options.rounds,
    )
