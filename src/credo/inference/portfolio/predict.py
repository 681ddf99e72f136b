"""Predictions and completions of rows, in the form in which the rows came."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from ...core import check
from ...core.errors import DataError, ModelError, QueryError
from ...core.instance import Template
from ...core.variable import Variable, Variables
from ...data.column import MISSING
from ...data.dataset import Dataset
from ...data.forms import Form
from ...families.independent import rows_model
from ...optimise.run import call
from ..problem.base import Algorithm
from .completions import draw_rows, most_probable_rows
from .evidence_rows import Impossible
from .hidden_predictions import predict_hidden, predict_labels
from .kind_predictions import predict_kinds
from .question import graph_of
from .row_beliefs import RowBeliefs, RowQuestion

__all__ = ["impute", "predict"]

How = Literal["mode", "mean", "map", "sample"]


def predict(  # noqa: PLR0913, the options of one call
    model: Any,
    data: Any,
    targets: str | Iterable[str] | None = None,
    *,
    proba: bool = False,
    std: bool = False,
    maximise: Literal["all"] | Iterable[str] = (),
    inference: str | Algorithm | None = None,
    impossible: Impossible = "refuse",
    max_iter: int = 1000,
    tol: float = 1e-8,
    seed: int | None = None,
    lengths: Any = None,
    groups: str | None = None,
    columns: Any = None,
    mask: Any = None,
) -> Any:
    """The most probable states, or the means, of some variables in every row of a table.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`: networks, fields, Gaussian and mixed models; or a template, such as
        a hidden Markov model.
    data
        A table as `fit` reads it. Missing cells and columns that are left out are unknown. What the columns
        of the targets say is ignored.
    targets
        The name of one variable, or several names. A `CRF` needs none: its labels are predicted, and of a
        table whose column of this name has labels that column is no feature. A `LatentCRF` tells the labels
        of all kinds that have some, or of the one that is named.
    proba
        Give the probabilities of all states instead: a table with a column per state, of several targets a
        mapping of such tables.
    std
        Give the standard deviation of each number beside its mean, in a column `"<name>_std"`.
    maximise
        Without it each target is predicted by itself. `"all"` gives the states of the most probable
        completion of the row, names those that are most probable together, as in `infer`. A field knows by
        its `decoding` how it was learned: with margins, its labels are the best together without asking.
    inference
        The algorithm that answers; by default the one that suits the model.
    impossible
        What becomes of rows that the model excludes: `"refuse"` names one, `"missing"` leaves them
        empty.
    max_iter, tol, seed
        As in `infer`.
    columns
        The columns that are read; all by default.
    lengths, groups, mask
        Of sequences, for models of them; as in `infer`. Hidden states are then numbers from 0, given for
        every row in the order of the table; `maximise="all"` is the best path of each sequence.

    Returns
    -------
    Series, data frame, array or mapping
        In the form of the data: of a frame a Series, or of several targets a frame, with the same index; of a
        mapping or a file arrays by name; of an array an array, with positions of states.

    Examples
    --------
    >>> import credo, pandas as pd
    >>> net = credo.datasets.sprinkler()
    >>> frame = pd.DataFrame({"sprinkler": ["yes", "no", None], "rain": ["no", "no", "yes"]}, index=[7, 8, 9])
    >>> credo.predict(net, frame, "wet").to_dict()
    {7: 'yes', 8: 'no', 9: 'yes'}
    >>> print(credo.predict(net, frame, "wet", proba=True).round(3))
          no    yes
    7  0.100  0.900
    8  1.000  0.000
    9  0.084  0.916
    """
    options = {"max_iter": max_iter, "tol": tol, "seed": seed}
    reading = {"lengths": lengths, "groups": groups, "columns": columns, "mask": mask}
    template = rows_model(model)
    if isinstance(template, Template):
        if std or impossible != "refuse":
            raise QueryError("std, impossible: hidden states of sequences have neither; leave both out")
        asked: Any = {"proba": proba, "maximise": maximise, "inference": inference, "options": options}
        if hasattr(template, "decoding"):  # a field, which knows how it was learned
            tell = predict_kinds if hasattr(template, "kinds") else predict_labels
            return tell(model, data, targets, reading, **asked)
        return predict_hidden(model, data, _named(targets), reading, **asked)
    given = [name for name, value in reading.items() if value is not None and name != "columns"]
    if given:
        raise QueryError(f"{', '.join(given)}: a {type(model).__name__} has rows, no sequences; leave out")
    graph = graph_of(model)
    names = _targets(graph.variables, targets)
    check.one_of("impossible", impossible, ["refuse", "missing"])
    form = Form.of(data, graph.variables)
    with call():
        rows = _read(form, (*names, *_unread(form, columns)), graph.variables)
        question = RowQuestion(graph, names, inference, impossible == "refuse", options=options)
        if maximise == "all" or tuple(maximise):
            return _joint(form, question, rows, maximise, targets, proba or std)
        found = question.beliefs(rows)
    if proba:
        tables = {name: _probabilities(form, graph.variables, name, found) for name in names}
        return tables[names[0]] if isinstance(targets, str) else tables
    columns = {}
    for name in names:
        columns[name] = _best(form, graph.variables, name, found)
        if std and name in found.numbers:
            spread = _unless(found.possible, found.numbers[name].sd)
            columns[f"{name}_std"] = form.numbers(f"{name}_std", spread)
    return columns[names[0]] if isinstance(targets, str) and not std else form.table(columns)


def _named(targets: Any) -> Any:
    if targets is None:
        raise QueryError("targets: expected a name or a list of names of variables, got none")
    return targets


def impute(
    model: Any,
    data: Any,
    how: How = "mode",
    *,
    inference: str | Algorithm | None = None,
    impossible: Impossible = "refuse",
    max_iter: int = 1000,
    tol: float = 1e-8,
    seed: int | None = None,
    columns: Any = None,
) -> Any:
    """The table with its missing cells filled by what the model believes of them.

    Parameters
    ----------
    model, data
        As in `predict`. Observed cells and columns that are no variables stay as they are; variables without
        a column are not added (`predict` tells them).
    how
        `"mode"` puts the most probable state or number of each cell by itself, `"mean"` the mean of numbers
        instead, `"map"` the most probable completion of the whole row, `"sample"` a joint draw.
    inference, impossible, max_iter, tol
        As in `predict`.
    seed
        Of the draws.
    columns
        The columns that are read, and filled; all by default. Others stay as they are.

    Examples
    --------
    >>> import credo, pandas as pd
    >>> net = credo.datasets.sprinkler()
    >>> frame = pd.DataFrame({"cloudy": ["yes", None], "rain": [None, "no"], "wet": ["yes", "no"]})
    >>> print(credo.impute(net, frame))
      cloudy rain  wet
    0    yes  yes  yes
    1     no   no   no
    """
    if isinstance(rows_model(model), Template):
        raise ModelError(
            f"impute: expected a model of named variables, got {type(model).__name__}; `predict` tells its "
            "hidden states"
        )
    graph = graph_of(model)
    check.one_of("how", how, ["mode", "mean", "map", "sample"])
    check.one_of("impossible", impossible, ["refuse", "missing"])
    form = Form.of(data, graph.variables)
    options = {"max_iter": max_iter, "tol": tol, "seed": seed}
    with call():
        rows = _read(form, _unread(form, columns), graph.variables)
        gaps = tuple(column.name for column in rows.columns if column.missing.any())
        empty = np.zeros(rows.n_rows, dtype=bool)
        for name in gaps:
            empty |= rows.column(name).missing
        which = np.flatnonzero(empty)
        question = RowQuestion(graph, gaps, inference, impossible == "refuse", how == "mode", options)
        found = _complete(question, rows.take(which), how) if len(which) else {}
    filled = {}
    for name, values in found.items():
        column = rows.column(name)
        whole = column.values.copy()
        whole[which] = values
        kept = column.missing.reshape(-1, *[1] * (whole.ndim - 1))
        filled[name] = (graph.variables[graph.variables.position(name)], np.where(kept, whole, column.values))
    return form.filled(filled)


def _complete(question: RowQuestion, rows: Dataset, how: How) -> dict[str, np.ndarray]:
    """What stands for the missing cells of rows that have some."""
    if how == "sample":
        return draw_rows(question, rows)
    if how == "map":
        best = most_probable_rows(question, rows, "all")
        return {name: best[name] for name in question.names}
    found = question.beliefs(rows)
    made = {n: np.where(found.possible, p.argmax(axis=1), MISSING) for n, p in found.states.items()}
    for name, moments in found.numbers.items():
        made[name] = _unless(found.possible, moments.mean if moments.mode is None else moments.mode)
    return made


def _targets(variables: Variables, targets: Any) -> tuple[str, ...]:
    if not isinstance(targets, (str, Variable)) and not isinstance(targets, Iterable):
        raise QueryError(f"targets: expected a name or a list of names of variables, got {targets!r:.80}")
    given = [targets] if isinstance(targets, (str, Variable)) else list(targets)
    names = tuple(variables.names[int(i)] for i in variables.positions(given))
    if not names or len(set(names)) < len(names):
        raise QueryError(f"targets: expected different names of variables, one at least, got {given!r:.80}")
    return names


def _unread(form: Form, columns: Any) -> tuple[str, ...]:
    """Names of the columns that are not read."""
    if columns is None:
        return ()
    chosen = [columns] if isinstance(columns, str) else list(map(str, columns))
    for name in chosen:
        if name not in form.names:
            raise DataError(f"columns: no column '{name}' in the data; they have {list(form.names)[:8]}")
    return tuple(name for name in form.names if name not in chosen)


def _read(form: Form, without: tuple[str, ...], variables: Variables) -> Dataset:
    """The rows without some columns, the targets among them."""
    rows = form.read(variables, without)
    if rows.is_sequences:
        raise DataError("data: expected rows, got sequences; models of sequences are templates")
    return rows


def _joint(
    form: Form, question: RowQuestion, rows: Dataset, maximise: Any, targets: Any, has_tables: bool
) -> Any:
    """Targets as they are most probable together."""
    if has_tables:
        raise QueryError("proba, std: maximise gives one answer per row; leave it out, or leave these out")
    variables = question.graph.variables
    names = list(variables.names) if maximise == "all" else list(maximise)
    left = [name for name in question.names if name not in names]
    if left:
        raise QueryError(f"maximise: expected 'all', or the targets among the names, got none of {left}")
    best = most_probable_rows(question, rows, maximise)
    columns = {n: form.column(variables[variables.position(n)], best[n]) for n in question.names}
    return columns[targets] if isinstance(targets, str) else form.table(columns)


def _best(form: Form, variables: Variables, name: str, found: RowBeliefs) -> Any:
    """The best states or the means of one variable, in the form of the table."""
    if name in found.numbers:
        return form.numbers(name, _unless(found.possible, found.numbers[name].mean))
    best = np.where(found.possible, found.states[name].argmax(axis=1), MISSING)
    return form.column(variables[variables.position(name)], best)


def _probabilities(form: Form, variables: Variables, name: str, found: RowBeliefs) -> Any:
    """A table with a column per state."""
    if name in found.numbers:
        raise QueryError(f"proba: '{name}' is a number and has no states; std=True tells how sure it is")
    table = _unless(found.possible, found.states[name])
    words = form.words(variables[variables.position(name)])
    return form.table({word: form.numbers(word, column) for word, column in zip(words, table.T, strict=True)})


def _unless(possible: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Missing numbers in impossible rows."""
    return np.where(possible.reshape(-1, *[1] * (values.ndim - 1)), values, np.nan)
