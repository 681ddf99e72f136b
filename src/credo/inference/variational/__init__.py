"""Variational methods."""

from __future__ import annotations

from ..problem.contents import Method

__all__ = ["METHODS"]

METHODS = {
    "mean-field": Method(
        "credo.inference.variational.mean_field",
        "Product of independent marginals, Gaussian ones for real variables; a bound that no sweep lowers.",
        answers=("sum",),
        reads=("discrete", "real", "positive", "interval"),
        promises=("consistent", "lower", "monotone"),
        groups=("tables", "functions", "bilinear"),
        checkpoints=True,
        slopes=True,
    ),
    "structured-mean-field": Method(
        "credo.inference.variational.structured_mean_field",
        "Independent clusters, each with its exact joint; a lower bound no sweep lowers.",
        answers=("sum",),
        promises=("consistent", "lower", "monotone"),
        checkpoints=True,
        slopes=True,
    ),
    "bethe": Method(
        "credo.inference.variational.bethe",
        "Mixture-of-products beliefs that maximise the Bethe free energy, for variables of any domain.",
        answers=("sum", "max", "mixed", "samples"),
        reads=("discrete", "real", "vector", "positive", "interval", "simplex"),
        groups=("functions",),
        compiles=True,
        checkpoints=True,
    ),
    "svgd": Method(
        "credo.inference.variational.svgd",
        "Particles that follow gradients and repel each other; for continuous variables.",
        answers=("sum", "samples"),
        reads=("real", "vector", "positive", "interval", "simplex"),
        groups=("functions",),
        compiles=True,
        checkpoints=True,
    ),
    "nonparametric-vi": Method(
        "credo.inference.variational.nonparametric_vi",
        "A mixture of equal isotropic Gaussians, fitted by expansions at their means; for real variables.",
        answers=("sum", "samples"),
        reads=("real", "positive", "interval"),
        groups=("functions",),
        compiles=True,
        checkpoints=True,
    ),
    "mixture-of-trees": Method(
        "credo.inference.variational.mixture_of_trees",
        "Marginals of a mixture of spanning trees that maximise the Bethe value; discrete variables.",
        answers=("sum", "samples"),
    ),
    "mixture-of-gaussian-trees": Method(
        "credo.inference.variational.mixture_of_gaussian_trees",
        "Marginals of a mixture of Gaussian trees that maximise the Bethe value; real variables.",
        answers=("sum", "samples"),
        reads=("real",),
        groups=("functions",),
        compiles=True,
    ),
}
