"""What the experiments on Bethe variational inference share: models, grids, divergences and quiet runs.

The source names its methods QBethe (`bethe`, Gaussian mixtures and Gauss-Hermite quadrature), PBP
(`particle-bp`), EPBP (`ep-particle-bp`) and EP (`ep`). The second argument of its N(.) is a variance.

KL is KL(exact || approximate) of the marginals, averaged over the variables, by the trapezoid rule on a
grid. A belief that is zero where the exact density is not would make it infinite; densities below FLOOR
times the highest exact one count as that much. Beliefs of particle methods are products of messages and can
be evaluated anywhere.
"""

from __future__ import annotations

import itertools
import string
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import credo
from credo import potentials
from credo.core.belief import Density
from credo.core.errors import ConvergenceWarning

__all__ = [
    "FLOOR",
    "TREE",
    "bimodal_tree",
    "cycle",
    "cycle_truth",
    "divergence",
    "grid_truth",
    "infer",
    "observed",
    "smooth_tree",
]

# The drawing of the eight-node tree is lost; this one has nodes of one to three neighbours.
TREE = ((0, 1), (1, 2), (1, 3), (3, 4), (3, 5), (5, 6), (5, 7))
FLOOR = 1e-12


def infer(model: Any, method: str, **options: Any) -> credo.Result:
    """`credo.infer`; a fixed number of iterations is no reason to warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.infer(model, method, **options)


def _real(count: int) -> list[credo.Variable]:
    return [credo.Variable(f"x{i}", credo.Real()) for i in range(count)]


def observed(seed: int) -> np.ndarray:
    """What the nodes of the first tree see: 2 with the noise of the node potential."""
    rng = np.random.default_rng(seed)
    part = rng.random(8) < 0.3
    return 2.0 + np.where(part, rng.normal(-1.0, 1.0, 8), rng.normal(2.0, np.sqrt(0.5), 8))


def smooth_tree(seed: int = 0) -> credo.HybridNet:
    """Two modes at every node, Laplace edges: (8.1)."""
    x = _real(8)
    factors: list[Any] = [
        potentials.gaussian_mixture(x[i], [0.3, 0.7], [y - 1.0, y + 2.0], [1.0, 0.5])
        for i, y in enumerate(observed(seed))
    ]
    return credo.HybridNet(x, [*factors, *(potentials.laplace(x[i], x[j]) for i, j in TREE)])


def bimodal_tree() -> credo.HybridNet:
    """One mode at every node, edges that want opposite signs: (8.2)."""
    x = _real(8)
    factors: list[Any] = [potentials.laplace(v, scale=10.0) for v in x]
    return credo.HybridNet(x, [*factors, *(potentials.bimodal(x[i], x[j]) for i, j in TREE)])


def cycle() -> credo.HybridNet:
    """Three nodes, every pair of which wants opposite signs: (8.8) and (8.9)."""
    x = _real(3)
    factors: list[Any] = [potentials.laplace(v, scale=10.0) for v in x]
    return credo.HybridNet(
        x, [*factors, *(potentials.bimodal(a, b) for a, b in itertools.combinations(x, 2))]
    )


def cycle_truth(points: np.ndarray) -> tuple[float, np.ndarray]:
    """Log Z and the density of one node of the cycle, by sums over a grid."""
    step = points[1] - points[0]
    node = np.exp(-0.1 * np.abs(points))
    edge = np.exp(-0.1 * ((points[:, None] - 10) ** 2 + (points + 10) ** 2))
    link = (edge + edge.T) * node
    weight = np.einsum("ij,ji->i", link @ link, link)
    z = weight.sum() * step**3
    return float(np.log(z)), weight * step**2 / z


def grid_truth(model: Any, points: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
    """Log Z and the densities of all variables of a tree, by one contraction of its factors on a grid."""
    graph = model.to_factor_graph()
    step = points[1] - points[0]
    letters = dict(zip(graph.variables.names, string.ascii_letters, strict=False))
    terms, tops = [], 0.0
    for factor in graph.factors:
        table = factor.log_values(*np.meshgrid(*[points] * len(factor.scope), indexing="ij", sparse=True))
        tops += table.max()
        terms.append(np.exp(table - table.max()))
    scopes = ",".join("".join(letters[n] for n in f.names) for f in graph.factors)
    weights = {n: np.einsum(f"{scopes}->{k}", *terms, optimize=True) for n, k in letters.items()}
    total = float(next(iter(weights.values())).sum())
    log_z = np.log(total) + tops + len(letters) * np.log(step)
    return float(log_z), {name: weight / (total * step) for name, weight in weights.items()}


def divergence(points: np.ndarray, exact: Mapping[str, np.ndarray], result: Any) -> float:
    """Average over the variables of KL(exact || belief); `exact` holds densities at the points."""
    found = [
        kullback_leibler(points, density, result.marginals[name])
        for name, density in exact.items()
    ]  # fmt: skip
    return float(np.mean(found))


def kullback_leibler(points: np.ndarray, exact: np.ndarray, belief: Density) -> float:
    """KL(exact || belief) on a grid."""
    used = exact > 0
    with np.errstate(divide="ignore"):
        log_q = np.maximum(belief.log_density(points[used]), np.log(FLOOR * exact.max()))
    terms = np.zeros_like(exact)
    terms[used] = exact[used] * (np.log(exact[used]) - log_q)
    return float(np.trapezoid(terms, points))
