"""Random trees, factor graphs and Bayesian networks of any size.

Everything is drawn as whole arrays: a tree of a million variables takes seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import check
from ..core.errors import OptionError
from ..core.factor_graph import FactorGraph
from ..core.variable import Variables
from ..models.bayes_net import BayesNet
from ..models.conditional_tables import random_rows, table_sizes
from ..models.mrf import MarkovNet
from .arguments import probability, state_counts
from .distributions import Distribution, Normal, distribution

__all__ = ["random_bayes_net", "random_factor_graph", "random_tree"]


def random_tree(
    n: int,
    states: Any = 2,
    seed: int = 0,
    *,
    potential: Distribution | str | float = Normal(1.0),  # noqa: B008, frozen
) -> MarkovNet:
    """Pairwise model on a random tree.

    Variable i > 0 is joined to one of its predecessors, each equally likely (a random
    recursive tree, of depth about e log n).

    Parameters
    ----------
    n
        Number of variables.
    states
        Number of states, one for all variables or one per variable.
    seed
        The same seed gives the same model.
    potential
        Distribution of the entries of the log tables.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.random_tree(1000, states=3, seed=1)
    MarkovNet(1000 variables, 999 factors)
    """
    check.whole("n", n, 1)
    rng = check.generator(seed)
    variables = Variables.numbered(state_counts(states, n))
    child = np.arange(1, n, dtype=np.int64)
    scope = np.stack([rng.integers(0, child), child], axis=1) if n > 1 else np.empty((0, 2), np.int64)
    entries = int(variables.sizes[scope].prod(axis=1).sum())
    logs = distribution(potential).draw(rng, entries)
    graph = FactorGraph.from_flat(variables, np.arange(n, dtype=np.int64) * 2, scope.ravel(), logs)
    return MarkovNet.from_graph(graph)


def random_factor_graph(
    n_variables: int,
    n_factors: int,
    arity: int = 3,
    states: Any = 2,
    seed: int = 0,
    *,
    zeros: float = 0.0,
    potential: Distribution | str | float = Normal(1.0),  # noqa: B008, frozen
) -> MarkovNet:
    """Model with factors over random sets of variables.

    Parameters
    ----------
    n_variables, n_factors
        Size of the model; a variable may be in no factor.
    arity
        Variables per factor; all sets, in all orders, are equally likely.
    states
        Number of states, one for all variables or one per variable.
    seed
        The same seed gives the same model.
    zeros
        Probability of a table entry to be zero. One joint state, drawn first, is spared, so
        that the model never contradicts itself.
    potential
        Distribution of the entries of the log tables.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.random_factor_graph(20, 15, arity=3, zeros=0.2, seed=1)
    MarkovNet(20 variables, 15 factors)
    """
    check.whole("n_variables", n_variables, 1)
    check.whole("n_factors", n_factors, 0)
    check.whole("arity", arity, 0)
    probability("zeros", zeros)
    if arity > n_variables:
        raise OptionError(f"arity must be at most n_variables={n_variables}, got {arity}")
    rng = check.generator(seed)
    variables = Variables.numbered(state_counts(states, n_variables))
    spared = rng.integers(0, variables.sizes)
    scopes = _random_sets(np.full(n_factors, n_variables), np.full(n_factors, arity), rng)[:, :arity]
    scopes = rng.permuted(scopes, axis=1)
    scope_start = np.arange(n_factors + 1, dtype=np.int64) * arity
    sizes = variables.sizes[scopes].prod(axis=1).astype(np.int64)
    logs = distribution(potential).draw(rng, int(sizes.sum()))
    if zeros:
        is_zero = rng.random(len(logs)) < zeros
        entry = np.zeros(n_factors, dtype=np.int64)
        for k in range(arity):
            entry = entry * variables.sizes[scopes[:, k]] + spared[scopes[:, k]]
        is_zero[np.cumsum(sizes) - sizes + entry] = False
        logs[is_zero] = -np.inf
    return MarkovNet.from_graph(FactorGraph.from_flat(variables, scope_start, scopes.ravel(), logs))


def random_bayes_net(
    n: int, max_parents: int = 3, states: Any = 2, seed: int = 0, *, concentration: float = 1.0
) -> BayesNet:
    """Bayesian network with random parents and tables, in topological order.

    Parameters
    ----------
    n
        Number of variables.
    max_parents
        The number of parents is uniform from 0 to this, or to the number of predecessors.
    states
        Number of states, one for all variables or one per variable.
    seed
        The same seed gives the same model.
    concentration
        Dirichlet parameter of the rows: small values give nearly deterministic ones.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.random_bayes_net(50, max_parents=2, seed=1)
    BayesNet(50 variables, 45 edges, 222 table entries)
    """
    check.whole("n", n, 1)
    check.whole("max_parents", max_parents, 0)
    rng = check.generator(seed)
    variables = Variables.numbered(state_counts(states, n))
    before = np.arange(n, dtype=np.int64)
    counts = rng.integers(0, np.minimum(before, max_parents) + 1)
    parents = _random_sets(before, counts, rng)
    scopes = np.concatenate([parents, before[:, None]], axis=1)
    scope = scopes[scopes >= 0]
    scope_start = np.concatenate([[0], np.cumsum(counts + 1)])
    rows = table_sizes(variables, scope_start, scope) // variables.sizes
    tables = random_rows(np.repeat(variables.sizes, rows), rng, concentration)
    return BayesNet.from_flat(variables, scope_start, scope, tables)


def _random_sets(limits: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For every row r, counts[r] distinct numbers below limits[r], then -1; all sets equally likely.

    Floyd's algorithm on all rows at once: at step k draw up to the k-th last number, and take
    that last number itself if the draw is already in the set.
    """
    width = int(counts.max(initial=0))
    found = np.full((len(limits), width), -1, dtype=np.int64)
    for k in range(width):
        rows = np.flatnonzero(counts > k)
        last = (limits - counts + k)[rows]
        draw = rng.integers(0, last + 1)
        is_taken = (found[rows, :k] == draw[:, None]).any(axis=1)
        found[rows, k] = np.where(is_taken, last, draw)
    return found
