"""What changes parameters; every learner returns a new model."""

from __future__ import annotations

from .base import Fit, Learner, fit, learners
from .contrastive import ContrastiveDivergence
from .crf import ChainCRF, GraphCRF
from .data import Observations
from .ipf import IPF
from .likelihood import MaximumLikelihood, log_likelihood
from .priors import Elastic, Gaussian, Laplace
from .pseudolikelihood import MaximumPseudolikelihood

__all__ = [
    "IPF",
    "ChainCRF",
    "ContrastiveDivergence",
    "Elastic",
    "Fit",
    "Gaussian",
    "GraphCRF",
    "Laplace",
    "Learner",
    "MaximumLikelihood",
    "MaximumPseudolikelihood",
    "Observations",
    "fit",
    "learners",
    "log_likelihood",
]
