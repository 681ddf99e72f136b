r"""Networks that minimise a free energy: the region-based energy neural network and its Bethe relative.

One learnable vector per variable goes through attention over all variables and residual layers; for every
root region the vectors of its variables, side by side, become one logit per joint state. Then

    b_R    = softmax(logits)                            for root regions R
    b_R    = mean over parents P of sum_{x_P \ x_R} b_P  for all others, level by level
    minimise   F(b) + penalty * sum over edges P -> R of | sum_{x_P \ x_R} b_P - b_R |^2

by Adam, and by multipliers y of the disagreements r: <y, r> is added, and y <- y + 2 penalty r fifty times
during the run, so that regions agree in the end. F is the region free energy (see `structures/regions.py`).
There is no data and no training beforehand: the network is how the beliefs of one model are parametrised, and
smooth over the graph. Without layers (`attention=0, residual=0`) the logits themselves are optimised.

What comes out disagrees a little between regions; it is projected to the nearest consistent beliefs (see
`readout.py`), and log Z is minus their free energy, neither an upper nor a lower bound. `project=False`
reports the beliefs and the free energy as found. States that a zero excludes have belief zero.

Beyond the source: restarts (the lowest free energy is returned), larger or other regions, and a polish
that goes on from the beliefs with `gbp` or `bp`. `warm_start` takes the parameters of an earlier run with
the same structure; `credo.infer_models` treats many models of one structure in one compiled program.

A run has converged when the residual is below `tol`, or below what single precision can tell: the squared
length of the natural gradient by the beliefs plus that of the disagreements, per nat of F (see `network.py`).
The source has no multipliers and ends a run at a small step. So does `stop=1e-5`, after 50 to 110 steps and
well before the minimum; such a run is *stalled*.

The source's cells that were tried are met within two of its standard deviations by `renn(stop=1e-5,
project=false)` on grids and the same with `penalty=3` on complete graphs; the penalties 5 and 3 were chosen
once per family, on graphs of their own. With multipliers, or with `polish=gbp`, errors on grids are those of
a converged `gbp`, seven to a hundred times smaller. On complete graphs a lower free energy is not always a
better answer.

A step costs (roots) x (width x variables of a root)^2 x (residual layers), times the models.

Sources: Liu, Thobaben and Rasmussen (2019) for the network; Wiseman and Kim (2019) for the Bethe one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ...core import check
from ...structures.region_builders import MAX_ENTRIES
from ..problem.base import register
from .minimiser import FreeEnergyMinimiser, check_regions
from .plan import NetworkPlan

__all__ = ["RENN", "InferenceNet"]

_ROUNDS = 50  # of multipliers that max_iter steps are shared out to


@register
@dataclass(frozen=True, kw_only=True)
class RENN(FreeEnergyMinimiser):
    """A network whose outputs are beliefs of regions, optimised for their free energy.

    Examples
    --------
    >>> import credo
    >>> grid = credo.datasets.ising_grid(3, coupling="uniform(low=-0.5, high=0.5)", seed=0)
    >>> found = credo.infer(grid, "renn(width=8, rate=0.005)", seed=0)
    >>> bool(abs(found.log_z.value - credo.infer(grid, "junction-tree").log_z.value) < 0.02)
    True
    """

    name: ClassVar[str] = "renn"
    slopes: ClassVar[bool] = True
    # root regions: auto, bethe, cvm, faces, all-faces, star, loops, loop-edge-node, junction-tree, or names
    regions: str | Sequence[Sequence[str]] = "auto"
    max_entries: int = MAX_ENTRIES  # loops with more joint states are split into triangles
    penalty: float = 5.0  # weight of the squared disagreement between parents and children
    width: int = 128  # numbers per variable
    attention: int = 1  # attention layers
    residual: int = 2  # residual layers; without any layer the logits are free
    rate: float = 0.001  # of Adam
    # mean squared change of marginals in one step that ends the run early, without multipliers
    stop: float = 0.0
    restarts: int = 1  # networks per model; the lowest free energy is returned
    polish: Literal["none", "gbp", "bp"] = "none"  # what goes on from the beliefs
    project: bool = True  # whether the beliefs are made consistent
    precision: Literal["single", "double"] = "single"  # floats of 32 or 64 bits

    def __post_init__(self) -> None:
        """Check the options."""
        check_regions(self.regions)
        check.whole("max_entries", self.max_entries, 8)
        check.one_of("polish", self.polish, ["none", "gbp", "bp"])
        check.one_of("precision", self.precision, ["single", "double"])
        _check(self)

    def _where(self) -> tuple[Any, int]:
        return self.regions, self.max_entries

    def _plan(self) -> NetworkPlan:
        return _plan(self, self.polish, self.precision == "double")


@register
@dataclass(frozen=True, kw_only=True)
class InferenceNet(FreeEnergyMinimiser):
    """The same network on Bethe regions: one softmax per factor, variables as means of what factors say.

    `renn(regions=bethe)` is the same, with a polish and double precision on request.
    """

    name: ClassVar[str] = "inference-net"
    slopes: ClassVar[bool] = True
    penalty: float = 5.0  # weight of the squared disagreement between factors and variables
    width: int = 128  # numbers per variable
    attention: int = 1  # attention layers
    residual: int = 2  # residual layers; without any layer the logits are free
    rate: float = 0.001  # of Adam
    # mean squared change of marginals in one step that ends the run early, without multipliers
    stop: float = 0.0
    restarts: int = 1  # networks per model; the lowest free energy is returned
    project: bool = True  # whether the beliefs are made consistent

    def __post_init__(self) -> None:
        """Check the options."""
        _check(self)

    def _where(self) -> tuple[Any, int]:
        return "bethe", MAX_ENTRIES

    def _plan(self) -> NetworkPlan:
        return _plan(self)


def _check(options: RENN | InferenceNet) -> None:
    check.at_least("penalty", options.penalty, 0)
    check.whole("width", options.width, 1)
    check.whole("attention", options.attention, 0)
    check.whole("residual", options.residual, 0)
    check.at_least("rate", options.rate, 0)
    check.at_least("stop", options.stop, 0)
    check.whole("restarts", options.restarts, 1)


def _plan(options: RENN | InferenceNet, polish: str = "none", double: bool = False) -> NetworkPlan:
    return NetworkPlan(
        name=options.name,
        width=options.width,
        layers=(options.attention, options.residual),
        penalty=options.penalty,
        rate=options.rate,
        stop=options.stop,
        double=double,
        rounds=1 if options.stop or not options.penalty else _ROUNDS,
        restarts=options.restarts,
        polish=polish,
        project=options.project,
    )
