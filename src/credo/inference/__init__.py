"""What answers questions. Importing this folder registers every algorithm."""

from . import exact
from .base import Algorithm, Budget, IterativeAlgorithm, Problem, algorithms, infer, query, register, sample

__all__ = [
    "Algorithm",
    "Budget",
    "IterativeAlgorithm",
    "Problem",
    "algorithms",
    "exact",
    "infer",
    "query",
    "register",
    "sample",
]
