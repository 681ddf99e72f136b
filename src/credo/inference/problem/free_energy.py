r"""Free energies as functions of beliefs.

A free energy is an average energy less an entropy; log Z is approximated by its negative.

    variational   F(b)   = sum_x b(x) log( b(x) / exp theta(x) )                >= -log Z, equal at b = p
    mean field    F_MF   = F( prod_i b_i )                                      >= -log Z
    Bethe         F_B    = sum_a sum b_a log( b_a / psi_a ) - sum_i (d_i - 1) sum b_i log b_i
    reweighted    F_rho  = -sum_a <theta_a> - sum_a rho_a H(b_a) - sum_i (1 - sum_{a at i} rho_a) H(b_i)
    region based  F_R    = sum_r c_r sum b_r log( b_r / psi_r )

d_i counts every factor at variable i, unary ones included. rho = 1 is Bethe. On a pairwise graph
with rho the appearance probabilities of the edges in spanning trees (1 for unary factors), -F_rho
at its minimum over locally consistent beliefs is an upper bound on log Z. On a tree the minimum of
F_B is -log Z, at the marginals; on any graph its stationary points are the fixed points of BP.

Beliefs are flat arrays: `marginals` has one entry per state of each variable, in the order of
`graph.variables.state_start`; `factor_marginals` holds the tables in factor order without gaps,
as `Result.marginals.flat` and `Result.factor_marginals.flat` do. 0 log 0 is 0; a belief of zero at
an impossible entry costs nothing, a positive one costs infinity.

Gradients are with respect to each entry, as if all were free. At a belief of zero they are
one-sided limits, -inf or +inf, and +inf at impossible entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import QueryError
from ...core.factor_graph import FactorGraph

__all__ = [
    "average_energy",
    "bethe",
    "bethe_gradient",
    "entropy",
    "mean_field",
    "mean_field_gradient",
    "region_based",
    "region_based_gradient",
    "reweighted_energy",
    "reweighted_gradient",
    "variational",
]


def average_energy(graph: FactorGraph, factor_marginals: np.ndarray) -> float:
    """Minus the expectation of the sum of all log tables; +inf if an impossible entry has weight."""
    return -_expectation(
        _tables_in_order(graph), _check("factor marginals", factor_marginals, graph.table_size)
    )


def entropy(beliefs: Any) -> float:
    """-sum b log b over all entries of an array.

    Examples
    --------
    >>> from credo.inference.problem.free_energy import entropy
    >>> round(entropy([0.5, 0.5, 0.0]), 6)
    0.693147
    """
    return -float(_b_log_b(_check("beliefs", beliefs)).sum())


def variational(graph: FactorGraph, joint: np.ndarray) -> float:
    """Free energy of a joint distribution, one axis per variable; at least -log Z.

    Examples
    --------
    >>> import numpy as np
    >>> from credo import FactorGraph
    >>> from credo.inference.problem.free_energy import variational
    >>> graph = FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]]})
    >>> bool(np.isclose(variational(graph, np.array([[0.1, 0.2], [0.3, 0.4]])), -np.log(10)))
    True
    """
    sizes = graph.variables.sizes
    joint = np.asarray(joint, dtype=np.float64)
    if joint.shape != tuple(sizes):
        raise QueryError(f"joint: expected shape {tuple(map(int, sizes))}, got {joint.shape}")
    flat = _check("joint", joint.ravel())
    support = np.flatnonzero(flat)
    # Only states with weight are scored, so impossible ones elsewhere never meet a zero.
    states = np.stack(np.unravel_index(support, joint.shape), axis=1) if joint.ndim else np.empty((1, 0))
    scores = graph.log_scores(states.astype(np.int64))
    return float((flat[support] * np.log(flat[support])).sum() - (flat[support] * scores).sum())


def mean_field(graph: FactorGraph, marginals: np.ndarray) -> float:
    """Free energy of the product of the marginals; its negative is a lower bound on log Z."""
    from ...kernels.mean_field import expected_score

    b, w = _check("marginals", marginals, graph.variables.sizes), graph.wiring
    score = expected_score(
        graph.log_tables, w.table_start, w.scope_start, w.scope, w.edge_stride, w.state_start, b
    )
    return 0.0 - float(score) - entropy(b)


def mean_field_gradient(graph: FactorGraph, marginals: np.ndarray) -> np.ndarray:
    """Derivative of `mean_field` by each marginal: log b_i(x_i) + 1 less the expected log tables."""
    from ...kernels.mean_field import expected_logs

    b, w = _check("marginals", marginals, graph.variables.sizes), graph.wiring
    logs = expected_logs(
        graph.log_tables,
        w.table_start,
        w.scope_start,
        w.scope,
        w.edge_factor,
        w.edge_stride,
        w.state_start,
        b,
    )
    return _slope(1.0, b, logs)


def bethe(graph: FactorGraph, marginals: np.ndarray, factor_marginals: np.ndarray) -> float:
    """The Bethe free energy; -log Z at the marginals of a tree."""
    return reweighted_energy(graph, marginals, factor_marginals, np.ones(graph.n_factors))


def bethe_gradient(
    graph: FactorGraph, marginals: np.ndarray, factor_marginals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of `bethe` by the marginals and by the factor marginals."""
    return reweighted_gradient(graph, marginals, factor_marginals, np.ones(graph.n_factors))


