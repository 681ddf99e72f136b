"""Named small models, and generators of random ones. The same seed gives the same model."""

from __future__ import annotations

from .distributions import (
    Constant,
    Distribution,
    Normal,
    Uniform,
    normal_couplings,
    quadratic_form_couplings,
    uniform_couplings,
)
from .ising import complete_ising, erdos_renyi_ising, ising_grid, potts_grid
from .named import asia, sprinkler, student
from .random_models import random_bayes_net, random_factor_graph, random_tree

__all__ = [
    "Constant",
    "Distribution",
    "Normal",
    "Uniform",
    "asia",
    "complete_ising",
    "erdos_renyi_ising",
    "ising_grid",
    "names",
    "normal_couplings",
    "potts_grid",
    "quadratic_form_couplings",
    "random_bayes_net",
    "random_factor_graph",
    "random_tree",
    "sprinkler",
    "student",
    "uniform_couplings",
]

_MODELS = (asia, sprinkler, student)
_GENERATORS = (
    complete_ising,
    erdos_renyi_ising,
    ising_grid,
    potts_grid,
    random_bayes_net,
    random_factor_graph,
    random_tree,
)


def names(*, generators: bool = True) -> list[str]:
    """List the functions that make a model, generators of random ones included.

    Examples
    --------
    >>> from credo import datasets
    >>> datasets.names(generators=False)
    ['asia', 'sprinkler', 'student']
    >>> datasets.sprinkler()
    BayesNet(4 variables, 4 edges: cloudy -> sprinkler, cloudy -> rain, sprinkler -> wet, rain -> wet)
    """
    return sorted(f.__name__ for f in (*_MODELS, *(_GENERATORS if generators else ())))
