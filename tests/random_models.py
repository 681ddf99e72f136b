"""Random small models for round trips, and comparison of models by their joint tables."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from credo.core.factor import TableFactor
from credo.core.factor_graph import FactorGraph
from credo.core.variable import Variable
from credo.models.bayes_net import BayesNet


@st.composite
def graphs(draw, labels=False, most=5):
    """Factor graphs with zeros, empty scopes, one-state and isolated variables."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    variables = [
        Variable(f"v {i}", [f"s{k} é" for k in range(n)]) if labels else Variable(f"x{i}", n)
        for i, n in enumerate(sizes)
    ]
    factors = []
    for _ in range(draw(st.integers(0, 5))):
        arity = int(rng.integers(0, min(3, len(variables)) + 1))
        scope = [variables[i] for i in rng.permutation(len(variables))[:arity]]
        table = rng.random([v.size for v in scope]) * 10.0 ** rng.integers(-6, 6)
        table = np.where(rng.random(table.shape) < 0.2, 0.0, table)
        factors.append(TableFactor(scope, table))
    return FactorGraph(variables, factors)


@st.composite
def networks(draw):
    """Bayesian networks whose parents are listed in any order."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    order = rng.permutation(len(sizes))
    parents = {
        f"n{i}": [f"n{j}" for j in rng.permutation(order[:rank])[: int(rng.integers(0, 3))]]
        for rank, i in enumerate(order)
    }
    states = {f"n{i}": [f"s{k}" for k in range(n)] for i, n in enumerate(sizes)}
    return BayesNet.random(states, parents, seed=int(rng.integers(1000)))


def joint(graph: FactorGraph) -> np.ndarray:
    """Log weight of every joint state by plain loops, one axis per variable."""
    graph = graph.to_factor_graph()
    sizes = [int(n) for n in graph.variables.sizes]
    weights = np.zeros(sizes)
    for x in itertools.product(*map(range, sizes)):
        weights[x] = sum(
            float(graph.log_table(a)[tuple(x[i] for i in graph.scope_of(a))]) for a in range(graph.n_factors)
        )
    return weights
