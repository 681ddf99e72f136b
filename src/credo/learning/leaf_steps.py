r"""Gradient steps for leaves without closed form: the second sum of Q, climbed by Adam in compiled chunks.

    maximise_theta  sum_rows sum_leaves q leaves(x; theta) / sum q

q is what `Family.divide` gave for the old members and stays as it is; with a fresh q before every step the
same program is direct maximum likelihood (Fisher's identity). JAX sees flat rows with weights, filled up with
rows of no weight to whole blocks, so that another number of rows seldom compiles again. Numbers are float64.

The state of Adam is returned, is a tree of arrays, and continues a run bit for bit: n steps, then m, are
n + m.

Steps may overshoot. `climb_surely` is the M-step of generalised EM: it compares Q before and after, and where
Q fell it begins again from the old leaves with fresh moments and shorter steps, the first of which is uphill
for any rate that is small enough. So the objective of EM never falls.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import ModelError
from ..core.records import record
from ..families.base import Family, each_member
from ..families.family_forms import FamilyForm
from ..families.trees import Tree, map_tree, tree_leaves

__all__ = ["RATE", "ClimbPace", "LeafState", "LeafSteps", "climb_leaves", "climb_surely", "leaf_objective"]

_BLOCK = 1024  # rows are filled up to a multiple of this
_ROOM = 256  # steps of one call of the program at most
RATE = 0.01  # of Adam, where nothing has shortened the steps
_SHORTER, _LONGER = 0.25, 2.0  # factors of the rate after Q fell, and after it rose
_TRIES = 12  # rates that are tried before the leaves are left where they are
_FEW = 100  # parameters up to which programs compile fast rather than run fast
_ROUNDING = 1e-12  # fall of Q, relative to its terms, that is noise


@record("leaf state")
class LeafState(NamedTuple):
    """What Adam remembers, without JAX."""

    parameters: Tree  # free numbers
    mean: Tree  # of gradients
    square: Tree  # of their squares
    steps: Any  # so far


@record("leaf pace")
class ClimbPace(NamedTuple):
    """How the steps of one M-step went, for those of the next."""

    state: LeafState | None = None  # of Adam; None: fresh moments
    rate: float = RATE  # of the steps that were taken
    is_stuck: bool = False  # whether no rate raised Q


class LeafSteps(NamedTuple):
    """What steps led to."""

    family: Any  # with the leaves moved; all else to the last bit as it was
    state: LeafState  # of the optimiser; goes into a checkpoint
    objective: np.ndarray  # (steps,) Q of the moved leaves over the sum of q, before each step


def climb_leaves(
    family: Family, x: Any, q: Tree, *, steps: int = 50, rate: float = RATE, state: LeafState | None = None
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

    from ..nn.adam import AdamMoments, Rates, learned

    check.whole("steps", steps, 0)
    check.finite("rate", rate)
    check.at_least("rate", rate, 0)
    free = family.to_free()
    if free is None:
        raise ModelError(
            f"family: expected a leaf without closed form, got {family!r:.80}; `update` learns this one"
        )
    rows, values = family.rows(x), [np.zeros(0)]
    adam = learned(free, Rates(rate))
    if state is not None:
        moments = AdamMoments(state.steps, state.mean, state.square)
        adam = adam._replace(parameters=state.parameters, moments=moments)
    mask = map_tree(lambda numbers, is_free: np.full(numbers.shape, is_free), free, family.is_free)
    with jax.enable_x64(True):
        fixed = (*(_filled(tree, len(rows)) for tree in (family.to_arrays(rows), q)), mask)
        while steps:
            many = min(steps, _ROOM)
            adam, found = _program(FamilyForm(family))(adam, *fixed, np.int32(many), room=_ROOM)
            values.append(np.asarray(found["objective"])[:many])
            steps -= many
        adam = jax.tree.map(np.asarray, adam)
    kept = LeafState(adam.parameters, adam.moments.mean, adam.moments.square, adam.moments.steps)
    return LeafSteps(family.from_free(kept.parameters), kept, np.concatenate(values))


def leaf_objective(family: Family, x: Any, q: Tree) -> float:
    """The second sum of Q: weighted log densities of all leaves."""
    total = 0.0
    for leaf, share in zip(tree_leaves(family.leaves(x)), tree_leaves(q), strict=True):
        total += float((leaf[share > 0] * share[share > 0]).sum())
    return total


def climb_surely(
    family: Family, x: Any, q: Tree, pace: ClimbPace, *, steps: int = 50
) -> tuple[Any, ClimbPace]:
    """Leaves of a Q that is not lower, and how it went.

    Parameters
    ----------
    family
        Whose leaves move.
    x, q
        Rows, and their divided weights under the old members; see `climb_leaves`.
    pace
        What the M-step before found; `ClimbPace()` for the first.
    steps
        How many steps.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families import StudentT
    >>> from credo.learning.leaf_steps import ClimbPace, climb_surely, leaf_objective
    >>> x, q = np.array([[-1.0], [0.0], [1.0]]), np.ones((3, 1))
    >>> start = StudentT([[0.5]], [[1.0]], [5.0])
    >>> found, pace = climb_surely(start, x, q, ClimbPace())
    >>> leaf_objective(found, x, q) > leaf_objective(start, x, q), pace.rate, pace.is_stuck
    (True, 0.01, False)
    """
    before = leaf_objective(family, x, q)
    state, rate = pace.state, min(pace.rate * _LONGER, RATE) if pace.state is not None else pace.rate
    for _ in range(_TRIES):
        found = climb_leaves(family, x, q, steps=steps, rate=rate, state=state)
        if leaf_objective(found.family, x, q) >= before - _ROUNDING * abs(before):
            return found.family, ClimbPace(found.state, rate)
        state, rate = None, rate * _SHORTER
    return family, ClimbPace(None, RATE, is_stuck=True)


def _filled(tree: Tree, rows: int) -> Tree:
    """Zeros appended up to whole blocks; NaN is left to `leaves_at`."""
    more = -rows % _BLOCK
    return map_tree(lambda a: np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)]), tree)


@lru_cache(maxsize=64)
def _program(form: FamilyForm) -> Any:
    from ..nn.compiled import Compiled

    climb = partial(_climb, form.family)
    return Compiled(climb) if form.family.n_parameters <= _FEW else Compiled(climb, small=0)


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
        slope = family.pool(slope)
        # Adam leaves a number without slope where it is, to the last bit.
        slope = jax.tree.map(lambda free, number: jnp.where(free, number, 0.0), mask, slope)
        return move(slope, state), {"objective": -value}

    state, found, _ = repeat(step, state, room, limit)
    return state, found
