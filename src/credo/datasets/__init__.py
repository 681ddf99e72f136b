"""Sample models: networks of textbooks, one of our own making, and generators of random ones.

`load` makes one from its name, which the shell understands too. The same seed gives the same model.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .catalogue import CONTENTS, find, load, names

if TYPE_CHECKING:
    from .diagnosis import heating as heating
    from .distributions import Constant as Constant
    from .distributions import Distribution as Distribution
    from .distributions import Normal as Normal
    from .distributions import Uniform as Uniform
    from .distributions import normal_couplings as normal_couplings
    from .distributions import quadratic_form_couplings as quadratic_form_couplings
    from .distributions import uniform_couplings as uniform_couplings
    from .hidden_markov import umbrella as umbrella
    from .hidden_markov import umbrella_hmm as umbrella_hmm
    from .hybrid import fish as fish
    from .ising import complete_ising as complete_ising
    from .ising import erdos_renyi_ising as erdos_renyi_ising
    from .ising import ising_grid as ising_grid
    from .ising import potts_grid as potts_grid
    from .named import asia as asia
    from .named import cancer as cancer
    from .named import earthquake as earthquake
    from .named import sprinkler as sprinkler
    from .named import student as student
    from .named import survey as survey
    from .random_models import random_bayes_net as random_bayes_net
    from .random_models import random_factor_graph as random_factor_graph
    from .random_models import random_tree as random_tree

_DISTRIBUTIONS = (
    "Constant",
    "Distribution",
    "Normal",
    "Uniform",
    "normal_couplings",
    "quadratic_form_couplings",
    "uniform_couplings",
)

__all__ = [
    "Constant",
    "Distribution",
    "Normal",
    "Uniform",
    "asia",
    "cancer",
    "complete_ising",
    "earthquake",
    "erdos_renyi_ising",
    "fish",
    "heating",
    "ising_grid",
    "load",
    "names",
    "normal_couplings",
    "potts_grid",
    "quadratic_form_couplings",
    "random_bayes_net",
    "random_factor_graph",
    "random_tree",
    "sprinkler",
    "student",
    "survey",
    "umbrella",
    "umbrella_hmm",
    "uniform_couplings",
]


def __getattr__(name: str) -> Any:
    if name in _DISTRIBUTIONS:
        value = getattr(importlib.import_module(f"{__name__}.distributions"), name)
    elif name.replace("_", "-") in CONTENTS:
        value = find(name)
    else:
        raise AttributeError(f"module 'credo.datasets' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
