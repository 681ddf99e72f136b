"""Exact inference."""

from __future__ import annotations

from ..problem.contents import Method

__all__ = ["METHODS"]

METHODS = {
    "junction-tree": Method(
        "credo.inference.exact.junction_tree",
        "All marginals and factor marginals, MAP, marginal MAP, powered sums and samples at once.",
        answers=("sum", "max", "mixed", "powered", "ordered", "query", "samples"),
        promises=("exact",),
        slopes=True,
    ),
    "elimination": Method(
        "credo.inference.exact.elimination",
        "Eliminate every variable that is not asked for.",
        answers=("sum", "max", "mixed", "powered", "ordered", "query"),
        promises=("exact",),
        slopes=True,
    ),
    "enumerate": Method(
        "credo.inference.exact.enumerate",
        "Sum or maximise over the whole joint table.",
        answers=("sum", "max", "mixed", "powered", "ordered", "query", "samples"),
        promises=("exact",),
        slopes=True,
    ),
    "gaussian": Method(
        "credo.inference.exact.gaussian",
        "Means, variances, log Z, maxima and samples of a Gaussian model, all exact.",
        answers=("sum", "max", "mixed", "samples"),
        reads=("real", "vector"),
        promises=("exact",),
        groups=("gaussian",),
    ),
    "conditional-gaussian": Method(
        "credo.inference.exact.conditional_gaussian",
        "Models that are Gaussian given states: log Z, mixtures as marginals, maxima, samples, all exact.",
        answers=("sum", "max", "mixed", "query", "samples"),
        reads=("discrete", "real", "vector"),
        groups=("linear-gaussian", "gaussian", "tables"),
        promises=("exact",),
    ),
}
