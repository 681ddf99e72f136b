"""credo: probabilistic graphical models, described once and asked anything.

The public names are loaded when first used, so that `import credo` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets as datasets
    from . import learning as learning
    from . import plotting as plotting
    from . import structures as structures
    from .core.density import DensityFactor as DensityFactor
    from .core.density import GaussianFactor as GaussianFactor
    from .core.domain import Real as Real
    from .core.domain import Simplex as Simplex
    from .core.errors import CredoError as CredoError
    from .core.factor import TableFactor as TableFactor
    from .core.factor_graph import FactorGraph as FactorGraph
    from .core.result import Result as Result
    from .core.variable import Variable as Variable
    from .evaluate.compare import compare as compare
    from .evaluate.models import compare_models as compare_models
    from .inference.batch import infer_many as infer_many
    from .inference.bracket import bracket as bracket
    from .inference.model_batch import infer_models as infer_models
    from .inference.question import infer as infer
    from .inference.question import query as query
    from .inference.question import sample as sample
    from .io.formats import load as load
    from .io.formats import save as save
    from .learning.base import fit as fit
    from .learning.likelihood import log_likelihood as log_likelihood
    from .models import potentials as potentials
    from .models.bayes_net import BayesNet as BayesNet
    from .models.continuous import GaussianNet as GaussianNet
    from .models.continuous import HybridNet as HybridNet
    from .models.crf import CRF as CRF
    from .models.hmm import HMM as HMM
    from .models.mrf import MarkovNet as MarkovNet
    from .models.normal_form import NormalForm as NormalForm

__version__ = "0.1.0"

_HOME = {
    "BayesNet": "models.bayes_net",
    "CRF": "models.crf",
    "CredoError": "core.errors",
    "DensityFactor": "core.density",
    "FactorGraph": "core.factor_graph",
    "GaussianFactor": "core.density",
    "GaussianNet": "models.continuous",
    "HMM": "models.hmm",
    "HybridNet": "models.continuous",
    "MarkovNet": "models.mrf",
    "NormalForm": "models.normal_form",
    "Real": "core.domain",
    "Result": "core.result",
    "Simplex": "core.domain",
    "TableFactor": "core.factor",
    "Variable": "core.variable",
    "bracket": "inference.bracket",
    "compare": "evaluate.compare",
    "compare_models": "evaluate.models",
    "fit": "learning.base",
    "infer": "inference.question",
    "infer_many": "inference.batch",
    "infer_models": "inference.model_batch",
    "load": "io.formats",
    "log_likelihood": "learning.likelihood",
    "query": "inference.question",
    "sample": "inference.question",
    "save": "io.formats",
}
_ROOMS = {
    "datasets": "datasets",
    "learning": "learning",
    "plotting": "plotting",
    "potentials": "models.potentials",
    "structures": "structures",
}

__all__ = [
    "CRF",
    "HMM",
    "BayesNet",
    "CredoError",
    "DensityFactor",
    "FactorGraph",
    "GaussianFactor",
    "GaussianNet",
    "HybridNet",
    "MarkovNet",
    "NormalForm",
    "Real",
    "Result",
    "Simplex",
    "TableFactor",
    "Variable",
    "algorithms",
    "bracket",
    "compare",
    "compare_models",
    "datasets",
    "fit",
    "infer",
    "infer_many",
    "infer_models",
    "learning",
    "load",
    "log_likelihood",
    "plotting",
    "potentials",
    "query",
    "sample",
    "save",
    "structures",
]


def algorithms() -> list[str]:
    """Names of all inference algorithms."""
    from .inference.base import algorithms as registry

    return registry.names()


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"credo.{_HOME[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"credo.{_ROOMS[name]}")
    else:
        raise AttributeError(f"module 'credo' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
