"""Models with the habits of scikit-learn, which is not needed: fit, predict, score, get_params.

Every class is a skin over `credo.fit`, `infer`, `predict` and `sample`; what it learned is a model of the
house.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from .bayesian_mixture import BayesianMixture
    from .count_hmm import CategoricalHMM, PoissonHMM
    from .gaussian_hmm import GMMHMM, GaussianHMM
    from .gaussian_mixture import GaussianMixture

__all__ = [
    "GMMHMM",
    "BayesianMixture",
    "CategoricalHMM",
    "GaussianHMM",
    "GaussianMixture",
    "PoissonHMM",
]

furnish(
    __name__,
    {
        "bayesian_mixture": ("BayesianMixture",),
        "count_hmm": ("CategoricalHMM", "PoissonHMM"),
        "gaussian_hmm": ("GMMHMM", "GaussianHMM"),
        "gaussian_mixture": ("GaussianMixture",),
    },
)
