"""Labels of fields with several kinds of nodes: told as the field was learned, or as the call asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...core.errors import QueryError
from ...core.kind_graphs import KindGraphs
from ...core.rows import Rows
from ...optimise.run import call
from ..problem.base import Budget
from .label_graphs import of_one_structure
from .powered import powered_question
from .question import infer

__all__ = ["predict_kinds"]


def predict_kinds(
    model: Any,
    data: Any,
    targets: Any,
    reading: Mapping[str, Any],
    *,
    proba: bool,
    maximise: Any,
    inference: Any,
    options: Mapping[str, Any],
) -> Any:
    """Labels of the nodes of a kind, or their probabilities: an array, of several inputs a list of those.

    Without `targets` those of the one kind that has labels, or a mapping kind -> labels.
    """
    if targets is not None and targets not in model.observed:
        raise QueryError(f"targets: expected one of the kinds {list(model.observed)}, got {targets!r:.80}")
    if maximise != "all" and tuple(maximise):
        raise QueryError(
            f"maximise: expected () or 'all', got {maximise!r:.80}; see the decoding of the field"
        )
    if proba and maximise == "all":
        raise QueryError("proba: the best labels have no probabilities; leave out maximise, or proba")
    heat = 0.0 if maximise == "all" else model.temperature
    kinds = model.observed if targets is None else [targets]
    known: Any
    if proba or heat is None:
        known = infer(model, inference, data=data, **reading, **options).marginals
        found = {k: _each(known[k], (lambda p: p) if proba else _best(model.labels[k])) for k in kinds}
    else:
        with call():
            instance = model.instantiate(data, **reading)
            known = _together(instance, model.hidden, heat, inference, options)
        words = {k: np.array(model.labels[k], dtype=object) for k in kinds}
        found = {k: _each(known[k], words[k].__getitem__) for k in kinds}
    return next(iter(found.values())) if len(found) == 1 else found


def _best(labels: Any) -> Any:
    words = np.array(labels, dtype=object)
    return lambda table: words[table.argmax(axis=1)]


def _each(parts: Any, told: Any) -> Any:
    return [told(part) for part in parts] if isinstance(parts, list) else told(parts)


def _together(
    instance: KindGraphs, hidden: Mapping[str, int], heat: float, method: Any, options: Mapping[str, Any]
) -> Rows:
    """The best labels of every input, hidden kinds eliminated before at this temperature; 0 for those."""
    is_hidden = np.array([kind in hidden for kind in instance.kinds])
    found = [np.zeros(count, np.int64) for count in instance.counts.sum(axis=1).tolist()]
    budget = Budget(options["max_iter"], options["tol"])
    for which in of_one_structure(instance.graphs):
        head, first = instance.graphs[which[0]], np.repeat(is_hidden, instance.counts[which[0]])
        if (head.variables.sizes[~first] == 1).all():
            continue
        tables = np.stack([instance.graphs[k].log_tables for k in which])
        question, scale = powered_question(head, np.where(first, heat, 0.0), first)
        answer = question.ask(tables / scale, method, summed=False, budget=budget, seed=options["seed"])
        assert answer.states is not None  # what maximises tells them
        for k, states in zip(which, answer.states, strict=True):
            found[k] = np.where(first, 0, states)
    return instance.named(np.concatenate(found))
