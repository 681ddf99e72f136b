"""Numbers about answers: distances between beliefs, tables of several methods, competition scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from .compare import Comparison, Row, compare
    from .errors import (
        MarginalErrors,
        alpha_divergence,
        hamming,
        hellinger,
        kl_divergence,
        log_z_error,
        marginal_errors,
        total_variation,
    )
    from .scoring import Score, score_assignment, score_marginals, score_partition

__all__ = [
    "Comparison",
    "MarginalErrors",
    "Row",
    "Score",
    "alpha_divergence",
    "compare",
    "hamming",
    "hellinger",
    "kl_divergence",
    "log_z_error",
    "marginal_errors",
    "score_assignment",
    "score_marginals",
    "score_partition",
    "total_variation",
]


furnish(
    __name__,
    {
        "compare": ("Comparison", "Row", "compare"),
        "errors": (
            "MarginalErrors",
            "alpha_divergence",
            "hamming",
            "hellinger",
            "kl_divergence",
            "log_z_error",
            "marginal_errors",
            "total_variation",
        ),
        "scoring": ("Score", "score_assignment", "score_marginals", "score_partition"),
    },
)
