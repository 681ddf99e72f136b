"""What the Tab key offers after a command: methods, sample models, variables and states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer

__all__ = ["complete_evidence", "complete_method", "complete_model", "complete_variable"]


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Methods that begin like this, each with what it does."""
    from ..inference.problem.contents import methods

    return [(name, known.summary) for name, known in methods().items() if name.startswith(incomplete)]


def complete_model(incomplete: str) -> list[tuple[str, str]]:
    """Sample models that begin like this; the shell adds the files."""
    from ..datasets.catalogue import CONTENTS

    return [(name, entry.summary) for name, entry in sorted(CONTENTS.items()) if name.startswith(incomplete)]


def complete_variable(ctx: typer.Context, incomplete: str) -> list[str]:
    """Variables of the model named before."""
    return [name for name in _names(_variables(ctx)) if name.startswith(incomplete)]


def complete_evidence(ctx: typer.Context, incomplete: str) -> list[str]:
    """NAME= of the model named before, and NAME=STATE once a name is complete."""
    variables = _variables(ctx)
    name = incomplete.partition("=")[0]
    if "=" not in incomplete or name not in _names(variables):
        return [f"{n}=" for n in _names(variables) if n.startswith(incomplete)]
    variable = variables[variables.position(name)]
    states = variable.states if variable.is_discrete else ()
    return [f"{name}={state}" for state in states if f"{name}={state}".startswith(incomplete)]


def _names(variables: Any) -> Iterable[str]:
    return () if variables is None else variables.names


def _variables(ctx: typer.Context) -> Any:
    """Variables of the model, or None where it cannot be read: completion never complains."""
    from ..core.errors import CredoError
    from .arguments import load_model

    # Where an option still waits for its value, what stands before it is among the words not yet read.
    given = ctx.params.get("model") or next(iter(ctx.args), "")
    try:
        return load_model(given).to_factor_graph().variables
    except (CredoError, OSError):
        return None
