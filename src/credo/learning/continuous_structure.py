r"""Trees and chains of real variables, learned with Parzen windows.

Node and edge densities are sums of Gaussian kernels N_h at the N rows, with one bandwidth h_i per variable
in all of them, so that the edge densities have the node densities as their marginals:

    p_i(x) = (1/N) sum_n N_hi(x - x_ni)         p_ij(x, y) = (1/N) sum_n N_hi(x - x_ni) N_hj(y - x_nj)

The tree is the maximum-weight spanning tree of the mutual information, which is either the average of
log p_ij / (p_i p_j) over the rows (resubstitution: no tree of these densities makes the rows more likely) or
its integral (quadrature: no tree is closer to the Parzen density of all variables). A chain is the
heaviest path; it is found exactly for few variables and grown at both ends otherwise.

With d_i edges at variable i, any positive functions M of (8.3) cancel in the product

    phi_i = p_i prod_k M_ki        psi_ij = p_ij / (p_i p_j M_ij M_ji)        Z = 1, marginals p_i and p_ij

and `place="edges"` takes M_ij = p_j^(-1/d_j), which leaves no node factor:

    psi_ij = p_ij / (p_i^(1 - 1/d_i) p_j^(1 - 1/d_j))

`place="nodes"` takes M = 1, which would tell message passing the answer at its start.

Cost: O(rows^2 n^2) for resubstitution, O(rows n^2 G^2) for a quadrature of G points.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.domain import Real
from ..core.errors import DataError, OptionError
from ..core.factor import Factor
from ..core.numbers import float_array
from ..core.result import Samples
from ..core.variable import Variable
from ..data.sources import named_columns
from ..models.continuous import HybridNet
from ..models.potentials import density_ratio, kernel_density
from .structure import spanning_forest

__all__ = ["kernel_bandwidth", "kernel_chow_liu", "kernel_information", "real_columns"]

_EXACT_CHAIN = 13  # variables up to which the best chain is found among all
_NUMBERS = 1 << 22  # kernel values held at once
_STEP = 0.5  # of the quadrature, in bandwidths
_REACH = 6.0  # of the quadrature beyond the rows, in bandwidths
_NORMAL_QUARTILES = 1.349  # between the quartiles of a normal density, in standard deviations


def kernel_chow_liu(
    data: Any,
    names: Sequence[str] | None = None,
    *,
    structure: Literal["tree", "chain"] | Iterable[tuple[str, str]] = "tree",
    bandwidth: Any = "silverman",
    information: Literal["resubstitution", "quadrature"] = "resubstitution",
    threshold: float = 0.0,
    place: Literal["edges", "nodes"] = "edges",
) -> HybridNet:
    """Learn the best tree, or chain, of real variables and its Parzen densities; Z is 1.

    Parameters
    ----------
    data
        A data frame, a mapping name -> column, an array (rows, n), samples or a file; without missing values.
    names
        Names of the columns of an array; x0, x1, ... if left out.
    structure
        `"tree"`, `"chain"`, or the edges of a forest as pairs of names.
    bandwidth
        `"silverman"`, `"scott"`, or one number for all variables or one per variable.
    information
        How the mutual information of a pair is computed.
    threshold
        Mutual information in nats that an edge of a tree must exceed.
    place
        Where the node densities go; see the module's equations.

    Returns
    -------
    HybridNet
        Its partition function is 1 and its marginals are the Parzen densities.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.learning import kernel_chow_liu
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=200)
    >>> b = a + 0.5 * rng.normal(size=200)
    >>> c = b + 0.5 * rng.normal(size=200)
    >>> net = kernel_chow_liu({"a": a, "c": c, "b": b})
    >>> [factor.names for factor in net.factors]
    [('b', 'c'), ('a', 'b')]
    """
    check.at_least("threshold", threshold, 0)
    check.one_of("place", place, ("edges", "nodes"))
    columns = real_columns(data, names)
    width = _widths(columns, bandwidth)
    if isinstance(structure, str):
        check.one_of("structure", structure, ("tree", "chain"))
        gain = _information(columns, width, information)
        edges = _tree(gain, threshold) if structure == "tree" else _chain(gain)
    else:
        edges = _given(list(columns), structure)
    return _net(columns, width, edges, place)


def kernel_information(
    data: Any,
    names: Sequence[str] | None = None,
    *,
    bandwidth: Any = "silverman",
    information: Literal["resubstitution", "quadrature"] = "resubstitution",
) -> np.ndarray:
    """Mutual information of all pairs of real variables in nats, shape (n, n), zero on the diagonal.

    Examples
    --------
    >>> from credo.learning import kernel_information
    >>> kernel_information({"a": [0.0, 1, 2, 3], "b": [0.0, 1, 2, 3]}, bandwidth=0.1).round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    columns = real_columns(data, names)
    return _information(columns, _widths(columns, bandwidth), information)


