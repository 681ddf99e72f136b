"""Joint completions of rows: the most probable one, or a draw.

Draws are made one variable after another, each from its marginal given those before it, states before
numbers: given all states, a number of a model that is Gaussian given states has one Gaussian.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...core import check
from ...core.domain import Discrete
from ...core.errors import UnsupportedError, ZeroProbabilityError
from ...core.progress import Progress
from ...data.column import MISSING, Column
from ...data.dataset import Dataset
from ..exact.conditional_rows import takes_real_rows
from ..problem.base import ContradictoryRowError
from .evidence_rows import infer_many
from .question import infer, sample
from .row_beliefs import RowQuestion, evidence_of

__all__ = ["draw_rows", "most_probable_rows"]


def most_probable_rows(question: RowQuestion, rows: Dataset, maximise: Any) -> dict[str, np.ndarray]:
    """Name -> the best states or numbers of every row, of the variables that are maximised."""
    graph = question.graph
    if graph.is_tables:
        impossible: Any = "refuse" if question.is_strict else "missing"
        found = infer_many(
            graph, rows, question.method, maximise=maximise, impossible=impossible, **question.options
        )
        assert found.states is not None  # something was maximised
        names = graph.variables.names if maximise == "all" else maximise
        return {name: found.states[:, graph.variables.position(name)] for name in names}
    if question.method is None and not graph.variables.sizes.any() and takes_real_rows(graph):
        means = replace(question, names=tuple(graph.variables.names)).beliefs(rows)  # of a Gaussian
        return {name: moments.mean for name, moments in means.numbers.items()}
    return _one_by_one(question, rows, maximise)


def _one_by_one(question: RowQuestion, rows: Dataset, maximise: Any) -> dict[str, np.ndarray]:
    variables = question.graph.variables
    names = list(variables.names) if maximise == "all" else list(maximise)
    found = _nothing(question, names, len(rows))
    with Progress("rows", len(rows)) as bar:
        for r in range(len(rows)):
            try:
                best = infer(
                    question.graph, question.method, evidence=evidence_of(rows, r), maximise=maximise,
                    **question.options,
                ).assignment  # fmt: skip
            except ZeroProbabilityError:
                if question.is_strict:
                    raise ContradictoryRowError(r) from None
                continue
            if best is None:
                raise UnsupportedError("the method finds no best states; use another one, or none")
            for name in names:
                i = variables.position(name)
                found[name][r] = best.indices[i] if variables.sizes[i] else best[name]
            bar.update(r + 1)
    return found


def _nothing(question: RowQuestion, names: Any, count: int) -> dict[str, np.ndarray]:
    """Missing values of variables."""
    found = {}
    for name in names:
        domain = question.graph.variables[question.graph.variables.position(name)].domain
        if isinstance(domain, Discrete):
            found[name] = np.full(count, MISSING, dtype=np.int64)
        else:
            found[name] = np.full((count, *domain.shape), np.nan)
    return found


def draw_rows(question: RowQuestion, rows: Dataset) -> dict[str, np.ndarray]:
    """Name -> a joint draw of the missing cells of every row, of the variables that are asked for."""
    rng = check.generator(question.options.get("seed"))
    if not (question.graph.is_tables or (question.method is None and takes_real_rows(question.graph))):
        return _drawn_one_by_one(question, rows, rng)
    columns = {column.name: column for column in rows.columns}
    is_known = np.ones(len(rows), dtype=bool)  # rows that the model allows
    for name in _order(question, rows):
        domain = question.graph.variables[question.graph.variables.position(name)].domain
        if name not in columns:
            columns[name] = Column(name, domain, _nothing(question, [name], len(rows))[name])
        column = columns[name]
        gone = np.flatnonzero(column.missing & is_known)
        if not len(gone):
            continue
        present = Dataset.of(columns.values()).take(gone)
        found = replace(question, names=(name,), modes=False).beliefs(present)
        values = column.values.copy()
        if isinstance(domain, Discrete):
            values[gone] = _draw_states(found.states[name], rng)
        else:
            values[gone] = rng.normal(*found.numbers[name][:2])
        is_known[gone] = found.possible
        values[gone[~found.possible]] = MISSING if isinstance(domain, Discrete) else np.nan
        columns[name] = Column(name, domain, values, column.soft)
    return {name: columns[name].values for name in question.names}


def _order(question: RowQuestion, rows: Dataset) -> list[str]:
    """States first; where numbers are asked for, the states of variables without a column too."""
    variables = question.graph.variables
    numbers = [n for n in question.names if not variables.sizes[variables.position(n)]]
    if not numbers:
        return list(question.names)
    states = [v.name for v in variables if v.is_discrete and (v.name in question.names or v.name not in rows)]
    return [*states, *numbers]


def _draw_states(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A state per row; one of probability zero is never drawn."""
    upto = np.cumsum(probabilities, axis=1)
    draws = rng.random(len(upto)) * upto[:, -1]
    return np.asarray((upto <= draws[:, None]).sum(axis=1).clip(max=upto.shape[1] - 1))


def _drawn_one_by_one(
    question: RowQuestion, rows: Dataset, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    found = _nothing(question, question.names, len(rows))
    with Progress("rows", len(rows)) as bar:
        for r in range(len(rows)):
            seed: Any = int(rng.integers(2**63))
            said = evidence_of(rows, r)
            try:
                drawn = sample(question.graph, 1, evidence=said, method=question.method, seed=seed)
            except ZeroProbabilityError:
                if question.is_strict:
                    raise ContradictoryRowError(r) from None
                continue
            for name in question.names:
                found[name][r] = drawn.column(name)[0]
            bar.update(r + 1)
    return found