def reweighted_energy(
    graph: FactorGraph, marginals: np.ndarray, factor_marginals: np.ndarray, rho: Any
) -> float:
    """The free energy with the entropy of factor a counted rho[a] times.

    Parameters
    ----------
    graph
        The factor graph.
    marginals, factor_marginals
        Flat beliefs.
    rho
        One number per factor, or one for all.

    Examples
    --------
    >>> import credo
    >>> from credo.inference.problem.free_energy import reweighted_energy
    >>> graph = credo.datasets.sprinkler().to_factor_graph()
    >>> exact = credo.infer(graph, "junction-tree")
    >>> beliefs = exact.marginals.flat, exact.factor_marginals.flat
    >>> bool(-reweighted_energy(graph, *beliefs, rho=1.0) < -reweighted_energy(graph, *beliefs, rho=0.5))
    True
    """
    b, tables = _both(graph, marginals, factor_marginals)
    rho = _weights(graph, rho)
    bs, ts = _b_log_b(b), _b_log_b(tables)
    counts = _variable_counts(graph, rho)
    inner = float((np.repeat(counts, graph.variables.sizes) * bs).sum())
    outer = float((np.repeat(rho, graph.table_size) * ts).sum())
    return outer + inner - _expectation(_tables_in_order(graph), tables)


