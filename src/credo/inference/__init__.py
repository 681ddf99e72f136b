"""What answers questions.

Each folder holds a family of algorithms; importing it imports none of them (see `contents.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from . import bounds, exact, messages, neural, particles, sampling, search, variational
    from .portfolio.question import infer, query, sample
    from .problem.base import Algorithm, Budget, IterativeAlgorithm, Problem, algorithms, register

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

furnish(
    __name__,
    {
        "problem.base": ("Algorithm", "Budget", "IterativeAlgorithm", "Problem", "algorithms", "register"),
        "portfolio.question": ("infer", "query", "sample"),
    },
    modules=("bounds", "exact", "messages", "neural", "particles", "sampling", "search", "variational"),
)
