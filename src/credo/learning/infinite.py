r"""Boltzmann machines that grow: hidden units are added one at a time, by Frank-Wolfe steps (`unit_growth`).

`max_iter` is the number of units to add. A machine that has units already goes on from them. The result is
an ordinary machine, unless `alpha` is given or learned: units then have shares of it, and it is a
fractional one. It may start `boltzmann` again: credo.fit(found.model, x, "boltzmann(negative=cd,
sweeps=10)").

The residual is the duality gap, the largest d that was found less the mean of d over q: where no unit is
worth more than those there are, learning has converged. Each unit counts fully from the start; where that
would lower the likelihood, as the chains see it, the unit is made smaller. With a large `fall` the penalty
alone keeps units small, as in the source. The trace has, after every step, the `gain` of the last unit, its
`promise` d, how often it was halved (`halvings`), the number of `units`, `alpha`, the share of proposals
that were `accepted`, and the objective: how much likelier rows are than chains, which is no likelihood.
With validation rows `validation` is their mean score less that of the rows, which falls when the machine
begins to overfit; with `widest` learning stops before it falls below minus that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.records import record
from ..core.result import Status
from ..kernels.boltzmann import sigmoid
from ..models.conditional_rbm import ConditionalRBM
from ..models.fractional_rbm import FractionalRBM
from ..models.rbm import RBM
from ..models.unit_rows import UnitRows, log_odds
from ..optimise import driver
from ..optimise.frank_wolfe import FrankWolfe, FrankWolfeState
from ..optimise.run import Run
from .base import Fit, Learner, Task, register_learner
from .runs import arrays
from .unit_growth import Grown, Growth

__all__ = ["InfiniteBoltzmann"]


@register_learner
@dataclass(frozen=True, kw_only=True)
class InfiniteBoltzmann(Learner):
    """Machines that grow by a hidden unit per step, by Frank-Wolfe in the distributions over units."""

    name: ClassVar[str] = "infinite-boltzmann"
    checkpoints: ClassVar[bool] = True
    tol: ClassVar[float] = 1e-3
    penalty: float = 0.01  # lambda, of half the square of the weights of a unit
    scaled: bool = False  # whether it is divided by alpha, which is exact, and weaker with every unit
    radius: float | None = None  # of a ball in which the weights of a unit lie
    starts: int = 3  # of the search for a unit
    inner: int = 50  # steps of L-BFGS in each
    rows: int | None = None  # that a unit is found on, drawn anew for each; None: all
    fall: float = 0.0  # nats that a unit may cost; one that costs more is halved
    seen: float = 0.05  # of the chains, how many the gain of a unit must rest on; else it is halved
    particles: int = 1000  # chains that are carried on; conditional machines have one per row
    turns: int = 20  # of chains and biases after each unit
    rate: float = 0.1  # of biases, and of alpha
    alpha: float | None = None  # how much all units count together; None: as many as there are
    learn_alpha: bool = False  # whether alpha, from one or what is given, is learned with the biases
    away: bool = False  # whether there are steps that take a unit out
    widest: float | None = None  # nats per row that validation rows may be behind

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("starts", "inner", "particles", "turns"):
            check.whole(name, getattr(self, name), 1)
        check.in_range("seen", self.seen, 0, 1)
        for name in ("penalty", "fall"):
            check.at_least(name, getattr(self, name), 0)
        for name in ("scaled", "learn_alpha", "away"):
            check.one_of(name, getattr(self, name), [False, True])
        if self.rows is not None:
            check.whole("rows", self.rows, 1)
        check.above("rate", self.rate, 0)
        for name in ("alpha", "radius", "widest"):
            if getattr(self, name) is not None:
                check.above(name, getattr(self, name), 0)

    def why_not(self, task: Task) -> str | None:
        """Boltzmann machines of two-state units."""
        if not isinstance(task.model, (RBM, ConditionalRBM, FractionalRBM)):
            return f"it learns Boltzmann machines, got {task.name}"
        if getattr(task.model, "is_real", False):
            return "visible units are numbers of the line; use boltzmann"
        if isinstance(task.model, ConditionalRBM) and self._is_fractional:
            return "units of a conditional machine count once; leave out alpha and learn_alpha"
        if self.widest is not None and task.validation is None:
            raise OptionError("widest: stopping needs validation data; give validation=...")
        return None

    @property
    def _is_fractional(self) -> bool:
        return self.alpha is not None or self.learn_alpha

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Grow, and make a machine of the units."""
        data = task.data.as_type(np.float32)
        held = None if task.validation is None else task.validation.as_type(np.float32)
        growth = Growth(
            data, self._first(task.model, data, rng), rng, self.penalty, self.scaled, self.radius,
            self.starts, self.inner, self.rows, self.fall, self.seen, self.turns, self.rate,
            not self._is_fractional, self.learn_alpha,
        )  # fmt: skip
        steps = _Steps(self, growth, held)
        return driver.drive(steps, growth, task.budget, rng)  # type: ignore[no-any-return]

    def _first(self, model: Any, data: UnitRows, rng: np.random.Generator) -> Grown:
        """The units of a model that has some, its biases, and chains at its rows; else independent units."""
        weights = model.weights
        width = 0 if data.x is None else data.x.shape[1]
        bias = np.zeros((weights.shape[0], 1 + width))
        atoms = np.zeros((weights.shape[0] + width + 1, 0))
        shares = np.zeros(0)
        bias[:, 0] = model.visible_bias if model.visible_bias.any() else log_odds(data.v)
        if width:
            bias[:, 1:] = model.visible_weights
        if weights.any():
            more = [model.hidden_weights.T] if width else []
            atoms = np.concatenate([weights, *more, model.hidden_bias[None]])
            counts = getattr(model, "counts", np.ones(weights.shape[1]))
            shares = counts / counts.sum()
        alpha = self.alpha or float(getattr(model, "counts", shares).sum() if len(shares) else 1.0)
        count = self.particles if data.x is None else len(data)
        if len(shares):
            chosen = np.arange(len(data)) if width else rng.integers(len(data), size=count)
            return Grown(atoms, shares, alpha, bias, data.v[chosen])
        fields = bias[:, 0] if data.x is None else bias[:, 0] + data.x @ bias[:, 1:].T
        p = np.broadcast_to(sigmoid(fields), (count, len(bias)))
        chains = (rng.random(p.shape) < p).astype(np.float32)
        return Grown(atoms, shares, alpha, bias, chains)


