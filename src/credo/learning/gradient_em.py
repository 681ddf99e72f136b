r"""Generalised EM by mini-batches: mixtures, latent mixtures and hidden Markov models of flows.

    posteriors   of the old model, all rows, every `refresh` epochs
    leaves       Adam on mini-batches of Q, the posteriors kept
    the rest     weights, start, transition, closed forms: from the posteriors of all rows, with them

One iteration is `refresh` epochs; `em` is for few rows, where every M-step may see all of them. The
objective is the log-likelihood, which mini-batches may lower; `guard` excludes that. For a latent mixture (a
flow over a mixture) it is log-likelihood per row + prior of the scales.

scales      gamma(shape=2, rate=1) or l2(strength=...) on scales of latent mixtures; families/scale_prior
posterior   exact; scaled divides log densities by the dimension of a row, which is another algorithm: the
            likelihood may fall, components may merge
count_every periods between updates of what is counted

The posteriors are kept as arrays. Of a stream, data of more than memory, they are made again by the old model
when a batch has its turn, and sums are of all batches.

Cost per iteration: one answer about all rows and `refresh` passes of gradients; of a stream one answer more
in every pass.
Source: Liu, Perspectives on Probabilistic Graphical Models, 2020, Algorithms 2, 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError
from ..core.instance import Template
from ..core.result import Status
from ..data.stream import Stream
from ..families.learnable import Learnable
from ..families.scale_prior import read_scale_prior
from ..optimise.budgets import with_start
from ..optimise.driver import drive
from .base import Fit, Learner, Task, register_learner
from .em_steps import EMRun
from .hmm import HiddenRows
from .streams import first_batch

__all__ = ["GradientEM"]

_MANY = 20  # rows per flow and coordinate below which a latent mixture is the safer model


@register_learner
@dataclass(frozen=True, kw_only=True)
class GradientEM(Learner):
    """Generalised EM by mini-batches, for leaves without closed form and many rows."""

    name: ClassVar[str] = "gradient-em"
    checkpoints: ClassVar[bool] = True
    streams: ClassVar[bool] = True
    tol: ClassVar[float] = 1e-6  # change of a parameter in a period
    refresh: int = 5  # epochs between two answers of the old model
    count_every: int = 1  # periods between two updates of what is counted
    batch: int | None = 256  # rows of a gradient step; None: all
    rate: float = 3e-3  # of Adam
    warm_up: int = 0  # steps until it has its full size
    half_life: float = np.inf  # steps after which it begins to fall with their root
    decay: float = 1.0  # factor of the rate after every iteration
    least_rate: float = 0.0  # it falls no further
    clip: float = 100.0  # largest norm of a gradient
    most: float = 5.0  # largest entry of a gradient
    scales: Any = None  # prior of the scales of latent mixtures: gamma, l2, or None
    posterior: Literal["exact", "scaled"] = "exact"  # of choices and states
    guard: bool = False  # whether an iteration must not lower the objective
    patience: int | None = None  # iterations without a better validation value before stopping
    prior: Any = None  # of what is counted or summed, as in em
    start: Literal["given", "random"] = "given"  # of the first run
    restarts: int = 1  # runs in all; the best is returned
    fixed: tuple[str, ...] = ()  # parts that are not learned
    floor: float = 0.0  # variances of closed forms are raised to it

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("refresh", "count_every", "restarts"):
            check.whole(name, getattr(self, name), 1)
        for name in ("batch", "patience"):
            if getattr(self, name) is not None:
                check.whole(name, getattr(self, name), 1)
        check.whole("warm_up", self.warm_up, 0)
        for name in ("rate", "least_rate", "floor", "decay"):
            check.finite(name, getattr(self, name))
            check.at_least(name, getattr(self, name), 0)
        for name in ("half_life", "clip", "most"):
            if not getattr(self, name) > 0:
                raise OptionError(f"{name} must be positive, got {getattr(self, name)!r}")
        check.one_of("posterior", self.posterior, ["exact", "scaled"])
        check.one_of("start", self.start, ["given", "random"])
        check.one_of("guard", self.guard, [True, False])
        read_scale_prior(self.scales)

    def why_not(self, task: Task) -> str | None:
        """Models of hidden rows with leaves that gradients move."""
        if not isinstance(task.model, Template) or not isinstance(task.model, Learnable):
            return f"{task.name} is no Learnable: it has no `update` from expected counts"
        if task.model.emission.to_free() is None:
            return "all its leaves have closed forms; use em"
        if self.prior is not None and not isinstance(self.prior, task.model.prior_kinds):
            return f"{self.prior} is no prior of {task.name}"
        if self.patience is not None and task.validation is None:
            return "patience needs validation data; give validation=..."
        if "emission" in self.fixed:
            return "its emission is fixed, and that is what gradients move; use em"
        if self.batch is None and isinstance(task.data, Stream):
            return "batch=none sees all rows at once, and a stream has batches; say batch=256"
        return None

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """All restarts; the best of them."""
        from ..nn.adam import Rates
        from .gradient_passes import check_memory, refuse_stream
        from .gradient_steps import GradientPlan, GradientSteps

        stream, family = None, task.model.emission
        if isinstance(task.data, Stream):
            refuse_stream(task.model, task.data)
            stream, task = task.data, replace(task, data=first_batch(task.model, task.data))
        data = task.data
        if stream is None:
            if family.missing(data.rows()).all():
                raise DataError("data: expected at least one observed row, got missing ones only")
            family.refuse(data.rows())
            check_memory(family, data)
        rows = HiddenRows(
            task.model, data, self.prior, tuple(self.fixed), self.floor, "keep", task.validation,
            self.start == "random", stream,
        )  # fmt: skip
        count = data.n_rows if stream is None else stream.n_rows
        rows_up = 1 << (count - 1).bit_length()  # few sizes of batches: each is a program
        plan = GradientPlan(
            refresh=self.refresh, count_every=self.count_every, batch=min(self.batch or rows_up, rows_up),
            rates=Rates(self.rate, self.warm_up, self.half_life, 0.5, self.least_rate), decay=self.decay,
            clip=self.clip, most=self.most, scales=read_scale_prior(self.scales),
            share=1.0 if self.posterior == "exact" else 1.0 / _width(data.rows()), guard=self.guard,
            patience=self.patience,
        )  # fmt: skip
        steps = GradientSteps(self.name, plan, rows.fit_of)
        found: EMRun = drive(steps, rows, with_start(task.budget), rng, restarts=self.restarts)
        fit = rows.fit_of(found)
        early = self.patience is not None and found.status is Status.STALLED
        return replace(fit, notes=(*fit.notes, *self._notes(rows, found)), stopped_early=early)

    def _notes(self, rows: HiddenRows, found: EMRun) -> list[str]:
        """What happened, and whether a smaller model would be safer."""
        emission = rows.first.emission
        told = [f"iterations are {self.refresh} epochs; leaves of {type(emission).__name__} moved by Adam"]
        falls = int((np.diff(found.objective) < 0).sum())
        if falls:
            told.append(f"the objective fell in {falls} iterations, as it may; guard=true excludes that")
        members, width = sum(len(flow) for flow in _flows(emission)), _width(rows.data.rows())
        if members > 1 and rows.rows < _MANY * members * width:
            told.append(
                f"{rows.rows:.0f} rows of {width} numbers are few for {members} flows; a latent mixture "
                f"shares one flow among all components: {_smaller(emission)}"
            )
        return told


def _flows(family: Any) -> Iterator[Any]:
    """The flows of an emission, on its outermost levels."""
    if hasattr(family, "bijection"):
        yield family
    for part in (getattr(family, "components", None), *getattr(family, "parts", ())):
        if part is not None:
            yield from _flows(part)


def _smaller(emission: Any) -> str:
    """What to write for a latent mixture."""
    if hasattr(emission, "bijection"):
        return f"Flow.blank(components={len(emission)})"
    width = emission.weights.shape[1] if hasattr(emission, "weights") else 2
    return f"'flow(components={width})' in place of a mixture of flows"


def _width(rows: Any) -> int:
    """Numbers of a row."""
    return max(1, rows.shape[1] if rows.ndim == 2 else len(rows.dtype.names or (1,)))
