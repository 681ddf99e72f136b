r"""Passes over all rows that generalised EM by mini-batches needs, in memory or from a stream.

In a *survey* a model answers about all rows, and its leaves meet the posteriors of the old one. In memory
these are kept as arrays; of a stream they are made again, batch by batch, from the old model. What batches
say adds up, so a survey can be cut after any of them.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import DataError, TooLargeError
from ..core.machine import machine_gigabytes
from ..core.records import record
from ..data.dataset import Dataset
from ..data.stream import Stream
from ..families.trees import Tree, tree_leaves
from ..optimise.pace import is_long
from ..optimise.run import check as run_check
from .believed import Believed, believe
from .em_data import Place
from .hmm import HiddenRows

__all__ = ["Survey", "check_memory", "refuse_stream", "survey_rows"]


@record("gradient survey")
class Survey(NamedTuple):
    """A model that is answering about all rows."""

    model: Any
    found: Believed | None = None  # by the batches so far
    place: Place = ()  # where in the stream the next one begins
    is_retreat: bool = False  # whether its leaves are the old ones, because moved ones lowered the objective


def survey_rows(
    problem: HiddenRows, survey: Survey, old: Any, q: Tree, share: float
) -> tuple[Survey, Believed | None]:
    """As many batches as a call may take; what all of them say when the pass is over.

    Parameters
    ----------
    problem
        The rows.
    survey
        How far it has come.
    old, q
        The old model and, in memory, its posteriors; None in the first survey of a run.
    share
        See `believe`.
    """
    if problem.stream is None:
        return survey, believe(survey.model, problem.data, share=share, q=q)
    began, place, found = perf_counter(), survey.place, survey.found
    for batch, end in problem.stream.batches(place):
        run_check()
        with problem.stream.placed(place):
            data = problem.part(batch).data
            before = None if old is None else believe(old, data, share=share).expected.q
            piece = believe(survey.model, data, share=share, q=before).without_rows()
        found, place = piece.plus(found), end
        if is_long(began):
            break
    return survey._replace(found=found, place=place), None if place else found


def refuse_stream(model: Any, stream: Stream) -> None:
    """What a family refuses, unless later batches differ: a column that is constant, missing rows only."""
    kept: list[np.ndarray] = []
    problem: DataError | None = None
    for batch in stream:
        rows = model.sequences(batch).rows()
        rows = rows[~model.emission.missing(rows)]
        if not len(rows):
            continue
        kept.append(rows[:1])
        try:
            return model.emission.refuse(np.concatenate([*kept, rows]))
        except DataError as error:
            problem = error
    raise problem or DataError("data: expected at least one observed row, got missing ones only")


def check_memory(family: Any, data: Dataset) -> None:
    """Refuse rows whose posteriors, leaf by leaf, would not fit into half of the machine's memory."""
    one = family.leaves(data.rows()[:1])
    entries = sum(leaf.size for leaf in tree_leaves(one))
    width = max(1, data.rows()[:1].nbytes)
    # q in double precision, and q and rows once more where the compiled steps read them.
    needed = data.n_rows * (2 * 8 * entries + 2 * width) / 2**30
    limit = machine_gigabytes() / 2
    if needed > limit:
        raise TooLargeError(
            f"data: posteriors of {data.n_rows} rows with {entries} numbers each need {needed:.3g} GB, and "
            f"half of the machine's memory is {limit:.3g} GB; give the rows as credo.data.stream in smaller "
            "batches, cut long sequences, or take fewer components"
        )
