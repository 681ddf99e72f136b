"""Rows of Bayesian networks as learners read them: blanks get their states, real nodes their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import DataError, OptionError
from ..data.blocks import rows_of
from ..data.column import MISSING
from ..data.dataset import Dataset
from ..data.read import read
from ..models.bayes_net import BayesNet
from ..models.blank_net import BlankNet
from .network_rows import NetworkRows

__all__ = ["fill_blank", "read_network"]


def fill_blank(
    blank: BlankNet, data: Any, rng: np.random.Generator, weights: Any = None, columns: Any = None
) -> tuple[BayesNet, Dataset]:
    """A network with the states of the data and first parameters, and the data as they were read.

    Columns that are no nodes stay out, unless the blank has no node at all: then every column is one.
    """
    found = read(data, columns=columns, weights=weights)
    if not blank.nodes:
        blank = blank.with_nodes(found.names)
    known = [name for name in found.names if name in blank.nodes]
    if not known:
        raise DataError(
            f"data: no column is a node of the network; it has {list(blank.nodes)[:8]}, "
            f"the data have {list(found.names)[:8]}"
        )
    given = {name: blank.domains[name] for name in known if name in blank.domains}
    if set(given) == set(known):
        found = read(data, schema=given, columns=list(given), weights=weights)
    else:
        found = found.select(known)
    hidden = [name for name in blank.nodes if name not in known]
    domains = {column.name: column.domain for column in found.columns}
    return blank.initialise(domains, hidden, rng), found


def read_network(model: BayesNet, data: Any, weights: Any = None) -> NetworkRows:
    """States and numbers of a network with real nodes; columns that are left out are hidden."""
    variables = model.variables
    found = read(data, schema=variables, weights=weights)
    if not found.has_rows_as_units:
        raise OptionError("data: a network has rows, no sequences; leave out lengths and groups")
    shape = (found.n_rows, len(variables))
    states, values = np.full(shape, MISSING, dtype=np.int64), np.full(shape, np.nan)
    for column in found.columns:
        i = variables.position(column.name)
        into = states if variables[i].is_discrete else values
        into[:, i] = rows_of([column], found.n_rows).reshape(found.n_rows)
    empty = ((states == MISSING) & np.isnan(values)).all(axis=1)
    if empty.all():
        raise DataError("data: expected a row that observes a variable of the network, got none")
    return NetworkRows(states[~empty], values[~empty], found.weights[~empty])
