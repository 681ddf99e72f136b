"""Which learner takes a task when none is named, and how the call's arguments become its options.

The rule, in this order; the first that can treat the task is taken, and the fit says so:

    counts        complete data and tables with a closed form
    likelihood    models of weights: Markov networks, log-linear models, factor graphs
    em            hidden variables or missing values; models of rows and sequences, families among them
    gradient-em   the same where leaves have no closed form and em cannot: streams, rows in steps
    blocks        normal-form graphs
    topics        documents
    boltzmann     machines of two layers of units
    mixture-of-trees
    structured    fields with several kinds of nodes, hidden ones among them
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..core.errors import OptionError, UnsupportedError
from ..core.registry import options_of
from ..data.stream import Stream

if TYPE_CHECKING:
    from .base import Learner, Task

__all__ = ["choose", "with_options"]

_RULE = {
    "counts": "the data are complete and every table has a closed form",
    "likelihood": "its log tables are weights, and the likelihood has their slope",
    "em": "something is hidden or missing, or it is a family of rows",
    "gradient-em": "its leaves have no closed form, and em cannot see all rows as they are in every step",
    "blocks": "its blocks learn from their own messages",
    "topics": "it is a model of documents",
    "boltzmann": "it is a machine of two layers of units",
    "mixture-of-trees": "it is a mixture of trees",
    "structured": "it is a field with several kinds of nodes",
}


def choose(task: Task, options: Mapping[str, Any], *, keeps: bool = False) -> tuple[Learner, str]:
    """The learner of the rule with these options, and a sentence about the choice.

    Parameters
    ----------
    task
        Model and data.
    options
        What the call says about learning: `prior`, `fixed`, `restarts`.
    keeps
        Whether the run is to be kept in a checkpoint.
    """
    from .base import learners

    reasons, left_out = [], []
    for name, why in _RULE.items():
        learner = learners.resolve(name)
        reason = _why_not_stream(learner, task.data) or _why_not_meant(name, task) or learner.why_not(task)
        if reason is None and keeps and not learner.checkpoints:
            left_out.append(name)
            reason = "it keeps no checkpoints"
        if reason is None:
            said = f"its runs can be kept, those of {left_out[0]} cannot" if left_out else why
            return with_options(learner, options), f"{name} was chosen: {said}"
        reasons.append(f"{name}: {reason}")
    told = "; ".join(reasons)
    raise UnsupportedError(f"no learner can treat this {type(task.model).__name__}: {told}")


def _why_not_meant(name: str, task: Task) -> str | None:
    """Why a learner that makes its own structure is not what was meant."""
    if name != "mixture-of-trees" or hasattr(task.model, "trees"):
        return None
    return "it makes trees of its own, which must be asked for"


def _why_not_stream(learner: Learner, data: Any) -> str | None:
    """Why a learner is not chosen for a stream; that its rows are complete takes a pass to know."""
    if not isinstance(data, Stream):
        return None
    if not learner.streams:
        return "it needs all rows at once, and a stream has batches"
    if learner.name == "counts" and not data.is_complete:
        return "some values are missing; use em"
    return None


def with_options(learner: Learner, options: Mapping[str, Any]) -> Learner:
    """The same learner with options that the call gives; those it does not have are refused."""
    given = {name: value for name, value in options.items() if value is not None}
    known = options_of(type(learner))
    for name in given:
        if name not in known:
            raise OptionError(
                f"{learner.name} has no option {name!r}; leave it out, or use a learner that has it: "
                f"{_learners_with(name)}"
            )
    return dataclasses.replace(learner, **given) if given else learner  # type: ignore[type-var]


def _learners_with(option: str) -> list[str]:
    from .base import learners

    return [n for n in learners.names() if option in options_of(learners.get(n))]
