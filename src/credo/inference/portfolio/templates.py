"""Questions about templates, models that are graphs only together with data, for the public calls.

Without a method the structure of the instance decides: independent rows, chains and segments have exact
answers of their own, graphs are asked one by one. A named method reads the arrays of the instance if it can;
else it is asked about its factor graph, and the answer is put into rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from ...core import check
from ...core.errors import ModelError, QueryError
from ...core.instance import Instance
from ...core.kind_graphs import KindGraphs
from ...core.layer_rows import LayerRows
from ...core.result import Estimate, Result, Status
from ...core.rows import Rows
from ...core.stopwatch import Stopwatch
from ...data.dataset import Dataset
from ...data.sequences import step_counts
from ...families.base import map_columns
from ...families.independent import rows_model
from ...optimise.run import call
from ..exact.chains import Answer
from ..exact.hidden_rows import (
    ENTRIES,
    best_states,
    draw_states,
    filter_rows,
    forecast_states,
    smooth_rows,
    unit_log_z,
)
from ..exact.walks import walk
from ..problem.base import Algorithm, Budget, algorithms
from ..problem.rows import reads_rows, run_rows
from ..problem.running import opened
from .label_graphs import Ask, draw_graphs, infer_graphs

__all__ = [
    "FutureRows",
    "draw_paths",
    "draw_rows",
    "forecast",
    "infer_by_name",
    "infer_template",
    "names_given",
    "sequence_log_z",
    "template_of",
    "total_log_z",
]

_NAMES = {"independent": "responsibilities"}
_CHOSEN = "{} of hidden rows are answered exactly by their own recursions"


def infer_template(
    model: Any,
    data: Any,
    reading: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    causal: bool,
    general: Ask,
) -> Result:
    """The exact answer to `infer(model, data=...)`; `reading` says how the data are read.

    Rows that form graphs are asked about by `general`: `infer` with the `options` of the call.
    """
    model, maximise = template_of(model), options["maximise"]
    _check(causal, maximise, model)
    watch = Stopwatch()
    instance = None if _emits(model) else model.instantiate(data, **reading)
    if isinstance(instance, LayerRows):
        return _of_layers(instance, None, general, options, causal=causal)
    if instance is not None and instance.structure == "graph":
        if causal:
            raise QueryError("causal: expected chains, whose rows have an order, got graphs; leave it out")
        return _of_graphs(instance, general, options)
    with call():
        if instance is None and not causal and maximise != "all":
            found = _smooth(model, model.sequences(data, **reading))
        else:
            instance = model.instantiate(data, **reading) if instance is None else instance
            found = _answer(instance, causal=causal, maximise=maximise)
    return found.but(seconds=watch.seconds, compile_seconds=watch.compile_seconds)


def infer_by_name(
    model: Any,
    data: Any,
    reading: Mapping[str, Any],
    method: str | Algorithm,
    options: Mapping[str, Any],
    *,
    causal: bool,
    general: Ask,
) -> Result:
    """The answer of a method that was named: from the arrays of the instance where it reads these.

    Other methods are asked about its factor graph, by `general`. `options` are those of `infer`.
    """
    model = template_of(model)
    _check(causal, options["maximise"], model)
    if causal:
        raise QueryError("causal: expected no method, got one; filtering is a recursion of its own")
    algorithm = algorithms.resolve(method)
    with call():
        instance = model.instantiate(data, **reading)
    if isinstance(instance, LayerRows):
        return _of_layers(instance, algorithm, general, options, causal=False)
    if not _emits(model):
        return _of_graphs(instance, general, options)
    if not reads_rows(algorithm, instance, options["maximise"]):
        return _in_rows(instance, general(instance))
    with call(options["on_step"]) as run:
        if options["checkpoint"] is not None:
            run.checkpoint = opened(options["checkpoint"], options["every"], None)
        budget = Budget(options["max_iter"], options["tol"], options["seconds"])
        return run_rows(
            algorithm, instance, budget, seed=options["seed"], strict=options["strict"], keep=run.checkpoint
        )


def _of_layers(
    rows: LayerRows, method: Any, general: Ask, options: Mapping[str, Any], *, causal: bool
) -> Result:
    from .layer_rows import infer_layer_rows  # other templates need none of it

    if causal:
        raise QueryError("causal: expected rows with an order, got layers of units; leave it out")
    watch = Stopwatch()
    with call(seconds=options["seconds"]):
        found = infer_layer_rows(rows, method, options, general)
    return found.but(seconds=watch.seconds, compile_seconds=watch.compile_seconds)


def _of_graphs(instance: Instance | KindGraphs, general: Ask, options: Mapping[str, Any]) -> Result:
    if options["checkpoint"] is not None and instance.units > 1:
        raise QueryError(
            f"checkpoint: expected one graph, whose run it keeps, got {instance.units}; ask them one by one"
        )
    watch = Stopwatch()
    with call(seconds=options["seconds"]) if instance.units > 1 else nullcontext():
        found = infer_graphs(instance, general, maximise=options["maximise"])
    return found.but(seconds=watch.seconds, compile_seconds=watch.compile_seconds)


def _check(causal: bool, maximise: Any, model: Any) -> None:
    if hasattr(model, "layers"):
        return  # which layers of units are maximised is another question
    if maximise != "all" and tuple(maximise):
        raise QueryError(
            f"maximise: expected () or 'all' for hidden rows, got {maximise!r:.80}; name a method and ask "
            "about model.instantiate(data).to_factor_graph() to maximise some of them"
        )
    if causal and maximise == "all":
        raise QueryError(
            "causal: filtering has no best path; ask for causal=True or maximise='all', not both"
        )


def template_of(model: Any) -> Any:
    """The model that reads data, of a family that of independent rows; what is a graph already is refused."""
    found = rows_model(model)
    if not hasattr(found, "instantiate"):  # quicker than asking for the protocol
        raise ModelError(
            f"data: expected a template (something with instantiate(data)), got {type(model).__name__}; what "
            "is known about a model of named variables is evidence={name: state}"
        )
    return found


def _answer(instance: Instance, *, causal: bool, maximise: Any) -> Result:
    notes = (_CHOSEN.format(instance.structure),)
    if causal:
        each, known = unit_log_z(instance), cast(Any, instance.named(filter_rows(instance)))
        total = Estimate(instance.total(each), "exact")
        return Result("filter", Status.EXACT, total, marginals=known, notes=notes, each=each)
    if maximise != "all":
        answer = smooth_rows(instance)
        return _told(instance, answer.marginals, instance.begin, answer.counts, answer.log_z)
    path, value = best_states(instance)
    total = Estimate(instance.total(value), "exact")
    paths: Any = instance.named(path)
    name = _NAMES.get(instance.structure, "viterbi")
    return Result(name, Status.EXACT, total, assignment=paths, score=total, notes=notes, each=value)


def _emits(model: Any) -> bool:
    """Whether data are rows from a family, which can be scored block by block."""
    return hasattr(model, "sequences")


def _emitting(model: Any) -> Any:
    """A template of rows from a family; what needs its data to say anything is refused."""
    model = template_of(model)
    if not _emits(model):
        raise ModelError(
            f"expected a model that makes up rows, got {type(model).__name__}, whose labels depend on "
            "features, which must be given; ask about data="
        )
    return model


def _smooth(model: Any, data: Dataset) -> Result:
    """Forward-backward over blocks of sequences, which bounds the memory."""
    states, total, each = len(model.emission), 0.0, np.empty(data.n_units)
    counts: dict[str, np.ndarray] = {}
    blocks = list(data.blocks(max(ENTRIES // states, 1)))
    marginals = np.empty((data.n_rows, states)) if len(blocks) > 1 else None
    for which, part in blocks:
        instance, found = _smooth_part(model, part, which.start)
        total, each[which] = total + instance.total(found.log_z), found.log_z
        counts = {name: count + counts.get(name, 0.0) for name, count in found.counts.items()}
        if marginals is not None:
            marginals[data.begin[which.start] : data.begin[which.stop]] = found.marginals
    rows = found.marginals if marginals is None else marginals
    begin = data.begin if data.is_sequences else data.begin[[0, -1]]
    return _told(instance, rows, begin, counts, each, total)


def _told(
    instance: Instance, rows: Any, begin: Any, counts: Any, each: Any, total: float | None = None
) -> Result:
    """What smoothing found."""
    known: Any = Rows.of(rows, begin, instance.shape, instance.name)
    value = Estimate(instance.total(each) if total is None else total, "exact")
    name, note = _NAMES.get(instance.structure, "forward-backward"), _CHOSEN.format(instance.structure)
    return Result(
        name, Status.EXACT, value, marginals=known, factor_marginals=counts or None, notes=(note,), each=each
    )


def _smooth_part(model: Any, part: Dataset, first: int) -> tuple[Instance, Answer]:
    rows, emit = part.rows(), model.emission.log_density
    instance = model.hidden(emit(rows), part.begin, first).weighed(part.weights)
    # The scores are nobody else's: overwriting them saves a copy, and few rows are ever asked for again.
    return instance, smooth_rows(instance, lambda some: emit(rows[some]))


def sequence_log_z(model: Any, data: Dataset) -> np.ndarray:
    """Log Z of every sequence, (units,), -inf where it is impossible; in blocks, which bounds the memory."""
    out = np.empty(data.n_units)
    for which, part in data.blocks(max(ENTRIES // len(model.emission), 1)):
        out[which] = unit_log_z(model.instantiate(part))
    return out


def total_log_z(model: Any, data: Dataset) -> float:
    """The sum over sequences, each counted with its weight; what counts for nothing may be impossible."""
    counted = data.weights > 0
    return float(data.weights[counted] @ sequence_log_z(model, data)[counted])


def _in_rows(instance: Instance, found: Result) -> Result:
    """An answer about the variables of the instance's graph, which are its rows in order."""
    changes: dict[str, Any] = {}
    rows, sizes = len(instance.scores), instance.shape or (instance.states,)
    if found.marginals is not None:
        parts = np.split(found.marginals.flat, rows * np.cumsum(sizes)[:-1])
        chains = [part.reshape(rows, size) for part, size in zip(parts, sizes, strict=True)]
        changes["marginals"] = instance.named_parts(chains)
    if found.assignment is not None:
        indices = np.asarray(found.assignment.indices).reshape(len(sizes), rows)
        changes["assignment"] = instance.named_parts(list(indices))
    return found.but(**changes)


