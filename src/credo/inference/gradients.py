"""What methods that follow gradients ask of a problem, told without loading JAX where that is possible."""

from __future__ import annotations

import importlib.util
from typing import Any

from ..core.domain import Simplex
from ..core.errors import MissingExtraError

__all__ = ["NO_MAXIMA", "needs", "why_no_gradients"]

NO_MAXIMA = "it knows no maxima; use bethe or grid-bp, or gaussian if all factors are Gaussian"


def why_no_gradients(problem: Any, *, simplex: bool) -> str | None:
    """Why the gradient of the log density by all variables does not exist; None if it does.

    Parameters
    ----------
    problem
        Its graph may have any variables.
    simplex
        Whether simplex variables are taken.
    """
    discrete = [v.name for v in problem.graph.variables if v.is_discrete]
    if discrete:
        return (
            f"it moves along gradients, and {discrete[:3]} {'are' if len(discrete) > 1 else 'is'} discrete; "
            "use gibbs or metropolis"
        )
    wide = [v.name for v in problem.graph.variables if isinstance(v.domain, Simplex)]
    if wide and not simplex:
        return f"it takes real variables, and {wide[:3]} live on a simplex; use nuts, gibbs or metropolis"
    if not len(problem.graph.variables) or importlib.util.find_spec("jax") is None:
        return None
    from .flat_density import untraceable

    return untraceable(problem.graph)


def needs(name: str, *packages: str) -> None:
    """Refuse, with the way out, if a package is missing."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(
                f"{name} needs the package '{package}', which is not installed; "
                'install it with: pip install "credo[neural]"'
            )
