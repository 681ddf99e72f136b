"""Random polytrees, and normal-form graphs judged by summing over everything."""

from __future__ import annotations

import itertools

import numpy as np

from credo.models.bayes_net import BayesNet
from credo.models.normal_form import Diverter, NormalForm


def polytree(rng: np.random.Generator, n: int = 7, largest: int = 3) -> BayesNet:
    """A network without undirected cycles, with random directions, sizes and tables."""
    names = [f"v{i}" for i in range(n)]
    parents: dict[str, list[str]] = {name: [] for name in names}
    for i in range(1, n):
        j = int(rng.integers(i))
        parent, child = (i, j) if rng.random() < 0.5 else (j, i)
        parents[names[child]].append(names[parent])
    sizes = {name: int(rng.integers(1, largest + 1)) for name in names}
    return BayesNet.random(sizes, parents, seed=int(rng.integers(1000)))


def random_evidence(rng: np.random.Generator, variables, rows: int, share: float = 0.4):
    """Hard states, missing ones and soft likelihoods, different in every sample."""
    found = {}
    for v in variables:
        if rng.random() < 0.3:
            found[v.name] = rng.random((rows, v.size)) + 0.05
        elif rng.random() < 0.7:
            states = rng.integers(v.size, size=rows)
            found[v.name] = np.where(rng.random(rows) < share, states, -1)
    return found


def weights(graph: NormalForm, evidence=None, row: int = 0) -> dict[tuple[int, ...], float]:
    """Joint state of all branches -> weight, by plain loops over all of them."""
    names = list(graph.branches.names)
    found = {}
    for x in itertools.product(*(range(int(n)) for n in graph.branches.sizes)):
        state = dict(zip(names, x, strict=True))
        weight = 1.0
        for part in graph.parts:
            if isinstance(part, Diverter):
                weight *= len({state[name] for name in part.inputs + part.outputs}) == 1
            else:
                enters = state[part.inputs[0]] if part.inputs else 0
                weight *= part.theta[enters, state[part.outputs[0]]]
        for name, values in (evidence or {}).items():
            value = np.asarray(values)
            if value.ndim == 2:
                weight *= value[row, state[name]]
            else:
                seen = int(value if value.ndim == 0 else value[row])
                weight *= seen < 0 or seen == state[name]
        if weight:
            found[x] = weight
    return found


def brute_marginal(graph: NormalForm, found: dict[tuple[int, ...], float], name: str) -> np.ndarray:
    """Marginal of one branch."""
    i = graph.branches.position(name)
    sums = np.zeros(int(graph.branches.sizes[i]))
    for x, weight in found.items():
        sums[x[i]] += weight
    return sums / sums.sum()
