"""What users build; every model has `to_factor_graph()`, and none knows an algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from . import normal_form_build, potentials
    from .bayes_net import BayesNet
    from .bayesian_tree import BayesianTree
    from .blank_hmm import BlankHMM
    from .blank_net import BlankNet
    from .blank_rbm import BlankRBM
    from .conditional_rbm import ConditionalRBM
    from .continuous import GaussianNet, HybridNet
    from .crf import CRF
    from .factor_analysis import FactorAnalysis
    from .factorial_hmm import FactorialHMM
    from .fractional_rbm import FractionalRBM
    from .hmm import HMM, HMMPrior
    from .hmm_posteriors import HMMPosterior, SemiMarkovPosterior
    from .latent_crf import LatentCRF
    from .log_linear import LogLinear
    from .mixture_of_trees import MixtureOfTrees
    from .mrf import MarkovNet
    from .normal_form import Block, Diverter, NormalForm, Source
    from .rbm import RBM
    from .regression import Regression
    from .semi_markov import SemiMarkov
    from .table_posterior import TablePosterior
    from .topic_model import TopicModel

__all__ = [
    "CRF",
    "HMM",
    "RBM",
    "BayesNet",
    "BayesianTree",
    "BlankHMM",
    "BlankNet",
    "BlankRBM",
    "Block",
    "ConditionalRBM",
    "Diverter",
    "FactorAnalysis",
    "FactorialHMM",
    "FractionalRBM",
    "GaussianNet",
    "HMMPosterior",
    "HMMPrior",
    "HybridNet",
    "LatentCRF",
    "LogLinear",
    "MarkovNet",
    "MixtureOfTrees",
    "NormalForm",
    "Regression",
    "SemiMarkov",
    "SemiMarkovPosterior",
    "Source",
    "TablePosterior",
    "TopicModel",
    "normal_form_build",
    "potentials",
]

furnish(
    __name__,
    {
        "bayes_net": ("BayesNet",),
        "bayesian_tree": ("BayesianTree",),
        "blank_hmm": ("BlankHMM",),
        "blank_net": ("BlankNet",),
        "blank_rbm": ("BlankRBM",),
        "conditional_rbm": ("ConditionalRBM",),
        "continuous": ("GaussianNet", "HybridNet"),
        "crf": ("CRF",),
        "latent_crf": ("LatentCRF",),
        "factor_analysis": ("FactorAnalysis",),
        "factorial_hmm": ("FactorialHMM",),
        "fractional_rbm": ("FractionalRBM",),
        "hmm": ("HMM", "HMMPrior"),
        "hmm_posteriors": ("HMMPosterior", "SemiMarkovPosterior"),
        "log_linear": ("LogLinear",),
        "mixture_of_trees": ("MixtureOfTrees",),
        "mrf": ("MarkovNet",),
        "normal_form": ("Block", "Diverter", "NormalForm", "Source"),
        "rbm": ("RBM",),
        "regression": ("Regression",),
        "semi_markov": ("SemiMarkov",),
        "table_posterior": ("TablePosterior",),
        "topic_model": ("TopicModel",),
    },
    modules=("normal_form_build", "potentials"),
)
