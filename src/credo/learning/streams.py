"""Streams as learners read them: batches in the schema of the model, and the first, where learning starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..core.errors import DataError, OptionError
from ..core.instance import Template
from ..data.stream import Stream
from ..data.table import StateTable
from ..families.independent import IndependentRows
from ..inference.portfolio.question import graph_of
from .network_data import fill_blank, read_network

__all__ = ["fill_from_stream", "first_batch", "read_stream"]


def read_stream(model: Any, data: Stream, weights: Any, named: Mapping[str, Any]) -> Stream:
    """A stream whose batches have the columns and domains of a model."""
    given = [name for name, value in {"weights": weights, **named}.items() if value is not None]
    if given:
        raise OptionError(
            f"{', '.join(given)}: a stream has its rows and sequences already; leave out, or give "
            "credo.data.stream groups, columns and weights"
        )
    if isinstance(model, Template):
        if isinstance(model, IndependentRows) and data.groups is not None:
            raise DataError(
                f"data: a {type(model.family).__name__} has independent rows, no sequences; leave groups out "
                "of the stream"
            )
        if data.groups is None and not isinstance(model, IndependentRows):
            raise DataError(
                f"data: a {type(model).__name__} learns from sequences, and this stream has rows; name the "
                "column that tells sequences apart: credo.data.stream(..., groups=...)"
            )
        return data.with_schema(model.emission.schema(list(data.names)))  # type: ignore[attr-defined]
    if data.groups is not None:
        raise DataError(
            f"data: a {type(model).__name__} has rows, no sequences; leave groups out of the stream"
        )
    return data.with_schema(graph_of(model).variables)


def fill_from_stream(blank: Any, data: Stream, rng: np.random.Generator) -> tuple[Any, Stream]:
    """A blank with the states of all batches and a start from the first, and the stream of its columns."""
    if hasattr(blank, "fill"):
        return blank.fill(next(iter(data)), rng), data
    schema = {v.name: blank.domains.get(v.name, v.domain) for v in data.variables}
    model, batch = fill_blank(blank, next(iter(data.with_schema(schema))), rng)
    return model, replace(data, columns=batch.names)


def first_batch(model: Any, data: Stream) -> Any:
    """The first batch as the model reads data in memory: random starts are drawn from it."""
    if isinstance(model, Template):
        return model.sequences(next(iter(data)))  # type: ignore[attr-defined]
    if getattr(model, "regressions", None):
        return next(data.map(partial(read_network, model)))
    variables = graph_of(model).variables
    return next(data.map(lambda batch: StateTable.of_dataset(batch, variables)))