def reweighted_gradient(
    graph: FactorGraph, marginals: np.ndarray, factor_marginals: np.ndarray, rho: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of `reweighted_energy` by the marginals and by the factor marginals."""
    b, tables = _both(graph, marginals, factor_marginals)
    rho = _weights(graph, rho)
    counts = np.repeat(_variable_counts(graph, rho), graph.variables.sizes)
    by_table = _slope(np.repeat(rho, graph.table_size), tables, _tables_in_order(graph))
    return _slope(counts, b, np.zeros(len(b))), by_table


def region_based(
    region_tables: Sequence[np.ndarray], counting_numbers: Any, region_log_potentials: Sequence[np.ndarray]
) -> float:
    """The region-based free energy.

    Parameters
    ----------
    region_tables
        Beliefs of each region, an array of any shape.
    counting_numbers
        How often each region counts.
    region_log_potentials
        Log potential of each region (all factors inside it), of the shape of its beliefs.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.inference.problem.free_energy import region_based
    >>> pair = np.array([[0.1, 0.2], [0.3, 0.4]])
    >>> bool(np.isclose(region_based([pair], [1], [np.log(10 * pair)]), -np.log(10)))
    True
    """
    total = 0.0
    for b, count, logs in _regions(region_tables, counting_numbers, region_log_potentials):
        energy = -_expectation(logs, b)
        if count != 0 and energy == np.inf:
            return np.inf  # impossible whatever the sign of the count
        if count != 0:
            total += count * (float(_b_log_b(b).sum()) + energy)
    return total


def region_based_gradient(
    region_tables: Sequence[np.ndarray], counting_numbers: Any, region_log_potentials: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Derivative of `region_based` by each entry of each region's beliefs."""
    found = []
    for b, count, logs in _regions(region_tables, counting_numbers, region_log_potentials):
        found.append(count * _slope(1.0, b, logs) if count != 0 else np.zeros(b.shape))
    return found


def _regions(
    tables: Sequence[np.ndarray], counts: Any, potentials: Sequence[np.ndarray]
) -> list[tuple[np.ndarray, float, np.ndarray]]:
    counts = np.asarray(counts, dtype=np.float64)
    if counts.shape != (len(tables),) or len(potentials) != len(tables):
        raise QueryError(
            f"regions: expected {len(tables)} counting numbers and potentials, one per table, "
            f"got {counts.size} and {len(potentials)}"
        )
    found = []
    for r, (table, count, potential) in enumerate(zip(tables, counts, potentials, strict=True)):
        b, logs = _check(f"region {r}", table), np.asarray(potential, dtype=np.float64)
        if b.shape != logs.shape:
            raise QueryError(f"region {r}: expected a log potential of shape {b.shape}, got {logs.shape}")
        found.append((b, float(count), logs))
    return found


def _both(
    graph: FactorGraph, marginals: np.ndarray, factor_marginals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    return (
        _check("marginals", marginals, graph.variables.sizes),
        _check("factor marginals", factor_marginals, graph.table_size),
    )


def _check(what: str, beliefs: Any, sizes: np.ndarray | None = None) -> np.ndarray:
    """The beliefs as numbers, none of them negative, and as many as the sizes add up to."""
    values: np.ndarray = np.asarray(beliefs, dtype=np.float64)
    if sizes is not None and values.shape != (int(sizes.sum()),):
        raise QueryError(f"{what}: expected a flat array of {int(sizes.sum())} beliefs, got {values.shape}")
    if not (values >= 0).all():
        raise QueryError(f"{what}: beliefs must be non-negative, got {values[~(values >= 0)][0]}")
    return values


def _weights(graph: FactorGraph, rho: Any) -> np.ndarray:
    given = np.asarray(rho, dtype=np.float64)
    if given.shape not in ((), (graph.n_factors,)):
        raise QueryError(f"rho: expected one number per factor ({graph.n_factors}), got shape {given.shape}")
    return np.broadcast_to(given, graph.n_factors)


def _variable_counts(graph: FactorGraph, rho: np.ndarray) -> np.ndarray:
    """1 less the sum of the weights of the factors at each variable."""
    around = np.repeat(rho, np.diff(graph.scope_start))
    return 1.0 - np.bincount(graph.scope, weights=around, minlength=len(graph.variables))


def _tables_in_order(graph: FactorGraph) -> np.ndarray:
    """All log tables in factor order without gaps, shared tables repeated."""
    size = graph.table_size
    first = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    if first[-1] == len(graph.log_tables) and np.array_equal(graph.table_start, first[:-1]):
        return graph.log_tables
    tables: np.ndarray = graph.log_tables[
        np.arange(first[-1]) + np.repeat(graph.table_start - first[:-1], size)
    ]
    return tables


def _expectation(logs: np.ndarray, beliefs: np.ndarray) -> float:
    """Sum of b * log over entries with weight."""
    return float(np.multiply(beliefs, logs, where=beliefs > 0, out=np.zeros(beliefs.shape)).sum())


def _b_log_b(beliefs: np.ndarray) -> np.ndarray:
    logs = np.log(beliefs, where=beliefs > 0, out=np.zeros(beliefs.shape))
    return beliefs * logs


def _slope(count: Any, beliefs: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Derivative of count * b log b - b * logs; +inf wherever the log is -inf."""
    count = np.broadcast_to(count, beliefs.shape)
    with np.errstate(divide="ignore"):
        inner = np.log(beliefs) + 1.0
    inner = np.multiply(count, inner, where=count != 0, out=np.zeros(beliefs.shape))
    return np.where(np.isneginf(logs), np.inf, inner - np.where(np.isneginf(logs), 0.0, logs))
