r"""One gradient step on leaves without closed form, for the compiled chunks of `nn/chunks.py`.

    maximise_theta  1/n  sum over n rows of a batch, sum_leaves q leaves(x; theta)  +  prior of scales

q is what `Family.divide` gave for the old members and stays as it is. Rows that come in steps get fresh
noise. Shares may be negative, as those of discriminative learning are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..families.base import each_member
from ..families.family_forms import FamilyForm
from ..families.trees import Tree, map_tree, tree_leaves
from ..nn.adam import Learned, Rates, learned, move
from ..nn.batches import Batch

__all__ = ["ClimbStep", "climb_carry", "climb_rows", "is_double"]

_FEW = 1000  # parameters up to which programs should compile fast rather than run fast


@dataclass(frozen=True)
class ClimbStep:
    """Adam on the free numbers of a family; equal ones share a compiled program."""

    form: FamilyForm  # the family
    scales: Any = None  # prior of the scales of latent mixtures

    @property
    def is_dear(self) -> bool:
        """Whether the program is worth a longer compilation."""
        return bool(self.form.family.n_parameters > _FEW)

    def __call__(
        self, state: dict[str, Any], batch: Batch, key: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The moved numbers, and the objective before the step."""
        family, group = self.form.family, state["model"]
        x = family.noisy_at(batch.rows["x"], key)
        count = jnp.maximum(batch.weights.sum(), 1.0)

        def loss(tree: Tree) -> Any:
            leaves = each_member(family)(tree, x)
            total: Any = 0.0
            for leaf, share in zip(
                tree_leaves(leaves), tree_leaves(_own(leaves, batch.rows["q"])), strict=True
            ):
                used = share * batch.weights.reshape(-1, *[1] * (share.ndim - 1)).astype(share.dtype)
                # A leaf that nobody asks about may be -inf.
                total = total + jnp.where(used != 0, used * jnp.where(used != 0, leaf, 0.0), 0.0).sum()
            value = total / count.astype(total.dtype)
            log_scales = None if self.scales is None else family.log_scales(tree)
            return -value - (0.0 if log_scales is None else self.scales.value(log_scales, jnp))

        value, slope = jax.value_and_grad(loss)(group.parameters)
        most = state["most"]

        def bounded(g: Any, is_free: bool) -> Any:
            # Adam leaves a number without slope where it is, to the last bit.
            return jnp.clip(g, -most.astype(g.dtype), most.astype(g.dtype)) if is_free else jnp.zeros_like(g)

        slope = map_tree(bounded, family.pool(slope), family.is_free)
        return {**state, "model": move(slope, group)}, {"objective": -value}


def climb_carry(family: Any, rates: Rates, *, clip: float = np.inf, most: float = np.inf) -> dict[str, Any]:
    """What the steps carry, before the first of them.

    Parameters
    ----------
    family
        Whose leaves move.
    rates
        Of Adam.
    clip, most
        Largest norm of a gradient, and largest entry.
    """
    free = family.to_free()
    group: Learned = learned(free, rates, clip=clip)
    return {"model": group, "most": np.asarray(most, np.float32)}


def climb_rows(family: Any, x: np.ndarray, q: Tree) -> dict[str, Any]:
    """Rows and their shares as the steps read them; only leaves that move have shares."""
    arrays, kind = family.to_arrays(x), np.float64 if is_double(family) else np.float32
    return {"x": arrays, "q": map_tree(lambda a: np.asarray(a, kind), q)}


def is_double(family: Any) -> bool:
    """Whether free numbers, some at least, are in double precision."""
    return any(np.asarray(leaf).dtype == np.float64 for leaf in tree_leaves(family.to_free()))


def _own(leaves: Tree, q: Tree) -> Tree:
    """The shares of the leaves that there are."""
    return map_tree(lambda _, share: share, leaves, q)
