r"""Gradient steps for leaves without closed form: the second sum of Q, climbed by Adam in compiled chunks.

    maximise_theta  sum_rows sum_leaves q leaves(x; theta) / rows

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

from typing import Any, NamedTuple

import numpy as np

from ..core import check
from ..core.errors import ModelError
from ..core.records import record
from ..families.base import Family
from ..families.trees import Tree, tree_leaves

__all__ = ["RATE", "ClimbPace", "LeafState", "LeafSteps", "climb_leaves", "climb_surely", "leaf_objective"]

RATE = 0.01  # of Adam, where nothing has shortened the steps
_SHORTER, _LONGER = 0.25, 2.0  # factors of the rate after Q fell, and after it rose
_TRIES = 12  # rates that are tried before the leaves are left where they are
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
    objective: np.ndarray  # (steps,) Q of the moved leaves per row, before each step


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
    from .leaf_climb import climb

    check.whole("steps", steps, 0)
    check.finite("rate", rate)
    check.at_least("rate", rate, 0)
    if family.to_free() is None:
        raise ModelError(
            f"family: expected a leaf without closed form, got {family!r:.80}; `update` learns this one"
        )
    kept, values = climb(family, family.rows(x), q, steps, rate, state)
    return LeafSteps(family.from_free(kept.parameters), kept, values)


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
