r"""Gradient steps for leaves without closed form: the second sum of Q, climbed by Adam in compiled chunks.

    maximise_theta  sum_rows sum_leaves q leaves(x; theta) / sum q

q is what `Family.divide` gave for the old members and stays as it is; with a fresh q before every step the
same program is direct maximum likelihood (Fisher's identity). JAX sees flat rows with weights, filled up with
rows of no weight to whole blocks, so that another number of rows seldom compiles again. Numbers are float64.

The state of Adam is returned, is a tree of arrays, and continues a run bit for bit: n steps, then m, are
n + m.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import ModelError
from ..families.base import Family, each_member
from ..families.trees import Tree, map_tree, tree_leaves

__all__ = ["LeafSteps", "climb_leaves"]

_BLOCK = 1024  # rows are filled up to a multiple of this
_ROOM = 256  # steps of one call of the program at most


class LeafSteps(NamedTuple):
    """What steps led to."""

    family: Any  # with the leaves moved; all else to the last bit as it was
    state: Any  # of the optimiser: free numbers and moments of Adam; goes into a checkpoint
    objective: np.ndarray  # (steps,) Q of the moved leaves over the sum of q, before each step


def climb_leaves(
    family: Family, x: Any, q: Tree, *, steps: int = 50, rate: float = 0.01, state: Any = None
) -> LeafSteps:
    """Move the leaves of a family that have no closed form.

    Parameters
    ----------
    family
        Whose leaves move; mixtures and products of such leaves too.
    x, q
        Rows, and their divided weights from `Family.divide`.
    steps, rate
        How many steps, and the rate of Adam.
    state
        `LeafSteps.state` of an earlier call, to go on from its numbers and moments.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families import StudentT
    >>> from credo.learning.leaf_steps import climb_leaves
    >>> start = StudentT([[0.5]], [[1.0]], [5.0])
    >>> found = climb_leaves(start, [[-1.0], [0.0], [1.0]], np.ones((3, 1)), steps=300)
    >>> bool(abs(found.family.location[0, 0]) < 1e-2), bool(found.objective[-1] > found.objective[0])
    (True, True)
    """
    import jax

    from ..nn.adam import Rates, learned

    check.whole("steps", steps, 0)
    check.finite("rate", rate)
    check.at_least("rate", rate, 0)
    free = family.to_free()
    if free is None:
        raise ModelError(
            f"family: expected a leaf without closed form, got {family!r:.80}; `update` learns this one"
        )
    rows, values = family.rows(x), [np.zeros(0)]
    fresh = learned(free, Rates(rate))
    state = fresh if state is None else state._replace(rates=fresh.rates)
    mask = map_tree(lambda numbers, is_free: np.full(numbers.shape, is_free), free, family.is_free)
    with jax.enable_x64(True):
        fixed = (*(_filled(tree, len(rows)) for tree in (family.to_arrays(rows), q)), mask)
        while steps:
            many = min(steps, _ROOM)
            state, found = _program(_Form(family))(state, *fixed, np.int32(many), room=_ROOM)
            values.append(np.asarray(found["objective"])[:many])
            steps -= many
        state = jax.tree.map(np.asarray, state)
    return LeafSteps(family.from_free(state.parameters), state, np.concatenate(values))


def _filled(tree: Tree, rows: int) -> Tree:
    """Zeros appended up to whole blocks; NaN is left to `leaves_at`."""
    more = -rows % _BLOCK
    return map_tree(lambda a: np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)]), tree)


class _Form:
    """A family as the key of its program: all that matters but the numbers."""

    def __init__(self, family: Family) -> None:
        self.family, self.key = family, family.structure

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Form) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=64)
def _program(form: _Form) -> Any:
    from ..nn.compiled import Compiled

    return Compiled(partial(_climb, form.family))


def _climb(family: Family, state: Any, x: Tree, q: Tree, mask: Tree, limit: Any, *, room: int) -> Any:
    """At most `limit` steps of Adam, and the objective before each."""
    import jax
    import jax.numpy as jnp

    from ..nn.adam import move
    from ..nn.loop import repeat

    def loss(tree: Tree) -> Any:
        leaves = each_member(family)(tree, x)
        shares = map_tree(lambda _, share: share, leaves, q)  # only what is moved has leaves here
        pairs = list(zip(tree_leaves(leaves), tree_leaves(shares), strict=True))
        value = sum(jnp.where(share > 0, share * leaf, 0.0).sum() for leaf, share in pairs)
        return -value / sum(share.sum() for _, share in pairs)

    def step(_: Any, state: Any) -> Any:
        value, slope = jax.value_and_grad(loss)(state.parameters)
        # Adam leaves a number without slope where it is, to the last bit.
        slope = jax.tree.map(lambda free, number: jnp.where(free, number, 0.0), mask, slope)
        return move(slope, state), {"objective": -value}

    state, found, _ = repeat(step, state, room, limit)
    return state, found
