"""Hidden states of the rows of sequences, and labels of nodes, in the form in which the rows came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...core.errors import QueryError
from ...core.variable import Variable
from ...data.forms import Form
from ...data.read import group_order
from ...data.sources import is_table
from ...families.independent import rows_model
from .question import infer

__all__ = ["predict_hidden", "predict_labels"]


def predict_hidden(
    model: Any,
    data: Any,
    targets: str | Iterable[str],
    reading: Mapping[str, Any],
    *,
    proba: bool,
    maximise: Any,
    inference: Any,
    options: Mapping[str, Any],
) -> Any:
    """States, or their probabilities, of every step; of the best path where `maximise` is "all"."""
    parts = [Form.of(part) for part in data] if _is_list(data) else [Form.of(data)]
    names = [targets] if isinstance(targets, str) else list(targets)
    reading = dict(reading)
    own = getattr(rows_model(model).emission, "names", ())  # of a family that names its columns
    if reading["columns"] is None and not own and set(names) & set(parts[0].names):
        gone = {reading["groups"], *names}
        reading["columns"] = [name for name in parts[0].names if name not in gone]
    best = maximise == "all"
    if proba and best:
        raise QueryError("proba: a best path has no probabilities; leave out maximise, or proba")
    source = [part.whole for part in parts] if _is_list(data) else parts[0].whole
    found = infer(model, inference, data=source, maximise=maximise, **reading, **options)
    rows: Any = found.assignment if best else found.marginals
    for name in names:
        if name not in rows:
            raise QueryError(f"targets: no hidden variable named {name!r}; there are {list(rows)}")
    columns = {name: _per_part(rows[name], parts, reading["groups"]) for name in names}
    made = [
        _describe(form, {name: columns[name][k] for name in names}, targets, proba)
        for k, form in enumerate(parts)
    ]
    return made if _is_list(data) else made[0]


def predict_labels(
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
    """Labels of all nodes, or their probabilities: an array per input, of a table a column of its form.

    They are told as the field says, which knows how it was learned, or together where `maximise` is "all".
    """
    if not proba and not maximise and model.predicts_jointly:
        maximise = "all"
    best = maximise == "all"
    if proba and best:
        raise QueryError("proba: the best labels have no probabilities; leave out maximise, or proba")
    form, reading = Form.of(data) if is_table(data) else None, dict(reading)
    name = "label" if targets is None else targets
    if not isinstance(name, str) or (form is None and name != "label"):
        raise QueryError(f"targets: expected 'label', the hidden variable of a field, got {targets!r:.80}")
    if form is not None and reading["columns"] is None:
        reading["columns"] = [column for column in form.names if column not in (name, reading["groups"])]
    source = data if form is None else form.whole
    found = infer(model, inference, data=source, maximise=maximise, **reading, **options)
    known: Any = found.assignment if best else found.marginals
    rows, variable = known["label"], Variable(name, model.domain)
    if form is not None:
        whole = _per_part(rows, [form], reading["groups"])[0]
        if proba:
            pairs = zip(form.words(variable), whole.T, strict=True)
            return form.table({word: form.numbers(word, column) for word, column in pairs})
        return form.column(variable, whole if best else whole.argmax(axis=1))
    if proba:
        return rows
    words = np.array(model.labels, dtype=object)
    if isinstance(rows, list):
        return [words[part if best else part.argmax(axis=1)] for part in rows]
    return words[rows if best else rows.argmax(axis=1)]


def _is_list(data: Any) -> bool:
    """Whether there is a list with a table for each sequence."""
    many = isinstance(data, (list, tuple)) and len(data) > 0
    return many and not isinstance(data[0], Mapping) and (np.ndim(data[0]) > 0 or hasattr(data[0], "columns"))


def _per_part(rows: Any, parts: list[Form], groups: str | None) -> list[np.ndarray]:
    """What belongs to the rows of every table, in their order."""
    if len(parts) > 1:
        return rows  # type: ignore[no-any-return]
    whole = np.concatenate(rows) if isinstance(rows, list) else rows
    if groups is not None:
        placed = np.empty_like(whole)
        placed[group_order(groups, parts[0].cells(groups))[0]] = whole
        whole = placed
    return [whole]


def _describe(form: Form, columns: Mapping[str, np.ndarray], targets: Any, proba: bool) -> Any:
    made: dict[str, Any] = {}
    for name, rows in columns.items():
        if proba:
            made[name] = form.table({k: form.numbers(k, column) for k, column in enumerate(rows.T)})
        else:
            states = rows if rows.ndim == 1 else rows.argmax(axis=1)
            made[name] = form.numbers(name, states)
    if isinstance(targets, str):
        return made[targets]
    return made if proba else form.table(made)