@record("growing machine")
class _Growing(NamedTuple):
    """Where the steps have come to."""

    inner: FrankWolfeState


class _Steps:
    """Growth as the driver sees it: a step adds a unit, or takes one out."""

    name = "infinite-boltzmann"

    def __init__(self, options: InfiniteBoltzmann, growth: Growth, held: UnitRows | None) -> None:
        self._options, self._held = options, held
        known = len(growth.first.shares)
        lengths: Literal["equal", "search"] = "equal" if growth.grows else "search"
        self._steps = FrankWolfe(away=options.away, steps=lengths, delay=known)

    def start(self, problem: Growth, run: Run) -> driver.Step:
        step = self._steps.start(problem, run)
        state: FrankWolfeState = step.state
        if len(problem.first.shares):
            state = state._replace(x=problem.settled(problem.first, is_held=True))
        return driver.Step(_Growing(state))

    def advance(self, problem: Growth, state: _Growing, run: Run) -> driver.Step:
        step = self._steps.advance(problem, state.inner, run)
        inner: FrankWolfeState = step.state
        place: Grown = inner.x
        trace: dict[str, Any] = {
            "objective": -inner.value,
            "gain": place.gain,
            "promise": place.promise,
            "halvings": place.halvings,
            "gap": step.residuals[0],
            "units": len(place.shares),
            "alpha": place.alpha,
            "accepted": place.accepted,
            "seconds": run.elapsed,
        }
        status = step.status
        if self._held is not None:
            behind = problem.score(place, self._held) - problem.score(place, problem.data)
            trace["validation"] = behind
            if self._options.widest is not None and behind < -self._options.widest:
                inner, status = state.inner, Status.STALLED
        found = {name: [number] for name, number in trace.items()}
        return driver.Step(_Growing(inner), step.residuals, found, status)

    def read(self, problem: Growth, outcome: driver.Outcome) -> Fit:
        names = ["objective", "gain", "promise", "halvings", "gap", "units", "alpha", "accepted", "seconds"]
        names += ["validation"] * (self._held is not None)
        trace = arrays(outcome.trace, names)
        place: Grown = outcome.state.inner.x
        early = (
            outcome.status is Status.STALLED
            and self._options.widest is not None
            and bool(len(trace["validation"]))
            and trace["validation"][-1] < -self._options.widest
        )
        notes = ["visible biases began at the log-odds of the data"] * (not problem.first.shares.size)
        return Fit(
            _machine_of(place), outcome.ended, trace["objective"], None, trace,
            notes=tuple(notes), stopped_early=early,
        )  # fmt: skip


def _machine_of(place: Grown) -> Any:
    """An ordinary machine where units count a whole number of times."""
    count = len(place.bias)
    weights, bias = place.atoms[:count], place.bias[:, 0]
    if place.bias.shape[1] > 1:
        return ConditionalRBM(weights, place.bias[:, 1:], place.atoms[count:-1].T, bias, place.atoms[-1])
    if not weights.size:
        return RBM(weights, bias)
    used = place.counts > 0
    if not used.any():
        return RBM(weights[:, :0], bias)
    found = FractionalRBM(weights[:, used], place.counts[used], bias, place.atoms[-1, used])
    return found.to_rbm() if found.is_whole else found
