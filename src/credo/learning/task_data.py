"""What a call of `fit` learns from: blanks are filled, and data are read in the form of the model."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import DataError, ModelError, OptionError, UnsupportedError
from ..core.instance import Template
from ..core.variable import Variables
from ..data.dataset import Dataset
from ..data.read import read
from ..data.sources import named_columns
from ..data.stream import Stream
from ..data.table import StateTable
from ..families.independent import rows_model
from ..families.learnable import Learnable
from ..families.posteriors import HiddenPosterior
from ..inference.portfolio.question import graph_of
from ..models.bayes_net import BayesNet
from .labels import read_labels, unlabelled_columns, with_labels
from .streams import fill_from_stream, read_stream

__all__ = ["read_task", "refuse_posterior"]


def read_task(
    model: Any,
    data: Any,
    weights: Any,
    validation: Any,
    rng: np.random.Generator,
    named: dict[str, Any],
    labels: str | None = None,
    targets: Any = None,
) -> tuple[Any, Any, Any]:
    """The model where learning starts, what it learns from, and what it watches.

    Parameters
    ----------
    model, data, weights, validation, labels, targets
        As in `fit`.
    rng
        Of blanks, and of what is held back.
    named
        groups, columns and lengths.
    """
    refuse_posterior(model)
    model = rows_model(model.as_rows() if hasattr(model, "as_rows") else model)
    is_conditional = getattr(model, "is_conditional", False)
    if targets is not None and not is_conditional:
        raise OptionError("targets: expected none, got some; only random fields have labels beside features")
    if hasattr(model, "read_batch"):
        if labels is not None:
            way = "give targets" if is_conditional else "leave labels out"
            raise OptionError(f"labels: a {type(model).__name__} has no hidden rows; {way}")
        named = named | ({"targets": targets} if is_conditional else {})
        return _own_batch(model, data, weights, validation, rng, named)
    if isinstance(data, Stream) and labels is not None:
        raise OptionError("labels: a stream has none; give data in memory, such as credo.data.read(path)")
    if labels is not None and isinstance(data, (str, os.PathLike)):
        data = named_columns(data)  # a path does not say which columns there are
    known = None if labels is None else _known(model, data, weights, labels, named)
    model, data, weights = _filled(model, data, weights, rng, named, known)
    return model, *_read(model, data, weights, validation, rng, named, known)


def refuse_posterior(model: Any) -> None:
    """Refuse what averages over parameters, and so has none to learn."""
    if isinstance(model, HiddenPosterior):
        raise ModelError(
            f"model: expected one with parameters, got {type(model).__name__}: it is a distribution over "
            "parameters already; learn the model it is of, such as posterior.mean()"
        )


def _own_batch(
    model: Any, data: Any, weights: Any, validation: Any, rng: np.random.Generator, named: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """A model that reads its data itself: labels beside features, documents."""
    name = type(model).__name__
    if isinstance(data, Stream):
        raise UnsupportedError(f"a {name} takes all data at once; give data in memory")
    counted = data.weights if isinstance(data, Dataset) and weights is None else weights
    if counted is not None and (np.asarray(counted, dtype=object) != 1).any():
        raise OptionError(f"weights: every unit of a {name} counts once; leave out")
    model = model.filled(data, **named)
    batch = model.read_batch(data, **named)
    if validation is None:
        return model, batch, None
    if isinstance(validation, bool) or not isinstance(validation, (int, float)):
        return model, batch, model.read_batch(validation)
    check.in_range("validation", validation, 0, 1)
    if not validation:
        return model, batch, None
    size = min(max(round(validation * len(batch)), 1), len(batch) - 1)
    if not size:
        raise DataError("validation: expected at least two units to split, got one")
    order = rng.permutation(len(batch))
    return model, batch.take(np.sort(order[size:])), batch.take(np.sort(order[:size]))


def _known(
    model: Any, data: Any, weights: Any, labels: str, named: dict[str, Any]
) -> tuple[str, int, np.ndarray]:
    """Name, number of states, and the state of every row; the column is not among those emitted."""
    if not hasattr(model, "fill") and not isinstance(model, Learnable):
        raise OptionError(f"labels: a {type(model).__name__} has no hidden rows; leave labels out")
    states = model.count if hasattr(model, "fill") else len(model.emission)
    if named["columns"] is None:
        named["columns"] = unlabelled_columns(data, labels, named["groups"], weights)
    return labels, states, read_labels(data, labels, states, named["groups"], named["lengths"])


def _filled(
    model: Any, data: Any, weights: Any, rng: np.random.Generator, named: dict[str, Any], known: Any
) -> tuple[Any, Any, Any]:
    """A blank with what the data say; data and weights as far as they had to be read for it."""
    if isinstance(data, Stream) and (hasattr(model, "fill") or hasattr(model, "with_nodes")):
        return *fill_from_stream(model, data, rng), weights
    if hasattr(model, "with_nodes"):
        from .network_data import fill_blank

        return *fill_blank(model, data, rng, weights, named["columns"]), None
    if hasattr(model, "fill"):
        data = named_columns(data) if isinstance(data, (str, os.PathLike)) else data
        states = None if known is None else known[2]
        made = model.fill(data, rng, known=states, **named, weights=weights)
        if states is None and hasattr(made, "emission"):
            from .first_models import best_first

            rows = made.sequences(data, **named, weights=weights)
            made = best_first(
                made, rows, lambda child: model.fill(data, child, **named, weights=weights), rng
            )
        return made, data, weights
    return model, data, weights


def _read(
    model: Any,
    data: Any,
    weights: Any,
    validation: Any,
    rng: np.random.Generator,
    named: dict[str, Any],
    known: Any,
) -> tuple[Any, Any]:
    """What to learn from and what to watch, as the model reads it."""
    if isinstance(model, Template) and not hasattr(model, "sequences"):
        raise ModelError(
            f"fit: expected a model whose rows come from a family, got {type(model).__name__}; a template "
            "is learned if it has `sequences`, as a Learnable does, or `read_batch`, as a CRF"
        )
    if isinstance(data, Stream):
        rows = read_stream(model, data, weights, named)
        if isinstance(validation, (int, float, Stream)):
            raise OptionError(
                "validation: a stream is not split; give rows of their own, such as credo.data.read(path)"
            )
        if validation is None:
            return rows, None
        return rows, _read(model, validation, None, None, rng, dict.fromkeys(named), None)[0]
    if not isinstance(model, Template):
        given = [name for name, value in named.items() if value is not None and name != "columns"]
        if given:
            raise OptionError(
                f"{', '.join(given)}: a {type(model).__name__} has rows, no sequences; leave out"
            )
        if named["columns"] is not None:
            schema = graph_of(model).variables
            data, weights = read(data, schema=schema, columns=named["columns"], weights=weights), None
        if getattr(model, "regressions", None):
            return _network_rows(model, data, weights, validation, rng)
        if hasattr(model, "declared") or not graph_of(model).variables.is_discrete:
            return _hybrid_rows(graph_of(model).variables, data, weights, validation, rng)
        return _split(graph_of(model).variables, data, weights, validation, rng)
    observed = model.sequences(data, weights=weights, **named)  # type: ignore[attr-defined]
    if known is not None:
        observed = with_labels(observed, *known)
    if isinstance(validation, (int, float)) and not isinstance(validation, bool):
        check.in_range("validation", validation, 0, 1)
        return observed.split(float(validation), rng) if validation else (observed, None)
    return observed, None if validation is None else model.sequences(validation, **named)  # type: ignore[attr-defined]


def _network_rows(
    model: BayesNet, data: Any, weights: Any, validation: Any, rng: np.random.Generator
) -> tuple[Any, Any]:
    from .network_data import read_network

    observed = read_network(model, data, weights)
    if isinstance(validation, (int, float)) and not isinstance(validation, bool):
        return observed.split(float(validation), rng) if validation else (observed, None)
    return observed, None if validation is None else read_network(model, validation)


def _hybrid_rows(
    variables: Variables, data: Any, weights: Any, validation: Any, rng: np.random.Generator
) -> tuple[Any, Any]:
    from .hybrid_source import HybridRows

    if isinstance(data, HybridRows):
        return data, None
    observed = HybridRows(variables, read(data, schema=variables, weights=weights))
    if not len(observed):
        raise DataError("data: expected at least one row, got none")
    if isinstance(validation, (int, float)) and not isinstance(validation, bool):
        return observed.split(float(validation), rng) if validation else (observed, None)
    return observed, None if validation is None else HybridRows(variables, read(validation, schema=variables))


def _split(
    variables: Variables, data: Any, weights: Any, validation: Any, rng: np.random.Generator
) -> tuple[StateTable, StateTable | None]:
    """What to learn from and what to watch: a share of the data, or data of their own."""
    observed = StateTable.of(variables, data, weights=weights, soft=True)
    if isinstance(validation, (int, float)) and not isinstance(validation, bool):
        check.in_range("validation", validation, 0, 1)
        return observed.split(float(validation), rng) if validation else (observed, None)
    if validation is None:
        return observed, None
    try:
        return observed, StateTable.of(variables, validation, soft=True)
    except DataError as error:
        raise DataError(f"validation: {error}") from None
