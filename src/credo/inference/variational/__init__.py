"""Variational methods."""

from . import (
    bethe,
    mean_field,
    mixture_of_gaussian_trees,
    mixture_of_trees,
    nonparametric_vi,
    structured_mean_field,
    svgd,
)

__all__ = [
    "bethe",
    "mean_field",
    "mixture_of_gaussian_trees",
    "mixture_of_trees",
    "nonparametric_vi",
    "structured_mean_field",
    "svgd",
]
