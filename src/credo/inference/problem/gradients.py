"""What methods that follow gradients ask of a problem, told without loading JAX where that is possible."""

from __future__ import annotations

import importlib.util

from ...core.errors import MissingExtraError
from .base import Problem

__all__ = ["needs", "why_no_gradients"]


def why_no_gradients(problem: Problem) -> str | None:
    """Why the log density of continuous variables has no gradient; None if it has, or if JAX cannot tell."""
    if not len(problem.graph.variables) or importlib.util.find_spec("jax") is None:
        return None
    from .potentials import untraceable

    return untraceable(problem.graph)


def needs(name: str, *packages: str) -> None:
    """Refuse, with the way out, if a package is missing."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(
                f"{name} needs the package '{package}', which is not installed; "
                'install it with: pip install "credo[neural]"'
            )
