"""Evidence on the open ends of normal-form graphs, as normalised messages for many samples at once.

A mapping branch -> values. The values of a branch are

    a state, by label or index                 the same in every sample
    a list or column of states                 one per sample; None, NaN and -1 are missing
    an array (samples, states)                 soft evidence: likelihoods, one row per sample
    a list of states and lists of likelihoods  either, sample by sample

Data frames and `Samples` are such mappings; their columns must be terminals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import EvidenceError, QueryError
from ..core.numbers import float_array
from ..core.result import Samples
from ..core.variable import Variable, Variables
from .normal_form_wiring import NormalFormWiring

__all__ = ["as_columns", "at_open_ends", "likelihoods"]


def as_columns(evidence: Any) -> dict[str, Any]:
    """Branch name -> values, from a mapping, a data frame or samples."""
    if evidence is None:
        return {}
    if isinstance(evidence, Samples):
        return {name: evidence.column(name) for name in evidence.variables.names}
    if not isinstance(evidence, Mapping) and not hasattr(evidence, "items"):
        raise EvidenceError(f"evidence: expected a mapping from branches to states, got {evidence!r:.80}")
    return {str(name): values for name, values in evidence.items()}


def likelihoods(
    variables: Variables, evidence: Any, floor: float = 0.0
) -> tuple[dict[int, np.ndarray], np.ndarray, int]:
    """Normalised likelihoods per observed branch, the log of what they were divided by, the sample count.

    Parameters
    ----------
    variables
        The branches.
    evidence
        As in the module's description.
    floor
        Likelihoods below this are raised to it, so that nothing is impossible.

    Returns
    -------
    found
        Branch position -> (samples, states); a missing sample has equal entries.
    log_scale
        (samples,) log of the product of all sums; the true likelihoods are `found` times its exponential.
    rows
        How many samples there are; 1 if every value is the same for all.
    """
    tables: dict[int, np.ndarray] = {}
    rows: int | None = None
    owner = ""
    for name, values in as_columns(evidence).items():
        try:
            i = variables.position(name)
        except QueryError as error:
            raise EvidenceError(f"evidence: {str(error).replace('variable', 'branch', 1)}") from None
        table, single = _table(variables[i], values)
        if not single:
            if rows is not None and len(table) != rows:
                raise EvidenceError(
                    f"evidence: '{owner}' has {rows} samples and '{name}' has {len(table)}; "
                    "expected one number for all"
                )
            rows, owner = len(table), name
        tables[i] = np.maximum(table, floor) if floor else table
    count = 1 if rows is None else rows
    log_scale = np.zeros(count)
    for i, table in tables.items():
        sums = table.sum(axis=1, keepdims=True)
        log_scale += np.log(sums[:, 0])
        tables[i] = np.broadcast_to(table / sums, (count, table.shape[1]))
    return tables, log_scale, count


def at_open_ends(
    branches: Variables, wiring: NormalFormWiring, evidence: Any, floor: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flat messages with the evidence at open ends, the log of what it was divided by, and where it is.

    All other messages are uniform.
    """
    found, log_scale, rows = likelihoods(branches, evidence, floor)
    start = wiring.message_start
    sizes = np.diff(start)
    flat = np.tile(np.repeat(1.0 / sizes, sizes), (rows, 1))
    # A terminal without evidence sends ones, not 1/states.
    log_scale = log_scale + np.log(sizes[wiring.open_messages]).sum()
    observed = np.zeros((rows, len(branches)), dtype=bool)
    for i, table in found.items():
        d = _open_end(branches, wiring, i)
        flat[:, start[d] : start[d + 1]] = table
        log_scale -= np.log(sizes[d])
        observed[:, i] = np.ptp(table, axis=1) > 0
    return flat, log_scale, observed


def _open_end(branches: Variables, wiring: NormalFormWiring, i: int) -> int:
    """The message that enters at the open end of a branch."""
    if wiring.head[i] < 0:
        return 2 * i + 1
    if wiring.tail[i] < 0:
        return 2 * i
    name = branches.names[i]
    raise EvidenceError(f"evidence: branch '{name}' has no open end; make one with tap('{name}')")


def _table(variable: Variable, values: Any) -> tuple[np.ndarray, bool]:
    """Likelihoods (samples, states), and whether they are one row for all samples."""
    if isinstance(values, (list, tuple)):
        lengths = {len(v) if isinstance(v, (list, tuple, np.ndarray)) else None for v in values}
        if len(lengths) > 1:
            return _mixed(variable, values), False
    if values is None or np.ndim(values) == 0:
        return _one_hot(variable, np.array([_index(variable, values)])), True
    if np.ndim(values) > 2:
        raise EvidenceError(
            f"evidence on '{variable.name}': expected a state, a state per sample or likelihoods "
            f"(samples, {variable.size}), got shape {np.shape(values)}"
        )
    if np.ndim(values) == 2:
        return _soft(variable, values), False
    column = np.asarray(values)
    if column.dtype.kind in "iu":
        bad = (column < -1) | (column >= variable.size)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise EvidenceError(
                f"evidence on '{variable.name}': sample {row} has state {column[row]}, "
                f"expected 0 to {variable.size - 1}, or -1 where it is missing"
            )
        return _one_hot(variable, column.astype(np.int64)), False
    known = {}
    states = np.empty(len(column), dtype=np.int64)
    for n, value in enumerate(list(values)):
        key = None if _missing(value) else value
        if key not in known:
            known[key] = _index(variable, key)
        states[n] = known[key]
    return _one_hot(variable, states), False


def _mixed(variable: Variable, values: Sequence[Any]) -> np.ndarray:
    """Rows of a list in which states and likelihoods may stand side by side."""
    found = np.empty((len(values), variable.size))
    for n, value in enumerate(values):
        if not isinstance(value, (list, tuple, np.ndarray)):
            found[n] = _one_hot(variable, np.array([_index(variable, value)]))[0]
            continue
        what = f"evidence on '{variable.name}': sample {n}"
        expected = f"a state or {variable.size} likelihoods"
        row = float_array(what, value, error=EvidenceError, expected=expected)
        if row.shape != (variable.size,):
            raise EvidenceError(f"{what}: expected {expected}, got {value!r:.80}")
        found[n] = row
    return _soft(variable, found)


def _missing(value: Any) -> bool:
    # Missing values of pandas are not equal to themselves, or refuse to be compared.
    return value is None or type(value).__name__ == "NAType" or value != value  # noqa: PLR0124


def _index(variable: Variable, value: Any) -> int:
    if _missing(value) or (
        isinstance(value, (int, np.integer)) and value == -1 and "-1" not in variable.states
    ):
        return -1
    return variable.index(value)


def _one_hot(variable: Variable, states: np.ndarray) -> np.ndarray:
    table = np.ones((len(states), variable.size))
    seen = np.flatnonzero(states >= 0)
    table[seen] = 0.0
    table[seen, states[seen]] = 1.0
    return table


def _soft(variable: Variable, values: Any) -> np.ndarray:
    what = f"soft evidence on '{variable.name}'"
    table = float_array(what, values, error=EvidenceError)
    if table.shape[1] != variable.size:
        raise EvidenceError(
            f"{what}: expected {variable.size} likelihoods per sample, got shape {table.shape}"
        )
    if not ((table >= 0) & (table < np.inf)).all():
        raise EvidenceError(f"{what}: likelihoods must be finite and non-negative")
    empty = np.flatnonzero(~table.any(axis=1))
    if len(empty):
        raise EvidenceError(f"{what}: sample {empty[0]} has no positive likelihood")
    return table