def draw_paths(
    model: Any, data: Any, reading: Mapping[str, Any], count: int, seed: Any, draw: Callable[..., Any]
) -> Any:
    """Joint draws of hidden states given data: (count, rows), a list of those for several sequences.

    `draw(graph, count, seed=...)` makes those of general graphs.
    """
    model = template_of(model)
    check.whole("count", count, 0)
    rng = check.generator(seed)
    with call():
        instance = model.instantiate(data, **reading)
        if instance.structure == "graph":
            return instance.named_draws(draw_graphs(instance, count, rng, draw))
        drawn = draw_states(instance, count, rng)
    return instance.named_draws(drawn)


def draw_rows(model: Any, lengths: Any, seed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows and hidden states of new sequences; the states of several chains are (rows, chains).

    Of documents, counts of words, and the frequencies of their topics.
    """
    rng = check.generator(seed)
    if hasattr(model, "emits_counts"):
        drawn: tuple[np.ndarray, np.ndarray] = model.draw(step_counts(lengths), rng)
        return drawn
    model = _emitting(model)
    if not hasattr(model.emission, "sample"):
        raise ModelError(
            f"sample: expected a model with parameters, got {type(model).__name__}, which averages over "
            "them; draw from the model of the fit, or from one that posterior.sample(rng) gives"
        )
    begin = np.concatenate([[0], np.cumsum(step_counts(lengths))]).astype(np.int64)
    with call():
        blank = np.broadcast_to(0.0, (int(begin[-1]), len(model.emission)))
        instance = model.hidden(blank, begin)
        states = walk(instance, rng)
        rows = model.emission.sample(states, rng)
    return rows, np.stack(np.unravel_index(states, instance.shape), axis=1) if instance.shape else states


class FutureRows(NamedTuple):
    """The rows after the end of the data; of several sequences, a list of these."""

    states: np.ndarray  # (steps, states) probabilities of the hidden state
    mean: Any  # (steps, ...) expected rows, of products by column; None for symbols
    emission: Any  # the family: row k is a mixture of its members with the weights states[k]

    def log_density(self, rows: Any) -> np.ndarray:
        """Log predictive density of one row per step, each by itself, (steps,)."""
        scores = self.emission.log_density(rows)
        if len(scores) != len(self.states):
            raise QueryError(f"rows: expected {len(self.states)}, one per step, got {len(scores)}")
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp.reduce(scores + np.log(self.states), axis=1))


def forecast(
    model: Any,
    data: Any,
    steps: int = 1,
    *,
    lengths: Any = None,
    mask: Any = None,
    groups: str | None = None,
    columns: Any = None,
) -> Any:
    """What comes after the data: probabilities of hidden states, and expected rows.

    Parameters
    ----------
    model
        A template: a hidden Markov or semi-Markov model, factorial chains.
    data, lengths, mask, groups, columns
        What was seen; as in `infer`.
    steps
        How many rows ahead.

    Returns
    -------
    FutureRows or list of FutureRows
        One per sequence; a list if there are several.

    Examples
    --------
    >>> import credo
    >>> from credo.families import DiagonalGaussian
    >>> family = DiagonalGaussian([[0.0], [4.0]], [[1.0], [1.0]])
    >>> hmm = credo.HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], family)
    >>> ahead = credo.forecast(hmm, [[0.1], [3.9], [4.2]], steps=2)
    >>> ahead.states.round(3), ahead.mean.round(2)
    (array([[0.2 , 0.8 ],
           [0.34, 0.66]]), array([[3.2 ],
           [2.64]]))
    """
    model = _emitting(model)
    check.whole("steps", steps, 1)
    with call():
        instance = model.instantiate(data, lengths=lengths, mask=mask, groups=groups, columns=columns)
        found = forecast_states(replace(instance, begin=instance.cuts, weights=None), int(steps))
    family = model.emission
    parts = [
        FutureRows(p, map_columns(partial(np.tensordot, p, axes=1), family.means), family) for p in found
    ]
    return parts[0] if len(parts) == 1 else parts


def names_given(**options: Any) -> None:
    """Refuse options that say nothing about hidden rows."""
    for name, value in options.items():
        if value is not None:
            raise QueryError(
                f"{name}: expected none beside data= or lengths=, got {value!r:.60}; ask about "
                "model.instantiate(data).to_factor_graph()"
            )
