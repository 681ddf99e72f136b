"""What changes parameters; every learner returns a new model."""

from __future__ import annotations

from .base import Fit, Learner, fit, learners
from .bayesian_mixture import BayesianMixture
from .block_learner import Blocks
from .block_training import train_blocks
from .continuous_structure import kernel_bandwidth, kernel_chow_liu, kernel_information
from .contrastive import ContrastiveDivergence
from .counts import CountTables
from .crf import ChainCRF, GraphCRF
from .data import Observations
from .em import EM
from .hmm import baum_welch
from .hmm_estimators import CategoricalHMM, GaussianHMM, PoissonHMM
from .ipf import IPF
from .kernel_bp import KernelBP
from .lda import BetheLDA
from .likelihood import MaximumLikelihood, log_likelihood
from .mixture_of_trees import MixtureOfTreesEM, mixture_of_trees
from .priors import Elastic, Gaussian, Laplace
from .pseudolikelihood import MaximumPseudolikelihood
from .structure import chow_liu, mutual_information
from .table_priors import BDeu, PerTable, Towards, Uniform
from .vb import VariationalFit
from .vb_factor_analysis import vb_factor_analysis
from .vb_hmm import vb_hmm
from .vb_mixture import vb_mixture
from .vb_tables import VariationalBayes

__all__ = [
    "EM",
    "IPF",
    "BDeu",
    "BayesianMixture",
    "BetheLDA",
    "Blocks",
    "CategoricalHMM",
    "ChainCRF",
    "ContrastiveDivergence",
    "CountTables",
    "Elastic",
    "Fit",
    "Gaussian",
    "GaussianHMM",
    "GraphCRF",
    "KernelBP",
    "Laplace",
    "Learner",
    "MaximumLikelihood",
    "MaximumPseudolikelihood",
    "MixtureOfTreesEM",
    "Observations",
    "PerTable",
    "PoissonHMM",
    "Towards",
    "Uniform",
    "VariationalBayes",
    "VariationalFit",
    "baum_welch",
    "chow_liu",
    "fit",
    "kernel_bandwidth",
    "kernel_chow_liu",
    "kernel_information",
    "learners",
    "log_likelihood",
    "mixture_of_trees",
    "mutual_information",
    "train_blocks",
    "vb_factor_analysis",
    "vb_hmm",
    "vb_mixture",
]
