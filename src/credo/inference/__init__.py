"""What answers questions. Importing this folder registers every algorithm."""

from . import bounds, exact, messages, neural, particles, sampling, search, variational
from .base import Algorithm, Budget, IterativeAlgorithm, Problem, algorithms, register
from .question import infer, query, sample

__all__ = [
    "Algorithm",
    "Budget",
    "IterativeAlgorithm",
    "Problem",
    "algorithms",
    "bounds",
    "exact",
    "infer",
    "messages",
    "neural",
    "particles",
    "query",
    "register",
    "sample",
    "sampling",
    "search",
    "variational",
]
