"""Numbers about answers: distances between beliefs, tables of methods, scores of samples and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import furnish

if TYPE_CHECKING:
    from .classification import ClassScores, score_classes
    from .compare import Comparison, Row, compare
    from .density import bits_per_dimension, nats_per_dimension
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
    from .sample_sets import (
        SampleScores,
        frechet_distance,
        inception_score,
        mmd,
        nearest_neighbour_accuracy,
        score_samples,
    )
    from .scoring import Score, score_assignment, score_marginals, score_partition

__all__ = [
    "ClassScores",
    "Comparison",
    "MarginalErrors",
    "Row",
    "SampleScores",
    "Score",
    "alpha_divergence",
    "bits_per_dimension",
    "compare",
    "frechet_distance",
    "hamming",
    "hellinger",
    "inception_score",
    "kl_divergence",
    "log_z_error",
    "marginal_errors",
    "mmd",
    "nats_per_dimension",
    "nearest_neighbour_accuracy",
    "score_assignment",
    "score_classes",
    "score_marginals",
    "score_partition",
    "score_samples",
    "total_variation",
]


furnish(
    __name__,
    {
        "classification": ("ClassScores", "score_classes"),
        "compare": ("Comparison", "Row", "compare"),
        "density": ("bits_per_dimension", "nats_per_dimension"),
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
        "sample_sets": (
            "SampleScores",
            "frechet_distance",
            "inception_score",
            "mmd",
            "nearest_neighbour_accuracy",
            "score_samples",
        ),
        "scoring": ("Score", "score_assignment", "score_marginals", "score_partition"),
    },
)
