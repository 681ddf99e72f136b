r"""Generalised EM by mini-batches, as the driver sees it: one iteration is a period of several epochs.

    1. the old model answers: posteriors of all rows, kept as arrays; log-likelihood, counts, sums
    2. `refresh` epochs of gradient steps on Q with these posteriors, in compiled chunks
    3. the new model: leaves that moved, and what is counted or summed in closed form; it is the next old one

The first iteration is 1 alone. A step of the driver is one chunk of mini-batches, so that a signal ends it
soon; the state has all that is needed to go on within an epoch, posteriors included. Of a stream no
posteriors are kept: each batch is answered by the old model again when its turn comes.

With the guard, a new model whose objective (log-likelihood, and the prior of scales) is lower gives way to
the old leaves with the closed forms alone, which never lower it, and steps get shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core.records import record
from ..core.result import Status
from ..families.family_forms import FamilyForm
from ..families.mixture import Mixture
from ..families.trees import Tree, map_tree
from ..nn.adam import Rates
from ..nn.arrays import precision
from ..nn.batches import Batches, CompiledRows
from ..nn.chunks import Chunks, ChunkState, Phase
from ..optimise.driver import UNKNOWN, Outcome, Step
from ..optimise.run import Run
from .believed import Believed, believe, q_parts
from .climb_step import ClimbStep, climb_carry, climb_rows, is_double
from .em_data import Place
from .em_steps import EMRun
from .gradient_passes import Survey, check_memory, survey_rows
from .hmm import HiddenRows

__all__ = ["GradientPlan", "GradientSteps", "effective_components"]

_SHORTER = 0.25  # factor of the rate after the guard had to act
_LONGER = 2.0  # and after it had not, up to the rate that was asked for
_BLOCK = 1024  # rows are filled up to a multiple of this
_ROUNDING = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}  # relative fall that is noise


@dataclass(frozen=True, kw_only=True)
class GradientPlan:
    """How leaves are moved."""

    refresh: int  # epochs between two answers of the old model
    count_every: int  # periods between two updates of what is counted
    batch: int  # rows of a step
    rates: Rates  # of Adam
    decay: float  # factor of the rate after every period
    clip: float  # largest norm of a gradient
    most: float  # largest entry of a gradient
    scales: Any  # prior of the scales of latent mixtures
    share: float  # what the log density of a row counts in posteriors
    guard: bool  # whether a period must not lower the objective
    patience: int | None  # periods without a better validation value


@record("gradient em")
class GradientState(NamedTuple):
    """Where a run has come to."""

    model: Any  # the old one
    note: str | None = None  # about the start
    seed: int = 0  # of the order of rows
    moving: ChunkState | None = None  # free numbers, moments of Adam, the place in the epoch
    believed: Believed | None = None  # what the old model says about the data
    survey: Survey | None = None  # the new model, while it answers
    place: Place = ()  # where in the stream the batch begins that is learned from
    passes: int = 0  # epochs so far
    objective: float = -np.inf  # of the old model
    periods: int = 0  # answers of old models so far
    shorter: float = 1.0  # factor of the rate by the guard
    best: tuple[float, Any, int] = (-np.inf, None, 0)  # validation, its model, periods since


@dataclass(frozen=True)
class GradientSteps:
    """Periods of mini-batch steps for the driver; the problem is `HiddenRows`."""

    name: str  # in progress bars
    plan: GradientPlan  # how leaves are moved
    shown: Callable[[EMRun], Any] | None = None  # what observers are shown of a run
    # what can be made again from the state: rows where the steps read them, and the chunks
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def start(self, problem: HiddenRows, run: Run) -> Step:
        """The model, before anything was asked."""
        begun = problem.start(run.rng, run.number)
        return Step(GradientState(begun.parameters, begun.note, int(run.rng.integers(1 << 31))))

    def advance(self, problem: HiddenRows, state: GradientState, run: Run) -> Step:
        """Some answers of a model, or some mini-batches."""
        if state.believed is None or state.survey is not None:
            return self._look(problem, state, run)
        moving, batch = state.moving or self._begin(state), self._batch(problem, state)
        moving, is_over, status = self._climb(state, batch, moving, run)
        state = state._replace(moving=moving)
        if status is not None:
            return Step(state, [UNKNOWN], status=status)
        if not is_over:
            return Step(state)
        passes = state.passes + (not batch.end)
        state = state._replace(place=batch.end, passes=passes)
        if batch.end or passes % self.plan.refresh:
            return Step(state)
        model = self._updated(problem, state, moving.carry["model"].parameters)
        return self._look(problem, state._replace(survey=Survey(model)), run)

    def _look(self, problem: HiddenRows, state: GradientState, run: Run) -> Step:
        """The model of the start, or the new one, answers about all rows."""
        survey, old = state.survey or Survey(state.model), state.believed
        q = None if old is None else old.expected.q
        survey, found = survey_rows(problem, survey, None if old is None else state.model, q, self.plan.share)
        if found is None:
            return Step(state._replace(survey=survey))
        state = state._replace(survey=None)
        if old is None:
            new = self._judged(problem, state, survey.model, found)
            return Step(new, [UNKNOWN], self._trace(problem, new, found, found, run))
        return self._renew(problem, state, survey, found, old, run)

    def _begin(self, state: GradientState) -> ChunkState:
        """Fresh moments."""
        with precision(is_double(state.model.emission)):
            carry = climb_carry(
                state.model.emission, self.plan.rates, clip=self.plan.clip, most=self.plan.most
            )
            return ChunkState(carry)

    def _climb(
        self, state: GradientState, batch: _Batch, moving: ChunkState, run: Run
    ) -> tuple[ChunkState, bool, Status | None]:
        """Some mini-batches, whether they end the rows at hand, and what ended the run."""
        family = state.model.emission
        chunks = self._chunks(FamilyForm(family), state.seed)
        with precision(is_double(family)):
            step = chunks.advance(batch.rows, moving, run)
        new: ChunkState = step.state
        carry = {**new.carry, "model": map_arrays(np.asarray, new.carry["model"])}
        return new._replace(carry=map_arrays(np.asarray, carry)), step.trace is not None, step.status

    def _chunks(self, form: FamilyForm, seed: int) -> Chunks:
        key = (form, seed)
        if self._cache.get("key") != key:
            step, batches = ClimbStep(form, self.plan.scales), Batches(self.plan.batch, seed)
            self._cache["key"] = key
            self._cache["chunks"] = Chunks(phases=(Phase(step),), carry=None, batches=batches)
        found: Chunks = self._cache["chunks"]
        return found

    def _batch(self, problem: HiddenRows, state: GradientState) -> _Batch:
        """Rows and posteriors, kept where the steps read them for as long as both are the same."""
        key = (state.seed, state.periods, state.place, state.passes if problem.stream else 0)
        if self._cache.get("at") != key:
            self._cache["batch"] = None  # before the next one takes memory
            self._cache["at"], self._cache["batch"] = key, self._read_batch(problem, state)
        found: _Batch = self._cache["batch"]
        return found

    def _read_batch(self, problem: HiddenRows, state: GradientState) -> _Batch:
        assert state.believed is not None
        family, data, q = state.model.emission, problem.data, state.believed.expected.q
        end: Place = ()
        size = data.n_rows
        if problem.stream is not None:
            place = state.place or (state.passes,)
            batch, end = next(problem.stream.batches(place))
            with problem.stream.placed(place):
                data = problem.part(batch).data
                check_memory(family, data)
                q = believe(state.model, data, share=self.plan.share).expected.q
            size = max(data.n_rows, problem.stream.batch_rows)
        with precision(is_double(family)):
            # Filled up: another number of rows is no new program.
            tree = map_arrays(partial(_filled, size=size), climb_rows(family, data.rows(), q))
            return _Batch(CompiledRows.of(tree)._replace(length=data.n_rows), end)

    def _renew(
        self, problem: HiddenRows, state: GradientState, survey: Survey, found: Believed, old: Believed,
        run: Run,
    ) -> Step:  # fmt: skip
        """A period is over: the new model has answered, and becomes the old one."""
        new = self._judged(problem, state, survey.model, found)
        if self.plan.guard and not survey.is_retreat:
            if self._falls(state, new):
                retreat = Survey(self._updated(problem, state, None), is_retreat=True)
                shorter = state._replace(moving=None, shorter=state.shorter * _SHORTER, survey=retreat)
                return self._look(problem, shorter, run)
            new = new._replace(shorter=min(1.0, state.shorter * _LONGER))
        moving = new.moving or self._begin(new)
        new = new._replace(moving=self._slower(new._replace(moving=moving)))
        trace = self._trace(problem, new, found, old, run)
        residual = min(problem.movement(state.model, survey.model), UNKNOWN)
        return Step(new, [residual], trace, self._ended(new))

    def _falls(self, state: GradientState, new: GradientState) -> bool:
        """Whether the objective has become lower by more than rounding."""
        kind = np.dtype(np.float64 if is_double(new.model.emission) else np.float32)
        return new.objective < state.objective - _ROUNDING[kind] * max(1.0, abs(state.objective))

    def _slower(self, state: GradientState) -> ChunkState:
        """The rate of the next period."""
        assert state.moving is not None
        group = state.moving.carry["model"]
        factor = state.shorter * self.plan.decay ** (state.periods - 1)
        kind = group.rates.rate.dtype
        rate = np.asarray(max(self.plan.rates.rate * factor, float(group.rates.floor) * state.shorter), kind)
        moved = group._replace(rates=group.rates._replace(rate=rate))
        return state.moving._replace(carry={**state.moving.carry, "model": moved})

    def _updated(self, problem: HiddenRows, state: GradientState, free: Tree) -> Any:
        """The model with leaves that moved, and what is counted, where that is due."""
        assert state.believed is not None
        expected = state.believed.expected
        emission = replace(expected.emission, free=free)
        if state.periods % self.plan.count_every == 0:
            return problem.maximise(replace(expected, emission=emission), state.model)
        if free is None:
            return state.model
        kept = tuple(part for part in state.model.parts if part != "emission")
        return state.model.update(replace(expected, emission=_OnlyMoved(free)), fixed=kept)

    def _judged(
        self, problem: HiddenRows, state: GradientState, model: Any, found: Believed
    ) -> GradientState:
        objective = found.expected.log_likelihood + problem.log_prior(model)
        objective += problem.rows * self.scale_value(model.emission)
        held = problem.validate(model)
        best = state.best
        if held is not None:
            best = (held, model, 0) if held > best[0] else (best[0], best[1], best[2] + 1)
        return state._replace(
            model=model, believed=found, objective=float(objective), periods=state.periods + 1, best=best
        )

    def scale_value(self, family: Any) -> float:
        """The prior of the scales, per row."""
        free = family.to_free() if self.plan.scales is not None else None
        log_scales = (
            None if free is None else family.log_scales(map_tree(lambda a: np.asarray(a, float), free))
        )
        return 0.0 if log_scales is None else float(self.plan.scales.value(log_scales, np))

    def _ended(self, state: GradientState) -> Status | None:
        if not np.isfinite(state.objective):
            return Status.DIVERGED
        late = self.plan.patience is not None and state.best[2] >= self.plan.patience
        return Status.STALLED if late else None

    def _trace(
        self, problem: HiddenRows, state: GradientState, found: Believed, old: Believed, run: Run
    ) -> dict[str, list[float]]:
        """Numbers of a period; `bound` is F of the new model under the posteriors of the old one."""
        others = found.leaves if found is old else found.others
        bound = sum(q_parts(state.model, old.expected).values()) + others + old.entropy
        numbers = {
            "objective": state.objective, "log_likelihood": found.expected.log_likelihood, "bound": bound,
            "components": effective_components(state.model), "seconds": run.elapsed,
        }  # fmt: skip
        held = problem.validate(state.model)
        return {name: [float(n)] for name, n in numbers.items()} | (
            {} if held is None else {"validation": [held]}
        )

    def value(self, state: GradientState) -> float:
        """How good a start was."""
        return state.objective

    def show(self, problem: HiddenRows, outcome: Outcome) -> Any:
        """What observers see of the answer."""
        found = self.read(problem, outcome)
        return found if self.shown is None else self.shown(found)

    def read(self, problem: HiddenRows, outcome: Outcome) -> EMRun:
        """Where it led: the best model of the validation data where there is patience, or else the last."""
        trace, state = dict(outcome.trace), outcome.state
        ends = np.array(outcome.values or [state.objective])
        chosen = (
            state.best[1] if self.plan.patience is not None and state.best[1] is not None else state.model
        )
        return EMRun(chosen, outcome.ended, trace.pop("objective", []), trace, ends, state.note)


class _Batch(NamedTuple):
    """Rows at hand, with their posteriors."""

    rows: CompiledRows
    end: Place  # where in the stream the next ones begin; () at the end of a pass


class _OnlyMoved:
    """Stands for expected sums of an emission of which only the moved leaves are taken over."""

    def __init__(self, free: Tree) -> None:
        self.free = free

    def update(self, family: Any, prior: Any = None, *, floor: float = 0.0) -> Any:
        """The family with these free numbers."""
        return family.from_free(self.free)


def effective_components(model: Any) -> float:
    """Exp of the entropy of mixture weights: of the rows, of states on average, or of a base."""
    family = getattr(model, "family", model.emission)
    while not isinstance(family, Mixture):
        if not hasattr(family, "base"):
            return 1.0
        family = family.base
    weights = family.weights
    logs = np.log(np.where(weights > 0, weights, 1.0))
    return float(np.exp(-(weights * logs).sum(axis=1)).mean())


def _filled(a: Any, size: int) -> Any:
    """Zeros appended up to so many rows, in whole blocks."""
    more = size + -size % _BLOCK - len(a)
    return np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)]) if more else a


def map_arrays(function: Callable[[Any], Any], tree: Any) -> Any:
    """A function of all arrays of a JAX tree."""
    import jax

    return jax.tree.map(function, tree)