def kernel_bandwidth(data: Any, rule: Literal["silverman", "scott"] = "silverman") -> float:
    """The width of the Gaussian kernels of one column by a rule of thumb.

    Silverman's is 0.9 min(sd, quartile distance / 1.349) rows^(-1/5), Scott's is 1.06 sd rows^(-1/5).

    Examples
    --------
    >>> from credo.learning import kernel_bandwidth
    >>> kernel_bandwidth([0.0, 1.0, 2.0, 3.0]).__round__(4)
    0.7584
    """
    check.one_of("rule", rule, ("silverman", "scott"))
    column = float_array("data", data, error=DataError)
    sd = float(column.std(ddof=1)) if column.size > 1 else 0.0
    if not sd > 0:
        raise DataError("a bandwidth by rule needs a column of two different values; give a number")
    shrink = len(column) ** -0.2
    if rule == "scott":
        return 1.06 * sd * shrink
    low, high = np.quantile(column, [0.25, 0.75])
    spread = float(high - low) / _NORMAL_QUARTILES
    return 0.9 * (min(sd, spread) if spread > 0 else sd) * shrink


# ---------------------------------------------------------------------------------------------
# Data
# ---------------------------------------------------------------------------------------------


def real_columns(data: Any, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Name -> finite numbers, all equally many."""
    if isinstance(data, Samples):
        data = data.continuous
    elif isinstance(data, (str, os.PathLike)) or hasattr(data, "columns"):
        data = named_columns(data).columns
    if isinstance(data, Mapping):
        if names is not None:
            raise OptionError("names: these columns have their names already; leave them out")
        found = {str(name): _numbers(str(name), column) for name, column in data.items()}
    else:
        found = _array(data, names)
    if not found:
        raise DataError("data: expected at least one column of numbers, got none")
    lengths = {len(column) for column in found.values()}
    if len(lengths) > 1 or 0 in lengths:
        raise DataError(f"data: expected columns with equally many rows, got {sorted(lengths)}")
    return found


def _array(data: Any, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    table = np.asarray(data)
    if table.ndim != 2:
        raise DataError(f"data: expected an array of shape (rows, n), got shape {table.shape}")
    named = [f"x{i}" for i in range(table.shape[1])] if names is None else [str(name) for name in names]
    if len(set(named)) != table.shape[1]:
        raise OptionError(f"names: expected {table.shape[1]} different names, got {named!r:.80}")
    return {name: _numbers(name, column) for name, column in zip(named, table.T, strict=True)}


def _numbers(name: str, column: Any) -> np.ndarray:
    found = float_array(f"data: column '{name}'", column, error=DataError, copy=True)
    if found.ndim != 1:
        raise DataError(f"data: column '{name}': expected one number per row, got shape {found.shape}")
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        raise DataError(
            f"data: column '{name}', row {bad[0]}: expected a finite number, got {found[bad[0]]}; "
            f"leave out rows with missing values"
        )
    return found


def _widths(columns: Mapping[str, np.ndarray], bandwidth: Any) -> np.ndarray:
    """One bandwidth per column."""
    if isinstance(bandwidth, str):
        check.one_of("bandwidth", bandwidth, ("silverman", "scott"))
        found = []
        for name, column in columns.items():
            try:
                found.append(kernel_bandwidth(column, bandwidth))  # type: ignore[arg-type]
            except DataError as error:
                raise DataError(f"data: column '{name}': {error}") from None
        return np.array(found)
    try:
        given = np.broadcast_to(float_array("bandwidth", bandwidth, error=OptionError), (len(columns),))
    except (TypeError, ValueError, OverflowError):
        raise OptionError(
            f"bandwidth: expected a rule, a number or {len(columns)} numbers, got {bandwidth!r:.80}"
        ) from None
    if not ((given > 0) & np.isfinite(given)).all():
        raise OptionError(f"bandwidth: expected positive numbers, got {bandwidth!r:.80}")
    return given


# ---------------------------------------------------------------------------------------------
# Mutual information
# ---------------------------------------------------------------------------------------------


def _information(columns: Mapping[str, np.ndarray], width: np.ndarray, how: str) -> np.ndarray:
    check.one_of("information", how, ("resubstitution", "quadrature"))
    scaled = np.stack(list(columns.values())) / width[:, None]
    found = _by_rows(scaled) if how == "resubstitution" else _by_quadrature(scaled)
    np.fill_diagonal(found, 0.0)
    return np.maximum((found + found.T) / 2, 0.0)


def _by_rows(scaled: np.ndarray) -> np.ndarray:
    """The average over the rows of log p_ij / (p_i p_j); the kernels' constants cancel.

    A row's own kernel keeps every density positive.
    """
    n, rows = scaled.shape
    total = np.zeros((n, n))
    at_once = max(_NUMBERS // (n * rows), 1)
    for first in range(0, rows, at_once):
        gap = scaled[:, first : first + at_once, None] - scaled[:, None, :]
        kernel = np.exp(-0.5 * gap**2).swapaxes(0, 1)  # (some rows, n, rows)
        joint = np.log(kernel @ kernel.swapaxes(1, 2))
        single = np.log(kernel.sum(axis=2))
        total += (joint - single[:, :, None] - single[:, None, :]).sum(axis=0)
    return total / rows + np.log(rows)


def _by_quadrature(scaled: np.ndarray) -> np.ndarray:
    """The integral of p_ij log p_ij / (p_i p_j) by the trapezoid rule, in units of the bandwidths."""
    kernels = []
    for column in scaled:
        count = int(np.ceil((np.ptp(column) + 2 * _REACH) / _STEP)) + 1
        points = column.min() - _REACH + _STEP * np.arange(count)
        kernels.append(np.exp(-0.5 * (points[:, None] - column) ** 2) / np.sqrt(2 * np.pi))
    n, rows = scaled.shape
    single = [kernel.mean(axis=1) for kernel in kernels]
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            joint, apart = kernels[i] @ kernels[j].T / rows, np.outer(single[i], single[j])
            used = (joint > 0) & (apart > 0)
            found[i, j] = found[j, i] = _STEP**2 * float(joint[used] @ np.log(joint[used] / apart[used]))
    return found


# ---------------------------------------------------------------------------------------------
# Structure
# ---------------------------------------------------------------------------------------------


def _tree(gain: np.ndarray, threshold: float) -> list[tuple[int, int]]:
    parent = spanning_forest(np.where(gain > threshold, gain, -np.inf))
    return [(int(j), i) for i, j in enumerate(parent) if j >= 0]


def _chain(gain: np.ndarray) -> list[tuple[int, int]]:
    """The heaviest path through all variables, or one grown greedily where there are many."""
    path = _best_path(gain) if len(gain) <= _EXACT_CHAIN else _grown_path(gain)
    return list(pairwise(path))


def _best_path(gain: np.ndarray) -> list[int]:
    """The heaviest path over all orders: the best way through each set of variables to each of its ends."""
    n = len(gain)
    best = np.full((1 << n, n), -np.inf)
    via = np.full((1 << n, n), -1)
    best[1 << np.arange(n), np.arange(n)] = 0.0
    for chosen in range(1, 1 << n):
        for i in range(n):
            rest = chosen & ~(1 << i)
            if rest and chosen >> i & 1:
                ways = best[rest] + gain[i]
                via[chosen, i] = ways.argmax()
                best[chosen, i] = ways[via[chosen, i]]
    chosen, i = (1 << n) - 1, int(best[-1].argmax())
    path = []
    while i >= 0:
        path.append(i)
        chosen, i = chosen & ~(1 << i), int(via[chosen, i])
    return path


def _grown_path(gain: np.ndarray) -> list[int]:
    """Start with the heaviest edge and add the heaviest one at either end."""
    gain = gain.copy()
    np.fill_diagonal(gain, -np.inf)
    path = [int(i) for i in np.unravel_index(gain.argmax(), gain.shape)]
    waiting = np.ones(len(gain), dtype=bool)
    waiting[path] = False
    while waiting.any():
        ends = np.where(waiting, gain[[path[0], path[-1]]], -np.inf)
        end, i = (int(k) for k in np.unravel_index(ends.argmax(), ends.shape))
        path = [*path, i] if end else [i, *path]
        waiting[i] = False
    return path


def _given(names: list[str], structure: Any) -> list[tuple[int, int]]:
    """Edges of a forest, given as pairs of names."""
    place = {name: i for i, name in enumerate(names)}
    root = list(range(len(names)))
    edges = []
    for pair in structure:
        ends = tuple(pair)
        if len(ends) != 2 or not set(ends) <= set(place):
            raise OptionError(f"structure: expected pairs of {names!r:.80}, got {pair!r}")
        i, j = place[ends[0]], place[ends[1]]
        if root[i] == root[j]:
            raise OptionError(f"structure: the edge {ends} closes a cycle; expected the edges of a forest")
        root = [root[i] if r == root[j] else r for r in root]
        edges.append((i, j))
    return edges


def _net(
    columns: Mapping[str, np.ndarray], width: np.ndarray, edges: list[tuple[int, int]], place: str
) -> HybridNet:
    variables = [Variable(name, Real()) for name in columns]
    rows = np.stack(list(columns.values()), axis=1)
    degree = np.bincount(np.array(edges, dtype=np.int64).ravel(), minlength=len(variables))
    factors: list[Factor] = [
        kernel_density([v], rows[:, i], width[i])
        for i, v in enumerate(variables)
        if place == "nodes" or not degree[i]
    ]
    for i, j in edges:
        ends = [i, j]
        powers = 1.0 - (place == "edges") / degree[ends]
        factors.append(density_ratio(variables[i], variables[j], rows[:, ends], width[ends], powers))
    return HybridNet(variables, factors)
