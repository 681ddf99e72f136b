r"""Kernel belief propagation: marginals given evidence, straight from rows of data.

    m_{t->s}(x) = E[ f_t(X_t) | X_s = x ],     f_t = prod_{u in N(t) \ s} m_{u->t}
    b_s(x)      = P*(x) prod_u m_{u->s}(x)

Which pairs of variables hang together is given; no potential is. Conditional expectations are kernel ridge
regressions on the rows and P* is a Parzen density; `credo.inference.particles.kernel_messages` has the
formulas. On trees with enough rows the beliefs are the conditional marginals; they may be negative in places,
where they are cut. There is no log Z, because there is no model of which it would be the integral.

Learning costs O(rows l^2) per variable, l the rank of its features; a sweep of messages O(rows l) each.

Source: Song, Gretton and Guestrin (2010); Song, Gretton, Bickson, Low and Guestrin (2011).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core import check
from ..core.domain import Real
from ..core.errors import ConvergenceWarning, DataError, ModelError, OptionError
from ..core.evidence import Evidence
from ..core.result import Result, Samples
from ..core.variable import Variable, Variables
from ..data.read import read
from ..inference.particles.kernel_messages import KernelColumn, KernelField, Likelihood
from ..inference.particles.kernel_sweeps import infer_field
from ..inference.particles.pairs import ParticlePairs, why_not_pairs
from ..inference.problem.base import Budget
from .continuous_structure import real_columns

__all__ = ["KernelBP"]


class KernelBP:
    """Messages learned from data.

    Parameters
    ----------
    structure
        Pairs of names of real variables, or a model: its variables and the pairs that have a factor in
        common; what the factors say is not read.
    data
        A data frame, a mapping name -> column, an array (rows, n), samples or a file; without missing values.
    names
        Names of the columns of an array; x0, x1, ... if left out.
    width
        Width of the kernels as a multiple of the median distance of the rows.
    ridge
        Weight of the regulariser.
    rank
        Most features per variable; as many as the kernel has if left out.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.learning import KernelBP
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=1000)
    >>> b = a + 0.5 * rng.normal(size=1000)
    >>> c = b + 0.5 * rng.normal(size=1000)
    >>> learned = KernelBP([("a", "b"), ("b", "c")], {"a": a, "b": b, "c": c})
    >>> found = learned.infer({"c": 1.5}).marginals["a"]
    >>> bool(abs(found.mean - 1.0) < 0.1)
    True
    """

    def __init__(
        self,
        structure: Any,
        data: Any,
        names: Sequence[str] | None = None,
        *,
        width: float = 0.5,
        ridge: float = 1e-3,
        rank: int | None = None,
    ) -> None:
        check.at_least("width", width, 1e-12)
        check.at_least("ridge", ridge, 0)
        if rank is not None:
            check.whole("rank", rank, 1)
        if hasattr(structure, "to_factor_graph"):
            self.variables, ends, rows = _of_model(structure, data, names)
        else:
            self.variables, ends, rows = _of_edges(structure, data, names)
        columns = [
            KernelColumn.of(v.name, rows[v.name], v.size if v.is_discrete else 0, width, ridge, rank)
            for v in self.variables
        ]
        self._field = KernelField(columns, ends)

    def infer(
        self, evidence: Mapping[str, Any] | None = None, *, max_iter: int = 1000, tol: float = 1e-8
    ) -> Result:
        """Marginals given evidence: values, or likelihood vectors of discrete variables.

        Messages pass until they change by less than `tol` of their size; on a tree they settle by themselves.
        """
        checked = Evidence.of(self.variables, evidence)
        observed = {i: checked.value(i) for i in np.flatnonzero(checked.flags).tolist()}
        known: dict[int, Likelihood] = {i: partial(_looked_up, vector) for i, vector in checked.likelihoods}
        budget = Budget(max_iter, tol)
        result = infer_field("kernel-bp", self.variables, self._field, observed, known, budget)
        if not result.converged:
            warnings.warn(f"kernel-bp: {result.advice}", ConvergenceWarning, stacklevel=2)
        return result

    def __repr__(self) -> str:
        rows = len(self._field.columns[0].values) if self._field.columns else 0
        return f"KernelBP({len(self.variables)} variables, {len(self._field.sender) // 2} pairs, {rows} rows)"


def _looked_up(vector: np.ndarray, states: np.ndarray) -> np.ndarray:
    return np.asarray(vector[states.astype(np.int64)], dtype=np.float64)


def _of_edges(
    structure: Iterable[Any], data: Any, names: Sequence[str] | None
) -> tuple[Variables, np.ndarray, dict[str, np.ndarray]]:
    rows = real_columns(data, names)
    variables = Variables.of([Variable(name, Real()) for name in rows])
    ends = set()
    for pair in structure:
        two = tuple(pair)
        if len(two) != 2 or not set(two) <= set(rows) or two[0] == two[1]:
            raise OptionError(f"structure: expected pairs of {list(rows)!r:.80}, got {pair!r}")
        ends.add(tuple(sorted(variables.position(name) for name in two)))
    return variables, np.array(sorted(ends), dtype=np.int64).reshape(-1, 2), rows


def _of_model(
    model: Any, data: Any, names: Sequence[str] | None
) -> tuple[Variables, np.ndarray, dict[str, np.ndarray]]:
    graph = model.to_factor_graph()
    reason = why_not_pairs(graph)
    if reason is not None:
        raise ModelError(f"structure: kernel-bp cannot treat this model: {reason}")
    variables = graph.variables
    if not variables.is_discrete and all(not v.is_discrete for v in variables):
        rows = real_columns(data, names)
    else:
        rows = _mixed(variables, data)
    missing = [name for name in variables.names if name not in rows]
    if missing:
        raise DataError(f"data: the model's variables {missing[:5]} have no column")
    return variables, ParticlePairs(graph).ends, rows


def _mixed(variables: Variables, data: Any) -> dict[str, np.ndarray]:
    """Columns of numbers and of states; the latter as their positions."""
    if not isinstance(data, (Mapping, Samples)) and not hasattr(data, "columns"):
        raise DataError(
            f"data: a model with discrete variables needs named columns, got {type(data).__name__}"
        )
    rows = {}
    for column in read(data, schema=variables).columns:
        rows[column.name] = column.values.astype(np.float64)
        if ((column.values < 0) if column.is_discrete else np.isnan(column.values)).any():
            raise DataError(f"data: column '{column.name}' has missing values; leave out such rows")
    return rows
