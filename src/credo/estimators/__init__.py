"""Models with the habits of scikit-learn, which is not needed: fit, predict, score, get_params.

Every class is a skin over `credo.fit`, `infer`, `predict` and `sample`; what it learned is a model of the
house.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from .base import Estimator
    from .bayesian_mixture import BayesianMixture
    from .bethe_lda import BetheLDA
    from .boltzmann import BernoulliRBM, GaussianRBM, InfiniteRBM
    from .chain_crf import ChainCRF
    from .conditional_boltzmann import ConditionalRBMClassifier
    from .count_hmm import CategoricalHMM, PoissonHMM
    from .factor_analysis import BayesianFactorAnalysis
    from .gaussian_hmm import GMMHMM, GaussianHMM
    from .gaussian_mixture import GaussianMixture
    from .graph_crf import GraphCRF
    from .image_classifier import ImageClassifier
    from .maximum_likelihood_classifier import MaximumLikelihoodClassifier
    from .variational_hmm import VariationalCategoricalHMM, VariationalGaussianHMM

__all__ = [
    "GMMHMM",
    "BayesianFactorAnalysis",
    "BayesianMixture",
    "BernoulliRBM",
    "BetheLDA",
    "CategoricalHMM",
    "ChainCRF",
    "ConditionalRBMClassifier",
    "Estimator",
    "GaussianHMM",
    "GaussianMixture",
    "GaussianRBM",
    "GraphCRF",
    "ImageClassifier",
    "InfiniteRBM",
    "MaximumLikelihoodClassifier",
    "PoissonHMM",
    "VariationalCategoricalHMM",
    "VariationalGaussianHMM",
]

furnish(
    __name__,
    {
        "base": ("Estimator",),
        "bayesian_mixture": ("BayesianMixture",),
        "bethe_lda": ("BetheLDA",),
        "boltzmann": ("BernoulliRBM", "GaussianRBM", "InfiniteRBM"),
        "chain_crf": ("ChainCRF",),
        "conditional_boltzmann": ("ConditionalRBMClassifier",),
        "count_hmm": ("CategoricalHMM", "PoissonHMM"),
        "factor_analysis": ("BayesianFactorAnalysis",),
        "gaussian_hmm": ("GMMHMM", "GaussianHMM"),
        "gaussian_mixture": ("GaussianMixture",),
        "graph_crf": ("GraphCRF",),
        "image_classifier": ("ImageClassifier",),
        "maximum_likelihood_classifier": ("MaximumLikelihoodClassifier",),
        "variational_hmm": ("VariationalCategoricalHMM", "VariationalGaussianHMM"),
    },
)
