r"""Class models learned together, so that the right one is the most probable (conditional likelihood).

    maximise  sum_i log  p(x_i | H_y) P(y) / sum_c p(x_i | H_c) P(c),       y = y_i

over sequences or rows x_i with labels y_i, from models that were learned one by one. By Fisher's identity
the slope for class c is that of sum_i w_ic log p(x_i | H_c), with signed weights w_ic = 1[y_i = c] -
P(c | x_i), and so an expectation of complete-data slopes under the posteriors of H_c: no derivative of a
forward pass is needed, and whatever EM can learn of hidden rows can be tuned. Leaves move by Adam, Gaussian
ones too; `tune` says whether mixture weights, start and transition move as well, as log probabilities, zeros
staying zero.

One epoch from the generative models is what dGenHMM takes; more of them overfit soon.

Cost per step: one answer of every class model about the batch.
Source: Liu, Perspectives on Probabilistic Graphical Models, 2020, equation 7.34.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError, UnsupportedError
from ..core.records import record
from ..core.result import Status
from ..families.independent import IndependentRows, rows_model
from ..families.learnable import Learnable
from ..inference.problem.gradients import needs
from ..optimise.driver import UNKNOWN, Outcome, Step, drive
from ..optimise.pace import is_long
from ..optimise.run import Budget, Run, noted
from ..optimise.run import check as run_check

if TYPE_CHECKING:
    from ..nn.adam import Rates
    from .class_model import ClassModel, ClassNumbers

__all__ = ["Discriminated", "discriminate"]


@dataclass(frozen=True)
class Discriminated:
    """What conditional learning found."""

    models: dict[Any, Any]  # label -> model
    objective: np.ndarray  # conditional log-likelihood per sequence, at the start and after every epoch
    status: Status  # why it ended


@record("discriminative")
class DiscriminativeState(NamedTuple):
    """Where a run has come to."""

    numbers: tuple[ClassNumbers, ...]  # of every class
    epoch: int = 0
    position: int = 0  # sequences of the epoch that are done
    is_new: bool = True  # whether the objective at the start is still to be told
    seed: int = 0  # of the order of sequences


@noted
def discriminate(
    models: Mapping[Any, Any], x: Any, y: Sequence[Any] | np.ndarray, *, lengths: Any = None,
    priors: Mapping[Any, float] | Literal["counts"] | None = "counts",
    tune: Literal["all", "leaves"] = "leaves", epochs: int = 1, rate: float = 1e-3, batch: int = 32,
    clip: float = 100.0, seconds: float | None = None, seed: int | None = None,
    on_step: Callable[[int, Any], None] | None = None,
) -> Discriminated:  # fmt: skip
    """Tune the models of classes so that they tell these apart.

    Parameters
    ----------
    models
        Label -> model of hidden rows, or family, each learned from its class.
    x, y, lengths
        Sequences (or rows) as the models read them, and the label of each.
    priors
        Of the classes: shares in `y`, label -> weight, or None for equal ones.
    tune
        Leaves of the emissions, or all parameters.
    epochs
        Passes over the data.
    rate, clip
        Of Adam, and the largest norm of a gradient.
    batch
        Sequences of a step.
    seconds, on_step, seed
        As of `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families import DiagonalGaussian
    >>> from credo.learning import discriminate
    >>> x = np.array([[-1.0], [-0.5], [0.4], [0.5], [1.0], [9.0]])
    >>> start = {c: DiagonalGaussian([[m]], [[1.0]]) for c, m in enumerate([-0.2, 0.0])}
    >>> found = discriminate(start, x, [0, 0, 1, 1, 1, 1], epochs=20, rate=0.05, batch=6, seed=0)
    >>> bool(found.objective[-1] > found.objective[0])
    True
    """
    needs("discriminate", "jax", "optax")
    for name, value in (("epochs", epochs), ("batch", batch)):
        check.whole(name, value, 1)
    check.one_of("tune", tune, ["all", "leaves"])
    check.finite("rate", rate)
    check.at_least("rate", rate, 0)
    rows = {label: rows_model(model) for label, model in models.items()}
    for label, model in rows.items():
        if not isinstance(model, Learnable):
            raise UnsupportedError(
                f"class {label!r}: expected a model of hidden rows, got {type(model).__name__}"
            )
    labels = list(rows)
    classes = [_class(rows[c], x, lengths, with_choices=tune == "all") for c in labels]
    told = _positions(y, labels, classes[0].data.n_units)
    from ..nn.adam import Rates

    task = _Task(tuple(classes), told, _log_priors(priors, labels, told), Rates(rate), clip, batch)
    found: Discriminated = drive(
        DiscriminativeSteps(tuple(labels)), task, Budget(epochs + 1, 0.0, seconds), check.generator(seed)
    )
    return found


class _Task(NamedTuple):
    classes: tuple[ClassModel, ...]
    labels: np.ndarray  # (sequences,) positions of classes
    log_priors: np.ndarray  # (classes,)
    rates: Rates
    clip: float
    batch: int


@dataclass(frozen=True)
class DiscriminativeSteps:
    """Epochs for the driver; the first step tells the objective of the start."""

    labels: tuple[Any, ...]  # of the classes
    name: str = "discriminative"  # in progress bars

    def start(self, problem: _Task, run: Run) -> Step:
        """The given models."""
        begun = tuple(c.begin(problem.rates, problem.clip) for c in problem.classes)
        return Step(DiscriminativeState(begun, seed=int(run.rng.integers(1 << 31))))

    def advance(self, problem: _Task, state: DiscriminativeState, run: Run) -> Step:
        """Some batches; at the end of an epoch, its objective."""
        if state.is_new:
            return self._told(problem, state._replace(is_new=False))
        began, count = perf_counter(), len(problem.labels)
        order = np.random.default_rng([state.seed, state.epoch]).permutation(count)
        numbers, position = state.numbers, state.position
        while position < count:
            run_check()
            units = np.sort(order[position : position + problem.batch])
            numbers, position = self._step(problem, numbers, units), position + problem.batch
            if is_long(began):
                break
        new = state._replace(numbers=numbers, position=position)
        return (
            Step(new)
            if position < count
            else self._told(problem, new._replace(epoch=state.epoch + 1, position=0))
        )

    def _step(
        self, problem: _Task, numbers: tuple[ClassNumbers, ...], units: np.ndarray
    ) -> tuple[ClassNumbers, ...]:
        answers = [c.answer(c.at(n), units) for c, n in zip(problem.classes, numbers, strict=True)]
        logs = np.stack([a.found.log_z for a in answers], axis=1) + problem.log_priors
        signs = np.eye(logs.shape[1])[problem.labels[units]] - _softmax(logs)
        each = zip(problem.classes, numbers, answers, signs.T, strict=True)
        return tuple(c.moved(n, a, w) for c, n, a, w in each)

    def _told(self, problem: _Task, state: DiscriminativeState) -> Step:
        units = np.arange(len(problem.labels))
        columns = []
        for own, numbers in zip(problem.classes, state.numbers, strict=True):
            model = own.at(numbers)
            parts = [own.answer(model, units[k : k + 256]).found.log_z for k in range(0, len(units), 256)]
            columns.append(np.concatenate(parts))
        logs = np.stack(columns, axis=1) + problem.log_priors
        value = float(np.log(_softmax(logs)[units, problem.labels]).mean())
        status = None if np.isfinite(value) else Status.DIVERGED
        return Step(state, [UNKNOWN], {"objective": [value]}, status)

    def read(self, problem: _Task, outcome: Outcome) -> Discriminated:
        """The models so far."""
        pairs = zip(self.labels, problem.classes, outcome.state.numbers, strict=True)
        made = {label: own.at(numbers) for label, own, numbers in pairs}
        models = {c: m.family if isinstance(m, IndependentRows) else m for c, m in made.items()}
        return Discriminated(models, np.array(outcome.trace.get("objective", [])), outcome.ended)


def _class(model: Any, x: Any, lengths: Any, *, with_choices: bool) -> ClassModel:
    data = model.sequences(x, lengths)
    model.emission.refuse(data.rows())
    seen = np.asarray(data.rows(), float) if data.rows().dtype.names is None else np.zeros((0, 1))
    some = np.isnan(seen).any(axis=-1) & ~np.isnan(seen).all(axis=-1) if seen.ndim == 2 else np.zeros(0, bool)
    if some.any():
        raise DataError(
            f"data: row {int(some.argmax())} misses some of its numbers, and gradients need them all; fill "
            "them in by credo.impute, or leave the row out"
        )
    from .class_model import ClassModel

    return ClassModel(model, data, with_choices=with_choices)


def _positions(y: Any, labels: list[Any], count: int) -> np.ndarray:
    told = list(np.asarray(y).tolist() if isinstance(y, np.ndarray) else y)
    if len(told) != count:
        raise DataError(f"y: expected one label per sequence, {count} in all, got {len(told)}")
    unknown = [label for label in told if label not in labels]
    if unknown:
        raise DataError(f"y: label {unknown[0]!r} has no model; there are {labels[:8]}")
    return np.array([labels.index(label) for label in told])


def _log_priors(priors: Any, labels: list[Any], told: np.ndarray) -> np.ndarray:
    if priors is None:
        return np.zeros(len(labels))
    if priors == "counts":
        weights = np.bincount(told, minlength=len(labels)).astype(float)
    elif isinstance(priors, Mapping) and set(priors) == set(labels):
        weights = np.array([priors[label] for label in labels], float)
    else:
        raise OptionError(
            f"priors must be 'counts', None, or a weight for each of {labels[:8]}, got {priors!r:.80}"
        )
    if not ((weights >= 0).all() and weights.sum() > 0):
        raise OptionError(f"priors: expected weights from 0 upwards, got {weights.tolist()[:8]}")
    with np.errstate(divide="ignore"):
        found: np.ndarray = np.log(weights / weights.sum())
    return found


def _softmax(logs: np.ndarray) -> np.ndarray:
    shares: np.ndarray = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
