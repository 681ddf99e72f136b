"""Parameters of the bijections of flows: where learning starts, and whether given ones fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..nn.bijections.base import RowBijection
from .gaussian_diagonal import DiagonalGaussian
from .trees import Tree, map_tree, tree_leaves

__all__ = ["checked_parameters", "standard_base", "started_parameters"]


def standard_base(members: int, dimension: int) -> DiagonalGaussian:
    """Standard Gaussians."""
    return DiagonalGaussian(np.zeros((members, dimension)), np.ones((members, dimension)))


def started_parameters(bijection: RowBijection, d: int, members: int, rng: np.random.Generator) -> Tree:
    """Parameters of members, on the first axis."""
    each = [bijection.start(d, rng) for _ in range(members)]
    return map_tree(lambda *arrays: np.stack(arrays), each[0], *each[1:])


def checked_parameters(bijection: RowBijection, d: int, parameters: Tree) -> Tree:
    """Finite arrays of the shapes that the bijection works with."""
    wanted = bijection.start(d, np.random.default_rng(0))

    def same(shape: np.ndarray, given: Any) -> np.ndarray:
        found = np.array(given, np.float64)
        if found.shape[1:] != shape.shape:
            wanted_shape = f"({', '.join(['members', *map(str, shape.shape)])})"
            raise ModelError(
                f"parameters: expected arrays of shape {wanted_shape}, got {found.shape}; "
                "Flow.started makes them"
            )
        if not np.isfinite(found).all():
            raise ModelError("parameters: expected finite numbers, got NaN or infinity")
        found.flags.writeable = False
        return found

    try:
        found = map_tree(same, wanted, parameters)
    except ModelError:
        raise
    except (KeyError, TypeError, ValueError) as problem:
        raise ModelError(
            f"parameters: expected a tree of arrays as {bijection} makes it, got another one; "
            "Flow.started makes it"
        ) from problem
    if len({len(array) for array in tree_leaves(found)}) > 1:
        raise ModelError("parameters: expected as many members in all arrays")
    return found
