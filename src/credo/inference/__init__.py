"""What answers questions.

Each folder holds a family of algorithms; importing it imports none of them (see `contents.py`).
"""

from .base import Algorithm, Budget, IterativeAlgorithm, Problem, algorithms, register
from .question import infer, query, sample

__all__ = [
    "Algorithm",
    "Budget",
    "IterativeAlgorithm",
    "Problem",
    "algorithms",
    "infer",
    "query",
    "register",
    "sample",
]
