"""What the Tab key offers after a command: methods, learners, models, variables, columns, experiments.

Only what is looked at is imported: names stand in tables of contents, and a model is read where its variables
are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ..core.registry import Entry

__all__ = [
    "complete_blank",
    "complete_column",
    "complete_evidence",
    "complete_experiment",
    "complete_learner",
    "complete_method",
    "complete_model",
    "complete_target",
    "complete_variable",
]


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Methods that begin like this, each with what it does."""
    from ..inference.problem.contents import methods

    return _matching(methods(), incomplete)


def complete_learner(incomplete: str) -> list[tuple[str, str]]:
    """Learners that begin like this, each with what it does."""
    from ..learning import LEARNERS

    return _matching(LEARNERS, incomplete)


def complete_model(incomplete: str) -> list[tuple[str, str]]:
    """Sample models that begin like this; the shell adds the files."""
    from ..datasets.catalogue import SAMPLES

    return _matching(SAMPLES.contents, incomplete)


def complete_blank(incomplete: str) -> list[tuple[str, str]]:
    """Models to be learned and sample models that begin like this; the shell adds the files."""
    from ..models.by_name import BLANKS

    return [*_matching(BLANKS.contents, incomplete), *complete_model(incomplete)]


def complete_experiment(incomplete: str) -> list[tuple[str, str]]:
    """Experiments that begin like this, each with what it shows."""
    from ..core.errors import CredoError
    from .reproduce import first_line, scripts

    try:
        known = scripts()
    except CredoError:
        return []
    return [(name, first_line(path)) for name, path in known.items() if name.startswith(incomplete)]


def complete_variable(ctx: typer.Context, incomplete: str) -> list[str]:
    """Variables of the model named before."""
    return [name for name in _names(_variables(ctx)) if name.startswith(incomplete)]


def complete_target(ctx: typer.Context, incomplete: str) -> list[str]:
    """Variables of the model named before; of a model of rows what is hidden in them."""
    found = _model(ctx)
    if found is not None and hasattr(found, "hidden"):
        return [name for name in ("state", "component") if name.startswith(incomplete)]
    return complete_variable(ctx, incomplete)


def complete_column(ctx: typer.Context, incomplete: str) -> list[str]:
    """Columns of the table named before; of several names with commas between, the last one."""
    from ..core.errors import CredoError
    from ..data.column_names import column_names

    before, comma, last = incomplete.rpartition(",")
    for given in _words(ctx, "data", "rest"):
        try:
            return [f"{before}{comma}{name}" for name in column_names(given) if name.startswith(last)]
        except (CredoError, OSError):
            continue
    return []


def complete_evidence(ctx: typer.Context, incomplete: str) -> list[str]:
    """NAME= of the model named before, and NAME=STATE once a name is complete."""
    variables = _variables(ctx)
    name = incomplete.partition("=")[0]
    if "=" not in incomplete or name not in _names(variables):
        return [f"{n}=" for n in _names(variables) if n.startswith(incomplete)]
    variable = variables[variables.position(name)]
    states = variable.states if variable.is_discrete else ()
    return [f"{name}={state}" for state in states if f"{name}={state}".startswith(incomplete)]


def _matching(known: Mapping[str, Entry], incomplete: str) -> list[tuple[str, str]]:
    return [(name, entry.summary) for name, entry in known.items() if name.startswith(incomplete)]


def _names(variables: Any) -> Iterable[str]:
    return () if variables is None else variables.names


def _words(ctx: typer.Context, *names: str) -> list[str]:
    """Arguments given so far; where an option waits for its value they are among the words not yet read."""
    given = [ctx.params.get(name) for name in names]
    flat = [word for value in given if value for word in (value if isinstance(value, list) else [value])]
    return [*flat, *ctx.args]


def _model(ctx: typer.Context) -> Any:
    """The model named before, or None where it cannot be read: completion never complains."""
    from ..core.errors import CredoError
    from .arguments import load_model

    try:
        return load_model(next(iter(_words(ctx, "model")), ""))
    except (CredoError, OSError):
        return None


def _variables(ctx: typer.Context) -> Any:
    """Variables of the model, or None where it has none."""
    from ..core.errors import CredoError

    found = _model(ctx)
    try:
        return None if found is None else found.to_factor_graph().variables
    except (AttributeError, CredoError):
        return None
