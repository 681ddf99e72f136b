"""Questions about two layers of units per row of data: all rows in one call, where the method has matrices.

`bp` (taken where no method is named) and `mean-field` answer all rows at once; other methods are asked row by
row. Of a maximum all units may be asked for, or those of the first layer, with the other summed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.errors import ConvergenceError, ConvergenceWarning, QueryError
from ...core.layer_rows import LayerRows
from ...core.registry import describe
from ...core.result import Estimate, Result, Status
from ...core.rows import Rows
from ...kernels.boltzmann import binary_entropy
from ...optimise.run import Run, check
from ..messages.bp import BP
from ..messages.layer_batch import layer_joint_states, layer_states, layer_sums
from ..problem.base import Algorithm, Budget, algorithms
from ..variational.layer_mean_field import layer_means
from ..variational.mean_field import MeanField

__all__ = ["infer_layer_rows"]

_ENTRIES = 2**24  # numbers of beliefs of rows that are worked on together
_ROUGH = 1e-4  # tolerance from which single precision serves


def infer_layer_rows(
    rows: LayerRows, method: str | Algorithm | None, options: Mapping[str, Any], ask: Callable[..., Result]
) -> Result:
    """Marginals, or best states, of every row; `ask(graph)` is `infer` with the options of the call."""
    maximise = options["maximise"]
    task = "max" if maximise == "all" else "sum" if not tuple(maximise) else "mixed"
    if task == "mixed" and tuple(maximise) != (rows.names[0],):
        raise QueryError(
            f"maximise: expected (), 'all' or ['{rows.names[0]}'] for layers of units, got {maximise!r:.80}"
        )
    algorithm = algorithms.resolve("bp" if method is None else method)
    budget = Budget(options["max_iter"], options["tol"], options["seconds"])
    is_plain_bp = isinstance(algorithm, BP) and algorithm == BP()
    if is_plain_bp or (isinstance(algorithm, MeanField) and algorithm == MeanField() and task == "sum"):
        if options["checkpoint"] is not None:
            raise QueryError("checkpoint: rows of layers are answered in one call and keep none; leave out")
        with Run(budget, whole=False):
            found = _together(rows, algorithm, task, budget)
        if not found.status.is_success:
            sentence = f"{found.algorithm}: {found.advice}"
            if options["strict"]:
                raise ConvergenceError(sentence)
            warnings.warn(sentence, ConvergenceWarning, stacklevel=6)
        return found
    return _one_by_one(rows, ask, task)


def _together(rows: LayerRows, algorithm: Algorithm, task: str, budget: Budget) -> Result:
    """Blocks of rows by matrices."""
    parts: list[dict[str, np.ndarray]] = []
    pairs, m, n = 0.0, *rows.weights.shape
    step = max(1, _ENTRIES // (m + n))
    for first in range(0, len(rows), step):
        check()
        part = slice(first, first + step)
        found, more = _answers(rows, algorithm, task, budget, part)
        parts.append(found)
        pairs = pairs + more
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    unfinished = int((whole["change"] >= budget.tol).sum())
    status = Status.OUT_OF_ITERATIONS if unfinished else Status.CONVERGED
    is_lower = task != "sum" or isinstance(algorithm, MeanField)
    value = Estimate(float(whole["values"].sum()), "lower" if is_lower else "estimate")
    known: Any = Rows({name: whole[side] for name, side in zip(rows.names, ("left", "right"), strict=True)})
    result = Result(
        describe(algorithm),
        status,
        value,
        each=whole["values"],
        diagnostics={"sweeps": whole["sweeps"], "change": whole["change"]},
        hint=f"{unfinished} of {len(rows)} rows have not converged; raise max_iter" if unfinished else "",
    )
    if task == "sum":
        counts: Any = {"weights": pairs}
        return replace(result, marginals=known, factor_marginals=counts)
    states: Any = Rows({name: whole[side].astype(np.int64) for name, side in _asked(rows, task)})
    return replace(result, assignment=states, score=Estimate(value.value, "exact"))


def _asked(rows: LayerRows, task: str) -> list[tuple[str, str]]:
    """The layers that are maximised."""
    return [*zip(rows.names, ("left", "right"), strict=True)][: 2 if task == "max" else 1]


def _answers(
    rows: LayerRows, algorithm: Algorithm, task: str, budget: Budget, part: slice
) -> tuple[dict[str, np.ndarray], Any]:
    left, right, weights = rows.left[part], rows.right[part], rows.weights
    kind = np.float32 if budget.tol >= _ROUGH else np.float64
    if task == "sum" and isinstance(algorithm, MeanField):
        means = layer_means(weights, left, right, budget.max_iter, budget.tol)
        p, r = means.left, means.right
        values = (left * p).sum(axis=1) + (right * r).sum(axis=1) + ((p @ weights) * r).sum(axis=1)
        values += binary_entropy(p).sum(axis=1) + binary_entropy(r).sum(axis=1)
        return means._asdict() | {"values": values}, p.T @ r
    if task == "sum":
        found = layer_sums(weights, left, right, budget.max_iter, budget.tol, kind=kind)._asdict()
        pairs = found.pop("pairs")
        return found, pairs
    if task == "max":
        best = layer_joint_states(weights, left, right, budget.max_iter, budget.tol, kind=kind)
    else:
        best = layer_states(weights, left, right, budget.max_iter, kind=kind)
    change = np.where(best.sweeps < budget.max_iter, 0.0, np.inf)
    return best._asdict() | {"change": change}, 0.0


def _one_by_one(rows: LayerRows, ask: Callable[..., Result], task: str) -> Result:
    """Every row by itself, by any method."""
    m = rows.weights.shape[0]
    visible = [f"{rows.names[0][0]}{i}" for i in range(m)]
    question = {"maximise": visible} if task == "mixed" else {}
    found = [ask(rows.to_factor_graph(row), **question) for row in range(len(rows))]
    values = np.array([np.nan if one.log_z is None else one.log_z.value for one in found])
    kinds = {one.log_z.kind for one in found if one.log_z is not None}
    is_known = bool(np.isfinite(values).all())
    kind = kinds.pop() if len(kinds) == 1 else "estimate"
    status = next((one.status for one in found if not one.status.is_success), found[0].status)
    changes: dict[str, Any] = {}
    if task == "sum" and all(one.marginals is not None for one in found):
        ones = np.array([one.marginals.flat[1::2] for one in found if one.marginals is not None])
        changes["marginals"] = Rows(dict(zip(rows.names, np.split(ones, [m], axis=1), strict=True)))
    if task != "sum":
        states = np.array([one.assignment.indices for one in found if one.assignment is not None])
        sides = np.split(states, [m], axis=1)
        changes["assignment"] = Rows({name: sides[k] for k, (name, _) in enumerate(_asked(rows, task))})
        changes["score"] = Estimate(float(values.sum()), "exact")
    total = Estimate(float(values.sum()), kind) if is_known else None
    return Result(
        found[0].algorithm, status, total, each=values if is_known else None, notes=found[0].notes, **changes
    )
