"""What readers and writers of table formats share: size guards, flat index arithmetic, text of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.errors import FormatError, ModelError
from ..core.factor_graph import FactorGraph, Model
from ..core.wiring import products_of, starts_of
from ..models.bayes_net import BayesNet
from ..models.mrf import MarkovNet

__all__ = [
    "check_dense",
    "check_states",
    "graph_of",
    "products",
    "spread",
    "text_of",
    "weights",
]

MOST_ENTRIES = 1 << 28  # states or table entries a sparse or damaged file may ask for: 2 GB


def graph_of(model: Any) -> FactorGraph:
    """The factor graph of a model that is its tables; of others a file would hold a part only."""
    if not isinstance(model, Model):
        raise ModelError(f"save: expected a model, got {model!r:.80}")
    if not isinstance(model, (FactorGraph, BayesNet, MarkovNet)):
        raise FormatError(
            f"save: expected a BayesNet, a MarkovNet or a FactorGraph, got {model!r:.80}, of which a file "
            "holds the tables only; if these are enough, save `model.to_factor_graph()`"
        )
    return model.to_factor_graph()


def check_states(file: str, sizes: np.ndarray) -> None:
    """Refuse state counts no memory has one number per state for."""
    total = float(sizes.sum(dtype=np.float64))
    if total > MOST_ENTRIES:
        raise FormatError(f"{file}: expected at most {MOST_ENTRIES} states in all, got {total:.3g}")


def check_dense(file: str, entries: np.ndarray) -> None:
    """Refuse sparse tables that would not fit into memory when written out."""
    total = float(entries.sum(dtype=np.float64))
    if total > MOST_ENTRIES:
        raise FormatError(f"{file}: expected at most {MOST_ENTRIES} table entries in all, got {total:.3g}")


def spread(first: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The positions first[a], first[a] + 1, ... (lengths[a] of them) for all a, one after another."""
    start = starts_of(lengths)
    return np.repeat(first - start[:-1], lengths) + np.arange(start[-1])


def products(scope_start: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Product of `sizes` over each slice, as floats so that absurd ones do not wrap around."""
    with np.errstate(over="ignore"):
        return products_of(scope_start, sizes.astype(np.float64))


def weights(graph: FactorGraph) -> np.ndarray:
    """Weights whose logarithms are the log tables, with few digits where few suffice.

    exp(log x) is often a neighbour of x, so the exponential, the two doubles beside it and its
    rounding to 15 digits compete; the nearest logarithm wins, the short one when equal.
    """
    logs = graph.log_tables
    with np.errstate(over="ignore", under="ignore"):
        exact = np.exp(logs)
    lost = np.isinf(exact) | ((exact < np.finfo(np.float64).tiny) & (logs > -np.inf))
    if lost.any():
        raise FormatError(
            f"save: a log weight of {logs[lost][0]:.6g} is beyond the range of decimal tables; "
            "use .json, which keeps logarithms"
        )
    found = np.zeros(len(logs))
    some = exact > 0
    exact, logs = exact[some], logs[some]
    short = np.array([float(f"{x:.15g}") for x in exact.tolist()], dtype=np.float64)
    best = short
    miss = np.abs(np.log(short) - logs)
    for candidate in (exact, np.nextafter(exact, np.inf), np.nextafter(exact, 0)):
        off = np.abs(np.log(candidate) - logs)
        best = np.where(off < miss, candidate, best)
        miss = np.minimum(off, miss)
    found[some] = best
    return found


def text_of(values: Iterable[Any]) -> str:
    """Numbers separated by blanks; floats with the digits that give the same double back."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    return " ".join(map(repr, values))
