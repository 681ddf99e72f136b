"""What changes parameters; every learner returns a new model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish
from ..core.registry import Entry

if TYPE_CHECKING:
    from . import lda_bound, vmp
    from .base import Fit, Learner, fit, learners
    from .block_learner import Blocks
    from .block_training import train_blocks
    from .boltzmann import Boltzmann
    from .chow_liu import ChowLiu
    from .conditional_gaussian import NetworkProblem
    from .continuous_structure import kernel_bandwidth, kernel_chow_liu, kernel_information
    from .contrastive import ContrastiveDivergence
    from .counts import CountTables
    from .discriminative import Discriminated, discriminate
    from .em import EM
    from .gradient_em import GradientEM
    from .infinite import InfiniteBoltzmann
    from .ipf import IPF
    from .kernel_bp import KernelBP
    from .leaf_steps import climb_leaves
    from .likelihood import MaximumLikelihood, log_likelihood
    from .mixture_of_trees import MixtureOfTreesEM
    from .network_rows import NetworkRows
    from .priors import Elastic, GaussianPrior, LaplacePrior
    from .pseudolikelihood import MaximumPseudolikelihood
    from .structure import mutual_information
    from .structured import StructuredPrediction
    from .structured_blocks import BlockPasses, ChainBlocks
    from .structured_chains import ChainAnswers, SlackAnswers
    from .structured_losses import CostMatrix, Hamming, LabelTables, WeightedHamming, loss_of
    from .structured_members import RiskMember, member_of
    from .structured_predict import kind_log_likelihood, kind_marginals, predict_structures
    from .structured_risk import GraphAnswers, StructuredRisk
    from .theta_chain import ThetaChain
    from .topics import Topics
    from .vb import VariationalBayes

__all__ = [
    "EM",
    "IPF",
    "LEARNERS",
    "BlockPasses",
    "Blocks",
    "Boltzmann",
    "ChainAnswers",
    "ChainBlocks",
    "ChowLiu",
    "ContrastiveDivergence",
    "CostMatrix",
    "CountTables",
    "Discriminated",
    "Elastic",
    "Fit",
    "GaussianPrior",
    "GradientEM",
    "GraphAnswers",
    "Hamming",
    "InfiniteBoltzmann",
    "KernelBP",
    "LabelTables",
    "LaplacePrior",
    "Learner",
    "MaximumLikelihood",
    "MaximumPseudolikelihood",
    "MixtureOfTreesEM",
    "NetworkProblem",
    "NetworkRows",
    "RiskMember",
    "SlackAnswers",
    "StructuredPrediction",
    "StructuredRisk",
    "ThetaChain",
    "Topics",
    "VariationalBayes",
    "WeightedHamming",
    "climb_leaves",
    "discriminate",
    "fit",
    "kernel_bandwidth",
    "kernel_chow_liu",
    "kernel_information",
    "kind_log_likelihood",
    "kind_marginals",
    "lda_bound",
    "learners",
    "log_likelihood",
    "loss_of",
    "member_of",
    "mutual_information",
    "predict_structures",
    "train_blocks",
    "vmp",
]

LEARNERS = {
    "likelihood": Entry(
        "credo.learning.likelihood",
        "Gradient ascent on the log-likelihood, or with a prior on the posterior, of the weights.",
    ),
    "em": Entry("credo.learning.em", "Expectation maximisation; for chains also by the name `baum-welch`."),
    "counts": Entry(
        "credo.learning.counts", "Tables of a Bayesian network from complete data, in closed form."
    ),
    "vb": Entry(
        "credo.learning.vb",
        "Distributions over the parameters, by EM on the posterior of a conjugate model.",
    ),
    "pseudolikelihood": Entry(
        "credo.learning.pseudolikelihood", "Gradient ascent on the pseudolikelihood; for complete data."
    ),
    "contrastive-divergence": Entry(
        "credo.learning.contrastive", "Stochastic ascent with Gibbs samples in place of inference."
    ),
    "gradient-em": Entry(
        "credo.learning.gradient_em",
        "Generalised EM by mini-batches, for leaves without closed form and many rows.",
    ),
    "ipf": Entry("credo.learning.ipf", "Match the marginals of all factors in turn; for complete data."),
    "chow-liu": Entry("credo.learning.chow_liu", "The most likely tree, edges and tables, in closed form."),
    "mixture-of-trees": Entry(
        "credo.learning.mixture_of_trees",
        "Mixture of Chow-Liu trees by EM; the structures are learned, from complete rows.",
    ),
    "boltzmann": Entry(
        "credo.learning.boltzmann",
        "Machines of two layers of units, by chains, beliefs or margins; mini-batches.",
    ),
    "infinite-boltzmann": Entry(
        "credo.learning.infinite",
        "Machines that grow by a hidden unit per step, by Frank-Wolfe in the distributions over units.",
    ),
    "structured": Entry(
        "credo.learning.structured",
        "Margins and likelihoods of labels that depend on each other, hidden variables allowed.",
    ),
    "topics": Entry(
        "credo.learning.topics",
        "Topics of documents, by variational inference with one or several components.",
    ),
    "blocks": Entry(
        "credo.learning.block_learner", "Every block of a normal-form graph learns from its own two messages."
    ),
}

furnish(
    __name__,
    {
        "base": ("Fit", "Learner", "fit", "learners"),
        "block_learner": ("Blocks",),
        "block_training": ("train_blocks",),
        "continuous_structure": ("kernel_bandwidth", "kernel_chow_liu", "kernel_information"),
        "boltzmann": ("Boltzmann",),
        "chow_liu": ("ChowLiu",),
        "conditional_gaussian": ("NetworkProblem",),
        "contrastive": ("ContrastiveDivergence",),
        "counts": ("CountTables",),
        "discriminative": ("Discriminated", "discriminate"),
        "em": ("EM",),
        "gradient_em": ("GradientEM",),
        "infinite": ("InfiniteBoltzmann",),
        "ipf": ("IPF",),
        "kernel_bp": ("KernelBP",),
        "leaf_steps": ("climb_leaves",),
        "likelihood": ("MaximumLikelihood", "log_likelihood"),
        "mixture_of_trees": ("MixtureOfTreesEM",),
        "network_rows": ("NetworkRows",),
        "priors": ("Elastic", "GaussianPrior", "LaplacePrior"),
        "pseudolikelihood": ("MaximumPseudolikelihood",),
        "structure": ("mutual_information",),
        "structured": ("StructuredPrediction",),
        "structured_losses": ("CostMatrix", "Hamming", "LabelTables", "WeightedHamming", "loss_of"),
        "structured_members": ("RiskMember", "member_of"),
        "structured_blocks": ("BlockPasses", "ChainBlocks"),
        "structured_chains": ("ChainAnswers", "SlackAnswers"),
        "structured_predict": ("kind_log_likelihood", "kind_marginals", "predict_structures"),
        "structured_risk": ("GraphAnswers", "StructuredRisk"),
        "theta_chain": ("ThetaChain",),
        "topics": ("Topics",),
        "vb": ("VariationalBayes",),
    },
    modules=("lda_bound", "vmp"),
)
