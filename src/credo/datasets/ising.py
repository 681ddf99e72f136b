"""Ising and Potts models on grids, complete graphs and random graphs.

    p(x) ∝ exp( sum_ij J_ij x_i x_j + sum_i h_i x_i ),      x_i in {-1, +1}

Couplings are drawn first, edge by edge, then the fields. Variables are x0, x1, ...; on a grid
row by row, with the horizontal edges before the vertical ones.
"""

from __future__ import annotations

import numpy as np

from ..core import check
from ..models.mrf import MarkovNet
from .arguments import probability
from .distributions import Distribution, Normal, distribution

__all__ = ["complete_ising", "erdos_renyi_ising", "ising_grid", "potts_grid"]

Source = Distribution | str | float  # what `distribution` understands


def ising_grid(
    rows: int,
    columns: int | None = None,
    *,
    coupling: Source = Normal(1.0),  # noqa: B008, frozen
    field: Source | None = Normal(0.1),  # noqa: B008, frozen
    seed: int = 0,
) -> MarkovNet:
    """Ising model on a grid with four neighbours and free boundaries.

    Parameters
    ----------
    rows, columns
        Size of the grid; square if `columns` is left out.
    coupling, field
        Distributions of J and h: `Normal(1.0)`, "uniform(low=-1, high=1)", or a number.
        Without a field there are no unary factors.
    seed
        The same seed gives the same model.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.ising_grid(10, coupling="uniform(low=-0.5, high=0.5)", seed=1)
    MarkovNet(100 variables, 280 factors)
    """
    edges, count = _grid(rows, columns)
    return _ising(edges, count, coupling, field, check.generator(seed))


def potts_grid(
    rows: int,
    columns: int | None = None,
    *,
    states: int = 3,
    coupling: Source = 1.0,
    field: Source | None = Normal(0.1),  # noqa: B008, frozen
    seed: int = 0,
) -> MarkovNet:
    """Potts model on a grid: weight exp(J) for equal neighbours, exp(h) per state.

    Parameters
    ----------
    rows, columns
        Size of the grid; square if `columns` is left out.
    states
        Number of states of every variable.
    coupling, field
        Distributions of J, one per edge, and h, one per variable and state.
    seed
        The same seed gives the same model.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.potts_grid(4, 6, states=5, seed=1)
    MarkovNet(24 variables, 62 factors)
    """
    check.whole("states", states, 1)
    edges, count = _grid(rows, columns)
    rng = check.generator(seed)
    couplings = distribution(coupling).draw(rng, len(edges))
    fields = None if field is None else distribution(field).draw(rng, (count, states))
    return MarkovNet.potts(edges, np.full(count, states), couplings, fields)


def complete_ising(
    n: int,
    *,
    coupling: Source = Normal(1.0),  # noqa: B008, frozen
    field: Source | None = Normal(0.1),  # noqa: B008, frozen
    seed: int = 0,
) -> MarkovNet:
    """Ising model with an edge between every two of `n` variables.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.complete_ising(16, coupling="normal(scale=0.25)", seed=2)
    MarkovNet(16 variables, 136 factors)
    """
    check.whole("n", n, 1)
    edges = np.stack(np.triu_indices(n, 1), axis=1)
    return _ising(edges, n, coupling, field, check.generator(seed))


def erdos_renyi_ising(
    n: int,
    p: float,
    *,
    coupling: Source = Normal(1.0),  # noqa: B008, frozen
    field: Source | None = Normal(0.1),  # noqa: B008, frozen
    seed: int = 0,
) -> MarkovNet:
    """Ising model where each pair of `n` variables has an edge with probability `p`.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.erdos_renyi_ising(16, 0.2, **datasets.quadratic_form_couplings(0.1), seed=0)
    MarkovNet(16 variables, 41 factors)
    """
    check.whole("n", n, 1)
    probability("p", p)
    rng = check.generator(seed)
    # The number of edges is binomial and, given it, every set of pairs is equally likely;
    # this costs time in the number of edges, not of pairs.
    pairs = n * (n - 1) // 2
    size = rng.binomial(pairs, p)
    chosen = rng.choice(pairs, size=size, replace=False, shuffle=False) if size else np.empty(0)
    return _ising(_unrank(n, np.sort(chosen).astype(np.int64)), n, coupling, field, rng)


def _unrank(n: int, ranks: np.ndarray) -> np.ndarray:
    """Find the pairs i < j with these numbers in row-major order of the upper triangle."""
    first = np.arange(n, dtype=np.int64)
    start = first * (2 * n - first - 1) // 2
    i = np.searchsorted(start, ranks, side="right") - 1
    return np.stack([i, ranks - start[i] + i + 1], axis=1)


def _ising(
    edges: np.ndarray, count: int, coupling: Source, field: Source | None, rng: np.random.Generator
) -> MarkovNet:
    couplings = distribution(coupling).draw(rng, len(edges))
    fields = None if field is None else distribution(field).draw(rng, count)
    return MarkovNet.ising(couplings, fields, edges, count=count)


def _grid(rows: int, columns: int | None) -> tuple[np.ndarray, int]:
    columns = rows if columns is None else columns
    check.whole("rows", rows, 1)
    check.whole("columns", columns, 1)
    at = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    return np.concatenate([across, down]), rows * columns
