r"""Stein variational gradient descent: particles that follow the gradient and repel each other.

N particles x_1, ..., x_N move along

    phi(x) = (1/N) sum_j  k(x_j, x) grad log p(x_j)  +  grad_{x_j} k(x_j, x),
    k(x, y) = exp(-|x - y|^2 / (2 h^2)),

the direction in which the distance of their distribution from p falls fastest. Which numbers the kernel of a
coordinate i looks at is a choice:

    kernel     form        numbers                            what it means
    scalar     joint       all                                the plain method
    scalar     messages    i and its Markov blanket           an update needs only the factors around i
    coordinate joint       i alone                            one kernel per coordinate

A kernel on fewer numbers keeps particles apart where the plain one, in many dimensions, lets them collapse to
the mode. `bandwidth` is h; by default h^2 = median of |x - y|^2 / (2 log(N + 1)), renewed every 25 steps.
x are the free coordinates of all variables (`core/bijections.py`), with their Jacobian in p.

No bound and no log Z; with many particles and steps the marginals tend to those of p (with the plain form).
Steps are those of Adam at the rate rate / sqrt(1 + t / 100). A run has converged when the size of the
direction is below `stop`: for every coordinate, the root mean square of phi over the mean kernel of its
particle, times the standard deviation of the coordinate; it vanishes where the particles stand still, and
does not depend on the rate. The messages are no gradient of one function, so
that particles may keep moving in circles.

Cost of a step: one gradient per particle, and N^2 kernels (times the size of a blanket and the number of
coordinates, except for the plain form).

Source: Liu and Wang (2016); Wang, Zeng and Liu (2018) for the messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.errors import OptionError, QueryError
from ...core.result import Marginals, Result, Samples, Status
from ...families.densities import ParticleDensity, SimplexParticleDensity
from ...optimise.driver import Outcome, Step, drive
from ...optimise.run import Run
from ..problem.base import Algorithm, Budget, Problem, register
from ..problem.gradients import needs, why_no_gradients
from ..problem.starting_places import starting_places
from ..sampling.starts import starting_points

__all__ = ["SVGD", "SteinState"]


class SteinState(NamedTuple):
    """What a warm start needs."""

    particles: np.ndarray  # (count, dimension) numbers of all variables, in widths of profiles


@register
@dataclass(frozen=True, kw_only=True)
class SVGD(Algorithm):
    """Particles that follow gradients and repel each other; for continuous variables."""

    name: ClassVar[str] = "svgd"
    checkpoints: ClassVar[bool] = True
    compiles: ClassVar[bool] = True
    warm_starts: ClassVar[bool] = True
    particles: int = 100  # how many, unless samples are asked for
    form: Literal["joint", "messages"] = "joint"  # whether a kernel sees all variables or a Markov blanket
    kernel: Literal["scalar", "coordinate"] = "scalar"  # one for a point, or one for each of its coordinates
    bandwidth: float | None = None  # h of the kernel, in the same; None: from the median distance
    rate: float = 0.1  # of Adam at first
    stop: float = 1e-3  # size of the direction that counts as none; tol may raise it
    spread: float = 2.0  # of the random starts, in the widths of the profiles of variables

    def __post_init__(self) -> None:
        """Check the options."""
        check.whole("particles", self.particles, 1)
        check.one_of("form", self.form, ["joint", "messages"])
        check.one_of("kernel", self.kernel, ["coordinate", "scalar"])
        if self.form == "messages" and self.kernel == "coordinate":
            raise OptionError(
                "form=messages with kernel=coordinate: the kernel of a coordinate sees it alone, whatever "
                "the form; leave out one of the two"
            )
        if self.bandwidth is not None and not self.bandwidth > 0:
            raise OptionError(f"bandwidth must be positive, got {self.bandwidth!r}")
        check.at_least("rate", self.rate, 0)
        check.at_least("stop", self.stop, 0)
        check.at_least("spread", self.spread, 0)

    def why_not(self, problem: Problem) -> str | None:
        """Sums over continuous variables whose factors can be differentiated."""
        return why_no_gradients(problem)

    def run(self, problem: Problem, budget: Budget, rng: np.random.Generator) -> Result:
        """Move the particles until they stand still."""
        needs(self.name, "jax", "equinox")
        from ...core.log_density import LogDensity
        from .stein import Movement, SteinPlan

        places = starting_places(problem.graph)
        density = LogDensity.of(problem.graph, places.centre, places.scale)
        count = problem.samples or self.particles
        starts = starting_points(problem, count, self.spread, rng, self.name, places)
        first = np.zeros((count, 0))
        if starts.values:
            first = density.flatten({name: v[:, 0] for name, v in starts.values.items()})
        if problem.warm is not None:
            first = _warm(problem.warm, first.shape)
        seen = "coordinate" if self.kernel == "coordinate" else self.form
        movement = Movement(density, SteinPlan(seen, self.bandwidth, self.rate))
        budget = replace(budget, tol=max(self.stop, budget.tol))
        moves = _Moves(movement, density, first, starts.states[:, 0])
        return drive(moves, problem, budget, rng)  # type: ignore[no-any-return]


class _Moves:
    """The particles as the driver sees them."""

    name = SVGD.name

    def __init__(self, movement: Any, density: Any, first: np.ndarray, states: np.ndarray) -> None:
        self._movement, self._density, self._first, self._states = movement, density, first, states

    def start(self, problem: Problem, run: Run) -> Step:
        return Step(self._movement.begin(self._first))

    def advance(self, problem: Problem, state: Any, run: Run) -> Step:
        return self._movement.advance(state, run)  # type: ignore[no-any-return]

    def read(self, problem: Problem, outcome: Outcome) -> Result:
        values = self._density.values(outcome.state.at)
        status, notes = self._judge(outcome)
        return Result(
            self.name,
            status,
            marginals=_marginals(problem, values),
            samples=Samples(problem.graph.variables, self._states, values),
            trace={name: np.array(outcome.trace.get(name, ())) for name in ("change", "energy")},
            state=SteinState(outcome.state.at),
            notes=notes,
        )

    def _judge(self, outcome: Outcome) -> tuple[Status, tuple[str, ...]]:
        """Particles where the weight is zero have no gradient to lead them back: that is no success."""
        from ..problem.potentials import log_values

        at, status, notes = outcome.state.at, outcome.ended, tuple[str, ...]()
        if outcome.state.ran_away:
            notes = ("a particle left the finite range; these are the particles before; lower rate",)
        lost = int(np.isneginf(log_values(self._density, at)).sum())
        if not lost:
            return status, notes
        note = f"{lost} of {len(at)} particles lie where a factor is zero; use gibbs or metropolis"
        return Status.STALLED if status is Status.CONVERGED else status, (*notes, note)


def _warm(warm: Any, shape: tuple[int, ...]) -> np.ndarray:
    if not isinstance(warm, SteinState) or warm.particles.shape != shape:
        raise QueryError(
            f"warm_start: expected the result of svgd with {shape[0]} particles on these variables"
        )
    return warm.particles


def _marginals(problem: Problem, values: dict[str, np.ndarray]) -> Marginals:
    densities = {}
    for name, points in values.items():
        kind: Any = ParticleDensity if points.ndim == 1 else SimplexParticleDensity
        densities[name] = kind(points, np.full(len(points), 1 / len(points)))
    return Marginals(problem.graph.variables, np.zeros(0), densities)
