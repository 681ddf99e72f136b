"""Questions about templates, models that are graphs only together with data, for the public calls.

Without a method the structure of the instance decides: independent rows, chains and segments have exact
answers of their own. A named method is asked about the factor graph of the instance, and its answer is
put into rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...core import check
from ...core.errors import ModelError, QueryError
from ...core.instance import Instance, Template
from ...core.result import Estimate, Result, Status
from ...core.stopwatch import Stopwatch
from ...optimise.run import call
from ..exact.hidden_rows import (
    best_states,
    draw_states,
    filter_rows,
    forecast_states,
    smooth_rows,
    unit_log_z,
)

__all__ = ["Forecast", "draw_paths", "forecast", "infer_template", "is_template", "names_given"]

_CHOSEN = "{} of hidden rows are answered exactly by their own recursions"


def infer_template(
    model: Any,
    data: Any,
    reading: Mapping[str, Any],
    *,
    causal: bool,
    maximise: Any,
    general: Callable[[Instance], Result] | None,
) -> Result:
    """The answer to `infer(model, data=...)`; `general` asks a named method about a factor graph.

    `reading` says how the data are read, see `data.read_sequences`.
    """
    _check(model, causal, maximise, general)
    watch = Stopwatch()
    with call():
        if general is not None:
            instance = model.instantiate(data, **reading)
            return _in_rows(instance, general(instance))
        found = _answer(model, data, reading, causal=causal, maximise=maximise)
    return found.but(seconds=watch.seconds, compile_seconds=watch.compile_seconds)


def _check(model: Any, causal: bool, maximise: Any, general: Any) -> None:
    is_template(model)
    if maximise != "all" and tuple(maximise):
        raise QueryError(
            f"maximise: expected () or 'all' for hidden rows, got {maximise!r:.80}; name a method and ask "
            "about model.instantiate(data).to_factor_graph() to maximise some of them"
        )
    if causal and maximise == "all":
        raise QueryError(
            "causal: filtering has no best path; ask for causal=True or maximise='all', not both"
        )
    if causal and general is not None:
        raise QueryError("causal: expected no method, got one; filtering is a recursion of its own")


def is_template(model: Any) -> None:
    """Refuse data for what is a graph already."""
    if not isinstance(model, Template):
        raise ModelError(
            f"data: expected a template (something with instantiate(data)), got {type(model).__name__}; what "
            "is known about a model of named variables is evidence={name: state}"
        )


def _answer(model: Any, data: Any, reading: Mapping[str, Any], *, causal: bool, maximise: Any) -> Result:
    read = model.sequences(data, **reading)
    rows, emit = read.rows(), model.emission.log_density
    instance = model.hidden(emit(rows), read.begin).weighed(read.weights)
    notes = (_CHOSEN.format(instance.structure),)
    if maximise == "all":
        path, value = best_states(instance)
        total = Estimate(instance.total(value), "exact")
        paths: Any = instance.named(path)
        return Result("viterbi", Status.EXACT, total, assignment=paths, score=total, notes=notes)
    if causal:
        total = Estimate(instance.total(unit_log_z(instance)), "exact")
        known: Any = instance.named(filter_rows(instance))
        return Result("filter", Status.EXACT, total, marginals=known, notes=notes)
    # The scores are nobody else's: overwriting them saves a copy, and few rows are ever asked for again.
    found = smooth_rows(instance, lambda part: emit(rows[part]))
    total, known = Estimate(instance.total(found.log_z), "exact"), instance.named(found.marginals)
    return Result("forward-backward", Status.EXACT, total, marginals=known, notes=notes)


def _in_rows(instance: Instance, found: Result) -> Result:
    """An answer about the variables of the instance's graph, which are its rows in order."""
    changes: dict[str, Any] = {}
    if found.marginals is not None:
        changes["marginals"] = instance.named(found.marginals.flat.reshape(-1, instance.states))
    if found.assignment is not None:
        changes["assignment"] = instance.named(np.asarray(found.assignment.indices))
    return found.but(**changes)


def draw_paths(model: Any, data: Any, reading: Mapping[str, Any], count: int, seed: Any) -> Any:
    """Joint draws of hidden states given data: (count, rows), a list of those for several sequences."""
    is_template(model)
    check.whole("count", count, 0)
    with call():
        instance = model.instantiate(data, **reading)
        drawn = draw_states(instance, count, check.generator(seed))
    return instance.named_draws(drawn)


class Forecast(NamedTuple):
    """The rows after the end of the data; of several sequences, a list of these."""

    states: np.ndarray  # (steps, states) probabilities of the hidden state
    mean: np.ndarray | None  # (steps, ...) expected rows, where members of the family have means
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
    Forecast or list of Forecast
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
    is_template(model)
    check.whole("steps", steps, 1)
    with call():
        instance = model.instantiate(data, lengths=lengths, mask=mask, groups=groups, columns=columns)
        found = forecast_states(instance, int(steps))
    means = _means(model.emission)
    parts = [Forecast(p, None if means is None else p @ means, model.emission) for p in found]
    return parts[0] if instance.units == 1 else parts


def _means(emission: Any) -> np.ndarray | None:
    """Expected rows of the members of a family, None where rows are symbols."""
    for name in ("mean", "rate"):
        found = getattr(emission, name, None)
        if isinstance(found, np.ndarray):
            return found
    return None


def names_given(**options: Any) -> None:
    """Refuse options that say nothing about hidden rows."""
    for name, value in options.items():
        if value is not None:
            raise QueryError(
                f"{name}: expected none beside data= or lengths=, got {value!r:.60}; ask about "
                "model.instantiate(data).to_factor_graph()"
            )
