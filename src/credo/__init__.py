"""credo: probabilistic graphical models, described once and asked anything.

The public names are loaded when first used, so that `import credo` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.lazy import furnish

if TYPE_CHECKING:
    from . import (
        data,
        datasets,
        estimators,
        evaluate,
        families,
        inference,
        io,
        learning,
        models,
        nn,
        plotting,
        structures,
    )
    from .core.density import DensityFactor, GaussianFactor
    from .core.domain import Interval, Positive, Real, Simplex
    from .core.errors import CredoError
    from .core.factor import TableFactor
    from .core.factor_graph import FactorGraph
    from .core.linear_gaussian import BilinearFactor, LinearGaussianFactor
    from .core.parameter import Parameter
    from .core.records import register
    from .core.result import Result
    from .core.variable import Variable
    from .estimators.chain_crf import ChainCRF
    from .estimators.gaussian_hmm import GaussianHMM
    from .evaluate.compare import compare
    from .evaluate.models import compare_models
    from .families.flow import Flow
    from .families.learnable import Learnable
    from .families.mixture import Mixture
    from .inference.portfolio.batch import infer_batch
    from .inference.portfolio.bracket import bracket
    from .inference.portfolio.evidence_rows import infer_many
    from .inference.portfolio.model_batch import infer_models
    from .inference.portfolio.predict import impute, predict
    from .inference.portfolio.question import infer, query, sample
    from .inference.portfolio.templates import forecast
    from .io.formats import load, save
    from .learning.base import fit
    from .learning.likelihood import log_likelihood
    from .models import potentials
    from .models.bayes_net import BayesNet
    from .models.conditional_rbm import ConditionalRBM
    from .models.continuous import GaussianNet, HybridNet
    from .models.crf import CRF
    from .models.factorial_hmm import FactorialHMM
    from .models.hmm import HMM
    from .models.latent_crf import LatentCRF
    from .models.mrf import MarkovNet
    from .models.normal_form import NormalForm
    from .models.rbm import RBM
    from .optimise.transport import transport

__version__ = "0.1.0"

__all__ = [
    "CRF",
    "HMM",
    "RBM",
    "BayesNet",
    "BilinearFactor",
    "ChainCRF",
    "ConditionalRBM",
    "CredoError",
    "DensityFactor",
    "FactorGraph",
    "FactorialHMM",
    "Flow",
    "GaussianFactor",
    "GaussianHMM",
    "GaussianNet",
    "HybridNet",
    "Interval",
    "LatentCRF",
    "Learnable",
    "LinearGaussianFactor",
    "MarkovNet",
    "Mixture",
    "NormalForm",
    "Parameter",
    "Positive",
    "Real",
    "Result",
    "Simplex",
    "TableFactor",
    "Variable",
    "algorithms",
    "bracket",
    "compare",
    "compare_models",
    "data",
    "datasets",
    "estimators",
    "evaluate",
    "families",
    "fit",
    "forecast",
    "impute",
    "infer",
    "infer_batch",
    "infer_many",
    "infer_models",
    "inference",
    "io",
    "learners",
    "learning",
    "load",
    "log_likelihood",
    "models",
    "nn",
    "plotting",
    "potentials",
    "predict",
    "query",
    "register",
    "sample",
    "save",
    "structures",
    "transport",
]


def algorithms() -> list[str]:
    """Names of all inference algorithms."""
    from .inference.problem.base import algorithms as registry

    return registry.names()


def learners() -> list[str]:
    """Names of all learners: what `credo.fit` takes."""
    from .learning.base import learners as registry

    return registry.names()


furnish(
    __name__,
    {
        "core.density": ("DensityFactor", "GaussianFactor"),
        "core.domain": ("Interval", "Positive", "Real", "Simplex"),
        "core.errors": ("CredoError",),
        "core.factor": ("TableFactor",),
        "core.factor_graph": ("FactorGraph",),
        "core.linear_gaussian": ("BilinearFactor", "LinearGaussianFactor"),
        "core.parameter": ("Parameter",),
        "core.records": ("register",),
        "core.result": ("Result",),
        "core.variable": ("Variable",),
        "estimators.chain_crf": ("ChainCRF",),
        "estimators.gaussian_hmm": ("GaussianHMM",),
        "evaluate.compare": ("compare",),
        "evaluate.models": ("compare_models",),
        "families.flow": ("Flow",),
        "families.learnable": ("Learnable",),
        "families.mixture": ("Mixture",),
        "inference.portfolio.batch": ("infer_batch",),
        "inference.portfolio.bracket": ("bracket",),
        "inference.portfolio.evidence_rows": ("infer_many",),
        "inference.portfolio.model_batch": ("infer_models",),
        "inference.portfolio.predict": ("impute", "predict"),
        "inference.portfolio.question": ("infer", "query", "sample"),
        "inference.portfolio.templates": ("forecast",),
        "io.formats": ("load", "save"),
        "learning.base": ("fit",),
        "learning.likelihood": ("log_likelihood",),
        "models.bayes_net": ("BayesNet",),
        "models.conditional_rbm": ("ConditionalRBM",),
        "models.continuous": ("GaussianNet", "HybridNet"),
        "models.crf": ("CRF",),
        "models.latent_crf": ("LatentCRF",),
        "models.factorial_hmm": ("FactorialHMM",),
        "models.hmm": ("HMM",),
        "models.mrf": ("MarkovNet",),
        "models.normal_form": ("NormalForm",),
        "models.rbm": ("RBM",),
        "optimise.transport": ("transport",),
    },
    modules=(
        "data",
        "datasets",
        "estimators",
        "evaluate",
        "families",
        "inference",
        "io",
        "learning",
        "models",
        "models.potentials",
        "nn",
        "plotting",
        "structures",
    ),
)
