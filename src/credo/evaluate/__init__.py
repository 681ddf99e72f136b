"""Numbers about answers: distances between beliefs, tables of several methods, competition scores."""

from .compare import Comparison, Row, compare
from .errors import (
    MarginalErrors,
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
